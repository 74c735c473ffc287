"""The merge tree by the judge's score, against the judge itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage
from tests.generators.subspaces import union_of_subspaces

from unbend.labels import label_codes, trees
from unbend.labels.hierarchy import cut_tree
from unbend.labels.judge import Judge
from unbend.labels.model import LabelModel
from unbend.labels.trees import judged_tree
from unbend.samples import nearest_neighbors


def model_of(C: torch.Tensor, labels: np.ndarray, k: int) -> LabelModel:
    """A model with these labels and a tree that is not the judge's."""
    line = [[q if q == 0 else k + q - 1, q + 1, q + 1.0, q + 2] for q in range(k - 1)]
    return replace(
        label_codes(C, C, k, eta=0.175, join="none"), labels=labels, merge_tree=np.array(line)
    )


def greedy(judge: Judge, labels: np.ndarray, k: int) -> list[np.ndarray]:
    """Labellings with k - 1, k - 2, … 2 clusters: score each merger from its labels."""
    steps = []
    for left in range(k - 1, 1, -1):
        best = (-np.inf, labels)
        for a in range(left + 1):
            for b in range(a + 1, left + 1):
                merged = np.where(labels == b, a, labels)
                merged = np.unique(merged, return_inverse=True)[1]
                score = judge.score(torch.from_numpy(merged), left)
                best = max(best, (score, merged), key=lambda pair: pair[0])
        labels = best[1]
        steps.append(labels)
    return steps


def same_groups(a: np.ndarray, b: np.ndarray) -> bool:
    pairs = {(int(x), int(y)) for x, y in zip(a, b, strict=True)}
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("kind", ["features", "samples", "graph"])
def test_every_cut_is_the_best_merger_of_the_cut_before(kind: str) -> None:
    data = union_of_subspaces(240, 4, d=12, dim=2, noise=0.4, seed=1)
    C, Z = torch.from_numpy(data.C), torch.from_numpy(data.Z)
    labels = np.random.default_rng(0).integers(0, 2, len(data.y)) + 2 * data.y
    samples = None if kind == "features" else Z + 0.3
    graph = nearest_neighbors(C, 6) if kind == "graph" else None
    judge = Judge(C, samples, "euclidean", graph)
    tree = judged_tree(model_of(C, labels, 8), judge)
    assert is_valid_linkage(tree)
    assert is_monotonic(tree)
    for left, wanted in zip(range(7, 1, -1), greedy(judge, labels, 8), strict=True):
        assert same_groups(cut_tree(tree, left)[labels], wanted)


def test_halves_of_subspaces_are_joined_first() -> None:
    data = union_of_subspaces(480, 4, seed=0)
    C, Z = torch.from_numpy(data.C), torch.from_numpy(data.Z)
    halves = 2 * data.y + np.arange(len(data.y)) % 2
    tree = judged_tree(model_of(C, halves, 8), Judge(Z, Z))
    assert cut_tree(tree, 4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("with_samples", [False, True])
def test_splinters_are_absorbed_before_large_clusters_merge(with_samples: bool) -> None:
    """Six groups of 80 and six single rows, cut to six: no single row is left."""
    data = union_of_subspaces(480, 6, noise=0.3, seed=0)
    C = torch.from_numpy(data.C)
    labels = data.y.copy()
    for q in range(6):
        labels[np.flatnonzero(data.y == q)[0]] = 6 + q
    judge = Judge(C, C, neighbors=nearest_neighbors(C, 10)) if with_samples else Judge(C)
    cut = cut_tree(judged_tree(model_of(C, labels, 12), judge), 6)
    assert sorted(cut[:6].tolist()) == list(range(6))
    assert cut[6:].tolist() == cut[:6].tolist()


def test_wide_features_are_judged_by_their_leading_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of 400 numbers in a subspace of 64 dimensions: the tree is that of all directions."""
    data = union_of_subspaces(480, 6, d=64, noise=0.3, seed=0)
    C = torch.from_numpy(data.C)
    labels = 2 * data.y + np.random.default_rng(0).integers(0, 2, len(data.y))
    turn = torch.linalg.qr(torch.randn(400, 64, generator=torch.Generator().manual_seed(0)))[0]
    model, judge = model_of(C, labels, 12), Judge(C @ turn.T)
    found = judged_tree(model, judge)
    monkeypatch.setattr(trees, "_WIDEST", 400)
    np.testing.assert_allclose(found, judged_tree(model, judge), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("k", [2, 101])
def test_very_few_or_many_clusters_keep_their_tree(k: int) -> None:
    data = union_of_subspaces(400, 4, seed=0)
    C = torch.from_numpy(data.C)
    model = replace(label_codes(C, C, 4, eta=0.175), n_clusters=k)
    assert judged_tree(model, Judge(C)) is model.merge_tree
