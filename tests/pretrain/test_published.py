"""The preset of the paper trains every method as its authors did."""

import numpy as np
import pytest

from unbend import MLC
from unbend.baselines import CPP, NMCE, PRODSC
from unbend.config import PRESETS, as_published
from unbend.pretrain import METHODS
from unbend.workflows.pretrain import _resolve

# At 1024 images a step: 0.3, 0.2 and 0.03 for each 256 of them; SwAV's between 0.6 and 4.8.
AT_1024 = {
    "simclr": ("lars", 1.2, 1e-6, 0.01),
    "moco": ("sgd", 0.12, 1e-4, 0.0),
    "vicreg": ("lars", 0.8, 1e-6, 0.01),
    "byol": ("lars", 0.8, 1.5e-6, 0.01),
    "swav": ("lars", 0.6 * 8**0.5, 1e-6, 0.01),
}


def _training(config):
    part = config.pretrain
    return part.optimizer, part.lr, part.weight_decay, part.warmup


def _resolved(method, **changes):
    model = MLC(10, preset="paper", pretrain=method, **changes)
    return model._resolve((3, 32, 32), 5000)


@pytest.mark.parametrize("method", AT_1024)
def test_the_estimator_takes_the_published_training(method):
    name, *numbers = _training(_resolved(method))
    assert name == AT_1024[method][0]
    np.testing.assert_allclose(numbers, AT_1024[method][1:])


def test_every_method_but_the_papers_own_is_there():
    assert {name for name, m in METHODS.items() if m.published} == {*METHODS} - {"tcr"}
    assert as_published(PRESETS["paper"]) == PRESETS["paper"]
    for end, lr in ((256, 0.6), (4096, 4.8)):
        np.testing.assert_allclose(METHODS["swav"].published.rate(end), lr)


def test_the_rate_follows_the_batch_and_what_was_asked_for_stays():
    assert _resolved("byol", batch_size=512).pretrain.lr == pytest.approx(0.4)
    both = {"pretrain.batch_size": 128, "pretrain.accumulate": 4}
    assert _resolved("byol", settings=both).pretrain.lr == pytest.approx(0.4)
    asked = _resolved("byol", settings={"pretrain.lr": 0.05})
    assert (asked.pretrain.lr, asked.pretrain.weight_decay) == (0.05, 1.5e-6)
    adam = _resolved("byol", settings={"pretrain.optimizer": "adam", "pretrain.lr": 1e-3})
    assert _training(adam) == ("adam", 1e-3, 1e-4, 0.01)


def test_short_presets_keep_their_own():
    for method in METHODS:
        config = PRESETS["images"].override({"pretrain.method": method})
        assert as_published(config) == config


def test_workflow_uses_the_published_training():
    config = _resolve((3, 32, 32), 5000, "paper", "moco", None, {"pretrain.warmup": 0.5})
    assert _training(config) == ("sgd", 0.12, 1e-4, 0.5)


@pytest.mark.parametrize("method", AT_1024)
def test_peers_resolve_stage_1_as_mlc_does(method):
    peer = NMCE(10, preset="paper", settings={"pretrain.method": method})
    ours = _resolved(method, pretrain_epochs=600)  # NMCE's own length
    assert peer._resolve((3, 32, 32), 5000).pretrain == ours.pretrain


@pytest.mark.parametrize("cls", [NMCE, CPP, PRODSC])
@pytest.mark.parametrize("shape", [(1, 28, 28), (64,)])
@pytest.mark.parametrize("n", [300, 10_000])
def test_peers_share_stage_1_with_mlc_on_small_data(cls, shape, n):
    """The same network, views and training; only stage 2 is the peer's own."""
    peer, ours = cls(10)._resolve(shape, n), MLC(10)._resolve(shape, n)
    assert (peer.network, peer.views, peer.pretrain) == (ours.network, ours.views, ours.pretrain)
