"""The Gaussian privacy profile at any real epsilon: exact, or quick with a bound on rounding."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from skdpbayes.privacy.mechanisms.gdp import FloatArray, log_gaussian_profile

_ROUNDOFF = 2.0**-53
_SQRT_HALF = math.sqrt(0.5)
_LARGEST_EXPONENT = 700.0


def gaussian_delta(epsilons: FloatArray, mu: float) -> FloatArray:
    """Return the Gaussian profile at any real epsilon; mu = 0 is a release without loss."""
    size = np.abs(epsilons)
    tail = np.exp(log_gaussian_profile(size, mu))
    back = -np.expm1(-size) + np.exp(-size) * tail  # H(-e) = 1 - e^-e + e^-e H(e)
    return np.where(epsilons >= 0.0, tail, back)


def gaussian_difference(epsilons: FloatArray, mu: float) -> FloatArray:
    """Return :func:`gaussian_delta` as a plain difference, ten times faster and less exact."""
    if mu == 0.0:
        return np.asarray(np.maximum(-np.expm1(epsilons), 0.0))
    ratio = epsilons / mu
    return np.asarray(ndtr(0.5 * mu - ratio) - np.exp(epsilons) * ndtr(-0.5 * mu - ratio))


def difference_error(epsilons: FloatArray, mu: float) -> FloatArray:
    """Bound the rounding of :func:`gaussian_difference` here and at every larger epsilon.

    Both its terms are at most the first. A threshold z = epsilon / mu that is off by a few units
    of roundoff changes a tail by a share of z^2 of them, e^epsilon by a share of epsilon.
    """
    if mu == 0.0:
        return np.full_like(epsilons, 4.0 * _ROUNDOFF)
    ratio = epsilons / mu
    share = _ROUNDOFF * (16.0 + 4.0 * np.square(ratio) + 2.0 * np.abs(epsilons) + mu * mu)
    return np.asarray(share * ndtr(0.5 * mu - ratio) + 1e-150)


def gaussian_delta_once(epsilon: float, mu: float) -> float:
    """Return :func:`gaussian_delta` at one point, from above, quickly where rounding allows."""
    if mu == 0.0:
        return -math.expm1(min(epsilon, 0.0))
    if epsilon > _LARGEST_EXPONENT:
        return float(gaussian_delta(np.array([epsilon]), mu)[0])
    ratio = epsilon / mu
    first = 0.5 * math.erfc((ratio - 0.5 * mu) * _SQRT_HALF)
    second = 0.5 * math.exp(epsilon) * math.erfc((ratio + 0.5 * mu) * _SQRT_HALF)
    error = first * _ROUNDOFF * (16.0 + 4.0 * ratio * ratio + 2.0 * abs(epsilon) + mu * mu)
    if first > 1e-150 and error <= 1e-11 * (first - second):
        return first - second + error
    return float(gaussian_delta(np.array([epsilon]), mu)[0])


def gaussian_delta_bound(epsilon: float, mu: float) -> float:
    """Return the profile's positive term, a cheap bound."""
    if mu == 0.0:
        return -math.expm1(min(epsilon, 0.0))
    return 0.5 * math.erfc((epsilon / mu - 0.5 * mu) * _SQRT_HALF)
