from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers.noisy_rejection import reject_poisson_counts

CASES = [
    (7.3, 4, 1 / 0.6),
    (7.3, -20, 3.0),
    (0.01, 5, 2.0),
    (900.0, 400, 50.0),
    (30.0, 30, 0.2),
    (3.0, 60, 4.0),
    (120.0, 140, 6.0),
]


def pmf(rate, y, noise, scale):
    n = np.arange(3000)
    gap = (y - n) / scale
    logp = stats.poisson.logpmf(n, rate) + (-np.abs(gap) if noise == "laplace" else -0.5 * gap**2)
    p = np.exp(logp - logp.max())
    return p / p.sum()


def p_value(draws, expected):
    n = draws.shape[0]
    observed = np.bincount(draws, minlength=expected.shape[0])
    kept = expected * n > 10
    rest = [observed[~kept].sum(), max(expected[~kept].sum() * n, 1e-9)]
    observed = np.append(observed[kept], rest[0])
    mean = np.append(expected[kept] * n, rest[1])
    if mean[-1] < 5:  # too rare for the statistic: no more than a few may occur
        assert observed[-1] < 25
        observed, mean = observed[:-1], mean[:-1]
    if mean.shape[0] < 2:
        return 1.0
    return stats.chi2.sf(((observed - mean) ** 2 / mean).sum(), mean.shape[0] - 1)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("rate", "y", "scale"), CASES)
def test_draws_follow_the_exact_conditional(rate, y, scale, noise):
    n = 300_000
    uniforms = np.random.default_rng(5).random(n)
    draws = reject_poisson_counts(np.full(n, y), np.full(n, rate), noise, scale, uniforms)
    # Fourteen tests at 1e-4: a false alarm once in 700 changes of the code.
    assert p_value(draws, pmf(rate, y, noise, scale)) > 1e-4


def test_another_scale_is_told_apart():
    n = 300_000
    uniforms = np.random.default_rng(5).random(n)
    draws = reject_poisson_counts(np.full(n, 140), np.full(n, 120.0), "laplace", 6.0, uniforms)
    for wrong in (4.0, 9.0):
        assert p_value(draws, pmf(120.0, 140, "laplace", wrong)) < 1e-9


def test_zero_rate_means_zero_count():
    uniforms = np.full(2, 0.5)
    draws = reject_poisson_counts(np.array([9, -9]), np.zeros(2), "laplace", 1.0, uniforms)
    assert draws.tolist() == [0, 0]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("rate", "y", "scale"),
    [
        (0.3, -4, 6.0),
        (3.0, 5, 2.0),
        (7.9, 8, 6.0),  # modes on both sides of the change in the number of terms
        (8.2, 9, 6.0),
        (16.0, 3, 20.0),
        (24.0, 24, 9.0),
        (24.9, 20, 60.0),
        (1.0, 2000, 40.0),
    ],
)
def test_small_modes_are_the_inverse_of_the_distribution_function(rate, y, scale, noise):
    # Stopping the sum early must not change a single count, next to the steps least of all.
    steps = np.cumsum(pmf(rate, y, noise, scale))
    steps = steps[steps < 1.0 - 1e-12]
    near = [steps * (1.0 - share) for share in (1e-2, 1e-3, 1e-5, 1e-11)]
    near += [steps + (1.0 - steps) * share for share in (1e-11, 1e-5, 1e-3)]
    uniforms = np.concatenate([np.linspace(0.0, 1.0 - 1e-12, 5000), *near])
    n = uniforms.shape[0]
    draws = reject_poisson_counts(np.full(n, y), np.full(n, rate), noise, scale, uniforms)
    distance = np.abs(uniforms[:, None] - steps).min(axis=1)
    clear = distance > 1e-12
    expected = np.searchsorted(np.cumsum(pmf(rate, y, noise, scale)), uniforms, side="right")
    np.testing.assert_array_equal(draws[clear], expected[clear])
