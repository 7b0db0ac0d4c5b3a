"""Every estimator, mechanism and adjacency on neighbors that are hard for it.

The cases are small on purpose: a fit takes a few milliseconds, so that thousands fit into a test.
Those with power are audited (``AUDITED``, ``tests/estimators/test_audits.py``), replayed
(``tests/estimators/test_replay.py``) and listed in the report of
``benchmarks/audit_report.py``. A ``note`` says how much of the claim a pair can reach.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdpbayes import (
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    DPSGLDRegressor,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivateBayesianRidge,
    PrivateHMM,
)
from skdpbayes.auditing import NeighborPair, neighbors
from tests.audit_tools import (
    N_ALONE,
    BatchSteps,
    BetweenCounts,
    MomentsRatio,
    coefficient_gap,
    counts_of,
    draws_of,
    first_coefficient,
    kicks_of,
    log_odds_of,
    moves_of,
    output_at_one,
    released_by_chain,
)

# At (6, 0.01) a Gaussian mechanism has mu = 2: hundreds of fits prove more than half of it and tell
# it from twice that.
BUDGET = {"epsilon": 6.0, "delta": 1e-2}
PURE = {"epsilon": 2.0, "delta": 0.0}
LINEAR = {"fit_intercept": False}
NAIVE = {"posterior": "naive", "predictive_draws": 1}
SHORT = {"n_states": 1, "n_iter": 1, "burn_in": 0, "n_chains": 1}


class EventLogHMM(PrivateHMM):
    """A hidden Markov model whose rows hold the time, the sequence and the fields of an event."""

    def fit(self, X: Any, y: Any = None) -> Any:
        X = np.asarray(X)
        return super().fit(X[:, 2:], times=X[:, 0], sequences=X[:, 1])


class OfPersons:
    """Takes the last column of the rows for whose they are."""

    def fit(self, X: Any, y: Any = None) -> Any:
        X = np.asarray(X)
        return super().fit(X[:, :-1], y, units=X[:, -1].astype(np.int64))  # type: ignore[misc]


class ObjPertOfPersons(OfPersons, ObjPertLogisticRegression):
    pass


class OPSOfPersons(OfPersons, OPSLogisticRegression):
    pass


class SVCOfPersons(OfPersons, OPSLinearSVC):
    pass


class ChainOfPersons(OfPersons, DPSGLDClassifier):
    pass


class RegressionOfPersons(OfPersons, DPSGLDRegressor):
    pass


class NetworkOfPersons(OfPersons, DPSGLDNetworkClassifier):
    pass


class CountsOfPersons(OfPersons, LaplaceNaiveBayes):
    pass


class MomentsOfPersons(OfPersons, PrivateBayesianRidge):
    pass


class EventsOfPersons(EventLogHMM):
    """The last column says whose an event is."""

    def fit(self, X: Any, y: Any = None) -> Any:
        X = np.asarray(X)
        settings = {"times": X[:, 0], "sequences": X[:, 1], "units": X[:, -1]}
        return PrivateHMM.fit(self, X[:, 2:-1], **settings)


@dataclass(frozen=True)
class Case:
    """One audit: an estimator, a pair of data sets, and what an adversary looks at."""

    estimator: type[BaseEstimator]
    label: str
    params: dict[str, Any]
    pair: NeighborPair
    look: Callable[[Any], Any] | None = None
    """Statistic of a fit; None takes the decision function at the records that changed."""
    deletes: bool = False
    """Whether the neighbor lacks the first record (a null record that counts nowhere)."""
    cost: int = 1
    """By how much fits are slower than those of other cases; fewer are made."""
    note: str = ""
    n_first: int = 1
    """Number of records of the first person."""

    @property
    def adjacency(self) -> str:
        return str(self.params.get("adjacency", "replace_one"))

    @property
    def name(self) -> str:
        public = (kind for kind in self.estimator.__mro__ if kind.__module__ != __name__)
        return f"{next(public).__name__} {self.label} {self.adjacency}"

    @property
    def unit(self) -> str:
        return "record" if self.n_first == 1 else "person"

    @property
    def neighbors(self) -> str:
        """How the two data sets differ, in words."""
        words = self.pair.description
        return f"{words}; here that record is left out" if self.deletes else words

    @property
    def data(self) -> tuple[Any, ...]:
        alone = issubclass(self.estimator, EventLogHMM)
        return (self.pair.X,) if alone else (self.pair.X, self.pair.y)

    @property
    def neighbor(self) -> tuple[Any, ...]:
        if self.deletes:
            return tuple(part[self.n_first :] for part in self.data)
        return self.pair.neighbor[: len(self.data)]

    def build(self, **params: Any) -> BaseEstimator:
        known = self.estimator().get_params()
        public = {name: value for name, value in self.pair.params.items() if name in known}
        return self.estimator(**{**public, **self.params, **params})

    @cached_property
    def score(self) -> Callable[[Any], Any] | None:
        if self.look is not counts_of:
            return self.look
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            true = [
                counts_of(self.build(epsilon=np.inf, random_state=0).fit(*rows))
                for rows in (self.data, self.neighbor)
            ]
        return BetweenCounts(*true, cut=self.params["mechanism"] == "laplace")


def _pairs(make: Callable[[str, NeighborPair], Case], replaced: NeighborPair) -> list[Case]:
    """Both adjacencies: a record is replaced as given, or by a row of zeros."""
    zeroed = replaced.X.copy()
    zeroed[0] = 0.0
    nulled = replace(
        replaced,
        neighbor=(zeroed, replaced.y),
        description=f"{replaced.description.split(':')[0]}: one is replaced by a null record",
    )
    return [make("replace_one", replaced), make("zero_out", nulled)]


def _linear(
    estimator: Any,
    label: str,
    pair: NeighborPair,
    *,
    look: Any = None,
    cost: int = 1,
    note: str = "",
    **params: Any,
) -> list[Case]:
    def make(adjacency: str, pair: NeighborPair) -> Case:
        settings = {**LINEAR, **params, "adjacency": adjacency}
        return Case(estimator, label, settings, pair, look, cost=cost, note=note)

    return _pairs(make, pair)


def _alone(n_rows: int) -> NeighborPair:
    """Flip the label of a record among null rows."""
    pair = neighbors.empty_batch(n_rows, 1).reversed()
    words = "the only record among null rows: its label flips"
    return replace(pair, neighbor=(pair.X, np.zeros_like(pair.y)), description=words)


def _chain(label: str, *, look: Any = moves_of, n_rows: int = N_ALONE, **params: Any) -> list[Case]:
    settings = {**CHAIN, **BUDGET, **params}
    return _linear(DPSGLDClassifier, label, _alone(n_rows), look=look, **settings)


def _regression(label: str, *, look: Any = moves_of, note: str = "", **params: Any) -> list[Case]:
    """One record at an end of its bounds among null rows: its target goes to the other end."""
    X = np.zeros((N_ALONE, 1))
    X[0] = 1.0
    ends = {"replace_one": (X, -X[:, 0]), "zero_out": (np.zeros_like(X), np.zeros(N_ALONE))}
    words = {
        "replace_one": "the only record among null rows: its target goes to the other end",
        "zero_out": "the only record among null rows becomes null",
    }
    settings = {**LINEAR, **CHAIN, **BUDGET, "target_bounds": (-1.0, 1.0), **params}
    return [
        Case(
            DPSGLDRegressor,
            label,
            {**settings, "adjacency": adjacency},
            NeighborPair(X, X[:, 0], neighbor, words[adjacency], {}),
            look,
            note=note,
        )
        for adjacency, neighbor in ends.items()
    ]


def _network(label: str, *, note: str = "", **params: Any) -> list[Case]:
    """A null record is left out: a row of zeros would still move the biases."""
    settings = {**STEPS, **BUDGET, "hidden_layer_sizes": (1,), "n_steps": 1, "n_kept": 1, **params}
    return [
        Case(
            DPSGLDNetworkClassifier,
            label,
            {**settings, "adjacency": adjacency},
            _alone(2),
            deletes=adjacency == "zero_out",
            note=note,
        )
        for adjacency in ("replace_one", "zero_out")
    ]


def _counts(label: str, pair: NeighborPair, *, note: str = "", **params: Any) -> list[Case]:
    one_draw = params["mechanism"] == "ops"
    look = log_odds_of if one_draw else counts_of
    reading = {} if one_draw else NAIVE
    return [
        Case(
            LaplaceNaiveBayes,
            label,
            {**reading, **params, "adjacency": adjacency},
            pair,
            look,
            adjacency == "zero_out",
            note=note,
        )
        for adjacency in ("replace_one", "zero_out")
    ]


def _events(label: str, *, cost: int = 1, note: str = "", **params: Any) -> list[Case]:
    grid = {"categories": 2, "n_times": 3, "sequence_labels": [0, 1], **SHORT}
    look = log_odds_of
    if params["mechanism"] != "ops":
        look, grid["posterior"] = counts_of, "naive"
    return [
        Case(
            EventLogHMM,
            label,
            {**grid, **params, "adjacency": adjacency},
            MOVED,
            look,
            adjacency == "zero_out",
            cost,
            note,
        )
        for adjacency in ("replace_one", "zero_out")
    ]


def _moments(
    label: str,
    record: tuple[Any, float],
    other: tuple[Any, float],
    *,
    given: tuple[Any, float] | None = None,
    note: str = "",
    **params: Any,
) -> list[Case]:
    """A record (row, target) among null records, against another one, and against a null record.

    ``given`` stands in the table where that is not what the first record is bounded to.
    """
    null = (np.zeros(len(record[0])), 0.0)
    order = 1 if params["delta"] == 0.0 else 2
    cases = []
    for adjacency, against, words in (
        ("replace_one", other, "a record at the bounds is replaced by another"),
        ("zero_out", null, "a record at the bounds is replaced by a null record"),
    ):
        tables = []
        for row, target in (given or record, against):
            X, y = np.zeros((4, len(row))), np.zeros(4)
            X[0], y[0] = row, target
            tables.append((X, y))
        pair = NeighborPair(*tables[0], tables[1], words, {"target_bounds": (-1.0, 1.0)})
        look = MomentsRatio(record, against, params.get("fit_intercept", True), order)
        settings = {"posterior": "naive", **params, "adjacency": adjacency}
        cases.append(Case(PrivateBayesianRidge, label, settings, pair, look, note=note))
    return cases


# The rest pushes across the pair, so that it saturates the loss and bends it nowhere else.
MIRROR = neighbors.antipodal(400, 2, angle=0.5)
TINY = neighbors.tiny()
# The rest pushes both coefficients down, so both records pull with all their weight: in entries of
# one sign each, 2 apart in the norm of the noise.
CORNERS = NeighborPair(
    np.array([[1.0, 0.0]] + [[0.6, 0.6]] * 400),
    np.array([1] + [0] * 400),
    (np.array([[0.0, 1.0]] + [[0.6, 0.6]] * 400), np.array([1] + [0] * 400)),
    "an indicator changes: the rest pushes against both",
    {"classes": [0, 1]},
)
FLIP = neighbors.label_flip(2, 1)
SINGLETON = neighbors.singleton_class(3, 1)
MOVED = neighbors.moved_event(3, n_months=3, n_regions=2, n_categories=2)
FAR = neighbors.far_bounds(3)
WIDE = neighbors.large_norm(10, 2, norm=100.0, intercept_scaling=10.0)
EMPTY = neighbors.empty_batch(N_ALONE, 1)
MIRRORED = NeighborPair(
    np.eye(60, 1),
    np.eye(1, 60, dtype=int)[0],
    (-np.eye(60, 1), np.eye(1, 60, dtype=int)[0]),
    "the only record among null rows: its row is mirrored",
    {"classes": [0, 1]},
)
SWITCH = NeighborPair(
    np.array([[1.0], [1.0]]),
    np.array([1, 0]),
    (np.array([[-1.0], [1.0]]), np.array([1, 0])),
    "the feature of the only member of a class flips",
    {"classes": [0, 1]},
)
COLORS = NeighborPair(
    np.array([[2], [0], [0]]),
    np.array([1, 0, 0]),
    (np.array([[1], [0], [0]]), np.array([0, 0, 0])),
    "category and class change",
    {"classes": [0, 1], "categories": 3},
)
TOKENS = NeighborPair(
    np.array([[2, 0]] + [[0, 2]] * 2),
    np.array([1] + [0] * 2),
    (np.array([[0, 2]] * 3), np.zeros(3, dtype=int)),
    "all tokens and the class change",
    {"classes": [0, 1], "max_total": 2},
)
# Records that are farthest apart in the moments: targets at both ends, rows at the best angle.
END = ((1.0, 0.0), 1.0)
OTHER_END = ((0.375, math.sqrt(1.0 - 0.375**2)), -1.0)
TURNED = ((0.5, math.sqrt(0.75)), -1.0)  # without an intercept the best angle is another
UNIT, MIDDLE = ((1.0,), 1.0), ((0.0,), 0.0)
LOOSE = "in one dimension two records are apart by 2.5 in L1 at most, and 3.5 is what we can prove"
# A cold chain with short steps: privacy sets its noise, and it stays where the gradient is clipped.
COLD = {"temperature": 1e-4}
STEPS = {
    "n_steps": 4,
    "n_kept": 4,
    "tail": 1.0,
    "clip_norm": 0.1,
    "step_size": 0.1,
    "sampler": {"kind": "sgld", **COLD},
}
CHAIN = {**STEPS, "preconditioner": None, "prior": "normal", "prior_scale": 10.0}
HIDDEN = "the first step hides in the random momentum that the chain starts with"
HIDDEN_HERE = f"{HIDDEN}; DPSGLDClassifier runs the same sampler and is audited"
ONE_BATCH = "all records are one batch here; DPSGLDClassifier draws its batches by the same code"
HALF = (
    "near the origin a gradient is half of its bound, and a label flip moves it by half of what a "
    "replacement may"
)
HALF_SLOW = f"{HALF}; OPSLinearSVC runs the same sampler and is audited"
SPREAD = "the range of a tempered posterior's exponent is reached only at extreme probabilities"
UNUSED = f"{SPREAD}; half of the budget pays for hidden states, and here there is one"
POLES = "a log-concave density reaches the range of its exponent only at the poles of the ball"
STRONG = {"C": 0.01, "cap_at_posterior": False}
BALL = {"coef_norm": 1.0, "C": 100.0, "cap_at_posterior": False}
STILL = {"kind": "sgnht", "friction": 1e-6}

DRAWS = {"mechanism": "ops", "alpha_emission": 0.01, "cost": 2, **PURE}
HAMILTON = {"sampler": "hmc", "n_chains": 1, "n_steps": 1, "cost": 3}


def _objective(label: str, **params: Any) -> list[Case]:
    return _linear(
        ObjPertLogisticRegression, label, MIRROR, look=first_coefficient, C=1.0, **params
    )


def _samples(estimator: Any, *, note: str = "", hmc_note: str = "", **smooth: Any) -> list[Case]:
    """One posterior sample, by every sampler."""
    settings = {**STRONG, **smooth, **BUDGET, "look": first_coefficient, "note": note}
    ball = {**BALL, **PURE, "look": first_coefficient, "note": POLES, "cost": 2}
    return [
        *_linear(estimator, "Langevin", TINY, sampler="langevin", n_steps=8, **settings),
        *_linear(estimator, "rejection", TINY, sampler="rejection", **settings),
        *_linear(estimator, "rejection, pure", TINY, sampler="rejection", **ball),
        *_linear(estimator, "HMC", TINY, **HAMILTON, **{**settings, "note": hmc_note}),
    ]


CASES: list[Case] = [
    *_objective("objective", inference_budget=0.0, **BUDGET),
    *_objective("objective, intervals", **BUDGET),
    *_objective("objective, pure", inference_budget=0.0, **PURE),
    *_linear(
        ObjPertLogisticRegression,
        "objective, pure, nonnegative",
        CORNERS,
        look=coefficient_gap,
        C=1.0,
        inference_budget=0.0,
        nonnegative=True,
        **PURE,
    ),
    *_objective("output", mechanism="output", inference_budget=0.0, **BUDGET),
    *_objective("output, pure", mechanism="output", inference_budget=0.0, **PURE),
    *_samples(OPSLogisticRegression, note=HALF, hmc_note=HALF_SLOW),
    *_samples(OPSLinearSVC, smoothing=0.5),
    *_chain("SGLD"),
    *_chain("Poisson batches", batch_size=5, look=BatchSteps()),
    *_chain("fixed batches", batch_size=5, subsampling="fixed", look=BatchSteps()),
    *_chain("SGHMC", sampler={"kind": "sghmc", **COLD}),
    *_chain("SGNHT", sampler=STILL, step_size=0.01, look=kicks_of, note=HIDDEN),
    *_chain("SGFS", sampler="sgfs", step_size=400.0),
    *_linear(
        DPSGLDClassifier,
        "released moments",
        MIRRORED,
        look=released_by_chain,
        **{**CHAIN, **BUDGET, "preconditioner": "auto"},
    ),
    *_regression("regression"),
    *_regression("regression, Huber", loss="huber"),
    *_regression("regression, fixed batches", subsampling="fixed", note=ONE_BATCH),
    *_regression("regression, SGHMC", sampler={"kind": "sghmc", **COLD}),
    *_regression("regression, SGNHT", sampler=STILL, step_size=0.01, look=kicks_of, note=HIDDEN),
    *_regression("regression, SGFS", sampler="sgfs", step_size=400.0),
    *_network("network"),
    *_network("network, fixed batches", subsampling="fixed", note=ONE_BATCH),
    *_network("network, SGHMC", sampler={"kind": "sghmc", **COLD}),
    *_network("network, SGNHT", sampler="sgnht", note=HIDDEN_HERE),
    *_counts("Laplace, Bernoulli", SINGLETON, mechanism="laplace", **PURE),
    *_counts("Gaussian, Bernoulli", SINGLETON, mechanism="gaussian", **BUDGET),
    *_counts("one draw, Bernoulli", SWITCH, mechanism="ops", alpha=0.01, note=SPREAD, **PURE),
    *_counts("Laplace, bounds", FAR, mechanism="laplace", distribution="gaussian", **PURE),
    *_counts("Gaussian, bounds", FAR, mechanism="gaussian", distribution="gaussian", **BUDGET),
    *_counts("Laplace, tokens", TOKENS, mechanism="laplace", distribution="multinomial", **PURE),
    *_counts(
        "Laplace, categories", COLORS, mechanism="laplace", distribution="categorical", **PURE
    ),
    *_events("Laplace", mechanism="laplace", **PURE),
    *_events("Gaussian", mechanism="gaussian", **BUDGET),
    *_events("draws", note=UNUSED, **DRAWS),
    *_events("collapsed draws", state_sampler="collapsed", note=UNUSED, **DRAWS),
    *_events("converged draws", calibration="converged", note=SPREAD, **DRAWS),
    *_moments("Gaussian", END, OTHER_END, **BUDGET),
    *_moments("Gaussian, no intercept", END, TURNED, fit_intercept=False, **BUDGET),
    *_moments("Gaussian, long row", END, OTHER_END, given=((50.0, 0.0), 30.0), **BUDGET),
    *_moments("Laplace", UNIT, MIDDLE, fit_intercept=False, note=LOOSE, **PURE),
    Case(
        ObjPertLogisticRegression,
        "large norm",
        {"C": 1e-6, "inference_budget": 0.0, **BUDGET},
        WIDE,
        first_coefficient,
        note=HALF,
    ),
    Case(
        OPSLogisticRegression,
        "large norm",
        {"C": 1e-6, "n_steps": 6, "cap_at_posterior": False, **BUDGET},
        WIDE,
        first_coefficient,
        note=HALF,
    ),
    Case(
        OPSLogisticRegression,
        "label flip",
        {**LINEAR, "sampler": "rejection", **BALL, **PURE},
        FLIP,
        cost=2,
        note=POLES,
    ),
    Case(
        ObjPertLogisticRegression,
        "long row",
        {**LINEAR, "C": 1.0, "inference_budget": 0.0, **BUDGET},
        neighbors.long_row(400, 2),
        first_coefficient,
    ),
    Case(
        DPSGLDClassifier,
        "empty batch",
        {**LINEAR, **CHAIN, **BUDGET, "adjacency": "zero_out"},
        EMPTY,
        draws_of,
    ),
]

MANY, FEW = 40, 7


def _of_persons(estimator: Any, name: str) -> list[Case]:
    """The first record belongs to somebody with forty such records; the other one with seven."""

    def repeated(X: np.ndarray, y: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        whose = np.repeat(np.arange(len(X)), [n] + [1] * (len(X) - 1))
        return np.column_stack([X[whose], whose]), y[whose]

    cases = []
    for adjacency in ("replace_one", "zero_out"):
        case = next(case for case in CASES if case.name == f"{name} {adjacency}")
        words = f"{case.pair.description} (forty records of one person against seven)"
        pair = NeighborPair(
            *repeated(case.pair.X, case.pair.y, MANY),
            repeated(*case.pair.neighbor, FEW),
            words.replace(" against seven", "") if case.deletes else words,
            case.pair.params,
        )
        look = case.look or output_at_one
        changes = {"pair": pair, "look": look, "label": f"{case.label}, persons", "n_first": MANY}
        cases.append(replace(case, estimator=estimator, **changes))
    return cases


CASES += [
    *_of_persons(ObjPertOfPersons, "ObjPertLogisticRegression objective"),
    *_of_persons(OPSOfPersons, "OPSLogisticRegression rejection"),
    *_of_persons(SVCOfPersons, "OPSLinearSVC Langevin"),
    *_of_persons(ChainOfPersons, "DPSGLDClassifier SGLD"),
    *_of_persons(ChainOfPersons, "DPSGLDClassifier Poisson batches"),
    *_of_persons(RegressionOfPersons, "DPSGLDRegressor regression"),
    *_of_persons(NetworkOfPersons, "DPSGLDNetworkClassifier network"),
    *_of_persons(CountsOfPersons, "LaplaceNaiveBayes Laplace, Bernoulli"),
    *_of_persons(CountsOfPersons, "LaplaceNaiveBayes Gaussian, bounds"),
    *_of_persons(EventsOfPersons, "PrivateHMM Laplace"),
    *_of_persons(MomentsOfPersons, "PrivateBayesianRidge Gaussian"),
]

# Hundreds of fits prove next to nothing of these claims, and an audit of them would show nothing.
# They are replayed, the densities of tempered draws are checked exactly, and broken variants of
# them or of the sampler that they share are caught.
NO_POWER = (SPREAD, UNUSED, POLES, HIDDEN_HERE, HALF_SLOW)
WITHOUT_POWER = [case for case in CASES if case.note in NO_POWER]
AUDITED = [case for case in CASES if case.note not in NO_POWER]
