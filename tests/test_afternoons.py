"""What people hit who bring their own table: units, weights, frames, meta-estimators."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import has_fit_parameter

from skdpbayes import (
    BoundsScaler,
    DPSGLDClassifier,
    DPSGLDNetworkClassifier,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
    PrivacyLedger,
    PrivacyWarning,
    PrivateBayesianRidge,
    PrivateBoundsScaler,
    private_preprocessor,
)
from skdpbayes.exceptions import BudgetExceededError

LINEAR = [
    DPSGLDClassifier,
    ObjPertLogisticRegression,
    OPSLinearSVC,
    OPSLogisticRegression,
]
each_linear = pytest.mark.parametrize("make", LINEAR, ids=lambda make: make.__name__)
N = 400


def bank(n=N, seed=0):
    """A made-up bank-marketing table in the units in which such tables come."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "balance": rng.integers(-2000, 20_000, n),
            "duration": rng.integers(0, 3000, n),
        }
    )
    return table, np.where(rng.random(n) < table["duration"] / 3000, "yes", "no")


def warned_of_units(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    found = [w for w in caught if "private_preprocessor" in str(w.message)]
    assert all(w.category is PrivacyWarning and w.filename == __file__ for w in found)
    return [str(w.message) for w in found]


@pytest.mark.parametrize("make", [*LINEAR, DPSGLDNetworkClassifier], ids=lambda m: m.__name__)
def test_numbers_in_their_own_units_are_warned_of(make):
    X, y = bank()
    (message,) = warned_of_units(make(delta=1e-5), X, y)
    assert message.startswith("3 columns hold integers or objects (age, balance, duration)")
    assert "BoundsScaler(bounds, norm=1)" in message


def test_every_integer_type_is_found_whatever_library_holds_it():
    polars = pytest.importorskip("polars")
    X, y = bank()
    tables = {
        "array": X.to_numpy(),
        "narrow": X.to_numpy().astype(np.int16),
        "unsigned": X.abs().to_numpy().astype(np.uint32),
        "object": X.to_numpy().astype(object),
        "nullable": X.astype("Int64"),
        "mixed": X.astype({"age": float, "balance": "int32", "duration": "float32"}),
        "polars": polars.DataFrame({name: X[name].to_list() for name in X}),
    }
    for name, table in tables.items():
        (message,) = warned_of_units(ObjPertLogisticRegression(), table, y)
        assert message.startswith("1 col" if name == "mixed" else "3 col"), name


def test_prepared_rows_are_not_warned_of():
    X, y = bank()
    scaler = BoundsScaler([(18, 90), (-2000, 20_000), (0, 3000)], norm=1.0)
    scaled = scaler.fit_transform(X)
    flags = X.gt(X.mean())
    quiet = {
        "scaled": scaled,
        "single precision": scaled.astype(np.float32),
        "frame": scaler.set_output(transform="pandas").fit_transform(X),
        "bool": flags,
        "uint8": flags.astype(np.uint8),
        "uint8 array": flags.to_numpy().astype(np.uint8),
        "int8": flags.astype(np.int8),
        "sparse": sparse.csr_array(flags.to_numpy().astype(np.int64)),
        "list": flags.to_numpy().astype(int).tolist(),
    }
    for name, table in quiet.items():
        assert not warned_of_units(ObjPertLogisticRegression(), table, y), name
    own = {"norm": ObjPertLogisticRegression(data_norm=2e4)}
    own["no privacy"] = ObjPertLogisticRegression(epsilon=np.inf)
    for name, model in own.items():
        assert not warned_of_units(model, X, y), name


def test_the_warning_depends_on_no_value_and_comes_before_the_budget_is_spent(tmp_path):
    X, y = bank()
    other = X.copy()
    other.iloc[0] = [10**15, -(10**15), 7]
    zero = X * 0
    messages = {warned_of_units(ObjPertLogisticRegression(), T, y)[0] for T in (X, other, zero)}
    assert len(messages) == 1
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning):
            ObjPertLogisticRegression(ledger=ledger).fit(X, y)
    assert ledger.entries() == []


CLASSIFIERS = [*LINEAR, DPSGLDNetworkClassifier, LaplaceNaiveBayes]
each_classifier = pytest.mark.parametrize("make", CLASSIFIERS, ids=lambda make: make.__name__)


@each_classifier
def test_weights_are_refused_with_what_to_do_instead(make, tmp_path):
    X, y = bank()
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-3)
    model = make(ledger=ledger)
    with pytest.raises(TypeError, match=r"'sample_weight': the noise is made for .*Fit without"):
        model.fit(X, y, sample_weight=np.ones(N))
    with pytest.raises(TypeError, match=rf"{make.__name__}.fit\(\) got .* 'weights'\.$"):
        model.fit(X, y, weights=np.ones(N))
    assert ledger.entries() == []
    assert not has_fit_parameter(model, "sample_weight")  # meta-estimators would pass weights
    for weight in ("balanced", {"no": 1.0, "yes": 2.0}):
        with pytest.raises(TypeError, match=r"which are private, .* threshold on predict_proba"):
            make(class_weight=weight)


def test_weights_of_a_regression_are_refused_and_units_are_warned_of():
    X, _ = bank()
    model = PrivateBayesianRidge(target_bounds=(0, 1))
    with pytest.raises(TypeError, match=r"'sample_weight': the noise is made for"):
        model.fit(X, X["age"], sample_weight=np.ones(N))
    assert not has_fit_parameter(model, "sample_weight")
    (message,) = warned_of_units(model, X, X["age"] / 100)
    assert message.startswith("3 columns")


@each_classifier
def test_parameters_are_still_those_of_the_class(make):
    assert "class_weight" not in make().get_params()
    assert next(iter(inspect.signature(make).parameters)) == "epsilon"
    assert pickle.loads(pickle.dumps(clone(make(epsilon=0.3)))).epsilon == 0.3
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
        make(epsilom=1.0)


def visits(n=N, seed=0):
    """A made-up hospital table as plain lists, with missing ages."""
    rng = np.random.default_rng(seed)
    age = [None if rng.random() < 0.1 else int(a) for a in rng.integers(0, 100, n)]
    ward = rng.choice(["surgery", "medicine", "children"], n).tolist()
    urgent = (rng.random(n) < 0.3).tolist()
    y = np.array([(a or 50) + 20 * (w == "surgery") > 60 for a, w in zip(age, ward, strict=True)])
    return {"age": age, "ward": ward, "urgent": urgent}, y


def frames():
    """One table in every kind of frame that people bring."""
    import polars

    columns, _ = visits()
    plain = pd.DataFrame(columns)
    return {
        "pandas": plain,
        "nullable": plain.astype({"age": "Int64", "ward": "string", "urgent": "boolean"}),
        "categorical": plain.astype({"ward": "category"}),
        "polars": polars.DataFrame(columns),
        "polars categorical": polars.DataFrame(columns).cast({"ward": polars.Categorical}),
    }


def prepared(model, **options):
    prepare = private_preprocessor(
        bounds={"age": (0, 100)},
        categories={"ward": ["surgery", "medicine", "children"], "urgent": [False, True]},
        missing=["age"],
        **options,
    )
    return make_pipeline(prepare, model)


@each_linear
def test_frames_of_every_kind_give_one_model_without_a_warning(make):
    pytest.importorskip("polars")
    _, y = visits()
    expected = None
    for kind, table in frames().items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = prepared(make(epsilon=1.0, random_state=0)).fit(table, y)
            scores = fitted.decision_function(table)
        expected = scores if expected is None else expected
        np.testing.assert_array_equal(scores, expected, err_msg=kind)


@each_linear
@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
def test_set_output_hands_names_on_and_changes_no_number(make, container):
    pytest.importorskip("polars")
    _, y = visits()
    table = frames()["pandas"]
    plain = prepared(make(random_state=0)).fit(table, y)
    model = prepared(make(random_state=0)).set_output(transform=container)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(table, y)
        np.testing.assert_array_equal(
            model.decision_function(table), plain.decision_function(table)
        )
    assert hasattr(model[-1], "feature_names_in_") == (container != "default")
    if container != "default":
        assert model[-1].feature_names_in_.tolist() == model[0].get_feature_names_out().tolist()


@each_linear
def test_meta_estimators_pay_for_every_fit_that_they_make(make, tmp_path):
    X, y = bank()
    X = BoundsScaler([(18, 90), (-2000, 20_000), (0, 3000)], norm=1.0).fit_transform(X)
    several = np.arange(N) % 3

    def paid(meta, labels):
        ledger = PrivacyLedger(tmp_path / f"{paid.count}.sqlite", epsilon=50.0, delta=1e-2)
        paid.count += 1
        meta.set_params(estimator=make(epsilon=0.5, ledger=ledger, random_state=None))
        meta.fit(X, labels)
        assert {entry.epsilon for entry in ledger.entries()} == {0.5}
        return len(ledger.entries())

    paid.count = 0
    assert paid(OneVsRestClassifier(None), several) == 3
    assert paid(BaggingClassifier(None, n_estimators=4, bootstrap=False), y) == 4
    assert paid(CalibratedClassifierCV(None, cv=3), y) == 3
    assert paid(CalibratedClassifierCV(None, cv=3, ensemble=False), y) == 4


def test_stacking_pays_for_its_folds_and_a_ledger_stops_it_in_the_middle(tmp_path):
    X, y = bank()
    X = BoundsScaler([(18, 90), (-2000, 20_000), (0, 3000)], norm=1.0).fit_transform(X)

    def stack(epsilon):
        ledger = PrivacyLedger(
            tmp_path / f"{epsilon}.sqlite", epsilon=epsilon, delta=1e-3, filter="sum"
        )
        inner = ObjPertLogisticRegression(0.5, 1e-6, ledger=ledger)
        return ledger, StackingClassifier([("private", inner)], cv=3)

    ledger, model = stack(2.0)
    model.fit(X, y)
    assert len(ledger.entries()) == 1 + 3
    ledger, model = stack(1.2)
    with pytest.raises(BudgetExceededError):
        model.fit(X, y)
    assert len(ledger.entries()) == 2


@pytest.mark.parametrize(
    "make",
    [ObjPertLogisticRegression, OPSLogisticRegression, DPSGLDClassifier, PrivateBoundsScaler],
)
def test_missing_values_are_refused_with_what_learns_nothing(make):
    rows = np.array([[0.1, 0.2], [np.nan, 0.3]] * 20)
    with pytest.raises(ValueError, match=r"NaN.*private_preprocessor\(missing=.*learn nothing"):
        make().fit(rows, np.arange(40) % 2)
