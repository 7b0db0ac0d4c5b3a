"""What a fit may spend, and the only place where a claim is made.

A plan says what would be released (its event); a budget says what may be spent. ``Budget.claim``
compares the two and states the guarantee, ``Budget.reserve`` also charges the ledger. Nothing here
sees a record: `skdpbayes.fitting` calls ``reserve`` before it touches the data.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee, Unit

Law: TypeAlias = Literal["laplace", "gaussian", "gamma", "two_orthant_gamma", "none"]

# Rounding in a calibration may leave a claim this much (relatively) short of its event.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Noise:
    """A law of noise and its scale: what a release adds and what a posterior remembers."""

    law: Law
    scale: float

    def __str__(self) -> str:
        return "no noise" if self.law == "none" else f"{self.law} noise of scale {self.scale:.4g}"

    @property
    def deviation(self) -> float:
        """Standard deviation of one entry; of Laplace noise sqrt(2) times the scale."""
        return self.scale * (math.sqrt(2.0) if self.law == "laplace" else 1.0)


NO_NOISE = Noise("none", 0.0)


class Plan(Protocol):
    """What a fit will release, decided from public numbers alone; frozen and printable."""

    @property
    def event(self) -> PrivacyEvent:
        """The release as accountants see it."""

    @property
    def words(self) -> str:
        """The mechanism in words."""

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the claim rests on, in words; empty where it is unconditional."""


class Ledger(Protocol):
    """Anything that takes charges: a ``PrivacyLedger``, or a fixed plan of one."""

    def reserve(self, guarantee: PrivacyGuarantee, label: str = "") -> object:
        """Charge the guarantee, or raise and charge nothing."""


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) that one fit may spend, and where it is charged.

    Parameters
    ----------
    epsilon, delta : float
        What the claim will say. An infinite epsilon is no privacy.
    adjacency : {"replace_one", "zero_out"}
        What may change between neighboring data sets.
    ledger : object with a method ``reserve``, default=None
        Where the claim is charged.
    seeded : bool, default=False
        Whether the noise can be reproduced by whoever knows the seed.
    unit : {"record", "person"}, default="record"
        Whose data may change between neighboring data sets.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    ledger: Ledger | None = None
    seeded: bool = False
    unit: Unit = "record"

    @property
    def private(self) -> bool:
        """Whether there is a guarantee at all."""
        return math.isfinite(self.epsilon)

    def proves(self, event: PrivacyEvent) -> bool:
        """Tell whether the event is (epsilon, delta)-private, up to rounding.

        The profile decides, at an epsilon larger by rounding alone; its inverse is no second
        opinion.
        """
        return event.delta_at(self.epsilon * (1.0 + ROUNDING)) <= self.delta * (1.0 + ROUNDING)

    def claim(self, plan: Plan) -> PrivacyGuarantee:
        """State the guarantee of a plan.

        However the noise was calibrated, the event that a ledger composes must prove the claim.
        """
        if self.private and not self.proves(plan.event):
            raise CalibrationError(
                f"the noise could not be calibrated to epsilon={self.epsilon!r}, "
                f"delta={self.delta!r}: the mechanism has "
                f"delta={plan.event.delta_at(self.epsilon):g} there. Please report this; a "
                "slightly larger epsilon or delta avoids it."
            )
        return PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            mechanism=plan.words,
            event=plan.event if self.private else NoPrivacy(),
            seeded=self.seeded,
            conditions=tuple(plan.conditions) if self.private else (),
            unit=self.unit,
        )

    def reserve(self, plan: Plan, label: str) -> PrivacyGuarantee:
        """State the guarantee and charge it; both happen before the data are touched."""
        guarantee = self.claim(plan)
        if self.ledger is not None:
            self.ledger.reserve(guarantee, label=label)
        return guarantee

    def noise(self, law: Law, scale: float) -> Noise:
        """Return the noise that a release adds; without privacy there is none.

        A scale that is 0, so small that it underflows, or not finite would release exact numbers
        under a claim, so it is refused here, once for all releases.
        """
        if not self.private:
            return NO_NOISE
        if not (sys.float_info.min <= scale < math.inf) or law == "none":
            raise CalibrationError(
                f"a private release needs noise of a positive, finite scale; got {law} noise of "
                f"scale {scale!r}. Choose parameters that leave this release a larger share of the "
                "budget, or leave it out."
            )
        return Noise(law, float(scale))
