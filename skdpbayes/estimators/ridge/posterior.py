r"""What released moments say about a linear regression.

With :math:`x` and :math:`y` in public units the model is

.. math::
    y_i \sim N(\alpha + x_i^\top\beta, s^2), \quad \beta \sim N(0, \sigma^2 I), \quad
    \log s^2 \sim N(\log 0.05, 1.5^2), \quad \alpha + \bar x^\top\beta \sim N(0, 0.5^2).

Given exact moments, where :math:`\alpha` has a flat prior instead, the posterior is that of an
ordinary regression: normal given :math:`s^2`, whose own density is one-dimensional
(`OrdinaryRegression`). Given noisy ones, the residuals of the normal equations have a covariance
that the noise adds to, and Metropolis steps draw from the posterior (`NoisyRegression`,
:mod:`skdpbayes.samplers.noisy_regression`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from skdpbayes import randomness, samplers
from skdpbayes._validation import check_integer
from skdpbayes.estimators._regressor import TargetScale
from skdpbayes.estimators.ridge.plan import OF_X, OF_XY, OF_Y, OF_YY, RidgePlan
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.records import Records
from skdpbayes.privacy.budget import Noise

N_DRAWS = 1000
WARM_UP, THINNING = 1000, 5
NUMBERS_AT_ONCE = 1 << 20  # random numbers that a stretch of the chain takes
# Prior of the logarithm of the error variance, for targets in [-1, 1]: a standard deviation of 0.22
# (90 %: 0.065 to 0.77).
LOG_VARIANCE_MEAN, LOG_VARIANCE_DEVIATION = math.log(0.05), 1.5
# Targets are in [-1, 1], so their mean is: the prior of the regression's value at the mean of the
# rows has this deviation. Without noise it is flat, as scikit-learn's: nothing hides the mean.
MIDDLE_DEVIATION = 0.5
# Directions in which rows vary less than this share of the largest possible variance count as if
# they varied as much, in the covariance of the residuals (not in the residuals themselves).
LEAST_VARIANCE = 1e-3


@dataclass(frozen=True, eq=False)
class CenteredMoments:
    """Sums of squares and products around the means; around 0 without an intercept."""

    n: int
    mean: np.ndarray
    target_mean: float
    square: np.ndarray
    cross: np.ndarray
    target_square: float
    intercept: bool

    @classmethod
    def from_sums(
        cls, sums: np.ndarray, n: int, intercept: bool, kept: float = 1.0
    ) -> CenteredMoments:
        """Center noisy sums of z z', z = (1, x, y), or (x, y); of the mean a share is kept."""
        d = sums.shape[0] - 1 - intercept
        of_x, target = slice(-d - 1, -1), sums.shape[0] - 1
        mean = kept * sums[0, of_x] / n if intercept else np.zeros(d)
        target_mean = float(sums[0, target]) / n if intercept else 0.0
        return cls(
            n,
            mean,
            target_mean,
            sums[of_x, of_x] - n * np.outer(mean, mean),
            sums[of_x, target] - n * target_mean * mean,
            float(sums[target, target]) - n * target_mean**2,
            intercept,
        )

    @classmethod
    def from_rows(cls, rows: Records, plan: RidgePlan) -> CenteredMoments:
        """Take them from the rows as they are, without privacy."""
        X, target, weight = rows.block()
        assert target is not None
        n, intercept = plan.n, plan.fit_intercept
        X = X / plan.data_norm
        mean, target_mean = np.zeros(X.shape[1]), 0.0
        if weight is None:
            if intercept:
                mean, target_mean = np.asarray(X.mean(axis=0)).ravel(), float(target.mean())
        elif intercept:
            share = weight / weight.sum()
            mean, target_mean = X.T @ share, float(target @ share)
        target = target - target_mean
        if weight is not None:  # roots of weights turn sums of squares into weighted ones
            root = np.sqrt(weight * (n / weight.sum()))
            centered = (X.toarray() if sparse.issparse(X) else X) - mean
            X, target = centered * root[:, None], target * root
            square, cross = X.T @ X, X.T @ target
            return cls(n, mean, target_mean, square, cross, float(target @ target), intercept)
        if sparse.issparse(X):
            square = (X.T @ X).toarray() - n * np.outer(mean, mean)
            cross = X.T @ target
        else:
            X = X - mean
            square, cross = X.T @ X, X.T @ target
        return cls(n, mean, target_mean, square, cross, float(target @ target), intercept)

    def sums(self) -> np.ndarray:
        """Return the sums of z z'."""
        z = np.concatenate([[1.0], self.mean, [self.target_mean]])
        sums = self.n * np.outer(z, z)
        sums[1:-1, 1:-1] += self.square
        sums[1:-1, -1] += self.cross
        sums[-1, 1:-1] += self.cross
        sums[-1, -1] += self.target_square
        return sums if self.intercept else sums[1:, 1:]

    def possible(self) -> CenteredMoments:
        """Return the nearest moments that some rows could have: without negative eigenvalues."""
        d = self.mean.shape[0]
        joint = np.empty((d + 1, d + 1))
        joint[:-1, :-1], joint[-1, -1] = self.square, self.target_square
        joint[:-1, -1] = joint[-1, :-1] = self.cross
        values, vectors = np.linalg.eigh(joint)
        joint = (vectors * np.maximum(values, 1e-9 * self.n)) @ vectors.T
        return replace(
            self, square=joint[:-1, :-1], cross=joint[:-1, -1], target_square=float(joint[-1, -1])
        )


@dataclass(frozen=True, eq=False)
class Parameters:
    """Coefficients (..., d), intercepts (...) and error variances (...)."""

    coef: np.ndarray
    intercept: Any
    noise_variance: Any

    def in_units(self, target: TargetScale, data_norm: float) -> Parameters:
        """Return those of public units in the user's."""
        return Parameters(
            self.coef * (target.half / data_norm),
            target.middle + target.half * self.intercept,
            target.half**2 * self.noise_variance,
        )


class Regression(Protocol):
    """A posterior in public units."""

    def draw(self, n_draws: int, generator: np.random.Generator) -> Parameters:
        """Draw from it, first axis the draw."""

    def center(self, draws: Parameters) -> Parameters:
        """Point estimates; ``draws`` are at hand."""


@dataclass(frozen=True, eq=False)
class OrdinaryRegression:
    """The posterior given exact moments, or noisy ones that are taken for exact."""

    moments: CenteredMoments
    prior_scale: float

    def _log_density(self, log_variance: np.ndarray, values: np.ndarray, cross: np.ndarray) -> Any:
        """Log-density of the logarithm of the error variance, coefficients integrated out."""
        m = self.moments
        variance = np.exp(log_variance)[..., None]
        explained = np.sum(cross**2 / (values + variance / self.prior_scale**2), axis=-1)
        determinant = np.sum(np.log1p(self.prior_scale**2 * values / variance), axis=-1)
        rest = np.maximum(m.target_square - explained, 0.0) / np.exp(log_variance)
        prior = ((log_variance - LOG_VARIANCE_MEAN) / LOG_VARIANCE_DEVIATION) ** 2
        return -0.5 * ((m.n - m.intercept) * log_variance + determinant + rest + prior)

    def _variances(self, values: np.ndarray, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a grid of error variances and their probabilities."""

        def objective(log_variance: float) -> float:
            return -float(self._log_density(np.array(log_variance), values, cross))

        total = self.moments.target_square / self.moments.n
        top = math.log(total) if total > 0.0 else LOG_VARIANCE_MEAN
        coarse = top + np.linspace(-60.0, 60.0, 481)  # the first ends a fit without residuals
        best = coarse[np.argmax(self._log_density(coarse, values, cross))]
        found = minimize_scalar(objective, bounds=(best - 0.5, best + 0.5), method="bounded")
        width = 10.0 / math.sqrt(0.5 * self.moments.n + LOG_VARIANCE_DEVIATION**-2)
        grid = found.x + np.linspace(-width, width, 401)
        log_density = self._log_density(grid, values, cross)
        density = np.exp(log_density - log_density.max())
        return np.exp(grid), density / density.sum()

    def _eigen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.moments.square)
        return np.maximum(values, 0.0), vectors, vectors.T @ self.moments.cross

    def draw(self, n_draws: int, generator: np.random.Generator) -> Parameters:
        """Draw independently: the error variance on its grid, then the rest, which is normal."""
        m = self.moments
        values, vectors, cross = self._eigen()
        grid, probability = self._variances(values, cross)
        places = np.searchsorted(np.cumsum(probability), generator.random(n_draws))
        variance = grid[np.minimum(places, grid.shape[0] - 1)]
        precision = values + variance[:, None] / self.prior_scale**2
        normal = generator.standard_normal((n_draws, values.shape[0]))
        beta = (cross / precision + np.sqrt(variance[:, None] / precision) * normal) @ vectors.T
        alpha = np.zeros(n_draws)
        if m.intercept:
            normal = generator.standard_normal(n_draws)
            alpha = m.target_mean - beta @ m.mean + np.sqrt(variance / m.n) * normal
        return Parameters(beta, alpha, variance)

    def center(self, draws: Parameters) -> Parameters:
        """Mean error variance, and the ridge regression that belongs to it."""
        values, vectors, cross = self._eigen()
        grid, probability = self._variances(values, cross)
        variance = float(grid @ probability)
        beta = vectors @ (cross / (values + variance / self.prior_scale**2))
        m = self.moments
        return Parameters(beta, m.target_mean - float(beta @ m.mean), variance)


@dataclass(frozen=True, eq=False)
class NoisyRegression:
    """The posterior given moments under noise of a known deviation on each weighted entry.

    Noise spreads the mean of the rows, which is within the unit ball: ``moments`` keep a share of
    the noisy mean, as a normal prior with the variance of the uniform law there, 1 / (d + 2), asks
    for. The variance of what is left of its noise is ``kept`` times that of the noise.
    """

    moments: CenteredMoments
    deviation: float
    kept: float
    prior_scale: float

    @classmethod
    def from_sums(
        cls, sums: np.ndarray, n: int, intercept: bool, deviation: float, prior_scale: float
    ) -> NoisyRegression:
        """Take noisy sums of z z'."""
        d = sums.shape[0] - 1 - intercept
        kept = 1.0 / (1.0 + (d + 2.0) * (deviation / OF_X / n) ** 2)
        moments = CenteredMoments.from_sums(sums, n, intercept, kept)
        return cls(moments, deviation, kept, prior_scale)

    def _problem(self) -> tuple[np.ndarray, tuple[np.ndarray, ...], np.ndarray]:
        """Return eigenvectors, moments in them, and the numbers that the sampler takes."""
        m, tau = self.moments, self.deviation
        d = m.mean.shape[0]
        # Noise stretches the eigenvalues of the sums of squares and products. They are drawn to
        # their mean by how much of their spread noise explains: a normal prior around it. Rows are
        # no longer than 1, so the trace is at most n and the spread at most n^2 (1 - 1/d).
        middle = float(np.clip(np.trace(m.square), 0.0, m.n)) / d
        square, left = middle * np.eye(d), 1.0
        if d > 1:
            apart = m.square - float(np.trace(m.square)) / d * np.eye(d)
            freedom = 0.5 * d * (d + 1) - 1.0
            spread = max(float(np.sum(apart**2)) / freedom - tau**2, 0.0)
            spread = min(spread, m.n**2 * (1.0 - 1.0 / d) / freedom)
            left = spread / (spread + tau**2)
            square = square + left * apart
        values, vectors = np.linalg.eigh(square)
        least = max(tau, LEAST_VARIANCE * m.n)
        tables = (values, np.maximum(values, least), vectors.T @ m.cross, vectors.T @ m.mean)
        numbers = np.array(
            [
                m.n,
                m.target_mean,
                m.target_square,
                tau**2,
                self.kept / OF_X**2 if m.intercept else 0.0,
                OF_Y**-2 if m.intercept else 0.0,
                OF_XY**-2,
                OF_YY**-2,
                left,
                self.prior_scale**2,
                LOG_VARIANCE_MEAN,
                LOG_VARIANCE_DEVIATION,
                MIDDLE_DEVIATION,
            ]
        )
        return vectors, tuple(np.ascontiguousarray(table) for table in tables), numbers

    def draw(self, n_draws: int, generator: np.random.Generator) -> Parameters:
        """Run the chain and keep every fifth state after a warm-up."""
        m = self.moments
        vectors, tables, numbers = self._problem()
        values, spread, cross = tables[:3]
        d = values.shape[0]
        error = math.exp(LOG_VARIANCE_MEAN)
        variance = error * spread + self.deviation**2 * (OF_XY**-2 + 0.5)
        precision = values**2 / variance + self.prior_scale**-2
        start = np.concatenate(
            [
                [np.clip(m.target_mean, -1.0, 1.0)],
                values * cross / variance / precision,
                [LOG_VARIANCE_MEAN],
            ]
        )
        center_step = math.hypot(math.sqrt(error / m.n), self.deviation / OF_Y / m.n)
        log_steps = np.log(np.concatenate([[center_step], precision**-0.5, [0.5]]))
        chunk = max(1, NUMBERS_AT_ONCE // (d + 2) // THINNING) * THINNING
        kept = np.empty((n_draws, d + 2))

        def run(n_sweeps: int, adapted: int) -> np.ndarray:
            return samplers.sample_noisy_regression(
                start,
                log_steps,
                tables,
                numbers,
                m.intercept,
                generator.standard_normal((n_sweeps, d + 2)),
                generator.random((n_sweeps, d + 2)),
                adapted,
            )

        for begin in range(0, WARM_UP, chunk):
            run(min(chunk, WARM_UP - begin), begin)
        for begin in range(0, n_draws * THINNING, chunk):
            states = run(min(chunk, n_draws * THINNING - begin), -1)
            kept[begin // THINNING : (begin + chunk) // THINNING] = states[THINNING - 1 :: THINNING]
        beta = kept[:, 1:-1] @ vectors.T
        alpha = kept[:, 0] - beta @ m.mean if m.intercept else np.zeros(n_draws)
        # one by one: older NumPy lets the place in memory decide on the last bit of a vector's
        variance = np.array([math.exp(value) for value in kept[:, -1].tolist()])
        return Parameters(beta, alpha, variance)

    def center(self, draws: Parameters) -> Parameters:
        """Means of the draws."""
        return Parameters(
            draws.coef.mean(axis=0),
            float(draws.intercept.mean()),
            float(draws.noise_variance.mean()),
        )


def learned_from(
    sums: np.ndarray,
    noises: tuple[Noise, ...],
    n: int,
    intercept: bool,
    posterior: str,
    prior_scale: float,
) -> Regression:
    """Return the posterior given noisy sums of z z'; the noises of merged releases add up."""
    if posterior == "naive":
        moments = CenteredMoments.from_sums(sums, n, intercept)
        return OrdinaryRegression(moments.possible(), prior_scale)
    deviation = math.hypot(*(noise.deviation for noise in noises))
    return NoisyRegression.from_sums(sums, n, intercept, deviation, prior_scale)


@dataclass(frozen=True, eq=False)
class RidgePosterior:
    """Draws of the parameters in the user's units, and the moments that they were made from."""

    sums: np.ndarray
    noises: tuple[Noise, ...]
    regression: Regression
    bound: Bound
    target: TargetScale
    data_norm: float
    drawn: Parameters
    center: Parameters

    @classmethod
    def learned(
        cls,
        sums: np.ndarray,
        noises: tuple[Noise, ...],
        regression: Regression,
        bound: Bound,
        target: TargetScale,
        data_norm: float,
        generator: np.random.Generator,
    ) -> RidgePosterior:
        """Draw from the posterior, once for all predictions."""
        drawn = regression.draw(N_DRAWS, generator)
        center = regression.center(drawn).in_units(target, data_norm)
        drawn = drawn.in_units(target, data_norm)
        return cls(sums, noises, regression, bound, target, data_norm, drawn, center)

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return 3 * (self.center.coef.shape[0] + 1)

    def attributes(self) -> dict[str, Any]:
        """Point estimates and what they were computed from."""
        return {
            "coef_": self.center.coef,
            "intercept_": self.center.intercept,
            "noise_variance_": self.center.noise_variance,
            "moments_": self.sums,
            "noise_": self.noises,
        }

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw the parameters anew."""
        size = check_integer("n_samples", N_DRAWS if n_samples is None else n_samples, low=1)
        # derived: the seed of the fit would repeat the secret noise
        generator = randomness.derived_generator(random_state, 1)
        drawn = self.regression.draw(size, generator)
        return dict(vars(drawn.in_units(self.target, self.data_norm)))

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Equal-tailed intervals of the parameters."""
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        return {
            name: np.moveaxis(np.quantile(values, ends, axis=0), 0, -1)
            for name, values in vars(self.drawn).items()
        }

    def mean(self, X: Any) -> np.ndarray:
        """Expected targets of a block of rows."""
        return np.asarray(self.bound(X) @ self.center.coef) + self.center.intercept

    def deviation(self, X: Any) -> np.ndarray:
        """Standard deviations of new targets of a block of rows."""
        X = self.bound(X)
        X = X.toarray() if sparse.issparse(X) else X
        rows = np.column_stack([X, np.ones(X.shape[0])])
        drawn = np.column_stack([self.drawn.coef, self.drawn.intercept])
        spread = np.einsum("ij,ij->i", rows @ np.cov(drawn, rowvar=False), rows)
        return np.sqrt(spread + self.drawn.noise_variance.mean())
