"""Audit by telling fits on two neighboring data sets apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from skdpbayes._validation import check_integer, check_real
from skdpbayes.auditing.bounds import (
    clopper_pearson_upper,
    epsilon_lower_bound,
    epsilon_of_rates,
    mu_lower_bound,
)
from skdpbayes.auditing.claims import Profile, read_claim, smallest_useful_trials
from skdpbayes.auditing.neighbors import NeighborPair, changed_rows, default_score
from skdpbayes.auditing.result import AuditResult
from skdpbayes.auditing.trials import Factory, error_counts, fit_quietly, run_trials
from skdpbayes.privacy.guarantee import PrivacyGuarantee

_ASIDE = 100  # fits at least, unless fewer are counted
_CANDIDATES = 64  # thresholds tried, at quantiles of the trials that are set aside
_SMOOTHED = 9  # predicted bounds are averaged over a ninth of the candidates
_CLEARLY = 4.0  # standard errors; chance brings 3 in one of thousands of comparisons
_RIDGE = 1e-9  # of the pooled variance, for features that are constant or repeat one another


def audit(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    neighbor: Any,
    units: Any = None,
    n_trials: int = 1000,
    score: Callable[[Any], Any] | None = None,
    claim: Any = None,
    confidence: float = 0.99,
    threshold: float | None = None,
    n_threshold_trials: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: Any = None,
) -> AuditResult:
    """Fit on two neighboring data sets many times and bound epsilon from below.

    The test is "the score of the fit exceeds a threshold". Direction and threshold are fixed on
    fits that are set aside; the error rates on the other fits get Clopper-Pearson bounds, which
    must be compatible with the whole privacy profile of the claim.

    Parameters
    ----------
    estimator : estimator
        Anything with scikit-learn's ``fit`` and ``get_params``. Clones are fitted, with
        ``random_state`` replaced by fresh randomness and without ledger.
    X, y : array-like
        The data set, made up for the audit. ``y=None`` calls ``fit(X)``.
    neighbor : (X, y), X or NeighborPair
        The neighboring data set; :mod:`skdpbayes.auditing.neighbors` has the worst ones we know.
        With ``units`` it is (X, y, units), of as many units and of any number of records.
    units : array-like, default=None
        Whose each record is, to audit a claim for all records of a person.
    n_trials : int, default=1000
        Fits on each of the two that are counted. More prove more.
    score : callable, default=None
        Takes the fitted estimator and returns a number or a vector of them. Of a vector the best
        linear combination is learned, on the trials that are set aside. By default the decision
        function (or log-probabilities, or predictions) at the records that changed.
    claim : PrivacyGuarantee, PrivacyEvent, float or (float, float), default=None
        What to audit: by default the ``privacy_`` of the fitted estimator. A number is an epsilon,
        a pair is (epsilon, delta).
    confidence : float, default=0.99
        Probability that a true claim is not refuted, in (0, 1).
    threshold : float, default=None
        A threshold on a scalar score, larger on the neighbor, known beforehand. By default it is
        chosen on the trials that are set aside.
    n_threshold_trials : int, default=None
        Fits on each data set that are set aside for that; by default a quarter of ``n_trials``,
        at least 100 if as many are counted.
    n_jobs : int, default=None
        Number of joblib workers, with scikit-learn's meaning.
    progress : bool, default=False
        Show a progress bar.
    random_state : int, Generator or None, default=None
        None fits with the estimator's own fresh randomness; otherwise the fits are seeded.

    Returns
    -------
    AuditResult
        Print it.

    Examples
    --------
    >>> from skdpbayes import LaplaceNaiveBayes
    >>> from skdpbayes.auditing import audit, neighbors
    >>> pair = neighbors.label_flip(4, 1)
    >>> result = audit(
    ...     LaplaceNaiveBayes(epsilon=2.0, binarize=0.0, classes=[0, 1], predictive_draws=1),
    ...     pair.X, pair.y, neighbor=pair, n_trials=300, random_state=0,
    ...     score=lambda fitted: fitted.statistics_)
    >>> result.verdict, bool(0.5 < result.epsilon_lower < 2.0)
    ('not refuted', True)
    """
    n_trials = check_integer("n_trials", n_trials, low=1)
    confidence = check_real("confidence", confidence, low=0.0, high=1.0, closed="neither")
    data, other = _data_sets(X, y, units, neighbor)
    if score is None:
        score = default_score(changed_rows(data[0], data[1:2], other[0], other[1:2]))
    seed = None if random_state is None else 0
    factory = Factory(estimator)
    claimed = read_claim(claim, fit_quietly(factory.make(seed), data))
    _check_trials(claimed, n_trials, confidence)
    n_aside = _trials_aside(threshold, n_threshold_trials, n_trials)
    scores, neighbor_scores = run_trials(
        factory,
        [data, other],
        score,
        n_aside + n_trials,
        n_jobs=n_jobs,
        progress=progress,
        random_state=random_state,
    )
    return _judge(scores, neighbor_scores, n_aside, claimed, confidence, threshold)


def audit_scores(
    scores: Any,
    neighbor_scores: Any,
    *,
    claim: Any,
    threshold: float | None = None,
    threshold_scores: tuple[Any, Any] | None = None,
    confidence: float = 0.99,
) -> AuditResult:
    """Bound epsilon from the scores of fits that were made elsewhere.

    Parameters
    ----------
    scores, neighbor_scores : array-like of shape (n_trials,) or (n_trials, n_features)
        Scores of independent fits on the data set and on its neighbor.
    claim : PrivacyGuarantee, PrivacyEvent, float or (float, float)
        What to audit.
    threshold : float, default=None
        Known before the fits were made; the neighbor scores higher.
    threshold_scores : pair of array-like, default=None
        Scores of further fits on both data sets, from which direction and threshold are learned.
    confidence : float, default=0.99
        Probability that a true claim is not refuted.

    Returns
    -------
    AuditResult

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.auditing import audit_scores
    >>> noise = np.random.default_rng(0).laplace(size=(2, 2000))
    >>> result = audit_scores(noise[0], noise[1] + 1.0, claim=1.0, threshold=0.5)
    >>> result.verdict, bool(0.5 < result.epsilon_lower < 1.0)
    ('not refuted', True)
    """
    first, second = _as_rows(scores), _as_rows(neighbor_scores)
    claimed = read_claim(claim)
    _check_trials(claimed, min(len(first), len(second)), confidence)
    if (threshold is None) == (threshold_scores is None):
        raise ValueError(
            "pass either threshold (known before the fits were made) or threshold_scores (scores "
            "of other fits to choose it on)."
        )
    if threshold_scores is None:
        return _judge(first, second, 0, claimed, confidence, threshold)
    aside, neighbor_aside = (_as_rows(part) for part in threshold_scores)
    if any(_overlap(a, b) for a in (aside, neighbor_aside) for b in (first, second)):
        raise ValueError(
            "threshold_scores are the scores that are counted: a threshold chosen on the same "
            "trials finds differences in pure noise. Make further fits for it."
        )
    n_aside = min(len(aside), len(neighbor_aside))
    first = np.concatenate([aside[:n_aside], first])
    second = np.concatenate([neighbor_aside[:n_aside], second])
    return _judge(first, second, n_aside, claimed, confidence, None)


def _as_rows(scores: Any) -> np.ndarray:
    rows = np.asarray(scores, dtype=np.float64)
    return rows.reshape(len(rows), -1)


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two sets of trials share memory or a run of values."""
    n = min(len(a), len(b))
    return np.shares_memory(a, b) or (n > 0 and a.shape[1] == b.shape[1] and _same(a[:n], b[:n]))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.array_equal(a, b)) and len(np.unique(a, axis=0)) > 2


def _data_sets(
    X: Any, y: Any, units: Any, neighbor: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if isinstance(neighbor, NeighborPair):
        neighbor = neighbor.neighbor
    if units is not None:
        if y is None or not isinstance(neighbor, (tuple, list)) or len(neighbor) != 3:
            raise ValueError("with units, y is needed and neighbor must be (X, y, units).")
        return (X, y, units), tuple(neighbor)
    if y is None:
        return (X,), tuple(neighbor) if isinstance(neighbor, tuple) else (neighbor,)
    if not isinstance(neighbor, (tuple, list)) or len(neighbor) != 2:
        raise ValueError("neighbor must be a pair (X, y) like the data set itself.")
    return (X, y), tuple(neighbor)


def _trials_aside(threshold: float | None, wanted: int | None, n_trials: int) -> int:
    if threshold is not None:
        if wanted is not None:
            raise ValueError("n_threshold_trials has no use where threshold is given.")
        return 0
    if wanted is None:
        return max(min(n_trials, _ASIDE), n_trials // 4)
    return check_integer("n_threshold_trials", wanted, low=1)


def _check_trials(claim: PrivacyGuarantee, n_trials: int, confidence: float) -> None:
    if math.isinf(claim.epsilon):
        raise ValueError("the claim is epsilon=inf, which no audit can refute.")
    rate = clopper_pearson_upper(0, n_trials, 0.5 * (1.0 - confidence))
    if Profile(claim, n_trials).excess(rate, rate)[0] > 0.0:
        return
    enough = smallest_useful_trials(claim, confidence)
    advice = (
        f"n_trials >= {enough:.0f} could"
        if math.isfinite(enough)
        else "no feasible number of trials could, audit a smaller epsilon"
    )
    raise ValueError(
        f"n_trials={n_trials} cannot refute epsilon={claim.epsilon:g} at confidence {confidence:g} "
        f"even if every guess is right; {advice}."
    )


def _judge(
    scores: np.ndarray,
    neighbor_scores: np.ndarray,
    n_aside: int,
    claim: PrivacyGuarantee,
    confidence: float,
    threshold: float | None,
) -> AuditResult:
    """Learn direction and threshold on the first `n_aside` trials, count errors on the others."""
    n_trials = len(scores) - n_aside
    n_neighbor = len(neighbor_scores) - n_aside
    profile = Profile(claim, min(n_trials, n_neighbor))
    if threshold is None:
        direction = _direction(scores[:n_aside], neighbor_scores[:n_aside])
        scores, neighbor_scores = scores @ direction, neighbor_scores @ direction
        bound = epsilon_lower_bound if claim.delta == 0.0 else mu_lower_bound
        threshold = _threshold(
            scores[:n_aside],
            neighbor_scores[:n_aside],
            profile,
            partial(_predicted, bound, n_aside, min(n_trials, n_neighbor), confidence),
        )
    elif scores.shape[1] > 1:
        raise ValueError("a threshold needs a scalar score; this one is a vector.")
    else:
        scores, neighbor_scores = scores[:, 0], neighbor_scores[:, 0]
    errors = error_counts(scores[n_aside:], neighbor_scores[n_aside:], threshold)
    level = 0.5 * (1.0 - confidence)
    first = clopper_pearson_upper(errors[0], n_trials, level)
    second = clopper_pearson_upper(errors[1], n_neighbor, level)
    excess, where = profile.excess(first, second)
    return AuditResult(
        epsilon_lower=epsilon_of_rates(first, second, claim.delta),
        confidence=confidence,
        claim=claim,
        threshold=float(threshold),
        false_positives=errors[0],
        n_trials=n_trials,
        false_negatives=errors[1],
        n_neighbor_trials=n_neighbor,
        false_positive_bound=first,
        false_negative_bound=second,
        excess=float(excess),
        excess_epsilon=float(where),
    )


def _direction(scores: np.ndarray, neighbor: np.ndarray) -> np.ndarray:
    """Return Fisher's linear discriminant, pointing to the neighbor."""
    gap = neighbor.mean(axis=0) - scores.mean(axis=0)
    if scores.shape[1] == 1:
        return np.where(gap >= 0.0, 1.0, -1.0)
    centered = np.concatenate([scores - scores.mean(axis=0), neighbor - neighbor.mean(axis=0)])
    spread = centered.std(axis=0)
    spread[spread == 0.0] = 1.0
    pooled = (centered / spread).T @ (centered / spread) / len(centered)
    pooled += (_RIDGE + 1.0 / len(centered)) * np.eye(len(gap))
    return np.linalg.solve(pooled, gap / spread) / spread


def _predicted(
    bound: Callable[..., float],
    n_aside: int,
    n_trials: int,
    confidence: float,
    false_positives: int,
    false_negatives: int,
) -> float:
    """Return the bound to expect of `n_trials` fits after these errors among those set aside.

    Where few errors were seen, chance may have spared us more: two of each kind are added, so that
    a threshold is not chosen for a tail that these trials know nothing about.
    """
    expected = [
        min(n_trials, math.ceil(n_trials * (errors + 2.0) / (n_aside + 4.0)))
        for errors in (false_positives, false_negatives)
    ]
    return bound(expected[0], n_trials, expected[1], n_trials, confidence=confidence)


def _threshold(
    scores: np.ndarray,
    neighbor: np.ndarray,
    profile: Profile,
    predicted: Callable[[int, int], float],
) -> float:
    """Return the threshold that contradicts the profile most clearly, in standard errors.

    Where none contradicts it clearly, extreme thresholds come closest for want of data; then the
    one is taken from which the largest lower bound is to be expected.
    """
    values = np.unique(np.concatenate([scores, neighbor]))
    if len(values) > _CANDIDATES:
        values = np.unique(np.quantile(values, np.linspace(0.0, 1.0, _CANDIDATES)))
    candidates = 0.5 * (values[1:] + values[:-1]) if len(values) > 1 else values
    n = len(scores)
    false_positives = (scores[:, None] > candidates).sum(axis=0)
    false_negatives = (neighbor[:, None] <= candidates).sum(axis=0)
    z = profile.z_scores(false_positives / n, false_negatives / n, n)
    if z.max() > _CLEARLY:
        return float(candidates[z.argmax()])
    bounds = [
        predicted(int(a), int(b)) for a, b in zip(false_positives, false_negatives, strict=True)
    ]
    if max(bounds) == 0.0:
        return float(candidates[int(np.argmin(false_positives + false_negatives))])
    # neighbors in the list are about as good: their mean is less at the mercy of chance
    window = np.ones(max(1, len(bounds) // _SMOOTHED))
    smooth = np.convolve(bounds, window, "same") / np.convolve(np.ones(len(bounds)), window, "same")
    return float(candidates[int(np.argmax(smooth))])
