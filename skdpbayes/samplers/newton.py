"""Minimizers of smooth strongly convex functions, to a gradient norm that is checked.

Both are globally convergent: a backtracking line search on the function value, and on the gradient
norm once differences of values drown in rounding. They end with a gradient norm at most
``tolerance`` or raise, never with less.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

ValueGradient = Callable[[np.ndarray], tuple[float, np.ndarray]]
SecantPair = tuple[np.ndarray, np.ndarray, float]  # step, gradient's change, 1 / inner product

SUFFICIENT_DECREASE = 1e-4  # of the Armijo rule
# A step that shrinks the gradient this much leaves the old Hessian good enough for another one: a
# new Hessian costs about four gradients, and 0.3^4 is what it would have to beat
FAST_CONTRACTION = 0.3
# Below this share of the value, the predicted decrease is lost in the rounding of a long sum
VALUE_RESOLUTION = 1e-9
SMALLEST_STEP = 2.0**-60
RIDGE = 1e-14  # of the mean diagonal, added where rounding has made a Hessian indefinite
BREAKDOWN = (  # no word about how far it got: that would tell about the data
    "the optimizer could not reach a gradient norm of {tolerance:g}: the objective is numerically "
    "degenerate. Scale the features to data_norm, or use a smaller C"
)


def minimize_newton(
    value_gradient: ValueGradient,
    hessian: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    *,
    tolerance: float,
    radius: float = math.inf,
    first_hessian: np.ndarray | None = None,
    max_steps: int = 1000,
) -> np.ndarray:
    """Minimize by Newton steps with Cholesky factors, reused while the gradient shrinks fast.

    Secant pairs gathered since the last factor correct it, as limited-memory BFGS corrects a
    multiple of the identity.

    Parameters
    ----------
    value_gradient : callable
        Maps a vector to the function's value and gradient there.
    hessian : callable
        Maps a vector to the (positive definite) Hessian there.
    start : ndarray of shape (d,)
        Where to begin.
    tolerance : float
        Bound on the gradient norm of the result, positive.
    radius : float
        For a result of a norm beyond it the bound grows in proportion, as rounding does.
    first_hessian : ndarray of shape (d, d) or None
        A positive definite guess of the Hessian around the minimizer, from which to begin.
    max_steps : int
        Steps after which to give up.

    Returns
    -------
    ndarray of shape (d,)

    Raises
    ------
    RuntimeError
        If rounding keeps the gradient norm above `tolerance`.
    """
    theta = np.array(start, dtype=np.float64)
    value, gradient = value_gradient(theta)
    size, fresh = float(np.linalg.norm(gradient)), False
    factor = None if first_hessian is None else _factor(first_hessian)
    past: list[SecantPair] = []
    for _ in range(max_steps):
        if size <= tolerance * max(1.0, float(np.linalg.norm(theta)) / radius):
            return theta
        if factor is None:
            factor, fresh, past = _factor(hessian(theta)), True, []
        direction = _two_loop(gradient, past, factor)
        found = _line_search(value_gradient, theta, value, gradient, direction)
        if found is None:
            if fresh:
                raise RuntimeError(BREAKDOWN.format(tolerance=tolerance))
            factor = None  # an outdated factor may be to blame
            continue
        _remember(past, found[0] - theta, found[2] - gradient, max_steps)
        theta, value, gradient = found
        before, size = size, float(np.linalg.norm(gradient))
        fresh = False
        if size > FAST_CONTRACTION * before:
            factor = None
    raise RuntimeError(BREAKDOWN.format(tolerance=tolerance))


def _factor(matrix: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky factor, of the matrix plus a multiple of the identity where it has none itself."""
    ridge, mean = 0.0, max(float(np.trace(matrix)) / matrix.shape[0], np.finfo(float).tiny)
    while True:
        raised = matrix if ridge == 0.0 else matrix + ridge * mean * np.eye(matrix.shape[0])
        try:
            factor: tuple[np.ndarray, bool] = cho_factor(raised, lower=True, check_finite=False)
        except LinAlgError:
            if not ridge < 1.0:
                raise
            ridge = max(RIDGE, 10.0 * ridge)
        else:
            return factor


def minimize_lbfgs(
    value_gradient: ValueGradient,
    start: np.ndarray,
    *,
    tolerance: float,
    radius: float = math.inf,
    max_steps: int = 100_000,
    memory: int = 20,
) -> np.ndarray:
    """Minimize by limited-memory BFGS, for dimensions where a Hessian does not fit.

    Parameters
    ----------
    value_gradient, start, tolerance, radius, max_steps
        As in :func:`minimize_newton`.
    memory : int
        Number of past steps kept.

    Returns
    -------
    ndarray of shape (d,)

    Raises
    ------
    RuntimeError
        If rounding keeps the gradient norm above `tolerance`.
    """
    theta = np.array(start, dtype=np.float64)
    value, gradient = value_gradient(theta)
    past: list[SecantPair] = []
    for _ in range(max_steps):
        size = float(np.linalg.norm(gradient))
        if size <= tolerance * max(1.0, float(np.linalg.norm(theta)) / radius):
            return theta
        found = _line_search(value_gradient, theta, value, gradient, _two_loop(gradient, past))
        if found is None:
            if not past:
                raise RuntimeError(BREAKDOWN.format(tolerance=tolerance))
            past.clear()  # start again from steepest descent
            continue
        _remember(past, found[0] - theta, found[2] - gradient, memory)
        theta, value, gradient = found
    raise RuntimeError(BREAKDOWN.format(tolerance=tolerance))


def _remember(past: list[SecantPair], moved: np.ndarray, change: np.ndarray, memory: int) -> None:
    """Append a step and the gradient's change over it; keep the last `memory` of them."""
    inner = float(moved @ change)
    if inner > 0.0:  # strong convexity, up to rounding
        past.append((moved, change, 1.0 / inner))
        del past[:-memory]


def _two_loop(
    gradient: np.ndarray,
    past: list[SecantPair],
    factor: tuple[np.ndarray, bool] | None = None,
) -> np.ndarray:
    """Return the approximate Newton step (Nocedal and Wright, Algorithm 7.4).

    The pairs correct the Hessian of `factor`, or without it a multiple of the identity.
    """
    direction = gradient.copy()
    if not past and factor is None:
        return direction / max(1.0, float(np.linalg.norm(gradient)))
    weights = []
    for moved, change, inverse in reversed(past):
        weight = inverse * float(moved @ direction)
        direction -= weight * change
        weights.append(weight)
    if factor is not None:
        direction = cho_solve(factor, direction, check_finite=False)
    else:
        moved, change, inverse = past[-1]
        direction /= inverse * float(change @ change)
    for (moved, change, inverse), weight in zip(past, reversed(weights), strict=True):
        direction += (weight - inverse * float(change @ direction)) * moved
    return direction


def _line_search(
    value_gradient: ValueGradient,
    theta: np.ndarray,
    value: float,
    gradient: np.ndarray,
    direction: np.ndarray,
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Step against `direction`, halving until value or (near the end) gradient norm falls."""
    slope = float(gradient @ direction)
    if not slope > 0.0:
        return None
    size = float(np.linalg.norm(gradient))
    near = slope <= VALUE_RESOLUTION * (1.0 + abs(value))
    length = 1.0
    while length >= SMALLEST_STEP:
        trial = theta - length * direction
        new_value, new_gradient = value_gradient(trial)
        if np.isfinite(new_value):
            falls = new_value <= value - SUFFICIENT_DECREASE * length * slope
            if falls or (near and np.linalg.norm(new_gradient) < size):
                return trial, new_value, new_gradient
        length *= 0.5
    return None
