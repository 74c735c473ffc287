"""One method on one data set with one seed, in its own process.

``python -m unbend.experiments.benchmark.worker REQUEST LABELS`` reads the request (JSON), fits,
writes the labels (.npy) and prints times and peak memory as JSON. It never sees a true label.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["fit_labels", "make_estimator", "method_names", "peak_bytes"]


def method_names() -> list[str]:
    """Names of all methods that a benchmark can run."""
    from unbend.baselines import METHODS

    return ["mlc", *METHODS]


def make_estimator(name: str, n_clusters: int, seed: int, params: dict[str, Any]) -> Any:
    """The estimator of a method, with changed parameters."""
    if name == "mlc":
        from unbend.estimator import MLC

        return MLC(n_clusters, random_state=seed, **params)
    from unbend.baselines import METHODS

    return METHODS[name](n_clusters, random_state=seed, **params)


def fit_labels(
    X: NDArray[Any], name: str, n_clusters: int, seed: int, params: dict[str, Any]
) -> tuple[NDArray[np.int64], dict[str, float]]:
    """Labels, and the seconds and CPU seconds of ``fit`` alone.

    Images are flattened where a method needs it. A method with heads takes images as they are
    when it is given a ``backbone``.
    """
    from unbend.baselines import METHODS

    on_images = name == "mlc" or METHODS[name].takes == "images" or params.get("backbone")
    if X.ndim > 2 and not on_images:
        X = X.reshape(len(X), -1)
    if X.ndim == 2 and X.dtype.kind != "f":
        X = X.astype(np.float32)
    estimator = make_estimator(name, n_clusters, seed, params)
    start, cpu = time.perf_counter(), time.process_time()
    estimator.fit(X)
    times = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    return np.asarray(estimator.labels_, dtype=np.int64), times


def peak_bytes() -> int:
    """Highest resident memory of this process so far.

    On Linux ``ru_maxrss`` is inherited from the parent process; ``VmHWM`` is not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource  # Windows has none

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def main(request: str, labels: str) -> int:
    """Run the request; on failure print one line to standard error and return 1."""
    job = json.loads(Path(request).read_text())
    try:
        X = np.load(job["X"], mmap_mode="r", allow_pickle=False)
        found, times = fit_labels(
            np.array(X), job["method"], job["n_clusters"], job["seed"], job["params"]
        )
    except Exception as error:
        first = (str(error).strip() or "no message").splitlines()[0]
        print(f"{type(error).__name__}: {first}", file=sys.stderr)
        return 1
    np.save(labels, found)
    print(json.dumps({**times, "peak_bytes": peak_bytes()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
