"""Cluster the docstrings of the standard library by package: ``python -m benchmarks.texts``.

k-means (ten starts) gets the same vectors: of TF-IDF, or with ``--encoder`` those of a sentence
encoder. Prints n, ACC, NMI and ARI, mean ± sd over seeds. True labels are used for scoring only.
"""

from __future__ import annotations

import argparse
import csv
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from unbend import load
from unbend.experiments.suite.docstrings import read_docstrings
from unbend.metrics import clustering_scores
from unbend.sources import open_source
from unbend.workflows import cluster

__all__ = ["compare", "write_docstrings"]

_SCORES = ("acc", "nmi", "ari")


def write_docstrings(path: Path, *, each: int = 100) -> int:
    """Write a table of docstrings of large packages; return the number of packages."""
    texts, packages = read_docstrings(Path(sysconfig.get_path("stdlib")))
    counts = Counter(packages)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "body", "package"])
        for i, (text, package) in enumerate(zip(texts, packages, strict=True)):
            if counts[package] >= each:
                writer.writerow([f"docstring {i}", text, package])
    return sum(count >= each for count in counts.values())


def compare(folder: Path, seeds: int = 3, encoder: str = "tfidf") -> dict[str, np.ndarray]:
    """Scores (seeds, 3) of unbend and of k-means of the same vectors."""
    table = folder / "docstrings.csv"
    k = write_docstrings(table)
    found: dict[str, list[list[float]]] = {"unbend": [], "k-means": []}
    for seed in range(seeds):
        run = folder / f"run{seed}"
        result = cluster(
            table, text="body", id="name", labels="package", n_clusters=k, encoder=encoder,
            seed=seed, out=run, report=False,
        )  # fmt: skip
        assert result.scores is not None
        found["unbend"].append([result.scores["MLC"][name] for name in _SCORES])
        source = open_source(table, text="body", id="name", labels="package")
        X = load(run).embed(source.X)
        labels = KMeans(k, n_init=10, random_state=seed).fit_predict(X)
        scores = clustering_scores(source.y, labels).to_dict()
        found["k-means"].append([scores[name] for name in _SCORES])
        for name, rows in found.items():
            print(f"seed {seed}  {name:8}", *(f"{v:.3f}" for v in rows[-1]), flush=True)
    print(f"n = {result.n_samples}, k = {k}, {seeds} seeds; ACC, NMI, ARI, mean ± sd")
    return {name: np.asarray(rows) for name, rows in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--encoder", default="tfidf", help="tfidf, hf:NAME or a folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = compare(Path(folder), given.seeds, given.encoder)
    for name, scores in found.items():
        mean, sd = scores.mean(axis=0), scores.std(axis=0, ddof=1)
        print(f"{name:8}", *(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, sd, strict=True)))


if __name__ == "__main__":
    main()
