"""Objective perturbation attacked: exact laws on data that an optimizer makes as bad as it can.

The minimizer's density is the noise's at b(theta) times a determinant; the rest of the data are
weighted records and a constant pull, the limit of many tiny records.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, ndtr, softmax

from skdpbayes.estimators.objective import plan as planning
from skdpbayes.privacy import ObjectivePerturbation
from skdpbayes.privacy.mechanisms import _travel
from skdpbayes.randomness import release_grid


def _hockey_stick(epsilons, distances):
    """Profile of two unit normals at any real epsilons, with a distance for each."""
    distances = np.maximum(distances, 1e-9)
    ratio = epsilons / distances
    return ndtr(0.5 * distances - ratio) - np.exp(epsilons) * ndtr(-0.5 * distances - ratio)


def _worst(attack, starts, evaluations):
    """Largest value of `attack` found by a simplex search from the best of `starts`."""
    values = [attack(start) for start in starts]
    start = starts[int(np.argmax(values))]
    found = minimize(
        lambda data: -math.log(max(attack(data), 1e-300)),
        start,
        method="Nelder-Mead",
        options={"maxfev": evaluations},
    )
    return max(*values, math.exp(-found.fun))


# ------------------------------------------------------------ one dimension, a record deleted


def _line(sigma, penalty, pull, rest, count):
    """Points along the line, and tilt and curvature there without the record."""
    tilt = np.linspace(-10.0, 10.0, 4001) * sigma
    low, high = np.full_like(tilt, -1e6), np.full_like(tilt, 1e6)
    for _ in range(70):
        theta = 0.5 * (low + high)
        rises = penalty * theta - pull - count * rest * expit(-rest * theta) + tilt > 0.0
        low, high = np.where(rises, low, theta), np.where(rises, theta, high)
    slope = penalty * theta - pull - count * rest * expit(-rest * theta)
    s = expit(-rest * theta)
    return theta, slope, penalty + count * rest**2 * s * (1.0 - s)


def _deleted_and_added(epsilon, mu, curvature, data, information_mu=0.0):
    """Delta of both directions for the record 1.

    Without the information it is a sum over cells of theta, which no choice of cells can make too
    large; with it the noise of the information is integrated in closed form at every theta.
    """
    pull, rest, log_count = data[0] / mu, math.tanh(data[1]), min(data[2], 12.0)
    theta, without, bend = _line(1.0 / mu, 1.0 / curvature, pull, rest, math.exp(log_count))
    s = expit(-theta)
    with_record = without - s
    if information_mu == 0.0:
        ones, others = np.diff(ndtr(-mu * with_record)), np.diff(ndtr(-mu * without))
        pairs = (ones, others), (others, ones)
        return max(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for p, q in pairs)
    x = s * (1.0 - s)
    loss = 0.5 * mu**2 * (without**2 - with_record**2) + np.log1p(x / bend)
    density = np.exp(-0.5 * (mu * without) ** 2) / math.sqrt(2.0 * math.pi)
    distance = 4.0 * information_mu * x
    deleted = density * np.exp(loss) * _hockey_stick(epsilon - loss, distance)
    added = density * _hockey_stick(epsilon + loss, distance)
    return max(np.trapezoid(each, -mu * without) for each in (deleted, added))


STARTS = [(pull, -0.2, -8.0) for pull in np.linspace(-6.0, 6.0, 13)] + [(0.0, -1.0, 9.0)]


@pytest.mark.parametrize(
    ("epsilon", "mu", "curvature", "reached"),
    [
        (0.8, 0.23, 0.3, 0.99),  # above the threshold
        (1.4, 0.54, 5.6, 0.9),  # far below it
        (0.9, 0.23, 3.8, 0.8),
        (0.8, 0.74, 1.0, 0.99),
    ],
)
def test_no_data_beat_the_profile_of_a_deletion(epsilon, mu, curvature, reached):
    claim = ObjectivePerturbation(1.0 / mu, curvature, "zero_out").delta_at(epsilon)
    truth = _worst(lambda data: _deleted_and_added(epsilon, mu, curvature, data), STARTS, 50)
    assert reached * claim < truth <= claim * (1.0 + 1e-12)
    half = _worst(lambda data: _deleted_and_added(epsilon, 2 * mu, curvature, data), STARTS, 0)
    assert half > 1.5 * claim


@pytest.mark.parametrize(
    ("epsilon", "mu", "curvature", "information_mu", "reached", "half_tells"),
    [
        (1.5, 0.4, 0.13, 0.04, 0.99, False),  # the information is free
        (0.6, 0.3, 0.6, 0.09, 0.9, False),
        (1.0, 0.5, 2.0, 0.25, 0.5, True),
        (1.62, 0.43, 9.3, 0.37, 0.3, True),  # both, far below the threshold
        (1.0, 0.3, 0.5, 0.3, 0.1, True),  # a record that moves both most is charged, none can
    ],
)
def test_no_data_beat_the_joint_profile_with_the_information(
    epsilon, mu, curvature, information_mu, reached, half_tells
):
    event = ObjectivePerturbation(1.0 / mu, curvature, "zero_out", information_mu=information_mu)
    claim = event.delta_at(epsilon)

    def attack(scale, information):
        return lambda data: _deleted_and_added(
            epsilon, scale * mu, curvature, data, information * information_mu
        )

    # where many records hold the logit, at a residual of 1/2 or more, the information tells
    held = [(-s * mu * math.exp(8.0), 10.0, 8.0) for s in (0.5, 0.7, 0.9)]
    truth = _worst(attack(1.0, 1.0), STARTS + held, 50)
    assert reached * claim < truth <= claim * (1.0 + 1e-5)  # the trapezoid rule's error is below
    assert _worst(attack(2.0, 1.0), STARTS, 0) > 1.5 * claim
    if half_tells:
        assert _worst(attack(1.0, 2.0), STARTS + held, 50) > claim


# ------------------------------------------------------------------ two dimensions, one replaced


def _replaced(epsilon, mu, curvature, data, information_mu=0.0, nodes=401):
    """Delta of exchanging one unit record for another in the plane, by quadrature over the tilt.

    The records differ along the first axis, where the integrand has its kinks.
    """
    penalty, pull = 1.0 / curvature, np.array(data[2:4]) / mu
    records = np.array(
        [[math.cos(data[0]), math.sin(data[0])], [-math.cos(data[1]), math.sin(data[1])]]
    )
    axes = [np.linspace(-8.0, 8.0, n) / mu for n in (nodes, 31)]
    tilt = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)

    def derivatives(theta, record):
        s = expit(-theta @ record)
        slope = penalty * theta - pull - s[:, None] * record
        hessian = penalty * np.eye(2) + (s * (1 - s))[:, None, None] * np.outer(record, record)
        return slope, hessian, s * (1 - s)

    theta = (pull - tilt) / penalty
    for _ in range(60):  # with bounded steps: Newton's overshoot where the record is saturated
        slope, hessian, _ = derivatives(theta, records[1])
        step = np.linalg.solve(hessian, (slope + tilt)[:, :, None])[:, :, 0]
        length = np.linalg.norm(step, axis=1)
        theta = theta - step / np.maximum(1.0, length)[:, None]
        if length.max() < 1e-9:
            break
    assert length.max() < 1e-6
    (one, one_hessian, x), (other, other_hessian, other_x) = (
        derivatives(theta, record) for record in records
    )
    loss = 0.5 * mu**2 * ((other**2).sum(axis=1) - (one**2).sum(axis=1))
    loss += np.linalg.slogdet(one_hessian)[1] - np.linalg.slogdet(other_hessian)[1]
    density = mu**2 * np.exp(-0.5 * mu**2 * (other**2).sum(axis=1)) / (2.0 * math.pi)
    cosine = float(records[0] @ records[1])
    apart = np.sqrt(np.maximum(x**2 + other_x**2 - 2.0 * x * other_x * cosine**2, 0.0))
    gain = _hockey_stick(epsilon - loss, 4.0 * information_mu * apart)
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    return float((density * np.exp(loss) * gain).sum() * cell)


@pytest.mark.parametrize(
    ("epsilon", "mu", "curvature", "information_mu", "reached"),
    [(3.5, 0.71, 0.34, 0.0, 0.97), (5.3, 0.84, 4.8, 0.0, 0.97), (4.4, 0.57, 2.3, 0.06, 0.9)],
)
def test_no_data_beat_the_profile_of_a_replacement(epsilon, mu, curvature, information_mu, reached):
    event = ObjectivePerturbation(1.0 / mu, curvature, "replace_one", 0.0, 2, information_mu)
    claim = event.delta_at(epsilon)
    starts = [(0.05, 0.05, push, -pull) for push in (-3.0, 0.0) for pull in (60.0, 500.0)]
    starts += [(0.1, 0.1, 0.0, -5.0), (0.0, 0.0, 3.0, 0.0)]

    def attack(data):
        return _replaced(epsilon, mu, curvature, data, information_mu)

    truth = _worst(attack, starts, 25)
    assert reached * claim < truth <= claim * (1.0 + 1e-3)  # the quadrature's error
    assert _replaced(epsilon, 2.0 * mu, curvature, starts[1], information_mu) > 1.5 * claim


# --------------------------------------------------------------------------------- three classes


def _softmax_deleted(epsilon, mu, curvature, pull, nodes=101):
    """Delta of deleting a record of three classes, one feature: the plane where logits add to 0."""
    sigma, penalty = math.sqrt(2.0) / mu, 1.0 / curvature
    plane = np.linalg.qr(np.array([[1.0, 0.0], [-0.5, 1.0], [-0.5, -1.0]]))[0]
    axis = np.linspace(-8.0, 8.0, nodes) * sigma
    tilt = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = (np.array(pull) * sigma - tilt) / penalty  # the minimizer without the record
    p = softmax(theta @ plane.T, axis=1)
    gradient = (p - np.eye(3)[0]) @ plane
    hessian = np.einsum("ia,ni,ib->nab", plane, p, plane)
    mean = p @ plane
    hessian -= mean[:, :, None] * mean[:, None, :]
    loss = ((tilt**2).sum(axis=1) - ((tilt - gradient) ** 2).sum(axis=1)) / (2.0 * sigma**2)
    loss += np.linalg.slogdet(np.eye(2) + hessian / penalty)[1]
    density = np.exp(-0.5 * (tilt**2).sum(axis=1) / sigma**2) / (2.0 * math.pi * sigma**2)
    deleted = density * np.maximum(np.exp(loss) - math.exp(epsilon), 0.0)
    added = density * np.maximum(1.0 - math.exp(epsilon) * np.exp(loss), 0.0)
    return max(deleted.sum(), added.sum()) * (axis[1] - axis[0]) ** 2


@pytest.mark.parametrize(("epsilon", "mu", "curvature"), [(1.0, 0.4, 0.2), (2.0, 0.8, 1.0)])
def test_no_data_beat_the_softmax_profile(epsilon, mu, curvature):
    claim = ObjectivePerturbation(1.0 / mu, curvature, "zero_out", n_classes=3).delta_at(epsilon)
    angles = np.linspace(0.0, 2.0 * math.pi, 12, endpoint=False)
    starts = [
        (length * math.cos(angle), length * math.sin(angle))
        for length in (2.0, 200.0)
        for angle in angles
    ]
    truth = _worst(lambda pull: _softmax_deleted(epsilon, mu, curvature, pull), starts, 30)
    assert 0.15 * claim < truth <= claim  # the union bound alone is a factor of 2
    half = _worst(lambda pull: _softmax_deleted(epsilon, 2.0 * mu, curvature, pull), starts, 0)
    assert half > claim


# ------------------------------------------------------------------------ what the proofs rely on


@pytest.mark.parametrize(
    ("epsilon", "mu", "curvature", "bonus"),
    [(7.867, 0.436, 0.115, 6.119), (1.352, 0.412, 0.275, 0.636), (1.0, 0.3, 1.0, 0.1)],
)
def test_no_level_gains_more_than_its_cell_says(epsilon, mu, curvature, bonus):
    """The largest f of a level, integrated over a cell, by brute force over y."""
    setting = np.array([epsilon]), mu, curvature, np.array([bonus])
    levels = _travel._Levels(_travel._REFINED, *setting)
    bounds, c = levels.best(setting[0])[0], mu / curvature
    start, width = _travel._REFINED[:-1, None], np.diff(_travel._REFINED)[:, None]
    v = start + width * (np.arange(8) + 0.5) / 8.0
    s = expit(-v)
    x, m = s * (1.0 - s), mu * s
    w, gain = np.exp(4.0 * bonus * x), (1.0 + curvature * x) * np.exp(4.0 * bonus * x)
    edge = (epsilon - 4.0 * bonus * x) / m + 0.5 * m

    def density(y):
        return np.exp(-0.5 * y * y) / math.sqrt(2.0 * math.pi)

    resting = 4.0 * bonus * x * (2.0 * s - 1.0) * w * ndtr(m - edge) - mu * x * w * density(
        edge - m
    )
    first = (epsilon - np.log(gain)) / m + 0.5 * m
    y = first + (edge - first) * np.linspace(0.0, 1.0, 201)[:, None, None]
    moving = np.maximum(gain * density(y - m) - math.exp(epsilon) * density(y), 0.0).max(axis=0)
    largest = np.maximum(c * moving + resting, 0.0).mean(axis=1) * width[:, 0]
    assert np.all(largest <= bounds * (1.0 + 1e-9) + 1e-15 * largest.max())
    assert largest.sum() > 0.9 * bounds.sum()


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_a_profile_claims_nothing_beyond_its_last_node(adjacency):
    event = ObjectivePerturbation(0.02, 0.5, adjacency)  # the loss is about 1250, or 5000
    epsilons = np.array([0.0, 1.0, 299.0, 400.0, 650.0, 700.0])
    assert np.all(event._profile(epsilons) > 0.999)


@pytest.mark.parametrize(("epsilon", "curvature"), [(0.05, 0.19), (1.0, 0.1)])
def test_snapping_the_information_to_its_grid_is_always_hidden(epsilon, curvature):
    problem = planning.Problem(10_000, 300, 2, 1.0, epsilon, 1e-6, "zero_out")
    plan = planning.make_plan(
        problem, C=curvature, mechanism="objective", calibration="tight", inference_budget=0.1
    )
    event = plan.event
    steps = release_grid(plan.information_scale) * math.sqrt(300 * 301 / 2) / plan.information_scale
    if event.information_mu > 0.0:  # a part of the noise is set aside, and a part of the price
        room = math.sqrt(planning.ROUNDING_SHARE) * event.side_mu * planning.HIDING_NOISE
        assert 2.0 * steps + problem.information_rounding / plan.information_scale <= room
    else:
        room = event.side_mu * math.sqrt(0.1 / (planning.OUTPUT_SHARE + 0.1))
        assert steps + problem.information_norm / plan.information_scale <= room * (1.0 + 1e-12)
    assert event.delta_at(epsilon) <= 1e-6
