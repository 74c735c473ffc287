"""csv files as they come, and csv files and pandas tables without pyarrow, which is an extra."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbend import MLC
from unbend.exceptions import UnbendWarning
from unbend.sources import open_source
from unbend.tables import choose_columns, open_table, read_features

N = 30
X = np.random.default_rng(0).normal(size=(N, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    id=[f"{i:04}" for i in range(N)], label=np.arange(N) % 3, note=["x, y", ""] * 15
)
HIDE_ARROW = """
import importlib.machinery as machinery
found = machinery.PathFinder.find_spec
machinery.PathFinder.find_spec = staticmethod(
    lambda name, *rest: None if name.split(".")[0] == "pyarrow" else found(name, *rest)
)
"""


@pytest.fixture
def without_arrow(monkeypatch):
    monkeypatch.setattr("unbend.disk.arrow.find_spec", lambda name: None)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / ".cache"))


def written(text: str | bytes, name: str = "t.csv") -> str:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


GERMAN = FRAME.rename(columns={"a": "länge"}).to_csv(index=False, sep=";", decimal=",")
# The text of a file, and how pandas reads it, which is the truth.
FILES = {
    "plain": (FRAME.to_csv(index=False), {}),
    "without a header": (
        "\n".join(f"{a!r},{b!r}" for a, b in X[:, :2].tolist()) + "\n", {"header": None}),
    "semicolons": (FRAME.to_csv(index=False, sep=";"), {"sep": ";"}),
    "decimal commas": (GERMAN, {"sep": ";", "decimal": ","}),
    "decimal commas without a header": (
        "1,5;2\n-3,25;4,5\n", {"sep": ";", "decimal": ",", "header": None}),
    "tabs and decimal commas": (
        "a\tb\n1\t2,5e3\n3\t,5\n", {"sep": "\t", "decimal": ","}),
    "Latin-1": (GERMAN.encode("latin-1"), {"sep": ";", "decimal": ",", "encoding": "latin-1"}),
    "spaces, as NumPy writes them": ("1.5 2\n3 4e-2\n", {"sep": " ", "header": None}),
    "empty cells": (
        FRAME.assign(a=FRAME["a"].where(FRAME.index != 4)).to_csv(index=False), {}),
    "question marks": ("a,b\n1,2\n?,3\n5,n.a.\n7,#N/A\n", {"na_values": ["?", "n.a."]}),
    "whole numbers with holes": ("a,b\n1,2\n,3\n5,NA\n", {}),
    "booleans": ("a,b\nTrue,1.5\nFalse,2.5\n", {}),
    "exponents and infinity": ("a,b\n1e-3,inf\n-2E5,-inf\n", {}),
    "large whole numbers": (f"a,b\n{2**62},1\n{2**70},2\n", {}),
    "blank lines": ("a,b\n\n1,2\n\n3,4\n", {}),
}  # fmt: skip


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_numbers_are_those_that_pandas_reads(name, arrow, monkeypatch):
    if not arrow:
        monkeypatch.setattr("unbend.disk.arrow.find_spec", lambda name: None)
    text, how = FILES[name]
    file = written(text)
    frame = pd.read_csv(file, **how).drop(columns=["id", "label", "note"], errors="ignore")
    table = open_table(file)
    choice = choose_columns(table)
    assert choice.features == [str(name) for name in frame.columns]
    found = read_features(table, choice).astype(np.float64)
    np.testing.assert_array_equal(found, frame.to_numpy(np.float64))


@pytest.mark.parametrize("name", FILES)
def test_the_choice_is_the_same_with_arrow(name, monkeypatch):
    file = written(FILES[name][0])
    with_arrow = choose_columns(open_table(file))
    monkeypatch.setattr("unbend.disk.arrow.find_spec", lambda name: None)
    without = choose_columns(open_table(file))
    assert (without.features, without.id) == (with_arrow.features, with_arrow.id)
    assert without.left_out == with_arrow.left_out


def test_ids_labels_and_texts_are_cells_as_written(without_arrow):
    file = written(FRAME.to_csv(index=False))
    source = open_source(file, labels="label")
    assert list(source.names) == FRAME["id"].tolist()  # leading zeros stay
    assert source.y.tolist() == FRAME["label"].tolist()
    assert open_table(file).values("note")[:2] == ["x, y", ""]


def test_lists_in_cells_are_vectors(without_arrow):
    frame = pd.DataFrame({"v": X.tolist(), "id": FRAME["id"]})
    frame.loc[3, "v"] = None
    frame.to_csv("v.csv", index=False)
    expected = X.copy()
    expected[3] = np.nan
    table = open_table("v.csv")
    np.testing.assert_array_equal(read_features(table, choose_columns(table)), expected)
    table = open_table(written("v\n[1 2]\n[1 2 3]\n"))
    with pytest.raises(ValueError, match=r"row 1 of 'v' in 't.csv' has 3 numbers, others have 2"):
        read_features(table, choose_columns(table))


def test_a_wrong_line_is_named(without_arrow):
    with pytest.raises(ValueError, match=r"line 3 of 't.csv' has 3 cells instead of 2; put quotes"):
        open_table(written("a,b\n1,2\n3,4,5\n"))


@pytest.mark.parametrize(
    ("column", "holds"),
    [
        (pd.Series([1, 2, 3]), "whole"),
        (pd.Series([1, None, 3], dtype="Int64"), "whole"),
        (pd.Series([1.5, None, 3]), "fraction"),
        (pd.Series([True, False, True]), "flag"),
        (pd.Series(["a", None, "b"]), "text"),
        (pd.Series(["a", "b", "a"], dtype="category"), "text"),
        (pd.Series([1, 2, 1], dtype="category"), "whole"),
        (pd.Series([[1.0, 2.0], [3, 4], None]), "vector"),
        (pd.Series(pd.date_range("2020", periods=3)), "other"),
        (pd.Series([{"a": 1}, {"a": 2}, None]), "other"),
    ],
)
def test_columns_of_pandas_are_known_by_their_values(column, holds, monkeypatch):
    frame = pd.DataFrame({"x": column})
    assert open_table(frame).kind_of("x").holds == holds  # by Arrow
    monkeypatch.setattr("unbend.disk.arrow.find_spec", lambda name: None)
    assert open_table(frame).kind_of("x").holds == holds


def test_fit_takes_a_pandas_table(without_arrow):
    quick = {
        "pretrain.epochs": 1, "pretrain.head_steps": 1, "stage2.epochs": 1, "views.n_neighbors": 2,
        "views.metric": "euclidean", "stage2.eta": 0.2,
    }  # fmt: skip
    model = MLC(3, settings=quick, random_state=0)
    with pytest.warns(UnbendWarning, match="label .*looks like labels"):
        model.fit(FRAME.drop(columns="id"))
    assert model.feature_names_in_.tolist() == list("abc")
    assert (model.labels_ == MLC(3, settings=quick, random_state=0).fit(X).labels_).all()


def test_other_tables_say_what_to_install(without_arrow):
    Path("t.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"'t.parquet' needs pip install 'unbend\[tables\]'"):
        open_table("t.parquet")


def test_the_command_line_reads_a_csv_file_without_pyarrow():
    FRAME.to_csv("t.csv", index=False)
    program = HIDE_ARROW + "from unbend.cli import main; main()"
    fast = ["--set", "pretrain.epochs=1", "--set", "stage2.epochs=1", "--no-report", "-q"]
    done = subprocess.run(
        [sys.executable, "-c", program, "cluster", "t.csv", "-k", "3", "-o", "run", *fast],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "3 columns (a, b, c); ids from 'id'" in done.stdout
    assert pd.read_csv("run/labels.csv", dtype=str)["sample"].tolist() == FRAME["id"].tolist()
