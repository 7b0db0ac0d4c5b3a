r"""Clipped sums of gradients that were made record by record, exact whatever their order.

A block holds one record's gradient per row, in single precision and in pieces (one per parameter
of a model). With :math:`\nu_i` the length of row *i* over all pieces, the sum is
:math:`\sum_i \min(1, L / \nu_i)\, g_i`. Lengths and products are double precision, and every
product is rounded to a multiple of a unit so large that sums are exact
(`~skdpbayes.models.sum_unit`): a sum is the sum of one number per record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

# Contributions are kept this much (relative) below the clipping norm, whose products round.
CLIP_MARGIN = 1e-9


@njit(cache=True, nogil=True)
def _add_squares(piece: Any, squares: Any) -> None:
    """Add the squared length of every row, in double precision."""
    even = piece.shape[1] - piece.shape[1] % 8
    part = np.zeros(8)  # eight sums do not wait for each other
    for i in range(piece.shape[0]):
        part[:] = 0.0
        for j in range(0, even, 8):
            for k in range(8):
                value = np.float64(piece[i, j + k])
                part[k] += value * value
        for j in range(even, piece.shape[1]):
            value = np.float64(piece[i, j])
            part[0] += value * value
        squares[i] += part.sum()


@njit(cache=True, nogil=True)
def _add_scaled(piece: Any, factors: Any, magic: float, out: Any) -> None:
    """Add the rows times their factors, each entry rounded to a multiple of the unit."""
    for i in range(piece.shape[0]):
        factor = factors[i]
        if factor != 0.0:  # a row that is not finite has factor 0, and 0 * inf is not 0
            for j in range(piece.shape[1]):
                out[j] += (np.float64(piece[i, j]) * factor + magic) - magic


def add_clipped_records(
    pieces: Sequence[np.ndarray],
    clip_norm: float,
    unit: float,
    out: np.ndarray,
    shares: np.ndarray | None = None,
) -> None:
    """Add the clipped gradients of a block of records to ``out``.

    A record whose gradient is not finite contributes nothing.

    Parameters
    ----------
    pieces : sequence of ndarrays of shape (m, p_k), C-ordered
        Row i of all pieces together is the gradient of record i.
    clip_norm : float
        Bound on the norm of one record's contribution; inf for none.
    unit : float
        Contributions are rounded to multiples of it; 0 for no rounding.
    out : ndarray of float64, shape (sum of p_k,)
        Changed in place.
    shares : ndarray of shape (m,), optional
        Weights in [0, 1] of the clipped gradients.
    """
    squares = np.zeros(pieces[0].shape[0])
    for piece in pieces:
        _add_squares(piece, squares)
    norms = np.sqrt(squares)
    clip = float(clip_norm) * (1.0 - CLIP_MARGIN)
    factors = np.where(norms > clip, clip / np.maximum(norms, np.finfo(float).tiny), 1.0)
    factors[~np.isfinite(norms)] = 0.0
    if shares is not None:
        factors *= shares
    start = 0
    for piece in pieces:
        stop = start + piece.shape[1]
        _add_scaled(piece, factors, 1.5 * 2.0**52 * unit, out[start:stop])
        start = stop
