"""Every check that scikit-learn has for clusterers, with no exception, and our own errors."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbend.baselines import (
    DSSC,
    LSR,
    METHODS,
    SSCOMP,
    TSC,
    EnSC,
    KMeans,
    LandmarkSpectral,
    Spectral,
)

CLASSES = [EnSC, SSCOMP, LSR, TSC, DSSC, KMeans, Spectral, LandmarkSpectral]


def _expected(estimator):
    if not isinstance(estimator, SSCOMP):
        return {}
    # In the plane two samples express any third without residual: a code has two entries, one of
    # them tiny, and the graph falls apart into pairs. No pursuit clusters these blobs.
    reason = "the check's samples lie in the plane, where matching pursuit has no sparse code"
    return {"check_clustering": reason}


@parametrize_with_checks(
    [cls() for cls in CLASSES] + [DSSC(joint=True, max_iter=100, tol=1e-3)],
    expected_failed_checks=_expected,
)
@pytest.mark.filterwarnings("ignore::unbend.exceptions.NotConvergedWarning")
def test_scikit_learn_contract(estimator, check):
    """The estimators keep scikit-learn's contract."""
    check(estimator)


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (EnSC(gamma=1.0), "gamma"),
        (EnSC(l1_ratio=1.0), "l1_ratio"),
        (EnSC(n_clusters="auto"), "n_clusters"),
        (SSCOMP(n_nonzero=0), "n_nonzero"),
        (SSCOMP(tol=float("nan")), "tol"),
        (LSR(alpha=-1), "alpha"),
        (LSR(zero_diagonal="no"), "zero_diagonal"),
        (TSC(n_neighbors=0), "n_neighbors"),
        (DSSC(eta2=0.0), "eta2"),
        (KMeans(n_init=0), "n_init"),
        (Spectral(random_state=-1), "random_state"),
        (LandmarkSpectral(n_landmarks=0), "n_landmarks"),
    ],
)
def test_bad_parameters_are_named_with_a_remedy(estimator, word):
    """One line: which parameter of which estimator, the rule, the value."""
    with pytest.raises(ValueError, match=f"`{word}` of {type(estimator).__name__} must be .*got"):
        estimator.fit(np.eye(4))


@pytest.mark.parametrize("cls", CLASSES)
def test_more_clusters_than_samples_are_rejected(cls):
    """The message names both numbers."""
    with pytest.raises(ValueError, match=r"n_clusters=9 of .* at most n_samples=4"):
        cls(9).fit(np.eye(4))


def test_registry_gives_estimators_with_the_settings_asked_for():
    """Every name of the registry makes an estimator."""
    for name, method in METHODS.items():
        estimator = method(3, random_state=5)
        assert estimator.n_clusters == 3, name
        assert estimator.random_state == 5, name
    assert METHODS["j-dssc"](2, eta1=4.0).get_params()["joint"] is True
    assert METHODS["j-dssc"](2, eta1=4.0).eta1 == 4.0
