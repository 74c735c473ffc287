"""Tables and arrays that are written piece by piece."""

import csv
import os

import numpy as np
import pyarrow.parquet as pq
import pytest

from unbend.disk import need_arrow
from unbend.runs import (
    LabelRows,
    labels_file,
    labels_files,
    needs_mark,
    npy_file,
    read_labels,
    write_csv,
)
from unbend.tables import open_table

NAMES = ["a,b.png", 'quo"te.png', "new\nline.png", "日本/é.png", "=1+1", "-2", "plain", "@x"]


def rows(names, start=0) -> LabelRows:
    n = len(names)
    p = np.linspace(0.1, 0.9, n)
    return LabelRows(names, np.arange(start, start + n), p, 1 - p)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_pieces_make_the_same_file_as_the_whole(tmp_path, ending):
    whole = rows(NAMES)
    with labels_file(tmp_path / f"one.{ending}", mark=True) as write:
        write(whole)
    with labels_file(tmp_path / f"two.{ending}", mark=True) as write:
        for cut in (slice(0, 3), slice(3, 4), slice(4, 8)):
            write(
                LabelRows(
                    NAMES[cut], whole.labels[cut], whole.probability[cut], whole.outlier_score[cut]
                )
            )
    if ending == "csv":
        assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()
    else:
        one, two = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("one", "two"))
        assert one.equals(two)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"one.{ending}", f"two.{ending}"]


def test_a_spreadsheet_is_told_of_utf8_only_where_it_matters(tmp_path):
    """Excel guesses the encoding of a csv unless it begins with the byte order mark."""
    for name, samples in (("latin", ["a", "b"]), ("other", ["Ω", "b"])):
        with labels_file(tmp_path / f"{name}.csv", mark=needs_mark(samples)) as write:
            write(rows(samples))
    assert (tmp_path / "latin.csv").read_bytes().startswith(b"sample,cluster")
    assert (tmp_path / "other.csv").read_bytes().startswith(b"\xef\xbb\xbfsample,cluster")


def test_parquet_keeps_names_exactly(tmp_path):
    """The apostrophe before formulas is for spreadsheets alone."""
    path = tmp_path / "labels.parquet"
    with labels_file(path) as write:
        write(rows(NAMES))
    found = read_labels(path)
    assert found.samples == NAMES
    assert found.labels.tolist() == list(range(8))
    np.testing.assert_array_equal(found.probability, np.linspace(0.1, 0.9, 8))


def test_names_that_are_not_unicode_go_to_parquet_too(tmp_path):
    with labels_file(tmp_path / "l.parquet") as write:
        write(rows([os.fsdecode(b"caf\xe9.png")]))
    assert read_labels(tmp_path / "l.parquet").samples == ["caf\\udce9.png"]


def test_a_column_per_cluster(tmp_path):
    p = np.array([[0.25, 0.75], [0.5, 0.5]])
    block = LabelRows(["a", "b"], np.array([1, 0]), p.max(1), np.zeros(2), p)
    with labels_file(tmp_path / "l.csv") as write:
        write(block)
    header, first, _ = csv.reader((tmp_path / "l.csv").open())
    assert header[4:] == ["p0", "p1"]
    assert [float(v) for v in first[4:]] == [0.25, 0.75]


def test_an_error_half_way_leaves_no_file(tmp_path):
    def half(ending: str) -> None:
        with labels_file(tmp_path / f"l.{ending}") as write:
            write(rows(["a"]))
            raise RuntimeError

    for ending in ("csv", "parquet"):
        with pytest.raises(RuntimeError):
            half(ending)
    assert list(tmp_path.iterdir()) == []


def test_invalid_suffixes_and_lengths_raise(tmp_path):
    with pytest.raises(ValueError, match=r"as .csv or .parquet, got .*l.xlsx"):
        labels_file(tmp_path / "l.xlsx").__enter__()
    with pytest.raises(ValueError, match="equally long"):
        LabelRows(["a"], np.zeros(2, int), np.zeros(1), np.zeros(1))


@pytest.mark.parametrize("content", [b"", b"text", b"PAR1" + bytes(40) + b"PAR1"])
def test_a_damaged_table_is_named(tmp_path, content):
    (tmp_path / "labels.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"labels.parquet' is damaged"):
        read_labels(tmp_path / "labels.parquet")


def test_a_table_of_something_else_is_named(tmp_path):
    import pyarrow as pa

    path = tmp_path / "labels.parquet"
    pq.write_table(pa.table({"sample": ["a"], "cluster": ["b"]}), path)
    with pytest.raises(ValueError, match="is damaged"):
        read_labels(path)
    with pytest.raises(ValueError, match="is missing"):
        read_labels(tmp_path / "other.parquet")


def test_the_words_of_a_library_become_one_sentence(tmp_path):
    path = tmp_path / "labels.parquet"
    with labels_file(path) as write:
        write(rows(NAMES))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"^'.*' is damaged: .*[^.]; cluster again with --over"):
        read_labels(path)
    path.unlink()
    path.with_suffix(".csv").write_text("sample,cluster,probability,outlier_score\na,x,1,1\n")
    with pytest.raises(ValueError, match=r"labels.csv' is damaged: .*; cluster again with --over"):
        read_labels(path)


def test_small_tables_quote_formulas(tmp_path):
    write_csv(tmp_path / "t.csv", ["path", "reason"], [["=x", "no image"], ["é", 3]])
    with (tmp_path / "t.csv").open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == [["path", "reason"], ["'=x", "no image"], ["é", "3"]]


def test_an_array_in_pieces_is_numpys_own(tmp_path):
    X = np.random.default_rng(0).normal(size=(11, 2, 3))
    with npy_file(tmp_path / "x.npy", X.shape) as write:
        for part in np.array_split(X, 4):
            write(part)
    np.save(tmp_path / "y.npy", X.astype(np.float32))
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)), np.zeros((2, 3))])
def test_an_array_with_rows_missing_or_of_another_width_is_not_written(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"x.npy"), npy_file(tmp_path / "x.npy", (3, 3)) as write:
        write(wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [10**9, -2, 3])
def test_a_cluster_that_no_run_can_have_is_rejected(tmp_path, wrong):
    """A report would draw a billion of them."""
    path = tmp_path / "labels.parquet"
    with labels_file(path) as write:
        write(LabelRows(["a", "b", "c"], np.array([0, 1, wrong]), np.ones(3), np.ones(3)))
    with pytest.raises(ValueError, match=rf"damaged: cluster {wrong} of 3 samples"):
        read_labels(path)


@pytest.mark.parametrize("name", [" =1+1", "\n=1+1", "  \t@x", "\u00a0=1", "\r\n-2", " +3"])
def test_blanks_before_a_formula_do_not_hide_it(tmp_path, name):
    with labels_file(tmp_path / "labels.csv") as write:
        write(rows([name]))
    write_csv(tmp_path / "broken.csv", ["path"], [[name]])
    for table in ("labels.csv", "broken.csv"):
        with open(tmp_path / table, newline="", encoding="utf-8-sig") as file:
            assert list(csv.reader(file))[1][0] == "'" + name


def test_labels_are_read_without_threads(tmp_path, monkeypatch):
    """Where no thread can be started, a good file must not seem damaged."""
    path = tmp_path / "labels.parquet"
    with labels_file(path) as write:
        write(rows(NAMES))
    read = pq.ParquetFile.read

    def checked(self, *args, use_threads=True, **options):
        assert not use_threads
        return read(self, *args, use_threads=False, **options)

    monkeypatch.setattr(pq.ParquetFile, "read", checked)
    assert read_labels(path).samples == NAMES


def test_without_pyarrow_labels_are_written_and_read_as_csv_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("unbend.disk.arrow.find_spec", lambda name: None)
    with labels_files(tmp_path, "labels", mark=True) as write:
        write(rows(NAMES))
    assert [p.name for p in tmp_path.iterdir()] == ["labels.csv"]
    found = read_labels(tmp_path / "labels.parquet")
    assert found.samples == NAMES
    assert found.labels.tolist() == list(range(8))
    np.testing.assert_allclose(found.outlier_score, np.linspace(0.9, 0.1, 8), atol=5e-7)
    for attempt in (
        lambda: labels_file(tmp_path / "l.parquet").__enter__(),
        lambda: need_arrow("this"),
        lambda: open_table(tmp_path / "other.parquet"),
        lambda: read_labels(tmp_path / "other.parquet"),
    ):
        (tmp_path / "other.parquet").touch()
        with pytest.raises(ImportError, match=r"needs pip install 'unbend\[tables\]'"):
            attempt()


def test_with_pyarrow_both_files_are_written_and_the_exact_one_is_read(tmp_path):
    with labels_files(tmp_path, "labels", mark=False) as write:
        write(rows(NAMES))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["labels.csv", "labels.parquet"]
    np.testing.assert_array_equal(
        read_labels(tmp_path / "labels.parquet").probability, np.linspace(0.1, 0.9, 8)
    )
