"""Pure tensor maths of the paper: coding rates and the doubly stochastic projection."""

from unbend.functional.coding_rate import coding_rate
from unbend.functional.compressed_rate import compressed_rate
from unbend.functional.rate_reduction import RateReduction, rate_reduction
from unbend.functional.sinkhorn import DoublyStochastic, doubly_stochastic
from unbend.functional.spectrum import numerical_rank

__all__ = [
    "DoublyStochastic",
    "RateReduction",
    "coding_rate",
    "compressed_rate",
    "doubly_stochastic",
    "numerical_rank",
    "rate_reduction",
]
