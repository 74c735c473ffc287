"""Codes and affinities against scikit-learn, closed forms, loops and known subspaces."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet, orthogonal_mp
from sklearn.metrics import adjusted_rand_score
from tests.generators.subspaces import union_of_subspaces

from unbend.baselines import DSSC, LSR, METHODS, SSCOMP, TSC, EnSC
from unbend.baselines.dssc import joint_codes
from unbend.baselines.ensc import elastic_net_codes, elastic_net_weights
from unbend.baselines.lsr import lsr_codes
from unbend.baselines.projection import project_doubly_stochastic
from unbend.baselines.selfexpression import spectral_labels, unit_rows
from unbend.baselines.ssc_omp import omp_codes
from unbend.baselines.tsc import tsc_codes


def subspaces(n=90, k=3, noise=0.0, seed=0, d=20, dim=3):
    """Float64 samples of a union of subspaces, with labels."""
    data = union_of_subspaces(n, k, d=d, dim=dim, noise=noise, seed=seed)
    if noise:
        return unit_rows(data.Z.astype(np.float64)), data.y
    # Exactly in the subspaces, in double precision: single would leave noise of 1e-8.
    bases = np.linalg.qr(data.bases.astype(np.float64).swapaxes(1, 2))[0]
    coefficients = np.random.default_rng(seed).standard_normal((n, dim))
    return unit_rows(np.einsum("idr,ir->id", bases[data.y], coefficients)), data.y


# ---------------------------------------------------------------- known subspaces


@pytest.mark.parametrize(
    "model",
    [
        EnSC(3, random_state=0),
        SSCOMP(3, n_nonzero=3, random_state=0),
        LSR(3, alpha=1e-9, random_state=0),
        LSR(3, alpha=1e-9, zero_diagonal=False, random_state=0),
        DSSC(3, eta1=1e-9, eta2=0.5, random_state=0),
        DSSC(3, eta1=0.1, eta2=0.2, eta3=0.02, random_state=0),
    ],
    ids=repr,
)
def test_independent_subspaces_without_noise_have_no_wrong_connection(model):
    """Zero affinity between subspaces, and every label right."""
    X, y = subspaces()
    model.fit(X)
    W = model.affinity_matrix_
    W = W.toarray() if sp.issparse(W) else W
    wrong = W[y[:, None] != y[None, :]]
    assert wrong.max() <= 1e-6 * W.max()
    assert adjusted_rand_score(y, model.labels_) == 1.0


@pytest.mark.parametrize("name", ["ensc", "ssc-omp", "lsr", "tsc", "a-dssc", "j-dssc"])
def test_noisy_subspaces_are_found_and_scale_and_sign_do_not_matter(name):
    """Subspaces know neither length nor sign, so labels do not either."""
    X, y = subspaces(n=75, noise=0.1, d=40)
    changes = {"ssc-omp": {"n_nonzero": 3}, "j-dssc": {"tol": 1e-3}}.get(name, {})
    first = METHODS[name](3, random_state=0, **changes).fit(X).labels_
    assert adjusted_rand_score(y, first) > 0.95
    factors = np.random.default_rng(0).choice([-3.0, 0.5, 7.0], size=(len(X), 1))
    second = METHODS[name](3, random_state=0, **changes).fit(factors * X).labels_
    assert adjusted_rand_score(first, second) > 0.99


# ---------------------------------------------------------------- elastic net


def _elastic_objective(X, c, j, weight, l1):
    fit = X[j] - c @ X
    return l1 * np.abs(c).sum() + (1 - l1) / 2 * (c @ c) + weight / 2 * (fit @ fit)


@pytest.mark.parametrize(("gamma", "l1"), [(50.0, 0.9), (5.0, 0.5), (500.0, 0.95), (20.0, 0.1)])
def test_elastic_net_matches_scikit_learn(gamma, l1):
    """Codes and objective of every sample equal coordinate descent's."""
    X, _ = subspaces(n=80, noise=0.3, d=12)
    weights = elastic_net_weights(X, gamma, l1)
    C = elastic_net_codes(X, weights, l1).toarray()
    assert np.all(np.diag(C) == 0)
    for j in range(0, 80, 7):
        others = np.delete(np.arange(80), j)
        model = ElasticNet(
            alpha=1 / (weights[j] * 12), l1_ratio=l1, fit_intercept=False, tol=1e-12,
            max_iter=1_000_000,
        )  # fmt: skip
        theirs = np.zeros(80)
        theirs[others] = model.fit(X[others].T, X[j]).coef_
        np.testing.assert_allclose(C[j], theirs, atol=1e-6)
        ours_value = _elastic_objective(X, C[j], j, weights[j], l1)
        their_value = _elastic_objective(X, theirs, j, weights[j], l1)
        assert ours_value <= their_value + 1e-9
        np.testing.assert_allclose(ours_value, their_value, rtol=1e-6)


def test_elastic_net_meets_its_optimality_conditions_with_many_candidates():
    """Far more samples than the first candidates: |x_iᵀδ| <= λ off the support, = on it."""
    X, _ = subspaces(n=600, noise=0.4, d=40)
    weights, rows = elastic_net_weights(X, 50.0, 0.9), np.array([3, 77, 599])
    C = elastic_net_codes(X, weights, 0.9, rows=rows).toarray()
    for c, j in zip(C, rows, strict=True):
        p = X @ (weights[j] * (X[j] - c @ X))
        p[j] = 0
        expected = 0.9 * np.sign(c) + 0.1 * c
        np.testing.assert_allclose(p[c != 0], expected[c != 0], atol=1e-8)
        assert np.abs(p[c == 0]).max() <= 0.9 * (1 + 1e-8)


def test_smallest_weight_is_where_the_code_becomes_zero():
    """γ just below λ / max|x_iᵀx_j| gives nothing, just above gives one entry."""
    X, _ = subspaces(n=30, noise=0.3)
    edge = elastic_net_weights(X, 1.0, 0.9)
    assert elastic_net_codes(X, 0.999 * edge, 0.9).nnz == 0
    counts = np.diff(elastic_net_codes(X, 1.001 * edge, 0.9).indptr)
    assert counts.min() >= 1


# ---------------------------------------------------------------- pursuit, least squares, TSC


@pytest.mark.parametrize("steps", [1, 4, 10])
def test_pursuit_matches_scikit_learn(steps):
    """The same support and coefficients as orthogonal_mp without the sample itself."""
    X, _ = subspaces(n=120, noise=0.4, d=16)
    C = omp_codes(X, steps, 0.0).toarray()
    for j in range(0, 120, 11):
        others = np.delete(np.arange(120), j)
        theirs = np.zeros(120)
        theirs[others] = orthogonal_mp(X[others].T, X[j], n_nonzero_coefs=steps)
        np.testing.assert_allclose(C[j], theirs, atol=1e-10)


def test_pursuit_stops_when_nothing_is_left():
    """A sample in the span of two others takes two, whatever the limit."""
    X = unit_rows(np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 2]]))
    C = omp_codes(X, 4).toarray()
    assert np.count_nonzero(C[2]) == 2
    assert np.flatnonzero(C[3]).tolist() == [4]
    np.testing.assert_allclose(C @ X, X, atol=1e-12)


@pytest.mark.parametrize("n", [15, 60])
def test_least_squares_match_the_closed_form_and_a_ridge_per_sample(n):
    """LSR2 is (XᵀX + αI)⁻¹XᵀX; a row of LSR1 is a ridge regression on the other samples."""
    X, _ = subspaces(n=n, noise=0.3)
    G, alpha = X @ X.T, 0.3
    closed = np.linalg.solve(G + alpha * np.eye(n), G)
    np.testing.assert_allclose(lsr_codes(X, alpha, zero_diagonal=False), closed.T, atol=1e-10)
    C = lsr_codes(X, alpha)
    for j in range(n):
        o = np.delete(np.arange(n), j)
        ridge = np.linalg.solve(G[np.ix_(o, o)] + alpha * np.eye(n - 1), G[o, j])
        np.testing.assert_allclose(C[j, o], ridge, atol=1e-9)
        assert C[j, j] == 0


def test_thresholding_matches_a_loop():
    """q largest |inner products| with weight exp(−2 arccos)."""
    X, _ = subspaces(n=50, noise=0.3)
    found, expected = tsc_codes(X, 4).toarray(), np.zeros((50, 50))
    for j in range(50):
        products = [(abs(float(X[i] @ X[j])), i) for i in range(50) if i != j]
        for product, i in sorted(products, reverse=True)[:4]:
            expected[j, i] = np.exp(-2 * np.arccos(min(product, 1.0)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


# ---------------------------------------------------------------- doubly stochastic


def _dykstra(K, rounds=20000):
    """Projection on the doubly stochastic matrices by Dykstra's alternating projections."""
    n = len(K)
    A, correction = K.copy(), np.zeros_like(K)
    for _ in range(rounds):
        excess = 1 - A.sum(1)  # onto row and column sums of one, a linear set: no correction
        B = A + excess[:, None] / n
        B += (1 - B.sum(0)) / n
        A = np.maximum(B + correction, 0)
        correction = B + correction - A
    return A


@pytest.mark.parametrize("eta", [0.01, 0.3, 5.0])
def test_projection_matches_alternating_projections(eta):
    """The nearest doubly stochastic matrix to K/η, for dense and sparse K."""
    rng = np.random.default_rng(0)
    K = rng.random((25, 25)) * (rng.random((25, 25)) < 0.5)
    expected = _dykstra(K / eta)
    for given in (K, sp.csr_array(K)):
        A = project_doubly_stochastic(given, eta).toarray()
        np.testing.assert_allclose(A.sum(0), 1, atol=1e-7)
        np.testing.assert_allclose(A.sum(1), 1, atol=1e-7)
        np.testing.assert_allclose(A, expected, atol=1e-5)


def test_projection_looks_beyond_its_first_entries():
    """A constant matrix projects to the constant matrix, far more entries than it begins with."""
    A = project_doubly_stochastic(np.full((100, 100), 0.7), 2.0).toarray()
    np.testing.assert_allclose(A, 0.01, atol=1e-9)


def _joint_objective(X, plus, minus, A, eta1, eta2, eta3):
    """The joint model of DSSC; rows of X are samples, row j of the codes is that of sample j."""
    size, fit = plus + minus, X - (plus - minus) @ X
    gap = size - eta2 * (A.toarray() if sp.issparse(A) else A)
    return float(0.5 * (fit**2).sum() + 0.5 * eta1 * (gap**2).sum() + eta3 * size.sum())


def test_joint_model_reaches_the_minimum_of_a_general_solver():
    """The convex joint objective against L-BFGS-B on the same problem with A projected out."""
    X, _ = subspaces(n=8, k=2, noise=0.3, d=5, dim=2)
    n, etas = len(X), (0.5, 0.1, 0.02)
    plus, minus, _ = joint_codes(X, np.zeros((n, n)), *etas, max_iter=20000, tol=1e-7)

    def value(v):
        P, M = v.reshape(2, n, n)
        A = _dykstra((P + M) / etas[1], 400)
        size, signed = P + M, P - M
        shared = etas[0] * (size - etas[1] * A) + etas[2]
        fit = (signed @ X - X) @ X.T
        return _joint_objective(X, P, M, A, *etas), np.stack([shared + fit, shared - fit]).ravel()

    free = np.tile(1 - np.eye(n), (2, 1, 1)).ravel()
    bounds = [(0, None if f else 0) for f in free]
    best = scipy.optimize.minimize(value, np.zeros(2 * n * n), jac=True, bounds=bounds)
    A = project_doubly_stochastic(plus + minus, etas[1])
    ours = _joint_objective(X, plus, minus, A, *etas)
    assert np.all(np.diag(plus) == 0)
    np.testing.assert_allclose(ours, best.fun, rtol=1e-5)
    assert ours <= best.fun * (1 + 1e-6)


# ---------------------------------------------------------------- labels


def test_block_eigenvectors_separate_disconnected_parts():
    """Above the size of the full decomposition, a repeated eigenvalue is found in all copies."""
    rng, sizes = np.random.default_rng(0), [700, 600, 400]
    blocks = []
    for m in sizes:
        B = sp.random_array((m, m), density=0.05, rng=rng)
        blocks.append(B + B.T + sp.eye_array(m))
    y = np.repeat(np.arange(3), sizes)
    labels = spectral_labels(sp.csr_array(sp.block_diag(blocks)), 3, 0)
    assert adjusted_rand_score(y, labels) == 1.0
    assert np.bincount(labels).tolist() == sizes  # numbered by falling size


def test_zero_sample_is_accepted():
    """It has no direction and no connection, and still gets a label."""
    X, _ = subspaces(n=40, noise=0.1)
    X[7] = 0
    for name in ("ensc", "ssc-omp", "lsr", "tsc", "a-dssc"):
        labels = METHODS[name](3, random_state=0).fit(X).labels_
        assert set(labels) == {0, 1, 2}, name


def test_same_seed_same_labels():
    """Labels repeat exactly for an integer seed."""
    X, _ = subspaces(n=50, noise=0.3)
    for cls in (EnSC, SSCOMP, LSR, TSC, DSSC):
        a, b = (cls(3, random_state=4).fit(X).labels_ for _ in range(2))
        np.testing.assert_array_equal(a, b)
