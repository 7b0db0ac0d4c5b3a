"""The accountant against lower bounds on the truth that are not its own."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from skdpbayes.privacy import (
    GaussianDP,
    SubsampledGaussian,
    compose,
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


# The other side: totals that are far above the truth help nobody
@pytest.mark.parametrize(
    ("one", "count", "delta", "truth"),
    [
        ((0.3706, 1.0906e-6, "poisson", "zero_out"), 102, 5.992e-8, 0.137),
        ((0.339, 1e-5, "poisson", "zero_out"), 4, 1e-5, 0.0023),
    ],
)
def test_rare_losses_are_not_exaggerated(
    one: tuple[float, float, str, str], count: int, delta: float, truth: float
) -> None:
    event = repeat(SubsampledGaussian(*one), count)
    assert truth <= event.epsilon_at(delta) <= 1.05 * truth
    # alone it costs less than together with others
    whole = compose([event, GaussianDP(0.3), GaussianDP(0.4)])
    assert event.epsilon_at(delta) <= whole.epsilon_at(delta)
    for epsilon in (0.0, 0.001, 0.1):
        variation = count * SubsampledGaussian(*one).delta_at(0.0)
        assert event.delta_at(epsilon) <= variation * (1 + 1e-9)


def test_no_transform_is_too_large() -> None:
    """Half a billion points would be needed for a fine grid."""
    event = repeat(SubsampledGaussian(1.6, 1e-4, "fixed", "zero_out"), 3000)
    tracemalloc.start()
    delta = event.delta_at(0.3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e9
    step = Step(1.6, 1e-4, "fixed", "zero_out", 3000)
    assert two_outcomes(step, 0.3) <= delta <= 1.5 * two_outcomes(step, 0.3)


def test_calibration_of_very_many_rare_steps_is_fast() -> None:
    start = time.process_time()
    noise = subsampled_noise_multiplier(1.0, 1e-6, sampling_rate=3.2e-5, n_steps=7831)
    assert time.process_time() - start < 5.0  # about 1 s on an idle core
    step = Step(noise, 3.2e-5, "poisson", "replace_one", 7831)
    assert 0.9e-6 < two_outcomes(step, 1.0) <= 1e-6
