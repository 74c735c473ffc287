"""Decode images in worker processes; results come in the order of the requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from threading import Timer
from typing import IO, cast

from unbend.pixels import decode
from unbend.pixels.decode import Decoded, read_image

__all__ = ["decode_all", "worker_count"]

CHUNK = 16  # images per request
MIN_FOR_PROCESSES = 128  # for fewer images, starting processes costs more time than it saves
TIMEOUT = 120.0  # seconds after which a process that has not answered counts as stuck

# -I and the parent's own search path: a file in the user's directory cannot shadow a module.
_START = (
    "import sys, json, runpy; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
)


def worker_count(workers: int | None, n: int) -> int:
    """Number of processes for n images; None means one per core, 0 means no processes."""
    if workers is None:
        if n < MIN_FOR_PROCESSES:
            return 0
        affinity = getattr(os, "sched_getaffinity", None)
        workers = len(affinity(0)) if affinity else (os.cpu_count() or 1)
    elif isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ValueError(f"`workers` must be a whole number >= 0 or None, got {workers!r}; try 0")
    return min(workers, -(-n // CHUNK))


def decode_all(
    paths: Sequence[str], size: int, workers: int | None = None
) -> Generator[Decoded, None, None]:
    """Decode files in worker processes; yield one result per path, in the order of ``paths``.

    A file that crashes its process is reported as unreadable; the others are still decoded.
    """
    count = worker_count(workers, len(paths))
    if count == 0:
        yield from (read_image(path, size) for path in paths)
        return
    idle: SimpleQueue[_Worker] = SimpleQueue()
    team = [_Worker(size) for _ in range(count)]
    for worker in team:
        idle.put(worker)

    def work(chunk: Sequence[str]) -> list[Decoded]:
        worker = idle.get()
        try:
            return worker.decode(chunk)
        finally:
            idle.put(worker)

    threads = ThreadPoolExecutor(count)
    waiting: deque[Future[list[Decoded]]] = deque()
    try:
        for start in range(0, len(paths), CHUNK):
            waiting.append(threads.submit(work, paths[start : start + CHUNK]))
            if len(waiting) >= 4 * count:  # bounded, to limit memory
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for worker in team:
            worker.stop()
        threads.shutdown()


class _Worker:
    """One decoding process at the other end of two pipes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.process: subprocess.Popen[bytes] | None = None
        self.stopped = False

    def decode(self, paths: Sequence[str]) -> list[Decoded]:
        try:
            return self._ask(paths)
        except (EOFError, BrokenPipeError):
            code = self._end()
        if len(paths) > 1 and not self.stopped:  # retry one by one to find the culprit
            return [found for path in paths for found in self.decode([path])]
        return [Decoded(b"", None, f"the decoder crashed (exit code {code})", lasting=False)]

    def _ask(self, paths: Sequence[str]) -> list[Decoded]:
        if self.stopped:
            raise EOFError
        if self.process is None:
            self.process = _start(self.size)
        requests = cast(IO[bytes], self.process.stdin)
        requests.write(json.dumps(list(paths)).encode() + b"\n")
        requests.flush()
        watch = Timer(TIMEOUT, self.process.kill)
        watch.start()
        try:
            return [decode.decode_message(cast(IO[bytes], self.process.stdout)) for _ in paths]
        finally:
            watch.cancel()

    def _end(self) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        code = process.wait()
        _close(process)
        return code

    def stop(self) -> None:
        self.stopped = True
        process = self.process
        if process is not None and process.poll() is None:
            process.kill()  # it has no unsaved work
            process.wait()


def _start(size: int) -> subprocess.Popen[bytes]:
    search = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    command = [sys.executable, "-I", "-c", _START, search, str(decode.__file__), str(size)]
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **quiet},
    )


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # unsent bytes to a dead process
                pipe.close()
