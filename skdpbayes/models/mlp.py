r"""Multilayer perceptrons: clipped sums of gradients without a gradient of any single record.

Layer *l* maps its input :math:`a_l` to :math:`a_{l+1} = f(a_l W_l + b_l)`, the last one to logits
(one for two classes, one per class otherwise). With :math:`\delta_l` the derivative of one record's
loss with respect to the layer's pre-activation, the record's gradient is
:math:`a_l^\top \delta_l` in :math:`W_l` and :math:`\delta_l` in :math:`b_l`, so its squared norm is

.. math:: \sum_l (\|a_l\|^2 + 1) \, \|\delta_l\|^2

(Goodfellow 2015). Scaling the record's :math:`\delta_l` by its clipping factor and adding the outer
products gives the clipped sum.

Parameters are one vector, layer by layer :math:`W_l` (row-major, inputs by outputs), then
:math:`b_l`. A record's :math:`a_l` and :math:`\delta_l` are computed in single precision, in an
order that does not depend on the other records of the batch; its norm and its products are
computed in double precision. Products are rounded to multiples of a unit that is large enough for
their sums to be exact (`sum_unit`), so the sum does not depend on the
order of the records, nor on how many threads share them, and a record that contributes nothing is
as good as none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numba import config, njit

# Contributions are kept this much (relative) below the clipping norm, whose products round.
CLIP_MARGIN = 1e-9
# A thread gets at least this many products of an input and a weight, about three milliseconds:
# waking it takes up to one.
LEAST_WORK = 1 << 23

Layers = list[tuple[np.ndarray, np.ndarray]]


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
    """Return the squared norm of every row, in double precision."""
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


@njit(cache=True)
def _add_product(a: Any, weights: Any, z: Any) -> None:
    """Add ``a @ weights`` to ``z``; inputs that are zero are passed over."""
    for j in range(a.shape[0]):
        value = a[j]
        if value != 0.0:
            for k in range(z.shape[0]):
                z[k] += value * weights[j, k]


@njit(cache=True)
def _add_outer(a: Any, d: Any, magic: float, total: Any) -> None:
    """Add the outer product of ``a`` and ``d``, each entry rounded to a multiple of the unit."""
    for j in range(a.shape[0]):
        value = np.float64(a[j])
        if value != 0.0:
            for k in range(d.shape[0]):
                total[j, k] += (value * d[k] + magic) - magic


@njit(cache=True, error_model="numpy")
def _tanh(z: Any) -> None:
    """Overwrite by tanh, to 2e-7: tanh x = 2 t / (1 + t^2), t the Pade fraction of tanh(x / 2).

    Plain arithmetic runs in vector registers, where a call for every number would not, nor would
    Python's test for a division by 0.
    """
    for k in range(z.shape[0]):
        x = np.float32(0.5) * min(max(z[k], np.float32(-9.0)), np.float32(9.0))
        s = x * x
        top = np.float32(135135.0) + s * (np.float32(17325.0) + s * (np.float32(378.0) + s))
        bottom = np.float32(135135.0) + s * (
            np.float32(62370.0) + s * (np.float32(3150.0) + s * np.float32(28.0))
        )
        t = x * top / bottom
        z[k] = np.float32(2.0) * t / (np.float32(1.0) + t * t)


@njit(cache=True)
def _to_residual(z: Any, code: int) -> None:
    """Overwrite logits by the derivative of the loss: logistic for one logit, else softmax."""
    one = np.float32(1.0)
    if z.shape[0] == 1:
        small = np.exp(-abs(z[0]))
        positive = one / (one + small) if z[0] >= 0.0 else small / (one + small)
        z[0] = positive - np.float32(code)
        return
    top = z[0]
    for k in range(1, z.shape[0]):
        top = max(top, z[k])
    mass = np.float32(0.0)
    for k in range(z.shape[0]):
        z[k] = np.exp(z[k] - top)
        mass += z[k]
    for k in range(z.shape[0]):
        z[k] /= mass
    z[code] -= one


@njit(cache=True)
def _square(values: Any) -> float:
    """Squared norm in double precision."""
    even = values.shape[0] - values.shape[0] % 4
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0  # four sums do not wait for each other
    for k in range(0, even, 4):
        first += np.float64(values[k]) * np.float64(values[k])
        second += np.float64(values[k + 1]) * np.float64(values[k + 1])
        third += np.float64(values[k + 2]) * np.float64(values[k + 2])
        fourth += np.float64(values[k + 3]) * np.float64(values[k + 3])
    for k in range(even, values.shape[0]):
        first += np.float64(values[k]) * np.float64(values[k])
    return (first + second) + (third + fourth)


@njit(cache=True, nogil=True)
def _clipped_sum(
    parameters: Any,
    backward: Any,
    sizes: Any,
    X: Any,
    codes: Any,
    shares: Any,
    lengths: Any,
    clip_norm: float,
    tanh: bool,
    rows: Any,
    magic: float,
    out: Any,
) -> None:
    """Add the clipped gradients of the rows to ``out``, record by record.

    ``backward`` holds the transposed weights at the places of the weights. A record whose norm is
    not finite contributes nothing; one with a share, of which there may be none, that much.
    """
    n_layers = sizes.shape[0] - 1
    width = sizes[1:].max()
    a = np.zeros((n_layers, width), dtype=np.float32)  # outputs of the layers
    delta = np.zeros((n_layers, width), dtype=np.float32)
    scaled = np.zeros(width)
    place = np.zeros(n_layers, dtype=np.int64)
    for layer in range(1, n_layers):
        place[layer] = place[layer - 1] + (sizes[layer - 1] + 1) * sizes[layer]
    for i in rows:
        for layer in range(n_layers):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            middle = place[layer] + n_in * n_out
            weights = parameters[place[layer] : middle].reshape(n_in, n_out)
            z = a[layer, :n_out]
            z[:] = parameters[middle : middle + n_out]
            _add_product(X[i] if layer == 0 else a[layer - 1, :n_in], weights, z)
            if layer < n_layers - 1:
                if tanh:
                    _tanh(z)
                else:
                    for k in range(n_out):
                        z[k] = max(z[k], np.float32(0.0))
        delta[n_layers - 1] = a[n_layers - 1]
        _to_residual(delta[n_layers - 1, : sizes[n_layers]], codes[i])
        square = 0.0
        for layer in range(n_layers - 1, -1, -1):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            d = delta[layer, :n_out]
            length = lengths[i] if layer == 0 else _square(a[layer - 1, :n_in])
            square += (length + 1.0) * _square(d)
            if layer > 0:
                middle = place[layer] + n_in * n_out
                weights = backward[place[layer] : middle].reshape(n_out, n_in)
                below, input_ = delta[layer - 1, :n_in], a[layer - 1, :n_in]
                below[:] = np.float32(0.0)
                _add_product(d, weights, below)
                for k in range(n_in):
                    if tanh:
                        below[k] *= np.float32(1.0) - input_[k] * input_[k]
                    elif input_[k] <= np.float32(0.0):
                        below[k] = np.float32(0.0)
        norm = np.sqrt(square)
        if not np.isfinite(norm):
            continue
        factor = clip_norm / norm if norm > clip_norm else 1.0
        if shares.shape[0] > 0:
            factor *= shares[i]
        for layer in range(n_layers):
            n_in, n_out = sizes[layer], sizes[layer + 1]
            middle = place[layer] + n_in * n_out
            d = scaled[:n_out]
            for k in range(n_out):
                d[k] = np.float64(delta[layer, k]) * factor
                out[middle + k] += (d[k] + magic) - magic
            total = out[place[layer] : middle].reshape(n_in, n_out)
            _add_outer(X[i] if layer == 0 else a[layer - 1, :n_in], d, magic, total)


def _n_threads() -> int:
    """As many threads as Numba and OpenMP may use; joblib's workers limit both."""
    limit = os.environ.get("OMP_NUM_THREADS", "")
    allowed: int = getattr(config, "NUMBA_NUM_THREADS")  # noqa: B009 (set at run time)
    return min(allowed, int(limit) if limit.isdigit() else 1 << 10)


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of a process; one that was forked has none of its parent's."""
    return ThreadPoolExecutor(_n_threads(), thread_name_prefix=f"skdpbayes-{process}")


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
    unit: float = 0.0,
    shares: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the clipped gradients of a batch.

    Parameters
    ----------
    parameters : ndarray of shape (p,)
        Weights and biases, layer by layer.
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
    lengths : ndarray of shape (n,), optional
        Squared norms of the rows of ``X``, which do not change from batch to batch.
    unit : float
        Contributions are rounded to multiples of it; 0 for no rounding.
    shares : ndarray of shape (n,), optional
        Weights in [0, 1] of the clipped gradients.

    Returns
    -------
    ndarray of float64, shape (p,)
    """
    lengths = squared_row_lengths(X) if lengths is None else lengths
    shares = np.empty(0) if shares is None else shares
    single = parameters.astype(np.float32)
    backward = single.copy()
    start = 0
    for n_in, n_out in pairwise(sizes):
        stop = start + n_in * n_out
        backward[start:stop] = single[start:stop].reshape(n_in, n_out).T.ravel()
        start = stop + n_out
    batch = np.arange(X.shape[0]) if rows is None else rows
    n_parts = max(1, min(_n_threads(), batch.shape[0] * parameters.shape[0] // LEAST_WORK))

    def add_up(part: np.ndarray) -> np.ndarray:
        total = np.zeros(parameters.shape[0])
        _clipped_sum(
            single,
            backward,
            np.asarray(sizes, dtype=np.int64),
            X,
            codes,
            shares,
            lengths,
            float(clip_norm) * (1.0 - CLIP_MARGIN),
            activation == "tanh",
            part,
            1.5 * 2.0**52 * unit,
            total,
        )
        return total

    if n_parts == 1:
        return add_up(batch)
    first, *others = np.array_split(batch, n_parts)
    running = [_threads(os.getpid()).submit(add_up, part) for part in others]
    total = add_up(first)
    for part in running:
        total += part.result()
    return total
