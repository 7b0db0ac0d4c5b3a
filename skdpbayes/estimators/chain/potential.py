"""Potentials that a chain can sample: clipped sums of gradients and the gradient of the prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.optimize import minimize

from skdpbayes import models
from skdpbayes.estimators.chain.coordinates import Coordinates

if TYPE_CHECKING:
    from skdpbayes.models.minibatch_chain import BatchSteps

__all__ = ["ROUNDOFF", "CoefficientPrior", "LinearPotential", "Potential"]

# Coefficients of a chain that diverges are cut here: no logit overflows.
LARGEST = 1e100
ROUNDOFF = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class CoefficientPrior:
    r"""Independent priors of coefficients and intercept, normal or Cauchy, centered at 0.

    The slope of the negative log density is :math:`\theta p / (1 + (\theta / s)^2)`: the normal
    prior has the precision p and s infinite, the Cauchy prior of scale s has :math:`p = 2 / s^2`.
    """

    precision: float
    """Curvature at 0, the largest."""
    scale: float
    of_intercept: float
    """Curvature at 0 of the intercept's prior."""
    intercept_scale: float

    @classmethod
    def normal(cls, scale: float, intercept_scale: float) -> CoefficientPrior:
        """Light tails: scikit-learn's penalty with C = scale^2."""
        return cls(1.0 / scale**2, math.inf, 1.0 / intercept_scale**2, math.inf)

    @classmethod
    def cauchy(cls, scale: float, intercept_scale: float) -> CoefficientPrior:
        """Heavy tails: small effects are shrunk, large ones hardly."""
        return cls(2.0 / scale**2, scale, 2.0 / intercept_scale**2, intercept_scale)


def _square(scales: np.ndarray) -> np.ndarray:
    return np.square(np.where(np.isinf(scales), 0.0, scales))


class Potential(Protocol):
    """What a chain needs to know of a model."""

    shape: tuple[int, ...]

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of the batch's gradients, each clipped, and gradient of the negative log prior."""

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records."""

    def langevin_states(
        self, position: np.ndarray, steps: BatchSteps, clip_norm: float
    ) -> np.ndarray | None:
        """States after each of several Langevin steps; None if there is no kernel for them."""


@dataclass
class LinearPotential:
    r"""Logistic or softmax regression in the given coordinates.

    Coefficients of z are mapped to those of x and an intercept by a matrix *B*, and sums over x and
    the constant 1 to derivatives by :math:`B^\top`. In plain coordinates *B* is diagonal.
    """

    X: Any
    codes: np.ndarray
    coordinates: Coordinates
    n_outputs: int
    coefficient_prior: CoefficientPrior
    data_norm: float

    def __post_init__(self) -> None:
        d = self.X.shape[1]
        coordinates = self.coordinates
        constant = coordinates.constant
        self.shape: tuple[int, ...] = (self.n_outputs, d + bool(constant))
        # prior of the coefficients of x and of the intercept
        prior = self.coefficient_prior
        self.precision = np.append(np.full(d, prior.precision), prior.of_intercept)
        self.tails = np.append(np.full(d, prior.scale), prior.intercept_scale)
        self.diagonal = coordinates.transform is None
        if self.diagonal:
            self.lift = np.append(np.full(d, coordinates.scale), constant)
        else:
            self.lift = np.zeros((self.shape[1], d + 1))
            coef, intercept = coordinates.coefficients(np.eye(self.shape[1]))
            self.lift[:, :d], self.lift[:, d] = coef, intercept
        self.lengths = coordinates.lengths(self.X, self.data_norm)
        self.X = models.compact_rows(self.X)

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradients with respect to the coefficients of z."""
        theta = self._lifted(position)
        pull = theta * self.precision / (1.0 + np.square(theta / self.tails))
        # positions are released, so this is post-processing; without it a record could tell of
        # itself by 0 * inf
        if not np.vdot(theta, theta) < LARGEST**2:
            np.fmax(np.fmin(theta, LARGEST, out=theta), -LARGEST, out=theta)
        if self._is_plain(rows, clip_norm):
            sums = self._losses(theta)[1]
        else:
            sums = models.clipped_linear_gradient(
                theta, self.X, self.codes, self.lengths, clip_norm, self.data_norm, rows
            )
        return self._lowered(sums), self._lowered(pull)

    def _is_plain(self, rows: np.ndarray | None, clip_norm: float) -> bool:
        """Tell whether all records count in full: no privacy, so sums need not be exact."""
        return rows is None and math.isinf(clip_norm)

    def _losses(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        loss = models.logistic_gradient if self.n_outputs == 1 else models.softmax_gradient
        return loss(theta, self.X, self.codes, 1.0)

    def _lifted(self, position: np.ndarray) -> np.ndarray:
        """Coefficients of x and intercepts, (K, d + 1)."""
        if not self.diagonal:
            return position @ self.lift
        if self.shape[1] == self.lift.shape[0]:
            return position * self.lift
        theta = np.zeros((self.n_outputs, self.lift.shape[0]))  # no intercept
        theta[:, :-1] = position * self.lift[:-1]
        return theta

    def _lowered(self, sums: np.ndarray) -> np.ndarray:
        """Derivatives by the coefficients of z from those by the coefficients of x."""
        if not self.diagonal:
            return sums @ self.lift.T
        sums *= self.lift
        return sums[:, : self.shape[1]]

    def mode(self, start: np.ndarray) -> np.ndarray:
        """Find the posterior's mode, without privacy."""

        def value_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = self._lifted(flat.reshape(self.shape))
            value, sums = self._losses(theta)
            squares = np.square(theta / self.tails)
            normal = np.isinf(self.tails)
            halves = np.where(normal, np.square(theta), np.log1p(squares) * _square(self.tails))
            value += 0.5 * float(np.sum(self.precision * halves))
            sums += theta * self.precision / (1.0 + squares)
            return value, self._lowered(sums).ravel()

        found = minimize(
            value_gradient, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 1000}
        )
        return np.asarray(found.x.reshape(self.shape))

    def langevin_states(
        self, position: np.ndarray, steps: BatchSteps, clip_norm: float
    ) -> np.ndarray | None:
        """Run all steps in one kernel, for two classes in plain coordinates."""
        plain = self._is_plain(steps.rows, clip_norm)
        if self.n_outputs > 1 or not self.diagonal or plain:
            return None
        states = models.langevin_batch_steps(
            position[0],
            steps,
            self.lift,
            (self.precision, self.tails),
            self.X,
            self.codes,
            self.lengths,
            clip_norm,
            self.data_norm,
            LARGEST,
        )
        return states[:, None]

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records.

        The sums are exact but for the rounding of products to their units, half a unit each in the
        record that differs. Their map is a matrix product: off by at most d + 4 roundings of the
        product of the norms.
        """
        n, d = self.X.shape
        # per unit of the largest row and of the constant 1, so that the unit of x does not matter
        unit_lift = self.lift * np.append(np.full(d, self.data_norm), 1.0)
        norm = float(np.max(np.abs(unit_lift)) if self.diagonal else np.linalg.norm(unit_lift))
        terms = 4.0 if self.diagonal else d + 4.0
        longest = 2.0 * n_rows  # residuals are at most sqrt(2) long (softmax), and so are rows
        of_rows = math.sqrt(d) * models.sum_unit(n, self.data_norm) / self.data_norm
        in_units = 0.5 * math.sqrt(self.n_outputs) * math.hypot(of_rows, models.sum_unit(n, 1.0))
        return norm * (2.0 * in_units + 2.0 * terms * ROUNDOFF * longest) * (1.0 + 1e-6)

    def prior_precision(self) -> np.ndarray:
        """Largest Hessian of the prior's potential, for one output."""
        if self.diagonal:
            return np.diag((self.lift**2 * self.precision)[: self.shape[1]])
        return np.asarray((self.lift * self.precision) @ self.lift.T)
