"""Faults of the machine and of the user: one-line errors that name the cause."""

import importlib
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.generators.folders import fill

from unbend.runs import check_run, record_file
from unbend.workflows import cluster

SHORT = {"pretrain.epochs": 1, "pretrain.min_steps": 2, "stage2.epochs": 1, "stage2.min_steps": 2}


def line(done) -> str:
    assert done.exit_code == 2, (done.output, done.exception)
    (only,) = [text for text in done.stderr.strip().splitlines() if not text.startswith("reading ")]
    return only


@pytest.mark.parametrize("where", ["file/cache", "/proc/nothing"])
def test_an_unwritable_cache_costs_time_not_the_run(unbend, vectors, quick, monkeypatch, where):
    Path("file").write_text("in the way")
    np.save("x.npy", vectors)
    monkeypatch.setenv("UNBEND_CACHE", where)
    done = unbend("cluster", "x.npy", "-k", 4, "-o", "run", "-q", "--no-report", *quick)
    assert done.exit_code == 0, done.output
    (warning,) = [text for text in done.stderr.splitlines() if "cache" in text]
    assert warning.startswith(f"unbend: warning: the cache '{where}/stage1' cannot be written (")
    assert warning.endswith("; free space, or set UNBEND_CACHE to a directory that can be written")
    check_run(Path("run"))


@pytest.mark.parametrize("where", ["file/cache", "/proc/nothing"])
def test_images_need_a_cache_and_say_which(unbend, monkeypatch, where):
    Path("file").write_text("in the way")
    fill(Path("photos"), 3)
    monkeypatch.setenv("UNBEND_CACHE", where)
    text = line(unbend("cluster", "photos", "-k", 2, "-o", "run", "--encoder", "none", "-q"))
    assert text.startswith(f"unbend: cannot cache decoded images in '{where}/pixels/")
    assert "set UNBEND_CACHE" in text
    assert "-o" not in text


def test_an_unknown_home_gives_a_one_line_error(unbend, vectors, monkeypatch):
    np.save("x.npy", vectors)
    monkeypatch.setenv("UNBEND_CACHE", "~nouser/x")
    text = line(unbend("cluster", "x.npy", "-k", 4, "-q"))
    assert text == (
        "unbend: UNBEND_CACHE='~nouser/x' names an unknown home directory; give a full path"
    )
    assert not Path("runs").exists()


def test_errors_of_the_system_are_words(unbend, trained, monkeypatch):
    def refused(*args, **options):
        raise PermissionError(13, "Permission denied", "x.npy")

    workflow = importlib.import_module("unbend.workflows.predict")  # not the function in it
    monkeypatch.setattr(workflow, "open_source", refused)
    text = line(unbend("predict", trained, "x.npy", "-q"))
    assert text == "unbend: cannot read or write 'x.npy': Permission denied"


def test_input_that_is_cut_during_the_run(unbend, vectors):
    """Finished work is kept: with the file restored, the run resumes."""
    np.save("x.npy", vectors)
    content = Path("x.npy").read_bytes()

    def cut(tick):
        if tick.stage == "stage 2":
            os.truncate("x.npy", 200)

    # Samples that fit saw are not read again; the others are.
    options = {"n_clusters": 4, "settings": SHORT, "report": False, "out": "run", "train_on": 60}
    with pytest.raises(
        OSError, match=r"^'.*x.npy' was truncated while it was read; restore it and"
    ):
        cluster("x.npy", progress=cut, **options)
    Path("x.npy").write_bytes(content)
    cluster("x.npy", resume=True, **options)
    check_run(Path("run"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("can't start new thread"),
        ImportError("libx.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        SystemError("error return without exception set"),
    ],
)
def test_too_little_memory_gives_a_one_line_error(unbend, vectors, quick, monkeypatch, error):
    def full(*args, **options):
        raise error

    np.save("x.npy", vectors)
    monkeypatch.setattr("unbend.estimator.mlc.solve", full)
    done = unbend("cluster", "x.npy", "-k", 4, "-q", *quick)
    assert line(done).startswith("unbend: not enough memory; train on fewer samples")


@pytest.mark.parametrize("text", ["a=" + "[" * 9000 + "]" * 9000, "a" + ".a" * 2000 + "=1"])
def test_a_deeply_nested_config_gives_a_one_line_error(unbend, vectors, text):
    np.save("x.npy", vectors)
    Path("deep.toml").write_text(text)
    said = line(unbend("cluster", "x.npy", "--config", "deep.toml"))
    assert "deep.toml" in said
    assert "recursion" not in said


def test_a_pipe_as_config_or_labels_does_not_hang(unbend, vectors):
    np.save("x.npy", vectors)
    os.mkfifo("pipe.toml")
    os.mkfifo("pipe.csv")
    assert "not a regular file" in line(unbend("cluster", "x.npy", "--config", "pipe.toml"))
    text = line(unbend("cluster", "x.npy", "--labels", "pipe.csv"))
    assert "'pipe.csv' is not a regular file" in text


@pytest.mark.parametrize("manifest", ["no json", "[1]", "pipe"])
def test_a_damaged_manifest_is_not_taken_for_none(unbend, trained, vectors, manifest):
    """Otherwise nothing would be compared with its hash."""
    shutil.copytree(trained, "run")
    np.save("x.npy", vectors)
    Path("run/manifest.json").unlink()
    if manifest == "pipe":
        os.mkfifo("run/manifest.json")
    else:
        Path("run/manifest.json").write_text(manifest)
    for call in (("predict", "run", "x.npy"), ("report", "run")):
        assert "'run/manifest.json' is" in line(unbend(*call))


def test_labels_that_were_changed_are_not_read_from_either_file(unbend, trained):
    shutil.copytree(trained, "run")
    Path("run/labels.parquet").unlink()
    with open("run/labels.csv", "a") as file:
        file.write("x,0,1.0,0.5\n")
    text = line(unbend("export", "run", "--format", "csv", "-o", "out.csv"))
    assert "labels.csv' is not what the run wrote" in text


def test_a_folder_in_place_of_the_vectors_is_named(unbend):
    fill(Path("photos"), 3)
    Path("out.npy").mkdir()
    text = line(unbend("embed", "photos", "-o", "out.npy", "--overwrite"))
    assert text == "unbend: cannot write 'out.npy': it is a folder; name a file in it"


def test_a_report_of_a_billion_clusters_is_rejected(unbend, trained):
    shutil.copytree(trained, "run")
    table = pq.read_table("run/labels.parquet")
    labels = table["cluster"].to_numpy().copy()
    labels[0] = 10**9
    table = table.set_column(1, "cluster", pa.array(labels))
    pq.write_table(table, "run/labels.parquet")
    record_file(Path("run"), "labels.parquet")
    text = line(unbend("report", "run"))
    assert "labels.parquet' is damaged: cluster 1000000000 of 120 samples" in text


@pytest.mark.skipif(os.name == "nt", reason="a drive there")
def test_a_name_like_a_drive_is_exported(unbend, trained):
    shutil.copytree(trained, "run")
    Path("photos").mkdir()
    name = "C:\\x.jpg"
    Image.new("RGB", (9, 9)).save(f"photos/{name}", "JPEG")
    table = pq.read_table("run/labels.parquet").slice(0, 1)
    labels = pa.array(np.zeros(1, np.int64))
    table = table.set_column(0, "sample", pa.array([name])).set_column(1, "cluster", labels)
    pq.write_table(table, "run/labels.parquet")
    record_file(Path("run"), "labels.parquet")
    done = unbend("export", "run", "--format", "imagefolder", "--images", "photos", "-o", "out")
    assert done.exit_code == 0, done.output
    assert [p.name for p in Path("out/cluster_0").iterdir()] == [name]
