"""The merge tree against a greedy search that recomputes everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.labels.hierarchy import cut_tree, merge_clusters, ward_tree
from unbend.labels.subspaces import coding_length, second_moments


def slow_greedy(Z: torch.Tensor, y: torch.Tensor, k: int, eps_sq: float) -> list[tuple]:
    """Merge the pair with the smallest total coding length, again and again."""
    groups, steps = [frozenset([q]) for q in range(k)], []

    def length(groups: list[frozenset]) -> float:
        labels = torch.tensor([next(i for i, g in enumerate(groups) if int(q) in g) for q in y])
        return coding_length(Z, labels, len(groups), eps_sq)

    current = length(groups)
    while len(groups) > 1:
        options = []
        for a, b in itertools.combinations(groups, 2):
            merged = [g for g in groups if g not in (a, b)] + [a | b]
            options.append((length(merged) - current, merged, a | b))
        increase, groups, new = min(options, key=lambda option: option[0])
        current += increase
        steps.append((new, increase))
    return steps


def leaves(tree: np.ndarray, node: int) -> frozenset:
    k = len(tree) + 1
    if node < k:
        return frozenset([node])
    left, right = tree[node - k, :2].astype(int)
    return leaves(tree, left) | leaves(tree, right)


@pytest.mark.parametrize("seed", [0, 1])
def test_tree_is_the_greedy_one(seed: int) -> None:
    data = union_of_subspaces(240, 6, d=12, dim=3, imbalance=4.0, seed=seed)
    Z, y = torch.from_numpy(data.Z).double(), torch.from_numpy(data.y)
    tree = merge_clusters(*second_moments(Z, y, 6), 0.1)
    steps = slow_greedy(Z, y, 6, 0.1)
    for i, (members, _) in enumerate(steps):
        assert leaves(tree, 6 + i) == members
    heights = np.maximum.accumulate(np.maximum([increase for _, increase in steps], 0))
    np.testing.assert_allclose(tree[:, 2], heights, rtol=1e-8, atol=1e-6)


def test_halves_of_a_subspace_meet_first() -> None:
    """With more clusters than partners, too: 30 subspaces, each cut into two clusters."""
    data = union_of_subspaces(6000, 30, d=96, dim=3, seed=0)
    Z, y = torch.from_numpy(data.Z), torch.from_numpy(2 * data.y + np.arange(6000) % 2)
    tree = merge_clusters(*second_moments(Z, y, 60), 0.1)
    assert sch.is_valid_linkage(tree)
    assert sch.is_monotonic(tree)
    first = {leaves(tree, 60 + i) for i in range(30)}
    assert first == {frozenset([2 * q, 2 * q + 1]) for q in range(30)}
    assert (tree[:30, 2] == 0).all()  # these merges shorten the code
    assert tree[30, 2] > 0
    assert len(sch.dendrogram(tree, no_plot=True)["leaves"]) == 60


@pytest.mark.parametrize("k", range(1, 8))
def test_cuts_agree_with_scipy_and_are_nested(k: int) -> None:
    data = union_of_subspaces(400, 7, d=16, dim=2, noise=0.4, seed=2)
    moments = second_moments(torch.from_numpy(data.Z).double(), torch.from_numpy(data.y), 7)
    tree = merge_clusters(*moments, 0.1)
    cut = cut_tree(tree, k)
    assert set(cut) == set(range(k))
    # SciPy's cut by steps, not by height: heights may tie.
    expected = sch.cut_tree(tree, n_clusters=k)[:, 0]
    assert len(set(zip(cut, expected, strict=True))) == k
    if k > 1:
        coarser = cut_tree(tree, k - 1)
        assert len(set(zip(cut, coarser, strict=True))) == k


def test_ward_agrees_with_scipy_on_single_samples() -> None:
    rows = np.random.default_rng(0).standard_normal((25, 4))
    tree = ward_tree(torch.from_numpy(rows), torch.arange(25), 25)
    expected = sch.linkage(rows, "ward")
    np.testing.assert_array_equal(tree[:, :2], expected[:, :2])
    np.testing.assert_array_equal(tree[:, 3], expected[:, 3])
    # SciPy's height h is the distance of two points for which the cost is h² / 2.
    np.testing.assert_allclose(tree[:, 2], expected[:, 2] ** 2 / 2 / 25, rtol=1e-9)


def test_ward_merges_grown_clusters_as_scipy_goes_on() -> None:
    """Starting from clusters of several samples is SciPy's tree cut where they are complete."""
    rng = np.random.default_rng(1)
    centres = 10 * rng.standard_normal((9, 3))
    y = np.repeat(np.arange(9), [1, 2, 3, 4, 5, 6, 7, 8, 9])
    rows = centres[y] + 0.01 * rng.standard_normal((len(y), 3))
    tree = ward_tree(torch.from_numpy(rows), torch.from_numpy(y), 9)
    heights = sch.linkage(rows, "ward")[-8:, 2] ** 2 / 2 / len(y)
    np.testing.assert_allclose(tree[:, 2], heights, rtol=1e-6)
    assert sch.is_valid_linkage(tree)
    assert sch.is_monotonic(tree)


def test_splinters_are_absorbed_before_large_clusters_merge() -> None:
    """Six groups and six single samples beside them: the cut into six has no splinter."""
    rng = np.random.default_rng(2)
    groups = np.eye(6, 16)[np.repeat(np.arange(6), 50)]
    beside = 0.6 * np.eye(6, 16) + 0.8 * np.eye(6, 16, k=6)
    rows = np.concatenate([groups, beside]) + 0.05 * rng.standard_normal((306, 16))
    rows = torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    labels = torch.from_numpy(np.concatenate([np.repeat(np.arange(6), 50), np.arange(6, 12)]))
    cut = cut_tree(ward_tree(rows, labels, 12), 6)[labels]
    assert np.bincount(cut).tolist() == [51] * 6
    np.testing.assert_array_equal(cut[300:], cut[np.arange(0, 300, 50)])


def test_an_empty_cluster_does_not_disturb_the_others() -> None:
    rows = torch.eye(3).repeat_interleave(4, 0)
    labels = torch.tensor([0, 1, 3]).repeat_interleave(4)  # nothing in 2
    tree = ward_tree(rows, labels, 4)
    assert np.isfinite(tree).all()
    assert tree[0, 2] == 0
