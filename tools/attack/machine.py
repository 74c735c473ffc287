"""Full and read-only disks, little memory, odd streams, and several writers at once."""

from __future__ import annotations

import os
import random
import resource
import signal
from pathlib import Path

import numpy as np

from tools.attack.corpus import Corpus
from tools.attack.kills import COMMANDS, contents, filled, reference
from tools.attack.processes import call, judge, start, wait
from unbend import load
from unbend.runs import check_run, read_labels

__all__ = ["concurrent_runs", "full_disk", "little_memory", "odd_streams", "read_only_disk"]

_NOBODY = 65534


def full_disk(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """No file may grow beyond a random size: one line, and nothing half written."""
    first, again, target = COMMANDS[name]
    most = int(10 ** random.Random(f"disk:{seed}").uniform(0, 5.5))

    def prepare() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    ended = call(*filled(first, corpus), folder=folder, prepare=prepare)
    there, wrong = folder / target, judge(ended)
    if not wrong and ended.code and there.exists() and (there.is_file() or not again):
        wrong = f"refused, but {target} is there"
    if wrong:
        return f"files of at most {most} bytes: {wrong}"
    if ended.code:
        options = again if there.exists() else ()
        wrong = judge(call(*filled(first, corpus), *options, folder=folder), codes=(0,))
    whole = contents(there) == reference(name, corpus, folder)[1]
    return wrong or ("" if whole else f"files of at most {most} bytes: {target} is not whole")


def read_only_disk(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """The output folder, or the cache as well, cannot be written."""
    first, _, _ = COMMANDS[name]
    cache_too = random.Random(f"rights:{seed}").random() < 0.5
    cache = folder / "cache"
    cache.mkdir()
    cache.chmod(0o555 if cache_too else 0o777)
    folder.chmod(0o555)

    def prepare() -> None:
        if os.getuid() == 0:  # rights mean nothing to root
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)

    try:
        ended = call(*filled(first, corpus), folder=folder, prepare=prepare, cache=cache)
    finally:
        folder.chmod(0o755)
    wrong = judge(ended, codes=(2,))
    named = "'out" in ended.err or (cache_too and str(cache) in ended.err)
    return wrong or ("" if named else f"the wrong path is named, or none: {ended.err}")


def little_memory(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """A little more address space than the process has at the start."""
    first, _, _ = COMMANDS[name]
    more = int(10 ** random.Random(f"memory:{seed}").uniform(5, 8.5))

    def prepare() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))

    ended = call(*filled(first, corpus), folder=folder, prepare=prepare)
    if "OpenBLAS error: Memory allocation" in ended.err:
        return ""  # it says so itself and ends the process; nobody can catch that
    wrong = judge(ended)
    return f"{more} bytes more than at the start: {wrong}" if wrong else ""


def odd_streams(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """Closed, full or unread standard streams."""
    first, _, target = COMMANDS[name]
    rng = random.Random(f"streams:{seed}")
    streams = rng.sample([0, 1, 2], rng.randint(1, 3))
    how = rng.choice(["closed", "full", "unread"])

    def prepare() -> None:
        for number in streams:
            if how == "closed":
                os.close(number)
            elif how == "full":
                os.dup2(os.open("/dev/full", os.O_RDWR), number)
            else:
                nobody, end = os.pipe()
                os.close(nobody)
                os.dup2(end, number)

    ended = call(*filled(first, corpus), folder=folder, prepare=prepare)
    fine = ended.code == 0 or (ended.code == 2 and how == "full" and 1 in streams)
    wrong = "it hung" if ended.hung else "" if fine else f"code {ended.code}: {ended.err[-300:]}"
    if not wrong and not (folder / target).exists():
        wrong = f"{target} is missing"
    return f"streams {streams} {how}: {wrong}" if wrong else ""


def concurrent_runs(name: str, seed: int, corpus: Corpus, folder: Path) -> str:
    """Three writers with different seeds: at least one whole run, and it is of one writer."""
    base = ["cluster", str(corpus.folder / "x.npy"), "-k", "3", "-o", "out", "--no-report", "-q"]
    short = [a for s in ("pretrain", "stage2") for a in ("--set", f"{s}.epochs=1")]
    overwrite = ["--overwrite"] if name == "overwrite" else []
    children = [
        start(*base, *short, *overwrite, "--seed", 10 * seed + i, folder=folder) for i in range(3)
    ]
    ended = [wait(child) for child in children]
    for each in ended:
        if wrong := judge(each):
            return wrong
    if all(each.code for each in ended):
        return f"nobody finished: {ended[0].err}"
    check_run(folder / "out")
    labels = read_labels(folder / "out" / "labels.parquet").labels
    model = load(folder / "out" / "model")
    return (
        "" if np.array_equal(model.labels_, labels) else "labels of one beside the model of another"
    )
