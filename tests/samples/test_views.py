import pytest
import torch
from tests.oracles.training import global_random_state_kept

from unbend.config import Augmentation, ViewConfig
from unbend.samples import ViewSampler, nearest_neighbors

STILL = Augmentation(
    crop_scale=(1, 1), crop_ratio=(1, 1), flip=0, grayscale=0, jitter_probability=0, blur=0
)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sampler(samples: torch.Tensor, seed: int = 0, **config: object) -> ViewSampler:
    return ViewSampler(samples, ViewConfig(**config), torch.Generator().manual_seed(seed))


def sources(view: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Which sample each row of a view is."""
    return (view[:, None] == samples[None]).flatten(2).all(2).long().argmax(1)


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_first_view_is_the_sample_and_the_rest_neighbors(n_views):
    X = random(100, 6)
    views = sampler(X, n_views=n_views, n_neighbors=4)
    index = torch.tensor([3, 17, 17, 0, 99])
    truth = nearest_neighbors(X, 4)
    for _ in range(10):
        drawn = views(index)
        assert drawn.shape == (n_views, 5, 6)
        torch.testing.assert_close(drawn[0], X[index], rtol=0, atol=0)
        for view in drawn[1:]:
            origin = sources(view, X)
            assert torch.equal(view, X[origin])
            assert (origin[:, None] == truth[index]).any(1).all()


def test_every_neighbor_is_drawn_about_equally_often():
    X = random(120, 3)
    views = sampler(X, n_neighbors=5)
    index = torch.full((5000,), 7)
    origin = sources(views(index)[1], X)
    counts = torch.stack([(origin == j).sum() for j in views.neighbors[7]])
    assert counts.sum() == 5000
    assert (counts - 1000).abs().max() < 150  # five deviations of a binomial


def test_refresh_takes_the_neighbors_of_the_features():
    X, features = random(80, 4), random(80, 8, seed=1)
    views = sampler(X, n_neighbors=3)
    before = views.neighbors.clone()
    views.refresh(features)
    assert torch.equal(views.neighbors, nearest_neighbors(features, 3))
    assert not torch.equal(views.neighbors, before)
    origin = sources(views(torch.arange(80))[1], X)
    assert (origin[:, None] == views.neighbors).any(1).all()


def test_without_neighbors_or_noise_all_views_are_the_sample():
    X = random(10, 3)
    assert torch.equal(sampler(X, n_views=3)(torch.arange(10)), X.expand(3, 10, 3))


def test_deviation_of_the_noise_is_a_share_of_the_neighbor_distance():
    # Points on a line, 5 apart, in 4 dimensions: 0.4 of the distance, spread over 4 coordinates.
    X = torch.arange(500.0)[:, None] * torch.tensor([3.0, 4.0, 0.0, 0.0])
    noise = sampler(X, n_views=20, noise=0.4)(torch.arange(500)) - X
    assert float(noise.square().sum(2).mean().sqrt()) == pytest.approx(0.4 * 5, rel=0.02)
    assert float(noise.std()) == pytest.approx(0.4 * 5 / 2, rel=0.02)
    assert noise.mean((0, 1)).abs().max() < 0.05


@pytest.mark.parametrize("samples", [torch.ones(6, 3), torch.ones(1, 3)])
def test_noise_of_samples_without_distance_is_none(samples):
    assert torch.equal(sampler(samples, noise=1.0)(torch.zeros(2).long())[1], torch.ones(2, 3))


def test_more_neighbors_than_samples():
    X = random(4, 2)
    origin = sources(sampler(X, n_neighbors=10)(torch.zeros(300).long())[1], X)
    assert set(origin.tolist()) <= {1, 2, 3}


def test_images_are_augmented_and_start_from_neighbors():
    X = random(12, 1, 6, 6).abs()
    drawn = sampler(X, n_neighbors=2, augmentation=STILL)(torch.arange(12))
    torch.testing.assert_close(drawn[0], X, rtol=0, atol=1e-5)
    gaps = (drawn[1][:, None] - X[None]).abs().amax((2, 3, 4))
    origin = gaps.argmin(1)
    assert gaps.amin(1).max() < 1e-5
    assert (origin[:, None] == nearest_neighbors(X, 2)).any(1).all()
    moved = sampler(X)(torch.arange(12))
    assert not torch.isclose(moved[0], X).flatten(1).all(1).any()
    assert not torch.isclose(moved[0], moved[1]).flatten(1).all(1).any()


CONFIGS = [{"n_neighbors": 3}, {"noise": 0.5}, {"n_neighbors": 3, "noise": 0.5}, {}]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("shape", [(80, 5), (80, 3, 8, 8)])
def test_same_generator_gives_same_views_without_global_state(config, shape):
    X = random(*shape).abs().clamp(max=1)
    index = torch.arange(80)
    with global_random_state_kept():
        first = sampler(X, **config)(index)
        again = sampler(X, **config)(index)
        other = sampler(X, seed=1, **config)(index)
    assert torch.equal(first, again)
    if config or len(shape) == 4:
        assert not torch.equal(first, other)


def test_samples_are_not_changed():
    X = random(8, 3, 8, 8).abs().clamp(max=1)
    kept = X.clone()
    sampler(X, n_neighbors=2)(torch.arange(8))
    assert torch.equal(X, kept)


def test_rows_that_are_mapped_once_are_drawn_like_the_samples():
    X = random(60, 6)
    plain, mapped = (sampler(X, n_views=3, n_neighbors=4) for _ in range(2))
    mapped.map_once(lambda rows: rows[:, :2])
    index = torch.arange(20)
    torch.testing.assert_close(mapped(index), plain(index)[:, :, :2], rtol=0, atol=0)
    assert torch.equal(mapped.neighbors, plain.neighbors)


def test_views_that_change_the_samples_are_not_mapped():
    X = random(30, 6)
    noisy = sampler(X, n_views=2, n_neighbors=2, noise=0.1)
    given = ViewSampler(
        X, ViewConfig(), torch.Generator().manual_seed(0), vary=lambda x, generator: x + 1
    )
    for views in (noisy, given):
        views.map_once(lambda rows: rows[:, :2])
        assert views(torch.arange(5)).shape == (2, 5, 6)


def test_far_neighbours_on_thin_manifolds_are_no_views_unless_all_are_asked_for():
    angle = torch.arange(60) * 2 * torch.pi / 60
    ring = torch.stack([angle.cos(), angle.sin()], 1).repeat(4, 1)
    X = torch.cat([ring, 0.25 * torch.arange(4.0).repeat_interleave(60)[:, None]], 1)
    near, everything = (
        sampler(X, n_neighbors=5, parts=parts).neighbors // 60 == torch.arange(240)[:, None] // 60
        for parts in (4, 0)
    )
    assert near.all()
    assert not everything.all()
