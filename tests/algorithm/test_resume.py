"""A run that was interrupted ends bit-equal to one that was not."""

import os
import signal
import threading
import warnings
from functools import cache

import pytest
import torch
from tests.algorithm.problem import STEPS, fingerprint, run, samples

from unbend import algorithm
from unbend.exceptions import CollapseWarning, UnbendWarning
from unbend.progress import Tick, every
from unbend.training import Checkpoints, Stage1Cache

# Settings under which more than weights and momenta must come back.
KINDS = {
    "vectors": {},
    "images": {"kind": "images", "changes": {"stage2.train_backbone": True}},
    "all at once": {
        "changes": {
            "views.noise": 0.5,
            "pretrain.optimizer": "lars",
            "pretrain.accumulate": 2,
            "stage2.max_norm": 0.1,
        }
    },
    "no stage 1": {"changes": {"pretrain.method": "none"}},
}


@cache
def whole(kind: str) -> str:
    return fingerprint(run(**_options(kind)))


def _options(kind: str) -> dict:
    return dict(KINDS[kind])


STAGES = ("stage 1", "stage 2", "stage 2, eta 2")


def first_step(seen: list[Tick]) -> tuple[str, int]:
    """Where training went on."""
    tick = next(tick for tick in seen if tick.stage.startswith("stage"))
    return tick.stage, tick.done


def stop_at(stage: str, step: int):
    def listen(tick: Tick) -> None:
        if (tick.stage, tick.done) == (stage, step):
            raise KeyboardInterrupt

    return listen


@pytest.mark.parametrize(
    ("stage", "step", "every"),
    [
        ("stage 1", 1, 0.0),
        ("stage 1", 11, 60.0),
        ("stage 1", STEPS, 60.0),
        ("stage 2", 3, 60.0),
        ("stage 2", STEPS, 0.0),
        ("stage 2, eta 2", 1, 0.0),
        ("stage 2, eta 2", 7, 60.0),
        ("stage 2, eta 2", STEPS, 0.0),
    ],
)
def test_resume_after_an_interrupt_at_any_step(tmp_path, stage, step, every):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, every=every, progress=stop_at(stage, step))
    seen: list[Tick] = []
    assert fingerprint(run(tmp_path, every=every, progress=seen.append)) == whole("vectors")
    if step < STEPS:
        assert first_step(seen) == (stage, step + 1)  # nothing is done twice


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "vectors"])
def test_resume_after_repeated_interrupts(tmp_path, kind):
    stops = [("stage 1", 7), ("stage 1", STEPS), ("stage 2", 1), ("stage 2", 9), (STAGES[2], 3)]
    for stop in stops:
        # Without stage 1 no η is sharp enough: both end at the smallest, so that one run is enough.
        if kind == "no stage 1" and stop[0] != "stage 2":
            continue
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, progress=stop_at(*stop), **_options(kind))
    assert fingerprint(run(tmp_path, **_options(kind))) == whole(kind)
    assert len(list(tmp_path.iterdir())) == 2


def test_two_sharpnesses_with_the_same_eta_are_one_run():
    stages = {row["stage"] for row in run(**_options("no stage 1")).history}
    assert stages == {"stage 2"}
    assert {row["stage"] for row in run().history} == set(STAGES)


def test_keeping_checkpoints_changes_nothing(tmp_path):
    assert fingerprint(run(tmp_path)) == whole("vectors")


@pytest.mark.parametrize("kind", ["vectors", "images", "all at once", "head"])
def test_another_stage_2_from_the_end_of_stage_1(tmp_path, kind):
    """Bit-equal to a run of its own, with stage 1 and its neighbours from the cache."""
    head = {"pretrain.method": "byol", "pretrain.head_steps": 3, "network.backbone": "mlp"}
    options = {"changes": head} if kind == "head" else _options(kind)
    other = {**options, "changes": {**options.get("changes", {}), "stage2.eta": 0.3}}
    cache = Stage1Cache(tmp_path / "cache")
    run(tmp_path / "first", stage1=cache, **options)
    seen: list[Tick] = []
    found = run(tmp_path / "second", stage1=cache, progress=seen.append, **other)
    assert fingerprint(found) == fingerprint(run(**other))
    assert not any(tick.stage.startswith("stage 1") for tick in seen)


@pytest.mark.parametrize("kind", ["images", "no stage 1"])
@pytest.mark.parametrize("step", [1, STEPS])
def test_the_features_that_stage_2_began_with_come_back(tmp_path, monkeypatch, kind, step):
    """Labels of images are made with them, long after the weights have changed."""
    given: list[torch.Tensor] = []
    label_codes = algorithm.label_codes

    def listen(*args, before, **options):
        given.append(before)
        return label_codes(*args, before=before, **options)

    monkeypatch.setattr(algorithm, "label_codes", listen)
    options = _options(kind)
    options["changes"] = {**options["changes"], "labels.join": "stage1"}
    solution = run(**options)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_at("stage 2", step), **options)
    run(tmp_path, **options)
    assert torch.equal(given[0], given[1])
    assert not torch.allclose(given[0], solution.Z, atol=1e-3)


@pytest.mark.parametrize("kind", ["vectors", "images"])
def test_states_that_are_encoded_anew_give_the_same_bits(monkeypatch, kind):
    """As with many samples in many clusters, where all states together do not fit."""
    expected = run(kind=kind)
    monkeypatch.setattr(algorithm, "_KEPT", 0)
    found = run(kind=kind)
    assert fingerprint(found) == fingerprint(expected)
    assert found.labels.candidates == expected.labels.candidates
    assert found.labels.temperature == expected.labels.temperature


def test_resume_after_an_interrupt_during_labelling(tmp_path, monkeypatch):
    def broken(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(algorithm, "choose_labelling", broken)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, every=60.0)
    seen: list[Tick] = []
    assert fingerprint(run(tmp_path, progress=seen.append)) == whole("vectors")
    assert not any(t.stage.startswith("stage") for t in seen)


def test_resuming_a_finished_run_does_not_train(tmp_path):
    run(tmp_path)
    seen: list[Tick] = []
    assert fingerprint(run(tmp_path, progress=seen.append)) == whole("vectors")
    assert not any(t.stage.startswith("stage") for t in seen)


@pytest.mark.filterwarnings("ignore::unbend.exceptions.UnbendWarning")
@pytest.mark.parametrize("step", [8, 20])
def test_guard_state_is_resumed(tmp_path, step):
    """A learning rate far too large: restores before and after the interrupt."""
    options = {"changes": {"stage2.lr": 1e20, "stage2.max_steps": 30}}
    with pytest.warns(CollapseWarning):
        expected = run(**options)
    steps = [row["step"] for row in expected.history if row["stage"] == "stage 2"]
    assert len(steps) < 30
    stop = max(s for s in steps if s < step) + 1 if min(steps) < step else min(steps) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, progress=stop_at("stage 2", stop), **options)
        assert fingerprint(run(tmp_path, **options)) == fingerprint(expected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_wait_for_the_end_of_the_step(tmp_path, number):
    caught = []
    before = signal.signal(signal.SIGTERM, lambda *args: caught.append(args) or _raise())
    try:

        def listen(tick: Tick) -> None:
            if (tick.stage, tick.done) == ("stage 2", 5):
                os.kill(os.getpid(), number)

        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, every=60.0, progress=listen)
        assert bool(caught) == (number == signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert Checkpoints(tmp_path).newest().values["step"] == 5
    assert fingerprint(run(tmp_path)) == whole("vectors")


def _raise() -> None:
    raise KeyboardInterrupt


def test_other_threads_train_without_signals(tmp_path):
    found = []
    thread = threading.Thread(target=lambda: found.append(fingerprint(run(tmp_path))))
    thread.start()
    thread.join()
    assert found == [whole("vectors")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": 1}, "`seed` = 0, not 1; name another directory, or delete that one"),
        ({"changes": {"stage2.eta": 0.3}}, r"`stage2.eta` = 'auto', not 0.3"),
        ({"n": 61}, "other samples"),
    ],
)
def test_another_run_is_rejected(tmp_path, options, words):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_at("stage 1", 3))
    with pytest.raises(ValueError, match=words):
        run(tmp_path, **options)


@pytest.mark.parametrize("damage", ["truncated", "flipped", "half json"])
def test_damaged_checkpoint_is_skipped(tmp_path, damage):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, progress=stop_at("stage 2", 4))
    newest = max(tmp_path.glob("checkpoint-*"))
    tensors, values = newest / "state.safetensors", newest / "state.json"
    content = bytearray(tensors.read_bytes())
    if damage == "truncated":
        tensors.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[-3] ^= 4
        tensors.write_bytes(content)
    else:
        values.write_bytes(values.read_bytes()[:1000])
    seen: list[Tick] = []
    with pytest.warns(UnbendWarning, match="is damaged .*; skipped"):
        solution = run(tmp_path, progress=seen.append)
    assert fingerprint(solution) == whole("vectors")
    assert first_step(seen) == ("stage 2", 4)


def test_a_callback_changes_nothing_and_its_numbers_are_shown():
    seen, ticks = [], []

    def look(tick: Tick) -> dict[str, float]:
        Z = tick.network.encode(samples()).Z
        seen.append((tick.stage, tick.done - 1))
        return {"knn": float(Z.shape[1])}

    solution = run(callbacks=[every(5, look)], progress=ticks.append)
    assert fingerprint(solution) == whole("vectors")
    assert seen == [(s, t) for s in STAGES for t in (4, 9)]
    shown = [(t.stage, t.done - 1) for t in ticks if "knn" in t.values]
    assert shown == seen


def test_a_callback_sees_the_beginning_of_each_stage_once(tmp_path):
    """Not again where a run goes on in the middle of a stage."""
    begun: list[str] = []

    def look(tick: Tick) -> None:
        if tick.done == 0:
            begun.append(tick.stage)

    run(callbacks=[look])
    assert begun == list(STAGES)
    begun.clear()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, callbacks=[look], progress=stop_at("stage 1", 5))
    run(tmp_path, callbacks=[look])
    assert begun == list(STAGES)


def test_ticks_tell_the_speed():
    ticks: list[Tick] = []
    run(kind="images", progress=ticks.append)
    assert all(t.values["images/s"] > 0 for t in ticks if t.stage.startswith("stage"))
    run(progress=ticks.append)
    assert ticks[-1].stage == "labels" or "samples/s" in ticks[-1].values
