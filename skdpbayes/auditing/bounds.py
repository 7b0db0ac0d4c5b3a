r"""Confidence bounds of audits; numbers in, numbers out.

A test between two neighboring data sets has a false positive rate *F* and a false negative rate
*G*. Under :math:`(\varepsilon, \delta)`-differential privacy
:math:`F + e^\varepsilon G \ge 1 - \delta` and :math:`e^\varepsilon F + G \ge 1 - \delta` [1]_, so
upper confidence bounds on both rates give a lower bound on :math:`\varepsilon`.

References
----------
.. [1] P. Kairouz, S. Oh, P. Viswanath. The composition theorem for differential privacy. IEEE
   Transactions on Information Theory, 2017 (Theorem 2.1).
.. [2] M. Jagielski, J. Ullman, A. Oprea. Auditing differentially private machine learning.
   NeurIPS 2020.
.. [3] T. Steinke, M. Nasr, M. Jagielski. Privacy auditing with one (1) training run. NeurIPS 2023
   (Theorem 5.2, Appendix D).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv, ndtri

__all__ = [
    "clopper_pearson_upper",
    "epsilon_lower_bound",
    "mu_lower_bound",
    "one_run_epsilon",
    "one_run_p_value",
]

_BISECTIONS = 60  # to the last digit of a double


def clopper_pearson_upper(n_events: int, n_trials: int, level: float) -> float:
    """Return an upper bound on a probability that fails with probability at most `level`.

    Parameters
    ----------
    n_events : int
        How often the event happened.
    n_trials : int
        In how many independent trials.
    level : float
        Allowed probability of failure, in (0, 1).

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> from skdpbayes.auditing import clopper_pearson_upper
    >>> round(clopper_pearson_upper(0, 1000, 0.025), 6)
    0.003682
    """
    if not 0 <= n_events <= n_trials or n_trials < 1:
        raise ValueError(
            f"n_events must be between 0 and n_trials >= 1; got {n_events!r} of {n_trials!r}."
        )
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be in (0, 1); got {level!r}.")
    if n_events == n_trials:
        return 1.0
    return float(betaincinv(n_events + 1, n_trials - n_events, 1.0 - level))


def _rate_bounds(
    false_positives: int, n_trials: int, false_negatives: int, n_neighbor_trials: int, conf: float
) -> tuple[float, float]:
    """Bound both error rates; half of the allowed failure goes to each."""
    if not 0.0 < conf < 1.0:
        raise ValueError(f"confidence must be in (0, 1); got {conf!r}.")
    level = 0.5 * (1.0 - conf)
    return (
        clopper_pearson_upper(false_positives, n_trials, level),
        clopper_pearson_upper(false_negatives, n_neighbor_trials, level),
    )


def epsilon_lower_bound(
    false_positives: int,
    n_trials: int,
    false_negatives: int,
    n_neighbor_trials: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Return the epsilon that the error counts of a fixed test prove.

    Parameters
    ----------
    false_positives, n_trials : int
        How often the test said "neighbor" in how many fits on the data set.
    false_negatives, n_neighbor_trials : int
        How often it said "data set" in how many fits on the neighbor.
    delta : float, default=0.0
        The delta at which epsilon is bounded.
    confidence : float, default=0.95
        Probability that the bound holds. The test must not depend on the counted fits.

    Returns
    -------
    float
        At least 0.

    Examples
    --------
    >>> from skdpbayes.auditing import epsilon_lower_bound
    >>> round(epsilon_lower_bound(100, 1000, 100, 1000), 4)
    1.9897
    """
    upper = _rate_bounds(false_positives, n_trials, false_negatives, n_neighbor_trials, confidence)
    return epsilon_of_rates(*upper, delta)


def epsilon_of_rates(false_positive: float, false_negative: float, delta: float) -> float:
    """Return the smallest epsilon that a test with these error rates allows."""
    best = 0.0
    for one, other in (
        (false_positive, false_negative),
        (false_negative, false_positive),
    ):
        power = 1.0 - delta - one
        if power > 0.0:
            best = max(best, math.log(power / other) if other > 0.0 else math.inf)
    return best


def mu_lower_bound(
    false_positives: int,
    n_trials: int,
    false_negatives: int,
    n_neighbor_trials: int,
    *,
    confidence: float = 0.95,
) -> float:
    r"""Return the :math:`\mu` that the counts prove if the mechanism is Gaussian private.

    A :math:`\mu`-GDP release has :math:`G \ge \Phi(\Phi^{-1}(1 - F) - \mu)`. That is stronger than
    :func:`epsilon_lower_bound`, and takes the claimed shape for granted.

    Parameters
    ----------
    false_positives, n_trials, false_negatives, n_neighbor_trials : int
        As for :func:`epsilon_lower_bound`.
    confidence : float, default=0.95
        Probability that the bound holds.
    """
    first, second = _rate_bounds(
        false_positives, n_trials, false_negatives, n_neighbor_trials, confidence
    )
    return max(0.0, float(ndtri(1.0 - first) - ndtri(second)))


def _binomial_upper_tails(n_trials: int, probability: float, smallest: int) -> np.ndarray:
    """Return P(Bin >= v) for v = 0, ..., smallest, in relative accuracy."""
    values = np.arange(1, smallest + 1)
    return np.concatenate([[1.0], betainc(values, n_trials - values + 1.0, probability)])


def one_run_p_value(
    n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float = 0.0
) -> float:
    r"""Return the probability of so many correct guesses under (epsilon, delta)-privacy, at most.

    With :math:`q = e^\varepsilon / (1 + e^\varepsilon)` and :math:`B` binomial *(r, q)*

    .. math::
        P(B \ge v) + 2 m \delta \max_{1 \le i \le v} P(v - i \le B < v) / i .

    Parameters
    ----------
    n_canaries : int
        *m*, each included on the toss of a fair coin.
    n_guesses : int
        *r*, for how many of them a guess was made.
    n_correct : int
        *v*, how many guesses were right.
    epsilon, delta : float
        The claim.

    Examples
    --------
    >>> from skdpbayes.auditing import one_run_p_value
    >>> one_run_p_value(1000, 100, 75, epsilon=2.0) > 0.05
    True
    """
    if not 0 <= n_correct <= n_guesses <= n_canaries or n_canaries < 1:
        raise ValueError(
            "counts must satisfy n_correct <= n_guesses <= n_canaries; got "
            f"{n_correct!r}, {n_guesses!r}, {n_canaries!r}."
        )
    if n_correct == 0:
        return 1.0
    rate = 1.0 / (1.0 + math.exp(-epsilon))
    tails = _binomial_upper_tails(n_guesses, rate, n_correct)
    value = float(tails[n_correct])
    if delta > 0.0:
        gaps = tails[n_correct - 1 :: -1] - tails[n_correct]  # P(v - i <= B < v), i = 1, ..., v
        value += 2.0 * n_canaries * delta * float(np.max(gaps / np.arange(1, n_correct + 1)))
    return min(1.0, value)


def one_run_epsilon(
    n_canaries: int,
    n_guesses: int,
    n_correct: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> float:
    """Return the epsilon that the guesses of one run prove: every smaller one is rejected.

    Parameters
    ----------
    n_canaries, n_guesses, n_correct : int
        As for :func:`one_run_p_value`.
    delta : float, default=0.0
        The delta at which epsilon is bounded.
    confidence : float, default=0.95
        Probability that the bound holds.

    Examples
    --------
    >>> from skdpbayes.auditing import one_run_epsilon
    >>> round(one_run_epsilon(1000, 100, 75, delta=1e-4), 3)
    0.673
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be in (0, 1); got {confidence!r}.")

    def rejected(epsilon: float) -> bool:
        p_value = one_run_p_value(n_canaries, n_guesses, n_correct, epsilon, delta)
        return p_value < 1.0 - confidence

    if not rejected(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejected(high):
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejected(middle) else (low, middle)
    return low
