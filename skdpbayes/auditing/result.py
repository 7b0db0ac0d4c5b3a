"""What an audit found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.special import ndtri

from skdpbayes.auditing.claims import Profile
from skdpbayes.privacy.events import GaussianDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.mechanisms.gdp import gdp_epsilon


def _claimed(claim: PrivacyGuarantee) -> str:
    if claim.delta == 0.0:
        return f"epsilon={claim.epsilon:.4g}"
    return f"epsilon={claim.epsilon:.4g} at delta={claim.delta:.3g}"


class _Verdict:
    """What both kinds of result share."""

    claim: PrivacyGuarantee
    confidence: float
    epsilon_lower: float

    @property
    def refuted(self) -> bool:
        """Whether the audit refutes the claim at its confidence."""
        raise NotImplementedError

    @property
    def verdict(self) -> str:
        """ "refuted" or "not refuted"; an audit never proves a claim."""
        return "refuted" if self.refuted else "not refuted"

    def _opening(self) -> str:
        return (
            f"Claim {self.verdict} at confidence {100 * self.confidence:.10g}%: claimed "
            f"{_claimed(self.claim)} ({self.claim.adjacency}), proven epsilon >= "
            f"{self.epsilon_lower:.4g}"
        )


@dataclass(frozen=True, repr=False)
class AuditResult(_Verdict):
    """Outcome of an audit on two data sets.

    Attributes
    ----------
    epsilon_lower : float
        The epsilon proven at the claim's delta, whatever the mechanism.
    confidence : float
        Probability that `epsilon_lower` and the verdict are right if the claim is true.
    claim : PrivacyGuarantee
        What was audited.
    threshold : float
        Above it the test says "neighbor"; fixed on other trials.
    false_positives, n_trials : int
        Errors among the fits on the data set.
    false_negatives, n_neighbor_trials : int
        Errors among the fits on the neighbor.
    false_positive_bound, false_negative_bound : float
        Upper confidence bounds on the error rates, valid together.
    excess : float
        Largest proven delta(epsilon) beyond the claimed privacy profile; positive refutes.
    excess_epsilon : float
        Where on the profile that is.
    """

    epsilon_lower: float
    confidence: float
    claim: PrivacyGuarantee
    threshold: float
    false_positives: int
    n_trials: int
    false_negatives: int
    n_neighbor_trials: int
    false_positive_bound: float
    false_negative_bound: float
    excess: float
    excess_epsilon: float

    @property
    def refuted(self) -> bool:
        """Whether the counts contradict any point of the claimed privacy profile."""
        return self.excess > 0.0

    @property
    def share(self) -> float:
        r"""How far the two data sets are proven to be apart, as a share of what the claim allows.

        Both are distances between unit normals, :math:`\Phi^{-1}(1-F) - \Phi^{-1}(G)`: with *G* as
        proven, and with the smallest *G* that the claimed profile allows beside the same *F*. It
        compares audits of all kinds of claims; above 1 the claim is refuted.
        """
        allowed = Profile(self.claim, min(self.n_trials, self.n_neighbor_trials)).smallest_errors(
            self.false_positive_bound
        )
        least = float(ndtri(1.0 - self.false_positive_bound))
        proven = max(0.0, least - float(ndtri(self.false_negative_bound)))
        if allowed <= 0.0:
            return 0.0
        return proven / (least - float(ndtri(allowed)))

    @property
    def epsilon_if_gaussian(self) -> float:
        """The epsilon proven if the release has the shape of a Gaussian mechanism, else NaN.

        Only for claims whose event is Gaussian: this takes the claimed shape for granted and is
        much closer to the truth than `epsilon_lower` where delta is small.
        """
        if not isinstance(self.claim.event, GaussianDP) or self.claim.delta == 0.0:
            return math.nan
        mu = float(ndtri(1.0 - self.false_positive_bound) - ndtri(self.false_negative_bound))
        return gdp_epsilon(max(0.0, mu), self.claim.delta)

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the error rates beside the region that the claim allows.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For :class:`skdpbayes.plotting.PrivacyRegionDisplay`.
        """
        from skdpbayes.plotting.privacy_region import PrivacyRegionDisplay

        return PrivacyRegionDisplay.from_result(self, ax=ax, **kwargs)

    def __repr__(self) -> str:
        lines = [
            self._opening(),
            f"  errors {self.false_positives} of {self.n_trials} fits on the data set, "
            f"{self.false_negatives} of {self.n_neighbor_trials} on its neighbor; rates at most "
            f"{self.false_positive_bound:.4g} and {self.false_negative_bound:.4g}",
        ]
        if not math.isnan(self.epsilon_if_gaussian):
            lines.append(f"  epsilon >= {self.epsilon_if_gaussian:.4g} if the noise is Gaussian")
        if self.refuted:
            lines.append(
                f"  delta({self.excess_epsilon:.4g}) exceeds the claimed profile by at least "
                f"{self.excess:.4g}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class OneRunResult(_Verdict):
    """Outcome of an audit in one run.

    Attributes
    ----------
    epsilon_lower : float
        The epsilon proven at the claim's delta.
    confidence : float
        Probability that the verdict is right if the claim is true.
    claim : PrivacyGuarantee
        What was audited.
    n_canaries, n_guesses, n_correct : int
        Coins tossed, guesses made, guesses right.
    p_value : float
        Probability of so many right guesses under the claim, at most.
    """

    epsilon_lower: float
    confidence: float
    claim: PrivacyGuarantee
    n_canaries: int
    n_guesses: int
    n_correct: int
    p_value: float

    @property
    def refuted(self) -> bool:
        """Whether the guesses are too good for the claim."""
        return self.p_value < 1.0 - self.confidence

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the p-value against epsilon, with the claim.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **kwargs
            For the curve.
        """
        from skdpbayes.plotting.privacy_region import OneRunDisplay

        return OneRunDisplay.from_result(self, ax=ax, **kwargs)

    def __repr__(self) -> str:
        return (
            f"{self._opening()}\n  {self.n_correct} of {self.n_guesses} guesses right about "
            f"{self.n_canaries} canaries; p-value of the claim {self.p_value:.3g}"
        )
