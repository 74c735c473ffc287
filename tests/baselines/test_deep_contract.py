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


def test_peers_keep_one_eta_and_one_labelling():
    """Calibration and the choice among labellings are MLC's."""
    for estimator in (CPP(), PRODSC()):
        config = estimator._resolve((1, 8, 8), 500)
        assert (config.labels.join, config.stage2.eta) == ("codes", 0.175)
    asked = CPP(settings={"labels.join": "none"})
    assert asked._resolve((1, 8, 8), 500).labels.join == "none"
