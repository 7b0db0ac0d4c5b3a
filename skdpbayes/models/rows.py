"""What a chain needs to know of its rows before it starts: their form, lengths and moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

__all__ = ["compact_rows", "quadratic_row_lengths", "second_moments"]

# A block of rows of this many bytes stays in a core's second-level cache.
BLOCK_BYTES = 1 << 19
# Rows with a smaller share of nonzero entries are shorter as (column, value) pairs.
SPARSE_SHARE = 0.25


@njit(cache=True)
def _csr_add_moments(data: Any, indices: Any, indptr: Any, moments: Any) -> None:
    for i in range(indptr.shape[0] - 1):
        for p in range(indptr[i], indptr[i + 1]):
            for q in range(indptr[i], indptr[i + 1]):
                moments[indices[p], indices[q]] += data[p] * data[q]


def compact_rows(X: Any) -> Any:
    """Return ``X`` without its zeros, as CSR, if that is shorter.

    `~skdpbayes.models.minibatch.clipped_linear_gradient` is the same for both forms to the last
    bit: only the time tells which one is used.

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
