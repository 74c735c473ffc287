"""The deep peers keep scikit-learn's contract, with no exception."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from unbend.baselines.cpp import CPP
from unbend.baselines.mcr2 import MCR2
from unbend.baselines.nmce import NMCE
from unbend.baselines.prodsc import PRODSC

# Shorter training and a small network: the contract is about behaviour, not accuracy.
SHORT = {
    "pretrain.min_steps": 8,
    "stage2.min_steps": 4,
    "network.width": 32,
    "network.head_width": 32,
}


@parametrize_with_checks(
    [
        NMCE(pretrain_epochs=2, epochs=4, dim=8, settings=SHORT),
        CPP(pretrain_epochs=2, epochs=2, dim=8, settings=SHORT),
        PRODSC(pretrain_epochs=2, epochs=2, dim=8, settings=SHORT),
        MCR2(epochs=2, dim=8, settings=SHORT),
    ]
)
def test_scikit_learn_contract(estimator, check):
    """The estimator keeps scikit-learn's contract."""
    check(estimator)


def test_codes_without_a_sign_are_not_joined_by_features_that_have_one():
    """CPP takes c and -c for one code; the preset for images would join by the features."""
    assert CPP()._resolve((1, 8, 8), 500).stage2.join == "codes"
    assert PRODSC()._resolve((1, 8, 8), 500).stage2.join == "stage1"
    asked = CPP(settings={"stage2.join": "none"})
    assert asked._resolve((1, 8, 8), 500).stage2.join == "none"
