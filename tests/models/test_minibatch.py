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
    return X, codes, rng.normal(size=(n_outputs, d + 1))


NORM = 9.0  # no row is longer


def one_by_one(theta, X, codes, lengths, clip, rows):
    total = np.zeros_like(theta)
    for i in rows:
        z = theta @ np.append(X[i], 1.0)
        r = expit(z) - codes[i] if len(theta) == 1 else softmax(z) - np.eye(len(theta))[codes[i]]
        r *= min(1.0, clip / max(np.linalg.norm(r) * lengths[i], 1e-300))
        total += np.outer(r, np.append(X[i], 1.0))
    return total


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("clip", [0.3, np.inf])
@pytest.mark.parametrize("batch", ["all", "some", "none"])
def test_sum_equals_records_one_by_one(n_outputs, form, clip, batch):
    X, codes, theta = data(n_outputs)
    lengths = np.linalg.norm(X, axis=1) + 0.1
    some = np.array([3, 5, 6, 99, 600]) if batch == "some" else np.empty(0, dtype=np.int64)
    rows = None if batch == "all" else some
    got = models.clipped_linear_gradient(theta, form(X), codes, lengths, clip, NORM, rows)
    among = range(len(X)) if batch == "all" else some
    wanted = one_by_one(theta, X, codes, lengths, clip, among)
    np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 4])
def test_no_record_contributes_more_than_the_clipping_norm(n_outputs):
    X, codes, theta = data(n_outputs, n=50)
    lengths = np.hypot(np.linalg.norm(X, axis=1), 1.0)
    theta[:, :-1] *= 9.0
    for i in range(50):
        rows = np.array([i])
        total = models.clipped_linear_gradient(theta, X, codes, lengths, 0.05, NORM, rows)
        assert np.linalg.norm(total) <= 0.05


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_sums_are_exact_in_any_order_and_form(n_outputs):
    """The sum over records in another order, or one by one, is equal to the last bit."""
    X, codes, theta = data(n_outputs, n=3000)
    X /= np.linalg.norm(X, axis=1, keepdims=True) + 0.01
    lengths = np.linalg.norm(X, axis=1) + 0.1
    norm = 1.0

    def total(form, rows):
        return models.clipped_linear_gradient(theta, form, codes, lengths, 0.3, norm, rows)

    forms = (X, sparse.csr_matrix(X))
    order = np.random.default_rng(1).permutation(len(X))
    expected = total(X, None)
    for form in forms:
        np.testing.assert_array_equal(total(form, None), expected)
        np.testing.assert_array_equal(total(form, order), expected)
        parts = [total(form, order[i : i + 1]) for i in range(len(X))]
        np.testing.assert_array_equal(sum(parts), expected)
    # multiples of a unit that is too small for such rows do not add up
    norm = 2.0**-25
    assert not np.array_equal(total(X, None), total(X, order))


def test_sum_unit_leaves_room_for_all_terms():
    for n_rows in (1, 2, 1000, 10**6 + 1):
        for largest in (1.0, 0.75, 1e-3, 7.0):
            unit = models.sum_unit(n_rows, largest)
            assert n_rows * (largest + unit) <= 2.0**52 * unit
            assert n_rows * largest >= 2.0**49 * unit


def test_rows_that_are_mostly_zeros_are_compressed():
    X, *_ = data(1)
    assert models.compact_rows(X) is X
    X[:, 4:] = 0.0
    compact = models.compact_rows(X)
    assert sparse.issparse(compact)
    np.testing.assert_array_equal(compact.toarray(), X)
    twice = sparse.csr_matrix(([1.0, 2.0, 3.0], [2, 0, 2], [0, 3]), shape=(1, 3))
    np.testing.assert_array_equal(models.compact_rows(twice).data, [2.0, 4.0])
    assert twice.data.size == 3


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
