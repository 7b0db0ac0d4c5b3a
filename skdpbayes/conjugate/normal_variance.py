"""Bounded real data with a normal likelihood, mean and variance unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skdpbayes import models, samplers
from skdpbayes._validation import check_real
from skdpbayes.conjugate.model import (
    AnyValues,
    Draw,
    Release,
    draw_from_log_weights,
    release_sums,
    tempered,
)
from skdpbayes.conjugate.normal import NormalModel
from skdpbayes.fitting.chunks import Values
from skdpbayes.privacy.budget import Budget, Noise
from skdpbayes.privacy.sensitivity import moved

_UNITS = np.array([models.GRID, models.GRID**2])  # steps of the two sums in a unit
_CELLS, _FINE = 1024, 2**20  # cells of the public grid of (mean, deviation), steps within one


class NormalMeanVariance(NormalModel):
    r"""Mean and variance of bounded data, uniform prior on mean and standard deviation.

    Data are numbers, at least two. The statistics are :math:`\sum t` and :math:`\sum(\kappa -
    t^2)` of the standardized data :math:`t \in [-1, 1]`. L1 sensitivity (:math:`\kappa = 7/8`):
    9/8 for ``zero_out``, 9/4 for ``replace_one``; squared L2 (:math:`\kappa = 1`): 1 and 4.

    ``mechanism="ops"`` draws once from the posterior tempered by :math:`\rho`, the standardized
    mean in :math:`[-1, 1]`, its deviation in :math:`[s_0, 1]`. Of two records, the log-likelihoods
    :math:`-\log s - (t-m)^2/(2s^2)` differ by :math:`(t - t')(2m - t - t')/(2s^2)` up to sign, of
    range at most :math:`4/s_0^2`, attained by :math:`t = 1, t' = -1`. One log-likelihood has range
    :math:`-\log s_0 + \max(\log s_0 + 2/s_0^2, 2)`: its top is at :math:`m = t, s = s_0`, its
    bottom two away from t at an end of the deviations. The draw is made from a finite set of public
    points, a grid of 1024 by 1024, hence exact; even noise, free of data, spreads it over its cell.

    Draws have two columns, mean and variance. Given latent moments they are those of the normal
    model with its reference prior; the latent moments are drawn given their noise on a fine grid.

    Parameters
    ----------
    bounds : (float, float)
        Public bounds; data outside are clipped.
    min_deviation : float, default=0.2
        :math:`s_0`, in (0, 1): for ``mechanism="ops"``, the smallest deviation as a share of half
        the width of the bounds. The temperature grows with its inverse square.
    """

    _fewest = 2

    def __init__(self, bounds: tuple[float, float], *, min_deviation: float = 0.2) -> None:
        self.bounds = bounds
        self.min_deviation = min_deviation

    def _check(self) -> None:
        super()._check()
        share = self.min_deviation
        check_real("min_deviation", share, low=0.0, high=1.0, closed="neither")

    def _records(
        self, generator: np.random.Generator, parameter: np.ndarray, n_samples: int
    ) -> np.ndarray:
        mean, variance = parameter
        return np.clip(generator.normal(mean, np.sqrt(variance), n_samples), *self.bounds)

    def _moves(self, records: int) -> tuple[float, float, int]:
        return 1.125 * records, records**2, models.GRID

    def _scale(self, noise: Noise) -> float:
        return noise.scale / models.GRID

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        kappa, scale = models.moment_offset(noise.law), self._scale(noise)
        if noise.law == "none" and isinstance(values, Values):  # not even rounded
            t = (values.held - self._center) / self._half
            return np.array([t.sum(), (kappa - t**2).sum()])
        exact = values.total(partial(self._integer_sums, offset=int(kappa * models.GRID**2)))
        parts = [
            release_sums(generator, values, exact[i : i + 1], replace(noise, scale=scale * unit))
            for i, unit in enumerate(_UNITS.tolist())
        ]
        return np.concatenate(parts) / _UNITS

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        n, noisy = sum(part.n for part in parts), np.sum([p.statistic for p in parts], axis=0)
        law = parts[0].noise.law
        kappa = models.moment_offset(law)
        released = {"sums": noisy}
        if law == "none":
            mean = noisy[0] / n
            variance = self._half**2 * max(kappa - noisy[1] / n - mean**2, 0.0)
            return released, partial(_draw_normal, n, (self._center + self._half * mean, variance))
        if naive:
            return released, partial(_draw_normal, n, self._projected(noisy, n, kappa))
        place = self._center, self._half
        scales = [part.unit for part in parts]
        return released, partial(_draw_noisy, noisy, n, kappa, law, scales, place)

    def ops_range(self, adjacency: str = "replace_one") -> float:
        """Range of the log-likelihood ratio of two records, or of one log-likelihood.

        Parameters
        ----------
        adjacency : {"replace_one", "zero_out"}
            Two records, or one.
        """
        steep = 2.0 / self.min_deviation**2
        if moved(adjacency) == 2:
            return 2.0 * steep
        top = -math.log(self.min_deviation)
        return top + max(steep - top, 2.0)

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        return tempered(budget, self.ops_range(budget.adjacency))

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        first, negative = self._integer_sums(values, 0) / _UNITS
        cells = (np.arange(_CELLS) + 0.5) / _CELLS
        mean = 2.0 * cells[:, None] - 1.0
        deviation = self.min_deviation + (1.0 - self.min_deviation) * cells
        squares = -negative - 2.0 * mean * first + values.size * mean**2
        log_weights = -values.size * np.log(deviation) - squares / (2.0 * deviation**2)
        chosen = draw_from_log_weights(generator, temper * log_weights.ravel(), 1)
        # Even noise within the cell; it knows nothing of the data.
        inside = (generator.integers(_FINE, size=2) + 0.5) / _FINE
        at = (np.concatenate(np.divmod(chosen, _CELLS)) + inside) / _CELLS
        drawn = self.min_deviation + (1.0 - self.min_deviation) * at[1]
        drawn_mean = self._center + self._half * (2.0 * at[0] - 1.0)
        return np.array([[drawn_mean, (self._half * drawn) ** 2]])

    def _projected(self, noisy: np.ndarray, n: int, kappa: float) -> tuple[float, float]:
        """Noisy moments taken for true ones, moved to the nearest possible values."""
        mean = min(max(noisy[0] / n, -1.0), 1.0)
        variance = min(max(kappa - noisy[1] / n - mean**2, 1e-6), 1.0 - mean**2 + 1e-6)
        return self._center + self._half * mean, variance * self._half**2


def _draw_noisy(
    noisy: np.ndarray,
    n: int,
    kappa: float,
    law: str,
    scales: list[float],
    place: tuple[float, float],
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    step = min(scales) / 64.0
    moments = samplers.sample_noisy_moments(
        noisy[None, None],
        np.full((n_draws, 1), n),
        kappa,
        samplers.noise_log_pmf([(law, scale / step) for scale in scales]),
        step,
        generator.random((n_draws, 1, 1, 4)),
    )[:, 0, 0]
    center, half = place
    return _draw_normal(
        n, (center + half * moments[:, 0], half**2 * moments[:, 1]), generator, n_draws
    )


def _draw_normal(
    n: int, moments: tuple[Any, Any], generator: np.random.Generator, n_draws: int
) -> np.ndarray:
    """Draw mean and variance of the normal model given the sample's."""
    mean, variance = moments
    drawn = 0.5 * n * variance / generator.standard_gamma(0.5 * (n - 1), n_draws)
    center = mean + np.sqrt(drawn / n) * generator.standard_normal(n_draws)
    return np.stack([center, drawn], axis=1)
