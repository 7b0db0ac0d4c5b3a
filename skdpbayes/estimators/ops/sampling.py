"""Run the samplers of one posterior sample: a density on data and a generator in, draws out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from skdpbayes import randomness, samplers
from skdpbayes.estimators.ops.target import Batch, ChunkBatch, Target, batch_size, lower_root
from skdpbayes.fitting.records import Block

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
# Width of the kink at which the mode of the hinge loss is found, times the root of n.
HINGE_WIDTH = 0.1
# Newton's Hessian of more coefficients costs more than the many gradients that L-BFGS needs.
LARGEST_NEWTON = 500
# Above this many coefficients a Hessian is too large.
LARGEST_HESSIAN = 3000
# Fixed-point steps of `_hinge_precision`, each of which about halves the error; rows at a time.
AVERAGINGS, ROWS_AT_ONCE = 8, 1 << 14


def draw_langevin(
    target: Target,
    generator: np.random.Generator,
    progress: Progress,
    *,
    step_size: float,
    batches: list[Batch],
    epochs: tuple[int, ...],
) -> np.ndarray:
    """Run the certified chain from the prior's mode; return its released states (S, K, d).

    Each step reads one of the batches, scaled to the sum over all records.
    """
    n_rows = [batch_size(batch) for batch in batches]
    scales = [sum(n_rows) / size for size in n_rows]
    gradients = [
        lambda theta, batch=batch, scale=scale: target.objective_gradient(theta, batch, scale)
        for batch, scale in zip(batches, scales, strict=True)
    ]
    theta = np.zeros(target.shape)
    released = []
    for count in epochs:
        for _ in progress(range(count), total=count, label="epochs"):
            noise = randomness.gaussian(generator, 1.0, (len(gradients), *target.shape))
            theta = samplers.langevin_chain(
                theta,
                gradients,
                noise,
                step_size=step_size,
                temperature=1.0 / target.inverse_temperature,
                radius=target.radius,
            )
        released.append(theta)
    return np.stack(released)


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


def tangent_width(width: float, inverse_temperature: float, n_records: int) -> float:
    """Width over which a loss without curvature is smoothed below the density of rejection."""
    return min(width, 1.0 / (inverse_temperature * n_records))


def _lower_tangent(target: Target) -> tuple[np.ndarray, float, np.ndarray, float]:
    """Return the mode, U there, the gradient of a convex function below U, and the gap between.

    The hinge loss has no gradient at its mode, but the smoothed loss lies below it, by at most half
    the width per record, and has: a width of 1 / (beta n) costs at most half a unit of U. A loss
    that is smooth itself is its own lower bound.
    """
    width = tangent_width(target.width, target.inverse_temperature, target.n_records)
    narrowed = replace(target, width=width)
    center = narrowed.mode()[0]
    value = target.potential(center[None])[0]
    lower, gradient = narrowed.smooth.potential(center[None])
    return center, float(value[0]), gradient[0], float(value[0] - lower[0])


def find_mode(target: Target) -> np.ndarray:
    """Return the mode, flat.

    The hinge loss is smoothed over a width at which U changes by far less than a posterior's own
    spread of U, about 1/2 a coefficient: n times the density of margins there (below 1 for rows of
    norm 1 that are not all alike) times the width squared, over 6.
    """
    width = min(target.width, HINGE_WIDTH / np.sqrt(target.n_records))
    target = replace(target, width=width)
    if target.dimension <= LARGEST_NEWTON:
        return target.mode()[0]
    return _lbfgs_mode(target)


def normal_root(target: Target, mode: np.ndarray) -> np.ndarray | None:
    """Return the Cholesky factor of the precision of a normal law around the mode.

    It is the Hessian of U there or, of the hinge loss, which has none, its average over that normal
    law itself. None if there are too many coefficients.
    """
    kinked = math.isinf(target.loss.curvature[1])
    if target.dimension > (LARGEST_NEWTON if kinked else LARGEST_HESSIAN):
        return None
    precision = target.curvature(mode, 1.0 / target.C)
    if kinked:
        precision = _hinge_precision(target, mode, precision)
    return lower_root(precision)


def _hinge_precision(target: Target, mode: np.ndarray, precision: np.ndarray) -> np.ndarray:
    r"""Solve :math:`P = I/C + \sum_i \phi_{s_i}(1 - y_i z_i) x_i x_i^T`, s_i^2 = x_i^T P^{-1} x_i.

    The second derivative of the hinge loss is a point mass at the kink; its average over margins of
    mean :math:`y_i z_i` and standard deviation s_i is the normal density there. This is the best
    normal approximation in Kullback-Leibler divergence that has the mode as its mean (Opper and
    Archambeau 2009).
    """
    assert not isinstance(target.blocks, ChunkBatch)
    for _ in range(AVERAGINGS):
        covariance = cho_solve((lower_root(precision), True), np.eye(mode.size))
        precision = np.eye(mode.size) / target.C
        for rows, codes, share in _pieces(target.blocks):
            if target.constant:
                rows = np.column_stack([rows, np.full(rows.shape[0], target.constant)])
            scale = np.sqrt(np.einsum("ij,ij->i", rows @ covariance, rows))
            scale = np.maximum(scale, np.finfo(float).tiny)
            gap = (1.0 - (2.0 * codes - 1.0) * (rows @ mode)) / scale
            near = np.abs(gap) < 8.0
            rows, scale, gap = rows[near], scale[near], gap[near]
            weight = np.exp(-0.5 * gap * gap) / (np.sqrt(2.0 * np.pi) * scale)
            if share is not None:
                weight *= share[near]
            precision += (rows * weight[:, None]).T @ rows
    return precision


def _pieces(
    blocks: tuple[Block, ...],
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield dense rows, their codes and weights, a few at a time."""
    for X, codes, weight in blocks:
        assert codes is not None
        for start in range(0, X.shape[0], ROWS_AT_ONCE):
            rows = X[start : start + ROWS_AT_ONCE]
            rows = rows.toarray() if sparse.issparse(rows) else rows
            part = slice(start, start + ROWS_AT_ONCE)
            yield rows, codes[part], None if weight is None else weight[part]


def _lbfgs_mode(target: Target) -> np.ndarray:
    """Minimize U without a Hessian, the hinge loss smoothed over its width."""
    smooth = target.smooth

    def value_slope(point: np.ndarray) -> tuple[float, np.ndarray]:
        values, slopes = smooth.potential(point[None])
        return float(values[0]), slopes[0]

    found = minimize(
        value_slope,
        np.zeros(target.dimension),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-12, "gtol": 1e-6, "maxcor": 20},
    )
    return np.asarray(found.x)
