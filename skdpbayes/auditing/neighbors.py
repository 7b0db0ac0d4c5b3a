"""Neighboring data sets that are hard to keep apart from privacy's point of view.

Each function returns a :class:`NeighborPair`: a small data set, the neighbor that differs in one
record, and the public parameters that make the pair bite. They attack the places where sensitivity
proofs go wrong: a record against a concentrated majority, near-antipodal gradients, rows that rely
on clipping, bounds far from zero, a class with one member, batches without any signal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "CLASSIFICATION_PAIRS",
    "NeighborPair",
    "antipodal",
    "changed_rows",
    "default_score",
    "empty_batch",
    "far_bounds",
    "label_flip",
    "large_norm",
    "long_row",
    "moved_event",
    "singleton_class",
    "tiny",
    "zeroed_record",
]


@dataclass(frozen=True)
class NeighborPair:
    """Two data sets that differ in one record.

    Attributes
    ----------
    X, y : ndarray
        The data set.
    neighbor : tuple of ndarray
        The neighboring one, (X, y).
    description : str
        What changed.
    params : mapping
        Public parameters (``classes``, ``bounds``, ``data_norm``, ...) for ``set_params``.
    """

    X: np.ndarray
    y: np.ndarray
    neighbor: tuple[np.ndarray, np.ndarray]
    description: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def reversed(self) -> NeighborPair:
        """Return the pair with the two data sets exchanged."""
        return NeighborPair(
            self.neighbor[0],
            self.neighbor[1],
            (self.X, self.y),
            f"{self.description}, reversed",
            self.params,
        )


def _replace_first(
    X: np.ndarray,
    y: np.ndarray,
    row: np.ndarray,
    label: int,
    description: str,
    params: Mapping[str, Any] | None = None,
) -> NeighborPair:
    other_X, other_y = X.copy(), y.copy()
    other_X[0], other_y[0] = row, label
    return NeighborPair(
        X, y, (other_X, other_y), description, {"classes": [0, 1], **(params or {})}
    )


def label_flip(n_samples: int = 20, n_features: int = 2, *, norm: float = 1.0) -> NeighborPair:
    """Flip one label while all other records agree at the same point.

    The majority pushes the model to one side, where the odd record's loss is steepest: for a draw
    from the logistic posterior this pair approaches the exact sensitivity.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    norm : float, default=1.0
        Length of the rows.

    Examples
    --------
    >>> from skdpbayes.auditing.neighbors import label_flip
    >>> pair = label_flip(4, 2)
    >>> pair.y.tolist(), pair.neighbor[1].tolist()
    ([1, 0, 0, 0], [0, 0, 0, 0])
    """
    X = np.zeros((n_samples, n_features))
    X[:, 0] = norm
    y = np.zeros(n_samples, dtype=np.int64)
    y[0] = 1
    return _replace_first(X, y, X[0], 0, "label flip against concentrated data")


def antipodal(
    n_samples: int = 20, n_features: int = 2, *, norm: float = 1.0, angle: float = 0.3
) -> NeighborPair:
    r"""Replace a record by its mirror image while the rest pushes along the mirror.

    With :math:`u = R(\cos t, \sin t)` and :math:`u' = R(-\cos t, \sin t)` and coefficients far out
    on the second axis the gradients differ by nearly :math:`2 R \cos t`: a sensitivity of *R*, as
    the label flip alone would suggest, is refuted by this pair.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X; at least 2 features.
    norm : float, default=1.0
        *R*.
    angle : float, default=0.3
        *t*, in radians.
    """
    if n_features < 2:
        raise ValueError(f"antipodal needs n_features >= 2; got {n_features!r}.")
    X = np.zeros((n_samples, n_features))
    X[:, 1] = -norm
    X[0, :2] = norm * np.cos(angle), norm * np.sin(angle)
    row = X[0] * np.where(np.arange(n_features) == 0, -1.0, 1.0)
    y = np.ones(n_samples, dtype=np.int64)
    return _replace_first(X, y, row, 1, "near-antipodal pair of records")


def long_row(
    n_samples: int = 20,
    n_features: int = 2,
    *,
    norm: float = 1.0,
    factor: float = 1e3,
    angle: float = 0.5,
) -> NeighborPair:
    """Mirror a record that is far longer than ``data_norm``; a forgotten clip shows at once.

    Clipped, the pair is that of :func:`antipodal`.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X; at least 2 features.
    norm : float, default=1.0
        The public bound.
    factor : float, default=1000
        How many times longer the record is.
    angle : float, default=0.5
        As for :func:`antipodal`.
    """
    pair = antipodal(n_samples, n_features, norm=norm, angle=angle)
    X = pair.X.copy()
    X[0] *= factor
    words = f"a row {factor:g} times longer than data_norm is mirrored"
    return _replace_first(X, pair.y, factor * pair.neighbor[0][0], 1, words)


def large_norm(
    n_samples: int = 20,
    n_features: int = 2,
    *,
    norm: float = 1000.0,
    intercept_scaling: float = 100.0,
) -> NeighborPair:
    """Flip a label among rows of a large public norm, beside a large constant feature.

    A curvature bound that takes the norm where its square belongs is refuted by this pair.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    norm : float, default=1000
        Length of the rows and ``data_norm``.
    intercept_scaling : float, default=100
        The constant feature.
    """
    pair = label_flip(n_samples, n_features, norm=norm)
    params = {"data_norm": norm, "intercept_scaling": intercept_scaling}
    return _replace_first(pair.X, pair.y, pair.X[0], 0, "large data_norm and intercept", params)


def singleton_class(n_samples: int = 20, n_features: int = 2, *, norm: float = 1.0) -> NeighborPair:
    """Remove the only member of a class, whose features differ from everybody's.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    norm : float, default=1.0
        Length of the rows.
    """
    pair = label_flip(n_samples, n_features, norm=norm)
    X = pair.X.copy()
    X[0, 0] = -norm
    return _replace_first(X, pair.y, pair.X[1], 0, "the only member of a class is gone")


def empty_batch(n_samples: int = 20, n_features: int = 2, *, norm: float = 1.0) -> NeighborPair:
    """Let one record appear among null rows: without it every batch is empty of signal.

    Catches divisions by the number of useful records in a batch.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    norm : float, default=1.0
        Length of the record.
    """
    X = np.zeros((n_samples, n_features))
    y = np.zeros(n_samples, dtype=np.int64)
    row = np.zeros(n_features)
    row[0] = norm
    return _replace_first(X, y, row, 1, "one record among null rows")


def zeroed_record(n_samples: int = 20, n_features: int = 2, *, norm: float = 1.0) -> NeighborPair:
    """Replace the odd record of :func:`label_flip` by a row of zeros.

    For a linear model without intercept a row of zeros is the null record of ``zero_out``.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of X.
    norm : float, default=1.0
        Length of the rows.
    """
    pair = label_flip(n_samples, n_features, norm=norm)
    null = np.zeros(n_features)
    return _replace_first(pair.X, pair.y, null, 1, "the odd record is replaced by a null record")


def tiny(n_features: int = 1, *, norm: float = 1.0) -> NeighborPair:
    """Flip the label of the only record there is.

    Parameters
    ----------
    n_features : int, default=1
        Number of columns.
    norm : float, default=1.0
        Length of the record.
    """
    pair = label_flip(1, n_features, norm=norm)
    return _replace_first(pair.X, pair.y, pair.X[0], 0, "the only record")


def far_bounds(
    n_samples: int = 20, *, bounds: tuple[float, float] = (100.0, 101.0)
) -> NeighborPair:
    """Move a record between classes and bounds that are far from zero.

    A sensitivity measured from zero in place of the width of the bounds, or one that forgets that
    a record can change class, is refuted by this pair.

    Parameters
    ----------
    n_samples : int, default=20
        Number of records.
    bounds : (float, float), default=(100, 101)
        Public bounds of the only feature.
    """
    low, high = bounds
    X = np.full((n_samples, 1), low)
    y = np.zeros(n_samples, dtype=np.int64)
    y[0] = 1
    return _replace_first(
        X, y, np.array([high]), 0, "bounds far from zero", {"bounds": (low, high)}
    )


def moved_event(
    n_samples: int = 12, *, n_months: int = 3, n_regions: int = 2, n_categories: int = 2
) -> NeighborPair:
    """Move one event to another month, region and category.

    Columns are (month, region, category) codes, one row an event; ``y`` repeats the region.

    Parameters
    ----------
    n_samples : int, default=12
        Number of events.
    n_months, n_regions, n_categories : int
        Public numbers of codes.
    """
    X = np.zeros((n_samples, 3), dtype=np.int64)
    row = np.array([n_months - 1, n_regions - 1, n_categories - 1])
    y = X[:, 1].copy()
    params = {"classes": list(range(n_regions))}
    pair = _replace_first(X, y, row, n_regions - 1, "an event changes month and region")
    return NeighborPair(pair.X, pair.y, pair.neighbor, pair.description, params)


CLASSIFICATION_PAIRS: dict[str, Callable[..., NeighborPair]] = {
    "label flip": label_flip,
    "near-antipodal": antipodal,
    "long row": long_row,
    "singleton class": singleton_class,
    "empty batch": empty_batch,
}
"""Pairs of the same shape and the same public parameters, for linear classifiers."""


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def changed_rows(X: Any, y: Any, other_X: Any, other_y: Any) -> np.ndarray:
    """Return the rows in which two data sets differ, of both.

    Parameters
    ----------
    X, other_X : array-like or sparse matrix
        Features.
    y, other_y : tuple
        ``(labels,)`` or empty.
    """
    X, other_X = _dense(X), _dense(other_X)
    n = min(len(X), len(other_X))
    differs = np.any((X[:n] != other_X[:n]).reshape(n, -1), axis=1)
    for labels, other in zip(y, other_y, strict=True):
        differs |= np.asarray(labels)[:n] != np.asarray(other)[:n]
    if len(X) == len(other_X):
        rows = np.concatenate([X[differs], other_X[differs]])
    else:  # a record is missing: everything after it has moved up
        longer = X if len(X) > len(other_X) else other_X
        first = int(np.argmax(differs)) if differs.any() else n
        rows = longer[first : first + len(longer) - n]
    if len(rows) == 0:
        raise ValueError("neighbor equals the data set: there is nothing to tell apart.")
    return np.unique(rows, axis=0)


def default_score(rows: np.ndarray) -> Callable[[Any], np.ndarray]:
    """Return the score of a fit: decision function and predictions at the rows that changed.

    Parameters
    ----------
    rows : ndarray
        The changed records.
    """
    return _ScoreAt(rows)


@dataclass(frozen=True)
class _ScoreAt:
    """A picklable closure over the rows."""

    rows: np.ndarray

    def __call__(self, fitted: Any) -> np.ndarray:
        parts: list[np.ndarray] = []
        for name in ("decision_function", "predict_log_proba", "predict"):
            method = getattr(fitted, name, None)
            if method is None or (name == "predict_log_proba" and parts):
                continue
            values = np.asarray(method(self.rows))
            if values.dtype.kind in "biuf":
                parts.append(np.clip(values, -1e9, 1e9).astype(np.float64).ravel())
        if not parts:
            raise ValueError(
                f"{type(fitted).__name__} has no decision_function, predict_log_proba or numeric "
                "predict: pass score=... to audit."
            )
        return np.concatenate(parts)
