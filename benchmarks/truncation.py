"""Whether R_c can be had for less than three full products: keep the m largest entries of columns.

After some steps of stage 2 most entries of a column of Γ are tiny. With the m largest of each
column and the mean of the others in their place, M_j = I + a Σ_i Γ_ij z_i z_iᵀ needs m products
instead of n:

    M_j ≈ I + a (t_j G + Σ_{i in top} (Γ_ij - t_j) z_i z_iᵀ),  G = ZᵀZ, a = d/ε²

Every column still has a matrix of its own, and gathering its m rows of Z costs memory traffic that
a product with all rows does not. This prints, for Γ at several sharpnesses: the mass outside the
top m, the relative error of R_c, a bound on it, the relative error of its gradient by Z, and the
time beside the exact ``compressed_rate``.

The bound: log det is concave with gradient M⁻¹ ≤ I, so |Δ log det| ≤ a Σ_i |ΔΓ_ij| |z_i|², which
is a times the absolute error of a column; R_c is the mean over columns.

Run ``python -m benchmarks.truncation [--n 1024] [--dim 128]``.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor

from benchmarks.harness import time_in_turns
from benchmarks.objective import EPS_SQ, codes
from unbend.functional import compressed_rate, doubly_stochastic


def truncated_rate(Z: Tensor, Gamma: Tensor, eps_sq: float, m: int) -> Tensor:
    """R_c with all but the m largest entries of each column replaced by their mean."""
    n, d = Z.shape
    values, rows = Gamma.T.topk(m, dim=1)
    tail = (Gamma.sum(0) - values.sum(1)) / max(1, n - m)
    near = Z[rows]  # (n, m, d)
    weighted = near * (values - tail[:, None])[..., None]
    M = torch.baddbmm(tail[:, None, None] * (Z.T @ Z), near.mT, weighted) * (d / eps_sq)
    M = M + torch.eye(d)
    return 2 * torch.linalg.cholesky(M).diagonal(dim1=1, dim2=2).log().sum(1).mean()


def bound_of(Gamma: Tensor, dim: int, eps_sq: float, m: int) -> float:
    """The bound on the error of R_c, in nats."""
    values, rows = Gamma.T.topk(m, dim=1)
    tail = (Gamma.sum(0) - values.sum(1)) / max(1, len(Gamma) - m)
    rest = Gamma.T.scatter(1, rows, tail[:, None].expand(-1, m))
    return float(dim / eps_sq * (rest - tail[:, None]).abs().sum(1).mean())


def gradient(rate: Tensor, Z: Tensor) -> Tensor:
    """Of a rate by Z."""
    (found,) = torch.autograd.grad(rate, Z)
    return found


def main() -> int:
    """Print a row per sharpness and m."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"n = {options.n}, d = {options.dim}; times are processor seconds with the gradient")
    for noise, eta in ((0.5, 0.175), (0.2, 0.1), (0.1, 0.05)):
        Z = codes(options.n, options.dim, noise)
        Gamma = doubly_stochastic(Z @ Z.T, eta).Gamma
        Z.requires_grad_()
        exact = compressed_rate(Z, Gamma, EPS_SQ)
        slope, exact = gradient(exact, Z), exact.detach()
        for m in (options.n // 16, options.n // 8, options.n // 4):
            found = truncated_rate(Z, Gamma, EPS_SQ, m)
            outside = 1 - float(Gamma.topk(m, dim=0).values.sum() / Gamma.sum())
            seconds = time_in_turns(
                {
                    "exact": lambda Z=Z, G=Gamma: gradient(compressed_rate(Z, G, EPS_SQ), Z),
                    "top": lambda Z=Z, G=Gamma, m=m: gradient(truncated_rate(Z, G, EPS_SQ, m), Z),
                },
                options.rounds,
                clock=time.process_time,
            )
            wrong = float((gradient(found, Z) - slope).norm() / slope.norm())
            found = found.detach()
            print(
                f"eta {eta:<6} m {m:<5} mass outside {outside:.3f}  "
                f"R_c {float(exact):.2f}  error {abs(float(found - exact)) / float(exact):.1e}  "
                f"bound {bound_of(Gamma, options.dim, EPS_SQ, m) / float(exact):.1e}  "
                f"gradient {wrong:.1e}  exact {seconds['exact']:.2f} s  top {seconds['top']:.2f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
