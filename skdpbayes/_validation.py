"""Checks of parameters and data; the one file that may touch scikit-learn's private names."""

from __future__ import annotations

import numbers
from collections.abc import Collection
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing as take_rows  # noqa: F401
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

ADJACENCIES = ("replace_one", "zero_out")
LARGEST_CODE = 2**53  # beyond it doubles skip integers


def check_real(
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    closed: str = "both",
    remedy: str = "",
) -> float:
    """Return ``value`` as a float, or say which values ``name`` takes.

    ``closed`` names the ends of ``[low, high]`` that belong to the range: "both", "low", "high" or
    "neither". NaN is never accepted.
    """
    brackets = (
        "[" if closed in ("both", "low") else "(",
        "]" if closed in ("both", "high") else ")",
    )
    wanted = f"{name} must be a number in {brackets[0]}{low:g}, {high:g}{brackets[1]}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{wanted}; got {value!r} of type {type(value).__name__}. {remedy}".rstrip()
        )
    number = float(value)
    above = number >= low if closed in ("both", "low") else number > low
    below = number <= high if closed in ("both", "high") else number < high
    if not (above and below):
        raise ValueError(f"{wanted}; got {value!r}. {remedy}".rstrip())
    return number


def check_target_bounds(bounds: Any) -> tuple[float, float]:
    """Return the public bounds of a target, or say which pairs ``target_bounds`` takes.

    Squares of their distance neither overflow nor vanish.
    """
    if bounds is None:
        raise ValueError(
            "target_bounds is required: public numbers (low, high) between which the target lies, "
            "from a codebook, the law or common sense, not from the data. Targets outside are "
            "clipped."
        )
    pair = np.asarray(bounds)
    if pair.shape != (2,) or pair.dtype.kind not in "iuf":
        raise ValueError(f"target_bounds must be a pair of numbers (low, high); got {bounds!r}.")
    low, high = (float(end) for end in pair)
    if not (-1e50 <= low < high <= 1e50 and high - low >= 1e-50):
        raise ValueError(
            f"target_bounds must be finite with low < high, within 1e50; got {bounds!r}."
        )
    return low, high


def check_scale(name: str, value: Any, remedy: str = "") -> float:
    """Return a positive scale as a float if its squares and products stay within the floats.

    Beyond, a single record could decide between a number and NaN.
    """
    return check_real(name, value, low=1e-50, high=1e50, remedy=remedy)


def check_integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int in [low, high], or say which values ``name`` takes."""
    wanted = f"{name} must be an integer >= {low}" + ("" if high is None else f" and <= {high}")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{wanted}; got {value!r} of type {type(value).__name__}.")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise ValueError(f"{wanted}; got {value!r}.")
    return number


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return ``value`` if it is one of ``choices``, or list them."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool, or say that ``name`` is a switch."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def is_fitted(estimator: Any) -> bool:
    """Tell whether scikit-learn takes the estimator for fitted."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def validate_data(estimator: Any, *table: Any, **checks: Any) -> Any:
    """Validate as scikit-learn does, with errors that suit private records.

    Of missing values scikit-learn recommends imputers that learn from the records, and of text it
    quotes the value that it found, which is somebody's.
    """
    try:
        return validation.validate_data(estimator, *table, **checks)
    except ValueError as error:
        if "could not convert string" in str(error):
            names = text_columns(table[0])
            where = f" ({', '.join(names[:5])}{', ...' if len(names) > 5 else ''})" if names else ""
            raise ValueError(
                f"Input X holds text{where}. {type(estimator).__name__} takes numbers: encode the "
                "columns by their public categories: private_preprocessor(categories={...}), or "
                "OrdinalEncoder(categories=[...]) for models of counts."
            ) from None
        if "Input X contains NaN" not in str(error):
            raise
        raise ValueError(
            f"Input X contains NaN. {type(estimator).__name__} takes no missing values: replace "
            "them by a public one. private_preprocessor(missing=[...]) and "
            "SimpleImputer(strategy='constant', fill_value=...) learn nothing from the records."
        ) from error


def text_columns(X: Any) -> list[str]:
    """Name the columns of a data frame whose declared type is not one of numbers."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return []
    kinds = ("object", "str", "categor", "enum")
    types = zip(X.columns, X.dtypes, strict=True)
    return [str(name) for name, dtype in types if str(dtype).lower().startswith(kinds)]


def probe(estimator: Any) -> Any:
    """Return an unfitted twin that ``validate_data`` may write to in place of the estimator."""
    twin = object.__new__(type(estimator))
    twin.__dict__.update(estimator.get_params(deep=False))
    return twin


def encode_labels(y: Any, classes: Any, *, estimator: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted label set and ``y`` as positions in it.

    The label set is public: ``classes`` if given, otherwise the labels that occur in ``y``.
    """
    y = np.asarray(y)
    if classes is None:
        check_classification_targets(y)
        labels, codes = np.unique(y, return_inverse=True)
    else:
        labels = _listed_labels(classes)
        codes = np.searchsorted(labels, y)
        found = labels[np.minimum(codes, labels.shape[0] - 1)] == y
        if not np.all(found):
            raise ValueError(
                f"y has a label outside classes={labels.tolist()!r}. Add every label that may "
                "occur to classes, or drop those records."
            )
    if labels.shape[0] < 2:
        raise ValueError(
            f"{estimator} needs at least 2 classes; the label set has {labels.shape[0]} class "
            f"({labels.tolist()!r}). Pass the public label set as classes=[...]; few records, as "
            "in a fold, may lack a label."
        )
    return labels, codes.astype(np.intp, copy=False)


def _listed_labels(classes: Any) -> np.ndarray:
    """Return the sorted labels of the parameter ``classes``, or say what it takes."""
    try:
        listed = np.asarray(classes)
    except ValueError:  # rows of different lengths
        listed = np.empty(())
    if listed.ndim != 1 or listed.size == 0:
        raise TypeError(f"classes must be a sequence of labels or None; got {classes!r}.")
    labels = np.unique(listed)
    if labels.size != listed.size:
        raise ValueError(f"classes must list each label once; got {classes!r}.")
    return labels


def check_classes(classes: Any) -> np.ndarray:
    """Return a public label set from labels, their number, or None (two labels)."""
    if classes is None:
        return np.arange(2)
    if isinstance(classes, numbers.Integral) and not isinstance(classes, (bool, np.bool_)):
        return np.arange(check_integer("classes", classes, low=2))
    labels = _listed_labels(classes)
    return encode_labels(labels, labels, estimator="plan")[0]


def check_codes(name: str, values: np.ndarray, remedy: str = "") -> np.ndarray:
    """Return codes 0, 1, ... as 64-bit integers, or say what is wrong with them.

    Everything is compared in the type that the caller gave: an unsigned code beyond 2**63 would
    turn negative in the cast and be counted in the cell of another value.
    """
    if values.dtype.kind not in "biuf" or (
        values.dtype.kind == "f" and not np.all(values == np.floor(values))
    ):
        raise ValueError(
            f"{name} must hold integer codes 0, 1, ...; it has fractional values or something "
            f"else than numbers. {remedy}".rstrip()
        )
    if values.size and values.dtype.kind != "b":
        if values.min() < 0:
            raise ValueError(
                f"Negative values in data: {name} must hold codes 0, 1, ..., at least 0; a "
                "missing value needs a code of its own."
            )
        if values.max() > LARGEST_CODE:
            raise ValueError(f"{name} holds numbers too large to be codes. {remedy}".rstrip())
    return values.astype(np.int64, copy=False)


def clip_rows(X: Any, norm: float, *, copy: bool = True) -> Any:
    """Scale rows of L2 norm above ``norm`` down to it; ``X`` itself if none is longer.

    ``X`` is a float array or a CSR matrix; its type is kept. Clipped rows end a few units of
    rounding below ``norm``, so that the bound holds in exact arithmetic and clipping twice changes
    nothing: a double precision sum of d squares errs by at most d units, the entries of the result
    by a unit of their own type. Rows whose squared length overflows (entries beyond 1e154) become
    zero. ``copy=False`` may write into ``X``.
    """
    if sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:  # entries stored twice add up: squares of parts do not
            X = X.copy() if copy else X
            X.sum_duplicates()
            X.data[~np.isfinite(X.data)] = 0.0  # finite parts whose sum overflows
    lengths = _row_lengths(X)
    longer = lengths > norm
    if not longer.any():
        return X
    eps = np.finfo(np.float64).eps
    margin = (X.shape[1] + 8) * eps + 4 * float(np.finfo(X.dtype).eps)
    scale = np.ones(lengths.shape[0])
    scale[longer] = norm * (1.0 - margin) / lengths[longer]
    if sparse.issparse(X):
        X = X.copy() if copy else X
        factor = np.repeat(scale, np.diff(X.indptr))
        X.data[factor == 0.0] = 0.0  # duplicates may have added up to inf, and inf * 0 is not 0
        X.data *= factor
        return X
    return np.multiply(X, scale[:, None], out=None if copy else X, casting="same_kind").astype(
        X.dtype, copy=False
    )


def longest_row(X: Any) -> float:
    """Return the largest L2 norm of a row, for fits without privacy."""
    return float(_row_lengths(X).max(initial=0.0))


def clip_negative(X: Any) -> Any:
    """Set negative entries to 0; ``X`` itself if there are none. As `clip_rows` otherwise."""
    if sparse.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if not np.any(X.data < 0.0):
            return X
        X = X.copy()
        np.maximum(X.data, 0.0, out=X.data)
        return X
    return X if X.size == 0 or X.min() >= 0.0 else np.maximum(X, 0.0)


def _row_lengths(X: Any) -> np.ndarray:
    """Return the L2 norms of the rows in double precision, whatever the type of ``X``."""
    with np.errstate(over="ignore"):
        if sparse.issparse(X):
            rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            squares = np.square(X.data, dtype=np.float64)
            total = np.bincount(rows, weights=squares, minlength=X.shape[0])
        else:
            total = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        return np.sqrt(total)
