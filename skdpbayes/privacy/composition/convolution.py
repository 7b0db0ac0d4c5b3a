r"""Tight totals: convolution of privacy loss distributions.

The privacy loss of a composition is a sum of independent losses, one for each release, so its
distribution is a convolution. Every step errs on the private side:

1. Each release's loss distribution comes from connecting the dots of its profile on a common
   grid (``loss_distribution``). Losses beyond the grid count as infinite.
2. The masses are multiplied by :math:`e^{t\ell}` before the fast Fourier transform and by
   :math:`e^{-t\ell}` after it, with the tilt *t* of Chernoff's bound. The rounding of the
   transform is then relative to the delta in question instead of absolute, so 1e-30 is as
   accurate as 1e-3; an allowance for it is added to every mass.
3. The circular convolution wraps what lies outside its window into it, which only adds mass; what
   is lost above the window is bounded by Chernoff and added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy import fft

from skdpbayes.privacy.composition.chernoff import (
    HAIR,
    LOG_OUTSIDE,
    Aim,
    Losses,
    Parts,
    aim_at_delta,
    aim_at_epsilon,
    directed,
    infinite_mass,
    profile_pair,
    send_scouts,
    total_log_moment,
    window,
)
from skdpbayes.privacy.mechanisms.gdp import FloatArray

__all__ = ["composed_delta", "composed_epsilon"]

# Relative excess of epsilon that the grid may cause, for few and for many distinct releases (each
# needs a transform of its own).
_TOLERANCE, _TOLERANCE_MANY, _MANY = 1e-5, 1e-4, 16
_SMALLEST_TRANSFORM, _FEW_TRANSFORM, _LARGEST_TRANSFORM = 2**12, 2**15, 2**21
_LARGEST_GRID = 2**19
_MOST_ATTEMPTS = 30
# Losses whose tail is below this share of delta count as infinite.
_TAIL_SHARE = 1e-8
_FIRST_TAIL, _LOWEST_TAIL = 1e-24, 1e-300
_LARGEST_EXPONENT = 600.0  # beyond 700 exp overflows
# Above this epsilon privacy is a formality, and Chernoff's bound will do.
_LARGEST_EPSILON = 100.0
# Sums of up to a million masses are accurate to this factor.
_SUM_ROUNDING = 1.0 + 1e-9


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
    tail = _FIRST_TAIL
    delta = _delta_with_tail(parts, epsilon, tail)
    while tail > max(_LOWEST_TAIL, _TAIL_SHARE * delta):  # what counts as infinite is too much
        tail = max(_LOWEST_TAIL, tail * tail)
        delta = _delta_with_tail(parts, epsilon, tail)
    return max(delta, *(event.delta_at(epsilon) for event, _ in parts))


def _delta_with_tail(parts: Parts, epsilon: float, tail: float) -> float:
    scouts = send_scouts(parts, tail)
    if max(scout.infinite for scout in scouts) >= 1.0:
        return 1.0
    aims = [aim_at_epsilon(scout, epsilon) for scout in scouts]
    aims.sort(key=lambda aim: aim.crude_delta, reverse=True)
    if epsilon > _LARGEST_EPSILON or aims[0].scout.spread == 0.0:
        return min(1.0, aims[0].crude_delta)
    delta, shifted = 0.0, epsilon * (1.0 - 2.0 * HAIR)
    for aim, total in zip(aims, _convolve(parts, aims), strict=True):
        if aim.crude_delta <= delta:  # the other order cannot be worse
            break
        delta = max(delta, min(total().delta_at(shifted), aim.crude_delta))
    return min(1.0, delta)


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
    scouts = send_scouts(parts, max(_LOWEST_TAIL, _TAIL_SHARE * delta))
    if max(scout.infinite for scout in scouts) >= delta:
        return math.inf
    aims = [aim_at_delta(scout, delta) for scout in scouts]
    aims.sort(key=lambda aim: aim.epsilon, reverse=True)
    if aims[0].epsilon > _LARGEST_EPSILON or aims[0].epsilon == 0.0:
        return aims[0].epsilon
    for _ in range(_MOST_ATTEMPTS):
        epsilon, cut = 0.0, False
        for aim, total in zip(aims, _convolve(parts, aims), strict=True):
            if aim.epsilon <= epsilon:  # the other order cannot be worse
                break
            found, below = total().epsilon_at(delta, aim.epsilon)
            epsilon, cut = max(epsilon, min(found, aim.epsilon)), cut or below
        if not cut:
            break
        # The window starts above the answer: valid, but a smaller tilt does better.
        aims = [replace(aim, tilt=0.5 * aim.tilt) for aim in aims]
    return _verified(parts, epsilon * (1.0 + 2.0 * HAIR), delta, aims[0].tilt)


def _verified(parts: Parts, epsilon: float, delta: float, tilt: float) -> float:
    """Return the first of `epsilon` and some slightly larger ones that the profile proves.

    The two directions use different grids and tilts, so each errs to the private side by a
    different amount; the profile has the last word.
    """
    step = 0.0
    while (reached := composed_delta(parts, epsilon)) > delta:
        excess = math.log(reached / delta) / tilt  # the profile falls about like exp(-tilt epsilon)
        step = max(2.0 * step, 1.01 * excess, 1e-12 * epsilon)
        epsilon += step
        if epsilon > _LARGEST_EPSILON:
            return epsilon
    return epsilon


def _spacing(parts: Parts, aim: Aim) -> float:
    """Return the grid spacing whose rounding moves epsilon by at most the tolerance.

    A variance *v* added to the loss moves its mean by v/2 and, seen through the tilt, epsilon by
    another t v/2.
    """
    scout = aim.scout
    log_moment = float(total_log_moment(scout.losses, np.array([aim.tilt]))[0])
    lower, upper = window(scout.losses, aim, log_moment)
    tolerance = _TOLERANCE if len(parts) < _MANY else _TOLERANCE_MANY
    allowed = tolerance * max(aim.epsilon, 0.1 * scout.spread)
    start = _SMALLEST_TRANSFORM if len(parts) >= _MANY else _FEW_TRANSFORM
    spacing, smallest = (upper - lower) / np.array([start, _LARGEST_TRANSFORM])
    while scout.splitting(spacing) * (1.0 + aim.tilt) > 2.0 * allowed and spacing > smallest:
        spacing /= 1.25
    spacing = max(float(spacing), max(scout.largest) / _LARGEST_GRID)
    lattices = {event._loss_spacing() for event, _ in parts} - {0.0}
    if len(lattices) == 1 and max(lattices) > spacing:  # atoms on grid points are not split
        spacing = max(lattices) / math.ceil(max(lattices) / spacing)
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
        total = float(masses[above] @ -np.expm1(-gaps[above])) * _SUM_ROUNDING
        if epsilon < self.spacing * self.first:  # losses below the window count as well
            total += math.exp(LOG_OUTSIDE)
        if total == 0.0:
            return self.lost
        log_scale = self.log_moment - self.tilt * epsilon
        return self.lost + math.exp(min(0.0, log_scale + math.log(total)))

    def epsilon_at(self, delta: float, origin: float) -> tuple[float, bool]:
        """Return epsilon, and whether a smaller tilt would find a better one.

        That is so where the window starts above the answer, or where the masses around the answer
        are too small, relative to those at `origin`, for floating point.
        """
        if self.lost >= delta:
            return math.inf, False
        losses, gaps, masses = self._untilted(origin)
        clipped = int(np.count_nonzero(losses - origin < gaps))
        if clipped >= losses.size - 1:
            return math.inf, True
        above = np.cumsum(masses[::-1])[::-1]
        shrunk = np.cumsum((masses * np.exp(-gaps))[::-1])[::-1]
        log_target = math.log(delta - self.lost) + self.tilt * origin - self.log_moment
        target = math.exp(min(log_target, _LARGEST_EXPONENT)) / _SUM_ROUNDING
        # delta at one loss sums over the losses strictly above it
        growth = np.exp(np.minimum(gaps[:-1], _LARGEST_EXPONENT))
        at_loss = np.append(above[1:] - growth * shrunk[1:], 0.0)
        # Masses at clipped losses are too small by orders of magnitude and may not be used; what is
        # summed over the losses above them is right, so the first loss after them is a bound.
        index = clipped + int(np.argmax(at_loss[clipped:] <= target))
        if index == clipped and (self.first > 0 or clipped > 0):
            return float(losses[index]), True
        lowest = max(0.0, float(losses[index]) - self.spacing)
        if above[index] <= target:
            return lowest, False
        epsilon = origin + math.log((above[index] - target) / shrunk[index])
        return min(max(epsilon, lowest), float(losses[index])), False


def _convolve(parts: Parts, aims: Sequence[Aim]) -> Iterator[Callable[[], _Convolution]]:
    """Yield the total loss for every aim, to be computed at need, on one grid for all."""
    spacings = [_spacing(parts, aim) if aim.scout.spread > 0.0 else math.inf for aim in aims]
    spacing = max(min(spacings), 0.25 * spacings[0])  # the first aim matters most
    grids = []
    for top in aims[0].scout.largest:
        n_points = max(1, math.ceil(top / spacing * (1.0 - HAIR)))
        grids.append(spacing * np.arange(n_points + 1, dtype=np.float64))
    pairs = [profile_pair(event, grid) for (event, _), grid in zip(parts, grids, strict=True)]
    for aim in aims:
        losses = directed(parts, grids, pairs, aim.scout.direction)
        yield partial(_convolve_one, losses, spacing, aim)


def _convolve_one(losses: Losses, spacing: float, aim: Aim) -> _Convolution:
    tilt = aim.tilt
    moments = [float(masses.log_moment(np.array([tilt]))[0]) for masses, _ in losses]
    log_moment = math.fsum(n * moment for (_, n), moment in zip(losses, moments, strict=True))
    lower, upper = window(losses, aim, log_moment)
    first, last = math.floor(lower / spacing), math.ceil(upper / spacing)
    size = int(fft.next_fast_len(max(last - first + 1, 64), real=True))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for (masses, count), moment in zip(losses, moments, strict=True):
        half = masses.losses.size // 2
        with np.errstate(divide="ignore"):  # no mass stays no mass
            tilted = np.exp(np.log(masses.masses) + tilt * masses.losses - moment)
        wrapped = np.bincount(np.arange(-half, half + 1) % size, tilted, size)
        spectrum *= fft.rfft(wrapped) ** count
    # An error of one unit in the last place of a factor grows with the number of factors.
    rounding = 8.0 * np.finfo(np.float64).eps * (64 + sum(count for _, count in losses))
    noise = rounding * float(np.mean(np.abs(spectrum)))
    total = np.roll(fft.irfft(spectrum, size), -first)
    above_window = math.exp(min(0.0, LOG_OUTSIDE + log_moment - tilt * upper))
    return _Convolution(
        masses=np.maximum(total, 0.0) + noise,
        first=first,
        spacing=spacing,
        tilt=tilt,
        log_moment=log_moment,
        lost=infinite_mass(losses) + above_window,
    )
