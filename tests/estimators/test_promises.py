"""What no estimator may do again, one group of tests per defect that was once found.

All run over ``tests.contract.CASES``; each was seen to fail on a variant with the defect, and the
variants that are cheap stay here (``test_..._is_noticed``).
"""

from __future__ import annotations

import pickle
import traceback
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone, is_classifier
from threadpoolctl import threadpool_limits

from skdpbayes import PrivacyLedger, PrivateBoundsScaler
from skdpbayes.exceptions import BudgetExceededError, CalibrationError
from skdpbayes.fitting import records
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.estimator import SPENT
from skdpbayes.privacy import PureDP
from tests.contract import (
    CASES,
    OF_THE_RUN,
    PREDICTIONS,
    fitted_state,
    listed_choices,
    observed,
    same,
    same_state,
    second_value,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def ledger_in(tmp_path, epsilon=100.0):
    return PrivacyLedger(tmp_path / "budget.sqlite", epsilon=epsilon, delta=0.1)


# 1. Predictions for the frame of the fit warn of nothing.


@each_case
def test_a_frame_is_predicted_without_a_warning(case):
    X, y = case.data()
    frame = pd.DataFrame(X, columns=[f"column_{j}" for j in range(X.shape[1])])
    fitted = case.build(random_state=0).fit(frame, y)
    plain = case.build(random_state=0).fit(X, y)
    offered = [name for name in PREDICTIONS if hasattr(fitted, name)]
    assert "predict" in offered
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in offered:
            assert same(getattr(fitted, name)(frame), getattr(plain, name)(X)), name
        fitted.score(frame, y)


# 2. A refused or failed fit leaves the object as it was; 3. invalid input charges nothing.


def wider(X):
    """The same rows with a column more, so that a mixed object would show."""
    return np.column_stack([X, X[:, :1]])


@each_case
def test_a_refused_fit_changes_nothing_and_charges_nothing(case, tmp_path):
    X, y = case.data()
    ledger = ledger_in(tmp_path)
    fitted = case.build(random_state=0, ledger=ledger).fit(X, y)
    before = observed(fitted, X)
    assert len(ledger.entries()) == 1
    broken = wider(X).astype(float)
    broken[3, 1] = np.nan
    words = wider(X).astype(object)
    words[3, 1] = "word"
    tables = {
        "NaN": (broken, y),
        "infinity": (np.where(np.isnan(broken), np.inf, broken), y),
        "text": (words, y),
        "no rows": (wider(X)[:0], y[:0]),
        "one dimension": (X[:, 0], y),
    }
    if case.data.__name__ != "event_rows":  # sequences have no labels
        tables |= {"labels missing": (wider(X), y[:-1])}
    if is_classifier(fitted):
        tables |= {"one class": (wider(X), np.full(len(y), y[0]))}
        tables |= {"continuous labels": (wider(X), np.linspace(0.0, 1.0, len(y)))}
    for name, table in tables.items():
        with pytest.raises((ValueError, TypeError)):
            fitted.fit(*table)
        assert same_state(observed(fitted, X), before), name
    for params in ({"epsilon": -1.0}, {"adjacency": "other"}, {"random_state": "seed"}):
        good = {name: fitted.get_params()[name] for name in params}
        with pytest.raises((ValueError, TypeError)):
            fitted.set_params(**params).fit(X[: len(X) // 2], y[: len(y) // 2])
        assert same_state(observed(fitted.set_params(**good), X), before), params
    assert len(ledger.entries()) == 1


@each_case
def test_an_overdrawn_ledger_leaves_the_earlier_fit(case, tmp_path):
    X, y = case.data()
    fitted = case.build(random_state=0).fit(X, y)
    before = observed(fitted, X)
    ledger = ledger_in(tmp_path, epsilon=0.1)
    with pytest.raises(BudgetExceededError):
        fitted.set_params(ledger=ledger, epsilon=2.0).fit(X[::2], y[::2])
    assert same_state(observed(fitted, X), before)
    assert not ledger.entries()


@each_case
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_after_the_charge_leaves_the_earlier_fit_and_says_so(
    case, error, tmp_path, monkeypatch
):
    X, y = case.data()
    ledger = ledger_in(tmp_path)
    fitted = case.build(random_state=0, ledger=ledger).fit(X, y)
    before = observed(fitted, X)
    touch = case.make._touch

    def interrupted(self, rows, plan, generator):
        touch(self, rows, plan, generator)
        raise error("in the midst of it")

    monkeypatch.setattr(case.make, "_touch", interrupted)
    with pytest.raises(error, match="in the midst") as raised:
        fitted.set_params(epsilon=2.0).fit(X[::2], y[::2])
    assert SPENT in raised.value.__notes__
    assert same_state(observed(fitted, X), before)
    assert len(ledger.entries()) == 2


# 4. No parameter is ignored in silence: it changes what a caller sees, or is refused by name.


def settings_of(case):
    """The default, every choice of the docstring, a pure budget, and the case's own modes."""
    default = case.build().get_params()
    modes = [{}, *case.modes]
    for name, values in listed_choices(case.make).items():
        modes += [
            {name: v} for v in values if name != "adjacency" and v not in ("auto", default[name])
        ]
    if default["delta"] > 0.0:
        modes.append({"delta": 0.0})
    return modes


MODES = [
    pytest.param(case, mode, marks=[pytest.mark.slow] if mode else [], id=f"{case.name} {mode}")
    for case in CASES
    for mode in settings_of(case)
]


def rows_for(mode, X):
    """Rows of a case; counts where the distribution needs them."""
    counted = mode.get("distribution") in ("categorical", "multinomial")
    return (X > 0).astype(int) + (X > 0.3) if counted else X


def ignored_parameters(case, mode, make=None):
    """Parameters that change nothing of a fit under ``mode`` and are not refused either."""
    X, y = case.data()
    X = rows_for(mode, X)
    params = {"delta": 1e-5} if mode.get("mechanism") == "gaussian" else {}
    params = {**case.params, **case.quick, **params, **mode, "random_state": 1}
    make = make or case.make
    try:
        seen = observed(make(**params).fit(X, y), X)
    except (ValueError, TypeError) as error:  # choices that need others, and say which
        if not any(name in str(error) for name in mode):
            raise
        return set()
    ignored = set()
    for name, first in make(**params).get_params().items():
        if name in OF_THE_RUN or name in mode:
            continue
        # a choice by name may be what "auto" has chosen: another one is not
        values = [v for v in listed_choices(case.make).get(name, ()) if v not in (first, "auto")]
        values = values if first == "auto" and values else [second_value(case, name, first)]
        with_batches = {"batch_size": 50} if name == "subsampling" else {}
        base = observed(make(**params, **with_batches).fit(X, y), X) if with_batches else seen
        if not any(
            _counts(make(**{**params, **with_batches, name: v}), X, y, name, base) for v in values
        ):
            ignored.add(name)
    return ignored


def _counts(estimator, X, y, name, seen):
    """Tell whether a fit differs from what was seen, or is refused by name."""
    try:
        return not same_state(observed(estimator.fit(X, y), X), seen)
    except (ValueError, TypeError) as error:
        return name in str(error) or str(estimator.get_params()[name]) in str(error)


@pytest.mark.parametrize(("case", "mode"), MODES)
def test_every_parameter_counts_or_is_refused(case, mode):
    assert ignored_parameters(case, mode) == set()


def test_a_parameter_without_effect_is_noticed():
    case = next(case for case in CASES if case.name == "PrivateBayesianRidge")

    class Deaf(case.make):
        def fit(self, X, y=None):
            self.delta, kept = case.make().delta, self.delta
            super().fit(X, y)
            self.delta = kept
            return self

    Deaf.__init__ = case.make.__init__
    Deaf.__doc__ = case.make.__doc__
    assert ignored_parameters(case, {}, Deaf) == {"delta"}


# 5. Parameters set after a fit do not change it.


@each_case
def test_parameters_set_after_a_fit_do_not_change_it(case):
    X, y = case.data()
    for mode in ({}, *case.modes):
        rows = rows_for(mode, X)
        params = {"delta": 1e-5} if mode.get("mechanism") == "gaussian" else {}
        fitted = case.build(**case.quick, **params, **mode, random_state=0).fit(rows, y)
        before, stored = observed(fitted, rows), pickle.dumps(fitted._posterior)
        first = {k: v for k, v in fitted.get_params().items() if k not in OF_THE_RUN}
        fitted.set_params(**{k: second_value(case, k, v) for k, v in first.items()})
        assert same_state(observed(fitted, rows), before)
        fitted.set_params(**first)
        assert pickle.dumps(fitted._posterior) == stored


# 8. No claim without the check that the event proves it.


@each_case
def test_a_plan_that_does_not_prove_the_claim_is_refused(case, tmp_path, monkeypatch):
    X, y = case.data()
    ledger = ledger_in(tmp_path)
    honest = case.make._plan
    fitted = case.build(ledger=ledger, random_state=0)

    class Costly:
        """The plan of the estimator with an event that costs more than was asked for."""

        def __init__(self, plan):
            self.plan = plan
            self.event = PureDP(1.01)

        def __getattr__(self, name):
            return getattr(self.plan, name)

    monkeypatch.setattr(case.make, "_plan", lambda *given: Costly(honest(*given)))
    touched = []
    monkeypatch.setattr(case.make, "_touch", lambda *given: touched.append(given))
    with pytest.raises(CalibrationError):
        fitted.fit(X, y)
    assert not touched
    assert not ledger.entries()
    assert not hasattr(fitted, "privacy_")


# 9. Rows are bounded in every prediction as in fit, and not at all without privacy.


def bounded(case, estimator, X):
    """The rows that a fit of ``estimator`` is about, by a few lines of NumPy."""
    if getattr(estimator, "bounds", None) is not None:
        return np.clip(X, *estimator.bounds)
    if getattr(estimator, "nonnegative", False):
        X = np.maximum(X, 0.0)
    return (
        X
        * np.minimum(1.0, estimator.data_norm / np.maximum(np.linalg.norm(X, axis=1), 1e-9))[
            :, None
        ]
    )


BOUNDED = [
    (case, params)
    for case in CASES
    if not case.codes
    for params in (
        {"data_norm": 0.3},
        {"data_norm": 0.3, "nonnegative": True},
        {"distribution": "gaussian", "bounds": (-0.2, 0.3)},
    )
    if set(params) <= set(case.make().get_params())
]


def gap(fitted, X, other):
    """Largest difference of any prediction, on the scale of the prediction."""
    gaps = []
    for name in PREDICTIONS:
        if name != "predict" and hasattr(fitted, name):
            a, b = getattr(fitted, name)(X), getattr(fitted, name)(other)
            gaps.append(np.max(np.abs(a - b) / (np.abs(a) + 1.0)))
    if not is_classifier(fitted):
        gaps.append(np.max(np.abs(fitted.predict(X) - fitted.predict(other))))
    return max(gaps)


@pytest.mark.parametrize(("case", "params"), BOUNDED, ids=lambda value: getattr(value, "name", ""))
def test_rows_are_bounded_alike_in_fit_and_in_every_prediction(case, params):
    X, y = case.data()
    rows = 10.0 * X
    model = case.build(**params, random_state=0)
    short = bounded(case, model, rows)
    assert np.mean(np.any(rows != short, axis=1)) > 0.9
    fitted = model.fit(rows, y)
    assert gap(fitted, rows, short) < 1e-6
    assert fitted.score(rows, y) == pytest.approx(fitted.score(short, y), abs=1e-9)
    again = clone(model).set_params(random_state=0).fit(short, y)
    assert gap(again, rows, short) < 1e-6
    for name in PREDICTIONS:
        if hasattr(fitted, name) and name != "predict":
            np.testing.assert_allclose(
                getattr(again, name)(short), getattr(fitted, name)(short), rtol=1e-3, atol=1e-6
            )
    free = case.build(**params, epsilon=np.inf, random_state=0).fit(rows, y)
    assert gap(free, rows, short) > 1e-3


def test_rows_that_only_fit_bounds_are_noticed(monkeypatch):
    for case, params in BOUNDED:
        X, y = case.data()
        fitted = case.build(**case.quick, **params, random_state=0).fit(10.0 * X, y)
        with monkeypatch.context() as forgetful:
            forgetful.setattr(Bound, "__call__", lambda self, X: X)
            assert gap(fitted, 10.0 * X, bounded(case, fitted, 10.0 * X)) > 1e-3


@each_case
def test_a_table_without_a_scaler_does_not_score_below_the_majority(case):
    """Columns in their own units: nearly all rows are cut; with much budget that is no disaster."""
    if not is_classifier(case.make()):
        pytest.skip("labels only")
    rng = np.random.default_rng(0)
    n = 3000
    y = rng.random(n) < 0.3
    X = np.column_stack(
        [rng.uniform(18, 90, n), rng.uniform(0, 60, n) + 8 * y, rng.lognormal(5 + y, 1.0)]
    )
    fitted = case.build(epsilon=20.0, delta=1e-6 if case.make().delta else 0.0, random_state=0)
    assert fitted.fit(X, y).score(X, y) >= 0.69


# 10. A value that a parameter does not take is refused by the parameter's name.


class Odd:
    """No number, no string, no sequence."""


NONSENSE = ["Auto", -1, 2.5, float("nan"), (), {"a": 1}, Odd(), b"x", np.array([1.0, 2.0]), 1j, 3]


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case in CASES for name in case.make().get_params()],
    ids=lambda value: getattr(value, "name", value),
)
def test_nonsense_is_refused_by_the_name_of_the_parameter(case, name):
    X, y = case.data()
    unnamed, refused = {}, 0
    for value in NONSENSE:
        try:
            case.build(**{**case.quick, "random_state": 0, name: value}).fit(X, y)
        except (ValueError, TypeError) as error:
            refused += 1
            if name not in str(error):
                unnamed[repr(value)] = str(error)
    assert not unnamed
    assert refused


@each_case
def test_text_columns_are_refused_with_a_remedy_and_no_value_is_quoted(case, tmp_path):
    X, y = case.data()
    frame = pd.DataFrame(X).astype(object)
    frame[1] = "somebody's"
    ledger = ledger_in(tmp_path)
    with pytest.raises((ValueError, TypeError)) as raised:
        case.build(ledger=ledger).fit(frame, y)
    assert "categories" in str(raised.value)
    assert "somebody" not in "".join(traceback.format_exception(raised.value))
    assert not ledger.entries()


# The scaler that releases bounds is no estimator of CASES and keeps the same promises.


def test_private_bounds_keep_the_promises(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(4000, 2))
    ledger = ledger_in(tmp_path)
    scaler = PrivateBoundsScaler(random_state=0, ledger=ledger).fit(X)
    before = scaler.transform(X)
    state = {name: value for name, value in vars(scaler).items() if name.endswith("_")}
    with pytest.raises(ValueError, match="NaN"):
        scaler.fit(np.where(X > 2.0, np.nan, X))
    assert len(ledger.entries()) == 1

    def interrupted(self, rows, plan, generator):
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateBoundsScaler, "_touch", interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        scaler.fit(X[:2000])
    assert SPENT in raised.value.__notes__
    assert all(vars(scaler)[name] is value for name, value in state.items())
    assert same(scaler.transform(X), before)


# Sums are exact: neither blocks, nor the order of rows, nor threads change a bit of a fit.


SAMPLED = {"DPSGLDNetworkClassifier"}  # batches are drawn by position: another order, another batch


@each_case
def test_blocks_order_and_threads_do_not_change_a_bit(case, monkeypatch):
    X, y = case.data()

    def seen(rows, target):
        return observed(case.build(**case.quick, random_state=3).fit(rows, target), X)

    expected = seen(X, y)
    for n_blocks in (2, 7):
        size = 8 * X.shape[1] * -(-len(X) // n_blocks)
        monkeypatch.setattr(records, "BLOCK_BYTES", size)
        assert len(list(records.Records(None, X).blocks())) == n_blocks
        assert same_state(seen(X, y), expected), n_blocks
    with threadpool_limits(2):
        assert same_state(seen(X, y), expected)
    if case.name not in SAMPLED and not case.codes:  # rows of codes are steps of a sequence
        order = np.random.default_rng(0).permutation(len(X))
        assert same_state(seen(X[order], y[order]), expected)


@each_case
def test_single_precision_is_fitted_as_the_same_numbers_in_double(case):
    if case.codes:
        pytest.skip("codes are integers")
    X, y = case.data()
    for rows in (X.astype(np.float32), (4.0 * X).astype(np.float32)):  # short and long ones
        single, double = (
            fitted_state(case.build(**case.quick, random_state=3).fit(table, y))
            for table in (rows, rows.astype(np.float64))
        )
        assert same_state(single, double)


HELD = {  # copies that a fit holds, in tables of 32 bits
    "ObjPertLogisticRegression": 0.7,
    "LaplaceNaiveBayes": 0.7,
    "PrivateBayesianRidge": 0.7,
    # rows cut to the grid of the sums, for hundreds of passes
    "DPSGLDClassifier": 1.8,
    "DPSGLDRegressor": 1.8,
    "OPSLinearSVC": 1.8,
    "OPSLogisticRegression": 1.8,
}


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in HELD], ids=lambda case: case.name
)
def test_mapped_tables_of_single_precision_are_not_copied_whole(case, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BLOCK_BYTES", 1 << 18)
    # draws of a ridge's posterior take as much as a third of the table
    n, d = 60_000 if case.name == "PrivateBayesianRidge" else 20_000, 100
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", (rng.uniform(-1, 1, (n, d)) / d).astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    y = np.asarray(X[:, 0] > 0) if is_classifier(case.make()) else np.asarray(X[:, 0], float)
    model = case.build(**case.quick, random_state=0).fit(X[:500], y[:500])
    tracemalloc.start()
    model.fit(X, y)
    fit_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fit_peak < HELD[case.name] * X.nbytes


# A plan foretells the error of the noise.


@pytest.mark.parametrize(
    ("name", "params", "least"),
    [
        ("ObjPertLogisticRegression", {}, 0.02),
        ("ObjPertLogisticRegression", {"delta": 0.0}, 0.02),
        ("ObjPertLogisticRegression", {"mechanism": "output", "C": 0.1}, 0.02),
        ("OPSLogisticRegression", {"coef_norm": 3.0, "C": 1.0}, 0.2),
        ("OPSLogisticRegression", {"coef_norm": 3.0, "delta": 0.0}, 0.2),
    ],
)
def test_the_excess_loss_of_a_plan_bounds_that_of_fits(name, params, least):
    case = next(case for case in CASES if case.name == name)
    X, y = case.data()
    rows = np.column_stack([X, np.ones(len(X))]) * np.where(y == "yes", 1.0, -1.0)[:, None]
    plan = case.build(**params).plan(*X.shape)
    C = plan.numbers["C_"]

    def loss(theta):
        return np.logaddexp(0.0, -rows @ theta).sum() + theta @ theta / (2.0 * C)

    best = minimize(loss, np.zeros(4), method="BFGS").fun
    if "coef_norm" in params:  # the least one of the ball
        ball = {"type": "ineq", "fun": lambda theta: 9.0 - theta @ theta}
        best = minimize(loss, np.zeros(4), method="SLSQP", constraints=ball).fun
    excess = []
    for seed in range(60):
        fitted = case.build(**params, random_state=seed).fit(X, y)
        excess.append((loss(np.append(fitted.coef_, fitted.intercept_)) - best) / len(X))
    bound = plan.expected["excess_loss"]
    assert least * bound < np.mean(excess) <= bound + 2.0 * np.std(excess) / np.sqrt(60)
    assert "excess loss" in str(plan)
    assert "excess loss" in plan._repr_html_()
    if "mechanism" not in params:  # at a fixed C the noise on the minimizer stays
        assert case.build(**params).plan(100 * len(X), 3).expected["excess_loss"] < 0.3 * bound
    more = {"epsilon": 10.0}
    assert case.build(**params, **more).plan(*X.shape).expected["excess_loss"] < 0.8 * bound


def test_the_count_error_of_a_plan_is_that_of_fits():
    for name, exact_name, sizes in (
        ("LaplaceNaiveBayes", "statistics_", (400, 3)),
        ("PrivateHMM", "released_counts_", (120, 2)),
    ):
        case = next(case for case in CASES if case.name == name)
        X, y = case.data()
        exact = getattr(case.build(epsilon=np.inf, random_state=0).fit(X, y), exact_name)
        errors = [
            getattr(case.build(**case.quick, random_state=seed).fit(X, y), exact_name) - exact
            for seed in range(40)
        ]
        known = {"categories": [3, 2]} if name == "PrivateHMM" else {}
        foretold = case.build().plan(*sizes, **known).expected["count_error"]
        assert 0.85 < np.std(errors) / len(X) / foretold < 1.15
