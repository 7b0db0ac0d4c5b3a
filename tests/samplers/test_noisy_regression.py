"""Draws from noisy regression moments: the density written out, quadrature, and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skdpbayes.samplers import noisy_regression_log_density, sample_noisy_regression

A, B, G, K = 0.5, np.sqrt(0.125), 1.0, 0.5  # weights of the sums of x, y, xy and yy
LEFT, TAU, PRIOR, LOG_MEAN, LOG_SD, MIDDLE_SD = 0.7, 6.0, 0.8, -2.0, 1.2, 0.9


def noise_covariance(alpha, beta, intercept=True, left=1.0):
    """Covariance of the residuals (u_0, u_x, w) from unit noise, entry by entry."""
    d, square = len(beta), float(beta @ beta)
    of_x, of_y = (1 / A**2, 1 / B**2) if intercept else (0.0, 0.0)
    C = np.zeros((d + 2, d + 2))
    C[0, 0] = of_y + square * of_x
    C[0, 1:-1] = C[1:-1, 0] = alpha * beta * of_x
    diagonal = 1 / G**2 + alpha**2 * of_x + left * square / 2
    C[1:-1, 1:-1] = diagonal * np.eye(d) + left * np.outer(beta, beta) / 2
    C[-1, -1] = 1 / K**2 + 4 * alpha**2 * of_y + 4 * square / G**2
    C[-1, -1] += 4 * alpha**2 * square * of_x + left * square**2
    C[0, -1] = C[-1, 0] = -2 * alpha * of_y - 2 * alpha * square * of_x
    C[1:-1, -1] = -beta * (2 / G**2 + 2 * alpha**2 * of_x + left * square)
    C[-1, 1:-1] = C[1:-1, -1]
    return C


def test_noise_covariance_is_that_of_simulated_noise():
    rng = np.random.default_rng(0)
    alpha, beta = 0.3, np.array([0.9, -0.4, 0.2])
    n = 200_000
    e0, ex = rng.normal(size=n) / B, rng.normal(size=(n, 3)) / G
    E0, ey = rng.normal(size=(n, 3)) / A, rng.normal(size=n) / K
    E = rng.normal(size=(n, 3, 3)) / np.sqrt(2.0)
    E = np.tril(E, -1) + np.tril(E, -1).transpose(0, 2, 1)
    E[:, range(3), range(3)] = rng.normal(size=(n, 3))
    u0 = e0 - E0 @ beta
    ux = ex - alpha * E0 - E @ beta
    w = ey - 2 * alpha * e0 - 2 * ex @ beta + 2 * alpha * E0 @ beta
    w += np.einsum("i,nij,j->n", beta, E, beta)
    found = np.cov(np.column_stack([u0, ux, w]), rowvar=False)
    expected = noise_covariance(alpha, beta)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((found - expected) / scale).max() < 0.015
    checked = [(0, 0, 12.04), (0, 1, 1.08), (1, 1, 2.27), (1, 2, -0.18), (2, 2, 1.945)]
    checked += [(-1, -1, 13.3945), (0, -1, -7.224), (1, -1, -3.357)]
    for i, j, value in checked:
        assert expected[i, j] == pytest.approx(value, abs=1e-9)


def problem(d, intercept, seed=0, n=500, tau=TAU):
    """Noisy moments in some basis, and the same in the eigenvectors."""
    rng = np.random.default_rng(seed)
    mean = 0.3 * rng.normal(size=d) if intercept else np.zeros(d)
    root = rng.normal(size=(d, d))
    square = 0.1 * n * (root @ root.T) / d - 0.02 * n * np.eye(d)
    cross, target_square = 0.1 * n * rng.normal(size=d), 0.2 * n
    target_mean = 0.1 if intercept else 0.0
    values, vectors = np.linalg.eigh(square)
    tables = (values, np.maximum(values, 5.0), vectors.T @ cross, vectors.T @ mean)
    noises = [1 / A**2, 1 / B**2] if intercept else [0.0, 0.0]
    of_noise = [tau**2, *noises, 1 / G**2, 1 / K**2, LEFT]
    priors = [PRIOR**2, LOG_MEAN, LOG_SD, MIDDLE_SD]
    numbers = np.array([n, target_mean, target_square, *of_noise, *priors])
    return tables, numbers, vectors


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_log_density_is_the_normal_density_of_the_residuals(d, intercept):
    """Against scipy's normal density with the dense covariance, in the original coordinates."""
    tables, numbers, vectors = problem(d, intercept)
    values, spread, cross, mean = tables
    n, target_mean, target_square = numbers[:3]
    rng = np.random.default_rng(1)

    def plain(state):
        beta, variance = vectors @ state[1:-1], np.exp(state[-1])
        m = vectors @ mean
        alpha = state[0] - m @ beta if intercept else 0.0
        # sums around 0 from those around the means
        sum_y, sum_x = n * target_mean, n * m
        A = vectors @ np.diag(values) @ vectors.T + n * np.outer(m, m)
        b = vectors @ cross + n * target_mean * m
        yy = target_square + n * target_mean**2
        u0 = sum_y - n * alpha - sum_x @ beta
        ux = b - sum_x * alpha - A @ beta
        w = yy - 2 * alpha * sum_y - 2 * beta @ b
        w += n * alpha**2 + 2 * alpha * sum_x @ beta + beta @ A @ beta
        S = TAU**2 * noise_covariance(alpha, beta, intercept, LEFT)
        design = vectors @ np.diag(spread) @ vectors.T + n * np.outer(m, m)
        S[1:-1, 1:-1] += variance * design
        S[0, 0] += variance * n
        S[0, 1:-1] += variance * sum_x
        S[1:-1, 0] += variance * sum_x
        S[-1, -1] += 2 * n * variance**2
        q = np.concatenate([[u0], ux, [w - n * variance]])
        first = 0 if intercept else 1
        value = multivariate_normal(np.zeros(d + 2 - first), S[first:, first:]).logpdf(q[first:])
        prior = -0.5 * beta @ beta / PRIOR**2 - 0.5 * ((state[-1] - LOG_MEAN) / LOG_SD) ** 2
        return value + prior - 0.5 * (state[0] / MIDDLE_SD) ** 2

    states = np.column_stack(
        [rng.normal(size=8) if intercept else np.zeros(8), rng.normal(size=(8, d + 1))]
    )
    fast = [noisy_regression_log_density(s, *tables, numbers, intercept) for s in states]
    slow = [plain(s) for s in states]
    np.testing.assert_allclose(np.diff(fast), np.diff(slow), rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize(("tau", "seed"), [(6.0, 0), (40.0, 3)])
def test_draws_have_the_moments_of_a_quadrature(tau, seed):
    """One column, no intercept: the posterior of (beta, log s2) summed over a grid."""
    tables, numbers, _ = problem(1, False, seed, tau=tau)
    grid_b, grid_l = np.linspace(-4, 4, 401), np.linspace(-7, 3, 301)
    states = np.stack(np.meshgrid([0.0], grid_b, grid_l, indexing="ij"), axis=-1)[0]
    logs = np.array(
        [[noisy_regression_log_density(s, *tables, numbers, False) for s in row] for row in states]
    )
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    expected_b = mass.sum(axis=1) @ np.column_stack([grid_b, grid_b**2])
    expected_l = mass.sum(axis=0) @ np.column_stack([grid_l, grid_l**2])
    rng = np.random.default_rng(0)
    state, steps = np.array([0.0, 0.0, -2.0]), np.log([1.0, 0.3, 0.5])

    def run(n_sweeps, adapted):
        noise = rng.normal(size=(n_sweeps, 3)), rng.random((n_sweeps, 3))
        return sample_noisy_regression(state, steps, tables, numbers, False, *noise, adapted)

    run(1000, 0)
    draws = run(60_000, -1)
    assert np.all(draws[:, 0] == 0.0)  # there is no intercept to move
    for column, (first, second) in ((1, expected_b), (2, expected_l)):
        deviation = np.sqrt(second - first**2)
        assert abs(draws[:, column].mean() - first) < 0.08 * deviation
        assert draws[:, column].std() == pytest.approx(deviation, rel=0.08)


def test_a_kernel_is_a_function_of_its_noise():
    tables, numbers, _ = problem(3, True)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(50, 5)), rng.random((50, 5))
    runs = [
        sample_noisy_regression(np.zeros(5), np.full(5, -1.0), tables, numbers, True, *noise, 0)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*runs)
    assert len(np.unique(runs[0][:, 1])) > 5
