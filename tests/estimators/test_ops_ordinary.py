"""One posterior sample as an ordinary classifier: rows, parameters, the model without privacy."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skdpbayes import OPSLinearSVC, OPSLogisticRegression, PrivacyLedger
from skdpbayes.estimators.ops import sampling
from tests.estimators.test_ops import two_features

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

both = pytest.mark.parametrize("make", [OPSLogisticRegression, OPSLinearSVC])


def scaled_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y  # rows of norm 2 to 30


@both
def test_rows_are_bounded_alike_in_fit_and_predictions(make):
    X, y = two_features()
    fitted = make(data_norm=0.5, random_state=0).fit(X, y)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    short = X * np.minimum(1.0, 0.5 / norms)
    assert np.any(norms > 0.5)
    np.testing.assert_allclose(fitted.decision_function(X), fitted.decision_function(short))
    np.testing.assert_array_equal(fitted.predict(100.0 * X), fitted.predict(1000.0 * X))
    assert fitted.score(X, y) == fitted.score(short, y)
    np.testing.assert_allclose(
        make(data_norm=0.5, random_state=0).fit(short, y).coef_, fitted.coef_
    )
    if make is OPSLogisticRegression:
        np.testing.assert_allclose(fitted.predict_proba(X), fitted.predict_proba(short))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_without_privacy_it_is_logistic_regression_on_the_rows_as_they_are(convert):
    X, y = scaled_cancer()
    fitted = OPSLogisticRegression(epsilon=np.inf, C=0.7, coef_norm=1.0).fit(convert(X), y)
    rows = np.column_stack([X, np.ones(len(X))])
    expected = LogisticRegression(C=0.7, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    expected.fit(rows, y)
    found = np.append(fitted.coef_, fitted.intercept_)
    np.testing.assert_allclose(found, expected.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(
        fitted.predict_proba(convert(X)), expected.predict_proba(rows), rtol=1e-6
    )
    assert np.linalg.norm(found) > 1.0  # no ball
    assert "Laplace" in fitted.privacy_.mechanism
    assert np.isinf(fitted.privacy_.epsilon)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_without_privacy_it_is_the_support_vector_machine_on_the_rows_as_they_are(convert):
    X, y = scaled_cancer()
    fitted = OPSLinearSVC(epsilon=np.inf, C=0.1).fit(convert(X), y)
    expected = LinearSVC(C=0.1, loss="hinge", tol=1e-8, max_iter=1_000_000, random_state=0)
    expected.fit(X, y)

    def objective(model):
        theta = np.append(model.coef_, model.intercept_)
        margins = (2 * y - 1) * (X @ theta[:-1] + theta[-1])
        return np.maximum(0.0, 1.0 - margins).sum() + theta @ theta / 0.2

    # draws scatter by 1/2 of this unit a coefficient
    assert objective(fitted) == pytest.approx(objective(expected), abs=0.02)
    assert np.mean(fitted.predict(convert(X)) == expected.predict(X)) > 0.99


def test_many_coefficients_need_no_hessian(monkeypatch):
    X, y = scaled_cancer()
    newton = [
        make(epsilon=np.inf, C=0.1).fit(X, y) for make in (OPSLogisticRegression, OPSLinearSVC)
    ]
    monkeypatch.setattr(sampling, "LARGEST_NEWTON", 5)
    monkeypatch.setattr(sampling, "LARGEST_HESSIAN", 5)
    for expected in newton:
        fitted = type(expected)(epsilon=np.inf, C=0.1).fit(X, y)
        np.testing.assert_allclose(fitted.coef_, expected.coef_, atol=2e-3)
        assert not hasattr(fitted, "sample_posterior")
        assert not hasattr(fitted, "interval")


def test_draws_without_privacy_are_normal_around_the_mode():
    X, y = load_iris(return_X_y=True)
    fitted = OPSLogisticRegression(epsilon=np.inf, C=1.0, n_draws=7).fit(X, y)
    assert fitted.sample_posterior()["coef"].shape == (7, 3, 4)
    draws = fitted.sample_posterior(20_000, random_state=0)
    interval = fitted.interval(0.9)
    for name, value in (("coef", fitted.coef_), ("intercept", fitted.intercept_)):
        deviation = (interval[name][..., 1] - interval[name][..., 0]) / (2 * 1.6448536)
        np.testing.assert_allclose(interval[name].mean(axis=-1), value)
        assert np.all(np.abs(draws[name].mean(axis=0) - value) < 4 * deviation / np.sqrt(20_000))
        np.testing.assert_allclose(draws[name].std(axis=0), deviation, rtol=0.03)
    # the precision is the Hessian of the penalized loss: finite differences of its gradient
    rows = np.column_stack([X, np.ones(len(X))])
    theta = np.column_stack([fitted.coef_, fitted.intercept_]).ravel()

    def gradient(flat):
        logits = rows @ flat.reshape(3, 5).T
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return ((p - np.eye(3)[y]).T @ rows).ravel() + flat

    hessian = np.array(
        [(gradient(theta + 1e-5 * e) - gradient(theta - 1e-5 * e)) / 2e-5 for e in np.eye(15)]
    )
    expected = np.sqrt(np.diag(np.linalg.inv(hessian))).reshape(3, 5)
    half = np.diff(interval["coef"], axis=-1)[..., 0] / 2
    np.testing.assert_allclose(half, 1.6448536 * expected[:, :4], rtol=1e-5)


@both
def test_a_search_over_epsilon_finds_that_infinite_is_best(make):
    X, y = scaled_cancer()
    search = GridSearchCV(
        make(data_norm=5.0, random_state=0), {"epsilon": [0.1, 1.0, np.inf]}, cv=5
    ).fit(X, y)
    assert search.best_params_["epsilon"] == np.inf
    assert search.best_score_ > 0.94


@both
def test_parameters_set_after_the_fit_do_not_change_it(make):
    X, y = two_features()
    fitted = make(random_state=0).fit(X, y)
    before = fitted.decision_function(3.0 * X)
    fitted.set_params(
        data_norm=100.0, intercept_scaling=7.0, fit_intercept=False, epsilon=np.inf, n_draws=9
    )
    np.testing.assert_array_equal(fitted.decision_function(3.0 * X), before)
    assert fitted.sample_posterior()["coef"].shape[0] == 1


@both
@pytest.mark.parametrize(
    "params",
    [
        {"n_chains": 2},
        {"diagnostics": True},
        {"sampler": "hmc", "step_size": 0.1},
        {"sampler": "hmc", "n_batches": 2},
        {"sampler": "rejection", "delta": 0.0, "coef_norm": 0.1, "n_steps": 10},
        {"sampler": "rejection", "delta": 0.0, "coef_norm": 0.1, "n_chains": 2},
    ],
)
def test_settings_that_the_sampler_does_not_have_are_refused(make, params):
    X, y = two_features()
    with pytest.raises(ValueError, match="has no effect"):
        make(**params).fit(X, y)


@both
def test_a_refused_fit_charges_nothing_and_changes_nothing(make, tmp_path):
    X, y = two_features()
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0, delta=1e-3)
    fitted = make(random_state=0, ledger=ledger).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    state = pickle.dumps(vars(fitted) | {"ledger": None})
    wide = pd.DataFrame(np.column_stack([X, X]), columns=list("abcd"))
    for broken in ({"C": "large"}, {"sampler": "rejection", "n_steps": 3}, {"n_batches": 10**6}):
        with pytest.raises((ValueError, TypeError), match=r"must be|no effect|tries"):
            make(random_state=0, ledger=ledger, **broken).fit(wide, y)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(wide * np.nan, y)
    assert len(ledger.entries()) == 1
    assert pickle.dumps(vars(fitted) | {"ledger": None}) == state


@both
@pytest.mark.parametrize("params", [{}, {"delta": 0.0}, {"sampler": "hmc"}, {"epsilon": np.inf}])
def test_a_plan_is_what_the_fit_does(make, params):
    X, y = two_features()
    planned = make(random_state=0, **params).plan(*X.shape)
    fitted = make(random_state=0, **params).fit(X, y)
    assert planned.privacy == fitted.privacy_
    assert all(getattr(fitted, name) == value for name, value in planned.numbers.items())
    assert make.__name__ in str(planned)
