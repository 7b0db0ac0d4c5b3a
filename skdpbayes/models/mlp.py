r"""Multilayer perceptrons: clipped sums of gradients without a gradient of any single record.

Layer *l* maps its input :math:`a_l` to :math:`a_{l+1} = f(a_l W_l + b_l)`, the last one to logits
(one for two classes, one a class otherwise). With :math:`\delta_l` the derivative of one record's
loss with respect to the layer's pre-activation, the record's gradient is
:math:`a_l^\top \delta_l` in :math:`W_l` and :math:`\delta_l` in :math:`b_l`, so its squared norm is

.. math:: \sum_l (\|a_l\|^2 + 1) \, \|\delta_l\|^2

(Goodfellow 2015). Backpropagation is linear in the last :math:`\delta`, hence scaling the record's
:math:`\delta_l` by its clipping factor and multiplying matrices gives the clipped sum.

Parameters are one vector, layer by layer :math:`W_l` (row-major, inputs by outputs), then
:math:`b_l`. Arithmetic is in single precision, sums over blocks of rows in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "clipped_network_gradient",
    "network_layers",
    "network_logits",
    "network_size",
    "squared_row_lengths",
]

# Rows of a block: large enough for fast products, small enough to stay in the caches.
BLOCK_ROWS = 512
# Contributions are kept this much (relative) below the clipping norm: their norms are computed in
# single precision.
CLIP_MARGIN = 1e-5

Layers = list[tuple[np.ndarray, np.ndarray]]


def network_size(sizes: Sequence[int]) -> int:
    """Return the number of parameters of a network with these layer sizes, input to output."""
    return sum(a * b + b for a, b in pairwise(sizes))


def network_layers(parameters: np.ndarray, sizes: Sequence[int]) -> Layers:
    """Return the weights (..., inputs, outputs) and biases (..., outputs) as views.

    Parameters
    ----------
    parameters : ndarray of shape (..., p)
        Parameter vectors.
    sizes : sequence of int
        Layer sizes, input to output.
    """
    layers, start = [], 0
    lead = parameters.shape[:-1]
    for n_in, n_out in pairwise(sizes):
        middle, stop = start + n_in * n_out, start + n_in * n_out + n_out
        weights = parameters[..., start:middle].reshape(*lead, n_in, n_out)
        layers.append((weights, parameters[..., middle:stop]))
        start = stop
    return layers


def squared_row_lengths(X: np.ndarray) -> np.ndarray:
    """Return the squared norm of every row, in single precision."""
    return np.einsum("ij,ij->i", X, X, dtype=np.float32)


@njit(cache=True)
def _residuals(z: Any, codes: Any) -> None:
    """Overwrite logits by the derivative of the loss: logistic for one logit, else softmax."""
    one = np.float32(1.0)
    n_outputs = z.shape[1]
    for i in range(z.shape[0]):
        if n_outputs == 1:
            small = np.exp(-abs(z[i, 0]))
            positive = one / (one + small) if z[i, 0] >= 0.0 else small / (one + small)
            z[i, 0] = positive - np.float32(codes[i])
            continue
        top = z[i, 0]
        for k in range(1, n_outputs):
            top = max(top, z[i, k])
        mass = np.float32(0.0)
        for k in range(n_outputs):
            z[i, k] = np.exp(z[i, k] - top)
            mass += z[i, k]
        for k in range(n_outputs):
            z[i, k] /= mass
        z[i, codes[i]] -= one


@njit(cache=True)
def _back_through(delta: Any, a: Any, tanh: bool) -> None:
    """Multiply by the derivative of the activation, from its value ``a``."""
    one, zero = np.float32(1.0), np.float32(0.0)
    for i in range(delta.shape[0]):
        for j in range(delta.shape[1]):
            if tanh:
                delta[i, j] *= one - a[i, j] * a[i, j]
            elif a[i, j] <= zero:
                delta[i, j] = zero


@njit(cache=True)
def _add_squares(delta: Any, lengths: Any, squares: Any) -> None:
    """Add (|a|^2 + 1) |delta|^2 of every record."""
    for i in range(delta.shape[0]):
        total = np.float32(0.0)
        for j in range(delta.shape[1]):
            total += delta[i, j] * delta[i, j]
        squares[i] += (lengths[i] + np.float32(1.0)) * total


@njit(cache=True)
def _clip_factors(squares: Any, clip_norm: float, out: Any) -> None:
    """Factor of every record; 0 where the norm overflowed, so that nothing else can leak."""
    for i in range(squares.shape[0]):
        norm = np.sqrt(np.float64(squares[i]))
        if not np.isfinite(norm):
            out[i] = np.float32(0.0)
        else:
            out[i] = np.float32(clip_norm / norm) if norm > clip_norm else np.float32(1.0)


@njit(cache=True)
def _scale_rows(delta: Any, factors: Any) -> None:
    """Multiply rows by their factors; a zero factor clears whatever overflowed."""
    zero = np.float32(0.0)
    for i in range(delta.shape[0]):
        for j in range(delta.shape[1]):
            delta[i, j] = delta[i, j] * factors[i] if factors[i] > zero else zero


def _activate(z: np.ndarray, activation: str) -> np.ndarray:
    if activation == "tanh":
        return np.tanh(z, out=z)
    return np.maximum(z, np.float32(0.0), out=z)


def network_logits(layers: Layers, X: np.ndarray, activation: str) -> np.ndarray:
    """Return the logits of the rows of ``X``.

    Parameters
    ----------
    layers : list of (weights, biases)
        From `network_layers`.
    X : ndarray of shape (n, d)
        Rows.
    activation : {"tanh", "relu"}
        Of the hidden layers.

    Returns
    -------
    ndarray of shape (n, K)
    """
    a = X
    for number, (weights, biases) in enumerate(layers):
        a = a @ weights
        a += biases
        if number < len(layers) - 1:
            a = _activate(a, activation)
    return a


def clipped_network_gradient(
    parameters: np.ndarray,
    sizes: Sequence[int],
    X: np.ndarray,
    codes: np.ndarray,
    clip_norm: float,
    activation: str,
    rows: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the clipped gradients of a batch.

    Parameters
    ----------
    parameters : ndarray of shape (p,)
        See the module.
    sizes : sequence of int
        Layer sizes, input to output.
    X : ndarray of float32, shape (n, d)
        All records.
    codes : ndarray of shape (n,)
        Their label codes.
    clip_norm : float
        Bound on the norm of one record's contribution; inf for none.
    activation : {"tanh", "relu"}
        Of the hidden layers.
    rows : ndarray of int or None
        The batch; None for all records.
    lengths : ndarray of float32, shape (n,), optional
        Squared norms of the rows of ``X``, which do not change from batch to batch.

    Returns
    -------
    ndarray of float64, shape (p,)
    """
    layers = network_layers(parameters.astype(np.float32), sizes)
    lengths = squared_row_lengths(X) if lengths is None else lengths
    total = np.zeros(parameters.shape[0])
    parts = network_layers(total, sizes)
    n_rows = X.shape[0] if rows is None else rows.shape[0]
    clip = float(clip_norm) * (1.0 - CLIP_MARGIN)
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of the data
        for start in range(0, n_rows, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, n_rows)
            part = slice(start, stop) if rows is None else rows[start:stop]
            _add_block(layers, X[part], codes[part], lengths[part], clip, activation, parts)
    return total


def _add_block(
    layers: Layers,
    X: np.ndarray,
    codes: np.ndarray,
    lengths: np.ndarray,
    clip_norm: float,
    activation: str,
    parts: Layers,
) -> None:
    """Add the clipped gradients of a block of rows to ``parts``."""
    inputs = [X]
    for weights, biases in layers[:-1]:
        z = inputs[-1] @ weights
        z += biases
        inputs.append(_activate(z, activation))
    delta = inputs[-1] @ layers[-1][0]
    delta += layers[-1][1]
    _residuals(delta, codes)
    squares = np.zeros(X.shape[0], dtype=np.float32)
    deltas = [delta]
    for number in range(len(layers) - 1, 0, -1):
        _add_squares(delta, squared_row_lengths(inputs[number]), squares)
        delta = delta @ layers[number][0].T
        _back_through(delta, inputs[number], activation == "tanh")
        deltas.append(delta)
    _add_squares(delta, lengths, squares)
    factors = np.empty(X.shape[0], dtype=np.float32)
    _clip_factors(squares, clip_norm, factors)
    for (weights, biases), a, delta in zip(parts, inputs, reversed(deltas), strict=True):
        _scale_rows(delta, factors)
        if not np.isfinite(a).all():
            a = np.where(np.isfinite(a), a, np.float32(0.0))
        weights += a.T @ delta
        biases += delta.sum(axis=0, dtype=np.float64)
