r"""Coordinates in which the rows of a linear model are centered, round and of length about 1.

A chain runs on coefficients :math:`\psi` of the rows :math:`z = A (x - m)`. Noise that is equally
large in all directions then hurts equally little in all of them; in the original coordinates most
of it would fall on directions that hardly occur. The center *m* and the matrix *A* come from sums
of :math:`x` and :math:`x x^\top`, released under a share of the budget.

Sensitivity of :math:`(\alpha \sum x / R, \sum x x^\top / R^2)` for rows of norm at most *R*:
zeroing a record out moves it by at most :math:`\sqrt{\alpha^2 + 1}`. Replacing a record by one at
angle *t* moves it by :math:`\alpha^2 (2 - 2 c) + 2 - 2 c^2` squared, :math:`c = \cos t`, at most
:math:`2 + 2 \alpha^2 + \alpha^4 / 2`; shorter rows move it less. (Lemma 19 of Wang et al. 2015
bounds the covariance alone.) Moments of a person are an average of those of her records and, where
her weights add up to less than 1, of 0: two averages are no farther apart than the farthest two of
what they average, and `person_rounding` is what cuts add to that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg

from skdpbayes import models, randomness
from skdpbayes.fitting.records import Block, Records
from skdpbayes.fitting.units import MOST_RECORDS
from skdpbayes.privacy import Adjacency
from skdpbayes.privacy.sensitivity import row_moment_moves

# Weight of the mean beside the second moments: its noise only shifts the intercept.
MEAN_WEIGHT = 0.5
# Directions are stretched as if their variance were at least this fraction of the largest
# eigenvalue that noise alone produces.
NOISE_FLOOR = 0.25
# Directions that share the length of rows of which nothing is known; a direction with more of it
# oscillates, which clipping bounds and the average of the chain removes.
PLAIN_DIMENSION = 8.0
# From this many columns on only the directions that rise above the noise are looked for: all others
# are stretched alike.
WIDE_COLUMNS = 512


@dataclass(frozen=True, eq=False)
class Moments:
    """Released mean and covariance of the rows, with the law of their noise."""

    mean: np.ndarray
    covariance: np.ndarray
    """Without what noise adds to its eigenvalues."""
    mean_noise: float
    """Standard deviation of the noise on an entry of the mean."""
    covariance_noise: float
    """Standard deviation of the noise on the diagonal; off it, by sqrt(2) less."""

    def redrawn(
        self, generator: np.random.Generator, share: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance that the rows may have had, given what was released.

        ``share`` of the deviation of the covariance's noise is drawn again.
        """
        d = self.mean.shape[0]
        square = generator.standard_normal((d, d))
        noise = share * self.covariance_noise * 0.5 * (square + square.T)
        mean = self.mean + self.mean_noise * generator.standard_normal(d)
        return mean, self.covariance + noise


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The affine map of rows; ``scale`` alone if ``transform`` is None."""

    center: np.ndarray
    transform: np.ndarray | models.SpikedMatrix | None
    scale: float
    constant: float
    """The constant feature (0: no intercept)."""
    dimension: float
    """Number of directions that share the length of a row: 1 / largest eigenvalue."""
    curvature: float | None = None
    """Mean curvature of a record's loss per unit of squared length, where it is known exactly."""
    moments: Moments | None = None
    """What the map was made from, if it was released with noise."""
    centered: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "centered", bool(np.any(self.center)))

    def with_constant(self, constant: float) -> Coordinates:
        """Return the same map with another constant feature."""
        return replace(self, constant=constant)

    def scaled(self, factor: float) -> Coordinates:
        """Return a map to rows that are longer by a factor."""
        transform = None if self.transform is None else self.transform * factor
        return replace(
            self,
            transform=transform,
            scale=self.scale * factor,
            dimension=self.dimension / factor**2,
        )

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Multiply rows (of coefficients or gradients) by the symmetric matrix."""
        return rows * self.scale if self.transform is None else rows @ self.transform

    def coefficients(self, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of x and intercepts of (..., K, d [+ 1]) coefficients of z."""
        d = self.center.shape[0]
        coef = self.apply(psi[..., :d])
        intercept = -(coef @ self.center) if self.centered else np.zeros(coef.shape[:-1])
        if self.constant:
            intercept = intercept + self.constant * psi[..., d]
        return coef, intercept

    def from_coefficients(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Invert `coefficients`."""
        if self.transform is None:
            psi = coef / self.scale
        elif isinstance(self.transform, models.SpikedMatrix):
            psi = coef @ self.transform.inverse()
        else:
            psi = np.linalg.solve(self.transform, coef.T).T
        if not self.constant:
            return psi
        last = (intercept + coef @ self.center) / self.constant
        return np.column_stack([psi, last])

    def largest_prior_curvature(self, of_coefficients: float, of_intercept: float) -> float:
        """Bound on the prior's curvature in these coordinates, the constant feature aside.

        The prior has the given precisions for the coefficients of x and for the intercept, which
        holds -(coefficients of x) @ center.
        """
        if self.transform is None:
            return self.scale**2 * of_coefficients
        if isinstance(self.transform, models.SpikedMatrix):
            stretch = self.transform.largest
        else:
            stretch = float(np.linalg.eigvalsh(self.transform)[-1])
        moved = self.center @ self.transform
        return stretch**2 * of_coefficients + float(moved @ moved) * of_intercept

    def lengths(self, X: Any, grid: models.Grid | None) -> np.ndarray:
        """Upper bound on the length of every row in these coordinates, constant feature included.

        What rounding can take from a computed length is added: of a row that the matrix shrinks
        much, little is left beside the rounding of its product.
        """
        if self.transform is None:
            return models.row_lengths(X, grid, transform=self.scale, constant=self.constant)
        return models.row_lengths(X, grid, self.center, self.transform, self.constant)


def moment_sensitivity(adjacency: Adjacency) -> float:
    """Sensitivity of the moments of unit rows, the mean weighted with `MEAN_WEIGHT`."""
    return row_moment_moves(MEAN_WEIGHT, adjacency)


def person_rounding(grid: models.Grid, n_columns: int) -> float:
    r"""Bound what cuts add to the distance of the moments of two persons, in units of `data_norm`.

    The sensitivity holds for averages of :math:`x x^\top`. A record of weight :math:`1/m` adds
    :math:`v v^\top` instead, *v* its row times :math:`m^{-1/2}` and truncated, off by less than a
    unit per entry, by *e* in length: the matrix is off by at most :math:`2 e m^{-1/2} + e^2`, that
    of a person by :math:`2 e \sqrt m + m e^2`. The last number is for the roundings of the roots.
    """
    error = math.sqrt(n_columns) * grid.row_unit / grid.data_norm
    person = 2.0 * math.sqrt(MOST_RECORDS) * error + MOST_RECORDS * error**2
    return 2.0 * person + 2.0**-40


def plain_dimension(n_columns: int) -> float:
    """Directions that share the length of clipped rows of which nothing is known."""
    return min(PLAIN_DIMENSION, max(1.0, n_columns / 2.0))


def plain_coordinates(n_columns: int, data_norm: float, private: bool) -> Coordinates:
    """Rows divided by their public bound.

    Without clipping the first direction may have all of their length.
    """
    dimension = plain_dimension(n_columns) if private else 1.0
    return Coordinates(np.zeros(n_columns), None, 1.0 / data_norm, 0.0, dimension)


def check_public_covariance(covariance: Any, n_columns: int) -> np.ndarray:
    """Return the matrix as an array, or say which the parameter takes."""
    try:
        matrix = np.asarray(covariance, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"preconditioner must be 'auto', None, a number or a matrix; got {covariance!r}."
        ) from None
    if matrix.shape != (n_columns, n_columns) or not np.allclose(matrix, matrix.T):
        raise ValueError(
            f"preconditioner must be 'auto', None or a symmetric ({n_columns}, {n_columns}) "
            f"matrix; got an array of shape {matrix.shape}."
        )
    return matrix


def public_coordinates(
    covariance: Any, n_columns: int, *, least_variance: float = 0.0
) -> Coordinates:
    """Coordinates from a public covariance matrix of the rows."""
    matrix = check_public_covariance(covariance, n_columns)
    transform, dimension, _ = _whitening(matrix, 0.0, least_variance)
    return Coordinates(np.zeros(n_columns), transform, 1.0, 0.0, dimension)


def released_coordinates(
    rows: Records,
    data_norm: float,
    mu: float,
    adjacency: Adjacency,
    centered: bool,
    generator: np.random.Generator,
    *,
    least_variance: float = 0.0,
) -> Coordinates:
    """Release the moments of the rows under ``mu`` of Gaussian DP and make coordinates of them.

    ``mu=inf`` uses them as they are. Without an intercept rows are not centered. Directions whose
    variance (of the rows as given) is below ``least_variance`` are stretched as if it were that.
    """
    n, d = rows.public.n, rows.public.n_features
    grid = models.Grid(n, data_norm) if math.isfinite(mu) else None
    total, moments = models.read_moments(rows.total(models.moments, grid), grid)
    total, moments = total / data_norm, moments / data_norm**2
    noise = 0.0
    if grid is not None:
        size = d + d * (d + 1) // 2
        # A row whose computed length is within data_norm may be longer by a share of (d + 8) 2^-52.
        # Exact sums, of length at most 2 n, become doubles, are divided and multiplied by weights:
        # at most six roundings of 2^-53, on both of two neighbors.
        moves = moment_sensitivity(adjacency) * (1.0 + (d + 8.0) * 2.0**-50) + n * 2.0**-48
        if rows.public.unit == "person":
            moves += person_rounding(grid, d)
        noise = randomness.release_scale(1.0 / mu, moves, size)
        total, moments = _release(total, moments, noise, generator)
    center = total / n if centered else np.zeros(d)
    covariance = moments / n - np.outer(center, center)
    edge, least = noise * math.sqrt(2.0 * d) / n, least_variance / data_norm**2
    spiked = (
        _spiked_whitening(covariance, edge, least) if d >= WIDE_COLUMNS and noise > 0.0 else None
    )
    if spiked is not None:
        matrix, dimension = spiked
        return Coordinates(center * data_norm, matrix * (1.0 / data_norm), 1.0, 0.0, dimension)
    transform, dimension, clean = _whitening(covariance, edge, least)
    known = None
    if noise > 0.0:
        mean = total / n
        clean = clean if centered else clean - np.outer(mean, mean)
        known = Moments(
            mean * data_norm,
            clean * data_norm**2,
            noise / MEAN_WEIGHT / n * data_norm,
            noise / n * data_norm**2,
        )
    return Coordinates(
        center * data_norm, transform / data_norm, 1.0, 0.0, dimension, moments=known
    )


def exact_coordinates(
    block: Block,
    logits: np.ndarray,
    loss: models.Loss,
    prior: tuple[float, float],
    centered: bool,
    n: int,
) -> Coordinates:
    """Coordinates in which a posterior is round, from its logits at the mode: no privacy.

    The curvature of the losses is averaged over the normal approximation of the posterior: at the
    mode itself, classes that are well separated have hardly any. Then the posterior's curvature,
    that of the ``prior`` of coefficients and intercept included, is the same in all directions.
    ``n`` is the number of records or persons.
    """
    assert block.target is not None
    spread = np.zeros(block.X.shape[0])
    for _ in range(2):  # first with the curvature at the mode
        weights = np.maximum(loss.mean_curvature(logits, block.target, spread), 1e-9)
        if block.weight is not None:
            weights *= block.weight
        coordinates = _round_coordinates(block.X, weights, *prior, centered, n)
        lengths = coordinates.lengths(block.X, None)
        spread = np.square(lengths) * (coordinates.dimension / weights.sum())
    return coordinates


def _round_coordinates(
    X: Any, weights: np.ndarray, of_coefficients: float, of_intercept: float, centered: bool, n: int
) -> Coordinates:
    d = X.shape[1]
    total, largest = float(weights.sum()), float(weights.max())
    sums = models.moments(Block(X, weight=weights / largest), None)
    first, moments = (largest * part for part in models.read_moments(sums, None))
    center = first / total if centered else np.zeros(d)
    moments = moments - total * np.outer(center, center)
    curvature = moments + of_coefficients * np.eye(d) + of_intercept * np.outer(center, center)
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 1e-12 * values[-1])
    of_losses = np.einsum("ij,ij->j", vectors, moments @ vectors)
    dimension = max(1.0, float(np.sum(of_losses / values)))
    transform = (vectors * np.sqrt(total / dimension / values)) @ vectors.T
    constant = math.sqrt(total / dimension / (total + of_intercept)) if centered else 0.0
    return Coordinates(center, 0.5 * (transform + transform.T), 1.0, constant, dimension, total / n)


def _release(
    total: np.ndarray, moments: np.ndarray, scale: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Add noise to the mean and, with off-diagonal entries counted once, to the moments."""
    d = total.shape[0]
    rows, columns = np.triu_indices(d)
    weight = np.where(rows == columns, 1.0, math.sqrt(2.0))
    flat = np.concatenate([MEAN_WEIGHT * total, weight * moments[rows, columns]])
    flat = randomness.release_gaussian(generator, flat, scale)
    noisy = np.empty((d, d))
    noisy[rows, columns] = flat[d:] / weight
    noisy[columns, rows] = noisy[rows, columns]
    return flat[:d] / MEAN_WEIGHT, noisy


def _whitening(
    covariance: np.ndarray, edge: float, least: float
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return a whitening matrix that gives rows a mean square length of 1, and its dimension.

    Third comes the covariance without what noise adds to its eigenvalues.

    Noise alone has eigenvalues up to ``edge``. A direction of variance v above half of it shows as
    v + edge^2 / (4 v) (Benaych-Georges and Nadakuditi 2011), which is inverted; the rest shares
    what is left of the trace.
    """
    values, vectors = np.linalg.eigh(covariance)
    seen = values > max(edge, 1e-12)
    variance = np.zeros_like(values)
    variance[seen] = _denoised(values[seen], edge)
    if not seen.all():
        rest = values.sum() - variance.sum()
        variance[~seen] = max(rest / np.count_nonzero(~seen), 1e-9)
    floor = max(NOISE_FLOOR * edge, least, 1e-6)
    stretched = np.maximum(variance, floor)
    dimension = max(1.0, float(np.sum(variance / stretched)))
    transform = (vectors / np.sqrt(stretched * dimension)) @ vectors.T
    return 0.5 * (transform + transform.T), dimension, (vectors * variance) @ vectors.T


def _denoised(values: np.ndarray, edge: float) -> np.ndarray:
    """Variances that show as these eigenvalues, all above the edge."""
    return np.asarray(0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))))


def _spiked_whitening(
    covariance: np.ndarray, edge: float, least: float
) -> tuple[models.SpikedMatrix, float] | None:
    """Return what `_whitening` does for many columns, in a fraction of its time.

    Directions below the edge are stretched alike, so that the matrix is a multiple of the identity
    and a few directions more. Single precision is enough: the matrix is mostly noise. None if
    directions above the edge are so many that the full matrix is no larger.
    """
    d = covariance.shape[0]
    trace = float(np.trace(covariance))
    values, vectors = linalg.eigh(
        covariance.astype(np.float32),
        subset_by_value=(edge, np.inf),
        overwrite_a=True,
        check_finite=False,
    )
    if 4 * values.shape[0] > d:
        return None
    variance = _denoised(values.astype(np.float64), edge)
    n_rest = d - variance.shape[0]
    rest = max((trace - float(variance.sum())) / n_rest, 1e-9)
    floor = max(NOISE_FLOOR * edge, least, 1e-6)
    stretched, of_rest = np.maximum(variance, floor), max(rest, floor)
    dimension = max(1.0, float(np.sum(variance / stretched)) + n_rest * rest / of_rest)
    base = 1.0 / math.sqrt(of_rest * dimension)
    extra = 1.0 / np.sqrt(stretched * dimension) - base
    return models.SpikedMatrix(base, vectors.astype(np.float64), extra), dimension
