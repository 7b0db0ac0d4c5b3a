r"""Independent integers given their sum: exact draws by convolutions.

Cells :math:`n_1, ..., n_V` with weights :math:`w_v(n_v)` have to add to a total,

.. math::
    p(n) \propto \prod_v w_v(n_v), \qquad \sum_v n_v = N .

Forward convolutions of the weights give the law of the sum of the first cells; the cells are then
drawn one by one backward. Far from the middle of the unconstrained sum a convolution would have no
precision left, so the weights are tilted by :math:`e^{-\lambda n}` first, which cancels under a
given sum and moves the middle to the total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import fft

# FFT convolutions are exact to about 1e-16 of their largest value.
_NEGLIGIBLE = 1e-15
# Direct convolutions of positive numbers lose no digits; less than this is never drawn.
_PRECISE_NEGLIGIBLE = 1e-25
_TILT_STEPS = 50  # Newton's; two or three are usual, the rest is for impossible totals


def convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Convolve two non-negative sequences, by FFT if they are long."""
    size = a.shape[0] + b.shape[0] - 1
    if min(a.shape[0], b.shape[0]) <= 16:
        return np.convolve(a, b)
    length = fft.next_fast_len(size, real=True)
    product = fft.rfft(a, length) * fft.rfft(b, length)
    return np.maximum(fft.irfft(product, length)[:size], 0.0)


@dataclass(frozen=True)
class FixedSum:
    """Cells whose counts add to a total: weights, forward convolutions, in bins."""

    bin_width: int
    low: np.ndarray  # first bin of each cell's window
    fine: np.ndarray  # weights of single counts, cells side by side
    fine_start: np.ndarray
    weights: np.ndarray  # weights of bins, cells side by side
    start: np.ndarray
    forward: np.ndarray  # weights of the sum of the first k + 1 cells, side by side
    forward_start: np.ndarray
    forward_low: np.ndarray

    @classmethod
    def from_weights(
        cls, cells: Sequence[tuple[int, np.ndarray]], bin_width: int, max_bin: int, total: float
    ) -> FixedSum:
        """Tilt the cells' weights to the total and convolve them, one after the other."""
        fine = [weight for _, weight in cells]
        low = np.array([first for first, _ in cells], dtype=np.int64)
        bins = [weight.reshape(-1, bin_width).sum(axis=1) for weight in fine]
        start = _starts(bins)
        logs = np.log(np.maximum(np.concatenate(bins), 1e-300))
        weights = np.split(_tilted(logs, start, total - low.sum(), 0.0), start[1:-1])
        return cls._added(bin_width, low, fine, weights, max_bin, convolve, _NEGLIGIBLE)

    @classmethod
    def from_log_weights(cls, logs: np.ndarray, total: int, slope: float) -> FixedSum:
        """Do the same at full relative precision: convolutions are direct, nothing is binned.

        ``logs`` has shape (n_cells, total + 1) and starts at count 0; ``slope`` is a first guess of
        the tilt.
        """
        start = np.arange(logs.shape[0] + 1) * logs.shape[1]
        tilted = _tilted(logs.ravel(), start, float(total), slope).reshape(logs.shape)
        windows = [_trim(weight, _PRECISE_NEGLIGIBLE) for weight in tilted]
        low = np.array([lead for lead, _ in windows], dtype=np.int64)
        weights = [weight for _, weight in windows]
        return cls._added(1, low, weights, weights, total, np.convolve, _PRECISE_NEGLIGIBLE)

    @classmethod
    def _added(
        cls,
        bin_width: int,
        low: np.ndarray,
        fine: list[np.ndarray],
        weights: list[np.ndarray],
        largest: int,
        convolved: Callable[[np.ndarray, np.ndarray], np.ndarray],
        negligible: float,
    ) -> FixedSum:
        """Convolve the weights, one after the other, up to the largest sum."""
        forward, forward_low = [weights[0]], [int(low[0])]
        for k in range(1, len(weights)):
            first = forward_low[-1] + int(low[k])
            sums = convolved(forward[-1], weights[k])[: max(1, largest + 1 - first)]
            lead, sums = _trim(sums, negligible)
            forward.append(sums)
            forward_low.append(first + lead)
        return cls(
            bin_width,
            low,
            np.concatenate(fine),
            _starts(fine),
            np.concatenate(weights),
            _starts(weights),
            np.concatenate(forward),
            _starts(forward),
            np.array(forward_low, dtype=np.int64),
        )

    def draw(self, totals: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        """Counts of shape (n_draws, n_cells) whose bins add to ``totals``."""
        return _draw_backward(
            np.asarray(totals, dtype=np.int64),
            np.ascontiguousarray(uniforms),
            self.bin_width,
            self.low,
            self.fine,
            self.fine_start,
            self.weights,
            self.start,
            self.forward,
            self.forward_start,
            self.forward_low,
        )


def _starts(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([a.shape[0] for a in arrays])]).astype(np.int64)


def _trim(sums: np.ndarray, negligible: float) -> tuple[int, np.ndarray]:
    """Scale to a largest value of one and cut negligible ends; tell how many the first has."""
    sums = sums / max(sums.max(), 1e-300)
    kept = np.flatnonzero(sums >= negligible)
    first, last = (kept[0], kept[-1]) if kept.size else (0, 0)
    return int(first), sums[first : last + 1]


@njit(cache=True)
def _tilted(logs: np.ndarray, start: np.ndarray, total: float, slope: float) -> np.ndarray:
    """Weights times exp(-slope * i) for index i, with a sum of about ``total`` on average.

    A standard deviation of the sum is near enough. The mean falls with the slope, at the rate of
    the variance: Newton steps, kept within the bracket found so far.
    """
    weights = np.empty(logs.shape[0])
    low, high = -np.inf, np.inf
    for _ in range(_TILT_STEPS):
        mean, variance = 0.0, 0.0
        for k in range(start.shape[0] - 1):
            log = logs[start[k] : start[k + 1]]
            top = -np.inf
            for i in range(log.shape[0]):
                top = max(top, log[i] - slope * i)
            mass, first, second = 0.0, 0.0, 0.0
            for i in range(log.shape[0]):
                weight = np.exp(log[i] - slope * i - top)
                weights[start[k] + i] = weight
                mass += weight
                first += weight * i
                second += weight * i * i
            first /= mass
            mean += first
            variance += max(second / mass - first * first, 0.0)
        gap = mean - total
        if gap * gap <= variance:
            break
        if gap > 0.0:
            low = slope
        else:
            high = slope
        step = slope + gap / max(variance, 1e-3)
        if not low < step < high:
            step = 0.5 * (low + high)
        slope = step
    return weights


@njit(cache=True)
def _draw_backward(
    totals: np.ndarray,
    uniforms: np.ndarray,
    bin_width: int,
    low: np.ndarray,
    fine: np.ndarray,
    fine_start: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    forward: np.ndarray,
    forward_start: np.ndarray,
    forward_low: np.ndarray,
) -> np.ndarray:
    n_draws = totals.shape[0]
    n_cells = low.shape[0]
    centers = np.empty(n_cells, dtype=np.int64)
    for k in range(n_cells):
        centers[k] = np.argmax(weights[start[k] : start[k + 1]])
    counts = np.empty((n_draws, n_cells), dtype=np.int64)
    for s in range(n_draws):
        remaining = totals[s]
        for k in range(n_cells - 1, -1, -1):
            weight = weights[start[k] : start[k + 1]]
            if k > 0:
                before = forward[forward_start[k - 1] : forward_start[k]]
                index = remaining - low[k] - forward_low[k - 1]
                index = _draw_split(weight, before, index, centers[k], uniforms[s, k, 0])
            else:
                index = min(max(remaining - low[0], 0), weight.shape[0] - 1)
            chosen = low[k] + index
            remaining -= chosen
            counts[s, k] = chosen * bin_width
            if bin_width > 1:
                first = fine_start[k] + index * bin_width
                inner = fine[first : first + bin_width]
                counts[s, k] += _invert(inner, uniforms[s, k, 1])
    return counts


@njit(cache=True)
def _draw_split(
    weight: np.ndarray, before: np.ndarray, total: int, center: int, uniform: float
) -> int:
    """Draw i with probability proportional to weight[i] * before[total - i].

    The mass sits around ``center``, so the inversion walks outward from there.
    """
    first = max(0, total - before.shape[0] + 1)
    last = min(weight.shape[0] - 1, total)
    if last < first:  # the totals lie outside what the noise allows: go to the nearer end
        return 0 if total < first else weight.shape[0] - 1
    center = min(max(center, first), last)
    mass = 0.0
    for i in range(first, last + 1):
        mass += weight[i] * before[total - i]
    target = uniform * mass
    right = center
    left = center - 1
    while right <= last or left >= first:
        if right <= last:
            target -= weight[right] * before[total - right]
            if target < 0.0:
                return right
            right += 1
        if left >= first:
            target -= weight[left] * before[total - left]
            if target < 0.0:
                return left
            left -= 1
    return center  # rounding left a sliver of mass unassigned


@njit(cache=True)
def _invert(weight: np.ndarray, uniform: float) -> int:
    target = uniform * weight.sum()
    for i in range(weight.shape[0]):
        target -= weight[i]
        if target < 0.0:
            return i
    return int(np.argmax(weight))
