"""ObjPertLogisticRegression: intervals and posterior draws."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from sklearn.datasets import make_classification

from skdpbayes import ObjPertLogisticRegression
from skdpbayes.estimators.linear.normal import noise_aware_posterior
from skdpbayes.estimators.objective.plan import LEAST_SHARE, Problem, worthwhile_share
from skdpbayes.release.floats import pack_symmetric, unpack_symmetric

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


def _data(n_classes=2, n=400, d=4, seed=0):
    X, y = make_classification(
        n, d, n_informative=d, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    return X / np.linalg.norm(X, axis=1).max(), y


def _true_logistic(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 5)) / math.sqrt(5)
    truth = np.array([3.0, -2.0, 1.0, 0.0, 0.5, 0.5])
    y = rng.random(n) < 1 / (1 + np.exp(-(X @ truth[:5] + truth[5])))
    return X, y, truth


def _coverage(n_fits, epsilon, **params):
    """Share of 90 % intervals that cover, for six coefficients of 5000 records."""
    hits = []
    for seed in range(n_fits):
        X, y, truth = _true_logistic(5000, seed)
        model = ObjPertLogisticRegression(epsilon, random_state=seed, **params).fit(X, y)
        ends = model.interval(0.9)
        low, high = np.vstack([ends["coef"][0], ends["intercept"]]).T
        hits.append((low < truth) & (truth < high))
    return np.mean(hits)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_intervals_cover(epsilon):
    """90 % intervals cover 86 to 94 % of six coefficients in 100 fits of 5000 records."""
    assert 0.86 <= _coverage(100, epsilon) <= 0.94


def test_intervals_do_not_believe_a_small_C():
    """A strong penalty fights noise; as a prior it would leave a coverage of 44 % here."""
    assert 0.78 <= _coverage(50, 2.0, C=0.1) <= 0.94


def test_what_noise_hides_has_a_prior_as_wide_as_the_guess():
    """A column that hardly varies has a large coefficient, and the release does not tell of it."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3)) * [1.0, 1.0, 0.02]
    y = rng.random(2000) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 8.0]))
    model = ObjPertLogisticRegression(1.0, data_norm=1.5, random_state=0).fit(X, y)
    low, high = model.interval(0.9)["coef"][0, 2]
    assert high - low == pytest.approx(2 * 1.645 * 10.0, rel=0.02)
    assert low < 8.0 < high


@pytest.mark.slow
def test_weak_features_are_covered_too():
    """Features of scales 1 to 1/10 with coefficients that no scale tells: above 80 % each."""
    scales, truth = np.array([1.0, 0.56, 0.32, 0.18, 0.1]), np.array([2.0, -2.0, 2.0, -2.0, 2.0])
    hits = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (5000, 5)) / math.sqrt(5) * scales
        y = rng.random(5000) < 1 / (1 + np.exp(-X @ truth))
        model = ObjPertLogisticRegression(2.0, random_state=seed).fit(X, y)
        low, high = model.interval(0.9)["coef"][0].T
        hits.append((low < truth) & (truth < high))
    assert np.mean(hits, axis=0).min() > 0.8


def test_less_is_spent_where_noise_would_hide_the_information():
    many = Problem(30_000, 100, 2, 1.0, 0.05, 1e-5, "replace_one")
    few = Problem(5_000, 6, 2, 1.4, 0.5, 1e-5, "replace_one")
    assert worthwhile_share(few, 0.1) == 0.1
    assert worthwhile_share(many, 0.1) == pytest.approx(0.1 * LEAST_SHARE)
    shares = [
        worthwhile_share(dataclasses.replace(many, epsilon=epsilon), 0.1)
        for epsilon in (0.2, 0.5, 0.7, 5.0)
    ]
    assert np.all(np.diff(shares) > 0.0)
    assert shares[-1] == 0.1
    # the pure release needs a share that its grid can express
    pure = dataclasses.replace(many, delta=0.0, n_features=1000, epsilon=1.0)
    assert 0.1 * LEAST_SHARE < worthwhile_share(pure, 0.1) < 0.1
    X, y = _data()
    for delta in (0.0, 1e-5):
        model = ObjPertLogisticRegression(0.05, delta, random_state=0).fit(X, y)
        assert model.privacy_.delta_at(0.05) <= delta
        assert np.all(np.isfinite(model.interval()["coef"]))


def test_information_below_its_noise_leaves_the_prior():
    known = {"penalty": 1.0, "tilt_variance": 4.0, "blur_variance": 0.0, "prior_precision": 0.25}
    release, information = np.array([1.0, 1.0]), np.diag([0.9, 1000.0])
    noisy = noise_aware_posterior(release, information, information_deviation=1.0, **known)
    exact = noise_aware_posterior(release, information, **known)
    np.testing.assert_allclose(noisy.marginal_deviations()[0], 2.0)
    assert noisy.mean[0] == 0.0
    assert exact.marginal_deviations()[0] < 2.0
    np.testing.assert_allclose(noisy.mean[1], exact.mean[1], rtol=1e-12)


def test_draws_agree_with_the_intervals():
    X, y, _ = _true_logistic(3000, 0)
    model = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y)
    draws = model.sample_posterior(40_000, random_state=1)
    assert draws["coef"].shape == (40_000, 1, 5)
    assert draws["intercept"].shape == (40_000, 1)
    ends = model.interval(0.9)
    quantiles = np.quantile(draws["coef"][:, 0], [0.05, 0.95], axis=0).T
    width = np.diff(ends["coef"][0], axis=1)
    assert np.all(np.abs(quantiles - ends["coef"][0]) < 0.03 * width)
    assert model.sample_posterior()["coef"].shape[0] == 1000
    again = model.sample_posterior(5, random_state=1)["coef"]
    assert np.array_equal(again, model.sample_posterior(5, random_state=1)["coef"])


def test_multiclass_intervals_and_draws_have_one_row_a_class():
    X, y = _data(3)
    model = ObjPertLogisticRegression(2.0, random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 4)
    assert model.interval()["coef"].shape == (3, 4, 2)
    assert model.sample_posterior(7)["intercept"].shape == (7, 3)
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_posterior_without_noise_is_the_laplace_approximation():
    X, y, _ = _true_logistic(4000, 1)
    model = ObjPertLogisticRegression(np.inf, C=50.0).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    p = model.predict_proba(X)[:, 1]
    precision = (rows.T * (p * (1 - p))) @ rows + np.eye(6) / 50.0
    expected = 1.6448536 * np.sqrt(np.diag(np.linalg.inv(precision)))
    ends = model.interval(0.9)["coef"][0]
    np.testing.assert_allclose(np.diff(ends, axis=1)[:, 0] / 2, expected[:5], rtol=0.02)
    np.testing.assert_allclose(ends.mean(axis=1), model.coef_[0], rtol=0.02)


def test_posterior_formula_against_a_dense_solve():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 8))
    information, release = root @ root.T, rng.normal(size=4)
    found = noise_aware_posterior(
        release,
        information,
        penalty=0.7,
        tilt_variance=2.0,
        blur_variance=0.01,
        prior_precision=0.3,
    )
    inverse = np.linalg.inv(information + 0.7 * np.eye(4))
    slope = inverse @ information
    noise = inverse @ (information + 2.0 * np.eye(4)) @ inverse + 0.01 * np.eye(4)
    precision = slope.T @ np.linalg.solve(noise, slope) + 0.3 * np.eye(4)
    covariance = np.linalg.inv(precision)
    np.testing.assert_allclose(found.mean, covariance @ slope.T @ np.linalg.solve(noise, release))
    np.testing.assert_allclose(found.marginal_deviations(), np.sqrt(np.diag(covariance)))
    assert np.array_equal(unpack_symmetric(pack_symmetric(np.eye(3)), 3), np.eye(3))


def test_noise_in_the_information_does_not_widen_intervals():
    rng = np.random.default_rng(0)
    truth, deviation = np.diag([50.0, 50.0, 50.0, 50.0, 1000.0]), 12.0
    widths = {0.0: [], deviation: []}
    for _ in range(200):
        noise = unpack_symmetric(rng.normal(scale=deviation, size=15), 5)
        for known in widths:
            found = noise_aware_posterior(
                np.ones(5),
                truth + noise,
                penalty=1.0,
                tilt_variance=100.0,
                blur_variance=0.0,
                prior_precision=1e-3,
                information_deviation=known,
            )
            widths[known].append(found.marginal_deviations()[:4].mean())
    exact = math.sqrt(150.0) / 50.0
    assert np.median(widths[deviation]) == pytest.approx(exact, rel=0.15)
    assert np.mean(widths[0.0]) > 1.3 * exact
    # rarely a direction looks like noise and gets its prior's width, 32
    assert np.mean(np.array(widths[deviation]) > 2.0 * exact) < 0.15
