import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from unbend.metrics import knn_accuracy


def blobs(n: int = 90, classes: int = 3, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    return 2 * np.eye(classes, 5)[y] + noise * rng.standard_normal((n, 5)), y


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 4, 20])
def test_equals_a_classifier_refitted_without_each_sample(metric, k):
    X, y = blobs(noise=1.5)
    hits, tied = 0, 0
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        model = KNeighborsClassifier(k, metric=metric).fit(X[rest], y[rest])
        votes = y[rest][model.kneighbors(X[[i]], return_distance=False)[0]]
        counts = np.bincount(votes, minlength=3)
        best = np.flatnonzero(counts == counts.max())
        tied += len(best) > 1
        winner = next(v for v in votes if v in best)  # sorted by distance: the nearest decides
        hits += winner == y[i]
    assert knn_accuracy(X, y, k, metric=metric) == pytest.approx(hits / len(X))
    assert k == 1 or tied > 0  # the rule for ties was put to the test


def test_labels_of_any_type_and_tensors_of_any_shape():
    X, y = blobs(noise=0.01)
    names = np.array(["cat", "dog", "owl"])[y]
    assert knn_accuracy(torch.from_numpy(X).reshape(90, 5, 1).float(), names, 5) == 1.0


def test_sample_is_not_its_own_neighbour():
    """In pairs of equal samples with different labels, the nearest neighbour is always wrong."""
    X = np.repeat(np.eye(4), 2, axis=0)
    assert knn_accuracy(X, [0, 1] * 4, 1) == 0.0


@pytest.mark.parametrize(
    ("Z", "y", "options", "words"),
    [
        (np.ones(4), [0] * 4, {}, r"`Z` must be \(n, d\)"),
        (np.ones((4, 2)), [0] * 3, {}, "`y` must have one label per row"),
        (
            np.ones((4, 2)),
            [0] * 4,
            {"k": 4},
            "`k` of knn_accuracy must be an integer from 1 to n - 1",
        ),
        (np.ones((4, 2)), [0] * 4, {"k": 2.5}, "must be an integer from 1 to n - 1 = 3, got 2.5"),
        (np.full((4, 2), np.nan), [0] * 4, {"k": 1}, "`Z` of knn_accuracy must be finite"),
        (np.ones((4, 2)), [0] * 4, {"k": 1, "metric": "l1"}, "`metric` of knn_accuracy must be"),
    ],
)
def test_invalid_input_raises(Z, y, options, words):
    with pytest.raises(ValueError, match=words):
        knn_accuracy(Z, y, **options)
