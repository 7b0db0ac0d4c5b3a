from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers.truncated_pairs import pair_log_odds, propose_log_odds


@pytest.mark.parametrize(
    ("a", "b", "bound"),
    [
        (2.0, 3.0, 4.0),
        (0.3, 0.2, 5.0),
        (500.0, 3.0, 4.0),  # the mode is cut off
        (3.0, 900.0, 1.5),
        (1e4, 1e4, 6.0),
        (50.0, 2.0, 0.01),
    ],
)
def test_accepted_log_odds_have_the_exact_density(a, b, bound):
    n = 60_000
    uniforms = np.random.default_rng(2).random((n, 3))
    draws, accepted = propose_log_odds(np.full(n, a), np.full(n, b), np.full(n, bound), uniforms)
    assert accepted.mean() > 0.6
    assert np.abs(draws).max() <= bound
    grid = np.linspace(-bound, bound, 200_001)
    log_density = -a * np.logaddexp(0, -grid) - b * np.logaddexp(0, grid)
    cumulative = np.cumsum(np.exp(log_density - log_density.max()))
    ranks = np.interp(draws[accepted], grid, cumulative / cumulative[-1])
    assert stats.kstest(ranks, "uniform").pvalue > 1e-4


def test_bounds_keep_both_above_the_floor():
    first, second, floor = np.array([0.1, 0.3]), np.array([0.2, 0.05]), np.array([0.05, 0.05])
    total, bound = pair_log_odds(first, second, floor)
    np.testing.assert_allclose(total / (1 + np.exp(bound)), floor)
