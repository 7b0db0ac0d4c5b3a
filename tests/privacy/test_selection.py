"""The price of the best of several runs: published values, exact selections, composition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdpbayes.privacy import (
    AnyOf,
    ApproximateDP,
    BestOfRandomRuns,
    DiscreteLaplace,
    GaussianDP,
    PureDP,
    any_of,
    compose,
    event_from_dict,
    negative_binomial_gamma,
    negative_binomial_mean,
    papernot_steinke_rdp,
    repeat,
)

ORDERS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


def gaussian_renyi(order):
    return order * 0.2**2 / 2


@pytest.mark.parametrize(
    ("shape", "gamma", "expected"),
    [
        (0.0, 0.0269182596, (0.99944007, 0.99944007, 1.24021134)),
        (0.5, 0.0625, (1.18343587, 1.18343587, 1.42420713)),
        (1.0, 0.1, (1.32915195, 1.32915195, 1.56992321)),
    ],
)
def test_published_negative_binomial_bound(shape, gamma, expected):
    assert negative_binomial_gamma(shape, 10.0) == pytest.approx(gamma, rel=1e-8)
    found = [
        papernot_steinke_rdp(order, gaussian_renyi, ORDERS, mean=10.0, shape=shape)
        for order in (2.0, 8.0, 32.0)
    ]
    assert found == pytest.approx(expected, rel=1e-7)


def test_published_poisson_bound_is_its_formula():
    event = GaussianDP(0.2)
    for order in (2.0, 8.0, 32.0):
        hat = math.log(order / (order - 1))
        expected = gaussian_renyi(order) + 10 * event.delta_at(hat) + math.log(10) / (order - 1)
        found = papernot_steinke_rdp(
            order,
            gaussian_renyi,
            (order,),
            mean=10.0,
            shape=math.inf,
            run_delta=event.delta_at,
        )
        assert found == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="run_delta"):
        papernot_steinke_rdp(2.0, gaussian_renyi, ORDERS, mean=10.0, shape=math.inf)


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1e-12, 0.5, 1.0, 4.0])
def test_negative_binomial_mean_inverts_and_counts(shape):
    for mean in (1.0, 1.5, 10.0, 80.0):
        gamma = negative_binomial_gamma(shape, mean)
        assert negative_binomial_mean(shape, gamma) == pytest.approx(mean, rel=1e-9)
    gamma, k = 0.3, np.arange(1, 400)
    steps = np.concatenate([[1.0], (1 - gamma) * (k[1:] - 1 + shape) / k[1:]])
    masses = np.cumprod(steps)  # P(K = k) up to a constant
    assert (k * masses).sum() / masses.sum() == pytest.approx(
        negative_binomial_mean(shape, gamma), rel=1e-9
    )


@pytest.mark.parametrize(
    ("mean", "shape", "published"),
    [
        (10.0, 0.0, 1.41801161),
        (10.0, 1.0, 1.71832824),
        (10.0, math.inf, 1.85953296),
        (50.0, 0.0, 1.61960718),
        (50.0, 1.0, 2.04631379),
    ],
)
def test_the_profile_bound_beats_the_one_through_renyi_divergences(mean, shape, published):
    found = BestOfRandomRuns(GaussianDP(0.2), mean, shape).epsilon_at(1e-5)
    assert GaussianDP(0.2).epsilon_at(1e-5) < found < published


def derivative_of_generating_function(x, mean, shape):
    if math.isinf(shape):
        return mean * np.exp(mean * (x - 1))
    gamma = negative_binomial_gamma(shape, mean)
    return mean * (gamma / (1 - (1 - gamma) * x)) ** (shape + 1)


def exact_selection_delta(first, second, mean, shape, epsilon):
    """Delta of selecting the largest output, from the probabilities of ordered outputs."""
    total = 0.0
    densities = []
    for masses in (first, second):
        below = np.cumsum(masses) - masses / 2
        densities.append(masses * derivative_of_generating_function(below, mean, shape))
    total = np.maximum(0.0, densities[0] - math.exp(epsilon) * densities[1]).sum()
    return float(total)


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0, math.inf])
@pytest.mark.parametrize("mean", [3.0, 10.0, 40.0])
@pytest.mark.parametrize("flip", [1, -1])
def test_never_below_an_exact_gaussian_selection(shape, mean, flip):
    """Outputs N(0, 1) and N(mu, 1) that are their own scores, on a fine grid of cells."""
    mu = 0.4
    edges = np.linspace(-9, 9 + mu, 200_001)
    first, second = (np.diff(norm.cdf(edges, center)) for center in (0.0, mu))
    event = BestOfRandomRuns(GaussianDP(mu), mean, shape)
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        bound = event.delta_at(epsilon)
        for pair in ((first, second), (second, first)):
            exact = exact_selection_delta(*(p[::flip] for p in pair), mean, shape, epsilon)
            assert exact <= bound + 1e-7


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
def test_never_below_randomized_response(shape):
    """The selected bit of runs that answer at random, with ties broken at random."""
    epsilon = 0.5
    rate = math.exp(epsilon) / (1 + math.exp(epsilon))
    cells = 2000  # the tie breaker, discretized
    bits = [np.repeat([1 - rate, rate], cells) / cells, np.repeat([rate, 1 - rate], cells) / cells]
    event = BestOfRandomRuns(PureDP(epsilon), 8.0, shape)
    for target in (0.0, 0.4, 0.8, 1.2):
        for pair in (bits, bits[::-1]):
            exact = exact_selection_delta(*pair, 8.0, shape, target)
            assert exact <= event.delta_at(target) + 1e-3 * (target == 0.0) + 1e-6
    if math.isfinite(shape):  # at most (2 + shape) epsilon, Liu and Talwar; here it is less
        assert event.epsilon_at(0.0) <= (2 + shape) * epsilon
    else:
        assert math.isinf(event.epsilon_at(0.0))


def test_a_single_run_costs_a_single_run():
    event = BestOfRandomRuns(GaussianDP(0.7), 1.0, 1.0)
    assert event.epsilon_at(1e-5) == GaussianDP(0.7).epsilon_at(1e-5)


@pytest.mark.parametrize("shape", [0.0, math.inf])
def test_profile_falls_inverts_and_grows_with_the_mean(shape):
    event = BestOfRandomRuns(ApproximateDP(0.3, 1e-8), 5.0, shape)
    epsilons = np.linspace(0.0, 3.0, 13)
    deltas = [event.delta_at(e) for e in epsilons]
    assert np.all(np.diff(deltas) <= 1e-12)
    assert event.delta_at(event.epsilon_at(1e-6)) <= 1e-6 * (1 + 1e-9)
    assert event.epsilon_at(1e-6) < BestOfRandomRuns(event.event, 9.0, shape).epsilon_at(1e-6)
    assert event.epsilon_at(1e-9) == math.inf  # below the delta of the runs


def test_json_and_composition():
    run = any_of((GaussianDP(0.2), DiscreteLaplace(4.0), GaussianDP(0.2)))
    event = BestOfRandomRuns(run, 10.0, 1.0)
    assert event_from_dict(event.to_dict()) == event
    assert event_from_dict(BestOfRandomRuns(run, 10.0, math.inf).to_dict()).shape == math.inf
    alone = event.epsilon_at(1e-5)
    with_more = compose([event, PureDP(0.1)]).epsilon_at(1e-5)
    assert alone <= with_more <= alone + 0.1 + 1e-6
    assert repeat(event, 2).epsilon_at(1e-5) <= 2 * event.epsilon_at(0.5e-5) + 1e-6


def test_any_of_is_the_worst_of_its_parts():
    parts = (GaussianDP(0.5), PureDP(0.6))
    event = AnyOf(parts)
    for epsilon in (0.0, 0.2, 0.55, 1.0):
        assert event.delta_at(epsilon) == max(part.delta_at(epsilon) for part in parts)
    assert event.epsilon_at(1e-3) == max(part.epsilon_at(1e-3) for part in parts)
    assert event._profile(np.array([0.0, 0.5])).shape == (2,)
    assert any_of((PureDP(1.0), PureDP(1.0))) == PureDP(1.0)
    assert event_from_dict(event.to_dict()) == event


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: BestOfRandomRuns(PureDP(1.0), 0.5, 1.0), "mean"),
        (lambda: BestOfRandomRuns(PureDP(1.0), 5.0, -1.0), "shape"),
        (lambda: BestOfRandomRuns(PureDP(1.0), -5.0, math.inf), "mean"),
        (lambda: negative_binomial_mean(1.0, 0.0), "gamma"),
        (lambda: AnyOf(()), "events"),
    ],
)
def test_bad_numbers_are_named(make, name):
    with pytest.raises(ValueError, match=name):
        make()
