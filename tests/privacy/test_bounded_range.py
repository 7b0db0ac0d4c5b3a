"""Bounded-range profiles against two-point oracles, quadrature-free and exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

from skdpbayes.privacy import (
    bounded_range_delta,
    bounded_range_epsilon,
    bounded_range_eta,
    bounded_range_rho,
    zcdp_delta,
)


def two_point(eta, t):
    """Probability of the loss t; the other loss is t - eta."""
    return math.expm1(t - eta) / math.expm1(-eta)


def two_point_delta(epsilon, eta, t, k=1):
    """Hockey-stick divergence of the k-fold product of the two-point pair, all terms positive."""
    p = two_point(eta, t)
    i = np.arange(k + 1)
    log_choose = gammaln(k + 1) - gammaln(i + 1) - gammaln(k - i + 1)
    log_p = log_choose + xlogy(k - i, p) + xlogy(i, 1 - p)
    gap = -np.expm1(np.minimum(0.0, epsilon - (k * t - i * eta)))
    return float(np.sum(np.exp(log_p) * gap))


def worst_two_point_delta(epsilon, eta, k=1):
    """Maximum over the offset t by grids, each ten cells of the one before it."""
    low, high = epsilon / k, eta  # below, every loss is under epsilon
    for _ in range(5):
        grid = np.linspace(low, high, 202)[1:-1]
        values = [two_point_delta(epsilon, eta, t, k) for t in grid]
        best, cell = grid[int(np.argmax(values))], grid[1] - grid[0]
        low, high = max(0.0, best - 5 * cell), min(eta, best + 5 * cell)
    return max(values)


def test_published_values():
    assert bounded_range_delta(0.5, 1.0) == pytest.approx(0.0774046863, abs=5e-11)
    assert bounded_range_eta(1.0, 1e-5) == pytest.approx(1.0050421056, abs=5e-11)
    # what k * eta^2 / 8 zCDP allows per draw
    assert bounded_range_eta(1.0, 1e-5, 10, adaptive=True) == pytest.approx(0.156350, abs=5e-7)
    assert bounded_range_eta(1.0, 1e-5, 100, adaptive=True) == pytest.approx(0.049442, abs=5e-7)
    # the optimal composition of independent draws allows more
    assert bounded_range_eta(1.0, 1e-5, 10) == pytest.approx(0.172198584, abs=1e-8)
    assert bounded_range_eta(1.0, 1e-5, 100) == pytest.approx(0.053685342, abs=1e-8)


@pytest.mark.parametrize("eta", [1e-6, 0.01, 0.5, 1.0, 4.0, 30.0, 900.0])
@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_one_draw_is_the_worst_two_point_pair(eta, fraction):
    epsilon = fraction * eta
    assert bounded_range_delta(epsilon, eta) == pytest.approx(
        worst_two_point_delta(epsilon, eta), rel=1e-9
    )


@pytest.mark.parametrize("k", [2, 3, 7, 40])
@pytest.mark.parametrize("eta", [0.05, 0.4, 2.0])
@pytest.mark.parametrize("fraction", [0.0, 0.15, 0.5, 0.93])
def test_k_draws_are_the_worst_product_of_two_point_pairs(k, eta, fraction):
    epsilon = fraction * k * eta
    exact = worst_two_point_delta(epsilon, eta, k)
    claimed = bounded_range_delta(epsilon, eta, k)
    assert claimed >= exact * (1 - 1e-9)
    assert claimed == pytest.approx(exact, rel=1e-6, abs=1e-300)


def test_random_bounded_range_pairs_stay_below_the_profile():
    rng = np.random.default_rng(0)
    for _ in range(200):
        eta = rng.uniform(0.1, 3.0)
        base = rng.dirichlet(np.ones(5))
        tilt = base * np.exp(rng.uniform(0.0, eta, 5))
        other = tilt / tilt.sum()
        pair = np.outer(base, base).ravel(), np.outer(other, other).ravel()
        for epsilon in (0.0, 0.2, 0.8):
            one = np.maximum(other - math.exp(epsilon) * base, 0).sum()
            two = np.maximum(pair[1] - math.exp(epsilon) * pair[0], 0).sum()
            assert one <= bounded_range_delta(epsilon, eta) + 1e-15
            assert two <= bounded_range_delta(epsilon, eta, 2) + 1e-15


def test_renyi_divergence_of_two_point_pairs_is_within_eta_squared_over_eight():
    worst = 0.0
    for eta in (0.05, 0.5, 2.0, 6.0):
        for t in np.linspace(1e-3, 0.999, 60) * eta:
            p = two_point(eta, t)
            for alpha in (1.001, 1.5, 2.0, 5.0, 20.0):
                moment = p * math.exp((alpha - 1) * t) + (1 - p) * math.exp((alpha - 1) * (t - eta))
                divergence = math.log(moment) / (alpha - 1)
                worst = max(worst, divergence / (alpha * bounded_range_rho(eta)))
    assert 0.999 < worst <= 1.0 + 1e-9  # holds, and no smaller constant would


@pytest.mark.parametrize(("epsilon", "rho"), [(1.0, 0.02), (0.1, 1e-3), (5.0, 0.5), (0.0, 0.1)])
def test_zcdp_conversion_is_the_minimum_over_orders(epsilon, rho):
    alpha = 1.0 + np.logspace(-3, 5, 400_001)
    log_delta = (alpha - 1) * (alpha * rho - epsilon) + alpha * np.log1p(-1 / alpha)
    assert zcdp_delta(epsilon, rho) == pytest.approx(
        np.exp((log_delta - np.log(alpha - 1)).min()), rel=1e-6
    )


def test_zcdp_conversion_is_tighter_than_the_loose_one():
    epsilon, delta = 1.0, 1e-5
    log_term = math.log(1 / delta)
    loose = (math.sqrt(log_term + epsilon) - math.sqrt(log_term)) ** 2
    assert zcdp_delta(epsilon, 1.15 * loose) < delta


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("k", [1, 2, 10, 300])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-6), (1.0, 1e-5), (8.0, 1e-12), (1, 0.1)])
def test_inverses_end_on_the_private_side(adaptive, k, epsilon, delta):
    eta = bounded_range_eta(epsilon, delta, k, adaptive=adaptive)
    assert eta >= epsilon / k
    assert bounded_range_delta(epsilon, eta, k, adaptive=adaptive) <= delta
    assert bounded_range_delta(epsilon, eta * (1 + 1e-6), k, adaptive=adaptive) > delta
    back = bounded_range_epsilon(eta, delta, k, adaptive=adaptive)
    assert back == pytest.approx(epsilon, rel=1e-6)
    assert bounded_range_delta(back, eta, k, adaptive=adaptive) <= delta


def test_pure_composition_is_exact():
    for k in (1, 3, 7, 10, 49):
        eta = bounded_range_eta(0.7, 0.0, k)
        assert k * eta <= 0.7
        assert eta == pytest.approx(0.7 / k, rel=1e-15)
        assert bounded_range_epsilon(eta, 0.0, k) <= 0.7
        assert bounded_range_delta(0.7, eta, k) == 0.0


def test_profiles_are_monotone():
    for k in (1, 5, 60):
        over_epsilon = [bounded_range_delta(e, 0.3, k) for e in np.linspace(0, 3, 40)]
        over_eta = [bounded_range_delta(0.5, e, k) for e in np.linspace(0, 3, 40)]
        assert np.all(np.diff(over_epsilon) <= 1e-15)
        assert np.all(np.diff(over_eta) >= -1e-15)
    over_draws = [bounded_range_delta(0.5, 0.1, k) for k in range(1, 60)]
    assert np.all(np.diff(over_draws) >= 0)


def test_optimal_composition_is_never_worse_than_zcdp_and_half_of_it_is_caught():
    for k in (2, 10, 100):
        for epsilon in (0.1, 1.0):
            optimal = bounded_range_delta(epsilon, 0.15, k)
            assert optimal <= bounded_range_delta(epsilon, 0.15, k, adaptive=True)
            if epsilon < 0.15 * k:
                assert worst_two_point_delta(epsilon, 0.15, k) > optimal / 2


def test_extreme_arguments():
    assert bounded_range_delta(0.0, 0.0) == 0.0
    assert bounded_range_delta(1.0, math.inf) == 1.0
    assert bounded_range_eta(math.inf, 1e-5) == math.inf
    assert bounded_range_epsilon(math.inf, 1e-5) == math.inf
    assert 0.0 < bounded_range_delta(900.0, 1000.0, 3) <= 1.0
    assert 0.0 < bounded_range_epsilon(0.1, 1e-280, 400) <= 40.0
    assert bounded_range_eta(1.0, 1e-5, 50_000) == bounded_range_eta(
        1.0, 1e-5, 50_000, adaptive=True
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounded_range_delta(-1.0, 1.0), "epsilon must be >= 0"),
        (lambda: bounded_range_delta(1.0, math.nan), "eta must be >= 0"),
        (lambda: bounded_range_eta(1.0, 1.0), r"delta must be in \[0, 1\)"),
        (lambda: bounded_range_eta(1.0, 0.0, 0), "n_draws must be an integer >= 1"),
        (lambda: bounded_range_eta(1.0, 0.0, 1.5), "n_draws must be an integer >= 1"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
