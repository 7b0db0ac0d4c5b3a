"""The noisy count tensor behind `PrivateHMM`, and chains run on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import models, randomness
from skdpbayes._validation import check_choice, check_integer, check_real
from skdpbayes.estimators._hmm_chain import (
    Draws,
    Prior,
    as_draws,
    combine_chains,
    leave_lower_modes,
    start_chain,
)
from skdpbayes.estimators._hmm_evidence import (
    CountEvidence,
    Evidence,
    NoisyCellEvidence,
    NoisyRowEvidence,
)
from skdpbayes.estimators._hmm_grid import Grid
from skdpbayes.estimators._hmm_ops import ACCOUNTINGS
from skdpbayes.privacy.calibration import discrete_gaussian_scale, discrete_laplace_scale
from skdpbayes.privacy.composition.composed import repeat
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace

__all__ = ["NoisePlan", "check_model", "make_evidence", "model_prior", "plan_noise", "run_chains"]

MECHANISMS = ("laplace", "gaussian", "ops")
EMISSION_POSTERIORS = ("noise_aware", "projected")
STATE_SAMPLERS = ("ffbs", "collapsed")


@dataclass(frozen=True)
class NoisePlan:
    """Noise and cost of the release; public."""

    noise: str
    scale: float
    event: PrivacyEvent
    words: str


def check_model(estimator: Any) -> None:
    """Check the parameters that describe the model and its sampler."""
    check_integer("n_states", estimator.n_states, low=1)
    check_choice("mechanism", estimator.mechanism, MECHANISMS)
    check_choice("emission_posterior", estimator.emission_posterior, EMISSION_POSTERIORS)
    check_choice("state_sampler", estimator.state_sampler, STATE_SAMPLERS)
    check_choice("ops_accounting", estimator.ops_accounting, ACCOUNTINGS)
    for name in ("alpha_transition", "alpha_emission"):
        check_real(name, getattr(estimator, name), low=0.0, high=1e9, closed="high")
    check_real("stickiness", estimator.stickiness, low=0.0, high=1e9)
    check_real("emission_floor", estimator.emission_floor, low=0.0, high=1.0, closed="neither")
    check_integer("n_iter", estimator.n_iter, low=1)
    check_integer("burn_in", estimator.burn_in, low=0)
    check_integer("n_chains", estimator.n_chains, low=1)
    if estimator.n_times is not None:
        check_integer("n_times", estimator.n_times, low=1)


def plan_noise(estimator: Any, n_fields: int) -> NoisePlan:
    """Calibrate the noise from public numbers.

    An event adds one to one count of each of the D fields: replacing it moves 2D counts by one,
    wherever and whenever the two events happened, deleting it moves D.
    """
    moved = n_fields * (2 if estimator.adjacency == "replace_one" else 1)
    noise = str(estimator.mechanism)
    epsilon, delta = float(estimator.epsilon), float(estimator.delta)
    words = f"discrete {noise.capitalize()} noise on the counts of {n_fields} field(s)"
    if np.isinf(epsilon):
        return NoisePlan(noise, 0.0, NoPrivacy(), words)
    if noise == "laplace":
        scale = discrete_laplace_scale(epsilon, delta, moved)
        return NoisePlan(noise, scale, repeat(DiscreteLaplace(scale), moved), words)
    scale = discrete_gaussian_scale(epsilon, delta, moved)
    return NoisePlan(noise, scale, repeat(DiscreteGaussian(scale), moved), words)


def model_prior(estimator: Any, categories: np.ndarray) -> Prior:
    """Collect the prior from the estimator's parameters."""
    return Prior(
        n_states=int(estimator.n_states),
        begin=models.field_starts(categories),
        alpha_emission=float(estimator.alpha_emission),
        alpha_transition=float(estimator.alpha_transition),
        stickiness=float(estimator.stickiness),
        state_sampler=str(estimator.state_sampler),
    )


def make_evidence(
    noisy: np.ndarray,
    grid: Grid,
    categories: np.ndarray,
    *,
    n_events: int,
    noise: str,
    scale: float,
    noise_aware: bool,
) -> Evidence:
    """Choose how the released counts are read."""
    begin = models.field_starts(categories)
    if scale == 0.0 or not noise_aware:
        return CountEvidence(np.maximum(noisy, 0))
    if grid.one_event_per_step:
        return NoisyRowEvidence(noisy, begin, noise, scale)
    mean = n_events / grid.n_steps
    return NoisyCellEvidence(noisy, begin, grid.starts, mean, noise, scale)


def run_chains(
    estimator: Any,
    noisy: np.ndarray,
    evidence: Evidence,
    grid: Grid,
    prior: Prior,
    generator: np.random.Generator,
    n_iter: int | None = None,
) -> Draws:
    """Run the chains on a release and put their draws together; costs no privacy."""
    n_iter = int(estimator.n_iter) if n_iter is None else n_iter
    burn_in, n_chains = int(estimator.burn_in), int(estimator.n_chains)
    sources = randomness.spawn(generator, n_chains)
    chains = [start_chain(evidence, noisy, grid, prior, source) for source in sources]
    for chain in chains:
        chain.run(estimator._progress(range(burn_in), total=burn_in, label="burn-in"))
    leave_lower_modes(chains)
    draws = [
        as_draws(chain.run(estimator._progress(range(n_iter), total=n_iter, label="draws")))
        for chain in chains
    ]
    return combine_chains(draws, prior.n_states)
