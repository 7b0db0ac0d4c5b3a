"""What an adversary looks at: statistics of a fit that tell two known data sets apart.

Whoever knows both data sets can do better than to look at coefficients. Noisy counts are cut to the
interval between the two true values, beyond which Laplace noise says nothing; draws of
probabilities are looked at as log-odds, in which the likelihood ratio is linear; the states of a
chain as the likelihood ratios of its steps. `skdpbayes.auditing.audit` learns the best linear
combination on trials that are set aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import DPSGLDRegressor
from skdpbayes.auditing import mu_lower_bound
from skdpbayes.estimators.ridge.plan import pack, weights


def gaussian_mu_lower_bound(without: np.ndarray, with_: np.ndarray, threshold: float) -> float:
    """Return mu that a threshold test proves at 99.9% confidence.

    ``threshold`` must be fixed before the runs are looked at.
    """
    return mu_lower_bound(
        int(np.sum(without > threshold)),
        len(without),
        int(np.sum(with_ <= threshold)),
        len(with_),
        confidence=0.999,
    )


def counts_of(fitted: Any) -> np.ndarray:
    counts = getattr(fitted, "statistics_", None)
    return np.ravel(fitted.released_counts_ if counts is None else counts).astype(np.float64)


def first_coefficient(fitted: Any) -> float:
    """The axis along which the antipodal pair differs."""
    return float(fitted.coef_[0, 0])


def coefficient_gap(fitted: Any) -> float:
    """Where a record at one corner differs from one at the other."""
    return float(fitted.coef_[0, 0] - fitted.coef_[0, 1])


def output_at_one(fitted: Any) -> float:
    """What a model of one feature says of the row that changes."""
    return float(fitted.decision_function([[1.0]])[0])


def draws_of(fitted: Any) -> np.ndarray:
    chain = {"posterior": "chain"} if isinstance(fitted, DPSGLDRegressor) else {}
    return np.ravel(fitted.sample_posterior(**chain)["coef"])


def moves_of(fitted: Any) -> np.ndarray:
    """Steps of a chain that starts at zero."""
    return np.diff(draws_of(fitted), prepend=0.0)


def released_by_chain(fitted: Any) -> np.ndarray:
    """Released moments, and the mean of the noisy gradients in the coordinates made of them."""
    found = fitted._posterior.inference
    moments = found.coordinates.moments
    return np.concatenate([found.score.gradient, moments.mean, moments.covariance.ravel()])


def kicks_of(fitted: Any) -> np.ndarray:
    """Changes of the momentum of a chain; the first one is lost in the random momentum."""
    return np.diff(moves_of(fitted))


def log_odds_of(fitted: Any) -> float:
    """Log-odds of the first table in which a record changes its value.

    In them the likelihood ratio of a draw from a tempered posterior is close to linear.
    """
    if hasattr(fitted, "emission_"):
        odds = fitted.emission_[0][0]
        return float(np.log(odds[-1] / odds[0]))
    odds = fitted.sample_posterior()["bernoulli_prob"][0, -1, 0]
    return float(np.log(odds / (1.0 - odds)))


@dataclass(frozen=True)
class BetweenCounts:
    """Noisy counts that differ between the data sets, cut to what lies between the true ones.

    For Laplace noise the likelihood ratio of a count is linear between the two and constant beyond.
    """

    first: np.ndarray
    second: np.ndarray
    cut: bool

    def __call__(self, fitted: Any) -> np.ndarray:
        moved = self.first != self.second
        counts, ends = counts_of(fitted)[moved], (self.first[moved], self.second[moved])
        return np.clip(counts, np.minimum(*ends), np.maximum(*ends)) if self.cut else counts


@dataclass(frozen=True)
class MomentsRatio:
    """Log-likelihood ratio of noisy moments of one record (row, target) among null records."""

    first: tuple[Any, float]
    second: tuple[Any, float]
    intercept: bool
    order: int
    """2 for Gaussian noise, 1 for Laplace noise."""

    def __call__(self, fitted: Any) -> float:
        weight = weights(len(self.first[0]), self.intercept)
        noisy = pack(fitted.moments_, weight)
        first, second = (
            np.sum(np.abs(noisy - pack(self._exact(record), weight)) ** self.order)
            for record in (self.first, self.second)
        )
        return float(first - second)

    def _exact(self, record: tuple[Any, float]) -> np.ndarray:
        z = np.concatenate([[1.0] * self.intercept, record[0], [record[1]]])
        return np.outer(z, z)


@dataclass(frozen=True)
class BatchSteps:
    """Log-likelihood ratio of a record in random batches against its opposite, or against none.

    The record is alone among null rows and its gradient is clipped, so a step moves by noise and,
    with the sampling rate as its probability, by the clipped gradient.
    """

    def __call__(self, fitted: Any) -> float:
        step, rate = fitted.step_size_, float(fitted.batch_size) / N_ALONE
        states = np.append(0.0, draws_of(fitted))
        moves = (states[1:] - states[:-1] * (1.0 - step / fitted.prior_scale**2)) / step * rate
        shift = float(fitted.clip_norm)
        own = np.sqrt(2 * fitted.sampler["temperature"] / step) * rate
        noise = max(fitted.noise_.scale, own)
        present, opposite = (
            np.log1p(rate * np.expm1((sign * moves * shift - shift**2 / 2) / noise**2)).sum()
            for sign in (1.0, -1.0)
        )
        return float(present - opposite if fitted.adjacency == "replace_one" else present)


N_ALONE = 10
