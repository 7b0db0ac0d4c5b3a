"""The fit that one-posterior-sample classifiers share; a subclass names its loss."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from skdpbayes import models, privacy, randomness
from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_is_fitted,
    check_scale,
)
from skdpbayes.estimators import _ops_sampling as sampling
from skdpbayes.estimators._linear import PrivateLinearClassifier
from skdpbayes.estimators._ops_plan import (
    LARGEST_C,
    LARGEST_LOG_TRIES,
    ExactPlan,
    LangevinPlan,
    Problem,
    plan_exact,
    plan_langevin,
)
from skdpbayes.estimators._ops_target import Target
from skdpbayes.exceptions import CalibrationError, PrivacyWarning

__all__ = ["OnePosteriorSample"]

SAMPLERS = ("auto", "langevin", "rejection", "hmc", "sgnht")
CALIBRATIONS = ("tight", "wang2015", "minami2016")
CONVERGED = "the chain has converged to the posterior it samples"
INDEPENDENT = "draws from one chain are far enough apart to be independent"
# Above this many coefficients the Hessian that Hamiltonian chains and rejection need is too large.
MAX_DENSE_HESSIAN = 3000
# The grid of a release is this much finer than the narrowest direction the posterior can have.
SNAP_BITS = 20


class OnePosteriorSample(PrivateLinearClassifier):
    """Parameters, plan, sampling and release; see the public classes."""

    coef_norm: float | None
    C: float | str
    sampler: str
    n_draws: int
    calibration: str
    cap_at_posterior: bool
    n_steps: int | str
    step_size: float | str
    n_batches: int | str
    n_chains: int
    diagnostics: bool

    def _loss(self) -> str:
        """Return "logistic", "softmax" or "hinge"."""
        raise NotImplementedError

    def _width(self) -> float:
        """Smoothing width of the hinge loss; 0 for other losses."""
        return 0.0

    def fit(self, X: Any, y: Any) -> Any:
        """Draw and release the coefficients.

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
        self.__dict__.pop("diagnostics_", None)  # of an earlier fit
        X, codes = self._validate_training(X, y)
        self._check_own_parameters()
        generator = self._generator()
        # 2 bound one record's influence
        X = self._bound_rows(X)
        # 3 calibrate from public numbers
        problem = self._problem(X.shape)
        sampler = self._choose_sampler()
        plan, sampler = self._plan(problem, sampler)
        guarantee = self._guarantee(
            plan.event,
            f"one posterior sample ({sampler})",
            conditions=self._conditions(sampler),
        )
        # 4 reserve the budget
        self._reserve(guarantee)
        # 5 touch the data, under noise
        with np.errstate(all="ignore"):  # whether a trajectory overflows depends on the data
            draws = self._sample(problem, plan, sampler, X, codes, generator)
        # whether a chain diverged depends on the data, so it must not be an error
        draws = np.where(np.isfinite(draws), draws, 0.0)
        self._store_draws(randomness.snap(draws, self._grid(problem, plan)))
        self.privacy_ = guarantee
        self.C_ = plan.C
        self.inverse_temperature_ = plan.inverse_temperature
        self._remember_chain(problem, plan)
        return self

    def _check_own_parameters(self) -> None:
        if self.coef_norm is not None:
            check_scale("coef_norm", self.coef_norm)
        if self.C != "auto":
            check_scale("C", self.C, "Or use C='auto'.")
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        check_integer("n_draws", self.n_draws, low=1)
        check_integer("n_chains", self.n_chains, low=1)
        check_flag("cap_at_posterior", self.cap_at_posterior)
        check_flag("diagnostics", self.diagnostics)
        for name in ("n_steps", "n_batches"):
            if getattr(self, name) != "auto":
                check_integer(name, getattr(self, name), low=1)
        if self.step_size != "auto":
            check_scale("step_size", self.step_size)
        if self.diagnostics:
            warnings.warn(
                "diagnostics=True keeps convergence diagnostics that depend on the data and are "
                "not covered by the guarantee. Use it on data that are not private.",
                PrivacyWarning,
                stacklevel=3,
            )

    def _problem(self, shape: tuple[int, int]) -> Problem:
        n_records, n_columns = shape
        n_features = n_columns + bool(self.fit_intercept)
        return Problem(
            loss=self._loss(),
            n_records=n_records,
            n_features=n_features,
            n_classes=self.classes_.shape[0],
            record_norm=self._record_norm,
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            adjacency=self.adjacency,
            n_draws=int(self.n_draws),
            calibration=self.calibration,
            cap=bool(self.cap_at_posterior),
            C=None if self.C == "auto" else float(self.C),
            coef_norm=None if self.coef_norm is None else float(self.coef_norm),
            width=self._width(),
            summation_length=models.summation_length(n_records, n_features),
        )

    def _choose_sampler(self) -> str:
        """Resolve "auto" where the parameters alone decide; pure epsilon is decided by the plan."""
        if self._non_private:
            return "hmc"  # draws of the true posterior
        if self.calibration == "wang2015" and self.delta > 0.0:
            raise CalibrationError(
                f"calibration='wang2015' is a pure epsilon mechanism; got delta={self.delta!r}. "
                "Set delta=0, or use calibration='tight'."
            )
        if self.calibration == "wang2015" and self._loss() != "logistic":
            raise CalibrationError(
                "calibration='wang2015' is for the logistic loss of two classes."
            )
        if self.sampler == "auto" and self.delta > 0.0:
            return "langevin"
        return self.sampler

    def _conditions(self, sampler: str) -> tuple[str, ...]:
        """Name what the claim of an approximate sampler rests on."""
        if self._non_private or sampler in ("langevin", "rejection"):
            return ()
        if sampler == "hmc" and self.n_draws > self.n_chains:
            return (CONVERGED, INDEPENDENT)
        return (CONVERGED,)

    def _plan(self, problem: Problem, sampler: str) -> tuple[Any, str]:
        if self._non_private:
            C = LARGEST_C if problem.C is None else problem.C
            radius = math.inf if problem.coef_norm is None else problem.coef_norm
            return ExactPlan(C, 1.0, radius, privacy.NoPrivacy(), math.inf), "hmc"
        if sampler == "langevin":
            plan = plan_langevin(
                problem,
                n_steps=None if self.n_steps == "auto" else int(self.n_steps),
                step_size=None if self.step_size == "auto" else float(self.step_size),
                n_batches=None if self.n_batches == "auto" else int(self.n_batches),
            )
            return plan, sampler
        exact = plan_exact(problem)
        feasible = exact.log_tries <= LARGEST_LOG_TRIES
        if sampler == "auto":
            sampler = "rejection" if feasible else "hmc"
        if sampler == "rejection" and not feasible:
            raise CalibrationError(
                "sampler='rejection' would need up to e^"
                f"{exact.log_tries:.0f} tries by its public bound for {problem.n_records} records "
                f"and {problem.dimension} coefficients. Use a smaller coef_norm, epsilon or C, or "
                "sampler='hmc' (which is conditional on convergence), or delta > 0 with "
                "sampler='langevin'."
            )
        if sampler in ("hmc", "rejection") and problem.dimension > MAX_DENSE_HESSIAN:
            raise CalibrationError(
                f"sampler={sampler!r} handles up to {MAX_DENSE_HESSIAN} coefficients; got "
                f"{problem.dimension}. Use delta > 0 with sampler='langevin'."
            )
        return exact, sampler

    def _sample(
        self,
        problem: Problem,
        plan: LangevinPlan | ExactPlan,
        sampler: str,
        X: Any,
        codes: np.ndarray,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Step 5: run the sampler; the result is private, everything else is dropped."""
        loss = problem.loss
        if isinstance(plan, LangevinPlan):
            loss = "smooth_hinge" if loss == "hinge" else loss
            target = self._target(problem, plan, loss, X, codes)
            return sampling.draw_langevin(target, plan, generator, self._progress)
        target = self._target(problem, plan, loss, X, codes)
        n_draws = int(self.n_draws)
        if sampler == "rejection":
            logit = problem.record_norm * plan.radius
            slack = plan.inverse_temperature * problem.value_rounding(plan.radius)
            return sampling.draw_rejection(target, n_draws, logit, generator, slack)
        if sampler == "sgnht":
            return sampling.draw_sgnht(
                target,
                n_draws,
                plan.inverse_temperature * (problem.curvature + 1.0 / plan.C),
                generator,
                self._progress,
                n_iterations=2000 if self.n_steps == "auto" else int(self.n_steps),
                n_batches=10 if self.n_batches == "auto" else int(self.n_batches),
            )
        draws, diagnostics = sampling.draw_hmc(
            target,
            n_draws,
            generator,
            self._progress,
            n_chains=int(self.n_chains),
            n_iterations=200 if self.n_steps == "auto" else int(self.n_steps),
            diagnose=bool(self.diagnostics),
        )
        if self.diagnostics:
            self.diagnostics_ = diagnostics
        return draws

    def _target(self, problem: Problem, plan: Any, loss: str, X: Any, codes: np.ndarray) -> Target:
        return Target(
            X=X,
            codes=codes,
            constant=self._constant_feature,
            loss=loss,
            width=problem.width,
            n_outputs=problem.n_outputs,
            C=plan.C,
            inverse_temperature=plan.inverse_temperature,
            radius=plan.radius,
        )

    def _grid(self, problem: Problem, plan: Any) -> float:
        """Grid of the release: far finer than the narrowest direction that public bounds allow.

        Snapping a draw is post-processing; it keeps low-order bits of doubles out of the release.
        """
        curvature = problem.curvature if np.isfinite(problem.curvature) else problem.n_records**2
        narrowest = 1.0 / math.sqrt(plan.inverse_temperature * (curvature + 1.0 / plan.C))
        return 2.0 ** (math.floor(math.log2(narrowest)) - SNAP_BITS)

    def _remember_chain(self, problem: Problem, plan: Any) -> None:
        """Keep the public schedule, which the law of the released draw depends on."""
        self.n_records_ = problem.n_records
        langevin = isinstance(plan, LangevinPlan)
        self.step_size_: float | None = plan.step_size if langevin else None
        self.n_steps_: int | None = plan.n_batches * plan.epochs[0] if langevin else None

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Return the released draws of the tempered posterior; they were paid for by ``fit``.

        Parameters
        ----------
        n_samples : int or None
            How many of them; None for all ``n_draws``. More would be a new release.
        random_state : int, Generator or None
            Chooses which draws are returned when fewer than all are asked for; with None the first
            ones are. It costs no privacy.

        Returns
        -------
        dict
            ``{"coef": (n_samples, K, n_features), "intercept": (n_samples, K)}``.
        """
        check_is_fitted(self)
        available = self._coef_draws.shape[0]
        n_samples = available if n_samples is None else check_integer("n_samples", n_samples, low=1)
        if n_samples > available:
            raise ValueError(
                f"n_samples={n_samples} exceeds the {available} draw(s) that fit released. "
                f"Refit with n_draws={n_samples}: within the same (epsilon={self.epsilon:g}, "
                f"delta={self.delta:g}) every draw becomes noisier, and the refit is a release of "
                "its own that costs this much once more."
            )
        chosen = np.arange(n_samples)
        if random_state is not None and n_samples < available:
            order = randomness.make_generator(random_state).permutation(available)
            chosen = np.sort(order[:n_samples])
        return {"coef": self._coef_draws[chosen], "intercept": self._intercept_draws[chosen]}
