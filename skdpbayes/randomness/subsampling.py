"""Random subsets of rows with exactly the inclusion probabilities that accountants assume."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from skdpbayes.randomness._words import EXHAUSTED, Words, draw_words, take_bits, uniform_below

__all__ = ["fixed_subset", "poisson_subset"]

Rows = npt.NDArray[np.int64]


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
    parameters = (numerator, denominator.bit_length() - 1)
    # The tied rows halve with every bit: about 2n bits in all, and one read for the rest of each.
    return _run(_poisson_kernel, generator, n, parameters, out, bits=2 * n + 64 * int(n * rate))


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
    return _run(_fixed_kernel, generator, n, (size,), out, bits=64 * min(size, n - size))


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


def _run(
    kernel: Any,
    generator: np.random.Generator,
    n: int,
    parameters: tuple[int, ...],
    out: Rows,
    bits: int,
) -> Rows:
    """Run a kernel that returns the size of its subset, or -1 when it needs more words."""
    words: Words = np.empty(0, dtype=np.uint64)
    marks = np.empty((n + 63) >> 6, dtype=np.uint64)
    cursor = np.empty(2, dtype=np.int64)
    size = -1
    while size < 0:
        words = np.concatenate([words, draw_words(generator, (bits >> 6) + 64)])
        cursor[:] = 0  # the subset starts over from the same words: no bias, see _words
        size = kernel(words, cursor, n, *parameters, marks, out)
    return out[:size]


@njit(cache=True)
def _count_heads(words, cursor, flips):  # type: ignore[no-untyped-def]
    """Draw Binomial(flips, 1/2): the number of ones among so many random bits."""
    heads = np.int64(0)
    while flips > 0 and cursor[EXHAUSTED] == 0:
        count = min(flips, 32)
        v = take_bits(words, cursor, count)
        v -= (v >> 1) & 0x55555555  # population count of 32 bits by pairwise sums
        v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
        v = (v + (v >> 4)) & 0x0F0F0F0F
        heads += ((v * 0x01010101) >> 24) & 0xFF
        flips -= count
    return heads


@njit(cache=True)
def _binomial(words, cursor, n, numerator, exponent):  # type: ignore[no-untyped-def]
    """Draw Binomial(n, numerator / 2^exponent): how many of n uniform reals are below the rate."""
    if exponent == 0:  # the rate is 0 or 1
        return n * numerator
    below = np.int64(0)
    tied = n  # reals that agree with the rate in all bits so far
    for level in range(1, exponent + 1):
        if tied == 0:
            break
        ones = _count_heads(words, cursor, tied)
        shift = exponent - level
        if shift < 63 and (numerator >> shift) & 1 == 1:
            below += tied - ones
            tied = ones
        else:
            tied -= ones
    return below  # the reals that tie to the end are not below the rate


@njit(cache=True)
def _subset(words, cursor, n, size, marks, out):  # type: ignore[no-untyped-def]
    """Write a uniform subset of [0, n) in ascending order; return its size or -1."""
    marks[:] = 0
    few = min(size, n - size)  # mark the members or the non-members, whichever are fewer
    while few > 0 and cursor[EXHAUSTED] == 0:
        row = uniform_below(words, cursor, n)
        bit = np.uint64(1) << np.uint64(row & 63)
        if marks[row >> 6] & bit == 0:
            marks[row >> 6] |= bit
            few -= 1
    if cursor[EXHAUSTED] != 0:
        return -1
    wanted = np.uint64(1) if size <= n - size else np.uint64(0)
    filled = 0
    for row in range(n):
        if (marks[row >> 6] >> np.uint64(row & 63)) & np.uint64(1) == wanted:
            out[filled] = row
            filled += 1
    return size


@njit(cache=True)
def _poisson_kernel(words, cursor, n, numerator, exponent, marks, out):  # type: ignore[no-untyped-def]
    size = _binomial(words, cursor, n, numerator, exponent)
    if cursor[EXHAUSTED] != 0:
        return -1
    return _subset(words, cursor, n, size, marks, out)


@njit(cache=True)
def _fixed_kernel(words, cursor, n, size, marks, out):  # type: ignore[no-untyped-def]
    return _subset(words, cursor, n, size, marks, out)
