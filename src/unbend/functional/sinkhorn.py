"""The doubly stochastic projection P_{Ω,η} of the paper, by a symmetric Sinkhorn iteration."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unbend.exceptions import NotConvergedWarning
from unbend.functional.checks import (
    check_count,
    check_positive,
    check_tensor,
    first_order_only,
    full_precision,
    working_dtype,
)
from unbend.functional.conjugate_gradient import matvec, solve_one_plus

__all__ = ["DoublyStochastic", "doubly_stochastic"]

# Row sums outside of [this, 1/this] are first repaired in the log domain. Inside, scalings of one
# stored kernel cannot overflow, and what underflowed in the kernel is below rounding.
SMALLEST_SUM = 1e-8
# A scaling beyond exp(this) would lift underflowed entries of a float32 kernel above rounding.
LARGEST_DRIFT = 30.0
# Near the solution, plain averaging gains one bit per update. Where I + Γ has its spectrum in
# [1, 2], the two constants of the second-order Richardson iteration gain 2.5 bits.
NEAR_LOG_SUM = 0.5
RICHARDSON_STEP = 4 / (1 + 2**0.5) ** 2
RICHARDSON_MOMENTUM = ((2**0.5 - 1) / (2**0.5 + 1)) ** 2


@dataclass(frozen=True)
class DoublyStochastic:
    """A projected matrix, and how accurate the projection is.

    Attributes
    ----------
    Gamma : Tensor of shape (..., n, n)
        The membership Γ; the only attribute through which gradients flow.
    potential : Tensor of shape (..., n)
        The u of Γ = exp((S + u1ᵀ + 1uᵀ)/η), detached; a warm start for a similar S.
    n_iter : int
        Number of updates of the potential.
    marginal_error : float
        Largest distance of a row sum of Γ from one.
    converged : bool
        Whether ``marginal_error`` is within the tolerance.
    """

    Gamma: Tensor
    potential: Tensor
    n_iter: int
    marginal_error: float
    converged: bool


def doubly_stochastic(
    S: Tensor,
    eta: float,
    tol: float = 1e-5,
    max_iter: int = 1000,
    potential: Tensor | None = None,
) -> DoublyStochastic:
    r"""Project a symmetric similarity onto the doubly stochastic matrices.

    .. math:: P_{\Omega,\eta}(S) = \arg\max_{\Gamma \in \Omega}\;
              \langle S, \Gamma\rangle - \eta \sum_{ij} \Gamma_{ij} \log \Gamma_{ij}
              = \exp\bigl((S + u 1^\top + 1 u^\top) / \eta\bigr)

    where u is such that rows, and by symmetry columns, sum to one. The paper applies it to
    S = CCᵀ with η = 0.175.

    Parameters
    ----------
    S : Tensor of shape (..., n, n)
        Symmetric similarities; leading axes, such as the views, are a batch.
    eta : float
        Entropy weight η > 0: small values make Γ sparse, large values make it flat.
    tol : float, default=1e-5
        Largest accepted distance of a row sum from one.
    max_iter : int, default=1000
        Largest number of updates; reaching it gives a :class:`NotConvergedWarning`.
    potential : Tensor of shape (..., n), optional
        Start from this u, for instance that of an earlier step of training.

    Returns
    -------
    DoublyStochastic

    Notes
    -----
    The update is the averaged one, u ← (u − η log-row-sum)/2, which converges where plain
    alternation would swing between two potentials, and whose rate does not depend on η for
    positive semi-definite exp(S/η) (any S = CCᵀ). After the first row sums are in range the
    same update is done on a = exp(Δu/η) with one stored kernel, a ← a (a∘Ka)^(−1/2), which
    costs a matrix-vector product instead of n² exponentials, and is accelerated near the end.

    The gradient is implicit: with G = ∂L/∂Γ and H = G∘Γ,

    .. math:: \frac{\partial L}{\partial S} = \Gamma \circ (G - w 1^\top) / \eta,
              \qquad (I + \Gamma) w = H 1 + H^\top 1,

    solved by conjugate gradients. Only Γ is stored for it. There is no second derivative.

    Examples
    --------
    >>> result = doubly_stochastic(torch.eye(2, dtype=torch.float64), eta=1.0, tol=1e-9)
    >>> result.Gamma  # e/(1 + e) on the diagonal
    tensor([[0.7311, 0.2689],
            [0.2689, 0.7311]], dtype=torch.float64)
    >>> result.converged
    True
    """
    check_tensor(S, "S", "doubly_stochastic", "n, n", batched=True)
    eta = check_positive(eta, "eta", "doubly_stochastic", 0.1)
    tol = check_positive(tol, "tol", "doubly_stochastic", 1e-5)
    max_iter = check_count(max_iter, "max_iter", "doubly_stochastic", 1000)
    S = S.to(working_dtype(S))
    with torch.no_grad(), full_precision(S):
        _check_similarity(S, eta)
        start = _check_potential(potential, S)
        kernel, u, n_iter, error = _solve(S.detach(), eta, tol, max_iter, start)
    Gamma: Tensor = _Attach.apply(S, kernel, eta)  # type: ignore[no-untyped-call]
    if not error <= tol:
        warnings.warn(
            f"doubly_stochastic: marginal error {error:.1e} after {n_iter} updates, above "
            f"tol={tol:g}; try a larger max_iter, eta or tol",
            NotConvergedWarning,
            stacklevel=2,
        )
    return DoublyStochastic(Gamma, u, n_iter, error, error <= tol)


def _solve(
    S: Tensor, eta: float, tol: float, max_iter: int, start: Tensor | None
) -> tuple[Tensor, Tensor, int, float]:
    """Return Γ, u, the number of updates and the marginal error."""
    # With u = -max/2 no entry exceeds 1, whatever S; for unit-norm codes row sums are >= 1.
    u = S.amax(-1) / -2 if start is None else start
    n_iter = 0
    while True:
        kernel = _kernel(S, u, eta)
        row_sum = kernel.sum(-1)
        if n_iter < max_iter and not _in_range(row_sum):
            # After one averaged update in the log domain no entry exceeds 1, and each further
            # one halves the spread of the logarithms.
            u = u - (eta / 2) * _exponent(S, u, eta).logsumexp(-1)
            n_iter += 1
            continue
        x, error, n_iter = _scale(kernel, row_sum, tol, max_iter, n_iter)
        u = u + eta * x
        if error <= tol or n_iter >= max_iter:
            a = x.exp()
            return kernel.mul_(a.unsqueeze(-1)).mul_(a.unsqueeze(-2)), u, n_iter, error


def _exponent(S: Tensor, u: Tensor, eta: float) -> Tensor:
    # Sums before the division: huge similarities and potentials cancel exactly.
    return (S + u.unsqueeze(-1)).add_(u.unsqueeze(-2)).div_(eta)


def _kernel(S: Tensor, u: Tensor, eta: float) -> Tensor:
    """Return exp((S + u1ᵀ + 1uᵀ)/η)."""
    return _exponent(S, u, eta).exp_()


def _in_range(row_sum: Tensor) -> bool:
    low, high = torch.aminmax(row_sum)
    return float(low) >= SMALLEST_SUM and float(high) <= 1 / SMALLEST_SUM


def _scale(
    kernel: Tensor, row_sum: Tensor, tol: float, max_iter: int, n_iter: int
) -> tuple[Tensor, float, int]:
    """Find x with exp(x)∘(K exp(x)) = 1 within ``tol``; return x, the error and n_iter.

    Starts at x = 0, where the left side is the ``row_sum`` of K. Returns early when x has drifted
    so far that the kernel should be computed again.
    """
    x = torch.zeros_like(row_sum)
    previous = x
    while True:
        log_sum = row_sum.log()
        sizes = torch.stack([t.abs().max() for t in (row_sum - 1, log_sum, x)])
        error, distance, drift = sizes.tolist()  # one transfer from the device
        if error <= tol or n_iter >= max_iter or drift > LARGEST_DRIFT:
            return x, error, n_iter
        if distance > NEAR_LOG_SUM:
            x, previous = x - log_sum / 2, x
        else:
            moved = x - previous
            x, previous = x - RICHARDSON_STEP * log_sum + RICHARDSON_MOMENTUM * moved, x
        n_iter += 1
        a = x.exp()
        row_sum = a * matvec(kernel, a)


class _Attach(torch.autograd.Function):
    """Insert the finished Γ into the autograd graph."""

    @staticmethod
    def forward(ctx: Any, S: Tensor, Gamma: Tensor, eta: float) -> Tensor:
        ctx.save_for_backward(S, Gamma)
        ctx.eta = eta
        return Gamma

    @staticmethod
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, None, None]:
        S, Gamma = ctx.saved_tensors
        with torch.no_grad(), full_precision(Gamma):
            # Everything is linear in H, so dividing H by η needs no separate pass.
            H = torch.addcmul(G.new_zeros(()), G, Gamma, value=1 / ctx.eta)
            tol = 8 * torch.finfo(Gamma.dtype).eps
            w, residual = solve_one_plus(Gamma, H.sum(-1) + H.sum(-2), tol, max_iter=100)
            gradient = H.addcmul_(Gamma, w.unsqueeze(-1), value=-1)
        if not residual <= 1e-3:
            warnings.warn(
                f"the gradient of doubly_stochastic has relative residual {residual:.1e}; "
                "try a larger eta",
                NotConvergedWarning,
                stacklevel=2,
            )
        return first_order_only("doubly_stochastic", gradient, S), None, None


def _check_similarity(S: Tensor, eta: float) -> None:
    """Raise unless S is square, finite and symmetric, and S/η does not overflow."""
    if S.shape[-1] != S.shape[-2]:
        raise ValueError(
            f"`S` of doubly_stochastic must be square, got shape {tuple(S.shape)}; try C @ C.mT"
        )
    low, high = torch.aminmax(S)
    size = max(abs(float(low)), abs(float(high)))
    if not size / eta < torch.finfo(S.dtype).max / 8:  # also catches NaN
        raise ValueError(
            f"`S` of doubly_stochastic must be finite with S/eta below overflow, got entries "
            f"from {float(low):g} to {float(high):g} with eta={eta:g}; try unit-norm codes"
        )
    # Multiplying a fixed vector from both sides detects asymmetry at a tenth of the cost of
    # comparing all entries. The margin allows for rounding.
    n = S.shape[-1]
    probe = torch.linspace(1, 2, n, dtype=S.dtype, device=S.device) / max(size, 1e-30)
    gap = float((S @ probe - S.mT @ probe).abs().max())
    if gap > 1e-3 * n**0.5:
        raise ValueError(
            f"`S` of doubly_stochastic must be symmetric, got a matrix that differs from its "
            f"transpose by about {gap * size:.1e}; try (S + S.mT) / 2"
        )


def _check_potential(potential: Tensor | None, S: Tensor) -> Tensor | None:
    """Return the warm start in the dtype of S, or raise if it does not fit."""
    if potential is None:
        return None
    if not isinstance(potential, Tensor) or potential.shape != S.shape[:-1]:
        got = tuple(potential.shape) if isinstance(potential, Tensor) else type(potential).__name__
        raise ValueError(
            f"`potential` of doubly_stochastic must have shape {tuple(S.shape[:-1])}, got {got}; "
            "try the potential of an earlier result"
        )
    if not bool(potential.isfinite().all()):
        raise ValueError(
            "`potential` of doubly_stochastic must be finite, got NaN or infinity; try None"
        )
    return potential.detach().to(S)
