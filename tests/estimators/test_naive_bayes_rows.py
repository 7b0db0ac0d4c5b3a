"""Rows, columns and parameters of naive Bayes: bounded alike, refused in time, never ignored."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, sparse, stats
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB, MultinomialNB

from skdpbayes import LaplaceNaiveBayes, PrivacyLedger, datasets, models
from skdpbayes.exceptions import PrivacyWarning


def normal_data(n=600, seed=0, n_classes=2, n_features=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    return rng.normal(y[:, None] * 1.5, 1.0, (n, n_features)), y


GAUSSIAN = {"distribution": "gaussian", "bounds": (-2.0, 3.0), "random_state": 0}


def test_rows_outside_the_bounds_are_bounded_in_every_prediction_too():
    X, y = normal_data()
    model = LaplaceNaiveBayes(1.0, **GAUSSIAN).fit(X, y)
    far = X * 10.0
    cut = np.clip(far, -2.0, 3.0)
    assert (far != cut).any()
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(model, name)(far), getattr(model, name)(cut))
    assert model.score(far, y) == model.score(cut, y)
    again = LaplaceNaiveBayes(1.0, **GAUSSIAN).fit(np.clip(X, -2.0, 3.0), y)
    np.testing.assert_array_equal(model.statistics_, again.statistics_)


def test_without_privacy_rows_are_used_as_they_are():
    X, y = normal_data()
    model = LaplaceNaiveBayes(np.inf, **GAUSSIAN).fit(X, y)
    far = X * 10.0  # bounds are passed, and neither fit nor predictions cut
    expected = GaussianNB().fit(X, y).predict_proba(far)
    np.testing.assert_allclose(model.predict_proba(far), expected, rtol=1e-9, atol=1e-300)
    counts = np.random.default_rng(0).poisson(3.0 + y[:, None], (len(y), 4))
    model = LaplaceNaiveBayes(np.inf, distribution="multinomial", max_total=2).fit(counts, y)
    expected = MultinomialNB().fit(counts, y).predict_proba(counts)
    np.testing.assert_allclose(model.predict_proba(counts), expected, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_never_exceed_one(n_classes):
    X, y = normal_data(3000, n_classes=n_classes, n_features=40)
    model = LaplaceNaiveBayes(1e4, distribution="gaussian", bounds=(-6, 12), random_state=0)
    for draws in (100, 49, 7):
        probability = model.set_params(predictive_draws=draws).fit(X, y).predict_proba(X)
        assert probability.max() <= 1.0
        assert probability.min() >= 0.0
        np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=0, atol=4e-16)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            log_loss(y, probability)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_averages_are_those_of_exact_arithmetic(n_classes):
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    scores = rng.normal(0.0, 60.0, (20, n_classes - 1, 7))
    scores[0], scores[1] = 800.0, -800.0
    found = models.average_probability(scores.copy())
    for row, probability in zip(scores, found, strict=True):
        draws = [[mpmath.mpf(0), *map(mpmath.mpf, draw)] for draw in row.T]
        weights = [[mpmath.exp(score) for score in draw] for draw in draws]
        shares = [[weight / sum(draw) for weight in draw] for draw in weights]
        exact = [float(sum(column) / len(shares)) for column in zip(*shares, strict=True)]
        kept = [max(value, 1e-290) for value in exact]  # doubles end there
        np.testing.assert_allclose(np.maximum(probability, 1e-290), kept, rtol=1e-12)


def test_gaussian_scores_are_normal_densities():
    """The matrix product of squares agrees with scipy's density, far bounds included."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    X = 1e6 + rng.normal(y[:, None], 1.0, (400, 4))
    bounds = (1e6 - 8.0, 1e6 + 8.0)
    model = LaplaceNaiveBayes(5.0, distribution="gaussian", bounds=bounds, random_state=0)
    model.set_params(predictive_draws=5).fit(X, y)
    scores = model._posterior.scores
    spread = np.sqrt(scores.variances)[None]
    logs = stats.norm.logpdf(X[:, :, None, None], scores.means[None], spread).sum(axis=1)
    weights = np.exp(logs + scores.classes)
    expected = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=2)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-7)


def test_memory_of_predictions_does_not_grow_with_the_rows():
    import tracemalloc

    X, y = normal_data(40_000)
    model = LaplaceNaiveBayes(1.0, **GAUSSIAN).fit(X[:500], y[:500])
    model.predict_proba(X[:10])
    peaks = []
    for n in (10_000, 40_000):
        tracemalloc.start()
        model.predict_proba(X[:n])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # results, bounded rows and little else: 100 draws of 30,000 rows would be 24 MB
    assert peaks[1] - peaks[0] < 30_000 * 8 * 16


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int8, np.int64, np.float64])
def test_codes_of_any_width_are_compared_before_they_are_cast(dtype):
    X = np.array([[0], [1], [2]], dtype=dtype)
    assert models.wrong_code(X, np.array([0]), np.array([3])) == -1
    assert models.wrong_code(X, np.array([0]), np.array([2])) == 0
    bad = X.copy()
    # of 64 unsigned bits this is 1 - 2**63: a cast to signed numbers would leave -(2**63 - 1)
    bad[0] = np.iinfo(dtype).max if np.dtype(dtype).kind in "ui" else 2.0**64
    counts = np.zeros((1, 3), dtype=np.int64)
    starts, sizes = np.array([0]), np.array([3])
    assert models.wrong_code(bad, np.array([0]), sizes) == 0
    codes = np.zeros(3, int)
    assert models.count_categories(bad, np.array([0]), codes, starts, sizes, counts) == 0
    model = LaplaceNaiveBayes(distribution="categorical", categories=3, classes=[0, 1])
    with pytest.raises(ValueError, match="column 0"):
        model.fit(bad, [0, 1, 1])
    with pytest.raises(ValueError, match="column 0"):
        model.fit(X, [0, 1, 1]).predict(bad)


def test_wide_unsigned_codes_do_not_wrap_into_small_ones():
    X = np.array([[2**64 - 1], [2**63 + 1]], dtype=np.uint64)
    assert models.wrong_code(X, np.array([0]), np.array([2**62])) == 0


FRAME = pd.DataFrame(
    {
        "age": np.random.default_rng(0).uniform(18, 90, 200),
        "job": np.arange(200) % 3,
        "smokes": np.arange(200) % 2 == 0,
    }
)
LABELS = np.arange(200) % 2
BY_NAME = {
    "distribution": {"age": "gaussian", "job": "categorical", "smokes": "bernoulli"},
    "bounds": {"age": (18, 90)},
    "categories": {"job": 3},
    "random_state": 0,
}


def test_parameters_by_name_are_those_by_position():
    by_place = {
        "distribution": ["gaussian", "categorical", "bernoulli"],
        "bounds": [(18, 90)],
        "categories": [3],
        "random_state": 0,
    }
    models_ = [LaplaceNaiveBayes(**params).fit(FRAME, LABELS) for params in (BY_NAME, by_place)]
    np.testing.assert_array_equal(*(model.statistics_ for model in models_))


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"bounds": {"age": (18, 90), "agee": (0, 1)}}, "bounds names 'agee'.*mean 'age'"),
        ({"categories": {"job": 3, "work": 2}}, "categories names 'work'.*The columns are"),
        ({"bounds": {"smokes": (0, 1)}}, "bounds has no entry for the column 'age'"),
        ({"distribution": {"age": "gaussian"}}, "distribution has no entry for the column 'job'"),
    ],
)
def test_misspelled_columns_are_refused_even_where_all_real_ones_are_there(params, match):
    with pytest.raises(ValueError, match=match):
        LaplaceNaiveBayes(**{**BY_NAME, **params}).fit(FRAME, LABELS)


def test_names_need_a_table_with_names():
    with pytest.raises(ValueError, match="X has none"):
        LaplaceNaiveBayes(**BY_NAME).fit(FRAME.to_numpy(float), LABELS)


NUMBERS = np.random.default_rng(1).normal(size=(60, 2))
SIDES = np.arange(60) % 2


@pytest.mark.parametrize(
    ("X", "params"),
    [
        (NUMBERS, {}),
        (NUMBERS > 0, {"distribution": ["bernoulli", "bernoulli"], "binarize": "auto"}),
        ((NUMBERS > 0).astype(int), {}),
        (pd.DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1] > 0}), {}),
    ],
)
def test_numbers_cut_at_zero_without_a_word_warn(X, params):
    """The types of the columns decide, whatever their values are."""
    boolean = getattr(X, "dtype", None) == np.dtype(bool)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LaplaceNaiveBayes(**params).fit(X, SIDES)
    texts = [str(w.message) for w in caught if issubclass(w.category, PrivacyWarning)]
    assert len(texts) == (0 if boolean else 1)
    if texts:
        assert "binarize=None" in texts[0]
        assert caught[0].filename == __file__
    zeros = (X * 0).astype(X.dtypes if isinstance(X, pd.DataFrame) else X.dtype)
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        LaplaceNaiveBayes(classes=[0, 1], **params).fit(zeros, SIDES)
    assert [str(w.message) for w in again] == texts


@pytest.mark.parametrize(
    ("X", "params"),
    [
        ((NUMBERS > 0).astype(float), {"binarize": None}),
        (NUMBERS, {"binarize": 0.0}),
        (NUMBERS > 0, {}),
        (pd.DataFrame(NUMBERS > 0).astype("boolean"), {}),
        (sparse.csr_array((NUMBERS > 0).astype(float)), {}),
    ],
)
def test_declared_indicators_do_not_warn(X, params):
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        model = LaplaceNaiveBayes(random_state=0, **params).fit(X, SIDES)
    expected = LaplaceNaiveBayes(random_state=0, binarize=0.0).fit(NUMBERS, SIDES)
    np.testing.assert_array_equal(model.statistics_, expected.statistics_)


@pytest.mark.parametrize(
    ("X", "params", "match"),
    [
        (NUMBERS + 5, {"distribution": "categorical", "categories": 3}, "column 0"),
        (NUMBERS, {"distribution": "multinomial", "max_total": 3}, "Negative values"),
        (NUMBERS, {"binarize": None}, "binarize=None"),
        (NUMBERS, {"categories": 3}, "categories has no effect"),
        (NUMBERS, {"bounds": (0, 1)}, "bounds has no effect"),
        (NUMBERS, {"max_total": 3}, "max_total has no effect"),
        (NUMBERS, {"var_smoothing": 1e-3}, "var_smoothing has no effect"),
        (NUMBERS, {"min_probability": 0.2}, "min_probability has no effect"),
        (NUMBERS, {"mechanism": "ops", "posterior": "naive"}, "posterior has no effect"),
        (NUMBERS, {"mechanism": "ops", "predictive_draws": 3}, "predictive_draws has no effect"),
        (NUMBERS, {**GAUSSIAN, "binarize": 1.0}, "binarize has no effect"),
        (NUMBERS, {"binarize": "zero"}, "binarize must be"),
    ],
)
def test_what_is_refused_costs_nothing_and_changes_nothing(X, params, match, tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=10.0)
    model = LaplaceNaiveBayes(**GAUSSIAN).fit(NUMBERS, SIDES)
    before = pickle.dumps(vars(model) | {"ledger": None})
    known = model.get_params()
    model.set_params(**{**LaplaceNaiveBayes().get_params(), **params, "ledger": ledger})
    with pytest.raises(ValueError, match=match):
        model.fit(X, SIDES)
    assert ledger.entries() == []
    model.set_params(**known)
    assert pickle.dumps(vars(model) | {"ledger": None}) == before


def test_parameters_changed_after_a_fit_change_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    model = LaplaceNaiveBayes(1.0, binarize=0.5, random_state=0).fit(X, y)
    kept = model.predict_proba(X), model.sample_posterior(3, random_state=0), model.interval()
    model.set_params(
        binarize=-1.0, alpha=50.0, posterior="naive", distribution="gaussian", bounds=(0, 1)
    )
    np.testing.assert_array_equal(model.predict_proba(X), kept[0])
    for name, draws in model.sample_posterior(3, random_state=0).items():
        np.testing.assert_array_equal(draws, kept[1][name])
        np.testing.assert_array_equal(model.interval()[name], kept[2][name])


def test_plans_name_claim_and_noise_without_data():
    settings = {"distribution": "categorical", "categories": [2, 4, 3]}
    plan = LaplaceNaiveBayes(1.0, **settings).plan(500, 3)
    fitted = LaplaceNaiveBayes(1.0, **settings).fit(np.zeros((500, 3)), np.arange(500) % 2)
    assert plan.numbers["noise_"] == fitted.noise_
    assert plan.privacy.epsilon == 1.0
    assert "Laplace" in str(plan)
    by_name = LaplaceNaiveBayes(**BY_NAME).plan(200, 3)
    assert by_name.numbers["noise_"] == LaplaceNaiveBayes(**BY_NAME).fit(FRAME, LABELS).noise_
    with pytest.raises(ValueError, match="categories must be given"):
        LaplaceNaiveBayes(distribution="categorical").plan(500, 3)


def test_intervals_are_quantiles_of_the_posterior():
    X, y = normal_data(2000)
    model = LaplaceNaiveBayes(1.0, **GAUSSIAN).fit(X, y)
    draws = model.sample_posterior(4000, random_state=5)
    for level in (0.5, 0.9):
        found = model.interval(level)
        assert found.keys() == draws.keys()
        for name, ends in found.items():
            assert ends.shape == (*draws[name].shape[1:], 2)
            inside = (ends[..., 0] <= draws[name]) & (draws[name] <= ends[..., 1])
            np.testing.assert_allclose(inside.mean(axis=0), level, atol=0.06)
    drawn = LaplaceNaiveBayes(1.0, mechanism="ops", binarize=0.0).fit(X, y)
    assert not hasattr(drawn, "interval")


def binary_parts(*seeds):
    X = NUMBERS > 0
    return [LaplaceNaiveBayes(1.0, random_state=seed).fit(X, SIDES) for seed in seeds]


@pytest.mark.parametrize("store", [copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_seeded_parts_that_lost_their_seed_are_not_merged(store):
    one, other = binary_parts(1, 2)
    assert one.merge(other).n_records_ == 120
    stored = store(one)
    assert not hasattr(stored, "_seeds")
    for parts in ((stored, other), (other, stored), (stored, store(other))):
        with pytest.raises(ValueError, match="lost its seed"):
            parts[0].merge(parts[1])
    (secure,) = binary_parts(None)
    merged = stored.merge(secure)  # secure noise is nobody else's
    assert merged.privacy_.seeded
    with pytest.raises(ValueError, match="lost its seed"):
        merged.merge(other)


def test_a_merged_model_remembers_all_seeds():
    one, other, same, third = binary_parts(1, 2, 2, 3)
    merged = one.merge(other)
    with pytest.raises(ValueError, match="random_state must differ"):
        merged.merge(same)
    same.set_params(random_state=7)  # what made the noise counts, not the parameter
    with pytest.raises(ValueError, match="random_state must differ"):
        merged.merge(same)
    assert merged.merge(third).n_records_ == 180


def test_models_of_other_thresholds_are_not_merged():
    one = LaplaceNaiveBayes(1.0, binarize=0.0).fit(NUMBERS, SIDES)
    other = LaplaceNaiveBayes(1.0, binarize=1.0).fit(NUMBERS, SIDES)
    with pytest.raises(ValueError, match="binarize"):
        one.merge(other)


def test_a_stored_model_takes_further_batches_of_secure_noise():
    X = NUMBERS > 0
    model = LaplaceNaiveBayes(1.0, classes=[0, 1], random_state=3).partial_fit(X, SIDES)
    stored = pickle.loads(pickle.dumps(model))
    assert stored.partial_fit(X, SIDES).n_records_ == 120
    again = pickle.loads(pickle.dumps(model)).set_params(random_state=3)
    with pytest.raises(ValueError, match="lost its seed"):
        again.partial_fit(X, SIDES)
    assert again.n_records_ == 60


def test_sampling_says_that_the_posterior_is_cut():
    assert "cut" in LaplaceNaiveBayes.sample_posterior.__doc__


def test_class_totals_ignore_the_moments():
    """The cut: the same class counts give the same class probabilities, whatever the moments."""
    X, y = normal_data(400)
    model = LaplaceNaiveBayes(0.5, **GAUSSIAN).fit(X, y)
    shifted = copy.deepcopy(model)
    moments = shifted._posterior.release.layout.split(shifted._posterior.release.statistics)[3]
    moments[:] = moments // 2
    first, second = (m.sample_posterior(50, random_state=0) for m in (model, shifted))
    np.testing.assert_array_equal(first["class_prior"], second["class_prior"])
    assert (first["mean"] != second["mean"]).any()


def test_class_totals_are_those_of_an_exact_posterior():
    """Two classes, no tables: the noisy class counts, a uniform prior and the law of the noise."""
    X, y = normal_data(40, n_features=1)
    model = LaplaceNaiveBayes(1.0, **GAUSSIAN).fit(X, y)
    noise, noisy = model.noise_[0].scale, model.statistics_[:, 0]
    n = np.arange(41)
    weight = np.exp(-(np.abs(noisy[0] - n) + np.abs(noisy[1] - (40 - n))) / noise)
    weight /= weight.sum()
    density = stats.beta.pdf
    mean = sum(
        w * integrate.quad(lambda p, k=k: p * density(p, k + 1, 41 - k), 0.0, 1.0)[0]
        for k, w in zip(n, weight, strict=True)
    )
    draws = model.sample_posterior(20_000, random_state=0)["class_prior"][:, 0]
    assert draws.mean() == pytest.approx(mean, abs=4 * draws.std() / np.sqrt(20_000))


def test_synthetic_records_follow_the_drawn_parameters():
    """Frequencies of every column in every class are those of the draw, by exact tests."""
    model = LaplaceNaiveBayes(1.0, **BY_NAME).fit(FRAME, LABELS)
    X, y = model.sample(20_000, random_state=7)
    drawn = {name: values[0] for name, values in model.sample_posterior(1, random_state=7).items()}
    assert list(X.columns) == list(FRAME.columns)
    assert X["job"].dtype == X["smokes"].dtype == np.int64
    assert X["age"].between(18, 90).all()
    expected = stats.binomtest(int((y == 1).sum()), len(y), drawn["class_prior"][1])
    assert expected.pvalue > 1e-4
    for c in range(2):
        rows = X[y == c]
        ones = stats.binomtest(int(rows["smokes"].sum()), len(rows), drawn["bernoulli_prob"][c, 0])
        assert ones.pvalue > 1e-4
        counts = np.bincount(rows["job"], minlength=3)
        assert stats.chisquare(counts, drawn["category_prob"][c, 0] * len(rows)).pvalue > 1e-4
        law = stats.norm(drawn["mean"][c, 0], np.sqrt(drawn["variance"][c, 0]))
        inside = (rows["age"] > 18) & (rows["age"] < 90)
        gap = inside.mean() - (law.cdf(90) - law.cdf(18))
        assert abs(gap) < 4 * np.sqrt(0.25 / len(rows))
        # given the class, columns are independent
        pairs = pd.crosstab(rows["job"], rows["smokes"])
        assert stats.chi2_contingency(pairs).pvalue > 1e-4
    assert not np.array_equal(model.sample(50, random_state=1)[1], model.sample(50)[1])
    again = model.sample(20_000, random_state=7)[0]
    pd.testing.assert_frame_equal(X, again)


def test_synthetic_counts_keep_their_bound_and_length():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=3000)
    X = rng.poisson(np.where(y[:, None], [0.2, 1.0, 2.0], [1.0, 0.4, 0.1]))
    model = LaplaceNaiveBayes(5.0, distribution="multinomial", max_total=6, random_state=0)
    rows, labels = model.fit(X, y).sample(5000, random_state=0)
    assert rows.dtype == np.int64
    assert rows.min() == 0
    assert rows.sum(axis=1).max() <= 6
    for c in range(2):
        wanted = np.minimum(X[y == c].sum(axis=1), 6).mean()
        assert rows[labels == c].sum(axis=1).mean() == pytest.approx(wanted, rel=0.08)
        shares = rows[labels == c].sum(axis=0) / rows[labels == c].sum()
        np.testing.assert_allclose(shares, X[y == c].sum(axis=0) / X[y == c].sum(), atol=0.04)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)
    drawn = LaplaceNaiveBayes(distribution="multinomial", max_total=6, mechanism="ops").fit(X, y)
    assert not hasattr(drawn, "sample")
    tables = LaplaceNaiveBayes(mechanism="ops", random_state=0).fit(NUMBERS > 0, SIDES)
    assert tables.sample(9)[0].shape == (9, 2)


def test_a_model_of_synthetic_records_is_nearly_as_accurate():
    census = datasets.make_census(40_000, encoding="bins", random_state=0)
    X, y = census.data[:32_000], census.target[:32_000]
    X_new, y_new = census.data[32_000:], census.target[32_000:]
    params = {"distribution": "categorical", "categories": census.n_categories}
    model = LaplaceNaiveBayes(1.0, random_state=0, **params).fit(X, y)
    synthetic = model.sample(32_000, random_state=0)
    plain = LaplaceNaiveBayes(np.inf, **params).fit(*synthetic)
    assert plain.score(X_new, y_new) > model.score(X_new, y_new) - 0.015
