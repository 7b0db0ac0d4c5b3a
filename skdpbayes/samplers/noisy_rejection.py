r"""Fast exact draws of Poisson counts that are seen through discrete noise.

The same conditional as `skdpbayes.samplers.sample_poisson_counts`,
:math:`p(n) \propto \mu^n / n! \; w(y - n)`, by rejection: the pmf is log-concave, so it lies below
its largest value near the mode m and below geometric tails from :math:`m \pm r` on, where r is
about a standard deviation (Devroye 1986, section X.1). After two tries, in a few cells of a
hundred, the draw is inverted instead, which is exact too.

One uniform number serves a cell: what choosing the proposal leaves of it is uniform again and
decides whether the proposal is kept, and what a rejection leaves is uniform once more and serves
the next try. Each choice uses up a few of its 53 bits.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skdpbayes.samplers.noisy_counts import _NO_TOTAL, _draw, _noise_code, _ratio

__all__ = ["reject_poisson_counts"]

_TRIES = 2
_LAPLACE = 0
_LOG_FACTORIALS = np.array([math.lgamma(n + 1.0) for n in range(8192)])


def reject_poisson_counts(
    noisy: np.ndarray, rate: np.ndarray, noise: str, scale: float, uniforms: np.ndarray
) -> np.ndarray:
    """Draw true counts given noisy ones, where each count is Poisson with a known rate.

    Parameters
    ----------
    noisy : int array of any shape
        The released counts.
    rate : float array of the shape of ``noisy``
        The Poisson rates, >= 0.
    noise, scale
        See `skdpbayes.samplers.sample_poisson_counts`.
    uniforms : float array of the shape of ``noisy``
        Independent uniforms on [0, 1).

    Returns
    -------
    int64 array of the shape of ``noisy``
    """
    kind, tilt = _noise_code(noise, scale)
    counts = _draw_cells(
        np.ascontiguousarray(noisy, dtype=np.int64).ravel(),
        np.ascontiguousarray(rate, dtype=np.float64).ravel(),
        kind,
        tilt,
        float(scale),
        np.ascontiguousarray(uniforms, dtype=np.float64).ravel(),
        _LOG_FACTORIALS,
    )
    return counts.reshape(noisy.shape)


@njit(cache=True)
def _log_weight(
    n: int, log_rate: float, y: int, kind: int, scale: float, log_factorials: np.ndarray
) -> float:
    factorial = log_factorials[n] if n < log_factorials.shape[0] else math.lgamma(n + 1.0)
    gap = (y - n) / scale
    noise = -abs(gap) if kind == _LAPLACE else -0.5 * gap * gap
    return n * log_rate - factorial + noise


@njit(cache=True)
def _mode(rate: float, y: int, kind: int, tilt: float, scale: float) -> int:
    """Smallest n with p(n + 1) <= p(n)."""
    if kind == _LAPLACE:
        # p(n + 1) / p(n) is rate * tilt / (n + 1) below y and rate / tilt / (n + 1) from y on.
        below = math.ceil(rate * tilt - 1.0)
        return max(below if below < y else max(math.ceil(rate / tilt - 1.0), y), 0)
    # Near the precision-weighted mean of two normal laws; walk from there.
    mode = max(0, int((rate * scale**2 + y * rate) / (scale**2 + rate)))
    while _ratio(mode, _NO_TOTAL, rate, y, 0, kind, tilt) > 1.0:
        mode += 1
    while mode > 0 and _ratio(mode - 1, _NO_TOTAL, rate, y, 0, kind, tilt) <= 1.0:
        mode -= 1
    return mode


@njit(cache=True)
def _draw_cells(
    noisy: np.ndarray,
    rate: np.ndarray,
    kind: int,
    tilt: float,
    scale: float,
    uniforms: np.ndarray,
    log_factorials: np.ndarray,
) -> np.ndarray:
    counts = np.zeros(noisy.shape[0], dtype=np.int64)
    for i in range(noisy.shape[0]):
        if rate[i] > 0.0:
            counts[i] = _draw_cell(
                noisy[i], rate[i], kind, tilt, scale, uniforms[i], log_factorials
            )
    return counts


@njit(cache=True)
def _draw_cell(
    y: int,
    rate: float,
    kind: int,
    tilt: float,
    scale: float,
    uniform: float,
    log_factorials: np.ndarray,
) -> int:
    mode = _mode(rate, y, kind, tilt, scale)
    if mode == 0:
        return _draw_from_zero(y, rate, kind, tilt, uniform)
    log_rate = math.log(rate)
    peak = _log_weight(mode, log_rate, y, kind, scale, log_factorials)
    reach = 1 + int(scale * math.sqrt((mode + 1.0) / (scale * scale + mode + 1.0)))
    right, left = mode + reach, mode - reach
    fall = _ratio(right, _NO_TOTAL, rate, y, 0, kind, tilt)
    # Areas in units of the peak: flat strictly between the two points, geometric from them on.
    right_top = math.exp(_log_weight(right, log_rate, y, kind, scale, log_factorials) - peak)
    right_area = right_top / (1.0 - fall)
    left_area, left_top, rise = 0.0, 0.0, 0.0
    first = 0  # the first count of the flat part
    if left >= 0:
        first = left + 1
        left_top = math.exp(_log_weight(left, log_rate, y, kind, scale, log_factorials) - peak)
        if left > 0:
            rise = 1.0 / _ratio(left - 1, _NO_TOTAL, rate, y, 0, kind, tilt)
        left_area = left_top / (1.0 - rise)
    flat_area = float(right - first)
    if not (fall < 1.0 and rise < 1.0):  # no geometric tail: the pmf is flat there, to rounding
        return _draw(_NO_TOTAL, rate, y, 0, kind, tilt, uniform)
    for _ in range(_TRIES):
        target = uniform * (flat_area + right_area + left_area)
        if target < flat_area:
            n = first + int(target)
            bound, uniform = 1.0, target - int(target)
        elif target < flat_area + right_area:
            j, bound, uniform = _invert_tail((target - flat_area) / right_area, fall)
            n = right + j
            bound *= right_top
        else:
            j, bound, uniform = _invert_tail((target - flat_area - right_area) / left_area, rise)
            n = left - j
            bound *= left_top
        kept = 0.0
        if n >= 0:
            height = math.exp(_log_weight(n, log_rate, y, kind, scale, log_factorials) - peak)
            kept = min(height / bound, 1.0)
        if uniform < kept:
            return n
        uniform = min((uniform - kept) / max(1.0 - kept, 1e-300), 1.0 - 1e-16)
    return _draw(_NO_TOTAL, rate, y, 0, kind, tilt, uniform)


@njit(cache=True)
def _invert_tail(share: float, ratio: float) -> tuple[int, float, float]:
    """Draw j with P(J >= j) = ratio**j; return it, ratio**j and the uniform number left over."""
    if ratio <= 0.0:
        return 0, 1.0, share
    j = int(math.log1p(-share) / math.log(ratio))
    top = ratio**j
    return j, top, min(max((top - 1.0 + share) / (top * (1.0 - ratio)), 0.0), 1.0 - 1e-16)


@njit(cache=True)
def _draw_from_zero(y: int, rate: float, kind: int, tilt: float, uniform: float) -> int:
    """Invert a pmf whose mode is zero: its terms fall fast."""
    total, weight, n = 1.0, 1.0, 0
    while weight > 1e-17 * total:
        weight *= _ratio(n, _NO_TOTAL, rate, y, 0, kind, tilt)
        total += weight
        n += 1
    target = uniform * total - 1.0
    weight, n = 1.0, 0
    while target >= 0.0 and weight > 1e-17:
        weight *= _ratio(n, _NO_TOTAL, rate, y, 0, kind, tilt)
        target -= weight
        n += 1
    return n
