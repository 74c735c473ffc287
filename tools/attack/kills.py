"""``kill -9`` and signals at random moments: the same call again must end as if none came."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tools.attack.corpus import QUICK, Corpus
from tools.attack.processes import Ended, judge, start, wait

__all__ = ["COMMANDS", "contents", "filled", "interrupt", "kill", "reference"]

_SIZE = ("--image-size", "8")
# What to run, what again after the kill, and what it writes.
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "cluster-array": (
        ("cluster", "{corpus}/x.npy", "-k", "4", "-o", "out", "--no-report", *QUICK),
        ("--resume",), "out",
    ),
    "cluster-folder": (
        ("cluster", "{corpus}/photos", "-k", "3", "-o", "out", "--encoder", "{corpus}/encoder",
         "--no-report", *QUICK),
        ("--resume",), "out",
    ),
    "predict": (
        ("predict", "{corpus}/run", "{corpus}/x.npy", "-o", "out.csv", "-q"),
        ("--overwrite",), "out.csv",
    ),
    "predict-folder": (
        ("predict", "{corpus}/images", "{corpus}/photos", "-o", "out.parquet", "-q"),
        ("--overwrite",), "out.parquet",
    ),
    "embed": (
        ("embed", "{corpus}/photos", "--encoder", "{corpus}/encoder", "-o", "out.npy", "-q"),
        ("--overwrite",), "out.npy",
    ),
    "pretrain": (
        ("pretrain", "{corpus}/photos", "-o", "out", *_SIZE, *QUICK), ("--resume",), "out",
    ),
    "export": (
        ("export", "{corpus}/images", "--format", "imagefolder", "--images", "{corpus}/photos",
         "-o", "out", "--copy"),
        (), "out",
    ),
}  # fmt: skip
_references: dict[str, tuple[float, dict[str, bytes]]] = {}


def kill(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """Kill a command at a random moment, run it again, and compare with an undisturbed run."""
    return _disturb(name, seed, corpus, folder, signal.SIGKILL)


def interrupt(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """The same by Ctrl-C or SIGTERM, where the command must end by itself."""
    number = random.Random(f"signal:{seed}").choice([signal.SIGINT, signal.SIGTERM])
    return _disturb(name, seed, corpus, folder, number)


def _disturb(name: str, seed: int, corpus: Corpus, folder: Path, number: int) -> str:
    first, again, target = COMMANDS[name]
    seconds, expected = reference(name, corpus, folder)
    moment = random.Random(f"{name}:{seed}").uniform(0, 1.1) * seconds
    running = start(*filled(first, corpus), folder=folder)
    time.sleep(moment)
    _send(running.pid, number)
    ended = wait(running)
    wrong = _judge_signal(ended, number)
    if wrong:
        return f"after {moment:.2f} s: {wrong}"
    there = folder / target
    if there.is_file() and contents(there) != expected:
        return f"killed after {moment:.2f} s, {target} was there but not whole"
    if not again and there.exists():  # what cannot be replaced must be whole
        return "" if contents(there) == expected else f"{target} is there but not whole"
    wrong = judge(wait(start(*filled(first, corpus), *again, folder=folder)), codes=(0,))
    if wrong:
        return f"the second call after a kill at {moment:.2f} s: {wrong}"
    if contents(there) != expected:
        return f"killed after {moment:.2f} s, the second call gave something else"
    return _strays(folder, target)


def _judge_signal(ended: Ended, number: int) -> str:
    if number == signal.SIGKILL:
        return "" if ended.code in (0, -signal.SIGKILL) else judge(ended, codes=(0,))
    return judge(ended, codes=(0, 130, 1, -number) if "Abort" in ended.err else (0, 130, -number))


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def reference(name: str, corpus: Corpus, folder: Path) -> tuple[float, dict[str, bytes]]:
    """Seconds and files of an undisturbed call; the first call of a command finds no cache."""
    if name not in _references:
        first, _, target = COMMANDS[name]
        place = folder / "reference"
        place.mkdir()
        begun = time.monotonic()
        ended = wait(start(*filled(first, corpus), folder=place))
        if ended.code:
            raise RuntimeError(f"{name} fails undisturbed: {ended.err}")
        _references[name] = (time.monotonic() - begun, contents(place / target))
    return _references[name]


def filled(arguments: tuple[str, ...], corpus: Corpus) -> list[str]:
    return [a.replace("{corpus}", str(corpus.folder)) for a in arguments]


def contents(path: Path) -> dict[str, bytes]:
    """All files but those that hold seconds."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {
        str(p.relative_to(path.parent)): p.read_bytes() for p in files if p.name != "manifest.json"
    }


def _strays(folder: Path, target: str) -> str:
    """A run leaves nothing beside itself; a single file may leave its own temporary one."""
    allowed = {"reference", "cache", target, Path(target).with_suffix(".csv").name}
    left = [p.name for p in folder.iterdir() if p.name not in allowed]
    left = [n for n in left if not (n.endswith(".tmp") and n.startswith((f".{target}", ".out")))]
    return f"left {left[0]!r} behind" if left else ""
