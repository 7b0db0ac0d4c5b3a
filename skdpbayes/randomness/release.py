"""Releases: the last step before a number leaves the library.

Floating-point noise betrays the value under it through its low-order bits (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012). A float release
is therefore an integer release in disguise: the value is rounded to a multiple of a public grid
g, a power of two far below the noise, and exact discrete noise on the same grid is added,

    g (round(v / g) + N),    N discrete Gaussian or discrete Laplace of scale `scale / g`.

Dividing by a power of two and rounding to an integer are exact in floating point, and the final
sum is the correctly rounded value of the exact one, which is post-processing. So the release is
that of the integer vector round(v / g), whose sensitivity is :func:`snapped_sensitivity` / g.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from skdpbayes.randomness.discrete import discrete_gaussian, discrete_laplace

Floats = npt.NDArray[np.float64]

GRID_BITS = 28  # noise scale / grid is in [2^28, 2^29): rounding costs a relative 2^-28 per unit
_MIN_SCALE, _MAX_SCALE = 2.0**-900, 2.0**900  # the grid and all its multiples are normal doubles
_MAX_COUNT = 2**61  # count + noise then fits int64: discrete noise stays below 2^61


def release_grid(scale: float) -> float:
    """Return the public grid on which noise of scale `scale` is released.

    Parameters
    ----------
    scale : float
        Noise scale, positive.

    Returns
    -------
    float
        The power of two g with ``2**28 <= scale / g < 2**29``.

    Examples
    --------
    >>> from skdpbayes.randomness import release_grid
    >>> release_grid(1.5) == 2.0**-28
    True
    """
    scale = float(scale)
    if not (_MIN_SCALE <= scale <= _MAX_SCALE):
        raise ValueError(f"scale must lie in [2**-900, 2**900], got {scale!r}.")
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - GRID_BITS)


def snap(values: npt.ArrayLike, grid: float) -> Floats:
    """Round values to the nearest multiples of a power of two, exactly.

    Parameters
    ----------
    values : array-like
        Finite floats. Callers clip first, so that the errors here depend on public numbers only.
    grid : float
        A power of two.

    Returns
    -------
    ndarray of float64
        Each entry within ``grid / 2`` of its value.
    """
    grid = float(grid)
    if not (0.0 < grid < math.inf) or math.frexp(grid)[0] != 0.5:
        raise ValueError(f"grid must be a positive power of two, got {grid!r}.")
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values to release must be finite, got NaN or infinity.")
    with np.errstate(over="ignore"):
        steps = np.rint(values / grid)
    if not np.isfinite(steps).all():
        raise ValueError(f"values to release are too large for a grid of {grid!r}.")
    steps *= grid
    return steps + 0.0  # no negative zeros: values that round alike become the same bits


def snapped_sensitivity(sensitivity: float, grid: float, d: int, *, order: int = 2) -> float:
    r"""Bound the sensitivity of ``snap(values, grid)`` given that of the values.

    Two neighboring vectors move by at most :math:`g/2` per coordinate when rounded to a grid
    :math:`g`, so :math:`\Delta` grows to at most :math:`\Delta + g\sqrt d` in L2 and to at most
    :math:`\Delta + gd` in L1.

    Parameters
    ----------
    sensitivity : float
        Of the values as they are computed. Float summation moves them a little from their exact
        values; where that is not negligible it belongs in here.
    grid : float
        Of the release.
    d : int
        Number of coordinates that can differ between neighbors.
    order : {2, 1}
        Norm in which the sensitivity is measured: 2 for Gaussian noise, 1 for Laplace noise.

    Returns
    -------
    float
        Rounded up.
    """
    if not (0.0 <= sensitivity < math.inf):
        raise ValueError(f"sensitivity must be non-negative and finite, got {sensitivity!r}.")
    if d < 1:
        raise ValueError(f"d must be at least 1, got {d!r}.")
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {order!r}.")
    rounding = grid * d if order == 1 else grid * math.nextafter(math.sqrt(d), math.inf)
    return math.nextafter(sensitivity + math.nextafter(rounding, math.inf), math.inf)


def release_scale(noise_multiplier: float, sensitivity: float, d: int, *, order: int = 2) -> float:
    r"""Return a noise scale of at least `noise_multiplier` times the sensitivity after snapping.

    The grid depends on the scale and the sensitivity after snapping on the grid. The grid is at
    most :math:`2^{-28}` of the scale, so the smallest safe scale is about
    :math:`m\Delta/(1-2^{-28}m\sqrt d)` (:math:`md` in place of :math:`m\sqrt d` for order 1), with
    :math:`m` the multiplier and :math:`\Delta` the sensitivity.

    Parameters
    ----------
    noise_multiplier : float
        Noise scale over sensitivity that the privacy analysis asks for, positive.
    sensitivity : float
        Of the values before snapping, positive.
    d, order
        As in :func:`snapped_sensitivity`.

    Returns
    -------
    float
        A scale with ``scale >= noise_multiplier * snapped_sensitivity(sensitivity,
        release_grid(scale), d, order=order)``.

    Examples
    --------
    >>> from skdpbayes.randomness import release_scale
    >>> round(release_scale(4.0, 1.0, d=100), 6)
    4.000001
    """
    if not (0.0 < noise_multiplier < math.inf):
        raise ValueError(f"noise_multiplier must be positive and finite, got {noise_multiplier!r}.")
    if not (0.0 < sensitivity < math.inf):
        raise ValueError(f"sensitivity must be positive and finite, got {sensitivity!r}.")
    share = math.ldexp(noise_multiplier * (d if order == 1 else math.sqrt(d)), -GRID_BITS)
    if share > 0.5:
        raise ValueError(
            f"noise_multiplier={noise_multiplier!r} with d={d!r} coordinates leaves no room for "
            "rounding to the release grid; release fewer coordinates or less noise."
        )
    scale = noise_multiplier * sensitivity / (1.0 - share)
    while scale < noise_multiplier * snapped_sensitivity(
        sensitivity, release_grid(scale), d, order=order
    ):
        scale *= 1.0 + 2.0**-50  # a few roundings short
    return scale


def release_gaussian(generator: np.random.Generator, values: npt.ArrayLike, scale: float) -> Floats:
    r"""Release float values under discrete Gaussian noise on the grid ``release_grid(scale)``.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    values : array-like
        The values to protect, finite.
    scale : float
        Noise scale: a multiple of ``snapped_sensitivity(l2_sensitivity, release_grid(scale), d)``;
        :func:`release_scale` gives it.

    Returns
    -------
    ndarray of float64
        ``grid * (round(values / grid) + N)``, N discrete Gaussian of scale ``scale / grid``.

    Notes
    -----
    The release has the zero-concentrated guarantee of the Gaussian mechanism at the snapped
    sensitivity (Canonne, Kamath & Steinke, "The discrete Gaussian for differential privacy",
    NeurIPS 2020, Theorem 4 and its multivariate version). Its (epsilon, delta) curve is that of the
    Gaussian mechanism, too, up to rounding errors: with :math:`s\ge2^{28}` the scale over the grid,
    the normal mass of the cell of half-width :math:`1/(2s)` around :math:`y=i/s` is the density at
    :math:`y` times the cell's width and the mean of :math:`\cosh(yt)\,e^{-t^2/2}` over the cell,
    which lies between :math:`e^{-1/(8s^2)}` and :math:`e^{y^2/(8s^2)}`. So in :math:`d` coordinates
    the probabilities of the release and of a rounded continuous Gaussian differ by a factor of at
    most :math:`\exp((d+\|y\|^2)\,2^{-59})` either way.
    """
    grid = release_grid(scale)
    snapped = snap(values, grid)
    return snapped + grid * discrete_gaussian(generator, scale / grid, snapped.shape)


def release_laplace(generator: np.random.Generator, values: npt.ArrayLike, scale: float) -> Floats:
    """Release float values under discrete Laplace noise on the grid ``release_grid(scale)``.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    values : array-like
        The values to protect, finite.
    scale : float
        Noise scale. With the L1 sensitivity after snapping, ``snapped_sensitivity(l1_sensitivity,
        release_grid(scale), d, order=1)``, the release is epsilon-DP with epsilon that
        sensitivity over the scale.

    Returns
    -------
    ndarray of float64
        ``grid * (round(values / grid) + N)``, N discrete Laplace of scale ``scale / grid``.
    """
    grid = release_grid(scale)
    snapped = snap(values, grid)
    return snapped + grid * discrete_laplace(generator, scale / grid, snapped.shape)


def release_counts(
    generator: np.random.Generator,
    counts: npt.ArrayLike,
    scale: float,
    *,
    noise: Literal["laplace", "gaussian"],
) -> npt.NDArray[np.int64]:
    """Release integer counts under exact discrete noise.

    Parameters
    ----------
    generator : numpy.random.Generator
        Source of random bits.
    counts : array-like of int
        The counts to protect.
    scale : float
        Noise scale, positive and at most ``2**50``.
    noise : {"laplace", "gaussian"}
        Distribution of the noise.

    Returns
    -------
    ndarray of int64
        Not clipped: negative counts are part of an unbiased release.
    """
    if noise not in ("laplace", "gaussian"):
        raise ValueError(f"noise must be 'laplace' or 'gaussian', got {noise!r}.")
    exact = np.asarray(counts)
    if exact.dtype.kind not in "iu":
        raise TypeError(f"counts must be integers, got an array of dtype {exact.dtype}.")
    if exact.size and (int(exact.max()) > _MAX_COUNT or int(exact.min()) < -_MAX_COUNT):
        raise ValueError("counts must lie within 2**61 of zero.")
    draw = discrete_laplace if noise == "laplace" else discrete_gaussian
    return exact.astype(np.int64) + draw(generator, scale, exact.shape)
