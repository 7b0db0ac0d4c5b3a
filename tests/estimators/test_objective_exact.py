"""ObjPertLogisticRegression: order, storage and threads do not change a bit of the release."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from skdpbayes import ObjPertLogisticRegression
from skdpbayes.estimators.objective import solver
from skdpbayes.estimators.objective.plan import Problem, _gradient_rounding
from skdpbayes.fitting.records import Block

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


def _table(n, d, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d)) * (rng.random((n, d)) < 0.5)
    X *= 1.2 / np.linalg.norm(X, axis=1).max()  # some rows are longer than data_norm
    scores = 6.0 * X[:, :n_classes] + rng.gumbel(size=(n, n_classes))
    return X.astype(np.float32).astype(np.float64), np.argmax(scores, axis=1)


@pytest.mark.parametrize(
    ("n", "n_classes", "params"),
    [
        (3000, 2, {}),
        (3000, 2, {"margin": 2.0, "inference_budget": 0.0}),
        (3000, 3, {}),
        (3000, 2, {"mechanism": "output", "delta": 0.0}),
        (30_000, 2, {}),  # with a preview
        (30_000, 3, {"fit_intercept": False}),
    ],
)
def test_the_release_has_the_same_bits_for_any_order_storage_and_threads(n, n_classes, params):
    X, y = _table(n, 6, n_classes)
    order = np.random.default_rng(1).permutation(n)

    def fit(X, y, threads=1):
        with threadpool_limits(threads):
            return ObjPertLogisticRegression(1.0, random_state=0, **{"C": 0.4, **params}).fit(X, y)

    first = fit(X, y)
    for other in (
        fit(X[order], y[order]),
        fit(X, y, threads=2),
        fit(sparse.csr_matrix(X[order]), y[order]),
    ):
        assert np.array_equal(other.coef_, first.coef_)
        assert np.array_equal(other.intercept_, first.intercept_)
        if params.get("inference_budget") != 0.0:
            assert np.array_equal(other.information_, first.information_)


def test_the_preview_does_not_decide_whether_a_fit_succeeds():
    """Rows that are all alike are previewed together or not at all."""
    X, y = np.tile([[0.5, 0.1]], (25_000, 1)), np.arange(25_000) % 2
    model = ObjPertLogisticRegression(1.0, random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    problem = Problem(25_000, 3, 2, 1.0, 1.0, 1e-5, "zero_out", constant=1.0)
    assert solver._preview(Block(X, y), problem) is None
    mixed = np.random.default_rng(0).uniform(-0.5, 0.5, (25_000, 2))
    few = solver._preview(Block(mixed, y), problem)
    assert 1000 < few.X.shape[0] < 2200


def test_a_million_sorted_compressed_rows_are_fitted_like_shuffled_ones():
    """Sorted by label with the mass in one column: here running sums missed the tolerance."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    columns = np.where(rng.random(n) < 0.9, 0, rng.integers(1, 4, n))
    X = sparse.csr_matrix((np.full(n, 0.9), columns, np.arange(n + 1)), shape=(n, 4))
    y = (rng.random(n) < 0.4 + 0.2 * (columns == 1)).astype(int)
    order = np.argsort(y, kind="stable")
    fits = [
        ObjPertLogisticRegression(1.0, 1e-8, C=1.0, random_state=0).fit(A, b)
        for A, b in ((X, y), (X[order], y[order]))
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert np.array_equal(fits[0].information_, fits[1].information_)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [1e-3, 0.1, 0.5])
def test_the_optimizer_reaches_its_goal_where_no_rounding_averages_out(n_classes, C):
    """Few records that are all alike: the cuts of their residuals add up."""
    X, y = np.tile([[0.6, 0.8]], (12, 1)), np.arange(12) % n_classes
    for seed in range(40):
        model = ObjPertLogisticRegression(
            1.0, C=C, fit_intercept=False, inference_budget=0.0, random_state=seed
        )
        assert np.all(np.isfinite(model.fit(X, y).coef_))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_tolerance_covers_the_error_of_the_gradient_and_stays_small(n_classes):
    """Extended precision on the rows as they are cut, against what the optimizer sees."""
    n, d = 5000, 6
    X, y = _table(n, d, n_classes)
    X *= 0.8
    problem = Problem(n, d + 1, n_classes, 1.0, 1.0, 1e-5, "replace_one", constant=0.7)
    rng = np.random.default_rng(2)
    for size in (0.1, 3.0, 50.0):
        theta = rng.standard_normal((problem.n_outputs, d + 1))
        theta *= size / np.linalg.norm(theta)
        found = solver._derivatives(theta.ravel(), Block(X, y), problem, (0, 1))[1]
        unit = problem.grid.row_unit
        rows = np.column_stack([np.trunc(X / unit) * unit, np.full(n, 0.7)]).astype(np.longdouble)
        z = rows @ theta.T.astype(np.longdouble)
        if n_classes == 2:
            residual = 1.0 / (1.0 + np.exp(-z)) - (y == 1)[:, None]
        else:
            chance = np.exp(z - z.max(axis=1, keepdims=True))
            residual = chance / chance.sum(axis=1, keepdims=True)
            residual[np.arange(n), y] -= 1.0
        error = np.linalg.norm((found - residual.T @ rows).astype(np.float64))
        bound = _gradient_rounding(problem, 1.0, 0.0, size)
        assert error <= bound
        assert bound < 1e-8 * problem.gradient_norm * n
