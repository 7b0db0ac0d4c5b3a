r"""Gaussian differential privacy in closed form.

A mechanism is :math:`\mu`-GDP when telling two neighboring data sets apart is at least as hard
as telling :math:`N(0, 1)` from :math:`N(\mu, 1)` (Dong, Roth and Su 2022).  Its privacy profile
is (Balle and Wang 2018, Theorem 8)

.. math:: \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu)
                                - e^\varepsilon\,\Phi(-\mu/2 - \varepsilon/\mu).

Both terms agree to many digits when :math:`\mu` is small, so the difference is never taken
directly.  With :math:`z = \varepsilon/\mu - \mu/2` and the Mills ratio
:math:`R(x) = \Phi(-x)/\varphi(x)` it equals :math:`\varphi(z)\,[R(z) - R(z + \mu)]`, and the
drop of the Mills ratio is an integral of a positive function.

References
----------
.. [1] J. Dong, A. Roth, W. Su. Gaussian differential privacy.
   JRSS-B 84, 2022.
.. [2] B. Balle, Y.-X. Wang. Improving the Gaussian mechanism for differential privacy:
   analytical calibration and optimal denoising. ICML 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from skdpbayes.privacy._numeric import check_nonnegative

FloatArray: TypeAlias = NDArray[np.float64]

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
# Below this shift the Mills ratio's drop is integrated, above it is subtracted: the subtraction
# then loses at most log10(z) digits for every z a double-precision delta can reach.
_SUBTRACT_FROM = 1.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)  # full precision for shifts below 1
# Where 1 - x R(x) is taken from its asymptotic series; eight terms leave 1e-13 relative there.
_ASYMPTOTIC_FROM = 25.0
_SERIES = tuple((-1.0) ** j * math.prod(range(1, 2 * j + 2, 2)) for j in range(8))
# Headroom on log(delta) that covers the rounding of the closed form (measured below 1e-13). A
# calibrated mu keeps more of it, so that its own epsilon never exceeds the one asked for.
_ROUNDING = 1e-12
_CALIBRATION_ROUNDING = 4e-12


def _mills_slope(x: FloatArray) -> FloatArray:
    """Return ``1 - x R(x)``, minus the derivative of the Mills ratio, for ``x > -1``."""
    near = 1.0 - x * (_SQRT_HALF_PI * erfcx(x * math.sqrt(0.5)))
    far = np.abs(x) > _ASYMPTOTIC_FROM
    if np.any(far):
        inverse_square = 1.0 / np.square(x[far])
        near[far] = inverse_square * np.polynomial.polynomial.polyval(inverse_square, _SERIES)
    return np.asarray(near, dtype=np.float64)


def log_tail_drop(z: FloatArray, shift: float) -> FloatArray:
    r"""Return :math:`\log\{\Phi(-z) - e^{z s + s^2/2}\,\Phi(-z - s)\}` for a shift :math:`s > 0`.

    This is :math:`\log\{\varphi(z)[R(z) - R(z+s)]\}`, the one building block of every Gaussian
    privacy profile.

    Parameters
    ----------
    z : ndarray
        Thresholds, each at least ``-shift`` (privacy profiles never need less).
    shift : float
        Distance of the two Gaussians in standard deviations, positive.
    """
    z = np.asarray(z, dtype=np.float64)
    if shift >= _SUBTRACT_FROM:
        upper, lower = log_ndtr(-z), log_ndtr(-z - shift)
        exponent = z * shift + 0.5 * shift * shift + lower - upper
        positive = z > 0.0  # log_ndtr differences lose digits there, erfcx ratios do not
        if np.any(positive):
            root = math.sqrt(0.5)
            exponent[positive] = np.log(
                erfcx((z[positive] + shift) * root) / erfcx(z[positive] * root)
            )
        return np.asarray(upper + np.log(-np.expm1(exponent)), dtype=np.float64)
    drop = np.zeros_like(z)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        drop += weight * _mills_slope(z + 0.5 * shift * (1.0 + node))
    return np.asarray(-0.5 * z * z - _HALF_LOG_2PI + np.log(0.5 * shift * drop), dtype=np.float64)


def log_gaussian_profile(epsilons: FloatArray, mu: float) -> FloatArray:
    """Return ``log(delta)`` of a ``mu``-GDP mechanism at every nonnegative ``epsilons``."""
    epsilons = np.asarray(epsilons, dtype=np.float64)
    if mu == 0.0:
        return np.full_like(epsilons, -math.inf)
    if math.isinf(mu):
        return np.zeros_like(epsilons)
    return log_tail_drop(epsilons / mu - 0.5 * mu, mu)


def gdp_log_delta(epsilon: float, mu: float) -> float:
    """Return the natural logarithm of :func:`~skdpbayes.privacy.gdp_delta`, without underflow.

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        At least 0; 0 is perfect privacy (``-inf``), ``inf`` none (``0.0``).

    Examples
    --------
    >>> from skdpbayes.privacy import gdp_log_delta
    >>> round(gdp_log_delta(50.0, 1.0), 6)
    -1233.869083
    """
    check_nonnegative("epsilon", epsilon)
    check_nonnegative("mu", mu)
    if math.isinf(epsilon):
        return 0.0 if math.isinf(mu) else -math.inf
    return float(log_gaussian_profile(np.array([epsilon]), mu)[0])


def gdp_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta at which a ``mu``-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        At least 0; larger is less private.

    Examples
    --------
    >>> from skdpbayes.privacy import gdp_delta
    >>> round(gdp_delta(1.0, 0.5), 10)
    0.006829595
    """
    return math.exp(gdp_log_delta(epsilon, mu))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which a ``mu``-GDP mechanism is (epsilon, delta)-DP.

    The answer is rounded up: ``gdp_delta(gdp_epsilon(mu, delta), mu) <= delta``.

    Parameters
    ----------
    mu : float
        At least 0.
    delta : float
        In [0, 1]; 0 gives ``inf`` unless ``mu`` is 0.

    Examples
    --------
    >>> from skdpbayes.privacy import gdp_epsilon
    >>> round(gdp_epsilon(1.0, 1e-5), 9)
    4.377178096
    """
    _check_delta(delta)
    check_nonnegative("mu", mu)
    if mu == 0.0 or delta == 1.0:
        return 0.0
    if delta == 0.0 or math.isinf(mu):
        return math.inf
    target = math.log(delta) - _ROUNDING
    if gdp_log_delta(0.0, mu) <= target:
        return 0.0
    # Chernoff's bound on the Gaussian privacy loss
    upper = 0.5 * mu * mu + mu * math.sqrt(-2.0 * target) + 1e-300
    root = brentq(lambda e: gdp_log_delta(e, mu) - target, 0.0, upper, xtol=1e-300, rtol=1e-14)
    return _step(root, up=True, private=lambda e: gdp_log_delta(e, mu) <= target)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu at which every ``mu``-GDP mechanism is (epsilon, delta)-DP.

    ``1 / gdp_mu(epsilon, delta)`` is the noise multiplier of the Gaussian mechanism.  The answer
    is rounded down: ``gdp_delta(epsilon, gdp_mu(epsilon, delta)) <= delta``.

    Parameters
    ----------
    epsilon : float
        At least 0; larger allows a larger mu.
    delta : float
        In [0, 1]; 0 gives 0.0, no Gaussian noise is pure.

    Examples
    --------
    >>> from skdpbayes.privacy import gdp_mu
    >>> round(gdp_mu(1.0, 1e-5), 10)
    0.2680511232
    """
    check_nonnegative("epsilon", epsilon)
    _check_delta(delta)
    if delta == 0.0:
        return 0.0
    if delta == 1.0 or math.isinf(epsilon):
        return math.inf
    return _largest_mu(float(epsilon), float(delta))


@lru_cache(maxsize=1024)
def _largest_mu(epsilon: float, delta: float) -> float:
    # far out log(delta) changes by 10^3 times as much as epsilon, and rounding with it
    target = math.log(delta)
    target -= _CALIBRATION_ROUNDING * max(1.0, -target / 64.0)

    def excess(log_mu: float) -> float:
        return gdp_log_delta(epsilon, math.exp(log_mu)) - target

    # Chernoff's mu is private; the loops only guard against rounding at its edge
    lower = math.log(_chernoff_mu(epsilon, -target))
    upper = lower + 1.0
    while excess(upper) <= 0.0:
        upper += 1.0
    while excess(lower) > 0.0:
        lower -= 1.0
    root = math.exp(brentq(excess, lower, upper, xtol=1e-15, rtol=1e-14))
    return _step(root, up=False, private=lambda mu: gdp_log_delta(epsilon, mu) <= target)


def _chernoff_mu(epsilon: float, log_inverse_delta: float) -> float:
    """Solve ``mu^2/2 + mu sqrt(2 l) = epsilon`` without cancellation; positive at epsilon 0."""
    root = math.sqrt(2.0 * log_inverse_delta)
    mu = 2.0 * epsilon / (root + math.sqrt(root * root + 2.0 * epsilon))
    return max(mu, math.exp(-log_inverse_delta))  # delta(0; mu) <= mu for every mu


def _step(value: float, *, up: bool, private: Callable[[float], bool]) -> float:
    """Move a root by a few units in the last place until it is on the private side."""
    relative = 1e-15
    while not private(value):
        value *= 1.0 + relative if up else 1.0 - relative
        relative *= 2.0
    return float(value)


def _check_delta(delta: float) -> None:
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must be in [0, 1], got {delta!r}")
