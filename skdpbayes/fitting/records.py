"""The table of a fit, read once: what is public about it, and the verb that touches the rest.

``Public`` is all that a plan may know. What is not a field of it cannot enter a rule, a scale or an
attribute. ``Records`` holds the rows; kernels see them block by block through ``total``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpbayes._validation import encode_labels, probe, validate_data
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.units import Members, share_out, unit_codes
from skdpbayes.privacy.guarantee import Unit

# A block of rows of this many bytes is large enough for BLAS and small enough for any memory.
BLOCK_BYTES = 1 << 23
# Blocks of dense rows up to so wide are no shorter than wide: their second moments are a matrix of
# that size, which should not be added once for every few rows.
SQUARE_BLOCK = 1 << 12
# Predictions take this many numbers at a time, draws included: memory does not grow with the rows.
PREDICTED_AT_ONCE = 1 << 21


def scored_by_blocks(
    score: Callable[[Any], np.ndarray], X: Any, numbers_per_row: int
) -> np.ndarray:
    """Score validated rows, some at a time."""
    size = max(1, PREDICTED_AT_ONCE // numbers_per_row)
    if X.shape[0] <= size:
        return score(X)
    X = X.tocsr() if sparse.issparse(X) else X
    starts = range(0, X.shape[0], size)
    return np.concatenate([score(X[start : start + size]) for start in starts])


@dataclass(frozen=True)
class Public:
    """Everything that a plan may know about a table.

    Parameters
    ----------
    n : int
        Number of units: of records or, with ``units``, of persons. The number of records is then
        not public, and not here.
    n_features : int
        Number of columns.
    classes : ndarray or None
        The sorted label set, for classifiers.
    names : ndarray of str or None
        Names of the columns, if the table has them.
    detail : object
        What a model needs to know besides: the layout of naive Bayes' statistics, the grid of a
        hidden Markov model.
    conditions : tuple of str
        What was taken from the data and is treated as public, in words.
    unit : {"record", "person"}
        Whose data may change.
    chunked : bool
        Whether the table comes in chunks, so that a pass over it may be slow.
    """

    n: int
    n_features: int
    classes: np.ndarray | None = None
    names: np.ndarray | None = None
    detail: Any = None
    conditions: tuple[str, ...] = ()
    unit: Unit = "record"
    chunked: bool = False

    @property
    def n_classes(self) -> int:
        """Size of the label set."""
        assert self.classes is not None
        return int(self.classes.shape[0])


class Block(NamedTuple):
    """Some rows of a table, validated and bounded."""

    X: Any
    target: np.ndarray | None = None
    weight: np.ndarray | None = None


@dataclass(frozen=True)
class Records:
    """The rows of a fit. Only ``total`` and ``blocks`` hand them out, bounded.

    Parameters
    ----------
    public : Public
        What plans may know.
    X : ndarray or CSR matrix
        Validated rows as the caller gave them; never copied as a whole.
    target : ndarray or None
        Codes of labels, numbers, or steps of a grid, one per row.
    bound : Bound
        Applied to every block before a kernel sees it.
    weight : ndarray or None
        Weights of the rows, those of a person at most 1 together; None where each row is a unit.
    owner : ndarray of int or None
        The person of each row; None where each row is a unit.
    """

    public: Public
    X: Any
    target: np.ndarray | None = None
    bound: Bound = field(default_factory=Bound)
    weight: np.ndarray | None = None
    owner: np.ndarray | None = None

    def of_units(self, units: Any) -> Records:
        """Return the same rows weighted by unit, of which there may be any number of records."""
        codes, n_units = unit_codes(units, self.X.shape[0])
        used, weight = share_out(codes, n_units)
        public = replace(self.public, n=n_units, unit="person")
        if used is None:
            return replace(self, public=public, weight=weight, owner=codes)
        target = None if self.target is None else self.target[used]
        return replace(
            self, public=public, X=self.X[used], target=target, weight=weight, owner=codes[used]
        )

    def members(self) -> Members | None:
        """Return the rows of every person, to sample persons; None where each row is a unit."""
        return None if self.owner is None else Members.of(self.owner, self.public.n)

    def block(self, rows: Any = slice(None)) -> Block:
        """Return the bounded rows of a slice or an array of row numbers, in double precision."""
        X = self.bound(in_double(self.X[rows]))
        target, weight = (
            None if part is None else part[rows] for part in (self.target, self.weight)
        )
        return Block(X, target, weight)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in blocks of bounded memory."""
        return map(self.block, self._cuts())

    def _cuts(self) -> Iterator[slice]:
        n_rows = self.X.shape[0]
        width = self.X.shape[1] if not sparse.issparse(self.X) else -(-self.X.nnz // max(n_rows, 1))
        size = max(1, BLOCK_BYTES // (8 * max(1, width)))
        if not sparse.issparse(self.X) and width <= SQUARE_BLOCK:
            size = max(size, width)
        return (slice(start, start + size) for start in range(0, n_rows, size))

    def held(self) -> Block:
        """Return all rows for many passes, bounded once; rows that need no bound are not copied."""
        if self.X.dtype == np.float32 and all(
            self.bound(rows) is rows for rows in (in_double(self.X[cut]) for cut in self._cuts())
        ):
            return Block(self.X, self.target, self.weight)
        return self.block()

    def survey(self, look: Callable[[Any], Any]) -> list[Any]:
        """Return ``look(X)`` of every block."""
        return [look(block.X) for block in self.blocks()]

    def total(self, kernel: Callable[..., np.ndarray], *args: Any, rows: Any = None) -> np.ndarray:
        """Sum ``kernel(block, *args)`` over all blocks, or over the given row numbers.

        Kernels return exact integers, so that neither the blocks nor their order matter.
        """
        if rows is not None:
            return kernel(self.block(rows), *args)
        parts = (kernel(block, *args) for block in self.blocks())
        total = next(parts)
        for part in parts:
            total = total + part
        return total


def in_double(X: Any) -> Any:
    """Return single precision as double: a block's bound and sums are then those of double."""
    return X.astype(np.float64) if X.dtype == np.float32 else X


def read_table(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    bound: Bound,
    classes: Any = None,
    **checks: Any,
) -> Any:
    """Validate a table with labels and find out what is public about it.

    Everything that can be wrong with the input is found here, and nothing is set on the estimator.
    Returns `Records`, or `ChunkedRecords` for a table in chunks.

    Parameters
    ----------
    estimator : BaseEstimator
        For messages and tags.
    X, y : array-like
        The table and its labels.
    bound : Bound
        How rows are bounded.
    classes : array-like or None
        The public label set; None takes it from ``y``.
    **checks
        For scikit-learn's ``validate_data``.
    """
    from skdpbayes.fitting import chunks  # it builds on this module

    if chunks.is_chunked(X) or chunks.is_chunked(y):
        target = chunks.Labels(classes, type(estimator).__name__)
        return chunks.read_chunks(estimator, X, y, bound=bound, target=target, **checks)
    reader = probe(estimator)
    X, y = validate_data(reader, X, y, **checks)
    labels, codes = encode_labels(y, classes, estimator=type(estimator).__name__)
    public = Public(
        n=X.shape[0],
        n_features=X.shape[1],
        classes=labels,
        names=getattr(reader, "feature_names_in_", None),
    )
    return Records(public, X, codes, bound)
