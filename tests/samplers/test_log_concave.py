from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers import sample_log_concave

# A, B, D, P, low, high: beta log-odds, gamma logarithms, normal variables; bulk, tails and edges
DENSITIES = [
    (4.0, 13.0, 0.0, 0.0, -1.4, 1.4),
    (0.5, 1.0, 0.0, 0.0, -4.0, 4.0),
    (300.0, 302.0, 0.0, 0.0, -2.2, 2.2),
    (3.0, 0.0, 2.0, 0.0, -5.0, 3.0),
    (300.0, 0.0, 2.0, 0.0, -5.0, 3.0),
    (2.0, 0.0, 0.0, 0.5, -1.0, 8.0),
    (100.0, 200.0, 0.0, 0.25, -20.0, 20.0),
    (0.0, 0.0, 0.0, 0.0, -1.0, 2.0),
    (1e6, 3e6, 0.0, 0.0, -3.0, 3.0),
]


def log_density(z, a, b, d, p):
    return a * z - b * np.logaddexp(0.0, z) - d * np.exp(z) - 0.5 * p * z * z


@pytest.mark.parametrize("density", DENSITIES)
def test_draws_follow_the_density(density):
    *coefficients, low, high = density
    uniforms = np.random.default_rng(0).random((5000, 32))
    drawn = sample_log_concave(*coefficients, low, high, uniforms)
    ends = np.linspace(low, high, 1_000_001)
    middles = 0.5 * (ends[1:] + ends[:-1])
    weight = log_density(middles, *coefficients)
    cumulative = np.concatenate([[0.0], np.cumsum(np.exp(weight - weight.max()))])
    ranks = np.interp(drawn, ends, cumulative / cumulative[-1])
    assert stats.kstest(ranks, "uniform").pvalue > 1e-4
    # A curvature off by half is told apart.
    if coefficients[1] > 2.0:
        other = log_density(middles, *(1.5 * c for c in coefficients))
        cumulative = np.concatenate([[0.0], np.cumsum(np.exp(other - other.max()))])
        ranks = np.interp(drawn, ends, cumulative / cumulative[-1])
        assert stats.kstest(ranks, "uniform").pvalue < 1e-4


@pytest.mark.parametrize("density", DENSITIES)
def test_most_attempts_are_kept(density):
    """The first attempt is kept unless its second number is close to 1."""
    *coefficients, low, high = density
    rng = np.random.default_rng(1)
    kept = rng.random((2000, 4))
    kept[:, 1] = 0.7  # kept by all but 1 of 20 proposals
    one = sample_log_concave(*coefficients, low, high, kept[:, :2])
    two = sample_log_concave(*coefficients, low, high, kept)
    assert np.mean(one == two) > 0.9
