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
is what the best path gains, see :mod:`skdpbayes.privacy.mechanisms._travel`.
*A record added:* the determinant only helps, what is left is convex in :math:`s`, and the loss is
at most :math:`\max(A,0)`: the Gaussian profile at every :math:`\varepsilon\ge0`.

**Softmax.** Gradient :math:`(p-e_y)x^\top`, determinant
:math:`\log\det(I+k(\mathrm{diag}\,p-pp^\top)) \le (K-1)\log(1+kT/(K-1))` with :math:`T=1-\|p\|^2`
(arithmetic-geometric mean). With :math:`A_j` the Gaussian loss of the vertex :math:`p=e_j`
(:math:`\mu=\sqrt2R/\sigma`), the loss is at most :math:`\sum_j p_jA_j+T(k-\mu^2/4)`; given
:math:`q=1-p_y`, :math:`T\le 2q-q^2K/(K-1)`, a quadratic in :math:`q` again. A union bound over
the :math:`K-1` vertices gives the factor :math:`K-1`. That lets the largest :math:`A_j` and the
largest determinant meet, which they do not: :mod:`skdpbayes.privacy.mechanisms._softmax_record`
has the better bound, and the smaller of both is taken.

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
at it, are Gaussian given :math:`\hat\theta`; together they are :math:`\mu_s`-GDP. For softmax,
averaging their profile over the loss bound gives :math:`E\,H(\varepsilon-\bar f(A);\mu_s)`, summed
from above; for the logistic loss see
:mod:`skdpbayes.privacy.mechanisms._logistic_record`, where a noisy information matrix is nearly
free. For a replaced record the middle of the chain may be any distribution, in particular one
whose statistics lie halfway between the neighbors', so each half is charged :math:`\mu_s/2`, or one
with both records in its information matrix.

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
from skdpbayes.privacy.guarantee import Unit, check_adjacency, check_unit
from skdpbayes.privacy.mechanisms._logistic_record import LogisticRecord
from skdpbayes.privacy.mechanisms._shifted_profile import (
    difference_error,
    gaussian_delta,
    gaussian_delta_bound,
    gaussian_delta_once,
    gaussian_difference,
)
from skdpbayes.privacy.mechanisms._softmax_record import spread_delta
from skdpbayes.privacy.mechanisms.gdp import FloatArray

_TANGENTS = 9  # the best of 9 is above the exact maximum by 0.0002 at curvature 1, 0.016 at 8
_GENTLE = 2  # the tangent of the other bound for softmax: its offset is 1 % of delta, or less
_PANELS = 256  # of the upper sum; its excess is part of the price
_NEGLIGIBLE = 1e-13  # relative to the main term: below it the correction is added unresolved
_WASTE = 1e-4  # share of delta that may be spent on rounding to be quick
_FEW = 4  # values of epsilon that are evaluated one by one
_NODES = 256  # at which a long profile is evaluated; in between its chords bound it
# Beyond, e^epsilon overflows in intermediate terms; the profile decreases, so its value here holds
_LARGEST_EPSILON = 300.0
_FREE = 2e-3  # excess over the Gaussian profile that is not worth a search
_HARDLY_PRIVATE = 0.01  # delta from which on more splits are tried
_SPLITS = 12  # evaluations of the search for a split where the balanced one is not free


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


def tangent_loss_bound(margin: float, curvature: float, n_classes: int = 2) -> float:
    """Return the tangent at 0 of :func:`loss_bound` without Gaussian terms, largest over q.

    It is linear in (margin, curvature), so that it adds up over the weighted records of a person.
    """
    loss = _loss_constants(n_classes)
    return float(_quadratic_bounds(np.array([margin]), np.array([curvature]), loss)[0])


def largest_curvature(epsilon: float, n_classes: int = 2, unit: Unit = "record") -> float:
    """Return the curvature at which the determinant alone costs `epsilon`; it must stay below.

    Parameters
    ----------
    epsilon : float
        The budget, positive.
    n_classes : int
        2 for the logistic loss, more for softmax.
    unit : {"record", "person"}
        Whose data change; for a person the determinant is bounded by its tangent at 0.
    """
    loss = _loss_constants(n_classes)
    if check_unit(unit) == "person":  # max over q of k (linear q - square q^2)
        return epsilon / tangent_loss_bound(0.0, 1.0, n_classes)
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


class _Softmax(NamedTuple):
    """Profiles of deleting or adding one record of several classes; see `LogisticRecord`."""

    mu: float
    curvature: float
    side_mu: float
    n_classes: int

    def deleted(self, epsilon: float) -> float:
        """Bound delta of a deletion, by the loss bound and by what is known at other epsilons.

        At and below 0 the addition's profile gives it exactly. Between 0 and a point from where the
        determinant is nearly free, the chord in e^epsilon lies above the (convex) profile.
        """
        direct = self._direct(epsilon, self.curvature)
        if epsilon <= 0.0:
            return min(direct, -math.expm1(epsilon) + math.exp(epsilon) * self.added(-epsilon))
        end = min(self.curvature + 2.0 * self.side_mu, _LARGEST_EPSILON)
        if end <= epsilon < _LARGEST_EPSILON:
            return direct
        left = self.added(0.0)
        if epsilon >= end:  # beyond the largest epsilon only what holds at 0 is known to be better
            return min(direct, left)
        right = self._direct(end, self.curvature)
        share = math.exp(epsilon - end) * math.expm1(-epsilon) / math.expm1(-end)
        return min(direct, (1.0 - share) * left + share * right)

    def added(self, epsilon: float) -> float:
        """Bound delta of an addition."""
        return self._direct(epsilon, 0.0)

    def profiles(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound both profiles at `epsilons`."""
        deleted = np.array([self.deleted(float(epsilon)) for epsilon in epsilons])
        return deleted, np.array([self.added(float(epsilon)) for epsilon in epsilons])

    def _direct(self, epsilon: float, curvature: float) -> float:
        best = _one_record_delta(epsilon, self.mu, self.side_mu, curvature, self.n_classes)
        offsets, kappas = _tangents(curvature, self.mu, _loss_constants(self.n_classes))
        if curvature > 0.0 and (kappa := float(kappas[_GENTLE])) > 0.0:
            room = epsilon - float(offsets[_GENTLE])
            best = min(best, spread_delta(room, self.mu, self.side_mu, kappa, self.n_classes))
        return best


@lru_cache(maxsize=256)
def _delta(epsilon: float, event: ObjectivePerturbation) -> float:
    """Bound delta; a fit whose like was fitted before need not prove its claim once more."""
    if event.adjacency == "replace_one":
        return _replaced_delta(epsilon, event)
    records = {event._record(), event._record(evenly=True)}
    deleted = min(record.deleted(epsilon) for record in records)
    return max(deleted, min(record.added(epsilon) for record in records))


def _replaced_delta(epsilon: float, event: ObjectivePerturbation) -> float:
    """Bound delta of replacing a record: the best split of epsilon over addition and deletion.

    The new record is added first and the old one deleted from all of them, or the other way
    around. The first order gives the deletion the larger share, and the determinant costs only
    there.
    """
    record = event._record()
    mu_square = event.noise_multiplier**-2 + record.side_mu**2

    def delete_first(share: float) -> float:
        if share > _LARGEST_EPSILON:  # as good as no privacy
            return 1.0
        return record.deleted(share) + math.exp(share) * record.added(epsilon - share)

    balanced = 0.5 * (epsilon - mu_square)
    alone = event._record(alone=True)
    gaussian = gaussian_delta_once(epsilon, 2.0 * alone.mu)
    if 0.0 < _add_first(balanced, epsilon, alone) <= gaussian * (1.0 + _FREE):
        share = balanced  # the determinant is free, and no split can do better
    else:
        # where to split changes little with the noise, and need not be known exactly
        rounded = float(f"{alone.mu:.1e}")
        share = _best_share(epsilon, alone._replace(mu=rounded)) - 0.5 * record.side_mu**2
    records = {record, event._record(evenly=True)}
    best = min(_add_first(share, epsilon, each) for each in records)
    if event.n_classes > 2 or best > _HARDLY_PRIVATE:
        best = min(best, _add_first(0.0, epsilon, record), delete_first(0.0))
    if event.n_classes > 2:
        best = min(best, _least(delete_first, balanced, epsilon + mu_square)[1])
    return min(1.0, best)


def _add_first(share: float, epsilon: float, record: LogisticRecord | _Softmax) -> float:
    return record.added(share) + math.exp(share) * record.deleted(epsilon - share)


@lru_cache(maxsize=256)
def _best_share(epsilon: float, alone: LogisticRecord | _Softmax) -> float:
    """Return the share of epsilon that an addition before the deletion should have."""
    balanced = 0.5 * (epsilon - alone.mu**2)
    low = min(0.0, balanced) - alone.mu**2  # the determinant makes the deletion dearer
    high = min(balanced, 12.0 * alone.mu)
    return _least(lambda share: _add_first(share, epsilon, alone), low, high)[0]


def _least(price: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return where `price` is about least between `low` and `high`, and its value there."""
    found = minimize_scalar(
        price,
        bounds=(low, high),
        method="bounded",
        options={"xatol": 2e-3 * (high - low), "maxiter": _SPLITS},
    )
    return float(found.x), float(found.fun)


@dataclass(frozen=True)
class ObjectivePerturbation(PrivacyEvent):
    r"""A minimizer of an objective tilted by Gaussian noise, with Gaussian releases around it.

    See :mod:`skdpbayes.privacy.mechanisms.objective_perturbation` for the profile and its proof.
    All bounds are proved for neighbors that differ in one *record*; for persons with several
    weighted records see :class:`PersonsObjectivePerturbation`.

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
    information_mu : float
        How far one record can move a released information matrix, over its noise.
    """

    noise_multiplier: float
    curvature: float
    adjacency: str
    side_mu: float = 0.0
    n_classes: int = 2
    information_mu: float = 0.0
    kind: ClassVar[str] = "objective_perturbation"

    def __post_init__(self) -> None:
        store(
            self,
            noise_multiplier=check_positive("noise_multiplier", self.noise_multiplier),
            curvature=check_positive("curvature", self.curvature),
            adjacency=check_adjacency(self.adjacency),
            side_mu=check_nonnegative("side_mu", self.side_mu),
            n_classes=check_count("n_classes", self.n_classes, 2),
            information_mu=check_nonnegative("information_mu", self.information_mu),
        )

    def delta_at(self, epsilon: float) -> float:
        """Return a proved bound on delta, about 1 % above the worst case of the logistic loss."""
        epsilon = check_nonnegative("epsilon", epsilon)
        return 0.0 if math.isinf(epsilon) else _delta(min(epsilon, _LARGEST_EPSILON), self)

    def _record(self, *, alone: bool = False, evenly: bool = False) -> LogisticRecord | _Softmax:
        """Return the profiles of one record, of two if one is replaced.

        With `alone` the releases around the minimizer are left out; `evenly` lets every record
        move the information matrix by as much as any. The middle of a replacement may have both
        records in that matrix or, `evenly`, lie halfway between the neighbors, which are at most
        sqrt(2) times as far apart as one record can move it.
        """
        mu, replaced = 1.0 / self.noise_multiplier, self.adjacency == "replace_one"
        side_mu, information_mu = (0.0, 0.0) if alone else (self.side_mu, self.information_mu)
        if replaced:
            side_mu *= 0.5
        if self.n_classes == 2 and not evenly:
            return LogisticRecord(mu, self.curvature, side_mu, information_mu)
        side_mu = math.hypot(side_mu, information_mu * (math.sqrt(0.5) if replaced else 1.0))
        if self.n_classes == 2:
            return LogisticRecord(mu, self.curvature, side_mu)
        return _Softmax(mu, self.curvature, side_mu, self.n_classes)

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
        mu = math.hypot(mu, math.sqrt(doubled) * self.information_mu)
        return doubled * self.curvature + 0.5 * mu * mu + 12.0 * mu


@lru_cache(maxsize=64)
def _node_profiles(event: ObjectivePerturbation) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return evenly spaced losses and the event's profiles of the two ordered pairs there."""
    nodes = np.linspace(0.0, min(event._unlikely_loss(), _LARGEST_EPSILON), _NODES)
    pairs = [record.profiles(nodes) for record in {event._record(), event._record(evenly=True)}]
    if event.adjacency == "zero_out":
        deleted, added = (np.min(each, axis=0) for each in zip(*pairs, strict=True))
        return nodes, deleted, added
    splits = [_split_on_grid(nodes, added, deleted) for deleted, added in pairs]
    profile = np.minimum(np.min(splits, axis=0), 1.0)
    profile[0] = min(profile[0], event.delta_at(0.0))
    return nodes, profile, profile


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
    """Return chords in e^epsilon between `nodes`, which lie above the convex profile.

    Beyond the last node its value holds.
    """
    scale = np.expm1(np.minimum(epsilons, nodes[-1]))
    return np.asarray(np.interp(scale, np.expm1(nodes), values))
