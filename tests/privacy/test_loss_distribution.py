"""Connecting the dots: above the profile, exact on the grid, convex where the bound is not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdpbayes.privacy import GaussianDP, PureDP, SubsampledGaussian
from skdpbayes.privacy.composition.loss_distribution import LossMasses, connect_dots


def profile_of(masses: LossMasses, epsilon: float) -> float:
    above = masses.losses > epsilon
    lost = masses.masses[above] @ -np.expm1(epsilon - masses.losses[above])
    return float(masses.infinite + lost)


@pytest.mark.parametrize("order", [0, 1])
def test_exact_on_the_grid_and_above_between(order: int) -> None:
    event = SubsampledGaussian(0.7, 0.2, "poisson", "zero_out")
    grid = np.linspace(0.0, 9.0, 181)
    pair = event._profile_pair(grid)
    masses = connect_dots(grid, pair[order], pair[1 - order])
    assert masses.masses.sum() + masses.infinite == pytest.approx(1.0, abs=1e-14)
    for i in (0, 1, 17, 60):
        assert profile_of(masses, float(grid[i])) == pytest.approx(pair[order][i], rel=1e-9)
        middle = float(grid[i]) + 0.025
        assert profile_of(masses, middle) >= event._profile_pair(np.array([middle]))[order][0]
    # the other order, through negative losses: H_{1/a}(P, Q) = 1 - 1/a + H_a(Q, P) / a
    for i in (1, 17, 60):
        epsilon = float(grid[i])
        reversed_profile = 1.0 + math.exp(epsilon) * (profile_of(masses, -epsilon) - 1.0)
        assert reversed_profile == pytest.approx(pair[1 - order][i], abs=1e-12)


def test_randomized_response_is_recovered_exactly() -> None:
    grid = 0.1 * np.arange(8)
    profile = PureDP(0.7)._profile(grid)
    masses = connect_dots(grid, profile, profile)
    expected = np.zeros(15)
    expected[[0, -1]] = 1 / (1 + math.exp(0.7)), 1 / (1 + math.exp(-0.7))
    np.testing.assert_allclose(masses.masses, expected, atol=1e-14)
    assert masses.infinite == 0.0


def test_a_bound_that_is_not_convex_gets_its_envelope() -> None:
    # the smaller of two valid bounds has a concave kink; the truth is below the chord across it
    grid = np.linspace(0.0, 3.0, 301)
    first, second = GaussianDP(0.5)._profile(grid), PureDP(0.8)._profile(grid)
    lower = np.minimum(first, second)
    masses = connect_dots(grid, lower, lower)
    assert masses.masses.min() >= 0.0
    assert masses.masses.sum() + masses.infinite == pytest.approx(1.0, abs=1e-9)
    values = np.array([profile_of(masses, float(e)) for e in grid])
    assert np.all(values <= lower + 1e-12)
    kink = int(np.argmax(second < first))
    assert values[kink] < lower[kink] * (1 - 1e-3)
    slopes = np.diff(values) / np.diff(np.exp(grid))
    assert np.all(np.diff(slopes) >= -1e-12)


def test_moments() -> None:
    masses = LossMasses(np.array([-1.0, 0.0, 2.0]), np.array([0.2, 0.0, 0.7]), 0.1)
    for tilt in (-1.0, 0.0, 3.0, 500.0):
        weights = np.array([math.log(0.2) - tilt, math.log(0.7) + 2 * tilt])
        expected = np.logaddexp(*weights)
        assert masses.log_moment(np.array([tilt]))[0] == pytest.approx(expected, rel=1e-14)
        share = math.exp(weights[1] - expected)
        assert masses.tilted_variance(tilt) == pytest.approx(9 * share * (1 - share), abs=1e-14)
