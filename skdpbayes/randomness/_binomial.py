"""Exact binomial numbers, one random word each: the cumulative probabilities in integer arithmetic.

A number K is the first k with U < F(k) = P(K <= k) for a real U, uniform in [0, 1). A word is the
first 64 bits of U, which settle K unless some F(k) agrees with them; then more bits of U are drawn
and F is computed to more digits, until they do not. So the distribution is exact, not approximate
to some number of bits. No floating point takes part.

F follows from weights w(k) proportional to P(K = k) by w(k+1) / w(k) = (n-k) r / ((k+1) (1-r)),
starting from w = 2^P near the mode, where the rate r is a double and hence a fraction. Rounding
every weight down, and up, gives two integers that enclose it. From the mode outward the ratios
fall, so what lies beyond the last weight w is at most w ratio / (1 - ratio).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numba import njit

from skdpbayes.randomness._words import Words, draw_words

Ints = npt.NDArray[np.int64]

WORD = 64
SPARE = 96  # digits of the weights beyond those of F


def binomial(
    generator: np.random.Generator, n: int, rate: float, count: int, *, bits: int = WORD
) -> Ints:
    """Draw `count` numbers from Binomial(n, rate).

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    n : int
        Number of trials.
    rate : float
        Probability of success, in [0, 1].
    count : int
        How many numbers.
    bits : int, default=64
        How many bits of a word to look at first. The distribution does not depend on it; fewer
        send more numbers down the long path.

    Returns
    -------
    ndarray of int64, shape (count,)
    """
    if rate in (0.0, 1.0) or n == 0:
        return np.full(count, n if rate == 1.0 else 0, dtype=np.int64)
    first, low, high = _table(n, rate, bits)
    words = draw_words(generator, count) >> np.uint64(WORD - bits)
    out = np.empty(count, dtype=np.int64)
    _search(words, first, low, high, out)
    for place in np.flatnonzero(out < 0):
        out[place] = _decide(generator, n, rate, int(words[place]), bits)
    return out


@lru_cache(maxsize=16)
def _table(n: int, rate: float, bits: int) -> tuple[int, Words, Words]:
    """Return the enclosure of 2^bits F(k) as words, where those can still be told from 0 and 1."""
    first, low, high = enclose_cumulative(n, rate, bits)
    top = (1 << bits) - 1
    # entries that no number of this many bits reaches; the last of them serves as a lower bound
    start = max(bisect_right(high, 1) - 1, 0)
    stop = bisect_right(low, top - 1) + 1
    below, above = (
        np.array([min(value, top) for value in side[start:stop]], dtype=np.uint64)
        for side in (low, high)
    )
    return first + start, below, above


def _decide(generator: np.random.Generator, n: int, rate: float, u: int, bits: int) -> int:
    """Finish a draw whose first `bits` bits are `u`."""
    while True:
        u = (u << WORD) | int(draw_words(generator, 1)[0])
        bits += WORD
        first, low, high = enclose_cumulative(n, rate, bits)
        place = bisect_right(low, u)  # the first k that U, whatever its next bits, is below
        if place < len(low) and place > 0 and high[place - 1] <= u:
            return first + place


def enclose_cumulative(n: int, rate: float, bits: int) -> tuple[int, list[int], list[int]]:
    """Enclose the cumulative probabilities of Binomial(n, rate), 0 < rate < 1.

    Parameters
    ----------
    n : int
        Number of trials, at least 1.
    rate : float
        Probability of success.
    bits : int
        Digits after the binary point.

    Returns
    -------
    first : int
        The least k, -1 or an argument below which 2^bits F is hardly above 0.
    low, high : list of int
        ``low[i] <= 2**bits * F(first + i) <= high[i]``, nondecreasing, up to an argument from which
        2^bits (1 - F) is hardly above 0.
    """
    success, whole = float(rate).as_integer_ratio()
    mode = min(n, (n + 1) * success // whole)
    unit = 1 << (bits + SPARE)
    failure = whole - success
    above, rest_above = _weights(
        unit, (((n - k) * success, (k + 1) * failure) for k in range(mode, n))
    )
    below, rest_below = _weights(
        unit, ((k * failure, (n - k + 1) * success) for k in range(mode, 0, -1))
    )
    pairs = [*reversed(below), (unit, unit), *above]
    total_low = sum(pair[0] for pair in pairs)
    total_high = sum(pair[1] for pair in pairs) + rest_above + rest_below
    low, high = [0], [-(-(rest_below << bits) // total_low)]
    part_low, part_high = 0, rest_below
    for weight_low, weight_high in pairs:
        part_low, part_high = part_low + weight_low, part_high + weight_high
        low.append((part_low << bits) // total_high)
        high.append(min(-(-(part_high << bits) // total_low), 1 << bits))
    if mode + len(above) == n:
        low[-1] = 1 << bits  # F(n) = 1
    return mode - len(below) - 1, low, high


def _weights(unit: int, ratios: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """Return enclosed weights from the mode outward and a bound on the sum of those left out."""
    pairs: list[tuple[int, int]] = []
    low = high = unit
    for numerator, denominator in ratios:
        if high <= 1:  # here numerator < denominator: the weight has fallen from its largest
            return pairs, -(-high * numerator // (denominator - numerator))
        low, high = low * numerator // denominator, -(-high * numerator // denominator)
        pairs.append((low, high))
    return pairs, 0


@njit(cache=True)
def _search(words, first, low, high, out):  # type: ignore[no-untyped-def]
    """Write the number that every word stands for, or -1 where it does not settle it."""
    for i in range(words.size):
        a, b = 0, low.size
        while a < b:  # the first entry whose `low` is above the word
            middle = (a + b) >> 1
            if low[middle] > words[i]:
                b = middle
            else:
                a = middle + 1
        settled = 0 < a < low.size and high[a - 1] <= words[i]
        out[i] = first + a if settled else -1
