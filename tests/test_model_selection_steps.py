"""Private searches over pipelines with several private steps, and by the area under the curve."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    PrivacyLedger,
    PrivateBoundsScaler,
    privacy_of,
    split_budget,
)
from skdpbayes.fitting.pipelines import private_steps
from skdpbayes.metrics.scores import area_of_table, table_of_scores
from skdpbayes.model_selection import PrivateGridSearchCV, plan_search
from skdpbayes.model_selection.scoring import make_score
from skdpbayes.privacy import PureDP, compose
from skdpbayes.privacy.budget import Noise
from skdpbayes.randomness import make_generator

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

NAMES = ["columntransformer__privateboundsscaler", "objpertlogisticregression"]
GRID = {"objpertlogisticregression__C": [0.01, 0.1]}


def table(n=4000):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(50, 10, n), "sex": rng.choice(["f", "m"], n)})
    chance = 1.0 / (1.0 + np.exp(-0.2 * (X["age"] - 50) - (X["sex"] == "m")))
    return X, (rng.random(n) < chance).to_numpy().astype(int)


def pipeline():
    encode = OneHotEncoder(categories=[["f", "m"]], sparse_output=False)
    head = make_column_transformer(
        (PrivateBoundsScaler(range=(0, 120), norm=0.7), ["age"]), (encode, ["sex"])
    )
    model = make_pipeline(head, ObjPertLogisticRegression(delta=1e-6, data_norm=1.3))
    return split_budget(model, 1.0, 1e-6, dict(zip(NAMES, (0.25, 0.75), strict=True)))


@pytest.fixture(scope="module")
def found():
    X, y = table()
    search = PrivateGridSearchCV(
        pipeline(), GRID, epsilon=4.0, delta=1e-5, strategy="compose", random_state=7
    )
    return search.fit(X, y)


def test_a_run_is_priced_by_all_of_its_private_steps(found):
    scaler, model = private_steps(found.best_estimator_, fitted=True).values()
    assert 3 * scaler.epsilon == pytest.approx(model.epsilon)
    assert scaler.epsilon + model.epsilon == pytest.approx(found.plan_.run_epsilon)
    assert scaler.delta + model.delta == pytest.approx(found.plan_.run_delta)
    # By hand: what the two steps would claim alone, for the training part, composed.
    alone = [
        PrivateBoundsScaler(scaler.epsilon, scaler.delta, range=(0, 120)).plan(3200, 1),
        model.plan(3200, 3),
    ]
    event = compose(plan.privacy.event for plan in alone)
    assert found.plan_.runs[found.best_index_] == event
    assert found.privacy_.event.epsilon_at(1e-5) <= 4.0
    assert event.epsilon_at(found.plan_.run_delta) < found.plan_.run_epsilon


def test_the_winner_works_and_states_the_price_of_the_search_once(found):
    X, y = table()
    assert found.score(X, y) > 0.7
    steps = private_steps(found.best_estimator_, fitted=True).values()
    assert all(step.privacy_ == found.privacy_ for step in steps)
    assert privacy_of(found.best_estimator_) == found.privacy_
    assert privacy_of(pickle.loads(pickle.dumps(found.best_estimator_))) == found.privacy_
    low, high = next(iter(steps)).bounds_[0]
    assert 0 < low < 45 < 55 < high < 120


def test_steps_of_a_seeded_run_have_different_seeds_and_none_is_kept(found):
    for fitted in (False, True):
        for step in private_steps(found.best_estimator_, fitted=fitted).values():
            assert step.random_state is None
    seen = []

    class Watched(ObjPertLogisticRegression):
        def fit(self, X, y):
            seen.append(self.random_state)
            return super().fit(X, y)

    class WatchedScaler(PrivateBoundsScaler):
        def fit(self, X, y=None):
            seen.append(self.random_state)
            return super().fit(X, y)

    X, y = table()
    model = make_pipeline(WatchedScaler(range=(0, 120)), Watched(delta=1e-6))
    search = PrivateGridSearchCV(model, {"watched__C": [0.01]}, epsilon=8.0, random_state=7)
    search.set_params(strategy="compose").fit(X[["age"]], y)
    noisy = seen[1:]  # the first fit of the scaler, without noise, tells the number of columns
    assert len(noisy) == 2
    assert None not in noisy
    assert len(set(noisy)) == 2


def test_planning_without_data_asks_for_the_columns_of_every_step(found):
    _, y = table()
    search = PrivateGridSearchCV(
        pipeline(), GRID, epsilon=4.0, delta=1e-5, strategy="compose", random_state=7
    )
    plan = search.plan(len(y), dict(zip(NAMES, (1, 3), strict=True)), classes=[0, 1])
    assert plan.privacy.event == found.privacy_.event
    assert plan.plan.run_epsilon == found.plan_.run_epsilon
    with pytest.raises(ValueError, match="privateboundsscaler"):
        search.plan(len(y), 3)


def test_the_ledger_is_charged_once_for_all_steps(tmp_path):
    X, y = table()
    path = tmp_path / "account.sqlite"
    ledger = PrivacyLedger(path, epsilon=4.0, delta=1e-5, filter="sum")
    search = PrivateGridSearchCV(pipeline(), GRID, epsilon=4.0, strategy="compose", ledger=ledger)
    search.fit(X, y)
    assert len(ledger.entries()) == 1
    assert ledger.spent().epsilon <= 4.0


def test_a_scikit_learn_search_takes_the_pipeline_too():
    X, y = table()
    budgets = [split_budget(pipeline(), epsilon, 1e-6) for epsilon in (1.0, 8.0)]
    outer = GridSearchCV(pipeline(), {"objpertlogisticregression__epsilon": [1.0, 8.0]}, cv=3)
    assert outer.fit(X, y).best_score_ > 0.6
    assert [private_steps(b)[NAMES[0]].epsilon for b in budgets] == [0.5, 4.0]


def test_shares_and_adjacencies_that_say_nothing_are_refused():
    X, y = table()
    model = pipeline().set_params(**{f"{NAMES[0]}__epsilon": np.inf})
    with pytest.raises(ValueError, match="split_budget"):
        PrivateGridSearchCV(model, GRID).fit(X, y)
    model = pipeline().set_params(**{f"{NAMES[0]}__adjacency": "zero_out"})
    with pytest.raises(ValueError, match="different adjacencies"):
        PrivateGridSearchCV(model, GRID).fit(X, y)


def test_without_privacy_no_step_adds_noise():
    X, y = table()
    found = PrivateGridSearchCV(pipeline(), GRID, epsilon=np.inf, random_state=0).fit(X, y)
    assert np.isinf(found.privacy_.epsilon)
    assert found.score(X, y) > 0.75


class Ranked:
    classes_ = np.array(["no", "yes"])

    def __init__(self, chance):
        self.chance = chance

    def predict_proba(self, X):
        return np.column_stack([1.0 - self.chance, self.chance])


def test_the_area_is_that_of_scikit_learn_and_a_record_moves_one_cell():
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 2, 20_000)
    chance = 1.0 / (1.0 + np.exp(-logits))
    y = np.where(rng.random(20_000) < chance, "yes", "no")
    score = make_score("roc_auc")
    exact = score.total(Ranked(chance), None, y)
    assert exact.sum() == 20_000
    expected = roc_auc_score(y == "yes", chance)
    assert score.mean(exact, 20_000) == pytest.approx(expected, abs=2e-3)
    other = np.where(np.arange(20_000) == 5, np.where(y == "yes", "no", "yes"), y)
    moved = np.abs(score.total(Ranked(chance), None, other) - exact)
    assert (moved.sum(), moved.max()) == (2, 1)
    noisy = score.noisy(make_generator(0), exact, Noise("laplace", 5.0))
    deviation = (noisy - exact).std()
    assert 7.07 * 2 / 3 < deviation < 7.07 * 3 / 2
    assert area_of_table(noisy) == score.order(noisy)
    np.testing.assert_array_equal(table_of_scores(y == "yes", chance), exact)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("strategy", ["repeat", "compose"])
def test_tables_are_priced_by_the_cells_that_a_record_moves(adjacency, strategy):
    def pure(epsilon, delta):
        return (PureDP(epsilon),)

    plan = plan_search(
        pure,
        4,
        epsilon=1.0,
        delta=0.0,
        adjacency=adjacency,
        mean_runs=9.0,
        shape=1.0,
        strategy=strategy,
        table=True,
    )
    cells = {"replace_one": 2, "zero_out": 1}[adjacency]
    spent = {"repeat": plan.run_epsilon / 2, "compose": 1.0 / 4}[strategy]
    assert plan.score.scale == pytest.approx(cells / spent)
    assert 0.99 < plan.event.epsilon_at(0.0) <= 1.0


@pytest.mark.parametrize("strategy", ["repeat", "compose"])
def test_the_area_finds_the_better_ranking(strategy):
    X, y = table(6000)
    rows = np.column_stack([X["age"], np.full(len(y), 50.0)])
    bounds = [[(0, 100), (0, 1000)], [(0, 1e9), (0, 100)]]  # the second hides the age
    bayes = LaplaceNaiveBayes(distribution="gaussian", bounds=(-1, 1))
    model = make_pipeline(BoundsScaler(bounds[0]), bayes)
    search = PrivateGridSearchCV(
        model,
        {"boundsscaler__bounds": bounds},
        epsilon=4.0,
        delta=0.0,
        scoring="roc_auc",
        strategy=strategy,
        mean_runs=8.0,
        random_state=3,
    ).fit(rows, y)
    assert search.best_index_ == 0
    expected = roc_auc_score(y, search.predict_proba(rows)[:, 1])
    assert search.best_score_ == pytest.approx(expected, abs=0.05)


def test_more_classes_than_two_have_no_area():
    rows = table(300)[0][["age"]].to_numpy() / 120
    search = PrivateGridSearchCV(ObjPertLogisticRegression(), {"C": [0.1]}, scoring="roc_auc")
    with pytest.raises(ValueError, match="two classes; got 3"):
        search.fit(rows, np.arange(300) % 3)
