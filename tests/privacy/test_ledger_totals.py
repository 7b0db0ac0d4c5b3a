"""What many reservations cost together: tight, never below the truth, and quick to decide."""

from __future__ import annotations

import math

import pytest

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.privacy.composition.composed import compose, repeat
from skdpbayes.privacy.events import BoundedRange, GaussianDP, NoPrivacy, PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.ledger import decisions as ledger_decisions
from skdpbayes.privacy.ledger.decisions import fits_tightly
from skdpbayes.privacy.ledger.totals import RunningTotals, tight_delta, tight_total
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_epsilon
from skdpbayes.privacy.mechanisms.laplace import LaplaceNoise


def guarantee(event, delta=0.0):
    return PrivacyGuarantee.from_event(
        event, delta=delta, adjacency="replace_one", mechanism="test noise"
    )


def pure(epsilon):
    return guarantee(PureDP(epsilon))


def count_accepted(ledger, asked):
    accepted = 0
    try:
        while True:
            ledger.reserve(asked)
            accepted += 1
    except BudgetExceededError:
        return accepted


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.ledger"


EVENTS = (
    (PureDP(0.05), 40),
    (GaussianDP(0.1), 9),
    (BoundedRange(0.1), 12),
    (LaplaceNoise(20.0), 5),
    (DiscreteGaussian(12.0, shift=2), 6),
)


def test_the_total_is_the_composition_of_the_events(path):
    ledger = PrivacyLedger(path, epsilon=50.0, delta=1e-6)
    for event, count in EVENTS:
        for _ in range(count):
            ledger.reserve(guarantee(event, 1e-6))
    whole = compose(repeat(event, count) for event, count in EVENTS)
    spent = ledger.spent()
    assert spent.epsilon == pytest.approx(whole.epsilon_at(1e-6), rel=1e-4)
    assert spent.delta_at(1.0) == pytest.approx(whole.delta_at(1.0), rel=1e-3)
    assert spent.conditions == (
        "the sizes of the reservations were not chosen in view of earlier releases",
    )


def test_gaussian_releases_add_in_squares_without_conditions(path):
    ledger = PrivacyLedger(path, epsilon=50.0, delta=1e-6)
    mus = [0.3, 0.4, *(0.1 + i / 300 for i in range(40))]
    for mu in mus:
        ledger.reserve(guarantee(GaussianDP(mu), 1e-6))
    total = math.sqrt(sum(mu**2 for mu in mus))
    assert ledger.spent().epsilon == pytest.approx(gdp_epsilon(total, 1e-6), rel=1e-9)
    assert ledger.spent().conditions == ()


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(("event", "count"), EVENTS)
def test_running_sums_bound_the_tight_total_from_above(event, count, delta):
    price = RunningTotals.of(guarantee(event, 1e-10))
    totals = RunningTotals()
    for _ in range(count):
        totals += price
    tight = repeat(event, count).epsilon_at(delta)
    # Composition rounds up by at most 1e-4, the closed form of a Gaussian hardly at all.
    assert totals.epsilon_at(delta) >= tight * (1.0 - 1e-4)
    assert totals.within(totals.epsilon_at(delta) * (1.0 + 1e-9), delta)
    assert not totals.within(tight * 0.99, delta)


def test_totals_survive_json_exactly():
    totals = RunningTotals.of(guarantee(compose([PureDP(0.1), GaussianDP(1 / 3)]), 1e-7))
    totals += RunningTotals.of(guarantee(NoPrivacy()))
    assert RunningTotals.from_json(totals.to_json()) == totals


@pytest.mark.parametrize("kind", [PureDP, BoundedRange])
def test_many_distinct_events_are_rounded_to_the_private_side(kind):
    events = [kind(0.01 + 1e-5 * i) for i in range(300)]
    charges = tuple((guarantee(event).to_json(), 2) for event in events)
    total = tight_total(charges)
    lowest, highest = (repeat(kind(value), 600) for value in (0.01, 0.013 * 1.02))
    least, most = lowest.epsilon_at(1e-6), highest.epsilon_at(1e-6)
    assert least < total.epsilon_at(1e-6) <= most * (1 + 1e-4)
    middle = repeat(kind(0.0115), 600).epsilon_at(1e-6)  # squares add: the mean is below
    assert total.epsilon_at(1e-6) >= middle * (1 - 1e-4)


def test_more_reservations_fit_than_claims_add_up_to(path):
    ledger = PrivacyLedger(path, epsilon=1.0, delta=1e-5)
    accepted = count_accepted(ledger, pure(0.03))
    assert repeat(PureDP(0.03), accepted).delta_at(1.0) <= 1e-5
    assert repeat(PureDP(0.03), accepted + 1).delta_at(1.0) > 1e-5
    assert accepted > 60  # 33 by adding up
    assert len(ledger.entries()) == accepted
    assert ledger.spent().epsilon <= 1.0


def test_decisions_agree_with_composition_and_are_asked_rarely(monkeypatch):
    asked = []

    def recording(charges, epsilon):
        asked.append(charges)
        return tight_delta(charges, epsilon)

    monkeypatch.setattr(ledger_decisions, "tight_delta", recording)
    ledger_decisions._memory.cache_clear()
    text, other = pure(0.02).to_json(), guarantee(GaussianDP(0.1), 1e-6).to_json()
    decisions = [fits_tightly(((text, n), (other, 1)), 0.7, 1e-6) for n in range(1, 200)]
    limit = sum(decisions)
    assert decisions == [True] * limit + [False] * (199 - limit)
    assert tight_delta(((text, limit), (other, 1)), 0.7) <= 1e-6
    assert tight_delta(((text, limit + 1), (other, 1)), 0.7) > 1e-6
    assert len(asked) < 0.6 * len(decisions)
    n_asked = len(asked)
    assert fits_tightly(((text, 3), (text, 4)), 0.7, 1e-6)  # less of one, none of the other
    assert not fits_tightly(((text, 150), (other, 90)), 0.7, 1e-6)  # more of both
    assert len(asked) == n_asked
    assert fits_tightly(((text, 150), (other, 90)), 7.0, 1e-6)  # another budget, another memory


def test_many_different_reservations_add_up_exactly(path):
    # Every one is its own charge, so that grouping equal ones does not help.
    ledger = PrivacyLedger(path, epsilon=10.0)
    for i in range(1, 201):
        ledger.reserve(pure(i / 10_000))
    assert ledger.spent().epsilon == 2.01
    assert ledger.remaining_epsilon() == 7.99
