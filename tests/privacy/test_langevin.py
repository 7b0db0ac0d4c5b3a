"""Langevin bounds against closed forms, exact density evolution and brute-force minima."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import (
    gdp_delta,
    gdp_mu,
    langevin_mu,
    largest_langevin_step,
    ops_inverse_temperature,
    ops_mu,
)


@pytest.mark.parametrize(
    ("step", "m", "gap", "n_steps", "mu", "limit", "small_steps"),
    [
        (0.01, 1.0, 1.0, 1, 0.0707106781, 0.9974968672, 1.0),
        (0.01, 1.0, 1.0, 100, 0.6795393357, 0.9974968672, 1.0),
        (0.1, 0.5, 2.0, 10, 1.3991793514, 2.7928480088, 2.8284271247),
        (0.001, 10.0, 0.3, 500, 0.0940111206, 0.0946308618, 0.0948683298),
        (0.05, 1.0, 0.7, 1, 0.1106797181, 0.6911946180, 0.7),
        (0.05, 1.0, 0.7, 5, 0.2468396690, 0.6911946180, 0.7),
        (0.05, 1.0, 0.7, 50, 0.6399077737, 0.6911946180, 0.7),
        (0.05, 1.0, 0.7, 1000, 0.6911946180, 0.6911946180, 0.7),
    ],
)
def test_published_values(step, m, gap, n_steps, mu, limit, small_steps):
    assert langevin_mu(step, m, gap, n_steps) == pytest.approx(mu, abs=6e-11)
    assert langevin_mu(step, m, gap, math.inf) == pytest.approx(limit, abs=6e-11)
    assert langevin_mu(1e-13, m, gap, math.inf) == pytest.approx(small_steps, abs=1e-10)


def linear_loss_mu(steps, m, gap):
    """Exact mu of the last iterate when losses are linear: an AR(1) with shifted mean."""
    mean, variance = 0.0, 0.0
    for eta in steps:
        mean = (1 - eta * m) * mean + eta * gap
        variance = (1 - eta * m) ** 2 * variance + 2 * eta
    return mean / math.sqrt(variance)


@pytest.mark.parametrize("m", [0.0, 1e-9, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("n_steps", [1, 2, 7, 400])
def test_bounds_are_attained_by_linear_losses(m, n_steps):
    assert langevin_mu(0.2, m, 1.7, n_steps) == pytest.approx(
        linear_loss_mu([0.2] * n_steps, m, 1.7), rel=1e-9
    )


def test_diameter_bound_published_value_and_brute_force():
    assert langevin_mu(0.001, 1.0, 2.0, 100_000, 0.5) == pytest.approx(1.3225453094, abs=1e-10)
    assert math.sqrt((2 * 2 * 0.5 - 0.25) * (1 - 0.0005)) == pytest.approx(1.3225448953, abs=1e-10)
    assert langevin_mu(0.001, 1.0, 2.0, math.inf) == pytest.approx(2.0, abs=1e-3)
    for m in (0.0, 0.4, 1.0):
        for diameter in (0.01, 0.5, 1.9, 4.0):
            for n_steps in (1, 2, 30, 800):
                eta, gap = 0.01, 2.0
                c = 1 - eta * m
                best = langevin_mu(eta, m, gap, n_steps) ** 2
                for n in range(1, n_steps):
                    powers = c ** np.arange(n)
                    distance = c**n * diameter + eta * gap * powers.sum()
                    best = min(best, distance**2 / (2 * eta * (powers**2).sum()))
                got = langevin_mu(eta, m, gap, n_steps, diameter)
                assert got**2 == pytest.approx(best, rel=1e-9)


def evolve(rows, n_steps, *, beta, step, m, grid):
    """Density of a 1-d logistic Langevin chain started at 0, by quadrature on a grid."""
    drift = m * grid - beta * (expit(-np.outer(grid, rows)) * rows).sum(axis=1)
    target = grid - step * drift
    spread = math.sqrt(2 * step)
    kernel = np.exp(-0.5 * ((grid[:, None] - target[None, :]) / spread) ** 2)
    kernel /= spread * math.sqrt(2 * math.pi)
    cell = grid[1] - grid[0]
    density = kernel[:, np.argmin(np.abs(grid))]
    yield density
    for _ in range(n_steps - 1):
        density = kernel @ density * cell
        yield density


@pytest.fixture(scope="module")
def true_deltas():
    """Exact delta(epsilon) of the last iterate, both orders, at several numbers of steps."""
    rest = np.array([-1.0, -1.0, 0.8, -0.6, 0.3])
    grid = np.linspace(-9.0, 9.0, 1801)
    settings = {"beta": 0.8, "step": 0.2, "m": 1.0, "grid": grid}
    chains = [list(evolve(np.append(rest, u), 40, **settings)) for u in (1.0, -1.0)]
    cell = grid[1] - grid[0]
    result = {}
    for t in (1, 3, 10, 40):
        first, second = chains[0][t - 1], chains[1][t - 1]
        assert np.sum(first) * cell == pytest.approx(1.0, abs=1e-9)
        for epsilon in (0.0, 0.2, 0.5, 1.0):
            gaps = [
                np.sum(np.maximum(a - math.exp(epsilon) * b, 0)) * cell
                for a, b in ((first, second), (second, first))
            ]
            result[t, epsilon] = max(gaps)
    return result


def test_true_privacy_of_a_logistic_chain_is_within_the_bound(true_deltas):
    # the label flip of the same row moves the gradient by exactly beta everywhere
    for (t, epsilon), delta in true_deltas.items():
        bound = gdp_delta(epsilon, langevin_mu(0.2, 1.0, 0.8, t, smoothness=1.0 + 0.8 * 6 / 4))
        assert delta <= bound * (1 + 2e-4)  # equal at t = 1; quadrature across a kink
    assert true_deltas[1, 0.2] == pytest.approx(
        gdp_delta(0.2, langevin_mu(0.2, 1.0, 0.8, 1)), rel=1e-4
    )


def test_a_bound_half_as_large_is_caught(true_deltas):
    for t in (1, 3, 10, 40):
        broken = 0.5 * langevin_mu(0.2, 1.0, 0.8, t)
        assert any(
            delta > 1.01 * gdp_delta(epsilon, broken)
            for (steps, epsilon), delta in true_deltas.items()
            if steps == t
        )


def test_mu_is_monotone_and_below_its_limits():
    mus = [langevin_mu(0.05, 1.0, 0.7, t) for t in (1, 2, 5, 20, 100, 1000)]
    assert np.all(np.diff(mus) > 0)
    assert mus[-1] <= langevin_mu(0.05, 1.0, 0.7, math.inf) < 0.7
    assert langevin_mu(1.0, 1.0, 0.7, 1) == pytest.approx(langevin_mu(1.0, 1.0, 0.7, 50))


def test_ops_inverse_temperature():
    for epsilon, beta in ((0.1, 0.0325207841), (1.0, 0.2680511232), (5.0, 1.1212418238)):
        mu = gdp_mu(epsilon, 1e-5)
        got = ops_inverse_temperature(mu, C=3.0, gradient_sensitivity=2.0)
        assert got == pytest.approx(beta**2 / (3.0 * 4.0), rel=1e-8)
        assert 2.0 * math.sqrt(got * 3.0) <= mu
    assert ops_inverse_temperature(math.inf, 1.0, 1.0) == math.inf


@pytest.mark.parametrize("rounding", [1e-9, 1e-3, 0.3, 50.0])
@pytest.mark.parametrize("mu", [1e-6, 0.3, 8.0])
def test_the_rounding_of_a_density_is_paid_for(mu, rounding):
    beta = ops_inverse_temperature(mu, 3.0, 2.0, rounding=rounding)
    assert beta < ops_inverse_temperature(mu, 3.0, 2.0)
    spent = ops_mu(beta, 3.0, 2.0, rounding=rounding)
    assert mu * (1 - 1e-12) < spent <= mu
    assert spent == pytest.approx(2 * math.sqrt(3 * beta) + 2.5066282746 * beta * rounding)


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("error", [0.01, 0.1, 1.0])
def test_densities_that_are_nearly_right_are_nearly_as_private(mu, error):
    """Two normal laws on a fine grid, both distorted by factors within e^+-error, at worst.

    The exact privacy profile of the distorted pair stays below the claim; where the test that tells
    most has errors near 1/2, nearly all of the allowance is needed.
    """
    grid = np.linspace(-9.0, 9.0 + mu, 40_001)
    laws = [norm.pdf(grid), norm.pdf(grid, mu)]
    laws = [law / law.sum() for law in laws]
    allowed = mu + math.sqrt(2.0 * math.pi) * error
    largest = 0.0
    for threshold in np.linspace(-2.0, 2.0 + mu, 21):
        right = grid > threshold
        distorted = []
        for law, inside in zip(laws, (~right, right), strict=True):
            mass = law[inside].sum()
            up = min(error, math.log((1.0 - math.exp(-error) * (1.0 - mass)) / mass))
            down = math.log((1.0 - mass * math.exp(up)) / (1.0 - mass))
            assert -error * (1 + 1e-6) <= down <= 0.0
            distorted.append(law * np.exp(np.where(inside, up, down)))
        first, second = distorted
        assert first.sum() == pytest.approx(1.0)
        for epsilon in np.linspace(-1.0, mu * mu + 3.0, 15):
            claimed = norm.cdf(-epsilon / allowed + allowed / 2) - math.exp(epsilon) * norm.cdf(
                -epsilon / allowed - allowed / 2
            )
            for a, b in ((first, second), (second, first)):
                assert np.maximum(a - math.exp(epsilon) * b, 0.0).sum() <= claimed + 1e-6
        quantiles = -norm.ppf(first[right].sum()) - norm.ppf(second[~right].sum())
        largest = max(largest, quantiles - mu)
    assert largest <= (allowed - mu) * (1 + 1e-3)
    if mu < 0.1 and error < 0.5:
        assert largest > 0.94 * (allowed - mu)


def test_steps_that_do_not_contract_are_refused():
    assert largest_langevin_step(1.0, 3.0) == 0.5
    assert langevin_mu(0.5, 1.0, 1.0, 3, smoothness=3.0) > 0
    with pytest.raises(CalibrationError, match="2 / \\(smoothness"):
        langevin_mu(0.51, 1.0, 1.0, 3, smoothness=3.0)
    with pytest.raises(CalibrationError, match="1 / strong_convexity"):
        langevin_mu(1.5, 1.0, 1.0, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: langevin_mu(0.0, 1.0, 1.0, 3), "step_size must be > 0"),
        (lambda: langevin_mu(0.1, -1.0, 1.0, 3), "strong_convexity must be >= 0"),
        (lambda: langevin_mu(0.1, 1.0, 1.0, 2.5), "n_steps must be an integer"),
        (lambda: langevin_mu(0.1, 1.0, 1.0, math.nan), "n_steps must be an integer"),
        (lambda: langevin_mu(0.1, 1.0, 1.0, 3, 0.0), "diameter must be > 0"),
        (lambda: largest_langevin_step(2.0, 1.0), "smoothness must be >="),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
