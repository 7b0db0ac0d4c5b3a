from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.randomness import gamma_ball_noise, gaussian, laplace, make_generator
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


def test_gamma_ball_in_one_dimension_is_laplace():
    generator = make_generator(3)
    draws = np.array([gamma_ball_noise(generator, 0.5, 1)[0] for _ in range(4000)])
    assert_two_sided(continuous_p_value(stats.laplace), draws, 0.5)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("sampler", [gaussian, laplace, gamma_ball_noise])
def test_bad_scale(sampler, scale):
    with pytest.raises(ValueError, match="scale must be positive"):
        sampler(make_generator(0), scale, 3)


def test_bad_dimension():
    with pytest.raises(ValueError, match="d must be at least 1, got 0"):
        gamma_ball_noise(make_generator(0), 1.0, 0)
