"""The charts of a model: what they draw, and what they refuse."""

import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

import unbend
from unbend import MLC, load

matplotlib.use("Agg")
CENTERS = [[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]]
X, _ = make_blobs(80, centers=CENTERS, random_state=0)
PLOTS = ("plot_map", "plot_rates", "plot_similarity", "plot_spectrum", "plot_tree")


@pytest.fixture(scope="module")
def model():
    return MLC(4, random_state=0, pretrain_epochs=3, epochs=3).fit(X)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_map_has_a_point_per_sample_and_a_number_per_cluster(model):
    ax = unbend.plot_map(model)
    assert len(ax.collections[0].get_offsets()) == 80
    assert {text.get_text() for text in ax.texts} == {"0", "1", "2", "3"}
    assert len(unbend.plot_map(model, max_samples=30).collections[0].get_offsets()) == 30


def test_map_of_new_samples(model):
    assert len(unbend.plot_map(model, X[:10]).collections[0].get_offsets()) == 10


def test_outliers_are_left_out(model, monkeypatch):
    monkeypatch.setattr(model, "labels_", np.where(np.arange(80) < 5, -1, model.labels_))
    ax = unbend.plot_map(model)
    assert len(ax.collections[0].get_offsets()) == 75
    assert {text.get_text() for text in ax.texts} == {"0", "1", "2", "3"}


def test_similarity_is_the_cosine_of_features_in_the_order_of_clusters(model):
    ax = unbend.plot_similarity(model)
    order = np.argsort(model.labels_, kind="stable")
    Z = model.transform(X)[order]
    np.testing.assert_allclose(ax.images[0].get_array(), np.abs(Z @ Z.T), atol=1e-12)
    sizes = np.bincount(model.labels_)
    middles = [sizes[:q].sum() + (sizes[q] - 1) / 2 for q in range(4)]
    np.testing.assert_allclose(ax.get_xticks(), middles)


def test_spectrum_marks_the_gap_after_k(model):
    ax = unbend.plot_spectrum(model)
    curve, mark = ax.lines
    np.testing.assert_array_equal(curve.get_ydata(), model.eigenvalues_[:30])
    assert mark.get_xdata()[0] == 4.5
    gap = model.eigenvalues_[3] - model.eigenvalues_[4]
    assert ax.get_title() == f"k = 4, gap {gap:.3g}"


def test_rates_are_those_of_the_history(model):
    ax = unbend.plot_rates(model)
    lines = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert set(lines) == {"$R$", "$R_c$", "$ΔR$"}
    last = model.history_[-1]
    assert lines["$ΔR$"].get_ydata()[-1] == last["delta_R"]
    assert len(lines["$R$"].get_xdata()) == len(model.history_)
    stages = [row["stage"] for row in model.history_]
    starts = [i for i in range(1, len(stages)) if stages[i] != stages[i - 1]]
    dashed = [line.get_xdata()[0] for line in ax.lines if line.get_label().startswith("_")]
    assert dashed == [start - 0.5 for start in starts]
    assert len(starts) >= 1


def test_tree_has_a_leaf_per_cluster_and_the_heights_of_the_linkage(model):
    ax = unbend.plot_tree(model)
    assert {label.get_text() for label in ax.get_xticklabels()} == {"0", "1", "2", "3"}
    tops = [path.vertices[:, 1].max() for path in ax.collections[0].get_paths()]
    np.testing.assert_allclose(sorted(tops), sorted(model.merge_tree_[:, 2]))


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_draws_into_given_axes(model, name):
    ax = plt.subplots()[1]
    assert getattr(unbend, name)(model, ax=ax) is ax


def test_a_loaded_model_needs_the_samples_for_a_map(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    with pytest.raises(ValueError, match="pass them as X"):
        unbend.plot_map(loaded)
    assert len(unbend.plot_map(loaded, X).collections[0].get_offsets()) == 80


@pytest.mark.parametrize("name", PLOTS)
def test_a_model_that_is_not_fitted_is_rejected(name):
    with pytest.raises(NotFittedError):
        getattr(unbend, name)(MLC(2))


def test_one_cluster_has_no_tree():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = MLC(1, random_state=0, pretrain_epochs=1, epochs=1).fit(X[:20])
    with pytest.raises(ValueError, match="at least 2 clusters, got 1"):
        unbend.plot_tree(one)
