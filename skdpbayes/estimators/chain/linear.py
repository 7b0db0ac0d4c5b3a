"""What private chains on linear models share: parameters, plan, run and what is left behind."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdpbayes import models, privacy, randomness
from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_is_fitted,
    check_real,
    check_scale,
    longest_row,
)
from skdpbayes.estimators.chain import settings as rules
from skdpbayes.estimators.chain.coordinates import (
    Coordinates,
    check_public_covariance,
    exact_coordinates,
    moment_sensitivity,
    plain_coordinates,
    public_coordinates,
    released_coordinates,
)
from skdpbayes.estimators.chain.inference import MOST_COLUMNS as MOST_COLUMNS_OF_INTERVALS
from skdpbayes.estimators.chain.inference import Answers, ScoreEquation
from skdpbayes.estimators.chain.plan import ChainPlan, check_delta
from skdpbayes.estimators.chain.potential import CoefficientPrior, LinearPotential, chain_blocks
from skdpbayes.estimators.chain.run import ChainResult, Dynamics, choose_draws, run_chain
from skdpbayes.estimators.linear.normal import NormalMixture
from skdpbayes.estimators.linear.posterior import LinearPosterior, split_coefficients
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import ChunkedRecords, check_noise
from skdpbayes.fitting.estimator import NOT_PRIVATE, offers
from skdpbayes.fitting.records import Block, Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.fitting.units import Members
from skdpbayes.privacy.budget import Budget

if TYPE_CHECKING:
    from skdpbayes.privacy.events import PrivacyEvent
    from skdpbayes.privacy.guarantee import PrivacyGuarantee

# Moments of more columns than this are too large a matrix; their noise would be, too.
MOST_COLUMNS = 4096
# Moments are worth their price if noise alone has eigenvalues below this, of a trace of 1.
LARGEST_EDGE = 0.15
# Share of the (Gaussian) budget that the moments get.
SHARE = 0.2
PRIORS = {"cauchy": CoefficientPrior.cauchy, "normal": CoefficientPrior.normal}
# Intervals need privacy noise below this share of the curvature per direction.
LARGEST_NOISE = 1.0 / 3.0
# Clipping is undone in probabilities after this many relaxation times of the chain.
LEAST_RELAXATIONS = 10.0
# Share of the chain's own probability that stays.
KEPT_SHARE = 1e-3
POSTERIORS = ("auto", "noise_aware", "chain")


class LinearChain:
    """Parameters of a chain on a linear model, read and checked; estimators add their loss."""

    epsilon: float
    data_norm: float
    prior: str
    prior_scale: Any
    fit_intercept: bool
    preconditioner: Any
    privacy_: PrivacyGuarantee
    _posterior: Any
    _takes_units = True
    _reads_chunks = True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters: scikit-learn's."""
        return super().get_params(deep)  # type: ignore[misc]

    def _loss(self, public: Public) -> models.Loss:
        raise NotImplementedError

    def _default_prior(self, public: Public) -> tuple[float, float]:
        """Scales of the priors of a coefficient and of the intercept."""
        raise NotImplementedError

    def _default_clip(self, public: Public, budget: Budget, whitened: bool) -> float:
        raise NotImplementedError

    def _default_steps(self, public: Public, budget: Budget) -> int:
        return rules.default_steps(public.n_features)

    def _largest_edge(self) -> float:
        return LARGEST_EDGE

    def _bound(self) -> Bound:
        check_scale("data_norm", self.data_norm)
        return Bound() if np.isinf(self.epsilon) else Bound(float(self.data_norm))

    def _read(self, X: Any, y: Any) -> Records:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        check_noise(self, X)
        rows = super()._read(X, y)  # type: ignore[misc]
        if np.isinf(self.epsilon):  # nothing is bounded, so sums follow the rows as they are
            rows = replace(rows, public=replace(rows.public, detail=longest_row(rows.X)))
        return rows

    def _linear_plan(
        self,
        public: Public,
        budget: Budget,
        *,
        setup: tuple[PrivacyEvent, ...] = (),
        start: tuple[np.ndarray, np.ndarray] | None = None,
        conditions: tuple[str, ...] = (),
    ) -> LinearChainPlan:
        """Calibrate the chain; ``setup`` is what is released besides moments and chain."""
        if budget.private:
            check_delta(budget.delta)
        check_scale("data_norm", self.data_norm)
        check_flag("fit_intercept", self.fit_intercept)
        covariance = self._public_covariance(public)
        moments_mu = self._moments_mu(public, budget)
        whitened = moments_mu > 0.0 or covariance is not None
        clip = self._default_clip(public, budget, whitened) if budget.private else math.inf
        settings = rules.read_settings(
            self.get_params(deep=False),
            public.n,
            rules.Defaults(
                n_steps=self._default_steps(public, budget) if budget.private else 500,
                batch_size=public.n
                if public.chunked
                else rules.default_batch(public.n, public.n_features if budget.private else 1),
                clip_norm=clip,
                tail=0.5 if budget.private else 0.9,
                n_kept=50,
                temperature=1.0,
            ),
        )
        rules.check_batches_of_persons(public, settings)
        loss = self._loss(public)
        size = loss.n_outputs * (public.n_features + bool(self.fit_intercept))
        if 0.0 < moments_mu < math.inf:
            setup = (privacy.GaussianDP(moments_mu), *setup)
        longest = float(self.data_norm)
        if public.detail is not None:
            longest = max(longest, public.detail)
        return LinearChainPlan(
            chain=settings.plan(budget, public.n, size, setup),
            settings=settings,
            prior=self._prior(public),
            loss=loss,
            curvature=rules.chain_curvature(loss),
            fit_intercept=bool(self.fit_intercept),
            longest=longest,
            moments_mu=moments_mu,
            covariance=covariance,
            start=start,
            conditions=conditions,
        )

    @available_if(offers("interval"))
    def interval(self, level: float = 0.9) -> dict[str, np.ndarray]:
        """Intervals for the true coefficients, the noise of the mechanism included.

        They follow from the mean of the noisy gradients of all steps, whatever the sampler, and are
        post-processing. The coefficients are those of the model on bounded rows: where
        ``data_norm`` cuts many rows, they differ from the coefficients of the rows as they are.

        Parameters
        ----------
        level : float, default=0.9
            Probability that an interval should cover, in (0, 1).

        Returns
        -------
        dict of ndarrays of shape (..., 2)
            Lower and upper ends for ``"coef"`` and ``"intercept"``. Of a column whose variance
            hardly exceeds the noise of the released moments they cover less often; see the user
            guide.
        """
        return super().interval(level)  # type: ignore[misc,no-any-return]

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None, *, posterior: str = "auto"
    ) -> dict[str, np.ndarray]:
        """Draw coefficients given what the fit released; it costs no privacy.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None for 1000, or for all kept states of the chain.
        random_state : int, RandomState, Generator or None, default=None
            Of the draws; None takes states of the chain at even distances.
        posterior : {"auto", "noise_aware", "chain"}, default="auto"
            "noise_aware" draws from what the noisy gradients say about the true coefficients, the
            distribution behind ``interval``. "chain" returns states of the chain: without privacy
            they are draws from the posterior, with it they spread by ``temperature_`` and not by
            what is unknown. "auto" is "noise_aware" for private fits that have intervals (public
            and released numbers decide) and "chain" for all others, with a warning that says why
            if the fit is private.

        Returns
        -------
        dict of ndarrays
            First axis the draw.
        """
        check_choice("posterior", posterior, POSTERIORS)
        check_is_fitted(self)
        reason = self._posterior.missing.get("interval")
        if posterior == "noise_aware" and reason is not None:
            raise ValueError(f"posterior='noise_aware' is not available: {reason}")
        private = math.isfinite(self.privacy_.epsilon)
        if posterior == "noise_aware" or (posterior == "auto" and private and reason is None):
            return self._posterior.noise_aware_draws(n_samples, random_state)
        if posterior == "auto" and private:
            warnings.warn(
                "these are states of the chain and no draws of what is unknown about the "
                f"coefficients: {reason} posterior='chain' asks for the states.",
                UserWarning,
                stacklevel=2,
            )
        return self._posterior.draws(n_samples, random_state)

    def _prior(self, public: Public) -> CoefficientPrior:
        check_choice("prior", self.prior, PRIORS)
        return PRIORS[self.prior](*self._prior_scales(public))

    def _prior_scales(self, public: Public) -> tuple[float, float]:
        """Scales of the priors of a coefficient and of the intercept."""
        scales = self.prior_scale
        if isinstance(scales, str):
            check_choice("prior_scale", scales, ("auto",))
            return self._default_prior(public)
        if isinstance(scales, numbers.Real):
            scale = check_scale("prior_scale", scales)
            return scale, scale
        try:
            coefficients, intercept = scales
        except (TypeError, ValueError):
            raise ValueError(
                "prior_scale must be 'auto', a positive number or a pair of them, for coefficients "
                f"and intercept; got {scales!r}."
            ) from None
        if not self.fit_intercept:
            raise ValueError(
                f"prior_scale={scales!r} has a scale for an intercept, but fit_intercept=False. "
                "Give one number."
            )
        return check_scale("prior_scale", coefficients), check_scale("prior_scale", intercept)

    def _public_covariance(self, public: Public) -> np.ndarray | None:
        if self.preconditioner is None or isinstance(self.preconditioner, str | numbers.Real):
            return None
        return check_public_covariance(self.preconditioner, public.n_features)

    def _moments_mu(self, public: Public, budget: Budget) -> float:
        """Gaussian DP of the moments; 0 if they are not released, infinite if they are exact."""
        n, d, share = public.n, public.n_features, self.preconditioner
        if isinstance(share, str):
            check_choice("preconditioner", share, ("auto",))
            share = SHARE
        elif isinstance(share, numbers.Real):
            share = check_real("preconditioner", share, low=0.0, high=1.0, closed="neither")
        else:
            return 0.0
        asked = not isinstance(self.preconditioner, str)
        if d > MOST_COLUMNS:
            if asked:
                raise ValueError(
                    f"preconditioner={share!r}: the moments of {d} columns are too large a matrix; "
                    f"at most {MOST_COLUMNS} columns have them. Use preconditioner=None."
                )
            return 0.0
        if not budget.private:
            return math.inf
        mu = privacy.gdp_mu(budget.epsilon, budget.delta) * math.sqrt(share)
        edge = moment_sensitivity(budget.adjacency) / mu * math.sqrt(2.0 * d) / n
        return mu if asked or edge <= self._largest_edge() else 0.0


@dataclass(frozen=True, eq=False)
class LinearChainPlan:
    """A chain on a linear model; step and coordinates follow from what it releases first."""

    chain: ChainPlan
    settings: rules.Settings
    prior: CoefficientPrior
    loss: models.Loss
    curvature: tuple[float, float]
    """Typical and largest curvature of a record's loss per unit of squared length."""
    fit_intercept: bool
    longest: float
    """No row is longer."""
    moments_mu: float
    """Gaussian DP of the moments: 0 if there are none, infinite if they are exact."""
    covariance: np.ndarray | None
    start: tuple[np.ndarray, np.ndarray] | None
    conditions: tuple[str, ...]
    signal: float = 1.0
    """About how large coefficients are in the coordinates of the chain."""

    @property
    def grid(self) -> models.Grid | None:
        """Public units of sums over records; None without privacy."""
        return models.Grid(self.chain.n_samples, self.longest) if self.chain.private else None

    @property
    def event(self) -> PrivacyEvent:
        """Moments and chain."""
        return self.chain.event

    @property
    def words(self) -> str:
        """The mechanism in words."""
        return f"stochastic-gradient MCMC ({self.settings.sampler})"

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return self.chain.numbers()

    def coordinates(self, rows: Records, generator: np.random.Generator) -> Coordinates:
        """Release the moments of the rows, or do without."""
        d = rows.public.n_features
        least = rules.least_variance(
            self.chain.n_samples, 1.0 / self.prior.precision, self.curvature[1]
        )
        if self.moments_mu > 0.0:
            return released_coordinates(
                rows,
                self.longest,
                self.moments_mu,
                self.chain.adjacency,
                self.fit_intercept,
                randomness.spawn(generator, 1)[0],
                least_variance=least,
            )
        if self.covariance is None:
            return plain_coordinates(d, self.longest, self.chain.private)
        return public_coordinates(self.covariance, d, least_variance=least)

    def exact_coordinates(
        self, block: Block, coef: np.ndarray, intercept: np.ndarray
    ) -> Coordinates:
        """Coordinates in which the posterior around its mode is round."""
        logits = np.asarray(block.X @ coef.T) + intercept
        of_prior = (self.prior.precision, self.prior.of_intercept)
        n = self.chain.n_samples
        return exact_coordinates(block, logits, self.loss, of_prior, self.fit_intercept, n)

    def potential(
        self,
        blocks: tuple[Block, ...] | ChunkedRecords,
        coordinates: Coordinates,
        members: Members | None = None,
    ) -> tuple[float, LinearPotential]:
        """Return a step of SGLD and the posterior, with a constant feature stable at that step.

        ``members`` are the rows of persons, where batches are made of persons.
        """
        step, coordinates = self._step(coordinates)
        how = (self.loss, self.prior, self.chain.clip_norm, self.grid)
        return step, LinearPotential(blocks, coordinates, *how, members)

    def _step(self, coordinates: Coordinates) -> tuple[float, Coordinates]:
        chain, n = self.chain, self.chain.n_samples
        if coordinates.curvature is not None:
            stiffness = coordinates.curvature * n / coordinates.dimension
            return rules.SAMPLING_STEP / stiffness, coordinates
        mean, largest = self.curvature
        d = coordinates.center.shape[0]
        of_prior = coordinates.largest_prior_curvature(
            self.prior.precision, self.prior.of_intercept
        )
        step = rules.langevin_step(
            n,
            chain.n_steps,
            coordinates.dimension,
            chain.gradient_noise / self.signal,
            mean,
            largest,
            of_prior,
            chain.clip_norm if d >= rules.WIDE_COLUMNS else math.inf,
        )
        if self.fit_intercept:
            stable = 1.0 if chain.private else rules.SAMPLING_STEP
            curvature = max(n * largest, self.prior.of_intercept)
            coordinates = coordinates.with_constant(rules.constant_feature(step, curvature, stable))
        return step, coordinates

    def no_interval(self, coordinates: Coordinates) -> str | None:
        """Return why there are no intervals, by public and released numbers, or None."""
        if coordinates.curvature is not None:
            if self.loss.n_outputs == 1:
                return None
            return (
                "without privacy it is known for two classes only; there the draws of "
                "sample_posterior are the posterior's own, take their quantiles"
            )
        d, contrasts = coordinates.center.shape[0], max(1, self.loss.n_outputs - 1)
        if d * contrasts > MOST_COLUMNS_OF_INTERVALS:
            of_classes = f" for {contrasts + 1} classes" if contrasts > 1 else ""
            return (
                f"{d} columns are too many{of_classes}; at most "
                f"{MOST_COLUMNS_OF_INTERVALS // contrasts} have intervals"
            )
        if coordinates.moments is None:
            return (
                "this fit released no moments of the rows (preconditioner=None, a given matrix, or "
                "too few records for them), without which the curvature is unknown"
            )
        chain, mean = self.chain, self.curvature[0]
        noise = chain.gradient_noise / math.sqrt(chain.n_steps)
        curvature = mean * chain.n_samples / coordinates.dimension
        if noise > LARGEST_NOISE * curvature:
            return (
                f"the noise ({noise:.3g}) is more than a third of the curvature "
                f"({curvature:.3g}) that so many records have; more of them or a larger epsilon "
                "would help"
            )
        return None

    def inference(
        self, coordinates: Coordinates, result: ChainResult, answers: Answers
    ) -> ScoreEquation | NormalMixture | str:
        """Return what intervals are made of, or the reason why there are none."""
        reason = self.no_interval(coordinates)
        if reason is not None:
            return reason
        if result.score is None:  # no privacy: the posterior is round in these coordinates
            assert coordinates.curvature is not None
            stiffness = coordinates.curvature * self.chain.n_samples / coordinates.dimension
            lift = np.column_stack(coordinates.coefficients(np.eye(result.mean.shape[1])))
            return NormalMixture(result.mean @ lift, lift.T[None] / math.sqrt(stiffness))
        return ScoreEquation(
            result.score,
            coordinates,
            answers,
            self.prior,
            self.chain.n_samples,
            self.chain.sampling_rate,
            self.chain.clip_norm,
        )

    def dynamics(self, step: float, potential: LinearPotential) -> Dynamics:
        """Turn the step of SGLD into the sampler's; Fisher scoring also needs the information.

        In the chain's coordinates, where rows are round, the information is diagonal.
        """
        noise = self.chain.gradient_noise
        if self.settings.sampler != "sgfs":
            return self.settings.dynamics(step, noise)
        coordinates = potential.coordinates
        mean = coordinates.curvature or self.curvature[0]
        # noise of 4 / h on the gradient
        step = 4.0 / (rules.FISHER_NOISE * mean * self.chain.n_samples / coordinates.dimension)
        information = np.full(potential.shape[1], mean / coordinates.dimension)
        if coordinates.constant:
            information[-1] = mean * coordinates.constant**2
        return replace(
            self.settings.dynamics(step, noise),
            information=np.diag(information),
            prior_precision=potential.prior_precision(),
        )


@dataclass(frozen=True, eq=False)
class ClippedLink:
    r"""Probabilities of two classes for which a chain with clipped gradients is at rest.

    Records of the label *y* push by :math:`\min(1, k / |p - y|)\,(p - y)`, :math:`k = L / |z|`: a
    chain that rests at *p* balances the labels of a row *z* if the odds of the label 1 are

    .. math:: \frac{p \max(1, (1 - p) / k)}{(1 - p) \max(1, p / k)}

    and not :math:`p / (1 - p)`. For short *k* all of a range of *p* means 1/2; a thousandth of *p*
    itself keeps the order of the rows and their labels.
    """

    coordinates: Coordinates
    clip_norm: float

    def __call__(self, rows: Any, probability: np.ndarray) -> np.ndarray:
        """Turn probabilities (n, 2) of the chain into those of the labels."""
        push = self.coordinates.lengths(rows, None)[:, None] / self.clip_norm
        odds = probability * np.maximum(1.0, (1.0 - probability) * push)
        odds /= odds.sum(axis=1, keepdims=True)
        return np.asarray((1.0 - KEPT_SHARE) * odds + KEPT_SHARE * probability)


@dataclass(frozen=True, eq=False)
class LinearRun:
    """A chain that has run: all of it released."""

    plan: LinearChainPlan
    coordinates: Coordinates
    result: ChainResult
    step_size: float

    @property
    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts, averaged over the tail."""
        return self.coordinates.coefficients(self.result.mean)

    def link(self) -> ClippedLink | None:
        """What undoes the clipping in probabilities, where the chain came to rest.

        Langevin dynamics takes one over its step and the curvature to get there; both are known
        from the plan and the released moments.
        """
        chain, coordinates = self.plan.chain, self.coordinates
        if coordinates.moments is None or self.plan.settings.sampler != "sgld":
            return None
        if self.plan.loss.n_outputs > 1:
            return None
        stiffness = self.plan.curvature[0] * chain.n_samples / coordinates.dimension
        at_rest = self.step_size * stiffness * chain.n_steps >= LEAST_RELAXATIONS
        return ClippedLink(coordinates, chain.clip_norm) if at_rest else None

    def posterior(self, bound: Bound, answers: Answers) -> ChainPosterior:
        """Return what a fit leaves behind; ``answers`` is how records answer at given states."""
        coordinates, result = self.coordinates, self.result
        return ChainPosterior(
            *self.mean,
            LinearPosterior(*coordinates.coefficients(result.draws), bound),
            result.temperature,
            self.step_size,
            self.plan.inference(coordinates, result, answers),
        )


def run_linear(
    plan: LinearChainPlan,
    rows: Records | ChunkedRecords,
    coordinates: Coordinates,
    generator: np.random.Generator,
    mode: np.ndarray | None = None,
) -> LinearRun:
    """Run the chain in the given coordinates; without privacy from the mode, which is found here.

    A ``mode`` that is known already saves the time.
    """
    with one_blas_thread():
        blocks = rows if isinstance(rows, ChunkedRecords) else chain_blocks(rows, plan.grid)
        members = rows.members()
        step, potential = plan.potential(blocks, coordinates, members)
        coordinates, first = potential.coordinates, np.zeros(potential.shape)
        if not plan.chain.private:  # nothing keeps the chain from starting at the mode
            first = potential.mode(first if mode is None else mode)
            if plan.moments_mu > 0.0:
                assert isinstance(rows, Records)
                found = coordinates.coefficients(first)
                step, potential = plan.potential(
                    blocks, plan.exact_coordinates(rows.block(), *found), members
                )
                coordinates = potential.coordinates
                first = coordinates.from_coefficients(*found)
        if plan.start is not None:
            first = coordinates.from_coefficients(*plan.start)
        dynamics = plan.dynamics(step, potential)
        result = run_chain(
            potential,
            plan.chain,
            dynamics,
            first,
            generator,
            tail=plan.settings.tail,
            n_kept=plan.settings.n_kept,
            keep_score=plan.chain.private and plan.no_interval(coordinates) is None,
        )
    return LinearRun(plan, coordinates, result, float(dynamics.steps[0]))


@dataclass(frozen=True, eq=False)
class ChainPosterior:
    """The average of a chain's tail, and some of its states to predict with."""

    coef: np.ndarray
    intercept: np.ndarray
    states: LinearPosterior
    temperature: float | None
    step_size: float
    inference: ScoreEquation | NormalMixture | str
    """What intervals are made of, or the reason why there are none."""
    link: ClippedLink | None = None
    """What undoes the clipping in probabilities."""

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return self.states.numbers_per_row

    @property
    def missing(self) -> dict[str, str]:
        """Intervals, where the release does not tell enough."""
        if isinstance(self.inference, str):
            return {"interval": f"{self.inference}."}
        return {}

    def attributes(self) -> dict[str, Any]:
        """Return the average of the tail and the numbers that follow from the released moments."""
        shown = {
            "coef_": self.coef,
            "intercept_": self.intercept,
            "step_size_": self.step_size,
        }
        return shown if self.temperature is None else {**shown, "temperature_": self.temperature}

    @cached_property
    def normal(self) -> NormalMixture:
        """What the release says of the true coefficients, solved for when it is first asked for."""
        assert not isinstance(self.inference, str)
        if isinstance(self.inference, NormalMixture):
            return self.inference
        with one_blas_thread():
            return self.inference.posterior()

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return the ends of central intervals."""
        ends = [self._split(self.normal.quantiles(0.5 + 0.5 * s * level)) for s in (-1.0, 1.0)]
        return {name: np.stack([end[name] for end in ends], axis=-1) for name in ends[0]}

    def noise_aware_draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw from the distribution behind the intervals."""
        size = 1000 if n_samples is None else check_integer("n_samples", n_samples, low=1)
        # derived: the seed of the fit would repeat the secret noise
        generator = randomness.derived_generator(random_state, 1)
        return self._split(self.normal.draws(size, generator))

    def _split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        n_outputs, d = self.coef.shape
        return split_coefficients(flat.reshape(*flat.shape[:-1], n_outputs, d + 1), d, 1.0)

    def decision(self, X: Any) -> np.ndarray:
        """Logits or logarithms of the probabilities averaged over the states."""
        return self.states.decision(X)

    def probabilities(self, X: Any) -> np.ndarray:
        """Probabilities averaged over the states, clipping undone."""
        probability = self.states.probabilities(X)
        return probability if self.link is None else self.link(self.states.bound(X), probability)

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return states of the chain, evenly spaced or chosen at random."""
        chosen = choose_draws(self.states.coef.shape[0], n_samples, random_state)
        return {"coef": self.states.coef[chosen], "intercept": self.states.intercept[chosen]}
