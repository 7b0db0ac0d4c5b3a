"""Random words for Numba kernels: read bit by bit, refilled without bias.

A kernel is a deterministic function of a stream of 64-bit words, so it can be tested by hand and
the words can come from any generator. A block of words may end in the middle of a draw. That draw
is then undone and done again from its first bit, with fresh words appended: the outcome is the one
that a single infinite stream would give. (Throwing its bits away instead would favor short draws.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["coin_exp_half", "coin_exp_one", "coin_exp_ratio", "coin_ratio", "draw_words", "fill"]
__all__ += ["EXHAUSTED", "POSITION", "take_bits", "uniform_below"]

Words = npt.NDArray[np.uint64]

POSITION = 0  # slots of a cursor: the next unread bit, ...
EXHAUSTED = 1  # ... and whether a read went past the end, so that what was read is void

_BLOCK = 1 << 15  # 256 kB of words: long enough to amortize a call, short enough for the cache
_FIRST_BITS = 16  # of a comparison; more are read only when these tie


def draw_words(generator: np.random.Generator, n: int) -> Words:
    """Draw `n` uniform 64-bit words."""
    return generator.integers(0, 2**64 - 1, size=n, dtype=np.uint64, endpoint=True)


def fill(
    kernel: Callable[..., int],
    generator: np.random.Generator,
    out: npt.NDArray[np.int64],
    parameters: tuple[Any, ...],
    *,
    words_per_draw: float,
    block: int = _BLOCK,
) -> None:
    """Fill the vector `out` with draws of `kernel`, feeding it blocks of random words.

    ``kernel(words, cursor, out, start, *parameters)`` fills ``out[start:]``. It returns how far it
    got, with the cursor at the first bit of the draw for which the words did not suffice.
    """
    cursor = np.zeros(2, dtype=np.int64)
    words = np.empty(0, dtype=np.uint64)
    done = 0
    while done < out.size:
        wanted = int(words_per_draw * (out.size - done)) + 16
        words = np.concatenate([words, draw_words(generator, min(wanted, block))])
        done = kernel(words, cursor, out, done, *parameters)
        words = words[cursor[POSITION] >> 6 :]
        cursor[POSITION] &= 63


@njit(cache=True)
def take_bits(words, cursor, count):  # type: ignore[no-untyped-def]
    """Return the next `count` (0 to 32) bits as an integer; 0 and a raised flag at the end."""
    position = cursor[POSITION]
    if position + count > 64 * words.size or cursor[EXHAUSTED] != 0:
        cursor[EXHAUSTED] = 1
        return np.int64(0)
    if count == 0:
        return np.int64(0)
    cursor[POSITION] = position + count
    index = position >> 6
    offset = position & 63
    value = words[index] >> np.uint64(offset)
    if offset + count > 64:
        value |= words[index + 1] << np.uint64(64 - offset)
    return np.int64(value & np.uint64((1 << count) - 1))


@njit(cache=True)
def uniform_below(words, cursor, n):  # type: ignore[no-untyped-def]
    """Return a uniform integer in [0, n), 1 <= n <= 2^62, by rejection; 0 when words run out."""
    bits = 0
    while (n - 1) >> bits != 0:
        bits += 1
    low = min(bits, 32)
    while True:
        value = take_bits(words, cursor, low)
        if bits > 32:
            value |= take_bits(words, cursor, bits - 32) << 32
        if value < n or cursor[EXHAUSTED] != 0:
            return min(value, n - 1)


@njit(cache=True)
def coin_ratio(words, cursor, a, b, bits):  # type: ignore[no-untyped-def]
    """Flip a coin with probability a / b, 0 <= a < b <= 2^bits <= 2^62.

    It shows heads when u < a, where u is uniform below b. The integer u is drawn by rejection from
    its leading bits down, and no further than needed to place it below a, between a and b, or at b
    and above.
    """
    shift = min(max(bits - _FIRST_BITS, 0), 32)  # take_bits reads at most 32 at a time
    low, high = a >> shift, (b - 1) >> shift
    while cursor[EXHAUSTED] == 0:
        u = take_bits(words, cursor, bits - shift)
        if u < low:
            return True
        if low < u < high:
            return False
        if u <= high:
            u = (u << shift) | take_bits(words, cursor, shift)
            if u < b:
                return u < a
    return False


@njit(cache=True)
def coin_exp_half(words, cursor):  # type: ignore[no-untyped-def]
    """Flip a coin with probability exp(-1/2)."""
    return coin_exp_ratio(words, cursor, 1, 2, 1)


@njit(cache=True)
def coin_exp_one(words, cursor):  # type: ignore[no-untyped-def]
    """Flip a coin with probability exp(-1)."""
    k = 2  # the first factor, of probability 1, is skipped
    while uniform_below(words, cursor, k) == 0 and cursor[EXHAUSTED] == 0:
        k += 1
    return k & 1 == 1


@njit(cache=True)
def coin_exp_ratio(words, cursor, a, b, bits):  # type: ignore[no-untyped-def]
    """Flip a coin with probability exp(-a/b), 0 <= a < b <= 2^bits.

    With g = a/b, the loop survives its k-th round with probability g/k, hence ends in round k + 1
    or later with probability g^k / k!, and in an odd round with probability 1 - g + g^2/2 - ... =
    exp(-g) (Canonne, Kamath & Steinke 2020, Algorithm 1).
    """
    k = 1
    while (
        uniform_below(words, cursor, k) == 0
        and coin_ratio(words, cursor, a, b, bits)
        and cursor[EXHAUSTED] == 0
    ):
        k += 1
    return k & 1 == 1
