"""`python -m tests.algorithm.killing FOLDER KILLS`: run, kill at random moments, resume, compare.

Children are forked before torch computes anything, so the libraries are loaded once.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.algorithm.problem import fingerprint, run


def forked(path: Path | None, out: Path, changes: dict) -> int:
    """Start a run in a process of its own that writes its fingerprint at the end."""
    child = os.fork()
    if child == 0:
        out.write_text(fingerprint(run(path, changes=changes)))
        os._exit(0)
    return child


def kill_later(child: int, folder: Path, rng: random.Random) -> None:
    """kill -9 at a random moment after the next checkpoint, or in the writing of it."""
    seen = set(folder.glob("checkpoint-*"))
    while not set(folder.glob("checkpoint-*")) - seen:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def main(folder: Path, kills: int) -> None:
    steps = 10 * kills
    changes = {f"{s}.{m}_steps": steps for s in ("pretrain", "stage2") for m in ("min", "max")}
    kept, rng = folder / "kept", random.Random(0)
    os.waitpid(forked(None, folder / "whole", changes), 0)
    for _ in range(kills):
        kill_later(forked(kept, folder / "early", changes), kept, rng)
    os.waitpid(forked(kept, folder / "resumed", changes), 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
