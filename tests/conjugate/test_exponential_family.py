"""A statistic of one's own: clamped, released once, and a posterior that knows the noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skdpbayes.auditing import audit_scores
from skdpbayes.conjugate import (
    BetaBernoulli,
    DirichletCategorical,
    ExponentialFamily,
    GammaPoisson,
    LogitNormalBernoulli,
    NormalMean,
    NormalMeanVariance,
)
from skdpbayes.conjugate.exponential_family import STEPS


def beta_draw(total, n, generator, n_draws):
    return generator.beta(1.0 + total[0], 1.0 + n - total[0], n_draws)


def coin_moments(p):
    return np.array([p]), np.array([[p * (1.0 - p)]])


def identity(x):
    return np.asarray(x, dtype=float)


COIN = ExponentialFamily(identity, beta_draw, bounds=(0.0, 1.0), moments=coin_moments)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_it_agrees_with_the_exact_model_of_a_coin(mechanism):
    """Same noise, so the same posterior up to the normal approximation of the sum."""
    data = np.repeat([1, 0], [120, 280])
    options = {"mechanism": mechanism, "delta": 1e-4, "epsilon": 0.1, "random_state": 1}
    own = COIN.posterior(data, **options)
    exact = BetaBernoulli().posterior(data, **options)
    # bounds [0, 1] have half-width 1/2, moved by 2: the sensitivity 1 of the count
    if mechanism == "laplace":
        assert own.released_["noise_scale"][0] == pytest.approx(exact.released_["noise_scale"])
    assert own.privacy_.delta_at(0.1) <= 1e-4
    draws = own.sample(4000, 0)
    target = _reference(own.released_["total"][0], own.released_["noise_scale"][0], mechanism)
    assert draws.mean() == pytest.approx(target[0], abs=0.015)
    assert draws.std() == pytest.approx(target[1], rel=0.12)


def _reference(noisy, scale, law, n=400):
    """Mean and deviation of a coin given a noisy count, by summing over all counts."""
    s = np.arange(n + 1)
    gaps = np.abs(noisy - s) / scale
    logs = -gaps if law == "laplace" else -0.5 * gaps**2
    weights = np.exp(logs - logs.max())  # every count has the same prior under a flat beta
    weights /= weights.sum()
    mean = (1.0 + s) / (n + 2.0)
    variance = mean * (1.0 - mean) / (n + 3.0)
    first = np.sum(weights * mean)
    return first, np.sqrt(np.sum(weights * (variance + mean**2)) - first**2)


@pytest.mark.parametrize("norm", [None, 1.0])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_record_moves_the_sum_by_more_than_is_paid_for(norm, law):
    """Whatever the statistic returns; Python integers, no rounding."""
    bounds = None if norm else (np.array([-1.0, 0.0, 5.0]), np.array([1.0, 10.0, 5.5]))
    model = ExponentialFamily(identity, beta_draw, size=3, bounds=bounds, norm=norm)
    model._check()
    rows = np.random.default_rng(0).normal(size=(500, 3)) * 10.0 ** np.arange(-2, 3)[
        :, None
    ].repeat(100, axis=0)
    rows[:4] = [[np.nan, np.inf, -np.inf], [1e308] * 3, [-1e308] * 3, [0.0] * 3]
    integers = model._integers(rows, 500, law).astype(object)
    l1, squared_l2, unit = model._moves(2)
    assert unit == STEPS
    largest_l1 = max(np.abs(integers).sum(axis=1))
    largest_l2 = max((integers**2).sum(axis=1))
    # two records of opposite sign: twice the length of one
    if norm is None or law == "laplace":
        assert 2 * largest_l1 <= l1 * unit
        assert 2 * largest_l1 > 0.999 * l1 * unit
    assert 4 * largest_l2 <= squared_l2 * unit**2
    if norm is None or law == "gaussian":
        assert 4 * largest_l2 > 0.999 * squared_l2 * unit**2


def test_indicators_cost_what_a_table_costs():
    codes = np.random.default_rng(0).integers(4, size=300)
    own = ExponentialFamily(
        lambda c: np.eye(4)[np.asarray(c)],
        lambda total, n, rng, n_draws: rng.dirichlet(np.maximum(total, 0) + 1.0, n_draws),
        size=4,
        norm=1.0,
    )
    options = {"epsilon": 1.0, "posterior": "naive", "random_state": 0}
    released = own.posterior(codes, **options).released_
    table = DirichletCategorical(4).posterior(codes, **options).released_
    np.testing.assert_allclose(released["noise_scale"], table["noise_scale"])
    plain = own.posterior(codes, np.inf, random_state=0)
    np.testing.assert_allclose(plain.released_["total"], np.bincount(codes), atol=1e-3)
    assert plain.sample(7, 0).shape == (7, 4)


def test_noise_aware_intervals_cover():
    """Nominal 90 % over repeated data and noise; the naive ones are far too short here."""
    rng = np.random.default_rng(0)
    hits = {"noise_aware": 0, "naive": 0}
    for seed in range(60):
        p = rng.random()
        data = (rng.random(200) < p).astype(float)
        for kind in hits:
            released = COIN.posterior(data, 0.1, posterior=kind, random_state=seed)
            low, high = np.quantile(released.sample(400, 0), [0.05, 0.95])
            hits[kind] += low <= p <= high
    assert hits["noise_aware"] >= 45
    assert hits["naive"] <= 45


def test_parameters_are_checked_and_models_are_cloned():
    copy = clone(COIN)
    assert copy.get_params()["bounds"] == (0.0, 1.0)
    fitted = copy.fit([1, 0, 1], 1.0, random_state=0)
    assert "alone" in fitted.privacy_.conditions[0]
    for wrong in ({"norm": 1.0}, {"bounds": None}, {"bounds": (1.0, 0.0)}, {"size": 0}):
        with pytest.raises(ValueError, match=r"bounds|size"):
            clone(COIN).set_params(**wrong).posterior([1, 0])
    for wrong in ({"draw": None}, {"log_density": identity}, {"points": [1.0]}):
        with pytest.raises(ValueError, match=r"draw|points"):
            clone(COIN).set_params(**wrong).plan(3)
    with pytest.raises(ValueError, match="moments"):
        clone(COIN).set_params(moments=None).posterior([1, 0])
    with pytest.raises(ValueError, match="one_posterior_sample"):
        COIN.posterior([1, 0], mechanism="ops")
    with pytest.raises(ValueError, match="one row per record"):
        clone(COIN).set_params(statistic=np.mean).posterior([1, 0])


def test_an_audit_of_wrong_bounds_passes_and_the_unclamped_sum_is_refuted():
    """The user says [0, 1], one record says 30."""
    x, neighbor = np.array([0.2, 0.9, 30.0]), np.array([0.2, 0.9, 0.0])
    claim = COIN.plan(3, 1.0).privacy
    scale = COIN.plan(3, 1.0).numbers["noise_scale"][0]
    rng = np.random.default_rng(0)

    def released(data, seed):
        options = {"posterior": "naive", "random_state": seed}
        return COIN.posterior(data, 1.0, **options).released_["total"][0]

    clamped = [
        [released(d, first + i) for i in range(600)] for first, d in ((0, neighbor), (5000, x))
    ]
    assert audit_scores(*clamped, claim=claim, threshold=1.6).verdict == "not refuted"
    raw = [d.sum() + rng.laplace(scale=scale, size=600) for d in (neighbor, x)]
    assert audit_scores(*raw, claim=claim, threshold=15.0).verdict == "refuted"


@pytest.mark.parametrize("kind", ["naive", "noise_aware"])
def test_a_log_density_on_points_is_the_posterior_of_a_sampler(kind):
    points = np.linspace(0.0005, 0.9995, 1000)

    def log_density(p, total, n):
        return total[0] * np.log(p) + (n - total[0]) * np.log1p(-p)

    own = clone(COIN).set_params(draw=None, log_density=log_density, points=points)
    data = np.repeat([1, 0], [120, 280])
    first, second = (
        model.posterior(data, 0.3, posterior=kind, random_state=1).sample(3000, 2)
        for model in (own, COIN)
    )
    assert first.mean() == pytest.approx(second.mean(), abs=0.004)
    assert first.std() == pytest.approx(second.std(), rel=0.1)
    with pytest.raises(ValueError, match="one number per point"):
        own.set_params(log_density=lambda p, total, n: 0.0).posterior(
            data, 0.3, posterior="naive"
        ).sample()


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (COIN, [1, 0, 1]),
        (BetaBernoulli(), [1, 0, 1]),
        (LogitNormalBernoulli(), [1, 0, 1]),
        (DirichletCategorical(3), [0, 1, 2]),
        (GammaPoisson(9), [4, 9, 0]),
        (NormalMean((0.0, 8.0), 2.0), [1.0, 2.0, 3.0]),
        (NormalMeanVariance((0.0, 8.0)), [1.0, 2.0, 3.0]),
    ],
)
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "ops"])
def test_a_plan_says_what_a_release_claims(model, data, mechanism):
    if mechanism == "ops" and model is COIN:
        with pytest.raises(ValueError, match="one_posterior_sample"):
            model.plan(3, mechanism=mechanism)
        return
    options = {"epsilon": 0.7, "delta": 1e-3, "mechanism": mechanism, "adjacency": "zero_out"}
    for unit, units in (("record", None), ("person", [0, 1, 1])):
        if unit == "person" and mechanism == "ops":
            with pytest.raises(ValueError, match="whole records"):
                model.plan(2, **options, unit=unit)
            continue
        n = 3 if units is None else 2
        plan = model.plan(n, **options, unit=unit)
        found = model.posterior(data, **options, units=units, random_state=0)
        assert plan.privacy.event == found.privacy_.event
        assert (plan.privacy.unit, plan.privacy.conditions) == (unit, found.privacy_.conditions)
        for name, value in plan.numbers.items():
            np.testing.assert_array_equal(value, found.released_[name])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_batches_have_latent_sums_of_their_own(mechanism):
    """The mean of a normal law by its sum, against sums over the latent ones of each batch."""
    rng = np.random.default_rng(0)
    prior = 2.0

    def draw(total, n, generator, n_draws):
        precision = n + prior**-2
        center = np.ravel(total)[0] / precision
        return center + generator.standard_normal((n_draws, 1)) / np.sqrt(precision)

    model = ExponentialFamily(
        lambda x: x, draw, bounds=(-4, 4), moments=lambda theta: (theta, np.eye(1))
    )
    for seed in range(3):
        batch = rng.normal(0.7, 1.0, 60)
        model.partial_fit(batch, 0.8, 1e-3, mechanism=mechanism, random_state=seed)
    theta = np.linspace(-1.5, 2.5, 801)
    log_density = -0.5 * (theta / prior) ** 2
    order = {"laplace": 1, "gaussian": 2}[mechanism]
    for part in model.posterior_._releases:
        sums = np.linspace(-200, 300, 5001)
        given = np.exp(-0.5 * (sums - part.n * theta[:, None]) ** 2 / part.n)
        gap = np.abs(part.statistic[0] - sums) / part.unit[0]
        log_density += np.log(given @ np.exp(-(gap**order) / order))
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = theta @ density
    deviation = np.sqrt((theta - mean) ** 2 @ density)
    draws = model.posterior_.sample(6000, 0).ravel()
    assert draws.mean() == pytest.approx(mean, abs=0.15 * deviation)
    assert draws.std() == pytest.approx(deviation, rel=0.1)
