from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln

from skdpbayes.samplers import noise_log_pmf, sample_noisy_tables


def discrete_laplace(rng, scale, shape):
    p = -np.expm1(-1.0 / scale)
    return rng.geometric(p, shape) - rng.geometric(p, shape)


def draw(rng, tables, n_total, alpha, log_noise, n_draws):
    n_classes, n_cells = tables[0].shape[0], sum(table.shape[1] for table in tables)
    return sample_noisy_tables(
        tables,
        n_total,
        alpha,
        log_noise,
        rng.random((n_draws, n_classes)),
        rng.random((n_draws, n_classes, n_cells, 2)),
    )


def log_pmf_of_sum(scale, count):
    pmf = np.exp(-np.abs(np.arange(-200, 201)) / scale)
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, pmf)
    return lambda k: np.log(total[total.shape[0] // 2 + k])


@pytest.mark.parametrize("alpha", [1.0, 0.4, 3.0])
def test_joint_draws_match_the_enumerated_posterior(alpha):
    rng = np.random.default_rng(1)
    n_total, scale = 4, 1.5
    tables = [np.array([[3, 0], [1, -1]]), np.array([[1, 0, 1], [0, 2, -2]])]
    # Class totals: every table's total counts; cells given them: Dirichlet-multinomial times noise.
    totals = np.zeros(n_total + 1)
    for table in tables:
        log_sum = log_pmf_of_sum(scale, table.shape[1])
        for m in range(n_total + 1):
            totals[m] += log_sum(table[0].sum() - m) + log_sum(table[1].sum() - (n_total - m))
    totals = np.exp(totals - totals.max())
    totals /= totals.sum()
    expected = {}
    for m in range(n_total + 1):
        cells = [((), 1.0)]
        for c, table in itertools.product(range(2), tables):
            row, total = table[c], m if c == 0 else n_total - m
            ways = [
                w for w in itertools.product(range(total + 1), repeat=len(row)) if sum(w) == total
            ]
            n = np.array(ways)
            logp = gammaln(n + alpha) - gammaln(n + 1) - np.abs(row - n) / scale
            p = np.exp(logp.sum(axis=1))
            p /= p.sum()
            cells = [(a + w, q * r) for a, q in cells for w, r in zip(ways, p, strict=True)]
        for key, p in cells:
            expected[key] = totals[m] * p
    n_draws = 100_000
    draws = draw(rng, tables, n_total, alpha, noise_log_pmf([("laplace", scale)]), n_draws)
    keys, counts = np.unique(draws.reshape(n_draws, -1), axis=0, return_counts=True)
    seen = {tuple(key): count / n_draws for key, count in zip(keys.tolist(), counts, strict=True)}
    assert seen.keys() <= expected.keys()
    # About 500 cells; 4.5 standard errors make one false alarm in 300 runs of other seeds.
    for key, p in expected.items():
        assert abs(seen.get(key, 0.0) - p) < 4.5 * np.sqrt(p / n_draws) + 2e-5


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_wide_noise_is_binned_without_visible_error(noise):
    rng = np.random.default_rng(0)
    n_total, scale, y = 3000, 400.0, np.array([2500, 900])
    log_noise = noise_log_pmf([(noise, scale)])
    draws = draw(rng, [y[None, :]], n_total, 1.0, log_noise, 40_000)[:, 0]
    n = np.arange(n_total + 1)
    gaps = np.stack([y[0] - n, y[1] - (n_total - n)])
    logp = (-np.abs(gaps) / scale if noise == "laplace" else -(gaps**2) / (2 * scale**2)).sum(
        axis=0
    )
    cdf = np.cumsum(np.exp(logp - logp.max()))
    cdf /= cdf[-1]
    empirical = np.searchsorted(np.sort(draws[:, 0]), n, side="right") / draws.shape[0]
    # Kolmogorov distance: 1.95 / sqrt(40,000) at level 1e-3; the bins add next to nothing.
    assert np.abs(empirical - cdf).max() < 0.011
    assert np.abs(draws.sum(axis=1) - n_total).max() <= 2 * 600 / 32 * 2


def test_every_table_informs_the_class_totals():
    rng = np.random.default_rng(0)
    scale, truth = 20.0, np.array([700, 300])
    log_noise = noise_log_pmf([("laplace", scale)])
    spread = []
    for n_tables in (1, 16):
        split = truth[:, None] // 2
        tables = [
            np.hstack([split, truth[:, None] - split]) + discrete_laplace(rng, scale, (2, 2))
            for _ in range(n_tables)
        ]
        totals = draw(rng, tables, 1000, 1.0, log_noise, 2000)[:, 0, :2].sum(axis=1)
        spread.append(totals.std())
    assert 2.5 < spread[0] / spread[1] < 6.5  # 4 for independent tables of normal noise


def test_draws_cover_the_true_counts():
    rng = np.random.default_rng(3)
    log_noise = noise_log_pmf([("laplace", 15.0)])
    covered = []
    for _ in range(60):
        tables, truth = [], []
        n_classes = rng.multinomial(500, rng.dirichlet(np.ones(3)))
        for size in (2, 5, 3):
            table = np.stack([rng.multinomial(m, rng.dirichlet(np.ones(size))) for m in n_classes])
            truth.append(table)
            tables.append(table + discrete_laplace(rng, 15.0, table.shape))
        draws = draw(rng, tables, 500, 1.0, log_noise, 400)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        truth = np.hstack(truth)
        covered.append(np.mean((low <= truth) & (truth <= high)))
    assert 0.88 < np.mean(covered) < 0.95  # discrete intervals cover a little more than 0.9


def test_noise_of_merged_releases_is_the_convolution():
    log_pmf = noise_log_pmf([("laplace", 3.0), ("laplace", 3.0), ("gaussian", 4.0)])
    rng = np.random.default_rng(0)
    gaussian = np.exp(-(np.arange(-60, 61) ** 2) / 32.0)
    noise = discrete_laplace(rng, 3.0, (2, 400_000)).sum(axis=0)
    noise += rng.choice(np.arange(-60, 61), p=gaussian / gaussian.sum(), size=400_000)
    pmf = np.exp(log_pmf) / (2 * np.exp(log_pmf).sum() - np.exp(log_pmf[0]))
    observed = np.bincount(np.abs(noise), minlength=40)[:40] / 400_000
    expected = pmf[:40] * np.where(np.arange(40) == 0, 1, 2)
    np.testing.assert_allclose(observed, expected, atol=1.5e-3)


def test_noise_too_small_to_matter_returns_the_counts():
    rng = np.random.default_rng(0)
    table = np.array([[5, 0, 2], [1, 1, 1]])
    draws = draw(rng, [table], 10, 1.0, noise_log_pmf([("laplace", 1e-3)]), 50)
    assert (draws == table).all()


def test_releases_far_outside_the_possible_range_still_give_possible_counts():
    rng = np.random.default_rng(0)
    tables = [np.array([[10_000, -9_000], [-5_000, 400]]), np.array([[-900, -900], [900, 900]])]
    draws = draw(rng, tables, 30, 1.0, noise_log_pmf([("laplace", 40.0)]), 100)
    assert draws.min() >= 0
    assert draws.max() <= 30


def test_many_drowned_cells_keep_the_exact_conditional_means():
    """Untilted, their sum lies far beyond the total, where convolutions have no precision."""
    rng = np.random.default_rng(0)
    n_total, scale, size, n_draws = 300, 40.0, 100, 4000
    y = discrete_laplace(rng, scale, size)
    y[0] += 250
    n = np.arange(n_total + 1)
    weights = np.exp(-np.abs(y[:, None] - n) / scale)
    exact = []
    for k in range(0, size, 10):
        others = np.ones(1)  # direct convolutions of positive numbers: no digits are lost
        for weight in np.delete(weights, k, axis=0):
            others = np.convolve(others, weight)[: n_total + 1]
            others /= others.max()
        p = weights[k] * others[n_total - n]
        exact.append((p * n).sum() / p.sum())
    draws = draw(rng, [y[None]], n_total, 1.0, noise_log_pmf([("laplace", scale)]), n_draws)[:, 0]
    assert (draws.sum(axis=1) == n_total).all()
    found = draws[:, ::10]
    error = (found.mean(axis=0) - exact) / (found.std(axis=0) / np.sqrt(n_draws))
    assert np.abs(error).max() < 4.0  # ten means; untilted convolutions are 9 to 11 off
