"""Coin flips with a normal prior on the log-odds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from skdpbayes import samplers
from skdpbayes._validation import check_choice, check_real
from skdpbayes.conjugate.counts import CoinModel
from skdpbayes.conjugate.model import (
    ATTEMPTS,
    Draw,
    draw_from_log_weights,
    snapped,
)
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.events import GaussianDP
from skdpbayes.privacy.mechanisms.exponential_mechanism import minami2016_mu
from skdpbayes.privacy.mechanisms.gdp import gdp_mu

_GRID_POINTS = 2001
_TAIL_POINTS = 400  # on each side, where the likelihood is flat
_REACH = 8.0  # standard deviations of the prior
CALIBRATIONS = ("gdp", "minami2016")


def allowed_mu(budget: Budget, calibration: str, *, corollary: bool = True) -> float:
    """Gaussian differential privacy that the budget allows, by the tight or the older bound.

    The older one is Theorem 7, or up to epsilon 1 the simpler `corollary` 8, which allows less.
    """
    if budget.delta == 0.0:
        raise CalibrationError(
            "mechanism='ops' of this model needs delta > 0: its density has no bounded range; got "
            "delta=0. Use mechanism='laplace'."
        )
    if calibration == "gdp":
        return gdp_mu(budget.epsilon, budget.delta)
    if corollary and budget.epsilon <= 1.0:
        return minami2016_mu(budget.epsilon, budget.delta, "corollary8")
    return minami2016_mu(budget.epsilon, budget.delta, "theorem7")


class LogitNormalBernoulli(CoinModel):
    r"""Coin flips with log-odds :math:`z \sim N(0, \tau^2)` (Minami et al. 2016, Example 17).

    Data are zeros and ones. The statistic of ``"laplace"`` and ``"gaussian"`` is the number of
    ones, of sensitivity 1.

    ``mechanism="ops"`` draws once from the density proportional to :math:`\exp(-z^2/(2\tau^2))
    \prod_i p(x_i \mid z)^\beta` on the whole line, for ``delta > 0``. It is
    :math:`1/\tau^2`-strongly log-concave, and the log-likelihoods of two records differ by
    :math:`(x - x') z`, whose slope is at most 1 (for ``zero_out`` the slope :math:`x - \sigma(z)`
    of one log-likelihood is below 1 as well), so the draw is :math:`\beta\tau`-GDP (Gopi, Lee,
    Liu 2022) and :math:`\beta = \mu(\varepsilon, \delta)/\tau`, at most 1.

    Parameters
    ----------
    prior_scale : float, default=2.0
        :math:`\tau`, > 0.
    calibration : {"gdp", "minami2016"}, default="gdp"
        For ``mechanism="ops"``: the tight bound, or that of Minami et al. for comparison.
    """

    def __init__(self, prior_scale: float = 2.0, *, calibration: str = "gdp") -> None:
        self.prior_scale = prior_scale
        self.calibration = calibration

    def _check(self) -> None:
        check_real("prior_scale", self.prior_scale, low=0.0, closed="neither")
        check_choice("calibration", self.calibration, CALIBRATIONS)

    def _given_ones(self, ones: np.ndarray, log_weights: np.ndarray, n: int) -> Draw:
        z, width = self._grid(n)
        # summed over the true count, one point of the grid at a time
        log_likelihood = np.array([logsumexp(log_weights + ones * value) for value in z])
        log_density = log_likelihood - n * np.logaddexp(0.0, z) - 0.5 * (z / self.prior_scale) ** 2
        return partial(_draw_logit, z, width, log_density + np.log(width))

    def _grid(self, n_total: int) -> tuple[np.ndarray, np.ndarray]:
        """Return centers and widths of cells that cover 8 standard deviations of the prior.

        The likelihood is flat beyond log N on the side that the data favor, so a wide prior may
        have much of the posterior there: cells grow with the distance instead of ending.
        """
        reach = _REACH * self.prior_scale
        core = min(reach, 8.0 * np.sqrt(self.prior_scale) + np.log1p(n_total))
        edges = np.linspace(-core, core, _GRID_POINTS + 1)
        if core < reach:
            beyond = np.geomspace(core, reach, _TAIL_POINTS + 1)[1:]
            edges = np.concatenate([-beyond[::-1], edges, beyond])
        return 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        temper = min(1.0, allowed_mu(budget, self.calibration) / self.prior_scale)
        return temper, GaussianDP(temper * self.prior_scale)

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        reach = _REACH * self.prior_scale  # a public interval: the bound holds on it as well
        z = samplers.sample_log_concave(
            temper * float(values.sum()),
            temper * float(values.size),
            0.0,
            self.prior_scale**-2,
            -reach,
            reach,
            generator.random((1, 2 * ATTEMPTS)),
        )
        return snapped(expit(z), 0.0, 1.0)


def _draw_logit(
    z: np.ndarray,
    width: np.ndarray,
    log_weight: np.ndarray,
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    cell = draw_from_log_weights(generator, log_weight, n_draws)
    return expit(z[cell] + (generator.random(n_draws) - 0.5) * width[cell])
