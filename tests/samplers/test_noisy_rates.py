from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from skdpbayes.samplers import noise_log_pmf, sample_noisy_rates
from skdpbayes.samplers.noisy_rates import _extended_pmf, _log_evidence, _log_prior_start
from tests.samplers.test_noisy_tables import discrete_laplace


def test_evidence_of_a_rate_is_the_negative_binomial_sum():
    alpha, scale, noisy = 0.7, 4.0, np.array([3, -6, 40, 0])
    noise, width = _extended_pmf(noise_log_pmf([("laplace", scale)]))
    start = _log_prior_start(noisy[None], width, alpha)[0]
    q = np.array([0.2, 0.5, 0.9])
    n = np.arange(3000)
    expected = []
    for value in q:
        log_nb = gammaln(n + alpha) - gammaln(n + 1) - gammaln(alpha)
        log_nb = log_nb + n * np.log(value) + alpha * np.log1p(-value)
        mass = np.exp(log_nb - np.abs(noisy[:, None] - n) / scale).sum(axis=1)
        expected.append(np.log(mass).sum())
    found = _log_evidence(noisy, alpha, q, noise, width, start)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_draws_cover_sparse_counts_and_their_total():
    rng = np.random.default_rng(0)
    log_noise = noise_log_pmf([("laplace", 10.0)])
    covered, totals = [], []
    for _ in range(40):
        rate = rng.gamma(1.0, np.exp(rng.uniform(0, 4)), size=(2, 60))
        truth = rng.poisson(rate)
        noisy = truth + discrete_laplace(rng, 10.0, truth.shape)
        draws = sample_noisy_rates(
            noisy, 1.0, log_noise, 1e5, rng.random((300, 2)), rng.random((300, 2, 60))
        )
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        covered.append(np.mean((low <= truth) & (truth <= high)))
        low, high = np.quantile(draws.sum(axis=2), [0.05, 0.95], axis=0)
        totals.append((low <= truth.sum(axis=1)) & (truth.sum(axis=1) <= high))
    assert 0.88 < np.mean(covered) < 0.96
    assert 0.8 < np.mean(totals) < 0.98  # 80 intervals: standard error 0.034


def test_empty_tables_shrink_to_zero():
    rng = np.random.default_rng(0)
    noisy = discrete_laplace(rng, 10.0, (1, 500))
    draws = sample_noisy_rates(
        noisy,
        1.0,
        noise_log_pmf([("laplace", 10.0)]),
        1e5,
        rng.random((50, 1)),
        rng.random((50, 1, 500)),
    )
    assert draws.mean() < 1.5  # the noise itself has mean absolute value 10
    assert draws.min() >= 0
