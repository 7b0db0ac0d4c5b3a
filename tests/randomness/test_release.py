from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skdpbayes.randomness import (
    make_generator,
    release_counts,
    release_gaussian,
    release_grid,
    release_laplace,
    release_scale,
    snap,
    snapped_sensitivity,
)
from tests.randomness.statistics import (
    assert_two_sided,
    continuous_p_value,
    discrete_p_value,
    discrete_pmf,
)

FLOATS = {"gaussian": release_gaussian, "laplace": release_laplace}
SCALES = st.floats(1e-200, 1e200)


@given(SCALES)
def test_grid_is_a_power_of_two_far_below_the_scale(scale):
    grid = release_grid(scale)
    assert math.frexp(grid)[0] == 0.5
    assert 2**28 <= scale / grid < 2**29


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-300])
def test_bad_scale(scale):
    with pytest.raises(ValueError, match="scale must lie in"):
        release_grid(scale)


@given(st.floats(-1e200, 1e200), st.integers(-100, 100))
def test_snap_is_exact(value, exponent):
    grid = 2.0**exponent
    (snapped,) = snap([value], grid)
    assert (Fraction(snapped) / Fraction(grid)).denominator == 1
    assert abs(Fraction(snapped) - Fraction(value)) <= Fraction(grid) / 2


def test_snap_has_no_negative_zero():
    assert not np.signbit(snap([-0.1, -0.0, 0.1], 1.0)).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_snap_refuses_what_is_not_finite(value):
    with pytest.raises(ValueError, match="finite"):
        snap([1.0, value], 0.5)


def test_snap_refuses_overflow():
    with pytest.raises(ValueError, match="too large"):
        snap([1e300], 2.0**-100)


@pytest.mark.parametrize("grid", [0.0, -1.0, 3.0, np.inf, np.nan])
def test_snap_refuses_other_grids(grid):
    with pytest.raises(ValueError, match="power of two"):
        snap([1.0], grid)


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from([1, 2]))
def test_snapped_sensitivity_bounds_snapped_distances(seed, d, order):
    generator = np.random.default_rng(seed)
    grid = 2.0 ** generator.integers(-6, 3)
    v, w = generator.normal(size=(2, d))
    w = v + (w - v) * generator.uniform()
    distance = np.linalg.norm(v - w, order)
    moved = np.linalg.norm(snap(v, grid) - snap(w, grid), order)
    assert moved <= snapped_sensitivity(distance, grid, d, order=order)


def test_snapped_sensitivity_is_attained():
    # Values a hair apart on either side of the midpoints move by a whole step each.
    d, grid = 9, 0.25
    v = np.full(d, grid / 2)
    low, high = np.nextafter(v, 0), np.nextafter(v, 1)
    moved = snap(high, grid) - snap(low, grid)
    assert np.linalg.norm(moved, 2) == grid * 3
    assert np.linalg.norm(moved, 1) == grid * 9
    assert snapped_sensitivity(0.0, grid, d) == pytest.approx(grid * 3, rel=1e-15)
    assert snapped_sensitivity(0.0, grid, d, order=1) == pytest.approx(grid * 9, rel=1e-15)


@given(st.floats(1e-3, 1e4), st.floats(1e-6, 1e6), st.integers(1, 10_000), st.sampled_from([1, 2]))
def test_release_scale_pays_for_the_snapping(multiplier, sensitivity, d, order):
    if multiplier * d > 2**26:
        d = 1
    scale = release_scale(multiplier, sensitivity, d, order=order)
    after = snapped_sensitivity(sensitivity, release_grid(scale), d, order=order)
    assert Fraction(scale) >= Fraction(multiplier) * Fraction(sensitivity)
    assert scale >= multiplier * after
    share = multiplier * (d if order == 1 else math.sqrt(d)) / 2**28
    assert scale <= multiplier * sensitivity * (1 + 2 * share + 1e-12)


def test_release_scale_says_when_there_is_no_room():
    with pytest.raises(ValueError, match=r"noise_multiplier=.* d="):
        release_scale(1e6, 1.0, 10**9)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0.0, 1.0, 1), "noise_multiplier"), ((1.0, 0.0, 1), "sensitivity"), ((1.0, 1.0, 0), "d ")],
)
def test_release_scale_bad_arguments(arguments, name):
    with pytest.raises(ValueError, match=name):
        release_scale(*arguments)


@pytest.mark.parametrize(
    ("arguments", "name"), [((-1.0, 1.0, 1), "sensitivity"), ((1.0, 1.0, 0), "d ")]
)
def test_snapped_sensitivity_bad_arguments(arguments, name):
    with pytest.raises(ValueError, match=name):
        snapped_sensitivity(*arguments)
    with pytest.raises(ValueError, match="order"):
        snapped_sensitivity(1.0, 1.0, 1, order=3)


@pytest.mark.parametrize("kind", sorted(FLOATS))
@pytest.mark.parametrize("scale", [1e-30, 0.7, 3e8])
def test_float_releases_carry_the_noise_and_lie_on_the_grid(kind, scale):
    values = np.full(20_000, math.pi)
    released = FLOATS[kind](make_generator(1), values, scale)
    grid = release_grid(scale)
    np.testing.assert_array_equal(snap(released, grid), released)
    if scale > 1e-10:
        noise = released - snap(values, grid)
        distribution = stats.norm if kind == "gaussian" else stats.laplace
        assert_two_sided(continuous_p_value(distribution), noise, scale)
    else:  # a double at pi cannot hold so little noise
        np.testing.assert_array_equal(released, values)


@pytest.mark.parametrize("kind", sorted(FLOATS))
def test_float_releases_do_not_betray_the_low_bits(kind):
    # With float noise the set of reachable outputs depends on the value. On the grid two values
    # that round alike give the very same outputs.
    first = FLOATS[kind](make_generator(2), np.full(1000, 0.1), 1.0)
    second = FLOATS[kind](make_generator(2), np.full(1000, np.nextafter(0.1, 1)), 1.0)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("s", [1.5, 3.0, 20.0])
def test_discrete_gaussian_is_close_to_a_rounded_one(s):
    # The bound that the docstring of release_gaussian states, at grids coarse enough to see it.
    k, pmf = discrete_pmf("gaussian", s)
    k, pmf = k[abs(k) <= 8 * s], pmf[abs(k) <= 8 * s]
    upper = -(np.abs(k) - 0.5) / s  # both ends in the lower tail, where the cdf is accurate
    rounded = stats.norm.cdf(upper) - stats.norm.cdf(-(np.abs(k) + 0.5) / s)
    log_ratio = np.log(rounded / pmf)
    assert (log_ratio >= -1 / (8 * s**2) - 1e-12).all()
    assert (log_ratio <= (k / s) ** 2 / (8 * s**2) + 1e-12).all()
    assert np.abs(log_ratio).max() > 1 / (8 * s**2)


@pytest.mark.parametrize("kind", sorted(FLOATS))
def test_float_release_shapes(kind):
    assert FLOATS[kind](make_generator(0), 3.0, 1.0).shape == ()
    assert FLOATS[kind](make_generator(0), [[1.0, 2.0]], 1.0).shape == (1, 2)
    with pytest.raises(ValueError, match="finite"):
        FLOATS[kind](make_generator(0), [np.nan], 1.0)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_counts(kind):
    counts = np.arange(20_000)
    released = release_counts(make_generator(3), counts, 3.5, noise=kind)
    assert released.dtype == np.int64
    assert_two_sided(discrete_p_value(kind), released - counts, 3.5)


def test_counts_bad_input():
    with pytest.raises(TypeError, match="counts must be integers"):
        release_counts(make_generator(0), [1.5], 1.0, noise="laplace")
    with pytest.raises(ValueError, match=r"2\*\*61"):
        release_counts(make_generator(0), [2**62], 1.0, noise="laplace")
    with pytest.raises(ValueError, match="noise must be"):
        release_counts(make_generator(0), [1], 1.0, noise="normal")
