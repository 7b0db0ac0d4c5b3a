"""What naive Bayes keeps of a release: latent counts, predictions, draws. It sees no records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skdpbayes import models, randomness, samplers
from skdpbayes._validation import check_integer
from skdpbayes.estimators.naive_bayes.layout import (
    check_rows,
    fill_missing,
    indicators,
    token_block,
)
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.records import in_double
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Noise

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout

# Rows are scored in blocks of about this many numbers, which stay in a processor's cache.
BLOCK = 1 << 15
# Logarithms of odds that noise may take from a class: correcting less made Adult less accurate.
ALLOWANCE = 1.0
INTERVAL_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Release:
    """The released statistics and all that is public about them.

    Parameters
    ----------
    layout : NaiveBayesLayout
        Where each column's statistics are.
    statistics : int64 ndarray of shape (n_classes, n_statistics)
        Noisy, or sums of noisy ones.
    noises : tuple of Noise
        Law and scale of the noise on a count, one per merged release.
    n_records : int
        Number of records.
    exact_moments : ndarray of shape (n_classes, n_moment_columns, 2) or None
        Means and variances of a fit without privacy.
    largest_variance : float
        Of a column, in a fit without privacy.
    """

    layout: NaiveBayesLayout
    statistics: np.ndarray
    noises: tuple[Noise, ...]
    n_records: int
    exact_moments: np.ndarray | None = None
    largest_variance: float = 0.0

    @property
    def private(self) -> bool:
        """Whether there is noise."""
        return self.noises[0].law != "none"

    @classmethod
    def merged(cls, parts: Sequence[Release]) -> Release:
        """Add releases of disjoint records."""
        return cls(
            parts[0].layout,
            np.sum([part.statistics for part in parts], axis=0),
            tuple(noise for part in parts for noise in part.noises),
            sum(part.n_records for part in parts),
        )

    def latent(self, reading: Reading, generator: np.random.Generator, n_draws: int) -> Latent:
        """Draw the true statistics; a single draw where they are known or taken as known."""
        if self.private and reading.noise_aware:
            return _draw_latent(self, reading.alpha, generator, n_draws)
        latent = _naive_latent(self)
        if self.exact_moments is not None:
            latent = replace(latent, moments=self.exact_moments[None])
        return latent

    def added_variance(self, var_smoothing: float) -> Any:
        """Return the public addition to every variance.

        It is ``var_smoothing`` times the largest possible variance. The grid hides differences
        below its step, so no variance is taken to be smaller than that of rounding to it. Without
        privacy scikit-learn's rule is used.
        """
        if not self.layout.moment_columns:
            return 0.0
        if not self.private:
            return var_smoothing * self.largest_variance
        half, _ = _half_ranges(self.layout)
        return np.maximum(var_smoothing * (half**2).max(), half**2 / (12.0 * models.GRID**2))


@dataclass(frozen=True)
class Reading:
    """How a release is read; fixed at fit."""

    alpha: float
    noise_aware: bool
    n_draws: int
    var_smoothing: float


@dataclass(frozen=True, eq=False)
class TablesPosterior:
    """Everything a fit leaves behind.

    ``release`` is None where no statistics but one draw of the probabilities was released.
    """

    scores: ScoreTables
    class_count: np.ndarray
    n_records: int
    release: Release | None = None
    reading: Reading | None = None

    @classmethod
    def learned(
        cls, release: Release, reading: Reading, bound: Bound, generator: np.random.Generator
    ) -> TablesPosterior:
        """Compute everything else from the released statistics."""
        latent = release.latent(reading, generator, reading.n_draws)
        added = release.added_variance(reading.var_smoothing)
        scores = ScoreTables.from_latent(release.layout, bound, latent, reading.alpha, added)
        return cls(scores, latent.totals.mean(axis=0), release.n_records, release, reading)

    @classmethod
    def drawn(
        cls,
        layout: NaiveBayesLayout,
        probabilities: tuple[np.ndarray, np.ndarray, np.ndarray],
        n_records: int,
    ) -> TablesPosterior:
        """Keep the one draw that ``mechanism="ops"`` released."""
        prior, cells, tokens = (np.log(table) for table in probabilities)
        nothing = np.empty((0, prior.shape[0], 1))
        scores = ScoreTables(
            layout,
            Bound(),
            prior[:, None],
            cells.T[:, :, None].copy(),
            tokens.T[:, :, None].copy(),
            nothing,
            nothing,
        )
        return cls(scores, n_records * np.exp(prior), n_records)

    @property
    def missing(self) -> dict[str, str]:
        """Methods that need more than one draw."""
        if self.release is not None:
            return {}
        why = "Use mechanism='laplace' or 'gaussian'."
        missing = {"interval": f"mechanism='ops' released a single posterior draw. {why}"}
        if self.scores.layout.token_columns:
            missing["sample"] = f"mechanism='ops' released nothing about the lengths of rows. {why}"
        return missing

    @property
    def numbers_per_row(self) -> int:
        """Numbers of a row's prediction that are kept, and of its bounded columns."""
        return self.class_count.shape[0] + 4 * len(self.scores.layout.moment_columns)

    def attributes(self) -> dict[str, Any]:
        """Return the released statistics and the estimated classes."""
        shown: dict[str, Any] = {
            "class_count_": self.class_count,
            "class_log_prior_": np.log(np.exp(self.scores.classes).mean(axis=1)),
            "n_records_": self.n_records,
        }
        if self.release is not None:
            shown["statistics_"] = self.release.statistics
            shown["noise_"] = self.release.noises
        return shown

    def probabilities(self, X: Any) -> np.ndarray:
        """Class probabilities of each row, averaged over the draws, shape (n, K)."""
        return self.scores.probabilities(X)

    def decision(self, X: Any) -> np.ndarray:
        """Log-odds of two classes, logarithms of probabilities of more."""
        logs = np.log(np.clip(self.probabilities(X), np.finfo(float).tiny, None))
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw the parameters given draws of the latent statistics."""
        if self.release is None:
            return self._only_draw(n_samples)
        assert self.reading is not None
        size = self.reading.n_draws if n_samples is None else n_samples
        size = check_integer("n_samples", size, low=1)
        # derived: the seed of the fit would repeat the secret noise
        generator = randomness.derived_generator(random_state, 1)
        latent = self.release.latent(self.reading, generator, size)
        if latent.totals.shape[0] != size:  # known or taken as known: the same in every draw
            parts = (latent.totals, latent.cells, latent.tokens, latent.moments)
            latent = Latent(*(np.repeat(part, size, axis=0) for part in parts))
        return _draw_parameters(self.release.layout, latent, self.reading.alpha, generator)

    def _only_draw(self, n_samples: int | None) -> dict[str, np.ndarray]:
        if n_samples not in (None, 1):
            raise ValueError(
                f"n_samples={n_samples!r}: mechanism='ops' released a single posterior draw, and "
                "more would cost more privacy. Use mechanism='laplace' for unlimited draws."
            )
        scores, layout = self.scores, self.scores.layout
        draws = {"class_prior": np.exp(scores.classes.T)}
        cells = np.exp(scores.cells.transpose(2, 1, 0))
        draws |= _arrange_tables(layout, layout.tables(cells))
        if layout.token_columns:
            draws["token_prob"] = np.exp(scores.tokens.transpose(2, 1, 0))
        return draws

    def sample(
        self, n_samples: int, n_features: int, random_state: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the parameters once, then rows (n, d) and the codes of their classes given them."""
        layout = self.scores.layout
        parameters = {name: values[0] for name, values in self.draws(1, random_state).items()}
        generator = randomness.derived_generator(random_state, 2)
        codes = _choose(parameters["class_prior"], generator.random(n_samples))
        X = np.zeros((n_samples, n_features))
        ones, others = iter(range(sum(layout.binary))), iter(range(len(layout.binary)))
        for column, size, binary in zip(
            layout.table_columns, layout.n_values, layout.binary, strict=True
        ):
            uniform = generator.random(n_samples)
            if binary:
                X[:, column] = uniform < parameters["bernoulli_prob"][codes, next(ones)]
                continue
            table = parameters["category_prob"][:, next(others), :size]
            for c in range(table.shape[0]):
                X[codes == c, column] = _choose(table[c], uniform[codes == c])
            if layout.missing:
                X[X[:, column] == size - 1, column] = np.nan
        if layout.token_columns:
            totals = self._lengths(codes, generator)
            X[:, layout.token_columns] = generator.multinomial(
                totals, parameters["token_prob"][codes]
            )
        if layout.moment_columns:
            mean, deviation = parameters["mean"][codes], np.sqrt(parameters["variance"][codes])
            X[:, layout.moment_columns] = mean + deviation * generator.standard_normal(mean.shape)
        return self.scores.bound(X), codes

    def _lengths(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Totals of token rows, which the model does not describe: Poisson, cut at the bound."""
        assert self.release is not None  # see `missing`
        tokens = self.release.layout.split(self.release.statistics)[2]
        mean = np.maximum(tokens.sum(axis=1), 0) / np.maximum(self.class_count, 1.0)
        most = self.release.layout.max_total or np.iinfo(np.int64).max
        return np.minimum(generator.poisson(np.minimum(mean, most)[codes]), most)

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return quantiles of posterior draws, the same ones whenever they are asked for."""
        draws = self.draws(INTERVAL_DRAWS, 0)
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        return {
            name: np.moveaxis(np.quantile(values, ends, axis=0), 0, -1)
            for name, values in draws.items()
        }


@dataclass(frozen=True)
class Latent:
    """Draws of the true statistics: class totals, table cells, tokens, (mean, variance) pairs.

    The draw axis comes first, the class axis second; means and variances are in units of the data.
    """

    totals: np.ndarray
    cells: np.ndarray
    tokens: np.ndarray
    moments: np.ndarray


def _draw_latent(
    release: Release, alpha: float, generator: np.random.Generator, n_draws: int
) -> Latent:
    """Draw the true statistics given the noisy ones and the law of their noise."""
    layout, n_records = release.layout, release.n_records
    tables, classes, tokens, moments = layout.split(release.statistics)
    n_classes = release.statistics.shape[0]
    noise = [(part.law, part.scale) for part in release.noises]
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


def _naive_latent(release: Release) -> Latent:
    """Take the noisy statistics for the true ones, clipped to what is possible: a single draw."""
    layout, law = release.layout, release.noises[0].law
    tables, classes, tokens, moments = layout.split(release.statistics)
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


@dataclass(frozen=True, eq=False)
class ScoreTables:
    """Logarithms that rows are scored with; the last axis is the draw."""

    layout: NaiveBayesLayout
    bound: Bound
    classes: np.ndarray  # (K, S)
    cells: np.ndarray  # (C, K, S)
    tokens: np.ndarray  # (V, K, S)
    means: np.ndarray  # (F, K, S)
    variances: np.ndarray  # (F, K, S)

    @classmethod
    def from_latent(
        cls,
        layout: NaiveBayesLayout,
        bound: Bound,
        latent: Latent,
        alpha: float,
        added_variance: np.ndarray | float,
    ) -> ScoreTables:
        """Use scikit-learn's smoothed estimates given each draw of the statistics."""
        # A class that a draw leaves empty keeps a vanishing probability instead of log(0).
        totals = np.maximum(latent.totals, 1e-10)
        logs = [np.empty((*latent.totals.shape, 0))]
        if layout.table_columns:
            logs = [
                _log_observed(table, alpha)
                if layout.missing and not binary
                else _log_smoothed(table, alpha)
                for table, binary in zip(layout.tables(latent.cells), layout.binary, strict=True)
            ]
        variances = latent.moments[..., 1] + added_variance
        return cls(
            layout,
            bound,
            _draw_last(np.log(totals / totals.sum(axis=1, keepdims=True))),
            _evened(layout, _draw_last(np.concatenate(logs, axis=2))),
            _centered(_draw_last(_log_smoothed(latent.tokens, alpha))),
            _draw_last(latent.moments[..., 0]),
            _draw_last(variances),
        )

    def probabilities(self, X: Any) -> np.ndarray:
        """Class probabilities of each row, averaged over the draws, shape (n, K)."""
        X = in_double(X)  # scored as it is counted
        check_rows(self.layout, X)
        X = self.bound(fill_missing(self.layout, X))
        score = self._scorer()
        n_classes, n_draws = self.classes.shape
        size = max(1, BLOCK // ((n_classes - 1) * n_draws))
        probability = np.empty((X.shape[0], n_classes))
        with one_blas_thread():
            for start in range(0, X.shape[0], size):
                scores = score(X[start : start + size]).reshape(-1, n_classes - 1, n_draws)
                probability[start : start + size] = models.average_probability(scores)
        return probability

    def _scorer(self) -> Callable[[Any], np.ndarray]:
        """Return a function from rows to log-odds against the first class, (n, (K - 1) S)."""
        layout = self.layout
        start = _against_first(self.classes[None])
        parts: list[Callable[[Any, np.ndarray], None]] = []
        if layout.table_columns:
            parts.append(_table_scorer(layout, _against_first(self.cells)))
        if layout.token_columns:
            tokens = _against_first(self.tokens)
            parts.append(lambda X, scores: np.add(scores, token_block(layout, X) @ tokens, scores))
        if layout.moment_columns:
            parts.append(_moment_scorer(layout, self.means, self.variances))

        def score(X: Any) -> np.ndarray:
            scores = np.repeat(start, X.shape[0], axis=0)
            for add in parts:
                add(X, scores)
            return scores

        return score


def _against_first(logs: np.ndarray) -> np.ndarray:
    """(V, K, S) to (V, (K - 1) S): subtract what the first class has."""
    return (logs[:, 1:] - logs[:, :1]).reshape(logs.shape[0], -1)


def _table_scorer(layout: NaiveBayesLayout, cells: np.ndarray) -> Callable[[Any, np.ndarray], None]:
    columns, binary = np.array(layout.table_columns), np.array(layout.binary)

    def add(X: Any, scores: np.ndarray) -> None:
        if sparse.issparse(X):  # all columns are binary: the zeros first, then the ones
            scores += cells[0::2].sum(axis=0) + indicators(layout, X) @ (cells[1::2] - cells[0::2])
        else:
            models.add_table_scores(scores, X, columns, layout.starts, binary, layout.cut, cells)

    return add


def _moment_scorer(
    layout: NaiveBayesLayout, means: np.ndarray, variances: np.ndarray
) -> Callable[[Any, np.ndarray], None]:
    """Add normal log-densities.

    Within bounds they are polynomials of the standardized entries, whose coefficients times 1 and
    the squares are a matrix product: no variance is below that of the grid, so that cancellation
    costs less than 1e-8. Without bounds there is one draw, and squares of differences are taken.
    """
    columns = list(layout.moment_columns)
    normalizer = -0.5 * np.log(2.0 * np.pi * variances).sum(axis=0)[None]

    if not np.isfinite(layout.bounds).all():

        def add_squares(X: np.ndarray, scores: np.ndarray) -> None:
            block = X[:, columns, None]
            logs = [
                normalizer[:, k] - 0.5 * ((block - mean) ** 2 / variance).sum(axis=1)
                for k, (mean, variance) in enumerate(
                    zip(means.swapaxes(0, 1), variances.swapaxes(0, 1), strict=True)
                )
            ]
            scores += _against_first(np.stack(logs, axis=1))

        return add_squares

    half, center = (ends[:, None, None] for ends in _half_ranges(layout))
    slope = half**2 / variances
    mean = (means - center) / half
    constant = _against_first(normalizer - 0.5 * (slope * mean**2).sum(axis=0)[None])
    linear, squares = _against_first(slope * mean), _against_first(-0.5 * slope)
    factors = np.concatenate([constant, linear, squares])

    def add(X: np.ndarray, scores: np.ndarray) -> None:
        entry = (X[:, columns] - center[:, 0, 0]) / half[:, 0, 0]
        scores += np.concatenate([np.ones((len(X), 1)), entry, entry**2], axis=1) @ factors

    return add


def _log_smoothed(counts: np.ndarray, alpha: float) -> np.ndarray:
    if counts.shape[2] == 0:
        return np.empty(counts.shape)
    smoothed = counts + alpha
    return np.log(smoothed) - np.log(smoothed.sum(axis=2, keepdims=True))


def _log_observed(counts: np.ndarray, alpha: float) -> np.ndarray:
    """Logarithms given that a value was observed; a missing one, the last, says nothing."""
    logs = np.zeros(counts.shape)
    logs[..., :-1] = _log_smoothed(counts[..., :-1], alpha)
    return logs


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
    `ALLOWANCE` beyond the class that loses least.
    """
    if not layout.table_columns:
        return logs
    mean = np.exp(logs).mean(axis=-1)
    lost = (mean * (np.log(mean) - logs.mean(axis=-1))).sum(axis=0)
    shift = np.maximum(lost - lost.min() - ALLOWANCE, 0.0)
    # Every row has one value in the first column, so that its cells carry the shift of the class.
    logs[: layout.n_values[0]] += shift[:, None]
    return logs


def _draw_last(values: np.ndarray) -> np.ndarray:
    """(S, K, ...) to (..., K, S), contiguous: rows are scored along it."""
    return np.ascontiguousarray(values.transpose(*range(values.ndim - 1, 0, -1), 0))


def _choose(probability: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Turn uniform numbers into values of probabilities (V,)."""
    ends = np.cumsum(probability)[:-1]  # the last value gets what rounding leaves
    return np.searchsorted(ends, uniform, side="right")


def _draw_parameters(
    layout: NaiveBayesLayout, latent: Latent, alpha: float, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw the model's parameters given each draw of the statistics (conjugate)."""
    draws = {"class_prior": _dirichlet(generator, latent.totals + 1.0)}
    if layout.table_columns:
        tables = layout.tables(latent.cells)
        draws |= _arrange_tables(layout, [_dirichlet(generator, t + alpha) for t in tables])
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


def _arrange_tables(layout: NaiveBayesLayout, tables: list[np.ndarray]) -> dict[str, np.ndarray]:
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
