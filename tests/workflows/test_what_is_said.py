"""What the terminal says about small things: one or many, what was read, which and why."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from PIL import Image

from unbend.cli import main
from unbend.exceptions import UnbendWarning
from unbend.sources import open_source
from unbend.tables import choose_columns, open_table
from unbend.workflows import cluster, predict

QUICK = {
    "pretrain.epochs": 1, "pretrain.head_steps": 1, "stage2.epochs": 1, "views.n_neighbors": 2,
    "views.metric": "euclidean", "stage2.eta": 0.2,
}  # fmt: skip
FAST = [flag for name, value in QUICK.items() for flag in ("--set", f"{name}={value}")]
X = np.repeat(np.eye(4) * 9, 6, axis=0) + np.random.default_rng(0).normal(size=(24, 4))
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(city=["Rome", "Oslo"] * 12)
TEXTS = ["sun moon star sky comet", "fish boat sea wave harbour"] * 10


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / ".cache"))


def call(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments], prog_name="unbend")


def photos(side: int = 16, mode: str = "RGB") -> str:
    Path("photos").mkdir()
    for i in range(12):
        pixels = np.random.default_rng(i).integers(0, 256, (side, side, 3), np.uint8)
        Image.fromarray(pixels).convert(mode).save(f"photos/{i:02}.png")
    return "photos"


def test_what_was_read_is_said_before_the_work():
    FRAME.to_csv("t.csv", index=False)
    done = call("cluster", "t.csv", "-k", 4, "--no-report", *FAST)
    assert done.exit_code == 0, done.output
    said = done.stderr.splitlines()
    read = "read 24 vectors of 4 from t (4 columns (a, b, c, d); left out: city (text, see --text))"
    plan = next(i for i, line in enumerate(said) if line.startswith("plan: "))
    assert said.index(read) < plan
    assert done.stdout.splitlines()[0] == read


@pytest.mark.parametrize(("bad", "words"), [(1, "1 broken row left"), (2, "2 broken rows left")])
def test_broken_rows_are_counted_in_english(bad, words):
    broken = FRAME.copy()
    broken.loc[: bad - 1, "a"] = np.nan
    done = cluster(broken, out="run", n_clusters=4, settings=QUICK, report=False)
    assert words in done.summary()
    said = predict("run", broken, out="p.csv")
    assert f", {words} out (see p.broken.csv)" in said.summary()
    assert said.summary().startswith(f"read {24 - bad} vectors of 4 from table (4 columns")


def test_broken_texts_of_a_folder_are_files():
    Path("notes").mkdir()
    for i, text in enumerate([*TEXTS, ""]):
        Path(f"notes/{i:02}.txt").write_text(text)
    done = cluster("notes", out="run", n_clusters=2, encoder="tfidf", settings=QUICK, report=False)
    assert "1 broken file left out" in done.summary()
    read, found = predict("run", "notes/00.txt", out="p.csv").summary().splitlines()
    assert read == "read 1 text from 00"
    assert found.startswith("1 sample labelled, ")


def test_predict_says_what_was_read_and_skipped():
    cluster(photos(), out="run", n_clusters=2, encoder="none", settings=QUICK, report=False)
    Path("photos/raw.cr2").write_bytes(b"x")
    read = predict("run", "photos", out="p.csv").summary().splitlines()[0]
    assert read == "read 12 images of 3 x 64 x 64 from photos (1 .cr2 skipped: convert it to PNG)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {},
            "encoder lite2+mirror (the usual one for photographs), preset vectors",
        ),
        ({"encoder": "none"}, "preset images (made for small images), no encoder (as asked)"),
    ],
)
def test_the_encoder_of_photographs_has_a_reason(options, words):
    done = cluster(photos(64), out="run", n_clusters=2, settings=QUICK, report=False, **options)
    assert done.chosen.startswith(words)


def test_no_encoder_for_small_gray_images_has_a_reason():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 8, 8), np.uint8)
    done = cluster(pixels, out="run", n_clusters=2, settings=QUICK, report=False)
    assert "no encoder (small gray images need none)" in done.chosen


def test_names_that_repeat_are_announced():
    with pytest.warns(UnbendWarning, match=r"'city' .* has 2 different values in 24 rows"):
        assert open_source(FRAME, id="city").names[:2] == ["Rome", "Oslo"]


def test_exclude_takes_away_from_what_a_star_stands_for():
    table = open_table(FRAME.rename(columns={"a": "xa", "b": "xb", "c": "xc"}))
    assert choose_columns(table, columns="x*", exclude="xb").features == ["xa", "xc"]
    with pytest.raises(ValueError, match="'xb' is in --columns and in --exclude; choose one"):
        choose_columns(table, columns="xa,xb", exclude="xb")
    with pytest.raises(ValueError, match="--exclude leaves none of the columns of --columns"):
        choose_columns(table, columns="x*", exclude="x*")


def test_a_short_list_of_columns_is_not_cut():
    six = pd.DataFrame(np.ones((3, 6)), columns=list("abcdef"))
    assert choose_columns(open_table(six)).note() == "6 columns (a, b, c, d, e, f)"
    seven = pd.DataFrame(np.ones((3, 7)), columns=list("abcdefg"))
    assert choose_columns(open_table(seven)).note() == "7 columns (a, b, c, d, ..., g)"


def test_predict_names_the_column_of_texts_that_is_missing():
    with open("t.csv", "w", newline="") as file:
        csv.writer(file).writerows([["body", "n"], *([text, i] for i, text in enumerate(TEXTS))])
    cluster("t.csv", text="body", out="run", n_clusters=2, encoder="tfidf", settings=QUICK)
    FRAME.rename(columns={"city": "boddy"}).to_csv("new.csv", index=False)
    done = call("predict", "run", "new.csv", "-o", "p.csv")
    assert "the model was fitted on column 'body', which 'new.csv' does not have" in done.stderr
    assert "did you mean 'boddy'?" in done.stderr


def test_the_result_as_json_says_what_was_read():
    cluster(FRAME, out="run", n_clusters=4, settings=QUICK, report=False)
    FRAME.to_csv("t.csv", index=False)
    done = json.loads(call("predict", "run", "t.csv", "-o", "p.csv", "-q", "--json").stdout)
    assert done["read"] == "read 24 vectors of 4 from t (4 columns (a, b, c, d))"
    assert "unit" not in done


def test_a_table_with_the_name_of_a_text_is_explained():
    FRAME.to_csv("table.txt", index=False)
    done = call("cluster", "table.txt", "-k", 3, "-q")
    assert "'table.txt' is a single text; give a folder of texts, or rename a table" in done.stderr
