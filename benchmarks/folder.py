"""Cluster a folder of images twice: how soon does the second run start to train?

Run as ``python -m benchmarks.folder [--n 20000] [--side 64] [--encoder auto] [--json PATH]``.
Both runs are what ``unbend cluster FOLDER -k 10`` does, with its encoder, its settings and its
report, in processes of their own with one cache, which is empty at first. The clock starts before
the process does, so that loading the library counts; stage 2 has begun when its first step is
done. The labels of both runs must be the same. Exits with 1 if the target is missed. Other work
on the machine can hit one run and not the other, so the same share of processor time is shown too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Target, write_json
from unbend.progress import Tick

BOUND = 0.05  # of the first run's time


def write_images(folder: Path, n: int, side: int) -> None:
    """JPEG files of smooth random pictures, a thousand to a sub-folder."""
    rng = np.random.default_rng(0)
    for i in range(n):
        home = folder / f"{i // 1000:03}"
        home.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        coarse.resize((side, side), Image.Resampling.BICUBIC).save(home / f"{i:06}.jpg", quality=90)


def _cluster(folder: Path, out: Path, encoder: str, start: float, answer: Any) -> None:
    """In a process of its own: cluster, and send the seconds at which each stage began."""
    from unbend.workflows import cluster

    began: dict[str, float] = {"loaded": time.time() - start}
    worked: dict[str, float] = {"loaded": _processor_seconds()}

    def listen(tick: Tick) -> None:
        began.setdefault(tick.stage, time.time() - start)
        worked.setdefault(tick.stage, _processor_seconds())

    cluster(folder, out=out, n_clusters=10, encoder=encoder, progress=listen)
    total = {"total": time.time() - start, "processor": _processor_seconds()}
    answer.put({"began": began, "worked": worked, **total})


def _processor_seconds() -> float:
    """Of this process and of those that decoded for it."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(folder: Path, home: Path, encoder: str) -> list[dict[str, Any]]:
    """Both runs, one after the other, with a cache of their own."""
    os.environ["UNBEND_CACHE"] = str(home / "cache")  # inherited by the two processes
    context = multiprocessing.get_context("spawn")
    found = []
    for number in (1, 2):
        answer = context.Queue()
        out = home / f"run {number}"
        # A clock that both processes share.
        given = (folder, out, encoder, time.time(), answer)
        process = context.Process(target=_cluster, args=given)
        process.start()
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"run {number} ended with code {process.exitcode}")
        found.append(answer.get(timeout=60))
    if (home / "run 1" / "labels.csv").read_bytes() != (home / "run 2" / "labels.csv").read_bytes():
        raise RuntimeError("the two runs gave different labels")
    return found


def show(result: dict[str, Any], console: Console) -> None:
    """Print when each stage began, then the target."""
    table = Table(title=f"{result['n']} images of {result['side']} pixels, {result['encoder']}")
    for heading in ("run", "stage 2 begins, s", "ends, s", "stages before"):
        table.add_column(heading, justify="left" if heading == "stages before" else "right")
    for number, run in enumerate(result["runs"], 1):
        before = {k: v for k, v in run["began"].items() if v < run["began"]["stage 2"]}
        words = ", ".join(f"{stage} at {s:.2f}" for stage, s in before.items()) or "none"
        table.add_row(str(number), f"{run['began']['stage 2']:.2f}", f"{run['total']:.2f}", words)
    console.print(table)
    target = result["target"]
    verdict = "pass" if target["passed"] else "FAIL"
    console.print(f"{target['name']}: {target['measured']:.3f} <= {target['bound']} {verdict}")
    console.print(f"the same in processor time: {result['processor_share']:.3f}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=20_000, help="number of images")
    parser.add_argument("--side", type=int, default=64, help="pixels of the images")
    parser.add_argument("--encoder", default="auto", help="as in unbend cluster")
    parser.add_argument("--json", metavar="PATH", help="write figures, machine and commit here")
    options = parser.parse_args(arguments)
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        console.print(f"writing {options.n} images ...")
        write_images(home / "images", options.n, options.side)
        runs = measure(home / "images", home, options.encoder)
    result: dict[str, Any] = {"n": options.n, "side": options.side, "encoder": options.encoder}
    share = runs[1]["began"]["stage 2"] / runs[0]["total"]
    target = Target("second run's way to stage 2 / first run", share, BOUND, at_least=False)
    processor = runs[1]["worked"]["stage 2"] / runs[0]["processor"]
    result |= {"runs": runs, "target": target.as_dict(), "processor_share": processor}
    show(result, console)
    if options.json:
        write_json(options.json, result)
    return 0 if target.passed else 1


if __name__ == "__main__":
    sys.exit(main())
