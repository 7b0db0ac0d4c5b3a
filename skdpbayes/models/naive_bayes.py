r"""The naive Bayes release: which statistics there are, how far one record moves them.

One record of class ``c`` adds to row ``c`` of the statistics only:

- a *table* (Bernoulli or categorical column): 1 in one cell;
- the *class count* (only where there is no table, whose totals would show it): 1;
- the *tokens* (multinomial columns together): counts of total at most ``T``;
- the *moments* (a Gaussian column): :math:`t` and :math:`\kappa - t^2`, :math:`|t| \le 1`.

With ``D`` tables, :math:`e = 1` if the class count is released (else 0) and ``F`` moment pairs, the
sensitivities are

==============  ===========================================  =======================================
adjacency       L1 (with :math:`\kappa = 7/8`)               squared L2 (with :math:`\kappa = 1`)
==============  ===========================================  =======================================
zero_out        :math:`D + e + T + \tfrac98 F`               :math:`D + e + T^2 + F`
replace_one     :math:`2D + 2e + 2T + \tfrac94 F`            :math:`2D + 2T^2 + \max(4F, 2e + 2F)`
==============  ===========================================  =======================================

*Proof.* Zero-out: the row's own contribution. For the moments, :math:`|t| + |\tfrac78 - t^2|` is
largest at :math:`|t| = 1` and :math:`|t| = \tfrac12`, where it is 9/8 (:math:`1 + \tfrac18` and
:math:`\tfrac12 + \tfrac58`), and :math:`t^2 + (1-t^2)^2 = 1 - t^2 + t^4 \le 1`. Tokens: the L2
norm is at most the L1 norm, ``T``, attained by one word ``T`` times. Replace-one, two classes:
rows ``c`` and ``c'`` change by one contribution each, so L1 norms add and squared L2 norms add.
Replace-one, same class: the class count stays; tables and tokens move by at most as much as with
two classes (their coordinates are non-negative, so differences are no longer than sums); the
moments by :math:`|t-t'|(1 + |t+t'|) \le \tfrac94` (at :math:`1, -\tfrac12`), and in squared L2 by
:math:`(t-t')^2 (1 + (t+t')^2) \le 4` (at :math:`1, -1`). The table shows the larger of the two
cases. The bounds of a Gaussian column enter only through :math:`t`, so they may lie anywhere, far
from zero too; rounding :math:`t` to the grid keeps it in [-1, 1] and costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from skdpbayes.models.counts import GRID


@dataclass(frozen=True)
class NaiveBayesLayout:
    """Where each column's statistics live in the released array; public.

    Parameters
    ----------
    table_columns, n_values : tuples of int
        Columns with a class-by-value table and their numbers of values.
    binary : tuple of bool
        Which of them are thresholded to two values.
    token_columns : tuple of int
        The multinomial columns, one block.
    max_total : int
        Bound on a row's sum over the token columns.
    moment_columns : tuple of int
        The Gaussian columns.
    bounds : tuple of (float, float)
        Their bounds; infinite without privacy.
    threshold : float or None
        Binary columns are 1 above it; None says that they hold 0 and 1 only.
    missing : bool
        Whether the last value of every table that is not binary counts rows without a value.
    """

    table_columns: tuple[int, ...] = ()
    n_values: tuple[int, ...] = ()
    binary: tuple[bool, ...] = ()
    token_columns: tuple[int, ...] = ()
    max_total: int = 0
    moment_columns: tuple[int, ...] = ()
    bounds: tuple[tuple[float, float], ...] = ()
    threshold: float | None = 0.0
    missing: bool = False

    @property
    def cut(self) -> float:
        """Value above which an entry of a binary column is 1."""
        return 0.5 if self.threshold is None else self.threshold

    @property
    def takes_sparse(self) -> bool:
        """Whether zeros may stay implicit: one distribution for which they are the default."""
        if self.moment_columns:
            return False
        if self.token_columns:
            return not self.table_columns
        return all(self.binary) and self.cut >= 0.0

    @property
    def starts(self) -> np.ndarray:
        """First cell of each table, and the number of cells."""
        return np.concatenate([[0], np.cumsum(self.n_values)]).astype(np.int64)

    @property
    def n_cells(self) -> int:
        """Number of table cells of one class."""
        return sum(self.n_values)

    @property
    def has_class_table(self) -> bool:
        """Whether class counts are released on their own: only if no table's totals show them."""
        return not self.table_columns

    @property
    def n_statistics(self) -> int:
        """Number of released integers of one class."""
        return (
            self.n_cells
            + int(self.has_class_table)
            + len(self.token_columns)
            + 2 * len(self.moment_columns)
        )

    def split(self, statistics: np.ndarray) -> tuple[np.ndarray, ...]:
        """Views of the class tables, class counts, tokens and moments of (K, S) statistics."""
        ends = np.cumsum([self.n_cells, int(self.has_class_table), len(self.token_columns)])
        tables, classes, tokens, moments = np.split(statistics, ends, axis=1)
        return tables, classes, tokens, moments.reshape(statistics.shape[0], -1, 2)

    def tables(self, cells: np.ndarray) -> list[np.ndarray]:
        """Split the cells (last axis) into one array per table."""
        return np.split(cells, self.starts[1:-1], axis=-1) if self.table_columns else []

    def units(self) -> np.ndarray:
        """Size of one unit of noise in each released integer: grid steps for the moments."""
        units = np.ones(self.n_statistics)
        moments = units[self.n_statistics - 2 * len(self.moment_columns) :]
        moments[0::2], moments[1::2] = GRID, GRID**2
        return units

    def l1_sensitivity(self, moved: int) -> float:
        """L1 sensitivity of the statistics over ``units``, with the moment offset 7/8.

        ``moved`` contributions change: 1 (zero_out) or 2 (replace_one).
        """
        once = (
            len(self.table_columns)
            + int(self.has_class_table)
            + self.max_total
            + 1.125 * len(self.moment_columns)
        )
        return moved * once

    def squared_l2_sensitivity(self, moved: int) -> int:
        """Squared L2 sensitivity of the statistics over ``units``, with the moment offset 1."""
        n_tables, n_moments = len(self.table_columns), len(self.moment_columns)
        extra, tokens = int(self.has_class_table), self.max_total**2
        if moved == 1:
            return n_tables + extra + tokens + n_moments
        return 2 * n_tables + 2 * tokens + max(4 * n_moments, 2 * extra + 2 * n_moments)

    @property
    def counts_only(self) -> bool:
        """Whether one record moves every statistic by at most 1."""
        return not self.moment_columns and self.max_total == 0


def moment_offset(noise: str) -> float:
    """Return the constant kappa of the square statistic that suits the noise best."""
    return 1.0 if noise == "gaussian" else 0.875


@njit(cache=True)
def wrong_code(X: np.ndarray, columns: np.ndarray, sizes: np.ndarray) -> int:
    """Return the first of ``columns`` that holds a value outside 0, ..., size - 1; -1 if none does.

    Values are compared as they are: a cast would wrap wide or unsigned integers around.
    """
    for i in range(X.shape[0]):
        for t in range(columns.shape[0]):
            value = X[i, columns[t]]
            if not (value >= 0 and value < sizes[t]) or np.int64(value) != value:
                return columns[t]
    return -1


@njit(cache=True)
def add_table_scores(
    scores: np.ndarray,
    X: np.ndarray,
    columns: np.ndarray,
    starts: np.ndarray,
    binary: np.ndarray,
    threshold: float,
    log_probability: np.ndarray,
) -> None:
    """Add each row's log-probabilities of its table values.

    Parameters
    ----------
    scores : float array of shape (n_samples, m)
        Added to in place; ``m`` runs over classes and draws.
    X : array of shape (n_samples, n_features)
        The rows; ``wrong_code`` has found nothing in them.
    columns, starts, binary
        The layout's tables; a binary column's value is ``x > threshold``.
    threshold : float
        See ``binary``.
    log_probability : float array of shape (n_cells, m)
        Log-probability of each cell.
    """
    for i in range(X.shape[0]):
        for t in range(columns.shape[0]):
            value = X[i, columns[t]]
            code = np.int64(value > threshold) if binary[t] else np.int64(value)
            cell = log_probability[starts[t] + code]
            row = scores[i]
            for k in range(row.shape[0]):
                row[k] += cell[k]


def average_probability(scores: np.ndarray) -> np.ndarray:
    """Class probabilities averaged over the draws, shape (n, K).

    ``scores`` of shape (n, K - 1, S) are logarithms relative to the first class. Small
    probabilities keep their relative precision, no entry exceeds 1, and rows sum to 1.
    """
    n_draws = scores.shape[2]
    if scores.shape[1] == 1:
        odds = np.exp(np.clip(scores[:, 0], -700.0, 700.0))
        first = 1.0 / (1.0 + odds)
        sums = [first.sum(axis=1)[:, None], np.einsum("ns,ns->n", odds, first)[:, None]]
    else:
        top = np.maximum(scores.max(axis=1), 0.0)
        first, others = np.exp(-top), np.exp(scores - top[:, None])
        weight = 1.0 / (first + others.sum(axis=1))
        sums = [(first * weight).sum(axis=1)[:, None], np.einsum("nks,ns->nk", others, weight)]
    probability = np.concatenate(sums, axis=1) / n_draws
    # each mean is right to a few units of rounding, which may leave one just above 1
    return np.minimum(probability / probability.sum(axis=1, keepdims=True), 1.0)
