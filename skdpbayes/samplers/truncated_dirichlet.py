r"""Draws from a Dirichlet law on the simplex whose probabilities stay above a floor.

The density is :math:`\prod_v \theta_v^{a_v - 1}` on the set where :math:`\theta_v \ge a_0` and
:math:`\sum_v \theta_v = 1`.
Given the others, the share of one of two probabilities in their sum is a truncated beta variable,
whose log-odds have a log-concave density and are drawn exactly; two probabilities need one such
draw, more need sweeps of a Gibbs sampler over random pairs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from skdpbayes.samplers.log_concave import draw_log_concave

__all__ = ["sample_truncated_dirichlet"]


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
        `skdpbayes.samplers.sample_log_concave`. With two values one sweep is an exact draw.

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
