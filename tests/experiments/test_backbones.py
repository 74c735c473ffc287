"""The comparison of backbones on small images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from unbend.experiments import backbones

SHORT = {
    "pretrain.min_steps": 3,
    "pretrain.max_steps": 3,
    "stage2.min_steps": 2,
    "stage2.max_steps": 2,
}


@pytest.mark.parametrize("name", backbones.BACKBONES)
def test_backbones_map_images_to_vectors_of_their_width(name):
    make = backbones.BACKBONES[name]
    module = make(28).get("backbone")
    if isinstance(module, nn.Module):
        h = module(torch.zeros(3, 1, 28, 28))
        assert h.shape == (3, module.out_features)


def test_random_features_do_not_learn_and_others_do():
    frozen = backbones.RandomFeatures()
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad for p in backbones.Patches(28, 4).parameters())


def test_weights_of_a_module_repeat():
    first, second = (backbones.BACKBONES["stem of stride 4"](28)["backbone"] for _ in range(2))
    assert torch.equal(first.layers[0].weight, second.layers[0].weight)


def test_two_groups_are_found_and_the_table_has_a_row_for_each_fit(monkeypatch, tmp_path):
    """Bright left and bright right halves, from images and from their pixels as vectors."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = rng.integers(0, 40, (80, 8, 8)).astype(np.uint8)
    X[y == 0, :, :4] += 200
    X[y == 1, :, 4:] += 200
    monkeypatch.setattr(backbones, "_images", lambda name: (X, y))
    monkeypatch.setattr(backbones, "DATA", ("halves",))
    tiny = {
        "convnet": lambda side: {"settings": SHORT},
        "vectors": lambda side: {"preset": "vectors"},
    }
    monkeypatch.setattr(backbones, "BACKBONES", tiny)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    table = backbones.run(seeds=1, out=tmp_path, verbose=False)
    assert [row[1] for row in table.rows] == ["convnet", "vectors"]
    assert table.rows[0][5] == "3"
    assert table.rows[1][2] == "1.000"  # groups that far apart are found whole
    assert (tmp_path / "backbones.md").exists()
