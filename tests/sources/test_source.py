"""Arrays, files of arrays, lists of paths, labels, and the words for what is wrong with them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from unbend.sources import Source, load_named, open_source


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


X = random(7, 5)


# ---------------------------------------------------------------- vectors from everywhere


def write_all(folder: Path) -> dict[str, str]:
    """The same vectors in every form; returns how each is asked for."""
    np.save(folder / "a.npy", X)
    np.save(folder / "f.npy", np.asfortranarray(X))
    np.savez(folder / "one.npz", whatever=X)
    np.savez_compressed(folder / "many.npz", X=X, y=np.arange(7), z=np.ones(3))
    save_file({"embeddings": X, "other": np.ones(3)}, folder / "a.safetensors")
    columns = {f"c{j}": X[:, j] for j in range(5)}
    pq.write_table(pa.table(columns), folder / "wide.parquet")
    pq.write_table(pa.table({"id": list("abcdefg"), "v": list(X)}), folder / "list.parquet")
    whole = {"id": list("abcdefg"), "a": np.arange(7), "b": np.arange(7)}
    pq.write_table(pa.table(whole), folder / "whole.parquet")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 5)
    pq.write_table(pa.table({"v": fixed, "w": fixed}), folder / "fixed.parquet")
    asked = ["a.npy", "f.npy", "one.npz", "many.npz", "many.npz:X", "a.safetensors"]
    asked += ["a.safetensors:embeddings", "wide.parquet", "list.parquet", "fixed.parquet:w"]
    return {name: str(folder / name) for name in asked}


def test_every_form_gives_the_same_vectors(tmp_path):
    write_all(tmp_path)
    assert open_source(tmp_path / "whole.parquet").X.tolist() == [[i, i] for i in range(7)]
    found = {name: open_source(spec) for name, spec in write_all(tmp_path).items()}
    for name, source in found.items():
        np.testing.assert_array_equal(source.X, X, err_msg=name)
        assert (source.kind, source.split, source.y, source.paths) == ("vectors", "all", None, None)
        named = name == "list.parquet"  # it has a column of ids
        assert list(source.names) == (list("abcdefg") if named else [str(i) for i in range(7)])
        assert (source.broken, len(source)) == ([], 7)
        assert source.name == name.split(".")[0]
        assert isinstance(source.X, np.memmap) == (name[:5] in ("a.npy", "f.npy", "a.saf")), name
    assert {tuple(source.hashes) for source in found.values()} == {tuple(found["a.npy"].hashes)}
    assert len(found["a.npy"].hashes) == 1


@pytest.mark.parametrize("given", [X, X.tolist(), torch.from_numpy(X)])
def test_arrays_and_tensors_are_sources(given):
    source = open_source(given)
    np.testing.assert_array_equal(np.asarray(source.X, np.float32), X)
    assert source.name == "array"
    assert open_source(source) is source
    assert open_source(source, labels=list("aabbccc")).y.tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "u2", "i8", ">i4", "?", "g"])
def test_real_dtypes_are_kept_or_converted_to_native(tmp_path, dtype):
    values = (10 * X).round().astype(dtype)
    np.save(tmp_path / "a.npy", values)
    source = open_source(tmp_path / "a.npy")
    np.testing.assert_array_equal(source.X, values)
    assert source.X.dtype.isnative
    torch.from_numpy(np.array(source.X[:1]))  # a type that torch knows
    native = dtype in ("f2", "f4", "f8", "i1", "u2", "i8")
    assert isinstance(source.X, np.memmap) == native


def test_bfloat16_of_safetensors(tmp_path):
    values = torch.from_numpy(X).to(torch.bfloat16)
    save_torch({"features": values}, tmp_path / "a.safetensors")
    source = open_source(tmp_path / "a.safetensors")
    assert source.X.dtype == np.float32
    np.testing.assert_array_equal(source.X, values.float().numpy())


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        ((4, 8, 9), (4, 8, 9)),
        ((4, 3, 8, 9), (4, 3, 8, 9)),
        ((4, 1, 8, 9), (4, 1, 8, 9)),
        ((4, 8, 9, 3), (4, 3, 8, 9)),
        ((4, 8, 9, 1), (4, 1, 8, 9)),
    ],
)
def test_three_and_four_dimensions_are_images(tmp_path, shape, seen):
    values = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    np.save(tmp_path / "a.npy", values)
    source = open_source(tmp_path / "a.npy")
    assert (source.kind, source.X.shape, source.X.dtype) == ("images", seen, np.uint8)
    assert len(source.hashes) == len(set(source.hashes)) == 4
    if shape != seen:
        np.testing.assert_array_equal(source.X.transpose(0, 2, 3, 1), values)


@pytest.mark.parametrize("n", [500_000, pytest.param(2_000_000, marks=pytest.mark.slow)])
def test_large_arrays_stay_on_disk(tmp_path, n):
    path = tmp_path / "big.npy"
    array = np.lib.format.open_memmap(path, "w+", np.float32, (n, 64))  # a sparse file
    array[-1] = 1
    del array

    def own_memory() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    before = own_memory()
    source = open_source(path)
    grown = (own_memory() - before) / 1024
    assert source.X.shape == (n, 64)
    assert (source.names[-1], source.names[n - 2 :][1]) == (str(n - 1), str(n - 1))
    assert float(source.X[-1, 0]) == 1
    assert grown < 60  # MB; the smaller array has 122


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones(5), r"must have 2 dimensions .* got shape \(5,\)"),
        (np.ones((2, 3, 4, 4, 4)), r"got shape \(2, 3, 4, 4, 4\)"),
        (np.ones((0, 5)), r"has no rows \(shape \(0, 5\)\)"),
        (np.ones((5, 0)), r"has no columns \(shape \(5, 0\)\)"),
        (np.ones((5, 0, 3)), "has no pixels"),
        (np.ones((5, 2), complex), "must hold real numbers, got dtype complex128"),
        (np.full((5, 2), "a"), "must hold real numbers, got dtype <U1"),
        (
            np.array([[1.0, 2], [3, np.nan], [np.nan, 1]]),
            "2 of 3 rows .*'1': NaN in 1 of 2 numbers; '2'",
        ),
        (np.array([[1.0, 2], [3, 4], [np.inf, 1]], np.float16), "1 of 3 .*'2': infinity in"),
        (np.full((3, 4, 4), np.nan), "3 of 3 rows .*'0': NaN in 16 of 16 numbers"),
        (np.ones((2, 4, 5, 6)), r"1 or 3 channels, got shape \(2, 4, 5, 6\)"),
    ],
)
def test_invalid_arrays_give_one_line_errors(tmp_path, values, words):
    np.save(tmp_path / "a.npy", values)
    for spec in (tmp_path / "a.npy", values):
        if spec is values and values.dtype.kind in "cU":
            continue  # named by the conversion
        with pytest.raises(ValueError, match=words) as caught:
            open_source(spec)
        assert "\n" not in str(caught.value)
        if spec is not values:
            assert "a.npy" in str(caught.value)


def test_nan_far_down_is_found(tmp_path):
    values = np.zeros((300_000, 70), np.float32)
    values[298_765, 3] = np.nan
    source = open_source(values)
    assert source.broken == [("298765", "NaN in 1 of 70 numbers")]
    assert len(source) == len(source.names) == 299_999
    assert (source.names[298_764], source.names[298_765]) == ("298764", "298766")
    with pytest.raises(ValueError, match=r"1 of 300000 rows of X .*leave --strict out"):
        open_source(values, strict=True)


def damaged(folder: Path) -> list[tuple[str, str]]:
    np.save(folder / "object.npy", np.array([{}, 1], object), allow_pickle=True)
    np.savez(folder / "object.npz", X=np.array([{}, 1], object))
    np.savez(folder / "many.npz", a=X, b=X)
    np.savez(folder / "empty.npz")
    np.savez(folder / "archive", X=X)
    os.rename(folder / "archive.npz", folder / "archive.npy")
    for name in ("text.npy", "text.npz", "text.parquet", "text.safetensors"):
        (folder / name).write_text("no array at all, just words")
    for name in ("void.npy", "void.npz", "void.parquet", "void.safetensors"):
        (folder / name).write_bytes(b"")
    np.save(folder / "cut.npy", X)
    (folder / "cut.npy").write_bytes((folder / "cut.npy").read_bytes()[:-9])
    save_file({"a": X, "b": X}, folder / "many.safetensors")
    save_file({"a": X}, folder / "cut.safetensors")
    (folder / "cut.safetensors").write_bytes((folder / "cut.safetensors").read_bytes()[:-9])
    pq.write_table(pa.table({"v": [[1.0, 2], [3.0]]}), folder / "ragged.parquet")
    pq.write_table(pa.table({"v": [[1.0, 2], None]}), folder / "null.parquet")
    pq.write_table(pa.table({"v": [[1.0, 2], [None, 1.0]]}), folder / "inner.parquet")
    pq.write_table(pa.table({"a": [1.0, None]}), folder / "hole.parquet")
    pq.write_table(pa.table({"a": [b"x", b"y"]}), folder / "binary.parquet")
    pq.write_table(pa.table({"a": [[1.0]], "b": [[1.0]]}), folder / "lists.parquet")
    (folder / "a.xyz").write_text("")
    Image.new("RGB", (8, 8)).save(folder / "one.png")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("path,label\n")
    (folder / "ragged.csv").write_text("path,label\na.png,1\nb.png\n")
    (folder / "hole.csv").write_text("path,label\na.png,1\n,2\n")
    (folder / "gone.csv").write_text("path\nx.png\ny.png\n")
    return [
        ("object.npy", "Python objects, which are never unpickled"),
        ("object.npz", "Python objects, which are never unpickled"),
        ("many.npz", r"several arrays: a, b; choose one with 'many.npz:a'"),
        ("many.npz:c", "has no 'c'; it holds: a, b"),
        ("cut.npy:x", "leave out ':x'"),
        ("empty.npz", "holds no arrays"),
        ("archive.npy", "rename it to .npz"),
        *((file.name, "damaged or not") for kind in ("text", "void", "cut")
          for file in sorted(folder.glob(f"{kind}.*"))),
        ("many.safetensors", "several tensors: a, b"),
        ("ragged.parquet", "row 1 of 'v' .* has 1 numbers, others have 2"),
        ("null.parquet", "1 of 2 rows .*'1': NaN in 2 of 2"),
        ("inner.parquet", "1 of 2 rows .*'1': NaN in 1 of 2 numbers"),
        ("hole.parquet", "1 of 2 rows .*'1': NaN in"),
        ("binary.parquet", "no columns of numbers"),
        ("lists.parquet", "several columns of lists: a, b"),
        ("a.xyz", "cannot read .*; give a folder of images or texts"),
        ("empty.csv", "is empty"),
        ("header.csv", "lists no images"),
        ("ragged.csv", "line 3 .* has 1 cells instead of 2"),
        ("hole.csv", "row 1 .* is not a path"),
        ("gone.csv", "2 of 2 files .*'x.png': No such file"),
        ("nothing.npy", "no file, folder or data set .*; give a folder of images"),
        ("nothing", "or one of: digits, fashion-mnist"),
    ]  # fmt: skip


def test_invalid_files_give_one_line_errors(tmp_path):
    for name, words in damaged(tmp_path):
        with pytest.raises((ValueError, OSError), match=words) as caught:
            open_source(str(tmp_path / name), cache_dir=tmp_path / "cache")
        text = str(caught.value)
        assert name.split(":")[0] in text, text
        assert "\n" not in text, text


# ---------------------------------------------------------------- lists of paths


@pytest.fixture
def photos(tmp_path):
    for i, name in enumerate(["red/1.png", "red/2.png", "blue/1.png", "with, comma.png"]):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        values = np.random.default_rng(i).integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(values).save(path)
    return tmp_path / "photos"


def pixels_of(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image).transpose(2, 0, 1)


LISTED = ["red/2.png", "blue/1.png", "red/1.png", "with, comma.png"]


def write_lists(folder: Path) -> list[Path]:
    quoted = [f'"{name}"' if "," in name else name for name in LISTED]
    colours = ["r", "b", "r", "?"]
    with_label = [f"{c},{q}\n" for c, q in zip(colours, quoted, strict=True)]
    (folder / "bare.csv").write_text("".join(f"{q}\n" for q in quoted))
    (folder / "named.csv").write_text("colour,path\n" + "".join(with_label))
    (folder / "bom.csv").write_text("\ufefffile\r\n" + "".join(f"{q}\r\n" for q in quoted))
    pq.write_table(pa.table({"path": LISTED, "colour": colours}), folder / "list.parquet")
    pq.write_table(pa.table({"file": LISTED}), folder / "first.parquet")
    names = ("bare.csv", "named.csv", "bom.csv", "list.parquet", "first.parquet")
    return [folder / name for name in names]


def test_lists_keep_their_order_and_are_relative_to_themselves(photos, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    for path in write_lists(photos):
        for decoded in (4, 0):
            source = open_source(path, image_size=8, cache_dir=tmp_path / "cache")
            assert (source.kind, source.names, source.decoded) == ("images", LISTED, decoded)
        for file, x in zip(source.paths, source.X, strict=True):
            np.testing.assert_array_equal(x, pixels_of(file))
            assert file.is_relative_to(photos)


def test_lists_with_labels_absolute_paths_and_repeats(photos, tmp_path):
    cache = tmp_path / "cache"
    for name in ("named.csv", "list.parquet"):
        path = next(p for p in write_lists(photos) if p.name == name)
        source = open_source(path, image_size=8, cache_dir=cache, labels="colour")
        assert (source.y.tolist(), source.classes) == ([2, 1, 2, 0], ["?", "b", "r"])
        with pytest.raises(ValueError, match=r"has no .*'shade'.* it holds: .*path"):
            open_source(path, cache_dir=cache, labels="shade")
    twice = tmp_path / "twice.csv"
    twice.write_text(f"path\n{photos}/red/1.png\nphotos/red/1.png\n{photos}/red/1.png\n")
    for decoded in (3, 0):
        source = open_source(twice, image_size=8, cache_dir=cache, labels="folders")
        assert (len(source), source.decoded, source.classes) == (3, decoded, ["red"])
    assert len(set(source.hashes)) == 1


def test_missing_and_broken_files_of_a_list_are_left_out_with_their_labels(photos, tmp_path):
    (photos / "bad.png").write_bytes(b"")
    rows = ["red/1.png,a", "gone.png,b", "bad.png,c", "blue/1.png,d"]
    (photos / "l.csv").write_text("path,label\n" + "\n".join(rows))
    options = {"cache_dir": tmp_path / "cache", "image_size": 8, "max_broken": 0.5}
    source = open_source(photos / "l.csv", labels="label", **options)
    assert source.names == ["red/1.png", "blue/1.png"]
    assert (source.y.tolist(), source.classes) == ([0, 1], ["a", "d"])
    assert [tuple(b) for b in source.broken] == [
        ("bad.png", "empty file"),
        ("gone.png", "No such file or directory"),
    ]


# ---------------------------------------------------------------- labels


def test_labels_from_everywhere(tmp_path):
    truth = np.array([3, 1, 3, 10, 1, 9, 9])
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", truth)
    np.savez(tmp_path / "Xy.npz", X=X, y=truth)
    (tmp_path / "bare.csv").write_text("\n".join(map(str, truth)))
    (tmp_path / "named.csv").write_text("id,label,x\n" + "".join(f"0,{t},5\n" for t in truth))
    columns = {f"c{j}": X[:, j] for j in range(5)} | {"y": truth}
    pq.write_table(pa.table(columns), tmp_path / "Xy.parquet")
    cases: list[tuple[object, object]] = [
        (tmp_path / "X.npy", tmp_path / "y.npy"),
        (tmp_path / "X.npy", str(tmp_path / "bare.csv")),
        (tmp_path / "X.npy", str(tmp_path / "named.csv")),
        (tmp_path / "Xy.npz", "y"),
        (tmp_path / "Xy.parquet", "y"),
        (X, truth),
        (X, truth.astype(float)),
    ]
    for spec, labels in cases:
        source = open_source(spec, labels=labels)
        np.testing.assert_array_equal(source.X, X)  # the column of labels is no sample
        assert source.y.dtype == np.int64
        assert source.y.tolist() == [1, 0, 1, 3, 0, 2, 2]
        assert source.classes == ["1", "3", "9", "10"]
        assert len(source.hashes) == 1


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, 2], "one per sample, got 2 for 7"),
        ([1, 2, 3, 4, 5, 6, np.nan], "empty in row 6"),
        (["a", "", "b", "c", "d", "e", "f"], "empty in row 1"),
        ([0.5] * 7, "must be classes, got 0.5 in row 0"),
        (np.ones((7, 2)), r"one per sample, got shape \(7, 2\)"),
        ("folders", "labels='folders' is for folders of files"),
        ("column", "must be a .npy or .csv file, or a column of the source, got 'column'"),
        ("gone.npy", "file 'gone.npy' does not exist"),
    ],
)
def test_invalid_labels_raise(labels, words):
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        open_source(X, labels=labels)


# ---------------------------------------------------------------- named sets


def test_a_named_set_as_a_source():
    source, data = open_source("digits"), load_named("digits")
    assert isinstance(source, Source)
    np.testing.assert_array_equal(source.X, data.X)
    np.testing.assert_array_equal(source.y, data.y)
    assert (source.name, source.split, source.classes) == ("digits", "all", data.classes)
    assert len(source.hashes) == 1797
    with pytest.raises(ValueError, match="'digits' has its own labels"):
        open_source("digits", labels="y.npy")
    with pytest.raises(ValueError, match="has no split 'test'"):
        open_source("digits:test")


def test_a_folder_with_the_name_of_a_set(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "digits" / "a.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    assert len(open_source("digits")) == 1797
    assert len(open_source("./digits")) == 1
    assert len(open_source(Path("digits"))) == 1


def test_no_pickle_is_ever_loaded(tmp_path):
    """A pickle that would leave a trace is refused in every form that NumPy knows."""
    code = (
        "import sys, types, numpy as np\n"
        "class Evil:\n"
        "    def __reduce__(self):\n"
        "        return open, (sys.argv[1] + '/trace', 'w')\n"
        "np.save(sys.argv[1] + '/a.npy', np.array([Evil()], object), allow_pickle=True)\n"
        "np.savez(sys.argv[1] + '/a.npz', X=np.array([Evil()], object))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    (tmp_path / "trace").unlink(missing_ok=True)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(ValueError, match="never unpickled"):
            open_source(tmp_path / name)
        with pytest.raises(ValueError, match="never unpickled"):
            open_source(X, labels=tmp_path / name) if name == "a.npy" else open_source(
                tmp_path / name, labels="X"
            )
    assert not (tmp_path / "trace").exists()
