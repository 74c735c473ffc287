"""Landmarks that represent many samples, and the spectrum of Γ approximated by them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.functional.spectrum import eigh
from unbend.labels.eigen import Eigenpairs, leading_eigenpairs
from unbend.labels.kernel import row_blocks, similarity_kernel
from unbend.labels.scaling import flat_start, symmetric_scaling
from unbend.progress import Progress, Tick, silent

__all__ = ["Landmarks", "choose_landmarks", "landmark_spectrum"]

# Samples per landmark used to place the landmarks and to estimate the m × m Gram matrix. Both
# are means over samples, so their error depends on the sample size, not on n.
_PLACEMENT_ROWS = 32
_GRAM_ROWS = 16
_MOST_ROWS = 2**16  # for either; work grows with rows times landmarks times width
_PLACEMENT_STEPS = 8
_MANY = 2048  # landmarks: beyond, half the steps place them as well, and each is expensive
_SEEDING_ROUNDS = 16


@dataclass(frozen=True)
class Landmarks:
    """Unit codes (m, d) and the share of the samples (m,) that each stands for."""

    codes: Tensor
    mass: Tensor

    def potential(self, eta: float, absolute: bool, tol: float) -> Tensor:
        """u_j + η ln(mass_j) such that the membership among landmarks is doubly stochastic."""
        K = similarity_kernel(self.codes, self.codes, eta, absolute)
        mass = self.mass[:, None]
        start = flat_start(lambda X: K @ (mass * X), K, K.shape[0])
        scaling = symmetric_scaling(K.matmul, start, weights=self.mass, tol=tol)
        return scaling.potential(eta) + eta * self.mass.log()


def sample_rows(C: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Up to ``size`` rows of C without repetition, in random order."""
    chosen = torch.randperm(C.shape[0], generator=generator)[:size]
    return C[chosen.to(C.device)]


def choose_landmarks(
    C: Tensor, m: int, seed: int, absolute: bool = False, progress: Progress = silent
) -> Landmarks:
    """Place m landmarks by spherical k-means on a random sample of the codes.

    The initial landmarks are drawn in rounds, with probability proportional to the squared
    distance to the landmarks already drawn, so that small distant clusters get landmarks too.

    Parameters
    ----------
    C : Tensor of shape (n, d)
        Codes on the sphere.
    m : int
        Number of landmarks; fewer are returned if the codes have fewer distinct values.
    seed : int
        Seed of the sample and the start.
    absolute : bool
        Treat c and −c as the same code.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = sample_rows(C, min(_PLACEMENT_ROWS * m, _MOST_ROWS), generator)
    codes = _spread_start(rows, m, absolute, generator)
    steps = _PLACEMENT_STEPS if m <= _MANY else _PLACEMENT_STEPS // 2
    for step in range(steps):
        codes, counts = _lloyd_step(rows, codes, absolute)
        progress(Tick("landmarks", step + 1, steps))
    return Landmarks(codes, counts / counts.sum())


def _similarity(A: Tensor, B: Tensor, absolute: bool) -> Tensor:
    S = A @ B.T
    return S.abs_() if absolute else S


def _spread_start(rows: Tensor, m: int, absolute: bool, generator: torch.Generator) -> Tensor:
    """Draw m rows in rounds, with probability by squared distance to the rows already drawn."""
    chosen = torch.zeros(1, dtype=torch.int64)
    distance = 1 - _similarity(rows, rows[:1], absolute)[:, 0]
    per_round = -(-m // _SEEDING_ROUNDS)
    while chosen.numel() < min(m, rows.shape[0]):
        size = min(per_round, m - chosen.numel())
        chance = distance.clamp_min(0).cpu()
        size = min(size, int((chance > 1e-6).sum()))
        if size == 0:  # every row is a copy of a chosen one
            break
        fresh = torch.multinomial(chance, size, generator=generator)
        chosen = torch.cat([chosen, fresh])
        for block in row_blocks(rows.shape[0], size):
            near = _similarity(rows[block], rows[fresh.to(rows.device)], absolute).amax(1)
            distance[block] = torch.minimum(distance[block], 1 - near)
    return rows[chosen.to(rows.device)]


def _lloyd_step(rows: Tensor, codes: Tensor, absolute: bool) -> tuple[Tensor, Tensor]:
    """One step of spherical k-means; landmarks without rows are dropped."""
    sums = torch.zeros_like(codes)
    counts = codes.new_zeros(codes.shape[0])
    for block in row_blocks(rows.shape[0], codes.shape[0]):
        S = rows[block] @ codes.T
        nearest = (S.abs() if absolute else S).argmax(1)
        part = rows[block]
        if absolute:
            part = part * torch.where(S.gather(1, nearest[:, None]) < 0, -1.0, 1.0).to(part)
        sums.index_add_(0, nearest, part)
        counts += torch.bincount(nearest, minlength=codes.shape[0])
    alive = (counts > 0) & (torch.linalg.vector_norm(sums, dim=1) > 1e-6 * counts)
    return torch.nn.functional.normalize(sums[alive], dim=1), counts[alive]


def landmark_spectrum(
    C: Tensor,
    landmarks: Landmarks,
    potential: Tensor,
    k: int,
    *,
    eta: float,
    absolute: bool,
    seed: int,
    progress: Progress = silent,
) -> Eigenpairs:
    r"""Leading spectrum of Γ, approximated by landmarks.

    Let P (n, m) hold the membership of each sample over the landmarks, with rows that sum to
    one, and Λ its column sums. :math:`P Λ^{-1} P^⊤` is doubly stochastic and positive
    semi-definite. It is two steps of the random walk Γ, sample → landmark → sample, so the
    singular values of :math:`P Λ^{-1/2} = U Σ V^⊤` approximate the eigenvalues of Γ, and U its
    eigenvectors. :math:`U = P (Λ^{-1/2} V) Σ^{-1}` averages the rows of :math:`Λ^{-1/2} V` over
    the landmarks of a sample. Therefore these m rows are the embedding that is clustered;
    samples get their labels from their membership. V comes from the m × m Gram matrix, estimated
    from up to 16 m random samples. Nothing of size n × m is stored.

    Returns
    -------
    Eigenpairs
        The k + 1 leading entries of Σ, and the rows of Λ^{-1/2} V as ``vectors`` (m, k + 1).
    """
    generator = torch.Generator().manual_seed(seed + 1)
    m = landmarks.codes.shape[0]
    rows = sample_rows(C, min(_GRAM_ROWS * m, _MOST_ROWS), generator)
    gram, mass = C.new_zeros(m, m), C.new_zeros(m)
    blocks = list(row_blocks(rows.shape[0], m))
    for step, block in enumerate(blocks):
        S = _similarity(rows[block], landmarks.codes, absolute)
        P = S.add_(potential).div_(eta).softmax(1)
        gram.addmm_(P.T, P)
        mass += P.sum(0)
        progress(Tick("landmark membership", step + 1, len(blocks)))
    scale = mass.clamp_min(torch.finfo(mass.dtype).tiny).rsqrt()
    gram.mul_(scale[:, None]).mul_(scale)
    p = min(k + 1, m)
    b = min(m, p + max(4, p // 4))
    if m <= 4 * b:
        values, vectors = eigh(gram)
        values, vectors, residual = values[-p:].flip(0), vectors[:, -p:].flip(1), 0.0
    else:
        start = torch.randn(m, b, generator=generator).to(gram)
        pairs = leading_eigenpairs(gram.matmul, start, p, n_exact=k, progress=progress)
        values, vectors, residual = pairs.values, pairs.vectors, pairs.residual
    return Eigenpairs(values.clamp_min(0).sqrt(), scale[:, None] * vectors, residual)
