"""Loggers on a real training, read back by the libraries that they write for."""

import builtins
import csv
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from unbend import MLC
from unbend.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from unbend.progress import Tick

QUICK = {"pretrain.max_steps": 4, "stage2.max_steps": 3}


def fit(*loggers):
    X = np.repeat(9 * np.eye(3, 5), 30, 0) + np.random.default_rng(0).normal(size=(90, 5))
    model = MLC(3, callbacks=list(loggers), random_state=0, settings=QUICK, cache_dir=None)
    return clone(model).fit(X)  # a logger that has not begun can be copied


def curve(history, stage, name):
    return [row[name] for row in history if row["stage"] == stage]


def test_csv_and_tensorboard_hold_what_history_holds(tmp_path):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model = fit(CSVLogger(tmp_path / "log" / "log.csv"), TensorBoardLogger(tmp_path / "tb"))
    with (tmp_path / "log" / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    events = reading.EventAccumulator(str(tmp_path / "tb")).Reload()
    stages = {str(row["stage"]) for row in model.history_}
    assert {"stage 1", "stage 2"} <= stages
    for stage in stages:
        wanted = curve(model.history_, stage, "R")
        written = [r for r in rows if r["stage"] == stage and r["name"] == "R"]
        assert [float(r["value"]) for r in written] == wanted
        assert [int(r["step"]) for r in written] == list(range(1, len(wanted) + 1))
        shown = [e.value for e in events.Scalars(f"{stage}/R")]
        np.testing.assert_allclose(shown, wanted, rtol=1e-6)


def test_csv_goes_on_where_it_ended(tmp_path):
    path = tmp_path / "log.csv"
    for step in (1, 2):
        with CSVLogger(path) as log:
            assert log(Tick("stage 1", step, 9, {"R": step / 3})) is None
    assert path.read_text().splitlines() == [
        "stage,step,name,value",
        f"stage 1,1,R,{1 / 3!r}",
        f"stage 1,2,R,{2 / 3!r}",
    ]


def test_wandb_offline_keeps_the_numbers_here(tmp_path):
    pytest.importorskip("wandb")
    code = (
        "from unbend.loggers import WandbLogger\n"
        "from unbend.progress import Tick\n"
        f"with WandbLogger('mine', dir={str(tmp_path)!r}) as log:\n"
        "    for step in (1, 2): log(Tick('stage 2', step, 2, {'R': 17.25}))\n"
    )
    places = {f"WANDB_{name}_DIR": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    # Its own process: the service of wandb has written everything when that one ends.
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **places}, check=True)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert b"stage 2/R" in content
    assert b"17.25" in content


@pytest.mark.parametrize(
    ("make", "package", "extra"),
    [
        (TensorBoardLogger, "torch.utils.tensorboard", "tensorboard"),
        (lambda path: WandbLogger(dir=path), "wandb", "wandb"),
    ],
)
def test_a_missing_library_is_named(tmp_path, monkeypatch, make, package, extra):
    real = builtins.__import__

    def without(name, *args, **options):
        if name == package:
            raise ImportError("no module")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"pip install 'unbend\[{extra}\]'"):
        make(tmp_path)(Tick("stage 1", 1, 2, {"R": 1.0}))


def test_an_unknown_mode_of_wandb_is_rejected():
    with pytest.raises(ValueError, match="offline or online, got 'on'"):
        WandbLogger(mode="on")
