from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from skdpbayes.models import hmm

START = np.array([0.5, 0.3, 0.2])
TRANSITION = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
STARTS = np.array([0, 3, 3, 7])  # chains of 3, 0 and 4 steps


def log_like(seed=0):
    return np.random.default_rng(seed).normal(scale=2.0, size=(7, 3)) - 800.0


def enumerate_chain(rows):
    """Log-weights of all paths of one chain."""
    paths = np.array(list(product(range(3), repeat=len(rows))))
    weight = np.log(START)[paths[:, 0]] + rows[np.arange(len(rows)), paths].sum(axis=1)
    weight += np.log(TRANSITION)[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return paths, weight


def test_count_events_equals_a_loop():
    rng = np.random.default_rng(0)
    categories = np.array([3, 2])
    codes = np.column_stack([rng.integers(3, size=50), rng.integers(2, size=50)])
    steps = rng.integers(4, size=50)
    expected = np.zeros((6, 5), dtype=int)
    for step, (first, second) in zip(steps, codes, strict=True):
        expected[step, first] += 1
        expected[step, 3 + second] += 1
    np.testing.assert_array_equal(hmm.count_events(codes, steps, 6, categories), expected)


def test_count_log_likelihood_is_the_sum_over_events():
    emission = np.array([[0.2, 0.8, 0.5, 0.25, 0.25], [0.6, 0.4, 0.1, 0.0, 0.9]])
    counts = np.array([[2.0, 1.0, 0.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    result = hmm.count_log_likelihood(counts, emission)
    assert result[0, 0] == pytest.approx(2 * np.log(0.2) + np.log(0.8) + 3 * np.log(0.25))
    assert np.isfinite(result[0, 1])
    assert result[0, 1] < -2000  # an impossible value, three times
    np.testing.assert_array_equal(result[1], 0.0)


def test_count_emissions_adds_up_by_state():
    counts = np.arange(12.0).reshape(4, 3)
    total = hmm.count_emissions(counts, np.array([1, 0, 1, 1]), 3)
    np.testing.assert_array_equal(total, [[3, 4, 5], [15, 18, 21], [0, 0, 0]])


def test_chain_log_likelihood_sums_all_paths():
    rows = log_like()
    expected = [logsumexp(enumerate_chain(rows[:3])[1]), 0.0]
    expected.append(logsumexp(enumerate_chain(rows[3:])[1]))
    result = hmm.chain_log_likelihood(rows, STARTS, START, TRANSITION)
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_smoothing_marginalizes_all_paths():
    rows = log_like(1)
    smooth = hmm.smooth_states(rows, STARTS, START, TRANSITION)
    for low, high in ((0, 3), (3, 7)):
        paths, weight = enumerate_chain(rows[low:high])
        probability = np.exp(weight - logsumexp(weight))
        for t in range(high - low):
            expected = np.bincount(paths[:, t], weights=probability, minlength=3)
            np.testing.assert_allclose(smooth[low + t], expected, atol=1e-12)


def test_recursions_survive_extreme_likelihoods():
    rows = np.array([[0.0, -5000.0, -9000.0], [-8000.0, 0.0, -1.0], [-1e5, -1e5 - 3, -1e5]])
    starts = np.array([0, 3])
    smooth = hmm.smooth_states(rows, starts, START, TRANSITION)
    assert np.all(np.isfinite(smooth))
    np.testing.assert_allclose(smooth.sum(axis=1), 1.0)
    assert smooth[0, 0] == pytest.approx(1.0)
    assert np.isfinite(hmm.chain_log_likelihood(rows, starts, START, TRANSITION)).all()


def test_single_event_likelihood_sums_over_the_value():
    begin = np.array([0, 2, 5])
    evidence = np.array([[1.0, 3.0, 0.5, 2.0, 1.0]])
    emission = np.array([[0.3, 0.7, 0.2, 0.3, 0.5]])
    expected = np.log(0.3 + 2.1) + np.log(0.1 + 0.6 + 0.5)
    result = hmm.single_event_log_likelihood(evidence, emission, begin)
    assert result[0, 0] == pytest.approx(expected)
