"""ObjPertLogisticRegression: parity, noise scales, inference, errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from skdpbayes import ObjPertLogisticRegression, PrivacyLedger
from skdpbayes.estimators.objective import plan as plans
from skdpbayes.estimators.objective import solver
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.records import Block
from skdpbayes.randomness import release_grid
from skdpbayes.release.floats import pack_symmetric

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

ADJACENCIES = ("replace_one", "zero_out")


class BlockOfRows(NamedTuple):
    X: np.ndarray
    target: np.ndarray
    weight: None = None


def _data(n_classes=2, n=400, d=4, seed=0):
    X, y = make_classification(
        n, d, n_informative=d, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    return X / np.linalg.norm(X, axis=1).max(), y


# ------------------------------------------------------------------------- the non-private model


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_infinite_epsilon_is_scikit_learn(n_classes, C):
    X, y = _data(n_classes)
    model = ObjPertLogisticRegression(np.inf, C=C, intercept_scaling=2.0).fit(X, y)
    rows = np.column_stack([X, np.full(len(X), 2.0)])
    plain = LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    expected = plain.fit(rows, y).coef_
    np.testing.assert_allclose(model.coef_, expected[:, :-1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.intercept_, 2.0 * expected[:, -1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        model.predict_proba(X), plain.predict_proba(rows), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_rows_give_the_same_release(n_classes):
    X, y = _data(n_classes)
    X[np.abs(X) < 0.05] = 0.0
    dense = ObjPertLogisticRegression(2.0, random_state=3).fit(X, y)
    csr = ObjPertLogisticRegression(2.0, random_state=3).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, csr.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dense.information_, csr.information_, rtol=1e-6, atol=1e-6)
    assert np.array_equal(dense.predict(X), csr.predict(sparse.csr_array(X)))


def test_many_features_go_through_lbfgs_to_the_same_tolerance(monkeypatch):
    from skdpbayes.estimators.objective import solver as _objective_solver

    X, y = _data(3, d=6)
    options = {"epsilon": 1.0, "random_state": 0, "inference_budget": 0.0}
    newton = ObjPertLogisticRegression(**options).fit(X, y)
    monkeypatch.setattr(_objective_solver, "LARGEST_HESSIAN", 5)
    lbfgs = ObjPertLogisticRegression(**options).fit(X, y)
    np.testing.assert_allclose(newton.coef_, lbfgs.coef_, rtol=1e-5, atol=1e-7)


def test_the_computed_minimizer_meets_the_public_tolerance():
    X, y = _data()
    model = ObjPertLogisticRegression(np.inf, C=2.0).fit(X, y)
    theta = np.column_stack([model.coef_, model.intercept_])
    rows = np.column_stack([X, np.ones(len(y))])
    gradient = (expit(rows @ theta[0]) - y) @ rows + theta[0] / 2.0
    assert np.linalg.norm(gradient) <= model._posterior.plan.tolerance < 1e-7


# ------------------------------------------------------------------------------- noise and claims


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("calibration", "delta", "expected"),
    [
        ("kifer2012", 1e-5, 10.0820921025),
        ("redberg2023", 1e-5, 3.9765313001),
        ("chaudhuri2011", 0.0, 0.5 * 2.1039016571),
        ("tight", 1e-5, 3.7306316348 / math.sqrt(0.999)),
        ("tight", 0.0, 1.0 / math.sqrt(0.999)),
    ],
)
def test_noise_scales_of_the_literature(adjacency, calibration, delta, expected):
    X, y = _data()
    model = ObjPertLogisticRegression(
        1.0,
        delta,
        adjacency=adjacency,
        C=0.1,
        calibration=calibration,
        fit_intercept=False,
        inference_budget=0.0,
        random_state=0,
    ).fit(X, y)
    shift = 2.0 if adjacency == "replace_one" else 1.0
    assert model.noise_.scale == pytest.approx(shift * expected, rel=2e-4)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("mechanism", ["objective", "output"])
def test_the_whole_event_stays_within_the_budget(adjacency, delta, n_classes, mechanism):
    X, y = _data(n_classes)
    model = ObjPertLogisticRegression(
        0.8, delta, adjacency=adjacency, mechanism=mechanism, random_state=0
    )
    claim = model.fit(X, y).privacy_
    assert claim.conditions == ()
    assert claim.delta_at(0.8) <= delta
    assert claim.epsilon_at(delta) == pytest.approx(0.8, rel=1e-3)


@pytest.mark.parametrize("calibration", ["kifer2012", "redberg2023"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_published_noise_hosts_the_other_releases(calibration, adjacency):
    X, y = _data()
    model = ObjPertLogisticRegression(
        1.0, adjacency=adjacency, calibration=calibration, random_state=0
    ).fit(X, y)
    assert model.privacy_.delta_at(1.0) <= 1e-5
    assert model.privacy_.event.side_mu > 0.0
    assert model.interval()["coef"].shape == (1, 4, 2)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_information_is_nearly_free_and_its_noise_covers_the_charge(adjacency):
    """With two classes; a record moves it least where its gradient is largest."""
    X, y = _data(n=20_000)
    settings = {"epsilon": 1.0, "adjacency": adjacency, "C": 0.1, "random_state": 0}
    model = ObjPertLogisticRegression(**settings).fit(X, y)
    alone = ObjPertLogisticRegression(inference_budget=0.0, **settings).fit(X, y)
    assert 1.0 <= model.noise_.scale / alone.noise_.scale < 1.01
    event, plan = model.privacy_.event, model._posterior.plan
    shift = 2.0 if adjacency == "replace_one" else 1.0
    budget = (shift / event.noise_multiplier) ** 2
    assert event.information_mu**2 * shift == pytest.approx(0.1 * budget, rel=0.02)
    # what one record adds, at most a quarter of its squared norm, over the noise on the matrix
    assert 0.25 * 2.0 / plan.information_scale <= event.information_mu
    assert 0.25 * 2.0 / plan.information_scale >= 0.999 * event.information_mu
    # and the minimizer is never scaled back, which would hide the record's residual
    assert plan.radius >= plans.coefficient_bound(plan.problem, plan.penalty, plan.tilt_norm)


def test_tiny_budgets_charge_every_record_alike_for_the_information():
    """Where the release grid is too coarse for the part of the noise that hides rounding."""
    X, y = _data()
    event = ObjPertLogisticRegression(1e-4, C=1e-5, random_state=0).fit(X, y).privacy_.event
    assert event.information_mu == 0.0
    assert event.delta_at(1e-4) <= 1e-5


def test_a_record_moves_the_information_along_itself_up_to_the_cuts():
    from skdpbayes.estimators.objective.solver import information

    X, y = _data(n=300)
    plan = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y)._posterior.plan
    problem = plan.problem
    codes = y.astype(np.intp)
    theta = np.random.default_rng(1).normal(scale=3.0, size=problem.n_parameters)
    farthest = 0.0
    for i in range(0, 300, 7):
        found = information(theta, BlockOfRows(X[[i]], codes[[i]]), problem)
        u = np.append(np.trunc(X[i] / problem.grid.row_unit) * problem.grid.row_unit, 1.0)
        s = 1.0 / (1.0 + math.exp(u @ theta))
        off = np.linalg.norm(found - s * (1.0 - s) * np.outer(u, u))
        farthest = max(farthest, off)
        assert np.linalg.norm(found) <= s * (1.0 - s) * (u @ u) * (1 + 1e-12)
    assert 0.01 * problem.information_cuts < farthest <= 0.5 * problem.information_cuts


def test_curvature_is_the_squared_norm_with_the_intercept():
    X, y = _data()
    model = ObjPertLogisticRegression(1.0, data_norm=30.0, intercept_scaling=4.0, C=1e-4)
    model.set_params(random_state=0).fit(X, y)
    assert model.privacy_.event.curvature == pytest.approx((900.0 + 16.0) * 1e-4)
    assert model.noise_.scale == pytest.approx(
        model.privacy_.event.noise_multiplier * math.sqrt(916.0)
    )


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_linear_term_has_the_stated_scale(delta):
    """Rows of zeros leave theta = -b C; 1e-5 false alarms, 2/3 and 3/2 of the scale rejected."""
    X, y = np.zeros((6, 300)), np.arange(6) % 2
    options = {"delta": delta, "C": 1e-3, "fit_intercept": False, "inference_budget": 0.0}
    fits = [
        ObjPertLogisticRegression(1.0, random_state=seed, **options).fit(X, y) for seed in range(8)
    ]
    scale = fits[0].noise_.scale
    b = np.array([fit.coef_[0] / 1e-3 for fit in fits])
    if delta == 0.0:
        total, law = np.linalg.norm(b, axis=1).sum() / scale, stats.gamma(300 * 8)
    else:
        total, law = (b**2).sum() / scale**2, stats.chi2(300 * 8)
    low, high = law.ppf([5e-6, 1 - 5e-6])
    power = 1.0 if delta == 0.0 else 2.0
    assert low < total < high
    for factor in (2 / 3, 3 / 2):
        assert not low < total * factor**power < high


def test_a_share_of_the_budget_that_underflows_never_releases_exact_information(tmp_path):
    """At 5e-324 the noise was 0; the claim said nothing of it."""
    X, y = _data()
    ledger = PrivacyLedger(tmp_path / "budget", epsilon=5.0, delta=1e-3)
    model = ObjPertLogisticRegression(1.0, inference_budget=5e-324, ledger=ledger)
    with pytest.raises(CalibrationError, match="noise of a positive, finite scale"):
        model.fit(X, y)
    assert ledger.entries() == []
    drowned = model.set_params(inference_budget=1e-320).fit(X, y)
    assert np.abs(drowned._posterior.information).min() > 1e150


def test_releases_lie_on_their_public_grid():
    X, y = _data()
    model = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y)
    for values, scale in (
        (model.coef_, model._posterior.plan.release_scale),
        (np.diag(model.information_), model._posterior.plan.information_scale),
    ):
        steps = values / release_grid(scale)
        assert np.array_equal(steps, np.rint(steps))


def test_long_rows_are_scaled_down():
    X, y = _data()
    long = X.copy()
    long[0] *= 1.0 / np.linalg.norm(long[0])
    short = ObjPertLogisticRegression(1.0, random_state=0).fit(long, y)
    long[0] *= 1000.0
    again = ObjPertLogisticRegression(1.0, random_state=0).fit(long, y)
    np.testing.assert_allclose(short.coef_, again.coef_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_information_moves_no_further_than_its_bound(n_classes):
    rng = np.random.default_rng(0)
    outputs = 1 if n_classes == 2 else n_classes
    bounds = {
        adjacency: plans.Problem(10, 3, n_classes, 1.0, 1.0, 1e-5, adjacency).information_norm
        for adjacency in ADJACENCIES
    }
    largest = 0.0
    for _ in range(500):
        rows = rng.normal(size=(2, 3))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        theta = rng.normal(scale=rng.choice([0.05, 1.0, 3.0]), size=(outputs, 3))
        codes = rng.integers(0, n_classes, size=1)
        problem = plans.Problem(10, 3, n_classes, 1.0, 1.0, 1e-5, "zero_out")
        one, other = (solver.information(theta, Block(row[None], codes), problem) for row in rows)
        assert np.linalg.norm(one) <= bounds["zero_out"] * (1 + 1e-12)
        assert np.linalg.norm(one - other) <= bounds["replace_one"] * (1 + 1e-12)
        assert np.linalg.norm(pack_symmetric(one)) == pytest.approx(np.linalg.norm(one))
        largest = max(largest, np.linalg.norm(one) / bounds["zero_out"])
    assert largest > 0.85


# -------------------------------------------------------------------------------- automatic C


def test_automatic_C_comes_from_public_numbers():
    (X, y), (X2, y2) = _data(seed=0), _data(seed=1)
    one = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y)
    two = ObjPertLogisticRegression(1.0, random_state=1).fit(X2, y2)
    assert one.C_ == two.C_


def test_automatic_C_grows_with_budget_records_and_guess():
    def auto(epsilon=1.0, n=1000, norm=10.0, delta=1e-5, classes=2, mechanism="objective"):
        problem = plans.Problem(n, 20, classes, math.sqrt(2), epsilon, delta, "replace_one")
        return plans.automatic_C(problem, mechanism, "tight", norm)

    for delta in (0.0, 1e-5):
        for classes in (2, 3):
            values = [auto(e, delta=delta, classes=classes) for e in (0.05, 0.5, 1.0, 5.0, 1e6)]
            assert np.all(np.diff(values) > 0)
            assert auto(n=4000, delta=delta) > auto(delta=delta)
            assert auto(norm=20.0, delta=delta) > auto(delta=delta)
            assert auto(delta=delta, mechanism="output") > 0
    assert auto(math.inf) == 5.0


# ---------------------------------------------------------------------------------------- errors


def test_an_unreachable_C_names_one_that_works():
    X, y = _data()
    with pytest.raises(CalibrationError, match="Use C <=") as caught:
        ObjPertLogisticRegression(0.1, C=100.0).fit(X, y)
    suggestion = float(str(caught.value).split("Use C <= ")[1].split()[0])
    fitted = ObjPertLogisticRegression(0.1, C=suggestion, random_state=0).fit(X, y)
    assert float(fitted.C_) == suggestion
    for calibration in ("kifer2012", "redberg2023"):
        with pytest.raises(CalibrationError, match=calibration):
            ObjPertLogisticRegression(0.1, C=100.0, calibration=calibration).fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0.0}, "C must be a number"),
        ({"C": "best"}, "'auto'"),
        ({"mechanism": "input"}, "mechanism must be one of"),
        ({"calibration": "loose"}, "calibration must be one of"),
        ({"inference_budget": 1.0}, "inference_budget must be"),
        ({"coef_norm_guess": -1.0}, "coef_norm_guess must be"),
        ({"calibration": "chaudhuri2011"}, "delta=0"),
        ({"calibration": "kifer2012", "delta": 0.0}, "needs delta > 0"),
        ({"calibration": "kifer2012", "mechanism": "output"}, "does not apply"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = _data()
    with pytest.raises(ValueError, match=message):
        ObjPertLogisticRegression(**params).fit(X, y)


def test_published_calibrations_are_for_two_classes():
    X, y = _data(3)
    with pytest.raises(ValueError, match="two classes"):
        ObjPertLogisticRegression(calibration="kifer2012").fit(X, y)


def test_no_posterior_without_a_budget_for_it():
    X, y = _data()
    model = ObjPertLogisticRegression(random_state=0).fit(X, y)
    model.set_params(inference_budget=0.0).fit(X, y)
    for name in ("sample_posterior", "interval"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError) as error:
            getattr(model, name)
        assert "set inference_budget=0.1" in str(error.value.__cause__)
    model.set_params(inference_budget=0.1).fit(X, y)
    with pytest.raises(ValueError, match="level must be"):
        model.interval(1.0)
    with pytest.raises(ValueError, match="n_samples must be"):
        model.sample_posterior(0)


def test_many_columns_are_fitted_without_the_matrix_that_nobody_could_hold():
    X = sparse.random(400, 4000, density=0.01, format="csr", random_state=0)
    y = np.arange(400) % 2
    model = ObjPertLogisticRegression(random_state=0).fit(X, y)
    assert model.coef_.shape == (1, 4000)
    assert not hasattr(model, "interval")
    assert "Fisher" not in model.privacy_.mechanism
    assert "Fisher" in ObjPertLogisticRegression(random_state=0).fit(X[:, :5], y).privacy_.mechanism
    with pytest.raises(ValueError, match=r"inference_budget=0\.1 would release"):
        ObjPertLogisticRegression(inference_budget=0.1).fit(X, y)
    with pytest.raises(ValueError, match="inference_budget must be"):
        ObjPertLogisticRegression(inference_budget="Auto").fit(X, y)
