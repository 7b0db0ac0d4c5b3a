"""Decide whether charges fit a budget by their tight total, and remember the answers.

What fits still fits with fewer reservations, and what does not fit does not with more. So one
composition settles many later questions, and a question about many equal reservations is asked a
little ahead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from skdpbayes.privacy.ledger.totals import Charges, tight_delta

__all__ = ["fits_tightly"]

_Counts: TypeAlias = Mapping[str, int]

# Look ahead by this share of each count; an answer then saves as many compositions.
_AHEAD = 1 / 20
_REMEMBERED = 32


def fits_tightly(charges: Charges, epsilon: float, delta: float) -> bool:
    """Whether all `charges` together are (epsilon, delta)-private.

    Parameters
    ----------
    charges : tuple of (str, int)
        Guarantees as JSON with their counts; one guarantee may appear more than once.
    epsilon, delta : float
        The budget.
    """
    counts: dict[str, int] = {}
    for text, count in charges:
        counts[text] = counts.get(text, 0) + count
    memory = _memory(epsilon, delta)
    known = _recall(memory, counts)
    if known is not None:
        return known
    ahead = {text: count + int(_AHEAD * count) for text, count in counts.items()}
    if ahead != counts and _recall(memory, ahead) is None and _ask(memory, ahead, epsilon, delta):
        return True
    return _ask(memory, counts, epsilon, delta)


@lru_cache(maxsize=16)
def _memory(epsilon: float, delta: float) -> deque[tuple[_Counts, bool]]:
    return deque(maxlen=_REMEMBERED)


def _recall(memory: deque[tuple[_Counts, bool]], counts: _Counts) -> bool | None:
    for known, fits in tuple(memory):
        if _covers(known, counts) if fits else _covers(counts, known):
            return fits
    return None


def _covers(more: _Counts, less: _Counts) -> bool:
    return all(more.get(text, 0) >= count for text, count in less.items())


def _ask(
    memory: deque[tuple[_Counts, bool]], counts: _Counts, epsilon: float, delta: float
) -> bool:
    fits = tight_delta(tuple(sorted(counts.items())), epsilon) <= delta
    memory.append((counts, fits))
    return fits
