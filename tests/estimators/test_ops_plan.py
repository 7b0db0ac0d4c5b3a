"""What public numbers decide: temperature, schedule, price."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from skdpbayes import models, privacy
from skdpbayes.estimators.ops.plan import Problem, plan_density, plan_langevin
from skdpbayes.exceptions import CalibrationError

ADULT = Problem(
    loss=models.LogisticLoss(),
    n_records=32_561,
    n_features=109,
    constant=1.0,
    data_norm=1.0,
    epsilon=1.0,
    delta=1e-5,
    adjacency="replace_one",
    n_draws=1,
    calibration="tight",
    cap=True,
    C=None,
    coef_norm=None,
)


def langevin(**changes):
    schedule = {"n_steps": None, "step_size": None, "n_batches": None}
    schedule |= {key: changes.pop(key) for key in list(changes) if key in schedule}
    return plan_langevin(dataclasses.replace(ADULT, **changes), **schedule)


def density(problem):
    return plan_density(problem, "hmc")


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("n_records", [1, 50, 3000, 1_000_000])
@pytest.mark.parametrize("n_draws", [1, 7])
def test_the_automatic_plan_spends_the_budget_and_no_more(epsilon, adjacency, n_records, n_draws):
    plan = langevin(
        epsilon=epsilon, adjacency=adjacency, n_records=n_records, n_draws=n_draws, cap=False
    )
    assert plan.event.delta_at(epsilon) <= 1e-5
    assert plan.event.delta_at(epsilon) >= 0.99e-5
    assert len(plan.epochs) == n_draws
    curvature = n_records * 0.5 + 1.0 / plan.C
    assert plan.step_size <= 2.0 / (curvature + 1.0 / plan.C)
    assert plan.n_batches * plan.epochs[0] <= 200 * 32


def test_the_price_is_the_last_iterate_bound_of_the_chain_that_is_run():
    plan = langevin(C=0.5, n_steps=300, n_batches=1)
    beta = plan.inverse_temperature
    mu = privacy.langevin_mu(
        plan.step_size / beta,
        beta / plan.C,
        beta * 2.0 * ADULT.record_norm,
        300,
        smoothness=beta * (ADULT.curvature + 1.0 / plan.C),
    )
    assert plan.event.mu == pytest.approx(mu, rel=1e-5)
    assert plan.event.mu >= mu  # rounding of gradients is paid for
    assert plan.event.mu == pytest.approx(privacy.gdp_mu(1.0, 1e-5), rel=1e-9)


def test_fewer_steps_are_more_private_so_the_chain_may_be_colder():
    betas = [langevin(C=0.5, n_steps=t, cap=False).inverse_temperature for t in (10, 100, 1000)]
    assert betas[0] > betas[1] > betas[2]


def test_beyond_equilibrium_the_temperature_is_that_of_an_exact_draw():
    long = langevin(n_records=50, C=0.5, n_steps=20_000, step_size=1e-3, n_batches=1)
    exact = density(dataclasses.replace(ADULT, n_records=50, C=0.5))
    ratio = long.inverse_temperature / exact.inverse_temperature
    assert ratio == pytest.approx(1.0 / (1.0 - 1e-3), rel=1e-6)  # 1 - step / (2C)


def test_the_cap_gives_the_posterior_and_a_smaller_price():
    plan = langevin(epsilon=50.0)
    assert plan.inverse_temperature == 1.0
    assert plan.event.epsilon_at(1e-5) < 50.0
    assert langevin(epsilon=50.0, cap=False).inverse_temperature > 1.0


def test_a_ball_allows_less_noise():
    free = langevin(C=0.5, n_steps=200, n_batches=1, cap=False)
    ball = langevin(C=0.5, n_steps=200, n_batches=1, coef_norm=2.0, cap=False)
    assert ball.inverse_temperature > free.inverse_temperature
    assert ball.radius == 2.0
    assert ball.event.delta_at(1.0) <= 1e-5
    # with the gradient gap on the ball alone, beta is (2 / h)^2 times as large
    h = privacy.logistic_gradient_gap(2.0 * ADULT.record_norm)
    ratio = ball.inverse_temperature / free.inverse_temperature
    assert ratio >= (2.0 / h) ** 2 * (1 - 1e-4)
    # a tiny ball gains from its diameter as well: more than the (2 / h)^2 < 4 of the gap
    long = {"C": 50.0, "n_steps": 20_000, "n_batches": 1, "step_size": 5e-5, "cap": False}
    tiny, unbounded = langevin(coef_norm=0.01, **long), langevin(**long)
    assert tiny.inverse_temperature > 5 * unbounded.inverse_temperature


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_a_ball_allows_less_noise_for_several_classes_too(adjacency):
    softmax = {"loss": models.SoftmaxLoss(4), "adjacency": adjacency, "cap": False}
    schedule = {"C": 0.5, "n_steps": 200, "n_batches": 4}
    free = langevin(**softmax, **schedule)
    ball = langevin(**softmax, **schedule, coef_norm=1.0)
    gain = math.sqrt(2.0) / privacy.softmax_gradient_norm(ADULT.record_norm, 4)
    assert gain > 1.2
    ratio = ball.inverse_temperature / free.inverse_temperature
    assert ratio == pytest.approx(gain**2, rel=1e-3)
    assert ball.event.delta_at(1.0) <= 1e-5


def test_batches_trade_passes_for_a_known_excess():
    full = langevin(C=1.0, n_steps=2000, n_batches=1, cap=False)
    cyclic = langevin(C=1.0, n_steps=2000, n_batches=10, cap=False)
    assert cyclic.epochs == (200,)
    # While the prior is weak mu^2 grows by (n_batches / i - 1) / n_epochs for a record of the i-th
    # batch from the end, by the average of that and a little more for a secret batch
    ratio = full.inverse_temperature / cyclic.inverse_temperature
    excess = 200 * (ratio - 1.0)
    average = np.mean(10.0 / np.arange(1, 11) - 1.0)
    assert average < excess < 1.3 * average
    last = cyclic.event.mus[0] / privacy.gdp_mu(1.0, 1e-5)
    assert 200 * (ratio * last**2 - 1.0) == pytest.approx(9.0, rel=0.05)


@pytest.mark.parametrize("n_records", [32_561, 1_000_000])
def test_the_last_batch_is_not_charged_as_if_it_were_everybodys(n_records):
    plan = langevin(n_records=n_records, cap=False)
    mus = np.array(plan.event.mus)
    assert mus.size == plan.n_batches > 5
    assert np.all(np.diff(mus) < 0.0)  # the last batch first, and a step later costs less
    assert privacy.GaussianDP(mus[0]).delta_at(1.0) > 1.03e-5
    assert 0.999e-5 < plan.event.delta_at(1.0) <= 1e-5
    exact = privacy.langevin_mu_cyclic(
        plan.step_size,
        1.0 / plan.C,
        n_records / (n_records // plan.n_batches) * 2.0 * ADULT.record_norm,
        plan.n_batches,
        plan.epochs[0],
        steps_after=3,
    )
    paid = mus[3] / math.sqrt(plan.inverse_temperature) / exact
    assert 1.0 < paid < 1.0 + 1e-5  # roundings


def test_several_draws_of_one_chain_cost_less_than_several_chains():
    one, many = langevin(C=0.2, n_steps=200), langevin(C=0.2, n_steps=200, n_draws=10)
    ratio = one.inverse_temperature / many.inverse_temperature
    assert 1.0 < ratio < 10.0  # independent chains: 10
    assert many.event.delta_at(1.0) <= 1e-5


def test_rounding_is_negligible_in_double_precision_and_would_not_be_in_single():
    slack = ADULT.computed_sensitivity / ADULT.sensitivity - 1.0
    assert 0.0 < slack < 1e-5
    single = slack * 2.0**-24 / 2.0**-53
    assert single > 1.0  # the sensitivity would more than double


def test_minami_is_colder_by_the_known_ratio_and_refused_beyond_one():
    tight = density(dataclasses.replace(ADULT, C=0.5))
    minami = density(dataclasses.replace(ADULT, C=0.5, calibration="minami2016"))
    ratio = tight.inverse_temperature / minami.inverse_temperature
    assert ratio == pytest.approx(1.3138839893**2, rel=1e-8)
    chain = langevin(C=0.5, calibration="minami2016")
    assert chain.event.delta_at(1.0) <= 1e-5
    with pytest.raises(CalibrationError, match="Corollary 8"):
        density(dataclasses.replace(ADULT, epsilon=1.5, calibration="minami2016"))


def test_pure_temperatures():
    pure = dataclasses.replace(ADULT, n_records=1000, delta=0.0, coef_norm=2.0, cap=False)
    c = 2.0 * ADULT.record_norm
    assert density(pure).inverse_temperature == pytest.approx(1.0 / (2 * c))
    zero_out = dataclasses.replace(pure, adjacency="zero_out")
    assert density(zero_out).inverse_temperature == pytest.approx(1.0 / c)
    wang = dataclasses.replace(pure, calibration="wang2015")
    assert density(wang).inverse_temperature == pytest.approx(1 / (4 * np.log1p(np.exp(c))))
    svc = dataclasses.replace(pure, loss=models.HingeLoss())
    assert density(svc).inverse_temperature == pytest.approx(1.0 / (2 * min(2 * c, 1 + c)))
    softmax = dataclasses.replace(pure, loss=models.SoftmaxLoss(3))
    expected = 1.0 / (2 * privacy.softmax_range(c, 3))
    assert density(softmax).inverse_temperature == pytest.approx(expected)
    for problem in (pure, zero_out, wang, svc, softmax):
        event = density(problem).event
        assert event.delta_at(1.0) <= 1e-15
        assert event.epsilon_at(0.0) <= 1.0 + 1e-9
    three = dataclasses.replace(pure, n_draws=3)
    assert density(three).inverse_temperature == pytest.approx(1.0 / (6 * c))
    assert density(three).event.epsilon_at(0.0) <= 1.0 + 1e-9


def test_bounded_range_wins_where_the_ball_is_small():
    ball = dataclasses.replace(ADULT, coef_norm=0.05, C=1.0, cap=False)
    plan = density(ball)
    assert plan.event.delta_at(1.0) <= 1e-5
    free = density(dataclasses.replace(ball, coef_norm=None))
    assert plan.inverse_temperature > free.inverse_temperature


def test_langevin_needs_delta_and_small_steps():
    with pytest.raises(CalibrationError, match="delta > 0"):
        langevin(delta=0.0)
    with pytest.raises(CalibrationError, match="step_size"):
        langevin(C=1.0, step_size=1.0)
    with pytest.raises(ValueError, match="n_batches"):
        langevin(n_records=5, n_batches=6)


def test_rounding_is_paid_in_every_step_of_an_epoch():
    """Ten batches round ten times an epoch, and the point is rounded at the size of the ball."""
    plan = langevin(C=1.0, step_size=1e-9, n_steps=50, n_batches=10, cap=False)
    beta, unit = plan.inverse_temperature, 2.0**-53
    scale = ADULT.n_records / (ADULT.n_records // 10)
    each_step = 2 * 2 * unit * plan.radius / plan.step_size
    mu = privacy.langevin_mu_cyclic(
        plan.step_size / beta,
        beta,
        beta * (scale * ADULT.computed_sensitivity + 10 * each_step),
        10,
        5,
    )
    assert plan.event.mus[0] >= mu
    assert each_step > 1e-3  # so that a missing factor 10 shows


def test_budgets_below_the_rounding_of_the_noise_are_refused():
    with pytest.raises(CalibrationError, match="double precision"):
        langevin(epsilon=1e-13, delta=1e-300)


def test_the_pure_price_includes_the_rounding_of_the_potential():
    pure = dataclasses.replace(ADULT, delta=0.0, coef_norm=2.0, cap=False)
    plan = density(pure)
    eta = plan.inverse_temperature * 2.0 * 2.0 * ADULT.record_norm
    # both neighbors' potentials, at two points each; the prior has a part in it
    rounding = plan.inverse_temperature * 2.0 * 2.0 * pure.value_rounding(2.0, plan.C)
    assert rounding > plan.inverse_temperature * 4.0 * pure.value_rounding(2.0, math.inf)
    assert eta + rounding <= 1.0
    assert eta == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("n_draws", [1, 5])
def test_the_gaussian_price_on_a_ball_includes_the_rounding_of_the_potential(n_draws):
    ball = dataclasses.replace(
        ADULT, n_records=10**6, coef_norm=2.0, C=0.02, n_draws=n_draws, cap=False
    )
    plan = density(ball)
    assert isinstance(plan.event, privacy.GaussianDP)
    each = ball.sensitivity * math.sqrt(plan.inverse_temperature * plan.C)
    added = math.sqrt(2 * math.pi) * plan.inverse_temperature * ball.value_rounding(2.0, plan.C)
    assert plan.event.mu == pytest.approx(math.sqrt(n_draws) * (each + added), rel=1e-9)
    assert added > 1e-6 * each
    assert plan.event.delta_at(1.0) <= 1e-5


@pytest.mark.parametrize("n_draws", [2, 5, 40])
@pytest.mark.parametrize("coef_norm", [None, 1.0])
def test_several_draws_take_the_cheapest_proved_price(n_draws, coef_norm):
    """Thinned states against independent chains; bounded range against root k in mu."""
    schedule = {"C": 0.2, "n_steps": 100, "n_batches": 1, "coef_norm": coef_norm, "cap": False}
    one, many = langevin(**schedule), langevin(n_draws=n_draws, **schedule)
    gain = n_draws * many.inverse_temperature / one.inverse_temperature
    half = langevin(**schedule | {"n_steps": 50})
    if coef_norm is None:  # mu^2 is proportional to beta, so prices at beta = 1 compare
        first, later = (plan.event.mu**2 / plan.inverse_temperature for plan in (one, half))
        assert gain == pytest.approx(n_draws * first / (first + (n_draws - 1) * later), rel=1e-6)
    assert gain > 1.0

    exact = dataclasses.replace(ADULT, C=0.2, coef_norm=coef_norm, n_draws=n_draws, cap=False)
    mu = privacy.gdp_mu(1.0, 1e-5) / math.sqrt(n_draws)
    prices = [privacy.ops_inverse_temperature(mu, 0.2, exact.sensitivity)]
    if coef_norm is not None:
        eta = privacy.bounded_range_eta(1.0, 1e-5, n_draws=n_draws)
        prices.append(eta / (2.0 * ADULT.record_norm * coef_norm))
    plan = density(exact)
    assert plan.inverse_temperature == pytest.approx(max(prices), rel=1e-5)
    assert plan.event.delta_at(1.0) <= 1e-5


def test_root_k_wins_for_one_draw_and_bounded_range_for_many():
    """A draw's beta falls like mu^2 in one and like mu in the other; both cases occur."""
    ball = dataclasses.replace(ADULT, coef_norm=2.0, C=0.02, cap=False)
    kinds = [type(density(dataclasses.replace(ball, n_draws=k)).event) for k in (1, 1000)]
    assert kinds == [privacy.GaussianDP, privacy.BoundedRange]


def test_pure_draws_share_epsilon_exactly():
    pure = dataclasses.replace(ADULT, delta=0.0, coef_norm=2.0, cap=False)
    one = density(pure).inverse_temperature
    for n_draws in (2, 10):
        plan = density(dataclasses.replace(pure, n_draws=n_draws))
        assert plan.inverse_temperature == pytest.approx(one / n_draws, rel=1e-9)
        assert plan.event.epsilon_at(0.0) <= 1.0 + 1e-9
