"""Views of encoded images: what is drawn, from where, and that it depends on the seed alone."""

import numpy as np
import pytest
import torch
from tests.oracles.training import global_random_state_kept

from unbend.config import Augmentation, ViewConfig
from unbend.disk import hash_samples
from unbend.samples.augment import augment
from unbend.samples.encoded_views import CachedViews, LiveViews, augmented, policy_fingerprint

N, V, P = 12, 3, 4


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def samples():
    return torch.randn(N, P, generator=generator())


@pytest.fixture
def bank():
    """Entry (v, i) holds v and i, so that a view says where it came from."""
    v, i = torch.meshgrid(torch.arange(V), torch.arange(N), indexing="ij")
    return torch.stack([v, i, v, i], -1).float()


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (N, 3, 8, 8), dtype=np.uint8)


def test_cached_views_are_different_copies_of_the_sample(samples, bank):
    views = CachedViews(samples, ViewConfig(n_views=2), generator(), bank=bank)
    index = torch.tensor([5, 0, 11, 5])
    seen = set()
    for _ in range(60):
        drawn = views(index)
        assert drawn.shape == (2, 4, P)
        assert (drawn[..., 1] == index).all()
        assert (drawn[0, :, 0] != drawn[1, :, 0]).all()
        seen.add(tuple(drawn[:, 0, 0].int().tolist()))
    assert len(seen) == V * (V - 1)  # every ordered pair comes


def test_cached_views_of_neighbours(samples, bank):
    config = ViewConfig(n_views=2, n_neighbors=2)
    views = CachedViews(samples, config, generator(), bank=bank)
    index = torch.arange(N)
    for _ in range(10):
        drawn = views(index)
        assert (drawn[0, :, 1] == index).all()
        near = drawn[1, :, 1].long()
        assert (views.neighbors == near[:, None]).any(1).all()


def test_more_views_than_copies_go_round(samples, bank):
    drawn = CachedViews(samples, ViewConfig(n_views=5), generator(), bank=bank)(torch.arange(N))
    assert torch.equal(drawn[3], drawn[0])


def test_a_bank_of_another_shape_is_rejected(samples, bank):
    with pytest.raises(ValueError, match=r"must be \(V, 12, 4\), got \(3, 11, 4\)"):
        CachedViews(samples, ViewConfig(), generator(), bank=bank[:, 1:])


def test_live_views_augment_then_encode(samples, images):
    """The same draws by hand, with an encoder that can be checked."""

    def embed(x):
        assert 0 <= x.min() <= x.max() <= 1
        with torch.inference_mode():
            return torch.cat([x.mean((2, 3)), x.std((1, 2, 3))[:, None]], 1)

    config = ViewConfig(n_views=2)
    drawn = LiveViews(samples, config, generator(3), images=images, embed=embed)(torch.arange(5))
    draws = generator(3)
    for view in drawn:
        x = augment(torch.from_numpy(images[:5]) / 255, config.augmentation, draws).clamp(0, 1)
        torch.testing.assert_close(view, embed(x))
    torch.nn.Linear(P, 2)(drawn).sum().backward()  # training may use them


def test_views_depend_on_the_generator_alone(samples, bank, images):
    def embed(x):
        return x.flatten(1)[:, :P]

    with global_random_state_kept():
        for make in (
            lambda g: CachedViews(samples, ViewConfig(), g, bank=bank),
            lambda g: LiveViews(samples, ViewConfig(), g, images=images, embed=embed),
        ):
            first, again = (make(generator(1))(torch.arange(N)) for _ in range(2))
            assert torch.equal(first, again)
            assert not torch.equal(first, make(generator(2))(torch.arange(N)))


def test_augmented_copy_does_not_depend_on_its_batch(images):
    hashes, policy = hash_samples(images), Augmentation()
    whole = augmented(images, hashes, policy, 1)
    part = augmented(images[[7, 2]], [hashes[7], hashes[2]], policy, 1)
    assert torch.equal(part, whole[[7, 2]])
    assert not torch.equal(augmented(images, hashes, policy, 2), whole)
    assert whole.shape == (N, 3, 8, 8)
    assert 0 <= whole.min() <= whole.max() <= 1


def test_gray_copies_have_one_channel():
    gray = np.random.default_rng(0).integers(0, 256, (3, 8, 8), dtype=np.uint8)
    assert augmented(gray, hash_samples(gray), Augmentation(), 0).shape == (3, 1, 8, 8)


def test_policies_are_told_apart():
    assert policy_fingerprint(Augmentation()) == policy_fingerprint(Augmentation())
    assert policy_fingerprint(Augmentation()) != policy_fingerprint(Augmentation(flip=0.4))


def test_cached_copies_are_mapped_once():
    X, bank = torch.randn(12, 6), torch.randn(3, 12, 6)
    made = [
        CachedViews(X, ViewConfig(), torch.Generator().manual_seed(0), bank=bank) for _ in range(2)
    ]
    made[1].map_once(lambda rows: rows[:, :2])
    index = torch.arange(12)
    torch.testing.assert_close(made[1](index), made[0](index)[:, :, :2], rtol=0, atol=0)
