"""Bounded real data with a normal likelihood, mean and variance unknown."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from skdpbayes import models, randomness, samplers
from skdpbayes._validation import check_real
from skdpbayes.conjugate.normal import check_bounds, check_data, integer_sums
from skdpbayes.conjugate.release import (
    ConjugateModel,
    PrivatePosterior,
    Request,
    draw_from_log_weights,
    ops_eta,
    single_draw,
)
from skdpbayes.privacy.events import BoundedRange

__all__ = ["NormalMeanVariance"]

_CELLS, _FINE = 1024, 2**20  # cells of the public grid of (mean, deviation), steps within one


class NormalMeanVariance(ConjugateModel):
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

    def __init__(self, bounds: tuple[float, float], *, min_deviation: float = 0.2) -> None:
        self.bounds = check_bounds(bounds)
        self.min_deviation = check_real(
            "min_deviation", min_deviation, low=0.0, high=1.0, closed="neither"
        )

    def _checked(self, data: Any) -> np.ndarray:
        return check_data(data, self.bounds)

    def _from_noise(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        if values.size < 2:
            raise ValueError("data must have at least two records.")
        l1, squared = (2.25, 4.0) if request.replaces else (1.125, 1.0)
        scale, event = request.noise_scale(l1, squared, unit=models.GRID)
        guarantee = request.reserve(event, request.words)
        noisy, kappa = self._noisy_sums(values, request, scale)
        released = {"sums": noisy, "n_total": values.size, "noise_scale": scale}
        if math.isinf(request.epsilon):
            exact = (float(values.mean()), float(values.var()))
            draw = partial(_draw_normal, values.size, exact)
        elif request.posterior == "naive":
            draw = partial(_draw_normal, values.size, self._projected(noisy, values.size, kappa))
        else:
            draw = partial(self._draw_noisy, noisy, values.size, kappa, request.mechanism, scale)
        return PrivatePosterior(guarantee, released, draw)

    def _noisy_sums(
        self, values: np.ndarray, request: Request, scale: float
    ) -> tuple[np.ndarray, float]:
        kappa = models.moment_offset(request.mechanism)
        exact = integer_sums(values, self.bounds, int(kappa * models.GRID**2))
        if scale == 0.0:
            return exact / np.array([models.GRID, models.GRID**2]), kappa
        generator = randomness.make_generator(request.random_state)
        noisy = [
            randomness.release_counts(
                generator,
                exact[i : i + 1],
                scale * unit,
                noise=request.mechanism,  # type: ignore[arg-type]
            )[0]
            / unit
            for i, unit in enumerate((models.GRID, models.GRID**2))
        ]
        return np.array(noisy), kappa

    def ops_range(self, adjacency: str = "replace_one") -> float:
        """Range of the log-likelihood ratio of two records, or of one log-likelihood.

        Parameters
        ----------
        adjacency : {"replace_one", "zero_out"}
            Two records, or one.
        """
        steep = 2.0 / self.min_deviation**2
        if adjacency == "replace_one":
            return 2.0 * steep
        top = -math.log(self.min_deviation)
        return top + max(steep - top, 2.0)

    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        eta = ops_eta(request)
        temper = min(1.0, eta / self.ops_range(request.adjacency) * (1.0 - 1e-12))
        guarantee = request.reserve(BoundedRange(eta), "one draw from the tempered posterior")
        first, negative = integer_sums(values, self.bounds, 0) / np.array(
            [models.GRID, models.GRID**2]
        )
        cells = (np.arange(_CELLS) + 0.5) / _CELLS
        mean = 2.0 * cells[:, None] - 1.0
        deviation = self.min_deviation + (1.0 - self.min_deviation) * cells
        squares = -negative - 2.0 * mean * first + values.size * mean**2
        log_weights = -values.size * np.log(deviation) - squares / (2.0 * deviation**2)
        generator = randomness.make_generator(request.random_state)
        chosen = draw_from_log_weights(generator, temper * log_weights.ravel(), 1)
        # Even noise within the cell; it knows nothing of the data.
        inside = (generator.integers(_FINE, size=2) + 0.5) / _FINE
        at = (np.concatenate(np.divmod(chosen, _CELLS)) + inside) / _CELLS
        drawn_deviation = self.min_deviation + (1.0 - self.min_deviation) * at[1]
        variance = (self._half * drawn_deviation) ** 2
        drawn = np.array([[self._mean_in_units(2.0 * at[0] - 1.0), variance]])
        return single_draw(guarantee, drawn, temper)

    def _projected(self, noisy: np.ndarray, n: int, kappa: float) -> tuple[float, float]:
        """Noisy moments taken for true ones, moved to the nearest possible values."""
        mean = min(max(noisy[0] / n, -1.0), 1.0)
        variance = min(max(kappa - noisy[1] / n - mean**2, 1e-6), 1.0 - mean**2 + 1e-6)
        return self._mean_in_units(mean), variance * self._half**2

    @property
    def _half(self) -> float:
        return 0.5 * self.bounds[1] - 0.5 * self.bounds[0]

    def _mean_in_units(self, mean: Any) -> Any:
        return 0.5 * self.bounds[0] + 0.5 * self.bounds[1] + self._half * mean

    def _draw_noisy(
        self,
        noisy: np.ndarray,
        n: int,
        kappa: float,
        mechanism: str,
        scale: float,
        generator: np.random.Generator,
        n_draws: int,
    ) -> np.ndarray:
        moments = samplers.sample_noisy_moments(
            noisy[None, None],
            np.full((n_draws, 1), n),
            kappa,
            samplers.noise_log_pmf([(mechanism, 64.0)]),
            scale / 64.0,
            generator.random((n_draws, 1, 1, 4)),
        )[:, 0, 0]
        mean = self._mean_in_units(moments[:, 0])
        return _draw_normal(n, (mean, self._half**2 * moments[:, 1]), generator, n_draws)


def _draw_normal(
    n: int, moments: tuple[Any, Any], generator: np.random.Generator, n_draws: int
) -> np.ndarray:
    """Draw mean and variance of the normal model given the sample's."""
    mean, variance = moments
    drawn = 0.5 * n * variance / generator.standard_gamma(0.5 * (n - 1), n_draws)
    center = mean + np.sqrt(drawn / n) * generator.standard_normal(n_draws)
    return np.stack([center, drawn], axis=1)
