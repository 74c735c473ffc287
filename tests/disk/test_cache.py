"""The cache: atomic, verified, bounded, and never fatal."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from safetensors import safe_open

from unbend.disk import Cache
from unbend.exceptions import UnbendWarning

ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "number": np.array(2.5),
    "empty": np.zeros((0, 4), np.int64),
    "yes": np.array([True, False]),
    "turned": np.arange(6).reshape(2, 3).T,
}
VALUES = {"text": "Γ", "list": [1, 2.5, None], "nested": {"a": True}}


def test_cached_values_are_bit_equal(tmp_path):
    Cache(tmp_path).put("a", ARRAYS, VALUES)
    entry = Cache(tmp_path).get("a")
    assert entry.values == VALUES
    assert entry.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert entry.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(entry.arrays[name], array)
        assert entry.arrays[name].flags.writeable
    assert Cache(tmp_path).get("b") is None
    assert Cache(tmp_path).get("a", "number").arrays == {"number": 2.5}


def test_an_entry_is_a_plain_safetensors_file(tmp_path):
    """Another library reads it."""
    cache = Cache(tmp_path)
    cache.put("a", ARRAYS, VALUES)
    with safe_open(cache.path("a"), framework="numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("matrix"), ARRAYS["matrix"])
        assert json.loads(file.metadata()["unbend"])["values"] == VALUES


def test_every_changed_byte_is_noticed(tmp_path):
    """If any byte of the file changes, get returns the original entry or None."""
    cache = Cache(tmp_path)
    cache.put("a", {"x": np.arange(4.0)}, {"n": 7})
    content = cache.path("a").read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0x11
        cache.path("a").write_bytes(bytes(changed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entry = cache.get("a")
        if entry is not None:
            assert entry.arrays["x"].tolist() == [0, 1, 2, 3]
            assert entry.values == {"n": 7}


@pytest.mark.parametrize("size", [0, 7, 8, 100, -1])
def test_a_cut_file_is_deleted_with_one_warning(tmp_path, size):
    cache = Cache(tmp_path)
    for name in "abc":
        cache.put(name, ARRAYS)
        cache.path(name).write_bytes(cache.path(name).read_bytes()[:size])
    with pytest.warns(UnbendWarning, match="has damaged entries, which are computed again") as told:
        assert [cache.get(name) for name in "abc"] == [None] * 3
    assert len(told) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_values_are_not_cached(tmp_path, bad):
    Cache(tmp_path).put("a", {"x": np.array([1.0, bad])})
    assert not list(tmp_path.iterdir())


def test_the_ones_used_last_are_kept(tmp_path):
    cache = Cache(tmp_path, most=2)
    cache.put("a", {})
    cache.put("b", {})
    for name in "ab":
        os.utime(cache.path(name), (1, 1))
    cache.get("a")
    cache.put("c", {})
    assert cache.names() == {"a", "c"}
    with pytest.raises(ValueError, match="`most` of Cache must be >= 1, got 0; try 20"):
        Cache(tmp_path, most=0)


def test_files_of_an_older_layout_are_not_looked_at(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"old")
    cache = Cache(tmp_path)
    assert cache.get("a") is None
    assert cache.names() == set()


def test_a_folder_that_cannot_be_made_is_one_warning_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file" / "cache")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        cache.put("a", ARRAYS)
        cache.put("b", ARRAYS)
    (warning,) = told
    assert str(warning.message) == (
        f"the cache {str(tmp_path / 'file' / 'cache')!r} cannot be written (Not a directory); "
        "free space, or set UNBEND_CACHE to a directory that can be written"
    )


def test_a_full_disk_is_a_warning_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unbend.disk.files.os.fsync", full)
    with pytest.warns(UnbendWarning, match=r"cannot be written \(No space left on device\)"):
        Cache(tmp_path).put("a", ARRAYS)
    assert not list(tmp_path.iterdir())


def test_fifo_instead_of_an_entry_does_not_hang(tmp_path):
    cache = Cache(tmp_path)
    os.mkfifo(cache.path("a"))
    with pytest.warns(UnbendWarning, match="not a regular file"):
        assert cache.get("a") is None
    assert cache.path("a").is_fifo()  # nothing of ours, so it stays


WRITER = textwrap.dedent("""
    import sys
    import numpy as np
    from unbend.disk import Cache

    cache, number = Cache(sys.argv[1], most=5), int(sys.argv[2])
    print("go", flush=True)
    for turn in range(int(sys.argv[3])):
        cache.put("shared", {"x": np.full(20_000, number)}, {"number": number})
        cache.put(f"{number}-{turn}", {"x": np.full(100, turn)}, {"number": turn})
""")


def writer(folder, number, turns):
    command = [sys.executable, "-c", WRITER, str(folder), str(number), str(turns)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"go\n"
    return process


def whole(cache, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entry = cache.get(name)
    assert entry is None or (entry.arrays["x"] == entry.values["number"]).all()
    return entry


def test_concurrent_readers_see_only_complete_entries(tmp_path):
    cache = Cache(tmp_path)
    writers = [writer(tmp_path, number, 60) for number in (1, 2)]
    while any(process.poll() is None for process in writers):
        for name in {"shared", *cache.names()}:
            whole(cache, name)
    assert [process.returncode for process in writers] == [0, 0]
    assert len(cache.names()) == 5


def test_kill_leaves_only_complete_entries(tmp_path):
    for wait in (0.0, 0.01, 0.03, 0.08):
        process = writer(tmp_path, 1, 10_000)
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    cache = Cache(tmp_path)
    for name in cache.names():
        assert whole(cache, name) is not None
