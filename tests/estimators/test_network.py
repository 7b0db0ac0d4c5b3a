"""DPSGLDNetworkClassifier: what it learns, what it keeps, clear errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpbayes import BoundsScaler, DPSGLDNetworkClassifier, PrivacyLedger
from skdpbayes.exceptions import CalibrationError
from tests.contract import linear_data
from tests.estimators.test_chain import blobs

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_network_learns_what_a_line_cannot(activation):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (4000, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    params = {"hidden_layer_sizes": (16,), "activation": activation, "random_state": 0}
    free = DPSGLDNetworkClassifier(epsilon=np.inf, **params).fit(X, y)
    assert free.score(X, y) > 0.8
    private = DPSGLDNetworkClassifier(epsilon=3.0, adjacency="zero_out", **params).fit(X, y)
    assert private.score(X, y) > 0.75
    assert private.privacy_.epsilon_at(1e-5) <= 3.0
    assert private.privacy_.conditions == ()
    draws = private.sample_posterior(4)
    assert draws["coef_0"].shape == (4, 2, 16)
    assert draws["intercept_1"].shape == (4, 1)
    assert private.coefs_[1].shape == (16, 1)
    assert DPSGLDNetworkClassifier(epsilon=3.0, **params).fit(X, y).predict_proba(X).shape == (
        4000,
        2,
    )


def test_a_fitted_network_predicts_as_it_was_fitted():
    X, y = blobs(n=500)
    model = DPSGLDNetworkClassifier(hidden_layer_sizes=(4,), n_steps=10, random_state=0).fit(X, y)
    before = model.predict_proba(X), model.sample_posterior()["coef_0"]
    model.set_params(activation="relu", data_norm=0.1, hidden_layer_sizes=(9, 9))
    np.testing.assert_array_equal(model.predict_proba(X), before[0])
    np.testing.assert_array_equal(model.sample_posterior()["coef_0"], before[1])


def test_network_with_three_classes_and_momentum():
    X, y = blobs(n=3000)
    model = DPSGLDNetworkClassifier(
        epsilon=3.0,
        hidden_layer_sizes=(8, 8),
        sampler={"kind": "sghmc", "schedule": "cube_root"},
        random_state=0,
        n_steps=100,
    ).fit(sparse.csr_matrix(X), y)
    assert model.score(sparse.csr_matrix(X), y) > 0.8


def test_no_privacy_wins_or_ties_in_a_search_over_epsilon():
    X, y = load_breast_cancer(return_X_y=True)
    scaler = BoundsScaler(np.column_stack([X.min(axis=0), X.max(axis=0)]), norm=1.0)
    model = make_pipeline(scaler, DPSGLDNetworkClassifier(random_state=0))
    epsilons = {"dpsgldnetworkclassifier__epsilon": [1.0, 5.0, np.inf]}
    scores = GridSearchCV(model, epsilons, cv=3).fit(X, y).cv_results_["mean_test_score"]
    assert scores[-1] == scores.max()
    assert scores[-1] > 0.94


def test_three_quarters_of_the_chain_are_left_out():
    X, y = linear_data()
    model = DPSGLDNetworkClassifier(n_steps=40, n_kept=40, random_state=0).fit(X, y)
    assert len(model.sample_posterior()["coef_0"]) == 10


def test_rows_are_bounded_alike_in_fit_and_predict():
    X, y = linear_data()
    params = {"hidden_layer_sizes": (4,), "n_steps": 20, "random_state": 0}
    model = DPSGLDNetworkClassifier(data_norm=0.25, **params).fit(X, y)
    cut = X * np.minimum(1.0, 0.25 / np.linalg.norm(X, axis=1))[:, None]
    np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(cut), rtol=1e-6)
    again = DPSGLDNetworkClassifier(data_norm=0.25, **params).fit(cut, y)
    np.testing.assert_allclose(again.predict_proba(X), model.predict_proba(X), rtol=1e-4)
    # without privacy rows are taken as they are
    free = DPSGLDNetworkClassifier(np.inf, data_norm=0.25, **params).fit(X, y)
    assert np.abs(free.predict_proba(X) - free.predict_proba(cut)).max() > 0.01


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"delta": 0.0}, "chain adds Gaussian noise"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes"),
        ({"hidden_layer_sizes": ()}, "DPSGLDClassifier"),
        ({"hidden_layer_sizes": 10}, "hidden_layer_sizes"),
        ({"sampler": "sgfs"}, "sampler"),
        ({"sampler": {"kind": "sgnht", "temperature": 0.5}}, "temperature"),
        ({"activation": "gelu"}, "activation"),
        ({"prior_scale": 0.0}, "prior_scale"),
        ({"sampler": {"kind": "sgld", "schedule": 3}}, "schedule"),
        ({"step_size": 1e-17}, "step_size"),
    ],
)
def test_bad_parameters_are_named_and_not_charged(params, message, tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=10.0, delta=1e-3)
    with pytest.raises((ValueError, CalibrationError), match=message):
        DPSGLDNetworkClassifier(**params, ledger=ledger).fit(X, y)
    assert not list(ledger.entries())
