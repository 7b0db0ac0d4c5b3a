"""Calibrated noise: private, tight, cached, and refused where impossible."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianDP,
    PrivacyEvent,
    PureDP,
    SubsampledGaussian,
    discrete_gaussian_scale,
    discrete_laplace_scale,
    gaussian_noise_multiplier,
    repeat,
    smallest_noise,
    subsampled_noise_multiplier,
)
from skdpbayes.privacy.composition import convolution
from skdpbayes.privacy.guarantee import Adjacency
from skdpbayes.privacy.mechanisms.subsampling import Sampling


def assert_private_and_tight(
    event_of: Callable[[float], PrivacyEvent], noise: float, epsilon: float, delta: float
) -> None:
    assert event_of(noise).epsilon_at(delta) <= epsilon
    assert event_of(noise * (1 - 1e-3)).epsilon_at(delta) > epsilon


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 8.0])
def test_gaussian(epsilon: float, delta: float) -> None:
    noise = gaussian_noise_multiplier(epsilon, delta)
    assert_private_and_tight(lambda s: GaussianDP(1.0 / s), noise, epsilon, delta)


@pytest.mark.parametrize("n_coordinates", [1, 8, 100])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_discrete_laplace(epsilon: float, delta: float, n_coordinates: int) -> None:
    scale = discrete_laplace_scale(epsilon, delta, n_coordinates)
    assert_private_and_tight(
        lambda s: repeat(DiscreteLaplace(s), n_coordinates), scale, epsilon, delta
    )
    assert scale <= n_coordinates / epsilon * (1 + 1e-12)


@pytest.mark.parametrize("n_coordinates", [1, 10])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
def test_discrete_gaussian(epsilon: float, n_coordinates: int) -> None:
    scale = discrete_gaussian_scale(epsilon, 1e-5, n_coordinates)
    assert_private_and_tight(
        lambda s: repeat(DiscreteGaussian(s), n_coordinates), scale, epsilon, 1e-5
    )


def test_discrete_references() -> None:
    # replace_one over D features moves 2 D counts; standard deviations at (1, 1e-5)
    assert discrete_laplace_scale(1.0, 1e-5, 28) == pytest.approx(19.046, abs=1e-3)
    assert discrete_gaussian_scale(1.0, 1e-5, 10) == pytest.approx(11.797293, rel=2e-5)
    assert discrete_laplace_scale(1.0, 0.0, 28) == 28.0


@pytest.mark.parametrize(
    ("epsilon", "adjacency", "noise"),
    [
        # Adult with Wang et al.'s schedule: N=32561, batches of 180, as many steps, delta=1e-4
        (0.1, "zero_out", 24.48),
        (0.1, "replace_one", 48.92),
        (1.0, "zero_out", 3.2624),
        (1.0, "replace_one", 6.3565),
        (10.0, "zero_out", 0.7578),
        (10.0, "replace_one", 0.9823),
    ],
)
def test_subsampled_references(epsilon: float, adjacency: Adjacency, noise: float) -> None:
    options = {"sampling_rate": 180 / 32561, "n_steps": 32561, "adjacency": adjacency}
    found = subsampled_noise_multiplier(epsilon, 1e-4, **options)  # type: ignore[arg-type]
    assert found == pytest.approx(noise, rel=8e-4)
    event = repeat(SubsampledGaussian(found, 180 / 32561, "poisson", adjacency), 32561)
    assert epsilon * (1 - 1e-4) <= event.epsilon_at(1e-4) <= epsilon


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "n_steps"),
    [(0.5, 1e-5, 0.02, 300), (4.0, 1e-7, 0.5, 10), (30.0, 1e-3, 0.001, 2000), (1.0, 1e-5, 1.0, 7)],
)
def test_subsampled(
    epsilon: float,
    delta: float,
    rate: float,
    n_steps: int,
    sampling: Sampling,
    adjacency: Adjacency,
) -> None:
    noise = subsampled_noise_multiplier(
        epsilon, delta, sampling_rate=rate, n_steps=n_steps, sampling=sampling, adjacency=adjacency
    )
    assert_private_and_tight(
        lambda s: repeat(SubsampledGaussian(s, rate, sampling, adjacency), n_steps),
        noise,
        epsilon,
        delta,
    )


def test_few_evaluations_cold_and_none_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = convolution._convolve

    def counting(*args: object) -> object:
        calls.append(1)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(convolution, "_convolve", counting)
    options = {"sampling_rate": 0.0123, "n_steps": 10_000}
    first = subsampled_noise_multiplier(1.0, 1e-5, **options)  # type: ignore[arg-type]
    assert 1 <= len(calls) <= 6
    calls.clear()
    assert subsampled_noise_multiplier(1.0, 1e-5, **options) == first  # type: ignore[arg-type]
    # the guarantee that an estimator then asks for is remembered as well
    repeat(SubsampledGaussian(first, 0.0123), 10_000).epsilon_at(1e-5)
    assert not calls


def test_huge_and_infinite_epsilon() -> None:
    assert gaussian_noise_multiplier(math.inf, 1e-5) == 0.0
    assert discrete_laplace_scale(math.inf, 1e-5, 3) == 0.0
    assert discrete_gaussian_scale(math.inf, 1e-5, 3) == 0.0
    assert subsampled_noise_multiplier(math.inf, 1e-5, sampling_rate=0.1, n_steps=5) == 0.0
    for epsilon in (500.0, 1e6):
        noise = subsampled_noise_multiplier(epsilon, 1e-5, sampling_rate=0.05, n_steps=200)
        assert repeat(SubsampledGaussian(noise, 0.05), 200).epsilon_at(1e-5) <= epsilon
        scale = discrete_gaussian_scale(epsilon, 1e-5, 10)
        # zCDP with the same rho: what any valid answer must be close to at such epsilon
        assert 0.5 <= 10 / (2 * scale**2) / epsilon <= 1.0
        assert discrete_laplace_scale(epsilon, 1e-5, 10) == pytest.approx(10 / epsilon, rel=1e-6)


def test_smallest_noise_from_a_bad_guess() -> None:
    for guess in (1e-6, 1e6):
        noise = smallest_noise(lambda s: GaussianDP(1.0 / s), 1.0, 1e-5, guess=guess)
        assert noise == pytest.approx(gaussian_noise_multiplier(1.0, 1e-5), rel=1e-4)


def test_smallest_noise_at_a_jump() -> None:
    """An epsilon that jumps past the target still ends on the private side."""
    noise = smallest_noise(lambda s: PureDP(0.1 if s >= 2.0 else 10.0), 1.0, 0.0, guess=1.0)
    assert 2.0 <= noise < 2.0 * (1 + 1e-9)


def test_impossible_targets() -> None:
    with pytest.raises(CalibrationError, match="Gaussian noise has no guarantee at delta=0"):
        gaussian_noise_multiplier(1.0, 0.0)
    with pytest.raises(CalibrationError, match="discrete Gaussian noise has no guarantee"):
        discrete_gaussian_scale(1.0, 0.0)
    with pytest.raises(CalibrationError, match="has no guarantee at delta=0"):
        subsampled_noise_multiplier(1.0, 0.0, sampling_rate=0.1, n_steps=10)
    with pytest.raises(CalibrationError, match=r"no noise was found that is \(1, 1e-05\)-private"):
        smallest_noise(lambda s: PureDP(3.0), 1.0, 1e-5, guess=1.0)
    with pytest.raises(ValueError, match=r"epsilon must be > 0, got 0"):
        discrete_laplace_scale(0.0)
    with pytest.raises(ValueError, match=r"delta must be below 1"):
        discrete_laplace_scale(1.0, 1.0)
    with pytest.raises(ValueError, match=r"n_steps must be an integer >= 1, got 0"):
        subsampled_noise_multiplier(1.0, 1e-5, sampling_rate=0.1, n_steps=0)
