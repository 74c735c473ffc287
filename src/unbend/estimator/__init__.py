"""MLC, the scikit-learn estimator, and load."""

from unbend.estimator.fitted import Assessment
from unbend.estimator.mlc import MLC, load
from unbend.estimator.updates import Update

__all__ = ["MLC", "Assessment", "Update", "load"]
