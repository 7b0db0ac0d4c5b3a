"""The density of one posterior sample on given data: potential, gradient, mode and curvature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from skdpbayes import models, samplers

__all__ = ["Target", "lower_root"]

# Newton's method on these losses converges in about ten steps; the cap is for hopeless scalings.
MAX_NEWTON = 100
MAX_BISECTIONS = 60
SMALLEST_STEP = 1e-12
# At the origin every record is within this width of the kink of the hinge loss, so that the loss is
# a parabola there; Newton's method goes from one width to a quarter of it.
WIDE, NARROWER = 4.0, 4.0


def lower_root(matrix: np.ndarray) -> np.ndarray:
    """Cholesky factor of a positive definite matrix, of a ridged one where rounding spoils it.

    Whether a Hessian is singular to rounding depends on the data, so it must not be an error. The
    factor only directs and preconditions; nothing that it is used for needs it to be exact.
    """
    ridge = 0.0
    unit = max(float(np.abs(np.diag(matrix)).max()), np.finfo(float).tiny)
    identity = np.eye(matrix.shape[0])
    while ridge <= unit:
        try:
            return np.linalg.cholesky(matrix + ridge * identity)
        except np.linalg.LinAlgError:
            ridge = max(1e-14 * unit, 10.0 * ridge)
    return np.asarray(np.sqrt(unit) * identity)


@dataclass(frozen=True)
class Target:
    r"""The potential :math:`U = \beta (\sum \ell_i + |\theta|^2 / (2C))` on a ball.

    Coefficients of S chains have shape (S, K, d); flat points have shape (S, K d).
    """

    X: Any
    codes: np.ndarray
    constant: float
    loss: str
    """"logistic", "softmax", "hinge" (exact) or "smooth_hinge"."""
    width: float
    n_outputs: int
    C: float
    inverse_temperature: float
    radius: float

    @property
    def shape(self) -> tuple[int, int]:
        """(K, d), the constant feature included."""
        return self.n_outputs, self.X.shape[1] + (self.constant != 0.0)

    @property
    def dimension(self) -> int:
        """Number of coefficients."""
        return self.shape[0] * self.shape[1]

    def objective_gradient(self, theta: np.ndarray, X: Any, codes: Any, scale: float) -> Any:
        """Gradient of ``scale`` times the losses of some rows, plus the penalty, at (K, d)."""
        _, gradient = models.chain_gradient(
            self.loss, theta[None], X, codes, self.constant, width=self.width
        )
        return scale * gradient[0] + theta / self.C

    def potential(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return U and its gradient at flat points, inside the ball or not."""
        thetas = points.reshape(-1, *self.shape)
        values, gradients = models.chain_gradient(
            self.loss, thetas, self.X, self.codes, self.constant, width=self.width, with_value=True
        )
        squares = np.einsum("ij,ij->i", points, points)
        values = self.inverse_temperature * (values + squares / (2.0 * self.C))
        gradients = gradients.reshape(points.shape) + points / self.C
        return values, self.inverse_temperature * gradients

    def in_ball(self, points: np.ndarray) -> np.ndarray:
        """Whether each flat point lies in the ball."""
        return np.asarray(np.einsum("ij,ij->i", points, points) <= self.radius**2)

    def potential_gradient(self, points: np.ndarray) -> np.ndarray:
        """Gradient of U alone, at flat points."""
        thetas = points.reshape(-1, *self.shape)
        _, gradients = models.chain_gradient(
            self.loss, thetas, self.X, self.codes, self.constant, width=self.width
        )
        total = gradients.reshape(points.shape) + points / self.C
        return np.asarray(self.inverse_temperature * total)

    def potential_value(self, points: np.ndarray) -> np.ndarray:
        """Return U alone, infinite outside the ball; only points inside are evaluated."""
        squares = np.einsum("ij,ij->i", points, points)
        inside = self.in_ball(points)
        values = np.full(points.shape[0], np.inf)
        if inside.any():
            thetas = points[inside].reshape(-1, *self.shape)
            losses = models.chain_loss(
                self.loss, thetas, self.X, self.codes, self.constant, width=self.width
            )
            values[inside] = self.inverse_temperature * (losses + squares[inside] / (2 * self.C))
        return values

    def _derivatives(self, point: np.ndarray, ridge: float) -> tuple[float, Any, Any]:
        """Value, gradient and Hessian of sum of (smoothed) losses + ridge |theta|^2 / 2."""
        theta = point.reshape(self.shape)
        data = (theta, self.X, self.codes, self.constant)
        if self.loss == "logistic":
            value, gradient, hessian = models.logistic_hessian(*data)
        elif self.loss == "softmax":
            value, gradient, hessian = models.softmax_hessian(*data)
        else:
            value, gradient, hessian = models.smooth_hinge_hessian(*data, width=self.width)
        hessian = hessian + ridge * np.eye(self.dimension)
        return value + 0.5 * ridge * point @ point, gradient.ravel() + ridge * point, hessian

    def _penalized_value(self, point: np.ndarray, ridge: float) -> float:
        smooth = "smooth_hinge" if self.loss == "hinge" else self.loss
        data = (point.reshape(1, *self.shape), self.X, self.codes, self.constant)
        losses = models.chain_loss(smooth, *data, width=self.width)
        return float(losses[0] + 0.5 * ridge * point @ point)

    def _start(self, ridge: float) -> np.ndarray:
        """Return a point near the mode: of the hinge loss, the mode at a larger width."""
        if self.loss in ("logistic", "softmax") or self.width >= WIDE:
            return np.zeros(self.dimension)
        wider = replace(self, width=NARROWER * self.width)
        return wider._penalized_mode(wider._start(ridge), ridge)

    def _penalized_mode(self, point: np.ndarray, ridge: float) -> np.ndarray:
        """Newton's method with step halving."""
        value, gradient, hessian = self._derivatives(point, ridge)
        for _ in range(MAX_NEWTON):
            direction = cho_solve((lower_root(hessian), True), gradient)
            decrease = float(gradient @ direction)
            if decrease <= 1e-18 * (1.0 + abs(value)) + 1e-16:
                break
            step = 1.0
            while (
                self._penalized_value(point - step * direction, ridge)
                > value - 1e-4 * step * decrease
                and step > SMALLEST_STEP
            ):
                step *= 0.5
            trial = point - step * direction
            found = self._derivatives(trial, ridge)
            if found[0] >= value:
                break  # no descent beyond rounding
            point, (value, gradient, hessian) = trial, found
        return point

    def mode(self) -> tuple[np.ndarray, float]:
        """Return the mode on the ball (for the exact hinge loss: the smoothed one's) and its ridge.

        A mode outside the ball moves to the sphere, where the multiplier of the constraint acts as
        a further ridge; the ridge returned holds both.
        """
        ridge = 1.0 / self.C
        point = self._penalized_mode(self._start(ridge), ridge)
        if np.linalg.norm(point) <= self.radius:
            return point, ridge
        low, high = ridge, ridge
        while np.linalg.norm(point) > self.radius:
            low, high = high, 4.0 * high
            point = self._penalized_mode(point, high)
        for _ in range(MAX_BISECTIONS):
            if high <= low * (1.0 + 1e-6):
                break
            middle = np.sqrt(low * high)
            trial = self._penalized_mode(point, middle)
            if np.linalg.norm(trial) > self.radius:
                low = middle
            else:
                high, point = middle, trial
        return samplers.project_to_ball(point, self.radius), high

    def curvature(self, point: np.ndarray, ridge: float) -> np.ndarray:
        """Hessian of U at a point, with ``ridge`` in place of 1 / C."""
        return np.asarray(self.inverse_temperature * self._derivatives(point, ridge)[2])

    def least_curvature_root(self, largest_logit: float) -> np.ndarray:
        r"""Return the Cholesky factor of a matrix that the Hessian of U exceeds on the whole ball.

        Logistic: the second derivative :math:`\sigma(z)\sigma(-z)` is smallest at the largest
        logit, so :math:`\beta(I/C + \sigma(c)\sigma(-c) X^\top X)`; other losses: the prior's.
        """
        least = np.eye(self.dimension) / self.C
        prior_root = np.sqrt(self.inverse_temperature / self.C) * np.eye(self.dimension)
        if self.loss == "logistic" and np.isfinite(largest_logit):
            # a little less, so that the rounding of the factor stays below the Hessian
            weight = (1.0 - 1e-9) * 0.25 / np.cosh(0.5 * largest_logit) ** 2
            quarter_gram = self._derivatives(np.zeros(self.dimension), 0.0)[2]
            least += 4.0 * weight * quarter_gram
            try:
                return np.linalg.cholesky(self.inverse_temperature * least)
            except np.linalg.LinAlgError:  # singular to rounding, which the prior's part is not
                pass
        return prior_root
