r"""Losses of linear classifiers: value, gradient and Hessian in one pass over the data.

A record is a row :math:`x_i` of ``X`` followed by a constant feature ``constant`` (0 for none, when
there is no intercept), and a label code :math:`y_i \in \{0, \ldots, K-1\}`. Coefficients ``theta``
have one row per output, (1, d) for two classes and (K, d) otherwise, ``d`` counting the constant.
With the logits :math:`z_i = \theta x_i` the losses are sums over records,

.. math::

    \text{logistic: } \log(1 + e^{m - t_i}), \qquad
    \text{smooth hinge: } h(1 - t_i), \qquad
    \text{softmax: } \log \sum_k e^{z_{ik}} - z_{i y_i},

where :math:`t_i = z_i` for code 1 and :math:`-z_i` for code 0, :math:`m` is a margin (0 for the
likelihood), and :math:`h(v)` is 0 below 0, :math:`v^2 / (2 s)` up to the smoothing width :math:`s`,
and :math:`v - s / 2` beyond it.

``X`` is a C-ordered float64 array or a CSR matrix. It is read block by block, so that a block is
still in cache when its gradient and curvature are formed; no array of the size of ``X`` is made.
Sums run within a block first and then over blocks, which also keeps rounding small (see
`summation_length`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse
from scipy.linalg.blas import dsyrk

__all__ = [
    "linear_logits",
    "logistic_gradient",
    "logistic_hessian",
    "logistic_loss",
    "smooth_hinge_gradient",
    "smooth_hinge_hessian",
    "smooth_hinge_loss",
    "softmax_gradient",
    "softmax_hessian",
    "softmax_loss",
    "summation_length",
]

# A block of X of about this many bytes stays in a core's second-level cache between its two uses.
BLOCK_BYTES = 1 << 19

# Pointwise kernels: logits in, loss and its derivatives with respect to the logits out.


@njit(cache=True)
def _logistic_pointwise(z: Any, codes: Any, margin: float, residual: Any, weight: Any) -> float:
    """Sum of log(1 + e^(m-t)); residual = dl/dz = p - code, weight = d2l/dz2 = p (1 - p)."""
    total, product = 0.0, 1.0  # one logarithm for many factors 1 + e^-|z|: half the time
    for i in range(z.shape[0]):
        value = z[i, 0] - margin if codes[i] == 1 else z[i, 0] + margin
        small = np.exp(-abs(value))  # no overflow for any logit
        likely = 1.0 / (1.0 + small)
        # 1 - p of the larger side would cancel: use the smaller side's own formula
        other, positive = (small * likely, likely) if value >= 0.0 else (likely, small * likely)
        total += max(-value if codes[i] == 1 else value, 0.0)
        if small < 1e-8:
            total += small  # lost in a factor
        else:
            product *= 1.0 + small
        if product > 1e280:
            total += np.log(product)
            product = 1.0
        residual[i, 0] = -other if codes[i] == 1 else positive
        weight[i, 0] = positive * other
    return total + np.log(product)


@njit(cache=True)
def _smooth_hinge_pointwise(z: Any, codes: Any, width: float, residual: Any, weight: Any) -> float:
    """Sum of h(1 - t) with its first and second derivatives in z."""
    total = 0.0
    for i in range(z.shape[0]):
        sign = 1.0 if codes[i] == 1 else -1.0
        gap = 1.0 - sign * z[i, 0]
        if gap <= 0.0:
            residual[i, 0] = 0.0
            weight[i, 0] = 0.0
        elif gap < width:
            total += gap * gap / (2.0 * width)
            residual[i, 0] = -sign * gap / width
            weight[i, 0] = 1.0 / width
        else:
            total += gap - 0.5 * width
            residual[i, 0] = -sign
            weight[i, 0] = 0.0
    return total


@njit(cache=True)
def _softmax_pointwise(z: Any, codes: Any, residual: Any, weight: Any) -> float:
    """Sum of lse(z) - z_y; residual = p - e_y, weight = p."""
    total = 0.0
    n_outputs = z.shape[1]
    for i in range(z.shape[0]):
        top = z[i, 0]
        for k in range(1, n_outputs):
            top = max(top, z[i, k])
        mass = 0.0
        for k in range(n_outputs):
            weight[i, k] = np.exp(z[i, k] - top)
            mass += weight[i, k]
        for k in range(n_outputs):
            weight[i, k] /= mass
            residual[i, k] = weight[i, k]
        residual[i, codes[i]] -= 1.0
        total += np.log(mass) + top - z[i, codes[i]]
    return total


@njit(cache=True)
def _csr_logits(data: Any, indices: Any, indptr: Any, start: int, theta: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for k in range(theta.shape[0]):
            total = 0.0
            for position in range(indptr[start + i], indptr[start + i + 1]):
                total += data[position] * theta[k, indices[position]]
            out[i, k] = total


@njit(cache=True)
def _csr_add_gradient(
    data: Any, indices: Any, indptr: Any, start: int, residual: Any, gradient: Any
) -> None:
    for i in range(residual.shape[0]):
        for k in range(residual.shape[1]):
            for position in range(indptr[start + i], indptr[start + i + 1]):
                gradient[k, indices[position]] += residual[i, k] * data[position]


@njit(cache=True)
def _csr_add_gram(
    data: Any, indices: Any, indptr: Any, start: int, weight: Any, constant: float, gram: Any
) -> None:
    """Add weight_i x_i x_i^T to both triangles, the constant feature in the last row and column."""
    last = gram.shape[0] - 1
    for i in range(weight.shape[0]):
        begin, end = indptr[start + i], indptr[start + i + 1]
        for p in range(begin, end):
            scaled = weight[i] * data[p]
            row = indices[p]
            for q in range(begin, end):
                gram[row, indices[q]] += scaled * data[q]
            if constant != 0.0:
                gram[row, last] += scaled * constant
                gram[last, row] += scaled * constant
        if constant != 0.0:
            gram[last, last] += weight[i] * constant * constant


# Rows in blocks: the three products a loss needs, the same for dense and CSR data


class _Rows:
    """Rows of ``X`` with the constant feature; subclasses supply the products with ``X`` alone."""

    _product: Any
    _add_transposed: Any

    def __init__(self, X: Any, constant: float) -> None:
        self.X = X
        self.constant = float(constant)
        self.n_rows, self.n_columns = X.shape
        self.n_features = self.n_columns + (self.constant != 0.0)
        self.block = _block_rows(self.n_rows, self.n_features)

    def blocks(self) -> Any:
        for start in range(0, self.n_rows, self.block):
            yield start, min(start + self.block, self.n_rows)

    def logits(self, start: int, stop: int, theta: np.ndarray, out: np.ndarray) -> None:
        self._product(start, stop, theta[:, : self.n_columns], out)
        if self.constant != 0.0:
            out += self.constant * theta[:, -1]

    def add_gradient(
        self, start: int, stop: int, residual: np.ndarray, gradient: np.ndarray
    ) -> None:
        self._add_transposed(start, stop, residual, gradient[:, : self.n_columns])
        if self.constant != 0.0:
            gradient[:, -1] += self.constant * residual.sum(axis=0)


class _DenseRows(_Rows):
    def __init__(self, X: np.ndarray, constant: float) -> None:
        super().__init__(X, constant)
        self._scaled: np.ndarray | None = None

    def _product(self, start: int, stop: int, theta: np.ndarray, out: np.ndarray) -> None:
        np.matmul(self.X[start:stop], theta.T, out=out)

    def _add_transposed(
        self, start: int, stop: int, residual: np.ndarray, gradient: np.ndarray
    ) -> None:
        gradient += residual.T @ self.X[start:stop]

    def add_gram(
        self, start: int, stop: int, weight: np.ndarray, gram: np.ndarray, sign: float
    ) -> Any:
        """Add sign * sum w_i x_i x_i^T to the lower triangle of the F-ordered ``gram`` (dsyrk)."""
        if self._scaled is None:
            self._scaled = np.empty((self.block, self.n_features))
        scaled = self._scaled[: stop - start]
        root = np.sqrt(weight)
        np.multiply(self.X[start:stop], root[:, None], out=scaled[:, : self.n_columns])
        if self.constant != 0.0:
            scaled[:, -1] = self.constant * root
        return dsyrk(sign, scaled.T, beta=1.0, c=gram, lower=1, overwrite_c=1)


class _CsrRows(_Rows):
    def __init__(self, X: Any, constant: float) -> None:
        super().__init__(X, constant)
        self._parts = (X.data, X.indices, X.indptr)

    def _product(self, start: int, stop: int, theta: np.ndarray, out: np.ndarray) -> None:
        _csr_logits(*self._parts, start, theta, out)

    def _add_transposed(
        self, start: int, stop: int, residual: np.ndarray, gradient: np.ndarray
    ) -> None:
        _csr_add_gradient(*self._parts, start, residual, gradient)

    def add_gram(
        self, start: int, stop: int, weight: np.ndarray, gram: np.ndarray, sign: float
    ) -> Any:
        _csr_add_gram(*self._parts, start, sign * weight, self.constant, gram)
        return gram


def _block_rows(n_rows: int, n_features: int) -> int:
    return int(max(1, min(n_rows, max(64, BLOCK_BYTES // (8 * max(n_features, 1))))))


def _rows(X: Any, constant: float) -> Any:
    return _CsrRows(X, constant) if sparse.issparse(X) else _DenseRows(X, constant)


def summation_length(n_rows: int, n_features: int) -> int:
    """Longest chain of additions behind one entry of a gradient: within a block, then over blocks.

    The Euclidean norm of the rounding error of a summed gradient is at most this number times the
    unit roundoff times the sum of the records' gradient norms (Higham, Accuracy and Stability of
    Numerical Algorithms, 2nd ed., section 4.2, first order).
    """
    block = _block_rows(n_rows, n_features)
    return block + -(-n_rows // block)


def _one_pass(
    pointwise: Any,
    theta: np.ndarray,
    X: Any,
    codes: Any,
    constant: float,
    order: int,
    *shape: float,
) -> Any:
    """Value, and for ``order`` 1 and 2 also gradient and Hessian, of a sum of losses."""
    rows = _rows(X, constant)
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    n_outputs = theta.shape[0]
    logits = np.empty((rows.block, n_outputs))
    residual, weight = np.empty_like(logits), np.empty_like(logits)
    gradient = np.zeros_like(theta) if order >= 1 else None
    grams = _new_grams(n_outputs, rows.n_features) if order >= 2 else None
    total = 0.0
    for start, stop in rows.blocks():
        size = stop - start
        z, r, w = logits[:size], residual[:size], weight[:size]
        rows.logits(start, stop, theta, z)
        total += pointwise(z, codes[start:stop], *shape, r, w)
        if gradient is not None:
            rows.add_gradient(start, stop, r, gradient)
        if grams is not None:
            _add_grams(rows, start, stop, w, grams)
    hessian = None if grams is None else _assemble_hessian(grams, n_outputs, rows.n_features)
    return total, gradient, hessian


def _new_grams(n_outputs: int, n_features: int) -> dict[tuple[int, int], np.ndarray]:
    pairs = ((j, k) for j in range(n_outputs) for k in range(j + 1))
    return {pair: np.zeros((n_features, n_features), order="F") for pair in pairs}


def _add_grams(
    rows: Any, start: int, stop: int, weight: np.ndarray, grams: dict[tuple[int, int], np.ndarray]
) -> None:
    """Curvature blocks of one block of rows: w x x^T, or p_j (1 - p_j) and -p_j p_k for softmax."""
    single = weight.shape[1] == 1
    for (j, k), gram in grams.items():
        if single:
            w, sign = weight[:, 0], 1.0
        elif j == k:
            w, sign = weight[:, j] * (1.0 - weight[:, j]), 1.0
        else:
            w, sign = weight[:, j] * weight[:, k], -1.0
        grams[j, k] = rows.add_gram(start, stop, w, gram, sign)


def _assemble_hessian(
    grams: dict[tuple[int, int], np.ndarray], n_outputs: int, n_features: int
) -> np.ndarray:
    hessian = np.empty((n_outputs, n_features, n_outputs, n_features))
    for (j, k), gram in grams.items():
        lower = np.tril(gram)
        full = lower + np.tril(gram, -1).T
        hessian[j, :, k, :] = full
        hessian[k, :, j, :] = full
    return hessian.reshape(n_outputs * n_features, n_outputs * n_features)


def linear_logits(theta: np.ndarray, X: Any, constant: float = 0.0) -> np.ndarray:
    """Logits of every record.

    Parameters
    ----------
    theta : ndarray of shape (K, d)
        Coefficients; the last column belongs to the constant feature if there is one.
    X : ndarray or CSR matrix of shape (n, d) or (n, d - 1)
        Records without their constant feature.
    constant : float
        The constant feature; 0 for none.

    Returns
    -------
    ndarray of shape (n, K)
    """
    rows = _rows(X, constant)
    out = np.empty((rows.n_rows, theta.shape[0]))
    rows.logits(0, rows.n_rows, np.ascontiguousarray(theta, dtype=np.float64), out)
    return out


def logistic_loss(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0, *, margin: float = 0.0
) -> float:
    """Logistic loss of two classes, summed over records; ``theta`` has shape (1, d)."""
    return float(_one_pass(_logistic_pointwise, theta, X, codes, constant, 0, float(margin))[0])


def logistic_gradient(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0, *, margin: float = 0.0
) -> tuple[float, np.ndarray]:
    """Logistic loss and its gradient, of the shape of ``theta``."""
    return _one_pass(_logistic_pointwise, theta, X, codes, constant, 1, float(margin))[:2]


def logistic_hessian(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0, *, margin: float = 0.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """Logistic loss, gradient and Hessian, the last of shape (d, d)."""
    return _one_pass(_logistic_pointwise, theta, X, codes, constant, 2, float(margin))


def softmax_loss(theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0) -> float:
    """Multinomial logistic loss, summed over records; ``theta`` has shape (K, d)."""
    return float(_one_pass(_softmax_pointwise, theta, X, codes, constant, 0)[0])


def softmax_gradient(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0
) -> tuple[float, np.ndarray]:
    """Multinomial logistic loss and its gradient, of the shape of ``theta``."""
    return _one_pass(_softmax_pointwise, theta, X, codes, constant, 1)[:2]


def softmax_hessian(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """Multinomial logistic loss, gradient and Hessian, the last of shape (K d, K d)."""
    return _one_pass(_softmax_pointwise, theta, X, codes, constant, 2)


def smooth_hinge_loss(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0, *, width: float
) -> float:
    """Huberized hinge loss of two classes, quadratic over ``width``; ``theta`` has shape (1, d)."""
    return float(_one_pass(_smooth_hinge_pointwise, theta, X, codes, constant, 0, width)[0])


def smooth_hinge_gradient(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0, *, width: float
) -> tuple[float, np.ndarray]:
    """Huberized hinge loss and its gradient, of the shape of ``theta``."""
    return _one_pass(_smooth_hinge_pointwise, theta, X, codes, constant, 1, width)[:2]


def smooth_hinge_hessian(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0, *, width: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Huberized hinge loss, gradient and (generalized) Hessian, the last of shape (d, d)."""
    return _one_pass(_smooth_hinge_pointwise, theta, X, codes, constant, 2, width)
