"""Public numbers of a private hidden Markov model: noise on counts, or the heat of draws; price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes.estimators.hmm.chain import Prior, Schedule
from skdpbayes.fitting.units import WHOLE
from skdpbayes.privacy.budget import Budget, Law, Noise
from skdpbayes.privacy.calibration import (
    discrete_gaussian_scale,
    discrete_laplace_scale,
    smallest_noise,
)
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import BoundedRange, NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.exponential_mechanism import truncated_dirichlet_range
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.fractions import fraction_noise

MECHANISMS = ("laplace", "gaussian", "ops")
CALIBRATIONS = ("per_update", "converged")
CONVERGED = "the chains have converged to their stationary distribution"
UPDATES_PER_SWEEP = 2


@dataclass(frozen=True)
class CountsPlan:
    """Noise on the counts, and the model that is learned from them."""

    prior: Prior
    schedule: Schedule
    noise: Noise
    noise_aware: bool
    event: PrivacyEvent
    words: str
    conditions: tuple[str, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return {"noise_": self.noise}


@dataclass(frozen=True, eq=False)
class GibbsPlan:
    """Temperature, least probabilities and cost of draws of states and parameters."""

    prior: Prior
    schedule: Schedule
    inverse_temperature: float
    floors: np.ndarray  # the least probability of a value, one per field
    converged: bool  # each chain's last draw is released, else everything
    event: PrivacyEvent
    words: str
    conditions: tuple[str, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return {"temperature_": 1.0 / self.inverse_temperature}


def plan_counts(
    budget: Budget,
    prior: Prior,
    schedule: Schedule,
    *,
    law: Law,
    noise_aware: bool,
    conditions: tuple[str, ...] = (),
) -> CountsPlan:
    """Calibrate the noise from public numbers.

    An event adds one to one count of each of the D fields: replacing it moves 2D counts by one,
    wherever and whenever the two events happened, deleting it moves D. A person adds an average of
    what single events add: fractions, of which no norm is longer.
    """
    n_fields = prior.begin.shape[0] - 1
    cells = n_fields * moved(budget.adjacency)
    words = f"discrete {law.capitalize()} noise on the counts of {n_fields} field(s)"
    event: PrivacyEvent = NoPrivacy()
    scale = 0.0
    if budget.private and budget.unit == "person":
        scale, event = fraction_noise(budget.epsilon, budget.delta, law, cells, WHOLE)
    elif budget.private and law == "laplace":
        scale = discrete_laplace_scale(budget.epsilon, budget.delta, cells)
        event = repeat(DiscreteLaplace(scale), cells)
    elif budget.private:
        scale = discrete_gaussian_scale(budget.epsilon, budget.delta, cells)
        event = repeat(DiscreteGaussian(scale), cells)
    noise = budget.noise(law, scale)
    return CountsPlan(prior, schedule, noise, noise_aware, event, words, conditions)


def log_likelihood_range(categories: np.ndarray, min_probability: float) -> float:
    """Range of one event's log-likelihood when each value keeps a share of 1 / V."""
    return sum(
        truncated_dirichlet_range(int(v), min_probability / int(v)) for v in categories if v > 1
    )


def plan_gibbs(
    budget: Budget,
    prior: Prior,
    schedule: Schedule,
    *,
    min_probability: float,
    calibration: str,
    conditions: tuple[str, ...] = (),
) -> GibbsPlan:
    """Find the temperature from public numbers; `gibbs.py` has the proof."""
    if budget.unit == "person":
        raise ValueError(
            "mechanism='ops' draws from a likelihood of whole events, and the events of a person "
            "count as fractions. With units use mechanism='laplace' or 'gaussian'."
        )
    categories = np.diff(prior.begin)
    floors = min_probability / categories
    width = log_likelihood_range(categories, min_probability)
    records = float(moved(budget.adjacency))
    n_chains, converged = schedule.n_chains, calibration == "converged"
    words = (
        f"{n_chains} draw(s) of states and parameters from the tempered posterior"
        if converged
        else "every update of a Gibbs sampler on the tempered posterior"
    )
    if not budget.private:
        return GibbsPlan(prior, schedule, 1.0, floors, converged, NoPrivacy(), words)
    epsilon, delta = budget.epsilon, budget.delta
    n_sweeps = n_chains * (schedule.n_iter + schedule.burn_in)

    def event_of(eta: float) -> PrivacyEvent:
        if converged:
            return BoundedRange(eta, n_chains)
        sites = prior.state_sampler == "collapsed"
        states = PureDP(eta) if sites else BoundedRange(eta)
        return compose([repeat(states, n_sweeps), repeat(BoundedRange(eta), n_sweeps)])

    if converged:
        eta = bounded_range_eta(epsilon, delta, n_chains)
    else:
        eta = epsilon / (UPDATES_PER_SWEEP * n_sweeps)
        if delta > 0.0:
            noise = smallest_noise(lambda x: event_of(1.0 / x), epsilon, delta, guess=0.3 / eta)
            eta = max(eta, 1.0 / noise)
    while event_of(eta).epsilon_at(delta) > epsilon:  # rounding of sums and of 1 / noise
        eta *= 1.0 - 1e-12
    rho = 1.0 if width == 0.0 else min(1.0, float(np.nextafter(eta / (records * width), 0.0)))
    spent = min(eta, records * width * rho * (1.0 + 1e-15))
    if converged:
        conditions = (*conditions, CONVERGED)
    return GibbsPlan(prior, schedule, rho, floors, converged, event_of(spent), words, conditions)
