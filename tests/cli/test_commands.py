"""The commands in one process: what they write and what they say."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from unbend import load


def names(path) -> set[str]:
    return {p.name for p in path.iterdir()}


def read(path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


RUN = {
    "labels.csv", "labels.parquet", "history.csv", "config.json", "manifest.json", "model",
    "features.npy", "report.html",
}  # fmt: skip


def test_cluster_writes_a_complete_run(unbend, tmp_path, vectors, quick):
    np.save("blobs.npy", vectors)
    done = unbend("cluster", "blobs.npy", "-k", 4, "-o", "run", *quick)
    assert done.exit_code == 0, done.output
    assert "120 samples in 4 clusters" in done.stdout
    assert "report: run/report.html" in done.stdout
    assert "stage 2" in done.stderr
    assert names(tmp_path / "run") == RUN
    labels = np.array([int(row["cluster"]) for row in read(tmp_path / "run" / "labels.csv")])
    model = load("run/model")
    assert (model.predict(vectors) == labels).all()
    np.testing.assert_allclose(np.load("run/features.npy"), model.transform(vectors), atol=1e-6)
    table = pq.read_table("run/labels.parquet")
    assert table["cluster"].to_pylist() == labels.tolist()
    again = unbend("cluster", "blobs.npy", "-k", 4, "-o", "run", *quick)
    assert again.exit_code == 2
    assert "holds a run already; name a new directory or pass --overwrite" in again.stderr


def test_the_manifest_says_what_the_run_was_made_of(trained):
    manifest = json.loads((trained / "manifest.json").read_text())
    assert manifest["seed"] == 0
    assert manifest["n_samples"] == manifest["n_trained"] == 120
    assert manifest["identity"]["settings"]["pretrain.epochs"] == 2
    assert manifest["config"]["pretrain"]["epochs"] == 2
    assert len(manifest["data"]["sha256"]) == 64
    assert {"reading", "training", "labelling"} <= set(manifest["seconds"])
    files = manifest.pop("files")
    assert {"labels.csv", "labels.parquet", "model/model.json", "report.html"} < set(files)
    assert "/" not in json.dumps(manifest)  # the same on every machine


def test_json_on_stdout_and_progress_on_stderr(unbend, vectors, quick):
    np.save("blobs.npy", vectors)
    np.save("y.npy", np.repeat(np.arange(4), 30))
    done = unbend(
        "cluster", "blobs.npy", "-k", 4, "--labels", "y.npy", "--json", "--no-report", *quick
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["run"] == "runs/blobs"
    assert result["n_clusters"] == 4
    assert result["report"] is None
    assert result["scores"] == json.loads(Path("runs/blobs/metrics.json").read_text())
    assert "stage 1" in done.stderr
    quiet = unbend("cluster", "blobs.npy", "-k", 4, "-o", "q", "-q", "--no-report", *quick)
    assert quiet.stderr == ""


def test_compare_prints_the_peers(unbend, vectors, quick):
    np.save("blobs.npy", vectors)
    np.save("y.npy", np.repeat(np.arange(4), 30))
    done = unbend("cluster", "blobs.npy", "-k", 4, "--labels", "y.npy", "--compare", *quick)
    assert done.exit_code == 0, done.output
    assert "k-means" in done.stdout
    assert "spectral clustering" in done.stdout


def test_a_file_gives_defaults_and_flags_win(unbend, vectors, quick):
    np.save("blobs.npy", vectors)
    with open("mine.toml", "w") as file:
        file.write(
            'k = 3\nseed = 5\nout = "from-file"\nreport = false\nn-clusters = 4\n'
            "[stage2]\neta = 0.3\nepochs = 1\nmin_steps = 1\n[pretrain]\nepochs = 9\n"
        )
    done = unbend("cluster", "blobs.npy", "--config", "mine.toml", "--seed", 6, *quick)
    assert done.exit_code == 0, done.output
    config = json.loads(Path("from-file/config.json").read_text())
    assert config["seed"] == 6  # the flag
    assert config["n_clusters"] == 4  # the later spelling of the file
    assert config["stage2"]["eta"] == 0.3  # the file
    assert config["pretrain"]["epochs"] == 2  # --set
    assert "report.html" not in names(Path("from-file"))


def test_training_on_some_rows_labels_all(unbend, vectors, quick):
    np.save("blobs.npy", vectors)
    done = unbend("cluster", "blobs.npy", "-k", 4, "--train-on", 60, "-o", "run", *quick)
    assert done.exit_code == 0, done.output
    assert "trained on 60, the rest labelled by the model" in done.stdout
    rows = read(Path("run/labels.csv"))
    assert [row["sample"] for row in rows] == [str(i) for i in range(120)]
    expected = load("run/model").predict(vectors)
    assert [int(row["cluster"]) for row in rows] == expected.tolist()
    assert json.loads(Path("run/manifest.json").read_text())["n_trained"] == 60


def test_resume_of_a_finished_run_changes_nothing(unbend, tmp_path, vectors, quick):
    np.save("blobs.npy", vectors)
    call = ["cluster", "blobs.npy", "-k", 4, "-o", "run", *quick]
    assert unbend(*call).exit_code == 0
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")}
    done = unbend(*call, "--resume")
    assert done.exit_code == 0, done.output
    assert "120 samples in 4 clusters" in done.stdout
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "run").rglob("*")} == before
    other = unbend(*call, "--resume", "--seed", 3)
    assert other.exit_code == 2
    assert "has seed = 0, this call 3" in other.stderr


# ---------------------------------------------------------------- predict


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_keeps_the_order_and_says_what_the_model_says(unbend, trained, vectors, ending):
    new = np.vstack([vectors[::-1], vectors[:7] + 0.1])
    np.save("new.npy", new)
    done = unbend("predict", trained, "new.npy", "-o", f"l.{ending}", "--probabilities")
    assert done.exit_code == 0, done.output
    table = pq.read_table("l.parquet").to_pylist() if ending == "parquet" else read(Path("l.csv"))
    model = load(trained / "model")
    assert [int(row["cluster"]) for row in table] == model.predict(new).tolist()
    p = np.array([[float(row[f"p{q}"]) for q in range(4)] for row in table])
    np.testing.assert_allclose(p, model.predict_proba(new), atol=1e-6)
    score = [float(row["outlier_score"]) for row in table]
    np.testing.assert_allclose(score, model.outlier_score(new), atol=1e-6)


def test_predict_takes_a_model_directory_too(unbend, trained, vectors):
    np.save("new.npy", vectors)
    assert unbend("predict", trained / "model", "new.npy", "-q").exit_code == 0
    again = unbend("predict", trained / "model", "new.npy", "-q")
    assert again.exit_code == 2
    assert "'labels.csv' already exists; name another or pass --overwrite" in again.stderr
    assert unbend("predict", trained, "new.npy", "-q", "--overwrite", "--json").exit_code == 0


def test_the_labels_of_a_run_are_not_replaced(unbend, trained, vectors):
    np.save("new.npy", vectors)
    own, before = trained / "labels.csv", (trained / "labels.csv").read_bytes()
    for command in ("predict", "update"):
        done = unbend(command, trained, "new.npy", "-q", "--overwrite", "-o", own)
        assert done.exit_code == 2
        assert "belongs to a run, which needs it; name another with -o" in done.stderr
    assert own.read_bytes() == before
    done = unbend("update", trained, "new.npy", "-o", "-")
    assert done.exit_code == 2
    assert "update writes a table; name a .csv or .parquet file with -o" in done.stderr


# ---------------------------------------------------------------- the rest


def test_report_is_written_anew(unbend, trained):
    (trained / "report.html").unlink()
    done = unbend("report", trained)
    assert done.exit_code == 0, done.output
    assert (trained / "report.html").stat().st_size > 1000
    assert str(trained / "report.html") in done.stdout


def test_doctor_finds_this_machine_healthy(unbend):
    done = unbend("doctor", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["healthy"] is True
    assert found["seconds"] < 60
    assert "cpu" in found["devices"]
    assert "self-test" not in unbend("doctor", "--no-test").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(unbend, shell):
    done = unbend("completion", shell)
    assert done.exit_code == 0
    assert "_UNBEND_COMPLETE" in done.stdout


def test_completion_knows_commands_and_options(unbend, monkeypatch):
    monkeypatch.setenv("_UNBEND_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "unbend cluster x --tra")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert "--train-on" in unbend().stdout


def test_bare_call_is_help(unbend):
    done = unbend()
    assert done.exit_code == 0
    assert "unbend cluster photos/" in done.stdout
