r"""The Gibbs sampler of `PrivateHMM`, run on what was released.

One sweep redraws, each given the rest,

- the emissions :math:`\theta_{kd} \sim \mathrm{Dir}(\alpha + N_{kd})` from the counts of the steps
  in state k; where the counts are noisy, pairs of values then trade probability with the true
  counts summed out,
- the start and transition probabilities from the moves between states (or they are integrated
  out),
- all states and true counts jointly: the states with the counts summed out, then the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from skdpbayes import models, randomness, samplers
from skdpbayes.estimators.hmm.evidence import Evidence, fractions
from skdpbayes.estimators.hmm.grid import Grid

# Hands out the numbers of so many sweeps, under a label: with a progress bar or without.
Watch: TypeAlias = Callable[[int, str], Iterable[int]]


def silent(n_sweeps: int, label: str) -> Iterable[int]:
    """Show no progress."""
    return range(n_sweeps)


# Starts that a chain tries, and the sweeps after which it keeps the likeliest one.
_N_STARTS = 6
_START_SWEEPS = 8
_LOWER_MODE = 10.0
_SMOOTHING = (1, 3, 9)  # steps averaged before seeds are chosen: noise hides single steps


@dataclass(frozen=True)
class Prior:
    """Dirichlet parameters and sizes of the model; public."""

    n_states: int
    begin: np.ndarray = field(compare=False)  # arrays have no single truth value
    alpha_emission: float
    alpha_transition: float
    stickiness: float
    state_sampler: str

    @property
    def transition_parameter(self) -> np.ndarray:
        """Dirichlet parameters of the transition rows."""
        base = np.full((self.n_states, self.n_states), float(self.alpha_transition))
        return base + self.stickiness * np.eye(self.n_states)


@dataclass(frozen=True)
class Schedule:
    """How long the chains run; public."""

    n_iter: int
    """Draws kept from each chain."""
    burn_in: int
    """Sweeps before that."""
    n_chains: int


@dataclass
class Draws:
    """Posterior draws, first axis the draw."""

    start: np.ndarray
    transition: np.ndarray
    emission: np.ndarray
    states: np.ndarray
    log_likelihood: np.ndarray

    def renamed(self, names: np.ndarray) -> Draws:
        """Return the draws with the states of draw i renamed by ``names[i]``."""
        old = np.argsort(names, axis=1)  # old[i, new] = the old name
        rows = np.arange(names.shape[0])[:, None]
        return Draws(
            self.start[rows, old],
            self.transition[rows[:, :, None], old[:, :, None], old[:, None, :]],
            self.emission[rows, old],
            np.take_along_axis(names, self.states.astype(np.int64), axis=1),
            self.log_likelihood,
        )


@dataclass
class _State:
    states: np.ndarray
    counts: np.ndarray
    log_likelihood: float = -np.inf
    start: np.ndarray | None = None
    transition: np.ndarray | None = None
    emission: np.ndarray | None = None


@dataclass
class Chain:
    """A chain on its way: its reading of the release, its state and its source of randomness."""

    evidence: Evidence
    state: _State
    grid: Grid
    prior: Prior
    generator: np.random.Generator
    recent: float = -np.inf
    """Mean log-likelihood of the later half of the last run."""

    def run(self, sweeps: Iterable[int]) -> list[tuple[Any, ...]]:
        """Make the sweeps and return their draws."""
        drawn = []
        small = np.int8 if self.prior.n_states <= 127 else np.int64
        for _ in sweeps:
            state = _sweep(self.evidence, self.state, self.grid, self.prior, self.generator)
            self.state = state
            drawn.append(
                (
                    state.start,
                    state.transition,
                    state.emission,
                    state.states.astype(small),
                    state.log_likelihood,
                )
            )
        self.recent = float(np.mean([d[-1] for d in drawn[len(drawn) // 2 :]] or [self.recent]))
        return drawn

    def follow(self, other: Chain) -> None:
        """Go on from where another chain is."""
        self.evidence, self.state = other.evidence.fresh(), other.state


def start_chain(
    evidence: Evidence,
    noisy: np.ndarray,
    grid: Grid,
    prior: Prior,
    generator: np.random.Generator,
) -> Chain:
    """Try several starts for a few sweeps each and go on from the likeliest.

    Parameters
    ----------
    evidence : Evidence
        The reading of the release.
    noisy : int array of shape (n_steps, n_values)
        The released counts, to choose the start by.
    grid, prior
        The public layout and the model.
    generator : numpy.random.Generator
        Source of randomness.
    """
    best: Chain | None = None
    features = fractions(noisy, prior.begin)
    for attempt in range(_N_STARTS if prior.n_states > 1 else 1):
        width = _SMOOTHING[attempt % len(_SMOOTHING)]
        states = seed_states(features, grid, prior.n_states, width, generator)
        start = _State(states, pooled_counts(noisy, states, prior.n_states))
        chain = Chain(evidence.fresh(), start, grid, prior, generator)
        chain.run(range(_START_SWEEPS))
        if best is None or chain.recent > best.recent:
            best = chain
    assert best is not None
    return best


def run_chains(
    noisy: np.ndarray,
    evidence: Evidence,
    grid: Grid,
    prior: Prior,
    schedule: Schedule,
    generator: np.random.Generator,
    watch: Watch = silent,
) -> Draws:
    """Run the chains on a release and put their draws together; costs no privacy."""
    sources = randomness.spawn(generator, schedule.n_chains)
    chains = [start_chain(evidence, noisy, grid, prior, source) for source in sources]
    for chain in chains:
        chain.run(watch(schedule.burn_in, "burn-in"))
    leave_lower_modes(chains)
    draws = [as_draws(chain.run(watch(schedule.n_iter, "draws"))) for chain in chains]
    return combine_chains(draws, prior.n_states)


def pooled_counts(noisy: np.ndarray, states: np.ndarray, n_states: int) -> np.ndarray:
    """Counts that add up, over each state's steps, to the noisy totals clipped at zero.

    Noise averages out in the sums; clipping the counts of single steps would pile it up.
    """
    totals = np.maximum(models.count_emissions(noisy, states, n_states), 0.0)
    size = np.bincount(states, minlength=n_states)
    return (totals / np.maximum(size, 1)[:, None])[states]


def leave_lower_modes(chains: list[Chain]) -> None:
    """Let chains that are stuck in a mode of far lower likelihood follow the best one.

    Chains of a mixture seldom leave a local mode. One whose log-likelihood stays more than ten
    below the best chain's is in a mode that holds a share of about exp(-10) of the posterior,
    and would count as much as the others in every average.
    """
    best = max(chains, key=lambda chain: chain.recent)
    for chain in chains:
        if chain.recent < best.recent - _LOWER_MODE:
            chain.follow(best)


def as_draws(drawn: list[tuple[Any, ...]]) -> Draws:
    """Stack what `Chain.run` returned."""
    return Draws(*(np.array(column) for column in zip(*drawn, strict=True)))


def _sweep(
    evidence: Evidence,
    state: _State,
    grid: Grid,
    prior: Prior,
    generator: np.random.Generator,
) -> _State:
    totals = models.count_emissions(state.counts, state.states, prior.n_states)
    emission = samplers.normalize_gammas(
        generator.standard_gamma(totals + prior.alpha_emission), prior.begin
    )
    # The true counts are summed out here and redrawn below, before anything depends on them.
    emission = evidence.move(state.states, emission, prior.alpha_emission, generator)
    start, transition = draw_transitions(state.states, grid, prior, generator)
    log_like = evidence.log_likelihood(emission)
    uniforms = generator.random(grid.n_steps)
    starts = grid.starts
    if prior.state_sampler == "ffbs":
        states, log_likelihood = samplers.sample_states_ffbs(
            log_like, starts, start, transition, uniforms
        )
    else:
        states = samplers.sweep_states_collapsed(
            state.states,
            log_like,
            starts,
            float(prior.alpha_transition),
            prior.transition_parameter,
            uniforms,
        )
        chains = models.chain_log_likelihood(log_like, starts, start, transition)
        log_likelihood = float(chains.sum())
    counts = evidence.counts(states, emission, generator)
    return _State(states, counts, log_likelihood, start, transition, emission)


def draw_transitions(
    states: np.ndarray, grid: Grid, prior: Prior, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the start and transition probabilities given the states."""
    first, moves = samplers.count_transitions(states, grid.starts, prior.n_states)
    whole = np.array([0, prior.n_states])
    start = generator.standard_gamma(first + prior.alpha_transition)
    rows = generator.standard_gamma(moves + prior.transition_parameter)
    return samplers.normalize_gammas(start, whole), samplers.normalize_gammas(rows, whole)


def seed_states(
    features: np.ndarray, grid: Grid, n_states: int, width: int, generator: np.random.Generator
) -> np.ndarray:
    """Assign steps to seeds chosen far apart (k-means++), on features averaged over time."""
    smooth = np.empty_like(features)
    kernel = np.ones(width) / width
    starts = grid.starts
    for low, high in pairwise(starts):
        if width == 1 or high - low < width:
            smooth[low:high] = features[low:high]
            continue
        weight = np.convolve(np.ones(high - low), kernel, mode="same")
        for v in range(features.shape[1]):
            average = np.convolve(features[low:high, v], kernel, mode="same")
            smooth[low:high, v] = average / weight
    smooth = np.sqrt(smooth)
    seed = smooth[generator.integers(smooth.shape[0])]
    distance = np.square(smooth - seed).sum(axis=1)
    nearest = np.zeros(smooth.shape[0], dtype=np.int64)
    for k in range(1, n_states):
        cumulative = np.cumsum(distance)
        target = generator.random() * cumulative[-1]
        seed = smooth[min(np.searchsorted(cumulative, target, side="right"), smooth.shape[0] - 1)]
        away = np.square(smooth - seed).sum(axis=1)
        nearest[away < distance] = k
        distance = np.minimum(distance, away)
    return nearest


def combine_chains(chains: list[Draws], n_states: int) -> Draws:
    """Put the draws of all chains together under common names of the states."""
    together = Draws(
        *(
            np.concatenate([getattr(chain, name) for chain in chains])
            for name in ("start", "transition", "emission", "states", "log_likelihood")
        )
    )
    reference = together.states[np.argmax(together.log_likelihood)].astype(np.int64)
    names = samplers.relabel_draws(together.states, reference, n_states)
    return together.renamed(names)
