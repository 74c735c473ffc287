"""Supervised MCR²: the representation that the true classes would give."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor
from torch.nn.functional import one_hot
from torch.optim import SGD, AdamW, Optimizer

from unbend.baselines.deep import DeepPeer, Tools
from unbend.baselines.membership_rate import membership_rate
from unbend.config import Config
from unbend.data import Batches
from unbend.functional import coding_rate
from unbend.networks import Network, build_network
from unbend.training import (
    Guard,
    History,
    Terms,
    descend,
    gather,
    n_steps,
    share,
    warmup_cosine,
)

__all__ = ["MCR2"]


class MCR2(DeepPeer):
    r"""Maximal Coding Rate Reduction with true classes (Yu et al. [1]_), a transformer.

    Eq. (1) of the MLC paper,

    .. math:: \max_\theta R(Z; \epsilon) - R_c(Z, \Pi; \epsilon), \qquad Z = f_\theta(X)

    with Π the one-hot membership of the classes y that :meth:`fit` is given. It shows what
    representation MLC would reach if it knew the clusters.

    Parameters
    ----------
    preset : {"auto", "images", "vectors", "paper"}, default="auto"
        Where every knob that is not given comes from, as in MLC. There is one stage, with the
        length and optimiser of stage 1 and the ε² here.
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
    Where it differs from the published program: the networks are MLC's; in the presets for small
    data the optimiser is Adam instead of SGD, the change that MLC's stage 1 has there. The
    published ½ before both rates changes nothing but the scale.

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

    published: ClassVar[dict[str, Any]] = {
        "pretrain.eps_sq": 0.5,
        "pretrain.epochs": 500,
        "pretrain.batch_size": 1000,
        "pretrain.lr": 0.01,
        "pretrain.weight_decay": 5e-4,
    }
    adapted: ClassVar[dict[str, Any]] = {"pretrain.eps_sq": 0.5}

    def __init__(
        self,
        *,
        preset: str = "auto",
        dim: int | None = None,
        backbone: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        eps_sq: float | None = None,
        optimizer: str = "auto",
        settings: dict[str, Any] | None = None,
        device: str = "auto",
        precision: str = "32-true",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.preset = preset
        self.dim = dim
        self.backbone = backbone
        self.epochs = epochs
        self.batch_size = batch_size
        self.eps_sq = eps_sq
        self.optimizer = optimizer
        self.settings = settings
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check(self) -> None:
        super()._check()
        if self.optimizer not in ("auto", "sgd", "adam"):
            raise ValueError(
                f"`optimizer` of MCR2 must be one of auto, sgd, adam, got {self.optimizer!r}; "
                "try 'auto'"
            )

    def _fit(self, X: Any, y: Any, network: Network | None) -> Any:
        if y is None:
            raise ValueError(
                "MCR2 requires y to be passed, but the target y is None; "
                "without classes use NMCE or MLC"
            )
        return super()._fit(X, y, network)

    def _resolve(self, shape: tuple[int, ...], n: int) -> Any:
        # The one stage is configured where stage 1 is.
        config = super()._resolve(shape, n)
        own = {"epochs": self.epochs, "eps_sq": self.eps_sq}
        given = {f"pretrain.{name}": v for name, v in own.items() if v is not None}
        return config.override(given)

    def _run(self, samples: Tensor, y: Any, network: Network | None, tools: Tools) -> None:
        y = column_or_1d(y)
        check_classification_targets(y)
        if len(y) != len(samples):
            raise ValueError(
                f"`y` of MCR2 must have one class per sample, got {len(y)} classes "
                f"for {len(samples)} samples"
            )
        self.classes_, index = np.unique(y, return_inverse=True)
        Pi = one_hot(torch.from_numpy(index), len(self.classes_)).to(samples)
        if network is None:
            network = build_network(tuple(samples.shape[1:]), tools.config.network, tools.seed)
            network.normalize_like(samples)
        network = network.to(tools.fabric.device)
        self.history_ = _train(network, samples, Pi, self.optimizer, tools)
        self._network = network.cpu().eval()


def _train(
    network: Network, samples: Tensor, Pi: Tensor, optimizer_name: str, tools: Tools
) -> History:
    config, fabric = tools.config.pretrain, tools.fabric
    trained: Any = fabric.setup_module(network)
    trained.mark_forward_method("features")
    trained.train()
    batches = Batches(len(samples), config.batch_size, tools.generator)
    params = [*network.backbone.parameters(), *network.feature_head.parameters()]
    optimizer: Any = fabric.setup_optimizers(_optimizer(params, optimizer_name, tools.config))

    def compute(step: int) -> Terms:
        batch = next(batches).to(samples.device)
        Z = gather(trained.features(share(samples[batch])).float())
        R, R_c = coding_rate(Z, config.eps_sq), membership_rate(Z, Pi[batch], config.eps_sq)
        return Terms(R_c - R, R, R_c, Z)

    total = n_steps(
        len(samples), config.batch_size, config.epochs, config.min_steps, config.max_steps
    )
    return descend(
        compute,
        [optimizer],
        n_steps=total,
        lr_factor=lambda step: warmup_cosine(step, total, config.warmup),
        guard=Guard(trained, [optimizer], "MCR2", network.feature_head.dim, config.eps_sq),
        fabric=fabric,
        progress=tools.progress,
        accumulate=config.accumulate,
        max_norm=config.max_norm,
        parts={"generator": tools.generator, "batches": batches},
    )


def _optimizer(params: list[Any], name: str, config: Config) -> Optimizer:
    stage = config.pretrain
    if name == "auto":
        name = "sgd" if config.preset == "paper" else "adam"
    if name == "adam":
        return AdamW(params, stage.lr, (stage.momentum, 0.999), weight_decay=stage.weight_decay)
    return SGD(params, stage.lr, momentum=stage.momentum, weight_decay=stage.weight_decay)
