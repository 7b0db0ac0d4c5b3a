"""Run the samplers of one posterior sample: a plan, data and a generator in, draws out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from skdpbayes import randomness, samplers
from skdpbayes.estimators._ops_plan import LangevinPlan
from skdpbayes.estimators._ops_target import Target, lower_root

__all__ = ["draw_hmc", "draw_langevin", "draw_rejection", "draw_sgnht"]

Progress = Callable[..., Iterable[Any]]

# Rejection evaluates this many proposals at a time.
PROPOSALS = 64
# Hamiltonian Monte Carlo: transitions to tune the step size, then between two draws of one chain.
# In whitened coordinates a trajectory of length pi / 2 nearly forgets its start.
WARMUP = 150
SPACING = 10
TRAJECTORY = np.pi / 2.0
TARGET_ACCEPTANCE = 0.8
MAX_LEAPFROG = 64


def draw_langevin(
    target: Target, plan: LangevinPlan, generator: np.random.Generator, progress: Progress
) -> np.ndarray:
    """Run the certified chain from the prior's mode; return its released states (S, K, d)."""
    batches = _batches(target, plan.n_batches, generator)
    gradients = [
        lambda theta, X=X, codes=codes, scale=scale: target.objective_gradient(
            theta, X, codes, scale
        )
        for X, codes, scale in batches
    ]
    theta = np.zeros(target.shape)
    released = []
    for epochs in plan.epochs:
        for _ in progress(range(epochs), total=epochs, label="epochs"):
            noise = randomness.gaussian(generator, 1.0, (len(gradients), *target.shape))
            theta = samplers.langevin_chain(
                theta,
                gradients,
                noise,
                step_size=plan.step_size,
                temperature=1.0 / plan.inverse_temperature,
                radius=plan.radius,
            )
        released.append(theta)
    return np.stack(released)


def _batches(
    target: Target, n_batches: int, generator: np.random.Generator
) -> list[tuple[Any, np.ndarray, float]]:
    """Split the rows at random (by position alone) into batches scaled to the full sum."""
    n_records = target.X.shape[0]
    if n_batches == 1:
        return [(target.X, target.codes, 1.0)]
    order = generator.permutation(n_records)
    parts = np.array_split(order, n_batches)
    return [(target.X[part], target.codes[part], n_records / part.size) for part in parts]


def draw_hmc(
    target: Target,
    n_draws: int,
    generator: np.random.Generator,
    progress: Progress,
    *,
    n_chains: int = 4,
    n_iterations: int = 200,
    diagnose: bool = False,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Run Hamiltonian chains; return draws (S, K, d), and on request what tells of convergence."""
    chains, acceptance, step_size = hmc_chains(
        target,
        generator,
        progress,
        n_chains=n_chains,
        n_iterations=max(n_iterations, SPACING * -(-n_draws // n_chains)),
    )
    # draws come from all chains in turn, the last states first
    picks = [chains[i % n_chains, -1 - SPACING * (i // n_chains)] for i in range(n_draws)]
    diagnostics: dict[str, Any] = {}
    if diagnose:
        diagnostics = {
            "acceptance": acceptance,
            "step_size": step_size,
            "r_hat": float(samplers.split_r_hat(chains).max()),
            "effective_sample_size": float(samplers.effective_sample_size(chains).min()),
        }
    return np.stack(picks).reshape(n_draws, *target.shape), diagnostics


def hmc_chains(
    target: Target,
    generator: np.random.Generator,
    progress: Progress,
    *,
    n_chains: int,
    n_iterations: int,
    n_warmup: int = WARMUP,
) -> tuple[np.ndarray, float, float]:
    """Return states (n_chains, n_iterations, K d), the mean acceptance and the step size.

    Chains move in step in the coordinates :math:`q` of :math:`\\theta = \\theta_* + L^{-T} q`, with
    :math:`L L^T` the Hessian at the mode, and bounce off the sphere.
    """
    center, ridge = target.mode()
    precision = target.curvature(center, ridge)
    bounded = bool(np.isfinite(target.radius))
    if bounded:
        # no direction is wider than the ball, whose uniform law has variance r^2 / (p + 2)
        precision += (target.dimension + 2.0) / target.radius**2 * np.eye(target.dimension)
    root = lower_root(precision)
    whiten = solve_triangular(root, np.eye(target.dimension), lower=True)

    def to_theta(q: np.ndarray) -> np.ndarray:
        return np.asarray(center + q @ whiten)

    def potential(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = target.potential(to_theta(q))
        return value, slope @ whiten.T

    def gradient(q: np.ndarray) -> np.ndarray:
        return np.asarray(target.potential_gradient(to_theta(q)) @ whiten.T)

    drift = partial(samplers.drift_in_ball, center=center, transform=whiten, radius=target.radius)
    dimension = target.dimension
    start = 0.1 * randomness.gaussian(generator, 1.0, (n_chains, dimension))
    start[~target.in_ball(to_theta(start))] = 0.0  # the mode is in the ball
    state = samplers.hmc_init(start, potential)
    tuning = samplers.StepSizeState.start(1.5 / dimension**0.25)
    states = np.empty((n_chains, n_iterations, dimension))
    accepted = 0.0
    total = n_warmup + n_iterations
    for iteration in progress(range(total), total=total, label="transitions"):
        warm = iteration < n_warmup
        step = float(np.exp(tuning.log_step if warm else tuning.log_step_average))
        # a random length avoids resonance
        length = TRAJECTORY * (0.75 + 0.5 * generator.random())
        state, acceptance = samplers.hmc_step(
            state,
            potential,
            randomness.gaussian(generator, 1.0, (n_chains, dimension)),
            np.log1p(-generator.random(n_chains)),
            step_size=step,
            n_leapfrog=int(np.clip(np.ceil(length / step), 1, MAX_LEAPFROG)),
            inner_gradient=gradient,
            support=lambda q: target.in_ball(to_theta(q)),
            drift=drift if bounded else None,
        )
        if warm:
            tuning = samplers.tune_step_size(tuning, float(acceptance.mean()), TARGET_ACCEPTANCE)
        else:
            states[:, iteration - n_warmup] = to_theta(state.position)
            accepted += float(acceptance.mean()) / n_iterations
    return states, accepted, float(np.exp(tuning.log_step_average))


def draw_rejection(
    target: Target,
    n_draws: int,
    largest_logit: float,
    generator: np.random.Generator,
    rounding: float = 0.0,
) -> np.ndarray:
    """Return exact independent draws (S, K, d); the envelope allows for ``rounding`` of U."""
    center, value, gradient, slack = _lower_tangent(target)
    slack += rounding
    root = target.least_curvature_root(largest_logit)
    if np.isfinite(target.radius):
        slack += samplers.envelope_gap(center, gradient, target.radius)
        origin = center
    else:  # complete the square instead: any center is allowed on the whole space
        shift = solve_triangular(root, gradient, lower=True)
        slack += 0.5 * float(shift @ shift)
        origin = center - solve_triangular(root, shift, lower=True, trans="T")
    found: list[np.ndarray] = []
    while len(found) < n_draws:
        standard = randomness.gaussian(generator, 1.0, (PROPOSALS, target.dimension))
        points = origin + solve_triangular(root, standard.T, lower=True, trans="T").T
        keep = samplers.keep_proposals(
            target.potential_value(points) - value,
            0.5 * np.einsum("ij,ij->i", standard, standard),
            slack,
            # not the logarithm of a 53-bit uniform, which cannot be below -37
            -generator.standard_exponential(PROPOSALS),
        )
        found.extend(points[keep])
    return np.stack(found[:n_draws]).reshape(n_draws, *target.shape)


def _lower_tangent(target: Target) -> tuple[np.ndarray, float, np.ndarray, float]:
    """Return the mode, U there, the gradient of a convex function below U, and the gap between.

    The hinge loss has no gradient at its mode, but the smoothed loss lies below it, by at most half
    the width a record, and has: a width of 1 / (beta n) costs at most half a unit of U.
    """
    if target.loss != "hinge":
        center = target.mode()[0]
        value, gradient = target.potential(center[None])
        return center, float(value[0]), gradient[0], 0.0
    narrow = 1.0 / (target.inverse_temperature * target.X.shape[0])
    smooth = replace(target, loss="smooth_hinge")
    center = smooth.mode()[0]
    while smooth.width > narrow:  # from wide to narrow, each mode near the one before
        smooth = replace(smooth, width=max(narrow, 0.25 * smooth.width))
        center = smooth.mode(center)[0]
    value = target.potential(center[None])[0]
    lower, gradient = smooth.potential(center[None])
    return center, float(value[0]), gradient[0], float(value[0] - lower[0])


def draw_sgnht(
    target: Target,
    n_draws: int,
    smoothness: float,
    generator: np.random.Generator,
    progress: Progress,
    *,
    n_iterations: int,
    n_batches: int,
) -> np.ndarray:
    """Run a thermostat chain per draw on random batches; return the last states (S, K, d)."""
    n_records = target.X.shape[0]
    size = max(1, n_records // n_batches)
    step = 0.25 / np.sqrt(smoothness)
    diffusion = np.sqrt(smoothness)
    rows = np.empty(size, dtype=np.intp)
    draws = []
    for _ in range(n_draws):
        momentum = randomness.gaussian(generator, 1.0, target.shape)
        state = samplers.sgnht_init(np.zeros(target.shape), momentum, diffusion)
        for _ in progress(range(n_iterations), total=n_iterations, label="steps"):
            randomness.fixed_subset(generator, n_records, size, rows)
            gradient = target.objective_gradient(
                state.position, target.X[rows], target.codes[rows], n_records / size
            )
            noise = randomness.gaussian(generator, 1.0, target.shape)
            state = samplers.sgnht_step(
                state,
                target.inverse_temperature * gradient,
                noise,
                step_size=step,
                diffusion=diffusion,
            )
            inside = samplers.project_to_ball(state.position, target.radius)
            if inside is not state.position:  # bounce back from the sphere
                state = state._replace(position=inside, momentum=-state.momentum)
        draws.append(state.position)
    return np.stack(draws)
