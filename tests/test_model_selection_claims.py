"""What private searches claim, what they keep to themselves, and what plain searches cost."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import FitFailedWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLogisticRegression,
    PrivacyLedger,
)
from skdpbayes.exceptions import CalibrationError
from skdpbayes.model_selection import PrivateGridSearchCV
from skdpbayes.model_selection.scoring import make_score
from tests.contract import linear_data

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

GRID = {"alpha": [0.1, 1.0, 10.0, 100.0]}


def search(**params):
    settings = {"epsilon": 2.0, "delta": 0.0, "random_state": 0, **params}
    return PrivateGridSearchCV(LaplaceNaiveBayes(), GRID, **settings)


def test_warnings_do_not_tell_how_many_runs_there_were():
    """Every fit warns about delta; the winner's warning alone comes out, once."""
    X, y = linear_data()
    for seed in range(3):
        found = search(delta=0.4, strategy="repeat", mean_runs=6.0, random_state=seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.fit(X, y)
        assert len([w for w in caught if "1/n_samples" in str(w.message)]) <= 1


def mean_score(fitted, X, y):
    return np.full(len(y), fitted.score(X, y))


def test_what_the_claim_rests_on_is_named():
    X, y = linear_data()
    assert search().fit(X, y).privacy_.conditions == ()
    assert "no other record" in search(scoring=mean_score).fit(X, y).privacy_.conditions[0]
    steps = make_pipeline(StandardScaler(), LaplaceNaiveBayes())
    grid = {"laplacenaivebayes__alpha": [1.0]}
    found = PrivateGridSearchCV(steps, grid, epsilon=2.0, delta=0.0, random_state=0).fit(X, y)
    assert "'standardscaler'" in found.privacy_.conditions[0]
    public = make_pipeline(BoundsScaler((-1.0, 1.0)), Normalizer(), LaplaceNaiveBayes())
    found = PrivateGridSearchCV(public, grid, epsilon=2.0, delta=0.0, random_state=0).fit(X, y)
    assert found.privacy_.conditions == ()


class Telltale(ObjPertLogisticRegression):
    """Warns about what it sees in exact records."""

    def _touch(self, rows, plan, generator):
        if (rows.X > 0.99).any():
            warnings.warn("a record is large", UserWarning, stacklevel=2)
        return super()._touch(rows, plan, generator)


class TelltaleScaler(StandardScaler):
    def transform(self, X):
        if (np.asarray(X) > 0.99).any():
            warnings.warn("a record is large", UserWarning, stacklevel=2)
        return super().transform(X)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["model", "head"])
@pytest.mark.parametrize("strategy", ["repeat", "compose"])
def test_warnings_that_exact_records_cause_do_not_pass(step, strategy):
    """They came out in no search on a data set and in every one on its neighbor."""
    X, y = linear_data()
    X = 0.5 * X / np.abs(X).max()
    neighbor = X.copy()
    neighbor[:] = 1.0
    model, grid = Telltale(), {"C": [0.01, 0.1]}
    if step == "head":
        model = make_pipeline(TelltaleScaler(), ObjPertLogisticRegression())
        grid = {"objpertlogisticregression__C": [0.01, 0.1]}
    for table in (X, neighbor):
        found = PrivateGridSearchCV(model, grid, strategy=strategy, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.fit(table, y)
        assert [str(w.message) for w in caught] == []


def test_progress_of_a_fit_is_not_shown(capfd):
    """A bar for each run would count the runs."""
    X, y = linear_data()
    model = OPSLogisticRegression(sampler="langevin", progress=True)
    found = PrivateGridSearchCV(model, {"C": [1.0, 2.0]}, strategy="compose", random_state=0)
    found.fit(X, y)
    captured = capfd.readouterr()
    assert captured.err == captured.out == ""


class Counted(ObjPertLogisticRegression):
    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        return super().fit(X, y)


class CountedScaler(BoundsScaler):
    fits = 0

    def fit(self, X, y=None):
        type(self).fits += 1
        return super().fit(X, y)


def test_planning_takes_no_fit_and_the_head_runs_once():
    X, y = linear_data()
    Counted.fits = CountedScaler.fits = 0
    model = make_pipeline(CountedScaler((-1.0, 1.0)), Counted())
    grid = {"counted__C": [0.01, 0.02, 0.1], "counted__fit_intercept": [True, False]}
    found = PrivateGridSearchCV(model, grid, strategy="compose", random_state=0).fit(X, y)
    assert (Counted.fits, CountedScaler.fits) == (6, 1)
    assert found.best_estimator_[0].n_features_in_ == 3
    assert found.predict(X).shape == y.shape
    grid = {"counted__C": [0.01, 0.1], "countedscaler__bounds": [(-1.0, 1.0), (-2.0, 2.0)]}
    found = PrivateGridSearchCV(model, grid, strategy="compose", random_state=0).fit(X, y)
    assert CountedScaler.fits == 1 + 2
    chosen = found.best_params_["countedscaler__bounds"]
    assert found.best_estimator_[0].bounds == chosen
    by_hand = found.best_estimator_[-1].predict(BoundsScaler(chosen).fit_transform(X))
    np.testing.assert_array_equal(found.predict(X), by_hand)


def test_a_plan_without_data_is_the_plan_of_the_fit():
    X, y = linear_data()
    model, grid = ObjPertLogisticRegression(), {"C": [0.01, 0.1]}
    found = PrivateGridSearchCV(model, grid, strategy="compose", random_state=0)
    planned = found.plan(len(y), X.shape[1])
    assert found.fit(X, y).plan_ == planned.plan
    assert found.privacy_ == planned.privacy
    assert "PrivateGridSearchCV would release" in str(planned)


def test_a_candidate_that_cannot_be_had_is_named():
    X, y = linear_data()
    with pytest.raises(CalibrationError, match="C=1 cannot meet") as raised:
        PrivateGridSearchCV(
            ObjPertLogisticRegression(), {"C": [0.01, 1.0]}, epsilon=0.1, random_state=0
        ).fit(X, y)
    assert "{'C': 1.0}" in raised.value.__notes__[0]


class Understated(ObjPertLogisticRegression):
    """Plans at half of the epsilon that it then takes."""

    def _planned(self, public):
        half = ObjPertLogisticRegression(epsilon=self.epsilon / 2, delta=self.delta)
        return half._planned(public)


def test_a_fit_that_costs_more_than_its_plan_is_refused():
    X, y = linear_data()
    with pytest.raises(CalibrationError, match="another price"):
        PrivateGridSearchCV(Understated(), {"C": [0.1]}, random_state=0).fit(X, y)


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, CalibratedClassifierCV])
def test_wrappers_that_fit_several_times_are_refused(wrapper):
    """They were priced by the first of their fits."""
    X, y = linear_data()
    with pytest.raises(TypeError, match="last step is one"):
        PrivateGridSearchCV(
            wrapper(ObjPertLogisticRegression()), {"estimator__C": [0.1, 1.0]}, random_state=0
        ).fit(X, y)


def test_candidates_of_different_adjacency_are_refused():
    X, y = linear_data()
    model = Pipeline([("model", ObjPertLogisticRegression())])
    other = ObjPertLogisticRegression(adjacency="zero_out")
    with pytest.raises(ValueError, match="different adjacencies"):
        PrivateGridSearchCV(model, {"model": [ObjPertLogisticRegression(), other]}).fit(X, y)


def test_what_is_wrong_with_the_table_is_found_before_the_charge(tmp_path):
    """In either part of the split: some of the rows broken here are trained on, some held out."""
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "one.sqlite", epsilon=5.0, delta=1e-4)
    model = ObjPertLogisticRegression()
    found = PrivateGridSearchCV(model, {"C": [0.1]}, ledger=ledger, random_state=0).fit(X, y)
    before = vars(found).copy()
    for row in range(12):
        broken = X.copy()
        broken[row, 1] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            found.fit(broken, y)
    assert len(ledger.entries()) == 1
    assert all(vars(found)[name] is value for name, value in before.items())


def test_a_released_search_does_not_contain_its_seeds():
    X, y = linear_data()
    model = make_pipeline(BoundsScaler((-1.0, 1.0)), LaplaceNaiveBayes())
    grid = {"laplacenaivebayes__alpha": [0.1, 1.0]}
    found = PrivateGridSearchCV(model, grid, delta=0.0, random_state=12345).fit(X, y)
    assert "12345" not in repr(found)
    copy = pickle.loads(pickle.dumps(found))
    assert copy.random_state is None
    for held in (found, copy):
        assert held.best_estimator_[-1].random_state is None
    np.testing.assert_array_equal(copy.predict(X), found.predict(X))


@pytest.mark.parametrize("source", [982_451_653, np.random.default_rng(5)], ids=["int", "rng"])
def test_a_seed_given_to_search_and_estimator_is_in_neither(source):
    X, y = linear_data()
    head = RBFSampler(n_components=3, random_state=source)
    model = make_pipeline(BoundsScaler((-1.0, 1.0)), head, LaplaceNaiveBayes(random_state=source))
    grid = {"laplacenaivebayes__alpha": [0.1, 1.0]}
    found = PrivateGridSearchCV(model, grid, delta=0.0, random_state=source).fit(X, y)
    stored, shown = pickle.dumps(found), repr(found) + found._repr_html_()
    shown += "".join(found._repr_mimebundle_().values())
    if isinstance(source, int):
        assert source.to_bytes(4, "little") not in stored
        assert str(source) not in shown
        assert clone(found).estimator[-1].random_state == source
    assert b"PCG64" not in stored
    assert "PCG64" not in shown
    assert found.best_estimator_[1].random_state is None
    assert pickle.loads(stored).estimator[-1].random_state is None


def test_folds_and_ranks_are_refused_with_a_reason():
    X, y = linear_data()
    with pytest.raises(ValueError, match=r"no folds \(got cv=5\).*test_size"):
        search(cv=5).fit(X, y)
    with pytest.raises(ValueError, match=r"'neg_brier_score'.*record by record"):
        search(scoring="average_precision").fit(X, y)


def test_brier_scores_are_those_of_scikit_learn():
    X, y = linear_data()
    fitted = LaplaceNaiveBayes(epsilon=np.inf).fit(X, y)
    score = make_score("neg_brier_score")
    total = score.total(fitted, X, y)
    expected = -brier_score_loss(y == "yes", fitted.predict_proba(X)[:, 1])
    assert score.mean(total, len(y)) == pytest.approx(expected, abs=1e-3)
    others = [
        score.total(fitted, X, np.where(np.arange(len(y)) == i, "neither", y)) for i in (0, 9)
    ]
    assert max(abs(other - total) for other in others) <= score.unit


class ConvergesAtHighEpsilon(ObjPertLogisticRegression):
    """The claim of a fit is conditional above an epsilon of 1."""

    def _plan(self, public, budget):
        extra = ("converged",) if budget.epsilon > 1.0 else ()
        return replace(super()._plan(public, budget), conditions=extra)


@pytest.mark.parametrize(("epsilon", "expected"), [(1.2, ()), (4.0, ("converged",))])
def test_conditions_are_those_of_the_budget_that_a_run_gets(epsilon, expected):
    X, y = linear_data()
    found = PrivateGridSearchCV(
        ConvergesAtHighEpsilon(),
        {"C": [0.01, 0.1]},
        epsilon=epsilon,
        strategy="compose",
        random_state=0,
    ).fit(X, y)
    assert (found.plan_.run_epsilon > 1.0) == bool(expected)
    assert found.privacy_.conditions == expected


def test_plain_searches_charge_every_fold_in_workers_too(tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "folds.sqlite", epsilon=100.0)
    model = LaplaceNaiveBayes(epsilon=0.5, ledger=ledger)
    cross_val_score(model, X, y, cv=3, n_jobs=2)
    assert len(ledger.entries()) == 3
    GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2, n_jobs=2).fit(X, y)
    assert len(ledger.entries()) == 3 + 2 * 2 + 1
    assert ledger.spent().epsilon == pytest.approx(0.5 * 8)


@pytest.mark.filterwarnings("ignore:One or more of the test scores")
def test_folds_that_fail_say_which_public_numbers_decided_it():
    """Eleven records in two folds: five are too few for the batch, six are enough."""
    X, y = linear_data()
    X, y = X[:11], np.array(["no", "yes"] * 5 + ["no"])
    model = make_pipeline(BoundsScaler((-1.0, 1.0)), NeedsSix())
    with pytest.warns(
        FitFailedWarning, match=r"n_samples=5 \(records\), n_features=3 and 2 classes"
    ):
        GridSearchCV(model, {"needssix__epsilon": [1.0, 10.0]}, cv=KFold(2)).fit(X, y)
    lonely = np.array(["yes"] + ["no"] * 10)
    with pytest.warns(FitFailedWarning, match="few records, as in a fold, may lack a label"):
        GridSearchCV(model, {"needssix__epsilon": [1.0]}, cv=KFold(2)).fit(X, lonely)


def test_frames_whose_columns_have_names_in_parameters():
    """Plans know what a fit reads of the table: names of columns, and what it takes from data."""
    X, y = linear_data()
    frame = pd.DataFrame(np.column_stack([X, y == "yes"]).astype(float), columns=list("abcd"))
    kinds = {"a": "gaussian", "b": "gaussian", "c": "gaussian", "d": "categorical"}
    bounds = dict.fromkeys("abc", (-1.0, 1.0))
    model = LaplaceNaiveBayes(distribution=kinds, bounds=bounds)
    grid = {"alpha": [0.1, 1.0]}
    found = PrivateGridSearchCV(model, grid, epsilon=2.0, delta=0.0, random_state=0).fit(frame, y)
    assert "categories" in found.privacy_.conditions[0]
    assert found.feature_names_in_.tolist() == list("abcd")
    model.set_params(categories={"d": 2})
    found = PrivateGridSearchCV(model, grid, epsilon=2.0, delta=0.0, random_state=0).fit(frame, y)
    assert found.privacy_.conditions == ()


class NeedsSix(ObjPertLogisticRegression):
    def _plan(self, public, budget):
        if public.n < 6:
            raise ValueError("batch_size must be at most n_samples.")
        return super()._plan(public, budget)
