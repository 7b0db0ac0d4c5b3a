r"""A record of several classes deleted: the largest determinant and the largest loss do not meet.

Theorem 5c of the theory page. The privacy loss of deleting a record of label *y* is at most

.. math:: L = \max_p\ \sum_{j\ne y} p_jA_j + \kappa\,(1-\|p\|^2),
          \qquad A_j = \frac{\mu}{\sqrt2}(\xi_y-\xi_j) + \frac{\mu^2}{2},

over all probabilities *p*, with :math:`\xi` standard normal, one entry per class, and
:math:`\kappa=k-\mu^2/4`. (Any tangent of the determinant's logarithm gives such a bound, with a
smaller :math:`\kappa` and an offset.) Spreading *p* gains curvature and gives up the largest
:math:`A_j`. Let it be :math:`A_1`, and :math:`\Delta_k=A_1-A_k\ge0`, with :math:`A_y=0`. With
:math:`r_k=p_k`, :math:`k\ne1`, the loss is :math:`A_1+\sum r_k(2\kappa-\Delta_k)
-\kappa((\sum r_k)^2+\sum r_k^2)`. The mixed square is at least :math:`\sum r_k^2` and at least
:math:`2t\sum r_k-t^2` for every *t*, hence

.. math:: L \le A_1 + \sum_{k\ne1}\frac{(2\kappa-\Delta_k)_+^2}{8\kappa}, \qquad
          L \le A_1 + \kappa t^2 + \sum_{k\ne1}\frac{(2\kappa(1-t)-\Delta_k)_+^2}{4\kappa} .

Given :math:`\xi_1` and :math:`\xi_y` the *gains* :math:`c_k` that are summed here are independent,
and alike for all classes but *y*. As a function of each :math:`e^{-c_k}` alone
:math:`(1-e^{\varepsilon-L})_+` is convex, so it is bounded by moving the probability of every value
between two nodes of a grid to these nodes, with the mean of :math:`e^{-c_k}` kept. A sum over the
choice of class 1 gives the factor :math:`K-1`; where all :math:`A_j<0`, :math:`L\le\kappa`.

Releases around the minimizer have a loss of their own, normal and independent; with it
:math:`A_1` is normal with :math:`\mu'^2=\mu^2+\mu_s^2`. All gains fall with :math:`\xi_y-\xi_1`, so
that on a cell of it the law at its lower end bounds them, and *t* may be chosen for every cell.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from skdpbayes.privacy.mechanisms._shifted_profile import gaussian_delta_once
from skdpbayes.privacy.mechanisms.gdp import FloatArray

_NODES = 24  # of the gain of one class
_LONGEST = 96  # nodes of the gains of all classes, unless one each is more
_CELLS = 120  # of w, the standard normal in A_1
_FARTHEST = 10.0
_POSITIONS = np.linspace(-8.0, 8.0, 129)  # cells of xi_1 end here
_ALONE = -1.0  # stands for (sum r)^2 >= sum r^2
_SPREADS = (0.05, 0.15, 0.3, 0.5, 0.7)
_ROUNDING = 1e-15


def spread_delta(epsilon: float, mu: float, side_mu: float, kappa: float, n_classes: int) -> float:
    """Bound delta of deleting a record at any real `epsilon`, with the curvature `kappa` > 0.

    Parameters
    ----------
    epsilon : float
        The budget, less the offset of the determinant's tangent.
    mu, side_mu : float
        Gradient bound over noise scale, and of what is released around the minimizer.
    kappa : float
        Factor on 1 - |p|^2, positive.
    n_classes : int
        At least 3.
    """
    both = math.hypot(mu, side_mu)
    spreads = (_ALONE,) if n_classes == 3 else (_ALONE, *_SPREADS)
    cells = np.full(_CELLS + 2, math.inf)  # each takes the spread that bounds it best
    for spread in spreads:
        edges, law, step = _gains(mu, side_mu, kappa, n_classes, spread)
        left = epsilon - _offset(spread, kappa) - step * np.arange(law.shape[1])
        # the integral of phi(w) (1 - e^(left - both w - both^2 / 2))_+ over each cell
        turn = left / both - 0.5 * both
        tails = np.minimum(ndtr(-edges)[:, None], ndtr(-turn))
        moved = np.minimum(ndtr(-edges - both)[:, None], ndtr(-turn - both))
        first, second = -np.diff(tails, axis=0), -np.diff(moved, axis=0)
        error = _ROUNDING * (8.0 + np.square(turn)) * tails[:-1] * (first > 0.0)
        gain = np.maximum(first - np.exp(left) * second, 0.0) + error
        here = np.einsum("ij,ij->i", law, gain)
        cells = np.minimum(cells, here)
    negative = gaussian_delta_once(epsilon - kappa, side_mu)
    return min(1.0, negative + (n_classes - 1) * float(cells.sum()) * (1.0 + 1e-12))


def _offset(spread: float, kappa: float) -> float:
    return 0.0 if spread == _ALONE else kappa * spread * spread


@lru_cache(maxsize=256)
def _gains(
    mu: float, side_mu: float, kappa: float, n_classes: int, spread: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return cells of the normal in A_1, the law of all gains on each, and its spacing.

    A gap of Delta gains (room - Delta)_+^2 / scale.
    """
    others = n_classes - 2
    nodes = max(1, min(_NODES, _LONGEST // others))
    if spread == _ALONE:
        room, scale = 2.0 * kappa, 8.0 * kappa
    else:
        room, scale = 2.0 * kappa * (1.0 - spread), 4.0 * kappa
    step = room * room / scale / nodes
    given_position = _power(_one_gain(mu, room, scale, nodes), others)
    first = -0.5 * mu  # below it A_1 < 0, which is counted apart; the law here holds on
    ends = np.linspace(first, first + _FARTHEST, _CELLS + 1)
    # xi_1 given w = (xi_y - xi_1) / sqrt(2) is normal with mean -w / sqrt(2) and variance 1/2
    below = ndtr(math.sqrt(2.0) * _POSITIONS + ends[:, None])
    weights = np.diff(below, axis=1, prepend=0.0, append=1.0)
    own = np.square(np.maximum(room - mu * (ends - first), 0.0)) / scale
    law = _shifted(weights @ given_position, own, step)
    law = np.concatenate([law[:1], law])  # from minus infinity on
    edges = np.concatenate([[-math.inf], ends, [math.inf]])
    if side_mu > 0.0:  # w given the normal of both losses together, at the lower ends of its cells
        share = mu / math.hypot(mu, side_mu)
        rest = side_mu / math.hypot(mu, side_mu)
        below = ndtr((ends - share * ends[:, None]) / rest)
        mixed = np.diff(below, axis=1, prepend=0.0, append=1.0) @ law
        law = np.concatenate([law[:1], mixed])
    return edges, law, step


def _one_gain(mu: float, room: float, scale: float, nodes: int) -> FloatArray:
    """Return the law of one class's gain on the nodes, for each cell of xi_1, at its upper end."""
    slope = mu / math.sqrt(2.0)  # of the gap in xi_k
    gains = room * room / scale * np.arange(nodes + 1) / nodes
    # the gain is at least that of node i up to x_i
    x = _POSITIONS[:, None] + (room - np.sqrt(scale * gains)) / slope
    # e^-gain = e^(-tau (x - x_0)^2 / 2), whose integral against the normal density is normal again
    tau = 2.0 * slope * slope / scale
    center, root = tau * x[:, :1] / (1.0 + tau), math.sqrt(1.0 + tau)
    height = np.exp(-0.5 * tau * x[:, :1] ** 2 / (1.0 + tau)) / root
    mass = -np.diff(ndtr(x), axis=1)
    mean = -np.diff(height * ndtr((x - center) * root), axis=1)
    u = np.exp(-gains)
    up = np.clip((u[:-1] * mass - mean + _ROUNDING) / (u[:-1] - u[1:]), 0.0, mass)
    law = np.zeros((x.shape[0] + 1, nodes + 1))
    law[:-1, :-1] += mass - up
    law[:-1, 1:] += up
    law[:-1, 0] += ndtr(-x[:, 0])
    law[:-1, -1] += ndtr(x[:, -1])
    law[-1, -1] = 1.0  # beyond the last cell
    return law


def _power(law: FloatArray, count: int) -> FloatArray:
    """Return the law of `count` independent gains, row by row."""
    if count == 1:
        return law
    half = _power(law, count // 2)
    square = _convolve(half, half)
    return _convolve(square, law) if count % 2 else square


def _convolve(one: FloatArray, other: FloatArray) -> FloatArray:
    result = np.zeros((one.shape[0], one.shape[1] + other.shape[1] - 1))
    for i in range(one.shape[1]):
        result[:, i : i + other.shape[1]] += one[:, i : i + 1] * other
    return result


def _shifted(law: FloatArray, gains: FloatArray, step: float) -> FloatArray:
    """Add a gain to each row, between two nodes with the mean of e^-gain kept."""
    whole = np.floor(gains / step).astype(int)
    part = -np.expm1(whole * step - gains) / -math.expm1(-step)
    result = np.zeros((law.shape[0], law.shape[1] + int(whole.max()) + 1))
    for row in range(law.shape[0]):
        start, share = whole[row], min(1.0, float(part[row]) + _ROUNDING)
        result[row, start : start + law.shape[1]] += (1.0 - share) * law[row]
        result[row, start + 1 : start + 1 + law.shape[1]] += share * law[row]
    return result
