from __future__ import annotations

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skdpbayes import ScatteringTransformer
from skdpbayes.preprocessing.scattering import (
    CHANNELS,
    GROUPS,
    LEAST_VARIANCE,
    make_filters,
    scatter,
)


def images(n=3, height=28, width=28, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, height, width)).astype(np.float32)


def morlet(size, scale, angle):
    """A wavelet on the torus, as Bruna and Mallat print it, summed over its images."""
    sigma, frequency = 0.8 * 2**scale, 3 * np.pi / 4 / 2**scale
    theta = (3 - angle) * np.pi / 8
    copies = [(i, j) for i in range(-2, 3) for j in range(-2, 3)]
    bell, wave = np.zeros((size, size)), np.zeros((size, size), complex)
    for i, j in copies:
        x, y = np.mgrid[:size, :size] + np.array([i, j])[:, None, None] * size
        u = x * np.cos(theta) + y * np.sin(theta)
        v = -x * np.sin(theta) + y * np.cos(theta)
        part = np.exp(-(u**2 + (v / 2) ** 2) / (2 * sigma**2))
        bell += part
        wave += part * np.exp(1j * frequency * u)
    return (wave - wave.sum() / bell.sum() * bell) / (2 * np.pi * sigma**2 * 2)


def convolve(image, kernel):
    """A circular convolution, written out."""
    out = np.zeros(image.shape, complex)
    for i, j in np.argwhere(np.abs(kernel) > 1e-12):
        out += kernel[i, j] * np.roll(image, (i, j), axis=(0, 1))
    return out


def test_channels_are_those_of_the_formula():
    (image,) = images(1, 12, 12)
    padded = np.pad(image.astype(float), 4, mode="reflect")  # 20 pixels: 3 + 2 samples a side
    size = len(padded)
    positions = np.arange(size)[:, None] + size * np.arange(-2, 3)
    bell = np.exp(-(positions**2) / (2 * 1.6**2)).sum(axis=1) / (1.6 * np.sqrt(2 * np.pi))
    low = np.outer(bell, bell)

    def sampled(field):
        return convolve(field, low).real[4:-4:4, 4:-4:4]

    (channels,) = scatter(image[None], make_filters(12, 12))
    np.testing.assert_allclose(channels[0], sampled(padded), atol=1e-5)
    fine = np.abs(convolve(padded, morlet(size, 0, 2)))
    np.testing.assert_allclose(channels[1 + 2], sampled(fine), atol=1e-5)
    # The coarse wavelet is computed at half the resolution, which aliases a little.
    coarse = np.abs(convolve(padded, morlet(size, 1, 5)))
    np.testing.assert_allclose(channels[9 + 5], sampled(coarse), atol=2e-3)
    second = np.abs(convolve(fine, morlet(size, 1, 6)))
    np.testing.assert_allclose(channels[17 + 8 * 2 + 6], sampled(second), atol=2e-3)


def test_channels_are_those_of_kymatio():
    frontend = pytest.importorskip(
        "kymatio.scattering2d.frontend.numpy_frontend", reason="kymatio is not installed"
    )
    for shape in ((28, 28), (32, 32), (21, 34)):
        pictures = images(4, *shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            oracle = frontend.ScatteringNumPy2D(J=2, shape=shape, L=8)(pictures)
        ours = scatter(pictures, make_filters(*shape))
        order = [np.argmin(((oracle[0] - channel) ** 2).sum(axis=(1, 2))) for channel in ours[0]]
        assert sorted(order) == list(range(CHANNELS))  # the same channels in another order
        np.testing.assert_allclose(ours, oracle[:, order], atol=1e-4)


def test_groups_are_centered_and_rows_have_the_public_length():
    pictures = images(5).reshape(5, -1) * 255
    out = ScatteringTransformer(bounds=(0, 255), norm=2.5).fit_transform(pictures)
    assert out.shape == (5, 81 * 49)
    assert out.dtype == np.float32
    channels = scatter((pictures / 255).reshape(5, 28, 28).astype(np.float32), make_filters(28, 28))
    groups = channels.reshape(5, GROUPS, -1).astype(float)
    groups -= groups.mean(axis=2, keepdims=True)
    groups /= np.sqrt(groups.var(axis=2, keepdims=True) + LEAST_VARIANCE)
    rows = groups.reshape(5, -1)
    rows *= 2.5 / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(out, rows, atol=1e-4)
    for row in out:  # in exact arithmetic, and hardly shorter than promised
        length = sum(Fraction(float(value)) ** 2 for value in row)
        assert Fraction(2.499) ** 2 < length <= Fraction(2.5) ** 2


def test_a_row_depends_on_its_own_image_only():
    pictures = images(70).reshape(70, -1)
    scatterer = ScatteringTransformer(bounds=(0, 1)).fit(pictures[:1])
    out = scatterer.transform(pictures)
    assert np.array_equal(out, clone(scatterer).set_params(n_jobs=1).fit_transform(pictures))
    changed = pictures.copy()
    changed[33] = 1.0 - changed[33]
    changed_out = scatterer.transform(changed)
    assert np.array_equal(np.delete(out, 33, axis=0), np.delete(changed_out, 33, axis=0))
    assert not np.allclose(out[33], changed_out[33], atol=1e-3)
    assert np.array_equal(out, pickle.loads(pickle.dumps(scatterer)).transform(pictures))


def test_pixels_outside_the_bounds_count_as_the_nearest_bound():
    pictures = images(4, 9, 9).reshape(4, -1) * 3 - 1
    scatterer = ScatteringTransformer(bounds=(0, 1))
    assert np.array_equal(
        scatterer.fit_transform(pictures), scatterer.fit_transform(np.clip(pictures, 0, 1))
    )


def test_an_image_of_the_lower_bound_is_a_row_of_zeros():
    out = ScatteringTransformer(bounds=(3, 4)).fit_transform(np.full((2, 64), 3.0))
    assert np.abs(out).max() == 0.0


def test_shapes_colors_frames_and_names():
    colored = np.random.default_rng(1).uniform(size=(2, 8, 12, 3))
    scatterer = ScatteringTransformer(bounds=(0, 1)).fit(colored)
    out = scatterer.transform(colored)
    names = scatterer.get_feature_names_out()
    assert scatterer.image_shape_ == (8, 12, 3)
    assert out.shape == (2, 3 * 81 * 2 * 3) == (2, len(set(names)))
    assert names[0] == "c0_mean_0_0"
    flat = ScatteringTransformer(bounds=(0, 1), image_shape=(8, 12, 3))
    assert np.array_equal(flat.fit_transform(colored.reshape(2, -1)), out)
    frame = pd.DataFrame(images(3, 8, 8).reshape(3, -1)).add_prefix("pixel")
    framed = ScatteringTransformer(bounds=(0, 1)).set_output(transform="pandas")
    assert framed.fit_transform(frame).shape == (3, 324)


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({}, (2, 64), "bounds is required"),
        ({"bounds": (0, 1)}, (2, 63), "pass image_shape"),
        ({"bounds": (0, 1), "image_shape": (9, 7, 2)}, (2, 63), "pass image_shape"),
        ({"bounds": (0, 1), "image_shape": 8}, (2, 64), "image_shape must be"),
        ({"bounds": (0, 1)}, (2, 16), "at least 5 pixels"),
        ({"bounds": (1, 0)}, (2, 64), "low < high"),
        ({"bounds": (0, 1), "norm": 0.0}, (2, 64), "norm"),
    ],
)
def test_errors_name_the_parameter(parameters, shape, message):
    with pytest.raises(ValueError, match=message):
        ScatteringTransformer(**parameters).fit(np.zeros(shape))


def test_images_of_another_shape_are_refused():
    scatterer = ScatteringTransformer(bounds=(0, 1)).fit(images(2, 8, 8))
    with pytest.raises(ValueError, match="expected"):
        scatterer.transform(images(2, 16, 4))


def test_digits_become_easier_for_a_linear_model():
    X, y = load_digits(return_X_y=True)
    plain = cross_val_score(LogisticRegression(C=10, max_iter=300), X / 16, y, cv=3).mean()
    model = make_pipeline(
        ScatteringTransformer(bounds=(0, 16), norm=10.0), LogisticRegression(C=10, max_iter=300)
    )
    assert cross_val_score(model, X, y, cv=3).mean() > plain + 0.005
