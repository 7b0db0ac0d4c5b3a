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

from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.events import BoundedRange, NoPrivacy, PrivacyEvent
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.mechanisms.exponential_mechanism import truncated_dirichlet_range
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.floored import ROUNDING, draw_floored_dirichlet, floored_conditions

if TYPE_CHECKING:
    from skdpbayes.models.naive_bayes import NaiveBayesLayout


@dataclass(frozen=True)
class DrawPlan:
    """Temperature, floor and cost of the draw; public."""

    layout: NaiveBayesLayout
    temper: float
    share: float
    alpha: float
    event: PrivacyEvent
    conditions: tuple[str, ...]
    words: str = "one draw from the tempered posterior with bounded probabilities"

    def numbers(self) -> dict[str, Any]:
        """No number of the draw is an attribute."""
        return {}


def plan_draw(
    layout: NaiveBayesLayout, n_classes: int, share: float, alpha: float, budget: Budget
) -> DrawPlan:
    """Calibrate the temperature from public numbers."""
    if layout.moment_columns:
        raise ValueError(
            "mechanism='ops' is available for bernoulli, categorical and multinomial columns; "
            "gaussian densities have no bound. Use mechanism='laplace' or 'gaussian'."
        )
    if not budget.private:
        return DrawPlan(layout, 1.0, share, alpha, NoPrivacy(), ())
    sizes = [n_classes, *layout.n_values]
    width = sum(_range(size, share) for size in sizes)
    if layout.token_columns:
        width += layout.max_total * _range(len(layout.token_columns), share)
        sizes.append(len(layout.token_columns))
    eta = budget.epsilon
    if budget.delta > 0.0:
        eta = max(eta, bounded_range_eta(budget.epsilon, budget.delta))
    temper = min(1.0, eta / (moved(budget.adjacency) * width) * (1.0 - ROUNDING))
    return DrawPlan(layout, temper, share, alpha, BoundedRange(eta), floored_conditions(sizes))


def _range(size: int, share: float) -> float:
    return truncated_dirichlet_range(size, share / size) if size > 1 else 0.0


def draw_probabilities(
    layout: NaiveBayesLayout,
    statistics: np.ndarray,
    n_records: int,
    plan: DrawPlan,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the probabilities of classes (K,), cells (K, C) and tokens (K, V) once.

    The statistics are exact and stay here.
    """
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
    # without privacy there is no largest total, and no bound is needed to hide one
    most = layout.max_total * n_records or int(tokens.sum(axis=1).max(initial=0))
    words = draw(tokens, plan.alpha, most) if tokens.shape[1] else empty
    return prior, np.concatenate([*rows, empty], axis=1), words
