"""DPSGLDClassifier: posteriors without noise, every option, clear errors."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    BoundsScaler,
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    OPSLogisticRegression,
    PrivacyLedger,
)
from skdpbayes.datasets import make_census
from skdpbayes.exceptions import BudgetExceededError, CalibrationError
from tests.contract import chain_around_the_mode, linear_data

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")


def blobs(n=600, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    centers = 0.6 * np.column_stack(
        [np.cos(2.1 * np.arange(n_classes)), np.sin(2.1 * np.arange(n_classes))]
    )
    return centers[y] + 0.2 * rng.normal(size=(n, 2)), y


@pytest.mark.parametrize(
    "params",
    [
        {"sampler": "sghmc", "n_steps": 3000},
        {"sampler": "sgnht", "n_steps": 3000},
        {"sampler": "sgfs"},
        {"sampler": "sgld", "preconditioner": np.eye(3) / 9},
        {"sampler": "sgld", "preconditioner": None, "n_steps": 4000},
        {"sampler": "sgld", "prior": "normal", "prior_scale": (10.0, 20.0), "n_steps": 4000},
    ],
    ids=lambda params: f"{params['sampler']}-{len(params)}",
)
def test_every_sampler_finds_the_posterior_without_noise(params):
    X, y = linear_data()
    model = DPSGLDClassifier(epsilon=np.inf, random_state=0, **params).fit(X, y)
    if params["sampler"] in ("sgnht", "sgfs"):  # nothing tells the temperature of these
        with pytest.raises(AttributeError, match="temperature_"):  # the last that is looked at
            chain_around_the_mode(model, X, y)
        return
    if "prior" not in params:
        chain_around_the_mode(model, X, y)
        return
    rows = np.column_stack([X, np.full(len(X), 2.0)]) * np.where(y == "yes", 1.0, -1.0)[:, None]
    best = minimize(lambda t: np.logaddexp(0, -rows @ t).sum() + t @ t / 200.0, np.zeros(4)).x
    np.testing.assert_allclose(model.coef_[0], best[:3], atol=0.5)
    np.testing.assert_allclose(model.intercept_, 2.0 * best[3:], atol=0.2)


def test_without_privacy_the_posterior_is_that_of_the_rows_as_they_are():
    """Rows longer than data_norm, features of very different size; a normal posterior's spread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4)) * [3.0, 1.0, 0.1, 0.01] + [1.0, 0.0, 2.0, 0.0]
    y = rng.random(2000) < 1 / (1 + np.exp(-(X[:, 0] - X[:, 1])))
    rows = np.column_stack([X, np.ones(len(X))])
    signed = np.where(y, 1.0, -1.0)[:, None] * rows
    best = minimize(lambda t: np.logaddexp(0, -signed @ t).sum() + t @ t / 8.0, np.zeros(5)).x
    p = 1 / (1 + np.exp(-rows @ best))
    covariance = np.linalg.inv((rows.T * (p * (1 - p))) @ rows + np.eye(5) / 4.0)
    deviation = np.sqrt(np.diag(covariance))
    for form in (np.asarray, sparse.csr_matrix):
        model = DPSGLDClassifier(
            np.inf, prior="normal", prior_scale=2.0, n_steps=6000, n_kept=3000, random_state=0
        )
        draws = model.fit(form(X), y).sample_posterior()
        thetas = np.column_stack([draws["coef"][:, 0], draws["intercept"]])
        assert np.all(np.abs(thetas.mean(0) - best) < 0.2 * deviation)
        np.testing.assert_allclose(thetas.std(axis=0), deviation, rtol=0.2)


@pytest.mark.parametrize("norm", [None, 1.0])
def test_no_privacy_wins_or_ties_in_a_search_over_epsilon(norm):
    X, y = load_breast_cancer(return_X_y=True)
    scaler = BoundsScaler(np.column_stack([X.min(axis=0), X.max(axis=0)]), norm=norm)
    model = make_pipeline(scaler, DPSGLDClassifier(random_state=0))
    epsilons = [1.0, 5.0, 50.0, np.inf]
    search = GridSearchCV(model, {"dpsgldclassifier__epsilon": epsilons}, cv=5).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[-1] == scores.max()
    assert scores[-1] > 0.96


def test_average_is_close_to_the_plain_model_and_better_than_a_draw():
    X, y = make_census(8000, encoding="raw", return_X_y=True, random_state=0)
    plain = LogisticRegression(C=10.0, max_iter=1000).fit(X[:6000], y[:6000])
    target = plain.score(X[6000:], y[6000:])
    scores, losses, drawn_losses = [], [], []
    for seed in range(3):
        fitted = DPSGLDClassifier(epsilon=3.0, adjacency="zero_out", random_state=seed)
        fitted.fit(X[:6000], y[:6000])
        scores.append(fitted.score(X[6000:], y[6000:]))
        losses.append(log_loss(y[6000:], fitted.predict_proba(X[6000:])))
        draws = fitted.sample_posterior(20, random_state=0)
        for coef, intercept in zip(draws["coef"], draws["intercept"], strict=True):
            odds = np.clip(X[6000:] @ coef[0] + intercept[0], -500, 500)
            drawn_losses.append(log_loss(y[6000:], 1.0 / (1.0 + np.exp(-odds))))
    assert np.mean(scores) > target - 0.03
    assert np.mean(losses) < np.mean(drawn_losses)


def test_a_share_for_the_moments_is_spent_whatever_they_are_worth():
    plans = {
        share: DPSGLDClassifier(preconditioner=share).plan(100, 20).plan
        for share in ("auto", 0.2, 0.5, None)
    }
    # so few records that noise would hide the moments
    assert plans["auto"].moments_mu == plans[None].moments_mu == 0.0
    assert 0.0 < plans[0.2].moments_mu < plans[0.5].moments_mu
    assert plans[None].chain.noise_multiplier < plans[0.2].chain.noise_multiplier
    assert plans[0.2].chain.noise_multiplier < plans[0.5].chain.noise_multiplier
    # with enough of them "auto" is a fifth
    auto, fifth = (DPSGLDClassifier(preconditioner=p).plan(10**4, 20).plan for p in ("auto", 0.2))
    assert auto.moments_mu == fifth.moments_mu > 0.0
    with pytest.raises(ValueError, match="4097 columns"):
        DPSGLDClassifier(preconditioner=0.2).plan(10**6, 4097)


def test_one_scale_is_that_of_every_prior():
    X, y = linear_data()
    params = {"n_steps": 20, "random_state": 0}
    for prior in ("cauchy", "normal"):
        one, pair, other = (
            DPSGLDClassifier(prior=prior, prior_scale=scale, **params).fit(X, y).coef_
            for scale in (0.1, (0.1, 0.1), (0.1, 0.01))
        )
        np.testing.assert_array_equal(one, pair)
        assert np.any(one != other)


def test_three_classes_and_sparse_rows():
    X, y = blobs()
    dense = DPSGLDClassifier(epsilon=5.0, n_steps=40, random_state=3).fit(X, y)
    assert dense.score(X, y) > 0.9
    assert dense.coef_.shape == (3, 2)
    compressed = DPSGLDClassifier(epsilon=5.0, n_steps=40, random_state=3).fit(
        sparse.csr_matrix(X), y
    )
    np.testing.assert_allclose(compressed.coef_, dense.coef_, rtol=1e-6)
    batches = {"batch_size": 100, "subsampling": "fixed", "n_steps": 60}
    sampled = [
        DPSGLDClassifier(epsilon=5.0, random_state=3, **batches).fit(rows, y)
        for rows in (X, sparse.csr_matrix(X))
    ]
    np.testing.assert_allclose(sampled[0].coef_, sampled[1].coef_, rtol=1e-6)


@pytest.mark.parametrize("sampler", ["sgld", "sghmc", "sgnht", "sgfs"])
@pytest.mark.parametrize("batch_size", ["auto", 120])
def test_every_sampler_runs_within_its_budget(sampler, batch_size, tmp_path):
    X, y = blobs(n_classes=2)
    ledger = PrivacyLedger(tmp_path / "b.sqlite", epsilon=2.0, delta=1e-4, adjacency="zero_out")
    model = DPSGLDClassifier(
        epsilon=2.0,
        delta=1e-4,
        adjacency="zero_out",
        sampler=sampler,
        batch_size=batch_size,
        n_steps=50,
        ledger=ledger,
        random_state=0,
    ).fit(X, y)
    assert model.privacy_.epsilon_at(1e-4) <= 2.0 + 1e-9
    assert ledger.remaining_epsilon() < 0.01
    assert hasattr(model, "temperature_") == (sampler in ("sgld", "sghmc"))
    assert getattr(model, "temperature_", 2.0) > 1.0
    assert model.score(X, y) > 0.5


def test_schedules():
    X, y = blobs(n_classes=2)
    for schedule in ("cube_root", (10.0, 0.5)):
        sampler = {"kind": "sgld", "schedule": schedule}
        model = DPSGLDClassifier(epsilon=5.0, sampler=sampler, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.9


def test_given_small_steps_are_private_for_free():
    X, y = blobs(n_classes=2)
    model = DPSGLDClassifier(
        epsilon=2.0, preconditioner=None, step_size=1e-5, n_steps=20, random_state=0
    ).fit(X, y)
    assert model.plan(*X.shape).plan.chain.noise_multiplier == 0.0
    assert model.noise_.scale == pytest.approx(np.sqrt(2.0 / 1e-5))  # the sampler's own
    assert model.temperature_ == pytest.approx(1.0, rel=1e-4)
    assert model.privacy_.epsilon_at(1e-5) < 2.0


def test_the_start_is_a_released_model():
    X, y = make_census(3000, encoding="raw", return_X_y=True, random_state=0)
    first = OPSLogisticRegression(epsilon=1.0, random_state=1).fit(X, y)
    params = {"n_steps": 1, "step_size": 1e-12, "preconditioner": None, "random_state": 0}
    model = DPSGLDClassifier(start=first, **params).fit(X, y)
    np.testing.assert_allclose(model.coef_, first.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, first.intercept_, atol=1e-4)
    assert model.privacy_.conditions == ()
    assert model.privacy_.epsilon == 1.0
    released = DPSGLDClassifier(start=first, n_steps=1, step_size=1e-12, random_state=0).fit(X, y)
    np.testing.assert_allclose(released.coef_, first.coef_, atol=0.05)
    # whoever starts from anything else says that it is public
    plain = LogisticRegression().fit(X[:100], y[:100])
    not_private = DPSGLDClassifier(np.inf, n_steps=10, random_state=0).fit(X, y)
    for other in (plain, not_private):
        public = DPSGLDClassifier(start=other, **params).fit(X, y)
        assert f"{type(other).__name__} that" in public.privacy_.conditions[0]
    # a search clones its parameters, and a clone is not fitted
    with pytest.raises(ValueError, match="FrozenEstimator"):
        clone(DPSGLDClassifier(start=plain)).fit(X, y)
    frozen = clone(DPSGLDClassifier(start=FrozenEstimator(first), **params)).fit(X, y)
    np.testing.assert_array_equal(frozen.coef_, model.coef_)
    assert frozen.privacy_.conditions == ()


@pytest.mark.parametrize(
    ("columns", "labels", "params", "message"),
    [
        (2, ["no", "yes"], {}, "shape"),
        (3, ["no", "unknown"], {}, "labels"),
        (3, ["no", "yes"], {"fit_intercept": False}, "fit_intercept"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(columns, labels, params, message, tmp_path):
    X, y = linear_data()
    other = np.asarray(labels)[(y == "yes").astype(int)]
    start = LogisticRegression().fit(X[:, :columns], other)
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=10.0, delta=1e-3)
    with pytest.raises(ValueError, match=message):
        DPSGLDClassifier(start=start, ledger=ledger, **params).fit(X, y)
    assert not list(ledger.entries())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_rows_are_bounded_alike_in_fit_and_predict(form):
    X, y = linear_data()
    cut = X * np.minimum(1.0, 0.25 / np.linalg.norm(X, axis=1))[:, None]
    params = {"data_norm": 0.25, "n_steps": 20, "random_state": 0}
    model = DPSGLDClassifier(**params).fit(form(X), y)
    again = DPSGLDClassifier(**params).fit(form(cut), y)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-4)
    for method in ("predict_proba", "decision_function"):
        of_rows, of_cut = (getattr(model, method)(form(rows)) for rows in (X, cut))
        np.testing.assert_allclose(of_rows, of_cut, rtol=1e-6)
    assert model.score(form(X), y) == model.score(form(cut), y)
    # without privacy rows are taken as they are
    free = DPSGLDClassifier(np.inf, **params).fit(form(X), y)
    gap = free.decision_function(form(X)) - free.decision_function(form(cut))
    assert np.abs(gap).max() > 0.1


def test_parameters_set_after_a_fit_do_not_change_it():
    X, y = linear_data()
    model = DPSGLDClassifier(random_state=0).fit(X, y)
    before = model.predict_proba(X), model.sample_posterior(posterior="chain")["coef"]
    model.set_params(data_norm=0.1, prior_scale=9.0, fit_intercept=False, n_kept=3, tail=0.1)
    np.testing.assert_array_equal(model.predict_proba(X), before[0])
    np.testing.assert_array_equal(model.sample_posterior(posterior="chain")["coef"], before[1])


@pytest.mark.parametrize("make", [DPSGLDClassifier, DPSGLDNetworkClassifier])
def test_a_refused_fit_leaves_the_model_as_it_was(make, tmp_path):
    X, y = linear_data()
    model = make(n_steps=10, random_state=0).fit(X, y)
    before = {name: value for name, value in vars(model).items() if name not in model.get_params()}
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=0.1, delta=1e-3)
    for params in ({"epsilon": -1.0}, {"n_steps": 0}, {"epsilon": 1.0, "ledger": ledger}):
        model.set_params(**params)
        with pytest.raises((ValueError, BudgetExceededError)):
            model.fit(X[:, :2], y)
        model.set_params(epsilon=1.0, n_steps=10, ledger=None)
        assert vars(model).keys() == before.keys() | model.get_params().keys()
        assert all(vars(model)[name] is value for name, value in before.items())
    with pytest.raises(ValueError, match="Input X holds text"):
        model.set_params(ledger=ledger).fit([["a", "b"]] * len(y), y)
    assert not list(ledger.entries())


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("make", [DPSGLDClassifier, DPSGLDNetworkClassifier])
def test_a_frame_is_predicted_without_a_warning(make):
    X, y = linear_data()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = make(n_steps=10, random_state=0).fit(frame, y)
    for method in ("predict", "predict_proba", "decision_function"):
        np.testing.assert_array_equal(
            getattr(model, method)(frame),
            getattr(make(n_steps=10, random_state=0).fit(X, y), method)(X),
        )


def test_more_draws_than_kept_is_an_error():
    X, y = linear_data()
    model = DPSGLDClassifier(n_kept=5, random_state=0).fit(X, y)
    chosen = model.sample_posterior(3, random_state=0, posterior="chain")
    assert chosen["coef"].shape == (3, 1, 3)
    with pytest.raises(ValueError, match="n_kept=6"):
        model.sample_posterior(6, posterior="chain")


def test_half_of_the_chain_is_left_out():
    X, y = linear_data()
    model = DPSGLDClassifier(n_steps=40, n_kept=40, random_state=0).fit(X, y)
    assert len(model.sample_posterior(posterior="chain")["coef"]) == 20


@pytest.mark.parametrize(
    ("make", "params"),
    [(DPSGLDClassifier, {}), (DPSGLDNetworkClassifier, {"hidden_layer_sizes": (8,)})],
)
def test_memory_does_not_grow_with_the_steps(make, params):
    """The largest memory in use during a fit."""
    X, y = make_census(2000, encoding="raw", return_X_y=True, random_state=0)
    params = params | {"batch_size": 100, "n_kept": 10, "tail": 0.5}
    peaks = []
    for n_steps in (20, 1500, 6000):  # noise and batches come in blocks: 1500 steps fill one
        model = make(epsilon=np.inf, clip_norm=1.0, n_steps=n_steps, random_state=0, **params)
        tracemalloc.start()
        model.fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert all(len(draws) == 10 for draws in model.sample_posterior().values())
    assert peaks[2] - peaks[1] < 2.0 * 4500  # bytes: not even a number per step


def scheduled(schedule):
    return {"sampler": {"kind": "sgld", "schedule": schedule}}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"delta": 0.0}, "chain adds Gaussian noise"),
        (scheduled(3), "schedule"),
        ({"prior_scale": "Auto"}, "prior_scale"),
        ({"fit_intercept": "yes"}, "fit_intercept"),
        ({"prior": "laplace"}, "prior"),
        ({"prior_scale": 0.0}, "prior_scale"),
        ({"prior_scale": (1.0, 2.0, 3.0)}, "prior_scale"),
        ({"prior_scale": (1.0, 2.0), "fit_intercept": False}, "fit_intercept"),
        ({"sampler": {"friction": 1.0}}, "kind"),
        ({"sampler": {"kind": "sghmc", "mass": 1.0}}, "mass"),
        ({"sampler": {"kind": "sgld", "friction": 1.0}}, "no effect"),
        ({"sampler": 3}, "sampler"),
        ({"sampler": "mala"}, "sampler"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 401}, "batch_size"),
        ({"n_steps": 0}, "n_steps"),
        ({"clip_norm": -1.0}, "clip_norm"),
        ({"clip_norm": 1e300}, "clip_norm"),
        ({"step_size": 1e-300}, "step_size"),
        (scheduled((0.0, 400.0)), "schedule"),
        (scheduled("linear"), "schedule"),
        (scheduled((-1.0, 0.5)), "schedule"),
        ({"preconditioner": np.eye(2)}, "preconditioner"),
        ({"preconditioner": "fisher"}, "preconditioner"),
        ({"preconditioner": 1.0}, "preconditioner"),
        ({"tail": 0.0}, "tail"),
        ({"sampler": {"kind": "sgnht", "temperature": 0.5}}, "no effect"),
        (scheduled((np.inf, 1.0)), "schedule"),
        ({"step_size": 1e-17}, "step_size"),
    ],
)
def test_bad_parameters_are_named_and_not_charged(params, message, tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "ledger.sqlite", epsilon=10.0, delta=1e-3)
    with pytest.raises((ValueError, TypeError, CalibrationError), match=message):
        DPSGLDClassifier(**params, ledger=ledger).fit(X, y)
    assert not list(ledger.entries())


@pytest.mark.parametrize("sampler", ["sgld", "sghmc"])
@pytest.mark.parametrize("preconditioner", [None, "auto"])
@pytest.mark.parametrize("C", [1e-5, 3e-4])
def test_strong_priors_do_not_make_the_chain_diverge(C, preconditioner, sampler):
    X, y = linear_data(5000)
    plain = LogisticRegression(C=C).fit(X, y)
    model = DPSGLDClassifier(
        epsilon=5.0,
        prior="normal",
        prior_scale=C**0.5,
        preconditioner=preconditioner,
        sampler=sampler,
        random_state=0,
    ).fit(X, y)
    size = np.linalg.norm(plain.coef_)
    assert 0.3 * size < np.linalg.norm(model.coef_) < 3.0 * size
