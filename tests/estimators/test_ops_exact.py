"""One posterior sample: order, blocks, storage and threads do not change a bit of the release."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from skdpbayes import OPSLinearSVC, OPSLogisticRegression, models
from skdpbayes.estimators.ops.plan import Problem, _target, plan_density, plan_langevin
from skdpbayes.fitting import records
from skdpbayes.fitting.records import Block

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

N, D = 1400, 5
PURE = {"delta": 0.0, "coef_norm": 1.0}
FITS = [
    (OPSLogisticRegression, 2, {"n_batches": 1}),
    (OPSLogisticRegression, 2, {"n_batches": 3, "n_draws": 2}),
    (OPSLogisticRegression, 3, {"n_batches": 1, "n_steps": 60}),
    (OPSLogisticRegression, 2, {**PURE, "epsilon": 0.1, "sampler": "rejection"}),
    (OPSLogisticRegression, 2, {**PURE, "sampler": "hmc", "n_steps": 20}),
    (OPSLogisticRegression, 3, {"sampler": "hmc", "n_steps": 10}),
    (OPSLinearSVC, 2, {"n_batches": 1}),
    (OPSLinearSVC, 2, {"n_batches": 2, "fit_intercept": False}),
    (OPSLinearSVC, 2, {**PURE, "epsilon": 0.1, "sampler": "rejection"}),
    (OPSLinearSVC, 2, {"sampler": "hmc", "n_steps": 10}),
]


def table(n, d, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d)) * (rng.random((n, d)) < 0.5)
    X *= 1.2 / np.linalg.norm(X, axis=1).max()  # some rows are longer than data_norm
    scores = 6.0 * X[:, :n_classes] + rng.gumbel(size=(n, n_classes))
    return X.astype(np.float32).astype(np.float64), np.argmax(scores, axis=1)


@pytest.mark.parametrize(("make", "n_classes", "params"), FITS)
def test_the_release_has_the_same_bits_for_any_order_blocks_storage_and_threads(
    make, n_classes, params, monkeypatch
):
    X, y = table(N, D, n_classes)
    order = np.random.default_rng(1).permutation(N)
    compressed = sparse.csr_matrix(X)
    backwards = sparse.csr_matrix(  # the same entries, each row from its last column to its first
        (
            np.concatenate([row.data[::-1] for row in compressed]),
            np.concatenate([row.indices[::-1] for row in compressed]),
            compressed.indptr,
        ),
        shape=X.shape,
    )

    def fit(X, y, threads=1, blocks=1):
        size = 8 * D * -(-N // blocks)
        with monkeypatch.context() as patch, threadpool_limits(threads):
            patch.setattr(records, "BLOCK_BYTES", size)
            return make(random_state=0, **{"epsilon": 0.5, **params}).fit(X, y)

    first = fit(X, y)
    others = [
        fit(X, y, threads=2),
        fit(X, y, blocks=2),
        fit(X, y, blocks=7),
        fit(compressed, y, blocks=2),
        fit(backwards, y),
        fit(np.asfortranarray(X), y),
    ]
    if params.get("n_batches", 1) == 1:  # batches are chosen by position
        others += [fit(X[order], y[order]), fit(compressed[order], y[order], blocks=7)]
    for other in others:
        assert np.array_equal(other.coef_, first.coef_)
        assert np.array_equal(other.intercept_, first.intercept_)
        for name, draws in first.sample_posterior().items():
            assert np.array_equal(other.sample_posterior()[name], draws)


LOSSES = [
    (models.LogisticLoss(), 2),
    (models.SoftmaxLoss(3), 3),
    (models.HingeLoss(), 2),
]


def problem_of(loss, **changes):
    numbers = {
        "n_records": 3000,
        "n_features": D + 1,
        "constant": 0.7,
        "data_norm": 1.0,
        "epsilon": 1.0,
        "delta": 1e-5,
        "adjacency": "replace_one",
        "n_draws": 1,
        "calibration": "tight",
        "cap": True,
        "C": 0.5,
        "coef_norm": None,
        "width": 0.3,
    }
    return Problem(loss=loss, **(numbers | changes))


def cut(X, problem):
    """Rows as sums read them, with the constant feature, in extended precision."""
    unit = problem.grid.row_unit
    rows = np.column_stack([np.trunc(X / unit) * unit, np.full(X.shape[0], problem.constant)])
    return rows.astype(np.longdouble)


def in_extended_precision(loss, rows, y, theta, width):
    """Sum of the losses and its gradient, written independently of the kernels."""
    z = rows @ theta.T.astype(np.longdouble)
    if loss.n_outputs > 1:
        top = z.max(axis=1, keepdims=True)
        mass = np.exp(z - top)
        value = (np.log(mass.sum(axis=1)) + top[:, 0] - z[np.arange(y.size), y]).sum()
        slope = mass / mass.sum(axis=1, keepdims=True)
        slope[np.arange(y.size), y] -= 1
        return value, slope.T @ rows
    sign = np.where(y == 1, 1, -1).astype(np.longdouble)
    margin = sign * z[:, 0]
    if isinstance(loss, models.LogisticLoss):
        value = np.logaddexp(np.longdouble(0), -margin).sum()
        slope = -sign / (1 + np.exp(margin))
    elif width == 0.0:
        value = np.maximum(1 - margin, 0).sum()
        slope = np.where(margin < 1, -sign, 0)
    else:
        gap = np.maximum(1 - margin, 0)
        value = np.where(gap < width, gap**2 / (2 * width), gap - width / 2).sum()
        slope = -sign * np.minimum(gap / width, 1)
    return value, (slope @ rows)[None]


@pytest.mark.parametrize(("loss", "n_classes"), LOSSES)
@pytest.mark.parametrize("size", [0.1, 3.0, 200.0])
def test_the_price_covers_the_error_of_a_step_and_stays_small(loss, n_classes, size):
    """Extended precision on the rows as they are cut, against what the chain computes."""
    X, y = table(3000, D, n_classes)
    X *= 0.8
    problem = problem_of(loss, coef_norm=size)
    plan = plan_langevin(problem, n_steps=50, step_size=None, n_batches=3)
    target = _target(plan, [Block(X, y)], problem.smooth)
    rng = np.random.default_rng(2)
    bound = problem.gradient_rounding(problem.smooth, size)
    assert problem.computed_sensitivity == problem.sensitivity + 2.0 * bound
    for _ in range(5):
        theta = rng.standard_normal(target.shape)
        theta *= size / np.linalg.norm(theta)
        part = rng.permutation(3000)[:1000]
        found = target.objective_gradient(theta, (Block(X[part], y[part]),), 3.0)
        exact = in_extended_precision(loss, cut(X[part], problem), y[part], theta, problem.width)[1]
        error = float(np.linalg.norm((found - theta / plan.C) - 3.0 * exact))
        assert error <= bound
    assert 0.0 < bound < 1e-6 * problem.sensitivity


@pytest.mark.parametrize(("loss", "n_classes"), LOSSES)
@pytest.mark.parametrize("size", [0.1, 3.0, 200.0])
def test_the_price_covers_the_error_of_the_potential_and_stays_small(loss, n_classes, size):
    X, y = table(3000, D, n_classes)
    X *= 0.8
    problem = problem_of(loss, delta=0.0, coef_norm=size)
    plan = plan_density(problem, "hmc")
    target = _target(plan, [Block(X, y)], problem.loss)
    points = np.random.default_rng(3).standard_normal((20, target.dimension))
    points *= size / np.linalg.norm(points, axis=1, keepdims=True)
    # among points that are farther out: an error depends on the point alone
    found = target.potential(np.vstack([points, 1e9 * points]))[0][:20] / plan.inverse_temperature
    assert np.array_equal(found, target.potential(points)[0] / plan.inverse_temperature)
    bound = problem.value_rounding(size, plan.C) / 2.0
    rows = cut(X, problem)
    for point, value in zip(points, found, strict=True):
        theta = point.reshape(target.shape)
        exact = in_extended_precision(loss, rows, y, theta, 0.0)[0]
        exact += (point.astype(np.longdouble) ** 2).sum() / (2 * plan.C)
        assert abs(float(value - exact)) <= bound + 4e-16 * abs(float(exact))  # division by beta
    assert 0.0 < bound < 1e-8 * 3000 * loss.range(problem.record_norm * size)


def test_points_that_are_infinitely_far_away_harm_no_others():
    X, y = table(200, D, 2)
    problem = problem_of(models.LogisticLoss(), n_records=200)
    plan = plan_density(problem, "hmc")
    target = _target(plan, [Block(0.8 * X, y)], problem.loss)
    points = np.zeros((4, target.dimension))
    points[0] = 1.0
    alone = target.potential(points[:1])
    points[1:, 0] = [np.inf, np.nan, 1e200]
    with np.errstate(all="ignore"):
        values, slopes = target.potential(points)
    assert values[0] == alone[0][0]
    assert np.array_equal(slopes[0], alone[1][0])
    assert not np.any(values[1:] < math.inf)
