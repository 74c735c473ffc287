"""The commands as real processes."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from unbend import load


def unbend(*arguments, cwd):
    """Run the command line and return the finished process."""
    command = [sys.executable, "-c", "from unbend.cli import main; main(prog_name='unbend')"]
    return subprocess.run(
        [*command, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(4)[:, :4] * 9, 30, axis=0) + rng.normal(size=(120, 4))
    np.save(folder / "blobs.npy", X)
    return folder


def test_cluster_writes_a_whole_run(vectors):
    """Labels, history, config and a model that loads and agrees with the labels."""
    done = unbend("cluster", "blobs.npy", "-k", 4, "-o", "run", cwd=vectors)
    assert done.returncode == 0, done.stderr
    assert "120 samples in 4 clusters" in done.stdout
    assert "stage 2" in done.stderr
    names = {p.name for p in (vectors / "run").iterdir()}
    assert names == {"labels.csv", "history.csv", "config.json", "model"}
    rows = list(csv.DictReader((vectors / "run" / "labels.csv").open()))
    assert list(rows[0]) == ["sample", "cluster", "probability", "outlier_score"]
    labels = np.array([int(row["cluster"]) for row in rows])
    assert (np.bincount(labels) == 30).all()
    model = load(vectors / "run" / "model")
    assert (model.predict(np.load(vectors / "blobs.npy")) == labels).all()
    assert json.loads((vectors / "run" / "config.json").read_text())["preset"] == "vectors"
    again = unbend("cluster", "blobs.npy", "-k", 4, "-o", "run", cwd=vectors)
    assert again.returncode == 2
    assert "holds a run already; name a new directory or pass --overwrite" in again.stderr


WRONG = [
    (["cluster", "nothing.npy"], "no file or data set 'nothing.npy'; give a .npy file or one of"),
    (["cluster", "blobs.npy", "-k", "ten"], "must be a whole number or auto, got 'ten'"),
    (["cluster", "blobs.npy", "-k", "0"], "`n_clusters` of MLC must be an integer >= 1"),
    (["cluster", "blobs.npy", "-k", "500"], "n_clusters=500 of MLC must be at most n_samples=120"),
    (["cluster", "blobs.npy", "--device", "abacus"], "`device` 'abacus' is not here"),
    (["cluster", "blobs.npy", "--sed", "1"], "--seed"),
    (
        ["cluster", "blobs.npy", "--compare"],
        "--compare needs true labels, and 'blobs.npy' has none",
    ),
    (["cluster", "text.npy"], "cannot read 'text.npy': it is not a plain array of numbers"),
    (["cluster", "pickled.npy"], "cannot read 'pickled.npy': it is not a plain array of numbers"),
    (["cluster", "empty.npy"], "cannot read 'empty.npy': it is not a plain array of numbers"),
    (["cluster", "archive.npy"], "cannot read 'archive.npy': it is an archive, not a single array"),
    (["cluster", "notes.txt"], "cannot read 'notes.txt': only .npy files and named sets"),
    (["reproduce", "figure9"], "figure9"),
    (["reproduce", "figure1", "--seeds", "0"], "--seeds"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda v: " ".join(v)[:40])
def test_wrong_calls_exit_2_with_one_clear_line(arguments, message, vectors):
    """No traceback, nothing left behind."""
    (vectors / "text.npy").write_text("hello")
    (vectors / "notes.txt").write_text("hello")
    (vectors / "empty.npy").touch()
    with (vectors / "archive.npy").open("wb") as file:
        np.savez(file, a=np.ones(3))
    np.save(vectors / "pickled.npy", np.array([{"a": 1}], dtype=object))
    before = {p.name for p in vectors.rglob("*")}
    out = ["-o", "fresh"] if arguments[0] == "cluster" else []
    done = unbend(*arguments, *out, cwd=vectors)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert {p.name for p in vectors.rglob("*")} == before


def test_help_needs_no_torch(vectors):
    """Help answers at once because it imports nothing heavy."""
    code = (
        "import sys\nfrom unbend.cli import main\n"
        "try: main(['cluster', '--help'])\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules, 'sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip().endswith("False False")
    assert "unbend cluster digits -k 10" in done.stdout


def test_an_output_that_cannot_be_written_is_refused_before_the_work(vectors):
    """A file in the way of the run directory."""
    done = unbend("cluster", "blobs.npy", "-k", 4, "-o", "blobs.npy/run", cwd=vectors)
    assert done.returncode == 2
    assert "cannot write a run to 'blobs.npy/run'" in done.stderr
    assert "stage 1" not in done.stderr
