"""From codes to a model: three paths, new samples, bad input."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score
from tests.generators.subspaces import UnionOfSubspaces, union_of_subspaces

from unbend.exceptions import UnbendWarning
from unbend.functional import doubly_stochastic
from unbend.labels import LabelModel, label_codes
from unbend.labels.check import unit_rows
from unbend.labels.embedding import choose_method
from unbend.progress import Tick

ETA = 0.175
METHODS = ("dense", "blocks", "landmarks")


@functools.cache
def data(n: int = 1000, k: int = 5, **options: Any) -> UnionOfSubspaces:
    return union_of_subspaces(n, k, seed=4, **options)


@functools.cache
def model(method: str = "dense", n: int = 1000, k: int = 5, **options: Any) -> LabelModel:
    union = data(n, k, **options)
    absolute = options.get("signed", False)
    return label_codes(union.C, union.Z, k, eta=ETA, method=method, absolute=absolute)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, {"imbalance": 20.0}, {"signed": True}], ids=str)
def test_paths_agree_at_five_thousand(method: str, options: dict[str, Any]) -> None:
    union, found = data(5000, 10, **options), model(method, 5000, 10, **options)
    assert found.method == method
    dense = model("dense", 5000, 10, **options)
    assert adjusted_rand_score(dense.labels, found.labels) >= 0.99
    assert adjusted_rand_score(union.y, found.labels) >= 0.99
    np.testing.assert_array_equal(found.predict(union.C), found.labels)
    # No cluster is lost, the smallest (20:1) included.
    np.testing.assert_allclose(
        np.bincount(found.labels), np.sort(np.bincount(union.y))[::-1], rtol=0.05
    )


@pytest.mark.parametrize("method", METHODS)
def test_agrees_with_spectral_clustering_of_scikit_learn(method: str) -> None:
    union = data(1200, 8, noise=0.6, spread=0.7)
    found = model(method, 1200, 8, noise=0.6, spread=0.7)
    C = torch.from_numpy(union.C)
    Gamma = doubly_stochastic(C @ C.T, ETA).Gamma.numpy()
    reference = SpectralClustering(8, affinity="precomputed", random_state=0).fit(Gamma).labels_
    assert adjusted_rand_score(reference, found.labels) >= 0.98
    if method == "landmarks":
        assert found.reassigned is None
    else:
        assert found.reassigned <= 0.01


def test_eigenvalues_are_those_of_the_membership() -> None:
    C = torch.from_numpy(data().C).double()
    exact = torch.linalg.eigvalsh(doubly_stochastic(C @ C.T, ETA, tol=1e-9).Gamma).flip(0)
    np.testing.assert_allclose(model().eigenvalues, exact[:6], atol=1e-4)


@pytest.mark.parametrize("absolute", [False, True])
def test_probabilities_are_sums_of_the_membership(absolute: bool) -> None:
    """For fitted samples the probabilities are Γ times the indicators of the clusters."""
    union = data(600, 4)
    found = label_codes(union.C, union.Z, 4, eta=ETA, absolute=absolute, tol=1e-6)
    C = torch.from_numpy(union.C).double()
    S = (C @ C.T).abs() if absolute else C @ C.T
    Gamma = doubly_stochastic(S, ETA, tol=1e-9, max_iter=500).Gamma.numpy()
    expected = Gamma @ np.eye(4)[found.labels]
    np.testing.assert_allclose(found.predict_proba(union.C), expected, atol=2e-5)


@pytest.mark.parametrize("method", METHODS)
def test_predict_labels_new_samples(method: str) -> None:
    both = union_of_subspaces(6000, 6, seed=1, noise=0.4)
    found = label_codes(both.C[:5000], both.Z[:5000], 6, eta=ETA, method=method)
    new = torch.from_numpy(both.C[5000:])
    p = found.predict_proba(new)
    assert p.shape == (1000, 6)
    assert p.dtype == np.float64
    assert np.abs(p.sum(1) - 1).max() < 1e-6
    np.testing.assert_array_equal(p.argmax(1), found.predict(new))
    assert adjusted_rand_score(both.y[5000:], found.predict(new)) > 0.99
    assert len(found.representatives.codes) <= 2200  # not all codes are kept
    # One row at a time gives the same as all at once.
    np.testing.assert_allclose(found.predict_proba(new[7:8]), p[7:8], atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_many_clusters_are_added_up_to_the_same_probabilities(method: str, monkeypatch) -> None:
    union, found = data(), model(method)
    expected = found.predict_proba(union.C)
    monkeypatch.setattr("unbend.labels.prediction._FEW", 0)
    np.testing.assert_allclose(found.predict_proba(union.C), expected, rtol=1e-5, atol=1e-12)


def test_order_of_samples_does_not_matter() -> None:
    union = data(900, 6, imbalance=3.0)
    order = np.random.default_rng(0).permutation(900)
    plain = label_codes(union.C, union.Z, 6, eta=ETA).labels
    mixed = label_codes(union.C[order], union.Z[order], 6, eta=ETA).labels
    np.testing.assert_array_equal(plain[order], mixed)  # sizes differ, so numbers agree too


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_labels_and_no_global_random_state(method: str) -> None:
    union = data(2500, 5, noise=0.9)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = label_codes(union.C, union.Z, 5, eta=ETA, method=method, seed=3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    second = label_codes(union.C, union.Z, 5, eta=ETA, method=method, seed=3)
    np.testing.assert_array_equal(first.labels, second.labels)


def test_numbering_and_coarser_labels() -> None:
    found = model("dense", 5000, 10, imbalance=20.0)
    assert (np.diff(np.bincount(found.labels)) < 0).all()
    assert found.labels.dtype == np.int64
    np.testing.assert_array_equal(found.labels_at(10), found.labels)
    for k in range(1, 10):
        coarse, finer = found.labels_at(k), found.labels_at(k + 1)
        assert len(set(coarse)) == k
        assert len(set(zip(coarse, finer, strict=True))) == k + 1  # nested


def test_float64_and_half_precision() -> None:
    union = data()
    for dtype in (torch.float64, torch.bfloat16):
        C, Z = (torch.from_numpy(x).to(dtype) for x in (union.C, union.Z))
        assert adjusted_rand_score(label_codes(C, Z, 5, eta=ETA).labels, model().labels) == 1.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("method", METHODS)
def test_gpu_labels_agree_with_cpu(method: str) -> None:
    union = data(5000, 10)
    C, Z = torch.from_numpy(union.C).cuda(), torch.from_numpy(union.Z).cuda()
    found = label_codes(C, Z, 10, eta=ETA, method=method)
    assert adjusted_rand_score(found.labels, model(method, 5000, 10).labels) > 0.99
    np.testing.assert_array_equal(found.predict(C), found.labels)


@pytest.mark.parametrize("method", ["dense", "landmarks"])
def test_state_survives_safetensors_and_json(method: str, tmp_path: Path) -> None:
    union, found = data(), model(method)
    tensors, meta = found.state()
    safetensors.torch.save_file(tensors, tmp_path / "labels.safetensors")
    tensors = safetensors.torch.load_file(tmp_path / "labels.safetensors")
    loaded = LabelModel.from_state(tensors, json.loads(json.dumps(meta)))
    np.testing.assert_array_equal(loaded.labels, found.labels)
    np.testing.assert_array_equal(loaded.merge_tree, found.merge_tree)
    np.testing.assert_array_equal(loaded.predict_proba(union.C), found.predict_proba(union.C))
    # Files of earlier versions had second moments as well.
    older = {**tensors, "moments": torch.zeros(5, 128, 128), "counts": torch.zeros(5)}
    np.testing.assert_array_equal(LabelModel.from_state(older, meta).labels, found.labels)
    assert (loaded.method, loaded.selection, loaded.reassigned) == (method, None, found.reassigned)


def test_outvoted_clusters_are_kept_with_a_warning() -> None:
    """At a large η the small cluster loses every vote, unless its potential is raised."""
    union = data(1000, 3, imbalance=40.0)
    with pytest.warns(UnbendWarning, match="outvoted everywhere"):
        found = label_codes(union.C, union.Z, 3, eta=3.0)
    assert np.bincount(found.labels, minlength=3).min() > 0
    np.testing.assert_array_equal(found.predict(union.C), found.labels)


@pytest.mark.parametrize("method", ["dense", "blocks"])
def test_identical_codes_warn_and_do_not_fail(method: str) -> None:
    C = torch.eye(1, 8).repeat(60, 1)
    with pytest.warns(UnbendWarning, match="2 of 3 clusters were outvoted everywhere"):
        found = label_codes(C, C, 3, eta=ETA, method=method)
    assert len(set(found.labels)) == 1
    assert np.isfinite(found.merge_tree).all()
    np.testing.assert_allclose(found.predict_proba(C).sum(1), 1, atol=1e-6)


@pytest.mark.filterwarnings("ignore::unbend.exceptions.UnbendWarning")
@pytest.mark.parametrize("n", [5, 6, 9, 17])
def test_auto_with_few_samples(n: int) -> None:
    C = data(200, 2).C[:n]
    found = label_codes(C, C, "auto", eta=ETA)
    assert 2 <= found.n_clusters <= n - 2
    assert set(found.labels) <= set(range(found.n_clusters))
    with pytest.raises(ValueError, match='"auto" needs 5 samples or more, got 4; give a number'):
        label_codes(C[:4], C[:4], "auto", eta=ETA)


def test_as_many_clusters_as_samples() -> None:
    C = torch.eye(12)
    assert label_codes(C, C, 12, eta=ETA).labels.tolist() == list(range(12))


def test_progress_reports_every_stage() -> None:
    ticks: list[Tick] = []
    union = data(2500, 5)
    label_codes(union.C, union.Z, 5, eta=ETA, method="blocks", progress=ticks.append)
    label_codes(union.C, union.Z, 5, eta=ETA, method="landmarks", progress=ticks.append)
    stages = {tick.stage for tick in ticks}
    assert {"sinkhorn", "eigenvectors", "landmarks", "landmark membership", "labels"} <= stages
    assert all(1 <= tick.done <= tick.total for tick in ticks)


def test_method_follows_the_number_of_samples() -> None:
    assert [choose_method("auto", n) for n in (10_000, 10_001)] == ["dense", "landmarks"]
    assert choose_method("dense", 1_000_000) == "dense"
    assert choose_method("auto", 10_000, 50) == "dense"
    assert choose_method("auto", 10_000, 200) == "landmarks"  # many clusters


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "`n_clusters` must be from 1 to 1000, got 0"),
        ({"n_clusters": 1001}, ValueError, "`n_clusters` must be from 1 to 1000, got 1001"),
        ({"n_clusters": 2.5}, TypeError, "`n_clusters` must be an integer, got 2.5"),
        ({"n_clusters": "all"}, TypeError, "`n_clusters` must be an integer, got 'all'"),
        ({"eta": 0.0}, ValueError, "`eta` of label_codes must be > 0, got 0.0; try 0.175"),
        ({"eps_sq": -1.0}, ValueError, "`eps_sq` of label_codes must be > 0, got -1.0"),
        ({"tol": float("nan")}, ValueError, "`tol` of label_codes must be > 0, got nan"),
        ({"method": "magic"}, ValueError, "`method` must be one of .*, got 'magic'"),
        ({"n_landmarks": 3}, ValueError, "`n_landmarks` must be from 5 to 1000, got 3"),
        (
            {"n_landmarks": 9, "method": "dense"},
            ValueError,
            "`n_landmarks` is not used by `method`",
        ),
        ({"n_clusters": "auto", "max_clusters": 2}, ValueError, "`max_clusters` must be from 3"),
        ({"Z": data().Z[:10]}, ValueError, "same number of rows, got 1000 and 10"),
        ({"C": data().C[0]}, ValueError, r"`C` of label_codes must be \(n, d\), got shape"),
        ({"C": data().C * 2}, ValueError, "`C` .* rows of length 1, got lengths from 2 to 2"),
        ({"C": np.eye(1000, dtype=int)}, TypeError, "`C` .* must be floating point"),
    ],
)
def test_bad_input_raises_and_names_the_argument(
    change: dict[str, Any], error: type, message: str
) -> None:
    arguments = {"C": data().C, "Z": data().Z, "n_clusters": 5, "eta": ETA, **change}
    with pytest.raises(error, match=message):
        label_codes(**arguments)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_codes_that_are_not_finite_raise(bad: float) -> None:
    C = data().C.copy()
    C[17, 3] = bad
    with pytest.raises(ValueError, match=r"`C` of label_codes has NaN or infinite values.*row 17"):
        label_codes(C, data().Z, 5, eta=ETA)


def test_too_few_distinct_codes_for_the_landmarks() -> None:
    C = torch.eye(4).repeat(100, 1)
    with pytest.raises(ValueError, match=r"only 4 distinct codes .* fewer than `n_clusters` = 6"):
        label_codes(C, C, 6, eta=ETA, method="landmarks")


def test_few_distinct_codes_that_are_enough_for_the_clusters() -> None:
    """The look for twice as many blocks must not refuse what it cannot find."""
    C = torch.eye(4).repeat(100, 1)
    labels = label_codes(C, C, 3, eta=ETA, method="landmarks").labels
    assert sorted(np.bincount(labels)) == [100, 100, 200]
    assert all(len(set(labels[code::4])) == 1 for code in range(4))
    before = torch.eye(4)[[0, 1, 2, 1]].repeat(100, 1)  # the second and the fourth are alike
    found = label_codes(C, C, 3, eta=ETA, method="landmarks", join="stage1", before=before).labels
    assert found[1] == found[3]
    assert len(set(found[:3])) == 3


def test_new_samples_of_another_width() -> None:
    with pytest.raises(ValueError, match=r"`C_new` has 64 columns, .* fitted with 128"):
        model().predict(np.eye(64))
    with pytest.raises(ValueError, match="an integer from 1 to 5, the number of clusters"):
        model().labels_at(6)


def test_unit_rows_are_not_copied() -> None:
    C = torch.from_numpy(data().C)
    assert unit_rows("C", C, "test").data_ptr() == C.data_ptr()


@pytest.mark.parametrize("method", METHODS)
def test_one_cluster_is_given_with_a_warning(method: str) -> None:
    """scikit-learn's contract asks for k = 1; the trivial answer is not given in silence."""
    C = data().C
    with pytest.warns(UnbendWarning, match="`n_clusters` = 1 puts all samples together"):
        one = label_codes(C, C, 1, eta=ETA, method=method)
    assert (one.labels == 0).all()
    assert (one.predict_proba(C[:5]) == 1).all()
    assert one.merge_tree.shape == (0, 4)
