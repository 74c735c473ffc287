import json

import numpy as np
import pytest
import torch

from unbend.runs import read_model, write_model
from unbend.runs.model import FORMAT

TENSORS = {
    "weight": torch.arange(6.0).reshape(2, 3),
    "labels": torch.tensor([0, 1, 1]),
    "mask": torch.tensor([True, False]),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "scalar": torch.tensor(3.5, dtype=torch.float64),
    "empty": torch.zeros(0, 4),
}
VALUES = {"name": "Γ 日本", "none": None, "list": [1, 2.5, "x"], "deep": {"a": {"b": True}}}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    write_model(path, TENSORS, VALUES)
    return path


def test_a_model_reads_back_as_written(saved):
    tensors, values = read_model(str(saved))
    assert values == {"format": FORMAT, **VALUES}
    assert set(tensors) == set(TENSORS)
    for name, expected in TENSORS.items():
        assert tensors[name].dtype == expected.dtype
        assert torch.equal(tensors[name], expected)
    assert sorted(p.name for p in saved.iterdir()) == ["model.json", "model.safetensors"]


def test_tensors_that_share_memory_or_need_gradients_are_saved(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    tensors = {
        "all": base,
        "rows": base[:2],
        "turned": base.T,
        "same": base,
        "trained": torch.ones(2, requires_grad=True),
        "spread": torch.ones(1).expand(5),
    }
    write_model(tmp_path / "model", tensors, {})
    found, _ = read_model(tmp_path / "model")
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_numpy_numbers_become_plain(tmp_path):
    write_model(tmp_path / "model", {}, {"k": np.int64(3), "eta": np.float32(0.5)})
    assert read_model(tmp_path / "model")[1] == {"format": FORMAT, "k": 3, "eta": 0.5}


def test_nothing_is_pickled(saved):
    """The header of safetensors is JSON and the rest is numbers."""
    data = (saved / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert set(json.loads(data[8 : 8 + length])) - {"__metadata__"} == set(TENSORS)


def test_an_older_model_is_replaced(saved):
    write_model(saved, {"other": torch.ones(1)}, {"new": 1})
    tensors, values = read_model(saved)
    assert set(tensors) == {"other"}
    assert values == {"format": FORMAT, "new": 1}
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("values", [{"bad": object()}, {"bad": float("nan")}])
def test_values_that_cannot_be_written_keep_the_older_model(saved, values):
    with pytest.raises((TypeError, ValueError)):
        write_model(saved, {}, values)
    assert read_model(saved)[1]["name"] == "Γ 日本"
    assert [p.name for p in saved.parent.iterdir()] == ["model"]


def test_foreign_directories_are_rejected(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match=r"holds other files \('thesis.txt'\); name a new"):
        write_model(tmp_path, TENSORS, VALUES)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_file_in_the_place_is_rejected(tmp_path):
    path = tmp_path / "model"
    path.write_text("a file")
    with pytest.raises(ValueError, match="it is a file; name a directory"):
        write_model(path, TENSORS, VALUES)
    assert path.read_text() == "a file"


def test_an_empty_directory_is_used(tmp_path):
    write_model(tmp_path / "model", TENSORS, VALUES)
    (tmp_path / "empty").mkdir()
    write_model(tmp_path / "empty", TENSORS, VALUES)
    assert read_model(tmp_path / "empty")[1]["name"] == "Γ 日本"


# ---------------------------------------------------------------- damage


def cut(path, name: str, keep: int) -> None:
    data = (path / name).read_bytes()
    (path / name).write_bytes(data[:keep])


DAMAGE = {
    "cut json": (lambda p: cut(p, "model.json", 20), "model.json' is damaged"),
    "empty json": (lambda p: cut(p, "model.json", 0), "model.json' is damaged"),
    "binary json": (
        lambda p: (p / "model.json").write_bytes(b"\xff\xfe\x00"),
        "model.json' is damaged",
    ),
    "endless json": (
        lambda p: (p / "model.json").write_text("[" * 100_000),
        "model.json' is damaged",
    ),
    "list": (lambda p: (p / "model.json").write_text("[1]"), "model format None, this version"),
    "no format": (lambda p: (p / "model.json").write_text("{}"), "model format None"),
    "later format": (
        lambda p: (p / "model.json").write_text('{"format": 99}'),
        "has model format 99, this version reads 1; fit and save it again",
    ),
    "cut tensors": (lambda p: cut(p, "model.safetensors", 300), "safetensors' is damaged"),
    "one byte less": (
        lambda p: cut(p, "model.safetensors", (p / "model.safetensors").stat().st_size - 1),
        "safetensors' is damaged",
    ),
    "empty tensors": (lambda p: cut(p, "model.safetensors", 0), "safetensors' is damaged"),
    "text as tensors": (
        lambda p: (p / "model.safetensors").write_text("hello " * 99),
        "safetensors' is damaged",
    ),
    "no json": (lambda p: (p / "model.json").unlink(), "not a saved model: model.json is missing"),
    "no tensors": (
        lambda p: (p / "model.safetensors").unlink(),
        "not a saved model: model.safetensors is missing",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_raise(saved, name):
    harm, words = DAMAGE[name]
    harm(saved)
    with pytest.raises(ValueError, match=words):
        read_model(saved)


@pytest.mark.parametrize("make", [lambda p: p, lambda p: p.mkdir(), lambda p: p.write_text("x")])
def test_directory_without_a_model_raises(tmp_path, make):
    make(tmp_path / "thing")
    with pytest.raises(ValueError, match=r"thing' is not a saved model: model.safetensors is miss"):
        read_model(tmp_path / "thing")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1j])
def test_numbers_that_are_not_finite_or_not_real_are_rejected(tmp_path, bad):
    tensors = {**TENSORS, "labels.codes": torch.tensor([1.0, bad])}
    write_model(tmp_path / "model", tensors, VALUES)
    with pytest.raises(ValueError, match=r"is damaged: 'labels.codes' holds numbers that are not"):
        read_model(tmp_path / "model")
