"""Printed algorithms and bounds: their numbers, and what they are really worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from skdpbayes import PrivacyLedger, papers
from skdpbayes.conjugate import BetaBernoulli
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import gdp_delta, gdp_mu
from skdpbayes.sampling import one_posterior_sample


def gradient(mean, x):
    return x - mean


PUBLIC = {"epsilon": 1.0, "delta": 1e-4, "n_passes": 4.0, "batch_size": 100}


def test_the_langevin_algorithm_has_the_printed_noise_and_a_smaller_price():
    x = np.random.default_rng(0).normal(0.3, 0.2, (1000, 1))
    steps, first = papers.wang2015_phase_steps(**PUBLIC, alpha=0.5, n_samples=1000, clip_norm=1.0)
    variance = papers.wang2015_noise_variance(**PUBLIC, n_samples=1000, clip_norm=1.0)
    assert first == 20
    assert steps[first - 1] * variance == pytest.approx(1.0)  # where the sampler's noise takes over
    step = 1.0 / variance
    drawn = papers.wang2015_langevin(
        gradient,
        None,
        [0.0],
        x,
        **PUBLIC,
        clip_norm=1.0,
        step_size=10.0 * step,
        tail=1.0,
        n_kept=40,
        random_state=0,
    )
    # the private noise rules here: variance 10 eta, temperature 10 times 1/2
    assert drawn.temperature == pytest.approx(5.0, rel=1e-3)
    assert drawn.privacy_.epsilon == 1.0
    assert drawn.privacy_.epsilon_at(1e-4) < 0.1  # and far less is really spent
    cold = papers.wang2015_langevin(
        gradient, None, [0.0], x, **PUBLIC, clip_norm=1.0, step_size=0.5 * step, random_state=0
    )
    assert cold.temperature == pytest.approx(0.5)
    with pytest.raises(CalibrationError, match="n_passes"):
        papers.wang2015_langevin(
            gradient,
            None,
            [0.0],
            x,
            clip_norm=1.0,
            step_size=step,
            epsilon=10.0,
            delta=1e-4,
            n_passes=1.0,
            batch_size=10,
        )


def test_fisher_scoring_is_priced_and_finds_the_mean():
    x = np.random.default_rng(0).normal([0.4, -0.2], 0.3, (4000, 2))
    drawn = papers.wang2015_fisher_scoring(
        gradient,
        None,
        np.zeros(2),
        x,
        lipschitz=np.diag([1.5, 1.2]),
        step_size=1e-3,
        epsilon=8.0,
        delta=1e-5,
        n_passes=30.0,
        batch_size=1000,
        random_state=0,
    )
    assert (drawn.privacy_.epsilon, drawn.privacy_.delta) == (16.0, 2e-5)
    assert drawn.privacy_.epsilon_at(2e-5) < 1.0  # printed: 16
    np.testing.assert_allclose(drawn.mean, [0.4, -0.2], atol=0.03)


def test_fisher_scoring_pays_for_gradient_and_covariance_together():
    """Neighboring batches by enumeration, in units of the printed noise of both releases."""
    n, batch, public = 100, 10, {"epsilon": 2.0, "delta": 1e-4, "n_passes": 4.0}
    x = np.random.default_rng(0).normal(size=(n, 2))
    run = papers.wang2015_fisher_scoring(
        gradient, None, [0, 0], x, lipschitz=1.0, step_size=1.0, batch_size=batch, **public
    )
    paid = 2.0 / run.privacy_.event.event.noise_multiplier
    n_steps = n * public["n_passes"] / batch
    logs = math.log(2.5 * n_steps / 1e-4) * math.log(2.0 / 1e-4)
    noise = math.sqrt(32.0 * public["n_passes"] * logs / (n * batch * 2.0**2))
    rng, largest = np.random.default_rng(0), np.zeros(2)
    for _ in range(2000):
        others = rng.normal(size=2) + rng.choice([0.0, 1.0]) * rng.normal(size=(batch - 1, 2))
        rows = np.vstack([others, rng.normal(size=(2, 2))])
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        if rng.random() < 0.5:
            rows[-2:] = [rows[0], -rows[0]]
        first, second = rows[:-1], np.delete(rows, -2, axis=0)
        mean = np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)) / noise
        gap = (np.cov(first.T) - np.cov(second.T))[np.triu_indices(2)]
        move = math.hypot(mean, np.linalg.norm(gap) / (7.0 * noise))
        largest = np.maximum(largest, [move, mean])
    assert 0.95 * paid < largest[0] <= paid
    assert largest[0] > 1.005 * largest[1]  # who paid for the gradient alone would claim too much


def test_fisher_scoring_refuses_gradients_that_mix_records(tmp_path):
    """A transposed array has as many numbers; its rows would be made of many records."""
    x = np.random.default_rng(0).normal(size=(100, 2))
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=100.0, delta=1e-2)
    options = {"step_size": 1e-3, "epsilon": 2.0, "delta": 1e-4, "n_passes": 4.0, "batch_size": 10}
    for lipschitz in (np.eye(3), np.zeros((2, 2))):
        with pytest.raises(ValueError, match=r"lipschitz|Singular"):
            papers.wang2015_fisher_scoring(
                gradient, None, np.zeros(2), x, lipschitz=lipschitz, ledger=ledger, **options
            )
    assert ledger.entries() == []
    with pytest.raises(ValueError, match="one gradient per record"):
        papers.wang2015_fisher_scoring(
            lambda mean, x: (x - mean).T, None, np.zeros(2), x, lipschitz=1.0, **options
        )


def test_the_sensitivity_of_a_covariance():
    """Random neighbors never exceed it, one pair attains it, the lemma's is larger."""
    rng = np.random.default_rng(0)
    bound = papers.covariance_sensitivity(6, 1.0)
    worst = 0.0
    for _ in range(3000):
        rows = rng.normal(size=(6, 3))
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True)) * rng.choice([1, 1, 2])
        rows[1:] = rows[1] + (rows[1:] - rows[1]) * rng.choice([0.0, 1.0])
        other = rows.copy()
        other[0] = rng.normal(size=3)
        other[0] /= np.linalg.norm(other[0])
        gap = np.cov(rows, rowvar=False) - np.cov(other, rowvar=False)
        worst = max(worst, float(np.linalg.norm(gap)))
    assert 0.9 * bound < worst <= bound
    rows, other = np.ones((6, 1)), np.ones((6, 1))
    other[0] = -1.0
    gap = abs(float(np.cov(rows.T) - np.cov(other.T)))
    assert gap == pytest.approx(bound, rel=1e-12)
    assert papers.covariance_sensitivity(6, 1.0, printed=True) == 1.4


def test_bounds_of_a_gaussian_mean():
    """(B.8) solves (B.4); the exact price is smaller; the printed comparison values."""
    target = {"epsilon": 0.1, "delta": 1e-3}
    power = papers.minami2016_mean_power(**target, n_samples=1000, radius=1.0)
    delta = papers.minami2016_delta(0.1, power=power, lipschitz=1.0, strong_convexity=1000 * power)
    assert delta == pytest.approx(1e-3, rel=1e-9)
    assert power / 1000 == pytest.approx(1.79e-4, rel=0.005)  # printed
    assert 1000 / power == pytest.approx(5566, rel=1e-3)  # printed: 5600
    seven = papers.minami2016_mean_power(**target, n_samples=1, radius=1.0, equation="B.7")
    assert seven == pytest.approx(1.6445e-4, rel=1e-4)  # printed: 1.26e-4
    assert 0.0125 / (power / 1000) == pytest.approx(69.6, abs=0.1)  # printed: 15
    exact = gdp_mu(**target) ** 2 / 4.0
    assert exact / (power / 1000) == pytest.approx(4.594, abs=0.01)
    mu = 2.0 * power / math.sqrt(1000 * power)
    assert gdp_delta(0.1, mu) < 1e-3


def test_a_risk_bound_holds_where_it_can_be_computed():
    """One-dimensional hinge loss on a grid: the bound is above the risk, and not by much."""
    rng = np.random.default_rng(0)
    n, lam = 2000, 0.1
    z = np.sign(rng.normal(size=n)) * 0.8
    labels = np.where(rng.random(n) < 0.85, np.sign(z), -np.sign(z))
    public = {"n_samples": n, "radius": 1.0, "regularization": lam}
    power = papers.minami2016_hinge_power(1.0, 1e-4, **public)
    printed = papers.minami2016_hinge_power(1.0, 1e-4, **public, printed=True)
    assert printed <= power
    assert power == pytest.approx(math.sqrt(2.0 * lam) * n)
    power, public["dimension"] = 0.7 * power, 1
    theta = np.linspace(-0.5, 0.5, 4001)
    empirical = np.maximum(0.0, 1.0 - np.outer(theta, labels * z)).mean(axis=1)
    true = 0.85 * np.maximum(0.0, 1 - 0.8 * theta) + 0.15 * np.maximum(0.0, 1 + 0.8 * theta)
    log_prior = -0.5 * n * lam * theta**2
    prior = np.exp(log_prior) / np.exp(log_prior).sum()
    post = np.exp(-power * empirical + log_prior - (-power * empirical + log_prior).max())
    post /= post.sum()
    divergence = float(np.sum(post * np.log(np.maximum(post, 1e-300) / prior)))
    bound = papers.pac_bayes_bound(
        float(post @ empirical), divergence, papers.hinge_hoeffding(power, **public), power=power
    )
    assert post @ true < bound < post @ true + 0.5
    assert papers.hinge_hoeffding(1e9, **public) == math.inf


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_hoeffding_assumption_of_example_19(share, dimension):
    """Exact moments of fair labels of one row: the printed function is exceeded, ours never is."""
    n, lam = 2000, 0.1
    public = {"n_samples": n, "radius": 1.0, "regularization": lam, "dimension": dimension}
    margin = np.linspace(-12, 12, 48_001)
    log_prior = -0.5 * n * lam * margin**2 + 0.5 * math.log(n * lam / (2 * math.pi))
    gap = np.abs(np.maximum(0, 1 - margin) - np.maximum(0, 1 + margin))

    def moment(power):
        logs = n * (np.logaddexp(power * gap / n, 0.0) - 0.5 * power * gap / n - math.log(2))
        return logsumexp(logs + log_prior) + math.log(margin[1] - margin[0])

    power = share * math.sqrt(2 * lam) * n
    found = papers.hinge_hoeffding(power, **public)
    assert moment(power) <= found
    assert papers.hinge_hoeffding(power, **public, printed=True) <= found
    beyond = 0.8 * 2.0 * math.sqrt(lam) * n
    assert moment(beyond) > papers.hinge_hoeffding(beyond, **public, printed=True) + 20.0
    assert papers.hinge_hoeffding(beyond, **public) == math.inf


def test_random_scans_and_accept_steps():
    """Exact enumeration: a variable that stays, or changes as its record says."""
    sensitivity, rate = 0.4, 0.1
    eta = 2 * sensitivity
    for t in (0.1, 0.5, 0.79):  # losses t and t - eta of a changed variable; none if it stays
        first = math.expm1(t - eta) / math.expm1(-eta)
        second = math.exp(-t) * first
        laws = [np.array([1 - rate, rate * p, rate * (1 - p)]) for p in (first, second)]
        loss = float(np.max(np.log(laws[0] / laws[1])))
        assert loss <= papers.random_scan_epsilon(sensitivity, 10, 100)
        for delta in (0.001, 0.01, 0.03):
            epsilon = papers.random_scan_epsilon(sensitivity, 10, 100, delta=delta)
            excess = float(np.maximum(0.0, laws[0] - math.exp(epsilon) * laws[1]).sum())
            assert excess <= delta
    assert loss > 4 * papers.random_scan_epsilon(sensitivity, 10, 100, printed=True)
    assert papers.random_scan_epsilon(sensitivity, 10, 100, delta=0.2) == 0.0
    shift = papers.barker_epsilon(0.4)
    accept = [1 / (1 + math.exp(-r)) for r in (-3.0, -3.0 + shift)]
    assert math.log(accept[1] / accept[0]) <= shift
    assert papers.foulds2016_temperature(5.0, 0.1) == 1.0


def test_tempered_priors_are_those_of_equation_six():
    """Draws on points with a tempered prior, and of a beta model whose parameters are moved."""
    coin = np.repeat([1, 0], [6, 14])
    points = np.linspace(0.2, 0.8, 601)
    prior = stats.beta(9.0, 5.0).logpdf(points)
    on_points, of_beta = [], []
    for i in range(250):
        drawn = one_posterior_sample(
            lambda p, x: np.where(x[:, None] == 1, np.log(p), np.log1p(-p)),
            prior,
            coin,
            points=points,
            bound=(math.log(0.2), math.log(0.8)),
            temper_prior=True,
            random_state=i,
        )
        on_points.append(drawn.draws[0])
        moved = 1.0 + np.array([8.0, 4.0]) / drawn.temperature
        model = BetaBernoulli(*moved, min_probability=0.2)
        of_beta.append(model.posterior(coin, 1.0, mechanism="ops", random_state=i).sample()[0])
    heat = drawn.temperature
    law = np.exp((14 * np.log(points) + 18 * np.log1p(-points)) / heat)
    whole = np.cumsum(law) / law.sum()
    cold = np.cumsum(law**heat) / np.sum(law**heat)
    for draws in (on_points, of_beta):
        assert stats.kstest(draws, lambda p: np.interp(p, points, whole)).pvalue > 1e-3
        assert stats.kstest(draws, lambda p: np.interp(p, points, cold)).pvalue < 1e-3


def test_the_moments_bound_is_the_minimum_over_orders():
    noise, rate, delta = np.array([3.0, 4.0, 5.0] * 200), 0.02, 1e-5
    total = rate**2 * np.sum(noise**-2.0)
    best = minimize_scalar(
        lambda k: total * (k + 1) + math.log(1 / delta) / k, bounds=(1e-3, 1e4), method="bounded"
    )
    found = papers.li2019_moments_epsilon(noise, rate, delta)
    assert found == pytest.approx(best.fun, rel=1e-8)


def test_algorithm_one_has_the_printed_power():
    assert papers.wang2015_power(1.0, 5.0) == 0.05
    assert papers.wang2015_power(100.0, 5.0) == 1.0


def test_momentum_samplers_have_the_printed_noise():
    """Equations 2 and 3: the noise is the larger of 2 (A - B) / h and what privacy needs."""
    x = np.random.default_rng(0).normal(0.3, 0.2, (1000, 1))
    variance = papers.wang2015_noise_variance(**PUBLIC, n_samples=1000, clip_norm=1.0)
    options = {**PUBLIC, "clip_norm": 1.0, "random_state": 0, "sampler": "sghmc"}
    start = (gradient, None, [0.0], x)
    # 2 (A - B) / h = 4 V: the sampler's own noise rules, and B is taken off it
    friction = 1.0
    step = 2.0 * 0.75 * friction / (4.0 * variance)
    own = papers.wang2015_langevin(
        *start, **options, step_size=step, friction=friction, noise_estimate=0.25
    )
    assert own.temperature == pytest.approx(0.75, rel=1e-4)
    multipliers = papers.sghmc_noise_multiplier(
        step, friction, 0.25, batch_size=100, n_samples=1000, clip_norm=1.0
    )
    assert multipliers == pytest.approx(2.0 * math.sqrt(variance) * 0.1, rel=1e-9)
    assert own.privacy_.event.epsilon_at(1e-4) < 0.1
    # a longer step: privacy's noise rules, whatever the estimate
    long = papers.wang2015_langevin(
        *start, **options, step_size=100 * step, friction=friction, noise_estimate=0.25
    )
    assert long.temperature == pytest.approx(100 / 4 * 0.75, rel=1e-3)
    thermostat = papers.wang2015_langevin(
        *start, **{**options, "sampler": "sgnht"}, step_size=step, friction=friction
    )
    assert thermostat.temperature is None
    for wrong in (
        {"sampler": "sgfs"},
        {"sampler": "sghmc"},
        {"sampler": "sgld", "friction": 1.0},
        {"sampler": "sgnht", "friction": 1.0, "noise_estimate": 0.1},
        {"friction": 1.0, "noise_estimate": 1.0},
    ):
        with pytest.raises(ValueError, match=r"friction|sampler|noise_estimate"):
            papers.wang2015_langevin(*start, **{**options, **wrong}, step_size=step)


@pytest.mark.parametrize("printed", [True, False])
def test_the_hybrid_spends_half_on_its_start(printed, tmp_path):
    x = np.random.default_rng(0).normal(0.3, 0.2, (900, 1))
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=2.0, delta=1e-3)
    options = {"clip_norm": 1.0, "delta": 1e-4, "random_state": 0, "printed": printed}

    def log_likelihood(mean, x):
        return -0.5 * (x - mean[:, 0]) ** 2

    functions = (log_likelihood, gradient, lambda at: -0.5 * at[:, 0] ** 2, lambda at: -at)
    first = {"points": np.linspace(-1, 1, 201)[:, None]}
    run = papers.wang2015_hybrid(
        *functions,
        x,
        bound=(-2.0, 0.0),
        step_size=1e-4,
        epsilon=2.0,
        first=first,
        ledger=ledger,
        **options,
    )
    assert len(ledger.entries()) == 2
    assert run.first.privacy_.epsilon == run.chain.privacy_.epsilon == 1.0
    power = papers.wang2015_power(1.0, 2.0) if printed else 1.0 / 4.0
    assert 1.0 / run.first.temperature == pytest.approx(power, rel=1e-9)
    assert run.event.epsilon_at(1e-4) < (1.1 if printed else 2.0)
    assert abs(run.chain.mean[0] - 0.3) < 0.4
    # what is wrong with the chain is said before anything is paid for
    fresh = PrivacyLedger(tmp_path / "other", epsilon=200.0, delta=1e-3)
    with pytest.raises((CalibrationError, ValueError)):
        papers.wang2015_hybrid(
            *functions,
            x,
            bound=2.0,
            step_size=-1.0,
            epsilon=2.0,
            first=first,
            ledger=fresh,
            **options,
        )
    assert fresh.entries() == []


def test_wald_tests_have_their_level_and_power():
    """A coin with p = 0.3 at epsilon = 1: two-sided, under the hypothesis and off it."""
    rng = np.random.default_rng(0)
    points = np.linspace(0.2, 0.8, 121)

    def coin(p, x):
        return x[:, None] * np.log(p) + (1 - x[:, None]) * np.log1p(-p)

    bound = (math.log(0.2), math.log(0.8))
    wrong, found = 0, 0
    for i in range(300):
        drawn = one_posterior_sample(
            coin,
            None,
            (rng.random(4000) < 0.3).astype(float),
            points=points,
            bound=bound,
            random_state=i,
        )
        options = {"n_samples": 4000, "temperature": drawn.temperature}
        wrong += papers.wald_test(drawn.draws[0], 0.3, 1 / 0.21, **options)[1] < 0.05
        found += papers.wald_test(drawn.draws[0], 0.35, 1 / 0.2275, **options)[1] < 0.05
    assert 0.02 < wrong / 300 < 0.09
    assert found / 300 > 0.8
    two = papers.wald_test(
        [0.1, 0.2], [0.0, 0.0], np.diag([4.0, 1.0]), n_samples=100, temperature=1
    )
    assert two[0] == pytest.approx(100 * (0.04 + 0.04) / 2)
