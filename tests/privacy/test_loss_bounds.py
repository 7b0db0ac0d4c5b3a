"""Gradient and curvature constants against searches over rows and coefficients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

from skdpbayes.privacy import (
    gradient_sensitivity,
    logistic_gradient_gap,
    softmax_gradient_norm,
)

GAPS = {
    0.1: 1.0012461167,
    0.5: 1.0291091704,
    1.0: 1.0990954771,
    2.0: 1.2698410898,
    5.0: 1.6172780890,
    10.0: 1.8208448689,
    20.0: 1.9273583500,
    100.0: 1.9933216673,
}


def test_gradient_gap_published_values():
    for norm, value in GAPS.items():
        assert logistic_gradient_gap(norm) == pytest.approx(value, abs=1.5e-10)
    assert logistic_gradient_gap(0.0) == pytest.approx(1.0, abs=2e-14)
    assert logistic_gradient_gap(math.inf) == 2.0
    assert logistic_gradient_gap(1e12) <= 2.0


@pytest.mark.parametrize("norm", [0.1, 1.0, 3.0, 10.0, 50.0])
def test_gradient_gap_is_the_largest_over_all_pairs_of_rows(norm):
    """Coefficients along one axis; z and w run over all gradients of rows in the unit disc.

    The distance of two sets is the maximum over directions of the sum of their support functions;
    reflecting the second row across the axis turns it into S(psi) + S(-psi).
    """
    angle = np.linspace(-np.pi, np.pi, 1441)
    radius = np.linspace(0.0, 1.0, 41)[:, None]
    size = radius * expit(norm * radius * np.sin(angle))
    points = np.stack([(size * np.cos(angle)).ravel(), (size * np.sin(angle)).ravel()])
    psi = np.linspace(-np.pi / 2, np.pi / 2, 181)
    support = (np.stack([np.cos(psi), np.sin(psi)], axis=1) @ points).max(axis=1)
    largest = (support + support[::-1]).max()
    assert largest <= logistic_gradient_gap(norm)
    assert largest == pytest.approx(logistic_gradient_gap(norm), rel=1e-4)


def test_gradient_gap_in_random_dimensions():
    rng = np.random.default_rng(3)
    for norm in (0.5, 2.0, 10.0):
        theta = np.array([norm, 0.0, 0.0])
        rows = rng.normal(size=(2, 20_000, 3))
        rows /= np.linalg.norm(rows, axis=2, keepdims=True)
        gradients = -expit(-rows @ theta)[..., None] * rows
        gaps = np.linalg.norm(gradients[0] - gradients[1], axis=1)
        assert gaps.max() <= logistic_gradient_gap(norm)
        assert gaps.max() > 0.9 * logistic_gradient_gap(norm)


def test_gradient_sensitivities():
    assert gradient_sensitivity("logistic", 3.0) == 6.0
    assert gradient_sensitivity("logistic", 3.0, "zero_out") == 3.0
    assert gradient_sensitivity("logistic", 2.0, coef_norm=0.5) == pytest.approx(2 * 1.0990954771)
    assert gradient_sensitivity("logistic", 2.0, "zero_out", coef_norm=0.5) == pytest.approx(
        2 * expit(1.0)
    )
    assert gradient_sensitivity("softmax", 1.5, "zero_out") == pytest.approx(1.5 * math.sqrt(2))
    assert gradient_sensitivity("softmax", 1.5) == pytest.approx(3 * math.sqrt(2))
    assert gradient_sensitivity("hinge", 1.5, "zero_out") == 1.5
    assert gradient_sensitivity("hinge", 1.5) == 3.0


def test_softmax_replace_one_constant_is_approached():
    """Opposite rows, swapped labels and coefficients that misclassify both."""
    n_classes, size = 3, 60.0
    rows = np.array([[1.0, 0.02], [-1.0, 0.02]])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    theta = np.zeros((n_classes, 2))
    theta[:2, 1] = [-size * 10, size * 10]  # both rows look like class 1
    gradients = []
    for row in rows:
        probabilities = softmax(theta @ row)
        probabilities[0] -= 1.0  # label 0
        gradients.append(np.outer(probabilities, row))
    gap = np.linalg.norm(gradients[0] - gradients[1])
    bound = gradient_sensitivity("softmax", 1.0)
    assert 0.99 * bound < gap <= bound


@pytest.mark.parametrize("n_classes", [2, 3, 5, 12])
@pytest.mark.parametrize("norm", [1e-3, 0.5, 2.0, 5.0, 12.0])
def test_the_softmax_gradient_norm_is_the_maximum(norm, n_classes):
    """Against gradient ascent from many starts in all logits, written independently."""
    rng = np.random.default_rng(0)

    def negative(z):
        z = z * norm / np.linalg.norm(z)
        residual = softmax(z)
        residual[0] -= 1.0
        return -np.linalg.norm(residual)

    starts = rng.normal(size=(30, n_classes))
    one_other = np.eye(n_classes)[1] - np.eye(n_classes)[0]
    best = max(-minimize(negative, start).fun for start in [*starts, one_other])
    bound = softmax_gradient_norm(norm, n_classes)
    assert best <= bound
    assert best == pytest.approx(bound, abs=2e-6)


def test_the_softmax_gradient_norm_at_the_ends():
    for n_classes in (2, 3, 40):
        assert softmax_gradient_norm(0.0, n_classes) == pytest.approx(math.sqrt(1 - 1 / n_classes))
        norms = [softmax_gradient_norm(c, n_classes) for c in (0.0, 0.1, 1.0, 5.0, 24.9, 25.1)]
        assert norms == sorted(norms)
        assert softmax_gradient_norm(math.inf, n_classes) == math.sqrt(2.0)
    # two classes: logits (z, -z) of norm sqrt(2) z
    assert softmax_gradient_norm(3.0, 2) == pytest.approx(math.sqrt(2) * expit(math.sqrt(2) * 3.0))
    assert gradient_sensitivity("softmax", 2.0, "zero_out", coef_norm=1.5, n_classes=4) == (
        2.0 * softmax_gradient_norm(3.0, 4)
    )
    assert gradient_sensitivity("softmax", 2.0, n_classes=4) == 4.0 * math.sqrt(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("norm", [0.5, 2.0, 5.0])
def test_no_pair_of_softmax_gradients_is_farther_apart(norm, n_classes):
    """Ascent in coefficients and both rows, same and different labels."""
    rng = np.random.default_rng(0)
    bound = gradient_sensitivity("softmax", 1.0, coef_norm=norm, n_classes=n_classes)
    largest = 0.0
    for other in (0, 1):

        def negative(point, other=other):
            rows, theta = point[:4].reshape(2, 2), point[4:].reshape(n_classes, 2)
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
            theta = theta * norm / np.linalg.norm(theta)
            residuals = softmax(rows @ theta.T, axis=1)
            residuals[0, 0] -= 1.0
            residuals[1, other] -= 1.0
            gap = np.outer(residuals[0], rows[0]) - np.outer(residuals[1], rows[1])
            return -np.linalg.norm(gap)

        for _ in range(15):
            start = rng.normal(size=4 + 2 * n_classes)
            largest = max(largest, -minimize(negative, start).fun)
    assert largest <= bound
    assert largest > 0.75 * bound  # an upper bound, but not far from the truth


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_sensitivity("squared", 1.0), "loss must be"),
        (lambda: gradient_sensitivity("hinge", 1.0, "both"), "adjacency must be"),
        (lambda: gradient_sensitivity("hinge", -1.0), "data_norm must be >= 0"),
        (lambda: gradient_sensitivity("logistic", 1.0, coef_norm=0.0), "coef_norm must be > 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
