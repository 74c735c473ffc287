"""Γ in products, its scaling and its spectrum, against float64 and SciPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.exceptions import NotConvergedWarning
from unbend.functional import doubly_stochastic
from unbend.labels.eigen import leading_eigenpairs
from unbend.labels.kernel import BlockKernel, DenseKernel, similarity_kernel
from unbend.labels.scaling import flat_start, symmetric_scaling
from unbend.labels.spectral import Membership, spectral_embedding


def codes(n: int, k: int = 4, dtype: torch.dtype = torch.float64, **options: float) -> torch.Tensor:
    C = torch.from_numpy(union_of_subspaces(n, k, d=24, dim=3, **options).C).to(dtype)
    return torch.nn.functional.normalize(C, dim=1)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("block_size", [7, 64, 1000])
def test_blocks_multiply_like_the_stored_kernel(absolute: bool, block_size: int) -> None:
    C = codes(150)
    X = torch.randn(150, 3, dtype=C.dtype, generator=torch.Generator().manual_seed(0))
    S = C @ C.T
    expected = torch.exp(((S.abs() if absolute else S) - 1) / 0.2) @ X
    blocks = BlockKernel(C, 0.2, absolute, block_size).apply(X)
    torch.testing.assert_close(blocks, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(DenseKernel(C, 0.2, absolute).apply(X), expected)


@pytest.mark.parametrize("eta", [0.05, 0.175, 1.0])
def test_scaling_is_the_doubly_stochastic_projection(eta: float) -> None:
    C = codes(120)
    kernel = DenseKernel(C, eta)
    scaling = symmetric_scaling(kernel.apply, flat_start(kernel.apply, C, 120), tol=1e-12)
    reference = doubly_stochastic(C @ C.T, eta, tol=1e-12, max_iter=1000)
    u = scaling.potential(eta)
    torch.testing.assert_close(u, reference.potential, rtol=0, atol=1e-10)
    Gamma = torch.exp((C @ C.T + u + u[:, None]) / eta)
    torch.testing.assert_close(Gamma, reference.Gamma, rtol=1e-9, atol=1e-12)


def test_scaling_error_shrinks_at_least_threefold_per_step() -> None:
    """The promise behind the step of 2/3 (Γ is positive semi-definite here)."""
    C = codes(200, imbalance=20.0)
    kernel, errors = DenseKernel(C, 0.175), []
    symmetric_scaling(
        kernel.apply,
        flat_start(kernel.apply, C, 200),
        tol=1e-10,
        progress=lambda tick: errors.append(tick.values["marginal_error"]),
    )
    # The largest entry alternates between samples, so the rate is taken over all steps but
    # the non-linear first ones.
    rate = (errors[-1] / errors[2]) ** (1 / (len(errors) - 3))
    assert rate < 1 / 3


def test_weights_equal_repeated_samples() -> None:
    C = codes(40)
    repeats = torch.arange(40) % 3 + 1
    kernel = DenseKernel(C.repeat_interleave(repeats, 0), 0.175)
    start = flat_start(kernel.apply, C, kernel.n)
    long = symmetric_scaling(kernel.apply, start, tol=1e-12).v
    K = similarity_kernel(C, C, 0.175)
    short = symmetric_scaling(
        K.matmul, torch.ones(40).double(), weights=repeats.double(), tol=1e-12
    )
    torch.testing.assert_close(short.v.repeat_interleave(repeats), long, rtol=1e-9, atol=0)


def test_scaling_warns_with_the_number_it_reached() -> None:
    kernel = DenseKernel(codes(50), 0.1)
    with pytest.warns(NotConvergedWarning, match=r"marginal error .* after 2 updates"):
        symmetric_scaling(kernel.apply, torch.ones(50).double(), tol=1e-9, max_iter=2)


def test_eigenpairs_match_scipy() -> None:
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    spectrum = np.concatenate([[1, 0.97, 0.9, 0.9, 0.6], np.linspace(0.5, 0, 295)])
    A = torch.from_numpy((Q * spectrum) @ Q.T)
    start = torch.randn(300, 9, dtype=A.dtype, generator=torch.Generator().manual_seed(0))
    pairs = leading_eigenpairs(A.matmul, start, 5, tol=1e-8)
    np.testing.assert_allclose(pairs.values, spectrum[:5], atol=1e-12)
    projector = Q[:, :5] @ Q[:, :5].T
    np.testing.assert_allclose(pairs.vectors @ pairs.vectors.T, projector, atol=1e-6)


def test_eigenpairs_warn_when_stopped_early() -> None:
    A = torch.diag(torch.linspace(1, 0, 500))
    start = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
    with pytest.warns(NotConvergedWarning, match="residual"):
        leading_eigenpairs(A.matmul, start, 5, max_iter=2)


@pytest.mark.parametrize("kind", [DenseKernel, BlockKernel])
def test_embedding_of_many_codes_is_exact(kind: type) -> None:
    C = codes(1500, k=6, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        membership, pairs = spectral_embedding(
            C, kind(C, 0.175), 6, eta=0.175, absolute=False, tol=1e-5, seed=0
        )
    Gamma = doubly_stochastic((C @ C.T).double(), 0.175, tol=1e-10).Gamma.numpy()
    values, vectors = scipy.linalg.eigh(Gamma, subset_by_index=(1493, 1499))
    np.testing.assert_allclose(pairs.values[:6], values[:0:-1], atol=1e-4)
    assert pairs.values[6] == pytest.approx(values[0], abs=0.01)  # stopped early, on purpose
    ours = pairs.vectors[:, :6].double().numpy()
    overlap = np.linalg.svd(vectors[:, 1:].T @ ours, compute_uv=False)
    assert overlap.min() > 1 - 1e-4
    ones = torch.ones(1500, 1)
    torch.testing.assert_close(membership.apply(ones), ones, rtol=0, atol=2e-5)


@pytest.mark.parametrize("block_size", [7, 64, 1024])
def test_stored_membership_is_the_projection(block_size: int) -> None:
    """Put together from blocks, against the dense projection of all codes."""
    C = codes(60)
    kernel = BlockKernel(C, 0.2, block_size=block_size)
    found = Membership.of(kernel, flat_start(kernel.apply, C, 60), 1e-10).dense()
    expected = doubly_stochastic(C @ C.T, 0.2, tol=1e-10).Gamma
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)
    assert torch.equal(found, found.T)
