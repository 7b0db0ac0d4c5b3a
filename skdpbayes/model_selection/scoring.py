"""Hold-out scores whose sensitivity is known: sums of bounded scores, and tables of counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from skdpbayes.fitting.units import WHOLE, sum_fractions
from skdpbayes.metrics.scores import area_of_table, table_of_scores
from skdpbayes.privacy.budget import Noise
from skdpbayes.release import counts as release

_FINE = 1024  # units of a record for scores that are not counts
_WORST_LOG_LOSS = math.log(1000.0)  # of one record; larger losses are cut there

_ONE_BY_ONE = "the scoring function gives each record a number that no other record changes"

RecordScore = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class SumScore:
    """A score of records in [0, 1], summed in units of ``1 / unit``, so one record moves `unit`."""

    name: str
    of_records: RecordScore
    unit: int
    worst: float | None = None
    """Loss of a record that scores 0, if users know the score as minus a loss."""
    conditions: tuple[str, ...] = ()
    """What the sensitivity rests on."""
    table: ClassVar[bool] = False
    """Whether it is a table of counts, in which a record moves the cell that it is in."""

    def check_classes(self, classes: np.ndarray) -> None:
        """Accept any label set."""

    def of_persons(self) -> SumScore:
        """Return the score of persons, each the average of those of her records."""
        return replace(self, unit=WHOLE)

    def total(self, fitted: Any, X: Any, y: Any, weight: np.ndarray | None = None) -> int:
        """Return the exact sum over the records, in units; not private.

        With weights, those of a person add up to at most 1 and every product is rounded down: her
        part is at most one unit.
        """
        scores = np.asarray(self.of_records(fitted, X, y), dtype=np.float64)
        if scores.shape != (len(y),):
            raise ValueError(
                f"scoring must return one number for each of the {len(y)} records; got shape "
                f"{scores.shape}."
            )
        clipped = np.clip(np.nan_to_num(scores, nan=0.0), 0.0, 1.0)
        if weight is not None:
            return int(np.floor(clipped * (weight * self.unit)).sum())
        return int(np.rint(clipped * self.unit).sum())

    def noisy(self, generator: np.random.Generator, total: int, noise: Noise) -> int:
        """Release the sum under exact discrete noise, whose scale counts records."""
        in_units = replace(noise, scale=noise.scale * self.unit)
        return int(release.counts(generator, np.array([total]), in_units)[0])

    def order(self, noisy: int) -> int:
        """Return the sum itself."""
        return noisy

    def mean(self, noisy: float, n_records: int) -> float:
        """Turn a sum into the score that users know."""
        mean = noisy / (self.unit * n_records)
        return mean if self.worst is None else -(1.0 - mean) * self.worst


@dataclass(frozen=True)
class AreaScore:
    """Area under the ROC curve, computed from a noisy table of label and binned score."""

    unit: int = 1
    """Steps of a count: more than one where persons count by fractions."""
    name: ClassVar[str] = "roc_auc"
    table: ClassVar[bool] = True
    conditions: ClassVar[tuple[str, ...]] = ()

    def of_persons(self) -> AreaScore:
        """Return the score of persons, each the average of those of her records."""
        return replace(self, unit=WHOLE)

    def check_classes(self, classes: np.ndarray) -> None:
        """Refuse more than two labels, which have no one curve."""
        if len(classes) != 2:
            raise ValueError(
                f"scoring='roc_auc' is made for two classes; got {len(classes)}. For more, "
                "'neg_log_loss' and 'neg_brier_score' judge the same probabilities."
            )

    def total(self, fitted: Any, X: Any, y: Any, weight: np.ndarray | None = None) -> np.ndarray:
        """Count the records by label and score, in units; not private."""
        chance = np.clip(np.asarray(fitted.predict_proba(X))[:, 1], 0.0, 1.0)
        positive, chance = np.asarray(y) == fitted.classes_[1], np.nan_to_num(chance, nan=0.5)
        if weight is None:
            return table_of_scores(positive, chance)
        return sum_fractions(weight, lambda rows: table_of_scores(positive[rows], chance[rows]))

    def noisy(self, generator: np.random.Generator, total: np.ndarray, noise: Noise) -> np.ndarray:
        """Release all cells under exact discrete noise, whose scale is in whole counts."""
        in_units = replace(noise, scale=noise.scale * self.unit)
        return release.counts(generator, total.ravel(), in_units).reshape(total.shape) / self.unit

    def order(self, noisy: np.ndarray) -> float:
        """Return the area; noise that hides a class makes it 1/2."""
        return area_of_table(noisy)

    def mean(self, noisy: np.ndarray, n_records: int) -> float:
        """Return the area."""
        return self.order(noisy)


HoldOutScore: TypeAlias = SumScore | AreaScore


def _correct(fitted: Any, X: Any, y: Any) -> np.ndarray:
    return np.asarray(fitted.predict(X) == np.asarray(y), dtype=np.float64)


def _probabilities(fitted: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities, and a table of the same shape with 1 at each record's label."""
    return np.asarray(fitted.predict_proba(X)), np.asarray(y)[:, None] == fitted.classes_


def _log_likelihood(fitted: Any, X: Any, y: Any) -> np.ndarray:
    probability, hit = _probabilities(fitted, X, y)
    with np.errstate(divide="ignore"):
        return 1.0 + np.log((probability * hit).sum(axis=1)) / _WORST_LOG_LOSS


def _brier(fitted: Any, X: Any, y: Any) -> np.ndarray:
    probability, hit = _probabilities(fitted, X, y)
    return 1.0 - 0.5 * ((probability - hit) ** 2).sum(axis=1)


SCORINGS: dict[str, tuple[RecordScore, int, float | None]] = {
    "accuracy": (_correct, 1, None),
    "neg_log_loss": (_log_likelihood, _FINE, _WORST_LOG_LOSS),
    "neg_brier_score": (_brier, _FINE, 1.0),
}


def make_score(scoring: Any) -> HoldOutScore:
    """Return the score that a ``scoring`` parameter stands for."""
    if callable(scoring):
        return SumScore("callable", scoring, _FINE, conditions=(_ONE_BY_ONE,))
    if scoring == AreaScore.name:
        return AreaScore()
    if scoring in SCORINGS:
        return SumScore(scoring, *SCORINGS[scoring])
    why = "Other scores have no bound on what one record changes."
    if isinstance(scoring, str) and (scoring.startswith("roc_auc") or "precision" in scoring):
        why = (
            "Ranks and precision compare records with one another, so that one record may change "
            "the scores of many; 'neg_brier_score' and 'neg_log_loss' judge the same "
            "probabilities record by record, and 'roc_auc' is offered for two classes."
        )
    names = ", ".join(map(repr, (*SCORINGS, AreaScore.name)))
    raise ValueError(
        f"scoring must be one of {names} or a function (fitted, X, y) "
        f"that returns a number in [0, 1] for each record; got {scoring!r}. {why}"
    )
