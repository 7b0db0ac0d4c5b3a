"""The accountant against lower bounds on the truth that are not its own."""

from __future__ import annotations

import pytest

from skdpbayes.privacy import (
    SubsampledGaussian,
    repeat,
    subsampled_noise_multiplier,
)
from tests.privacy.accounting_reference import Step, epsilon_above, two_outcomes

# Rare, large losses: (event, steps, delta, an epsilon below the truth, found by other means)
RARE = [
    ((0.519, 1.744e-6, "poisson", "replace_one"), 23, 1.966e-10, 0.0327),
    ((1.123, 1.561e-6, "fixed", "replace_one"), 512, 1.531e-11, 0.0768),
    ((0.988, 7.11e-8, "fixed", "zero_out"), 50, 1.568e-11, 0.00254),
]


@pytest.mark.parametrize(("one", "count", "delta", "truth"), RARE)
def test_rare_losses_are_not_forgotten(
    one: tuple[float, float, str, str], count: int, delta: float, truth: float
) -> None:
    event = repeat(SubsampledGaussian(*one), count)
    epsilon = event.epsilon_at(delta)
    assert epsilon >= truth
    assert epsilon >= epsilon_above(Step(*one, count), delta)
    assert epsilon >= SubsampledGaussian(*one).epsilon_at(delta)
    assert event.delta_at(epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "count", "sampling", "adjacency"),
    [
        (0.0721686, 3.12044e-10, 1 / 134_139, 41, "fixed", "zero_out"),
        (0.0241, 1e-9, 1 / 440_908, 48, "poisson", "replace_one"),
        (0.0241, 1e-10, 1 / 440_908, 48, "poisson", "replace_one"),
    ],
)
def test_calibrated_noise_is_enough_for_rare_losses(
    epsilon: float, delta: float, rate: float, count: int, sampling: str, adjacency: str
) -> None:
    noise = subsampled_noise_multiplier(
        epsilon, delta, sampling_rate=rate, n_steps=count, sampling=sampling, adjacency=adjacency
    )
    assert two_outcomes(Step(noise, rate, sampling, adjacency, count), epsilon) <= delta
    assert repeat(SubsampledGaussian(noise, rate, sampling, adjacency), count).delta_at(
        epsilon
    ) <= delta * (1 + 1e-9)
