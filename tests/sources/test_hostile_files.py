"""Files that never end, that lie about themselves, or that change while they are read."""

import os
import signal
import struct
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.generators.folders import fill, picture

from unbend.disk import check_whole, hash_array
from unbend.pixels import workers
from unbend.pixels.workers import decode_all
from unbend.sources import open_source


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(20, 3))


# ---------------------------------------------------------------- files without an end


@pytest.mark.parametrize("odd", ["fifo.png", "/dev/zero"])
@pytest.mark.parametrize("seen_before", [False, True])
def test_a_list_of_endless_files_does_not_hang(tmp_path, odd, seen_before):
    """A pipe without a writer, and a device that never ends."""
    for i in range(3):
        picture(tmp_path / f"{i}.png", seed=i)
    if odd == "fifo.png":
        os.mkfifo(tmp_path / odd)
    names = ["0.png", "1.png", "2.png"]
    if seen_before:  # then new files are hashed first
        (tmp_path / "list.csv").write_text("\n".join(["path", *names]))
        open_source(tmp_path / "list.csv", cache_dir=tmp_path / "cache")
    (tmp_path / "list.csv").write_text("\n".join(["path", *names, odd]))
    source = open_source(tmp_path / "list.csv", cache_dir=tmp_path / "cache", max_broken=0.5)
    assert list(source.names) == names
    assert [(b.path, b.reason) for b in source.broken] == [(odd, "not a regular file")]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.parquet", "x.safetensors"])
def test_a_pipe_as_input_is_rejected(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match="is not a regular file; give a file or a folder"):
        open_source(tmp_path / name)


def test_what_is_no_array_is_not_called_a_pickle(tmp_path):
    """NumPy would advise to load it unsafely."""
    (tmp_path / "x.npy").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"x\.npy. is damaged or not a valid \.npy file") as caught:
        open_source(tmp_path / "x.npy")
    assert "pickle" not in str(caught.value)


def test_a_stopped_decoder_is_replaced(tmp_path, monkeypatch):
    """SIGSTOP, as a debugger or a batch system sends it."""
    monkeypatch.setattr(workers, "TIMEOUT", 3.0)
    folder = fill(tmp_path / "photos", 40)
    paths = sorted(map(str, folder.iterdir()))
    started = []
    begin = workers._start

    def starting(size):
        process = begin(size)
        if not started:
            os.kill(process.pid, signal.SIGSTOP)
        started.append(process)
        return process

    monkeypatch.setattr(workers, "_start", starting)
    clock = time.monotonic()
    found = list(decode_all(paths, 8, workers=1))
    assert time.monotonic() - clock < 60
    assert all(each.pixels is not None for each in found)
    assert started[0].returncode == -signal.SIGKILL


# ---------------------------------------------------------------- files that lie


def test_a_header_that_does_not_close(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content.replace(b"}", b" ", 1))
    with pytest.raises(ValueError, match=r"x.npy' is damaged or not a valid .npy file"):
        open_source(tmp_path / "x.npy")


@pytest.mark.parametrize("lie", ["encrypted", "compression"])
def test_archives_that_cannot_be_unpacked(tmp_path, X, lie):
    np.savez(tmp_path / "x.npz", X=X)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(magic) + flags
        if lie == "encrypted":
            data[place] |= 1
        else:
            data[place + 2 : place + 4] = struct.pack("<H", 99)
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(ValueError, match=r"x.npz' is damaged or not a valid .npz file"):
        open_source(tmp_path / "x.npz")


@pytest.mark.parametrize("values", [[1.0, 2.0], ["a.png", "b.png"]])
def test_columns_of_the_same_name(tmp_path, values):
    table = pa.table([pa.array(values), pa.array(values)], names=["path", "path"])
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="has several columns called 'path'; rename them"):
        open_source(tmp_path / "x.parquet")


# ---------------------------------------------------------------- files that change


def test_a_file_that_was_cut_is_named_and_not_a_signal(tmp_path, X):
    """Reading a memory map beyond the end of its file kills the process."""
    np.save(tmp_path / "x.npy", np.repeat(X, 1000, axis=0))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    check_whole(mapped)
    check_whole(X)
    check_whole(mapped[5:7].T)
    os.truncate(tmp_path / "x.npy", 5000)
    for array in (mapped, mapped[5:7]):
        with pytest.raises(OSError, match=r"x.npy' was truncated while it was read; restore it"):
            check_whole(array)
    with pytest.raises(OSError, match="was truncated"):
        hash_array(mapped)


def test_a_file_that_is_replaced_stays_readable(tmp_path, X):
    """The map is of the old file, which is there as long as it is mapped."""
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.save(tmp_path / "new.npy", X[:2])
    os.replace(tmp_path / "new.npy", tmp_path / "x.npy")
    check_whole(mapped)
    np.testing.assert_array_equal(mapped, X)
