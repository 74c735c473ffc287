"""Neighbours within reach against a slow loop in float64, and on data with known answers."""

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import make_moons

from unbend.samples import lasting_parts, nearest_neighbors, reach, within_reach
from unbend.samples.graph import links
from unbend.samples.neighbors import place


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def turns(k: int = 5, n: int = 60, apart: float = 0.25) -> torch.Tensor:
    """Closed curves above each other, farther apart than two neighbours on a curve."""
    angle = torch.arange(n).double() * 2 * torch.pi / n
    curve = torch.stack([angle.cos(), angle.sin()], 1)
    heights = apart * torch.arange(k).double().repeat_interleave(n)
    return torch.cat([curve.repeat(k, 1), heights[:, None]], 1)


def n_parts(neighbors: torch.Tensor) -> int:
    return int(connected_components(links(neighbors), directed=False)[0])


def near_by_a_loop(
    X: torch.Tensor, neighbors: torch.Tensor, metric: str, times: float
) -> list[set[int]]:
    """The neighbours that stay, sample by sample."""
    rows = place(X, metric).double().numpy()

    def far(i: int, j: int) -> float:
        if metric.startswith("ridge"):
            return 1 / abs(float(rows[i] @ rows[j]))
        return float(np.linalg.norm(rows[i] - rows[j]))

    kept = []
    for i, own in enumerate(neighbors.tolist()):
        apart = sorted(d for d in (far(i, j) for j in own) if d > 0)
        kept.append({j for n, j in enumerate(own) if n < 2 or far(i, j) <= times * apart[1]})
    return kept


@pytest.mark.parametrize("metric", ["euclidean", "standardized", "cosine", "ridge:0.01"])
def test_equals_a_loop_over_the_samples(metric, monkeypatch):
    monkeypatch.setattr(reach, "_REACH", (1.2,))
    monkeypatch.setattr(reach, "_TINY", 0)
    monkeypatch.setattr(reach, "_count", lambda part: np.inf)  # whatever the parts are
    X = torch.cat([random(80, 3), turns(2, 40)])
    neighbors = nearest_neighbors(X, 10, metric=metric)
    found = within_reach(X, neighbors, metric, len(X))
    wanted = near_by_a_loop(X, neighbors, metric, 1.2)
    assert [set(row) for row in found.tolist()] == wanted
    assert len({len(row) for row in wanted}) > 2


def test_curves_beside_each_other_come_apart():
    X = turns()
    neighbors = nearest_neighbors(X, 10)
    found = within_reach(X, neighbors, "euclidean", 5)
    assert n_parts(neighbors) == 1
    assert n_parts(found) == 5
    assert (found // 60 == torch.arange(300)[:, None] // 60).all()  # none on another curve


def test_the_near_ones_come_first_and_are_repeated():
    X = turns()
    neighbors = nearest_neighbors(X, 10)
    found = within_reach(X, neighbors, "euclidean", 5)
    assert torch.equal(found, found[:, :2].repeat(1, 5))
    assert torch.equal(found[:, :2].sort(1).values, neighbors[:, :2].sort(1).values)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 11])
def test_only_for_about_as_many_clusters_as_parts(k):
    X = turns()
    neighbors = nearest_neighbors(X, 10)
    assert within_reach(X, neighbors, "euclidean", k) is neighbors


@pytest.mark.parametrize("k", [6, 9, 10])
def test_a_few_parts_may_hold_several_clusters(k):
    X = turns()
    found = within_reach(X, nearest_neighbors(X, 10), "euclidean", k)
    assert n_parts(found) == 5


@pytest.mark.parametrize("k", [1, 3, 4])
def test_rings_that_are_sampled_at_random_stay_whole(k):
    angle = 2 * torch.pi * torch.rand(300 * k, generator=torch.Generator().manual_seed(0))
    radius = torch.arange(1, k + 1).repeat_interleave(300)[:, None]
    X = radius * torch.stack([angle.cos(), angle.sin()], 1) + 0.03 * random(300 * k, 2)
    neighbors = nearest_neighbors(X, 10)
    assert n_parts(neighbors) == k
    assert n_parts(within_reach(X, neighbors, "euclidean", k)) == k


def test_in_many_dimensions_all_stay():
    centres = 3 * random(4, 60, seed=1).repeat_interleave(75, 0)
    X = centres + random(300, 60)
    neighbors = nearest_neighbors(X, 10)
    assert within_reach(X, neighbors, "euclidean", 4) is neighbors


def test_copies_are_not_what_is_next():
    X = turns().repeat_interleave(3, 0)  # two copies of each sample
    neighbors = nearest_neighbors(X, 10)
    found = within_reach(X, neighbors, "euclidean", 5)
    assert n_parts(found) == 5
    assert all(len(set(row)) >= 4 for row in found.tolist())  # the copies and both sides


def test_a_few_that_are_almost_equal_are_no_group(monkeypatch):
    X = random(50, 4).repeat_interleave(4, 0) + 1e-3 * random(200, 4, seed=1)
    neighbors = nearest_neighbors(X, 10)
    assert within_reach(X, neighbors, "euclidean", 50) is neighbors
    monkeypatch.setattr(reach, "_TINY", 0)
    assert n_parts(within_reach(X, neighbors, "euclidean", 50)) == 50


def test_blocks_change_nothing(monkeypatch):
    X = turns()
    neighbors = nearest_neighbors(X, 10)
    whole = within_reach(X, neighbors, "euclidean", 5)
    monkeypatch.setattr(reach, "_AT_ONCE", 100)
    assert torch.equal(within_reach(X, neighbors, "euclidean", 5), whole)


@pytest.mark.parametrize("m", [0, 1, 2])
def test_two_neighbours_or_fewer_are_left_as_they_are(m):
    X = turns()
    neighbors = nearest_neighbors(X, m)
    assert within_reach(X, neighbors, "euclidean", 5) is neighbors


def random_rings(k: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    angle = 2 * torch.pi * torch.rand(300 * k, generator=generator)
    radius = torch.arange(1, k + 1).repeat_interleave(300)[:, None]
    return radius * torch.stack([angle.cos(), angle.sin()], 1) + 0.08 * random(300 * k, 2)


def test_parts_that_last_are_counted():
    found = {}
    for name, X in {
        "turns": turns(7),
        "rings": random_rings(2),
        "subspaces": torch.cat(
            [random(100, 3, seed=q) @ random(3, 30, seed=9 + q) for q in range(4)]
        ),
        "one group": random(300, 8),
        "touching": torch.cat([random(150, 8), random(150, 8, seed=1) + 0.5]),
        # Not equal, so the larger one may hold two groups.
        "a large and a small": torch.cat([random(200, 8), random(60, 8, seed=1) + 20]),
    }.items():
        metric = "cosine" if name == "subspaces" else "euclidean"
        neighbors = nearest_neighbors(X, 10, metric=metric)
        found[name] = lasting_parts(X, neighbors, metric)
    assert found == {
        "turns": 7,
        "rings": 2,
        "subspaces": 4,
        "one group": 0,
        "touching": 0,
        "a large and a small": 0,
    }


def test_equal_parts_that_all_ten_neighbours_leave_last():
    """Two half-circles with gaps of their own: only the graph of all neighbours has two parts."""
    X = torch.from_numpy(make_moons(500, noise=0.05, random_state=30)[0])
    neighbors = nearest_neighbors(X, 10)
    near = within_reach(X, neighbors, "euclidean", 3)
    assert connected_components(links(neighbors))[0] == 2
    assert connected_components(links(near))[0] == 3  # a few samples at a gap
    assert lasting_parts(X, neighbors, "euclidean") == 2


def test_no_parts_without_neighbours():
    assert lasting_parts(turns(), torch.empty(300, 0, dtype=torch.long), "euclidean") == 0


def test_neighbours_out_of_order_and_listed_twice_change_nothing():
    """As an approximate search may return them."""
    X = turns()
    neighbors = nearest_neighbors(X, 10)
    mixed = neighbors[:, [3, 0, 7, 1, 2, 9, 8, 4, 6, 5]]
    found = within_reach(X, mixed, "euclidean", 5)
    assert torch.equal(found.sort(1).values, neighbors[:, :2].repeat(1, 5).sort(1).values)
    twice = torch.cat([neighbors, neighbors[:, :1]], 1)
    np.testing.assert_array_equal(links(twice).toarray(), links(neighbors).toarray())


def test_whole_numbers_are_samples_too():
    X = (1000 * turns()).round()
    neighbors = nearest_neighbors(X, 10)
    found = within_reach(X.long(), neighbors, "euclidean", 5)
    assert torch.equal(found, within_reach(X, neighbors, "euclidean", 5))


@pytest.mark.parametrize("metric", ["euclidean", "standardized", "cosine", "ridge:0.01"])
@pytest.mark.parametrize("n", [3, 4, 12])
def test_equal_samples_and_few_samples_keep_all(metric, n):
    for X in (torch.ones(n, 5), random(n, 5)):
        neighbors = nearest_neighbors(X, 10, metric=metric)
        for k in (1, 3, 50):
            assert within_reach(X, neighbors, metric, k).shape == neighbors.shape
        assert lasting_parts(torch.ones(n, 5), neighbors, metric) == 0
