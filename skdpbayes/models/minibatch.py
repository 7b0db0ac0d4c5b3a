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
coefficients alone: the terms of a binary logit are rounded in the same way, and those of a softmax
logit are added in the order of the columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "clipped_linear_gradient",
    "sum_unit",
]

# Rows whose addresses are looked up ahead of their sums.
AHEAD = 256
# Products of floats round; contributions are kept this much (relative) below the clipping norm.
CLIP_MARGIN = 1e-9
NO_ROWS = np.empty(0, dtype=np.int64)


@njit(cache=True)
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
def _rounder(n_terms: int, largest: float) -> float:
    """Return what, added and subtracted again, rounds to a multiple of `sum_unit`."""
    return 1.5 * 2.0**52 * sum_unit(n_terms, largest)


@njit(cache=True)
def _clipped_residual(z: float, code: int, length: float, clip_norm: float) -> float:
    residual = _logistic_residual(z, code)
    norm = abs(residual) * length
    return residual * (clip_norm / norm) if norm > clip_norm else residual


@njit(cache=True)
def _binary_dense(
    theta: Any,
    X: Any,
    codes: Any,
    lengths: Any,
    clip_norm: float,
    rows: Any,
    whole: bool,
    data_norm: float,
    out: Any,
) -> None:
    """Add the clipped gradients of dense rows to ``out``.

    A row is still in the first-level cache when its residual is known. Eight partial sums, all of
    them exact, let the compiler use vector registers.
    """
    n_columns = X.shape[1]
    even = n_columns - n_columns % 8
    magic, magic_last = _rounder(codes.shape[0], data_norm), _rounder(codes.shape[0], 1.0)
    near = _rounder(n_columns, data_norm * np.max(np.abs(theta)))
    part = np.empty(8)
    total = 0.0
    n_rows = X.shape[0] if whole else rows.shape[0]
    for position in range(n_rows):
        i = position if whole else rows[position]
        part[:] = 0.0
        for j in range(0, even, 8):
            for k in range(8):
                part[k] += (X[i, j + k] * theta[j + k] + near) - near
        z = part.sum()
        for j in range(even, n_columns):
            z += (X[i, j] * theta[j] + near) - near
        residual = _clipped_residual(z + theta[n_columns], codes[i], lengths[i], clip_norm)
        total += (residual + magic_last) - magic_last
        for j in range(n_columns):
            out[j] += (residual * X[i, j] + magic) - magic
    out[n_columns] += total


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
    data_norm: float,
    out: Any,
) -> None:
    """Add the clipped gradients of compressed rows to ``out``.

    Rows of a batch lie far apart: reading the ends of many of them first lets their cache misses
    overlap, which they do not when each is followed by the arithmetic of its row. Unsigned indices
    spare the test for negative ones.
    """
    magic, magic_last = _rounder(codes.shape[0], data_norm), _rounder(codes.shape[0], 1.0)
    n_columns = theta.shape[0] - 1
    near = _rounder(n_columns, data_norm * np.max(np.abs(theta)))
    first, last = np.empty(AHEAD, dtype=np.int64), np.empty(AHEAD, dtype=np.int64)
    label, length = np.empty(AHEAD, dtype=np.int64), np.empty(AHEAD)
    ends = np.zeros(AHEAD)  # written so that the reads are not optimized away
    total = 0.0
    n_rows = indptr.shape[0] - 1 if whole else rows.shape[0]
    for start in range(0, n_rows, AHEAD):
        count = min(AHEAD, n_rows - start)
        for r in range(count):
            i = np.uint64(start + r if whole else rows[start + r])
            first[r], last[r] = indptr[i], indptr[i + np.uint64(1)]
            label[r], length[r] = codes[i], lengths[i]
            if last[r] > first[r]:
                begin, end = np.uint64(first[r]), np.uint64(last[r] - 1)
                ends[r] = data[begin] + data[end] + indices[begin]
        for r in range(count):
            begin, end = np.uint64(first[r]), np.uint64(last[r])
            z = 0.0
            for p in range(begin, end):
                z += (data[p] * theta[np.uint64(indices[p])] + near) - near
            z += theta[n_columns]
            residual = _clipped_residual(z, label[r], length[r], clip_norm)
            total += (residual + magic_last) - magic_last
            for p in range(begin, end):
                out[np.uint64(indices[p])] += (residual * data[p] + magic) - magic
    out[n_columns] += total


@njit(cache=True)
def _langevin_steps(
    position: Any,
    lift: Any,
    precision: Any,
    tails: Any,
    largest: float,
    compressed: bool,
    X: Any,
    data: Any,
    indices: Any,
    indptr: Any,
    codes: Any,
    lengths: Any,
    clip: float,
    norm: float,
    rows: Any,
    starts: Any,
    whole: bool,
    noise: Any,
    grids: Any,
    step_sizes: Any,
    rate: float,
    states: Any,
) -> None:
    """Write the states after every step; ``position`` is the one before.

    See `~skdpbayes.models.minibatch_chain.langevin_batch_steps`. It stands here because a compiled
    kernel is taken from the cache until its own file changes, whatever it has inlined.
    """
    size = position.shape[0]
    theta = np.zeros(lift.shape[0])  # without an intercept the last stays 0
    sums, pull = np.empty(lift.shape[0]), np.empty(size)
    for t in range(states.shape[0]):
        for j in range(size):
            value = position[j] * lift[j]
            pull[j] = value * precision[j] / (1.0 + (value / tails[j]) ** 2) * lift[j]
            if not abs(value) <= largest:  # too large, or not a number
                value = -largest if value < 0.0 else largest
            theta[j] = value
        sums[:] = 0.0
        batch = rows if whole else rows[starts[t] : starts[t + 1]]
        if compressed:
            _binary_csr(
                theta, data, indices, indptr, codes, lengths, clip, batch, whole, norm, sums
            )
        else:
            _binary_dense(theta, X, codes, lengths, clip, batch, whole, norm, sums)
        for j in range(size):
            released = np.rint(sums[j] * lift[j] / grids[t]) + noise[t, j]
            gradient = released * (grids[t] / rate) + pull[j]
            states[t, j] = position[j] - step_sizes[t] * gradient
        position = states[t]


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
    data_norm: float,
    out: Any,
) -> None:
    """Add the clipped gradients of dense rows; ``theta`` and ``out`` have a column per class."""
    magic, magic_last = _rounder(codes.shape[0], data_norm), _rounder(codes.shape[0], 1.0)
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
    data_norm: float,
    out: Any,
) -> None:
    """Add the clipped gradients of compressed rows; as `_softmax_dense`."""
    magic, magic_last = _rounder(codes.shape[0], data_norm), _rounder(codes.shape[0], 1.0)
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


def clipped_linear_gradient(
    theta: np.ndarray,
    X: Any,
    codes: np.ndarray,
    lengths: np.ndarray,
    clip_norm: float,
    data_norm: float,
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
    data_norm : float
        Bound on the length of every row.
    rows : ndarray of int or None
        The batch; None for all records.

    Returns
    -------
    ndarray of shape (K, d + 1)
        Sum of clipped residuals times rows, multiples of ``sum_unit(n, data_norm)``, and, last, of
        clipped residuals, multiples of ``sum_unit(n, 1)``.
    """
    clip = float(clip_norm) * (1.0 - CLIP_MARGIN)
    compressed = not isinstance(X, np.ndarray)
    data = (X.data, X.indices, X.indptr) if compressed else (X,)
    batch = NO_ROWS if rows is None else rows
    rest = (codes, lengths, clip, batch, rows is None, float(data_norm))
    if theta.shape[0] == 1:
        out = np.zeros(theta.shape)
        binary: Any = _binary_csr if compressed else _binary_dense
        binary(theta[0], *data, *rest, out[0])
        return out
    columns = np.ascontiguousarray(theta.T)
    out = np.zeros(columns.shape)
    softmax: Any = _softmax_csr if compressed else _softmax_dense
    softmax(columns, *data, *rest, out)
    return np.ascontiguousarray(out.T)
