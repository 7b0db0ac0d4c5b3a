"""`PrivateHMM` beside hmmlearn: the same recursions, and without noise the same maximum."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from scipy.special import gammaln

from skdpbayes import PrivateHMM, models
from skdpbayes.samplers import match_states

hmm_peer = pytest.importorskip("hmmlearn.hmm")
logging.getLogger("hmmlearn").setLevel(logging.ERROR)

START = np.array([0.5, 0.3, 0.2])
TRANSITION = np.array([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
EMISSION = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.05, 0.05, 0.3, 0.6]])
LENGTHS = [40, 1, 25]


def simulate(seed, n_events, lengths=LENGTHS):
    rng = np.random.default_rng(seed)
    states = []
    for n in lengths:
        state = rng.choice(3, p=START)
        for t in range(n):
            state = rng.choice(3, p=TRANSITION[state]) if t else state
            states.append(state)
    states = np.array(states)
    return states, rng.multinomial(n_events, EMISSION[states])


def with_parameters(model):
    model.startprob_, model.transmat_, model.emissionprob_ = START, TRANSITION, EMISSION
    return model


@pytest.mark.parametrize("implementation", ["scaling", "log"])
@pytest.mark.parametrize("n_events", [1, 7, 30])
def test_likelihood_and_smoother_with_known_parameters(implementation, n_events):
    _, counts = simulate(n_events, n_events)
    if n_events == 1:  # one emission a step
        peer = with_parameters(hmm_peer.CategoricalHMM(3, implementation=implementation))
        expected, proba = peer.score_samples(counts.argmax(axis=1)[:, None], LENGTHS)
    else:
        peer = hmm_peer.MultinomialHMM(3, implementation=implementation)
        peer = with_parameters(peer)
        peer.n_trials, peer.n_features = n_events, 4
        expected, proba = peer.score_samples(counts, LENGTHS)
        # the number of orders in which the events of a step may come, which we do not count
        expected -= np.sum(gammaln(n_events + 1) - gammaln(counts + 1).sum(axis=1))
    log_like = models.count_log_likelihood(counts.astype(float), EMISSION)
    starts = np.concatenate([[0], np.cumsum(LENGTHS)])
    found = models.chain_log_likelihood(log_like, starts, START, TRANSITION)
    assert found.sum() == pytest.approx(expected, rel=1e-10)
    smooth = models.smooth_states(log_like, starts, START, TRANSITION)
    np.testing.assert_allclose(smooth, proba, atol=1e-10)


def maximum(X, lengths, start, transition, emission):
    """Return hmmlearn's EM run from the given parameters."""
    peer = hmm_peer.CategoricalHMM(3, n_iter=100, tol=1e-3, init_params="", n_features=4)
    peer.startprob_, peer.transmat_, peer.emissionprob_ = start, transition, emission
    return peer.fit(X, lengths)


def test_without_noise_one_emission_a_step_reaches_the_maximum_of_em():
    lengths = [500] * 4
    _, counts = simulate(5, 1, lengths)
    X = counts.argmax(axis=1)[:, None]
    # EM from random starts often ends in lower maxima; from the truth it finds the right one.
    peer = maximum(X, lengths, START, TRANSITION, EMISSION)
    hmm = PrivateHMM(np.inf, categories=4, n_iter=150, burn_in=100, n_chains=1, random_state=0)
    hmm.fit(X, lengths=lengths)
    np.testing.assert_array_equal(hmm.released_counts_, counts)
    # Draws scatter below the maximum by about half their number of free parameters (2 + 6 + 9).
    top = peer.score(X, lengths)
    draws = hmm.sample_posterior()
    log_like = [
        models.chain_log_likelihood(
            models.count_log_likelihood(counts.astype(float), emission),
            np.concatenate([[0], np.cumsum(lengths)]),
            start,
            transition,
        ).sum()
        for start, transition, emission in zip(*draws.values(), strict=True)
    ]
    assert np.mean(log_like) == pytest.approx(top - 17 / 2, abs=5.0)
    assert np.max(log_like) <= top + 1.0
    # EM that starts at our posterior mean climbs to the same maximum.
    near = maximum(X, lengths, hmm.start_, hmm.transition_, hmm.emission_[0])
    assert near.score(X, lengths) == pytest.approx(top, abs=0.5)
    old = np.argsort(match_states(near.predict(X, lengths), peer.predict(X, lengths), 3))
    np.testing.assert_allclose(near.emissionprob_[old], peer.emissionprob_, atol=0.03)
    np.testing.assert_allclose(near.transmat_[np.ix_(old, old)], peer.transmat_, atol=0.03)
    # A new table is smoothed as hmmlearn does under our parameters, if there is but one draw.
    one = hmm.refit(n_iter=1, burn_in=20, n_chains=1)
    draw = one.sample_posterior()
    peer.startprob_, peer.transmat_ = draw["start"][0], draw["transition"][0]
    peer.emissionprob_ = draw["emission"][0]
    np.testing.assert_allclose(
        one.predict_proba(X, lengths=lengths), peer.predict_proba(X, lengths), atol=1e-8
    )
    assert one.score(X, lengths=lengths) == pytest.approx(peer.score(X, lengths) / len(X))
