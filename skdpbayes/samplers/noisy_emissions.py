r"""Metropolis moves of emission probabilities with the true counts summed out.

Redrawing :math:`\theta_k` from true counts, and those from noisy ones given :math:`\theta_k`, moves
by the spread of counts that are known. Where the noise is much wider than the counts the posterior
is much wider than that, and the two draws creep. Here pairs of values of a field trade probability,

.. math::
    \theta_{kj} \to \theta_{kj} + \delta, \qquad \theta_{kl} \to \theta_{kl} - \delta ,

accepted by the ratio of :math:`\prod_v \theta_{kv}^{\alpha - 1} \prod_{s: z_s = k} \prod_v
p(y_{sv} \mid \lambda_s \theta_{kv})`, with :math:`p(y \mid \mu)` of
`~skdpbayes.samplers.noisy_likelihood.NoisyPoissonLikelihood`. Values enter it as separate factors,
so disjoint pairs are accepted or not independently of each other. Steps are reflected at zero, and
their width depends on what the move leaves unchanged alone, which makes the proposal symmetric.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

from skdpbayes.samplers.noisy_likelihood import (
    _LARGEST_TWIST,
    _SPACING,
    NoisyPoissonLikelihood,
    _cubic,
    _log_sum,
)

_WIDTH = 1.7  # of a step, in standard deviations; a third to a half of the moves is accepted
_SMALLEST = 1e-300


def pair_values(begin: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair the values within each field at random; one value of an odd number is left out.

    Parameters
    ----------
    begin : int array of shape (n_fields + 1,)
        Where the values of each field begin.
    keys : float array of shape (n_states, n_values)
        Random numbers; their order gives the pairs.

    Returns
    -------
    first, second : int arrays of shape (n_states, n_pairs)
    """
    first, second = [], []
    for low, high in pairwise(begin):
        half = (high - low) // 2
        order = low + np.argsort(keys[:, low:high], axis=1)
        first.append(order[:, :half])
        second.append(order[:, half : 2 * half])
    return np.concatenate(first, axis=1), np.concatenate(second, axis=1)


def move_emissions(
    likelihood: NoisyPoissonLikelihood,
    level: np.ndarray,
    states: np.ndarray,
    emission: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray],
    alpha: float,
    noise_variance: float,
    normals: np.ndarray,
    uniforms: np.ndarray,
) -> np.ndarray:
    """Make one Metropolis move of every pair.

    Parameters
    ----------
    likelihood : NoisyPoissonLikelihood
        Of the noisy counts.
    level : float array of shape (n_steps,)
        Expected number of events of each step.
    states : int array of shape (n_steps,)
        The states; a step of state -1 says nothing.
    emission : float array of shape (n_states, n_values)
        Current probabilities.
    pairs : pair of int arrays of shape (n_states, n_pairs)
        From `pair_values`.
    alpha : float
        Dirichlet parameter of the prior.
    noise_variance : float
        Variance of the noise; it sets the width of the steps.
    normals, uniforms : float arrays of shape (n_states, n_pairs)
        Standard normal variates, and uniforms on [0, 1).

    Returns
    -------
    float array of shape (n_states, n_values)
    """
    first, second = pairs
    rows = np.arange(emission.shape[0])[:, None]
    total = emission[rows, first] + emission[rows, second]
    seen = states >= 0
    n_states = emission.shape[0]
    size = np.bincount(states[seen], minlength=n_states)
    events = np.bincount(states[seen], weights=level[seen], minlength=n_states)
    squares = np.bincount(states[seen], weights=level[seen] ** 2, minlength=n_states)
    # Variance of a noisy count of the mean step, both values alike: what the pair holds together.
    spread = noise_variance + 0.5 * total * (events / np.maximum(size, 1))[:, None]
    width = np.sqrt(spread / (2.0 * squares[:, None] + 1e-12))
    # No wider than the pair: a state of few steps has the prior to move in.
    step = _WIDTH * np.minimum(width, total) * normals
    moved = _reflect(emission[rows, first] + step, total)
    gain = _gains(
        likelihood.noisy,
        likelihood.which,
        likelihood.table,
        np.sqrt(level),
        states,
        emission,
        first,
        second,
        moved,
        total - moved,
        likelihood.kind,
        likelihood.tilt,
        likelihood.scale,
    )
    logs = [np.log(np.maximum(p, _SMALLEST)) for p in (moved, total - moved)]
    before = [np.log(np.maximum(emission[rows, at], _SMALLEST)) for at in (first, second)]
    gain += (alpha - 1.0) * (logs[0] + logs[1] - before[0] - before[1])
    with np.errstate(divide="ignore"):
        accepted = np.log(uniforms) < gain
    result = emission.copy()
    result[rows, first] = np.where(accepted, moved, emission[rows, first])
    result[rows, second] = np.where(accepted, total - moved, emission[rows, second])
    return result


def _reflect(value: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Fold the line into [0, total] by reflections at both ends."""
    safe = np.maximum(total, _SMALLEST)
    around = np.mod(value, 2.0 * safe)
    return np.minimum(np.where(around > safe, 2.0 * safe - around, around), total)


@njit(cache=True, inline="always")
def _look_up(row: np.ndarray, y: int, root: float, kind: int, tilt: float, scale: float) -> float:
    """Log p(y | root**2) as `NoisyPoissonLikelihood` reads it.

    The same lines stand in its loop over all states, which a call would slow down by half.
    """
    position = root / _SPACING
    node = int(position)
    value = np.nan
    if node + 2 < row.shape[0]:
        a = row[node - 1] if node > 0 else row[1]
        b, c, d = row[node], row[node + 1], row[node + 2]
        if abs(d - a + 3.0 * (b - c)) < _LARGEST_TWIST:
            value = _cubic(a, b, c, d, position - node)
    if np.isnan(value):
        value = _log_sum(y, root * root, kind, tilt, scale)
    return value


@njit(cache=True)
def _gains(
    noisy: np.ndarray,
    which: np.ndarray,
    table: np.ndarray,
    root_level: np.ndarray,
    states: np.ndarray,
    emission: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    new_first: np.ndarray,
    new_second: np.ndarray,
    kind: int,
    tilt: float,
    scale: float,
) -> np.ndarray:
    """Log-likelihood that each pair gains by its move."""
    gain = np.zeros(first.shape)
    old = np.sqrt(emission)
    roots = np.sqrt(new_first), np.sqrt(new_second)
    for s in range(noisy.shape[0]):
        k = states[s]
        if k < 0:
            continue
        level = root_level[s]
        for p in range(first.shape[1]):
            change = 0.0
            for side in range(2):
                v = first[k, p] if side == 0 else second[k, p]
                row, y = table[which[s, v]], noisy[s, v]
                new = roots[0][k, p] if side == 0 else roots[1][k, p]
                change += _look_up(row, y, level * new, kind, tilt, scale)
                change -= _look_up(row, y, level * old[k, v], kind, tilt, scale)
            gain[k, p] += change
    return gain
