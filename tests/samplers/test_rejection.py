from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from skdpbayes.samplers.rejection import envelope_gap, keep_proposals, log_expected_tries


def potential(theta, slope):
    """A strongly convex potential with curvature at least 1."""
    return 0.5 * theta**2 + np.logaddexp(0, slope * theta)


@pytest.mark.parametrize(("slope", "center"), [(1.0, -0.4), (-8.0, 0.9), (3.0, 0.0)])
def test_draws_on_an_interval_follow_the_density(slope, center):
    """The center is not the mode: only the number of tries may suffer."""
    rng = np.random.default_rng(3)
    standard = rng.normal(size=40_000)
    points = center + standard
    gradient = center + slope / (1 + np.exp(-slope * center))
    gap = envelope_gap(np.array([center]), np.array([gradient]), 1.0)
    excess = np.where(
        np.abs(points) <= 1, potential(points, slope) - potential(center, slope), np.inf
    )
    keep = keep_proposals(excess, 0.5 * standard**2, gap, np.log(rng.random(standard.size)))
    draws = points[keep]
    grid = np.linspace(-1, 1, 4001)
    cdf = integrate.cumulative_simpson(np.exp(-potential(grid, slope)), x=grid, initial=0)
    law = lambda x: np.interp(x, grid, cdf / cdf[-1])  # noqa: E731
    assert stats.kstest(draws, law).pvalue > 1e-3
    assert stats.kstest(draws * 0.8, law).pvalue < 1e-6
    # the acceptance probability is never above 1: the envelope lies above the density
    inside = np.abs(points) <= 1
    assert np.all(0.5 * standard[inside] ** 2 - excess[inside] - gap <= 1e-12)


def test_the_gap_vanishes_at_a_mode_inside_and_on_the_sphere():
    assert envelope_gap(np.array([0.2, 0.1]), np.zeros(2), 1.0) == 0.0
    center = np.array([0.6, 0.8])
    assert envelope_gap(center, -3.0 * center, 1.0) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("strength", "rise"), [(1.0, 0.5), (2.0, 6.0), (0.3, 40.0)])
def test_public_bound_on_tries_is_above_the_truth(strength, rise):
    """In one dimension: a potential that rises by W, half a parabola, half a wedge."""
    wedge = rise - 0.5 * strength

    def U(theta):
        return 0.5 * strength * theta**2 + max(wedge, 0.0) * abs(theta)

    mass = integrate.quad(lambda t: np.exp(-U(t)), -1, 1, points=[0.0])[0]
    tries = np.sqrt(2 * np.pi / strength) / mass
    assert np.exp(log_expected_tries(1, strength, 1.0, U(1.0))) >= tries
