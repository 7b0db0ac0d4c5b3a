"""Private regressions by chains: exact forms, the claim on worst-case neighbors, coverage."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import softmax
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import HuberRegressor, PoissonRegressor

from skdpbayes import DPSGLDRegressor, PrivateBayesianRidge, models, privacy, randomness
from skdpbayes.estimators.chain.inference import (
    CountAnswers,
    ErrorAnswers,
    _mean_clipped,
    _normal_points,
)
from skdpbayes.estimators.chain.potential import CoefficientPrior
from skdpbayes.estimators.chain.regressor import _deviation, _mean_square
from skdpbayes.estimators.chain.run import Score
from skdpbayes.fitting.records import Block
from tests.audit_tools import gaussian_mu_lower_bound
from tests.estimators.test_chain_exact import check_equal_bits, table
from tests.estimators.test_replay import check_distances
from tests.replay import differing_state, replay

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

LOSSES = ("squared", "huber", "poisson")
BETA = np.array([0.6, -0.3, 0.4])


def line(n, seed, errors=1.0):
    """Rows of length at most 4 and a target within (-5, 5), up to one in a million."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ np.array([[1.0, 0.3, 0.0], [0.0, 0.95, 0.0], [0.0, 0.0, 1.0]])
    X *= np.minimum(1.0, 4.0 / np.linalg.norm(X, axis=1))[:, None]
    return X, 0.5 + X @ BETA + errors * rng.normal(size=n)


def make(epsilon=1.0, **params):
    bounds = (0, 20) if params.get("loss") == "poisson" else (-5, 5)
    return DPSGLDRegressor(epsilon, **{"data_norm": 4.0, "target_bounds": bounds, **params})


def counts(n, seed):
    X, y = line(n, seed, errors=0.0)
    return X, np.random.default_rng(seed + 99).poisson(np.exp(0.8 * y))


# Exact forms


def test_a_mean_of_clipped_errors_is_the_integral():
    value, slope = _mean_clipped(np.array([0.4]), np.array([1.0]))  # 0.1 and 0.25 over 0.25
    assert 0.25 * value[0] == pytest.approx(0.0669988526, abs=1e-10)
    assert slope[0] == pytest.approx(0.6449902230, abs=1e-10)

    def clipped(e):
        return np.clip(0.4 + e, -1.0, 1.0) * stats.norm.pdf(e)

    points = [-1.4, 0.6]
    assert value[0] == pytest.approx(integrate.quad(clipped, -9, 9, points=points)[0], abs=1e-9)
    score = Score(np.zeros((1, 1)), np.ones(1), np.zeros(1), 1.0, 1.0)
    answer = ErrorAnswers(0.25, math.inf).at_states(np.ones((1, 1)), score, 0.25, 0.0)
    expected, told, spread = (part.item() for part in answer(np.array([[-0.1]])))
    assert spread == pytest.approx(0.0322536594, abs=1e-10)
    assert (expected, told) == pytest.approx((0.0669988526, 0.6449902230), abs=1e-9)


def test_runs_of_states_answer_as_their_states_do():
    """A chain that starts far away and then fluctuates, against the mean over all its states."""
    rng = np.random.default_rng(0)
    drift = np.exp(-np.arange(100) / 8.0)[:, None] * np.array([2.0, -1.0])
    states = drift + 0.3 * rng.normal(size=(100, 2))
    score = Score(states, np.full(100, 0.01), np.zeros(2), 1.0, 0.01)
    rows, theta = rng.normal(size=(40, 2)) / math.sqrt(2.0), np.array([0.2, 0.1])
    answer = ErrorAnswers(1.1, math.inf).at_states(rows, score, 1.0, 0.0)
    expected, told, spread = (part.ravel() for part in answer((rows @ theta)[:, None]))
    bound = 1.0 / np.linalg.norm(rows, axis=1)[:, None]
    value, slope = _mean_clipped((rows @ (states - theta).T) / 1.1, bound / 1.1)
    np.testing.assert_allclose(expected, 1.1 * value.mean(axis=1), atol=0.003)
    np.testing.assert_allclose(told, slope.mean(axis=1), atol=0.003)
    # the variance of a mean over states, by drawn errors; that of single residuals is larger
    errors = 1.1 * stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    gaps = (rows @ (states - theta).T)[:, :, None] - errors
    answers = np.clip(gaps, -bound[:, None], bound[:, None]).mean(axis=1)
    ratio = spread / answers.var(axis=1)
    assert ratio.min() > 0.92
    assert ratio.max() < 1.1
    single = np.clip(gaps, -bound[:, None], bound[:, None]).var(axis=(1, 2))
    assert np.max(single / answers.var(axis=1)) > 1.3


@pytest.mark.parametrize("cap", [12.0, 900.0])
def test_counts_answer_as_sums_over_all_counts_do(cap):
    """Mean, slope and variance of clipped residuals, by plain sums; the cap cuts counts and rates.

    Beyond 256 counts some are taken together.
    """
    rng = np.random.default_rng(0)
    states, rows = 0.4 * rng.normal(size=(20, 2)), rng.normal(size=(15, 2))
    weights = rng.random(20)
    weights /= weights.sum()
    loss = models.PoissonLoss(cap, 0.3 * cap)
    score = Score(states, weights, np.zeros(2), 1.0, 0.1)
    clip, theta = 0.2 * cap, np.array([0.5, -0.2])
    found = CountAnswers(loss).at_states(rows, score, clip, 0.05)((rows @ theta)[:, None])
    every = np.arange(4 * cap)
    bound = clip / np.linalg.norm(rows, axis=1)[:, None]
    gaps = loss.mean(rows @ states.T)[:, :, None] - np.minimum(every, cap)
    clipped = np.clip(gaps, -bound[:, None], bound[:, None])
    residuals = np.einsum("t,itc->ic", weights, clipped)
    squares = np.einsum("t,itc->ic", weights, clipped**2)

    def mean(shift, table):
        rate = loss.mean(rows @ theta + shift)[:, None]
        return np.sum(stats.poisson.pmf(every, rate) * table, axis=1)

    close = {"rtol": 0.01, "atol": 0.001 * cap}
    np.testing.assert_allclose(found.mean[:, 0], mean(0.0, residuals), **close)
    slope = (mean(-1e-5, residuals) - mean(1e-5, residuals)) / 2e-5
    np.testing.assert_allclose(found.slope[:, 0, 0], slope, **close)
    variance = mean(0.0, residuals**2) - mean(0.0, residuals) ** 2 + 0.05 * mean(0.0, squares)
    np.testing.assert_allclose(found.variance[:, 0, 0], variance, rtol=0.03, atol=1e-4 * cap)


@pytest.mark.parametrize("deviation", [0.05, 0.4, 1.0, 3.0])
def test_scales_of_errors_are_inverted(deviation):
    def at_most(e, power, width):
        return min(abs(e), width) ** power * stats.norm.pdf(e)

    ends = {"points": [-1.0 / deviation, 1.0 / deviation]} if deviation > 0.1 else {}
    share = deviation * integrate.quad(at_most, -12, 12, (1, 1.0 / deviation), **ends)[0]
    assert _deviation(share) == pytest.approx(deviation, rel=1e-6)
    square = integrate.quad(at_most, -12, 12, (2, deviation), points=[-deviation, deviation])[0]
    assert _mean_square(deviation) == pytest.approx(square, rel=1e-7)
    assert _mean_square(math.inf) == 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_sums_of_absolute_errors(form):
    X, y = line(3000, 0)
    theta, grid = np.array([[0.5, -0.2, 0.1, 0.3]]), models.Grid(3000, 4.0)
    loss = models.SquaredLoss(9.0)
    total = models.absolute_errors(Block(form(X), y), theta, loss, 2.0, grid)
    plain = np.minimum(np.abs(X @ theta[0, :3] + 0.3 - y), 2.0).sum()
    assert models.read_errors(total, 2.0, grid) == pytest.approx(plain, rel=1e-5)
    parts = [
        models.absolute_errors(Block(form(X[i::3]), y[i::3]), theta, loss, 2.0, grid)
        for i in range(3)
    ]
    assert np.array_equal(sum(parts), total)
    far = models.absolute_errors(Block(form(X), y), 1e90 * theta, loss, 2.0, grid)
    assert models.read_errors(far, 2.0, grid) <= 2.0 * 3000


@pytest.mark.parametrize(
    ("loss", "target"),
    [
        (models.HuberLoss(1.3, 4.0), 0.5),
        (models.SquaredLoss(4.0), 0.5),
        (models.LogisticLoss(), 1.0),
    ],
)
def test_mean_curvature_is_the_average_over_normal_logits(loss, target):
    z, variance = np.array([[0.8]]), np.array([0.5])

    def second(logit):
        out = np.zeros((1, 1))
        loss.pointwise(np.array([[logit]]), np.array([target]), np.empty((0, 0)), out)
        return out[0, 0] * stats.norm.pdf(logit, 0.8, math.sqrt(0.5))

    exact = integrate.quad(second, -6, 8, points=[-0.8, 1.8])[0]
    found = loss.mean_curvature(z, np.array([target]), variance)[0]
    assert found == pytest.approx(
        exact, rel=0.03 if isinstance(loss, models.LogisticLoss) else 1e-6
    )


def test_the_base_of_a_rate_is_an_intercept():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(50, 1)), rng.poisson(2.0, 50).astype(float)
    shifted = models.PoissonLoss(7.0, 3.0)
    plain = models.PoissonLoss(7.0)
    found = []
    for loss, logits in ((shifted, z), (plain, z + math.log(3.0))):
        residual, value, second = logits.copy(), np.empty((50, 1)), np.empty((50, 1))
        loss.pointwise(residual, y, value, second)
        found.append((residual, second, loss.mean(logits)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    h = 1e-6
    ends = []
    for sign in (-1.0, 1.0):
        value = np.empty((50, 1))
        shifted.pointwise(z + sign * h, y, value, np.empty((0, 0)))
        ends.append(value)
    np.testing.assert_allclose((ends[1] - ends[0]) / (2 * h), found[0][0], atol=1e-5)
    # facts are bounds of what the kernel returns
    for largest in (0.3, 2.0):
        logits = np.repeat(np.linspace(-largest, largest, 201)[:, None], 8, axis=0)
        target = np.tile(np.arange(8.0), 201)
        value = np.empty(logits.shape)
        shifted.pointwise(logits, target, value, np.empty((0, 0)))
        assert 0.99 * shifted.slope_within(largest) <= np.abs(logits).max()
        assert np.abs(logits).max() <= shifted.slope_within(largest)
        spans = np.ptp(value.reshape(201, 8), axis=0)
        assert 0.99 * shifted.range(largest) <= spans.max() <= shifted.range(largest)


def test_without_privacy_huber_and_poisson_are_the_ordinary_models():
    X, y = line(2000, 0)
    y[::20] += 30.0  # one in twenty is far off, and beyond the bounds
    huber = make(np.inf, loss="huber", prior_scale=1e3, random_state=0).fit(X, y)
    plain = HuberRegressor(epsilon=1.345, alpha=0.0).fit(X, y)
    np.testing.assert_allclose(huber.coef_, plain.coef_, atol=0.05)
    squared = make(np.inf, prior_scale=1e3, random_state=0).fit(X, y)
    assert np.abs(squared.intercept_ - plain.intercept_) > 1.0
    assert huber.noise_variance_ < 0.1 * squared.noise_variance_
    X, y = counts(2000, 0)
    poisson = make(np.inf, loss="poisson", prior_scale=1e3, random_state=0).fit(X, y)
    plain = PoissonRegressor(alpha=0.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(poisson.coef_, plain.coef_, atol=0.01)
    assert poisson.intercept_ == pytest.approx(plain.intercept_, abs=0.01)
    # the states spread by the inverse Fisher information
    rows = np.column_stack([X, np.ones(len(X))])
    information = (rows * plain.predict(X)[:, None]).T @ rows
    draws = poisson.sample_posterior()
    thetas = np.column_stack([draws["coef"], draws["intercept"]])
    thetas -= np.append(plain.coef_, plain.intercept_)
    assert 0.6 < np.einsum("ij,jk,ik->i", thetas, information, thetas).mean() / 4 < 1.6
    mean, deviation = poisson.predict(X, return_std=True)
    np.testing.assert_allclose(deviation, np.sqrt(mean), rtol=0.02)


# The claim


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"fit_intercept": False},
        {"preconditioner": None},
        {"batch_size": 150, "sampler": "sgnht"},
    ],
)
def test_replay_on_a_record_at_the_bounds(loss, adjacency, params):
    """A record at the corner, its target at either end, against another or a null record."""
    X, y = counts(300, 1) if loss == "poisson" else line(300, 1)
    low = 0.0 if loss == "poisson" else -5.0
    tables = []
    for row, target in (([9.0, 0.0, 0.0], 1e3), ([0.0, -4.0, 0.0], low)):
        rows, targets = X.copy(), np.array(y, dtype=float)
        rows[7], targets[7] = row, target
        tables.append((rows, targets))

    def build():
        return make(3.0, loss=loss, adjacency=adjacency, n_steps=12, random_state=5, **params)

    first, second, tape = replay(build, *tables)
    assert differing_state(first, second) == set()
    check_distances(first, tape, "replace_one")  # the pair replaces a record
    places = [place.place for place in tape.distances]
    assert places.count("clipped sum") == 12
    assert places.count("release_gaussian L2") == (
        1 if params.get("preconditioner", 1) is None else 2
    )
    assert max(place.distance for place in tape.distances if place.place == "clipped sum") > 0.5


def first_states(record, target, seeds, **params):
    """First states of chains on two rows, of which the second is the record (or blank)."""
    X, y = np.zeros((2, 2)), np.zeros(2)
    X[1], y[1] = record, target
    fixed = {"fit_intercept": False, "preconditioner": None, "n_steps": 1, "step_size": 1e3}
    fixed |= {"tail": 1.0, "adjacency": "zero_out", "target_bounds": (-1, 1)}
    states = []
    for seed in seeds:
        model = DPSGLDRegressor(4.0, **fixed | params, random_state=seed).fit(X, y)
        states.append(model.sample_posterior(posterior="chain")["coef"][0, 0] / 250.0)
    return np.array(states)


def audit():
    """Lower bound on the mu of one noisy step: a record at the end of its bounds, or none."""
    without = first_states([0.0, 0.0], 0.0, range(450))
    present = first_states([1.0, 0.0], 1.0, range(450, 900))
    return gaussian_mu_lower_bound(without, present, 0.5)


def test_a_step_is_as_private_as_claimed_and_not_much_more():
    claimed = privacy.gdp_mu(4.0, 1e-5)
    assert 0.5 * claimed < audit() <= claimed


def test_half_the_noise_is_caught(monkeypatch):
    exact = randomness.discrete_gaussian
    monkeypatch.setattr(randomness, "discrete_gaussian", lambda *arguments: exact(*arguments) // 2)
    assert audit() > privacy.gdp_mu(4.0, 1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_plan_claims_no_more_than_the_budget(loss):
    for adjacency in ("replace_one", "zero_out"):
        for preconditioner in ("auto", 0.9, None):
            model = make(0.7, loss=loss, adjacency=adjacency, preconditioner=preconditioner)
            plan = model.plan(3000, 3)
            event = plan.plan.event
            assert 0.98 * 0.7 < event.epsilon_at(1e-5) <= 0.7 * (1 + 1e-9)
            # everything that is released is in it: scale, chain and, where asked for, moments
            chain = plan.plan.linear.chain
            gaussians = len(chain.setup)
            assert gaussians == (1 if preconditioner is None else 2)
            steps = math.sqrt(chain.n_steps) / chain.noise_multiplier
            steps *= 2.0 if adjacency == "replace_one" else 1.0
            total = math.hypot(steps, *(part.mu for part in chain.setup))
            assert total == pytest.approx(privacy.gdp_mu(0.7, 1e-5), rel=1e-6)


@pytest.mark.parametrize("params", [{}, {"loss": "huber", "batch_size": 100}, {"loss": "poisson"}])
def test_the_release_has_the_same_bits_for_any_order_blocks_storage_and_threads(
    params, monkeypatch
):
    X, _ = table(2)
    y = np.random.default_rng(3).poisson(2.0 + X[:, 0]).astype(float)
    params = {"target_bounds": (0, 9), "n_steps": 30, "random_state": 0, **params}
    check_equal_bits(
        lambda: DPSGLDRegressor(**params), X, y, monkeypatch, "batch_size" not in params
    )


# What it is good for


def test_coefficients_and_intervals_are_honest():
    """Coverage within chance of 90 % or above it, and errors far below those of moments."""
    covered, chain, moments = [], [], []
    for seed in range(25):
        X, y = line(2000, seed)
        fitted = make(1.0, random_state=seed).fit(X, y)
        low, high = fitted.interval(0.9)["coef"].T
        covered.append((low < BETA) & (high > BETA))
        chain.append(fitted.coef_ - BETA)
        ridge = PrivateBayesianRidge(1.0, data_norm=4.0, target_bounds=(-5, 5), random_state=seed)
        moments.append(ridge.fit(X, y).coef_ - BETA)
        assert 0.8 < fitted.noise_variance_ < 1.25
    assert np.mean(covered) > 0.80
    # an interval is no wider than a few times what the errors are
    assert np.mean(high - low) < 6.0 * np.std(chain)
    assert np.std(chain) < 0.6 * np.std(moments)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_intervals_of_counts_cover(adjacency):
    """On both sides: 100 coefficients; clipping at one deviation of a count is undone."""
    truth, inside, errors = np.append(0.8 * BETA, 0.4), [], []
    for seed in range(25):
        X, y = counts(3000, seed)
        model = make(2.0, loss="poisson", adjacency=adjacency, clip_norm=1.0, random_state=seed)
        found = model.fit(X, y).interval(0.9)
        low, high = np.concatenate([found["coef"], found["intercept"][None]]).T
        inside.append((low < truth) & (truth < high))
        errors.append([model.intercept_ - 0.4, 0.5 * (low + high)[-1] - 0.4])
    assert 0.82 < np.mean(inside) < 0.97
    of_chain, of_center = np.abs(np.mean(errors, axis=0))
    assert of_center < 0.3 * of_chain


def test_the_clip_rises_and_steps_are_saved_where_noise_is_small():
    """By public numbers alone: the plan tells."""
    shown = [
        DPSGLDRegressor(epsilon, target_bounds=(0, 1)).plan(n, 10)
        for n, epsilon in ((1000, 0.1), (10_000, 0.2), (60_000, 1.0), (10**6, 5.0))
    ]
    clips = [plan.numbers["clip_norm_"] for plan in shown]
    assert clips[:2] == [0.25, 1.0]
    assert 1.5 < clips[2] < clips[3] <= 3.0
    assert [plan.numbers["n_steps_"] for plan in shown] == [100, 100, 40, 40]


def test_a_learned_prior_is_the_average_over_priors():
    """Against the same solved anew for each prior, and their densities by scipy."""
    X, y = line(3000, 0)
    model = make(0.4, random_state=0).fit(X, y)
    equation = model._posterior.chain.inference
    flat = CoefficientPrior(1e-6, math.inf, 1e-6, math.inf)
    belief = np.append(np.full(3, equation.prior.precision), equation.prior.of_intercept)
    mean, covariance = _solved(replace(equation, prior=flat))
    logs, means = [], []
    for k in range(15):
        spread = np.diag(1.0 / (belief * np.append(np.full(3, 2.0**k), 1.0)))
        logs.append(stats.multivariate_normal.logpdf(mean, np.zeros(4), covariance + spread))
        means.append(spread @ np.linalg.solve(covariance + spread, mean))
    expected = softmax(logs) @ np.array(means)
    np.testing.assert_allclose(equation.center(), expected, rtol=0.02, atol=0.01)
    # the release tells of itself where it is clear, and of the prior where it is not
    plain = replace(equation, learned_prior=False)
    assert np.linalg.norm(expected) < np.linalg.norm(plain.center())
    mixtures = equation.posterior(), plain.posterior()
    widths = [found.quantiles(0.95) - found.quantiles(0.05) for found in mixtures]
    np.testing.assert_allclose(*widths, rtol=0.1)
    given = make(0.4, prior_scale=(0.25, 1.0), random_state=0).fit(X, y)
    np.testing.assert_allclose(
        given.coef_, given._posterior.unit * given._posterior.chain.inference.center()[:3]
    )


def _solved(equation):
    points = _normal_points(equation.coordinates.center.shape[0])
    score, lift = equation._contrasted(), equation._lift()
    start = score.weights @ score.states
    theta, covariance = equation._solve(
        equation._design(points, None), score, start, equation._precision()
    )
    return theta @ lift, lift.T @ covariance @ lift


def test_no_intervals_where_they_are_not_known():
    X, y = line(100, 0)
    with pytest.raises(AttributeError) as refused:
        make(0.01, random_state=0).fit(X, y).interval()
    assert "more of them or a larger epsilon" in str(refused.value.__cause__) or (
        "released no moments" in str(refused.value.__cause__)
    )


def test_transformed_targets():
    X, y = line(1000, 0)
    model = TransformedTargetRegressor(make(5.0, random_state=0), func=np.log, inverse_func=np.exp)
    assert np.corrcoef(np.log(model.fit(X, np.exp(y)).predict(X)), y)[0, 1] > 0.5


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"target_bounds": None}, "target_bounds is required"),
        ({"target_bounds": (1, -1)}, "low < high"),
        ({"loss": "absolute"}, "loss"),
        ({"loss": "poisson", "target_bounds": (-1, 5)}, "must not be negative"),
        ({"delta": 0.0}, "delta"),
        ({"prior": "laplace"}, "prior"),
    ],
)
def test_mistakes_are_found_with_and_without_data(params, message):
    X, y = line(50, 0)
    with pytest.raises(ValueError, match=message):
        make(**params).fit(X, np.abs(y))
    with pytest.raises(ValueError, match=message):
        make(**params).plan(50, 3)


def test_negative_counts_are_refused():
    X, y = line(50, 0)
    with pytest.raises(ValueError, match="no counts"):
        make(loss="poisson").fit(X, y)


def test_what_the_rows_cannot_tell_has_the_width_of_the_prior():
    """A constant column beside the intercept: their sum is known, each alone is not."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (8000, 2)) / 2, np.full(8000, 0.5)])
    y = 2.0 * X[:, 0] + 0.3 * rng.normal(size=8000)
    model = DPSGLDRegressor(1.0, prior_scale=1.0, target_bounds=(-2, 2), random_state=0).fit(X, y)
    low, high = model.interval(0.9)["coef"].T
    assert high[0] - low[0] < 0.3
    assert 5.0 < high[2] - low[2] < 7.0  # under the prior, given the sum: 5.9
    draws = model.sample_posterior(2000, random_state=0)
    known = 0.5 * draws["coef"][:, 2] + draws["intercept"]
    assert known.std() < 0.15 * draws["coef"][:, 2].std()
