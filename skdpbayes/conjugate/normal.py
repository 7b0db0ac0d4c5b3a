"""Bounded real data with a normal likelihood."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from skdpbayes import models, randomness, samplers
from skdpbayes._validation import check_choice, check_real
from skdpbayes.conjugate.counts import _first_draws
from skdpbayes.conjugate.logit_normal import CALIBRATIONS, allowed_mu
from skdpbayes.conjugate.release import (
    PrivatePosterior,
    Request,
    draw_from_log_weights,
    log_noise_at,
)
from skdpbayes.privacy.events import GaussianDP

__all__ = ["NormalMean", "NormalMeanVariance"]

_GRID_POINTS = 4001


def _check_bounds(bounds: Any) -> tuple[float, float]:
    if np.shape(bounds) != (2,):
        raise ValueError(f"bounds must be a public (low, high) pair; got {bounds!r}.")
    low, high = (check_real("bounds", float(b), low=-1e300, high=1e300) for b in bounds)
    if not low < high:
        raise ValueError(f"bounds must have low < high; got {bounds!r}.")
    return low, high


def _check_data(data: Any, bounds: tuple[float, float]) -> np.ndarray:
    values = np.asarray(data, dtype=np.float64).ravel()
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError("data must be finite numbers, at least one.")
    return np.clip(values, *bounds)


def _sums(values: np.ndarray, bounds: tuple[float, float], offset: int) -> np.ndarray:
    """Integer sums of the standardized values and of the offset squares on the public grid."""
    low, high = (np.array([b]) for b in bounds)
    codes = np.zeros(values.size, dtype=np.int64)
    columns = np.zeros(1, dtype=np.int64)
    return models.sum_moments(values[:, None], columns, codes, low, high, offset, 1)[0, 0]


class NormalMean:
    r"""Mean of bounded data with known standard deviation, :math:`\mu \sim N(m_0, \tau^2)`.

    The statistic is the sum of :math:`t = (2x - a - b)/(b - a) \in [-1, 1]` on a public grid: its
    sensitivity is 2 for ``replace_one`` and 1 for ``zero_out``, wherever the bounds lie.

    ``mechanism="ops"`` draws once from :math:`\exp(-(\mu - m_0)^2/(2\tau^2) - \rho \sum_i (x_i -
    \mu)^2/(2\sigma^2))`, for ``delta > 0``. With ``N`` public its precision :math:`P = 1/\tau^2 +
    \rho N/\sigma^2` is public, and only its mean moves, by :math:`\rho D / (\sigma^2 P)` with
    :math:`D = b - a`, so it *is* a Gaussian mechanism with :math:`\mu_{GDP} = \rho D / (\sigma^2
    \sqrt P)`, for ``replace_one``: the largest :math:`\rho` solves a quadratic equation. The bound
    of Minami et al. (2016) for strongly convex penalties counts the prior's curvature only,
    :math:`\rho = \mu \sigma^2 / (D \tau)`. Zeroing a record out changes the number of terms, hence
    the precision; that adjacency is refused.

    Parameters
    ----------
    bounds : (float, float)
        Public bounds :math:`(a, b)`; data outside are clipped.
    scale : float
        The known standard deviation :math:`\sigma` of a record, > 0.
    prior_mean : float, default=None
        :math:`m_0`; None is the middle of the bounds.
    prior_scale : float, default=None
        :math:`\tau`, > 0; None is the width of the bounds.
    calibration : {"gdp", "minami2016"}, default="gdp"
        For ``mechanism="ops"``: the exact value, or the bound of Minami et al. for comparison.
    """

    def __init__(
        self,
        bounds: tuple[float, float],
        scale: float,
        *,
        prior_mean: float | None = None,
        prior_scale: float | None = None,
        calibration: str = "gdp",
    ) -> None:
        self.bounds = _check_bounds(bounds)
        low, high = self.bounds
        self.scale = check_real("scale", scale, low=0.0, closed="neither")
        middle = 0.5 * low + 0.5 * high
        self.prior_mean = middle if prior_mean is None else check_real("prior_mean", prior_mean)
        width = high - low if prior_scale is None else prior_scale
        self.prior_scale = check_real("prior_scale", width, low=0.0, closed="neither")
        self.calibration = check_choice("calibration", calibration, CALIBRATIONS)

    def posterior(
        self,
        data: Any,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "laplace",
        adjacency: str = "replace_one",
        posterior: str = "noise_aware",
        random_state: Any = None,
        ledger: Any = None,
    ) -> PrivatePosterior:
        """Release the posterior of the mean.

        Parameters
        ----------
        data : array-like of float
            One number a record; how many is public.
        epsilon, delta, mechanism, adjacency, posterior, random_state, ledger
            See :meth:`BetaBernoulli.posterior`.
        """
        request = Request.check(
            epsilon, delta, mechanism, adjacency, posterior, random_state, ledger
        )
        values = _check_data(data, self.bounds)
        if mechanism == "ops":
            return self._one_draw(values, request)
        moved = 2 if request.replaces else 1
        scale, event = request.noise_scale(float(moved), float(moved**2), unit=models.GRID)
        guarantee = request.reserve(event, request.words)
        exact = _sums(values, self.bounds, 0)[:1]
        noisy = float(request.add_noise(exact, scale * models.GRID)[0]) / models.GRID
        half, center = self._half, 0.5 * self.bounds[0] + 0.5 * self.bounds[1]
        total = values.size * center + half * noisy
        if math.isinf(request.epsilon):
            total = float(values.sum())
        released = {"total": total, "n_total": values.size, "noise_scale": half * scale}
        if posterior == "naive" or scale == 0.0:
            sums, log_weights = np.array([total]), np.zeros(1)
        else:
            sums, log_weights = self._log_weights(total, values.size, mechanism, half * scale)
        draw = partial(self._draw, sums, log_weights, values.size)
        return PrivatePosterior(guarantee, released, draw)

    @property
    def _half(self) -> float:
        return 0.5 * self.bounds[1] - 0.5 * self.bounds[0]

    def _log_weights(
        self, total: float, n: int, mechanism: str, scale: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Normal prior of the true sum times the noise, on a grid where both matter."""
        mean = n * self.prior_mean
        deviation = math.hypot(n * self.prior_scale, math.sqrt(n) * self.scale)
        reach = (36.0 if mechanism == "laplace" else 9.0) * scale
        low, high = n * self.bounds[0], n * self.bounds[1]
        center = min(max(total, low), high)
        sums = np.linspace(max(low, center - reach), min(high, center + reach), _GRID_POINTS)
        prior = -0.5 * ((sums - mean) / deviation) ** 2
        return sums, prior + log_noise_at(mechanism, scale, total - sums)

    def _draw(
        self,
        sums: np.ndarray,
        log_weights: np.ndarray,
        n: int,
        generator: np.random.Generator,
        n_draws: int,
    ) -> np.ndarray:
        total = sums[draw_from_log_weights(generator, log_weights, n_draws)]
        precision = 1.0 / self.prior_scale**2 + n / self.scale**2
        mean = (self.prior_mean / self.prior_scale**2 + total / self.scale**2) / precision
        return mean + generator.standard_normal(n_draws) / math.sqrt(precision)

    def temper(self, n: int, mu: float) -> float:
        """Largest power of the likelihood, at most 1, that a draw of ``mu``-GDP allows.

        Parameters
        ----------
        n : int
            Number of records.
        mu : float
            Gaussian differential privacy to keep.
        """
        slope = (self.bounds[1] - self.bounds[0]) / self.scale**2
        if math.isinf(mu):
            return 1.0
        if self.calibration == "minami2016":
            return min(1.0, mu / (slope * self.prior_scale))
        # rho^2 slope^2 = mu^2 (1 / tau^2 + rho n / sigma^2)
        half = 0.5 * mu**2 * n / (self.scale**2 * slope**2)
        return min(1.0, half + math.sqrt(half**2 + (mu / (slope * self.prior_scale)) ** 2))

    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        if not request.replaces:
            raise ValueError(
                "adjacency='zero_out' is not available for mechanism='ops' of NormalMean: a "
                "missing term changes the width of the posterior. Use 'replace_one'."
            )
        n = values.size
        temper = self.temper(n, allowed_mu(request, self.calibration)) * (1.0 - 1e-12)
        precision = 1.0 / self.prior_scale**2 + temper * n / self.scale**2
        slope = (self.bounds[1] - self.bounds[0]) / self.scale**2
        event = GaussianDP(temper * slope / math.sqrt(precision))
        guarantee = request.reserve(event, "one draw from the tempered posterior")
        mean = self.prior_mean / self.prior_scale**2 + temper * values.sum() / self.scale**2
        generator = randomness.make_generator(request.random_state)
        # Released on a grid: the low bits of a float would betray the mean under the noise.
        drawn = randomness.release_gaussian(
            generator, np.array([mean / precision]), 1.0 / math.sqrt(precision)
        )
        released = {"draws": drawn, "temperature": 1.0 / temper}
        return PrivatePosterior(guarantee, released, partial(_first_draws, drawn), 1)


class NormalMeanVariance:
    r"""Mean and variance of bounded data, uniform prior on mean and standard deviation.

    The statistics are :math:`\sum t` and :math:`\sum(\kappa - t^2)` of the standardized data
    :math:`t \in [-1, 1]`. L1 sensitivity (:math:`\kappa = 7/8`): 9/8 for ``zero_out``, 9/4 for
    ``replace_one``; squared L2 (:math:`\kappa = 1`): 1 and 4. ``mechanism="ops"`` is not offered:
    a normal density with free variance is unbounded.

    Draws have two columns, mean and variance. Given latent moments they are those of the normal
    model with its reference prior; the latent moments are drawn given their noise on a fine grid.

    Parameters
    ----------
    bounds : (float, float)
        Public bounds; data outside are clipped.
    """

    def __init__(self, bounds: tuple[float, float]) -> None:
        self.bounds = _check_bounds(bounds)

    def posterior(
        self,
        data: Any,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "laplace",
        adjacency: str = "replace_one",
        posterior: str = "noise_aware",
        random_state: Any = None,
        ledger: Any = None,
    ) -> PrivatePosterior:
        """Release the posterior of mean and variance.

        Parameters
        ----------
        data : array-like of float
            One number a record, at least two; how many is public.
        epsilon, delta, mechanism, adjacency, posterior, random_state, ledger
            See :meth:`BetaBernoulli.posterior`.
        """
        request = Request.check(
            epsilon, delta, mechanism, adjacency, posterior, random_state, ledger
        )
        if mechanism == "ops":
            raise ValueError(
                "mechanism='ops' is not available for NormalMeanVariance: the density has no "
                "bound. Use mechanism='laplace' or 'gaussian'."
            )
        values = _check_data(data, self.bounds)
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
        elif posterior == "naive":
            draw = partial(_draw_normal, values.size, self._projected(noisy, values.size, kappa))
        else:
            draw = partial(self._draw_noisy, noisy, values.size, kappa, mechanism, scale)
        return PrivatePosterior(guarantee, released, draw)

    def _noisy_sums(
        self, values: np.ndarray, request: Request, scale: float
    ) -> tuple[np.ndarray, float]:
        kappa = models.moment_offset(request.mechanism)
        exact = _sums(values, self.bounds, int(kappa * models.GRID**2))
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
