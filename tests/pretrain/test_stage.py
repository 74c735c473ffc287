import warnings

import pytest
import torch
from tests.oracles.training import global_random_state_kept

from unbend.config import PRESETS, NetworkConfig, PretrainConfig, ViewConfig
from unbend.devices import make_fabric
from unbend.networks import Network, build_network
from unbend.pretrain import pretrain, tcr_objective
from unbend.pretrain.methods.swav import SwAVConfig
from unbend.samples import ViewSampler, prepare
from unbend.sources import load_named
from unbend.training import Tools

GIVEN = {"epochs": 30, "batch_size": 40, "optimizer": "adam", "lr": 1e-2, "invariance": 0.6}


def groups(n: int = 80, p: int = 6) -> torch.Tensor:
    """Noisy groups around four centres in the first half of the columns, noise in the others."""
    generator = torch.Generator().manual_seed(0)
    centres = 3 * torch.randn(4, p, generator=generator)
    signal = centres.repeat(n // 4, 1) + 0.5 * torch.randn(n, p, generator=generator)
    return torch.cat([signal, 3 * torch.randn(n, p, generator=generator)], 1)


class Run:
    """Stage 1 on a small problem, with what it saw."""

    def __init__(self, X: torch.Tensor | None = None, seed: int = 0, **changes: object) -> None:
        self.X = groups() if X is None else X
        generator = torch.Generator().manual_seed(seed)
        n_views, refresh = changes.pop("n_views", 2), changes.pop("refresh", 0)
        head_norm = changes.pop("head_norm", True)
        config = NetworkConfig(width=16, dim=8, head_width=32, head_norm=head_norm)
        self.network = build_network(tuple(self.X.shape[1:]), config, seed)
        self.network.normalize_like(self.X)
        view_config = ViewConfig(
            n_views=n_views,
            augmentation=PRESETS["images"].views.augmentation,
            n_neighbors=4,
            refresh=refresh,
        )
        self.views = ViewSampler(self.X, view_config, generator)
        if self.X.ndim == 2:  # views agree in the first half of the columns only
            self.views.refresh(self.X[:, : self.X.shape[1] // 2])
        self.neighbors = self.views.neighbors
        with torch.no_grad():
            for _ in range(50):  # running statistics that fit, for a fair score before
                self.network(self.X)
        self.before = self.state()
        self.score_before = self.score() if n_views > 1 else None
        self.ticks: list[object] = []
        tools = Tools(make_fabric("cpu"), generator, self.ticks.append)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            config = PretrainConfig(**{**GIVEN, **changes})
            self.history = pretrain(self.network, self.views, config, tools)
        self.warnings = [str(w.message) for w in caught]

    def state(self) -> dict[str, torch.Tensor]:
        return {k: v.detach().clone() for k, v in self.network.state_dict().items()}

    def score(self) -> tuple[float, float]:
        """R and the views' cosine on views that training does not share."""
        generator = torch.Generator().manual_seed(99)
        sampler = ViewSampler(self.X, self.views.config, generator)
        sampler.neighbors = self.neighbors
        drawn = sampler(torch.arange(len(self.X)))
        Z = torch.stack([self.network.encode(x).Z for x in drawn])
        tcr = tcr_objective(Z.clone(), 0.2)
        return float(tcr.R), float(tcr.cosine)


@pytest.mark.parametrize(
    "changes", [{}, {"n_views": 3}, {"optimizer": "lars", "lr": 0.1, "epochs": 60}]
)
def test_stage_1_spreads_samples_and_aligns_views(changes):
    run = Run(**changes)
    (R0, cosine0), (R, cosine) = run.score_before, run.score()
    assert R > R0 + 1
    assert cosine > cosine0 + 0.05
    assert run.warnings == []


def test_images_train_a_convolutional_network():
    samples, _ = prepare(load_named("digits").X[:60])
    run = Run(samples, batch_size=60, epochs=30)
    loss = [row["loss"] for row in run.history]
    assert len(loss) == 30
    assert sum(loss[-5:]) / 5 < sum(loss[:5]) / 5 - 0.5
    assert run.warnings == []


def test_only_backbone_and_feature_head_move():
    run = Run(epochs=2)
    for name, value in run.state().items():
        moved = not torch.equal(value, run.before[name])
        assert moved == name.startswith(("backbone", "feature_head")), name


@pytest.mark.parametrize("method", ["simclr", "moco", "vicreg", "byol", "swav"])
def test_other_methods_train_the_backbone_and_then_start_the_head(method):
    run = Run(method=method, epochs=5, head_steps=4)
    for name, value in run.state().items():
        moved = not torch.equal(value, run.before[name])
        assert moved == name.startswith(("backbone", "feature_head")), name
    stages = [row["stage"] for row in run.history]
    assert stages == ["stage 1"] * 10 + ["stage 1 head"] * 4
    assert [row["step"] for row in run.history] == [*range(10), *range(4)]
    assert all(row["loss"] == row["loss"] for row in run.history)
    assert run.network.backbone.training
    assert run.warnings == []


def test_collapse_at_the_end_of_stage_1_warns(monkeypatch):
    """Views that are all alike: every feature comes to point one way."""
    monkeypatch.setattr(ViewSampler, "__call__", lambda self, index: torch.ones(2, len(index), 12))
    run = Run(method="simclr", epochs=2, head_steps=0)
    assert any("the features of 'simclr' ended collapsed" in text for text in run.warnings)


def test_the_start_of_the_head_leaves_the_backbone_alone():
    without, given = (Run(method="simclr", epochs=3, head_steps=k) for k in (0, 5))
    left, right = without.state(), given.state()
    assert all(torch.equal(left[k], right[k]) for k in left if k.startswith("backbone"))
    assert any(not torch.equal(left[k], right[k]) for k in left if k.startswith("feature_head"))


@pytest.mark.parametrize("method", ["moco", "byol"])
def test_methods_refresh_neighbors_in_what_the_backbone_sees(method, monkeypatch):
    calls: list[torch.Tensor] = []
    monkeypatch.setattr(ViewSampler, "refresh", lambda self, features: calls.append(features))
    Run(method=method, epochs=4, refresh=1, head_steps=0)
    assert len(calls) == 2  # the first is this test's own
    assert calls[1].shape == (80, 16)
    torch.testing.assert_close(calls[1].norm(dim=1), torch.ones(80))


def test_small_crops_reach_the_network(monkeypatch):
    samples, _ = prepare(load_named("digits").X[:40])
    seen: set[tuple[int, ...]] = set()
    embed = Network.embed
    monkeypatch.setattr(
        Network, "embed", lambda self, x: (seen.add(tuple(x.shape[2:])), embed(self, x))[1]
    )
    swav = SwAVConfig(prototypes=8, small_crops=2, small_size=0.6)
    Run(samples, method="swav", epochs=1, swav=swav, head_steps=0)
    assert seen == {(8, 8), (5, 5)}


def test_none_leaves_the_network_untouched():
    run = Run(method="none")
    assert run.history == []
    assert all(torch.equal(v, run.before[k]) for k, v in run.state().items())


def test_no_epochs_leave_the_weights_untouched():
    run = Run(epochs=0)
    assert run.history == []
    assert all(torch.equal(v, run.before[k]) for k, v in run.state().items())


def test_same_seed_gives_same_weights_without_global_state():
    with global_random_state_kept():
        first, again, other = Run(epochs=3), Run(epochs=3), Run(epochs=3, seed=1)
    assert all(torch.equal(v, again.state()[k]) for k, v in first.state().items())
    assert [r["loss"] for r in first.history] == [r["loss"] for r in again.history]
    assert first.history[0]["loss"] != other.history[0]["loss"]


def test_history_follows_the_schedule():
    run = Run(epochs=10, warmup=0.2)
    assert [row["step"] for row in run.history] == list(range(20))
    assert {row["stage"] for row in run.history} == {"stage 1"}
    assert all(row["R_c"] is None for row in run.history)
    rates = [row["lr"] for row in run.history]
    assert rates[:4] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert len(run.ticks) == 20


@pytest.mark.parametrize(("limits", "steps"), [({"min_steps": 50}, 50), ({"max_steps": 7}, 7)])
def test_the_number_of_steps_keeps_to_its_limits(limits, steps):
    assert len(Run(epochs=10, **limits).history) == steps


def test_neighbors_are_looked_up_again_as_often_as_asked(monkeypatch):
    calls: list[torch.Tensor] = []
    refresh = ViewSampler.refresh

    def counted(self: ViewSampler, features: torch.Tensor) -> None:
        calls.append(features)
        refresh(self, features)

    monkeypatch.setattr(ViewSampler, "refresh", counted)
    run = Run(epochs=6, refresh=3)
    assert len(calls) == 1 + 3  # the first is this test's own
    assert not torch.equal(calls[1], calls[3])
    assert isinstance(run.network, Network)
    assert run.network.training


@pytest.mark.parametrize("n", [2, 3, 5])
def test_fewer_samples_than_a_batch(n):
    run = Run(groups()[:n], epochs=3, batch_size=2)
    assert all(torch.isfinite(p).all() for p in run.network.parameters())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": "rmsprop"}, "`pretrain.optimizer` must be lars, adam or sgd, got 'rmsprop'"),
        ({"method": "dino"}, "`pretrain.method` must be one of tcr, .*, none or the .* got 'dino'"),
        ({"n_views": 1}, "`n_views` must be >= 2 for pretrain='tcr', got 1; try"),
    ],
)
def test_invalid_settings_raise(changes, words):
    with pytest.raises(ValueError, match=words):
        Run(**changes)
