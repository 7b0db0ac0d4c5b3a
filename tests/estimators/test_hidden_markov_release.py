"""What `PrivateHMM` reads after the fit: the release, never parameters that have changed since."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from skdpbayes import PrivacyLedger, PrivateHMM, models, randomness
from skdpbayes.datasets import make_event_log
from skdpbayes.estimators.hmm import posterior as hmm_posterior
from skdpbayes.estimators.hmm import selection as hmm_selection
from skdpbayes.fitting import records

SIZES = (4, 3)
PUBLIC = {"categories": SIZES, "n_times": 8, "sequence_labels": range(3)}
SHORT = {"n_iter": 6, "burn_in": 4, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def log():
    return make_event_log(3, 8, 40, categories=SIZES, random_state=1)


def fit(log, **params):
    hmm = PrivateHMM(**{**PUBLIC, **SHORT, **params})
    return hmm.fit(log.data, times=log.times, sequences=log.sequences)


# Every parameter that describes the release; refit must not look at any of them.
OTHER_RELEASE = {
    "mechanism": "gaussian",
    "epsilon": 50.0,
    "delta": 1e-3,
    "adjacency": "zero_out",
    "categories": (40, 30),
    "n_times": 3,
    "sequence_labels": ["x"],
    "min_probability": 0.5,
    "calibration": "converged",
}


@pytest.mark.parametrize("name", OTHER_RELEASE)
def test_refit_reads_the_release_and_not_changed_parameters(log, name):
    hmm = fit(log, epsilon=0.5)
    expected = hmm.refit(n_states=2)
    changed = fit(log, epsilon=0.5).set_params(**{name: OTHER_RELEASE[name]})
    again = changed.refit(n_states=2)
    np.testing.assert_array_equal(again.state_proba_, expected.state_proba_)
    np.testing.assert_array_equal(again.emission_[0], expected.emission_[0])
    assert again.noise_ == hmm.noise_
    assert again.noise_.law == "laplace"
    assert again.privacy_ == hmm.privacy_


def test_the_law_of_the_noise_travels_with_the_release(log, monkeypatch):
    laws = []
    original = hmm_posterior.make_evidence
    for module in (hmm_posterior, hmm_selection):
        monkeypatch.setattr(
            module,
            "make_evidence",
            lambda noisy, plan, *a: laws.append(plan.noise.law) or original(noisy, plan, *a),
        )
    hmm = fit(log, mechanism="gaussian", delta=1e-6)
    hmm.set_params(mechanism="laplace")
    twice = pickle.loads(pickle.dumps(hmm)).refit(n_states=2).refit(n_states=3)
    twice.sample_posterior(40, random_state=0)
    twice.select_n_states((1, 2), n_splits=1, random_state=0)
    assert laws == ["gaussian"] * 5
    assert twice.noise_.law == "gaussian"


def test_more_draws_come_from_the_fitted_model(log):
    hmm, same = fit(log), fit(log)
    same.set_params(n_states=5, alpha_emission=50.0, stickiness=9.0, posterior="naive")
    for name, draws in hmm.sample_posterior(30, random_state=4).items():
        np.testing.assert_array_equal(same.sample_posterior(30, random_state=4)[name], draws)
    chosen = [m.select_n_states((1, 2), n_splits=1, random_state=4) for m in (hmm, same)]
    np.testing.assert_array_equal(chosen[0].log_likelihood, chosen[1].log_likelihood)
    assert same.refit(n_states=5).transition_.shape == (5, 5)
    # nor do the sampler's parameters matter any more, however wrong
    same.set_params(n_chains=0, n_iter=-1, burn_in=None, categories=3, n_times=1)
    for name, draws in hmm.sample_posterior(30, random_state=4).items():
        np.testing.assert_array_equal(same.sample_posterior(30, random_state=4)[name], draws)
    rows = {"times": log.times, "sequences": log.sequences}
    np.testing.assert_array_equal(
        same.predict_proba(log.data, **rows), hmm.predict_proba(log.data, **rows)
    )
    pd.testing.assert_frame_equal(same.to_dataframe(), hmm.to_dataframe())


@pytest.mark.parametrize("mechanism", ["laplace", "ops"])
def test_draws_after_a_release_never_repeat_its_random_bits(log, mechanism, monkeypatch):
    # Under one seed for all calls, as in a script: the streams must differ all the same.
    opened = []

    def note(make):
        def wrapped(*args):
            made = make(*args)
            for generator in made if isinstance(made, list) else [made]:
                opened.append(generator.bit_generator.seed_seq)
            return made

        return wrapped

    for name in ("spawn", "make_generator", "derived_generator"):
        monkeypatch.setattr(randomness, name, note(getattr(randomness, name)))
    hmm = fit(log, mechanism=mechanism, epsilon=5.0)
    of_release = {(s.entropy, s.spawn_key) for s in opened}
    opened.clear()
    hmm.sample_posterior(3, random_state=0)
    if mechanism == "laplace":
        hmm.sample_posterior(40, random_state=0)
        hmm.select_n_states((1, 2), n_splits=1, random_state=0)
        hmm.sample(random_state=0)
    later = {(s.entropy, s.spawn_key) for s in opened}
    assert later
    assert not later & of_release


def arrays_in(value):
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from arrays_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from arrays_in(item)
    elif hasattr(value, "__dict__"):
        yield from arrays_in(vars(value))


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"posterior": "naive"},
        {"mechanism": "gaussian", "delta": 1e-6},
        {"mechanism": "ops"},
        {"mechanism": "ops", "calibration": "converged"},
    ],
)
def test_nothing_stored_is_as_large_as_the_data_or_equals_the_counts(log, params):
    hmm = pickle.loads(pickle.dumps(fit(log, **params)))
    steps = log.sequences * 8 + log.times
    exact = models.count_events(log.data, steps, 24, np.array(SIZES))
    kept = list(arrays_in(vars(hmm)))
    assert len(kept) > 5
    for array in kept:
        assert array.shape[:1] != log.data.shape[:1]
        if array.size == exact.size:
            assert np.mean(array.reshape(exact.shape) == exact) < 0.5
    assert not any(np.array_equal(a.ravel(), exact.sum(axis=0)) for a in kept)


def test_an_interrupted_second_fit_leaves_the_first_with_its_own_claim(log, monkeypatch):
    hmm = fit(log)
    before = pickle.dumps(vars(hmm))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(hmm_posterior, "run_chains", interrupt)
    with pytest.raises(KeyboardInterrupt):
        hmm.set_params(epsilon=0.1).fit(log.data, times=log.times, sequences=log.sequences)
    # Beside a claim only what it is about may be left.
    assert hmm.privacy_.epsilon == 1.0
    assert pickle.dumps(vars(hmm.set_params(epsilon=1.0))) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"sequences": None},
            "sequence_labels describes 3 sequences, but sequences was not passed",
        ),
        ({"times": None}, "n_times describes 8 times, but times was not passed"),
        ({"times": None, "sequences": None}, "n_times describes"),
        ({"sequence_labels": [0, 1, 2, 2]}, "every sequence once"),
        ({"sequence_labels": []}, "every sequence once"),
        ({"sequence_labels": 3}, "every sequence once"),
        ({"sequences": ["0", "1", "2", "0"]}, "'0'.* not among the sequence_labels"),
        ({"sequences": [0, None, 1, 2]}, "None.* not among the sequence_labels"),
        ({"times": [0, 1, 2, np.inf]}, "times holds numbers too large"),
        ({"X": np.array([[1e300, 0]] * 4)}, "too large"),
        ({"X": pd.DataFrame({"a": pd.Categorical(list("abcd")), "b": [0] * 4})}, "integer codes"),
        (
            {
                "times": None,
                "sequences": None,
                "n_times": None,
                "sequence_labels": None,
                "lengths": 4,
            },
            "lengths must list",
        ),
    ],
)
def test_events_that_cannot_be_placed_are_refused(change, message):
    data = {"X": np.zeros((4, 2), int), "times": [0, 1, 2, 3], "sequences": [0, 1, 2, 0]}
    data |= {name: change[name] for name in (*data, "lengths") if name in change}
    params = {name: value for name, value in change.items() if name not in data}
    with pytest.raises(ValueError, match=message):
        PrivateHMM(**{**PUBLIC, **params}).fit(**data)


def test_new_tables_are_placed_one_way_only(log):
    with pytest.raises(ValueError, match="does not go with times"):
        fit(log).predict(log.data[:4], times=[0, 1, 2, 3], lengths=[4])


def test_labels_of_mixed_objects_are_found(log):
    names = np.array(["a", 1, 2.5], dtype=object)
    hmm = PrivateHMM(**{**PUBLIC, **SHORT, "sequence_labels": names})
    hmm.fit(log.data, times=log.times, sequences=names[log.sequences])
    np.testing.assert_array_equal(hmm.released_counts_, fit(log).released_counts_)


def test_unsigned_codes_never_wrap():
    """2**64 - 1 would become -1 in a cast and be counted in the cell of another field."""
    X, times = np.zeros((4, 4), dtype=np.uint64), np.arange(4, dtype=np.uint64)
    grid = {"categories": 2, "n_times": 4, **SHORT}
    hmm = PrivateHMM(**grid).fit(X, times=times)
    wrong_codes, wrong_times = X.copy(), times.copy()
    wrong_codes[0, 1] = wrong_times[0] = 2**64 - 1
    for call in (PrivateHMM(**grid).fit, hmm.predict_proba, hmm.score):
        with pytest.raises(ValueError, match="X holds numbers too large"):
            call(wrong_codes, times=times)
        with pytest.raises(ValueError, match="times holds numbers too large"):
            call(X, times=wrong_times)
    # without public sizes they would be read off the wrapped codes
    with pytest.raises(ValueError, match="times holds numbers too large"):
        PrivateHMM(categories=2, **SHORT).fit(X, times=wrong_times)
    with pytest.raises(ValueError, match="X holds numbers too large"):
        PrivateHMM(n_times=4, **SHORT).fit(wrong_codes, times=times)


@pytest.mark.parametrize("kind", [bool, np.int8, np.uint8, np.uint64, np.float32, np.longdouble])
def test_codes_of_every_type_are_counted_alike(kind):
    X = np.array([[0, 1], [1, 1], [1, 0]])
    first, second = (
        PrivateHMM(categories=2, **SHORT).fit(table).released_counts_
        for table in (X, X.astype(kind))
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
def test_a_grid_that_no_memory_holds_is_refused_before_the_ledger_is_charged(tmp_path):
    ledger = PrivacyLedger(tmp_path / "budget.sqlite", epsilon=5.0)
    X = np.array([[0, 2**50], [0, 1]])
    for params, data in (
        ({}, {"X": X}),
        ({"categories": (2, 2**62)}, {"X": X % 2}),
        ({"categories": 2}, {"X": X % 2, "times": [0, 2**52]}),
        ({"categories": 2, "n_times": 2**62}, {"X": X % 2, "times": [0, 1], "sequences": [0, 1]}),
    ):
        with pytest.raises(ValueError, match=r"than any memory holds|at most"):
            PrivateHMM(**params, **SHORT, ledger=ledger).fit(**data)
    assert ledger.entries() == []


def test_a_refused_fit_changes_nothing(log):
    hmm = fit(log)
    before = pickle.dumps(vars(hmm))
    for X, times in ((log.data + 9, log.times), (log.data[:, :1], log.times), (log.data, None)):
        with pytest.raises(ValueError, match=r"column|categories|times"):
            hmm.fit(X, times=times, sequences=log.sequences)
    assert pickle.dumps(vars(hmm)) == before


@pytest.mark.parametrize(
    "params", [{}, {"mechanism": "gaussian", "delta": 1e-6}, {"mechanism": "ops"}]
)
def test_a_plan_without_data_tells_what_a_fit_claims_and_adds(log, params):
    hmm = fit(log, **params)
    plan = PrivateHMM(**{**PUBLIC, **SHORT, **params}).plan(len(log.data), 2)
    assert plan.privacy == hmm.privacy_
    assert plan.numbers == {name: getattr(hmm, name) for name in plan.numbers}
    assert set(plan.numbers) <= {"noise_", "temperature_"}
    assert str(hmm.privacy_) in str(plan)
    other = PrivateHMM(**SHORT, **params).plan(10, 2, categories=SIZES)
    assert other.numbers == plan.numbers
    with pytest.raises(ValueError, match="categories"):
        PrivateHMM(**SHORT, **params).plan(10, 2)


def test_intervals_are_those_of_the_draws(log):
    hmm = fit(log, n_iter=40)
    draws, ends = hmm.sample_posterior(), hmm.interval(0.8)
    assert ends.keys() == draws.keys()
    for name, drawn in draws.items():
        assert ends[name].shape == (*drawn.shape[1:], 2)
        inside = (drawn >= ends[name][..., 0]) & (drawn <= ends[name][..., 1])
        assert 0.75 < inside.mean() < 0.85


def test_blocks_of_events_do_not_matter(log, monkeypatch):
    whole = fit(log)
    monkeypatch.setattr(records, "BLOCK_BYTES", 1000)
    np.testing.assert_array_equal(fit(log).released_counts_, whole.released_counts_)
