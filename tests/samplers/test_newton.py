"""The minimizers reach their tolerance from anywhere, and say so when they cannot."""

from __future__ import annotations

import numpy as np
import pytest

from skdpbayes.samplers.newton import minimize_lbfgs, minimize_newton


def _logistic(n=300, d=6, penalty=0.1, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.normal(size=(n, d))
    signs = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    tilt = rng.normal(size=d)

    def value_gradient(theta):
        margins = signs * (X @ theta)
        p = 1.0 / (1.0 + np.exp(np.clip(margins, -700, 700)))
        value = np.logaddexp(0, -margins).sum() + 0.5 * penalty * theta @ theta + tilt @ theta
        return value, -X.T @ (signs * p) + penalty * theta + tilt

    def hessian(theta):
        p = 1.0 / (1.0 + np.exp(np.clip(X @ theta, -700, 700)))
        return (X.T * (p * (1 - p))) @ X + penalty * np.eye(d)

    return value_gradient, hessian


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("start", [0.0, 50.0])
def test_both_reach_the_same_minimum(scale, start):
    value_gradient, hessian = _logistic(scale=scale)
    begin = np.full(6, start)
    newton = minimize_newton(value_gradient, hessian, begin, tolerance=1e-9)
    lbfgs = minimize_lbfgs(value_gradient, begin, tolerance=1e-8)
    assert np.linalg.norm(value_gradient(newton)[1]) <= 1e-9
    assert np.linalg.norm(value_gradient(lbfgs)[1]) <= 1e-8
    np.testing.assert_allclose(newton, lbfgs, atol=1e-6)


def test_newton_is_exact_on_a_quadratic_and_reuses_its_factor():
    matrix = np.diag([1.0, 4.0, 1e4])
    shift = np.array([1.0, -2.0, 3.0])
    calls = []

    def value_gradient(theta):
        return 0.5 * theta @ matrix @ theta + shift @ theta, matrix @ theta + shift

    def hessian(theta):
        calls.append(theta)
        return matrix.copy()

    found = minimize_newton(value_gradient, hessian, np.zeros(3), tolerance=1e-12)
    np.testing.assert_allclose(found, -shift / np.diag(matrix), rtol=1e-12)
    assert len(calls) == 1


def test_minimizer_at_the_start_is_returned_as_it_is():
    def value_gradient(theta):
        return 0.5 * theta @ theta, theta

    found = minimize_newton(value_gradient, lambda t: np.eye(2), np.zeros(2), tolerance=1e-12)
    assert np.array_equal(found, np.zeros(2))


def test_ill_conditioned_quadratic_by_lbfgs():
    scales = np.logspace(0, 4, 30)

    def value_gradient(theta):
        return 0.5 * theta @ (scales * theta) - theta.sum(), scales * theta - 1.0

    found = minimize_lbfgs(value_gradient, np.zeros(30), tolerance=1e-8)
    np.testing.assert_allclose(found, 1.0 / scales, rtol=1e-6)


def test_a_noisy_gradient_is_an_error_not_an_answer():
    rng = np.random.default_rng(0)

    def value_gradient(theta):
        return 0.5 * theta @ theta, theta + 1e-3 * rng.normal(size=theta.shape)

    with pytest.raises(RuntimeError, match="gradient norm of 1e-09"):
        minimize_newton(
            value_gradient, lambda t: np.eye(3), np.ones(3), tolerance=1e-9, max_steps=30
        )
    with pytest.raises(RuntimeError, match="numerically degenerate"):
        minimize_lbfgs(value_gradient, np.ones(3), tolerance=1e-9, max_steps=50)
