"""The runs of a private search: how many, what each fits, what it scores."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpbayes.fitting.records import Public
from skdpbayes.model_selection.scoring import HoldOutScore
from skdpbayes.privacy.mechanisms.repetition import negative_binomial_gamma


class Table(NamedTuple):
    """Rows and labels of both parts, as they reach the first private step."""

    X: Any
    y: np.ndarray
    X_held_out: Any
    y_held_out: np.ndarray
    units: Any = None
    """The person of each training record; None where each record is a unit."""
    weight: np.ndarray | None = None
    """Weights of the held-out records, those of a person at most 1 together."""


@dataclass(frozen=True)
class Setting:
    """What the plan of a search may know besides the numbers of the table."""

    candidates: list[dict[str, Any]]
    n_train: int
    score: HoldOutScore
    read: tuple[tuple[Public, ...], ...] = ()
    """What the plans of each candidate's private steps may know, in order."""


@dataclass(frozen=True)
class HeldOut:
    """The records of a search, split; ``tables`` has one entry per candidate."""

    public: Public
    tables: tuple[Table, ...]
    heads: tuple[list[tuple[str, Any]], ...]
    n_held_out: int
    """Number of records, or of persons, that are scored."""

    @property
    def score(self) -> HoldOutScore:
        """How held-out records are scored."""
        score: HoldOutScore = self.public.detail.score
        return score


class Run(NamedTuple):
    """One fit and its score; only the winner's leaves the search."""

    candidate: int
    fitted: Any
    total: Any


def one_run(unfitted: Any, index: int, table: Table, score: HoldOutScore) -> Run:
    """Fit and score.

    What is said meanwhile is not heard: warnings may be computed from exact records, and those of
    losing runs would tell how many there are.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whose = {} if table.units is None else {"units": table.units}
        fitted = unfitted.fit(table.X, table.y, **whose)
        total = score.total(fitted, table.X_held_out, table.y_held_out, table.weight)
        return Run(index, fitted, total)


def draw_number_of_runs(generator: np.random.Generator, mean: float, shape: float) -> int:
    r"""Draw *K*, Poisson (``shape=inf``) or truncated negative binomial.

    The latter has :math:`P(k+1)/P(k) = (1-\gamma)(k+\eta)/(k+1)` from :math:`k = 1` on.
    """
    if math.isinf(shape):
        return int(generator.poisson(mean))
    gamma = negative_binomial_gamma(shape, mean)
    if gamma == 1.0:
        return 1
    if abs(shape) < 1e-12:
        mass = (1.0 - gamma) / -math.log(gamma)
    else:
        mass = (1.0 - gamma) * shape * gamma**shape / -math.expm1(shape * math.log(gamma))
    remaining, k = generator.random(), 1
    while remaining >= mass and mass > 1e-300:
        remaining -= mass
        mass *= (1.0 - gamma) * (k + shape) / (k + 1)
        k += 1
    return k
