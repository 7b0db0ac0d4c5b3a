from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skdpbayes.samplers.diagnostics import effective_sample_size
from skdpbayes.samplers.hmc import (
    StepSizeState,
    drift_in_ball,
    hmc_init,
    hmc_step,
    tune_step_size,
)

PRECISION = np.array([1.0, 4.0, 0.5])


def normal_potential(q):
    return 0.5 * (PRECISION * q * q).sum(axis=1), PRECISION * q


def run(potential, start, n, step, leaps, seed=0, **options):
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
            **options,
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


BALL = {
    "center": np.array([0.5, -0.2]),
    "transform": np.array([[0.8, 0.3], [0.0, 1.4]]),
    "radius": 1.0,
}


def in_ball(q):
    return np.linalg.norm(BALL["center"] + q @ BALL["transform"], axis=1) <= BALL["radius"]


def test_a_drift_bounces_keeps_its_energy_and_can_be_walked_back():
    rng = np.random.default_rng(4)
    start = 0.1 * rng.normal(size=(50, 2))
    momentum = rng.normal(size=(50, 2))
    end, after = drift_in_ball(start, momentum, 5.0, **BALL)
    assert np.all(in_ball(end))
    assert np.any(np.linalg.norm(after - momentum, axis=1) > 0.1)
    np.testing.assert_allclose((after**2).sum(axis=1), (momentum**2).sum(axis=1), rtol=1e-10)
    back, reversed_ = drift_in_ball(end, -after, 5.0, **BALL)
    np.testing.assert_allclose(back, start, atol=1e-7)
    np.testing.assert_allclose(-reversed_, momentum, atol=1e-7)
    inside, same = drift_in_ball(start, momentum, 1e-3, **BALL)
    np.testing.assert_array_equal(inside, start + 1e-3 * momentum)
    assert same is momentum


def test_a_drift_that_bounces_forever_is_given_up():
    end, _ = drift_in_ball(np.zeros((1, 2)), np.full((1, 2), 1e3), 10.0, **BALL)
    assert np.all(np.isnan(end))


def test_bouncing_chains_are_uniform_on_the_ball():
    """A flat potential: the squared norm of a uniform point of the disk is uniform."""

    def flat(q):
        return np.zeros(len(q)), np.zeros_like(q)

    def drift(position, momentum, time):
        return drift_in_ball(position, momentum, time, **BALL)

    draws, _ = run(flat, np.zeros((4, 2)), 2000, 0.9, 2, support=in_ball, drift=drift)
    theta = BALL["center"] + draws[:, ::3] @ BALL["transform"]
    squares = (theta**2).sum(axis=2).ravel()
    assert stats.kstest(squares, "uniform").pvalue > 1e-3
    assert stats.kstest(squares * 0.9, "uniform").pvalue < 1e-6
    angles = np.arctan2(theta[..., 1], theta[..., 0]).ravel() / (2 * np.pi) + 0.5
    assert stats.kstest(angles, "uniform").pvalue > 1e-3
