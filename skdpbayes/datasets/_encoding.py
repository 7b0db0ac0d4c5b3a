"""Encode tables with public bounds, categories and bins, and pack them for the user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skdpbayes._validation import check_choice
from skdpbayes.preprocessing import BoundsScaler, RowNormClipper

Table = Mapping[str, np.ndarray]
Bounds = Mapping[str, tuple[float, float]]
Categories = Mapping[str, tuple[str, ...]]


def check_encoding(encoding: Any, choices: Sequence[str]) -> None:
    """Raise an error that names the encodings, None (no encoding) beside them."""
    if encoding is not None:
        check_choice("encoding, unless None,", encoding, choices)


def category_codes(column: np.ndarray, labels: Sequence[str], name: str) -> np.ndarray:
    """Return the position of each value in the public ``labels``."""
    values = np.asarray(column, dtype=str)
    order = np.argsort(np.asarray(labels, dtype=str))
    ordered = np.asarray(labels, dtype=str)[order]
    position = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    unknown = ordered[position] != values
    if unknown.any():
        raise ValueError(
            f"column {name!r} holds {str(values[unknown][0])!r}, which is not in its code book"
        )
    return order[position].astype(np.int64)


def bin_codes(column: np.ndarray, edges: Sequence[float]) -> np.ndarray:
    """Return the bin of each value: 0 below the first edge, k from edge k - 1 (included) on."""
    return np.searchsorted(np.asarray(edges), column, side="right").astype(np.int64)


def bin_labels(edges: Sequence[float]) -> tuple[str, ...]:
    """Return a readable name for each bin of :func:`bin_codes`."""
    inner = [f"[{low:g}, {high:g})" for low, high in pairwise(edges)]
    return (f"< {edges[0]:g}", *inner, f">= {edges[-1]:g}")


def bounded_columns(table: Table, bounds: Bounds, log: Collection[str] = ()) -> np.ndarray:
    """Scale numeric columns from their public bounds to [0, 1]; ``log`` ones by log1p first."""
    values, limits = [], []
    for name, pair in bounds.items():
        transform = np.log1p if name in log else np.asarray
        values.append(transform(np.clip(table[name], *pair)))
        limits.append(transform(np.array(pair, dtype=np.float64)))
    scaler = BoundsScaler(limits, feature_range=(0.0, 1.0))
    scaled: np.ndarray = scaler.fit_transform(np.column_stack(values))
    return scaled


def one_hot(codes: np.ndarray, counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the indicator columns of integer codes, column after column."""
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    out = np.zeros((len(codes), int(np.sum(counts))))
    np.put_along_axis(out, codes + start, 1.0, axis=1)
    return out


def one_hot_names(categories: Categories) -> list[str]:
    """Return the names that :class:`~sklearn.preprocessing.OneHotEncoder` would give."""
    return [f"{name}_{label}" for name, labels in categories.items() for label in labels]


def unit_rows(
    table: Table, bounds: Bounds, categories: Categories, log: Collection[str] = ()
) -> np.ndarray:
    """Return the numeric columns in [0, 1], then the indicators, rows clipped to L2 norm 1."""
    codes = [category_codes(table[name], labels, name) for name, labels in categories.items()]
    indicators = one_hot(np.column_stack(codes), [len(v) for v in categories.values()])
    joined = np.hstack([bounded_columns(table, bounds, log), indicators])
    clipped: np.ndarray = RowNormClipper(1.0, copy=False).fit_transform(joined)
    return clipped


def binned(
    table: Table, edges: Mapping[str, Sequence[float]], categories: Categories
) -> tuple[np.ndarray, dict[str, tuple[str, ...]]]:
    """Return integer codes of all columns and the name of every code."""
    codes, names = [], {}
    for name, column in table.items():
        if name in edges:
            codes.append(bin_codes(column, edges[name]))
            names[name] = bin_labels(edges[name])
        else:
            codes.append(category_codes(column, categories[name], name))
            names[name] = categories[name]
    return np.column_stack(codes), names


def table_array(table: Table) -> np.ndarray:
    """Return a mixed table as an object array (n_samples, n_columns)."""
    out = np.empty((len(next(iter(table.values()))), len(table)), dtype=object)
    for position, column in enumerate(table.values()):
        out[:, position] = column
    return out


def counts_of(categories: Categories) -> np.ndarray:
    """Return the number of categories of each column."""
    return np.array([len(labels) for labels in categories.values()], dtype=np.int64)


def pack(
    data: Any,
    target: Any,
    *,
    feature_names: Sequence[str],
    as_frame: bool,
    return_X_y: bool,
    **public: Any,
) -> Any:
    """Return the Bunch (or the pair) of a data set; ``as_frame`` is the only use of pandas."""
    if as_frame:
        import pandas as pd

        if isinstance(data, Mapping):
            data = pd.DataFrame({name: np.asarray(data[name]) for name in feature_names})
            text = data.select_dtypes(exclude="number").columns
            data[text] = data[text].astype(object)
        else:
            data = pd.DataFrame(data, columns=list(feature_names))
        target = None if target is None else pd.Series(target, name="target")
    elif isinstance(data, Mapping):
        data = table_array(data)
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, feature_names=list(feature_names), **public)
