"""What is known of a private logistic regression before a record is seen, and how it rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skdpbayes import models

__all__ = ["UNIT_ROUNDOFF", "Problem", "coefficient_bound", "tolerance_of"]

UNIT_ROUNDOFF = 2.0**-53
RADIUS = 10.0  # times the guess of the coefficients' norm: as long as a release may be


@dataclass(frozen=True)
class Problem:
    """What may be known before looking at a record."""

    n_samples: int
    n_features: int  # with the constant one
    n_classes: int
    record_norm: float
    epsilon: float
    delta: float
    adjacency: str
    margin: float = 0.0  # of the logistic loss
    coef_norm: float = 10.0  # a guess
    nonnegative: bool = False  # all features are

    @property
    def n_outputs(self) -> int:
        """Rows of the coefficient matrix."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def n_parameters(self) -> int:
        """Entries of the coefficient matrix."""
        return self.n_outputs * self.n_features

    @property
    def gradient_norm(self) -> float:
        """Bound on the gradient of one record's loss."""
        return self.record_norm * (1.0 if self.n_classes == 2 else math.sqrt(2.0))

    @property
    def one_signed(self) -> bool:
        """Whether the entries of any record's gradient all have one sign."""
        return self.nonnegative and self.n_classes == 2

    @property
    def shift(self) -> float:
        """How many gradients a neighbor may differ by."""
        return 2.0 if self.adjacency == "replace_one" else 1.0

    @property
    def information_norm(self) -> float:
        r"""Bound on the Frobenius distance of neighbors' Fisher information.

        One record adds :math:`w\,xx^\top`, :math:`w \le 1/4`, or
        :math:`(\mathrm{diag}\,p-pp^\top)\otimes xx^\top`, whose first factor has norm at most 1/2:
        its square is :math:`S_2-2S_3+S_2^2\le S_2-S_2^2\le 1/4` with :math:`S_j=\sum p^j` and
        Cauchy's :math:`S_2^2\le S_3`. Two positive semidefinite matrices have a nonnegative inner
        product, so replacing one by another moves by :math:`\sqrt2` of that, not 2. Rounding of
        both sums is added; that of the logits gives another, equally bounded weight.
        """
        single = self.record_norm**2 * (0.25 if self.n_classes == 2 else 0.5)
        chain = models.summation_length(self.n_samples, self.n_features) + 24.0
        rounding = 2.0 * UNIT_ROUNDOFF * chain * self.n_samples * single
        return single * (math.sqrt(2.0) if self.adjacency == "replace_one" else 1.0) + rounding


def coefficient_bound(problem: Problem, penalty: float, tilt_norm: float) -> float:
    """Bound the norm of the minimizer, whatever the data.

    There the objective is at most what it is at 0, and the gradient is 0.
    """
    start = problem.n_samples * math.log(problem.n_classes)
    if problem.margin > 0.0:
        start = problem.n_samples * (problem.margin + math.log1p(math.exp(-problem.margin)))
    by_value = (tilt_norm + math.sqrt(tilt_norm**2 + 2.0 * penalty * start)) / penalty
    by_slope = (problem.n_samples * problem.gradient_norm + tilt_norm) / penalty
    return min(by_value, by_slope)


def tolerance_of(
    problem: Problem, penalty: float, tilt_norm: float, *, free: bool = False
) -> tuple[float, float]:
    r"""Return a gradient norm that rounding cannot keep the optimizer from, and a radius.

    Half of the tolerance :math:`\tau` is for the optimizer to reach, :math:`e(r) = 0.4\tau` bounds
    rounding at coefficients of norm r, the radius. Longer minimizers are scaled back to it, which
    keeps their direction. The released point is within :math:`\tau/\lambda` of the projection of
    the exact minimizer in any case: at norm :math:`t > r` the computed one is off by at most
    :math:`\eta = (\tau/2 + e(r))\,(t/r)/\lambda`, since both parts may grow so, and the projection
    shrinks that by :math:`r/(t-\eta)`; together at most :math:`0.9\,\tau/\lambda` divided by
    :math:`1 - \eta/t \ge 0.9`. Where the last bound fails, and for `free`, the radius is one that
    no minimizer can reach.
    """
    bound = 1.001 * coefficient_bound(problem, penalty, tilt_norm)
    radius = min(bound, RADIUS * problem.coef_norm + tilt_norm / penalty)
    tolerance = 2.5 * _gradient_rounding(problem, penalty, tilt_norm, radius)
    if free or tolerance > 0.1 * penalty * radius:
        radius = bound
        tolerance = 2.5 * _gradient_rounding(problem, penalty, tilt_norm, radius)
    return tolerance, radius


def _gradient_rounding(
    problem: Problem, penalty: float, tilt_norm: float, coef_norm: float
) -> float:
    """Bound the rounding error of the objective's gradient at coefficients of norm `coef_norm`.

    First order in the unit roundoff: the sum over records, the logits (whose error moves a
    residual by at most a quarter, or a half, of itself), and the penalty and tilt.
    """
    n, d, norm = problem.n_samples, problem.n_features, problem.record_norm
    chain = models.summation_length(n, d) + d + 16.0 * problem.n_outputs
    sums = chain * n * problem.gradient_norm
    slope = 0.25 if problem.n_classes == 2 else 0.5
    logits = slope * n * norm * ((d + 2.0) * norm * coef_norm + 2.0 * problem.margin)
    return UNIT_ROUNDOFF * (sums + logits + 4.0 * (penalty * coef_norm + tilt_norm))
