import csv
import json
import os

import numpy as np
import pytest

from unbend.disk import Locked, hash_file
from unbend.runs import (
    LabelRows,
    RunDirectory,
    check_files,
    check_run,
    labels_file,
    needs_mark,
    record_file,
    run_lock,
    write_csv,
    write_model,
)
from unbend.runs.labels import unquoted

PLAIN = [
    "plain.png",
    "a,b.png",
    'quo"te.png',
    "new\nline.png",
    "carriage\rreturn",
    " leading space",
    "日本/Ωμέγα/é.png",
    "👩‍🔬.png",
    "semi;colon\ttab",
    "",
    "'quoted'",
]
FORMULAS = [
    "=1+1",
    "+1+1",
    "-a1",
    "@x",
    '=HYPERLINK("http://example.org")',
    "\t=1",
    " =1",
    "\n=1",
    "\uff1d1+1",
]


def read(path) -> list[list[str]]:
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def write(path, samples: list[str]) -> None:
    """``labels.csv`` and ``labels.parquet`` with a row per sample."""
    n = len(samples)
    labels, share = np.arange(n, dtype=np.int64), np.linspace(0, 1, n)
    for name in ("labels.csv", "labels.parquet"):
        with labels_file(path / name, mark=needs_mark(samples)) as rows:
            rows(LabelRows(samples, labels, share, share[::-1].astype(np.float32)))


@pytest.fixture
def run(tmp_path):
    """A run that has begun to write results."""
    with RunDirectory(tmp_path / "run") as run:
        run.begin({})
        run.begin_results({})
        yield run


def test_labels_open_as_written(tmp_path):
    write(tmp_path, PLAIN)
    header, *rows = read(tmp_path / "labels.csv")
    assert header == ["sample", "cluster", "probability", "outlier_score"]
    assert [row[0] for row in rows] == PLAIN
    assert [int(row[1]) for row in rows] == list(range(len(PLAIN)))
    expected = np.linspace(0, 1, len(PLAIN))
    np.testing.assert_allclose([float(row[2]) for row in rows], expected, atol=1e-6)
    np.testing.assert_allclose([float(row[3]) for row in rows], expected[::-1], atol=1e-6)


def test_names_like_formulas_become_text(tmp_path):
    write(tmp_path, FORMULAS)
    rows = read(tmp_path / "labels.csv")[1:]
    assert [row[0] for row in rows] == ["'" + name for name in FORMULAS]


def test_numbers_are_no_formulas(tmp_path):
    """Ids such as -60 stay what they are, so that tables can be joined by them."""
    numbers = ["-60", "+5", "-1.5e-3", "7"]
    write(tmp_path, numbers)
    assert [row[0] for row in read(tmp_path / "labels.csv")[1:]] == numbers
    quoted = "-60", "'-60", "'=1+1", "'x"
    assert [unquoted(text) for text in quoted] == ["-60", "-60", "=1+1", "'x"]


def test_names_that_are_not_unicode_are_written(tmp_path):
    write(tmp_path, [os.fsdecode(b"caf\xe9.png")])
    assert read(tmp_path / "labels.csv")[1][0] == "caf\\udce9.png"


def test_lengths_that_differ_are_rejected():
    with pytest.raises(ValueError, match="equally long"):
        LabelRows(["a", "b"], np.zeros(3, int), np.zeros(3), np.zeros(3))


def test_history_has_a_row_per_step_and_blanks(run):
    history = [
        {"stage": "stage 1", "step": 0, "R": 1.25, "R_c": None, "rank": 3},
        {"stage": "stage 2", "step": 0, "R": 2.5, "R_c": 1 / 3, "rank": None},
    ]
    run.write_history(history)
    rows = read(run.results / "history.csv")
    assert rows[:2] == [["stage", "step", "R", "R_c", "rank"], ["stage 1", "0", "1.25", "", "3"]]
    assert float(rows[2][3]) == 1 / 3  # every digit
    assert rows[2][4] == ""


def test_an_empty_history_is_a_header(run):
    run.write_history([])
    assert read(run.results / "history.csv") == [["stage", "step"]]


def test_json_is_readable_by_people_and_machines(run):
    tree = {"seed": 0, "name": "Γ", "scale": (0.04, 1.0), "k": np.int64(3)}
    run.write_json("config.json", tree)
    text = (run.results / "config.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"seed": 0, "name": "Γ", "scale": [0.04, 1.0], "k": 3}
    assert "Γ" in text
    assert text.endswith("}\n")


# ---------------------------------------------------------------- what is there already


def names(path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def publish(path, sample="a", **options) -> None:
    """A whole run of one sample."""
    with RunDirectory(path, **options) as run:
        run.begin({"sample": sample})
        run.begin_results({"sample": sample})
        write(run.results, [sample])
        write_model(run.results / "model", {}, {"run": sample})
        run.write_json("manifest.json", {"seed": 0})
        run.publish()


WHOLE = ["labels.csv", "labels.parquet", "manifest.json", "model"]


def test_missing_parents_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "run"
    run = RunDirectory(path)
    assert not path.parent.exists()  # nothing is left behind by a run that never began
    del run
    publish(path)
    assert names(path) == WHOLE


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_empty_directory_is_used(tmp_path, overwrite):
    publish(tmp_path, overwrite=overwrite)
    assert names(tmp_path) == WHOLE


FOREIGN = ["thesis.txt", ".hidden", "notes.tmp", "labels.csv.bak", ".labels.csv.x1y2.tmp"]


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_foreign_directory_is_rejected_untouched(tmp_path, options, foreign):
    publish(tmp_path)
    (tmp_path / foreign).write_text("mine")
    with pytest.raises(ValueError, match=rf"holds other files \('{foreign}'\)"):
        RunDirectory(tmp_path, **options)
    assert (tmp_path / foreign).read_text() == "mine"
    assert set(WHOLE) < set(names(tmp_path))


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("place", ["checkpoints/weights.pt", "model/mine.txt", "model/deep/x"])
def test_foreign_folder_is_never_deleted(tmp_path, options, place):
    """Not ``checkpoints/`` of another program, and nothing that was put into ``model/``."""
    if place.startswith("model"):
        publish(tmp_path)
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text("mine")
    with pytest.raises(ValueError, match="holds other files"):
        RunDirectory(tmp_path, **options).begin({})
    assert (tmp_path / place).read_text() == "mine"


OTHERS = '{"name": "a site", "files": {"labels.csv": "0", "model": "0"}}'


@pytest.mark.parametrize("options", [{"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("name", ["notes.txt", ".notes.tmp", "training.bak"])
def test_notes_among_the_checkpoints_are_never_deleted(tmp_path, options, name):
    with RunDirectory(tmp_path) as run:
        run.begin({})
    (tmp_path / "checkpoints" / ".run.json.x1y2.tmp").write_text("half")
    RunDirectory(tmp_path, **options)
    (tmp_path / "checkpoints" / name).write_text("mine")
    with pytest.raises(ValueError, match=f"holds other files .'checkpoints/{name}'"):
        RunDirectory(tmp_path, **options)
    assert (tmp_path / "checkpoints" / name).read_text() == "mine"


@pytest.mark.parametrize("manifest", [None, "{}", '{"seed": 0}', "[]", "no json", OTHERS])
def test_files_with_the_names_of_a_run_are_not_a_run(tmp_path, manifest):
    """Files that no manifest names belong to another program."""
    (tmp_path / "model").mkdir()
    (tmp_path / "labels.csv").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(ValueError, match="holds other files"):
        RunDirectory(tmp_path, overwrite=True)
    assert (tmp_path / "labels.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["../precious", "/precious", "model/../../precious", "a//b", "."])
def test_a_manifest_cannot_reach_outside(tmp_path, name):
    (tmp_path / "precious").write_text("mine")
    run = tmp_path / "run"
    run.mkdir()
    name = str(tmp_path / "precious") if name == "/precious" else name
    (run / "manifest.json").write_text(json.dumps({"program": "unbend", "files": {name: "0"}}))
    with pytest.raises(ValueError, match="holds other files"):
        RunDirectory(run, overwrite=True)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_link_in_a_run_is_not_followed(tmp_path):
    publish(tmp_path / "run")
    (tmp_path / "run" / "model").rename(tmp_path / "elsewhere")
    (tmp_path / "run" / "model").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(ValueError, match="holds other files"):
        RunDirectory(tmp_path / "run", overwrite=True)
    assert names(tmp_path / "elsewhere") == ["model.json", "model.safetensors"]


def test_an_earlier_run_is_rejected_unless_allowed(tmp_path):
    publish(tmp_path, "old")
    with pytest.raises(ValueError, match="holds a run already; name a new directory or pass"):
        RunDirectory(tmp_path)
    publish(tmp_path, "new", overwrite=True)
    assert read(tmp_path / "labels.csv")[1][0] == "new"
    assert names(tmp_path) == WHOLE


def test_a_file_in_the_place_is_rejected(tmp_path):
    (tmp_path / "run").write_text("a file")
    with pytest.raises(ValueError, match="is a file; name a directory for the run"):
        RunDirectory(tmp_path / "run", overwrite=True)
    assert (tmp_path / "run").read_text() == "a file"


def test_the_old_run_stays_whole_until_the_new_one_is(tmp_path):
    publish(tmp_path, "old")
    with RunDirectory(tmp_path, overwrite=True) as run:
        run.begin({})
        run.begin_results({})
        run.write_json("config.json", {})
        check_run(tmp_path)
        assert json.loads((tmp_path / "model" / "model.json").read_text())["run"] == "old"
        run.write_json("manifest.json", {})
        run.publish()
    assert names(tmp_path) == ["config.json", "manifest.json"]


def test_a_kill_at_any_moment_of_publishing_is_completed(tmp_path, monkeypatch):
    """After a kill at any system call, the next process finds the old run or the new one."""
    calls = []

    def dying(function, limit):
        def call(*args, **options):
            calls.append(function)
            if len(calls) > limit:
                raise KeyboardInterrupt
            return function(*args, **options)

        return call

    for limit in range(60):
        path = tmp_path / str(limit)
        publish(path, "old")
        calls.clear()
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "rmdir", "mkdir"):
                patch.setattr(os, name, dying(getattr(os, name), limit))
            try:
                publish(path, "new", overwrite=True)
                whole = True
            except KeyboardInterrupt:
                whole = False
        state = path / "checkpoints" / "run.json"
        publishing = state.exists() and json.loads(state.read_text())["stage"] == "publishing"
        with RunDirectory(path, resume=True) as run:
            if publishing:
                assert run.finished
            run.complete()
            if not run.finished:
                run.begin({"sample": "new"})
                continue
        check_files(path)
        sample = read(path / "labels.csv")[1][0]
        assert json.loads((path / "model" / "model.json").read_text())["run"] == sample
        assert [name for name in names(path) if name != ".lock"] == WHOLE
        if whole:
            assert sample == "new"
            break
    else:
        raise AssertionError("no run came to its end")
    assert limit > 15


# ---------------------------------------------------------------- one writer


def test_a_second_writer_is_rejected_and_the_first_continues(tmp_path):
    with RunDirectory(tmp_path / "run") as first:
        second = RunDirectory(tmp_path / "run")  # nothing is there yet
        first.begin({})
        with pytest.raises(Locked, match=r"another process is writing to .*; wait for it, or name"):
            second.begin({})
        with pytest.raises(Locked, match="another process is writing"):
            RunDirectory(tmp_path / "run", overwrite=True).check_free()
        with pytest.raises(Locked, match="another process is writing"):
            RunDirectory(tmp_path / "run")  # not: it is unfinished, resume it
        first.begin_results({})
        first.write_json("config.json", {})
        first.write_json("manifest.json", {})
        first.publish()
    with pytest.raises(ValueError, match="holds a run already"):
        second.begin({})  # what came meanwhile is not replaced
    second.abandon()
    assert names(tmp_path / "run") == ["config.json", "manifest.json"]


def test_lock_of_a_dead_process_is_released(tmp_path):
    (tmp_path / ".lock").write_text("")
    run = RunDirectory(tmp_path)
    run.check_free()
    publish(tmp_path)
    assert names(tmp_path) == WHOLE


# ---------------------------------------------------------------- hashes


def test_the_manifest_names_every_file_with_its_hash(tmp_path):
    publish(tmp_path)
    files = json.loads((tmp_path / "manifest.json").read_text())["files"]
    every = (p for p in tmp_path.rglob("*") if p.is_file() and p.name != "manifest.json")
    assert files == {p.relative_to(tmp_path).as_posix(): hash_file(p) for p in every}


def test_files_of_another_run_are_noticed(tmp_path):
    publish(tmp_path / "a", "a")
    publish(tmp_path / "b", "b")
    (tmp_path / "b" / "model" / "model.json").replace(tmp_path / "a" / "model" / "model.json")
    check_run(tmp_path / "a", "labels.parquet")
    for names_ in ((), ("model",)):
        with pytest.raises(ValueError, match=r"model.json' is not what the run wrote"):
            check_run(tmp_path / "a", *names_)


def test_a_new_report_is_noted(tmp_path):
    publish(tmp_path)
    with run_lock(tmp_path):
        write_csv(tmp_path / "labels.csv", ["a"], [])
        record_file(tmp_path, "labels.csv")
    check_run(tmp_path)
    assert names(tmp_path) == WHOLE
