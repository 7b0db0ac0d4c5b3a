"""The rule of an account: pairs that dominate, and a budget that no adaptive strategy overruns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import (
    ApproximateDP,
    BoundedRange,
    GaussianDP,
    NoPrivacy,
    PureDP,
)
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.ledger.filter import Filter, Price, dominating_pair
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_delta, gdp_mu
from skdpbayes.privacy.mechanisms.laplace import LaplaceNoise
from skdpbayes.privacy.mechanisms.objective_perturbation import ObjectivePerturbation
from skdpbayes.privacy.mechanisms.subsampling import SubsampledGaussian

EPSILON, DELTA = 1.0, 1e-5
RULE = Filter("gaussian", EPSILON, DELTA)
SIZE, SLACK = float(RULE.caps().size), float(RULE.caps().slack)


def guarantee(event, delta=0.0):
    return PrivacyGuarantee.from_event(
        event, delta=delta, adjacency="replace_one", mechanism="test noise"
    )


# Profiles at all real epsilon, written here from their definitions.


def gaussian(mu):
    if mu == 0.0:
        return lambda e: np.maximum(0.0, -np.expm1(e))
    return lambda e: norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu)


def pure(epsilon):
    """Randomized response."""
    p = 1.0 / (1.0 + math.exp(-epsilon))
    return lambda e: (
        np.maximum(0.0, p - np.exp(e) * (1 - p)) + np.maximum(0.0, (1 - p) - np.exp(e) * p)
    )


def revealing(delta, profile):
    return lambda e: delta + (1.0 - delta) * profile(e)


def divergence(p, q):
    return lambda e: np.array([np.maximum(0.0, p - np.exp(x) * q).sum() for x in e])


def discrete_gaussian(scale, shift):
    k = np.arange(-400, 401)
    p, q = (np.exp(-((k - at) ** 2) / (2 * scale**2)) for at in (0, shift))
    return divergence(p / p.sum(), q / q.sum())


def laplace(multiplier):
    x = np.linspace(-60.0, 61.0, 121_001)  # the two modes are points of this grid
    p, q = (np.exp(-np.abs(x - at) / multiplier) for at in (0.0, 1.0))
    return divergence(p / p.sum(), q / q.sum())


def two_coins(epsilon, mu):
    """Randomized response and a Gaussian release together."""
    p = 1.0 / (1.0 + math.exp(-epsilon))
    second = gaussian(mu)
    return lambda e: p * second(e - epsilon) + (1 - p) * second(e + epsilon)


def bounded_range(eta, t=0.5):
    """An exponential mechanism of two outcomes whose losses are t*eta and (t-1)*eta."""
    q = -math.expm1((t - 1) * eta) / (math.exp(t * eta) - math.exp((t - 1) * eta))
    p = q * math.exp(t * eta)
    return divergence(np.array([p, 1 - p]), np.array([q, 1 - q]))


REAL = np.concatenate([np.linspace(-3.0, 3.0, 401), np.linspace(-0.3, 0.3, 201)])


@pytest.mark.parametrize(
    ("event", "profile"),
    [
        (GaussianDP(0.2), gaussian(0.2)),
        (PureDP(0.1), pure(0.1)),
        (PureDP(3e-6), pure(3e-6)),
        (PureDP(2.0), pure(2.0)),
        (ApproximateDP(0.3, 1e-3), revealing(1e-3, pure(0.3))),
        (DiscreteGaussian(8.0, shift=3), discrete_gaussian(8.0, 3)),
        (DiscreteGaussian(0.7, shift=1), discrete_gaussian(0.7, 1)),
        (LaplaceNoise(5.0), laplace(5.0)),
        (compose([PureDP(0.3), GaussianDP(0.2)]), two_coins(0.3, 0.2)),
        *((BoundedRange(0.4), bounded_range(0.4, t)) for t in (0.1, 0.5, 0.9)),
    ],
)
def test_the_pair_dominates_at_every_real_epsilon(event, profile):
    mu, delta = dominating_pair(event, SIZE, SLACK)
    dominating = revealing(delta, gaussian(mu))(REAL)
    assert np.all(profile(REAL) <= dominating + 1e-14)


def test_pairs_in_closed_form():
    assert dominating_pair(GaussianDP(0.7), SIZE, SLACK) == (0.7, 0.0)
    for epsilon, mu in ((0.1, 0.125309), (1.0, 1.232035)):
        assert dominating_pair(PureDP(epsilon), SIZE, SLACK) == (pytest.approx(mu, abs=5e-7), 0.0)
    assert dominating_pair(ApproximateDP(0.1, 1e-7), SIZE, SLACK)[1] == 1e-7
    assert dominating_pair(NoPrivacy(), SIZE, SLACK) == (math.inf, 1.0)
    assert dominating_pair(PureDP(0.0), SIZE, SLACK) == (0.0, 0.0)
    joined = pure(1e-5)(np.array([0.0]))[0]  # both sides of the switch to a series
    for epsilon in (0.999999e-5, 1.000001e-5):
        mu = dominating_pair(PureDP(epsilon), SIZE, SLACK)[0]
        assert 2 * norm.cdf(mu / 2) - 1 == pytest.approx(joined, rel=2e-6)


@pytest.mark.parametrize(
    "event",
    [
        repeat(PureDP(0.03), 60),
        repeat(BoundedRange(0.05), 9),
        repeat(SubsampledGaussian(8.0, 0.01, "poisson", "replace_one"), 1000),
        compose([ObjectivePerturbation(12.0, 0.2, "zero_out"), GaussianDP(0.05)]),
    ],
)
def test_pairs_of_compositions_dominate_and_are_close(event):
    mu, delta = dominating_pair(event, SIZE, SLACK)
    for epsilon in np.linspace(0.0, event.epsilon_at(1e-11), 23):
        bound = delta + (1.0 - delta) * gdp_delta(epsilon, mu)
        assert event.delta_at(float(epsilon)) <= bound * (1.0 + 1e-9)
    assert delta <= 0.01 * SLACK
    # No pair can be below what a single point of the profile asks for.
    least = max(
        gdp_mu(float(e), event.delta_at(float(e)))
        for e in np.linspace(0.0, event.epsilon_at(1e-8), 9)[1:]
    )
    assert 0.99 * least <= mu <= 1.06 * least


def test_caps():
    assert math.sqrt(SIZE) == pytest.approx(0.266365, abs=1e-6)
    assert gdp_delta(EPSILON, math.sqrt(SIZE)) + SLACK <= DELTA
    total = Filter("sum", 0.3, 1e-5).caps()
    assert (str(total.size), str(total.slack)) == ("0.3", "0.00001")


# Two releases, the second chosen in view of the first one's privacy loss, priced exactly.


def losses_of_gaussian(mu):
    z = np.linspace(-9.0, 9.0, 6001)
    weight = norm.pdf(z)
    return mu * mu / 2 + mu * z, weight / weight.sum()


def losses_of_pure(epsilon):
    p = 1.0 / (1.0 + math.exp(-epsilon))
    return np.array([epsilon, -epsilon]), np.array([p, 1 - p])


def exact_delta(losses, seconds, revealed=0.0, *, epsilon=EPSILON):
    """Return delta(epsilon) if the best of `seconds` follows on each loss of the first release."""
    values, weights = losses
    best = np.max([second(epsilon - values) for second in seconds], axis=0)
    return revealed + (1.0 - revealed) * float(weights @ best)


def best_seconds(rule, total):
    """Return everything extreme that the filter admits after `total`."""
    caps = rule.caps()
    mu = math.sqrt(max(0.0, float(caps.size - total.size))) * (1.0 - 1e-9)
    epsilon, slack = rule.largest_pure(total), float(caps.slack - total.slack) * (1.0 - 1e-9)
    events = [GaussianDP(mu), PureDP(epsilon), ApproximateDP(epsilon, slack)]
    assert all(rule.admits(total + rule.price(guarantee(event))) for event in events)
    assert epsilon == rule.epsilon or not rule.admits(
        total + rule.price(guarantee(PureDP(epsilon + 1e-4)))
    )
    profiles = [gaussian(0.0), gaussian(mu), pure(epsilon)]
    return profiles + [revealing(slack, profile) for profile in profiles]


@pytest.mark.parametrize(("epsilon", "delta"), [(EPSILON, DELTA), (0.5, 0.02), (4.0, 1e-8)])
def test_no_strategy_of_two_releases_overruns_the_filter(epsilon, delta):
    rule, reached = Filter("gaussian", epsilon, delta), []
    size, slack = float(rule.caps().size), float(rule.caps().slack)
    for share in np.linspace(0.0, 1.0, 41)[1:]:
        mu = math.sqrt(share * size) * (1.0 - 1e-9)
        seconds = best_seconds(rule, rule.price(guarantee(GaussianDP(mu), delta)))
        reached.append(exact_delta(losses_of_gaussian(mu), seconds, epsilon=epsilon))
    for share in np.linspace(0.0, 1.0, 21)[1:]:
        size = share * rule.largest_pure(Price())
        for revealed in (0.0, 0.5 * slack):
            first = ApproximateDP(size, revealed)
            seconds = best_seconds(rule, rule.price(guarantee(first, revealed)))
            reached.append(exact_delta(losses_of_pure(size), seconds, revealed, epsilon=epsilon))
    assert max(reached) <= delta * (1.0 + 2e-5)  # the quadrature of kinks
    assert max(reached) > 0.98 * delta  # so the search is not idle


def test_whichever_bound_fits_is_no_filter():
    """What an earlier rule admitted: Gaussians by their squares, or claims by their sum."""
    reached = []
    for share in np.linspace(0.5, 0.99, 25):
        mu = share * gdp_mu(EPSILON, DELTA)
        rest = math.sqrt(gdp_mu(EPSILON, DELTA) ** 2 - mu**2)
        for spent in (1e-9, 1e-8, 1e-7, 1e-6):
            left = EPSILON - GaussianDP(mu).epsilon_at(spent)
            if left > 0.0:
                approximate = revealing(DELTA - spent, pure(left))
                reached.append(exact_delta(losses_of_gaussian(mu), [gaussian(rest), approximate]))
    assert max(reached) > 1.9 * DELTA


def test_the_strategies_that_overran_are_refused(tmp_path):
    # A tiny first release whose outcome picks the second. Either second release alone has a tight
    # total within the budget; the choice between them has 1.495 times the budget.
    rest = brentq(lambda e: compose([PureDP(0.02), PureDP(e)]).delta_at(1.0) - DELTA, 0.98, 0.99)
    seconds = [pure(rest), revealing(DELTA, gaussian(0.0))]
    for second in seconds:
        assert exact_delta(losses_of_pure(0.02), [second]) <= DELTA * (1.0 + 1e-6)
    overrun = exact_delta(losses_of_pure(0.02), seconds)
    assert overrun == pytest.approx(1.495 * DELTA, rel=1e-3)
    for name, second in (("a", PureDP(rest)), ("b", ApproximateDP(0.0, DELTA))):
        ledger = PrivacyLedger(tmp_path / name, epsilon=EPSILON, delta=DELTA)
        ledger.reserve(guarantee(PureDP(0.02)))
        with pytest.raises(BudgetExceededError):
            ledger.reserve(guarantee(second, DELTA))
    # With the sum, the first is paid out of epsilon and the second out of delta: both fit, and
    # the outcome of the first can only choose among claims that add up to the budget.
    ledger = PrivacyLedger(tmp_path / "c", epsilon=EPSILON, delta=DELTA, filter="sum")
    ledger.reserve(guarantee(PureDP(0.02)))
    ledger.reserve(guarantee(PureDP(0.98)))
    ledger.reserve(guarantee(ApproximateDP(0.0, DELTA), DELTA))
    assert ledger.remaining_epsilon() == 0.0
