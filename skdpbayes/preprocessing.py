"""Transformers that learn nothing from the data, and so cost no privacy budget.

A private estimator bounds what one record can do. Everything a pipeline does before it must keep
that bound, so each output row may depend on its own input row and on public numbers only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import FLOAT_DTYPES, check_array, check_is_fitted, validate_data

from skdpbayes._validation import check_flag, check_real, clip_rows

__all__ = ["BoundsScaler", "RowNormClipper"]


class RowNormClipper(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Scale rows that are longer than ``norm`` down to it.

    .. math:: x \mapsto x \cdot \min(1, \text{norm} / \lVert x \rVert_2)

    Shorter rows are returned unchanged. An output row depends on its own input row and on ``norm``
    only, so the transformer costs no budget; the number of rows that were clipped is not kept.
    Clipped rows end a few units of rounding below ``norm``, so that ``norm`` holds in exact
    arithmetic and clipping twice is the same as clipping once.

    Parameters
    ----------
    norm : float, default=1.0
        Public bound on the L2 norm of a row, > 0. Choose it without looking at the data. It is
        the ``data_norm`` of the estimator that follows.
    copy : bool, default=True
        False clips in place where the input allows it (a float array or CSR matrix).

    Attributes
    ----------
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names seen by ``fit``, if the input had any.

    See Also
    --------
    BoundsScaler : Map public bounds of each column to a common range.

    Examples
    --------
    >>> from skdpbayes.preprocessing import RowNormClipper
    >>> RowNormClipper(norm=1.0).fit_transform([[3.0, 4.0], [0.3, 0.4]]).round(6)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """

    def __init__(self, norm: float = 1.0, *, copy: bool = True) -> None:
        self.norm = norm
        self.copy = copy

    def fit(self, X: Any, y: Any = None) -> RowNormClipper:
        """Check the parameters and the number of columns; nothing is learned.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Read for its shape and column names.
        y : None
            Ignored.

        Returns
        -------
        self : RowNormClipper
        """
        self._checked_norm()
        validate_data(self, X, accept_sparse="csr", dtype=FLOAT_DTYPES)
        return self

    def transform(self, X: Any) -> Any:
        """Clip the rows of ``X``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse input is converted to CSR and stays sparse.

        Returns
        -------
        X_out : {ndarray, CSR matrix} of shape (n_samples, n_features)
        """
        norm = self._checked_norm()
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=FLOAT_DTYPES,
            copy=self.copy,
            force_writeable=True,
            reset=False,
        )
        return clip_rows(X, norm, copy=False)  # a copy was made above if one is wanted

    def _checked_norm(self) -> float:
        return check_real("norm", self.norm, low=0.0, high=np.inf, closed="neither")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class BoundsScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Map the public bounds of each column to a common range and clip what lies outside.

    A column with public bounds :math:`[l, h]` goes to ``feature_range`` :math:`[a, b]` by
    :math:`x \mapsto a + (b - a)(x - l)/(h - l)`. This is the private counterpart of
    :class:`~sklearn.preprocessing.MinMaxScaler`, which would publish the smallest and the largest
    value of every column. Bounds come from a codebook, the law or common sense, never from the
    data: the transformer costs no budget.

    Parameters
    ----------
    bounds : (low, high), array-like of shape (n_features, 2), or mapping
        Public bounds: one pair for all columns, one pair for each column, or a mapping from column
        name to pair for data frames (entries for other columns are ignored). Finite, low < high.
        There is no default that would be safe: ``None`` is an error when ``fit`` is called.
    feature_range : (float, float), default=(-1.0, 1.0)
        The range to map to.
    clip : bool, default=True
        Clip values outside the bounds to them. With False, such values land outside
        ``feature_range`` and whatever follows has to bound them.
    unit_norm : bool, default=False
        Divide the result by :math:`\sqrt{d}\,\max(|a|, |b|)`, ``d`` the number of columns, so that
        every row has L2 norm at most 1 without any clipping of rows. Needs ``clip=True``.
        Usually rows are much shorter than this worst case, and :class:`RowNormClipper` loses less.
    copy : bool, default=True
        False scales in place where the input allows it.

    Attributes
    ----------
    bounds_ : ndarray of shape (n_features, 2)
        The public bounds in column order.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names seen by ``fit``, if the input had any.

    Examples
    --------
    >>> from skdpbayes.preprocessing import BoundsScaler
    >>> scaler = BoundsScaler([(0, 100), (0, 1)])
    >>> scaler.fit_transform([[25.0, 0.5], [180.0, 1.0]])
    array([[-0.5,  0. ],
           [ 1. ,  1. ]])
    >>> scaler.inverse_transform([[-0.5, 0.0]])
    array([[25. ,  0.5]])
    """

    def __init__(
        self,
        bounds: Any = None,
        *,
        feature_range: tuple[float, float] = (-1.0, 1.0),
        clip: bool = True,
        unit_norm: bool = False,
        copy: bool = True,
    ) -> None:
        self.bounds = bounds
        self.feature_range = feature_range
        self.clip = clip
        self.unit_norm = unit_norm
        self.copy = copy

    def fit(self, X: Any, y: Any = None) -> BoundsScaler:
        """Match the bounds with the columns; nothing is learned from the values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Read for its shape and column names.
        y : None
            Ignored.

        Returns
        -------
        self : BoundsScaler
        """
        self._checked_range()
        validate_data(self, X, dtype=FLOAT_DTYPES)
        names = getattr(self, "feature_names_in_", None)
        self.bounds_ = _resolve_bounds(self.bounds, self.n_features_in_, names)
        return self

    def transform(self, X: Any) -> Any:
        """Scale the columns of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values in the units of ``bounds``.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        start, stop = self._checked_range()
        X = validate_data(
            self, X, dtype=FLOAT_DTYPES, copy=self.copy, force_writeable=True, reset=False
        )
        low, high = self.bounds_.T.astype(X.dtype)
        if self.clip:
            np.clip(X, low, high, out=X)
        X -= low
        X /= high - low
        X *= stop - start
        X += start
        if self.clip:
            np.clip(X, start, stop, out=X)  # rounding may have passed the ends
        X *= self._norm_factor(X.dtype)
        return X

    def inverse_transform(self, X: Any) -> Any:
        """Return to the original units.

        Inverts ``transform`` for values inside the bounds; what was clipped comes back as the
        bound.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Scaled values.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        start, stop = self._checked_range()
        X = check_array(X, dtype=FLOAT_DTYPES, copy=self.copy, force_writeable=True)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} columns, expected {self.n_features_in_}")
        low, high = self.bounds_.T.astype(X.dtype)
        X /= self._norm_factor(X.dtype)
        X -= start
        X /= stop - start
        X *= high - low
        X += low
        return X

    def _checked_range(self) -> tuple[float, float]:
        pair = np.asarray(self.feature_range)
        if pair.shape != (2,) or pair.dtype.kind not in "iuf":
            raise ValueError(f"feature_range must be a pair of numbers, got {self.feature_range!r}")
        start, stop = (float(v) for v in pair)
        if not -np.inf < start < stop < np.inf:
            raise ValueError(f"feature_range must be finite and rising, got {self.feature_range!r}")
        if check_flag("unit_norm", self.unit_norm) and not check_flag("clip", self.clip):
            raise ValueError("unit_norm=True bounds the rows only with clip=True, got clip=False")
        return start, stop

    def _norm_factor(self, dtype: Any) -> float:
        if not self.unit_norm:
            return 1.0
        start, stop = self._checked_range()
        d = self.n_features_in_
        worst = max(abs(start), abs(stop)) * float(np.sqrt(d))
        rounding = (d + 8) * np.finfo(np.float64).eps + 4 * np.finfo(dtype).eps
        return (1.0 - float(rounding)) / worst  # the bound holds in exact arithmetic

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _resolve_bounds(bounds: Any, n_features: int, names: np.ndarray | None) -> np.ndarray:
    """Return the public bounds as an array (n_features, 2) in column order."""
    if bounds is None:
        raise ValueError(
            "bounds is required: the public (low, high) of each column, as one pair, an array of "
            "shape (n_features, 2) or a mapping from column name to pair. Bounds are never "
            "learned from the data, because the extremes of a column reveal single records"
        )
    if isinstance(bounds, Mapping):
        if names is None:
            raise ValueError(
                "bounds is a mapping from column names, but X has no column names; pass a "
                "DataFrame, or bounds as an array of shape (n_features, 2)"
            )
        missing = [name for name in names if name not in bounds]
        if missing:
            raise ValueError(f"bounds has no entry for the columns {missing}")
        bounds = [bounds[name] for name in names]
    try:
        array = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"bounds must hold pairs (low, high) of numbers, got {bounds!r}"
        ) from error
    if array.shape == (2,):
        array = np.tile(array, (n_features, 1))
    if array.shape != (n_features, 2):
        raise ValueError(
            f"bounds must be one (low, high) pair or an array of shape ({n_features}, 2), got an "
            f"array of shape {array.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(array).all(axis=1) & (array[:, 0] < array[:, 1])))
    if bad.size:
        column = bad[0] if names is None else repr(names[bad[0]])
        low, high = array[bad[0]]
        raise ValueError(
            f"bounds of column {column} must be finite with low < high, got ({low}, {high})"
        )
    return array
