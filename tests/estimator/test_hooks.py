"""A backbone, views, an objective and callbacks of the caller's own."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from torch import nn
from torch.nn.functional import normalize

from unbend import MLC, load
from unbend.algorithm import mlc_objective
from unbend.baselines import CPP
from unbend.functional import coding_rate
from unbend.training import Terms

X, _ = make_blobs(90, 5, centers=3, random_state=0)
SHORT = {
    "pretrain.max_steps": 4,
    "stage2.max_steps": 4,
    "network.head_width": 16,
    "network.width": 16,
}


def fit(data=X, **changes):
    given = {"dim": 8, "random_state": 0, "settings": SHORT} | changes
    return MLC(3, **given).fit(data)


class Net(nn.Module):
    """A small network on vectors of width 5, its weights fixed."""

    def __init__(self, width: int = 7) -> None:
        super().__init__()
        self.layer = nn.Linear(5, width)
        with torch.no_grad():
            self.layer.weight.copy_(torch.eye(width, 5))
            self.layer.bias.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


# ---------------------------------------------------------------- backbone


def test_a_given_module_is_trained_as_a_copy():
    net = Net()
    before = net.layer.weight.clone()
    model = fit(backbone=net)
    assert torch.equal(net.layer.weight, before)
    assert not torch.equal(model._network.backbone.layer.weight, before)
    assert model._network.feature_head.layers[0].in_features == 7
    assert model.config_.network.backbone == "module:Net"
    assert np.array_equal(clone(model).fit(X).labels_, model.labels_)


def test_weights_of_the_module_are_where_training_starts():
    """Without stage 1 and with a frozen backbone they are also where it ends."""
    net = Net()
    model = fit(backbone=net, pretrain="none")
    assert torch.equal(model._network.backbone.layer.weight, net.layer.weight)


def test_a_model_with_a_module_is_saved_and_needs_its_code_to_load(tmp_path):
    model = fit(backbone=Net())
    model.save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"was a module of class 'Net'.*load\(path, backbone=\.\."):
        load(tmp_path / "m")
    again = load(tmp_path / "m", backbone=Net())
    assert np.array_equal(again.transform(X), model.transform(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="is not a model of this version"):
        load(tmp_path / "m", backbone=Net(9))
    fit().save(tmp_path / "plain")
    with pytest.raises(ValueError, match="has a backbone of its own: leave `backbone` out"):
        load(tmp_path / "plain", backbone=Net())


def test_a_convolutional_module_on_images():
    images = load_digits().images[:60]
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
    model = fit(images, backbone=net, train_backbone=True, pretrain="moco")
    assert model.transform(images).shape == (60, 8)


def test_peers_take_a_module_too():
    model = CPP(3, backbone=Net(), dim=8, random_state=0, settings=SHORT).fit(X)
    assert model._network.backbone.layer.out_features == 7


def test_checkpoints_of_other_weights_are_rejected(tmp_path):
    """Two modules of one class are told apart by their weights."""
    other = Net()
    with torch.no_grad():
        other.layer.bias.add_(1)
    changes = {"dim": 8, "random_state": 0, "settings": SHORT}
    MLC(3, backbone=Net(), **changes).fit(X, checkpoints=tmp_path)
    with pytest.raises(ValueError, match="belong to a run with `backbone`"):
        MLC(3, backbone=other, **changes).fit(X, checkpoints=tmp_path)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"backbone": nn.Linear(4, 2)}, r"`backbone` must take samples of shape \(b, 5\)"),
        ({"backbone": nn.Unflatten(1, (5, 1))}, r"must return vectors \(b, w\), got \(2, 5, 1\)"),
        ({"backbone": 3}, "`backbone` of MLC must be one of auto, .* or a Module, got 3"),
        (
            {"views": lambda x, g: x[:1]},
            r"`views` must return a tensor of its input's shape \(90, 5\)",
        ),
        ({"objective": 3}, "`objective` of MLC must be a callable, got 3"),
        ({"callbacks": 3}, "`callbacks` of MLC must be a list of callables, got 3"),
    ],
)
def test_invalid_hooks_raise(given, words):
    with pytest.raises(ValueError, match=words):
        fit(**given)


# ---------------------------------------------------------------- views


def test_given_views_take_the_place_of_augmentation():
    seen = []

    def views(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append(tuple(x.shape))
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    images = load_digits().images[:60]
    one, two = (fit(images, views=views) for _ in range(2))
    assert set(seen) == {(60, 1, 8, 8)}
    assert np.array_equal(one.transform(images), two.transform(images))
    assert not np.array_equal(one.transform(images), fit(images).transform(images))


def test_identity_views_equal_the_default():
    """On vectors without noise a view is the sample itself: the identity is the default."""
    plain = fit(n_neighbors=0)
    assert np.array_equal(fit(views=lambda x, g: x, n_neighbors=0).transform(X), plain.transform(X))


def test_small_crops_are_not_made_of_given_views():
    images = load_digits().images[:60]
    with pytest.raises(ValueError, match=r"set 'pretrain\.swav\.small_crops' to 0"):
        fit(images, views=lambda x, g: x, pretrain="swav")


# ---------------------------------------------------------------- objective


def test_the_objective_of_mlc_is_the_default():
    assert np.array_equal(fit(objective=mlc_objective).transform(X), fit().transform(X))


def test_another_objective_is_minimised():
    """R alone to be maximised: it grows, and the history has no R_c."""

    def objective(Z, C, config, generator):
        Z = normalize(Z.mean(0), dim=1)
        R = coding_rate(Z, config.eps_sq)
        return Terms(-R, R, None, Z)

    model = fit(objective=objective, settings={**SHORT, "stage2.max_steps": 30})
    R = [row["R"] for row in model.history_ if row["stage"] == "stage 2"]
    assert len(R) == 30
    assert R[-1] > R[0]
    assert all(row["R_c"] is None for row in model.history_)


# ---------------------------------------------------------------- callbacks


def test_callbacks_see_every_step_and_change_nothing():
    seen = []

    def look(tick):
        seen.append((tick.stage, tick.done, type(tick.network).__name__))
        return {"mine": 1.0}

    ticks = []
    model = MLC(3, dim=8, random_state=0, settings=SHORT, callbacks=[look])
    model.fit(X, progress=ticks.append)
    expected = [
        (s, k, "Network") for s in ("stage 1", "stage 2", "stage 2, eta 2") for k in range(5)
    ]
    assert seen == expected
    assert all(t.values["mine"] == 1 for t in ticks if t.stage.startswith("stage"))
    assert np.array_equal(model.transform(X), fit().transform(X))


def test_hooks_are_not_saved_and_the_model_predicts_without_them(tmp_path):
    model = fit(objective=lambda *given: mlc_objective(*given), views=lambda x, g: x, callbacks=[])
    model.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert (again.objective, again.views, again.callbacks) == (None, None, None)
    assert np.array_equal(again.predict(X), model.predict(X))


def test_a_fitted_model_survives_pickle():
    """The config of the pretraining methods is put together when it is imported."""
    model = fit()
    assert pickle.loads(pickle.dumps(model)).config_ == model.config_


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ({"objective": lambda Z, C, c, g: Z.sum()}, "`objective` must return .*Terms.*got Tensor"),
        ({"objective": lambda Z, C, c, g: (Z.sum(), 1, 1, Z)}, "Terms.*got tuple"),
        (
            {"objective": lambda Z, C, c, g: Terms(torch.tensor(1.0), 1.0, 1.0, Z)},
            "one number that depends on Z or C",
        ),
        ({"callbacks": [lambda tick: "done"]}, "a callback must return None or a dict.*got str"),
    ],
)
def test_hooks_that_return_something_else_are_told_what_to_return(hooks, words):
    with pytest.raises(TypeError, match=words):
        fit(**hooks)
