"""One posterior sample: the law of its draws, its claims and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

import skdpbayes
from skdpbayes import OPSLinearSVC, OPSLogisticRegression
from skdpbayes.estimators.ops.posterior import score_bounds
from skdpbayes.exceptions import CalibrationError, PrivacyWarning

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


def two_features(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.7, 0.7, (n, 2))
    y = (rng.random(n) < 1 / (1 + np.exp(-(4 * X[:, 0] - 2 * X[:, 1])))).astype(int)
    return X, y


def quadrature_moments(X, y, loss, beta, C, radius, points=301, reach=6.0):
    """Mean and covariance of the density on the plane (or disk), on a fine grid."""
    reach = min(radius, reach)
    axis = np.linspace(-reach, reach, points)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = theta[np.einsum("ij,ij->i", theta, theta) <= radius**2]
    margins = (2 * y - 1) * (theta @ X.T)
    losses = np.logaddexp(0, -margins) if loss == "logistic" else np.maximum(0, 1 - margins)
    log_density = -beta * (losses.sum(axis=1) + (theta**2).sum(axis=1) / (2 * C))
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ theta
    return mean, (weight[:, None] * (theta - mean)).T @ (theta - mean)


def assert_same_moments(draws, mean, covariance, size):
    """Two-sided at 4 standard errors, for an effective sample size; 2/3 and 3/2 are rejected."""
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * deviation / np.sqrt(size))
    ratio = draws.var(axis=0) / deviation**2
    margin = 4 * np.sqrt(2.5 / size)
    assert margin < 1 / 3
    assert np.all(np.abs(ratio - 1) < margin)
    correlation = np.corrcoef(draws.T)[0, 1] - covariance[0, 1] / np.prod(deviation)
    assert abs(correlation) < 4 / np.sqrt(size)


def draws_of(estimator, X, y):
    return estimator.fit(X, y).sample_posterior()["coef"][:, 0]


def test_infinite_epsilon_draws_from_an_approximation_of_the_posterior():
    X, y = two_features()
    estimator = OPSLogisticRegression(epsilon=np.inf, C=2.0, fit_intercept=False, n_draws=400)
    draws = estimator.fit(X, y).sample_posterior(random_state=0)["coef"][:, 0]
    mean, covariance = quadrature_moments(X, y, "logistic", 1.0, 2.0, np.inf)
    assert_same_moments(draws, mean, covariance, 400)
    assert estimator.privacy_.conditions == ()


@pytest.mark.parametrize(
    ("make", "loss"), [(OPSLogisticRegression, "logistic"), (OPSLinearSVC, "hinge")]
)
@pytest.mark.parametrize(("sampler", "n_draws"), [("rejection", 500), ("hmc", 400)])
def test_pure_draws_follow_the_tempered_posterior_on_the_ball(make, loss, sampler, n_draws):
    X, y = two_features()
    estimator = make(
        epsilon=1.5 * n_draws,
        delta=0.0,
        coef_norm=2.0,
        C=1.5,
        fit_intercept=False,
        n_draws=n_draws,
        sampler=sampler,
        random_state=1,
    )
    draws = draws_of(estimator, X, y)
    beta = estimator.inverse_temperature_
    assert beta < 1.0
    mean, covariance = quadrature_moments(X, y, loss, beta, 1.5, 2.0)
    assert_same_moments(draws, mean, covariance, n_draws if sampler == "rejection" else 370)
    assert np.all(np.linalg.norm(draws, axis=1) <= 2.0 + 1e-6)
    assert ("converged" in str(estimator.privacy_.conditions)) == (sampler == "hmc")


def test_rejection_on_the_whole_plane():
    X, y = two_features(12)
    estimator = OPSLogisticRegression(
        epsilon=200.0,
        sampler="rejection",
        C=0.8,
        fit_intercept=False,
        n_draws=500,
        cap_at_posterior=False,
        random_state=2,
    )
    draws = draws_of(estimator, X, y)
    beta = estimator.inverse_temperature_
    mean, covariance = quadrature_moments(X, y, "logistic", beta, 0.8, np.inf, reach=12.0)
    assert_same_moments(draws, mean, covariance, 500)


def test_a_long_langevin_chain_reaches_the_tempered_posterior():
    X, y = two_features()
    estimator = OPSLogisticRegression(
        epsilon=60.0,
        C=0.3,
        fit_intercept=False,
        n_draws=400,
        n_steps=160,
        step_size=0.02,
        n_batches=1,
        cap_at_posterior=False,
        random_state=3,
    )
    draws = draws_of(estimator, X, y)
    beta = estimator.inverse_temperature_
    mean, covariance = quadrature_moments(X, y, "logistic", beta, 0.3, np.inf)
    assert_same_moments(draws, mean, covariance, 380)


def test_sparse_and_dense_rows_give_the_same_draw():
    rng = np.random.default_rng(0)
    X = rng.random((300, 30)) * (rng.random((300, 30)) < 0.2)
    y = rng.integers(0, 2, 300)
    for make in (OPSLogisticRegression, OPSLinearSVC):
        dense = make(random_state=0).fit(X, y)
        csr = make(random_state=0).fit(sparse.csr_matrix(X), y)
        np.testing.assert_allclose(csr.coef_, dense.coef_, atol=1e-5)


def test_single_precision_rows_are_computed_in_double():
    X, y = two_features()
    single = OPSLogisticRegression(random_state=0).fit(X.astype(np.float32), y)
    double = OPSLogisticRegression(random_state=0).fit(X.astype(np.float32).astype(float), y)
    np.testing.assert_array_equal(single.coef_, double.coef_)


def test_three_classes():
    X, y = load_iris(return_X_y=True)
    X = normalize(X - X.mean(axis=0))
    private = OPSLogisticRegression(epsilon=1e3, random_state=0).fit(X, y)
    assert private.coef_.shape == (3, 4)
    assert private.score(X, y) > 0.8
    np.testing.assert_allclose(private.predict_proba(X).sum(axis=1), 1.0)
    exact = OPSLogisticRegression(epsilon=np.inf, C=10.0, n_draws=50, random_state=0).fit(X, y)
    reference = LogisticRegression(C=10.0).fit(X, y)
    assert np.mean(exact.predict(X) == reference.predict(X)) > 0.95
    pure = OPSLogisticRegression(epsilon=1.0, delta=0.0, random_state=0).fit(X, y)
    assert pure.coef_.shape == (3, 4)


def test_snapped_draws_lie_on_a_public_grid():
    X, y = two_features()
    fitted = OPSLogisticRegression(random_state=0).fit(X, y)
    steps = np.abs(np.append(fitted.coef_, fitted.intercept_)) * 2.0**40
    assert np.all(steps == np.rint(steps))


def test_asking_for_more_draws_than_paid_for_is_refused_with_the_price():
    X, y = two_features()
    fitted = OPSLogisticRegression(n_draws=3, random_state=0).fit(X, y)
    assert fitted.sample_posterior()["coef"].shape == (3, 1, 2)
    assert fitted.sample_posterior(2)["intercept"].shape == (2, 1)
    with pytest.raises(ValueError, match=r"n_draws=4.*once more"):
        fitted.sample_posterior(4)
    np.testing.assert_allclose(fitted.coef_, fitted.sample_posterior()["coef"].mean(axis=0))


def test_infeasible_rejection_says_which_knob_to_turn():
    X = np.random.default_rng(0).random((500, 40)) / 7
    y = np.arange(500) % 2
    with pytest.raises(CalibrationError, match="coef_norm"):
        OPSLogisticRegression(delta=0.0, sampler="rejection").fit(X, y)
    fitted = OPSLogisticRegression(delta=0.0, random_state=0).fit(X, y)
    assert "hmc" in fitted.privacy_.mechanism


def test_auto_prefers_exact_draws_for_pure_epsilon():
    X, y = two_features(40)
    fitted = OPSLogisticRegression(delta=0.0, coef_norm=1.0, random_state=0).fit(X, y)
    assert "rejection" in fitted.privacy_.mechanism
    assert fitted.privacy_.conditions == ()
    assert fitted.privacy_.delta_at(1.0) == 0.0


def test_diagnostics_only_on_request_and_with_a_warning():
    X, y = two_features()
    assert not hasattr(OPSLogisticRegression(sampler="hmc").fit(X, y), "diagnostics_")
    with pytest.warns(PrivacyWarning, match="diagnostics"):
        fitted = OPSLogisticRegression(sampler="hmc", diagnostics=True, random_state=0).fit(X, y)
    assert fitted.diagnostics_["r_hat"] < 1.1
    assert fitted.diagnostics_["effective_sample_size"] > 100


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"C": -1.0}, "C must"),
        ({"C": "large"}, "C must"),
        ({"coef_norm": 0.0}, "coef_norm"),
        ({"sampler": "nuts"}, "sampler"),
        ({"calibration": "loose"}, "calibration"),
        ({"n_draws": 0}, "n_draws"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_batches": 1.5}, "n_batches"),
        ({"step_size": 0.0}, "step_size"),
        ({"delta": 0.0, "sampler": "langevin"}, "delta > 0"),
        ({"calibration": "wang2015"}, "delta=0"),
        ({"calibration": "minami2016", "epsilon": 2.0}, "epsilon"),
        ({"calibration": "minami2016", "delta": 0.0}, "delta"),
    ],
)
def test_bad_parameters_are_named(params, match):
    X, y = two_features()
    with pytest.raises((ValueError, TypeError), match=match):
        OPSLogisticRegression(**params).fit(X, y)


def test_svc_is_binary_and_says_so():
    with pytest.raises(ValueError, match="3 classes"):
        OPSLinearSVC().fit(np.eye(3), [0, 1, 2])
    with pytest.raises(ValueError, match="smoothing"):
        OPSLinearSVC(smoothing=0.0).fit(np.eye(2), [0, 1])


def test_the_automatic_C_is_close_to_the_best_fixed_one():
    X, y = skdpbayes.datasets.make_census(20_000, encoding="raw", return_X_y=True, random_state=0)
    X, y, X_test, y_test = X[:12_000], y[:12_000], X[12_000:], y[12_000:]

    def accuracy(C):
        fits = [OPSLogisticRegression(C=C, random_state=seed).fit(X, y) for seed in range(4)]
        return np.mean([fitted.score(X_test, y_test) for fitted in fits])

    assert accuracy("auto") >= max(accuracy(C) for C in (0.01, 0.1, 10.0)) - 0.008


def test_intervals_from_the_draws_alone_cover_the_truth():
    """Binomial: 90% coverage of 2 x 40 intervals, accepted within 4 standard errors."""
    truth = np.array([2.0, -1.0])
    rng = np.random.default_rng(0)
    covered, narrow = [], []
    for trial in range(40):
        X = rng.uniform(-0.7, 0.7, (2500, 2))
        y = rng.random(2500) < 1 / (1 + np.exp(-(X @ truth)))
        bounds = (
            OPSLogisticRegression(
                epsilon=3.0,
                C=1.0,
                fit_intercept=False,
                sampler="rejection",
                n_draws=4,
                random_state=trial,
            )
            .fit(X, y)
            .interval(0.9)["coef"][0]
        )
        covered.append((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))
        center, half = bounds.mean(axis=1), np.diff(bounds, axis=1)[:, 0] / 2
        narrow.append(np.abs(truth - center) <= half / 2)
    error = 4 * np.sqrt(0.9 * 0.1 / 80)
    assert abs(np.mean(covered) - 0.9) < error
    assert np.mean(narrow) < 0.9 - error


def logistic_derivatives(rows, n_records):
    """Of the expected sum of losses, up to a constant."""

    def derivatives(theta):
        p = expit(rows @ theta)
        scale = n_records / len(rows)
        return scale * rows.T @ p, scale * (rows.T * (p * (1.0 - p))) @ rows

    return derivatives


def test_bounds_of_an_exact_draw_have_the_published_inflation():
    """With a flat prior and many records the variance is (1 + 1 / beta) / information."""
    rows = np.random.default_rng(0).normal(size=(500, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    derivatives, draw = logistic_derivatives(rows, 10**8), np.array([0.5, -1.0])
    how = {"n_records": 10**8, "inverse_temperature": 0.25, "level": 0.95}
    lower, upper = score_bounds(draw[None], derivatives, C=1e9, **how)
    half = 1.959963984540054 * np.sqrt(5.0 * np.diag(np.linalg.inv(derivatives(draw)[1])))
    np.testing.assert_allclose(upper - lower, 2 * half, rtol=1e-6)
    np.testing.assert_allclose(0.5 * (lower + upper), draw, rtol=1e-6)
    blind = np.column_stack([rows, np.zeros(500)])
    lower, upper = score_bounds(
        np.array([[0.5, -1.0, 0.3]]), logistic_derivatives(blind, 10**8), C=1e9, **how
    )
    assert np.all(np.isfinite(lower[:2]))
    assert np.isinf(upper[2])


@pytest.mark.parametrize("stopped", [False, True])
def test_bounds_undo_the_shrinkage_of_the_prior_and_of_a_short_chain(stopped):
    """Without noise the draw is where the penalized descent stands; the truth is solved for."""
    rows, truth = np.random.default_rng(0).normal(size=(500, 2)), np.array([0.2, -0.1])
    derivatives, C = logistic_derivatives(rows, 10**6), 2e-5
    step, n_steps = 1e-6, 8 if stopped else 400
    draw = np.zeros(2)
    for _ in range(n_steps):
        draw = draw - step * (derivatives(draw)[0] - derivatives(truth)[0] + draw / C)
    assert np.all(np.abs(draw) < 0.9 * np.abs(truth))
    lower, upper = score_bounds(
        draw[None],
        derivatives,
        n_records=10**6,
        C=C,
        inverse_temperature=1.0,
        level=0.9,
        step_size=step if stopped else None,
        n_steps=n_steps if stopped else None,
    )
    np.testing.assert_allclose(0.5 * (lower + upper), truth, rtol=2e-3)


@pytest.mark.parametrize(
    ("n", "effect", "params"),
    [
        (2000, 1.0, {"epsilon": 2.0}),
        (2000, 1.0, {"epsilon": 2.0, "sampler": "rejection", "C": 0.2}),
        (4000, 3.0, {"epsilon": 2.0}),
        (3000, 1.0, {"epsilon": 2.0, "calibration": "wang2015", "delta": 0.0, "coef_norm": 4.0}),
    ],
)
def test_intervals_cover_with_strong_priors_and_strong_effects(n, effect, params):
    """On both sides, at the default C: 3 x 40 intervals, dependent by threes."""
    truth = effect * np.array([1.0, -0.7, 0.3])
    covered = []
    for trial in range(40):
        rng = np.random.default_rng(trial)
        X = rng.uniform(-0.7, 0.7, (n, 2))
        y = rng.random(n) < expit(X @ truth[:2] + truth[2])
        model = OPSLogisticRegression(random_state=trial, **params).fit(X, y)
        found = model.interval(0.9, X=rng.uniform(-0.7, 0.7, (1000, 2)))
        low, high = np.vstack([found["coef"][0], found["intercept"]]).T
        covered.append((low <= truth) & (truth <= high))
    assert 0.80 < np.mean(covered) < 0.98


def test_public_rows_are_bounded_as_those_of_fit():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (5000, 2))
    y = rng.random(5000) < expit(X @ [2.0, -1.0])
    model = OPSLogisticRegression(epsilon=5.0, data_norm=0.5, random_state=0).fit(X, y)
    short = X * np.minimum(1.0, 0.5 / np.linalg.norm(X, axis=1))[:, None]
    found = model.interval(X=X)["coef"]
    np.testing.assert_allclose(found, model.interval(X=short)["coef"])
    np.testing.assert_allclose(found, model.interval(X=sparse.csr_matrix(X))["coef"])


def test_intervals_are_refused_where_draws_are_too_noisy_or_the_prior_too_strong():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, (300, 2))
    y = rng.random(300) < expit(X @ [2.0, -1.0])
    one = OPSLogisticRegression(epsilon=0.1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="too noisy"):
        one.interval(X=X)
    with pytest.raises(ValueError, match="of the precision"):
        OPSLogisticRegression(epsilon=1.0, sampler="rejection", n_draws=4, random_state=0).fit(
            X, y
        ).interval()


def test_interval_needs_two_classes_and_a_level():
    X, y = two_features()
    fitted = OPSLogisticRegression(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="level"):
        fitted.interval(1.0, X=X)
    three = OPSLogisticRegression(random_state=0).fit(np.eye(3), [0, 1, 2])
    with pytest.raises(AttributeError, match="interval"):
        three.interval(X=np.eye(3))
    assert not hasattr(OPSLinearSVC(random_state=0).fit(X, y), "interval")
    with pytest.raises(ValueError, match="n_draws >= 2"):
        fitted.interval()
