"""How a private search spends its budget; public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.calibration import discrete_gaussian_scale, discrete_laplace_scale
from skdpbayes.privacy.composition.composed import compose
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.repetition import selection_coverage
from skdpbayes.privacy.mechanisms.selection import BestOfRandomRuns, any_of

__all__ = ["STRATEGIES", "SearchPlan", "plan_search"]

STRATEGIES = ("auto", "repeat", "compose")
Probe = Callable[[float, float], tuple[PrivacyEvent, ...]]

_CLOSE = 0.995  # a run's epsilon is found once the total is within half a percent of the target
_ATTEMPTS = 30
# Composition leaves a fit about epsilon / sqrt(n), repetition more than half of epsilon: beyond a
# handful of candidates the former cannot win.
_SMALL_GRID = 8


@dataclass(frozen=True)
class SearchPlan:
    """What a search will do and cost.

    Attributes
    ----------
    strategy : {"repeat", "compose", "none"}
        A random number of runs with random candidates, every candidate once, or every candidate
        without privacy.
    run_epsilon, run_delta : float
        Budget of one fit.
    mean_runs : float
        Expected number of fits.
    shape : float
        Of the distribution of their number, for "repeat".
    score_noise : {"laplace", "gaussian"}
        Law of the noise on a score.
    score_scale : float
        Its scale, in records.
    choice_scale : float
        Scale of the Laplace noise under which the winner is found, for "compose"; in records.
    event : PrivacyEvent
        The whole search.
    coverage : float
        Probability that a given candidate is tried.
    """

    strategy: str
    run_epsilon: float
    run_delta: float
    mean_runs: float
    shape: float
    score_noise: str
    score_scale: float
    choice_scale: float
    event: PrivacyEvent
    coverage: float = 1.0

    @property
    def words(self) -> str:
        """The mechanism in words."""
        run = f"(epsilon={self.run_epsilon:.3g})"
        if self.strategy == "compose":
            return (
                f"plain composition of {self.mean_runs:.0f} fits {run}, which is cheaper here than "
                "random repetition, and a noisy maximum of hold-out scores"
            )
        if self.strategy == "none":
            return "the best hold-out score without noise"
        law = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}.get(
            self.shape, f"truncated negative binomial (shape {self.shape:g})"
        )
        return (
            f"the best noisy hold-out score of a {law} number of runs {run}, "
            f"{self.mean_runs:g} on average"
        )


def plan_search(
    probe: Probe,
    n_candidates: int,
    *,
    epsilon: float,
    delta: float,
    adjacency: str,
    mean_runs: float,
    shape: float,
    strategy: str = "auto",
    unit: int = 1,
) -> SearchPlan:
    """Split the budget; "auto" takes the strategy that leaves a run more epsilon.

    Random repetition may miss the best candidate, so its epsilon counts in proportion to the
    probability that a candidate is tried.

    Parameters
    ----------
    probe : callable
        ``probe(epsilon, delta)`` returns the events of all candidates' fits at that budget.
    n_candidates : int
        Number of candidates.
    epsilon, delta : float
        The total.
    adjacency : {"replace_one", "zero_out"}
        Replacing a record can raise one score and lower another; a null record cannot.
    mean_runs, shape : float
        Distribution of the number of runs for "repeat".
    strategy : {"auto", "repeat", "compose"}
        Which plan to make.
    unit : int, default=1
        Units in which one record's score is summed.

    Returns
    -------
    SearchPlan

    Examples
    --------
    >>> from skdpbayes.model_selection import plan_search
    >>> from skdpbayes.privacy import GaussianDP, gdp_mu
    >>> def probe(epsilon, delta):
    ...     return (GaussianDP(gdp_mu(epsilon, delta)),)
    >>> budget = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace_one", "shape": 1.0}
    >>> plan_search(probe, 2, mean_runs=6.0, **budget).strategy
    'compose'
    >>> plan_search(probe, 30, mean_runs=90.0, **budget).strategy
    'repeat'
    """
    if math.isinf(epsilon):
        return SearchPlan(
            "none", epsilon, delta, n_candidates, shape, "laplace", 0.0, 0.0, NoPrivacy()
        )
    plans, errors = [], []
    if strategy != "compose":
        if delta == 0.0 and math.isinf(shape):
            raise CalibrationError(
                "a Poisson number of runs (shape=inf) needs delta > 0; got delta=0. Use a finite "
                "shape such as 0 (logarithmic) or 1 (geometric)."
            )
        try:
            plans.append(_repeat(probe, n_candidates, epsilon, delta, mean_runs, shape, unit))
        except CalibrationError as error:
            errors.append(error)
    if strategy == "compose" or (strategy == "auto" and n_candidates <= _SMALL_GRID):
        try:
            plans.append(_compose(probe, n_candidates, epsilon, delta, adjacency, unit))
        except CalibrationError as error:
            errors.append(error)
    if not plans:
        raise errors[0]
    return max(plans, key=lambda plan: plan.run_epsilon * plan.coverage)


def _repeat(
    probe: Probe,
    n_candidates: int,
    epsilon: float,
    delta: float,
    mean_runs: float,
    shape: float,
    unit: int,
) -> SearchPlan:
    run_delta = delta / mean_runs

    def score(run_epsilon: float) -> tuple[str, float, PrivacyEvent]:
        # Noise of a few records is nothing beside a validation set, so the score takes half of a
        # run's epsilon: its profile then stays below the fit's and costs nothing.
        if delta == 0.0:
            scale = discrete_laplace_scale(run_epsilon / 2.0)
            return "laplace", scale, DiscreteLaplace(scale * unit, unit)
        scale = discrete_gaussian_scale(run_epsilon / 2.0, run_delta)
        return "gaussian", scale, DiscreteGaussian(scale * unit, unit)

    def event_of(run_epsilon: float) -> PrivacyEvent:
        run = any_of((*probe(run_epsilon, run_delta), score(run_epsilon)[2]))
        return BestOfRandomRuns(run, mean_runs, shape)

    run_epsilon, event = _largest_epsilon(event_of, epsilon, delta)
    noise, scale, _ = score(run_epsilon)
    coverage = selection_coverage(n_candidates, mean_runs, shape)
    return SearchPlan(
        "repeat", run_epsilon, run_delta, mean_runs, shape, noise, scale, 0.0, event, coverage
    )


def _compose(
    probe: Probe, n_candidates: int, epsilon: float, delta: float, adjacency: str, unit: int
) -> SearchPlan:
    run_delta = delta / n_candidates
    # Validation records are in no fit: they pay for the choice and for the winner's score.
    moves = 2.0 if adjacency == "replace_one" else 1.0
    score_scale = math.nextafter(2.0 / epsilon, math.inf)
    choice_scale = math.nextafter(2.0 * moves / epsilon, math.inf)
    validation = compose([PureDP(moves / choice_scale), DiscreteLaplace(score_scale * unit, unit)])

    def event_of(run_epsilon: float) -> PrivacyEvent:
        events = probe(run_epsilon, run_delta)
        if len(events) == 1:
            events *= n_candidates
        return any_of((compose(events), validation))

    run_epsilon, event = _largest_epsilon(event_of, epsilon, delta)
    return SearchPlan(
        "compose",
        run_epsilon,
        run_delta,
        n_candidates,
        math.nan,
        "laplace",
        score_scale,
        choice_scale,
        event,
    )


def _largest_epsilon(
    event_of: Callable[[float], PrivacyEvent], epsilon: float, delta: float
) -> tuple[float, PrivacyEvent]:
    """Return a run's epsilon at which the whole costs nearly `epsilon`, never more."""
    # the total grows about linearly with a run's epsilon, so scaling converges in a few steps
    low, high = 0.0, epsilon
    found: tuple[float, PrivacyEvent] | None = None
    guess = epsilon
    for _ in range(_ATTEMPTS):
        event = event_of(guess)
        total = event.epsilon_at(delta)
        if total <= epsilon:
            low, found = guess, (guess, event)
            if total >= _CLOSE * epsilon or guess == epsilon:
                break
        else:
            high = guess
        if high - low <= 1e-4 * high:
            break
        scaled = guess * 0.5 * (1.0 + _CLOSE) * epsilon / total if np.isfinite(total) else 0.0
        inside = low + 0.02 * (high - low) < scaled < high - 0.02 * (high - low)
        guess = scaled if inside else (0.5 * (low + high) if low > 0.0 else 0.25 * high)
    if found is None:
        raise CalibrationError(
            f"no budget of a single run keeps the search within epsilon={epsilon:g}, "
            f"delta={delta:g}; raise epsilon or delta, or lower mean_runs."
        )
    return found
