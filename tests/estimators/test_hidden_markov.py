"""`PrivateHMM`: what it learns, what it returns, what it refuses."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from skdpbayes import PrivacyWarning, PrivateHMM
from skdpbayes.datasets import make_event_log
from skdpbayes.exceptions import CalibrationError
from skdpbayes.samplers import match_states

SIZES = (6, 4, 2)
PUBLIC = {"categories": SIZES, "n_times": 20, "sequence_labels": range(6)}
NO_GRID = {"times": None, "sequences": None, "n_times": None, "sequence_labels": None}


@pytest.fixture(scope="module")
def log():
    return make_event_log(6, 20, 200, categories=SIZES, random_state=3)


@pytest.fixture(scope="module")
def fitted(log):
    hmm = PrivateHMM(epsilon=1.0, n_iter=60, burn_in=40, random_state=0, **PUBLIC)
    return hmm.fit(log.data, times=log.times, sequences=log.sequences)


def quick(log, **params):
    settings = {"n_iter": 30, "burn_in": 20, "random_state": 0, **PUBLIC, **params}
    return PrivateHMM(**settings).fit(log.data, times=log.times, sequences=log.sequences)


def recovery(hmm, truth):
    n_states = max(hmm.n_states, truth.max() + 1)
    return np.mean(match_states(hmm.states_, truth, n_states)[hmm.states_] == truth)


def test_states_emissions_and_transitions_are_recovered(fitted, log):
    assert recovery(fitted, log.states) >= 0.95
    names = match_states(fitted.states_, log.states, 3)
    old = np.argsort(names)
    for table, truth in zip(fitted.emission_, log.emission, strict=True):
        np.testing.assert_allclose(table[old], truth, atol=0.05)
    np.testing.assert_allclose(fitted.transition_[np.ix_(old, old)], log.transition, atol=0.2)
    np.testing.assert_allclose(fitted.start_.sum(), 1.0)


def test_recovery_at_the_stated_size():
    # 20 regions, 60 months, 500 events a cell, three states, epsilon = 1.
    log = make_event_log(20, 60, 500, random_state=0)
    hmm = PrivateHMM(
        1.0,
        categories=(10, 5, 2),
        n_times=60,
        sequence_labels=range(20),
        n_iter=20,
        burn_in=15,
        n_chains=1,
        random_state=0,
    ).fit(log.data, times=log.times, sequences=log.sequences)
    assert recovery(hmm, log.states) >= 0.95


@pytest.mark.parametrize(
    "params",
    [
        {"mechanism": "gaussian", "delta": 1e-6},
        {"delta": 1e-6},
        {"posterior": "naive"},
        {"state_sampler": "collapsed"},
        {"adjacency": "zero_out", "stickiness": 5.0},
        {"mechanism": "ops", "epsilon": np.inf, "n_chains": 1, "n_iter": 60},
        {"mechanism": "ops", "epsilon": 50.0, "calibration": "converged", "n_iter": 100},
    ],
)
def test_every_way_finds_the_states_at_a_large_epsilon(log, params):
    hmm = quick(log, **{"epsilon": 5.0, **params})
    assert recovery(hmm, log.states) >= 0.9
    assert hmm.state_proba_.shape == (6, 20, 3)
    np.testing.assert_allclose(hmm.state_proba_.sum(axis=2), 1.0)


def test_knowing_the_noise_removes_the_bias_that_clipping_has():
    # One state, few events a cell: clipped noise flattens the fields' distributions.
    log = make_event_log(
        30, 20, 10, n_states=1, categories=(8,), emission_concentration=0.3, random_state=1
    )
    truth = log.emission[0][0]
    errors = {}
    for reading in ("noise_aware", "naive"):
        hmm = PrivateHMM(
            0.5,
            n_states=1,
            categories=(8,),
            n_times=20,
            sequence_labels=range(30),
            posterior=reading,
            n_iter=400,
            burn_in=100,
            n_chains=1,
            random_state=0,
        ).fit(log.data, times=log.times, sequences=log.sequences)
        draws = hmm.sample_posterior()["emission"][:, 0]
        errors[reading] = np.abs(draws.mean(axis=0) - truth).sum()
        if reading == "noise_aware":  # and its spread tells how far off it may be
            z = (draws.mean(axis=0) - truth) / draws.std(axis=0)
            assert np.abs(z).max() < 4.5
            assert np.sqrt(np.mean(z**2)) > 0.2
    assert errors["noise_aware"] < 0.15
    assert errors["naive"] > 2 * errors["noise_aware"]


def test_rows_as_steps_with_lengths():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(2, size=30), 10)[:, None]
    hmm = PrivateHMM(8.0, n_states=2, categories=2, n_iter=50, burn_in=50, random_state=0)
    hmm.fit(X, lengths=[100, 150, 50])
    assert hmm.released_counts_.shape == (300, 2)
    assert hmm.states_.shape == (300,)
    assert hmm.lengths_.tolist() == [100, 150, 50]
    assert recovery(hmm, X[:, 0]) > 0.95
    assert hmm.predict(X, lengths=[150, 150]).shape == (300,)


def test_refit_uses_the_release_alone_and_costs_nothing(fitted, log):
    other = fitted.refit(n_states=2, n_iter=20, burn_in=10)
    assert other is not fitted
    assert other.transition_.shape == (2, 2)
    assert other.privacy_ == fitted.privacy_
    np.testing.assert_array_equal(other.released_counts_, fitted.released_counts_)
    assert fitted.transition_.shape == (3, 3)
    again = fitted.refit(posterior="naive", n_iter=20)
    assert recovery(again, log.states) >= 0.95
    with pytest.raises(ValueError, match="epsilon"):
        fitted.refit(epsilon=2.0)
    with pytest.raises(ValueError, match="n_states"):
        fitted.refit(n_states=0)


def test_select_n_states_finds_the_number(fitted):
    model = fitted.refit(n_iter=25, burn_in=15, n_chains=1)
    chosen = model.select_n_states((1, 2, 3, 4), n_splits=2, random_state=0)
    assert chosen.n_states == 3
    assert chosen.log_likelihood.shape == (4,)
    assert chosen.log_likelihood[2] > chosen.log_likelihood[1] > chosen.log_likelihood[0]
    with pytest.raises(ValueError, match="candidates"):
        model.select_n_states(())


def test_predictions_on_a_new_table(fitted, log):
    new = make_event_log(6, 20, 200, categories=SIZES, random_state=3)
    proba = fitted.predict_proba(new.data, times=new.times, sequences=new.sequences)
    assert proba.shape == (len(new.data), 3)
    truth = new.states[new.sequences, new.times]
    states = fitted.predict(new.data, times=new.times, sequences=new.sequences)
    assert np.mean(match_states(states, truth, 3)[states] == truth) > 0.95
    # events of a cell share its state, and unknown sequences are chains of their own
    cell = (new.sequences == 2) & (new.times == 5)
    assert np.unique(states[cell]).size == 1
    named = np.array(["a", "b", "c", "d", "e", "f"])[new.sequences]
    np.testing.assert_array_equal(
        states, fitted.predict(new.data, times=new.times, sequences=named)
    )


def test_score_is_the_mean_log_likelihood(fitted, log):
    at = (log.sequences == 0) & (log.times < 2)
    score = fitted.score(log.data[at], times=log.times[at])
    draws = fitted.sample_posterior()
    chosen = np.linspace(0, len(draws["start"]) - 1, 100).round().astype(int)
    begin = np.concatenate([[0], np.cumsum(SIZES)[:-1]])
    total = []
    for i in chosen:
        like = np.ones((2, 3))
        logs = np.log(draws["emission"][i])[:, log.data[at] + begin].sum(axis=2)
        like = np.stack([logs[:, log.times[at] == t].sum(axis=1) for t in (0, 1)])
        top = like.max(axis=1, keepdims=True)
        p = draws["start"][i] * np.exp(like[0] - top[0])
        p = p @ draws["transition"][i] * np.exp(like[1] - top[1])
        total.append(np.log(p.sum()) + top.sum())
    expected = (np.logaddexp.reduce(total) - np.log(100)) / at.sum()
    assert score == pytest.approx(expected, rel=1e-9)
    assert score > fitted.refit(n_states=1, n_iter=30).score(log.data[at], times=log.times[at])


def test_posterior_draws_are_free_and_share_names(fitted):
    kept = fitted.sample_posterior()
    assert kept["start"].shape == (120, 3)
    assert kept["transition"].shape == (120, 3, 3)
    assert kept["emission"].shape == (120, 3, 12)
    few = fitted.sample_posterior(7, random_state=1)
    assert few["start"].shape == (7, 3)
    many = fitted.sample_posterior(150, random_state=1)
    assert many["emission"].shape == (150, 3, 12)
    np.testing.assert_allclose(
        many["emission"].mean(axis=0), kept["emission"].mean(axis=0), atol=0.03
    )
    assert kept["emission"].std(axis=0).max() < 0.1  # no label switching left


def test_ops_draws_cannot_be_had_for_nothing(log):
    hmm = quick(log, mechanism="ops", calibration="converged", n_chains=2)
    assert hmm.sample_posterior()["start"].shape == (2, 3)
    with pytest.raises(ValueError, match="2 draw"):
        hmm.sample_posterior(3)
    for name in ("refit", "select_n_states", "interval", "sample"):
        assert not hasattr(hmm, name)
        with pytest.raises(AttributeError) as error:
            getattr(hmm, name)
        assert "released 2 draw" in str(error.value.__cause__ or error.value)
    assert not hasattr(hmm, "released_counts_")
    assert hmm.temperature_ > 1.0
    assert not hasattr(hmm, "noise_")


def test_a_second_fit_leaves_nothing_of_the_first_release(log):
    # Else refit would hand out the first fit's counts under the second one's claim.
    hmm = quick(log, n_iter=2, burn_in=0, n_chains=1)
    assert hasattr(hmm, "released_counts_")
    hmm.set_params(mechanism="ops").fit(log.data, times=log.times, sequences=log.sequences)
    assert not hasattr(hmm, "released_counts_")
    assert not hasattr(hmm, "noise_")
    assert not hasattr(hmm, "refit")
    assert not hasattr(hmm, "select_n_states")


def test_to_dataframe(fitted):
    frame = fitted.to_dataframe()
    assert frame.columns.tolist() == ["sequence", "time", "state", "proba_0", "proba_1", "proba_2"]
    assert frame.shape[0] == 120
    row = frame.iloc[33]
    assert (row["sequence"], row["time"]) == (1, 13)
    assert row["state"] == fitted.states_[1, 13]
    rows = PrivateHMM(1.0, categories=2, n_iter=5, burn_in=0, random_state=0)
    assert rows.fit(np.zeros((4, 1), int)).to_dataframe().columns[1] == "step"


def test_empty_cells_and_absent_sequences_are_fine(log):
    kept = (log.sequences != 2) & (log.times % 3 != 1)
    hmm = PrivateHMM(2.0, n_iter=40, burn_in=30, random_state=0, **PUBLIC)
    hmm.fit(log.data[kept], times=log.times[kept], sequences=log.sequences[kept])
    assert hmm.states_.shape == (6, 20)
    seen = np.zeros((6, 20), dtype=bool)
    seen[log.sequences[kept], log.times[kept]] = True
    assert (
        np.mean(match_states(hmm.states_, log.states, 3)[hmm.states_][seen] == log.states[seen])
        > 0.95
    )


def test_pandas_columns_and_named_sequences(log):
    frame = pd.DataFrame(log.data, columns=["kind", "place", "dark"])
    names = np.array(["f", "e", "d", "c", "b", "a"])
    settings = {**PUBLIC, "sequence_labels": names}
    hmm = PrivateHMM(1.0, n_iter=10, burn_in=5, random_state=0, **settings)
    hmm.fit(frame, times=pd.Series(log.times), sequences=names[log.sequences])
    assert hmm.feature_names_in_.tolist() == ["kind", "place", "dark"]
    assert hmm.sequence_labels_.tolist() == names.tolist()
    same = quick(log, n_iter=10, burn_in=5)
    np.testing.assert_array_equal(hmm.released_counts_, same.released_counts_)


def test_what_is_read_off_the_data_is_said(log):
    with pytest.warns(PrivacyWarning, match="categories, n_times, sequence_labels"):
        hmm = PrivateHMM(n_iter=5, burn_in=0, random_state=0).fit(
            log.data, times=log.times, sequences=log.sequences
        )
    assert "n_times" in hmm.privacy_.conditions[0]
    assert quick(log, n_iter=5).privacy_.conditions == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.array([[0.5, 0, 0]] * 4)}, "fractional"),
        ({"X": np.array([[-1, 0, 0]] * 4)}, "Negative values"),
        ({"X": np.array([[0, 4, 0]] * 4)}, "column 1 .* categories=4"),
        ({"X": np.array([[0, np.nan, 0]] * 4)}, "NaN"),
        ({"times": [0, 1, 2, 20]}, "times must lie in 0..19"),
        ({"times": [0, 1, 2, -1]}, "at least 0"),
        ({"times": [0, 1, 2, 0.5]}, "times must hold integer codes"),
        ({"times": [0, 1]}, "one entry for each of the 4 rows"),
        ({"sequences": [0, 1, 2, 9]}, "9.* not among the sequence_labels"),
        ({"lengths": [2, 2]}, "does not go with times"),
        ({**NO_GRID, "lengths": [2, 3]}, "add up to 5"),
        ({**NO_GRID, "lengths": [4, 0]}, "lengths must be an integer >= 1"),
        ({"n_states": 0}, "n_states"),
        ({"mechanism": "exponential"}, "mechanism"),
        ({"alpha_emission": 0.0}, "alpha_emission"),
        ({"stickiness": -1.0}, "stickiness"),
        ({"min_probability": 1.0}, "min_probability"),
        ({"categories": (6, 4)}, "one for each of the 3 columns"),
        ({"n_iter": 0}, "n_iter"),
        ({"calibration": "converged"}, "calibration='converged' would have no effect"),
        ({"min_probability": 0.2}, "min_probability=0.2 would have no effect"),
        ({"mechanism": "ops", "posterior": "naive"}, "posterior='naive' would have no effect"),
    ],
)
def test_errors_name_what_is_wrong(change, message):
    data = {"X": np.zeros((4, 3), int), "times": [0, 1, 2, 3], "sequences": [0, 1, 2, 3]}
    data |= {name: change[name] for name in (*data, "lengths") if name in change}
    params = {name: value for name, value in change.items() if name not in data}
    with pytest.raises(ValueError, match=message):
        PrivateHMM(**{**PUBLIC, **params}).fit(**data)


def test_gaussian_noise_needs_delta(log):
    with pytest.raises(CalibrationError, match="delta"):
        quick(log, mechanism="gaussian")


def test_unfitted_attributes_and_methods():
    hmm = PrivateHMM()
    assert not hasattr(hmm, "emission_")
    for call in (hmm.refit, hmm.select_n_states, hmm.sample_posterior, hmm.to_dataframe):
        with pytest.raises(NotFittedError):
            call()


@pytest.mark.parametrize("posterior", ["noise_aware", "naive"])
def test_synthetic_logs_follow_the_released_ones(fitted, log, posterior):
    model = fitted.refit(posterior=posterior)
    new = model.sample(random_state=1)
    assert new.data.shape == (len(new.times), 3)
    assert abs(len(new.data) / len(log.data) - 1.0) < 0.05  # the noise on totals included
    np.testing.assert_array_equal(new.data, model.sample(random_state=1).data)
    assert len(model.sample(random_state=2).data) != len(new.data)
    assert np.mean(new.states == model.states_) > 0.95
    state = new.states[new.sequences, new.times]
    for d, table in enumerate(model.emission_):
        for k in range(3):
            found = np.bincount(new.data[state == k, d], minlength=table.shape[1])
            np.testing.assert_allclose(found / found.sum(), table[k], atol=0.03)
    # and a model without noise finds in it what the released one found in the log
    again = quick(new, epsilon=np.inf)
    names = match_states(again.states_, new.states, 3)
    assert np.mean(names[again.states_] == new.states) > 0.97


def test_synthetic_rows_are_steps():
    X = np.repeat(np.arange(4) % 2, 25)[:, None]
    hmm = PrivateHMM(8.0, n_states=2, categories=2, n_iter=50, burn_in=50, random_state=0)
    new = hmm.fit(X, lengths=[60, 40]).sample(random_state=0)
    assert new.data.shape == (100, 1)
    assert new.sequences.tolist() == [0] * 60 + [1] * 40
    assert new.times.tolist() == [*range(60), *range(40)]
    assert new.states.shape == (100,)


def test_the_spread_of_synthetic_totals_is_that_of_the_posterior_predictive():
    """One state and one cell without noise: a Dirichlet-multinomial, exactly."""
    X = np.array([[0]] * 12 + [[1]] * 6)
    hmm = PrivateHMM(
        np.inf, n_states=1, categories=2, n_times=1, n_iter=3000, n_chains=1, random_state=0
    ).fit(X, times=np.zeros(18, int))
    shares = []
    for seed in range(1500):
        data = hmm.sample(random_state=seed).data[:, 0]
        shares.append((np.sum(data == 0), len(data)))
    zeros, sizes = np.array(shares).T
    assert abs(sizes.mean() - 18.0) < 5 * np.sqrt(18 / 1500)
    # given its size a log has zeros of mean n 13/20 and variance n p q (20 + n) / 21
    z = (zeros - sizes * 0.65) / np.sqrt(sizes * 0.65 * 0.35 * (20 + sizes) / 21)
    assert abs(z.mean()) < 5 / np.sqrt(1500)
    assert 0.85 < z.std() < 1.15  # without the spread of the parameters: .74


def test_the_way_from_a_csv_file_to_states():
    """The example: regions of unequal size, months without events, entries that are missing."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    done = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "plot_hmm_from_csv.py"))
    hmm = done["hmm"]
    bad = [(np.arange(24) + shift) % 12 >= 8 for shift in (0, 2, 4)]
    worse = int(hmm.emission_[0][:, 1].argmax())  # more ice
    assert hmm.privacy_.conditions == ()
    assert np.mean((hmm.states_ == worse) == bad) > 0.9
