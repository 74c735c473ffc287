"""What one core does in a second: decode, encode, predict. The page on many machines uses it.

CPU seconds are counted, not those of the clock, so other work on the machine changes little. Run
``python -m benchmarks.throughput [--json PATH]``.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.harness import describe_run, write_json
from unbend import MLC
from unbend.networks import load_encoder
from unbend.pixels.decode import decode

SHORT = {"pretrain.max_steps": 20, "stage2.max_steps": 5}


def per_second(items: int, work: Callable[[], object], rounds: int = 3) -> float:
    """Items per CPU second, the median of some rounds."""
    work()
    rates = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        rates.append(items / (time.process_time() - begun))
    return float(np.median(rates))


def photograph(side: int, seed: int = 0) -> bytes:
    """A JPEG with edges and noise, about as large as a photograph of that size."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (side // 16, side // 16, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC))
    noisy = smooth.astype(np.int16) + rng.integers(-12, 12, smooth.shape)
    out = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=85)
    return out.getvalue()


def measure() -> dict[str, Any]:
    """All figures, for one thread."""
    jpeg = photograph(512)
    found: dict[str, Any] = {"jpeg_bytes": len(jpeg)}
    found["decode_per_s"] = per_second(
        20, lambda: [decode(io.BytesIO(jpeg), 224) for _ in range(20)]
    )
    rng = np.random.default_rng(0)
    for name in ("lite0", "lite2"):
        encoder = load_encoder(name, device="cpu")
        side = encoder.resolution if isinstance(encoder.resolution, int) else 224
        images = rng.integers(0, 256, (16, 3, side, side), dtype=np.uint8)
        found[f"{name}_per_s"] = per_second(16, lambda e=encoder, x=images: e.encode(x))
        found[f"{name}_width"] = encoder.dim
    for k in (10, 1000):
        X = rng.normal(size=(20_000, 64)).astype(np.float32)
        model = MLC(k, settings=SHORT, random_state=0).fit(X[:5000])
        found[f"predict_k{k}_per_s"] = per_second(len(X), lambda m=model, x=X: m.assess(x))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        np.save(path, X)
        found["vector_bytes"] = path.stat().st_size / len(X)
    return found


def arithmetic(found: dict[str, Any], n: int = 10**9, machines: int = 16, cores: int = 64) -> str:
    """Hours and bytes of n samples on machines with that many cores and 10 Gbit/s each."""
    wire = 10e9 / 8 * machines
    images = n * found["jpeg_bytes"]
    vectors = n * found["lite2_width"] * 4
    rows = [
        ("read the images", 0.0, images),
        ("decode", n / found["decode_per_s"], 0.0),
        ("encode with lite2", n / found["lite2_per_s"], 0.0),
        ("encode with lite0", n / found["lite0_per_s"], 0.0),
        ("write the vectors of lite2", 0.0, vectors),
        ("predict, 10 clusters", n / found["predict_k10_per_s"], 0.0),
        ("predict, 1,000 clusters", n / found["predict_k1000_per_s"], 0.0),
    ]
    lines = ["| step | core hours | TB | hours on the cluster |", "|---|---:|---:|---:|"]
    for name, seconds, size in rows:
        hours = max(seconds / (machines * cores), size / wire) / 3600
        lines.append(f"| {name} | {seconds / 3600:,.0f} | {size / 1e12:,.2f} | {hours:,.2f} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print, and what follows for 10⁹ samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="PATH", help="write the result here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = {**describe_run(), **measure()}
    print(json.dumps(found, indent=1))
    print(arithmetic(found))
    if options.json:
        write_json(options.json, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
