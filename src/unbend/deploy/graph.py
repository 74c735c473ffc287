"""What a fitted model computes for new samples, as one torch module that can be exported."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from unbend.deploy.resize import Resize
from unbend.estimator import MLC
from unbend.networks import Encoder
from unbend.networks.encoders.preprocess import Preprocessing

__all__ = ["Pipeline"]


class Pipeline(nn.Module):
    """Samples as the user has them → probabilities, label and outlier score.

    Parameters
    ----------
    model : MLC
        A fitted model.
    encoder : Encoder or None
        Its encoder, on the CPU.
    size : tuple of int, optional
        Height and width of the images; needed with an encoder.
    """

    def __init__(self, model: MLC, encoder: Encoder | None, size: tuple[int, int] | None) -> None:
        super().__init__()
        self.embed = None if encoder is None else _Embedding(encoder, size)
        self.offset, self.scale = model._scaling.offset, model._scaling.scale
        network = copy.deepcopy(model._network).cpu().eval()
        self.is_image = model._scaling.is_image
        # As in `Network.encode`: vectors in float64, images in the network's own precision.
        self.network = network if self.is_image else network.double()
        self.labels = _Labels(model)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.embed is not None:
            x = self.embed(x)
        x = x if x.is_floating_point() else x.float()
        x = ((x - self.offset) / self.scale).float()
        Z, C = self.network(x if self.is_image else x.double())
        probabilities = self.labels.probabilities(C)
        return (
            probabilities.float(),
            probabilities.argmax(1),
            self.labels.outlier_score(Z).float(),
        )


class _Embedding(nn.Module):
    """Bytes (b, 3, h, w) → embeddings: the preprocessing of an encoder and the encoder."""

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: Encoder, size: tuple[int, int] | None) -> None:
        super().__init__()
        if not isinstance(encoder.module, nn.Module):
            raise ValueError(
                f"encoder {encoder.name!r} is a function, which cannot be exported; make it a "
                "torch.nn.Module and fit again"
            )
        self.preprocess: Preprocessing = encoder.preprocess
        self.module = copy.deepcopy(encoder.module).cpu().float().eval()
        resizes = self.preprocess.size is not None and size != self.preprocess.size
        self.resize = Resize(self.preprocess, size) if resizes and size is not None else None
        channels = len(self.preprocess.mean)
        self.register_buffer("mean", torch.tensor(self.preprocess.mean).view(1, channels, 1, 1))
        self.register_buffer("std", torch.tensor(self.preprocess.std).view(1, channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.preprocess.channels(x)
        x = x.float() if self.resize is None else self.resize(x)
        peak = 255.0 if self.resize is None or self.resize.on_bytes else 1.0
        x = (x - self.mean * peak) / (self.std * peak)
        out: Any = self.module(x)
        embeddings: Tensor = out.float()
        return embeddings


class _Labels(nn.Module):
    """:class:`~unbend.labels.LabelModel` for a batch, without its loops over blocks."""

    codes: Tensor
    offset: Tensor
    members: Tensor
    whitening: Tensor

    def __init__(self, model: MLC) -> None:
        super().__init__()
        labels = model._label_model
        own = labels.representatives
        dtype = model._network.mean.dtype if model._scaling.is_image else torch.float64
        members = torch.nn.functional.one_hot(own.labels.cpu(), own.n_clusters)
        self.eta, self.absolute = own.eta, own.absolute
        self.register_buffer("codes", own.codes.cpu().to(dtype))
        self.register_buffer("offset", (own.potential.cpu().to(dtype) / own.eta))
        self.register_buffer("members", members.to(dtype))
        self.register_buffer("whitening", labels.subspaces.whitening().to(dtype))

    def probabilities(self, C: Tensor) -> Tensor:
        S = C @ self.codes.T
        S = S.abs() if self.absolute else S
        p = (S / self.eta + self.offset).softmax(1) @ self.members
        return p / p.sum(1, keepdim=True)

    def outlier_score(self, Z: Tensor) -> Tensor:
        k, d, _ = self.whitening.shape
        cost = (Z @ self.whitening.reshape(k * d, d).T).reshape(-1, k, d).square().sum(2)
        return cost.amin(1).clamp(max=1.0)
