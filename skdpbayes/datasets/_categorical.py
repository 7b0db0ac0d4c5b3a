"""Tables of categories alone: UCI Mushroom and the congressional votes of 1984."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from skdpbayes.datasets import _encoding as encoding_tools
from skdpbayes.datasets import _files as files

# The letters of the code book, in its order, those that never occur in the file included.
MUSHROOM_CATEGORIES: dict[str, tuple[str, ...]] = {
    name: tuple(letters)
    for name, letters in {
        "cap-shape": "bcxfks",
        "cap-surface": "fgys",
        "cap-color": "nbcgrpuewy",
        "bruises": "tf",
        "odor": "alcyfmnps",
        "gill-attachment": "adfn",
        "gill-spacing": "cwd",
        "gill-size": "bn",
        "gill-color": "knbhgropuewy",
        "stalk-shape": "et",
        "stalk-root": "bcuezr?",
        "stalk-surface-above-ring": "fyks",
        "stalk-surface-below-ring": "fyks",
        "stalk-color-above-ring": "nbcgopewy",
        "stalk-color-below-ring": "nbcgopewy",
        "veil-type": "pu",
        "veil-color": "nowy",
        "ring-number": "not",
        "ring-type": "ceflnpsz",
        "spore-print-color": "knbhrouwy",
        "population": "acnsvy",
        "habitat": "glmpuwd",
    }.items()
}
_MUSHROOM_CLASSES = ("e", "p")
_MUSHROOM_DESCR = """Mushroom (UCI), 8,124 records of 22 categorical columns.

Is a mushroom of the Agaricus and Lepiota family edible (0) or poisonous (1)? "?" marks a stalk
root that was not recorded and is a category of its own.

License: CC BY 4.0. Cite: Mushroom (1981), UCI Machine Learning Repository,
https://doi.org/10.24432/C5959T.
"""

VOTES = [
    *("handicapped-infants", "water-project-cost-sharing"),
    *("adoption-of-the-budget-resolution", "physician-fee-freeze", "el-salvador-aid"),
    *("religious-groups-in-schools", "anti-satellite-test-ban", "aid-to-nicaraguan-contras"),
    *("mx-missile", "immigration", "synfuels-corporation-cutback", "education-spending"),
    *("superfund-right-to-sue", "crime", "duty-free-exports"),
    "export-administration-act-south-africa",
]
VOTES_CATEGORIES: dict[str, tuple[str, ...]] = dict.fromkeys(VOTES, ("n", "y", "?"))
_VOTES_CLASSES = ("democrat", "republican")
_VOTES_DESCR = """Congressional voting records (UCI), 435 representatives, 16 votes of 1984.

Is a member of the US House a democrat (0) or a republican (1)? Votes are n, y or "?", which means
that the member took no known position; it is a category of its own.

License: CC BY 4.0. Cite: Congressional Voting Records (1987), UCI Machine Learning Repository,
https://doi.org/10.24432/C5C01P.
"""


def load_mushroom(
    data_home: str | os.PathLike[str] | None = None,
    *,
    encoding: str | None = "codes",
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the Mushroom data (binary classification of categorical records).

    Parameters
    ----------
    data_home : path, default=None
        Folder with ``agaricus-lepiota.data``. None: the folder named by the environment variable
        ``SKDPBAYES_DATA``, then OpenML (needs pandas).
    encoding : {"codes", None}, default="codes"
        ``"codes"``: integers, the position in ``categories``. ``None``: the letters.
    as_frame : bool, default=False
        Return pandas objects.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    mushroom : :class:`~sklearn.utils.Bunch`
        ``data``, ``target`` (1: poisonous), ``feature_names``, ``target_names``, ``DESCR`` and the
        public metadata: ``categories`` (column to labels), ``n_categories``, ``bounds`` of the
        codes.
    """
    path = files.locate("Mushroom", "agaricus-lepiota.data", data_home)
    if path is None:
        table, labels = _fetched("Mushroom", "agaricus-lepiota.data", 24, MUSHROOM_CATEGORIES)
    else:
        table = files.read_columns(path, ["class", *MUSHROOM_CATEGORIES], frozenset())
        labels = table.pop("class")
    return _pack(
        table,
        encoding_tools.category_codes(labels, _MUSHROOM_CLASSES, "class"),
        MUSHROOM_CATEGORIES,
        encoding,
        as_frame=as_frame,
        return_X_y=return_X_y,
        target_names=["edible", "poisonous"],
        DESCR=_MUSHROOM_DESCR,
    )


def load_house_votes(
    data_home: str | os.PathLike[str] | None = None,
    *,
    encoding: str | None = "codes",
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the congressional voting records of 1984 (binary classification, 435 records).

    Parameters
    ----------
    data_home : path, default=None
        Folder with ``house-votes-84.data``. None: the folder named by the environment variable
        ``SKDPBAYES_DATA``, then OpenML (needs pandas).
    encoding : {"codes", None}, default="codes"
        ``"codes"``: 0 for n, 1 for y, 2 for "?". ``None``: the letters.
    as_frame : bool, default=False
        Return pandas objects.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    votes : :class:`~sklearn.utils.Bunch`
        ``data``, ``target`` (1: republican), ``feature_names``, ``target_names``, ``DESCR`` and
        the public metadata: ``categories``, ``n_categories``, ``bounds`` of the codes.
    """
    path = files.locate("House votes", "house-votes-84.data", data_home)
    if path is None:
        table, labels = _fetched("House votes", "house-votes-84.data", 56, VOTES_CATEGORIES)
    else:
        table = files.read_columns(path, ["party", *VOTES_CATEGORIES], frozenset())
        labels = table.pop("party")
    return _pack(
        table,
        encoding_tools.category_codes(labels, _VOTES_CLASSES, "party"),
        VOTES_CATEGORIES,
        encoding,
        as_frame=as_frame,
        return_X_y=return_X_y,
        target_names=list(_VOTES_CLASSES),
        DESCR=_VOTES_DESCR,
    )


def _fetched(
    dataset: str, file: str, data_id: int, categories: encoding_tools.Categories
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    bunch = files.fetch(dataset, file, data_id)
    table = files.fetched_columns(bunch, list(categories), frozenset())
    return table, bunch.target.to_numpy(dtype=str)


def _pack(
    table: dict[str, np.ndarray],
    target: np.ndarray,
    categories: encoding_tools.Categories,
    encoding: str | None,
    **rest: Any,
) -> Any:
    encoding_tools.check_encoding(encoding, ("codes",))
    codes, _ = encoding_tools.binned(table, {}, categories)  # checks the letters in both cases
    counts = encoding_tools.counts_of(categories)
    return encoding_tools.pack(
        codes if encoding == "codes" else table,
        target,
        feature_names=list(categories),
        categories=dict(categories),
        n_categories=counts,
        bounds={name: (0, int(k) - 1) for name, k in zip(categories, counts, strict=True)},
        **rest,
    )
