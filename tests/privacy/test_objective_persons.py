"""Objective perturbation for persons: the proved profile against exact integration."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import (
    GaussianDP,
    PersonsObjectivePerturbation,
    calibrate_objective_of_persons,
    compose,
    event_from_dict,
    gdp_delta,
    gdp_mu,
    pure_objective_epsilon,
)


def density(records, grid, sigma, penalty):
    """Density of the minimizer on a grid of points (..., d); records are (weight, y x)."""
    d = grid.shape[-1]
    tilt = penalty * grid
    hessian = np.broadcast_to(penalty * np.eye(d), (*grid.shape, d)).copy()
    for weight, row in records:
        residual = expit(-grid @ row)
        tilt = tilt - weight * residual[..., None] * row
        curvature = weight * residual * (1.0 - residual)
        hessian += curvature[..., None, None] * np.outer(row, row)
    logs = -0.5 * np.sum(tilt**2, axis=-1) / sigma**2 - d * math.log(sigma * math.sqrt(2 * math.pi))
    return np.exp(logs) * np.linalg.det(hessian)


def exact_delta(first, second, epsilon, sigma, penalty, d):
    reach = (6.5 * sigma + 3.0) / penalty
    axis = np.linspace(-reach, reach, 20001 if d == 1 else 401)
    grid = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1)
    p, q = (density(records, grid, sigma, penalty) for records in (first, second))
    cell = (axis[1] - axis[0]) ** d
    assert p.sum() * cell == pytest.approx(1.0, abs=2e-3)
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * cell)


def persons(rng, d, n_records):
    rows = rng.normal(size=(n_records, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = rng.dirichlet(np.ones(n_records))
    return list(zip(weights, rows, strict=True))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_no_person_exceeds_the_profile(d, adjacency):
    rng = np.random.default_rng(d)
    most = 0.0
    for _ in range(40 if d == 1 else 4):
        mu, k = rng.uniform(0.3, 1.0), rng.uniform(0.2, 1.5)
        sigma, penalty = 1.0 / mu, 1.0 / k
        event = PersonsObjectivePerturbation(sigma, k, adjacency)
        others = [(1.0, row) for _, row in persons(rng, d, int(rng.integers(0, 3)) + 1)]
        one, other = (persons(rng, d, int(m)) for m in rng.integers(1, 5, 2))
        after = others + other if adjacency == "replace_one" else others
        for epsilon in (0.0, 0.5 * event.threshold, event.threshold, event.threshold + 0.5):
            bound = event.delta_at(epsilon)
            for pair in ((others + one, after), (after, others + one)):
                delta = exact_delta(*pair, epsilon, sigma, penalty, d)
                assert delta <= bound * 1.01 + 1e-7
                most = max(most, delta / bound)
    assert most > 0.3  # the cases have power


def test_summing_records_instead_of_averaging_them_breaks_it():
    mu, k = 0.6, 0.5
    event = PersonsObjectivePerturbation(1.0 / mu, k, "replace_one")
    epsilon, end = event.threshold + 0.5, np.array([1.0])
    rest = [(1.0, -end)] * 2

    def delta(weight):
        first, second = ([*rest, *[(weight, sign * end)] * 3] for sign in (1.0, -1.0))
        return exact_delta(first, second, epsilon, 1.0 / mu, 1.0 / k, 1)

    assert delta(1.0 / 3.0) <= event.delta_at(epsilon) < 0.5 * delta(1.0)


@pytest.mark.parametrize("length", [1.0, 2.0])
def test_the_path_adds_up_to_one_gaussian(length):
    """Shares at which all tests coincide: of a deletion, and of an addition before it."""
    rng, mu, epsilon = np.random.default_rng(0), 0.4, 1.3
    weights = rng.dirichlet(np.ones(6)) * length
    ends = mu * np.cumsum(weights)
    middle = ends - 0.5 * mu * weights
    shares = weights * (epsilon / length - 0.5 * length * mu**2 + mu * middle)
    assert shares.sum() == pytest.approx(epsilon)
    assert (shares / weights).min() >= epsilon / length - 0.5 * length * mu**2
    before = np.append(0.0, np.cumsum(shares)[:-1])
    steps = [gdp_delta(e, mu * a) for e, a in zip(shares, weights, strict=True)]
    assert np.exp(before) @ steps == pytest.approx(gdp_delta(epsilon, length * mu), rel=1e-9)


class TestTheEvent:
    def test_it_is_gaussian_from_the_threshold_on_and_no_better_below(self):
        event = PersonsObjectivePerturbation(1.0 / 0.134, 0.3, "replace_one")
        assert event.threshold == 0.6
        for epsilon in (0.6, 1.0, 2.0):
            assert event.delta_at(epsilon) == pytest.approx(gdp_delta(epsilon, 0.268), rel=1e-6)
        assert event.delta_at(0.3) > 2.0 * gdp_delta(0.3, 0.268)
        assert event.delta_at(0.0) == pytest.approx(0.268 * norm.pdf(0.0), rel=1e-6)
        deleted = PersonsObjectivePerturbation(1.0 / 0.268, 0.3, "zero_out")
        assert deleted.threshold == pytest.approx(0.3 + 0.5 * 0.268**2)
        assert event_from_dict(event.to_dict()) == event

    def test_releases_around_the_minimizer_are_paid_for(self):
        """Against the composition of the two by convolution, which is tighter."""
        alone = PersonsObjectivePerturbation(1.0 / 0.134, 0.3, "replace_one")
        both = PersonsObjectivePerturbation(1.0 / 0.134, 0.3, "replace_one", side_mu=0.08)
        tight = compose([alone, GaussianDP(0.08)])
        for epsilon in (0.8, 1.0, 1.2):
            assert gdp_delta(epsilon, math.hypot(0.268, 0.08)) * 0.999 <= tight.delta_at(epsilon)
            assert tight.delta_at(epsilon) <= both.delta_at(epsilon) * 1.001
        profile = both._profile(np.linspace(0.0, 3.0, 200))
        assert (np.diff(profile) <= 0.0).all()

    @pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
    def test_calibration_meets_the_budget_and_wastes_little(self, adjacency):
        event = calibrate_objective_of_persons(
            1.0, 1e-5, curvature=0.2, adjacency=adjacency, side_share=0.1
        )
        assert 0.98e-5 < event.delta_at(1.0) <= 1e-5
        moved = 2.0 if adjacency == "replace_one" else 1.0
        best = moved / (gdp_mu(1.0, 1e-5) * math.sqrt(0.9))
        assert best * 0.999 < event.noise_multiplier < best * 1.02
        with pytest.raises(CalibrationError, match="must be below"):
            calibrate_objective_of_persons(1.0, 1e-5, curvature=1.0, adjacency=adjacency)

    def test_pure_persons_cost_what_records_cost_where_the_determinant_is_free(self):
        settings = {"curvature": 0.4, "adjacency": "replace_one"}
        assert pure_objective_epsilon(2.0, **settings, unit="person") == pytest.approx(1.0)
        # below it the tangent at 0 is all that adds up: (k + A)^2 / (4 k)
        few = pure_objective_epsilon(5.0, **settings, unit="person")
        assert few == pytest.approx(0.2 + 0.6**2 / 1.6)
        assert few >= pure_objective_epsilon(5.0, **settings)
        three = pure_objective_epsilon(2.0, **settings, n_classes=3, unit="person")
        q = np.linspace(0.0, 1.0, 100001)
        assert three == pytest.approx(0.5 + (0.5 * q + 0.4 * (2 * q - 1.5 * q**2)).max())
