"""Where events lie: the public grid of chains and steps, and checks of what is put on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes._validation import check_integer

__all__ = [
    "Grid",
    "check_categories",
    "check_codes",
    "check_grid_is_used",
    "check_within",
    "grid_of_cells",
    "grid_of_rows",
    "place_events",
    "refuse_lengths",
]

_LARGEST_WHOLE = 2.0**53  # beyond it doubles skip integers


@dataclass(frozen=True)
class Grid:
    """Chains of steps, laid end to end."""

    lengths: np.ndarray
    """Number of steps of each chain."""
    one_event_per_step: bool
    """Whether each row of the event table is a step of its own."""

    @property
    def starts(self) -> np.ndarray:
        """Where chains begin; the last entry is the number of steps."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @property
    def n_steps(self) -> int:
        """Number of steps of all chains."""
        return int(self.lengths.sum())


def check_codes(X: np.ndarray) -> np.ndarray:
    """Return the event table as integers, or say what is wrong with it."""
    if X.dtype.kind not in "biuf" or not _are_whole(X):
        raise ValueError(
            "X must hold integer codes 0, 1, ... of categories; it has fractional values, numbers "
            "too large to be codes, or something else than numbers. Encode the columns first, for "
            "example with OrdinalEncoder and public categories."
        )
    if X.size and X.min() < 0:
        raise ValueError(
            "Negative values in data: X must hold category codes 0, 1, ...; a missing value needs "
            "a category of its own."
        )
    return X.astype(np.int64, copy=False)


def check_categories(categories: Any, codes: np.ndarray) -> np.ndarray:
    """Return the number of categories of each column; None reads it off the codes."""
    n_fields = codes.shape[1]
    if categories is None:
        return codes.max(axis=0) + 1
    if np.ndim(categories) == 0:
        categories = [categories] * n_fields
    if len(categories) != n_fields:
        raise ValueError(
            f"categories must be one number, or one for each of the {n_fields} columns of X; got "
            f"{len(categories)} numbers."
        )
    sizes = [check_integer("categories", size, low=1) for size in categories]
    check_within(codes, np.array(sizes, dtype=np.int64))
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


def grid_of_rows(n_rows: int, lengths: Any) -> Grid:
    """Each row is a step; ``lengths`` cuts the rows into chains."""
    if lengths is None:
        return Grid(np.array([n_rows], dtype=np.int64), True)
    if np.ndim(lengths) != 1:
        raise ValueError(f"lengths must list the number of rows of each chain; got {lengths!r}.")
    checked = np.array([check_integer("lengths", n, low=1) for n in lengths], dtype=np.int64)
    if checked.sum() != n_rows:
        raise ValueError(
            f"lengths must add up to the number of rows of X; they add up to {checked.sum()}, and "
            f"X has {n_rows} rows."
        )
    return Grid(checked, True)


def refuse_lengths(lengths: Any) -> None:
    """Refuse ``lengths`` where events are placed by times and groups."""
    if lengths is not None:
        raise ValueError("lengths cuts rows into chains; it does not go with times or groups.")


def grid_of_cells(n_groups: int, n_times: int) -> Grid:
    """Every group is a chain of ``n_times`` steps."""
    return Grid(np.full(n_groups, n_times, dtype=np.int64), False)


def check_grid_is_used(n_times: Any, labels: Any, times: Any, groups: Any) -> None:
    """Refuse a grid that the events are not placed on: all of them would lie in its first cell."""
    for described, size, placed in (
        ("n_times", n_times, times),
        ("group_labels", None if labels is None else np.size(labels), groups),
    ):
        if size is not None and placed is None and size != 1:
            name = "times" if described == "n_times" else "groups"
            raise ValueError(
                f"{described} describes {size} {name}, but {name} was not passed to fit, so that "
                f"no event can be placed. Pass {name}, or leave {described} out."
            )


def place_events(
    n_events: int, times: Any, groups: Any, n_times: int | None, labels: Sequence[Any] | None
) -> tuple[np.ndarray, int, np.ndarray]:
    """Find each event's step.

    Returns the steps, the number of times and the labels of the groups. ``n_times=None`` and
    ``labels=None`` take them from the events.
    """
    when = _one_per_event("times", times, n_events)
    when = np.zeros(n_events, dtype=np.int64) if when is None else _whole_times(when)
    if n_times is None:
        n_times = int(when.max(initial=0)) + 1
    if when.max(initial=0) >= n_times:
        raise ValueError(
            f"times must lie in 0..{n_times - 1} for n_times={n_times}; got {when.max()}."
        )
    where = _one_per_event("groups", groups, n_events)
    if where is None:
        return when, n_times, np.array([0]) if labels is None else _check_labels(labels)
    if labels is None:
        known, code = np.unique(where, return_inverse=True)
        return code * n_times + when, n_times, known
    known = _check_labels(labels)
    code = _find(where, known)
    if np.any(code < 0):
        stranger = where[code < 0][:1].tolist()[0]
        raise ValueError(
            f"groups holds {stranger!r}, which is not among the group_labels. Add every group that "
            "may occur, or drop those events."
        )
    return code * n_times + when, n_times, known


def _check_labels(labels: Any) -> np.ndarray:
    known = np.asarray(labels)
    if known.ndim != 1 or not known.size or len(set(known.tolist())) != known.shape[0]:
        raise ValueError(
            f"group_labels must list every group once, and at least one; got {labels!r}."
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


def _whole_times(times: np.ndarray) -> np.ndarray:
    if times.dtype.kind not in "iuf" or not _are_whole(times):
        raise ValueError("times must be integers 0, 1, ... that count the steps of a chain.")
    if times.min(initial=0) < 0:
        raise ValueError(f"times must be at least 0; got {times.min()}.")
    return times.astype(np.int64)


def _are_whole(values: np.ndarray) -> bool:
    """Tell whether all numbers are whole and survive as 64-bit integers."""
    if values.dtype.kind != "f":
        return True
    return bool(np.all((values == np.floor(values)) & (np.abs(values) <= _LARGEST_WHOLE)))
