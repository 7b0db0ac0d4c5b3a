r"""Sums over the records of linear models, exact whatever the blocks, their order or the threads.

A kernel takes a block of records and returns an array of integers; the totals of a table are the
sums of its blocks' arrays. A block is any object with ``X`` (rows), ``target`` (codes of labels, or
numbers) and ``weight`` (None, or one number in (0, 1] per row: a person's records share weight 1).
A table has at most :math:`2^{63 - 2b}` rows, eight million of fewer persons or twice as many.

**Why the sums are exact.** Let *n* bound the sum of the weights and *R* the length of rows. A row
:math:`x` is read as the integers :math:`\hat x = \mathrm{trunc}(x / u)` of at most *b* bits,
:math:`b = \min(20, (62 - \log_2 n) / 2)`, with a public power of two *u* (a `Grid` has it).
Whatever multiplies a row in a sum over records is cut to *b* bits, too. A sum of at most
:math:`2^{52 - 2b}` products then has at most 52 bits, so doubles add it without rounding in any
order; such parts are added as 64-bit integers, which hold :math:`n 2^{2b} \le 2^{62}`. So a sum
over records is the sum of one integer per record.

**That integer depends on the record and on the coefficients alone.** A logit is a sum over columns
and must not depend on their order either, nor on the shape of a block: coefficients are cut to
integers :math:`\hat\theta` with :math:`\|\hat\theta\| \le 2^{52 - b}`, so that by Cauchy and
Schwarz every partial sum of :math:`\hat x^\top \hat\theta` has at most 52 bits. One such vector is
as precise as 32 bits of the longest coefficient, enough where the coefficients are public anyway;
`derivatives` takes two. Compiled loops may be reordered (``fastmath``) *because* they are exact,
and dense and compressed rows give the same bits.

**Cutting never lengthens.** A truncated row or residual is no longer than the original, and lengths
are taken of truncated rows; so a record that is clipped to *L* adds at most *L*.

Rows are cut part by part in a cache-sized scratch: tables, of 64 or 32 bits, are never copied
whole. Without a grid (``None``) the same kernels add plain floats, for data that need no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse
from scipy.linalg.blas import dsyrk

from skdpbayes.models.losses import NOTHING, Loss

# Rows of this many bytes stay in a core's second-level cache between their uses.
CACHE_BYTES = 1 << 19
# Clipping divides, multiplies and takes roots, a few roundings per output: contributions are aimed
# this much (relative) below the clipping norm and stay below it.
CLIP_MARGIN = 2.0**-40
UNIT_ROUNDOFF = 2.0**-53
# Bounds that are computed in a few roundings are raised by this much (relative).
ALLOWANCE = 1.0 + 1e-9
# Sums of integers below 2^53: exact in any order, so the compiler may choose the order.
EXACT = {"reassoc", "contract", "nsz"}
# From this many columns on products of matrices are faster than loops over rows.
MANY_COLUMNS = 32
# So they are for rows this wide with a few outputs, whose sums do not stay in the nearest cache.
WIDE_ROWS, FEW_OUTPUTS = 512, 4
# Rows of a part for matrix products, and for second moments: their matrix, too large for any cache,
# is read and written once per part.
PRODUCT_PART, MOMENTS_PART = 256, 1024
# Plain floats are summed in parts of this many rows, and then over parts: rounding stays small.
PLAIN_SUM = 4096


def _power_of_two(largest: float, bits: int) -> float:
    """Return the smallest power of two of which ``largest`` is at most 2^bits multiples."""
    mantissa, exponent = math.frexp(largest)
    return math.ldexp(1.0, exponent - (mantissa == 0.5) - bits)


@dataclass(frozen=True)
class Grid:
    """Public units of truncated rows and residuals.

    Parameters
    ----------
    n : int
        Bound on the sum of all weights: the public number of records or persons.
    data_norm : float
        Bound on the length of every row.
    residual : float
        Bound on the entries of clipped residuals, for `clipped_gradient`; larger ones are cut. 1
        is enough for logistic and softmax regression; for a loss without a slope it is the
        clipping norm over the shortest possible row.
    """

    n: int
    data_norm: float
    residual: float = 1.0

    @cached_property
    def bits(self) -> int:
        """Of a row's entries and of what multiplies them."""
        return min(20, (62 - max(0, self.n - 1).bit_length()) // 2)

    @cached_property
    def row_unit(self) -> float:
        """Rows are integers times this power of two."""
        return _power_of_two(self.data_norm, self.bits)

    @cached_property
    def residual_unit(self) -> float:
        """Clipped residuals are integers times this power of two."""
        return _power_of_two(self.residual, self.bits)

    @cached_property
    def longest_sum(self) -> int:
        """Rows whose products doubles add up exactly."""
        return 1 << (52 - 2 * self.bits)

    def value_bound(self, loss: Loss, constant: float, coef_norm: float) -> float:
        """Largest absolute loss of a record at coefficients of this norm."""
        logit = coef_norm * math.hypot(self.data_norm, constant)
        return (loss.at_zero + loss.slope_within(logit) * logit) * ALLOWANCE

    def value_unit(self, loss: Loss, constant: float, coef_norm: float) -> float:
        """Losses in `derivatives` are integers times this power of two."""
        return _power_of_two(max(1, self.n) * self.value_bound(loss, constant, coef_norm), 62)

    def slope_unit(self, loss: Loss, constant: float, coef_norm: float) -> float:
        """Residuals in `derivatives` are integers times this power of two, to *b* more bits."""
        logit = coef_norm * math.hypot(self.data_norm, constant)
        return _power_of_two(loss.slope_within(logit * ALLOWANCE) * ALLOWANCE, self.bits)

    # What is lost to cuts and roundings, per record: n times it bounds the distance of the sums
    # from those of the truncated rows in exact arithmetic

    def logit_error(self, n_columns: int, constant: float, coef_norm: float) -> float:
        r"""Bound the error of one logit in `derivatives`.

        Two roundings of products and two of sums; the coefficients' second vector of integers
        ends :math:`4 d\,2^{2b - 104}` below their norm.
        """
        tail = 4.0 * n_columns * 2.0 ** (2 * self.bits - 104)
        reach = math.hypot(self.data_norm, constant)
        return (4.0 * UNIT_ROUNDOFF + tail) * reach * coef_norm * ALLOWANCE

    def gradient_error(
        self, loss: Loss, n_columns: int, constant: float, coef_norm: float
    ) -> float:
        r"""Bound a record's error in the gradient of `derivatives`.

        A residual is rounded to :math:`2b` bits; before that it is as wrong as its logit lets it
        be, and by the roundings of the loss itself, of weight, and of reading the total.
        """
        cut = math.sqrt(loss.n_outputs) * self.slope_unit(loss, constant, coef_norm)
        cut *= 2.0 ** -(self.bits + 1)
        logit = self.logit_error(n_columns, constant, coef_norm)
        slope = loss.slope_within(coef_norm * math.hypot(self.data_norm, constant) * ALLOWANCE)
        roundings = (loss.n_outputs + 16.0 + loss.at_zero) * UNIT_ROUNDOFF * slope
        wrong = cut + loss.curvature[1] * logit + roundings
        return math.hypot(self.data_norm, constant) * wrong * ALLOWANCE

    def value_error(self, loss: Loss, n_columns: int, constant: float, coef_norm: float) -> float:
        """Bound a record's error in the value of `derivatives`."""
        highest = self.value_bound(loss, constant, coef_norm)
        slope = loss.slope_within(coef_norm * math.hypot(self.data_norm, constant) * ALLOWANCE)
        logit = self.logit_error(n_columns, constant, coef_norm)
        cut = self.value_unit(loss, constant, coef_norm)
        roundings = (loss.n_outputs + 16.0) * UNIT_ROUNDOFF * highest
        return (cut + slope * logit + roundings) * ALLOWANCE

    def hessian_error(self, loss: Loss, n_columns: int, constant: float) -> float:
        r"""Bound how much a record's Hessian may exceed the bound of an exact one (Frobenius).

        With one output a record adds :math:`W v v^\top` with *W* the largest curvature and
        :math:`v` no longer than its row: positive semidefinite, of norm at most
        :math:`W (R^2 + a^2)`, like the exact one; nothing is to be added. With several, block
        :math:`(j, k)` is :math:`\pm W v_{jk} v_{jk}^\top` where :math:`v_{jk}` is
        :math:`\sqrt{w_{jk} / W}` times the row, off by less than a unit per entry, *e* in length;
        that moves the block by at most :math:`2 \sqrt{W w_{jk}}\, e \sqrt{R^2 + a^2}`, and the
        :math:`w_{jk}` of softmax sum up to at most 2.
        """
        if loss.n_outputs == 1:
            return 0.0
        unit = math.hypot(math.sqrt(n_columns) * self.row_unit, abs(constant) * 2.0**-self.bits)
        reach = math.hypot(self.data_norm, constant)
        return 2.0 * math.sqrt(2.0 * loss.curvature[1]) * unit * reach * ALLOWANCE


@dataclass(frozen=True, eq=False)
class SpikedMatrix:
    r"""The symmetric matrix :math:`c I + U \mathrm{diag}(g) U^\top` of a few columns *U*.

    Arrays are multiplied by it from the left (``rows @ matrix``) without its *d* squared entries.

    Parameters
    ----------
    base : float
        *c*, > 0.
    basis : ndarray of shape (d, k)
        *U*, with columns that are orthonormal up to rounding.
    extra : ndarray of shape (k,)
        *g*, each above -c.
    """

    __array_ufunc__ = None  # NumPy leaves ``rows @ matrix`` to this class

    base: float
    basis: np.ndarray
    extra: np.ndarray

    def __rmatmul__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.base * rows + ((rows @ self.basis) * self.extra) @ self.basis.T)

    def __mul__(self, factor: float) -> SpikedMatrix:
        return SpikedMatrix(self.base * factor, self.basis, self.extra * factor)

    def inverse(self) -> SpikedMatrix:
        """Return the inverse, up to the rounding of *U*."""
        inverse = 1.0 / (self.base + self.extra) - 1.0 / self.base
        return SpikedMatrix(1.0 / self.base, self.basis, inverse)

    @cached_property
    def gap(self) -> float:
        """Bound on how far the columns are from orthonormal: the norm of *U'U - I*."""
        d, k = self.basis.shape
        computed = float(np.linalg.norm(self.basis.T @ self.basis - np.eye(k)))
        return (computed + 4.0 * k * (d + 4.0) * UNIT_ROUNDOFF) * ALLOWANCE

    @property
    def largest(self) -> float:
        """Bound on the spectral norm."""
        factors = np.append(self.extra, 0.0)
        spread = float(np.abs(factors).max()) * self.gap
        return (self.base + float(factors.max()) + spread) * ALLOWANCE


# Rows, part by part


# Compressed rows are cut where they are read; dense ones once per part, into a scratch `cut`.


@njit(cache=True, nogil=True, fastmath=EXACT)
def _dense_cut(X: Any, rows: Any, scale: float, cut: Any) -> None:
    for i in range(rows.shape[0]):
        row, out = X[rows[i]], cut[i]  # views let the compiler use vector registers
        for j in range(row.shape[0]):
            out[j] = np.trunc(row[j] * scale)


@njit(cache=True, fastmath=EXACT)
def _dense_logits(X: Any, rows: Any, scale: float, cut: Any, theta: Any, sums: Any) -> None:
    """Cut rows and multiply them with coefficients, with two vectors of these at a time."""
    last = theta.shape[0] - 1
    for i in range(rows.shape[0]):
        row, out = X[rows[i]], cut[i]
        first, second, a, b = theta[0], theta[min(1, last)], 0.0, 0.0
        for j in range(row.shape[0]):
            value = np.trunc(row[j] * scale)
            out[j] = value
            a += value * first[j]
            b += value * second[j]
        sums[i, 0], sums[i, min(1, last)] = a, b
        for k in range(2, last + 1, 2):
            first, second, a, b = theta[k], theta[min(k + 1, last)], 0.0, 0.0
            for j in range(row.shape[0]):
                a += out[j] * first[j]
                b += out[j] * second[j]
            sums[i, k], sums[i, min(k + 1, last)] = a, b


@njit(cache=True, fastmath=EXACT)
def _csr_logits(
    data: Any, indices: Any, indptr: Any, rows: Any, scale: float, theta: Any, sums: Any
) -> None:
    last = theta.shape[0] - 1
    for i in range(rows.shape[0]):
        begin, end = indptr[rows[i]], indptr[rows[i] + 1]
        values, columns = data[begin:end], indices[begin:end]
        for k in range(0, last + 1, 2):
            first, second, a, b = theta[k], theta[min(k + 1, last)], 0.0, 0.0
            for p in range(values.shape[0]):
                value = np.trunc(values[p] * scale) if scale > 0.0 else values[p]
                a += value * first[np.uint64(columns[p])]
                b += value * second[np.uint64(columns[p])]
            sums[i, k], sums[i, min(k + 1, last)] = a, b


@njit(cache=True, nogil=True)
def _assemble(sums: Any, units: Any, offset: Any) -> Any:
    """Put the parts of the logits together; rounded here, in one way for every record."""
    n_outputs = offset.shape[0]
    z = np.empty((sums.shape[0], n_outputs))
    for i in range(sums.shape[0]):
        for k in range(n_outputs):
            value = sums[i, k] * units[k]
            if units.shape[0] > n_outputs:
                value += sums[i, n_outputs + k] * units[n_outputs + k]
            z[i, k] = value + offset[k]
    return z


@njit(cache=True, fastmath=EXACT)
def _dense_add(cut: Any, factors: Any, sums: Any) -> None:
    """Add factors times rows; four rows at a time, so that sums are read and written less."""
    n_rows = factors.shape[0]
    even = n_rows - n_rows % 4
    for i in range(0, even, 4):
        for k in range(factors.shape[1]):
            a, b, c, d = factors[i, k], factors[i + 1, k], factors[i + 2, k], factors[i + 3, k]
            for j in range(cut.shape[1]):
                sums[k, j] += (a * cut[i, j] + b * cut[i + 1, j]) + (
                    c * cut[i + 2, j] + d * cut[i + 3, j]
                )
    for i in range(even, n_rows):
        for k in range(factors.shape[1]):
            for j in range(cut.shape[1]):
                sums[k, j] += factors[i, k] * cut[i, j]


@njit(cache=True, fastmath=EXACT)
def _csr_add(
    data: Any, indices: Any, indptr: Any, rows: Any, scale: float, factors: Any, sums: Any
) -> None:
    for i in range(rows.shape[0]):
        begin, end = indptr[rows[i]], indptr[rows[i] + 1]
        values, columns = data[begin:end], indices[begin:end]
        for k in range(factors.shape[1]):
            out, factor = sums[k], factors[i, k]
            for p in range(values.shape[0]):
                value = np.trunc(values[p] * scale) if scale > 0.0 else values[p]
                out[np.uint64(columns[p])] += factor * value


@njit(cache=True, nogil=True)
def _dense_scaled(cut: Any, factors: Any, extra: Any, exact: bool, out: Any) -> None:
    """Rows times factors in [0, 1], cut again; ``extra`` is one more column."""
    n_columns = cut.shape[1]
    for i in range(out.shape[0]):
        factor, row, scaled = factors[i], cut[i], out[i]
        for j in range(n_columns):
            scaled[j] = factor * row[j]
        if extra.shape[0] > 0:
            scaled[n_columns] = factor * extra[i]
        if exact:
            for j in range(scaled.shape[0]):
                scaled[j] = np.trunc(scaled[j])


@njit(cache=True)
def _csr_gram(
    data: Any,
    indices: Any,
    indptr: Any,
    rows: Any,
    scale: float,
    factors: Any,
    extra: Any,
    gram: Any,
) -> None:
    """Add the outer products of the rows of `_dense_scaled` to the lower triangle of ``gram``."""
    value, column = np.empty(gram.shape[0]), np.empty(gram.shape[0], dtype=np.uint64)
    for i in range(rows.shape[0]):
        begin, factor = indptr[rows[i]], factors[i]
        size = indptr[rows[i] + 1] - begin
        for p in range(size):
            entry = data[begin + p]
            value[p] = factor * (np.trunc(entry * scale) if scale > 0.0 else entry)
            column[p] = indices[begin + p]
        if extra.shape[0] > 0:
            value[size] = factor * extra[i]
            column[size] = gram.shape[0] - 1
            size += 1
        if scale > 0.0:
            for p in range(size):
                value[p] = np.trunc(value[p])
        for p in range(size):
            for q in range(p + 1):  # columns are sorted
                gram[column[p], column[q]] += value[p] * value[q]


class _Rows:
    """The rows of a block, cut, in parts that fit into the cache: the products that sums need."""

    def __init__(self, X: Any, grid: Grid | None, n_outputs: int = 1) -> None:
        self.dense = not sparse.issparse(X)
        self.products = self.dense and X.shape[1] >= WIDE_ROWS and n_outputs >= FEW_OUTPUTS
        self.scale = 0.0 if grid is None else 1.0 / grid.row_unit
        self.longest = PLAIN_SUM if grid is None else grid.longest_sum
        self.n_rows, self.n_columns = X.shape
        if self.dense:
            kind = np.float64 if self.products else np.float32
            self._cut = np.empty((0, self.n_columns), dtype=kind)
            width = (8 if grid is None else 4) * max(1, self.n_columns)
            size = max(PRODUCT_PART if self.products else 64, CACHE_BYTES // width)
        else:
            if not X.has_canonical_format:  # an entry in two parts would be cut twice
                X = X.copy()
                X.sum_duplicates()
            self._arrays = (X.data, X.indices, X.indptr)
            size = 4096
        self.X = X
        self.size = min(size, self.longest)
        self.window: Any = slice(0, 0)  # of the part that was yielded last

    def parts(self, rows: np.ndarray | None) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield row numbers of parts, and whether sums must be emptied before they are added."""
        n_rows = self.n_rows if rows is None else rows.shape[0]
        filled = 0
        for start in range(0, n_rows, self.size):
            stop = min(start + self.size, n_rows)
            part = np.arange(start, stop) if rows is None else rows[start:stop]
            filled += stop - start
            full = filled > self.longest
            if full:
                filled = stop - start
            self.window = slice(start, stop) if rows is None else part  # a view, if it can be
            yield part, full

    def _scratch(self, part: np.ndarray) -> np.ndarray:
        if self._cut.shape[0] < part.shape[0]:
            self._cut = np.empty((part.shape[0], self.n_columns), dtype=self._cut.dtype)
        return self._cut[: part.shape[0]]

    def cut(self, part: np.ndarray) -> Any:
        """Return the rows of the part that was yielded last, cut."""
        if self.scale == 0.0:
            return self.X[self.window].astype(np.float64, copy=False)
        if self.dense:
            scratch = self._scratch(part)
            _dense_cut(self.X, part, self.scale, scratch)
            return scratch
        rows = self.X[self.window].astype(np.float64)
        rows.data = np.trunc(rows.data * self.scale)
        return rows

    def logits(
        self, part: np.ndarray, theta: np.ndarray, units: np.ndarray, offset: np.ndarray
    ) -> tuple[Any, np.ndarray]:
        """Return the cut rows (None if compressed) and their logits."""
        cut: Any = None
        many = theta.shape[0] >= MANY_COLUMNS or self.products
        if many or (self.dense and self.scale == 0.0):
            cut = self.cut(part)
            wide = cut.astype(np.float64, copy=False) @ theta.T
            return cut if self.dense else None, np.asarray(_assemble(wide, units, offset))
        sums = np.empty((part.shape[0], theta.shape[0]))
        if self.dense:
            cut = self._scratch(part)
            _dense_logits(self.X, part, self.scale, cut, theta, sums)
        else:
            compressed: Any = _csr_logits
            compressed(*self._arrays, part, self.scale, theta, sums)
        return cut, np.asarray(_assemble(sums, units, offset))

    def add(self, part: np.ndarray, cut: Any, factors: np.ndarray, sums: np.ndarray) -> None:
        """Add the transpose of ``factors`` times the rows."""
        if self.products:
            sums[:, : self.n_columns] += (cut.T @ factors).T  # twice as fast as factors.T @ cut
        elif self.dense:
            _dense_add(cut, factors, sums)
        else:
            compressed: Any = _csr_add
            compressed(*self._arrays, part, self.scale, factors, sums)

    def add_gram(
        self, part: np.ndarray, cut: Any, factors: np.ndarray, extra: np.ndarray, gram: np.ndarray
    ) -> None:
        """Add to the lower triangle of ``gram``; ``extra`` may be one more column."""
        if not self.dense:
            compressed: Any = _csr_gram
            compressed(*self._arrays, part, self.scale, factors, extra, gram)
            return
        scaled = np.empty((part.shape[0], gram.shape[0]))
        _dense_scaled(cut, factors, extra, self.scale > 0.0, scaled)
        # in place: the transpose has the order and the triangle that BLAS expects
        dsyrk(1.0, scaled.T, beta=1.0, c=gram.T, overwrite_c=1)


def cut_rows(X: Any, grid: Grid | None) -> Any:
    """Return rows of 32 bits that every kernel reads as it reads ``X``, for many passes over them.

    They are cut already, so nothing is lost: entries are integers of at most 20 bits times a power
    of two. Compressed rows have each column once.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    grid : Grid or None
        Their units; None returns ``X``.
    """
    if grid is None or not 2.0**-100 < grid.row_unit < 2.0**100:
        return X
    if sparse.issparse(X):
        short = X.copy()
        short.sum_duplicates()
        short.data = (np.trunc(short.data / grid.row_unit) * grid.row_unit).astype(np.float32)
        return short
    short = np.empty(X.shape, dtype=np.float32)
    _dense_cut(X, np.arange(X.shape[0]), 1.0 / grid.row_unit, short)
    short *= np.float32(grid.row_unit)
    return short


class _Total:
    """A sum of floats that is emptied into integers before it can round."""

    def __init__(self, shape: tuple[int, ...], grid: Grid | None) -> None:
        self.sums = np.zeros(shape)
        self.whole = np.zeros(shape, dtype=_dtype(grid))

    def empty(self) -> None:
        self.whole += self.sums.astype(self.whole.dtype)
        self.sums[:] = 0.0


def _dtype(grid: Grid | None) -> Any:
    return np.float64 if grid is None else np.int64


def _pick(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray:
    """Return the numbers of some rows; none if there are none."""
    return NO_NUMBERS if values is None else np.asarray(values[rows], dtype=np.float64)


NO_NUMBERS = np.empty(0)


# Coefficients as integers, logits


@njit(cache=True)
def _fixed(theta: Any, bits: int, n_parts: int) -> Any:
    """Cut each row of ``theta`` to integers of norm at most 2^bits; a second part adds the rest.

    Returns the integers, shape (n_parts * m, d), and their units, powers of two.
    """
    m, d = theta.shape
    integers, units = np.zeros((n_parts * m, d)), np.ones(n_parts * m)
    shorter = 0  # entries of the rest are below 1, their norm below the root of d
    while 4.0**shorter < d:
        shorter += 1
    rest_scale = 2.0 ** (bits - shorter)
    for k in range(m):
        top = 0.0
        for j in range(d):
            top = max(top, abs(theta[k, j]))
        if not top > 1e-290:
            continue
        square = 0.0
        for j in range(d):
            square += (theta[k, j] / top) ** 2
        exponent = math.frexp(top * np.sqrt(square) * (1.0 + 1e-9))[1]
        unit = math.ldexp(1.0, exponent - bits)
        units[k] = unit
        for j in range(d):
            whole = np.trunc(theta[k, j] / unit)
            integers[k, j] = whole
            if n_parts == 2:
                integers[m + k, j] = np.trunc((theta[k, j] / unit - whole) * rest_scale)
        if n_parts == 2:
            units[m + k] = unit / rest_scale
    return integers, units


def _integers(theta: np.ndarray, grid: Grid | None, n_parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients as they multiply rows, and what the products are to be multiplied with."""
    theta = np.ascontiguousarray(theta)
    if grid is None:
        return theta, np.ones(theta.shape[0])
    integers, units = _fixed(theta, 52 - grid.bits, n_parts)
    return integers, units * grid.row_unit


# Lengths


def row_lengths(
    X: Any,
    grid: Grid | None,
    center: np.ndarray | None = None,
    transform: Any = 1.0,
    constant: float = 0.0,
) -> np.ndarray:
    r"""Bound the lengths of the rows of ``(X - center) @ transform`` with a constant feature.

    A length is one of the truncated row and depends on it alone. It is an upper bound: what
    rounding can take from it is added, for rows of any length up to ``data_norm``.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    grid : Grid or None
        Their units.
    center : ndarray of shape (d,) or None
        Subtracted from every row; needs a matrix.
    transform : ndarray of shape (d, p), SpikedMatrix or float
        A matrix, or a factor of all columns.
    constant : float
        The constant feature.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If a row is longer than ``grid.data_norm``.
    """
    rows = _Rows(X, grid)
    n_columns = rows.n_columns
    unit = 1.0 if grid is None else grid.row_unit
    lengths, allowance = np.empty(rows.n_rows), 0.0
    longest = math.inf if grid is None else 4.0**grid.bits * ALLOWANCE
    if isinstance(transform, SpikedMatrix):
        spikes = _Spikes(transform, grid, np.zeros(n_columns) if center is None else center)
        for part, _ in rows.parts(None):
            cut = rows.cut(part)
            squares = _squares(cut)
            if np.any(squares > longest):
                raise ValueError("rows are longer than data_norm; bound them first.")
            wide = cut.astype(np.float64, copy=False) @ spikes.theta.T  # exact on a grid
            out = lengths[part[0] : part[-1] + 1]
            spikes.squares(squares * unit**2, np.asarray(wide), out)
            np.sqrt(out + constant * constant, out=out)
        return np.asarray(lengths * (1.0 + 16.0 * UNIT_ROUNDOFF) + spikes.allowance)
    if np.ndim(transform) == 0:
        if center is not None:
            raise ValueError("a center needs a matrix as transform.")
        theta, size = NOTHING, n_columns
    else:
        matrix = np.ascontiguousarray(transform, dtype=np.float64)
        middle = np.zeros(n_columns) if center is None else np.asarray(center, dtype=np.float64)
        theta, units = _integers(matrix.T, grid, 1)
        shift, size = _in_order(middle, matrix), matrix.shape[1]
        if grid is not None:
            # entries of the matrix lose less than a unit each; then the roundings of the center's
            # product and of the differences
            lost = math.sqrt(n_columns) * float(np.linalg.norm(units)) / unit * grid.data_norm
            reach = grid.data_norm + float(np.linalg.norm(middle))
            roundings = 2.0 * (n_columns + 4.0) * UNIT_ROUNDOFF * float(np.linalg.norm(matrix))
            allowance = (lost + roundings * reach) * ALLOWANCE
    for part, _ in rows.parts(None):
        out = lengths[part[0] : part[-1] + 1]
        cut = rows.cut(part)
        out[:] = _squares(cut)
        if np.any(out > longest):
            raise ValueError("rows are longer than data_norm; bound them first.")
        if theta is NOTHING:
            out *= (unit * float(transform)) ** 2
        else:
            wide = cut.astype(np.float64, copy=False) @ theta.T  # exact on a grid
            out[:] = _squares(_assemble(wide, units, -shift))
        np.sqrt(out + constant * constant, out=out)
    if grid is None:
        return lengths
    return np.asarray(lengths * (1.0 + 2.0 * (size + 8.0) * UNIT_ROUNDOFF) + allowance)


class _Spikes:
    r"""Upper bounds on the squared lengths of rows under a `SpikedMatrix`.

    With :math:`z = x - m` and :math:`t = \hat U^\top z`, :math:`\hat U` the columns as integers on
    the grid, so that :math:`\hat U^\top x` is exact, and *e* the norm of
    :math:`\hat U^\top \hat U - I`,

    .. math:: \|(c I + \hat U g \hat U^\top) z\|^2 \le
              c^2 \|z\|^2 + \sum_j (2 c g_j + (1 + e) g_j^2)\, t_j^2 .

    What the roundings of these terms can take from the square is added to it, and what the cut of
    *U* can take from the length is the ``allowance``.
    """

    def __init__(self, matrix: SpikedMatrix, grid: Grid | None, center: np.ndarray) -> None:
        middle = np.asarray(center, dtype=np.float64)
        vectors = np.ascontiguousarray(np.vstack([matrix.basis.T, middle]))
        self.theta, self.units = _integers(vectors, grid, 1)
        c, g = matrix.base, matrix.extra
        self.base = c * c
        k, d = vectors.shape[0] - 1, vectors.shape[1]
        if grid is None:
            cut, error = matrix, 0.0
        else:
            held = (self.theta * (self.units / grid.row_unit)[:, None])[:-1].T
            cut = SpikedMatrix(c, np.ascontiguousarray(held), g)
            error = float(np.linalg.norm(matrix.basis - held)) * ALLOWANCE
        self.shift = _in_order(middle, np.ascontiguousarray(cut.basis))
        self.middle = float(_in_order(middle, middle[:, None])[0])
        self.factors = 2.0 * c * g + (1.0 + cut.gap) * g * g
        if grid is None:
            self.added = self.allowance = 0.0
            return
        reach = grid.data_norm + float(np.linalg.norm(middle))
        size = (c * c + float(np.abs(self.factors).max(initial=0.0))) * (1.0 + cut.gap)
        roundings = (2.0 * math.sqrt(k) + 2.0) * (d + 16.0) + k
        of_middle = math.sqrt(d) * self.units[-1] / grid.row_unit  # what the center loses
        self.added = 4.0 * roundings * UNIT_ROUNDOFF * size * reach * reach
        self.added = (self.added + 2.0 * c * c * grid.data_norm * of_middle) * ALLOWANCE
        steepest = float(np.abs(g).max(initial=0.0))
        self.allowance = 2.0 * (1.0 + matrix.gap + cut.gap) * steepest * error * reach * ALLOWANCE

    def squares(self, squares: np.ndarray, wide: np.ndarray, out: np.ndarray) -> None:
        """Bound the squared lengths of rows of which ``squares`` are the squared lengths."""
        how = (self.units, self.shift, self.factors, self.base, self.middle, self.added)
        _spiked_squares(squares, wide, *how, out)


@njit(cache=True, nogil=True)
def _spiked_squares(
    squares: Any,
    wide: Any,
    units: Any,
    shift: Any,
    factors: Any,
    base: float,
    middle: float,
    added: float,
    out: Any,
) -> None:
    k = factors.shape[0]
    for i in range(out.shape[0]):
        total = base * (squares[i] - 2.0 * wide[i, k] * units[k] + middle)
        for j in range(k):
            t = wide[i, j] * units[j] - shift[j]
            total += factors[j] * t * t
        out[i] = max(total, 0.0) + added


def _squares(rows: Any) -> np.ndarray:
    """Squared lengths, added in the order of the columns."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    out = np.empty(rows.shape[0])
    _dense_squares(rows, out)
    return out


@njit(cache=True, nogil=True)
def _dense_squares(rows: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j])
            total += value * value
        out[i] = total


@njit(cache=True)
def _in_order(vector: Any, matrix: Any) -> Any:
    """Return their product, added row by row, whatever the threads."""
    out = np.zeros(matrix.shape[1])
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[j] += vector[i] * matrix[i, j]
    return out


def row_keys(X: Any, grid: Grid | None) -> np.ndarray:
    """Return a pseudo-random integer in [0, 65536) per row that depends on its contents alone.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        Rows.
    grid : Grid or None
        Their units.
    """
    rows = _Rows(X, grid)
    theta, units = _integers(np.cos(np.arange(1.0, rows.n_columns + 1.0))[None], grid, 1)
    sums = [rows.logits(part, theta, units, np.zeros(1))[1] for part, _ in rows.parts(None)]
    bits = np.concatenate(sums).ravel().view(np.uint64)
    return np.asarray((bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(48))


# Clipped gradients


@njit(cache=True, nogil=True)
def _clip(
    residual: Any, lengths: Any, weight: Any, clip: float, largest: float, scale: float, sums: Any
) -> None:
    """Overwrite residuals by clipped, weighted and, with a scale, truncated ones; add them up.

    They are cut at ``largest`` before they are weighted: those of a person together stay below it.
    """
    last = sums.shape[1] - 1
    for i in range(residual.shape[0]):
        share, factor = weight[i] if weight.shape[0] > 0 else 1.0, 1.0
        if lengths.shape[0] > 0:
            norm, square = abs(residual[i, 0]), 0.0
            if residual.shape[1] > 1:
                for k in range(1, residual.shape[1]):
                    norm = max(norm, abs(residual[i, k]))
                if norm > 0.0:
                    for k in range(residual.shape[1]):
                        square += (residual[i, k] / norm) ** 2
                norm *= np.sqrt(square)
            norm *= lengths[i]
            if norm > clip:
                factor = clip / norm
        for k in range(residual.shape[1]):
            value = residual[i, k] * factor
            if scale > 0.0:
                value = np.trunc(min(max(value, -largest), largest) * (share * scale))
            else:
                value *= share
            residual[i, k] = value
            sums[k, last] += value


def clipped_gradient(
    block: Any,
    theta: np.ndarray,
    loss: Loss,
    lengths: np.ndarray | None,
    clip: float,
    grid: Grid | None,
    *,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    r"""Sum the clipped gradients of a block, with respect to coefficients of x and of a constant 1.

    One record's gradient is the outer product of its residual :math:`r_i = \partial\ell/\partial z`
    and its row, so its norm is a product, and clipping to :math:`L` needs no gradient of any single
    record:

    .. math:: G = \sum_i a_i c_i r_i \hat x_i^\top, \quad R = \sum_i a_i c_i r_i, \qquad
              c_i = \min\big(1, L / (\|r_i\| \, \nu_i)\big).

    The lengths :math:`\nu_i` are given, because a linear change of coordinates changes them: with
    rows :math:`w_i = A (x_i - m)` in place of :math:`x_i`, :math:`\nu_i = \|w_i\|` and the clipped
    sum is :math:`(G - R m^\top) A^\top`. A record's part of it is at most :math:`a_i L` long in
    exact arithmetic: residuals are cut toward zero after they are clipped.

    Parameters
    ----------
    block : object with X, target and weight
        Records.
    theta : ndarray of shape (K, d + 1)
        Coefficients and, last, the intercept. They must be finite.
    loss : Loss
        With K outputs.
    lengths : ndarray of shape (n,) or None
        Lengths of the block's rows (`row_lengths`); None if ``clip`` is infinite.
    clip : float
        Bound on the norm of one record's contribution; inf for none.
    grid : Grid or None
        Units; None for plain floats.
    rows : ndarray of int or None
        Row numbers within the block; None for all.

    Returns
    -------
    ndarray of shape (K, d + 1)
        The sums, for `read_gradient`: int64, or floats without a grid.
    """
    if math.isinf(clip):
        lengths = None
    elif lengths is None:
        raise ValueError("clipping needs the lengths of the rows.")
    data = _Rows(block.X, grid, theta.shape[0])
    integers, units = _integers(theta[:, :-1], grid, 1)
    offset = np.ascontiguousarray(theta[:, -1])
    total = _Total(theta.shape, grid)
    clip = clip * (1.0 - CLIP_MARGIN)
    largest = 0.0 if grid is None else grid.residual
    scale = 0.0 if grid is None else 1.0 / grid.residual_unit
    for part, full in data.parts(rows):
        if full:
            total.empty()
        cut, z = data.logits(part, integers, units, offset)
        loss.pointwise(z, block.target[data.window], NOTHING, NOTHING)
        weight = _pick(block.weight, part)
        _clip(z, _pick(lengths, part), weight, clip, largest, scale, total.sums)
        data.add(part, cut, z, total.sums)
    total.empty()
    return total.whole


def read_gradient(total: np.ndarray, grid: Grid | None) -> np.ndarray:
    """Return the sums of `clipped_gradient` as floats, shape (K, d + 1).

    Parameters
    ----------
    total : ndarray of shape (K, d + 1)
        Sum of what the kernel returned for all blocks.
    grid : Grid or None
        The same.
    """
    if grid is None:
        return total
    out = total * grid.residual_unit
    out[:, :-1] *= grid.row_unit
    return np.asarray(out)


def absolute_errors(
    block: Any, theta: np.ndarray, loss: Loss, largest: float, grid: Grid
) -> np.ndarray:
    r"""Sum :math:`\min(|\mathrm{E}\,y_i - y_i|, m)` over a block, for a loss of one output.

    Parameters
    ----------
    block : object with X, target and weight
        Records.
    theta : ndarray of shape (1, d + 1)
        Coefficients and, last, the intercept. They must be finite.
    loss : Loss
        Whose mean the errors are taken from.
    largest : float
        The bound *m*.
    grid : Grid
        Units.

    Returns
    -------
    ndarray of int64 of shape (1,)
        For `read_errors`.
    """
    data = _Rows(block.X, grid)
    integers, units = _integers(theta[:, :-1], grid, 1)
    offset = np.ascontiguousarray(theta[:, -1])
    total, unit = np.zeros(1, dtype=np.int64), _power_of_two(max(1, grid.n) * largest, 62)
    for part, _ in data.parts(None):
        z = data.logits(part, integers, units, offset)[1]
        errors = np.abs(loss.mean(z)[:, 0] - block.target[data.window])
        np.minimum(errors, largest, out=errors)
        if block.weight is not None:
            errors *= _pick(block.weight, part)
        total += (errors / unit).astype(np.int64).sum()  # cut toward zero
    return total


def read_errors(total: np.ndarray, largest: float, grid: Grid) -> float:
    """Return the sum of what `absolute_errors` returned for all blocks as a float."""
    return float(total[0]) * _power_of_two(max(1, grid.n) * largest, 62)


# Value, gradient and Hessian


def _shaped(theta: np.ndarray) -> np.ndarray:
    """Coefficients as (S, K, p)."""
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    return theta[None] if theta.ndim == 2 else theta


@njit(cache=True)
def _norms(thetas: Any) -> Any:
    """Frobenius norms of the coefficient matrices, a little more than rounding may hide."""
    norms = np.zeros(thetas.shape[0])
    for s in range(thetas.shape[0]):
        theta = thetas[s].ravel()
        top = np.max(np.abs(theta))
        if top > 0.0:
            norms[s] = top * np.sqrt(np.sum((theta / top) ** 2)) * ALLOWANCE
    return norms


def _units(
    thetas: np.ndarray, loss: Loss, orders: tuple[int, ...], constant: float, grid: Grid | None
) -> tuple[np.ndarray, np.ndarray]:
    """Units of values and of residuals at each point, which depend on this point alone."""
    values, slopes = np.ones(thetas.shape[0]), np.ones(thetas.shape[0])
    if grid is not None:
        for s, norm in enumerate(_norms(thetas).tolist()):
            if 0 in orders:
                values[s] = grid.value_unit(loss, constant, norm)
            if 1 in orders:
                slopes[s] = grid.slope_unit(loss, constant, norm)
    return values, slopes


def _pairs(n_outputs: int) -> list[tuple[int, int]]:
    return [(j, k) for j in range(n_outputs) for k in range(j + 1)]


@njit(cache=True)
def _two_parts(residual: Any, weight: Any, scales: Any, bits: int, sums: Any) -> Any:
    """Weighted residuals as integers of ``bits`` bits and the next ``bits`` bits; add them up.

    Without ``bits`` there is one part, as it is.
    """
    n, m = residual.shape
    last = sums.shape[1] - 1
    out = np.empty((n, 2 * m if bits > 0 else m))
    for i in range(n):
        share = weight[i] if weight.shape[0] > 0 else 1.0
        for k in range(m):
            value = residual[i, k] * (share * scales[k])  # scales are powers of two
            if bits > 0:
                whole = np.trunc(value)
                out[i, m + k] = np.rint((value - whole) * 2.0**bits)
                sums[m + k, last] += out[i, m + k]
                value = whole
            out[i, k] = value
            sums[k, last] += value
    return out


def derivatives(
    block: Any,
    theta: np.ndarray,
    loss: Loss,
    orders: tuple[int, ...],
    constant: float,
    grid: Grid | None,
    *,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    r"""Value, gradient and Hessian of the sum of a block's losses, packed into one array.

    A row is followed by a constant feature (0 for none). Only those that are asked for are formed.
    Each number is a sum of one integer per record that depends on the record and on the point
    alone: its loss over `Grid.value_unit`; its row times its residual in two parts of *b* bits;
    :math:`v v^\top` with the row :math:`v`, scaled by the root of the second derivative over the
    largest one and cut. `Grid.gradient_error` and its neighbors bound what a record's cuts amount
    to.

    Parameters
    ----------
    block : object with X, target and weight
        Records.
    theta : ndarray of shape (K, p) or (S, K, p)
        Coefficients at one or several points; p is d, or d + 1 with a constant feature, whose
        coefficients are last.
    loss : Loss
        With K outputs; for order 2 its curvature must be finite.
    orders : tuple of int
        0 for the value, 1 for the gradient, 2 for the Hessian (at one point only).
    constant : float
        The constant feature.
    grid : Grid or None
        Units; None for plain floats.
    rows : ndarray of int or None
        Row numbers within the block; None for all.

    Returns
    -------
    ndarray
        For `read_derivatives`: int64, or floats without a grid.
    """
    thetas = _shaped(theta)
    n_points, n_outputs, p = thetas.shape
    with_value, with_gradient, with_hessian = (order in orders for order in range(3))
    if with_hessian and n_points > 1:
        raise ValueError("the Hessian is formed at one point at a time.")
    if with_hessian and math.isinf(loss.curvature[1]):
        raise ValueError("a Hessian needs a loss of bounded curvature.")
    data = _Rows(block.X, grid)
    flat = thetas.reshape(-1, p)
    m, n_columns = flat.shape[0], data.n_columns
    offset = constant * flat[:, -1] if constant != 0.0 else np.zeros(m)
    integers, units = _integers(flat[:, :n_columns], grid, 2)
    pairs = _pairs(n_outputs) if with_hessian else []
    value_units, slope_units = _units(thetas, loss, orders, constant, grid)
    value_scales, slope_scales = 1.0 / value_units, np.repeat(1.0 / slope_units, n_outputs)
    bits, largest = (0, 1.0) if grid is None else (grid.bits, loss.curvature[1])
    n_factors = (m if grid is None else 2 * m) * with_gradient
    values = np.zeros(n_points * with_value, dtype=_dtype(grid))
    gradient = _Total((n_factors, n_columns + 1), grid)
    grams = [_Total((p, p), grid) for _ in pairs]
    for part, full in data.parts(rows):
        if full:
            gradient.empty()
            for gram in grams:
                gram.empty()
        cut, z = data.logits(part, integers, units, offset)
        value = np.empty((part.shape[0], n_points)) if with_value else NOTHING
        second = np.empty((part.shape[0], len(pairs))) if pairs else NOTHING
        loss.pointwise(z, block.target[data.window], value, second)
        weight = _pick(block.weight, part)
        if with_value:
            value *= value_scales if weight.size == 0 else value_scales * weight[:, None]
            values += value.astype(values.dtype).sum(axis=0)  # integers are cut toward zero
        if with_gradient:
            factors = _two_parts(z, weight, slope_scales, bits, gradient.sums)
            data.add(part, cut, factors, gradient.sums)
        for pair, gram in enumerate(grams):
            share = second[:, pair] if weight.size == 0 else second[:, pair] * weight
            root = np.sqrt(share / largest)
            if grid is not None:
                np.minimum(root, 1.0, out=root)
            extra = np.full(part.shape[0], constant if grid is None else 2.0**bits)
            extra = extra if constant != 0.0 else NO_NUMBERS
            data.add_gram(part, cut, root, extra, gram.sums)
    gradient.empty()
    for gram in grams:
        gram.empty()
    sums = gradient.whole[:, :p].ravel()  # without the last column if there is no constant feature
    return np.concatenate([values, sums, *(gram.whole.ravel() for gram in grams)])


def read_derivatives(
    total: np.ndarray,
    theta: np.ndarray,
    loss: Loss,
    orders: tuple[int, ...],
    constant: float,
    grid: Grid | None,
) -> tuple[Any, Any, Any]:
    """Unpack the sum of what `derivatives` returned for all blocks, given the same arguments.

    Returns
    -------
    value : float, or ndarray of shape (S,)
    gradient : ndarray of the shape of ``theta``
    hessian : ndarray of shape (K p, K p)
        None for each that was not asked for.
    """
    thetas = _shaped(theta)
    n_points, n_outputs, p = thetas.shape
    n_columns = p - (constant != 0.0)
    rest = total
    value_units, slope_units = _units(thetas, loss, orders, constant, grid)
    value: Any = None
    gradient: Any = None
    hessian: Any = None
    if 0 in orders:
        value, rest = rest[:n_points] * value_units, rest[n_points:]
        if np.ndim(theta) == 2:
            value = float(value[0])
    if 1 in orders:
        size = thetas.size * (1 if grid is None else 2)
        parts, rest = rest[:size].reshape(-1, *thetas.shape), rest[size:]
        units = np.full((n_points, 1, p), 1.0 if grid is None else grid.row_unit)
        units[..., n_columns:] = constant
        units *= slope_units[:, None, None]
        gradient = parts[0] * units
        if grid is not None:
            units *= 2.0**-grid.bits
            gradient += parts[1] * units
        gradient = gradient.reshape(np.shape(theta))
    if 2 in orders:
        full = np.empty((n_outputs, p, n_outputs, p))
        unit = np.ones((p, p))
        if grid is not None:
            roots = np.full(p, grid.row_unit)
            roots[n_columns:] = constant * 2.0**-grid.bits
            unit = loss.curvature[1] * np.outer(roots, roots)
        for (j, k), gram in zip(_pairs(n_outputs), rest.reshape(-1, p, p), strict=True):
            both = (np.tril(gram) + np.tril(gram, -1).T) * (unit if j == k else -unit)
            full[j, :, k, :] = both
            full[k, :, j, :] = both
        hessian = full.reshape(n_outputs * p, n_outputs * p)
    return value, gradient, hessian


# Moments


def moments(block: Any, grid: Grid | None, target_bound: float | None = None) -> np.ndarray:
    r"""Sums of rows and of their outer products, in one array.

    A record of weight *a* adds its row times *a* and :math:`v v^\top`, *v* its row times
    :math:`\sqrt a`, both truncated: of weight 1 exactly :math:`\hat x` and
    :math:`\hat x \hat x^\top`. In exact arithmetic these are no longer than :math:`a R` and
    :math:`a R^2`.

    Parameters
    ----------
    block : object with X, target and weight
        Records.
    grid : Grid or None
        Units; None for plain floats.
    target_bound : float or None
        If given, the target is one more column, last: of at most this absolute value.

    Returns
    -------
    ndarray of shape (1 + p, p)
        First the sums, then the lower triangle of the second moments, for `read_moments`: int64,
        or floats without a grid; p is d, or d + 1 with the target.
    """
    data = _Rows(block.X, grid)
    if data.dense:
        data.size = min(max(data.size, MOMENTS_PART), data.longest)
    p = data.n_columns + (target_bound is not None)
    sums, gram = _Total((1, data.n_columns), grid), _Total((p, p), grid)
    last = np.zeros(p - data.n_columns, dtype=_dtype(grid))
    for part, full in data.parts(None):
        if full:
            sums.empty()
            gram.empty()
        weight = np.ones(part.shape[0]) if block.weight is None else _pick(block.weight, part)
        share = weight if grid is None else np.trunc(weight * 2.0**grid.bits)
        cut = data.cut(part) if data.dense else None
        data.add(part, cut, share[:, None], sums.sums)
        target = NO_NUMBERS
        if target_bound is not None:
            target = np.clip(_pick(block.target, part), -target_bound, target_bound)
            if grid is not None:
                target = np.trunc(target / _power_of_two(target_bound, grid.bits))
            last += (share @ target).astype(last.dtype)
        # a root that is rounded up must not lengthen
        root = np.where(weight < 1.0, np.sqrt(weight) * (1.0 - 2.0**-50), 1.0)
        data.add_gram(part, cut, root, target, gram.sums)
    sums.empty()
    gram.empty()
    return np.vstack([np.append(sums.whole[0], last), np.tril(gram.whole)])


def read_moments(
    total: np.ndarray, grid: Grid | None, target_bound: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums, shape (p,), and the second moments, shape (p, p), as floats.

    Parameters are those of `moments`, after the sum of what it returned for all blocks.
    """
    units, share = np.ones(total.shape[1]), 1.0
    if grid is not None:
        units *= grid.row_unit
        share = 2.0**-grid.bits
        if target_bound is not None:
            units[-1] = _power_of_two(target_bound, grid.bits)
    second = (total[1:] + np.tril(total[1:], -1).T) * np.outer(units, units)
    return total[0] * (units * share), second
