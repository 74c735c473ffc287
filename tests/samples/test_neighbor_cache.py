"""The cache of neighbours: equal to a search, keyed by content, bounded, and never fatal."""

import os

import numpy as np
import pytest
import torch

from unbend.config import ViewConfig
from unbend.exceptions import UnbendWarning
from unbend.samples import ViewSampler, nearest_neighbors
from unbend.samples.neighbor_cache import NeighborCache


def random(n: int = 40, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def search(tmp_path):
    return NeighborCache(tmp_path / "kept", least=10)


def test_a_second_search_is_read_and_the_same(search):
    X = random()
    expected = nearest_neighbors(X, 3, metric="cosine")
    for found in (False, True):
        neighbors = search(X, 3, metric="cosine")
        assert search.found == found
        assert torch.equal(neighbors, expected)
        assert neighbors.dtype == torch.long
    (name,) = search.cache.names()
    assert search.cache.get(name).arrays["neighbors"].dtype == np.int32


def test_other_parameters_search_again(search):
    X = random()
    search(X, 3)
    changed = X.clone()
    changed[7, 2] += 1e-6
    for other, k, metric in [
        (changed, 3, "euclidean"),
        (X, 4, "euclidean"),
        (X, 3, "cosine"),
        (X.double(), 3, "euclidean"),
        (X.reshape(20, 12), 3, "euclidean"),
    ]:
        assert torch.equal(
            search(other, k, metric=metric), nearest_neighbors(other, k, metric=metric)
        )
        assert not search.found


def test_few_rows_are_not_cached(search):
    search(random(9), 3)
    search(random(), 0)
    assert not search.cache.folder.exists()


def test_the_ones_used_last_are_kept(tmp_path):
    search = NeighborCache(tmp_path, least=10, most=2)
    for seed in range(2):
        search(random(seed=seed), 3)
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    search(random(seed=0), 3)  # used now
    search(random(seed=2), 3)
    assert len(list(tmp_path.iterdir())) == 2
    search(random(seed=0), 3)
    assert search.found


@pytest.mark.parametrize("damage", ["text", "zeros", "empty"])
def test_damaged_neighbour_cache_is_searched_again(search, damage):
    X = random()
    expected = search(X, 3)
    (file,) = search.cache.folder.iterdir()
    content = file.read_bytes()
    zeros = content[:-400] + bytes(400)
    file.write_bytes({"text": b"nonsense", "zeros": zeros, "empty": b""}[damage])
    with pytest.warns(UnbendWarning, match="damaged entries"):
        assert torch.equal(search(X, 3), expected)
    assert not search.found
    search(X, 3)
    assert search.found


def test_unwritable_cache_warns_without_failing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    X = random()
    search = NeighborCache(tmp_path / "file", least=10)
    with pytest.warns(UnbendWarning, match="set UNBEND_CACHE"):
        search(X, 3)
    assert torch.equal(search(X, 3), nearest_neighbors(X, 3))


def test_views_search_when_they_need_to(search):
    X, generator = random(), torch.Generator()
    config = ViewConfig(n_neighbors=3)
    views = ViewSampler(X, config, generator, search=search)
    assert not search.cache.folder.exists()
    views(torch.arange(5))
    assert torch.equal(views.neighbors, nearest_neighbors(X, 3))
    assert search.cache.folder.exists()


def test_resumed_views_do_not_search_again():
    def never(*args, **options):
        raise AssertionError("searched")

    X = random()
    state = ViewSampler(X, ViewConfig(n_neighbors=3), torch.Generator()).state()
    views = ViewSampler(X, ViewConfig(n_neighbors=3), torch.Generator(), search=never)
    views.load_state(state)
    assert torch.equal(views.neighbors, nearest_neighbors(X, 3))
