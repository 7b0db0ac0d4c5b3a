"""Sufficient statistics of class-conditional models, in one pass over the rows.

Every statistic is an integer: counts, and sums on a public fixed-point grid. Integer sums do not
depend on the order of summation, so their sensitivity is exact and discrete noise can be added
without any rounding argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

GRID = 1024
"""Steps of the fixed-point grid on [0, 1]; a standardized value is a multiple of 1 / GRID."""


@njit(cache=True)
def count_categories(
    X: np.ndarray,
    columns: np.ndarray,
    codes: np.ndarray,
    starts: np.ndarray,
    sizes: np.ndarray,
    counts: np.ndarray,
) -> int:
    """Add the rows to the class-by-value tables of categorical columns.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Category codes 0, 1, ..., of any numeric type.
    columns : int array of shape (n_tables,)
        The columns to count.
    codes : int array of shape (n_samples,)
        Class of each row.
    starts, sizes : int arrays of shape (n_tables,)
        First cell of each table in ``counts``, and its number of cells.
    counts : int64 array of shape (n_classes, n_cells)
        Added to in place.

    Returns
    -------
    int
        -1, or the first column that holds a value which is not a code of its table.
    """
    for i in range(X.shape[0]):
        c = codes[i]
        for t in range(columns.shape[0]):
            value = X[i, columns[t]]
            # before the cast, which wraps wide or unsigned integers around
            if not (value >= 0 and value < sizes[t]) or np.int64(value) != value:
                return columns[t]
            counts[c, starts[t] + np.int64(value)] += 1
    return -1


@njit(cache=True)
def _ones_dense(
    X: np.ndarray, columns: np.ndarray, codes: np.ndarray, threshold: float, ones: np.ndarray
) -> None:
    for i in range(X.shape[0]):
        for t in range(columns.shape[0]):
            if X[i, columns[t]] > threshold:
                ones[codes[i], t] += 1


@njit(cache=True)
def _ones_sparse(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    codes: np.ndarray,
    threshold: float,
    ones: np.ndarray,
) -> None:
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            if data[k] > threshold:
                ones[codes[i], indices[k]] += 1


def count_ones(
    X: Any,
    columns: np.ndarray,
    codes: np.ndarray,
    threshold: float,
    n_classes: int,
) -> np.ndarray:
    """Count values above ``threshold`` for each class and column.

    A sparse ``X`` needs ``threshold >= 0``, canonical format and all columns in order.

    Returns
    -------
    int64 array of shape (n_classes, n_columns)
    """
    ones = np.zeros((n_classes, columns.shape[0]), dtype=np.int64)
    if sparse.issparse(X):
        _ones_sparse(X.data, X.indices, X.indptr, codes, threshold, ones)
    else:
        _ones_dense(X, columns, codes, threshold, ones)
    return ones


def clip_tokens(X: Any, max_total: int) -> Any:
    """Scale rows of counts down to a total of at most ``max_total``, keeping them integer.

    A row of total ``T > max_total`` becomes the increments of ``floor(cumulative * max_total /
    T)``: proportional to within one count, total exactly ``max_total``, a function of the row
    alone.
    """
    X = X.copy()
    if sparse.issparse(X):
        _clip_sparse(X.data, X.indptr, max_total)
    else:
        _clip_dense(X, max_total)
    return X


@njit(cache=True)
def _clip_dense(X: np.ndarray, max_total: int) -> None:
    for i in range(X.shape[0]):
        _clip_row(X[i], max_total)


@njit(cache=True)
def _clip_sparse(data: np.ndarray, indptr: np.ndarray, max_total: int) -> None:
    for i in range(indptr.shape[0] - 1):
        _clip_row(data[indptr[i] : indptr[i + 1]], max_total)


@njit(cache=True)
def _clip_row(row: np.ndarray, max_total: int) -> None:
    # In floats: an integer sum of huge counts would wrap around and look small. Rounded sums of
    # non-negative numbers still grow, and end at the same total, which is all that is needed.
    largest = 0.0
    for j in range(row.shape[0]):
        largest = max(largest, float(row[j]))
    unit = 1.0 if largest < 2.0**53 else largest
    total = 0.0
    for j in range(row.shape[0]):
        total += float(row[j]) / unit
    if unit == 1.0 and total <= max_total:
        return
    cumulative = 0.0
    before = 0.0
    for j in range(row.shape[0]):
        cumulative += float(row[j]) / unit
        now = np.floor(cumulative / total * max_total)
        row[j] = now - before
        before = now


@njit(cache=True)
def _tokens_dense(X: np.ndarray, codes: np.ndarray, counts: np.ndarray) -> None:
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            counts[codes[i], j] += np.int64(X[i, j])


@njit(cache=True)
def _tokens_sparse(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    codes: np.ndarray,
    counts: np.ndarray,
) -> None:
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            counts[codes[i], indices[k]] += np.int64(data[k])


def count_tokens(X: Any, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Sum integer counts for each class and column.

    Returns
    -------
    int64 array of shape (n_classes, n_features)
    """
    counts = np.zeros((n_classes, X.shape[1]), dtype=np.int64)
    if sparse.issparse(X):
        _tokens_sparse(X.data, X.indices, X.indptr, codes, counts)
    else:
        _tokens_dense(X, codes, counts)
    return counts


@njit(cache=True)
def sum_moments(
    X: np.ndarray,
    columns: np.ndarray,
    codes: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    offset: int,
    n_classes: int,
) -> np.ndarray:
    r"""Sum the standardized values and their squares on the fixed-point grid.

    A value is clipped to its bounds :math:`[a, b]` and standardized to
    :math:`t = (2x - a - b)/(b - a) \in [-1, 1]`, then rounded to :math:`\tau = \mathrm{round}(1024
    \, t)`. The statistics are :math:`\sum \tau` and :math:`\sum (\mathrm{offset} - \tau^2)`, exact
    integers.

    Returns
    -------
    int64 array of shape (n_classes, n_columns, 2)
    """
    sums = np.zeros((n_classes, columns.shape[0], 2), dtype=np.int64)
    for i in range(X.shape[0]):
        c = codes[i]
        for f in range(columns.shape[0]):
            x = min(max(float(X[i, columns[f]]), low[f]), high[f])
            # Halves first: the difference of two bounds may overflow, their halves do not.
            half = 0.5 * high[f] - 0.5 * low[f]
            t = (x - (0.5 * high[f] + 0.5 * low[f])) / half
            tau = np.int64(np.rint(min(max(t, -1.0), 1.0) * GRID))
            sums[c, f, 0] += tau
            sums[c, f, 1] += offset - tau * tau
    return sums
