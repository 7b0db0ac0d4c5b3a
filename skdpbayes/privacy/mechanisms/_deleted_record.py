r"""The exact profile of deleting one logistic record under objective perturbation.

**One dimension is enough.** Let :math:`v=-(\nabla L_{rest}(\theta)+\lambda\theta)`, a one-to-one
function of the minimizer that does not know the record :math:`u`. Without the record
:math:`v=b`; with it :math:`v=b-su`, :math:`s` the logistic function of :math:`-u^\top\theta`.
Across :math:`u` both have the same law. Along :math:`u`, in units of :math:`u`, the first is
:math:`N(0,1/\mu^2)`, with density :math:`\varphi`, and the second has density
:math:`\varphi(v+S(v))(1+S'(v))`, where :math:`S` is :math:`s` as a function of :math:`v`. Since
:math:`d(u^\top\theta)/dv=-u^\top H_{rest}^{-1}u\in[-k,0]`,

.. math:: 0\le S'\le k\,S(1-S), \qquad 0\le S\le1 .

(A record of length :math:`\rho R` is covered: :math:`\rho S(v/\rho)` has these properties, too.)
So delta is at most the largest :math:`\int(\varphi(v+S)(1+S')-e^\varepsilon\varphi(v))_+dv` over
such functions: the *positive variation* of :math:`\psi(v,S(v))`, where
:math:`\psi(v,s)=\Phi(v+s)-e^\varepsilon\Phi(v)` with :math:`\Phi` the distribution function of
:math:`\varphi`.

**The best S.** Write :math:`y` for the logit of :math:`S` and :math:`c=v-y/k`. The conditions say
that neither :math:`y` nor :math:`c` ever falls. With :math:`\Psi(c,y)=\psi(c+y/k,s)` the integrand
is at most :math:`(\Psi_c)_+dc+(\Psi_y)_+dy`. Here
:math:`\Psi_c=\varphi(v+s)-e^\varepsilon\varphi(v)` is positive where
:math:`v<v_0(s)=-\varepsilon/(\mu^2s)-s/2`, and there :math:`\Psi_y` is positive as well. Subtract
the differential of :math:`G=\psi(\min(v,v_0(s)),s)`, which rises from 0 to
:math:`H(\varepsilon;\mu)` in all and takes up the whole first term. What is left is

.. math:: \delta(\varepsilon) = H(\varepsilon;\mu) + \sup_{c(\cdot)} \int q(c(y)+y/k, s)\,dy,
          \qquad q = 0 \text{ if } v\le v_0(s), \text{ else }
          q = \varphi(v+s)\left(\tfrac{1-r}{k}+s(1-s)\right)_+ - \varphi(v_0+s)\,s(1-s),

with :math:`r=e^{\varepsilon+\mu^2(sv+s^2/2)}`, over all functions :math:`c` that never fall. Given
:math:`s` the function :math:`q` has one peak in :math:`v`: where its first term is positive its
derivative has the sign of :math:`-v(\frac{1-r}{k}+s(1-s))-s(\frac1k+s(1-s))`, which decreases for
:math:`v<0` and is negative for :math:`v\ge0`.

**The computation** divides the values of :math:`c` into cells, takes for every node in :math:`y`
the largest :math:`q` of each cell, at its peak if that is inside, and finds the best nondecreasing
sequence of cells by dynamic programming: an upper bound on the supremum. The midpoint rule in
:math:`y` is covered by a margin.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, ndtr

from skdpbayes.privacy.mechanisms._shifted_profile import gaussian_delta
from skdpbayes.privacy.mechanisms.gdp import FloatArray

__all__ = ["deleted_profile", "largest_excess", "smoothed"]

_STEPS = 120  # of the integral over y
_CELLS = 128  # of c
_FINE = 1024  # points at which its steps are chosen
_SCAN = 64  # of the search for the region where cells must be narrow
_LARGEST_LOGIT = 16.0
_TAIL = 12.0  # standard deviations beyond which the noise is not looked at
# Relative, for the midpoint rule: eight times as many steps moved 240 random cases by 0.32 % at
# most
_MARGIN = 1e-2
_AT_ONCE = 32  # values of epsilon, to bound the memory


def deleted_profile(epsilons: FloatArray, mu: float, curvature: float) -> FloatArray:
    """Bound delta of deleting one logistic record at every entry of `epsilons`.

    Parameters
    ----------
    epsilons : ndarray
        Any real numbers; below 0 the profile of the addition, which is Gaussian, gives it exactly.
    mu : float
        Gradient bound over noise scale, positive.
    curvature : float
        ``R**2 / penalty``, positive.
    """
    bound = gaussian_delta(epsilons, mu)
    dear = np.flatnonzero((epsilons > 0.0) & (epsilons < curvature))
    for first in range(0, dear.size, _AT_ONCE):
        part = dear[first : first + _AT_ONCE]
        excess = largest_excess(epsilons[part], mu, curvature)
        bound[part] += excess + np.where(excess > 0.0, _MARGIN * (bound[part] + excess), 0.0)
    return np.asarray(np.minimum(bound, 1.0))


def smoothed(
    epsilons: FloatArray, nodes: FloatArray, values: FloatArray, side_mu: float
) -> FloatArray:
    r"""Bound the profile of a release together with a Gaussian one of parameter `side_mu`.

    With :math:`z\sim N(\mu_s^2/2,\mu_s^2)` the loss of the second, the profile of both is
    :math:`E\,\delta(\varepsilon-z)`. A profile is convex in :math:`e^\varepsilon`, so its chords
    between `nodes` lie above it; their averages are Gaussian probabilities.

    Parameters
    ----------
    epsilons : ndarray
        Where the bound is wanted.
    nodes, values : ndarray
        Increasing epsilons, and bounds on the first profile there.
    side_mu : float
        GDP parameter of the second release, positive.
    """
    z = epsilons[:, None] - nodes
    above = ndtr((0.5 * side_mu * side_mu - z) / side_mu)  # P(loss > z), falling along nodes
    above_back = ndtr((-0.5 * side_mu * side_mu - z) / side_mu)
    inside = np.maximum(np.diff(above, axis=1), 0.0)
    inside_back = np.maximum(np.diff(above_back, axis=1), 0.0)
    growth = np.exp(nodes[:-1] - epsilons[:, None])
    width = np.expm1(np.diff(nodes))
    share = np.clip((inside_back / growth - inside) / width, 0.0, inside)
    total = inside @ values[:-1] + share @ np.diff(values)
    return np.asarray(np.minimum(total + above[:, 0] + (1.0 - above[:, -1]) * values[-1], 1.0))


def largest_excess(
    epsilons: FloatArray, mu: float, curvature: float, steps: int = _STEPS, cells: int = _CELLS
) -> FloatArray:
    """Return the supremum of the module's integral for every entry of `epsilons`."""
    epsilon = epsilons[:, None]
    low = np.log(epsilon / (curvature + _TAIL * mu))  # smaller s matter only in the noise's tail
    edges = _steps_in_y(low, epsilon, mu, curvature, steps)
    y = 0.5 * (edges[:, 1:] + edges[:, :-1])
    width = np.diff(edges, axis=1)
    s = expit(y)
    slope = s * (1.0 - s)
    start = -(epsilon / (mu * mu * s) + 0.5 * s)  # v_0
    end = start + np.log1p(curvature * slope) / (mu * mu * s)  # q is not positive beyond
    lowest = (start - y / curvature).min(axis=1)
    highest = (end - y / curvature).max(axis=1)
    price = _density(start + s, mu) * slope

    def gain(v: FloatArray) -> FloatArray:
        ratio = np.exp(np.minimum((mu * mu) * s[:, :, None] * (v - start[:, :, None]), 50.0))
        rise = np.maximum((1.0 - ratio) / curvature + slope[:, :, None], 0.0)
        value = _density(v + s[:, :, None], mu) * rise - price[:, :, None]
        return np.asarray(np.where(v <= start[:, :, None], 0.0, value))

    # Where c does not move at all is close to the best: cells are narrow around it
    scan = highest[:, None] - (highest - lowest)[:, None] * np.linspace(0.0, 1.0, _SCAN) ** 2
    fixed = gain(scan[:, None, :] + y[:, :, None] / curvature)
    fixed = (width[:, :, None] * fixed).sum(axis=1)
    center = np.take_along_axis(scan, fixed.argmax(axis=1)[:, None], axis=1)
    grid = _narrow_around(center[:, 0], lowest, highest, cells)

    at_edges = gain(grid[:, None, :] + y[:, :, None] / curvature)
    largest = np.maximum(at_edges[:, :, 1:], at_edges[:, :, :-1])
    peak = _peak(s, start, end, mu, curvature)
    inside = (peak - y / curvature)[:, :, None]
    holds = (grid[:, None, :-1] <= inside) & (inside <= grid[:, None, 1:])
    largest = np.where(holds, np.maximum(largest, gain(peak[:, :, None])), largest)

    total = np.zeros((epsilons.size, cells))
    for j in range(steps):
        total = np.maximum.accumulate(total, axis=1) + width[:, j, None] * largest[:, j]
        total = np.maximum.accumulate(total, axis=1)
    # beyond the last y, q is at most the density at the end of its range times s (1 - s)
    closest = np.minimum(np.maximum(end + s, -(epsilon / (mu * mu) - 0.5))[:, -1] + 1e-3, 0.0)
    tail = _density(closest, mu) * math.exp(-_LARGEST_LOGIT)
    return np.asarray(np.maximum(total[:, -1], 0.0) + np.where(total[:, -1] > 0.0, tail, 0.0))


def _steps_in_y(
    low: FloatArray, epsilon: FloatArray, mu: float, curvature: float, steps: int
) -> FloatArray:
    """Return edges between `low` and the largest logit, close together where q may be large.

    There q is at most the density at the end of its range times s (1 - s).
    """
    y = low + (_LARGEST_LOGIT - low) * np.linspace(0.0, 1.0, _FINE)
    s = expit(y)
    slope = s * (1.0 - s)
    end = (np.log1p(curvature * slope) - epsilon) / (mu * mu * s) + 0.5 * s
    logs = np.log(slope) - 0.5 * np.square(mu * np.minimum(end, 0.0))
    weight = np.exp((logs - logs.max(axis=1, keepdims=True)) / 3.0)
    share = np.cumsum(0.5 * (weight[:, 1:] + weight[:, :-1]), axis=1)
    share = 0.8 * share / share[:, -1:] + 0.2 * np.linspace(0.0, 1.0, _FINE)[1:]
    quantiles = np.linspace(0.0, 1.0, steps + 1)
    rows = zip(y, np.insert(share, 0, 0.0, axis=1), strict=True)
    return np.array([np.interp(quantiles, shares, points) for points, shares in rows])


def _density(v: FloatArray, mu: float) -> FloatArray:
    return np.asarray(mu / math.sqrt(2.0 * math.pi) * np.exp(-0.5 * np.square(mu * v)))


def _narrow_around(
    center: FloatArray, lowest: FloatArray, highest: FloatArray, cells: int
) -> FloatArray:
    """Return edges of cells that cover [lowest, highest] and are narrow around `center`."""
    half = cells // 2
    rise = np.linspace(0.0, 1.0, half + 1) ** 2
    left = center[:, None] - (center - lowest)[:, None] * rise[::-1]
    right = center[:, None] + (highest - center)[:, None] * rise[1:]
    return np.concatenate([left, right], axis=1)


def _peak(
    s: FloatArray, start: FloatArray, end: FloatArray, mu: float, curvature: float
) -> FloatArray:
    """Return for every s the v at which q is largest, by bisection of its derivative."""
    low, high = start.copy(), np.maximum(np.minimum(end, 0.0), start)
    slope = s * (1.0 - s)
    for _ in range(30):
        middle = 0.5 * (low + high)
        ratio = np.exp((mu * mu) * s * (middle - start))
        rising = -middle * ((1.0 - ratio) / curvature + slope) > s * (1.0 / curvature + slope)
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(0.5 * (low + high))
