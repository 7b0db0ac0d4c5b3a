"""Networks: gradients against finite differences, clipping against one record at a time."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from skdpbayes import models
from skdpbayes.models import mlp

SIZES = {1: (5, 7, 4, 1), 3: (5, 6, 3)}


def data(n_outputs, n=600, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    codes = rng.integers(0, max(2, n_outputs), n)
    parameters = 0.7 * rng.normal(size=models.network_size(SIZES[n_outputs]))
    return X, codes, parameters


def loss(parameters, sizes, X, codes, activation):
    z = models.network_logits(
        models.network_layers(parameters, sizes), X.astype(np.float64), activation
    )
    if z.shape[1] == 1:
        z = np.column_stack([np.zeros(len(z)), z])
    return np.sum(np.logaddexp.reduce(z, axis=1) - z[np.arange(len(z)), codes])


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_gradient_is_that_of_the_loss(n_outputs, activation):
    X, codes, parameters = data(n_outputs)
    sizes = SIZES[n_outputs]
    got = models.clipped_network_gradient(parameters, sizes, X, codes, np.inf, activation)
    rng = np.random.default_rng(0)
    for _ in range(5):
        direction = rng.normal(size=parameters.shape)
        step = 1e-6 * direction
        slope = loss(parameters + step, sizes, X, codes, activation) - loss(
            parameters - step, sizes, X, codes, activation
        )
        assert got @ direction == pytest.approx(slope / 2e-6, rel=1e-3, abs=0.02)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_clipped_sum_equals_records_one_by_one(n_outputs):
    X, codes, parameters = data(n_outputs, n=40)
    sizes, rows = SIZES[n_outputs], np.array([0, 3, 4, 17, 39])
    total = np.zeros_like(parameters)
    norms = []
    for i in rows:
        one = models.clipped_network_gradient(
            parameters, sizes, X, codes, np.inf, "tanh", np.array([i])
        )
        norms.append(np.linalg.norm(one))
        total += one * min(1.0, 0.8 / norms[-1])
    assert min(norms) < 0.8 < max(norms), "both sides of the clipping are tested"
    got = models.clipped_network_gradient(parameters, sizes, X, codes, 0.8, "tanh", rows)
    np.testing.assert_allclose(got, total, rtol=1e-4, atol=1e-4)


def test_no_record_contributes_more_than_the_clipping_norm():
    X, codes, parameters = data(3, n=60)
    for i in range(60):
        one = models.clipped_network_gradient(
            3 * parameters, SIZES[3], X, codes, 0.01, "relu", np.array([i])
        )
        assert np.linalg.norm(one) <= 0.01


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_sums_are_exact_in_any_order(n_outputs, activation):
    """A record's part does not depend on the others: its order and company change no bit."""
    X, codes, parameters = data(n_outputs, n=300)
    X[::3, 1:4] = 0.0
    unit = models.sum_unit(300, 0.3)

    def total(rows, unit=unit):
        return models.clipped_network_gradient(
            parameters, SIZES[n_outputs], X, codes, 0.3, activation, rows, unit=unit
        )

    order = np.random.default_rng(2).permutation(300)
    whole = total(None)
    np.testing.assert_array_equal(total(order), whole)
    np.testing.assert_array_equal(sum(total(order[i : i + 1]) for i in range(300)), whole)
    assert np.all(whole / unit == np.rint(whole / unit))
    assert not np.array_equal(total(order, 0.0), total(None, 0.0))  # without the unit they do


@pytest.mark.parametrize("n_columns", [5, 20_000])
@pytest.mark.parametrize("clip_norm", [0.01, 1e-24, 1e-60])
def test_long_rows_and_tiny_norms_are_clipped(n_columns, clip_norm):
    rng = np.random.default_rng(3)
    sizes = (n_columns, 3, 1)
    X = rng.normal(size=(4, n_columns)).astype(np.float32)
    parameters = rng.normal(size=models.network_size(sizes)) / np.sqrt(n_columns)
    parameters[-1] = 60.0  # a record of class 1 is certain: its residual is about 1e-26
    unit = models.sum_unit(4, clip_norm)
    for i, code in enumerate((0, 1, 0, 1)):
        codes = np.full(4, code)
        one = models.clipped_network_gradient(
            parameters, sizes, X, codes, clip_norm, "tanh", np.array([i]), unit=unit
        )
        rounding = 0.5 * unit * np.sqrt(len(one))
        assert np.linalg.norm(one / clip_norm) <= 1.0 + rounding / clip_norm


def test_tanh():
    x = np.linspace(-30.0, 30.0, 10_001).astype(np.float32)
    values = x.copy()
    mlp._tanh(values)
    np.testing.assert_allclose(values, np.tanh(x.astype(np.float64)), atol=2e-7)


def test_layers_are_views_with_leading_axes():
    parameters = np.arange(2.0 * models.network_size((2, 3, 1))).reshape(2, -1)
    (first, bias), (last, _) = models.network_layers(parameters, (2, 3, 1))
    assert first.shape == (2, 2, 3)
    assert bias.tolist()[0] == [6.0, 7.0, 8.0]
    assert last.shape == (2, 3, 1)
    assert np.shares_memory(first, parameters)


def test_overflow_neither_warns_nor_spreads():
    X, codes, parameters = data(3, n=20)
    X[7] = 3e38
    good = np.delete(np.arange(20), 7)
    with np.errstate(all="raise"):
        got = models.clipped_network_gradient(3 * parameters, SIZES[3], X, codes, 0.5, "relu")
        rest = models.clipped_network_gradient(
            3 * parameters, SIZES[3], X, codes, 0.5, "relu", good
        )
    np.testing.assert_allclose(got, rest, rtol=1e-5, atol=1e-6)


def test_threads_share_the_records_and_change_nothing(monkeypatch):
    """Sums are exact: the same to the last bit. A forked process has threads of its own."""
    X, codes, parameters = data(3, n=301)
    sizes = SIZES[3]
    unit = models.sum_unit(len(X), 0.05)

    def total():
        return models.clipped_network_gradient(
            parameters, sizes, X, codes, 0.05, "tanh", None, None, unit
        )

    alone = total()
    monkeypatch.setattr(mlp, "LEAST_WORK", 1)
    for n_threads in (2, 3, 7):
        monkeypatch.setattr(mlp, "_n_threads", lambda n_threads=n_threads: n_threads)
        np.testing.assert_array_equal(total(), alone)
    monkeypatch.undo()
    assert mlp._threads(0) is not mlp._threads(1)


@pytest.mark.parametrize(("limit", "expected"), [("1", 1), ("", None), ("4,2", None)])
def test_threads_stay_within_the_limits_of_the_environment(limit, expected, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert mlp._n_threads() == (expected or numba.config.NUMBA_NUM_THREADS)


def test_sum_unit_leaves_room_for_all_terms():
    for n_rows in (1, 2, 1000, 10**6 + 1):
        for largest in (1.0, 0.75, 1e-3, 7.0):
            unit = models.sum_unit(n_rows, largest)
            assert n_rows * (largest + unit) <= 2.0**52 * unit
            assert n_rows * largest >= 2.0**49 * unit
