r"""Totals without a transform: doubling on a grid that is fine near 0 and coarse far away.

Where one loss in a million is a million times as large as the others, no evenly spaced grid is
both fine and long enough, and no tilt makes the total look like a bell: the rounding of a Fourier
transform, relative to the masses that are likely, drowns those that matter. Here all arithmetic
is on positive numbers, so every mass is accurate relative to itself.

The grid is :math:`x_j = a \sinh(rj)`, with *a* the mean size of one loss. The total of 2m releases
is that of m and m: all pairs of losses are added, and a sum *s* between two grid points is split
among them so that the masses of both distributions of the pair stay what they are,

.. math:: w = \frac{1 - e^{x_j - s}}{1 - e^{x_j - x_{j+1}}} \text{ at } x_{j+1},
          \quad 1 - w \text{ at } x_j,

which is connecting the dots of the profile of the sum (Doroshenko et al. 2022), and can only raise
it: :math:`\ell \mapsto (1 - e^{\varepsilon - \ell})_+` is linear in :math:`e^{-\ell}` or zero, and
convex in it. A sum above the last point splits between that point and infinity. Masses that are
negligible at the lower end move up, at the upper end to infinity. Everything therefore errs on the
private side, and what is left is rounding: sums of losses are rounded up, and relative errors of
masses add up where laws are multiplied, which is counted. The excess is of second order in *r*: one
splitting adds a variance of at most :math:`r^2 x^2/4`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from skdpbayes.privacy.composition.chernoff import Parts, directed, profile_pair, send_scouts
from skdpbayes.privacy.composition.total import PROFILE_ROUNDING, TotalLoss
from skdpbayes.privacy.mechanisms.gdp import FloatArray

# Relative spacing of the grid, for few distinct releases and for many
_STEP, _STEP_MANY, _MANY = 0.03, 0.08, 8
# The finest scale of the grid, absolute and relative to the size of the total
_FINEST, _FINEST_SHARE = 1e-8, 1e-3
# Totals above this count as infinite, which adds a share of at most exp(epsilon - 160) to delta.
_LARGEST_TOTAL = 160.0
_NEGLIGIBLE = 1e-26
_TAIL = 1e-40
_UNIT = 0.5 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class _Law:
    """Masses at the grid points first, first + 1, ..., and at infinity.

    They may be too small by `error`, relatively, because of rounding.
    """

    first: int
    masses: FloatArray
    infinite: float
    error: float


@dataclass(frozen=True)
class _Grid:
    """The points ``scale * sinh(step * j)`` up to j = last."""

    scale: float
    step: float
    last: int

    def points(self, first: int, size: int) -> FloatArray:
        return np.asarray(self.scale * np.sinh(self.step * np.arange(first, first + size)))

    def law(self, first: int, masses: FloatArray, infinite: float, error: float) -> _Law:
        """Move negligible masses up, and those beyond the grid to its end and to infinity."""
        rising, falling = np.cumsum(masses), np.cumsum(masses[::-1])
        start = min(int(np.argmax(rising > _NEGLIGIBLE)), masses.size - 1)
        stop = max(start + 1, masses.size - int(np.argmax(falling > _NEGLIGIBLE)))
        infinite += float(masses[stop:].sum())
        kept = masses[start:stop].copy()
        kept[0] += masses[:start].sum()
        first += start
        within = max(0, self.last + 1 - first)
        if within < kept.size:
            outside = kept[within:]
            excess = self.points(first + within, outside.size) - self.points(self.last, 1)
            infinite += float(outside @ -np.expm1(-excess))
            first, kept = min(first, self.last), kept[: max(1, within)] * (within > 0)
            kept[-1] += float(outside @ np.exp(-excess))
        return _Law(first, kept, infinite, error)

    def product(self, one: _Law, other: _Law) -> _Law:
        """Return the law of the sum of two independent losses, rounded up to the grid."""
        x = self.points(one.first, one.masses.size)
        y = self.points(other.first, other.masses.size)
        # at least the exact sum, whatever the rounding
        sums = np.add.outer(x + 4.0 * _UNIT * np.abs(x), y + 4.0 * _UNIT * np.abs(y)).ravel()
        masses = np.outer(one.masses, other.masses).ravel()
        index = np.floor(np.arcsinh(sums / self.scale) / self.step).astype(np.intp)
        first = int(index.min())
        points = self.points(first, int(index.max()) - first + 3)
        index -= first
        index += sums > points[index + 1]
        shares = np.expm1(points[index] - sums) / np.expm1(-np.diff(points))[index]
        shares = np.clip(shares + 16.0 * _UNIT, 0.0, 1.0)
        total = np.asarray(np.bincount(index, masses * (1.0 - shares), points.size), np.float64)
        total[1:] += np.bincount(index, masses * shares, points.size - 1)
        infinite = one.infinite + other.infinite * (1.0 - one.infinite)
        # a mass is a sum of at most all products
        error = one.error + other.error + (masses.size + 64) * _UNIT
        return self.law(first, total, infinite, error)

    def power(self, one: _Law, count: int) -> _Law:
        """Return the law of the sum of `count` independent losses."""
        if count == 1:
            return one
        half = self.power(one, count // 2)
        whole = self.product(half, half)
        return self.product(whole, one) if count % 2 else whole


@lru_cache(maxsize=64)
def doubled_total(parts: Parts, direction: int) -> TotalLoss:
    """Return the law of the total loss for one order of the pair, rounded up to the grid.

    Parameters
    ----------
    parts : tuple of (PrivacyEvent, int)
        Distinct releases with their counts.
    direction : int
        0 for a record that is present first, 1 for one that is absent first.
    """
    scout = send_scouts(parts, _TAIL)[direction]
    scale = max(
        min(masses.mean_size for masses, _ in scout.losses), _FINEST_SHARE * scout.size, _FINEST
    )
    step = _STEP if len(parts) < _MANY else _STEP_MANY
    top = min(
        _LARGEST_TOTAL, math.fsum(n * x for (_, n), x in zip(parts, scout.largest, strict=True))
    )
    grid = _Grid(scale, step, math.ceil(math.asinh(top / scale) / step))
    laws = []
    for part, largest in zip(parts, scout.largest, strict=True):
        points = grid.points(0, min(grid.last, math.ceil(math.asinh(largest / scale) / step)) + 1)
        pair = profile_pair(part[0], points)
        ((losses, _),) = directed((part,), (points,), (pair,), direction)
        law = grid.law(1 - points.size, losses.masses, losses.infinite, PROFILE_ROUNDING)
        laws.append(grid.power(law, part[1]))
    while len(laws) > 1:  # a tree: every law is rounded few times
        laws = [
            grid.product(*laws[i : i + 2]) if i + 1 < len(laws) else laws[i]
            for i in range(0, len(laws), 2)
        ]
    (law,) = laws
    return TotalLoss(
        losses=grid.points(law.first, law.masses.size),
        masses=law.masses * (1.0 + 2.0 * law.error),
        lost=law.infinite * (1.0 + 2.0 * law.error),
    )
