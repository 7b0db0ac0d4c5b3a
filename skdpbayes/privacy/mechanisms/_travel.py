r"""A record deleted from a logistic objective: what the worst rest of the data can do.

Theorem 5a of the theory page. Let :math:`y` be the gradient of all other terms at the minimizer,
along the record and over :math:`\sigma`. Without the record :math:`y\sim N(0,1)`; with it
:math:`y-\mu s\sim N(0,1)`, where :math:`s` is the record's residual. The other records only decide
how fast the logit :math:`v=\log((1-s)/s)` rises along :math:`y`: at a slope between 0 and
:math:`k/\mu`. With :math:`x=s(1-s)` and a *bonus* :math:`a\ge0`, which is what the noise of a
released information matrix contributes, every such *path* has

.. math:: \delta(\varepsilon) = \int \left(e^{4xa}\varphi(y-\mu s)(1+x\mu v') -
          e^\varepsilon\varphi(y)\right)_+ dy .

Write :math:`m=\mu s`, :math:`c=\mu/k`, :math:`w=e^{4xa}`, :math:`\gamma=\log(1+kx)+4xa`,
:math:`R(v)=wH(\varepsilon-4xa;m)` for what resting at :math:`v` forever gains, which it does where
:math:`y\ge y_P=(\varepsilon-4xa)/m+m/2`. Collected by level, the integral is at most
:math:`R(-\infty)+\int f(y(v),v)\,dv` with :math:`\tau(v)=y(v)-cv` nondecreasing,

.. math:: f = c\left(e^\gamma\varphi(y-m)-e^\varepsilon\varphi(y)\right)_+ + R'(v)
          \quad (y\le y_P), \qquad f = w'(v)\,\Phi(m-y) \quad (y>y_P).

In :math:`y`, :math:`f` rises to one peak, at :math:`y^*` or :math:`y_P`, and falls. Where
:math:`t(v)=\text{peak}-cv` falls, the best nondecreasing :math:`\tau` is a constant; after that
every level is given its best :math:`\tau` above that constant. What is left is a maximum over one
number, which is bounded on intervals: on a constant :math:`\tau`, where the path moves,
:math:`\psi+R` is an antiderivative of :math:`f-w'\Phi(m-y)`, with
:math:`\psi=e^\varepsilon\Phi(-y)-w\Phi(m-y)`.

Nothing is rounded down. All that is evaluated at the nodes of :math:`v` comes with a bound for the
cells between them; the code says which.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from skdpbayes.privacy.mechanisms.gdp import FloatArray

Indices = NDArray[Any]
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_ROUNDOFF = 2.0**-53
_PARTS = 4  # of a cell, where every level has its own peak
_NEWTON = 8  # steps, from below: the function is concave and rises
_TOLERANCE = 2e-3  # of the maximum over tau
_ROUNDS = 6  # of quartering intervals
_AT_ONCE = 96  # intervals, to stay within the processor's cache
_FIRST = 12  # intervals of the first round
_LEVELS = 12.0 * np.sinh(3.0 * np.linspace(-1.0, 0.85, 112)) / math.sinh(3.0)
_LEVELS[np.argmin(np.abs(_LEVELS))] = 0.0  # no cell has its largest x inside
_RISING = int(np.count_nonzero(_LEVELS[1:] <= 0.0))  # cells
_REFINED = np.interp(
    np.arange((_LEVELS.size - 1) * _PARTS + 1) / _PARTS, np.arange(_LEVELS.size), _LEVELS
)


class _Levels:
    """Nodes of the logit, one row per setting, and bounds on the cells between them."""

    def __init__(
        self, v: FloatArray, epsilon: FloatArray, mu: float, k: float, bonus: FloatArray
    ) -> None:
        self.v, self.s = v, expit(-v)
        self.x = self.s * expit(v)
        self.m, self.c, self.width = mu * self.s, mu / k, np.diff(v)
        bonus_part = 4.0 * bonus[:, None] * self.x
        self.log_det = np.log1p(k * self.x)
        self.gain = self.log_det + bonus_part
        self.weight = np.exp(bonus_part)
        left = epsilon[:, None] - bonus_part
        self.edge = left / self.m + 0.5 * self.m  # y_P
        first = self.weight * ndtr(self.m - self.edge)
        self.resting = first - np.exp(epsilon)[:, None] * ndtr(-self.edge)
        self.rounding = (4.0 + self.edge**2) * first
        # Phi(m - y_P) at its largest on a cell: m - y_P is concave in s, flat at `turn`
        turn = np.sqrt(epsilon / np.maximum(4.0 * bonus - 0.5 * mu * mu, 1e-300))
        s = np.clip(turn[:, None], self.s[1:], self.s[:-1])
        most = epsilon[:, None] - 4.0 * bonus[:, None] * s * (1.0 - s)
        self.beyond = ndtr(0.5 * mu * s - most / (mu * s))
        # w' Phi(m - y) is at most rise times Phi, which falls along a path
        self.rise = np.maximum(np.diff(self.weight), 0.0)
        # where the peak is y_P for certain: k (1 - s)(y_P - m) < mu, every factor at its largest
        most = np.maximum(left[:, :-1], left[:, 1:]) / self.m[1:] - 0.5 * self.m[1:]
        self.stays = (1.0 - self.s[1:]) * most < self.c

    def best(self, epsilon: FloatArray) -> FloatArray:
        """Bound the integral over each cell of the largest f of every level, or 0.

        The peak of ``e^gain phi(y - m) - e^epsilon phi(y)`` grows with gain and m. At it the
        derivative is 0, so that the value is ``e^gain phi(y - m) m / y``: decreasing in y, hence
        an upper bound at a y that Newton's method has left below the peak. Where w falls, R' is
        replaced by what makes f vanish at y_P, so that the bound is not negative anywhere.
        """
        gain, m = np.maximum(self.gain[:, 1:], self.gain[:, :-1]), self.m[:-1]
        y = _peak(epsilon[:, None] - gain, m)
        moving = self.c * _DENSITY * np.exp(gain - 0.5 * (y - m) ** 2) * m / y
        moving = moving * (1.0 + 64.0 * _ROUNDOFF * (4.0 + y * y))
        falls = np.maximum(-np.diff(self.weight), 0.0)
        moving = moving * self.width + np.diff(self.resting) + falls * self.beyond
        return np.asarray(np.where(self.stays, self.rise * self.beyond, moving))

    def highest_peaks(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound peak - m and the peak from above on each cell.

        Both grow when the gain falls. With d = y - m the peak solves
        ``m d + m^2/2 + gain - epsilon = log(1 + m/d)``, so that d rises in m while y < 1 and falls
        while y > 1.
        """
        gain = np.minimum(self.gain[:, 1:], self.gain[:, :-1])
        room = epsilon[:, None] - gain
        ends = [_above(_peak(room, m), room, m) for m in (self.m[:-1], self.m[1:])]
        distance = np.maximum(ends[0] - self.m[:-1], ends[1] - self.m[1:])
        turns = (ends[1] < 1.0) & (ends[0] > 1.0 - 1e-9)
        distance = np.where(turns, np.maximum(distance, 1.0 - self.m[1:]), distance)
        return distance, distance + self.m[:-1]


def _peak(room: FloatArray, m: FloatArray) -> FloatArray:
    """Return where e^(epsilon - room) phi(y - m) - e^epsilon phi(y) is largest, from below."""
    y = room / m + 0.5 * m
    for _ in range(_NEWTON):
        value = m * y - 0.5 * m * m - room + np.log1p(-m / y)
        y = y - value / (m + m / (y * (y - m)))
    return np.asarray(y)


def _above(y: FloatArray, room: FloatArray, m: FloatArray) -> FloatArray:
    """Return a number above the peak near `y`, or infinity."""
    y = y * (1.0 + 1e-9)
    proved = m * y - 0.5 * m * m - room + np.log1p(-m / y) > 1e-13 * (m * y + room)
    return np.asarray(np.where(proved, y, math.inf))


def travel_deltas(
    epsilons: FloatArray,
    mu: float,
    curvature: float,
    bonuses: FloatArray,
    tolerances: FloatArray | float = _TOLERANCE,
) -> FloatArray:
    """Bound the integral of the module for every pair of `epsilons` and `bonuses`.

    Proved for one record, whatever the others are; not for several records of one person.

    Parameters
    ----------
    epsilons, bonuses : ndarray of one shape (n,)
        Any real numbers, and numbers from 0 up.
    mu : float
        Gradient bound over noise scale, positive.
    curvature : float
        R^2 over the penalty, positive.
    tolerances : ndarray of shape (n,) or float
        By how much, relatively, the maximum over tau may be exceeded.

    Returns
    -------
    ndarray of shape (n,)
        Infinity where the bound does not apply: at an epsilon that the determinant, the bonus and
        the mean of the Gaussian loss may exceed together.
    """
    fits = epsilons > 1.000001 * _least_epsilons(mu, curvature, bonuses)
    result = np.full(epsilons.shape, math.inf)
    if fits.any():
        search = _Search(epsilons[fits], mu, curvature, bonuses[fits])
        result[fits] = search.maximum(np.broadcast_to(tolerances, epsilons.shape)[fits])
    return result


def least_epsilon(mu: float, curvature: float) -> float:
    """Return the epsilon above which `travel_deltas` applies without a bonus."""
    return 1.000001 * float(_least_epsilons(mu, curvature, np.zeros(1))[0])


def _least_epsilons(mu: float, curvature: float, bonuses: FloatArray) -> FloatArray:
    """Return the largest gain + m^2 / 2 of any cell, so that y_P > y_0 > m above it."""
    s = expit(-_LEVELS)
    x = np.append(s * (1.0 - s), 0.0)
    gain = np.log1p(curvature * x) + 4.0 * bonuses[:, None] * x
    m = mu * np.append(1.0, s)  # of the cell to the right of a node, and before the first
    cells = np.maximum(gain, np.roll(gain, 1, axis=1)) + 0.5 * m * m
    return np.asarray(cells.max(axis=1))


class _Search:
    """The bound as a function of tau, the path's y - c v up to where t(v) ceases to fall."""

    def __init__(self, epsilon: FloatArray, mu: float, k: float, bonus: FloatArray) -> None:
        self.epsilon, self.scale = epsilon, np.exp(epsilon)
        self.levels = levels = _Levels(_LEVELS, epsilon, mu, k, bonus)
        v, s, x, m, c = levels.v, levels.s, levels.x, levels.m, levels.c
        # Before the first level and after the last, as if all could be had at once
        gain, shift = levels.gain[:, [0, -1]], np.array([mu, m[-1]])
        ratio = (epsilon[:, None] - gain) / shift
        ends = np.exp(gain) * ndtr(0.5 * shift - ratio)
        ends -= self.scale[:, None] * ndtr(-0.5 * shift - ratio)
        self.start = ends.sum(axis=1)

        refined = _Levels(_REFINED, epsilon, mu, k, bonus)
        self.best = refined.best(epsilon).reshape(epsilon.size, -1, _PARTS).sum(axis=2)
        # where in its cell the rise of w is centered, at least: w is summed from above
        mean = refined.weight[:, 1:].reshape(epsilon.size, -1, _PARTS).mean(axis=2)
        least = levels.weight[:, 1:] - np.maximum(mean, levels.weight[:, :-1])
        self.center = np.clip(least / np.maximum(levels.rise, 1e-300), 0.0, 1.0)
        distance, peak = levels.highest_peaks(epsilon)
        # the slope of y* is at most this where x rises along v
        pull = k / (1.0 + k * x[1:]) + 4.0 * bonus[:, None]
        slope = (1.0 - s[1:]) * np.maximum(distance - 1.0 / distance, 0.0)
        slope = slope - (1.0 - s[:-1]) * (2.0 * s[1:] - 1.0) * pull / mu
        damped = 1.0 / (1.0 + 1.0 / (distance * peak))
        slope = np.where(slope > 0.0, slope * damped, slope)
        falls = (levels.stays | (slope < c)) & (v[1:] <= 0.0)
        self.free = np.cumsum(~falls, axis=1) > 0
        edge = np.maximum(levels.edge[:, :-1], levels.edge[:, 1:])
        most = epsilon[:, None] - 4.0 * bonus[:, None] * np.minimum(x[:-1], x[1:])
        edge = np.maximum(edge, most / m[1:] + 0.5 * m[1:])
        self.highest_t = np.minimum(peak, edge) - c * v[:-1]
        self.highest_edge = edge
        # How far the loss along a path is from its chord, over width^2 / 8, a constant and per
        # |y|: in the derivatives of m y, m^2 / 2, log(1 + k x) and 4 a x, those of s and x are at
        # most x, and those of x at most 0.0963 and 1/8
        local, k_square = np.maximum(x[:-1], x[1:]), min(0.01 * k * k, 1.0)
        anywhere = 0.5 * mu * c + 0.08 * mu * mu + 0.125 * k + k_square + 0.5 * bonus
        here = 2.0 * mu * c + mu * mu + 1.25 * k + 4.0 * bonus
        self.bend = np.minimum(anywhere[:, None], local * here[:, None])
        self.bend_per_y = mu * np.minimum(0.0963, local)

    def maximum(self, tolerances: FloatArray) -> FloatArray:
        """Bound the gain by intervals of tau that are quartered while they matter."""
        levels, size = self.levels, self.epsilon.size
        # tau so low that the path rests until t rises: then the best of every level
        change = np.diff(levels.resting)
        bound = np.where(self.free, self.best, change).sum(axis=1)
        lowest, highest = self._range()
        bound = np.where(np.isfinite(lowest), bound, math.inf)
        lowest = np.where(np.isfinite(lowest), lowest, highest)
        edges = lowest[:, None] + (highest - lowest)[:, None] * np.linspace(0.0, 1.0, _FIRST + 1)
        row = np.repeat(np.arange(size), _FIRST)
        low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        # beyond the highest tau every level falls
        bound = np.maximum(bound, self.upper(np.arange(size), highest, highest)[0])
        best = bound.copy()
        for turn in range(_ROUNDS):
            parts = [slice(i, i + _AT_ONCE) for i in range(0, row.size, _AT_ONCE)]
            pairs = [self.upper(row[part], low[part], high[part]) for part in parts]
            upper, excess = (np.concatenate(each) for each in zip(*pairs, strict=True))
            order = np.argsort(upper, kind="stable")
            promising = np.zeros(size, dtype=np.int64)
            promising[row[order]] = order  # the last one assigned, hence the largest
            settings = np.unique(row)
            tau = (0.5 * (low + high))[promising[settings]]
            best[settings] = np.maximum(best[settings], self.upper(settings, tau, tau)[0])
            upper = upper + excess
            matters = self.start[row] + upper > ((self.start + best) * (1.0 + tolerances))[row]
            if turn == _ROUNDS - 1:
                matters[:] = False
            np.maximum.at(bound, row[~matters], upper[~matters])
            if not matters.any():
                break
            quarter = 0.25 * (high - low)[matters]
            low = (low[matters][:, None] + quarter[:, None] * np.arange(4)).ravel()
            high = low + np.repeat(quarter, 4)
            row = np.repeat(row[matters], 4)
        rounding = 64.0 * _ROUNDOFF * levels.rounding.sum(axis=1)
        return np.asarray((self.start + np.maximum(bound, 0.0)) * (1.0 + 1e-9) + rounding)

    def _range(self) -> tuple[FloatArray, FloatArray]:
        """Return a tau at which all cells before t rises rest, and one beyond all their peaks.

        The first is minus infinity if it was not found.
        """
        levels = self.levels
        highest = np.where(self.free, -math.inf, self.highest_t).max(axis=1)
        highest = np.where(np.isfinite(highest), highest, 0.0)
        zero = (self.epsilon[:, None] - levels.gain) / levels.m + 0.5 * levels.m
        zero = (zero - levels.c * levels.v)[:, :-1]
        lowest = np.minimum(np.where(self.free, math.inf, zero).min(axis=1), highest)
        step = 0.02 * (highest - lowest + 1.0)
        for _ in range(20):
            _, most = self._losses(np.arange(lowest.size), lowest, lowest)
            moves = ((most > 0.0) & ~self.free).any(axis=1)
            if not moves.any():
                break
            lowest = np.where(moves, lowest - step, lowest)
            step = 1.5 * step
        return np.where(moves, -math.inf, lowest), highest

    def _losses(
        self, row: Indices, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the loss of moving from below and above, on each cell and for each tau.

        It is off the chord between two nodes by at most its largest second derivative along the
        path times width^2 / 8.
        """
        levels = self.levels
        first = low[:, None] + levels.c * levels.v
        last = high[:, None] + levels.c * levels.v
        constant = (levels.gain - 0.5 * levels.m**2 - self.epsilon[:, None])[row]
        least, most = levels.m * first + constant, levels.m * last + constant
        reach = np.maximum(np.maximum(-first[:, :-1], last[:, 1:]), 0.0)
        slack = (self.bend[row] + self.bend_per_y * reach) * (0.125 * levels.width**2)
        least = np.minimum(least[:, :-1], least[:, 1:]) - slack
        return least, np.maximum(most[:, :-1], most[:, 1:]) + slack

    def upper(
        self, row: Indices, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Bound the gain beyond `start` in the middle of intervals, and its rise within them."""
        levels = self.levels
        m, c, v = levels.m, levels.c, levels.v
        least, most = self._losses(row, low, high)
        first, last = low[:, None] + c * v, high[:, None] + c * v
        free = self.free[row]
        own = free & (self.highest_t[row] > low[:, None])
        # A cell is counted as moving or as resting throughout, and pays for the other possibility
        nearest = np.maximum(first[:, :-1], 0.0)
        price = (c * _DENSITY) * levels.width * self.scale[row][:, None]
        price = price * np.exp(-0.5 * nearest * nearest)
        if_moving = price * -np.expm1(np.minimum(least, 0.0))
        if_moving = np.where(first[:, :-1] < self.highest_edge[row], if_moving, 0.0)
        # below y_P, where resting gains nothing, the loss of moving is below log(1 + k x)
        below = most < np.minimum(levels.log_det[:-1], levels.log_det[1:])
        if_resting = price * np.expm1(np.clip(most, 0.0, 1.0))  # at 1 it is not chosen
        rests = ~free & below & (if_resting < if_moving)
        change, best = np.diff(levels.resting)[row], self.best[row]
        other = np.where(rests, change + if_resting, if_moving)
        own |= best < other  # what no tau can exceed
        moves = ~own & ~rests
        total = np.where(own, best, other)
        total = total.sum(axis=1)
        slope = np.zeros(low.size)
        if levels.rise.any():
            # Phi(m - y) is convex in tau where y > m, and along the path if 4 c (y - m) >= 1
            past = np.maximum(first, np.where(first >= m, last, first))
            shares = [self._rising(row, first, y, moves) for y in (first, past)]
            total += 0.5 * (shares[0] + shares[1])
            slope = (shares[1] - shares[0]) / np.maximum(high - low, 1e-300)
        # moving all along, the gains telescope: only the ends of the runs count
        border = np.diff(moves.astype(np.int8), axis=1, prepend=np.int8(0), append=np.int8(0))
        at, node = np.nonzero(border)
        gain, excess = self._telescoped(-border[at, node], at, node, row, low, high, slope)
        return np.asarray(total + gain), excess

    def _rising(
        self, row: Indices, first: FloatArray, y: FloatArray, moves: FloatArray
    ) -> FloatArray:
        """Bound the integral of w' Phi(m - y) over the cells that move, before w falls."""
        levels, n = self.levels, _RISING
        m = levels.m[: n + 1]
        beyond = ndtr(m - y[:, : n + 1])
        convex = 4.0 * levels.c * (first[:, :n] - m[:-1]) >= 1.0
        drop = np.where(convex, self.center[row, :n] * -np.diff(beyond), 0.0)
        rise = np.where(moves[:, :n], levels.rise[row, :n], 0.0)
        return np.asarray((rise * (beyond[:, :-1] - drop)).sum(axis=1))

    def _telescoped(
        self,
        sign: FloatArray,
        at: Indices,
        node: Indices,
        row: Indices,
        low: FloatArray,
        high: FloatArray,
        other_slope: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Sum `sign` times psi + R in the middle of the intervals; bound how it exceeds that.

        By Taylor's formula in tau: the first two derivatives in the middle, the third (or, where
        the interval meets y_P, the second) bounded by its terms.
        """
        levels, setting = self.levels, row[at]
        m, edge = levels.m[node], levels.edge[setting, node]
        weight, scale = levels.weight[setting, node], self.scale[setting]
        half = 0.5 * (high - low)
        middle = (0.5 * (low + high))[at] + levels.c * levels.v[node]
        y = np.minimum(middle, edge)
        first, second = scale * ndtr(-y), weight * ndtr(m - y)
        error = 64.0 * _ROUNDOFF * (4.0 + y * y) * (first + second)
        value = sign * (first - second + levels.resting[setting, node]) + error
        above, below = scale * _density(y), weight * _density(y - m)
        inside = middle < edge
        slope = np.where(inside, sign * (below - above), 0.0)
        bend = np.where(inside, sign * (y * above - (y - m) * below), 0.0)
        room = half[at]
        nearest, reach = y - room, np.abs(y) + room
        above = scale * _density(np.maximum(nearest, 0.0))
        below = weight * _density(np.maximum(nearest - m, 0.0))
        third = room * ((1.0 + reach**2) * above + (1.0 + (reach + m) ** 2) * below)
        crude = reach * above + (reach + m) * below
        bend = np.where(np.abs(middle - edge) < room, crude, bend + third)
        bend = np.where(middle - edge >= room, 0.0, bend)
        value, slope, bend = (
            np.bincount(at, each, low.size).astype(np.float64) for each in (value, slope, bend)
        )
        slope = slope + other_slope
        step = np.where(bend < 0.0, np.abs(slope) / np.maximum(-bend, 1e-300), half)
        step = np.minimum(step, half)
        return value, np.abs(slope) * step + 0.5 * bend * step * step


def _density(y: FloatArray) -> FloatArray:
    return np.asarray(_DENSITY * np.exp(-0.5 * y * y))
