"""The claim under audit and the part of its privacy profile that a finite audit can test."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from skdpbayes.auditing.bounds import clopper_pearson_upper
from skdpbayes.privacy.events import ApproximateDP, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee

_POINTS = 33  # of the profile; every one is a valid test, so a coarse grid only costs power
_MOST_TRIALS = 10**9
_USUAL_DELTA = 1e-5  # of the headline of a claim that is a curve without a pure epsilon


def read_claim(claim: Any, fitted: Any = None, *, adjacency: Adjacency = "replace_one") -> Any:
    """Return the claim as a guarantee: given by hand, or ``fitted.privacy_``.

    By hand it is a :class:`~skdpbayes.privacy.PrivacyGuarantee`, an event, an epsilon or a pair
    (epsilon, delta).
    """
    if claim is None:
        claim = getattr(fitted, "privacy_", None)
        if claim is None:
            raise ValueError(
                f"{type(fitted).__name__} has no privacy_ after fit: pass the claim to audit as "
                "claim=epsilon, claim=(epsilon, delta) or claim=PrivacyGuarantee(...)."
            )
    if isinstance(claim, PrivacyGuarantee):
        return claim
    if isinstance(claim, PrivacyEvent):
        delta = 0.0 if math.isfinite(claim.epsilon_at(0.0)) else _USUAL_DELTA
        return PrivacyGuarantee.from_event(
            claim, delta=delta, adjacency=adjacency, mechanism="the audited estimator"
        )
    epsilon, delta = claim if isinstance(claim, (tuple, list)) else (claim, 0.0)
    epsilon, delta = float(epsilon), float(delta)
    event = PureDP(epsilon) if delta == 0.0 else ApproximateDP(epsilon, delta)
    return PrivacyGuarantee(epsilon, delta, adjacency, "the audited estimator", event)


@lru_cache(maxsize=256)
def _profile_points(event: PrivacyEvent, epsilons: tuple[float, ...]) -> np.ndarray:
    return np.array(event._profile(np.array(epsilons)))


class Profile:
    """The claimed delta at those epsilons that `n_trials` fits can say something about.

    Error counts of n trials bound probabilities to about 1/n, so they speak of epsilons up to
    log(n). Confidence bounds on both error rates hold for every epsilon at once, so testing all
    points costs no confidence.
    """

    def __init__(self, claim: PrivacyGuarantee, n_trials: int) -> None:
        top = math.log(n_trials) + 1.0
        epsilons = np.linspace(0.0, top, _POINTS)
        deltas = _profile_points(claim.event, tuple(epsilons.tolist()))
        if math.isfinite(claim.epsilon):  # the headline is a claim of its own
            epsilons = np.append(epsilons, claim.epsilon)
            deltas = np.append(deltas, claim.delta)
        self.epsilons, self.deltas = epsilons, deltas

    def excess(self, false_positive: Any, false_negative: Any) -> tuple[Any, Any]:
        """Return by how much a test beats the claimed delta at most, and at which epsilon.

        Broadcasts over arrays of error rates.
        """
        one, other = np.asarray(false_positive)[..., None], np.asarray(false_negative)[..., None]
        growth = np.exp(self.epsilons)
        proven = np.maximum(1.0 - other - growth * one, 1.0 - one - growth * other)
        gaps = proven - self.deltas
        best = gaps.argmax(axis=-1)
        return np.take_along_axis(gaps, best[..., None], -1)[..., 0], self.epsilons[best]

    def smallest_errors(self, false_positive: float) -> float:
        """Return the smallest rate of false negatives that the claim allows beside this one."""
        shrunk = np.exp(-self.epsilons)
        by_first = 1.0 - self.deltas - false_positive / shrunk
        by_second = shrunk * (1.0 - self.deltas - false_positive)
        return float(max(0.0, by_first.max(), by_second.max()))

    def z_scores(self, false_positive: np.ndarray, false_negative: np.ndarray, n: int) -> Any:
        """Return, for each pair of rates, the excess in standard errors of `n` trials."""
        floor = 1.0 / (n + 2.0)  # rates of zero are not known to be zero
        one = np.clip(false_positive, floor, 1.0 - floor)[:, None]
        other = np.clip(false_negative, floor, 1.0 - floor)[:, None]
        growth = np.exp(self.epsilons)
        variances = one * (1.0 - one), other * (1.0 - other)
        scores = [
            (1.0 - b - growth * a - self.deltas) / np.sqrt((vb + growth**2 * va) / n)
            for a, b, va, vb in (
                (one, other, *variances),
                (other, one, *variances[::-1]),
            )
        ]
        return np.maximum(*scores).max(axis=1)


def smallest_useful_trials(claim: PrivacyGuarantee, confidence: float) -> float:
    """Return how many trials refute the claim if the test never errs; ``inf`` if none do."""

    def refutes(n: int) -> bool:
        rate = clopper_pearson_upper(0, n, 0.5 * (1.0 - confidence))
        return bool(Profile(claim, n).excess(rate, rate)[0] > 0.0)

    if math.isinf(claim.epsilon):
        return math.inf
    low, high = 0, 1
    while not refutes(high):
        low, high = high, 2 * high
        if high > _MOST_TRIALS:
            return math.inf
    while high - low > max(1, high // 64):  # the number is advice: 2% is close enough
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return high
