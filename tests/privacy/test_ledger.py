"""The ledger in one process: budgets, totals, copies, errors."""

from __future__ import annotations

import copy
import math
import os
import pickle
import shutil
import sqlite3
import stat
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError, LedgerError
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    NoPrivacy,
    PureDP,
)
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.mechanisms.laplace import LaplaceNoise


def guarantee(event, delta=0.0, adjacency="replace_one", **fields):
    return PrivacyGuarantee.from_event(
        event, delta=delta, adjacency=adjacency, mechanism="test noise", **fields
    )


def pure(epsilon):
    return guarantee(PureDP(epsilon))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.ledger"


class TestBudget:
    def test_decimal_sums_use_the_whole_budget(self, path):
        ledger = PrivacyLedger(path, epsilon=0.3)  # in doubles 0.1 + 0.1 + 0.1 > 0.3
        assert [ledger.reserve(pure(0.1)) for _ in range(3)] == [1, 2, 3]
        assert ledger.spent().epsilon == 0.3
        assert ledger.remaining_epsilon() == 0.0
        with pytest.raises(BudgetExceededError):
            ledger.reserve(pure(1e-9))

    def test_an_overrun_names_the_numbers_and_changes_nothing(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        ledger.reserve(pure(0.75))
        before = (ledger.entries(), ledger.spent())
        message = (
            r"epsilon=0\.5, delta=0 .*takes 50 % of the budget, and 75 % are used \(budget eps"
        )
        with pytest.raises(BudgetExceededError, match=message):
            ledger.reserve(pure(0.5))
        assert (ledger.entries(), ledger.spent()) == before
        ledger.reserve(pure(0.25))

    @pytest.mark.parametrize(
        ("delta", "kind"), [(0.0, "sum"), (1e-5, "sum"), (1e-5, "gaussian"), (0.1, "gaussian")]
    )
    def test_remaining_epsilon_fits_and_a_little_more_does_not(self, path, delta, kind):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=delta, filter=kind)
        assert ledger.remaining_epsilon() == 1.0
        for _ in range(4):
            ledger.reserve(pure(0.1))
        left = ledger.remaining_epsilon()
        assert 0.05 < left < 1.0
        with pytest.raises(BudgetExceededError):
            ledger.reserve(pure(left * (1.0 + 1e-6)))
        ledger.reserve(pure(left))
        assert ledger.used() <= 1.0
        assert ledger.remaining_epsilon() < 1e-4  # squares: a share of 1e-9 is left

    def test_remaining_epsilon_is_rounded_down(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        ledger.reserve(pure(0.1 + 1e-17 + 1 / 3))
        ledger.reserve(pure(1e-25))
        ledger.reserve(pure(ledger.remaining_epsilon()))

    def test_claims_always_add_up(self, path):
        ledger = PrivacyLedger(path, epsilon=3.0, delta=3e-5, filter="sum")
        for _ in range(3):
            ledger.reserve(guarantee(ApproximateDP(1.0, 1e-5), 1e-5))
        assert ledger.spent().epsilon <= 3.0
        assert ledger.spent().delta == 3e-5

    def test_a_calibrated_release_fits_the_budget_it_was_calibrated_to(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
        ledger.reserve(guarantee(GaussianDP(gdp_mu(1.0, 1e-5)), 1e-5))
        assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-9)
        assert ledger.remaining_epsilon() == 0.0
        with pytest.raises(BudgetExceededError):  # the filter keeps a part of delta for others
            ledger.reserve(guarantee(GaussianDP(1e-9), 1e-5))

    def test_only_the_first_reservation_may_take_the_whole_budget(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
        ledger.reserve(guarantee(GaussianDP(1e-9), 1e-5))
        with pytest.raises(BudgetExceededError):
            ledger.reserve(guarantee(GaussianDP(gdp_mu(1.0, 1e-5)), 1e-5))

    def test_a_claim_that_its_event_does_not_prove_is_not_believed(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        with pytest.raises(BudgetExceededError):
            ledger.reserve(PrivacyGuarantee(0.1, 0.0, "replace_one", "boast", PureDP(2.0)))

    def test_delta_zero_admits_pure_events_only(self, path):
        ledger = PrivacyLedger(path, epsilon=10.0)
        for event in (PureDP(1.0), LaplaceNoise(1.0), BoundedRange(1.0), repeat(PureDP(0.5), 2)):
            ledger.reserve(guarantee(event))
        for event in (
            GaussianDP(0.1),
            ApproximateDP(0.1, 1e-9),
            compose([PureDP(1), GaussianDP(1)]),
        ):
            with pytest.raises(
                BudgetExceededError, match="delta=0 and admits pure epsilon-DP only"
            ):
                ledger.reserve(guarantee(event, 1e-5))
        assert ledger.spent().epsilon == 4.0

    def test_no_privacy_needs_an_infinite_budget(self, tmp_path):
        asked = guarantee(NoPrivacy())
        finite = PrivacyLedger(tmp_path / "finite", epsilon=1e6, delta=1e-5)
        with pytest.raises(BudgetExceededError, match="epsilon=inf"):
            finite.reserve(asked)
        record = PrivacyLedger(tmp_path / "record", epsilon=math.inf, delta=1e-5)
        record.reserve(pure(1.0))
        record.reserve(guarantee(GaussianDP(1.0), 1e-5))
        assert math.isfinite(record.spent().epsilon)
        record.reserve(asked)
        assert record.spent().epsilon == math.inf
        assert record.remaining_epsilon() == math.inf

    @pytest.mark.parametrize(
        ("held", "asked"), [("replace_one", "zero_out"), ("zero_out", "replace_one")]
    )
    def test_adjacency_must_match(self, path, held, asked):
        ledger = PrivacyLedger(path, epsilon=1.0, adjacency=held)
        with pytest.raises(LedgerError, match=f"counts adjacency='{held}'.*adjacency='{asked}'"):
            ledger.reserve(guarantee(PureDP(0.1), adjacency=asked))
        assert ledger.entries() == []
        ledger.reserve(guarantee(PureDP(0.1), adjacency=held))

    def test_wrong_types_are_named(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        with pytest.raises(TypeError, match="guarantee must be a PrivacyGuarantee"):
            ledger.reserve(0.5)
        with pytest.raises(TypeError, match="label"):
            ledger.reserve(pure(0.1), label=3)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
    def test_bad_epsilon(self, path, epsilon):
        with pytest.raises(ValueError, match="epsilon must be > 0"):
            PrivacyLedger(path, epsilon=epsilon)
        assert not path.exists()

    @pytest.mark.parametrize(
        ("fields", "name"),
        [
            ({"delta": 1.0}, "delta"),
            ({"delta": -0.1}, "delta"),
            ({"adjacency": "add"}, "adjacency"),
        ],
    )
    def test_bad_budget_parameters(self, path, fields, name):
        with pytest.raises(ValueError, match=name):
            PrivacyLedger(path, epsilon=1.0, **fields)
        assert not path.exists()


class TestRecord:
    def test_entries_tell_what_was_reserved(self, path):
        ledger = PrivacyLedger(path, epsilon=5.0, delta=1e-5)
        start = datetime.now(UTC)
        ledger.reserve(pure(0.5), label="first")
        ledger.reserve(guarantee(GaussianDP(0.2), 1e-6, seeded=True, conditions=("it mixed",)))
        first, second = ledger.entries()
        assert (first.id, first.label, first.epsilon, first.delta) == (1, "first", 0.5, 0.0)
        assert (first.mechanism, first.adjacency) == ("test noise", "replace_one")
        assert (first.seeded, first.conditions, first.pid) == (False, (), os.getpid())
        assert (second.id, second.label, second.delta) == (2, "", 1e-6)
        assert (second.seeded, second.conditions) == (True, ("it mixed",))
        assert first.time.utcoffset() == timedelta(0)
        assert start <= first.time <= second.time <= datetime.now(UTC)
        spent = ledger.spent()
        assert spent.seeded
        assert spent.conditions[0] == "it mixed"

    def test_noise_that_may_repeat_is_a_condition_of_the_total(self, path):
        ledger = PrivacyLedger(path, epsilon=5.0, delta=1e-5)
        seeds = "no two of the seeded fits used the same seed"
        ledger.reserve(guarantee(GaussianDP(0.2), 1e-6, seeded=True))
        ledger.reserve(guarantee(GaussianDP(0.2), 1e-6))
        assert seeds not in ledger.spent().conditions
        ledger.reserve(guarantee(GaussianDP(0.2), 1e-6, seeded=True))
        assert seeds in ledger.spent().conditions

    def test_the_composed_total_says_what_it_takes_for_granted(self, path):
        fixed = "the reservations were not chosen in view of earlier releases"
        ledger = PrivacyLedger(path, epsilon=5.0, delta=1e-5)
        ledger.reserve(guarantee(GaussianDP(0.2), 1e-6))
        assert ledger.spent().conditions == ()
        ledger.reserve(pure(0.1))
        assert ledger.spent().conditions == (fixed,)
        by_sum = PrivacyLedger(path.with_name("pure"), epsilon=5.0)
        by_sum.reserve(pure(0.1))
        by_sum.reserve(pure(0.2))
        assert by_sum.spent().conditions == ()

    def test_an_empty_ledger_has_spent_nothing(self, path):
        spent = PrivacyLedger(path, epsilon=1.0, delta=1e-5).spent()
        assert (spent.epsilon, spent.conditions, spent.seeded) == (0.0, (), False)
        assert spent.delta_at(0.0) == 0.0

    def test_only_the_owner_can_read_it(self, path):
        PrivacyLedger(path, epsilon=1.0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_closed_ledger_is_one_file(self, path):
        PrivacyLedger(path, epsilon=1.0).reserve(pure(0.5))
        assert os.listdir(path.parent) == [path.name]
        copied = path.with_name("copy")
        shutil.copy(path, copied)
        assert PrivacyLedger(copied).spent().epsilon == 0.5

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM entry",
            "UPDATE entry SET label = 'x'",
            "UPDATE entry SET size = '0.4'",
            "UPDATE entry SET plan = 1",
            "INSERT INTO entry SELECT 2, time, pid, label, guarantee, '-1', slack, plan, listed "
            "FROM entry",
            "UPDATE account SET epsilon = 2.0",
            "UPDATE account SET filter = 'gaussian'",
        ],
    )
    def test_edited_reservations_are_noticed(self, path, statement):
        PrivacyLedger(path, epsilon=1.0).reserve(pure(0.5))
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match="is damaged"):
            PrivacyLedger(path)


class TestFilterAndUnit:
    def test_the_filter_is_fixed_at_creation(self, tmp_path):
        for delta, asked, held in (
            (0.0, None, "sum"),
            (1e-5, None, "gaussian"),
            (1e-5, "sum", "sum"),
        ):
            path = tmp_path / f"{delta}{asked}"
            assert PrivacyLedger(path, epsilon=1.0, delta=delta, filter=asked).filter == held
            assert PrivacyLedger(path).filter == held
            with pytest.raises(LedgerError, match="cannot be changed"):
                PrivacyLedger(path, filter="sum" if held == "gaussian" else "gaussian")
        with pytest.raises(ValueError, match="needs delta > 0"):
            PrivacyLedger(tmp_path / "new", epsilon=1.0, filter="gaussian")
        with pytest.raises(ValueError, match="filter must be"):
            PrivacyLedger(tmp_path / "new", epsilon=1.0, filter="best")
        assert not (tmp_path / "new").exists()

    def test_ten_small_pure_releases_need_the_sum(self, tmp_path):
        def count(kind):
            ledger = PrivacyLedger(tmp_path / kind, epsilon=1.0, delta=1e-5, filter=kind)
            while ledger.remaining_epsilon() >= 0.1:
                ledger.reserve(pure(0.1))
            with pytest.raises(BudgetExceededError):
                ledger.reserve(pure(0.1))
            return len(ledger.entries())

        assert (count("sum"), count("gaussian")) == (10, 4)

    def test_the_unit_of_a_claim_must_match(self, tmp_path):
        person = PrivacyGuarantee(0.1, 0.0, "replace_one", "test noise", PureDP(0.1), unit="person")
        records = PrivacyLedger(tmp_path / "records", epsilon=1.0)
        persons = PrivacyLedger(tmp_path / "persons", epsilon=1.0, unit="person")
        assert (records.unit, PrivacyLedger(tmp_path / "persons").unit) == ("record", "person")
        with pytest.raises(LedgerError, match=r"counts unit='record'.*'person'"):
            records.reserve(person)
        with pytest.raises(LedgerError, match=r"counts unit='person'.*'record'"):
            persons.reserve(pure(0.1))
        assert (persons.reserve(person), records.entries()) == (1, [])

    def test_four_hundred_different_charges_are_added_up_at_once(self, path):
        ledger = PrivacyLedger(path, epsilon=10.0, delta=1e-5)
        with ledger._store.transaction(write=True) as connection:  # as 400 times reserve
            state = ledger._state(connection)
            for i in range(1, 401):
                cost = pure(i / 40_000)
                price = ledger._rule.price(cost)
                state = ledger._store.append(connection, state, cost.to_json(), "", price)
        ledger = PrivacyLedger(path)
        start = time.perf_counter()
        left = ledger.remaining_epsilon()
        assert time.perf_counter() - start < 1.0
        assert len(ledger.entries()) == 400
        assert 0.0 < left < 10.0


class TestPlan:
    def test_a_plan_costs_its_composition_and_ticks_off_its_list(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
        plan = ledger.plan([pure(0.03)] * 60 + [guarantee(GaussianDP(0.05), 1e-6)], label="search")
        one_by_one = PrivacyLedger(path.with_name("single"), epsilon=1.0, delta=1e-5)
        for _ in range(50):
            one_by_one.reserve(pure(0.03))
        with pytest.raises(BudgetExceededError):
            one_by_one.reserve(pure(0.03))
        used = ledger.used()
        for i in range(60):
            assert pickle.loads(pickle.dumps(plan)).reserve(pure(0.03), label=f"fold {i}") == i + 2
        with pytest.raises(BudgetExceededError, match="does not list"):
            plan.reserve(pure(0.03))
        with pytest.raises(BudgetExceededError, match="does not list"):
            plan.reserve(pure(0.02))
        assert PrivacyLedger(path).plans() == [plan]
        PrivacyLedger(path).plans()[0].reserve(guarantee(GaussianDP(0.05), 1e-6))
        assert ledger.plans() == []
        assert ledger.used() == used
        whole, *parts = ledger.entries()
        assert (whole.plan, whole.label, {part.plan for part in parts}) == (None, "search", {1})
        assert whole.epsilon == pytest.approx(
            compose([repeat(PureDP(0.03), 60), GaussianDP(0.05)]).epsilon_at(1e-5)
        )
        assert ledger.spent().epsilon <= whole.epsilon
        assert ledger.spent().conditions == ()

    def test_a_plan_alone_may_take_the_whole_budget(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
        mu = gdp_mu(1.0, 1e-5) / 2.0 * (1.0 - 1e-12)
        plan = clone(Charging(ledger=ledger.plan([guarantee(GaussianDP(mu), 1e-6)] * 4))).ledger
        assert [plan.reserve(guarantee(GaussianDP(mu), 1e-6)) for _ in range(4)] == [2, 3, 4, 5]

    def test_a_plan_that_does_not_fit_charges_nothing(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        with pytest.raises(BudgetExceededError):
            ledger.plan([pure(0.3)] * 4)
        with pytest.raises(ValueError, match="at least one"):
            ledger.plan([])
        with pytest.raises(TypeError, match="guarantee must be"):
            ledger.plan([0.3])
        assert (ledger.entries(), ledger.plans(), ledger.used()) == ([], [], 0.0)
        ledger.plan([pure(0.3)] * 3)
        assert ledger.spent().epsilon == pytest.approx(0.9)


class TestCopies:
    def test_every_copy_is_the_same_account(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        copies = [
            copy.copy(ledger),
            copy.deepcopy(ledger),
            pickle.loads(pickle.dumps(ledger)),
            PrivacyLedger(path),
            PrivacyLedger(str(path), epsilon=1.0),
        ]
        for other in copies:
            other.reserve(pure(0.1))
            assert other == ledger
            assert hash(other) == hash(ledger)
        assert ledger.spent().epsilon == 0.5
        assert ledger != PrivacyLedger(path.with_name("other"), epsilon=1.0)
        assert ledger != "ledger"

    def test_the_path_is_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        ledger = PrivacyLedger("here", epsilon=1.0)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        ledger.reserve(pure(0.5))
        (tmp_path / "link").symlink_to(tmp_path / "here")
        assert PrivacyLedger(tmp_path / "link") == ledger

    @pytest.mark.parametrize("name", ["a b?c#d%20.ledger", "größe.ledger", ":memory:"])
    def test_odd_file_names(self, tmp_path, name):
        PrivacyLedger(tmp_path / name, epsilon=1.0).reserve(pure(0.5))
        assert os.listdir(tmp_path) == [name]
        assert PrivacyLedger(tmp_path / name).spent().epsilon == 0.5

    def test_repr_recreates_it(self, path):
        ledger = PrivacyLedger(path, epsilon=2.0, delta=1e-5, adjacency="zero_out")
        assert eval(repr(ledger)) == ledger


class Charging(ClassifierMixin, BaseEstimator):
    """A classifier that does nothing but pay."""

    def __init__(self, epsilon=0.1, fails=False, ledger=None):
        self.epsilon = epsilon
        self.fails = fails
        self.ledger = ledger

    def fit(self, X, y):
        self.ledger.reserve(pure(self.epsilon), label="Charging")
        if self.fails:
            raise ValueError("after the reservation")
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


class TestScikitLearn:
    X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2

    def test_clone_params_and_repr(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        estimator = Charging(ledger=ledger)
        assert clone(estimator).get_params()["ledger"] == ledger
        assert Charging().set_params(ledger=ledger).ledger is ledger
        assert "PrivacyLedger(" in repr(estimator)
        clone(estimator).fit(self.X, self.y)
        assert len(ledger.entries()) == 1

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_grid_search_charges_every_fold(self, path, n_jobs):
        ledger = PrivacyLedger(path, epsilon=10.0)
        search = GridSearchCV(
            Charging(ledger=ledger),
            {"epsilon": [0.5, 1.0]},
            cv=3,
            n_jobs=n_jobs,
            error_score="raise",
        )
        search.fit(self.X, self.y)
        refit = search.best_params_["epsilon"]
        charged = sorted(entry.epsilon for entry in ledger.entries())
        assert charged == sorted([0.5] * 3 + [1.0] * 3 + [refit])
        workers = {entry.pid for entry in ledger.entries()} - {os.getpid()}
        assert bool(workers) == (n_jobs == 2)

    def test_a_fit_that_fails_stays_charged(self, path):
        ledger = PrivacyLedger(path, epsilon=1.0)
        with pytest.raises(ValueError, match="after the reservation"):
            Charging(epsilon=0.7, fails=True, ledger=ledger).fit(self.X, self.y)
        assert ledger.spent().epsilon == 0.7


def test_threads_share_the_account(path):
    ledger = PrivacyLedger(path, epsilon=0.05)
    accepted, refused = [], []

    def spend():
        for _ in range(10):
            try:
                accepted.append(ledger.reserve(pure(0.001)))
            except BudgetExceededError:
                refused.append(None)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(accepted) == list(range(1, 51))
    assert len(refused) == 30
    assert ledger.spent().epsilon == 0.05
