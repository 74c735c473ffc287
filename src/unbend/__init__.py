"""unbend: cluster unlabelled data by straightening its manifolds into orthogonal subspaces.

The public names are imported on first use, so that ``unbend --help`` need not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbend.estimator import MLC, load
    from unbend.report.plots import (
        plot_map,
        plot_rates,
        plot_similarity,
        plot_spectrum,
        plot_tree,
    )

__version__ = "0.1.0"
__all__ = [
    "MLC",
    "__version__",
    "load",
    "plot_map",
    "plot_rates",
    "plot_similarity",
    "plot_spectrum",
    "plot_tree",
]

# public name → module that defines it
_HOMES = dict.fromkeys(("MLC", "load"), "unbend.estimator")
_HOMES |= {name: "unbend.report.plots" for name in __all__ if name.startswith("plot_")}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'unbend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
