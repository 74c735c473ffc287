"""The state that each method keeps from step to step."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.oracles.selfsupervised import (
    byol_oracle,
    info_nce_oracle,
    nt_xent_oracle,
    swav_oracle,
    vicreg_oracle,
)
from tests.oracles.training import global_random_state_kept, tcr_oracle
from torch.nn.functional import normalize

from unbend.config import NetworkConfig, PretrainConfig, ViewConfig
from unbend.networks import build_network
from unbend.pretrain import methods
from unbend.pretrain.method import Stage1Method
from unbend.pretrain.methods.byol import BYOLConfig, ema_at
from unbend.pretrain.methods.moco import MoCoConfig
from unbend.pretrain.methods.simclr import SimCLRConfig
from unbend.pretrain.methods.swav import SwAVConfig
from unbend.pretrain.methods.tcr import HeadStart
from unbend.pretrain.methods.vicreg import VICRegConfig
from unbend.pretrain.registry import METHODS, build_method, fit_to_data
from unbend.samples import ViewSampler

CONFIG = PretrainConfig(
    simclr=SimCLRConfig(dim=6),
    moco=MoCoConfig(queue=20, ema=0.9, dim=6),
    vicreg=VICRegConfig(hidden=1.0),
    byol=BYOLConfig(ema=0.9, dim=6),
    swav=SwAVConfig(prototypes=5, dim=6, small_crops=2, small_size=0.5, frozen=0.2),
)


def build(name: str, seed: int = 0, total: int = 10, shape: tuple[int, ...] = (5,)) -> Stage1Method:
    network = build_network(shape, NetworkConfig(width=8, dim=4, head_width=8), seed).double()
    network.normalize_like(torch.randn(40, *shape, generator=torch.Generator().manual_seed(9)))
    network = network.double()
    return build_method(network, replace(CONFIG, method=name), total, seed).double().train()


def views(n: int = 7, n_views: int = 2, shape: tuple[int, ...] = (5,)) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    X = torch.randn(n_views, n, *shape, dtype=torch.float64, generator=generator)
    return list(X)


def step(method: Stage1Method, number: int, X: list[torch.Tensor], lr: float = 0.1) -> None:
    """One plain step of gradient descent, as the trainer takes it."""
    method.zero_grad()
    method(X).loss.backward()
    with torch.no_grad():
        for p in method.trainable():
            if p.grad is not None:
                p -= lr * p.grad
    method.after_step(number)


def outputs(method: Stage1Method, X: list[torch.Tensor]) -> list[torch.Tensor]:
    """The projector's output, of a copy: batch statistics move in a forward pass."""
    method = copy.deepcopy(method)
    with torch.no_grad():
        return [method.projector(method.network.backbone(method.normalized(x))) for x in X]


def state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {k: v.detach().clone() for k, v in module.state_dict().items()}


# ---------------------------------------------------------------- losses through the network


@pytest.mark.parametrize("n_views", [2, 3])
def test_tcr_is_the_papers_objective(n_views):
    method, X = build("tcr"), views(n_views=n_views)
    with torch.no_grad():
        Z = torch.stack([copy.deepcopy(method).network.features(x) for x in X])
    expected = -tcr_oracle(Z, CONFIG.eps_sq, CONFIG.invariance * 4)[0]
    assert method(X).loss.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n_views", [2, 3])
def test_simclr_and_vicreg_are_their_formulas_over_all_pairs(n_views):
    X = views(n_views=n_views)
    pairs = [(a, b) for a in range(n_views) for b in range(a + 1, n_views)]
    method = build("simclr")
    Z = outputs(method, X)
    expected = sum(nt_xent_oracle(Z[a], Z[b], 0.5) for a, b in pairs) / len(pairs)
    assert method(X).loss.item() == pytest.approx(expected, rel=1e-6)
    method = build("vicreg")
    Z = outputs(method, X)
    weights = (25, 25, 1)
    expected = sum(
        w * t for a, b in pairs for w, t in zip(weights, vicreg_oracle(Z[a], Z[b]), strict=True)
    )
    assert method(X).loss.item() == pytest.approx(expected / len(pairs), rel=1e-6)


def test_moco_is_its_formula_with_the_keys_of_the_copy():
    method, X = build("moco"), views()
    step(method, 0, X)  # now copy and original differ
    twin = copy.deepcopy(method)
    with torch.no_grad():
        key = twin.keys.chain(twin.normalized(X[1]))
    (query,) = outputs(method, X[:1])
    expected = info_nce_oracle(query, key, method.queue, 0.2)
    assert method(X).loss.item() == pytest.approx(expected, rel=1e-6)
    assert not torch.allclose(key, outputs(method, X[1:])[0])


def test_byol_is_its_formula_in_both_directions():
    method, X = build("byol"), views()
    step(method, 0, X)
    twin = copy.deepcopy(method)
    with torch.no_grad():
        wanted = [twin.target.chain(twin.normalized(x)) for x in X]
        predicted = [twin.predictor(z) for z in outputs(method, X)]
    expected = byol_oracle(predicted[0], wanted[1]) + byol_oracle(predicted[1], wanted[0])
    assert method(X).loss.item() == pytest.approx(expected, rel=1e-6)


def test_swav_is_its_formula_with_small_crops():
    shape = (1, 8, 8)
    method = build("swav", shape=shape)
    X = views(6, 2, shape) + views(6, 3, (1, 4, 4))
    Z = [normalize(z, dim=1) for z in outputs(method, X)]
    scores = [(z @ method.prototypes.detach().T).numpy() for z in Z]
    expected = swav_oracle(scores, 2, 0.1, 0.05, 3)
    assert method(X).loss.item() == pytest.approx(expected, rel=1e-6)


# ---------------------------------------------------------------- momentum copies


@pytest.mark.parametrize(("name", "part"), [("moco", "keys"), ("byol", "target")])
def test_the_copy_starts_equal_and_follows_by_one_minus_m(name, part):
    method, X = build(name), views()
    source = [*method.network.backbone.parameters(), *method.projector.parameters()]
    follower = list(getattr(method, part).parameters())
    assert len(source) == len(follower) > 0
    assert all(torch.equal(a, b) for a, b in zip(source, follower, strict=True))
    for number in range(3):
        before = [p.detach().clone() for p in follower]
        step(method, number, X)
        m = 0.9 if name == "moco" else 1 - 0.1 * (math.cos(math.pi * number / 10) + 1) / 2
        for old, new, online in zip(before, follower, source, strict=True):
            torch.testing.assert_close(new, m * old + (1 - m) * online, rtol=1e-12, atol=1e-14)
    moved = [not torch.equal(a, b) for a, b in zip(source, follower, strict=True)]
    assert any(moved)


@pytest.mark.parametrize(("name", "part"), [("moco", "keys"), ("byol", "target")])
def test_no_gradient_goes_through_the_copy(name, part):
    method, X = build(name), views()
    method(X).loss.backward()
    copies = set(getattr(method, part).parameters())
    assert all(p.grad is None for p in copies)
    assert not copies & set(method.trainable())
    # And none through its input: the loss is flat in the keys' view, but for the queries'.
    if name == "moco":
        key_view = X[1].clone().requires_grad_()
        query_view = X[0].clone().requires_grad_()
        method([query_view, key_view]).loss.backward()
        assert key_view.grad is None
        assert query_view.grad.abs().max() > 0


def test_byols_momentum_rises_to_one_along_a_cosine():
    assert ema_at(0, 200, 0.996) == pytest.approx(0.996)
    assert ema_at(100, 200, 0.996) == pytest.approx(0.998)
    assert ema_at(200, 200, 0.996) == 1
    rises = [ema_at(k, 200, 0.996) for k in range(201)]
    assert rises == sorted(rises)


# ---------------------------------------------------------------- the queue


def test_the_queue_holds_keys_oldest_first():
    method = build("moco")
    start = method.queue.clone()
    seen = []
    for number in range(3):  # 3 × 7 keys through a queue of 20
        X = [x + number for x in views()]
        twin = copy.deepcopy(method)
        with torch.no_grad():
            seen.append(normalize(twin.keys.chain(twin.normalized(X[1])), dim=1))
        step(method, number, X)
        line = torch.cat([start, *seen])[-20:]
        torch.testing.assert_close(method.queue, line, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(method.queue.norm(dim=1), torch.ones(20).double())


def test_queue_is_unchanged_before_the_update():
    method = build("moco")
    before = method.queue.clone()
    method(views())
    assert torch.equal(method.queue, before)


def test_keys_of_an_undone_step_never_enter_the_queue():
    method, X = build("moco"), views()
    kept = state(method)
    method([x + 100 for x in X])
    method.load_state_dict(kept)
    method(X)
    method.after_step(0)
    assert torch.equal(method.queue[:13], kept["queue"][7:])  # seven keys came, not fourteen


def test_the_queue_is_never_longer_than_half_the_data():
    config = PretrainConfig(method="moco")
    assert fit_to_data(config, 100).moco.queue == 50
    assert fit_to_data(config, 10**6).moco.queue == 4096
    assert fit_to_data(config, 1).moco.queue == 1


# ---------------------------------------------------------------- prototypes and crops


def test_prototypes_are_frozen_first_and_then_stay_normalised():
    method, X = build("swav", total=10), views()
    start = method.prototypes.detach().clone()
    for number in range(4):
        step(method, number, X)
        still = torch.allclose(method.prototypes, start, rtol=0, atol=1e-6)
        assert still == (number < 2)  # frozen = 0.2 of ten steps
        norms = method.prototypes.norm(dim=1)
        torch.testing.assert_close(norms, torch.ones_like(norms))


def test_the_frozen_steps_are_part_of_the_state():
    method, X = build("swav", total=10), views()
    for number in range(2):
        step(method, number, X)
    twin = build("swav", total=10)
    twin.load_state_dict(method.state_dict())
    twin(X).loss.backward()
    assert twin.prototypes.grad is not None


def test_swav_draws_small_crops_of_images_only():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(20, 3, 16, 12, generator=generator)
    method = build("swav", shape=(3, 16, 12))
    drawn = method.draw(ViewSampler(images, ViewConfig(), generator), torch.arange(4))
    shapes = [tuple(x.shape) for x in drawn]
    assert shapes == [(4, 3, 16, 12)] * 2 + [(4, 3, 8, 6)] * 2
    vectors = ViewSampler(torch.rand(20, 5, generator=generator), ViewConfig(), generator)
    assert [tuple(x.shape) for x in build("swav").draw(vectors, torch.arange(4))] == [(4, 5)] * 2


def test_small_crops_of_a_flat_network_are_rejected():
    network = build_network((1, 8, 8), NetworkConfig(backbone="mlp", width=8, dim=4), 0)
    method = build_method(network, replace(CONFIG, method="swav"), 10, 0)
    sampler = ViewSampler(torch.rand(9, 1, 8, 8), ViewConfig(), torch.Generator())
    with pytest.raises(ValueError, match="small crops need a convolutional backbone; use"):
        method.draw(sampler, torch.arange(3))


@pytest.mark.parametrize("backbone", ["convnet", "resnet18", "resnet18-imagenet"])
@pytest.mark.parametrize("side", [8, 13, 31])
def test_backbones_take_smaller_crops(backbone, side):
    network = build_network((3, 32, 32), NetworkConfig(backbone=backbone, width=4, dim=4), 0)
    full, small = network.embed(torch.rand(2, 3, 32, 32)), network.embed(torch.rand(2, 3, side, 8))
    assert full.shape == small.shape


# ---------------------------------------------------------------- all methods


@pytest.mark.parametrize("name", METHODS)
def test_resumed_method_is_bit_equal(name):
    """All state is in the state_dict."""
    method, X = build(name), views()
    for number in range(3):
        step(method, number, X)
    twin = build(name, seed=5)
    twin.load_state_dict(method.state_dict())
    for number in range(3, 6):
        step(method, number, X)
        step(twin, number, X)
    left, right = state(method), state(twin)
    assert all(torch.equal(left[k], right[k]) for k in left)


@pytest.mark.parametrize("name", METHODS)
def test_only_what_is_trainable_has_a_gradient(name):
    method, X = build(name, total=1), views()
    method.after_step(5)  # past the steps with fixed prototypes
    method(X).loss.backward()
    trainable = set(method.trainable())
    for key, p in method.named_parameters():
        assert (p.grad is not None) == (p in trainable), key
        assert not key.startswith("network.cluster_head") or p.grad is None
    assert any(p in trainable for p in method.network.backbone.parameters())


@pytest.mark.parametrize("name", METHODS)
def test_descent_lowers_the_loss(name):
    method, X = build(name), views(12)
    first = float(method(X).loss.detach())
    if name == "moco":  # a queue of real keys is harder than one of random directions
        method.after_step = lambda number: None
    for number in range(30):
        step(method, number, X, lr=0.03)
    assert float(method(X).loss.detach()) < first


@pytest.mark.parametrize("name", METHODS)
def test_features_that_are_reported_lie_on_the_sphere(name):
    method = build(name)
    terms = method(views())
    assert terms.Z.shape == (7, method.dim)
    assert terms.R.dtype in (torch.float32, torch.float64)
    if name != "tcr":  # whose R is of the mean of the views
        norms = terms.Z.norm(dim=1)
        torch.testing.assert_close(norms, torch.ones_like(norms), rtol=1e-4, atol=0)
    assert not terms.R.requires_grad or name == "tcr"


@pytest.mark.parametrize("name", METHODS)
def test_built_from_its_seed_alone(name):
    with global_random_state_kept():
        first, again, other = build(name), build(name), build(name, seed=1)
    left, right, third = state(first), state(again), state(other)
    assert all(torch.equal(left[k], right[k]) for k in left)
    assert any(not torch.equal(left[k], third[k]) for k in left)


def test_head_start_moves_the_feature_head_and_nothing_else():
    network = build_network((5,), NetworkConfig(width=8, dim=4, head_width=8), 0).double()
    network.backbone.append(torch.nn.BatchNorm1d(8).double())
    method, X = HeadStart(network, CONFIG, 10).train(), views()
    before = state(method)
    step(method, 0, X)
    for key, value in state(method).items():
        moved = not torch.equal(value, before[key])
        assert moved == key.startswith("network.feature_head"), key
    assert method.stage != "stage 1"


def test_an_unknown_method_is_named():
    with pytest.raises(ValueError, match=r"`pretrain\.method` must be one of tcr, byol, moco"):
        build("dino")


def test_a_file_is_a_method():
    """What the folder holds is what can be chosen, configured and named in help."""
    from unbend.cli.options import pretraining_methods

    folder = Path(methods.__file__).parent
    assert sorted(METHODS) == sorted(p.stem for p in folder.glob("[a-z]*.py"))
    assert pretraining_methods() == list(METHODS)
    for name, method in METHODS.items():
        assert method.name == name
        if method.Settings is not None:
            assert getattr(PretrainConfig(), name) == method.Settings()
            assert isinstance(method.short or method.Settings(), method.Settings)


@pytest.mark.parametrize("name", METHODS)
def test_64_bits_are_not_narrowed(name):
    """Otherwise the last bits of 32 drive one and two processes apart over hundreds of steps."""
    assert build(name)(views()).loss.dtype == torch.float64
