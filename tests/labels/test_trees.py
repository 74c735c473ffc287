"""The merge tree: average linkage of the membership, and the choice among trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage, linkage
from scipy.spatial.distance import squareform
from tests.generators.subspaces import union_of_subspaces

from unbend.labels import label_codes
from unbend.labels.hierarchy import cut_tree
from unbend.labels.judge import Judge
from unbend.labels.trees import choose_tree, membership_tree


def memberships(k: int, each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(k), each)
    p = rng.dirichlet(np.full(k, 0.5), len(labels))
    return p, labels


def test_equals_scipy_where_clusters_are_of_one_size() -> None:
    """SciPy's average linkage weighs leaves, ours samples: the same for equal sizes."""
    k, each = 9, 20
    p, labels = memberships(k, each)
    shared = np.zeros((k, k))
    for row, label in zip(p, labels, strict=True):
        shared[label] += row
    mean = (shared + shared.T) / 2 / each**2
    top = mean.max()
    distance = top - mean
    np.fill_diagonal(distance, 0)
    wanted = linkage(squareform(distance, checks=False), "average")
    found = membership_tree(p, labels, k)
    np.testing.assert_array_equal(found[:, [0, 1, 3]], wanted[:, [0, 1, 3]])
    np.testing.assert_allclose(found[:, 2], 1 / (1 + k * each * (top - wanted[:, 2])))
    assert is_valid_linkage(found)
    assert is_monotonic(found)


def test_a_splinter_goes_to_the_cluster_that_it_belongs_to() -> None:
    labels = np.repeat([0, 1, 2], [50, 50, 2])
    p = np.full((102, 3), 0.01)
    p[np.arange(102), labels] = 0.9
    p[labels == 2] = [0.05, 0.45, 0.5]
    assert cut_tree(membership_tree(p, labels, 3), 2).tolist() == [0, 1, 1]


def test_clusters_that_share_nothing_are_merged_all_the_same() -> None:
    found = membership_tree(np.eye(4), np.arange(4), 4)
    assert is_valid_linkage(found)
    np.testing.assert_array_equal(found[:, 2], 1.0)


def test_the_judge_chooses_the_tree() -> None:
    """Halves of subspaces beside a tree that joins across them: another tree is taken."""
    data = union_of_subspaces(480, 4, seed=0)
    C, Z = torch.from_numpy(data.C), torch.from_numpy(data.Z)
    halves = 2 * data.y + np.arange(len(data.y)) % 2
    wrong = [[0, 2, 0.1, 2], [1, 3, 0.2, 2], [4, 6, 0.3, 2], [5, 7, 0.4, 2], [8, 10, 0.5, 4],
             [9, 11, 0.6, 4], [12, 13, 0.7, 8]]  # fmt: skip
    model = replace(
        label_codes(C, Z, 8, eta=0.175, join="none"), labels=halves, merge_tree=np.array(wrong)
    )
    tree = choose_tree(model, C, Z, Judge(Z, Z))
    assert cut_tree(tree, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("k", [2, 101])
def test_very_few_or_many_clusters_keep_their_tree(k: int) -> None:
    data = union_of_subspaces(400, 4, seed=0)
    C = torch.from_numpy(data.C)
    model = replace(label_codes(C, C, 4, eta=0.175), n_clusters=k)
    assert choose_tree(model, C, C, Judge(C)) is model.merge_tree
