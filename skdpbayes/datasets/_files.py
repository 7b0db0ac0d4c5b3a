"""Where the data come from: a folder of the user's, or OpenML."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.utils import Bunch

ENVIRONMENT_VARIABLE = "SKDPBAYES_DATA"


def locate(dataset: str, file: str, data_home: str | os.PathLike[str] | None) -> Path | None:
    """Return the path of ``file`` (or of ``file`` + ".gz"), None if OpenML has to be asked.

    A folder that was passed must hold the file. The folder of the environment variable may hold
    some of the sets only.
    """
    folder = data_home if data_home is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if not folder:
        return None
    for candidate in (Path(folder) / file, Path(folder) / f"{file}.gz"):
        if candidate.is_file():
            return candidate
    if data_home is not None:
        raise FileNotFoundError(
            f"{dataset}: data_home={str(folder)!r} holds neither {file!r} nor {file + '.gz'!r}"
        )
    return None


def unavailable(dataset: str, file: str, reason: str) -> FileNotFoundError:
    """Return the error for a set that is neither in a folder nor on OpenML."""
    return FileNotFoundError(
        f"{dataset} is not available: {reason}. Download {file!r} and pass its folder as "
        f"data_home, or set the environment variable {ENVIRONMENT_VARIABLE} to that folder"
    )


def fetch(dataset: str, file: str, data_id: int) -> Bunch:
    """Return set ``data_id`` of OpenML with ``data`` and ``target`` as pandas objects."""
    try:
        return sklearn.datasets.fetch_openml(data_id=data_id, as_frame=True)
    except (OSError, ImportError, ValueError) as error:
        reason = f"no local file, and OpenML (set {data_id}) failed with {error!r}"
        raise unavailable(dataset, file, reason) from error


def fetched_columns(bunch: Bunch, names: list[str], numeric: frozenset[str]) -> dict[str, Any]:
    """Return the columns of an OpenML set by position, under our names; missing text is "?"."""
    if bunch.data.shape[1] != len(names):
        raise ValueError(
            f"OpenML returned {bunch.data.shape[1]} columns where {len(names)} were expected"
        )
    table = {}
    for position, name in enumerate(names):
        column = bunch.data.iloc[:, position]
        if name in numeric:
            table[name] = column.to_numpy(dtype=np.float64)
        else:
            text = column.astype(object)
            table[name] = text.where(column.notna(), "?").to_numpy(dtype=str)
    return table


def lines(path: Path) -> Iterator[str]:
    """Yield the non-empty lines of a text file, gzipped or not."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        for line in file:
            text = line.rstrip("\r\n")
            if text.strip():
                yield text


def read_bytes(path: Path) -> bytes:
    """Return the contents of a binary file, gzipped or not."""
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as file:
            return file.read()
    return path.read_bytes()


def read_columns(path: Path, names: list[str], numeric: frozenset[str]) -> dict[str, np.ndarray]:
    """Read a comma separated file without header; lines that start with "|" are comments."""
    rows = [
        [field.strip() for field in line.split(",")]
        for line in lines(path)
        if not line.startswith("|")
    ]
    if not rows:
        raise ValueError(f"{path} holds no records")
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, record {number + 1}: {len(row)} fields, expected {len(names)}"
            )
    columns = zip(*rows, strict=True)
    return {
        name: np.array(column, dtype=np.float64 if name in numeric else str)
        for name, column in zip(names, columns, strict=True)
    }
