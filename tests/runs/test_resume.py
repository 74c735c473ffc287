"""A run that begins, dies, continues and ends."""

import json
import warnings

import pytest

from unbend.disk import hash_lines
from unbend.disk.provenance import commit
from unbend.runs import Log, RunDirectory, read_json, software

ONE = {"seed": 0, "data": "abc", "settings": {"stage2.eta": 0.1}}


def names(path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def begin(path, identity=ONE, **options) -> bool:
    """Begin a run and die."""
    with RunDirectory(path, **options) as run:
        return run.begin(identity)


def write(path, name="config.json", **options) -> None:
    with RunDirectory(path, **options) as run:
        run.begin(ONE)
        run.begin_results(ONE)
        run.write_json(name, {})
        run.write_json("manifest.json", {"identity": ONE})
        run.publish()


def test_a_run_has_checkpoints_until_it_is_published(tmp_path):
    with RunDirectory(tmp_path / "run") as run:
        assert run.begin(ONE) is False
        assert names(run.path) == [".lock", "checkpoints"]
        assert not run.finished
        run.begin_results(ONE)
        run.write_json("config.json", {})
        run.write_json("manifest.json", {})
        run.publish()
        assert run.finished
    assert names(run.path) == ["config.json", "manifest.json"]


def test_an_unfinished_run_is_continued_only_when_asked(tmp_path):
    begin(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "training").write_text("9")
    with pytest.raises(ValueError, match="holds an unfinished run; pass --resume"):
        RunDirectory(tmp_path / "run")
    assert begin(tmp_path / "run", resume=True) is False
    assert (tmp_path / "run" / "checkpoints" / "training").read_text() == "9"
    begin(tmp_path / "run", overwrite=True)
    assert names(tmp_path / "run" / "checkpoints") == ["run.json"]


def test_results_that_were_begun_are_kept(tmp_path):
    with RunDirectory(tmp_path / "run") as run:
        run.begin(ONE)
        run.begin_results(ONE)
        run.write_json("config.json", {"mine": 1})
    with RunDirectory(tmp_path / "run", resume=True) as again:
        assert again.begin(ONE) is True
        again.write_json("metrics.json", {})
        assert names(again.results) == ["config.json", "metrics.json"]


def test_results_of_the_run_before_stay_until_new_ones_are_whole(tmp_path):
    """Also when the new run dies in between and is continued."""
    write(tmp_path / "run", "metrics.json")
    begin(tmp_path / "run", overwrite=True)
    assert names(tmp_path / "run") == ["checkpoints", "manifest.json", "metrics.json"]
    write(tmp_path / "run", resume=True)
    assert names(tmp_path / "run") == ["config.json", "manifest.json"]


@pytest.mark.parametrize("change", [{"seed": 1}, {"settings": {}}, {"k": 3}])
def test_a_run_of_other_options_is_not_continued(tmp_path, change):
    begin(tmp_path / "run")
    key = next(iter(change))
    with pytest.raises(ValueError, match=f"has {key} = .* this call .*; resume with the same"):
        begin(tmp_path / "run", {**ONE, **change}, resume=True)


def test_resume_without_a_run_starts_from_the_beginning(tmp_path):
    assert begin(tmp_path / "run", resume=True) is False
    (tmp_path / "run" / "checkpoints" / "run.json").unlink()  # died before it could write it
    (tmp_path / "run" / "checkpoints" / ".run.json.x.tmp").write_text("half")
    assert begin(tmp_path / "run") is False
    assert names(tmp_path / "run" / "checkpoints") == ["run.json"]


@pytest.mark.parametrize("text", ["{", "[1]", "\x00", "{}", '{"identity": 1}'])
def test_a_damaged_state_is_named(tmp_path, text):
    begin(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "run.json").write_text(text)
    for options in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(ValueError, match=r"run.json' is damaged: .*; delete the folder"):
            RunDirectory(tmp_path / "run", **options)


def test_an_unfinished_run_of_another_version_is_named(tmp_path):
    begin(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / "run.json").write_text(json.dumps({"identity": ONE}))
    with pytest.raises(ValueError, match="an unfinished run of another version; delete its folder"):
        RunDirectory(tmp_path / "run", resume=True)


def test_empty_output_directory_is_removed_after_a_failure(tmp_path):
    run = RunDirectory(tmp_path / "a" / "b" / "run")
    run.begin(ONE)
    run.abandon()
    assert names(tmp_path) == []


def test_abandoning_keeps_the_run_before_and_one_that_was_continued(tmp_path):
    write(tmp_path / "run")
    run = RunDirectory(tmp_path / "run", overwrite=True)
    run.begin(ONE)
    run.abandon()
    assert names(tmp_path / "run") == ["config.json", "manifest.json"]
    begin(tmp_path / "two")
    again = RunDirectory(tmp_path / "two", resume=True)
    again.begin(ONE)
    again.abandon()
    assert names(tmp_path / "two") == ["checkpoints"]


def test_leftovers_of_a_kill_are_swept(tmp_path):
    begin(tmp_path / "run")
    (tmp_path / "run" / "checkpoints" / ".training.x.tmp").mkdir()
    begin(tmp_path / "run", resume=True)
    assert names(tmp_path / "run" / "checkpoints") == ["run.json"]


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
    assert hash_lines(["a", "b"]) != hash_lines(["b", "a"])
    assert hash_lines(["ab", "c"]) != hash_lines(["a", "bc"])
    assert hash_lines(["a", "b"]) == hash_lines(iter(["a", "b"]))


def test_the_software_is_known_by_version():
    import torch

    found = software("9.9")
    assert found["unbend"] == "9.9"
    assert found["torch"] == torch.__version__.split("+")[0] or found["torch"] == torch.__version__
    assert found["commit"] == commit()


@pytest.mark.parametrize(
    ("text", "words"), [("[1]", "holds no object"), ("{", "is damaged"), ("[" * 99_999, "damaged")]
)
def test_json_from_others_is_checked(tmp_path, text, words):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_json(tmp_path / "x.json")
    (tmp_path / "y.json").write_text(json.dumps(ONE))
    assert read_json(tmp_path / "y.json") == ONE
