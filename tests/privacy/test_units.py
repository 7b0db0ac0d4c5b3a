"""Whose data a claim protects: words, JSON, group privacy, and one unit per account."""

import itertools
import json
import math
import pickle

import numpy as np
import pytest

from skdpbayes import PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError, LedgerError
from skdpbayes.privacy import GaussianDP, PrivacyGuarantee, PureDP, gdp_delta
from skdpbayes.release import fractions as release_fractions
from skdpbayes.release.fractions import fraction_noise


def claim(event=None, delta=0.0, unit="record", adjacency="replace_one"):
    event = PureDP(0.1) if event is None else event
    return PrivacyGuarantee.from_event(
        event, delta=delta, adjacency=adjacency, mechanism="test noise", unit=unit
    )


def test_the_words_say_whose_records_change():
    assert "when one record is replaced by another (replace_one)" in str(claim())
    assert "when all records of one person are replaced by any others (replace_one)" in str(
        claim(unit="person")
    )
    assert "all records of one person are replaced by null records" in str(
        claim(unit="person", adjacency="zero_out")
    )
    with pytest.raises(ValueError, match="unit must be 'record' or 'person'"):
        claim(unit="visit")


def test_json_keeps_the_unit_and_old_files_are_claims_for_a_record():
    person = claim(unit="person")
    assert PrivacyGuarantee.from_json(person.to_json()) == person
    assert person != claim()
    fields = json.loads(claim().to_json())
    assert fields.pop("unit") == "record"
    assert PrivacyGuarantee.from_json(json.dumps(fields)) == claim()


def test_a_claim_for_records_is_worth_less_to_a_person():
    mu = 0.0325
    many = claim(GaussianDP(mu), 1e-6).of_persons(40)
    assert (many.unit, many.event) == ("person", GaussianDP(40 * mu))
    assert gdp_delta(many.epsilon, 40 * mu) == pytest.approx(1e-6, rel=1e-3)
    assert many.conditions == ("no person has more than 40 records",)
    with pytest.raises(ValueError, match="for persons already"):
        many.of_persons(2)


class TestAccountsOfPersons:
    def test_one_unit_per_account(self, tmp_path):
        ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1.0, unit="person")
        with pytest.raises(LedgerError, match=r"Fit with units=ids, .*for_records"):
            ledger.reserve(claim())
        assert ledger.reserve(claim(unit="person")) == 1
        assert (ledger.entries()[0].unit, ledger.spent().unit) == ("person", "person")
        records = PrivacyLedger(tmp_path / "records", epsilon=1.0)
        with pytest.raises(LedgerError, match="Fit without units"):
            records.reserve(claim(unit="person"))
        with pytest.raises(ValueError, match="counts records"):
            records.for_records(3)
        with pytest.raises(ValueError, match="unit must be"):
            PrivacyLedger(tmp_path / "visits", epsilon=1.0, unit="visit")

    def test_records_are_charged_by_group_privacy(self, tmp_path):
        ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1.0, unit="person")
        account = pickle.loads(pickle.dumps(ledger.for_records(4)))
        account.reserve(claim(), label="four visits")
        (entry,) = ledger.entries()
        assert (entry.unit, entry.epsilon) == ("person", pytest.approx(0.4))
        assert entry.conditions == ("no person has more than 4 records",)
        assert ledger.remaining_epsilon() == pytest.approx(0.6)
        account.reserve(claim(unit="person"))  # a claim for persons costs what it says
        assert ledger.remaining_epsilon() == pytest.approx(0.5)
        with pytest.raises(BudgetExceededError):
            ledger.for_records(6).reserve(claim())
        with pytest.raises(ValueError, match="most_per_person"):
            ledger.for_records(0)

    def test_plans_are_for_persons_too(self, tmp_path):
        ledger = PrivacyLedger(tmp_path / "ledger", epsilon=1.0, delta=1e-5, unit="person")
        plan = ledger.plan([claim(unit="person")] * 3)
        with pytest.raises(LedgerError, match="unit='person'"):
            plan.reserve(claim())
        assert plan.reserve(claim(unit="person")) == 2


def profile(moves, law, scale, epsilon, reach):
    """Exact profile of discrete noise on counts that move by these numbers of steps."""
    grid = np.arange(-reach, reach + 1.0)
    losses, masses = np.zeros(1), np.ones(1)
    for move in moves:
        log = (
            (lambda k: -np.abs(k) / scale)
            if law == "laplace"
            else (lambda k: -0.5 * (k / scale) ** 2)
        )
        mass = np.exp(log(grid))
        losses = np.add.outer(losses, log(grid) - log(grid - move)).ravel()
        masses = np.multiply.outer(masses, mass / mass.sum()).ravel()
    return float(masses @ np.maximum(0.0, -np.expm1(epsilon - losses)))


class TestFractions:
    """Persons move counts by fractions: every split of a move on a tiny grid, summed exactly."""

    @pytest.mark.parametrize("law", ["laplace", "gaussian"])
    @pytest.mark.parametrize("moves", [1, 2])
    def test_no_split_of_a_move_costs_more_than_its_price(self, law, moves, monkeypatch):
        monkeypatch.setattr(release_fractions, "LEAST_DEVIATION", 0.0)  # of tiny grids
        steps, epsilon, delta = 8, 1.0, 1e-3
        scale, event = fraction_noise(epsilon, delta, law, moves, steps)
        fine, reach = scale * steps, math.ceil(scale * steps * (8 if law == "gaussian" else 14))
        found = {}
        for first in range(steps + 1):
            # a person adds parts of one count to two cells; replaced, she takes parts from two more
            parts = (first, steps - first) if moves == 1 else (first, -steps)
            for at in (0.3, epsilon):
                cost = profile(parts, law, fine, at, reach)
                found[first, at] = cost
                assert cost <= event.delta_at(at) * (1.0 + 1e-6) + 1e-9
        # the price is met by whole moves, and a mutant with half of it is not enough
        assert max(found.values()) > 0.2 * event.delta_at(0.3)
        half = (
            PureDP(0.5 * epsilon)
            if law == "laplace"
            else GaussianDP(0.5 * math.sqrt(moves) / scale)
        )
        assert max(cost for (_, at), cost in found.items() if at == 0.3) > half.delta_at(0.3)

    def test_a_move_in_any_direction_costs_as_much_as_one_count_that_moves_a_step_more(self):
        """Exact sums over two counts against a normal number, with noise of a few steps only."""
        rng = np.random.default_rng(0)
        least = 1.0
        for _ in range(60):
            scale, epsilon = rng.uniform(3.0, 9.0), rng.uniform(0.0, 2.0)
            move = rng.integers(0, 25, 2)
            if not move.any():
                continue
            length = float(np.hypot(*move))
            cost = profile(move, "gaussian", scale, epsilon, math.ceil(9 * scale) + 25)
            margin = gdp_delta(epsilon, (length + 1.0) / scale) - cost
            threshold = epsilon * scale / length - 0.5 * length / scale
            kink = math.exp(-0.5 * threshold**2) / math.sqrt(2.0 * math.pi) * length / scale**3
            assert abs(cost - gdp_delta(epsilon, length / scale)) <= kink / 12.0 + 1e-12
            assert margin >= 0.0
            # a mutant is priced by the longest entry
            least = min(least, gdp_delta(epsilon, (max(move) + 1.0) / scale) - cost)
        assert least < 0.0

    def test_noise_is_never_coarse(self):
        scale, event = fraction_noise(1e4, 1e-6, "gaussian", 3, 1 << 16)
        assert scale * (1 << 16) >= 1000.0
        assert event.delta_at(1e4) <= 1e-6

    @pytest.mark.parametrize("law", ["laplace", "gaussian"])
    def test_of_one_count_shorter_moves_cost_less_at_every_epsilon(self, law):
        epsilons = np.linspace(0.0, 2.0, 21)
        costs = np.array(
            [[profile((k,), law, 6.0, epsilon, 120) for epsilon in epsilons] for k in range(1, 9)]
        )
        assert (np.diff(costs, axis=0) >= -1e-15).all()
        assert all(a < b for a, b in itertools.pairwise(costs[:, 2]))
