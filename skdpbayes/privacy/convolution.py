r"""Tight totals: convolution of privacy loss distributions.

The privacy loss of a composition is a sum of independent losses, one for each release, so its
distribution is a convolution. Every step errs on the private side:

1. Each release's loss distribution comes from connecting the dots of its profile on a common
   grid (:mod:`skdpbayes.privacy.loss_distribution`). Losses beyond the grid count as infinite.
2. The masses are multiplied by :math:`e^{t\ell}` before the fast Fourier transform and by
   :math:`e^{-t\ell}` after it, with the tilt *t* of Chernoff's bound. The rounding of the
   transform is then relative to the delta in question instead of absolute, so 1e-30 is as
   accurate as 1e-3; an allowance for it is added to every mass.
3. The circular convolution wraps what lies outside its window into it, which only adds mass; what
   is lost above the window is bounded by Chernoff and added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy import fft

from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.gdp import FloatArray
from skdpbayes.privacy.loss_distribution import LossMasses, connect_dots

__all__ = ["composed_delta", "composed_epsilon"]

Parts: TypeAlias = tuple[tuple[PrivacyEvent, int], ...]

# Relative excess of epsilon that the grid may cause, for few and for many distinct releases (each
# needs a transform of its own).
_TOLERANCE, _TOLERANCE_MANY, _MANY = 1e-5, 1e-4, 16
_SMALLEST_TRANSFORM, _LARGEST_TRANSFORM = 2**12, 2**21
_LARGEST_GRID = 2**19
# Losses whose tail is below this share of delta count as infinite.
_TAIL_SHARE = 1e-8
_FIRST_TAIL, _LOWEST_TAIL = 1e-30, 1e-305
# Tilted mass outside the window of the circular convolution.
_LOG_OUTSIDE = math.log(1e-17)
_LARGEST_LOSS = 700.0  # beyond it exp overflows
_LARGEST_EXPONENT = 600.0
# Above this epsilon privacy is a formality, and Chernoff's bound will do.
_LARGEST_EPSILON = 100.0
# Profiles are taken this much to the right of the grid points, and losses counted this much
# larger, so that an atom at a grid point does not depend on the last bit.
_HAIR = 1e-13
# Sums of up to a million masses are accurate to this factor.
_SUM_ROUNDING = 1.0 + 1e-9
# In standard deviations of the total loss
_TILTS = np.geomspace(0.005, 400.0, 96)
_PROBES = np.array([0.25, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0])


@lru_cache(maxsize=4096)
def composed_delta(parts: Parts, epsilon: float) -> float:
    """Return an upper bound, tight up to the grid, on delta of the composition at `epsilon`.

    Parameters
    ----------
    parts : tuple of (PrivacyEvent, int)
        Distinct releases with their counts.
    epsilon : float
        At least 0.
    """
    total = 0.0
    for direction in _directions(parts):
        tail = _FIRST_TAIL
        for _ in range(2):  # the tail's share of delta needs a first idea of delta
            scout = _scout(parts, direction, tail)
            tilt, log_delta = _tilt_for_epsilon(scout, epsilon)
            tail = max(_LOWEST_TAIL, _TAIL_SHARE * math.exp(max(log_delta, -_LARGEST_LOSS)))
        if scout.spread == 0.0:
            total = max(total, scout.infinite)
        elif epsilon > _LARGEST_EPSILON:
            total = max(total, scout.infinite + math.exp(log_delta))
        else:
            convolution = _convolve(parts, direction, scout, tilt, epsilon)
            total = max(total, convolution.delta_at(epsilon * (1.0 - 2.0 * _HAIR)))
    return min(1.0, total)


@lru_cache(maxsize=4096)
def composed_epsilon(parts: Parts, delta: float) -> float:
    """Return an upper bound, tight up to the grid, on epsilon of the composition at `delta`.

    Parameters
    ----------
    parts : tuple of (PrivacyEvent, int)
        Distinct releases with their counts.
    delta : float
        In (0, 1).
    """
    largest = 0.0
    for direction in _directions(parts):
        scout = _scout(parts, direction, max(_LOWEST_TAIL, _TAIL_SHARE * delta))
        if scout.infinite >= delta:
            return math.inf
        if scout.spread == 0.0:
            continue
        tilt, epsilon = _tilt_for_delta(scout, delta)
        if epsilon > _LARGEST_EPSILON:
            largest = max(largest, epsilon)
            continue
        convolution = _convolve(parts, direction, scout, tilt, epsilon)
        largest = max(largest, convolution.epsilon_at(delta, epsilon) * (1.0 + 2.0 * _HAIR))
    return largest


def _directions(parts: Parts) -> Iterator[int]:
    """Yield 0 and, if some release treats the two orders of a pair differently, 1."""
    yield 0
    probe = np.array([0.0, 0.01, 0.1, 1.0])
    for event, _ in parts:
        forward, backward = event._profile_pair(probe)
        if forward is not backward and not np.array_equal(forward, backward):
            yield 1
            return


@dataclass(frozen=True)
class _Scout:
    """The losses of all parts on a coarse geometric grid: what to expect of the fine one."""

    parts: tuple[tuple[LossMasses, int], ...]
    largest: tuple[float, ...]

    @property
    def infinite(self) -> float:
        return _infinite_mass(self.parts)

    @property
    def spread(self) -> float:
        return math.sqrt(self.variance(0.0))

    def variance(self, tilt: float) -> float:
        return math.fsum(count * masses.tilted_variance(tilt) for masses, count in self.parts)

    def deviation(self, tilt: float) -> float:
        """Return the standard deviation of the tilted total, kept away from 0."""
        return max(math.sqrt(self.variance(tilt)), 1e-3 * self.spread)

    def log_moment(self, tilts: FloatArray) -> FloatArray:
        return _log_moment(self.parts, tilts)

    def splitting(self, spacing: float) -> float:
        """Estimate the variance that connecting the dots on this spacing adds to the total.

        A loss x within a cell of width h is split with variance x (h - x), h^2/6 on average, and
        less where most losses are much smaller than the spacing.
        """
        return math.fsum(
            count * min(spacing**2 / 6.0, spacing * float(masses.masses @ np.abs(masses.losses)))
            for masses, count in self.parts
        )


def _scout(parts: Parts, direction: int, tail: float) -> _Scout:
    n_releases = sum(count for _, count in parts)
    largest = tuple(_largest_loss(event, tail / n_releases) for event, _ in parts)
    scouted = []
    for (event, count), bound in zip(parts, largest, strict=True):
        grid = np.concatenate([[0.0], np.geomspace(1e-6 * bound, bound, 160)])
        scouted.append((_masses(event, grid, direction), count))
    return _Scout(tuple(scouted), largest)


def _largest_loss(event: PrivacyEvent, tail: float) -> float:
    """Return a loss beyond which `event` has at most `tail` more mass than it has anywhere."""
    bound = min(event._loss_bound()[0], _LARGEST_LOSS)
    if bound == 0.0:
        return 1e-12  # any positive number: there is no loss to place
    grid = np.geomspace(1e-8 * bound, bound, 256)
    profile = np.maximum(*event._profile_pair(grid))
    index = int(np.argmax(profile <= max(tail, profile[-1] * (1.0 + 1e-9))))
    if index == 0 or grid[index] == bound:
        return float(grid[index])
    fine = np.linspace(grid[index - 1], grid[index], 33)
    profile_fine = np.maximum(*event._profile_pair(fine))
    return float(fine[np.argmax(profile_fine <= max(tail, profile[-1] * (1.0 + 1e-9)))])


def _masses(event: PrivacyEvent, grid: FloatArray, direction: int) -> LossMasses:
    pair = event._profile_pair(grid * (1.0 + _HAIR))
    return connect_dots(grid, pair[direction], pair[1 - direction])


def _log_moment(parts: tuple[tuple[LossMasses, int], ...], tilts: FloatArray) -> FloatArray:
    total = np.zeros_like(tilts)
    for masses, count in parts:
        total += count * masses.log_moment(tilts)
    return total


def _infinite_mass(parts: tuple[tuple[LossMasses, int], ...]) -> float:
    if any(masses.infinite >= 1.0 for masses, _ in parts):
        return 1.0
    return -math.expm1(math.fsum(n * math.log1p(-masses.infinite) for masses, n in parts))


def _tilt_for_delta(scout: _Scout, delta: float) -> tuple[float, float]:
    """Return Chernoff's tilt at `delta` and its epsilon."""
    tilts = _TILTS / scout.spread
    epsilons = (scout.log_moment(tilts) - math.log(delta - scout.infinite)) / tilts
    # The least tilt that is nearly best: a larger one would press the masses into one corner.
    best = int(np.argmax(epsilons <= epsilons.min() + 1e-3 * abs(epsilons.min())))
    return float(tilts[best]), max(0.0, float(epsilons[best]))


def _tilt_for_epsilon(scout: _Scout, epsilon: float) -> tuple[float, float]:
    """Return Chernoff's tilt at `epsilon` and its log(delta)."""
    if scout.spread == 0.0:
        return 0.0, math.log(max(scout.infinite, _LOWEST_TAIL))
    tilts = _TILTS / scout.spread
    log_deltas = scout.log_moment(tilts) - tilts * epsilon
    best = int(np.argmax(log_deltas <= log_deltas.min() + 0.05))
    return float(tilts[best]), min(0.0, float(log_deltas[best]))


def _spacing(parts: Parts, scout: _Scout, tilt: float, epsilon: float) -> float:
    """Return the grid spacing whose rounding moves epsilon by at most the tolerance.

    A variance *v* added to the loss moves its mean by v/2 and, seen through the tilt, epsilon by
    another t v/2.
    """
    width = 20.0 * scout.deviation(tilt)
    tolerance = _TOLERANCE if len(parts) < _MANY else _TOLERANCE_MANY
    allowed = tolerance * max(epsilon, 0.1 * scout.spread)
    spacing = width / _SMALLEST_TRANSFORM
    while (
        scout.splitting(spacing) * (1.0 + tilt) > 2.0 * allowed
        and spacing > 2.0 * width / _LARGEST_TRANSFORM
    ):
        spacing /= 1.25
    spacing = max(spacing, max(scout.largest) / _LARGEST_GRID)
    lattices = {event._loss_spacing() for event, _ in parts} - {0.0}
    if len(lattices) == 1:  # atoms on grid points are not split
        lattice = lattices.pop()
        spacing = lattice / math.ceil(lattice / spacing)
    return spacing


@dataclass(frozen=True)
class _Convolution:
    """Tilted masses of the total loss on ``spacing * (first, first + 1, ...)``."""

    masses: FloatArray
    first: int
    spacing: float
    tilt: float
    log_moment: float
    lost: float  # mass at infinity, and above the window

    def _untilted(self, origin: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return positive losses, their distance from `origin`, and masses up to a factor."""
        start = max(0, 1 - self.first)
        losses = self.spacing * (self.first + np.arange(start, self.masses.size, dtype=np.float64))
        gaps = np.maximum(losses - origin, -_LARGEST_EXPONENT / (1.0 + self.tilt))
        return losses, gaps, self.masses[start:] * np.exp(-self.tilt * gaps)

    def delta_at(self, epsilon: float) -> float:
        losses, gaps, masses = self._untilted(epsilon)
        above = losses > epsilon
        scale = math.exp(self.log_moment - self.tilt * epsilon)
        return self.lost + scale * float(masses[above] @ -np.expm1(-gaps[above])) * _SUM_ROUNDING

    def epsilon_at(self, delta: float, origin: float) -> float:
        if self.lost >= delta:
            return math.inf
        losses, gaps, masses = self._untilted(origin)
        above = np.cumsum(masses[::-1])[::-1]
        shrunk = np.cumsum((masses * np.exp(-gaps))[::-1])[::-1]
        log_target = math.log(delta - self.lost) + self.tilt * origin - self.log_moment
        target = math.exp(min(log_target, _LARGEST_EXPONENT)) / _SUM_ROUNDING
        # delta at one loss sums over the losses strictly above it
        growth = np.exp(np.minimum(gaps[:-1], _LARGEST_EXPONENT))
        at_loss = np.append(above[1:] - growth * shrunk[1:], 0.0)
        index = int(np.argmax(at_loss <= target))
        lowest = losses[0] if self.first > 0 else max(0.0, losses[0] - self.spacing)
        if above[index] <= target:
            return float(lowest)
        epsilon = origin + math.log((above[index] - target) / shrunk[index])
        return float(min(max(epsilon, lowest), losses[index]))


def _convolve(
    parts: Parts, direction: int, scout: _Scout, tilt: float, epsilon: float
) -> _Convolution:
    """Convolve the tilted losses of all parts on a grid fit for the neighborhood of `epsilon`."""
    spacing = _spacing(parts, scout, tilt, epsilon)
    fine: list[tuple[LossMasses, int]] = []
    for (event, count), largest in zip(parts, scout.largest, strict=True):
        n_points = max(1, math.ceil(largest / spacing * (1.0 - _HAIR)))
        grid = spacing * np.arange(n_points + 1, dtype=np.float64)
        fine.append((_masses(event, grid, direction), count))
    moments = [float(masses.log_moment(np.array([tilt]))[0]) for masses, _ in fine]
    log_moment = math.fsum(count * moment for (_, count), moment in zip(fine, moments, strict=True))
    lower, upper = _window(tuple(fine), scout, tilt, log_moment)
    first, last = math.floor(lower / spacing), math.ceil(upper / spacing)
    size = int(fft.next_fast_len(max(last - first + 1, 64), real=True))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for (masses, count), moment in zip(fine, moments, strict=True):
        half = masses.losses.size // 2
        with np.errstate(divide="ignore"):  # no mass stays no mass
            tilted = np.exp(np.log(masses.masses) + tilt * masses.losses - moment)
        wrapped = np.bincount(np.arange(-half, half + 1) % size, tilted, size)
        spectrum *= fft.rfft(wrapped) ** count
    # An error of one unit in the last place of a factor grows with the number of factors.
    rounding = 8.0 * np.finfo(np.float64).eps * (64 + sum(count for _, count in parts))
    noise = rounding * float(np.mean(np.abs(spectrum)))
    total = np.roll(fft.irfft(spectrum, size), -first)
    above_window = math.exp(min(0.0, _LOG_OUTSIDE + log_moment - tilt * upper))
    return _Convolution(
        masses=np.maximum(total, 0.0) + noise,
        first=first,
        spacing=spacing,
        tilt=tilt,
        log_moment=log_moment,
        lost=_infinite_mass(tuple(fine)) + above_window,
    )


def _window(
    parts: tuple[tuple[LossMasses, int], ...], scout: _Scout, tilt: float, log_moment: float
) -> tuple[float, float]:
    """Return losses between which all but a negligible part of the tilted total lies.

    Chernoff's bound holds for any probe; the coarse losses tell which one is good.
    """
    probes = _PROBES / scout.deviation(tilt)
    scouted = scout.log_moment(np.array([tilt]))[0] + _LOG_OUTSIDE
    rise = probes[np.argmin((scout.log_moment(tilt + probes) - scouted) / probes)]
    fall = probes[np.argmin((scout.log_moment(tilt - probes) - scouted) / probes)]
    moments = _log_moment(parts, np.array([tilt + rise, tilt - fall])) - log_moment - _LOG_OUTSIDE
    highest = math.fsum(count * float(masses.losses[-1]) for masses, count in parts)
    return max(-float(moments[1] / fall), -highest), min(float(moments[0] / rise), highest)
