"""The journal of a run, ``curation.jsonl``: one line per act, on disk before it is confirmed.

The first line names the labels that the acts belong to. A line that a kill cut off was never
confirmed and is dropped; any other damage is an error.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import atomic_write, hash_bytes, to_json
from unbend.explore.acts import Act, read_act
from unbend.explore.curation import Curation
from unbend.runs import JOURNAL

__all__ = ["JOURNAL", "Journal", "read_curation"]

_FORMAT = 1


class Journal:
    """The acts of a run and their effect, for one writer.

    Parameters
    ----------
    path : path
        The journal; made with the first act.
    labels : ndarray of shape (n,)
        The labels of the run.
    n_clusters : int, optional
        As in :class:`Curation`, for a new journal.
    read_only : bool
        Never write, not even to drop a line that was cut off.
    """

    def __init__(
        self,
        path: str | Path,
        labels: NDArray[np.int64],
        n_clusters: int | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.path, self.read_only = Path(path), read_only
        self._header = {"format": _FORMAT, "n": len(labels), "labels": _fingerprint(labels)}
        lines, self._end = self._read()
        if lines:  # new clusters are numbered as they were when the journal was begun
            n_clusters = self._check_header(self._parse(lines[0], 1))
        self.curation = Curation(labels, n_clusters)
        self._header["n_clusters"] = self.curation.n_original
        self._replay(lines)
        self._handle: int | None = None

    def record(self, act: Act) -> None:
        """Do an act and write it; when this returns, it survives a kill and a power cut.

        If it cannot be done or written, a ValueError or OSError is raised and nothing changes.
        """
        if self.read_only:
            raise PermissionError("this page is read-only; start unbend explore without it")
        self.curation.check(act)
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._append(to_json({**act.to_dict(), "at": now}).encode() + b"\n")
        self.curation.apply(act)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _append(self, line: bytes) -> None:
        if self._handle is None:
            self._handle = self._open()
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
        except OSError as error:
            with suppress(OSError):  # a full disk; what is left over ends without a newline
                os.ftruncate(self._handle, self._end)
            reason = error.strerror or str(error)
            raise OSError(f"cannot write {str(self.path)!r}: {reason}; nothing changed") from error
        self._end += len(line)

    def _open(self) -> int:
        if not self.path.exists():
            head = to_json(self._header) + "\n"
            atomic_write(self.path, head)
            self._end = len(head.encode())
        flags = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
        handle = os.open(self.path, flags | getattr(os, "O_NOFOLLOW", 0))
        if os.fstat(handle).st_size != self._end:
            os.ftruncate(handle, self._end)  # a line that was cut off
        return handle

    def _read(self) -> tuple[list[bytes], int]:
        """The whole lines of the file, and their length."""
        if not os.path.lexists(self.path):
            return [], 0
        if not self.path.is_file():  # a pipe would never end
            raise ValueError(f"{str(self.path)!r} is not a regular file; move it away")
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        lines = data[:end].splitlines()
        if not lines:  # the first line is written whole or not at all
            raise self._damaged(1, ValueError("it names no labels"))
        return lines, end

    def _replay(self, lines: list[bytes]) -> None:
        """Do the acts of all lines but the first."""
        for number, line in enumerate(lines[1:], 2):
            try:
                self.curation.apply(read_act(self._parse(line, number), self.curation.n))
            except ValueError as error:
                raise self._damaged(number, error) from error

    def _parse(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            tree = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._damaged(number, error) from error
        if not isinstance(tree, dict):
            raise self._damaged(number, ValueError("it is not an object"))
        return tree

    def _check_header(self, found: dict[str, Any]) -> int:
        """The number of clusters that the acts began with."""
        if found.get("format") != _FORMAT:
            raise ValueError(
                f"{str(self.path)!r} has format {found.get('format')!r}, this version reads "
                f"{_FORMAT}; update unbend"
            )
        k = found.get("n_clusters")
        if found != {**self._header, "n_clusters": k} or type(k) is not int:
            raise ValueError(
                f"{str(self.path)!r} belongs to other labels than those of this run; move it away"
            )
        if not 0 <= k <= found["n"]:
            raise self._damaged(1, ValueError(f"{k} clusters of {found['n']} samples"))
        return k

    def _damaged(self, number: int, error: Exception) -> ValueError:
        if isinstance(error, ValueError) and "is damaged: line" in str(error):
            return error
        return ValueError(
            f"{str(self.path)!r} is damaged: line {number}: {error}; delete the lines from there on"
        )


def read_curation(
    run: str | Path, labels: NDArray[np.int64], n_clusters: int | None = None
) -> Curation:
    """The corrected clusters of a run: its labels with all acts of its journal."""
    path = Path(run) / JOURNAL
    if not path.is_file():
        raise ValueError(
            f"the run {str(run)!r} has no corrections; make some: unbend explore {run}"
        )
    return Journal(path, labels, n_clusters, read_only=True).curation


def _fingerprint(labels: NDArray[np.int64]) -> str:
    return hash_bytes(np.ascontiguousarray(labels, dtype="<i8").tobytes())
