r"""Hamiltonian Monte Carlo for chains that move in step, with the step size tuned on the way.

The state is a set of points with their potentials and gradients. One transition refreshes the
momenta, makes ``n_leapfrog`` leapfrog steps and accepts each chain's end point with probability
:math:`\min(1, e^{-\Delta H})` (Neal 2011). End points outside the support are never accepted, which
keeps the target exact on a convex set; `drift_in_ball` lets trajectories bounce off the sphere of a
ball, so that few end outside.

The caller works in coordinates in which the target is nearly a standard normal, so the mass is the
identity and a trajectory of length :math:`\pi/2` forgets where it started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Gradient = Callable[[np.ndarray], np.ndarray]
Potential = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
Drift = Callable[[np.ndarray, np.ndarray, float], tuple[np.ndarray, np.ndarray]]

# A drift that meets the sphere more often is given up; its way back is given up too.
MAX_BOUNCES = 64


class HMCState(NamedTuple):
    """Where the chains are.

    Attributes
    ----------
    position : ndarray of shape (S, p)
        The points.
    potential : ndarray of shape (S,)
        Their potentials.
    gradient : ndarray of shape (S, p)
        The gradients of the potential there.
    """

    position: np.ndarray
    potential: np.ndarray
    gradient: np.ndarray


class StepSizeState(NamedTuple):
    """Dual averaging of the logarithm of the step size (Hoffman and Gelman 2014, section 3.2).

    Attributes
    ----------
    log_step : float
        Logarithm of the next step to try.
    log_step_average : float
        Logarithm of the step to keep.
    error_average : float
        Average of target minus acceptance.
    n_updates : int
        Number of transitions seen.
    anchor : float
        Where the logarithm is pulled to.
    """

    log_step: float
    log_step_average: float
    error_average: float
    n_updates: int
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
    drift: Drift | None = None,
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
    drift : callable or None
        Points, momenta and a time to the points and momenta after free motion for that time; it
        must preserve volume and be undone by reversing the momenta. None: straight lines.

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
        if drift is None:
            position = position + step_size * momentum
        else:
            position, momentum = drift(position, momentum, step_size)
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


def drift_in_ball(
    position: np.ndarray,
    momentum: np.ndarray,
    time: float,
    *,
    center: np.ndarray,
    transform: np.ndarray,
    radius: float,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Move along straight lines, reflected where :math:`\theta = c + W^\top q` meets the sphere.

    The motion preserves volume and kinetic energy and is reversible, so Hamiltonian Monte Carlo
    with it is exact (Afshar and Domke 2015).

    Parameters
    ----------
    position, momentum : ndarray of shape (S, p)
        Points q whose :math:`\theta` lie in the ball, and their velocities.
    time : float
        How long to move.
    center, transform : ndarray of shape (p,) and (p, p)
        c and W.
    radius : float
        Of the ball.

    Returns
    -------
    position, momentum : ndarray of shape (S, p)
        A point that met the sphere more than 64 times is NaN, which is never accepted.
    """
    moved = position + time * momentum
    theta = center + moved @ transform
    outside = np.einsum("ij,ij->i", theta, theta) > radius**2
    if outside.any():
        momentum = momentum.copy()
        for chain in np.flatnonzero(outside):
            moved[chain], momentum[chain] = _bounce(
                position[chain], momentum[chain], time, center, transform, radius
            )
    return moved, momentum


def _bounce(
    q: np.ndarray, p: np.ndarray, time: float, center: np.ndarray, W: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Follow one point from reflection to reflection."""
    for _ in range(MAX_BOUNCES):
        theta, velocity = center + q @ W, p @ W
        # |theta + t velocity|^2 = r^2: the later root is where the point leaves
        square, product = velocity @ velocity, theta @ velocity
        depth = max(0.0, radius**2 - theta @ theta)
        root = np.sqrt(product**2 + square * depth)
        hit = depth / (product + root) if product > 0.0 else (root - product) / square
        if hit >= time:
            return q + time * p, p
        q, time = q + hit * p, time - hit
        normal = W @ (center + q @ W)
        p = p - 2.0 * (p @ normal) / (normal @ normal) * normal
    return np.full_like(q, np.nan), p


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
    count = tuning.n_updates + 1
    weight = 1.0 / (count + 10.0)  # t0 = 10
    error = (1.0 - weight) * tuning.error_average + weight * (target - acceptance)
    log_step = tuning.anchor - np.sqrt(count) / 0.05 * error  # gamma = 0.05
    forget = count**-0.75  # kappa = 0.75
    average = forget * log_step + (1.0 - forget) * tuning.log_step_average
    return StepSizeState(float(log_step), float(average), float(error), count, tuning.anchor)
