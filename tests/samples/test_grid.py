"""Vectors that are the pixels of images, and vectors that are not."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs

from unbend.experiments.suite import synthetic
from unbend.samples import pixel_side, prepare

DIGITS = load_digits().data


def as_tensor(X):
    return torch.from_numpy(np.asarray(X, dtype=np.float64))


@pytest.mark.parametrize(
    ("X", "side"),
    [
        (DIGITS, 8),
        (DIGITS.reshape(-1, 8, 8).transpose(0, 2, 1).reshape(-1, 64), 8),  # column by column
        (DIGITS / 8 - 1, 8),
        (255 - DIGITS, 8),
        (synthetic.faces_under_light(20)[0], 16),
        (synthetic.turned_objects(10)[0], 24),
        (synthetic.few_of_many(50, each=10)[0], 20),
    ],
)
def test_pixels_are_recognised(X, side):
    assert pixel_side(as_tensor(X)) == side
    assert pixel_side(prepare(np.asarray(X, dtype=np.float64))[0]) == side  # scaled


def series(kind, n=600, p=400):
    rng, t = np.random.default_rng(0), np.linspace(0, 1, p)
    if kind == "walk":
        return rng.standard_normal((n, p)).cumsum(1)
    if kind == "waves":
        return np.sin(2 * np.pi * (rng.uniform(1, 30, (n, 1)) * t + rng.random((n, 1))))
    return np.exp(-(((t - rng.random((n, 1))) / rng.uniform(0.02, 0.2, (n, 1))) ** 2))  # peaks


@pytest.mark.parametrize(
    "X",
    [
        series("walk"),
        series("waves"),
        series("peaks"),
        make_blobs(600, n_features=64, random_state=0)[0],
        synthetic.subspaces(4)[0],
        synthetic.shared_subspaces()[0],
        np.random.default_rng(0).permuted(DIGITS, axis=1),
        DIGITS[:, np.random.default_rng(0).permutation(64)],
        DIGITS[:, :63],  # no square
        DIGITS[:400],  # too few
        np.ones((600, 64)),
        (DIGITS - DIGITS.mean(0)) / np.maximum(DIGITS.std(0), 1e-9),  # standardised
    ],
)
def test_other_vectors_are_not(X):
    assert pixel_side(as_tensor(X)) is None
