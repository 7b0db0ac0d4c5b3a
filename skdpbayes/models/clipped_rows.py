"""Rows of any origin, cut to a public length and to integers on a public grid."""

from __future__ import annotations

import numpy as np


def clipped_integers(
    rows: np.ndarray,
    norm: float,
    unit: float,
    *,
    order: int = 2,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Clip each row to a length and cut it toward zero to integer multiples of ``unit``.

    A row with an entry that is not finite counts as zero. A margin covers the rounding of lengths,
    and cutting never lengthens, so that no row is longer than ``norm``, exactly.

    Parameters
    ----------
    rows : ndarray of shape (n, p)
        Floats, whatever they are.
    norm, unit : float
        The largest length, and the grid.
    order : {1, 2}, default=2
        Lengths are sums of absolute values, or Euclidean.
    weight : ndarray of shape (n,), default=None
        Rows are clipped before they are weighted, and cut after.
    """
    usable = np.isfinite(rows).all(axis=1)
    rows = np.where(usable[:, None], rows, 0.0)
    # lengths of rows over their largest entry neither overflow nor vanish
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    largest[largest == 0.0] = 1.0
    rows /= largest
    lengths = np.linalg.norm(rows, ord=order, axis=1, keepdims=True)
    margin = 1.0 - (rows.shape[1] + 32) * 2.0**-52
    with np.errstate(over="ignore"):
        room = norm / largest
    # |row| * largest is the length: below the norm it stays what it is
    factor = np.where(lengths <= room, largest, norm / np.maximum(lengths, 1.0)) * margin
    if weight is not None:
        factor = factor * weight[:, None]
    return np.trunc(rows * (factor / unit)).astype(np.int64)
