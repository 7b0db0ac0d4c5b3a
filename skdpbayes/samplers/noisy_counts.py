r"""Poisson counts that are seen through discrete Laplace or discrete Gaussian noise: their law.

A private release shows ``y = n + Z`` with integer noise ``Z``; the true counts ``n`` are latent.
Given its rate a count has the exact conditional

.. math::
    p(n \mid \lambda, y) \propto \frac{\lambda^n}{n!} \, p_Z(y - n) .

Both noises are log-concave, and so is the conditional: a draw finds its mode and inverts the
distribution function outward from there, which costs a number of steps proportional to the
conditional's standard deviation, whatever the size of the counts. For discrete Laplace noise of
scale 1/a it is a Poisson law of rate :math:`\lambda e^{a}` on :math:`n \le y` and
:math:`\lambda e^{-a}` above.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LAPLACE, _GAUSSIAN = 0, 1
# Ratios of noise probabilities are kept within exp(+-300), so that two of them multiply to a
# double; noise so small that this matters is zero but with probability exp(-300).
_MAX_LOG_RATIO = 300.0
# A pmf term this much smaller than the sum so far ends a tail: double precision adds no more.
_NEGLIGIBLE = 1e-18


def _noise_code(noise: str, scale: float) -> tuple[int, float]:
    """Return the kernel's code of a noise law and the number that its pmf ratios need."""
    if noise == "laplace":
        return _LAPLACE, float(np.exp(min(1.0 / scale, _MAX_LOG_RATIO)))
    if noise == "gaussian":
        return _GAUSSIAN, 1.0 / scale**2
    raise ValueError(f"noise must be 'laplace' or 'gaussian'; got {noise!r}.")


@njit(cache=True)
def _noise_ratio(gap: int, kind: int, tilt: float) -> float:
    """p_Z(gap - 1) / p_Z(gap): the factor when n grows by one, so that gap = y - n shrinks."""
    if kind == _LAPLACE:
        return tilt if gap > 0 else 1.0 / tilt
    return np.exp(min(max((gap - 0.5) * tilt, -_MAX_LOG_RATIO), _MAX_LOG_RATIO))


@njit(cache=True)
def _ratio(n: int, rate: float, y: int, kind: int, tilt: float) -> float:
    """p(n + 1) / p(n), which decreases in n."""
    return rate / (n + 1.0) * _noise_ratio(y - n, kind, tilt)


@njit(cache=True)
def _draw(rate: float, y: int, kind: int, tilt: float, uniform: float) -> int:
    """Invert a log-concave pmf outward from its mode: right of it first, then left."""
    low = 0
    high = max(y, int(rate)) + 1
    while low < high:
        middle = (low + high) // 2
        if _ratio(middle, rate, y, kind, tilt) > 1.0:
            low = middle + 1
        else:
            high = middle
    mode = low
    total = 1.0  # in units of the mode's probability
    for inverting in range(2):  # first the normalizer, then the inversion, in the same order
        target = uniform * total - 1.0
        if inverting == 1 and target < 0.0:
            return mode
        weight = 1.0
        n = mode
        while weight > _NEGLIGIBLE * total:
            weight *= _ratio(n, rate, y, kind, tilt)
            n += 1
            if inverting == 0:
                total += weight
            else:
                target -= weight
                if target < 0.0:
                    return n
        weight = 1.0
        n = mode
        while n > 0 and weight > _NEGLIGIBLE * total:
            n -= 1
            weight /= _ratio(n, rate, y, kind, tilt)
            if inverting == 0:
                total += weight
            else:
                target -= weight
                if target < 0.0:
                    return n
    return mode  # rounding left a sliver of mass unassigned
