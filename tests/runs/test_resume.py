"""A run that begins, dies, continues and ends."""

import json
import warnings

import pytest

from unbend.runs import Log, RunDirectory, combined_hash, read_json, software

ONE = {"seed": 0, "data": "abc", "settings": {"stage2.eta": 0.1}}


def names(path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def test_a_run_has_checkpoints_until_it_is_finished(tmp_path):
    run = RunDirectory(tmp_path / "run")
    assert run.begin(ONE) is False
    assert names(run.path) == ["checkpoints"]
    run.begin_results(ONE)
    run.write_json("config.json", {})
    run.finish()
    assert names(run.path) == ["config.json"]


def test_an_unfinished_run_is_continued_only_when_asked(tmp_path):
    RunDirectory(tmp_path / "run").begin(ONE)
    (tmp_path / "run" / "checkpoints" / "step").write_text("9")
    with pytest.raises(ValueError, match="holds an unfinished run; pass --resume"):
        RunDirectory(tmp_path / "run")
    assert RunDirectory(tmp_path / "run", resume=True).begin(ONE) is False
    assert (tmp_path / "run" / "checkpoints" / "step").read_text() == "9"
    RunDirectory(tmp_path / "run", overwrite=True).begin(ONE)
    assert names(tmp_path / "run" / "checkpoints") == ["run.json"]


def test_results_that_were_begun_are_kept(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.begin(ONE)
    run.begin_results(ONE)
    run.write_json("config.json", {"mine": 1})
    again = RunDirectory(tmp_path / "run", resume=True)
    assert again.begin(ONE) is True
    again.write_json("metrics.json", {})
    assert names(tmp_path / "run") == ["checkpoints", "config.json", "metrics.json"]


def test_results_of_the_run_before_stay_until_new_ones_come(tmp_path):
    """Also when the new run dies in between and is continued."""
    old = RunDirectory(tmp_path / "run")
    old.write_json("metrics.json", {"old": 1})
    RunDirectory(tmp_path / "run", overwrite=True).begin(ONE)
    assert names(tmp_path / "run") == ["checkpoints", "metrics.json"]
    again = RunDirectory(tmp_path / "run", resume=True)
    assert again.begin(ONE) is False
    again.begin_results(ONE)
    assert names(tmp_path / "run") == ["checkpoints"]


@pytest.mark.parametrize("change", [{"seed": 1}, {"settings": {}}, {"k": 3}])
def test_a_run_of_other_options_is_not_continued(tmp_path, change):
    RunDirectory(tmp_path / "run").begin(ONE)
    key = next(iter(change))
    with pytest.raises(ValueError, match=f"has {key} = .* this call .*; resume with the same"):
        RunDirectory(tmp_path / "run", resume=True).begin({**ONE, **change})


def test_resume_of_nothing_begins(tmp_path):
    run = RunDirectory(tmp_path / "run", resume=True)
    assert run.begin(ONE) is False
    (run.path / "checkpoints" / "run.json").unlink()  # died before it could say what it is
    assert RunDirectory(tmp_path / "run", resume=True).begin(ONE) is False


@pytest.mark.parametrize("text", ["{", "[1]", "\x00"])
def test_a_damaged_state_is_named(tmp_path, text):
    run = RunDirectory(tmp_path / "run")
    run.begin(ONE)
    (run.path / "checkpoints" / "run.json").write_text(text)
    with pytest.raises(ValueError, match=r"run.json' is damaged: .*--overwrite"):
        RunDirectory(tmp_path / "run", resume=True).begin(ONE)


def test_what_was_begun_for_nothing_goes(tmp_path):
    run = RunDirectory(tmp_path / "a" / "b" / "run")
    run.begin(ONE)
    run.abandon()
    assert names(tmp_path) == []


def test_abandoning_keeps_the_run_before_and_one_that_was_continued(tmp_path):
    RunDirectory(tmp_path / "run").write_json("config.json", {})
    run = RunDirectory(tmp_path / "run", overwrite=True)
    run.begin(ONE)
    run.abandon()
    assert names(tmp_path / "run") == ["config.json"]
    RunDirectory(tmp_path / "two").begin(ONE)
    again = RunDirectory(tmp_path / "two", resume=True)
    again.begin(ONE)
    again.abandon()
    assert names(tmp_path / "two") == ["checkpoints"]


def test_leftovers_of_a_kill_are_swept(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.begin(ONE)
    (run.path / ".labels.csv.x.tmp").write_text("half")
    (run.path / "checkpoints" / ".step.x.tmp").mkdir()
    RunDirectory(tmp_path / "run", resume=True).begin(ONE)
    assert names(run.path) == ["checkpoints"]
    assert names(run.path / "checkpoints") == ["run.json"]


# ---------------------------------------------------------------- manifest


def test_the_log_notes_seconds_and_each_warning_once():
    log = Log()

    def work() -> None:
        with log.listening(), log.stage("a"):
            warnings.warn("look\n here", stacklevel=1)
            warnings.warn("look\n here", stacklevel=1)

    with pytest.warns(UserWarning, match="look") as shown:
        work()
    assert len(shown) == 2  # still shown
    assert log.warnings == ["look here"]
    with log.stage("a"):
        pass
    assert list(log.seconds) == ["a"]
    assert log.seconds["a"] >= 0


def test_hashes_depend_on_order_and_borders():
    assert combined_hash(["a", "b"]) != combined_hash(["b", "a"])
    assert combined_hash(["ab", "c"]) != combined_hash(["a", "bc"])
    assert combined_hash(["a", "b"]) == combined_hash(iter(["a", "b"]))


def test_the_software_is_known_by_version():
    import torch

    found = software("9.9")
    assert found["unbend"] == "9.9"
    assert found["torch"] == torch.__version__.split("+")[0] or found["torch"] == torch.__version__
    assert found["commit"] is None or len(found["commit"]) == 40


@pytest.mark.parametrize(
    ("text", "words"), [("[1]", "holds no object"), ("{", "is damaged"), ("[" * 99_999, "damaged")]
)
def test_json_from_others_is_checked(tmp_path, text, words):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_json(tmp_path / "x.json")
    (tmp_path / "y.json").write_text(json.dumps(ONE))
    assert read_json(tmp_path / "y.json") == ONE
