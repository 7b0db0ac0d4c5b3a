"""Several records at once, and zero_out turned into replace_one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdpbayes.privacy import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianDP,
    GroupOf,
    LaplaceNoise,
    NoPrivacy,
    PureDP,
    SubsampledGaussian,
    compose,
    gdp_delta,
    group,
    repeat,
)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("mu", [0.1, 0.8])
def test_generic_bound_is_exact_for_gaussians(mu: float, size: int) -> None:
    event = GroupOf(GaussianDP(mu), size)
    for epsilon in (0.0, 0.3, 1.5, 4.0):
        exact = gdp_delta(epsilon, size * mu)
        assert exact * (1 - 1e-10) <= event.delta_at(epsilon) <= exact * (1 + 1e-8) + 1e-300


def test_generic_bound_is_exact_for_pairs_of_pure_and_laplace() -> None:
    for epsilon in (0.0, 0.4, 0.7, 0.99):
        laplace = LaplaceNoise(1.0).delta_at(epsilon)
        assert GroupOf(LaplaceNoise(2.0)).delta_at(epsilon) == pytest.approx(laplace, abs=1e-6)
        # two steps of randomized response are less than one step of twice the epsilon
        assert GroupOf(PureDP(0.5)).delta_at(epsilon) <= PureDP(1.0).delta_at(epsilon) + 1e-12
    assert GroupOf(PureDP(0.5)).epsilon_at(0.0) == 1.0


def test_never_worse_than_the_textbook_bound() -> None:
    event = SubsampledGaussian(1.0, 0.1, "poisson", "zero_out")
    for epsilon in (0.2, 1.0, 3.0):
        textbook = sum(math.exp(i * epsilon / 3) * event.delta_at(epsilon / 3) for i in range(3))
        assert GroupOf(event, 3).delta_at(epsilon) <= textbook


def test_replacing_is_at_most_zeroing_twice() -> None:
    zero_out = SubsampledGaussian(1.2, 0.1, "poisson", "zero_out")
    replace_one = SubsampledGaussian(1.2, 0.1, "poisson", "replace_one")
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        assert replace_one.delta_at(epsilon) <= group(zero_out, 2).delta_at(epsilon) * (1 + 1e-9)


def test_closed_forms() -> None:
    assert group(NoPrivacy(), 2) == NoPrivacy()
    assert group(PureDP(0.3), 2) == PureDP(0.6)
    assert group(GaussianDP(0.3), 3) == GaussianDP(3 * 0.3)
    assert group(BoundedRange(0.2, n_draws=4), 2) == BoundedRange(0.4, n_draws=4)
    assert group(LaplaceNoise(4.0), 2) == LaplaceNoise(2.0)
    assert group(DiscreteLaplace(4.0), 3) == DiscreteLaplace(4.0, shift=3)
    assert group(DiscreteGaussian(4.0, 2), 2) == DiscreteGaussian(4.0, shift=4)
    assert group(SubsampledGaussian(2.0, 1.0, "fixed", "zero_out"), 2) == GaussianDP(1.0)
    step = SubsampledGaussian(2.0, 0.1, "poisson", "zero_out")
    assert group(step, 1) == step
    assert group(step, 2) == GroupOf(step, 2)
    whole = compose([repeat(step, 5), PureDP(0.1)])
    assert group(whole, 2) == compose([repeat(GroupOf(step, 2), 5), PureDP(0.2)])


def test_composition_of_groups() -> None:
    steps = repeat(GroupOf(SubsampledGaussian(10.0, 1.0 - 1e-9, "poisson", "zero_out"), 2), 25)
    assert steps.epsilon_at(1e-5) == pytest.approx(GaussianDP(1.0).epsilon_at(1e-5), rel=2e-3)
    assert steps.epsilon_at(1e-5) >= GaussianDP(1.0).epsilon_at(1e-5) * (1 - 1e-6)


def test_failures_are_amplified() -> None:
    event = GroupOf(ApproximateDP(0.5, 1e-6), 2)
    assert event.delta_at(1.0) == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    assert event.epsilon_at(1e-6) == math.inf
    assert event.epsilon_at(1e-5) <= 1.0


def test_size_is_checked() -> None:
    with pytest.raises(ValueError, match="size must be an integer >= 1, got 0"):
        group(PureDP(1.0), 0)


def test_profile_is_vectorized() -> None:
    event = GroupOf(SubsampledGaussian(1.0, 0.1), 2)
    epsilons = np.linspace(0.0, 3.0, 7)
    one_by_one = [event.delta_at(float(e)) for e in epsilons]
    np.testing.assert_allclose(event._profile(epsilons), one_by_one, rtol=1e-12)
