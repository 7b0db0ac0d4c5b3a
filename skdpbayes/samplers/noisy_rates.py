r"""Independent draws of sparse count vectors whose totals are not public, given noisy releases.

The model of a class-by-token release: tokens of class ``c`` arrive at Poisson rates
:math:`\lambda_{cv} \sim \mathrm{Gamma}(\alpha, \beta_c)`, so that their proportions are
:math:`\mathrm{Dir}(\alpha)` and, with the rates integrated out, the counts are negative binomial,

.. math::
    p(n_{cv} \mid q_c) = \frac{\Gamma(n_{cv}+\alpha)}{n_{cv}!\,\Gamma(\alpha)}
    (1-q_c)^\alpha q_c^{n_{cv}}, \qquad q_c = 1/(1+\beta_c), \qquad y_{cv} = n_{cv} + Z_{cv} .

Given :math:`q_c` the cells are independent, so the posterior of :math:`q_c` is a one-dimensional
integral: it is computed on a grid of expected totals :math:`M = V\alpha q/(1-q)` (prior uniform in
:math:`\log M`), refined around its mode, and then every cell is drawn exactly by inversion.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.special import gammaln

_GRID_POINTS = 33


def sample_noisy_rates(
    noisy: np.ndarray,
    alpha: float,
    log_noise: np.ndarray,
    max_total: float,
    total_uniforms: np.ndarray,
    cell_uniforms: np.ndarray,
) -> np.ndarray:
    """Draw the latent counts of every class.

    Parameters
    ----------
    noisy : int array of shape (n_classes, n_values)
        The released counts; they may be negative.
    alpha : float
        The Gamma shape of each rate, > 0.
    log_noise : ndarray
        From `~skdpbayes.samplers.noisy_tables.noise_log_pmf`.
    max_total : float
        Public bound on the sum of a class's counts, >= 1.
    total_uniforms : float array of shape (n_draws, n_classes)
        Independent uniforms on [0, 1).
    cell_uniforms : float array of shape (n_draws, n_classes, n_values)
        Independent uniforms on [0, 1).

    Returns
    -------
    int64 array of shape (n_draws, n_classes, n_values)
    """
    noise, width = _extended_pmf(log_noise)
    log_factorial = _log_prior_start(noisy, width, alpha)
    counts = np.empty(cell_uniforms.shape, dtype=np.int64)
    for c in range(noisy.shape[0]):
        cells = np.ascontiguousarray(noisy[c], dtype=np.int64)
        grid, weight = _total_posterior(cells, alpha, noise, width, max_total, log_factorial[c])
        cumulative = np.cumsum(weight)
        chosen = np.searchsorted(cumulative / cumulative[-1], total_uniforms[:, c], side="right")
        chosen = np.minimum(chosen, grid.shape[0] - 1)
        counts[:, c] = _draw_cells(
            cells, alpha, grid, chosen, noise, width, np.ascontiguousarray(cell_uniforms[:, c])
        )
    return counts


def _extended_pmf(log_noise: np.ndarray) -> tuple[np.ndarray, int]:
    """Noise pmf at offsets 0..2w, going on with the last slope beyond the table's width w."""
    width = log_noise.shape[0] - 1
    slope = log_noise[width] - log_noise[width - 1]
    tail = log_noise[width] + slope * np.arange(1, width + 1)
    return np.exp(np.concatenate([log_noise, tail])), width


def _log_prior_start(noisy: np.ndarray, width: int, alpha: float) -> np.ndarray:
    """Log of Gamma(n + alpha) / n! / Gamma(alpha) where each cell's window opens."""
    low = np.maximum(np.asarray(noisy, dtype=np.float64) - width, 0.0)
    return gammaln(low + alpha) - gammaln(low + 1.0) - gammaln(alpha)


def _total_posterior(
    noisy: np.ndarray,
    alpha: float,
    noise: np.ndarray,
    width: int,
    max_total: float,
    log_start: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Grid of q and its posterior weights: a coarse pass over all totals, then a fine one."""
    log_totals = np.linspace(-1.0, np.log(max(max_total, np.e)), _GRID_POINTS)
    for refinement in range(3):
        mean = np.exp(log_totals)
        q = mean / (mean + alpha * noisy.shape[0])
        log_weight = _log_evidence(noisy, alpha, q, noise, width, log_start)
        weight = np.exp(log_weight - log_weight.max())
        if refinement < 2:  # narrow to where the coarser grid has mass
            kept = np.flatnonzero(weight > 1e-8)
            first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, log_totals.shape[0] - 1)
            log_totals = np.linspace(log_totals[first], log_totals[last], _GRID_POINTS)
    return q, weight


@njit(cache=True)
def _log_evidence(
    noisy: np.ndarray,
    alpha: float,
    q: np.ndarray,
    noise: np.ndarray,
    width: int,
    log_start: np.ndarray,
) -> np.ndarray:
    """Log-probability of the noisy counts for each q, up to a constant."""
    result = np.zeros(q.shape[0])
    for g in range(q.shape[0]):
        log_q = np.log(q[g])
        log_zero = alpha * np.log1p(-q[g])
        for v in range(noisy.shape[0]):
            y = max(noisy[v], -width)
            low = max(y - width, 0)
            mass = 0.0
            weight = 1.0
            for n in range(low, max(y, 0) + width + 1):
                mass += weight * noise[abs(y - n)]
                weight *= q[g] * (n + alpha) / (n + 1.0)
                if weight < 1e-300:
                    break
            result[g] += np.log(mass) + log_start[v] + low * log_q + log_zero
    return result


@njit(cache=True)
def _draw_cells(
    noisy: np.ndarray,
    alpha: float,
    q: np.ndarray,
    chosen: np.ndarray,
    noise: np.ndarray,
    width: int,
    uniforms: np.ndarray,
) -> np.ndarray:
    n_draws, n_values = uniforms.shape
    counts = np.empty((n_draws, n_values), dtype=np.int64)
    cumulative = np.empty(2 * width + 1)
    order = np.argsort(chosen)
    for v in range(n_values):
        y = max(noisy[v], -width)
        low = max(y - width, 0)
        size = max(y, 0) + width + 1 - low
        for i in range(n_draws):
            s = order[i]
            if i == 0 or chosen[s] != chosen[order[i - 1]]:  # the next q: weigh the window again
                mass = 0.0
                weight = 1.0
                for k in range(size):
                    n = low + k
                    mass += weight * noise[abs(y - n)]
                    cumulative[k] = mass
                    weight *= q[chosen[s]] * (n + alpha) / (n + 1.0)
            target = uniforms[s, v] * cumulative[size - 1]
            counts[s, v] = low + min(
                np.searchsorted(cumulative[:size], target, side="right"), size - 1
            )
    return counts
