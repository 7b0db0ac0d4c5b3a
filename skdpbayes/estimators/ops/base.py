"""The fit that one-posterior-sample classifiers share; a subclass names its loss."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from skdpbayes import models
from skdpbayes._validation import check_choice, check_flag, check_integer, check_real, check_scale
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.ops.plan import (
    LARGEST_C,
    DensityPlan,
    LangevinPlan,
    ModePlan,
    Problem,
    plan_density,
    plan_langevin,
)
from skdpbayes.exceptions import CalibrationError, PrivacyWarning
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.estimator import NOT_PRIVATE
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Budget

SAMPLERS = ("auto", "langevin", "rejection", "hmc")
CALIBRATIONS = ("tight", "wang2015", "minami2016")
# Settings that a sampler does not have; giving one of them is an error that says so.
FOREIGN = {
    "langevin": ("n_chains", "diagnostics"),
    "rejection": ("n_steps", "step_size", "n_batches", "n_chains", "diagnostics"),
    "hmc": ("step_size", "n_batches"),
}


IN_MEMORY = (
    "{name} reads chunks with sampler='langevin' and a finite epsilon (the default with "
    "delta > 0): rejection, hmc and the search for a mode evaluate the density at thousands of "
    "points. Set delta > 0 and sampler='auto', or load rows that fit into memory."
)


class OnePosteriorSample(PrivateClassifier):
    """Parameters and plan; see the public classes."""

    data_norm: float
    fit_intercept: bool
    intercept_scaling: float
    coef_norm: float | None
    C: float | str
    sampler: str
    n_draws: int
    calibration: str
    cap_at_posterior: bool
    n_steps: int | str
    step_size: float | str
    n_batches: int | str
    n_chains: int | str
    diagnostics: bool
    _takes_units = True
    _reads_chunks = True

    def _loss(self, public: Public) -> models.Loss:
        """Return the loss of one record."""
        raise NotImplementedError

    def _width(self) -> float:
        """Width over which the chain smooths a loss without curvature."""
        return 1.0

    def _bound(self) -> Bound:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        data_norm = check_scale("data_norm", self.data_norm)
        return Bound() if math.isinf(self.epsilon) else Bound(data_norm)

    def _plan(self, public: Public, budget: Budget) -> LangevinPlan | DensityPlan | ModePlan:
        problem = self._problem(public, budget)
        langevin = self.sampler == "langevin" or (self.sampler == "auto" and budget.delta > 0.0)
        if public.chunked and not (budget.private and langevin):
            raise ValueError(IN_MEMORY.format(name=type(self).__name__))
        if not budget.private:
            return ModePlan(problem, LARGEST_C if problem.C is None else problem.C)
        if langevin:
            self._refuse("langevin")
            chain = plan_langevin(
                problem,
                n_steps=_number(self.n_steps, int),
                step_size=_number(self.step_size, float),
                # in chunks a batch of some records may read all of them
                n_batches=_number(self.n_batches, int) or (1 if public.chunked else None),
            )
            budget.noise(chain.noise.law, chain.noise.scale)
            return chain
        density = plan_density(
            problem,
            self.sampler,
            n_chains=_number(self.n_chains, int) or 4,
            n_transitions=_number(self.n_steps, int) or 200,
            diagnostics=self.diagnostics,
        )
        self._refuse(density.sampler)
        if self.diagnostics:
            warnings.warn(
                "diagnostics=True keeps convergence diagnostics that depend on the data and are "
                "not covered by the guarantee. Use it on data that are not private.",
                PrivacyWarning,
                stacklevel=4,
            )
        return density

    def _expected(self, public: Public, plan: Any) -> dict[str, float]:
        r"""Excess of a draw from :math:`e^{-\beta J}`, J convex: at most one per coefficient.

        The mean of U under a log-concave density :math:`e^{-U}` in p dimensions exceeds its least
        value by at most p (by p/2 under a normal one). Chains are taken to have converged.
        """
        if isinstance(plan, ModePlan):
            return {"excess_loss": 0.0}
        size = plan.problem.loss.n_outputs * plan.problem.n_features
        return {"excess_loss": size / (plan.inverse_temperature * public.n)}

    def _touch(self, rows: Records, plan: Any, generator: np.random.Generator) -> Any:
        # whether a trajectory overflows depends on the data
        with np.errstate(all="ignore"), one_blas_thread():
            return plan.draw(rows, generator, self._progress)

    def _refuse(self, sampler: str) -> None:
        """Refuse settings that the sampler does not have."""
        for name in FOREIGN[sampler]:
            value = getattr(self, name)
            if not (_is_auto(value) or value is False):
                raise ValueError(
                    f"{name}={value!r} has no effect with sampler={sampler!r}; leave it out, or "
                    "choose the sampler that it belongs to."
                )

    def _problem(self, public: Public, budget: Budget) -> Problem:
        """Check the parameters and collect the public numbers."""
        loss = self._loss(public)
        check_flag("fit_intercept", self.fit_intercept)
        check_scale("intercept_scaling", self.intercept_scaling)
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("calibration", self.calibration, CALIBRATIONS)
        for name in ("n_steps", "n_batches", "n_chains"):
            if not _is_auto(getattr(self, name)):
                check_integer(name, getattr(self, name), low=1)
        if not _is_auto(self.step_size):
            check_scale("step_size", self.step_size)
        check_flag("diagnostics", self.diagnostics)
        if self.calibration == "wang2015" and budget.private:
            _check_wang(loss, budget.delta)
        return Problem(
            loss=loss,
            n_records=public.n,
            n_features=public.n_features + bool(self.fit_intercept),
            constant=float(self.intercept_scaling) if self.fit_intercept else 0.0,
            data_norm=float(self.data_norm),
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            n_draws=check_integer("n_draws", self.n_draws, low=1),
            calibration=self.calibration,
            cap=check_flag("cap_at_posterior", self.cap_at_posterior),
            C=None if _is_auto(self.C) else check_scale("C", self.C, "Or use C='auto'."),
            coef_norm=None if self.coef_norm is None else check_scale("coef_norm", self.coef_norm),
            width=self._width(),
            unit=public.unit,
        )


def _number(value: Any, kind: type) -> Any:
    """Return a checked parameter as a number, None for "auto"."""
    return None if _is_auto(value) else kind(value)


def _is_auto(value: Any) -> bool:
    """Tell "auto" from numbers; an array would be compared entry by entry."""
    return isinstance(value, str) and value == "auto"


def _check_wang(loss: models.Loss, delta: float) -> None:
    """Raise if the calibration of Wang et al. (2015) does not cover what is asked of it."""
    if delta > 0.0:
        raise CalibrationError(
            f"calibration='wang2015' is a pure epsilon mechanism; got delta={delta!r}. "
            "Set delta=0, or use calibration='tight'."
        )
    if loss.n_outputs > 1 or not loss.likelihood:
        raise CalibrationError("calibration='wang2015' is for the logistic loss of two classes.")
