"""The strip sampler: exact integer noise, one random word per trial.

Both distributions have weights exp(-E(y)) at y = abs(i) / b, with b = p/q the scale and E(y) = y
(Laplace) or y^2 / 2 (Gaussian). The half-line is cut into strips k <= y < k + 1, k = 0, 1, ...
(Karney, "Sampling exactly from the normal distribution", ACM TOMS 42:3, 2016, Algorithm D). Strip
k gets a height ``heights[k]`` = ceil(S exp(-E(k))), S an integer with sum of heights <= 2^32. One
trial throws a point into the stack of strips:

1. a 32-bit integer picks strip k and the integer part of a height u, uniform in [0, heights[k]);
2. j, uniform below ceil(b), picks the integer i = ceil(kb) + j; beyond the strip it is rejected;
3. a sign; minus zero is rejected;
4. i is accepted when u < S exp(-E(i/b)).

Accepted integers have the desired distribution. Step 4 compares a real number with a
transcendental one, but the integer part of u nearly always settles it: the kernel computes
S exp(-E) in fixed point to within ``WINDOW`` and hands a closer call back (about one in 10^7),
as well as the far tail, which has no strips. Both are then decided to as many digits as it takes.
So the distribution is exact, not approximate to some number of bits.

Integers stay small: p < 2^54 and q <= 2^56 give r = iq - kp < p + q < 2^57, and in fixed point
every product is below 2^62.
"""

from __future__ import annotations

import decimal
import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from numba import njit

from skdpbayes.randomness._words import draw_words

Ints = npt.NDArray[np.int64]

UNIT = 28  # fixed point of y and E: multiples of 2^-28
STEP = 6  # exp(-E) is tabulated at multiples of 2^-6
POLY = 30  # fixed point of exp within a step of the table
WINDOW = 64  # bound on the error of S exp(-E) in the kernel, see _scaled_exp
SPARE = 31  # bits of a word left for j, after 32 for the height and one for the sign
BLOCK = 1 << 15  # words per call: long enough to amortize it, short enough for the cache

_LAPLACE_STRIPS = 16  # the rest weighs exp(-16) = 1e-7
_GAUSSIAN_STRIPS = 6  # the rest weighs exp(-18) = 2e-8

_DONE, _TAIL, _CLOSE = 0, 1, 2  # why the kernel stopped: end of words or output; a hard case


@dataclass(frozen=True)
class Plan:
    """What the kernel needs to know about one distribution."""

    gaussian: bool
    p: int
    q: int
    height: int  # S
    heights: Ints  # ceil(S exp(-E(k))), strips first, then the tail
    first: Ints  # ceil(kb), the least integer of strip k
    offset: Ints  # q ceil(kb) - kp, so that y = k + (offset + jq) / p
    table: Ints  # S exp(-n / 64)
    width: int  # ceil(b)
    trials: float  # expected number per draw

    @property
    def n_strips(self) -> int:
        """Number of strips before the tail."""
        return self.first.size


@functools.cache
def _stack(gaussian: bool) -> tuple[int, Ints, Ints]:
    """Return S, the heights and the table, which do not depend on the scale."""
    n_strips = _GAUSSIAN_STRIPS if gaussian else _LAPLACE_STRIPS
    exponents = [Fraction(k * k, 2) if gaussian else Fraction(k) for k in range(n_strips + 1)]
    # Heights are rounded up and the tail counts twice (see _tail_trial): keep room for that.
    total = sum(math.exp(-e) for e in exponents) + math.exp(-exponents[-1])
    height = int((2**32 - n_strips - 4) / (total * (1 + 1e-12)))
    heights = [math.ceil(_scaled_exp_bounds(height, e, digits=40)[1]) for e in exponents]
    heights[-1] *= 2
    return height, np.array(heights, dtype=np.int64), _exp_table(height, int(exponents[-1]))


def make_plan(p: int, q: int, *, gaussian: bool) -> Plan:
    """Prepare draws at the scale p/q."""
    height, heights, table = _stack(gaussian)
    strips = range(heights.size - 1)
    first = [-(-k * p // q) for k in strips]
    offset = [q * i - k * p for k, i in enumerate(first)]
    width = -(-p // q)
    mass = max(1.0, p / q * (math.sqrt(2 * math.pi) if gaussian else 2.0))
    return Plan(
        gaussian=gaussian,
        p=p,
        q=q,
        height=height,
        heights=heights,
        first=np.array(first, dtype=np.int64),
        offset=np.array(offset, dtype=np.int64),
        table=table,
        width=width,
        trials=2.0 * width * 2**32 / (height * mass),
    )


def _exp_table(height: int, largest: int) -> Ints:
    """Tabulate S exp(-n/64), n = 0, ..., 64 * largest, within 1, by repeated multiplication."""
    one = 1 << 128
    step = int(_scaled_exp_bounds(one, Fraction(1, 1 << STEP), digits=60)[0])
    value = height << 64
    table = []
    for _ in range((largest << STEP) + 2):
        table.append(value >> 64)
        value = value * step >> 128
    return np.array(table, dtype=np.int64)


def _scaled_exp_bounds(height: int, exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Enclose S exp(-E). Decimal arithmetic is correctly rounded, exp included."""
    if exponent == 0:
        return Fraction(height), Fraction(height)
    context = decimal.Context(prec=digits)
    ratio = context.divide(decimal.Decimal(exponent.numerator), exponent.denominator)
    value = height * Fraction(context.exp(ratio.copy_negate()))
    # The quotient and exp are each off by a relative 10^(1-digits) / 2 at most.
    slack = value * (exponent + 2) / 10 ** (digits - 1)
    return value - slack, value + slack


def fill(generator: np.random.Generator, plan: Plan, out: Ints, *, window: int = WINDOW) -> None:
    """Fill the vector `out` with draws. A wider `window` sends more of them down the exact path."""
    pending = np.zeros(2, dtype=np.int64)
    stride = 1 if plan.width <= 1 << SPARE else 2
    done, position = 0, 0
    words = np.empty(0, dtype=np.uint64)
    while done < out.size:
        if position + stride > words.size:
            wanted = stride * (int(1.05 * plan.trials * (out.size - done)) + 8)
            words, position = draw_words(generator, min(wanted, BLOCK)), 0
        done, position, status = _trials(
            words, position, out, done, stride, plan.gaussian, plan.heights, plan.first,
            plan.offset, plan.table, plan.p, plan.q, plan.width, window, pending,
        )  # fmt: skip
        if status == _DONE:
            continue
        if status == _TAIL:
            value = _tail_trial(generator, plan)
        else:
            i, u = pending.tolist()
            value = i if _accept(generator, plan, abs(i), plan.height, u) else None
        if value is not None:
            out[done] = value
            done += 1


def _accept(generator: np.random.Generator, plan: Plan, i: int, height: int, u: int) -> bool:
    """Decide U < height * exp(-E(i/b)) for a real U uniform in [u, u + 1), to the last digit."""
    y = Fraction(i * plan.q, plan.p)
    exponent = y * y / 2 if plan.gaussian else y
    scale, digits = 1, 30
    while True:
        low, high = _scaled_exp_bounds(height, exponent, digits)
        if Fraction(u + 1, scale) <= low:
            return True
        if Fraction(u, scale) >= high:
            return False
        u = (u << 64) | int(draw_words(generator, 1)[0])
        scale, digits = scale << 64, digits + 20


def _tail_trial(generator: np.random.Generator, plan: Plan) -> int | None:
    """Finish a trial that fell into the tail; None when it is rejected.

    The tail is a stack of strips k = K, K + 1, ... of heights h, h/2, h/4, ... with h =
    ceil(S exp(-E(K))), which bound S exp(-E(k)) because exp(-E) falls by at least a factor e from
    one strip to the next.
    """
    halvings = 0
    while generator.integers(2) == 0:
        halvings += 1
    k = plan.n_strips + halvings
    i = -(-k * plan.p // plan.q) + int(generator.integers(plan.width))
    if i * plan.q >= (k + 1) * plan.p:
        return None
    u = int(generator.integers(plan.heights[-1] // 2))
    if not _accept(generator, plan, i, plan.height << halvings, u):
        return None
    return i if generator.integers(2) == 0 else -i


@njit(cache=True)
def _scaled_exp(e, table):  # type: ignore[no-untyped-def]
    """Return S exp(-E) for E = e 2^-28, from the table and the cubic Taylor polynomial.

    Error budget in units of the result (S < 2^31.4): the table 1; the polynomial 7 for its
    remainder (at most 2^-24 / 24) and 8 for three truncations below 2^-30 each; the last shift 1.
    The callers' E is off by 1.1 * 2^-28, since y is truncated, which moves the result by 12, or for
    E = y^2 / 2, truncated once more, by 1.1 * 2^-28 (y + 1), which moves it by 7 + 11. In all below
    36; WINDOW leaves room.
    """
    x = (e & ((1 << (UNIT - STEP)) - 1)) << (POLY - UNIT)
    second = (x * x) >> (POLY + 1)
    third = ((second * x) >> POLY) // 3
    polynomial = (1 << POLY) - x + second - third
    return (table[e >> (UNIT - STEP)] * polynomial) >> POLY


@njit(cache=True)
def _trials(  # type: ignore[no-untyped-def]
    words, position, out, done, stride, gaussian, heights, first, offset, table, p, q, width,
    window, pending,
):  # fmt: skip
    """Run trials until words or output end or one is too close to call.

    Returns the number of filled entries, the number of used words, and why it stopped. A close
    call leaves the signed integer and the integer part of its height in `pending`.
    """
    # Lemire's unbiased multiplication drops the lowest products ("Fast random integer generation
    # in an interval", ACM TOMACS 29:1, 2019); wide strips mask a second word.
    excess = (1 << SPARE) % width
    mask = np.uint64(1)
    while mask < np.uint64(width):
        mask <<= np.uint64(1)
    mask -= np.uint64(1)
    shift = 0
    while p >> shift >= 1 << 34:
        shift += 1
    short_p = p >> shift
    n_strips = first.size
    while done < out.size and position + stride <= words.size:
        word = words[position]
        u = np.int64(word >> np.uint64(32))
        negative = (word >> np.uint64(SPARE)) & np.uint64(1) == np.uint64(1)
        j = np.int64(words[position + stride - 1] & mask)  # j >= width gives r >= p below
        position += stride
        if stride == 1:
            product = np.int64(word & np.uint64((1 << SPARE) - 1)) * width
            if product & ((1 << SPARE) - 1) < excess:
                continue
            j = product >> SPARE
        k = 0
        while k < n_strips and u >= heights[k]:
            u -= heights[k]
            k += 1
        if k == n_strips:
            if u < heights[k]:
                return done, position, _TAIL
            continue  # the few words above the stack
        i = first[k] + j
        r = offset[k] + j * q
        if r >= p or (negative and i == 0):
            continue
        y = (k << UNIT) + ((r >> shift) << UNIT) // short_p
        e = (y * y) >> (UNIT + 1) if gaussian else y
        bound = _scaled_exp(e, table)
        if u >= bound + window:
            continue
        if negative:
            i = -i
        if u + 1 > bound - window:
            pending[0], pending[1] = i, u
            return done, position, _CLOSE
        out[done] = i
        done += 1
    return done, position, _DONE
