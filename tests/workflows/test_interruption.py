"""A run killed at any moment can be resumed with the same result.

Processes are forked, not started, which saves the time of loading the libraries.
"""

import os
import resource
import signal
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.interruption import contents, names, one_thread  # noqa: F401

from unbend.workflows import cluster

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

QUICK = {
    "pretrain.epochs": 2,
    "pretrain.min_steps": 4,
    "stage2.epochs": 2,
    "stage2.min_steps": 4,
}


@pytest.fixture(autouse=True, scope="module")
def own_caches():
    """What :func:`work` sets ends with these tests."""
    before = os.environ.get("UNBEND_CACHE")
    yield
    os.environ.pop("UNBEND_CACHE", None)
    if before is not None:
        os.environ["UNBEND_CACHE"] = before


@pytest.fixture(scope="module")
def pictures():
    """Small gray images, so that thumbnails are written too."""
    rng = np.random.default_rng(0)
    base = np.repeat(rng.integers(0, 200, size=(3, 8, 8)), 20, axis=0)
    return (base + rng.integers(0, 50, size=(60, 8, 8))).astype(np.uint8)


def work(X, out, **options):
    # A cache of its own: no run begins where stage 1 of another one ended.
    os.environ["UNBEND_CACHE"] = f"{out}.cache"
    y = np.repeat(np.arange(3), 20)
    return cluster(X, out=out, n_clusters=3, settings=QUICK, labels=y, **options)


def forked(function) -> int:
    """Status of a child process that runs a function."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(9)
    return os.waitpid(child, 0)[1]


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def whole(pictures, tmp_path_factory):
    """An uninterrupted run."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("whole") / "run"
    work(pictures, folder)
    return folder


MOMENTS = ["stage 1", "stage 2", "labels", "writing", "report"]


@pytest.mark.parametrize("stage", MOMENTS)
def test_resume_after_a_kill_in_any_stage(pictures, whole, tmp_path, stage):
    def listen(tick):
        if tick.stage == stage and tick.done == min(2, tick.total - 1):
            die()
        if tick.stage == stage and stage in ("labels", "writing"):
            die()

    status = forked(lambda: work(pictures, tmp_path / "run", progress=listen))
    assert os.WIFSIGNALED(status), stage
    assert (tmp_path / "run" / "checkpoints" / "run.json").is_file()
    work(pictures, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == contents(whole)
    assert names(tmp_path / "run") == names(whole)


@pytest.mark.parametrize("number", [1, 4, 6, 9, 13])
def test_resume_after_a_kill_during_rename(pictures, whole, tmp_path, number):
    """Also twice in a row: the second process dies a few files later."""

    def run_until(count: int, **options) -> int:
        def child() -> None:
            rename, calls = os.replace, []

            def replace(source, target):
                calls.append(target)
                if len(calls) == count:
                    die()
                rename(source, target)

            os.replace = replace
            work(pictures, tmp_path / "run", **options)

        return forked(child)

    assert os.WIFSIGNALED(run_until(number))
    run_until(number + 2, resume=True)
    work(pictures, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == contents(whole)
    assert names(tmp_path / "run") == names(whole)


def test_overwriting_keeps_the_old_run_until_there_is_a_new_one(pictures, whole, tmp_path):
    work(pictures, tmp_path / "run", seed=7, report=False)
    old = (tmp_path / "run" / "labels.csv").read_bytes()

    def listen(tick):
        if tick.stage == "stage 2":
            die()

    forked(lambda: work(pictures, tmp_path / "run", overwrite=True, progress=listen))
    assert (tmp_path / "run" / "labels.csv").read_bytes() == old
    work(pictures, tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == contents(whole)


def test_an_interrupt_is_saved_at_the_end_of_a_step(pictures, whole, tmp_path):
    def listen(tick):
        if tick.stage == "stage 1" and tick.done == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        work(pictures, tmp_path / "run", progress=listen)
    assert any((tmp_path / "run" / "checkpoints" / "training").glob("checkpoint-*"))
    seen = []
    work(pictures, tmp_path / "run", resume=True, progress=seen.append)
    first = next(tick.done for tick in seen if tick.stage == "stage 1")
    assert first > 2  # it did not start again
    assert contents(tmp_path / "run") == contents(whole)


@pytest.mark.parametrize("limit", [200, 3_000, 100_000])
def test_a_full_disk_is_named_and_leaves_no_half_file(pictures, tmp_path, limit):
    """A limit on the size of files stands in for the disk."""

    def child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            work(pictures, tmp_path / "run")
        except OSError as error:
            assert "cannot write the run to" in str(error)  # noqa: PT017
            assert "free space" in str(error)  # noqa: PT017
            os._exit(3)

    assert os.waitstatus_to_exitcode(forked(child)) == 3
    if (tmp_path / "run").exists():  # there is work to continue
        left = names(tmp_path / "run")
        assert any("checkpoint-" in name for name in left)
        assert not any(Path(name).name.startswith(".") for name in left)
    work(pictures, tmp_path / "run", resume=True)
    assert "checkpoints" not in names(tmp_path / "run")
