"""Run the command line in a forked process, and judge how it ended."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unbend.cli import main

__all__ = ["Ended", "call", "judge", "start", "wait"]

LIMIT = 300.0  # seconds; on a busy machine even a good case may wait for a core


@dataclass(frozen=True)
class Ended:
    """How a process ended: exit code (negative for a signal), its output, whether it hung."""

    code: int
    out: str
    err: str
    hung: bool = False


@dataclass(frozen=True)
class Running:
    """A process that was started."""

    pid: int
    streams: tuple[int, int]  # pipes: a limit on the size of files does not cut them
    limit: float


def start(
    *arguments: object,
    folder: Path,
    prepare: Callable[[], None] | None = None,
    limit: float = LIMIT,
    cache: Path | None = None,
) -> Running:
    """``unbend ARGUMENTS`` in ``folder``, in a child of this process: torch is loaded already.

    ``prepare`` runs in the child first, for limits and rights.
    """
    pipes = [os.pipe(), os.pipe()]
    child = os.fork()
    if child:
        for read, write in pipes:
            os.close(write)
            os.set_blocking(read, False)
        return Running(child, (pipes[0][0], pipes[1][0]), limit)
    try:
        os.setpgid(0, 0)
        for number, (_, write) in enumerate(pipes, start=1):
            os.dup2(write, number)
        # Whoever runs us may have put something else in their place, as pytest does.
        sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        os.chdir(folder)
        os.environ["UNBEND_CACHE"] = str(cache or folder / "cache")
        if prepare is not None:
            prepare()
        main([str(a) for a in arguments], prog_name="unbend")
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def wait(running: Running) -> Ended:
    """Wait for a process; one that takes too long is killed."""
    end, hung = time.monotonic() + running.limit, False
    texts = [b"", b""]
    while True:
        found = os.waitpid(running.pid, os.WNOHANG)
        texts = [text + _read(stream) for text, stream in zip(texts, running.streams, strict=True)]
        if found[0]:
            break
        if time.monotonic() > end:
            hung = True
            os.killpg(running.pid, signal.SIGKILL)
        time.sleep(0.005)
    for stream in running.streams:
        os.close(stream)
    out, err = (text.decode(errors="replace") for text in texts)
    return Ended(os.waitstatus_to_exitcode(found[1]), out, err, hung)


def _read(stream: int) -> bytes:
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(stream, 1 << 16):
            parts.append(part)
    return b"".join(parts)


def call(*arguments: object, folder: Path, **options: object) -> Ended:
    """Start and wait."""
    return wait(start(*arguments, folder=folder, **options))  # type: ignore[arg-type]


def judge(ended: Ended, *, codes: tuple[int, ...] = (0, 2)) -> str:
    """What is wrong with the end of a process; empty if nothing is.

    Bad input is exit code 2 and one line that begins with ``unbend:``, beside warnings.
    """
    if ended.hung:
        return "it hung"
    if ended.code < 0 and ended.code not in codes:
        return f"ended by {signal.Signals(-ended.code).name}: {_last(ended.err)}"
    if ended.code not in codes:
        return f"exit code {ended.code}: {_last(ended.err)}"
    if "Traceback" in ended.err:
        return f"a traceback: {_last(ended.err)}"
    lines = [
        line
        for line in ended.err.splitlines()
        if line.startswith("unbend: ") and not line.startswith("unbend: warning:")
    ]
    if ended.code == 2 and len(lines) != 1:
        return f"{len(lines)} lines instead of one: {_last(ended.err)}"
    return ""


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "(no words)"
