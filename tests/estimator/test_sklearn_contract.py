"""Every check that scikit-learn has for clusterers and transformers, with no exception."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from unbend import MLC

# The default estimator with shorter training: the contract is about behaviour, not accuracy,
# and the checks fit some two hundred times. `check_clustering` still asks for sensible clusters.
SHORT = {"pretrain.min_steps": 10, "stage2.min_steps": 5}


@parametrize_with_checks([MLC(pretrain_epochs=3, epochs=2, settings=SHORT)])
def test_scikit_learn_contract(estimator, check):
    """The estimator keeps scikit-learn's contract."""
    check(estimator)
