"""ObjPertLogisticRegression with a margin: the loss, its probabilities, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import make_classification

from skdpbayes import ObjPertLogisticRegression, models
from skdpbayes.fitting.records import Block

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

ALONE = {"inference_budget": 0.0, "margin": 2.0}


def _data(n_classes=2, n=400, d=4, seed=0):
    X, y = make_classification(
        n, d, n_informative=d, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    return X / np.linalg.norm(X, axis=1).max(), y


@pytest.mark.parametrize("margin", [0.0, 0.7, 3.0])
def test_the_loss_and_its_derivatives(margin):
    rng = np.random.default_rng(0)
    X, theta = rng.normal(size=(50, 3)), rng.normal(size=(1, 4))
    codes = rng.integers(0, 2, 50)
    rows = np.column_stack([X, np.full(50, 1.5)])
    u = (2 * codes - 1)[:, None] * rows
    s = expit(margin - u @ theta[0])
    how = (theta, models.LogisticLoss(margin), (0, 1, 2), 1.5, None)
    value, gradient, hessian = models.read_derivatives(
        models.derivatives(Block(X, codes), *how), *how
    )
    assert value == pytest.approx(np.logaddexp(0, margin - u @ theta[0]).sum(), rel=1e-12)
    np.testing.assert_allclose(gradient[0], -(s[:, None] * u).sum(axis=0), rtol=1e-11)
    np.testing.assert_allclose(hessian, (u.T * (s * (1 - s))) @ u, rtol=1e-11)


def test_without_noise_it_is_the_minimizer():
    X, y = _data()
    model = ObjPertLogisticRegression(np.inf, C=3.0, fit_intercept=False, **ALONE).fit(X, y)
    u = (2 * y - 1)[:, None] * X
    plain = minimize(lambda t: np.logaddexp(0, 2.0 - u @ t).sum() + t @ t / 6.0, np.zeros(4))
    np.testing.assert_allclose(model.coef_[0], plain.x, atol=1e-4)


def test_probabilities_are_where_the_expected_slope_vanishes():
    X, y = _data()
    model = ObjPertLogisticRegression(5.0, random_state=0, **ALONE).fit(X, y)
    scores, p = model.decision_function(X), model.predict_proba(X)
    slope = -p[:, 1] * expit(2.0 - scores) + p[:, 0] * expit(2.0 + scores)
    np.testing.assert_allclose(slope, 0.0, atol=1e-14)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    before = p.copy()
    model.set_params(margin=0.0)  # the finished fit keeps its own
    assert np.array_equal(model.predict_proba(X), before)


def test_the_price_is_the_same_and_accuracy_better_where_noise_matters():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 20)) / math.sqrt(20)
    y = rng.random(4000) < expit(8.0 * X[:, 0] - 4.0 * X[:, 1])
    means = {}
    for margin in (0.0, 2.0):
        options = {"C": 0.02, "inference_budget": 0.0, "margin": margin}
        fits = [
            ObjPertLogisticRegression(0.2, random_state=seed, **options).fit(X, y)
            for seed in range(20)
        ]
        means[margin] = np.mean([fit.score(X, y) for fit in fits])
        assert fits[0].privacy_.delta_at(0.2) <= 1e-5
        noise = fits[0].noise_.scale
        assert means.setdefault("noise", noise) == noise
    assert means[2.0] > means[0.0] + 0.01


@pytest.mark.parametrize(
    ("params", "n_classes", "message"),
    [
        ({"margin": 2.0, "inference_budget": 0.1}, 2, "set inference_budget=0"),
        ({"margin": 2.0, "inference_budget": 0.0}, 3, "two classes"),
        ({"margin": -1.0}, 2, "margin must be"),
        ({"margin": 21.0}, 2, "margin must be"),
    ],
)
def test_what_a_margin_refuses(params, n_classes, message):
    X, y = _data(n_classes)
    with pytest.raises(ValueError, match=message):
        ObjPertLogisticRegression(**params).fit(X, y)


def test_automatic_C_knows_the_margin():
    X, y = _data()
    plain = ObjPertLogisticRegression(1.0, inference_budget=0.0, random_state=0).fit(X, y)
    model = ObjPertLogisticRegression(1.0, random_state=0, **ALONE).fit(X, y)
    assert plain.C_ < model.C_ < 2.5 * plain.C_
