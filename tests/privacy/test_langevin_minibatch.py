"""Minibatch bounds against a quadratic program."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import langevin_mu, langevin_mu_cyclic


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


def test_steps_that_do_not_contract_are_refused():
    with pytest.raises(CalibrationError, match="smaller step"):
        langevin_mu_cyclic(0.3, 1.0, 1.0, 4, 2, smoothness=10.0)
