from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from skdpbayes import datasets


def test_two_normals_match_their_formula():
    sample = datasets.make_two_normals(
        40_000, 3, separation=2.0, scale=1.5, balance=0.3, random_state=0
    )
    assert stats.binomtest(int(sample.target.sum()), 40_000, 0.3).pvalue > 1e-3
    for label in (0, 1):
        part = sample.data[sample.target == label]
        np.testing.assert_allclose(part.mean(axis=0), sample.means[label], atol=0.05)
        np.testing.assert_allclose(np.cov(part.T), 1.5**2 * np.eye(3), atol=0.1)
    assert np.linalg.norm(sample.means[1] - sample.means[0]) == pytest.approx(2.0)
    predicted = sample.data @ sample.coef + sample.intercept > 0
    hits = int((predicted == sample.target).sum())
    assert stats.binomtest(hits, 40_000, sample.accuracy).pvalue > 1e-3
    model = LogisticRegression(C=1e6).fit(sample.data, sample.target)
    np.testing.assert_allclose(model.coef_[0], sample.coef, atol=0.05)
    np.testing.assert_allclose(model.intercept_, sample.intercept, atol=0.05)


def test_two_normals_options():
    X, y = datasets.make_two_normals(100, 4, norm=0.5, return_X_y=True, random_state=1)
    assert X.shape == (100, 4)
    assert (np.linalg.norm(X, axis=1) <= 0.5).all()
    assert set(y) == {0, 1}
    assert datasets.make_two_normals(9, separation=0.0, balance=0.2).accuracy == 0.8
    for bad in ({"separation": -1}, {"scale": 0}, {"balance": 1.0}, {"n_samples": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            datasets.make_two_normals(**bad)


def test_beta_bernoulli():
    sample = datasets.make_beta_bernoulli(10_000, 0.2, alpha=2, beta=3, random_state=0)
    ones = int(sample.data.sum())
    assert stats.binomtest(ones, 10_000, 0.2).pvalue > 1e-3
    assert sample.posterior == (2 + ones, 3 + 10_000 - ones)
    draws = [datasets.make_beta_bernoulli(1, alpha=2, beta=5, random_state=k).p for k in range(400)]
    assert stats.kstest(draws, stats.beta(2, 5).cdf).pvalue > 1e-3
    with pytest.raises(ValueError, match="p must be"):
        datasets.make_beta_bernoulli(10, 1.5)


def test_event_log_follows_its_parameters():
    log = datasets.make_event_log(
        30, 200, 20, n_states=3, categories=(6, 2), stickiness=0.8, random_state=0
    )
    assert log.data.shape == (30 * 200 * 20, 2)
    assert np.bincount(log.sequences * 200 + log.times, minlength=6000).tolist() == [20] * 6000
    np.testing.assert_allclose(log.transition.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.diag(log.transition), 0.8)
    moves = np.zeros((3, 3))
    np.add.at(moves, (log.states[:, :-1].ravel(), log.states[:, 1:].ravel()), 1)
    np.testing.assert_allclose(moves / moves.sum(1, keepdims=True), log.transition, atol=0.05)
    state = log.states[log.sequences, log.times]
    for k in range(3):
        for field, table in enumerate(log.emission):
            counts = np.bincount(log.data[state == k, field], minlength=table.shape[1])
            np.testing.assert_allclose(counts / counts.sum(), table[k], atol=0.01)
    starts = datasets.make_event_log(3000, 1, 0, n_states=4, random_state=1).states
    assert stats.chisquare(np.bincount(starts.ravel())).pvalue > 1e-3


def test_event_log_counts_and_errors():
    log = datasets.make_event_log(50, 40, 0.7, vary_counts=True, random_state=0)
    assert abs(len(log.data) / 2000 - 0.7) < 0.08
    single = datasets.make_event_log(2, 2, 5, n_states=1, categories=[3], random_state=0)
    assert single.transition.tolist() == [[1.0]]
    with pytest.raises(TypeError, match="events_per_cell must be an integer"):
        datasets.make_event_log(events_per_cell=0.5)
    with pytest.raises(ValueError, match="stickiness"):
        datasets.make_event_log(stickiness=1.1)
    with pytest.raises(ValueError, match="at least one field"):
        datasets.make_event_log(categories=())


def test_census_is_learnable_but_not_trivially():
    X, y = datasets.make_census(40_000, encoding="raw", return_X_y=True, random_state=0)
    assert X.shape == (40_000, 21)
    assert (np.linalg.norm(X, axis=1) <= 1).all()
    assert 0.27 < y.mean() < 0.33
    accuracy = LogisticRegression().fit(X[:20_000], y[:20_000]).score(X[20_000:], y[20_000:])
    assert 0.84 < accuracy < 0.87


def test_census_keeps_its_public_bounds():
    census = datasets.make_census(5000, as_frame=True, random_state=1)
    for name, (low, high) in census.bounds.items():
        assert census.data[name].between(low, high).all()
    for name, labels in census.categories.items():
        assert set(census.data[name]) <= set(labels)
    bins = datasets.make_census(5000, encoding="bins", random_state=1)
    assert bins.data.shape == (5000, 8)
    assert (bins.data < bins.n_categories).all()
    assert datasets.make_census(10, random_state=0).data.dtype == object


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: datasets.make_two_normals(5, random_state=seed).data,
        lambda seed: datasets.make_beta_bernoulli(50, random_state=seed).data,
        lambda seed: datasets.make_event_log(2, 3, 5, random_state=seed).data,
        lambda seed: datasets.make_census(20, encoding="raw", random_state=seed).data,
    ],
)
def test_random_state(make):
    np.testing.assert_array_equal(make(3), make(3))
    np.testing.assert_array_equal(make(3), make(np.random.default_rng(3)))
    state = np.random.RandomState(0)
    assert not np.array_equal(make(state), make(state))
    assert not np.array_equal(make(None), make(None))


def test_pandas_is_not_needed():
    code = (
        "import sys; sys.modules['pandas'] = None;"  # as if it were not installed
        "from skdpbayes import datasets;"
        "datasets.make_census(10); datasets.make_census(10, encoding='raw');"
        "datasets.make_event_log(2, 2, 2);"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
