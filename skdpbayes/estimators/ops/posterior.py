"""What one posterior sample leaves behind: the draws that were paid for, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri
from scipy.stats import t

from skdpbayes import models, randomness
from skdpbayes._validation import check_integer
from skdpbayes.estimators.linear.posterior import LinearPosterior, split_coefficients
from skdpbayes.fitting.records import Block

if TYPE_CHECKING:
    from skdpbayes.estimators.ops.plan import DensityPlan, LangevinPlan, ModePlan

# Draws alone tell of the truth where the prior holds at most this share of the posterior precision
# and their logits scatter by at most this, for the longest row.
WEAK_PRIOR, LARGEST_SCATTER = 0.1, 2.0
# A normal approximation needs logits that are known to about this, root mean square over the rows.
LARGEST_DEVIATION = 1.0
# Newton steps on the score equation, none of which changes a logit by more than about this.
MOST_ITERATIONS, LONGEST_STEP = 100, 1.0
# A direction with less than this share of the largest information counts as not seen.
BLIND = 1e-9


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
        beta = plan.inverse_temperature
        if X is None:
            if step_size is not None or draws.shape[0] < 2:
                raise ValueError(
                    "interval needs public rows X to know how a Langevin draw, or a single draw, "
                    "scatters. Pass X=, or refit with sampler='hmc' and n_draws >= 2."
                )
            variances = draws.var(axis=0, ddof=1)
            of_prior = beta * float(variances.mean()) / plan.C
            deviation = plan.problem.record_norm * math.sqrt(float(variances.sum()))
            if of_prior > WEAK_PRIOR or deviation > LARGEST_SCATTER:
                raise ValueError(
                    "interval from draws alone needs a prior and a scatter that are small. These "
                    f"draws show that the prior (C={plan.C:.3g}) holds {of_prior:.0%} of the "
                    f"precision (at most {WEAK_PRIOR:.0%}) and that a logit may vary by "
                    f"{deviation:.2g} (at most {LARGEST_SCATTER:g}). Pass public rows X=."
                )
            lower, upper = student_bounds(draws, beta, level)
        else:
            X = self.bound(X)
            # the expected gradient does not depend on labels, up to a constant
            block = Block(X, np.zeros(X.shape[0], dtype=np.int64))
            scale = plan.problem.n_records / X.shape[0]

            def derivatives(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                how = (theta[None], plan.problem.loss, (1, 2), constant, None)
                _, gradient, hessian = models.read_derivatives(
                    models.derivatives(block, *how), *how
                )
                return scale * gradient.ravel(), scale * hessian

            lower, upper = score_bounds(
                # states of one chain depend on each other, and the law of the first one is known
                draws if step_size is None else draws[:1],
                derivatives,
                n_records=plan.problem.n_records,
                C=plan.C,
                inverse_temperature=beta,
                level=level,
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


def score_bounds(
    draws: np.ndarray,
    derivatives: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    *,
    n_records: int,
    C: float,
    inverse_temperature: float,
    level: float,
    step_size: float | None = None,
    n_steps: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Lower and upper bounds for every coefficient, by the score that a draw stands for.

    For a draw from :math:`e^{-\beta F}` on the whole space, integration by parts gives
    :math:`\mathrm E\,\nabla F = 0` and
    :math:`\mathrm{cov}\,\nabla F = \mathrm E\,\nabla^2 F / \beta`, exactly, however hot the
    posterior is and whatever the prior. With
    :math:`F = \sum_i \ell_i + \|\theta\|^2 / 2C` and the labels averaged over, the equation

    .. math::

        \sum_i \big(\sigma(z_i^\top d) - \sigma(z_i^\top\theta_0)\big) z_i + d / C = \text{noise}

    holds at the true coefficients, with noise of mean 0 and covariance
    :math:`H(\theta_0) + (H(d) + I/C)/\beta`, the first part the labels'. It is solved for
    :math:`\theta_0`; with a flat prior and little noise the variance is the :math:`(1 + 1/\beta)
    H^{-1}` of Wang et al. (2015, Proposition 9) and Minami et al. (2016, Theorem 16).

    The *t*-th Langevin iterate from 0 has, along an eigenvector of the information with
    :math:`a = 1 - \gamma(h + 1/C)`, the mean :math:`(1 - a^t)\,h/(h + 1/C)` times the truth: it has
    the prior :math:`(h + 1/C)/(1 - a^t) - h` in place of :math:`1/C`, and the variance
    :math:`2\gamma\beta^{-1}(1-a^{2t})/(1-a^2)`. The information of the former is the mean over the
    way from 0 to the draw, that of the latter the one at the draw.

    Parameters
    ----------
    draws : ndarray of shape (k, p)
        Independent draws, or the state of a chain.
    derivatives : callable
        Gradient (up to a constant) and Hessian of the expected sum of all records' losses.
    n_records : int
        How many there are.
    C, inverse_temperature : float
        Of the sampled density.
    level : float
        Coverage.
    step_size, n_steps : float and int, or None
        The chain's schedule; None for exact draws.

    Returns
    -------
    lower, upper : ndarray of shape (p,)
        Infinite where the rows show no information.

    Raises
    ------
    ValueError
        If the draws are too noisy for a normal approximation.
    """
    k, p = draws.shape
    center, at_draws = draws.mean(axis=0), [derivatives(draw) for draw in draws]
    score = np.mean([gradient for gradient, _ in at_draws], axis=0)
    of_draw = np.mean([hessian for _, hessian in at_draws], axis=0)
    at_zero = derivatives(np.zeros(p))[1]
    if step_size is None or n_steps is None:
        target, noise = center / C, (of_draw + np.eye(p) / C) / (k * inverse_temperature)
    else:
        h, axes = np.linalg.eigh((at_zero + derivatives(0.5 * center)[1] + of_draw) / 3.0)
        h = np.maximum(h, 0.0)
        reached = 1.0 - (1.0 - step_size * (h + 1.0 / C)) ** n_steps
        prior = (axes * ((h + 1.0 / C) / reached - h)) @ axes.T
        h, axes = np.linalg.eigh(of_draw)
        a = 1.0 - step_size * (np.maximum(h, 0.0) + 1.0 / C)
        spread = 2.0 * step_size / inverse_temperature * (1.0 - a ** (2 * n_steps)) / (1.0 - a * a)
        of_score = (of_draw + prior) @ axes
        target, noise = prior @ center, (of_score * spread) @ of_score.T
    seen, turn = np.linalg.eigh(at_zero)
    informed = turn[:, seen > BLIND * max(seen[-1], 0.0)] if seen[-1] > 0.0 else turn[:, :0]
    rows = 4.0 * (informed.T @ at_zero @ informed) / n_records  # mean square of a row
    theta = center
    for _ in range(MOST_ITERATIONS):
        gradient, hessian = derivatives(theta)
        hessian = informed.T @ hessian @ informed
        # a logit beyond all others has no curvature left; the step is bounded all the same
        damped = hessian + 1e-9 * n_records * rows
        step = np.linalg.solve(damped, informed.T @ (score - gradient + target))
        length = math.sqrt(max(step @ rows @ step, 0.0))
        theta = theta + informed @ step * min(1.0, LONGEST_STEP / max(length, 1e-300))
        if length < 1e-6:
            break
    root = np.linalg.inv(damped)
    variance = root @ (hessian + informed.T @ noise @ informed) @ root
    deviation = math.sqrt(float(np.sum(variance * rows)))
    if not deviation <= LARGEST_DEVIATION:
        raise ValueError(
            "interval is not available: these draws are too noisy. They leave a logit unknown by "
            f"{deviation:.2g}, and a normal approximation needs {LARGEST_DEVIATION:g}. More "
            "records or a larger epsilon would help."
        )
    half = ndtri(0.5 + 0.5 * level) * np.sqrt(np.diag(informed @ variance @ informed.T))
    half[np.square(informed).sum(axis=1) < 1.0 - 1e-9] = np.inf
    return theta - half, theta + half


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
