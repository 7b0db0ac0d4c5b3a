"""Every estimator, mechanism and adjacency on neighbors that are hard for it.

The cases are small on purpose: a fit takes a few milliseconds, so that thousands fit into a test.
They are audited (``tests/estimators/test_audits.py``), replayed
(``tests/estimators/test_replay.py``) and listed in the report of
``benchmarks/audit_report.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpbayes import (
    DPSGLDClassifier,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivateHMM,
)
from skdpbayes.auditing import NeighborPair, neighbors

# At (3, 0.01) a Gaussian mechanism has mu = 1.2: hundreds of fits tell it from twice that.
BUDGET = {"epsilon": 3.0, "delta": 1e-2}
PURE = {"epsilon": 2.0, "delta": 0.0}
LINEAR = {"fit_intercept": False}
NAIVE = {"posterior": "naive", "n_draws": 1}
SHORT = {"n_states": 1, "n_iter": 1, "burn_in": 0, "n_chains": 1, "emission_posterior": "projected"}


class EventLogHMM(PrivateHMM):
    """A hidden Markov model whose rows hold the time, the group and the fields of an event."""

    def fit(self, X: Any, y: Any = None) -> Any:
        X = np.asarray(X)
        return super().fit(X[:, 2:], times=X[:, 0], groups=X[:, 1])


def counts_of(fitted: Any) -> np.ndarray:
    return np.asarray(getattr(fitted, "statistics_", getattr(fitted, "released_counts_", None)))


def emissions_of(fitted: Any) -> np.ndarray:
    return np.concatenate([table.ravel() for table in fitted.emission_])


def log_prior_of(fitted: Any) -> np.ndarray:
    return np.asarray(fitted.class_log_prior_)


def draws_of(fitted: Any) -> np.ndarray:
    return np.asarray(fitted.sample_posterior()["coef"])


@dataclass(frozen=True)
class Case:
    """One audit: an estimator, a pair of data sets, and what an adversary looks at."""

    estimator: type[BaseEstimator]
    label: str
    params: dict[str, Any]
    pair: NeighborPair
    score: Callable[[Any], Any] | None = None
    deletes: bool = False
    """Whether the neighbor lacks the first record (a null record that counts nowhere)."""

    @property
    def name(self) -> str:
        kind = self.estimator.__name__.replace("EventLogHMM", "PrivateHMM")
        return f"{kind} {self.label} {self.params.get('adjacency', 'replace_one')}"

    @property
    def data(self) -> tuple[Any, ...]:
        return (self.pair.X,) if self.estimator is EventLogHMM else (self.pair.X, self.pair.y)

    @property
    def neighbor(self) -> tuple[Any, ...]:
        if self.deletes:
            return tuple(part[1:] for part in self.data)
        other = self.pair.neighbor
        return other[:1] if self.estimator is EventLogHMM else other

    def build(self, **params: Any) -> BaseEstimator:
        known = self.estimator().get_params()
        public = {name: value for name, value in self.pair.params.items() if name in known}
        return self.estimator(**{**public, **self.params, **params})


def _both(make: Callable[[str], Case]) -> list[Case]:
    return [make("replace_one"), make("zero_out")]


def _linear(estimator: Any, label: str, n_samples: int, **params: Any) -> list[Case]:
    """Replace a record by its mirror image; for ``zero_out`` by a row of zeros."""

    def make(adjacency: str) -> Case:
        replaced = neighbors.antipodal(n_samples, 2)
        pair = replaced if adjacency == "replace_one" else neighbors.zeroed_record(n_samples, 1)
        return Case(estimator, label, {**LINEAR, **params, "adjacency": adjacency}, pair)

    return _both(make)


def _only_record(estimator: Any, label: str, **params: Any) -> list[Case]:
    """Flip the label of the only record; for ``zero_out`` replace it by a row of zeros."""

    def make(adjacency: str) -> Case:
        pair = neighbors.tiny() if adjacency == "replace_one" else neighbors.zeroed_record(1, 1)
        return Case(estimator, label, {**LINEAR, **params, "adjacency": adjacency}, pair)

    return _both(make)


def _chain(label: str, **params: Any) -> list[Case]:
    """Look at every released state; a small clip makes the record's gradient as large as it may."""

    def make(adjacency: str) -> Case:
        pair = neighbors.label_flip(10, 2) if adjacency == "replace_one" else ZEROED
        settings = {**LINEAR, **CHAIN, **BUDGET, **params, "adjacency": adjacency}
        return Case(DPSGLDClassifier, label, settings, pair, draws_of)

    return _both(make)


def _counts(label: str, pair: NeighborPair, **params: Any) -> list[Case]:
    def make(adjacency: str) -> Case:
        settings = {**NAIVE, **params, "adjacency": adjacency}
        score = log_prior_of if params.get("mechanism") == "ops" else counts_of
        return Case(LaplaceNaiveBayes, label, settings, pair, score, adjacency == "zero_out")

    return _both(make)


def _events(label: str, **params: Any) -> list[Case]:
    grid = {"categories": 3, "n_times": 3, "group_labels": [0, 1], **SHORT}

    def make(adjacency: str) -> Case:
        settings = {**grid, **params, "adjacency": adjacency}
        score = emissions_of if params.get("mechanism") == "ops" else counts_of
        return Case(EventLogHMM, label, settings, MOVED, score, adjacency == "zero_out")

    return _both(make)


ZEROED = neighbors.zeroed_record(10, 2)
FLIP = neighbors.label_flip(10, 2)
SINGLETON = neighbors.singleton_class(10, 2)
MOVED = neighbors.moved_event(6, n_months=3, n_regions=2, n_categories=3)
FAR = neighbors.far_bounds(10)
CHAIN = {
    "n_steps": 4,
    "batch_size": 5,
    "preconditioner": None,
    "n_draws": 4,
    "burn_in": 0.0,
    "clip_norm": 0.4,
}
EXACT = {"C": 0.01, "n_steps": 8, "cap_at_posterior": False}
TOKENS = NeighborPair(
    np.array([[2, 0]] + [[0, 2]] * 9),
    np.array([1] + [0] * 9),
    (np.array([[0, 2]] * 10), np.zeros(10, dtype=int)),
    "all tokens and the class change",
    {"classes": [0, 1], "max_total": 2},
)

CASES: list[Case] = [
    *_linear(ObjPertLogisticRegression, "objective", 200, C=1.0, **BUDGET),
    *_linear(ObjPertLogisticRegression, "objective, pure", 200, C=1.0, **PURE),
    *_linear(ObjPertLogisticRegression, "output", 10, C=0.1, method="output", **BUDGET),
    *_linear(ObjPertLogisticRegression, "output, pure", 10, C=0.1, method="output", **PURE),
    *_only_record(OPSLogisticRegression, "Langevin", coef_norm=0.5, **EXACT, **BUDGET),
    *_linear(OPSLogisticRegression, "rejection", 20, sampler="rejection", coef_norm=2.0, **PURE),
    *_only_record(OPSLinearSVC, "Langevin", smoothing=0.5, **EXACT, **BUDGET),
    *_linear(OPSLinearSVC, "rejection", 10, sampler="rejection", coef_norm=1.0, **PURE),
    *_chain("Poisson batches"),
    *_chain("fixed batches", subsampling="fixed"),
    *_chain("SGHMC", sampler="sghmc"),
    *_counts("Laplace, Bernoulli", SINGLETON, mechanism="laplace", **PURE),
    *_counts("Gaussian, Bernoulli", SINGLETON, mechanism="gaussian", **BUDGET),
    *_counts("one draw, Bernoulli", SINGLETON, mechanism="ops", **PURE),
    *_counts("Laplace, bounds", FAR, mechanism="laplace", distribution="gaussian", **PURE),
    *_counts("Gaussian, bounds", FAR, mechanism="gaussian", distribution="gaussian", **BUDGET),
    *_counts("Laplace, tokens", TOKENS, mechanism="laplace", distribution="multinomial", **PURE),
    *_events("Laplace", mechanism="laplace", **PURE),
    *_events("Gaussian", mechanism="gaussian", **BUDGET),
    *_events("draws", mechanism="ops", **PURE),
    Case(
        ObjPertLogisticRegression,
        "large norm",
        {"C": 1e-6, **BUDGET},
        neighbors.large_norm(10, 2, norm=100.0, intercept_scaling=10.0),
    ),
    Case(
        OPSLogisticRegression,
        "large norm",
        {"C": 1e-6, "n_steps": 6, **BUDGET},
        neighbors.large_norm(10, 2, norm=100.0, intercept_scaling=10.0),
    ),
    Case(
        OPSLogisticRegression,
        "label flip",
        {**LINEAR, "sampler": "rejection", "coef_norm": 2.0, **PURE},
        FLIP,
    ),
    Case(
        ObjPertLogisticRegression,
        "long row",
        {**LINEAR, "C": 1.0, **BUDGET},
        neighbors.long_row(10, 2),
    ),
    Case(
        DPSGLDClassifier,
        "empty batch",
        {**LINEAR, **CHAIN, **BUDGET},
        neighbors.empty_batch(10, 2),
        draws_of,
    ),
]
