import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from unbend.baselines.lsr import lsr_codes
from unbend.samples import nearest_neighbors
from unbend.samples.neighbors import neighbors_by


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def distances(X: torch.Tensor, index: torch.Tensor) -> np.ndarray:
    X = X.double().flatten(1)
    return (X[:, None] - X[index]).norm(dim=2).numpy()


def true_neighbors(X: torch.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A tree in float64: subtracts coordinates, so it loses no digits."""
    tree = NearestNeighbors(n_neighbors=k, algorithm="kd_tree").fit(X.double().flatten(1).numpy())
    return tree.kneighbors()  # without an argument a sample is not its own neighbour


CASES = {
    "plain": random(300, 5),
    "images": random(60, 3, 4, 4),
    "far from the origin": random(200, 3) + 1e4,
    "two groups far apart": random(200, 3) + 1e4 * torch.tensor([1.0, -1.0]).repeat(100)[:, None],
    "one far sample": torch.cat([random(150, 4), torch.full((1, 4), 1e5)]),
    "tiny numbers": 1e-6 * random(100, 4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [37, 1024])
def test_equals_a_tree_in_order(name, block):
    X = CASES[name]
    found = nearest_neighbors(X, 7, block)
    expected, index = true_neighbors(X, 7)
    np.testing.assert_allclose(distances(X, found), expected, rtol=1e-6)
    if name == "plain":
        np.testing.assert_array_equal(found.numpy(), index)


def test_copies_are_neighbors_but_a_row_never_its_own():
    X = random(20, 3).repeat(4, 1)
    found = nearest_neighbors(X, 5)
    assert not (found == torch.arange(80)[:, None]).any()
    np.testing.assert_allclose(distances(X, found), true_neighbors(X, 5)[0], atol=1e-6)
    assert (distances(X, found)[:, :3] == 0).all()


def test_rows_that_are_all_equal():
    found = nearest_neighbors(torch.ones(6, 2), 3)
    assert not (found == torch.arange(6)[:, None]).any()
    assert all(len(set(row.tolist())) == 3 for row in found)


@pytest.mark.parametrize(
    ("n", "k", "width"), [(5, 9, 4), (5, 4, 4), (2, 1, 1), (1, 3, 0), (5, 0, 0)]
)
def test_k_is_cut_to_the_other_rows(n, k, width):
    found = nearest_neighbors(random(n, 2), k)
    assert found.shape == (n, width)
    assert found.dtype == torch.long
    if width == n - 1:
        rest = [sorted({*range(n)} - {i}) for i in range(n)]
        assert found.sort(1).values.tolist() == rest


def test_cosine_is_the_angle_seen_from_the_mean():
    X = np.random.default_rng(0).normal(size=(60, 5)) * np.linspace(0.1, 9, 60)[:, None] + 3
    centred = X - X.mean(0)
    similarity = cosine_similarity(centred)
    np.fill_diagonal(similarity, -2)
    found = nearest_neighbors(torch.from_numpy(X), 4, metric="cosine")
    np.testing.assert_array_equal(found, np.argsort(-similarity, axis=1)[:, :4])


def test_standardized_is_euclidean_on_scaled_columns():
    X = random(80, 4) * torch.tensor([1.0, 100.0, 0.01, 5.0]) + 7
    scaled = torch.from_numpy(StandardScaler().fit_transform(X.double().numpy()))
    found = nearest_neighbors(X, 5, metric="standardized")
    np.testing.assert_array_equal(found, true_neighbors(scaled, 5)[1])


def test_standardized_leaves_constant_columns_out():
    X = random(40, 3).double()
    with_constant = torch.cat([X, torch.full((40, 1), 3.0)], dim=1)
    found = nearest_neighbors(with_constant, 4, metric="standardized")
    assert torch.equal(found, nearest_neighbors(X, 4, metric="standardized"))


@pytest.mark.parametrize("weight", [3e-4, 3e-2])
@pytest.mark.parametrize(("n", "p"), [(90, 12), (30, 50), (40, 40)])
def test_ridge_has_the_largest_codes_of_least_squares_regression(n, p, weight):
    X = random(n, p, seed=1).double() * torch.linspace(1, 3, p) + 2
    centred = (X - X.mean(0)).numpy()
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    codes = np.abs(lsr_codes(unit, weight * n))
    found = nearest_neighbors(X, 5, metric=f"ridge:{weight}").numpy()
    # By value: two codes that agree in float32 may change places.
    expected = -np.sort(-codes, axis=1)[:, :5]
    np.testing.assert_allclose(np.take_along_axis(codes, found, 1), expected, rtol=1e-3)
    assert (found == np.argsort(-codes, axis=1)[:, :5]).mean() > 0.99


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "ridge:0.003"])
def test_neighbors_turn_with_the_samples(metric):
    X = random(70, 6).double()
    turn = torch.linalg.qr(random(6, 6, seed=2).double())[0]
    shifted = X @ turn + random(6, seed=3).double()
    found = nearest_neighbors(X, 6, metric=metric)
    assert torch.equal(found, nearest_neighbors(shifted, 6, metric=metric))


@pytest.mark.parametrize("metric", ["manhattan", "ridge:", "ridge:-1", "ridge:nan", "auto"])
def test_an_unknown_metric_is_rejected(metric):
    with pytest.raises(ValueError, match="`metric` must be euclidean, standardized, cosine") as e:
        nearest_neighbors(random(5, 2), 1, metric=metric)
    assert "\n" not in str(e.value)


def test_several_metrics_at_once_are_the_same_as_each_alone():
    X = torch.randn(80, 6, generator=torch.Generator().manual_seed(1))
    metrics = ("cosine", "ridge:0.1", "euclidean", "ridge:0.001", "standardized")
    for metric, found in zip(metrics, neighbors_by(X, 4, metrics), strict=True):
        assert torch.equal(found, nearest_neighbors(X, 4, metric=metric))
