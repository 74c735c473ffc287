"""The paper's experiments, one file each, and the house's own."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["EXPERIMENTS", "experiment"]

# name → what it shows; the module of the same name has `run(...)`. Imported on demand, so that
# listing them needs no torch.
EXPERIMENTS = {
    "figure1": "stages 0, 1 and 2 on two manifolds on the sphere (Fig. 1)",
    "digits": "MLC beside k-means and spectral clustering on scikit-learn's digits",
    "recipe": "how the preset for small images was chosen, without labels",
}


def experiment(name: str) -> Callable[..., Any]:
    """The function that runs the experiment of this name."""
    run: Callable[..., Any] = import_module(f"unbend.experiments.{name}").run
    return run
