"""What `PrivateHMM` reads after the fit: the release, never parameters that have changed since."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

from skdpbayes import PrivateHMM, models, randomness
from skdpbayes.datasets import make_event_log
from skdpbayes.estimators import _hmm_base

SIZES = (4, 3)
PUBLIC = {"categories": SIZES, "n_times": 8, "group_labels": range(3)}
SHORT = {"n_iter": 6, "burn_in": 4, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def log():
    return make_event_log(3, 8, 40, categories=SIZES, random_state=1)


def fit(log, **params):
    hmm = PrivateHMM(**{**PUBLIC, **SHORT, **params})
    return hmm.fit(log.data, times=log.times, groups=log.groups)


# Every parameter that describes the release; refit must not look at any of them.
OTHER_RELEASE = {
    "mechanism": "gaussian",
    "epsilon": 50.0,
    "delta": 1e-3,
    "adjacency": "zero_out",
    "categories": (40, 30),
    "n_times": 3,
    "group_labels": ["x"],
    "emission_floor": 0.5,
    "ops_accounting": "converged",
}


@pytest.mark.parametrize("name", OTHER_RELEASE)
def test_refit_reads_the_release_and_not_changed_parameters(log, name):
    hmm = fit(log, epsilon=0.5)
    expected = hmm.refit(n_states=2)
    changed = fit(log, epsilon=0.5).set_params(**{name: OTHER_RELEASE[name]})
    again = changed.refit(n_states=2)
    np.testing.assert_array_equal(again.state_proba_, expected.state_proba_)
    np.testing.assert_array_equal(again.emission_[0], expected.emission_[0])
    assert (again.mechanism_, again.noise_scale_) == ("laplace", hmm.noise_scale_)
    assert again.privacy_ == hmm.privacy_


def test_the_law_of_the_noise_travels_with_the_release(log, monkeypatch):
    laws = []
    original = _hmm_base.make_evidence
    monkeypatch.setattr(
        _hmm_base,
        "make_evidence",
        lambda *a, noise, **k: laws.append(noise) or original(*a, noise=noise, **k),
    )
    hmm = fit(log, mechanism="gaussian", delta=1e-6)
    hmm.set_params(mechanism="laplace")
    twice = pickle.loads(pickle.dumps(hmm)).refit(n_states=2).refit(n_states=3)
    twice.sample_posterior(40, random_state=0)
    twice.select_n_states((1, 2), n_splits=1, random_state=0)
    assert laws == ["gaussian"] * 5
    assert twice.mechanism_ == "gaussian"


def test_more_draws_come_from_the_fitted_model(log):
    hmm, same = fit(log), fit(log)
    same.set_params(n_states=5, alpha_emission=50.0, stickiness=9.0, emission_posterior="projected")
    for name, draws in hmm.sample_posterior(30, random_state=4).items():
        np.testing.assert_array_equal(same.sample_posterior(30, random_state=4)[name], draws)
    chosen = [m.select_n_states((1, 2), n_splits=1, random_state=4) for m in (hmm, same)]
    np.testing.assert_array_equal(chosen[0].log_likelihood, chosen[1].log_likelihood)
    assert same.refit(n_states=5).transition_.shape == (5, 5)
    with pytest.raises(ValueError, match="n_chains"):
        same.set_params(n_chains=0).sample_posterior(30)


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
        {"emission_posterior": "projected"},
        {"mechanism": "gaussian", "delta": 1e-6},
        {"mechanism": "ops"},
        {"mechanism": "ops", "ops_accounting": "converged"},
    ],
)
def test_nothing_stored_is_as_large_as_the_data_or_equals_the_counts(log, params):
    hmm = pickle.loads(pickle.dumps(fit(log, **params)))
    steps = log.groups * 8 + log.times
    exact = models.count_events(log.data, steps, 24, np.array(SIZES))
    kept = list(arrays_in(vars(hmm)))
    assert len(kept) > 5
    for array in kept:
        assert array.shape[:1] != log.data.shape[:1]
        if array.size == exact.size:
            assert np.mean(array.reshape(exact.shape) == exact) < 0.5
    assert not any(np.array_equal(a.ravel(), exact.sum(axis=0)) for a in kept)


def test_an_interrupted_second_fit_keeps_nothing_of_the_first(log, monkeypatch):
    hmm = fit(log)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_hmm_base, "run_chains", interrupt)
    hmm.set_params(epsilon=0.1)
    with pytest.raises(KeyboardInterrupt):
        hmm.fit(log.data, times=log.times, groups=log.groups)
    # The claim is the second fit's, so only what it released may be left beside it.
    assert hmm.privacy_.epsilon == 0.1
    assert not {"states_", "state_proba_", "_emission_draws"} & set(vars(hmm))
    assert hmm.released_counts_.shape == (3, 8, 7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": None}, "group_labels describes 3 groups, but groups was not passed"),
        ({"times": None}, "n_times describes 8 times, but times was not passed"),
        ({"times": None, "groups": None}, "n_times describes"),
        ({"group_labels": [0, 1, 2, 2]}, "every group once"),
        ({"group_labels": []}, "every group once"),
        ({"group_labels": 3}, "every group once"),
        ({"groups": ["0", "1", "2", "0"]}, "'0'.* not among the group_labels"),
        ({"groups": [0, None, 1, 2]}, "None.* not among the group_labels"),
        ({"times": [0, 1, 2, np.inf]}, "times must be integers"),
        ({"X": np.array([[1e300, 0]] * 4)}, "too large"),
        ({"X": pd.DataFrame({"a": pd.Categorical(list("abcd")), "b": [0] * 4})}, "integer codes"),
        (
            {"times": None, "groups": None, "n_times": None, "group_labels": None, "lengths": 4},
            "lengths must list",
        ),
    ],
)
def test_events_that_cannot_be_placed_are_refused(change, message):
    data = {"X": np.zeros((4, 2), int), "times": [0, 1, 2, 3], "groups": [0, 1, 2, 0]}
    data |= {name: change[name] for name in (*data, "lengths") if name in change}
    params = {name: value for name, value in change.items() if name not in data}
    with pytest.raises(ValueError, match=message):
        PrivateHMM(**{**PUBLIC, **params}).fit(**data)


def test_new_tables_are_placed_one_way_only(log):
    with pytest.raises(ValueError, match="does not go with times"):
        fit(log).predict(log.data[:4], times=[0, 1, 2, 3], lengths=[4])


def test_labels_of_mixed_objects_are_found(log):
    names = np.array(["a", 1, 2.5], dtype=object)
    hmm = PrivateHMM(**{**PUBLIC, **SHORT, "group_labels": names})
    hmm.fit(log.data, times=log.times, groups=names[log.groups])
    np.testing.assert_array_equal(hmm.released_counts_, fit(log).released_counts_)
