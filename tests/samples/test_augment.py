import colorsys
import math

import pytest
import torch
from tests.oracles.training import global_random_state_kept

from unbend.config import PRESETS, Augmentation
from unbend.samples import augment

STILL = {
    "crop_scale": (1.0, 1.0),
    "crop_ratio": (1.0, 1.0),
    "flip": 0.0,
    "grayscale": 0.0,
    "jitter_probability": 0.0,
    "blur": 0.0,
}
SHAPES = [(1, 8, 8), (3, 8, 8), (3, 4, 4), (3, 32, 32), (1, 20, 33), (3, 48, 12), (3, 96, 96)]


def pictures(n: int, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    values = torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))
    return low + (high - low) * values


def vary(images: torch.Tensor, seed: int = 0, **changes: object) -> torch.Tensor:
    """A policy that does nothing but ``changes``."""
    policy = Augmentation(**{**STILL, **changes})
    return augment(images, policy, torch.Generator().manual_seed(seed))


def centres(side: int) -> torch.Tensor:
    """Centres of pixels in a picture that reaches from -1 to 1."""
    return (2 * torch.arange(side) + 1) / side - 1


def rounding(shape: tuple[int, ...]) -> float:
    """Places are rounded to 1e-7 of the picture, which is more in pixels of a large one."""
    return 1e-6 * max(1, max(shape) / 8)


def ramps(n: int, height: int, width: int) -> torch.Tensor:
    """Channels x, y and 1: an affine map can be read off its result."""
    x = centres(width).expand(height, width)
    y = centres(height)[:, None].expand(height, width)
    return torch.stack([x, y, torch.ones_like(x)]).expand(n, 3, height, width)


def windows(views: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Size and centre (n, 2) of the crops of ramps, from the inner pixels of the middle rows."""
    _, _, height, width = views.shape
    x, y = views[:, 0, height // 2], views[:, 1, :, width // 2]
    found = []
    for line, side in ((x, width), (y, height)):
        a, b = side // 2 - 1, side // 2
        found.append(((line[:, b] - line[:, a]) * side / 2, (line[:, a] + line[:, b]) / 2))
    (w, cx), (h, cy) = found
    return torch.stack([w, h], 1), torch.stack([cx, cy], 1)


# ---------------------------------------------------------------- geometry


@pytest.mark.parametrize("shape", SHAPES)
def test_empty_augmentation_returns_the_image(shape):
    images = pictures(3, shape)
    torch.testing.assert_close(vary(images), images, rtol=0, atol=rounding(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_flip_is_a_mirror(shape):
    images = pictures(3, shape)
    torch.testing.assert_close(vary(images, flip=1.0), images.flip(3), rtol=0, atol=rounding(shape))


@pytest.mark.parametrize(("height", "width"), [(8, 8), (32, 32), (16, 40), (96, 96)])
@pytest.mark.parametrize(("scale", "ratio"), [(0.25, 1.0), (0.36, 4 / 3), (0.0625, 3 / 4)])
def test_crop_of_a_ramp_has_a_closed_form(height, width, scale, ratio):
    views = vary(ramps(64, height, width), crop_scale=(scale, scale), crop_ratio=(ratio, ratio))
    size, centre = windows(views)
    expected = math.sqrt(scale) * torch.tensor([math.sqrt(ratio), 1 / math.sqrt(ratio)])
    torch.testing.assert_close(size, expected.expand(64, 2), rtol=1e-3, atol=1e-4)
    assert (centre.abs() <= 1 - expected + 1e-4).all()
    assert (centre.abs().amax(0) > 0.8 * (1 - expected)).all()  # the whole range is used
    # Between the centres of the first and the last pixel a ramp is exact; beyond, it stays.
    for channel, side in ((0, width), (1, height)):
        line = centres(side) * expected[channel] + centre[:, channel, None]
        line = line.clamp(-1 + 1 / side, 1 - 1 / side)
        found = views[:, channel].mean(1 if channel == 0 else 2)
        torch.testing.assert_close(found, line, rtol=0, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_crop_adds_no_black_border(seed):
    white = vary(torch.ones(100, 1, 16, 16), seed, crop_scale=(0.04, 1.0), flip=0.5)
    torch.testing.assert_close(white, torch.ones_like(white))


def test_sizes_of_crops_follow_the_policy():
    views = vary(ramps(4000, 32, 32), crop_scale=(0.04, 1.0), crop_ratio=(3 / 4, 4 / 3))
    size, _ = windows(views)
    area, ratio = size.prod(1), size[:, 0] / size[:, 1]
    assert area.min() > 0.04 - 1e-3
    assert area.max() < 1 + 1e-3
    assert ratio.min() > 3 / 4 - 1e-3
    assert ratio.max() < 4 / 3 + 1e-3
    # Areas are uniform up to 0.75; beyond, a window may not fit and is cut.
    for share in (0.2, 0.4, 0.6):
        expected = (share - 0.04) / 0.96
        assert float((area < share).float().mean()) == pytest.approx(expected, abs=0.04)
    assert float(ratio.log().mean()) == pytest.approx(0, abs=0.02)


def test_zooming_out_leaves_black_around_the_image():
    views = vary(torch.ones(4, 1, 64, 64), crop_scale=(1.44, 1.44))
    assert views.mean((1, 2, 3)).tolist() == pytest.approx([1 / 1.44] * 4, abs=0.02)
    assert views[:, :, 0].max() == 0
    assert views[:, :, 32, 32].min() == pytest.approx(1)


@pytest.mark.parametrize(("height", "width"), [(32, 32), (24, 48), (60, 20)])
def test_rotation_turns_pixels_about_the_centre(height, width):
    """x + iy in pixels is multiplied by one number of modulus one, at most 30 degrees."""
    pixels = torch.tensor([width / 2, height / 2])
    images = ramps(50, height, width)
    views = vary(images, rotation=30.0)
    inside = views[:, 2] > 1 - 1e-6
    before = torch.complex(images[:, 0] * pixels[0], images[:, 1] * pixels[1])
    after = torch.complex(views[:, 0] * pixels[0], views[:, 1] * pixels[1])
    turn = (after / before)[:, height // 2, width // 2]
    torch.testing.assert_close(turn.abs(), torch.ones(50), rtol=0, atol=1e-4)
    torch.testing.assert_close(
        after[inside], (before * turn[:, None, None])[inside], rtol=0, atol=1e-3
    )
    angle = turn.angle() * 180 / math.pi
    assert angle.abs().max() <= 30 + 1e-3
    assert angle.min() < -15
    assert angle.max() > 15


def test_shift_and_shear():
    images = ramps(200, 32, 32)
    moved = vary(images, shift=0.25)
    inner = moved[:, :, 8:24, 8:24] - images[:, :, 8:24, 8:24]
    offset = inner.mean((2, 3))
    torch.testing.assert_close(inner, offset[..., None, None].expand_as(inner), rtol=0, atol=1e-5)
    assert 0.2 < offset[:, :2].abs().max() <= 0.25 + 1e-5
    slanted = vary(images, shear=0.5)[:, :, 10:22, 10:22]
    torch.testing.assert_close(slanted[:, 1], images[:, 1, 10:22, 10:22], rtol=0, atol=1e-5)
    slope = (slanted[:, 0, -1] - slanted[:, 0, 0]).mean(1) / (11 * 2 / 32)
    assert 0.4 < slope.abs().max() <= 0.5 + 1e-4


# ---------------------------------------------------------------- colour


@pytest.mark.parametrize("channels", [1, 3])
def test_brightness_is_a_factor(channels):
    images = pictures(200, (channels, 8, 8), 0.1, 0.6)
    changed = vary(images, jitter=(0.4, 0, 0, 0), jitter_probability=1.0)
    factor = (changed / images).flatten(1)
    assert (factor.amax(1) - factor.amin(1)).max() < 1e-5
    assert factor.min() >= 0.6 - 1e-5
    assert factor.max() <= 1.4 + 1e-5
    assert float(factor[:, 0].std()) == pytest.approx(0.8 / math.sqrt(12), rel=0.2)


def gray(images: torch.Tensor) -> torch.Tensor:
    if images.shape[1] == 1:
        return images
    weights = torch.tensor([0.299, 0.587, 0.114])  # ITU-R BT.601
    return (images * weights[:, None, None]).sum(1, keepdim=True)


@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_stretches_about_the_mean_gray(channels):
    images = pictures(100, (channels, 8, 8), 0.35, 0.65)
    changed = vary(images, jitter=(0, 0.4, 0, 0), jitter_probability=1.0)
    mean = gray(images).mean((1, 2, 3), keepdim=True)
    factor = ((changed - mean) * (images - mean)).sum((1, 2, 3)) / (images - mean).square().sum(
        (1, 2, 3)
    )
    assert factor.min() >= 0.6 - 1e-4
    assert factor.max() <= 1.4 + 1e-4
    expected = mean + factor.view(-1, 1, 1, 1) * (images - mean)
    torch.testing.assert_close(changed, expected, rtol=0, atol=1e-5)


def test_saturation_moves_between_gray_and_colour():
    images = pictures(100, (3, 8, 8), 0.35, 0.65)
    changed = vary(images, jitter=(0, 0, 0.4, 0), jitter_probability=1.0)
    colour = images - gray(images)
    factor = ((changed - gray(images)) * colour).sum((1, 2, 3)) / colour.square().sum((1, 2, 3))
    assert 0.6 - 1e-3 <= factor.min() < 0.7
    assert 1.3 < factor.max() <= 1.4 + 1e-3
    expected = gray(images) + factor.view(-1, 1, 1, 1) * colour
    torch.testing.assert_close(changed, expected, rtol=0, atol=2e-3)  # kornia rounds the weights


def test_hue_keeps_gray_images():
    flat = pictures(20, (1, 8, 8)).expand(20, 3, 8, 8)
    turned = vary(flat, jitter=(0, 0, 0, 0.1), jitter_probability=1.0)
    torch.testing.assert_close(turned, flat, rtol=0, atol=1e-5)


def test_hue_turns_the_colour_circle_by_at_most_a_tenth():
    images = pictures(40, (3, 4, 4), 0.05, 1)
    turned = vary(images, jitter=(0, 0, 0, 0.1), jitter_probability=1.0)
    turns = []
    for before, after in zip(images, turned, strict=True):
        angle = []
        for p, q in zip(before.flatten(1).T.tolist(), after.flatten(1).T.tolist(), strict=True):
            (h, s, v), (h2, s2, v2) = colorsys.rgb_to_hsv(*p), colorsys.rgb_to_hsv(*q)
            assert (s2, v2) == pytest.approx((s, v), abs=1e-4)
            angle.append((h2 - h + 0.5) % 1 - 0.5)
        assert angle == pytest.approx([angle[0]] * 16, abs=1e-4)
        turns.append(angle[0])
    assert -0.1 - 1e-4 <= min(turns) < -0.07
    assert 0.07 < max(turns) <= 0.1 + 1e-4


def test_grayscale_has_equal_channels_of_the_usual_weights():
    images = pictures(10, (3, 8, 8))
    changed = vary(images, grayscale=1.0)
    torch.testing.assert_close(changed, gray(images).expand_as(images), rtol=0, atol=2e-3)
    assert torch.equal(changed[:, 0], changed[:, 2])


@pytest.mark.parametrize("changes", [{"grayscale": 1.0}, {"jitter": (0, 0, 0.4, 0.1)}])
def test_colour_operations_leave_single_channels_alone(changes):
    images = pictures(10, (1, 8, 8))
    changed = vary(images, jitter_probability=1.0, **{"jitter": (0, 0, 0, 0), **changes})
    torch.testing.assert_close(changed, images, rtol=0, atol=1e-5)


# ---------------------------------------------------------------- blur and noise


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sigma", [(0.1, 2.0), (0.0, 0.0), (40.0, 40.0)])
def test_blur_keeps_constant_images(shape, sigma):
    flat = torch.full((5, *shape), 0.7)
    torch.testing.assert_close(vary(flat, blur=1.0, blur_sigma=sigma), flat)


@pytest.mark.parametrize(("side", "sigma"), [(33, 2.0), (33, 1.0), (65, 2.0)])
def test_blur_has_the_deviation_asked_for(side, sigma):
    point = torch.zeros(1, 1, side, side)
    point[..., side // 2, side // 2] = 1
    spot = vary(point, blur=1.0, blur_sigma=(sigma, sigma))[0, 0]
    offset = torch.arange(side) - side // 2
    assert float(spot.sum()) == pytest.approx(1, abs=1e-4)
    deviation = float((spot.sum(0) * offset.square()).sum().sqrt())
    # Sigma is given for 32 pixels; three deviations of a Gaussian hold 97 % of its variance.
    assert deviation == pytest.approx(sigma * side / 32, rel=0.03)


def test_noise_has_its_deviation_and_comes_last():
    noise = vary(torch.zeros(50, 3, 16, 16), noise=0.05)
    assert float(noise.std()) == pytest.approx(0.05, rel=0.02)
    assert noise.min() < 0  # not clipped to the range of pixels


# ---------------------------------------------------------------- randomness


@pytest.mark.parametrize(
    ("changes", "probability"),
    [
        ({"flip": 0.5}, 0.5),
        ({"grayscale": 0.2}, 0.2),
        ({"jitter_probability": 0.8, "jitter": (0.4, 0.4, 0.4, 0.1)}, 0.8),
        ({"blur": 0.1, "blur_sigma": (1.0, 2.0)}, 0.1),
    ],
)
def test_each_sample_decides_for_itself(changes, probability):
    images = pictures(1, (3, 8, 8)).expand(4000, 3, 8, 8)
    changed = (vary(images, **changes) - images).abs().amax((1, 2, 3)) > 1e-4
    # Four deviations of a binomial of 4000.
    tolerance = 4 * math.sqrt(probability * (1 - probability) / 4000)
    assert float(changed.float().mean()) == pytest.approx(probability, abs=tolerance)


@pytest.mark.parametrize("preset", ["paper", "images"])
@pytest.mark.parametrize("shape", SHAPES)
def test_presets_give_finite_views_that_differ_between_equal_images(preset, shape):
    policy = PRESETS[preset].views.augmentation
    images = pictures(1, shape).expand(6, *shape)
    views = augment(images, policy, torch.Generator().manual_seed(3))
    assert views.shape == images.shape
    assert views.isfinite().all()
    gaps = torch.cdist(views.flatten(1), views.flatten(1)) + 9 * torch.eye(6)
    assert gaps.min() > 1e-3


@pytest.mark.parametrize("preset", ["paper", "images"])
def test_result_depends_on_the_generator_alone(preset):
    policy, images = PRESETS[preset].views.augmentation, pictures(8, (3, 16, 16))
    kept = images.clone()
    with global_random_state_kept():
        first, again, other = (
            augment(images, policy, torch.Generator().manual_seed(s)) for s in (0, 0, 1)
        )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(images, kept)


def test_views_of_the_paper_stay_in_the_range_of_pixels():
    views = augment(pictures(200, (3, 16, 16)), Augmentation(), torch.Generator().manual_seed(0))
    assert views.min() >= 0
    assert views.max() <= 1 + 1e-6
