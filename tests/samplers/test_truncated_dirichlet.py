from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc

from skdpbayes.samplers import sample_dirichlet_on_grid, sample_truncated_dirichlet


@pytest.mark.parametrize(
    ("a", "b", "floor"), [(4.0, 9.0, 0.2), (1.0, 1.0, 0.05), (0.5, 0.5, 0.01), (300.0, 2.0, 0.1)]
)
def test_two_values_follow_the_truncated_beta_law(a, b, floor):
    uniforms = np.random.default_rng(0).random((4000, 1, 2, 33))
    drawn = sample_truncated_dirichlet(np.tile([a, b], (4000, 1)), floor, uniforms)[:, 0]
    low, high = betainc(a, b, floor), betainc(a, b, 1 - floor)
    assert stats.kstest((betainc(a, b, drawn) - low) / (high - low), "uniform").pvalue > 1e-4


def test_mode_far_outside_the_floor_stays_on_the_floor():
    rng = np.random.default_rng(0)
    parameter = np.tile([1.0, 1e5], (2000, 1))
    drawn = sample_truncated_dirichlet(parameter, 0.01, rng.random((2000, 1, 2, 33)))[:, 0]
    # Beyond the floor the density falls like exp(-(x - floor) * 1e5 / 0.99).
    assert (drawn >= 0.01).all()
    assert stats.kstest((drawn - 0.01) * 1e5 / 0.99, "expon").pvalue > 1e-4


def test_three_values_match_rejection_sampling():
    rng = np.random.default_rng(1)
    parameter, floor = np.array([3.0, 6.0, 2.0]), 0.1
    exact = rng.dirichlet(parameter, 6_000)
    exact = exact[(exact >= floor).all(axis=1)][:2_000]
    rows = np.tile(parameter, (2_000, 1))
    drawn = sample_truncated_dirichlet(rows, floor, rng.random((2_000, 15, 3, 9)))
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    assert drawn.min() >= floor * (1 - 1e-12)
    for v in range(3):
        assert stats.ks_2samp(drawn[:, v], exact[:, v]).pvalue > 1e-4


@pytest.mark.parametrize(
    ("parameter", "floor"),
    [((3.0, 1.0, 8.0), 0.05), ((500.0, 1.0, 30.0), 0.02), ((0.3, 0.3, 2.0), 0.03)],
)
def test_grid_draws_have_the_enumerated_law(parameter, floor):
    rng = np.random.default_rng(0)
    n_draws, steps = 1500, 1024
    drawn = sample_dirichlet_on_grid(
        np.tile(parameter, (n_draws, 1)), floor, sum(parameter), rng.random((n_draws, 3))
    )
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    # Back to the integers behind the probabilities: they are whole and add to the steps.
    k = (drawn - floor) / (1 - 3 * floor) * (steps + 1.5) - 0.5
    np.testing.assert_allclose(k, np.rint(k), atol=1e-6)
    assert (np.rint(k).sum(axis=1) == steps).all()
    point = floor + (1 - 3 * floor) * (np.arange(steps + 1) + 0.5) / (steps + 1.5)
    i, j = np.meshgrid(np.arange(steps + 1), np.arange(steps + 1), indexing="ij")
    inside = i + j <= steps
    logs = [(a - 1) * np.log(point) for a in parameter]
    log_p = np.where(
        inside, logs[0][i] + logs[1][j] + logs[2][np.maximum(steps - i - j, 0)], -np.inf
    )
    p = np.exp(log_p - log_p.max())
    for axis, column in ((1, 0), (0, 1)):
        cdf = np.cumsum(p.sum(axis=axis) / p.sum())
        found = np.searchsorted(np.sort(np.rint(k[:, column])), np.arange(steps + 1), side="right")
        # Kolmogorov distance at level 1e-4.
        assert np.abs(found / n_draws - cdf).max() < 2.2 / np.sqrt(n_draws)


def test_grid_draws_of_many_values_match_the_gibbs_sampler():
    rng = np.random.default_rng(0)
    size, rows = 40, 80
    parameter = 1.0 + rng.multinomial(400, rng.dirichlet(np.full(size, 0.3)))
    tiled = np.tile(parameter, (rows, 1))
    grid = sample_dirichlet_on_grid(tiled, 0.1 / size, parameter.sum(), rng.random((rows, size)))
    chain = sample_truncated_dirichlet(tiled, 0.1 / size, rng.random((rows, 40, size, 9)))
    error = (grid.mean(axis=0) - chain.mean(axis=0)) / np.sqrt(
        (grid.var(axis=0) + chain.var(axis=0)) / rows
    )
    assert np.abs(error).max() < 4.0  # forty means
    assert 0.85 < np.median(grid.std(axis=0) / chain.std(axis=0)) < 1.15
