"""Resizing by matrices against torch, byte for byte."""

import pytest
import torch

from unbend.deploy.resize import Resize
from unbend.networks.encoders.preprocess import Preprocessing

SIZES = [(40, 50), (150, 99), (100, 30), (64, 65), (17, 200), (64, 64)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["bicubic", "bilinear", "nearest"])
@pytest.mark.parametrize("crop", [None, 1.0, 0.875])
def test_is_exactly_what_torch_does(size, mode, crop):
    preprocess = Preprocessing((64, 48), interpolation=mode, crop=crop)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (3, 3, *size), generator=generator, dtype=torch.uint8)
    resize, wanted = Resize(preprocess, size), preprocess.resize(images)
    assert resize.on_bytes == (wanted.dtype == torch.uint8)
    assert resize(images).shape == wanted.shape
    torch.testing.assert_close(resize(images), wanted.float(), rtol=0, atol=2e-7)
