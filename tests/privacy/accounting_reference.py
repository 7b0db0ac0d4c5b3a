"""Lower bounds on the true privacy loss of noisy sums over random batches, made from scratch.

Nothing here comes from the library but the profile of one step in `by_dp_accounting`.

A step releases one number: a mixture of three unit Gaussians that differ by the record (drawn or
not, present or changed). Two data sets that attain the worst case give a pair of such mixtures for
each order; what any function of the outputs can tell apart bounds the true delta from below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import fft, special, stats

from skdpbayes.privacy import PrivacyEvent

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """A noisy sum over a random batch, `count` times."""

    noise: float
    rate: float
    sampling: str
    adjacency: str
    count: int

    def pairs(self) -> list[tuple[Array, Array, Array]]:
        """Return (weights, means under the data, means under the neighbor) for both orders.

        The record contributes +1. Not drawn, the batch holds nothing or (fixed size) another
        record in its place, which contributes -1 or 0 if that is farther from the neighbor.
        """
        weights = np.array([1.0 - self.rate, self.rate])
        means: dict[tuple[str, str], list[tuple[list[float], list[float]]]] = {
            ("poisson", "zero_out"): [([0, 1], [0, 0]), ([0, 0], [0, 1])],
            ("poisson", "replace_one"): [([0, 1], [0, -1])],
            ("fixed", "zero_out"): [
                ([-1, 1], [-1, 0]),
                ([-1, 0], [-1, 1]),
                ([1, 1], [1, 0]),
                ([1, 0], [1, 1]),
            ],
            ("fixed", "replace_one"): [([-1, 1], [-1, -1]), ([-1, -1], [-1, 1])],
        }
        return [
            (weights, np.array(one, float) / self.noise, np.array(two, float) / self.noise)
            for one, two in means[self.sampling, self.adjacency]
        ]


def two_outcomes(step: Step, epsilon: float) -> float:
    """Return the best delta of tests that only see how many outputs exceed a threshold.

    Two binomial distributions: exact, and accurate relative to delta however small it is.
    """
    best = 0.0
    few = np.arange(min(step.count, 60) + 1)
    log_ways = (
        special.gammaln(step.count + 1)
        - special.gammaln(few + 1)
        - special.gammaln(step.count - few + 1)
    )
    for weights, means, others in step.pairs():
        for sign in (1.0, -1.0):
            cuts = np.linspace(-4.0, 12.0, 129)[:, None]
            p = (stats.norm.sf(cuts - sign * means) @ weights)[:, None]
            q = (stats.norm.sf(cuts - sign * others) @ weights)[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                log_p = log_ways + few * np.log(p) + (step.count - few) * np.log1p(-p)
                log_q = log_ways + few * np.log(q) + (step.count - few) * np.log1p(-q) + epsilon
                gain = np.exp(log_p) * -np.expm1(np.minimum(log_q - log_p, 0.0))
            delta = np.nansum(gain, axis=1)
            best = max(best, float(delta.max()))
    return best


def fine_grid(steps: Sequence[Step], epsilon: float, width: float, reach: float = 40.0) -> float:
    """Return delta from losses shared out between neighbors on a fine grid, by one transform.

    The mean of the loss is kept and its variance grows by at most ``width**2 / 4`` per step: an
    approximation whose error shrinks with the square of the width. It is good for totals within
    `reach` and for a delta far above the rounding of the transform, 1e-13 or so.
    """
    best, half = 0.0, int(reach / width)
    size = int(fft.next_fast_len(2 * half, real=True))
    for order in range(max(len(step.pairs()) for step in steps)):
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        for step in steps:
            pairs = step.pairs()
            weights, means, others = pairs[order % len(pairs)]
            unit = 1.0 / step.noise
            edges = np.linspace(-unit - 9.0, unit + 9.0, 20_001)[:, None]
            p, q = (_cells(edges, m) @ weights for m in (means, others))
            seen = (p > 0.0) & (q > 0.0)
            place = np.clip(np.log(p[seen] / q[seen]) / width, -half + 1, half - 2)
            index = np.floor(place)
            share = place - index
            masses = np.bincount(index.astype(np.intp) % size, p[seen] * (1.0 - share), size)
            masses += np.bincount((index.astype(np.intp) + 1) % size, p[seen] * share, size)
            spectrum *= fft.rfft(masses) ** step.count
        total = np.roll(fft.irfft(spectrum, size), half)[: 2 * half]
        losses = width * np.arange(-half, half)
        above = losses > epsilon
        best = max(best, float(total[above] @ -np.expm1(epsilon - losses[above])))
    return best


def _cells(edges: Array, means: Array) -> Array:
    """Return the probabilities of the cells between edges, for every mean, without cancellation."""
    x = edges - means
    upper = stats.norm.sf(x[:-1]) - stats.norm.sf(x[1:])
    lower = stats.norm.cdf(x[1:]) - stats.norm.cdf(x[:-1])
    return np.where(x[:-1] > 0.0, upper, lower)


def epsilon_above(step: Step, delta: float, high: float = 60.0) -> float:
    """Return an epsilon that the truth exceeds at `delta`, by tests with two outcomes."""
    if two_outcomes(step, 0.0) <= delta:
        return 0.0
    low = 0.0
    for _ in range(60):
        middle = math.sqrt(low * high) if low > 0.0 else high * 1e-6
        if two_outcomes(step, middle) > delta:
            low = middle
        else:
            high = middle
        if high <= 1e-9:
            break
    return low


def merged_cells(step: Step, delta: float, width: float = 0.02) -> float:
    """Return an epsilon below the truth at `delta`, from outputs that were only made coarser.

    The outputs of one Poisson step fall into cells, whose probabilities under both data sets are
    exact; pairs of outcomes of more steps are merged where their likelihood ratios are close. All
    of this is post-processing, so it loses little, gains nothing, and holds for any delta.
    """
    assert step.sampling == "poisson"
    best = 0.0
    for weights, means, others in step.pairs():
        edges = np.linspace(means.min() - 39.0, means.max() + 39.0, 4001)[:, None]
        edges = np.vstack([[[-np.inf]], edges, [[np.inf]]])
        one = np.array([_cells(edges, m) @ weights for m in (means, others)])
        scale = max(0.3 * float(np.abs(one[0] - one[1]).sum()), 1e-9)
        one, total = _merge(one, width, scale), None
        for digit in f"{step.count:b}":
            if total is not None:
                total = _merge(_products(total, total), width, scale)
            if digit == "1":
                total = one if total is None else _merge(_products(total, one), width, scale)
        assert total is not None
        best = max(best, _solve(total, delta))
    return best


def _products(one: Array, other: Array) -> Array:
    return np.array([np.outer(one[i], other[i]).ravel() for i in (0, 1)])


def _merge(masses: Array, width: float, scale: float) -> Array:
    p, q = masses[:, (masses[0] > 0.0) & (masses[1] > 0.0)]
    index = np.floor(np.arcsinh((np.log(p) - np.log(q)) / scale) / width).astype(np.intp)
    index -= index.min()
    merged = np.array([np.bincount(index, p), np.bincount(index, q)])
    return np.asarray(merged[:, merged[0] > 0.0])


def _solve(masses: Array, delta: float) -> float:
    def at(epsilon: float) -> float:
        p, q = masses[0], math.exp(epsilon) * masses[1]
        return float(np.maximum(p - q - 4e-16 * (p + q), 0.0).sum())

    low, high = 0.0, 200.0
    if at(0.0) <= delta:
        return 0.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if at(middle) > delta else (low, middle)
    return low


def by_dp_accounting(
    parts: Sequence[tuple[PrivacyEvent, int]], delta: float, spacing: float
) -> float:
    """Return epsilon of a composition by Google's loss distributions on an even grid.

    They get the profiles of our dominating pairs, for both orders, and connect their dots.
    """
    from dp_accounting.pld import pld_pmf

    count = sum(n for _, n in parts)
    best, wide = 0.0, np.geomspace(1e-8, 700.0, 6000)
    for order in (0, 1):
        total = None
        for event, n in parts:
            enough = np.maximum(*event._profile_pair(wide)) <= 1e-4 * delta / count
            size = math.ceil(wide[np.argmax(enough)] / spacing) + 1
            losses = spacing * np.arange(size + 1)
            pair = event._profile_pair(losses)
            forward, backward = pair[order], pair[1 - order][:0:-1]
            shrunk = np.exp(-losses[:0:-1])
            profile = np.concatenate([1.0 - shrunk + shrunk * backward, forward])
            one = pld_pmf.create_pmf_pessimistic_connect_dots(
                spacing, np.arange(-size, size + 1), profile
            ).self_compose(n, tail_mass_truncation=1e-4 * delta)
            one = getattr(one, "to_dense_pmf", lambda one=one: one)()  # few points make it sparse
            total = one if total is None else total.compose(one, 1e-4 * delta)
        best = max(best, total.get_epsilon_for_delta(delta))
    return best
