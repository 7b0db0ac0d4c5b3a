"""The part of a private logistic regression that touches data: minimize, blur, release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdpbayes import models, randomness, samplers
from skdpbayes.estimators.linear.blocks import summed_derivatives
from skdpbayes.estimators.objective.plan import ObjectivePlan, Problem
from skdpbayes.fitting.chunks import Prepared
from skdpbayes.fitting.records import Block

# Newton's Hessian of this many parameters takes 18 MB and factors in a fraction of a second
LARGEST_HESSIAN = 1500
# From this many rows on, about a sixteenth of them, or less if that would be more rows than the
# last number, gives the starting point, to a gradient norm of this share of its largest value
PREVIEW_FROM, PREVIEW_PART, PREVIEW_TOLERANCE, PREVIEW_MOST = 20_000, 16, 1e-4, 1 << 17


def minimize(data: Any, problem: Problem, plan: ObjectivePlan, tilt: np.ndarray) -> np.ndarray:
    """Minimize the tilted objective until its gradient norm is certainly within tolerance.

    ``data`` is a block of bounded rows, or rows in chunks made ready by `cut_blocks`. A minimizer
    beyond the plan's radius is scaled back to it; with that the tolerance holds however large the
    coefficients turn out. Neither the order of the rows nor chunks nor the number of threads
    changes a bit of the result.
    """
    if float(np.linalg.norm(tilt)) > plan.tilt_norm:
        raise RuntimeError("the noise exceeds 12 standard deviations; fit again.")
    start, hessian = np.zeros(problem.n_parameters), None
    few = _preview(data, problem)
    if few is not None:  # a small part of the rows tells roughly where to begin
        size = _size(few)
        share = problem.n_records / size
        loose = PREVIEW_TOLERANCE * problem.gradient_norm * size
        start = _solve(few, problem, plan.penalty / share, tilt / share, start, loose)
        if problem.n_parameters <= LARGEST_HESSIAN:
            # saves a Hessian of all rows
            hessian = share * information(start, few, problem)
            hessian[np.diag_indices_from(hessian)] += plan.penalty
    goal = 0.5 * plan.tolerance
    theta = _solve(
        data, problem, plan.penalty, tilt, start, goal, first_hessian=hessian, radius=plan.radius
    )
    return theta * (plan.radius / max(float(np.linalg.norm(theta)), plan.radius))


def _preview(data: Any, problem: Problem) -> Block | None:
    """Choose rows by what they contain, so that their order does not matter; None for none."""
    n = problem.n_records
    if n < PREVIEW_FROM:
        return None
    part = max(PREVIEW_PART, n // PREVIEW_MOST)
    few = (
        data.records.pick(_chosen, problem.grid, part)
        if isinstance(data, Prepared)
        else Block(*(_taken(field, _chosen(data.X, problem.grid, part)) for field in data))
    )
    # rows that are all alike are chosen or left out together
    return few if problem.n_parameters < few.X.shape[0] and _size(few) < n // 4 else None


def _size(few: Block) -> float:
    """Number of units: of rows, or what their weights add up to."""
    return few.X.shape[0] if few.weight is None else float(few.weight.sum())


def _chosen(X: Any, grid: Any, part: int) -> np.ndarray:
    return np.flatnonzero(models.row_keys(X, grid) % part == 0)


def _taken(values: Any, rows: np.ndarray) -> Any:
    return None if values is None else values[rows]


def _solve(
    data: Any,
    problem: Problem,
    penalty: float,
    tilt: np.ndarray,
    start: np.ndarray,
    tolerance: float,
    *,
    first_hessian: np.ndarray | None = None,
    radius: float = math.inf,
) -> np.ndarray:
    """Minimize loss + penalty + tilt over these rows to a gradient norm of `tolerance`."""

    def value_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, _ = _derivatives(theta, data, problem, (0, 1))
        value += 0.5 * penalty * float(theta @ theta) + float(tilt @ theta)
        return value, gradient.ravel() + penalty * theta + tilt

    def hessian(theta: np.ndarray) -> np.ndarray:
        curvature = information(theta, data, problem)
        curvature[np.diag_indices_from(curvature)] += penalty
        return curvature

    if problem.n_parameters <= LARGEST_HESSIAN:
        theta = samplers.minimize_newton(
            value_gradient,
            hessian,
            start,
            tolerance=tolerance,
            radius=radius,
            first_hessian=first_hessian,
        )
    else:
        theta = samplers.minimize_lbfgs(value_gradient, start, tolerance=tolerance, radius=radius)
    return np.asarray(theta)


def _derivatives(
    theta: np.ndarray, data: Any, problem: Problem, orders: tuple[int, ...]
) -> tuple[Any, Any, Any]:
    """Value, gradient or Hessian of the summed loss, as asked for."""
    table = theta.reshape(problem.n_outputs, problem.n_features)
    how = (table, problem.loss, orders, problem.constant, problem.grid)
    if isinstance(data, Prepared):
        total = data.total(summed_derivatives, how)
    else:
        total = models.derivatives(data, *how)
    return models.read_derivatives(total, *how)


def information(theta: np.ndarray, data: Any, problem: Problem) -> np.ndarray:
    """Return the Hessian of the summed loss; without a margin it is the Fisher information."""
    return np.asarray(_derivatives(theta, data, problem, (2,))[2])


def noise_vector(generator: np.random.Generator, scale: float, plan: ObjectivePlan) -> np.ndarray:
    """Draw noise of the plan's kind for every parameter; zeros for a scale of 0."""
    if scale == 0.0:
        return np.zeros(plan.n_parameters)
    if plan.two_orthants:
        return np.asarray(randomness.two_orthant_noise(generator, scale, plan.n_parameters))
    if plan.pure:
        return np.asarray(randomness.gamma_ball_noise(generator, scale, plan.n_parameters))
    return np.asarray(randomness.gaussian(generator, scale, plan.n_parameters))
