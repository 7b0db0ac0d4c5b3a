"""Missing values in naive Bayes: not observed, counted apart, and nowhere else accepted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import CategoricalNB

from skdpbayes import LaplaceNaiveBayes, load_json, to_json

NAN = np.nan


def table(n=3000, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = np.column_stack([rng.binomial(2, 0.3 + 0.4 * y), rng.binomial(1, 0.2 + 0.5 * y)])
    holes = rng.random(X.shape) < share
    return np.where(holes, NAN, X.astype(float)), y


def model(epsilon=1.0, **parameters):
    given = {"distribution": "categorical", "categories": [3, 2], "missing": True}
    return LaplaceNaiveBayes(epsilon, random_state=0, **given | parameters)


def test_without_noise_each_column_is_learned_from_the_rows_that_have_it():
    X, y = table()
    fitted = model(np.inf).fit(X, y)
    parts = []
    for j, size in enumerate((3, 2)):
        seen = ~np.isnan(X[:, j])
        part = CategoricalNB(min_categories=size, fit_prior=False)
        parts.append(part.fit(X[seen][:, [j]].astype(int), y[seen]))
    rows = np.array([[a, b] for a in (0, 1, 2, NAN) for b in (0, 1, NAN)])
    prior = np.bincount(y) / len(y)
    for row, found in zip(rows, fitted.predict_proba(rows), strict=True):
        odds = prior.copy()
        for j, value in enumerate(row):
            if not np.isnan(value):
                odds *= np.exp(parts[j].feature_log_prob_[0][:, int(value)])
        np.testing.assert_allclose(found, odds / odds.sum(), rtol=1e-9)


def test_a_record_moves_one_cell_per_column_whether_it_has_a_value_or_not():
    X, y = table(200)
    other = X.copy()
    other[0] = [NAN, NAN] if not np.isnan(X[0]).all() else [0, 1]
    counts = [model(np.inf).fit(rows, y).statistics_ for rows in (X, other)]
    changed = np.abs(counts[0] - counts[1])
    assert changed.max() == 1
    assert changed.sum() <= 4
    assert counts[0].sum() == 2 * 200  # every record is in one cell of every table
    plain = model(missing=False).plan(200, 2, classes=[0, 1]).privacy
    assert model().plan(200, 2, classes=[0, 1]).privacy.event == plain.event
    assert model().fit(X, y).privacy_.event == plain.event


def test_accuracy_is_near_that_without_holes_and_missing_rows_get_the_prior():
    X, y = table(20_000, share=0.0)
    holes, labels = table(20_000)
    whole = model(missing=False).fit(X, y).score(X, y)
    fitted = model().fit(holes, labels)
    assert fitted.score(X, y) > whole - 0.01
    nothing = fitted.predict_proba([[NAN, NAN]])[0]
    np.testing.assert_allclose(nothing, np.exp(fitted.class_log_prior_), atol=0.02)


def test_synthetic_records_lack_values_as_often():
    X, y = table(20_000)
    frame = pd.DataFrame(X, columns=["a", "b"])
    fitted = model(5.0).fit(frame, y)
    drawn, _ = fitted.sample(20_000, random_state=1)
    assert list(drawn.columns) == ["a", "b"]
    np.testing.assert_allclose(drawn.isna().mean(), 0.3, atol=0.02)
    assert set(drawn["a"].dropna()) == {0.0, 1.0, 2.0}
    loaded = load_json(to_json(fitted))
    np.testing.assert_array_equal(loaded.predict_proba(frame), fitted.predict_proba(frame))


def test_elsewhere_the_error_names_the_imputer_that_learns_nothing():
    X, y = table(100)
    number = {"distribution": "gaussian", "bounds": (0, 3), "categories": None, "missing": False}
    for refused in (model(missing=False), model(**number), model(categories=None, missing=False)):
        with pytest.raises(ValueError, match=r"NaN.*strategy='constant'.*learns nothing"):
            refused.fit(X, y)
    fitted = model(missing=False).fit(np.nan_to_num(X), y)
    with pytest.raises(ValueError, match="NaN"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="missing has no effect"):
        LaplaceNaiveBayes(missing=True, binarize=0.5).fit(np.nan_to_num(X), y)
    with pytest.raises(ValueError, match="does not take missing"):
        model(mechanism="ops").fit(X, y)


def test_the_code_of_a_missing_value_is_not_a_value():
    X, y = table(100)
    X[3, 0] = 3.0  # what missing values of this column are counted as
    with pytest.raises(ValueError, match=r"0, \.\.\., 2: categories says that the column has 3"):
        model().fit(X, y)
