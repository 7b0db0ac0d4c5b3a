"""Profiles of single releases against brute force, and the event protocol."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.integrate import quad

from skdpbayes.privacy import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianDP,
    GaussianMixture,
    GroupOf,
    LaplaceNoise,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
    SubsampledGaussian,
    compose,
    event_from_dict,
    repeat,
)

ELEMENTARY: list[PrivacyEvent] = [
    PureDP(0.7),
    ApproximateDP(0.4, 1e-6),
    GaussianDP(0.3),
    GaussianMixture((0.3, 0.2, 0.1)),
    BoundedRange(0.8),
    BoundedRange(0.2, n_draws=5),
    LaplaceNoise(2.5),
    DiscreteLaplace(3.0),
    DiscreteLaplace(3.0, shift=4),
    DiscreteGaussian(4.0),
    DiscreteGaussian(2.5, shift=3),
    DiscreteGaussian(5000.0, shift=900),
    SubsampledGaussian(1.5, 0.1, "poisson", "zero_out"),
    SubsampledGaussian(1.5, 0.1, "poisson", "replace_one"),
    SubsampledGaussian(1.5, 0.1, "fixed", "zero_out"),
    SubsampledGaussian(1.5, 0.1, "fixed", "replace_one"),
    GroupOf(SubsampledGaussian(1.5, 0.1, "poisson", "zero_out"), 2),
]


def hockey_stick(log_p: np.ndarray, log_q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0.0).sum())


@pytest.mark.parametrize("epsilon0", [0.01, 0.7, 4.0])
def test_pure_is_randomized_response(epsilon0: float) -> None:
    truth = 1.0 / (1.0 + math.exp(-epsilon0))
    log_p, log_q = np.log([truth, 1 - truth]), np.log([1 - truth, truth])
    for epsilon in (0.0, 0.5 * epsilon0, 0.99 * epsilon0, epsilon0, 2 * epsilon0):
        expected = hockey_stick(log_p, log_q, epsilon)
        assert PureDP(epsilon0).delta_at(epsilon) == pytest.approx(expected, abs=1e-15)


def test_approximate_is_randomized_response_that_may_fail() -> None:
    event = ApproximateDP(1.0, 0.01)
    assert event.delta_at(1.0) == 0.01
    assert event.delta_at(5.0) == 0.01
    assert event.delta_at(0.0) == pytest.approx(0.01 + 0.99 * math.tanh(0.5), rel=1e-14)
    assert event.epsilon_at(0.01) == 1.0
    assert event.epsilon_at(0.0099) == math.inf


@pytest.mark.parametrize("noise", [0.3, 1.0, 10.0])
def test_laplace_against_quadrature(noise: float) -> None:
    for epsilon in (0.0, 0.3 / noise, 0.9 / noise):

        def excess(x: float, epsilon: float = epsilon) -> float:
            p, q = math.exp(-abs(x) / noise), math.exp(epsilon - abs(x - 1.0) / noise)
            return max(p - q, 0.0) / (2 * noise)

        expected = quad(excess, -80 * noise, 0.0, epsabs=1e-13)[0]
        expected += quad(excess, 0.0, 1.0, epsabs=1e-13, points=[0.5])[0]
        assert LaplaceNoise(noise).delta_at(epsilon) == pytest.approx(expected, abs=1e-8)
    assert LaplaceNoise(noise).epsilon_at(0.0) == 1.0 / noise


def test_laplace_on_one_coordinate_is_the_worst_case() -> None:
    # Two coordinates moved by a and 1 - a, on a fine grid: never above the single coordinate.
    x = np.linspace(-14.0, 15.0, 1451)
    width = x[1] - x[0]
    for share in (0.5, 0.8):
        p = np.exp(-np.abs(x))[:, None] * np.exp(-np.abs(x)) / 4 * width**2
        q = np.exp(-np.abs(x - share))[:, None] * np.exp(-np.abs(x - 1 + share)) / 4 * width**2
        for epsilon in (0.0, 0.3, 0.7):
            spread = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            assert spread < LaplaceNoise(1.0).delta_at(epsilon)


@pytest.mark.parametrize("shift", [1, 2, 3, 10])
@pytest.mark.parametrize("scale", [0.2, 1.0, 7.3, 40.0])
def test_discrete_laplace_against_sum(scale: float, shift: int) -> None:
    k = np.arange(-60 * math.ceil(scale), 60 * math.ceil(scale) + shift + 1)
    normalizer = math.log(math.tanh(0.5 / scale))
    log_p, log_q = normalizer - np.abs(k) / scale, normalizer - np.abs(k - shift) / scale
    event = DiscreteLaplace(scale, shift)
    for share in (0.0, 0.13, 0.5, 0.77, 0.999):
        epsilon = share * shift / scale
        expected = hockey_stick(log_p, log_q, epsilon)
        assert event.delta_at(epsilon) == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert event.delta_at(shift / scale) == 0.0
    assert event.epsilon_at(0.0) == shift / scale


def discrete_gaussian_pair(scale: float, shift: int) -> tuple[np.ndarray, np.ndarray]:
    k = np.arange(-math.ceil(38 * scale) - shift, math.ceil(38 * scale) + 2 * shift + 1)
    log_p, log_q = -0.5 * (k / scale) ** 2, -0.5 * ((k - shift) / scale) ** 2
    normalizer = math.log(np.exp(log_p).sum())
    return log_p - normalizer, log_q - normalizer


@pytest.mark.parametrize("shift", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 50.0])
def test_discrete_gaussian_against_sum(scale: float, shift: int) -> None:
    log_p, log_q = discrete_gaussian_pair(scale, shift)
    step = shift / scale
    for z in (-0.4 * step, 0.0, 1.0, 3.3, 5.1):
        epsilon = max(0.0, step * (z + 0.5 * step))
        expected = hockey_stick(log_p, log_q, epsilon)
        value = DiscreteGaussian(scale, shift).delta_at(epsilon)
        assert value == pytest.approx(expected, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("shift", [1, 40, 2000])
@pytest.mark.parametrize("scale", [1001.0, 3456.7])
def test_large_discrete_gaussian_is_above_and_near_its_sum(scale: float, shift: int) -> None:
    log_p, log_q = discrete_gaussian_pair(scale, shift)
    step = shift / scale
    for z in (0.0, 2.0, 3.9):
        # sums of 1e5 terms, each difference of nearly equal numbers: compare at that precision
        k_loss = log_p - log_q
        epsilon = max(0.0, step * (z + 0.5 * step))
        above = k_loss > epsilon
        exact = float(np.exp(log_p[above]) @ -np.expm1(epsilon - k_loss[above]))
        value = DiscreteGaussian(scale, shift).delta_at(epsilon)
        assert exact * (1 - 1e-8) <= value <= exact * (1 + 1e-5)


def test_discrete_gaussian_of_hopeless_scale() -> None:
    event = DiscreteGaussian(0.01)
    assert event.delta_at(1.0) == 1.0
    assert 5000.0 <= event.epsilon_at(1e-5) < 6000.0


def test_bounded_range_reference_values() -> None:
    assert BoundedRange(1.0).delta_at(0.5) == pytest.approx(0.0774046863, abs=6e-11)
    assert BoundedRange(1.0050421056).epsilon_at(1e-5) == pytest.approx(1.0, abs=1e-9)
    assert BoundedRange(1.0).epsilon_at(0.0) == 1.0


def test_gaussian_traps_of_other_accountants() -> None:
    # replace_one doubles the sensitivity; some accountants forget it
    def at(adjacency: str) -> float:
        return SubsampledGaussian(2.0, 1.0, "poisson", adjacency).epsilon_at(1e-5)  # type: ignore[arg-type]

    assert at("zero_out") == pytest.approx(1.993091, abs=1e-6)
    assert at("replace_one") == pytest.approx(4.377178, abs=1e-6)


@pytest.mark.parametrize("event", ELEMENTARY, ids=repr)
def test_profile_is_a_profile(event: PrivacyEvent) -> None:
    epsilons = np.linspace(0.0, 4.0, 81)
    deltas = np.array([event.delta_at(float(e)) for e in epsilons])
    assert np.all((deltas >= 0.0) & (deltas <= 1.0))
    assert np.all(np.diff(deltas) <= 1e-12)
    # convex in exp(epsilon)
    slopes = np.diff(deltas) / np.diff(np.exp(epsilons))
    assert np.all(np.diff(slopes) >= -1e-9)
    np.testing.assert_allclose(event._profile(epsilons), deltas, rtol=1e-9, atol=1e-15)
    assert event.delta_at(math.inf) == event._loss_bound()[1]


@pytest.mark.parametrize("event", ELEMENTARY, ids=repr)
def test_epsilon_inverts_delta_on_the_private_side(event: PrivacyEvent) -> None:
    for delta in (0.3, 1e-2, 1e-5, 1e-9):
        epsilon = event.epsilon_at(delta)
        if math.isinf(epsilon):
            assert delta < event._loss_bound()[1]
            continue
        assert event.delta_at(epsilon) <= delta
        if epsilon > 0.0:
            assert event.delta_at(epsilon * (1 - 1e-6)) > delta or delta <= event._loss_bound()[1]


@pytest.mark.parametrize(
    "event",
    [
        *ELEMENTARY,
        NoPrivacy(),
        PureDP(math.inf),
        repeat(PureDP(0.1), 7),
        compose(ELEMENTARY),
        GroupOf(repeat(SubsampledGaussian(2.0, 0.1), 3), 4),
    ],
    ids=lambda event: event.kind,
)
def test_json_round_trip(event: PrivacyEvent) -> None:
    text = json.dumps(event.to_dict(), allow_nan=False)
    again = event_from_dict(json.loads(text))
    assert again == event
    assert hash(again) == hash(event)
    assert type(again) is type(event)


def test_unknown_or_malformed_descriptions() -> None:
    with pytest.raises(ValueError, match="unknown privacy event kind 'telepathy'"):
        event_from_dict({"kind": "telepathy"})
    with pytest.raises(ValueError, match="malformed 'pure' event"):
        event_from_dict({"kind": "pure", "mu": 1.0})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PureDP(-0.1), "epsilon must be >= 0, got -0.1"),
        (lambda: PureDP(math.nan), "epsilon must be >= 0, got nan"),
        (lambda: ApproximateDP(1.0, 1.5), r"delta must be in \[0, 1\], got 1.5"),
        (lambda: LaplaceNoise(0.0), "noise_multiplier must be > 0, got 0.0"),
        (lambda: DiscreteLaplace(1.0, 0), "shift must be an integer >= 1, got 0"),
        (lambda: DiscreteGaussian(1.0, 1.5), "shift must be an integer >= 1, got 1.5"),  # type: ignore[arg-type]
        (lambda: SubsampledGaussian(1.0, 0.0), r"sampling_rate must be in \(0, 1\], got 0.0"),
        (lambda: SubsampledGaussian(1.0, 0.5, "shuffle"), "sampling must be 'poisson' or 'fixed'"),  # type: ignore[arg-type]
        (lambda: SubsampledGaussian(1.0, 0.5, "fixed", "add"), "adjacency must be 'replace_one'"),  # type: ignore[arg-type]
        (lambda: PureDP(1.0).delta_at(-1.0), "epsilon must be >= 0, got -1"),
        (lambda: PureDP(1.0).epsilon_at(1.5), r"delta must be in \[0, 1\], got 1.5"),
    ],
)
def test_bad_values_are_named(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_no_privacy() -> None:
    event = NoPrivacy()
    assert event.epsilon_at(0.5) == math.inf
    assert event.delta_at(1e9) == 1.0
    assert compose([PureDP(1.0), event]) == event
    assert repeat(event, 5) == event


@dataclass(frozen=True)
class Custom(PrivacyEvent):
    """A kind of its own that knows nothing but its profile (that of mu-GDP)."""

    mu: float
    kind: ClassVar[str] = "test_custom"

    def delta_at(self, epsilon: float) -> float:
        return GaussianDP(self.mu).delta_at(epsilon)


def test_a_new_kind_needs_only_its_profile() -> None:
    event = Custom(0.5)
    assert event.epsilon_at(1e-5) == pytest.approx(GaussianDP(0.5).epsilon_at(1e-5), rel=1e-9)
    assert event_from_dict(event.to_dict()) == event
    together = compose([event, PureDP(0.1)]).epsilon_at(1e-5)
    assert together == pytest.approx(
        compose([GaussianDP(0.5), PureDP(0.1)]).epsilon_at(1e-5), rel=1e-4
    )


def test_a_new_kind_must_have_a_profile_and_a_free_name() -> None:
    with pytest.raises(TypeError, match="must define delta_at"):
        type("Empty", (PrivacyEvent,), {"kind": "test_empty"})
    with pytest.raises(TypeError, match="must set the class attribute kind"):
        type("Nameless", (PrivacyEvent,), {"delta_at": lambda self, epsilon: 0.0})
    with pytest.raises(TypeError, match="kind 'pure' is taken by PureDP"):
        type("Thief", (PrivacyEvent,), {"kind": "pure", "delta_at": lambda self, epsilon: 0.0})
