from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers.diagnostics import effective_sample_size
from skdpbayes.samplers.hmc import StepSizeState, hmc_init, hmc_step, tune_step_size

PRECISION = np.array([1.0, 4.0, 0.5])


def normal_potential(q):
    return 0.5 * (PRECISION * q * q).sum(axis=1), PRECISION * q


def run(potential, start, n, step, leaps, seed=0, support=None):
    rng = np.random.default_rng(seed)
    state = hmc_init(start, potential)
    states, accepts = [], []
    for _ in range(n):
        state, acceptance = hmc_step(
            state,
            potential,
            rng.normal(size=start.shape),
            np.log(rng.random(len(start))),
            step_size=step,
            n_leapfrog=leaps,
            support=support,
        )
        states.append(state.position)
        accepts.append(acceptance.mean())
    return np.stack(states, axis=1), np.mean(accepts)


def test_a_trajectory_can_be_walked_back():
    start = np.array([[0.3, -1.0, 2.0]])
    momentum = np.array([[1.0, 0.5, -0.7]])
    sure = np.full(1, -np.inf)  # accept whatever happens
    forth, _ = hmc_step(
        hmc_init(start, normal_potential),
        normal_potential,
        momentum,
        sure,
        step_size=0.1,
        n_leapfrog=7,
    )
    # the end momentum, from the same leapfrog in two lines
    q, p = start.copy(), momentum - 0.05 * normal_potential(start)[1]
    for leap in range(7):
        q = q + 0.1 * p
        p = p - (0.05 if leap == 6 else 0.1) * normal_potential(q)[1]
    back, _ = hmc_step(forth, normal_potential, -p, sure, step_size=0.1, n_leapfrog=7)
    np.testing.assert_allclose(forth.position, q, rtol=1e-14)
    np.testing.assert_allclose(back.position, start, rtol=1e-12)


def test_variances_of_a_normal_target_two_sided():
    """Each chi-square interval fails by chance with probability 1e-4; the seed is fixed."""
    draws, acceptance = run(normal_potential, np.zeros((4, 3)), 2000, 0.7, 3)
    size = effective_sample_size(draws**2)
    variance = (draws**2).mean(axis=(0, 1)) * PRECISION
    margin = 3.9 * np.sqrt(2 / size)
    assert np.all(np.abs(variance - 1) < margin)
    assert np.all(np.abs(variance * 2 / 3 - 1) > margin)  # margin is below 1/3: 3/2 is caught
    assert np.all(np.abs(variance * 3 / 2 - 1) > margin)
    assert 0.7 < acceptance < 1.0


def test_points_outside_the_support_are_never_visited():
    def normal(q):
        return 0.5 * (q * q).sum(axis=1), q

    draws, _ = run(normal, np.full((8, 1), 0.5), 3000, 0.9, 2, support=lambda q: q[:, 0] >= 0.0)
    assert draws.min() >= 0.0
    thinned = draws[:, ::15, 0].ravel()
    assert stats.kstest(thinned, stats.halfnorm.cdf).pvalue > 1e-3
    assert stats.kstest(thinned * 1.5, stats.halfnorm.cdf).pvalue < 1e-6


def test_dual_averaging_finds_the_wanted_acceptance():
    rng = np.random.default_rng(1)
    state = hmc_init(np.zeros((4, 3)), normal_potential)
    tuning = StepSizeState.start(0.01)
    for _ in range(400):
        state, acceptance = hmc_step(
            state,
            normal_potential,
            rng.normal(size=(4, 3)),
            np.log(rng.random(4)),
            step_size=float(np.exp(tuning.log_step)),
            n_leapfrog=3,
        )
        tuning = tune_step_size(tuning, float(acceptance.mean()), 0.8)
    step = float(np.exp(tuning.log_step_average))
    _, reached = run(normal_potential, state.position, 1000, step, 3)
    assert reached == pytest.approx(0.8, abs=0.06)
