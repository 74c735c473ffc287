import numpy as np
import pytest
from sklearn.datasets import load_digits

from unbend.data import NAMED_SETS, load_named


def test_digits_are_scikit_learns_as_bytes():
    data, truth = load_named("digits"), load_digits()
    assert (data.name, data.split, data.n_classes) == ("digits", "all", 10)
    assert data.X.dtype == np.uint8
    np.testing.assert_allclose(data.X / 255 * 16, truth.images, atol=16 / 255)
    # 17 levels stay 17 levels: nothing is merged.
    assert len(np.unique(data.X)) == 17
    np.testing.assert_array_equal(data.y, truth.target)


@pytest.mark.parametrize("name", NAMED_SETS)
def test_every_set_has_a_label_per_sample(name):
    data = load_named(name)
    assert data.y.shape == (len(data.X),)


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match=r"no data set is called 'digit'; known: digits"):
        load_named("digit")
