"""Which columns of a table are samples, ids or labels."""

import numpy as np
import pyarrow as pa
import pytest

from unbend.tables import choose_columns, open_table, read_features

N = 30
RNG = np.random.default_rng(0)


def table(**columns) -> pa.Table:
    return pa.table({"a": RNG.normal(size=N), "b": RNG.normal(size=N), **columns})


@pytest.mark.parametrize("name", ["id", "ID", "customer_id", "uuid", "Unnamed: 0", "row id"])
def test_names_of_ids(name):
    choice = choose_columns(open_table(table(**{name: np.arange(N) * 3})))
    assert (choice.features, choice.id) == (["a", "b"], name)


@pytest.mark.parametrize("name", ["label", "Class", "target", "y_true", "category", "true label"])
def test_names_of_labels(name):
    choice = choose_columns(open_table(table(**{name: np.arange(N) % 3})))
    assert choice.features == ["a", "b"]
    assert choice.left_out == {name: "looks like labels"}


@pytest.mark.parametrize("name", ["idle", "width", "classy", "valid", "yes", "grid"])
def test_other_names_stay(name):
    values = RNG.integers(0, 5, N)
    assert name in choose_columns(open_table(table(**{name: values}))).features


def test_coordinates_and_counts_stay():
    points = pa.table({"x": RNG.normal(size=N), "y": RNG.normal(size=N)})
    assert choose_columns(open_table(points)).features == ["x", "y"]
    counts = {f"w{j}": RNG.permutation(N) for j in range(5)}  # all unique: measurements
    assert len(choose_columns(open_table(pa.table(counts))).features) == 5
    assert choose_columns(open_table(table(w=RNG.permutation(N)))).left_out == {
        "w": "looks like ids"
    }


def test_values_of_every_kind_are_read():
    columns = {
        "a": pa.array([1, None, 3], pa.int32()),
        "b": pa.array([True, False, None]),
        "c": pa.array([1.5, 2.5, 3.5], pa.float16()),
        "d": pa.array([1, 2, 3]).cast(pa.decimal128(22, 2)),
    }
    opened = open_table(pa.table(columns))
    X = read_features(opened, choose_columns(opened))
    nan = np.nan
    np.testing.assert_array_equal(X, [[1, 1, 1.5, 1], [nan, 0, 2.5, 2], [3, nan, 3.5, 3]])


def test_lists_with_holes_and_several_batches():
    values = [[1.0, 2.0], None, [3.0, None], [5.0, 6.0]]
    batches = [pa.table({"v": values[:2]}), pa.table({"v": values[2:]})]
    opened = open_table(pa.concat_tables(batches))
    X = read_features(opened, choose_columns(opened))
    nan = np.nan
    np.testing.assert_array_equal(X, [[1, 2], [nan, nan], [3, nan], [5, 6]])


def test_the_note_is_short():
    wide = pa.table({f"c{j}": RNG.normal(size=N) for j in range(500)})
    assert choose_columns(open_table(wide)).note() == ("500 columns (c0, c1, c2, c3, ..., c499)")
