import io

import numpy as np
import pytest
from PIL import Image

from unbend.report.sprites import make_sprites, make_thumbnails


def test_photographs_keep_their_values_and_shape():
    images = np.random.default_rng(0).integers(0, 256, (4, 3, 30, 40), dtype=np.uint8)
    thumbnails, index = make_thumbnails(images)
    np.testing.assert_array_equal(thumbnails, images.transpose(0, 2, 3, 1))
    assert index.tolist() == [0, 1, 2, 3]
    small, _ = make_thumbnails(images, size=20)
    assert small.shape == (4, 15, 20, 3)
    assert abs(float(small.mean()) - float(images.mean())) < 2


def test_other_numbers_are_stretched_to_black_and_white():
    images = np.linspace(-2, 3, 2 * 16).reshape(2, 4, 4)
    thumbnails, _ = make_thumbnails(images)
    assert (int(thumbnails.min()), int(thumbnails.max())) == (0, 255)
    expected = np.round((images + 2) / 5 * 255)
    np.testing.assert_array_equal(thumbnails, np.repeat(expected[..., None], 3, -1))
    flat, _ = make_thumbnails(np.full((1, 4, 4), np.nan))
    assert flat.shape == (1, 4, 4, 3)


def test_cap_limits_the_number_and_keeps_small_clusters():
    images = np.zeros((500, 4, 4), dtype=np.uint8)
    thumbnails, index = make_thumbnails(images, cap=20)
    assert len(thumbnails) == len(index) == 20
    assert (np.diff(index) > 0).all()
    labels = np.array([0] * 498 + [1, 1])
    assert {498, 499} <= set(make_thumbnails(images, cap=20, labels=labels)[1].tolist())


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 8, 8), (2, 8, 8, 3)])
def test_invalid_shapes_raise(shape):
    with pytest.raises(ValueError, match="`images` of make_thumbnails must be"):
        make_thumbnails(np.zeros(shape, dtype=np.uint8))


def test_invalid_sizes_raise():
    for option in ({"size": 0}, {"cap": 0}):
        with pytest.raises(ValueError, match="must be 1 or more, got 0"):
            make_thumbnails(np.zeros((2, 4, 4), dtype=np.uint8), **option)


@pytest.mark.parametrize(("side", "shown"), [(48, 48), (8, 48), (28, 56)])
def test_every_tile_is_where_the_page_looks_for_it(side, shown):
    tones = np.random.default_rng(0).integers(0, 256, (70, 3))
    thumbnails = np.broadcast_to(tones[:, None, None], (70, side, side, 3)).astype(np.uint8)
    sheets = make_sprites(thumbnails, per_sheet=32)
    assert len(sheets) == 3
    for number in range(70):
        sheet, at = sheets[number // 32], number % 32
        picture = np.asarray(Image.open(io.BytesIO(sheet.data)).convert("RGB")).astype(int)
        assert picture.shape == (sheet.rows * shown, sheet.columns * shown, 3)
        row, column = divmod(at, sheet.columns)
        middle = picture[row * shown + shown // 2, column * shown + shown // 2]
        assert np.abs(middle - tones[number]).max() < 12
