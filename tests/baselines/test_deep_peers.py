"""The deep peers on data whose answer is known, and on wrong calls."""

import copy
import dataclasses
import re

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from unbend import MLC
from unbend.baselines import CPP, MCR2, METHODS, NMCE, PRODSC
from unbend.metrics import clustering_accuracy, largest_subspace_cosine, similarity_blocks

SMALL = {"network.width": 32, "network.head_width": 32, "pretrain.min_steps": 60}
CLUSTERERS = [NMCE, CPP, PRODSC]


@pytest.fixture(scope="module")
def blobs():
    centers = 9 * np.eye(3, 6)
    return make_blobs(120, n_features=6, centers=centers, random_state=0)


@pytest.mark.parametrize("peer", CLUSTERERS)
def test_far_blobs_are_found_and_predicted(peer, blobs):
    """Three far groups: all samples right, new ones too, features on the sphere."""
    X, y = blobs
    model = peer(3, dim=16, random_state=0, settings=SMALL).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert np.array_equal(model.predict(X), model.labels_)
    proba = model.predict_proba(X)
    assert np.allclose(proba.sum(1), 1)
    assert np.array_equal(proba.argmax(1), model.labels_)
    assert np.allclose(np.linalg.norm(model.transform(X), axis=1), 1)
    assert np.bincount(model.labels_).tolist() == sorted(np.bincount(y), reverse=True)
    new, truth = make_blobs(30, n_features=6, centers=9 * np.eye(3, 6), random_state=5)
    assert clustering_accuracy(truth, model.predict(new)) == 1.0


def test_mcr2_makes_classes_orthogonal(blobs):
    """Classes become subspaces at right angles, which k-means would not ask for."""
    X, y = blobs
    Z = MCR2(dim=16, random_state=0, settings=SMALL).fit(X, y).transform(X)
    assert largest_subspace_cosine(Z, y) < 0.2
    assert similarity_blocks(Z, y).between < 0.05


def test_mcr2_raises_the_rate_reduction(blobs):
    """What is maximised grows, and class names do not matter."""
    X, y = blobs
    model = MCR2(dim=16, random_state=0, settings=SMALL).fit(X, y)
    delta = [row["delta_R"] for row in model.history_]
    assert delta[-1] > 1.5 * delta[0]
    named = MCR2(dim=16, random_state=0, settings=SMALL).fit(X, np.array(["c", "a", "b"])[y])
    assert named.classes_.tolist() == ["a", "b", "c"]
    # Another order of the classes sums the same terms in another order: equal up to rounding.
    assert np.allclose(named.transform(X), model.transform(X), atol=0.05)


@pytest.mark.parametrize("peer", CLUSTERERS)
def test_peers_cluster_images_reproducibly(peer):
    """Digits as images: the right shapes, and the same again from the same seed."""
    from unbend.sources import load_named

    data = load_named("digits")
    rows = np.flatnonzero(data.y < 2)[:80]
    settings = {"network.width": 4, "pretrain.epochs": 1, "pretrain.min_steps": 3} | {
        "network.head_width": 16,
        "stage2.min_steps": 3,
    }
    models = [
        peer(2, dim=8, epochs=2, random_state=0, settings=settings).fit(data.X[rows])
        for _ in range(2)
    ]
    assert models[0].transform(data.X[rows]).shape == (80, 8)
    assert np.array_equal(models[0].labels_, models[1].labels_)
    with pytest.raises(ValueError, match=r"fitted on images of shape \(1, 8, 8\); reshape"):
        models[0].predict(data.X[rows].reshape(80, -1))


def test_a_given_network_replaces_stage_1(blobs):
    """The backbone stays what it was; the network that was given is not touched."""
    X, _ = blobs
    first = NMCE(3, dim=16, random_state=0, settings=SMALL).fit(X)
    start = first._network
    before = {k: v.clone() for k, v in start.state_dict().items()}
    second = CPP(3, dim=16, random_state=1, settings=SMALL)
    # NMCE's cluster head has k outputs; the copy of the feature head needs one of d.
    start.cluster_head = copy.deepcopy(start.feature_head)
    second.fit(X, network=start)
    assert {row["stage"] for row in second.history_} == {"CPP"}
    for name, value in second._network.backbone.state_dict().items():
        assert (value == before[f"backbone.{name}"]).all()
    for name, value in start.feature_head.state_dict().items():
        assert (value == before[f"feature_head.{name}"]).all()


@pytest.mark.parametrize("peer", CLUSTERERS)
def test_stage_2_trains_the_backbone_where_asked(peer, blobs):
    """Frozen it ends as it was given, and asked for it moves."""
    X, _ = blobs
    settings = {**SMALL, "pretrain.min_steps": 2, "stage2.max_steps": 3, "stage2.min_steps": 0}
    start = PRODSC(3, dim=16, pretrain_epochs=1, random_state=0, settings=settings).fit(X)._network
    for asked in (False, True):
        changes = {**settings, "stage2.train_backbone": asked}
        model = peer(3, dim=16, random_state=0, settings=changes).fit(X, network=start)
        pairs = zip(model._network.backbone.parameters(), start.backbone.parameters(), strict=True)
        assert all(bool((a == b).all()) for a, b in pairs) != asked


def test_cpp_samples_the_columns_it_is_asked_for(blobs):
    """With as many anchors as columns the rates are those of all; with few they are others."""
    X, _ = blobs
    settings = {**SMALL, "pretrain.min_steps": 2, "stage2.max_steps": 2, "stage2.min_steps": 0}

    def rates(n):
        changes = {**settings, "stage2.n_anchors": n}
        model = CPP(3, dim=16, pretrain_epochs=1, random_state=0, settings=changes).fit(X)
        return [row["R_c"] for row in model.history_ if row["stage"] == "CPP"]

    assert rates(len(X))[0] == pytest.approx(rates(0)[0], rel=1e-5)
    assert rates(5)[0] != pytest.approx(rates(0)[0], rel=1e-5)


def test_mcr2_leaves_the_network_it_is_given_alone(blobs):
    X, y = blobs
    settings = {**SMALL, "pretrain.min_steps": 3}
    start = MCR2(dim=16, epochs=1, random_state=0, settings=settings).fit(X, y)._network
    before = {name: value.clone() for name, value in start.state_dict().items()}
    model = MCR2(dim=16, epochs=1, random_state=1, settings=settings).fit(X, y, network=start)
    assert all(bool((start.state_dict()[k] == v).all()) for k, v in before.items())
    assert any(bool((model._network.state_dict()[k] != v).any()) for k, v in before.items())


@pytest.mark.parametrize("preset", ["paper", "images"])
@pytest.mark.parametrize("method", ["tcr", "simclr", "moco", "swav", "byol", "vicreg"])
@pytest.mark.parametrize("peer", CLUSTERERS)
def test_stage_1_is_that_of_mlc(peer, method, preset):
    """With published settings the optimiser and rate of each method, too; only NMCE's published
    number of epochs is its own."""
    given = {"pretrain.method": method}
    ours = peer(10, preset=preset, settings=given)._resolve((3, 32, 32), 50_000)
    theirs = MLC(10, preset=preset, settings=given)._resolve((3, 32, 32), 50_000)
    own = {"epochs": peer.published["pretrain.epochs"]} if peer is NMCE else {}
    own = own if preset == "paper" else {}
    assert ours.pretrain == dataclasses.replace(theirs.pretrain, **own)
    assert (ours.views, ours.network) == (theirs.views, theirs.network)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (NMCE("auto"), "`n_clusters` of NMCE must be an integer >= 1, got 'auto'"),
        (NMCE(500), "n_clusters=500 of NMCE must be at most n_samples=120"),
        (NMCE(3, temperature=0), "`temperature` of NMCE must be > 0, got 0"),
        (NMCE(3, cluster_lr="fast"), "`cluster_lr` of NMCE must be > 0, got 'fast'"),
        (CPP(3, penalty=-1), "`penalty` of CPP must be >= 0, got -1"),
        (PRODSC(3, gamma=float("nan")), "`gamma` of PRODSC must be >= 0, got nan"),
        (PRODSC(3, settings={"stage2.speed": 1}), "unknown setting 'stage2.speed'"),
        (MCR2(optimizer="lars"), "`optimizer` of MCR2 must be one of auto, sgd, adam"),
    ],
)
def test_invalid_parameters_raise(model, message, blobs):
    """One line with the thing, the value and the rule, before any training."""
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(*blobs)
    assert not hasattr(model, "history_")


def test_mcr2_needs_classes(blobs):
    """No y, too few, or numbers that are no classes."""
    X, y = blobs
    with pytest.raises(ValueError, match="requires y"):
        MCR2().fit(X)
    with pytest.raises(ValueError, match="one class per sample"):
        MCR2().fit(X, y[:-1])
    with pytest.raises(ValueError, match="continuous"):
        MCR2().fit(X, np.linspace(0, 1, len(X)))


def test_benchmark_lists_the_deep_peers():
    """By name, with their k and seed."""
    for name, peer in (("nmce", NMCE), ("cpp", CPP), ("pro-dsc", PRODSC)):
        model = METHODS[name](7, random_state=3)
        assert isinstance(model, peer)
        assert (model.n_clusters, model.random_state) == (7, 3)
