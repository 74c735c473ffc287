"""``unbend cluster`` without -k, and with --noise."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from unbend.cli.app import main
from unbend.estimator import load
from unbend.metrics import clustering_scores
from unbend.report import facts_of_run

QUICK = (
    "--set",
    "pretrain.epochs=4",
    "--set",
    "stage2.epochs=2",
    "--set",
    "views.metric=euclidean",
)


def call(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["cluster", *map(str, arguments), *QUICK])
    assert done.exit_code == 0, done.output
    return done.output


def clusters(run: Path) -> np.ndarray:
    with (run / "labels.csv").open(newline="") as file:
        return np.array([int(row["cluster"]) for row in csv.DictReader(file)])


def test_candidates_are_in_terminal_report_and_model(tmp_path: Path) -> None:
    """Five blobs, six numbers allowed: sentence and bar of sizes in all three places."""
    rng = np.random.default_rng(0)
    X = np.repeat(9 * np.eye(5, 8), 50, axis=0) + 0.6 * rng.standard_normal((250, 8))
    np.save(tmp_path / "x.npy", X)
    run = tmp_path / "run"
    said = call(tmp_path / "x.npy", "--min-clusters", 4, "--max-clusters", 9, "-o", run)
    found = load(run).model_selection_
    assert found is not None
    assert (found.k[0], found.k[-1], found.chosen) == (4, 9, 5)
    for line in found.describe():
        assert line in said
    page = (run / "report.html").read_text(encoding="utf-8")
    for row in found.candidates:
        assert row["text"] in page
        assert f"Sizes of the {row['k']} clusters" in page


def test_noise_is_minus_one_in_the_labels_and_counted(tmp_path: Path) -> None:
    """Three blobs and two strays, each alone: less than one sample in a hundred."""
    rng = np.random.default_rng(0)
    X = np.repeat(9 * np.eye(3, 6), 100, axis=0) + 0.4 * rng.standard_normal((300, 6))
    X = np.concatenate([X, 60 * np.eye(2, 6, k=3)])
    np.save(tmp_path / "x.npy", X)
    said = call(tmp_path / "x.npy", "-k", 3, "--noise", "-o", tmp_path / "noisy", "--no-report")
    noisy = clusters(tmp_path / "noisy")
    np.testing.assert_array_equal(np.flatnonzero(noisy == -1), [300, 301])
    assert "2 outliers labelled -1" in said
    call(tmp_path / "x.npy", "-k", 3, "-o", tmp_path / "plain", "--no-report")
    plain = clusters(tmp_path / "plain")
    assert plain.min() == 0
    np.testing.assert_array_equal(plain[noisy >= 0], noisy[noisy >= 0])
    # The report leaves them out, but scores all samples, as the command does.
    y = np.r_[np.repeat(np.arange(3), 100), 0, 1]
    facts = facts_of_run(tmp_path / "noisy", y=y)
    assert len(facts.labels) == 300
    assert facts.truth is not None
    assert facts.truth["scores"] == clustering_scores(y, noisy).to_dict()
    assert facts.truth["scores"]["n"] == 302
    assert facts.outlier_threshold == load(tmp_path / "noisy").outlier_threshold_


def test_the_report_has_a_picture_of_reliability_only_with_true_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    X = 9 * np.eye(3, 6)[y] + 0.6 * rng.standard_normal((120, 6))
    np.savez(tmp_path / "x.npz", X=X, y=y)
    np.save(tmp_path / "bare.npy", X)
    call(tmp_path / "x.npz", "-k", 3, "-o", tmp_path / "with", "--labels", "y")
    call(tmp_path / "bare.npy", "-k", 3, "-o", tmp_path / "without")
    words = "expected calibration error"
    assert words in (tmp_path / "with" / "report.html").read_text(encoding="utf-8")
    assert words not in (tmp_path / "without" / "report.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "with" / "manifest.json").read_text())
