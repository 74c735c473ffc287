"""A run with known answers: digits in orthogonal subspaces, a few of them mistaken."""

import json
import threading
from http.client import HTTPConnection

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unbend.disk import atomic_write, to_json
from unbend.report import make_thumbnails
from unbend.runs import LabelRows, labels_file, npy_file

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "new\nline\r.png",
    "👩‍🔬 Ωμέγα.png",
    "=1+1",
]


def write_run(path, labels, Z, *, images=None, names=None, probability=None, spec="digits"):
    """The files of a run that explore reads, without training."""
    n, rng = len(labels), np.random.default_rng(1)
    path.mkdir(parents=True)
    names = [f"digit_{i}.png" for i in range(n)] if names is None else names
    p = rng.beta(9, 1, n) if probability is None else probability
    with labels_file(path / "labels.parquet") as write:
        write(LabelRows(names, labels, p, rng.random(n) * 0.3))
    with npy_file(path / "features.npy", Z.shape) as write:
        write(Z)
    kind = "vectors"
    if images is not None:
        kind = "images"
        tiles, index = make_thumbnails(images, labels=labels)
        np.save(path / "thumbnails.npy", tiles)
        atomic_write(path / "thumbnails.json", to_json({"indices": index}))
    manifest = {"format": 2, "data": {"name": "digits <b>&</b>", "kind": kind}}
    atomic_write(path / "manifest.json", to_json(manifest))
    atomic_write(path / "config.json", to_json({"input": spec}))
    return path


def subspaces(labels, k, rank=3, d=40, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:, : k * rank].reshape(d, k, rank)
    inner = rng.standard_normal((len(labels), rank))
    Z = np.einsum("dnr,nr->nd", basis[:, labels], inner)
    Z += noise * rng.standard_normal(Z.shape)
    return (Z / np.linalg.norm(Z, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="session")
def digits():
    data, n = load_digits(), 600
    y = data.target[:n].astype(np.int64)
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(n) < 0.05, (y + 1) % 10, y)
    return data.images[:n].astype(np.uint8), y, labels, subspaces(y, 10)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def run(digits, tmp_path):
    images, _, labels, Z = digits
    names = [f"digit_{i}.png" for i in range(len(labels))]
    names[: len(HOSTILE)] = HOSTILE
    return write_run(tmp_path / "run", labels, Z, images=images, names=names)


class Client:
    """Plain requests to a server, with or without its token."""

    def __init__(self, served):
        self.base, self.token = served.address.split("/#token=")
        self.host = self.base.removeprefix("http://")

    def raw(self, method, path, body=None, headers=()):
        connection = HTTPConnection(self.host, timeout=30)
        try:
            connection.request(method, path, body=body, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def __call__(self, path, body=None, status=200):
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        method = "GET" if body is None else "POST"
        sent = None if body is None else json.dumps(body)
        code, found, data = self.raw(method, f"/api/{path}", sent, headers)
        assert code == status, data
        return json.loads(data) if "json" in found["content-type"] else data


@pytest.fixture
def serve():
    """Start servers for runs; they are stopped at the end."""
    from contextlib import ExitStack

    from unbend.explore.serve import serving

    with ExitStack() as held:
        threads = []

        def start(run, **options):
            served = held.enter_context(serving(run, port=0, **options))
            thread = threading.Thread(target=served.run)
            thread.start()
            threads.append((served, thread))
            return served, Client(served)

        yield start
        for served, thread in threads:
            served.stop()
            thread.join()
