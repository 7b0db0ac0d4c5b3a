"""Audit in one training run with canaries (Steinke, Nasr and Jagielski 2023)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skdpbayes import randomness
from skdpbayes._validation import check_integer, check_real
from skdpbayes.auditing.bounds import one_run_epsilon, one_run_p_value
from skdpbayes.auditing.claims import read_claim
from skdpbayes.auditing.result import OneRunResult
from skdpbayes.auditing.trials import Factory, fit_quietly


def audit_one_run(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    canaries: tuple[Any, Any],
    alternatives: tuple[Any, Any] | None = None,
    n_guesses: int | None = None,
    score: Callable[[Any, Any, Any], Any] | None = None,
    claim: Any = None,
    confidence: float = 0.95,
    random_state: Any = None,
) -> OneRunResult:
    """Include each canary on the toss of a coin, fit once, and guess the coins from the model.

    Under (epsilon, delta)-privacy the guesses cannot be much better than those of randomized
    response, whatever the dependence between them. One run proves less than the many of
    :func:`~skdpbayes.auditing.audit`, but works where a fit is expensive.

    Parameters
    ----------
    estimator : classifier
        Anything with scikit-learn's ``fit``; a clone is fitted.
    X, y : array-like
        Records that are always there; may have no rows.
    canaries : (X, y)
        Records that are there if their coin says so.
    alternatives : (X, y), default=None
        What takes a canary's place otherwise: another record each, which audits ``replace_one``,
        or null records. None leaves the canary out, which audits ``zero_out`` (the number of
        records then varies by what the coins say).
    n_guesses : int, default=None
        Guesses made: for the half of them with the highest scores "included", for those with the
        lowest "left out". A tenth of the canaries, at least 20, by default. Choose it beforehand.
    score : callable, default=None
        ``score(fitted, X, y)`` for a batch of records, larger for those that the model remembers.
        By default the decision function toward the record's label, or its log-probability; with
        alternatives, the difference.
    claim : PrivacyGuarantee, PrivacyEvent, float or (float, float), default=None
        What to audit; ``privacy_`` of the fitted estimator by default.
    confidence : float, default=0.95
        Probability that a true claim is not refuted.
    random_state : int, Generator or None, default=None
        Of the coins and the fit.

    Returns
    -------
    OneRunResult

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from skdpbayes.auditing import audit_one_run
    >>> rng = np.random.default_rng(0)
    >>> canaries = rng.normal(size=(400, 2)), rng.integers(2, size=400)
    >>> memory = KNeighborsClassifier(1)
    >>> audit_one_run(  # a nearest neighbor remembers everything, whatever it may claim
    ...     memory, canaries[0][:2], [0, 1], canaries=canaries, claim=1.0, n_guesses=100,
    ...     alternatives=(canaries[0], 1 - canaries[1]), random_state=0).verdict
    'refuted'
    """
    confidence = check_real("confidence", confidence, low=0.0, high=1.0, closed="neither")
    canary_X, canary_y = (np.asarray(part) for part in canaries)
    n_canaries = len(canary_X)
    n_guesses = _guesses(n_guesses, n_canaries)
    generator = randomness.make_generator(random_state)
    included = generator.random(n_canaries) < 0.5
    data = _assemble(np.asarray(X), np.asarray(y), canary_X, canary_y, alternatives, included)
    seed = None if random_state is None else int(generator.integers(2**31 - 1))
    fitted = fit_quietly(Factory(estimator).make(seed), data)
    claimed = read_claim(claim, fitted)
    rate = score or label_score
    scores = np.asarray(rate(fitted, canary_X, canary_y), dtype=np.float64)
    if alternatives is not None:
        scores = scores - np.asarray(rate(fitted, *map(np.asarray, alternatives)))
    n_correct = _count_correct(scores, included, n_guesses, generator)
    counts = (n_canaries, n_guesses, n_correct)
    _check_guesses(claimed, n_canaries, n_guesses, confidence)
    return OneRunResult(
        epsilon_lower=one_run_epsilon(*counts, delta=claimed.delta, confidence=confidence),
        confidence=confidence,
        claim=claimed,
        n_canaries=n_canaries,
        n_guesses=n_guesses,
        n_correct=n_correct,
        p_value=one_run_p_value(*counts, claimed.epsilon, claimed.delta),
    )


def label_score(fitted: Any, X: Any, y: Any) -> np.ndarray:
    """Return how strongly a classifier holds each record's label.

    Parameters
    ----------
    fitted : classifier
        With ``classes_`` and ``decision_function``, ``predict_log_proba`` or ``predict``.
    X, y : array-like
        The records.
    """
    codes = np.searchsorted(fitted.classes_, y)
    if hasattr(fitted, "decision_function"):
        scores = np.asarray(fitted.decision_function(X))
        if scores.ndim == 1:
            return np.where(codes == 1, scores, -scores)
    elif hasattr(fitted, "predict_proba"):
        with np.errstate(divide="ignore"):
            scores = np.maximum(np.log(fitted.predict_proba(X)), -1e9)
    else:
        return (fitted.predict(X) == np.asarray(y)).astype(np.float64)
    return scores[np.arange(len(codes)), codes]


def _guesses(wanted: int | None, n_canaries: int) -> int:
    if wanted is None:
        wanted = min(n_canaries, max(20, n_canaries // 10))
    return check_integer("n_guesses", wanted, low=1, high=n_canaries)


def _assemble(
    X: np.ndarray,
    y: np.ndarray,
    canary_X: np.ndarray,
    canary_y: np.ndarray,
    alternatives: tuple[Any, Any] | None,
    included: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    if alternatives is None:
        added_X, added_y = canary_X[included], canary_y[included]
    else:
        other_X, other_y = (np.asarray(part) for part in alternatives)
        if other_X.shape != canary_X.shape or other_y.shape != canary_y.shape:
            raise ValueError(
                "alternatives must have one record for each canary; got shapes "
                f"{other_X.shape} and {canary_X.shape}."
            )
        added_X = np.where(included[:, None], canary_X, other_X)
        added_y = np.where(included, canary_y, other_y)
    if len(X) == 0:
        return added_X, added_y
    return np.concatenate([X, added_X]), np.concatenate([y, added_y])


def _count_correct(
    scores: np.ndarray, included: np.ndarray, n_guesses: int, generator: np.random.Generator
) -> int:
    """Guess "included" for the highest scores and "left out" for the lowest; ties at random."""
    order = np.lexsort((generator.random(len(scores)), scores))
    n_low = n_guesses // 2
    low, high = order[:n_low], order[len(order) - (n_guesses - n_low) :]
    return int(np.sum(~included[low]) + np.sum(included[high]))


def _check_guesses(claim: Any, n_canaries: int, n_guesses: int, confidence: float) -> None:
    level = 1.0 - confidence
    if one_run_p_value(n_canaries, n_guesses, n_guesses, claim.epsilon, claim.delta) < level:
        return
    # all guesses right happens with probability q**r under randomized response
    needed = np.ceil(np.log(level) / -np.log1p(np.exp(-claim.epsilon)))
    raise ValueError(
        f"n_guesses={n_guesses} cannot refute epsilon={claim.epsilon:g} at confidence "
        f"{confidence:g} even if every guess is right; make at least {needed:.0f} guesses"
        + (f", and audit a delta below 1/{n_canaries} canaries." if claim.delta > 0.0 else ".")
    )
