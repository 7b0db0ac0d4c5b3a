"""Random subsets of rows with exactly the inclusion probabilities that accountants assume."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from skdpbayes.randomness._words import Words, draw_words

__all__ = ["fixed_subset", "poisson_subset"]

Rows = npt.NDArray[np.int64]

BIT, TIED, BELOW = 0, 1, 2  # slots of the state of a binomial draw


def poisson_subset(
    generator: np.random.Generator, n: int, rate: float, out: Rows | None = None
) -> Rows:
    """Draw a Poisson sample: each of `n` rows is in it with probability `rate`, independently.

    The number of rows is drawn first, Binomial(n, rate), then a uniform subset of that size; this
    is the same distribution as n separate coins.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    n : int
        Number of rows.
    rate : float
        Inclusion probability, in [0, 1].
    out : ndarray of int64, shape (n,), optional
        Buffer to reuse. The sample can be as large as `n`, so the buffer must be, too.

    Returns
    -------
    ndarray of int64
        The sampled rows in ascending order: the leading part of `out`.

    Notes
    -----
    A double is a binary fraction, and the inclusion probability is that fraction exactly: row i is
    in the sample when a uniform real U_i is below `rate`, and the number of such rows is found by
    comparing all U_i with `rate` bit by bit, counting how many are decided and how many still tie.
    No floating point takes part. ``rate = b / n`` itself is rounded by at most 2^-53 relative; give
    the accountant the same double.
    """
    rate = float(rate)
    if not (0.0 <= rate <= 1.0):
        raise ValueError(f"rate must lie in [0, 1], got {rate!r}.")
    out = _check_buffer(n, n, out)
    numerator, denominator = rate.as_integer_ratio()
    exponent = denominator.bit_length() - 1
    if exponent == 0:  # the rate is 0 or 1
        return _choose(generator, n, n * numerator, out, np.empty(0, dtype=np.uint64))
    state = np.array([0, n, 0], dtype=np.int64)
    # The tied reals halve with every bit, which takes 2n bits and a remainder for every bit. What
    # is left of the words serves to choose the rows.
    words = draw_words(generator, (n >> 5) + 64 + _words_to_mark(n, int(min(rate, 1 - rate) * n)))
    words = words[_binomial(words, state, numerator, exponent) :]
    while state[BIT] < exponent and state[TIED] > 0:
        words = draw_words(generator, (int(state[TIED]) >> 5) + 64)
        words = words[_binomial(words, state, numerator, exponent) :]
    return _choose(generator, n, int(state[BELOW]), out, words)


def fixed_subset(
    generator: np.random.Generator, n: int, size: int, out: Rows | None = None
) -> Rows:
    """Draw a uniform subset of `size` out of `n` rows, without replacement.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    n : int
        Number of rows.
    size : int
        Number of rows to draw, at most `n`.
    out : ndarray of int64, shape (size,) or longer, optional
        Buffer to reuse.

    Returns
    -------
    ndarray of int64, shape (size,)
        The sampled rows in ascending order: the leading part of `out`.
    """
    if not (0 <= size <= n):
        raise ValueError(f"size must lie in [0, n={n}], got {size!r}.")
    out = _check_buffer(n, size, out)
    return _choose(generator, n, size, out, np.empty(0, dtype=np.uint64))


def _choose(generator: np.random.Generator, n: int, size: int, out: Rows, words: Words) -> Rows:
    """Write a uniform subset of the given size into `out`, using `words` before drawing more."""
    marks = np.zeros((n + 63) >> 6, dtype=np.uint64)
    invert = size > n - size
    missing = min(size, n - size)  # mark the members or the non-members, whichever are fewer
    missing -= _mark(words, n, missing, marks)
    while missing > 0:
        words = draw_words(generator, _words_to_mark(n, missing))
        missing -= _mark(words, n, missing, marks)
    _collect(n, marks, invert, out)
    return out[:size]


def _words_to_mark(n: int, count: int) -> int:
    """Guess how many words it takes to mark `count` of `n` rows; a good guess saves calls."""
    tries_per_word = 2 if n <= 2**32 else 1
    hit = max(n, 1) / (1 << max(n - 1, 1).bit_length())
    fresh = 1 - count / (2 * max(n, 1))
    return int(1.1 * count / (tries_per_word * hit * fresh)) + 16


def _check_buffer(n: int, length: int, out: Rows | None) -> Rows:
    if not (0 <= n < 2**48):
        raise ValueError(f"n must be a non-negative number of rows, got {n!r}.")
    if out is None:
        return np.empty(length, dtype=np.int64)
    if out.dtype != np.int64 or out.ndim != 1 or out.size < length:
        raise ValueError(
            f"out must be a vector of int64 with at least {length} entries, "
            f"got dtype {out.dtype} and shape {out.shape}."
        )
    return out


@njit(cache=True)
def _popcount(v):  # type: ignore[no-untyped-def]
    """Count the ones of a 64-bit word, by sums of pairs, nibbles and bytes."""
    v -= (v >> np.uint64(1)) & np.uint64(0x5555555555555555)
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((v * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def _binomial(words, state, numerator, exponent):  # type: ignore[no-untyped-def]
    """Count how many uniform reals are below numerator / 2^exponent; return the words used.

    `state` holds the number of bits compared, the reals that agree with the rate in all of them
    (tied) and those known to be below. A bit is compared when enough words for all tied reals are
    left, so running out of words discloses nothing about them and the caller just brings more.
    """
    position = 0
    while state[BIT] < exponent and state[TIED] > 0:
        tied = state[TIED]
        whole, rest = tied >> 6, tied & 63
        if position + whole + 1 > words.size:
            break
        ones = np.int64(0)
        for w in range(position, position + whole):
            ones += _popcount(words[w])
        position += whole
        if rest > 0:
            ones += _popcount(words[position] >> np.uint64(64 - rest))
            position += 1
        state[BIT] += 1
        shift = exponent - state[BIT]
        if shift < 63 and (numerator >> shift) & 1 == 1:
            state[BELOW] += tied - ones
            state[TIED] = ones
        else:
            state[TIED] = tied - ones
    return position


@njit(cache=True)
def _mark(words, n, count, marks):  # type: ignore[no-untyped-def]
    """Set up to `count` more of `n` marks, each uniform among those not set; return how many."""
    mask = np.uint64(1)
    while mask < np.uint64(n):
        mask <<= np.uint64(1)
    mask -= np.uint64(1)
    halves = 2 if n <= 1 << 32 else 1
    found = 0
    for word in words:
        for _ in range(halves):
            row = np.int64(word & mask)
            word >>= np.uint64(32)
            if found == count:
                return found
            if row < n:
                bit = np.uint64(1) << np.uint64(row & 63)
                if marks[row >> 6] & bit == 0:
                    marks[row >> 6] |= bit
                    found += 1
    return found


@njit(cache=True)
def _collect(n, marks, invert, out):  # type: ignore[no-untyped-def]
    """Write the marked rows (or, inverted, the others) in ascending order."""
    filled = 0
    for w in range(marks.size):
        mark = ~marks[w] if invert else marks[w]
        if w == marks.size - 1 and n & 63 != 0:
            mark &= (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)  # rows end at n
        while mark != 0:
            rest = mark & (mark - np.uint64(1))  # without its lowest bit
            out[filled] = (w << 6) + _popcount((mark ^ rest) - np.uint64(1))
            filled += 1
            mark = rest
