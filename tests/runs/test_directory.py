import csv
import json
import os

import numpy as np
import pytest

from unbend.runs import RunDirectory, write_model

PLAIN = [
    "plain.png",
    "a,b.png",
    'quo"te.png',
    "new\nline.png",
    "carriage\rreturn",
    " leading space",
    "日本/Ωμέγα/é.png",
    "👩‍🔬.png",
    "semi;colon\ttab",
    "",
    "'quoted'",
]
FORMULAS = ["=1+1", "+1", "-1", "@x", '=HYPERLINK("http://example.org")', "\t=1"]


def read(path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def write(run: RunDirectory, samples: list[str]) -> None:
    n = len(samples)
    labels = np.arange(n, dtype=np.int64)
    run.write_labels(samples, labels, np.linspace(0, 1, n), np.linspace(1, 0, n, dtype=np.float32))


def test_labels_open_as_written(tmp_path):
    write(RunDirectory(tmp_path / "run"), PLAIN)
    header, *rows = read(tmp_path / "run" / "labels.csv")
    assert header == ["sample", "cluster", "probability", "outlier_score"]
    assert [row[0] for row in rows] == PLAIN
    assert [int(row[1]) for row in rows] == list(range(len(PLAIN)))
    expected = np.linspace(0, 1, len(PLAIN))
    np.testing.assert_allclose([float(row[2]) for row in rows], expected, atol=1e-6)
    np.testing.assert_allclose([float(row[3]) for row in rows], expected[::-1], atol=1e-6)


def test_names_like_formulas_become_text(tmp_path):
    write(RunDirectory(tmp_path / "run"), FORMULAS)
    rows = read(tmp_path / "run" / "labels.csv")[1:]
    assert [row[0] for row in rows] == ["'" + name for name in FORMULAS]


def test_names_that_are_not_unicode_are_written(tmp_path):
    write(RunDirectory(tmp_path / "run"), [os.fsdecode(b"caf\xe9.png")])
    assert read(tmp_path / "run" / "labels.csv")[1][0] == "caf\\udce9.png"


def test_lengths_that_differ_write_nothing(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(ValueError, match="equally long"):
        run.write_labels(["a", "b"], np.zeros(3, int), np.zeros(3), np.zeros(3))
    assert not run.path.exists()


def test_history_has_a_row_per_step_and_blanks(tmp_path):
    run = RunDirectory(tmp_path / "run")
    history = [
        {"stage": "stage 1", "step": 0, "R": 1.25, "R_c": None, "rank": 3},
        {"stage": "stage 2", "step": 0, "R": 2.5, "R_c": 1 / 3, "rank": None},
    ]
    run.write_history(history)
    rows = read(run.path / "history.csv")
    assert rows[:2] == [["stage", "step", "R", "R_c", "rank"], ["stage 1", "0", "1.25", "", "3"]]
    assert float(rows[2][3]) == 1 / 3  # every digit
    assert rows[2][4] == ""


def test_an_empty_history_is_a_header(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.write_history([])
    assert read(run.path / "history.csv") == [["stage", "step"]]


def test_json_is_readable_by_people_and_machines(tmp_path):
    run = RunDirectory(tmp_path / "run")
    tree = {"seed": 0, "name": "Γ", "scale": (0.04, 1.0), "k": np.int64(3)}
    run.write_json("config.json", tree)
    text = (run.path / "config.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"seed": 0, "name": "Γ", "scale": [0.04, 1.0], "k": 3}
    assert "Γ" in text
    assert text.endswith("}\n")


# ---------------------------------------------------------------- what is there already


def names(path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def test_missing_parents_are_made(tmp_path):
    run = RunDirectory(tmp_path / "a" / "b" / "run")
    assert not run.path.parent.exists()  # nothing is left behind by a run that never wrote
    run.write_json("config.json", {"seed": 0})
    assert (tmp_path / "a" / "b" / "run" / "config.json").is_file()


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_empty_directory_is_used(tmp_path, overwrite):
    write(RunDirectory(tmp_path, overwrite=overwrite), ["a"])
    assert names(tmp_path) == ["labels.csv", "labels.parquet"]


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("foreign", ["thesis.txt", ".hidden", "notes.tmp", "labels.csv.bak"])
def test_a_foreign_directory_is_refused_untouched(tmp_path, overwrite, foreign):
    (tmp_path / "labels.csv").write_text("mine")
    (tmp_path / foreign).write_text("mine")
    with pytest.raises(ValueError, match=rf"holds files of something else \('{foreign}'\)"):
        RunDirectory(tmp_path, overwrite=overwrite)
    assert {(tmp_path / n).read_text() for n in names(tmp_path)} == {"mine"}


def test_an_earlier_run_is_refused_unless_allowed(tmp_path):
    write(RunDirectory(tmp_path), ["old"])
    with pytest.raises(ValueError, match="holds a run already; name a new directory or pass"):
        RunDirectory(tmp_path)
    write(RunDirectory(tmp_path, overwrite=True), ["new"])
    assert read(tmp_path / "labels.csv")[1][0] == "new"


def test_a_file_in_the_place_is_refused(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ValueError, match="is a file; name a directory for the run"):
        RunDirectory(tmp_path / "run", overwrite=True)
    assert (tmp_path / "run").read_text() == "a file"


def old_run(path) -> None:
    run = RunDirectory(path)
    write(run, ["old"])
    run.write_history([])
    run.write_json("metrics.json", {"ACC": 0.99})
    write_model(path / "model", {}, {"run": "old"})


def test_an_old_score_never_lies_beside_new_labels(tmp_path):
    old_run(tmp_path)
    run = RunDirectory(tmp_path, overwrite=True)
    old = ["history.csv", "labels.csv", "labels.parquet", "metrics.json", "model"]
    assert names(tmp_path) == old  # until then
    write(run, ["new"])
    assert names(tmp_path) == ["labels.csv", "labels.parquet"]
    run.write_json("config.json", {})
    assert names(tmp_path) == ["config.json", "labels.csv", "labels.parquet"]


def test_a_new_model_survives_whatever_is_written_after_it(tmp_path):
    old_run(tmp_path)
    run = RunDirectory(tmp_path, overwrite=True)
    write_model(run.path / "model", {}, {"run": "new"})
    write(run, ["new"])
    assert names(tmp_path) == ["labels.csv", "labels.parquet", "model"]
    assert json.loads((tmp_path / "model" / "model.json").read_text())["run"] == "new"


def test_what_a_killed_run_left_half_written_is_no_obstacle(tmp_path):
    (tmp_path / ".labels.csv.x1y2.tmp").write_text("half")
    (tmp_path / ".model.old.x1y2.tmp").mkdir()
    (tmp_path / ".model.old.x1y2.tmp" / "old").mkdir()
    write(RunDirectory(tmp_path), ["new"])
    assert names(tmp_path) == ["labels.csv", "labels.parquet"]
