r"""Whose records they are: ids in, one weight per record out.

All records with one id may change together, so together they may weigh no more than one record
did. A record of a unit with *m* records has the weight :math:`\lfloor 2^{16} / m \rfloor / 2^{16}`:
whatever is bounded by a norm per record (gradients, counts, moments, losses) is then bounded by the
same norm per unit, because norms are convex and the weights of a unit add up to at most 1. Weights
are whole multiples of :math:`2^{-16}`, so that weighted counts are integers.

The number of units is public and the number of records is not. What is lost to rounding grows with
the number of records, so that no unit may have more than `MOST_RECORDS` of them; of a longer one
that many are kept, evenly spread over its rows. Which ones depends on that unit's rows alone, and
nothing tells that it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_RECORDS = 256
"""Records of one unit that are used."""
WHOLE = 1 << 16
"""Weights are integers over this number."""

_SORTED = "biufSU"  # kinds of NumPy arrays whose equal entries are found by sorting


def unit_codes(units: Any, n_rows: int) -> tuple[np.ndarray, int]:
    """Return the unit of each row as an integer, and the number of units.

    Parameters
    ----------
    units : array-like of shape (n_rows,)
        Ids of any hashable kind; none may be missing.
    n_rows : int
        Number of records.
    """
    if isinstance(units, (str, bytes)) or not hasattr(units, "__len__"):
        raise TypeError(f"units must be one id per record, such as a column; got {units!r}.")
    if getattr(units, "ndim", 1) != 1:
        raise ValueError(f"units must be one id per record; got an array of {units.ndim} axes.")
    if len(units) != n_rows:
        raise ValueError(f"units must have one id per record: {len(units)} ids, {n_rows} records.")
    # a list of tuples would become a table
    values = np.asarray(units) if hasattr(units, "__array__") else units
    if isinstance(units, np.ma.MaskedArray) and np.ma.getmaskarray(units).any():
        raise ValueError(_missing(int(np.argmax(np.ma.getmaskarray(units)))))
    if isinstance(values, np.ndarray) and values.dtype.kind in _SORTED:
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise ValueError(_missing(int(np.argmax(np.isnan(values)))))
        known, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.intp), known.shape[0]
    found: dict[Any, int] = {}
    codes = np.empty(n_rows, dtype=np.intp)
    for row, value in enumerate(values):
        if value is None or type(value).__name__ == "NAType" or bool(value != value):
            raise ValueError(_missing(row))
        try:
            codes[row] = found.setdefault(value, len(found))
        except TypeError as error:
            raise TypeError(
                f"units must be hashable ids, such as numbers or words; got {value!r}."
            ) from error
    return codes, len(found)


def share_out(codes: np.ndarray, n_units: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the rows that are used (None for all of them) and the weight of each.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        The unit of each row.
    n_units : int
        Number of units.
    """
    sizes = np.bincount(codes, minlength=n_units)
    rank = np.empty_like(codes)
    if sizes.max(initial=0) > MOST_RECORDS:
        order = np.argsort(codes, kind="stable")
        rank[order] = np.arange(codes.shape[0]) - (np.cumsum(sizes) - sizes)[codes[order]]
    return share_rows(codes, rank, sizes)


def share_rows(
    codes: np.ndarray, rank: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the rows that are used (None for all of them) and the weight of each.

    Parameters
    ----------
    codes : ndarray of int of shape (n_rows,)
        The unit of each row.
    rank : ndarray of int of shape (n_rows,)
        How many rows of its unit come before it, in the whole table; not read where no unit has
        more than `MOST_RECORDS`.
    sizes : ndarray of int
        Number of rows of each unit in the whole table.
    """
    used = None
    if sizes.max(initial=0) > MOST_RECORDS:
        size = sizes[codes]
        # the ranks at which rank * MOST / size passes a whole number: MOST of them
        kept = (rank * MOST_RECORDS) // size != ((rank - 1) * MOST_RECORDS) // size
        used = np.flatnonzero((size <= MOST_RECORDS) | kept)
        codes = codes[used]
        sizes = np.minimum(sizes, MOST_RECORDS)
    return used, (WHOLE // np.maximum(sizes, 1))[codes] / WHOLE


def sum_fractions(weight: np.ndarray, kernel: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Add integers of rows by their weights, in units of 1 / `WHOLE`: exact.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Of :func:`share_out`.
    kernel : callable
        Returns the integers of the rows with the given numbers, added up.
    """
    whole = np.rint(weight * WHOLE).astype(np.int64)
    parts = [w * kernel(np.flatnonzero(whole == w)) for w in np.unique(whole)]
    return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True, eq=False)
class Members:
    """The rows of every unit: whoever is sampled brings all of hers."""

    order: np.ndarray
    """Row numbers, unit by unit."""
    starts: np.ndarray
    """Those of unit u are ``order[starts[u]:starts[u + 1]]``."""

    @classmethod
    def of(cls, codes: np.ndarray, n_units: int) -> Members:
        """Group rows by their units."""
        sizes = np.bincount(codes, minlength=n_units)
        return cls(np.argsort(codes, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]))

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.starts.shape[0]) - 1

    def rows(self, units: np.ndarray) -> np.ndarray:
        """Return the row numbers of some units."""
        first = self.starts[units]
        sizes = self.starts[units + 1] - first
        ends = np.cumsum(sizes)
        places = np.arange(ends[-1] if ends.size else 0) + np.repeat(first - ends + sizes, sizes)
        return np.asarray(self.order[places])

    def blocks(
        self, units: np.ndarray | None, size: int, weight: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield row numbers and weights of some units (None for all), ``size`` units at a time.

        The last bits of a row of a matrix product depend on its place and on the number of rows. So
        both must not depend on other records than its own person's, of which there may be any
        number: a block has the same place for each of several persons, for her first records, then
        for the second ones, and so on. Where somebody has none, any row stands in with weight 0.
        """
        units = np.arange(self.n_units) if units is None else units
        for start in range(0, units.shape[0], size):
            group = units[start : start + size]
            first = self.starts[group]
            count = self.starts[group + 1] - first
            for rank in range(int(count.max())):
                there = count > rank
                rows = self.order[np.where(there, first + rank, 0)]
                yield rows, np.where(there, weight[rows], 0.0)


def _missing(row: int) -> str:
    return (
        f"units has no id for record {row}: whose it is must be known. Give every such record an "
        "id of its own if each is another person's, or leave those records out by a rule that "
        "does not look at the data."
    )
