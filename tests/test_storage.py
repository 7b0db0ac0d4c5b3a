"""A model read from JSON is the model that was written, and nothing else can be read."""

from __future__ import annotations

import base64
import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdpbayes
from skdpbayes import (
    BoundsScaler,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLogisticRegression,
    PrivacyLedger,
    PrivateBayesianRidge,
    PrivateBoundsScaler,
    PrivateHMM,
    RowNormClipper,
    load_json,
    private_preprocessor,
    to_json,
)
from skdpbayes.fitting import storage
from tests.contract import CASES, event_rows, linear_data

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def assert_same(loaded, fitted):
    """Compare state by state, types, orders in memory and bits included."""
    assert type(loaded) is type(fitted)
    if isinstance(fitted, np.ndarray):
        assert loaded.dtype == fitted.dtype
        assert loaded.shape == fitted.shape
        if fitted.dtype == object:
            assert loaded.tolist() == fitted.tolist()
        else:
            assert loaded.tobytes() == fitted.tobytes()
    elif isinstance(fitted, (list, tuple)):
        assert len(loaded) == len(fitted)
        for one, other in zip(loaded, fitted, strict=True):
            assert_same(one, other)
    elif isinstance(fitted, dict):
        assert list(loaded) == list(fitted)
        for key in fitted:
            assert_same(loaded[key], fitted[key])
    elif hasattr(fitted, "get_params"):
        assert_same(loaded.__getstate__(), fitted.__getstate__())
    elif type(fitted).__module__.startswith("skdpbayes"):
        for name in type(fitted).__dataclass_fields__:
            assert_same(getattr(loaded, name), getattr(fitted, name))
    else:
        assert loaded == fitted or (loaded != loaded and fitted != fitted)


def assert_same_model(loaded, fitted, X):
    """Compare attributes and everything that a caller can compute from the model."""
    mine = vars(pickle.loads(pickle.dumps(loaded)))
    theirs = vars(pickle.loads(pickle.dumps(fitted)))
    assert mine.pop("ledger") is None
    theirs.pop("ledger")
    assert set(mine) == set(theirs)
    for name, value in theirs.items():
        assert_same(mine[name], value)
    assert loaded.privacy_ == fitted.privacy_
    for method in ("predict", "predict_proba", "decision_function"):
        assert hasattr(loaded, method) == hasattr(fitted, method)
        if hasattr(fitted, method):
            mine, theirs = (np.asarray(getattr(of, method)(X)) for of in (loaded, fitted))
            assert mine.dtype == theirs.dtype
            if mine.dtype.kind == "f":  # where in memory a copy of X lies may decide on a last bit
                np.testing.assert_allclose(mine, theirs, rtol=1e-13, atol=1e-15)
            else:
                assert_same(mine, theirs)
    if hasattr(fitted, "sample_posterior"):
        draws = [of.sample_posterior(random_state=3) for of in (loaded, fitted)]
        assert_same(*draws)
    if hasattr(fitted, "interval"):
        assert_same(interval_or_reason(loaded), interval_or_reason(fitted))


def interval_or_reason(model):
    """Some releases need public rows for an interval, and say so."""
    try:
        return model.interval(0.8)
    except ValueError as error:
        return str(error)


@each_case
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_a_loaded_model_is_the_same_to_the_bit(case, epsilon, tmp_path):
    X, y = case.data()
    fitted = case.build(epsilon=epsilon, random_state=5).fit(X, y)
    path = tmp_path / "model.json"
    text = fitted.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    for source in (path, str(path), text):
        assert_same_model(load_json(source), fitted, X)
    assert load_json(text).to_json() == text


@each_case
def test_columns_with_names_and_labels_of_any_kind_are_kept(case):
    X, y = case.data()
    frame = pd.DataFrame(X, columns=[f"Spalte {j} ü" for j in range(X.shape[1])])
    y = np.where(y == np.unique(y)[0], 3, -7) if case.data is linear_data else y
    fitted = case.build(random_state=5).fit(frame, y)
    assert_same_model(load_json(fitted.to_json()), fitted, frame)


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lambda: OPSLogisticRegression(sampler="hmc", n_draws=2, random_state=0), linear_data),
        (lambda: ObjPertLogisticRegression(inference_budget=0.0, random_state=0), linear_data),
        (lambda: ObjPertLogisticRegression(nonnegative=True, delta=0.0), linear_data),
        (lambda: LaplaceNaiveBayes(distribution="gaussian", bounds=(-1, 1)), linear_data),
        (lambda: LaplaceNaiveBayes(distribution="gaussian", epsilon=np.inf), linear_data),
        (lambda: LaplaceNaiveBayes(mechanism="ops"), linear_data),
        (
            lambda: PrivateHMM(
                2, categories=[3, 2], mechanism="ops", n_iter=20, burn_in=10, random_state=0
            ),
            event_rows,
        ),
    ],
    ids=["hmc", "no information", "two orthants", "gaussian", "inf", "ops", "hmm ops"],
)
def test_other_mechanisms_are_kept_too(make, data):
    X, y = data()
    fitted = make().fit(X, y)
    assert_same_model(load_json(fitted.to_json()), fitted, X)


@pytest.mark.parametrize("kind", ["clipped link", "counts", "many columns"])
def test_what_chains_know_besides_their_states_is_kept(kind, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 600 if kind == "many columns" else 3)) * 0.02
    X[:, 0] += rng.normal(size=2000) * 0.5
    settings = {"epsilon": 20.0, "delta": 1e-4, "random_state": 0}
    if kind == "counts":
        model = skdpbayes.DPSGLDRegressor(loss="poisson", target_bounds=(0, 10), **settings)
        model.fit(X, rng.poisson(np.exp(X[:, 0])))
    else:
        model = skdpbayes.DPSGLDClassifier(**settings).fit(X, (X[:, 0] > 0).astype(int))
    if kind == "clipped link":
        assert model._posterior.link is not None
    model.to_json(tmp_path / "model.json")
    loaded = load_json(tmp_path / "model.json")
    for method in ("predict", "predict_proba"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    if hasattr(model, "interval"):
        np.testing.assert_array_equal(loaded.interval(0.9)["coef"], model.interval(0.9)["coef"])


def test_several_classes_and_object_labels_are_kept():
    X, _ = linear_data()
    y = np.array(["a", "b", "c"], dtype=object)[np.arange(len(X)) % 3]
    for model in (ObjPertLogisticRegression(), LaplaceNaiveBayes(), skdpbayes.DPSGLDClassifier()):
        fitted = model.fit(X, y)
        assert_same_model(load_json(fitted.to_json()), fitted, X)


def test_sequences_with_labels_are_kept():
    X, _ = event_rows()
    fitted = PrivateHMM(
        2, categories=[3, 2], n_times=12, sequence_labels=["north", "south"], n_iter=20, burn_in=5
    ).fit(X, times=np.arange(120) % 12, sequences=np.repeat(["north", "south"], 60))
    loaded = load_json(fitted.to_json())
    assert_same(loaded.sequence_labels_, fitted.sequence_labels_)
    assert_same(loaded.states_, fitted.states_)
    assert_same(loaded.sample(random_state=1), fitted.sample(random_state=1))


def test_seed_ledger_and_diagnostics_are_not_in_the_file(tmp_path):
    X, y = linear_data()
    ledger = PrivacyLedger(tmp_path / "a-secret-place.sqlite", epsilon=100.0, delta=1e-3)
    model = OPSLogisticRegression(
        sampler="hmc", diagnostics=True, random_state=918273645, ledger=ledger
    ).fit(X, y)
    text = model.to_json()
    assert "918273645" not in text
    assert "a-secret-place" not in text
    loaded = load_json(text)
    assert loaded.random_state is None
    assert loaded.ledger is None
    assert model.diagnostics_ is not None
    assert not hasattr(loaded, "diagnostics_")
    assert loaded._posterior.diagnostics is None
    assert model._posterior.diagnostics is not None
    naive = LaplaceNaiveBayes(random_state=918273645).fit(X, y)
    ridge = PrivateBayesianRidge(target_bounds=(-1, 1), random_state=918273645).fit(X, X[:, 0])
    for seeded in (naive, ridge):
        assert "918273645" not in seeded.to_json()
        assert not hasattr(load_json(seeded.to_json()), "_seeds")


def test_the_file_states_claim_and_versions():
    X, y = linear_data()
    model = ObjPertLogisticRegression(epsilon=0.5).fit(X, y)
    content = json.loads(model.to_json())
    assert content["claim"] == json.loads(model.privacy_.to_json())
    assert content["claim_in_words"] == str(model.privacy_)
    assert content["versions"]["numpy"] == np.__version__


def test_pipelines_of_our_transformers_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.uniform(18, 90, 300), "job": rng.choice(["a", "b"], 300), "n": 1.0}
    )
    y = table["age"] > 50
    prepare = private_preprocessor(
        {"age": (18, 90), "n": (0, 10)}, {"job": ["a", "b"]}, missing=["age"], skewed=["n"]
    )
    fitted = make_pipeline(prepare, ObjPertLogisticRegression(random_state=0)).fit(table, y)
    loaded = load_json(to_json(fitted, tmp_path / "pipeline.json"))
    assert [name for name, _ in loaded.steps] == [name for name, _ in fitted.steps]
    assert_same(loaded.predict_proba(table), fitted.predict_proba(table))
    assert_same(loaded[0].get_feature_names_out(), fitted[0].get_feature_names_out())
    assert str(skdpbayes.summary(loaded)) == str(skdpbayes.summary(fitted))
    assert skdpbayes.report(load_json(tmp_path / "pipeline.json")) == skdpbayes.report(fitted)
    X = table[["age", "n"]]
    scaler = BoundsScaler([(18, 90), (0, 2)]).set_output(transform="pandas")
    fitted = make_pipeline(scaler, RowNormClipper(), ObjPertLogisticRegression()).fit(X, y)
    loaded = load_json(to_json(fitted))
    assert_same(loaded.predict_proba(X), fitted.predict_proba(X))
    assert isinstance(loaded[0].transform(X), pd.DataFrame)


def test_steps_with_claims_of_their_own_keep_them_and_the_head_states_the_whole():
    X, y = linear_data()
    scaler = PrivateBoundsScaler(epsilon=50.0, random_state=0)
    fitted = make_pipeline(scaler, ObjPertLogisticRegression(random_state=0)).fit(X, y)
    text = to_json(fitted)
    loaded = load_json(text)
    assert [step.privacy_ for _, step in loaded.steps] == [s.privacy_ for _, s in fitted.steps]
    assert_same(loaded.predict_proba(X), fitted.predict_proba(X))
    whole = skdpbayes.privacy_of(fitted)
    assert skdpbayes.privacy_of(loaded) == whole
    assert json.loads(text)["claim"] == json.loads(whole.to_json())
    alone = load_json(fitted[0].to_json())
    assert_same(alone.transform(X), fitted[0].transform(X))


def test_what_is_not_ours_is_not_written():
    X, y = linear_data()
    foreign = make_pipeline(StandardScaler(), ObjPertLogisticRegression()).fit(X, y)
    with pytest.raises(TypeError, match=r"'standardscaler' \(StandardScaler\) cannot"):
        to_json(foreign)
    with pytest.raises(TypeError, match="LogisticRegression cannot be written"):
        to_json(LogisticRegression().fit(X, y))
    with pytest.raises(NotFittedError):
        ObjPertLogisticRegression().to_json()

    class Mine(ObjPertLogisticRegression):
        pass

    with pytest.raises(TypeError, match="Mine cannot be written"):
        Mine().fit(X, y).to_json()
    labels = pd.Series(["no", "yes"])
    with pytest.raises(TypeError, match=r"ObjPertLogisticRegression\(classes=...\) holds a pandas"):
        ObjPertLogisticRegression(classes=labels).fit(X, y).to_json()


@pytest.fixture(scope="module")
def content():
    X, y = linear_data()
    return json.loads(ObjPertLogisticRegression(random_state=0).fit(X, y).to_json())


def spoiled(content, change):
    content = copy.deepcopy(content)
    change(content, content["steps"][0])
    return json.dumps(content)


def array(values):
    return storage._encoded(np.asarray(values), "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, s: c.update(format="something"), "mark of a model"),
        (lambda c, s: c.update(format_version=2), "its format is 2"),
        (lambda c, s: s.update({"class": "os.system"}), "'os.system' is not a class"),
        (lambda c, s: s.update({"class": "BoundsScaler"}), "'BoundsScaler' is not a class"),
        (lambda c, s: s.update({"class": ["x"]}), "is not a class"),
        (lambda c, s: s["fitted"]["_posterior"].update({"class": "Popen"}), "'Popen' is not a"),
        (
            lambda c, s: s["fitted"]["_posterior"].update({"class": "ObjPertLogisticRegression"}),
            "is not a class",
        ),
        (lambda c, s: s["fitted"]["_posterior"]["fields"].update(extra=1), "has the fields"),
        (lambda c, s: s["fitted"]["_posterior"]["fields"].pop("theta"), "has the fields"),
        (lambda c, s: s["fitted"].update(predict=None), "'predict' is no fitted attribute"),
        (lambda c, s: s["fitted"].update(__class__=None), "is no fitted attribute"),
        (lambda c, s: s["fitted"].update(__reduce_ex__=None), "is no fitted attribute"),
        (lambda c, s: s["fitted"].update(anything=None), "'anything' is no fitted attribute"),
        (lambda c, s: s["parameters"].update(unknown=1), "unknown"),
        (lambda c, s: s["parameters"].update(random_state=1), "seed"),
        (lambda c, s: s["parameters"].update(C={"pickle": "gASV"}), "unknown content"),
        (lambda c, s: s["parameters"].update(C={"float": "1e400"}), "unknown number"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(shape=[3, 2]), r"shape \[3, 2\]"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(shape=[-1, -3]), "proper shape"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(shape=[10**30]), "has 24 bytes"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(dtype="O"), "not read"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(dtype="f8,f8"), "not read"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(dtype="nonsense"), "nonsense"),
        (lambda c, s: s["fitted"]["coef_"]["array"].update(bytes="%%%"), "damaged"),
        (lambda c, s: s["fitted"].update(coef_=array(np.zeros((1, 4)))), "coef_ does not have"),
        (lambda c, s: s["fitted"].update(n_features_in_=4), "not a model"),
        (lambda c, s: s["fitted"].update(classes_=array(["a", "b", "c"])), "3 classes"),
        (lambda c, s: s["fitted"].pop("_posterior"), "_posterior"),
        (lambda c, s: c["claim"]["event"].update(kind="foreign"), "unknown privacy event"),
        (lambda c, s: c["claim"].pop("conditions"), "privacy guarantee"),
        (lambda c, s: s["claim"].pop("event"), "privacy guarantee"),
        (lambda c, s: s.update(claim=None), "privacy guarantee"),
        (lambda c, s: c.update(steps=[]), "not a model"),
    ],
)
def test_anything_else_is_refused(content, change, message):
    load_json(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        load_json(spoiled(content, change))


@pytest.mark.parametrize("text", ["{", "{}", '{"format": NaN}', '{"a":' * 100_000])
def test_text_that_is_no_model_is_refused(text):
    with pytest.raises(ValueError, match="not a model that can be loaded"):
        load_json(text)


def test_a_pickle_is_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (exec, ("raise RuntimeError('ran')",))

    path = tmp_path / "model.json"
    path.write_bytes(pickle.dumps(Bomb(), protocol=0))
    with pytest.raises(ValueError, match="not a model"):
        load_json(path)
    coded = base64.b64encode(pickle.dumps(Bomb())).decode()
    with pytest.raises(ValueError, match="not read"):
        storage._decoded(
            {"array": {"dtype": "|O", "shape": [1], "order": "C", "bytes": coded}},
        )


def test_every_class_of_the_registry_exists_and_has_a_name_of_its_own():
    for registry in (storage.ESTIMATORS, storage.TRANSFORMERS, storage.CLASSES):
        found = [storage._class_named(name, registry) for name in registry]
        assert len(set(found)) == len(found)
    assert set(storage.ESTIMATORS) == {case.name for case in CASES} | {"PrivateBoundsScaler"}


@pytest.mark.parametrize(
    "value",
    [
        [1, -0.0, 5e-324, 0.1, 1.7976931348623157e308, np.inf, -np.inf, 2**70],
        (True, None, "text", ()),
        {"a": (1, 2), 3: [None], ("b", 1): "c"},
        np.float64(0.1),
        np.float32(0.1),
        np.int64(-3),
        np.str_("word"),
        np.bool_(True),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3)),
        np.array([np.nan, -np.nan, -0.0]),
        np.array(["ä", "bcd"]),
        np.array(["a", 1, None, 2.5], dtype=object),
        np.array(["2024-01-31"], dtype="datetime64[D]"),
        np.array(3.0),
    ],
    ids=repr,
)
def test_values_return_with_their_types(value):
    assert_same(storage._decoded(json.loads(json.dumps(storage._encoded(value, "")))), value)
