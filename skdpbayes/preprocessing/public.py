"""Transformers that learn nothing from the data, and so cost no privacy budget.

A private estimator bounds what one record can do. Everything a pipeline does before it must keep
that bound, so each output row may depend on its own input row and on public numbers only.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, gen_batches
from sklearn.utils.validation import FLOAT_DTYPES, check_array, check_is_fitted, validate_data

from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_real,
    check_scale,
    clip_rows,
)
from skdpbayes.fitting.chunks import by_chunks, example_of, is_chunked, one_row

_LARGEST = 1e30  # of a scaled value: its squares and single precision copies stay finite


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
        X = one_row(X) if is_chunked(X) else X
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
        if is_chunked(X):
            return by_chunks(self, "transform", X)
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
        name to pair for data frames. Finite, low < high. A mapping has one entry for every column
        and no other: a name that is not a column is an error. There is no default that would be
        safe: ``None`` is an error when ``fit`` is called.
    feature_range : (float, float), default=(-1.0, 1.0)
        The range to map to; at most 1e30 in size.
    clip : bool, default=True
        Clip values outside the bounds to them. With False, such values land outside
        ``feature_range`` and whatever follows has to bound them.
    norm : float or None, default=None
        A public length that no row exceeds: the result is multiplied by the constant
        :math:`\text{norm} / (\sqrt{d}\,\max(|a|, |b|))`, *d* the number of columns. It is the
        ``data_norm`` of the estimator that follows, which then has nothing to cut, so that
        its coefficients are those of the columns as they are. None leaves ``feature_range`` as it
        is. Needs ``clip=True``.
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

    See Also
    --------
    private_preprocessor : Numbers, categories and missing values of a table in one call.

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
        norm: float | None = None,
        copy: bool = True,
    ) -> None:
        self.bounds = bounds
        self.feature_range = feature_range
        self.clip = clip
        self.norm = norm
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
        validate_data(self, one_row(X) if is_chunked(X) else X, dtype=FLOAT_DTYPES)
        names = getattr(self, "feature_names_in_", None)
        self.bounds_ = resolve_bounds(self.bounds, self.n_features_in_, names)
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
        if is_chunked(X):
            return by_chunks(self, "transform", X)
        X = validate_data(
            self, X, dtype=FLOAT_DTYPES, copy=self.copy, force_writeable=True, reset=False
        )
        low, high = self.bounds_.T
        factor = self._norm_factor(X.dtype)
        for rows in _row_blocks(X):
            share = X[rows].astype(np.float64)
            if self.clip:
                np.clip(share, low, high, out=share)
            share = share_of_range(share, low, high)
            scaled = start * (1.0 - share) + stop * share
            if self.clip:
                np.clip(scaled, start, stop, out=scaled)  # rounding may have passed the ends
            X[rows] = _fitting(scaled * factor, X.dtype)
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
        low, high = self.bounds_.T
        factor = self._norm_factor(X.dtype)
        for rows in _row_blocks(X):
            share = share_of_range(X[rows].astype(np.float64) / factor, start, stop)
            X[rows] = _fitting(low * (1.0 - share) + high * share, X.dtype)
        return X

    def coef_in_units(self, coef: Any, intercept: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients per unit of the input columns, and the intercept that goes with them.

        ``transform(X) @ coef + intercept`` equals ``X @ coef_in_units + intercept_in_units`` for
        every row inside the bounds.

        Parameters
        ----------
        coef : array-like of shape (..., n_features)
            Coefficients of the scaled columns: one model, several classes or posterior draws.
        intercept : array-like of shape (...), default=0.0
            The intercepts that belong to them.

        Returns
        -------
        coef_in_units : ndarray of shape (..., n_features)
        intercept_in_units : ndarray of shape (...)
        """
        check_is_fitted(self)
        start, stop = self._checked_range()
        factor = self._norm_factor(np.float64)
        low, high = self.bounds_.T
        slope = factor * (stop - start) / (high - low)
        return _in_units(coef, intercept, slope, factor * start - slope * low)

    def _checked_range(self) -> tuple[float, float]:
        pair = np.asarray(self.feature_range)
        if pair.shape != (2,) or pair.dtype.kind not in "iuf":
            raise ValueError(f"feature_range must be a pair of numbers, got {self.feature_range!r}")
        start, stop = (float(v) for v in pair)
        if not -_LARGEST <= start < stop <= _LARGEST:
            raise ValueError(
                "feature_range must be finite and rising, within -1e30 and 1e30, got "
                f"{self.feature_range!r}"
            )
        if self.norm is not None:
            check_scale("norm, unless None,", self.norm)
            if not check_flag("clip", self.clip):
                raise ValueError("norm bounds the rows only with clip=True, got clip=False")
        return start, stop

    def _norm_factor(self, dtype: Any) -> float:
        if self.norm is None:
            return 1.0
        start, stop = self._checked_range()
        return _factor(self.norm, self.n_features_in_, dtype) / max(abs(start), abs(stop))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def private_preprocessor(
    bounds: Any = None,
    categories: Mapping[Any, Any] | None = None,
    *,
    numeric: str = "linear",
    n_knots: int = 4,
    skewed: Collection[Any] = (),
    missing: Collection[Any] = (),
    norm: float = 1.0,
    remainder: str = "error",
    sparse_output: bool = False,
) -> PrivatePreprocessor:
    r"""Prepare a table for a private linear model, from public numbers alone.

    Every input column becomes a block of output columns, and no block is longer than 1:

    ===================================  =========================================================
    input column                         block
    ===================================  =========================================================
    number in ``bounds``, "linear"       one column, :math:`[l, h]` mapped to :math:`[-1, 1]`
    number in ``bounds``, "spline"       ``n_knots`` linear B-splines ("hats") on equally spaced
                                         knots: a linear model of them is a piecewise linear
                                         function of the column, with a corner at every knot
    column in ``categories``             one indicator per listed category
    column that is also in ``missing``   one more indicator, which is 1 where the value is missing
    ===================================  =========================================================

    Values outside the bounds count as the nearest bound. A category that is not listed, and a
    missing value, never raise an error, because an error would tell something about one record:
    their block is 0, apart from the indicator of ``missing``. For a linear number, 0 is the
    middle of its bounds.

    All blocks are multiplied by the public constant :math:`\text{norm}/\sqrt{B}`, *B* the number
    of blocks. So every row is within ``norm``, the ``data_norm`` of the estimator that
    follows, and none has to be cut. An output row depends on its own input row and on the
    parameters only: the transformer costs no budget.

    Parameters
    ----------
    bounds : mapping from column to (low, high), or one pair
        Public bounds of the columns that are numbers. One pair stands for all columns that are not
        in ``categories``. Columns are names for data frames (pandas, polars) and positions
        for arrays.
    categories : mapping from column to sequence
        The public categories of the columns that are not numbers.
    numeric : {"linear", "spline"}, default="linear"
        How numbers enter the model. "linear" keeps coefficients per unit and is the better choice
        for regression; classifiers are mostly more accurate with "spline".
    n_knots : int, default=4
        Number of hats per number, >= 2; without effect for "linear". Set 8 from about 20,000
        records on (by splits of four tables, see the user guide); no rule does, because the number
        of records may be private.
    skewed : collection of columns, default=()
        Numbers that are mapped by :math:`\log(1 + x - l)` before anything else: incomes, amounts,
        durations, whose bounds are much wider than most of their values. The unit of the column
        decides where the logarithm begins to bend.
    missing : collection of columns, default=()
        Columns of either kind in which values may be missing (NaN, None, NA) and where that should
        be a column of its own. Say so from the questionnaire, not from the data.
    norm : float, default=1.0
        Public bound on the L2 norm of an output row, > 0.
    remainder : {"error", "drop"}, default="error"
        What to do with columns that are neither in ``bounds`` nor in ``categories``.
    sparse_output : bool, default=False
        Return a CSR array instead of a dense one.

    Returns
    -------
    preprocessor : PrivatePreprocessor
        A scikit-learn transformer.

    See Also
    --------
    BoundsScaler : Scale numbers only.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpbayes.preprocessing import private_preprocessor
    >>> table = pd.DataFrame({"age": [20.0, 50.0, None], "housing": ["owned", "rented", "boat"]})
    >>> prepare = private_preprocessor(
    ...     bounds={"age": (20, 80)},
    ...     categories={"housing": ["rented", "owned"]},
    ...     missing=["age"],
    ...     norm=2 ** 0.5,
    ... ).set_output(transform="pandas")
    >>> prepare.fit_transform(table).round(6)
       age  age_missing  housing_rented  housing_owned
    0 -1.0          0.0             0.0            1.0
    1  0.0          0.0             1.0            0.0
    2  0.0          1.0             0.0            0.0
    """
    return PrivatePreprocessor(
        bounds,
        categories,
        numeric=numeric,
        n_knots=n_knots,
        skewed=skewed,
        missing=missing,
        norm=norm,
        remainder=remainder,
        sparse_output=sparse_output,
    )


class PrivatePreprocessor(TransformerMixin, BaseEstimator):
    """The transformer that :func:`private_preprocessor` makes; its parameters are described there.

    Output columns follow the order of the input columns. They are named as scikit-learn would name
    them: ``age``, ``age_missing``, ``housing_rented``; hats carry the knot where they are 1,
    ``age_42.5``, and skewed numbers their formula, ``log1p(income)``.

    Parameters
    ----------
    bounds, categories, numeric, n_knots, skewed, missing, norm, remainder, sparse_output
        See :func:`private_preprocessor`.

    Attributes
    ----------
    n_blocks_ : int
        Number of input columns that are used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names seen by ``fit``, if the input had any.
    """

    def __init__(
        self,
        bounds: Any = None,
        categories: Mapping[Any, Any] | None = None,
        *,
        numeric: str = "linear",
        n_knots: int = 4,
        skewed: Collection[Any] = (),
        missing: Collection[Any] = (),
        norm: float = 1.0,
        remainder: str = "error",
        sparse_output: bool = False,
    ) -> None:
        self.bounds = bounds
        self.categories = categories
        self.numeric = numeric
        self.n_knots = n_knots
        self.skewed = skewed
        self.missing = missing
        self.norm = norm
        self.remainder = remainder
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> PrivatePreprocessor:
        """Match the parameters with the columns; nothing is learned from the values.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Read for its shape, column names and column types.
        y : None
            Ignored.

        Returns
        -------
        self : PrivatePreprocessor
        """
        X = _as_table(example_of(X))
        probe = type(self)()  # a fit that is refused leaves this object as it was
        validate_data(probe, X, skip_check_array=True)
        names = getattr(probe, "feature_names_in_", None)
        columns = list(range(probe.n_features_in_)) if names is None else [str(n) for n in names]
        if len(set(columns)) < len(columns):
            raise ValueError(f"the columns of X must have different names, got {columns}")
        blocks = self._resolve_blocks(columns)
        for position, block in blocks.items():
            if isinstance(block, _Category):
                block.check_type(_column(X, position), columns[position])
        constant = _factor(check_scale("norm", self.norm), len(blocks), np.float64)
        self._sparse = check_flag("sparse_output", self.sparse_output)
        validate_data(self, X, skip_check_array=True)
        self._constant = constant
        self._blocks = blocks
        self.n_blocks_ = len(blocks)
        return self

    def transform(self, X: Any) -> Any:
        """Encode the rows of ``X``.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A data frame may have its columns in another order, or more of them.

        Returns
        -------
        X_out : {ndarray, CSR array} of shape (n_samples, n_features_out)
        """
        check_is_fitted(self)
        if is_chunked(X):
            return by_chunks(self, "transform", X, example=example_of(X))
        X = _as_table(X)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            place = {name: position for position, name in enumerate(X.columns)}
            absent = [str(names[k]) for k in self._blocks if names[k] not in place]
            if absent:
                raise ValueError(f"X lacks the columns {absent}, which fit has seen")
            positions = [place[names[k]] for k in self._blocks]
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
            positions, names = list(self._blocks), None
        width = sum(block.width for block in self._blocks.values())
        slots = sum(block.slots for block in self._blocks.values())
        n = X.shape[0]
        if self._sparse:
            places = np.empty((n, slots), dtype=np.int32)
            values = np.empty((n, slots))
        else:
            out, rows = np.zeros((n, width)), np.arange(n)
        start = slot = 0
        for position, block in zip(positions, self._blocks.values(), strict=True):
            name = position if names is None else names[position]
            for place_in_block, value in block.entries(_column(X, position), name):
                if self._sparse:
                    places[:, slot] = start + place_in_block
                    values[:, slot] = self._constant * value
                    slot += 1
                else:
                    out[rows, start + place_in_block] = self._constant * value
            start += block.width
        if not self._sparse:
            return out
        small = n * slots < 2**31  # many libraries take short indices only
        ends = np.arange(n + 1, dtype=np.int32 if small else np.int64) * slots
        matrix = sparse.csr_array((values.ravel(), places.ravel(), ends), shape=(n, width))
        matrix.eliminate_zeros()
        return matrix

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input columns, where ``fit`` saw none; otherwise they must be the same.

        Returns
        -------
        names : ndarray of str objects
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        if input_features is None:
            names = [f"x{k}" for k in range(self.n_features_in_)] if known is None else list(known)
        else:
            names = list(input_features)
            if len(names) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(names)}"
                )
            if known is not None and names != list(known):
                raise ValueError("input_features is not equal to feature_names_in_")
        out = [label for k, block in self._blocks.items() for label in block.labels(str(names[k]))]
        return np.array(out, dtype=object)

    def block_of(self, column: Any) -> tuple[slice, np.ndarray, np.ndarray]:
        """Return the output columns of one input column, and what public values of it become.

        Parameters
        ----------
        column : str or int
            Name of an input column, or its position where they have none.

        Returns
        -------
        places : slice
            Its output columns.
        values : ndarray of shape (n_values,)
            101 numbers from bound to bound, or the categories.
        rows : ndarray of shape (n_values, n_columns)
            The block of each of them.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        used = [names[position] for position in self._blocks]
        _refuse_unknown("column", [column], used)
        start = 0
        for name, block in zip(used, self._blocks.values(), strict=True):
            if name == column:
                break
            start += block.width
        if isinstance(block, _Number):
            values = block.low * (1.0 - (share := np.linspace(0.0, 1.0, 101))) + block.high * share
        else:
            values = np.array(block.categories, dtype=object)
        rows = np.zeros((len(values), block.width))
        for places, entries in block.entries(values, column):
            rows[np.arange(len(values)), places] = self._constant * entries
        return slice(start, start + block.width), values, rows

    def coef_in_units(self, coef: Any, intercept: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients in the units of the input columns, and the intercept beside them.

        The result multiplies what the output columns are named after: for linear numbers the
        column itself (or ``log1p`` of it), so that an entry is an effect per unit; for indicators
        0 or 1, so that it is the effect of that category; for hats the height of the piecewise
        linear function at that knot.

        Parameters
        ----------
        coef : array-like of shape (..., n_features_out)
            Coefficients of the output columns: one model, several classes or posterior draws.
        intercept : array-like of shape (...), default=0.0
            The intercepts that belong to them.

        Returns
        -------
        coef_in_units : ndarray of shape (..., n_features_out)
        intercept_in_units : ndarray of shape (...)
            Unchanged with ``numeric="spline"``; otherwise for numbers that are 0 instead of in the
            middle of their bounds. Of a column in ``missing``, the effect of its indicator is that
            of a missing value beside one in the middle of the bounds.
        """
        check_is_fitted(self)
        maps = [block.map_to_output() for block in self._blocks.values()]
        slope = self._constant * np.concatenate([slope for slope, _ in maps])
        shift = self._constant * np.concatenate([shift for _, shift in maps])
        return _in_units(coef, intercept, slope, shift)

    def _resolve_blocks(self, columns: list[Any]) -> dict[int, _Number | _Category]:
        """Return the block of every input column that is used, by position."""
        check_choice("numeric", self.numeric, ("linear", "spline"))
        check_choice("remainder", self.remainder, ("error", "drop"))
        n_knots = check_integer("n_knots", self.n_knots, low=2) if self.numeric == "spline" else 0
        categories = {} if self.categories is None else self.categories
        if not isinstance(categories, Mapping):
            raise TypeError(
                "categories must be a mapping from column to the sequence of its public "
                f"categories, got {categories!r}"
            )
        bounds = {} if self.bounds is None else self.bounds
        if not isinstance(bounds, Mapping):
            bounds = {column: bounds for column in columns if column not in categories}
        declared = {**bounds, **categories}
        if not declared:
            raise ValueError(
                "private_preprocessor needs bounds={column: (low, high)} for numbers and "
                "categories={column: [...]} for the rest: neither is ever learned from the data"
            )
        for parameter, given in (("bounds", bounds), ("categories", categories)):
            _refuse_unknown(parameter, given, columns)
        both = [column for column in bounds if column in categories]
        if both:
            raise ValueError(f"the columns {both} are in bounds and in categories: choose one")
        for parameter, named in (("skewed", self.skewed), ("missing", self.missing)):
            if isinstance(named, str):
                raise TypeError(f"{parameter} must be a collection of columns, got {named!r}")
            _refuse_unknown(parameter, named, bounds if parameter == "skewed" else declared)
        undeclared = [column for column in columns if column not in declared]
        if undeclared and self.remainder == "error":
            raise ValueError(
                f"nothing is public about the columns {undeclared}: add numbers to bounds, other "
                'columns to categories, or leave all such columns out with remainder="drop"'
            )
        blocks: dict[int, _Number | _Category] = {}
        for position, column in enumerate(columns):
            if column in bounds:
                low, high = resolve_bounds(bounds[column], 1, np.array([column], dtype=object))[0]
                log = column in self.skewed
                blocks[position] = _Number(low, high, log, n_knots, column in self.missing)
            elif column in categories:
                labels = _check_categories(column, categories[column])
                blocks[position] = _Category(labels, column in self.missing)
        return blocks

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags


@dataclass(frozen=True)
class _Number:
    """One numeric column: linear, or hats if ``n_knots`` is not 0."""

    low: float
    high: float
    log: bool
    n_knots: int
    missing: bool

    @property
    def width(self) -> int:
        """Number of output columns."""
        return max(self.n_knots, 1) + self.missing

    @property
    def slots(self) -> int:
        """Number of output columns that can differ from 0 in the same row."""
        return 2 if self.n_knots else 1

    def entries(self, column: Any, name: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield places in the block, different ones per row, and the values there."""
        values = _as_numbers(column, name)
        absent = np.isnan(values)
        values = np.clip(np.where(absent, self.low, values), self.low, self.high)
        if self.log:
            share = np.log1p(values - self.low) / np.log1p(self.high - self.low)
        else:
            share = share_of_range(values, self.low, self.high)
        share = np.clip(share, 0.0, 1.0)
        indicated = float(self.missing)  # the value where one is missing
        last = self.width - 1
        if not self.n_knots:
            yield (
                np.where(absent, last, 0),
                np.where(absent, indicated, 2.0 * share - 1.0),
            )
            return
        position = share * (self.n_knots - 1)
        left = np.minimum(position.astype(np.intp), self.n_knots - 2)
        weight = position - left
        yield np.where(absent, 0, left), np.where(absent, 0.0, 1.0 - weight)
        yield np.where(absent, last, left + 1), np.where(absent, indicated, weight)

    def labels(self, name: str) -> list[str]:
        """Return the names of the output columns."""
        if self.n_knots:
            labels = [f"{name}_{knot}" for knot in _distinct_numbers(self.knots())]
        elif self.log:
            shift = "" if self.low == 0 else f" {'-' if self.low > 0 else '+'} {abs(self.low):g}"
            labels = [f"log1p({name}{shift})"]
        else:
            labels = [name]
        return labels + [f"{name}_missing"] * self.missing

    def knots(self) -> np.ndarray:
        """Return the public places where the hats are 1, in the units of the column."""
        share = np.linspace(0.0, 1.0, self.n_knots)
        if self.log:
            return self.low + np.expm1(share * np.log1p(self.high - self.low))
        return self.low * (1.0 - share) + self.high * share

    def map_to_output(self) -> tuple[np.ndarray, np.ndarray]:
        """Return slope and shift of every output column as a function of what it is named after."""
        slope, shift = np.ones(self.width), np.zeros(self.width)
        if not self.n_knots:
            low, high = (0.0, np.log1p(self.high - self.low)) if self.log else (self.low, self.high)
            slope[0] = 2.0 / (high - low)
            shift[0] = -1.0 - slope[0] * low
        return slope, shift


@dataclass(frozen=True)
class _Category:
    """One categorical column: an indicator per public category."""

    categories: tuple[Any, ...]
    missing: bool
    slots = 1

    @property
    def width(self) -> int:
        """Number of output columns."""
        return len(self.categories) + self.missing

    def entries(self, column: Any, name: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield places in the block, one per row, and the values there."""
        lookup = {category: place for place, category in enumerate(self.categories)}
        values = column.to_list() if hasattr(column, "to_list") else column.tolist()
        try:
            codes = np.array([lookup.get(value, -1) for value in values], dtype=np.intp)
        except TypeError as error:
            raise TypeError(f"column {name!r} holds values that cannot be categories") from error
        if self.missing:
            for row in np.flatnonzero(codes < 0):
                if _is_missing(values[row]):
                    codes[row] = len(self.categories)
        yield np.maximum(codes, 0), (codes >= 0).astype(np.float64)

    def labels(self, name: str) -> list[str]:
        """Return the names of the output columns."""
        return [f"{name}_{label}" for label in self.categories] + [f"{name}_missing"] * self.missing

    def map_to_output(self) -> tuple[np.ndarray, np.ndarray]:
        """Return slope and shift of every output column as a function of what it is named after."""
        return np.ones(self.width), np.zeros(self.width)

    def check_type(self, column: Any, name: Any) -> None:
        """Refuse a column whose type says that it holds none of the categories."""
        listed = {isinstance(category, numbers.Number) for category in self.categories}
        holds_numbers = np.asarray(column[:0]).dtype.kind in "biuf"
        holds_text = str(column.dtype).lower().startswith(("str", "<u"))
        if (holds_numbers and listed == {False}) or (holds_text and listed == {True}):
            kinds = ("numbers", "text") if holds_numbers else ("text", "numbers")
            raise ValueError(
                f"column {name!r} holds {kinds[0]}, but categories lists {kinds[1]} for it, such "
                f"as {self.categories[0]!r}: write the categories as the column has them"
            )


def _as_table(X: Any) -> Any:
    """Return a data frame as it is, anything else as a checked array of two dimensions."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        return X
    if not hasattr(X, "shape"):
        X = np.asarray(X, dtype=object)  # numbers and text in one list stay what they are
    return check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=1)


def _column(X: Any, position: int) -> Any:
    return X.iloc[:, position] if hasattr(X, "iloc") else X[:, position]


def _as_numbers(column: Any, name: Any) -> np.ndarray:
    """Return a column as doubles, NaN where a value is missing."""
    try:
        if np.asarray(column[:0]).dtype.kind in "mMUS":
            raise ValueError(f"its type is {column.dtype}")
        if hasattr(column, "isna"):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"column {name!r} must hold numbers: {error}") from error


def _is_missing(value: Any) -> bool:
    # NaN differs from itself, and so does NaT; pandas' NA answers with itself.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _check_categories(column: Any, categories: Any) -> tuple[Any, ...]:
    if isinstance(categories, (str, bytes)) or not hasattr(categories, "__iter__"):
        raise TypeError(
            f"categories of column {column!r} must be a sequence of labels, got {categories!r}"
        )
    listed = categories.tolist() if hasattr(categories, "tolist") else list(categories)
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(
            f"categories of column {column!r} must list each category once and at least one, got "
            f"{listed!r}"
        )
    if any(_is_missing(label) for label in listed):
        raise ValueError(
            f"categories of column {column!r} list a missing value; name the column in missing"
        )
    return tuple(listed)


def _distinct_numbers(values: np.ndarray) -> list[str]:
    """Write numbers with as few digits as keep them apart, three at least."""
    for digits in range(3, 18):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _refuse_unknown(parameter: str, given: Collection[Any], columns: Collection[Any]) -> None:
    """Raise an error that names what ``given`` lists beside ``columns``."""
    known = set(columns)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), [str(column) for column in columns], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{parameter} names {name!r}, which is not among the columns "
                f"{[str(column) for column in columns]}{hint}"
            )


def _in_units(
    coef: Any, intercept: Any, slope: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Undo ``column -> slope * column + shift`` in a linear model."""
    coef = np.asarray(coef, dtype=np.float64)
    if coef.ndim == 0 or coef.shape[-1] != slope.shape[0]:
        raise ValueError(f"coef must have {slope.shape[0]} columns, got shape {coef.shape}")
    return coef * slope, np.asarray(intercept, dtype=np.float64) + coef @ shift


def share_of_range(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """Return which part of the way from ``low`` to ``high`` values have gone.

    Everything is first divided by a power of two near the larger bound, so that the difference of
    bounds neither overflows nor vanishes, whatever finite bounds are given.
    """
    exponent = -np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    low = np.ldexp(low, exponent)
    return (np.ldexp(values, exponent) - low) / (np.ldexp(high, exponent) - low)


def _fitting(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Return doubles as ``dtype``, those beyond its range as its largest number."""
    if dtype == np.float64:
        return values
    limits = np.finfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)


def _factor(norm: float, n_blocks: int, dtype: Any) -> float:
    """Return the constant that takes rows of ``n_blocks`` blocks of length 1 within ``norm``.

    The bound holds in exact arithmetic: the rounding of the entries is taken off.
    """
    rounding = (n_blocks + 8) * np.finfo(np.float64).eps + 4 * np.finfo(dtype).eps
    return float(norm) * (1.0 - float(rounding)) / float(np.sqrt(n_blocks))


def _row_blocks(X: np.ndarray) -> Iterator[slice]:
    """Yield slices of rows of about a million entries, so that copies of them stay small."""
    return gen_batches(X.shape[0], max(1, 2**20 // X.shape[1]))


def resolve_bounds(
    bounds: Any, n_features: int, names: np.ndarray | None, *, parameter: str = "bounds"
) -> np.ndarray:
    """Return the public bounds as an array (n_features, 2) in column order.

    ``parameter`` is what the caller knows them by.
    """
    if bounds is None:
        raise ValueError(
            "bounds is required: the public (low, high) of each column, as one pair, an array of "
            "shape (n_features, 2) or a mapping from column name to pair. Bounds are never "
            "learned from the data, because the extremes of a column reveal single records"
        )
    if isinstance(bounds, Mapping):
        if names is None:
            raise ValueError(
                f"{parameter} is a mapping from column names, but X has no column names; pass a "
                f"DataFrame, or {parameter} as an array of shape (n_features, 2)"
            )
        _refuse_unknown(parameter, bounds, names)
        missing = [str(name) for name in names if name not in bounds]
        if missing:
            raise ValueError(f"{parameter} has no entry for the columns {missing}")
        bounds = [bounds[name] for name in names]
    try:
        array = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{parameter} must hold pairs (low, high) of numbers, got {bounds!r}"
        ) from error
    if array.shape == (2,):
        array = np.tile(array, (n_features, 1))
    if array.shape != (n_features, 2):
        raise ValueError(
            f"{parameter} must be one (low, high) pair or an array of shape ({n_features}, 2), "
            f"got an array of shape {array.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(array).all(axis=1) & (array[:, 0] < array[:, 1])))
    if bad.size:
        column = bad[0] if names is None else repr(names[bad[0]])
        low, high = array[bad[0]]
        raise ValueError(
            f"{parameter} of column {column} must be finite with low < high, got ({low}, {high})"
        )
    return array
