"""Approximate neighbours beside exact ones."""

import pytest
import torch

from unbend.samples import nearest_neighbors
from unbend.samples import neighbors as module
from unbend.samples.approximate import approximate_neighbors

pytest.importorskip("faiss")


def blobs(n=4000, p=8):
    generator = torch.Generator().manual_seed(0)
    centers = 3 * torch.randn(12, p, generator=generator)
    return centers[torch.arange(n) % 12] + torch.randn(n, p, generator=generator)


def recall(found, exact):
    return float((found[:, :, None] == exact[:, None, :]).any(2).float().mean())


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "standardized", "ridge:0.003"])
def test_most_neighbours_are_the_exact_ones(metric):
    X, said = blobs(), []
    exact = nearest_neighbors(X, 5, metric=metric)
    found = nearest_neighbors(X, 5, metric=metric, exact_up_to=100, progress=said.append)
    assert recall(found, exact) > 0.9
    assert (found != torch.arange(len(X))[:, None]).all()
    (text,) = [tick.text for tick in said if tick.text]
    assert "by faiss" in text
    told = float(text.split("recall ")[1].split()[0])
    assert abs(told - recall(found, exact)) < 0.05
    assert torch.equal(found, nearest_neighbors(X, 5, metric=metric, exact_up_to=100))


def test_copies_and_few_rows():
    X = torch.zeros(40, 3)
    found = approximate_neighbors(X, 5).neighbors
    assert found.shape == (40, 5)
    assert (found != torch.arange(40)[:, None]).all()
    assert ((found >= 0) & (found < 40)).all()


def test_without_faiss_the_search_is_exact_and_says_what_would_help(monkeypatch):
    monkeypatch.setattr(module, "has_faiss", lambda: False)
    X, said = blobs(300), []
    found = nearest_neighbors(X, 3, exact_up_to=100, progress=said.append)
    assert torch.equal(found, nearest_neighbors(X, 3))
    assert "unbend[peers]" in said[0].text
