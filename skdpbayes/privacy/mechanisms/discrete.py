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
from skdpbayes.privacy.mechanisms.bounded_range import zcdp_delta
from skdpbayes.privacy.mechanisms.gdp import FloatArray, log_gaussian_profile

# Beyond this scale the discrete Gaussian is priced as the continuous one plus the midpoint rule's
# error; below it, summed.
_SUM_UP_TO = 1000.0
# Below this scale losses exceed 500 and zCDP says enough.
_SUM_FROM = 0.03
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
            math.exp(-rate) * np.expm1(-rate * last) / math.expm1(-rate)
            - np.exp(rate * last - gap) * np.expm1(-rate * last) / math.expm1(-rate)
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
        if self.scale < _SUM_FROM:
            return np.array([zcdp_delta(float(epsilon), self._zcdp()) for epsilon in epsilons])
        if self.scale > _SUM_UP_TO:
            density = np.exp(-0.5 * np.square(threshold)) / math.sqrt(2.0 * math.pi)
            midpoint = density * step / self.scale**2 / 12.0
            return np.exp(log_gaussian_profile(epsilons, step)) + midpoint
        first, above, shrunk = _discrete_gaussian_sums(self.scale, self.shift)
        last = np.ceil(threshold * self.scale) - 1.0  # the largest output whose loss exceeds
        excess = step * (threshold - last / self.scale)  # its loss minus epsilon
        index = np.clip(last - first, 0, above.size - 1).astype(np.intp)
        return above[index] - np.expm1(-excess) * shrunk[index]

    def _loss_spacing(self) -> float:
        return self.shift / self.scale**2 / (2.0 if self.shift % 2 else 1.0)

    def _zcdp(self) -> float:
        return 0.5 * (self.shift / self.scale) ** 2  # Canonne et al. 2020, Theorem 4


@lru_cache(maxsize=64)
def _discrete_gaussian_sums(scale: float, shift: int) -> tuple[int, FloatArray, FloatArray]:
    r"""Return the first output *f* and, for every output :math:`j \ge f`, two sums over k <= j.

    With losses relative to that of *j*, :math:`m = \ell(k) - \ell(j) \ge 0`, they are
    :math:`D_j = \sum p(k)(1 - e^{-m})` and :math:`B_j = \sum p(k) e^{-m}`. For an epsilon below
    the loss of *j* by *u* the profile is :math:`D_j + (1 - e^{-u}) B_j`. Both follow from positive
    terms only: :math:`B_j = e^{\ell(j)} P(k \le j - \Delta)` and
    :math:`D_j = D_{j-1} + (1 - e^{-h}) B_{j-1}`, where *h* is the spacing of the losses.
    """
    reach = math.ceil(_DEVIATIONS * scale) + 1
    outputs = np.arange(-reach - shift, reach + shift + 1, dtype=np.float64)
    with np.errstate(under="ignore", divide="ignore"):
        masses = np.exp(-0.5 * np.square(outputs / scale))
        log_lower = np.log(np.cumsum(masses / masses.sum()))
        losses = 0.5 * (shift / scale) ** 2 - shift * outputs / scale**2
        shrunk = np.exp(losses[shift:] + log_lower[:-shift])
    above = np.concatenate([[0.0], np.cumsum(-math.expm1(-shift / scale**2) * shrunk[:-1])])
    return int(outputs[shift]), above, shrunk
