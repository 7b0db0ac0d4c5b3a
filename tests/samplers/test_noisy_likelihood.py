from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers.noisy_likelihood import (
    NoisyPoissonLikelihood,
)
from tests.samplers.noisy import noisy_poisson_log_likelihood

COUNTS = np.array([-30, -3, 0, 1, 5, 40, 300, 900])
RATES = [0.0, 1e-6, 0.003, 0.02, 0.5, 1.3, 5.0, 33.0, 120.0, 500.0, 1500.0]


def by_summation(y, rate, noise, scale):
    n = np.arange(4000)
    gap = (y - n) / scale
    log_noise = -np.abs(gap) if noise == "laplace" else -0.5 * gap**2
    return np.logaddexp.reduce(stats.poisson.logpmf(n, rate) + log_noise)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.3, 2.0, 6.0, 50.0])
def test_sum_and_table_against_plain_summation(noise, scale):
    table = NoisyPoissonLikelihood(COUNTS[:, None], noise, scale, 1000.0)
    for rate in RATES:
        expected = [by_summation(y, rate, noise, scale) for y in COUNTS]
        summed = noisy_poisson_log_likelihood(COUNTS, rate, noise, scale)
        np.testing.assert_allclose(summed, expected, rtol=1e-11, atol=1e-8)
        read = table(np.full(COUNTS.shape[0], rate), np.ones((1, 1)))[:, 0]
        np.testing.assert_allclose(read, expected, rtol=1e-11, atol=1e-3)


def test_steps_add_up_their_values():
    noisy = np.array([[3, 10], [0, -2]])
    emission = np.array([[0.2, 0.8], [0.5, 0.5]])
    level = np.array([12.0, 1.5])
    result = NoisyPoissonLikelihood(noisy, "laplace", 4.0, 100.0)(level, emission)
    for s in range(2):
        for k in range(2):
            expected = noisy_poisson_log_likelihood(
                noisy[s], level[s] * emission[k], "laplace", 4.0
            ).sum()
            assert result[s, k] == pytest.approx(expected, abs=1e-3)
