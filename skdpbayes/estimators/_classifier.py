"""Classifiers: how they are fitted and how they predict, block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from skdpbayes._validation import (
    check_classes,
    check_integer,
    check_is_fitted,
    check_real,
    validate_data,
)
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import by_chunks, is_chunked
from skdpbayes.fitting.estimator import (
    BALANCED,
    FitPlan,
    PrivateEstimator,
    noise_is_small,
    refuse_arguments,
)
from skdpbayes.fitting.records import Public, Records, read_table, scored_by_blocks
from skdpbayes.fitting.units import WHOLE
from skdpbayes.privacy.guarantee import Unit, check_unit


def _has_likelihood(estimator: PrivateClassifier) -> bool:
    """Tell whether the loss is a likelihood; scikit-learn asks before there is a fit."""
    return estimator._likelihood


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """A private estimator that is a classifier.

    Its posterior has ``decision(X)``, the scores by which labels are decided, and, if the loss is a
    likelihood, ``probabilities(X)``; both take one validated block of rows and bound it themselves.
    """

    classes: Any
    class_weight: Any = None
    _likelihood = True
    _table_checks: ClassVar[dict[str, Any]] = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "order": "C",
        "accept_large_sparse": False,
    }

    # not sample_weight by name: scikit-learn would take that for support, and pass weights
    def fit(self, X: Any, y: Any, units: Any = None, **unknown: Any) -> Self:
        """Fit the model and spend the budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels.
        units : array-like of shape (n_samples,), default=None
            Whose record each row is: any hashable ids. All records of one person are then protected
            together, the model weighs every person once, and the number of persons is public
            while the number of records is not. None: every record is a unit of its own.
        **unknown
            Refused; for ``sample_weight`` the error says what to do instead.

        Returns
        -------
        self
            The fitted estimator.
        """
        refuse_arguments(self, unknown)
        if self.class_weight is not None and (units is not None or is_chunked(X)):
            raise ValueError(
                "class_weight is for records in memory: with units the weights of a person's "
                "records are taken already. Leave it out, and move the threshold on predict_proba."
            )
        return self._fit(X, y, units=units)

    def plan(
        self, n_samples: int, n_features: int, *, classes: Any = None, unit: Unit = "record"
    ) -> FitPlan:
        """Say what a fit of this size would claim and add, without data.

        Parameters
        ----------
        n_samples : int
            Number of records.
        n_features : int
            Number of features.
        classes : array-like or int, default=None
            The label set or its size; None takes the parameter ``classes``, or two labels.
        unit : {"record", "person"}, default="record"
            "person" for a fit with ``units``; ``n_samples`` is then the number of persons.

        Returns
        -------
        FitPlan
            The claim and the public numbers of the fit; ``print`` it.
        """
        labels = check_classes(self.classes if classes is None else classes)
        n_samples = check_integer("n_samples", n_samples, low=1)
        n_features = check_integer("n_features", n_features, low=1)
        return self._planned(Public(n_samples, n_features, labels, unit=check_unit(unit)))

    def _read(self, X: Any, y: Any) -> Records:
        bound = self._bound()
        rows = read_table(self, X, y, bound=bound, classes=self.classes, **self._table_checks)
        if self.class_weight is None:
            return rows
        return replace(rows, weight=_class_weights(self.class_weight, rows.public)[rows.target])

    def _bound(self) -> Bound:
        """How rows are bounded; without privacy they are not."""
        raise NotImplementedError

    def _by_blocks(self, score: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
        """Validate the rows once and score them block by block."""
        X = validate_data(self, X, reset=False, **self._table_checks)
        return scored_by_blocks(score, X, self._posterior.numbers_per_row)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds (two classes) or per-class scores by which ``predict`` decides.

        Of a single coefficient vector these are the linear scores; of several posterior draws, the
        logit (two classes) or logarithm of the probabilities averaged over the draws.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to score; they are bounded as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        check_is_fitted(self)
        if is_chunked(X):
            return by_chunks(self, "decision_function", X)
        return self._by_blocks(self._posterior.decision, X)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify; they are bounded as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        if is_chunked(X):
            return by_chunks(self, "predict", X)
        scores = self.decision_function(X)
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]

    @available_if(_has_likelihood)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, averaged over the draws where several were released.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify; they are bounded as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        if is_chunked(X):
            return by_chunks(self, "predict_proba", X)
        return self._by_blocks(self._posterior.probabilities, X)

    @available_if(_has_likelihood)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of ``predict_proba``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify; they are bounded as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        if is_chunked(X):
            return by_chunks(self, "predict_log_proba", X)
        return np.log(np.clip(self.predict_proba(X), np.finfo(float).tiny, None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._table_checks["accept_sparse"] is not False
        tags.classifier_tags.poor_score = not noise_is_small(self.epsilon)
        return tags


def _class_weights(class_weight: Any, public: Public) -> np.ndarray:
    """Return the weight of every class: numbers over the largest, in steps of 1 / `WHOLE`."""
    labels = np.asarray(public.classes).tolist()
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"class_weight must map each label to a public number. {BALANCED}")
    if set(class_weight) != set(labels):
        raise ValueError(f"class_weight must have the labels {labels}; got {list(class_weight)}.")
    given = np.array(
        [
            check_real(f"class_weight[{c!r}]", class_weight[c], low=0.0, high=np.inf, closed="low")
            for c in labels
        ]
    )
    if not given.max() > 0.0:
        raise ValueError(f"class_weight must have a positive number; got {class_weight!r}.")
    return np.asarray(np.maximum(np.floor(given / given.max() * WHOLE), 1.0) / WHOLE)
