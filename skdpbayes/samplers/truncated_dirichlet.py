r"""Draws from a Dirichlet law on the simplex whose probabilities stay above a floor.

The density is :math:`\prod_v \theta_v^{a_v - 1}` on the set where :math:`\theta_v \ge a_0` and
:math:`\sum_v \theta_v = 1`. Three ways, by the number of values:

- *two*: the share of one is a truncated beta variable, whose log-odds have a log-concave density
  and are drawn exactly;
- *up to some hundreds*: the law is restricted to the finite set of points :math:`\theta_v = a_0 +
  (1 - V a_0) (k_v + \tfrac12) / (G + \tfrac V2)` with integers :math:`k_v \ge 0`,
  :math:`\sum_v k_v = G`. There it is a product of weights under a fixed sum, drawn exactly by
  `skdpbayes.samplers.fixed_sums`. The grid is public, and finer than the law's deviations;
- *more*: sweeps of a Gibbs sampler over random pairs, each drawn like two.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skdpbayes.samplers.fixed_sums import FixedSum
from skdpbayes.samplers.log_concave import draw_log_concave

MAX_GRID_VALUES = 512
"""Tables of more values than this are too large for a grid."""

_LEAST_STEPS, _MOST_STEPS, _MOST_WEIGHTS = 2**10, 2**16, 2**22


def sample_dirichlet_on_grid(
    parameter: np.ndarray, floor: float, n_records: float, uniforms: np.ndarray
) -> np.ndarray:
    r"""Draw one probability vector on the public grid for each row of parameters.

    Parameters
    ----------
    parameter : float array of shape (n_rows, n_values)
        Dirichlet parameters, > 0; at most 512 values.
    floor : float
        Smallest probability, in (0, 1 / n_values).
    n_records : float
        Public bound on the sum of a row's parameters, for the grid: its step is at most a quarter
        of the smallest deviation, :math:`\sqrt{a_0 / n}`, as far as memory allows.
    uniforms : float array of shape (n_rows, n_values)
        Independent uniforms on [0, 1).

    Returns
    -------
    float array of shape (n_rows, n_values)
    """
    n_rows, n_values = parameter.shape
    steps = _grid_steps(n_values, floor, n_records)
    free = 1.0 - n_values * floor
    points = floor + free * (np.arange(steps + 1) + 0.5) / (steps + 0.5 * n_values)
    drawn = np.empty((n_rows, n_values))
    for r in range(n_rows):
        excess = parameter[r] - 1.0
        # Relative to the mode, where a large parameter would magnify the rounding of a logarithm.
        mode = np.clip(parameter[r] / parameter[r].sum(), floor, 1.0)
        logs = excess[:, None] * np.log(points / mode[:, None])
        slope = max(excess.sum(), 1.0) * free / steps
        row = FixedSum.from_log_weights(logs, steps, slope)
        drawn[r] = points[row.draw(np.array([steps]), uniforms[r, None, :, None])[0]]
    return drawn


def _grid_steps(n_values: int, floor: float, n_records: float) -> int:
    wanted = 4.0 * math.sqrt(max(n_records, 1.0) / floor)
    steps = 2 ** math.ceil(math.log2(wanted))
    return min(max(steps, _LEAST_STEPS), _MOST_STEPS, 2 ** int(math.log2(_MOST_WEIGHTS / n_values)))


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
    uniforms : float array of shape (n_rows, n_sweeps, n_values, 1 + 2 * n_attempts)
        Independent uniforms on [0, 1): which pair, then attempts of
        `~skdpbayes.samplers.log_concave.sample_log_concave`. With two values one sweep is an exact
        draw.

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
    work = np.empty((4, 12))
    for r in range(n_rows):
        free = 1.0 - n_values * floor
        theta[r] = floor + free * parameter[r] / parameter[r].sum()
        for sweep in range(uniforms.shape[1]):
            for j in range(n_values if n_values > 2 else n_values - 1):
                u = uniforms[r, sweep, j]
                k = (j + 1 + int(u[0] * (n_values - 1))) % n_values
                total = theta[r, j] + theta[r, k]
                a, b = parameter[r, j], parameter[r, k]
                share = _truncated_beta(a, b, floor / total, u[1:], work)
                theta[r, j] = min(max(total * share, floor), total - floor)
                theta[r, k] = total - theta[r, j]
    return theta


@njit(cache=True)
def _truncated_beta(
    a: float, b: float, low: float, uniforms: np.ndarray, work: np.ndarray
) -> float:
    """Draw from Beta(a, b) on [low, 1 - low] by its log-odds."""
    if low >= 0.5:
        return 0.5
    reach = np.log1p(-low) - np.log(low)
    z = draw_log_concave(a, a + b, 0.0, 0.0, -reach, reach, uniforms, work)
    return 1.0 / (1.0 + np.exp(-z))
