from __future__ import annotations

import numpy as np
import pytest

from skdpbayes.samplers.sgnht import sgnht_init, sgnht_step


def test_one_step_by_hand():
    state = sgnht_init(np.array([1.0, 0.0]), np.array([2.0, -1.0]), 0.5)
    new = sgnht_step(
        state, np.array([1.0, 1.0]), np.array([1.0, 0.0]), step_size=0.1, diffusion=0.5
    )
    momentum = np.array([2.0, -1.0]) * 0.95 - 0.1 + np.sqrt(0.1) * np.array([1.0, 0.0])
    np.testing.assert_allclose(new.momentum, momentum)
    np.testing.assert_allclose(new.position, [1.0, 0.0] + 0.1 * momentum)
    assert new.thermostat == pytest.approx(0.5 + 0.1 * (np.mean(momentum**2) - 1))


def test_the_thermostat_absorbs_gradient_noise():
    """A normal target of 50 coordinates keeps unit variance although its gradients are noisy."""
    rng = np.random.default_rng(0)
    state = sgnht_init(np.zeros(50), rng.normal(size=50), 1.0)
    squares = []
    for step in range(6000):
        gradient = state.position + 2.0 * rng.normal(size=50)
        state = sgnht_step(state, gradient, rng.normal(size=50), step_size=0.05, diffusion=1.0)
        if step >= 1000:
            squares.append(state.position**2)
    variance = float(np.mean(squares))
    assert variance == pytest.approx(1.0, abs=0.15)
    # the noise of the gradients raises the friction from 1 to 1 + h 2^2 / 2
    assert state.thermostat == pytest.approx(1.1, abs=0.5)
