"""The page of results holds what commands wrote, and nothing else."""

import json

import pytest

from unbend.disk import provenance
from unbend.experiments.results_page import main, write_results_page
from unbend.metrics.tables import Table


def test_page_has_table_picture_command_and_commit(tmp_path, monkeypatch):
    """In the order of the experiments, with the command of the time of writing."""
    results = tmp_path / "results"
    monkeypatch.setattr(
        "sys.argv", ["/somewhere/bin/unbend", "reproduce", "table8", "--seeds", "5"]
    )
    Table("later", ["a"], [["1"]], ["a note"]).saved(results, "table8")
    Table("other", ["a"], [["3"]]).saved(results, "a-benchmark")
    monkeypatch.setattr("sys.argv", ["unbend", "reproduce", "figure1"])
    Table("first", ["a"], [["2"]]).saved(results, "figure1")
    (results / "figure1.png").write_bytes(b"picture")
    page = write_results_page(results, tmp_path / "docs" / "results.md").read_text(encoding="utf-8")
    assert page.index("first") < page.index("later") < page.index("other")
    assert f"Command `unbend reproduce table8 --seeds 5`, commit `{provenance.origin()}`." in page
    assert "a note" in page
    assert "| 2 |" in page
    assert "](results/figure1.png)" in page
    assert (tmp_path / "docs" / "results" / "figure1.png").read_bytes() == b"picture"


def test_results_page_contains_no_local_paths(tmp_path, monkeypatch):
    """A command is shown as others would type it."""
    out = str(tmp_path / "runs" / "results")
    monkeypatch.setattr("sys.argv", ["unbend", "reproduce", "table8", "-o", out])
    Table("t", ["a"], [["1"]]).saved(tmp_path, "table8")
    page = write_results_page(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "Command `unbend reproduce table8 -o runs/results`" in page
    assert str(tmp_path) not in page


def test_a_table_without_origin_is_rejected(tmp_path):
    """Every table needs a record of its command and commit."""
    (tmp_path / "mine.md").write_text("| a |\n")
    with pytest.raises(ValueError, match=r"mine\.md has no record of the command"):
        write_results_page(tmp_path, tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()


def test_a_bar_stays_within_its_cell():
    """As many cells in a row as there are columns."""
    text = Table("caption", ["|a|", "b"], [["|cos| of x", "1"]]).markdown()
    assert r"| \|cos\| of x | 1 |" in text
    assert r"| \|a\| | b |" in text


def test_no_tables_gives_a_one_line_error(tmp_path):
    """The command says what to run first."""
    with pytest.raises(SystemExit, match="no tables in"):
        main([str(tmp_path / "none"), str(tmp_path / "page.md")])


def test_reused_results_name_their_commit(tmp_path, monkeypatch):
    """A table that uses work of another commit says so."""
    monkeypatch.setattr(provenance, "_kept", {"abc1234", provenance.origin()})
    Table("t", ["a"], [["1"]]).saved(tmp_path, "table2")
    assert json.loads((tmp_path / "table2.json").read_text())["kept_from"] == ["abc1234"]
    page = write_results_page(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    assert "kept from `abc1234`" in page


def test_tables_of_one_experiment_stand_together(tmp_path):
    """Another scale has a name of its own and the experiment's title."""
    for name in ("views-small", "recipe", "views"):
        Table(f"caption of {name}", ["a"], [["1"]]).saved(tmp_path, name)
    page = write_results_page(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    places = [page.index(f"caption of {name}") for name in ("views", "views-small", "recipe")]
    assert places == sorted(places)
    assert "## views-small: neighbours, cached and live views" in page
