"""Fatal crashes on US roads (FARS) as an event log."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from skdpbayes._validation import check_choice
from skdpbayes.datasets import _encoding as encoding_tools
from skdpbayes.datasets import _files as files

N_TIMES = 48
_FILE = "fars/fars_2013_2016_tidy.csv"
# years 2013 to 2016
_BOOK = json.loads(Path(__file__).with_name("fars_codebook.json").read_text(encoding="utf-8"))
STATES = {int(code): tuple(place) for code, place in _BOOK["states"].items()}
"""Name and census region."""
REGIONS = tuple(_BOOK["regions"])
BINARY_FIELDS = (
    *("drunk_driver", "multi_fatal", "pedestrian", "multi_vehicle", "dark", "adverse_weather"),
    *("work_zone", "intersection", "on_nhs", "weekend"),
)
CODED: dict[str, dict[int, str]] = {
    **{
        field: {int(code): label for code, label in _BOOK[field].items()}
        for field in ("type_man_coll", "category_harm_ev", "lgt_cond", "weather")
    },
    **{name: {0: "no", 1: "yes"} for name in BINARY_FIELDS},
}
_DEFAULT_FIELDS = ("type_man_coll", "category_harm_ev", "drunk_driver", "dark", "adverse_weather")

_DESCR = """Fatal crashes in the US, 2013 to 2016: 126,863 events (NHTSA FARS).

One row an event, with its state (51 with the District of Columbia) or census region (4), its month
(0: January 2013, 47: December 2016) and categorical fields. The grid of places and months and the
categories are public constants of the code book, those that never occur included.

License: public domain (US government). Cite: National Highway Traffic Safety Administration,
Fatality Analysis Reporting System, 2013-2016.
"""


def load_fars(
    data_home: str | os.PathLike[str] | None = None,
    *,
    fields: Sequence[str] | None = None,
    sequences: str = "state",
    target: str | None = None,
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the fatal crashes as an event log: integer-coded fields, months and places.

    The table is prepared from the yearly files and not on OpenML, so a folder is needed.

    Parameters
    ----------
    data_home : path, default=None
        Folder with ``fars/fars_2013_2016_tidy.csv`` (plain or ``.gz``). None: the folder named by
        the environment variable ``SKDPBAYES_DATA``.
    fields : sequence of str, default=None
        Columns of the event table; among ``type_man_coll``, ``category_harm_ev``, ``lgt_cond``,
        ``weather`` and the yes/no fields ``drunk_driver``, ``multi_fatal``, ``pedestrian``,
        ``multi_vehicle``, ``dark``, ``adverse_weather``, ``work_zone``, ``intersection``,
        ``on_nhs``, ``weekend``. None: the first two and ``drunk_driver``, ``dark``,
        ``adverse_weather``. Every field costs budget.
    sequences : {"state", "region"}, default="state"
        What ``sequences`` holds: the 51 states or the 4 census regions.
    target : str, default=None
        A yes/no field to return as ``target``; it may not be among ``fields``.
    as_frame : bool, default=False
        Return ``data`` and ``target`` as pandas objects.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    fars : :class:`~sklearn.utils.Bunch`
        ``data`` (n_events, n_fields) of codes 0, 1, ..., ``target`` (or None), ``times`` and
        ``sequences`` (one integer an event), ``feature_names``, ``target_names``, ``DESCR`` and the
        public metadata: ``n_times``, ``time_names``, ``sequence_names``, ``categories`` (field to
        labels), ``n_categories``, ``bounds`` of the codes, ``source_codes`` (field to the codes
        of the code book).
    """
    chosen = _checked_fields(_DEFAULT_FIELDS if fields is None else fields, target)
    check_choice("sequences", sequences, ("state", "region"))
    path = files.locate("FARS", _FILE, data_home)
    if path is None:
        raise files.unavailable("FARS", _FILE, "no local file, and the set is not on OpenML")
    wanted = [*chosen, "state", "month_index", *([] if target is None else [target])]
    columns = _read(path, wanted)
    source = {name: np.array(list(CODED[name])) for name in chosen}
    categories = {name: tuple(CODED[name].values()) for name in chosen}
    counts = encoding_tools.counts_of(categories)
    place, place_names = _sequences(columns["state"], sequences)
    times = columns["month_index"]
    if times.min() < 0 or times.max() >= N_TIMES:
        raise ValueError(f"{path}: month_index must lie in 0..{N_TIMES - 1}")
    return encoding_tools.pack(
        np.column_stack([_positions(columns[name], source[name], name) for name in chosen]),
        None if target is None else columns[target],
        feature_names=chosen,
        as_frame=as_frame,
        return_X_y=return_X_y,
        target_names=None if target is None else [f"not {target}", target],
        times=times,
        sequences=place,
        n_times=N_TIMES,
        time_names=[f"{2013 + k // 12}-{k % 12 + 1:02d}" for k in range(N_TIMES)],
        sequence_names=place_names,
        categories=categories,
        n_categories=counts,
        bounds={name: (0, int(k) - 1) for name, k in zip(chosen, counts, strict=True)},
        source_codes=source,
        DESCR=_DESCR,
    )


def _checked_fields(fields: Sequence[str], target: str | None) -> list[str]:
    chosen = [fields] if isinstance(fields, str) else list(fields)
    unknown = [name for name in chosen if name not in CODED]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"fields must be distinct names, at least one, among {list(CODED)}, got {chosen}"
        )
    if target is not None:
        allowed = [name for name in BINARY_FIELDS if name not in chosen]
        check_choice("target", target, allowed)
    return chosen


def _read(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Read some integer columns of a comma separated file with a header."""
    rows = files.lines(path)
    header = next(csv.reader([next(rows)]))
    missing = [name for name in names if name not in header]
    if missing:
        raise ValueError(f"{path} has no columns {missing}")
    values = np.loadtxt(
        rows,
        delimiter=",",
        usecols=[header.index(name) for name in names],
        dtype=np.int64,
        ndmin=2,
    )
    return {name: values[:, k].copy() for k, name in enumerate(names)}


def _positions(column: np.ndarray, codes: np.ndarray, name: str) -> np.ndarray:
    """Return the position of each value among the rising ``codes`` of the code book."""
    position = np.minimum(np.searchsorted(codes, column), len(codes) - 1)
    unknown = codes[position] != column
    if unknown.any():
        raise ValueError(
            f"column {name!r} holds {column[unknown][0]}, which is not in its code book"
        )
    return position


def _sequences(state: np.ndarray, sequences: str) -> tuple[np.ndarray, list[str]]:
    position = _positions(state, np.array(list(STATES)), "state")
    if sequences == "state":
        return position, [name for name, _ in STATES.values()]
    region = np.array([REGIONS.index(part) for _, part in STATES.values()])
    return region[position], list(REGIONS)
