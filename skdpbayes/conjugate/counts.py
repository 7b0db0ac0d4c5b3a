"""Bernoulli and categorical data."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.special import betaln

from skdpbayes import randomness, samplers
from skdpbayes._validation import check_integer, check_real
from skdpbayes.conjugate.release import (
    ATTEMPTS,
    ConjugateModel,
    PrivatePosterior,
    Request,
    draw_from_log_weights,
    log_binomial,
    log_noise_at,
    ops_eta,
    single_draw,
    snapped,
)
from skdpbayes.privacy.events import BoundedRange
from skdpbayes.privacy.mechanisms.exponential_mechanism import truncated_dirichlet_range
from skdpbayes.release.floored import ROUNDING, draw_floored_dirichlet, floored_conditions

__all__ = ["BetaBernoulli", "DirichletCategorical"]


def check_binary(data: Any) -> np.ndarray:
    """Return 0/1 data as integers."""
    values = np.asarray(data).ravel()
    if values.size == 0 or not ((values == 0) | (values == 1)).all():
        raise ValueError("data must be a non-empty sequence of zeros and ones.")
    return values.astype(np.int64)


class BetaBernoulli(ConjugateModel):
    r"""Coin flips with a beta prior: :math:`\theta \sim \mathrm{Beta}(a, b)`.

    Data are zeros and ones. The only statistic is the number of ones :math:`n_+`: with ``N`` public
    the zeros follow. One record moves it by at most 1, under both adjacencies (a release of
    :math:`[n_+, n_-]` has L1 sensitivity 2 and doubles the noise).

    With ``mechanism="ops"`` the parameter is restricted to :math:`[a_0, 1 - a_0]`, where
    :math:`|\log \theta - \log(1-\theta)| \le \Delta = \log((1-a_0)/a_0)`, and the posterior is
    tempered by :math:`\rho = \varepsilon / (2\Delta)` (``replace_one``) or
    :math:`\varepsilon/\Delta` (``zero_out``): Foulds et al. 2016, Equations 13-15.

    Parameters
    ----------
    a, b : float, default=1.0
        Prior parameters, > 0.
    min_probability : float, default=0.05
        :math:`a_0`, in (0, 1/2); for ``mechanism="ops"`` only.

    Examples
    --------
    >>> from skdpbayes.conjugate import BetaBernoulli
    >>> flips = [0, 1, 1, 0, 1, 1, 1, 0, 1, 1] * 20
    >>> posterior = BetaBernoulli().posterior(flips, epsilon=1.0, random_state=0)
    >>> low, high = posterior.interval(0.9, random_state=0)
    >>> bool(low < 0.7 < high)
    True
    """

    def __init__(self, a: float = 1.0, b: float = 1.0, *, min_probability: float = 0.05) -> None:
        self.a = check_real("a", a, low=0.0, closed="neither")
        self.b = check_real("b", b, low=0.0, closed="neither")
        self.min_probability = check_real(
            "min_probability", min_probability, low=0.0, high=0.5, closed="neither"
        )

    def _checked(self, data: Any) -> np.ndarray:
        return check_binary(data)

    def _from_noise(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        scale, event = request.noise_scale(1.0, 1.0)
        guarantee = request.reserve(event, request.words)
        noisy = int(request.add_noise(values.sum(keepdims=True), scale)[0])
        released = {"n_ones": noisy, "n_total": values.size, "noise_scale": scale}
        if request.posterior == "naive":
            first, log_weights = min(max(noisy, 0), values.size), np.zeros(1)
        else:
            first, log_weights = 0, self._log_weights(noisy, values.size, request.mechanism, scale)
        draw = partial(_draw_beta, first, log_weights, values.size, self.a, self.b)
        return PrivatePosterior(guarantee, released, draw)

    def _log_weights(self, noisy: int, n_total: int, mechanism: str, scale: float) -> np.ndarray:
        """Beta-binomial prior of the true count times the noise."""
        n = np.arange(n_total + 1)
        prior = log_binomial(n_total, n) + betaln(n + self.a, n_total - n + self.b)
        return prior + log_noise_at(mechanism, scale, noisy - n)

    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        eta = ops_eta(request)
        records = 2.0 if request.replaces else 1.0
        temper = min(1.0, eta / (records * truncated_dirichlet_range(2, self.min_probability)))
        guarantee = request.reserve(BoundedRange(eta), "one draw from the tempered posterior")
        generator = randomness.make_generator(request.random_state)
        ones = int(values.sum())
        parameter = np.array([[self.a + temper * ones, self.b + temper * (values.size - ones)]])
        exact = samplers.sample_truncated_dirichlet(
            parameter, self.min_probability, generator.random((1, 1, 2, 1 + 2 * ATTEMPTS))
        )[:, 0]
        drawn = snapped(exact, self.min_probability, 1.0 - self.min_probability)
        return single_draw(guarantee, drawn, temper)


def _draw_beta(
    first: int,
    log_weights: np.ndarray,
    n_total: int,
    a: float,
    b: float,
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    n = first + draw_from_log_weights(generator, log_weights, n_draws)
    return generator.beta(a + n, b + n_total - n)


class DirichletCategorical(ConjugateModel):
    r"""Categories with a Dirichlet prior: :math:`\theta \sim \mathrm{Dir}(\alpha, ..., \alpha)`.

    Data are codes 0, 1, ..., ``n_categories - 1``; the statistics are their counts. Replacing a
    record moves two of them by 1 (L1 sensitivity 2, squared L2 sensitivity 2), zeroing it out one
    (1 and 1). The draw of ``mechanism="ops"`` is exact, on a public grid, for up to 512 categories.

    Parameters
    ----------
    n_categories : int
        Public number of categories, coded 0, 1, ....
    alpha : float, default=1.0
        Prior parameter of each category, > 0.
    min_probability : float, default=None
        Smallest probability for ``mechanism="ops"``, in (0, 1 / n_categories); None is a tenth of
        the uniform one.
    """

    def __init__(
        self, n_categories: int, alpha: float = 1.0, *, min_probability: float | None = None
    ) -> None:
        self.n_categories = check_integer("n_categories", n_categories, low=2)
        self.alpha = check_real("alpha", alpha, low=0.0, closed="neither")
        if min_probability is None:
            min_probability = 0.1 / self.n_categories
        self.min_probability = check_real(
            "min_probability", min_probability, low=0.0, high=1.0 / n_categories, closed="neither"
        )

    def _checked(self, data: Any) -> np.ndarray:
        values = np.asarray(data).ravel()
        codes = values.astype(np.int64)
        bad = codes.size == 0 or (codes != values).any()
        if bad or codes.min() < 0 or codes.max() >= self.n_categories:
            raise ValueError(f"data must be codes 0, ..., {self.n_categories - 1}; at least one.")
        return codes

    def _from_noise(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        moved = 2 if request.replaces else 1
        scale, event = request.noise_scale(float(moved), float(moved))
        guarantee = request.reserve(event, request.words)
        counts = np.bincount(values, minlength=self.n_categories)
        noisy = request.add_noise(counts, scale)
        released = {"counts": noisy, "n_total": values.size, "noise_scale": scale}
        if request.posterior == "naive" or scale == 0.0:
            draw = partial(_draw_dirichlet, np.maximum(noisy, 0) + self.alpha)
        else:
            draw = partial(
                _draw_noisy_dirichlet, noisy, values.size, self.alpha, ((request.mechanism, scale),)
            )
        return PrivatePosterior(guarantee, released, draw)

    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        eta = ops_eta(request)
        records = 2.0 if request.replaces else 1.0
        width = truncated_dirichlet_range(self.n_categories, self.min_probability)
        temper = min(1.0, eta / (records * width) * (1.0 - ROUNDING))
        guarantee = request.reserve(
            BoundedRange(eta),
            "one draw from the tempered posterior",
            floored_conditions([self.n_categories]),
        )
        generator = randomness.make_generator(request.random_state)
        counts = np.bincount(values, minlength=self.n_categories)
        n_records = temper * values.size + self.alpha * self.n_categories
        drawn = draw_floored_dirichlet(
            temper * counts[None] + self.alpha, self.min_probability, n_records, generator
        )
        return single_draw(guarantee, drawn, temper)


def _draw_dirichlet(
    parameter: np.ndarray, generator: np.random.Generator, n_draws: int
) -> np.ndarray:
    return generator.dirichlet(parameter, n_draws)


def _draw_noisy_dirichlet(
    noisy: np.ndarray,
    n_total: int,
    alpha: float,
    noise: tuple[tuple[str, float], ...],
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    """Exact: the total is known, so the counts are Dirichlet-multinomial given their noise."""
    counts = samplers.sample_noisy_tables(
        [noisy[None]],
        n_total,
        alpha,
        samplers.noise_log_pmf(noise),
        generator.random((n_draws, 1)),
        generator.random((n_draws, 1, noisy.shape[0], 2)),
    )[:, 0]
    gamma = np.maximum(generator.standard_gamma(counts + alpha), np.finfo(float).tiny)
    return gamma / gamma.sum(axis=1, keepdims=True)
