"""Tables and series taken out of packages that the tests make themselves."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import rdata

from tools import tables
from unbend.experiments.suite.problems import load_problem


def _mlbench(work: Path, numbers: np.ndarray) -> None:
    """The files of the package: numbers, a factor of labels, and who spoke."""
    for name, labels, left_out in tables.MLBENCH.values():
        frame = pd.DataFrame(numbers, columns=["a", "b"])
        frame[labels] = pd.Categorical(["yes", "no", "yes"])
        for column in left_out:
            frame[column] = pd.Categorical(["1", "2", "3"])
        path = work / "files" / "site-library" / f"{name}.rda"
        path.parent.mkdir(parents=True, exist_ok=True)
        rdata.write_rda(path, {name: frame})


def _aeon(work: Path) -> None:
    """Two channels of length 2 for all series; parts differ in their first number."""
    with zipfile.ZipFile(work / "aeon-1.6.0-py3-none-any.whl", "w") as wheel:
        for series in tables.AEON.values():
            folder = f"aeon/datasets/data/{series.removesuffix('_eq')}"
            for number, part in enumerate(("TRAIN", "TEST")):
                text = f"# about\n@classLabel true 1 2\n@data\n{number},2:3,4:2\n5,6:7,8:1\n\n"
                wheel.writestr(f"{folder}/{series}_{part}.ts", text)


@pytest.fixture
def shop(monkeypatch):
    """Commands that leave what the real ones would; the list of those that ran."""
    calls = []

    def run(command, work=None):
        calls.append(command[-1])
        if command[0] == "apt-get":
            (work / "r-cran-mlbench.deb").touch()
        elif command[0] == "dpkg":
            _mlbench(work, np.array([[1.0, 2], [3, 4], [5, 6]]))
        else:
            _aeon(work)

    monkeypatch.setattr(tables, "run", run)
    monkeypatch.setattr(tables.shutil, "which", lambda name: name)
    return calls


def test_tables_are_installed_once_without_who_spoke(shop, tmp_path, monkeypatch):
    for _ in range(2):
        tables.install_mlbench(tmp_path)
    assert shop == ["r-cran-mlbench", "files"]
    monkeypatch.setenv("UNBEND_DATA", str(tmp_path))
    for which, name in (("development", "vowel"), ("development", "satellite"), ("test", "letter")):
        X, y = load_problem(which, name)
        np.testing.assert_array_equal(X, [[1, 2], [3, 4], [5, 6]])
        assert X.dtype == np.float32
        assert y.tolist() == [1, 0, 1]  # "no" before "yes"


def test_series_are_the_train_and_the_test_part_with_channels_side_by_side(
    shop, tmp_path, monkeypatch
):
    for _ in range(2):
        tables.install_series(tmp_path)
    assert shop == ["aeon==1.6.0"]
    monkeypatch.setenv("UNBEND_DATA", str(tmp_path))
    X, y = load_problem("test", "japanesevowels")
    np.testing.assert_array_equal(X, [[0, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]])
    assert y.tolist() == [1, 0, 1, 0]


def test_series_that_cannot_be_vectors():
    with pytest.raises(ValueError, match="2 different lengths"):
        tables.read_ts("@data\n1,2:a\n1,2,3:b\n")
    with pytest.raises(ValueError, match="no samples after a line '@data'"):
        tables.read_ts("1,2:a\n")


def test_missing_values_are_rejected(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "read_ts", lambda text: (np.array([[np.nan]]), np.array(["a"])))
    with pytest.raises(ValueError, match="osuleaf has missing values"):
        tables.install_series(tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


def test_no_apt_and_a_failing_command_give_a_one_line_error(tmp_path, monkeypatch):
    with pytest.raises(OSError, match=r"`sh -c echo first; echo no such package; exit 3` failed: "
                       "no such package"):  # fmt: skip
        tables.run(["sh", "-c", "echo first; echo no such package; exit 3"])
    monkeypatch.setattr(tables.shutil, "which", lambda name: None)
    with pytest.raises(OSError, match="Debian package r-cran-mlbench, and there is no apt-get"):
        tables.install_mlbench(tmp_path)
