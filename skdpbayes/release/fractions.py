r"""Counts of persons who share one count among their records, on a grid of ``1 / steps``.

With several records a person adds an *average* of unit vectors, so that she may move many counts by
a fraction each. In every norm an average is no longer than the longest of what it averages. Laplace
noise is pure by the L1 norm of a move, whatever its direction. Discrete Gaussian noise is priced by
the L2 norm, as one count that moves by that and one step more:

Let *s* > 1000 be the deviation and *v* the move, both in steps. The loss depends on the output by
its part along *v*, so the profile is the sum over :math:`\mathbb{Z}^d` of a function that is a
normal density across *v*, and along it one times :math:`(1 - e^{\varepsilon - \ell})_+`: smooth but
for a kink at some *t* deviations, where its slope changes by
:math:`A = \varphi(t)\,|v| / s^3`. By Poisson's formula the sum is the integral, that of continuous
noise, plus the transform of that function at :math:`2 \pi k`, *k* integer and not 0. It falls like
:math:`e^{-2 \pi^2 s^2 |k_\perp|^2}` across *v* and like :math:`A / (2 \pi |k|)^2` along it. Let
:math:`v_j` be the longest entry of *v*. Of all *k* with the same :math:`k_j` at most one is closer
than 1/2 to the line of *v*; the others have :math:`|k_\perp|^2 \ge 1 / (4 d)` and vanish. What is
added is at most :math:`2 \sum_{j \ge 1} A / (2 \pi j)^2 = A / 12`, up to terms smaller by a factor
*s*. The profile of a normal number grows by :math:`\varphi(t) / s` if it moves by one step more,
which is larger for every :math:`|v| < 12 s^2`.

That the profile of *coarse* integer noise is largest at whole moves is proved for a single count:
its laws are log-concave, so that half-lines tell two shifts apart best, and
:math:`F(t) - e^\varepsilon F(t - k)` grows with the shift *k*. Of several counts this is not used.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.budget import Law, Noise
from skdpbayes.privacy.calibration import smallest_noise
from skdpbayes.privacy.events import PrivacyEvent, PureDP
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.release.counts import counts

# Steps of the grid in a deviation of the noise, from which on it is as good as continuous.
LEAST_DEVIATION = 1001.0


def fraction_noise(
    epsilon: float, delta: float, law: Law, moves: int, steps: int
) -> tuple[float, PrivacyEvent]:
    """Return the scale of the noise, in whole counts, and the price of the release.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    law : {"laplace", "gaussian"}
        Of the noise.
    moves : int
        Number of counts that one record moves by 1: the L1 and the squared L2 norm of its move, and
        bounds on those of a person's.
    steps : int
        Steps of the grid in a count.
    """
    if law == "laplace":
        scale = moves / epsilon
        while moves / scale > epsilon:
            scale = math.nextafter(scale, math.inf)
        return scale, PureDP(epsilon)
    if delta == 0.0:
        raise CalibrationError(
            "mechanism='gaussian' needs delta > 0; got delta=0. Use mechanism='laplace'."
        )
    longest = math.ceil(math.sqrt(moves) * steps) + 1

    def event_of(scale: float) -> PrivacyEvent:
        return DiscreteGaussian(scale * steps, longest)

    guess = math.sqrt(moves) / gdp_mu(epsilon, delta)
    scale = max(smallest_noise(event_of, epsilon, delta, guess=guess), LEAST_DEVIATION / steps)
    return scale, event_of(scale)


def fractions(
    generator: np.random.Generator, exact: np.ndarray, noise: Noise, steps: int
) -> np.ndarray:
    """Release counts of ``1 / steps`` under noise whose scale is in whole counts; as floats.

    They are added to on their grid, by exact integers.
    """
    return counts(generator, exact, replace(noise, scale=noise.scale * steps)) / steps
