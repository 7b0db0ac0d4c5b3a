"""Releases from disjoint sets of records, added up: what they claim, and whether they may be."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from skdpbayes.fitting.estimator import PrivateEstimator
from skdpbayes.fitting.records import Public
from skdpbayes.privacy.events import ApproximateDP, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee

DISJOINT = (
    "no {} is in more than one of the merged releases, and which one does not depend on its values"
)


def seeds_of(random_state: Any) -> tuple[Any, ...]:
    """Return what decides on the noise if it can be told; nothing for states that move on."""
    if isinstance(random_state, numbers.Integral):
        random_state = np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.SeedSequence):  # one stream may be written in many ways
        return (tuple(random_state.generate_state(8).tolist()),)
    return ()


def merged_seeds(parts: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the seeds (``_seeds``) of all parts; None if one has lost its own."""
    if any(part.privacy_.seeded and "_seeds" not in vars(part) for part in parts):
        return None
    return tuple(seed for part in parts for seed in getattr(part, "_seeds", ()))


def check_seeds(parts: Sequence[Any]) -> None:
    """Raise if two fitted models share their noise, or if that cannot be told."""
    seeds = [seed for part in parts for seed in getattr(part, "_seeds", ())]
    if len(set(seeds)) < len(seeds) or len({id(part) for part in parts}) < len(parts):
        raise ValueError(
            "random_state must differ between merged models, and no model be there twice. Equal "
            "seeds give equal noise, and the difference of two releases would show the data."
        )
    seeded = [part for part in parts if part.privacy_.seeded and np.isfinite(part.privacy_.epsilon)]
    if len(seeded) > 1 and not all("_seeds" in vars(part) for part in seeded):
        raise ValueError(
            "a seeded model that was stored or copied has lost its seed, so it cannot be told "
            "whether it shares its noise with another seeded model. Merge before models are "
            "stored, or fit with random_state=None."
        )


def parallel_claim(parts: Sequence[Any]) -> PrivacyGuarantee:
    """State the guarantee of releases from disjoint records: the largest of the parts."""
    claims: list[PrivacyGuarantee] = [part.privacy_ for part in parts]
    epsilon = max(claim.epsilon for claim in claims)
    delta = max(claim.delta for claim in claims)
    event: PrivacyEvent = claims[0].event
    if any(claim.event != event for claim in claims):
        event = ApproximateDP(epsilon, delta) if delta > 0.0 else PureDP(epsilon)
    conditions = [text for claim in claims for text in claim.conditions]
    return replace(
        claims[0],
        epsilon=epsilon,
        delta=delta,
        event=event,
        seeded=any(claim.seeded for claim in claims),
        conditions=tuple(dict.fromkeys([*conditions, DISJOINT.format(claims[0].unit)])),
    )


class Mergeable(PrivateEstimator):
    """An estimator whose releases from disjoint records add up; it remembers their seeds."""

    _seeds: tuple[Any, ...]

    def _keep(self, public: Public, plan: Any, claim: PrivacyGuarantee, posterior: Any) -> Self:
        super()._keep(public, plan, claim, posterior)
        self._seeds = seeds_of(self.random_state)
        return self

    def _keep_sum(
        self, parts: Sequence[Any], public: Public, plan: Any, claim: Any, posterior: Any
    ) -> Self:
        """Keep what was learned from the releases of all parts; this may be one of them."""
        seeds = merged_seeds(parts)
        super()._keep(public, plan, claim, posterior)
        self.__dict__.pop("_seeds", None)
        if seeds is not None:
            self._seeds = seeds
        return self

    def __getstate__(self) -> dict[str, Any]:
        """A fitted object is stored without what its noise was made from."""
        state = super().__getstate__()
        state.pop("_seeds", None)
        return state
