"""Exported graphs compared with their models: ``make bench-onnx``.

One row for vectors, small images, photographs through an encoder, and embeddings. Each model is
fitted on some samples; the graph, run by onnxruntime alone, and the model label other ones. Prints
a table in Markdown; exits with 1 if probabilities differ by more than 1e-5.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_sample_images

from benchmarks.harness import time_in_turns
from unbend import MLC
from unbend.deploy import export_onnx
from unbend.encoding import embed_images
from unbend.networks import load_encoder

TOLERANCE = 1e-5
_OUTPUTS = ["probabilities", "label", "outlier_score"]


class Case(NamedTuple):
    """A model to fit, samples to fit it on, and others to label."""

    name: str
    model: MLC
    fitted: NDArray[Any]
    new: NDArray[Any]


def cases() -> Iterator[Case]:
    """Vectors, images, photographs, embeddings."""
    digits = load_digits()
    split = slice(0, 1000), slice(1000, 1500)
    yield Case("vectors", MLC(10, random_state=0), *(digits.data[part] for part in split))
    images = (digits.images * 15.9).astype(np.uint8)
    yield Case("small images", MLC(10, random_state=0), *(images[part] for part in split))
    photographs = _crops(360)
    encoded = MLC(2, encoder="lite0", cache_dir=None, random_state=0)
    yield Case("photographs, lite0", encoded, photographs[:240], photographs[240:])
    Z = embed_images(load_encoder("lite0", device="cpu"), photographs)
    yield Case("embeddings of lite0", MLC(2, random_state=0), Z[:240], Z[240:])


def main() -> None:
    """Print the table."""
    print("| model | new samples | probabilities | labels | outlier scores | size | speed |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    worst = 0.0
    for case in cases():
        case.model.fit(case.fitted)
        with tempfile.TemporaryDirectory() as folder:
            worst = max(worst, _row(case, Path(folder) / "model.onnx"))
    if worst > TOLERANCE:
        sys.exit(f"probabilities differ by {worst:.0e}, more than {TOLERANCE:.0e}")


def _row(case: Case, path: Path) -> float:
    """Print one row; return the largest difference of the probabilities."""
    size = case.new.shape[2:] if case.model.encoder is not None else None
    done = export_onnx(case.model, path, image_size=size)  # type: ignore[arg-type]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    new = case.new if case.new.ndim != 3 else case.new[:, None]
    X = np.ascontiguousarray(new.astype(done.dtype))
    p, label, score = session.run(_OUTPUTS, {"samples": X})
    said = case.model.assess(case.new)
    gap = np.abs(p - said.probabilities).max()
    far = np.abs(score - said.outlier_score)
    seconds = time_in_turns(
        {
            "graph": partial(session.run, _OUTPUTS, {"samples": X}),
            "model": partial(case.model.assess, case.new),
        },
        rounds=5,
    )
    speed = {name: len(X) / s for name, s in seconds.items()}
    print(
        f"| {case.name} | {len(X)} | {gap:.0e} | {(label == said.labels).mean():.1%} equal "
        f"| {np.median(far):.0e}, at most {far.max():.0e} | {done.n_bytes / 1e6:.1f} MB "
        f"| {speed['graph']:,.0f}/s (unbend {speed['model']:,.0f}/s) |",
        flush=True,
    )
    return float(gap)


def _crops(n: int, side: int = 96) -> NDArray[np.uint8]:
    """Crops of the two photographs of scikit-learn, (n, 3, side, side)."""
    rng, photographs = np.random.default_rng(0), load_sample_images().images
    cut = []
    for number in range(n):
        top, left = rng.integers(427 - side), rng.integers(640 - side)
        cut.append(photographs[number % 2][top : top + side, left : left + side])
    return np.stack(cut).transpose(0, 3, 1, 2)


if __name__ == "__main__":
    main()
