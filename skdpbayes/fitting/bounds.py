"""How one record is bounded: the same object in ``fit`` and in every prediction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes._validation import clip_negative, clip_rows


@dataclass(frozen=True)
class Bound:
    """A public map of rows that keeps each within what the guarantee is computed from.

    The model is a function of the bounded row: what ``fit`` was trained on and what ``predict``
    sees are the same rows. Without privacy nothing is bounded: the model is the ordinary one on
    the rows as they are.

    Parameters
    ----------
    data_norm : float, default=inf
        Rows of a larger L2 norm are scaled down to it.
    nonnegative : bool, default=False
        Whether entries below 0 are set to 0 first.
    low, high : tuples of float, default=()
        Ends to which the entries of each column are clipped, one per column, infinite for columns
        that are not; empty for none. Dense rows only.
    """

    data_norm: float = math.inf
    nonnegative: bool = False
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __call__(self, X: Any) -> Any:
        """Bound a block of rows, dense or CSR; ``X`` itself where no row needs it."""
        if self.nonnegative:
            X = clip_negative(X)
        if self.low:
            X = self._clip_columns(X)
        return X if math.isinf(self.data_norm) else clip_rows(X, self.data_norm)

    def _clip_columns(self, X: np.ndarray) -> np.ndarray:
        low, high = np.array(self.low), np.array(self.high)
        columns = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        block = X[:, columns]
        clipped = np.clip(block, low[columns], high[columns])
        if np.array_equal(block, clipped):
            return X
        X = X.astype(np.result_type(X, clipped))
        X[:, columns] = clipped
        return X
