import builtins

import pytest

from unbend import progress
from unbend.progress import Tick, console_progress, tensorboard_progress


def test_plain_lines_tell_the_time_left(monkeypatch, capsys):
    now = [50.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with console_progress() as tell:
        for done in (41, 42, 71, 100):  # a resumed stage: it starts at 41 of 100
            tell(Tick("stage 1", done, 100, {"R": 5.25, "rank": 7, "images/s": 1234.5}))
            now[0] += 2.0 * (29 if done == 42 else 1)
    assert capsys.readouterr().err.splitlines() == [
        "stage 1  41/100  R 5.2  rank 7  images/s 1234",
        "stage 1  71/100  0:58 left  R 5.2  rank 7  images/s 1234",
        "stage 1  100/100  R 5.2  rank 7  images/s 1234",
    ]


def test_tensorboard_gets_every_number(tmp_path):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard_progress(tmp_path) as tell:
        for done in (1, 2, 3):
            tell(Tick("stage 2", done, 3, {"R": 1.5 * done, "knn": 0.25}))
    events = reading.EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == {"stage 2/R", "stage 2/knn"}
    found = [(e.step, e.value) for e in events.Scalars("stage 2/R")]
    assert found == [(1, 1.5), (2, 3.0), (3, 4.5)]


def test_missing_tensorboard_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: object, **options: object) -> object:
        if name == "torch.utils.tensorboard":
            raise ImportError("no module")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(ImportError, match=r"pip install 'unbend\[tensorboard\]'"),
        tensorboard_progress(tmp_path),
    ):
        pass
