"""Intervals and noise-aware draws of DPSGLDClassifier: they cover, and refusals give reasons."""

from __future__ import annotations

import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import expit, softmax
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from skdpbayes import DPSGLDClassifier, DPSGLDNetworkClassifier
from skdpbayes.estimators.chain.inference import ClassAnswers, LabelAnswers
from skdpbayes.estimators.chain.run import Score
from skdpbayes.estimators.linear.normal import NormalMixture
from tests.contract import linear_data

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
TRUTH = np.array([0.8, -0.5, 0.3, 0.6, -0.6, 0.2])
NORM = 4.0


def table(n, seed):
    """Normal and binary columns, and labels of known coefficients."""
    rng = np.random.default_rng(seed)
    binary = rng.random((n, 2)) < [0.4, 0.2]
    X = np.column_stack([rng.normal(size=(n, 3)), binary])
    X *= np.minimum(1.0, NORM / np.linalg.norm(X, axis=1))[:, None]
    return X, rng.random(n) < expit(X @ TRUTH[:-1] + TRUTH[-1])


def fitted(n=5000, seed=0, **params):
    return DPSGLDClassifier(**{"data_norm": NORM, "random_state": seed} | params).fit(
        *table(n, seed)
    )


def ends(model, level=0.9):
    found = model.interval(level)
    return np.concatenate([found["coef"][0], found["intercept"]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "params"),
    [
        (5000, {"epsilon": 0.5, "adjacency": "zero_out"}),
        (5000, {"epsilon": 2.0, "batch_size": 500, "sampler": "sgnht"}),
        (2000, {"epsilon": np.inf}),
    ],
    ids=str,
)
def test_intervals_cover_as_often_as_they_say(n, params):
    """On both sides: 24 data sets of 6 coefficients, whose mean has a standard error of .025."""
    inside = []
    for seed in range(24):
        low, high = ends(fitted(n, seed, **params)).T
        inside.append((low <= TRUTH) & (high >= TRUTH))
    assert 0.82 < np.mean(inside) < 0.98


def test_intervals_are_narrower_than_the_states_spread_and_their_center_is_better():
    models = [fitted(5000, seed, epsilon=0.5, adjacency="zero_out") for seed in range(8)]
    widths, errors = [], []
    for model in models:
        low, high = ends(model).T
        states = model.sample_posterior(posterior="chain")["coef"][:, 0]
        widths.append([np.mean((high - low)[:-1]), np.mean(2 * 1.645 * states.std(axis=0))])
        of_coef = np.append(model.coef_, model.intercept_) - TRUTH
        errors.append([np.mean(np.square(0.5 * (low + high) - TRUTH)), np.mean(np.square(of_coef))])
    (own, of_states), (error, of_coef) = np.mean(widths, axis=0), np.mean(errors, axis=0)
    assert 1.5 * own < of_states
    assert error < 0.9 * of_coef


def test_what_clipping_does_to_the_coefficients_is_undone():
    """Where most gradients are clipped the average is far off; the score equation knows."""
    model = fitted(20000, epsilon=20.0, clip_norm=0.2)
    low, high = ends(model, 0.99).T
    assert np.all((low < TRUTH) & (high > TRUTH))
    assert np.abs(model.coef_[0] - TRUTH[:-1]).max() > 5 * np.abs(0.5 * (low + high) - TRUTH).max()


@pytest.mark.parametrize("preconditioner", ["auto", 0.4])
def test_the_mean_gradient_follows_from_the_released_states(preconditioner):
    """So that nothing else of the data enters: theta' = theta - h (G + prior) is solved for G."""
    model = fitted(
        2000, tail=1.0, n_steps=30, n_kept=30, preconditioner=preconditioner, prior="normal"
    )
    equation = model._posterior.inference
    states = model.sample_posterior(posterior="chain")
    after = equation.coordinates.from_coefficients(states["coef"][:, 0], states["intercept"][:, 0])
    before = np.concatenate([np.zeros((1, 6)), after[:-1]])
    coef, intercept = equation.coordinates.coefficients(np.eye(6))
    lift = np.column_stack([coef, intercept])
    precision = np.append(np.full(5, equation.prior.precision), equation.prior.of_intercept)
    gradients = (before - after) / model.step_size_ - (before @ lift * precision) @ lift.T
    size = np.abs(gradients).max()
    np.testing.assert_allclose(equation.score.gradient, gradients.mean(axis=0), atol=1e-9 * size)
    np.testing.assert_allclose(equation.score.states, before, atol=1e-9)
    assert equation.score.noise_variance == pytest.approx(model.noise_.scale**2 / 30, rel=1e-6)


def test_more_steps_than_runs_are_averaged():
    score = fitted(1000, n_steps=2500, batch_size=100, epsilon=5.0)._posterior.inference.score
    assert score.states.shape == (834, 6)  # three steps each, one in the last
    np.testing.assert_allclose(score.weights.sum(), 1.0)
    np.testing.assert_allclose(score.weights[:-1], 3 / 2500)
    assert score.batch_share == pytest.approx(1 / 2500)


def test_intervals_need_neither_data_nor_luck():
    model = fitted()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(ends(model), ends(again))
    np.testing.assert_array_equal(ends(model), ends(model))
    half, most = ends(model, 0.5), ends(model, 0.99)
    assert np.all(most[:, 0] < half[:, 0])
    assert np.all(half[:, 1] < most[:, 1])
    X, y = table(5000, 0)
    sparse_fit = DPSGLDClassifier(data_norm=NORM, random_state=0).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(ends(sparse_fit), ends(model), rtol=1e-6)


def test_draws_are_those_of_the_intervals():
    model = fitted()
    draws = model.sample_posterior(20000, random_state=1)
    found = np.quantile(draws["coef"][:, 0], [0.05, 0.95], axis=0).T
    exact = model.interval(0.9)["coef"][0]
    np.testing.assert_allclose(found, exact, atol=0.05 * np.diff(exact).max())
    assert model.sample_posterior()["intercept"].shape == (1000, 1)
    assert model.sample_posterior(posterior="chain")["coef"].shape == (50, 1, 5)
    with pytest.raises(ValueError, match="posterior"):
        model.sample_posterior(posterior="exact")


def test_without_privacy_intervals_are_those_of_the_plain_model():
    X, y = table(5000, 3)
    model = DPSGLDClassifier(np.inf, random_state=0).fit(X, y)
    rows = np.column_stack([X, np.ones(len(X))])
    p = LogisticRegression(C=np.inf).fit(X, y).predict_proba(X)[:, 1]
    deviations = np.sqrt(np.diag(np.linalg.inv((rows.T * (p * (1.0 - p))) @ rows)))
    widths = np.diff(ends(model), axis=1)[:, 0]
    np.testing.assert_allclose(widths, 2 * norm.ppf(0.95) * deviations, rtol=0.05)
    # and its draws are the states of the chain
    assert model.sample_posterior()["coef"].shape == (50, 1, 5)


def test_without_an_intercept():
    X, _ = table(5000, 0)
    y = np.random.default_rng(1000).random(5000) < expit(X @ TRUTH[:-1])
    model = DPSGLDClassifier(2.0, data_norm=NORM, fit_intercept=False, random_state=0).fit(X, y)
    found = model.interval(0.99)
    np.testing.assert_array_equal(found["intercept"], 0.0)
    assert np.all(found["coef"][0, :, 0] < TRUTH[:-1])
    assert np.all(found["coef"][0, :, 1] > TRUTH[:-1])


@pytest.mark.parametrize(
    ("make", "params", "n_classes", "reason"),
    [
        (DPSGLDClassifier, {"epsilon": np.inf}, 3, "take their quantiles"),
        (DPSGLDClassifier, {"preconditioner": None}, 2, "no moments"),
        (DPSGLDClassifier, {"preconditioner": np.eye(3)}, 2, "no moments"),
        (DPSGLDClassifier, {"epsilon": 0.1, "preconditioner": 0.2}, 2, "third of the curvature"),
        (DPSGLDNetworkClassifier, {"n_steps": 10}, 2, "no meaning"),
    ],
)
def test_where_there_are_no_intervals_the_reason_is_given(make, params, n_classes, reason):
    X, y = linear_data()
    y = np.where(np.arange(len(y)) < 50, "maybe", y) if n_classes == 3 else y
    model = make(**params, random_state=0).fit(X, y)
    assert not hasattr(model, "interval")
    with pytest.raises(AttributeError) as caught:
        model.interval()
    assert reason in str(caught.value.__cause__ or caught.value)
    if make is DPSGLDClassifier:
        private = np.isfinite(model.epsilon)
        with pytest.warns(UserWarning, match=reason) if private else nullcontext():
            assert model.sample_posterior()["coef"].shape[0] == 50  # of the chain
        with pytest.raises(ValueError, match=reason):
            model.sample_posterior(posterior="noise_aware")


def test_too_many_columns():
    rng = np.random.default_rng(0)
    X, y = rng.random((1000, 201)) / 15.0, rng.integers(0, 2, 1000)
    model = DPSGLDClassifier(1e3, preconditioner=0.5, n_steps=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="201 columns"):
        model.sample_posterior(posterior="noise_aware")
    y = rng.integers(0, 3, 1000)
    model.fit(X[:, :101], y)
    with pytest.raises(ValueError, match="101 columns are too many for 3 classes; at most 100"):
        model.sample_posterior(posterior="noise_aware")


def test_averages_over_decreasing_steps_are_weighted_by_the_step():
    """Kept draws are all states of the tail, so that their weighted mean is known."""
    sampler = {"kind": "sgld", "schedule": (0.0, 1.0)}
    params = {"sampler": sampler, "n_steps": 8, "tail": 1.0, "preconditioner": None}
    model = fitted(1000, n_kept=2000, **params)
    states = model.sample_posterior()["coef"]
    steps = 1.0 / np.arange(1.0, 9.0)
    assert len(states) == 8
    np.testing.assert_allclose(model.coef_, np.average(states, axis=0, weights=steps))
    # fewer draws are evenly spaced in time, here at 1, 1.86 and 2.72
    few = fitted(1000, n_kept=3, **params).sample_posterior()["coef"]
    np.testing.assert_array_equal(few, states[[0, 3, 7]])


def test_quantiles_of_a_mixture():
    rng = np.random.default_rng(0)
    means, roots = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2))
    roots[:, 1] = 0.0  # a point mass, as of an intercept that is not fitted
    means[:, 1] = 0.0
    mixture = NormalMixture(means, roots)
    deviations = np.linalg.norm(roots[:, 0], axis=1)
    for probability in (0.05, 0.5, 0.999):
        expected = brentq(
            lambda x, q=probability: norm.cdf(x, means[:, 0], deviations).mean() - q, -50, 50
        )
        np.testing.assert_allclose(mixture.quantiles(probability), [expected, 0.0], atol=1e-9)
    draws = mixture.draws(200000, rng)
    np.testing.assert_allclose(draws.mean(axis=0), mixture.mean, atol=0.02)


# Several classes


def classes_table(n, seed, n_classes=3):
    """Rows as above, labels of a softmax model, and its coefficients, which add up to 0."""
    rng = np.random.default_rng(seed)
    X, _ = table(n, seed)
    truth = 0.6 * np.random.default_rng(99).normal(size=(n_classes, 6))
    truth -= truth.mean(axis=0)
    chance = softmax(X @ truth[:, :-1].T + truth[:, -1], axis=1)
    return X, (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1), truth


def test_contrasts_are_orthonormal_and_add_up_to_nothing():
    turn = ClassAnswers(5).contrasts
    np.testing.assert_allclose(turn.T @ turn, np.eye(4), atol=1e-15)
    np.testing.assert_allclose(turn.sum(axis=0), 0.0, atol=1e-15)


def test_classes_answer_as_all_labels_do():
    """Mean, slope and covariance of clipped residuals, label by label and state by state."""
    rng = np.random.default_rng(0)
    turn = ClassAnswers(3).contrasts
    states, rows = rng.normal(size=(7, 2, 4)), rng.normal(size=(6, 4))
    weights = rng.random(7)
    weights /= weights.sum()
    score = Score(states.reshape(7, 8), weights, np.zeros(8), 1.0, 0.2)
    logits = rng.normal(size=(6, 2))
    answer = ClassAnswers(3).at_states(rows, score, 0.8, 0.3)
    found = answer(logits)

    def mean_of(row, logit, power):
        total, bound = 0.0, 0.8 / np.linalg.norm(row)
        chance = softmax(turn @ logit)
        for label in range(3):
            each = []
            for state in states:
                gap = softmax(turn @ (state @ row)) - np.eye(3)[label]
                each.append(turn.T @ gap * min(1.0, bound / np.linalg.norm(gap)))
            mean = weights @ np.array(each)
            if power == 2:
                spread = np.einsum("t,tc,te->ce", weights, each, each)
                mean = np.outer(mean, mean) + 0.3 * spread
            total = total + chance[label] * mean
        return total

    for i, (row, logit) in enumerate(zip(rows, logits, strict=True)):
        mean = mean_of(row, logit, 1)
        np.testing.assert_allclose(found.mean[i], mean, atol=1e-12)
        variance = mean_of(row, logit, 2) - np.outer(mean, mean)
        np.testing.assert_allclose(found.variance[i], variance, atol=1e-12)
        for j, step in enumerate(1e-6 * np.eye(2)):
            change = (mean_of(row, logit - step, 1) - mean_of(row, logit + step, 1)) / 2e-6
            np.testing.assert_allclose(found.slope[i, :, j], change, atol=1e-8)


def test_two_classes_as_softmax_answer_as_logistic_regression():
    """The logit is sqrt(2) times the contrast, the clipping norm in proportion."""
    rng = np.random.default_rng(0)
    states, rows, logits = rng.normal(size=(7, 4)), rng.normal(size=(6, 4)), rng.normal(size=(6, 1))
    weights, root = np.full(7, 1 / 7), np.sqrt(2.0)
    one = Score(states, weights, np.zeros(4), 1.0, 0.2)
    two = Score(-states / root, weights, np.zeros(4), 1.0, 0.2)
    plain = LabelAnswers().at_states(rows, one, 0.8, 0.3)(logits)
    found = ClassAnswers(2).at_states(rows, two, 0.8 * root, 0.3)(-logits / root)
    np.testing.assert_allclose(found.mean, -root * plain.mean)
    np.testing.assert_allclose(found.slope, 2.0 * plain.slope)
    np.testing.assert_allclose(found.variance, 2.0 * plain.variance)


def test_intervals_of_several_classes_cover():
    """On both sides: 216 intervals, of classes that depend on each other; errors are smaller."""
    inside, errors = [], []
    for seed in range(12):
        X, y, truth = classes_table(8000, seed)
        model = DPSGLDClassifier(1.0, data_norm=NORM, random_state=seed).fit(X, y)
        found = model.interval(0.9)
        low, high = np.moveaxis(
            np.concatenate([found["coef"], found["intercept"][:, None]], axis=1), -1, 0
        )
        inside.append((low < truth) & (truth < high))
        center = 0.5 * (low + high)
        coef = np.column_stack([model.coef_, model.intercept_])
        errors.append([center - truth, coef - coef.mean(axis=0) - truth])
        np.testing.assert_allclose(center.sum(axis=0), 0.0, atol=0.2 * np.abs(high - low).max())
    assert 0.82 < np.mean(inside) < 0.97
    of_center, of_coef = np.sqrt(np.mean(np.square(errors), axis=(0, 2, 3)))
    assert of_center < 0.8 * of_coef
    draws = model.sample_posterior(500, random_state=1)
    assert draws["coef"].shape == (500, 3, 5)
    np.testing.assert_allclose(draws["coef"].sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(draws["intercept"].sum(axis=1), 0.0, atol=1e-12)


# Probabilities


def test_the_link_is_where_clipped_gradients_balance():
    """Labels drawn by the corrected probability push the chain in neither direction."""
    model = fitted(20000, epsilon=5.0, clip_norm=0.4)
    link = model._posterior.link
    X, _ = table(200, 1)
    raw = np.linspace(0.02, 0.98, 200)
    changed = link(X, np.column_stack([1.0 - raw, raw]))[:, 1]
    kept = (changed - 1e-3 * raw) / (1.0 - 1e-3)
    bound = 0.4 / link.coordinates.lengths(X, None)
    push = (1.0 - kept) * np.minimum(raw, bound) - kept * np.minimum(1.0 - raw, bound)
    np.testing.assert_allclose(push, 0.0, atol=1e-12)
    assert np.abs(changed - raw).max() > 0.1
    order = np.argsort(raw)
    one_row = link(np.repeat(X[:1], 200, axis=0), np.column_stack([1.0 - raw, raw]))[order, 1]
    assert np.all(np.diff(one_row) > 0.0)


def test_probabilities_where_much_is_clipped_are_calibrated():
    """The link removes most of what clipping does to them, and no label changes."""
    model = fitted(20000, epsilon=5.0, clip_norm=0.4)
    X, _ = table(20000, 5)
    truth = expit(X @ TRUTH[:-1] + TRUTH[-1])
    found = model.predict_proba(X)[:, 1]
    raw = expit(model.decision_function(X))
    assert np.mean(np.abs(found - truth)) < 0.6 * np.mean(np.abs(raw - truth))
    np.testing.assert_array_equal(model.predict(X), found > 0.5)


def test_the_link_needs_a_chain_at_rest():
    assert fitted(5000, epsilon=5.0)._posterior.link is not None
    assert fitted(5000, epsilon=5.0, n_steps=5, step_size=1e-6)._posterior.link is None
    assert fitted(5000, epsilon=5.0, preconditioner=None)._posterior.link is None
    assert fitted(5000, epsilon=5.0, sampler="sgnht")._posterior.link is None
    assert fitted(1000, epsilon=np.inf)._posterior.link is None
