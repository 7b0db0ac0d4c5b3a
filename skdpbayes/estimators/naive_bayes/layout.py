"""The statistics of naive Bayes: which there are, from public parameters, and rows counted."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from skdpbayes import models
from skdpbayes._validation import check_choice, check_integer, check_real
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.records import Block
from skdpbayes.fitting.units import sum_fractions

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout

LARGEST_CODE = 2**20  # larger tables would be a mistake in the data, and fill the memory
LARGEST_COUNT = 2.0**53  # doubles hold every whole number below

DISTRIBUTIONS = ("bernoulli", "categorical", "multinomial", "gaussian")

Shape: TypeAlias = tuple[int, np.ndarray | None]
"""Number of features, and their names where the table has some."""


def _per_column(name: str, values: Any, columns: tuple[int, ...], shape: Shape) -> list[Any]:
    """Return the entries for ``columns``.

    ``values`` has one entry per feature, one per column concerned, or is a mapping from names.
    """
    n_features, names = shape
    if isinstance(values, Mapping):
        return _by_name(name, values, columns, names)
    values = list(values)
    if len(values) == n_features:
        return [values[j] for j in columns]
    if len(values) == len(columns):
        return values
    raise ValueError(
        f"{name} must have one entry for each of the {n_features} features (or for each of the "
        f"{len(columns)} columns that use it); got {len(values)} entries."
    )


def _by_name(
    name: str, values: Mapping[Any, Any], columns: tuple[int, ...], names: np.ndarray | None
) -> list[Any]:
    if names is None:
        raise ValueError(
            f"{name} is a mapping from column names, and X has none. Pass a data frame, or {name} "
            "as a list."
        )
    known = [str(column) for column in names]
    unknown = [column for column in values if column not in known]
    if unknown:
        near = difflib.get_close_matches(str(unknown[0]), known, 1)
        hint = f" Did you mean {near[0]!r}?" if near else f" The columns are {known}."
        raise ValueError(f"{name} names {unknown[0]!r}, which is not a column of X.{hint}")
    missing = [known[j] for j in columns if known[j] not in values]
    if missing:
        raise ValueError(f"{name} has no entry for the column {missing[0]!r}.")
    return [values[known[j]] for j in columns]


def column_kinds(distribution: Any, shape: Shape) -> tuple[str, ...]:
    """Return the distribution of each column."""
    n_features, _ = shape
    if isinstance(distribution, str):
        return (check_choice("distribution", distribution, DISTRIBUTIONS),) * n_features
    if isinstance(distribution, Mapping):
        distribution = _per_column("distribution", distribution, tuple(range(n_features)), shape)
    given = distribution if np.iterable(distribution) else [distribution]
    kinds = tuple(check_choice("distribution", kind, DISTRIBUTIONS) for kind in given)
    if len(kinds) != n_features:
        raise ValueError(
            f"distribution must name one of {DISTRIBUTIONS} for each of the {n_features} features; "
            f"got {len(kinds)} entries."
        )
    return kinds


def build_layout(
    kinds: tuple[str, ...],
    names: np.ndarray | None,
    *,
    threshold: float | None,
    categories: Any,
    bounds: Any,
    max_total: Any,
    private: bool,
    missing: bool = False,
) -> NaiveBayesLayout:
    """Describe the statistics from the public parameters.

    Without privacy nothing is bounded, so bounds are infinite and there is no largest total.
    """
    shape: Shape = (len(kinds), names)
    columns = {name: _columns_of(kinds, name) for name in DISTRIBUTIONS}
    n_categories = _category_counts(columns["categorical"], categories, shape)
    n_categories = {j: size + missing for j, size in n_categories.items()}
    values = {**dict.fromkeys(columns["bernoulli"], 2), **n_categories}
    tables = tuple(sorted(values))
    total = 0
    if max_total is not None:
        # Doubles hold every whole number up to 2^53, which clipping relies on.
        total = check_integer("max_total", max_total, low=1, high=2**50)
    elif columns["multinomial"] and private:
        raise ValueError(
            "max_total must be given for multinomial columns: a public bound on the sum of a "
            "row's counts. Longer rows are scaled down to it."
        )
    pairs = _column_bounds(bounds, columns["gaussian"], shape, private)
    return models.NaiveBayesLayout(
        table_columns=tables,
        n_values=tuple(values[j] for j in tables),
        binary=tuple(kinds[j] == "bernoulli" for j in tables),
        token_columns=columns["multinomial"],
        max_total=total if private and columns["multinomial"] else 0,
        moment_columns=columns["gaussian"],
        bounds=pairs if private else ((-np.inf, np.inf),) * len(pairs),
        threshold=threshold,
        missing=missing,
    )


def bound_of(layout: NaiveBayesLayout, n_features: int) -> Bound:
    """Clip the Gaussian columns, in ``fit`` and in every prediction."""
    if not layout.moment_columns or not np.isfinite(layout.bounds).all():
        return Bound()
    ends = dict(zip(layout.moment_columns, layout.bounds, strict=True))
    pairs = [ends.get(j, (-np.inf, np.inf)) for j in range(n_features)]
    return Bound(low=tuple(low for low, _ in pairs), high=tuple(high for _, high in pairs))


def _columns_of(kinds: tuple[str, ...], name: str) -> tuple[int, ...]:
    return tuple(j for j, kind in enumerate(kinds) if kind == name)


def highest_codes(X: Any, kinds: tuple[str, ...]) -> np.ndarray:
    """Return the largest code of a block in each categorical column; NaN where all are missing."""
    _refuse_sparse(X)
    return np.array([np.fmax.reduce(X[:, j]) for j in _columns_of(kinds, "categorical")])


def categories_from(found: Sequence[np.ndarray]) -> list[int]:
    """Take the numbers of categories from the largest codes of all blocks."""
    highest = np.fmax.reduce(np.array(found, dtype=np.float64), axis=0)
    if np.isnan(highest).any():
        raise ValueError("X has a categorical column without a value: pass categories.")
    if highest.max() >= LARGEST_CODE:
        raise ValueError(
            f"categories=None takes codes below {LARGEST_CODE}, and X has a larger one. Encode the "
            "categories as 0, 1, ..., or pass their public numbers."
        )
    return [max(2, int(top) + 1) for top in highest]


def _category_counts(columns: tuple[int, ...], categories: Any, shape: Shape) -> dict[int, int]:
    if not columns:
        return {}
    if categories is None:
        raise ValueError(
            "categories must be given to plan without data: the public number of categories of "
            "each categorical column."
        )
    if np.ndim(categories) == 0 and not isinstance(categories, Mapping):
        categories = [categories] * len(columns)
    counts = _per_column("categories", categories, columns, shape)
    return {
        j: check_integer("categories", count, low=1)
        for j, count in zip(columns, counts, strict=True)
    }


def _column_bounds(
    bounds: Any, columns: tuple[int, ...], shape: Shape, private: bool
) -> tuple[tuple[float, float], ...]:
    if not columns:
        return ()
    if bounds is None:
        if not private:
            return ((-np.inf, np.inf),) * len(columns)
        raise ValueError(
            "bounds must be given for gaussian columns: a public (low, high), or one pair per "
            "column. They are never learned from the data; values outside are clipped."
        )
    if not isinstance(bounds, Mapping) and np.shape(bounds) == (2,):
        pairs: list[Any] = [bounds] * len(columns)
    else:
        pairs = _per_column("bounds", bounds, columns, shape)
    return tuple(_check_pair(pair) for pair in pairs)


def _check_pair(pair: Any) -> tuple[float, float]:
    if np.shape(pair) != (2,):
        raise ValueError(f"bounds must be (low, high) pairs; got {pair!r}.")
    low, high = (check_real("bounds", float(value), low=-1e150, high=1e150) for value in pair)
    # A width whose square is not a number would make standardized values NaN.
    if not high - low >= 1e-150:
        raise ValueError(f"bounds must have low < high, 1e-150 apart; got ({low!r}, {high!r}).")
    return low, high


def _refuse_sparse(X: Any) -> None:
    if sparse.issparse(X):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required: sparse input is served "
            "where all columns are bernoulli (binarize >= 0) or all are multinomial. Use "
            "'.toarray()' to convert to a dense numpy array."
        )


def refuse_missing(X: Any, taken: Collection[int] = ()) -> None:
    """Raise for missing values outside the columns ``taken``."""
    data = X.data if sparse.issparse(X) else X
    if data.dtype.kind != "f" or not np.isnan(data).any():
        return
    found = [0] if sparse.issparse(X) else np.flatnonzero(np.isnan(X).any(axis=0)).tolist()
    if set(found) - set(taken):
        raise ValueError(
            "Input X contains NaN. Missing values are served in categorical columns, as not "
            "observed, with missing=True (a column of 0 and 1 is a categorical one with "
            "categories=2). Elsewhere, replace them by a public value: "
            "SimpleImputer(strategy='constant', fill_value=...) learns nothing from the records."
        )


def _observed_tables(layout: NaiveBayesLayout) -> dict[int, int]:
    """Return the columns that may lack values, with the code of a missing one."""
    if not layout.missing:
        return {}
    tables = zip(layout.table_columns, layout.n_values, layout.binary, strict=True)
    return {column: size - 1 for column, size, binary in tables if not binary}


def fill_missing(layout: NaiveBayesLayout, X: Any, value: int | None = None) -> Any:
    """Return rows in which missing values have their code, or ``value``; ``X`` if none has any."""
    columns = _observed_tables(layout)
    if not columns or X.dtype.kind != "f":
        return X
    absent = {j: np.isnan(X[:, j]) for j in columns}
    if not any(rows.any() for rows in absent.values()):
        return X
    X = X.copy()
    for j, code in columns.items():
        X[absent[j], j] = code if value is None else value
    return X


def check_rows(layout: NaiveBayesLayout, X: Any) -> None:
    """Refuse rows that the model does not describe: other codes, no counts, no indicators."""
    if not layout.takes_sparse:
        _refuse_sparse(X)
    refuse_missing(X, _observed_tables(layout))
    X = fill_missing(layout, X, value=0)
    binary = np.array(layout.binary, dtype=bool)
    columns = np.array(layout.table_columns, dtype=np.int64)
    if not binary.all():
        sizes = np.array(layout.n_values)[~binary] - layout.missing
        bad = models.wrong_code(X, columns[~binary], sizes)
        if bad >= 0:
            size = layout.n_values[layout.table_columns.index(bad)] - layout.missing
            raise ValueError(
                f"X has a value in column {bad} that is not one of the codes 0, ..., {size - 1}: "
                f"categories says that the column has {size} categories. Encode other values as "
                "one of them, or raise categories."
            )
    if binary.any() and layout.threshold is None:
        block = X.data if sparse.issparse(X) else X[:, columns[binary]]
        if not ((block == 0) | (block == 1)).all():
            raise ValueError(
                "binarize=None says that Bernoulli columns are 0 or 1; X has another value there. "
                "Pass a threshold as binarize."
            )
    if layout.token_columns:
        block = token_block(layout, X)
        data = block.data if sparse.issparse(block) else block
        if data.size and (data.min() < 0 or (data != np.floor(data)).any()):
            raise ValueError(
                "Negative values in data or fractional ones: X must hold counts (whole numbers >= "
                "0) in multinomial columns."
            )
        if data.size and layout.max_total == 0 and data.max() >= LARGEST_COUNT:
            raise ValueError(
                "X has a count of 2**53 or more in a multinomial column, beyond which sums are "
                "not exact. Use smaller units, or pass max_total and a finite epsilon."
            )


def refuse_text(X: Any, error: ValueError) -> None:
    """Say how to encode a data frame whose columns hold text, if that is what the error is."""
    names = [
        name
        for name in getattr(X, "columns", ())
        if any(isinstance(value, str) for value in np.asarray(X[name], dtype=object))
    ]
    if names:
        raise ValueError(
            f"X has words in the columns {names}. Encode them as 0, 1, ..., in a public order, for "
            "example by OrdinalEncoder(categories=[...]), and use distribution='categorical'."
        ) from error


def _canonical(X: Any) -> Any:
    """Sum duplicate entries of a sparse matrix in a copy; counting visits each entry once."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def token_block(layout: NaiveBayesLayout, X: Any) -> Any:
    """Return the multinomial columns."""
    X = _canonical(X)
    return X if len(layout.token_columns) == X.shape[1] else X[:, list(layout.token_columns)]


def indicators(layout: NaiveBayesLayout, X: Any) -> Any:
    """Return a sparse matrix of Bernoulli columns as zeros and ones."""
    ones = _canonical(X).copy()
    ones.data = (ones.data > layout.cut).astype(np.float64)
    return ones


def count_block(block: Block, layout: NaiveBayesLayout, n_classes: int, law: str) -> np.ndarray:
    """Count rows into exact statistics, integers of shape (n_classes, n_statistics).

    Weighted rows are counted in units of 1 / WHOLE, those of each weight at a time.
    """
    if block.weight is None:
        return _count(block, layout, n_classes, law)
    X, codes = block.X, block.target
    assert codes is not None
    return sum_fractions(
        block.weight,
        lambda rows: _count(Block(X[rows], codes[rows]), layout, n_classes, law),
    )


def _count(block: Block, layout: NaiveBayesLayout, n_classes: int, law: str) -> np.ndarray:
    X, codes = fill_missing(layout, block.X), block.target
    assert codes is not None
    statistics = np.zeros((n_classes, layout.n_statistics), dtype=np.int64)
    tables, classes, tokens, moments = layout.split(statistics)
    if layout.table_columns:
        _fill_tables(layout, _canonical(X), codes, tables)
    if layout.has_class_table:
        classes[:, 0] = np.bincount(codes, minlength=n_classes)
    if layout.token_columns:
        rows = token_block(layout, X)
        rows = models.clip_tokens(rows, layout.max_total) if layout.max_total else rows
        tokens[:] = models.count_tokens(rows, codes, n_classes)
    if layout.moment_columns and np.isfinite(layout.bounds).all():
        low, high = np.array(layout.bounds).T
        offset = int(models.moment_offset(law) * models.GRID**2)
        columns = np.array(layout.moment_columns)
        moments[:] = models.sum_moments(
            X, columns, codes, low.copy(), high.copy(), offset, n_classes
        )
    return statistics


def _fill_tables(layout: NaiveBayesLayout, X: Any, codes: np.ndarray, tables: np.ndarray) -> None:
    starts, columns = layout.starts, np.array(layout.table_columns)
    binary = np.array(layout.binary)
    if binary.any():
        ones = models.count_ones(X, columns[binary], codes, layout.cut, tables.shape[0])
        first = starts[:-1][binary]
        tables[:, first + 1] = ones
        tables[:, first] = np.bincount(codes, minlength=tables.shape[0])[:, None] - ones
    if not binary.all():
        sizes = np.array(layout.n_values)[~binary]
        bad = models.count_categories(
            X, columns[~binary], codes, starts[:-1][~binary], sizes, tables
        )
        assert bad < 0, "check_rows has looked at every code"
