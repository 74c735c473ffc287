"""Pixels to network input, against Pillow and against arithmetic by hand."""

import numpy as np
import pytest
import torch
from PIL import Image

from unbend.networks.encoders import Preprocessing

HALF = (0.5,) * 3
UNIT = ((0.0,) * 3, (1.0,) * 3)


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A smooth picture with some noise, (3, h, w) uint8."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    base = np.stack([np.sin(6 * x), np.cos(5 * y), np.sin(4 * (x + y))])
    return np.clip(128 + 80 * base + rng.normal(0, 5, base.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize(("mode", "pil"), [("bicubic", 3), ("bilinear", 2)])
@pytest.mark.parametrize("side", [(96, 96), (90, 120), (120, 90)])
def test_shrinking_and_cropping_are_pillows(mode, pil, side):
    image = picture(*side)
    got = Preprocessing((56, 56), *UNIT, mode, crop=56 / 64)(torch.from_numpy(image[None]))[0]
    zoom = 64 / min(side)
    size = (int(side[1] * zoom), int(side[0] * zoom))
    resized = Image.fromarray(image.transpose(1, 2, 0)).resize(size, pil)
    left, top = (size[0] - 56) // 2, (size[1] - 56) // 2
    expected = np.asarray(resized.crop((left, top, left + 56, top + 56))) / 255
    assert np.abs(got.numpy().transpose(1, 2, 0) - expected).max() <= 2.01 / 255


def test_enlarging_is_pillows_up_to_its_rounding():
    image = picture(32, 32)
    got = Preprocessing((80, 80), *UNIT)(torch.from_numpy(image[None]))[0]
    expected = np.asarray(Image.fromarray(image.transpose(1, 2, 0)).resize((80, 80), 3)) / 255
    assert np.abs(got.numpy().transpose(1, 2, 0) - expected).max() < 4 / 255


def test_squeezing_keeps_the_whole_picture():
    image = np.zeros((1, 3, 20, 40), dtype=np.uint8)
    image[..., :20] = 255  # left half white
    got = Preprocessing((10, 10), *UNIT, "bilinear", crop=None)(torch.from_numpy(image))
    assert got[..., :4].min() == 1
    assert got[..., 6:].max() == 0


def test_normalisation_by_hand_for_bytes_and_floats_alike():
    image = torch.tensor([0, 127, 255], dtype=torch.uint8).view(1, 3, 1, 1).expand(2, 3, 8, 8)
    prepare = Preprocessing((8, 8), (0.1, 0.2, 0.3), (0.5, 0.25, 2.0))
    expected = torch.tensor([-0.2, (127 / 255 - 0.2) / 0.25, 0.35]).view(1, 3, 1, 1)
    torch.testing.assert_close(prepare(image), expected.expand(2, 3, 8, 8))
    torch.testing.assert_close(prepare(image / 255), expected.expand(2, 3, 8, 8))


def test_the_callers_images_stay_as_they_are():
    images = torch.rand(2, 3, 8, 8)
    before = images.clone()
    Preprocessing((8, 8))(images)
    Preprocessing(None)(images.contiguous(memory_format=torch.channels_last))
    assert torch.equal(images, before)


def test_gray_becomes_three_equal_channels_and_colour_luminance():
    gray = torch.from_numpy(picture(16, 16)[:1][None])
    out = Preprocessing((16, 16), *UNIT)(gray)
    assert out.shape == (1, 3, 16, 16)
    assert torch.equal(out[:, 0], out[:, 2])
    colour = picture(16, 16)
    luminance = Preprocessing((16, 16), (0.0,), (1.0,))(torch.from_numpy(colour[None]))
    expected = np.asarray(Image.fromarray(colour.transpose(1, 2, 0)).convert("L")) / 255
    assert np.abs(luminance[0, 0].numpy() - expected).max() <= 1.01 / 255


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interpolation": "cubic"}, "must be one of bicubic"),
        ({"mean": (0.5,)}, "both have 1 or 3"),
        ({"std": (1.0, 0.0, 1.0)}, "std must be > 0"),
    ],
)
def test_bad_settings_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        Preprocessing((8, 8), **options)


def test_four_channels_are_rejected():
    with pytest.raises(ValueError, match="1 or 3 channels"):
        Preprocessing((8, 8))(torch.zeros(1, 4, 8, 8))
