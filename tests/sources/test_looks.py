"""Gray or colour, from a few files or images."""

import numpy as np
import pytest
from PIL import Image

from unbend.pixels.looks import are_gray, gray_side


def gray(side=(20, 16), seed=0):
    return np.random.default_rng(seed).integers(0, 256, side, dtype=np.uint8)


def write(folder, **pictures):
    for name, picture in pictures.items():
        Image.fromarray(picture).save(folder / f"{name}.png")
    return [f"{name}.png" for name in pictures]


def test_small_gray_files(tmp_path):
    names = write(tmp_path, a=gray(), b=np.stack([gray((30, 40))] * 3, 2), c=gray() > 99)
    assert gray_side(tmp_path, names, 40) == 30  # of the square in the middle of the largest
    assert gray_side(tmp_path, names, 39) is None  # b is longer
    (tmp_path / "d.png").write_text("no image")
    assert gray_side(tmp_path, [*names, "d.png", "gone.png"], 40) == 30


def test_one_coloured_file_is_enough(tmp_path):
    colour = np.stack([gray(), gray(), gray(seed=1)], 2)
    assert gray_side(tmp_path, write(tmp_path, a=gray(), b=colour), 40) is None
    assert gray_side(tmp_path, [], 40) is None


@pytest.mark.parametrize("shape", [(5, 8, 8), (5, 1, 8, 8)])
def test_one_channel_is_gray(shape):
    assert are_gray(np.zeros(shape, np.uint8))


def test_equal_channels_are_gray():
    X = np.repeat(gray((100, 1, 6, 6)), 3, axis=1)
    assert are_gray(X)
    X[99, 2] += 1
    assert not are_gray(X)
