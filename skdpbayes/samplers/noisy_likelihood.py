r"""Probability of a noisy count, the true one summed out: Poisson counts under discrete noise.

.. math::
    p(y \mid \mu) = \sum_{n \ge 0} e^{-\mu} \frac{\mu^n}{n!} \, w(y - n), \qquad
    w(k) = e^{-|k|/s} \ \text{or} \ e^{-k^2/(2s^2)} .

With it a sampler redraws whatever the rates depend on with the true counts integrated out, which
mixes where the noise is larger than the counts; alternating between the two would not move.

The terms are log-concave in n: the sum runs outward from the largest one. Where the noise is wide
the same few noisy counts meet many rates, and log p is a smooth function of :math:`\sqrt\mu` (its
second derivative lies near -4 times the share of the Poisson law in the variance), so it is
tabulated once on an even grid of :math:`\sqrt\mu` for every distinct y and interpolated cubically.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skdpbayes.samplers.noisy_counts import _noise_code, _ratio

_SPACING = 0.1  # of the grid in sqrt(rate)
_LARGEST_TABLE = 4_000_000  # entries; larger ones would not pay
# Where third differences on the grid are larger (narrow noise near a rate of zero, far tails) the
# cubic is not trusted and the sum is done; elsewhere it errs by less than 1e-3.
_LARGEST_TWIST = 0.02
_NEGLIGIBLE = 1e-10  # a term this much smaller than the sum so far ends a tail


class NoisyPoissonLikelihood:
    """Log-probability of whole steps of noisy counts in every state.

    Parameters
    ----------
    noisy : int array of shape (n_steps, n_values)
        The released counts.
    noise : {"laplace", "gaussian"}
        The noise law.
    scale : float
        The scale of the noise.
    max_rate : float
        Rates up to here are tabulated; larger ones are summed when they occur.
    """

    def __init__(self, noisy: np.ndarray, noise: str, scale: float, max_rate: float) -> None:
        self.noisy = np.ascontiguousarray(noisy, dtype=np.int64)
        self.kind, self.tilt = _noise_code(noise, scale)
        self.scale = float(scale)
        distinct, which = np.unique(self.noisy, return_inverse=True)
        self.which = np.ascontiguousarray(which.reshape(self.noisy.shape), dtype=np.int64)
        n_nodes = int(math.sqrt(max_rate) / _SPACING) + 4
        if distinct.shape[0] * n_nodes <= _LARGEST_TABLE:
            roots = np.arange(n_nodes) * _SPACING
            cells, rates = np.repeat(distinct, n_nodes), np.tile(roots**2, distinct.shape[0])
            table = _log_sums(cells, rates, self.kind, self.tilt, self.scale)
            self.table = table.reshape(distinct.shape[0], n_nodes)
        else:
            self.table = np.empty((distinct.shape[0], 0))

    def __call__(self, level: np.ndarray, emission: np.ndarray) -> np.ndarray:
        """Return the sums over values of log p(y | level * emission): (n_steps, n_states).

        Parameters
        ----------
        level : float array of shape (n_steps,)
            Expected number of events of each step.
        emission : float array of shape (n_states, n_values)
            Probabilities, fields side by side.
        """
        return _step_log_likelihood(
            self.noisy,
            self.which,
            self.table,
            np.sqrt(level),
            np.sqrt(emission),
            self.kind,
            self.tilt,
            self.scale,
        )


@njit(cache=True)
def _log_noise(gap: int, kind: int, scale: float) -> float:
    if kind == 0:
        return -abs(gap) / scale
    return -0.5 * (gap / scale) ** 2


@njit(cache=True)
def _log_sum(y: int, rate: float, kind: int, tilt: float, scale: float) -> float:
    if rate <= 0.0:
        return _log_noise(y, kind, scale)
    low = 0
    high = max(y, int(rate)) + 1
    while low < high:
        middle = (low + high) // 2
        if _ratio(middle, rate, y, kind, tilt) > 1.0:
            low = middle + 1
        else:
            high = middle
    total = 1.0  # in units of the largest term
    weight = 1.0
    n = low
    while weight > _NEGLIGIBLE * total:
        weight *= _ratio(n, rate, y, kind, tilt)
        n += 1
        total += weight
    weight = 1.0
    n = low
    while n > 0 and weight > _NEGLIGIBLE * total:
        n -= 1
        weight /= _ratio(n, rate, y, kind, tilt)
        total += weight
    largest = (
        low * math.log(rate) - rate - math.lgamma(low + 1.0) + _log_noise(y - low, kind, scale)
    )
    return largest + math.log(total)


@njit(cache=True)
def _log_sums(
    noisy: np.ndarray, rate: np.ndarray, kind: int, tilt: float, scale: float
) -> np.ndarray:
    result = np.empty(noisy.shape[0])
    for i in range(noisy.shape[0]):
        result[i] = _log_sum(noisy[i], rate[i], kind, tilt, scale)
    return result


@njit(cache=True)
def _step_log_likelihood(
    noisy: np.ndarray,
    which: np.ndarray,
    table: np.ndarray,
    root_level: np.ndarray,
    root_emission: np.ndarray,
    kind: int,
    tilt: float,
    scale: float,
) -> np.ndarray:
    n_steps, n_values = noisy.shape
    n_states = root_emission.shape[0]
    n_nodes = table.shape[1]
    result = np.zeros((n_steps, n_states))
    for s in range(n_steps):
        for k in range(n_states):
            total = 0.0
            for v in range(n_values):
                root = root_level[s] * root_emission[k, v]
                position = root / _SPACING
                node = int(position)
                if node + 2 < n_nodes:
                    # Log p is even in sqrt(rate): left of zero stands the mirror image.
                    row = table[which[s, v]]
                    a = row[node - 1] if node > 0 else row[1]
                    b, c, d = row[node], row[node + 1], row[node + 2]
                    if abs(d - a + 3.0 * (b - c)) < _LARGEST_TWIST:
                        total += _cubic(a, b, c, d, position - node)
                        continue
                total += _log_sum(noisy[s, v], root * root, kind, tilt, scale)
            result[s, k] = total
    return result


@njit(cache=True)
def _cubic(a: float, b: float, c: float, d: float, x: float) -> float:
    """Lagrange interpolation through values at -1, 0, 1, 2."""
    return (
        a * (-x * (x - 1.0) * (x - 2.0) / 6.0)
        + b * ((x + 1.0) * (x - 1.0) * (x - 2.0) / 2.0)
        + c * (-(x + 1.0) * x * (x - 2.0) / 2.0)
        + d * ((x + 1.0) * x * (x - 1.0) / 6.0)
    )
