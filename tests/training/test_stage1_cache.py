"""The cache of stage 1: keyed by everything it depends on, bounded, and never fatal."""

import os

import pytest
import torch

from unbend.exceptions import UnbendWarning
from unbend.training import Checkpoints, Record, Stage1Cache

RUN = {"config": {"pretrain": {"method": "tcr", "lr": 0.1}, "stage2": {"eta": 0.1}}, "seed": 0}


def changed(**parts):
    return {**RUN, **parts}


def finish(tmp_path, cache, identity=RUN, stage="stage 1", name="a"):
    record = Record(Checkpoints(tmp_path / name, stage1=cache), identity)
    weights = torch.nn.Linear(2, 1)
    record.finish(stage, 5, {"weights": weights}, [{"stage": stage, "step": 4}])
    return weights


def reached(tmp_path, cache, identity):
    return Record(Checkpoints(tmp_path / "other", stage1=cache), identity).reached("stage 1")


def test_another_run_begins_where_stage_1_ended(tmp_path):
    cache = Stage1Cache(tmp_path / "cache")
    weights = finish(tmp_path, cache)
    later = {"config": {**RUN["config"], "stage2": {"eta": 9.0}}, "seed": 0}
    record = Record(Checkpoints(tmp_path / "other", stage1=cache), later)
    mine = torch.nn.Linear(2, 1)
    done = record.resume("stage 1", {"weights": mine})
    assert done == (5, [{"stage": "stage 1", "step": 4}], True)
    assert torch.equal(mine.weight, weights.weight)
    record.finish("stage 2", 1, {"weights": mine}, [])
    own = Checkpoints(tmp_path / "other").newest()
    assert own.values["finished"] == ["stage 1", "stage 2"]
    assert own.values["identity"]["config.stage2.eta"] == 9.0


@pytest.mark.parametrize(
    "other",
    [
        changed(seed=1),
        changed(samples="others"),
        changed(config={**RUN["config"], "pretrain": {"method": "tcr", "lr": 0.2}}),
    ],
)
def test_entries_with_a_different_identity_are_not_used(tmp_path, other):
    cache = Stage1Cache(tmp_path / "cache", {"code": "x"})
    finish(tmp_path, cache)
    assert reached(tmp_path, cache, RUN)
    assert not reached(tmp_path, cache, other)
    assert not reached(tmp_path, Stage1Cache(tmp_path / "cache", {"code": "y"}), RUN)


def test_only_stage_1_is_kept(tmp_path):
    cache = Stage1Cache(tmp_path / "cache")
    finish(tmp_path, cache, stage="stage 2")
    assert not (tmp_path / "cache").exists()
    finish(tmp_path, cache, stage="stage 1 head", name="b")
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_weights_on_disk_are_not_known_by_their_path(tmp_path):
    cache = Stage1Cache(tmp_path / "cache")
    there = changed(config={"pretrain": {"method": str(tmp_path)}})
    finish(tmp_path, cache, there)
    assert not (tmp_path / "cache").exists()
    assert not reached(tmp_path, cache, there)


def test_own_checkpoint_takes_precedence_over_the_cache(tmp_path):
    cache = Stage1Cache(tmp_path / "cache")
    finish(tmp_path, cache)
    checkpoints = Checkpoints(tmp_path / "b", stage1=cache)
    Record(Checkpoints(tmp_path / "b"), RUN).save("stage 2", 3, {}, [])
    assert Record(checkpoints, RUN).reached("stage 2")


def test_the_ones_used_last_are_kept(tmp_path):
    cache = Stage1Cache(tmp_path / "cache", most=2)
    for seed in range(2):
        finish(tmp_path, cache, changed(seed=seed), name=f"run {seed}")
    for place in (tmp_path / "cache").iterdir():
        os.utime(place, (1, 1))
    assert reached(tmp_path, cache, changed(seed=0))  # used now
    finish(tmp_path, cache, changed(seed=2), name="run 2")
    kept = [reached(tmp_path, cache, changed(seed=seed)) for seed in range(3)]
    assert kept == [True, False, True]
    with pytest.raises(ValueError, match="`most` of Cache must be >= 1, got 0; try 20"):
        Stage1Cache(tmp_path, most=0)


def test_damaged_entry_warns_and_is_not_used(tmp_path):
    cache = Stage1Cache(tmp_path / "cache")
    finish(tmp_path, cache)
    for file in (tmp_path / "cache").rglob("*.safetensors"):
        file.write_bytes(b"nothing")
    with pytest.warns(UnbendWarning, match="damaged entries"):
        assert not reached(tmp_path, cache, RUN)


def test_unwritable_cache_warns_without_failing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.warns(UnbendWarning, match="cannot be written .*; free space, or set UNBEND_CACHE"):
        finish(tmp_path, Stage1Cache(tmp_path / "file"))
    assert Checkpoints(tmp_path / "a").newest() is not None
