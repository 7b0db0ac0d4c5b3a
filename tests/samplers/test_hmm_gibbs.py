from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import gammaln

from skdpbayes.samplers import hmm_gibbs

START = np.array([0.6, 0.4])
TRANSITION = np.array([[0.8, 0.2], [0.3, 0.7]])
LOG_LIKE = np.array([[0.0, -1.0], [-0.5, 0.3], [0.2, -0.2]])
PATHS = np.array(list(product(range(2), repeat=3)))


def frequencies(draws):
    codes = draws @ (2 ** np.arange(draws.shape[1])[::-1])
    return np.bincount(codes, minlength=2 ** draws.shape[1]) / draws.shape[0]


def close(observed, expected, n, errors=4.5):
    """Within 4.5 standard errors: a false alarm in 10^5 tests a cell."""
    return np.all(np.abs(observed - expected) < errors * np.sqrt(expected * (1 - expected) / n))


def test_count_transitions_by_hand():
    states = np.array([0, 1, 1, 0, 0, 1])
    first, moves = hmm_gibbs.count_transitions(states, np.array([0, 3, 3, 6]), 2)
    np.testing.assert_array_equal(first, [2, 0])
    np.testing.assert_array_equal(moves, [[1, 2], [0, 1]])


def test_ffbs_draws_whole_paths_from_their_joint_law():
    weight = START[PATHS[:, 0]] * TRANSITION[PATHS[:, :-1], PATHS[:, 1:]].prod(axis=1)
    weight *= np.exp(LOG_LIKE[np.arange(3), PATHS].sum(axis=1))
    n = 100_000
    rows = np.tile(LOG_LIKE, (n, 1))
    uniforms = np.random.default_rng(0).random(3 * n)
    states, log_likelihood = hmm_gibbs.sample_states_ffbs(
        rows, np.arange(n + 1) * 3, START, TRANSITION, uniforms
    )
    np.testing.assert_allclose(log_likelihood / n, np.log(weight.sum()), rtol=1e-9)
    observed = frequencies(states.reshape(n, 3))
    assert close(observed, weight / weight.sum(), n)
    assert not close(observed, np.roll(weight, 1) / weight.sum(), n)


def collapsed_log_weight(path, alpha_start, alpha):
    """Joint log-probability of a path, start and transition probabilities integrated out."""
    first, moves = hmm_gibbs.count_transitions(path, np.array([0, path.shape[0]]), 2)
    total = np.log((first + alpha_start).prod())
    for row, prior in zip(moves, alpha, strict=True):
        total += (gammaln(row + prior) - gammaln(prior)).sum()
        total += gammaln(prior.sum()) - gammaln(row.sum() + prior.sum())
    return total + LOG_LIKE[np.arange(path.shape[0]) % 3, path].sum()


def test_collapsed_sweeps_leave_the_collapsed_posterior_invariant():
    alpha = np.array([[2.5, 0.5], [0.5, 1.5]])
    paths = np.array(list(product(range(2), repeat=5)))
    weight = np.array([collapsed_log_weight(path, 0.7, alpha) for path in paths])
    expected = np.exp(weight - weight.max())
    expected /= expected.sum()
    rows = LOG_LIKE[np.arange(5) % 3]
    n = 15_000
    uniforms = np.random.default_rng(1).random((n, 5))
    states = np.zeros(5, dtype=np.int64)
    draws = np.empty((n, 5), dtype=np.int64)
    for i in range(n):
        states = hmm_gibbs.sweep_states_collapsed(
            states, rows, np.array([0, 5]), 0.7, alpha, uniforms[i]
        )
        draws[i] = states
    observed = frequencies(draws)
    # Successive draws depend on each other: a sixth of them count as independent.
    assert close(observed, expected, n / 6)
    assert not close(observed, np.full(32, 1 / 32), n / 6)


def test_normalize_gammas_makes_blocks_of_probabilities():
    rng = np.random.default_rng(0)
    result = hmm_gibbs.normalize_gammas(rng.gamma(2.0, size=(4, 5)), np.array([0, 2, 5]))
    np.testing.assert_allclose(result[:, :2].sum(axis=1), 1.0)
    np.testing.assert_allclose(result[:, 2:].sum(axis=1), 1.0)
    zero = hmm_gibbs.normalize_gammas(np.zeros((1, 2)), np.array([0, 2]))
    np.testing.assert_allclose(zero, 0.5)
