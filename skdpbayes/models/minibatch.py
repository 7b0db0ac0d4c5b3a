r"""Sums of clipped gradients of linear classifiers over a batch of rows.

One record's gradient with respect to the coefficients is the outer product of its residual
:math:`r_i` (logistic: :math:`\sigma(z_i) - y_i`; softmax: :math:`p_i - e_{y_i}`) and its row, so
its norm is a product and clipping to :math:`L` needs no gradient of any single record:

.. math:: G = \sum_{i \in S} c_i r_i x_i^\top, \quad R = \sum_{i \in S} c_i r_i, \qquad
          c_i = \min\big(1, L / (\|r_i\| \, \nu_i)\big).

The lengths :math:`\nu_i` are given, because a linear change of coordinates changes them: with
rows :math:`w_i = A (x_i - m)` in place of :math:`x_i`, :math:`\nu_i = \|w_i\|` and the clipped sum
is :math:`(G - R m^\top) A^\top`. Neither a transformed copy of ``X`` nor a copy of the batch is
made.

**The sums are exact.** Every product :math:`c_i r_{ik} x_{ij}` is rounded to a multiple of a power
of two so large that sums of *n* of them have at most 52 bits (`sum_unit`). Then no addition rounds,
and the sum is the sum of one number per record: it does not depend on the order of the records, and
a record that contributes nothing is as good as none. That number depends on the record and the
coefficients alone, because every logit is summed in a fixed order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

__all__ = [
    "clipped_linear_gradient",
    "compact_rows",
    "quadratic_row_lengths",
    "second_moments",
    "sum_unit",
]

# A block of rows of this many bytes stays in a core's second-level cache.
BLOCK_BYTES = 1 << 19
# Rows whose addresses are looked up ahead of their sums.
AHEAD = 256
# Rows with a smaller share of nonzero entries are shorter as (column, value) pairs.
SPARSE_SHARE = 0.25
# Products of floats round; contributions are kept this much (relative) below the clipping norm.
CLIP_MARGIN = 1e-9
NO_ROWS = np.empty(0, dtype=np.int64)


def sum_unit(n_rows: int, largest: float) -> float:
    """Return a power of two whose multiples up to ``largest`` add up exactly, ``n_rows`` of them.

    Parameters
    ----------
    n_rows : int
        Number of terms.
    largest : float
        Bound on the absolute value of a term.
    """
    return math.ldexp(1.0, math.frexp(n_rows * largest * 1.01)[1] - 51)


@njit(cache=True)
def _logistic_residual(z: float, code: int) -> float:
    """Return sigma(z) - code without overflow or cancellation."""
    small = np.exp(-abs(z))
    if code == 1:
        return -(small / (1.0 + small)) if z >= 0.0 else -1.0 / (1.0 + small)
    return 1.0 / (1.0 + small) if z >= 0.0 else small / (1.0 + small)


@njit(cache=True)
def _binary_dense(
    theta: Any,
    X: Any,
    codes: Any,
    lengths: Any,
    clip_norm: float,
    rows: Any,
    whole: bool,
    units: Any,
    out: Any,
) -> None:
    """Add the clipped gradients of dense rows to ``out``.

    A row is still in the first-level cache when its residual is known. Eight partial sums let the
    compiler use vector registers without reordering any sum. Adding and subtracting 1.5 2^52 units
    rounds to a multiple of the unit.
    """
    n_columns = X.shape[1]
    even = n_columns - n_columns % 8
    magic, magic_last = 1.5 * 2.0**52 * units[0], 1.5 * 2.0**52 * units[1]
    total = 0.0
    n_rows = X.shape[0] if whole else rows.shape[0]
    for position in range(n_rows):
        i = position if whole else rows[position]
        a = b = c = d = e = f = g = h = 0.0
        for j in range(0, even, 8):
            a += X[i, j] * theta[0, j]
            b += X[i, j + 1] * theta[0, j + 1]
            c += X[i, j + 2] * theta[0, j + 2]
            d += X[i, j + 3] * theta[0, j + 3]
            e += X[i, j + 4] * theta[0, j + 4]
            f += X[i, j + 5] * theta[0, j + 5]
            g += X[i, j + 6] * theta[0, j + 6]
            h += X[i, j + 7] * theta[0, j + 7]
        rest = 0.0
        for j in range(even, n_columns):
            rest += X[i, j] * theta[0, j]
        z = ((a + b) + (c + d)) + ((e + f) + (g + h)) + rest
        residual = _logistic_residual(z + theta[0, n_columns], codes[i])
        norm = abs(residual) * lengths[i]
        if norm > clip_norm:
            residual *= clip_norm / norm
        total += (residual + magic_last) - magic_last
        for j in range(n_columns):
            out[0, j] += (residual * X[i, j] + magic) - magic
    out[0, n_columns] += total


@njit(cache=True)
def _binary_csr(
    theta: Any,
    data: Any,
    indices: Any,
    indptr: Any,
    codes: Any,
    lengths: Any,
    clip_norm: float,
    rows: Any,
    whole: bool,
    units: Any,
    out: Any,
) -> None:
    """Add the clipped gradients of compressed rows to ``out``.

    Partial sums are those of `_binary_dense` without the zeros, so logits are the same to the last
    bit. Rows of a batch lie far apart: reading the ends of many of them first lets their cache
    misses overlap, which they do not when each is followed by the arithmetic of its row.
    """
    magic, magic_last = 1.5 * 2.0**52 * units[0], 1.5 * 2.0**52 * units[1]
    n_columns = theta.shape[1] - 1
    first, last = np.empty(AHEAD, dtype=np.int64), np.empty(AHEAD, dtype=np.int64)
    label, length = np.empty(AHEAD, dtype=np.int64), np.empty(AHEAD)
    ends = np.zeros(AHEAD)  # written so that the reads are not optimized away
    even = n_columns - n_columns % 8
    part = np.empty(9)
    total = 0.0
    n_rows = indptr.shape[0] - 1 if whole else rows.shape[0]
    for start in range(0, n_rows, AHEAD):
        count = min(AHEAD, n_rows - start)
        for r in range(count):
            i = start + r if whole else rows[start + r]
            first[r], last[r], label[r], length[r] = indptr[i], indptr[i + 1], codes[i], lengths[i]
            if last[r] > first[r]:
                ends[r] = data[first[r]] + data[last[r] - 1] + indices[first[r]]
        for r in range(count):
            part[:] = 0.0
            for p in range(first[r], last[r]):
                j = indices[p]
                part[j & 7 if j < even else 8] += data[p] * theta[0, j]
            z = (part[0] + part[1]) + (part[2] + part[3])
            z += (part[4] + part[5]) + (part[6] + part[7])
            z += part[8]
            residual = _logistic_residual(z + theta[0, n_columns], label[r])
            norm = abs(residual) * length[r]
            if norm > clip_norm:
                residual *= clip_norm / norm
            total += (residual + magic_last) - magic_last
            for p in range(first[r], last[r]):
                out[0, indices[p]] += (residual * data[p] + magic) - magic
    out[0, n_columns] += total


@njit(cache=True)
def _clip_softmax(z: Any, code: int, length: float, clip_norm: float) -> None:
    """Overwrite the logits of one record by its clipped residual p - e_y."""
    top = z[0]
    for k in range(1, z.shape[0]):
        top = max(top, z[k])
    mass = 0.0
    for k in range(z.shape[0]):
        z[k] = np.exp(z[k] - top)
        mass += z[k]
    square = 0.0
    for k in range(z.shape[0]):
        z[k] /= mass
        if k == code:
            z[k] -= 1.0
        square += z[k] * z[k]
    norm = np.sqrt(square) * length
    if norm > clip_norm:
        for k in range(z.shape[0]):
            z[k] *= clip_norm / norm


@njit(cache=True)
def _softmax_dense(
    theta: Any,
    X: Any,
    codes: Any,
    lengths: Any,
    clip_norm: float,
    rows: Any,
    whole: bool,
    units: Any,
    out: Any,
) -> None:
    """Add the clipped gradients of dense rows; ``theta`` and ``out`` have a column per class."""
    magic, magic_last = 1.5 * 2.0**52 * units[0], 1.5 * 2.0**52 * units[1]
    n_columns, n_outputs = X.shape[1], theta.shape[1]
    z = np.empty(n_outputs)
    n_rows = X.shape[0] if whole else rows.shape[0]
    for position in range(n_rows):
        i = position if whole else rows[position]
        z[:] = theta[n_columns]
        for j in range(n_columns):
            value = X[i, j]
            if value != 0.0:
                for k in range(n_outputs):
                    z[k] += value * theta[j, k]
        _clip_softmax(z, codes[i], lengths[i], clip_norm)
        for k in range(n_outputs):
            out[n_columns, k] += (z[k] + magic_last) - magic_last
        for j in range(n_columns):
            value = X[i, j]
            if value != 0.0:
                for k in range(n_outputs):
                    out[j, k] += (value * z[k] + magic) - magic


@njit(cache=True)
def _softmax_csr(
    theta: Any,
    data: Any,
    indices: Any,
    indptr: Any,
    codes: Any,
    lengths: Any,
    clip_norm: float,
    rows: Any,
    whole: bool,
    units: Any,
    out: Any,
) -> None:
    """Add the clipped gradients of compressed rows; as `_softmax_dense`."""
    magic, magic_last = 1.5 * 2.0**52 * units[0], 1.5 * 2.0**52 * units[1]
    n_columns, n_outputs = theta.shape[0] - 1, theta.shape[1]
    z = np.empty(n_outputs)
    n_rows = indptr.shape[0] - 1 if whole else rows.shape[0]
    for position in range(n_rows):
        i = position if whole else rows[position]
        z[:] = theta[n_columns]
        for p in range(indptr[i], indptr[i + 1]):
            for k in range(n_outputs):
                z[k] += data[p] * theta[indices[p], k]
        _clip_softmax(z, codes[i], lengths[i], clip_norm)
        for k in range(n_outputs):
            out[n_columns, k] += (z[k] + magic_last) - magic_last
        for p in range(indptr[i], indptr[i + 1]):
            for k in range(n_outputs):
                out[indices[p], k] += (data[p] * z[k] + magic) - magic


@njit(cache=True)
def _csr_add_moments(data: Any, indices: Any, indptr: Any, moments: Any) -> None:
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            for q in range(indptr[i], indptr[i + 1]):
                moments[indices[p], indices[q]] += data[p] * data[q]


def clipped_linear_gradient(
    theta: np.ndarray,
    X: Any,
    codes: np.ndarray,
    lengths: np.ndarray,
    clip_norm: float,
    units: np.ndarray,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the clipped gradients of a batch.

    Parameters
    ----------
    theta : ndarray of shape (K, d + 1)
        Coefficients and, last, the intercept; one row for two classes (logistic), one per class
        otherwise (softmax).
    X : ndarray (C-ordered, float64) or CSR matrix of shape (n, d)
        All records.
    codes : ndarray of shape (n,)
        Their label codes.
    lengths : ndarray of shape (n,)
        The factor of each record's gradient norm that its row contributes.
    clip_norm : float
        Bound on the norm of one record's contribution; inf for none.
    units : ndarray of shape (2,)
        Units of the products with entries of rows and of the residuals, from `sum_unit`.
    rows : ndarray of int or None
        The batch; None for all records.

    Returns
    -------
    ndarray of shape (K, d + 1)
        Sum of clipped residuals times rows and, last, of clipped residuals; multiples of the units.
    """
    clip = float(clip_norm) * (1.0 - CLIP_MARGIN)
    compressed = sparse.issparse(X)
    data = (X.data, X.indices, X.indptr) if compressed else (X,)
    batch = NO_ROWS if rows is None else rows
    rest = (codes, lengths, clip, batch, rows is None, units)
    if theta.shape[0] == 1:
        out = np.zeros(theta.shape)
        binary: Any = _binary_csr if compressed else _binary_dense
        binary(theta, *data, *rest, out)
        return out
    columns = np.ascontiguousarray(theta.T)
    out = np.zeros(columns.shape)
    softmax: Any = _softmax_csr if compressed else _softmax_dense
    softmax(columns, *data, *rest, out)
    return np.ascontiguousarray(out.T)


def compact_rows(X: Any) -> Any:
    """Return ``X`` without its zeros, as CSR, if that is shorter.

    `clipped_linear_gradient` is the same for both forms to the last bit: only the time tells which
    one is used.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        All records.
    """
    if sparse.issparse(X):
        if not X.has_canonical_format:  # sums run over columns in order, each once
            X = X.copy()
            X.sum_duplicates()
        return X
    return X if np.count_nonzero(X) > SPARSE_SHARE * X.size else sparse.csr_matrix(X)


def quadratic_row_lengths(
    X: Any, center: np.ndarray, transform: np.ndarray | None, constant: float
) -> np.ndarray:
    """Lengths of the rows of ``(X - center) @ transform`` with a constant feature appended.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        All records.
    center : ndarray of shape (d,)
        Subtracted from every row.
    transform : ndarray of shape (d, d) or None
        Symmetric; None for the identity.
    constant : float
        The constant feature.

    Returns
    -------
    ndarray of shape (n,)
    """
    n_rows, n_columns = X.shape
    lengths = np.empty(n_rows)
    block = max(64, BLOCK_BYTES // (8 * n_columns))
    for start in range(0, n_rows, block):
        part = X[start : start + block]
        if transform is None and not np.any(center):
            squares = part.multiply(part).sum(axis=1) if sparse.issparse(X) else part * part
            squares = np.asarray(squares).reshape(part.shape[0], -1).sum(axis=1)
        else:
            dense = (part.toarray() if sparse.issparse(X) else part) - center
            dense = dense if transform is None else dense @ transform
            squares = np.einsum("ij,ij->i", dense, dense)
        lengths[start : start + block] = np.sqrt(squares + constant * constant)
    return lengths


def second_moments(X: Any) -> np.ndarray:
    """Return the sum of outer products of the rows, shape (d, d).

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        All records.
    """
    if sparse.issparse(X):
        moments = np.zeros((X.shape[1], X.shape[1]))
        _csr_add_moments(X.data, X.indices, X.indptr, moments)
        return moments
    return np.asarray(X.T @ X)
