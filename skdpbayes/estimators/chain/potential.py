"""Potentials that a chain can sample: clipped sums of gradients and the gradient of the prior."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from scipy.optimize import minimize

from skdpbayes import models
from skdpbayes.estimators.chain.coordinates import WIDE_COLUMNS, Coordinates
from skdpbayes.fitting.chunks import ChunkedRecords
from skdpbayes.fitting.records import Block, Records
from skdpbayes.fitting.units import Members

# Coefficients of a chain that diverges are cut here: no logit overflows.
LARGEST = 1e100
ROUNDOFF = float(np.finfo(np.float64).eps)
# Rows with a smaller share of nonzero entries are shorter as (column, value) pairs.
SPARSE_SHARE = 0.25


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

    def in_units(self, unit: float) -> CoefficientPrior:
        """The same prior of coefficients that are counted in another unit."""
        return CoefficientPrior(
            self.precision * unit**2,
            self.scale / unit,
            self.of_intercept * unit**2,
            self.intercept_scale / unit,
        )


def _square(scales: np.ndarray) -> np.ndarray:
    return np.square(np.where(np.isinf(scales), 0.0, scales))


class Potential(Protocol):
    """What a chain needs to know of a model."""

    shape: tuple[int, ...]

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of the batch's gradients, each clipped, and gradient of the negative log prior."""

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records."""


def chain_blocks(rows: Records, grid: models.Grid | None) -> tuple[Block, ...]:
    """Return the bounded rows as sums read them: cut once to the grid, for hundreds of passes.

    Blocks that are mostly zeros are compressed. Sums are equal for both forms, and for any blocks,
    to the last bit: only the time tells which are used.
    """
    return tuple(block._replace(X=_short(block.X, grid)) for block in rows.blocks())


def _ready(
    rows: Records, coordinates: Coordinates, clip_norm: float, grid: models.Grid | None
) -> HeldBlocks:
    """Make the rows of a chunk ready for clipped sums."""
    return HeldBlocks.of(chain_blocks(rows, grid), coordinates, clip_norm, grid)


def _clipped_sum(
    held: HeldBlocks,
    theta: np.ndarray,
    loss: models.Loss,
    clip_norm: float,
    grid: models.Grid | None,
    rows: np.ndarray | None = None,
) -> Any:
    """Sum the clipped gradients by the coefficients of x and the intercept: exact."""
    starts = np.cumsum([0, *(block.X.shape[0] for block in held.blocks)])

    def of_block(place: int) -> np.ndarray:
        lengths = None if held.lengths is None else held.lengths[place]
        chosen, (start, stop) = rows, starts[place : place + 2]
        if rows is not None and len(held.blocks) > 1:
            chosen = rows[(rows >= start) & (rows < stop)] - start
        return models.clipped_gradient(
            held.blocks[place], theta, loss, lengths, clip_norm, grid, rows=chosen
        )

    places = range(len(held.blocks))
    if grid is None or theta.shape[1] <= WIDE_COLUMNS:
        return sum(map(of_block, places))
    # products of wide rows take long enough to be shared, and exact sums do not follow the order
    with ThreadPoolExecutor(effective_n_jobs(-1)) as pool:
        return sum(pool.map(of_block, places))


@dataclass(frozen=True, eq=False)
class HeldBlocks:
    """Bounded rows, cut to the grid, and their lengths in the coordinates of the chain."""

    blocks: tuple[Block, ...]
    lengths: tuple[np.ndarray, ...] | None
    """None where nothing is clipped."""

    @classmethod
    def of(
        cls,
        blocks: tuple[Block, ...],
        coordinates: Coordinates,
        clip_norm: float,
        grid: models.Grid | None,
    ) -> HeldBlocks:
        """Measure the rows."""
        if math.isinf(clip_norm):
            return cls(blocks, None)
        return cls(blocks, tuple(coordinates.lengths(block.X, grid) for block in blocks))


def _short(X: Any, grid: models.Grid | None) -> Any:
    if not sparse.issparse(X) and np.count_nonzero(X) <= SPARSE_SHARE * X.size:
        X = sparse.csr_matrix(X)
    return models.cut_rows(X, grid)


@dataclass
class LinearPotential:
    r"""A linear model in the given coordinates.

    Coefficients of z are mapped to those of x and an intercept by a matrix *B*, and sums over x and
    the constant 1 to derivatives by :math:`B^\top`. In plain coordinates *B* is diagonal.
    """

    blocks: tuple[Block, ...] | ChunkedRecords
    """All records: bounded, and cut to the grid; or where they are, in chunks."""
    coordinates: Coordinates
    loss: models.Loss
    coefficient_prior: CoefficientPrior
    clip_norm: float
    grid: models.Grid | None
    """Units of rows; None for plain sums, without privacy. Those of residuals are made here."""
    members: Members | None = None
    """Rows of the persons that batches are made of; None where each row is a unit."""

    def __post_init__(self) -> None:
        d = self.coordinates.center.shape[0]
        coordinates = self.coordinates
        constant = coordinates.constant
        self.shape: tuple[int, ...] = (self.loss.n_outputs, d + bool(constant))
        # prior of the coefficients of x and of the intercept
        prior = self.coefficient_prior
        self.precision = np.append(np.full(d, prior.precision), prior.of_intercept)
        self.tails = np.append(np.full(d, prior.scale), prior.intercept_scale)
        self.diagonal = coordinates.transform is None
        self.spiked = isinstance(coordinates.transform, models.SpikedMatrix)
        if self.diagonal:
            self.lift = np.append(np.full(d, coordinates.scale), constant)
        elif not self.spiked:
            self.lift = np.zeros((self.shape[1], d + 1))
            coef, intercept = coordinates.coefficients(np.eye(self.shape[1]))
            self.lift[:, :d], self.lift[:, d] = coef, intercept
        how = (coordinates, self.clip_norm, self.grid)
        self.held: Any = (
            self.blocks.prepared(_ready, *how)
            if isinstance(self.blocks, ChunkedRecords)
            else HeldBlocks.of(self.blocks, *how)
        )
        if self.grid is not None:
            self.grid = replace(self.grid, residual=self.largest_residual)

    @property
    def largest_residual(self) -> float:
        """Bound on the residuals of records: what is longer is clipped, or cut to it.

        A clipped gradient is no longer than the clipping norm, and its row no shorter than the
        constant feature. Without one a loss without a slope needs a number: an error as large as
        the range of the targets.
        """
        slope = self.loss.slope
        if math.isinf(slope):
            slope = self.loss.slope_within(self.loss.reach)
        constant = self.coordinates.constant
        return min(slope, self.clip_norm / constant) if constant else slope

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradients with respect to the coefficients of z; ``rows`` of persons are all of theirs.

        The weights of a person's records add up to at most 1 and each record is clipped, so that a
        person moves the sum by no more than the clipping norm.
        """
        if rows is not None and self.members is not None:
            rows = self.members.rows(rows)
        theta = self._lifted(position)
        pull = theta * self.precision / (1.0 + np.square(theta / self.tails))
        # positions are released, so this is post-processing; without it a record could tell of
        # itself by 0 * inf
        if not np.vdot(theta, theta) < LARGEST**2:
            np.fmax(np.fmin(theta, LARGEST, out=theta), -LARGEST, out=theta)
        return self._lowered(self._sum(theta, rows)), self._lowered(pull)

    def _sum(self, theta: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Sum the clipped gradients by the coefficients of x and the intercept: exact."""
        how = (theta, self.loss, self.clip_norm, self.grid)
        if isinstance(self.blocks, ChunkedRecords):
            total = self.held.total(_clipped_sum, *how, rows=rows)
            total = np.zeros(theta.shape) if total is None else total  # an empty batch
        else:
            total = _clipped_sum(self.held, *how, rows=rows)
        return models.read_gradient(total, self.grid)

    def _losses(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient of all losses as plain sums, without privacy."""
        assert not isinstance(self.blocks, ChunkedRecords)
        how = (theta, self.loss, (0, 1), 1.0, None)
        total = sum(models.derivatives(block, *how) for block in self.blocks)
        value, gradient, _ = models.read_derivatives(np.asarray(total), *how)
        return value, gradient

    def _lifted(self, position: np.ndarray) -> np.ndarray:
        """Coefficients of x and intercepts, (K, d + 1)."""
        if self.spiked:
            return np.column_stack(self.coordinates.coefficients(position))
        if not self.diagonal:
            return position @ self.lift
        if self.shape[1] == self.lift.shape[0]:
            return position * self.lift
        theta = np.zeros((self.shape[0], self.lift.shape[0]))  # no intercept
        theta[:, :-1] = position * self.lift[:-1]
        return theta

    def _lowered(self, sums: np.ndarray) -> np.ndarray:
        """Derivatives by the coefficients of z from those by the coefficients of x."""
        if self.spiked:
            coordinates, last = self.coordinates, sums[:, -1:]
            lowered = coordinates.apply(sums[:, :-1] - last * coordinates.center)
            constant = coordinates.constant
            return np.column_stack([lowered, constant * last]) if constant else lowered
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

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records.

        A person's records are weighted to one record at most. The sums are exact, and cutting
        lengthens nothing. Then they become doubles and are mapped
        by a matrix, of which the intercept's column is a rounded product: off by at most d + 4
        roundings of the product of the norms.
        """
        if self.grid is None:  # no privacy
            return 0.0
        coordinates, d = self.coordinates, self.coordinates.center.shape[0]
        # a row and the constant 1 are at most so long, in the coordinates of the chain
        reach = self.grid.data_norm + float(np.linalg.norm(coordinates.center))
        if self.diagonal:
            norm, terms = coordinates.scale * reach + coordinates.constant, 4.0
        elif isinstance(coordinates.transform, models.SpikedMatrix):
            # two products of d and k terms, of which k directions may add up
            matrix = coordinates.transform
            k = matrix.extra.shape[0]
            steepest = matrix.base + k * float(np.abs(matrix.extra).max(initial=0.0))
            norm = steepest * (1.0 + matrix.gap) * reach + coordinates.constant
            terms = d + k + 8.0
        else:
            norm = float(np.linalg.norm(self.lift[:, :d])) * reach + coordinates.constant
            terms = d + 4.0
        residual = min(self.loss.slope, math.sqrt(self.shape[0]) * self.grid.residual)
        return norm * 2.0 * terms * ROUNDOFF * n_rows * residual * (1.0 + 1e-6)

    def prior_precision(self) -> np.ndarray:
        """Largest Hessian of the prior's potential, for one output."""
        if self.diagonal:
            return np.diag((self.lift**2 * self.precision)[: self.shape[1]])
        if self.spiked:
            lift = self._lifted(np.eye(self.shape[1]))
            return np.asarray((lift * self.precision) @ lift.T)
        return np.asarray((self.lift * self.precision) @ self.lift.T)
