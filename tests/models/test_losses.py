"""Losses: derivatives against finite differences, facts against searches and closed forms."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from skdpbayes import privacy
from skdpbayes.models.losses import (
    NOTHING,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    PoissonLoss,
    SmoothHingeLoss,
    SoftmaxLoss,
    SquaredLoss,
)

CODES = [LogisticLoss(), LogisticLoss(1.5), HingeLoss(), SmoothHingeLoss(0.7), SmoothHingeLoss(3.0)]
NUMBERS = [SquaredLoss(), HuberLoss(0.6), HuberLoss(1.4)]
COUNTS = [PoissonLoss(5.0), PoissonLoss(0.5)]
ONE_OUTPUT = [*CODES, *NUMBERS, *COUNTS]
SOFTMAX = [SoftmaxLoss(3), SoftmaxLoss(5)]


def targets(loss):
    if loss in CODES:
        return np.array([0, 1])
    if loss in NUMBERS:
        return np.linspace(-1.0, 1.0, 9)
    if loss in COUNTS:
        return np.linspace(0.0, loss.cap, 9)
    return np.arange(loss.n_outputs)


def evaluate(loss, z, target):
    """Value, derivative and packed second derivative of rows of logits."""
    z = np.array(z, dtype=np.float64).reshape(len(target), -1)
    k = loss.n_outputs
    value = np.empty((len(target), z.shape[1] // k))
    second = np.empty((len(target), z.shape[1] // k * (k * (k + 1) // 2)))
    loss.pointwise(z, np.asarray(target), value, second)
    return value, z, second


@pytest.mark.parametrize("loss", ONE_OUTPUT, ids=repr)
def test_derivatives_are_those_of_the_value(loss):
    rng = np.random.default_rng(0)
    for target in targets(loss):
        z = rng.uniform(-4.0, 4.0, 200)
        at = np.full(200, target)
        value, slope, second = evaluate(loss, z, at)
        step = 1e-5
        up, slope_up, _ = evaluate(loss, z + step, at)
        down, slope_down, second_down = evaluate(loss, z - step, at)
        assert np.allclose((up - down) / (2.0 * step), slope, atol=1e-4)
        smooth = np.abs(second - second_down) < 1e-3  # no kink between
        assert smooth.mean() > 0.9
        difference = (slope_up - slope_down) / (2.0 * step)
        assert np.allclose(difference[smooth], second[smooth], atol=1e-3)
        assert np.all(value[:, 0] <= loss.at_zero + loss.slope_within(4.0) * np.abs(z) + 1e-12)


@pytest.mark.parametrize("loss", SOFTMAX, ids=repr)
def test_softmax_derivatives_and_packed_curvature(loss):
    rng = np.random.default_rng(1)
    k = loss.n_outputs
    for target in range(k):
        z = 2.0 * rng.standard_normal((50, k))
        at = np.full(50, target)
        _, slope, second = evaluate(loss, z, at)
        pairs = [(j, i) for j in range(k) for i in range(j + 1)]
        for j in range(k):
            move = np.zeros(k)
            move[j] = 1e-5
            up, slope_up, _ = evaluate(loss, z + move, at)
            down, slope_down, _ = evaluate(loss, z - move, at)
            assert np.allclose((up - down)[:, 0] / 2e-5, slope[:, j], atol=1e-8)
            for i in range(j + 1):
                sign = 1.0 if i == j else -1.0
                difference = (slope_up - slope_down)[:, i] / 2e-5
                assert np.allclose(difference, sign * second[:, pairs.index((j, i))], atol=1e-8)


def test_values_and_slopes_have_no_cancellation_and_no_overflow():
    z = np.array([-745.0, -40.0, -1.0, 0.0, 1.0, 40.0, 745.0, 1e100])
    for code in (0, 1):
        value, slope, second = evaluate(LogisticLoss(), z, np.full(z.size, code))
        for i in range(z.size - 1):
            t = mpmath.mpf(z[i]) * (1 if code else -1)
            exact = 1 / (1 + mpmath.exp(t))
            assert abs(abs(slope[i, 0]) / exact - 1) < 1e-15 or abs(slope[i, 0]) < 1e-300
            assert abs(value[i, 0] - mpmath.log1p(mpmath.exp(-t))) < 2.5e-16 * max(1, abs(z[i]))
        assert np.isfinite(value).all()
        assert np.isfinite(slope).all()
        assert np.isfinite(second).all()
    value, slope, second = evaluate(SoftmaxLoss(3), [[1e100, -1e100, 0.0]], [1])
    assert np.isfinite(value).all()
    assert slope[0].tolist() == [1.0, -1.0, 0.0]
    assert np.all(second == 0.0)


@pytest.mark.parametrize("loss", [*ONE_OUTPUT, *SOFTMAX], ids=repr)
def test_several_points_are_evaluated_as_if_alone(loss):
    rng = np.random.default_rng(2)
    k = loss.n_outputs
    target = rng.choice(targets(loss), 40)
    z = 2.0 * rng.standard_normal((40, 3, k))
    value, slope, second = evaluate(loss, z.reshape(40, -1), target)
    for point in range(3):
        one = evaluate(loss, z[:, point], target)
        assert np.array_equal(one[0][:, 0], value[:, point])
        assert np.array_equal(one[1], slope.reshape(40, 3, k)[:, point])
        assert np.array_equal(one[2], second.reshape(40, 3, -1)[:, point])
    bare = z.reshape(40, -1).copy()
    loss.pointwise(bare, target, NOTHING, NOTHING)
    assert np.array_equal(bare, slope)


@pytest.mark.parametrize("loss", ONE_OUTPUT, ids=repr)
@pytest.mark.parametrize("largest", [0.3, 1.0, 2.5])
def test_facts_bound_a_search_and_are_attained(loss, largest):
    z = np.linspace(-largest, largest, 2001)
    slopes, ranges, seconds = [], [], []
    for target in targets(loss):
        value, slope, second = evaluate(loss, z, np.full(z.size, target))
        slopes.append(np.abs(slope).max())
        ranges.append(value.max() - value.min())
        seconds += [second.min(), second.max()]
    assert max(slopes) <= loss.slope_within(largest) <= loss.slope
    assert max(slopes) >= loss.slope_within(largest) * (1.0 - 1e-9)
    assert max(ranges) <= loss.range(largest) * (1.0 + 1e-13)
    assert max(ranges) >= loss.range(largest) * (1.0 - 1e-9)
    assert loss.least_curvature(largest) <= min(seconds)
    assert max(seconds) <= loss.curvature[1]
    assert loss.steepest(largest) == loss.slope_within(largest)
    assert loss.gap(largest) <= 2.0 * loss.slope_within(largest)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_softmax_facts_bound_a_search(n_classes):
    loss, rng = SoftmaxLoss(n_classes), np.random.default_rng(3)
    z = rng.standard_normal((20_000, n_classes))
    z *= 2.0 / np.linalg.norm(z, axis=1)[:, None]
    value, slope, _ = evaluate(loss, z, np.zeros(20_000, dtype=np.int64))
    assert np.ptp(value) <= loss.range(2.0)
    assert np.ptp(value) >= 0.8 * loss.range(2.0)
    assert np.linalg.norm(slope, axis=1).max() <= loss.steepest(2.0) < loss.slope
    assert np.linalg.norm(slope, axis=1).max() >= 0.8 * loss.steepest(2.0)
    half = np.zeros(n_classes)
    half[2:] = -800.0
    _, _, second = evaluate(loss, half[None], [0])
    block = np.array([[second[0, 0], -second[0, 1]], [-second[0, 1], second[0, 2]]])
    assert math.isclose(np.linalg.eigvalsh(block)[-1], loss.curvature[1])


@pytest.mark.parametrize("largest", [0.0, 0.5, 2.0, 20.0])
def test_facts_agree_with_the_sensitivities_of_the_privacy_room(largest):
    norm = max(largest, 1e-9)
    logistic, hinge = LogisticLoss(), HingeLoss()
    for loss, name in ((logistic, "logistic"), (hinge, "hinge"), (SoftmaxLoss(4), "softmax")):
        for adjacency, fact in (("zero_out", loss.steepest), ("replace_one", loss.gap)):
            known = privacy.gradient_sensitivity(name, 1.0, adjacency, coef_norm=norm, n_classes=4)
            assert math.isclose(fact(norm), known, rel_tol=1e-12)


def test_least_curvature_is_attained():
    for loss in (LogisticLoss(), LogisticLoss(1.5)):
        second = evaluate(loss, np.array([-2.0, 2.0]), np.zeros(2))[2]
        assert math.isclose(second.min(), loss.least_curvature(2.0), rel_tol=1e-13)


@pytest.mark.parametrize("width", [0.01, 0.5, 3.0])
def test_a_smoothed_loss_lies_below_by_at_most_half_the_width(width):
    z = np.linspace(-6.0, 6.0, 4001)
    smooth = HingeLoss().smoothed(width)
    exact, below = (evaluate(loss, z, np.ones(z.size))[0] for loss in (HingeLoss(), smooth))
    assert (exact - below).min() >= 0.0
    assert (exact - below).max() == pytest.approx(0.5 * width)
    assert math.isfinite(smooth.curvature[1])
    for loss in (LogisticLoss(), SoftmaxLoss(3), smooth):
        assert loss.smoothed(width) is loss


def test_means():
    z = np.array([[-1.0, 0.0, 3.0]])
    assert np.allclose(LogisticLoss().mean(z), 1.0 / (1.0 + np.exp(-z)))
    assert np.allclose(SoftmaxLoss(3).mean(z).sum(axis=1), 1.0)
    assert np.allclose(PoissonLoss(5.0).mean(z), np.minimum(np.exp(z), 5.0))
    for loss in (SquaredLoss(), HuberLoss(1.0), HingeLoss(), SmoothHingeLoss(0.5)):
        assert np.array_equal(loss.mean(z), z)
