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
