r"""Hidden Markov chains over steps that hold many events: counts, likelihoods, filter, smoother.

Steps are laid end to end: chain ``i`` owns steps ``starts[i]`` to ``starts[i + 1] - 1``. Every
event of step ``s`` shares the state :math:`z_s`, and its fields are independent given it (naive
Bayes), so the data enter through the counts ``n[s, v]`` of the fields' values side by side,

.. math::
    \log p(x_s \mid z_s = k) = \sum_v n_{sv} \log \theta_{kv} .

The recursions work with probabilities normalized at each step; the logs of the normalizers add up
to the log-likelihood (Rabiner 1989, section V.A).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit

# A probability below this is treated as this when its log is taken: a gamma variate of a tiny
# shape underflows to zero, and an infinite penalty would stop the recursions.
_SMALLEST = 1e-300


def field_starts(categories: np.ndarray) -> np.ndarray:
    """Where each field's values begin among all values side by side; the last entry is their sum.

    Parameters
    ----------
    categories : int array of shape (n_fields,)
        Number of values of each field.
    """
    return np.concatenate([[0], np.cumsum(categories)]).astype(np.int64)


def count_events(
    codes: np.ndarray, steps: np.ndarray, n_steps: int, categories: np.ndarray
) -> np.ndarray:
    """Count the values of all fields in every step.

    Parameters
    ----------
    codes : int array of shape (n_events, n_fields)
        Values 0, ..., ``categories[d] - 1``.
    steps : int array of shape (n_events,)
        The step of each event.
    n_steps : int
        Number of steps, empty ones included.
    categories : int array of shape (n_fields,)
        Number of values of each field.

    Returns
    -------
    int64 array of shape (n_steps, sum of categories)
    """
    begin = field_starts(categories)
    width = int(begin[-1])
    counts = np.zeros(n_steps * width, dtype=np.int64)
    for d in range(codes.shape[1]):
        counts += np.bincount(steps * width + begin[d] + codes[:, d], minlength=n_steps * width)
    return counts.reshape(n_steps, width)


def log_emissions(emission: np.ndarray) -> np.ndarray:
    """Logs of emission probabilities, finite."""
    return np.log(np.maximum(emission, _SMALLEST))


def count_log_likelihood(counts: np.ndarray, emission: np.ndarray) -> np.ndarray:
    """Log-probability of each step's events in each state.

    Parameters
    ----------
    counts : float array of shape (n_steps, n_values)
        Counts; fractional where they are tempered.
    emission : float array of shape (n_states, n_values)
        Probabilities, fields side by side.

    Returns
    -------
    float array of shape (n_steps, n_states)
    """
    return counts @ log_emissions(emission).T


def single_event_log_likelihood(
    evidence: np.ndarray, emission: np.ndarray, begin: np.ndarray
) -> np.ndarray:
    r"""Log-probability of each step's evidence where the step holds exactly one event.

    With noisy indicators :math:`y` of the event's value, the sum over what it may be is exact:
    :math:`p(y \mid k) \propto \prod_d \sum_{v \in d} \theta_{kv} r_v` with the evidence
    :math:`r_v = p_Z(y_v - 1) / p_Z(y_v)`.

    Parameters
    ----------
    evidence : float array of shape (n_steps, n_values)
        The ratios r, > 0.
    emission : float array of shape (n_states, n_values)
        Probabilities, fields side by side.
    begin : int array of shape (n_fields + 1,)
        From `field_starts`.
    """
    total = np.zeros((evidence.shape[0], emission.shape[0]))
    for low, high in pairwise(begin):
        total += log_emissions(evidence[:, low:high] @ emission[:, low:high].T)
    return total


@njit(cache=True)
def count_emissions(counts: np.ndarray, states: np.ndarray, n_states: int) -> np.ndarray:
    """Add up the counts of the steps that are in each state: (n_states, n_values)."""
    total = np.zeros((n_states, counts.shape[1]))
    for s in range(counts.shape[0]):
        k = states[s]
        for v in range(counts.shape[1]):
            total[k, v] += counts[s, v]
    return total


@njit(cache=True)
def chain_log_likelihood(
    log_like: np.ndarray, starts: np.ndarray, start: np.ndarray, transition: np.ndarray
) -> np.ndarray:
    """Log-likelihood of each chain, states summed out.

    Parameters
    ----------
    log_like : float array of shape (n_steps, n_states)
        Log-probability of each step's data in each state.
    starts : int array of shape (n_chains + 1,)
        Where chains begin; the last entry is ``n_steps``.
    start : float array of shape (n_states,)
        Probabilities of the first state.
    transition : float array of shape (n_states, n_states)
        Row i: probabilities of the state that follows i.

    Returns
    -------
    float array of shape (n_chains,)
    """
    n_states = start.shape[0]
    result = np.zeros(starts.shape[0] - 1)
    ahead = np.empty(n_states)
    filtered = np.empty(n_states)
    for i in range(starts.shape[0] - 1):
        for t in range(starts[i], starts[i + 1]):
            _predict(filtered, start, transition, t == starts[i], ahead)
            result[i] += _absorb(ahead, log_like[t], filtered)
    return result


@njit(cache=True)
def smooth_states(
    log_like: np.ndarray, starts: np.ndarray, start: np.ndarray, transition: np.ndarray
) -> np.ndarray:
    """Posterior probability of each state at each step, given the whole chain's data.

    Parameters
    ----------
    log_like, starts, start, transition
        See `chain_log_likelihood`.

    Returns
    -------
    float array of shape (n_steps, n_states)
    """
    n_states = start.shape[0]
    smooth = np.empty_like(log_like)
    ahead = np.empty(n_states)
    later = np.empty(n_states)
    for i in range(starts.shape[0] - 1):
        for t in range(starts[i], starts[i + 1]):
            _predict(smooth[t - 1], start, transition, t == starts[i], ahead)
            _absorb(ahead, log_like[t], smooth[t])
        # Backward: p(z_t | all) = p(z_t | past) * sum_j a_tj p(z_t+1 = j | all) / p(j | past).
        for t in range(starts[i + 1] - 2, starts[i] - 1, -1):
            _predict(smooth[t], start, transition, False, ahead)
            for j in range(n_states):
                later[j] = smooth[t + 1, j] / max(ahead[j], _SMALLEST)
            total = 0.0
            for k in range(n_states):
                mass = 0.0
                for j in range(n_states):
                    mass += transition[k, j] * later[j]
                smooth[t, k] *= mass
                total += smooth[t, k]
            for k in range(n_states):
                smooth[t, k] /= total
    return smooth


@njit(cache=True)
def _predict(
    filtered: np.ndarray, start: np.ndarray, transition: np.ndarray, first: bool, ahead: np.ndarray
) -> None:
    """Write the distribution of the next state, given the filtered one of this step."""
    n_states = start.shape[0]
    if first:
        for j in range(n_states):
            ahead[j] = start[j]
        return
    for j in range(n_states):
        ahead[j] = 0.0
    for k in range(n_states):
        weight = filtered[k]
        for j in range(n_states):
            ahead[j] += weight * transition[k, j]


@njit(cache=True)
def _absorb(ahead: np.ndarray, log_like: np.ndarray, filtered: np.ndarray) -> float:
    """Condition the predicted distribution on a step's data; return the log of the normalizer."""
    n_states = ahead.shape[0]
    highest = log_like[0]
    for k in range(1, n_states):
        highest = max(highest, log_like[k])
    total = 0.0
    for k in range(n_states):
        filtered[k] = max(ahead[k], _SMALLEST) * np.exp(log_like[k] - highest)
        total += filtered[k]
    for k in range(n_states):
        filtered[k] /= total
    return np.log(total) + highest
