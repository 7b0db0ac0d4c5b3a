"""Every estimator in ``tests.contract.CASES`` keeps the contract."""

from __future__ import annotations

import html
import inspect
import pickle
import re
import warnings
from operator import attrgetter

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import skdpbayes
from skdpbayes import BoundsScaler, PrivacyLedger
from skdpbayes.exceptions import BudgetExceededError, PrivacyWarning
from skdpbayes.privacy import PrivacyGuarantee
from tests.contract import CASES, fitted_state, same, same_state

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@parametrize_with_checks([case.make(**case.required) for case in CASES])
def test_scikit_learn_checks_with_defaults(estimator, check):
    check(estimator)


@pytest.mark.slow
# Seeded: probabilities of a chain undo the clipping, by the length of each row, so that in one fit
# of sixty two rows of check_decision_proba_consistency are ranked otherwise than by their scores.
@parametrize_with_checks(
    [case.make(epsilon=1e6, random_state=0, **case.required) for case in CASES]
)
def test_scikit_learn_checks_including_scores_at_large_epsilon(estimator, check):
    check(estimator)


@each_case
def test_public_name_is_exported(case):
    assert getattr(skdpbayes, case.name) is case.make


def test_every_exported_estimator_is_under_contract():
    exported = {
        name
        for name in skdpbayes.__all__
        if inspect.isclass(getattr(skdpbayes, name))
        and hasattr(getattr(skdpbayes, name), "sample_posterior")
        and not hasattr(getattr(skdpbayes, name), "transform")  # tests/preprocessing has its own
    }
    # torch is not among the packages that tests need: tests/estimators/test_torch.py has its own
    assert exported - {"DPSGLDTorchClassifier"} == {case.name for case in CASES}


@each_case
def test_privacy_attribute_states_what_was_asked_for(case):
    X, y = case.data()
    fitted = case.build(epsilon=0.7, random_state=3).fit(X, y)
    claim = fitted.privacy_
    assert claim.epsilon == 0.7
    assert claim.delta == fitted.delta
    assert claim.adjacency == "replace_one"
    assert claim.seeded
    assert claim.delta_at(0.7) <= fitted.delta * (1 + 1e-9)
    assert PrivacyGuarantee.from_json(claim.to_json()) == claim
    assert "0.7" in str(claim)
    assert not case.build(epsilon=0.7).fit(X, y).privacy_.seeded


@each_case
def test_a_seed_reproduces_and_no_seed_does_not(case):
    X, y = case.data()
    first, second = (case.build(random_state=11).fit(X, y) for _ in range(2))
    third, fourth = (case.build().fit(X, y) for _ in range(2))
    for name in case.released:
        get = attrgetter(name)
        assert same(get(first), get(second)), name
    assert any(
        not same(attrgetter(name)(third), attrgetter(name)(fourth)) for name in case.released
    )


@each_case
def test_clone_and_pickle_keep_parameters_and_predictions(case):
    X, y = case.data()
    fitted = case.build(random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(X), fitted.predict(X))
    assert copy.privacy_ == fitted.privacy_
    fresh = clone(fitted)
    assert repr(fresh.get_params()) == repr(fitted.get_params())
    with pytest.raises(NotFittedError):
        fresh.predict(X)


@pytest.mark.parametrize("source", [982_451_653, np.random.default_rng(5)], ids=["int", "rng"])
@each_case
def test_a_fitted_object_holds_nothing_that_its_noise_was_made_from(case, source):
    """A seed or a generator's state would take the noise off again."""
    fitted = case.build(random_state=source).fit(*case.data())
    stored = pickle.dumps(fitted)
    assert pickle.loads(stored).random_state is None
    shown = repr(fitted) + fitted._repr_html_()
    if isinstance(source, int):
        assert source.to_bytes(4, "little") not in stored
        assert str(source) not in shown
        assert clone(fitted).random_state == source  # searches clone what they were given
    assert b"PCG64" not in stored
    assert "PCG64" not in shown
    # the claim stands below the diagram of a fitted estimator, and only there
    bundle = fitted._repr_mimebundle_()["text/html"]
    assert html.escape(str(fitted.privacy_)) in bundle
    assert html.escape(str(fitted.privacy_)) in fitted._repr_html_()
    assert "differentially private" not in clone(fitted)._repr_html_()


@each_case
def test_pandas_input_records_feature_names_and_refuses_others(case):
    X, y = case.data()
    frame = pd.DataFrame(X, columns=[f"column_{j}" for j in range(X.shape[1])])
    fitted = case.build(random_state=0).fit(frame, y)
    assert fitted.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(
        fitted.predict(frame), case.build(random_state=0).fit(X, y).predict(X)
    )
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"column_0": "other"}))


@each_case
def test_pipeline_and_cross_validation(case):
    X, y = case.data()
    step = case.build(random_state=0)
    if np.asarray(X).dtype.kind == "f":  # integer codes are not to be scaled
        step = make_pipeline(BoundsScaler((-1.0, 1.0)), step)
    scores = cross_val_score(step, X, y, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert np.all(np.isfinite(scores))


@each_case
def test_grid_search_over_epsilon_charges_every_fold_in_workers_too(case, tmp_path):
    X, y = case.data()
    delta = case.make().delta
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=100.0, delta=max(20 * delta, 1e-3))
    search = GridSearchCV(
        case.build(random_state=0, ledger=ledger),
        {"epsilon": [0.5, 1.0]},
        cv=3,
        n_jobs=2,
        error_score="raise",
    ).fit(X, y)
    assert search.best_params_["epsilon"] in (0.5, 1.0)
    assert len(ledger.entries()) == 2 * 3 + 1


@each_case
def test_an_overspent_ledger_stops_the_fit_before_the_data_are_used(case, tmp_path):
    X, y = case.data()
    delta = case.make().delta
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=0.1, delta=max(2 * delta, 1e-3))
    estimator = case.build(epsilon=1.0, ledger=ledger)
    with pytest.raises(BudgetExceededError):
        estimator.fit(X, y)
    assert not fitted_state(estimator).keys() & case.released
    assert ledger.entries() == []


@each_case
def test_infinite_epsilon_is_the_non_private_model(case):
    if case.parity is None:
        pytest.fail(f"{case.name} has no parity check at epsilon=inf")
    X, y = case.data()
    fitted = case.build(epsilon=np.inf, random_state=0).fit(X, y)
    assert np.isinf(fitted.privacy_.epsilon)
    case.parity(fitted, X, y)


@each_case
@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"adjacency": "add_remove"}, "adjacency"),
        ({"ledger": "budget.sqlite"}, "ledger"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_parameters_are_named(case, params, name):
    X, y = case.data()
    with pytest.raises((ValueError, TypeError), match=name):
        case.build(**params).fit(X, y)


@each_case
def test_a_large_delta_warns(case):
    X, y = case.data()
    with pytest.warns(PrivacyWarning, match="1/n_samples"):
        case.build(delta=0.4, random_state=0).fit(X, y)


def _neighbour(X, y):
    """Replace one record by another one of the same table with another label."""
    X, y = np.array(X), np.array(y)
    other = int(np.flatnonzero(y != y[0])[0]) if np.any(y != y[0]) else 1
    X[0], y[0] = X[other], y[other]
    return X, y


@each_case
def test_nothing_unreleased_depends_on_the_data(case):
    X, y = case.data()
    with warnings.catch_warnings(record=True) as first_warnings:
        warnings.simplefilter("always")
        first = case.build(random_state=5).fit(X, y)
    with warnings.catch_warnings(record=True) as second_warnings:
        warnings.simplefilter("always")
        second = case.build(random_state=5).fit(*_neighbour(X, y))
    assert [str(w.message) for w in first_warnings] == [str(w.message) for w in second_warnings]
    state, neighbour_state = fitted_state(first), fitted_state(second)
    assert state.keys() == neighbour_state.keys()
    changed = {name for name in state if not same(state[name], neighbour_state[name])}
    assert changed <= case.released, f"unreleased attributes differ: {changed - case.released}"
    assert changed, "no released attribute differs: the neighbours are too close to test anything"


@each_case
def test_a_private_fit_keeps_nothing_of_an_earlier_one(case):
    X, y = case.data()
    again = case.build(epsilon=np.inf, random_state=5).fit(X, y)
    again.set_params(epsilon=1.0).fit(X, y)
    state, expected = map(fitted_state, (again, case.build(epsilon=1.0, random_state=5).fit(X, y)))
    assert same_state(state, expected)


@each_case
def test_the_pickle_holds_no_training_row(case):
    X, y = case.data()
    blob = pickle.dumps(case.build(random_state=0).fit(X, y))
    X = np.asarray(X)
    rows = [row.astype(kind).tobytes() for row in X for kind in (np.float64, np.float32)]
    if X.dtype.kind == "f":  # rows of small integer codes would match by chance
        assert not any(row in blob for row in rows)
    # Whatever the type of the data, the released object must not grow with them.
    doubled = case.build(random_state=0).fit(np.concatenate([X, X]), np.concatenate([y, y]))
    allowed = case.bytes_per_record * len(X) + 256
    assert len(pickle.dumps(doubled)) <= len(blob) + allowed


@each_case
def test_docstring_sections_come_in_order(case):
    doc = inspect.getdoc(case.make)
    marks = [r"\.\. math::", r"\*\*Privacy guarantee\.\*\*", r"Parameters\n---", r"Attributes\n---"]
    marks += [r"References\n---", r"Examples\n---"]
    places = []
    for mark in marks:
        found = re.search(mark, doc)
        assert found, f"{case.name}: {mark} is missing from the docstring"
        places.append(found.start())
    assert places == sorted(places)
    documented = set(re.findall(r"^(\w+) : ", doc, flags=re.MULTILINE))
    assert set(case.make().get_params()) <= documented
    fitted_public = {
        name
        for name in fitted_state(case.build(random_state=0).fit(*case.data()))
        if not name.startswith("_")
    }
    assert fitted_public - {"n_features_in_", "feature_names_in_"} <= documented
