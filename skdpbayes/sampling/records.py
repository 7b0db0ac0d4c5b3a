"""What models of your own share: records in blocks, and the draws that are released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from skdpbayes.fitting.units import Members, share_out, unit_codes
from skdpbayes.privacy.guarantee import PrivacyGuarantee, Unit

ALONE = "{} computes each row of its result from that row's record alone"
# Numbers that a function of a block of records may return at a time.
BLOCK_NUMBERS = 1 << 20
# All of them are looked at as often as one of them has records.
PERSONS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Draws from a private posterior of your own model.

    Attributes
    ----------
    draws : ndarray of shape (n_draws, ...)
        The draws; all of them are paid for.
    mean : ndarray
        Their mean; for a chain, the mean of all states in the tail, weighted by the step.
    temperature : float or None
        Of the posterior that was sampled; None where only the sampler's theory says what it is.
    privacy_ : PrivacyGuarantee
        What it cost.
    plan : object
        The public numbers of the release, as the planning function returns them.
    """

    draws: np.ndarray
    mean: np.ndarray
    temperature: float | None
    privacy_: PrivacyGuarantee
    plan: Any


@dataclass(frozen=True, eq=False)
class OwnRecords:
    """Records of a model of one's own, and whose they are."""

    data: Any
    """An array or a tuple of arrays; of a person with very many records, those that are used."""
    n: int
    """Number of units: of records or, with ``units``, of persons."""
    unit: Unit = "record"
    weight: np.ndarray | None = None
    """Weights of the records, those of a person at most 1 together; None where each counts 1."""
    owner: np.ndarray | None = None
    """The person of each record."""

    @cached_property
    def members(self) -> Members | None:
        """The records of every person, to sample persons; None where each record is a unit."""
        return None if self.owner is None else Members.of(self.owner, self.n)


def read_records(data: Any, units: Any = None) -> OwnRecords:
    """Check the form of the data and weight each person's records to one."""
    n = count_records(data)
    data = as_arrays(data)
    if units is None:
        return OwnRecords(data, n)
    codes, n_units = unit_codes(units, n)
    used, weight = share_out(codes, n_units)
    if used is not None:
        data, codes = pick(data, used), codes[used]
    return OwnRecords(data, n_units, "person", weight, codes)


def count_records(data: Any) -> int:
    """Return the number of records of an array, or of a tuple of arrays of the same length."""
    lengths = {len(part) for part in data} if isinstance(data, tuple) else {len(data)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "data must be an array with one entry per record, or a tuple of such arrays of the "
            f"same length, at least one record; got lengths {sorted(lengths)}."
        )
    return int(lengths.pop())


def as_arrays(data: Any) -> Any:
    """Turn sequences into arrays, so that records can be picked."""
    if isinstance(data, tuple):
        return tuple(np.asarray(part) for part in data)
    return np.asarray(data)


def pick(data: Any, rows: Any) -> Any:
    """Return some records in the form of ``data``."""
    if isinstance(data, tuple):
        return tuple(part[rows] for part in data)
    return data[rows]


def blocks(
    data: Any,
    weight: np.ndarray | None,
    members: Members | None,
    width: int,
    batch: np.ndarray | None = None,
) -> Iterator[tuple[Any, np.ndarray | None]]:
    """Yield records (or persons) of a batch and their weights; ``width`` numbers per record fit.

    Which records come together depends on public numbers and, where persons have any number of
    records, on each person's own alone.
    """
    size = max(1, BLOCK_NUMBERS // width)
    if members is not None:
        assert weight is not None
        for rows, shares in members.blocks(batch, min(size, PERSONS_AT_ONCE), weight):
            yield pick(data, rows), shares
        return
    if batch is not None:
        data, weight = pick(data, batch), None if weight is None else weight[batch]
    n_rows = count_records(data) if batch is None else batch.shape[0]
    for first in range(0, n_rows, size):
        part = slice(first, first + size)
        yield pick(data, part), None if weight is None else weight[part]


def check_per_record(function: Callable[[Any, Any], Any], parameters: Any, records: Any) -> None:
    """Check that a function treats each record by itself; run it on made-up records.

    The first record is left out, alone, and beside another one; every row of the result must stay
    what it was. A function that standardizes its input or returns a mean fails.

    Parameters
    ----------
    function : callable
        What `one_posterior_sample` or `chain` will be given: (parameters, records) to one row per
        record.
    parameters : array-like
        Where to evaluate it.
    records : array-like or tuple of array-like
        At least three records, made up: whether this raises is not private.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.sampling import check_per_record
    >>> check_per_record(lambda mean, x: x[:, None] - mean, np.zeros(1), [0.0, 1.0, 4.0])
    >>> check_per_record(lambda mean, x: x[:, None] - x.mean(), np.zeros(1), [0.0, 1.0, 4.0])
    Traceback (most recent call last):
    ValueError: row 0 of the result changes with the other records: ...
    """
    n = count_records(records)
    if n < 3:
        raise ValueError(f"records must be at least three; got {n}.")
    records, parameters = as_arrays(records), np.asarray(parameters)
    whole = np.asarray(function(parameters, records), dtype=np.float64)
    if whole.shape[:1] != (n,):
        raise ValueError(f"the result must have one row per record ({n}); got {whole.shape}.")
    for kept in (np.arange(1), np.arange(1, n), np.arange(n)[::-1]):
        part = np.asarray(function(parameters, pick(records, kept)), dtype=np.float64)
        for row, values in zip(kept.tolist(), part, strict=True):
            if not np.allclose(values, whole[row], rtol=1e-6, atol=1e-9, equal_nan=True):
                raise ValueError(
                    f"row {row} of the result changes with the other records: the function must "
                    "compute it from that record alone (no mean, no standardization over records)."
                )
