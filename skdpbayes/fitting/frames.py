"""What data frames say about themselves, and arrays back to frames."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from scipy import sparse

# Integers of a single byte are how tables store indicators.
UNSCALED = ("int16", "int32", "int64", "uint16", "uint32", "uint64", "object")


def unscaled_columns(X: Any) -> list[str]:
    """Name columns whose type says that nobody has scaled them: integers, and Python objects.

    Only types that a table declares are read, never a value, so tables of one schema, which
    neighboring data sets have, give one answer. A list declares none, and entries of a sparse
    matrix are counts or indicators: neither is judged.
    """
    if sparse.issparse(X):
        return []
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        types = zip(X.columns, X.dtypes, strict=True)
        return [str(name) for name, dtype in types if str(dtype).lower().startswith(UNSCALED)]
    if not hasattr(X, "dtype") or not str(X.dtype).startswith(UNSCALED):
        return []
    return [str(column) for column in range(X.shape[1])]


def with_names(X: np.ndarray, names: Any, integers: Collection[int] = ()) -> Any:
    """Return the rows as a data frame where the columns have names and pandas is installed.

    The columns at the positions in ``integers`` get an integer type.
    """
    if names is None:
        return X
    try:
        import pandas
    except ImportError:
        return X
    frame = pandas.DataFrame(X, columns=names)
    return frame.astype({names[j]: np.int64 for j in integers})
