"""Continuous noise, for the inside of algorithms whose output is snapped or proven otherwise.

These draws are doubles. Their low-order bits are not those of the real distribution, so a value
that leaves the library goes through `skdpbayes.randomness.release` instead (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Size = int | tuple[int, ...]


def _check_scale(scale: float) -> float:
    scale = float(scale)
    if not (0.0 < scale < np.inf):
        raise ValueError(f"scale must be positive and finite, got {scale!r}.")
    return scale


def _log_gamma(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([math.lgamma(value) for value in values])


def _check_dimension(d: int) -> None:
    if d < 1:
        raise ValueError(f"d must be at least 1, got {d!r}.")


def gaussian(generator: np.random.Generator, scale: float, size: Size) -> npt.NDArray[np.float64]:
    """Draw centered normal noise with standard deviation `scale`.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        Standard deviation, positive.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    ndarray of float64
    """
    scale = _check_scale(scale)
    noise = generator.standard_normal(size)
    noise *= scale
    return noise


def laplace(generator: np.random.Generator, scale: float, size: Size) -> npt.NDArray[np.float64]:
    """Draw centered Laplace noise with density proportional to ``exp(-abs(x) / scale)``.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        Mean absolute value, positive.
    size : int or tuple of int
        Shape of the result.

    Returns
    -------
    ndarray of float64
    """
    return np.asarray(generator.laplace(0.0, _check_scale(scale), size), dtype=np.float64)


def gamma_ball_noise(
    generator: np.random.Generator, scale: float, d: int
) -> npt.NDArray[np.float64]:
    r"""Draw a vector of `d` reals with density proportional to ``exp(-norm(b) / scale)``.

    The sphere of radius :math:`r` has area proportional to :math:`r^{d-1}`, so the Euclidean norm
    of the vector is Gamma(d, scale) and its direction is uniform and independent (Chaudhuri,
    Monteleoni & Sarwate, "Differentially private empirical risk minimization", JMLR 2011,
    Algorithm 2).

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        Positive.
    d : int
        Dimension, at least 1.

    Returns
    -------
    ndarray of float64, shape (d,)
    """
    scale = _check_scale(scale)
    _check_dimension(d)
    direction = generator.standard_normal(d)
    radius = generator.gamma(d, scale)
    return direction * (radius / np.linalg.norm(direction))


def two_orthant_noise(
    generator: np.random.Generator, scale: float, d: int
) -> npt.NDArray[np.float64]:
    r"""Draw a vector of `d` reals with density proportional to ``exp(-norm(b) / scale)``.

    The norm is :math:`\|b\| = \|b^+\|_2 + \|b^-\|_2`, the lengths of the positive and of the
    negative entries. Its unit ball is the convex hull of the two parts of the Euclidean ball whose
    entries all have one sign, the smallest symmetric convex set that holds them. A vector of
    typical signs is :math:`\sqrt2` times as long in this norm, so that the noise is that much
    smaller than `~skdpbayes.randomness.gamma_ball_noise`.

    On vectors with *k* given positive entries the density integrates to a product of two terms like
    that of a ball, cut by :math:`2^{-d}`: so *k* is drawn first, then which entries they are, then
    both parts, each with a Gamma length and a uniform direction in its orthant.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    scale : float
        Positive.
    d : int
        Dimension, at least 1.

    Returns
    -------
    ndarray of float64, shape (d,)
    """
    scale = _check_scale(scale)
    _check_dimension(d)
    law = np.cumsum(_positive_law(d))
    n_positive = int(np.searchsorted(law, generator.random() * law[-1], side="right"))
    order = generator.permutation(d)
    noise = np.abs(generator.standard_normal(d))
    for sign, part in ((1.0, order[:n_positive]), (-1.0, order[n_positive:])):
        if part.size:
            radius = generator.gamma(part.size, scale)
            noise[part] *= sign * radius / np.linalg.norm(noise[part])
    return noise


@lru_cache(maxsize=64)
def _positive_law(d: int) -> npt.NDArray[np.float64]:
    """Probabilities of 0, ..., d positive entries of `two_orthant_noise`."""
    k = np.arange(d + 1.0)

    def log_mass(size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Logarithm of the integral of exp(-|a|) over R^size."""
        at_least_one = np.maximum(size, 1.0)
        area = np.log(2.0) + 0.5 * size * np.log(np.pi) - _log_gamma(0.5 * at_least_one)
        return np.where(size > 0.0, area + _log_gamma(at_least_one), 0.0)

    log_law = log_mass(k) + log_mass(d - k) - _log_gamma(k + 1.0) - _log_gamma(d - k + 1.0)
    law = np.exp(log_law - log_law.max())
    return np.asarray(law / law.sum())


@lru_cache(maxsize=64)
def two_orthant_moments(d: int) -> tuple[float, float]:
    """Variance of an entry of `two_orthant_noise` of scale 1, and covariance of two entries.

    Parameters
    ----------
    d : int
        Dimension, at least 1.

    Returns
    -------
    tuple of float
    """
    _check_dimension(d)
    law, k = _positive_law(d), np.arange(d + 1.0)
    at_least_one = np.maximum(k, 1.0)
    # of |u|_1 for a uniform direction u: normal entries have E|g| = sqrt(2 / pi), and |g|_1 / |g|
    # is independent of |g|, whose mean is sqrt(2) Gamma((k + 1) / 2) / Gamma(k / 2)
    lengths = np.exp(_log_gamma(0.5 * (at_least_one + 1.0)) - _log_gamma(0.5 * at_least_one))
    mean = k / (np.sqrt(np.pi) * lengths)
    square = 1.0 + (k - 1.0) * 2.0 / np.pi
    radius_square = k * (k + 1.0)
    norms = radius_square + radius_square[::-1]
    sums = radius_square * square + (radius_square * square)[::-1]
    sums -= 2.0 * (k * mean) * (k * mean)[::-1]
    norm, total = float(law @ norms), float(law @ sums)
    return norm / d, (total - norm) / (d * (d - 1.0)) if d > 1 else 0.0
