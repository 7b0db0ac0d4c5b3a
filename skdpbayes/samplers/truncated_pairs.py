r"""One exact Gibbs pass over disjoint pairs of probabilities that stay above a floor.

The target is a Dirichlet law :math:`\prod_v \theta_v^{b_v - 1}` on the part of the simplex where
:math:`\theta_v \ge a`. A pass draws, for disjoint pairs (j, k) with their sums held fixed, the
log-odds :math:`w = \log \theta_j / \theta_k`, whose density

.. math::
    f(w) \propto \sigma(w)^{b_j} \sigma(-w)^{b_k}, \qquad |w| \le \log\frac{m - a}{a}, \quad
    m = \theta_j + \theta_k,

is log-concave for every :math:`b > 0`. It is drawn exactly by rejection: the log-density lies below
its tangents one standard deviation left and right of the mode, and below its maximum between them.

Because the pairs are disjoint a pass is one draw from one distribution: what it reveals of a record
is bounded once for all pairs together.
"""

from __future__ import annotations

import numpy as np


def pair_log_odds(
    first: np.ndarray, second: np.ndarray, floor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of pairs, and the bound on their log-odds that keeps both above the floor.

    Parameters
    ----------
    first, second : float arrays of shape (n_pairs,)
        Current probabilities, >= ``floor``.
    floor : float array of shape (n_pairs,)
        Smallest probability.

    Returns
    -------
    total, bound : float arrays of shape (n_pairs,)
    """
    total = first + second
    # Rounding may leave a sum a hair below two floors.
    return total, np.log(np.maximum(total - floor, floor) / floor)


def propose_log_odds(
    b_first: np.ndarray, b_second: np.ndarray, bound: np.ndarray, uniforms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """One round of the rejection sampler.

    Parameters
    ----------
    b_first, b_second : float arrays of shape (n_pairs,)
        Dirichlet parameters, > 0.
    bound : float array of shape (n_pairs,)
        Log-odds lie in [-bound, bound].
    uniforms : float array of shape (n_pairs, 3)
        Independent uniforms on [0, 1).

    Returns
    -------
    log_odds : float array of shape (n_pairs,)
    accepted : bool array of shape (n_pairs,)
        Where the proposal is an exact draw; the other pairs need another round.
    """
    mode = np.clip(np.log(b_first) - np.log(b_second), -bound, bound)
    peak = _log_density(b_first, b_second, mode)
    mean = _logistic(mode)
    spread = 1.0 / np.sqrt((b_first + b_second) * mean * (1.0 - mean))
    left = np.maximum(mode - spread, -bound)
    right = np.minimum(mode + spread, bound)
    rise = _slope(b_first, b_second, left)  # >= 0 unless the mode is cut off at -bound
    fall = _slope(b_first, b_second, right)
    # Where each tangent reaches the height of the peak: the flat part lies between.
    at_left, at_right = (_log_density(b_first, b_second, w) - peak for w in (left, right))
    flat_from = np.where(rise > 0.0, left - at_left / np.where(rise > 0.0, rise, 1.0), -bound)
    flat_to = np.where(fall < 0.0, right - at_right / np.where(fall < 0.0, fall, 1.0), bound)
    flat_from, flat_to = np.maximum(flat_from, -bound), np.minimum(flat_to, bound)
    flat_from, flat_to = np.minimum(flat_from, mode), np.maximum(flat_to, mode)
    areas = np.stack(
        [
            _tail_area(rise, flat_from + bound),
            flat_to - flat_from,
            _tail_area(-fall, bound - flat_to),
        ]
    )
    target = uniforms[:, 0] * areas.sum(axis=0)
    in_left = target < areas[0]
    in_flat = ~in_left & (target < areas[0] + areas[1])
    u = uniforms[:, 1]
    drop_left = _tail_draw(rise, flat_from + bound, u)
    drop_right = _tail_draw(-fall, bound - flat_to, u)
    log_odds = np.where(
        in_left,
        flat_from - drop_left,
        np.where(in_flat, flat_from + u * (flat_to - flat_from), flat_to + drop_right),
    )
    envelope = np.where(
        in_left, -np.abs(rise) * drop_left, np.where(in_flat, 0.0, -np.abs(fall) * drop_right)
    )
    log_odds = np.clip(log_odds, -bound, bound)
    height = _log_density(b_first, b_second, log_odds) - peak
    with np.errstate(divide="ignore"):
        accepted = np.log(uniforms[:, 2]) <= height - envelope
    return log_odds, accepted


def _logistic(w: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-w))


def _log_density(b_first: np.ndarray, b_second: np.ndarray, w: np.ndarray) -> np.ndarray:
    return -b_first * np.logaddexp(0.0, -w) - b_second * np.logaddexp(0.0, w)


def _slope(b_first: np.ndarray, b_second: np.ndarray, w: np.ndarray) -> np.ndarray:
    mean = _logistic(w)
    return b_first * (1.0 - mean) - b_second * mean


def _tail_area(rate: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Integral of exp(-rate * x) over [0, length]; no tail where the rate is not positive."""
    safe = np.where(rate > 0.0, rate, 1.0)
    return np.where(rate > 0.0, -np.expm1(-safe * np.maximum(length, 0.0)) / safe, 0.0)


def _tail_draw(rate: np.ndarray, length: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Draw from the density proportional to exp(-rate * x) on [0, length]."""
    safe = np.where(rate > 0.0, rate, 1.0)
    drawn = -np.log1p(u * np.expm1(-safe * np.maximum(length, 0.0))) / safe
    return np.where(rate > 0.0, drawn, 0.0)
