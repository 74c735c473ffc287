"""How the authors of each method trained it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from unbend.config import Config

__all__ = ["PUBLISHED", "Training", "as_published"]


class Training(NamedTuple):
    """An optimiser, its learning rate at 256 images a step, and how that grows with the batch."""

    optimizer: str
    lr: float
    weight_decay: float
    power: float = 1.0
    warmup: float = 0.01  # share of the steps: 10 of 1000 epochs

    def rate(self, batch_size: int) -> float:
        """Learning rate at another number of images a step."""
        return float(self.lr * (batch_size / 256) ** self.power)


# TCR is the paper's own: the preset "paper" is how it was trained.
PUBLISHED: dict[str, Training] = {
    "simclr": Training("lars", 0.3, 1e-6),  # Chen et al., ICML 2020, section 2.2
    "moco": Training("sgd", 0.03, 1e-4, warmup=0.0),  # He et al., CVPR 2020; v2: cosine
    "vicreg": Training("lars", 0.2, 1e-6),  # Bardes et al., ICLR 2022, section 4.2
    "byol": Training("lars", 0.2, 1.5e-6),  # Grill et al., NeurIPS 2020, section 3.3
    # Caron et al., NeurIPS 2020: 0.6 at 256 images and 4.8 at 4096; this power joins the two.
    "swav": Training("lars", 0.6, 1e-6, power=0.75),
}


def as_published(config: Config, given: Collection[str] = ()) -> Config:
    """A config of the preset "paper" with the published training of its method of stage 1.

    Other presets have their own for short runs and stay as they are, as do the settings in
    ``given``, by their dotted names, which somebody asked for.

    >>> from unbend.config import PRESETS
    >>> config = as_published(PRESETS["paper"].override({"pretrain.method": "moco"}))
    >>> config.pretrain.optimizer, config.pretrain.lr
    ('sgd', 0.12)
    """
    training = PUBLISHED.get(config.pretrain.method)
    if config.preset != "paper" or training is None:
        return config
    changes = {
        "pretrain.optimizer": training.optimizer,
        "pretrain.lr": training.rate(config.pretrain.batch_size * config.pretrain.accumulate),
        "pretrain.weight_decay": training.weight_decay,
        "pretrain.warmup": training.warmup,
    }
    if "pretrain.optimizer" in given:  # a rate is worth nothing with another optimiser
        return config
    return config.override({name: v for name, v in changes.items() if name not in given})
