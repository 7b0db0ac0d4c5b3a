r"""Integer noise on one integer coordinate.

The losses of both mechanisms fall with the output, so the best test between *noise* and
*noise + shift* rejects below a threshold, and the profile is a sum over the outputs below it. A
vector of counts in which several coordinates move is a composition: ``repeat(event, k)``.

References
----------
.. [1] C. Canonne, G. Kamath, T. Steinke. The discrete Gaussian for differential privacy.
   NeurIPS 2020.
.. [2] A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy
   mechanisms. STOC 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from skdpbayes.privacy._numeric import check_count, check_positive
from skdpbayes.privacy.events import PrivacyEvent, store
from skdpbayes.privacy.gdp import FloatArray, log_gaussian_profile

__all__ = ["DiscreteGaussian", "DiscreteLaplace"]

# Beyond this scale the discrete Gaussian is priced as the continuous one plus the midpoint rule's
# error; below it, summed.
_SUM_UP_TO = 1000.0
_DEVIATIONS = 39.0  # the density underflows beyond


@dataclass(frozen=True)
class DiscreteLaplace(PrivacyEvent):
    r"""Noise with mass :math:`\propto e^{-|k|/s}` on one count that moves by `shift`.

    With :math:`a = 1/s` the loss at output *k* is :math:`a\,(|k - \Delta| - |k|)`; the outputs up
    to 0 share the largest loss :math:`a\Delta`.

    Parameters
    ----------
    scale : float
        *s*, positive.
    shift : int, default=1
        :math:`\Delta`, at least 1.
    """

    scale: float
    shift: int = 1
    kind: ClassVar[str] = "discrete_laplace"

    def __post_init__(self) -> None:
        store(
            self, scale=check_positive("scale", self.scale), shift=check_count("shift", self.shift)
        )

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        rate = 1.0 / self.scale
        gap = rate * self.shift - np.asarray(epsilons, dtype=np.float64)
        # outputs 1, ..., last have a loss rate * (shift - 2 k) above epsilon
        last = np.maximum(0.0, np.ceil(gap / (2.0 * rate)) - 1.0)
        atom = -np.expm1(-gap) / (1.0 + math.exp(-rate))
        between = math.tanh(0.5 * rate) * (
            np.exp(-rate) * np.expm1(-rate * last) / math.expm1(-rate)
            - np.exp(rate - gap) * np.expm1(rate * last) / math.expm1(rate)
        )
        return np.where(gap > 0.0, atom + np.maximum(between, 0.0), 0.0)

    def _loss_bound(self) -> tuple[float, float]:
        return self.shift / self.scale, 0.0

    def _loss_spacing(self) -> float:
        return (1.0 if self.shift % 2 else 2.0) / self.scale


@dataclass(frozen=True)
class DiscreteGaussian(PrivacyEvent):
    r"""Noise with mass :math:`\propto e^{-k^2/(2 s^2)}` on one count that moves by `shift`.

    :math:`\delta(\varepsilon) = \sum_{k < \Delta/2 - \varepsilon s^2/\Delta}
    p(k)\,(1 - e^{\varepsilon - \ell(k)})` with the loss
    :math:`\ell(k) = \Delta(\Delta - 2k)/(2 s^2)`.

    For a large scale the sum is a midpoint rule for the same integral over the continuous
    Gaussian. The integrand changes sign at the threshold, so cutting at a cell boundary only
    loses, and the rule's error is the slope there over 24; twice that is added.

    Parameters
    ----------
    scale : float
        *s*, positive.
    shift : int, default=1
        :math:`\Delta`, at least 1.
    """

    scale: float
    shift: int = 1
    kind: ClassVar[str] = "discrete_gaussian"

    def __post_init__(self) -> None:
        store(
            self, scale=check_positive("scale", self.scale), shift=check_count("shift", self.shift)
        )

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        epsilons = np.asarray(epsilons, dtype=np.float64)
        step = self.shift / self.scale
        threshold = 0.5 * step - epsilons / step  # in standard deviations
        if self.scale > _SUM_UP_TO:
            density = np.exp(-0.5 * np.square(threshold)) / math.sqrt(2.0 * math.pi)
            midpoint = density * step / self.scale**2 / 12.0
            return np.exp(log_gaussian_profile(epsilons, step)) + midpoint
        # For threshold index j (outputs k <= j are rejected): P(k <= j) - e^eps P(k <= j - shift)
        outputs, lower = _lower_tail(self.scale)
        last = np.ceil(threshold * self.scale) - 1.0
        losses = step * (0.5 * step - outputs / self.scale)
        result = np.empty_like(epsilons)
        for i, (epsilon, j) in enumerate(zip(epsilons, last, strict=True)):
            stop = int(np.searchsorted(outputs, j, side="right"))
            result[i] = lower[:stop] @ -np.expm1(np.minimum(0.0, epsilon - losses[:stop]))
        return result


@lru_cache(maxsize=64)
def _lower_tail(scale: float) -> tuple[FloatArray, FloatArray]:
    """Return integers across the support and the masses of the discrete Gaussian there."""
    reach = math.ceil(_DEVIATIONS * scale) + 1
    outputs = np.arange(-reach, reach + 1, dtype=np.float64)
    masses = np.exp(-0.5 * np.square(outputs / scale))
    return outputs, masses / masses.sum()
