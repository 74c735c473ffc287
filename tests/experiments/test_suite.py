"""The suite on problems of a few samples, with cells that need no process."""

from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import make_blobs

from unbend.cli.app import main
from unbend.experiments.benchmark import cells as benchmark_cells
from unbend.experiments.benchmark.cells import Cell, CellResult, run_cell
from unbend.experiments.benchmark.datasets import Dataset
from unbend.experiments.suite import problems
from unbend.experiments.suite import run as suite
from unbend.experiments.suite.table import make_details
from unbend.metrics import chance_scores, clustering_scores


def _blobs(n, k, seed):
    X, y = make_blobs(n, n_features=4, centers=k, cluster_std=0.5, random_state=seed)
    return X.astype(np.float32), y.astype(np.int64)


@pytest.fixture(autouse=True)
def small_lists(monkeypatch):
    """Two problems of development, one of them large enough for the note about seeds."""
    small = {"few": lambda: _blobs(60, 3, 0), "many": lambda: _blobs(1000, 4, 1)}
    monkeypatch.setitem(problems.LISTS, "development", small)
    monkeypatch.setitem(problems.LISTS, "test", {"other": lambda: _blobs(60, 2, 2)})


def _labels(samples, cell):
    """The worse a method, the more labels are drawn at random."""
    share = {"mlc": 0.0, "kmeans": 0.1, "lsr": 0.3}[cell.method] + 0.05 * cell.seed
    rng = np.random.default_rng(cell.seed)
    random = rng.integers(samples.n_classes, size=len(samples.y))
    return np.where(rng.uniform(size=len(samples.y)) < share, random, samples.y)


@pytest.fixture
def cells(monkeypatch):
    """Cells that answer at once; TSC on `many` takes too long. Returns what was run."""
    calls = []

    def run(cell, samples, timeout):
        calls.append((samples.name, cell.method, cell.seed, timeout))
        if cell.method == "tsc" and samples.name == "many":
            return CellResult(None, reason="took too long", limit=timeout)
        if cell.method == "tsc":
            return CellResult(None, reason="ValueError: no")
        pred = _labels(samples, cell)
        seconds = 41.0 + cell.seed if cell.method == "mlc" else 1.0
        return CellResult(clustering_scores(samples.y, pred), seconds, 10**6, (1,))

    monkeypatch.setattr(benchmark_cells, "_run", run)
    return calls


METHODS = "kmeans,tsc,mlc,lsr"


def _rows(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _scores(name, method):
    """What the cells of three seeds must score, computed by hand."""
    y = _blobs(60, 3, 0)[1] if name == "few" else _blobs(1000, 4, 1)[1]
    samples = SimpleNamespace(y=y, n_classes=len(np.unique(y)))
    each = [_labels(samples, SimpleNamespace(method=method, seed=s)) for s in range(3)]
    return [clustering_scores(y, labels) for labels in each]


def test_the_summary_ranks_methods_over_all_problems(cells, tmp_path):
    table = suite.run(methods=METHODS, out=tmp_path / "out", verbose=False)
    rows = {row["method"]: row for row in _rows(table)}
    assert [*rows] == ["mlc", "kmeans", "lsr", "tsc", "chance, true sizes"]
    assert [row["mean rank ARI"] for row in rows.values()] == ["1.00", "2.00", "3.00", "4.00", ""]
    assert (rows["mlc"]["first by ARI"], rows["mlc"]["first by NMI"]) == ("2", "2")
    assert rows["mlc"]["seconds"] == "84"  # 42 s in the mean, on two problems
    assert (rows["tsc"]["finished"], rows["tsc"]["ACC"]) == ("0 of 2", "")
    for column in ("ACC", "NMI", "AMI", "ARI"):
        each = [
            getattr(s, column.lower()) for name in ("few", "many") for s in _scores(name, "lsr")
        ]
        assert rows["lsr"][column] == f"{np.mean(each):.3f}"
    name = "suite-development-kmeans-tsc-mlc-lsr"
    for end in (".md", ".csv", ".json", ".png", "-problems.md", "-problems.csv"):
        assert (tmp_path / "out" / f"{name}{end}").stat().st_size > 50


def test_the_details_have_every_problem_with_its_chance(cells, monkeypatch):
    kept = []
    monkeypatch.setattr(suite, "make_details", lambda r: kept.append(make_details(r)) or kept[0])
    suite.run(methods=METHODS, verbose=False)
    (table,) = kept
    few = {row["method"]: row for row in _rows(table) if row["problem"] == "few"}
    assert [*few] == ["kmeans", "tsc", "mlc", "lsr", "chance, true sizes"]
    assert (few["lsr"]["n"], few["lsr"]["k"]) == ("60", "3")
    for column in ("ACC", "NMI", "AMI", "ARI"):
        values = [getattr(s, column.lower()) for s in _scores("few", "lsr")]
        assert few["lsr"][column] == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
    assert few["lsr"]["rank NMI"] == "3"
    y = _blobs(60, 3, 0)[1]
    assert few["chance, true sizes"]["ACC"] == f"{chance_scores(y, y).acc:.3f}"
    assert few["tsc"]["note"] == "3 of 3 failed [1]"
    assert few["tsc"]["ACC"] == ""
    assert "[1] few, tsc: ValueError: no" in table.notes


def test_the_notes_say_what_the_list_is_for_and_where_mlc_is_worst(cells):
    notes = suite.run(methods="mlc,kmeans,lsr", verbose=False).notes
    assert notes[0].startswith("These problems are the ones that constants were chosen on.")
    gaps = {
        name: np.mean([s.acc for s in _scores(name, "mlc")])
        - np.mean([s.acc for s in _scores(name, "kmeans")])
        for name in ("few", "many")
    }
    worst = min(gaps, key=gaps.get)
    assert f"ACC of MLC minus k-means is least on {worst}: {gaps[worst]:+.3f}." in notes
    deviation = np.std([s.acc for s in _scores("many", "mlc")], ddof=1)  # `few` has few samples
    text = "Largest deviation of MLC's ACC over seeds where n ≥ 1000"
    assert f"{text}: {deviation:.3f} on many." in notes
    other = suite.run(list="test", methods="mlc,kmeans", seeds=1, verbose=False).notes
    assert other[0].startswith("The rules of MLC were chosen on the list `development`.")


def test_peers_get_five_times_the_time_of_mlc_and_the_late_are_not_tried_again(cells):
    suite.run(methods=METHODS, verbose=False)
    assert [call[1] for call in cells[:3]] == ["mlc"] * 3
    assert {call[3] for call in cells if call[1] == "mlc"} == {suite.MOST}
    assert {call[3] for call in cells if call[1] != "mlc"} == {5 * 42.0}
    assert [call for call in cells if call[:2] == ("many", "tsc")] == [("many", "tsc", 0, 210.0)]
    cells.clear()
    suite.run(methods=METHODS, verbose=False)
    assert [call[:3] for call in cells] == [("few", "tsc", s) for s in range(3)]  # errors are
    cells.clear()
    suite.run(methods="kmeans", seeds=4, verbose=False)
    assert [call[:3] for call in cells] == [("few", "kmeans", 3), ("many", "kmeans", 3)]


def test_a_cell_that_was_late_is_run_again_with_more_time(cells, tmp_path):
    X, y = _blobs(60, 3, 0)
    samples = Dataset("many", "all", tmp_path / "X.npy", "hash", X.shape, y)
    for timeout in (10, 10, 5, 20, None):
        run_cell(Cell("tsc", {}, 0, 3), samples, tmp_path, timeout)
    assert [call[3] for call in cells] == [10, 20, None]


def test_limits_without_mlc_and_for_short_runs():
    def done(seconds):
        return CellResult(clustering_scores([0, 1], [0, 1]), seconds)

    assert suite.time_limit([done(30), done(50)]) == 200
    assert suite.time_limit([done(1)]) == suite.LEAST
    assert suite.time_limit([CellResult(None, reason="no")]) == suite.MOST
    assert suite.time_limit([]) == suite.MOST


def test_a_real_cell(tmp_path):
    table = suite.run(data="few", methods="kmeans", seeds=1, out=tmp_path / "out", verbose=False)
    assert table.rows[0][5:9] == ["1.000"] * 4  # the blobs are far apart


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--list", "all"], "`list` must be one of development, test, got 'all'"),
        (["--data", "few,none"], "the development list has no problem 'none'; known: few, many"),
        (["--methods", "no"], "no method is called 'no'"),
        (["--scale", "full"], "experiment 'suite' takes no --scale"),
    ],
)
def test_wrong_calls_give_a_one_line_error(words, message, tmp_path):
    done = CliRunner().invoke(main, ["reproduce", "suite", *words, "-o", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "out").exists()


def test_missing_data_stops_the_suite_before_any_cell(cells, monkeypatch, tmp_path):
    """One line that names the remedy, from the command too."""
    monkeypatch.setitem(problems.LISTS["development"], "last", lambda: problems._table("vowel"))
    monkeypatch.setenv("UNBEND_DATA", str(tmp_path))
    done = CliRunner().invoke(main, ["reproduce", "suite", "-q", "-o", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "install it with `make data`" in done.output
    assert not cells
