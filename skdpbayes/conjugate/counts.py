"""Bernoulli and categorical data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import betaln

from skdpbayes import samplers
from skdpbayes._validation import check_integer, check_real
from skdpbayes.conjugate.model import (
    ATTEMPTS,
    AnyValues,
    ConjugateModel,
    Draw,
    Release,
    draw_from_log_weights,
    log_binomial,
    log_noise_at,
    release_sums,
    snapped,
    tempered,
    total_of,
)
from skdpbayes.privacy.budget import Budget, Noise
from skdpbayes.privacy.mechanisms.exponential_mechanism import truncated_dirichlet_range
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.floored import ROUNDING, draw_floored_dirichlet, floored_conditions


class CoinModel(ConjugateModel):
    """What models of coin flips share: zeros and ones, and a noisy number of ones."""

    def _read(self, data: Any) -> np.ndarray:
        values = np.asarray(data).ravel()
        if values.size == 0 or not ((values == 0) | (values == 1)).all():
            raise ValueError("data must be a non-empty sequence of zeros and ones.")
        return values.astype(np.int64)

    def _records(
        self, generator: np.random.Generator, parameter: np.ndarray, n_samples: int
    ) -> np.ndarray:
        return (generator.random(n_samples) < parameter).astype(np.int64)

    def _moves(self, records: int) -> tuple[float, float, int]:
        return 1.0, 1.0, 1

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        return release_sums(generator, values, values.total(total_of), noise)

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        n, noisy = sum(part.n for part in parts), sum(int(part.statistic[0]) for part in parts)
        ones, log_weights = np.array([min(max(noisy, 0), n)]), np.zeros(1)
        if not naive:
            ones = np.arange(n + 1)
            scales = [part.noise.scale for part in parts]
            noise = log_noise_at(parts[0].noise.law, scales, noisy - ones)
            log_weights = log_binomial(n, ones) + noise
        return {"n_ones": noisy}, self._given_ones(ones, log_weights, n)

    def _given_ones(self, ones: np.ndarray, log_weights: np.ndarray, n: int) -> Draw:
        """Return the posterior given numbers of ones, likely by the noise and by the order."""
        raise NotImplementedError


class BetaBernoulli(CoinModel):
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
        self.a = a
        self.b = b
        self.min_probability = min_probability

    def _check(self) -> None:
        check_real("a", self.a, low=0.0, closed="neither")
        check_real("b", self.b, low=0.0, closed="neither")
        floor = self.min_probability
        check_real("min_probability", floor, low=0.0, high=0.5, closed="neither")

    def _given_ones(self, ones: np.ndarray, log_weights: np.ndarray, n: int) -> Draw:
        prior = betaln(ones + self.a, n - ones + self.b)
        return partial(_draw_beta, ones + self.a, n - ones + self.b, log_weights + prior)

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        width = truncated_dirichlet_range(2, self.min_probability)
        return tempered(budget, moved(budget.adjacency) * width)

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        ones = int(values.sum())
        parameter = np.array([[self.a + temper * ones, self.b + temper * (values.size - ones)]])
        exact = samplers.sample_truncated_dirichlet(
            parameter, self.min_probability, generator.random((1, 1, 2, 1 + 2 * ATTEMPTS))
        )[:, 0]
        return snapped(exact, self.min_probability, 1.0 - self.min_probability)


def _draw_beta(
    a: np.ndarray,
    b: np.ndarray,
    log_weights: np.ndarray,
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    drawn = draw_from_log_weights(generator, log_weights, n_draws)
    return generator.beta(a[drawn], b[drawn])


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
        self.n_categories = n_categories
        self.alpha = alpha
        self.min_probability = min_probability

    def _check(self) -> None:
        k = check_integer("n_categories", self.n_categories, low=2)
        check_real("alpha", self.alpha, low=0.0, closed="neither")
        check_real("min_probability", self._floor, low=0.0, high=1.0 / k, closed="neither")

    @property
    def _floor(self) -> float:
        given = self.min_probability
        return 0.1 / self.n_categories if given is None else given

    def _read(self, data: Any) -> np.ndarray:
        values = np.asarray(data).ravel()
        codes = values.astype(np.int64)
        bad = codes.size == 0 or (codes != values).any()
        if bad or codes.min() < 0 or codes.max() >= self.n_categories:
            raise ValueError(f"data must be codes 0, ..., {self.n_categories - 1}; at least one.")
        return codes

    def _records(
        self, generator: np.random.Generator, parameter: np.ndarray, n_samples: int
    ) -> np.ndarray:
        steps = np.cumsum(parameter)
        return np.searchsorted(steps[:-1], generator.random(n_samples) * steps[-1], side="right")

    def _moves(self, records: int) -> tuple[float, float, int]:
        return records, records, 1

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        counts = values.total(partial(np.bincount, minlength=self.n_categories))
        return release_sums(generator, values, counts, noise)

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        n, noisy = sum(part.n for part in parts), np.sum([p.statistic for p in parts], axis=0)
        released = {"counts": noisy}
        if naive:
            return released, partial(_draw_dirichlet, np.maximum(noisy, 0) + self.alpha)
        laws = [(part.noise.law, part.noise.scale) for part in parts]
        return released, partial(_draw_noisy_dirichlet, noisy, n, self.alpha, laws)

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        width = moved(budget.adjacency) * truncated_dirichlet_range(self.n_categories, self._floor)
        draw = tempered(budget, width, ROUNDING)
        return *draw, *floored_conditions([self.n_categories])

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        counts = np.bincount(values, minlength=self.n_categories)
        n_records = temper * values.size + self.alpha * self.n_categories
        parameter = temper * counts[None] + self.alpha
        return draw_floored_dirichlet(parameter, self._floor, n_records, generator)


def _draw_dirichlet(
    parameter: np.ndarray, generator: np.random.Generator, n_draws: int
) -> np.ndarray:
    return generator.dirichlet(parameter, n_draws)


def _draw_noisy_dirichlet(
    noisy: np.ndarray,
    n_total: int,
    alpha: float,
    laws: Sequence[tuple[str, float]],
    generator: np.random.Generator,
    n_draws: int,
) -> np.ndarray:
    """Exact: the total is known, so the counts are Dirichlet-multinomial given their noise."""
    counts = samplers.sample_noisy_tables(
        [noisy[None]],
        n_total,
        alpha,
        samplers.noise_log_pmf(laws),
        generator.random((n_draws, 1)),
        generator.random((n_draws, 1, noisy.shape[0], 2)),
    )[:, 0]
    gamma = np.maximum(generator.standard_gamma(counts + alpha), np.finfo(float).tiny)
    return gamma / gamma.sum(axis=1, keepdims=True)
