"""Choice of the number of states by held-out cells of the released tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from skdpbayes import randomness
from skdpbayes._validation import check_integer, check_real
from skdpbayes.estimators._hmm_base import SELECTION
from skdpbayes.estimators._hmm_chain import as_draws, start_chain
from skdpbayes.estimators._hmm_evidence import HeldOutEvidence
from skdpbayes.estimators._hmm_release import check_model

__all__ = ["select_n_states"]


def select_n_states(
    estimator: Any,
    candidates: Sequence[int],
    held_out: float,
    n_splits: int,
    random_state: Any,
) -> Bunch:
    """See `PrivateHMM.select_n_states`; everything here is computed from the release."""
    sizes = [check_integer("candidates", k, low=1) for k in candidates]
    if not sizes:
        raise ValueError("candidates must list at least one number of states.")
    share = check_real("held_out", held_out, low=0.0, high=1.0, closed="neither")
    n_splits = check_integer("n_splits", n_splits, low=1)
    check_model(estimator)
    generator = randomness.derived_generator(random_state, *SELECTION)
    noisy, grid, evidence = estimator._released(), estimator._grid(), estimator._evidence()
    burn_in, total = int(estimator.burn_in), int(estimator.burn_in) + int(estimator.n_iter)
    gains: list[list[np.ndarray]] = [[] for _ in sizes]
    for _ in range(n_splits):
        hidden = generator.random(grid.n_steps) < share
        hidden[generator.integers(grid.n_steps)] = True  # at least one
        for scores, n_states in zip(gains, sizes, strict=True):
            prior = replace(estimator._prior, n_states=n_states)
            masked = HeldOutEvidence(evidence.fresh(), hidden)
            visible = np.where(hidden[:, None], 0, noisy)
            sweeps = estimator._progress(range(total), total=total, label=f"{n_states} states")
            chain = start_chain(masked, visible, grid, prior, generator)
            draws = as_draws(chain.run(sweeps)[burn_in:])
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
