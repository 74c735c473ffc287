"""The benchmark: scores as computed by hand, resuming, failures, and what it writes."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from unbend.baselines import KMeans
from unbend.experiments.benchmark import cells as benchmark_cells
from unbend.experiments.benchmark.cells import Cell, CellResult, _reason
from unbend.experiments.benchmark.plot import draw
from unbend.experiments.benchmark.run import parse_method, run
from unbend.experiments.benchmark.worker import fit_labels, main
from unbend.metrics import chance_scores, clustering_scores


@pytest.fixture
def blobs(tmp_path):
    """A data set on disk, as a user names it, and the arrays."""
    X, y = make_blobs(80, n_features=4, centers=3, cluster_std=3.0, random_state=0)
    np.save(tmp_path / "blobs.npy", X)
    np.save(tmp_path / "y.npy", y)
    return f"{tmp_path / 'blobs.npy'}@{tmp_path / 'y.npy'}", X, y


def _fake(outcome_of, calls):
    def run_fake(cell, samples, timeout):
        calls.append((cell.method, cell.seed, tuple(cell.params.items())))
        return outcome_of(cell, samples)

    return run_fake


def _score(cell, samples):
    pred = np.random.default_rng(cell.seed).integers(3, size=len(samples.y))
    sizes = tuple(np.bincount(pred).tolist())
    return CellResult(clustering_scores(samples.y, pred), 0.5 + cell.seed, 10**8, sizes)


def test_real_cells_score_what_the_methods_give_and_a_failure_leaves_the_rest(blobs, tmp_path):
    """A cell's process gives the score of the same fit here; invalid settings give the reason."""
    spec, X, y = blobs
    out = tmp_path / "out"
    table = run(["kmeans", "lsr:alpha=-1"], [spec], seeds=1, out=out, verbose=False)
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    expected = clustering_scores(y, KMeans(3, random_state=0).fit(X).labels_)
    assert rows["kmeans"]["ACC"] == f"{expected.acc:.3f}"
    assert rows["kmeans"]["AMI"] == f"{expected.ami:.3f}"
    assert float(rows["kmeans"]["peak MB"]) > 20
    assert float(rows["kmeans"]["CPU s"]) >= 0
    kept = [json.loads(cell.read_text()) for cell in (out / "cells").glob("*kmeans*")]
    assert kept[0]["cpu_seconds"] > 0
    assert rows["lsr:alpha=-1"]["note"] == "1 of 1 failed [1]"
    assert "[1] blobs, lsr:alpha=-1: ValueError: `alpha` of LSR must be" in table.notes[-1]
    assert rows["lsr:alpha=-1"]["ACC"] == ""
    assert "n = 80, split = all, 3 classes" in table.caption
    for name in ("benchmark.md", "benchmark.csv", "benchmark.png"):
        assert (out / name).stat().st_size > 100
    assert (out / "benchmark.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_does_only_what_is_missing(blobs, tmp_path, monkeypatch):
    """Finished cells are kept, failed ones tried again, another setting is another cell."""
    spec, _, y = blobs
    calls, broken = [], [True]

    def outcome(cell, samples):
        if cell.method == "tsc" and broken[0]:
            return CellResult(None, reason="ValueError: a | b")
        return _score(cell, samples)

    monkeypatch.setattr(benchmark_cells, "_run", _fake(outcome, calls))
    options = {"seeds": 2, "out": tmp_path / "out", "verbose": False}
    first = run(["kmeans", "tsc"], [spec], **options)
    assert len(calls) == 4
    assert first.rows[1][-1] == "2 of 2 failed [1]"
    assert first.notes[-1] == "[1] blobs, tsc: ValueError: a | b"
    calls.clear()
    broken[0] = False
    run(["kmeans", "tsc"], [spec], **options)
    assert calls == [("tsc", 0, ()), ("tsc", 1, ())]
    calls.clear()
    third = run(["kmeans", "kmeans:n_init=3"], [spec], **{**options, "seeds": 3})
    assert sorted(calls) == [("kmeans", 0, (("n_init", 3),)), ("kmeans", 1, (("n_init", 3),)),
                             ("kmeans", 2, ()), ("kmeans", 2, (("n_init", 3),))]  # fmt: skip
    calls.clear()
    run(["kmeans"], [spec], n_clusters=5, **options)
    assert len(calls) == 2
    # mean ± sd over the three seeds, and chance with the sizes of the first cell
    accuracies = [
        clustering_scores(y, np.random.default_rng(s).integers(3, size=80)).acc for s in range(3)
    ]
    mean, sd = np.mean(accuracies), np.std(accuracies, ddof=1)
    assert third.rows[0][3] == f"{mean:.3f} ± {sd:.3f}"
    assert third.rows[0][7] == "1.5 ± 1.0"
    chance = chance_scores(y, np.random.default_rng(0).integers(3, size=80))
    assert third.rows[-1][1].startswith("chance")
    assert abs(float(third.rows[-1][3]) - chance.acc) < 0.05


def test_other_code_is_another_cell(blobs, tmp_path, monkeypatch):
    """A result of old code is never attributed to a new commit."""
    spec, _, _ = blobs
    calls, commits = [], []
    monkeypatch.setattr(benchmark_cells, "_run", _fake(_score, calls))
    for code in ("old", "old", "new"):
        monkeypatch.setattr(benchmark_cells, "code_hash", lambda *rooms, code=code: code)
        monkeypatch.setattr(benchmark_cells, "origin", lambda code=code: code)
        run(["kmeans"], [spec], seeds=1, out=tmp_path / "out", verbose=False)
    cells = (tmp_path / "out" / "cells").iterdir()
    commits = sorted(json.loads(cell.read_text())["commit"] for cell in cells)
    assert len(calls) == 2
    assert commits == ["new", "old"]


def with_another_score(text):
    tree = json.loads(text)
    tree["scores"]["acc"] = 1.0
    return json.dumps(tree)


@pytest.mark.parametrize("damage", [with_another_score, lambda text: text[:40]])
def test_a_changed_or_cut_cell_is_run_again(blobs, tmp_path, monkeypatch, damage):
    spec, _, _ = blobs
    calls = []
    monkeypatch.setattr(benchmark_cells, "_run", _fake(_score, calls))
    for _ in range(2):
        run(["kmeans"], [spec], seeds=1, out=tmp_path / "out", verbose=False)
        (cell,) = (tmp_path / "out" / "cells").iterdir()
        assert json.loads(cell.read_text())["method"] == "kmeans"
        cell.write_text(damage(cell.read_text()))
    assert len(calls) == 2


def test_changed_samples_are_other_cells(blobs, tmp_path, monkeypatch):
    """A file of the same name with other content is not mistaken for the old one."""
    spec, X, _ = blobs
    calls = []
    monkeypatch.setattr(benchmark_cells, "_run", _fake(_score, calls))
    for array in (X, X + 1, X):
        np.save(spec.split("@")[0], array)
        run(["kmeans"], [spec], seeds=1, out=tmp_path / "out", verbose=False)
    assert len(calls) == 2


def test_other_true_labels_are_other_cells(blobs, tmp_path, monkeypatch):
    """Scores are kept, so those of wrong labels must not come back for corrected ones."""
    spec, _, y = blobs
    calls, tables = [], []
    monkeypatch.setattr(benchmark_cells, "_run", _fake(_score, calls))
    for labels in (y, np.roll(y, 1), y):
        np.save(spec.split("@")[1], labels)
        tables.append(run(["kmeans"], [spec], seeds=1, out=tmp_path / "out", verbose=False).rows)
    assert len(calls) == 2
    assert tables[0] == tables[2] != tables[1]


def test_noise_is_no_cluster_of_the_chance_row(blobs, tmp_path, monkeypatch):
    spec, _, y = blobs

    def score(cell, samples):
        pred = np.where(np.arange(len(y)) < 10, -1, y)
        sizes = tuple(np.unique(pred, return_counts=True)[1].tolist())
        return CellResult(clustering_scores(y, pred), 1.0, 10**8, sizes)

    monkeypatch.setattr(benchmark_cells, "_run", _fake(score, []))
    rows = run(["kmeans"], [spec], seeds=1, out=tmp_path / "out", verbose=False).rows
    assert [row[2] for row in rows] == ["3", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "no method is called 'nothing'; known: mlc, kmeans"),
        ("kmeans:n_init", "is not a setting; write it like gamma=20"),
        ("ensc:gama=2", "has no parameter 'gama'; known: gamma, l1_ratio"),
    ],
)
def test_methods_are_rejected_with_what_is_known(text, message):
    """Before anything runs."""
    with pytest.raises(ValueError, match=message):
        parse_method(text)


def test_settings_are_read_as_values():
    """Numbers, truth values and words."""
    params = parse_method("lsr:alpha=0.5,zero_diagonal=False").params
    assert params == {"alpha": 0.5, "zero_diagonal": False}
    assert parse_method("mlc:pretrain=none,epochs=3").params == {"pretrain": "none", "epochs": 3}


def test_bad_requests_are_rejected(blobs, tmp_path):
    """No labels, no seeds, no methods."""
    spec, _, _ = blobs
    with pytest.raises(ValueError, match="brings no true labels"):
        run(["kmeans"], [spec.split("@")[0]], out=tmp_path, verbose=False)
    with pytest.raises(ValueError, match="`seeds` of a benchmark must be >= 1"):
        run(["kmeans"], [spec], seeds=0, out=tmp_path, verbose=False)
    with pytest.raises(ValueError, match="at least one method"):
        run([], [spec], out=tmp_path, verbose=False)


def test_images_are_flattened_for_methods_of_vectors():
    """uint8 images give the labels of their pixels as vectors."""
    X = np.random.default_rng(0).integers(0, 255, (40, 5, 5), dtype=np.uint8)
    labels, times = fit_labels(X, "kmeans", 3, 0, {})
    again, _ = fit_labels(X.reshape(40, -1).astype(np.float32), "kmeans", 3, 0, {})
    np.testing.assert_array_equal(labels, again)
    assert times["seconds"] > 0
    assert times["cpu_seconds"] > 0


def test_a_cell_says_in_one_line_why_it_failed(tmp_path, capsys):
    """Exit code 1, the error's type and first line."""
    np.save(tmp_path / "X.npy", np.zeros((4, 2)))
    job = {"X": str(tmp_path / "X.npy"), "method": "tsc", "n_clusters": 9, "seed": 0, "params": {}}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(str(tmp_path / "job.json"), str(tmp_path / "labels.npy")) == 1
    error = capsys.readouterr().err.strip()
    assert error.startswith("ValueError: n_clusters=9 of TSC must be at most n_samples=4")
    assert "\n" not in error
    assert not (tmp_path / "labels.npy").exists()


def test_reasons_name_signals():
    """A process that the system ended has no message of its own."""
    assert _reason(-9, "") == "ended by SIGKILL, perhaps out of memory"
    assert _reason(1, "noise\nValueError: x\n") == "ValueError: x"


def test_keys_tell_every_setting_apart():
    """Method, parameters, seed, k and data."""
    base = Cell("ensc", {"gamma": 2}, 0, 3)
    others = [Cell("lsr", {"gamma": 2}, 0, 3), Cell("ensc", {"gamma": 3}, 0, 3),
              Cell("ensc", {"gamma": 2}, 1, 3), Cell("ensc", {"gamma": 2}, 0, 4)]  # fmt: skip
    keys = {cell.key("data") for cell in (base, *others)} | {base.key("other")}
    assert len(keys) == 6


def test_picture_shows_every_method_chance_and_failures():
    """Two methods, one failed."""
    y, pred = np.repeat([0, 1], 10), np.tile([0, 1], 10)
    good = CellResult(clustering_scores(y, pred), 2.0, 10**8, (10, 10))
    found = {"kmeans": [good, good], "ensc": [CellResult(None, reason="no")]}
    figure = draw([("blobs", found, chance_scores(y, pred))])
    left, right = figure.axes
    assert [text.get_text() for text in left.get_yticklabels()] == ["kmeans", "ensc"]
    assert any("failed" in text.get_text() for text in right.texts)
    assert any("100 MB" in text.get_text() for text in right.texts)
