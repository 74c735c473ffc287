"""Every check that scikit-learn has for clusterers, and what the peers with heads add to it."""

import json

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbend.baselines import GCC, METHODS, NNM, SCAN, SPICE, TEMI, TURTLE, IMCSwAV, load
from unbend.baselines.heads import session as head_session
from unbend.baselines.heads.session import Session
from unbend.baselines.heads.temi import teacher_momentum
from unbend.metrics import clustering_accuracy

CLASSES = [SCAN, GCC, NNM, IMCSwAV, SPICE, TEMI, TURTLE]
# Fewer heads, narrower layers, and fewer steps at a higher rate: the contract is about behaviour.
QUICK = {
    SCAN: {"n_heads": 3, "lr": 0.02},
    GCC: {"n_heads": 3, "lr": 0.02},
    NNM: {"n_heads": 3, "lr": 0.02},
    IMCSwAV: {"hidden": 32, "epochs": 10, "lr": 5e-3},
    SPICE: {"n_heads": 2, "hidden": 32, "lr": 5e-3},
    TEMI: {"n_heads": 2, "hidden": 32, "lr": 0.01},
    TURTLE: {"n_outer": 100, "n_folds": 2, "n_init": 2},
}
# Few and narrow heads leave one of TEMI's clusters empty.
WIDER = QUICK | {TEMI: {"hidden": 64, "lr": 0.01}}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(Session, "min_steps", 100)


@parametrize_with_checks([cls(**QUICK[cls]) for cls in CLASSES])
@pytest.mark.filterwarnings("ignore:skipped the last step of SPICE")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def groups(k=4, each=60, d=24, seed=0):
    """Separated groups of one size in random directions, shuffled."""
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.normal(size=(d, k)))[0].T * 8
    y = rng.permutation(np.repeat(np.arange(k), each))
    return (centres[y] + 0.5 * rng.normal(size=(k * each, d))).astype(np.float32), y


@pytest.mark.parametrize("cls", CLASSES)
def test_separated_groups_are_found_without_an_error(cls):
    """ACC 1.0 on the samples and on new ones; the same seed gives the same labels."""
    X, y = groups()
    model = cls(4, random_state=0, **WIDER[cls]).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    new, truth = groups(each=10, seed=0)
    P = model.predict_proba(new)
    np.testing.assert_allclose(P.sum(1), 1)
    assert clustering_accuracy(truth, model.predict(new)) == 1.0
    again = cls(4, random_state=0, **WIDER[cls]).fit(X)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("cls", CLASSES)
def test_a_saved_model_predicts_the_same(cls, tmp_path):
    X, _ = groups()
    model = cls(4, random_state=0, **QUICK[cls]).fit(X)
    model.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert type(back) is cls
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.labels_, model.labels_)
    for name in model._saved:
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    assert back.get_params()["n_clusters"] == 4


def test_a_model_of_before_is_loaded(tmp_path):
    """Without the arrays that are saved beside the labels by now."""
    X, _ = groups()
    model = SCAN(4, random_state=0, n_heads=1).fit(X)
    model.save(tmp_path / "model")
    place = tmp_path / "model" / "model.json"
    values = json.loads(place.read_text())
    del values["own"]
    place.write_text(json.dumps(values))
    np.testing.assert_array_equal(load(tmp_path / "model").labels_, model.labels_)


def test_a_damaged_file_is_named(tmp_path):
    X, _ = groups()
    SCAN(4, random_state=0, n_heads=1).fit(X).save(tmp_path / "model")
    place = tmp_path / "model" / "model.json"
    values = json.loads(place.read_text())
    values["method"] = "KMeans"
    place.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"not a peer of this version.*KMeans"):
        load(tmp_path / "model")


def test_turtle_takes_several_spaces(tmp_path):
    """Two spaces of one truth; their number and widths are checked later."""
    X, y = groups()
    other = (X @ np.random.default_rng(1).normal(size=(24, 6))) ** 3
    model = TURTLE(4, random_state=0, n_outer=200, n_folds=2).fit([X, other])
    assert clustering_accuracy(y, model.labels_) == 1.0
    assert model.n_features_in_ == 30
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict([X, other]), model.labels_)
    with pytest.raises(ValueError, match="fitted on 2 spaces, got one"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"widths \[24, 6\], got \[6, 24\]"):
        model.predict([other, X])
    with pytest.raises(ValueError, match="one row per sample"):
        TURTLE(4).fit([X, other[:10]])
    with pytest.raises(ValueError, match=r"must be arrays \(n, d\), got dimensions \[2, 3\]"):
        TURTLE(4).fit([X, X.reshape(len(X), 4, 6)])
    with pytest.raises(ValueError, match="space 1 of TURTLE contains NaN"):
        TURTLE(4).fit([X, np.full_like(other, np.nan)])


def test_turtle_keeps_the_labelling_of_lowest_loss(monkeypatch, tmp_path):
    """Of three searches in parallel; the others would give other labels."""
    found = {}
    search = TURTLE._search

    def watched(self, spaces, generator, progress):
        found["spaces"], found["weights"] = spaces, search(self, spaces, generator, progress)
        return found["weights"]

    monkeypatch.setattr(TURTLE, "_search", watched)
    X = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    model = TURTLE(4, n_init=3, n_outer=50, n_folds=2, random_state=0).fit(X)
    assert model.head_losses_.shape == (3,)
    assert model.best_head_ == model.head_losses_.argmin()
    Z, W = found["spaces"][0], found["weights"][0]
    labels = [(Z @ w[:, :-1].T + w[:, -1]).argmax(1).numpy() for w in W]
    agreement = [clustering_accuracy(each, model.labels_) for each in labels]
    assert agreement[model.best_head_] == 1.0
    assert sorted(agreement)[1] < 0.9
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").best_head_ == model.best_head_


def test_score_is_higher_for_the_labelling_that_can_be_learned():
    """TURTLE's rule prefers true groups to a random split of them."""
    from unbend.baselines.heads.generalization import generalization_score

    X, y = groups()
    good = TURTLE(4, random_state=0, n_outer=200, n_folds=3).fit(X)
    assert good.score_ == 1.0
    shuffled = np.random.default_rng(0).permutation(y)
    assert generalization_score([X], shuffled, 3) < 0.5
    assert generalization_score([X], np.zeros_like(y), 3) == 0.0


def test_score_is_that_of_cross_validation():
    """scikit-learn's own folds and scores of the same classifier, the mean over two spaces."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import KFold, cross_val_score

    from unbend.baselines.heads.generalization import generalization_score

    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    spaces = [rng.normal(size=(90, 4)) + scale * y[:, None] for scale in (0.5, 1.0)]
    folds = KFold(5, shuffle=True, random_state=7)
    model = LogisticRegression(max_iter=50)
    truth = [cross_val_score(model, X, y, cv=folds).mean() for X in spaces]
    assert 0.4 < truth[0] < truth[1] < 1
    assert generalization_score(spaces, y, 5, 7) == pytest.approx(np.mean(truth))


def test_consensus_is_the_mean_of_matched_heads():
    """With heads that agree, it is each of them up to the order of clusters."""
    X, y = groups()
    model = SCAN(4, n_heads=4, consensus=True, random_state=0).fit(X)
    assert clustering_accuracy(y, model.labels_) == 1.0
    heads = model._heads(model._scaling.apply(X))
    matched = [P[:, order] for P, order in zip(heads, model._columns, strict=True)]
    np.testing.assert_allclose(model.predict_proba(X), torch.stack(matched).mean(0))


def test_the_chosen_head_has_the_lowest_loss():
    X, _ = groups()
    model = SCAN(4, n_heads=5, random_state=0).fit(X)
    assert model.head_losses_.shape == (5,)
    assert model.best_head_ == model.head_losses_.argmin()
    chosen = model._heads(model._scaling.apply(X))[model.best_head_].argmax(1).numpy()
    assert clustering_accuracy(chosen, model.labels_) == 1.0


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (SCAN(n_heads=0), "n_heads"),
        (SCAN(threshold=1.0), "threshold"),
        (SCAN(consensus="yes"), "consensus"),
        (SCAN(backbone=3), "backbone"),
        (GCC(balance=-1), "balance"),
        (NNM(epochs=0), "epochs"),
        (IMCSwAV(n_prototypes=1), "n_prototypes"),
        (IMCSwAV(temperature=0), "temperature"),
        (SPICE(agreement=2), "agreement"),
        (SPICE(semi_epochs=-1), "semi_epochs"),
        (TEMI(beta=0), "beta"),
        (TEMI(momentum=1), "momentum"),
        (TURTLE(n_inner=0), "n_inner"),
        (TURTLE(n_init=0), "n_init"),
        (TURTLE(inner_lr=0), "inner_lr"),
    ],
)
def test_bad_parameters_are_named_with_a_remedy(estimator, word):
    with pytest.raises(ValueError, match=f"`{word}` of {type(estimator).__name__} must be .*got"):
        estimator.fit(np.eye(4))


@pytest.mark.parametrize("cls", CLASSES)
def test_images_without_a_backbone_are_rejected(cls):
    with pytest.raises(ValueError, match=r"takes embeddings \(n, d\)"):
        cls(2).fit(np.random.default_rng(0).random((10, 8, 8)))


def test_a_backbone_is_rejected_for_vectors(tmp_path):
    with pytest.raises(
        ValueError, match="`backbone` of SCAN is for images, got vectors of width 3"
    ):
        SCAN(2, backbone=tmp_path).fit(np.random.default_rng(0).normal(size=(10, 3)))


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, _ = groups()
    model = SCAN(4, n_heads=1, random_state=0).fit(X)
    before = model.predict(X)
    with pytest.raises(ValueError, match="n_clusters=500"):
        model.set_params(n_clusters=500).fit(X)
    model.set_params(n_clusters=4)
    np.testing.assert_array_equal(model.predict(X), before)


def test_self_labelling_is_skipped_without_confident_samples():
    """The surrogate on embeddings runs where samples are sure, and warns where none is."""
    X, y = groups()
    model = SCAN(4, n_heads=1, self_label_epochs=5, threshold=0.9, random_state=0).fit(X)
    assert {row["stage"] for row in model.history_} == {"SCAN", "self-labelling"}
    assert clustering_accuracy(y, model.labels_) == 1.0
    unsure = SCAN(4, n_heads=1, lr=1e-9, self_label_epochs=5, threshold=0.999, random_state=0)
    with pytest.warns(UserWarning, match="skipped self-labelling"):
        unsure.fit(X)


@pytest.mark.parametrize("cls", [SCAN, GCC, NNM, IMCSwAV, TEMI, TURTLE])
def test_batches_hold_ten_samples_of_each_cluster(cls):
    """Unless a batch size is given; entropies over a batch say nothing with fewer."""
    assert cls(1000)._batch(512) == 10_000
    assert cls(10)._batch(512) == 512
    assert cls(1000, batch_size=64)._batch(512) == 64


@pytest.mark.parametrize(
    ("on_images", "steps", "lr"), [(False, 100, 3e-3), (True, 100, 1e-3), (True, 8000, 2.5e-4)]
)
def test_the_rate_of_a_network_grows_when_steps_are_few(on_images, steps, lr, monkeypatch):
    """The published product of rate and steps, 1e-4 × 20,000, up to a rate of 1e-3."""
    rates = []

    class Recorder(torch.optim.Adam):
        def __init__(self, params, lr, **options):
            rates.append(lr)
            raise StopIteration

    session = Session(torch.nn.Linear(1, 1), range(8), torch.Generator())
    monkeypatch.setattr(Session, "on_images", on_images)
    monkeypatch.setattr(head_session, "Adam", Recorder)
    with pytest.raises(StopIteration):
        session.descend("x", None, [], lr=None, epochs=1, batch_size=8, min_steps=steps)
    assert rates == [lr]


def test_teachers_of_temi_average_over_a_twentieth_of_the_steps(monkeypatch):
    """Short or long, unless a momentum is given; 5000 steps have the published one."""
    from unbend.pretrain.method import Follower

    used = []
    follow = Follower.follow
    monkeypatch.setattr(
        Follower, "follow", lambda self, m, *s: used.append(m) or follow(self, m, *s)
    )
    X, _ = groups()
    for epochs, momentum, expected in ((1, None, 1 - 20 / 100), (400, None, 1 - 20 / 400),
                                       (1, 0.5, 0.5)):  # fmt: skip
        used.clear()
        TEMI(4, n_heads=1, hidden=4, epochs=epochs, momentum=momentum, random_state=0).fit(X)
        assert len(used) == max(epochs, 100)
        assert used == pytest.approx([expected] * len(used))
    assert teacher_momentum(5000) == pytest.approx(0.996)


def test_seconds_of_each_stage_are_kept():
    X, _ = groups()
    model = SCAN(4, n_heads=1, self_label_epochs=1, threshold=0.5, random_state=0).fit(X)
    assert set(model.seconds_) == {"SCAN", "self-labelling"}
    assert all(seconds > 0 for seconds in model.seconds_.values())
    assert clustering_accuracy(model.clustering_labels_, model.labels_) == 1.0


def test_clusters_lost_in_self_labelling_are_reported(monkeypatch):
    """Without labels it cannot be known to be wrong, but it can be seen."""
    from unbend.baselines.heads import scan

    def collapse(session, *args, **kwargs):
        with torch.no_grad():
            session.model.heads.last.bias[..., 0] += 1e6

    monkeypatch.setattr(scan, "learn_from_self", collapse)
    X, _ = groups()
    with pytest.warns(UserWarning, match="self-labelling emptied 3 of 4 clusters"):
        SCAN(4, n_heads=1, lr=0.02, self_label_epochs=1, random_state=0).fit(X)


def test_registry_names_every_class():
    for name in ("scan", "gcc", "nnm", "imc-swav", "spice", "temi", "turtle"):
        assert type(METHODS[name](3, random_state=1)) in CLASSES
