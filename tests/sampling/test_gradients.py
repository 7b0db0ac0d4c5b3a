"""A chain on a user's gradients: the right posterior, and private whatever the gradients are."""

from __future__ import annotations

import numpy as np
import pytest

from skdpbayes import PrivacyLedger
from skdpbayes.auditing import audit_scores
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.units import Members
from skdpbayes.models import clipped_integers, sum_unit
from skdpbayes.sampling import chain, check_per_record, plan_chain
from skdpbayes.sampling.gradients import Gradients
from skdpbayes.sampling.records import read_records

TWO = {"epsilon": 6.0, "delta": 1e-2, "clip_norm": 1.0, "step_size": 1e-3}


def mean_gradient(mean, x):
    return x - mean


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e-9, 0.3, 1.0, 1e9, 1e200, 1e308])
@pytest.mark.parametrize("clip_norm", [1e-3, 1.0, 40.0])
def test_no_row_is_longer_than_the_norm(scale, clip_norm):
    rng = np.random.default_rng(0)
    rows = np.clip(min(scale, 1e307) * rng.normal(size=(200, 7)), -1.7e308, 1.7e308)
    rows[3] = 0.0
    unit = sum_unit(1000, clip_norm)
    integers = clipped_integers(rows, clip_norm, unit)
    # Python integers: the length squared without rounding
    longest = max(sum(int(v) ** 2 for v in row) for row in integers)
    from fractions import Fraction

    assert Fraction(longest) * Fraction(unit) ** 2 <= Fraction(clip_norm) ** 2
    lengths = np.linalg.norm(np.clip(rows, -1e150, 1e150), axis=1)
    short = lengths < clip_norm
    np.testing.assert_allclose(integers[short] * unit, rows[short], atol=2 * unit, rtol=1e-12)
    if scale >= 1e9:
        assert longest > (clip_norm / unit) ** 2 * (1 - 1e-9)


def test_rows_that_are_not_finite_count_as_zero():
    rows = np.array([[1.0, np.nan], [np.inf, 0.0], [-np.inf, np.nan], [0.25, -0.5]])
    integers = clipped_integers(rows, 1.0, 2.0**-20)
    np.testing.assert_array_equal(integers[:3], 0)
    np.testing.assert_allclose(integers[3] * 2.0**-20, [0.25, -0.5], atol=2.0**-19)


def test_sums_do_not_depend_on_blocks_and_order(monkeypatch):
    x = np.random.default_rng(0).normal(size=(300, 3))
    shared = (mean_gradient, None, x, 300, (3,), 0.7)
    order = np.random.default_rng(1).permutation(300)
    whole = Gradients(*shared).gradients(np.ones(3), None)[0]
    shuffled = Gradients(*shared).gradients(np.ones(3), order)[0]
    monkeypatch.setattr("skdpbayes.sampling.records.BLOCK_NUMBERS", 20)
    np.testing.assert_array_equal(Gradients(*shared).gradients(np.ones(3), order)[0], whole)
    np.testing.assert_array_equal(shuffled, whole)


@pytest.mark.parametrize("wild", [np.nan, np.inf, -1e308, 1e30])
def test_a_record_moves_the_sum_by_at_most_twice_the_norm(wild):
    x = np.random.default_rng(0).normal(size=(50, 3))
    neighbor = x.copy()
    neighbor[7] = wild
    first, second = (
        Gradients(mean_gradient, None, data, 50, (3,), 0.5).gradients(np.ones(3), None)[0]
        for data in (x, neighbor)
    )
    assert np.linalg.norm(first - second) <= 1.0


@pytest.mark.parametrize("sampler", ["sgld", "sghmc"])
def test_the_chain_samples_the_posterior(sampler):
    """Mean and deviation of a normal mean, without privacy; two-sided."""
    x = np.random.default_rng(0).normal(0.5, 1.0, (400, 1))
    step = 2e-4 if sampler == "sgld" else 1e-2
    drawn = chain(
        mean_gradient,
        lambda mean: -mean,
        np.zeros(1),
        x,
        clip_norm=50.0,
        step_size=step,
        epsilon=np.inf,
        sampler=sampler,
        n_steps=20_000,
        batch_size=400,
        tail=0.9,
        n_kept=2000,
        random_state=0,
    )
    assert drawn.mean[0] == pytest.approx(x.sum() / 401.0, abs=0.01)
    assert drawn.draws.std() == pytest.approx(401.0**-0.5, rel=0.12)
    assert drawn.temperature == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:delta")
def test_plan_and_chain_agree_and_steps_may_decrease():
    x = np.random.default_rng(0).normal(size=(1000, 2))
    options = {
        **TWO,
        "n_steps": 20,
        "batch_size": 100,
        "sampler": {"kind": "sgld", "schedule": (10.0, 0.5)},
    }
    plan = plan_chain(1000, 2, **options)
    drawn = chain(mean_gradient, None, np.zeros(2), x, **options, random_state=0)
    assert drawn.privacy_.event == plan.event
    assert drawn.privacy_.delta_at(6.0) <= 1e-2
    assert drawn.plan.chain.noise == plan.chain.noise
    assert drawn.draws.shape == (10, 2)
    assert "alone" in drawn.privacy_.conditions[0]


@pytest.mark.parametrize("subsampling", ["poisson", "fixed"])
def test_an_audit_of_wrong_gradients(subsampling):
    """Gradients are a million times what the user says; only clipping saves the claim."""

    def huge(position, x):
        return 1e6 * np.sign(x)[:, None] * np.ones(1)

    def one_step(x, gradient, seed):
        # so long a step that the sampler's own noise is less than what privacy needs
        options = {**TWO, "step_size": 10.0, "n_steps": 1, "batch_size": len(x)}
        options["subsampling"] = subsampling
        drawn = chain(gradient, None, np.zeros(1), x, **options, random_state=seed)
        return drawn.draws[0, 0], drawn.privacy_

    x, neighbor = np.array([1.0, -1.0, 1.0]), np.array([1.0, -1.0, -1.0])
    claim = one_step(x, huge, 0)[1]

    def scores(gradient):
        return [[one_step(d, gradient, seed)[0] for seed in range(400)] for d in (neighbor, x)]

    result = audit_scores(*scores(huge), claim=claim, threshold=0.0)
    assert result.verdict == "not refuted"
    assert result.epsilon_if_gaussian > 4.0  # of 6: the noise is not much more than is paid for

    def mixing(position, x):  # breaks the condition that the claim states
        return np.sign(x.sum()) * np.ones((len(x), 1))

    with pytest.raises(ValueError, match="other records"):
        check_per_record(mixing, np.zeros(1), neighbor)
    broken = audit_scores(*scores(mixing), claim=claim, threshold=0.0)
    assert broken.verdict == "refuted"


def test_what_is_wrong_is_said_before_the_ledger_is_charged(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=5.0, delta=1e-3)
    x = np.zeros((300, 2))
    good = {"clip_norm": 1.0, "step_size": 1e-3, "ledger": ledger, "random_state": 0}
    for wrong in (
        {"clip_norm": 0.0},
        {"clip_norm": np.inf},
        {"step_size": -1.0},
        {"sampler": "sgfs"},
        {"batch_size": 301},
        {"tail": 0.0},
    ):
        with pytest.raises((ValueError, TypeError)):
            chain(mean_gradient, None, np.zeros(2), x, **{**good, **wrong})
    with pytest.raises(CalibrationError):
        chain(mean_gradient, None, np.zeros(2), x, **good, delta=0.0)
    with pytest.raises(ValueError, match="start"):
        chain(mean_gradient, None, [np.nan, 0.0], x, **good)
    with pytest.raises(ValueError, match="same"):
        chain(mean_gradient, None, np.zeros(2), (x, x[1:]), **good)
    assert ledger.entries() == []
    with pytest.raises(ValueError, match="shape") as raised:
        chain(lambda at, x: x.mean(axis=0), None, np.zeros(2), x, **good, n_steps=2)
    assert len(ledger.entries()) == 1
    assert raised.value.__notes__
    with pytest.raises(ValueError, match="prior_gradient"):
        chain(mean_gradient, lambda at: 0.0, np.zeros(2), x, **good, n_steps=2)


def test_a_chain_that_diverges_stays_finite_for_the_user():
    def gradient(position, x):
        assert np.isfinite(position).all()
        with np.errstate(over="ignore"):
            return np.tile(position * 1e300, (len(x), 1))

    drawn = chain(
        gradient,
        lambda at: at * 1e10,
        np.ones(1),
        np.zeros(300),
        **{**TWO, "delta": 1e-3},
        n_steps=60,
        random_state=0,
    )
    assert drawn.draws.shape[1:] == (1,)


@pytest.mark.parametrize("n_own", [1, 3, 7, 300])
def test_a_persons_gradients_are_no_longer_than_one(n_own):
    """Exactly, in Python integers; without weights they would be n_own times as long."""
    x = np.concatenate([np.zeros((20, 3)), 1e9 * np.ones((n_own, 3))])
    owners = np.concatenate([np.arange(20), np.full(n_own, 20)])
    records = read_records(x, owners)
    potential = Gradients(
        mean_gradient, None, records.data, records.n, (3,), 0.7, records.weight, records.members
    )
    person, none = (
        potential.gradients(np.zeros(3), np.array(rows, dtype=int))[0] for rows in ([20], [3])
    )
    np.testing.assert_array_equal(none, 0.0)
    squared = sum(round(v / potential.unit) ** 2 for v in person)
    assert (1 - 1e-2) ** 2 * 0.7**2 < squared * potential.unit**2 <= 0.7**2
    everyone = potential.gradients(np.zeros(3), None)[0]
    np.testing.assert_array_equal(everyone, person)


def test_batches_are_made_of_persons_and_an_audit_of_a_person_passes():
    """A person with 40 records of huge gradients; the unweighted variant is refuted."""

    def huge(position, x):
        return 1e6 * np.sign(x)[:, None] * np.ones(1)

    x = np.concatenate([[1.0, -1.0], np.ones(40)])
    neighbor = np.concatenate([[1.0, -1.0], -np.ones(40)])
    owners = np.concatenate([[0, 1], np.full(40, 2)])
    options = {**TWO, "step_size": 10.0, "n_steps": 1}

    def scores(**units):
        n = 3 if units else 42
        runs = [
            [
                chain(huge, None, np.zeros(1), d, **options, **units, batch_size=n, random_state=i)
                for i in range(300)
            ]
            for d in (neighbor, x)
        ]
        return [[run.draws[0, 0] for run in part] for part in runs], runs[0][0].privacy_

    of_persons, claim = scores(units=owners)
    assert claim.unit == "person"
    assert audit_scores(*of_persons, claim=claim, threshold=0.0).verdict == "not refuted"
    of_records, _ = scores()
    assert audit_scores(*of_records, claim=claim, threshold=0.0).verdict == "refuted"


@pytest.mark.parametrize("sampled", [None, np.arange(0, 90, 2)])
def test_how_many_records_a_person_has_changes_no_bit_of_the_others(sampled):
    """The last bits of a row of a matrix product depend on its place and on the number of rows."""
    rng = np.random.default_rng(0)
    x, owner = rng.standard_normal((300, 64)), np.append(np.arange(90), rng.integers(1, 90, 210))
    first, last = (rng.standard_normal(shape, np.float32) for shape in ((64, 50), (50, 3)))

    def network(position, rows):
        return np.tanh(rows.astype(np.float32) @ first) @ last + position

    sums = []
    for more in (0, 1, 6):
        rows = np.append(rng.standard_normal((more, 64)), x, axis=0)
        whose = np.append(np.zeros(more, dtype=np.intp), owner)
        weight = np.where(whose == 0, 0.0, 0.125)  # all but that person
        how = (network, None, rows, 90, (3,), 2.0, weight)
        sums.append(Gradients(*how, Members.of(whose, 90)).gradients(np.zeros(3), sampled)[0])
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    chosen = Members.of(whose, 90).rows(np.arange(90) if sampled is None else sampled)
    found = Gradients(*how).gradients(np.zeros(3), chosen)[0]
    np.testing.assert_allclose(found, sums[0], rtol=1e-4)


def test_units_of_one_record_each_change_nothing():
    x = np.random.default_rng(0).normal(size=(400, 2))
    options = {**TWO, "delta": 1e-4, "n_steps": 20, "batch_size": 100, "random_state": 0}
    plain = chain(mean_gradient, None, np.zeros(2), x, **options)
    alone = chain(mean_gradient, None, np.zeros(2), x, units=np.arange(400), **options)
    np.testing.assert_array_equal(plain.draws, alone.draws)
