"""Fits that protect all records of a person: what a whole person can move, and who is refused."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbayes import (
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    DPSGLDRegressor,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivacyLedger,
    PrivateBayesianRidge,
    PrivateBoundsScaler,
    PrivateHMM,
    RowBlocks,
    models,
    privacy_of,
    randomness,
)
from skdpbayes.auditing import audit
from skdpbayes.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    ExponentialFamily,
    GammaPoisson,
    LogitNormalBernoulli,
    NormalMean,
    NormalMeanVariance,
)
from skdpbayes.estimators.chain import coordinates as chain_coordinates
from skdpbayes.estimators.chain import regressor as chain_regressor
from skdpbayes.estimators.chain.coordinates import MEAN_WEIGHT, moment_sensitivity, person_rounding
from skdpbayes.estimators.chain.potential import chain_blocks
from skdpbayes.estimators.hmm.grid import count_block as count_events
from skdpbayes.estimators.naive_bayes.layout import count_block
from skdpbayes.estimators.network.potential import NetworkPotential
from skdpbayes.estimators.ridge.plan import exact_moments, pack, weights
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting import records as fitting_records
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.units import MOST_RECORDS, WHOLE, Members, share_out, unit_codes
from skdpbayes.metrics import (
    private_accuracy,
    private_confusion_matrix,
    private_log_loss,
    private_ranking,
    private_scorer,
)
from skdpbayes.model_selection import PrivateGridSearchCV
from skdpbayes.preprocessing.private_bounds import count_below
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
            cuts = 2.0 * problem.grid.gradient_error(problem.loss, 3, 1.0, 20.0)
            cuts *= problem.rows_per_unit
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

    @pytest.mark.parametrize(
        ("estimator", "settings"),
        [(OPSLogisticRegression, {}), (OPSLinearSVC, {"smoothing": 0.1})],
    )
    def test_large_budgets_give_the_model_that_weighs_persons(self, estimator, settings):
        X, y, ids = visits(n_persons=2000)
        sizes = np.bincount(ids)[ids]
        y = np.where(sizes > 4, 1 - y, y)  # frequent visitors differ
        exact = estimator(np.inf, C=1.0).fit(X, y, units=ids)
        private = estimator(1e3, C=1.0, cap_at_posterior=False, random_state=0, **settings)
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


CHAINS = {
    "classifier": DPSGLDClassifier(1.0),
    "squared": DPSGLDRegressor(1.0, target_bounds=(0, 1)),
    "huber": DPSGLDRegressor(1.0, target_bounds=(0, 1), loss="huber"),
    "poisson": DPSGLDRegressor(1.0, target_bounds=(0, 1), loss="poisson", clip_norm=2.0),
    "origin": DPSGLDRegressor(1.0, target_bounds=(-1, 1), fit_intercept=False),
}


def read_chain(model, table, mutant=None):
    """Rows, plan and linear plan of a chain; a mutant forgets the weights."""
    X, y, ids = table
    rows = model._read(X, y).of_units(ids)
    plan = model._plan(rows.public, model._budget(rows.public))
    if mutant == "summed":
        rows = replace(rows, weight=None)
    return rows, plan, getattr(plan, "linear", plan)


class TestChains:
    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    @pytest.mark.parametrize("name", CHAINS)
    def test_a_whole_person_moves_a_step_as_one_record_may(self, name, pair):
        model, rng = clone(CHAINS[name]), np.random.default_rng(0)
        points, found = 5.0 * rng.normal(size=(20, 1, 4)), {}
        _, _, linear = read_chain(model, pair()[0])
        fixed = chain_coordinates.public_coordinates(np.diag([0.5, 0.3, 0.01]), 3)
        for mutant in (None, "summed"):
            sums = []
            for table in pair():
                rows = read_chain(model, table, mutant)[0]
                blocks = chain_blocks(rows, linear.grid)
                potential = linear.potential(blocks, fixed, rows.members())[1]
                at = points[..., : potential.shape[1]]
                sums.append(np.array([potential.gradients(p, None)[0] for p in at]))
                persons = np.arange(rows.public.n)  # a batch of everybody
                assert np.array_equal(potential.gradients(at[0], persons)[0], sums[-1][0])
            found[mutant] = np.linalg.norm((sums[0] - sums[1]).reshape(20, -1), axis=1).max()
        clip, rounding = linear.chain.clip_norm, potential.rounding(linear.chain.most_rows)
        assert rounding < 1e-6 * clip
        assert 0.4 * clip < found[None] <= 2.0 * clip + rounding
        assert found["summed"] > 4.0 * clip

    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    def test_a_whole_person_moves_the_moments_as_one_record_may(self, pair, monkeypatch):
        released = []

        def catch(generator, flat, scale):
            released.append((flat.copy(), scale))
            return flat

        monkeypatch.setattr(randomness, "release_gaussian", catch)
        for mutant in (None, "summed"):
            for table in pair():
                rows = read_chain(DPSGLDClassifier(1.0), table, mutant)[0]
                how = (1.0, 0.5, "replace_one", True, randomness.make_generator(0))
                chain_coordinates.released_coordinates(rows, *how)
        (first, scale), (second, other) = released[:2]
        moved, most = np.linalg.norm(first - second), moment_sensitivity("replace_one")
        assert scale == other
        assert most + person_rounding(models.Grid(60, 1.0), 3) <= 0.5 * scale
        assert 0.5 * most < moved <= 0.5 * scale < most * (1.0 + 1e-3)  # mu is 0.5
        assert np.linalg.norm(released[2][0] - released[3][0]) > 5.0 * most

    def test_the_moments_of_a_person_are_an_average_up_to_cuts(self):
        """Frobenius distance of the released second moments from averages in longer arithmetic."""
        rng = np.random.default_rng(0)
        grid = models.Grid(60, 1.0)
        for m in (1, 3, 40, 255, 256):
            X = rng.normal(size=(m, 3))
            X /= np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + 1e-12)
            weight = share_out(np.zeros(m, dtype=int), 1)[1]
            rows = DPSGLDClassifier(1.0, classes=[0, 1])._read(X, np.zeros(m, dtype=int))
            block = replace(rows, weight=weight).block()
            total, second = models.read_moments(models.moments(block, grid), grid)
            cut = np.trunc(X / grid.row_unit) * grid.row_unit
            exact = (cut.T * weight) @ cut
            assert np.linalg.norm(second - exact) <= 0.5 * person_rounding(grid, 3)
            assert np.linalg.norm(MEAN_WEIGHT * (total - weight @ cut)) <= 2.0**-40
            assert np.linalg.norm(total) <= weight.sum()

    @pytest.mark.parametrize("loss", ["squared", "poisson"])
    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    def test_a_whole_person_moves_the_scale_of_a_regression_as_one_record_may(
        self, loss, pair, monkeypatch
    ):
        caught = []

        def catch(plan, total, largest, generator):
            caught.append((total, largest))
            return total

        monkeypatch.setattr(chain_regressor.RegressionPlan, "release_sum", catch)
        model = DPSGLDRegressor(1.0, target_bounds=(0, 1), loss=loss)
        for mutant in (None, "summed"):
            for table in pair():
                rows, plan, _ = read_chain(model, table, mutant)
                if loss == "poisson":
                    plan.model._mean_count(plan, rows, None)
                    continue
                # a chain that predicts large targets: errors of about 0, and beyond what counts
                space = chain_coordinates.plain_coordinates(3, 1.0, True)
                run = SimpleNamespace(mean=(np.zeros((1, 3)), np.full(1, 3.9)), coordinates=space)
                plan.model._released_scale(plan, run, rows, None)
        (first, largest), (second, _) = caught[:2]
        assert 0.0 < first < 60.0 * largest
        assert 0.9 * largest < abs(first - second) <= largest
        if pair is neighbors:  # more records that weigh 1 each do not fit into the grid
            assert abs(caught[2][0] - caught[3][0]) > 4.0 * largest

    @pytest.mark.parametrize("subsampling", ["poisson", "fixed"])
    def test_batches_are_whole_persons(self, subsampling, monkeypatch):
        X, y, ids = visits(n_persons=200)
        model = DPSGLDClassifier(1.0, batch_size=20, subsampling=subsampling, random_state=0)
        owner = unit_codes(ids, len(y))[0]
        sizes, batches, inner = np.bincount(owner), [], models.clipped_gradient

        def catch(*args, rows, **settings):
            batches.append(rows)
            return inner(*args, rows=rows, **settings)

        monkeypatch.setattr(models, "clipped_gradient", catch)
        model.fit(X, y, units=ids)
        assert len(batches) == 100
        counts = np.zeros(200)
        for rows in batches:
            assert np.unique(rows).size == rows.size
            drawn = np.unique(owner[rows])
            assert np.array_equal(np.bincount(owner[rows], minlength=200)[drawn], sizes[drawn])
            counts[drawn] += 1
            assert subsampling == "poisson" or drawn.size == 20
        assert model.batch_size_ == 20
        assert counts.sum() / 100 == pytest.approx(20.0, abs=2.0)  # five deviations
        # whoever has more records is not drawn more often
        assert abs(np.corrcoef(counts, sizes)[0, 1]) < 0.25

    def test_members(self):
        members = Members.of(np.array([2, 0, 2, 1, 0]), 4)
        assert members.rows(np.array([0, 2])).tolist() == [1, 4, 0, 2]
        assert members.rows(np.array([3])).tolist() == []
        assert members.rows(np.array([3, 1])).tolist() == [3]
        assert members.rows(np.empty(0, dtype=int)).tolist() == []

    @pytest.mark.parametrize("name", CHAINS)
    @pytest.mark.parametrize("batch_size", ["auto", 100])
    def test_records_repeated_give_the_same_model(self, name, batch_size):
        """Every record four times, as one person's: all that is shown is that of the records."""
        X, y, _ = visits(n_persons=300)
        model = clone(CHAINS[name]).set_params(
            epsilon=5.0, random_state=0, batch_size=batch_size, preconditioner=0.2
        )
        ids = np.arange(len(y))
        once = clone(model).fit(X, y)
        four = clone(model).fit(np.tile(X, (4, 1)), np.tile(y, 4), units=np.tile(ids, 4))
        assert four.coef_ == pytest.approx(once.coef_, abs=1e-2)
        assert four.intercept_ == pytest.approx(once.intercept_, abs=1e-2)
        assert four.noise_ == once.noise_
        assert four.privacy_.event == once.privacy_.event
        assert four.step_size_ == pytest.approx(once.step_size_, rel=1e-3)
        if batch_size == "auto" and name == "classifier":
            assert four.interval()["coef"] == pytest.approx(once.interval()["coef"], abs=0.02)

    @pytest.mark.parametrize("name", ["classifier", "squared", "huber"])
    def test_without_privacy_records_repeated_give_the_same_posterior(self, name):
        X, y, _ = visits(n_persons=300)
        model = clone(CHAINS[name]).set_params(epsilon=np.inf, random_state=0)
        ids = np.arange(len(y))
        once = clone(model).fit(X, y)
        four = clone(model).fit(np.tile(X, (4, 1)), np.tile(y, 4), units=np.tile(ids, 4))
        assert four.step_size_ == pytest.approx(once.step_size_, rel=1e-4)
        for part in ("coef", "intercept"):
            assert four.interval()[part] == pytest.approx(once.interval()[part], abs=1e-3)

    @pytest.mark.parametrize("name", CHAINS)
    @pytest.mark.parametrize("batch_size", ["auto", 20])
    def test_plans_are_for_persons_and_the_number_of_records_is_nowhere(self, name, batch_size):
        model = clone(CHAINS[name]).set_params(batch_size=batch_size, random_state=0)
        planned = model.plan(60, 3, unit="person")
        for m in (1, 60, 3000):
            X, y, ids = with_person(visits(), np.eye(3)[1], 1, m)
            model.fit(X, y, units=ids)
            assert {key: getattr(model, key) for key in planned.numbers} == planned.numbers
            assert model.privacy_ == planned.privacy
            assert model.privacy_.unit == "person"
            linear = read_chain(model, (X, y, ids))[2]
            assert (linear.grid.n, linear.chain.most_rows) == (60, 60)
            assert linear.chain.batch_size == (60 if batch_size == "auto" else 20)
        # in coordinates that tell nothing, the step follows from public numbers
        steps = set()
        for m in (1, 60):
            X, y, ids = with_person(visits(), np.eye(3)[1], 1, m)
            fitted = clone(model).set_params(preconditioner=None).fit(X, y, units=ids)
            steps.add(fitted.step_size_)
        assert len(steps) == 1 or name == "poisson"  # whose mean count is released

    def test_large_budgets_give_the_model_that_weighs_persons(self):
        X, y, ids = visits(n_persons=3000)
        sizes = np.bincount(ids)[ids]
        y, share = np.where(sizes > 4, 1 - y, y), 1.0 / sizes  # frequent visitors differ
        normal = {"prior": "normal", "prior_scale": 1.0, "random_state": 0}
        exact = LogisticRegression(C=1.0, tol=1e-10, fit_intercept=False)
        exact.fit(np.column_stack([X, np.ones(len(y))]), y, sample_weight=share)
        by_record = DPSGLDClassifier(np.inf, **normal).fit(X, y)
        assert np.abs(by_record.coef_[0] - exact.coef_[0, :3]).max() > 0.2
        for settings in ({"epsilon": np.inf}, {"epsilon": 100.0, "clip_norm": 4.0}):
            model = DPSGLDClassifier(**settings, **normal).fit(X, y, units=ids)
            assert model.coef_[0] == pytest.approx(exact.coef_[0, :3], abs=0.12)
        line = np.column_stack([X, np.ones(len(y))]) * np.sqrt(share)[:, None]
        slopes = np.linalg.lstsq(line, y * np.sqrt(share), rcond=None)[0]
        for epsilon in (np.inf, 100.0):
            model = DPSGLDRegressor(epsilon, target_bounds=(-3, 4), random_state=0)
            if epsilon < np.inf:
                model.set_params(clip_norm=10.0)  # no error is clipped: they are not symmetric
            model.fit(X, y, units=ids)
            assert model.coef_ == pytest.approx(slopes[:3], abs=0.05)
            residuals = y - line @ slopes / np.sqrt(share)
            variance = np.average(np.square(residuals), weights=share)
            if epsilon < np.inf:  # released is the mean absolute error, as of normal errors
                variance = 0.5 * np.pi * np.average(np.abs(residuals), weights=share) ** 2
            assert model.noise_variance_ == pytest.approx(variance, rel=0.1)
        for epsilon in (np.inf, 100.0):
            counts = DPSGLDRegressor(epsilon, target_bounds=(0, 5), loss="poisson", random_state=0)
            numbers = y + np.where(sizes > 3, 2, 0)
            counts.fit(X, numbers, units=ids)
            mean = np.average(numbers, weights=share)
            assert np.average(counts.predict(X), weights=share) == pytest.approx(mean, rel=0.1)
            # rates are counted from the mean
            assert np.exp(counts._posterior.shift) == pytest.approx(mean, rel=0.01)
            assert mean != pytest.approx(np.mean(numbers), rel=0.1)


def test_a_search_with_another_private_step_says_that_it_takes_no_units():
    X, y, ids = visits()
    model = PrivateGridSearchCV(
        make_pipeline(PrivateBoundsScaler(), ObjPertLogisticRegression()),
        {"objpertlogisticregression__inference_budget": [0.0]},
    )
    with pytest.raises(TypeError, match="takes one private step"):
        model.fit(X, y, units=ids)
    assert not hasattr(model, "privacy_")


class TestBounds:
    THRESHOLDS = np.linspace(-1.0, 1.0, 21)[None].repeat(3, axis=0)

    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    def test_a_whole_person_moves_a_count_as_one_record_may(self, pair):
        def counted(table, weighted=True):
            X, _, ids = table
            rows = Records(Public(len(X), 3), X)
            rows = rows.of_units(ids) if weighted else rows
            return rows.total(count_below, self.THRESHOLDS)

        tables = pair()
        moves = np.abs(np.subtract(*map(counted, tables)))
        whole = PrivateBoundsScaler(1.0).plan(10_000, 3, unit="person").plan.whole
        assert 0.99 * whole < moves.max() <= whole == WHOLE
        # a person of 40 records would move an unweighted count by so many
        assert np.abs(np.subtract(*(counted(t, weighted=False) for t in tables))).max() > 5

    @pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
    @pytest.mark.parametrize("delta", [0.0, 1e-6])
    def test_the_price_is_that_of_whole_counts_on_the_fine_grid(self, adjacency, delta):
        model = PrivateBoundsScaler(1.0, delta, adjacency=adjacency)
        person, record = (model.plan(10_000, 3, unit=unit) for unit in ("person", "record"))
        assert person.plan.event.event.shift == WHOLE
        assert person.plan.event.event.scale == pytest.approx(
            record.plan.event.event.scale * WHOLE, rel=1e-3
        )
        ratio = person.numbers["noise_"].scale / record.numbers["noise_"].scale
        assert ratio == pytest.approx(1.0, rel=1e-3)
        assert person.privacy.delta_at(1.0) <= delta * (1 + 1e-9)
        # the pair of laws of any shorter move loses no more, at every epsilon
        few = 8  # of a grid with so many steps in a count
        grid = np.linspace(0.0, 1.2, 13)
        kind = type(person.plan.event.event)
        worst = [kind(2.0 * few, few).delta_at(e) for e in grid]
        for shift in range(1, few):
            shorter = [kind(2.0 * few, shift).delta_at(e) for e in grid]
            assert np.all(np.subtract(shorter, worst) <= 1e-15)

    def test_bounds_of_persons_are_those_of_one_record_each(self):
        rng = np.random.default_rng(0)
        values = rng.normal([50.0, 3e4], [15.0, 8e3], (6000, 2))
        sizes = rng.choice([1, 2, 4, 8], 6000)
        ids = np.repeat(np.arange(6000), sizes)
        scaler = PrivateBoundsScaler(1.0, 1e-6, random_state=0)
        many = scaler.fit(values[ids], units=ids).bounds_
        once = scaler.fit(values, units=np.arange(6000)).bounds_
        np.testing.assert_array_equal(many, once)
        assert scaler.privacy_.unit == "person"
        chunks = [slice(0, 7), slice(7, 7), slice(7, 9000), slice(9000, None)]
        table, whose = (RowBlocks([part[c] for c in chunks]) for part in (values[ids], ids))
        np.testing.assert_array_equal(scaler.fit(table, units=whose).bounds_, many)
        # the outer values of frequent visitors count no more than anybody's
        loud = np.append(values, np.tile([[1e6, 1e6]], (6000, 1)), axis=0)
        whose = np.append(np.arange(6000), np.zeros(6000, dtype=int))
        assert scaler.fit(loud, units=whose).bounds_.max() < 1e5 < scaler.fit(loud).bounds_.max()


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


class TestNetworks:
    @staticmethod
    def potential(table, mutant=None):
        X, y, ids = table
        model = DPSGLDNetworkClassifier(1.0, hidden_layer_sizes=(4,))
        rows = model._read(X, y).of_units(ids)
        weight = None if mutant == "summed" else rows.weight
        sizes = (3, 4, 1)
        X = np.ascontiguousarray(20.0 * rows.block().X, dtype=np.float32)
        how = (sizes, "tanh", 1.0, 0.3, rows.public.n, weight, rows.members(), True)
        return NetworkPotential(X, rows.target, *how)

    @pytest.mark.parametrize("pair", [neighbors, longest_neighbors])
    def test_a_whole_person_moves_a_step_as_one_record_may(self, pair):
        points, found = np.random.default_rng(0).normal(size=(20, 21)), {}
        for mutant in (None, "summed"):
            both = [self.potential(table, mutant) for table in pair()]
            sums = [np.array([one.gradients(p, None)[0] for p in points]) for one in both]
            found[mutant] = np.linalg.norm(sums[0] - sums[1], axis=1).max()
            everybody = np.arange(60)
            for one, total in zip(both, sums, strict=True):
                assert np.array_equal(one.gradients(points[0], everybody)[0], total[0])
        assert both[0].unit == both[1].unit
        rounding = both[0].rounding(60)
        assert rounding < 1e-6
        assert 0.3 < found[None] <= 0.6 + rounding
        assert found["summed"] > 1.2

    def test_batches_are_whole_persons(self):
        one, point = self.potential(visits()), np.ones(21)
        rows = one.members.rows(np.array([3, 5]))
        records = replace(one, members=None)
        alone = records.gradients(point, rows)[0]
        assert one.gradients(point, np.array([3, 5]))[0] == pytest.approx(alone, abs=1e-9)
        # a mutant takes the numbers of persons for those of records
        assert np.abs(records.gradients(point, np.array([3, 5]))[0] - alone).max() > 1e-3

    def test_modules_of_torch(self):
        torch = pytest.importorskip("torch")
        from skdpbayes import DPSGLDTorchClassifier

        X, y, _ = visits(n_persons=100)
        model = DPSGLDTorchClassifier(torch.nn.Linear, 5.0, n_steps=20, random_state=0)
        whose = np.arange(len(y))
        once = clone(model).fit(X, y)
        four = clone(model).fit(np.tile(X, (4, 1)), np.tile(y, 4), units=np.tile(whose, 4))
        assert four.predict_proba(X) == pytest.approx(once.predict_proba(X), abs=1e-3)
        assert (four.noise_, four.privacy_.unit) == (once.noise_, "person")


class TestStates:
    @staticmethod
    def log(n_records, code, seed=0):
        """Events of 40 persons; person 0 has so many of one kind, in one cell."""
        rng, own = np.random.default_rng(seed), np.full(n_records, code)
        ids = np.append(np.repeat(np.arange(1, 40), 3), 0 * own)
        X = np.vstack([rng.integers(0, 2, (117, 2)), np.column_stack([own, own])])
        times = np.append(rng.integers(0, 6, 117), 5 * own)
        sequences = np.append(rng.integers(0, 2, 117), own)
        return X, {"times": times, "sequences": sequences, "units": ids}

    @staticmethod
    def model(**settings):
        fixed = {"categories": 2, "n_times": 6, "sequence_labels": [0, 1], "n_states": 2}
        return PrivateHMM(**fixed, n_iter=5, burn_in=5, random_state=0, **settings)

    def test_all_events_of_a_person_move_the_counts_as_one_event_may(self):
        moved = {}
        for mutant in (None, "summed"):
            tables = []
            for n_records, code in ((40, 1), (700, 0)):
                X, where = self.log(n_records, code)
                ids = where.pop("units")
                rows = self.model()._read(X, *where.values(), None).of_units(ids)
                if mutant:
                    rows = replace(rows, weight=None)
                total = rows.total(count_events, rows.public.detail)
                tables.append(total / (1 if mutant else WHOLE))
            moved[mutant] = np.abs(tables[0] - tables[1]).sum()
        assert 3.9 < moved[None] <= 4.0  # two fields, once here and once there
        assert moved["summed"] > 40.0

    @pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
    def test_claims_noise_and_what_is_shown(self, mechanism):
        model = self.model(mechanism=mechanism, delta=1e-5)
        planned = model.plan(40, 2, unit="person")
        for n_records, code in ((1, 1), (40, 0), (700, 0)):
            X, where = self.log(n_records, code)
            model.fit(X, **where)
            assert (model.privacy_, model.noise_) == (planned.privacy, planned.numbers["noise_"])
            assert (model.n_events_, model.privacy_.unit) == (40, "person")
            assert model.released_counts_.dtype == np.int64
        if mechanism == "laplace":
            assert model.noise_.scale == 4.0

    def test_refusals(self):
        X, where = self.log(3, 1)
        with pytest.raises(TypeError, match="each row is a step"):
            PrivateHMM(categories=2).fit(X, units=where["units"])
        with pytest.raises(ValueError, match="whole events"):
            self.model(mechanism="ops").fit(X, **where)


def one_person(n_records, value, n_others=50):
    """Binary labels of persons with three records each, and of one who has so many."""
    rng = np.random.default_rng(0)
    y = np.append(rng.integers(0, 2, 3 * n_others), np.full(n_records, value))
    return y, np.append(np.repeat(np.arange(n_others), 3), np.full(n_records, n_others))


class TestScores:
    METRICS = {  # noqa: RUF012
        "accuracy": lambda y, p, **how: private_accuracy(y, p > 0.5, **how).value,
        "log loss": lambda y, p, **how: private_log_loss(y, p, labels=[0, 1], **how).value,
        "table": lambda y, p, **how: (
            private_confusion_matrix(y, (p > 0.5).astype(int), labels=[0, 1], **how).counts
        ),
        "ranking": lambda y, p, **how: private_ranking(y, p, **how).positives,
    }

    @pytest.mark.parametrize("name", METRICS)
    @pytest.mark.parametrize("delta", [0.0, 1e-5])
    def test_a_person_moves_what_is_released_as_one_record_may(self, name, delta, monkeypatch):
        caught, norm = [], 1 if delta == 0.0 else 2

        def catch(generator, exact, scale, noise):
            caught.append((np.asarray(exact, dtype=float), scale))
            return exact

        monkeypatch.setattr(randomness, "release_counts", catch)
        for n_records, value in ((40, 1), (700, 0)):
            y, ids = one_person(n_records, value)
            p = np.where(np.arange(len(y)) < 150, 0.4, 0.001)
            self.METRICS[name](y, p, units=ids, epsilon=1.0, delta=delta)
            self.METRICS[name](y, p, epsilon=1.0, delta=delta)  # a mutant: each record for itself
        moved = np.linalg.norm(caught[0][0] - caught[2][0], ord=norm)
        paid = caught[0][1] * (1.0 if delta == 0.0 else 0.2680511232112295)  # mu of (1, 1e-5)
        assert caught[0][1] == caught[2][1]
        assert 0.5 * paid < moved <= paid * (1.0 + 1e-9)
        mutant = np.linalg.norm(caught[1][0] - caught[3][0], ord=norm)
        assert mutant > 10.0 * caught[1][1] * (1.0 if delta == 0.0 else 0.2680511232112295)

    def test_without_noise_scores_are_averages_over_persons(self):
        y, ids = one_person(30, 1)
        right = np.random.default_rng(1).random(len(y)) < 0.7
        right[150:] = True
        score = private_accuracy(y, np.where(right, y, 1 - y), epsilon=np.inf, units=ids)
        exact = pd.Series(right).groupby(ids).mean().mean()
        assert score.value == pytest.approx(exact, abs=1e-3)
        assert score.privacy.unit == "person"
        assert abs(right.mean() - exact) > 5e-3

    def test_scorers_ask_for_ids(self):
        X, y, ids = visits(n_persons=300)
        with sklearn.config_context(enable_metadata_routing=True):
            scorer = private_scorer(private_accuracy, epsilon=1.0).set_score_request(units="groups")
            model = ObjPertLogisticRegression(1.0).set_fit_request(units="groups")
            found = cross_validate(
                model,
                X,
                y,
                cv=GroupKFold(3),
                scoring=scorer,
                params={"groups": ids},
                return_estimator=True,
            )
            search = GridSearchCV(
                model, {"inference_budget": [0.0, 0.1]}, cv=GroupKFold(3), scoring=scorer
            ).fit(X, y, groups=ids)
        assert (found["test_score"] > 0.3).all()
        assert {one.privacy_.unit for one in found["estimator"]} == {"person"}
        assert search.best_estimator_.privacy_.unit == "person"


FAMILIES = {
    "binary": (BetaBernoulli(), lambda y: y),
    "logit": (LogitNormalBernoulli(), lambda y: y),
    "categories": (DirichletCategorical(2), lambda y: y),
    "counts": (GammaPoisson(5), lambda y: 5 * y),
    "mean": (NormalMean((-1, 1), 1.0), lambda y: 2.0 * y - 1.0),
    "variance": (NormalMeanVariance((-1, 1)), lambda y: 2.0 * y - 1.0),
    "own": (
        ExponentialFamily(np.cos, lambda t, n, g, k: g.normal(size=k), bounds=(-1, 1)),
        lambda y: np.pi * y,
    ),
}


class TestConjugate:
    @pytest.mark.parametrize("name", FAMILIES)
    @pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
    def test_a_person_moves_the_sums_as_one_record_may(self, name, mechanism, monkeypatch):
        caught = []

        def catch(generator, exact, scale, noise):
            caught.append(np.asarray(exact, dtype=float) / scale)
            return exact

        monkeypatch.setattr(randomness, "release_counts", catch)
        model, data = FAMILIES[name]
        how = {"mechanism": mechanism, "delta": 1e-5 * (mechanism == "gaussian")}
        sums = []
        for n_records, value in ((40, 1), (700, 0)):
            y, ids = one_person(n_records, value)
            for units in (ids, None):
                caught.clear()
                released = model.posterior(data(y), posterior="naive", units=units, **how)
                sums.append(np.concatenate(caught))
            assert released.released_["n_total"] == len(y)
        paid = 1.0 if mechanism == "laplace" else 0.2680511232112295  # epsilon; mu of (1, 1e-5)
        norm = 1 if mechanism == "laplace" else 2
        assert 0.5 * paid < np.linalg.norm(sums[0] - sums[2], ord=norm) <= paid * (1.0 + 1e-9)
        # a mutant: each record for itself
        assert np.linalg.norm(sums[1] - sums[3], ord=norm) > 10.0 * paid

    @pytest.mark.parametrize("name", FAMILIES)
    def test_claims_do_not_depend_on_the_number_of_records(self, name):
        model, data = FAMILIES[name]
        shown = []
        for n_records in (1, 40, 700):
            y, ids = one_person(n_records, 1)
            released = model.posterior(data(y), posterior="naive", units=ids, random_state=0)
            numbers = released.released_
            shown.append((released.privacy_, numbers["n_total"], str(numbers["noise_scale"])))
            assert released.privacy_.unit == "person"
        assert len(set(map(str, shown))) == 1
        assert shown[0][1] == 51

    def test_the_posterior_is_that_of_persons(self):
        y, ids = one_person(200, 1, n_others=400)
        released = BetaBernoulli().posterior(y, 5.0, units=ids, random_state=0)
        share = pd.Series(y).groupby(ids).mean().mean()
        low, high = released.interval(0.99, random_state=0)
        assert low < share < high
        assert released.mean(random_state=0) == pytest.approx(share, abs=0.02)
        with pytest.raises(ValueError, match="whole records"):
            BetaBernoulli().posterior(y, 5.0, mechanism="ops", units=ids)


class TestSearch:
    @staticmethod
    def search(**settings):
        grid = {"inference_budget": [0.0, 0.1]}
        return PrivateGridSearchCV(ObjPertLogisticRegression(), grid, random_state=0, **settings)

    @pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc"])
    @pytest.mark.parametrize("strategy", ["repeat", "compose"])
    def test_plans_are_for_persons(self, scoring, strategy):
        search = self.search(scoring=scoring, strategy=strategy, epsilon=2.0)
        planned = search.plan(60, 3, classes=[0, 1], unit="person")
        for m in (1, 40, 700):
            X, y, ids = with_person(visits(), np.eye(3)[0], 1, m)
            search.fit(X, y, units=ids)
            assert search.privacy_ == planned.privacy
            assert search.plan_.score == planned.plan.score
            assert (search.privacy_.unit, search.n_validation_) == ("person", 12)
            assert search.best_estimator_.privacy_.unit == "person"

    def test_nobody_is_trained_on_and_scored(self):
        X, y, ids = visits(n_persons=200)
        X[:, 0] = ids / 400.0  # rows tell whose they are
        rows = self.search()._read(X, y, ids)
        table = rows.tables[0]
        trained, scored = (set(np.rint(400.0 * part[:, 0]).astype(int)) for part in table[:3:2])
        assert (len(trained), len(scored), trained & scored) == (160, 40, set())
        # a mutant that splits records splits persons
        table = self.search()._read(X, y).tables[0]
        trained, scored = (set(np.rint(400.0 * part[:, 0]).astype(int)) for part in table[:3:2])
        assert trained & scored

    @pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc"])
    def test_a_person_moves_a_score_as_one_record_may(self, scoring):
        X, y, ids = visits(n_persons=100)
        model = ObjPertLogisticRegression(np.inf).fit(X, y)
        score = self.search(scoring=scoring)._check(np.random.default_rng(0))[1].of_persons()
        totals, mutants = [], []
        for n_records, label in ((40, 1), (700, 0)):
            X, y, ids = with_person(visits(), np.eye(3)[0], label, n_records)
            codes, n = unit_codes(ids, len(y))
            used, weight = share_out(codes, n)
            used = slice(None) if used is None else used
            totals.append(score.total(model, X[used], y[used], weight))
            mutants.append(score.total(model, X, y, np.ones(len(y))))  # added, not averaged
        assert 0.2 * WHOLE < np.abs(totals[0] - totals[1]).sum() <= (1 + score.table) * WHOLE
        assert np.abs(np.subtract(*mutants)).sum() > 10 * WHOLE


EVERY = {
    "objective": (ObjPertLogisticRegression(1.0), {}),
    "output": (ObjPertLogisticRegression(1.0, mechanism="output"), {}),
    "pure objective": (ObjPertLogisticRegression(1.0, 0.0), {}),
    "ops": (OPSLogisticRegression(1.0), {}),
    "svc": (OPSLinearSVC(1.0), {}),
    "ridge": (PrivateBayesianRidge(1.0, target_bounds=(0, 1)), {}),
    "counts": (LaplaceNaiveBayes(1.0, distribution="gaussian", bounds=(-1, 1)), {}),
    "bits": (LaplaceNaiveBayes(1.0, binarize=0.0), {}),
    "network": (DPSGLDNetworkClassifier(1.0, hidden_layer_sizes=(3,), n_steps=5), {}),
    **{f"chain of {name}": (model, {}) for name, model in CHAINS.items()},
}


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_number_of_records_is_in_no_public_number(name, adjacency):
    """Two tables of the same persons, one with 59 records more and one with 2999 more."""
    model = clone(EVERY[name][0]).set_params(adjacency=adjacency, random_state=0)
    plans = []
    for m in (1, 60, 3000):
        X, y, ids = with_person(visits(), np.eye(3)[1], 1, m)
        rows = model._read(X, y).of_units(ids)
        assert (rows.public.n, rows.public.unit) == (60, "person")
        planned = model._planned(rows.public)
        model.fit(X, y, units=ids)
        assert model.privacy_ == planned.privacy
        shown = {key: getattr(model, key) for key in planned.numbers}
        assert str(shown) == str(planned.numbers)
        whole = {key: value for key, value in vars(model).items() if isinstance(value, int)}
        plans.append((planned.privacy, str(planned.numbers), str(sorted(whole.items()))))
    assert plans[0] == plans[1] == plans[2]
    # a mutant takes the number of rows for that of persons
    mutant = model._planned(replace(rows.public, n=len(y)))
    assert (mutant.privacy, str(mutant.numbers)) != plans[0][:2]


def test_audits_of_whole_persons(monkeypatch):
    """By the user's function; ``tests/audit_cases.py`` has the matrix."""
    model = LaplaceNaiveBayes(2.0, binarize=0.0, classes=[0, 1], predictive_draws=1)
    X, end = visits()[0][:40], np.eye(3)[0]
    others = X, np.zeros(40, dtype=int), np.arange(40)
    before, after = with_person(others, end, 1, 40), with_person(others, -end, 0, 7)
    how = {"units": before[2], "neighbor": after, "n_trials": 100, "random_state": 0}
    how["score"] = lambda fitted: fitted.statistics_
    honest = audit(model, *before[:2], **how)
    assert (honest.verdict, honest.claim.unit) == ("not refuted", "person")

    def added(codes, n_units):  # a mutant: records are added instead of averaged
        return None, np.ones(len(codes))

    monkeypatch.setattr(fitting_records, "share_out", added)
    assert audit(model, *before[:2], **how).verdict == "refuted"
    with pytest.raises(ValueError, match="neighbor must be"):
        audit(model, *before[:2], units=before[2], neighbor=after[:2])
