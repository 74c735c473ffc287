"""The lists of the suite: what the problems hold, with stand-ins for what is installed."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from unbend.experiments.suite import problems, synthetic
from unbend.experiments.suite.docstrings import docstring_vectors, read_docstrings
from unbend.experiments.suite.problems import LISTS, load_problem


@pytest.mark.parametrize(
    "name",
    [
        *("subspaces-4", "curves-10", "surfaces-8", "faces-under-light"),
        *("turned-objects", "lookalikes", "few-of-many"),
    ],
)
def test_synthetic_problems_are_the_same_every_time_and_hold_their_classes(name):
    X, y = load_problem("development", name)
    again, labels = load_problem("development", name)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, labels)
    assert X.dtype == np.float32
    assert y.dtype == np.int64
    assert np.isfinite(X).all()
    assert len(X) == len(y)
    assert (np.diff(y) != 0).mean() > 0.5  # shuffled: order gives nothing away
    half = len(X) // 2
    nearest = KNeighborsClassifier(1).fit(X[:half], y[:half])
    assert nearest.score(X[half:], y[half:]) > 3 / len(np.unique(y))


def test_unions_of_subspaces_have_the_rank_and_sizes_that_they_say():
    X, y = synthetic.subspaces(7)
    sizes = np.bincount(y)
    assert sizes.max() == 3 * sizes.min()
    for c in range(7):
        spectrum = np.linalg.svd(X[y == c], compute_uv=False)
        assert spectrum[2] > 5 * spectrum[3]  # three dimensions and a little noise


def test_images_of_a_surface_lie_near_nine_dimensions():
    """Basri and Jacobs: nine hold nearly all the energy of a matte object under distant light."""
    X, y = synthetic.faces_under_light(k=3, each=200, noise=0.0)
    for c in range(3):
        energy = np.linalg.svd(X[y == c], compute_uv=False) ** 2
        assert energy[:9].sum() > 0.98 * energy.sum()
        assert energy[:1].sum() < 0.9 * energy.sum()  # the light does change


def test_imbalanced_sizes_fall_from_ten_to_one():
    X = np.arange(3000)[:, None]
    y = np.repeat(np.arange(3), 1000)
    found, labels = problems._imbalanced(lambda: (X, y))
    assert np.bincount(labels).tolist() == [1000, 316, 100]  # 1000 · 10^(-1/2) is 316
    np.testing.assert_array_equal(found[:, 0] // 1000, labels)


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """Ten images of each digit whose first pixel is that digit."""
    y = np.repeat(np.arange(10), 10)
    X = np.zeros((100, 28, 28), np.uint8)
    X[:, 0, 0] = y
    monkeypatch.setattr(problems, "_images", lambda name: (X, y))


def test_pairs_of_digits_show_their_number(mnist):
    X, y = problems._mnist_pairs(each=2)
    assert X.shape == (200, 2 * 784)
    assert np.bincount(y).tolist() == [2] * 100
    np.testing.assert_allclose(255 * (10 * X[:, 0] + X[:, 784]), y, rtol=1e-5)


def test_photographs_are_the_asked_for_ones_of_each_class(monkeypatch):
    y = np.array([1, 0, 1, 0, 1, 0])
    X = np.arange(6, dtype=np.uint8).reshape(6, 1, 1)
    monkeypatch.setattr(problems, "_images", lambda name: (X, y))
    monkeypatch.setattr(problems, "load_encoder", lambda name: name)
    monkeypatch.setattr(problems, "embed_images", lambda encoder, images, cache: images[:, 0])
    found, labels = problems._photographs("train", "lite0", 1, 3)
    assert found[:, 0].tolist() == [2, 3, 4, 5]
    assert labels.tolist() == [1, 0, 1, 0]


def test_docstrings_are_labelled_by_package_and_told_apart(tmp_path):
    words = {"fruit": "apple pear plum", "metal": "iron zinc lead"}
    for package, some in words.items():
        (tmp_path / package).mkdir()
        functions = [
            f'def f{i}():\n    """{some} number {i} of all that are listed here."""\n'
            for i in range(12)
        ]
        (tmp_path / package / "part.py").write_text("\n".join(functions))
    (tmp_path / "small.py").write_text('"""One text that is long enough to be counted here."""\n')
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "more.py").write_text('"""A text in a folder that is left out of it."""')
    _, names = read_docstrings(tmp_path)
    assert [names.count(n) for n in ("fruit", "metal", "small", "test")] == [12, 12, 1, 0]
    X, y = docstring_vectors(tmp_path, each=10, dim=3)
    assert np.bincount(y).tolist() == [12, 12]
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-5)
    same = X @ X.T
    assert same[y[:, None] == y].min() > same[y[:, None] != y].max()
    with pytest.raises(FileNotFoundError, match="0 packages with 50 docstrings"):
        docstring_vectors(tmp_path, each=50)


def test_the_lists_share_no_problem_and_wrong_names_are_told():
    assert not set(LISTS["development"]) & set(LISTS["test"])
    assert sum(map(len, LISTS.values())) >= 14
    with pytest.raises(ValueError, match="`list` must be one of development, test, got 'x'"):
        load_problem("x", "digits")
    with pytest.raises(ValueError, match="the test list has no problem 'digits'; known: mnist"):
        load_problem("test", "digits")


def test_missing_data_set_gives_a_one_line_error(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBEND_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"vowel\.npz is missing in .* with `make data`"):
        load_problem("development", "vowel")
