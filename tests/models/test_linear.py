"""Losses of linear classifiers against NumPy, finite differences, and each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax

from skdpbayes.models import linear

CONSTANTS = (0.0, 1.5)
LOSSES = {
    "logistic": (linear.logistic_loss, linear.logistic_gradient, linear.logistic_hessian, 2, {}),
    "softmax": (linear.softmax_loss, linear.softmax_gradient, linear.softmax_hessian, 4, {}),
    "hinge": (
        linear.smooth_hinge_loss,
        linear.smooth_hinge_gradient,
        linear.smooth_hinge_hessian,
        2,
        {"width": 0.7},
    ),
}


def _problem(n_classes, constant, *, n=203, d=5, as_csr=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    codes = rng.integers(0, n_classes, size=n)
    outputs = 1 if n_classes == 2 else n_classes
    theta = rng.normal(size=(outputs, d + (constant != 0)))
    return theta, sparse.csr_array(X) if as_csr else X, codes


def _plain_loss(name, theta, X, codes, constant):
    """The same sums in a few lines of NumPy."""
    full = np.column_stack([X, np.full(X.shape[0], constant)]) if constant else X
    logits = full @ theta.T
    if name == "softmax":
        return -log_softmax(logits, axis=1)[np.arange(codes.size), codes].sum()
    margin = np.where(codes == 1, 1, -1) * logits[:, 0]
    if name == "logistic":
        return np.logaddexp(0, -margin).sum()
    gap = 1 - margin
    return np.where(gap < 0.7, np.maximum(gap, 0) ** 2 / 1.4, gap - 0.35).sum()


@pytest.mark.parametrize("as_csr", [False, True])
@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("name", LOSSES)
def test_value_gradient_and_hessian_agree(name, constant, as_csr):
    loss, gradient, hessian, n_classes, options = LOSSES[name]
    theta, X, codes = _problem(n_classes, constant)
    data = sparse.csr_array(X) if as_csr else X
    value, slope, curvature = hessian(theta, data, codes, constant, **options)
    assert value == pytest.approx(_plain_loss(name, theta, X, codes, constant), rel=1e-12)
    assert value == pytest.approx(loss(theta, data, codes, constant, **options), rel=1e-13)
    value_only, slope_only = gradient(theta, data, codes, constant, **options)
    assert value == pytest.approx(value_only, rel=1e-13)
    np.testing.assert_allclose(slope, slope_only, rtol=1e-12)
    assert slope.shape == theta.shape

    step = 1e-6
    for index in range(theta.size):
        shift = np.zeros(theta.size)
        shift[index] = step
        plus = theta + shift.reshape(theta.shape)
        minus = theta - shift.reshape(theta.shape)
        up, grad_up = gradient(plus, data, codes, constant, **options)
        down, grad_down = gradient(minus, data, codes, constant, **options)
        assert (up - down) / (2 * step) == pytest.approx(slope.ravel()[index], abs=2e-6)
        numeric = ((grad_up - grad_down) / (2 * step)).ravel()
        np.testing.assert_allclose(numeric, curvature[index], atol=2e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_do_not_change_the_sums(name, monkeypatch):
    hessian, n_classes, options = LOSSES[name][2:]
    theta, X, codes = _problem(n_classes, 1.5, n=1001)
    monkeypatch.setattr(linear, "BLOCK_BYTES", 1 << 30)
    whole = hessian(theta, X, codes, 1.5, **options)
    monkeypatch.setattr(linear, "BLOCK_BYTES", 8)  # 64 rows, the smallest block
    pieces = hessian(theta, X, codes, 1.5, **options)
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_softmax_of_two_classes_is_logistic_of_the_difference():
    theta, X, codes = _problem(2, 1.5)
    pair = np.vstack([-0.5 * theta, 0.5 * theta])
    single = linear.logistic_hessian(theta, X, codes, 1.5)
    double = linear.softmax_hessian(pair, X, codes, 1.5)
    assert single[0] == pytest.approx(double[0], rel=1e-13)
    np.testing.assert_allclose(double[1][1], single[1][0], rtol=1e-10, atol=1e-12)
    d = theta.size
    np.testing.assert_allclose(double[2][:d, :d], single[2], rtol=1e-10, atol=1e-12)


def test_extreme_logits_neither_overflow_nor_cancel():
    X = np.array([[1.0], [1.0]])
    codes = np.array([1, 0])
    value, slope, curvature = linear.logistic_hessian(np.array([[800.0]]), X, codes)
    assert value == 800.0
    assert slope[0, 0] == 1.0
    assert 0.0 <= curvature[0, 0] < 1e-300
    value, slope, _ = linear.logistic_hessian(np.array([[40.0]]), X[:1], codes[:1])
    assert value == pytest.approx(np.exp(-40.0), rel=1e-12)
    assert slope[0, 0] == pytest.approx(-np.exp(-40.0), rel=1e-12)
    wide = linear.softmax_hessian(np.array([[900.0], [0.0], [-900.0]]), X, np.array([0, 2]))
    assert wide[0] == 1800.0
    assert np.isfinite(wide[2]).all()


def test_gradient_norm_is_bounded_by_the_record_norm():
    rng = np.random.default_rng(4)
    for _ in range(200):
        x = rng.normal(size=(1, 3))
        size = np.hypot(np.linalg.norm(x), 1.5)
        theta = rng.normal(scale=5, size=(4, 4))
        code = rng.integers(0, 4, size=1)
        logistic = linear.logistic_gradient(theta[:1], x, code % 2, 1.5)[1]
        softmax = linear.softmax_gradient(theta, x, code, 1.5)[1]
        assert np.linalg.norm(logistic) <= size
        assert np.linalg.norm(softmax) <= np.sqrt(2) * size


def test_logits_match_matrix_product():
    theta, X, _ = _problem(4, 1.5)
    expected = X @ theta[:, :-1].T + 1.5 * theta[:, -1]
    np.testing.assert_allclose(linear.linear_logits(theta, X, 1.5), expected, rtol=1e-13)
    np.testing.assert_allclose(
        linear.linear_logits(theta, sparse.csr_array(X), 1.5), expected, rtol=1e-12
    )


def test_summation_length_bounds_rounding():
    theta, X, codes = _problem(2, 1.0, n=30_000, d=8)
    exact = np.zeros(theta.shape, dtype=np.longdouble)
    full = np.column_stack([X, np.ones(X.shape[0])])
    residual = 1 / (1 + np.exp(-(full.astype(np.longdouble) @ theta[0]))) - codes
    exact = (residual[:, None] * full).sum(axis=0)
    _, slope = linear.logistic_gradient(theta, X, codes, 1.0)
    norms = np.linalg.norm(full, axis=1).sum()
    length = linear.summation_length(30_000, 9)
    assert length < 10_000  # far below the 30,000 of one running sum
    assert np.linalg.norm(slope[0] - exact) <= length * np.finfo(float).eps * norms
