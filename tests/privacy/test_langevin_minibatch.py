"""Minibatch bounds against a quadratic program."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import GaussianDP, GaussianMixture, langevin_mu, langevin_mu_cyclic


@pytest.mark.parametrize(
    ("c", "n_batches", "n_epochs", "ratio"),
    [(0.9, 4, 5, 1.25969420), (0.97, 5, 6, 1.35770281), (0.99, 20, 50, 1.18726492)],
)
def test_cyclic_published_values(c, n_batches, n_epochs, ratio):
    step = 1 - c
    mu = langevin_mu_cyclic(step, 1.0, 3.0, n_batches, n_epochs)
    assert mu / (3.0 * math.sqrt(step / 2)) == pytest.approx(ratio, abs=6e-9)


def cheapest_schedule(c, n_batches, n_epochs, position):
    """Minimize sum a^2 with z >= 0 along the way and z = 0 at the end; unit moves and noise."""
    n_steps = n_batches * n_epochs
    arrivals = np.zeros(n_steps)
    arrivals[position::n_batches] = 1.0
    lower = np.tril(c ** np.subtract.outer(np.arange(n_steps), np.arange(n_steps)).clip(0))
    result = minimize(
        lambda a: a @ a,
        np.zeros(n_steps) + 1e-3,
        jac=lambda a: 2 * a,
        constraints=[
            {
                "type": "ineq",
                "fun": lambda a: (lower @ (arrivals - a))[:-1],
                "jac": lambda a: -lower[:-1],
            },
            {
                "type": "eq",
                "fun": lambda a: (lower @ (arrivals - a))[-1:],
                "jac": lambda a: -lower[-1:],
            },
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert result.success
    return math.sqrt(result.fun)


@pytest.mark.parametrize(
    ("c", "n_batches", "n_epochs"),
    [(0.9, 4, 5), (0.97, 5, 4), (0.7, 2, 6), (0.5, 3, 3), (0.8, 1, 6), (1.0, 3, 4), (0.3, 1, 5)],
)
def test_cyclic_formula_is_the_cheapest_schedule(c, n_batches, n_epochs):
    step, m = (1.0 - c, 1.0) if c < 1.0 else (0.1, 0.0)
    for after in range(n_batches):
        mu = langevin_mu_cyclic(step, m, 1.0, n_batches, n_epochs, steps_after=after)
        cost = cheapest_schedule(c, n_batches, n_epochs, n_batches - 1 - after)
        assert mu / math.sqrt(step / 2) == pytest.approx(cost, rel=1e-5)


def test_each_step_after_the_last_visit_makes_a_record_cheaper():
    for c in (0.3, 0.9, 1.0):
        mus = [langevin_mu_cyclic(0.1, (1 - c) / 0.1, 1.0, 6, 4, steps_after=j) for j in range(6)]
        assert np.all(np.diff(mus) < 0.0)
    forgotten = [langevin_mu_cyclic(1.0, 1.0, 1.0, 3, 4, steps_after=j) for j in range(3)]
    assert forgotten == [pytest.approx(math.sqrt(0.5)), 0.0, 0.0]
    with pytest.raises(ValueError, match="below n_batches=3"):
        langevin_mu_cyclic(0.1, 1.0, 1.0, 3, 4, steps_after=3)


def last_state(slopes, n_batches, n_epochs, step, m):
    """Means of the last state for every split of the records, and its common deviation.

    The losses are linear, so that given the split the state is normal.
    """
    c, size, means = 1.0 - step * m, len(slopes) // n_batches, []
    for order in itertools.permutations(slopes):
        batches = n_batches * np.sum(np.reshape(order, (n_batches, size)), axis=1)
        state = 0.0
        for gradient in np.tile(batches, n_epochs):
            state = c * state - step * gradient
        means.append(state)
    variance = 2.0 * step * sum(c ** (2 * i) for i in range(n_batches * n_epochs))
    return np.round(means, 12), math.sqrt(variance)


def exact_delta(epsilon, ones, others, deviation):
    """Delta of two mixtures of normals, on cells: never above the truth."""
    edges = np.linspace(-1.0, 1.0, 20_001) * (np.abs(ones).max() + 9.0 * deviation)
    laws = []
    for means in (ones, others):
        values, counts = np.unique(means, return_counts=True)
        below = ndtr((edges[:, None] - values) / deviation) @ counts / means.size
        laws.append(np.diff(below))
    return float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum())


@pytest.mark.parametrize(
    ("n_batches", "n_epochs", "step", "m", "reached"),
    [(2, 10, 0.2, 1.0, 0.9), (3, 4, 0.1, 1.0, 0.65), (6, 3, 0.05, 0.5, 0.25)],
)
def test_a_secret_batch_is_priced_by_the_mixture(n_batches, n_epochs, step, m, reached):
    rest = [0.3, -0.6, 0.1, 0.0, 0.4]
    ones, deviation = last_state([1.0, *rest], n_batches, n_epochs, step, m)
    others, _ = last_state([-1.0, *rest], n_batches, n_epochs, step, m)
    mus = tuple(
        langevin_mu_cyclic(step, m, 2.0 * n_batches, n_batches, n_epochs, steps_after=j)
        for j in range(n_batches)
    )
    claim = GaussianMixture(mus)
    for epsilon in (0.2, 1.0, 3.0):
        truth = exact_delta(epsilon, ones, others, deviation)
        assert reached * claim.delta_at(epsilon) < truth <= claim.delta_at(epsilon)
        assert GaussianDP(mus[-1]).delta_at(epsilon) < truth  # the first batch alone is too little
        assert claim.delta_at(epsilon) < GaussianDP(mus[0]).delta_at(epsilon)


def test_one_batch_per_epoch_is_the_full_gradient():
    for m in (0.0, 0.5, 3.0):
        assert langevin_mu_cyclic(0.1, m, 2.0, 1, 37) == pytest.approx(
            langevin_mu(0.1, m, 2.0, 37), rel=1e-12
        )
    assert langevin_mu_cyclic(1.0, 1.0, 2.0, 3, 10) == pytest.approx(2.0 * math.sqrt(0.5))


def test_steps_that_do_not_contract_are_refused():
    with pytest.raises(CalibrationError, match="smaller step"):
        langevin_mu_cyclic(0.3, 1.0, 1.0, 4, 2, smoothness=10.0)
