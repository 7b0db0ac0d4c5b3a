"""Metropolis moves of emissions: pairs, symmetry, and the law that they leave alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers import (
    NoisyPoissonLikelihood,
    move_emissions,
    pair_values,
)
from skdpbayes.samplers.noisy_emissions import _reflect
from tests.samplers.noisy import noisy_poisson_log_likelihood

BEGIN = np.array([0, 5, 7])


def test_pairs_are_disjoint_and_within_their_field():
    keys = np.random.default_rng(0).random((4, 7))
    first, second = pair_values(BEGIN, keys)
    assert first.shape == second.shape == (4, 3)
    for k in range(4):
        together = np.concatenate([first[k], second[k]])
        assert np.unique(together).size == 6
    assert (first[:, :2] < 5).all()
    assert (second[:, :2] < 5).all()
    assert (np.sort([first[:, 2], second[:, 2]], axis=0).T == [5, 6]).all()


def test_reflection_stays_inside_and_is_symmetric():
    total = np.full(5, 0.4)
    folded = _reflect(np.array([0.1, -0.1, 0.5, 0.9, -0.7]), total)
    np.testing.assert_allclose(folded, [0.1, 0.1, 0.3, 0.1, 0.1])
    # From a to b by a step as likely as from b to a, reflections included.
    a, b, grid = 0.05, 0.33, np.arange(-20, 21)
    density = stats.norm(scale=0.3).pdf

    def reach(start, end):
        return sum(
            density(2 * 0.4 * i + sign * end - start).sum() for i in grid for sign in (-1, 1)
        )

    assert reach(a, b) == pytest.approx(reach(b, a))


def test_hidden_steps_say_nothing_and_sums_stay():
    noisy = np.array([[9, 1], [-200, 300]])
    likelihood = NoisyPoissonLikelihood(noisy, "laplace", 3.0, 100.0)
    rng = np.random.default_rng(0)
    emission = np.array([[0.8, 0.2]])
    pairs = (np.array([[0]]), np.array([[1]]))
    arguments = (pairs, 1.0, 18.0, rng.standard_normal((1, 1)), np.array([[0.5]]))
    level = np.array([10.0, 90.0])
    hidden = move_emissions(likelihood, level, np.array([0, -1]), emission, *arguments)
    alone = NoisyPoissonLikelihood(noisy[:1], "laplace", 3.0, 100.0)
    same = move_emissions(alone, level[:1], np.array([0]), emission, *arguments)
    np.testing.assert_array_equal(hidden, same)
    np.testing.assert_allclose(hidden.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("noise", "scale", "alpha"), [("laplace", 20.0, 1.0), ("gaussian", 25.0, 3.0)]
)
def test_long_run_against_quadrature(noise, scale, alpha):
    # One field of two values: the posterior of its first probability on a grid.
    rng = np.random.default_rng(1)
    level = np.full(6, 40.0)
    noisy = rng.poisson(level[:, None] * [0.25, 0.75]) + np.round(rng.laplace(0, 15, (6, 2)))
    noisy = noisy.astype(np.int64)
    grid = (np.arange(400) + 0.5) / 400
    log_density = (alpha - 1) * (np.log(grid) + np.log1p(-grid))
    for v, p in ((0, grid), (1, 1 - grid)):
        for y in noisy[:, v]:
            log_density += noisy_poisson_log_likelihood(np.full(400, y), 40.0 * p, noise, scale)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ grid
    spread = np.sqrt(weight @ (grid - mean) ** 2)
    # Two hundred chains at once, as states that see the same steps.
    n_chains, n_moves = 200, 150
    many = NoisyPoissonLikelihood(np.tile(noisy, (n_chains, 1)), noise, scale, 100.0)
    states = np.repeat(np.arange(n_chains), 6)
    emission = np.tile([[0.5, 0.5]], (n_chains, 1))
    pairs = (np.zeros((n_chains, 1), dtype=int), np.ones((n_chains, 1), dtype=int))
    kept, accepted = [], 0
    for i in range(n_moves):
        new = move_emissions(
            many,
            np.tile(level, n_chains),
            states,
            emission,
            pairs,
            alpha,
            2 * scale**2 if noise == "laplace" else scale**2,
            rng.standard_normal((n_chains, 1)),
            rng.random((n_chains, 1)),
        )
        accepted += np.mean(new != emission)
        emission = new
        if i >= 30:
            kept.append(emission[:, 0].copy())
    assert 0.2 < accepted / n_moves < 0.8
    draws = np.concatenate(kept)
    # About 24,000 draws, a few moves apart: the mean errs by less than 0.03 of the spread.
    assert abs(draws.mean() - mean) < 0.06 * spread
    assert draws.std() == pytest.approx(spread, rel=0.05)
