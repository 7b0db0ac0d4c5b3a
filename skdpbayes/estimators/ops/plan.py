"""Plans of one-posterior-sample fits: everything that public numbers decide, and the draw itself.

A plan is made before the data are touched, and it knows its sampler: ``plan.draw(rows, ...)`` is
all that a fit does with the records. ``LangevinPlan`` is a certified chain, ``DensityPlan`` a
density from which draws are taken by rejection or, on the condition that the chain has converged,
by Hamiltonian Monte Carlo, and ``ModePlan`` the ordinary model without privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from skdpbayes import models, privacy, randomness, samplers
from skdpbayes.estimators.linear.blocks import cut_blocks
from skdpbayes.estimators.linear.posterior import split_coefficients
from skdpbayes.estimators.linear.problem import UNIT_ROUNDOFF, LinearProblem
from skdpbayes.estimators.ops import sampling
from skdpbayes.estimators.ops.posterior import LaplacePosterior, SamplePosterior
from skdpbayes.estimators.ops.sampling import LARGEST_HESSIAN, Progress
from skdpbayes.estimators.ops.target import Batch, ChunkBatch, Target
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.chunks import ChunkedRecords
from skdpbayes.fitting.records import Block, Records
from skdpbayes.privacy import Adjacency, PrivacyEvent
from skdpbayes.privacy.budget import NO_NOISE, Noise
from skdpbayes.privacy.guarantee import Unit
from skdpbayes.privacy.sensitivity import moved

CONVERGED = "the chain has converged to the posterior it samples"
INDEPENDENT = "draws from one chain are far enough apart to be independent"
# C="auto": along a direction the data do not inform, the released coefficient has standard
# deviation C D / mu at equilibrium (D the gradient sensitivity), so a record's logit is off by up
# to R C D / mu. This is that number; Adult at epsilon 0.1 to 1 prefers 1 to 2, both adjacencies.
LOGIT_NOISE = 1.5
# A chain that starts at zero is stopped when its noise reaches that level; stopping shrinks less
# than a penalty of the same noise does, so its C is larger (Adult, census: 0.2 to 1 point).
EARLY_STOPPING = 4.0
# Beyond this the prior no longer matters for rows of norm one.
LARGEST_C = 100.0
# Without privacy to pay for, four relaxation times of the slowest direction leave 2% of the start.
RELAXATIONS = 4.0
# A step of 1.5 / M inflates variances by at most a factor 4 (in a direction whose curvature attains
# the public bound) and by about 1.5 on data such as Adult; 2 / M would not be stable there.
STEP_FRACTION = 1.5
# Cost limits of the automatic schedule. A batch visits a record once an epoch, which costs an
# excess of a few times 1 / n_epochs in mu^2 over full gradients, and saves n_batches passes.
MAX_EPOCHS = 200
MAX_BATCHES = 32
MIN_BATCH_ROWS = 64
MIN_STEPS = 64
# Radius of the ball when the pure mechanism needs one, in units of one over the record norm.
PURE_RADIUS = 6.0
# No iterate is longer than this many times one over the record norm: a projection is free, and it
# makes the rounding of logits a public number.
SAFETY_RADIUS = 2.0**14
# Points that rounding leaves a little outside of a ball, and what kernels allow for the norm.
BEYOND = 1.0 + 1e-6
# A proposal costs microseconds, and the bound is loose by many orders of magnitude.
LARGEST_LOG_TRIES = math.log(1e9)
# The grid of a release is this much finer than the narrowest direction the posterior can have.
SNAP_BITS = 20


@dataclass(frozen=True)
class Problem(LinearProblem):
    """The public numbers of a fit."""

    loss: models.Loss
    n_records: int
    n_features: int
    constant: float
    data_norm: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    n_draws: int
    calibration: str
    cap: bool
    C: float | None
    """None: by the public rule."""
    coef_norm: float | None
    width: float = 1.0
    """A loss without curvature is smoothed over this width where gradients are followed."""
    unit: Unit = "record"

    @property
    def most_rows(self) -> int:
        """Bound on the number of rows, whose cuts and roundings add up."""
        return self.n_records * self.rows_per_unit

    @property
    def smooth(self) -> models.Loss:
        """The loss whose gradient a Langevin chain follows."""
        return self.loss.smoothed(self.width)

    @property
    def dimension(self) -> int:
        """Entries of the coefficient matrix."""
        return self.loss.n_outputs * self.n_features

    @property
    def curvature(self) -> float:
        """Public bound on the curvature of the sum of losses."""
        return self.n_records * self.record_norm**2 * self.smooth.curvature[1]

    @cached_property
    def sensitivity(self) -> float:
        """Largest change of the summed gradient between neighbors, in exact arithmetic."""
        logit = math.inf if self.coef_norm is None else self.record_norm * self.coef_norm
        one, two = self.loss.steepest, self.loss.gap
        return self.record_norm * (one if moved(self.adjacency) == 1 else two)(logit)

    @property
    def computed_sensitivity(self) -> float:
        """The same for the gradient as it is computed.

        Each of the two gradients may be off by what cuts and roundings amount to; the privacy
        argument sees that as a further change, as if the neighbor's map were moved. (The integers
        of neighbors differ by one record's alone, but the argument compares the map of one data set
        at two points, too, where every record's cut may differ.)
        """
        radius = min(SAFETY_RADIUS / self.record_norm, self.coef_norm or math.inf)
        return self.sensitivity + 2.0 * self.gradient_rounding(self.smooth, radius)

    def gradient_rounding(self, loss: models.Loss, radius: float) -> float:
        """Bound the error of a sum of gradients at points of the ball, and of what it is added to.

        That of exact sums, and four roundings of the result: scaled to all records, added.
        """
        assert self.grid is not None
        sums = self.grid.gradient_error(loss, self.n_columns, self.constant, BEYOND * radius)
        scaled = 4.0 * UNIT_ROUNDOFF * self.record_norm * loss.slope
        return self.most_rows * sums + self.n_records * scaled

    def value_rounding(self, radius: float, C: float) -> float:
        """Bound on the rounding of the summed losses on a ball, twice over (0 without a ball).

        That of exact sums, whatever the order, and those of adding the prior's part to it.
        """
        if math.isinf(radius):
            return 0.0
        assert self.grid is not None
        how = (self.loss, self.n_columns, self.constant, BEYOND * radius)
        largest = self.grid.value_bound(self.loss, self.constant, BEYOND * radius)
        prior = (self.dimension + 8.0) * radius**2 / (2.0 * C)
        adding = 4.0 * self.n_records * largest + prior
        return 2.0 * (self.most_rows * self.grid.value_error(*how) + UNIT_ROUNDOFF * adding)

    def target_mu(self) -> float:
        """Gaussian DP that the budget allows, by the chosen calibration."""
        if self.calibration == "minami2016":
            return privacy.minami2016_mu(self.epsilon, self.delta)
        return privacy.gdp_mu(self.epsilon, self.delta)

    def equilibrium_C(self, mu: float) -> float:
        """Return the C at which a draw of ``mu``-GDP moves logits by ``LOGIT_NOISE``."""
        return min(LARGEST_C, LOGIT_NOISE * mu / (self.record_norm * self.sensitivity))


def _target(
    plan: LangevinPlan | DensityPlan | ModePlan,
    blocks: Iterable[Block] | ChunkBatch,
    loss: models.Loss,
) -> Target:
    """Return the density on the data."""
    return Target(
        blocks=blocks if isinstance(blocks, ChunkBatch) else tuple(blocks),
        constant=plan.problem.constant,
        loss=loss,
        width=plan.problem.width,
        C=plan.C,
        inverse_temperature=plan.inverse_temperature,
        radius=plan.radius,
        grid=plan.problem.grid,
    )


def _batches(
    rows: Records, n_batches: int, generator: np.random.Generator, grid: models.Grid | None
) -> list[Batch]:
    """Split the rows at random (by position alone) into batches."""
    if isinstance(rows, ChunkedRecords):
        held = rows.prepared(cut_blocks, grid)
        if n_batches == 1:
            return [ChunkBatch(held)]
        parts = np.array_split(generator.permutation(rows.n_rows), n_batches)
        return [ChunkBatch(held, part) for part in parts]
    if n_batches == 1:
        return [cut_blocks(rows, grid)]
    order = generator.permutation(rows.X.shape[0])
    parts = np.array_split(order, n_batches)
    return [(_short(rows.block(part), grid),) for part in parts]


def _short(block: Block, grid: models.Grid | None) -> Block:
    """Cut the rows to what sums read of them, once: hundreds of passes read less memory."""
    return block._replace(X=models.cut_rows(block.X, grid))


def _released(
    draws: np.ndarray,
    rows: Records,
    plan: LangevinPlan | DensityPlan,
    diagnostics: dict[str, Any] | None = None,
) -> SamplePosterior:
    """Snap draws to a grid far finer than the narrowest direction that public bounds allow.

    That is post-processing; it keeps low-order bits of doubles out of the release. Whether a chain
    diverged depends on the data, so it must not be an error: what is no number becomes 0.
    """
    problem = plan.problem
    curvature = problem.curvature if np.isfinite(problem.curvature) else problem.n_records**2
    narrowest = 1.0 / math.sqrt(plan.inverse_temperature * (curvature + 1.0 / plan.C))
    grid = 2.0 ** (math.floor(math.log2(narrowest)) - SNAP_BITS)
    draws = randomness.snap(np.where(np.isfinite(draws), draws, 0.0), grid)
    parts = split_coefficients(draws, rows.public.n_features, problem.constant)
    return SamplePosterior(**parts, bound=rows.bound, plan=plan, diagnostics=diagnostics)


def _numbers(
    plan: LangevinPlan | DensityPlan | ModePlan,
    noise: Noise | None,
    step_size: float | None = None,
    n_steps: int | None = None,
) -> dict[str, Any]:
    """Return public numbers under the names of the fitted attributes."""
    return {
        "C_": plan.C,
        "inverse_temperature_": plan.inverse_temperature,
        "step_size_": step_size,
        "n_steps_": n_steps,
        "n_records_": plan.problem.n_records,
        "noise_": noise,
    }


@dataclass(frozen=True)
class LangevinPlan:
    """A chain: batches of the rows in turn, and the epochs after which its state is released."""

    problem: Problem
    C: float
    inverse_temperature: float
    step_size: float
    n_batches: int
    epochs: tuple[int, ...]
    radius: float
    event: PrivacyEvent
    words = "one posterior sample (langevin)"
    conditions = ()

    @property
    def n_steps(self) -> int:
        """Steps before the first draw."""
        return self.n_batches * self.epochs[0]

    @property
    def noise(self) -> Noise:
        """The noise of a step."""
        return Noise("gaussian", math.sqrt(2.0 * self.step_size / self.inverse_temperature))

    def numbers(self) -> dict[str, Any]:
        """Return public numbers under the names of the fitted attributes."""
        return _numbers(self, self.noise, self.step_size, self.n_steps)

    def draw(
        self, rows: Records, generator: np.random.Generator, progress: Progress
    ) -> SamplePosterior:
        """Run the chain; its last state, and states half a run apart before it, are the release."""
        batches = _batches(rows, self.n_batches, generator, self.problem.grid)
        first = batches[0]
        whole = first if isinstance(first, ChunkBatch) else itertools.chain(*batches)  # type: ignore[arg-type]
        draws = sampling.draw_langevin(
            _target(self, whole, self.problem.smooth),
            generator,
            progress,
            step_size=self.step_size,
            batches=batches,
            epochs=self.epochs,
        )
        return _released(draws, rows, self)


@dataclass(frozen=True)
class DensityPlan:
    """A density proportional to exp(-beta F) on a ball, its sampler and the price of its draws."""

    problem: Problem
    C: float
    inverse_temperature: float
    radius: float
    event: PrivacyEvent
    log_tries: float
    """Public bound on the logarithm of the expected tries of rejection; infinity if unbounded."""
    sampler: Literal["rejection", "hmc"] = "rejection"
    n_chains: int = 4
    n_transitions: int = 200
    diagnostics: bool = False

    @property
    def words(self) -> str:
        """The mechanism in words."""
        return f"one posterior sample ({self.sampler})"

    @property
    def conditions(self) -> tuple[str, ...]:
        """Name what the claim of an approximate sampler rests on."""
        if self.sampler == "rejection":
            return ()
        if self.problem.n_draws > self.n_chains:
            return (CONVERGED, INDEPENDENT)
        return (CONVERGED,)

    def numbers(self) -> dict[str, Any]:
        """Return public numbers under the names of the fitted attributes."""
        return _numbers(self, None)

    def draw(
        self, rows: Records, generator: np.random.Generator, progress: Progress
    ) -> SamplePosterior:
        """Draw from the density."""
        problem = self.problem
        target = _target(self, cut_blocks(rows, problem.grid), problem.loss)
        diagnostics = None
        if self.sampler == "rejection":
            logit = problem.record_norm * self.radius
            slack = self._envelope_rounding()
            draws = sampling.draw_rejection(target, problem.n_draws, logit, generator, slack)
        else:
            draws, diagnostics = sampling.draw_hmc(
                target,
                problem.n_draws,
                generator,
                progress,
                n_chains=self.n_chains,
                n_iterations=self.n_transitions,
                diagnose=self.diagnostics,
            )
        return _released(draws, rows, self, diagnostics or None)

    def _envelope_rounding(self) -> float:
        """Bound what rounding can lift the envelope of rejection above the computed U (on a ball).

        The roundings of U at a proposal and at the mode, of how far the tangent's loss is below U
        there, and of the tangent's slope, over the ball's diameter.
        """
        if math.isinf(self.radius):
            return 0.0
        problem, beta = self.problem, self.inverse_temperature
        width = sampling.tangent_width(problem.width, beta, problem.n_records)
        slope = problem.gradient_rounding(problem.loss.smoothed(width), self.radius)
        slope += 4.0 * UNIT_ROUNDOFF * self.radius / self.C
        values = 2.0 * problem.value_rounding(self.radius, self.C)
        return beta * (values + 2.0 * self.radius * slope)


@dataclass(frozen=True)
class ModePlan:
    """No privacy: the mode of the posterior, and the curvature that a normal law around it has."""

    problem: Problem
    C: float
    words = "posterior mode with a normal (Laplace) approximation around it, without privacy"
    conditions = ()
    inverse_temperature = 1.0
    radius = math.inf

    @property
    def event(self) -> PrivacyEvent:
        """Nothing is protected."""
        return privacy.NoPrivacy()

    def numbers(self) -> dict[str, Any]:
        """Return public numbers under the names of the fitted attributes."""
        return _numbers(self, NO_NOISE)

    def draw(
        self, rows: Records, generator: np.random.Generator, progress: Progress
    ) -> LaplacePosterior:
        """Find the mode and the curvature there; nothing is drawn before it is asked for."""
        target = _target(self, rows.blocks(), self.problem.loss)
        mode = sampling.find_mode(target)
        root = sampling.normal_root(target, mode)
        parts = split_coefficients(
            mode.reshape(1, *target.shape), rows.public.n_features, self.problem.constant
        )
        return LaplacePosterior(**parts, bound=rows.bound, mode=mode, root=root, plan=self)


def plan_langevin(
    problem: Problem, *, n_steps: int | None, step_size: float | None, n_batches: int | None
) -> LangevinPlan:
    """Choose the schedule of a certified chain and calibrate its temperature.

    Later draws are states of the same chain, half a run apart: after a release both neighbors'
    chains stand at the same point, so the squares of mu add up, and the shorter way to a later draw
    costs less than a new chain would.
    """
    if problem.delta == 0.0:
        raise CalibrationError(
            "sampler='langevin' adds Gaussian noise and needs delta > 0; got delta=0. Set delta, "
            "or use sampler='rejection' or sampler='hmc' for pure epsilon."
        )
    mu = problem.target_mu()
    mu_draw = mu / math.sqrt(0.5 * (1.0 + problem.n_draws))
    C = problem.C
    if C is None:
        C = min(LARGEST_C, EARLY_STOPPING * problem.equilibrium_C(mu_draw))
    smoothness = problem.curvature + 1.0 / C
    largest = privacy.largest_langevin_step(1.0 / C, smoothness)
    if step_size is not None and step_size > largest:
        raise CalibrationError(
            f"step_size={step_size!r} is too large for the Langevin bound: with "
            f"{problem.n_records} records, C={C:g} and data_norm as given it must be at most "
            f"{largest:g}."
        )
    step, batches, epochs = _schedule(problem, C, mu_draw, n_steps, step_size, n_batches)
    visits = (epochs,) + (max(1, epochs // 2),) * (problem.n_draws - 1)
    radius = SAFETY_RADIUS / problem.record_norm
    if problem.coef_norm is not None:
        radius = min(radius, problem.coef_norm)
    units = _unit_mus(problem, C, step, batches, visits, radius)
    # Adding the noise rounds by its own size, up to sqrt(p) + 40 deviations; paid at once, that is
    # so much mu a step, and sqrt(t) times it in t steps.
    noise_rounding = 8.0 * UNIT_ROUNDOFF * (math.sqrt(problem.dimension) + 40.0)
    noise_rounding *= math.sqrt(batches * sum(visits))
    if mu <= 2.0 * noise_rounding:
        raise CalibrationError(
            f"epsilon={problem.epsilon!r} and delta={problem.delta!r} are too small for double "
            "precision arithmetic. Use a larger epsilon or delta."
        )

    # mu^2 is proportional to the inverse temperature when the step on F is fixed
    def event_at(beta: float) -> PrivacyEvent:
        mus = tuple(unit * math.sqrt(beta) + noise_rounding for unit in units)
        return privacy.GaussianDP(mus[0]) if len(mus) == 1 else privacy.GaussianMixture(mus)

    beta = ((mu - noise_rounding) / units[0]) ** 2 * (1.0 - 1e-12)
    if batches > 1 and problem.calibration == "tight":  # the batch of a record is secret
        noise = privacy.smallest_noise(
            lambda noise: event_at(noise**-2), problem.epsilon, problem.delta, guess=beta**-0.5
        )
        beta = max(beta, noise**-2)
    if problem.calibration == "minami2016":  # as published: for a draw from the density itself
        mu_draw = mu / math.sqrt(problem.n_draws)
        beta = min(beta, privacy.ops_inverse_temperature(mu_draw, C, problem.sensitivity))
    beta = _capped(problem, beta)
    return LangevinPlan(problem, C, beta, step, batches, visits, radius, event_at(beta))


def _schedule(
    problem: Problem,
    C: float,
    mu: float,
    n_steps: int | None,
    step_size: float | None,
    n_batches: int | None,
) -> tuple[float, int, int]:
    """Return step size, batches and epochs.

    The chain runs until its noise reaches the level at which ``C="auto"`` would have it at
    equilibrium, or for four relaxation times where a stronger prior stops it earlier.
    """
    smoothness = problem.curvature + 1.0 / C
    largest = min(STEP_FRACTION / smoothness, privacy.largest_langevin_step(1.0 / C, smoothness))
    duration = min(problem.equilibrium_C(mu), RELAXATIONS * C)
    most_batches = max(1, min(MAX_BATCHES, problem.n_records // MIN_BATCH_ROWS))
    if problem.unit == "person":  # a batch of rows would hold a part of somebody
        most_batches = 1
        if n_batches not in (None, 1):
            raise ValueError(
                f"n_batches={n_batches!r} would split the records of a person; with units leave "
                "it out."
            )
    if n_steps is None:
        step = largest if step_size is None else step_size
        wanted = max(MIN_STEPS, math.ceil(min(duration / step, 1e9)))
    else:
        wanted = n_steps
    if n_batches is None:
        n_batches = min(most_batches, -(-wanted // MAX_EPOCHS))
    elif n_batches > problem.n_records:
        raise ValueError(
            f"n_batches must be at most the number of records, {problem.n_records}; got "
            f"{n_batches!r}."
        )
    epochs = max(1, -(-wanted // n_batches))
    if n_steps is None:
        epochs = min(epochs, MAX_EPOCHS)
    if step_size is None:
        step_size = min(largest, duration / (epochs * n_batches))
    return step_size, n_batches, epochs


def _unit_mus(
    problem: Problem,
    C: float,
    step: float,
    n_batches: int,
    visits: tuple[int, ...],
    radius: float,
) -> list[float]:
    """Gaussian DP of all released states at inverse temperature 1, for a record of each batch.

    The last batch, which is the worst, comes first. Records are put into batches at random, so that
    the release is an even mixture: earlier batches may hold a record more, hence are likelier by a
    little, and are cheaper.
    """
    smoothness = problem.curvature + 1.0 / C
    # batches are scaled to the sum over all records; the smallest batch is scaled most
    scale = problem.n_records / (problem.n_records // n_batches)
    # Adding up point and step rounds too, in every step. Those from one visit of the record to its
    # next (of the gradients they are n_batches times one by the scale) count in its own step, which
    # is later and thus dearer. Those after its last visit are paid at once, in a schedule that adds
    # its length to that of the record's own.
    adding = 8.0 * UNIT_ROUNDOFF * radius / step
    sensitivity = scale * problem.computed_sensitivity + adding * n_batches
    each = (problem.computed_sensitivity - problem.sensitivity + adding) * math.sqrt(step / 2.0)
    units = []
    for after in range(n_batches):
        square = 0.0
        for epochs in visits:
            mu = privacy.langevin_mu_cyclic(
                step,
                1.0 / C,
                sensitivity,
                n_batches,
                epochs,
                smoothness=smoothness,
                steps_after=after,
            )
            mu += each * math.sqrt(after)
            if n_batches == 1 and problem.coef_norm is not None:
                diameter = 2.0 * problem.coef_norm
                mu = min(
                    mu,
                    privacy.langevin_mu(step, 1.0 / C, sensitivity, epochs, diameter),
                )
            square += mu * mu
        units.append(math.sqrt(square))
    return units


def plan_density(
    problem: Problem,
    sampler: str,
    *,
    n_chains: int = 4,
    n_transitions: int = 200,
    diagnostics: bool = False,
) -> DensityPlan:
    """Calibrate the density of which ``n_draws`` independent draws are released.

    ``sampler`` is "rejection", "hmc", or "auto": the first where its public bound allows it.
    """
    C, beta, radius, event = _price_density(problem)
    log_tries = _log_tries(problem, C, beta, radius)
    feasible = log_tries <= LARGEST_LOG_TRIES
    exact = sampler == "rejection" or (sampler == "auto" and feasible)
    if exact and not feasible:
        raise CalibrationError(
            f"sampler='rejection' would need up to e^{log_tries:.0f} tries by its public bound for "
            f"{problem.n_records} records and {problem.dimension} coefficients. Use a smaller "
            "coef_norm, epsilon or C, or sampler='hmc' (which is conditional on convergence), or "
            "delta > 0 with sampler='langevin'."
        )
    if problem.dimension > LARGEST_HESSIAN:
        raise CalibrationError(
            f"sampler={sampler!r} handles up to {LARGEST_HESSIAN} coefficients; got "
            f"{problem.dimension}. Use delta > 0 with sampler='langevin'."
        )
    return DensityPlan(
        problem,
        C,
        beta,
        radius,
        event,
        log_tries,
        "rejection" if exact else "hmc",
        n_chains,
        n_transitions,
        diagnostics,
    )


def _price_density(problem: Problem) -> tuple[float, float, float, PrivacyEvent]:
    """Return C, inverse temperature, radius and event."""
    if problem.delta == 0.0:
        return _price_pure(problem)
    mu = problem.target_mu()
    mu_draw = mu / math.sqrt(problem.n_draws)
    C = problem.equilibrium_C(mu_draw) if problem.C is None else problem.C
    radius = math.inf if problem.coef_norm is None else problem.coef_norm
    # on a ball the computed potential is off by a public number, and the density by twice that
    rounding = problem.value_rounding(radius, C)
    beta = privacy.ops_inverse_temperature(mu_draw, C, problem.sensitivity, rounding=rounding)
    event: PrivacyEvent | None = None
    if problem.coef_norm is not None and problem.calibration == "tight":
        loss_range = _loss_range(problem, problem.coef_norm, C)
        bounded = privacy.exponential_mechanism_inverse_temperature(
            problem.epsilon,
            loss_range,
            problem.adjacency,
            delta=problem.delta,
            n_draws=problem.n_draws,
        )
        if bounded > beta:
            beta = bounded
            event = _range_event(problem, _capped(problem, beta), loss_range)
    beta = _capped(problem, beta)
    if event is None:
        each = privacy.ops_mu(beta, C, problem.sensitivity, rounding=rounding)
        event = privacy.GaussianDP(min(mu, math.sqrt(problem.n_draws) * each))
    return C, beta, radius, event


def _price_pure(problem: Problem) -> tuple[float, float, float, PrivacyEvent]:
    """Exponential mechanism on the ball: the range of one loss sets the temperature."""
    radius = problem.coef_norm
    if radius is None:
        radius = PURE_RADIUS / problem.record_norm
    if problem.calibration == "minami2016":
        raise CalibrationError(
            "calibration='minami2016' needs delta > 0; got delta=0. Use 'tight' or 'wang2015'."
        )
    C = problem.C
    if C is None:
        # The prior has standard deviation r / sqrt(2 p), which leaves nearly all its mass in the
        # ball, at the temperature before its own rounding is paid for.
        beta = _pure_temperature(problem, radius, _loss_range(problem, radius, math.inf))
        C = beta * radius**2 / (2.0 * problem.dimension)
    loss_range = _loss_range(problem, radius, C)
    beta = _pure_temperature(problem, radius, loss_range)
    return C, beta, radius, _range_event(problem, beta, loss_range)


def _pure_temperature(problem: Problem, radius: float, loss_range: float) -> float:
    if problem.calibration == "wang2015":
        share = problem.epsilon / problem.n_draws
        beta = privacy.wang2015_inverse_temperature(share, problem.record_norm * radius)
    else:
        beta = privacy.exponential_mechanism_inverse_temperature(
            problem.epsilon, loss_range, problem.adjacency, n_draws=problem.n_draws
        )
    return _capped(problem, beta)


def _capped(problem: Problem, beta: float) -> float:
    return min(1.0, beta) if problem.cap else beta


def _loss_range(problem: Problem, radius: float, C: float) -> float:
    """Range of one loss on the ball, and the rounding of both neighbors' potentials."""
    exact = problem.loss.range(problem.record_norm * radius)
    return exact + 2.0 * problem.value_rounding(radius, C)


def _range_event(problem: Problem, beta: float, loss_range: float) -> PrivacyEvent:
    eta = privacy.exponential_mechanism_epsilon(beta, loss_range, problem.adjacency)
    return privacy.BoundedRange(eta, problem.n_draws)  # independent draws of one density


def _log_tries(problem: Problem, C: float, beta: float, radius: float) -> float:
    """Public bound on the tries of rejection: the losses and the prior rise by at most W.

    Without a ball the potential is at most the prior's with the curvature bound added, and the
    ratio of the two Gaussian integrals is the bound.
    """
    if math.isinf(radius):
        return 0.5 * problem.dimension * math.log1p(C * problem.curvature)
    rise = beta * (problem.n_records * _loss_range(problem, radius, C) + radius**2 / (2.0 * C))
    bound: Any = samplers.log_expected_tries(problem.dimension, beta / C, radius, rise)
    return float(bound)
