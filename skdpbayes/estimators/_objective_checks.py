"""Combinations of parameters that a private logistic regression refuses, and what would do."""

from __future__ import annotations

import math

from skdpbayes.estimators._objective_plan import curvature_limit
from skdpbayes.estimators._objective_problem import Problem
from skdpbayes.exceptions import CalibrationError

__all__ = ["check_information", "check_margin", "check_published", "check_reachable"]

# The released information matrix is squared memory too, and its noise drowns it long before
LARGEST_INFORMATION = 3000


def check_reachable(
    problem: Problem, C: float, method: str, calibration: str, inference_budget: float
) -> None:
    """Raise if no noise makes this C private, and say which C would do."""
    if method == "output" or math.isinf(problem.epsilon) or calibration == "chaudhuri2011":
        return
    limit = curvature_limit(problem, calibration, inference_budget)
    if problem.record_norm**2 * C >= limit:
        raise CalibrationError(
            f"C={C:g} cannot meet epsilon={problem.epsilon:g} with calibration={calibration!r}: "
            f"the curvature of one record alone costs more. Use C <= "
            f"{0.5 * limit / problem.record_norm**2:.4g} (half the limit), a larger epsilon, or "
            'C="auto".'
        )


def check_published(problem: Problem, method: str, calibration: str) -> None:
    """Raise if a published calibration does not cover what is asked of it."""
    if problem.n_classes > 2:
        raise ValueError(
            f"calibration={calibration!r} is published for two classes; the label set "
            f'has {problem.n_classes}. Use calibration="tight".'
        )
    if method == "output":
        raise ValueError(
            f'calibration={calibration!r} does not apply to method="output"; use '
            'calibration="tight".'
        )
    pure = calibration == "chaudhuri2011"
    if pure and problem.delta > 0.0:
        raise ValueError(
            f'calibration="chaudhuri2011" is pure: set delta=0, or use "tight"; got delta='
            f"{problem.delta!r}."
        )
    if not pure and problem.delta == 0.0:
        raise ValueError(
            f"calibration={calibration!r} needs delta > 0; got delta=0. Use "
            'calibration="tight" or "chaudhuri2011" for pure privacy.'
        )


def check_margin(problem: Problem, inference_budget: float) -> None:
    """Raise if a margin meets what only the likelihood serves."""
    if problem.margin == 0.0:
        return
    if problem.n_classes > 2:
        raise ValueError(
            f"margin={problem.margin:g} is for two classes; the label set has "
            f"{problem.n_classes}. Use margin=0."
        )
    if inference_budget > 0.0:
        raise ValueError(
            f"margin={problem.margin:g} replaces the likelihood, which intervals rest on: set "
            f"inference_budget=0, or margin=0; got inference_budget={inference_budget:g}."
        )


def check_information(problem: Problem, inference_budget: float) -> None:
    """Raise if the information matrix would be too large to release."""
    if inference_budget > 0.0 and problem.n_parameters > LARGEST_INFORMATION:
        raise ValueError(
            f"inference_budget={inference_budget:g} would release the information matrix "
            f"of {problem.n_parameters} parameters, more than {LARGEST_INFORMATION}; set "
            "inference_budget=0, or reduce the number of features."
        )
