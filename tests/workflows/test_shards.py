"""Shards without a cluster: every sample exactly once, the same labels as in one piece."""

import io
import json
import os
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from unbend.runs import read_labels
from unbend.workflows import cluster, embed, predict, pretrain
from unbend.workflows.shards import Job, ShardedOutput, Unit, Worker, list_units

QUICK = {"pretrain.epochs": 1, "pretrain.min_steps": 2, "stage2.epochs": 1, "stage2.min_steps": 2}
N_IMAGES = 20


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run on vectors, one on images, an encoder, and their inputs in shards."""
    folder = tmp_path_factory.mktemp("shards")
    before = os.environ.get("UNBEND_CACHE")
    os.environ["UNBEND_CACHE"] = str(folder / "cache")
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(3) * 9, 30, axis=0) + rng.normal(size=(90, 3))
    np.save(folder / "x.npy", X)
    (folder / "parquet").mkdir()
    for i, part in enumerate(np.array_split(X, 4)):
        table = pa.table({f"c{j}": part[:, j] for j in range(3)})
        pq.write_table(table, folder / "parquet" / f"{i}.parquet")
    images(folder, rng)
    cluster(X, out=folder / "run", n_clusters=3, settings=QUICK, report=False)
    small = {"settings": QUICK, "image_size": 8}
    cluster(folder / "photos", out=folder / "images", n_clusters=2, encoder="none", report=False,
            **small)  # fmt: skip
    pretrain(folder / "photos", out=folder / "encoder", **small)
    yield folder
    os.environ.pop("UNBEND_CACHE") if before is None else os.environ.update(UNBEND_CACHE=before)


def images(folder, rng):
    (folder / "photos").mkdir()
    (folder / "tars").mkdir()
    for shard in range(2):
        with tarfile.open(folder / "tars" / f"{shard}.tar", "w") as archive:
            for i in range(shard * N_IMAGES // 2, (shard + 1) * N_IMAGES // 2):
                pixels = rng.integers(0, 99, (12, 12, 3), dtype=np.uint8) + 60 * (i % 2)
                data = io.BytesIO()
                Image.fromarray(pixels.astype(np.uint8)).save(data, "PNG")
                (folder / "photos" / f"{i:02d}.png").write_bytes(data.getvalue())
                add(archive, f"{i:02d}.png", data.getvalue())
                add(archive, f"{i:02d}.json", b"{}")


def add(archive, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def work(job, source):
    units, out = list_units(source), ShardedOutput(job.out)
    out.begin({}, resume=False)
    worker = Worker(job)
    parts = [worker(unit) for unit in units]
    assert [part.error for part in parts] == [""] * len(units)
    return out, units


def column(out, units, name):
    return np.concatenate([pq.read_table(out.part(u.number))[name].to_numpy() for u in units])


@pytest.mark.parametrize(
    ("model", "source", "whole"),
    [("run", "parquet", "x.npy"), ("images", "photos", "photos"), ("images", "tars", "photos")],
)
def test_labels_are_those_of_one_piece(place, tmp_path, monkeypatch, model, source, whole):
    monkeypatch.setattr("unbend.workflows.shards.IMAGES_PER_UNIT", 7)
    job = Job("predict", str(tmp_path / "out"), run=str(place / model))
    out, units = work(job, place / source)
    predict(place / model, str(place / whole), out=tmp_path / "whole.parquet")
    expected = read_labels(tmp_path / "whole.parquet")
    assert len(units) > 1
    np.testing.assert_array_equal(column(out, units, "cluster"), expected.labels)
    np.testing.assert_allclose(
        column(out, units, "outlier_score"), expected.outlier_score, atol=1e-6
    )
    assert len(set(column(out, units, "sample"))) == len(expected.labels)


def test_embeddings_are_those_of_one_piece(place, tmp_path):
    job = Job("embed", str(tmp_path / "out"), encoder=str(place / "encoder"))
    out, units = work(job, place / "tars")
    embed(place / "photos", encoder=str(place / "encoder"), out=tmp_path / "whole.npy")
    found = np.stack(list(column(out, units, "embedding")))
    np.testing.assert_allclose(found, np.load(tmp_path / "whole.npy"), atol=1e-5)


def test_a_unit_that_is_done_twice_is_there_once(place, tmp_path):
    job = Job("predict", str(tmp_path / "out"), run=str(place / "run"))
    out, units = work(job, place / "parquet")
    before = {p.name: p.read_bytes() for p in out.folder.iterdir()}
    Worker(job)(units[1])
    assert {p.name: p.read_bytes() for p in out.folder.iterdir()} == before
    out.part(2).unlink()
    assert [unit.number for unit in out.missing(units)] == [2]
    Worker(job)(units[2])
    assert out.finish(units) == {"n_samples": 90, "n_broken": 0, "n_parts": 4}
    manifest = json.loads((out.folder / "manifest.json").read_text())
    assert len(manifest["files"]) == 4


def test_broken_images_of_a_tar_are_listed(place, tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        add(archive, "good.png", (place / "photos" / "00.png").read_bytes())
        add(archive, "bad.png", b"no image")
        add(archive, "empty.png", b"")
    job = Job("predict", str(tmp_path / "out"), run=str(place / "images"))
    out, units = work(job, tmp_path / "a.tar")
    assert out.finish(units) == {"n_samples": 1, "n_broken": 2, "n_parts": 1}
    assert "bad.png" in (out.folder / "broken-000000.csv").read_text()


def test_wrong_input_is_one_line(place, tmp_path):
    with pytest.raises(ValueError, match=r"cannot cut .* into shards; give a folder"):
        list_units(place / "x.npy")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds no \.parquet files, \.tar files or images"):
        list_units(tmp_path / "empty")
    (tmp_path / "bad.tar").write_bytes(b"no tar" * 200)
    job = Job("predict", str(tmp_path / "out"), run=str(place / "images"))
    unit = Unit(0, "tar", str(tmp_path), ("bad.tar",))
    assert "bad.tar' is damaged or no tar file" in Worker(job)(unit).error
    vectors = Unit(0, "parquet", str(place / "parquet"), ("0.parquet",))
    other = Job("embed", str(tmp_path / "out"), encoder=str(place / "encoder"))
    assert "an encoder is for images" in Worker(other)(vectors).error


def test_shards_of_two_jobs_are_never_mixed(tmp_path):
    out = ShardedOutput(tmp_path / "out")
    out.begin({"model": 1}, resume=False)
    with pytest.raises(ValueError, match="holds shards already; pass --resume"):
        out.begin({"model": 1}, resume=False)
    out.begin({"model": 1}, resume=True)
    with pytest.raises(ValueError, match="holds shards of another model or input"):
        out.begin({"model": 2}, resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        ShardedOutput(tmp_path / "mine").begin({}, resume=True)
