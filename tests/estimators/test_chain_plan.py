"""The plan of a chain: what is accounted is what is run, on the private side and close to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from skdpbayes import DPSGLDClassifier, models, privacy, randomness
from skdpbayes.datasets import make_census
from skdpbayes.estimators.chain.coordinates import (
    MEAN_WEIGHT,
    moment_sensitivity,
    plain_coordinates,
    released_coordinates,
)
from skdpbayes.estimators.chain.plan import plan_chain
from skdpbayes.estimators.chain.potential import CoefficientPrior, LinearPotential, chain_blocks
from skdpbayes.estimators.chain.run import Dynamics, step_sizes
from skdpbayes.estimators.network.potential import NetworkPotential, network_inputs
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.records import Public, Records
from skdpbayes.papers import wang2015_noise_multiplier
from tests.privacy.renyi_reference import rdp_epsilon, rdp_noise_multiplier

PRIOR = CoefficientPrior.normal(10.0, 10.0)
BASE = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "n_samples": 2000,
    "batch_size": 100,
    "n_steps": 200,
    "subsampling": "poisson",
    "adjacency": "zero_out",
    "clip_norm": 0.5,
}


def records_of(X, target=None):
    return Records(Public(*X.shape), X, target)


def potential_of(X, codes, coordinates, loss, prior, clip, data_norm):
    grid = models.Grid(len(X), data_norm)
    blocks = chain_blocks(records_of(X, codes), grid)
    return LinearPotential(blocks, coordinates, loss, prior, clip, grid)


@pytest.mark.parametrize("subsampling", ["poisson", "fixed"])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("batch_size", [100, 2000])
@pytest.mark.parametrize("setup", [(), (privacy.GaussianDP(0.1),)])
def test_price_meets_the_target_closely(subsampling, adjacency, batch_size, setup):
    plan = plan_chain(
        **BASE
        | {
            "subsampling": subsampling,
            "adjacency": adjacency,
            "batch_size": batch_size,
            "setup": setup,
        }
    )
    assert 0.999 < plan.event.epsilon_at(1e-5) <= 1.0 + 1e-9


def test_setup_costs_noise():
    plain = plan_chain(**BASE)
    beside = plan_chain(**BASE, setup=(privacy.GaussianDP(0.15),))
    assert beside.noise_multiplier > 1.05 * plain.noise_multiplier


def test_privacy_is_free_for_small_steps_and_decreasing_steps_save_noise():
    tiny = Dynamics("sgld", np.full(200, 1e-9)).langevin()
    free = plan_chain(**BASE, langevin=tiny)
    assert free.noise_multiplier == 0.0
    assert free.event.epsilon_at(1e-5) < 1.0
    steps = step_sizes(0.1, (0.0, 1.0), 200)
    decreasing = plan_chain(**BASE, langevin=Dynamics("sgld", steps).langevin())
    constant = plan_chain(**BASE)
    assert 0.0 < decreasing.noise_multiplier < constant.noise_multiplier
    assert 0.99 < decreasing.event.epsilon_at(1e-5) <= 1.0
    accounted = decreasing.noise_multipliers()
    run = decreasing.noise_scales(Dynamics("sgld", steps).langevin(), 10, 0.0) / 0.5
    assert np.all(run >= accounted)
    np.testing.assert_allclose(run, accounted, rtol=1e-6)


def test_equal_steps_are_one_number():
    one = plan_chain(**BASE, langevin=Dynamics("sgld", step_sizes(0.1, "constant", 200)).langevin())
    each = plan_chain(**BASE, langevin=Dynamics("sgld", np.full(200, 0.1)).langevin())
    assert one.noise_multipliers().shape == (1,)
    assert one.noise_multiplier == each.noise_multiplier
    assert one.event.epsilon_at(1e-5) == each.event.epsilon_at(1e-5)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_clipping_follows_from_public_numbers(adjacency):
    chosen = []
    for epsilon in (0.01, 0.3, 0.5, 0.7, 1.0, 3.0, 100.0):
        model = DPSGLDClassifier(epsilon=epsilon, adjacency=adjacency)
        chosen.append(model.plan(20_000, 50).plan.chain.clip_norm)
    assert chosen[0] == 0.7
    assert chosen[-1] == 1.3
    assert chosen == sorted(chosen)
    assert len(set(chosen)) > 2  # in between, the rule is neither of the two
    model.set_params(clip_norm=0.25)
    assert model.plan(20_000, 50).plan.chain.clip_norm == 0.25


def test_batches_are_those_that_are_accounted():
    generator = randomness.make_generator(0)
    rows, starts = plan_chain(**BASE).batches(generator, 300)
    sizes = np.diff(starts)
    assert sizes.shape == (300,)
    assert rows.shape == (sizes.sum(),)
    standard_error = math.sqrt(100 * 0.95 / 300)
    assert abs(np.mean(sizes) - 100) < 4 * standard_error
    assert np.var(sizes) == pytest.approx(95.0, rel=0.35)
    fixed = plan_chain(**BASE | {"subsampling": "fixed"})
    assert set(np.diff(fixed.batches(generator, 50)[1])) == {100}
    full = plan_chain(**BASE | {"batch_size": 2000})
    assert full.batches(generator, 50) is None


def test_noise_covers_rounding():
    plan = plan_chain(**BASE)
    scale = plan.noise_scales(np.full(200, 1e-9), 10_000, 1e-5)[0]
    grid = scale * 2.0**-28
    sensitivity = 0.5 + 1e-5 + grid * math.sqrt(10_000)
    assert scale >= plan.noise_multiplier * sensitivity * (1.0 - 1e-12)
    assert scale < 1.0001 * plan.noise_multiplier * 0.5


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("plain", [False, True])
def test_one_record_moves_the_sum_by_no_more_than_clip_and_rounding(n_outputs, plain):
    """Also where the coordinates all but remove the record, so that lengths are mostly rounding."""
    rng = np.random.default_rng(0)
    n, d = 400, 6
    X = rng.normal(size=(n, d)) * np.array([1.0, 1e-2, 1e-3, 1e-3, 1e-3, 1e-3])
    X[:200] *= 1e-6
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    codes = rng.integers(0, max(2, n_outputs), n)
    if plain:
        coordinates = plain_coordinates(d, 1.0, True).with_constant(0.3)
    else:
        coordinates = released_coordinates(
            records_of(X), 1.0, math.inf, "zero_out", True, randomness.make_generator(0)
        ).with_constant(0.3)
    clip = 0.01
    loss = models.LogisticLoss() if n_outputs == 1 else models.SoftmaxLoss(n_outputs)
    potential = potential_of(X, codes, coordinates, loss, PRIOR, clip, 1.0)
    position = 3.0 * rng.normal(size=potential.shape)
    bound = clip + potential.rounding(n)
    assert bound < 1.001 * clip
    all_rows = np.arange(n)
    whole = potential.gradients(position, all_rows)[0]
    np.testing.assert_array_equal(whole, potential.gradients(position, None)[0])
    largest = 0.0
    for i in range(0, n, 7):
        without = potential.gradients(position, np.delete(all_rows, i))[0]
        largest = max(largest, float(np.linalg.norm(whole - without)))
    assert 0.9 * clip < largest <= bound
    # the prior's gradient is that of |w|^2 / (2 C) + b^2 / (2 C)
    coef, intercept = coordinates.coefficients(position)
    pull = potential.gradients(position, all_rows)[1]
    step = rng.normal(size=potential.shape)
    by_step, by_intercept = coordinates.coefficients(step)
    slope = (np.sum(coef * by_step) + np.sum(intercept * by_intercept)) / 100.0
    assert np.sum(pull * step) == pytest.approx(slope)


@pytest.mark.parametrize("plain", [False, True])
def test_the_pull_of_the_prior_is_the_slope_of_its_density(plain):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(50, 3)) / 5.0, rng.integers(0, 2, 50)
    coordinates = plain_coordinates(3, 1.0, True)
    if not plain:
        coordinates = released_coordinates(
            records_of(X), 1.0, math.inf, "zero_out", True, randomness.make_generator(0)
        )
    coordinates = coordinates.with_constant(0.3)
    prior = CoefficientPrior.cauchy(2.5, 10.0)
    potential = potential_of(X, codes, coordinates, models.LogisticLoss(), prior, 1.0, 1.0)

    def density(position):
        coef, intercept = coordinates.coefficients(position)
        return (
            stats.cauchy(scale=2.5).logpdf(coef).sum()
            + stats.cauchy(scale=10.0).logpdf(intercept).sum()
        )

    position, step = 4.0 * rng.normal(size=(2, *potential.shape))
    pull = potential.gradients(position, None)[1]
    slope = (density(position + 1e-6 * step) - density(position - 1e-6 * step)) / 2e-6
    assert np.sum(pull * step) == pytest.approx(-slope, rel=1e-6)


@pytest.mark.parametrize("data_norm", [1e-9, 1e-3, 1e3, 1e9])
def test_rounding_does_not_depend_on_the_unit_of_the_rows(data_norm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    codes = rng.integers(0, 2, 300)
    found = []
    for norm in (1.0, data_norm):
        coordinates = released_coordinates(
            records_of(norm * X), norm, 1.0, "zero_out", True, randomness.make_generator(0)
        ).with_constant(0.3)
        loss = models.LogisticLoss()
        potential = potential_of(norm * X, codes, coordinates, loss, PRIOR, 1.0, norm)
        found.append(potential.rounding(300))
    assert 0.4 < found[1] / found[0] < 2.5  # units are powers of two


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_one_record_moves_the_sum_of_a_network_by_no_more_than_clip_and_rounding(activation):
    rng = np.random.default_rng(0)
    n, sizes, clip = 200, (6, 5, 3), 0.05
    X = network_inputs(Bound(1.0)(rng.normal(size=(n, 6))), 1.0).astype(np.float32)
    potential = NetworkPotential(X, rng.integers(0, 3, n), sizes, activation, 1.0, clip, n)
    position = rng.normal(size=potential.shape)
    bound = clip + potential.rounding(n)
    assert bound < (1.0 + 1e-9) * clip
    all_rows = np.arange(n)
    whole = potential.gradients(position, None)[0]
    moves = [
        float(np.linalg.norm(whole - potential.gradients(position, np.delete(all_rows, i))[0]))
        for i in range(0, n, 5)
    ]
    assert 0.99 * clip < max(moves) <= bound


def test_calibrations_of_the_papers_ask_for_more_noise():
    tight = plan_chain(**BASE).noise_multiplier
    setting = {"batch_size": 100, "n_samples": 2000}
    renyi = rdp_noise_multiplier(
        1.0, 1e-5, **setting, n_steps=200, sampling="poisson", adjacency="zero_out"
    )
    assert 1.0 < renyi / tight < 1.4
    # Algorithm 2 of Wang et al. needs a number of passes
    assert wang2015_noise_multiplier(1.0, 1e-5, n_passes=10.0, **setting) > 10 * tight
    with pytest.raises(CalibrationError, match="n_passes"):
        wang2015_noise_multiplier(50.0, 1e-5, n_passes=0.1, **setting)
    with pytest.raises(CalibrationError, match="Rényi"):
        rdp_noise_multiplier(
            1.0, 1e-5, **setting, n_steps=200, sampling="poisson", adjacency="replace_one"
        )
    with pytest.raises(CalibrationError, match="delta"):
        plan_chain(**BASE | {"delta": 0.0})


@pytest.mark.parametrize(
    ("sampling", "adjacency", "batch_size"),
    [
        ("poisson", "zero_out", 50),
        ("fixed", "replace_one", 50),
        ("poisson", "replace_one", 1000),
        ("fixed", "zero_out", 1000),
    ],
)
def test_renyi_accounting_is_an_upper_bound(sampling, adjacency, batch_size):
    setting = {"batch_size": batch_size, "n_samples": 1000, "n_steps": 100}
    both = {"sampling": sampling, "adjacency": adjacency}
    noise = rdp_noise_multiplier(2.0, 1e-5, **setting, **both)
    assert rdp_epsilon(noise, 1e-5, **setting, **both) <= 2.0
    step = privacy.SubsampledGaussian(noise, batch_size / 1000, sampling, adjacency)
    tight = privacy.repeat(step, 100).epsilon_at(1e-5)
    assert 0.5 < tight < 2.0


def test_moment_sensitivity_is_attained_and_not_exceeded():
    rng = np.random.default_rng(0)

    def statistic(x):
        return np.concatenate([MEAN_WEIGHT * x, np.outer(x, x).ravel()])

    worst_pair = worst_one = 0.0
    for angle in np.linspace(0.0, np.pi, 2000):
        x, y = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
        x, y = x * rng.choice([1.0, rng.random()]), y * rng.choice([1.0, rng.random()])
        worst_pair = max(worst_pair, np.linalg.norm(statistic(x) - statistic(y)))
        worst_one = max(worst_one, np.linalg.norm(statistic(x)))
    assert 0.995 < worst_pair / moment_sensitivity("replace_one") <= 1.0 + 1e-12
    assert 0.995 < worst_one / moment_sensitivity("zero_out") <= 1.0 + 1e-12


def test_released_coordinates_whiten_and_invert():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3)) @ np.array([[0.2, 0.05, 0], [0, 0.05, 0], [0, 0, 0.01]]) + 0.2
    exact = released_coordinates(
        records_of(X), 1.0, math.inf, "zero_out", True, randomness.make_generator(0)
    )
    Z = (X - exact.center) @ exact.transform
    np.testing.assert_allclose(np.cov(Z.T), np.eye(3) / 3, atol=1e-3)
    assert exact.dimension == pytest.approx(3.0, rel=1e-6)
    coordinates = exact.with_constant(0.3)
    psi = rng.normal(size=(2, 4))
    coef, intercept = coordinates.coefficients(psi)
    np.testing.assert_allclose(
        X @ coef.T + intercept, np.column_stack([Z, np.full(4000, 0.3)]) @ psi.T, atol=1e-9
    )
    np.testing.assert_allclose(coordinates.from_coefficients(coef, intercept), psi, rtol=1e-7)


@pytest.mark.parametrize("factor", [2 / 3, 1.0, 3 / 2])
def test_noise_of_the_moments(factor):
    """Two-sided: the scale that is accounted is accepted, two thirds or three halves are not."""
    mu, d = 0.5, 40
    noisy = [
        released_coordinates(
            records_of(np.zeros((1, d))),
            1.0,
            mu,
            "replace_one",
            True,
            randomness.make_generator(seed),
        ).center
        for seed in range(50)
    ]
    expected = factor * moment_sensitivity("replace_one") / mu / MEAN_WEIGHT
    right = abs(np.std(noisy) / expected - 1.0) < 4 / math.sqrt(2 * 50 * d)
    assert right == (factor == 1.0)


def test_collinear_columns_do_not_make_the_chain_diverge():
    """Indicators that add up to one leave a direction that only the prior holds in place."""
    X, y = make_census(1000, encoding="raw", return_X_y=True, random_state=0)
    for epsilon in (math.inf, 1e6):
        fitted = DPSGLDClassifier(epsilon=epsilon, random_state=0).fit(X, y)
        assert np.all(np.isfinite(fitted.sample_posterior()["coef"]))
        assert fitted.score(X, y) > 0.8  # the majority class is 0.7
