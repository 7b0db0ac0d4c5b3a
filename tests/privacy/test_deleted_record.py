"""The exact profile of deleting a logistic record: against densities, finer grids, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.privacy import ObjectivePerturbation, calibrate_objective, gdp_delta
from skdpbayes.privacy.mechanisms._deleted_record import (
    deleted_profile,
    largest_excess,
    smoothed,
)

SETTINGS = [  # epsilon, mu, curvature
    (1.0, 0.268, 1.5),
    (1.0, 0.26, 3.0),
    (1.0, 0.2, 6.0),
    (0.2, 0.05, 0.5),
    (0.2, 0.03, 0.7),
    (1.0, 0.02, 10.0),
    (0.5, 2.0, 3.0),
]


def _density_pair(mu, curvature, center, v):
    """Densities with and without the record, if the rest of the data only pull at theta."""
    s = expit(curvature * (v - center))
    with_record = norm.pdf(v + s, scale=1 / mu) * (1 + curvature * s * (1 - s))
    return with_record, norm.pdf(v, scale=1 / mu)


@pytest.mark.parametrize(("epsilon", "mu", "curvature"), SETTINGS)
def test_no_pair_of_densities_exceeds_the_profile_and_some_come_close(epsilon, mu, curvature):
    v = np.linspace(-14 / mu - 1, 8 / mu, 60_001)
    worst = gdp_delta(epsilon, mu)  # the record is on the flat side of its loss throughout
    for center in np.linspace(-10 / mu, 3 / curvature, 160):
        one, other = _density_pair(mu, curvature, center, v)
        assert np.trapezoid(one, v) == pytest.approx(1.0, abs=1e-6)
        gap = np.maximum(one - math.exp(epsilon) * other, 0.0)
        worst = max(worst, np.trapezoid(gap, v))
    bound = deleted_profile(np.array([epsilon]), mu, curvature)[0]
    assert 0.9 * bound < worst <= bound


def test_random_admissible_slopes_stay_below():
    """S moves by arbitrary shares of its largest slope, not only by all of it."""
    rng = np.random.default_rng(0)
    for epsilon, mu, curvature in SETTINGS:
        bound = deleted_profile(np.array([epsilon]), mu, curvature)[0]
        v = np.linspace(-12 / mu, 8 / mu, 40_001)
        for _ in range(40):
            pieces = rng.choice([0.0, 1.0, rng.random()], size=30)
            edges = np.sort(rng.uniform(-6 / mu, 0.0, size=29))
            share = pieces[np.searchsorted(edges, v)]
            logit = np.concatenate([[0.0], np.cumsum(curvature * np.diff(v) * share[1:])])
            s = expit(logit - np.interp(rng.uniform(-6 / mu, 0.0), v, logit))
            cdf = norm.cdf(mu * (v + s)) - math.exp(epsilon) * norm.cdf(mu * v)
            assert np.maximum(np.diff(cdf), 0.0).sum() <= bound * (1 + 1e-9) + 1e-11


@pytest.mark.parametrize(("epsilon", "mu", "curvature"), SETTINGS)
def test_margin_covers_the_grid(epsilon, mu, curvature):
    at = np.array([epsilon])
    fine = gdp_delta(epsilon, mu) + largest_excess(at, mu, curvature, steps=960, cells=1500)[0]
    coarse = deleted_profile(at, mu, curvature)[0]
    assert fine <= coarse <= 1.08 * fine


def test_profile_is_gaussian_where_the_determinant_is_free():
    for epsilon in (0.5, 0.7, 3.0, -0.4, 0.0):
        bound = deleted_profile(np.array([epsilon]), 0.3, 0.5)[0]
        if epsilon >= 0.0:
            assert bound == pytest.approx(gdp_delta(epsilon, 0.3), rel=1e-9)
    # theorem 5 also follows from the control problem itself: nothing is gained below the curvature
    assert largest_excess(np.array([0.6]), 0.3, 0.5)[0] == 0.0


def test_smoothing_a_gaussian_profile_by_a_gaussian_gives_the_composed_one():
    nodes = np.linspace(-3.0, 4.0, 401)
    values = deleted_profile(nodes, 0.3, 1e-9)
    for epsilon in (0.2, 1.0, 2.0):
        both = smoothed(np.array([epsilon]), nodes, values, 0.2)[0]
        exact = gdp_delta(epsilon, math.hypot(0.3, 0.2))
        assert exact <= both <= 1.01 * exact


@pytest.mark.parametrize(
    ("adjacency", "curvature", "before", "now"),
    [
        ("zero_out", 1.5, 3.8440, 3.74),
        ("zero_out", 3.0, 4.8908, 4.29),
        ("zero_out", 6.0, 20.1786, 11.95),
        ("replace_one", 1.0, 7.8496, 7.56),
        ("replace_one", 3.0, 12.6106, 11.2),
    ],
)
def test_noise_is_less_than_by_the_pointwise_bound(adjacency, curvature, before, now):
    for share, factor in ((0.0, 1.0), (0.001, 1.003)):
        event = calibrate_objective(
            1.0, 1e-5, curvature=curvature, adjacency=adjacency, side_share=share
        )
        assert event.noise_multiplier <= now * factor < before
        assert event.delta_at(1.0) <= 1e-5


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_side_releases_only_add(adjacency):
    for epsilon in (0.3, 1.0, 2.0):
        alone = ObjectivePerturbation(5.0, 2.0, adjacency).delta_at(epsilon)
        slight = ObjectivePerturbation(5.0, 2.0, adjacency, side_mu=1e-4).delta_at(epsilon)
        more = ObjectivePerturbation(5.0, 2.0, adjacency, side_mu=0.1).delta_at(epsilon)
        assert alone * (1 - 1e-6) <= slight <= 1.02 * alone
        assert slight < more
