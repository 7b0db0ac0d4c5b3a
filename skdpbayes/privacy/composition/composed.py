"""Several releases together.

:func:`compose` and :func:`repeat` build one event out of many and keep it small: nested
compositions are flattened, equal events are counted, and Gaussian releases merge into one.
The total is the tight one, from the privacy loss distributions of the parts
(:mod:`skdpbayes.privacy.composition.convolution`), and holds for adaptively chosen releases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from skdpbayes.privacy._numeric import check_count, check_nonnegative, smallest_satisfying
from skdpbayes.privacy.composition.convolution import composed_delta, composed_epsilon
from skdpbayes.privacy.events import (
    GaussianDP,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
    check_probability,
    store,
)
from skdpbayes.privacy.mechanisms.bounded_range import zcdp_delta

# Above this epsilon privacy is a formality, and losses may not fit any grid: zCDP helps out.
_CRUDE_FROM = 100.0


class _Composition(PrivacyEvent):
    """What the two composite events share: prices from the parts."""

    def _parts(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        """Return the distinct elementary events with their counts."""
        raise NotImplementedError

    def _single(self) -> PrivacyEvent | None:
        """Return the elementary event that the parts merge into, if they do."""
        parts = self._parts()
        return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None

    def delta_at(self, epsilon: float) -> float:
        """Return the tight delta of the whole at `epsilon`, never below the truth.

        Parameters
        ----------
        epsilon : float
            At least 0.
        """
        epsilon = check_nonnegative("epsilon", epsilon)
        bound, beyond = self._loss_bound()
        if epsilon >= bound:
            return beyond
        if (single := self._single()) is not None:
            return single.delta_at(epsilon)
        delta = composed_delta(self._parts(), epsilon)
        return min(delta, zcdp_delta(epsilon, self._zcdp())) if epsilon > _CRUDE_FROM else delta

    def epsilon_at(self, delta: float) -> float:
        """Return the tight epsilon of the whole at `delta`, rounded up.

        Parameters
        ----------
        delta : float
            In [0, 1].
        """
        delta = check_probability("delta", delta)
        bound, beyond = self._loss_bound()
        if delta < beyond:
            return math.inf
        if delta == 1.0:
            return 0.0
        if delta == beyond:  # pure parts add up exactly; unbounded ones never reach 0
            return bound
        if (single := self._single()) is not None:
            return single.epsilon_at(delta)
        epsilon = composed_epsilon(self._parts(), delta)
        if epsilon > _CRUDE_FROM:
            epsilon = min(epsilon, _zcdp_epsilon(self._zcdp(), delta))
        return min(bound, epsilon)

    def _zcdp(self) -> float:
        return math.fsum(count * event._zcdp() for event, count in self._parts())

    def _loss_bound(self) -> tuple[float, float]:
        bound, log_within = 0.0, 0.0
        for event, count in self._parts():
            part, beyond = event._loss_bound()
            if beyond >= 1.0:
                return math.inf, 1.0
            bound += count * part
            log_within += count * math.log1p(-beyond)
        return bound, abs(math.expm1(log_within))


@dataclass(frozen=True)
class Repeated(_Composition):
    """The same kind of release made `count` times, each may depend on the earlier ones.

    Parameters
    ----------
    event : PrivacyEvent
        One release.
    count : int
        At least 1.
    """

    event: PrivacyEvent
    count: int
    kind: ClassVar[str] = "repeated"

    def __post_init__(self) -> None:
        store(self, count=check_count("count", self.count))

    def _parts(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        return _count_parts([(self.event, self.count)])


@dataclass(frozen=True)
class Composed(_Composition):
    """Different releases from the same data, each may depend on the earlier ones.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        At least one release.
    """

    events: tuple[PrivacyEvent, ...]
    kind: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        store(self, events=tuple(self.events))
        if not self.events:
            raise ValueError("events must hold at least one privacy event")

    def _parts(self) -> tuple[tuple[PrivacyEvent, int], ...]:
        return _count_parts([(event, 1) for event in self.events])


def repeat(event: PrivacyEvent, count: int) -> PrivacyEvent:
    """Return the event of `count` releases like `event`.

    Parameters
    ----------
    event : PrivacyEvent
        One release.
    count : int
        At least 1.

    Examples
    --------
    >>> from skdpbayes.privacy import GaussianDP, PureDP, repeat
    >>> repeat(GaussianDP(0.5), 4)
    GaussianDP(mu=1.0)
    >>> many = repeat(PureDP(0.1), 100)
    >>> many.epsilon_at(0.0) == 100 * 0.1, many.epsilon_at(1e-5) < 4.7
    (True, True)
    """
    return _simplify(_count_parts([(event, check_count("count", count))]))


def compose(events: Iterable[PrivacyEvent]) -> PrivacyEvent:
    """Return one event for all of `events`; no release at all is ``PureDP(0.0)``.

    Parameters
    ----------
    events : iterable of PrivacyEvent
        In any order; the price does not depend on it.

    Examples
    --------
    >>> from skdpbayes.privacy import GaussianDP, PureDP, compose
    >>> compose([GaussianDP(3.0), PureDP(0.5), GaussianDP(4.0), PureDP(0.5)])
    Composed(events=(GaussianDP(mu=5.0), Repeated(event=PureDP(epsilon=0.5), count=2)))
    """
    return _simplify(_count_parts([(event, 1) for event in events]))


def _count_parts(
    weighted: Iterable[tuple[PrivacyEvent, int]],
) -> tuple[tuple[PrivacyEvent, int], ...]:
    """Flatten, merge Gaussians by root-sum-square, count equal events, in a canonical order."""
    counts: Counter[PrivacyEvent] = Counter()
    pending = list(weighted)
    while pending:
        event, count = pending.pop()
        event = event._simplified()
        if isinstance(event, _Composition):
            pending.extend((part, count * times) for part, times in event._parts())
        else:
            counts[event] += count
    mu_square = math.fsum(
        count * event.mu * event.mu
        for event, count in counts.items()
        if isinstance(event, GaussianDP)
    )
    parts = [item for item in counts.items() if not isinstance(item[0], GaussianDP)]
    gaussians = [item for item in counts.items() if isinstance(item[0], GaussianDP)]
    if len(gaussians) == 1 and gaussians[0][1] == 1:
        parts.append(gaussians[0])
    elif gaussians:
        parts.append((GaussianDP(math.sqrt(mu_square)), 1))
    return tuple(sorted(parts, key=lambda part: (part[0].kind, repr(part[0]))))


def _simplify(parts: tuple[tuple[PrivacyEvent, int], ...]) -> PrivacyEvent:
    """Return the smallest event that stands for `parts`."""
    if any(isinstance(event, NoPrivacy) for event, _ in parts):
        return NoPrivacy()
    parts = tuple(part for part in parts if part[0]._loss_bound() != (0.0, 0.0))
    events = tuple(event if count == 1 else Repeated(event, count) for event, count in parts)
    if not events:
        return PureDP(0.0)
    return events[0] if len(events) == 1 else Composed(events)


def _zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an epsilon at which every rho-zCDP release is (epsilon, delta)-private."""
    if math.isinf(rho):
        return math.inf
    start = rho + 2.0 * math.sqrt(-rho * math.log(delta))
    return smallest_satisfying(lambda epsilon: zcdp_delta(epsilon, rho) <= delta, 0.0, start)
