"""PRO-DSC: deep self-expression without collapse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbend.baselines.codes import CodePeer, K
from unbend.baselines.registry import peer
from unbend.functional import coding_rate
from unbend.knobs import Stage2Config
from unbend.rules import NOT_NEGATIVE
from unbend.training import Terms

__all__ = ["PRODSC", "prodsc_objective", "self_expression"]


def self_expression(C: Tensor, eta: float) -> Tensor:
    """Coefficients A (n, n): the row softmax of C Cᵀ/η, symmetrised, with a zero diagonal.

    ``C`` (..., n, d) are codes on the unit sphere.
    """
    A = (C @ C.mT / eta).softmax(-1)
    A = (A + A.mT) / 2
    return A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))


def prodsc_objective(
    Z: Tensor, A: Tensor, k: int, *, eps_sq: float, gamma: float, beta: float
) -> tuple[Tensor, Tensor]:
    """Loss of PRO-DSC, and R.

    -R(Z) + γ/2 ‖Z - A Z‖²_F / n + β tr(L W)/n with the Laplacian L = Diag(A1) - A and W the
    projector on its k smallest eigenvectors, held constant. This is exact: the gradient of the
    sum of the k smallest eigenvalues is W (Ky Fan).
    """
    n = len(Z)
    R = coding_rate(Z, eps_sq)
    expression = (Z - A @ Z).square().sum() / (2 * n)
    L = torch.diag(A.sum(1)) - A
    with torch.no_grad():
        vectors = torch.linalg.eigh(L.double())[1][:, : min(k, n)].to(L)
    blocks = (vectors * (L @ vectors)).sum() / n
    return -R + gamma * expression + beta * blocks, R


@peer("pro-dsc", "deep self-expression without collapse", year=2025, takes="images")
@dataclass(eq=False, repr=False, kw_only=True)
class PRODSC(CodePeer):
    r"""Principled fRamewOrk for Deep Subspace Clustering (Meng et al. [1]_).

    Each feature is a combination of the others, as in subspace clustering. The coding rate
    prevents collapse, and a penalty pulls the graph of coefficients towards k components,

    .. math:: \min_\theta -R(Z; \epsilon) + \frac{\gamma}{2n} \lVert Z - A Z \rVert_F^2
              + \frac{\beta}{n} \mathrm{tr}(L W)

    with A the symmetrised row softmax of C Cᵀ/η without its diagonal, L its Laplacian and W the
    projector on the k smallest eigenvectors of L.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    preset : {"auto", "images", "vectors", "paper"}, default="auto"
        The source of all settings that are not given, as in MLC.
    dim, backbone, pretrain_epochs, epochs, batch_size, eta, eps_sq : optional
        As in MLC.
    gamma, beta : float, default=300 and 600
        Weights of self-expression and of the k components; the published ones for CIFAR-10.
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
    Differences from the published program: the networks, views and stage 1 are MLC's; stage 1
    replaces the 200 warm-up steps on R alone. A is the mean over views. Labels come from spectral
    clustering of the doubly stochastic membership of the codes, the limit of repeatedly
    normalising A, because it scales to many samples and supports ``predict``. The preset
    ``"paper"`` uses SGD with the published 10 epochs at 1e-4; the presets for small data use
    MLC's stage 2. Published weights, rates and warm-ups differ from one data set to the next, and
    the original logs the best of ten runs of k-means by the true labels beside their mean; here
    there is one setting, and labels see no truth.

    References
    ----------
    .. [1] X. Meng, Z. Huang, W. He, X. Qi, R. Xiao, C.-G. Li, "Exploring a principled framework
       for deep subspace clustering", ICLR 2025.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> PRODSC(n_clusters=3, random_state=0).fit(X).n_clusters_
    3
    """

    gamma: float = 300.0
    beta: float = 600.0

    published: ClassVar[dict[str, Any]] = {"stage2.lr": 1e-4, "stage2.epochs": 10}
    rules: ClassVar[dict[str, Any]] = {
        "n_clusters": K,
        "gamma": NOT_NEGATIVE,
        "beta": NOT_NEGATIVE,
    }

    def objective(
        self, Z: Tensor, C: Tensor, config: Stage2Config, generator: torch.Generator
    ) -> Terms:
        """:func:`prodsc_objective` of the joined views."""
        Z, A = normalize(Z.mean(0), dim=1), self_expression(C, float(config.eta)).mean(0)
        loss, R = prodsc_objective(
            Z, A, self.n_clusters, eps_sq=config.eps_sq, gamma=self.gamma, beta=self.beta
        )
        return Terms(loss, R, None, Z)
