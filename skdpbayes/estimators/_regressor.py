"""Regressors: how they are fitted and how they predict, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from skdpbayes._validation import (
    check_flag,
    check_integer,
    check_is_fitted,
    check_real,
    check_target_bounds,
    probe,
    validate_data,
)
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import Numbers, by_chunks, is_chunked, read_chunks
from skdpbayes.fitting.estimator import (
    NOT_PRIVATE,
    FitPlan,
    PrivateEstimator,
    noise_is_small,
    refuse_arguments,
)
from skdpbayes.fitting.records import Public, Records, scored_by_blocks
from skdpbayes.privacy.guarantee import Unit, check_unit


@dataclass(frozen=True)
class TargetScale:
    """A public map of the target's bounds into [-1, 1]: y to (y - middle) / half."""

    low: float
    high: float
    middle: float
    half: float

    @classmethod
    def from_bounds(cls, bounds: Any, *, centered: bool) -> TargetScale:
        """Check the parameter ``target_bounds``.

        A model without an intercept goes through 0, so that there 0 stays where it is.
        """
        low, high = check_target_bounds(bounds)
        if centered:
            return cls(low, high, 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low)
        return cls(low, high, 0.0, max(abs(low), abs(high)))

    def __call__(self, target: np.ndarray, *, clip: bool) -> np.ndarray:
        """Map targets into [-1, 1]; those outside the bounds to their ends, or beyond."""
        if not clip:
            return (target - self.middle) / self.half
        inside = np.clip(target, self.low, self.high)
        return np.clip((inside - self.middle) / self.half, -1.0, 1.0)  # rounding may have passed


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """A private estimator that is a regressor.

    Its posterior has ``mean(X)`` and ``deviation(X)``, expectation and standard deviation of a new
    target; both take one validated block of rows and bound it themselves.
    """

    target_bounds: Any
    fit_intercept: bool
    _table_checks: ClassVar[dict[str, Any]] = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "order": "C",
    }

    def fit(self, X: Any, y: Any, units: Any = None, **unknown: Any) -> Self:
        """Fit the model and spend the budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Targets; those outside ``target_bounds`` are clipped to them.
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
        return self._fit(X, y, units=units)

    def plan(self, n_samples: int, n_features: int, *, unit: Unit = "record") -> FitPlan:
        """Say what a fit of this size would claim and add, without data.

        Parameters
        ----------
        n_samples : int
            Number of records.
        n_features : int
            Number of features.
        unit : {"record", "person"}, default="record"
            "person" for a fit with ``units``; ``n_samples`` is then the number of persons.

        Returns
        -------
        FitPlan
            The claim and the public numbers of the fit; ``print`` it.
        """
        n_samples = check_integer("n_samples", n_samples, low=1)
        n_features = check_integer("n_features", n_features, low=1)
        return self._planned(Public(n_samples, n_features, unit=check_unit(unit)))

    def _read(self, X: Any, y: Any) -> Any:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        scale, bound = self._target_scale(), self._bound()
        clip = bool(np.isfinite(self.epsilon))
        checks = self._table_checks | {"y_numeric": True}
        if is_chunked(X) or is_chunked(y):
            numbers = self._numbers(partial(scale, clip=clip))
            return read_chunks(self, X, y, bound=bound, target=numbers, **checks)
        reader = probe(self)
        X, y = validate_data(reader, X, y, **checks)
        names = getattr(reader, "feature_names_in_", None)
        public = Public(X.shape[0], X.shape[1], names=names)
        target = scale(np.asarray(y, dtype=np.float64), clip=clip)
        return Records(public, X, target, bound)

    def _numbers(self, scale: Callable[[np.ndarray], np.ndarray]) -> Numbers:
        """Targets in chunks, with what more is asked of them than of numbers."""
        return Numbers(scale)

    def _target_scale(self) -> TargetScale:
        centered = check_flag("fit_intercept", self.fit_intercept)
        return TargetScale.from_bounds(self.target_bounds, centered=centered)

    def _bound(self) -> Bound:
        """How rows are bounded; without privacy they are not."""
        raise NotImplementedError

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the target of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows; they are bounded as in ``fit``.
        return_std : bool, default=False
            Whether to return the standard deviation of a new target as well: what is not known of
            the coefficients, the noise of the mechanism included, and the model's errors.

        Returns
        -------
        ndarray of shape (n_samples,), or two of them
            Expectations and, if asked for, standard deviations.
        """
        check_is_fitted(self)
        if is_chunked(X):
            mean = by_chunks(self, "predict", X)
            return (mean, by_chunks(self, "_deviation", X)) if return_std else mean
        X = validate_data(self, X, reset=False, **self._table_checks)
        found, size = self._posterior, self._posterior.numbers_per_row
        mean = scored_by_blocks(found.mean, X, size)
        return (mean, scored_by_blocks(found.deviation, X, size)) if return_std else mean

    def _deviation(self, X: Any) -> np.ndarray:
        return self.predict(X, return_std=True)[1]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = not noise_is_small(self.epsilon)
        return tags
