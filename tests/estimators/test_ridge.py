"""PrivateBayesianRidge: exact sums, bounded records, intervals that cover, mistakes caught."""

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    BoundsScaler,
    PrivacyLedger,
    PrivateBayesianRidge,
    private_preprocessor,
)
from skdpbayes.estimators.ridge import estimator as ridge
from skdpbayes.estimators.ridge.plan import exact_moments, pack, unpack, weights
from skdpbayes.fitting import bounds, records
from skdpbayes.privacy.sensitivity import moment_moves
from tests.estimators.test_replay import check_distances
from tests.replay import replay

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


def line(n=500, d=3, seed=0, length=1.0):
    rng = np.random.default_rng(seed)
    X = length * rng.uniform(-1, 1, (n, d)) / np.sqrt(d)
    y = 20.0 + X @ np.linspace(8.0, -4.0, d) / length + rng.normal(size=n)
    return X, y


def model(**params):
    return PrivateBayesianRidge(**{"target_bounds": (10.0, 30.0), "random_state": 0, **params})


# exact sums


def test_sums_are_exact_whatever_the_blocks_and_the_order(monkeypatch):
    X, y = line(3000)
    whole = model().fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = model().fit(X[order], y[order])
    monkeypatch.setattr(records, "BLOCK_BYTES", 1000)
    blocked = model().fit(X, y)
    table = model().fit(sparse.csr_matrix(X), y)
    for other in (shuffled, blocked, table):
        np.testing.assert_array_equal(other.moments_, whole.moments_)
        np.testing.assert_array_equal(other.coef_, whole.coef_)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sums_are_those_of_the_bounded_rows_cut_to_the_grid(fit_intercept):
    """Against Python's integers; 0.9 takes 20 bits of 2^-20, and the target of 2^-20."""
    X, y = line(40)
    estimator = model(fit_intercept=fit_intercept, data_norm=0.9)
    rows = estimator._read(X, y)
    found = exact_moments(rows, estimator.plan(40, 3).plan)
    block = rows.block()
    unit = 2**20
    total = 0
    for x, target in zip(block.X, block.target, strict=True):
        whole = [int(Fraction(float(v)) * unit) for v in (*x, target)]  # int() cuts toward zero
        z = [unit] * fit_intercept + whole
        total = total + np.array([[a * b for b in z] for a in z], dtype=object)
    norms = np.array([1.0] * fit_intercept + [0.9] * 3 + [1.0])
    expected = (total / unit**2).astype(float) / np.outer(norms, norms)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_packing_is_inverted_and_keeps_lengths():
    rng = np.random.default_rng(0)
    z = np.append(1.0, rng.normal(size=4))
    weight = weights(3, True)
    np.testing.assert_allclose(
        unpack(pack(np.outer(z, z), weight), weight, 1), np.outer(z, z), rtol=1e-12
    )
    x, y = z[1:-1], z[-1]
    length = np.sum(0.25 * x**2) + (x @ x) ** 2 + y**2 / 8 + y**2 * x @ x + y**4 / 4
    assert np.sum(pack(np.outer(z, z), weight) ** 2) == pytest.approx(length)


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("data_norm", [1.0, 0.3, 7.7])
def test_records_on_the_grid_stay_within_the_sensitivity(adjacency, data_norm):
    """Rows at the bound, and targets at and beyond the ends of theirs."""
    rng = np.random.default_rng(0)
    estimator = model(adjacency=adjacency, data_norm=data_norm)
    plan = estimator.plan(1, 2).plan
    weight = weights(2, True)
    angles = rng.uniform(0, 2 * np.pi, 300)
    rows = data_norm * np.column_stack([np.cos(angles), np.sin(angles)])
    targets = rng.choice([10.0, 30.0, 1e9, -1e9, 20.0], 300)
    moved = []
    for row, target in zip(rows, targets, strict=True):
        moments = exact_moments(estimator._read(row[None], [target]), plan)
        assert moments[1, 1] + moments[2, 2] <= 1.0 + 1e-14
        moved.append(pack(moments, weight))
    moved = np.array(moved)
    others = moved if adjacency == "replace_one" else np.zeros((1, moved.shape[1]))
    gaps = moved[:, None] - others[None]
    l1, l2 = moment_moves(2, adjacency, of_x=0.5, of_y=np.sqrt(0.125), of_xy=1.0, of_yy=0.5)
    assert np.linalg.norm(gaps, axis=2).max() <= l2 * (1 + 1e-12)
    assert np.linalg.norm(gaps, axis=2).max() >= 0.98 * l2
    assert np.abs(gaps).sum(axis=2).max() <= l1 * (1 + 1e-12)
    # and the noise is that of the claim
    assert plan.noise.scale > l2 / plan.event.mu
    assert plan.noise.scale <= l2 / plan.event.mu * (1 + 1e-6)


# mistakes


class OtherAdjacency(PrivateBayesianRidge):
    """Takes the sensitivity of a deletion for that of a replacement."""

    def _plan(self, public, budget):
        return super()._plan(public, dataclasses.replace(budget, adjacency="zero_out"))


class Unbounded(PrivateBayesianRidge):
    def _bound(self):
        return bounds.Bound()


FIRST = (np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.0]))
SECOND = (np.array([[0.375, 0.927], [0.0, 0.0]]), np.array([-1.0, 0.0]))
FAR = (np.array([[3.0, 0.0], [0.0, 0.0]]), np.array([1.0, 0.0]))


def replayed(make, data=FIRST, **params):
    params = {"target_bounds": (-1.0, 1.0), "posterior": "naive", "random_state": 0, **params}
    fitted, _, tape = replay(lambda: make(**params), data, SECOND)
    check_distances(fitted, tape, "replace_one")


@pytest.mark.parametrize("delta", [1e-3, 0.0])
def test_the_exact_distance_is_within_the_claim_and_mistakes_are_not(delta, monkeypatch):
    replayed(PrivateBayesianRidge, delta=delta)
    replayed(PrivateBayesianRidge, FAR, delta=delta)
    with pytest.raises(AssertionError):
        replayed(OtherAdjacency, delta=delta)
    with pytest.raises(AssertionError):
        replayed(Unbounded, FAR, delta=delta)
    honest = ridge.plan_release

    def halved(*args, **kwargs):
        plan = honest(*args, **kwargs)
        noise = dataclasses.replace(plan.noise, scale=0.5 * plan.noise.scale)
        return dataclasses.replace(plan, noise=noise)

    monkeypatch.setattr(ridge, "plan_release", halved)
    with pytest.raises(AssertionError):
        replayed(PrivateBayesianRidge, delta=delta)


# statistics


@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_the_noise_has_the_scale_that_was_planned(delta):
    """Two-sided: 2/3 and 3/2 of the scale would be seen."""
    X, y = line(50)
    exact = model(epsilon=np.inf).fit(X, y).moments_
    weight = weights(3, True)
    fits = [model(delta=delta, posterior="naive", random_state=s).fit(X, y) for s in range(60)]
    noise = np.array([pack(fitted.moments_ - exact, weight) for fitted in fits])
    deviation = fits[0].noise_[0].deviation
    # 60 fits of 14 entries: the standard error is 2.5 % (Gaussian), 3.9 % (Laplace)
    assert 0.83 < noise.std() / deviation < 1.17
    assert np.all(noise.std(axis=0) / deviation < 1.6)
    assert np.all(noise.std(axis=0) / deviation > 0.5)
    assert abs(noise.mean()) < 0.2 * deviation


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_intervals_cover(adjacency):
    """Truth from the prior; 160 parameters, so that chance stays within 0.09 (3.8 deviations)."""
    covered = {"noise_aware": [], "naive": []}
    rng = np.random.default_rng(0)
    for seed in range(40):
        X = rng.normal(size=(1500, 4))
        X *= np.minimum(1.0, 3.0 / np.linalg.norm(X, axis=1))[:, None] / 3.0
        beta = 0.25 * rng.normal(size=4)
        y = X @ beta + 0.2 * rng.normal(size=1500)
        for posterior, hits in covered.items():
            fitted = PrivateBayesianRidge(
                adjacency=adjacency,
                target_bounds=(-1, 1),
                prior_scale=0.25,
                posterior=posterior,
                random_state=seed,
            ).fit(X, y)
            low, high = fitted.interval(0.9)["coef"].T
            hits.append((low < beta) & (beta < high))
    assert 0.81 < np.mean(covered["noise_aware"]) < 0.99
    assert np.mean(covered["naive"]) < 0.75


def test_much_noise_leaves_the_prior_and_little_noise_the_ordinary_posterior():
    X, y = line(400)
    hidden = model(epsilon=0.001).fit(X, y).sample_posterior(4000, random_state=1)["coef"]
    assert np.all(np.abs(hidden.mean(axis=0)) < 3.0)  # the prior: deviation 10 half-ranges
    np.testing.assert_allclose(hidden.std(axis=0), 10.0, rtol=0.15)
    mean, deviation = model(epsilon=0.001).fit(X, y).predict(np.zeros((1, 3)), return_std=True)
    assert 10.0 < mean[0] < 30.0  # the bounds of the target
    assert deviation[0] < 20.0
    near, plain = model(epsilon=1e6).fit(X, y), model(epsilon=np.inf).fit(X, y)
    np.testing.assert_allclose(near.coef_, plain.coef_, atol=0.2)
    aware, ordinary = (
        fitted.sample_posterior(4000, random_state=1)["coef"].std(axis=0)
        for fitted in (near, plain)
    )
    np.testing.assert_allclose(aware, ordinary, rtol=0.15)


# without privacy


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_privacy_rows_are_taken_as_they_are(table, fit_intercept):
    """Rows 20 times longer than data_norm and targets outside their bounds: still Ridge."""
    X, y = line(300, length=20.0)
    half = 3.0 if fit_intercept else 22.0
    fitted = model(
        epsilon=np.inf, target_bounds=(16, 22), data_norm=2.0, fit_intercept=fit_intercept
    ).fit(table(X), y)
    alpha = fitted.noise_variance_ * (2.0 / half) ** 2
    plain = Ridge(alpha, fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, plain.coef_, rtol=1e-7)
    np.testing.assert_allclose(fitted.predict(table(X)), plain.predict(X), rtol=1e-7)


def test_without_privacy_it_is_scikit_learns_bayesian_ridge_with_its_prior():
    X, y = line(2000)
    plain = BayesianRidge().fit(X, y)
    scale = plain.lambda_**-0.5 / 10.0  # half of the target's range
    fitted = model(epsilon=np.inf, prior_scale=scale).fit(X, y)
    np.testing.assert_allclose(fitted.coef_, plain.coef_, rtol=1e-4)
    assert fitted.noise_variance_ == pytest.approx(1.0 / plain.alpha_, rel=0.01)
    for ours, theirs in zip(
        fitted.predict(X, return_std=True), plain.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0.01)
    draws = fitted.sample_posterior(4000, random_state=0)["coef"]
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(np.diag(plain.sigma_)), rtol=0.06)


# what users meet


def test_predictions_bound_rows_as_fit_does():
    X, y = line(500)
    fitted = model().fit(X, y)
    direction = X[:1] / np.linalg.norm(X[0])
    for table in (np.asarray, sparse.csr_matrix):
        at_bound = fitted.predict(table(direction), return_std=True)
        beyond = fitted.predict(table(1000.0 * direction), return_std=True)
        np.testing.assert_allclose(at_bound, beyond, rtol=1e-9)
    np.testing.assert_array_equal(
        model().fit(np.vstack([X, 9.0 * direction]), np.append(y, 1e6)).moments_,
        model().fit(np.vstack([X, bounds.Bound(1.0)(9.0 * direction)]), np.append(y, 30)).moments_,
    )


def test_predictions_come_in_blocks(monkeypatch):
    X, y = line(500)
    fitted = model().fit(X, y)
    whole = fitted.predict(X, return_std=True)
    monkeypatch.setattr("skdpbayes.fitting.records.PREDICTED_AT_ONCE", 100)
    np.testing.assert_allclose(fitted.predict(X, return_std=True), whole, rtol=1e-12)
    blocks = fitted.predict(sparse.csr_matrix(X), return_std=True)
    np.testing.assert_allclose(blocks, whole, rtol=1e-12)


def test_parameters_changed_after_fit_change_nothing():
    X, y = line(500)
    fitted = model().fit(X, y)
    before = fitted.predict(X, return_std=True), fitted.interval()["coef"]
    fitted.set_params(
        target_bounds=(0, 1), data_norm=9.0, prior_scale=7.0, fit_intercept=False, posterior="naive"
    )
    np.testing.assert_array_equal(fitted.predict(X, return_std=True), before[0])
    np.testing.assert_array_equal(fitted.interval()["coef"], before[1])


def test_draws_are_deterministic_given_their_seed_and_not_the_noise_again():
    X, y = line(500)
    fitted = model(random_state=3).fit(X, y)
    one, again = (fitted.sample_posterior(50, random_state=3) for _ in range(2))
    for name in ("coef", "intercept", "noise_variance"):
        np.testing.assert_array_equal(one[name], again[name])
        assert len(one[name]) == 50
    assert not np.array_equal(one["coef"], fitted.sample_posterior(50, random_state=4)["coef"])
    many = fitted.sample_posterior(4000, random_state=5)
    np.testing.assert_allclose(
        many["coef"].mean(axis=0), fitted.coef_, atol=0.25 * many["coef"].std()
    )


def test_pipelines_from_public_bounds():
    rng = np.random.default_rng(0)
    n = 20_000
    frame = pd.DataFrame({"age": rng.uniform(20, 80, n), "kind": rng.choice(["a", "b", "c"], n)})
    y = 0.5 * frame["age"] + 10.0 * (frame["kind"] == "a") + rng.normal(0, 5, n)
    for sparse_output in (False, True):
        prepare = private_preprocessor(
            bounds={"age": (18, 90)},
            categories={"kind": ["a", "b", "c"]},
            sparse_output=sparse_output,
        )
        fitted = make_pipeline(prepare, model(target_bounds=(0, 70))).fit(frame, y)
        assert fitted.score(frame, y) > 0.7
        mean, deviation = fitted.predict(frame[:5], return_std=True)
        assert mean.shape == deviation.shape == (5,)
    numbers = frame[["age"]]
    scaled = make_pipeline(
        BoundsScaler({"age": (18, 90)}, norm=1.0), model(target_bounds=(0, 70))
    ).fit(numbers, y)
    assert scaled.score(numbers, y) > 0.5


def test_a_transformed_target():
    X, y = line(20_000)
    logs = TransformedTargetRegressor(
        model(target_bounds=(np.log(10), np.log(30))), func=np.log, inverse_func=np.exp
    ).fit(X, y)
    assert logs.score(X, y) > 0.8
    assert logs.regressor_.privacy_.epsilon == 1.0


def test_a_constant_column_and_a_single_record_are_no_trouble():
    X, y = line(300)
    X[:, 1] = 0.0
    for params in ({}, {"posterior": "naive"}, {"epsilon": np.inf}):
        fitted = model(**params).fit(X, y)
        assert np.all(np.isfinite(fitted.predict(X, return_std=True)))
        alone = model(**params).fit(X[:1], y[:1])
        assert np.all(np.isfinite(alone.predict(X, return_std=True)))


@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_without_privacy_bounds_far_from_the_targets_are_no_trouble(scale):
    X, y = line(300)
    params = {"epsilon": np.inf, "target_bounds": (-scale, scale)}
    fitted = model(**params).fit(X, y)
    alpha = fitted.noise_variance_ / scale**2
    np.testing.assert_allclose(fitted.coef_, Ridge(alpha).fit(X, y).coef_, rtol=1e-7)
    assert 0.8 < fitted.noise_variance_ < 1.2 or scale < 1.0  # there the prior has one slope: 0
    same = model(**params).fit(X, np.full(300, 20.0))
    np.testing.assert_allclose(same.predict(X), 20.0)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"target_bounds": None}, "target_bounds is required"),
        ({"target_bounds": (30, 10)}, "low < high"),
        ({"target_bounds": (10, 10)}, "low < high"),
        ({"target_bounds": (0, np.inf)}, "finite"),
        ({"target_bounds": (0, np.nan)}, "finite"),
        ({"target_bounds": 3}, "pair of numbers"),
        ({"target_bounds": "auto"}, "pair of numbers"),
        ({"data_norm": 0.0}, "data_norm"),
        ({"prior_scale": -1.0}, "prior_scale"),
        ({"posterior": "exact"}, "posterior"),
        ({"fit_intercept": "yes"}, "fit_intercept"),
    ],
)
def test_mistakes_are_named_before_the_ledger_is_charged(params, message, tmp_path):
    X, y = line(50)
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0, delta=1e-3)
    with pytest.raises((ValueError, TypeError), match=message):
        model(ledger=ledger, **params).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=message):
        model(**params).plan(50, 3)
    assert ledger.entries() == []


def test_bad_tables_are_refused_before_the_ledger_is_charged(tmp_path):
    X, y = line(50)
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0, delta=1e-3)
    estimator = model(ledger=ledger)
    for rows, targets in (
        (X, np.where(np.arange(50) == 3, np.nan, y)),
        (np.where(np.arange(50)[:, None] == 3, np.nan, X), y),
        (X, y[:-1]),
        (X, np.column_stack([y, y])),
        (np.zeros((50, 1001)), y),
    ):
        with pytest.raises(ValueError, match=r"NaN|inconsistent|1d array|1001 columns"):
            estimator.fit(rows, targets)
    assert ledger.entries() == []
    assert not hasattr(estimator, "coef_")


def test_a_plan_tells_the_claim_and_the_noise_of_the_fit():
    X, y = line(500)
    planned = model().plan(500, 3)
    fitted = model().fit(X, y)
    assert planned.numbers["noise_"] == fitted.noise_
    assert planned.privacy == fitted.privacy_
    assert "noise" in str(planned)
    assert fitted.noise_[0].scale == pytest.approx(2.2980970389 * 3.73063163, rel=1e-6)
    pure = model(delta=0.0).fit(X, y)
    assert pure.noise_[0].law == "laplace"
    assert pure.privacy_.delta == 0.0
    assert pure.privacy_.conditions == ()


# shards


@pytest.mark.parametrize("posterior", ["noise_aware", "naive"])
def test_merged_shards_are_the_sum_of_their_releases(posterior):
    X, y = line(3000)
    parts = [
        model(random_state=seed, posterior=posterior).fit(X[rows], y[rows])
        for seed, rows in enumerate((slice(0, 1000), slice(1000, 3000)))
    ]
    merged = parts[0].merge(parts[1])
    np.testing.assert_allclose(merged.moments_, parts[0].moments_ + parts[1].moments_, rtol=1e-12)
    assert merged.moments_[0, 0] == 3000
    assert merged.noise_ == parts[0].noise_ + parts[1].noise_
    assert (merged.privacy_.epsilon, merged.privacy_.delta) == (1.0, 1e-5)
    assert "disjoint" not in parts[0].privacy_.conditions
    assert any("more than one" in text for text in merged.privacy_.conditions)
    three = merged.merge(model(random_state=7, posterior=posterior).fit(X[:500], y[:500]))
    assert len(three.noise_) == 3
    np.testing.assert_array_equal(parts[0].merge(parts[1]).coef_, merged.coef_)


@pytest.mark.parametrize("seed", [0, None])
def test_batches_add_up_to_what_merging_gives(seed, tmp_path):
    X, y = line(3000)
    ledger = PrivacyLedger(tmp_path / "ledger", epsilon=9.0, delta=0.1)
    grown = model(random_state=seed, ledger=ledger)
    for rows in (slice(0, 1000), slice(1000, 3000)):
        assert grown.partial_fit(X[rows], y[rows]) is grown
    assert len(ledger.entries()) == 2
    assert grown.moments_[0, 0] == 3000
    assert len(grown.noise_) == 2
    assert grown.privacy_.epsilon == 1.0
    assert any("more than one" in text for text in grown.privacy_.conditions)
    # noises of the two batches differ: what is added is not twice the first
    first = model(random_state=seed).fit(X[:1000], y[:1000])
    if seed is not None:
        exact = [model(epsilon=np.inf).fit(X[r], y[r]).moments_ for r in (slice(1000), slice(3000))]
        assert not np.allclose(grown.moments_ - exact[1], 2 * (first.moments_ - exact[0]))
    before = grown.coef_
    with pytest.raises(ValueError, match="expecting 3 features"):
        grown.partial_fit(X[:, :2], y)
    assert grown.coef_ is before
    assert not hasattr(model(epsilon=np.inf), "partial_fit")


def test_merged_noise_is_known():
    """Many shards have a much wider posterior than one release of all their records."""
    X, y = line(3000)
    parts = [model(random_state=s).fit(X[s::10], y[s::10]) for s in range(10)]
    merged, whole = parts[0].merge(*parts[1:]), model(random_state=99).fit(X, y)
    spread = [fitted.interval()["coef"] @ [-1.0, 1.0] for fitted in (merged, whole)]
    assert 2.0 < np.mean(spread[0]) / np.mean(spread[1]) < 4.0  # sqrt(10), less where noise drowns
    truth = np.linspace(8.0, -4.0, 3)
    low, high = merged.interval(0.999)["coef"].T
    assert np.all((low < truth) & (truth < high))


def test_models_that_do_not_belong_together_are_not_merged():
    X, y = line(300)
    first = model(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="random_state must differ"):
        first.merge(model(random_state=0).fit(X, y))
    with pytest.raises(ValueError, match="random_state must differ"):
        first.merge(first)
    stored = pickle.loads(pickle.dumps(first))
    with pytest.raises(ValueError, match="lost its seed"):
        stored.merge(model(random_state=1).fit(X, y))
    assert len(stored.merge(model(random_state=None).fit(X, y)).noise_) == 2
    for params in (
        {"target_bounds": (0, 30)},
        {"data_norm": 2.0},
        {"fit_intercept": False},
        {"adjacency": "zero_out"},
    ):
        with pytest.raises(ValueError, match="merge needs models"):
            first.merge(model(random_state=1, **params).fit(X, y))
    with pytest.raises(ValueError, match="epsilon=inf"):
        first.merge(model(random_state=1, epsilon=np.inf).fit(X, y))
    with pytest.raises(TypeError, match="PrivateBayesianRidge"):
        first.merge(Ridge().fit(X, y))
