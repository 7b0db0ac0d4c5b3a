r"""Hamiltonian Monte Carlo for chains that move in step, with the step size tuned on the way.

The state is a set of points with their potentials and gradients. One transition refreshes the
momenta, makes ``n_leapfrog`` leapfrog steps and accepts each chain's end point with probability
:math:`\min(1, e^{-\Delta H})` (Neal 2011). End points outside the support are never accepted, which
keeps the target exact on a ball.

The caller works in coordinates in which the target is nearly a standard normal, so the mass is the
identity and a trajectory of length :math:`\pi/2` forgets where it started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["HMCState", "StepSizeState", "hmc_init", "hmc_step", "tune_step_size"]

Gradient = Callable[[np.ndarray], np.ndarray]
Potential = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class HMCState(NamedTuple):
    """Points of shape (S, p), their potentials (S,) and gradients (S, p)."""

    position: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray


class StepSizeState(NamedTuple):
    """Dual averaging of the logarithm of the step size (Hoffman and Gelman 2014, section 3.2)."""

    log_step: float
    log_step_average: float
    error_average: float
    count: int
    anchor: float

    @classmethod
    def start(cls, step_size: float) -> StepSizeState:
        """Start from a guess; the anchor is ten times the guess, as in the paper."""
        return cls(float(np.log(step_size)), 0.0, 0.0, 0, float(np.log(10.0 * step_size)))


def hmc_init(position: np.ndarray, potential: Potential) -> HMCState:
    """Evaluate the potential and its gradient at the first points."""
    value, gradient = potential(position)
    return HMCState(position, value, gradient)


def hmc_step(
    state: HMCState,
    potential: Potential,
    momentum: np.ndarray,
    log_uniform: np.ndarray,
    *,
    step_size: float,
    n_leapfrog: int,
    inner_gradient: Gradient | None = None,
    support: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[HMCState, np.ndarray]:
    """Make one transition of every chain.

    Parameters
    ----------
    state : HMCState
        Where the chains are.
    potential : callable
        Points (S, p) to potentials (S,) and gradients (S, p).
    momentum : ndarray of shape (S, p)
        Standard normal.
    log_uniform : ndarray of shape (S,)
        Logarithms of uniforms that decide acceptance.
    step_size : float
        Leapfrog step.
    n_leapfrog : int
        Number of leapfrog steps.
    inner_gradient : callable or None
        Points to gradients, for all points of a trajectory but the last, where the potential itself
        is not needed; None uses ``potential``.
    support : callable or None
        Points to booleans: whether each lies in the support of the target. None: all do.

    Returns
    -------
    state : HMCState
    acceptance : ndarray of shape (S,)
        Probability with which the energy of each end point is accepted. The support is left out of
        it: leaving it depends on the length of a trajectory, not on the step size to be tuned.
    """
    position, value, gradient = state
    energy = value + 0.5 * np.einsum("ij,ij->i", momentum, momentum)
    momentum = momentum - 0.5 * step_size * gradient
    for leap in range(n_leapfrog):
        position = position + step_size * momentum
        last = leap == n_leapfrog - 1
        if last or inner_gradient is None:
            value, gradient = potential(position)
        else:
            gradient = inner_gradient(position)
        momentum = momentum - (0.5 if last else 1.0) * step_size * gradient
    end_energy = value + 0.5 * np.einsum("ij,ij->i", momentum, momentum)
    with np.errstate(invalid="ignore", over="ignore"):
        log_ratio = np.where(np.isfinite(end_energy), energy - end_energy, -np.inf)
        acceptance = np.exp(np.minimum(0.0, log_ratio))
    accept = log_uniform < log_ratio
    if support is not None:
        accept &= support(position)
    new = HMCState(
        np.where(accept[:, None], position, state.position),
        np.where(accept, value, state.potential),
        np.where(accept[:, None], gradient, state.gradient),
    )
    return new, acceptance


def tune_step_size(tuning: StepSizeState, acceptance: float, target: float = 0.8) -> StepSizeState:
    """Move the step size toward the target acceptance (Hoffman and Gelman 2014, Algorithm 5).

    Parameters
    ----------
    tuning : StepSizeState
        State of the dual averaging; ``exp(log_step)`` is the next step to try and
        ``exp(log_step_average)`` the one to keep.
    acceptance : float
        Mean acceptance probability of the last transition.
    target : float
        Wanted acceptance.

    Returns
    -------
    StepSizeState
    """
    count = tuning.count + 1
    weight = 1.0 / (count + 10.0)  # t0 = 10
    error = (1.0 - weight) * tuning.error_average + weight * (target - acceptance)
    log_step = tuning.anchor - np.sqrt(count) / 0.05 * error  # gamma = 0.05
    forget = count**-0.75  # kappa = 0.75
    average = forget * log_step + (1.0 - forget) * tuning.log_step_average
    return StepSizeState(float(log_step), float(average), float(error), count, tuning.anchor)
