r"""Gaussian noise on a sum over a random subset of the records.

Every case is one formula. Let *q* be the probability that the record in question is in the batch
and :math:`\alpha = e^\varepsilon \ge 1`. Whether or not it is drawn, the outputs are mixtures
:math:`(1-q) A + q B` and :math:`(1-q) A + q C`, and by advanced joint convexity (Balle, Barthe and
Gaboardi 2018, Theorem 2)

.. math:: H_\alpha\{(1-q)A + qB \,\|\, (1-q)A + qC\}
          = q\, H_{\alpha'}\{B \,\|\, (1-\beta) A + \beta C\}

with :math:`\alpha' = 1 + (\alpha - 1)/q` and :math:`\beta = \alpha/\alpha'`.

By joint convexity it is enough to look at one batch *B* holding the record, *A* without it and *C*
with the other record in its place: unit Gaussians whose means lie within *w* (of *A*) and *v* (of
*C*) from that of *B*, in noise standard deviations. The right-hand side is the mean, under *B*, of
a convex function of :math:`(1-\beta)X + \beta Y`, where the likelihood ratios *X* and *Y* are
log-normal with mean 1. Such a sum is largest in convex order when *X* and *Y* are as wide as
possible and increase together. So the worst case has the three means on one line, at the full
distances and on the same side, and it is attained. With the clipped contribution as unit of length
and noise standard deviation *s*:

=======================  ==========  ==========  ======================================
sampling, adjacency      w           v           why
=======================  ==========  ==========  ======================================
Poisson, zero out        1/s         1/s         record present: A and C both lack it
..                       0           1/s         record absent: A is the same batch
Poisson, replace one     1/s         2/s         C has the opposite record
fixed size, zero out     2/s         1/s         record present: in A another took its
                                                 place, in C it is blank
..                       1/s         1/s         record absent (blank): in A another
                                                 took its place
fixed size, replace one  2/s         2/s         A and C hold another record
=======================  ==========  ==========  ======================================

A batch of fixed size that loses a record gains another, so zeroing out a record is *not* the
half-sensitivity case of replacing it.

References
----------
.. [1] B. Balle, G. Barthe, M. Gaboardi. Privacy amplification by subsampling: tight analyses via
   couplings and divergences. NeurIPS 2018.
.. [2] Y. Zhu, J. Dong, Y.-X. Wang. Optimal accounting of differential privacy via characteristic
   function. AISTATS 2022.
.. [3] C. Lebeda, M. Regehr, G. Kamath, T. Steinke. Avoiding pitfalls for privacy accounting of
   subsampled mechanisms under composition. SaTML 2025.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from skdpbayes.privacy._numeric import check_positive
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import GaussianDP, PrivacyEvent, store
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.gdp import FloatArray, log_tail_drop

Sampling: TypeAlias = Literal["poisson", "fixed"]

# Chains: relative excess of the summed costs, bounds on the number of levels and on a cost's log
_CHAIN_EXCESS = 6e-3
_MOST_LEVELS = 64
_LARGEST_COST = 600.0

# (w, v) of the table above for the two orders of a pair
_DISTANCES: dict[tuple[str, str], tuple[tuple[int, int], tuple[int, int]]] = {
    ("poisson", "zero_out"): ((1, 1), (0, 1)),
    ("poisson", "replace_one"): ((1, 2), (1, 2)),
    ("fixed", "zero_out"): ((2, 1), (1, 1)),
    ("fixed", "replace_one"): ((2, 2), (2, 2)),
}


@dataclass(frozen=True)
class SubsampledGaussian(PrivacyEvent):
    """One step of a noisy sum of clipped contributions over a random batch.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the largest contribution of one record, positive. It
        is the same number under both adjacencies; replacing a record moves the sum twice as far
        and that is accounted for here.
    sampling_rate : float
        In (0, 1]: inclusion probability, or batch size over number of records.
    sampling : {"poisson", "fixed"}, default="poisson"
        Every record independently, or a uniform batch of fixed size without replacement.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    """

    noise_multiplier: float
    sampling_rate: float
    sampling: Sampling = "poisson"
    adjacency: Adjacency = "replace_one"
    kind: ClassVar[str] = "subsampled_gaussian"

    def __post_init__(self) -> None:
        store(
            self,
            noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier),
            sampling_rate=check_sampling_rate(self.sampling_rate),
        )
        check_sampling(self.sampling)
        check_adjacency(self.adjacency)

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        return np.maximum(*self._profile_pair(epsilons))

    def _profile_pair(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        present, absent = _DISTANCES[self.sampling, self.adjacency]
        forward = mixture_profile(epsilons, self.sampling_rate, self.noise_multiplier, *present)
        if absent == present:
            return forward, forward
        return forward, mixture_profile(
            epsilons, self.sampling_rate, self.noise_multiplier, *absent
        )

    def _zcdp(self) -> float:
        # Without amplification, at the larger distance; divergences of mixtures are convex.
        largest = max(max(pair) for pair in _DISTANCES[self.sampling, self.adjacency])
        return 0.5 * (largest / self.noise_multiplier) ** 2

    def _simplified(self) -> PrivacyEvent:
        if self.sampling_rate < 1.0:
            return self
        distance = 2.0 if self.adjacency == "replace_one" else 1.0
        return GaussianDP(distance / self.noise_multiplier)


def mixture_profile(
    epsilons: FloatArray, rate: float, noise: float, steps_w: int, steps_v: int
) -> FloatArray:
    r"""Return :math:`q H_{\alpha'}\{N(0,1) \| (1-\beta) N(w,1) + \beta N(v,1)\}`.

    With :math:`a_w = (\alpha-1)(1-q)/q` and :math:`a_v = \alpha` the best test accepts *x* below
    the root of :math:`a_w e^{wx - w^2/2} + a_v e^{vx - v^2/2} = 1`. At the root the two terms are
    weights *A*, *B* that sum to one, and with the Mills ratio *R* and :math:`z = -x`

    .. math:: \delta = q\,\varphi(z)\,\{A\,[R(z) - R(z+w)] + B\,[R(z) - R(z+v)]\},

    a sum of positive terms without cancellation.

    Parameters
    ----------
    epsilons : ndarray
        At least 0.
    rate : float
        *q*.
    noise : float
        Noise multiplier *s*.
    steps_w, steps_v : int
        The distances *w* and *v* in units of 1/s: both equal and positive, or (0, 1), (1, 2),
        (2, 1).
    """
    epsilons = np.asarray(epsilons, dtype=np.float64)
    unit = 1.0 / noise
    w, v = steps_w * unit, steps_v * unit
    with np.errstate(divide="ignore"):
        # log(expm1(eps)) without overflow; -inf at 0
        log_aw = (
            epsilons
            + np.log(-np.expm1(-epsilons))
            + (math.log1p(-rate) - math.log(rate) if rate < 1.0 else -math.inf)
        )
    log_a, log_b = log_aw - 0.5 * w * w, epsilons - 0.5 * v * v  # weights at the root, x = 0
    if steps_w == steps_v:
        x = -np.logaddexp(log_a, log_b) / v
    elif steps_w == 0:
        with np.errstate(divide="ignore"):
            x = (np.log1p(-np.exp(np.minimum(log_a, 0.0))) - log_b) / v
    else:  # p y + r y^2 = 1 with y = exp(x / s)
        log_p, log_r = (log_a, log_b) if steps_w == 1 else (log_b, log_a)
        discriminant = np.logaddexp(2.0 * log_p, math.log(4.0) + log_r)
        x = (math.log(2.0) - np.logaddexp(log_p, 0.5 * discriminant)) / unit
    reachable = np.isfinite(x)
    z = -np.where(reachable, x, 0.0)
    if steps_w == steps_v:  # A + B = 1
        terms = log_tail_drop(z, v)
    else:
        terms = log_b + v * x + log_tail_drop(z, v)
        if steps_w > 0:
            terms = np.logaddexp(terms, log_a + w * x + log_tail_drop(z, w))
    return np.where(reachable, rate * np.exp(terms), 0.0)


def chain_event(
    noise_multipliers: ArrayLike,
    sampling_rate: float,
    sampling: Sampling = "poisson",
    adjacency: Adjacency = "replace_one",
) -> PrivacyEvent:
    r"""Return the event of a chain whose steps have different noise multipliers.

    Ten thousand distinct steps are rounded to few levels, each step *down* to the least noise of
    its level, so the result is an upper bound. A step costs about
    :math:`x = e^{d^2/s^2} - 1` times a constant (Bu, Dong, Long and Su 2020). Levels that minimize
    the summed excess have equal shares of :math:`\int \sqrt{f(x)}\,dx` for the density *f* of the
    costs, that is, of the sums of square roots of the gaps between sorted costs. Their number
    doubles until the excess is at most 0.6%, which moves epsilon by about 0.3%, or there
    are 64 of them.

    Parameters
    ----------
    noise_multipliers : array-like of shape (n_steps,)
        Noise multiplier of every step, positive; the order does not matter.
    sampling_rate, sampling, adjacency
        As in :class:`SubsampledGaussian`, the same for all steps.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.privacy import chain_event
    >>> event = chain_event(np.geomspace(2.0, 4.0, 10_000), 0.01, adjacency="zero_out")
    >>> len(event.events) <= 64
    True
    """
    noise = np.sort(np.asarray(noise_multipliers, dtype=np.float64).ravel())
    if noise.size == 0 or not (noise[0] > 0.0 and np.isfinite(noise[-1])):
        raise ValueError("noise_multipliers must hold at least one step, all positive and finite")
    if sampling_rate == 1.0:  # Gaussian steps add up in closed form
        levels, counts = np.unique(noise, return_counts=True)
    else:
        levels, counts = _levels(noise, 1.0 if adjacency == "zero_out" else 2.0)
    return compose(
        repeat(SubsampledGaussian(level, sampling_rate, sampling, adjacency), int(count))
        for level, count in zip(levels.tolist(), counts, strict=True)
    )


def _levels(noise: FloatArray, distance: float) -> tuple[FloatArray, NDArray[np.intp]]:
    """Round sorted multipliers down to few levels; return the levels and their counts."""
    costs = np.expm1(np.minimum(np.square(distance / noise), _LARGEST_COST))
    shares = np.concatenate([[0.0], np.cumsum(np.sqrt(-np.diff(costs)))])
    if shares[-1] == 0.0:
        return noise[:1], np.array([noise.size])
    n_levels = 16
    while True:
        bins = np.minimum(shares / shares[-1] * n_levels, n_levels - 1).astype(np.intp)
        _, first, counts = np.unique(bins, return_index=True, return_counts=True)
        excess = float(costs[first] @ counts) / float(costs.sum()) - 1.0
        if excess <= _CHAIN_EXCESS or n_levels >= _MOST_LEVELS:
            return noise[first], counts
        n_levels *= 2


def clt_noise_multiplier(
    mu: float, sampling_rate: float, sampling: Sampling, adjacency: Adjacency
) -> float:
    r"""Return the noise at which one of very many steps counts as `mu`-GDP.

    The central limit theorem of Bu, Dong, Long and Su (2020) for the three means of the module's
    table: :math:`\mu^2 = q^2 \int (B - C)^2/A
    = q^2 (e^{w^2} - 2 e^{w(w-v)} + e^{(w-v)^2})`. An approximation, to start a search from.
    """
    w, v = _DISTANCES[sampling, adjacency][0]
    target = (mu / sampling_rate) ** 2

    def excess(log_square: float) -> float:
        x = math.exp(log_square)  # 1 / s^2
        growth = math.expm1(w * w * x) - 2.0 * math.expm1(w * (w - v) * x)
        return growth + math.expm1((w - v) ** 2 * x) - target

    root = brentq(excess, math.log(1e-18), math.log(150.0), xtol=1e-6) if target < 1e60 else 5.0
    return math.exp(-0.5 * root)


def check_sampling_rate(value: float) -> float:
    """Return `value` as a float, refusing anything outside (0, 1]."""
    rate = float(value)
    if not 0.0 < rate <= 1.0:
        raise ValueError(f"sampling_rate must be in (0, 1], got {value!r}")
    return rate


def check_sampling(value: str) -> Sampling:
    """Return `value`, refusing anything but the two schemes there are."""
    if value not in get_args(Sampling):
        raise ValueError(f"sampling must be 'poisson' or 'fixed', got {value!r}")
    return value  # type: ignore[return-value]
