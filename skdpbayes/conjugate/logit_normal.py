"""Coin flips with a normal prior on the log-odds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from skdpbayes import randomness, samplers
from skdpbayes._validation import check_choice, check_real
from skdpbayes.conjugate.counts import check_binary
from skdpbayes.conjugate.release import (
    ATTEMPTS,
    ConjugateModel,
    PrivatePosterior,
    Request,
    draw_from_log_weights,
    log_binomial,
    log_noise_at,
    single_draw,
    snapped,
)
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.events import GaussianDP
from skdpbayes.privacy.mechanisms.exponential_mechanism import minami2016_mu
from skdpbayes.privacy.mechanisms.gdp import gdp_mu

__all__ = ["LogitNormalBernoulli"]

_GRID_POINTS = 2001
_TAIL_POINTS = 400  # on each side, where the likelihood is flat
_REACH = 8.0  # standard deviations of the prior
CALIBRATIONS = ("gdp", "minami2016")


def allowed_mu(request: Request, calibration: str, *, corollary: bool = True) -> float:
    """Gaussian differential privacy that the budget allows, by the tight or the older bound.

    The older one is Theorem 7, or up to epsilon 1 the simpler `corollary` 8, which allows less.
    """
    if request.delta == 0.0:
        raise CalibrationError(
            "mechanism='ops' of this model needs delta > 0: its density has no bounded range; got "
            "delta=0. Use mechanism='laplace'."
        )
    if np.isinf(request.epsilon):
        return np.inf
    if calibration == "gdp":
        return gdp_mu(request.epsilon, request.delta)
    if corollary and request.epsilon <= 1.0:
        return minami2016_mu(request.epsilon, request.delta, "corollary8")
    return minami2016_mu(request.epsilon, request.delta, "theorem7")


class LogitNormalBernoulli(ConjugateModel):
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
        self.prior_scale = check_real("prior_scale", prior_scale, low=0.0, closed="neither")
        self.calibration = check_choice("calibration", calibration, CALIBRATIONS)

    def _checked(self, data: Any) -> np.ndarray:
        return check_binary(data)

    def _from_noise(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        scale, event = request.noise_scale(1.0, 1.0)
        guarantee = request.reserve(event, request.words)
        noisy = int(request.add_noise(values.sum(keepdims=True), scale)[0])
        released = {"n_ones": noisy, "n_total": values.size, "noise_scale": scale}
        z, width = self._grid(values.size)
        if request.posterior == "naive" or scale == 0.0:
            log_density = self._log_density(z, min(max(noisy, 0), values.size), values.size)
        else:
            log_density = self._noisy_log_density(z, noisy, values.size, request.mechanism, scale)
        log_weight = log_density + np.log(width)
        return PrivatePosterior(guarantee, released, partial(_draw_logit, z, width, log_weight))

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

    def _log_density(self, z: np.ndarray, ones: float, n_total: float) -> np.ndarray:
        prior = -0.5 * (z / self.prior_scale) ** 2
        return prior + ones * z - n_total * np.logaddexp(0.0, z)

    def _noisy_log_density(
        self, z: np.ndarray, noisy: int, n_total: int, mechanism: str, scale: float
    ) -> np.ndarray:
        """Sum the posterior over the true count, weighted by the noise."""
        n = np.arange(n_total + 1)
        weight = log_binomial(n_total, n) + log_noise_at(mechanism, scale, noisy - n)
        likelihood = np.empty(z.shape)
        for i, value in enumerate(z):  # one line of the (grid, count) table at a time
            likelihood[i] = logsumexp(weight + n * value) - n_total * np.logaddexp(0.0, value)
        return likelihood - 0.5 * (z / self.prior_scale) ** 2

    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        mu = allowed_mu(request, self.calibration)
        temper = min(1.0, mu / self.prior_scale)
        event = GaussianDP(temper * self.prior_scale)
        guarantee = request.reserve(event, "one draw from the tempered posterior")
        generator = randomness.make_generator(request.random_state)
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
        drawn = snapped(expit(z), 0.0, 1.0)
        return single_draw(guarantee, drawn, temper)


def _draw_logit(
    z: np.ndarray,
    width: np.ndarray,
    log_weight: np.ndarray,
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    cell = draw_from_log_weights(generator, log_weight, n_draws)
    return expit(z[cell] + (generator.random(n_draws) - 0.5) * width[cell])
