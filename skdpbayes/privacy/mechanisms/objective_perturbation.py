r"""Objective perturbation: the price of releasing a minimizer of a randomly tilted objective.

:math:`\hat\theta = \arg\min_\theta \sum_i \ell_i(\theta) + \frac{\lambda}{2}\|\theta\|^2 +
b^\top\theta`, where :math:`b` has independent normal entries (or density
:math:`\propto e^{-\|b\|/s}` for pure privacy). Every record has norm at most :math:`R`; write
:math:`k = R^2/\lambda` for the *curvature* and :math:`\mu = L/\sigma` for the bound :math:`L` on a
record's gradient over the noise scale. The map from :math:`b` to :math:`\hat\theta` is one to one,
so the privacy loss is a determinant term plus the loss of moving :math:`b`.

**Logistic loss, a record deleted.** The record's gradient is :math:`-s u`, :math:`s\in[0,1]`,
:math:`\|u\|\le R`, its Hessian :math:`s(1-s)uu^\top`. With :math:`A = \mu w + \mu^2/2`,
:math:`w\sim N(0,1)`, the loss is at most

.. math:: f(s) = \log(1 + s(1-s)k) + sA - s(1-s)\mu^2/2 .

Any tangent of the concave :math:`x\mapsto\log(1+kx)` turns this into a quadratic in :math:`s`,
whose maximum over :math:`[0,1]` is explicit; `loss_bound` is the least of several tangents. The
tangent at 0 alone gives: if :math:`A\ge k` then :math:`f\le A`, and if :math:`A<k` then
:math:`f\le k`. Hence for every :math:`\varepsilon\ge k` the profile is exactly the Gaussian
mechanism's, the determinant is free. For smaller epsilon the profile of a single record
is the solution of a control problem, see :mod:`skdpbayes.privacy.mechanisms._deleted_record`; what
is released around the minimizer smooths it. *A record added:* the determinant only
helps, what is left is convex in :math:`s`, and the loss is at most :math:`\max(A,0)`: the Gaussian
profile at every :math:`\varepsilon\ge0`.

**Softmax.** Gradient :math:`(p-e_y)x^\top`, determinant
:math:`\log\det(I+k(\mathrm{diag}\,p-pp^\top)) \le (K-1)\log(1+kT/(K-1))` with :math:`T=1-\|p\|^2`
(arithmetic-geometric mean). With :math:`A_j` the Gaussian loss of the vertex :math:`p=e_j`
(:math:`\mu=\sqrt2R/\sigma`), the loss is at most :math:`\sum_j p_jA_j+T(k-\mu^2/4)`; given
:math:`q=1-p_y`, :math:`T\le 2q-q^2K/(K-1)`, a quadratic in :math:`q` again. A union bound over
the :math:`K-1` vertices gives the factor :math:`K-1`.

**A record replaced** is an addition followed by a deletion; the data set in the middle, with one
record more, is only a device of the proof. For any split
:math:`\varepsilon=\varepsilon_1+\varepsilon_2`,
:math:`\delta(\varepsilon)\le\delta_+(\varepsilon_1)+e^{\varepsilon_1}\delta_-(\varepsilon_2)`
(added, deleted). At :math:`\varepsilon_1=(\varepsilon-\mu^2)/2` the two Gaussian profiles share
one optimal test and the sum is exactly the Gaussian profile of :math:`2\mu`: for the logistic loss
:math:`\delta(\varepsilon)=H(\varepsilon;2R/\sigma)` whenever
:math:`\varepsilon\ge\max(\mu^2, 2k-\mu^2)`, which
nearly antipodal records with a common component approach (two dimensions, the rest of the
data pushing against that component).

**Releases around the minimizer.** Noise added to the computed minimizer, and statistics evaluated
at it, are Gaussian given :math:`\hat\theta`; together they are :math:`\mu_s`-GDP. Averaging their
profile over the loss bound gives :math:`E\,H(\varepsilon-\bar f(A);\mu_s)`, which is summed from
above. For a replaced record the middle of the chain may be any distribution, in particular one
whose statistics lie halfway between the neighbors', so each half is charged :math:`\mu_s/2`.

References
----------
.. [1] K. Chaudhuri, C. Monteleoni, A. Sarwate. Differentially private empirical risk minimization.
   JMLR 12, 2011.
.. [2] D. Kifer, A. Smith, A. Thakurta. Private convex empirical risk minimization and
   high-dimensional regression. COLT 2012.
.. [3] R. Redberg, A. Koskela, Y.-X. Wang. Improving the privacy and practicality of objective
   perturbation for differentially private linear learners. NeurIPS 2023.
.. [4] J. Dong, A. Roth, W. Su. Gaussian differential privacy. JRSS-B 84, 2022 (group privacy,
   Theorem 2.14).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from skdpbayes.privacy._numeric import (
    check_count,
    check_nonnegative,
    check_positive,
)
from skdpbayes.privacy.events import PrivacyEvent, check_probability, store
from skdpbayes.privacy.guarantee import check_adjacency
from skdpbayes.privacy.mechanisms._deleted_record import deleted_profile, smoothed
from skdpbayes.privacy.mechanisms._shifted_profile import (
    difference_error,
    gaussian_delta,
    gaussian_delta_bound,
    gaussian_delta_once,
    gaussian_difference,
)
from skdpbayes.privacy.mechanisms.gdp import FloatArray

__all__ = ["ObjectivePerturbation", "largest_curvature", "loss_bound"]

_TANGENTS = 9  # the best of 9 is above the exact maximum by 0.0002 at curvature 1, 0.016 at 8
_PANELS = 256  # of the upper sum; its excess is part of the price
_NEGLIGIBLE = 1e-13  # relative to the main term: below it the correction is added unresolved
_WASTE = 1e-4  # share of delta that may be spent on rounding to be quick
_FEW = 4  # values of epsilon that are evaluated one by one
_NODES = 192  # at which a long profile is evaluated; in between its chords bound it
# Beyond, e^epsilon overflows in intermediate terms; the profile decreases, so its value here holds
_LARGEST_EPSILON = 300.0
_SPLITS = 14  # evaluations of the search for a split where the balanced one is not free


class _Loss(NamedTuple):
    """Constants of the quadratic bound q A + kappa (linear q - square q^2), see the module."""

    rank: int
    spread: float  # largest trace x of the curvature per k: s (1 - s) or 1 - |p|^2
    linear: float
    square: float
    convex: float  # kappa loses convex * mu^2
    directions: int  # of the union bound


def _loss_constants(n_classes: int) -> _Loss:
    if n_classes == 2:
        return _Loss(1, 0.25, 1.0, 1.0, 0.5, 1)
    others = n_classes - 1
    return _Loss(others, others / n_classes, 2.0, n_classes / others, 0.25, others)


def _quadratic_bounds(margin: FloatArray, kappa: FloatArray, loss: _Loss) -> FloatArray:
    """Return max over q in [0, 1] of q A + kappa (linear q - square q^2) for every kappa > 0."""
    peak = (margin + loss.linear * kappa) / (2.0 * loss.square * kappa)
    inside = np.square(np.clip(peak, 0.0, 1.0)) * (loss.square * kappa)  # the maximum at the peak
    edge = margin + kappa * (loss.linear - loss.square)
    return np.asarray(np.where(peak >= 1.0, edge, inside))


def loss_bound(
    margin: FloatArray, curvature: float, mu: float = 0.0, n_classes: int = 2
) -> FloatArray:
    """Bound the privacy loss of deleting a record, given the loss `margin` of moving the noise.

    Parameters
    ----------
    margin : ndarray
        The variable A of the module's formulas.
    curvature : float
        ``R**2 / penalty``, at least 0; 0 prices the addition of a record.
    mu : float
        Gradient bound over noise scale; 0 for the pure mechanism.
    n_classes : int
        2 for the logistic loss, more for softmax.

    Returns
    -------
    ndarray
        Nondecreasing in `margin`, never below ``max(margin, 0)``.
    """
    loss = _loss_constants(n_classes)
    margin = np.asarray(margin, dtype=np.float64)
    offsets, kappas = _tangents(curvature, mu, loss)
    rising = kappas > 0.0
    best = np.full_like(margin, np.inf)
    if not rising.all():  # without its quadratic term a bound is linear in q
        best = offsets[~rising].min() + np.maximum(margin, 0.0)
    if rising.any():
        bounds = _quadratic_bounds(margin, kappas[rising, None], loss)
        best = np.minimum(best, (offsets[rising, None] + bounds).min(axis=0))
    return np.asarray(best)


@lru_cache(maxsize=256)
def _tangents(curvature: float, mu: float, loss: _Loss) -> tuple[FloatArray, FloatArray]:
    """Return offsets and kappas of tangents to the determinant term, the one at 0 first."""
    tangents = []
    for x in np.linspace(0.0, loss.spread, _TANGENTS if curvature > 0.0 else 1):
        growth = 1.0 + curvature * x / loss.rank
        offset = loss.rank * math.log(growth) - curvature * x / growth
        tangents.append((max(offset, 0.0), curvature / growth - loss.convex * mu * mu))
    offsets, kappas = np.array(tangents).T
    return offsets, kappas


def largest_curvature(epsilon: float, n_classes: int = 2) -> float:
    """Return the curvature at which the determinant alone costs `epsilon`; it must stay below.

    Parameters
    ----------
    epsilon : float
        The budget, positive.
    n_classes : int
        2 for the logistic loss, more for softmax.
    """
    loss = _loss_constants(n_classes)
    with np.errstate(over="ignore"):
        return float(loss.rank * np.expm1(epsilon / loss.rank) / loss.spread)


@lru_cache(maxsize=1024)
def _one_record_delta(
    epsilon: float, mu: float, side_mu: float, curvature: float, n_classes: int
) -> float:
    """Bound delta at any real `epsilon` for a record deleted, or added if `curvature` is 0.

    Where the loss bound is ``margin + offset`` the average over the margin is a Gaussian profile
    in closed form. The rest, margins below the point where that starts, is an upper Riemann sum
    of the (monotone) difference.
    """
    loss = _loss_constants(n_classes)
    mean = 0.5 * mu * mu
    offsets, kappas = _tangents(curvature, mu, loss)
    offset = float((offsets + (loss.linear - loss.square) * np.maximum(kappas, 0.0)).min())
    # every tangent is in its last branch, margin + its offset, where the one at 0 is
    start = (2.0 * loss.square - loss.linear) * max(float(kappas[0]), 0.0)
    main = gaussian_delta_once(epsilon - offset, math.hypot(mu, side_mu))

    low = min(mean - 9.0 * mu, start - 1e-300)
    edges = np.linspace(low, start, _PANELS + 1)
    bounds = loss_bound(edges, curvature, mu, n_classes)
    largest = gaussian_delta_bound(epsilon - float(bounds[-1]), side_mu)
    if largest <= _NEGLIGIBLE * main:
        return min(1.0, loss.directions * (main + largest))
    below = ndtr((edges - mean) / mu)
    weights = np.diff(below)

    def upper_sum(profile: Callable[[FloatArray, float], FloatArray], slack: FloatArray) -> float:
        upper = profile(epsilon - bounds, side_mu) + slack
        lower = profile(epsilon - offset - edges, side_mu) - slack
        total = np.dot(weights, np.maximum(upper[1:] - lower[:-1], 0.0)) + below[0] * upper[0]
        return float(total)

    slack = difference_error(epsilon - bounds, side_mu)
    if epsilon - low <= _LARGEST_EPSILON and np.dot(weights, slack[1:]) <= _WASTE * main:
        rest = upper_sum(gaussian_difference, slack)
    else:  # a delta so small that rounding would show
        rest = upper_sum(gaussian_delta, np.zeros_like(slack))
    return min(1.0, loss.directions * (main + rest))


def _deleted_delta(epsilon: float, event: ObjectivePerturbation, side_mu: float) -> float:
    """Bound delta of deleting a record, by the loss bound and by what is known at other epsilons.

    At and below 0 the addition's profile gives it exactly. Between 0 and a point from where the
    determinant is nearly free, the chord in e^epsilon lies above the (convex) profile.
    """
    mu = 1.0 / event.noise_multiplier
    direct = _one_record_delta(epsilon, mu, side_mu, event.curvature, event.n_classes)
    if event.n_classes == 2 and 0.0 < epsilon < event.curvature and side_mu == 0.0:
        return min(direct, float(deleted_profile(np.array([epsilon]), mu, event.curvature)[0]))
    if epsilon <= 0.0:
        added = _added_delta(-epsilon, event, side_mu)
        return min(direct, -math.expm1(epsilon) + math.exp(epsilon) * added)
    end = min(event.curvature + 2.0 * side_mu, _LARGEST_EPSILON)
    if end <= epsilon < _LARGEST_EPSILON:
        return direct
    left = _added_delta(0.0, event, side_mu)
    if epsilon >= end:  # beyond the largest epsilon only what holds at 0 is known to be better
        return min(direct, left)
    right = _one_record_delta(end, mu, side_mu, event.curvature, event.n_classes)
    share = math.exp(epsilon - end) * math.expm1(-epsilon) / math.expm1(-end)
    return min(direct, (1.0 - share) * left + share * right)


def _added_delta(epsilon: float, event: ObjectivePerturbation, side_mu: float) -> float:
    mu = 1.0 / event.noise_multiplier
    return _one_record_delta(epsilon, mu, side_mu, 0.0, event.n_classes)


def _replaced_delta(epsilon: float, event: ObjectivePerturbation) -> float:
    """Bound delta of replacing a record: the best split of epsilon over addition and deletion.

    The new record is added first and the old one deleted from all of them, or the other way
    around. The first order gives the deletion the larger share, and the determinant costs only
    there.
    """
    half = 0.5 * event.side_mu
    mu_square = event.noise_multiplier**-2 + half * half

    def delete_first(share: float) -> float:
        if share > _LARGEST_EPSILON:  # as good as no privacy
            return 1.0
        added = _added_delta(epsilon - share, event, half)
        return _deleted_delta(share, event, half) + math.exp(share) * added

    balanced = 0.5 * (epsilon - mu_square)
    best = _add_first(balanced, epsilon, event)
    gaussian = gaussian_delta_once(epsilon, 2.0 * math.sqrt(mu_square))
    if best > gaussian * (1.0 + 1e-9):  # else no split can do better
        best = min(best, _add_first(_best_share(epsilon, event), epsilon, event))
        best = min(best, _add_first(0.0, epsilon, event), delete_first(0.0))
        if event.n_classes > 2:
            # the determinant makes the deletion dearer, so its share only grows
            best = min(best, _least(delete_first, balanced, epsilon + mu_square)[1])
    return min(1.0, best)


def _add_first(share: float, epsilon: float, event: ObjectivePerturbation) -> float:
    half = 0.5 * event.side_mu
    deleted = _deleted_delta(epsilon - share, event, half)
    return _added_delta(share, event, half) + math.exp(share) * deleted


def _best_share(epsilon: float, event: ObjectivePerturbation) -> float:
    """Return the share of epsilon that an addition before the deletion should have."""
    mu_square = event.noise_multiplier**-2 + 0.25 * event.side_mu**2
    balanced = 0.5 * (epsilon - mu_square)
    low = min(0.0, balanced) - mu_square  # the determinant makes the deletion dearer
    return _least(lambda share: _add_first(share, epsilon, event), low, balanced)[0]


def _least(price: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return where `price` is about least between `low` and `high`, and its value there."""
    found = minimize_scalar(
        price,
        bounds=(low, high),
        method="bounded",
        options={"xatol": 2e-3 * (high - low), "maxiter": _SPLITS},
    )
    return float(found.x), float(found.fun)


def _side_by_side_delta(epsilon: float, event: ObjectivePerturbation) -> float:
    """Bound delta by the exact profile of the minimizer, smoothed by what is released around it.

    For the logistic loss only, and only where the minimizer's profile is not Gaussian; else 1.
    """
    if event.n_classes > 2 or event.side_mu == 0.0 or epsilon > _LARGEST_EPSILON:
        return 1.0
    alone = dataclasses.replace(event, side_mu=0.0)
    low, high = epsilon - 9.0 * event.side_mu, epsilon + 5.0 * event.side_mu
    doubled = 2.0 if event.adjacency == "replace_one" else 1.0
    if low >= doubled * event.curvature + event.noise_multiplier**-2:
        return 1.0
    # chords are close to the profile if it changes by less than half between nodes
    steepness = (high - low) * epsilon * (event.noise_multiplier / doubled) ** 2
    nodes = np.linspace(low, high, int(np.clip(2.0 * steepness, 9.0, 33.0)))
    if event.adjacency == "replace_one":
        values = _split_profile(nodes, epsilon, alone)
    else:
        values = deleted_profile(nodes, 1.0 / event.noise_multiplier, event.curvature)
    return float(smoothed(np.array([epsilon]), nodes, values, event.side_mu)[0])


def _split_profile(nodes: FloatArray, epsilon: float, event: ObjectivePerturbation) -> FloatArray:
    """Bound the profile of replacing a record at `nodes`, with the split that is best at `epsilon`.

    The addition's share of other epsilons differs from that at `epsilon` by half the difference,
    as it would in the Gaussian mechanism.
    """
    mu = 1.0 / event.noise_multiplier
    size = np.abs(nodes)  # below 0 a symmetric relation has 1 - e^-x + e^-x delta(x)
    shares = 0.5 * (size - epsilon) + _best_share(epsilon, event)
    added = gaussian_delta(np.maximum(shares, 0.0), mu)
    shares = np.maximum(shares, 0.0)
    deleted = deleted_profile(size - shares, mu, event.curvature)
    values = np.minimum(added + np.exp(shares) * deleted, 1.0)
    shrink = np.exp(np.minimum(nodes, 0.0))
    return np.where(nodes < 0.0, 1.0 - shrink + shrink * values, values)


@dataclass(frozen=True)
class ObjectivePerturbation(PrivacyEvent):
    r"""A minimizer of an objective tilted by Gaussian noise, with Gaussian releases around it.

    See :mod:`skdpbayes.privacy.mechanisms.objective_perturbation` for the profile and its proof.
    All bounds are proved for neighbors that differ in one *record*. For a person with several
    weighted records only the Gaussian profile is, and from larger thresholds: epsilon of
    :math:`k+\mu^2/2` (deleted, :math:`\mu` one over the noise multiplier) or
    :math:`2\max(k,\mu^2)` (replaced) up; nothing below them may be claimed for persons.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the random linear term over the bound on one record's gradient norm
        (R for the logistic loss, :math:`\sqrt2 R` for softmax), positive.
    curvature : float
        ``R**2 / penalty``, positive.
    adjacency : {"replace_one", "zero_out"}
        What the profile refers to; replacing doubles the shift inside.
    side_mu : float
        GDP parameter, under the same adjacency, of what is released around the minimizer.
    n_classes : int
        2 for the logistic loss, more for softmax.
    """

    noise_multiplier: float
    curvature: float
    adjacency: str
    side_mu: float = 0.0
    n_classes: int = 2
    kind: ClassVar[str] = "objective_perturbation"

    def __post_init__(self) -> None:
        store(
            self,
            noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier),
            curvature=check_positive("curvature", self.curvature),
            adjacency=check_adjacency(self.adjacency),
            side_mu=check_nonnegative("side_mu", self.side_mu),
            n_classes=check_count("n_classes", self.n_classes, 2),
        )

    def delta_at(self, epsilon: float) -> float:
        """Return a proved bound on delta, exact up to quadrature for the logistic worst case."""
        epsilon = check_nonnegative("epsilon", epsilon)
        if math.isinf(epsilon):
            return 0.0
        epsilon = min(epsilon, _LARGEST_EPSILON)
        if self.adjacency == "replace_one":
            return min(_replaced_delta(epsilon, self), _side_by_side_delta(epsilon, self))
        deleted = _deleted_delta(epsilon, self, self.side_mu)
        deleted = min(deleted, _side_by_side_delta(epsilon, self))
        return max(deleted, _added_delta(epsilon, self, self.side_mu))

    def epsilon_at(self, delta: float) -> float:
        """Return the least epsilon with ``delta_at(epsilon) <= delta``, to one part in 100,000.

        Infinity if it is above 300.
        """
        delta = check_probability("delta", delta)
        if delta == 0.0:
            return math.inf
        if self.delta_at(0.0) <= delta:
            return 0.0

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta_at(epsilon), 1e-320)) - math.log(delta)

        if excess(_LARGEST_EPSILON) > 0.0:  # no profile is known beyond, and it would be no privacy
            return math.inf
        high = min(self._unlikely_loss(), _LARGEST_EPSILON)
        while excess(high) > 0.0:
            high = min(2.0 * high, _LARGEST_EPSILON)
        epsilon = float(brentq(excess, 0.0, high, xtol=1e-9, rtol=1e-6, maxiter=1000))
        while excess(epsilon) > 0.0:
            epsilon *= 1.0 + 1e-6
        return epsilon

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        if epsilons.size <= _FEW:
            return super()._profile(epsilons)
        deleted, added = self._profile_pair(epsilons)
        return np.maximum(deleted, added)

    def _profile_pair(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        nodes, deleted, added = _node_profiles(self)
        return _interpolate(nodes, deleted, epsilons), _interpolate(nodes, added, epsilons)

    def _unlikely_loss(self) -> float:
        """Return a loss exceeded with negligible probability: 12 standard deviations up."""
        doubled = 2.0 if self.adjacency == "replace_one" else 1.0
        mu = math.hypot(doubled / self.noise_multiplier, self.side_mu)
        return doubled * self.curvature + 0.5 * mu * mu + 12.0 * mu


@lru_cache(maxsize=64)
def _node_profiles(event: ObjectivePerturbation) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return evenly spaced losses and the event's profiles of the two ordered pairs there."""
    nodes = np.linspace(0.0, event._unlikely_loss(), _NODES)
    if event.adjacency == "replace_one":
        profile = _replaced_profile(nodes, event)
        return nodes, profile, profile
    deleted = np.array([_deleted_delta(float(node), event, event.side_mu) for node in nodes])
    added = np.array([_added_delta(float(node), event, event.side_mu) for node in nodes])
    if event.n_classes == 2 and event.side_mu > 0.0:
        both = np.append(-nodes[:0:-1], nodes)
        values = deleted_profile(both, 1.0 / event.noise_multiplier, event.curvature)
        deleted = np.minimum(deleted, smoothed(nodes, both, values, event.side_mu))
    return nodes, deleted, added


def _replaced_profile(nodes: FloatArray, event: ObjectivePerturbation) -> FloatArray:
    """Bound the profile of replacing a record at evenly spaced `nodes` from 0 up."""
    half = 0.5 * event.side_mu
    deleted = np.array([_deleted_delta(float(node), event, half) for node in nodes])
    added = np.array([_added_delta(float(node), event, half) for node in nodes])
    profile = _split_on_grid(nodes, added, deleted)
    if event.n_classes == 2 and event.side_mu > 0.0:
        mu = 1.0 / event.noise_multiplier
        deleted = deleted_profile(nodes, mu, event.curvature)
        values = _split_on_grid(nodes, gaussian_delta(nodes, mu), deleted)
        back = -np.expm1(-nodes) + np.exp(-nodes) * values
        both, values = np.append(-nodes[:0:-1], nodes), np.append(back[:0:-1], values)
        profile = np.minimum(profile, smoothed(nodes, both, values, event.side_mu))
    profile[0] = min(profile[0], event.delta_at(0.0))
    return np.asarray(np.minimum(profile, 1.0))


def _split_on_grid(nodes: FloatArray, added: FloatArray, deleted: FloatArray) -> FloatArray:
    """Return min_i added_i + exp(epsilon_i) deleted_(m - i), or the roles exchanged, for all m."""
    scaled = np.exp(nodes)
    return np.array(
        [
            min(
                np.min(added[: m + 1] + scaled[: m + 1] * deleted[m::-1]),
                np.min(deleted[: m + 1] + scaled[: m + 1] * added[m::-1]),
            )
            for m in range(nodes.size)
        ]
    )


def _interpolate(nodes: FloatArray, values: FloatArray, epsilons: FloatArray) -> FloatArray:
    """Return chords in e^epsilon between `nodes`, which lie above the convex profile."""
    scale = np.expm1(np.minimum(nodes, 600.0))
    return np.asarray(np.interp(np.expm1(np.minimum(epsilons, 600.0)), scale, values))
