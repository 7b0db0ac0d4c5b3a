r"""Objective perturbation when all records of a person may change together.

The loss of a person is a sum of her records' losses with weights :math:`a_j \ge 0` that add up to
at most 1; the rest is as in :mod:`skdpbayes.privacy.mechanisms.objective_perturbation`, for the
logistic loss of two classes, with :math:`k = R^2/\lambda` and :math:`\mu = R/\sigma`. Her Hessian
has any rank and her gradient any direction, so that the proof for one record does not apply.

**A person deleted.** Take her records away one by one; the data sets in the middle are only a
device. One of weight a has the gradient :math:`-a s u` and the Hessian :math:`a s(1-s) uu^\top`,
which is a record with :math:`(a\mu, ak)`: its profile is :math:`H(e; a\mu)`, the Gaussian one, for
:math:`e \ge ak`. Along the path :math:`\delta(\varepsilon) \le \sum_j e^{e_1 + \dots + e_{j-1}}
\delta_j(e_j)` for any shares that add up to :math:`\varepsilon`. With :math:`c_j = \mu(a_1 + \dots
+ a_j)` and :math:`e_j = a_j(\varepsilon - \mu^2/2 + \mu(c_{j-1} + c_j)/2)` all Gaussian pairs have
one optimal test, and the sum is :math:`H(\varepsilon; \mu)`. The least :math:`e_j/a_j` is above
:math:`\varepsilon - \mu^2/2`, so this holds for :math:`\varepsilon \ge k + \mu^2/2`. *A person
added:* records added have the Gaussian profile at every :math:`e \ge 0`, so :math:`\varepsilon \ge
\mu^2/2` is enough. Weights of a smaller sum A have :math:`A\mu` in place of :math:`\mu`, and
:math:`e_j/a_j \ge \varepsilon/A - A\mu^2/2`, which is larger.

**A person replaced.** Add the new one first, then delete the old one: a path of length
:math:`2\mu` with :math:`e_j/a_j = \varepsilon/2 - \mu^2 + \mu(c_{j-1}+c_j)/2`. Additions need
that to be at least 0, deletions, where :math:`c \ge \mu`, at least k: :math:`\delta(\varepsilon) =
H(\varepsilon; 2\mu)` for :math:`\varepsilon \ge 2\max(k, \mu^2)`.

**Below the threshold** :math:`\varepsilon_0` only :math:`\delta \le 1` at :math:`e^\varepsilon = 0`
and convexity in :math:`e^\varepsilon` are used: the chord belongs to a loss that is
:math:`\max(A, \varepsilon_0)`, A that of the Gaussian release. Releases around the minimizer that
are :math:`\mu_s`-GDP given it compose with this pair (Zhu, Dong and Wang 2022) to

.. math:: \delta(\varepsilon) \le E\,H(\varepsilon - \max(A, \varepsilon_0); \mu_s) \le
          H\bigl(\varepsilon; \sqrt{M^2 + \mu_s^2}\bigr) + H(\varepsilon - \varepsilon_0; \mu_s),

M being :math:`\mu` or :math:`2\mu`. At :math:`\varepsilon = 0`, total variation, which is
symmetric and adds up along the path of additions: :math:`\sum_j H(0; a_j\mu) \le
\mu/\sqrt{2\pi}` for each person, and :math:`H(0; \mu_s)` for the rest. Between, the chord again.

**Pure.** With the density :math:`e^{-\|b\|/s}` and :math:`A = L/s` deleting a record of weight a
costs at most :math:`\max_s \log(1 + s(1-s)ak) + saA \le a \max_s\{s(1-s)k + sA\}`, which is linear
in a: a person costs what the tangent at 0 says of a record, :math:`A` for :math:`A \ge k`.

References
----------
.. [1] Y. Zhu, J. Dong, Y.-X. Wang. Optimal accounting of differential privacy via characteristic
   function. AISTATS 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy._numeric import check_nonnegative, check_positive, smallest_satisfying
from skdpbayes.privacy.events import PrivacyEvent, store
from skdpbayes.privacy.guarantee import check_adjacency
from skdpbayes.privacy.mechanisms._shifted_profile import gaussian_delta
from skdpbayes.privacy.mechanisms.gdp import FloatArray, gdp_mu

_LARGEST_EPSILON = 100.0  # beyond, exp(epsilon) would only make rounding a concern
_ROUNDING = 1e-9
# The chord from 0 ends this many deviations of the side releases above the threshold.
_BEYOND = 6.0


@dataclass(frozen=True)
class PersonsObjectivePerturbation(PrivacyEvent):
    r"""A minimizer of a tilted logistic objective, with Gaussian releases around it, for persons.

    See :mod:`skdpbayes.privacy.mechanisms.objective_persons` for the profile and its proof.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the random linear term over the bound on one record's norm, positive.
    curvature : float
        The squared bound over the penalty, positive.
    adjacency : {"replace_one", "zero_out"}
        Whether a person is replaced or deleted.
    side_mu : float
        GDP parameter, under the same adjacency, of what is released around the minimizer.
    """

    noise_multiplier: float
    curvature: float
    adjacency: str
    side_mu: float = 0.0
    kind: ClassVar[str] = "persons_objective_perturbation"

    def __post_init__(self) -> None:
        store(
            self,
            noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier),
            curvature=check_positive("curvature", self.curvature),
            adjacency=check_adjacency(self.adjacency),
            side_mu=check_nonnegative("side_mu", self.side_mu),
        )

    @property
    def threshold(self) -> float:
        """The epsilon from which on the minimizer alone has a Gaussian profile."""
        mu = 1.0 / self.noise_multiplier
        if self.adjacency == "replace_one":
            return 2.0 * max(self.curvature, mu * mu)
        return self.curvature + 0.5 * mu * mu

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        epsilons = np.asarray(epsilons, dtype=np.float64)
        mu = (2.0 if self.adjacency == "replace_one" else 1.0) / self.noise_multiplier
        end = self.threshold + _BEYOND * self.side_mu
        points = np.append(epsilons, end)
        whole = gaussian_delta(points, math.hypot(mu, self.side_mu))
        rest = gaussian_delta(points - self.threshold, self.side_mu)
        direct, at_end = np.split(whole + rest, [epsilons.size])
        at_zero = mu / math.sqrt(2.0 * math.pi) + gaussian_delta(np.zeros(1), self.side_mu)
        share = np.exp(np.minimum(epsilons, end) - end)
        share = (share - math.exp(-end)) / -math.expm1(-end)
        chord = np.where(epsilons < end, (1.0 - share) * at_zero + share * at_end, 1.0)
        return np.asarray(np.minimum(1.0, np.minimum(direct, chord) * (1.0 + _ROUNDING)))


@lru_cache(maxsize=256)
def calibrate_objective_of_persons(
    epsilon: float, delta: float, *, curvature: float, adjacency: str, side_share: float = 0.0
) -> PersonsObjectivePerturbation:
    r"""Return the objective perturbation of least noise that is (epsilon, delta)-DP for persons.

    Parameters
    ----------
    epsilon, delta : float
        The budget, both positive.
    curvature, adjacency
        As in :class:`PersonsObjectivePerturbation`. The curvature must be below epsilon, or half of
        it where persons are replaced.
    side_share : float
        Share of :math:`\mu^2` set aside for releases around the minimizer, in [0, 1).

    Examples
    --------
    >>> from skdpbayes.privacy import calibrate_objective_of_persons
    >>> event = calibrate_objective_of_persons(1.0, 1e-5, curvature=0.5, adjacency="zero_out")
    >>> round(event.noise_multiplier, 6)
    3.730632
    """
    check_positive("epsilon", epsilon)
    epsilon = min(epsilon, _LARGEST_EPSILON)
    moved = 2.0 if check_adjacency(adjacency) == "replace_one" else 1.0
    if moved * curvature >= epsilon:
        raise CalibrationError(
            f"curvature={curvature:g} cannot meet epsilon={epsilon:g} for persons; it must be "
            f"below {epsilon / moved:g}"
        )

    def event(mu: float) -> PersonsObjectivePerturbation:
        return PersonsObjectivePerturbation(
            noise_multiplier=moved / (mu * math.sqrt(1.0 - side_share)),
            curvature=curvature,
            adjacency=adjacency,
            side_mu=mu * math.sqrt(side_share),
        )

    def private(inverse: float) -> bool:
        return event(1.0 / inverse).delta_at(epsilon) <= delta

    least = 1.0 / gdp_mu(epsilon, delta)  # the Gaussian mechanism itself is the best possible
    return event(1.0 / smallest_satisfying(private, least * (1.0 - 1e-9), 2.0 * least))
