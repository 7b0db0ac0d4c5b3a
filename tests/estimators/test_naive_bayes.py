from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skdpbayes import LaplaceNaiveBayes, PrivacyLedger
from skdpbayes.exceptions import CalibrationError, PrivacyWarning


def codes_data(n=500, seed=0, sizes=(2, 4, 3), n_classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    X = np.empty((n, len(sizes)), dtype=np.int64)
    for j, size in enumerate(sizes):
        theta = rng.dirichlet(np.ones(size), size=n_classes)
        X[:, j] = (rng.random((n, 1)) > theta[y].cumsum(axis=1)[:, :-1]).sum(axis=1)
    return X, y


def mixed_data(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = np.column_stack(
        [
            rng.random(n) < np.where(y, 0.8, 0.3),
            np.where(rng.random(n) < 0.7, y, 2),
            rng.poisson(np.where(y, 3, 1)),
            rng.poisson(np.where(y, 1, 2)),
            np.clip(rng.normal(np.where(y, 1.0, -1.0), 1.0), -5, 5),
        ]
    ).astype(float)
    return X, y


MIXED = {
    "distribution": ["bernoulli", "categorical", "multinomial", "multinomial", "gaussian"],
    "categories": [3],
    "max_total": 6,
    "bounds": [(-5, 5)],
}


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_without_noise_it_is_scikit_learns_naive_bayes(alpha):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    counts = rng.poisson(1.0 + y[:, None] * np.array([0.5, 1.0, 0.0, 0.2]), (300, 4)).astype(float)
    normal = rng.normal(y[:, None] * 0.5, 1.0 + 0.2 * y[:, None], (300, 4))
    X, codes_y = codes_data()
    cases = [
        (BernoulliNB(alpha=alpha), counts, y, {"distribution": "bernoulli"}),
        (MultinomialNB(alpha=alpha), counts, y, {"distribution": "multinomial"}),
        (GaussianNB(), normal, y, {"distribution": "gaussian"}),
        (GaussianNB(), normal, y, {"distribution": "gaussian", "bounds": (-20, 20)}),
        (
            CategoricalNB(alpha=alpha, min_categories=[2, 4, 3]),
            X,
            codes_y,
            {"distribution": "categorical", "categories": [2, 4, 3]},
        ),
    ]
    for theirs, X, labels, params in cases:
        ours = LaplaceNaiveBayes(np.inf, alpha=alpha, **params).fit(X, labels)
        theirs.fit(X, labels)
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
        np.testing.assert_allclose(
            ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6, atol=1e-12
        )


def test_sparse_and_dense_input_agree():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.poisson(0.5 + y[:, None], (200, 6)).astype(float)
    for params in ({}, {"distribution": "multinomial", "max_total": 4}):
        dense = LaplaceNaiveBayes(random_state=0, **params).fit(X, y)
        other = LaplaceNaiveBayes(random_state=0, **params).fit(sparse.csr_array(X), y)
        np.testing.assert_array_equal(dense.statistics_, other.statistics_)
        np.testing.assert_allclose(
            dense.predict_proba(X), other.predict_proba(sparse.csr_matrix(X)), rtol=1e-9
        )
    with pytest.raises(TypeError, match="dense data is required"):
        LaplaceNaiveBayes(distribution="gaussian", bounds=(0, 9)).fit(sparse.csr_array(X), y)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_noise_has_the_stated_scale(mechanism):
    X, y = mixed_data()
    delta = 1e-5 if mechanism == "gaussian" else 0.0
    fits = [
        LaplaceNaiveBayes(
            1.0, delta, mechanism=mechanism, random_state=seed, predictive_draws=1, **MIXED
        )
        for seed in range(120)
    ]
    noisy = np.array([fit.fit(X, y).statistics_ for fit in fits])
    law, scale = fits[0].noise_[0].law, fits[0].noise_[0].scale
    units = fits[0]._posterior.release.layout.units()
    spread = (noisy.std(axis=0) / units).mean()
    wanted = scale * (np.sqrt(2) if law == "laplace" else 1)
    assert spread == pytest.approx(wanted, rel=0.08)  # rejects 2/3 and 3/2
    assert law == mechanism


def test_scales_follow_the_sensitivities():
    X, y = codes_data(n_classes=2)
    params = {"distribution": "categorical", "categories": [2, 4, 3], "predictive_draws": 1}
    wanted = {"replace_one": 6.0, "zero_out": 3.0}
    for adjacency, scale in wanted.items():
        fit = LaplaceNaiveBayes(1.0, adjacency=adjacency, **params).fit(X, y)
        assert fit.noise_[0].law == "laplace"
        assert fit.noise_[0].scale == pytest.approx(scale)
    normal = LaplaceNaiveBayes(1.0, distribution="gaussian", bounds=(0, 4), predictive_draws=1).fit(
        X, y
    )
    assert normal.noise_[0].scale == pytest.approx(2 * (1 + 3 * 1.125))


def test_auto_picks_the_smaller_noise():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=100)
    picked = {}
    for n_features in (1, 3, 5, 14):
        X = rng.integers(0, 2, (100, n_features))
        picked[n_features] = (
            LaplaceNaiveBayes(1.0, 1e-5, predictive_draws=1).fit(X, y).noise_[0].law
        )
    assert picked == {1: "laplace", 3: "laplace", 5: "gaussian", 14: "gaussian"}
    assert LaplaceNaiveBayes(1.0, 0.0, predictive_draws=1).fit(X, y).noise_[0].law == "laplace"


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("distribution", ["bernoulli", "categorical", "multinomial", "gaussian"])
def test_credible_intervals_cover(distribution, mechanism, epsilon):
    rng = np.random.default_rng(5)
    hits = {"noise_aware": [], "naive": []}
    for seed in range(60):
        n = 3000
        prior = rng.dirichlet(np.ones(2) * 5)
        y = rng.choice(2, n, p=prior)
        if distribution == "gaussian":
            center, spread = rng.uniform(-1, 1, (2, 2)), rng.uniform(0.5, 1.0, (2, 2))
            X = rng.normal(center[y], spread[y])
            truth, params = {"mean": center, "variance": spread**2}, {"bounds": (-4, 4)}
        elif distribution == "bernoulli":
            theta = rng.random((2, 3))
            X = (rng.random((n, 3)) < theta[y]).astype(float)
            truth, params = {"bernoulli_prob": theta}, {}
        elif distribution == "multinomial":
            theta = rng.dirichlet(np.ones(6), 2)
            X = rng.multinomial(5, theta[y]).astype(float)
            truth, params = {"token_prob": theta}, {"max_total": 5}
        else:
            theta = rng.dirichlet(np.ones(4), (2, 2))
            X = (rng.random((n, 2, 1)) > theta[y].cumsum(axis=2)).sum(axis=2)
            truth, params = {"category_prob": theta}, {"categories": 4}
        truth["class_prior"] = prior
        for name, found in hits.items():
            if name == "naive" and seed % 6:  # far off: a sixth of the data shows it
                continue
            model = LaplaceNaiveBayes(
                epsilon,
                1e-5 if mechanism == "gaussian" else 0.0,
                distribution=distribution,
                mechanism=mechanism,
                posterior=name,
                random_state=seed,
                predictive_draws=1,
                **params,
            )
            draws = model.fit(X, y).sample_posterior(150, random_state=1)
            for key, value in truth.items():
                low, high = np.quantile(draws[key], [0.05, 0.95], axis=0)
                found.extend(((low <= value) & (value <= high)).ravel())
    assert 0.86 <= np.mean(hits["noise_aware"]) <= 0.94
    if epsilon == 0.1:
        assert np.mean(hits["naive"]) < 0.75


def test_learns_mixed_tables_with_either_noise_and_without():
    X, y = mixed_data()
    for epsilon, delta, mechanism in (
        (1.0, 0.0, "laplace"),
        (1.0, 1e-5, "gaussian"),
        (1.0, 1e-5, "auto"),
        (np.inf, 0.0, "auto"),
    ):
        fits = [
            LaplaceNaiveBayes(epsilon, delta, mechanism=mechanism, random_state=seed, **MIXED)
            for seed in range(5)
        ]
        # a single release may be unlucky: one class's variance comes out near zero
        assert np.median([fit.fit(X, y).score(X, y) for fit in fits]) > 0.92
        fit = fits[0]
        draws = fit.sample_posterior(20, random_state=0)
        shapes = {key: value.shape for key, value in draws.items()}
        assert shapes == {
            "class_prior": (20, 2),
            "bernoulli_prob": (20, 2, 1),
            "category_prob": (20, 2, 1, 3),
            "token_prob": (20, 2, 2),
            "mean": (20, 2, 1),
            "variance": (20, 2, 1),
        }
        np.testing.assert_allclose(draws["category_prob"].sum(axis=-1), 1.0)


def test_ops_releases_one_draw_within_its_floor():
    X, y = codes_data(3000, n_classes=2)
    fit = LaplaceNaiveBayes(
        3.0, distribution="categorical", categories=[2, 4, 3], mechanism="ops", random_state=0
    ).fit(X, y)
    plain = CategoricalNB().fit(X, y).score(X, y)
    assert fit.score(X, y) > plain - 0.05
    draws = fit.sample_posterior()
    assert draws["category_prob"].shape == (1, 2, 3, 4)
    assert draws["category_prob"][0, :, 1].min() >= 0.1 / 4 * (1 - 1e-9)
    assert not hasattr(fit, "statistics_")
    assert fit.privacy_.conditions == ()  # draws are exact
    with pytest.raises(ValueError, match="n_samples=2"):
        fit.sample_posterior(2)
    assert not hasattr(fit, "partial_fit")


def test_merging_shards_adds_noise_and_keeps_the_price():
    X, y = codes_data(4000, n_classes=2)
    params = {"distribution": "categorical", "categories": [2, 4, 3], "classes": [0, 1]}
    parts = [
        LaplaceNaiveBayes(0.5, random_state=i, **params).fit(X[i::4], y[i::4]) for i in range(4)
    ]
    merged = parts[0].merge(*parts[1:])
    np.testing.assert_array_equal(merged.statistics_, sum(part.statistics_ for part in parts))
    assert merged.n_records_ == 4000
    assert len(merged.noise_) == 4
    assert merged.privacy_.epsilon == 0.5
    assert any("more than one" in text for text in merged.privacy_.conditions)
    assert merged.score(X, y) > 0.5
    with pytest.raises(ValueError, match="random_state must differ"):
        parts[0].merge(LaplaceNaiveBayes(0.5, random_state=0, **params).fit(X, y))
    other = LaplaceNaiveBayes(0.5, random_state=8, **{**params, "categories": [3, 4, 3]}).fit(X, y)
    with pytest.raises(ValueError, match="equal classes"):
        parts[0].merge(other)


def test_a_merged_posterior_knows_that_the_noises_add_up():
    """Four noises have twice the deviation of one, which is all there is to see at this epsilon."""
    X, y = codes_data(20_000, n_classes=2)
    params = {"distribution": "categorical", "categories": [2, 4, 3], "classes": [0, 1]}
    spreads = []
    for seed in range(4):
        parts = [
            LaplaceNaiveBayes(0.02, random_state=10 * seed + i, **params).fit(X[i::4], y[i::4])
            for i in range(4)
        ]
        whole = LaplaceNaiveBayes(0.02, random_state=10 * seed + 9, **params).fit(X, y)
        spreads.append(
            [
                model.sample_posterior(800, random_state=0)["class_prior"][:, 0].std()
                for model in (parts[0].merge(*parts[1:]), whole)
            ]
        )
    wide, narrow = np.mean(spreads, axis=0)
    assert 1.6 < wide / narrow < 2.4


def test_partial_fit_releases_each_batch_under_its_own_noise(tmp_path):
    X, y = codes_data(2000, n_classes=2)
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0)
    model = LaplaceNaiveBayes(
        1.0, distribution="categorical", categories=[2, 4, 3], random_state=0, ledger=ledger
    )
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X[:100], y[:100])
    released = []
    for start in range(0, 2000, 1000):
        model.partial_fit(X[start : start + 1000], y[start : start + 1000], classes=[0, 1])
        released.append(model.statistics_.copy())
    exact = LaplaceNaiveBayes(np.inf, distribution="categorical", categories=[2, 4, 3])
    first = exact.fit(X[:1000], y[:1000]).statistics_
    both = exact.fit(X, y).statistics_
    first_noise = released[0] - first
    second_noise = released[1] - both - first_noise
    assert (first_noise != second_noise).mean() > 0.8
    assert model.n_records_ == 2000
    assert len(ledger.entries()) == 2
    assert model.privacy_.epsilon == 1.0
    assert model.privacy_.conditions


def test_missing_categories_are_taken_from_the_data_with_a_warning():
    X, y = codes_data()
    with pytest.warns(PrivacyWarning, match="categories=None"):
        fit = LaplaceNaiveBayes(distribution="categorical", random_state=0).fit(X, y)
    assert any("categories" in text for text in fit.privacy_.conditions)
    with pytest.warns(PrivacyWarning), pytest.raises(ValueError, match="codes below"):
        LaplaceNaiveBayes(distribution="categorical").fit(X * 1e12, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = LaplaceNaiveBayes(distribution="categorical", categories=4).fit(X, y)
    assert fit.privacy_.conditions == ()


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"distribution": "poisson"}, ValueError, "distribution"),
        ({"distribution": ["bernoulli"]}, ValueError, "3 features"),
        ({"distribution": 3}, ValueError, "distribution must be one of"),
        ({"distribution": "gaussian"}, ValueError, "bounds must be given"),
        ({"distribution": "gaussian", "bounds": (1, 1)}, ValueError, "low < high"),
        ({"distribution": "multinomial"}, ValueError, "max_total must be given"),
        ({"distribution": "multinomial", "max_total": 0}, ValueError, "max_total"),
        ({"distribution": "categorical", "categories": 2}, ValueError, "column 1"),
        ({"distribution": "categorical", "categories": [2, 3]}, ValueError, "categories"),
        ({"mechanism": "staircase"}, ValueError, "mechanism"),
        ({"mechanism": "gaussian"}, CalibrationError, "delta > 0"),
        ({"mechanism": "ops", "distribution": "gaussian", "bounds": (0, 9)}, ValueError, "ops"),
        ({"posterior": "exact"}, ValueError, "posterior"),
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"predictive_draws": 0}, ValueError, "predictive_draws"),
        ({"binarize": None}, ValueError, "binarize"),
        ({"classes": [0, 1]}, ValueError, "outside classes"),
    ],
)
def test_bad_parameters_are_named(params, error, match):
    X, y = codes_data()
    with pytest.raises(error, match=match):
        LaplaceNaiveBayes(**params).fit(X, y)


def test_counts_must_be_counts_and_codes_known():
    X, y = codes_data()
    with pytest.raises(ValueError, match="Negative values"):
        LaplaceNaiveBayes(distribution="multinomial", max_total=3).fit(X - 1, y)
    with pytest.raises(ValueError, match="fractional"):
        LaplaceNaiveBayes(distribution="multinomial", max_total=3).fit(X + 0.5, y)
    fit = LaplaceNaiveBayes(distribution="categorical", categories=[2, 4, 3]).fit(X, y)
    with pytest.raises(ValueError, match="column 2"):
        fit.predict([[0, 0, 3]])


def test_words_in_a_data_frame_are_refused_with_a_remedy_that_works():
    pd = pytest.importorskip("pandas")
    y = np.arange(300) % 2
    frame = pd.DataFrame({"job": pd.Categorical(np.where(y, "nurse", "cook")), "age": 40.0 + 9 * y})
    params = {
        "distribution": ["categorical", "gaussian"],
        "categories": [2],
        "bounds": [(0, 99)],
        "random_state": 0,
    }
    with pytest.raises(ValueError, match=r"columns \['job'\].*OrdinalEncoder"):
        LaplaceNaiveBayes(**params).fit(frame, y)
    encoder = OrdinalEncoder(categories=[["cook", "nurse"]])
    columns = ColumnTransformer([("job", encoder, ["job"])], remainder="passthrough")
    model = make_pipeline(columns, LaplaceNaiveBayes(**params)).fit(frame, y)
    assert model.score(frame, y) == 1.0


def test_only_models_with_statistics_merge():
    X, y = codes_data(n_classes=2)
    fit = LaplaceNaiveBayes(random_state=0).fit(X, y)
    with pytest.raises(TypeError, match="got 'other'"):
        fit.merge("other")
    with pytest.raises(NotFittedError):
        fit.merge(LaplaceNaiveBayes())
    with pytest.raises(ValueError, match="releases a draw"):
        fit.merge(LaplaceNaiveBayes(mechanism="ops", random_state=1).fit(X, y))
