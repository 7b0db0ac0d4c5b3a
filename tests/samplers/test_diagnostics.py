from __future__ import annotations

import numpy as np
import pytest

from skdpbayes.samplers.diagnostics import effective_sample_size, split_r_hat


def autoregressive(coefficient, shape, seed=0):
    rng = np.random.default_rng(seed)
    chains = np.empty(shape)
    state = rng.normal(size=(shape[0], shape[2]))
    for t in range(shape[1]):
        noise = rng.normal(size=state.shape)
        state = coefficient * state + np.sqrt(1 - coefficient**2) * noise
        chains[:, t] = state
    return chains


@pytest.mark.parametrize("coefficient", [-0.4, 0.0, 0.5, 0.9])
def test_effective_sample_size_of_an_autoregression(coefficient):
    chains = autoregressive(coefficient, (4, 4000, 5))
    expected = 16000 * (1 - coefficient) / (1 + coefficient)
    assert effective_sample_size(chains).mean() == pytest.approx(expected, rel=0.12)


def test_r_hat_tells_agreement_from_disagreement():
    chains = autoregressive(0.3, (4, 1000, 2))
    assert np.all(np.abs(split_r_hat(chains) - 1) < 0.02)
    chains[0, :, 1] += 3.0
    assert split_r_hat(chains)[1] > 1.3
    drifting = chains + np.linspace(0, 3, 1000)[None, :, None]
    assert np.all(split_r_hat(drifting) > 1.1)
