r"""Give the states of posterior draws the same names before they are averaged.

The posterior of a mixture does not change when its states are renumbered, so chains and draws name
them differently. Stephens' algorithm [1]_ for allocations: given the average probabilities
:math:`q_{sk}` of state k at step s, rename every draw so as to maximize
:math:`\sum_s \log q_{s, \nu(z_s)}` (an assignment problem), average again, and repeat until no name
changes.

References
----------
.. [1] M. Stephens. Dealing with label switching in mixture models.
   JRSS-B 62, 2000, section 4.2.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.optimize import linear_sum_assignment

_MAX_ROUNDS = 20


def match_states(states: np.ndarray, reference: np.ndarray, n_states: int) -> np.ndarray:
    """Rename states so that they agree with a reference as often as possible.

    Parameters
    ----------
    states, reference : int arrays of the same shape
        Two labelings of the same steps.
    n_states : int
        Number of states.

    Returns
    -------
    int array of shape (n_states,)
        New name of each old one: ``names[states]`` agrees with ``reference``.
    """
    flat = np.asarray(states).ravel() * n_states + np.asarray(reference).ravel()
    agreement = np.bincount(flat, minlength=n_states * n_states).reshape(n_states, n_states)
    return linear_sum_assignment(agreement, maximize=True)[1]


def relabel_draws(draws: np.ndarray, reference: np.ndarray, n_states: int) -> np.ndarray:
    """Find names for the states of every draw.

    Parameters
    ----------
    draws : int array of shape (n_draws, n_steps)
        States of each draw, in its own names.
    reference : int array of shape (n_steps,)
        Where the first round starts, such as the draw of the highest likelihood.
    n_states : int
        Number of states.

    Returns
    -------
    int array of shape (n_draws, n_states)
        ``names[i][draws[i]]`` are the states of draw i in common names.
    """
    names = np.array([match_states(draw, reference, n_states) for draw in draws])
    n_draws = draws.shape[0]
    for _ in range(_MAX_ROUNDS):
        frequency = state_frequencies(draws, names)
        # Half a draw is spread over the states, as if seen before: no state has probability zero.
        log_frequency = np.log((frequency * n_draws + 0.5 / n_states) / (n_draws + 0.5))
        scores = _name_scores(draws, log_frequency)
        renamed = np.array([linear_sum_assignment(score, maximize=True)[1] for score in scores])
        if np.array_equal(renamed, names):
            break
        names = renamed
    return names


def state_frequencies(draws: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Share of the draws in which each step is in each state.

    Parameters
    ----------
    draws : int array of shape (n_draws, n_steps)
        States of each draw.
    names : int array of shape (n_draws, n_states)
        New names, from `relabel_draws`.

    Returns
    -------
    float array of shape (n_steps, n_states)
    """
    return _frequencies(draws, names)


@njit(cache=True)
def _frequencies(draws: np.ndarray, names: np.ndarray) -> np.ndarray:
    n_draws, n_steps = draws.shape
    frequency = np.zeros((n_steps, names.shape[1]))
    for i in range(n_draws):
        for s in range(n_steps):
            frequency[s, names[i, draws[i, s]]] += 1.0
    return frequency / n_draws


@njit(cache=True)
def _name_scores(draws: np.ndarray, log_frequency: np.ndarray) -> np.ndarray:
    """Sum of log q over the steps of each old state, for each new name."""
    n_draws, n_steps = draws.shape
    n_states = log_frequency.shape[1]
    scores = np.zeros((n_draws, n_states, n_states))
    for i in range(n_draws):
        for s in range(n_steps):
            old = draws[i, s]
            for k in range(n_states):
                scores[i, old, k] += log_frequency[s, k]
    return scores
