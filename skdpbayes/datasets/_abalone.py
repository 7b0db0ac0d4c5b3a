"""UCI Abalone."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from skdpbayes._validation import check_choice
from skdpbayes.datasets import _encoding as encoding_tools
from skdpbayes.datasets import _files as files

# The file holds millimeters and grams divided by 200. Bounds are round physical figures: shells up
# to 200 mm long and wide and 100 mm high, animals up to 600 g, the parts less.
NUMERIC_BOUNDS: dict[str, tuple[float, float]] = {
    "length": (0.0, 1.0),
    "diameter": (0.0, 1.0),
    "height": (0.0, 0.5),
    "whole_weight": (0.0, 3.0),
    "shucked_weight": (0.0, 1.5),
    "viscera_weight": (0.0, 1.0),
    "shell_weight": (0.0, 1.0),
}
CATEGORIES: dict[str, tuple[str, ...]] = {"sex": ("F", "I", "M")}
RINGS_BOUNDS = (1, 30)

_COLUMNS = ["sex", *NUMERIC_BOUNDS]
_OPENML_ID = 183
_OLD_FROM = 10  # rings; the split into two classes that studies of this set often use

_DESCR = """Abalone (UCI), 4,177 records.

The age of abalone (rings + 1.5 years) from sex (F, M, I: infant) and seven measurements. Lengths
and weights are millimeters and grams divided by 200; values above the public bounds are clipped
by the encodings.

License: CC BY 4.0. Cite: W. Nash, T. Sellers, S. Talbot, A. Cawthorn and W. Ford (1994), Abalone,
UCI Machine Learning Repository, https://doi.org/10.24432/C55C7W.
"""


def load_abalone(
    data_home: str | os.PathLike[str] | None = None,
    *,
    target: str = "rings",
    encoding: str | None = "raw",
    as_frame: bool = False,
    return_X_y: bool = False,
) -> Any:
    """Load the Abalone data (regression, or classification of old animals).

    Parameters
    ----------
    data_home : path, default=None
        Folder with ``abalone.data``. None: the folder named by the environment variable
        ``SKDPBAYES_DATA``, then OpenML (needs pandas).
    target : {"rings", "old"}, default="rings"
        The number of rings, or whether there are 10 or more (1) or fewer (0).
    encoding : {"raw", None}, default="raw"
        ``"raw"``: the 7 measurements scaled by their public bounds to [0, 1], then the 3 indicators
        of sex, rows clipped to L2 norm 1. ``None``: the table itself.
    as_frame : bool, default=False
        Return pandas objects.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.

    Returns
    -------
    abalone : :class:`~sklearn.utils.Bunch`
        ``data``, ``target``, ``feature_names``, ``target_names``, ``DESCR`` and the public
        metadata: ``bounds``, ``categories``, ``target_bounds``, ``data_norm`` if encoded.
    """
    check_choice("target", target, ("rings", "old"))
    encoding_tools.check_encoding(encoding, ("raw",))
    table, rings = _load(data_home)
    public: dict[str, Any] = {"bounds": dict(NUMERIC_BOUNDS), "categories": dict(CATEGORIES)}
    names, data = _COLUMNS, table
    if encoding == "raw":
        data = encoding_tools.unit_rows(table, NUMERIC_BOUNDS, CATEGORIES)
        names = [*NUMERIC_BOUNDS, *encoding_tools.one_hot_names(CATEGORIES)]
        public["data_norm"] = 1.0
    values = rings if target == "rings" else (rings >= _OLD_FROM).astype(np.int64)
    return encoding_tools.pack(
        data,
        values,
        feature_names=names,
        as_frame=as_frame,
        return_X_y=return_X_y,
        target_names=["rings"] if target == "rings" else ["young", "old"],
        target_bounds=RINGS_BOUNDS if target == "rings" else (0, 1),
        DESCR=_DESCR,
        **public,
    )


def _load(data_home: str | os.PathLike[str] | None) -> tuple[Any, np.ndarray]:
    path = files.locate("Abalone", "abalone.data", data_home)
    numeric = frozenset([*NUMERIC_BOUNDS, "rings"])
    if path is None:
        bunch = files.fetch("Abalone", "abalone.data", _OPENML_ID)
        table = files.fetched_columns(bunch, _COLUMNS, numeric)
        return table, bunch.target.astype(np.float64).to_numpy().astype(np.int64)
    table = files.read_columns(path, [*_COLUMNS, "rings"], numeric)
    return table, table.pop("rings").astype(np.int64)
