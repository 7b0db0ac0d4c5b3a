"""The Langevin schedule against chains whose law is known exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdpbayes.papers import approximation_delta, lmc_schedule, lmc_total_variation


def gaussian_total_variation(first, second):
    """Distance between centered normals with the two standard deviations."""
    if first == second:
        return 0.0
    low, high = sorted((first, second))
    cross = math.sqrt(2 * math.log(high / low) / (low**-2 - high**-2))
    return 2 * (norm.cdf(cross / low) - norm.cdf(cross / high))


def chain_variance(step, n_steps, curvature, start):
    contraction = (1 - step * curvature) ** 2
    limit = 2 * step / (1 - contraction)
    return limit + contraction**n_steps * (start - limit)


@pytest.mark.parametrize("curvature", [1.0, 2.5, 4.0])
@pytest.mark.parametrize(("step", "n_steps"), [(0.2, 1), (0.05, 40), (0.01, 300), (0.001, 5000)])
def test_bound_covers_normal_targets(curvature, step, n_steps):
    start = 0.25  # variance 1 / smoothness
    exact = gaussian_total_variation(
        math.sqrt(chain_variance(step, n_steps, curvature, start)), curvature**-0.5
    )
    bound = lmc_total_variation(step, n_steps, dimension=1, strong_convexity=1.0, smoothness=4.0)
    assert exact <= bound


@pytest.mark.parametrize("rule", ["tight", "dalalyan2017"])
@pytest.mark.parametrize("tv", [0.5, 0.05, 1e-3])
@pytest.mark.parametrize(("p", "m", "big"), [(1, 1.0, 1.0), (1, 1.0, 4.0), (30, 0.1, 25.0)])
def test_schedules_reach_the_distance(rule, tv, p, m, big):
    schedule = lmc_schedule(tv, dimension=p, strong_convexity=m, smoothness=big, rule=rule)
    reached = lmc_total_variation(
        schedule.step_size, schedule.n_steps, dimension=p, strong_convexity=m, smoothness=big
    )
    assert reached == schedule.total_variation <= tv
    assert schedule.initial_scale == big**-0.5
    if rule == "tight":
        published = lmc_schedule(
            tv, dimension=p, strong_convexity=m, smoothness=big, rule="dalalyan2017"
        )
        assert schedule.n_steps < published.n_steps
        fewer = lmc_total_variation(
            2 * schedule.step_size if 2 * schedule.step_size * big <= 1 else 1 / big,
            max(1, schedule.n_steps // 4),
            dimension=p,
            strong_convexity=m,
            smoothness=big,
        )
        assert fewer > tv


def test_published_corollary():
    tv, p, m, big = 0.01, 5, 1.0, 10.0
    schedule = lmc_schedule(
        tv, dimension=p, strong_convexity=m, smoothness=big, rule="dalalyan2017"
    )
    time = (4 * math.log(100) + 5 * math.log(10)) / 2
    assert schedule.step_size == pytest.approx(tv**2 / (100 * time * 5))
    assert schedule.n_steps == math.ceil(time / schedule.step_size)
    # the published second term, with alpha = 1, is not below ours
    published = 0.5 * math.exp(p / 4 * math.log(big / m) - time * m / 2) + math.sqrt(
        p * big**2 * time * schedule.step_size / 4
    )
    assert schedule.total_variation <= published <= tv * (1 + 1e-12)


def test_approximation_delta():
    assert approximation_delta(1.0, 1e-6) == pytest.approx((1 + math.e) * 1e-6)
    assert approximation_delta(0.0, 0.01) == pytest.approx(0.02)
    assert approximation_delta(1000.0, 0.1) == 1.0
    assert approximation_delta(math.inf, 0.0) == 0.0


def test_approximation_delta_is_attained():
    """A pair with ratio e everywhere, each law moved by the same distance the wrong way."""
    epsilon, tv = 1.0, 1e-3
    q = np.array([1 / (1 + math.e), math.e / (1 + math.e)])
    p = q[::-1]
    move = np.array([tv, -tv])
    delta = np.maximum((p + move) - math.exp(epsilon) * (q - move), 0).sum()
    assert delta == pytest.approx(approximation_delta(epsilon, tv), rel=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_variation": 1.0}, "total_variation must be in"),
        ({"dimension": 0}, "dimension must be an integer >= 1"),
        ({"smoothness": 0.5}, "smoothness must be >= strong_convexity"),
        ({"strong_convexity": 0.0}, "strong_convexity must be > 0"),
        ({"rule": "fast"}, "rule must be"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"total_variation": 0.1, "dimension": 2, "strong_convexity": 1.0, "smoothness": 2.0}
    arguments |= change
    with pytest.raises(ValueError, match=message):
        lmc_schedule(**arguments)


def test_steps_beyond_the_smoothness_are_refused():
    with pytest.raises(ValueError, match="step_size must be <= 1 / smoothness"):
        lmc_total_variation(0.6, 10, dimension=1, strong_convexity=1.0, smoothness=2.0)
