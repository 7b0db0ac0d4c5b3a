"""Objective perturbation: bounds against exact densities, simulation and published numbers."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import (
    GaussianDP,
    ObjectivePerturbation,
    calibrate_objective,
    chaudhuri2011_scale,
    event_from_dict,
    gdp_delta,
    gdp_mu,
    group,
    kifer2012_noise_multiplier,
    largest_curvature,
    pure_objective_epsilon,
    pure_objective_scale,
    redberg2023_delta,
    redberg2023_noise_multiplier,
    repeat,
)
from skdpbayes.privacy.mechanisms._shifted_profile import (
    difference_error,
    gaussian_delta,
    gaussian_delta_bound,
    gaussian_delta_once,
    gaussian_difference,
)
from skdpbayes.privacy.mechanisms.objective_perturbation import loss_bound

ADJACENCIES = ("zero_out", "replace_one")
# Noise multipliers at epsilon=1, delta=1e-5, R=1 for penalties 1, 10, 100
REDBERG = (5.3045003647, 3.9765313001, 3.8930733807)
CHAUDHURI = (3.6119801606, 2.1039016571, 2.0100376464)


# ---------------------------------------------------------------- exact densities in one dimension


def _log_density(grid, records, penalty, noise_log_density):
    """Log density of the minimizer on `grid`: noise density at b(theta), times |db/dtheta|."""
    margins = np.outer(records, grid)
    tilt = (records[:, None] * expit(-margins)).sum(axis=0) - penalty * grid
    curvature = penalty + (records[:, None] ** 2 * expit(margins) * expit(-margins)).sum(axis=0)
    return noise_log_density(tilt) + np.log(curvature)


def _exact_delta(epsilon, one, other, grid):
    """Hockey-stick divergence of two densities on a grid, by the trapezoid rule."""
    gap = np.maximum(np.exp(one) - math.exp(epsilon) * np.exp(other), 0.0)
    return np.trapezoid(gap, grid)


def _neighbors(rest, adjacency, antipodal):
    first = np.append(rest, 1.0)
    if adjacency == "zero_out":
        return first, rest
    return first, np.append(rest, -1.0 if antipodal else 0.3)


RESTS = (
    np.array([]),
    np.full(200, -1.0),
    np.full(20, 1.0),
    np.array([1.0, -1.0, 0.5, -0.7, 0.2] * 3),
)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("penalty", [0.4, 2.0])
@pytest.mark.parametrize("sigma", [0.8, 3.0])
def test_exact_densities_stay_below_the_profile(adjacency, penalty, sigma):
    event = ObjectivePerturbation(sigma, 1.0 / penalty, adjacency)
    grid = np.linspace(-40, 40, 8_001) * max(1.0, sigma / penalty)

    def normal(tilt):
        return -0.5 * (tilt / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))

    tightest = 0.0
    for rest in RESTS:
        for antipodal in (True, False):
            first, second = _neighbors(rest, adjacency, antipodal)
            logs = [_log_density(grid, data, penalty, normal) for data in (first, second)]
            for one, other in (logs, logs[::-1]):
                assert np.trapezoid(np.exp(one), grid) == pytest.approx(1.0, abs=1e-4)
                for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
                    exact = _exact_delta(epsilon, one, other, grid)
                    bound = event.delta_at(epsilon)
                    assert exact <= bound * (1 + 1e-6) + 1e-7
                    tightest = max(tightest, exact / bound)
    # Attained by deletions, so less noise could not pass. In one dimension no pair of records has
    # gradients 2R apart; the test below takes two.
    assert tightest > (0.9 if adjacency == "zero_out" else 0.4)


def test_replacement_attains_its_bound_in_two_dimensions():
    """Near-antipodal records with a common component that the rest of the data pushes against."""
    rng = np.random.default_rng(1)
    tilt, penalty, sigma, n_rest, n_draws = 0.3, 1.0, 1.0, 1e9, 20_000
    record = np.array([math.cos(tilt), math.sin(tilt)])
    other = np.array([-math.cos(tilt), math.sin(tilt)])
    rest = np.array([0.0, -1.0])
    b = rng.normal(scale=sigma, size=(n_draws, 2))

    def derivatives(theta, u):
        slope, curvature = penalty * theta, np.tile(penalty * np.eye(2), (n_draws, 1, 1))
        for x, count in (
            (u, 1.0),
            (rest, n_rest),
            (np.array([1.0, 0.0]), 400.0),
            (np.array([-1.0, 0.0]), 400.0),
        ):
            s = expit(-theta @ x)
            slope = slope - count * s[:, None] * x
            curvature = curvature + count * (s * (1 - s))[:, None, None] * np.outer(x, x)
        return slope, curvature

    theta = np.tile([0.0, -18.0], (n_draws, 1))
    for _ in range(40):
        slope, curvature = derivatives(theta, record)
        step = np.linalg.solve(curvature, (slope + b)[:, :, None])[:, :, 0]
        theta -= step / np.maximum(1.0, np.linalg.norm(step, axis=1))[:, None]
    slope, curvature = derivatives(theta, record)
    assert np.abs(slope + b).max() < 1e-5
    slope_other, curvature_other = derivatives(theta, other)
    loss = 0.5 * ((slope_other**2).sum(axis=1) - (slope**2).sum(axis=1)) / sigma**2
    loss += np.linalg.slogdet(curvature)[1] - np.linalg.slogdet(curvature_other)[1]
    event = ObjectivePerturbation(sigma, 1 / penalty, "replace_one")
    for epsilon in (1.0, 3.0):
        simulated = np.maximum(-np.expm1(epsilon - loss), 0.0).mean()
        assert simulated <= event.delta_at(epsilon)
        assert simulated > 0.8 * gdp_delta(epsilon, 2.0 * math.cos(tilt) / sigma)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("penalty", [0.3, 1.0, 5.0])
def test_exact_pure_epsilon_stays_below_the_bound(adjacency, penalty):
    scale = pure_objective_scale(1.0, curvature=1.0 / penalty, adjacency=adjacency)
    grid = np.linspace(-60, 60, 20_001)

    def laplace(tilt):
        return -np.abs(tilt) / scale

    worst = 0.0
    for rest in RESTS:
        for antipodal in (True, False):
            first, second = _neighbors(rest, adjacency, antipodal)
            gap = _log_density(grid, first, penalty, laplace) - _log_density(
                grid, second, penalty, laplace
            )
            worst = max(worst, np.abs(gap).max())
    assert worst <= 1.0 + 1e-9
    if adjacency == "zero_out" and penalty >= 1.0:
        assert worst > 0.9


def test_softmax_loss_stays_below_the_bound_in_simulation():
    """The exact privacy loss at the minimizer, K=3: never above the bound, delta below too."""
    rng = np.random.default_rng(0)
    n_classes, penalty, sigma, n_draws = 3, 1.5, 1.7, 40_000
    mu = math.sqrt(2.0) / sigma
    event = ObjectivePerturbation(1.0 / mu, 1.0 / penalty, "zero_out", n_classes=n_classes)
    theta = rng.normal(scale=2.0, size=(n_draws, n_classes))
    # Any theta is the minimizer for one b, so losses may be checked pointwise: x = 1, y = 0.
    p = np.exp(theta - logsumexp(theta, axis=1, keepdims=True))
    gradient = p - np.eye(n_classes)[0]
    b = -(gradient + penalty * theta)
    hessian = p[:, :, None] * np.eye(n_classes) - p[:, :, None] * p[:, None, :]
    eye = np.eye(n_classes)
    determinant = np.linalg.slogdet(penalty * eye + hessian)[1] - n_classes * math.log(penalty)
    loss = (2 * (b * gradient).sum(axis=1) + (gradient**2).sum(axis=1)) / (2 * sigma**2)
    loss += determinant
    margins = (b[:, 1:] - b[:, :1]) / sigma**2 + 1.0 / sigma**2
    bound = loss_bound(margins.max(axis=1), 1.0 / penalty, mu, n_classes)
    assert np.all(loss <= bound + 1e-12)
    # weights turn these thetas into draws of the mechanism
    log_density = -0.5 * (b**2).sum(axis=1) / sigma**2 - 1.5 * math.log(2 * math.pi * sigma**2)
    log_density += np.linalg.slogdet(penalty * eye + hessian)[1]
    proposal = -0.5 * (theta**2).sum(axis=1) / 4.0 - 1.5 * math.log(2 * math.pi * 4.0)
    weights = np.exp(log_density - proposal)
    assert weights.mean() == pytest.approx(1.0, abs=0.03)
    for epsilon in (0.5, 1.0, 2.0):
        simulated = (weights * np.maximum(-np.expm1(epsilon - loss), 0.0)).mean()
        assert simulated <= event.delta_at(epsilon)


@pytest.mark.parametrize("curvature", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("mu", [0.0, 0.3, 2.0])
def test_loss_bound_is_the_maximum_over_s(curvature, mu):
    s = np.linspace(0, 1, 4001)
    for margin in np.linspace(-4, 8, 61):
        x = s * (1 - s)
        exact = (np.log1p(curvature * x) + s * margin - 0.5 * mu**2 * x).max()
        bound = loss_bound(np.array([margin]), curvature, mu)[0]
        assert exact - 1e-12 <= bound <= exact + 0.01


# ------------------------------------------------------------------------------ closed-form values


@pytest.mark.parametrize("penalty", [1.0, 10.0, 100.0])
def test_deleting_a_logistic_record_costs_the_gaussian_mechanism(penalty):
    event = calibrate_objective(1.0, 1e-5, curvature=1 / penalty, adjacency="zero_out")
    assert event.noise_multiplier == pytest.approx(3.7306316348, rel=1e-9)


@pytest.mark.parametrize("penalty", [10.0, 100.0])
def test_replacing_a_logistic_record_costs_twice_the_gaussian_shift(penalty):
    event = calibrate_objective(1.0, 1e-5, curvature=1 / penalty, adjacency="replace_one")
    assert event.noise_multiplier == pytest.approx(7.4612632696, rel=1e-9)


def test_replacing_is_the_gaussian_profile_where_the_condition_holds():
    event = ObjectivePerturbation(4.0, 0.2, "replace_one")
    for epsilon in (0.4 - 1 / 16 + 1e-9, 1.0, 3.0):
        assert event.delta_at(epsilon) == pytest.approx(gdp_delta(epsilon, 0.5), rel=1e-9)
    assert event.delta_at(0.2) > gdp_delta(0.2, 0.5)


@pytest.mark.parametrize("curvature", [0.7, 1.0, 2.0])
def test_replacing_is_free_of_the_determinant_from_the_threshold_of_adding_first(curvature):
    mu = 0.25
    threshold = max(mu**2, 2.0 * curvature - mu**2)
    event = ObjectivePerturbation(1.0 / mu, curvature, "replace_one")
    for epsilon in (threshold + 1e-9, threshold + 0.1):  # deleting first needs 2k + mu^2
        assert epsilon < 2.0 * curvature + mu**2
        assert event.delta_at(epsilon) == pytest.approx(gdp_delta(epsilon, 2.0 * mu), rel=1e-9)


def test_published_values():
    assert ObjectivePerturbation(4.0, 1.0, "zero_out").delta_at(1.0) == pytest.approx(
        2.9242721e-06, rel=1e-7
    )
    assert redberg2023_delta(1.0, 0.25, 1.0) == pytest.approx(4.5695915713e-04, rel=1e-9)
    assert redberg2023_delta(0.1, 0.25, 1.0) == pytest.approx(3.3475285231e-01, rel=1e-9)
    for penalty, noise, scale in zip((1.0, 10.0, 100.0), REDBERG, CHAUDHURI, strict=True):
        options = {"curvature": 1 / penalty, "adjacency": "zero_out"}
        assert redberg2023_noise_multiplier(1.0, 1e-5, **options) == pytest.approx(noise, rel=1e-9)
        assert kifer2012_noise_multiplier(1.0, 1e-5, **options) == pytest.approx(
            10.0820921025, rel=1e-9
        )
        options["adjacency"] = "replace_one"
        assert chaudhuri2011_scale(1.0, **options)[0] == pytest.approx(scale, rel=1e-9)
    raised = chaudhuri2011_scale(0.1, curvature=4.0, adjacency="zero_out")
    assert raised == pytest.approx((1 / 0.05, 4 * math.expm1(0.025)), rel=1e-12)


def test_pure_scale_is_free_of_the_determinant_where_epsilon_is_large_enough():
    assert pure_objective_scale(1.0, curvature=1.0, adjacency="zero_out") == 1.0
    assert pure_objective_scale(1.0, curvature=0.5, adjacency="replace_one") == 2.0
    for curvature, older in ((1.0, 2.5744782107), (0.1, 2.0506355492)):
        new = pure_objective_scale(1.0, curvature=curvature, adjacency="replace_one")
        assert 2.0 <= new < older
    three = pure_objective_scale(1.0, curvature=0.1, adjacency="replace_one", n_classes=3)
    assert three == 2.0


# ------------------------------------------------------------------------- calibration and profile


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("curvature", [0.05, 0.7, 1.3])
def test_calibration_ends_on_the_private_side(adjacency, n_classes, curvature):
    event = calibrate_objective(
        1.0,
        1e-5,
        curvature=curvature,
        adjacency=adjacency,
        n_classes=n_classes,
        side_share=0.11,
    )
    assert event.delta_at(1.0) <= 1e-5
    shift = 2.0 if adjacency == "replace_one" else 1.0
    ratio = event.side_mu**2 / (event.side_mu**2 + (shift / event.noise_multiplier) ** 2)
    assert ratio == pytest.approx(0.11, rel=1e-6)
    smaller = ObjectivePerturbation(
        0.97 * event.noise_multiplier, curvature, adjacency, event.side_mu, n_classes
    )
    assert smaller.delta_at(1.0) > 1e-5
    scale = pure_objective_scale(1.0, curvature=curvature, adjacency=adjacency, n_classes=n_classes)
    cost = pure_objective_epsilon(
        scale, curvature=curvature, adjacency=adjacency, n_classes=n_classes
    )
    assert cost <= 1.0
    assert cost == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_side_releases_compose_like_gaussians_where_the_determinant_is_free(adjacency):
    event = ObjectivePerturbation(5.0, 0.02, adjacency, side_mu=0.1)
    shift = 2.0 if adjacency == "replace_one" else 1.0
    total = math.hypot(shift / 5.0, 0.1)
    for epsilon in (0.7, 1.5):
        assert event.delta_at(epsilon) == pytest.approx(gdp_delta(epsilon, total), rel=1e-3)
        assert event.delta_at(epsilon) >= gdp_delta(epsilon, total) * (1 - 1e-12)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_profile_is_a_decreasing_probability(adjacency):
    event = ObjectivePerturbation(1.5, 0.8, adjacency, side_mu=0.2)
    epsilons = np.linspace(0, 8, 21)
    deltas = np.array([event.delta_at(float(e)) for e in epsilons])
    assert np.all(deltas <= 1.0)
    assert np.all(np.diff(deltas) <= 1e-12)
    many = event._profile(np.linspace(0, 8, 1001))
    shift = 2.0 if adjacency == "replace_one" else 1.0
    gaussian = [gdp_delta(float(e), math.hypot(shift / 1.5, 0.2)) for e in epsilons]
    assert np.all(many[::50] >= np.array(gaussian) * (1 - 1e-12))
    np.testing.assert_allclose(many[::50], deltas, rtol=0.15)
    epsilon = event.epsilon_at(1e-5)
    assert event.delta_at(epsilon) <= 1e-5 < event.delta_at(0.999 * epsilon)
    assert event.epsilon_at(0.0) == math.inf
    assert event.epsilon_at(0.9) == 0.0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_composition_lies_between_the_gaussian_and_basic_ones(adjacency):
    event = calibrate_objective(1.0, 1e-5, curvature=0.3, adjacency=adjacency, side_share=0.1)
    five = repeat(event, 5).epsilon_at(1e-4)
    lower = GaussianDP(math.sqrt(5) * gdp_mu(1.0, 1e-5) * (1 - 1e-9)).epsilon_at(1e-4)
    assert lower <= five * (1 + 1e-6)
    assert five < 5 * event.epsilon_at(2e-5)
    assert five < 1.08 * lower
    assert repeat(event, 1).delta_at(0.8) == pytest.approx(event.delta_at(0.8), rel=1e-9)


@pytest.mark.parametrize("curvature", [1e3, 1e6])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_weak_penalties_do_not_overflow(curvature, adjacency):
    for noise in (0.02, 0.5, 20.0):
        event = ObjectivePerturbation(noise, curvature, adjacency, side_mu=0.1)
        deltas = [event.delta_at(epsilon) for epsilon in (0.0, 1.0, 8.0, 200.0, 1e4)]
        assert np.all(np.diff(deltas) <= 1e-12)
        assert 0.0 <= deltas[-1] <= deltas[0] <= 1.0
    calibrated = calibrate_objective(8.0, 1e-6, curvature=400.0, adjacency=adjacency)
    assert calibrated.delta_at(8.0) <= 1e-6


def test_quick_profile_bounds_the_exact_one():
    epsilons = np.linspace(-6.0, 12.0, 181)
    for mu in (0.003, 0.05, 0.4, 2.0):
        exact = gaussian_delta(epsilons, mu)
        error = difference_error(epsilons, mu)
        quick = gaussian_difference(epsilons, mu)
        assert np.all(np.abs(quick - exact) <= error + 1e-13 * exact)
        assert np.all(np.diff(error) <= 0.0) or mu > 1.0
        once = np.array([gaussian_delta_once(float(e), mu) for e in epsilons])
        np.testing.assert_allclose(once, exact, rtol=3e-11, atol=1e-300)
        bound = np.array([gaussian_delta_bound(float(e), mu) for e in epsilons])
        assert np.all(bound >= exact * (1 - 1e-12))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_epsilon_of_hardly_any_noise_is_a_number(adjacency):
    for mu in (5.0, 20.0, 50.0):
        event = ObjectivePerturbation(1.0 / mu, 0.5, adjacency)
        epsilon = event.epsilon_at(1e-5)
        assert epsilon > 4.0 * mu
        assert math.isinf(epsilon) or event.delta_at(epsilon) <= 1e-5


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_group_privacy_is_quick(adjacency):
    event = ObjectivePerturbation(8.123, 1.5, adjacency, side_mu=0.05)
    start = time.perf_counter()
    two = group(event, 2).epsilon_at(1e-5)
    assert time.perf_counter() - start < 4.0  # it took from 9 seconds up
    assert 1.5 * event.epsilon_at(1e-5) < two < 3.5 * event.epsilon_at(1e-5)


def test_event_survives_json():
    event = ObjectivePerturbation(1.5, 0.8, "replace_one", side_mu=0.2, n_classes=4)
    assert event_from_dict(event.to_dict()) == event
    assert event.delta_at(math.inf) == 0.0


def test_unreachable_budgets_say_so():
    limit = largest_curvature(0.5)
    assert limit == pytest.approx(4 * math.expm1(0.5))
    for adjacency in ADJACENCIES:
        with pytest.raises(CalibrationError, match="must be below"):
            calibrate_objective(0.5, 1e-5, curvature=1.01 * limit, adjacency=adjacency)
        with pytest.raises(CalibrationError, match="must be below"):
            pure_objective_scale(0.5, curvature=1.01 * limit, adjacency=adjacency)
        assert pure_objective_scale(0.5, curvature=0.9 * limit, adjacency=adjacency) > 0
    with pytest.raises(CalibrationError, match="kifer2012"):
        kifer2012_noise_multiplier(1.0, 1e-5, curvature=2.1, adjacency="zero_out")
    with pytest.raises(CalibrationError, match="redberg2023"):
        redberg2023_noise_multiplier(1.0, 1e-5, curvature=4.0, adjacency="zero_out")
    with pytest.raises(ValueError, match="adjacency"):
        ObjectivePerturbation(1.0, 1.0, "add_remove")


def test_log_expit_identity_behind_the_reparametrization():
    """A shorter record is covered: s |u| / R plays the part of s."""
    t = np.linspace(-5, 5, 11)
    assert np.allclose(np.exp(log_expit(t)), expit(t))
    for length in (0.2, 0.7):
        for s in np.linspace(0, 1, 11):
            assert s * (1 - s) * length**2 <= (s * length) * (1 - s * length) + 1e-15
