"""Random subsets of rows with exactly the inclusion probabilities that accountants assume."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from skdpbayes.randomness._binomial import binomial
from skdpbayes.randomness._words import draw_words

Rows = npt.NDArray[np.int64]

SUBSET, FOUND = 0, 1  # slots of the state of drawing subsets
# Rows are put in order by sorting where that is less than reading all marks, 64 to a word.
SPARSE = 1 << 10


def poisson_subsets(
    generator: np.random.Generator, n: int, rate: float, count: int
) -> tuple[Rows, Rows]:
    """Draw Poisson samples: each of `n` rows is in each with probability `rate`, independently.

    The number of rows is drawn first, Binomial(n, rate), then a uniform subset of that size; this
    is the same distribution as n separate coins. The time is proportional to the rows drawn.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    n : int
        Number of rows.
    rate : float
        Inclusion probability, in [0, 1].
    count : int
        Number of samples.

    Returns
    -------
    rows : ndarray of int64
        The sampled rows, in ascending order within a sample.
    starts : ndarray of int64, shape (count + 1,)
        Sample t is ``rows[starts[t]:starts[t + 1]]``.

    Notes
    -----
    A double is a binary fraction, and the inclusion probability is that fraction exactly: the sizes
    are drawn by comparing uniform reals with the binomial law to as many digits as it takes. No
    floating point takes part. ``rate = b / n`` itself is rounded by at most ``2**-53`` relative;
    give the accountant the same double.
    """
    _check_rows(n)
    rate = float(rate)
    if not (0.0 <= rate <= 1.0):
        raise ValueError(f"rate must lie in [0, 1], got {rate!r}.")
    return _choose(generator, n, binomial(generator, n, rate, count))


def fixed_subsets(
    generator: np.random.Generator, n: int, size: int, count: int
) -> tuple[Rows, Rows]:
    """Draw uniform subsets of `size` out of `n` rows, without replacement.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    n : int
        Number of rows.
    size : int
        Number of rows in a subset, at most `n`.
    count : int
        Number of subsets.

    Returns
    -------
    rows : ndarray of int64
        The rows, in ascending order within a subset.
    starts : ndarray of int64, shape (count + 1,)
        Subset t is ``rows[starts[t]:starts[t + 1]]``.
    """
    _check_rows(n)
    if not (0 <= size <= n):
        raise ValueError(f"size must lie in [0, n={n}], got {size!r}.")
    return _choose(generator, n, np.full(count, size, dtype=np.int64))


def poisson_subset(
    generator: np.random.Generator, n: int, rate: float, out: Rows | None = None
) -> Rows:
    """Draw one Poisson sample; see `~skdpbayes.randomness.poisson_subsets`.

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
    """
    _check_buffer(n, n, out)
    return _into(poisson_subsets(generator, n, rate, 1)[0], out)


def fixed_subset(
    generator: np.random.Generator, n: int, size: int, out: Rows | None = None
) -> Rows:
    """Draw one uniform subset of `size` out of `n` rows; see `~skdpbayes.randomness.fixed_subsets`.

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
    _check_buffer(n, size, out)
    return _into(fixed_subsets(generator, n, size, 1)[0], out)


def _into(rows: Rows, out: Rows | None) -> Rows:
    if out is None:
        return rows
    out[: rows.size] = rows
    return out[: rows.size]


def _choose(generator: np.random.Generator, n: int, sizes: Rows) -> tuple[Rows, Rows]:
    """Draw a uniform subset of every size."""
    starts = np.zeros(sizes.size + 1, dtype=np.int64)
    np.cumsum(sizes, out=starts[1:])
    rows = np.empty(starts[-1], dtype=np.int64)
    marks = np.zeros((n + 63) >> 6, dtype=np.uint64)
    state = np.zeros(2, dtype=np.int64)
    needed = np.minimum(sizes, n - sizes)  # members or non-members, whichever are fewer
    words = np.empty(0, dtype=np.uint64)
    while not _fill(words, n, starts, rows, marks, state):
        missing = int(needed[state[SUBSET] :].sum() - state[FOUND])
        words = draw_words(generator, _words_to_mark(n, missing, int(needed.max())))
    return rows, starts


def _words_to_mark(n: int, count: int, largest: int) -> int:
    """Guess how many words it takes to mark `count` rows; a good guess saves calls."""
    tries_per_word = 2 if n <= 2**32 else 1
    hit = max(n, 1) / (1 << max(n - 1, 1).bit_length())
    fresh = 1 - largest / (2 * max(n, 1))
    return int(1.01 * count / (tries_per_word * hit * fresh)) + 16


def _check_rows(n: int) -> None:
    if not (0 <= n < 2**48):
        raise ValueError(f"n must be a non-negative number of rows, got {n!r}.")


def _check_buffer(n: int, length: int, out: Rows | None) -> None:
    _check_rows(n)
    if out is not None and (out.dtype != np.int64 or out.ndim != 1 or out.size < length):
        raise ValueError(
            f"out must be a vector of int64 with at least {length} entries, "
            f"got dtype {out.dtype} and shape {out.shape}."
        )


@njit(cache=True)
def _popcount(v):  # type: ignore[no-untyped-def]
    """Count the ones of a 64-bit word, by sums of pairs, nibbles and bytes."""
    v -= (v >> np.uint64(1)) & np.uint64(0x5555555555555555)
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((v * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def _fill(words, n, starts, rows, marks, state):  # type: ignore[no-untyped-def]
    """Go on drawing subsets; tell whether all are done, or else the words are used up.

    A subset's members (or, if they are more than half, its non-members) are marked one by one, each
    uniform among those not marked yet. `state` holds the subset in hand and how many it has.
    """
    mask = np.uint64(1)
    while mask < np.uint64(n):
        mask <<= np.uint64(1)
    mask -= np.uint64(1)
    halves = 2 if n <= 1 << 32 else 1
    half, word, position = halves, np.uint64(0), 0
    while state[SUBSET] < starts.size - 1:
        part = rows[starts[state[SUBSET]] : starts[state[SUBSET] + 1]]
        invert = part.size > n - part.size
        needed = n - part.size if invert else part.size
        found = state[FOUND]
        while found < needed:
            if half == halves:
                if position == words.size:
                    state[FOUND] = found
                    return False
                word = words[position]
                position += 1
                half = 0
            row = np.int64(word & mask)
            word >>= np.uint64(32)
            half += 1
            if row < n:
                bit = np.uint64(1) << np.uint64(row & 63)
                if marks[row >> 6] & bit == 0:
                    marks[row >> 6] |= bit
                    if not invert:
                        part[found] = row
                    found += 1
        if not invert and part.size * SPARSE < n:
            for row in part:
                marks[row >> 6] = np.uint64(0)
            part.sort()
        else:
            _collect(n, marks, invert, part)
        state[SUBSET] += 1
        state[FOUND] = 0
    return True


@njit(cache=True)
def _collect(n, marks, invert, out):  # type: ignore[no-untyped-def]
    """Write the marked rows (or, inverted, the others) in ascending order, and clear the marks."""
    filled = 0
    for w in range(marks.size):
        mark = ~marks[w] if invert else marks[w]
        marks[w] = np.uint64(0)
        if w == marks.size - 1 and n & 63 != 0:
            mark &= (np.uint64(1) << np.uint64(n & 63)) - np.uint64(1)  # rows end at n
        while mark != 0:
            rest = mark & (mark - np.uint64(1))  # without its lowest bit
            out[filled] = (w << 6) + _popcount((mark ^ rest) - np.uint64(1))
            filled += 1
            mark = rest
