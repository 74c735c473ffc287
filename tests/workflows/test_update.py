"""``unbend update``: the run keeps its labels, its model grows, and a history is kept."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from unbend.cli.app import main
from unbend.estimator import load
from unbend.runs import check_files
from unbend.workflows import cluster, predict, update


def blobs(each: int, groups: list[int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = 9 * np.eye(5)[groups]
    return np.repeat(centres, each, axis=0) + 0.4 * rng.standard_normal((each * len(groups), 5))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("update") / "run"
    X = blobs(60, [0, 1, 2], 0)
    settings = {"pretrain.epochs": 4, "stage2.epochs": 2, "views.metric": "euclidean"}
    cluster(X, n_clusters=3, out=folder, seed=0, settings=settings, report=False)
    return folder


def clusters(path: Path) -> np.ndarray:
    with path.open(newline="") as file:
        return np.array([int(row["cluster"]) for row in csv.DictReader(file)])


def test_a_run_grows_by_updates(run: Path, tmp_path: Path) -> None:
    before = (run / "labels.csv").read_bytes()
    few = update(run, blobs(5, [0, 3], 1), out=tmp_path / "few.csv")
    assert few.new_clusters == []
    assert (clusters(tmp_path / "few.csv")[5:] == -1).all()
    assert "no new cluster" in few.summary()

    np.save(tmp_path / "new.npy", blobs(30, [1, 3], 2))
    call = ["update", str(run), str(tmp_path / "new.npy"), "-o", str(tmp_path / "new.csv"), "-q"]
    said = CliRunner().invoke(main, call)
    assert said.exit_code == 0, said.output
    assert "new cluster 3: " in said.output
    assert "had waited" in said.output
    found = clusters(tmp_path / "new.csv")
    assert (found[30:] == 3).mean() > 0.75  # the outermost wait
    assert (found[:30] >= 0).mean() > 0.9
    assert 3 not in found[:30]

    assert (run / "labels.csv").read_bytes() == before
    with (run / "updates.csv").open(newline="") as file:
        history = list(csv.DictReader(file))
    assert [row["samples"] for row in history] == ["10", "60"]
    assert [row["new_clusters"] for row in history] == ["", "3"]
    assert history[1]["input"].endswith("new.npy")
    check_files(run)  # the manifest knows the new model
    assert len(load(run).updates_) == 2
    predict(run, blobs(20, [3], 3), out=tmp_path / "later.csv")
    assert (clusters(tmp_path / "later.csv") == 3).mean() > 0.75


def test_a_saved_model_grows_too(run: Path, tmp_path: Path) -> None:
    load(run).save(tmp_path / "model")
    n = len(load(run).updates_)
    update(tmp_path / "model", blobs(4, [0], 5), out=tmp_path / "labels.csv")
    assert len(load(tmp_path / "model").updates_) == n + 1
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "model.json",
        "model.safetensors",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (["--min-size", "2"], "2 is not in the range x>=8"),
        (["-o", "labels.txt"], "-o must end in .csv or .parquet"),
    ],
)
def test_bad_calls_change_nothing(run: Path, tmp_path: Path, call: list[str], message: str) -> None:
    np.save(tmp_path / "new.npy", blobs(5, [0], 6))
    model = (run / "model" / "model.json").read_bytes()
    said = CliRunner().invoke(main, ["update", str(run), str(tmp_path / "new.npy"), *call])
    assert said.exit_code == 2
    assert message in said.output
    assert (run / "model" / "model.json").read_bytes() == model


def test_samples_of_another_width_change_nothing(run: Path, tmp_path: Path) -> None:
    model = (run / "model" / "model.json").read_bytes()
    with pytest.raises(ValueError, match="9 features"):
        update(run, np.ones((4, 9)), out=tmp_path / "labels.csv")
    assert (run / "model" / "model.json").read_bytes() == model
    assert not (tmp_path / "labels.csv").exists()


def test_an_existing_table_is_kept(run: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("mine")
    with pytest.raises(ValueError, match="already exists"):
        update(run, blobs(4, [0], 7), out=tmp_path / "labels.csv")
    assert (tmp_path / "labels.csv").read_text() == "mine"
