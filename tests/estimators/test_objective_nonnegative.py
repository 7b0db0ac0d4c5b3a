"""ObjPertLogisticRegression on nonnegative features: smaller pure noise for the same guarantee."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.linear_model import LogisticRegression

from skdpbayes import ObjPertLogisticRegression
from skdpbayes.estimators.linear.normal import noise_aware_posterior
from skdpbayes.fitting import bounds
from tests.randomness.test_continuous import one_signed_lengths
from tests.replay import replay

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

ALONE = {"delta": 0.0, "inference_budget": 0.0, "fit_intercept": False, "C": 1.0}


def data(n=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.5) / np.sqrt(d)
    y = rng.random(n) < 1 / (1 + np.exp(-8.0 * (X[:, 0] - X[:, 1])))
    return X, y.astype(int)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_negative_entries_count_as_zero(form):
    X, y = data()
    signed = X.copy()
    signed[X == 0.0] = -0.3
    given = signed.copy()
    params = {"nonnegative": True, "random_state": 0, **ALONE}
    fits = [ObjPertLogisticRegression(1.0, **params).fit(form(rows), y) for rows in (X, given)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    np.testing.assert_array_equal(given, signed)  # the caller's rows stay as they are
    plain = ObjPertLogisticRegression(np.inf, **params).fit(form(given), y)
    penalized = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(plain.coef_, penalized.coef_, atol=1e-5)


@pytest.mark.parametrize("factor", [2 / 3, 1.0, 3 / 2])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_the_tilt_has_the_density_that_is_accounted(adjacency, factor):
    """On blank rows the release is the tilt over the penalty; other scales of it are refused."""
    params = {**ALONE, "nonnegative": True, "adjacency": adjacency, "C": 0.1, "classes": [0, 1]}
    tilts, scale = [], None
    for seed in range(300):
        model = ObjPertLogisticRegression(1.0, random_state=seed, **params)
        tilts.append(-10.0 * model.fit(np.zeros((20, 5)), [0, 1] * 10).coef_[0])
        scale = model.noise_.scale
    assert scale == pytest.approx(2.0 if adjacency == "replace_one" else 1.0, rel=0.01)
    norms = np.sum(one_signed_lengths(np.array(tilts)), axis=0)
    p_value = stats.kstest(norms, stats.gamma(5, scale=factor * scale).cdf).pvalue
    assert (p_value > 1e-4) == (factor == 1.0)


def distance_of_tilts():
    """Over the bound: a record of mixed signs changes; the rest makes it pull with full weight."""
    X = np.repeat([[0.0, 0.0, 1.0]], 3000, axis=0)
    y = np.arange(3000) == 0
    X[0] = 0.6, -0.6, 0.5
    other = X.copy()
    other[0] = -0.6, 0.6, 0.5

    def make():
        return ObjPertLogisticRegression(1.0, nonnegative=True, random_state=0, **ALONE)

    *_, tape = replay(make, (X, y), (other, y))
    (place,) = (place for place in tape.distances if place.place == "tilt")
    return place.distance / place.bound


def test_a_record_moves_the_tilt_by_no_more_than_is_accounted(monkeypatch):
    assert 0.4 < distance_of_tilts() <= 1.0
    # the noise is too small for entries of both signs: let through, they break the claim
    monkeypatch.setattr(bounds, "clip_negative", lambda X: X)
    assert distance_of_tilts() > 1.1


@pytest.mark.parametrize(
    ("params", "noise"),
    [
        ({}, "two-orthant gamma"),
        ({"delta": 1e-5}, "Gaussian"),
        ({"calibration": "chaudhuri2011"}, "gamma"),
        ({"mechanism": "output"}, "gamma"),
        ({"nonnegative": False}, "gamma"),
    ],
)
def test_which_noise_is_used_is_said(params, noise):
    X, y = data()
    settings = {**ALONE, "nonnegative": True, **params}
    model = ObjPertLogisticRegression(2.0, random_state=0, **settings).fit(X, y)
    assert f"with {noise} noise" in model.privacy_.mechanism
    assert model.privacy_.conditions == ()
    assert model.privacy_.epsilon == 2.0


def test_it_is_a_switch():
    with pytest.raises(TypeError, match="nonnegative must be True or False; got 'no'"):
        ObjPertLogisticRegression(nonnegative="no").fit(*data())


def test_three_classes_keep_the_noise_of_a_ball():
    X, _ = data()
    y = np.arange(len(X)) % 3
    model = ObjPertLogisticRegression(2.0, nonnegative=True, random_state=0, **ALONE).fit(X, y)
    assert "with gamma noise" in model.privacy_.mechanism


def test_it_predicts_better_for_the_same_budget():
    rng = np.random.default_rng(0)
    X = np.eye(40)[rng.integers(0, 40, 4000)] / np.sqrt(2)
    X[:, :20] += np.eye(20)[rng.integers(0, 20, 4000)] / np.sqrt(2)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    effect = rng.normal(size=40)
    y = rng.random(4000) < 1 / (1 + np.exp(-4.0 * X @ effect))
    scores = [
        [
            ObjPertLogisticRegression(
                0.5, 0.0, fit_intercept=False, nonnegative=known, random_state=seed
            )
            .fit(X, y)
            .score(X, y)
            for seed in range(20)
        ]
        for known in (False, True)
    ]
    assert np.mean(scores[1]) > np.mean(scores[0]) + 0.01


def test_posterior_is_that_of_dense_linear_algebra():
    """Of theta given (H + l) release = H theta - g - b, where the entries of b go together."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(5, 5))
    information, release = root @ root.T, rng.normal(size=5)
    penalty, variance, covariance, blur, prior = 0.7, 2.0, 1.2, 0.01, 0.3
    found = noise_aware_posterior(
        release,
        information,
        penalty=penalty,
        tilt_variance=variance,
        tilt_covariance=covariance,
        blur_variance=blur,
        prior_precision=prior,
    )
    inverse = np.linalg.inv(information + penalty * np.eye(5))
    slope = inverse @ information
    tilt = np.full((5, 5), covariance) + (variance - covariance) * np.eye(5)
    spread = inverse @ (information + tilt) @ inverse + blur * np.eye(5)
    precision = slope.T @ np.linalg.solve(spread, slope) + prior * np.eye(5)
    mean = np.linalg.solve(precision, slope.T @ np.linalg.solve(spread, release))
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    square = found.axes @ np.diag(found.deviations**2) @ found.axes.T
    np.testing.assert_allclose(square, np.linalg.inv(precision), rtol=1e-8, atol=1e-12)
    deviations = np.sqrt(np.diag(square))
    np.testing.assert_allclose(found.marginal_deviations(), deviations, rtol=1e-9)


def test_intervals_cover_with_the_noise_of_two_orthants():
    """90 % intervals of 4 coefficients in 60 fits: within 4 standard errors of 90 %."""
    rng = np.random.default_rng(1)
    truth = np.array([3.0, -2.0, 1.0, -1.0])
    covered = []
    for seed in range(60):
        X = rng.random((6000, 4)) / 2.0
        y = rng.random(6000) < 1 / (1 + np.exp(-X @ truth))
        model = ObjPertLogisticRegression(
            4.0, 0.0, nonnegative=True, fit_intercept=False, random_state=seed
        ).fit(X, y)
        low, high = np.moveaxis(model.interval(0.9)["coef"][0], -1, 0)
        covered.extend((low < truth) & (truth < high))
    assert abs(np.mean(covered) - 0.9) < 4.0 * np.sqrt(0.09 / 240)
