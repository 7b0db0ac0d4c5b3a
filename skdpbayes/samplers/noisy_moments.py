r"""Draws of means and variances of bounded data, given noisy sums and a drawn number of records.

For ``n`` values :math:`t_i \in [-1, 1]` the release shows :math:`y_1 = \sum t_i + Z_1` and
:math:`y_2 = \sum (\kappa - t_i^2) + Z_2`. In terms of the latent mean :math:`m` and standard
deviation :math:`r`,

.. math::
    p(m, r \mid n, y) \propto p_Z(y_1 - n m) \; p_Z(y_2 - n (\kappa - r^2 - m^2)),
    \qquad m^2 + r^2 \le 1 ,

with a uniform prior on the half disc. The mean is drawn from candidates at evenly spaced quantiles
of its first factor, weighted by their second factor; the deviation then from a grid. The result is
exact up to that grid (a quarter of the noise scale), which is far finer than the posterior itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_CANDIDATES = 24
_GRID_POINTS = 96
# The window of a deviation reaches this share of the noise table's width (e^-12 of its mode).
_WINDOW = 0.5


def sample_noisy_moments(
    noisy: np.ndarray,
    counts: np.ndarray,
    offset: float,
    log_noise: np.ndarray,
    step: float,
    uniforms: np.ndarray,
) -> np.ndarray:
    """Draw latent means and variances.

    Parameters
    ----------
    noisy : float array of shape (n_classes, n_features, 2)
        Noisy sums of ``t`` and of ``offset - t**2``.
    counts : int array of shape (n_draws, n_classes)
        Draws of the number of records of each class.
    offset : float
        The public constant kappa.
    log_noise, step : ndarray, float
        Log-density of the noise, up to a constant, at 0, ``step``, ``2 step``, ...
    uniforms : float array of shape (n_draws, n_classes, n_features, 4)
        Independent uniforms on [0, 1).

    Returns
    -------
    float array of shape (n_draws, n_classes, n_features, 2)
        Means and variances (the second moment about the mean, divided by n).
    """
    two_sided = np.concatenate([log_noise[:0:-1], log_noise])
    cumulative = np.concatenate([[0.0], np.cumsum(np.exp(two_sided))])
    return _draw_moments(
        np.ascontiguousarray(noisy, dtype=np.float64),
        np.maximum(counts, 1).astype(np.float64),
        float(offset),
        log_noise,
        cumulative,
        float(step),
        np.ascontiguousarray(uniforms),
    )


@njit(cache=True)
def _log_density(log_noise: np.ndarray, step: float, value: float) -> float:
    """Interpolate the noise's log-density; beyond the table go on with the last slope."""
    position = abs(value) / step
    last = log_noise.shape[0] - 1
    if position >= last:
        return log_noise[last] + (position - last) * (log_noise[last] - log_noise[last - 1])
    low = int(position)
    return log_noise[low] + (position - low) * (log_noise[low + 1] - log_noise[low])


@njit(cache=True)
def _cdf(cumulative: np.ndarray, position: float) -> float:
    """Interpolated cumulative mass of the noise cells; ``position`` 0 is the table's left end."""
    last = cumulative.shape[0] - 1
    position = min(max(position, 0.0), float(last))
    low = min(int(position), last - 1)
    return cumulative[low] + (position - low) * (cumulative[low + 1] - cumulative[low])


@njit(cache=True)
def _quantile(cumulative: np.ndarray, mass: float) -> float:
    """Inverse of `_cdf`."""
    last = cumulative.shape[0] - 1
    low = int(np.searchsorted(cumulative, mass, side="right")) - 1
    low = min(max(low, 0), last - 1)
    width = cumulative[low + 1] - cumulative[low]
    return low + min(max((mass - cumulative[low]) / width, 0.0), 1.0)


@njit(cache=True)
def _draw_mean(y: float, n: float, cumulative: np.ndarray, step: float, uniform: float) -> float:
    """Draw m in [-1, 1] with density proportional to the noise at y - n m, by inversion."""
    center = 0.5 * (cumulative.shape[0] - 1)  # position of noise zero
    low = _cdf(cumulative, center + (y - n) / step)
    high = _cdf(cumulative, center + (y + n) / step)
    if high - low <= 1e-12 * cumulative[-1]:  # far outside: the nearest possible mean
        return min(max(y / n, -1.0), 1.0)
    noise = (_quantile(cumulative, low + uniform * (high - low)) - center) * step
    return min(max((y - noise) / n, -1.0), 1.0)


@njit(cache=True)
def _deviation_window(second: float, mean: float, reach: float) -> tuple[float, float]:
    """Range of deviations r in [0, sqrt(1 - mean^2)] with |r^2 + mean^2 - second| <= reach."""
    cap = max(1.0 - mean * mean, 0.0)
    center = min(max(second - mean * mean, 0.0), cap)
    return np.sqrt(max(center - reach, 0.0)), np.sqrt(min(center + reach, cap))


@njit(cache=True)
def _draw_moments(
    noisy: np.ndarray,
    counts: np.ndarray,
    offset: float,
    log_noise: np.ndarray,
    cumulative: np.ndarray,
    step: float,
    uniforms: np.ndarray,
) -> np.ndarray:
    n_draws = counts.shape[0]
    n_classes, n_features, _ = noisy.shape
    moments = np.empty((n_draws, n_classes, n_features, 2))
    means = np.empty(_CANDIDATES)
    masses = np.empty(_CANDIDATES)
    density = np.empty(_GRID_POINTS)
    width = step * (log_noise.shape[0] - 1)
    for s in range(n_draws):
        for c in range(n_classes):
            n = counts[s, c]
            reach = _WINDOW * width / n
            for f in range(n_features):
                u = uniforms[s, c, f]
                second = offset - noisy[c, f, 1] / n  # the noisy mean square
                top = -np.inf
                for j in range(_CANDIDATES):
                    stratum = (j + u[0]) / _CANDIDATES
                    means[j] = _draw_mean(noisy[c, f, 0], n, cumulative, step, stratum)
                    masses[j] = _log_mass(means[j], second, reach, n, log_noise, step, density)
                    top = max(top, masses[j])
                for j in range(_CANDIDATES):
                    masses[j] = np.exp(masses[j] - top)
                mean = means[_choose(masses, u[1])]
                _log_mass(mean, second, reach, n, log_noise, step, density)
                low, high = _deviation_window(second, mean, reach)
                cell = _choose(density, u[2])
                deviation = low + (cell + u[3]) * (high - low) / _GRID_POINTS
                moments[s, c, f, 0] = mean
                moments[s, c, f, 1] = deviation * deviation
    return moments


@njit(cache=True)
def _log_mass(
    mean: float,
    second: float,
    reach: float,
    n: float,
    log_noise: np.ndarray,
    step: float,
    density: np.ndarray,
) -> float:
    """Fill ``density`` on the grid of deviations (relative to its top); return its log-integral."""
    low, high = _deviation_window(second, mean, reach)
    size = density.shape[0]
    top = -np.inf
    for i in range(size):
        deviation = low + (i + 0.5) * (high - low) / size
        gap = n * (deviation * deviation + mean * mean - second)
        density[i] = _log_density(log_noise, step, gap)
        top = max(top, density[i])
    total = 0.0
    for i in range(size):
        density[i] = np.exp(density[i] - top)
        total += density[i]
    return top + np.log(total) + np.log(max(high - low, 1e-300))


@njit(cache=True)
def _choose(weight: np.ndarray, uniform: float) -> int:
    target = uniform * weight.sum()
    for i in range(weight.shape[0]):
        target -= weight[i]
        if target < 0.0:
            return i
    return weight.shape[0] - 1
