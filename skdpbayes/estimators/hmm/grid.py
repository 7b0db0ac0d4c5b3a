"""Where events lie: the public grid of sequences and steps, and checks of what is put on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpbayes import models
from skdpbayes._validation import check_codes, check_integer
from skdpbayes.fitting.records import Block
from skdpbayes.fitting.units import sum_fractions

LARGEST_TABLE = 2**40  # counts; eight terabytes, and far from where products of sizes wrap


@dataclass(frozen=True, eq=False)
class Grid:
    """Sequences of steps, laid end to end."""

    lengths: np.ndarray
    """Number of steps of each sequence."""
    one_event_per_step: bool
    """Whether each row of the event table is a step of its own."""

    @property
    def starts(self) -> np.ndarray:
        """Where sequences begin; the last entry is the number of steps."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @property
    def n_steps(self) -> int:
        """Number of steps of all sequences."""
        return int(self.lengths.sum())


@dataclass(frozen=True, eq=False)
class Layout:
    """The table of counts: steps by values of the fields; public."""

    categories: np.ndarray
    """Number of values of each field."""
    grid: Grid
    labels: np.ndarray | None = None
    """Names of the sequences; None where each row is a step."""

    def __post_init__(self) -> None:
        size = self.grid.n_steps * int(self.categories.sum())
        if size > LARGEST_TABLE:
            raise ValueError(
                f"{self.grid.n_steps} steps with {int(self.categories.sum())} values each are more "
                "counts than any memory holds; use fewer categories, times or sequences."
            )

    @property
    def n_times(self) -> int | None:
        """Number of times of every sequence; None where each row is a step."""
        return None if self.labels is None else int(self.grid.lengths[0])

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Shape steps as sequences x times where there is such a grid."""
        if self.labels is None:
            return values
        return values.reshape(self.labels.shape[0], -1, *values.shape[1:])

    def flat(self, values: np.ndarray) -> np.ndarray:
        """Invert `shaped`: one row per step."""
        return values if self.labels is None else values.reshape(-1, *values.shape[2:])


def count_block(block: Block, layout: Layout) -> np.ndarray:
    """Count the values of all fields in every step, over one block of events.

    Weighted events are counted in units of 1 / WHOLE.
    """
    how = (layout.grid.n_steps, layout.categories)
    X = block.X.astype(np.int64, copy=False)  # chunks are read anew, in their own type
    steps = block.target
    if block.weight is None:
        return models.count_events(X, steps, *how)
    assert steps is not None
    return sum_fractions(block.weight, lambda rows: models.count_events(X[rows], steps[rows], *how))


class Seen(NamedTuple):
    """What the reading pass learns of a chunk of events."""

    largest: np.ndarray
    """Code of each field."""
    last: int
    """Time."""
    sequences: np.ndarray | None
    """Those that occur."""


def look_at_events(
    categories: np.ndarray | None,
    n_times: int | None,
    labels: Sequence[Any] | None,
    remedy: str,
    X: np.ndarray,
    times: Any,
    sequences: Any,
) -> Seen:
    """Check a chunk of events; what is raised quotes no value."""
    codes = check_codes("X", X, remedy)
    if categories is not None:
        check_within(codes, categories)
    when = _one_per_event("times", times, codes.shape[0])
    last = 0 if when is None else int(check_codes("times", when).max(initial=0))
    if n_times is not None and last >= n_times:
        raise ValueError(f"times must lie in 0..{n_times - 1} for n_times={n_times}.")
    where = _one_per_event("sequences", sequences, codes.shape[0])
    if where is not None and labels is not None:
        if np.any(_find(where, _check_labels(labels)) < 0):
            raise ValueError(
                "sequences holds one that is not among the sequence_labels. Add every sequence "
                "that may occur, or drop those events."
            )
        where = None
    return Seen(codes.max(axis=0), last, None if where is None else np.unique(where))


def step_of(n_times: int, labels: Any, n_events: int, times: Any, sequences: Any) -> np.ndarray:
    """Return the steps of the events of a chunk that has been checked."""
    return place_on(n_events, times, sequences, None, n_times=n_times, labels=labels)[0]


def check_categories(categories: Any, n_fields: int) -> np.ndarray:
    """Return the public number of categories of each column."""
    if np.ndim(categories) == 0:
        categories = [categories] * n_fields
    if len(categories) != n_fields:
        raise ValueError(
            f"categories must be one number, or one for each of the {n_fields} columns of X; got "
            f"{len(categories)} numbers."
        )
    sizes = [check_integer("categories", size, low=1) for size in categories]
    if max(sizes) > LARGEST_TABLE:
        raise ValueError(f"categories must be at most {LARGEST_TABLE}; got {max(sizes)}.")
    return np.array(sizes, dtype=np.int64)


def check_within(codes: np.ndarray, categories: np.ndarray) -> None:
    """Refuse a code that is not below its column's number of categories."""
    if not codes.shape[0]:
        return
    beyond = np.flatnonzero(codes.max(axis=0) >= categories)
    if beyond.size:
        raise ValueError(
            f"column {beyond[0]} of X holds a code beyond its categories={categories[beyond[0]]}: "
            f"codes must lie in 0..{categories[beyond[0]] - 1}."
        )


def place_on(
    n_events: int,
    times: Any,
    sequences: Any,
    lengths: Any,
    *,
    n_times: int | None = None,
    labels: Sequence[Any] | None = None,
) -> tuple[np.ndarray, Grid, np.ndarray | None]:
    """Find each event's step on the grid.

    Returns the steps, the grid and the names of the sequences (None where each row is a step).
    ``n_times=None`` and ``labels=None`` take them from the events.
    """
    if times is None and sequences is None:
        return np.arange(n_events), _grid_of_rows(n_events, lengths), None
    if lengths is not None:
        raise ValueError(
            "lengths cuts rows into sequences; it does not go with times or sequences."
        )
    when = _one_per_event("times", times, n_events)
    when = np.zeros(n_events, dtype=np.int64) if when is None else check_codes("times", when)
    last = int(when.max(initial=0))
    if n_times is None:
        n_times = last + 1
    if last >= n_times:
        raise ValueError(f"times must lie in 0..{n_times - 1} for n_times={n_times}; got {last}.")
    where = _one_per_event("sequences", sequences, n_events)
    if where is None:
        known = np.array([0]) if labels is None else _check_labels(labels)
        code = np.zeros(n_events, dtype=np.int64)
    elif labels is None:
        known, code = np.unique(where, return_inverse=True)
    else:
        known = _check_labels(labels)
        code = _find(where, known)
        if np.any(code < 0):
            stranger = where[code < 0][:1].tolist()[0]
            raise ValueError(
                f"sequences holds {stranger!r}, which is not among the sequence_labels. Add every "
                "sequence that may occur, or drop those events."
            )
    if known.shape[0] * n_times > LARGEST_TABLE:
        raise ValueError(
            f"{known.shape[0]} sequences of {n_times} times are more steps than any memory holds; "
            "count times from 0."
        )
    grid = Grid(np.full(known.shape[0], n_times, dtype=np.int64), one_event_per_step=False)
    return code * n_times + when, grid, known


def check_grid_is_used(n_times: Any, labels: Any, times: Any, sequences: Any) -> None:
    """Refuse a grid that the events are not placed on: all of them would lie in its first cell."""
    for described, size, name, placed in (
        ("n_times", n_times, "times", times),
        ("sequence_labels", None if labels is None else np.size(labels), "sequences", sequences),
    ):
        if size is not None and placed is None and size != 1:
            raise ValueError(
                f"{described} describes {size} {name}, but {name} was not passed to fit, so that "
                f"no event can be placed. Pass {name}, or leave {described} out."
            )


def _grid_of_rows(n_rows: int, lengths: Any) -> Grid:
    """Each row is a step; ``lengths`` cuts the rows into sequences."""
    if lengths is None:
        return Grid(np.array([n_rows], dtype=np.int64), one_event_per_step=True)
    if np.ndim(lengths) != 1:
        raise ValueError(f"lengths must list the number of rows of each sequence; got {lengths!r}.")
    checked = [check_integer("lengths", n, low=1) for n in lengths]
    if sum(checked) != n_rows:
        raise ValueError(
            f"lengths must add up to the number of rows of X; they add up to {sum(checked)}, and "
            f"X has {n_rows} rows."
        )
    return Grid(np.array(checked, dtype=np.int64), one_event_per_step=True)


def _check_labels(labels: Any) -> np.ndarray:
    known = np.asarray(labels)
    if known.ndim != 1 or not known.size or len(set(known.tolist())) != known.shape[0]:
        raise ValueError(
            f"sequence_labels must list every sequence once, and at least one; got {labels!r}."
        )
    return known


def _find(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Place of each value among the known ones; -1 where it is not one of them."""
    if "O" in (values.dtype.kind, known.dtype.kind):  # objects may have no order
        place = {label: i for i, label in enumerate(known.tolist())}
        return np.array([place.get(value, -1) for value in values.tolist()], dtype=np.int64)
    order = np.argsort(known)
    slot = np.searchsorted(known, values, sorter=order)
    code = order[np.minimum(slot, known.shape[0] - 1)]
    return np.where(known[code] == values, code, -1)


def _one_per_event(name: str, values: Any, n_events: int) -> np.ndarray | None:
    if values is None:
        return None
    values = np.asarray(values)
    if values.shape != (n_events,):
        raise ValueError(
            f"{name} must hold one entry for each of the {n_events} rows of X; got an array of "
            f"shape {values.shape}."
        )
    return values
