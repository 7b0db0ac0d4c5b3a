"""What private searches claim, what they keep to themselves, and what plain searches cost."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skdpbayes import BoundsScaler, LaplaceNaiveBayes, PrivacyLedger
from skdpbayes.model_selection import PrivateGridSearchCV
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


class ConvergesAtHighEpsilon(LaplaceNaiveBayes):
    """The claim of a fit is conditional above an epsilon of 1."""

    def _plan(self, public, budget):
        plan = super()._plan(public, budget)
        extra = ("converged",) if self.epsilon > 1.0 else ()
        return dataclasses.replace(plan, conditions=(*plan.conditions, *extra))


@pytest.mark.parametrize(("epsilon", "expected"), [(1.5, ()), (4.0, ("converged",))])
def test_conditions_are_those_of_the_budget_that_a_run_gets(epsilon, expected):
    X, y = linear_data()
    found = PrivateGridSearchCV(
        ConvergesAtHighEpsilon(), GRID, epsilon=epsilon, delta=0.0, random_state=0
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
