"""Find, download, verify and unpack the files of the named sets."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unbend.disk import atomic_open, default_data_dir, hash_file
from unbend.progress import Progress, Tick, silent

__all__ = ["Archive", "DataStore", "check", "read_gz"]


@dataclass(frozen=True)
class Archive:
    """A published file: its name, URL and published checksum."""

    file: str
    url: str
    md5: str


@dataclass(frozen=True)
class DataStore:
    """Where the files of the named sets are, and whether missing ones may be downloaded."""

    directory: Path = field(default_factory=default_data_dir)
    download: bool = True
    progress: Progress = silent

    def find(self, *names: str) -> Path | None:
        """The first of the given relative paths that exists."""
        return next((p for name in names if (p := self.directory / name).exists()), None)

    def fetch(self, archive: Archive, folder: str = "", hint: str = "") -> Path:
        """Path of the archive; downloads it if it is missing and downloads are allowed."""
        place = self.directory / folder
        for path in (place / archive.file, self.directory / archive.file):
            if path.is_file():
                return path
        why = "downloads are turned off"
        if self.download:
            from requests import RequestException

            try:
                return self._download(archive, place / archive.file)
            except RequestException as error:
                why = f"the download failed: {error}"
        raise FileNotFoundError(
            f"{archive.file} is missing and {why}; get it from {archive.url} and put it into "
            f"{str(place)!r} (UNBEND_DATA names another directory){hint}"
        )

    def unpack(
        self, archive: Archive, folder: str, members: Mapping[str, str], hint: str = ""
    ) -> dict[str, Path]:
        """Members of a tar archive by name, each checked against its md5 if it has one.

        They are written once, under their own names, into ``folder``; paths in the archive are
        never used. Existing files are checked and reused.
        """
        paths = {name: self.directory / folder / name for name in members}
        if not all(path.is_file() for path in paths.values()):
            packed = self.fetch(archive, hint=hint)
            missing = {name: md5 for name, md5 in members.items() if not paths[name].is_file()}
            _extract(packed, missing, self.directory / folder)
        for name, path in paths.items():
            check(path, members[name])
        return paths

    def _download(self, archive: Archive, target: Path) -> Path:
        from pooch import HTTPDownloader

        ticker = _Ticker(f"download {archive.file}", self.progress)
        # Keep compressed files compressed: their checksum is that of the compressed file.
        headers = {"User-Agent": "unbend", "Accept-Encoding": "identity"}
        download = HTTPDownloader(progressbar=ticker, timeout=30, headers=headers)
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_open(target) as file:
            download(archive.url, file, None)
            file.flush()
            check(Path(file.name), archive.md5, archive.file)
        return target


class _Ticker:
    """A pooch progress bar that reports to a progress callback."""

    def __init__(self, stage: str, tell: Progress) -> None:
        self.stage, self.tell = stage, tell
        self.total = self.done = 0

    def update(self, more: int) -> None:
        self.done += more
        self.tell(Tick(self.stage, min(self.done, self.total or self.done), self.total))

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing; pooch requires the method."""


def check(path: Path, expected: str, name: str = "") -> None:
    """Raise a ValueError if the md5 differs from the published one; skip if there is none."""
    if expected and (found := hash_file(path, "md5")) != expected:
        shown = name or repr(str(path))
        raise ValueError(
            f"{shown} is damaged or another version (md5 {found}, expected "
            f"{expected}); delete it and get it again"
        )


def read_gz(path: Path) -> bytes:
    """Content of a file that may be compressed with gzip."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                return file.read()
        return path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}); get it again") from error


def _extract(packed: Path, wanted: Mapping[str, str], target: Path) -> None:
    left = set(wanted)
    target.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(packed) as tar:
            for member in tar:
                name = os.path.basename(member.name)
                content = tar.extractfile(member) if member.isfile() and name in left else None
                if content is not None:
                    with atomic_open(target / name) as file, content:
                        shutil.copyfileobj(content, file, 1 << 20)
                        file.flush()
                        check(Path(file.name), wanted[name], f"{name} in {str(packed)!r}")
                    left.discard(name)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{str(packed)!r} is damaged ({error}); get it again") from error
    if left:
        raise ValueError(f"{str(packed)!r} lacks {', '.join(sorted(left))}; get it again")
