"""Untrusted models affect nothing but labels, and invalid ones give a one-line error."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from unbend import MLC, load

SHORT = {
    "pretrain_epochs": 1,
    "epochs": 1,
    "random_state": 0,
    "settings": {"pretrain.min_steps": 2, "stage2.min_steps": 2},
}


class Colours(nn.Module):
    """Mean colours through a module, so that embeddings are kept."""

    def forward(self, x):
        return torch.cat([x.mean((2, 3)), x.std((2, 3))], 1)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), dtype=np.uint8)


@pytest.fixture
def saved(tmp_path, monkeypatch, images):
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    model = MLC(3, encoder=Colours(), cache_dir=tmp_path / "mine", **SHORT).fit(images)
    model.save(tmp_path / "model")
    return tmp_path / "model"


def change(saved, **values):
    """Edit model.json as somebody else might."""
    tree = json.loads((saved / "model.json").read_text())
    for key, value in values.items():
        tree[key] = {**tree[key], **value} if isinstance(value, dict) else value
    (saved / "model.json").write_text(json.dumps(tree))


def test_loaded_model_does_not_set_output_paths(saved, images, tmp_path):
    assert str(tmp_path) not in json.dumps(json.loads((saved / "model.json").read_text())["params"])
    change(saved, params={"cache_dir": str(tmp_path / "trap")})
    model = load(saved, encoder=Colours())
    assert model.cache_dir == "auto"
    model.predict(images)
    assert not (tmp_path / "trap").exists()
    assert (tmp_path / "cache" / "embeddings").is_dir()


def test_no_cache_stays_no_cache(saved, images, tmp_path):
    change(saved, params={"cache_dir": None})
    load(saved, encoder=Colours()).predict(images)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("field", ["name", "fingerprint", "resolution", "pooling", "mean", "std"])
def test_a_record_of_an_encoder_without_a_field_gives_a_one_line_error(saved, field):
    record = json.loads((saved / "model.json").read_text())["encoder"]
    del record[field]
    tree = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps({**tree, "encoder": record}))
    with pytest.raises(
        ValueError, match=f"the record of the encoder in this model lacks '{field}'"
    ):
        load(saved, encoder=Colours())


@pytest.mark.parametrize("name", ["labels.codes", "labels.potential", "labels.counts", "mean"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_rejected(saved, name, bad):
    tensors = load_file(saved / "model.safetensors")
    tensors["labels.counts"] = torch.ones(3)  # as in files of earlier versions
    name = name if name in tensors else f"network.{name}"
    tensors[name] = tensors[name].clone().double()
    tensors[name].view(-1)[0] = bad
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(ValueError, match=f"'{name}' holds numbers that are not finite"):
        load(saved)


def test_weights_that_were_cut_are_named_with_a_remedy(saved):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"safetensors' is damaged: .*; fit and save it again"):
        load(saved)


def test_complex_weights_are_rejected(saved):
    tensors = load_file(saved / "model.safetensors")
    name = next(key for key in tensors if key.startswith("network.") and "weight" in key)
    tensors[name] = tensors[name].to(torch.complex64)
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(ValueError, match="not finite or not real"):
        load(saved)


ABSURD = [
    "network.width", "network.dim", "network.head_width", "network.depth", "network.head_depth",
    "views.n_views", "views.n_cached", "pretrain.moco.queue", "pretrain.swav.prototypes",
    "pretrain.simclr.dim", "pretrain.vicreg.dim", "pretrain.byol.hidden",
]  # fmt: skip


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_sizes_are_rejected_before_the_work(name):
    model = MLC(3, settings={name: 100_000_000})
    with pytest.raises(ValueError, match=rf"'{name}' must be .* to \d+, got 100000000; "):
        model.fit(np.eye(9))


@pytest.mark.parametrize("hooks", [[], "views", {"views": "os.system"}])
def test_hooks_from_others_are_names_at_most(saved, images, hooks):
    tree = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps({**tree, "hooks": hooks}))
    assert len(load(saved, encoder=Colours()).predict(images)) == len(images)


@pytest.mark.parametrize("value", [10**9, "8", [8], 0])
def test_a_wrong_resolution_is_refused(saved, value):
    change(saved, encoder={"resolution": value})
    with pytest.raises(ValueError, match="the record of the encoder in this model has resolution"):
        load(saved, encoder=Colours())
