"""Minibatch bounds against a quadratic program and against composition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import (
    GaussianDP,
    SubsampledGaussian,
    compose,
    gdp_epsilon,
    langevin_fixed_batch_epsilon,
    langevin_fixed_batch_parts,
    langevin_mu,
    langevin_mu_cyclic,
    repeat,
)


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
    if c < 1.0:
        ratio = langevin_mu_cyclic(1 - c, 1.0, 1.0, n_batches, n_epochs) / math.sqrt((1 - c) / 2)
    else:
        ratio = langevin_mu_cyclic(0.1, 0.0, 1.0, n_batches, n_epochs) / math.sqrt(0.05)
    costs = [cheapest_schedule(c, n_batches, n_epochs, j) for j in range(n_batches)]
    assert ratio == pytest.approx(max(costs), rel=1e-5)
    assert max(costs) == pytest.approx(costs[-1])  # records of the last batch are the worst


def test_one_batch_per_epoch_is_the_full_gradient():
    for m in (0.0, 0.5, 3.0):
        assert langevin_mu_cyclic(0.1, m, 2.0, 1, 37) == pytest.approx(
            langevin_mu(0.1, m, 2.0, 37), rel=1e-12
        )
    assert langevin_mu_cyclic(1.0, 1.0, 2.0, 3, 10) == pytest.approx(2.0 * math.sqrt(0.5))


def price(parts, delta=1e-5):
    step = SubsampledGaussian(parts.noise_multiplier, parts.sampling_rate, "fixed", parts.adjacency)
    events = [repeat(step, parts.n_sampled_steps)]
    if parts.mu > 0:
        events.append(GaussianDP(parts.mu))
    return compose(events).epsilon_at(delta)


@pytest.mark.parametrize(("rate", "epsilon"), [(0.5, 0.9481), (0.1, 1.2778), (0.02, 2.0635)])
def test_fixed_batch_published_values(rate, epsilon):
    """beta = .1, L = 1, m = 1, step .01, 5000 steps; the full gradient costs .7235."""
    assert gdp_epsilon(langevin_mu(0.01, 1.0, 0.2, 5000), 1e-5) == pytest.approx(0.7235, abs=5e-5)
    got, parts = langevin_fixed_batch_epsilon(price, 0.01, 1.0, 0.1 / rate, 5000, rate)
    assert got <= epsilon + 1e-4  # the search may do better than the published optimum
    assert got > 0.98 * epsilon
    assert got == price(parts)
    assert 1 <= parts.n_sampled_steps < 5000


def test_fixed_batch_parts():
    c, step, rate, norm = 0.98, 0.02, 0.1, 3.0
    parts = langevin_fixed_batch_parts(
        step, 1.0, norm, 400, rate, n_last_steps=50, split=0.3, smoothness=10.0
    )
    distance = 2 * step * norm * (1 - c**350) / (1 - c)
    square = (c**50 * distance) ** 2 * (1 - c**2) / (0.3 * 2 * step * (1 - c**100))
    assert parts.mu == pytest.approx(math.sqrt(square))
    assert parts.noise_multiplier == pytest.approx(math.sqrt(0.7 * 2 * step) / (step * norm))
    assert (parts.sampling_rate, parts.n_sampled_steps) == (rate, 50)
    zero_out = langevin_fixed_batch_parts(
        step, 1.0, norm, 400, rate, n_last_steps=50, split=0.3, adjacency="zero_out"
    )
    assert zero_out.mu == pytest.approx(parts.mu / 2)
    assert zero_out.noise_multiplier == parts.noise_multiplier


def test_fixed_batches_of_everything_cost_no_less_than_the_full_gradient():
    got, _ = langevin_fixed_batch_epsilon(price, 0.05, 1.0, 0.2, 200, 1.0)
    assert got >= gdp_epsilon(langevin_mu(0.05, 1.0, 0.4, 200), 1e-5)


def test_all_steps_last_is_plain_composition():
    parts = langevin_fixed_batch_parts(
        0.02, 1.0, 3.0, 40, 0.1, n_last_steps=40, split=0.5, adjacency="zero_out"
    )
    assert parts.mu == 0.0
    assert parts.noise_multiplier == pytest.approx(math.sqrt(0.04) / 0.06)
    assert langevin_fixed_batch_epsilon(price, 0.02, 1.0, 3.0, 1, 0.1)[1].n_sampled_steps == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_last_steps": 41}, "n_last_steps must be <= n_steps=40"),
        ({"n_last_steps": 10, "split": 1.0}, "split must be in"),
        ({"n_last_steps": 10, "adjacency": "other"}, "adjacency must be"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"n_last_steps": 10, "split": 0.5} | change
    with pytest.raises(ValueError, match=message):
        langevin_fixed_batch_parts(0.02, 1.0, 3.0, 40, 0.1, **arguments)


def test_steps_that_do_not_contract_are_refused():
    with pytest.raises(CalibrationError, match="smaller step"):
        langevin_mu_cyclic(0.3, 1.0, 1.0, 4, 2, smoothness=10.0)
    with pytest.raises(CalibrationError, match="smaller step"):
        langevin_fixed_batch_parts(
            0.3, 1.0, 3.0, 40, 0.1, n_last_steps=10, split=0.5, smoothness=10.0
        )
