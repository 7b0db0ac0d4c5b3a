"""How a private search spends its budget; public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.budget import NO_NOISE, Budget, Law, Noise
from skdpbayes.privacy.calibration import discrete_gaussian_scale, discrete_laplace_scale
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import Adjacency
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.repetition import selection_coverage
from skdpbayes.privacy.mechanisms.selection import BestOfRandomRuns, any_of
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.fractions import fraction_noise

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
    score : Noise
        Noise on a score, its scale in records.
    choice : Noise
        Noise under which the winner is found, for "compose"; in records.
    event : PrivacyEvent
        The whole search.
    coverage : float
        Probability that a given candidate is tried.
    conditions : tuple of str
        What the claim rests on.
    runs : tuple of PrivacyEvent
        A fit of each candidate.
    """

    strategy: str
    run_epsilon: float
    run_delta: float
    mean_runs: float
    shape: float
    score: Noise
    choice: Noise
    event: PrivacyEvent
    coverage: float = 1.0
    conditions: tuple[str, ...] = ()
    runs: tuple[PrivacyEvent, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """Return itself under the name of the fitted attribute."""
        return {"plan_": self}

    def __str__(self) -> str:
        return f"{self.words}; scores under {self.score}"

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
    adjacency: Adjacency,
    mean_runs: float,
    shape: float,
    strategy: str = "auto",
    unit: int = 1,
    table: bool = False,
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
    table : bool, default=False
        Whether a score is a table of counts: replacing a record moves two of them by 1. If a count
        has more than one ``unit``, persons count by fractions, which are priced by their norm.

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
    budget = Budget(epsilon, delta, adjacency)
    if not budget.private:
        no = (NO_NOISE, NO_NOISE, NoPrivacy())
        return SearchPlan("none", epsilon, delta, n_candidates, shape, *no)
    plans, errors = [], []
    if strategy != "compose":
        if delta == 0.0 and math.isinf(shape):
            raise CalibrationError(
                "a Poisson number of runs (shape=inf) needs delta > 0; got delta=0. Use a finite "
                "shape such as 0 (logarithmic) or 1 (geometric)."
            )
        try:
            plans.append(_repeat(probe, n_candidates, budget, mean_runs, shape, unit, table))
        except CalibrationError as error:
            errors.append(error)
    if strategy == "compose" or (strategy == "auto" and n_candidates <= _SMALL_GRID):
        try:
            plans.append(_compose(probe, n_candidates, budget, unit, table))
        except CalibrationError as error:
            errors.append(error)
    if not plans:
        raise errors[0]
    return max(plans, key=lambda plan: plan.run_epsilon * plan.coverage)


def _repeat(
    probe: Probe,
    n_candidates: int,
    budget: Budget,
    mean_runs: float,
    shape: float,
    unit: int,
    table: bool,
) -> SearchPlan:
    run_delta = budget.delta / mean_runs
    moves = moved(budget.adjacency) if table else 1

    def score(run_epsilon: float) -> tuple[Noise, PrivacyEvent]:
        # Noise of a few records is nothing beside a validation set, so the score takes half of a
        # run's epsilon: its profile then stays below the fit's and costs nothing.
        return _score_noise(budget, run_epsilon / 2.0, run_delta, moves, unit, table)

    def event_of(run_epsilon: float) -> PrivacyEvent:
        run = any_of((*probe(run_epsilon, run_delta), score(run_epsilon)[1]))
        return BestOfRandomRuns(run, mean_runs, shape)

    run_epsilon, event = _largest_epsilon(event_of, budget)
    coverage = selection_coverage(n_candidates, mean_runs, shape)
    return SearchPlan(
        "repeat",
        run_epsilon,
        run_delta,
        mean_runs,
        shape,
        score(run_epsilon)[0],
        NO_NOISE,
        event,
        coverage,
    )


def _score_noise(
    budget: Budget, epsilon: float, delta: float, moves: int, unit: int, table: bool
) -> tuple[Noise, PrivacyEvent]:
    """Return noise on integers of which a record moves ``moves``, its scale in records.

    One of them moves by up to ``unit`` steps; several, in a table, together by the norm of that.
    """
    event: PrivacyEvent
    if unit > 1 and table:
        law: Law = "laplace" if delta == 0.0 else "gaussian"
        scale, event = fraction_noise(epsilon, delta, law, moves, unit)
        return budget.noise(law, scale), event
    if delta == 0.0:
        noise = budget.noise("laplace", discrete_laplace_scale(epsilon, 0.0, moves))
        event = DiscreteLaplace(noise.scale * unit, unit)
    else:
        noise = budget.noise("gaussian", discrete_gaussian_scale(epsilon, delta, moves))
        event = DiscreteGaussian(noise.scale * unit, unit)
    return noise, repeat(event, moves)


def _compose(probe: Probe, n_candidates: int, budget: Budget, unit: int, table: bool) -> SearchPlan:
    run_delta = budget.delta / n_candidates
    # Validation records are in no fit: they pay for the choice and for the winner's score.
    moves = moved(budget.adjacency)
    if table:  # all tables are released; the choice is made by looking at them
        n_moves = moves * n_candidates
        score, validation = _score_noise(budget, budget.epsilon, budget.delta, n_moves, unit, table)
        choice = score
    else:
        score = budget.noise("laplace", math.nextafter(2.0 / budget.epsilon, math.inf))
        choice = budget.noise("laplace", math.nextafter(2.0 * moves / budget.epsilon, math.inf))
        validation = compose(
            [PureDP(moves / choice.scale), DiscreteLaplace(score.scale * unit, unit)]
        )

    def event_of(run_epsilon: float) -> PrivacyEvent:
        events = probe(run_epsilon, run_delta)
        if len(events) == 1:
            events *= n_candidates
        return any_of((compose(events), validation))

    run_epsilon, event = _largest_epsilon(event_of, budget)
    return SearchPlan(
        "compose", run_epsilon, run_delta, n_candidates, math.nan, score, choice, event
    )


def _largest_epsilon(
    event_of: Callable[[float], PrivacyEvent], budget: Budget
) -> tuple[float, PrivacyEvent]:
    """Return a run's epsilon at which the whole costs nearly the budget, never more."""
    epsilon, delta = budget.epsilon, budget.delta
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
