"""Damaged files for every reader, through the command that reads them."""

from __future__ import annotations

import csv
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tools.attack.corpus import QUICK, UNFINISHED, Corpus
from tools.attack.mutate import damage, damage_json, damage_lines
from tools.attack.processes import Ended, call, judge
from unbend.runs import record_file

__all__ = ["READERS", "attempt", "fuzz"]

Damage = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Reader:
    """What is copied, the file in it that is damaged, and the command that reads it."""

    copied: str
    file: str  # within what was copied; the same name if that is a file
    command: tuple[object, ...]
    damage: Damage = damage
    resigned: bool = False  # whether the manifest gets the hash of the damaged file


def _predict(model: str, what: str) -> tuple[object, ...]:
    return ("predict", model, what, "-o", "labels.csv", "-q")


def _array(name: str) -> Reader:
    return Reader(name, name, _predict("{corpus}/run", name))


def _image(kind: str, number: int) -> Reader:
    return Reader("photos", f"{number:02d}.{kind}", _predict("{corpus}/images", "photos"))


def _model(name: str, how: Damage) -> Reader:
    return Reader("run", f"model/{name}", _predict("run", "{corpus}/x.npy"), how, resigned=True)


def _of_run(name: str, how: Damage, *command: object) -> Reader:
    return Reader("run", name, command, how, resigned=name != "manifest.json")


def _unfinished(name: str, how: Damage) -> Reader:
    return Reader("unfinished", name, (*UNFINISHED, "--resume"), how)


# `-k 99999` ends the command with one line after everything has been read, before any training.
READERS: dict[str, Reader] = {
    "npy": _array("x.npy"),
    "npz": _array("x.npz"),
    "npz-packed": _array("packed.npz"),
    "safetensors": _array("x.safetensors"),
    "parquet": _array("x.parquet"),
    "parquet-lists": _array("lists.parquet"),
    "feather": _array("x.feather"),
    "csv": _array("x.csv"),
    "csv-list": Reader("photos", "list.csv", _predict("{corpus}/images", "photos/list.csv")),
    "csv-labels": Reader(
        "y.csv", "y.csv",
        ("cluster", "{corpus}/x.npy", "--labels", "y.csv", "-k", 99999, "-o", "new", *QUICK),
    ),
    **{kind: _image(kind, i) for i, kind in enumerate(("png", "jpg", "gif", "webp", "bmp", "tif"))},
    "model.json": _model("model.json", damage_json),
    "model.safetensors": _model("model.safetensors", damage),
    "config.toml": Reader(
        "options.toml", "options.toml",
        ("cluster", "{corpus}/x.npy", "--config", "options.toml", "-k", 99999, "-o", "new"),
    ),
    "manifest.json": _of_run("manifest.json", damage_json, "report", "run"),
    "config.json": _of_run("config.json", damage_json, "report", "run"),
    "history.csv": _of_run("history.csv", damage, "report", "run"),
    "features.npy": _of_run("features.npy", damage, "report", "run"),
    "labels.parquet": _of_run(
        "labels.parquet", damage, "export", "run", "--format", "parquet", "-o", "new.parquet"
    ),
    "journal": Reader(
        "corrected", "curation.jsonl",
        ("export", "corrected", "--format", "csv", "--curated", "-o", "new.csv"), damage_lines,
    ),
    "run.json": _unfinished("run.json", damage_json),
    "checkpoint.json": _unfinished("state.json", damage_json),
    "checkpoint.safetensors": _unfinished("state.safetensors", damage),
    "encoder.json": Reader(
        "encoder", "encoder.json",
        ("embed", "{corpus}/photos", "--encoder", "encoder", "-o", "new.npy", "-q"), damage_json,
    ),
    "encoder.safetensors": Reader(
        "encoder", "encoder.safetensors",
        ("embed", "{corpus}/photos", "--encoder", "encoder", "-o", "new.npy", "-q"),
    ),
    "cache-entry": Reader(
        "cache", "*/*.safetensors",
        ("embed", "{corpus}/photos", "--encoder", "{corpus}/encoder", "-o", "new.npy", "-q"),
    ),
}  # fmt: skip


def fuzz(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """Damage one file for one reader; return what went wrong, or nothing."""
    ended = attempt(READERS[name], random.Random(f"{name}:{seed}"), corpus, folder)
    wrong = judge(ended)
    if wrong or ended.code:
        left = [p.name for p in folder.iterdir() if p.name.startswith(("labels.csv", "new", "."))]
        return wrong or (f"refused, but left {left[0]!r} behind" if left else "")
    return _finite(folder) or _as_before(READERS[name], corpus, folder)


def attempt(reader: Reader, rng: random.Random, corpus: Corpus, folder: Path) -> Ended:
    """Copy what is read, damage a file in it, and run the command."""
    source, copied = corpus.folder / reader.copied, folder / reader.copied
    if source.is_dir():
        shutil.copytree(source, copied)
    else:
        shutil.copy(source, copied)
    target = copied
    if source.is_dir():  # a pattern names one of several files
        target = rng.choice(sorted(p for p in copied.rglob(reader.file) if p.is_file()))
    before = target.read_bytes()
    target.write_bytes(reader.damage(before, rng))
    if reader.resigned:
        record_file(copied, reader.file)
    command = [str(a).replace("{corpus}", str(corpus.folder)) for a in reader.command]
    cache = copied if reader.copied == "cache" else folder / "cache"
    return call(*command, folder=folder, cache=cache)


def _finite(folder: Path) -> str:
    """Whether a table of labels that was written holds numbers only."""
    table = folder / "labels.csv"
    if not table.exists():
        return ""
    with open(table, newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            numbers = [float(row[key]) for key in ("cluster", "probability", "outlier_score")]
            if not all(map(math.isfinite, numbers)):
                return f"labels.csv holds {row}"
    return ""


def _as_before(reader: Reader, corpus: Corpus, folder: Path) -> str:
    """A damaged cache or checkpoint must never change a result."""
    results = {"cache": ("new.npy", "vectors.npy"), "unfinished": ("unfinished", "run")}
    if reader.copied not in results:
        return ""
    found, expected = (
        path / "labels.csv" if path.is_dir() else path
        for path in (folder / results[reader.copied][0], corpus.folder / results[reader.copied][1])
    )
    same = found.read_bytes() == expected.read_bytes()
    return "" if same else f"damage to {reader.file!r} changed the result"
