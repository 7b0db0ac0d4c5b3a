from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.samplers.noisy import draw_counts


def log_noise(gap, noise, scale):
    return -np.abs(gap) / scale if noise == "laplace" else -(gap**2) / (2 * scale**2)


def poisson_pmf(rate, y, noise, scale, size=4000):
    n = np.arange(size)
    logp = stats.poisson.logpmf(n, rate) + log_noise(y - n, noise, scale)
    p = np.exp(logp - logp.max())
    return p / p.sum()


def implied_pmf(draws, size):
    """Frequencies of draws made from an even grid of uniforms: exact to 1 / n_draws a cell."""
    return np.bincount(draws, minlength=size)[:size] / draws.shape[0]


UNIFORMS = (np.arange(200_000) + 0.5) / 200_000


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("rate", "y", "scale"),
    [(7.3, 4, 1 / 0.6), (7.3, -20, 3.0), (0.01, 5, 2.0), (900.0, 400, 50.0), (30.0, 30, 0.2)],
)
def test_poisson_cell_has_the_exact_conditional(rate, y, scale, noise):
    draws = draw_counts(rate, y, noise, scale, UNIFORMS)
    expected = poisson_pmf(rate, y, noise, scale)
    np.testing.assert_allclose(implied_pmf(draws, 4000), expected, atol=2e-5)


def test_poisson_cell_reproduces_the_two_piece_mixture_weight():
    # Closed form: mass e^{-ay + lam(e^a - 1)} F(y; lam e^a) below y against the tilted upper piece.
    lam, y, a = 7.3, 4, 0.6
    lower = -a * y + lam * np.expm1(a) + stats.poisson.logcdf(y, lam * np.exp(a))
    upper = a * y + lam * np.expm1(-a) + stats.poisson.logsf(y, lam * np.exp(-a))
    mixture = 1 / (1 + np.exp(upper - lower))
    assert mixture == pytest.approx(0.4198558915, abs=1e-10)
    draws = draw_counts(lam, y, "laplace", 1 / a, UNIFORMS)
    assert np.mean(draws <= y) == pytest.approx(mixture, abs=2e-5)


def test_zero_rate_means_zero_count():
    for y, uniform in ((9, 0.3), (-9, 0.99)):
        assert draw_counts(0.0, y, "laplace", 1.0, [uniform]).tolist() == [0]


def test_unknown_noise_is_refused():
    with pytest.raises(ValueError, match="'laplace' or 'gaussian'"):
        draw_counts(1.0, 0, "cauchy", 1.0, np.zeros(1))
