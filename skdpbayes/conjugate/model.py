"""What the conjugate models share: one call that plans, reserves and releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator, clone

from skdpbayes import randomness, samplers
from skdpbayes._validation import check_choice, check_integer, check_real, take_rows
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.chunks import ChunkedValues, Values, read_values
from skdpbayes.fitting.estimator import FitPlan, make_budget, spent
from skdpbayes.fitting.merging import check_seeds, parallel_claim, seeds_of
from skdpbayes.fitting.units import WHOLE, share_out, sum_fractions, unit_codes
from skdpbayes.privacy.budget import NO_NOISE, Budget, Noise
from skdpbayes.privacy.calibration import smallest_noise
from skdpbayes.privacy.composition.composed import repeat
from skdpbayes.privacy.events import BoundedRange, NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.guarantee import PrivacyGuarantee, Unit
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.counts import counts
from skdpbayes.release.fractions import fractions

MECHANISMS = ("laplace", "gaussian", "ops")
POSTERIORS = ("noise_aware", "naive")
ATTEMPTS = 16  # of the exact rejection sampler, each kept 9 times of 10
_SUMMARY_DRAWS = 4000  # Monte Carlo error of a quantile: about 1 % of the posterior's deviation

Draw = Callable[[np.random.Generator, int], np.ndarray]


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
    _records: Callable[[np.random.Generator, np.ndarray, int], np.ndarray] | None = None
    _releases: tuple[Any, ...] = field(default=(), repr=False)

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

    def sample_records(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw synthetic records from the posterior predictive; it costs no privacy.

        Parameters are drawn once per call and the records given them: several calls are several
        synthetic data sets, and what they differ in is what the release leaves unknown.

        Parameters
        ----------
        n_samples : int, default=1
            Number of records.
        random_state : int, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_samples,)
            Records as the model takes them, within its public bounds.
        """
        n_samples = check_integer("n_samples", n_samples, low=1)
        if self._records is None:
            raise TypeError("this model says how parameters are drawn, not how records are.")
        generator = randomness.derived_generator(random_state, 1)
        return self._records(generator, self._draw(generator, 1)[0], n_samples)

    def mean(self, random_state: Any = None) -> np.ndarray:
        """Posterior mean by Monte Carlo (for ``"ops"`` the mean of the released draws).

        Parameters
        ----------
        random_state : int, Generator or None, default=None
            Source of randomness.
        """
        return self.sample(self._max_draws or _SUMMARY_DRAWS, random_state).mean(axis=0)

    def interval(self, level: float = 0.9, random_state: Any = None) -> np.ndarray:
        """Equal-tailed credible interval by Monte Carlo.

        Parameters
        ----------
        level : float, default=0.9
            Its probability, in (0, 1).
        random_state : int, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (..., 2)
            Lower and upper ends.
        """
        level = check_real("level", level, low=0.0, high=1.0, closed="neither")
        if self._max_draws is not None:
            raise ValueError(
                "interval needs many draws, and mechanism='ops' released only "
                f"{self._max_draws}. Use mechanism='laplace' or 'gaussian'."
            )
        tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        return np.quantile(self.sample(_SUMMARY_DRAWS, random_state), tails, axis=0).T


@dataclass(frozen=True)
class ConjugatePlan:
    """Noise on the statistics, in integer steps, or one draw from a tempered posterior."""

    event: PrivacyEvent
    words: str
    conditions: tuple[str, ...] = ()
    noise: Noise = NO_NOISE
    temper: float = 1.0


def _plan_noise(budget: Budget, law: str, l1: float, squared_l2: float, unit: int) -> ConjugatePlan:
    """Calibrate noise on integers; sensitivities count units of ``unit`` steps each.

    A discrete Gaussian on so fine a grid is priced by the length of the longest move.
    """
    name = "Laplace" if law == "laplace" else "Gaussian"
    words = f"exact discrete {name} noise on the sufficient statistics"
    if not budget.private:
        return ConjugatePlan(NoPrivacy(), words)
    if law == "laplace":
        scale = l1 * unit / budget.epsilon
        while l1 * unit / scale > budget.epsilon:
            scale = math.nextafter(scale, math.inf)
        noise = budget.noise("laplace", scale)
        return ConjugatePlan(PureDP(budget.epsilon), words, noise=noise)
    if budget.delta == 0.0:
        raise CalibrationError(
            "mechanism='gaussian' needs delta > 0; got delta=0. Use mechanism='laplace'."
        )
    count = math.ceil(squared_l2)

    def event_of(scale: float) -> PrivacyEvent:
        return repeat(DiscreteGaussian(scale * unit, unit), count)

    guess = math.sqrt(count) / gdp_mu(budget.epsilon, budget.delta)
    scale = smallest_noise(event_of, budget.epsilon, budget.delta, guess=guess)
    return ConjugatePlan(event_of(scale), words, noise=budget.noise("gaussian", scale * unit))


@dataclass(eq=False)
class Release:
    """Noisy statistics of some records; those of other records may be added up with them."""

    privacy_: PrivacyGuarantee
    statistic: np.ndarray
    n: int
    noise: Noise
    unit: Any
    """Scale of the noise in units of the statistic."""
    naive: bool
    _seeds: tuple[Any, ...] = field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """It is stored without what its noise was made from."""
        return {name: value for name, value in vars(self).items() if name != "_seeds"}


class ConjugateModel(BaseEstimator):
    """A model whose posterior is released: ``posterior`` is the same call for all of them."""

    _fewest = 1

    def fit(self, data: Any, epsilon: float = 1.0, delta: float = 0.0, **options: Any) -> Self:
        """Release the posterior and keep it.

        Parameters
        ----------
        data : array-like, RowBlocks, dask array or series
            One entry per record, as the model describes them; their number is public.
        epsilon : float, default=1.0
            The budget, > 0; ``np.inf`` gives the non-private posterior.
        delta : float, default=0.0
            In [0, 1); ``mechanism="gaussian"`` needs it to be positive.
        **options
            ``mechanism``, ``adjacency``, ``posterior``, ``units``, ``random_state`` and ``ledger``
            as for ``posterior``.

        Returns
        -------
        self
            With ``posterior_`` and its price, ``privacy_``.
        """
        released = self.posterior(data, epsilon, delta, **options)
        self.posterior_, self.privacy_ = released, released.privacy_
        return self

    def partial_fit(
        self, data: Any, epsilon: float = 1.0, delta: float = 0.0, **options: Any
    ) -> Self:
        """Release the statistics of more records and add them to those that were released before.

        No record may be in two batches; the claim then is the largest of the batches' (parallel
        composition), and ``privacy_.conditions`` says so. The noises add up, and the noise-aware
        posterior knows the law of their sum. After ``fit`` or the first batch.

        Parameters
        ----------
        data, epsilon, delta, **options
            As for ``fit``, but for ``mechanism="ops"``, whose draws do not add up. Every batch
            needs noise of the same law, and a seed of its own where it is seeded.

        Returns
        -------
        self
            With ``posterior_`` and ``privacy_`` of all batches.
        """
        earlier = getattr(self, "posterior_", None)
        if earlier is None:
            return self.fit(data, epsilon, delta, **options)
        if not earlier._releases or options.get("mechanism") == "ops":
            raise ValueError(
                "draws of mechanism='ops' do not add up; use mechanism='laplace' or 'gaussian' in "
                "every batch."
            )
        first = earlier._releases[0]
        adjacency = options.get("adjacency", "replace_one")
        unit = "record" if options.get("units") is None else "person"
        law = options.get("mechanism", "laplace") if np.isfinite(epsilon) else "none"
        naive = options.get("posterior", "noise_aware") == "naive" or law == "none"
        same = (first.privacy_.adjacency, first.privacy_.unit, first.noise.law, first.naive)
        if same != (adjacency, unit, law, naive):
            raise ValueError(
                "batches must agree in adjacency, mechanism, posterior, and all have units or none."
            )
        seed = options.get("random_state")
        claim = replace(first.privacy_, seeded=randomness.is_seeded(seed))
        check_seeds([*earlier._releases, SimpleNamespace(privacy_=claim, _seeds=seeds_of(seed))])
        added = self.posterior(data, epsilon, delta, **options)
        parts = (*earlier._releases, *added._releases)
        self.posterior_ = self._posterior_of(parts, parallel_claim(parts))
        self.privacy_ = self.posterior_.privacy_
        return self

    def posterior(
        self,
        data: Any,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "laplace",
        adjacency: str = "replace_one",
        posterior: str = "noise_aware",
        units: Any = None,
        random_state: Any = None,
        ledger: Any = None,
    ) -> PrivatePosterior:
        """Release the posterior of the model's parameter.

        Parameters
        ----------
        data : array-like, RowBlocks, dask array or series
            One entry per record, as the model describes them; their number is public.
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
        units : array-like of shape (n_records,), default=None
            Whose record each is: any hashable ids. All records of one person are then protected
            together, each of her m records counts 1/m, and the number of persons is public while
            the number of records is not. The released sums are rounded to what whole records of
            that many persons could add up to. Not for ``mechanism="ops"`` nor for data in chunks.
            None: every record is a unit.
        random_state : int, Generator or None, default=None
            Secure if None.
        ledger : PrivacyLedger or None, default=None
            Charged before the data are used.

        Returns
        -------
        PrivatePosterior
        """
        check_choice("mechanism", mechanism, MECHANISMS)
        check_choice("posterior", posterior, POSTERIORS)
        self._check()
        values: Values | ChunkedValues | PersonValues = read_values(self._read, data)
        if units is not None:
            if isinstance(values, ChunkedValues):
                raise TypeError("units are taken with data in memory only; load the chunks.")
            values = PersonValues.of(values.held, units)
        n = values.size
        if n < self._fewest:
            raise ValueError(f"data must have at least {self._fewest} records.")
        if isinstance(values, ChunkedValues) and (mechanism == "ops" or epsilon == np.inf):
            raise ValueError(
                "data in chunks need noise: mechanism='laplace' or 'gaussian' and a finite "
                "epsilon. Pass data in memory otherwise."
            )
        unit: Unit = "record" if units is None else "person"
        budget = make_budget(
            epsilon, delta, adjacency, ledger, random_state, n, unit=unit, stacklevel=3
        )
        plan = self._plan(n, budget, mechanism)
        # without noise the released statistic is the true one
        naive = posterior == "naive" or not budget.private
        self._check_release(naive)
        generator = randomness.make_generator(random_state)
        claim = budget.reserve(plan, type(self).__name__)
        with spent(ledger):
            if mechanism == "ops":
                assert isinstance(values, Values)
                drawn = self._one_draw(values.held, plan.temper, budget, generator)
                released = {"draws": drawn, "temperature": 1.0 / plan.temper}
                records = getattr(clone(self), "_records", None)
                return PrivatePosterior(claim, released, partial(_first_draws, drawn), 1, records)
            statistic = self._release(values, plan.noise, generator)
            scale = self._scale(plan.noise)
            seeds = seeds_of(random_state)
            part = Release(claim, statistic, n, plan.noise, scale, naive, seeds)
            return self._posterior_of((part,), claim)

    def _posterior_of(
        self, parts: tuple[Release, ...], claim: PrivacyGuarantee
    ) -> PrivatePosterior:
        """Return the posterior given releases of disjoint records."""
        model = clone(self)  # what is fitted does not change with the model's parameters
        released, draw = model._given(parts, parts[0].naive)
        scales = [part.unit for part in parts]
        released |= {
            "n_total": sum(part.n for part in parts),
            "noise_scale": scales[0] if len(parts) == 1 else scales,
        }
        records = getattr(model, "_records", None)
        return PrivatePosterior(claim, released, draw, None, records, parts)

    def plan(
        self,
        n_samples: int,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        mechanism: str = "laplace",
        adjacency: str = "replace_one",
        unit: Unit = "record",
    ) -> FitPlan:
        """Say without data what ``posterior`` would claim, and its noise or temperature.

        Parameters
        ----------
        n_samples : int
            Number of records, or of persons.
        epsilon, delta, mechanism, adjacency
            As for ``posterior``.
        unit : {"record", "person"}, default="record"
            What the guarantee protects.

        Returns
        -------
        FitPlan

        Examples
        --------
        >>> from skdpbayes.conjugate import BetaBernoulli
        >>> print(BetaBernoulli().plan(400, epsilon=0.5))
        BetaBernoulli would release:
          claim        0.5-differentially private when one record is replaced by another ...
          noise_scale  2
        """
        n = check_integer("n_samples", n_samples, low=self._fewest)
        check_choice("mechanism", mechanism, MECHANISMS)
        check_choice("unit", unit, ("record", "person"))
        self._check()
        budget = make_budget(epsilon, delta, adjacency, None, None, n, unit=unit, stacklevel=3)
        plan = self._plan(n, budget, mechanism)
        of_draw, of_noise = {"temperature": 1.0 / plan.temper}, self._scale(plan.noise)
        numbers = of_draw if mechanism == "ops" else {"noise_scale": of_noise}
        return FitPlan(type(self).__name__, budget.claim(plan), numbers, plan, {})

    def _plan(self, n: int, budget: Budget, mechanism: str) -> ConjugatePlan:
        if mechanism == "ops":
            words = "one draw from the tempered posterior"
            if budget.unit != "record":
                raise ValueError(
                    "mechanism='ops' draws from a likelihood of whole records; with units use "
                    "mechanism='laplace' or 'gaussian'."
                )
            if not budget.private:
                return ConjugatePlan(NoPrivacy(), words)
            temper, event, *conditions = self._temper(n, budget)
            return ConjugatePlan(event, words, tuple(conditions), temper=temper)
        l1, squared_l2, steps = self._moves(moved(budget.adjacency))
        share = 1 if budget.unit == "record" else WHOLE
        # squares of a grid have up to 2^20 steps
        if share > 1 and n * max(steps, 1 << 20) * share >= 2**62:
            raise ValueError(
                f"the fractions of {n} persons do not fit into 64 bits at {steps} steps per "
                "record; use a smaller bound."
            )
        plan = _plan_noise(budget, mechanism, l1, squared_l2, steps * share)
        # on what is added up, not on fractions of it
        noise = replace(plan.noise, scale=plan.noise.scale / share)
        return replace(plan, noise=noise, conditions=self._conditions())

    def _check(self) -> None:
        """Check the model's own parameters."""
        raise NotImplementedError

    def _check_release(self, naive: bool) -> None:
        """Refuse a posterior that the model's parameters do not allow."""

    def _conditions(self) -> tuple[str, ...]:
        """Return what a release of noisy statistics rests on, in words."""
        return ()

    def _read(self, data: Any) -> Any:
        """Return the data as an array within the model's public bounds."""
        raise NotImplementedError

    def _moves(self, records: int) -> tuple[float, float, int]:
        """L1 and squared L2 sensitivity if so many records change, and integer steps per unit."""
        raise NotImplementedError

    def _scale(self, noise: Noise) -> Any:
        """Scale of the noise in units of the released statistics."""
        return noise.scale

    def _release(
        self, values: AnyValues, noise: Noise, generator: np.random.Generator
    ) -> np.ndarray:
        """Release noisy statistics; they add up over disjoint records."""
        raise NotImplementedError

    def _given(self, parts: Sequence[Release], naive: bool) -> tuple[dict[str, Any], Draw]:
        """Return what was released, added up, and the posterior that follows from it."""
        raise NotImplementedError

    def _temper(self, n: int, budget: Budget) -> tuple[Any, ...]:
        """Power of the likelihood that the budget allows a draw, its event, and conditions."""
        raise NotImplementedError

    def _one_draw(
        self, values: np.ndarray, temper: float, budget: Budget, generator: np.random.Generator
    ) -> np.ndarray:
        """Release one draw, shape (1, ...), from the tempered posterior."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class PersonValues:
    """Records of persons, each of whose m records counts 1/m."""

    held: Any
    """The records that count."""
    weight: np.ndarray
    size: int
    """Number of persons."""
    share: ClassVar[int] = WHOLE
    """Sums are in units of one over this number."""

    @classmethod
    def of(cls, held: Any, units: Any) -> PersonValues:
        """Weigh validated records by their persons."""
        codes, n_units = unit_codes(units, len(held))
        used, weight = share_out(codes, n_units)
        return cls(held if used is None else take_rows(held, used), weight, n_units)

    def total(self, kernel: Callable[[Any], np.ndarray]) -> np.ndarray:
        """Return a sum over records by their weights that is exact, in units of 1 / share."""
        return sum_fractions(self.weight, lambda rows: kernel(take_rows(self.held, rows)))


AnyValues: TypeAlias = Values | ChunkedValues | PersonValues


def release_sums(
    generator: np.random.Generator, values: AnyValues, exact: np.ndarray, noise: Noise
) -> np.ndarray:
    """Release integer sums; those of persons are rounded to whole steps afterwards."""
    if values.share == 1:
        return counts(generator, exact, noise)
    return np.rint(fractions(generator, exact, noise, values.share)).astype(np.int64)


def _first_draws(draws: np.ndarray, generator: np.random.Generator, n_draws: int) -> np.ndarray:
    return draws[:n_draws]


def total_of(values: np.ndarray) -> np.ndarray:
    """Sum whole numbers, shape (1,)."""
    return np.asarray(values.sum(keepdims=True))


def tempered(budget: Budget, width: float, slack: float = 1e-12) -> tuple[float, BoundedRange]:
    """Return the power of a draw whose log-likelihood ratio has this range, and its event."""
    eta = budget.epsilon
    if budget.delta > 0.0:
        eta = max(eta, bounded_range_eta(eta, budget.delta))
    return min(1.0, eta / width * (1.0 - slack)), BoundedRange(eta)


def snapped(draws: np.ndarray, low: float, high: float) -> np.ndarray:
    """Round a draw from [low, high] to the public grid that its release is made on.

    The low bits of a float would betray what it was computed from. The grid is a power of two,
    2^-30 to 2^-31 of the range: far below a tempered posterior's deviation.
    """
    grid = math.ldexp(1.0, math.frexp(high - low)[1] - 31)
    return np.clip(randomness.snap(np.clip(draws, low, high), grid), low, high)


def log_noise_at(
    law: str, scales: Sequence[float], gaps: np.ndarray, *, whole: bool = True
) -> np.ndarray:
    """Log-density, up to a constant, of a sum of independent noises.

    Parameters
    ----------
    law : {"laplace", "gaussian"}
        Of each of them.
    scales : sequence of float
        Their scales.
    gaps : ndarray
        Where.
    whole : bool, default=True
        Whether gaps and noises are integers.
    """
    if law == "gaussian":
        return -0.5 * np.square(gaps) / np.square(scales).sum()
    if len(scales) == 1:
        return -np.abs(gaps) / scales[0]
    # on a grid much finer than the noise; beyond its end the widest noise decides
    step = max(float(whole), min(scales) / 256.0)
    log_pmf = samplers.noise_log_pmf([(law, scale / step) for scale in scales])
    place = np.abs(gaps) / step
    last = log_pmf.size - 1
    beyond = np.maximum(place - last, 0.0) * step / max(scales)
    return np.interp(place, np.arange(log_pmf.size), log_pmf) - beyond


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
