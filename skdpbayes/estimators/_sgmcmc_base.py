"""Parameters, plan, coordinates and release of the private chains; see the public class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdpbayes import privacy, randomness
from skdpbayes._validation import (
    check_choice,
    check_integer,
    check_is_fitted,
    check_real,
)
from skdpbayes.estimators import _chain_rules as rules
from skdpbayes.estimators._chain_models import LinearPotential
from skdpbayes.estimators._chain_plan import ACCOUNTANTS, ChainPlan, plan_chain
from skdpbayes.estimators._chain_run import SAMPLERS, Dynamics, run_chain, step_sizes
from skdpbayes.estimators._coordinates import (
    Coordinates,
    moment_sensitivity,
    plain_coordinates,
    public_coordinates,
    released_coordinates,
)
from skdpbayes.estimators._linear import ProbabilisticLinearClassifier
from skdpbayes.estimators.one_posterior_sample import OPSLogisticRegression

__all__ = ["PrivateChainClassifier"]

# Moments of more columns than this are too large a matrix; their noise would be, too.
MOST_COLUMNS = 2000
# Moments are worth their price if noise alone has eigenvalues below this, of a trace of 1.
LARGEST_EDGE = 0.15
# Velocity kept from step to step, in the form v = h p: friction * step = 0.1.
MOMENTUM_LOSS = 0.1


class PrivateChainClassifier(ProbabilisticLinearClassifier):
    """The fit of a private chain on a linear classifier."""

    C: float
    sampler: str
    clip_norm: float | str
    batch_size: int | str
    n_steps: int | str
    step_size: float | str
    schedule: Any
    friction: float | str
    subsampling: Any
    accountant: str
    preconditioner: Any
    preconditioner_share: float
    init: str
    release: str
    burn_in: float
    n_draws: int
    warm_start: bool

    def fit(self, X: Any, y: Any) -> Any:
        """Run the chain and release it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; rows longer than ``data_norm`` are scaled down to it.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self
            The fitted estimator.
        """
        # 1 validate
        X, codes = self._validate_training(X, y)
        self._check_own_parameters(X.shape)
        generator = self._generator()
        # 2 bound one record's influence
        X = self._bound_rows(X)
        if self.release == "last":
            return self._fit_last(X, codes, generator)
        # 3 calibrate from public numbers
        starter = self._starter(X.shape)
        moments_mu = self._moments_mu(X.shape)
        plan = self._plan(X.shape, starter, moments_mu)
        guarantee = self._guarantee(plan.event, f"stochastic-gradient MCMC ({self.sampler})")
        # 4 reserve the budget
        self._reserve(guarantee)
        # 5 touch the data, under noise
        coordinates = self._coordinates(X, moments_mu, generator)
        dynamics, coordinates = self._dynamics(plan, coordinates, X.shape)
        potential = LinearPotential(
            X,
            codes,
            coordinates,
            self._n_outputs,
            float(self.C),
            float(self.intercept_scaling),
            float(self.data_norm),
        )
        start = np.zeros(potential.shape)
        if starter is not None:
            starter.random_state = randomness.spawn(generator, 1)[0]
            starter.fit(X, self.classes_[codes])
            start = coordinates.from_coefficients(starter.coef_, starter.intercept_)
        if self.sampler == "sgfs":
            dynamics = self._with_information(dynamics, potential)
        result = run_chain(
            potential,
            plan,
            dynamics,
            start,
            generator,
            burn_in=float(self.burn_in),
            n_draws=int(self.n_draws),
            progress=self._progress,
        )
        self.coef_, self.intercept_ = coordinates.coefficients(result.mean)
        self._coef_draws, self._intercept_draws = coordinates.coefficients(result.draws)
        self.temperature_ = result.temperature
        self.noise_multiplier_ = plan.noise_multiplier
        self.step_size_ = float(dynamics.steps[0])
        self.n_steps_, self.batch_size_ = plan.n_steps, int(plan.batch_size)
        self.privacy_ = guarantee
        return self

    @property
    def _n_outputs(self) -> int:
        n_classes = int(self.classes_.shape[0])
        return 1 if n_classes == 2 else n_classes

    def _check_own_parameters(self, shape: tuple[int, int]) -> None:
        check_real("C", self.C, low=0.0, closed="neither")
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("subsampling", self.subsampling, ("poisson", "fixed"))
        check_choice("accountant", self.accountant, ACCOUNTANTS)
        check_choice("init", self.init, ("public", "ops"))
        check_choice("release", self.release, ("chain", "last"))
        check_real("burn_in", self.burn_in, low=0.0, high=1.0, closed="low")
        check_real(
            "preconditioner_share", self.preconditioner_share, low=0.0, high=1.0, closed="neither"
        )
        check_integer("n_draws", self.n_draws, low=1)
        for name in ("clip_norm", "step_size", "friction"):
            if getattr(self, name) != "auto":
                check_real(name, getattr(self, name), low=0.0, closed="neither")
        if self.batch_size != "auto":
            check_integer("batch_size", self.batch_size, low=1, high=shape[0])
        if self.n_steps != "auto":
            check_integer("n_steps", self.n_steps, low=1)
        if isinstance(self.schedule, str):
            check_choice("schedule", self.schedule, ("constant", "cube_root"))
        else:
            shift, decay = self.schedule
            check_real("schedule's b", shift, low=0.0)
            check_real("schedule's g", decay, low=0.0)
        if isinstance(self.preconditioner, str):
            check_choice("preconditioner", self.preconditioner, ("auto",))
        if self.warm_start:
            raise ValueError(
                "warm_start=True is refused: a continued chain is a new release on top of the one "
                "that was paid for. Use more n_steps in one fit."
            )

    # 3 calibrate

    def _batch_size(self, n_samples: int) -> int:
        if self.batch_size == "auto":
            return rules.default_batch_size(n_samples)
        return int(self.batch_size)

    def _plan(
        self, shape: tuple[int, int], starter: OPSLogisticRegression | None, moments_mu: float
    ) -> ChainPlan:
        setup: list[privacy.PrivacyEvent] = []
        if starter is not None and not self._non_private:
            setup.append(starter._plan(starter._problem(shape), "langevin")[0].event)
        if 0.0 < moments_mu < math.inf:
            setup.append(privacy.GaussianDP(moments_mu))
        n_steps = (
            rules.default_steps(self._non_private) if self.n_steps == "auto" else int(self.n_steps)
        )
        langevin = None
        if self.step_size != "auto":
            langevin = self._given_dynamics(n_steps).langevin()
        return plan_chain(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            n_samples=shape[0],
            batch_size=self._batch_size(shape[0]),
            n_steps=n_steps,
            subsampling=self.subsampling,
            adjacency=self.adjacency,
            clip_norm=1.0 if self.clip_norm == "auto" else float(self.clip_norm),
            accountant=self.accountant,
            setup=tuple(setup),
            langevin=langevin,
        )

    def _starter(self, shape: tuple[int, int]) -> OPSLogisticRegression | None:
        """Return the estimator of the first state under half of the budget, not yet fitted."""
        if self.init == "public":
            return None
        starter = OPSLogisticRegression(
            epsilon=self.epsilon / 2.0,
            delta=self.delta / 2.0,
            adjacency=self.adjacency,
            data_norm=self.data_norm,
            classes=self.classes_,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            sampler="langevin",
        )
        starter.classes_ = self.classes_
        return starter

    def _moments_mu(self, shape: tuple[int, int]) -> float:
        """Gaussian DP of the moments; 0 if they are not released."""
        n_samples, d = shape
        if not isinstance(self.preconditioner, str) or d > MOST_COLUMNS:
            return 0.0
        if self._non_private:
            return math.inf
        if self.delta == 0.0 or self.accountant == "wang2015":
            return 0.0
        epsilon = self.epsilon / 2.0 if self.init == "ops" else self.epsilon
        mu = privacy.gdp_mu(float(epsilon), float(self.delta))
        mu *= math.sqrt(float(self.preconditioner_share))
        edge = moment_sensitivity(self.adjacency) / mu * math.sqrt(2.0 * d) / n_samples
        return mu if edge <= LARGEST_EDGE else 0.0

    # 5 touch the data

    def _coordinates(
        self, X: Any, moments_mu: float, generator: np.random.Generator
    ) -> Coordinates:
        data_norm = float(self.data_norm)
        if moments_mu > 0.0:
            noise = randomness.spawn(generator, 1)[0]
            return released_coordinates(
                X, data_norm, moments_mu, self.adjacency, bool(self.fit_intercept), noise
            )
        if self.preconditioner is None or isinstance(self.preconditioner, str):
            return plain_coordinates(X.shape[1], data_norm)
        return public_coordinates(self.preconditioner, X.shape[1])

    def _given_dynamics(self, n_steps: int) -> Dynamics:
        steps = step_sizes(float(self.step_size), self.schedule, n_steps)
        return Dynamics(self.sampler, steps, self._friction(float(self.step_size)))

    def _friction(self, step: float) -> float:
        return MOMENTUM_LOSS / step if self.friction == "auto" else float(self.friction)

    def _dynamics(
        self, plan: ChainPlan, coordinates: Coordinates, shape: tuple[int, int]
    ) -> tuple[Dynamics, Coordinates]:
        """Choose the step and the constant feature that it is stable with."""
        mean, largest = rules.curvature(self._n_outputs, int(self.classes_.shape[0]))
        noise = 0.0
        if plan.private:
            noise = plan.noise_multiplier * plan.clip_norm / plan.sampling_rate
        step = rules.langevin_step(
            shape[0], plan.n_steps, coordinates.dimension, noise, mean, largest
        )
        if self.fit_intercept:
            stable = 1.0 if plan.private else rules.SAMPLING_STEP
            coordinates = coordinates.with_constant(
                rules.constant_feature(step, shape[0], largest, stable)
            )
        if self.step_size != "auto":
            return self._given_dynamics(plan.n_steps), coordinates
        if self.sampler == "sgfs":  # noise of 4 / h on the gradient: an eighth of the way a step
            step = 4.0 / (rules.FISHER_NOISE * mean * shape[0] / coordinates.dimension)
        elif self.sampler in ("sghmc", "sgnht"):
            step = math.sqrt(MOMENTUM_LOSS * step)
            if self.sampler == "sgnht" and noise > 0.0:
                step = min(step, 1.0 / noise)  # the friction that balances the noise is stable
        steps = step_sizes(step, self.schedule, plan.n_steps)
        return Dynamics(self.sampler, steps, self._friction(step)), coordinates

    def _with_information(self, dynamics: Dynamics, potential: LinearPotential) -> Dynamics:
        """Add the Fisher information in the chain's coordinates, where rows are round."""
        coordinates = potential.coordinates
        mean, _ = rules.curvature(self._n_outputs, int(self.classes_.shape[0]))
        size = potential.shape[1]
        information = np.full(size, mean / coordinates.dimension)
        if coordinates.constant:
            information[-1] = mean * coordinates.constant**2
        precision = potential.prior_gradient(np.eye(size))
        return Dynamics(
            dynamics.sampler, dynamics.steps, dynamics.friction, np.diag(information), precision
        )

    def _fit_last(self, X: Any, codes: np.ndarray, generator: np.random.Generator) -> Any:
        """Release the last state alone: the certified chain of one posterior sample."""
        if self.sampler != "sgld" or self._batch_size(X.shape[0]) != X.shape[0]:
            raise ValueError(
                "release='last' needs sampler='sgld' and full batches; got "
                f"sampler={self.sampler!r}, batch_size={self.batch_size!r}."
            )
        chain = OPSLogisticRegression(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            data_norm=self.data_norm,
            C=self.C,
            classes=self.classes_,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            sampler="langevin",
            n_steps=self.n_steps,
            step_size=self.step_size,
            n_batches=1,
            random_state=generator,
            progress=self.progress,
        )
        chain.classes_ = self.classes_
        event = chain._plan(chain._problem(X.shape), "langevin")[0].event
        guarantee = self._guarantee(event, "last state of a Langevin chain")
        self._reserve(guarantee)
        chain.fit(X, self.classes_[codes])
        self.coef_, self.intercept_ = chain.coef_, chain.intercept_
        self._coef_draws, self._intercept_draws = chain._coef_draws, chain._intercept_draws
        self.temperature_ = 1.0 / chain.inverse_temperature_
        self.noise_multiplier_ = math.nan
        self.step_size_ = math.nan if chain.step_size_ is None else chain.step_size_
        self.n_steps_ = 0 if chain.n_steps_ is None else chain.n_steps_
        self.batch_size_ = X.shape[0]
        self.privacy_ = guarantee
        return self

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Return draws of the released chain; they were paid for by ``fit``.

        Parameters
        ----------
        n_samples : int or None
            How many of them; None for all that were kept.
        random_state : int, Generator or None
            Chooses which draws are returned when fewer than all are asked for; with None they are
            evenly spaced. It costs no privacy.

        Returns
        -------
        dict
            ``{"coef": (n_samples, K, n_features), "intercept": (n_samples, K)}``, states of the
            chain at temperature ``temperature_``.
        """
        check_is_fitted(self)
        chosen = self._choose_draws(self._coef_draws.shape[0], n_samples, random_state)
        return {"coef": self._coef_draws[chosen], "intercept": self._intercept_draws[chosen]}

    def _choose_draws(self, available: int, n_samples: int | None, random_state: Any) -> np.ndarray:
        wanted = available if n_samples is None else check_integer("n_samples", n_samples, low=1)
        if wanted > available:
            raise ValueError(
                f"n_samples={wanted} exceeds the {available} draws that fit kept; refit with "
                f"n_draws={wanted} (the whole chain is paid for, but a refit is a new release)."
            )
        if random_state is None:
            return np.linspace(0, available - 1, wanted).round().astype(int)
        order = randomness.make_generator(random_state).permutation(available)
        return np.sort(order[:wanted])
