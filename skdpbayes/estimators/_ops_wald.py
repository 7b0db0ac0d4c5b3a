"""Confidence intervals from a released draw, by the law of the draw around the truth."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, t

__all__ = ["student_bounds", "wald_bounds"]


def wald_bounds(
    draw: np.ndarray,
    information: np.ndarray,
    *,
    C: float,
    inverse_temperature: float,
    level: float,
    n_draws: int = 1,
    step_size: float | None = None,
    n_steps: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Lower and upper bounds for every coefficient.

    Let *H* be the Fisher information of all records, with eigenvalues :math:`h`, and
    :math:`\lambda = 1/C`. Around the true coefficients the penalized estimate has mean
    :math:`h/(h+\lambda)` and variance :math:`h/(h+\lambda)^2` along an eigenvector, and a draw adds
    :math:`1/(\beta(h+\lambda))`: with a flat prior the total is :math:`(1 + 1/\beta) / h` (Wang et
    al. 2015, Proposition 9; Minami et al. 2016, Theorem 16). The *t*-th Langevin iterate from 0 has
    instead, with :math:`a = 1 - \gamma(h+\lambda)`, the mean :math:`(1-a^t)` times that and the
    added variance :math:`2\gamma\beta^{-1}(1-a^{2t})/(1-a^2)`. Dividing by the mean's factor undoes
    the shrinkage; a direction without information gets an infinite interval.

    Parameters
    ----------
    draw : ndarray of shape (p,)
        The released coefficients, or the mean of several independent draws.
    information : ndarray of shape (p, p)
        H.
    C, inverse_temperature : float
        Of the sampled density.
    level : float
        Coverage.
    n_draws : int
        How many draws ``draw`` is the mean of; 1 for a chain's state.
    step_size, n_steps : float and int, or None
        The chain's schedule; None for an exact draw.

    Returns
    -------
    lower, upper : ndarray of shape (p,)
    """
    h, vectors = np.linalg.eigh(information)
    h = np.maximum(h, 0.0)
    total = h + 1.0 / C
    shrinkage, variance = h / total, h / total**2
    if step_size is None or n_steps is None:
        added = 1.0 / (n_draws * inverse_temperature * total)
    else:
        a = 1.0 - step_size * total
        reached = 1.0 - a**n_steps
        shrinkage, variance = reached * shrinkage, reached**2 * variance
        added = 2.0 * step_size / inverse_temperature * (1.0 - a ** (2 * n_steps)) / (1.0 - a * a)
    informed = shrinkage > 1e-9
    factor = np.where(informed, 1.0 / np.where(informed, shrinkage, 1.0), 0.0)
    center = vectors @ (factor * (vectors.T @ draw))
    spread = factor**2 * (variance + added)
    width = norm.ppf(0.5 + 0.5 * level) * np.sqrt((vectors**2) @ spread)
    blind = (vectors[:, ~informed] ** 2).sum(axis=1) > 1e-12
    width[blind] = np.inf
    return center - width, center + width


def student_bounds(
    draws: np.ndarray, inverse_temperature: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Bounds from k independent draws, whose own scatter stands in for the information.

    Under a weak prior a coefficient's draws have variance :math:`v = 1/(\beta h)` around an
    estimate that has variance :math:`1/h = \beta v` around the truth, so the mean of k draws is off
    by :math:`v (1/k + \beta)`; with v estimated from the same draws the law is Student's with k - 1
    degrees of freedom.

    Parameters
    ----------
    draws : ndarray of shape (k, p)
        Released draws, k >= 2.
    inverse_temperature, level : float
        Of the sampled density, and the coverage.

    Returns
    -------
    lower, upper : ndarray of shape (p,)
    """
    k = draws.shape[0]
    center, variance = draws.mean(axis=0), draws.var(axis=0, ddof=1)
    quantile = t.ppf(0.5 + 0.5 * level, k - 1)
    half = quantile * np.sqrt(variance * (1.0 / k + inverse_temperature))
    return center - half, center + half
