"""Experiments: the paper's figures and tables, the benchmark, and what they share."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["EXPERIMENTS", "experiment"]

# name → what it shows. The module of that name, or in _HOMES, has `run(...)`; it is imported
# on demand, so that listing the experiments does not import torch.
EXPERIMENTS = {
    "figure1": "stages 0, 1 and 2 on two manifolds on the sphere (Fig. 1)",
    "figure2": "what passes through the network, on a real batch (Fig. 2)",
    "figure3": "rates, ranks and similarities while stage 2 trains (Figs. 3 and 4)",
    "figure5": "images along the principal directions of each cluster (Fig. 5)",
    "table2": "subspace clustering before and after MLC (Table 2)",
    "table3": "MLC against deep clustering (Table 3)",
    "table4": "the same with many clusters (Table 4)",
    "table5": "time per stage (Table 5)",
    "table6": "imbalanced clusters (Table 6)",
    "table7": "what each part of Algorithm 1 is worth (Table 7)",
    "table8": "MLC and NMCE over ten seeds (Table 8)",
    "digits": "MLC, k-means and spectral clustering on scikit-learn's digits",
    "fashion": "MLC from scratch on all of Fashion-MNIST, with k-means and landmarks on pixels",
    "scan": "SCAN after SimCLR on Fashion-MNIST, before and after self-labelling",
    "views": "neighbours, cached and live views of encoded photographs, in accuracy and time",
    "pretraining": "nearest neighbours in the features of each self-supervised method",
    "backbones": "accuracy and time of ten backbones on small images",
    "steps": "how long stage 1 must be, and whether anything without labels tells",
    "recipe": "how the preset for small images was chosen, without labels",
    "suite": "all methods on a fixed list of problems, by scores, ranks and seconds",
    "labels": "merge tree, number of clusters, confidence and outliers, before and now",
    "folders": "ten random folders of photographs, with k-means on the same embeddings",
}
_HOMES = {"suite": "suite.run", "labels": "labels.run", "folders": "suite.folders"}


def experiment(name: str) -> Callable[..., Any]:
    """The function that runs the experiment of this name."""
    home = f"paper.{name}" if name.startswith(("figure", "table")) else _HOMES.get(name, name)
    run: Callable[..., Any] = import_module(f"{__name__}.{home}").run
    return run
