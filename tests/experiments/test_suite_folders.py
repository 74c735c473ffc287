"""Random folders of photographs: what is drawn, and how the scores come about."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from unbend.experiments.suite import folders
from unbend.experiments.suite.folders import draw_folder, run
from unbend.metrics import clustering_scores
from unbend.sources.named.spec import NamedSet


@pytest.fixture(scope="module")
def photographs():
    """Seventy tiny pictures of each of ten colours."""
    y = np.tile(np.arange(10), 70)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, (700, 3, 4, 4)) + 20 * y[:, None, None, None]
    return X.astype(np.uint8), y


def test_folders_are_drawn_as_said_and_half_are_uneven(photographs):
    X, y = photographs
    for seed in range(12):
        folder = draw_folder(X, y, seed)
        sizes = np.unique(folder.y, return_counts=True)[1]
        assert 5 <= len(sizes) <= 10
        if seed % 2:
            assert np.ptp(sizes) > 0
            assert 20 <= sizes.min() < sizes.max() <= 60
        else:
            assert np.ptp(sizes) == 0
            assert 50 <= sizes[0] <= 60
        np.testing.assert_array_equal(folder.images[:, 0, 0, 0] // 20, folder.y)
        assert len(np.unique(folder.images.reshape(len(folder.y), -1), axis=0)) == len(folder.y)
        again = draw_folder(X, y, seed)
        np.testing.assert_array_equal(folder.images, again.images)


@pytest.fixture
def commands(photographs, monkeypatch):
    """`unbend` that reads the PNGs: clusters are colours, but that two are taken for one."""
    calls = []

    def unbend(command, place, *rest):
        calls.append((command, *map(str, rest)))
        files = sorted(place.glob("*.png"))
        pixels = np.stack([np.asarray(Image.open(file)) for file in files])
        target = rest[rest.index("-o") + 1]
        if command == "embed":
            np.save(target, pixels.reshape(len(files), -1).astype(np.float32))
            return
        clusters = np.unique(pixels[:, 0, 0, 0] // 20, return_inverse=True)[1]
        clusters[clusters == 1] = 0
        target.mkdir()
        rows = [f"{file.name},{c},1.0,0.0" for file, c in zip(files, clusters, strict=True)]
        rows.reverse()  # the names count, not the order
        head = "sample,cluster,probability,outlier_score"
        (target / "labels.csv").write_text("\n".join([head, *rows]) + "\n")

    X, y = photographs
    monkeypatch.setattr(folders, "_unbend", unbend)
    monkeypatch.setattr(folders, "COUNT", 3)
    monkeypatch.setattr(
        folders, "load_named", lambda name, download: NamedSet("cifar10", name.split(":")[1], X, y)
    )
    return calls


def test_every_folder_and_the_mean_are_scored_and_kept(commands, photographs, tmp_path):
    X, y = photographs
    table = run(list="test", out=tmp_path / "out", verbose=False)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["folder"] for row in rows] == ["1", "2", "3", "mean"]
    expected = []
    for number, row in enumerate(rows[:3]):
        truth = draw_folder(X, y, number).y
        merged = np.unique(truth, return_inverse=True)[1]
        merged[merged == 1] = 0
        scores = clustering_scores(truth, merged)
        expected.append(scores.acc)
        assert row["MLC ACC"] == f"{scores.acc:.3f}"
        assert row["MLC ARI"] == f"{scores.ari:.3f}"
        assert row["k-means ACC"] == "1.000"  # the colours are far apart
        assert row["ACC, MLC - k-means"] == f"{scores.acc - 1:+.3f}"
        assert row["photographs"] == str(len(truth))
    assert rows[3]["MLC ACC"] == f"{np.mean(expected):.3f}"
    assert "ahead in 0 of 3" in table.notes[0]
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        f"folders-test.{end}" for end in ("md", "csv", "json")
    }
    k = rows[0]["classes"]
    assert commands[0][:3] == ("cluster", "-k", k)
    assert not any("labels" in word for call in commands for word in call)
    commands.clear()
    assert run(list="test", verbose=False).rows == table.rows
    assert not commands  # kept
    assert run(list="development", verbose=False).rows != table.rows
    assert len(commands) == 6


def test_a_command_that_fails_gives_a_one_line_error():
    with pytest.raises(OSError, match=r"`unbend cluster` of a folder failed: unbend: .*nowhere"):
        folders._unbend("cluster", "/nowhere/at/all", "-k", 3)


def test_options_used_by_the_suite_exist_in_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "unbend", "cluster", "--help"], capture_output=True, text=True
    )
    for word in ("-k,", "--no-report", "-q,", "-o,"):
        assert word in done.stdout


def test_only_two_lists():
    with pytest.raises(ValueError, match="`list` must be one of development, test, got 'a'"):
        run(list="a", verbose=False)
