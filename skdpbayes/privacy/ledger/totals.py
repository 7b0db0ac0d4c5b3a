r"""What many reservations cost together, at a price that does not grow with their number.

Two layers. :class:`RunningTotals` holds a few sums and is updated with each reservation; from
them come three upper bounds on the total, all of which also hold when the size of each
reservation was chosen in view of earlier releases:

* the claims added up: :math:`(\sum\varepsilon_i, \sum\delta_i)` (Rogers et al. 2016, Theorem 3.6);
* Gaussian DP, if all releases are Gaussian: :math:`\mu^2=\sum\mu_i^2` (Smith and Thakurta 2022;
  Koskela, Tobaben and Honkela 2023);
* concentrated DP, if all releases have it: :math:`\rho=\sum\rho_i` (Feldman and Zrnic 2021).

:func:`tight_total` composes the events themselves. It is the smallest of all, needs the list of
distinct events, and assumes that the sizes were not chosen in view of earlier releases; it is
asked for a decision only where the sums do not settle it.

References
----------
.. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan. Privacy odometers and filters: pay-as-you-go
   composition. NeurIPS 2016.
.. [2] V. Feldman, T. Zrnic. Individual privacy accounting via a Rényi filter.
   NeurIPS 2021.
.. [3] A. Smith, A. Thakurta. Fully adaptive composition for Gaussian differential privacy.
   2022.
.. [4] A. Koskela, M. Tobaben, A. Honkela. Individual privacy accounting with Gaussian
   differential privacy. ICLR 2023.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from typing import TypeAlias

from skdpbayes.exceptions import LedgerError
from skdpbayes.privacy._numeric import smallest_satisfying
from skdpbayes.privacy.composition.composed import Composed, Repeated, compose, repeat
from skdpbayes.privacy.events import BoundedRange, GaussianDP, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_rho, zcdp_delta
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_delta, gdp_epsilon

__all__ = [
    "Charges",
    "RunningTotals",
    "is_pure",
    "read_guarantee",
    "tight_delta",
    "tight_epsilon",
    "tight_total",
]

# Distinct guarantees as JSON, each with the number of times it was reserved.
Charges: TypeAlias = tuple[tuple[str, int], ...]

# Sums are rounded up, at a precision at which a million terms change nothing that is printed.
_SUM = Context(prec=50, rounding=ROUND_CEILING)
_ZERO = Decimal(0)
# Two doubles that differ by less than this, relatively, are the same number computed twice.
_ROUNDING = 1e-12
# More distinct pure or bounded-range events than this are rounded up to a geometric grid first.
_MOST_DISTINCT = 32
_GRID_RATIO = 1.02


@dataclass(frozen=True)
class RunningTotals:
    """Sums over all reservations."""

    count: int = 0
    n_gaussian: int = 0
    epsilon: Decimal = _ZERO
    delta: Decimal = _ZERO
    mu_square: Decimal = _ZERO
    rho: Decimal = _ZERO

    @classmethod
    def of(cls, guarantee: PrivacyGuarantee) -> RunningTotals:
        """Return the sums for a single reservation."""
        return _price(guarantee)

    @classmethod
    def from_json(cls, text: str) -> RunningTotals:
        """Read what :meth:`to_json` wrote."""
        fields = json.loads(text)
        decimals = {
            name: Decimal(fields[name]) for name in ("epsilon", "delta", "mu_square", "rho")
        }
        return cls(count=int(fields["count"]), n_gaussian=int(fields["n_gaussian"]), **decimals)

    def to_json(self) -> str:
        """Return the sums as JSON, exactly."""
        return json.dumps({name: str(value) for name, value in dataclasses.asdict(self).items()})

    def __add__(self, other: RunningTotals) -> RunningTotals:
        return RunningTotals(
            count=self.count + other.count,
            n_gaussian=self.n_gaussian + other.n_gaussian,
            epsilon=_SUM.add(self.epsilon, other.epsilon),
            delta=_SUM.add(self.delta, other.delta),
            mu_square=_SUM.add(self.mu_square, other.mu_square),
            rho=_SUM.add(self.rho, other.rho),
        )

    def within(self, epsilon: float, delta: float) -> bool:
        """Whether the sums alone prove that everything together is (epsilon, delta)-private."""
        if self.epsilon <= _decimal(epsilon) and self.delta <= _decimal(delta):
            return True
        if delta == 0.0:
            return False
        if self.n_gaussian == self.count and gdp_delta(epsilon, self._mu()) <= delta:
            return True
        return zcdp_delta(epsilon, _upward(self.rho)) <= delta

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon that the sums prove at `delta`."""
        found = float(self.epsilon) if self.delta <= _decimal(delta) else math.inf
        if delta == 0.0 or self.count == 0:
            return found
        if self.n_gaussian == self.count:
            found = min(found, gdp_epsilon(self._mu(), delta))
        if self.rho.is_finite():
            rho = _upward(self.rho)
            found = min(found, smallest_satisfying(lambda e: zcdp_delta(e, rho) <= delta, 0.0, 1.0))
        return found

    def left_of(self, epsilon: float) -> float:
        """Return what the summed epsilon leaves of the budget `epsilon`, rounded down."""
        left = max(_ZERO, _decimal(epsilon) - self.epsilon)
        number = float(left)
        return number if _decimal(number) <= left else math.nextafter(number, 0.0)

    def _mu(self) -> float:
        return _upward(_SUM.sqrt(self.mu_square))


def is_pure(event: PrivacyEvent) -> bool:
    """Whether the event is epsilon-private with delta = 0 for some finite epsilon."""
    return math.isfinite(event.epsilon_at(0.0))


@lru_cache(maxsize=4096)
def _price(guarantee: PrivacyGuarantee) -> RunningTotals:
    event = guarantee.event
    mu = event.mu if isinstance(event, GaussianDP) else None
    epsilon, delta = _claim(guarantee)
    return RunningTotals(
        count=1,
        n_gaussian=int(mu is not None),
        epsilon=_decimal(epsilon),
        delta=_decimal(delta),
        mu_square=_ZERO if mu is None else _SUM.multiply(Decimal(mu), Decimal(mu)),
        rho=Decimal(_rho(event)),
    )


def _claim(guarantee: PrivacyGuarantee) -> tuple[float, float]:
    """Return the (epsilon, delta) to add up: the claim itself if the event proves it."""
    delta = 0.0 if is_pure(guarantee.event) else guarantee.delta
    if delta == guarantee.delta and guarantee.delta_at(guarantee.epsilon) <= delta:
        return guarantee.epsilon, delta
    proven = guarantee.epsilon_at(delta)
    if delta == guarantee.delta and math.isclose(proven, guarantee.epsilon, rel_tol=_ROUNDING):
        return guarantee.epsilon, delta
    return proven, delta


def _rho(event: PrivacyEvent) -> float:
    """Return a rho for which the event is rho-zCDP, infinity if none is known."""
    if isinstance(event, Repeated):
        return event.count * _rho(event.event)
    if isinstance(event, Composed):
        return math.fsum(_rho(part) for part in event.events)
    if isinstance(event, GaussianDP):
        return event.mu**2 / 2.0
    if isinstance(event, BoundedRange):
        return event.n_draws * bounded_range_rho(event.eta)
    if isinstance(event, DiscreteGaussian):  # Canonne, Kamath and Steinke 2020, Theorem 4
        return (event.shift / event.scale) ** 2 / 2.0
    return event.epsilon_at(0.0) ** 2 / 2.0  # Bun and Steinke 2016, Proposition 3.3


@lru_cache(maxsize=4096)
def read_guarantee(text: str) -> PrivacyGuarantee:
    """Return the guarantee that a ledger stored as `text`."""
    try:
        return PrivacyGuarantee.from_json(text)
    except ValueError as error:
        raise LedgerError(
            f"A reservation in the ledger cannot be read: {error}. Import the module that defines "
            "its kind of event, or use the release of skdpbayes that wrote it."
        ) from error


@lru_cache(maxsize=64)
def tight_total(charges: Charges) -> PrivacyEvent:
    """Return the event of all charges together."""
    counts: Counter[PrivacyEvent] = Counter()
    for text, count in charges:
        counts[read_guarantee(text).event] += count
    for kind in (PureDP, BoundedRange):
        alike = [event for event in counts if isinstance(event, kind)]
        if len(alike) > _MOST_DISTINCT:
            for event in alike:
                counts[_rounded_up(event)] += counts.pop(event)
    return compose(repeat(event, count) for event, count in counts.items())


@lru_cache(maxsize=256)
def tight_delta(charges: Charges, epsilon: float) -> float:
    """Return the delta of all charges together at `epsilon`."""
    return tight_total(charges).delta_at(epsilon)


@lru_cache(maxsize=256)
def tight_epsilon(charges: Charges, delta: float) -> float:
    """Return the epsilon of all charges together at `delta`."""
    return tight_total(charges).epsilon_at(delta)


def _rounded_up(event: PrivacyEvent) -> PrivacyEvent:
    """Return a slightly less private event out of a set that stays small."""
    if isinstance(event, PureDP):
        return PureDP(_grid_above(event.epsilon))
    assert isinstance(event, BoundedRange)
    return BoundedRange(_grid_above(event.eta), event.n_draws)


def _grid_above(value: float) -> float:
    if value == 0.0 or math.isinf(value):
        return value
    power = math.ceil(math.log(value) / math.log(_GRID_RATIO))
    rounded = _GRID_RATIO**power
    return rounded if rounded >= value else _GRID_RATIO ** (power + 1)


def _decimal(value: float) -> Decimal:
    """Return the number as it prints, so that three times 0.1 is 0.3."""
    return Decimal(repr(float(value)))


def _upward(value: Decimal) -> float:
    number = float(value)
    return number if Decimal(number) >= value else math.nextafter(number, math.inf)
