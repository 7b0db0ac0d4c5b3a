"""Partial dependence without records."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from skdpbayes import BoundsScaler, ObjPertLogisticRegression, private_preprocessor

pytest.importorskip("matplotlib")

from skdpbayes.plotting import EffectDisplay


def fitted(numeric, n=20_000):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.uniform(20, 80, n), "sex": rng.choice(["f", "m"], n)})
    logit = 0.1 * np.abs(X["age"] - 50) - 1.5 + (X["sex"] == "m")  # a corner in the middle
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-logit))
    prepare = private_preprocessor(
        {"age": (20, 80)}, {"sex": ["f", "m"]}, numeric=numeric, n_knots=3
    )
    model = ObjPertLogisticRegression(50.0, 1e-6, random_state=0, C=1.0)
    return make_pipeline(prepare, model).fit(X, y), X


def test_the_curve_is_the_difference_of_predictions_and_the_band_holds_the_truth():
    pipeline, _ = fitted("spline")
    display = EffectDisplay.from_estimator(pipeline, "age", random_state=0)
    rows = pd.DataFrame({"age": display.values, "sex": "f"})
    predicted = pipeline.decision_function(rows)
    middle = np.median(display.draws, axis=0)
    spread = display.draws.std(axis=0).max()
    np.testing.assert_allclose(middle, predicted - predicted.mean(), atol=spread)
    truth = 0.1 * np.abs(display.values - 50)
    assert np.abs(middle - (truth - truth.mean())).max() < 0.4
    (line,) = display.ax_.lines[:1]
    np.testing.assert_array_equal(line.get_ydata(), middle)
    assert (display.values[0], display.values[-1]) == (20.0, 80.0)
    flat = EffectDisplay.from_estimator(fitted("linear")[0], "age", random_state=0)
    assert np.ptp(np.median(flat.draws, axis=0)) < 1.0  # a line cannot bend


def test_categories_have_a_mark_each():
    pipeline, _ = fitted("linear")
    display = EffectDisplay.from_estimator(pipeline, "sex", random_state=0)
    f, m = np.median(display.draws, axis=0)
    assert m - f == pytest.approx(1.0, abs=0.3)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["f", "m"]


def test_what_cannot_be_drawn_is_refused():
    pipeline, X = fitted("linear", 500)
    with pytest.raises(ValueError, match="did you mean 'age'"):
        EffectDisplay.from_estimator(pipeline, "agee")
    other = make_pipeline(BoundsScaler((20, 80)), ObjPertLogisticRegression())
    other.fit(X[["age"]], np.arange(500) % 2)
    with pytest.raises(TypeError, match="private_preprocessor"):
        EffectDisplay.from_estimator(other, "age")
