"""CPP: MLC for features of large pre-trained encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbend.baselines.codes import CodePeer, K
from unbend.baselines.registry import peer
from unbend.functional import doubly_stochastic, rate_reduction
from unbend.knobs import Stage2Config
from unbend.rules import NOT_NEGATIVE
from unbend.training import Terms

__all__ = ["CPP"]


@peer("cpp", "MLC's successor for strong encoders", year=2024, takes="images")
@dataclass(eq=False, repr=False, kw_only=True)
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
        The source of all settings that are not given, as in MLC.
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
    Differences from the published program: the networks, views and stage 1 are MLC's. Stage 1
    replaces the 50 warm-up steps on R alone, which need an encoder as strong as CLIP. Γ is the
    exact projection with its exact gradient, not five half-steps of Sinkhorn with one potential
    held constant. The preset ``"paper"`` uses SGD with the published 15 epochs at 1e-4. That rate
    has no effect in the few steps of the small presets, which use MLC's stage 2 instead.

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

    penalty: float = 0.05

    published: ClassVar[dict[str, Any]] = {
        "stage2.lr": 1e-4,
        "stage2.weight_decay": 1e-4,
        "stage2.epochs": 15,
        "labels.absolute": True,
    }
    # c and -c are the same code here, but the features of stage 1 depend on the sign.
    adapted: ClassVar[dict[str, Any]] = {"labels.join": "codes", "labels.absolute": True}
    rules: ClassVar[dict[str, Any]] = {"n_clusters": K, "penalty": NOT_NEGATIVE}

    def objective(
        self, Z: Tensor, C: Tensor, config: Stage2Config, generator: torch.Generator
    ) -> Terms:
        """The formula above, with the views joined as in MLC."""
        Z = normalize(Z.mean(0), dim=1)
        Gamma = doubly_stochastic((C @ C.mT).abs(), float(config.eta), tol=config.tol).Gamma.mean(0)
        rates = rate_reduction(
            Z, Gamma, config.eps_sq, n_anchors=config.n_anchors or None, generator=generator
        )
        loss = -rates.delta + 0.5 * self.penalty * Gamma.square().sum()
        return Terms(loss, rates.R, rates.R_c, Z)
