"""The plan of a fit: counted by hand, obeyed, and the same under any load."""

import numpy as np
import pytest
from torch import nn

from unbend import MLC
from unbend.budget import (
    LEVELS,
    Costs,
    Part,
    Plan,
    costs_of,
    fit_to_budget,
    in_words,
    seconds_allowed,
    seconds_of,
)
from unbend.config import costs, plan, resolve
from unbend.knobs import NetworkConfig, Stage1Config, Stage2Config
from unbend.progress import Tick
from unbend.training import steps_of

X = np.concatenate([np.random.default_rng(0).normal(c, 1, (30, 4)) for c in (0, 9)])


def test_operations_of_an_mlp_by_hand():
    network = NetworkConfig(backbone="mlp", width=7, depth=1, dim=3, head_width=11, head_depth=1)
    stage1, stage2 = Stage1Config(batch_size=5), Stage2Config(batch_size=5, sharpness=(0.5,))
    found = costs_of((13,), 100, 2, network, stage1, stage2)
    forward = 2 * (13 * 7 + 7 * 11 + 11 * 3)
    rate = 2 * 5 * 3**2 + 3**3  # Zᵀ Z of five rows, and its determinant
    assert found.stage1 == 3 * (2 * 5 * forward + rate)  # two views, forward and backward
    frozen = 2 * 5 * forward
    assert found.stage2 == frozen + 3 * 5 * 5 * 3 * 4 + 100 * 2 * 25
    assert found.rest > 2 * 100 * 100 * 13 / 1e11  # the search for neighbours at least


def test_operations_of_a_convolution_by_hand():
    network = NetworkConfig(backbone="convnet", width=4, dim=2, head_width=8, head_depth=0)
    forward = costs_of((1, 4, 4), 9, 1, network, Stage1Config(batch_size=2), Stage2Config()).stage1
    # 3 x 3 kernels: 4 channels on 4 x 4 places, then 8 channels on 2 x 2; a head from 32 to 2.
    layers = 2 * 2 * (9 * 4 * 16 + 9 * 4 * 8 * 4 + 32 * 2)
    assert forward == 3 * (layers + 2 * 2 * 2**2 + 2**3)


def test_a_backbone_from_the_caller_is_not_counted():
    given = resolve((4,), 60, 2, given={"network.backbone": "module:Linear"}, budget="normal")
    d = given.network.dim
    assert costs(given, (4,), 60).stage1 == 3 * (2 * 60 * d**2 + d**3)  # the rate alone
    model = MLC(2, backbone=nn.Linear(4, 8), random_state=0, epochs=1, pretrain_epochs=1).fit(X)
    assert len(model.labels_) == len(X)


def test_a_thousand_clusters_stay_within_the_budget():
    """Stage 2 costs columns · d² a step: with d = 1,000 it samples fewer columns."""
    config = resolve((64,), 100_000, 1000, budget="normal")
    assert (config.network.dim, config.stage2.n_anchors) == (1000, 32)
    found = plan(config, (64,), 100_000, 1000, "normal")
    assert found.seconds < found.allowed
    few = resolve((64,), 2000, 1000, budget="quick")
    assert len(few.stage2.sharpness) == 1


def test_one_run_of_stage_2_where_two_do_not_fit():
    dear = Costs(stage1=1e9, stage2=4e11, rest=1.0)  # four seconds a step
    found = fit_to_budget("normal", dear, 1000, steps1=400, steps2=40, sharpness=(0.75, 0.9))
    assert found["stage2.sharpness"] == (0.75,)
    cheap = Costs(stage1=1e9, stage2=1e10, rest=1.0)
    found = fit_to_budget("normal", cheap, 1000, steps1=400, steps2=40, sharpness=(0.75, 0.9))
    assert found["stage2.sharpness"] == (0.75, 0.9)


@pytest.mark.parametrize(("shape", "n"), [((1, 8, 8), 1797), ((1, 28, 28), 10_000), ((64,), 5000)])
def test_more_budget_is_more_steps(shape, n):
    levels = [resolve(shape, n, 10, budget=level) for level in LEVELS]
    steps = [steps_of(config.pretrain, n) for config in levels]
    assert steps[0] < steps[1] < steps[2]
    assert [len(config.stage2.sharpness) for config in levels] == [1, 2, 2]
    assert levels[1] == resolve(shape, n, 10)  # "normal" is the preset where that fits
    for level, config in zip(LEVELS, levels, strict=True):
        assert plan(config, shape, n, 10, level).seconds <= seconds_allowed(level, n)


def test_seconds_are_kept_where_they_can_be():
    shape, n = (1, 28, 28), 10_000
    for budget in (40, 80.0, 200):
        config = resolve(shape, n, 10, budget=budget)
        assert plan(config, shape, n, 10, budget).seconds <= budget
    few = resolve(shape, n, 10, budget=1)
    assert steps_of(few.pretrain, n) == 60
    assert "needs about" in plan(few, shape, n, 10, 1).sentence()


@pytest.mark.parametrize("epochs", [1, 5, 500])
@pytest.mark.parametrize("budget", ["quick", 1])
def test_epochs_that_were_asked_for_are_never_cut(epochs, budget):
    asked = {"pretrain.epochs": epochs, "stage2.epochs": epochs}
    config = resolve((4,), 1200, 3, given=asked, budget=budget)
    assert steps_of(config.pretrain, 1200) == steps_of(config.stage2, 1200) == 2 * epochs


def test_a_minimum_or_a_maximum_that_was_asked_for_wins():
    low = resolve((4,), 600, 3, settings={"pretrain.min_steps": 900}, budget="quick")
    assert steps_of(low.pretrain, 600) == 900
    high = resolve((4,), 600, 3, settings={"pretrain.max_steps": 7}, budget="thorough")
    assert steps_of(high.pretrain, 600) == 7
    etas = resolve((4,), 600, 3, settings={"stage2.sharpness": [0.6, 0.8]}, budget="quick")
    assert etas.stage2.sharpness == (0.6, 0.8)


@pytest.mark.parametrize("budget", ["fast", 0, -5, float("nan"), True, None, [3]])
def test_a_wrong_budget_is_one_line(budget):
    with pytest.raises(ValueError, match="`budget` of MLC must be one of quick, normal") as error:
        MLC(2, budget=budget).fit(X)
    assert "\n" not in str(error.value)


def test_the_history_has_the_planned_steps():
    model = MLC(2, budget="quick", random_state=0).fit(X)
    config = model.config_
    stages = [row["stage"] for row in model.history_]
    parts = plan(config.override({"stage2.eta": "auto"}), (4,), len(X), 2, "quick").parts
    assert {part.name: part.steps for part in parts} == {s: stages.count(s) for s in set(stages)}


def test_the_plan_comes_first_and_its_time_after_some_steps():
    ticks: list[Tick] = []
    MLC(2, pretrain_epochs=8, epochs=2, random_state=0).fit(X, progress=ticks.append)
    assert ticks[0].text.startswith("plan: stage 1 8 steps, stage 2 2 steps")
    told = [i for i, tick in enumerate(ticks) if "whole fit: about" in tick.text]
    assert len(told) == 1
    assert ticks[told[0]].text.startswith("stage 1: 8 steps, about ")
    assert [t.done for t in ticks[: told[0]] if t.stage == "stage 1"][-1] == 5


def test_what_is_left_covers_the_whole_fit(monkeypatch):
    """With steps of two seconds where the plan has one, everything takes twice as long."""
    now = 100.0
    monkeypatch.setattr("unbend.budget.time.monotonic", lambda: now)
    made = Plan((Part("stage 1", 10, 1.0), Part("stage 2", 4, 3.0)), 5.0, "normal", 180.0)
    seen: list[Tick] = []
    listen = made.watch(seen.append)
    for done in range(1, 11):
        now = 100.0 + 2.0 * done
        listen(Tick("stage 1", done, 10))
    assert seen[0].left is None  # one tick is no measurement
    lefts = [t.left for t in seen if t.stage == "stage 1" and t.left is not None]
    assert lefts == [2.0 * ((10 - done) + 12 + 5) for done in range(2, 11)]
    listen(Tick("labels", 1, 2))
    assert seen[-1] == Tick("labels", 1, 2)
    assert made.left_after("labels", 1) is None


def test_durations():
    assert seconds_of(0) > 0
    assert [in_words(s) for s in (0.4, 99, 3000, 7200)] == ["0 s", "99 s", "50 min", "2.0 h"]


def test_a_plan_for_an_unknown_number_has_every_run_of_stage_2():
    model = MLC(random_state=0, pretrain_epochs=8, epochs=2).fit(X)
    stages = {row["stage"] for row in model.history_}
    settings = {"pretrain.epochs": 8, "stage2.epochs": 2}
    config = resolve((4,), len(X), "auto", settings=settings, budget="normal")
    parts = plan(config, (4,), len(X), "auto", "normal").parts
    assert {part.name for part in parts} == stages == {"stage 1", "stage 2", "stage 2, eta 2"}


def test_one_labelling_needs_one_run_of_stage_2():
    """Other ways to join blocks label the first end of stage 2 alone."""
    for settings in ({"labels.join": "none"}, {"labels.join": "codes"}):
        config = resolve((4,), 600, 3, settings=settings, budget="normal")
        assert len(config.stage2.sharpness) == 1
    assert len(resolve((4,), 600, 3, budget="normal").stage2.sharpness) == 2
    asked = {"labels.join": "none", "stage2.sharpness": (0.6, 0.8)}
    assert resolve((4,), 600, 3, settings=asked, budget="normal").stage2.sharpness == (0.6, 0.8)
