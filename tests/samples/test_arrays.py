import json
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from unbend.samples import Scaling, as_array, prepare


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


# ---------------------------------------------------------------- as_array


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (torch.ones(2, 4, 4, requires_grad=True), "float32"),
        (torch.ones(2, 4, 4, dtype=torch.uint8), "uint8"),
        (torch.ones(2, 4, 4, dtype=torch.bfloat16), "float32"),
        (torch.ones(2, 4, 4, dtype=torch.float16), "float16"),
        (torch.ones(2, 4, 4).transpose(0, 2), "float32"),
        ([[[1, 2], [3, 4]]], "int64"),
        (np.ones((2, 4, 4), bool), "bool"),
        (np.ones((2, 4, 4), np.uint16), "uint16"),
    ],
)
def test_arrays_and_tensors_of_real_numbers_are_taken(given, kind):
    array = as_array(given)
    assert array.dtype == kind
    assert array.shape == tuple(np.shape(given) if isinstance(given, list) else given.shape)


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((2, 4, 4), complex),
        torch.ones(2, 4, 4, dtype=torch.complex64),
        np.full((2, 2), "a"),
        np.array([None, object()]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
    ],
)
def test_other_types_are_named(wrong):
    with pytest.raises(ValueError, match=r"pixels must hold real numbers, got dtype .*; convert"):
        as_array(wrong, "pixels")


# ---------------------------------------------------------------- prepare


@pytest.mark.parametrize("shape", [(5, 6, 7), (5, 1, 6, 7), (5, 3, 6, 7)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, np.int16, np.uint16, bool])
def test_images_become_channels_first_in_the_unit_range(shape, dtype):
    X = np.random.default_rng(0).integers(0, 2 if dtype is bool else 200, shape).astype(dtype)
    samples, scaling = prepare(X)
    assert scaling.is_image
    assert samples.dtype == torch.float32
    assert samples.shape == (5, shape[1] if len(shape) == 4 else 1, 6, 7)
    low, high = (0, 255) if dtype is np.uint8 else (float(X.min()), float(X.max()))
    expected = (X.astype(float) - low) / (high - low)
    assert_allclose(samples.numpy().reshape(shape), expected, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_vectors_get_mean_zero_and_one_common_scale(offset, dtype):
    X = (1e3 * random(200, 4) * [1, 2, 3, 4] + 1e3 * offset).astype(dtype)
    samples, scaling = prepare(X)
    assert not scaling.is_image
    wide = X.astype(np.longdouble)
    expected = (wide - wide.mean()) / np.sqrt(wide.var(axis=0).mean())
    # Digits must not be lost before the offset is taken away.
    assert_allclose(samples.numpy(), expected.astype(float), atol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e200])
def test_vectors_of_any_size_are_scaled(size):
    X = random(50, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        samples, _ = prepare(X * size)
    assert_allclose(samples.numpy(), prepare(X)[0].numpy(), atol=1e-6)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 3)),
        np.full((7, 3), 0.1),
        np.tile([0.1, 1e6, -3.0], (7, 1)),
        np.zeros((4, 5, 5)),
        np.full((4, 3, 5, 5), 7.5, np.float32),
        np.full((4, 5, 5), 9, np.uint8),
    ],
)
def test_constant_data_stay_finite_and_constant(X):
    samples, scaling = prepare(X)
    assert samples.isfinite().all()
    assert torch.equal(samples, samples[:1].expand_as(samples))
    if X.dtype != np.uint8:
        assert scaling.scale == 1


def test_a_constant_column_does_not_hide_the_others():
    X = np.column_stack([random(50), np.full(50, 1e3)])
    samples, _ = prepare(X)
    assert samples[:, 0].std() > 0.5
    assert samples[:, 1].std() < 1e-3


def test_the_array_is_not_changed_and_may_be_read_only():
    X = random(6, 4, 4)
    X.flags.writeable = False
    kept = X.copy()
    samples, _ = prepare(X)
    samples.add_(1)
    assert np.array_equal(X, kept)


# ---------------------------------------------------------------- the same way again


@pytest.mark.parametrize(
    "X",
    [random(6, 3), random(6, 4, 5), (255 * np.abs(random(6, 3, 4, 5))).astype(np.uint8)],
    ids=["vectors", "float images", "uint8 images"],
)
def test_round_trip_through_json_and_on_new_samples(X):
    samples, scaling = prepare(X)
    again = Scaling.from_dict(json.loads(json.dumps(scaling.to_dict())))
    assert again == scaling
    assert torch.equal(again.apply(X), samples)
    assert torch.equal(again.apply(X[2:3]), samples[2:3])  # not learned anew


def test_gray_images_may_come_with_or_without_their_channel():
    X = random(6, 4, 5)
    samples, scaling = prepare(X)
    assert torch.equal(scaling.apply(X[:, None]), samples)


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones(5), r"X must have 2 dimensions .* got shape \(5,\); reshape"),
        (np.ones((2, 3, 4, 4, 4)), r"got shape \(2, 3, 4, 4, 4\)"),
        (np.ones((2, 8, 8, 3)), r"1 or 3 channels, got 8; move the channels first"),
        (np.ones((2, 2, 8, 8)), r"1 or 3 channels, got 2; convert to gray or RGB"),
        (np.ones((2, 3, 3, 8)), r"at least 4 pixels wide and high, got \(3, 8\)"),
        (np.ones((2, 3, 3)), r"at least 4 pixels"),
        (np.full((2, 4, 4), np.nan), "NaN or infinity"),
        (np.full((2, 3, 4, 4), -np.inf), "NaN or infinity"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "NaN"),
    ],
)
def test_invalid_arrays_raise(X, words):
    with pytest.raises(ValueError, match=words):
        prepare(X)


@pytest.mark.parametrize(
    ("fitted", "new", "words"),
    [
        ((5, 3), np.ones((2, 4)), r"samples of shape \(4,\), but the model was fitted on \(3,\)"),
        ((5, 3), np.ones((2, 4, 4)), r"\(4, 4\), but the model was fitted on \(3,\)"),
        ((5, 8, 8), np.ones((2, 8, 9)), r"\(1, 8, 9\), but the model was fitted on \(1, 8, 8\)"),
        ((5, 8, 8), np.ones((2, 3, 8, 8)), r"\(3, 8, 8\), but the model was fitted on"),
        ((5, 8, 8), np.ones((2, 64)), r"images must be \(n, h, w\) or"),
        ((5, 8, 8), np.ones((2, 8, 8), np.uint8), "dtype uint8, but the model was fitted on float"),
        ((5, 8, 8), np.full((2, 8, 8), np.nan), "NaN, infinity or numbers too large"),
        ((5, 3), np.full((2, 3), 1e300), "numbers too large"),
    ],
)
def test_new_samples_of_another_kind_are_named(fitted, new, words):
    _, scaling = prepare(random(*fitted))
    with pytest.raises(ValueError, match=words):
        scaling.apply(new)


def test_uint8_models_refuse_float_images():
    _, scaling = prepare(np.ones((2, 8, 8), np.uint8))
    with pytest.raises(ValueError, match=r"dtype float64, but the model was fitted on uint8; pass"):
        scaling.apply(np.ones((2, 8, 8)))


def test_images_as_vectors_keep_their_shape_for_new_samples():
    images = np.random.default_rng(0).integers(0, 256, (50, 3, 5, 4), dtype=np.uint8)
    scaled, scaling = prepare(images)
    vectors, as_vectors = scaling.as_vectors(scaled)
    assert (scaling.network_shape, as_vectors.network_shape) == ((3, 5, 4), (60,))
    assert as_vectors.shape == (3, 5, 4)
    assert as_vectors.is_image
    alone = prepare(images.reshape(50, -1).astype(np.float64))[0]  # the same numbers as a table
    centred = vectors - vectors.mean(0)
    torch.testing.assert_close(centred, alone - alone.mean(0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(as_vectors.apply(images[:7]), vectors[:7])
    again = type(scaling).from_dict(as_vectors.to_dict())
    assert again == as_vectors
    with pytest.raises(ValueError, match=r"\(3, 4, 5\), but the model was fitted on \(3, 5, 4\)"):
        again.apply(images.transpose(0, 1, 3, 2))


def test_constant_images_as_vectors_stay_finite():
    scaled, scaling = prepare(np.full((3, 4, 4), 7, np.uint8))
    vectors, _ = scaling.as_vectors(scaled)
    assert torch.isfinite(vectors).all()


def test_vectors_as_images_are_the_images():
    pixels = np.random.default_rng(0).uniform(-3, 9, (50, 64))
    vectors, scaling = prepare(pixels)
    images, as_images = scaling.as_images(vectors, 8)
    assert (as_images.shape, as_images.network_shape) == ((64,), (1, 8, 8))
    assert not as_images.is_image  # new samples come as vectors
    alone = prepare(pixels.reshape(50, 8, 8))[0]
    torch.testing.assert_close(images, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(as_images.apply(pixels[:7]), images[:7], atol=1e-5, rtol=1e-5)
    assert type(scaling).from_dict(as_images.to_dict()) == as_images
    with pytest.raises(ValueError, match="a scaling cannot be"):
        type(scaling).from_dict({**as_images.to_dict(), "seen": [1, 8, 9]})
