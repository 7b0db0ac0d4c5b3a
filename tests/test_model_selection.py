"""Private searches: their price, what they release, what they refuse, how they behave."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare, loguniform, poisson
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    PrivacyLedger,
    PrivateHMM,
)
from skdpbayes.exceptions import BudgetExceededError, CalibrationError, PrivacyWarning
from skdpbayes.model_selection import (
    PrivateGridSearchCV,
    PrivateRandomizedSearchCV,
    plan_search,
)
from skdpbayes.model_selection.runs import draw_number_of_runs
from skdpbayes.model_selection.scoring import make_score
from skdpbayes.privacy import GaussianDP, PureDP, gdp_mu, negative_binomial_gamma
from skdpbayes.privacy.budget import Noise
from skdpbayes.randomness import make_generator
from tests.contract import linear_data

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

GRID = {"alpha": [0.1, 1.0, 10.0, 100.0]}


def gaussian_probe(epsilon, delta):
    return (GaussianDP(gdp_mu(epsilon, delta)),)


def pure_probe(epsilon, delta):
    return (PureDP(epsilon),)


def search(**params):
    settings = {"epsilon": 2.0, "delta": 0.0, "random_state": 0, **params}
    return PrivateGridSearchCV(LaplaceNaiveBayes(), settings.pop("grid", GRID), **settings)


@pytest.mark.parametrize("strategy", ["repeat", "compose"])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(("probe", "delta"), [(gaussian_probe, 1e-5), (pure_probe, 0.0)])
@pytest.mark.parametrize("unit", [1, 1024])
def test_plans_end_just_below_the_budget(strategy, adjacency, probe, delta, unit):
    plan = plan_search(
        probe,
        5,
        epsilon=1.0,
        delta=delta,
        adjacency=adjacency,
        mean_runs=15.0,
        shape=1.0,
        strategy=strategy,
        unit=unit,
    )
    assert plan.strategy == strategy
    assert 0.99 < plan.event.epsilon_at(delta) <= 1.0
    assert 0.0 < plan.run_epsilon < 1.0
    assert plan.event.delta_at(1.0) <= delta * (1 + 1e-9)


def test_composition_of_pure_fits_adds_up_and_noise_serves_the_adjacency():
    common = {"epsilon": 1.0, "delta": 0.0, "mean_runs": 9.0, "shape": 1.0, "strategy": "compose"}
    plan = plan_search(pure_probe, 4, adjacency="replace_one", **common)
    assert plan.run_epsilon == pytest.approx(0.25, rel=0.01)
    # half of the validation records' epsilon each for the choice (2 / scale) and the score
    assert plan.choice.scale == pytest.approx(4.0)
    assert plan.score.scale == pytest.approx(2.0)
    other = plan_search(pure_probe, 4, adjacency="zero_out", **common)
    assert other.choice.scale == pytest.approx(2.0)


def test_auto_weighs_the_budget_of_a_run_by_coverage():
    budget = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace_one", "shape": 1.0}
    small = plan_search(gaussian_probe, 2, mean_runs=6.0, **budget)
    large = plan_search(gaussian_probe, 20, mean_runs=60.0, **budget)
    assert small.strategy == "compose"
    assert "plain composition of 2 fits" in small.words
    assert large.strategy == "repeat"
    assert "geometric number of runs" in large.words
    assert large.run_epsilon > 0.5


def test_number_of_runs_has_its_distribution():
    generator = make_generator(0)
    for shape, mean in ((0.0, 4.0), (1.0, 4.0), (2.5, 4.0), (-0.5, 4.0), (math.inf, 4.0)):
        draws = np.array([draw_number_of_runs(generator, mean, shape) for _ in range(4000)])
        k = np.arange(60)
        if math.isinf(shape):
            masses = poisson.pmf(k, mean)
        else:
            gamma = negative_binomial_gamma(shape, mean)
            ratios = (1 - gamma) * (k[1:-1] + shape) / (k[1:-1] + 1)
            masses = np.concatenate([[0.0, 1.0], np.cumprod(ratios)])
            masses /= masses.sum()
        cells = masses * 4000 >= 5
        observed = np.append(
            [(draws == value).sum() for value in k[cells]], (~np.isin(draws, k[cells])).sum()
        )
        expected = np.append(masses[cells], 1 - masses[cells].sum()) * 4000
        assert chisquare(observed, expected).pvalue > 1e-4
    assert draw_number_of_runs(generator, 1.0, 1.0) == 1


@pytest.mark.parametrize("strategy", ["repeat", "compose"])
def test_a_search_predicts_as_its_winner(strategy):
    X, y = linear_data()
    fitted = search(strategy=strategy).fit(X, y)
    assert fitted.best_params_ == GRID_POINTS[fitted.best_index_]
    assert fitted.best_estimator_.alpha == fitted.best_params_["alpha"]
    assert fitted.predict(X).shape == y.shape
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.best_estimator_.predict_proba(X))
    assert fitted.score(X, y) == fitted.best_estimator_.score(X, y)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.n_features_in_ == 3
    draws, expected = (
        model.sample_posterior(3, random_state=0) for model in (fitted, fitted.best_estimator_)
    )
    assert draws["class_prior"].shape == (3, 2)
    assert draws.keys() == expected.keys()
    assert all(np.array_equal(draws[name], expected[name]) for name in draws)
    assert fitted.n_validation_ == 80


GRID_POINTS = [{"alpha": alpha} for alpha in GRID["alpha"]]


def test_the_claim_is_that_of_the_search_on_the_winner_too():
    X, y = linear_data()
    fitted = search(strategy="repeat").fit(X, y)
    assert fitted.privacy_.epsilon == 2.0
    assert fitted.best_estimator_.privacy_ == fitted.privacy_
    assert fitted.best_estimator_.epsilon == fitted.plan_.run_epsilon < 2.0
    assert fitted.privacy_.event.epsilon_at(0.0) <= 2.0
    assert "hold-out" in str(fitted.privacy_)
    assert fitted.privacy_.seeded
    assert not search(random_state=None).fit(X, y).privacy_.seeded


def test_results_are_public():
    """Two neighbors give the same cv_results_, plan and split sizes; nothing holds the runs."""
    X, y = linear_data()
    first = search(strategy="repeat").fit(X, y)
    other_y = y.copy()
    other_y[:200] = "no"
    second = search(strategy="repeat").fit(X, other_y)
    assert set(first.cv_results_) == {"params", "param_alpha"}
    assert first.cv_results_["params"] == second.cv_results_["params"] == GRID_POINTS
    assert first.plan_ == second.plan_
    state = set(vars(first)) - set(first.get_params(deep=False))
    assert state == {
        "best_estimator_",
        "best_index_",
        "best_params_",
        "best_score_",
        "classes_",
        "cv_results_",
        "n_features_in_",
        "n_validation_",
        "plan_",
        "privacy_",
        "_posterior",
    }


def test_the_best_candidate_wins_when_there_is_noise_to_spare():
    """Smoothing by a million records erases the data, so it must lose against little smoothing."""
    X, y = linear_data(4000)
    grid = {"alpha": [1.0, 1e7]}
    for strategy in ("repeat", "compose"):
        wins = [
            search(grid=grid, epsilon=20.0, strategy=strategy, mean_runs=12.0, random_state=seed)
            .fit(X, y)
            .best_params_["alpha"]
            for seed in range(6)
        ]
        assert wins.count(1.0) >= 5


def test_infinite_epsilon_takes_the_best_score_without_noise():
    X, y = linear_data()
    fitted = search(epsilon=np.inf).fit(X, y)
    assert fitted.plan_.strategy == "none"
    assert math.isinf(fitted.privacy_.epsilon)
    again = search(epsilon=np.inf).fit(X, y)
    assert fitted.best_score_ == again.best_score_
    assert fitted.best_score_ * fitted.n_validation_ == pytest.approx(
        round(fitted.best_score_ * fitted.n_validation_)
    )


def test_score_noise_has_its_scale():
    """Accept the planned scale, reject two thirds and three halves of it."""
    score = make_score("accuracy")
    generator = make_generator(1)
    draws = (
        np.array([score.noisy(generator, 100, Noise("laplace", 5.0)) for _ in range(4000)]) - 100
    )
    assert abs(np.abs(draws).mean() / 5.0 - 1.0) < 0.08


def test_log_loss_is_bounded_a_record():
    X, y = linear_data()
    fitted = LaplaceNaiveBayes(epsilon=np.inf).fit(X, y)
    score = make_score("neg_log_loss")
    total = score.total(fitted, X, y)
    probability = fitted.predict_proba(X)[np.arange(len(y)), (y == "yes").astype(int)]
    assert score.mean(total, len(y)) == pytest.approx(np.log(probability).mean(), abs=5e-3)
    other = score.total(fitted, X, np.where(np.arange(len(y)) == 0, "neither", y))
    assert abs(other - total) <= score.unit
    found = search(scoring="neg_log_loss", epsilon=50.0).fit(X, y)
    assert -0.8 < found.best_score_ < -0.1


def test_scores_by_a_function():
    X, y = linear_data()
    found = search(scoring=lambda fitted, X, y: np.full(len(y), 0.5), epsilon=50.0).fit(X, y)
    assert found.best_score_ == pytest.approx(0.5, abs=0.02)
    with pytest.raises(ValueError, match="one number for each"):
        search(scoring=lambda fitted, X, y: 0.5).fit(X, y)


def test_ledger_is_charged_once_for_the_whole(tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "one.sqlite", epsilon=5.0)
    fitted = search(ledger=ledger, strategy="repeat", n_jobs=2).fit(X, y)
    entries = ledger.entries()
    assert [entry.label for entry in entries] == ["PrivateGridSearchCV"]
    assert ledger.spent().epsilon == pytest.approx(2.0, rel=1e-6)
    assert fitted.best_estimator_.ledger is None
    own = PrivacyLedger(tmp_path / "own.sqlite", epsilon=5.0)
    PrivateGridSearchCV(
        LaplaceNaiveBayes(ledger=own), GRID, epsilon=2.0, delta=0.0, random_state=0
    ).fit(X, y)
    assert len(own.entries()) == 1
    small = PrivacyLedger(tmp_path / "small.sqlite", epsilon=1.0)
    refused = search(ledger=small)
    with pytest.raises(BudgetExceededError):
        refused.fit(X, y)
    assert not hasattr(refused, "best_estimator_")


def test_seeds_clones_and_pickles():
    X, y = linear_data()
    first, second = search().fit(X, y), search().fit(X, y)
    assert first.best_params_ == second.best_params_
    assert first.best_score_ == second.best_score_
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    copy = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(copy.predict(X), first.predict(X))
    fresh = clone(first)
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    scores = {search(random_state=None).fit(X, y).best_score_ for _ in range(6)}
    assert len(scores) > 1


def test_runs_of_a_seeded_estimator_stay_independent():
    """A seed on the estimator would repeat the same noise in every run."""
    X, y = linear_data()
    found = PrivateGridSearchCV(
        LaplaceNaiveBayes(random_state=3), {"alpha": [1.0]}, epsilon=1.0, delta=0.0
    )
    releases = {found.fit(X, y).best_estimator_.statistics_.tobytes() for _ in range(3)}
    assert len(releases) == 3


@pytest.mark.slow
def test_pipelines_frames_and_random_candidates():
    X, y = linear_data()
    frame = pd.DataFrame(X, columns=list("abc"))
    model = make_pipeline(BoundsScaler((-1.0, 1.0)), ObjPertLogisticRegression())
    found = PrivateRandomizedSearchCV(
        model,
        {"objpertlogisticregression__C": loguniform(1e-3, 1e-1)},
        n_iter=2,
        epsilon=5.0,
        strategy="repeat",
        random_state=0,
    ).fit(frame, y)
    assert len(found.cv_results_["params"]) == 2
    assert found.feature_names_in_.tolist() == list("abc")
    assert found.best_estimator_[-1].privacy_ == found.privacy_
    assert found.decision_function(frame).shape == y.shape
    with pytest.raises(ValueError, match="objpertlogisticregression__delta"):
        PrivateGridSearchCV(model, {"objpertlogisticregression__delta": [1e-6]}).fit(X, y)


def test_poisson_may_select_nothing():
    X, y = linear_data()
    guesses = 0
    for seed in range(8):
        found = search(
            delta=1e-5, shape=np.inf, mean_runs=1.0, strategy="repeat", random_state=seed
        )
        found.fit(X, y)
        if found.best_params_ is None:
            guesses += 1
            assert math.isnan(found.best_score_)
            assert found.n_features_in_ == X.shape[1]
            assert set(found.predict(X)) <= {"no", "yes"}
    assert 0 < guesses < 8
    with pytest.raises(CalibrationError, match="delta > 0"):
        search(delta=0.0, shape=np.inf).fit(X, y)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"grid": {"epsilon": [0.1, 1.0]}}, "cannot choose 'epsilon'.*GridSearchCV"),
        ({"grid": {"delta": [1e-6]}}, "cannot choose 'delta'"),
        ({"grid": {"random_state": [0, 1]}}, "independent"),
        ({"grid": []}, "empty"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"strategy": "all"}, "strategy"),
        ({"scoring": "roc_auc_ovr"}, "scoring"),
        ({"test_size": 1.0}, "test_size"),
        ({"test_size": 1e-4}, "leaves a part empty"),
        ({"mean_runs": 0.5}, "mean_runs"),
        ({"shape": -2.0}, "shape"),
    ],
)
def test_bad_parameters_are_named(params, match):
    X, y = linear_data()
    with pytest.raises(ValueError, match=match):
        search(**params).fit(X, y)


@pytest.mark.parametrize("model", [LogisticRegression(), PrivateHMM(3), search()])
def test_an_estimator_that_cannot_be_priced_is_refused(model):
    X, y = linear_data()
    with pytest.raises(TypeError, match="private classifier"):
        PrivateGridSearchCV(model, {"random_state": [1]}).fit(X, y)


def test_a_large_delta_still_warns():
    X, y = linear_data()
    with pytest.warns(PrivacyWarning, match="1/n_samples"):
        search(delta=0.4, strategy="compose", grid={"alpha": [1.0]}).fit(X, y)


@parametrize_with_checks(
    [PrivateGridSearchCV(LaplaceNaiveBayes(), {"alpha": [0.5, 1.0]}, delta=0.0)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
