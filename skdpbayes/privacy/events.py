r"""What was released, described by its privacy profile.

An event is a small immutable value.  Its profile :math:`\delta(\varepsilon)`, the smallest delta
at which the release is :math:`(\varepsilon, \delta)`-differentially private, holds under the
adjacency of the guarantee that carries the event.  Everything else is derived from the profile:
the inverse :meth:`PrivacyEvent.epsilon_at`, and tight composition
(:mod:`skdpbayes.privacy.composition.composed`).

A new kind subclasses :class:`PrivacyEvent`, sets ``kind`` and supplies ``delta_at``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpbayes.privacy._numeric import (
    check_count,
    check_nonnegative,
    smallest_satisfying,
)
from skdpbayes.privacy.mechanisms.bounded_range import (
    bounded_range_delta,
    bounded_range_epsilon,
    bounded_range_rho,
)
from skdpbayes.privacy.mechanisms.gdp import FloatArray, gdp_epsilon, log_gaussian_profile

# Headroom for the rounding of closed-form profiles.
_ROUNDING = 1e-12
_KINDS: dict[str, type[PrivacyEvent]] = {}


class PrivacyEvent:
    """Base class of everything that can be composed and stored in a ledger.

    A subclass is a frozen dataclass with a class attribute ``kind`` (its name in JSON) and a
    profile: either :meth:`delta_at` or, where it can be vectorized, ``_profile``.
    """

    kind: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__name__.startswith("_"):
            return  # shared code, not a kind
        if cls.delta_at is PrivacyEvent.delta_at and cls._profile is PrivacyEvent._profile:
            raise TypeError(f"{cls.__name__} must define delta_at, its privacy profile")
        if "kind" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} must set the class attribute kind")
        known = _KINDS.setdefault(cls.kind, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"kind {cls.kind!r} is taken by {known.__qualname__}")
        _KINDS[cls.kind] = cls

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta at which the release is (epsilon, delta)-private.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            In [0, 1], never below the truth.
        """
        epsilon = check_nonnegative("epsilon", epsilon)
        bound, beyond = self._loss_bound()
        if epsilon >= bound:
            return beyond
        return min(1.0, float(self._profile(np.array([epsilon]))[0]))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon at which the release is (epsilon, delta)-private.

        Parameters
        ----------
        delta : float
            In [0, 1].

        Returns
        -------
        float
            Rounded up; ``inf`` where no epsilon reaches `delta`.
        """
        delta = check_probability("delta", delta)
        bound, beyond = self._loss_bound()
        if delta < beyond or (delta == 0.0 and math.isinf(bound)):
            return math.inf
        if self.delta_at(0.0) <= delta:
            return 0.0
        if delta == beyond:
            return bound
        return min(self._smallest_epsilon(delta, 1.0 if math.isinf(bound) else bound), bound)

    def _smallest_epsilon(self, delta: float, start: float) -> float:
        goal = delta * (1.0 - _ROUNDING)
        if type(self)._profile is PrivacyEvent._profile:  # no gain from many points at once
            return smallest_satisfying(lambda epsilon: self.delta_at(epsilon) <= goal, 0.0, start)
        low, high = 0.0, start
        while not self.delta_at(high) <= goal:
            low, high = high, 2.0 * high
            if math.isinf(high):
                return math.inf
        while high - low > 1e-14 * high:
            points = np.linspace(low, high, 66)[1:-1]
            if not low < points[0] < points[-1] < high:
                break
            private = np.append(self._profile(points) <= goal, True)
            index = int(np.argmax(private))
            low = low if index == 0 else float(points[index - 1])
            high = high if index == points.size else float(points[index])
        return high

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able description that :func:`event_from_dict` reads back."""
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {"kind": self.kind} | {name: encode(getattr(self, name)) for name in names}

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        """Return the profile at every entry of `epsilons`."""
        return np.array([self.delta_at(float(epsilon)) for epsilon in epsilons])

    def _profile_pair(self, epsilons: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the profiles of the two ordered pairs: (record present, absent) and back.

        Composition keeps the order of the two data sets, so knowing both is tighter than their
        maximum.  Equal arrays mean a symmetric mechanism.
        """
        profile = self._profile(epsilons)
        return profile, profile

    def _loss_bound(self) -> tuple[float, float]:
        """Return (b, p): the privacy loss exceeds b with probability at most p."""
        return math.inf, 0.0

    def _loss_spacing(self) -> float:
        """Return the spacing of a lattice (with 0) that holds the atoms of the loss, else 0."""
        return 0.0

    def _is_costly(self) -> bool:
        """Tell whether a profile of very many points is slow to compute."""
        return type(self)._profile is PrivacyEvent._profile

    def _zcdp(self) -> float:
        """Return rho if the release is known to be rho-zCDP, else ``inf``.

        A crude bound for losses too large for a loss distribution.
        """
        bound, beyond = self._loss_bound()
        return 0.5 * bound * bound if beyond == 0.0 else math.inf

    def _simplified(self) -> PrivacyEvent:
        """Return an equal event of a simpler kind where there is one."""
        return self


def event_from_dict(description: Mapping[str, Any]) -> PrivacyEvent:
    """Rebuild the event that ``to_dict`` described.

    Parameters
    ----------
    description : mapping
        ``{"kind": ..., field: value, ...}``.

    Examples
    --------
    >>> from skdpbayes.privacy import PureDP, event_from_dict
    >>> event_from_dict(PureDP(0.5).to_dict())
    PureDP(epsilon=0.5)
    """
    fields = dict(description)
    kind = fields.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"unknown privacy event kind {kind!r}; known: {', '.join(sorted(_KINDS))}")
    try:
        return _KINDS[kind](**{name: decode(value) for name, value in fields.items()})
    except TypeError as error:
        raise ValueError(f"malformed {kind!r} event: {error}") from error


def encode(value: Any) -> Any:
    """Turn a field into JSON; infinity, which JSON lacks, becomes the string ``"inf"``."""
    if isinstance(value, PrivacyEvent):
        return value.to_dict()
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    return value


def decode(value: Any) -> Any:
    """Invert :func:`encode`."""
    if isinstance(value, Mapping):
        return event_from_dict(value)
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    return math.inf if value == "inf" else value


def check_probability(name: str, value: float) -> float:
    """Return `value` as a float, refusing anything outside [0, 1]."""
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
    return number


def store(event: PrivacyEvent, **values: Any) -> None:
    """Set fields of a frozen event from its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(event, name, value)


@dataclass(frozen=True)
class PureDP(PrivacyEvent):
    r"""Any epsilon-differentially private release, priced as randomized response, its worst case.

    :math:`\delta(\varepsilon) = (e^{\varepsilon_0}-e^\varepsilon)_+/(1+e^{\varepsilon_0})`
    (Kairouz, Oh and Viswanath 2017).

    Parameters
    ----------
    epsilon : float
        At least 0.
    """

    epsilon: float
    kind: ClassVar[str] = "pure"

    def __post_init__(self) -> None:
        store(self, epsilon=check_nonnegative("epsilon", self.epsilon))

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        return pure_profile(epsilons, self.epsilon)

    def _loss_bound(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def _loss_spacing(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class ApproximateDP(PrivacyEvent):
    r"""Any (epsilon, delta)-private release: randomized response that may fail altogether.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In [0, 1]: the probability with which, at worst, the release reveals everything.
    """

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        store(
            self,
            epsilon=check_nonnegative("epsilon", self.epsilon),
            delta=check_probability("delta", self.delta),
        )

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        return self.delta + (1.0 - self.delta) * pure_profile(epsilons, self.epsilon)

    def _loss_bound(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def _loss_spacing(self) -> float:
        return self.epsilon


@dataclass(frozen=True)
class GaussianDP(PrivacyEvent):
    """A mu-GDP release; ``1 / mu`` is the Gaussian mechanism's noise multiplier.

    Parameters
    ----------
    mu : float
        At least 0; larger is less private.
    """

    mu: float
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        store(self, mu=check_nonnegative("mu", self.mu))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon in closed form; see :func:`gdp_epsilon`."""
        return gdp_epsilon(self.mu, delta)

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        return np.exp(log_gaussian_profile(epsilons, self.mu))

    def _loss_bound(self) -> tuple[float, float]:
        return (0.0 if self.mu == 0.0 else math.inf), 0.0

    def _zcdp(self) -> float:
        return 0.5 * self.mu * self.mu


@dataclass(frozen=True)
class GaussianMixture(PrivacyEvent):
    r"""A release that is :math:`\mu_j`-GDP given a secret *j*, drawn evenly and without the data.

    :math:`\delta(\varepsilon) = \frac1J\sum_j H(\varepsilon;\mu_j)`, with *H* the Gaussian profile.
    *Proof.* The laws are the averages of those given *j*, and the integral of
    :math:`(p-e^\varepsilon p')_+` is convex in the pair of densities.

    Parameters
    ----------
    mus : tuple of float
        The parameters, each at least 0; at least one.
    """

    mus: tuple[float, ...]
    kind: ClassVar[str] = "gaussian_mixture"

    def __post_init__(self) -> None:
        if not self.mus:
            raise ValueError("mus must hold at least one number")
        store(self, mus=tuple(check_nonnegative("mus", mu) for mu in self.mus))

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        profiles = [np.exp(log_gaussian_profile(epsilons, mu)) for mu in self.mus]
        return np.asarray(np.mean(profiles, axis=0))

    def _loss_bound(self) -> tuple[float, float]:
        return (0.0 if max(self.mus) == 0.0 else math.inf), 0.0

    def _zcdp(self) -> float:
        return 0.5 * max(self.mus) ** 2

    def _simplified(self) -> PrivacyEvent:
        return GaussianDP(self.mus[0]) if len(set(self.mus)) == 1 else self


@dataclass(frozen=True)
class BoundedRange(PrivacyEvent):
    """Draws of an exponential mechanism whose privacy loss has range `eta`.

    See :func:`bounded_range_delta` for the profile.

    Parameters
    ----------
    eta : float
        At least 0.
    n_draws : int, default=1
        Independent draws of one and the same distribution; priced together they cost less than
        the composition of as many adaptively chosen mechanisms.
    """

    eta: float
    n_draws: int = 1
    kind: ClassVar[str] = "bounded_range"

    def __post_init__(self) -> None:
        eta = check_nonnegative("eta", self.eta)
        store(self, eta=eta, n_draws=check_count("n_draws", self.n_draws))

    def delta_at(self, epsilon: float) -> float:
        """Return the exact profile; see :func:`bounded_range_delta`."""
        return bounded_range_delta(epsilon, self.eta, self.n_draws)

    def epsilon_at(self, delta: float) -> float:
        """Return the inverse; see :func:`bounded_range_epsilon`."""
        return 0.0 if delta == 1.0 else bounded_range_epsilon(self.eta, delta, self.n_draws)

    def _profile(self, epsilons: FloatArray) -> FloatArray:
        if self.n_draws > 1 or math.isinf(self.eta) or self.eta == 0.0:
            return super()._profile(epsilons)
        gap = np.minimum(0.0, epsilons - self.eta)
        return np.square(np.expm1(gap / 2.0)) / -math.expm1(-self.eta)

    def _loss_bound(self) -> tuple[float, float]:
        return self.n_draws * self.eta, 0.0

    def _is_costly(self) -> bool:
        return self.n_draws > 1

    def _zcdp(self) -> float:
        return self.n_draws * bounded_range_rho(self.eta)


@dataclass(frozen=True)
class NoPrivacy(PrivacyEvent):
    """A release without any guarantee: epsilon is infinite."""

    kind: ClassVar[str] = "none"

    def delta_at(self, epsilon: float) -> float:
        """Return 1 for every finite epsilon."""
        return 0.0 if math.isinf(check_nonnegative("epsilon", epsilon)) else 1.0

    def epsilon_at(self, delta: float) -> float:
        """Return ``inf`` unless delta is 1."""
        return 0.0 if check_probability("delta", delta) == 1.0 else math.inf


def pure_profile(epsilons: FloatArray, epsilon: float) -> FloatArray:
    """Return the profile of randomized response; 1 for an infinite `epsilon`."""
    if math.isinf(epsilon):
        return np.ones_like(epsilons)
    scale = 1.0 / (1.0 + math.exp(-epsilon))
    return np.asarray(-np.expm1(np.minimum(0.0, epsilons - epsilon)) * scale)
