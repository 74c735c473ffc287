"""Peers that train cluster heads on features: a shared core and a short file for each method.

The core is neighbours and pairs (``pairs``), stacked heads (``stacked``), terms of the losses
(``losses``), the inputs of the heads (``views``), the consensus of heads (``consensus``)
and the estimator around them (``estimator``). Methods differ in the loss and in where the second
view comes from.
"""

from unbend.baselines.heads.estimator import load

__all__ = ["load"]
