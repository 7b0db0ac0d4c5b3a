"""Choice of the number of states by held-out cells of the released tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skdpbayes import randomness
from skdpbayes._validation import check_integer, check_real
from skdpbayes.estimators.hmm.chain import Watch, as_draws, start_chain
from skdpbayes.estimators.hmm.evidence import HeldOutEvidence
from skdpbayes.estimators.hmm.posterior import StatesPosterior, make_evidence

SELECTION = (1, 2)  # the stream of its draws, as SAMPLING of the posterior


def select_n_states(
    posterior: StatesPosterior,
    candidates: Sequence[int],
    held_out: float,
    n_splits: int,
    random_state: Any,
    watch: Watch,
) -> Bunch:
    """See `PrivateHMM.select_n_states`; everything here is computed from the release."""
    sizes = [check_integer("candidates", k, low=1) for k in candidates]
    if not sizes:
        raise ValueError("candidates must list at least one number of states.")
    share = check_real("held_out", held_out, low=0.0, high=1.0, closed="neither")
    n_splits = check_integer("n_splits", n_splits, low=1)
    generator = randomness.derived_generator(random_state, *SELECTION)
    noisy, plan = posterior.released()
    evidence = make_evidence(noisy, plan, posterior.layout, posterior.n_events)
    grid, schedule = posterior.layout.grid, plan.schedule
    gains: list[list[np.ndarray]] = [[] for _ in sizes]
    for _ in range(n_splits):
        hidden = generator.random(grid.n_steps) < share
        hidden[generator.integers(grid.n_steps)] = True  # at least one
        for scores, n_states in zip(gains, sizes, strict=True):
            prior = replace(plan.prior, n_states=n_states)
            masked = HeldOutEvidence(evidence.fresh(), hidden)
            visible = np.where(hidden[:, None], 0, noisy)
            chain = start_chain(masked, visible, grid, prior, generator)
            sweeps = watch(schedule.burn_in + schedule.n_iter, f"{n_states} states")
            draws = as_draws(chain.run(sweeps)[schedule.burn_in :])
            rows = np.flatnonzero(hidden)
            # Given the step's level as the release shows it: composition is what is predicted.
            fresh = evidence.fresh()
            log_like = np.array(
                [
                    fresh.log_likelihood(emission)[rows, states[rows]]
                    for emission, states in zip(draws.emission, draws.states, strict=True)
                ]
            )
            peak = log_like.max(axis=0)
            scores.append(np.log(np.mean(np.exp(log_like - peak), axis=0)) + peak)
    steps = np.array([np.concatenate(scores) for scores in gains])
    means = steps.mean(axis=1)
    best = int(np.argmax(means))
    error = (steps - steps[best]).std(axis=1) / np.sqrt(steps.shape[1])
    close = [
        k for k, mean, e in zip(sizes, means, error, strict=True) if mean >= means[best] - 2 * e
    ]
    return Bunch(n_states=min(close), candidates=sizes, log_likelihood=means, standard_error=error)
