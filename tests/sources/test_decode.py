"""Real files written with Pillow in every mode, against closed forms."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbend.pixels.decode import MAX_PIXELS, decode, read_image


def read(path: Path, size: int) -> np.ndarray:
    found = read_image(str(path), size)
    assert found.pixels is not None, found.reason
    return np.frombuffer(found.pixels, np.uint8).reshape(3, size, size)


def colours(size: int = 8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "TIFF", "PNG", "ppm"])
def test_lossless_rgb_of_the_right_size_is_kept_bit_by_bit(tmp_path, suffix):
    pixels = colours()
    Image.fromarray(pixels).save(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal(read(tmp_path / f"a.{suffix}", 8), pixels.transpose(2, 0, 1))


def test_lossless_webp_is_kept_bit_by_bit(tmp_path):
    pixels = colours()
    Image.fromarray(pixels).save(tmp_path / "a.webp", lossless=True)
    np.testing.assert_array_equal(read(tmp_path / "a.webp", 8), pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "JPG"])
def test_jpeg_is_near(tmp_path, suffix):
    Image.new("RGB", (40, 30), (200, 100, 50)).save(tmp_path / f"a.{suffix}", quality=95)
    found = read(tmp_path / f"a.{suffix}", 16)
    assert np.abs(found.astype(int) - np.array([200, 100, 50])[:, None, None]).max() <= 3


def test_file_type_is_detected_by_content(tmp_path):
    Image.fromarray(colours()).save(tmp_path / "a.jpg", format="PNG")
    np.testing.assert_array_equal(read(tmp_path / "a.jpg", 8), colours().transpose(2, 0, 1))


@pytest.mark.parametrize(("gray_kind", "bits_kind"), [("png", "png"), ("pgm", "pbm")])
def test_gray_and_bits_get_three_equal_channels(tmp_path, gray_kind, bits_kind):
    gray = colours()[..., 0]
    Image.fromarray(gray).save(tmp_path / f"gray.{gray_kind}")
    Image.fromarray(gray > 127).save(tmp_path / f"bits.{bits_kind}")
    np.testing.assert_array_equal(read(tmp_path / f"gray.{gray_kind}", 8), np.stack([gray] * 3))
    expected = np.where(gray > 127, 255, 0)
    np.testing.assert_array_equal(read(tmp_path / f"bits.{bits_kind}", 8), np.stack([expected] * 3))


def test_transparent_pixels_lie_on_white(tmp_path):
    alpha = np.linspace(0, 255, 64).round().astype(np.uint8).reshape(8, 8)
    pixels = np.dstack([colours(), alpha])
    Image.fromarray(pixels, "RGBA").save(tmp_path / "rgba.png")
    Image.fromarray(np.dstack([pixels[..., 0], alpha]), "LA").save(tmp_path / "la.png")
    share = alpha[..., None] / 255
    expected = (pixels[..., :3] * share + 255 * (1 - share)).transpose(2, 0, 1)
    assert np.abs(read(tmp_path / "rgba.png", 8) - expected).max() <= 1
    assert np.abs(read(tmp_path / "la.png", 8) - expected[:1]).max() <= 1


def test_resizing_does_not_mix_in_hidden_colours(tmp_path):
    pixels = np.zeros((64, 64, 4), np.uint8)
    pixels[:, :32] = (255, 0, 0, 255)
    pixels[:, 32:] = (0, 255, 0, 0)  # green, but invisible
    Image.fromarray(pixels, "RGBA").save(tmp_path / "a.png")
    red, green, blue = read(tmp_path / "a.png", 8).astype(int)
    assert np.abs(green - blue).max() <= 1  # from red to white, nowhere green
    assert red.min() >= 250


def test_palettes_with_and_without_transparency(tmp_path):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((0, 0), 0)
    image.save(tmp_path / "plain.png")
    image.save(tmp_path / "clear.png", transparency=0)
    image.save(tmp_path / "clear.gif", transparency=0)
    plain = read(tmp_path / "plain.png", 8)
    assert plain[:, 0, 0].tolist() == [10, 20, 30]
    assert plain[:, 5, 5].tolist() == [40, 50, 60]
    for name in ("clear.png", "clear.gif"):
        clear = read(tmp_path / name, 8)
        assert clear[:, 0, 0].tolist() == [255, 255, 255]
        assert clear[:, 5, 5].tolist() == [40, 50, 60]


def test_rgb_with_a_transparent_colour(tmp_path):
    pixels = np.full((8, 8, 3), 9, np.uint8)
    pixels[0, 0] = (1, 2, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png", transparency=(1, 2, 3))
    found = read(tmp_path / "a.png", 8)
    assert found[:, 0, 0].tolist() == [255, 255, 255]
    assert found[:, 1, 1].tolist() == [9, 9, 9]


@pytest.mark.parametrize("suffix", ["tif", "jpg"])
def test_cmyk(tmp_path, suffix):
    Image.new("CMYK", (32, 32), (0, 255, 255, 0)).save(tmp_path / f"a.{suffix}", quality=95)
    red, green, blue = read(tmp_path / f"a.{suffix}", 8)
    assert red.min() > 245
    assert max(green.max(), blue.max()) < 10


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path, suffix):
    wide = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(wide).save(tmp_path / f"a.{suffix}")
    found = read(tmp_path / f"a.{suffix}", 8)
    assert np.abs(found[0] - wide / 257).max() <= 0.5
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.linspace(0, 1, 64, dtype=np.float32), 0, 1),
        (np.linspace(0, 200, 64, dtype=np.float32), 0, 255),
        (np.linspace(-5, 5, 64, dtype=np.float32), -5, 5),
        (np.linspace(0, 60000, 64).astype(np.int32), 0, 65535),
        (np.linspace(-(10**6), 10**6, 64).astype(np.int32), -(10**6), 10**6),
        (np.full(64, 10**6, np.int32), 10**6, 10**6 + 1),
    ],
)
def test_wide_integers_are_scaled_by_their_range(tmp_path, values, low, high):
    Image.fromarray(values.reshape(8, 8)).save(tmp_path / "a.tif")
    expected = (values.reshape(8, 8).astype(float) - low) / (high - low) * 255
    assert np.abs(read(tmp_path / "a.tif", 8)[0] - expected).max() <= 0.51


def test_nan_pixels_are_a_reason(tmp_path):
    Image.fromarray(np.full((8, 8), np.nan, np.float32)).save(tmp_path / "a.tif")
    found = read_image(str(tmp_path / "a.tif"), 8)
    assert (found.pixels, found.reason) == (None, "pixels that are not finite")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_as_pillow_does_it(tmp_path, orientation):
    from PIL import ImageOps

    image = Image.fromarray(colours(8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as stored:
        expected = np.asarray(ImageOps.exif_transpose(stored)).transpose(2, 0, 1)
    np.testing.assert_array_equal(read(tmp_path / "a.png", 8), expected)


def test_rotation_of_a_wide_jpeg_turns_the_picture(tmp_path):
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:20] = 255  # white above
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=95)
    found = read(tmp_path / "a.jpg", 16)[0]
    assert found[:, -6:].min() > 240  # above became right
    assert found[:, :6].max() < 15


def test_first_frame_of_an_animation(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read(tmp_path / "a.gif", 8)[:, 4, 4].tolist() == [255, 0, 0]


def test_the_shorter_side_is_resized_and_the_centre_cut_out(tmp_path):
    image = Image.fromarray(colours(90)).crop((0, 0, 90, 30))
    image.save(tmp_path / "wide.png")
    image.transpose(Image.Transpose.TRANSPOSE).save(tmp_path / "high.png")
    small = image.resize((30, 10), Image.Resampling.BICUBIC).crop((10, 0, 20, 10))
    expected = np.asarray(small).transpose(2, 0, 1)
    wide, high = read(tmp_path / "wide.png", 10), read(tmp_path / "high.png", 10)
    assert np.abs(wide.astype(int) - expected).max() <= 2
    assert np.abs(high.astype(int) - expected.transpose(0, 2, 1)).max() <= 2


def test_shrinking_averages_instead_of_picking(tmp_path):
    stripes = np.zeros((256, 256, 3), np.uint8)
    stripes[:, ::2] = 255
    Image.fromarray(stripes).save(tmp_path / "a.png")
    inner = read(tmp_path / "a.png", 16)[:, :, 1:-1]
    assert np.abs(inner.astype(int) - 127.5).max() < 3


def test_draft_of_a_large_jpeg_is_near_the_slow_way(tmp_path):
    ramp = np.linspace(0, 255, 1024)[:, None] * np.ones(1024)
    pixels = np.dstack([ramp, ramp.T, 255 - ramp]).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg", quality=95)
    means = pixels.reshape(32, 32, 32, 32, 3).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(read(tmp_path / "a.jpg", 32) - means).max() < 6


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (3, 2)])
def test_tiny_and_thin_images_are_enlarged(tmp_path, shape):
    Image.new("RGB", shape, (7, 8, 9)).save(tmp_path / "a.png")
    found = read(tmp_path / "a.png", 16)
    assert (found == np.array([7, 8, 9])[:, None, None]).all()


def test_decode_leaves_the_limit_of_pillow_alone():
    before = Image.MAX_IMAGE_PIXELS
    with io.BytesIO() as file:
        Image.new("RGB", (8, 8)).save(file, "PNG")
        decode(file, 8)
    assert before == Image.MAX_IMAGE_PIXELS


# ---------------------------------------------------------------- what cannot be read


def bomb() -> bytes:
    """A PNG of 66 bytes that claims four thousand million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        sum_ = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + sum_

    head = struct.pack(">IIBBBBB", 1 << 16, 1 << 16, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def truncated(kind: str) -> bytes:
    with io.BytesIO() as file:
        Image.fromarray(colours(64)).save(file, kind)
        return file.getvalue()[: len(file.getvalue()) // 2]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (b"just some words", "not an image of a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image of a known format"),
        (bomb(), f"too many pixels (limit {MAX_PIXELS})"),
        (truncated("PNG"), "truncated"),
        (truncated("JPEG"), "truncated"),
        (truncated("GIF"), "truncated"),
        (b"BM", ""),
        (b"GIF89a" + bytes(20), ""),
        (b"\xff\xd8\xff", ""),
    ],
)
def test_bad_files_have_a_reason_that_stays(tmp_path, content, reason):
    (tmp_path / "a.jpg").write_bytes(content)
    found = read_image(str(tmp_path / "a.jpg"), 8)
    assert found.pixels is None
    assert found.lasting
    assert reason in found.reason
    assert found.reason
    assert "\n" not in found.reason
    assert str(tmp_path) not in found.reason


def test_a_missing_file_may_come_back(tmp_path):
    found = read_image(str(tmp_path / "gone.png"), 8)
    assert (found.reason, found.lasting) == ("No such file or directory", False)


def test_damaged_metadata_do_not_matter(tmp_path):
    Image.fromarray(colours()).save(tmp_path / "a.png", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f")
    assert read(tmp_path / "a.png", 8).shape == (3, 8, 8)


def test_random_bytes_never_raise(tmp_path):
    rng = np.random.default_rng(0)
    with io.BytesIO() as file:
        Image.fromarray(colours(16)).save(file, "TIFF")
        good = np.frombuffer(file.getvalue(), np.uint8)
    for trial in range(60):
        bad = good.copy()
        bad[rng.integers(0, len(bad), 8)] = rng.integers(0, 256, 8)
        (tmp_path / "a.tif").write_bytes(bad.tobytes())
        found = read_image(str(tmp_path / "a.tif"), 8)
        assert (found.pixels is None) == bool(found.reason), trial
