r"""Losses of linear classifiers at several coefficient vectors in one pass over the data.

Chains that move in step share each read of the data: ``thetas`` has shape (S, K, d), S chains of K
outputs (1 for two classes) and d coefficients, the constant feature's last. Values have shape (S,)
and gradients the shape of ``thetas``. Conventions are those of `skdpbayes.models.linear`.

The losses are ``"logistic"``, ``"softmax"``, ``"smooth_hinge"`` (with its ``width``) and
``"hinge"``, the exact :math:`\max(0, 1 - t)`, with its one-sided derivative 0 at the kink.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from skdpbayes.models.linear import _rows

__all__ = ["LOSSES", "chain_gradient", "chain_loss"]

LOSSES = ("logistic", "softmax", "smooth_hinge", "hinge")


@njit(cache=True)
def _logistic_residual(z: Any, codes: Any) -> None:
    """Overwrite logits by dl/dz = sigma(z) - code; e^-|z| never overflows."""
    for i in range(z.shape[0]):
        for s in range(z.shape[1]):
            value = z[i, s]
            small = np.exp(-abs(value))
            if codes[i] == 1:
                z[i, s] = -(small / (1.0 + small) if value >= 0.0 else 1.0 / (1.0 + small))
            else:
                z[i, s] = 1.0 / (1.0 + small) if value >= 0.0 else small / (1.0 + small)


@njit(cache=True)
def _add_logistic_values(z: Any, codes: Any, totals: Any) -> None:
    """Add log(1 + e^-t) of every record to the totals of the chains.

    The factors 1 + e^-|t| lie in [1, 2], so the logarithm of a product of up to 512 of them is
    taken at once.
    """
    for s in range(z.shape[1]):
        product = 1.0
        total = 0.0
        for i in range(z.shape[0]):
            margin = z[i, s] if codes[i] == 1 else -z[i, s]
            product *= 1.0 + np.exp(-abs(margin))
            total += max(-margin, 0.0)
            if i % 512 == 511:
                total += np.log(product)
                product = 1.0
        totals[s] += total + np.log(product)


@njit(cache=True)
def _hinge_residual(z: Any, codes: Any, width: float) -> None:
    """Overwrite logits by the derivative of the (for width > 0: smoothed) hinge loss."""
    for i in range(z.shape[0]):
        sign = 1.0 if codes[i] == 1 else -1.0
        for s in range(z.shape[1]):
            gap = 1.0 - sign * z[i, s]
            if gap <= 0.0:
                z[i, s] = 0.0
            elif gap < width:
                z[i, s] = -sign * gap / width
            else:
                z[i, s] = -sign


@njit(cache=True)
def _add_hinge_values(z: Any, codes: Any, width: float, totals: Any) -> None:
    """Add h(1 - t): 0 below 0, gap^2 / (2 width) up to the width, gap - width / 2 beyond."""
    for i in range(z.shape[0]):
        sign = 1.0 if codes[i] == 1 else -1.0
        for s in range(z.shape[1]):
            gap = 1.0 - sign * z[i, s]
            if gap >= width and gap > 0.0:
                totals[s] += gap - 0.5 * width
            elif gap > 0.0:
                totals[s] += gap * gap / (2.0 * width)


@njit(cache=True)
def _softmax_residual(z: Any, codes: Any, n_outputs: int) -> None:
    """Overwrite the logits of every chain by p - e_y."""
    for i in range(z.shape[0]):
        for first in range(0, z.shape[1], n_outputs):
            top = z[i, first]
            for k in range(first + 1, first + n_outputs):
                top = max(top, z[i, k])
            mass = 0.0
            for k in range(first, first + n_outputs):
                z[i, k] = np.exp(z[i, k] - top)
                mass += z[i, k]
            for k in range(first, first + n_outputs):
                z[i, k] /= mass
            z[i, first + codes[i]] -= 1.0


@njit(cache=True)
def _add_softmax_values(z: Any, codes: Any, n_outputs: int, totals: Any) -> None:
    """Add lse(z) - z_y of every record to the totals of the chains."""
    for i in range(z.shape[0]):
        for s in range(totals.shape[0]):
            first = s * n_outputs
            top = z[i, first]
            for k in range(first + 1, first + n_outputs):
                top = max(top, z[i, k])
            mass = 0.0
            for k in range(first, first + n_outputs):
                mass += np.exp(z[i, k] - top)
            totals[s] += np.log(mass) + top - z[i, first + codes[i]]


@njit(cache=True)
def _margin_residual(z: float, code: int, logistic: bool, width: float) -> float:
    """Return dl/dz of one record: logistic, or hinge smoothed over ``width``."""
    if logistic:
        small = np.exp(-abs(z))
        if code == 1:
            return -(small / (1.0 + small)) if z >= 0.0 else -1.0 / (1.0 + small)
        return 1.0 / (1.0 + small) if z >= 0.0 else small / (1.0 + small)
    sign = 1.0 if code == 1 else -1.0
    gap = 1.0 - sign * z
    if gap <= 0.0:
        return 0.0
    return -sign * gap / width if gap < width else -sign


@njit(cache=True)
def _margin_gradient(
    theta: Any, X: Any, codes: Any, constant: float, logistic: bool, width: float, block: int
) -> Any:
    """Gradient of dense rows at one coefficient vector, summed by row, then over blocks.

    A row is still in the first-level cache when its residual is known, which makes this twice as
    fast as two matrix-vector products. Eight partial sums let the compiler use vector registers
    without reordering any sum.
    """
    n_columns = X.shape[1]
    even = n_columns - n_columns % 8
    shift = constant * theta[n_columns] if constant != 0.0 else 0.0
    gradient = np.zeros_like(theta)
    part = np.zeros_like(theta)
    for i in range(X.shape[0]):
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
        residual = _margin_residual(z + shift, codes[i], logistic, width)
        if residual != 0.0:
            for j in range(n_columns):
                part[j] += residual * X[i, j]
            if constant != 0.0:
                part[n_columns] += constant * residual
        if (i + 1) % block == 0 or i == X.shape[0] - 1:
            gradient += part
            part[:] = 0.0
    return gradient


def _add_values(
    loss: str, z: np.ndarray, codes: np.ndarray, n_outputs: int, width: float, totals: np.ndarray
) -> None:
    if loss == "logistic":
        _add_logistic_values(z, codes, totals)
    elif loss == "softmax":
        _add_softmax_values(z, codes, n_outputs, totals)
    else:
        _add_hinge_values(z, codes, width, totals)


def _to_residual(loss: str, z: np.ndarray, codes: np.ndarray, n_outputs: int, width: float) -> None:
    if loss == "logistic":
        _logistic_residual(z, codes)
    elif loss == "softmax":
        _softmax_residual(z, codes, n_outputs)
    else:
        _hinge_residual(z, codes, width)


def _pass(
    loss: str,
    thetas: np.ndarray,
    X: Any,
    codes: np.ndarray,
    constant: float,
    width: float,
    values: bool,
    gradients: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Read the data once; form values, gradients or both."""
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {LOSSES}; got {loss!r}.")
    width = width if loss == "smooth_hinge" else 0.0
    n_chains, n_outputs, n_features = thetas.shape
    flat = np.ascontiguousarray(thetas, dtype=np.float64).reshape(-1, n_features)
    rows = _rows(X, constant)
    totals = np.zeros(n_chains)
    if flat.shape[0] == 1 and not values and not sparse.issparse(X):
        gradient = _margin_gradient(
            flat[0], X, codes, float(constant), loss == "logistic", width, rows.block
        )
        return totals, gradient.reshape(thetas.shape)
    gradient = np.zeros_like(flat)
    logits = np.empty((rows.block, flat.shape[0]))
    for start, stop in rows.blocks():
        z, labels = logits[: stop - start], codes[start:stop]
        rows.logits(start, stop, flat, z)
        if values:
            _add_values(loss, z, labels, n_outputs, width, totals)
        if gradients:
            _to_residual(loss, z, labels, n_outputs, width)
            rows.add_gradient(start, stop, z, gradient)
    return totals, gradient.reshape(thetas.shape)


def chain_loss(
    loss: str,
    thetas: np.ndarray,
    X: Any,
    codes: np.ndarray,
    constant: float = 0.0,
    *,
    width: float = 0.0,
) -> np.ndarray:
    """Loss of every chain, summed over records.

    Parameters
    ----------
    loss : {"logistic", "softmax", "smooth_hinge", "hinge"}
        The loss of a record.
    thetas : ndarray of shape (S, K, d)
        Coefficients of the chains.
    X : ndarray or CSR matrix of shape (n, d) or (n, d - 1)
        Records without their constant feature.
    codes : ndarray of shape (n,)
        Label codes.
    constant : float
        The constant feature; 0 for none.
    width : float
        Smoothing width of ``"smooth_hinge"``.

    Returns
    -------
    ndarray of shape (S,)
    """
    return _pass(loss, thetas, X, codes, constant, width, True, False)[0]


def chain_gradient(
    loss: str,
    thetas: np.ndarray,
    X: Any,
    codes: np.ndarray,
    constant: float = 0.0,
    *,
    width: float = 0.0,
    with_value: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient of every chain's loss; its value too if ``with_value`` (zeros otherwise).

    Parameters are those of `chain_loss`.

    Returns
    -------
    values : ndarray of shape (S,)
    gradients : ndarray of shape (S, K, d)
    """
    return _pass(loss, thetas, X, codes, constant, width, with_value, True)
