"""Subsampled Gaussian steps against quadrature, enumerated batches and other accountants."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from skdpbayes.privacy import (
    GaussianDP,
    PrivacyEvent,
    SubsampledGaussian,
    chain_event,
    compose,
    gdp_delta,
    gdp_epsilon,
    repeat,
)
from skdpbayes.privacy.guarantee import Adjacency
from skdpbayes.privacy.mechanisms.subsampling import Sampling

CASES: list[tuple[Sampling, Adjacency]] = [
    ("poisson", "zero_out"),
    ("poisson", "replace_one"),
    ("fixed", "zero_out"),
    ("fixed", "replace_one"),
]


def mixture(x: np.ndarray, means: list[float], weights: list[float], noise: float) -> np.ndarray:
    density = np.zeros_like(x)
    for mean, weight in zip(means, weights, strict=True):
        density += weight * np.exp(-0.5 * ((x - mean) / noise) ** 2)
    return density / (noise * math.sqrt(2 * math.pi))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float, width: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * width)


def worst_pairs(
    rate: float, noise: float, x: np.ndarray
) -> dict[tuple[str, str], tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """(P, Q) that attain the profile with the record present first, and the pair for the other."""
    out = [1 - rate, rate]
    zero, one = mixture(x, [0.0], [1.0], noise), mixture(x, [0, 1], out, noise)
    plus, minus = mixture(x, [0, 1], out, noise), mixture(x, [0, -1], out, noise)
    two, far = mixture(x, [0, 2], out, noise), mixture(x, [0, 1], out, noise)
    return {
        ("poisson", "zero_out"): (one, zero, zero, one),
        ("poisson", "replace_one"): (plus, minus, minus, plus),
        # others are all opposite to the record; and all equal to it
        ("fixed", "zero_out"): (two, far, mixture(x, [0, -1], out, noise), zero),
        # the new record is like all others, the old one opposite
        ("fixed", "replace_one"): (two, zero, two, zero),
    }


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("noise", [0.4, 1.0, 5.0])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_profiles_of_both_orders_against_quadrature(
    case: tuple[Sampling, Adjacency], rate: float, noise: float
) -> None:
    x = np.linspace(-2 - 12 * noise, 3 + 12 * noise, 400_001)
    p, q, r, s = worst_pairs(rate, noise, x)[case]
    event = SubsampledGaussian(noise, rate, *case)
    for epsilon in (0.0, 0.02, 0.5, 2.0):
        forward, backward = event._profile_pair(np.array([epsilon]))
        width = x[1] - x[0]
        assert forward[0] == pytest.approx(hockey_stick(p, q, epsilon, width), rel=1e-5, abs=1e-12)
        assert backward[0] == pytest.approx(hockey_stick(r, s, epsilon, width), rel=1e-5, abs=1e-12)
        assert event.delta_at(epsilon) == max(forward[0], backward[0])


def batch_density(
    contributions: np.ndarray, size: int, noise: float, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Density on a grid of the noisy sum over a uniform batch of fixed size, in two dimensions."""
    batches = list(itertools.combinations(range(len(contributions)), size))
    density = np.zeros((x.size, y.size))
    for batch in batches:
        a, b = contributions[list(batch)].sum(axis=0)
        density += np.exp(-0.5 * ((x[:, None] - a) ** 2 + (y - b) ** 2) / noise**2)
    return density / len(batches) / (2 * math.pi * noise**2)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_fixed_size_bound_holds_for_enumerated_batches(adjacency: Adjacency) -> None:
    rng = np.random.default_rng(0)
    noise, size, n = 0.8, 2, 4
    x = np.linspace(-7.0, 7.0, 141)
    width = (x[1] - x[0]) ** 2
    event = SubsampledGaussian(noise, size / n, "fixed", adjacency)
    for trial in range(12):
        angles = rng.uniform(0, 2 * math.pi, n) if trial else np.array([0.0, *[math.pi] * (n - 1)])
        records = np.column_stack([np.cos(angles), np.sin(angles)])
        other = records.copy()
        other[0] = 0.0 if adjacency == "zero_out" else -records[0]
        p = batch_density(records, size, noise, x, x)
        q = batch_density(other, size, noise, x, x)
        for epsilon in (0.0, 0.5, 1.0):
            forward, backward = event._profile_pair(np.array([epsilon]))
            assert hockey_stick(p, q, epsilon, width) <= forward[0] * (1 + 2e-3)  # quadrature
            assert hockey_stick(q, p, epsilon, width) <= backward[0] * (1 + 2e-3)


def test_zeroing_a_record_in_a_fixed_batch_is_not_half_of_replacing_it() -> None:
    """The others may oppose the record: then the half-sensitivity curve is exceeded, ours met."""
    noise, size, n, epsilon = 0.8, 2, 4, 1.0
    x = np.linspace(-9.0, 9.0, 4001)
    batches = list(itertools.combinations(range(n), size))
    records, other = np.array([1.0, -1, -1, -1]), np.array([0.0, -1, -1, -1])
    weights = [1 / len(batches)] * len(batches)
    p = mixture(x, [records[list(b)].sum() for b in batches], weights, noise)
    q = mixture(x, [other[list(b)].sum() for b in batches], weights, noise)
    attained = hockey_stick(p, q, epsilon, x[1] - x[0])
    rate = size / n
    half = rate * gdp_delta(math.log1p(math.expm1(epsilon) / rate), 1 / noise)
    assert attained > 1.3 * half
    event = SubsampledGaussian(noise, rate, "fixed", "zero_out")
    assert event.delta_at(epsilon) == pytest.approx(attained, rel=1e-5)


def test_opposite_records_are_the_worst_poisson_replacement() -> None:
    rng = np.random.default_rng(1)
    rate, noise, epsilon = 0.3, 0.9, 0.4
    x = np.linspace(-6.0, 6.0, 241)
    bound = SubsampledGaussian(noise, rate).delta_at(epsilon)

    def output(record: np.ndarray) -> np.ndarray:
        blank = np.exp(-0.5 * (x[:, None] ** 2 + x**2) / noise**2)
        drawn = np.exp(-0.5 * ((x[:, None] - record[0]) ** 2 + (x - record[1]) ** 2) / noise**2)
        return ((1 - rate) * blank + rate * drawn) / (2 * math.pi * noise**2)

    width = (x[1] - x[0]) ** 2
    for _ in range(25):
        u, v = rng.normal(size=(2, 2))
        u, v = u / np.linalg.norm(u), v / max(1.0, float(np.linalg.norm(v)))
        assert hockey_stick(output(u), output(v), epsilon, width) <= bound * (1 + 1e-6)
    assert hockey_stick(output(u), output(-u), epsilon, width) == pytest.approx(bound, rel=1e-3)


def test_rate_one_is_the_gaussian_mechanism() -> None:
    for sampling, adjacency in CASES:
        mu = (2.0 if adjacency == "replace_one" else 1.0) / 1.7
        event = SubsampledGaussian(1.7, 1.0, sampling, adjacency)
        for epsilon in (0.0, 0.3, 2.0):
            assert event.delta_at(epsilon) == pytest.approx(gdp_delta(epsilon, mu), rel=1e-12)
        assert repeat(event, 9) == GaussianDP(math.sqrt(9 * mu * mu))


@pytest.mark.parametrize(
    ("adjacency", "epsilon"), [("zero_out", 0.622030), ("replace_one", 1.205199)]
)
def test_poisson_reference(adjacency: Adjacency, epsilon: float) -> None:
    event = repeat(SubsampledGaussian(2.0, 0.01, "poisson", adjacency), 1000)
    assert event.epsilon_at(1e-5) == pytest.approx(epsilon, abs=2e-5)


@pytest.mark.parametrize(
    ("noise", "sampling", "adjacency", "epsilon"),
    [
        # Li et al. 2019 on MNIST (claimed 0.99), noise as printed and at temperature 1
        (3.1801855680, "poisson", "zero_out", 0.2201),
        (3.1801855680, "poisson", "replace_one", 0.4534),
        (3.1801855680, "fixed", "replace_one", 0.626),
        (4.4974615611, "poisson", "zero_out", 0.1485),
        (4.4974615611, "poisson", "replace_one", 0.3107),
        (4.4974615611, "fixed", "replace_one", 0.3855),
    ],
)
def test_li2019_mnist_claim_is_true(
    noise: float, sampling: Sampling, adjacency: Adjacency, epsilon: float
) -> None:
    event = repeat(SubsampledGaussian(noise, 128 / 60000, sampling, adjacency), 9375)
    assert event.epsilon_at(1e-5) == pytest.approx(epsilon, abs=1.2e-4)


@pytest.mark.parametrize(
    ("noise", "zero_out", "replace_one"),
    [
        (1608.736595, 0.000389133, 0.00126177),
        (160.873660, 0.0108726, 0.0250987),
        (16.087366, 0.16115, 0.35152),
    ],
)
def test_wang2015_noise_is_far_too_large(noise: float, zero_out: float, replace_one: float) -> None:
    """True epsilon at delta=1e-4 of the noise that Wang et al. 2015 ask for epsilon 0.1, 1, 10."""
    for adjacency, epsilon in (("zero_out", zero_out), ("replace_one", replace_one)):
        event = repeat(SubsampledGaussian(noise, 180 / 32561, "poisson", adjacency), 32561)  # type: ignore[arg-type]
        assert event.epsilon_at(1e-4) == pytest.approx(epsilon, rel=5e-5)


def test_very_noisy_steps_follow_the_central_limit() -> None:
    noise, rate, n_steps = 400.0, 0.005, 30_000
    mu = rate * math.sqrt(n_steps * math.expm1(1 / noise**2))
    event = repeat(SubsampledGaussian(noise, rate, "poisson", "zero_out"), n_steps)
    assert event.epsilon_at(1e-5) == pytest.approx(gdp_epsilon(mu, 1e-5), rel=1e-4)


def exact_chain(noise: np.ndarray, rate: float, case: tuple[Sampling, Adjacency]) -> PrivacyEvent:
    return compose(SubsampledGaussian(float(s), rate, *case) for s in noise)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_chain_is_an_upper_bound_close_to_the_exact_one(case: tuple[Sampling, Adjacency]) -> None:
    noise = 1.5 * np.arange(1, 41) ** 0.25
    bucketed, exact = chain_event(noise, 0.05, *case), exact_chain(noise, 0.05, case)
    assert len(bucketed.events) < 40  # type: ignore[attr-defined]
    excess = bucketed.epsilon_at(1e-5) / exact.epsilon_at(1e-5)
    assert 1.0 <= excess <= 1.01


def test_long_chain_has_few_levels_each_rounded_down() -> None:
    noise = np.random.default_rng(2).permutation(np.geomspace(0.8, 8.0, 10_000))
    event = chain_event(noise, 0.01, "poisson", "zero_out")
    parts = sorted(
        ((part.event.noise_multiplier, part.count) for part in event.events),  # type: ignore[attr-defined]
        reverse=True,
    )
    assert len(parts) <= 64
    assert sum(count for _, count in parts) == noise.size
    ordered, start = np.sort(noise)[::-1], 0
    for level, count in parts:
        assert level == ordered[start : start + count].min()
        start += count


def test_step_size_example_of_li2019() -> None:
    """Step sizes 0.103 t^(-1/3) (N=5e4, T=1e4, L=1): epsilon 0.118 and 0.2515, not 0.1."""
    n, batch = 50_000, 500
    steps = 0.103 * np.arange(1, 10_001) ** (-1 / 3)
    for adjacency, epsilon in (("zero_out", 0.1182), ("replace_one", 0.2515)):
        event = chain_event(batch / np.sqrt(steps * n), batch / n, "poisson", adjacency)  # type: ignore[arg-type]
        assert epsilon * 0.999 <= event.epsilon_at(1e-5) <= epsilon * 1.01


@pytest.mark.parametrize(
    ("step", "adjacency", "epsilon"),
    [
        (0.005288, "zero_out", 0.1),
        (0.001322, "replace_one", 0.1),
        (0.1, "zero_out", 0.501),
        (0.1, "replace_one", 1.061),
    ],
)
def test_constant_step_sizes(step: float, adjacency: Adjacency, epsilon: float) -> None:
    n, batch = 50_000, 500
    event = repeat(
        SubsampledGaussian(batch / math.sqrt(step * n), batch / n, "poisson", adjacency), 10_000
    )
    assert event.epsilon_at(1e-5) == pytest.approx(epsilon, rel=2e-3)


def test_chain_of_full_batches_is_gaussian() -> None:
    event = chain_event([1.0, 2.0, 2.0], 1.0, "fixed", "zero_out")
    assert isinstance(event, GaussianDP)
    assert event.mu == pytest.approx(math.sqrt(1.5), rel=1e-15)


def test_chain_refuses_empty_and_noiseless() -> None:
    for bad in ([], [1.0, 0.0], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="noise_multipliers must hold"):
            chain_event(bad, 0.1)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_never_below_and_near_dp_accounting(adjacency: Adjacency) -> None:
    """An independent implementation, which rounds up as well, agrees within its grid."""
    import dp_accounting
    from dp_accounting import pld

    neighbors = (
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
        if adjacency == "zero_out"
        else dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    for noise, rate, n_steps in [(0.8, 0.02, 200), (3.0, 0.3, 50)]:
        accountant = pld.PLDAccountant(neighbors, value_discretization_interval=1e-4)
        accountant.compose(
            dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), n_steps
        )
        ours = repeat(SubsampledGaussian(noise, rate, "poisson", adjacency), n_steps)
        for delta in (1e-3, 1e-6):
            assert ours.epsilon_at(delta) == pytest.approx(accountant.get_epsilon(delta), rel=3e-4)
