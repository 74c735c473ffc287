"""Supervised MCR²: the representation that the true classes would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor
from torch.nn.functional import one_hot

from unbend.baselines.deep import DeepPeer
from unbend.baselines.membership_rate import membership_rate
from unbend.begin import Run
from unbend.config import PARAMETERS
from unbend.functional import coding_rate
from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.pretrain.methods.tcr import TotalCodingRate
from unbend.pretrain.stage import train
from unbend.rules import one_of
from unbend.samples import ViewSampler
from unbend.training import Terms, gather, steps_of

__all__ = ["MCR2"]


@dataclass(eq=False, repr=False, kw_only=True)
class MCR2(DeepPeer):
    r"""Maximal Coding Rate Reduction with true classes (Yu et al. [1]_), a transformer.

    Eq. (1) of the MLC paper,

    .. math:: \max_\theta R(Z; \epsilon) - R_c(Z, \Pi; \epsilon), \qquad Z = f_\theta(X)

    with Π the one-hot membership of the classes y passed to :meth:`fit`. It shows which
    representation MLC would learn with known clusters.

    Parameters
    ----------
    preset : {"auto", "images", "vectors", "paper"}, default="auto"
        The source of all settings that are not given, as in MLC. There is one stage, with the
        length and optimiser of stage 1 and the ``eps_sq`` below.
    dim, backbone, epochs, batch_size : optional
        As in MLC; ``epochs`` and ``batch_size`` of the one stage.
    eps_sq : float, optional
        ε²; 0.5 as published.
    optimizer : {"auto", "sgd", "adam"}, default="auto"
        ``"auto"`` is SGD, as published, with the preset ``"paper"`` and Adam with the others.
    settings : dict, optional
        Any other knob by its dotted name.
    device, precision, random_state, verbose :
        As in MLC.

    Attributes
    ----------
    classes_ : ndarray
        The classes of y.
    history_ : list of dict
        A row per training step.

    Notes
    -----
    Differences from the published program: the networks are MLC's. The presets for small data use
    Adam instead of SGD, as MLC's stage 1 does. The published factor ½ on both rates is left out;
    it only changes the scale.

    References
    ----------
    .. [1] Y. Yu, K. H. R. Chan, C. You, C. Song, Y. Ma, "Learning diverse and discriminative
       representations via the principle of maximal coding rate reduction", NeurIPS 2020.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> MCR2(random_state=0, dim=8).fit(X, y).transform(X).shape
    (60, 8)
    """

    optimizer: str = "auto"

    published: ClassVar[dict[str, Any]] = {
        "pretrain.eps_sq": 0.5,
        "pretrain.epochs": 500,
        "pretrain.batch_size": 1000,
        "pretrain.optimizer": "sgd",
        "pretrain.lr": 0.01,
        "pretrain.weight_decay": 5e-4,
    }
    # The only view is the sample itself, so no neighbours are needed.
    adapted: ClassVar[dict[str, Any]] = {"pretrain.eps_sq": 0.5, "views.n_neighbors": 0}
    rules: ClassVar[dict[str, Any]] = {"optimizer": one_of("auto", "sgd", "adam")}
    # The settings of stage 1 configure the only stage.
    table = PARAMETERS | {
        "epochs": ("pretrain.epochs",),
        "batch_size": ("pretrain.batch_size",),
        "eps_sq": ("pretrain.eps_sq",),
        "optimizer": ("pretrain.optimizer",),
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _fit(self, X: Any, y: Any, network: Network | None) -> Any:
        if y is None:
            raise ValueError(
                "MCR2 requires y to be passed, but the target y is None; "
                "without classes use NMCE or MLC"
            )
        return super()._fit(X, y, network)

    def _run(self, run: Run, y: Any) -> None:
        y = column_or_1d(y)
        check_classification_targets(y)
        if len(y) != len(run.samples):
            raise ValueError(
                f"`y` of MCR2 must have one class per sample, got {len(y)} classes "
                f"for {len(run.samples)} samples"
            )
        self.classes_, index = np.unique(y, return_inverse=True)
        config = run.config.pretrain
        Pi = one_hot(torch.from_numpy(index), len(self.classes_)).to(run.samples)
        method = _Supervised(run.network, config, Pi)
        self.history_ = train(method, run.views, config, steps_of(config, len(y)), run.tools)


class _Supervised(TotalCodingRate):
    """Backbone and feature head on the samples themselves, with Π of the classes."""

    stage = "MCR2"

    def __init__(self, network: Network, config: Stage1Config, Pi: Tensor) -> None:
        super().__init__(network, config, total_steps=0)
        self.Pi = Pi

    def draw(self, views: ViewSampler, index: Tensor) -> list[Tensor]:
        index = index.to(views.device)
        self._drawn = self.Pi[index]
        return [views.samples[index]]

    def forward(self, views: Sequence[Tensor]) -> Terms:
        Z = gather(self.features(views[0]).float())
        eps_sq = self.config.eps_sq
        R, R_c = coding_rate(Z, eps_sq), membership_rate(Z, self._drawn, eps_sq)
        return Terms(R_c - R, R, R_c, Z)
