r"""Sums of clipped gradients of linear classifiers over a batch of rows.

One record's gradient with respect to the coefficients is the outer product of its residual
:math:`r_i` (logistic: :math:`\sigma(z_i) - y_i`; softmax: :math:`p_i - e_{y_i}`) and its row, so
its norm is a product and clipping to :math:`L` needs no gradient of any single record:

.. math:: G = \sum_{i \in S} c_i r_i x_i^\top, \quad R = \sum_{i \in S} c_i r_i, \qquad
          c_i = \min\big(1, L / (\|r_i\| \, \nu_i)\big).

The lengths :math:`\nu_i` are given, because a linear change of coordinates changes them: with
rows :math:`w_i = A (x_i - m)` in place of :math:`x_i`, :math:`\nu_i = \|w_i\|` and the clipped sum
is :math:`(G - R m^\top) A^\top`. Neither a transformed copy of ``X`` nor a copy of the batch is
made (a block of it for three and more classes). Sums run over `SUM_RUN` rows first and then over
these runs, which bounds their rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

__all__ = ["clipped_linear_gradient", "quadratic_row_lengths", "second_moments"]

SUM_RUN = 512
# A block of rows of this many bytes stays in a core's second-level cache.
BLOCK_BYTES = 1 << 19
# Products of floats round; contributions are kept this much (relative) below the clipping norm.
CLIP_MARGIN = 1e-9


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
    shift: float,
    X: Any,
    codes: Any,
    lengths: Any,
    clip_norm: float,
    rows: Any,
    whole: bool,
    out: Any,
) -> float:
    """Add the clipped gradients of dense rows to ``out``; return the sum of residuals.

    A row is still in the first-level cache when its residual is known. Eight partial sums let the
    compiler use vector registers without reordering any sum.
    """
    n_columns = X.shape[1]
    even = n_columns - n_columns % 8
    total = 0.0
    run = np.zeros(n_columns)
    run_total = 0.0
    n_rows = X.shape[0] if whole else rows.shape[0]
    for position in range(n_rows):
        i = position if whole else rows[position]
        a = b = c = d = e = f = g = h = 0.0
        for j in range(0, even, 8):
            a += X[i, j] * theta[j]
            b += X[i, j + 1] * theta[j + 1]
            c += X[i, j + 2] * theta[j + 2]
            d += X[i, j + 3] * theta[j + 3]
            e += X[i, j + 4] * theta[j + 4]
            f += X[i, j + 5] * theta[j + 5]
            g += X[i, j + 6] * theta[j + 6]
            h += X[i, j + 7] * theta[j + 7]
        z = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for j in range(even, n_columns):
            z += X[i, j] * theta[j]
        residual = _logistic_residual(z + shift, codes[i])
        norm = abs(residual) * lengths[i]
        if norm > clip_norm:
            residual *= clip_norm / norm
        run_total += residual
        for j in range(n_columns):
            run[j] += residual * X[i, j]
        if (position + 1) % SUM_RUN == 0 or position == n_rows - 1:
            total += run_total
            out += run
            run_total = 0.0
            run[:] = 0.0
    return total


@njit(cache=True)
def _clip_softmax(z: Any, codes: Any, lengths: Any, clip_norm: float) -> None:
    """Overwrite logits by clipped residuals p - e_y."""
    n_outputs = z.shape[1]
    for i in range(z.shape[0]):
        top = z[i, 0]
        for k in range(1, n_outputs):
            top = max(top, z[i, k])
        mass = 0.0
        for k in range(n_outputs):
            z[i, k] = np.exp(z[i, k] - top)
            mass += z[i, k]
        square = 0.0
        for k in range(n_outputs):
            z[i, k] /= mass
            if k == codes[i]:
                z[i, k] -= 1.0
            square += z[i, k] * z[i, k]
        norm = np.sqrt(square) * lengths[i]
        if norm > clip_norm:
            for k in range(n_outputs):
                z[i, k] *= clip_norm / norm


@njit(cache=True)
def _clip_logistic(z: Any, codes: Any, lengths: Any, clip_norm: float) -> None:
    """Overwrite logits by clipped residuals sigma(z) - y."""
    for i in range(z.shape[0]):
        residual = _logistic_residual(z[i, 0], codes[i])
        norm = abs(residual) * lengths[i]
        z[i, 0] = residual * (clip_norm / norm) if norm > clip_norm else residual


@njit(cache=True)
def _csr_logits(data: Any, indices: Any, indptr: Any, rows: Any, theta: Any, out: Any) -> None:
    for position in range(rows.shape[0]):
        i = rows[position]
        for k in range(theta.shape[0]):
            total = 0.0
            for p in range(indptr[i], indptr[i + 1]):
                total += data[p] * theta[k, indices[p]]
            out[position, k] = total


@njit(cache=True)
def _csr_add_gradient(
    data: Any, indices: Any, indptr: Any, rows: Any, residual: Any, out: Any
) -> None:
    for position in range(rows.shape[0]):
        i = rows[position]
        for k in range(residual.shape[1]):
            for p in range(indptr[i], indptr[i + 1]):
                out[k, indices[p]] += residual[position, k] * data[p]


@njit(cache=True)
def _csr_add_moments(data: Any, indices: Any, indptr: Any, moments: Any) -> None:
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            for q in range(indptr[i], indptr[i + 1]):
                moments[indices[p], indices[q]] += data[p] * data[q]


def clipped_linear_gradient(
    theta: np.ndarray,
    shift: np.ndarray,
    X: Any,
    codes: np.ndarray,
    lengths: np.ndarray,
    clip_norm: float,
    rows: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the clipped gradients of a batch.

    Parameters
    ----------
    theta : ndarray of shape (K, d)
        Coefficients; one row for two classes (logistic), one per class otherwise (softmax).
    shift : ndarray of shape (K,)
        Added to the logits of every record.
    X : ndarray (C-ordered, float64) or CSR matrix of shape (n, d)
        All records.
    codes : ndarray of shape (n,)
        Their label codes.
    lengths : ndarray of shape (n,)
        The factor of each record's gradient norm that its row contributes.
    clip_norm : float
        Bound on the norm of one record's contribution; inf for none.
    rows : ndarray of int or None
        The batch; None for all records.

    Returns
    -------
    gradient : ndarray of shape (K, d)
        Sum of clipped residuals times rows.
    residuals : ndarray of shape (K,)
        Sum of clipped residuals.
    """
    clip = float(clip_norm) * (1.0 - CLIP_MARGIN)
    n_outputs, n_columns = theta.shape
    gradient = np.zeros((n_outputs, n_columns))
    if n_outputs == 1 and not sparse.issparse(X):
        batch = np.empty(0, dtype=np.int64) if rows is None else rows
        total = _binary_dense(
            theta[0], shift[0], X, codes, lengths, clip, batch, rows is None, gradient[0]
        )
        return gradient, np.array([total])
    totals = np.zeros(n_outputs)
    clipping = _clip_logistic if n_outputs == 1 else _clip_softmax
    n_rows = X.shape[0] if rows is None else rows.shape[0]
    for start in range(0, n_rows, SUM_RUN):
        stop = min(start + SUM_RUN, n_rows)
        part = np.arange(start, stop) if rows is None else rows[start:stop]
        if sparse.issparse(X):
            z = np.empty((stop - start, n_outputs))
            _csr_logits(X.data, X.indices, X.indptr, part, theta, z)
        else:
            values = X[start:stop] if rows is None else X[part]
            z = values @ theta.T
        z += shift
        clipping(z, codes[part], lengths[part], clip)
        totals += z.sum(axis=0)
        if sparse.issparse(X):
            run = np.zeros_like(gradient)
            _csr_add_gradient(X.data, X.indices, X.indptr, part, z, run)
            gradient += run
        else:
            gradient += z.T @ values
    return gradient, totals


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
