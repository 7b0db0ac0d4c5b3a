"""Parameters, plan, coordinates and release of the private chains; see the public class."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from skdpbayes import models, randomness
from skdpbayes._validation import check_integer, check_is_fitted
from skdpbayes.estimators import _chain_network as network
from skdpbayes.estimators import _chain_rules as rules
from skdpbayes.estimators._chain_models import LinearPotential, Potential
from skdpbayes.estimators._chain_plan import ChainPlan
from skdpbayes.estimators._chain_run import ChainResult, Dynamics, run_chain
from skdpbayes.estimators._coordinates import (
    Coordinates,
    plain_coordinates,
    public_coordinates,
    released_coordinates,
)
from skdpbayes.estimators._sgmcmc_settings import ChainSettings
from skdpbayes.estimators.ops.logistic import OPSLogisticRegression
from skdpbayes.fitting.threads import one_blas_thread

__all__ = ["PrivateChainClassifier"]


class PrivateChainClassifier(ChainSettings):
    """The fit of a private chain on a linear classifier or a multilayer perceptron."""

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
        if self._is_network and sparse.issparse(X):
            X = X.toarray()
        if self.release == "last":
            return self._fit_last(X, codes, generator)
        # 3 calibrate from public numbers
        starter = self._starter()
        moments_mu = self._moments_mu(X.shape)
        plan = self._plan(X.shape, starter, moments_mu)
        plan.check_grid(self._n_coordinates)
        guarantee = self._guarantee(plan.event, f"stochastic-gradient MCMC ({self.sampler})")
        # 4 reserve the budget
        self._reserve(guarantee)
        self._forget_coefficients()
        # 5 touch the data, under noise
        if self._is_network:
            self._run_network(X, codes, plan, generator)
        else:
            self._run_linear(X, codes, plan, generator, starter, moments_mu)
        self.noise_multiplier_ = plan.noise_multiplier
        self.n_steps_, self.batch_size_ = plan.n_steps, int(plan.batch_size)
        self.privacy_ = guarantee
        return self

    def _forget_coefficients(self) -> None:
        """Drop what an earlier fit released: linear models and networks name theirs differently."""
        public = ("coef_", "intercept_", "coefs_", "intercepts_")
        for name in (*public, "_coef_draws", "_intercept_draws", "_network"):
            self.__dict__.pop(name, None)

    def _run_linear(
        self,
        X: Any,
        codes: np.ndarray,
        plan: ChainPlan,
        generator: np.random.Generator,
        starter: OPSLogisticRegression | None,
        moments_mu: float,
    ) -> None:
        coordinates = self._coordinates(X, moments_mu, generator)
        dynamics, coordinates = self._dynamics(plan, coordinates, X.shape)
        potential = LinearPotential(
            X,
            codes,
            coordinates,
            self._n_outputs,
            self._prior,
            float(self.data_norm),
        )
        start = np.zeros(potential.shape)
        if starter is not None:
            starter.random_state = randomness.spawn(generator, 1)[0]
            starter.fit(X, self.classes_[codes])
            start = coordinates.from_coefficients(starter.coef_, starter.intercept_)
        if self.sampler == "sgfs":
            dynamics = self._with_information(dynamics, potential)
        result = self._chain(potential, plan, dynamics, start, generator)
        self.coef_, self.intercept_ = coordinates.coefficients(result.mean)
        self._coef_draws, self._intercept_draws = coordinates.coefficients(result.draws)

    def _run_network(
        self,
        X: Any,
        codes: np.ndarray,
        plan: ChainPlan,
        generator: np.random.Generator,
    ) -> None:
        potential = network.NetworkPotential(
            network.network_inputs(X, float(self.data_norm)),
            codes,
            self._sizes,
            self.activation,
            float(self.prior_scale),
            plan.clip_norm,
        )
        noise = 0.0
        if plan.private:
            noise = plan.noise_multiplier * plan.clip_norm / plan.sampling_rate
        step = network.network_step(
            plan.n_samples, plan.n_steps, potential.shape[0], noise, plan.clip_norm
        )
        dynamics = self._momentum_dynamics(step, plan.n_steps, noise)
        start = potential.start(randomness.spawn(generator, 1)[0])
        result = self._chain(potential, plan, dynamics, start, generator)
        layers = models.network_layers(result.mean, self._sizes)
        # predictions are those of the network that was fitted, whatever parameters are set later
        self._network = (self._sizes, self.activation, float(self.data_norm))
        self.coefs_ = [weights.copy() for weights, _ in layers]
        self.intercepts_ = [biases.copy() for _, biases in layers]
        self._coef_draws = result.draws.astype(np.float32)

    def _chain(
        self,
        potential: Potential,
        plan: ChainPlan,
        dynamics: Dynamics,
        start: np.ndarray,
        generator: np.random.Generator,
    ) -> ChainResult:
        with one_blas_thread():
            result = run_chain(
                potential,
                plan,
                dynamics,
                start,
                generator,
                burn_in=self._burn_in,
                n_draws=self._n_draws,
                progress=self._progress,
            )
        self.temperature_ = result.temperature
        self.step_size_ = float(dynamics.steps[0])
        return result

    def _coordinates(
        self, X: Any, moments_mu: float, generator: np.random.Generator
    ) -> Coordinates:
        data_norm = float(self.data_norm)
        _, largest = rules.curvature(self._n_outputs, int(self.classes_.shape[0]))
        least = rules.least_variance(X.shape[0], 1.0 / self._prior.precision, largest)
        if moments_mu > 0.0:
            return released_coordinates(
                X,
                data_norm,
                moments_mu,
                self.adjacency,
                bool(self.fit_intercept),
                randomness.spawn(generator, 1)[0],
                least_variance=least,
            )
        if not self._has_public_matrix:
            return plain_coordinates(X.shape[1], data_norm, not self._non_private)
        return public_coordinates(self.preconditioner, X.shape[1], least_variance=least)

    def _dynamics(
        self, plan: ChainPlan, coordinates: Coordinates, shape: tuple[int, int]
    ) -> tuple[Dynamics, Coordinates]:
        """Choose the step and the constant feature that it is stable with."""
        mean, largest = rules.curvature(self._n_outputs, int(self.classes_.shape[0]))
        noise = 0.0
        if plan.private:
            noise = plan.noise_multiplier * plan.clip_norm / plan.sampling_rate
        prior = self._prior
        of_prior = coordinates.largest_prior_curvature(prior.precision, prior.of_intercept)
        step = rules.langevin_step(
            shape[0], plan.n_steps, coordinates.dimension, noise, mean, largest, of_prior
        )
        if self.fit_intercept:
            stable = 1.0 if plan.private else rules.SAMPLING_STEP
            curvature = max(shape[0] * largest, prior.of_intercept)
            coordinates = coordinates.with_constant(rules.constant_feature(step, curvature, stable))
        if self.sampler == "sgfs":  # noise of 4 / h on the gradient
            step = 4.0 / (rules.FISHER_NOISE * mean * shape[0] / coordinates.dimension)
        return self._momentum_dynamics(step, plan.n_steps, noise), coordinates

    def _with_information(self, dynamics: Dynamics, potential: LinearPotential) -> Dynamics:
        """Add the Fisher information in the chain's coordinates, where rows are round."""
        coordinates = potential.coordinates
        mean, _ = rules.curvature(self._n_outputs, int(self.classes_.shape[0]))
        size = potential.shape[1]
        information = np.full(size, mean / coordinates.dimension)
        if coordinates.constant:
            information[-1] = mean * coordinates.constant**2
        precision = potential.prior_precision()
        return replace(dynamics, information=np.diag(information), prior_precision=precision)

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
        event = chain.plan(*X.shape).plan.event
        guarantee = self._guarantee(event, "last state of a Langevin chain")
        self._reserve(guarantee)
        self._forget_coefficients()
        chain.fit(X, self.classes_[codes])
        self.coef_, self.intercept_ = chain.coef_, chain.intercept_
        draws = chain.sample_posterior()
        self._coef_draws, self._intercept_draws = draws["coef"], draws["intercept"]
        self.temperature_ = 1.0 / chain.inverse_temperature_
        self.noise_multiplier_ = math.nan
        self.step_size_ = math.nan if chain.step_size_ is None else chain.step_size_
        self.n_steps_ = 0 if chain.n_steps_ is None else chain.n_steps_
        self.batch_size_ = X.shape[0]
        self.privacy_ = guarantee
        return self

    def _draw_logits(self, X: Any) -> np.ndarray:
        """Logits of every draw, shape (S, n, K)."""
        if not hasattr(self, "_network"):
            return super()._draw_logits(X)
        if sparse.issparse(X):
            X = X.toarray()
        sizes, activation, data_norm = self._network
        inputs = network.network_inputs(X, data_norm)
        logits = []
        for draw in self._coef_draws:
            layers = models.network_layers(draw, sizes)
            logits.append(models.network_logits(layers, inputs, activation))
        return np.stack(logits).astype(np.float64)

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
            chain at temperature ``temperature_``; for a network ``"coef_0"``, ``"intercept_0"`` and
            so on, a pair per layer.
        """
        check_is_fitted(self)
        chosen = self._choose_draws(self._coef_draws.shape[0], n_samples, random_state)
        if hasattr(self, "_network"):
            layers = models.network_layers(self._coef_draws[chosen], self._network[0])
            draws = {f"coef_{i}": weights for i, (weights, _) in enumerate(layers)}
            return draws | {f"intercept_{i}": biases for i, (_, biases) in enumerate(layers)}
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
