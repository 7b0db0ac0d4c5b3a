"""Fits that protect all records of a person: what a whole person can move, and who is refused."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbayes import (
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivacyLedger,
    PrivateBayesianRidge,
    PrivateBoundsScaler,
    PrivateHMM,
    models,
    privacy_of,
)
from skdpbayes.estimators.naive_bayes.layout import count_block
from skdpbayes.estimators.ridge.plan import exact_moments, pack, weights
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.units import MOST_RECORDS, WHOLE, share_out, unit_codes
from skdpbayes.model_selection import PrivateGridSearchCV
from skdpbayes.privacy import GaussianDP, PersonsObjectivePerturbation, PureDP
from skdpbayes.privacy.sensitivity import moment_moves


def visits(seed=0, n_persons=60, n_features=3):
    """Rows in the unit ball with labels, of persons with one to six records each."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(n_persons), rng.integers(1, 7, n_persons))
    X = rng.normal(size=(ids.size, n_features))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = (X[:, 0] + 0.3 * rng.normal(size=ids.size) > 0).astype(int)
    return X, y, ids


def with_person(table, row, label, n_records):
    """Replace all records of person 0 by ``n_records`` equal ones."""
    X, y, ids = table
    others = ids != 0
    return (
        np.vstack([X[others], np.tile(row, (n_records, 1))]),
        np.append(y[others], np.full(n_records, label)),
        np.append(ids[others], np.zeros(n_records, dtype=int)),
    )


def neighbors(n_features=3):
    """Forty records at the bound, against seven at the opposite one with the other label."""
    table, end = visits(n_features=n_features), np.eye(n_features)[0]
    return with_person(table, end, 1, 40), with_person(table, -end, 0, 7)


def longest_neighbors(n_features=3):
    table, end = visits(n_features=n_features), np.eye(n_features)[0]
    return with_person(table, end, 1, 700), with_person(table, np.eye(n_features)[1], 0, 999)


class TestIds:
    @pytest.mark.parametrize(
        "ids",
        [
            ["b", "a", "b", "c"],
            [("x", 1), ("x", 2), ("x", 1), ("y", 1)],
            np.array([7, -1, 7, 3]),
            np.array([0.5, 1.5, 0.5, 2.5]),
            np.array(["b", "a", "b", "c"], dtype=object),
            pd.Series(["b", "a", "b", "c"], index=[9, 8, 7, 6]),
            pd.Series(["b", "a", "b", "c"], dtype="category"),
            pd.Series(["b", "a", "b", "c"], dtype="string"),
            pd.to_datetime(pd.Series(["2020-01-02", "2020-01-01", "2020-01-02", "2020-03-01"])),
            pd.Index([frozenset([1]), frozenset([2]), frozenset([1]), frozenset()]),
        ],
    )
    def test_any_hashable_kind(self, ids):
        codes, n_units = unit_codes(ids, 4)
        assert n_units == 3
        assert codes[0] == codes[2]
        assert len(set(codes)) == 3

    @pytest.mark.parametrize(
        "ids",
        [
            [1, None, 2],
            np.array([1.0, np.nan, 2.0]),
            pd.Series(["a", None, "b"]),
            pd.Series(["a", None, "b"], dtype="category"),
            pd.Series([1, None, 2], dtype="Int64"),
            pd.to_datetime(pd.Series(["2020-01-02", None, "2020-03-01"])),
            np.ma.masked_array([1, 2, 3], mask=[False, True, False]),
        ],
    )
    def test_missing_ids_are_an_error(self, ids):
        with pytest.raises(ValueError, match="units has no id for record 1"):
            unit_codes(ids, 3)

    def test_other_mistakes(self):
        with pytest.raises(ValueError, match="2 ids, 3 records"):
            unit_codes([1, 2], 3)
        with pytest.raises(ValueError, match="2 axes"):
            unit_codes(np.zeros((3, 1)), 3)
        with pytest.raises(TypeError, match="hashable"):
            unit_codes([[1], [2], [3]], 3)
        with pytest.raises(TypeError, match="one id per record"):
            unit_codes("abc", 3)

    def test_the_weights_of_a_person_are_at_most_one(self):
        ids = np.repeat([0, 1, 2, 3, 4], [1, 3, 40, MOST_RECORDS, 5000])
        used, weight = share_out(ids, 5)
        kept = ids[used]
        totals = np.bincount(kept, weight)
        assert np.bincount(kept).tolist() == [1, 3, 40, MOST_RECORDS, MOST_RECORDS]
        assert totals.max() == 1.0
        assert totals.min() > 1.0 - MOST_RECORDS / WHOLE
        assert np.array_equal(weight * WHOLE, np.rint(weight * WHOLE))
        # the rows that are kept of a long person are spread over all of hers
        own = used[kept == 4] - 44 - MOST_RECORDS
        assert (own[0], np.diff(own).min(), np.diff(own).max()) == (0, 19, 20)
        assert own[-1] >= 4980
        # and do not depend on anybody else
        again, _ = share_out(np.full(5000, 0), 1)
        assert np.array_equal(again, own)


class TestRidge:
    @staticmethod
    def packed(table, adjacency="replace_one", summed=False):
        X, y, ids = table
        model = PrivateBayesianRidge(1.0, adjacency=adjacency, target_bounds=(0, 1))
        rows = model._read(X, y).of_units(ids)
        plan = model._plan(rows.public, model._budget(rows.public))
        if summed:  # a mutant: records are added instead of averaged
            rows = replace(rows, weight=None)
        return pack(exact_moments(rows, plan), weights(plan.n_features, True)), plan

    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    def test_a_whole_person_moves_the_moments_as_one_record_may(self, pair):
        before, after = pair()
        model_weights = {"of_x": 0.5, "of_y": 0.125**0.5, "of_xy": 1.0, "of_yy": 0.5}
        most = moment_moves(3, "replace_one", **model_weights)[1]
        (first, plan), (second, _) = self.packed(before), self.packed(after)
        moved = np.linalg.norm(first - second)
        paid = plan.noise.scale * 0.2680511232112295  # mu of (1, 1e-5)
        assert 0.5 * most < moved <= paid < most * (1.0 + 1e-3)
        mutant = np.linalg.norm(
            self.packed(before, summed=True)[0] - self.packed(after, summed=True)[0]
        )
        assert mutant > 5.0 * most

    def test_records_repeated_twice_give_the_same_sums(self):
        X, y, ids = visits()
        once, _ = self.packed((X, y, ids))
        twice, _ = self.packed((np.vstack([X, X]), np.append(y, y), np.append(ids, ids)))
        assert once == pytest.approx(twice, abs=0.01)

    def test_the_model_weighs_every_person_once(self):
        X, y, ids = visits(n_persons=400)
        sizes = np.bincount(ids)[ids]
        model = PrivateBayesianRidge(np.inf, target_bounds=(0, 1)).fit(X, y, units=ids)
        design = np.column_stack([X, np.ones(len(y))]) * np.sqrt(1.0 / sizes)[:, None]
        exact = np.linalg.lstsq(design, y / np.sqrt(sizes), rcond=None)[0]
        assert model.coef_ == pytest.approx(exact[:3], abs=0.01)
        assert model.intercept_ == pytest.approx(exact[3], abs=0.01)
        private = PrivateBayesianRidge(1e4, target_bounds=(0, 1), random_state=0)
        assert private.fit(X, y, units=ids).coef_ == pytest.approx(exact[:3], abs=0.02)

    def test_merged_models_are_for_persons_both(self):
        X, y, ids = visits()
        settings = {"epsilon": 1.0, "target_bounds": (0, 1)}
        person = PrivateBayesianRidge(**settings).fit(X, y, units=ids)
        record = PrivateBayesianRidge(**settings).fit(X, y)
        with pytest.raises(ValueError, match="all with units or none"):
            person.merge(record)
        merged = person.merge(PrivateBayesianRidge(**settings).fit(X, y, units=ids))
        assert merged.privacy_.unit == "person"
        assert "no person is in more than one" in str(merged.privacy_)


NAIVE_BAYES = {
    "tables": {"distribution": "bernoulli", "binarize": 0.0},
    "tokens": {"distribution": "multinomial", "max_total": 5},
    "moments": {"distribution": "gaussian", "bounds": (-1.0, 1.0)},
}


class TestNaiveBayes:
    @staticmethod
    def table(kind):
        """Neighbors of three columns: forty records against seven, of the other class."""
        rows = {
            "tables": ([1, 1, 1], [0, 0, 0]),
            "tokens": ([5, 0, 0], [0, 5, 0]),
            "moments": ([1.0, -1.0, 1.0], [-1.0, 1.0, -1.0]),
        }[kind]
        X, y, ids = visits()
        X = X if kind == "moments" else np.abs(np.rint(3 * X)).astype(int)
        table = X, y, ids
        return with_person(table, rows[0], 1, 40), with_person(table, rows[1], 0, 7)

    @staticmethod
    def statistics(model, table, mutant=False):
        X, y, ids = table
        rows = model._read(X, y).of_units(ids)
        plan = model._plan(rows.public, model._budget(rows.public))
        if mutant:  # the second record of a person is not weighted
            again = np.append(False, ids[1:] == ids[:-1])
            rows = replace(rows, weight=np.where(again, 1.0, rows.weight))
        exact = rows.total(count_block, plan.layout, 2, plan.noise.law)
        return exact / WHOLE / plan.layout.units(), plan

    @pytest.mark.parametrize("kind", NAIVE_BAYES)
    @pytest.mark.parametrize("law", ["laplace", "gaussian"])
    def test_a_whole_person_moves_the_statistics_as_one_record_may(self, kind, law):
        model = LaplaceNaiveBayes(1.0, 1e-5, mechanism=law, **NAIVE_BAYES[kind])
        before, after = self.table(kind)
        (first, plan), (second, _) = (self.statistics(model, t) for t in (before, after))
        order, spent = (1, 1.0) if law == "laplace" else (2, 0.2680511232112295)
        paid = plan.noise.scale * spent
        moved = np.linalg.norm((first - second).ravel(), order)
        assert 0.7 * paid < moved <= paid
        assert plan.event == (PureDP(1.0) if law == "laplace" else GaussianDP(spent))
        mutants = [self.statistics(model, t, mutant=True)[0] for t in (before, after)]
        assert np.linalg.norm((mutants[0] - mutants[1]).ravel(), order) > 3.0 * paid

    @pytest.mark.parametrize("kind", NAIVE_BAYES)
    def test_records_repeated_twice_give_the_same_sums(self, kind):
        model = LaplaceNaiveBayes(1.0, **NAIVE_BAYES[kind])
        X, y, ids = self.table(kind)[0]
        once, _ = self.statistics(model, (X, y, ids))
        twice, _ = self.statistics(model, (np.vstack([X, X]), np.append(y, y), np.append(ids, ids)))
        assert once == pytest.approx(twice, abs=0.02)

    @pytest.mark.parametrize("settings", [{}, {"delta": 1e-6}, {"mechanism": "ops"}])
    def test_large_budgets_give_the_model_that_weighs_persons(self, settings):
        X, y, ids = visits(n_persons=3000)
        X = (X > 0).astype(int)
        share = 1.0 / np.bincount(ids)[ids]
        model = LaplaceNaiveBayes(1e4, binarize=None, random_state=0, **settings)
        model.fit(X, y, units=ids)
        assert model.privacy_.unit == "person"
        assert model.class_count_[1] / 3000 == pytest.approx(share[y == 1].sum() / 3000, abs=0.02)
        assert model.n_records_ == 3000

    def test_batches_of_persons(self):
        X, y, ids = visits()
        X = (X > 0).astype(int)
        model = LaplaceNaiveBayes(1.0, binarize=None, classes=[0, 1])
        half = ids < 30
        model.partial_fit(X[half], y[half], units=ids[half])
        model.partial_fit(X[~half], y[~half], units=ids[~half])
        assert (model.privacy_.unit, model.n_records_) == ("person", 60)
        with pytest.raises(ValueError, match="all with units or none"):
            model.partial_fit(X[half], y[half])

    def test_fractions_must_fit(self):
        X, y, ids = visits()
        model = LaplaceNaiveBayes(1.0, distribution="multinomial", max_total=2**45)
        with pytest.raises(ValueError, match="fractions would not fit"):
            model.fit(np.abs(np.rint(X)).astype(int), y, units=ids)


class TestObjectivePerturbation:
    @staticmethod
    def gradient(table, theta, summed=False):
        X, y, ids = table
        model = ObjPertLogisticRegression(1.0)
        rows = model._read(X, y).of_units(ids)
        problem = model._plan(rows.public, model._budget(rows.public)).problem
        block = rows.block()._replace(weight=None) if summed else rows.block()
        how = (theta, problem.loss, (1, 2), problem.constant, problem.grid)
        _, gradient, hessian = models.read_derivatives(models.derivatives(block, *how), *how)
        return gradient.ravel(), hessian, problem

    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    def test_a_whole_person_moves_gradient_and_information_as_one_record_may(self, pair):
        rng = np.random.default_rng(0)
        before, after = pair()
        largest, summed = 0.0, 0.0
        for theta in 3.0 * rng.normal(size=(20, 1, 4)):
            first, second = (self.gradient(table, theta) for table in (before, after))
            problem = first[2]
            # of a sum each person is off by what the cuts of her records amount to
            cuts = 2.0 * problem.grid.gradient_error(problem.loss, 3, 1.0, 20.0) * problem.most_rows
            largest = max(largest, np.linalg.norm(first[0] - second[0]))
            assert np.linalg.norm(first[0] - second[0]) <= 2.0 * problem.record_norm + cuts
            assert np.linalg.norm(first[1] - second[1]) <= problem.information_norm
            mutants = [self.gradient(table, theta, summed=True)[0] for table in (before, after)]
            summed = max(summed, np.linalg.norm(mutants[0] - mutants[1]))
        assert largest > problem.record_norm
        assert summed > 5.0 * 2.0 * problem.record_norm

    def test_large_budgets_give_the_model_that_weighs_persons(self):
        X, y, ids = visits(n_persons=3000)
        sizes = np.bincount(ids)[ids]
        y, share = np.where(sizes > 4, 1 - y, y), 1.0 / sizes  # frequent visitors differ
        exact = LogisticRegression(C=1.0, tol=1e-10, fit_intercept=False)
        exact.fit(np.column_stack([X, np.ones(len(y))]), y, sample_weight=share)
        for epsilon in (20.0, np.inf):
            model = ObjPertLogisticRegression(epsilon, C=1.0, random_state=0)
            model.fit(X, y, units=ids)
            assert model.coef_[0] == pytest.approx(exact.coef_[0, :3], abs=0.15)
            assert model.privacy_.unit == "person"
        unweighted = ObjPertLogisticRegression(np.inf, C=1.0).fit(X, y)
        assert np.abs(unweighted.coef_[0] - exact.coef_[0, :3]).max() > 0.2

    def test_records_repeated_twice_give_the_same_model(self):
        X, y, ids = visits()
        once = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y, units=ids)
        X, y, ids = np.vstack([X, X]), np.append(y, y), np.append(ids, ids)
        twice = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y, units=ids)
        assert once.coef_ == pytest.approx(twice.coef_, abs=1e-3)
        assert once.noise_ == twice.noise_

    @pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
    def test_the_event_proves_the_claim(self, adjacency, epsilon):
        plan = ObjPertLogisticRegression(epsilon, 1e-6, adjacency=adjacency).plan(
            5000, 8, unit="person"
        )
        event = plan.privacy.event
        assert isinstance(event, PersonsObjectivePerturbation)
        assert event.curvature == pytest.approx(2.0 * plan.numbers["C_"], rel=1e-6)
        assert event.delta_at(epsilon) <= 1e-6
        assert event.threshold < epsilon
        assert event.noise_multiplier == pytest.approx(plan.plan.tilt_scale / np.sqrt(2), rel=1e-6)

    def test_what_is_not_proved_is_refused(self):
        X, y, ids = visits()
        with pytest.raises(ValueError, match="no proof for persons"):
            ObjPertLogisticRegression(1.0, classes=[0, 1, 2]).fit(X, y, units=ids)
        with pytest.raises(ValueError, match="published for records"):
            ObjPertLogisticRegression(1.0, calibration="redberg2023").fit(X, y, units=ids)
        with pytest.raises(CalibrationError, match="C=10 cannot meet"):
            ObjPertLogisticRegression(1.0, C=10.0).fit(X, y, units=ids)
        for settings in ({"mechanism": "output"}, {"delta": 0.0}):
            model = ObjPertLogisticRegression(1.0, classes=[0, 1, 2], **settings)
            assert model.fit(X, y, units=ids).privacy_.unit == "person"


class TestOnePosteriorSample:
    @pytest.mark.parametrize("estimator", [OPSLogisticRegression, OPSLinearSVC])
    def test_a_whole_person_moves_losses_and_gradients_as_one_record_may(self, estimator):
        rng = np.random.default_rng(0)
        tables, points = neighbors(), 2.0 * rng.normal(size=(30, 1, 4))
        model, found = estimator(1.0), {}
        for kind in ("averaged", "summed"):
            values, gradients = [], []
            for X, y, ids in tables:
                rows = model._read(X, y).of_units(ids)
                plan = model._plan(rows.public, model._budget(rows.public))
                block = rows.block()
                block = block if kind == "averaged" else block._replace(weight=None)
                how = (points, plan.problem.smooth, (0, 1), 1.0, plan.problem.grid)
                value, gradient, _ = models.read_derivatives(models.derivatives(block, *how), *how)
                values.append(value)
                gradients.append(gradient.reshape(30, -1))
            found[kind] = np.linalg.norm(gradients[0] - gradients[1], axis=1).max()
        problem = plan.problem
        assert found["averaged"] <= problem.computed_sensitivity
        assert found["averaged"] > 0.5 * problem.sensitivity
        assert found["summed"] > 5.0 * problem.computed_sensitivity

    def test_large_budgets_give_the_model_that_weighs_persons(self):
        X, y, ids = visits(n_persons=2000)
        sizes = np.bincount(ids)[ids]
        y = np.where(sizes > 4, 1 - y, y)  # frequent visitors differ
        estimator = OPSLogisticRegression
        exact = estimator(np.inf, C=1.0).fit(X, y, units=ids)
        private = estimator(1e3, C=1.0, cap_at_posterior=False, random_state=0)
        private.fit(X, y, units=ids)
        assert private.coef_.ravel() == pytest.approx(exact.coef_.ravel(), abs=0.3)
        by_record = estimator(np.inf, C=1.0).fit(X, y)
        assert np.abs(by_record.coef_ - exact.coef_).max() > 0.5
        assert private.privacy_.unit == "person"

    def test_batches_would_split_persons(self):
        X, y, ids = visits(n_persons=500)
        model = OPSLogisticRegression(1.0, n_batches=4)
        with pytest.raises(ValueError, match="split the records of a person"):
            model.fit(X, y, units=ids)
        assert OPSLogisticRegression(1.0).plan(50_000, 5, unit="person").plan.n_batches == 1

    @pytest.mark.parametrize("settings", [{"sampler": "hmc"}, {"sampler": "rejection"}])
    def test_other_samplers(self, settings):
        X, y, ids = visits()
        model = OPSLogisticRegression(0.5, 0.0, coef_norm=1.0, **settings)
        assert model.fit(X, y, units=ids).privacy_.unit == "person"


REFUSING = {
    "chain": DPSGLDClassifier(),
    "network": DPSGLDNetworkClassifier(hidden_layer_sizes=(2,)),
    "states": PrivateHMM(),
    "bounds": PrivateBoundsScaler(),
    "search": PrivateGridSearchCV(ObjPertLogisticRegression(), {"data_norm": [1.0]}),
}


@pytest.mark.parametrize("name", REFUSING)
def test_who_does_not_take_units_says_so(name):
    X, y, ids = visits()
    model = REFUSING[name]
    with pytest.raises(TypeError, match="no guarantee for all records of a person"):
        model.fit(X, y, units=ids)
    assert not hasattr(model, "privacy_")


def test_pipelines_route_units_and_the_ledger_counts_persons(tmp_path):
    X, y, ids = visits()
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1.0, delta=1e-5, unit="person")
    settings = {"epsilon": 0.1, "delta": 1e-6, "target_bounds": (0, 1), "ledger": ledger}
    with sklearn.config_context(enable_metadata_routing=True):
        model = PrivateBayesianRidge(**settings).set_fit_request(units=True)
        pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y, units=ids)
    assert privacy_of(pipeline).unit == "person"
    assert ledger.entries()[0].unit == "person"
    record = PrivateBayesianRidge(0.1, 1e-6, target_bounds=(0, 1)).fit(X, y)
    with pytest.raises(ValueError, match="do not add up"):
        privacy_of([pipeline, record])


def test_nothing_that_is_planned_or_shown_depends_on_the_number_of_records():
    X, y, ids = visits()
    before, after = (with_person((X, y, ids), X[0], 1, m) for m in (1, 60))
    models = [
        PrivateBayesianRidge(1.0, target_bounds=(0, 1)).fit(*table[:2], units=table[2])
        for table in (before, after)
    ]
    assert models[0].noise_ == models[1].noise_
    assert models[0].privacy_ == models[1].privacy_
    planned = PrivateBayesianRidge(1.0, target_bounds=(0, 1)).plan(60, 3, unit="person")
    assert (planned.privacy, planned.numbers["noise_"]) == (models[0].privacy_, models[0].noise_)
    assert re.search("all records of one person", str(planned))
