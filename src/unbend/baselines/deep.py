"""What the deep peers share: MLC's networks, views and stage 1, and scikit-learn's manners."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from unbend.config import PRESETS, Config, preset_for
from unbend.data import Scaling, ViewSampler, check_samples, prepare
from unbend.devices import make_fabric
from unbend.networks import Network, build_network, resolve_backbone
from unbend.networks.network import Output
from unbend.parameters import check_config, check_parameters, seed_of
from unbend.pretrain import pretrain
from unbend.progress import Progress, console_progress, silent
from unbend.training import History

__all__ = ["DeepPeer", "Tools", "check_positive"]

# Parameters that override a field of the preset when they are not None.
_OVERRIDES = {
    "dim": ("network.dim",),
    "backbone": ("network.backbone",),
    "pretrain_epochs": ("pretrain.epochs",),
    "epochs": ("stage2.epochs",),
    "batch_size": ("pretrain.batch_size", "stage2.batch_size"),
    "eta": ("stage2.eta",),
    "eps_sq": ("stage2.eps_sq",),
}


@dataclass(frozen=True)
class Tools:
    """What a training stage works with."""

    config: Config
    seed: int
    generator: torch.Generator
    fabric: Fabric
    progress: Progress


class DeepPeer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the deep peers.

    A subclass sets ``published`` (its settings over the preset ``"paper"``) and ``adapted`` (over
    the presets for small data), and writes ``_train``.
    """

    published: ClassVar[dict[str, Any]] = {}
    adapted: ClassVar[dict[str, Any]] = {}

    n_features_in_: int
    config_: Config
    history_: History
    _network: Network
    _scaling: Scaling

    def fit(self, X: Any, y: Any = None, *, network: Network | None = None) -> Any:
        """Learn from X.

        Parameters
        ----------
        X : array-like or Tensor
            Vectors (n, p), or images (n, h, w) or (n, c, h, w), uint8 or float.
        y : None
            Ignored, present for scikit-learn.
        network : Network, optional
            Start from a copy of this network, which must be built for the same settings and come
            out of stage 1, instead of running stage 1.
        """
        before = dict(self.__dict__)
        try:
            return self._fit(X, y, network)
        except BaseException:  # also an interrupt: the model is then what it was before
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: Any, y: Any, network: Network | None) -> Any:
        self._check()
        array = check_samples(self, X)
        self._check_counts(array)
        samples, self._scaling = prepare(array)
        self.config_ = self._resolve(self._scaling.shape, len(array))
        check_config(self.config_)
        seed = seed_of(self.random_state)
        with console_progress() if self.verbose else nullcontext(silent) as progress:
            fabric = make_fabric(self.device, self.precision)
            generator = torch.Generator().manual_seed(seed)
            tools = Tools(self.config_, seed, generator, fabric, progress)
            self._run(samples.to(fabric.device), y, network, tools)
        self._n_features_out = self.config_.network.dim
        return self

    def _run(self, samples: Tensor, y: Any, network: Network | None, tools: Tools) -> None:
        """Stage 1, or what stands for it, and then the peer's own training."""
        config, fabric = tools.config, tools.fabric
        views = ViewSampler(samples, config.views, tools.generator)
        if network is None:
            network = build_network(tuple(samples.shape[1:]), config.network, tools.seed)
            network.normalize_like(samples)
            trained: Any = fabric.setup_module(network)
            trained.mark_forward_method("features")
            self.history_ = pretrain(
                trained,
                views,
                config.pretrain,
                generator=tools.generator,
                fabric=fabric,
                progress=tools.progress,
            )
        else:
            network = copy.deepcopy(network).to(fabric.device)
            self.history_ = []
        if views.neighbors.shape[1] and config.views.refresh:
            views.refresh(network.encode(samples).Z)
        self.history_ = self.history_ + self._train(network, views, tools)
        self._network = network.cpu().eval()
        self._conclude(samples.cpu(), tools)

    def _train(self, network: Network, views: ViewSampler, tools: Tools) -> History:
        """The peer's own stage; changes ``network`` in place."""
        raise NotImplementedError

    def _conclude(self, samples: Tensor, tools: Tools) -> None:
        """Set ``labels_`` and what belongs to it."""
        raise NotImplementedError

    # ------------------------------------------------------------------ settings

    def _check(self) -> None:
        check_parameters(self)
        k = getattr(self, "n_clusters", 1)
        if isinstance(k, str):
            raise ValueError(
                f"`n_clusters` of {type(self).__name__} must be an integer >= 1, got {k!r}; try 10"
            )

    def _check_counts(self, array: NDArray[Any]) -> None:
        k = getattr(self, "n_clusters", 1)
        if int(k) > len(array):
            raise ValueError(
                f"n_clusters={k} of {type(self).__name__} must be at most n_samples={len(array)}"
            )

    def _resolve(self, shape: tuple[int, ...], n: int) -> Config:
        params = self.get_params(deep=False)
        name = preset_for(shape) if params["preset"] == "auto" else params["preset"]
        config = PRESETS[name].override(self.published if name == "paper" else self.adapted)
        backbone = resolve_backbone(config.network.backbone, shape)
        config = config.for_samples(n).override({"network.backbone": backbone})
        changes = {
            field: params[name]
            for name, targets in _OVERRIDES.items()
            for field in targets
            if params.get(name) is not None
        }
        return config.override(changes).override(params["settings"] or {})

    # ------------------------------------------------------------------ samples

    def transform(self, X: Any) -> NDArray[np.floating]:
        """Features Z of shape (m, d) on the unit sphere."""
        output, dtype = self._encode(X)
        return output.Z.numpy().astype(dtype, copy=False)

    def _encode(self, X: Any) -> tuple[Output, np.dtype[Any]]:
        check_is_fitted(self)
        array = check_samples(self, X, self._scaling)
        dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        return self._network.encode(self._scaling.apply(array)), dtype

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_network")


def check_positive(estimator: Any, *names: str, zero: bool = False) -> None:
    """Raise ValueError for the first named parameter that is not a number > 0 (or >= 0)."""
    for name in names:
        value = getattr(estimator, name)
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if not number or not (0 <= value < np.inf) or (value == 0 and not zero):
            raise ValueError(
                f"`{name}` of {type(estimator).__name__} must be {'>=' if zero else '>'} 0, "
                f"got {value!r}; leave it out"
            )
