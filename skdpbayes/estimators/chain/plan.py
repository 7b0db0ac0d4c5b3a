"""One object that says how a chain draws its batches and noise and what that costs.

What is accounted is what is run: the chain asks its plan for every batch and for the scale of every
noise, and the plan computes its price from the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from skdpbayes import privacy, randomness
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import Adjacency, PrivacyEvent
from skdpbayes.privacy.budget import NO_NOISE, Noise
from skdpbayes.privacy.mechanisms.subsampling import Sampling
from skdpbayes.privacy.sensitivity import moved

# The grid of a noisy sum is the noise's standard deviation divided by 2^28.
NOISE_BITS = 28


@dataclass(frozen=True)
class ChainPlan:
    """Batches, noise and price of a chain.

    ``setup`` holds what is released before the chain (the moments). ``langevin`` holds
    the standard deviations that the sampler itself wants on the gradient (of every step, or one
    number if all are the same), where the step sizes are public numbers; where they follow from the
    setup, noise is at least ``noise_multiplier`` and may only be larger than what is accounted.
    """

    n_samples: int
    batch_size: float
    n_steps: int
    subsampling: Sampling
    adjacency: Adjacency
    clip_norm: float
    noise_multiplier: float
    setup: tuple[PrivacyEvent, ...] = ()
    langevin: np.ndarray | None = field(default=None, compare=False)
    private: bool = True
    noise: Noise = NO_NOISE
    """Least noise that a step adds to its sum of clipped gradients."""

    @property
    def sampling_rate(self) -> float:
        """Probability of a record to be in a batch."""
        return self.batch_size / self.n_samples

    def noise_multipliers(self) -> np.ndarray:
        """Noise multiplier of every step, as accounted; one number if all are the same."""
        needed = np.array([self.noise_multiplier])
        if self.langevin is None:
            return needed
        return np.maximum(needed, self.langevin * self.sampling_rate / self.clip_norm)

    @cached_property
    def event(self) -> PrivacyEvent:
        """Everything that is released: setup and chain."""
        if not self.private:
            return privacy.NoPrivacy()
        sampling = (self.sampling_rate, self.subsampling, self.adjacency)
        chain = _chain_event(self.noise_multipliers(), self.n_steps, *sampling)
        return privacy.compose([*self.setup, chain])

    def batches(
        self, generator: np.random.Generator, count: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Draw the next ``count`` batches; None if all records are in every one.

        Batch t is ``rows[starts[t]:starts[t + 1]]`` of the pair (rows, starts).
        """
        if self.batch_size == self.n_samples:
            return None
        if self.subsampling == "poisson":
            return randomness.poisson_subsets(generator, self.n_samples, self.sampling_rate, count)
        return randomness.fixed_subsets(generator, self.n_samples, int(self.batch_size), count)

    @property
    def most_rows(self) -> int:
        """Largest size that a batch can have."""
        return self.n_samples if self.subsampling == "poisson" else int(self.batch_size)

    def noise_scales(self, langevin: np.ndarray, size: int, rounding: float) -> np.ndarray:
        """Standard deviation of the noise on the sum of clipped gradients.

        Of every step, or one number if all are the same.

        Parameters
        ----------
        langevin : ndarray of shape (n_steps,) or (1,)
            What the sampler wants on the estimated gradient of the potential.
        size : int
            Number of coordinates.
        rounding : float
            What rounding adds to the distance of two sums of neighbors.
        """
        wanted = langevin * self.sampling_rate
        if not self.private:
            return wanted
        multipliers = self.noise_multipliers()
        needed = multipliers * (self.clip_norm + rounding) / (1.0 - self._grid(size))
        return np.maximum(needed, wanted)

    def _grid(self, size: int) -> np.ndarray:
        """Distance over clipping norm by which rounding to the grid of a release moves a sum.

        It moves each of the ``size`` coordinates by half a step of the grid, in either data set.
        """
        return self.noise_multipliers() * math.sqrt(size) * 2.0**-NOISE_BITS

    @property
    def gradient_noise(self) -> float:
        """Standard deviation of private noise on the estimated gradient of all losses."""
        if not self.private:
            return 0.0
        return self.noise_multiplier * self.clip_norm / self.sampling_rate

    @property
    def least_noise(self) -> float:
        """Smallest standard deviation, as accounted, of noise on a sum of clipped gradients."""
        return float(self.noise_multipliers().min()) * self.clip_norm if self.private else 0.0

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return {
            "noise_": self.noise,
            "clip_norm_": float(self.clip_norm),
            "n_steps_": self.n_steps,
            "batch_size_": int(self.batch_size),
        }

    def check_grid(self, size: int) -> None:
        """Refuse noise so large that the grid is no longer fine beside a record."""
        if self.private and np.any(self._grid(size) > 0.5):
            raise CalibrationError(
                f"noise of {self.noise_multipliers().max():g} times the clipping norm on {size} "
                "coefficients leaves no room for rounding: raise epsilon, step_size or clip_norm, "
                "or use a smaller model"
            )


def check_delta(delta: float) -> None:
    """Refuse pure privacy."""
    if delta == 0.0:
        raise CalibrationError(
            "delta=0.0: the chain adds Gaussian noise, which has no guarantee at delta=0. Use "
            "delta > 0."
        )


def plan_chain(
    *,
    epsilon: float,
    delta: float,
    n_samples: int,
    batch_size: float,
    n_steps: int,
    subsampling: Sampling,
    adjacency: Adjacency,
    clip_norm: float,
    setup: tuple[PrivacyEvent, ...] = (),
    langevin: np.ndarray | None = None,
) -> ChainPlan:
    """Calibrate the noise of a chain to what the setup leaves of the budget.

    Parameters are the fields of `ChainPlan` and the target.
    """
    if math.isinf(epsilon):
        return ChainPlan(
            n_samples,
            batch_size,
            n_steps,
            subsampling,
            adjacency,
            clip_norm,
            0.0,
            langevin=langevin,
            private=False,
        )
    check_delta(delta)
    noise = _smallest_noise(
        epsilon, delta, n_samples, batch_size, n_steps, subsampling, adjacency, setup
    )
    own = None if langevin is None else langevin * (batch_size / n_samples) / clip_norm
    if own is not None and own.max() > noise:
        rate = batch_size / n_samples
        sampling = (n_steps, rate, subsampling, adjacency)
        noise = _noise_beside(own, noise, epsilon, delta, sampling, setup)
    return ChainPlan(
        n_samples,
        batch_size,
        n_steps,
        subsampling,
        adjacency,
        clip_norm,
        noise,
        setup,
        langevin,
    )


def _chain_event(
    multipliers: np.ndarray,
    n_steps: int,
    rate: float,
    subsampling: Sampling,
    adjacency: Adjacency,
) -> PrivacyEvent:
    if multipliers.min() == multipliers.max():
        step = privacy.SubsampledGaussian(float(multipliers[0]), rate, subsampling, adjacency)
        return privacy.repeat(step, n_steps)
    return privacy.chain_event(multipliers, rate, subsampling, adjacency)


def _gaussian_mu(setup: tuple[PrivacyEvent, ...]) -> float:
    """Total Gaussian DP of the setup, whose releases all are Gaussian."""
    return math.sqrt(sum(event.mu**2 for event in setup))  # type: ignore[attr-defined]


@lru_cache(maxsize=256)
def _smallest_noise(
    epsilon: float,
    delta: float,
    n_samples: int,
    batch_size: float,
    n_steps: int,
    subsampling: Sampling,
    adjacency: Adjacency,
    setup: tuple[PrivacyEvent, ...],
) -> float:
    """Smallest noise multiplier, the same for all steps, beside the setup."""
    rate = batch_size / n_samples
    target = privacy.gdp_mu(epsilon, delta)
    left = math.sqrt(max(target**2 - _gaussian_mu(setup) ** 2, 0.0))
    if left == 0.0:
        raise CalibrationError("the setup leaves nothing of the budget to the chain")
    if rate == 1.0:  # Gaussian mechanisms add up in closed form
        return moved(adjacency) * math.sqrt(n_steps) / left * (1.0 + 1e-12)
    if not setup:
        return privacy.subsampled_noise_multiplier(
            epsilon,
            delta,
            sampling_rate=rate,
            n_steps=n_steps,
            sampling=subsampling,
            adjacency=adjacency,
        )

    def event_of(noise: float) -> PrivacyEvent:
        step = privacy.SubsampledGaussian(noise, rate, subsampling, adjacency)
        return privacy.compose([*setup, privacy.repeat(step, n_steps)])

    guess = privacy.subsampled_noise_multiplier(
        max(privacy.gdp_epsilon(left, delta), 1e-3 * epsilon),
        delta,
        sampling_rate=rate,
        n_steps=n_steps,
        sampling=subsampling,
        adjacency=adjacency,
    )
    return privacy.smallest_noise(event_of, epsilon, delta, guess=guess)


def _noise_beside(
    own: np.ndarray,
    noise: float,
    epsilon: float,
    delta: float,
    sampling: tuple[int, float, Sampling, Adjacency],
    setup: tuple[PrivacyEvent, ...],
) -> float:
    """Smallest noise where steps with much noise of their own leave more budget to the others."""

    def event_of(floor: float) -> PrivacyEvent:
        return privacy.compose([*setup, _chain_event(np.maximum(own, floor), *sampling)])

    if event_of(0.0).epsilon_at(delta) <= epsilon:
        return 0.0  # privacy for free
    return privacy.smallest_noise(event_of, epsilon, delta, guess=noise)
