r"""Several records at once.

If every neighboring pair of releases has the profile :math:`\delta`, then two data sets that are
*k* steps apart are distinguished no better than

.. math:: \delta_k(\varepsilon) = \min \sum_{i=1}^{k} e^{\varepsilon_1+\dots+\varepsilon_{i-1}}\,
          \delta(\varepsilon_i), \qquad \varepsilon_1 + \dots + \varepsilon_k = \varepsilon:

apply :math:`P(S) \le e^{\varepsilon_i} Q(S) + \delta(\varepsilon_i)` along the path. Equal shares
are the textbook bound. The minimum is taken over equally spaced shares
:math:`\varepsilon_i = \varepsilon/k + (i - (k+1)/2)\,c`, which for two steps are all there are and
for the Gaussian hold the optimum, :math:`c = \mu^2`; there :math:`\delta_k` is the profile of
:math:`k\mu`.

Replacing a record is zeroing it out and putting another in its place, so ``group(event, 2)`` turns
a guarantee under ``zero_out`` into one under ``replace_one``.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdpbayes.privacy._numeric import check_count
from skdpbayes.privacy.composition.composed import Composed, Repeated, compose, repeat
from skdpbayes.privacy.events import (
    BoundedRange,
    GaussianDP,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
    store,
)
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.gdp import FloatArray
from skdpbayes.privacy.mechanisms.laplace import LaplaceNoise

_LOG_SPACINGS = np.linspace(np.log(1e-6), np.log(1e3), 43)  # candidates for log(c)
_ZOOM = np.linspace(-1.0, 1.0, 17)
_ZOOM_ROUNDS = 5  # each narrows the bracket eightfold, and the minimum is flat


@dataclass(frozen=True)
class GroupOf(PrivacyEvent):
    """A release seen by data sets that differ in `size` records.

    Parameters
    ----------
    event : PrivacyEvent
        The release, priced for one record.
    size : int, default=2
        Number of neighboring steps between the data sets.
    """

    event: PrivacyEvent
    size: int = 2
    kind: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        store(self, size=check_count("size", self.size))

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        epsilons = np.asarray(epsilons, dtype=np.float64)
        smallest = self._bound(epsilons, np.zeros((1, 1)))[0]
        candidates = np.repeat(_LOG_SPACINGS[:, None], epsilons.size, axis=1)
        width = _LOG_SPACINGS[1] - _LOG_SPACINGS[0]
        for _ in range(1 + _ZOOM_ROUNDS):
            bounds = self._bound(epsilons, np.exp(candidates))
            best = np.argmin(bounds, axis=0)[None]
            smallest = np.minimum(smallest, np.take_along_axis(bounds, best, axis=0)[0])
            candidates = np.take_along_axis(candidates, best, axis=0) + width * _ZOOM[:, None]
            width *= _ZOOM[1] - _ZOOM[0]
        return np.asarray(np.minimum(smallest, 1.0))

    def _bound(self, epsilons: FloatArray, spacings: FloatArray) -> FloatArray:
        """Return the bound at `epsilons` (columns) for shares of the given spacings (rows)."""
        total = np.zeros(np.broadcast_shapes(epsilons.shape, spacings.shape))
        used = np.zeros_like(total)
        for i in range(self.size):
            share = epsilons / self.size + (i - 0.5 * (self.size - 1)) * spacings
            total += np.exp(np.minimum(used, 700.0)) * self._signed_profile(share)
            used += share
        return total

    def _signed_profile(self, epsilons: FloatArray) -> FloatArray:
        """Extend the profile to negative epsilon: for a symmetric relation it must be so."""
        profile = self.event._profile(np.abs(epsilons).ravel()).reshape(epsilons.shape)
        shrink = np.exp(np.minimum(epsilons, 0.0))
        return np.where(epsilons < 0.0, 1.0 - shrink + shrink * profile, profile)

    def _loss_bound(self) -> tuple[float, float]:
        bound, beyond = self.event._loss_bound()
        if beyond > 0.0:
            beyond = min(1.0, beyond * sum(np.exp(min(i * bound, 700.0)) for i in range(self.size)))
        return self.size * bound, beyond

    def _is_costly(self) -> bool:
        return True

    def _zcdp(self) -> float:
        # Bun and Steinke 2016, Proposition 1.9
        return self.size**2 * self.event._zcdp()


def group(event: PrivacyEvent, size: int) -> PrivacyEvent:
    """Return `event` as seen by data sets that differ in `size` records.

    Closed forms are used where they exist, and compositions are taken apart.

    Parameters
    ----------
    event : PrivacyEvent
        The release, priced for one record.
    size : int
        Number of records, at least 1; 2 turns ``zero_out`` into ``replace_one``.

    Examples
    --------
    >>> from skdpbayes.privacy import GaussianDP, group
    >>> group(GaussianDP(0.5), 2)
    GaussianDP(mu=1.0)
    """
    size = check_count("size", size)
    event = event._simplified()
    match event:
        case NoPrivacy():
            return event
        case PureDP(epsilon):
            return PureDP(size * epsilon)
        case GaussianDP(mu):
            return GaussianDP(size * mu)
        case BoundedRange(eta):
            return dataclasses.replace(event, eta=size * eta)
        case LaplaceNoise(noise_multiplier):
            return LaplaceNoise(noise_multiplier / size)
        case DiscreteLaplace() | DiscreteGaussian():
            return dataclasses.replace(event, shift=size * event.shift)
        case Repeated(part, count):
            return repeat(group(part, size), count)
        case Composed(parts):
            return compose(group(part, size) for part in parts)
        case _:
            return event if size == 1 else GroupOf(event, size)
