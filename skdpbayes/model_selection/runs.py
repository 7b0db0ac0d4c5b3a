"""The runs of a private search and the draw of their number."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skdpbayes.privacy.mechanisms.repetition import negative_binomial_gamma

__all__ = ["Run", "draw_number_of_runs", "take_rows"]


class Run(NamedTuple):
    """One fit and its score; only the winner's leaves the search."""

    candidate: int
    fitted: Any
    total: int
    warnings: tuple[tuple[str, type[Warning]], ...] = ()


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array, sparse matrix, frame or list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    if hasattr(X, "shape"):
        return X[rows]
    return [X[row] for row in rows]


def draw_number_of_runs(generator: np.random.Generator, mean: float, shape: float) -> int:
    r"""Draw *K*, Poisson (``shape=inf``) or truncated negative binomial.

    The latter has :math:`P(k+1)/P(k) = (1-\gamma)(k+\eta)/(k+1)` from :math:`k = 1` on.
    """
    if math.isinf(shape):
        return int(generator.poisson(mean))
    gamma = negative_binomial_gamma(shape, mean)
    if gamma == 1.0:
        return 1
    if abs(shape) < 1e-12:
        mass = (1.0 - gamma) / -math.log(gamma)
    else:
        mass = (1.0 - gamma) * shape * gamma**shape / -math.expm1(shape * math.log(gamma))
    remaining, k = generator.random(), 1
    while remaining >= mass and mass > 1e-300:
        remaining -= mass
        mass *= (1.0 - gamma) * (k + shape) / (k + 1)
        k += 1
    return k
