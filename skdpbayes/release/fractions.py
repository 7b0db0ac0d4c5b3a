r"""Counts of persons who share one count among their records, on a grid of ``1 / steps``.

With several records a person adds an *average* of unit vectors, so that she may move many counts by
a fraction each. In every norm an average is no longer than the longest of what it averages. Laplace
noise is pure by the L1 norm of a move, whatever its direction. Gaussian noise is priced by its L2
norm: on a grid so fine the loss is, but for the cut at one cell, that of a normal number.

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
    longest = math.ceil(math.sqrt(moves) * steps)

    def event_of(scale: float) -> PrivacyEvent:
        return DiscreteGaussian(scale * steps, longest)

    guess = math.sqrt(moves) / gdp_mu(epsilon, delta)
    scale = smallest_noise(event_of, epsilon, delta, guess=guess)
    return scale, event_of(scale)


def fractions(
    generator: np.random.Generator, exact: np.ndarray, noise: Noise, steps: int
) -> np.ndarray:
    """Release counts of ``1 / steps`` under noise whose scale is in whole counts; as floats.

    They are added to on their grid, by exact integers.
    """
    return counts(generator, exact, replace(noise, scale=noise.scale * steps)) / steps
