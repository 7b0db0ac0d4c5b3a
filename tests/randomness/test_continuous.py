from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from skdpbayes.randomness import (
    gamma_ball_noise,
    gaussian,
    laplace,
    make_generator,
    two_orthant_moments,
    two_orthant_noise,
)
from tests.randomness.statistics import FALSE_ALARM, assert_two_sided, continuous_p_value


@pytest.mark.parametrize(
    ("sampler", "distribution"), [(gaussian, stats.norm), (laplace, stats.laplace)]
)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_scales(sampler, distribution, scale):
    draws = sampler(make_generator(1), scale, 10_000)
    assert_two_sided(continuous_p_value(distribution), draws, scale)


@pytest.mark.parametrize("sampler", [gaussian, laplace])
def test_shapes_and_reproducibility(sampler):
    draws = sampler(make_generator(0), 2.0, (3, 4))
    assert draws.shape == (3, 4)
    assert draws.dtype == np.float64
    np.testing.assert_array_equal(draws, sampler(make_generator(0), 2.0, (3, 4)))
    np.testing.assert_allclose(draws, 2 * sampler(make_generator(0), 1.0, (3, 4)), rtol=1e-15)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_gamma_ball(d):
    generator = make_generator(2)
    draws = np.array([gamma_ball_noise(generator, 1.7, d) for _ in range(4000)])
    assert draws.shape == (4000, d)
    radius = np.linalg.norm(draws, axis=1)

    def p_value(radius, scale):
        return stats.kstest(radius, stats.gamma(d, scale=scale).cdf).pvalue

    assert_two_sided(p_value, radius, 1.7)
    # A coordinate of a uniform direction, squared, is Beta(1/2, (d-1)/2).
    direction = draws / radius[:, None]
    assert stats.binomtest((direction[:, 0] > 0).sum(), 4000).pvalue > FALSE_ALARM
    if d > 1:
        beta = stats.beta(0.5, (d - 1) / 2)
        assert stats.kstest(direction[:, -1] ** 2, beta.cdf).pvalue > FALSE_ALARM
        assert stats.spearmanr(radius, direction[:, 0]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sampler", [gamma_ball_noise, two_orthant_noise])
def test_vectors_of_one_entry_are_laplace(sampler):
    generator = make_generator(3)
    draws = np.array([sampler(generator, 0.5, 1)[0] for _ in range(4000)])
    assert_two_sided(continuous_p_value(stats.laplace), draws, 0.5)


def one_signed_lengths(b):
    positive = np.linalg.norm(np.maximum(b, 0.0), axis=-1)
    return positive, np.linalg.norm(np.minimum(b, 0.0), axis=-1)


@pytest.mark.parametrize("d", [2, 3, 40])
def test_two_orthants(d):
    generator = make_generator(4)
    draws = np.array([two_orthant_noise(generator, 1.7, d) for _ in range(4000)])
    positive, negative = one_signed_lengths(draws)

    def p_value(norms, scale):
        return stats.kstest(norms, stats.gamma(d, scale=scale).cdf).pvalue

    assert_two_sided(p_value, positive + negative, 1.7)
    # within its orthant a direction is uniform: of two positive entries either may be larger
    both = (draws[:, 0] > 0) & (draws[:, 1] > 0)
    larger = (draws[both, 0] > draws[both, 1]).sum()
    assert stats.binomtest(larger, both.sum()).pvalue > FALSE_ALARM
    assert stats.binomtest((draws[:, -1] > 0).sum(), 4000).pvalue > FALSE_ALARM
    variance, covariance = two_orthant_moments(d)
    for found, expected in (
        (draws**2, variance),
        (np.sum(draws, axis=1) ** 2 / d, variance + (d - 1) * covariance),
    ):
        error = np.std(found) / np.sqrt(4000)
        assert abs(found.mean() - 1.7**2 * expected) < 4.5 * error
        assert abs(found.mean() - 1.7**2 * expected * 9 / 4) > 4.5 * error


def test_two_orthants_in_the_plane_against_quadrature():
    """Quadrants of equal signs have mass pi / 2 each, the others 1 each."""
    generator = make_generator(5)
    draws = np.array([two_orthant_noise(generator, 1.0, 2) for _ in range(4000)])
    same = (draws.prod(axis=1) > 0).sum()
    assert stats.binomtest(same, 4000, np.pi / (np.pi + 2.0)).pvalue > FALSE_ALARM
    assert stats.binomtest(same, 4000, 0.5).pvalue < FALSE_ALARM

    def quadrant(weight, norm):
        return integrate.dblquad(lambda y, x: weight(x, y) * np.exp(-norm(x, y)), 0, 60, 0, 60)[0]

    mass = 2.0 * (quadrant(lambda x, y: 1.0, np.hypot) + 1.0)
    square = quadrant(lambda x, y: x * x, np.hypot) + quadrant(lambda x, y: x * x, np.add)
    product = quadrant(np.multiply, np.hypot) - quadrant(np.multiply, np.add)
    expected = (2.0 * square / mass, 2.0 * product / mass)
    np.testing.assert_allclose(two_orthant_moments(2), expected, rtol=1e-6)


def test_two_orthants_are_half_as_wide_as_a_ball():
    variance, covariance = two_orthant_moments(1000)
    assert variance == pytest.approx(0.5 * 1001, rel=0.01)
    assert 0.0 < covariance < 0.005 * variance


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("sampler", [gaussian, laplace, gamma_ball_noise, two_orthant_noise])
def test_bad_scale(sampler, scale):
    with pytest.raises(ValueError, match="scale must be positive"):
        sampler(make_generator(0), scale, 3)


@pytest.mark.parametrize("sampler", [gamma_ball_noise, two_orthant_noise])
def test_bad_dimension(sampler):
    with pytest.raises(ValueError, match="d must be at least 1, got 0"):
        sampler(make_generator(0), 1.0, 0)
