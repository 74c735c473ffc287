"""The directory with the files of the named sets: find, verify, unpack, download."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tarfile
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import URLError

from unbend.data.places import default_data_dir, replace_file
from unbend.progress import Progress, Tick, silent

__all__ = ["Archive", "Shelf", "check", "md5", "read_gz"]


@dataclass(frozen=True)
class Archive:
    """A published file: its name, where it comes from, and its checksum as published."""

    file: str
    url: str
    md5: str


@dataclass(frozen=True)
class Shelf:
    """Where the files of the named sets are, and whether missing ones may be downloaded."""

    directory: Path = field(default_factory=default_data_dir)
    download: bool = True
    progress: Progress = silent

    def find(self, *names: str) -> Path | None:
        """The first of some relative paths that exists."""
        return next((p for name in names if (p := self.directory / name).exists()), None)

    def fetch(self, archive: Archive, folder: str = "", hint: str = "") -> Path:
        """The archive on the shelf; downloaded when it is not there and there is a network."""
        place = self.directory / folder
        for path in (place / archive.file, self.directory / archive.file):
            if path.is_file():
                return path
        why = "downloading is switched off"
        if self.download:
            try:
                return self._download(archive, place / archive.file)
            except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
                why = f"the download failed: {getattr(error, 'reason', error)}"
        raise FileNotFoundError(
            f"{archive.file} is missing and {why}; get it from {archive.url} and put it into "
            f"{str(place)!r} (UNBEND_DATA names another directory){hint}"
        )

    def unpack(
        self, archive: Archive, folder: str, members: Mapping[str, str], hint: str = ""
    ) -> dict[str, Path]:
        """Members of a tar archive by name, each checked against its md5 if it has one.

        They are written once, under their own names, into ``folder``; paths in the archive are
        never used. A folder that is there already, however it came there, is used as it is.
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
        request = urllib.request.Request(archive.url, headers={"User-Agent": "unbend"})
        with replace_file(target) as temporary:
            with (
                urllib.request.urlopen(request, timeout=30) as answer,
                open(temporary, "wb") as file,
            ):
                total = int(answer.headers.get("Content-Length") or 0)
                _copy(answer, file, total, f"download {archive.file}", self.progress)
            check(temporary, archive.md5, archive.file)
        return target


def check(path: Path, expected: str, name: str = "") -> None:
    """Raise a ValueError unless the file has the published md5; without one, nothing is known."""
    if expected and (found := md5(path)) != expected:
        shown = name or repr(str(path))
        raise ValueError(
            f"{shown} is damaged or another version (md5 {found}, expected "
            f"{expected}); delete it and get it again"
        )


def md5(path: Path) -> str:
    """The md5 of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def read_gz(path: Path) -> bytes:
    """Content of a file that may be packed with gzip."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as file:
                return file.read()
        return path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}); get it again") from error


def _copy(source: IO[bytes], target: IO[bytes], total: int, stage: str, tell: Progress) -> None:
    done = 0
    while block := source.read(1 << 20):
        target.write(block)
        done += len(block)
        tell(Tick(stage, done, max(total, done)))
    if total and done != total:
        raise ConnectionError(f"only {done} of {total} bytes arrived")


def _extract(packed: Path, wanted: Mapping[str, str], target: Path) -> None:
    left = set(wanted)
    try:
        with tarfile.open(packed) as tar:
            for member in tar:
                name = os.path.basename(member.name)
                content = tar.extractfile(member) if member.isfile() and name in left else None
                if content is not None:
                    with replace_file(target / name) as temporary:
                        with content, open(temporary, "wb") as file:
                            shutil.copyfileobj(content, file, 1 << 20)
                        check(temporary, wanted[name], f"{name} in {str(packed)!r}")
                    left.discard(name)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{str(packed)!r} is damaged ({error}); get it again") from error
    if left:
        raise ValueError(f"{str(packed)!r} lacks {', '.join(sorted(left))}; get it again")
