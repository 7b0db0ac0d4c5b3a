"""Discrete Laplace and discrete Gaussian noise, exact in integer arithmetic."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from skdpbayes.randomness._strips import Plan, fill, make_plan

Ints = npt.NDArray[np.int64]
Size = int | tuple[int, ...]

MAX_SCALE = 2.0**50  # noise beyond 2^62 then has a probability below exp(-4000)
_MAX_DENOMINATOR = 2**56


def exact_scale(scale: float) -> tuple[int, int]:
    """Return the rational number p/q at which the discrete samplers draw noise of scale `scale`.

    Parameters
    ----------
    scale : float
        Positive, at most ``2**50``.

    Returns
    -------
    p, q : int
        In lowest terms: p is at most ``2**53`` and q a power of two of at most ``2**56``. A double
        of at least 1/16 is represented exactly. A smaller one is rounded up, hence to the private
        side, to a multiple of ``2**-56``; the relative error is at most ``2**-56 / scale``.

    Examples
    --------
    >>> from skdpbayes.randomness import exact_scale
    >>> exact_scale(2.5)
    (5, 2)
    """
    scale = float(scale)
    if not (0.0 < scale <= MAX_SCALE):
        raise ValueError(f"scale must lie in (0, 2**50], got {scale!r}.")
    ratio = Fraction(scale)
    if ratio.denominator > _MAX_DENOMINATOR:
        ratio = Fraction(math.ceil(ratio * _MAX_DENOMINATOR), _MAX_DENOMINATOR)
    return ratio.numerator, ratio.denominator


@functools.lru_cache(maxsize=256)
def _plan(scale: float, gaussian: bool) -> Plan:
    return make_plan(*exact_scale(scale), gaussian=gaussian)


def _draw(generator: np.random.Generator, scale: float, size: Size, *, gaussian: bool) -> Ints:
    plan = _plan(float(scale), gaussian)
    out = np.empty(size, dtype=np.int64)
    fill(generator, plan, out.reshape(-1))
    return out


def discrete_laplace(generator: np.random.Generator, scale: float, size: Size) -> Ints:
    """Draw integers with probability proportional to ``exp(-abs(x) / scale)``, exactly.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        Positive, at most ``2**50``; see :func:`exact_scale` for scales below 1/16.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    ndarray of int64

    Examples
    --------
    >>> from skdpbayes.randomness import discrete_laplace, make_generator
    >>> noise = discrete_laplace(make_generator(0), 2.0, (2, 3))
    >>> noise.shape, noise.dtype
    ((2, 3), dtype('int64'))
    """
    return _draw(generator, scale, size, gaussian=False)


def discrete_gaussian(generator: np.random.Generator, scale: float, size: Size) -> Ints:
    """Draw integers with probability proportional to ``exp(-x**2 / (2 * scale**2))``, exactly.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        Positive, at most ``2**50``; see :func:`exact_scale` for scales below 1/16. The standard
        deviation of the noise is slightly below it, noticeably so only for scales below 1.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    ndarray of int64
    """
    return _draw(generator, scale, size, gaussian=True)
