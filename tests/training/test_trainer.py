"""Accumulation, clipping, loss scaling, and the check of the last update."""

import math

import pytest
import torch
from torch import nn
from torch.optim import SGD

from unbend.devices import make_fabric
from unbend.exceptions import CollapseWarning
from unbend.functional import coding_rate
from unbend.training import Guard, Stage, Terms, Tools, descend

DIM = 4


class Line:
    """A linear layer that learns targets by a mean of squares over samples of float64."""

    def __init__(self, **options: object) -> None:
        generator = torch.Generator().manual_seed(0)
        draw = {"generator": generator, "dtype": torch.float64}
        self.X, self.Y = torch.randn(24, DIM, **draw), torch.randn(24, DIM, **draw)
        self.layer = nn.Linear(DIM, DIM, bias=False).double()
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(DIM))
        self.at = 0
        self.batch = options.pop("batch", 8)
        self.options = options
        self.lr = options.pop("lr", 0.1)
        self.calls: list[tuple] = []

    def compute(self, step: int) -> Terms:
        rows = slice(self.at, self.at + self.batch)
        self.at = (self.at + self.batch) % len(self.X)
        Z = self.layer(self.X[rows])
        loss = (Z - self.Y[rows]).square().sum(1).mean()
        return Terms(loss, coding_rate(Z.detach(), 0.1), None, Z)

    def run(self, n_steps: int) -> list[dict]:
        optimizer = SGD(self.layer.parameters(), self.lr)
        guard = Guard(self.layer, [optimizer], "stage 3", DIM, 0.1)
        stage = Stage(self.compute, [optimizer], n_steps, guard, **self.options)
        return descend(stage, Tools(make_fabric("cpu"), torch.Generator()))


def test_accumulated_gradients_are_those_of_the_large_batch():
    small, large = Line(batch=4, accumulate=3, lr=0.01), Line(batch=12, lr=0.01)
    rows, expected = small.run(6), large.run(6)
    torch.testing.assert_close(small.layer.weight, large.layer.weight, rtol=1e-12, atol=1e-12)
    assert [r["loss"] for r in rows] == pytest.approx([r["loss"] for r in expected], rel=1e-12)
    assert len(rows) == 6


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_clipped_step_has_the_direction_of_the_gradient_and_the_given_length(accumulate):
    free, held = Line(accumulate=accumulate), Line(accumulate=accumulate, max_norm=0.5)
    free.run(1)
    held.run(1)
    step, clipped = (line.layer.weight.detach() - torch.eye(DIM) for line in (free, held))
    assert step.norm() > 0.1 * 0.5
    torch.testing.assert_close(clipped, step * 0.05 / step.norm(), rtol=1e-5, atol=0)


def test_short_gradients_are_not_clipped():
    free, held = Line(), Line(max_norm=1e6)
    free.run(3)
    held.run(3)
    assert torch.equal(free.layer.weight, held.layer.weight)


def test_hooks_are_called_once_a_step():
    calls: list[tuple] = []
    line = Line(
        accumulate=2,
        before_step=lambda step: calls.append(("before", step, line.at)),
        after_step=lambda step: calls.append(("after", step, line.at)),
    )
    line.run(2)
    assert calls == [("before", 0, 0), ("after", 0, 16), ("before", 1, 16), ("after", 1, 8)]


# ---------------------------------------------------------------- the last update


class Position:
    """The batch position of a line as a part with a state."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def state(self) -> int:
        return self.line.at

    def load_state(self, at: int) -> None:
        self.line.at = at


class Rate(Line):
    """The same layer, maximising R, which falls to its least when the weights run away."""

    def compute(self, step: int) -> Terms:
        Z = nn.functional.normalize(super().compute(step).Z + self.push(step), dim=1)
        R = coding_rate(Z, 0.1)
        return Terms(-R, R, None, Z)

    def push(self, step: int) -> float:
        return 0.0


@pytest.mark.parametrize("known", [True, False])
def test_collapse_in_the_last_update_is_undone(known):
    class Pushed(Rate):
        def push(self, step: int) -> float:
            return 1e6 * (step == 5)  # only the look after the last of 5 steps sees this

    line = Pushed()
    if known:
        line.options["parts"] = {"position": Position(line)}
        text = "stage 3: the features collapsed .* at step 5; restored step 0 and ended the stage"
        with pytest.warns(CollapseWarning, match=text):
            rows = line.run(5)
        assert torch.equal(line.layer.weight, torch.eye(DIM).double())
    else:
        rows = line.run(5)
        assert not torch.equal(line.layer.weight, torch.eye(DIM).double())
    assert len(rows) == 5
    assert line.at == 5 * 8 % 24  # the look itself leaves no trace


def test_check_after_the_last_update_has_no_side_effects():
    plain, looked = Rate(), Rate()
    looked.options["parts"] = {"position": Position(looked)}
    assert plain.run(4) == looked.run(4)
    assert torch.equal(plain.layer.weight, looked.layer.weight)
    assert plain.at == looked.at


def test_non_finite_weights_after_the_last_update_are_detected():
    line = Line(lr=1e308)
    with pytest.warns(CollapseWarning, match="the weights became infinite or NaN at step 1"):
        line.run(1)
    assert torch.equal(line.layer.weight, torch.eye(DIM).double())


# ---------------------------------------------------------------- sixteen bits


class Scaled:
    """Two layers with an optimiser each under a loss scaler that starts at ``scale``."""

    def __init__(self, scale: float, weight: float = 1.0) -> None:
        self.fabric = make_fabric("cpu", "bf16-mixed")  # as 16-mixed, but for the scaler
        self.fabric._precision.scaler = torch.amp.GradScaler(
            "cpu", init_scale=scale, growth_interval=1000
        )
        torch.manual_seed(0)
        layers = nn.ModuleList(nn.Linear(DIM, DIM, bias=False) for _ in range(2))
        self.X = torch.randn(16, DIM)
        self.weight = weight
        self.module = self.fabric.setup_module(layers)
        self.layers = list(layers)
        optimizers = [SGD(layer.parameters(), 1e-4) for layer in layers]
        self.optimizers = [self.fabric.setup_optimizers(o) for o in optimizers]
        self.start = [layer.weight.detach().clone() for layer in layers]

    def compute(self, step: int) -> Terms:
        Z = sum(layer(self.X) for layer in self.layers)
        loss = self.weight * Z.square().mean()
        return Terms(loss, coding_rate(Z.detach(), 0.1), None, Z)

    def run(self, n: int) -> list[dict]:
        guard = Guard(self.module, self.optimizers, "stage 3", DIM, 0.1)
        stage = Stage(self.compute, self.optimizers, n, guard)
        return descend(stage, Tools(self.fabric, torch.Generator()))

    def moved(self) -> list[torch.Tensor]:
        return [layer.weight.detach() - w for layer, w in zip(self.layers, self.start, strict=True)]


def test_overflowing_loss_scale_is_lowered_without_a_restore(recwarn):
    big, plain = Scaled(2.0**127, 64.0), Scaled(1.0)
    rows = big.run(9)
    assert len(rows) == 9
    assert not [w for w in recwarn if issubclass(w.category, CollapseWarning)]
    assert big.fabric._precision.scaler.get_scale() < 2.0**127
    plain.run(1)
    first = Scaled(2.0**10)
    first.run(1)
    for found, expected in zip(first.moved(), plain.moved(), strict=True):
        torch.testing.assert_close(found, expected)


def test_both_optimizers_undo_the_same_scale():
    """Fabric alone would lower the scale between the two and double the second's step."""
    scaled, plain = Scaled(2.0**127, 64.0), Scaled(1.0, 64.0)
    steps = 0
    while not scaled.moved()[0].any():
        scaled.run(1)
        steps += 1
        assert steps < 20
    plain.run(1)
    for found, expected in zip(scaled.moved(), plain.moved(), strict=True):
        torch.testing.assert_close(found, expected)


def test_loss_scale_that_always_overflows_is_trouble():
    class Never(Scaled):
        def compute(self, step: int) -> Terms:
            terms = super().compute(step)
            hole = (0 * self.layers[0].weight.sum()).sqrt()  # 0 · inf backwards
            return terms._replace(loss=terms.loss + hole)

    with pytest.warns(CollapseWarning, match="gradients were not finite in 30 steps in a row"):
        Never(1.0).run(32)


def test_sixteen_bits_on_the_whole_network_train():
    assert math.isfinite(Scaled(2.0**16).run(3)[-1]["loss"])
