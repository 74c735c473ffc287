"""EnSC and SSC-OMP against a loop over scikit-learn's solvers.

Samples are a noisy union of ten random subspaces of dimension 5 in R^128. scikit-learn needs
seconds for one code among 10,000 samples, so it solves a random choice of rows against all the
others, and times are compared per row; ours are timed both on all rows and on the same choice.
Its ``ElasticNet`` stops by the duality gap: with its default tolerance the codes are off by up to
1e-2, so it gets the loosest power of ten that brings them within 1e-4 of the solution.

Run ``python -m benchmarks.baselines [--quick] [--rows N] [--json PATH]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, orthogonal_mp
from tests.generators.subspaces import union_of_subspaces

from benchmarks.harness import Target, describe_run, write_json
from unbend.baselines.ensc import elastic_net_codes, elastic_net_weights
from unbend.baselines.selfexpression import symmetrise, unit_rows
from unbend.baselines.ssc_omp import omp_codes

D, K, NOISE = 128, 10, 0.3
GAMMA, L1_RATIO, STEPS = 50.0, 0.9, 10
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)

Row = dict[str, Any]


def sklearn_elastic_net(X: np.ndarray, rows: np.ndarray, weights: np.ndarray, tol: float) -> Any:
    """A loop over ElasticNet: codes of some rows among all others."""
    codes = np.zeros((len(rows), len(X)))
    atoms = np.asfortranarray(X.T)
    for code, j in zip(codes, rows, strict=True):
        kept = atoms[:, j].copy()
        atoms[:, j] = 0.0  # a column of zeros is never chosen; cheaper than a copy without it
        alpha = 1 / (weights[j] * X.shape[1])
        model = ElasticNet(
            alpha=alpha, l1_ratio=L1_RATIO, fit_intercept=False, tol=tol, max_iter=100_000,
            copy_X=False,
        )  # fmt: skip
        code[:] = model.fit(atoms, kept).coef_
        atoms[:, j] = kept
    return codes


def sklearn_pursuit(X: np.ndarray, rows: np.ndarray) -> Any:
    """A loop over orthogonal_mp: codes of some rows among all others."""
    codes = np.zeros((len(rows), len(X)))
    atoms = np.asfortranarray(X.T)
    for code, j in zip(codes, rows, strict=True):
        kept = atoms[:, j].copy()
        atoms[:, j] = 0.0
        code[:] = orthogonal_mp(atoms, kept, n_nonzero_coefs=STEPS)
        atoms[:, j] = kept
    return codes


def timed(run: Any, *arguments: Any, **options: Any) -> tuple[Any, float]:
    """Result and seconds of one call."""
    start = time.perf_counter()
    result = run(*arguments, **options)
    return result, time.perf_counter() - start


def affinity_error(ours: Any, theirs: np.ndarray, rows: np.ndarray, n: int) -> float:
    """Largest difference of two affinities built from the codes of the same rows."""
    place = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), (n, len(rows)))
    difference = symmetrise(sp.csr_array(place @ ours)) - symmetrise(sp.csr_array(place @ theirs))
    return float(abs(difference).max())


def elastic_net(X: np.ndarray, rows: np.ndarray, full: bool) -> Row:
    """Ours on all rows and on the choice; theirs at the loosest tolerance that agrees."""
    weights = elastic_net_weights(X, GAMMA, L1_RATIO)
    ours, seconds = timed(elastic_net_codes, X, weights, L1_RATIO, rows=rows)
    for tol in TOLERANCES:
        few = affinity_error(
            ours[:3], sklearn_elastic_net(X, rows[:3], weights, tol), rows[:3], len(X)
        )
        if few <= 3e-5:
            break
    theirs, their_seconds = timed(sklearn_elastic_net, X, rows, weights, tol)
    result = _row("EnSC", X, rows, ours, theirs, seconds, their_seconds)
    result |= {"sklearn_tol": tol, "nonzeros": ours.nnz / len(rows)}
    if full:
        result["seconds_all_rows"] = timed(elastic_net_codes, X, weights, L1_RATIO)[1]
    return result


def pursuit(X: np.ndarray, rows: np.ndarray, full: bool) -> Row:
    """Ours on all rows and on the choice; theirs on the choice."""
    ours, seconds = timed(omp_codes, X, STEPS, 0.0, rows=rows)
    theirs, their_seconds = timed(sklearn_pursuit, X, rows)
    result = _row("SSC-OMP", X, rows, ours, theirs, seconds, their_seconds)
    if full:
        result["seconds_all_rows"] = timed(omp_codes, X, STEPS, 0.0)[1]
    return result


def _row(
    name: str, X: np.ndarray, rows: np.ndarray, ours: Any, theirs: Any, mine: float, yours: float
) -> Row:
    return {
        "method": name,
        "n": len(X),
        "rows": len(rows),
        "seconds_per_row": mine / len(rows),
        "sklearn_seconds_per_row": yours / len(rows),
        "speedup": yours / mine,
        "affinity_error": affinity_error(ours, theirs, rows, len(X)),
    }


def main() -> int:
    """Run both and report each target; exit with 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2,000 samples")
    parser.add_argument("--rows", type=int, default=200, help="rows that scikit-learn solves")
    parser.add_argument("--no-full", action="store_true", help="do not time ours on all rows")
    parser.add_argument("--json", metavar="PATH", help="write the result here")
    options = parser.parse_args()
    n = 2000 if options.quick else 10_000
    X = unit_rows(union_of_subspaces(n, K, d=D, noise=NOISE, seed=0).Z.astype(np.float64))
    rows = np.sort(np.random.default_rng(0).choice(n, min(options.rows, n), replace=False))
    elastic_net_codes(X, 1.0, L1_RATIO, rows=rows[:2])  # warm up the libraries
    print(json.dumps(describe_run()))
    found, targets = [], []
    for run in (pursuit, elastic_net):
        row = run(X, rows, not options.no_full)
        print(*[f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()],
              flush=True)  # fmt: skip
        found.append(row)
        name = f"{row['method']}, n={n}, d={D}"
        targets += [
            Target(f"{name}: times faster per row than scikit-learn", row["speedup"], 3, True),
            Target(f"{name}: largest difference of affinities", row["affinity_error"], 1e-4, False),
        ]
    for target in targets:
        sign = ">=" if target.at_least else "<="
        verdict = "ok" if target.passed else "MISSED"
        print(f"{verdict:6} {target.name}: {target.measured:.4g} ({sign} {target.bound:g})")
    if options.json:
        write_json(options.json, {"rows": found, "targets": [t.as_dict() for t in targets]})
    return 0 if all(t.passed for t in targets) else 1


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    sys.exit(main())
