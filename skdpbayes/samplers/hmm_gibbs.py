r"""Gibbs steps for the states and the transitions of hidden Markov chains.

Two ways to redraw the states given the emission log-likelihoods ``log_like[s, k]``:

- `sample_states_ffbs` draws all states of all chains in one block given the transition
  probabilities: filter forward, sample backward (Scott 2002).
- `sweep_states_collapsed` redraws one state after the other with the transition probabilities
  integrated out (Goldwater and Griffiths 2007).

Chains lie end to end; chain ``i`` owns steps ``starts[i]`` to ``starts[i + 1] - 1``. Random numbers
enter as arrays, so every function here is deterministic.

References
----------
.. [1] S. L. Scott. Bayesian methods for hidden Markov models: recursive computing in the 21st
   century. JASA 97, 2002.
.. [2] S. Goldwater and T. L. Griffiths. A fully Bayesian approach to unsupervised part-of-speech
   tagging. ACL 2007.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SMALLEST = 1e-300


def normalize_gammas(gammas: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Turn independent gamma variates into Dirichlet variates, a block of columns each.

    Parameters
    ----------
    gammas : float array of shape (..., n_columns)
        Standard gamma variates.
    begin : int array of shape (n_blocks + 1,)
        Where blocks begin; the last entry is ``n_columns``.
    """
    gammas = np.maximum(gammas, _SMALLEST)  # a tiny shape may underflow to zero
    totals = np.add.reduceat(gammas, begin[:-1], axis=-1)
    return gammas / np.repeat(totals, np.diff(begin), axis=-1)


@njit(cache=True)
def count_transitions(
    states: np.ndarray, starts: np.ndarray, n_states: int
) -> tuple[np.ndarray, np.ndarray]:
    """Count first states and moves between states.

    Parameters
    ----------
    states : int array of shape (n_steps,)
        The states.
    starts : int array of shape (n_chains + 1,)
        Where chains begin; the last entry is ``n_steps``.
    n_states : int
        Number of states.

    Returns
    -------
    first : float array of shape (n_states,)
    moves : float array of shape (n_states, n_states)
    """
    first = np.zeros(n_states)
    moves = np.zeros((n_states, n_states))
    for i in range(starts.shape[0] - 1):
        if starts[i] == starts[i + 1]:
            continue
        first[states[starts[i]]] += 1.0
        for t in range(starts[i] + 1, starts[i + 1]):
            moves[states[t - 1], states[t]] += 1.0
    return first, moves


@njit(cache=True)
def sample_states_ffbs(
    log_like: np.ndarray,
    starts: np.ndarray,
    start: np.ndarray,
    transition: np.ndarray,
    uniforms: np.ndarray,
) -> tuple[np.ndarray, float]:
    r"""Draw all states in one block: filter forward, then sample backward.

    The exact draw from
    :math:`p(z) \propto \prod_i \pi_{z_{i1}} \prod_t A_{z_{i,t-1} z_{it}} \prod_s e^{L_{s z_s}}`.

    Parameters
    ----------
    log_like : float array of shape (n_steps, n_states)
        The log-likelihoods L.
    starts : int array of shape (n_chains + 1,)
        Where chains begin; the last entry is ``n_steps``.
    start, transition : float arrays of shape (n_states,) and (n_states, n_states)
        The first state's probabilities; row i: those of the state after i.
    uniforms : float array of shape (n_steps,)
        Independent uniforms on [0, 1).

    Returns
    -------
    states : int64 array of shape (n_steps,)
    log_likelihood : float
        With the states summed out.
    """
    n_steps, n_states = log_like.shape
    filtered = np.empty((n_steps, n_states))
    ahead = np.empty(n_states)
    states = np.empty(n_steps, dtype=np.int64)
    log_likelihood = 0.0
    for i in range(starts.shape[0] - 1):
        for t in range(starts[i], starts[i + 1]):
            if t == starts[i]:
                ahead[:] = start
            else:
                ahead[:] = 0.0
                for k in range(n_states):
                    weight = filtered[t - 1, k]
                    for j in range(n_states):
                        ahead[j] += weight * transition[k, j]
            highest = log_like[t, 0]
            for k in range(1, n_states):
                highest = max(highest, log_like[t, k])
            total = 0.0
            for k in range(n_states):
                filtered[t, k] = max(ahead[k], _SMALLEST) * np.exp(log_like[t, k] - highest)
                total += filtered[t, k]
            for k in range(n_states):
                filtered[t, k] /= total
            log_likelihood += np.log(total) + highest
        for t in range(starts[i + 1] - 1, starts[i] - 1, -1):
            if t < starts[i + 1] - 1:
                follower = states[t + 1]
                for k in range(n_states):
                    filtered[t, k] *= transition[k, follower]
            states[t] = _choose(filtered[t], uniforms[t])
    return states, log_likelihood


@njit(cache=True)
def _choose(weights: np.ndarray, uniform: float) -> int:
    """Draw an index with probability proportional to ``weights``."""
    target = uniform * weights.sum()
    for k in range(weights.shape[0] - 1):
        target -= weights[k]
        if target < 0.0:
            return k
    return weights.shape[0] - 1


@njit(cache=True)
def sweep_states_collapsed(
    states: np.ndarray,
    log_like: np.ndarray,
    starts: np.ndarray,
    alpha_start: float,
    alpha: np.ndarray,
    uniforms: np.ndarray,
) -> np.ndarray:
    r"""Redraw the states one by one, start and transition probabilities integrated out.

    With the counts :math:`m` of all moves but those into and out of step t,

    .. math::
        p(z_t = k \mid \cdot) \propto e^{L_{tk}}
        \frac{m_{ik} + \alpha_{ik}}{\sum_l (m_{il} + \alpha_{il})} \,
        \frac{m_{kj} + [i = k = j] + \alpha_{kj}}
             {\sum_l (m_{kl} + \alpha_{kl}) + [i = k]}

    where i and j are the states before and after (Goldwater and Griffiths, equation 5); the first
    fraction is :math:`\propto f_k + \alpha_0` at a chain's first step and the second is absent at
    its last.

    Parameters
    ----------
    states : int array of shape (n_steps,)
        The current states.
    log_like : float array of shape (n_steps, n_states)
        The emission log-likelihoods L.
    starts : int array of shape (n_chains + 1,)
        Where chains begin; the last entry is ``n_steps``.
    alpha_start : float
        Dirichlet parameter of the first state.
    alpha : float array of shape (n_states, n_states)
        Dirichlet parameters of the transition rows.
    uniforms : float array of shape (n_steps,)
        Independent uniforms on [0, 1).

    Returns
    -------
    int64 array of shape (n_steps,)
        The new states.
    """
    n_states = log_like.shape[1]
    new = states.copy()
    first, moves = count_transitions(new, starts, n_states)
    moves += alpha
    first += alpha_start
    leaving = moves.sum(axis=1)
    weights = np.empty(n_states)
    for c in range(starts.shape[0] - 1):
        begin, end = starts[c], starts[c + 1]
        for t in range(begin, end):
            old = new[t]
            before = new[t - 1] if t > begin else -1
            after = new[t + 1] if t + 1 < end else -1
            if before >= 0:
                moves[before, old] -= 1.0
                leaving[before] -= 1.0
            else:
                first[old] -= 1.0
            if after >= 0:
                moves[old, after] -= 1.0
                leaving[old] -= 1.0
            highest = log_like[t].max()
            for k in range(n_states):
                weight = np.exp(log_like[t, k] - highest)
                weight *= moves[before, k] if before >= 0 else first[k]
                if after >= 0:
                    stays = 1.0 if before == k else 0.0
                    both = stays if after == k else 0.0
                    weight *= (moves[k, after] + both) / (leaving[k] + stays)
                weights[k] = weight
            chosen = _choose(weights, uniforms[t])
            new[t] = chosen
            if before >= 0:
                moves[before, chosen] += 1.0
                leaving[before] += 1.0
            else:
                first[chosen] += 1.0
            if after >= 0:
                moves[chosen, after] += 1.0
                leaving[chosen] += 1.0
    return new
