import copy

import numpy as np
import pytest
import torch
from tests.oracles.training import lars_oracle
from torch import nn

from unbend.training import LARS

RATES = [0.3, 0.3, 0.1, 2.0, 0.05]
SHAPES = {"matrix": (4, 3), "kernel": (2, 3, 3, 3), "bias": (5,), "scalar": ()}


def random(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def run(w: torch.Tensor, gradients: list[torch.Tensor], **options: object) -> np.ndarray:
    weight = nn.Parameter(w.clone())
    optimizer = LARS([weight], RATES[0], **options)
    for gradient, lr in zip(gradients, RATES, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach().numpy()


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.9, 1e-4), (0.0, 0.1), (0.5, 0.0)])
def test_equals_the_oracle_over_several_steps(name, clip, size, momentum, weight_decay):
    w = random(*SHAPES[name], seed=0)
    gradients = [size * random(*SHAPES[name], seed=s) for s in range(1, 6)]
    options = {"momentum": momentum, "weight_decay": weight_decay, "trust": 0.02, "clip": clip}
    expected = lars_oracle(w, gradients, RATES, **options)
    np.testing.assert_allclose(run(w, gradients, **options), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("zero", ["weights", "gradients", "both"])
def test_a_norm_of_zero_gives_a_plain_step(clip, zero):
    w = random(4, 3, seed=0) * (zero == "gradients")
    gradients = [random(4, 3, seed=s) * (zero == "weights") for s in range(1, 6)]
    options = {"momentum": 0.9, "weight_decay": 0.0, "trust": 0.02, "clip": clip}
    found = run(w, gradients, **options)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, lars_oracle(w, gradients, RATES, **options), atol=1e-14)
    if zero == "gradients":
        np.testing.assert_array_equal(found, w)


def test_clipped_steps_are_never_longer_than_plain_ones():
    w, gradient = random(4, 3, seed=0), 1e-6 * random(4, 3, seed=1)
    for clip, longer in ((True, False), (False, True)):
        weight = nn.Parameter(w.clone())
        weight.grad = gradient.clone()
        LARS([weight], 0.3, momentum=0, weight_decay=0, clip=clip).step()
        step = (weight.detach() - w).norm()
        assert (step > 0.3 * gradient.norm() * (1 + 1e-9)) == longer


def test_one_dimensional_tensors_take_plain_steps_without_decay():
    weight = nn.Parameter(random(5, seed=0))
    before, gradient = weight.detach().clone(), random(5, seed=1)
    weight.grad = gradient.clone()
    LARS([weight], 0.5, momentum=0, weight_decay=10.0).step()
    torch.testing.assert_close(weight.detach(), before - 0.5 * gradient)


def test_parameters_without_a_gradient_stay():
    moved, still = nn.Parameter(random(2, 2, seed=0)), nn.Parameter(random(2, 2, seed=1))
    kept = still.detach().clone()
    moved.grad = torch.ones_like(moved)
    optimizer = LARS([moved, still], 0.3)
    optimizer.step()
    assert torch.equal(still.detach(), kept)
    assert still not in optimizer.state


def test_state_can_be_saved_and_restored():
    w, gradients = random(4, 3, seed=0), [random(4, 3, seed=s) for s in range(1, 4)]

    def step(weight: nn.Parameter, optimizer: LARS, gradient: torch.Tensor) -> None:
        weight.grad = gradient.clone()
        optimizer.step()

    straight = nn.Parameter(w.clone())
    optimizer = LARS([straight], 0.3)
    for gradient in gradients[:2]:
        step(straight, optimizer, gradient)
    resumed = nn.Parameter(straight.detach().clone())
    other = LARS([resumed], 9.9)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    step(straight, optimizer, gradients[2])
    step(resumed, other, gradients[2])
    assert torch.equal(straight, resumed)


def test_a_closure_is_called_with_gradients():
    weight = nn.Parameter(random(2, 2, seed=0))

    def closure() -> torch.Tensor:
        loss = weight.square().sum()
        loss.backward()
        return loss

    before = float(weight.detach().square().sum())
    assert LARS([weight], 0.3).step(closure).item() == pytest.approx(before)
    assert float(weight.detach().square().sum()) < before


@pytest.mark.parametrize("lr", [0.0, -1.0, float("nan")])
def test_a_wrong_rate_is_named(lr):
    with pytest.raises(ValueError, match=r"`lr` of LARS must be > 0, got .*; try 0.3"):
        LARS([nn.Parameter(torch.ones(1))], lr)
