"""Run a chain under its plan: batch, clipped sum, noisy release, sampler step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from skdpbayes import randomness, samplers
from skdpbayes.estimators._chain_models import Potential
from skdpbayes.estimators._chain_plan import NOISE_BITS, ChainPlan

__all__ = ["SAMPLERS", "ChainResult", "Dynamics", "run_chain", "step_sizes"]

SAMPLERS = ("sgld", "sghmc", "sgnht", "sgfs")
# Noise is drawn for about this many numbers at a time.
NOISE_BLOCK = 1 << 15


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
        """Temperature of every step given the noise on the gradient.

        The thermostat and Fisher scoring count all noise in, and stay at 1.
        """
        if self.sampler in ("sgnht", "sgfs"):
            return np.ones_like(noise)
        return np.square(noise / self._unit_langevin())


class ChainResult(NamedTuple):
    """Mean of the released tail, thinned draws of it, and the public temperature."""

    mean: np.ndarray
    draws: np.ndarray
    temperature: float


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


def _noise_rows(
    generator: np.random.Generator, n_steps: int, shape: tuple[int, ...]
) -> Iterable[np.ndarray]:
    """Yield exact discrete Gaussian noise of standard deviation 2^28, an array per step."""
    block = max(1, min(n_steps, NOISE_BLOCK // math.prod(shape)))
    for start in range(0, n_steps, block):
        count = min(block, n_steps - start)
        yield from randomness.discrete_gaussian(generator, 2.0**NOISE_BITS, (count, *shape))


def _each(values: np.ndarray, n_steps: int) -> Iterable[float]:
    """Yield the value of every step where one number may stand for all."""
    return repeat(float(values[0]), n_steps) if values.shape[0] == 1 else map(float, values)


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


def run_chain(
    potential: Potential,
    plan: ChainPlan,
    dynamics: Dynamics,
    start: np.ndarray,
    generator: np.random.Generator,
    *,
    burn_in: float,
    n_draws: int,
    progress: Callable[..., Iterable[Any]],
) -> ChainResult:
    """Run the chain; keep the mean of its tail and thinned draws.

    The sum of clipped gradients is rounded to a grid of 2^-28 noise standard deviations and exact
    discrete Gaussian noise is added on that grid; what follows is post-processing.
    """
    for_batches, for_noise, for_state = randomness.spawn(generator, 3)
    shape = potential.shape
    scales = plan.noise_scales(
        dynamics.langevin(), math.prod(shape), potential.rounding(plan.most_rows)
    )
    rate = plan.sampling_rate
    stepper = _Stepper(dynamics, plan, scales / rate, start, for_state)
    first = min(int(burn_in * plan.n_steps), plan.n_steps - 1)
    kept = np.unique(np.linspace(first, plan.n_steps - 1, n_draws).round().astype(int))
    total = np.zeros(shape)
    draws = np.empty((kept.shape[0], *shape))
    n_kept = 0
    position = start
    grids = scales * 2.0**-NOISE_BITS
    steps = zip(
        plan.batches(for_batches),
        _noise_rows(for_noise, plan.n_steps, shape),
        _each(grids, plan.n_steps),
        _each(dynamics.steps, plan.n_steps),
        _each(scales / rate, plan.n_steps),
        strict=True,
    )
    progressing = progress(steps, total=plan.n_steps, label="steps")
    for t, (rows, noise, grid, h, scale) in enumerate(progressing):
        released, prior = potential.gradients(position, rows, plan.clip_norm)
        released /= grid
        np.rint(released, out=released)
        released += noise
        released *= grid / rate
        released += prior
        position = stepper.step(h, scale, released)
        if t >= first:
            total += position
        if n_kept < kept.shape[0] and t == kept[n_kept]:
            draws[n_kept] = position
            n_kept += 1
    temperatures = dynamics.temperatures(scales / rate)
    temperature = float(temperatures[first if temperatures.shape[0] > 1 else 0 :].mean())
    return ChainResult(total / (plan.n_steps - first), draws, temperature)
