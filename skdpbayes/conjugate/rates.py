"""Counts with a gamma prior on their rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from skdpbayes import samplers
from skdpbayes._validation import check_integer, check_real
from skdpbayes.conjugate.model import (
    ATTEMPTS,
    AnyValues,
    ConjugateModel,
    Draw,
    Release,
    draw_from_log_weights,
    log_noise_at,
    release_sums,
    snapped,
    tempered,
    total_of,
)
from skdpbayes.privacy.budget import Budget, Noise
from skdpbayes.privacy.sensitivity import moved


class GammaPoisson(ConjugateModel):
    r"""Bounded counts with rate :math:`\lambda \sim \mathrm{Gamma}(\text{shape}, \text{rate})`.

    Data are whole numbers >= 0, clipped to ``max_count``. The statistic is their sum: one record
    moves it by at most ``max_count`` under both adjacencies.

    With ``mechanism="ops"`` the rate is restricted to ``rate_bounds``. Of two counts, the
    log-likelihoods differ by :math:`(x - x') \log\lambda` and a constant, so the range is
    :math:`\text{max\_count} \cdot \log(\lambda_1/\lambda_0)` for ``replace_one`` (attained by 0 and
    ``max_count``); for ``zero_out`` it is the range of :math:`x \log \lambda - \lambda`, largest
    over x.

    Parameters
    ----------
    max_count : int
        Public bound on a count, from 1 to 2**31.
    shape, rate : float, default=1.0
        Prior parameters, > 0.
    rate_bounds : (float, float), default=None
        Public bounds of the rate for ``mechanism="ops"``; None is (max_count / 100, max_count).
    """

    def __init__(
        self,
        max_count: int,
        shape: float = 1.0,
        rate: float = 1.0,
        *,
        rate_bounds: tuple[float, float] | None = None,
    ) -> None:
        self.max_count = max_count
        self.shape = shape
        self.rate = rate
        self.rate_bounds = rate_bounds

    def _check(self) -> None:
        check_integer("max_count", self.max_count, low=1, high=2**31)  # sums stay within int64
        check_real("shape", self.shape, low=0.0, closed="neither")
        check_real("rate", self.rate, low=0.0, closed="neither")
        low, high = self._range
        check_real("rate_bounds", low, low=0.0, high=high, closed="neither")
        check_real("rate_bounds", high, low=0.0, closed="neither")

    @property
    def _range(self) -> tuple[float, float]:
        low, high = self.rate_bounds or (self.max_count / 100.0, self.max_count)
        return float(low), float(high)

    def _read(self, data: Any) -> np.ndarray:
        values = np.asarray(data).ravel()
        counts = values.astype(np.int64)
        if counts.size == 0 or (counts != values).any() or counts.min() < 0:
            raise ValueError("data must be counts (whole numbers >= 0), at least one.")
        return np.minimum(counts, self.max_count)

    def _records(
        self, generator: np.random.Generator, parameter: np.ndarray, n_samples: int
    ) -> np.ndarray:
        return np.minimum(generator.poisson(parameter, n_samples), self.max_count)

    def _moves(self, records: int) -> tuple[float, float, int]:
        return 1.0, 1.0, self.max_count

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        return release_sums(generator, values, values.total(total_of), noise)

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        n, noisy = sum(part.n for part in parts), sum(int(part.statistic[0]) for part in parts)
        top = self.max_count * n
        first, log_weights = min(max(noisy, 0), top), np.zeros(1)
        if not naive:  # negative-binomial prior of the true sum times the noise, where it matters
            law, scales = parts[0].noise.law, [part.noise.scale for part in parts]
            reach = int(np.ceil((40.0 if law == "laplace" else 9.0) * np.sum(scales))) + 1
            s = np.arange(max(0, first - reach), min(top, first + reach) + 1)
            prior = gammaln(s + self.shape) - gammaln(s + 1.0) + s * np.log(n / (n + self.rate))
            first, log_weights = int(s[0]), prior + log_noise_at(law, scales, noisy - s)
        return {"total": noisy}, partial(_draw_gamma, first, log_weights, self.shape, self.rate + n)

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        low, high = self._range
        if moved(budget.adjacency) == 2:
            return tempered(budget, self.max_count * math.log(high / low))
        return tempered(budget, _largest_range(self.max_count, low, high))

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        low, high = self._range
        shape = self.shape + temper * values.sum()
        rate = self.rate + temper * values.size
        uniforms = generator.random((1, 2 * ATTEMPTS))
        log_rate = samplers.sample_log_concave(
            shape, 0.0, rate, 0.0, np.log(low), np.log(high), uniforms
        )
        return snapped(np.exp(log_rate), low, high)


def _largest_range(max_count: int, low: float, high: float) -> float:
    """Range of ``x log(lam) - lam`` over [low, high], the largest over x in 0..max_count.

    A range of functions that are linear in x is convex in x, hence largest at an end.
    """
    x = np.array([0.0, max_count])
    ends = np.stack([x * np.log(low) - low, x * np.log(high) - high])
    peak = np.clip(x, low, high)
    return float((x * np.log(peak) - peak - ends.min(axis=0)).max())


def _draw_gamma(
    first: int,
    log_weights: np.ndarray,
    shape: float,
    rate: float,
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    total = first + draw_from_log_weights(generator, log_weights, n_draws)
    return generator.standard_gamma(shape + total) / rate
