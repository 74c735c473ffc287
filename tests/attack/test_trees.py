"""Any tree as a record, any text as a table or a config: hypothesis looks for what breaks."""

import io
import json
import random
import tarfile

import click
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tools.attack.mutate import damage

from unbend.cli.settings import parse_setting
from unbend.encoding import check_record
from unbend.rules import check_rule, whole
from unbend.runs.labels import needs_quote
from unbend.runs.manifest import listed_files, read_json
from unbend.sources.matrices import read_array
from unbend.tables import open_table
from unbend.tables.delimited import open_delimited
from unbend.workflows.shards import Unit, read_unit

QUIET = settings(
    deadline=None, derandomize=True, max_examples=60, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
TREES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


def said(work, kind=ValueError) -> str:
    """What an error of this kind says; nothing if there is none. Any other error is raised."""
    try:
        work()
    except kind as error:
        return str(error)
    return ""


NAMES = st.sampled_from(["program", "files", "name", "resolution", "mean", "std", "fingerprint"])


@QUIET
@given(tree=st.dictionaries(NAMES | st.text(max_size=9), TREES))
def test_no_record_of_an_encoder_ends_in_a_traceback(tree):
    for record in (tree, {**dict.fromkeys(("name", "fingerprint", "pooling"), "x"), **tree}):
        words = said(lambda record=record: check_record(record))
        assert not words or "the record of the encoder in this model" in words


@QUIET
@given(tree=TREES, ours=st.booleans())
def test_a_manifest_lists_only_what_lies_inside(tmp_path, tree, ours):
    content = {"program": "unbend", "files": tree} if ours else tree
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    found = listed_files(tmp_path)
    assert not found or (ours and found == set(tree))
    for name in found:
        assert (tmp_path / name).resolve().is_relative_to(tmp_path.resolve())
        assert (tmp_path / name).resolve() != tmp_path.resolve()


@QUIET
@given(data=st.binary(max_size=200))
def test_bytes_are_json_or_one_line(tmp_path, data):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    words = said(lambda: read_json(path))
    assert "x.json" in words or isinstance(json.loads(data), dict)


@QUIET
@given(
    data=st.binary(max_size=300), head=st.sampled_from([b"", b"\x93NUMPY\x01\x00", b"PK\x03\x04"])
)
@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_bytes_are_an_array_or_one_line(tmp_path, kind, data, head):
    path = tmp_path / f"x.{kind}"
    path.write_bytes(head + data)
    words = said(lambda: read_array(path))
    assert f"x.{kind}" in words or isinstance(read_array(path), np.ndarray)


@QUIET
@given(data=st.binary(max_size=300), mark=st.sampled_from([b"", b"PAR1", b"ARROW1\0\0"]))
@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
def test_bytes_are_a_table_or_one_line(tmp_path, kind, data, mark):
    path = tmp_path / f"x.{kind}"
    path.write_bytes(mark + data + mark)
    words = said(lambda: open_table(path))
    assert f"x.{kind}" in words or open_table(path).n >= 0


def test_a_damaged_tar_file_is_images_or_one_line(tmp_path):
    """The shards of ``--engine ray``: headers, sizes and images, damaged from 150 seeds."""
    with tarfile.open(tmp_path / "whole.tar", "w") as archive:
        for i in range(3):
            data = io.BytesIO()
            Image.new("RGB", (9, 9), (80 * i, 0, 0)).save(data, "PNG")
            member = tarfile.TarInfo(f"{i}.png")
            member.size = len(data.getvalue())
            archive.addfile(member, io.BytesIO(data.getvalue()))
    whole = (tmp_path / "whole.tar").read_bytes()
    unit = Unit(0, "tar", str(tmp_path), ("x.tar",))
    counts = []
    for seed in range(150):
        (tmp_path / "x.tar").write_bytes(damage(whole, random.Random(seed)))
        words = said(lambda: counts.append(len(read_unit(unit, 8).X)))
        assert not words or "x.tar" in words
    assert set(counts) == {0, 1, 2, 3}


@QUIET
@given(text=st.text(max_size=200))
def test_text_is_a_table_or_one_line(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    words = said(lambda: open_delimited(path))
    if "x.csv" not in words:
        table = open_delimited(path)
        assert sum(len(batch) for batch in table.batches(table.columns)) == table.n


@QUIET
@given(blanks=st.text(" \n\t\r\u00a0\u2003", max_size=4), sign=st.sampled_from("=+-@"))
def test_formulas_are_quoted_after_any_blank(blanks, sign):
    assert needs_quote(f"{blanks}{sign}1+1")


@QUIET
@given(value=TREES | st.just(10**400))
def test_rules_take_any_value(value):
    rule = whole(1, most=9)
    good = type(value) is int and 1 <= value <= 9
    assert bool(rule.holds(value)) == good
    if not good:
        with pytest.raises(ValueError, match="from 1 to 9"):
            check_rule("x", value, rule)


@QUIET
@given(text=st.text(max_size=40))
def test_any_text_after_set_is_a_value_or_an_error_of_usage(text):
    words = said(lambda: parse_setting(f"stage2.eta={text}"), click.UsageError)
    assert not words or "--set" in words
