"""Clipped sums of linear gradients against plain NumPy, one record at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, softmax

from skdpbayes import models


def data(n_outputs, n=700, d=11, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    codes = rng.integers(0, max(2, n_outputs), n)
    theta, shift = rng.normal(size=(n_outputs, d)), rng.normal(size=n_outputs)
    return X, codes, theta, shift


def one_by_one(theta, shift, X, codes, lengths, clip, rows):
    gradient, total = np.zeros_like(theta), np.zeros(len(theta))
    for i in rows:
        z = theta @ X[i] + shift
        r = expit(z) - codes[i] if len(theta) == 1 else softmax(z) - np.eye(len(theta))[codes[i]]
        r *= min(1.0, clip / max(np.linalg.norm(r) * lengths[i], 1e-300))
        gradient += np.outer(r, X[i])
        total += r
    return gradient, total


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("clip", [0.3, np.inf])
@pytest.mark.parametrize("batch", ["all", "some", "none"])
def test_sum_equals_records_one_by_one(n_outputs, form, clip, batch):
    X, codes, theta, shift = data(n_outputs)
    lengths = np.linalg.norm(X, axis=1) + 0.1
    some = np.array([3, 5, 6, 99, 600]) if batch == "some" else np.empty(0, dtype=np.int64)
    rows = None if batch == "all" else some
    got = models.clipped_linear_gradient(theta, shift, form(X), codes, lengths, clip, rows)
    wanted = one_by_one(
        theta, shift, X, codes, lengths, clip, range(len(X)) if batch == "all" else some
    )
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(got[1], wanted[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_no_record_contributes_more_than_the_clipping_norm(n_outputs):
    X, codes, theta, shift = data(n_outputs, n=50)
    lengths = np.hypot(np.linalg.norm(X, axis=1), 1.0)
    for i in range(50):
        rows = np.array([i])
        g, r = models.clipped_linear_gradient(9 * theta, shift, X, codes, lengths, 0.05, rows)
        assert np.sqrt(np.sum(g**2) + np.sum(r**2)) <= 0.05


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_row_lengths_and_moments(form):
    X, *_ = data(1)
    A = np.cov(X.T)
    center = X.mean(axis=0)
    expected = np.sqrt(np.sum(((X - center) @ A) ** 2, axis=1) + 0.25)
    np.testing.assert_allclose(
        models.quadratic_row_lengths(form(X), center, A, 0.5), expected, rtol=1e-12
    )
    plain = models.quadratic_row_lengths(form(X), np.zeros(X.shape[1]), None, 0.0)
    np.testing.assert_allclose(plain, np.linalg.norm(X, axis=1), rtol=1e-12)
    np.testing.assert_allclose(models.second_moments(form(X)), X.T @ X, rtol=1e-10, atol=1e-10)
