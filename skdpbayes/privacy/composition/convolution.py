r"""Tight totals: convolution of privacy loss distributions.

The privacy loss of a composition is a sum of independent losses, one for each release, so its
distribution is a convolution. Every step errs on the private side:

1. Each release's loss distribution comes from connecting the dots of its profile on a common
   grid (``loss_distribution``). Losses beyond the grid count as infinite.
2. The masses are multiplied by :math:`e^{t\ell}` before the fast Fourier transform and by
   :math:`e^{-t\ell}` after it, with the tilt *t* of Chernoff's bound. The rounding of the
   transform is then relative to the delta in question instead of absolute, so 1e-30 is as
   accurate as 1e-3.
3. The circular convolution wraps what lies outside its window into it, which only adds mass; what
   is lost above the window is bounded by Chernoff and added.
4. An allowance for rounding is added to every mass. The tilted masses of part *i* sum to 1. Each
   output of a transform of *N* points is a sum of the inputs times roots of unity, and on its way
   every input passes at most :math:`\log_2 N` butterflies of radix at most 5, so the error of an
   output is at most :math:`\eta = 32 u \log_2 N` (unit roundoff *u*) times the sum of the inputs'
   sizes (Higham 2002, section 24.1, term by term; ``scipy.fft`` has no other butterflies at the
   lengths used here). So the transform :math:`\hat\varphi_i` and the true :math:`\varphi_i` are
   both at most :math:`b_i = |\hat\varphi_i| + \eta` and differ by at most :math:`\eta`, and by
   the mean value theorem their products differ by at most

   .. math:: \prod_i b_i^{n_i} \sum_i n_i \{\eta + 4u\}/b_i,

   where 4u (more than :math:`\sqrt 5 u`; Brent, Percival and Zimmermann 2007) is for each complex
   multiplication. The mean of that over all frequencies, and :math:`\eta` times the mean of
   :math:`\prod_i b_i^{n_i}` for the inverse transform, bound the error of every mass of the total.

Rare but large losses have no such total: the tilt would make the largest loss the likeliest, or
the grid would need too many points, or the allowance would be much of the answer. All this shows
before or in the answer, and then the total comes from ``doubling``, which has no transform. What
``delta_at`` returns is in any case at least the delta of the largest part alone, and at most
:math:`\sum_i n_i \delta_i(\varepsilon/\sum_j n_j)`, which basic composition allows. What
``epsilon_at`` returns is an epsilon at which ``delta_at`` was evaluated and found small enough.

References
----------
.. [1] A. Koskela, J. Jalko, A. Honkela. Computing tight differential privacy guarantees using FFT.
   AISTATS 2020.
.. [2] V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi. Connect the dots: tighter
   discrete approximations of privacy loss distributions. PoPETs 2022.
.. [3] N. Higham. Accuracy and stability of numerical algorithms, second edition. SIAM 2002.
.. [4] R. Brent, C. Percival, P. Zimmermann. Error bounds on complex floating-point multiplication.
   Mathematics of Computation 76, 2007.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from skdpbayes.privacy.composition.chernoff import (
    LOG_OUTSIDE,
    Losses,
    Parts,
    Scout,
    aim_at_delta,
    aim_at_epsilon,
    directed,
    infinite_mass,
    profile_pair,
    send_scouts,
    total_log_moment,
    window,
)
from skdpbayes.privacy.composition.doubling import doubled_total
from skdpbayes.privacy.composition.total import HAIR, PROFILE_ROUNDING, TotalLoss
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.mechanisms.gdp import FloatArray

# Relative excess of epsilon that the grid may cause, for few and for many distinct releases (each
# needs a transform of its own).
_TOLERANCE, _TOLERANCE_MANY, _MANY = 1e-5, 1e-4, 16
# Relative excess of epsilon, and spacing of the grid, from which on doubling does better
_LARGEST_EXCESS, _LARGEST_SPACING = 1e-3, 0.03
_SMALLEST_TRANSFORM, _FEW_TRANSFORM, _LARGEST_TRANSFORM = 2**12, 2**15, 2**19
_LARGEST_GRID = 2**18
_MOST_ATTEMPTS = 6
# The allowance for rounding may be this share of delta.
_LARGEST_DOUBT = 1e-3
# Losses whose tail is below this share of delta count as infinite.
_TAIL_SHARE = 1e-8
_TAILS = (1e-24, 1e-48, 1e-96, 1e-192, 1e-300)
_UNIT = 0.5 * float(np.finfo(np.float64).eps)
# Above this epsilon privacy is a formality, and Chernoff's bound will do.
_LARGEST_EPSILON = 100.0
# Sums of up to a million masses are accurate to this.
_SUM_ROUNDING = 1e-9


@lru_cache(maxsize=4096)
def composed_delta(parts: Parts, epsilon: float) -> float:
    """Return an upper bound, tight up to the grid, on delta of the composition at `epsilon`.

    Parameters
    ----------
    parts : tuple of (PrivacyEvent, int)
        Distinct releases with their counts.
    epsilon : float
        At least 0.
    """
    for tail in _TAILS:
        scouts = send_scouts(parts, tail)
        if max(scout.infinite for scout in scouts) >= 1.0:
            return 1.0
        delta = 0.0
        aims = [aim_at_epsilon(scout, epsilon) for scout in scouts]
        for aim in sorted(aims, key=lambda aim: aim.crude_delta, reverse=True):
            if aim.crude_delta <= delta:  # the other order cannot be worse
                break
            totals = () if epsilon > _LARGEST_EPSILON else _totals(parts, tail, aim.scout, epsilon)
            bounds = [total.delta_at(epsilon) for total in totals]
            delta = max(delta, min([aim.crude_delta, *bounds]))
        if tail <= _TAIL_SHARE * delta:  # what counts as infinite is little
            break
    count = sum(n for _, n in parts)
    shares = math.fsum(n * event.delta_at(epsilon / count) for event, n in parts)
    largest = max(event.delta_at(epsilon) for event, _ in parts)
    return min(1.0, max(largest, min(delta, shares)))


@lru_cache(maxsize=4096)
def composed_epsilon(parts: Parts, delta: float) -> float:
    """Return the least epsilon found at which :func:`composed_delta` is at most `delta`.

    Parameters
    ----------
    parts : tuple of (PrivacyEvent, int)
        Distinct releases with their counts.
    delta : float
        In (0, 1).
    """
    tail = next((tail for tail in _TAILS if tail <= _TAIL_SHARE * delta), _TAILS[-1])
    scouts = send_scouts(parts, tail)
    if max(scout.infinite for scout in scouts) >= delta:
        return math.inf
    crude = {scout: aim_at_delta(scout, delta).epsilon for scout in scouts}
    lowest = max(event.epsilon_at(delta) for event, _ in parts)
    epsilon = max(crude.values())
    used: list[TotalLoss] = []
    for _ in range(_MOST_ATTEMPTS):
        where, before = min(epsilon, _LARGEST_EPSILON), used
        epsilon, used = lowest, []
        for scout in sorted(scouts, key=lambda scout: crude[scout], reverse=True):
            if crude[scout] <= epsilon:  # the other order cannot be worse
                break
            totals = _totals(parts, tail, scout, where)
            bounds = [total.epsilon_at(delta, where) for total in totals]
            epsilon = max(epsilon, min([crude[scout], *bounds]))
            used.extend(totals)
        if [*map(id, used)] == [*map(id, before)]:  # no better ones for this epsilon
            break
    # laws for nearby epsilons differ in their grids: a little further all of them agree
    step = 1e-12
    while composed_delta(parts, epsilon) > delta:
        epsilon, step = max(epsilon * (1.0 + step), step), 2.0 * step
    return epsilon


def _totals(parts: Parts, tail: float, scout: Scout, epsilon: float) -> tuple[TotalLoss, ...]:
    """Return the laws of the total loss, one or two, that are good near `epsilon`."""
    if scout.spread == 0.0:
        return ()
    total = _convolution(parts, tail, scout.direction, aim_at_epsilon(scout, epsilon).rung)
    fine = total is not None and total.resolution <= max(epsilon, 0.1 * scout.size)
    if total is not None and fine and total.doubt_at(epsilon) <= _LARGEST_DOUBT:
        return (total,)
    doubled = doubled_total(parts, scout.direction)
    return (doubled,) if total is None else (total, doubled)


def _spacing(parts: Parts, scout: Scout, tilt: float) -> tuple[float, float]:
    """Return a grid spacing, and the epsilon above which it is fine enough.

    A variance *v* added to the loss moves its mean by v/2 and, seen through the tilt, epsilon by
    another t v/2. The spacing keeps this within the tolerance, unless that takes too many points.
    """
    log_moment = float(total_log_moment(scout.losses, np.array([tilt]))[0])
    lower, upper = window(scout.losses, scout, tilt, log_moment)
    tolerance = _TOLERANCE if len(parts) < _MANY else _TOLERANCE_MANY
    allowed = tolerance * max(scout.mean(tilt), 0.1 * scout.spread)
    start = _SMALLEST_TRANSFORM if len(parts) >= _MANY else _FEW_TRANSFORM
    spacing, smallest = (upper - lower) / np.array([start, 0.7 * _LARGEST_TRANSFORM])

    def excess() -> float:
        return 0.5 * scout.splitting(float(spacing)) * (1.0 + tilt)

    while excess() > allowed and spacing > smallest:
        spacing /= 1.25
    spacing = max(float(spacing), max(scout.largest) / _LARGEST_GRID)
    lattices = {event._loss_spacing() for event, _ in parts}
    if len(lattices) == 1 and max(lattices) > spacing:  # atoms on grid points are not split
        return max(lattices) / math.ceil(max(lattices) / spacing), 0.0
    resolution = max(excess() / _LARGEST_EXCESS, spacing / _LARGEST_SPACING)
    if len(lattices - {0.0}) == 1 and max(lattices) > spacing:
        return max(lattices) / math.ceil(max(lattices) / spacing), resolution
    # few different spacings, so that both orders of the pair share their profiles
    return 2.0 ** (math.floor(4.0 * math.log2(spacing)) / 4.0), resolution


@lru_cache(maxsize=16)
def _profiles(
    event: PrivacyEvent, spacing: float, n_points: int
) -> tuple[FloatArray, tuple[FloatArray, FloatArray]]:
    grid = spacing * np.arange(n_points + 1, dtype=np.float64)
    return grid, profile_pair(event, grid)


@lru_cache(maxsize=16)
def _convolution(parts: Parts, tail: float, direction: int, rung: int) -> TotalLoss | None:
    """Return the total loss for a tilt, or None where this takes too large a transform."""
    scout = send_scouts(parts, tail)[direction]
    tilt = float(scout.tilts[rung])
    spacing, resolution = _spacing(parts, scout, tilt)
    sizes = [max(1, math.ceil(top / spacing * (1.0 - HAIR))) for top in scout.largest]
    if max(sizes) > 2 * _LARGEST_GRID:
        return None
    grids, pairs = zip(
        *(_profiles(event, spacing, size) for (event, _), size in zip(parts, sizes, strict=True)),
        strict=True,
    )
    losses = directed(parts, grids, pairs, direction)
    return _convolve(losses, scout, spacing, tilt, resolution)


def _convolve(
    losses: Losses, scout: Scout, spacing: float, tilt: float, resolution: float
) -> TotalLoss | None:
    moments = [float(masses.log_moment(np.array([tilt]))[0]) for masses, _ in losses]
    log_moment = math.fsum(n * moment for (_, n), moment in zip(losses, moments, strict=True))
    lower, upper = window(losses, scout, tilt, log_moment)
    first, last = math.floor(lower / spacing), math.ceil(upper / spacing)
    if last - first >= _LARGEST_TRANSFORM:
        return None
    size = int(fft.next_fast_len(max(last - first + 1, 64), real=True))
    eta = 32.0 * _UNIT * math.log2(size)
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    log_bound, error = np.zeros(spectrum.size), np.zeros(spectrum.size)
    rounding = _SUM_ROUNDING
    for (masses, count), moment in zip(losses, moments, strict=True):
        half = masses.losses.size // 2
        with np.errstate(divide="ignore"):  # no mass stays no mass
            logs = np.log(masses.masses)
        tilted = np.exp(logs + tilt * masses.losses - moment)
        wrapped = np.bincount(np.arange(-half, half + 1) % size, tilted, size)
        part = fft.rfft(wrapped)
        norm = float(wrapped.sum())
        bound = np.abs(part) + eta * norm
        spectrum *= _power(part, count)
        log_bound += count * np.log(bound)
        error += count * (eta * norm + 4.0 * _UNIT) / bound
        largest_exponent = tilt * masses.losses[-1] + abs(moment) - logs[masses.masses > 0.0].min()
        rounding += count * (PROFILE_ROUNDING + 4.0 * _UNIT * float(largest_exponent))
    bound = np.exp(log_bound)
    noise = 2.0 / size * float(bound @ (error + eta))
    total = np.roll(fft.irfft(spectrum, size), -first)
    above_window = math.exp(min(0.0, LOG_OUTSIDE + log_moment - tilt * upper))
    return TotalLoss(
        losses=spacing * (first + np.arange(size, dtype=np.float64)),
        masses=(np.maximum(total, 0.0) + noise) * (1.0 + rounding),
        lost=infinite_mass(losses) + above_window,
        tilt=tilt,
        log_moment=log_moment,
        below=math.exp(LOG_OUTSIDE),
        allowance=noise,
        resolution=resolution,
    )


def _power(values: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    """Return `values` to the power of `count`, by multiplications alone."""
    result = np.ones_like(values)
    while count:
        if count & 1:
            result *= values
        count >>= 1
        if count:
            values = values * values
    return result
