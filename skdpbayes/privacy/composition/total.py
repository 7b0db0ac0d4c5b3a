r"""The law of a total privacy loss, and its profile.

For masses :math:`m_i` at losses :math:`\ell_i` and a mass :math:`m_\infty` at infinity

.. math:: \delta(\varepsilon) = m_\infty + \sum_{\ell_i > \varepsilon} m_i
          (1 - e^{\varepsilon - \ell_i}).

Far out, where delta is 1e-30, all masses may be tiny; they are stored multiplied by
:math:`e^{t\ell_i}` over the moment :math:`E e^{tL}`, and only those above epsilon are ever
multiplied back, by factors of at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdpbayes.privacy.mechanisms.gdp import FloatArray

# Profiles are taken this much to the right of the grid points, and losses counted this much
# larger, so that an atom at a grid point does not depend on the last bit.
HAIR = 1e-13
# Profiles are accurate to this.
PROFILE_ROUNDING = 1e-13
_MOST_STEPS = 200
_CLOSE = 1e-13


@dataclass(frozen=True)
class TotalLoss:
    """A total loss, as rounded up by whoever computed it.

    Parameters
    ----------
    losses : ndarray
        Increasing.
    masses : ndarray
        Multiplied by ``exp(tilt * losses - log_moment)``.
    lost : float
        Mass at infinity.
    tilt, log_moment : float, default=0.0
        See `masses`.
    below : float, default=0.0
        Tilted mass that may lie below the first of `losses`.
    allowance : float, default=0.0
        How much of every tilted mass only allows for rounding, on an even grid.
    resolution : float, default=0.0
        Below this epsilon the grid may be too coarse to be tight.
    """

    losses: FloatArray
    masses: FloatArray
    lost: float
    tilt: float = 0.0
    log_moment: float = 0.0
    below: float = 0.0
    allowance: float = 0.0
    resolution: float = 0.0

    def delta_at(self, epsilon: float) -> float:
        """Return the profile at `epsilon`."""
        return min(1.0, self._evaluate(epsilon)[0])

    def doubt_at(self, epsilon: float) -> float:
        """Estimate which share of delta at `epsilon` only allows for rounding."""
        spacing = float(self.losses[1] - self.losses[0])
        # The allowance on every point above epsilon, summed: two geometric series, in logarithms
        log_weight = (
            _log_expm1(spacing)
            - math.log(-math.expm1(-self.tilt * spacing))
            - _log_expm1((1.0 + self.tilt) * spacing)
        )
        delta = self._evaluate(epsilon)[0]
        log_allowed = math.log(self.allowance) + log_weight + self.log_moment - self.tilt * epsilon
        return math.inf if delta == 0.0 else math.exp(min(0.0, log_allowed)) / delta

    def _evaluate(self, epsilon: float) -> tuple[float, float]:
        """Return delta and minus its slope in epsilon."""
        epsilon *= 1.0 - 2.0 * HAIR
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        gaps = self.losses[start:] - epsilon
        masses = (
            self.masses[start:] * np.exp(-self.tilt * gaps) if self.tilt else self.masses[start:]
        )
        finite, all_above = float(masses @ -np.expm1(-gaps)), float(masses.sum())
        if start == 0:
            finite += self.below
        if finite == 0.0:
            return self.lost, 0.0
        log_scale = self.log_moment - self.tilt * epsilon
        delta = math.exp(min(0.0, log_scale + math.log(finite)))
        return self.lost + delta, delta * max(0.0, all_above / finite - 1.0)

    def epsilon_at(self, delta: float, guess: float) -> float:
        """Return an epsilon, found from `guess` by Newton's steps, at which delta suffices."""
        if self.lost >= delta:
            return math.inf
        if self.delta_at(0.0) <= delta:
            return 0.0
        low, high, epsilon = 0.0, math.inf, guess
        for _ in range(_MOST_STEPS):
            value, slope = self._evaluate(epsilon)
            if value > delta:
                low = max(low, epsilon)
            else:
                high = min(high, epsilon)
                if value >= delta * (1.0 - _CLOSE) or high - low <= _CLOSE * high:
                    break
            if value > 0.0 and slope > 0.0:  # a hair beyond the root, on the private side
                epsilon += math.log(value / (delta * (1.0 - 0.5 * _CLOSE))) * value / slope
            else:  # nothing to steer by: beyond the largest loss
                epsilon = high
            if not low < epsilon < high:
                epsilon = 0.5 * (low + high) if math.isfinite(high) else 2.0 * low or 1.0
        return high


def _log_expm1(value: float) -> float:
    return value + math.log(-math.expm1(-value))
