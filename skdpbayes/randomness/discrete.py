"""Discrete Laplace and discrete Gaussian noise, exact in integer arithmetic.

Both samplers write the magnitude i of the noise as (k + x) b, where b = p/q is the scale, k an
integer and 0 <= x < 1: k is drawn first, i then uniformly among the integers of [kb, (k+1)b), and
the pair is accepted with the probability that is left. x = r/p with the integer r = iq - kp, so no
number exceeds p + q and every decision is a comparison of integers. No floating point is involved
after the scale itself.

References
----------
C. Canonne, G. Kamath, T. Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020
(the coins of probability exp(-g)). C. F. F. Karney, "Sampling exactly from the normal
distribution", ACM TOMS 42:3, 2016, Algorithm D (the decomposition).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from numba import njit

from skdpbayes.randomness._words import (
    EXHAUSTED,
    POSITION,
    coin_exp_half,
    coin_exp_one,
    coin_exp_ratio,
    coin_ratio,
    fill,
    uniform_below,
)

__all__ = ["discrete_gaussian", "discrete_laplace", "exact_scale"]

Size = int | tuple[int, ...]

# Bounds that keep every int64 exact. With p <= 2^53 and q <= 2^56, r = r0 + jq < q + p < 2^57.
# Magnitudes stay below (k+2)b, so one beyond 2^61 needs k > 2^11 - 2 at the largest scale 2^50:
# probability below exp(-2000), smaller than the smallest positive double. Such a draw is redone.
MAX_SCALE = 2.0**50
_MAX_DENOMINATOR = 2**56
_MAX_MAGNITUDE = 2**61

# Average use of random words, measured; it sizes the blocks, the result does not depend on it.
_LAPLACE_WORDS = 1.3
_GAUSSIAN_WORDS = 2.6


def exact_scale(scale: float) -> tuple[int, int]:
    """Return the rational number p/q at which the discrete samplers draw noise of scale `scale`.

    Parameters
    ----------
    scale : float
        Positive, at most 2^50.

    Returns
    -------
    p, q : int
        In lowest terms, p <= 2^53 and q a power of two <= 2^56. A double of at least 1/16 is
        represented exactly. A smaller one is rounded up, hence to the private side, to a multiple
        of 2^-56; the relative error is at most ``2**-56 / scale``.

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


def _draw(kernel, generator, scale, size, words_per_draw):  # type: ignore[no-untyped-def]
    p, q = exact_scale(scale)
    out = np.empty(size, dtype=np.int64)
    parameters = (p, q, (p - 1).bit_length())
    fill(kernel, generator, out.reshape(-1), parameters, words_per_draw=words_per_draw)
    return out


def discrete_laplace(
    generator: np.random.Generator, scale: float, size: Size
) -> npt.NDArray[np.int64]:
    """Draw integers with probability proportional to ``exp(-abs(x) / scale)``, exactly.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        In (0, 2^50]; see :func:`exact_scale` for scales below 1/16.
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
    return _draw(_laplace_kernel, generator, scale, size, _LAPLACE_WORDS)


def discrete_gaussian(
    generator: np.random.Generator, scale: float, size: Size
) -> npt.NDArray[np.int64]:
    """Draw integers with probability proportional to ``exp(-x**2 / (2 * scale**2))``, exactly.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        In (0, 2^50]; see :func:`exact_scale` for scales below 1/16. The standard deviation of
        the noise is slightly below it, noticeably so only for scales below 1.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    ndarray of int64
    """
    return _draw(_gaussian_kernel, generator, scale, size, _GAUSSIAN_WORDS)


@njit(cache=True)
def _advance(i, r, whole, rest, q):  # type: ignore[no-untyped-def]
    """Move from k to k + 1 the least integer i >= kb and r = iq - kp, where p = whole q + rest."""
    i += whole
    r -= rest
    if r < 0:
        r += q
        i += 1
    return i, r


@njit(cache=True)
def _laplace_draw(words, cursor, p, q, bits):  # type: ignore[no-untyped-def]
    """Draw one value: P(k) prop. to exp(-k), accept x with exp(-x), so P(i) prop. to exp(-i/b)."""
    whole, rest = p // q, p % q
    width = whole + (rest > 0)  # ceil(b): [kb, (k+1)b) holds at most so many integers
    while cursor[EXHAUSTED] == 0:
        i, r = 0, 0
        while i < _MAX_MAGNITUDE and coin_exp_one(words, cursor) and cursor[EXHAUSTED] == 0:
            i, r = _advance(i, r, whole, rest, q)
        j = uniform_below(words, cursor, width)
        i, r = i + j, r + j * q
        if r >= p or i >= _MAX_MAGNITUDE or not coin_exp_ratio(words, cursor, r, p, bits):
            continue
        if uniform_below(words, cursor, 2) == 0:
            return i
        if i > 0:  # zero has no negative twin: keep it under one sign only
            return -i
    return 0


@njit(cache=True)
def _gaussian_draw(words, cursor, p, q, bits):  # type: ignore[no-untyped-def]
    """Draw one value: P(k) prop. to exp(-k^2/2), accept x with exp(-x(2k+x)/2)."""
    whole, rest = p // q, p % q
    width = whole + (rest > 0)
    while cursor[EXHAUSTED] == 0:
        i, r, k = 0, 0, 0
        while i < _MAX_MAGNITUDE and coin_exp_half(words, cursor) and cursor[EXHAUSTED] == 0:
            i, r = _advance(i, r, whole, rest, q)
            k += 1
        if not _accept_k(words, cursor, k):
            continue
        j = uniform_below(words, cursor, width)
        i, r = i + j, r + j * q
        if r >= p or i >= _MAX_MAGNITUDE or not _accept_x(words, cursor, k, r, p, bits):
            continue
        if uniform_below(words, cursor, 2) == 0:
            return i
        if i > 0:
            return -i
    return 0


@njit(cache=True)
def _accept_k(words, cursor, k):  # type: ignore[no-untyped-def]
    """Flip a coin with probability exp(-k(k-1)/2): it turns exp(-k/2) into exp(-k^2/2)."""
    for _ in range(k * (k - 1)):
        if not coin_exp_half(words, cursor):
            return False
    return True


@njit(cache=True)
def _accept_x(words, cursor, k, r, p, bits):  # type: ignore[no-untyped-def]
    """Flip a coin with probability exp(-x(2k+x)/2), x = r/p: k + 1 coins exp(-g) that all show.

    g = x (2k+x)/(2k+2) < 1 is a product, so the coin of probability g/m of a coin exp(-g) is flipped
    factor by factor; u < 2k + x for a real u uniform in [0, 2k+2) is decided by its integer part
    except at 2k, where its fraction is compared with x.
    """
    for _ in range(k + 1):
        m = 1
        while uniform_below(words, cursor, m) == 0 and coin_ratio(words, cursor, r, p, bits):
            u = uniform_below(words, cursor, 2 * k + 2)
            if u > 2 * k or (u == 2 * k and not coin_ratio(words, cursor, r, p, bits)):
                break
            if cursor[EXHAUSTED] != 0:
                return False
            m += 1
        if m & 1 == 0:
            return False
    return True


@njit(cache=True)
def _laplace_kernel(words, cursor, out, start, p, q, bits):  # type: ignore[no-untyped-def]
    for t in range(start, out.size):
        first = cursor[POSITION]
        out[t] = _laplace_draw(words, cursor, p, q, bits)
        if cursor[EXHAUSTED] != 0:
            cursor[POSITION], cursor[EXHAUSTED] = first, 0
            return t
    return out.size


@njit(cache=True)
def _gaussian_kernel(words, cursor, out, start, p, q, bits):  # type: ignore[no-untyped-def]
    for t in range(start, out.size):
        first = cursor[POSITION]
        out[t] = _gaussian_draw(words, cursor, p, q, bits)
        if cursor[EXHAUSTED] != 0:
            cursor[POSITION], cursor[EXHAUSTED] = first, 0
            return t
    return out.size
