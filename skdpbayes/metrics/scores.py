r"""Accuracy, losses, confusion matrix and ranking of private records.

Everything is a sum over records of small integer vectors, released once under exact integer noise.

*Counts.* A record adds 1 to one cell of a table (right or wrong; true label and prediction; label
and score). One neighboring step moves one cell by 1 under ``zero_out`` and at most two under
``replace_one``. Whether a prediction is right is one count, which moves by 1 under both.

*Means of a loss* :math:`l\in[0,1]` (divided by its public bound). The pair
:math:`(l,\,c\,l(1-l))` is released, which gives mean and variance. Two records with losses that
differ by :math:`\Delta` differ in the pair by :math:`(\Delta,\,c\Delta(1-l-l'))`, and
:math:`|1-l-l'|\le 1-\Delta`. So the Euclidean length is at most
:math:`\Delta\sqrt{1+4(1-\Delta)^2}\le 1` for :math:`c=2`, and the L1 length at most
:math:`\Delta(2-\Delta)\le 1` for :math:`c=1`: under either noise the variance is free. A record
that adds nothing has the pair of :math:`l=0`, so the same holds under ``zero_out``.

*Persons.* With ``units`` each of a person's m records counts 1/m, in multiples of
:math:`2^{-16}`. She moves every sum by an average of what single records move it by, which is no
longer in any norm, and noise is priced by the norm (`skdpbayes.release.fractions`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import log_ndtr, logit, ndtr, ndtri
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from skdpbayes import randomness
from skdpbayes._validation import ADJACENCIES, check_choice, check_real, check_target_bounds
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.fitting.units import WHOLE, share_out, sum_fractions, unit_codes
from skdpbayes.privacy.budget import NO_NOISE, Budget, Noise
from skdpbayes.privacy.calibration import smallest_noise
from skdpbayes.privacy.composition.composed import repeat
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.counts import counts
from skdpbayes.release.fractions import fractions

STEPS = 2**20  # integer steps of a loss between 0 and its bound
# Scores are counted in bins of width 1 in the logit between -5 and 5, and two tails.
EDGES = np.arange(-5.0, 6.0)
# When labels follow the scores, the odds of a label grow by e within a bin, and a positive record
# scores higher than a negative one of the same bin with probability 1/2 + 1/12.
WITHIN_BIN = 0.5 + 1.0 / 12.0


@dataclass(frozen=True)
class Score:
    """A released score.

    Attributes
    ----------
    name : str
        What was measured.
    value : float
        The score, within its possible range.
    interval : (float, float)
        Covers the score of the population that the records were drawn from; it knows of sampling
        and of the noise.
    level : float
        The probability that such intervals cover.
    privacy : PrivacyGuarantee
        What the release cost.
    """

    name: str
    value: float
    interval: tuple[float, float]
    level: float
    privacy: PrivacyGuarantee

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.name} {self.value:.4g} ({self.level:.0%} interval {low:.4g} to {high:.4g})"


@dataclass(frozen=True)
class Confusion:
    """A released confusion matrix.

    Attributes
    ----------
    labels : ndarray of shape (n_labels,)
        The public labels.
    counts : ndarray of shape (n_labels, n_labels)
        Noisy counts; rows are true labels, columns predictions. Entries may be negative.
    noise : Noise
        The noise of every entry.
    level : float
        The probability that the intervals cover.
    privacy : PrivacyGuarantee
        What the release cost; every ratio below is free.
    """

    labels: np.ndarray
    counts: np.ndarray
    noise: Noise
    level: float
    privacy: PrivacyGuarantee

    def recall(self, label: Any) -> Score:
        """Share of records with this true label that are predicted so (sensitivity).

        Parameters
        ----------
        label : object
            One of ``labels``.
        """
        place = self._place(label)
        return self._share(f"recall of {label}", self.counts[place], place)

    def precision(self, label: Any) -> Score:
        """Share of records predicted to have this label that have it.

        Parameters
        ----------
        label : object
            One of ``labels``.
        """
        place = self._place(label)
        return self._share(f"precision of {label}", self.counts[:, place], place)

    def accuracy(self) -> Score:
        """Share of records whose prediction is right."""
        right = np.trace(self.counts)
        cells = np.array([right, self.counts.sum() - right])
        return self._share("accuracy", cells, 0, len(self.labels), self.counts.size)

    def _place(self, label: Any) -> int:
        places = np.flatnonzero(self.labels == label)
        if places.size == 0:
            raise ValueError(f"label must be one of {self.labels.tolist()}, got {label!r}")
        return int(places[0])

    def _share(
        self, name: str, cells: np.ndarray, place: int, n_right: int = 1, n_all: int | None = None
    ) -> Score:
        """One cell out of several, a ratio of noisy numbers, by the delta method."""
        n_cells = cells.size if n_all is None else n_all
        total, variance = float(cells.sum()), self.noise.deviation**2
        if total <= 6.0 * math.sqrt(n_cells * variance):
            return Score(name, math.nan, (0.0, 1.0), self.level, self.privacy)
        share = min(max(float(cells[place]) / total, 0.0), 1.0)
        noise = variance * (n_right * (1.0 - share) ** 2 + (n_cells - n_right) * share**2)
        half = _quantile(self.level) * math.sqrt(_share_variance(share, total) + noise / total**2)
        interval = (max(share - half, 0.0), min(share + half, 1.0))
        return Score(name, share, interval, self.level, self.privacy)


@dataclass(frozen=True)
class Ranking:
    """How well scores rank and how well they are calibrated, from one released table.

    Attributes
    ----------
    auc : Score
        Area under the ROC curve.
    positives, negatives : ndarray of shape (12,)
        Noisy numbers of records per bin of the score, from low to high.
    noise : Noise
        The noise of every entry.
    privacy : PrivacyGuarantee
        What the table cost; everything else is free.
    """

    auc: Score
    positives: np.ndarray
    negatives: np.ndarray
    noise: Noise
    privacy: PrivacyGuarantee

    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ROC curve: false and true positive rates, from (0, 0) to (1, 1)."""
        rates = []
        for table in (self.negatives, self.positives):
            above = np.concatenate([[0.0], np.cumsum(np.maximum(table, 0.0)[::-1])])
            rates.append(above / max(above[-1], 1.0))
        return rates[0], rates[1]

    def calibration(self) -> dict[str, np.ndarray]:
        """Return the calibration curve: observed shares per bin of the score, with intervals.

        Bins with fewer records than six deviations of the noise are merged with the next one.

        Returns
        -------
        dict
            ``score_low``, ``score_high`` (ends of the bin as probabilities), ``share`` and
            ``interval`` of shape (n_bins, 2).
        """
        ends = np.concatenate([[0.0], 1.0 / (1.0 + np.exp(-EDGES)), [1.0]])
        deviation, z = self.noise.deviation, _quantile(self.auc.level)
        rows: list[tuple[float, float, float, float, float]] = []
        start, ones, all_, cells = 0, 0.0, 0.0, 0
        for place, (one, zero) in enumerate(zip(self.positives, self.negatives, strict=True)):
            ones, all_, cells = ones + one, all_ + one + zero, cells + 1
            if all_ <= 6.0 * deviation * math.sqrt(cells) or all_ <= 0.0:
                continue
            share = min(max(ones / all_, 0.0), 1.0)
            noise = cells * deviation**2 * ((1.0 - share) ** 2 + share**2)
            half = z * math.sqrt(max(share * (1.0 - share), 0.01) / all_ + noise / all_**2)
            low, high = max(share - half, 0.0), min(share + half, 1.0)
            rows.append((ends[start], ends[place + 1], share, low, high))
            start, ones, all_, cells = place + 1, 0.0, 0.0, 0
        table = np.array(rows).reshape(-1, 5)
        return {
            "score_low": table[:, 0],
            "score_high": table[:, 1],
            "share": table[:, 2],
            "interval": table[:, 3:],
        }


def private_accuracy(
    y_true: Any,
    y_pred: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Score:
    """Release the share of right predictions.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True labels (private) and predictions. The number of records is public.
    epsilon : float, default=1.0
        The budget, > 0; ``np.inf`` releases the exact score.
    delta : float, default=0.0
        In [0, 1). 0 adds Laplace noise, which is smaller for a single score; a positive one adds
        Gaussian noise, which takes much less of an account that holds many releases.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects: a record may be replaced, or counted as nothing.
    level : float, default=0.9
        Probability that the interval should cover.
    units : array-like of shape (n_samples,), default=None
        Whose record each is: any hashable ids. All records of one person are then protected
        together, the score is an average over persons, each of whose m records counts 1/m, and the
        number of persons is public while the number of records is not. None: every record is a
        unit.
    ledger : PrivacyLedger or None, default=None
        Charged before the records are read.
    random_state : int, Generator or None, default=None
        Secure if None.

    Returns
    -------
    Score

    Examples
    --------
    >>> from skdpbayes.metrics import private_accuracy
    >>> score = private_accuracy([0, 1] * 500, [0, 1] * 450 + [1, 0] * 50, epsilon=1.0)
    >>> score.privacy.epsilon
    1.0
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    y_true, y_pred = _labels(y_true, y_pred)
    shares, right = request.shares(y_true.shape[0]), y_true == y_pred
    plan = request.plan(1, "the number of right predictions")
    exact = shares.total(lambda rows: np.array([np.count_nonzero(right[rows])]))
    ((noisy,), claim) = request.release(exact, plan)
    n = shares.n
    share = min(max(float(noisy) / n, 0.0), 1.0)
    half = _half_width(level, _share_variance(share, n), plan.noise, 1.0 / n)
    interval = (max(share - half, 0.0), min(share + half, 1.0))
    return Score("accuracy", share, interval, level, claim)


def private_confusion_matrix(
    y_true: Any,
    y_pred: Any,
    *,
    labels: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Confusion:
    """Release the table of true labels and predictions.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True labels (private) and predictions.
    labels : array-like of shape (n_labels,)
        The public labels; each true label and prediction must be one of them.
    epsilon, delta, adjacency, level, units, ledger, random_state
        As in :func:`private_accuracy`.

    Returns
    -------
    Confusion
        With recall, precision and accuracy, all from this one release.
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    y_true, y_pred = _labels(y_true, y_pred)
    labels = _checked_labels(labels)
    places = [
        _places(name, values, labels) for name, values in (("true", y_true), ("pred", y_pred))
    ]
    size = labels.shape[0]
    cells = places[0] * size + places[1]
    table = request.shares(cells.shape[0]).total(
        lambda rows: np.bincount(cells[rows], minlength=size**2)
    )
    plan = request.plan(moved(adjacency), "the confusion matrix")
    noisy, claim = request.release(table, plan)
    return Confusion(labels, noisy.reshape(size, size), plan.noise, level, claim)


def private_log_loss(
    y_true: Any,
    y_prob: Any,
    *,
    labels: Any,
    min_probability: float = 0.01,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Score:
    """Release the mean of -log of the probability given to the true label.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels (private).
    y_prob : array-like of shape (n_samples, n_labels) or (n_samples,)
        Predicted probabilities in the order of ``labels``; one column is the probability of the
        second label.
    labels : array-like of shape (n_labels,)
        The public labels, usually ``model.classes_``.
    min_probability : float, default=0.01
        Smaller probabilities of the true label count as this one. The loss of a record is then at
        most -log of it, and the noise is in proportion.
    epsilon, delta, adjacency, level, units, ledger, random_state
        As in :func:`private_accuracy`.

    Returns
    -------
    Score
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    least = check_real("min_probability", min_probability, low=0.0, high=1.0, closed="neither")
    given = _probability_of_truth(y_true, y_prob, _checked_labels(labels))
    losses = -np.log(np.maximum(given, least))
    return request.mean("log loss", losses, -math.log(least))


def private_brier_score(
    y_true: Any,
    y_prob: Any,
    *,
    labels: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Score:
    """Release the mean squared distance of probabilities from the labels, half of it.

    For two labels this is scikit-learn's ``brier_score_loss``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels (private).
    y_prob : array-like of shape (n_samples, n_labels) or (n_samples,)
        Predicted probabilities in the order of ``labels``; one column is the probability of the
        second label.
    labels : array-like of shape (n_labels,)
        The public labels, usually ``model.classes_``.
    epsilon, delta, adjacency, level, units, ledger, random_state
        As in :func:`private_accuracy`.

    Returns
    -------
    Score
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    labels = _checked_labels(labels)
    probabilities = _probabilities(y_prob, labels)
    truth = _places("true", column_or_1d(y_true), labels)
    check_consistent_length(truth, probabilities)
    apart = probabilities.copy()
    apart[np.arange(truth.shape[0]), truth] -= 1.0
    return request.mean("Brier score", 0.5 * np.einsum("ij,ij->i", apart, apart), 1.0)


def private_mean_squared_error(
    y_true: Any,
    y_pred: Any,
    *,
    target_bounds: tuple[float, float],
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Score:
    """Release the mean squared error of predictions of a bounded target.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True values (private) and predictions; both are cut to ``target_bounds``.
    target_bounds : (float, float)
        Public bounds of the target.
    epsilon, delta, adjacency, level, units, ledger, random_state
        As in :func:`private_accuracy`.

    Returns
    -------
    Score
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    errors, width = _errors(y_true, y_pred, target_bounds)
    return request.mean("mean squared error", errors**2, width**2)


def private_mean_absolute_error(
    y_true: Any,
    y_pred: Any,
    *,
    target_bounds: tuple[float, float],
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Score:
    """Release the mean absolute error of predictions of a bounded target.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_samples,)
        True values (private) and predictions; both are cut to ``target_bounds``.
    target_bounds : (float, float)
        Public bounds of the target.
    epsilon, delta, adjacency, level, units, ledger, random_state
        As in :func:`private_accuracy`.

    Returns
    -------
    Score
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    errors, width = _errors(y_true, y_pred, target_bounds)
    return request.mean("mean absolute error", np.abs(errors), width)


def private_ranking(
    y_true: Any,
    y_score: Any,
    *,
    pos_label: Any = 1,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    units: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> Ranking:
    """Release the area under the ROC curve, the curve and the calibration curve.

    One table of label and binned score is released; all three follow from it. The area assumes
    within a bin that scores are about calibrated.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels (private); everything that is not ``pos_label`` is negative.
    y_score : array-like of shape (n_samples,)
        Predicted probabilities of ``pos_label``.
    pos_label : object, default=1
        The positive label.
    epsilon, delta, adjacency, level, units, ledger, random_state
        As in :func:`private_accuracy`.

    Returns
    -------
    Ranking
    """
    request = _Request.check(epsilon, delta, adjacency, level, units, ledger, random_state)
    positive = column_or_1d(y_true) == pos_label
    scores = _probability_column(y_score)
    check_consistent_length(positive, scores)
    table = request.shares(positive.shape[0]).total(
        lambda rows: table_of_scores(positive[rows], scores[rows])
    )
    plan = request.plan(moved(adjacency), "the table of label and score")
    noisy, claim = request.release(table.ravel(), plan)
    zeros, ones = noisy.reshape(table.shape).astype(np.float64)
    value, error = _area(ones, zeros, plan.noise.deviation, WITHIN_BIN)
    if not math.isfinite(error):
        warnings.warn(
            "the noise hides how many positive and negative records there are, so the area under "
            "the curve is not known; use more records or a larger epsilon",
            PrivacyWarning,
            stacklevel=2,
        )
        interval = (0.0, 1.0)
    else:
        half = _quantile(level) * error
        interval = (max(value - half, 0.0), min(value + half, 1.0))
    return Ranking(
        Score("area under the ROC curve", value, interval, level, claim),
        ones,
        zeros,
        plan.noise,
        claim,
    )


def private_scorer(
    metric: Callable[..., Any], *, response: str = "predict", **parameters: Any
) -> PrivateScorer:
    """Make a scorer for ``cross_val_score`` and ``GridSearchCV`` out of a private metric.

    Every call is a release of its own: k folds of m candidates charge the ledger m k times.

    Parameters
    ----------
    metric : callable
        A function of this module.
    response : {"predict", "predict_proba"}, default="predict"
        What the metric is given: labels or values, or probabilities.
    **parameters
        Passed on to the metric: ``epsilon``, ``ledger``, ``labels`` ...

    Returns
    -------
    callable
        Of (estimator, X, y); losses are negated, so that greater is better. Where persons have
        several records, its ``set_score_request(units=True)`` has their ids routed to it.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from skdpbayes.metrics import private_accuracy, private_scorer
    >>> X, y = make_classification(n_samples=300, random_state=0)
    >>> scorer = private_scorer(private_accuracy, epsilon=1.0)
    >>> cross_val_score(LogisticRegression(), X, y, scoring=scorer, cv=3).shape
    (3,)
    """
    check_choice("response", response, ("predict", "predict_proba"))
    return PrivateScorer(metric, response, parameters)


class PrivateScorer(BaseEstimator):
    """A scorer of `private_scorer`; ``set_score_request(units=True)`` asks for the ids of persons.

    Parameters
    ----------
    metric : callable
        A function of this module.
    response : {"predict", "predict_proba"}
        What the metric is given.
    parameters : dict
        Passed on to the metric.
    """

    def __init__(self, metric: Callable[..., Any], response: str, parameters: dict[str, Any]):
        self.metric = metric
        self.response = response
        self.parameters = parameters

    def score(self, estimator: Any, X: Any, y: Any, units: Any = None) -> float:
        """Release the score of a fitted estimator; greater is better.

        Parameters
        ----------
        estimator : object
            Fitted.
        X, y : array-like
            Records and their labels or values.
        units : array-like of shape (n_samples,), default=None
            Whose record each is.
        """
        output = getattr(estimator, self.response)(X)
        parameters = self.parameters if units is None else {**self.parameters, "units": units}
        if self.metric is private_ranking:
            positive = parameters.get("pos_label", 1)
            output = output[:, np.flatnonzero(estimator.classes_ == positive)[0]]
            return float(self.metric(y, output, **parameters).auc)
        result = self.metric(y, output, **parameters)
        if isinstance(result, Confusion):
            return float(result.accuracy())
        return float(result) if self.metric is private_accuracy else -float(result)

    def __call__(self, estimator: Any, X: Any, y: Any, **shared: Any) -> float:
        """Score, as scikit-learn's functions call it."""
        return self.score(estimator, X, y, **shared)


@dataclass(frozen=True)
class _Plan:
    """One release of integers: what it costs and the noise of every entry."""

    event: PrivacyEvent
    noise: Noise
    words: str
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Shares:
    """The rows that count, and how much each does."""

    n: int
    """Number of units."""
    rows: np.ndarray
    weight: np.ndarray | None
    """Of the rows, those of a person at most 1 together; None where each row is a unit."""

    def total(self, kernel: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Add up integers of rows; with weights in units of 1 / WHOLE."""
        if self.weight is None:
            return kernel(self.rows)
        return sum_fractions(self.weight, lambda places: kernel(self.rows[places]))


@dataclass(frozen=True)
class _Request:
    """The checked parameters that all metrics share."""

    budget: Budget
    level: float
    random_state: Any
    units: Any = None

    @classmethod
    def check(
        cls,
        epsilon: float,
        delta: float,
        adjacency: Adjacency,
        level: float,
        units: Any,
        ledger: Any,
        random_state: Any,
    ) -> _Request:
        check_choice("adjacency", adjacency, ADJACENCIES)
        budget = Budget(
            check_real("epsilon", epsilon, low=0.0, closed="high"),
            check_real("delta", delta, low=0.0, high=1.0, closed="low"),
            adjacency,
            ledger,
            randomness.is_seeded(random_state),
            unit="record" if units is None else "person",
        )
        level = check_real("level", level, low=0.0, high=1.0, closed="neither")
        return cls(budget, level, random_state, units)

    def plan(self, moves: int, what: str, unit: int = 1) -> _Plan:
        """Calibrate the noise of integers: Laplace for ``delta=0``, otherwise Gaussian.

        One neighboring step moves ``moves`` entries by ``unit`` each; for ``moves=1`` also any
        vector of that L1 norm (Laplace) or L2 norm (Gaussian, where ``unit`` is large). A person
        moves fractions of them, by no more in either norm. The noise is on whole entries.
        """
        budget = self.budget
        if not budget.private:
            return _Plan(NoPrivacy(), NO_NOISE, what)
        if budget.delta == 0.0:
            scale = moves * unit / budget.epsilon
            while moves * unit / scale > budget.epsilon:
                scale = math.nextafter(scale, math.inf)
            noise = budget.noise("laplace", scale)
            return _Plan(PureDP(budget.epsilon), noise, f"exact discrete Laplace noise on {what}")
        if self.units is not None:
            longest = math.ceil(math.sqrt(moves) * unit * WHOLE)
            scale = _gaussian_scale(budget.epsilon, budget.delta, 1, longest)
            noise = budget.noise("gaussian", scale / WHOLE)
            event: PrivacyEvent = DiscreteGaussian(scale, longest)
            return _Plan(event, noise, f"exact discrete Gaussian noise on {what}")
        scale = _gaussian_scale(budget.epsilon, budget.delta, moves, unit)
        event = repeat(DiscreteGaussian(scale, unit), moves)
        noise = budget.noise("gaussian", scale)
        return _Plan(event, noise, f"exact discrete Gaussian noise on {what}")

    def release(self, exact: Any, plan: _Plan) -> tuple[np.ndarray, PrivacyGuarantee]:
        """Reserve, then add the noise."""
        exact = np.asarray(exact, dtype=np.int64)
        generator = randomness.make_generator(self.random_state)
        claim = self.budget.reserve(plan, "metrics")
        if self.units is not None:
            return fractions(generator, exact, plan.noise, WHOLE), claim
        return counts(generator, exact, plan.noise), claim

    def shares(self, n_records: int) -> _Shares:
        """Return how records count."""
        if self.units is None:
            return _Shares(n_records, np.arange(n_records), None)
        codes, n_units = unit_codes(self.units, n_records)
        used, weight = share_out(codes, n_units)
        return _Shares(n_units, np.arange(n_records) if used is None else used, weight)

    def mean(self, name: str, losses: np.ndarray, bound: float) -> Score:
        """Release the mean of losses in [0, bound] with its variance."""
        share = np.clip(losses / bound, 0.0, 1.0)
        # The rounding of the pair moves it by one step at most: half of one in either entry.
        plan = self.plan(1, f"mean and variance of the {name}", unit=STEPS + 2)
        weight = 2.0 if plan.noise.law == "gaussian" else 1.0
        pair = np.array([STEPS * share, weight * STEPS * share * (1.0 - share)])
        pair, shares = np.rint(pair).astype(np.int64), self.shares(losses.shape[0])
        noisy, claim = self.release(shares.total(lambda rows: pair[:, rows].sum(axis=1)), plan)
        n, unit = shares.n, 1.0 / (shares.n * STEPS)
        mean = min(max(float(noisy[0]) * unit, 0.0), 1.0)
        spread = mean * (1.0 - mean)
        # m(1-m) - E l(1-l) is the variance; one deviation of its noise is allowed for.
        deviation = plan.noise.deviation * unit
        variance = spread - float(noisy[1]) * unit / weight + deviation / weight
        variance = min(max(variance, spread / n), max(spread, 1.0 / n))
        half = _half_width(self.level, variance / n, plan.noise, unit)
        interval = (bound * max(mean - half, 0.0), bound * min(mean + half, 1.0))
        return Score(name, bound * mean, interval, self.level, claim)


@lru_cache(maxsize=64)
def _gaussian_scale(epsilon: float, delta: float, moves: int, unit: int) -> float:
    guess = unit * math.sqrt(moves) / gdp_mu(epsilon, delta)
    return smallest_noise(
        lambda scale: repeat(DiscreteGaussian(scale, unit), moves), epsilon, delta, guess=guess
    )


def _share_variance(share: float, n: float) -> float:
    """Variance of a share of n records, with two records more on either side (Agresti-Coull)."""
    shifted = (share * n + 2.0) / (n + 4.0)
    return shifted * (1.0 - shifted) / n


def _quantile(level: float) -> float:
    return float(ndtri(0.5 + 0.5 * level))


def _half_width(level: float, variance: float, noise: Noise, unit: float) -> float:
    """Half the width of a central interval of a normal number plus noise in steps of ``unit``."""
    sd = math.sqrt(variance)
    if noise.law != "laplace":
        return _quantile(level) * math.hypot(sd, noise.deviation * unit)
    scale = noise.scale * unit
    if sd == 0.0:
        return -scale * math.log1p(-level)

    def excess(x: float) -> float:
        # P(sd Z + scale L > x), the tail of the normal-Laplace law
        tails = (
            math.exp(
                log_ndtr(sign * x / sd - sd / scale) - sign * x / scale + 0.5 * (sd / scale) ** 2
            )
            for sign in (1.0, -1.0)
        )
        right, left = tails
        return float(ndtr(-x / sd)) + 0.5 * (right - left) - 0.5 * (1.0 - level)

    far = _quantile(level) * sd - 2.0 * scale * math.log1p(-level) + scale
    return float(optimize.brentq(excess, 0.0, far))


def table_of_scores(positive: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Count records by label (rows: negative, positive) and bin of the score; not private."""
    bins = EDGES.shape[0] + 1
    with np.errstate(divide="ignore"):
        place = np.searchsorted(EDGES, logit(scores), side="right")
    return np.bincount(place + bins * positive, minlength=2 * bins).reshape(2, bins)


def area_of_table(noisy: np.ndarray, deviation: float = 0.0) -> float:
    """Return the area under the curve from a released table; 1/2 if noise hides a class."""
    zeros, ones = np.asarray(noisy, dtype=np.float64)
    return _area(ones, zeros, deviation, WITHIN_BIN)[0]


def _area(
    ones: np.ndarray, zeros: np.ndarray, deviation: float, within: float
) -> tuple[float, float]:
    """Area under the curve from noisy tables, and its standard error (delta method and DeLong)."""
    n1, n0 = float(ones.sum()), float(zeros.sum())
    if min(n1, n0) <= max(5.0 * deviation * math.sqrt(ones.shape[0]), 0.0):
        return 0.5, math.nan
    below = (np.cumsum(zeros) - zeros + within * zeros) / n0
    above = (n1 - np.cumsum(ones) + within * ones) / n1
    area = float(ones @ below) / n1
    shares1, shares0 = (np.maximum(table, 0.0) for table in (ones, zeros))
    from_noise = ((below - area) ** 2).sum() / n1**2 + ((above - area) ** 2).sum() / n0**2
    sampling = shares1 @ (below - area) ** 2 / shares1.sum() / n1
    sampling += shares0 @ (above - area) ** 2 / shares0.sum() / n0
    error = math.sqrt(float(deviation**2 * from_noise + sampling))
    return min(max(area, 0.0), 1.0), error


def _labels(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    if y_true.shape[0] == 0:
        raise ValueError("y_true is empty: a score needs at least one record")
    return y_true, y_pred


def _checked_labels(labels: Any) -> np.ndarray:
    labels = column_or_1d(labels)
    if labels.shape[0] < 2 or np.unique(labels).shape[0] < labels.shape[0]:
        raise ValueError(
            "labels must list at least two different public labels, such as model.classes_; got "
            f"{labels.tolist()}"
        )
    return labels


def _places(name: str, values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    order = np.argsort(labels)
    place = np.minimum(np.searchsorted(labels, values, sorter=order), labels.shape[0] - 1)
    found = order[place]
    if not np.all(labels[found] == values):
        raise ValueError(f"y_{name} holds labels that are not in labels={labels.tolist()}")
    return found


def _probabilities(y_prob: Any, labels: np.ndarray) -> np.ndarray:
    probabilities = check_array(y_prob, ensure_2d=False, dtype=np.float64)
    if probabilities.ndim == 1 and labels.shape[0] == 2:
        probabilities = np.column_stack([1.0 - probabilities, probabilities])
    if probabilities.ndim != 2 or probabilities.shape[1] != labels.shape[0]:
        raise ValueError(
            f"y_prob must have one column per label, {labels.shape[0]} of them; got shape "
            f"{probabilities.shape}"
        )
    if probabilities.min() < 0.0 or probabilities.max() > 1.0 + 1e-9:
        raise ValueError("y_prob must hold probabilities, between 0 and 1")
    return probabilities


def _probability_column(y_score: Any) -> np.ndarray:
    scores = check_array(column_or_1d(y_score), ensure_2d=False, dtype=np.float64)
    if scores.min() < 0.0 or scores.max() > 1.0 + 1e-9:
        raise ValueError(
            "y_score must hold probabilities of the positive label, between 0 and 1; for other "
            "scores apply a public increasing function such as scipy.special.expit"
        )
    return np.minimum(scores, 1.0)


def _probability_of_truth(y_true: Any, y_prob: Any, labels: np.ndarray) -> np.ndarray:
    probabilities = _probabilities(y_prob, labels)
    truth = _places("true", column_or_1d(y_true), labels)
    check_consistent_length(truth, probabilities)
    return probabilities[np.arange(truth.shape[0]), truth]


def _errors(y_true: Any, y_pred: Any, target_bounds: Any) -> tuple[np.ndarray, float]:
    low, high = check_target_bounds(target_bounds)
    columns = []
    for values in (y_true, y_pred):
        column = check_array(column_or_1d(values), ensure_2d=False, dtype=np.float64)
        columns.append(np.clip(column, low, high))
    check_consistent_length(*columns)
    return columns[0] - columns[1], high - low
