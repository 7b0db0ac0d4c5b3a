"""Continuous noise, for the inside of algorithms whose output is snapped or proven otherwise.

These draws are doubles. Their low-order bits are not those of the real distribution, so a value
that leaves the library goes through `skdpbayes.randomness.release` instead (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["gamma_ball_noise", "gaussian", "laplace"]

Size = int | tuple[int, ...]


def _check_scale(scale: float) -> float:
    scale = float(scale)
    if not (0.0 < scale < np.inf):
        raise ValueError(f"scale must be positive and finite, got {scale!r}.")
    return scale


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
    if d < 1:
        raise ValueError(f"d must be at least 1, got {d!r}.")
    direction = generator.standard_normal(d)
    radius = generator.gamma(d, scale)
    return direction * (radius / np.linalg.norm(direction))
