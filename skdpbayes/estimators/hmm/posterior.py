"""What a private hidden Markov model leaves behind: draws, the release, all computed from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logsumexp

from skdpbayes import models, randomness, samplers
from skdpbayes._validation import check_integer
from skdpbayes.estimators.hmm.chain import Draws, Watch, run_chains, silent
from skdpbayes.estimators.hmm.evidence import (
    CountEvidence,
    Evidence,
    NoisyCellEvidence,
    NoisyRowEvidence,
)
from skdpbayes.estimators.hmm.grid import Grid, Layout
from skdpbayes.estimators.hmm.plan import CountsPlan, GibbsPlan

# Predictions average over at most this many draws, spread over the chains.
_PREDICTIVE_DRAWS = 100

# Streams for what is drawn after the release. Under the seed of `fit` they would otherwise repeat
# the bits that made its noise; two numbers, because the chains of `fit` have keys of one.
SAMPLING, SYNTHETIC = (1, 1), (1, 3)

# Sweeps over states, true counts and levels before synthetic events are drawn, the parameters being
# a posterior draw already.
_SYNTHETIC_SWEEPS = 10


@dataclass(frozen=True, eq=False)
class StatesPosterior:
    """Draws of the parameters under common names of the states, and the counts behind them."""

    start: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    state_proba: np.ndarray  # on the grid
    counts: np.ndarray | None  # on the grid, noisy; None where draws were released instead
    plan: CountsPlan | GibbsPlan
    layout: Layout
    n_events: int

    @property
    def missing(self) -> dict[str, str]:
        """Methods that need the released counts, where draws were released instead."""
        if self.counts is not None:
            return {}
        why = (
            f"it needs released counts, and mechanism='ops' released {self.start.shape[0]} draw(s) "
            "instead. Use mechanism='laplace' or 'gaussian'."
        )
        return dict.fromkeys(("refit", "select_n_states", "interval", "sample"), why)

    def attributes(self) -> dict[str, Any]:
        """Return states, their probabilities, the released counts and the public grid."""
        layout = self.layout
        shown: dict[str, Any] = {
            "states_": self.state_proba.argmax(axis=-1),
            "state_proba_": self.state_proba,
            "categories_": layout.categories,
            "n_times_": layout.n_times,
            "sequence_labels_": layout.labels,
            "lengths_": layout.grid.lengths,
            "n_events_": self.n_events,
        }
        return shown if self.counts is None else {**shown, "released_counts_": self.counts}

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return the draws that were kept, some of them, or more from the released counts."""
        start, transition, emission = self.start, self.transition, self.emission
        if n_samples is not None:
            wanted = check_integer("n_samples", n_samples, low=1)
            generator = randomness.derived_generator(random_state, *SAMPLING)
            if wanted > start.shape[0]:
                start, transition, emission = self._more(wanted, generator)
            chosen = np.sort(generator.choice(start.shape[0], size=wanted, replace=False))
            start, transition, emission = start[chosen], transition[chosen], emission[chosen]
        return {
            "start": start.copy(),
            "transition": transition.copy(),
            "emission": emission.copy(),
        }

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return the ends of equal-tailed intervals of the kept draws."""
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        kept = {"start": self.start, "transition": self.transition, "emission": self.emission}
        return {
            name: np.moveaxis(np.quantile(draws, tails, axis=0), 0, -1)
            for name, draws in kept.items()
        }

    def probabilities(self, counts: np.ndarray, grid: Grid) -> np.ndarray:
        """State probabilities of the steps of new sequences, averaged over the draws."""
        total = np.zeros((grid.n_steps, self.start.shape[1]))
        chosen = self._predictive()
        for i in chosen:
            log_like = models.count_log_likelihood(counts, self.emission[i])
            total += models.smooth_states(log_like, grid.starts, self.start[i], self.transition[i])
        return total / chosen.shape[0]

    def log_likelihood(self, counts: np.ndarray, grid: Grid) -> float:
        """Log of the mean, over the draws, of the probability of all new events."""
        totals = [
            models.chain_log_likelihood(
                models.count_log_likelihood(counts, self.emission[i]),
                grid.starts,
                self.start[i],
                self.transition[i],
            ).sum()
            for i in self._predictive()
        ]
        return float(logsumexp(totals) - np.log(len(totals)))

    def synthetic(self, random_state: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw events from the posterior predictive: their codes, their steps, states of steps."""
        noisy, plan = self.released()
        grid, begin = self.layout.grid, plan.prior.begin
        generator = randomness.derived_generator(random_state, *SYNTHETIC)
        i = generator.integers(self.start.shape[0])
        start, transition, emission = self.start[i], self.transition[i], self.emission[i]
        evidence = make_evidence(noisy, plan, self.layout, self.n_events)
        for _ in range(_SYNTHETIC_SWEEPS):
            states, _ = samplers.sample_states_ffbs(
                evidence.log_likelihood(emission),
                grid.starts,
                start,
                transition,
                generator.random(grid.n_steps),
            )
            counts = evidence.counts(states, emission, generator)  # redraws the levels, too
        sizes = np.ones(grid.n_steps, dtype=np.int64)
        if isinstance(evidence, NoisyCellEvidence):
            sizes = generator.poisson(evidence.level)
        elif not grid.one_event_per_step:
            sizes = generator.poisson(counts.sum(axis=1) / (begin.shape[0] - 1))
        steps = np.repeat(np.arange(grid.n_steps), sizes)
        codes = np.empty((steps.shape[0], begin.shape[0] - 1), dtype=np.int64)
        uniforms = generator.random(codes.shape)
        for k in range(plan.prior.n_states):
            mine = states[steps] == k
            for d, (low, high) in enumerate(pairwise(begin)):
                inner = np.cumsum(emission[k, low:high])[:-1]  # rounding of the last one is no code
                codes[mine, d] = np.searchsorted(inner, uniforms[mine, d], side="right")
        return codes, steps, states

    def _predictive(self) -> np.ndarray:
        n_draws = self.start.shape[0]
        size = min(n_draws, _PREDICTIVE_DRAWS)
        return np.linspace(0, n_draws - 1, size).round().astype(np.int64)

    def released(self) -> tuple[np.ndarray, CountsPlan]:
        """Return the released counts, one row per step, and their plan."""
        assert self.counts is not None
        assert isinstance(self.plan, CountsPlan)
        return self.layout.flat(self.counts), self.plan

    def _more(
        self, wanted: int, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run longer chains on the release; the states keep the names they have."""
        if self.counts is None:
            raise ValueError(
                f"mechanism='ops' released {self.start.shape[0]} draw(s), and more would cost more "
                "privacy. Use mechanism='laplace' or 'gaussian' for any number of draws."
            )
        noisy, plan = self.released()
        evidence = make_evidence(noisy, plan, self.layout, self.n_events)
        n_states, grid = plan.prior.n_states, self.layout.grid
        schedule = replace(plan.schedule, n_iter=-(-wanted // plan.schedule.n_chains))
        draws = run_chains(noisy, evidence, grid, plan.prior, schedule, generator)
        states = _frequencies(draws, n_states).argmax(axis=1)
        known = self.layout.flat(self.state_proba).argmax(axis=1)
        names = samplers.match_states(states, known, n_states)
        draws = draws.renamed(np.tile(names, (draws.start.shape[0], 1)))
        return draws.start, draws.transition, draws.emission

    @classmethod
    def of_draws(
        cls,
        draws: Draws,
        counts: np.ndarray | None,
        plan: CountsPlan | GibbsPlan,
        layout: Layout,
        n_events: int,
    ) -> StatesPosterior:
        """Keep the parameters of the draws, and of their states the frequencies."""
        return cls(
            start=draws.start,
            transition=draws.transition,
            emission=draws.emission,
            state_proba=layout.shaped(_frequencies(draws, plan.prior.n_states)),
            counts=None if counts is None else layout.shaped(counts),
            plan=plan,
            layout=layout,
            n_events=n_events,
        )


def _frequencies(draws: Draws, n_states: int) -> np.ndarray:
    same = np.tile(np.arange(n_states), (draws.start.shape[0], 1))
    return samplers.state_frequencies(draws.states, same)


def make_evidence(noisy: np.ndarray, plan: CountsPlan, layout: Layout, n_events: int) -> Evidence:
    """Choose how the released counts are read, under the law of their noise."""
    noise, grid = plan.noise, layout.grid
    if noise.law == "none" or not plan.noise_aware:
        return CountEvidence(np.maximum(noisy, 0))
    begin = plan.prior.begin
    if grid.one_event_per_step:
        return NoisyRowEvidence(noisy, begin, noise.law, noise.scale)
    mean = n_events / grid.n_steps
    return NoisyCellEvidence(noisy, begin, grid.starts, mean, noise.law, noise.scale)


def learn(
    noisy: np.ndarray,
    plan: CountsPlan,
    layout: Layout,
    n_events: int,
    generator: np.random.Generator,
    watch: Watch = silent,
) -> StatesPosterior:
    """Run the chains on released counts, one row per step; costs no privacy."""
    evidence = make_evidence(noisy, plan, layout, n_events)
    draws = run_chains(noisy, evidence, layout.grid, plan.prior, plan.schedule, generator, watch)
    return StatesPosterior.of_draws(draws, noisy, plan, layout, n_events)
