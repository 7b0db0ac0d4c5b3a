"""Bounded real data with a normal likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from skdpbayes import models, samplers
from skdpbayes._validation import check_choice, check_integer, check_real
from skdpbayes.conjugate.logit_normal import CALIBRATIONS, allowed_mu
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
)
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.chunks import Values
from skdpbayes.privacy.budget import Budget, Noise
from skdpbayes.privacy.events import GaussianDP
from skdpbayes.privacy.mechanisms.gdp import gdp_epsilon
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.floats import floats as release_floats

_GRID_POINTS = 4001
# A Gaussian draw is rounded to a grid of at most 2^-28 of its deviation, which adds as much to the
# shift between neighbors; float sums of centered data stay below the same again.
_SNAP_MU = 2.0**-27


class NormalModel(ConjugateModel):
    """What models of bounded numbers share: public bounds, and sums on a public grid."""

    bounds: tuple[float, float]

    def _check(self) -> None:
        if np.shape(self.bounds) != (2,):
            raise ValueError(f"bounds must be a public (low, high) pair; got {self.bounds!r}.")
        # they can be squared
        low, high = (check_real("bounds", float(b), low=-1e150, high=1e150) for b in self.bounds)
        if not high - low >= 1e-150:
            raise ValueError(f"bounds must have low < high, 1e-150 apart; got {self.bounds!r}.")

    def _read(self, data: Any) -> np.ndarray:
        values = np.asarray(data, dtype=np.float64).ravel()
        if values.size == 0 or not np.isfinite(values).all():
            raise ValueError("data must be finite numbers, at least one.")
        return np.clip(values, *self.bounds)

    @property
    def _center(self) -> float:
        return 0.5 * self.bounds[0] + 0.5 * self.bounds[1]

    @property
    def _half(self) -> float:
        return 0.5 * self.bounds[1] - 0.5 * self.bounds[0]

    def _integer_sums(self, values: np.ndarray, offset: int) -> np.ndarray:
        """Integer sums of the standardized values and of the offset squares on the grid."""
        low, high = (np.array([float(b)]) for b in self.bounds)
        codes = np.zeros(values.size, dtype=np.int64)
        columns = np.zeros(1, dtype=np.int64)
        return models.sum_moments(values[:, None], columns, codes, low, high, offset, 1)[0, 0]


class NormalMean(NormalModel):
    r"""Mean of bounded data with known standard deviation, :math:`\mu \sim N(m_0, \tau^2)`.

    The statistic is the sum of :math:`t = (2x - a - b)/(b - a) \in [-1, 1]` on a public grid: its
    sensitivity is 2 for ``replace_one`` and 1 for ``zero_out``, wherever the bounds lie.

    ``mechanism="ops"`` draws once from :math:`\exp(-(\mu - m_0)^2/(2\tau^2) - \rho \sum_i (x_i -
    \mu)^2/(2\sigma^2))`, for ``delta > 0``. With ``N`` public its precision :math:`P = 1/\tau^2 +
    \rho N/\sigma^2` is public, and only its mean moves, by :math:`\rho D / (\sigma^2 P)` with
    :math:`D = b - a`, so it *is* a Gaussian mechanism, :math:`\rho D / (\sigma^2 \sqrt P)`-GDP for
    ``replace_one``: the largest :math:`\rho` solves a quadratic equation.

    ``calibration="minami2016"`` is the bound of Minami et al. (2016, Theorem 15), for comparison.
    For records in :math:`[-r, r]`, power :math:`\beta` and prior precision :math:`\lambda` they
    have :math:`\delta = \exp(-\frac{n\beta+\lambda}{8r^2\beta^2}(\varepsilon -
    \frac{2r^2\beta^2}{n\beta+\lambda})^2)`: Chernoff's bound on the tail of the same Gaussian loss,
    so that it allows a smaller GDP parameter, :math:`\sqrt{2l+2\varepsilon}-\sqrt{2l}` with
    :math:`l=\log(1/\delta)`, and the same equation follows.
    ``draw_epsilon`` prices a draw both ways.

    Zeroing a record out changes the precision, too, and ``delta=0`` needs a bounded density. In
    both cases the mean is restricted to :math:`[a, b]`. There a record's term has slope at most
    :math:`\rho D/\sigma^2`, and without it the precision is :math:`P' = 1/\tau^2 + \rho
    (N-1)/\sigma^2`, so ``zero_out`` with ``delta > 0`` is :math:`\rho D / (\sigma^2 \sqrt{P'})`-GDP
    (Gopi, Lee, Liu 2022, on a convex set). With ``delta=0`` the log-densities differ by a range of
    :math:`\rho D^2/\sigma^2` (``replace_one``: linear in the mean) or :math:`\rho D^2/(2\sigma^2)`
    (``zero_out``: one square), which is the pure :math:`\varepsilon`.

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
        self.bounds = bounds
        self.scale = scale
        self.prior_mean = prior_mean
        self.prior_scale = prior_scale
        self.calibration = calibration

    def _check(self) -> None:
        super()._check()
        check_real("scale", self.scale, low=0.0, closed="neither")
        check_real("prior_mean", self._prior_mean)
        check_real("prior_scale", self._prior_scale, low=0.0, closed="neither")
        check_choice("calibration", self.calibration, CALIBRATIONS)

    @property
    def _prior_mean(self) -> float:
        return self._center if self.prior_mean is None else self.prior_mean

    @property
    def _prior_scale(self) -> float:
        return self._width if self.prior_scale is None else self.prior_scale

    @property
    def _width(self) -> float:
        return float(self.bounds[1]) - float(self.bounds[0])

    def _records(
        self, generator: np.random.Generator, parameter: np.ndarray, n_samples: int
    ) -> np.ndarray:
        return np.clip(generator.normal(parameter, self.scale, n_samples), *self.bounds)

    def _moves(self, records: int) -> tuple[float, float, int]:
        return records, records**2, models.GRID

    def _scale(self, noise: Noise) -> float:
        return self._half * noise.scale / models.GRID

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        if noise.law == "none" and isinstance(values, Values):  # not even rounded
            return np.array([values.held.sum()])
        exact = values.total(partial(self._integer_sums, offset=0))[:1]
        noisy = release_sums(generator, values, exact, noise) / models.GRID
        return values.size * self._center + self._half * noisy

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        n, total = sum(part.n for part in parts), sum(float(part.statistic[0]) for part in parts)
        sums, log_weights = np.array([total]), np.zeros(1)
        if not naive:
            scales = [part.unit for part in parts]
            sums, log_weights = self._log_weights(total, n, parts[0].noise.law, scales)
        return {"total": total}, partial(self._draw, sums, log_weights, n)

    def _log_weights(
        self, total: float, n: int, law: str, scales: list[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Normal prior of the true sum times the noise, on a grid where both matter."""
        mean = n * self._prior_mean
        deviation = math.hypot(n * self._prior_scale, math.sqrt(n) * self.scale)
        reach = 36.0 * sum(scales) if law == "laplace" else 9.0 * math.hypot(*scales)
        low, high = n * self.bounds[0], n * self.bounds[1]
        center = min(max(total, low), high)
        sums = np.linspace(max(low, center - reach), min(high, center + reach), _GRID_POINTS)
        prior = -0.5 * ((sums - mean) / deviation) ** 2
        return sums, prior + log_noise_at(law, scales, total - sums, whole=False)

    def _draw(
        self,
        sums: np.ndarray,
        log_weights: np.ndarray,
        n: int,
        generator: np.random.Generator,
        n_draws: int,
    ) -> np.ndarray:
        total = sums[draw_from_log_weights(generator, log_weights, n_draws)]
        precision = self._precision(1.0, n)
        mean = (self._prior_mean / self._prior_scale**2 + total / self.scale**2) / precision
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
        self._check()
        slope = self._width / self.scale**2
        # rho^2 slope^2 = mu^2 (1 / tau^2 + rho n / sigma^2)
        half = 0.5 * mu**2 * n / (self.scale**2 * slope**2)
        return min(1.0, half + math.sqrt(half**2 + (mu / (slope * self._prior_scale)) ** 2))

    def draw_epsilon(self, n: int, delta: float, temper: float = 1.0) -> dict[str, float]:
        """Privacy loss of one draw when a record is replaced: exact, and by the older bound.

        Parameters
        ----------
        n : int
            Number of records.
        delta : float
            In (0, 1).
        temper : float, default=1.0
            Power of the likelihood, > 0; 1 is the posterior itself.

        Returns
        -------
        dict
            ``"gdp"``, the exact epsilon at ``delta``, and ``"minami2016"``.

        Examples
        --------
        >>> from skdpbayes.conjugate import NormalMean
        >>> price = NormalMean((0, 1), scale=1.0, prior_scale=0.5).draw_epsilon(100, 1e-5)
        >>> {name: round(epsilon, 3) for name, epsilon in price.items()}
        {'gdp': 0.333, 'minami2016': 0.475}
        """
        self._check()
        n = check_integer("n", n, low=1)
        delta = check_real("delta", delta, low=0.0, high=1.0, closed="neither")
        temper = check_real("temper", temper, low=0.0, closed="neither")
        pull = temper * self._width / self.scale**2
        exact = pull / math.sqrt(self._precision(temper, n))
        return {
            "gdp": gdp_epsilon(exact, delta),
            "minami2016": 0.5 * exact**2 + exact * math.sqrt(2.0 * math.log(1.0 / delta)),
        }

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        records = moved(budget.adjacency)
        if budget.delta == 0.0:  # the restricted posterior has a bounded range
            return tempered(budget, 0.5 * records * (self._width / self.scale) ** 2)
        mu = allowed_mu(budget, self.calibration, corollary=False)
        if mu <= _SNAP_MU:
            raise CalibrationError(
                f"epsilon={budget.epsilon!r} with delta={budget.delta!r} is too small for "
                "mechanism='ops': rounding the draw would cost more. Use mechanism='laplace'."
            )
        certain = n if records == 2 else n - 1  # terms that both neighbors have
        temper = self.temper(certain, mu - _SNAP_MU) * (1.0 - 1e-12)
        slope = self._width / self.scale**2
        cost = temper * slope / math.sqrt(self._precision(temper, certain))
        return temper, GaussianDP(cost + _SNAP_MU)

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        # From the middle of the bounds: exact sums keep the float error far below the grid.
        total = math.fsum((values - self._center).tolist())
        precision = self._precision(temper, values.size)
        shift = (self._prior_mean - self._center) / self._prior_scale**2
        pull = shift + temper * total / self.scale**2
        if moved(budget.adjacency) == 2 and budget.delta > 0.0:
            # Released on a grid: the low bits of a float would betray the mean under the noise.
            own = Noise("gaussian", 1.0 / math.sqrt(precision))
            return self._center + release_floats(generator, np.array([pull / precision]), own)
        uniforms = generator.random((1, 2 * ATTEMPTS))
        half = self._half
        exact = samplers.sample_log_concave(pull, 0.0, 0.0, precision, -half, half, uniforms)
        return self._center + snapped(exact, -half, half)

    def _precision(self, temper: float, n: int) -> float:
        return 1.0 / self._prior_scale**2 + temper * n / self.scale**2
