from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.base import clone

from skdpbayes import PrivacyLedger
from skdpbayes.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    GammaPoisson,
    LogitNormalBernoulli,
    NormalMean,
    NormalMeanVariance,
)
from skdpbayes.exceptions import BudgetExceededError, CalibrationError, PrivacyWarning
from skdpbayes.privacy import BoundedRange, gdp_epsilon, gdp_mu, minami2016_mu
from skdpbayes.randomness import release_grid

RNG = np.random.default_rng(0)
CASES = [
    (BetaBernoulli(), RNG.integers(2, size=300)),
    (DirichletCategorical(4), RNG.integers(4, size=300)),
    (GammaPoisson(10), RNG.poisson(3.0, size=300)),
    (LogitNormalBernoulli(), RNG.integers(2, size=300)),
    (NormalMean((-3, 3), 1.0), RNG.normal(0.5, 1, size=300)),
    (NormalMeanVariance((-3, 3)), RNG.normal(0.5, 1, size=300)),
]
each_model = pytest.mark.parametrize(("model", "data"), CASES, ids=lambda v: type(v).__name__)


@each_model
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-4)])
def test_posterior_states_its_price_and_is_reproducible(model, data, mechanism, delta, adjacency):
    first, second = (
        model.posterior(data, 0.5, delta, mechanism=mechanism, adjacency=adjacency, random_state=3)
        for _ in range(2)
    )
    claim = first.privacy_
    assert (claim.epsilon, claim.delta, claim.adjacency) == (0.5, delta, adjacency)
    assert claim.delta_at(0.5) <= delta
    assert claim.delta_at(0.25) > delta  # and not much more private than it says
    np.testing.assert_array_equal(first.sample(50, 1), second.sample(50, 1))
    copy = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(copy.sample(5, 1), first.sample(5, 1))
    ends = first.interval(0.9, random_state=0)
    assert ends.shape == (*first.mean(random_state=0).shape, 2)
    assert np.all(ends[..., 0] < ends[..., 1])
    assert np.all(np.isfinite(first.mean(random_state=0)))


@each_model
def test_synthetic_records_have_the_law_of_the_data(model, data):
    """Moments of the records, given one draw of the parameters, and reproducible in a copy."""
    many = np.tile(data, 100)
    posterior = clone(model).posterior(many, 5.0, random_state=3)
    records = posterior.sample_records(40_000, 1)
    assert records.shape == (40_000,)
    assert (records.dtype.kind == "i") == (data.dtype.kind == "i")
    model._read(records)  # takes them back
    assert np.max(records) <= np.max(data) + 10
    error = 4.0 * np.std(data) * np.sqrt(1 / 40_000 + 1 / many.size) + 0.01
    assert np.mean(records) == pytest.approx(np.mean(data), abs=error)
    if isinstance(model, (DirichletCategorical, NormalMeanVariance)):
        assert np.std(records) == pytest.approx(np.std(data), rel=0.03)
    copy = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(copy.sample_records(9, 1), records[:9])
    means = [posterior.sample_records(10, seed).mean() for seed in range(20)]
    assert len(set(means)) > 1


@each_model
def test_infinite_epsilon_is_the_plain_posterior(model, data):
    draws = model.posterior(data, np.inf, random_state=0).sample(20_000, 0)
    n = data.size
    if isinstance(model, BetaBernoulli):
        exact = stats.beta(1 + data.sum(), 1 + n - data.sum())
    elif isinstance(model, DirichletCategorical):
        draws = draws[:, 0]
        exact = stats.beta(1 + np.sum(data == 0), 3 + np.sum(data != 0))
    elif isinstance(model, GammaPoisson):
        exact = stats.gamma(1 + np.minimum(data, 10).sum(), scale=1 / (1 + n))
    elif isinstance(model, NormalMean):
        precision = 1 / 36 + n
        exact = stats.norm(np.clip(data, -3, 3).sum() / precision, precision**-0.5)
    elif isinstance(model, NormalMeanVariance):
        clipped = np.clip(data, -3, 3)
        draws = draws[:, 0]
        exact = stats.t(n - 1, clipped.mean(), np.sqrt(clipped.var() / (n - 1)))
    else:
        z = np.log(draws / (1 - draws))
        density = lambda v: math.exp(  # noqa: E731
            -(v**2) / 8 + data.sum() * v - n * np.logaddexp(0, v) + n * math.log(2)
        )
        total = quad(density, -8, 8, points=[0])[0]
        cut = float(np.median(z))
        assert quad(density, -8, cut, points=[0])[0] / total == pytest.approx(0.5, abs=0.02)
        return
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("kind", ["beta", "dirichlet", "gamma", "normal"])
def test_noise_aware_intervals_cover_and_naive_ones_do_not(kind, epsilon):
    rng = np.random.default_rng(7)
    n, repeats = 60, 250
    hits = {"noise_aware": [], "naive": []}
    for seed in range(repeats):
        if kind == "beta":
            truth = rng.beta(1, 1)
            model, data = BetaBernoulli(), rng.random(n) < truth
        elif kind == "dirichlet":
            theta = rng.dirichlet(np.ones(3))
            truth, model, data = theta[0], DirichletCategorical(3), rng.choice(3, n, p=theta)
        elif kind == "gamma":
            truth = rng.gamma(2.0, 2.0)
            model, data = GammaPoisson(40, 2.0, 0.5), rng.poisson(truth, n)
        else:
            truth = rng.normal(0, 1)
            model = NormalMean((-8, 8), 1.0, prior_mean=0.0, prior_scale=1.0)
            data = rng.normal(truth, 1, n)
        for name, found in hits.items():
            draws = model.posterior(data, epsilon, posterior=name, random_state=seed).sample(400, 1)
            draws = draws[:, 0] if kind == "dirichlet" else draws
            low, high = np.quantile(draws, [0.05, 0.95])
            found.append(low <= truth <= high)
    # 250 intervals: standard error 0.019; 0.9 +- 3 standard errors.
    assert 0.843 < np.mean(hits["noise_aware"]) < 0.957
    if epsilon == 0.1:
        assert np.mean(hits["naive"]) < 0.8


def test_one_count_with_a_public_total_has_sensitivity_one():
    data = RNG.integers(2, size=100)
    for adjacency in ("replace_one", "zero_out"):
        released = BetaBernoulli().posterior(data, 0.5, adjacency=adjacency, random_state=0)
        assert released.released_["noise_scale"] == pytest.approx(2.0)
    two = DirichletCategorical(2).posterior(data, 0.5, random_state=0)
    assert two.released_["noise_scale"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("k", "floor", "temperature"), [(2, 0.2, 2.7725887222), (2, 0.05, 5.8888779583)]
)
def test_temperature_of_the_truncated_beta(k, floor, temperature):
    data = RNG.integers(k, size=50)
    model = BetaBernoulli(min_probability=floor)
    one = model.posterior(data, 1.0, mechanism="ops", random_state=0)
    assert one.released_["temperature"] == pytest.approx(temperature, rel=1e-9)
    zero = model.posterior(data, 1.0, mechanism="ops", adjacency="zero_out", random_state=0)
    assert zero.released_["temperature"] == pytest.approx(temperature / 2, rel=1e-9)


def test_temperature_of_the_truncated_dirichlet():
    model = DirichletCategorical(10, min_probability=0.001)
    one = model.posterior(RNG.integers(10, size=50), 1.0, mechanism="ops", random_state=0)
    assert one.released_["temperature"] == pytest.approx(13.7974290687, rel=1e-8)
    assert one.privacy_.conditions == ()  # the draw is exact
    many = DirichletCategorical(600).posterior(range(600), mechanism="ops", random_state=0)
    assert "converged" in many.privacy_.conditions[0]


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_density_of_a_truncated_dirichlet_draw_keeps_its_epsilon(adjacency):
    """Every point of a grid in the restricted space, worst data: all records in one category."""
    model = DirichletCategorical(3, min_probability=0.05)
    data = np.zeros(200, dtype=int)
    one = model.posterior(data, 1.0, mechanism="ops", adjacency=adjacency, random_state=0)
    side = np.linspace(0.05, 0.9, 341)
    a, b = np.meshgrid(side, side, indexing="ij")
    inside = 1.0 - a - b >= 0.05 - 1e-12
    theta = np.log(np.stack([a[inside], b[inside], (1.0 - a - b)[inside]]))

    def log_density(counts, temper):
        log_p = temper * counts @ theta
        return log_p - np.log(np.exp(log_p - log_p.max()).sum()) - log_p.max()

    def largest(temper):
        other = [199, 1, 0] if adjacency == "replace_one" else [199, 0, 0]
        first, second = (log_density(np.array(c), temper) for c in ([200, 0, 0], other))
        return np.abs(first - second).max()

    temper = 1.0 / one.released_["temperature"]
    assert 0.8 < largest(temper) <= 1.0
    assert largest(1.5 * temper) > 1.0


def _log_ratio_range(log_likelihood, grid, records):
    """Largest range over the grid of the difference of two records' log-likelihoods."""
    values = np.array([log_likelihood(x, grid) for x in records])
    gaps = values[:, None] - values[None]
    return (gaps.max(axis=2) - gaps.min(axis=2)).max(), (
        values.max(axis=1) - values.min(axis=1)
    ).max()


def test_ranges_behind_ops_hold_and_are_tight():
    grid = np.linspace(0.05, 0.95, 2001)
    replaced, zeroed = _log_ratio_range(
        lambda x, t: x * np.log(t) + (1 - x) * np.log1p(-t), grid, [0, 1]
    )
    delta = math.log(0.95 / 0.05)
    assert replaced == pytest.approx(2 * delta)
    assert zeroed == pytest.approx(delta)
    model = GammaPoisson(6, rate_bounds=(0.5, 8.0))
    grid = np.geomspace(0.5, 8.0, 4001)
    replaced, zeroed = _log_ratio_range(lambda x, lam: x * np.log(lam) - lam, grid, range(7))
    data = np.arange(7)
    for adjacency, width in (("replace_one", replaced), ("zero_out", zeroed)):
        one = model.posterior(data, 1.0, mechanism="ops", adjacency=adjacency, random_state=0)
        assert one.released_["temperature"] == pytest.approx(width, rel=1e-6)


def test_normal_mean_draw_is_exactly_gaussian_private():
    model = NormalMean((0.0, 1.0), 0.3, prior_scale=0.5)
    n, mu = 40, gdp_mu(1.0, 1e-5)
    rho = model.temper(n, mu)
    precision = 1 / 0.25 + rho * n / 0.09
    shift = rho * 1.0 / 0.09 / precision
    assert shift * math.sqrt(precision) == pytest.approx(mu)
    older = NormalMean((0.0, 1.0), 0.3, prior_scale=0.5, calibration="minami2016")
    noisier = older.posterior(np.full(n, 0.4), 1.0, 1e-5, mechanism="ops", random_state=0)
    assert noisier.released_["temperature"] > 1.0 / rho
    released = model.posterior(np.full(n, 0.4), 1.0, 1e-5, mechanism="ops", random_state=0)
    assert released.privacy_.event.mu == pytest.approx(mu, rel=1e-6)
    # Rounding the draw to its grid adds to the shift, and the claim covers it.
    temper = 1.0 / released.released_["temperature"]
    deviation = (1 / 0.25 + temper * n / 0.09) ** -0.5
    shift = temper * 1.0 / 0.09 * deviation**2 + release_grid(deviation)
    assert shift / deviation < released.privacy_.event.mu <= mu


def test_older_bound_of_a_normal_mean_is_the_published_one():
    """Theorem 15 of Minami et al.: r = 1, a flat prior, (0.1, 0.001) allows beta < 1.797e-4 n."""
    for n in (100, 1000):
        model = NormalMean((-1.0, 1.0), 1.0, prior_scale=1e9, calibration="minami2016")
        assert model.draw_epsilon(n, 1e-3, 1.796e-4 * n)["minami2016"] < 0.1
        assert model.draw_epsilon(n, 1e-3, 1.798e-4 * n)["minami2016"] > 0.1
    table = NormalMean((0.0, 1.0), 1.0, prior_scale=0.5)
    prices = [table.draw_epsilon(10**k, 1e-5)["minami2016"] for k in (1, 2, 3, 4)]
    assert prices == pytest.approx([1.318, 0.475, 0.152, 0.048], abs=6e-4)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 1.02, 3.0, 12.0])
@pytest.mark.parametrize("n", [1, 30, 3000])
def test_older_bound_is_never_below_the_exact_price(epsilon, n):
    for scale, prior_scale, delta in ((1.0, 0.5, 1e-5), (0.3, 2.0, 1e-9), (4.0, 0.1, 0.05)):
        prior = {"prior_scale": prior_scale}
        older = NormalMean((-1.0, 2.0), scale, calibration="minami2016", **prior)
        mu = minami2016_mu(epsilon, delta, "theorem7")
        temper = older.temper(n, mu)
        price = older.draw_epsilon(n, delta, temper)
        assert price["gdp"] <= price["minami2016"]
        if temper < 1.0:  # it allows what it prices, and the exact value allows more
            assert price["minami2016"] == pytest.approx(epsilon)
            assert (
                NormalMean((-1.0, 2.0), scale, **prior).temper(n, gdp_mu(epsilon, delta)) > temper
            )
    # Independent of the code: the draw is N(m, 1/P), moved by rho D / (sigma^2 P).
    model = NormalMean((-1.0, 2.0), 0.7, prior_scale=0.4)
    precision = 1 / 0.16 + 0.2 * n / 0.49
    shift = 0.2 * 3.0 / 0.49 / precision
    assert model.draw_epsilon(n, 1e-5, 0.2)["gdp"] == pytest.approx(
        gdp_epsilon(shift * math.sqrt(precision), 1e-5)
    )


@pytest.mark.parametrize(
    ("adjacency", "delta"), [("replace_one", 0.0), ("zero_out", 0.0), ("zero_out", 1e-5)]
)
def test_normal_mean_draws_keep_their_claim_on_the_restricted_space(adjacency, delta):
    """Worst neighbors: the others at one end or at both, the record at an end or gone."""
    n, (low, high), scale = 31, (5.0, 6.0), 0.5
    model = NormalMean((low, high), scale, prior_scale=2.0)
    kwargs = {"mechanism": "ops", "adjacency": adjacency, "random_state": 0}
    one = model.posterior(np.full(n, low), 1.0, delta, **kwargs)
    assert low <= one.sample(1)[0] <= high
    mean = np.linspace(low, high, 20_001)

    def density(data, rho):
        log = -0.5 * ((mean - 5.5) / 2.0) ** 2
        for x in data:
            log = log - 0.5 * rho * ((x - mean) / scale) ** 2
        weight = np.exp(log - log.max())
        return weight / weight.sum()

    def worst(rho):
        largest = 0.0
        for others in ([low] * (n - 1), [low, high] * (n // 2)):
            neighbors = [[*others, low], [*others, high]]
            if adjacency == "zero_out":
                neighbors.append(others)
            laws = [density(data, rho) for data in neighbors]
            pairs = [(0, 1)] if adjacency == "replace_one" else [(0, 2), (1, 2)]
            for i, j in pairs:
                for p, q in ((laws[i], laws[j]), (laws[j], laws[i])):
                    largest = max(largest, np.maximum(p - math.e * q, 0.0).sum())
        return largest

    rho = 1.0 / one.released_["temperature"]
    assert worst(rho) <= delta + 1e-12
    assert worst(3.0 * rho) > delta + 1e-12  # three times the likelihood breaks the claim


def test_range_of_mean_and_variance_holds_and_is_tight():
    model = NormalMeanVariance((2.0, 8.0), min_deviation=0.3)
    mean, deviation = np.meshgrid(np.linspace(-1, 1, 101), np.linspace(0.3, 1, 51))
    replaced, zeroed = _log_ratio_range(
        lambda t, m: -np.log(m[1]) - (t - m[0]) ** 2 / (2 * m[1] ** 2),
        np.stack([mean.ravel(), deviation.ravel()]),
        np.linspace(-1, 1, 21),
    )
    assert replaced == pytest.approx(model.ops_range("replace_one"))
    assert zeroed == pytest.approx(model.ops_range("zero_out"))
    wide = NormalMeanVariance((2.0, 8.0), min_deviation=0.95)  # its bottom is at deviation 1
    assert wide.ops_range("zero_out") == pytest.approx(
        -math.log(0.95) + 2 / 0.95**2 + math.log(0.95)
    )


def test_draw_of_mean_and_variance_finds_them_and_is_private():
    data = np.random.default_rng(3).normal(5.0, 1.5, size=20_000)
    model = NormalMeanVariance((0.0, 10.0), min_deviation=0.2)
    draws = np.array(
        [
            model.posterior(data, 1.0, mechanism="ops", random_state=s).sample(1)[0]
            for s in range(20)
        ]
    )
    np.testing.assert_allclose(draws.mean(axis=0), [5.0, 2.25], rtol=0.1)
    one = model.posterior(data, 1.0, mechanism="ops", random_state=0)
    assert one.released_["temperature"] == pytest.approx(100.0)
    assert one.privacy_.event.delta_at(1.0) == 0.0


@pytest.mark.parametrize(
    ("model", "data", "grid", "delta"),
    [
        (BetaBernoulli(), [0, 1, 1], 2.0**-31, 0.0),
        (DirichletCategorical(4), [0, 1, 3], 2.0**-30, 0.0),
        (GammaPoisson(8), [0, 1, 7], 2.0**-28, 0.0),
        (LogitNormalBernoulli(), [0, 1, 1], 2.0**-30, 1e-5),
        (NormalMean((0, 1), 0.3), [0.1, 0.2], 2.0**-30, 0.0),
    ],
    ids=lambda v: type(v).__name__,
)
def test_draws_lie_on_a_public_grid(model, data, grid, delta):
    """Unsnapped floats have low bits that depend on the data."""
    for seed in range(5):
        kwargs = {"delta": delta, "mechanism": "ops", "random_state": seed}
        draw = model.posterior(data, 1.0, **kwargs).sample(1)
        # The ends of the range, where a draw may be clipped to, need not be on the grid.
        np.testing.assert_array_equal(draw / grid, np.rint(draw / grid))


def test_tail_of_the_rate_has_the_same_support_as_its_bulk():
    """All zeros push the mass beyond the lower bound; the draw is no different in kind."""
    model = GammaPoisson(10, rate_bounds=(5.0, 10.0))
    draws = [
        model.posterior(np.zeros(100_000), 50.0, mechanism="ops", random_state=s).sample(1)[0]
        for s in range(40)
    ]
    temper = 50.0 / (10 * math.log(2.0))
    rate = min(temper, 1.0) * 100_000
    assert stats.kstest((np.array(draws) - 5.0) * rate, "expon").pvalue > 1e-4


def test_logit_normal_gdp_beats_the_older_bound():
    data = RNG.integers(2, size=200)
    kwargs = {"epsilon": 1.0, "delta": 1e-5, "mechanism": "ops", "random_state": 0}
    tight = LogitNormalBernoulli(2.0).posterior(data, **kwargs)
    older = LogitNormalBernoulli(2.0, calibration="minami2016").posterior(data, **kwargs)
    ratio = older.released_["temperature"] / tight.released_["temperature"]
    assert ratio == pytest.approx(1.3138839893, rel=1e-6)


def test_ops_sells_one_draw():
    released = BetaBernoulli().posterior([0, 1, 1], mechanism="ops", random_state=0)
    assert released.sample(1).shape == (1,)
    with pytest.raises(ValueError, match="n_samples=2"):
        released.sample(2)
    with pytest.raises(ValueError, match="interval"):
        released.interval()


def test_bad_input_is_named(tmp_path):
    with pytest.raises(ValueError, match="zeros and ones"):
        BetaBernoulli().posterior([0, 2])
    with pytest.raises(ValueError, match=r"codes 0, \.\.\., 2"):
        DirichletCategorical(3).posterior([0, 3])
    with pytest.raises(ValueError, match="counts"):
        GammaPoisson(3).posterior([-1])
    with pytest.raises(ValueError, match="epsilon"):
        BetaBernoulli().posterior([0, 1], 0.0)
    with pytest.raises(ValueError, match="mechanism"):
        BetaBernoulli().posterior([0, 1], mechanism="staircase")
    with pytest.raises(CalibrationError, match="delta > 0"):
        BetaBernoulli().posterior([0, 1], mechanism="gaussian")
    with pytest.raises(CalibrationError, match="delta > 0"):
        LogitNormalBernoulli().posterior([0, 1], mechanism="ops")
    with pytest.raises(ValueError, match="low < high"):
        NormalMean((1.0, 1.0), 1.0).posterior([1.0])
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=1.0)
    BetaBernoulli().posterior([0, 1], 0.9, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        BetaBernoulli().posterior([0, 1], 0.9, ledger=ledger)


def test_wide_priors_of_the_log_odds_keep_their_tail():
    """All ones: the posterior is the prior's upper half but for a few units around 0."""
    tau, n = 100.0, 5

    def density(z):
        return math.exp(-0.5 * (z / tau) ** 2 - n * np.logaddexp(0.0, -z))

    edge = math.log(99.0)
    below = quad(density, -40.0, edge)[0]
    exact = below / (below + quad(density, edge, 800.0, points=[20.0, 100.0], limit=200)[0])
    released = LogitNormalBernoulli(tau).posterior(
        np.ones(n, dtype=int), math.inf, 1e-5, mechanism="gaussian", random_state=0
    )
    draws = released.sample(100_000, random_state=1)
    assert np.mean(draws < 0.99) == pytest.approx(exact, abs=0.003)  # it was 0.035, not 0.021


@each_model
def test_models_are_cloned_and_fitted_as_scikit_learn_does(model, data):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(**model.get_params()).fit(data, 0.5, random_state=3) is copy
    direct = model.posterior(data, 0.5, random_state=3)
    assert copy.privacy_ == direct.privacy_
    draws = copy.posterior_.sample(5, 1)
    np.testing.assert_array_equal(draws, direct.sample(5, 1))
    for name, value in copy.get_params().items():  # a released posterior stays what it was
        if isinstance(value, (int, float)):
            copy.set_params(**{name: value + 1})
    np.testing.assert_array_equal(copy.posterior_.sample(5, 1), draws)
    with pytest.raises(ValueError, match="epsilon"):
        copy.set_params(**model.get_params()).fit(data, 0.0)
    assert copy.privacy_ == direct.privacy_
    assert not hasattr(clone(copy), "posterior_")


class Overstated(BetaBernoulli):
    """Draws at a higher temperature than it may, and says so in its event."""

    def _temper(self, n, budget):
        temper, event = super()._temper(n, budget)
        return 2.0 * temper, BoundedRange(2.0 * event.eta)


def test_a_claim_that_its_event_does_not_prove_is_refused_and_costs_nothing(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=5.0)
    with pytest.raises(CalibrationError, match="could not be calibrated"):
        Overstated().posterior([0, 1, 1], mechanism="ops", ledger=ledger)
    with pytest.raises(ValueError, match="zeros and ones"):
        BetaBernoulli().posterior([0, 2], ledger=ledger)
    with pytest.raises(ValueError, match="2147483648"):  # sums of larger counts would wrap around
        GammaPoisson(2**60).posterior([2**60] * 16, 1e9, ledger=ledger)
    assert ledger.entries() == []
    BetaBernoulli().posterior([0, 1], 0.9, ledger=ledger)
    assert [entry.label for entry in ledger.entries()] == ["BetaBernoulli"]


def test_parameters_of_the_budget_are_checked_as_everywhere():
    with pytest.warns(PrivacyWarning, match="1/n_samples"):
        BetaBernoulli().posterior([0, 1], 1.0, 0.6, mechanism="gaussian", random_state=0)
    with pytest.raises(TypeError, match="ledger must be"):
        BetaBernoulli().posterior([0, 1], ledger="mine")
    with pytest.raises(ValueError, match="epsilon"):
        BetaBernoulli().posterior([0, 1], 1e300)


# Batches


@each_model
@pytest.mark.parametrize(("mechanism", "delta"), [("laplace", 0.0), ("gaussian", 1e-4)])
def test_batches_add_up_and_claim_the_largest_of_their_prices(model, data, mechanism, delta):
    model = clone(model)
    for seed, epsilon in enumerate([0.5, 1.0, 0.5]):
        batch = data[100 * seed : 100 * (seed + 1)]
        model.partial_fit(batch, epsilon, delta, mechanism=mechanism, random_state=seed)
    claim = model.privacy_
    assert claim is model.posterior_.privacy_
    assert (claim.epsilon, claim.delta) == (1.0, delta)
    assert claim.delta_at(1.0) <= delta
    assert "no record is in more than one" in claim.conditions[0]
    assert model.posterior_.released_["n_total"] == 300
    parts = model.posterior_._releases
    assert model.posterior_.released_["noise_scale"] == [part.unit for part in parts]
    sums = next(iter(model.posterior_.released_.values()))
    np.testing.assert_allclose(sums, np.squeeze(sum(part.statistic for part in parts)))
    # one release of all records has less noise; both find the same parameter
    whole = clone(model).fit(data, 5.0, delta, mechanism=mechanism, random_state=9).posterior_
    low, high = np.moveaxis(model.posterior_.interval(0.999, random_state=0), -1, 0)
    assert np.all((low < whole.mean(random_state=0)) & (whole.mean(random_state=0) < high))


@each_model
def test_batches_without_privacy_are_the_whole(model, data):
    parts = clone(model)
    for batch in (data[:7], data[7:100], data[100:]):
        parts.partial_fit(batch, np.inf)
    whole = clone(model).fit(data, np.inf)
    draws = [m.posterior_.sample(50, 1) for m in (parts, whole)]
    np.testing.assert_allclose(*draws, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [0.4, 3.0])
def test_the_posterior_of_two_batches_is_the_exact_one(scale):
    """Given the sum of two noisy counts: every true one, and the law of two discrete noises."""
    model = BetaBernoulli()
    for seed, ones in enumerate([4, 9]):
        batch = np.arange(12) < ones
        model.partial_fit(batch, 1.0 / scale, random_state=seed)
    theta = np.linspace(0.0005, 0.9995, 1000)
    draws = model.posterior_.sample(40_000, 0)
    total = np.arange(25)
    law = np.convolve(*(np.exp(-np.abs(np.arange(-200, 201)) / scale) for _ in range(2)))
    noisy = sum(int(part.statistic[0]) for part in model.posterior_._releases)
    likelihood = stats.binom.pmf(total, 24, theta[:, None]) @ law[noisy - total + 400]
    exact = np.cumsum(likelihood / likelihood.sum())
    empirical = np.searchsorted(np.sort(draws), theta) / draws.size
    assert np.abs(exact - empirical).max() < 0.01


@pytest.mark.parametrize("kind", ["normal", "moments", "rate", "categories"])
def test_intervals_of_batches_cover(kind):
    """Nine batches of noise as wide as the records' own spread: the law of the sum is right."""
    rng = np.random.default_rng(5)
    hits = []
    for trial in range(60):
        truth = rng.normal(0, 0.5)
        model, law, data = {
            "normal": (NormalMean((-4, 4), 1.0, prior_mean=0, prior_scale=0.5), "laplace", None),
            "moments": (NormalMeanVariance((-4, 4)), "gaussian", None),
            "rate": (GammaPoisson(20, 4.0, 1.0), "laplace", rng.poisson),
            "categories": (DirichletCategorical(3), "laplace", None),
        }[kind]
        for batch in range(9):
            if kind == "rate":
                truth = truth if batch else rng.gamma(4.0, 1.0)
                data = rng.poisson(truth, 40)
            elif kind == "categories":
                truth = truth if batch else rng.dirichlet(np.ones(3))
                data = rng.choice(3, 40, p=truth)
            else:
                data = rng.normal(truth, 1.0, 40)
            seed = 100 * trial + batch
            budget = (1.0, 1e-3) if law == "gaussian" else (0.5, 0.0)
            model.partial_fit(data, *budget, mechanism=law, random_state=seed)
        ends = np.quantile(model.posterior_.sample(600, 0), [0.05, 0.95], axis=0)
        ends = ends[:, 0] if kind == "moments" else ends
        hits.append(np.mean((ends[0] <= truth) & (truth <= ends[1])))
    assert 0.8 <= np.mean(hits) <= 0.98


def test_batches_that_do_not_add_up_are_refused_and_leave_the_model(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=5.0)
    model = BetaBernoulli().partial_fit([0, 1, 1], 1.0, random_state=1, ledger=ledger)
    before, used = model.posterior_, ledger.used()
    for options, message in [
        ({"random_state": 1}, "random_state must differ"),
        ({"random_state": np.random.SeedSequence([1, 0])}, "random_state must differ"),
        ({"mechanism": "ops"}, "do not add up"),
        ({"delta": 1e-3, "mechanism": "gaussian"}, "batches must agree"),
        ({"adjacency": "zero_out"}, "batches must agree"),
        ({"posterior": "naive"}, "batches must agree"),
        ({"units": [0, 0, 1]}, "batches must agree"),
        ({"epsilon": np.inf}, "batches must agree"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit([0, 1, 0], ledger=ledger, **{"random_state": 2, **options})
        assert model.posterior_ is before
        assert ledger.used() == used
    with pytest.raises(ValueError, match="do not add up"):
        BetaBernoulli().fit([0, 1], mechanism="ops").partial_fit([0, 1])
    # a copy has lost its seed, so it cannot be told whether another seeded batch shares it
    copy = pickle.loads(pickle.dumps(model))
    assert "_seeds" not in vars(copy.posterior_._releases[0])
    assert "_seeds" not in repr(model.posterior_)
    assert "_releases" not in repr(model.posterior_)
    with pytest.raises(ValueError, match="has lost its seed"):
        copy.partial_fit([0, 1, 0], random_state=2, ledger=ledger)
    assert ledger.used() == used
    assert copy.partial_fit([0, 1, 0]).privacy_.seeded
