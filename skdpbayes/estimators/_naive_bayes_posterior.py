"""From noisy statistics to latent counts, parameters and class scores; post-processing only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skdpbayes import models, samplers
from skdpbayes.estimators._naive_bayes_release import canonical, token_block, wrong_category

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout

__all__ = [
    "Latent",
    "ScoreTables",
    "arrange_tables",
    "draw_latent",
    "draw_parameters",
    "naive_latent",
    "score_rows",
    "smallest_variance",
]

# Rows are scored in blocks of about this many numbers, so that memory does not grow with n.
_BLOCK = 2_000_000
# Logarithms of odds that noise may take from a class: correcting less made Adult less accurate.
_ALLOWANCE = 1.0


@dataclass(frozen=True)
class Latent:
    """Draws of the true statistics: class totals, table cells, tokens, (mean, variance) pairs.

    The draw axis comes first, the class axis second; means and variances are in units of the data.
    """

    totals: np.ndarray
    cells: np.ndarray
    tokens: np.ndarray
    moments: np.ndarray


def draw_latent(
    layout: NaiveBayesLayout,
    statistics: np.ndarray,
    noise: tuple[tuple[str, float], ...],
    n_records: int,
    alpha: float,
    generator: np.random.Generator,
    n_draws: int,
) -> Latent:
    """Draw the true statistics given the noisy ones and the law of their noise."""
    tables, classes, tokens, moments = layout.split(statistics)
    n_classes = statistics.shape[0]
    log_noise = samplers.noise_log_pmf(noise)
    shown = layout.tables(tables) if layout.table_columns else [classes]
    n_cells = sum(table.shape[1] for table in shown)
    cells = samplers.sample_noisy_tables(
        shown,
        n_records,
        alpha,
        log_noise,
        generator.random((n_draws, n_classes)),
        generator.random((n_draws, n_classes, n_cells, 2)),
    )
    totals = cells.sum(axis=2) / len(shown)
    if layout.token_columns:
        tokens = samplers.sample_noisy_rates(
            tokens,
            alpha,
            log_noise,
            float(layout.max_total * n_records),
            generator.random((n_draws, n_classes)),
            generator.random((n_draws, n_classes, tokens.shape[1])),
        )
    else:
        tokens = np.empty((n_draws, n_classes, 0))
    standardized = np.empty((n_draws, n_classes, 0, 2))
    if layout.moment_columns:
        widest = max(scale for _, scale in noise)
        fine = samplers.noise_log_pmf([(law, 64.0 * scale / widest) for law, scale in noise])
        standardized = samplers.sample_noisy_moments(
            moments / np.array([models.GRID, models.GRID**2]),
            np.rint(totals).astype(np.int64),
            models.moment_offset(noise[0][0]),
            fine,
            widest / 64.0,
            generator.random((n_draws, *moments.shape[:2], 4)),
        )
    if not layout.table_columns:
        cells = cells[:, :, :0]
    return Latent(totals, cells, tokens, _in_data_units(layout, standardized))


def naive_latent(layout: NaiveBayesLayout, statistics: np.ndarray, law: str) -> Latent:
    """Take the noisy statistics for the true ones, clipped to what is possible: a single draw."""
    tables, classes, tokens, moments = layout.split(statistics)
    cells = np.maximum(tables, 0)[None]
    shown = layout.tables(cells) if layout.table_columns else [np.maximum(classes, 0)[None]]
    totals = np.mean([table.sum(axis=2) for table in shown], axis=0)
    n = np.maximum(totals, 1.0)[:, :, None]
    mean = np.clip(moments[None, :, :, 0] / models.GRID / n, -1.0, 1.0)
    square = models.moment_offset(law) - moments[None, :, :, 1] / models.GRID**2 / n
    variance = np.clip(square - mean**2, 0.0, 1.0 - mean**2)
    standardized = np.stack([mean, variance], axis=-1)
    return Latent(totals, cells, np.maximum(tokens, 0)[None], _in_data_units(layout, standardized))


def _in_data_units(layout: NaiveBayesLayout, standardized: np.ndarray) -> np.ndarray:
    if not layout.moment_columns or not np.isfinite(layout.bounds).all():
        return standardized
    half, center = _half_ranges(layout)
    moments = np.empty_like(standardized)
    moments[..., 0] = center + half * standardized[..., 0]
    moments[..., 1] = half**2 * standardized[..., 1]
    return moments


def _half_ranges(layout: NaiveBayesLayout) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array(layout.bounds).reshape(-1, 2).T
    return 0.5 * high - 0.5 * low, 0.5 * high + 0.5 * low


def smallest_variance(layout: NaiveBayesLayout, var_smoothing: float) -> np.ndarray:
    """Public addition to every variance: ``var_smoothing`` times the largest possible variance.

    The grid hides differences below its step, so no variance is taken to be smaller than that of
    rounding to it.
    """
    if not np.isfinite(layout.bounds).all():  # epsilon is infinite: scikit-learn's smoothing
        return np.zeros(len(layout.moment_columns))
    half, _ = _half_ranges(layout)
    largest = (half**2).max(initial=0.0)
    return np.maximum(var_smoothing * largest, half**2 / (12.0 * models.GRID**2))


@dataclass(frozen=True)
class ScoreTables:
    """Logarithms that rows are scored with; the last axis is the draw."""

    classes: np.ndarray  # (K, S)
    cells: np.ndarray  # (C, K, S)
    tokens: np.ndarray  # (V, K, S)
    means: np.ndarray  # (F, K, S)
    variances: np.ndarray  # (F, K, S)

    @classmethod
    def from_latent(
        cls,
        layout: NaiveBayesLayout,
        latent: Latent,
        alpha: float,
        added_variance: np.ndarray | float,
    ) -> ScoreTables:
        """Use scikit-learn's smoothed estimates given each draw of the statistics."""
        # A class that a draw leaves empty keeps a vanishing probability instead of log(0).
        totals = np.maximum(latent.totals, 1e-10)
        logs = [np.empty((*latent.totals.shape, 0))]
        if layout.table_columns:
            logs = [_log_smoothed(table, alpha) for table in layout.tables(latent.cells)]
        variances = latent.moments[..., 1] + added_variance
        return cls(
            _draw_last(np.log(totals / totals.sum(axis=1, keepdims=True))),
            _evened(layout, _draw_last(np.concatenate(logs, axis=2))),
            _centered(_draw_last(_log_smoothed(latent.tokens, alpha))),
            _draw_last(latent.moments[..., 0]),
            _draw_last(variances),
        )


def _log_smoothed(counts: np.ndarray, alpha: float) -> np.ndarray:
    if counts.shape[2] == 0:
        return np.empty(counts.shape)
    smoothed = counts + alpha
    return np.log(smoothed) - np.log(smoothed.sum(axis=2, keepdims=True))


def _centered(logs: np.ndarray) -> np.ndarray:
    r"""Shift the draws (last axis) so that their mean is the logarithm of the mean probability.

    The predictive probability of a token is :math:`E[\theta_v]`. A single draw scores it by
    :math:`\log\theta_v`, which is smaller on average the less is known of it (Jensen's inequality),
    in each of a row's many tokens: where noise drowns the counts, rows would go to the class with
    the fewest. The shift removes that and keeps the spread of the draws.
    """
    return (
        logs - logs.mean(axis=-1, keepdims=True) + np.log(np.exp(logs).mean(axis=-1, keepdims=True))
    )


def _evened(layout: NaiveBayesLayout, logs: np.ndarray) -> np.ndarray:
    r"""Shift the draws of the tables, shape (C, K, S), where they disfavor a class for its noise.

    The gap :math:`\log E[\theta] - E[\log\theta] \ge 0` is the wider the less is known of a class.
    A row of the class expects :math:`g_c = \sum_{jv} E[\theta_{cjv}] \, (\log E[\theta_{cjv}] -
    E[\log\theta_{cjv}])` of it, over all columns. Classes get back what they lose more than
    `_ALLOWANCE` beyond the class that loses least.
    """
    if not layout.table_columns:
        return logs
    mean = np.exp(logs).mean(axis=-1)
    lost = (mean * (np.log(mean) - logs.mean(axis=-1))).sum(axis=0)
    shift = np.maximum(lost - lost.min() - _ALLOWANCE, 0.0)
    # Every row has one value in the first column, so that its cells carry the shift of the class.
    logs[: layout.n_values[0]] += shift[:, None]
    return logs


def _draw_last(values: np.ndarray) -> np.ndarray:
    """(S, K, ...) to (..., K, S), contiguous: rows are scored along it."""
    return np.ascontiguousarray(values.transpose(*range(values.ndim - 1, 0, -1), 0))


def score_rows(
    layout: NaiveBayesLayout, tables: ScoreTables, X: Any, threshold: float
) -> np.ndarray:
    """Class probabilities of each row, averaged over the draws, shape (n, K)."""
    n_classes, n_draws = tables.classes.shape
    block = max(1, _BLOCK // (n_classes * n_draws))
    probability = np.empty((X.shape[0], n_classes))
    for start in range(0, X.shape[0], block):
        rows = X[start : start + block]
        scores = np.tile(tables.classes.ravel(), (rows.shape[0], 1))
        _add_scores(layout, tables, rows, threshold, scores)
        probability[start : start + block] = models.average_probability(
            scores.reshape(rows.shape[0], n_classes, n_draws)
        )
    return probability


def _add_scores(
    layout: NaiveBayesLayout, tables: ScoreTables, X: Any, threshold: float, scores: np.ndarray
) -> None:
    if layout.table_columns:
        cells = tables.cells.reshape(layout.n_cells, -1)
        if sparse.issparse(X):  # all columns are binary: the zeros first, then the ones
            ones = canonical(X).copy()
            ones.data = (ones.data > threshold).astype(np.float64)
            scores += cells[0::2].sum(axis=0) + ones @ (cells[1::2] - cells[0::2])
        else:
            bad = models.add_table_scores(
                scores,
                X,
                np.array(layout.table_columns),
                layout.starts,
                np.array(layout.binary),
                threshold,
                cells,
            )
            if bad >= 0:
                raise ValueError(wrong_category(layout, bad))
    if layout.token_columns:
        block = token_block(layout, X, clip=False)
        scores += block @ tables.tokens.reshape(len(layout.token_columns), -1)
    if layout.moment_columns:
        models.add_moment_scores(
            scores,
            X,
            np.array(layout.moment_columns),
            tables.means.reshape(len(layout.moment_columns), -1),
            tables.variances.reshape(len(layout.moment_columns), -1),
        )


def draw_parameters(
    layout: NaiveBayesLayout, latent: Latent, alpha: float, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the model's parameters given each draw of the statistics (conjugate)."""
    draws = {"class_prior": _dirichlet(generator, latent.totals + 1.0)}
    if layout.table_columns:
        tables = layout.tables(latent.cells)
        draws |= arrange_tables(layout, [_dirichlet(generator, t + alpha) for t in tables])
    if layout.token_columns:
        draws["token_prob"] = _dirichlet(generator, latent.tokens + alpha)
    if layout.moment_columns:
        n = np.maximum(latent.totals, 2.0)[:, :, None]
        spread = generator.standard_gamma(
            np.broadcast_to(0.5 * (n - 1.0), latent.moments.shape[:-1])
        )
        variance = 0.5 * n * latent.moments[..., 1] / spread
        normal = generator.standard_normal(variance.shape)
        draws["mean"] = latent.moments[..., 0] + np.sqrt(variance / n) * normal
        draws["variance"] = variance
    return draws


def _dirichlet(generator: np.random.Generator, parameter: np.ndarray) -> np.ndarray:
    """Dirichlet along the last axis."""
    gamma = np.maximum(generator.standard_gamma(parameter), np.finfo(float).tiny)
    return gamma / gamma.sum(axis=-1, keepdims=True)


def arrange_tables(layout: NaiveBayesLayout, tables: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Arrange draws of the tables' probabilities (S, K, values) by distribution."""
    ones = [table[:, :, 1] for table, binary in zip(tables, layout.binary, strict=True) if binary]
    others = [table for table, binary in zip(tables, layout.binary, strict=True) if not binary]
    draws = {}
    if ones:
        draws["bernoulli_prob"] = np.stack(ones, axis=2)
    if others:
        width = max(table.shape[2] for table in others)
        padded = [np.pad(t, ((0, 0), (0, 0), (0, width - t.shape[2]))) for t in others]
        draws["category_prob"] = np.stack(padded, axis=2)
    return draws
