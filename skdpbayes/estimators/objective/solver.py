"""The part of a private logistic regression that touches data: minimize, blur, release."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from skdpbayes import models, randomness, samplers
from skdpbayes.estimators.objective.plan import ObjectivePlan, Problem

__all__ = ["information", "minimize", "noise_vector"]

# Newton's Hessian of this many parameters takes 18 MB and factors in a fraction of a second
LARGEST_HESSIAN = 1500
# From this many rows on, the first sixteenth of them gives the starting point, to a gradient norm
# of this share of its largest value
PREVIEW_FROM, PREVIEW_PART, PREVIEW_TOLERANCE = 20_000, 16, 1e-4


def minimize(
    X: Any,
    codes: np.ndarray,
    constant: float,
    problem: Problem,
    plan: ObjectivePlan,
    tilt: np.ndarray,
) -> np.ndarray:
    """Minimize the tilted objective until its gradient norm is certainly within tolerance.

    A minimizer beyond the plan's radius is scaled back to it; with that the tolerance holds however
    large the coefficients turn out.
    """
    if float(np.linalg.norm(tilt)) > plan.tilt_norm:
        raise RuntimeError("the noise exceeds 12 standard deviations; fit again.")
    start, hessian = np.zeros(problem.n_parameters), None
    if problem.n_samples >= PREVIEW_FROM:  # a small part of the rows tells roughly where to begin
        rows = problem.n_samples // PREVIEW_PART
        preview = (X[:rows], codes[:rows], constant, problem)
        loose = PREVIEW_TOLERANCE * problem.gradient_norm * rows
        start = _solve(*preview, plan.penalty / PREVIEW_PART, tilt / PREVIEW_PART, start, loose)
        if problem.n_parameters <= LARGEST_HESSIAN:
            # saves a Hessian of all rows where those at the front are like the rest
            hessian = PREVIEW_PART * information(start, *preview)
            hessian[np.diag_indices_from(hessian)] += plan.penalty
    goal = 0.5 * plan.tolerance
    theta = _solve(
        X, codes, constant, problem, plan.penalty, tilt, start, goal, hessian, radius=plan.radius
    )
    return theta * (plan.radius / max(float(np.linalg.norm(theta)), plan.radius))


def _solve(
    X: Any,
    codes: np.ndarray,
    constant: float,
    problem: Problem,
    penalty: float,
    tilt: np.ndarray,
    start: np.ndarray,
    tolerance: float,
    first_hessian: np.ndarray | None = None,
    *,
    radius: float = math.inf,
) -> np.ndarray:
    """Minimize loss + penalty + tilt over these rows to a gradient norm of `tolerance`."""
    shape = (problem.n_outputs, problem.n_features)
    loss_gradient: Any = models.softmax_gradient
    if problem.n_classes == 2:
        loss_gradient = partial(models.logistic_gradient, margin=problem.margin)

    def value_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = loss_gradient(theta.reshape(shape), X, codes, constant)
        value += 0.5 * penalty * float(theta @ theta) + float(tilt @ theta)
        return value, gradient.ravel() + penalty * theta + tilt

    def hessian(theta: np.ndarray) -> np.ndarray:
        curvature = information(theta, X, codes, constant, problem)
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


def information(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float, problem: Problem
) -> np.ndarray:
    """Return the Hessian of the summed loss; without a margin it is the Fisher information."""
    loss_hessian: Any = models.softmax_hessian
    if problem.n_classes == 2:
        loss_hessian = partial(models.logistic_hessian, margin=problem.margin)
    shape = (problem.n_outputs, problem.n_features)
    return np.asarray(loss_hessian(theta.reshape(shape), X, codes, constant)[2])


def noise_vector(generator: np.random.Generator, scale: float, plan: ObjectivePlan) -> np.ndarray:
    """Draw noise of the plan's kind for every parameter; zeros for a scale of 0."""
    if scale == 0.0:
        return np.zeros(plan.n_parameters)
    if plan.two_orthants:
        return np.asarray(randomness.two_orthant_noise(generator, scale, plan.n_parameters))
    if plan.pure:
        return np.asarray(randomness.gamma_ball_noise(generator, scale, plan.n_parameters))
    return np.asarray(randomness.gaussian(generator, scale, plan.n_parameters))
