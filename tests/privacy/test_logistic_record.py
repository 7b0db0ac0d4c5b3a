"""One logistic record under objective perturbation: against densities, dynamic programs, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.privacy import ObjectivePerturbation, calibrate_objective, gdp_delta
from skdpbayes.privacy.mechanisms._logistic_record import LogisticRecord
from skdpbayes.privacy.mechanisms._travel import travel_deltas

SETTINGS = [  # epsilon, mu, curvature
    (1.0, 0.268, 1.5),
    (1.0, 0.26, 3.0),
    (1.0, 0.2, 6.0),
    (0.2, 0.05, 0.5),
    (0.2, 0.03, 0.7),
    (3.0, 1.0, 5.0),
    (8.0, 1.4, 200.0),
]


def _travel(epsilon, mu, curvature, bonus=0.0):
    return travel_deltas(np.array([epsilon]), mu, curvature, np.array([bonus]))[0]


def _best_lattice_path(epsilon, mu, curvature, bonus=0.0, levels=1200, steps=1000):
    """Dynamic program over y - c v and v: an attained value, up to quadrature where bonus > 0."""
    c = mu / curvature
    v = np.linspace(-13.0, 5.0, levels)

    def shift_and_log_weight(v):
        s = expit(-v)
        return mu * s, 4.0 * bonus * s * (1.0 - s)

    def rest(y, v):
        m, log_w = shift_and_log_weight(v)
        y = np.maximum(y, (epsilon - log_w) / m + 0.5 * m)
        return np.exp(log_w) * norm.sf(y - m) - math.exp(epsilon) * norm.sf(y)

    m, log_w = shift_and_log_weight(v)
    near = v <= 1.5
    x = m / mu * (1.0 - m / mu)
    starts = (epsilon - log_w - np.log1p(curvature * x)) / m + 0.5 * m - c * v
    ends = (epsilon - log_w) / m + 0.5 * m - c * v
    tau = np.linspace(starts[near].min() - 1.0, min(ends[near].max(), 40.0) + 1.0, steps)
    value = np.full(steps, -np.inf)
    for i, level in enumerate(v):
        left = rest(tau + c * level, level)  # what resting from here on would gain
        value = np.maximum(value + left, rest(np.array(-1e9), level))
        value = np.maximum.accumulate(value) - left
        if i + 1 < levels:
            value = value + _moved(epsilon, mu, curvature, bonus, tau, level, v[i + 1])
    return float((value + left).max())


def _moved(epsilon, mu, curvature, bonus, tau, start, end):
    """Positive variation between two levels: exact without a bonus, else Gauss-Legendre."""
    c = mu / curvature

    def at(v):
        s = expit(-v)
        return tau + c * v, mu * s, s * (1.0 - s)

    if bonus == 0.0:
        (y, m, _), (y_end, m_end, _) = at(start), at(end)
        with_record = norm.sf(y - m) - norm.sf(y_end - m_end)
        without = norm.sf(y) - norm.sf(y_end)
        return np.maximum(with_record - math.exp(epsilon) * without, 0.0)
    total = 0.0
    for node in (0.5 - 0.5 / math.sqrt(3.0), 0.5 + 0.5 / math.sqrt(3.0)):
        y, m, x = at(start + node * (end - start))
        density = np.exp(4.0 * bonus * x) * norm.pdf(y - m) * (1.0 + curvature * x)
        total = total + 0.5 * (density - math.exp(epsilon) * norm.pdf(y))
    return np.maximum(total * c * (end - start), 0.0)


@pytest.mark.parametrize(("epsilon", "mu", "curvature"), SETTINGS)
def test_bound_is_above_the_best_path_and_close_to_it(epsilon, mu, curvature):
    bound = _travel(epsilon, mu, curvature)
    best = _best_lattice_path(epsilon, mu, curvature)
    assert best <= bound <= 1.1 * best
    assert bound >= gdp_delta(epsilon, mu)


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize(
    ("epsilon", "mu", "curvature"), SETTINGS[:2] + SETTINGS[3:4] + SETTINGS[5:]
)
def test_bound_with_a_bonus(epsilon, mu, curvature, share):
    bonus = share * epsilon
    bound = _travel(epsilon, mu, curvature, bonus)
    best = _best_lattice_path(epsilon, mu, curvature, bonus)
    assert best * (1 - 1e-4) <= bound <= 1.35 * best


def test_random_admissible_paths_stay_below():
    """The logit moves by arbitrary shares of its largest slope, not only by all of it."""
    rng = np.random.default_rng(0)
    for epsilon, mu, curvature in SETTINGS:
        bound = _travel(epsilon, mu, curvature)
        y = np.linspace(-8.0, 14.0, 30_001)
        closest = 0.0
        for _ in range(60):
            pieces = rng.choice([0.0, 1.0, rng.random()], size=12)
            edges = np.sort(rng.uniform(1.0, 8.0, size=11))
            slope = pieces[np.searchsorted(edges, y)] * curvature / mu
            v = np.concatenate([[0.0], np.cumsum(np.diff(y) * slope[1:])])
            v = v - np.interp(rng.uniform(2.0, 6.0), y, v)
            gain = -norm.sf(y - mu * expit(-v)) + math.exp(epsilon) * norm.sf(y)
            delta = np.maximum(np.diff(gain), 0.0).sum()
            closest = max(closest, delta / bound)
            assert delta <= bound * (1 + 1e-9) + 1e-15
        assert closest > 0.05


def test_profile_is_gaussian_where_the_determinant_is_free():
    record = LogisticRecord(0.3, 0.5)
    for epsilon in (0.5, 0.7, 3.0):
        assert record.deleted(epsilon) == pytest.approx(gdp_delta(epsilon, 0.3), rel=1e-9)
        assert record.added(epsilon) == pytest.approx(gdp_delta(epsilon, 0.3), rel=1e-9)
    # theorem 5 also follows from the search itself, up to what happens before its first level
    assert _travel(0.6, 0.3, 0.5) == pytest.approx(gdp_delta(0.6, 0.3), rel=1e-4)


def _exact_joint_delta(epsilon, mu, curvature, information_mu, center, deleted):
    """Integrate the joint law of minimizer and noisy information over a grid.

    One dimension, rows of length 1 that only pull: the logit along y is center + slope y.
    """
    y = np.linspace(-9.0, 9.0 + mu, 1801)
    z = np.linspace(-7.0, 7.0 + information_mu, 561)
    v = (y - center) * curvature / mu
    s = expit(-v)
    x = s * (1.0 - s)
    with_record = norm.pdf(y - mu * s) * (1.0 + curvature * x)
    joint = with_record[:, None] * norm.pdf(z - 4.0 * information_mu * x[:, None])
    without = norm.pdf(y)[:, None] * norm.pdf(z)
    one, other = (joint, without) if deleted else (without, joint)
    total = np.trapezoid(np.trapezoid(joint, z, axis=1), y)
    assert total == pytest.approx(1.0, abs=1e-5)
    gap = np.maximum(one - math.exp(epsilon) * other, 0.0)
    return np.trapezoid(np.trapezoid(gap, z, axis=1), y)


@pytest.mark.slow
@pytest.mark.parametrize("information_mu", [0.1, 0.5])
@pytest.mark.parametrize(
    ("epsilon", "mu", "curvature"), [(0.5, 0.3, 0.2), (1.0, 0.5, 2.0), (0.3, 0.3, 0.5)]
)
def test_joint_law_with_the_information_stays_below(epsilon, mu, curvature, information_mu):
    record = LogisticRecord(mu, curvature, 0.0, information_mu)
    bounds = record.deleted(epsilon), record.added(epsilon)
    for deleted, bound in zip((True, False), bounds, strict=True):
        exact = max(
            _exact_joint_delta(epsilon, mu, curvature, information_mu, center, deleted)
            for center in np.append(np.linspace(-4.0, 8.0, 25), 200.0)
        )
        assert exact <= bound * (1 + 1e-6) + 1e-9
        if information_mu < 0.5 * mu:  # else the bound that charges every record alike is better
            assert bound <= 1.6 * exact


def test_information_is_free_where_the_gradient_is_largest():
    alone = calibrate_objective(1.0, 1e-5, curvature=0.3, adjacency="zero_out").noise_multiplier
    sides = {"side_share": 0.001, "information_share": 0.1}
    event = calibrate_objective(1.0, 1e-5, curvature=0.3, adjacency="zero_out", **sides)
    assert event.noise_multiplier <= 1.0015 * alone
    assert event.information_mu == pytest.approx(0.1**0.5 / alone, rel=2e-3)
    event = calibrate_objective(1.0, 1e-5, curvature=0.3, adjacency="replace_one", **sides)
    assert event.noise_multiplier <= 1.008 * 2.0 * alone
    assert event.information_mu == pytest.approx(0.05**0.5 / alone, rel=2e-2)
    softmax = calibrate_objective(
        1.0, 1e-5, curvature=0.3, adjacency="zero_out", n_classes=3, **sides
    )
    assert softmax.delta_at(1.0) <= 1e-5


@pytest.mark.parametrize(
    ("adjacency", "curvature", "before", "now"),
    [
        ("zero_out", 1.5, 3.8440, 3.733),
        ("zero_out", 3.0, 4.8908, 4.29),
        ("zero_out", 6.0, 20.1786, 11.9),
        ("replace_one", 1.0, 7.8496, 7.56),
        ("replace_one", 3.0, 12.6106, 11.17),
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
        deltas = [
            ObjectivePerturbation(5.0, 2.0, adjacency, *sides).delta_at(epsilon)
            for sides in ((), (1e-4,), (0.1,), (0.1, 2, 0.1))
        ]
        assert deltas[0] * (1 - 5e-3) <= deltas[1] <= 1.03 * deltas[0]
        assert deltas[1] < deltas[2] < deltas[3]
