r"""What to expect of a total privacy loss before computing it.

The losses of all releases on a coarse grid are valid ones, only rounded up generously. Chernoff's
bound on their sum tells where the interesting part of the total lies, which exponential tilt brings
it to the center, and which part of the tilted total is negligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

from skdpbayes.privacy.composition.loss_distribution import LossMasses, connect_dots
from skdpbayes.privacy.composition.total import HAIR
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.mechanisms.gdp import FloatArray

Parts: TypeAlias = tuple[tuple[PrivacyEvent, int], ...]
Losses: TypeAlias = tuple[tuple[LossMasses, int], ...]

# Tilted mass outside the window of the circular convolution.
LOG_OUTSIDE = math.log(1e-17)
_LARGEST_LOSS = 700.0  # beyond it exp overflows
_COSTLY_POINTS = 2048
# In standard deviations of the total loss
_TILTS = np.geomspace(1e-6, 400.0, 168)
_PROBES = np.array([0.25, 0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0])


@dataclass(frozen=True, eq=False)
class Scout:
    """The losses of all parts on a coarse geometric grid: what to expect of the fine one.

    Coarse losses are valid ones, so what follows from them by Chernoff's bound is a bound.
    """

    losses: Losses
    largest: tuple[float, ...]  # per part, from where losses count as infinite
    direction: int  # 0: record present to absent, 1: back

    @cached_property
    def tilts(self) -> FloatArray:
        """The tilts to choose among: a ladder, so that near questions share an answer."""
        return _TILTS / self.spread

    @cached_property
    def moments(self) -> FloatArray:
        """Log moments at `tilts`."""
        return total_log_moment(self.losses, self.tilts)

    @cached_property
    def infinite(self) -> float:
        """Mass at infinity."""
        return infinite_mass(self.losses)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the total."""
        return math.sqrt(self.variance(0.0))

    @cached_property
    def size(self) -> float:
        """A bound on the mean size of the total, and on its standard deviation."""
        sizes = [count * masses.mean_size for masses, count in self.losses]
        return min(math.fsum(sizes), self.spread)

    def variance(self, tilt: float) -> float:
        """Return the variance of the tilted total."""
        return math.fsum(count * masses.tilted_variance(tilt) for masses, count in self.losses)

    def mean(self, tilt: float) -> float:
        """Return the mean of the tilted total."""
        return math.fsum(count * masses.tilted_mean(tilt) for masses, count in self.losses)

    def deviation(self, tilt: float) -> float:
        """Return the standard deviation of the tilted total, kept away from 0."""
        return max(math.sqrt(self.variance(tilt)), 1e-3 * self.spread)

    def splitting(self, spacing: float) -> float:
        """Estimate the variance that connecting the dots on this spacing adds to the total.

        A loss x within a cell of width h is split with variance x (h - x), h^2/6 on average, and
        less where most losses are much smaller than the spacing.
        """
        return math.fsum(
            count * min(spacing**2 / 6.0, spacing * masses.mean_size)
            for masses, count in self.losses
        )


@dataclass(frozen=True)
class Aim:
    """Where on the total's profile to look, with which tilt, and Chernoff's bound there."""

    scout: Scout
    rung: int  # of the ladder of tilts
    epsilon: float
    log_delta: float

    @property
    def tilt(self) -> float:
        """The tilt on that rung."""
        return float(self.scout.tilts[self.rung])

    @property
    def crude_delta(self) -> float:
        """Chernoff's bound on delta at `epsilon`."""
        return self.scout.infinite + math.exp(self.log_delta)


@lru_cache(maxsize=64)
def send_scouts(parts: Parts, tail: float) -> tuple[Scout, ...]:
    """Return one scout if all releases are symmetric, else one for each order of the pair."""
    n_releases = sum(count for _, count in parts)
    largest = tuple(_largest_loss(event, tail / n_releases) for event, _ in parts)
    grids = [_scout_grid(top) for top in largest]
    pairs = [profile_pair(event, grid) for (event, _), grid in zip(parts, grids, strict=True)]
    return tuple(
        Scout(directed(parts, grids, pairs, direction), largest, direction)
        for direction in ((0,) if all(pair[0] is pair[1] for pair in pairs) else (0, 1))
    )


def _scout_grid(top: float) -> FloatArray:
    """Return losses up to `top`, dense near 0 for small losses and even for large tilts."""
    even = np.linspace(0.0, top, 161)
    return np.sort(np.concatenate([even, np.geomspace(1e-6 * top, even[4], 101)[:-1]]))


def _largest_loss(event: PrivacyEvent, tail: float) -> float:
    """Return a loss beyond which `event` has at most `tail` more mass than it has anywhere."""
    bound = min(event._loss_bound()[0], _LARGEST_LOSS)
    if bound == 0.0:
        return 1e-12  # any positive number: there is no loss to place
    grid = np.geomspace(1e-8 * bound, bound, 256)
    profile = np.maximum(*event._profile_pair(grid))
    enough = max(tail, profile[-1] * (1.0 + 1e-9))
    index = int(np.argmax(profile <= enough))
    if index == 0 or grid[index] == bound:
        return float(grid[index])
    fine = np.linspace(grid[index - 1], grid[index], 33)
    return float(fine[np.argmax(np.maximum(*event._profile_pair(fine)) <= enough)])


def profile_pair(event: PrivacyEvent, grid: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both profiles on the grid, of costly events by chords between fewer points."""
    grid = grid * (1.0 + HAIR)
    if not event._is_costly() or grid.size <= _COSTLY_POINTS:
        return event._profile_pair(grid)
    even = np.linspace(0, grid.size - 1, _COSTLY_POINTS // 2)
    growing = np.geomspace(1, grid.size - 1, _COSTLY_POINTS // 2)
    knots = np.unique(np.concatenate([even, growing]).astype(np.intp))
    x, knots_x = np.expm1(grid), np.expm1(grid[knots])
    pair = event._profile_pair(grid[knots])
    forward = np.interp(x, knots_x, pair[0])
    return forward, forward if pair[0] is pair[1] else np.interp(x, knots_x, pair[1])


def directed(
    parts: Parts,
    grids: Sequence[FloatArray],
    pairs: Sequence[tuple[FloatArray, FloatArray]],
    direction: int,
) -> Losses:
    """Return the losses of all parts for one order of the pair."""
    return tuple(
        (connect_dots(grid, pair[direction], pair[1 - direction]), count)
        for (_, count), grid, pair in zip(parts, grids, pairs, strict=True)
    )


def total_log_moment(losses: Losses, tilts: FloatArray) -> FloatArray:
    """Return the log moment generating function of the total at every tilt."""
    total = np.zeros_like(tilts)
    for masses, count in losses:
        total += count * masses.log_moment(tilts)
    return total


def infinite_mass(losses: Losses) -> float:
    """Return the probability that any of the losses is infinite."""
    if any(masses.infinite >= 1.0 for masses, _ in losses):
        return 1.0
    return -math.expm1(math.fsum(n * math.log1p(-masses.infinite) for masses, n in losses))


def _log_stick(tilts: FloatArray) -> FloatArray:
    r"""Return the log of the largest ratio of :math:`(1 - e^{-x})_+` to :math:`e^{tx}`.

    With it Chernoff's bound is one on the hockey stick itself:
    :math:`\delta(\varepsilon) = E(1 - e^{\varepsilon - L})_+
    \le \max_x \{(1 - e^{-x}) e^{-tx}\}\, e^{-t\varepsilon} E e^{tL}`.
    """
    return tilts * np.log(tilts) - (1.0 + tilts) * np.log1p(tilts)


def aim_at_delta(scout: Scout, delta: float) -> Aim:
    """Return Chernoff's tilt and epsilon at `delta`."""
    log_delta = math.log(delta - scout.infinite)
    if scout.spread == 0.0:
        return Aim(scout, 0, 0.0, log_delta)
    epsilons = (scout.moments + _log_stick(scout.tilts) - log_delta) / scout.tilts
    best = int(np.argmin(epsilons))
    return Aim(scout, best, max(0.0, float(epsilons[best])), log_delta)


def aim_at_epsilon(scout: Scout, epsilon: float) -> Aim:
    """Return Chernoff's tilt and log(delta) at `epsilon`."""
    if scout.spread == 0.0:
        return Aim(scout, 0, epsilon, -math.inf)
    log_deltas = scout.moments + _log_stick(scout.tilts) - scout.tilts * epsilon
    # The least tilt that is nearly best: a larger one would press the masses into one corner.
    best = int(np.argmax(log_deltas <= log_deltas.min() + 0.05))
    return Aim(scout, best, epsilon, min(0.0, float(log_deltas[best])))


def window(losses: Losses, scout: Scout, tilt: float, log_moment: float) -> tuple[float, float]:
    """Return losses between which all but a negligible part of the tilted total lies.

    Chernoff's bound holds for any probe; the coarse losses tell which one is good.
    """
    probes = _PROBES / scout.deviation(tilt)
    scouted = total_log_moment(scout.losses, np.array([tilt]))[0] + LOG_OUTSIDE
    rises = total_log_moment(scout.losses, tilt + probes) - scouted
    falls = total_log_moment(scout.losses, tilt - probes) - scouted
    rise, fall = probes[np.argmin(rises / probes)], probes[np.argmin(falls / probes)]
    moments = total_log_moment(losses, tilt + np.array([rise, -fall])) - log_moment - LOG_OUTSIDE
    highest = math.fsum(count * float(masses.losses[-1]) for masses, count in losses)
    return max(-float(moments[1] / fall), -highest), min(float(moments[0] / rise), highest)
