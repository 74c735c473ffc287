"""Samples as estimators take them."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator

from unbend.baselines import NMCE
from unbend.samples import check_samples, prepare


class Model(BaseEstimator):
    """Nothing but a name."""


@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("shape", [(5, 3), (5, 4, 4), (5, 3, 4, 4)])
def test_samples_pass_unchanged(shape, convert):
    """Vectors and images keep their shape and the estimator learns their width."""
    X = np.random.default_rng(0).normal(size=shape)
    model = Model()
    assert np.array_equal(check_samples(model, convert(X)), X)
    assert model.n_features_in_ == np.prod(shape[1:])
    fitted = prepare(X)[1]
    assert np.array_equal(check_samples(model, convert(X[:1]), fitted), X[:1])


def test_samples_that_do_not_fit_the_model_raise():
    """Too many dimensions, the other kind of samples, too few, or holes."""
    vectors, images = np.zeros((4, 3)), np.zeros((4, 5, 5))
    model = Model()
    with pytest.raises(ValueError, match=r"got shape \(1, 1, 1, 1, 1\); reshape"):
        check_samples(model, np.zeros((1,) * 5))
    check_samples(model, vectors)
    with pytest.raises(ValueError, match="3 dimensions, but the model was fitted on vectors of w"):
        check_samples(model, images, prepare(vectors)[1])
    with pytest.raises(ValueError, match=r"fitted on images of shape \(1, 5, 5\)"):
        check_samples(model, vectors, prepare(images)[1])
    for X in (vectors, images):
        with pytest.raises(ValueError, match="minimum of 2 is required by Model"):
            check_samples(model, X[:1])
    images[2, 1, 1] = np.nan
    with pytest.raises(ValueError, match="X contains NaN in 1 of 4 images, the first is 2; remove"):
        check_samples(model, images)


def test_a_table_forgotten_for_images():
    """Names of columns belong to the last fit alone."""
    model = Model()
    model.feature_names_in_ = np.array(["a"])
    check_samples(model, np.zeros((3, 2, 2)))
    assert not hasattr(model, "feature_names_in_")


def test_peers_use_the_same_rule():
    """A deep peer says the same words."""
    with pytest.raises(ValueError, match="minimum of 2 is required by NMCE"):
        NMCE(1).fit(np.zeros((1, 4, 4)))
