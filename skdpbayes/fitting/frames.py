"""Arrays back to the data frames that a model was fitted on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

__all__ = ["with_names"]


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
