"""``python -m tools.attack``: all attacks, a table of them, and how to replay a failure."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

import unbend.workflows.cluster
import unbend.workflows.embed
import unbend.workflows.pretrain  # noqa: F401
from tools.attack import fuzz, kills, machine
from tools.attack.corpus import Corpus, make_corpus

Attack = Callable[[str, int, Corpus, Path], str]
ATTACKS: dict[str, tuple[Attack, list[str]]] = {
    "fuzz": (fuzz.fuzz, list(fuzz.READERS)),
    "kill": (kills.kill, list(kills.COMMANDS)),
    "signal": (kills.interrupt, list(kills.COMMANDS)),
    "full-disk": (machine.full_disk, list(kills.COMMANDS)),
    "read-only": (machine.read_only_disk, list(kills.COMMANDS)),
    "memory": (machine.little_memory, list(kills.COMMANDS)),
    "streams": (machine.odd_streams, list(kills.COMMANDS)),
    "concurrent": (machine.concurrent_runs, ["fresh", "overwrite"]),
}
# Cases of each attack in the whole attack.
COUNTS = {
    "fuzz": 2500, "kill": 200, "signal": 60, "full-disk": 60, "read-only": 14, "memory": 60,
    "streams": 40, "concurrent": 20,
}  # fmt: skip


@dataclass
class Row:
    """One line of the table."""

    cases: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0


def cases(attack: str, count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Targets and seeds of an attack: all targets in turn."""
    targets = ATTACKS[attack][1]
    for i in range(count):
        yield targets[i % len(targets)], seed + i // len(targets)


def run_case(attack: str, target: str, seed: int, corpus: Corpus) -> str:
    """One case in a folder of its own; what went wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        os.chmod(folder, 0o755)
        try:
            return ATTACKS[attack][0](target, seed, corpus, Path(folder))
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def run(attack: str, count: int, seed: int, corpus: Corpus) -> Row:
    """All cases of one attack."""
    row, begun = Row(), time.monotonic()
    for target, number in cases(attack, count, seed):
        wrong = run_case(attack, target, number, corpus)
        row.cases += 1
        if wrong:
            row.failed.append(f"{attack}:{target}:{number}")
            print(f"FAILED {row.failed[-1]}  {' '.join(wrong.split())[:300]}", flush=True)
    row.seconds = time.monotonic() - begun
    return row


def show(rows: dict[str, Row], seed: int) -> None:
    """The table, and how to replay what failed."""
    print(f"\n| attack, seed {seed} | cases | failed | seconds |\n|---|---:|---:|---:|")
    for name, row in rows.items():
        print(f"| {name} | {row.cases} | {len(row.failed)} | {row.seconds:.0f} |")
    total, failed = (sum(len(r.failed) if f else r.cases for r in rows.values()) for f in (0, 1))
    print(f"| all | {total} | {failed} | {sum(r.seconds for r in rows.values()):.0f} |")
    for case in (case for row in rows.values() for case in row.failed):
        print(f"replay: python -m tools.attack --replay {case}")


def main() -> int:
    """Run what was asked for; exit with 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the cases")
    parser.add_argument("--replay", metavar="ATTACK:TARGET:SEED")
    options = parser.parse_args()
    torch.set_num_threads(1)  # threads do not survive a fork
    with tempfile.TemporaryDirectory(prefix="attack-corpus-") as folder:
        os.chmod(folder, 0o755)
        corpus = make_corpus(Path(folder))
        if options.replay:
            attack, target, seed = options.replay.split(":")
            wrong = run_case(attack, target, int(seed), corpus)
            print(wrong or "passed")
            return int(bool(wrong))
        print(f"seed {options.seed}", flush=True)
        rows = {}
        for name in options.only:
            count = max(1, round(COUNTS[name] * options.scale))
            rows[name] = run(name, count, options.seed, corpus)
        show(rows, options.seed)
    return int(any(row.failed for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
