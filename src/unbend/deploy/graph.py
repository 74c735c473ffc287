"""What a fitted model computes for new samples, as one torch module that can be exported."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.deploy.resize import Resize
from unbend.estimator import MLC
from unbend.labels.surroundings import FARTHEST, NEAREST
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
        scaling = model._scaling
        self.offset, self.scale, self.spread = scaling.offset, scaling.scale, scaling.spread
        network = copy.deepcopy(model._network).cpu().eval()
        self.shape = scaling.network_shape
        self.is_image = len(self.shape) == 3
        # As in `Network.encode`: vectors in float64, images in the network's own precision.
        self.network = network if self.is_image else network.double()
        self.labels = _Labels(model)
        self.isolation = _Isolation(model)
        # Where outliers are labelled, those above the threshold get -1.
        self.threshold = model.outlier_threshold_ if model.outliers == "label" else None

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.embed is not None:
            x = self.embed(x)
        x = x if x.is_floating_point() else x.float()
        x = ((x - self.offset) / self.scale).float()
        x = (x / self.spread).reshape(-1, *self.shape)
        _, C = self.network(x if self.is_image else x.double())
        probabilities = self.labels(C)
        label = probabilities.argmax(1)
        score = self.isolation(x.flatten(1))
        if self.threshold is not None:
            label = torch.where(score > self.threshold, torch.full_like(label, -1), label)
        return probabilities.float(), label, score.float()


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
        self.mirror = encoder.mirror
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
        embeddings = self._pass(x)
        return (embeddings + self._pass(x.flip(-1))) / 2 if self.mirror else embeddings

    def _pass(self, x: Tensor) -> Tensor:
        out: Any = self.module(x)
        embeddings: Tensor = out.float()
        return embeddings


class _Labels(nn.Module):
    """:class:`~unbend.labels.LabelModel` for a batch, without its loops over blocks."""

    codes: Tensor
    offset: Tensor
    members: Tensor

    def __init__(self, model: MLC) -> None:
        super().__init__()
        labels = model._label_model
        own = labels.representatives
        is_image = len(model._scaling.network_shape) == 3
        dtype = model._network.mean.dtype if is_image else torch.float64
        members = torch.nn.functional.one_hot(own.labels.cpu(), own.n_clusters)
        self.eta, self.absolute, self.temperature = own.eta, own.absolute, labels.temperature
        self.register_buffer("codes", own.codes.cpu().to(dtype))
        self.register_buffer("offset", (own.potential.cpu().to(dtype) / own.eta))
        self.register_buffer("members", members.to(dtype))

    def forward(self, C: Tensor) -> Tensor:
        S = C @ self.codes.T
        S = S.abs() if self.absolute else S
        p = (S / self.eta + self.offset).softmax(1) @ self.members
        if self.temperature == 1.0:
            return p / p.sum(1, keepdim=True)
        # As in unbend.labels.confidence: p^(1/T), normalised.
        tiny = torch.finfo(torch.float32).tiny if p.dtype == torch.float32 else 1e-300
        return (p.clamp_min(tiny).log() / self.temperature).softmax(1)


class _Isolation(nn.Module):
    """:meth:`~unbend.labels.Surroundings.score` for a batch."""

    mean: Tensor
    scale: Tensor
    references: Tensor
    reach: Tensor

    def __init__(self, model: MLC) -> None:
        super().__init__()
        around = model._surroundings
        self.kind = around.kind
        m = len(around.references)
        self.count = min(max(1, min(NEAREST, m - 1)) + 1, m)
        self.floor = 1e-3 * float(around.reach.median()) + 1e-9
        for name in ("mean", "scale"):
            self.register_buffer(name, getattr(around, name).cpu().float())
        for name in ("references", "reach"):
            self.register_buffer(name, getattr(around, name).cpu().double())

    def forward(self, x: Tensor) -> Tensor:
        x = ((x - self.mean) * self.scale).clamp(-FARTHEST, FARTHEST)
        x = x if self.kind == "distance" else normalize(x, dim=1)
        x = x.double()
        products = x @ self.references.T
        if self.kind == "line":
            squares = 2 - 2 * products.abs()
        else:
            own = x.square().sum(1, keepdim=True)
            squares = own + self.references.square().sum(1) - 2 * products
        near, index = squares.topk(self.count, largest=False)
        distance, reach = near.clamp_min(0).sqrt(), self.reach[index]
        if self.count > 1:  # a reference in the very place of a sample is the sample itself
            same = (distance[:, :1] <= 1e-3 * distance[:, -1:] + 1e-6).to(x)
            keep = torch.cat([1 - same, torch.ones_like(distance[:, 2:]), same], dim=1)
            distance = (distance * keep).sum(1) / (self.count - 1)
            reach = (reach * keep).sum(1) / (self.count - 1)
        else:
            distance, reach = distance[:, 0], reach[:, 0]
        ratio = (distance + self.floor) / (reach + self.floor)
        return ratio / (1 + ratio)
