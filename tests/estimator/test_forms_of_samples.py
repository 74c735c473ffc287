"""What fit, predict, load and the charts take in Python, and what they say to the rest."""

import os
import warnings
from pathlib import Path

import datasets
import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image

from unbend import MLC, load, plot_map, plot_similarity
from unbend.exceptions import UnbendWarning
from unbend.workflows import cluster

matplotlib.use("Agg")
QUICK = {
    "pretrain.epochs": 1, "pretrain.head_steps": 1, "stage2.epochs": 1, "views.n_neighbors": 2,
    "views.metric": "euclidean", "stage2.eta": 0.2,
}  # fmt: skip
N = 24
X = np.repeat(np.eye(4) * 9, 6, axis=0) + np.random.default_rng(0).normal(size=(N, 4))
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(label=np.arange(N) % 4, city=["Rome"] * N)
TEXTS = [f"{words} {words.split()[i % 3]}" for words in ("sun moon star", "fish boat sea")
         for i in range(10)]  # fmt: skip
PIXELS = np.random.default_rng(1).integers(0, 256, (12, 16, 16, 3), np.uint8)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / ".cache"))


def model(k: int = 2, **given) -> MLC:
    return MLC(k, settings=QUICK, random_state=0, **given)


@pytest.fixture(scope="module")
def on_texts() -> MLC:
    return model(encoder="tfidf").fit(TEXTS)


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (lambda: {"a": [1, 2]}, r"X is of type dict, .* as in pandas.DataFrame\(X\)"),
        (lambda: (row for row in X), r"X is of type generator, which is not read; pass list\(X\)"),
        (lambda: FRAME.iloc[0], r"X is of type Series, .* X.to_frame\(\).T if it is one row"),
        (lambda: pl.Series([1.0, 2.0]), r"X is of type Series"),
        (
            lambda: datasets.DatasetDict({"test": datasets.Dataset.from_dict({"a": [1.0]})}),
            r"X is of type DatasetDict, .* choose a split, as in X\['test'\]",
        ),
        (
            lambda: datasets.Dataset.from_dict({"a": [1.0]}).to_iterable_dataset(),
            r"X is of type IterableDataset, .* take some rows",
        ),
        (lambda: "gone.png", r"cannot read the image 'gone.png': No such file"),
        (
            lambda: pd.DataFrame({"title": TEXTS, "body": TEXTS}),
            r"X has several columns of text: title, body; choose one, as in X\['title'\]",
        ),
        (
            lambda: pd.DataFrame({"body": [*TEXTS, None, " "]}),
            r"'body' of X is empty in 2 of 22 rows, the first is 20; remove them",
        ),
        (lambda: pd.DataFrame({"when": pd.date_range("2020", periods=9)}), r"X has no columns of"),
    ],
)
def test_what_is_not_samples_gets_one_clear_line(samples, words):
    with pytest.raises(ValueError, match=words):
        model().fit(samples())


@pytest.mark.parametrize(
    "table",
    [
        datasets.Dataset.from_dict({"text": TEXTS, "label": [0, 1] * 10}),
        pd.DataFrame({"id": range(20), "body": TEXTS}),
        pl.DataFrame({"body": TEXTS}),
    ],
)
def test_a_table_with_one_column_of_text_is_texts(table, on_texts):
    fitted = model(encoder="tfidf").fit(table)
    assert (fitted.labels_ == on_texts.labels_).all()
    assert (fitted.predict(table) == fitted.predict(TEXTS)).all()


def test_predict_takes_one_text_or_its_file(on_texts):
    expected = on_texts.predict(["moon star"]).tolist()
    assert on_texts.predict("moon star").tolist() == expected
    assert on_texts.predict("moon star " * 500).tolist() == expected  # too long for a path
    Path("new.txt").write_text("moon star")
    assert on_texts.predict("new.txt").tolist() == expected
    assert on_texts.predict(Path("new.txt")).tolist() == expected


@pytest.mark.parametrize("encoder", [None, "lite0"])
def test_predict_takes_one_picture_as_an_array(encoder):
    side = 16 if encoder is None else 224
    pictures = [Image.fromarray(x).resize((side, side)) for x in PIXELS]
    arrays = np.stack([np.asarray(picture) for picture in pictures])
    fitted = model(encoder=encoder).fit(arrays)
    assert fitted.predict(arrays[3]).tolist() == fitted.predict(arrays[3:4]).tolist()
    if encoder is None:
        with pytest.raises(ValueError, match=r"shape .3, 20, 30., but the model was fitted on"):
            fitted.predict(np.zeros((20, 30, 3), np.uint8))


def test_photographs_without_an_encoder_are_warned_of():
    pictures = [Image.fromarray(x) for x in PIXELS]
    with pytest.warns(UnbendWarning, match="pass encoder='lite2'") as said:
        fitted = model().fit(pictures)
    assert said[0].filename == __file__  # the line of the caller, not one of ours
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(pictures)  # it was said once


def test_the_model_of_a_run_takes_the_columns_of_the_run(recwarn):
    FRAME.to_parquet("t.parquet")
    cluster("t.parquet", out="run", n_clusters=4, settings=QUICK, report=False)
    found, recwarn.list[:] = load("run"), []
    expected = found.predict(X)
    shuffled = FRAME[["city", "d", "label", "b", "a", "c"]]
    assert (found.predict(shuffled) == expected).all()
    assert (found.predict(pl.from_pandas(shuffled)) == expected).all()
    assert not recwarn.list
    with pytest.raises(ValueError, match=r"fitted on column 'b', which X does not have; .* 'bb'"):
        found.predict(FRAME.rename(columns={"b": "bb"}))


def test_the_model_of_a_run_takes_the_texts_and_vectors_of_the_run():
    texts = pd.DataFrame({"body": TEXTS, "title": "none", "stars": 1.0})
    cluster(texts, text="body", out="run", n_clusters=2, encoder="tfidf", settings=QUICK)
    found = load("run")
    assert (found.predict(texts) == found.predict(TEXTS)).all()
    vectors = pd.DataFrame({"v": list(X), "x": 1.0})
    cluster(vectors, out="lists", n_clusters=4, settings=QUICK, report=False)
    found = load("lists")
    assert (found.predict(vectors) == found.predict(X)).all()


@pytest.mark.parametrize("draw", [plot_map, plot_similarity])
def test_charts_of_a_loaded_run_show_its_samples(draw):
    cluster(X, out="run", n_clusters=4, settings=QUICK, train_on=20, report=False)
    ax = draw(load("run"))
    shown = ax.collections[0].get_offsets() if draw is plot_map else ax.images[0].get_array()
    assert len(shown) == N  # all of the run, not only those it was trained on
    with pytest.raises(ValueError, match="does not hold the samples of fit; pass them as X"):
        draw(load("run/model"))
    os.remove("run/features.npy")
    with pytest.raises(ValueError, match=r"holds no features.npy; pass the samples as X"):
        draw(load("run"))


def test_load_says_that_there_is_nothing():
    with pytest.raises(FileNotFoundError, match="no run or model 'nowhere'; name what `unbend cl"):
        load("nowhere")
