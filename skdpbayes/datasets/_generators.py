"""Generated data whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.utils import Bunch

from skdpbayes._validation import check_integer, check_real
from skdpbayes.preprocessing import RowNormClipper


def generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator: None, an int, a SeedSequence, RandomState or Generator.

    These data are not private, so no secure source is needed.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


def make_two_normals(
    n_samples: int = 1000,
    n_features: int = 2,
    *,
    separation: float = 2.0,
    scale: float = 1.0,
    balance: float = 0.5,
    norm: float | None = None,
    return_X_y: bool = False,
    random_state: Any = None,
) -> Any:
    r"""Generate two normal classes, whose best classifier is a known logistic regression.

    Class 1 has mean :math:`+m`, class 0 mean :math:`-m`, with :math:`m` of length
    ``separation / 2`` along the diagonal and covariance ``scale``:math:`^2 I`. Then

    .. math:: \log\frac{P(y=1 \mid x)}{P(y=0 \mid x)}
              = \frac{2\, m^\top x}{\text{scale}^2} + \log\frac{\text{balance}}{1-\text{balance}}.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of records.
    n_features : int, default=2
        Number of columns.
    separation : float, default=2.0
        Distance between the means, >= 0.
    scale : float, default=1.0
        Standard deviation of each column within a class, > 0.
    balance : float, default=0.5
        Probability of class 1, in (0, 1).
    norm : float, default=None
        Clip the rows to this public L2 norm. ``coef`` and ``accuracy`` describe unclipped rows.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of the Bunch.
    random_state : int, SeedSequence, RandomState, Generator or None, default=None
        Source of randomness.

    Returns
    -------
    sample : :class:`~sklearn.utils.Bunch`
        ``data``, ``target``, ``means`` (2, n_features), ``coef``, ``intercept`` of the formula
        above, ``accuracy`` of that classifier, ``data_norm`` (``norm``).

    Examples
    --------
    >>> from skdpbayes.datasets import make_two_normals
    >>> sample = make_two_normals(500, 3, separation=4.0, random_state=0)
    >>> sample.data.shape, round(sample.accuracy, 4)
    ((500, 3), 0.9772)
    """
    n = check_integer("n_samples", n_samples, low=1)
    d = check_integer("n_features", n_features, low=1)
    separation = check_real("separation", separation, low=0.0, high=1e6)
    scale = check_real("scale", scale, low=0.0, high=1e6, closed="neither")
    balance = check_real("balance", balance, low=0.0, high=1.0, closed="neither")
    rng = generator(random_state)
    target = (rng.random(n) < balance).astype(np.int64)
    mean = np.full(d, separation / 2 / np.sqrt(d))
    data = rng.normal(scale=scale, size=(n, d)) + np.where(target[:, None] == 1, mean, -mean)
    if norm is not None:
        data = RowNormClipper(norm, copy=False).fit_transform(data)
    if return_X_y:
        return data, target
    log_odds = float(np.log(balance) - np.log1p(-balance))
    return Bunch(
        data=data,
        target=target,
        feature_names=[f"x{k}" for k in range(d)],
        target_names=["0", "1"],
        means=np.stack([-mean, mean]),
        coef=2 * mean / scale**2,
        intercept=log_odds,
        accuracy=_normal_accuracy(separation / scale, balance, log_odds),
        data_norm=None if norm is None else float(norm),
    )


def _normal_accuracy(distance: float, balance: float, log_odds: float) -> float:
    """Return the best accuracy: the log odds are N(±distance²/2, distance²) in the two classes."""
    if distance == 0:
        return max(balance, 1 - balance)
    hit_one = ndtr(distance / 2 + log_odds / distance)
    hit_zero = ndtr(distance / 2 - log_odds / distance)
    return float(balance * hit_one + (1 - balance) * hit_zero)


def make_beta_bernoulli(
    n_samples: int = 100,
    p: float | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """Generate coin flips, from a known probability or from one with a beta prior.

    Parameters
    ----------
    n_samples : int, default=100
        Number of flips.
    p : float, default=None
        Probability of a 1, in [0, 1]. None: drawn from Beta(``alpha``, ``beta``).
    alpha, beta : float, default=1.0
        The prior, > 0.
    random_state : int, SeedSequence, RandomState, Generator or None, default=None
        Source of randomness.

    Returns
    -------
    sample : :class:`~sklearn.utils.Bunch`
        ``data`` (n_samples,) of 0 and 1, ``p``, ``alpha``, ``beta`` and ``posterior``, the
        parameters (alpha + ones, beta + zeros) of the exact posterior.

    Examples
    --------
    >>> from skdpbayes.datasets import make_beta_bernoulli
    >>> sample = make_beta_bernoulli(10, 1.0)
    >>> sample.posterior
    (11.0, 1.0)
    """
    n = check_integer("n_samples", n_samples, low=1)
    alpha = check_real("alpha", alpha, low=0.0, high=np.inf, closed="neither")
    beta = check_real("beta", beta, low=0.0, high=np.inf, closed="neither")
    rng = generator(random_state)
    if p is None:
        p = float(rng.beta(alpha, beta))
    p = check_real("p", p, low=0.0, high=1.0)
    data = (rng.random(n) < p).astype(np.int64)
    ones = int(data.sum())
    posterior = (alpha + ones, beta + n - ones)
    return Bunch(data=data, p=p, alpha=alpha, beta=beta, posterior=posterior)


def make_event_log(
    n_sequences: int = 20,
    n_times: int = 60,
    events_per_cell: float = 500,
    *,
    n_states: int = 3,
    categories: Sequence[int] = (10, 5, 2),
    stickiness: float = 0.9,
    emission_concentration: float = 0.5,
    vary_counts: bool = False,
    random_state: Any = None,
) -> Bunch:
    """Generate an event log: events in sequences and times whose fields follow a hidden state.

    Each sequence runs its own Markov chain over ``n_times`` steps. All events of a cell (sequence,
    time) share its state, and given the state their categorical fields are independent.

    Parameters
    ----------
    n_sequences, n_times : int, default=20 and 60
        The grid.
    events_per_cell : float, default=500
        Number of events in a cell; may be fractional with ``vary_counts``.
    n_states : int, default=3
        Number of hidden states.
    categories : sequence of int, default=(10, 5, 2)
        Number of categories of each field.
    stickiness : float, default=0.9
        Probability of staying in a state, in [0, 1]; the rest is spread by a flat Dirichlet draw.
    emission_concentration : float, default=0.5
        Dirichlet parameter of the field distributions, > 0. Smaller: states that differ more.
    vary_counts : bool, default=False
        Draw the number of events of a cell from a Poisson distribution, so that cells may be empty.
    random_state : int, SeedSequence, RandomState, Generator or None, default=None
        Source of randomness.

    Returns
    -------
    log : :class:`~sklearn.utils.Bunch`
        ``data`` (n_events, n_fields) of integer codes, ``times``, ``sequences`` (n_events,), the
        truth ``states`` (n_sequences, n_times), ``start`` (n_states,), ``transition`` (n_states,
        n_states), ``emission`` (list of (n_states, categories[f])), and the public
        ``n_sequences``, ``n_times``, ``n_categories``, ``feature_names``.

    Examples
    --------
    >>> from skdpbayes.datasets import make_event_log
    >>> log = make_event_log(2, 3, 10, categories=(4, 2), random_state=0)
    >>> log.data.shape, log.states.shape, [e.shape for e in log.emission]
    ((60, 2), (2, 3), [(3, 4), (3, 2)])
    """
    n_sequences = check_integer("n_sequences", n_sequences, low=1)
    n_times = check_integer("n_times", n_times, low=1)
    n_states = check_integer("n_states", n_states, low=1)
    sizes = [check_integer("categories", k, low=1) for k in categories]
    if not sizes:
        raise ValueError("categories must name at least one field, got an empty sequence")
    stickiness = check_real("stickiness", stickiness, low=0.0, high=1.0)
    concentration = check_real(
        "emission_concentration", emission_concentration, low=0.0, high=np.inf, closed="neither"
    )
    if not vary_counts:
        events_per_cell = check_integer("events_per_cell", events_per_cell, low=0)
    mean_count = check_real("events_per_cell", events_per_cell, low=0.0, high=1e9)
    rng = generator(random_state)
    start = np.full(n_states, 1 / n_states)
    transition = _sticky_transition(rng, n_states, stickiness)
    emission = [rng.dirichlet(np.full(k, concentration), size=n_states) for k in sizes]
    states = _chains(rng, start, transition, n_sequences, n_times)
    if vary_counts:
        counts = rng.poisson(mean_count, size=states.size)
    else:
        counts = np.full(states.size, int(mean_count))
    cell = np.repeat(np.arange(states.size), counts)
    sequences, times = np.divmod(cell, n_times)
    data = _emit(rng, states.ravel()[cell], emission)
    return Bunch(
        data=data,
        times=times,
        sequences=sequences,
        states=states,
        start=start,
        transition=transition,
        emission=emission,
        n_sequences=n_sequences,
        n_times=n_times,
        n_categories=np.array(sizes, dtype=np.int64),
        feature_names=[f"field{k}" for k in range(len(sizes))],
    )


def _sticky_transition(rng: np.random.Generator, n_states: int, stickiness: float) -> np.ndarray:
    """Return rows with ``stickiness`` on the diagonal and a flat Dirichlet draw beside it."""
    if n_states == 1:
        return np.ones((1, 1))
    transition = np.diag(np.full(n_states, stickiness))
    for state in range(n_states):
        others = np.arange(n_states) != state
        transition[state, others] = (1 - stickiness) * rng.dirichlet(np.ones(n_states - 1))
    return transition


def _chains(
    rng: np.random.Generator,
    start: np.ndarray,
    transition: np.ndarray,
    n_sequences: int,
    n_times: int,
) -> np.ndarray:
    """Draw one Markov chain per sequence, by inversion of the cumulative probabilities."""
    top = len(start) - 1
    states = np.empty((n_sequences, n_times), dtype=np.int64)
    probabilities = np.tile(start, (n_sequences, 1))
    for t in range(n_times):
        below = np.cumsum(probabilities, axis=1) <= rng.random(n_sequences)[:, None]
        states[:, t] = np.minimum(below.sum(axis=1), top)
        probabilities = transition[states[:, t]]
    return states


def _emit(rng: np.random.Generator, states: np.ndarray, emission: list[np.ndarray]) -> np.ndarray:
    """Draw the fields of each event given its state."""
    data = np.empty((len(states), len(emission)), dtype=np.int64)
    for state in range(len(emission[0])):
        mine = np.flatnonzero(states == state)
        for field, table in enumerate(emission):
            data[mine, field] = rng.choice(table.shape[1], size=mine.size, p=table[state])
    return data
