"""Totals of several releases: against exact answers, brute force and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import signal, stats

from skdpbayes.privacy import (
    ApproximateDP,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    GaussianDP,
    GroupOf,
    LaplaceNoise,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
    Repeated,
    SubsampledGaussian,
    compose,
    event_from_dict,
    gdp_delta,
    gdp_epsilon,
    repeat,
)
from skdpbayes.privacy.composition.loss_distribution import connect_dots
from tests.privacy.test_events import ELEMENTARY


def brute_force(event: PrivacyEvent, count: int, epsilon: float) -> float:
    """One release after the other, by plain convolution on an equidistant grid."""
    worst, width = 0.0, 0.002
    grid = width * np.arange(6001)
    pair = event._profile_pair(grid)
    for forward, backward in (pair, pair[::-1]):
        one = connect_dots(grid, forward, backward)
        masses, infinite, reach = one.masses, one.infinite, len(grid) - 1
        for _ in range(count - 1):
            masses = np.maximum(signal.fftconvolve(masses, one.masses), 0.0)
            infinite = 1.0 - (1.0 - infinite) * (1.0 - one.infinite)
            reach += len(grid) - 1
        losses = width * np.arange(-reach, reach + 1)
        above = losses > epsilon
        worst = max(worst, infinite + masses[above] @ -np.expm1(epsilon - losses[above]))
    return float(worst)


@pytest.mark.parametrize("event", ELEMENTARY, ids=repr)
def test_composition_is_repeated_single_composition(event: PrivacyEvent) -> None:
    """The count of a repeated event is never forgotten, and never counted twice."""
    count = 3
    whole = repeat(event, count)
    assert whole == compose([event] * count)
    if not isinstance(event, GaussianDP):  # its root-sum-square is rounded
        assert whole == compose([event, repeat(event, count - 1)])
    for epsilon in (0.3, 0.9):
        expected = brute_force(event, count, epsilon)  # itself rounded up, on a coarser grid
        exact = whole.delta_at(epsilon)
        assert exact <= expected * (1 + 1e-4) + 1e-12
        assert exact >= expected * (1 - 0.01) - 1e-5
        nested = Composed((event, Repeated(event, count - 1)))
        assert nested.delta_at(epsilon) == pytest.approx(exact, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("event", ELEMENTARY, ids=repr)
def test_epsilon_and_delta_agree(event: PrivacyEvent) -> None:
    whole = compose([repeat(event, 4), PureDP(0.05)])
    for delta in (1e-2, 1e-6) if not isinstance(event, GroupOf) else (1e-4,):
        epsilon = whole.epsilon_at(delta)
        if math.isinf(epsilon):
            assert delta < whole._loss_bound()[1]
        elif epsilon < whole._loss_bound()[0]:
            assert whole.delta_at(epsilon * (1 + 1e-4)) <= delta * (1 + 1e-6)
            assert whole.delta_at(epsilon * (1 - 2e-3)) > delta


def exact_pure(epsilon0: float, count: int, epsilon: float) -> float:
    """Kairouz, Oh and Viswanath: a binomial sum."""
    k = np.arange(count + 1)
    losses = epsilon0 * (2 * k - count)
    masses = stats.binom.pmf(k, count, 1 / (1 + math.exp(-epsilon0)))
    above = losses > epsilon
    return float(masses[above] @ -np.expm1(epsilon - losses[above]))


@pytest.mark.parametrize(("epsilon0", "count"), [(0.1, 100), (0.7, 9), (0.003, 5000), (2.0, 4)])
def test_pure_composition_is_optimal(epsilon0: float, count: int) -> None:
    event = repeat(PureDP(epsilon0), count)
    total = epsilon0 * count
    for share in (0.05, 0.3, 0.6, 0.9):
        exact = exact_pure(epsilon0, count, share * total)
        if exact > 1e-290:
            value = event.delta_at(share * total)
            assert exact * (1 - 1e-9) <= value <= exact * (1 + 1e-4) + 1e-300
    for delta in (1e-3, 1e-9):
        assert exact_pure(epsilon0, count, event.epsilon_at(delta)) <= delta * (1 + 1e-9)


def test_pure_sum_is_exact_at_delta_zero_and_never_exceeded() -> None:
    event = compose([PureDP(0.5), PureDP(0.25), LaplaceNoise(4.0), DiscreteLaplace(2.0)])
    assert event.epsilon_at(0.0) == 0.5 + 0.25 + 0.25 + 0.5
    assert event.delta_at(1.5) == 0.0
    assert event.epsilon_at(1e-300) <= 1.5
    assert repeat(PureDP(0.1), 10).epsilon_at(0.0) == 10 * 0.1
    assert compose([PureDP(0.5), GaussianDP(0.1)]).epsilon_at(0.0) == math.inf


def test_approximate_parts_add_their_failures() -> None:
    event = repeat(ApproximateDP(0.1, 1e-6), 5)
    failure = -math.expm1(5 * math.log1p(-1e-6))
    assert event.delta_at(0.5) == failure
    assert event.epsilon_at(failure) == pytest.approx(0.5)
    assert event.epsilon_at(0.999 * failure) == math.inf
    assert event.epsilon_at(1e-4) < 0.5


def test_gaussians_merge_in_closed_form() -> None:
    assert compose([GaussianDP(0.3), GaussianDP(0.4)]) == GaussianDP(0.5)
    assert repeat(GaussianDP(0.5), 4) == GaussianDP(1.0)
    mixed = compose([GaussianDP(0.3), PureDP(0.0), repeat(GaussianDP(0.2), 4)])
    assert mixed == GaussianDP(0.5)


@pytest.mark.parametrize("count", [1, 25, 10_000])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-60, 1e-250])
def test_gaussian_steps_through_the_grid(count: int, delta: float) -> None:
    """Losses on the grid, tilted and convolved, against the closed form: above it, and near."""
    step = 1.0 / math.sqrt(count)
    # a loss of its own kind: GaussianDP itself would merge
    parts = Repeated(_Plain(step), count)
    exact = gdp_epsilon(1.0, delta)
    assert exact * (1 - 1e-11) <= parts.epsilon_at(delta) <= exact * (1 + 3e-5)
    value = parts.delta_at(exact)
    assert delta * (1 - 1e-9) <= value <= delta * (1 + 4e-5 * exact * (1 + exact))


class _Plain(PrivacyEvent):
    """mu-GDP that composition does not recognize."""

    kind = "test_plain_gaussian"

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def __hash__(self) -> int:
        return hash(self.mu)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plain) and other.mu == self.mu

    def __repr__(self) -> str:
        return f"_Plain({self.mu})"

    def _profile(self, epsilons: np.ndarray) -> np.ndarray:
        return GaussianDP(self.mu)._profile(epsilons)


def test_mixed_kinds_against_quadrature() -> None:
    """Gaussian and randomized response: the exact profile is a two-term sum."""
    mu, epsilon0 = 0.6, 0.3
    event = compose([GaussianDP(mu), PureDP(epsilon0)])
    truth = 1 / (1 + math.exp(-epsilon0))
    for epsilon in (0.4, 1.0, 2.0):
        exact = truth * gdp_delta(epsilon - epsilon0, mu)
        exact += (1 - truth) * gdp_delta(epsilon + epsilon0, mu)
        if epsilon >= epsilon0:
            assert exact * (1 - 1e-9) <= event.delta_at(epsilon) <= exact * (1 + 1e-4)


def test_orders_of_the_pair_are_kept_apart() -> None:
    """Composing the maximum of both orders would cost more."""
    event = SubsampledGaussian(0.8, 0.05, "poisson", "zero_out")

    class Symmetrized(_Plain):
        kind = "test_symmetrized"

        def _profile(self, epsilons: np.ndarray) -> np.ndarray:
            return event._profile(epsilons)

    tight = repeat(event, 50).epsilon_at(1e-5)
    assert tight < Repeated(Symmetrized(0.0), 50).epsilon_at(1e-5) * 0.999


def test_discrete_references() -> None:
    # 2 D coordinates move by one: D = 14 discrete Laplace, D = 5 discrete Gaussian
    assert repeat(DiscreteLaplace(19.0458), 28).epsilon_at(1e-5) == pytest.approx(1.0, abs=1e-5)
    assert repeat(DiscreteGaussian(11.797293), 10).epsilon_at(1e-5) == pytest.approx(1.0, abs=2e-5)
    assert repeat(DiscreteLaplace(28.0), 28).epsilon_at(0.0) == 1.0


def test_two_laplace_counts_just_below_their_largest_loss() -> None:
    # only the largest loss, 1, exceeds this epsilon; it has probability 1 / (1 + exp(-1/2))**2
    most = 1.0 / (1.0 + math.exp(-0.5)) ** 2
    expected = 1.0 + math.log1p(-1e-5 / most)
    assert repeat(DiscreteLaplace(2.0), 2).epsilon_at(1e-5) == pytest.approx(expected, abs=1e-9)


def test_bounded_range_draws_of_one_distribution_cost_less() -> None:
    together = BoundedRange(0.05, n_draws=40).epsilon_at(1e-5)
    adaptive = repeat(BoundedRange(0.05), 40).epsilon_at(1e-5)
    pure = repeat(PureDP(0.05), 40).epsilon_at(1e-5)
    assert together < adaptive <= pure * (1 + 1e-4) < 2.0


def test_flattening_and_canonical_order() -> None:
    a, b = PureDP(0.1), LaplaceNoise(3.0)
    assert compose([a, b, a]) == compose([b, repeat(a, 2)]) == compose([compose([a, b]), a])
    assert compose([]) == PureDP(0.0)
    assert compose([a]) == repeat(a, 1) == a
    assert event_from_dict(compose([a, b, a]).to_dict()) == compose([a, b, a])


def test_no_privacy_swallows_everything_even_hand_built() -> None:
    assert compose([PureDP(0.1), NoPrivacy(), GaussianDP(1.0)]) == NoPrivacy()
    hand_built = Composed((PureDP(0.1), NoPrivacy()))
    assert hand_built.epsilon_at(0.5) == math.inf
    assert hand_built.delta_at(3.0) == 1.0


@pytest.mark.parametrize(
    "event", [PureDP(5000.0), DiscreteGaussian(0.02), SubsampledGaussian(0.02, 0.5)]
)
def test_hopeless_privacy_is_priced_without_overflow(event: PrivacyEvent) -> None:
    with np.errstate(over="raise", invalid="raise"):
        total = repeat(event, 30)
        epsilon = total.epsilon_at(1e-5)
        assert 1000.0 < epsilon < 1e6
        assert total.delta_at(2 * epsilon) <= 1e-5
        assert total.delta_at(1.0) > 0.999


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="count must be an integer >= 1, got 0"):
        repeat(PureDP(0.1), 0)
    with pytest.raises(ValueError, match="events must hold at least one"):
        Composed(())
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\], got -0.1"):
        repeat(PureDP(0.1), 3).epsilon_at(-0.1)
