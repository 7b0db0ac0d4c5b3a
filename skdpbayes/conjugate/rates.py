"""Counts with a gamma prior on their rate."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from skdpbayes import randomness, samplers
from skdpbayes._validation import check_integer, check_real
from skdpbayes.conjugate.release import (
    ATTEMPTS,
    ConjugateModel,
    PrivatePosterior,
    Request,
    draw_from_log_weights,
    log_noise_at,
    ops_eta,
    single_draw,
    snapped,
)
from skdpbayes.privacy.events import BoundedRange

__all__ = ["GammaPoisson"]


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
        Public bound on a count, >= 1.
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
        self.max_count = check_integer("max_count", max_count, low=1)
        self.shape = check_real("shape", shape, low=0.0, closed="neither")
        self.rate = check_real("rate", rate, low=0.0, closed="neither")
        low, high = rate_bounds or (self.max_count / 100.0, float(self.max_count))
        self.rate_bounds = (
            check_real("rate_bounds", float(low), low=0.0, high=float(high), closed="neither"),
            check_real("rate_bounds", float(high), low=0.0, closed="neither"),
        )

    def _checked(self, data: Any) -> np.ndarray:
        values = np.asarray(data).ravel()
        counts = values.astype(np.int64)
        if counts.size == 0 or (counts != values).any() or counts.min() < 0:
            raise ValueError("data must be counts (whole numbers >= 0), at least one.")
        return np.minimum(counts, self.max_count)

    def _from_noise(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        scale, event = request.noise_scale(
            float(self.max_count),
            1.0 if request.mechanism == "gaussian" else 0.0,
            unit=self.max_count,
        )
        step = scale if request.mechanism == "laplace" else scale * self.max_count
        guarantee = request.reserve(event, request.words)
        noisy = int(request.add_noise(values.sum(keepdims=True), step)[0])
        released = {"total": noisy, "n_total": values.size, "noise_scale": step}
        top = self.max_count * values.size
        if request.posterior == "naive" or step == 0.0:
            first, log_weights = min(max(noisy, 0), top), np.zeros(1)
        else:
            first, log_weights = self._log_weights(noisy, values.size, top, request.mechanism, step)
        draw = partial(_draw_gamma, first, log_weights, self.shape, self.rate + values.size)
        return PrivatePosterior(guarantee, released, draw)

    def _log_weights(
        self, noisy: int, n_total: int, top: int, mechanism: str, scale: float
    ) -> tuple[int, np.ndarray]:
        """Negative-binomial prior of the true sum times the noise, where it matters."""
        reach = int(np.ceil((40.0 if mechanism == "laplace" else 9.0) * scale)) + 1
        center = min(max(noisy, 0), top)
        s = np.arange(max(0, center - reach), min(top, center + reach) + 1)
        share = n_total / (n_total + self.rate)
        prior = gammaln(s + self.shape) - gammaln(s + 1.0) + s * np.log(share)
        return int(s[0]), prior + log_noise_at(mechanism, scale, noisy - s)

    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        low, high = self.rate_bounds
        if request.replaces:
            width = self.max_count * np.log(high / low)
        else:
            width = _largest_range(self.max_count, low, high)
        eta = ops_eta(request)
        temper = min(1.0, eta / width)
        guarantee = request.reserve(BoundedRange(eta), "one draw from the tempered posterior")
        generator = randomness.make_generator(request.random_state)
        shape = self.shape + temper * values.sum()
        rate = self.rate + temper * values.size
        uniforms = generator.random((1, 2 * ATTEMPTS))
        log_rate = samplers.sample_log_concave(
            shape, 0.0, rate, 0.0, np.log(low), np.log(high), uniforms
        )
        drawn = snapped(np.exp(log_rate), low, high)
        return single_draw(guarantee, drawn, temper)


def _largest_range(max_count: int, low: float, high: float) -> float:
    """Range of ``x log(lam) - lam`` over [low, high], the largest over x in 0..max_count."""
    x = np.arange(max_count + 1.0)
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
