"""Parameters of the private chains: their checks, public rules and plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from skdpbayes import models, privacy
from skdpbayes._validation import check_choice, check_integer, check_real, check_scale
from skdpbayes.estimators import _chain_network as network
from skdpbayes.estimators import _chain_rules as rules
from skdpbayes.estimators._chain_models import CoefficientPrior
from skdpbayes.estimators._chain_plan import ACCOUNTANTS, ChainPlan, check_delta, plan_chain
from skdpbayes.estimators._chain_run import SAMPLERS, Dynamics, step_sizes
from skdpbayes.estimators._coordinates import (
    check_public_covariance,
    moment_sensitivity,
    plain_dimension,
)
from skdpbayes.estimators._linear import ProbabilisticLinearClassifier
from skdpbayes.estimators.ops.logistic import OPSLogisticRegression

__all__ = ["NETWORK_CLIP", "ChainSettings"]

# Moments of more columns than this are too large a matrix; their noise would be, too.
MOST_COLUMNS = 2000
# Moments are worth their price if noise alone has eigenvalues below this, of a trace of 1.
LARGEST_EDGE = 0.15
# Schedules (b + t)^-g beyond these end outside the floats.
LATEST, STEEPEST = 1e50, 4.0
# Velocity kept from step to step, in the form v = h p: friction * step = 0.1.
MOMENTUM_LOSS = 0.1
# A record's gradient has many more coordinates in a network, and most of it is small.
NETWORK_CLIP = 0.3
# Scales of the Cauchy priors of Gelman et al. (2008), here for rows of length 1
COEFFICIENT_SCALE, INTERCEPT_SCALE = 2.5, 10.0
# Posteriors of networks predict better when they are cold.
NETWORK_TEMPERATURE = 0.01


class ChainSettings(ProbabilisticLinearClassifier):
    """What a chain runs with, from parameters and public numbers."""

    C: float | str
    hidden_layer_sizes: Sequence[int]
    activation: str
    prior_scale: float
    sampler: str
    clip_norm: float | str
    batch_size: int | str
    n_steps: int | str
    step_size: float | str
    schedule: Any
    friction: float | str
    temperature: float | str
    subsampling: Any
    accountant: str
    preconditioner: Any
    preconditioner_share: float
    init: str
    release: str
    burn_in: float | str
    n_draws: int | str
    warm_start: bool

    @property
    def _n_outputs(self) -> int:
        n_classes = int(self.classes_.shape[0])
        return 1 if n_classes == 2 else n_classes

    @property
    def _is_network(self) -> bool:
        return len(self.hidden_layer_sizes) > 0

    @property
    def _has_public_matrix(self) -> bool:
        return self.preconditioner is not None and not isinstance(self.preconditioner, str)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return network.network_sizes(self.n_features_in_, self.hidden_layer_sizes, self._n_outputs)

    @property
    def _n_coordinates(self) -> int:
        """Number of coordinates in which a chain moves."""
        if self._is_network:
            return models.network_size(self._sizes)
        return self._n_outputs * (self.n_features_in_ + bool(self.fit_intercept))

    @property
    def _prior(self) -> CoefficientPrior:
        scaling = float(self.intercept_scaling)
        if isinstance(self.C, str):
            scale = COEFFICIENT_SCALE / float(self.data_norm)
            return CoefficientPrior.cauchy(scale, INTERCEPT_SCALE * scaling)
        return CoefficientPrior.normal(float(self.C), scaling)

    @property
    def _n_draws(self) -> int:
        if self.n_draws == "auto":
            return 10 if self._is_network else 50
        return int(self.n_draws)

    @property
    def _burn_in(self) -> float:
        if self.burn_in == "auto":
            return 0.75 if self._is_network else 0.5
        return float(self.burn_in)

    def _check_own_parameters(self, shape: tuple[int, int]) -> None:
        if isinstance(self.C, str):
            check_choice("C", self.C, ("auto",))
        else:
            check_scale("C", self.C, "Or use C='auto'.")
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("subsampling", self.subsampling, ("poisson", "fixed"))
        check_choice("accountant", self.accountant, ACCOUNTANTS)
        check_choice("init", self.init, ("public", "ops"))
        check_choice("release", self.release, ("chain", "last"))
        if self.burn_in != "auto":
            check_real("burn_in", self.burn_in, low=0.0, high=1.0, closed="low")
        check_real(
            "preconditioner_share", self.preconditioner_share, low=0.0, high=1.0, closed="neither"
        )
        if self.n_draws != "auto":
            check_integer("n_draws", self.n_draws, low=1)
        for name in ("clip_norm", "step_size", "friction", "temperature"):
            if getattr(self, name) != "auto":
                check_scale(name, getattr(self, name))
        if self.batch_size != "auto":
            check_integer("batch_size", self.batch_size, low=1, high=shape[0])
        if self.n_steps != "auto":
            check_integer("n_steps", self.n_steps, low=1)
        if isinstance(self.schedule, str):
            check_choice("schedule", self.schedule, ("constant", "cube_root"))
        else:
            shift, decay = self.schedule
            check_real("schedule's b", shift, low=0.0, high=LATEST)
            check_real("schedule's g", decay, low=0.0, high=STEEPEST)
        if isinstance(self.preconditioner, str):
            check_choice("preconditioner", self.preconditioner, ("auto",))
        if self._has_public_matrix:
            check_public_covariance(self.preconditioner, shape[1])
        if not self._non_private:
            check_delta(float(self.delta))
        self._check_network()
        if self.warm_start:
            raise ValueError(
                "warm_start=True is refused: a continued chain is a new release on top of the one "
                "that was paid for. Use more n_steps in one fit."
            )

    def _check_network(self) -> None:
        for size in self.hidden_layer_sizes:
            check_integer("hidden_layer_sizes", size, low=1)
        check_choice("activation", self.activation, ("tanh", "relu"))
        check_scale("prior_scale", self.prior_scale)
        if self._is_network and (self.init, self.release) != ("public", "chain"):
            raise ValueError(
                "hidden_layer_sizes needs init='public' and release='chain'; got "
                f"init={self.init!r}, release={self.release!r}."
            )
        if self.sampler in ("sgnht", "sgfs") and self.temperature not in ("auto", 1.0):
            raise ValueError(
                f"sampler={self.sampler!r} samples at temperature 1; got "
                f"temperature={self.temperature!r}. Use 'sgld' or 'sghmc'."
            )
        if self._is_network and self.sampler == "sgfs":
            raise ValueError("sampler='sgfs' needs a Fisher information: hidden_layer_sizes=().")

    def _batch_size(self, n_samples: int) -> int:
        if self.batch_size == "auto":
            return rules.default_batch_size(n_samples, self._is_network)
        return int(self.batch_size)

    def _clip_norm(self, shape: tuple[int, int], moments_mu: float) -> float:
        if self.clip_norm != "auto":
            return float(self.clip_norm)
        if self._is_network:
            return NETWORK_CLIP
        if self._non_private:
            return math.inf
        n_samples, d = shape
        mu = privacy.gdp_mu(float(self.epsilon), float(self.delta)) if self.delta > 0.0 else 0.0
        distance = 2.0 if self.adjacency == "replace_one" else 1.0
        curvature, _ = rules.curvature(self._n_outputs, int(self.classes_.shape[0]))
        plain = moments_mu == 0.0 and not self._has_public_matrix
        dimension = plain_dimension(d) if plain else max(1.0, d / 2.0)
        return rules.default_clip(curvature * n_samples / dimension, distance, mu)

    def _plan(
        self, shape: tuple[int, int], starter: OPSLogisticRegression | None, moments_mu: float
    ) -> ChainPlan:
        setup: list[privacy.PrivacyEvent] = []
        if starter is not None and not self._non_private:
            setup.append(starter.plan(*shape).plan.event)
        if 0.0 < moments_mu < math.inf:
            setup.append(privacy.GaussianDP(moments_mu))
        n_steps = (
            rules.default_steps(self._non_private, self._is_network)
            if self.n_steps == "auto"
            else int(self.n_steps)
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
            clip_norm=self._clip_norm(shape, moments_mu),
            accountant=self.accountant,
            setup=tuple(setup),
            langevin=langevin,
        )

    def _starter(self) -> OPSLogisticRegression | None:
        """Return the estimator of the first state under half of the budget, not yet fitted."""
        if self.init == "public":
            return None
        return OPSLogisticRegression(
            epsilon=self.epsilon / 2.0,
            delta=self.delta / 2.0,
            adjacency=self.adjacency,
            data_norm=self.data_norm,
            classes=self.classes_,
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            sampler="langevin",
        )

    def _moments_mu(self, shape: tuple[int, int]) -> float:
        """Gaussian DP of the moments; 0 if they are not released."""
        n_samples, d = shape
        if not isinstance(self.preconditioner, str) or d > MOST_COLUMNS or self._is_network:
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

    def _given_dynamics(self, n_steps: int) -> Dynamics:
        steps = step_sizes(float(self.step_size), self.schedule, n_steps)
        return Dynamics(
            self.sampler,
            steps,
            self._friction(float(self.step_size)),
            temperature=self._temperature,
        )

    @property
    def _temperature(self) -> float:
        if self.temperature == "auto":
            cold = self._is_network and self.sampler in ("sgld", "sghmc")
            return NETWORK_TEMPERATURE if cold else 1.0
        return float(self.temperature)

    def _friction(self, step: float) -> float:
        return MOMENTUM_LOSS / step if self.friction == "auto" else float(self.friction)

    def _momentum_dynamics(self, step: float, n_steps: int, noise: float) -> Dynamics:
        """Turn the step of SGLD into that of the sampler, unless ``step_size`` is given."""
        if self.step_size != "auto":
            return self._given_dynamics(n_steps)
        if self.sampler in ("sghmc", "sgnht"):
            step = math.sqrt(MOMENTUM_LOSS * step)
            if self.sampler == "sgnht" and noise > 0.0:
                step = min(step, 1.0 / noise)  # the friction that balances the noise is stable
        return Dynamics(
            self.sampler,
            step_sizes(step, self.schedule, n_steps),
            self._friction(step),
            temperature=self._temperature,
        )
