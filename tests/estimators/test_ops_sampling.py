"""Samplers of one posterior sample: mixing, and errors that must not depend on the data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skdpbayes import OPSLinearSVC, OPSLogisticRegression, models, randomness, samplers
from skdpbayes.estimators.ops import sampling
from skdpbayes.estimators.ops.sampling import hmc_chains
from skdpbayes.estimators.ops.target import Target, lower_root
from skdpbayes.fitting.records import Block
from tests.estimators.test_ops import quadrature_moments, two_features


def silent(iterable, **_):
    return iterable


@pytest.mark.parametrize(("loss", "beta"), [("hinge", 0.33), ("hinge", 0.1), ("logistic", 0.33)])
def test_chains_mix_where_the_mode_is_on_the_sphere(loss, beta):
    X, y = two_features()
    target = Target(
        blocks=(Block(X, y.astype(np.int64)),),
        constant=0.0,
        loss={"hinge": models.HingeLoss(), "logistic": models.LogisticLoss()}[loss],
        width=1.0,
        C=1.5,
        inverse_temperature=beta,
        radius=2.0,
        grid=models.Grid(X.shape[0], 1.0),
    )
    chains, _, _ = hmc_chains(
        target, randomness.make_generator(0), silent, n_chains=4, n_iterations=400
    )
    size = samplers.effective_sample_size(chains)
    assert np.all(size > 0.2 * 1600)
    mean, covariance = quadrature_moments(X, y, loss, beta, 1.5, 2.0, points=601)
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(chains.mean(axis=(0, 1)) - mean) < 4 * deviation / np.sqrt(size))
    ratio = chains.var(axis=(0, 1)) / deviation**2
    margin = 4 * np.sqrt(3.5 / samplers.effective_sample_size(chains**2))
    assert np.all(margin < 0.5)
    assert np.all(np.abs(ratio - 1) < margin)


def collinear(n=200):
    X = np.random.default_rng(0).normal(size=(n, 3))
    X = np.hstack([X, X, X[:, :1]])
    return X / np.linalg.norm(X, axis=1, keepdims=True), (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("params", [{"epsilon": np.inf}, {"delta": 0.0, "sampler": "hmc"}])
def test_a_hessian_that_is_singular_to_rounding_is_no_error(n_classes, params):
    """An error (or a warning) after the budget is spent would tell about the data."""
    X, y = collinear()
    y = y if n_classes == 2 else np.arange(len(y)) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = OPSLogisticRegression(C=1e18, random_state=0, **params).fit(X, y)
    assert np.all(np.isfinite(fitted.coef_))


def test_overflow_is_no_warning():
    X, y = collinear(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OPSLogisticRegression(1e3, delta=0.0, coef_norm=2000.0, sampler="auto", random_state=0).fit(
            X[:, :1], y
        )


def test_lower_root_factors_what_it_can_and_ridges_the_rest():
    good = np.array([[4.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(lower_root(good) @ lower_root(good).T, good, rtol=1e-14)
    bad = np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])
    np.testing.assert_allclose(lower_root(bad) @ lower_root(bad).T, bad, atol=1e-7)
    assert np.all(np.isfinite(lower_root(np.array([[0.0, 1.0], [1.0, -5.0]]))))


def test_several_draws_of_one_chain_state_that_they_are_taken_as_independent():
    X, y = two_features()
    params = {"sampler": "hmc", "n_steps": 20, "n_chains": 2, "random_state": 0}
    for n_draws, n_conditions in ((1, 1), (2, 1), (3, 2)):
        fitted = OPSLogisticRegression(n_draws=n_draws, **params).fit(X, y)
        assert len(fitted.privacy_.conditions) == n_conditions
    assert "independent" in fitted.privacy_.conditions[1]


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_diagnostics_of_an_earlier_fit_are_dropped():
    X, y = two_features()
    estimator = OPSLinearSVC(sampler="hmc", n_steps=20, diagnostics=True, random_state=0).fit(X, y)
    assert hasattr(estimator, "diagnostics_")
    assert not hasattr(estimator.set_params(diagnostics=False).fit(X, y), "diagnostics_")


def test_a_diverged_chain_is_no_error(monkeypatch):
    """Whether a chain diverges depends on the data; its entries that are no numbers become 0."""
    diverged = np.array([[[np.nan, np.inf, 1.0]]])
    monkeypatch.setattr(sampling, "draw_langevin", lambda *_, **__: diverged)
    fitted = OPSLogisticRegression(random_state=0).fit(np.eye(2)[[0, 1, 0, 1]], [0, 1, 0, 1])
    assert fitted.coef_.tolist() == [[0.0, 0.0]]
    assert fitted.intercept_ == pytest.approx(1.0, abs=1e-3)
