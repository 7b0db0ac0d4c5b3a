r"""Draws from a Dirichlet law on the simplex whose probabilities stay above a floor.

The density is :math:`\prod_v \theta_v^{a_v - 1}` on the set where :math:`\theta_v \ge a_0` and
:math:`\sum_v \theta_v = 1`.
Given the others, the share of one of two probabilities in their sum is a truncated beta variable,
which is drawn by numerical inversion; two probabilities need one such draw, more need sweeps of a
Gibbs sampler over random pairs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["sample_truncated_dirichlet"]

# The log-density is interpolated on so many points: many for a single exact draw, few within a
# chain, whose own error is larger.
_FINE, _COARSE = 4096, 512
# A log-concave density is negligible 12 standard deviations, or 45 decay lengths, from its mode.
_DEVIATIONS, _DECAYS = 12.0, 45.0


def sample_truncated_dirichlet(
    parameter: np.ndarray, floor: float, uniforms: np.ndarray
) -> np.ndarray:
    """Draw one probability vector for each row of parameters.

    Parameters
    ----------
    parameter : float array of shape (n_rows, n_values)
        Dirichlet parameters, > 0.
    floor : float
        Smallest probability, in (0, 1 / n_values).
    uniforms : float array of shape (n_rows, n_sweeps, n_values, 2)
        Independent uniforms on [0, 1). With two values one sweep is an exact draw.

    Returns
    -------
    float array of shape (n_rows, n_values)
    """
    return _gibbs(
        np.ascontiguousarray(parameter, dtype=np.float64),
        float(floor),
        np.ascontiguousarray(uniforms, dtype=np.float64),
    )


@njit(cache=True)
def _gibbs(parameter: np.ndarray, floor: float, uniforms: np.ndarray) -> np.ndarray:
    n_rows, n_values = parameter.shape
    theta = np.ones((n_rows, n_values))
    log_density = np.empty(_FINE if n_values == 2 else _COARSE)
    for r in range(n_rows):
        free = 1.0 - n_values * floor
        theta[r] = floor + free * parameter[r] / parameter[r].sum()
        for sweep in range(uniforms.shape[1]):
            for j in range(n_values if n_values > 2 else n_values - 1):
                if n_values > 1:
                    u = uniforms[r, sweep, j]
                    k = (j + 1 + int(u[0] * (n_values - 1))) % n_values
                    total = theta[r, j] + theta[r, k]
                    share = _truncated_beta(
                        parameter[r, j], parameter[r, k], floor / total, u[1], log_density
                    )
                    theta[r, j] = total * share
                    theta[r, k] = total - theta[r, j]
    return theta


@njit(cache=True)
def _log_beta(a: float, b: float, x: float) -> float:
    return (a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x)


@njit(cache=True)
def _truncated_beta(
    a: float, b: float, low: float, uniform: float, log_density: np.ndarray
) -> float:
    """Draw from Beta(a, b) on [low, 1 - low], its log-density interpolated on a fine grid."""
    high = 1.0 - low
    if high <= low:
        return 0.5
    first, last = low, high
    if a > 1.0 or b > 1.0:
        if a > 1.0 and b > 1.0:
            mode = (a - 1.0) / (a + b - 2.0)
        else:
            mode = 0.0 if a <= 1.0 else 1.0
        inside = min(max(mode, low), high)
        spread = _DEVIATIONS * np.sqrt(a * b / (a + b + 1.0)) / (a + b)
        slope = abs((a - 1.0) / inside - (b - 1.0) / (1.0 - inside))
        if inside != mode and slope > 0.0:
            spread = min(spread, _DECAYS / slope)
        if a >= 1.0 and b >= 1.0:  # log-concave: nothing beyond the window
            first, last = max(low, inside - spread), min(high, inside + spread)
    size = log_density.shape[0]
    step = (last - first) / (size - 1)
    for i in range(size):
        log_density[i] = _log_beta(a, b, first + i * step)
    log_density -= log_density.max()
    total = 0.0
    for i in range(size - 1):
        total += _segment(log_density[i], log_density[i + 1])
    target = uniform * total
    for i in range(size - 1):
        left, right = log_density[i], log_density[i + 1]
        mass = _segment(left, right)
        if target < mass:
            rise = right - left
            if abs(rise) < 1e-9:
                position = target / mass
            else:
                position = np.log1p(target / np.exp(left) * rise) / rise
            return min(max(first + (i + position) * step, low), high)
        target -= mass
    return last


@njit(cache=True)
def _segment(left: float, right: float) -> float:
    """Integral over a unit of the exponential that runs from exp(left) to exp(right)."""
    rise = right - left
    if abs(rise) < 1e-9:
        return np.exp(left)
    return (np.exp(right) - np.exp(left)) / rise
