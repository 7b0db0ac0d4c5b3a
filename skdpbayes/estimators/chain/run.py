"""Run a chain under its plan: batch, clipped sum, noisy release, sampler step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpbayes import randomness, samplers
from skdpbayes._validation import check_integer
from skdpbayes.estimators.chain.plan import NOISE_BITS, ChainPlan
from skdpbayes.estimators.chain.potential import Potential

SAMPLERS = ("sgld", "sghmc", "sgnht", "sgfs")
# Noise is drawn for about this many numbers and batches for about this many rows at a time.
NOISE_BLOCK = 1 << 15
BATCH_BLOCK = 1 << 16
# Mean states that a score keeps.
MOST_RUNS = 1000


@dataclass(frozen=True)
class Dynamics:
    """A sampler and its public constants."""

    sampler: str
    steps: np.ndarray
    """Step size of every iteration; one number if all are the same."""
    friction: float = 0.0
    """SGHMC: friction; SGNHT: diffusion."""
    information: np.ndarray | None = None
    """SGFS: Fisher information of one record, (p, p)."""
    prior_precision: np.ndarray | None = None
    """SGFS: prior precision, (p, p)."""
    temperature: float = 1.0
    """Of the posterior that the chain is to sample."""

    def langevin(self) -> np.ndarray:
        """Noise that a sample of the posterior needs on the gradient, standard deviations."""
        return np.sqrt(self.temperature) * self._unit_langevin()

    def _unit_langevin(self) -> np.ndarray:
        if self.sampler == "sgld":
            return np.sqrt(2.0 / self.steps)
        if self.sampler == "sgfs":
            return np.sqrt(4.0 / self.steps)
        return np.sqrt(2.0 * self.friction / self.steps)

    def temperatures(self, noise: np.ndarray) -> np.ndarray:
        """Temperature of every step of Langevin dynamics given the noise on the gradient."""
        return np.square(noise / self._unit_langevin())


@dataclass(frozen=True, eq=False)
class Score:
    """Mean of the noisy gradients that a chain released, and where it asked for them.

    Steps count by one over the variance of their noise. Steps in a row are averaged if there are
    more than `MOST_RUNS`, because memory must not grow with their count; within a run so short the
    chain hardly moves.
    """

    states: np.ndarray
    """Mean state before the steps of every run, flattened, (n_runs, p)."""
    weights: np.ndarray
    """Share of every run, (n_runs,)."""
    gradient: np.ndarray
    """Mean of the estimated gradients of all losses, noise included, (p,)."""
    noise_variance: float
    """Variance of the noise on each of its entries."""
    batch_share: float
    """Sum of the squares of the steps' shares: 1 / n_steps if all count alike."""


class _ScoreSums:
    """Sums behind `Score`, step by step; every argument is released or public."""

    def __init__(self, n_steps: int, size: int, noise: np.ndarray) -> None:
        self.length = math.ceil(n_steps / MOST_RUNS)
        self.states = np.zeros((min(n_steps, MOST_RUNS), size))
        self.shares = np.zeros(self.states.shape[0])
        self.gradient = np.zeros(size)
        self.squares = 0.0
        self.noise = noise
        self.step = 0

    def add(self, position: np.ndarray, gradient: np.ndarray) -> None:
        """Count a step: where it asked, and the noisy answer."""
        share = float(self.noise[self.step if self.noise.shape[0] > 1 else 0]) ** -2
        run = self.step // self.length
        self.states[run] += share * position.ravel()
        self.shares[run] += share
        self.gradient += share * gradient.ravel()
        self.squares += share * share
        self.step += 1

    def score(self) -> Score:
        """Turn the sums into means."""
        used = self.shares > 0.0
        shares = self.shares[used]
        total = float(shares.sum())
        return Score(
            self.states[used] / shares[:, None],
            shares / total,
            self.gradient / total,
            1.0 / total,
            self.squares / total**2,
        )


class ChainResult(NamedTuple):
    """Mean of the released tail, thinned draws of it, and the public temperature."""

    mean: np.ndarray
    draws: np.ndarray
    temperature: float | None
    """None where only the sampler's theory says what it is."""
    score: Score | None


def step_sizes(first: float, schedule: Any, n_steps: int) -> np.ndarray:
    """Step sizes ``first * s(t)``, t = 1, 2, ..., for a schedule with ``s(t) = (b + t)^-g``.

    ``"constant"`` is g = 0 and ``"cube_root"`` b = 0, g = 1/3; otherwise the pair (b, g). Steps of
    the same size are one number: memory must not grow with their count.
    """
    pairs = {"constant": (0.0, 0.0), "cube_root": (0.0, 1.0 / 3.0)}
    shift, decay = pairs[schedule] if isinstance(schedule, str) else schedule
    if decay == 0.0:
        return np.array([first])
    return np.asarray(first * (shift + np.arange(1.0, n_steps + 1.0)) ** -decay)


def _block_size(plan: ChainPlan, size: int) -> int:
    """Steps whose batches and noise are drawn at a time."""
    return max(1, min(plan.n_steps, NOISE_BLOCK // size, BATCH_BLOCK // int(plan.batch_size)))


def _of_steps(values: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Values of some steps, where one number may stand for all."""
    return np.full(stop - start, values[0]) if values.shape[0] == 1 else values[start:stop]


class _Stepper:
    """Position and auxiliary state of a sampler; everything here is post-processing."""

    def __init__(
        self,
        dynamics: Dynamics,
        plan: ChainPlan,
        noise: np.ndarray,
        start: np.ndarray,
        generator: np.random.Generator,
    ) -> None:
        self.dynamics, self.plan = dynamics, plan
        self.position = start
        self.preconditioner: tuple[float, np.ndarray] | None = None
        if dynamics.sampler == "sghmc":
            self.state: Any = samplers.SGHMCState(start, np.zeros_like(start))
        elif dynamics.sampler == "sgnht":
            # the friction that balances the first step's noise: the thermostat starts at rest
            friction = 0.5 * dynamics.steps[0] * noise[0] ** 2
            momentum = randomness.gaussian(generator, 1.0, start.shape)
            self.state = samplers.sgnht_init(start, momentum, friction)

    def step(self, h: float, noise: float, gradient: np.ndarray) -> np.ndarray:
        """Move by ``h`` along a gradient with ``noise``."""
        dynamics = self.dynamics
        if dynamics.sampler == "sgld":
            self.position = samplers.sgld_step(self.position, gradient, step_size=h)
        elif dynamics.sampler == "sgfs":
            self.position = samplers.sgfs_step(self.position, gradient, self._fisher(noise))
        else:
            if dynamics.sampler == "sghmc":
                self.state = samplers.sghmc_step(
                    self.state, gradient, step_size=h, friction=dynamics.friction
                )
            else:  # the injected noise is in the gradient
                self.state = samplers.sgnht_step(
                    self.state, gradient, np.zeros(()), step_size=h, diffusion=0.0
                )
            self.position = self.state.position
        return self.position

    def _fisher(self, noise: float) -> np.ndarray:
        if self.preconditioner is None or self.preconditioner[0] != noise:
            assert self.dynamics.information is not None
            assert self.dynamics.prior_precision is not None
            matrix = samplers.sgfs_preconditioner(
                self.dynamics.information,
                self.dynamics.prior_precision,
                n_samples=self.plan.n_samples,
                batch_size=self.plan.batch_size,
                noise_variance=noise**2,
            )
            self.preconditioner = (noise, matrix)
        return self.preconditioner[1]


def _states(
    potential: Potential,
    plan: ChainPlan,
    dynamics: Dynamics,
    scales: np.ndarray,
    start: np.ndarray,
    generators: list[np.random.Generator],
    sums: _ScoreSums | None,
) -> Iterator[np.ndarray]:
    """Yield the states of the chain.

    The sum of clipped gradients is rounded to a grid of 2^-28 noise standard deviations and exact
    discrete Gaussian noise is added on that grid; what follows is post-processing.
    """
    for_batches, for_noise, for_state = generators
    rate = plan.sampling_rate
    stepper = _Stepper(dynamics, plan, scales / rate, start, for_state)
    block = _block_size(plan, start.size)
    for first in range(0, plan.n_steps, block):
        last = min(first + block, plan.n_steps)
        batches = plan.batches(for_batches, last - first)
        noise = randomness.discrete_gaussian(
            for_noise, 2.0**NOISE_BITS, (last - first, *start.shape)
        )
        grids = _of_steps(scales, first, last) * 2.0**-NOISE_BITS
        sizes = _of_steps(dynamics.steps, first, last)
        for t, (grid, h) in enumerate(zip(grids.tolist(), sizes.tolist(), strict=True)):
            batch = None
            if batches is not None:
                rows, starts = batches
                batch = rows[starts[t] : starts[t + 1]]
            released, prior = potential.gradients(stepper.position, batch)
            released /= grid
            np.rint(released, out=released)
            released += noise[t]
            released *= grid / rate
            if sums is not None:
                sums.add(stepper.position, released)
            released += prior
            yield stepper.step(h, grid * 2.0**NOISE_BITS / rate, released)


def run_chain(
    potential: Potential,
    plan: ChainPlan,
    dynamics: Dynamics,
    start: np.ndarray,
    generator: np.random.Generator,
    *,
    tail: float,
    n_kept: int,
    progress: Callable[..., Iterable[Any]] | None = None,
    keep_score: bool = False,
) -> ChainResult:
    """Run the chain; keep the mean of its tail, thinned draws and, if asked, the score.

    A chain whose steps decrease spends less time in its later states: averages weight them by the
    step (Li et al. 2019), and draws are evenly spaced in time.
    """
    shape = potential.shape
    scales = plan.noise_scales(
        dynamics.langevin(), math.prod(shape), potential.rounding(plan.most_rows)
    )
    sums = None
    if keep_score:
        sums = _ScoreSums(plan.n_steps, start.size, scales / plan.sampling_rate)
    states = _states(potential, plan, dynamics, scales, start, randomness.spawn(generator, 3), sums)
    first = plan.n_steps - math.ceil(tail * plan.n_steps)
    kept = _kept_steps(dynamics.steps, first, plan.n_steps, n_kept)
    total, time = np.zeros(shape), 0.0
    draws = np.empty((kept.shape[0], *shape))
    place = 0
    shown = states if progress is None else progress(states, total=plan.n_steps, label="steps")
    for t, state in enumerate(shown):
        if t >= first:
            step = float(dynamics.steps[t]) if dynamics.steps.shape[0] > 1 else 1.0
            total += step * state
            time += step
        if place < kept.shape[0] and t == kept[place]:
            draws[place] = state
            place += 1
    temperature = None
    if dynamics.sampler in ("sgld", "sghmc"):
        temperatures = dynamics.temperatures(scales / plan.sampling_rate)
        times = dynamics.steps[first:] if temperatures.shape[0] > 1 else None
        of_tail = temperatures[first if temperatures.shape[0] > 1 else 0 :]
        temperature = float(np.average(of_tail, weights=times))
    score = None if sums is None else sums.score()
    return ChainResult(total / time, draws, temperature, score)


def _kept_steps(steps: np.ndarray, first: int, n_steps: int, n_kept: int) -> np.ndarray:
    """Return which steps of the tail are kept as draws: evenly spaced in time."""
    if steps.shape[0] == 1:
        return np.unique(np.linspace(first, n_steps - 1, n_kept).round().astype(int))
    times = np.cumsum(steps[first:])
    places = np.searchsorted(times, np.linspace(times[0], times[-1], n_kept) * (1.0 - 1e-12))
    return np.unique(first + np.minimum(places, n_steps - 1 - first))


def choose_draws(available: int, n_samples: int | None, random_state: Any) -> np.ndarray:
    """Return which of the kept states answer a call: evenly spaced, or chosen at random."""
    wanted = available if n_samples is None else check_integer("n_samples", n_samples, low=1)
    if wanted > available:
        raise ValueError(
            f"n_samples={wanted} exceeds the {available} draws that fit kept; refit with "
            f"n_kept={wanted} (the whole chain is paid for, but a refit is a new release)."
        )
    if random_state is None:
        return np.linspace(0, available - 1, wanted).round().astype(int)
    order = randomness.make_generator(random_state).permutation(available)
    return np.sort(order[:wanted])
