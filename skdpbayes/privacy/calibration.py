"""The smallest noise that meets a privacy target.

Every function returns a noise level whose own epsilon was computed and found at most the target,
and raises :class:`~skdpbayes.exceptions.CalibrationError` where no noise can meet it. Answers are
cached; the epsilon of the calibrated event is cached with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, cast

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy._numeric import check_count, check_positive, largest_satisfying
from skdpbayes.privacy.composition.composed import repeat
from skdpbayes.privacy.events import PrivacyEvent, check_probability
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.mechanisms.subsampling import (
    Sampling,
    SubsampledGaussian,
    check_sampling,
    check_sampling_rate,
    clt_noise_multiplier,
)

# A calibrated epsilon ends within this relative distance below the target: a few times what the
# grid of losses resolves.
_CLOSENESS = 4e-5
_MAX_EVALUATIONS = 60
_MOST_DESCENT = 26.0

P = ParamSpec("P")


def _cached(function: Callable[P, float]) -> Callable[P, float]:
    """Cache a calibration; arguments are plain numbers and strings."""
    return cast(Callable[P, float], wraps(function)(lru_cache(maxsize=1024)(function)))


def smallest_noise(
    event_of: Callable[[float], PrivacyEvent], epsilon: float, delta: float, *, guess: float
) -> float:
    """Return the smallest noise whose event is (epsilon, delta)-private.

    Parameters
    ----------
    event_of : callable
        Noise level to event; more noise must not cost more privacy.
    epsilon, delta : float
        The target.
    guess : float
        Where to start, positive.

    Returns
    -------
    float
        Noise at which ``delta_at(epsilon) <= delta`` and ``epsilon_at(delta) <= epsilon`` were
        verified for ``event_of(noise)``. The epsilon there is within 4e-5 (relative) of the
        target, or the noise within 1e-12 of the smallest, or below 1e-11 of the guess.
    """
    goal = math.log(epsilon) - 0.25 * _CLOSENESS
    evaluated: list[tuple[float, float]] = []  # (log noise, log epsilon)
    low, high = -math.inf, math.inf  # too little noise, enough noise
    log_noise = math.log(guess)
    lowest = log_noise - _MOST_DESCENT  # hardly any noise, and private: the rest hides it all
    for _ in range(_MAX_EVALUATIONS):
        event = event_of(math.exp(log_noise))
        reached = event.epsilon_at(delta)
        value = math.log(reached) if reached > 0.0 else -math.inf
        if reached <= epsilon and event.delta_at(epsilon) <= delta:
            high = min(high, log_noise)
            if value >= math.log(epsilon) - _CLOSENESS or high - low < 1e-12 or high < lowest:
                return math.exp(log_noise)
        else:
            low = max(low, log_noise)
        evaluated.append((log_noise, value))
        log_noise = _next_guess(evaluated, goal, low, high)
    if math.isinf(high):
        raise CalibrationError(
            f"no noise was found that is ({epsilon:g}, {delta:g})-private; "
            "raise epsilon or delta, or release less"
        )
    return math.exp(high)


def _next_guess(
    evaluated: list[tuple[float, float]], goal: float, low: float, high: float
) -> float:
    """Return the secant step in log-log coordinates, kept inside the bracket."""
    finite = [point for point in evaluated if math.isfinite(point[1])]
    if len(finite) >= 2 and finite[-1][1] != finite[-2][1]:
        (x0, y0), (x1, y1) = finite[-2:]
        slope = min(-0.05, (y1 - y0) / (x1 - x0))
    else:
        slope = -1.0  # epsilon is inversely proportional to the noise, roughly
    if finite:
        x, y = finite[-1]
        step = x + (goal - y) / slope
    else:
        x = evaluated[-1][0]
        step = x + 2.0 if evaluated[-1][1] > 0.0 else x - 2.0
    if math.isinf(low) or math.isinf(high):
        return min(max(step, x - 3.0), x + 3.0)
    margin = 0.02 * (high - low)
    stuck = len(evaluated) > 6 and len(evaluated) % 3 == 0
    return 0.5 * (low + high) if stuck else min(max(step, low + margin), high - margin)


@_cached
def gaussian_noise_multiplier(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier of the Gaussian mechanism.

    Parameters
    ----------
    epsilon : float
        Positive; ``inf`` gives 0.0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Noise standard deviation over L2 sensitivity.

    Examples
    --------
    >>> from skdpbayes.privacy import gaussian_noise_multiplier
    >>> round(gaussian_noise_multiplier(1.0, 1e-5), 8)
    3.73063163
    """
    epsilon, delta = _check_target(epsilon, delta, "Gaussian noise")
    return 0.0 if math.isinf(epsilon) else math.nextafter(1.0 / gdp_mu(epsilon, delta), math.inf)


@_cached
def discrete_laplace_scale(epsilon: float, delta: float = 0.0, n_coordinates: int = 1) -> float:
    """Return the smallest scale of discrete Laplace noise on counts.

    Parameters
    ----------
    epsilon : float
        Positive; ``inf`` gives 0.0.
    delta : float, default=0.0
        In [0, 1). With ``delta=0`` the scale is ``n_coordinates / epsilon``.
    n_coordinates : int, default=1
        How many counts one record may move, by one each.

    Examples
    --------
    >>> from skdpbayes.privacy import discrete_laplace_scale
    >>> round(discrete_laplace_scale(1.0, 1e-5, n_coordinates=28), 1)
    19.0
    >>> discrete_laplace_scale(1.0, n_coordinates=28)
    28.0
    """
    epsilon, delta = _check_target(epsilon, delta)
    n_coordinates = check_count("n_coordinates", n_coordinates)
    if math.isinf(epsilon):
        return 0.0

    def event_of(scale: float) -> PrivacyEvent:
        return repeat(DiscreteLaplace(scale), n_coordinates)

    pure = n_coordinates / epsilon
    while not event_of(pure).epsilon_at(0.0) <= epsilon:
        pure *= 1.0 + 1e-15
    if delta == 0.0:
        return pure
    # a coordinate's loss is at most 1/scale: subgaussian, hence the guess
    guess = min(pure, math.sqrt(n_coordinates) / gdp_mu(epsilon, delta))
    return min(pure, smallest_noise(event_of, epsilon, delta, guess=guess))


@_cached
def discrete_gaussian_scale(epsilon: float, delta: float, n_coordinates: int = 1) -> float:
    """Return the smallest scale of discrete Gaussian noise on counts.

    Parameters
    ----------
    epsilon : float
        Positive; ``inf`` gives 0.0.
    delta : float
        In (0, 1).
    n_coordinates : int, default=1
        How many counts one record may move, by one each.

    Examples
    --------
    >>> from skdpbayes.privacy import discrete_gaussian_scale
    >>> round(discrete_gaussian_scale(1.0, 1e-5, 10), 2)
    11.8
    """
    epsilon, delta = _check_target(epsilon, delta, "discrete Gaussian noise")
    n_coordinates = check_count("n_coordinates", n_coordinates)
    if math.isinf(epsilon):
        return 0.0
    return smallest_noise(
        lambda scale: repeat(DiscreteGaussian(scale), n_coordinates),
        epsilon,
        delta,
        guess=math.sqrt(n_coordinates) / gdp_mu(epsilon, delta),
    )


@_cached
def subsampled_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    sampling_rate: float,
    n_steps: int,
    sampling: Sampling = "poisson",
    adjacency: Adjacency = "replace_one",
) -> float:
    """Return the smallest noise multiplier for `n_steps` noisy sums over random batches.

    Parameters
    ----------
    epsilon : float
        Positive; ``inf`` gives 0.0.
    delta : float
        In (0, 1).
    sampling_rate : float
        In (0, 1].
    n_steps : int
        At least 1.
    sampling : {"poisson", "fixed"}, default="poisson"
        See :class:`SubsampledGaussian`.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        See :class:`SubsampledGaussian`; the returned multiplier is relative to the contribution
        of one record under both.

    Examples
    --------
    >>> from skdpbayes.privacy import subsampled_noise_multiplier
    >>> noise = subsampled_noise_multiplier(
    ...     1.0, 1e-5, sampling_rate=0.01, n_steps=1000, adjacency="zero_out")
    >>> 1.3 < noise < 1.5
    True
    """
    epsilon, delta = _check_target(epsilon, delta, "Gaussian noise")
    rate, n_steps = check_sampling_rate(sampling_rate), check_count("n_steps", n_steps)
    check_sampling(sampling)
    check_adjacency(adjacency)
    if math.isinf(epsilon):
        return 0.0
    # either many small losses make the total, or one large one
    many = clt_noise_multiplier(
        gdp_mu(epsilon, delta) / math.sqrt(n_steps), rate, sampling, adjacency
    )
    one = largest_satisfying(
        lambda noise: (
            SubsampledGaussian(noise, rate, sampling, adjacency).delta_at(epsilon) > delta / n_steps
        ),
        many / 64.0,
        many,
    )
    return smallest_noise(
        lambda noise: repeat(SubsampledGaussian(noise, rate, sampling, adjacency), n_steps),
        epsilon,
        delta,
        guess=max(many, one),
    )


def _check_target(epsilon: float, delta: float, noise: str = "") -> tuple[float, float]:
    """Return the target as floats; `noise` names a mechanism that has no pure guarantee."""
    epsilon, delta = check_positive("epsilon", epsilon), check_probability("delta", delta)
    if delta == 1.0:
        raise ValueError("delta must be below 1, got 1.0")
    if noise and delta == 0.0:
        raise CalibrationError(
            f"{noise} has no guarantee at delta=0; use delta > 0, or a mechanism with Laplace noise"
        )
    return epsilon, delta
