"""Released coefficients of a linear classifier: predictions, draws, intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils.extmath import safe_sparse_dot

from skdpbayes.fitting.bounds import Bound


def split_coefficients(
    table: np.ndarray, n_features: int, constant: float
) -> dict[str, np.ndarray]:
    """Split (..., K, d [+ 1]) into coefficients (..., K, d) and intercepts (..., K).

    The intercept is the coefficient of a constant feature, if there is one (not 0).
    """
    coef = np.ascontiguousarray(table[..., :n_features])
    if constant == 0.0:
        return {"coef": coef, "intercept": np.zeros(table.shape[:-1])}
    return {"coef": coef, "intercept": constant * table[..., n_features]}


def mean_probabilities(logits: np.ndarray) -> np.ndarray:
    """Average the probabilities of draws; logits (S, n, K) with K = 1 for two classes.

    Both of two probabilities are accurate, however small, in single precision, too.
    """
    if logits.shape[2] > 1:
        return softmax(logits, axis=2).mean(axis=0)
    largest = 80.0 if logits.dtype == np.float32 else 700.0  # its exponential is a number
    positive = np.clip(logits[:, :, 0], -largest, largest)
    np.exp(positive, out=positive)
    negative = 1.0 / (1.0 + positive)
    positive *= negative
    each = np.ones(positive.shape[0], dtype=positive.dtype)
    table = np.column_stack([each @ negative, each @ positive]).astype(np.float64)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def mean_scores(logits: np.ndarray) -> np.ndarray:
    """Logits of a single draw; otherwise log-odds or logarithms of the mean probabilities."""
    if logits.shape[0] == 1:
        return logits[0, :, 0] if logits.shape[2] == 1 else logits[0]
    probability = np.clip(mean_probabilities(logits), np.finfo(float).tiny, None)
    if probability.shape[1] == 2:
        return np.log(probability[:, 1]) - np.log(probability[:, 0])
    return np.log(probability)


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """Coefficients (S, K, d) and intercepts (S, K) that predictions average over.

    Estimators wrap one of these, or derive from it, and add what else they released.
    """

    coef: np.ndarray
    intercept: np.ndarray
    bound: Bound

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return self.coef.shape[0] * self.coef.shape[1] + self.coef.shape[2]

    def attributes(self) -> dict[str, Any]:
        """Means of the draws."""
        return {"coef_": self.coef.mean(axis=0), "intercept_": self.intercept.mean(axis=0)}

    def logits(self, X: Any) -> np.ndarray:
        """Logits of every draw, shape (S, n, K) with K = 1 for two classes.

        Averages over draws of rows in single precision are computed in it.
        """
        n_draws, n_outputs, n_features = self.coef.shape
        dtype = X.dtype if n_draws > 1 else self.coef.dtype
        flat = self.coef.reshape(n_draws * n_outputs, n_features).astype(dtype, copy=False)
        logits = safe_sparse_dot(self.bound(X), flat.T, dense_output=True)
        logits = logits.reshape(X.shape[0], n_draws, n_outputs)
        logits += self.intercept.astype(dtype, copy=False)
        return np.moveaxis(logits, 1, 0)

    def probabilities(self, X: Any) -> np.ndarray:
        """Probabilities averaged over the draws, shape (n, n_classes)."""
        return mean_probabilities(self.logits(X))

    def decision(self, X: Any) -> np.ndarray:
        """Linear scores of a single draw; otherwise logits or logarithms of probabilities."""
        return mean_scores(self.logits(X))
