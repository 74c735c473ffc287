"""Fewer clusters than the membership has blocks: found as blocks, then merged."""

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from unbend.labels import LabelModel, label_codes
from unbend.labels.assign import join


def _paired_blocks(pairs: int = 4, each: int = 90, seed: int = 0):
    """Twice as many blocks of codes as groups; the features of a pair share their plane."""
    rng = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(2 * pairs), each)
    C = np.eye(2 * pairs)[blocks] + 0.05 * rng.normal(size=(len(blocks), 2 * pairs))
    plane = rng.normal(size=(len(blocks), 2))
    Z = np.zeros((len(blocks), 2 * pairs))
    for i, block in enumerate(blocks):
        Z[i, 2 * (block // 2) : 2 * (block // 2) + 2] = plane[i]
    Z += 0.01 * rng.normal(size=Z.shape)
    unit = lambda A: torch.from_numpy(A / np.linalg.norm(A, axis=1, keepdims=True))  # noqa: E731
    return unit(C), unit(Z), blocks // 2


def test_blocks_that_share_a_subspace_are_joined():
    C, Z, y = _paired_blocks()
    model = label_codes(C, Z, 4, eta=0.1)
    assert model.n_blocks == 8
    assert model.n_clusters == 4
    assert adjusted_rand_score(y, model.labels) == 1.0
    np.testing.assert_array_equal(model.predict(C), model.labels)
    again = LabelModel.from_state(*model.state())
    assert again.n_blocks == 8
    np.testing.assert_array_equal(again.predict(C), model.labels)


def test_one_surplus_block_is_joined_by_ward():
    """The blocks are orthogonal, so the two smallest are joined, whatever rounding says."""
    C, Z, _ = _paired_blocks()
    blocks = C.argmax(1).numpy()
    kept = np.flatnonzero((blocks < 6) | (np.arange(len(blocks)) % 2 == 0))  # halves 6 and 7
    truth = np.minimum(blocks[kept], 6)
    for method in ("dense", "blocks", "landmarks"):
        model = label_codes(C[kept], Z[kept], 7, eta=0.1, method=method)
        assert model.n_blocks == 8
        assert adjusted_rand_score(truth, model.labels) == 1.0
        np.testing.assert_array_equal(model.predict(C[kept]), model.labels)


def test_join_none_does_not_look_for_more_blocks():
    C, Z, _ = _paired_blocks()
    assert label_codes(C, Z, 4, eta=0.1).n_blocks == 8
    assert label_codes(C, Z, 4, eta=0.1, join="none").n_blocks == 4


def test_join_equals_ward_linkage():
    """As SciPy's from single samples on."""
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(30, 4)))
    expected = fcluster(linkage(rows.numpy(), "ward"), 5, "maxclust")
    found = join(rows, torch.arange(30), 5)
    assert sorted(found.unique().tolist()) == list(range(5))
    assert adjusted_rand_score(expected, found.numpy()) == 1.0


@pytest.mark.parametrize("method", ["dense", "blocks", "landmarks"])
def test_orthogonal_blocks_are_joined_by_features_of_stage_1(method):
    """Six blocks in four groups; by the codes alone the small ones would go together."""
    C, Z, _ = _paired_blocks(pairs=3)
    blocks = C.argmax(1).numpy()
    kept = np.flatnonzero((blocks < 4) | (np.arange(len(blocks)) % 3 == 0))  # 4 and 5 are small
    C, Z, blocks = C[kept], Z[kept], blocks[kept]
    groups = np.array([0, 1, 2, 3, 0, 1])[blocks]  # a large and a small one, twice
    rng = np.random.default_rng(1)
    before = 1 + np.eye(4)[groups] + 0.1 * rng.normal(size=(len(groups), 4))
    before /= np.linalg.norm(before, axis=1, keepdims=True)
    model = label_codes(C, Z, 4, eta=0.1, method=method, join="stage1", before=before)
    assert model.n_blocks == 8
    assert adjusted_rand_score(groups, model.labels) == 1.0
    np.testing.assert_array_equal(model.predict(C), model.labels)
    assert model.predict_proba(C).max(1).mean() > 0.98
    assert adjusted_rand_score(groups, label_codes(C, Z, 4, eta=0.1, method=method).labels) < 1


@pytest.mark.parametrize("method", ["dense", "landmarks"])
@pytest.mark.parametrize(("k", "noise"), [(3, 1e-3), (5, 0.01), (10, 1e-4)])
def test_pieces_of_a_block_that_no_sample_chose_count_for_its_own_cluster(method, k, noise):
    """One block too many, and twice as many clusters looked for: most blocks are cut in two."""
    rng = np.random.default_rng(0)
    blocks = np.repeat(np.arange(k + 1), 100)
    groups = np.where(blocks < k, blocks, 0)
    C = np.eye(2 * k)[blocks] + noise * rng.normal(size=(len(blocks), 2 * k))
    before = np.eye(k)[groups] + 0.05 * rng.normal(size=(len(blocks), k))
    C, before = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (C, before))
    model = label_codes(C, C, k, eta=0.1, method=method, join="stage1", before=before)
    assert adjusted_rand_score(groups, model.labels) == 1.0
    assert model.predict_proba(C).max(1).min() > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"join": "ward"}, "`join` must be one of none, codes, stage1, got 'ward'"),
        ({"join": "stage1"}, "`before` must be .* all 720 samples .* got None"),
        ({"join": "stage1", "before": np.ones((3, 2))}, "`before` must be .* got 3 rows"),
        ({"before": np.ones((3, 2))}, "`before` must be .* got 3 rows"),
    ],
)
def test_invalid_join_options_raise(change, message):
    C, Z, _ = _paired_blocks()
    with pytest.raises(ValueError, match=message):
        label_codes(C, Z, 4, eta=0.1, **change)


def test_as_many_blocks_as_clusters_are_left_alone():
    C, Z, _ = _paired_blocks()
    model = label_codes(C, Z, 8, eta=0.1)
    assert model.n_blocks == 8
    assert len(np.unique(model.labels)) == 8
