"""What must not leak: stale attributes, repeated noise, wrapped sums, mixed-up merges."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from skdpbayes import LaplaceNaiveBayes
from skdpbayes.estimators.naive_bayes.counts import plan_noise
from skdpbayes.models import NaiveBayesLayout, clip_tokens
from skdpbayes.privacy import DiscreteGaussian, compose, repeat
from skdpbayes.privacy.budget import Budget


def binary_data(n=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return (rng.random((n, 3)) < 0.3 + 0.4 * y[:, None]).astype(float), y


def test_a_private_fit_forgets_what_a_plain_fit_stored():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    model = LaplaceNaiveBayes(np.inf, distribution="gaussian", bounds=(-4, 4)).fit(X, y)
    model.set_params(epsilon=1.0, random_state=0).fit(X, y)
    fresh = LaplaceNaiveBayes(1.0, distribution="gaussian", bounds=(-4, 4), random_state=0)
    assert vars(model).keys() == vars(fresh.fit(X, y)).keys()
    exact = X[y == 0].mean(axis=0)
    assert exact.tobytes()[:8] not in pickle.dumps(model)


def test_a_draw_does_not_keep_the_statistics_of_an_earlier_fit():
    X, y = binary_data()
    model = LaplaceNaiveBayes(np.inf).fit(X, y)
    model.set_params(epsilon=1.0, mechanism="ops", random_state=0).fit(X, y)
    assert not hasattr(model, "statistics_")
    assert not hasattr(model, "noise_")
    assert model.sample_posterior()["bernoulli_prob"].shape == (1, 2, 3)


@pytest.mark.parametrize("state", [3, np.random.SeedSequence(3), np.random.SeedSequence([1, 2])])
def test_no_two_batches_share_their_noise(state):
    """The difference of two releases of the same records would be zero."""
    X, y = binary_data()
    model = LaplaceNaiveBayes(0.1, classes=[0, 1], random_state=state).partial_fit(X, y)
    first = model.statistics_.copy()
    second = model.partial_fit(X, y).statistics_ - first
    assert np.mean(second == first) < 0.2


def test_equal_seeds_and_equal_models_are_not_merged():
    X, y = binary_data()
    one, twin, other = (
        LaplaceNaiveBayes(1.0, classes=[0, 1], random_state=np.random.SeedSequence(s)).fit(X, y)
        for s in (5, 5, 6)
    )
    assert one.merge(other).n_records_ == 400
    with pytest.raises(ValueError, match="random_state must differ"):
        one.merge(twin)
    same = LaplaceNaiveBayes(1.0, classes=[0, 1], random_state=5).fit(X, y)
    with pytest.raises(ValueError, match="random_state must differ"):
        one.merge(same)  # an int is the seed sequence of that int
    secure = LaplaceNaiveBayes(1.0).fit(X, y)
    with pytest.raises(ValueError, match="there twice"):
        secure.merge(secure)


def test_merging_looks_at_what_was_fitted_not_at_parameters_changed_since():
    X, y = binary_data()
    plain = LaplaceNaiveBayes(np.inf).fit(X, y).set_params(epsilon=1.0)
    private = LaplaceNaiveBayes(1.0).fit(X, y)
    with pytest.raises(ValueError, match="all private or none"):
        private.merge(plain)
    with pytest.raises(ValueError, match="all private or none"):
        plain.partial_fit(X, y)
    zeroed = LaplaceNaiveBayes(1.0, adjacency="zero_out").fit(X, y)
    with pytest.raises(ValueError, match="adjacency"):
        private.merge(zeroed.set_params(adjacency="replace_one"))


def test_merged_claims_say_that_shards_must_not_depend_on_the_records():
    X, y = binary_data()
    merged = LaplaceNaiveBayes(1.0).fit(X, y).merge(LaplaceNaiveBayes(1.0).fit(X, y))
    assert any("does not depend on its values" in text for text in merged.privacy_.conditions)


@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix])
@pytest.mark.parametrize(
    "row",
    [[2.0**63, 2.0**63, 1.0], [1e300, 1e300, 1e300], [1e308, 1e308, 0.0], [1e18, 3.0, 2e18]],
)
def test_huge_counts_do_not_wrap_around_the_clipping(make, row):
    clipped = clip_tokens(make([row]), 10)
    clipped = clipped.toarray() if sparse.issparse(clipped) else clipped
    assert clipped.min() >= 0
    assert clipped.sum() == 10
    X = np.array([row, [1.0, 0.0, 2.0], [0.0, 4.0, 1.0]])
    params = {"distribution": "multinomial", "max_total": 10, "classes": [0, 1], "random_state": 0}
    rest = np.array([[0.0, 0.0, 0.0], *X[1:]])
    one, other = (
        LaplaceNaiveBayes(1.0, **params).fit(make(data), [0, 1, 1]).statistics_
        for data in (X, rest)
    )
    assert np.abs(one - other).sum() <= 10  # the same seed, hence the same noise


def test_integer_counts_do_not_wrap_around_either():
    clipped = clip_tokens(np.full((1, 4), 2**62, dtype=np.int64), 10)
    assert clipped.min() >= 0
    assert clipped.sum() == 10


@pytest.mark.parametrize("bounds", [(0.0, 5e-324), (1.0, 1.0), (-1e300, 1e300)])
def test_bounds_that_would_standardize_to_nan_are_refused(bounds):
    X, y = binary_data()
    with pytest.raises(ValueError, match="bounds"):
        LaplaceNaiveBayes(1.0, distribution="gaussian", bounds=bounds).fit(X, y)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (15.0, 1e-3), (30.0, 1e-5)])
def test_gaussian_noise_on_mixed_statistics_covers_every_kind_of_move(epsilon, delta):
    """Moves of class counts are not dearer than the moves of moments that the claim prices."""
    layout = NaiveBayesLayout(moment_columns=(0,), bounds=((0.0, 1.0),))
    plan = plan_noise(layout, "gaussian", Budget(epsilon, delta, "replace_one"))
    grid = int(layout.units().max())
    fine = DiscreteGaussian(plan.noise.scale * grid, grid)
    moves = [
        repeat(fine, 4),  # one class, from end to end
        compose([repeat(DiscreteGaussian(plan.noise.scale), 2), repeat(fine, 2)]),  # another class
    ]
    for move in moves:
        assert move.delta_at(epsilon) <= delta * (1 + 1e-3)


def test_draws_lie_on_a_public_grid():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (50, 3)), rng.integers(2, size=50)
    model = LaplaceNaiveBayes(1.0, mechanism="ops", random_state=0).fit(X, y)
    draw = model._posterior.scores.cells  # logarithms: look at the probabilities behind them
    probability = np.exp(draw)
    steps = probability * 2.0**32
    np.testing.assert_allclose(steps, np.rint(steps), rtol=0, atol=1e-3)
    np.testing.assert_allclose(model.sample_posterior()["class_prior"].sum(), 1.0)


def test_a_draw_cannot_be_updated_and_passes_scikit_learns_checks():
    model = LaplaceNaiveBayes(mechanism="ops")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        model.partial_fit([[1.0]], [0])
    assert "cannot be updated" in str(caught.value.__cause__)
    results = check_estimator(model, on_fail=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_tokens_under_heavy_noise_do_not_favor_the_class_with_few_records():
    """Averages of logarithms would: nearly unknown probabilities have lower ones."""
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.15).astype(int)
    theta = rng.dirichlet(np.full(120, 0.5), size=2)
    X = np.stack([rng.multinomial(12, theta[c]) for c in y]).astype(float)
    scores = [
        LaplaceNaiveBayes(
            0.05, distribution="multinomial", max_total=12, predictive_draws=40, random_state=seed
        )
        .fit(X, y)
        .score(X, y)
        for seed in range(3)
    ]
    assert np.mean(scores) > 0.8


def test_many_drowned_tables_do_not_favor_the_class_that_loses_least_to_the_noise():
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.15).astype(int)
    theta = rng.beta(0.2, 2.0, size=(2, 200))
    X = (rng.random((3000, 200)) < theta[y]).astype(float)
    scores = [
        LaplaceNaiveBayes(0.05, predictive_draws=40, random_state=seed).fit(X, y).score(X, y)
        for seed in range(6)
    ]
    assert np.mean(scores) > 0.5  # 0.58; without the shift 0.33
