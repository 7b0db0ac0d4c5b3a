r"""The privacy loss distribution of one release, from its profile.

The profile of a release determines a pair of distributions that is at least as easy to tell
apart as its outputs on any two neighbors, and products of such pairs bound adaptive composition
(Zhu, Dong and Wang 2022). *Connecting the dots* (Doroshenko et al. 2022) discretizes that pair:
between the points of a grid the profile is replaced by its chord in :math:`e^\varepsilon`, which
lies above it, and the result is the profile of a loss distribution on the grid.

References
----------
.. [1] Y. Zhu, J. Dong, Y.-X. Wang. Optimal accounting of differential privacy via characteristic
   function. AISTATS 2022.
.. [2] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi. Connect the dots: tighter
   discrete approximations of privacy loss distributions. PoPETs 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpbayes.privacy.mechanisms.gdp import FloatArray


@dataclass(frozen=True)
class LossMasses:
    """A privacy loss distribution: finite losses with masses, and the mass at infinity."""

    losses: FloatArray
    masses: FloatArray
    infinite: float

    @property
    def mean_size(self) -> float:
        """The mean of the absolute value of a finite loss."""
        return float(self.masses @ np.abs(self.losses))

    def log_moment(self, tilts: FloatArray) -> FloatArray:
        """Return ``log E[exp(t L); L finite]`` at every tilt."""
        losses, log_masses = self._logs()
        moments = np.empty_like(tilts)
        for i, tilt in enumerate(tilts):
            exponents = log_masses + tilt * losses
            top = exponents.max()
            moments[i] = top + math.log(np.exp(exponents - top).sum())
        return moments

    def tilted_mean(self, tilt: float) -> float:
        """Return the mean of the loss under the tilted distribution."""
        losses, weights = self._tilted(tilt)
        return float(weights @ losses)

    def tilted_variance(self, tilt: float) -> float:
        """Return the variance of the loss under the tilted distribution."""
        losses, weights = self._tilted(tilt)
        return float(weights @ np.square(losses - weights @ losses))

    def _tilted(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        losses, log_masses = self._logs()
        exponents = log_masses + tilt * losses
        weights = np.exp(exponents - exponents.max())
        return losses, weights / weights.sum()

    def _logs(self) -> tuple[FloatArray, FloatArray]:
        positive = self.masses > 0.0
        return self.losses[positive], np.log(self.masses[positive])


def connect_dots(grid: FloatArray, forward: FloatArray, backward: FloatArray) -> LossMasses:
    """Return the loss distribution whose profile is the chord interpolation of the given one.

    Parameters
    ----------
    grid : ndarray of shape (n + 1,)
        Nonnegative losses from 0 up; ``-grid`` is used as well.
    forward, backward : ndarray of shape (n + 1,)
        Profiles at `grid` of the ordered pair and of the reversed pair. Taking each on
        nonnegative losses only keeps both tails accurate in relative terms.
    """
    gaps = np.diff(grid)
    up = _slope_masses(grid, forward, gaps)
    down = _slope_masses(grid, backward, gaps) * np.exp(-grid[1:])
    # The unrounded masses sum to one; clipping rounding noise afterwards can only add mass.
    center = 1.0 - forward[-1] - np.sum(up) - np.sum(down)
    masses = np.concatenate([down[::-1], [center], up])
    losses = np.concatenate([-grid[:0:-1], grid])
    return LossMasses(losses, np.maximum(masses, 0.0), float(forward[-1]))


def _slope_masses(grid: FloatArray, profile: FloatArray, gaps: FloatArray) -> FloatArray:
    """Return the masses at ``grid[1:]``: changes of slope of the profile in exp(epsilon)."""
    drops = np.maximum(0.0, -np.diff(profile))
    masses = drops / -np.expm1(-gaps)
    masses[:-1] -= drops[1:] / np.expm1(gaps[1:])
    if masses.min(initial=0.0) < -1e-7:  # not rounding: the given bound is not convex
        profile = convex_envelope(np.expm1(grid), profile)
        drops = -np.diff(profile)
        masses = drops / -np.expm1(-gaps)
        masses[:-1] -= drops[1:] / np.expm1(gaps[1:])
    return np.asarray(masses)


def convex_envelope(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the largest convex function below the points.

    The true profile is convex in exp(epsilon), so what lies below an upper bound lies below the
    envelope of that bound too.
    """
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) >= 2:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(i)
    return np.interp(x, x[kept], y[kept])
