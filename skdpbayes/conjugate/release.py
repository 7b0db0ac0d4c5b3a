"""What the conjugate models share: the release of integer statistics, and the posterior object."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln

from skdpbayes import randomness
from skdpbayes._validation import ADJACENCIES, check_choice, check_integer, check_real
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy.calibration import smallest_noise
from skdpbayes.privacy.composition.composed import repeat
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_mu

__all__ = ["ConjugateModel", "PrivatePosterior", "Request"]

MECHANISMS = ("laplace", "gaussian", "ops")
POSTERIORS = ("noise_aware", "naive")
ATTEMPTS = 16  # of the exact rejection sampler, each kept 9 times of 10
_SUMMARY_DRAWS = 4000  # Monte Carlo error of a quantile: about 1 % of the posterior's deviation


@dataclass(frozen=True)
class PrivatePosterior:
    """A posterior distribution that was paid for, as the ``posterior`` method of a model makes it.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        What it cost.
    released_ : dict
        The noisy statistics, or the draw of ``mechanism="ops"``: all that was computed from the
        data. Everything else follows from it.
    """

    privacy_: PrivacyGuarantee
    released_: dict[str, Any]
    _draw: Callable[[np.random.Generator, int], np.ndarray]
    _max_draws: int | None = None

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw parameters, first axis the draw; free and unlimited except for ``"ops"``.

        Parameters
        ----------
        n_samples : int, default=1
            Number of draws.
        random_state : int, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples, ...)
        """
        n_samples = check_integer("n_samples", n_samples, low=1)
        if self._max_draws is not None and n_samples > self._max_draws:
            raise ValueError(
                f"n_samples={n_samples}: mechanism='ops' released {self._max_draws} draw(s), and "
                "more would cost more privacy. Use mechanism='laplace' for unlimited draws."
            )
        # Another stream than the one of the same seed that made the noise.
        return self._draw(randomness.derived_generator(random_state, 1), n_samples)

    def mean(self, random_state: Any = None) -> np.ndarray:
        """Posterior mean by Monte Carlo (for ``"ops"`` the mean of the released draws).

        Parameters
        ----------
        random_state : int, Generator or None, default=None
            Source of randomness.
        """
        return self.sample(self._max_draws or _SUMMARY_DRAWS, random_state).mean(axis=0)

    def interval(self, probability: float = 0.9, random_state: Any = None) -> np.ndarray:
        """Equal-tailed credible interval by Monte Carlo, shape (2, ...).

        Parameters
        ----------
        probability : float, default=0.9
            In (0, 1).
        random_state : int, Generator or None, default=None
            Source of randomness.
        """
        probability = check_real("probability", probability, low=0.0, high=1.0, closed="neither")
        if self._max_draws is not None:
            raise ValueError(
                "interval needs many draws, and mechanism='ops' released only "
                f"{self._max_draws}. Use mechanism='laplace' or 'gaussian'."
            )
        tails = [(1.0 - probability) / 2.0, (1.0 + probability) / 2.0]
        return np.quantile(self.sample(_SUMMARY_DRAWS, random_state), tails, axis=0)


@dataclass(frozen=True)
class Request:
    """The privacy parameters of one call, checked."""

    epsilon: float
    delta: float
    mechanism: str
    adjacency: str
    posterior: str
    random_state: Any
    ledger: Any

    @classmethod
    def check(
        cls,
        epsilon: float,
        delta: float,
        mechanism: str,
        adjacency: str,
        posterior: str,
        random_state: Any,
        ledger: Any,
    ) -> Request:
        """Check every parameter and name the one that is wrong."""
        check_choice("mechanism", mechanism, MECHANISMS)
        check_choice("adjacency", adjacency, ADJACENCIES)
        check_choice("posterior", posterior, POSTERIORS)
        return cls(
            check_real("epsilon", epsilon, low=0.0, closed="high"),
            check_real("delta", delta, low=0.0, high=1.0, closed="low"),
            mechanism,
            adjacency,
            posterior,
            random_state,
            ledger,
        )

    @property
    def replaces(self) -> bool:
        """Whether a record may be replaced by any other one."""
        return self.adjacency == "replace_one"

    def reserve(
        self, event: PrivacyEvent, words: str, conditions: tuple[str, ...] = ()
    ) -> PrivacyGuarantee:
        """State the claim and charge the ledger, before the data are used."""
        guarantee = PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,  # type: ignore[arg-type]
            mechanism=words,
            event=NoPrivacy() if math.isinf(self.epsilon) else event,
            seeded=randomness.is_seeded(self.random_state),
            conditions=conditions,
        )
        if self.ledger is not None:
            self.ledger.reserve(guarantee, label="conjugate")
        return guarantee

    def noise_scale(
        self, l1: float, squared_l2: float, unit: int = 1
    ) -> tuple[float, PrivacyEvent]:
        """Scale of the noise, in units of the sensitivities, and what it costs.

        ``unit`` says how many integer steps one unit has. A discrete Gaussian on so fine a grid is
        priced by the length of the longest move.
        """
        if math.isinf(self.epsilon):
            return 0.0, NoPrivacy()
        if self.mechanism == "laplace":
            scale = l1 / self.epsilon
            while l1 / scale > self.epsilon:
                scale = math.nextafter(scale, math.inf)
            return scale, PureDP(self.epsilon)
        if self.delta == 0.0:
            raise CalibrationError(
                "mechanism='gaussian' needs delta > 0; got delta=0. Use mechanism='laplace'."
            )
        count = math.ceil(squared_l2)

        def event_of(scale: float) -> PrivacyEvent:
            return repeat(DiscreteGaussian(scale * unit, unit), count)

        guess = math.sqrt(count) / gdp_mu(self.epsilon, self.delta)
        scale = smallest_noise(event_of, self.epsilon, self.delta, guess=guess)
        return scale, event_of(scale)

    def add_noise(self, values: np.ndarray, scale: float) -> np.ndarray:
        """Add exact integer noise of the given scale (in integer steps)."""
        if scale == 0.0:
            return np.asarray(values, dtype=np.int64)
        generator = randomness.make_generator(self.random_state)
        return randomness.release_counts(
            generator,
            np.asarray(values),
            scale,
            noise=self.mechanism,  # type: ignore[arg-type]
        )

    @property
    def words(self) -> str:
        """The noise in words."""
        name = "Laplace" if self.mechanism == "laplace" else "Gaussian"
        return f"exact discrete {name} noise on the sufficient statistics"


class ConjugateModel(ABC):
    """A model whose posterior is released: ``posterior`` is the same call for all of them."""

    def posterior(
        self,
        data: Any,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "laplace",
        adjacency: str = "replace_one",
        posterior: str = "noise_aware",
        random_state: Any = None,
        ledger: Any = None,
    ) -> PrivatePosterior:
        """Release the posterior of the model's parameter.

        Parameters
        ----------
        data : array-like
            One entry a record, as the model describes them; their number is public.
        epsilon : float, default=1.0
            The budget, > 0; ``np.inf`` gives the non-private posterior.
        delta : float, default=0.0
            In [0, 1); ``mechanism="gaussian"`` needs it to be positive.
        mechanism : {"laplace", "gaussian", "ops"}, default="laplace"
            Noise on the statistics, or one draw from a tempered posterior.
        adjacency : {"replace_one", "zero_out"}, default="replace_one"
            What the guarantee protects.
        posterior : {"noise_aware", "naive"}, default="noise_aware"
            Whether the noise is part of the model, or the noisy statistic, projected to the
            possible values, is taken for the true one.
        random_state : int, Generator or None, default=None
            Secure if None.
        ledger : PrivacyLedger or None, default=None
            Charged before the data are used.

        Returns
        -------
        PrivatePosterior
        """
        request = Request.check(
            epsilon, delta, mechanism, adjacency, posterior, random_state, ledger
        )
        values = self._checked(data)
        if mechanism == "ops":
            return self._one_draw(values, request)
        return self._from_noise(values, request)

    @abstractmethod
    def _checked(self, data: Any) -> np.ndarray:
        """Return the data as an array within the model's public bounds."""

    @abstractmethod
    def _from_noise(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        """Release noisy statistics and the posterior that follows from them."""

    @abstractmethod
    def _one_draw(self, values: np.ndarray, request: Request) -> PrivatePosterior:
        """Release one draw from the tempered posterior."""


def single_draw(guarantee: PrivacyGuarantee, drawn: np.ndarray, temper: float) -> PrivatePosterior:
    """Wrap the only draw, shape (1, ...), of a posterior tempered by ``temper``."""
    released = {"draws": drawn, "temperature": 1.0 / temper}
    return PrivatePosterior(guarantee, released, partial(_first_draws, drawn), 1)


def _first_draws(draws: np.ndarray, generator: np.random.Generator, n_draws: int) -> np.ndarray:
    return draws[:n_draws]


def ops_eta(request: Request) -> float:
    """Range of the log-density ratio that the budget allows a single draw."""
    if request.delta > 0.0 and np.isfinite(request.epsilon):
        return max(request.epsilon, bounded_range_eta(request.epsilon, request.delta))
    return request.epsilon


def snapped(draws: np.ndarray, low: float, high: float) -> np.ndarray:
    """Round a draw from [low, high] to the public grid that its release is made on.

    The low bits of a float would betray what it was computed from. The grid is a power of two,
    2^-30 to 2^-31 of the range: far below a tempered posterior's deviation.
    """
    grid = math.ldexp(1.0, math.frexp(high - low)[1] - 31)
    return np.clip(randomness.snap(np.clip(draws, low, high), grid), low, high)


def log_noise_at(mechanism: str, scale: float, gaps: np.ndarray) -> np.ndarray:
    """Log-pmf of the noise up to a constant; a point mass for scale 0."""
    if scale == 0.0:
        return np.where(gaps == 0, 0.0, -np.inf)
    if mechanism == "laplace":
        return -np.abs(gaps) / scale
    return -0.5 * (gaps / scale) ** 2


def draw_from_log_weights(
    generator: np.random.Generator, log_weights: np.ndarray, n_draws: int
) -> np.ndarray:
    """Draw indices with probability proportional to ``exp(log_weights)``."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    drawn = np.searchsorted(cumulative, generator.random(n_draws) * cumulative[-1], side="right")
    return np.minimum(drawn, log_weights.shape[0] - 1)


def log_binomial(n_total: int, counts: np.ndarray) -> np.ndarray:
    """Logarithm of the binomial coefficients."""
    return gammaln(n_total + 1.0) - gammaln(counts + 1.0) - gammaln(n_total - counts + 1.0)
