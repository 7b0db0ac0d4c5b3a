"""Replay every fit on a neighbor: same control flow, same results, distances as declared."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpbayes import LaplaceNaiveBayes, ObjPertLogisticRegression, OPSLogisticRegression
from skdpbayes.estimators.hmm import estimator as hmm
from skdpbayes.estimators.naive_bayes import estimator as naive_bayes
from skdpbayes.estimators.ops import base as ops
from skdpbayes.fitting.bounds import Bound
from skdpbayes.privacy import GaussianDP
from tests.audit_cases import CASES, SINGLETON, Case, EventLogHMM
from tests.replay import differing_state, replay

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

SLACK = 1.0 + 1e-9
# Public numbers that differ because a deleted record leaves n - 1 rows in memory; one draw's class
# counts are its class probabilities times n.
OF_SIZE = {"n_records_", "n_events_", "_posterior.n_events", "class_count_", "batch_size_"}
OF_SIZE |= {"_posterior.n_records", "_posterior.release.n_records", "_posterior.class_count"}
# Rounding of the fractions of persons is in the noise, whose last digits then know n.
OF_PERSONS = {"noise_", "_posterior.release.noises"}


def check_distances(fitted, tape, adjacency):
    """Hold every measured distance against what the claim was computed from."""
    records = 2.0 if adjacency == "replace_one" else 1.0
    event = fitted.privacy_.event
    largest_loss = event._loss_bound()[0]
    pure_loss, mu_square = 0.0, 0.0
    for place in tape.distances:
        if place.place == "clipped sum":
            assert place.distance <= records * SLACK
        elif place.place == "langevin gradient":
            constant = fitted.intercept_scaling if fitted.fit_intercept else 0.0
            assert place.distance <= records * math.hypot(fitted.data_norm, constant) * SLACK
        elif place.place == "slope of the log-density":
            assert place.distance <= event.mu * SLACK
        elif place.place.startswith("range"):
            pure_loss += place.distance
        elif place.place in ("tilt", "minimizer"):
            assert place.distance <= place.bound * SLACK
            if math.isinf(largest_loss):
                mu_square += (place.distance / place.scale) ** 2
            else:
                pure_loss += place.distance / place.scale
        elif place.place.endswith("L1"):
            pure_loss += place.distance / place.scale
        elif place.place.endswith("L2"):
            mu_square += (place.distance / place.scale) ** 2
    assert pure_loss <= largest_loss * SLACK
    if math.isfinite(event._zcdp()):  # integer noise: exact, where the normal law is not
        assert 0.5 * mu_square <= event._zcdp() * SLACK
    elif mu_square > 0.0:
        priced = GaussianDP(math.sqrt(mu_square)).epsilon_at(fitted.privacy_.delta)
        assert priced <= fitted.privacy_.epsilon * (1.0 + 1e-3)


def seeded(case: Case, **params):
    return lambda: case.build(random_state=5, **params)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_replay(case):
    first, second, tape = replay(seeded(case), case.data, case.neighbor)
    # where rounding is in the noise, the noise knows n: its last digits differ if n does
    tolerance = 1e-6 if case.deletes else 0.0
    allowed = OF_SIZE | (OF_PERSONS if case.unit == "person" else set())
    assert differing_state(first, second, tolerance) <= (allowed if case.deletes else set())
    check_distances(first, tape, case.adjacency)
    assert any(place.distance > 0.0 for place in tape.distances), "the pair moves nothing"


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.label == "objective, intervals"],
    ids=lambda case: case.name,
)
def test_the_fisher_information_is_a_release_of_its_own(case):
    _, _, tape = replay(seeded(case), case.data, case.neighbor)
    places = [place.place for place in tape.distances]
    assert places == ["tilt", "release_gaussian L2", "release_gaussian L2"]


class Unclipped(OPSLogisticRegression):
    def _bound(self):
        return Bound()


class LeakyIterations(ObjPertLogisticRegression):
    def fit(self, X, y):
        super().fit(X, y)
        self.n_useful_ = int(np.any(np.asarray(X) != 0.0, axis=1).sum())
        return self


class DataDependentScale(LaplaceNaiveBayes):
    """Calibrates to the number of records of a class, which is not public."""

    def _read(self, X, y):
        rows = super()._read(X, y)
        self.epsilon = 1.0 + float(rows.target.sum())
        return rows


def test_the_harness_sees_a_forgotten_clip():
    case = next(c for c in CASES if c.name == "ObjPertLogisticRegression long row replace_one")
    params = {"fit_intercept": False, "C": 0.1, "n_steps": 4, "epsilon": 3.0, "delta": 1e-2}

    def fit(make):
        return replay(
            lambda: make(classes=[0, 1], random_state=0, **params), case.data, case.neighbor
        )

    honest, _, tape = fit(OPSLogisticRegression)
    check_distances(honest, tape, "replace_one")
    broken, _, tape = fit(Unclipped)
    with pytest.raises(AssertionError):
        check_distances(broken, tape, "replace_one")


def test_the_harness_sees_what_was_not_released():
    case = next(c for c in CASES if c.name == "ObjPertLogisticRegression objective zero_out")

    def make():
        return LeakyIterations(random_state=0, classes=[0, 1], **case.params)

    first, second, _ = replay(make, case.data, case.neighbor)
    assert differing_state(first, second) == {"n_useful_"}


def test_the_harness_sees_data_dependent_noise():
    case = next(c for c in CASES if c.name == "LaplaceNaiveBayes Laplace, Bernoulli replace_one")
    with pytest.raises(AssertionError, match="control flow depends on the data"):
        replay(
            lambda: DataDependentScale(classes=[0, 1], random_state=0),
            case.data,
            case.neighbor,
        )


@pytest.mark.parametrize(
    ("name", "module", "planner", "field"),
    [
        ("OPSLogisticRegression label flip", ops, "plan_density", "inverse_temperature"),
        ("OPSLinearSVC rejection, pure", ops, "plan_density", "inverse_temperature"),
        ("OPSLinearSVC rejection", ops, "plan_density", "inverse_temperature"),
        ("LaplaceNaiveBayes one draw, Bernoulli", naive_bayes, "plan_draw", "temper"),
        ("PrivateHMM converged draws", hmm, "plan_gibbs", "inverse_temperature"),
    ],
)
def test_the_harness_sees_half_the_noise_of_a_draw(name, module, planner, field, monkeypatch):
    """Draws whose audits need a multiple of that: here the exponents are compared themselves."""
    case = next(c for c in CASES if c.name == f"{name} replace_one")
    if case.estimator is LaplaceNaiveBayes:  # class and feature change: the whole range
        case = dataclasses.replace(case, pair=SINGLETON)
    honest = getattr(module, planner)
    # the range is proportional to the inverse temperature, the slope over the root of convexity
    # to its root
    factor = 4.0 if case.params["delta"] > 0.0 else 2.0

    def broken(*args, **kwargs):
        plan = honest(*args, **kwargs)
        return dataclasses.replace(plan, **{field: factor * getattr(plan, field)})

    monkeypatch.setattr(module, planner, broken)
    fitted, _, tape = replay(seeded(case), case.data, case.neighbor)
    with pytest.raises(AssertionError):
        check_distances(fitted, tape, "replace_one")


class LeakyTables(LaplaceNaiveBayes):
    """Keeps a number that was computed beside the draw."""

    def _touch(self, rows, plan, generator):
        self._counted = (rows.X > 0).sum()
        return super()._touch(rows, plan, generator)

    def _keep(self, *parts):
        super()._keep(*parts)
        self.n_ones_ = float(self._counted)
        return self


def test_the_harness_sees_what_comes_with_a_draw():
    case = next(c for c in CASES if c.name == "LaplaceNaiveBayes one draw, Bernoulli replace_one")
    leaky = dataclasses.replace(case, estimator=LeakyTables)
    first, second, _ = replay(seeded(leaky), case.data, case.neighbor)
    assert differing_state(first, second) == {"n_ones_", "_counted"}


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("ObjPertLogisticRegression objective", ["chaudhuri2011", "kifer2012", "redberg2023"]),
        ("OPSLogisticRegression rejection, pure", ["wang2015"]),
    ],
)
def test_published_calibrations_are_replayed_too(name, rules):
    case = next(c for c in CASES if c.name == f"{name} replace_one")
    for rule in rules:
        budget = {"delta": 0.0, "epsilon": 2.0} if rule == "chaudhuri2011" else {}
        make = seeded(case, calibration=rule, **budget)
        first, second, tape = replay(make, case.data, case.neighbor)
        assert differing_state(first, second) == set()
        check_distances(first, tape, "replace_one")


LINEAR = [
    case
    for case in CASES
    if case.label in ("objective", "output", "Langevin", "Poisson batches")
    and case.params["adjacency"] == "replace_one"
]


@pytest.mark.parametrize("case", LINEAR, ids=lambda case: case.name)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(data=st.data())
def test_random_neighbors_stay_within_the_declared_sensitivity(case, data):
    """Brute force over records, labels and positions; rows may be longer than ``data_norm``."""
    numbers = st.floats(-3.0, 3.0, allow_nan=False, width=32)
    X = np.array(data.draw(st.lists(st.tuples(numbers, numbers), min_size=6, max_size=6)))
    y = np.array(data.draw(st.lists(st.integers(0, 1), min_size=6, max_size=6)))
    other_X, other_y = X.copy(), y.copy()
    place = data.draw(st.integers(0, 5))
    other_X[place] = data.draw(st.tuples(numbers, numbers))
    other_y[place] = data.draw(st.integers(0, 1))
    first, second, tape = replay(seeded(case), (X, y), (other_X, other_y))
    assert differing_state(first, second) == set()
    check_distances(first, tape, "replace_one")


@pytest.mark.parametrize(
    ("distribution", "public"),
    [
        ("bernoulli", {}),
        ("categorical", {"categories": 4}),
        ("multinomial", {"max_total": 5}),
        ("gaussian", {"bounds": (-2.0, 3.0)}),
        (["bernoulli", "gaussian", "categorical"], {"bounds": (-2.0, 3.0), "categories": 4}),
    ],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_random_neighbors_of_counts(distribution, public, mechanism, data):
    numbers = st.integers(0, 3)
    row = st.tuples(numbers, numbers, numbers)
    X = np.array(data.draw(st.lists(row, min_size=4, max_size=4)), dtype=float)
    y = np.array(data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    other_X, other_y = X.copy(), y.copy()
    other_X[0], other_y[0] = data.draw(row), data.draw(st.integers(0, 2))

    def make():
        return LaplaceNaiveBayes(
            epsilon=1.0,
            delta=0.0 if mechanism == "laplace" else 1e-3,
            mechanism=mechanism,
            distribution=distribution,
            classes=[0, 1, 2],
            predictive_draws=1,
            posterior="naive",
            random_state=0,
            **public,
        )

    first, second, tape = replay(make, (X, y), (other_X, other_y))
    assert differing_state(first, second) == set()
    check_distances(first, tape, "replace_one")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "ops"])
@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float64])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_random_neighbors_of_events(mechanism, kind, data):
    """An event may change in every field, its sequence and its time at once."""
    event = st.tuples(*[st.integers(0, top) for top in (3, 2, 2, 1)])  # time, sequence, two fields
    X = np.array(data.draw(st.lists(event, min_size=4, max_size=4)), dtype=kind)
    other = X.copy()
    other[0] = data.draw(event)

    def make():
        return EventLogHMM(
            epsilon=1.0,
            delta=1e-3 if mechanism == "gaussian" else 0.0,
            mechanism=mechanism,
            categories=(3, 2),
            n_times=4,
            sequence_labels=[0, 1, 2],
            n_states=2,
            n_iter=2,
            burn_in=1,
            n_chains=1,
            random_state=0,
        )

    first, second, tape = replay(make, (X,), (other,))
    assert differing_state(first, second) == set()
    check_distances(first, tape, "replace_one")
