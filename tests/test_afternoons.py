"""What people hit who bring their own table: units, weights, frames, meta-estimators."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit
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
    RowBlocks,
    load_json,
    private_preprocessor,
)
from skdpbayes.estimators.linear.posterior import mean_probabilities
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.models import LogisticLoss
from skdpbayes.models.exact_sums import (
    Grid,
    clipped_gradient,
    read_gradient,
    row_lengths,
)

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
    with pytest.raises(TypeError, match=r"which are private\. A threshold on predict_proba"):
        make(class_weight="balanced", ledger=ledger).fit(X, y)
    assert ledger.entries() == []


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
    assert next(iter(inspect.signature(make).parameters)) == "epsilon"
    assert pickle.loads(pickle.dumps(clone(make(epsilon=0.3)))).epsilon == 0.3
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
        make(epsilom=1.0)


def rare(n=4000, seed=0):
    """Rows within 1, and a label that one record in ten has."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    return X, (rng.random(n) < 1 / (1 + np.exp(3 - 6 * X[:, 0]))).astype(int)


def test_class_weights_find_more_of_a_rare_label_under_the_same_claim():
    X, y = rare()
    plain = DPSGLDClassifier(epsilon=2.0, random_state=0).fit(X, y)
    weights = {0: 1.0, 1: 8.0}
    model = DPSGLDClassifier(epsilon=2.0, random_state=0, class_weight=weights).fit(X, y)
    assert model.predict(X)[y == 1].mean() > plain.predict(X)[y == 1].mean() + 0.3
    assert model.privacy_ == plain.privacy_
    again = load_json(model.to_json())
    assert again.class_weight == weights
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert not hasattr(model, "interval")
    assert "class weights change" in model._posterior.missing["interval"]


def farthest(weights, share=1.0):
    """The farthest that one record moves the sum of clipped gradients by, in clipping norms."""
    X, y, sums = np.zeros((4, 2)), np.array([0, 0, 1, 1]), []
    theta, clip, grid = np.array([[8.0, 0.0, 0.0]]), 0.5, Grid(4, 1.0)
    for row in ([1.0, 0.0], [-1.0, 0.0], [0.6, 0.8], [0.0, 0.0]):
        for label in (0, 1):
            X[0], y[0] = row, label
            rows = DPSGLDClassifier(class_weight=weights)._read(X, y)
            block = rows.block()._replace(weight=share * rows.weight)
            lengths = row_lengths(block.X, grid, constant=1.0)
            total = clipped_gradient(block, theta, LogisticLoss(), lengths, clip, grid)
            sums.append(read_gradient(total, grid))
    return max(np.linalg.norm(one - other) for one in sums for other in sums) / clip


@pytest.mark.parametrize("weights", [{0: 1.0, 1: 20.0}, {0: 300.0, 1: 1.0}, {0: 3.0, 1: 3.0}])
def test_no_label_lets_a_record_do_more_than_a_record_without_weights(weights):
    assert farthest(weights) < 2.0
    # weights above 1 would break the claim, and this test sees it
    assert farthest(weights, share=3.0) > 2.0


def test_the_moments_that_whiten_rows_count_every_record_alike():
    X, y = rare()
    settings = {"epsilon": 1.0, "random_state": 0, "n_steps": 1}
    weighted = DPSGLDClassifier(**settings, class_weight={0: 1.0, 1: 9.0}).fit(X, y)
    plain = DPSGLDClassifier(**settings).fit(X, y)
    rows = weighted._read(X, y)
    assert rows.weight.max() == 1.0
    assert rows.weight.min() == (2**16 // 9) / 2**16
    assert weighted.step_size_ == plain.step_size_


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({0: 1.0}, r"class_weight must have the labels \[0, 1\]"),
        ({0: 1.0, 1: -2.0}, r"class_weight\[1\]"),
        ({0: 0.0, 1: 0.0}, "must have a positive number"),
    ],
)
def test_class_weights_that_mean_nothing_are_refused(weights, message, tmp_path):
    X, y = rare(100)
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=5.0, delta=1e-3)
    with pytest.raises(ValueError, match=message):
        DPSGLDClassifier(class_weight=weights, ledger=ledger).fit(X, y)
    for rest in ({"units": np.arange(100)}, {}):
        table = (X, y) if rest else (RowBlocks([X]), RowBlocks([y]))
        with pytest.raises(ValueError, match="class_weight is for records in memory"):
            DPSGLDClassifier(class_weight={0: 1.0, 1: 2.0}, ledger=ledger).fit(*table, **rest)
    assert ledger.entries() == []


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_small_probabilities_averaged_over_draws_are_accurate_on_either_side(dtype):
    logits = np.array([[-60.0, -9.0, 0.5, 9.0, 60.0], [-61.0, -8.0, 0.4, 8.0, 61.0]], dtype)
    found = mean_probabilities(logits[:, :, None])
    assert found.dtype == np.float64
    expected = np.stack([expit(-logits).mean(axis=0), expit(logits).mean(axis=0)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-13 if dtype == np.float64 else 2e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-15)
