r"""Fast exact draws of Poisson counts that are seen through discrete noise.

The conditional of `skdpbayes.samplers.noisy_counts`,
:math:`p(n) \propto \mu^n / n! \; w(y - n)`, by rejection: the pmf is log-concave, so it lies below
its largest value near the mode m and below geometric tails from :math:`m \pm r` on, where r is
about a standard deviation (Devroye 1986, section X.1). After two tries, in a few cells of a
hundred, the draw is inverted instead, which is exact too.

One uniform number serves a cell: what choosing the proposal leaves of it is uniform again and
decides whether the proposal is kept, and what a rejection leaves is uniform once more and serves
the next try. Each choice uses up a few of its 53 bits.

Where the mode is small the distribution function is inverted from zero up, by multiplications
alone. The sum stops early: ratios of neighboring terms fall, so what is left out is at most a
geometric series. Unless the uniform number lies so close to a step of the distribution function
that the rest could matter, the count is already certain; otherwise the sum goes on to the end.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skdpbayes.samplers.noisy_counts import _draw, _noise_code, _noise_ratio, _ratio

_TRIES = 2
_LAPLACE = 0
_SMALL_MODE = 24  # up to here inversion from zero is the faster one
_MAX_TERMS = 256  # a pmf of such a mode falls to 1e-17 of its sum within about 90 terms
_SMALLER_MODE = 7
# Terms that are summed first, for the smaller modes and the others; more seldom matter.
_FEW_TERMS, _MORE_TERMS = 16, 44
_SMALL_REST = 1e-3  # share of the sum that they may leave out
_NEGLIGIBLE = 1e-17  # a rest of this share of the sum is lost in double precision
_LARGEST_RATIO = 1e10  # of the first two terms; 24 such factors still multiply to a double
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
    noise : {"laplace", "gaussian"}
        The noise law: pmf proportional to ``exp(-|k| / scale)`` or ``exp(-k**2 / (2 scale**2))``.
    scale : float
        The scale of the noise.
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
    while _ratio(mode, rate, y, kind, tilt) > 1.0:
        mode += 1
    while mode > 0 and _ratio(mode - 1, rate, y, kind, tilt) <= 1.0:
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
    sums = np.empty(_MAX_TERMS)
    untilt = 1.0 / tilt
    # p(n + 1) / p(n) is ``before * share[n]`` for n below a switch and ``after * share[n]`` from
    # it on. For Laplace noise the switch is y; Gaussian noise has none, and falls in ``share``.
    bend = 1.0 if kind == _LAPLACE else math.exp(-tilt)
    share = np.empty(_MAX_TERMS)
    for n in range(_MAX_TERMS):
        share[n] = bend**n / (n + 1.0)
    for i in range(noisy.shape[0]):
        y, mu, uniform = noisy[i], rate[i], uniforms[i]
        if not mu > 0.0:
            continue
        if kind == _LAPLACE:
            before, after, switch = mu * tilt, mu * untilt, y
        else:
            before, switch = mu * _noise_ratio(y, kind, tilt), _MAX_TERMS
            after = before
        at_limit = (before if switch > _SMALL_MODE else after) * share[_SMALL_MODE]
        if at_limit > 1.0 or before > _LARGEST_RATIO:
            counts[i] = _draw_cell(y, mu, kind, tilt, scale, uniform, log_factorials)
            continue
        halfway = (before if switch > _SMALLER_MODE else after) * share[_SMALLER_MODE]
        terms = _FEW_TERMS if halfway <= 1.0 else _MORE_TERMS
        chosen = _invert_block(before, after, switch, uniform, terms, sums, share)
        if chosen < 0:
            chosen = _invert_up(before, after, switch, uniform, sums, share)
        counts[i] = chosen
    return counts


@njit(cache=True)
def _invert_block(
    before: float,
    after: float,
    switch: int,
    uniform: float,
    terms: int,
    sums: np.ndarray,
    share: np.ndarray,
) -> int:
    """Invert by the first terms alone; -1 where those left out could matter.

    Always the same number of terms, counted without a branch: the processor goes on to the next
    cell meanwhile, which saves more than stopping early would.
    """
    weight, total = 1.0, 1.0
    for n in range(terms):
        sums[n] = total
        weight *= (before if n < switch else after) * share[n]
        total += weight
    sums[terms] = total
    ratio = (before if switch > terms else after) * share[terms]
    target = uniform * total
    chosen = 0
    for n in range(terms):
        chosen += sums[n] <= target
    # All later ratios are smaller, so the rest is at most weight * ratio / (1 - ratio).
    enough = weight * ratio <= _SMALL_REST * total * (1.0 - ratio)
    certain = sums[chosen] > target * (1.0 + _SMALL_REST)
    return chosen if enough and certain else -1


@njit(cache=True)
def _invert_up(
    before: float, after: float, switch: int, uniform: float, sums: np.ndarray, share: np.ndarray
) -> int:
    """Invert the distribution function from zero up by all terms that double precision adds."""
    weight, total = 1.0, 1.0
    last = sums.shape[0] - 1
    for n in range(sums.shape[0]):
        sums[n] = total
        ratio = (before if n < switch else after) * share[n]
        weight *= ratio
        if weight <= _NEGLIGIBLE * total * (1.0 - ratio):
            last = n
            break
        total += weight
    target = uniform * total
    for n in range(last):
        if sums[n] > target:
            return n
    return last


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
    fall = _ratio(right, rate, y, kind, tilt)
    # Areas in units of the peak: flat strictly between the two points, geometric from them on.
    right_top = math.exp(_log_weight(right, log_rate, y, kind, scale, log_factorials) - peak)
    right_area = right_top / (1.0 - fall)
    left_area, left_top, rise = 0.0, 0.0, 0.0
    first = 0  # the first count of the flat part
    if left >= 0:
        first = left + 1
        left_top = math.exp(_log_weight(left, log_rate, y, kind, scale, log_factorials) - peak)
        if left > 0:
            rise = 1.0 / _ratio(left - 1, rate, y, kind, tilt)
        left_area = left_top / (1.0 - rise)
    flat_area = float(right - first)
    if not (fall < 1.0 and rise < 1.0):  # no geometric tail: the pmf is flat there, to rounding
        return _draw(rate, y, kind, tilt, uniform)
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
    return _draw(rate, y, kind, tilt, uniform)


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
        weight *= _ratio(n, rate, y, kind, tilt)
        total += weight
        n += 1
    target = uniform * total - 1.0
    weight, n = 1.0, 0
    while target >= 0.0 and weight > 1e-17:
        weight *= _ratio(n, rate, y, kind, tilt)
        target -= weight
        n += 1
    return n
