"""What every private estimator shares: parameter checks, generator, guarantee, ledger.

Each ``fit`` reads as five steps: 1 validate, 2 bound one record's influence, 3 calibrate from
public numbers, 4 reserve the budget, 5 touch the data under noise. The methods here are those
steps' common parts; the estimator calls them in that order.
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skdpbayes import randomness
from skdpbayes._validation import ADJACENCIES, check_choice, check_flag, check_real
from skdpbayes.exceptions import CalibrationError, PrivacyWarning
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee

if TYPE_CHECKING:
    from skdpbayes.privacy.ledger.ledger import PrivacyLedger

__all__ = ["PrivateClassifier", "PrivateEstimator"]

T = TypeVar("T")

# Score checks of scikit-learn run on a few dozen records, where no private method at a useful
# epsilon can do well; from here on the noise is small enough that they must pass.
GOOD_SCORE_EPSILON = 1e4


# Rounding in a calibration may leave a claim this much (relatively) short of its event.
ROUNDING = 1e-9
# Larger budgets end in differences of numbers that double precision cannot tell apart
LARGEST_EPSILON = 1e12


def _proves(event: PrivacyEvent, epsilon: float, delta: float) -> bool:
    """Tell whether the event is (epsilon, delta)-private, up to rounding.

    The profile decides, at an epsilon larger by rounding alone; its inverse is no second opinion.
    """
    return event.delta_at(epsilon * (1.0 + ROUNDING)) <= delta * (1.0 + ROUNDING)


class PrivateEstimator(BaseEstimator):
    """Base of the estimators: ``epsilon``, ``delta``, ``adjacency``, ``random_state``, ``ledger``.

    A subclass defines its own ``__init__`` with these parameters, as scikit-learn asks.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    random_state: Any
    ledger: PrivacyLedger | None
    progress: bool

    def _check_privacy_parameters(self, n_samples: int) -> None:
        """Check the shared parameters; warn if ``delta`` is too large to protect a record."""
        check_real(
            "epsilon",
            self.epsilon,
            low=0.0,
            closed="high",
            remedy="Use epsilon=np.inf for the non-private model.",
        )
        if LARGEST_EPSILON < self.epsilon < np.inf:
            raise ValueError(
                f"epsilon={self.epsilon!r} is beyond {LARGEST_EPSILON:g}, where nothing is "
                "protected and arithmetic fails. Use epsilon=np.inf for the non-private model."
            )
        check_real("delta", self.delta, low=0.0, high=1.0, closed="low")
        check_choice("adjacency", self.adjacency, ADJACENCIES)
        check_flag("progress", self.progress)
        if self.ledger is not None and not hasattr(self.ledger, "reserve"):
            raise TypeError(f"ledger must be a PrivacyLedger or None; got {self.ledger!r}.")
        if not self._non_private and self.delta >= 1.0 / n_samples:
            warnings.warn(
                f"delta={self.delta:g} is at least 1/n_samples={1.0 / n_samples:g}: such a claim "
                "allows publishing a random record outright. Use a delta well below it.",
                PrivacyWarning,
                stacklevel=3,
            )

    @property
    def _non_private(self) -> bool:
        return bool(np.isinf(self.epsilon))

    def _guarantee(
        self, event: PrivacyEvent, mechanism: str, *, conditions: Sequence[str] = ()
    ) -> PrivacyGuarantee:
        """State the claim of this fit: (epsilon, delta) as asked for, with its full profile.

        However the noise was calibrated, the event that the ledger composes must prove the claim.
        """
        if not self._non_private and not _proves(event, float(self.epsilon), float(self.delta)):
            raise CalibrationError(
                f"{type(self).__name__} could not calibrate its noise to epsilon={self.epsilon!r}, "
                f"delta={self.delta!r}: the mechanism has delta={event.delta_at(self.epsilon):g} "
                "there. Please report this; a slightly larger epsilon or delta avoids it."
            )
        return PrivacyGuarantee(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=self.adjacency,
            mechanism=mechanism,
            event=NoPrivacy() if self._non_private else event,
            seeded=randomness.is_seeded(self.random_state),
            conditions=tuple(conditions),
        )

    def _reserve(self, guarantee: PrivacyGuarantee) -> None:
        """Charge the ledger, before the data are touched."""
        if self.ledger is not None:
            self.ledger.reserve(guarantee, label=type(self).__name__)

    def _generator(self) -> np.random.Generator:
        return randomness.make_generator(self.random_state)

    def _progress(self, steps: Iterable[T], *, total: int, label: str) -> Iterable[T]:
        """Wrap ``steps`` in a progress bar if ``progress`` asks for one."""
        if not self.progress:
            return steps
        from tqdm.auto import tqdm

        return tqdm(steps, total=total, desc=f"{type(self).__name__}: {label}")


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """A private estimator that is a classifier."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # tags are asked for before parameters are checked, so epsilon may be anything
        good = isinstance(self.epsilon, numbers.Real) and self.epsilon >= GOOD_SCORE_EPSILON
        tags.classifier_tags.poor_score = not good
        return tags
