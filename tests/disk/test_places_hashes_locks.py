"""Default directories, hashes, provenance and locks."""

import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from unbend.disk import (
    Locked,
    default_cache_dir,
    default_data_dir,
    hash_array,
    hash_file,
    hash_values,
    locked,
    provenance,
)

# ---------------------------------------------------------------- places


def test_environment_variable_overrides_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("UNBEND_CACHE", "~/mine")
    monkeypatch.delenv("UNBEND_DATA", raising=False)
    assert default_cache_dir() == tmp_path / "mine"
    assert default_data_dir() == tmp_path / "mine" / "data"
    monkeypatch.setenv("UNBEND_DATA", "~/sets")
    assert default_data_dir() == tmp_path / "sets"


@pytest.mark.skipif(sys.platform != "linux", reason="the XDG directories of Linux")
def test_the_place_of_the_platform(tmp_path, monkeypatch):
    monkeypatch.delenv("UNBEND_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache_dir() == tmp_path / ".cache" / "unbend"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_dir() == tmp_path / "xdg" / "unbend"


@pytest.mark.parametrize("name", ["UNBEND_CACHE", "UNBEND_DATA"])
def test_an_unknown_home_gives_a_one_line_error(monkeypatch, name):
    monkeypatch.setenv(name, "~nouser/x")
    with pytest.raises(ValueError, match=f"^{name}='~nouser/x' names an unknown home directory"):
        default_data_dir()


# ---------------------------------------------------------------- hashes


def test_hash_of_an_array_is_blake2b_of_type_shape_and_bytes(tmp_path):
    """The hash must never change, because seeds of augmented images are derived from it."""
    X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    expected = hashlib.blake2b(b"|u1(2, 3, 4)" + X.tobytes(), digest_size=16).hexdigest()
    assert hash_array(X) == expected
    assert hash_array(np.asfortranarray(X)) == expected
    assert hash_array(torch.from_numpy(X)) == expected
    np.save(tmp_path / "X.npy", X)
    assert hash_array(np.load(tmp_path / "X.npy", mmap_mode="r")) == expected


def test_large_arrays_are_hashed_in_pieces_to_the_same(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(500, 7))
    expected = hash_array(X)
    monkeypatch.setattr("unbend.disk.hashes._CHUNK", 100)
    assert hash_array(X) == expected
    np.save(tmp_path / "X.npy", X)
    assert hash_array(np.load(tmp_path / "X.npy", mmap_mode="r")) == expected


def test_bytes_shape_and_type_are_told_apart():
    X = np.arange(24, dtype=np.uint8)
    others = [X + 1, X.reshape(4, 6), X.astype(np.int8), X.astype(np.float32), np.array(3), X[:0]]
    assert len({hash_array(x) for x in [X, *others]}) == 7


def test_hash_of_values_sees_everything_but_the_order_of_keys():
    assert hash_values({"a": 1, "b": [2]}, 3) == hash_values({"b": [2], "a": 1}, 3)
    different = [(1,), ("1",), (1.5,), (None,), ([1],), (1, 2), ([1, 2],), ({"a": 1},), (True,)]
    assert len({hash_values(*values) for values in different}) == len(different)


def test_hash_of_a_file_is_sha256(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    assert hash_file(tmp_path / "a") == hashlib.sha256(b"x" * 3_000_000).hexdigest()


# ---------------------------------------------------------------- provenance


def test_all_rooms_that_results_depend_on_exist():
    rooms = {*provenance.ESTIMATOR, *provenance.PEERS, "experiments/benchmark/worker.py"}
    assert len(provenance.code_hash(*sorted(rooms), "experiments/paper/trajectory.py")) == 64
    with pytest.raises(FileNotFoundError):
        provenance.code_hash("no/such/room.py")


def test_the_commit_is_that_of_git():
    here = os.path.dirname(provenance.__file__)
    head = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True)
    if head.returncode:
        assert provenance.commit() is None
        assert provenance.origin().startswith("version ")
    else:
        assert head.stdout.startswith(provenance.commit().rstrip("+"))
        assert provenance.origin() == provenance.commit()


# ---------------------------------------------------------------- locks

HOLDER = """
import sys, time
from unbend.disk import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_lock_is_exclusive_and_released_when_its_process_dies(tmp_path):
    process = holder(tmp_path / "lock")
    with (
        pytest.raises(Locked, match="is locked by another process"),
        locked(tmp_path / "lock", wait=False),
    ):
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for wait in (False, True):
        with locked(tmp_path / "lock", wait=wait):
            assert (tmp_path / "lock").exists()


def test_a_second_process_waits(tmp_path):
    first = holder(tmp_path / "lock")
    second = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    )
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1)
    first.kill()
    first.wait()
    assert second.stdout.readline() == "held\n"
    second.kill()
    second.wait()
