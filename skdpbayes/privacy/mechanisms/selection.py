r"""The price of trying several private runs and releasing only the best.

A private run is repeated a random number *K* of times, and the output with the best score, of all
runs the only one, is released. The score is part of a run's output. Nothing else may depend on the
losing runs, and *K* stays hidden.

**Bound from the privacy profile.** Let a run have profile :math:`\delta(\varepsilon)`, let *P* and
*Q* be its output distributions on two neighbors, and let *f* be the probability generating
function of *K*, with mean *m*. Break ties of the score at random, so that scores have no atoms.
The selected output has density :math:`P(y) f'(p_y)`, where :math:`p_y` is the probability that a
run scores below *y*; write :math:`s = 1 - p_y` and :math:`t = 1 - q_y` for the two data sets. From
:math:`t \le e^{\hat\varepsilon} s + \delta(\hat\varepsilon)`, for any :math:`\hat\varepsilon`:

*Truncated negative binomial* with shape :math:`\eta` and :math:`\gamma`:
:math:`f'(p) = m\,(\gamma / (\gamma + (1-\gamma)s))^{\eta+1}`. If :math:`\delta(\hat\varepsilon)
\le (e^{\hat\varepsilon}-1)\gamma/(1-\gamma)` then :math:`\gamma + (1-\gamma)t \le
e^{\hat\varepsilon}(\gamma + (1-\gamma)s)`, hence :math:`f'(q) \ge e^{-(\eta+1)\hat\varepsilon}
f'(p)`, and with :math:`f' \le m`

.. math::
    \delta_A(\varepsilon) = \int (P f'(p) - e^\varepsilon Q f'(q))_+
    \le m\, \delta(\varepsilon - (\eta + 1)\hat\varepsilon).

*Poisson* with mean *m*: :math:`f'(p) = m e^{-ms}`, and with
:math:`\kappa = e^{\hat\varepsilon} - 1`, :math:`a = e^{\varepsilon - m\delta(\hat\varepsilon)}`

.. math::
    \delta_A(\varepsilon) \le m \int Q\, \sup_{s \ge 0} e^{-ms}\,
    \left(\frac{P}{Q} - a e^{-m\kappa s}\right)_+
    = m\, \mathrm{E}\big[\delta(\varepsilon + \hat\varepsilon - m\delta(\hat\varepsilon)
    - \kappa X)\big],

*X* standard exponential, since the supremum is convex in :math:`r = P/Q`, linear beyond
:math:`r_0 = a e^{\hat\varepsilon}` and with second derivative
:math:`r^{1/\kappa-1} r_0^{-1/\kappa}/\kappa` before it, so that it is a mixture of the functions
:math:`(r - r_0 U^\kappa)_+`, *U* uniform, whose expectations are the profile. Poisson may give
*K* = 0 and then nothing is selected, whatever the data.

These bounds hold for every kind of run, in particular for :math:`\delta > 0`, and are below those
through Rényi divergences [1]_, which :func:`~skdpbayes.privacy.papernot_steinke_rdp` has for
comparison.

References
----------
.. [1] N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. ICLR 2022
   (Theorems 2 and 6).
.. [2] J. Liu, K. Talwar. Private selection from private candidates.
   STOC 2019.
.. [3] A. Koskela, R. Redberg, Y.-X. Wang. Privacy profiles for private selection.
   ICML 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from skdpbayes.privacy._numeric import check_nonnegative, check_positive
from skdpbayes.privacy.events import PrivacyEvent, pure_profile, store
from skdpbayes.privacy.mechanisms.gdp import FloatArray
from skdpbayes.privacy.mechanisms.repetition import check_shape, negative_binomial_gamma

# The Poisson bound: cells of the exponential distribution (P(E > 60) < 1e-26), values of
# epsilon-hat to choose from, and the points of a run's profile.
_CELLS = np.concatenate([np.linspace(0.0, 8.0, 257), np.linspace(8.0, 60.0, 65)[1:]])
_HATS = np.geomspace(1e-3, 5.0, 48)
_POINTS = 193
_NEGLIGIBLE = 1e-15
_LARGEST = 300.0
_MIXTURE_DELTAS = tuple(10.0**-k for k in range(1, 16, 2))


@dataclass(frozen=True)
class AnyOf(PrivacyEvent):
    """One of several releases, which one being decided without the data, or by where a record is.

    Its profile is the largest of the parts'. Two cases need it: a configuration drawn from a public
    list, and a record that is either in the training or in the validation part.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        At least one.
    """

    events: tuple[PrivacyEvent, ...]
    kind: ClassVar[str] = "any_of"

    def __post_init__(self) -> None:
        store(self, events=tuple(self.events))
        if not self.events:
            raise ValueError("events must hold at least one privacy event")

    def delta_at(self, epsilon: float) -> float:
        """Return the largest delta of the parts.

        Parameters
        ----------
        epsilon : float
            At least 0.
        """
        return max(event.delta_at(epsilon) for event in self.events)

    def epsilon_at(self, delta: float) -> float:
        """Return the largest epsilon of the parts.

        Parameters
        ----------
        delta : float
            In [0, 1].
        """
        epsilon = 0.0
        for event in self.events:  # most parts are as private as the worst: one look tells
            if not math.isinf(epsilon) and event.delta_at(epsilon) > delta:
                epsilon = event.epsilon_at(delta)
        return epsilon

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        return np.asarray(np.max([event._profile(epsilons) for event in self.events], axis=0))

    def _loss_bound(self) -> tuple[float, float]:
        bounds, beyond = zip(*(event._loss_bound() for event in self.events), strict=True)
        return max(bounds), max(beyond)

    def _zcdp(self) -> float:
        return max(event._zcdp() for event in self.events)


def any_of(events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
    """Return the event of a release that is one of `events`; duplicates are merged.

    Parameters
    ----------
    events : tuple of PrivacyEvent
        At least one.
    """
    distinct = tuple(sorted(set(events), key=lambda event: (event.kind, repr(event))))
    return distinct[0] if len(distinct) == 1 else AnyOf(distinct)


@dataclass(frozen=True)
class BestOfRandomRuns(PrivacyEvent):
    """The best of a random number of runs, priced by bounds on the privacy profile of a run.

    Parameters
    ----------
    event : PrivacyEvent
        One run: choice of the configuration, fit and noisy score.
    mean : float
        Mean number of runs, at least 1 (Poisson: positive).
    shape : float
        Of the truncated negative binomial distribution, above -1; ``inf`` is Poisson.
    """

    event: PrivacyEvent
    mean: float
    shape: float
    kind: ClassVar[str] = "best_of_random_runs"

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        store(self, mean=check_positive("mean", self.mean), shape=shape)
        if math.isfinite(shape):
            negative_binomial_gamma(shape, self.mean)  # raises where out of reach

    def delta_at(self, epsilon: float) -> float:
        """Return the smaller of the direct bound and those implied by points further out.

        Parameters
        ----------
        epsilon : float
            At least 0.
        """
        epsilon = check_nonnegative("epsilon", epsilon)
        if math.isinf(self.shape):
            direct = _poisson_delta(self.event, self.mean, epsilon)
        else:
            shifted = epsilon - (self.shape + 1.0) * self._hat()
            direct = self.mean * self.event.delta_at(shifted) if shifted >= 0.0 else 1.0
        if direct == 0.0:
            return 0.0
        implied = float(_implied_profile(self, np.array([epsilon]))[0])
        return min(1.0, direct, implied)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon that the direct bound gives at `delta`.

        Parameters
        ----------
        delta : float
            In [0, 1].
        """
        return 0.0 if delta >= 1.0 else self._direct_epsilon(delta)

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        epsilons = np.asarray(epsilons, dtype=np.float64)
        if math.isinf(self.shape):
            direct = np.array([_poisson_delta(self.event, self.mean, e) for e in epsilons])
        else:
            shifted = epsilons - (self.shape + 1.0) * self._hat()
            runs = self.mean * _signed_profile(self.event, np.maximum(shifted, 0.0))
            direct = np.where(shifted >= 0.0, runs, 1.0)
        return np.asarray(np.minimum(np.minimum(1.0, direct), _implied_profile(self, epsilons)))

    def _loss_bound(self) -> tuple[float, float]:
        bound, beyond = self.event._loss_bound()
        if math.isinf(self.shape) or math.isinf(bound):
            return math.inf, min(1.0, self.mean * beyond)
        return bound + (self.shape + 1.0) * self._hat(), min(1.0, self.mean * beyond)

    def _direct_epsilon(self, delta: float) -> float:
        if math.isfinite(self.shape):
            run = self.event.epsilon_at(min(1.0, delta / self.mean))
            return run + (self.shape + 1.0) * self._hat()
        return _poisson_epsilon(self.event, self.mean, delta)

    def _hat(self) -> float:
        return _stable_epsilon(self.event, negative_binomial_gamma(self.shape, self.mean))


@lru_cache(maxsize=256)
def _points_further_out(event: BestOfRandomRuns) -> tuple[tuple[float, float], ...]:
    """Return a few (epsilon, delta) at which the release is private."""
    points = ((event._direct_epsilon(delta), delta) for delta in _MIXTURE_DELTAS)
    return tuple(point for point in points if math.isfinite(point[0]))


def _implied_profile(event: BestOfRandomRuns, epsilons: FloatArray) -> FloatArray:
    """Bound the profile by what being (e, d)-private implies at smaller epsilons."""
    best = np.ones_like(epsilons)
    for further, delta in _points_further_out(event):
        best = np.minimum(best, delta + (1.0 - delta) * pure_profile(epsilons, further))
    return best


@lru_cache(maxsize=256)
def _stable_epsilon(event: PrivacyEvent, gamma: float) -> float:
    """Return the smallest e with delta(e) <= (exp(e) - 1) gamma / (1 - gamma)."""
    if gamma >= 1.0:
        return 0.0
    odds = gamma / (1.0 - gamma)
    hat = 0.0
    for part in event.events if isinstance(event, AnyOf) else (event,):
        if part.delta_at(hat) > math.expm1(hat) * odds:
            hat = _first_stable(part, odds)
    return hat


def _first_stable(event: PrivacyEvent, odds: float) -> float:
    """Bisect coarsely, keeping an end at which the condition holds: any such end is valid."""
    low, high = 0.0, 1.0
    while not event.delta_at(high) <= math.expm1(high) * odds:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        if event.delta_at(middle) <= math.expm1(middle) * odds:
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=64)
def _chords(event: PrivacyEvent) -> tuple[FloatArray, FloatArray]:
    """Return points of the profile, exp(epsilon) and delta; chords between them lie above it."""
    top = event.epsilon_at(max(_NEGLIGIBLE, event._loss_bound()[1]))
    epsilons = np.linspace(0.0, min(top, _LARGEST), _POINTS)
    return np.exp(epsilons), np.minimum(1.0, event._profile(epsilons))


def _signed_profile(event: PrivacyEvent, epsilons: FloatArray) -> FloatArray:
    """Bound the profile at epsilons of either sign: d(-x) = 1 - exp(-x) (1 - d(x))."""
    sizes = np.abs(epsilons)
    deltas = np.interp(np.exp(np.minimum(sizes, _LARGEST)), *_chords(event))
    return np.asarray(
        np.where(epsilons >= 0.0, deltas, 1.0 - np.exp(-sizes) * (1.0 - deltas)), dtype=np.float64
    )


def _poisson_delta(event: PrivacyEvent, mean: float, epsilon: float) -> float:
    """Return the Poisson bound, minimized over epsilon-hat.

    The exponential variable is taken at the upper end of each cell, where the profile is larger.
    """
    starts = epsilon + _HATS - mean * _signed_profile(event, _HATS)
    masses = np.exp(-_CELLS[:-1]) - np.exp(-_CELLS[1:])
    values = _signed_profile(event, starts[:, None] - np.expm1(_HATS)[:, None] * _CELLS[1:])
    return float(mean * (values @ masses + math.exp(-_CELLS[-1])).min())


@lru_cache(maxsize=256)
def _poisson_epsilon(event: PrivacyEvent, mean: float, delta: float) -> float:
    if delta <= mean * event._loss_bound()[1]:
        return math.inf
    low, high = 0.0, 1.0
    while not _poisson_delta(event, mean, high) <= delta:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf
    while high - low > 1e-5 * high:
        middle = 0.5 * (low + high)
        low, high = (
            (low, middle) if _poisson_delta(event, mean, middle) <= delta else (middle, high)
        )
    return high
