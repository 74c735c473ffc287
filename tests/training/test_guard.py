import math
import re
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim import SGD

from unbend.config import NetworkConfig
from unbend.devices import make_fabric
from unbend.exceptions import CollapseWarning
from unbend.functional import coding_rate
from unbend.networks import build_network
from unbend.training import Guard, Stage, Terms, Tools, descend

DIM, EPS_SQ = 8, 0.1
LEAST = math.log1p(DIM / EPS_SQ)  # R of features that all point in one direction


# ---------------------------------------------------------------- the guard alone


def toy(**options: object) -> SimpleNamespace:
    """One weight, one optimiser with momentum, and their guard."""
    network = nn.Linear(1, 1, bias=False)
    optimizer = SGD(network.parameters(), 0.1, momentum=0.9)
    guard = Guard(network, [optimizer], "stage 9", DIM, EPS_SQ, **options)
    return SimpleNamespace(network=network, optimizer=optimizer, guard=guard)


def walk(toy: SimpleNamespace, steps: range, rate: float = 20.0) -> None:
    """Healthy steps; the weight is the number of the step."""
    for step in steps:
        with torch.no_grad():
            toy.network.weight.fill_(step)
        toy.guard.healthy(step, 0.0, rate)


def restore(toy: SimpleNamespace, step: int) -> tuple[bool, str, float]:
    with pytest.warns(CollapseWarning) as caught:
        going_on = toy.guard.restore(step, "it broke")
    return going_on, str(caught[0].message), float(toy.network.weight.detach())


@pytest.mark.parametrize(("last", "kept"), [(1, 0), (9, 0), (10, 0), (19, 0), (20, 10), (57, 40)])
def test_restores_the_older_of_two_kept_states(last, kept):
    case = toy()
    walk(case, range(last + 1))
    _, _, weight = restore(case, last + 1)
    assert weight == kept


def test_restore_discards_later_states():
    case = toy()
    walk(case, range(12))  # kept: 0 and 10
    assert restore(case, 12)[2] == 0
    walk(case, range(13, 24))  # kept: 0 and 22; step 10 belongs to the way that failed
    assert restore(case, 24)[2] == 0
    walk(case, range(25, 60))
    assert restore(case, 60)[2] > 24


def test_restored_state_is_not_compared_with_later_rates():
    case = toy()
    case.guard.healthy(0, 0.0, LEAST + 1)
    for step in range(1, 9):
        case.guard.healthy(step, 0.0, LEAST + 20)
    assert "collapsed" in case.guard.trouble(0.0, LEAST + 1)
    restore(case, 9)
    assert case.guard.trouble(0.0, LEAST + 1) is None


def test_optimizer_state_goes_back_with_the_weights():
    case = toy(every=1)
    momenta = []
    for step in range(4):
        case.guard.healthy(step, 0.0, 20.0)
        momenta.append(dict(case.optimizer.state_dict()["state"].get(0, {})))
        momenta[-1] = {k: v.clone() for k, v in momenta[-1].items()}
        case.network.weight.grad = torch.full((1, 1), 1.0 + step)
        case.optimizer.step()
    restore(case, 4)
    buffer = case.optimizer.state[case.network.weight]["momentum_buffer"]
    assert torch.equal(buffer, momenta[2]["momentum_buffer"])
    assert case.network.weight.grad is None


def test_the_warning_names_stage_trouble_steps_and_consequence():
    case = toy(max_restores=2)
    walk(case, range(25))
    going_on, text, _ = restore(case, 25)
    assert going_on
    assert text == (
        "stage 9: it broke at step 25; restored step 10 and went on with 0.3 times the "
        "learning rate"
    )
    assert case.guard.lr_factor == pytest.approx(0.3)
    assert restore(case, 26)[0]
    assert case.guard.lr_factor == pytest.approx(0.09)
    going_on, text, _ = restore(case, 27)
    assert not going_on
    assert text.endswith("at step 27; restored step 10 and ended the stage there after 3 attempts")


@pytest.mark.parametrize(
    ("loss", "R", "words"),
    [
        (math.nan, 20.0, "the loss became nan"),
        (-math.inf, 20.0, "the loss became -inf"),
        (1.0, math.nan, "R nan"),
        (1.0, LEAST + 0.1, f"collapsed (R fell from 20.0 to {LEAST + 0.1:.1f})"),
        (1.0, 0.0, "collapsed (R fell from 20.0 to 0.0)"),
        (1.0, LEAST + 0.16 * (20 - LEAST), None),
        (1.0, 20.0, None),
        (1e30, 25.0, None),
    ],
)
def test_trouble_is_non_finite_loss_collapse_or_lost_gain(loss, R, words):
    case = toy()
    walk(case, range(1))
    problem = case.guard.trouble(loss, R)
    assert problem is None if words is None else words in problem


def test_features_without_diversity_from_the_start_are_no_collapse():
    case = toy()
    walk(case, range(3), rate=LEAST + 0.4)
    assert case.guard.trouble(0.0, LEAST) is None


def test_trouble_before_any_healthy_step_is_an_error():
    with pytest.raises(ValueError, match="stage 9: it broke in the first step; check the samples"):
        toy().guard.restore(0, "it broke")


# ---------------------------------------------------------------- in the loop


class Problem:
    """Maximise R of a small network's features; every forward pass records the weights."""

    def __init__(self, lr: float, norm: bool = True, **options: object) -> None:
        config = NetworkConfig(
            backbone="mlp", width=16, dim=DIM, head_width=16, head_norm=norm, head_depth=2
        )
        self.X = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
        self.network = build_network((6,), config, 0)
        self.fabric = make_fabric("cpu")
        self.trained = self.fabric.setup_module(self.network)
        self.trained.mark_forward_method("features")
        params = [*self.network.backbone.parameters(), *self.network.feature_head.parameters()]
        self.optimizer = self.fabric.setup_optimizers(SGD(params, lr, momentum=0.9))
        self.guard = Guard(self.trained, [self.optimizer], "stage 2", DIM, EPS_SQ, **options)
        self.seen: dict[int, list[torch.Tensor]] = {}
        self.rates: dict[int, float] = {}
        self.spoil = lambda step, loss: loss

    def weights(self) -> list[torch.Tensor]:
        return [p.detach().clone() for p in self.network.parameters()]

    def compute(self, step: int) -> Terms:
        self.seen[step] = self.weights()
        self.rates[step] = self.optimizer.optimizer.param_groups[0]["lr"]
        Z = self.trained.features(self.X)
        R = coding_rate(Z, EPS_SQ)
        return Terms(self.spoil(step, -R), R, None, Z)

    def run(self, n_steps: int = 40) -> tuple[list[dict], list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            stage = Stage(self.compute, [self.optimizer], n_steps, self.guard)
            history = descend(stage, Tools(self.fabric, torch.Generator()))
        assert all(w.category is CollapseWarning for w in caught)
        return history, [str(w.message) for w in caught]


def steps_of(text: str) -> tuple[int, int]:
    found = re.search(r"at step (\d+); restored step (\d+)", text)
    assert found
    return int(found[1]), int(found[2])


@pytest.mark.parametrize(("lr", "norm"), [(1e20, True), (1e7, False), (1e20, False)])
def test_huge_step_is_detected_and_undone(lr, norm):
    problem = Problem(lr, norm)
    history, texts = problem.run()
    noticed, restored = steps_of(texts[0])
    assert re.match(r"stage 2: the features (collapsed|became infinite or NaN)", texts[0])
    assert noticed <= 5
    again = problem.seen[noticed + 1]
    assert all(torch.equal(a, b) for a, b in zip(again, problem.seen[restored], strict=True))
    rates = {row["step"]: row["lr"] for row in history}
    assert rates[0] == lr
    assert rates[noticed + 1] == pytest.approx(0.3 * lr)
    assert problem.rates[noticed + 2] == pytest.approx(0.3 * lr)  # of what really steps
    assert all(torch.isfinite(p).all() for p in problem.network.parameters())


def test_training_continues_to_the_optimum_with_a_smaller_step():
    """R is at most d log(1 + 1/eps_sq), reached by features that fill all directions evenly."""
    problem = Problem(1e20, caution=1e-11)
    history, texts = problem.run(100)
    assert 1 <= len(texts) <= 3
    assert history[-1]["R"] == pytest.approx(DIM * math.log1p(1 / EPS_SQ), rel=1e-3)
    assert history[-1]["rank"] == DIM


@pytest.mark.parametrize("max_restores", [0, 2])
def test_gives_up_at_the_last_healthy_state(max_restores):
    problem = Problem(1e20, max_restores=max_restores)
    history, texts = problem.run()
    assert len(texts) == max_restores + 1
    assert texts[-1].endswith(f"ended the stage there after {max_restores + 1} attempts")
    assert len(history) < 40
    kept = problem.seen[steps_of(texts[-1])[1]]
    assert all(torch.equal(a, b) for a, b in zip(problem.weights(), kept, strict=True))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_loss_costs_one_step(value):
    problem = Problem(1e-2)
    problem.spoil = lambda step, loss: loss * value if step == 25 else loss
    history, texts = problem.run()
    assert len(texts) == 1
    assert re.match(
        r"stage 2: the loss became (nan|-inf) and R .* at step 25; restored step 10", texts[0]
    )
    assert [row["step"] for row in history] == [s for s in range(40) if s != 25]
    assert all(math.isfinite(row["loss"]) for row in history)


def test_non_finite_gradient_costs_one_step():
    problem = Problem(1e-2)
    name, weight = "feature_head.layers.0.weight", problem.network.feature_head.layers[0].weight

    def spoil(step: int, loss: torch.Tensor) -> torch.Tensor:
        return loss + (0 * weight.sum()).sqrt() if step == 5 else loss  # 0 · inf backwards

    problem.spoil = spoil
    history, texts = problem.run()
    assert len(texts) == 1
    assert texts[0].startswith(f"stage 2: the gradient of {name} is not finite at step 5;")
    assert len(history) == 39
    assert all(torch.isfinite(p).all() for p in problem.network.parameters())


def test_non_finite_numbers_in_the_first_step_raise():
    problem = Problem(1e-2)
    problem.X[0, 0] = math.inf
    with pytest.raises(ValueError, match=r"stage 2: the features became .* in the first step"):
        problem.run()


def test_other_errors_propagate_and_hooks_are_removed():
    problem = Problem(1e-2)

    def broken(step: int) -> Terms:
        raise KeyError("a bug")

    problem.compute = broken
    with pytest.raises(KeyError, match="a bug"):
        problem.run()
    assert not any(m._forward_hooks for m in problem.network.modules())
    assert not problem.network.features(torch.full((2, 6), math.nan)).isfinite().any()


@pytest.mark.parametrize("lr", [1e-4, 1e-2, 0.1])
def test_healthy_runs_never_warn(lr):
    problem = Problem(lr)
    history, texts = problem.run(60)
    assert texts == []
    assert len(history) == 60
    assert problem.guard.lr_factor == 1
