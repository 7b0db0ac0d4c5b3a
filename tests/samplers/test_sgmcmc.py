"""Samplers with noisy gradients on a normal target: mean and covariance in the long run.

Each chain of 4000 states in 400 parallel copies; a covariance off by a factor 2/3 or 3/2 is many
standard errors away.
"""

from __future__ import annotations

import numpy as np
import pytest

from skdpbayes import samplers

PRECISION = np.array([[4.0, 1.0], [1.0, 2.0]])
MEAN = np.array([1.0, -2.0])
COPIES = 400


def run(sampler, *, step, batch_noise=0.0, n_steps=2500, burn_in=500, seed=0, friction=1.0):
    """Run chains on a normal target; return draws (n, 2)."""
    rng = np.random.default_rng(seed)
    position = np.tile(MEAN, (COPIES, 1))
    state = None
    draws = []
    if sampler == "sghmc":
        state = samplers.SGHMCState(position, rng.normal(size=position.shape))
        injected = 2.0 * friction / step
    elif sampler == "sgfs":
        injected = 4.0 / step
        matrix = samplers.sgfs_preconditioner(
            PRECISION / 10, np.zeros((2, 2)), n_samples=10, batch_size=10, noise_variance=injected
        )
    else:
        injected = 2.0 / step
    for t in range(n_steps):
        noise = np.sqrt(injected + batch_noise) * rng.normal(size=position.shape)
        gradient = (position - MEAN) @ PRECISION + noise
        if sampler == "sgld":
            position = samplers.sgld_step(position, gradient, step_size=step)
        elif sampler == "sgfs":
            position = samplers.sgfs_step(position, gradient, matrix)
        else:
            state = samplers.sghmc_step(state, gradient, step_size=step, friction=friction)
            position = state.position
        if t >= burn_in and t % 5 == 0:
            draws.append(position)
    return np.concatenate(draws)


def thermostat(*, step, batch_noise, diffusion=1.0, n_steps=6000, burn_in=2000, seed=0):
    """A thermostat per dimension-many copies: all coordinates share one friction."""
    rng = np.random.default_rng(seed)
    position = np.tile(MEAN, (COPIES, 1))
    state = samplers.sgnht_init(position, rng.normal(size=position.shape), diffusion)
    draws = []
    for t in range(n_steps):
        injected = 2.0 * diffusion / step
        noise = np.sqrt(injected + batch_noise) * rng.normal(size=position.shape)
        gradient = (state.position - MEAN) @ PRECISION + noise
        state = samplers.sgnht_step(state, gradient, np.zeros(()), step_size=step, diffusion=0.0)
        if t >= burn_in and t % 5 == 0:
            draws.append(state.position)
    return np.concatenate(draws)


def ratio(draws):
    """Eigenvalues of the covariance relative to the target's: 1 if right."""
    root = np.linalg.cholesky(PRECISION)
    return np.linalg.eigvalsh(root.T @ np.cov(draws.T) @ root)


@pytest.mark.parametrize(
    ("sampler", "step"), [("sgld", 0.01), ("sghmc", 0.05), ("sgfs", 0.3), ("sgfs", 5.0)]
)
def test_long_run_mean_and_covariance(sampler, step):
    draws = run(sampler, step=step)
    np.testing.assert_allclose(draws.mean(axis=0), MEAN, atol=0.02)
    assert np.all(np.abs(ratio(draws) - 1.0) < 0.06), ratio(draws)


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_the_check_rejects_a_wrong_temperature(factor):
    wrong = run("sgld", step=0.01, batch_noise=(factor - 1.0) * 200.0)
    assert np.all(np.abs(ratio(wrong) - 1.0) > 0.06)


def test_bias_of_langevin_dynamics_shrinks_with_the_step():
    far, near = (np.abs(ratio(run("sgld", step=h)) - 1.0).max() for h in (0.2, 0.02))
    assert far > 0.3
    assert near < 0.1


def test_thermostat_absorbs_batch_noise_that_langevin_dynamics_does_not():
    hot = ratio(run("sgld", step=0.05, batch_noise=40.0))
    assert np.all(hot > 1.5)
    kept = ratio(thermostat(step=0.05, batch_noise=40.0))
    assert np.all(np.abs(kept - 1.0) < 0.1), kept


def test_one_step_of_each_by_hand():
    g = np.array([1.0, -2.0])
    np.testing.assert_allclose(samplers.sgld_step(np.ones(2), g, step_size=0.5), [0.5, 2.0])
    state = samplers.SGHMCState(np.zeros(2), np.ones(2))
    new = samplers.sghmc_step(state, g, step_size=0.1, friction=2.0)
    np.testing.assert_allclose(new.momentum, [0.7, 1.0])
    np.testing.assert_allclose(new.position, [0.07, 0.1])
