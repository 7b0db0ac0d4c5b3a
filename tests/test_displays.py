"""Displays of the privacy-utility trade-off and of posteriors; the way to ArviZ."""

from __future__ import annotations

import sys
import types

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpbayes import BoundsScaler, LaplaceNaiveBayes, OPSLogisticRegression, PrivateHMM
from skdpbayes.plotting import PosteriorDisplay, PrivacyUtilityDisplay, to_arviz
from tests.contract import linear_data

mpl.use("Agg")

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_privacy_utility(scoring):
    X, y = linear_data(2000)
    display = PrivacyUtilityDisplay.from_estimator(
        LaplaceNaiveBayes(),
        X,
        y,
        epsilons=[0.003, 10.0],
        scoring=scoring,
        n_repeats=4,
        random_state=0,
    )
    assert display.scores.shape == (2, 4)
    better = np.greater if scoring == "accuracy" else np.less
    assert better(display.scores[1].mean(), display.scores[0].mean())
    assert abs(display.scores[1].mean() - display.reference) < 0.05
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == {"accuracy": "accuracy", "neg_log_loss": "log loss"}[scoring]
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels == ["LaplaceNaiveBayes", "LaplaceNaiveBayes, not private"]


def test_privacy_utility_of_a_pipeline_on_given_axes_and_test_data():
    X, y = linear_data()
    _, ax = plt.subplots()
    display = PrivacyUtilityDisplay.from_estimator(
        make_pipeline(BoundsScaler((-1.0, 1.0)), LaplaceNaiveBayes()),
        X,
        y,
        epsilons=[1.0],
        n_repeats=1,
        test_data=(X, y),
        reference=False,
        ax=ax,
        name="pipeline",
    )
    assert display.ax_ is ax
    assert display.reference is None
    with pytest.raises(TypeError, match="epsilon"):
        PrivacyUtilityDisplay.from_estimator(LogisticRegression(), X, y)
    with pytest.raises(ValueError, match="n_repeats"):
        PrivacyUtilityDisplay.from_estimator(LaplaceNaiveBayes(), X, y, n_repeats=0)


def test_posterior_intervals_are_quantiles_of_the_draws_in_order_of_effect():
    X, y = linear_data()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = OPSLogisticRegression(epsilon=50.0, n_draws=40, random_state=0).fit(frame, y)
    display = PosteriorDisplay.from_estimator(model, level=0.8, max_features=2)
    draws = model.sample_posterior()["coef"][:, 0]
    order = np.argsort(-np.abs(np.median(draws, axis=0)))[:2]
    assert display.names == [["a", "b", "c"][i] for i in order]
    np.testing.assert_array_equal(display.draws, draws[:, order])
    assert "80% interval" in display.ax_.get_xlabel()
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == display.names


def test_posterior_refuses_what_it_cannot_draw():
    X, y = linear_data()
    model = OPSLogisticRegression(random_state=0)
    with pytest.raises(NotFittedError):
        PosteriorDisplay.from_estimator(model)
    model.fit(X, y)
    with pytest.raises(ValueError, match="several draws"):
        PosteriorDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="'coef', 'intercept'"):
        PosteriorDisplay.from_estimator(model, parameter="slope")
    with pytest.raises(ValueError, match="level"):
        PosteriorDisplay.from_estimator(model, level=1.0)


def test_posterior_of_several_classes_names_them():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.choice(["x", "y", "z"], size=300)
    model = OPSLogisticRegression(epsilon=50.0, n_draws=5, random_state=0).fit(X, y)
    names = PosteriorDisplay.from_estimator(model).names
    assert sorted(names) == [f"x{j} ({label})" for j in range(2) for label in "xyz"]


class _Group:
    def __init__(self, posterior):
        self.posterior, self.attrs = posterior, {}


def _old_arviz():
    module = types.ModuleType("arviz")
    module.__version__ = "0.22.0"
    module.from_dict = lambda *, posterior: {"posterior": _Group(posterior)}
    return module


def _new_arviz():
    module = types.ModuleType("arviz")
    module.__version__ = "1.0.0"
    module.from_dict = lambda groups: {name: _Group(group) for name, group in groups.items()}
    return module


@pytest.mark.parametrize("make", [_old_arviz, _new_arviz])
def test_both_interfaces_of_arviz_are_called_as_documented(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", make())
    X, y = linear_data()
    model = OPSLogisticRegression(n_draws=3, random_state=0).fit(X, y)
    group = to_arviz(model)["posterior"]
    assert group.posterior["coef"].shape == (1, 3, 1, 3)
    assert group.attrs["privacy"] == str(model.privacy_)


def test_without_arviz_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"skdpbayes\[arviz\]"):
        to_arviz(LaplaceNaiveBayes())


def test_arviz_itself():
    pytest.importorskip("arviz")
    X, y = linear_data()
    model = LaplaceNaiveBayes(random_state=0).fit(X, y)
    data = to_arviz(model, n_samples=20, random_state=0)
    assert dict(data["posterior"].sizes)["draw"] == 20
    draws = model.sample_posterior(20, random_state=0)["class_prior"]
    np.testing.assert_array_equal(data["posterior"]["class_prior"].values[0], draws)
    assert data["posterior"].attrs["privacy"] == str(model.privacy_)
    events = np.random.default_rng(0).integers(2, size=(60, 2))
    chain = PrivateHMM(categories=2, n_states=2, n_iter=5, burn_in=2, random_state=0)
    states = to_arviz(chain.fit(events, times=np.arange(60) % 3, sequences=np.arange(60) % 2))
    assert dict(states["posterior"].sizes)["chain"] == 1
