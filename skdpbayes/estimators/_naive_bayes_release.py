"""The private release behind `LaplaceNaiveBayes`: public layout, noise, noisy statistics."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skdpbayes import models, randomness
from skdpbayes._validation import check_integer, check_real
from skdpbayes.exceptions import CalibrationError, PrivacyWarning
from skdpbayes.privacy.calibration import (
    discrete_gaussian_scale,
    discrete_laplace_scale,
    gaussian_noise_multiplier,
    smallest_noise,
)
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout

__all__ = [
    "DISTRIBUTIONS",
    "NoisePlan",
    "add_noise",
    "build_layout",
    "canonical",
    "exact_statistics",
    "plan_noise",
    "refuse_words",
    "token_block",
    "wrong_category",
]

# A discrete Gaussian this wide is a normal law to 1e-8 (Poisson summation: 2 exp(-2 pi^2 scale^2)),
# so moves of equal length cost the same whichever statistics they are made of. Narrower noise on
# whole counts has heavier steps than on the fine grid of the moments.
_LEAST_SCALE = 1.0

_LARGEST_CODE = 2**20  # larger tables would be a mistake in the data, and fill the memory

DISTRIBUTIONS = ("bernoulli", "categorical", "multinomial", "gaussian")


def build_layout(
    kinds: tuple[str, ...],
    X: Any,
    *,
    categories: Any,
    bounds: Any,
    max_total: Any,
    non_private: bool,
) -> NaiveBayesLayout:
    """Describe the statistics from the public parameters (``X`` only for ``categories=None``)."""
    columns = {name: _columns_of(kinds, name) for name in DISTRIBUTIONS}
    n_categories = _category_counts(X, columns["categorical"], categories, len(kinds))
    values = {**dict.fromkeys(columns["bernoulli"], 2), **n_categories}
    tables = tuple(sorted(values))
    if columns["multinomial"]:
        if max_total is None and not non_private:
            raise ValueError(
                "max_total must be given for multinomial columns: a public bound on the sum of a "
                "row's counts. Longer rows are scaled down to it."
            )
        # Doubles hold every whole number up to 2^53, which clipping relies on.
        total = 0 if max_total is None else check_integer("max_total", max_total, low=1, high=2**50)
    else:
        total = 0
    return models.NaiveBayesLayout(
        table_columns=tables,
        n_values=tuple(values[j] for j in tables),
        binary=tuple(kinds[j] == "bernoulli" for j in tables),
        token_columns=columns["multinomial"],
        max_total=total,
        moment_columns=columns["gaussian"],
        bounds=_column_bounds(bounds, columns["gaussian"], len(kinds), non_private),
    )


def _columns_of(kinds: tuple[str, ...], name: str) -> tuple[int, ...]:
    return tuple(j for j, kind in enumerate(kinds) if kind == name)


def _per_column(name: str, values: Any, columns: tuple[int, ...], n_features: int) -> list[Any]:
    """Entries for ``columns`` from a sequence with one a feature or one a column concerned."""
    values = list(values)
    if len(values) == n_features:
        return [values[j] for j in columns]
    if len(values) == len(columns):
        return values
    raise ValueError(
        f"{name} must have one entry for each of the {n_features} features (or for each of the "
        f"{len(columns)} columns that use it); got {len(values)} entries."
    )


def _category_counts(
    X: Any, columns: tuple[int, ...], categories: Any, n_features: int
) -> dict[int, int]:
    if not columns:
        return {}
    if categories is None:
        warnings.warn(
            "categories=None takes the numbers of categories from the data, which reveals the "
            "largest code of each column. Pass the public counts as categories.",
            PrivacyWarning,
            stacklevel=5,
        )
        highest = [X[:, j].max() for j in columns]
        if max(highest) >= _LARGEST_CODE:
            raise ValueError(
                f"categories=None takes codes below {_LARGEST_CODE}, and X has a larger one. "
                "Encode the categories as 0, 1, ..., or pass their public numbers."
            )
        return {j: max(2, int(top) + 1) for j, top in zip(columns, highest, strict=True)}
    if np.ndim(categories) == 0:
        categories = [categories] * len(columns)
    counts = _per_column("categories", categories, columns, n_features)
    return {
        j: check_integer("categories", count, low=1)
        for j, count in zip(columns, counts, strict=True)
    }


def _column_bounds(
    bounds: Any, columns: tuple[int, ...], n_features: int, non_private: bool
) -> tuple[tuple[float, float], ...]:
    if not columns:
        return ()
    if bounds is None:
        if non_private:
            return ((-np.inf, np.inf),) * len(columns)
        raise ValueError(
            "bounds must be given for gaussian columns: a public (low, high), or one pair a "
            "column. They are never learned from the data; values outside are clipped."
        )
    if np.shape(bounds) == (2,):
        pairs: list[Any] = [bounds] * len(columns)
    else:
        pairs = _per_column("bounds", bounds, columns, n_features)
    return tuple(_check_pair(pair) for pair in pairs)


def _check_pair(pair: Any) -> tuple[float, float]:
    if np.shape(pair) != (2,):
        raise ValueError(f"bounds must be (low, high) pairs; got {pair!r}.")
    low, high = (check_real("bounds", float(value), low=-1e150, high=1e150) for value in pair)
    # A width whose square is not a number would make standardized values NaN.
    if not high - low >= 1e-150:
        raise ValueError(f"bounds must have low < high, 1e-150 apart; got ({low!r}, {high!r}).")
    return low, high


@dataclass(frozen=True)
class NoisePlan:
    """Noise chosen from public numbers: its law, its scale for a count, and what it costs."""

    noise: str
    scale: float
    event: PrivacyEvent

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a count."""
        return self.scale * (np.sqrt(2.0) if self.noise == "laplace" else 1.0)

    @property
    def words(self) -> str:
        """The mechanism in words."""
        name = "Laplace" if self.noise == "laplace" else "Gaussian"
        return f"exact discrete {name} noise on the joint sufficient statistics"


def plan_noise(
    layout: NaiveBayesLayout, mechanism: str, epsilon: float, delta: float, adjacency: str
) -> NoisePlan:
    """Calibrate the noise of one joint release of all statistics."""
    if np.isinf(epsilon):
        return NoisePlan("gaussian" if mechanism == "gaussian" else "laplace", 0.0, NoPrivacy())
    if mechanism == "gaussian" and delta == 0.0:
        raise CalibrationError(
            "mechanism='gaussian' needs delta > 0; got delta=0. Pass a delta below 1/n_samples, or "
            "use mechanism='laplace', which is private without one."
        )
    plans = []
    if mechanism != "gaussian":
        plans.append(_laplace(layout, epsilon, delta, adjacency))
    if mechanism != "laplace" and delta > 0.0:
        plans.append(_gaussian(layout, epsilon, delta, adjacency))
    return min(plans, key=lambda plan: plan.deviation)


def _laplace(layout: NaiveBayesLayout, epsilon: float, delta: float, adjacency: str) -> NoisePlan:
    sensitivity = layout.l1_sensitivity(adjacency)
    if layout.counts_only:
        moved = int(sensitivity)
        scale = discrete_laplace_scale(epsilon, delta, moved)
        return NoisePlan("laplace", scale, repeat(DiscreteLaplace(scale), moved))
    # One coordinate may move by more than one: priced at its pure epsilon, the worst case.
    scale = sensitivity / epsilon
    while sensitivity / scale > epsilon:
        scale = np.nextafter(scale, np.inf)
    return NoisePlan("laplace", scale, PureDP(epsilon))


def _gaussian(layout: NaiveBayesLayout, epsilon: float, delta: float, adjacency: str) -> NoisePlan:
    squared = layout.squared_l2_sensitivity(adjacency)
    if layout.counts_only:
        scale = discrete_gaussian_scale(epsilon, delta, squared)
        return NoisePlan("gaussian", scale, repeat(DiscreteGaussian(scale), squared))

    def event_of(scale: float) -> PrivacyEvent:
        return _gaussian_event(layout, scale, adjacency)

    guess = np.sqrt(squared) * gaussian_noise_multiplier(epsilon, delta)
    scale = max(smallest_noise(event_of, epsilon, delta, guess=float(guess)), _LEAST_SCALE)
    return NoisePlan("gaussian", scale, event_of(scale))


def _gaussian_event(layout: NaiveBayesLayout, scale: float, adjacency: str) -> PrivacyEvent:
    """Price the longest moves of each block; a normal law depends on a move's length only."""
    rows = 1 if adjacency == "zero_out" else 2
    n_moments, extra = len(layout.moment_columns), int(layout.has_class_table)
    counts = rows * len(layout.table_columns)
    fine = 0  # moves by one unit on the grid of the moments
    if adjacency == "zero_out":
        counts, fine = counts + extra, n_moments
    elif 4 * n_moments >= 2 * extra + 2 * n_moments:
        fine = 4 * n_moments
    else:
        counts, fine = counts + 2 * extra, 2 * n_moments
    grid = int(layout.units().max())
    parts = []
    if counts:
        parts.append(repeat(DiscreteGaussian(scale), counts))
    if layout.max_total:
        parts.append(repeat(DiscreteGaussian(scale, layout.max_total), rows))
    if fine:
        parts.append(repeat(DiscreteGaussian(scale * grid, grid), fine))
    return compose(parts)


def exact_statistics(
    layout: NaiveBayesLayout,
    X: Any,
    codes: np.ndarray,
    n_classes: int,
    threshold: float,
    noise: str,
) -> np.ndarray:
    """Compute the statistics that noise is added to; never stored."""
    statistics = np.zeros((n_classes, layout.n_statistics), dtype=np.int64)
    tables, classes, tokens, moments = layout.split(statistics)
    if layout.table_columns:
        _fill_tables(layout, X, codes, threshold, tables)
    if layout.has_class_table:
        classes[:, 0] = np.bincount(codes, minlength=n_classes)
    if layout.token_columns:
        tokens[:] = models.count_tokens(token_block(layout, X), codes, n_classes)
    if layout.moment_columns and np.isfinite(layout.bounds).all():
        low, high = np.array(layout.bounds).T
        offset = int(models.moment_offset(noise) * models.GRID**2)
        columns = np.array(layout.moment_columns)
        moments[:] = models.sum_moments(
            X, columns, codes, low.copy(), high.copy(), offset, n_classes
        )
    return statistics


def _fill_tables(
    layout: NaiveBayesLayout, X: Any, codes: np.ndarray, threshold: float, tables: np.ndarray
) -> None:
    starts, columns = layout.starts, np.array(layout.table_columns)
    binary = np.array(layout.binary)
    if binary.any():
        ones = models.count_ones(X, columns[binary], codes, threshold, tables.shape[0])
        first = starts[:-1][binary]
        tables[:, first + 1] = ones
        tables[:, first] = np.bincount(codes, minlength=tables.shape[0])[:, None] - ones
    if not binary.all():
        sizes = np.array(layout.n_values)[~binary]
        bad = models.count_categories(
            X, columns[~binary], codes, starts[:-1][~binary], sizes, tables
        )
        if bad >= 0:
            raise ValueError(wrong_category(layout, bad))


def wrong_category(layout: NaiveBayesLayout, column: int) -> str:
    """Say which codes a column takes."""
    size = layout.n_values[layout.table_columns.index(column)]
    return (
        f"X has a value in column {column} that is not one of the codes 0, ..., {size - 1}: "
        f"categories says that the column has {size} categories. Encode other values as one of "
        "them, or raise categories."
    )


def refuse_words(X: Any, error: ValueError) -> None:
    """Say how to encode a data frame whose columns hold words, if that is what the error is."""
    names = [
        name
        for name in getattr(X, "columns", ())
        if any(isinstance(value, str) for value in np.asarray(X[name], dtype=object))
    ]
    if names:
        raise ValueError(
            f"X has words in the columns {names}. Encode them as 0, 1, ..., in a public order, for "
            "example by OrdinalEncoder(categories=[...]), and use distribution='categorical'."
        ) from error


def canonical(X: Any) -> Any:
    """Sum duplicate entries of a sparse matrix in a copy; counting visits each entry once."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def token_block(layout: NaiveBayesLayout, X: Any, *, clip: bool = True) -> Any:
    """Return the multinomial columns, checked and, to train on, bounded by ``max_total``."""
    X = canonical(X)
    block = X if len(layout.token_columns) == X.shape[1] else X[:, list(layout.token_columns)]
    data = block.data if sparse.issparse(block) else block
    if data.size and (data.min() < 0 or (data != np.floor(data)).any()):
        raise ValueError(
            "Negative values in data or fractional ones: X must hold counts (whole numbers >= 0) "
            "in multinomial columns."
        )
    return models.clip_tokens(block, layout.max_total) if clip and layout.max_total else block


def add_noise(
    generator: np.random.Generator,
    statistics: np.ndarray,
    layout: NaiveBayesLayout,
    plan: NoisePlan,
) -> np.ndarray:
    """Add exact integer noise; each block has the scale of its unit."""
    noisy = np.empty_like(statistics)
    units = layout.units()
    for unit in np.unique(units):
        block = units == unit
        noisy[:, block] = randomness.release_counts(
            generator, statistics[:, block], plan.scale * unit, noise=plan.noise
        )
    return noisy
