"""Gradient and curvature constants against searches over rows and coefficients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, softmax

from skdpbayes.privacy import gradient_sensitivity, logistic_gradient_gap, loss_curvature

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


@pytest.mark.parametrize("loss", ["logistic", "softmax", "hinge"])
def test_curvatures_are_attained_and_never_exceeded(loss):
    radius, smoothing = 1.3, 0.4
    bound = loss_curvature(loss, radius, smoothing=smoothing)
    rng = np.random.default_rng(0)
    if loss == "softmax":
        worst = []
        for _ in range(300):
            p = rng.dirichlet([0.3, 0.3, 0.3])
            worst.append(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1] * radius**2)
        half = np.array([0.5, 0.5, 0.0])
        worst.append(np.linalg.eigvalsh(np.diag(half) - np.outer(half, half))[-1] * radius**2)
    elif loss == "logistic":
        p = expit(np.linspace(-4, 4, 801))
        worst = p * (1 - p) * radius**2
    else:
        u = np.linspace(-3, 3, 4001)
        slope = -np.clip((1 + smoothing - u) / (2 * smoothing), 0, 1)
        worst = np.diff(slope) / np.diff(u) * radius**2
    assert max(worst) <= bound * (1 + 1e-9)
    assert max(worst) == pytest.approx(bound, rel=1e-6)
    assert math.isinf(loss_curvature("hinge", 1.0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gradient_sensitivity("squared", 1.0), "loss must be"),
        (lambda: loss_curvature("squared", 1.0), "loss must be"),
        (lambda: gradient_sensitivity("hinge", 1.0, "both"), "adjacency must be"),
        (lambda: gradient_sensitivity("hinge", -1.0), "data_norm must be >= 0"),
        (lambda: gradient_sensitivity("logistic", 1.0, coef_norm=0.0), "coef_norm must be > 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
