"""One posterior sample of a user's model: exact, and private whatever the user says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from skdpbayes import PrivacyLedger
from skdpbayes.auditing import audit_scores
from skdpbayes.exceptions import BudgetExceededError, CalibrationError
from skdpbayes.privacy import bounded_range_eta, exponential_mechanism_inverse_temperature
from skdpbayes.sampling import check_per_record, one_posterior_sample, plan_one_posterior_sample
from skdpbayes.sampling.exponential import _choose, _sums, _weights
from skdpbayes.sampling.records import OwnRecords, read_records

POINTS = np.linspace(0.01, 0.99, 99)


def coin(p, x):
    return np.where(x[:, None] == 1, np.log(p), np.log1p(-p))


def steep(p, x):
    """A log-likelihood that is no likelihood: huge, infinite and undefined values."""
    values = 1e6 * (x[:, None] - 0.5) * (p - 0.5)
    values[:, 0], values[:, 1] = np.nan, np.where(x == 1, np.inf, -np.inf)
    return values


def probabilities(function, data, plan, log_prior):
    """What the code draws from, as exact integers over their sum."""
    sums, unit = _sums(function, POINTS, read_records(data), plan.bound)
    weights = _weights(sums, plan.temper * unit, log_prior)
    total = sum(weights)
    return [(weight, total) for weight in weights]


def logs(pairs):
    from mpmath import log, mp, mpf

    mp.prec = 1200
    return [log(mpf(w)) - log(mpf(t)) for w, t in pairs]


def test_the_law_is_the_tempered_posterior():
    data = np.repeat([1.0, 0.0], [30, 70])
    plan = plan_one_posterior_sample(bound=(-5.0, 0.0), epsilon=2.0)
    prior = stats.beta(2.0, 3.0).logpdf(POINTS)
    found = np.array([float(v) for v in logs(probabilities(coin, data, plan, prior))])
    exact = plan.temper * (30 * np.log(POINTS) + 70 * np.log1p(-POINTS)) + prior
    np.testing.assert_allclose(found, exact - logsumexp(exact), atol=1e-9)


def test_draws_follow_the_law():
    generator = np.random.default_rng(0)
    weights = [1 << 1000, 3 << 1000, 4 << 1000]
    counts = np.bincount([_choose(generator, weights) for _ in range(8000)], minlength=3)
    assert stats.chisquare(counts, [1000, 3000, 4000]).pvalue > 1e-3
    assert stats.chisquare(counts, [1500, 2500, 4000]).pvalue < 1e-6


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("bound", [(-5.0, 0.0), (-1.0, 0.0), (-1e-3, 2e-3), 100.0])
@pytest.mark.parametrize("function", [coin, steep])
@pytest.mark.parametrize("calibration", ["bounded_range", "wang2015"])
def test_the_loss_has_the_range_that_is_paid_for(function, bound, adjacency, calibration):
    """Exact losses of neighbors, for bounds that hold and for bounds that do not."""
    plan = plan_one_posterior_sample(
        bound=bound, epsilon=1.5, adjacency=adjacency, calibration=calibration
    )
    rest = np.repeat([1.0, 0.0], [12, 9])
    ones, other = np.append(rest, 1.0), np.append(rest, 0.0)
    if adjacency == "zero_out":
        other = rest
    prior = np.linspace(-900.0, 0.0, POINTS.size)
    first, second = (logs(probabilities(function, d, plan, prior)) for d in (ones, other))
    losses = [a - b for a, b in zip(first, second, strict=True)]
    width = float(max(losses) - min(losses))
    assert width <= plan.event.eta
    assert float(max(abs(loss) for loss in losses)) <= plan.event.eta <= 1.5 * (1 + 1e-12)
    if function is steep and calibration == "bounded_range" and plan.temper < 1.0:
        assert width > 0.95 * plan.event.eta  # and no more is paid than needed


def test_the_power_is_that_of_the_papers():
    tight = plan_one_posterior_sample(bound=(-5.0, 0.0), epsilon=1.0).temper
    printed = plan_one_posterior_sample(bound=(-5.0, 0.0), epsilon=1.0, calibration="wang2015")
    assert tight == pytest.approx(exponential_mechanism_inverse_temperature(1.0, 5.0), rel=1e-9)
    assert printed.temper == pytest.approx(1.0 / 20.0, rel=1e-9)
    assert plan_one_posterior_sample(bound=0.1, epsilon=5.0).temper == 1.0  # the posterior itself
    many = plan_one_posterior_sample(bound=5.0, epsilon=1.0, delta=1e-5, n_draws=50)
    assert many.temper == pytest.approx(bounded_range_eta(1.0, 1e-5, 50) / 20.0, rel=1e-6)


def test_an_audit_of_a_wrong_bound_does_not_refute_the_claim_and_the_broken_one_is():
    """The user says [-1, 0], the truth reaches -4.6; without clamping the claim would be false."""
    data, neighbor = np.zeros(2), np.array([0.0, 1.0])
    options = {"points": POINTS[[0, -1]], "epsilon": 1.0}

    def scores(x, bound, seed):
        return [
            one_posterior_sample(coin, None, x, bound=bound, random_state=i, **options).draws[0]
            for i in range(seed, seed + 1500)
        ]

    claim = one_posterior_sample(coin, None, data, bound=(-1.0, 0.0), **options).privacy_
    result = audit_scores(
        scores(data, (-1.0, 0.0), 0),
        scores(neighbor, (-1.0, 0.0), 10_000),
        claim=claim,
        threshold=0.5,
    )
    assert result.verdict == "not refuted"
    plan = plan_one_posterior_sample(bound=(-1.0, 0.0), epsilon=1.0)
    exact = np.array([coin(POINTS[[0, -1]], d).sum(axis=0) * plan.temper for d in (data, neighbor)])
    draw = np.random.default_rng(0)
    odds = 1.0 / (1.0 + np.exp(exact[:, 0] - exact[:, 1]))
    unclamped = [np.where(draw.random(1500) < p, 0.99, 0.01) for p in odds]
    broken = audit_scores(*unclamped, claim=claim, threshold=0.5)
    assert broken.verdict == "refuted"


def test_points_in_two_dimensions_tuples_and_tempered_priors():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = 1.0 + 2.0 * x + 0.5 * rng.normal(size=400)
    points = rng.normal(size=(3000, 2)) * 2.0  # draws from the prior

    def line(at, records):
        x, y = records
        return -2.0 * (y[:, None] - at[:, 0] - at[:, 1] * x[:, None]) ** 2

    drawn = one_posterior_sample(
        line, None, (x, y), points=points, bound=(-10.0, 0.0), epsilon=50.0, random_state=0
    )
    assert drawn.draws.shape == (1, 2)
    np.testing.assert_allclose(drawn.draws[0], [1.0, 2.0], atol=0.25)
    flat = one_posterior_sample(
        line,
        lambda at: -np.square(at).sum(axis=1) * 10.0,
        (x, y),
        points=points,
        bound=(-10.0, 0.0),
        epsilon=1e-6,
        temper_prior=True,
        n_draws=20,
        random_state=0,
    )
    assert np.abs(flat.draws).mean() > 1.0  # a tempered prior is as flat as the likelihood


def test_the_ledger_is_charged_before_and_what_is_wrong_is_said_before(tmp_path):
    ledger = PrivacyLedger(tmp_path / "first", epsilon=1.5)
    data = np.array([0.0, 1.0])
    good = {"points": POINTS, "bound": (-5.0, 0.0), "ledger": ledger, "random_state": 0}
    for wrong in (
        {"points": POINTS[:1]},
        {"bound": (0.0, 0.0)},
        {"bound": (1.0, 2.0, 3.0)},
        {"n_draws": 0},
        {"epsilon": 0.0},
    ):
        with pytest.raises((ValueError, TypeError)):
            one_posterior_sample(coin, None, data, **{**good, **wrong})
    with pytest.raises(ValueError, match="log-prior"):
        one_posterior_sample(coin, np.zeros(3), data, **good)
    with pytest.raises(CalibrationError):
        one_posterior_sample(coin, None, data, **good, epsilon=1e-11)
    assert ledger.entries() == []
    drawn = one_posterior_sample(coin, None, data, **good)
    assert "alone" in drawn.privacy_.conditions[0]
    with pytest.raises(BudgetExceededError):
        one_posterior_sample(coin, None, data, **good)
    assert len(ledger.entries()) == 1
    with pytest.raises(ValueError, match="shape") as raised:
        one_posterior_sample(
            lambda p, x: x,
            None,
            data,
            **{**good, "ledger": PrivacyLedger(tmp_path / "second", epsilon=9.0)},
        )
    assert raised.value.__notes__


def test_functions_that_mix_records_are_found():
    x = np.array([0.0, 1.0, 4.0, 2.0])
    check_per_record(coin, POINTS, x)
    check_per_record(lambda at, r: r[0][:, None] * r[1][:, None], np.zeros(1), (x, x))
    for mixing in (
        lambda at, x: (x - x.mean())[:, None],
        lambda at, x: np.full((len(x), 1), x.max()),
        lambda at, x: np.sort(x)[:, None],
    ):
        with pytest.raises(ValueError, match="other records"):
            check_per_record(mixing, np.zeros(1), x)
    with pytest.raises(ValueError, match="one row per record"):
        check_per_record(lambda at, x: x.mean(), np.zeros(1), x)


def test_without_privacy_the_draw_is_of_the_posterior_itself():
    data = np.repeat([1.0, 0.0], [300, 700])
    drawn = one_posterior_sample(
        coin,
        None,
        data,
        points=POINTS,
        bound=(-9.0, 0.0),
        epsilon=np.inf,
        n_draws=500,
        random_state=0,
    )
    assert drawn.temperature == 1.0
    assert drawn.draws.std() == pytest.approx(stats.beta(301, 701).std(), rel=0.15)


def test_a_persons_records_weigh_as_much_as_one():
    """Exact losses when all records of a person change; unweighted sums would break the claim."""
    rest = np.repeat([1.0, 0.0], [12, 9])
    for n_own in (1, 7, 300):  # of 300 records 256 are used
        first = np.concatenate([rest, np.ones(n_own)])
        second = np.concatenate([rest, np.zeros(max(1, n_own // 2))])
        owners = [
            np.concatenate([np.arange(21), np.full(len(d) - 21, 21)]) for d in (first, second)
        ]
        plan = plan_one_posterior_sample(bound=(-5.0, 0.0), epsilon=1.5)

        def losses(*records, plan=plan):
            of_both = []
            for part in records:
                sums, unit = _sums(steep, POINTS, part, plan.bound)
                weights = _weights(sums, plan.temper * unit, np.zeros(POINTS.size))
                of_both.append(logs([(weight, sum(weights)) for weight in weights]))
            return [float(a - b) for a, b in zip(*of_both, strict=True)]

        found = losses(read_records(first, owners[0]), read_records(second, owners[1]))
        assert 0.9 * 1.5 < max(found) - min(found) <= plan.event.eta
        if n_own > 1:
            broken = losses(read_records(first), read_records(second))
            assert max(broken) - min(broken) > 2 * plan.event.eta


def test_the_claim_counts_persons():
    data, owners = np.repeat([1.0, 0.0], [40, 60]), np.arange(100) % 50
    options = {"points": POINTS, "bound": (-5.0, 0.0), "random_state": 0, "epsilon": 3.0}
    drawn = one_posterior_sample(coin, None, data, units=owners, **options)
    assert drawn.privacy_.unit == "person"
    alone = one_posterior_sample(coin, None, data, units=np.arange(100), **options)
    plain = one_posterior_sample(coin, None, data, **options)
    assert plain.privacy_.unit == "record"
    np.testing.assert_array_equal(alone.draws, plain.draws)
    with pytest.raises(ValueError, match="one id per record"):
        one_posterior_sample(coin, None, data, units=owners[1:], **options)


def test_a_chain_draws_from_the_same_law_and_says_what_it_assumes():
    """Two-sided, against the tempered posterior of a coin's logit with a normal prior."""
    data = np.repeat([1.0, 0.0], [30, 70])

    def logit_coin(at, x):
        return np.where(x[:, None] == 1, -np.logaddexp(0, -at), -np.logaddexp(0, at))

    options = {"bound": (-6.0, 0.0), "epsilon": 6.0, "n_draws": 400}
    drawn = one_posterior_sample(
        logit_coin,
        lambda at: -0.5 * at**2,
        data,
        start=0.0,
        proposal_scale=0.7,
        n_steps=40,
        random_state=0,
        **{**options, "epsilon": 2400.0},
    )
    temper = drawn.plan.temper
    assert "converged" not in drawn.privacy_.conditions[0]
    assert "Markov chain of 40 steps" in drawn.privacy_.conditions[1]
    grid = np.linspace(-8, 8, 4001)
    exact = temper * (30 * -np.logaddexp(0, -grid) + 70 * -np.logaddexp(0, grid)) - 0.5 * grid**2
    law = np.exp(exact - exact.max())
    cumulative = np.cumsum(law) / law.sum()
    assert stats.kstest(drawn.draws, lambda at: np.interp(at, grid, cumulative)).pvalue > 1e-3
    colder = np.cumsum(law**2) / np.sum(law**2)
    assert stats.kstest(drawn.draws, lambda at: np.interp(at, grid, colder)).pvalue < 1e-3
    assert plan_one_posterior_sample(**options, n_steps=40).conditions == drawn.plan.conditions
    # the lattice is public: 2^-20 of the proposal's scale, rounded to a power of two
    np.testing.assert_array_equal(drawn.draws * 2.0**20 % 1.0, 0.0)
    several = one_posterior_sample(
        lambda at, x: -((x[:, None] - at[:, 0]) ** 2) * np.exp(-at[:, 1]),
        lambda at: -0.5 * np.square(at).sum(axis=1),
        data,
        start=[0.0, 0.0],
        proposal_scale=[0.3, 0.5],
        n_steps=50,
        bound=(-4.0, 0.0),
        random_state=0,
    )
    assert several.draws.shape == (1, 2)
    for wrong, message in (
        ({"points": POINTS, "start": 0.0}, "exactly one"),
        ({}, "exactly one"),
        ({"start": 0.0}, "proposal_scale"),
        ({"start": np.nan, "proposal_scale": 1.0}, "start"),
        ({"start": 0.0, "proposal_scale": 1.0}, "proper prior"),
    ):
        with pytest.raises(ValueError, match=message):
            one_posterior_sample(coin, None, data, bound=(-5.0, 0.0), **wrong)


def test_how_many_records_a_person_has_changes_no_bit_of_the_others():
    """The last bits of a row of a matrix product depend on its place and on the number of rows."""
    rng = np.random.default_rng(0)
    x, owner = rng.standard_normal((300, 64)), np.append(np.arange(90), rng.integers(1, 90, 210))
    last = rng.standard_normal((64, 3), np.float32)
    sums = []
    for more in (0, 1, 6):
        rows = np.append(rng.standard_normal((more, 64)), x, axis=0)
        whose = np.append(np.zeros(more, dtype=np.intp), owner)
        weight = np.where(whose == 0, 0.0, 0.125)  # all but that person
        records = OwnRecords(rows, 90, "person", weight, whose)
        sums.append(
            _sums(lambda _, rows: rows.astype(np.float32) @ last, last.T, records, (-40.0, 40.0))[0]
        )
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
