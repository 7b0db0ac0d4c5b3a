"""Intervals of `PrivateHMM` cover the truth as often as they say, the noise being known."""

from __future__ import annotations

import numpy as np
import pytest

from skdpbayes import PrivateHMM
from skdpbayes.datasets import make_event_log
from skdpbayes.estimators.hmm.evidence import NoisyCellEvidence

N_LOGS = 40


def coverage(epsilon, n_logs=N_LOGS, sizes=(3, 4, 200), n_iter=900, **params):
    """Share of 90 % intervals that hold the truth; true emissions are drawn from the prior."""
    inside = []
    for seed in range(n_logs):
        log = make_event_log(
            *sizes, n_states=1, categories=(5,), emission_concentration=1.0, random_state=seed
        )
        hmm = PrivateHMM(
            epsilon,
            n_states=1,
            categories=5,
            n_times=sizes[1],
            sequence_labels=range(sizes[0]),
            n_iter=n_iter,
            burn_in=n_iter // 3,
            n_chains=1,
            random_state=seed + 1000,
            **params,
        ).fit(log.data, times=log.times, sequences=log.sequences)
        low, high = np.quantile(hmm.sample_posterior()["emission"][:, 0], [0.05, 0.95], axis=0)
        inside.append((log.emission[0][0] >= low) & (log.emission[0][0] <= high))
    return np.mean(inside)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_intervals_cover_nine_times_in_ten(epsilon):
    # 200 intervals of 40 logs: the share has a standard error of about 0.023.
    assert 0.84 <= coverage(epsilon) <= 0.96


def test_believing_noisy_counts_does_not():
    assert coverage(0.1, 10, posterior="naive") < 0.5


def test_draws_from_counts_alone_would_creep(monkeypatch):
    # Without the moves that sum the counts out the chain has not left its start's surroundings.
    monkeypatch.setattr(NoisyCellEvidence, "move", lambda self, states, emission, *_: emission)
    assert coverage(0.1, 20, sizes=(5, 8, 60), n_iter=300) < 0.75
