"""Linear classifiers that predict by averaging over released coefficient draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.utils.extmath import safe_sparse_dot

from skdpbayes._validation import (
    check_flag,
    check_is_fitted,
    check_scale,
    clip_rows,
    encode_labels,
    validate_data,
)
from skdpbayes.estimators._base import PrivateClassifier

__all__ = ["PrivateLinearClassifier"]


class PrivateLinearClassifier(PrivateClassifier):
    """Shared steps of the linear classifiers: validation, clipping, release, prediction.

    The intercept is the coefficient of a constant feature ``intercept_scaling``, penalized like the
    others, so one record's augmented norm is ``sqrt(data_norm**2 + intercept_scaling**2)``.

    Training rows are kept without the constant column; kernels are told ``intercept_scaling``
    (0 for no intercept) instead, so no augmented copy of ``X`` is made.
    """

    data_norm: float
    classes: Any
    fit_intercept: bool
    intercept_scaling: float

    def _validate_training(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Step 1: check shapes, types and shared parameters; return X and label codes."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, order="C", accept_large_sparse=False
        )
        self._check_privacy_parameters(X.shape[0])
        check_scale("data_norm", self.data_norm)
        check_flag("fit_intercept", self.fit_intercept)
        check_scale("intercept_scaling", self.intercept_scaling)
        self.classes_, codes = encode_labels(y, self.classes, estimator=type(self).__name__)
        return X, codes

    def _bound_rows(self, X: Any) -> Any:
        """Step 2: no row is longer than ``data_norm`` (a copy is made only if one is)."""
        return clip_rows(X, float(self.data_norm))

    @property
    def _constant_feature(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    @property
    def _record_norm(self) -> float:
        """Public bound on the norm of a record with its constant feature."""
        return float(np.hypot(self.data_norm, self._constant_feature))

    def _store_draws(self, draws: np.ndarray) -> None:
        """Keep released draws of shape (S, K, d [+ 1]) as ``coef_`` and ``intercept_``.

        ``coef_`` is the mean of the draws; the draws themselves answer ``sample_posterior`` and
        ``predict_proba``.
        """
        n_features = self.n_features_in_
        self._coef_draws = np.ascontiguousarray(draws[:, :, :n_features])
        if self.fit_intercept:
            self._intercept_draws = self.intercept_scaling * draws[:, :, n_features]
        else:
            self._intercept_draws = np.zeros(draws.shape[:2])
        self.coef_ = self._coef_draws.mean(axis=0)
        self.intercept_ = self._intercept_draws.mean(axis=0)

    def _draw_logits(self, X: Any) -> np.ndarray:
        """Logits of every draw, shape (S, n, K) with K = 1 for two classes."""
        n_draws, n_outputs, n_features = self._coef_draws.shape
        flat = self._coef_draws.reshape(n_draws * n_outputs, n_features)
        logits = safe_sparse_dot(X, flat.T, dense_output=True)
        logits = logits.reshape(X.shape[0], n_draws, n_outputs) + self._intercept_draws
        return np.moveaxis(logits, 1, 0)

    def _check_test_data(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _mean_probability(self, X: Any) -> np.ndarray:
        """Posterior predictive probabilities, averaged over the released draws."""
        logits = self._draw_logits(self._check_test_data(X))
        if logits.shape[2] == 1:
            positive = expit(logits[:, :, 0]).mean(axis=0)
            return np.column_stack([1.0 - positive, positive])
        return softmax(logits, axis=2).mean(axis=0)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds (two classes) or per-class scores of the posterior predictive.

        With a single draw these are the linear scores ``X @ coef_.T + intercept_``; with several,
        the logit (two classes) or logarithm of the probabilities averaged over the draws, by which
        ``predict`` decides.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        X = self._check_test_data(X)
        if self._coef_draws.shape[0] == 1:
            scores = self._draw_logits(X)[0]
            return scores[:, 0] if scores.shape[1] == 1 else scores
        probability = np.clip(self._mean_probability(X), np.finfo(float).tiny, None)
        if probability.shape[1] == 2:
            return np.log(probability[:, 1]) - np.log(probability[:, 0])
        return np.log(probability)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ProbabilisticLinearClassifier(PrivateLinearClassifier):
    """A linear classifier whose loss is a likelihood, so that its draws give probabilities."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, averaged over the draws where several were released.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._mean_probability(X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of ``predict_proba``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(np.clip(self.predict_proba(X), np.finfo(float).tiny, None))
