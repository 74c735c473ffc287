"""Symmetric Sinkhorn scaling of a kernel, given only its products with vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.exceptions import NotConvergedWarning
from unbend.progress import Progress, Tick, silent

__all__ = ["SinkhornScaling", "symmetric_scaling"]

# The error of log v shrinks by 1 − θ(1 + λ) along an eigenvector of Γ with eigenvalue λ. With
# λ in [0, 1] (exp of a Gram matrix is positive semi-definite) θ = 2/3 gives at worst 1/3 per
# step, where the usual average θ = 1/2 gives 1/2. It converges for every λ in (−1, 1].
_STEP = 2.0 / 3.0


@dataclass(frozen=True)
class SinkhornScaling:
    """Positive v with v ∘ (K (a ∘ v)) = 1, and the error that is left."""

    v: Tensor
    n_iter: int
    marginal_error: float
    converged: bool

    def potential(self, eta: float) -> Tensor:
        """The potential u of Γ = exp((S + u1ᵀ + 1uᵀ)/η) for a kernel exp((S − 1)/η)."""
        return eta * self.v.log() - 0.5


def symmetric_scaling(
    apply: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    weights: Tensor | None = None,
    tol: float = 1e-4,
    max_iter: int = 200,
    progress: Progress = silent,
) -> SinkhornScaling:
    r"""Find v such that :math:`\Gamma = \mathrm{Diag}(v) K \mathrm{Diag}(v)` has unit row sums.

    With one symmetric kernel one vector suffices, and Γ is doubly stochastic. The update is
    :math:`\log v \leftarrow \log v - \tfrac23 \log(v \circ K (a \circ v))`.

    Parameters
    ----------
    apply : callable
        The product ``X -> K X`` for X of shape (n, 1).
    start : Tensor of shape (n,)
        First v, positive.
    weights : Tensor of shape (n,), optional
        Masses a of the samples, all ones by default. Γ is doubly stochastic with respect to a.
        Landmarks use this because each represents many samples.
    tol : float
        Largest accepted deviation of a row sum from one.
    max_iter : int
        Largest number of products with K.
    progress : callable
        Receives one tick of stage ``"sinkhorn"`` per update.

    Examples
    --------
    >>> K = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    >>> v = symmetric_scaling(lambda X: K @ X, torch.ones(2)).v
    >>> bool(torch.allclose(v * (K @ v), torch.ones(2), atol=1e-4))
    True
    """
    v, error, n_iter = start, float("inf"), 0
    for n_iter in range(1, max_iter + 1):
        weighted = v if weights is None else v * weights
        sums = v * apply(weighted[:, None])[:, 0]
        error = float((sums - 1).abs().max())
        progress(Tick("sinkhorn", n_iter, max_iter, {"marginal_error": error}))
        if error <= tol:
            break
        v = v * sums.pow(-_STEP)
    if error > tol:
        message = f"membership: marginal error {error:.2e} after {n_iter} updates, wanted {tol:.0e}"
        warnings.warn(message, NotConvergedWarning, stacklevel=2)
    return SinkhornScaling(v, n_iter, error, error <= tol)


def flat_start(apply: Callable[[Tensor], Tensor], like: Tensor, n: int) -> Tensor:
    """An initial v that is exact if all row sums of the kernel are equal."""
    ones = torch.ones(n, 1, dtype=like.dtype, device=like.device)
    return apply(ones)[:, 0].rsqrt()
