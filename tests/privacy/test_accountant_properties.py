"""What must hold for every total, in seeded random settings, against references made from scratch.

Rates from 1e-8 to 1, noise from 0.2 to 50, 1 to 100,000 steps, delta from 1e-14 to 1e-3.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from skdpbayes.privacy import PrivacyEvent, PureDP, SubsampledGaussian, compose, repeat
from tests.privacy.accounting_reference import (
    Step,
    by_dp_accounting,
    epsilon_above,
    fine_grid,
    merged_cells,
    two_outcomes,
)


def random_step(rng: np.random.Generator, adjacency: str) -> Step:
    return Step(
        noise=math.exp(rng.uniform(math.log(0.2), math.log(50.0))),
        rate=10.0 ** rng.uniform(-8.0, 0.0),
        sampling=str(rng.choice(["poisson", "fixed"])),
        adjacency=adjacency,
        count=int(10.0 ** rng.uniform(0.0, 5.0)),
    )


def event_of(step: Step, more: int = 0) -> PrivacyEvent:
    one = SubsampledGaussian(step.noise, step.rate, step.sampling, step.adjacency)
    return repeat(one, step.count + more)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("seed", range(25))
def test_random_steps(seed: int, adjacency: str) -> None:
    rng = np.random.default_rng([seed, len(adjacency)])
    step, delta = random_step(rng, adjacency), 10.0 ** rng.uniform(-14.0, -3.0)
    event = event_of(step)
    epsilon = event.epsilon_at(delta)
    # never below the truth
    assert epsilon >= epsilon_above(step, delta) * (1 - 1e-9)
    assert event.delta_at(epsilon) <= delta * (1 + 1e-9)
    for share in (0.1, 0.5, 0.9, 1.2):
        assert event.delta_at(share * epsilon) >= two_outcomes(step, share * epsilon) * (1 - 1e-9)
    # the profile falls, and its inverse rises with the number of steps
    deltas = [event.delta_at(share * epsilon) for share in (0.0, 0.5, 0.9, 1.0, 1.1)]
    assert all(b <= a * (1 + 1e-3) for a, b in itertools.pairwise(deltas))
    more = event_of(step, max(1, step.count // 20)).epsilon_at(delta)
    assert more >= epsilon * (1 - 1e-3) or epsilon > 100.0  # there Chernoff's bound will do
    # the easy bound
    assert event.delta_at(0.0) <= step.count * event_of(step, 1 - step.count).delta_at(0.0) * (
        1 + 1e-9
    )


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("seed", range(8))
def test_random_mixtures(seed: int, adjacency: str) -> None:
    rng = np.random.default_rng([seed, 1, len(adjacency)])
    steps = [random_step(rng, adjacency) for _ in range(2)]
    delta = 10.0 ** rng.uniform(-14.0, -3.0)
    events = [event_of(step) for step in steps]
    whole = compose(events)
    epsilon = whole.epsilon_at(delta)
    assert whole.delta_at(epsilon) <= delta * (1 + 1e-9)
    for step, event in zip(steps, events, strict=True):
        assert epsilon >= epsilon_above(step, delta) * (1 - 1e-9)
        assert epsilon >= event.epsilon_at(delta) * (1 - 1e-3) or epsilon > 100.0


@pytest.mark.parametrize("count", [2, 3, 10, 60])
@pytest.mark.parametrize("size", [1e-3, 0.5, 4.0])
@pytest.mark.parametrize("delta", [1e-14, 1e-5, 0.03])
def test_coins(count: int, size: float, delta: float) -> None:
    """Randomized response has binomial losses, and none beyond the sum of all."""
    p = 1.0 / (1.0 + math.exp(-size))
    losses = size * (2.0 * np.arange(count + 1) - count)
    masses = stats.binom.pmf(np.arange(count + 1), count, p)

    def truth(epsilon: float) -> float:
        return float(masses @ -np.expm1(np.minimum(0.0, epsilon - losses)))

    event = repeat(PureDP(size), count)
    epsilon = event.epsilon_at(delta)
    assert truth(epsilon) <= delta * (1 + 1e-9)
    assert event.delta_at(epsilon) <= delta
    assert truth(0.999 * epsilon - 1e-12) > delta or epsilon in (0.0, count * size)
    assert epsilon <= count * size


ORDINARY = [
    # noise, rate, count, delta
    ((1.0, 0.01, 1000, 1e-5),),
    ((0.8, 0.001, 5000, 1e-6),),
    ((3.0, 0.2, 100, 1e-4),),
    ((0.6, 1e-4, 3000, 1e-6),),
    ((2.0, 0.05, 400, 1e-5), (0.7, 0.002, 50, 1e-5)),
    ((0.5, 1e-5, 100, 1e-7), (8.0, 0.5, 60, 1e-7)),
]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize("settings", ORDINARY)
def test_near_the_truth(
    settings: tuple[tuple[float, float, int, float], ...], sampling: str, adjacency: str
) -> None:
    """Above a fine grid's answer, and near it.

    With batches of fixed size no single pair of data sets attains the profile of both orders at
    once, so a composition is priced somewhat above every pair.
    """
    steps = [Step(noise, rate, sampling, adjacency, count) for noise, rate, count, _ in settings]
    delta = settings[0][3]
    epsilon = compose([event_of(step) for step in steps]).epsilon_at(delta)
    width = min(1e-4, epsilon / 500.0)
    assert fine_grid(steps, epsilon, width) <= delta * (1 + 2e-3)
    if sampling == "poisson":
        assert fine_grid(steps, epsilon * 0.995, width) > delta


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("seed", range(3))
def test_between_the_truth_and_a_little_more(seed: int, adjacency: str) -> None:
    """Rare, large losses and many small ones alike."""
    rng = np.random.default_rng([seed, 2, len(adjacency)])
    step = Step(
        noise=math.exp(rng.uniform(math.log(0.3), math.log(10.0))),
        rate=10.0 ** rng.uniform(-7.0, -0.5),
        sampling="poisson",
        adjacency=adjacency,
        count=int(10.0 ** rng.uniform(0.5, 3.5)),
    )
    delta = 10.0 ** rng.uniform(-12.0, -4.0)
    epsilon, truth = event_of(step).epsilon_at(delta), merged_cells(step, delta)
    assert truth * (1 - 1e-9) <= epsilon
    assert epsilon <= 1.03 * truth + 1e-6 or epsilon > 100.0


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("seed", range(8))
def test_another_accountant_agrees(seed: int, adjacency: str, n_parts: int) -> None:
    """Fed with the same dominating pairs, dp-accounting's convolution finds the same epsilon.

    Its grid is fine beside the spread of the total; a delta near the rounding of its transform,
    and an epsilon near 0 or of hundreds, are beyond it.
    """
    rng = np.random.default_rng([seed, 3, len(adjacency)])
    steps = [random_step(rng, adjacency) for _ in range(n_parts)]
    delta = 10.0 ** rng.uniform(-11.0, -4.0)
    events = [event_of(step) for step in steps]
    epsilon = compose(events).epsilon_at(delta)
    if not 1e-4 < epsilon < 50.0:
        return
    parts = [(event_of(step, 1 - step.count), step.count) for step in steps]
    spacing = epsilon / 3000.0 / max(1.0, math.sqrt(max(step.count for step in steps)) / 30.0)
    if any(event.epsilon_at(1e-5 * delta / count) > 5e5 * spacing for event, count in parts):
        return
    assert epsilon == pytest.approx(by_dp_accounting(parts, delta, spacing), rel=0.01)
