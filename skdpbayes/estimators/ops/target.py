"""The density of one posterior sample on given data: potential, gradient, mode and curvature."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from skdpbayes import models, samplers
from skdpbayes.estimators.linear.blocks import summed_derivatives
from skdpbayes.fitting.chunks import Prepared
from skdpbayes.fitting.records import Block

# Newton's method on these losses converges in about ten steps; the cap is for hopeless scalings.
MAX_NEWTON = 100
MAX_BISECTIONS = 60
SMALLEST_STEP = 1e-12
# Squared length from which on a point counts as infinitely far away.
FARTHEST = 1e300
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


@dataclass(frozen=True, eq=False)
class ChunkBatch:
    """Records in chunks, or some of them, that stay where they are."""

    prepared: Prepared
    rows: np.ndarray | None = None
    """Row numbers; None for all."""

    @property
    def n_rows(self) -> int:
        """The number of records."""
        return self.prepared.records.n_rows if self.rows is None else self.rows.shape[0]

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return self.prepared.records.public.n_features


Batch = tuple[Block, ...] | ChunkBatch


def batch_size(batch: Batch) -> int:
    """Return the number of records of a batch."""
    if isinstance(batch, ChunkBatch):
        return batch.n_rows
    return sum(block.X.shape[0] for block in batch)


@dataclass(frozen=True)
class Target:
    r"""The potential :math:`U = \beta (\sum \ell_i + |\theta|^2 / (2C))` on a ball.

    Points are flat, of shape (S, K d). Sums over records are exact on the grid: no bit of a result
    depends on the order of the records, on the blocks that they come in or on how they are stored.
    """

    blocks: Batch
    """All records, bounded; some of them where they are in chunks."""
    constant: float
    loss: models.Loss
    width: float
    """A loss without curvature is smoothed over this width where its mode is looked for."""
    C: float
    inverse_temperature: float
    radius: float
    grid: models.Grid | None
    """Units of sums over records; none without privacy."""

    @property
    def n_records(self) -> int:
        """Number of units: of rows, or what their weights add up to."""
        assert not isinstance(self.blocks, ChunkBatch)
        sizes = (
            block.X.shape[0] if block.weight is None else float(block.weight.sum())
            for block in self.blocks
        )
        return max(1, round(sum(sizes)))

    @property
    def shape(self) -> tuple[int, int]:
        """(K, d), the constant feature included."""
        held = self.blocks
        width = held.n_columns if isinstance(held, ChunkBatch) else held[0].X.shape[1]
        return self.loss.n_outputs, width + (self.constant != 0.0)

    @property
    def dimension(self) -> int:
        """Number of coefficients."""
        return self.shape[0] * self.shape[1]

    @property
    def smooth(self) -> Target:
        """The same with a loss of bounded curvature."""
        return replace(self, loss=self.loss.smoothed(self.width))

    def _total(
        self,
        thetas: np.ndarray,
        orders: tuple[int, ...],
        loss: models.Loss,
        batch: Batch,
    ) -> tuple[Any, Any, Any]:
        """Value, gradient and Hessian of the sum of the losses in some blocks."""
        how = (thetas, loss, orders, self.constant, self.grid)
        if isinstance(batch, ChunkBatch):
            total = batch.prepared.total(summed_derivatives, how, rows=batch.rows)
        else:
            total = summed_derivatives(batch, how)
        return models.read_derivatives(total, *how)

    def _sums(
        self, points: np.ndarray, orders: tuple[int, ...], loss: models.Loss | None = None
    ) -> tuple[Any, Any, Any]:
        """Value (S,), gradient (S, K d) and, at one point, Hessian of the sum of losses.

        Points so far out that their squares overflow have an infinite value and no gradient.
        """
        near = np.einsum("ij,ij->i", points, points) < FARTHEST
        inside = points if near.all() else np.where(near[:, None], points, 0.0)
        thetas = inside.reshape(-1, *self.shape)
        loss = self.loss if loss is None else loss
        value, gradient, hessian = self._total(thetas, orders, loss, self.blocks)
        if value is not None:
            value[~near] = np.inf
        return value, None if gradient is None else gradient.reshape(points.shape), hessian

    def objective_gradient(self, theta: np.ndarray, batch: Batch, scale: float) -> np.ndarray:
        """Gradient of ``scale`` times the losses of a batch, plus the penalty, at (K, d)."""
        gradient = self._total(theta, (1,), self.loss, batch)[1]
        return np.asarray(scale * gradient + theta / self.C)

    def potential(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return U and its gradient at flat points, inside the ball or not."""
        values, gradients, _ = self._sums(points, (0, 1))
        squares = np.einsum("ij,ij->i", points, points)
        values = self.inverse_temperature * (values + squares / (2.0 * self.C))
        return values, self.inverse_temperature * (gradients + points / self.C)

    def in_ball(self, points: np.ndarray) -> np.ndarray:
        """Whether each flat point lies in the ball."""
        return np.asarray(np.einsum("ij,ij->i", points, points) <= self.radius**2)

    def potential_gradient(self, points: np.ndarray) -> np.ndarray:
        """Gradient of U alone, at flat points."""
        total = self._sums(points, (1,))[1] + points / self.C
        return np.asarray(self.inverse_temperature * total)

    def potential_value(self, points: np.ndarray) -> np.ndarray:
        """Return U alone, infinite outside the ball; only points inside are evaluated."""
        squares = np.einsum("ij,ij->i", points, points)
        inside = self.in_ball(points)
        values = np.full(points.shape[0], np.inf)
        if inside.any():
            losses = self._sums(points[inside], (0,))[0]
            values[inside] = self.inverse_temperature * (losses + squares[inside] / (2 * self.C))
        return values

    def _derivatives(self, point: np.ndarray, ridge: float) -> tuple[float, Any, Any]:
        """Value, gradient and Hessian of sum of (smoothed) losses + ridge |theta|^2 / 2."""
        loss = self.loss.smoothed(self.width)
        values, gradients, hessian = self._sums(point[None], (0, 1, 2), loss)
        hessian[np.diag_indices_from(hessian)] += ridge
        value = float(values[0]) + 0.5 * ridge * float(point @ point)
        return value, gradients[0] + ridge * point, hessian

    def _penalized_value(self, point: np.ndarray, ridge: float) -> float:
        losses = self._sums(point[None], (0,), self.loss.smoothed(self.width))[0]
        return float(losses[0] + 0.5 * ridge * point @ point)

    def _start(self, ridge: float) -> np.ndarray:
        """Return a point near the mode: of a loss without curvature, the mode at a larger width."""
        if math.isfinite(self.loss.curvature[1]) or self.width >= WIDE:
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
        """Return the mode on the ball (of a kinked loss: the smoothed one's) and its ridge.

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

        With one output :math:`\beta(I/C + w X^\top X)`, *w* the least second derivative of the loss
        among the logits of the ball; else the prior's.
        """
        prior_root = np.sqrt(self.inverse_temperature / self.C) * np.eye(self.dimension)
        # a little less, so that the rounding of the factor stays below the Hessian
        weight = (1.0 - 1e-9) * self.loss.least_curvature(largest_logit)
        if weight > 0.0:
            gram = self._sums(np.zeros((1, self.dimension)), (2,), models.SquaredLoss())[2]
            least = np.eye(self.dimension) / self.C + weight * gram
            try:
                return np.linalg.cholesky(self.inverse_temperature * least)
            except np.linalg.LinAlgError:  # singular to rounding, which the prior's part is not
                pass
        return prior_root
