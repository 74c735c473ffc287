"""Load a backbone from disk."""

from __future__ import annotations

from pathlib import Path

import torch

from unbend.networks import Network
from unbend.networks.encoders.unbend_checkpoint import read_saved_encoder

__all__ = ["load_backbone"]


def load_backbone(network: Network, path: str | Path) -> None:
    """Load the backbone of a saved encoder or model into a network.

    Its pixel normalisation, for images in [0, 1], is loaded too. A mismatch raises an error that
    says what the encoder was made for.
    """
    saved = read_saved_encoder(path)
    own = network.backbone.state_dict()
    wrong = sorted(
        {*own, *saved.tensors}
        - {k for k in own if k in saved.tensors and own[k].shape == saved.tensors[k].shape}
    )
    if wrong:
        raise ValueError(
            f"the encoder in {str(path)!r} is a {saved.config.backbone!r} of width "
            f"{saved.config.width} for samples of shape {tuple(saved.shape)} and does not fit this "
            f"network ({wrong[0]!r} differs); use images of that size and backbone="
            f"{saved.config.backbone!r}"
        )
    network.backbone.load_state_dict(saved.tensors)
    if saved.mean:
        like = network.mean
        network.mean = torch.tensor(saved.mean).to(like)[:, None, None]
        network.std = torch.tensor(saved.std).to(like)[:, None, None]
