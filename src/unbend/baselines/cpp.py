"""CPP: MLC for features of large pre-trained encoders."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from unbend.baselines.codes import CodePeer
from unbend.baselines.deep import check_positive
from unbend.config import Stage2Config
from unbend.functional import doubly_stochastic, rate_reduction
from unbend.training import Terms

__all__ = ["CPP"]


class CPP(CodePeer):
    r"""Clustering via the Principle of rate reduction and Pretrained models (Chu et al. [1]_).

    Two changes of MLC's objective, Eq. (4): similarities are absolute, and a penalty keeps the
    membership from becoming sparse,

    .. math:: \max_\theta R(Z; \epsilon) - R_c(Z, \Gamma; \epsilon)
              - \tfrac{\kappa}{2} \lVert \Gamma \rVert_F^2, \qquad
              \Gamma = P_{\Omega,\eta}(|C C^\top|)

    Parameters
    ----------
    n_clusters : int, default=8
        k. CPP's own rule to compare values of k is :func:`unbend.labels.subspaces.coding_length`.
    preset : {"auto", "images", "vectors", "paper"}, default="auto"
        Where every knob that is not given comes from, as in MLC.
    dim, backbone, pretrain_epochs, epochs, batch_size, eta, eps_sq : optional
        As in MLC.
    penalty : float, default=0.05
        κ.
    settings : dict, optional
        Any other knob by its dotted name.
    device, precision, random_state, verbose :
        As in MLC.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    history_ : list of dict
        A row per training step.

    Notes
    -----
    Where it differs from the published program: the networks, views and stage 1 are MLC's; stage
    1 takes the place of the 50 warm-up steps of R alone, which presuppose an encoder as strong as
    CLIP. Γ is the exact projection with its exact gradient, not five half-steps of Sinkhorn with
    one potential held constant. SGD has the published 15 epochs at 1e-4 in the preset
    ``"paper"``; with the few steps of the presets for small data that moves nothing, so there
    stage 2 is as long and as fast as MLC's.

    References
    ----------
    .. [1] T. Chu, S. Tong, T. Ding, X. Dai, B. D. Haeffele, R. Vidal, Y. Ma, "Image clustering
       via the principle of rate reduction in the age of pretrained models", ICLR 2024.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> CPP(n_clusters=3, random_state=0).fit(X).n_clusters_
    3
    """

    published: ClassVar[dict[str, Any]] = {
        "stage2.lr": 1e-4,
        "stage2.weight_decay": 1e-4,
        "stage2.epochs": 15,
    }
    # c and -c are one code, but the features of stage 1 know signs.
    adapted: ClassVar[dict[str, Any]] = {"stage2.join": "codes"}
    absolute: ClassVar[bool] = True

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        preset: str = "auto",
        dim: int | None = None,
        backbone: str | None = None,
        pretrain_epochs: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        eta: float | None = None,
        eps_sq: float | None = None,
        penalty: float = 0.05,
        settings: dict[str, Any] | None = None,
        device: str = "auto",
        precision: str = "32-true",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.dim = dim
        self.backbone = backbone
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.eta = eta
        self.eps_sq = eps_sq
        self.penalty = penalty
        self.settings = settings
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose

    def _check(self) -> None:
        super()._check()
        check_positive(self, "penalty", zero=True)

    def _terms(self, Z: Tensor, C: Tensor, config: Stage2Config) -> Terms:
        Gamma = doubly_stochastic((C @ C.mT).abs(), config.eta, tol=config.tol).Gamma.mean(0)
        rates = rate_reduction(Z, Gamma, config.eps_sq)
        loss = -rates.delta + 0.5 * self.penalty * Gamma.square().sum()
        return Terms(loss, rates.R, rates.R_c, Z)
