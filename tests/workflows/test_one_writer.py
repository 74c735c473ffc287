"""Two runs in one directory, and a directory with files of different runs."""

import os
import shutil
import sys
import traceback

import numpy as np
import pytest
import torch

from unbend.disk import Locked
from unbend.estimator import load
from unbend.runs import check_run, read_labels
from unbend.workflows import cluster, export, predict, report

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
QUICK = {"pretrain.epochs": 1, "pretrain.min_steps": 2, "stage2.epochs": 1, "stage2.min_steps": 2}


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """A cache of its own, and one thread: threads do not survive a fork."""
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.repeat(np.eye(3) * 9, 30, axis=0) + rng.normal(size=(90, 3))


def work(X, out, seed=0, **options):
    options = {"report": False, **options}
    return cluster(X, out=out, n_clusters=3, settings=QUICK, seed=seed, **options)


def start(X, out, seed, **options) -> int:
    """A process that clusters; it ends with 0, 3 if it was refused, or 9."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work(X, out, seed, **options)
            os._exit(0)
        except (Locked, ValueError) as error:
            refused = "another process is writing to" in str(error)
            refused |= "holds a run already" in str(error) or "an unfinished run" in str(error)
            os._exit(3 if refused else 9)
        except BaseException:
            traceback.print_exc()
            os._exit(9)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("options", [{}, {"overwrite": True}])
def test_two_concurrent_runs_leave_one_complete_run(tmp_path, X, options):
    if options:
        work(X, tmp_path / "run", seed=7)
    children = [start(X, tmp_path / "run", seed, **options) for seed in range(4)]
    codes = [ended(child) for child in children]
    assert codes.count(0) >= 1
    assert set(codes) <= {0, 3}
    check_run(tmp_path / "run")
    labels = read_labels(tmp_path / "run" / "labels.parquet").labels
    np.testing.assert_array_equal(load(tmp_path / "run" / "model").labels_, labels)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_run_that_is_being_written_is_rejected_at_once(tmp_path, X):
    answers = []

    def listen(tick):
        if tick.stage == "stage 1" and not answers:
            answers.append(ended(start(X, tmp_path / "run", 1, overwrite=True)))

    work(X, tmp_path / "run", progress=listen)
    assert answers == [3]
    check_run(tmp_path / "run")


@pytest.fixture
def mixed(tmp_path, X):
    """The labels of one run and the model of another."""
    for name, seed in (("a", 0), ("b", 1)):
        work(X, tmp_path / name, seed)
    shutil.rmtree(tmp_path / "a" / "model")
    shutil.copytree(tmp_path / "b" / "model", tmp_path / "a" / "model")
    return tmp_path / "a"


def test_a_model_of_another_run_is_rejected(tmp_path, mixed, X):
    words = r"is not what the run wrote: its hash differs from that in manifest.json"
    with pytest.raises(ValueError, match=words):
        predict(mixed, X, out=tmp_path / "labels.csv")
    with pytest.raises(ValueError, match=words):
        report(mixed)
    with pytest.raises(ValueError, match=words):
        work(X, mixed, resume=True)
    export(mixed, "parquet", out=tmp_path / "labels.parquet")  # that one was not changed
    (mixed / "labels.parquet").write_bytes((tmp_path / "b" / "labels.parquet").read_bytes()[:-9])
    with pytest.raises(ValueError, match=words):
        export(mixed, "parquet", out=tmp_path / "again.parquet")


def test_new_report_keeps_the_run_complete(tmp_path, X):
    work(X, tmp_path / "run", report=True)
    (tmp_path / "run" / "report.html").write_text("edited")
    report(tmp_path / "run")
    assert "<html" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    check_run(tmp_path / "run", "report.html")
    work(X, tmp_path / "run", resume=True)
    work(X, tmp_path / "run", overwrite=True)
    assert not (tmp_path / "run" / "report.html").exists()
