import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from unbend.disk import atomic_directory, atomic_write
from unbend.disk import files as module
from unbend.disk.files import to_json


def names(folder) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def umask():
    """Set the user's rule for new files and put it back."""
    old = os.umask(0o022)
    yield os.umask
    os.umask(old)


def fail(*args: object, **options: object) -> None:
    raise OSError("the disk is full")


# ---------------------------------------------------------------- one file


@pytest.mark.parametrize("content", ["text\nΓ 日本\r\n", b"\x00\xff bytes", "", "a" * 1_000_000])
@pytest.mark.parametrize("old", [None, b"older and much longer than the new one" * 9])
def test_a_file_is_written_as_given(tmp_path, content, old):
    path = tmp_path / "labels.csv"
    if old is not None:
        path.write_bytes(old)
    atomic_write(str(path), content)
    assert path.read_bytes() == (content if isinstance(content, bytes) else content.encode())
    assert names(tmp_path) == ["labels.csv"]


@pytest.mark.parametrize("broken", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_keeps_the_old_content_and_leaves_nothing(tmp_path, monkeypatch, broken, error):
    path = tmp_path / "labels.csv"
    path.write_text("old")

    def interrupt(*args: object) -> None:
        raise error("in the middle")

    monkeypatch.setattr(module.os, broken, interrupt)
    with pytest.raises(error, match="in the middle"):
        atomic_write(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["labels.csv"]


def test_a_first_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(module.os, "fsync", fail)
    with pytest.raises(OSError, match="disk is full"):
        atomic_write(tmp_path / "labels.csv", "new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_follow_the_users_mask(tmp_path, umask, mask):
    umask(mask)
    atomic_write(tmp_path / "a", "x")
    with atomic_directory(tmp_path / "b"):
        pass
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o777 & ~mask
    assert umask(mask) == mask  # and the mask itself stays


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        atomic_write(tmp_path / "missing" / "a", "x")


WRITER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("files", sys.argv[1])
files = importlib.util.module_from_spec(spec)
spec.loader.exec_module(files)
size = 8_000_000
for turn in range(100_000):
    files.atomic_write(sys.argv[2] + "/labels.csv", bytes([65 + turn % 2]) * size)
    with files.atomic_directory(sys.argv[2] + "/model") as folder:
        (folder / "a").write_bytes(bytes([65 + turn % 2]) * size)
        (folder / "b").write_bytes(bytes([65 + turn % 2]) * size)
    print(turn, flush=True)
"""


@pytest.mark.parametrize("delay", [0.003, 0.01, 0.03])
def test_kill_during_write_leaves_a_complete_file(tmp_path, delay):
    command = [sys.executable, "-c", textwrap.dedent(WRITER), module.__file__, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "0\n"
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
    content = (tmp_path / "labels.csv").read_bytes()
    assert content in (b"A" * 8_000_000, b"B" * 8_000_000)
    if (tmp_path / "model").exists():  # the one moment without it lies between two renames
        parts = [(tmp_path / "model" / name).read_bytes() for name in "ab"]
        assert parts[0] == parts[1]
        assert parts[0] in (b"A" * 8_000_000, b"B" * 8_000_000)
    rest = set(names(tmp_path)) - {"labels.csv", "model"}
    assert all(name.startswith(".") and name.endswith(".tmp") for name in rest)


# ---------------------------------------------------------------- a directory


@pytest.fixture
def old(tmp_path):
    """A directory that is to be replaced."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").write_text("old")
    return path


def test_a_directory_appears_as_a_whole(tmp_path):
    path = tmp_path / "deep" / "model"
    with atomic_directory(path) as folder:
        (folder / "a").write_text("x")
        assert not path.exists()
    assert names(path) == ["a"]
    assert names(path.parent) == ["model"]


def test_a_directory_is_replaced_as_a_whole(old):
    with atomic_directory(old) as folder:
        (folder / "a").write_text("x")
        assert names(old) == ["old"]
    assert names(old) == ["a"]
    assert names(old.parent) == ["model"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_half_way_keeps_the_old_directory(old, error):
    def half() -> None:
        with atomic_directory(old) as folder:
            (folder / "a").write_text("x")
            raise error

    with pytest.raises(error):
        half()
    assert (old / "old").read_text() == "old"
    assert names(old.parent) == ["model"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_puts_the_old_directory_back(old, monkeypatch, failing):
    rename, calls = os.replace, []

    def replace(source: object, target: object) -> None:
        calls.append(target)
        if len(calls) == failing:
            fail()
        rename(source, target)

    monkeypatch.setattr(module.os, "replace", replace)
    with pytest.raises(OSError, match="disk is full"), atomic_directory(old) as folder:
        (folder / "a").write_text("x")
    assert (old / "old").read_text() == "old"
    assert names(old.parent) == ["model"]


def test_a_link_to_a_directory_stays_a_link(old, tmp_path):
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(old, target_is_directory=True)
    with atomic_directory(link) as folder:
        (folder / "a").write_text("x")
    assert link.is_symlink()
    assert names(old) == ["a"]
    assert names(tmp_path) == ["elsewhere", "model"]


# ---------------------------------------------------------------- json


def test_json_takes_numpys_numbers():
    tree = {"k": np.int64(3), "x": np.float32(0.5), "yes": np.bool_(True), "v": np.arange(2)}
    assert to_json(tree) == '{"k": 3, "x": 0.5, "yes": true, "v": [0, 1]}'


def test_json_names_what_it_cannot_write():
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        to_json({"a": object()})
