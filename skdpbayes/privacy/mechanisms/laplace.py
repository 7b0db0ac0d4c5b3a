"""Continuous Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdpbayes.privacy._numeric import check_positive
from skdpbayes.privacy.events import PrivacyEvent, store
from skdpbayes.privacy.mechanisms.gdp import FloatArray


@dataclass(frozen=True)
class LaplaceNoise(PrivacyEvent):
    r"""Continuous Laplace noise on a vector of known L1 sensitivity.

    The worst case moves a single coordinate by the whole sensitivity, and then
    :math:`\delta(\varepsilon) = 1 - e^{(\varepsilon - 1/s)/2}` for :math:`\varepsilon < 1/s`.

    *Proof that one coordinate is the worst case.* Moving a coordinate by *a* scales has privacy
    loss :math:`a - 2\min(Y, a)`, where *Y* is 0 or standard exponential with probability 1/2 each.
    Of two coordinates moved by :math:`a \ge b`, compare the sum of losses with that of one
    coordinate moved by :math:`a + b`. The former exceeds :math:`a + b - 2t`,
    :math:`0 < t \le (a+b)/2 \le a`, only if :math:`\min(Y, a) < t`, that is with probability at
    most :math:`1 - e^{-t}/2`, which is the probability of the latter. So every nonnegative loss
    is at least as likely for the single coordinate, both profiles are symmetric, and merging
    coordinates two at a time only worsens the profile.

    Parameters
    ----------
    noise_multiplier : float
        Scale of the noise divided by the L1 sensitivity, positive.
    """

    noise_multiplier: float
    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        store(self, noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier))

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        return -np.expm1(np.minimum(0.0, 0.5 * (epsilons - 1.0 / self.noise_multiplier)))

    def _loss_bound(self) -> tuple[float, float]:
        return 1.0 / self.noise_multiplier, 0.0

    def _loss_spacing(self) -> float:
        return 1.0 / self.noise_multiplier
