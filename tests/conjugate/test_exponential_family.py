"""A statistic of one's own: clamped, released once, and a posterior that knows the noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skdpbayes.conjugate import BetaBernoulli, DirichletCategorical, ExponentialFamily
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
    with pytest.raises(ValueError, match="moments"):
        clone(COIN).set_params(moments=None).posterior([1, 0])
    with pytest.raises(ValueError, match="one_posterior_sample"):
        COIN.posterior([1, 0], mechanism="ops")
    with pytest.raises(ValueError, match="one row per record"):
        clone(COIN).set_params(statistic=np.mean).posterior([1, 0])
