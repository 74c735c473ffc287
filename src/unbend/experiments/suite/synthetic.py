"""Problems of the development list that are drawn from a formula.

Every function returns samples (n, p) in float32 and true labels, shuffled, the same for each call.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "curves",
    "faces_under_light",
    "few_of_many",
    "lookalikes",
    "moons",
    "rings",
    "shared_subspaces",
    "slanted_blobs",
    "subspaces",
    "surfaces",
    "turned_objects",
]

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def subspaces(k: int, *, dim: int = 3, ambient: int = 64, most: int = 300) -> Labelled:
    """A union of k random linear subspaces with sizes from ``most`` down to a third of it."""
    rng = np.random.default_rng([1, k])
    sizes = np.linspace(most, most / 3, k).round().astype(int)
    parts = []
    for size in sizes:
        basis = np.linalg.qr(rng.standard_normal((ambient, dim)))[0]
        parts.append(rng.standard_normal((size, dim)) @ basis.T)
    return _finish(parts, rng, noise=0.05)


def shared_subspaces(k: int = 30, *, dim: int = 9, each: int = 40, ambient: int = 256) -> Labelled:
    """Similar subspaces with few strong directions, like faces under changing light.

    Each basis is the sum of a common one and an individual part of 0.4 times the length, and the
    coefficient of direction i is scaled by 1 / i. The centroids of the classes are then similar,
    and the strongest directions are shared by all of them.
    """
    rng = np.random.default_rng(2)
    common = rng.standard_normal((ambient, dim))
    scales = 1.0 / np.arange(1, dim + 1)
    parts = []
    for _ in range(k):
        basis = common + 0.4 * rng.standard_normal((ambient, dim))
        parts.append((rng.standard_normal((each, dim)) * scales) @ basis.T)
    return _finish(parts, rng, noise=0.3)


def faces_under_light(
    k: int = 30, *, each: int = 40, side: int = 16, noise: float = 0.2
) -> Labelled:
    """Matte surfaces, rendered with the light from random directions: max(0, normal · light).

    Most light comes from the front. All surfaces share a dome; each has its own bumps and colours.
    Images of one surface lie close to a nine-dimensional subspace. Most of the difference between
    images is due to the light.
    """
    rng = np.random.default_rng(3)
    grid = np.linspace(-1, 1, side)
    across, down = np.meshgrid(grid, grid)
    dome = 1.2 * np.sqrt(np.clip(2.2 - across**2 - down**2, 0, None))
    parts = []
    for _ in range(k):
        height = dome + 0.15 * _bumps(rng, across, down)
        albedo = 1 + 0.2 * _bumps(rng, across, down)
        slopes = np.gradient(height, grid, grid)
        normals = np.stack([-slopes[1], -slopes[0], np.ones_like(height)]).reshape(3, -1)
        normals /= np.linalg.norm(normals, axis=0)
        lights = rng.standard_normal((each, 3)) + np.array([0, 0, 1.5])
        lights /= np.linalg.norm(lights, axis=1, keepdims=True)
        lights[:, 2] = np.abs(lights[:, 2])
        parts.append(np.clip(lights @ normals, 0, None) * albedo.ravel())
    return _finish(parts, rng, noise=noise)


def curves(k: int = 10, *, each: int = 150, ambient: int = 16) -> Labelled:
    """Closed curves around one centre, with the frequencies 1, 2 and 3 in random directions."""
    rng = np.random.default_rng(4)
    parts = []
    for _ in range(k):
        angle = rng.uniform(0, 2 * np.pi, (each, 1)) * np.arange(1, 4)
        waves = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        parts.append(waves @ rng.standard_normal((6, ambient)))
    return _finish(parts, rng, noise=0.2)


def surfaces(k: int = 8, *, most: int = 400, ambient: int = 10) -> Labelled:
    """Bent patches: two coordinates through 30 random waves; sizes from ``most`` to a third."""
    rng = np.random.default_rng(5)
    parts = []
    for size in np.linspace(most, most / 3, k).round().astype(int):
        place = rng.uniform(-1, 1, (size, 2))
        waves = np.sin(1.5 * place @ rng.standard_normal((2, 30)) + rng.uniform(0, 2 * np.pi, 30))
        parts.append(waves @ rng.standard_normal((30, ambient)))
    return _finish(parts, rng, noise=0.2)


def turned_objects(k: int = 20, *, each: int = 72, side: int = 24) -> Labelled:
    """Clouds of shaded balls, each turned once around its vertical axis.

    Every object is a closed curve of images. Two in five objects look alike from all sides.
    """
    rng = np.random.default_rng(11)
    angles = np.arange(each) * 2 * np.pi / each
    parts = []
    for _ in range(k):
        balls = rng.integers(3, 9)
        narrow = 0.15 if rng.random() < 0.4 else 1.0
        x, depth = 0.5 * narrow * rng.standard_normal((2, balls))
        height = 0.45 * rng.standard_normal(balls)
        width, bright = rng.uniform(0.12, 0.35, balls), rng.uniform(0.4, 1, balls)
        turned = np.outer(np.cos(angles), x) + np.outer(np.sin(angles), depth)
        towards = np.outer(np.cos(angles), depth) - np.outer(np.sin(angles), x)
        light = bright * (0.75 + 0.25 * np.tanh(2 * towards))
        parts.append(_balls(turned, height, width, light, side))
    return _finish(parts, rng, noise=0.05)


def lookalikes(k: int = 20, *, each: int = 72, side: int = 24) -> Labelled:
    """Turned objects of which twelve belong to five families, such as several toy cars.

    The members of a family differ by the brightness and a little by the place of their balls.
    Wide objects look smaller from the side, because the camera moves back to see all of them.
    """
    rng = np.random.default_rng(19)
    angles = np.arange(each)[:, None] * 2 * np.pi / each
    families = np.repeat(np.arange(k), ([3, 3, 2, 2, 2] + [1] * k)[:k])[:k]
    parts = []
    for family in families:
        own = np.random.default_rng([20, family])  # what all of a family have
        balls, wide = own.integers(6, 14), own.choice([0.15, 0.6, 1.6])
        x = 0.35 * max(1.0, wide) * own.standard_normal(balls)
        depth = 0.35 * min(1.0, wide) * own.standard_normal(balls)
        height, width = 0.4 * own.standard_normal(balls), own.uniform(0.08, 0.3, balls)
        bright = own.uniform(0.3, 1, balls) + 0.2 * rng.standard_normal(balls)
        x, height = (place + 0.04 * rng.standard_normal(balls) for place in (x, height))
        turned = np.cos(angles) * x + np.sin(angles) * depth
        towards = np.cos(angles) * depth - np.sin(angles) * x
        nearer = np.minimum(0.8 / (np.abs(turned).max(axis=1, keepdims=True) + 0.15), 2.0) ** 0.7
        light = bright.clip(0.1, 1.2) * (0.75 + 0.25 * np.tanh(2 * towards))
        parts.append(_balls(turned * nearer, height, width, light, side))
    return _finish(parts, rng, noise=0.05)


def few_of_many(k: int = 40, *, each: int = 10, side: int = 20) -> Labelled:
    """Ten images of each of forty faces: one mean, own features, expressions, shifts and light."""
    rng = np.random.default_rng(12)
    across, down = np.meshgrid(np.linspace(-1, 1, side), np.linspace(-1, 1, side))
    (mean,) = _smooth(rng, 1, side, 5)
    own, expressions = _smooth(rng, k, side, 4), _smooth(rng, 6, side, 4)
    frequency = np.fft.fftfreq(side)
    parts = []
    for face in own:
        images = []
        for _ in range(each):
            image = mean + 0.8 * face
            image = image + 0.25 * np.tensordot(rng.standard_normal(6), expressions, 1)
            right, below = 0.8 * rng.standard_normal(2)  # pixels
            shift = np.exp(-2j * np.pi * (frequency * right + frequency[:, None] * below))
            image = np.fft.ifft2(np.fft.fft2(image) * shift).real
            slope = 0.25 * rng.standard_normal() * across + 0.2 * rng.standard_normal() * down
            images.append((image * (1 + slope)).ravel())
        parts.append(np.array(images))
    return _finish(parts, rng, noise=0.08)


def rings(each: int = 300) -> Labelled:
    """Two rings in the plane, one inside the other."""
    rng = np.random.default_rng(16)
    parts = []
    for radius in (1.0, 2.0):
        angle = rng.uniform(0, 2 * np.pi, each)
        parts.append(radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return _finish(parts, rng, noise=0.1)


def moons(each: int = 300) -> Labelled:
    """Two half-circles in the plane that reach into each other."""
    rng = np.random.default_rng(17)
    angles = rng.uniform(0, np.pi, (2, each))
    upper = np.stack([np.cos(angles[0]), np.sin(angles[0])], axis=1)
    lower = np.stack([1 - np.cos(angles[1]), 0.5 - np.sin(angles[1])], axis=1)
    return _finish([upper, lower], rng, noise=0.07)


def slanted_blobs(k: int = 3, *, each: int = 200) -> Labelled:
    """Normal distributions in the plane, long in the same slanted direction and close across it."""
    rng = np.random.default_rng(18)
    along, across = np.array([1.0, 1.0]) / 2**0.5, np.array([1.0, -1.0]) / 2**0.5
    parts = [
        rng.standard_normal((each, 1)) * 3 * along
        + (4.0 * q + 0.6 * rng.standard_normal((each, 1))) * across
        for q in range(k)
    ]
    return _finish(parts, rng, noise=0.0)


def _balls(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    width: NDArray[np.float64],
    light: NDArray[np.float64],
    side: int,
) -> NDArray[np.float64]:
    """Images (m, side²) of blurred balls; at each pixel the brightest one shows."""
    grid = np.linspace(-1, 1, side)
    across = np.exp(-((grid - x[..., None]) ** 2) / (2 * width[:, None] ** 2))
    down = np.exp(-((grid - y[:, None]) ** 2) / (2 * width[:, None] ** 2))
    shown = light[..., None, None] * down[:, :, None] * across[:, :, None, :]
    images: NDArray[np.float64] = shown.max(axis=1).reshape(len(x), -1)
    return images


def _smooth(rng: np.random.Generator, m: int, side: int, scale: float) -> NDArray[np.float64]:
    """Random smooth images (m, side, side) of unit variance."""
    frequency = np.fft.fftfreq(side)
    damping = np.exp(-((scale * np.hypot(frequency, frequency[:, None])) ** 2))
    images = np.fft.ifft2(np.fft.fft2(rng.standard_normal((m, side, side))) * damping).real
    spread: NDArray[np.float64] = images.std(axis=(1, 2), keepdims=True)
    return images / spread


def _bumps(
    rng: np.random.Generator, across: NDArray[np.float64], down: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A sum of eight random Gaussian bumps and hollows."""
    total = np.zeros_like(across)
    for _ in range(8):
        x, y = rng.uniform(-0.8, 0.8, 2)
        width = rng.uniform(0.15, 0.4)
        total += rng.choice([-1, 1]) * np.exp(-((across - x) ** 2 + (down - y) ** 2) / width**2)
    return total


def _finish(
    parts: list[NDArray[np.float64]], rng: np.random.Generator, *, noise: float
) -> Labelled:
    """Stack the classes, add noise (relative to the mean norm of a sample) and shuffle."""
    X = np.concatenate(parts)
    y = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    scale = noise * np.linalg.norm(X, axis=1).mean() / np.sqrt(X.shape[1])
    X = X + scale * rng.standard_normal(X.shape)
    order = rng.permutation(len(X))
    return X[order].astype(np.float32), y[order].astype(np.int64)
