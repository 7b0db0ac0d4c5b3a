from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from skdpbayes.samplers.noisy_counts import sample_poisson_counts, sweep_multinomial_counts


def log_noise(gap, noise, scale):
    return -np.abs(gap) / scale if noise == "laplace" else -(gap**2) / (2 * scale**2)


def poisson_pmf(rate, y, noise, scale, size=4000):
    n = np.arange(size)
    logp = stats.poisson.logpmf(n, rate) + log_noise(y - n, noise, scale)
    p = np.exp(logp - logp.max())
    return p / p.sum()


def pair_pmf(m, p_first, y_j, y_k, noise, scale):
    n = np.arange(m + 1)
    logp = stats.binom.logpmf(n, m, p_first)
    logp += log_noise(y_j - n, noise, scale) + log_noise(y_k - m + n, noise, scale)
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
    draws = sample_poisson_counts(np.full(UNIFORMS.shape, y), rate, noise, scale, UNIFORMS)
    expected = poisson_pmf(rate, y, noise, scale)
    np.testing.assert_allclose(implied_pmf(draws, 4000), expected, atol=2e-5)


def test_poisson_cell_reproduces_the_two_piece_mixture_weight():
    # Closed form: mass e^{-ay + lam(e^a - 1)} F(y; lam e^a) below y against the tilted upper piece.
    lam, y, a = 7.3, 4, 0.6
    lower = -a * y + lam * np.expm1(a) + stats.poisson.logcdf(y, lam * np.exp(a))
    upper = a * y + lam * np.expm1(-a) + stats.poisson.logsf(y, lam * np.exp(-a))
    mixture = 1 / (1 + np.exp(upper - lower))
    assert mixture == pytest.approx(0.4198558915, abs=1e-10)
    draws = sample_poisson_counts(np.full(UNIFORMS.shape, y), lam, "laplace", 1 / a, UNIFORMS)
    assert np.mean(draws <= y) == pytest.approx(mixture, abs=2e-5)


def test_zero_rate_means_zero_count():
    draws = sample_poisson_counts(np.array([9, -9]), 0.0, "laplace", 1.0, np.array([0.3, 0.99]))
    assert draws.tolist() == [0, 0]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("m", "p", "y_j", "y_k", "scale"),
    [
        (30, 0.3, 14, 9, 2.5),
        (30, 0.3, -40, 90, 5.0),
        (1, 0.5, 0, 0, 1.0),
        (500, 0.8, 100, 90, 30.0),
    ],
)
def test_pair_swap_has_the_exact_conditional(m, p, y_j, y_k, scale, noise):
    n = UNIFORMS.shape[0]
    drawn = sweep_multinomial_counts(
        np.tile([m, 0], (n, 1)),
        np.tile([y_j, y_k], (n, 1)),
        np.tile([p, 1 - p], (n, 1)),
        np.tile([0, 1], (n, 1, 1)),
        noise,
        scale,
        UNIFORMS[:, None],
    )
    assert (drawn.sum(axis=1) == m).all()
    expected = pair_pmf(m, p, y_j, y_k, noise, scale)
    np.testing.assert_allclose(implied_pmf(drawn[:, 0], m + 1), expected, atol=2e-5)


def test_pair_swap_reproduces_the_three_piece_mixture_weights():
    m, p, y_j, y_k, a = 30, 0.3, 14, 9, 0.4
    n = UNIFORMS.shape[0]
    drawn = sweep_multinomial_counts(
        np.tile([0, m], (n, 1)),
        np.tile([y_j, y_k], (n, 1)),
        np.tile([p, 1 - p], (n, 1)),
        np.tile([0, 1], (n, 1, 1)),
        "laplace",
        1 / a,
        UNIFORMS[:, None],
    )[:, 0]
    low, high = sorted((y_j, m - y_k))
    pieces = [
        np.mean(drawn < low),
        np.mean((drawn >= low) & (drawn <= high)),
        np.mean(drawn > high),
    ]
    np.testing.assert_allclose(pieces, [0.5812548290, 0.4187398441, 0.0000053269], atol=1e-5)


def test_sweeps_leave_the_posterior_of_a_table_invariant():
    # Three cells, N = 6: many tables from one start against the enumerated posterior.
    rng = np.random.default_rng(0)
    total, theta, y, scale = 6, np.array([0.2, 0.3, 0.5]), np.array([4, -1, 2]), 2.0
    cells = [(i, j, total - i - j) for i in range(total + 1) for j in range(total + 1 - i)]
    cells = np.array(cells)
    logp = (cells * np.log(theta) - gammaln(cells + 1) - np.abs(y - cells) / scale).sum(axis=1)
    expected = np.exp(logp) / np.exp(logp).sum()
    n = 60_000
    counts = np.tile([6, 0, 0], (n, 1))
    for _ in range(12):
        pairs = np.tile([[0, 1], [1, 2]], (n, 1, 1))
        counts = sweep_multinomial_counts(
            counts,
            np.tile(y, (n, 1)),
            np.tile(theta, (n, 1)),
            pairs,
            "laplace",
            scale,
            rng.random((n, 2)),
        )
    observed = np.array([np.mean((counts == cell).all(axis=1)) for cell in cells])
    # One in 10^4 false alarms per cell: 3.9 standard errors.
    assert (np.abs(observed - expected) < 3.9 * np.sqrt(expected / n) + 1e-4).all()


def test_unknown_noise_is_refused():
    with pytest.raises(ValueError, match="'laplace' or 'gaussian'"):
        sample_poisson_counts(np.zeros(1, int), 1.0, "cauchy", 1.0, np.zeros(1))
