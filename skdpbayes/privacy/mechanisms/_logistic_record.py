r"""One logistic record under objective perturbation, with Gaussian releases around the minimizer.

Theorem 5b of the theory page. Two kinds of release go with a minimizer. Noise that hides the
optimizer's last digits has some GDP parameter :math:`\mu_s` whatever the record is. Noise on the
information matrix :math:`\sum_ix_i\,u_iu_i^\top`, :math:`x=s(1-s)` with the residual :math:`s`,
does not: the record moves it by :math:`4x\mu_I`, at most :math:`\mu_I`, and not at all where its
gradient is largest, :math:`s\to1`. Given :math:`z`, the noise along the record as it would be
without it,

.. math:: \frac{\varphi(z-4x\mu_I)}{\varphi(z)} = e^{4x\mu_Iz-8x^2\mu_I^2} \le e^{4xa},
          \qquad a=\mu_I\max(z,0) ,

so the profile of a deletion is at most :math:`E\,D(\varepsilon,a)`, :math:`z\sim N(0,1)`, with
:math:`D` the bound of :mod:`skdpbayes.privacy.mechanisms._travel`. It is :math:`H(\varepsilon;\mu)`
where :math:`\varepsilon\ge k+4a`, as in Theorem 5, and at most :math:`e^aD(\varepsilon-a,0)`
anywhere. :math:`D` is convex in :math:`a`, so chords lie above it.

An addition has no determinant to pay. Its loss is at most :math:`sA+x\kappa` with
:math:`A\sim N(\mu^2/2,\mu^2)`, :math:`\kappa=4a-\mu^2/2` and
:math:`a=\max(\mu_I^2/2-\mu_Iz,0)`, the largest of which over :math:`s` is :math:`A` for
:math:`A\ge\kappa`, 0 for :math:`A\le-\kappa` and :math:`(A+\kappa)^2/4\kappa` between.

A release of parameter :math:`\mu_s` has the loss :math:`\ell\sim N(\mu_s^2/2,\mu_s^2)` and makes of
a profile :math:`\delta` the average :math:`E\,\delta(\varepsilon-\ell)`. That of
:math:`H(\cdot;\mu)` is :math:`H(\varepsilon;\sqrt{\mu^2+\mu_s^2})`. The rest,
:math:`\delta-H`, is nothing above the threshold; below, :math:`\delta` lies under its chords and
:math:`H` above its tangents in :math:`e^\varepsilon`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from skdpbayes.privacy.mechanisms._shifted_profile import gaussian_delta
from skdpbayes.privacy.mechanisms._travel import least_epsilon, travel_deltas
from skdpbayes.privacy.mechanisms.gdp import FloatArray

# Of the normal variable z behind a bonus; a cheap bound is enough from some node on
_NODES = np.array([0.0, 0.75, 1.5, 2.25, 3.0, 4.0, 5.5, 8.0, 12.0, 20.0, 38.0])
_RESOLVED = 5.0
_LARGEST_EPSILON = 100.0  # at which the search is done
_PANELS = 48  # of the addition's loss where it is quadratic
_CHORD = 0.25  # how much a profile may change in its logarithm between two nodes
_PRECISION = 5e-4  # of the whole, that one node may take
_COARSE = 1e-2  # the same for long profiles


class _Columns(NamedTuple):
    """Bonuses, their weights in the average over z, and what is beyond the last."""

    bonuses: FloatArray
    shares: FloatArray
    tail: float


class LogisticRecord(NamedTuple):
    """Profiles of deleting or adding one record.

    Parameters
    ----------
    mu : float
        Gradient bound over noise scale, positive.
    curvature : float
        R^2 over the penalty, positive.
    side_mu : float
        GDP parameter of releases that any record may move by as much.
    information_mu : float
        How far a record can move the information matrix, over its noise.
    """

    mu: float
    curvature: float
    side_mu: float = 0.0
    information_mu: float = 0.0

    def deleted(self, epsilon: float) -> float:
        """Bound delta of a deletion."""
        nodes, weights = self._nodes(epsilon)
        return float(self._deleted_profile(np.array([epsilon]), nodes, weights)[0])

    def added(self, epsilon: float) -> float:
        """Bound delta of an addition."""
        nodes, _ = self._nodes(epsilon)
        return float(self._added_profile(np.array([epsilon]), nodes)[0])

    def profiles(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound the profiles of a deletion and an addition at increasing `epsilons` from 0 up."""
        nodes = epsilons
        if self.side_mu > 0.0:
            nodes = np.append(-epsilons[:0:-1], epsilons)
        weights = np.full(nodes.shape, _PRECISION / _COARSE)
        deleted = self._deleted_profile(epsilons, nodes, weights)
        return deleted, self._added_profile(epsilons, nodes)

    def _nodes(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Return increasing epsilons at which to evaluate, and how much each of them counts."""
        if self.side_mu == 0.0:
            return np.array([epsilon]), np.ones(1)
        # in standard deviations of the side's loss, which is largest where epsilon is least
        steep = min(max(epsilon, self.mu) / self.mu**2 * self.side_mu, 20.0)
        n = int(np.clip(math.ceil((11.0 + steep) * steep / _CHORD), 5, 60))
        z = np.append(np.linspace(-5.0, 6.0 + steep, n), 15.0 + steep)[::-1]
        distance = np.maximum(np.abs(z - 0.5 * steep) - 1.0 - 0.5 * steep, 0.0)
        return epsilon - self.side_mu * z, np.exp(-0.5 * distance**2)

    def _deleted_profile(
        self, epsilons: FloatArray, nodes: FloatArray, weights: FloatArray
    ) -> FloatArray:
        columns = self._deleted_columns()
        grid = np.broadcast_arrays(
            nodes[:, None], columns.bonuses, weights[:, None] * columns.shares
        )
        values = self._deleted(*(np.ravel(each) for each in grid)).reshape(grid[0].shape)
        return self._average(
            epsilons, nodes, values, columns, self.curvature + 4.0 * columns.bonuses
        )

    def _added_profile(self, epsilons: FloatArray, nodes: FloatArray) -> FloatArray:
        columns = self._added_columns()
        grid = np.broadcast_arrays(nodes[:, None], columns.bonuses)
        values = self._added(*(np.ravel(each) for each in grid)).reshape(grid[0].shape)
        thresholds = np.maximum(4.0 * columns.bonuses - 0.5 * self.mu**2, 0.0)
        return self._average(epsilons, nodes, values, columns, thresholds)

    def _deleted_columns(self) -> _Columns:
        """Chords over the law of z, with weights from E max(z - z_i, 0)."""
        z, mu = _NODES, self.information_mu
        if mu == 0.0:
            return _Columns(np.zeros(1), np.ones(1), 0.0)
        above = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - z * ndtr(-z)
        slopes = np.diff(above) / np.diff(z)
        # beyond the last node the density's gain is all there is: E e^(mu z) over z > z_last
        tail = math.exp(0.5 * mu * mu) * float(ndtr(mu - z[-1]))
        return _Columns(mu * z, np.diff(slopes, prepend=-1.0, append=0.0), tail)

    def _added_columns(self) -> _Columns:
        """Bonuses rounded up to the next node, since nothing is convex here."""
        z, mu = _NODES, self.information_mu
        if mu == 0.0:
            return _Columns(np.zeros(1), np.ones(1), 0.0)
        shares = -np.diff(ndtr(-z), prepend=1.0)
        return _Columns(mu * z + 0.5 * mu * mu, shares, float(ndtr(-z[-1])))

    def _average(
        self,
        epsilons: FloatArray,
        nodes: FloatArray,
        values: FloatArray,
        columns: _Columns,
        thresholds: FloatArray,
    ) -> FloatArray:
        """Average `values`, bounds at nodes and bonuses, over the bonus and the side's loss.

        From its threshold up, a column is the Gaussian profile.
        """
        side = self.side_mu
        if side == 0.0:
            return np.asarray(np.minimum(values @ columns.shares + columns.tail, 1.0))
        z = epsilons[:, None] - nodes
        above = ndtr((0.5 * side * side - z) / side)  # P(loss > z), rising along the nodes
        back = ndtr((-0.5 * side * side - z) / side)
        inside = np.maximum(np.diff(above, axis=1), 0.0)
        width = np.diff(nodes)
        growth = np.exp(epsilons[:, None] - nodes[:-1])
        mean = (np.maximum(np.diff(back, axis=1), 0.0) * growth - inside) / np.expm1(width)
        mean = np.clip(mean, 0.0, inside)
        # tangents of H in e^epsilon, from the middle of each cell to its ends
        middle = 0.5 * (nodes[1:] + nodes[:-1])
        height = gaussian_delta(middle, self.mu)
        slope = np.exp(np.minimum(middle, 700.0)) * ndtr(-0.5 * self.mu - middle / self.mu)
        left = height - slope * np.expm1(-0.5 * width)
        right = height - slope * np.expm1(0.5 * width)
        steep = (right < 0.0) | (middle > 700.0)  # then 0 is the better bound
        left, right = np.where(steep, 0.0, left), np.where(steep, 0.0, right)
        counts = nodes[:-1, None] < thresholds
        left = np.where(counts, values[:-1] - left[:, None], 0.0) @ columns.shares
        right = np.where(counts, values[1:] - right[:, None], 0.0) @ columns.shares
        last = np.where(nodes[-1] < thresholds, values[-1], 0.0) @ columns.shares
        total = gaussian_delta(epsilons, math.hypot(self.mu, side)) * (1.0 + 1e-12)
        total += inside @ left + mean @ (right - left)
        total += above[:, 0] + (1.0 - above[:, -1]) * last + columns.tail
        return np.asarray(np.minimum(total, 1.0))

    def _deleted(
        self, epsilons: FloatArray, bonuses: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Bound D(epsilon, a) elementwise, the closer the more it counts."""
        result = np.exp(np.minimum(bonuses, 700.0)) * self._quickly(epsilons - bonuses)
        free = epsilons >= self.curvature + 4.0 * bonuses
        result = np.where(free, gaussian_delta(epsilons, self.mu), result)
        matters = bonuses <= _RESOLVED * self.information_mu
        dear = np.flatnonzero(~free & matters & (epsilons > 0.0))
        if dear.size:
            tolerances = np.clip(_PRECISION / np.maximum(weights[dear], 1e-9), 2e-3, 1.0)
            # at larger epsilons the bound of this one holds
            at = np.minimum(epsilons[dear], _LARGEST_EPSILON)
            found = travel_deltas(at, self.mu, self.curvature, bonuses[dear], tolerances)
            result[dear] = np.minimum(result[dear], found)
        return result

    def _quickly(self, epsilons: FloatArray) -> FloatArray:
        """Bound D(epsilon, 0) by what is known at a few epsilons.

        From the curvature up it is Gaussian, from 0 down the addition's profile gives it exactly.
        Between them chords in e^epsilon lie above the (convex) profile.
        """
        bound = gaussian_delta(epsilons, self.mu)
        between = (epsilons > 0.0) & (epsilons < self.curvature)
        if between.any():
            ends, values = _known(self.mu, self.curvature)
            scale = np.expm1(np.minimum(epsilons, ends[-1]))
            bound = np.where(between, np.interp(scale, np.expm1(ends), values), bound)
        return bound

    def _added(self, epsilons: FloatArray, bonuses: FloatArray) -> FloatArray:
        """Bound delta of an addition elementwise: a sum from above where the loss is quadratic."""
        mu, mean = self.mu, 0.5 * self.mu**2
        kappa = np.maximum(4.0 * bonuses - mean, 0.0)
        result = gaussian_delta(np.maximum(epsilons, 0.0), mu)
        dear = np.flatnonzero(epsilons < kappa)
        if dear.size:
            at, kappa = epsilons[dear], kappa[dear]
            linear = ndtr((mean - kappa) / mu) - np.exp(at) * ndtr((-mean - kappa) / mu)
            edges = kappa[:, None] * np.linspace(-1.0, 1.0, _PANELS + 1)
            loss = np.square(edges + kappa[:, None]) / np.maximum(4.0 * kappa[:, None], 1e-300)
            gap = np.maximum(-np.expm1(at[:, None] - loss), 0.0)  # rises along the edges
            below = ndtr((edges - mean) / mu)
            quadratic = (np.diff(below, axis=1) * gap[:, 1:]).sum(axis=1)
            result[dear] = np.minimum(linear + quadratic + below[:, 0] * gap[:, 0], 1.0)
        return result


@lru_cache(maxsize=64)
def _known(mu: float, curvature: float) -> tuple[FloatArray, FloatArray]:
    """Return epsilons from 0 to the curvature, or as far as e^epsilon is a number, and deltas."""
    ends = [0.0, min(1.02 * least_epsilon(mu, curvature), _LARGEST_EPSILON), curvature]
    found = travel_deltas(np.array(ends[1:2]), mu, curvature, np.zeros(1))
    values = [*gaussian_delta(np.zeros(1), mu), *found, *gaussian_delta(np.array(ends[2:]), mu)]
    if not values[1] < values[0]:  # the search knows nothing, or nothing better
        ends, values = [0.0, min(curvature, _LARGEST_EPSILON)], [values[0], values[2]]
        if curvature > _LARGEST_EPSILON:
            values[1] = values[0]
    elif curvature > _LARGEST_EPSILON or curvature <= ends[1]:
        ends, values = ends[:2], values[:2]
        if curvature <= ends[1]:
            ends[1], values[1] = curvature, float(gaussian_delta(np.array([curvature]), mu)[0])
    return np.array(ends), np.array(values)
