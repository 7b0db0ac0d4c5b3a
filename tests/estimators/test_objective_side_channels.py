"""ObjPertLogisticRegression: nothing but the release tells about the data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification

from skdpbayes import ObjPertLogisticRegression, PrivacyLedger
from skdpbayes.estimators.objective.plan import Problem, coefficient_bound
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.samplers.newton import _factor

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


def _data(n=300, d=4):
    X, y = make_classification(n, d, n_informative=d, n_redundant=0, random_state=0)
    return X / np.linalg.norm(X, axis=1).max(), y


def test_draws_with_the_seed_of_the_fit_do_not_repeat_its_noise(monkeypatch):
    from skdpbayes.estimators.objective import estimator as objective_perturbation

    tilts = []
    original = objective_perturbation.minimize

    def watched(*args):
        tilts.append(args[-1])
        return original(*args)

    monkeypatch.setattr(objective_perturbation, "minimize", watched)
    X, y = _data()
    model = ObjPertLogisticRegression(1.0, random_state=7).fit(X, y)
    posterior = model._posterior._normal()
    draws = model.sample_posterior(3, random_state=7)
    flat = np.hstack([draws["coef"][:, 0], draws["intercept"]])
    standard = (flat - posterior.mean) @ posterior.axes / posterior.deviations
    for row in standard:
        assert np.abs(row - tilts[0] / model.noise_.scale).min() > 1e-9


@pytest.mark.parametrize(("mechanism", "C"), [("output", 1.0), ("objective", 1e-3)])
def test_rows_far_below_data_norm_are_fitted_whatever_the_coefficients(mechanism, C):
    """Coefficients far above 1 / data_norm were once an error that told about the data."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5)) * 0.5
    y = (X[:, 0] > 0).astype(int)
    model = ObjPertLogisticRegression(
        20.0, data_norm=100.0, C=C, mechanism=mechanism, fit_intercept=False, random_state=0
    )
    assert np.all(np.isfinite(model.fit(X, y).coef_))


def test_no_data_have_a_larger_minimizer_than_the_bound():
    for n, C in ((50, 1e4), (2000, 1.0)):
        X, y = np.ones((n, 1)), np.arange(n) % 2
        y[:] = 1
        y[0] = 0
        for margin in (0.0, 5.0):
            model = ObjPertLogisticRegression(
                np.inf, C=C, fit_intercept=False, margin=margin, inference_budget=0.0
            ).fit(X, y)
            problem = Problem(n, 1, 2, 1.0, np.inf, 0.0, "zero_out", margin)
            assert abs(model.coef_[0, 0]) <= coefficient_bound(problem, 1.0 / C, 0.0)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_coefficients_beyond_the_radius_keep_their_direction(delta):
    X, y = _data()
    far = ObjPertLogisticRegression(50.0, delta, C=100.0, coef_norm_guess=1e-3, random_state=0).fit(
        X, y
    )
    wide = ObjPertLogisticRegression(50.0, delta, C=100.0, random_state=0).fit(X, y)
    radius = far._posterior.plan.radius
    long, short = (np.append(model.coef_[0], model.intercept_) for model in (wide, far))
    assert np.linalg.norm(short) == pytest.approx(min(radius, np.linalg.norm(long)), rel=1e-3)
    cosine = short @ long / np.linalg.norm(short) / np.linalg.norm(long)
    assert cosine == pytest.approx(1.0, abs=1e-6)
    assert wide._posterior.plan.tolerance < 1e-8
    free = ObjPertLogisticRegression(np.inf, C=100.0, coef_norm_guess=1e-3).fit(X, y)
    assert np.linalg.norm(free.coef_) > 1.0


def test_minimizers_far_beyond_the_radius_are_no_error():
    """Rounding grows with the coefficients, and so does the gradient norm that is asked for."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        X = rng.normal(size=(100, 3)) * 10.0 ** -rng.integers(3, 6)
        y = (X[:, 0] > 0).astype(int)
        model = ObjPertLogisticRegression(
            1.0, 0.0, C=1.7e10, mechanism="output", fit_intercept=False, random_state=seed
        ).fit(X, y)
        assert np.all(np.isfinite(model.coef_))


def test_a_hessian_without_a_factor_is_no_error():
    """Rounding makes it indefinite; the message of the factorization told the rank of the data."""
    matrix = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) - 1e-15 * np.eye(3)
    factor, _ = _factor(matrix)
    lower = np.tril(factor)
    np.testing.assert_allclose(lower @ lower.T, matrix, atol=1e-11)
    X, y = _data(d=3)
    X[:, 2] = X[:, 1]  # rank 2
    model = ObjPertLogisticRegression(
        1.0, C=1e10, data_norm=1000.0, mechanism="output", fit_intercept=False, random_state=0
    )
    assert np.all(np.isfinite(model.fit(1000.0 * X, y).coef_))


def test_a_refused_refit_leaves_the_earlier_fit_with_its_own_claim(tmp_path):
    X, y = _data()
    model = ObjPertLogisticRegression(np.inf).fit(X, y)
    before = dict(vars(model))
    ledger = PrivacyLedger(tmp_path / "small.db", epsilon=0.1, delta=1e-6)
    with pytest.raises(BudgetExceededError):
        model.set_params(epsilon=1.0, ledger=ledger).fit(X, y)
    after = vars(model)
    assert before.keys() == after.keys()
    fitted = [name for name in before if name.endswith("_") or name.startswith("_")]
    assert all(after[name] is before[name] for name in fitted)
    assert np.isinf(model.privacy_.epsilon)


def test_parameters_changed_after_the_fit_change_nothing():
    X, y = _data()
    model = ObjPertLogisticRegression(1.0, random_state=0, intercept_scaling=2.0).fit(X, y)
    before = model.interval()
    model.set_params(fit_intercept=False, intercept_scaling=5.0, C=1.0, coef_norm_guess=1.0)
    after = model.interval()
    for name in ("coef", "intercept"):
        assert np.array_equal(before[name], after[name])


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_stored_duplicates_that_add_up_to_infinity_become_a_null_row():
    X, y = _data()
    huge = sparse.csr_array(X)
    start, stop = huge.indptr[3], huge.indptr[4]
    data, indices = huge.data.copy(), huge.indices.copy()
    data[start:stop], indices[start:stop] = 1.5e308, 0
    huge = sparse.csr_array((data, indices, huge.indptr), shape=X.shape)
    X[3] = 0.0
    for params in ({"random_state": 0}, {"random_state": 0, "mechanism": "output"}):
        found, expected = (ObjPertLogisticRegression(**params).fit(A, y) for A in (huge, X))
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-8)
