"""What one posterior sample leaves behind: the draws that were paid for, and their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri
from scipy.stats import norm, t

from skdpbayes import models, randomness
from skdpbayes._validation import check_integer
from skdpbayes.estimators.linear.posterior import LinearPosterior, split_coefficients
from skdpbayes.fitting.records import Block

if TYPE_CHECKING:
    from skdpbayes.estimators.ops.plan import DensityPlan, LangevinPlan, ModePlan


def _without_interval(loss: models.Loss) -> dict[str, str]:
    """Say why there are no intervals, where there are none."""
    if loss.likelihood:
        return {}
    return {"interval": "the loss is no likelihood, so there is no true coefficient to cover."}


@dataclass(frozen=True, eq=False)
class SamplePosterior(LinearPosterior):
    """Released draws of the tempered posterior, and the public plan that made them."""

    plan: LangevinPlan | DensityPlan
    diagnostics: dict[str, Any] | None = None

    @property
    def missing(self) -> dict[str, str]:
        """Methods that this release does not serve, and why."""
        if self.plan.problem.loss.n_outputs > 1:
            return {"interval": "intervals of a draw are for two classes."}
        return _without_interval(self.plan.problem.loss)

    def attributes(self) -> dict[str, Any]:
        """Return the mean of the draws and, if they were asked for, the diagnostics."""
        shown = super().attributes()
        return shown if self.diagnostics is None else {**shown, "diagnostics_": self.diagnostics}

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return draws that were paid for: all, the first ones, or some chosen at random."""
        available = self.coef.shape[0]
        n_samples = available if n_samples is None else check_integer("n_samples", n_samples, low=1)
        if n_samples > available:
            problem = self.plan.problem
            raise ValueError(
                f"n_samples={n_samples} exceeds the {available} draw(s) that fit released. "
                f"Refit with n_draws={n_samples}: within the same (epsilon={problem.epsilon:g}, "
                f"delta={problem.delta:g}) every draw becomes noisier, and the refit is a release "
                "of its own that costs this much once more."
            )
        chosen = np.arange(n_samples)
        if random_state is not None and n_samples < available:
            order = randomness.make_generator(random_state).permutation(available)
            chosen = np.sort(order[:n_samples])
        return {"coef": self.coef[chosen], "intercept": self.intercept[chosen]}

    def interval(self, level: float, X: Any = None) -> dict[str, np.ndarray]:
        """Return intervals from the draws alone, or with the information of public rows ``X``."""
        plan, n_features = self.plan, self.coef.shape[2]
        constant = plan.problem.constant
        step_size, n_steps = (plan.numbers()[name] for name in ("step_size_", "n_steps_"))
        draws = self.coef[:, 0]
        if constant:
            draws = np.column_stack([draws, self.intercept / constant])
        if X is None:
            if step_size is not None or draws.shape[0] < 2:
                raise ValueError(
                    "interval needs public rows X to know how a Langevin draw, or a single draw, "
                    "scatters. Pass X=, or refit with sampler='hmc' and n_draws >= 2."
                )
            lower, upper = student_bounds(draws, plan.inverse_temperature, level)
        else:
            X = self.bound(X)
            # the information does not depend on labels
            block = Block(X, np.zeros(X.shape[0], dtype=np.int64))
            # states of one chain depend on each other, and the law of the first one is known
            chain = step_size is not None
            draw = draws[0] if chain else draws.mean(axis=0)
            how = (draw[None], plan.problem.loss, (2,), constant, None)
            hessian = models.read_derivatives(models.derivatives(block, *how), *how)[2]
            lower, upper = wald_bounds(
                draw,
                hessian * (plan.problem.n_records / X.shape[0]),
                C=plan.C,
                inverse_temperature=plan.inverse_temperature,
                level=level,
                n_draws=1 if chain else draws.shape[0],
                step_size=step_size,
                n_steps=n_steps,
            )
        return _as_intervals(lower[None], upper[None], n_features, constant)


@dataclass(frozen=True, eq=False)
class LaplacePosterior(LinearPosterior):
    """Without privacy: the mode, and the normal law around it that the curvature there gives."""

    mode: np.ndarray
    root: np.ndarray | None
    """Lower Cholesky factor of the precision; None if that was too large."""
    plan: ModePlan

    @property
    def missing(self) -> dict[str, str]:
        """Methods that this fit does not serve, and why."""
        if self.root is not None:
            return _without_interval(self.plan.problem.loss)
        why = f"the curvature of {self.mode.size} coefficients is too large to compute and keep."
        return {"interval": why, "sample_posterior": why}

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw from the normal approximation; ``n_draws`` of the fit if no number is given."""
        size = self.plan.problem.n_draws
        if n_samples is not None:
            size = check_integer("n_samples", n_samples, low=1)
        # derived: the caller may pass the seed of something else
        generator = randomness.derived_generator(random_state, 1)
        standard = generator.standard_normal((self.mode.size, size))
        flat = self.mode + solve_triangular(self.root, standard, lower=True, trans="T").T
        _, n_outputs, n_features = self.coef.shape
        table = flat.reshape(size, n_outputs, -1)
        return split_coefficients(table, n_features, self.plan.problem.constant)

    def interval(self, level: float, X: Any = None) -> dict[str, np.ndarray]:
        """Return central intervals of the normal approximation; public rows add nothing to it."""
        _, n_outputs, n_features = self.coef.shape
        whiten = solve_triangular(self.root, np.eye(self.mode.size), lower=True)
        half = ndtri(0.5 + 0.5 * level) * np.sqrt(np.square(whiten).sum(axis=0))
        lower, upper = (end.reshape(n_outputs, -1) for end in (self.mode - half, self.mode + half))
        return _as_intervals(lower, upper, n_features, self.plan.problem.constant)


def _as_intervals(
    lower: np.ndarray, upper: np.ndarray, n_features: int, constant: float
) -> dict[str, np.ndarray]:
    """Turn ends of shape (K, d [+ 1]) into coefficients (K, d, 2) and intercepts (K, 2)."""
    ends = [split_coefficients(end, n_features, constant) for end in (lower, upper)]
    return {name: np.stack([end[name] for end in ends], axis=-1) for name in ends[0]}


def wald_bounds(
    draw: np.ndarray,
    information: np.ndarray,
    *,
    C: float,
    inverse_temperature: float,
    level: float,
    n_draws: int = 1,
    step_size: float | None = None,
    n_steps: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Lower and upper bounds for every coefficient.

    Let *H* be the Fisher information of all records, with eigenvalues :math:`h`, and
    :math:`\lambda = 1/C`. Around the true coefficients the penalized estimate has mean
    :math:`h/(h+\lambda)` and variance :math:`h/(h+\lambda)^2` along an eigenvector, and a draw adds
    :math:`1/(\beta(h+\lambda))`: with a flat prior the total is :math:`(1 + 1/\beta) / h` (Wang et
    al. 2015, Proposition 9; Minami et al. 2016, Theorem 16). The *t*-th Langevin iterate from 0 has
    instead, with :math:`a = 1 - \gamma(h+\lambda)`, the mean :math:`(1-a^t)` times that and the
    added variance :math:`2\gamma\beta^{-1}(1-a^{2t})/(1-a^2)`. Dividing by the mean's factor undoes
    the shrinkage; a direction without information gets an infinite interval.

    Parameters
    ----------
    draw : ndarray of shape (p,)
        The released coefficients, or the mean of several independent draws.
    information : ndarray of shape (p, p)
        H.
    C, inverse_temperature : float
        Of the sampled density.
    level : float
        Coverage.
    n_draws : int
        How many draws ``draw`` is the mean of; 1 for a chain's state.
    step_size, n_steps : float and int, or None
        The chain's schedule; None for an exact draw.

    Returns
    -------
    lower, upper : ndarray of shape (p,)
    """
    h, vectors = np.linalg.eigh(information)
    h = np.maximum(h, 0.0)
    total = h + 1.0 / C
    shrinkage, variance = h / total, h / total**2
    if step_size is None or n_steps is None:
        added = 1.0 / (n_draws * inverse_temperature * total)
    else:
        a = 1.0 - step_size * total
        reached = 1.0 - a**n_steps
        shrinkage, variance = reached * shrinkage, reached**2 * variance
        added = 2.0 * step_size / inverse_temperature * (1.0 - a ** (2 * n_steps)) / (1.0 - a * a)
    informed = shrinkage > 1e-9
    factor = np.where(informed, 1.0 / np.where(informed, shrinkage, 1.0), 0.0)
    center = vectors @ (factor * (vectors.T @ draw))
    spread = factor**2 * (variance + added)
    width = norm.ppf(0.5 + 0.5 * level) * np.sqrt((vectors**2) @ spread)
    blind = (vectors[:, ~informed] ** 2).sum(axis=1) > 1e-12
    width[blind] = np.inf
    return center - width, center + width


def student_bounds(
    draws: np.ndarray, inverse_temperature: float, level: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Bounds from k independent draws, whose own scatter stands in for the information.

    Under a weak prior a coefficient's draws have variance :math:`v = 1/(\beta h)` around an
    estimate that has variance :math:`1/h = \beta v` around the truth, so the mean of k draws is off
    by :math:`v (1/k + \beta)`; with v estimated from the same draws the law is Student's with k - 1
    degrees of freedom.

    Parameters
    ----------
    draws : ndarray of shape (k, p)
        Released draws, k >= 2.
    inverse_temperature, level : float
        Of the sampled density, and the coverage.

    Returns
    -------
    lower, upper : ndarray of shape (p,)
    """
    k = draws.shape[0]
    center, variance = draws.mean(axis=0), draws.var(axis=0, ddof=1)
    quantile = t.ppf(0.5 + 0.5 * level, k - 1)
    half = quantile * np.sqrt(variance * (1.0 / k + inverse_temperature))
    return center - half, center + half
