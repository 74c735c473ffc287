"""A real model, its run directory, and the report of both."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from unbend import MLC, __version__
from unbend.report import (
    compare_with_truth,
    facts_of_model,
    facts_of_run,
    make_thumbnails,
    summarise,
    write_report,
)
from unbend.runs import LabelRows, RunDirectory, labels_file


@pytest.fixture(scope="module")
def fitted():
    X, y = make_blobs(90, centers=[[0, 0, 9], [9, 0, 0], [0, 9, 0]], random_state=0)
    settings = {"pretrain_epochs": 2, "epochs": 2}
    return MLC(n_clusters=3, random_state=5, **settings).fit(X), X, y.astype(np.int64)


@pytest.fixture
def run(fitted, tmp_path):
    """The results of a run, written by hand; ``path`` is where they are."""
    model, X, _ = fitted
    said = model.assess(X)
    directory = RunDirectory(tmp_path / "blobs run")
    directory.begin({})
    directory.begin_results({})
    names = [f"=row {i}" if i == 3 else f"row {i}" for i in range(len(X))]
    rows = LabelRows(names, model.labels_, said.probabilities.max(axis=1), said.outlier_score)
    for name in ("labels.csv", "labels.parquet"):
        with labels_file(directory.results / name) as write:
            write(rows)
    directory.write_history(model.history_)
    directory.write_json("config.json", {"seed": 5, **model.config_.to_dict()})
    np.save(directory.results / "features.npy", said.Z.astype(np.float32))
    model.save(directory.results / "model")
    return directory


def test_facts_of_a_model(fitted):
    model, X, y = fitted
    found = summarise(model, X, y=y, title="blobs", seconds=1.5)
    assert found["about"]["seed"] == 5
    assert found["about"]["version"] == __version__
    assert found["confidence"] == pytest.approx(model.predict_proba(X).max(1).mean())
    assert found["truth"]["scores"]["n"] == 90
    assert found["thumbnails"] is None
    assert [c["size"] for c in found["clusters"]] == np.bincount(model.labels_).tolist()
    with pytest.raises(ValueError, match="must be the 90 samples of fit, got 5"):
        facts_of_model(model, X[:5])


def test_images_beside_embeddings(fitted):
    model, X, _ = fitted
    images = np.random.default_rng(0).integers(0, 255, (90, 3, 16, 16), dtype=np.uint8)
    facts = facts_of_model(model, X, images=images)
    assert facts.thumbnails.shape == (90, 16, 16, 3)
    assert facts.about["kind"] == "images"


def test_run_and_model_agree(run, fitted):
    model, X, _ = fitted
    read, live = facts_of_run(run.results), facts_of_model(model, X)
    np.testing.assert_array_equal(read.labels, live.labels)
    np.testing.assert_allclose(read.probability, live.probability, atol=1e-6)
    np.testing.assert_allclose(read.features, live.features, atol=1e-6)
    np.testing.assert_array_equal(read.merge_tree, live.merge_tree)
    np.testing.assert_array_equal(read.eigenvalues, live.eigenvalues)
    assert read.outlier_threshold == live.outlier_threshold
    assert [row["R"] for row in read.history] == [row["R"] for row in live.history]
    assert read.names[3] == "=row 3"
    assert read.about["title"] == "results"  # the folder, as there is no manifest yet


def test_csv_serves_where_parquet_is_missing(run):
    whole = facts_of_run(run.results)
    (run.results / "labels.parquet").unlink()
    read = facts_of_run(run.results)
    assert list(read.names) == list(whole.names)
    np.testing.assert_array_equal(read.labels, whole.labels)


def test_everything_a_run_may_hold(run, fitted):
    model, _, y = fitted
    images = np.random.default_rng(0).integers(0, 255, (90, 3, 64, 64), dtype=np.uint8)
    thumbnails, indices = make_thumbnails(images, size=24, cap=60, labels=model.labels_)
    np.save(run.results / "thumbnails.npy", thumbnails)
    run.write_json("thumbnails.json", {"indices": indices})
    truth = compare_with_truth(y, model.labels_, classes=["a", "b", "c"], split="train")
    contingency = {key: truth[key] for key in ("classes", "clusters", "table")}
    metrics = {"data": "blobs", "split": "train", "MLC": truth["scores"]}
    run.write_json(
        "metrics.json", {**metrics, "chance": truth["chance"], "contingency": contingency}
    )
    manifest = {"data": {"name": "blobs", "split": "train", "kind": "images"}, "seed": 5}
    manifest |= {"software": {"unbend": "1.2.3"}, "seconds": {"reading": 1.0, "training": 64.0}}
    manifest |= {"warnings": ["careful"], "encoder": {"name": "lite2"}, "n_trained": 50}
    run.write_json("manifest.json", manifest)
    run.write_table("broken.csv", ["path", "reason"], [["x.png", "truncated"]])
    path = write_report(run.results)
    assert path == run.results / "report.html"
    page = path.read_text(encoding="utf-8")
    for text in ("1 min 5 s", "unbend 1.2.3", "seed 5", "careful", "x.png", "truncated"):
        assert text in page
    for text in ("encoder lite2", "trained on 50 of them", "split “train”", "Principal images"):
        assert text in page
    assert summarise(facts_of_run(run.results))["truth"] == truth


def test_true_labels_may_come_from_the_caller(run, fitted, tmp_path):
    _, _, y = fitted
    path = write_report(run.results, out=tmp_path / "elsewhere.html", y=y, classes=["a", "b", "c"])
    assert "Against true labels" in path.read_text(encoding="utf-8")
    assert not (run.results / "report.html").exists()


def test_labels_are_enough(run):
    for name in ("features.npy", "history.csv", "config.json"):
        (run.results / name).unlink()
    (run.results / "model" / "model.json").rename(run.results.parent / "m")
    (run.results / "model" / "model.safetensors").unlink()
    (run.results / "model").rmdir()
    assert "Cluster 2" in write_report(run.results).read_text(encoding="utf-8")


def test_damaged_files_raise(run, tmp_path):
    with pytest.raises(ValueError, match="no run directory"):
        write_report(tmp_path / "nowhere")
    (run.results / "features.npy").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"features.npy' is damaged"):
        write_report(run.results)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3"
    head = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    (run.results / "features.npy").write_bytes(head + header)
    with pytest.raises(ValueError, match=r"features.npy' is damaged: EOF"):
        write_report(run.results)
    np.save(run.results / "features.npy", np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(ValueError, match="`features` of the report must have one entry per sample"):
        write_report(run.results)
    (run.results / "model" / "model.json").write_text(json.dumps({"format": 1, "labels": {}}))
    with pytest.raises(ValueError, match="is not a model of this version"):
        write_report(run.results)
    (run.results / "labels.parquet").unlink()
    (run.results / "labels.csv").write_text("sample,cluster\na,b\n")
    with pytest.raises(ValueError, match=r"labels.csv' is damaged"):
        write_report(run.results)


def test_card_for_notebooks(fitted):
    model, _, _ = fitted
    html = model._repr_html_()
    assert "3 clusters of 90 samples" in html
    assert html.count('title="cluster ') == 3
    assert f"{model.history_[-1]['R']:.1f}" in html
    assert "stage 2" in html
    assert "sk-" in html  # scikit-learn's diagram is still there
    assert "clusters of" not in MLC()._repr_html_()
    assert model._repr_mimebundle_()["text/html"].startswith("<div")
