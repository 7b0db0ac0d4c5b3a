"""Argument checks and one-sided searches shared by the privacy arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable

# Relative width at which a search stops: a few units in the last place of a double.
_RELATIVE_WIDTH = 1e-14


def check_nonnegative(name: str, value: float) -> float:
    """Return `value` as a float, refusing NaN and negative numbers."""
    number = float(value)
    if math.isnan(number) or number < 0.0:
        raise ValueError(f"{name} must be >= 0, got {value!r}")
    return number


def check_positive(name: str, value: float) -> float:
    """Return `value` as a float, refusing NaN, zero and negative numbers."""
    number = float(value)
    if math.isnan(number) or number <= 0.0:
        raise ValueError(f"{name} must be > 0, got {value!r}")
    return number


def check_delta(value: float) -> float:
    """Return `value` as a float, refusing anything outside [0, 1)."""
    number = float(value)
    if not 0.0 <= number < 1.0:
        raise ValueError(f"delta must be in [0, 1), got {value!r}")
    return number


def check_count(name: str, value: float, minimum: int = 1) -> int:
    """Return `value` as an int, refusing fractions and numbers below `minimum`."""
    number = int(value) if math.isfinite(value) else minimum - 1
    if number != value or number < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    return number


def largest_satisfying(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Largest x with ``holds(x)``, for a predicate true up to a point and false after it.

    `low` must satisfy the predicate; `high` is doubled (from `low` upward) until it fails. The
    returned point is one at which the predicate was evaluated and found true, or `low` itself, so
    rounding never crosses to the other side.
    """
    while holds(high):
        low, high = high, 2.0 * high
        if math.isinf(high):
            return low
    return _bisect(holds, low, high)


def smallest_satisfying(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Smallest x with ``holds(x)``, for a predicate false up to a point and true after it.

    `high` is doubled until the predicate is true there; infinity if that never happens. The
    returned point satisfied the predicate when it was evaluated.
    """
    while not holds(high):
        low, high = high, 2.0 * high
        if math.isinf(high):
            return math.inf
    return _bisect(holds, high, low)


def _bisect(holds: Callable[[float], bool], good: float, bad: float) -> float:
    while abs(good - bad) > _RELATIVE_WIDTH * max(abs(good), abs(bad)):
        middle = 0.5 * (good + bad)
        if middle in (good, bad):
            break
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
