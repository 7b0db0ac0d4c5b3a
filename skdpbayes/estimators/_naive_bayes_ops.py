r"""One posterior sample of naive Bayes with probabilities bounded below (``mechanism="ops"``).

The posterior is tempered by :math:`\rho` and restricted to class and value probabilities of at
least a share of the uniform ones. One record's log-likelihood :math:`\log \pi_c + \sum_j \log
\theta_{cj}` then has range :math:`\Delta = \Delta_\pi + \sum_j \Delta_j` (a table of ``V`` values
with floor :math:`a_0`: :math:`\Delta_j = \log((1-(V-1)a_0)/a_0)`; tokens ``max_total`` times
that), and a draw is :math:`2\rho\Delta`-differentially private for ``replace_one``,
:math:`\rho\Delta` for ``zero_out`` (Foulds et al. 2016, Equation 15).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpbayes.conjugate.floored import ROUNDING, draw_floored_dirichlet, floored_conditions
from skdpbayes.estimators._naive_bayes_posterior import ScoreTables
from skdpbayes.privacy.events import BoundedRange, NoPrivacy, PrivacyEvent
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.mechanisms.exponential_mechanism import truncated_dirichlet_range

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout

__all__ = ["DrawPlan", "draw_tables", "plan_draw"]


@dataclass(frozen=True)
class DrawPlan:
    """Temperature, floor and cost of the draw; public."""

    temper: float
    share: float
    alpha: float
    event: PrivacyEvent
    conditions: tuple[str, ...]
    words: str = "one draw from the tempered posterior with bounded probabilities"
    noise: str = "laplace"  # only says which offset unused moments would have


def plan_draw(estimator: Any, layout: NaiveBayesLayout, n_classes: int) -> DrawPlan:
    """Calibrate the temperature from public numbers."""
    if layout.moment_columns:
        raise ValueError(
            "mechanism='ops' is available for bernoulli, categorical and multinomial columns; "
            "gaussian densities have no bound. Use mechanism='laplace' or 'gaussian'."
        )
    sizes = [n_classes, *layout.n_values]
    share = float(estimator.min_probability)
    width = sum(_range(size, share) for size in sizes)
    if layout.token_columns:
        width += layout.max_total * _range(len(layout.token_columns), share)
        sizes.append(len(layout.token_columns))
    if np.isinf(estimator.epsilon):
        return DrawPlan(1.0, share, float(estimator.alpha), NoPrivacy(), ())
    records = 2.0 if estimator.adjacency == "replace_one" else 1.0
    eta = float(estimator.epsilon)
    if estimator.delta > 0.0:
        eta = max(eta, bounded_range_eta(float(estimator.epsilon), float(estimator.delta)))
    temper = min(1.0, eta / (records * width) * (1.0 - ROUNDING))
    return DrawPlan(
        temper, share, float(estimator.alpha), BoundedRange(eta), floored_conditions(sizes)
    )


def _range(size: int, share: float) -> float:
    return truncated_dirichlet_range(size, share / size) if size > 1 else 0.0


def draw_tables(
    layout: NaiveBayesLayout,
    statistics: np.ndarray,
    n_records: int,
    plan: DrawPlan,
    generator: np.random.Generator,
) -> ScoreTables:
    """Draw all probabilities once; the statistics are exact and stay here."""
    tables, classes, tokens, _ = layout.split(statistics)
    totals = layout.tables(tables)[0].sum(axis=1) if layout.table_columns else classes[:, 0]

    def draw(counts: np.ndarray, alpha: float, most: int) -> np.ndarray:
        size = counts.shape[1]
        bound = plan.temper * most + alpha * size
        parameter = counts * plan.temper + alpha
        return draw_floored_dirichlet(parameter, plan.share / size, bound, generator)

    prior = draw(totals[None], 1.0, n_records)[0]
    rows = [draw(table, plan.alpha, n_records) for table in layout.tables(tables)]
    empty = np.empty((statistics.shape[0], 0))
    most = layout.max_total * n_records
    words = draw(tokens, plan.alpha, most) if tokens.shape[1] else empty
    cells = np.concatenate([*rows, empty], axis=1)
    nothing = np.empty((0, statistics.shape[0], 1))
    return ScoreTables(
        np.log(prior)[:, None],
        np.log(cells).T[:, :, None].copy(),
        np.log(words).T[:, :, None].copy(),
        nothing,
        nothing,
    )
