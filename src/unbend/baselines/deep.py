"""Base of the deep peers: MLC's networks, views and stage 1, and scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import nn

from unbend.begin import Run, Seen, begin, look_at
from unbend.config import PARAMETERS, Config, resolve
from unbend.devices import make_fabric
from unbend.networks import Network
from unbend.networks.network import Output
from unbend.parameters import check_parameters, seed_of, settings_of, unchanged_on_error
from unbend.progress import Progress, console_progress, silent
from unbend.rules import Rule
from unbend.samples import Scaling, check_samples, prepare
from unbend.training import History

__all__ = ["DeepPeer"]


# Only MLC calibrates eta and chooses among labellings; the peers use the paper's constant.
_PLAIN = {"stage2.eta": 0.175, "labels.join": "codes"}


@dataclass(eq=False, repr=False, kw_only=True)
class DeepPeer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the deep peers.

    A subclass sets ``published`` (its settings over the preset ``"paper"``), ``adapted`` (over
    the presets for small data) and ``rules`` (of its own parameters), and implements ``_run``.
    """

    published: ClassVar[dict[str, Any]] = {}
    adapted: ClassVar[dict[str, Any]] = {}
    rules: ClassVar[dict[str, Rule]] = {}
    # The settings that each parameter sets.
    table: ClassVar[Mapping[str, tuple[str, ...]]] = PARAMETERS

    preset: str = "auto"
    dim: int | None = None
    backbone: str | nn.Module | None = None
    epochs: int | None = None
    batch_size: int | None = None
    eps_sq: float | None = None
    settings: dict[str, Any] | None = None
    device: str = "auto"
    precision: str = "32-true"
    random_state: Any = None
    verbose: int = 0

    n_features_in_: int = field(init=False)
    config_: Config = field(init=False)
    history_: History = field(init=False)
    _network: Network = field(init=False)
    _scaling: Scaling = field(init=False)

    def fit(self, X: Any, y: Any = None, *, network: Network | None = None) -> Any:
        """Learn from X.

        Parameters
        ----------
        X : array-like or Tensor
            Vectors (n, p), or images (n, h, w) or (n, c, h, w), uint8 or float.
        y : None
            Ignored, present for scikit-learn.
        network : Network, optional
            A network after stage 1, built with the same settings. Training starts from a copy of
            it and skips stage 1.
        """
        with unchanged_on_error(self):
            return self._fit(X, y, network)

    def _fit(self, X: Any, y: Any, network: Network | None) -> Any:
        check_parameters(self)
        array = check_samples(self, X)
        n, k = len(array), getattr(self, "n_clusters", 1)
        if k > n:
            owner = type(self).__name__
            raise ValueError(f"n_clusters={k} of {owner} must be at most n_samples={n}")
        with console_progress() if self.verbose else nullcontext(silent) as progress:
            samples, self._scaling, neighbors = self._look_at(array, network, progress)
            self.config_ = self._resolve(self._scaling.network_shape, n)
            run = begin(
                samples,
                self.config_,
                seed=seed_of(self.random_state),
                fabric=make_fabric(self.device, self.precision),
                n_clusters=k,
                progress=progress,
                backbone=self.backbone if isinstance(self.backbone, nn.Module) else None,
                start=network,
                neighbors=neighbors,
            )
            self.config_ = run.config
            self._run(run, y)
        self._network = run.end().cpu().eval()
        self._n_features_out = self.config_.network.dim
        return self

    def _run(self, run: Run, y: Any) -> None:
        """Train ``run.network``; set ``history_``, ``labels_`` and related attributes."""
        raise NotImplementedError

    def _look_at(self, array: NDArray[Any], network: Network | None, progress: Progress) -> Seen:
        """The scaled samples, as MLC sees them, or as the network that was given does."""
        samples, scaling = prepare(array)
        if network is not None and network.shape == scaling.shape:
            return Seen(samples, scaling)
        asked = {*settings_of(self, self.table), *self.adapted, *(self.settings or {})}
        k = getattr(self, "n_clusters", 1)
        return look_at(samples, scaling, k, preset=self.preset, asked=asked, progress=progress)

    def _resolve(self, shape: tuple[int, ...], n: int) -> Config:
        return resolve(
            shape,
            n,
            getattr(self, "n_clusters", 1),
            preset=self.preset,
            published=self.published,
            adapted={**_PLAIN, **self.adapted},
            given=settings_of(self, self.table),
            settings=self.settings,
        )

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
