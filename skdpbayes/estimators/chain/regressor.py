"""Regressions whose coefficients are a private stochastic-gradient Markov chain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.utils.extmath import safe_sparse_dot

from skdpbayes import models, privacy, randomness
from skdpbayes._validation import check_choice
from skdpbayes.estimators._regressor import PrivateRegressor, TargetScale
from skdpbayes.estimators.chain.coordinates import Coordinates
from skdpbayes.estimators.chain.inference import CountAnswers, ErrorAnswers, ScoreEquation
from skdpbayes.estimators.chain.linear import LARGEST_EDGE as LARGEST_EDGE_OF_LABELS
from skdpbayes.estimators.chain.linear import (
    ChainPosterior,
    LinearChain,
    LinearChainPlan,
    LinearRun,
    run_linear,
)
from skdpbayes.estimators.chain.plan import check_delta
from skdpbayes.estimators.chain.potential import LARGEST, CoefficientPrior, chain_blocks
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import ChunkedRecords, Numbers
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.sensitivity import moved

if TYPE_CHECKING:
    from skdpbayes.privacy.events import PrivacyEvent
    from skdpbayes.privacy.guarantee import Adjacency

LOSSES = ("squared", "huber", "poisson")
# Targets are counted in units of this share of their half range: about the size of errors where the
# bounds are four deviations of them away, as tables in the user guide are.
ERROR_UNIT = 0.25
# Share of what the moments leave of the (Gaussian) budget, for the scale of errors or of counts.
SCALE_SHARE = 0.05
# Errors beyond this many units count as this large in their scale.
LARGEST_ERROR = 2.0
# Gradients of errors are clipped to one unit, or where noise is small to at most so many units as
# the second number says, and where it is larger than the errors to at least the first.
LEAST_CLIP, MOST_CLIP = 0.25, 3.0
# Moments of the rows are worth their price if noise alone has eigenvalues below this, of a trace of
# 1. This and the rule for large noise were chosen on simulations and on splits of the training rows
# of Abalone, CPS earnings and RAND.
LARGEST_EDGE = 0.1
# Steps of a chain; the second where the noise is below this share of the errors and records are
# more than this, so that passes take time.
N_STEPS, FEW_STEPS, SMALL_NOISE, MANY_RECORDS = 100, 40, 0.05, 50_000
# Width of the Huber loss, in units of errors: 95 % as efficient as squares if they are normal.
HUBER_WIDTH = 1.345
# Coefficients of the chain are about this large, in units of errors.
SIGNAL = 2.0
# Gradients of counts are clipped at this many deviations of a count; at 1.5 times that where the
# number of records times the budget's mu over the distance of neighbors is beyond the last number.
COUNT_CLIP, MANY_COUNTS = 3.0, 1000.0
# A rate of counts may be this many times the typical one in the whole of a direction.
MOST_RATE = 4.0
# The mean count is at least this share of the largest, whatever noise says.
LEAST_RATE = 1e-3
NEGATIVE = "y has negative entries, which are no counts; loss='poisson'."


class DPSGLDRegressor(LinearChain, PrivateRegressor):
    r"""Bayesian regression by differentially private stochastic-gradient MCMC.

    The chain of `~skdpbayes.DPSGLDClassifier` on another loss: it samples

    .. math::

        p(\theta \mid X, y) \propto \pi(\theta) \exp\Big(-\sum_i \ell(x_i^\top\theta, y_i)\Big)

    with squared errors (normal errors of unknown variance), Huber's loss, or the likelihood of
    Poisson counts with rates :math:`e^{x^\top\theta}`. Every step adds noise to a sum of gradients
    that are clipped, record by record. Clipping the gradient of squared errors keeps the regression
    consistent where errors are symmetric, and noise is in proportion to a typical error instead of
    the largest possible one: therefore a chain needs fewer records than noisy moments do
    (`~skdpbayes.PrivateBayesianRidge`). The mean of all noisy gradients is solved for the
    coefficients, with the clipping undone: that is ``coef_`` (for counts: the middle of
    ``interval``), and its uncertainty, noise included, is in ``interval``.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record, row and target, replaced by another, or (``"zero_out"``) by a null record
    that contributes nothing. The number of records is public, as are all parameters; ``data_norm``
    and ``target_bounds`` are assumed public: longer rows are scaled down, targets outside are
    clipped. Released, each under its own share of the budget: the noisy gradient of every step and
    with them the whole chain, the moments of the rows from which the coordinates of the chain are
    made (``preconditioner``), and one number: the sum of absolute errors, cut at a quarter of the
    target's range, at the mean of the chain, or for counts their sum. Everything else is computed
    from these and costs nothing more. The claim is unconditional: it does not matter whether the
    chain has converged. Sums over records are exact integers on a public grid, equal to the last
    bit for any order, blocks and threads; noise is sampled exactly on a grid, and what rounding
    adds to the sensitivity is in it. With ``units`` all records of a person, weighted to one after
    they are clipped, take the place of a record: they change together, batches are samples of
    persons, and the number of persons is public while that of records is not. With an int
    ``random_state`` the guarantee needs the seed to stay secret. Every refit is a new release, and
    cross-validation pays once per fold.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` samples the posterior without
        private noise, on rows and targets as they are; the variance of the errors is then the one
        that their residuals have at the posterior's mode.
    delta : float, default=1e-5
        In (0, 1). Probability mass on which epsilon may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    data_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it, in ``fit`` and in
        every prediction alike.
    target_bounds : (low, high), default=None
        Public bounds of the target; required. Targets outside are clipped. For counts the lower
        one is at least 0, and no rate exceeds the upper one.
    loss : {"squared", "huber", "poisson"}, default="squared"
        "huber" is linear beyond 0.17 times the target's range (1.345 deviations of the errors for
        ``epsilon=np.inf``), so that large errors matter less. "poisson" is for counts.
    prior : {"normal", "cauchy"}, default="normal"
        Independent priors of the coefficients and the intercept.
    prior_scale : float, pair of floats or "auto", default="auto"
        Scale of the priors, in half-ranges of the target (for "poisson" on the logarithmic scale):
        one number, or one for the coefficients and one for the intercept, which is counted from the
        middle of ``target_bounds`` (from the mean count). "auto" is 1 / ``data_norm`` and 1; what
        follows from the release is then averaged over narrower priors of the coefficients, too, by
        how likely they make it (where there are intervals, and not for "poisson").
    fit_intercept : bool, default=True
        Whether to add an intercept.
    sampler : {"sgld", "sghmc", "sgnht", "sgfs"} or mapping, default="sgld"
        As in `~skdpbayes.DPSGLDClassifier`.
    clip_norm : float or "auto", default="auto"
        Bound on the norm of one record's gradient in the coordinates of the chain, where rows have
        length about 1, in units of an eighth of the target's range ("poisson": of the root of the
        mean count). "auto" is 1, rises to 3 where records and budget are plenty and falls to 0.25
        where noise exceeds the errors ("poisson": 3, or 4.5).
    batch_size : int or "auto", default="auto"
        Expected size of a batch, with ``units`` in persons. "auto" takes all records up to 131,072:
        large batches have the least noise per record.
    n_steps : int or "auto", default="auto"
        Number of steps; "auto" is 100, 40 for "poisson" and beyond 50,000 records with little
        noise, and 500 for ``epsilon=np.inf``.
    step_size : float or "auto", default="auto"
        The step on the sum of losses, in the coordinates of the chain. "auto" follows from n, the
        noise and the released coordinates.
    subsampling : {"poisson", "fixed"}, default="poisson"
        Every record independently with the same probability, or batches of fixed size.
    preconditioner : "auto", float, ndarray or None, default="auto"
        Coordinates of the chain, as in `~skdpbayes.DPSGLDClassifier`: a number in (0, 1) is the
        share of the (Gaussian) budget that releases the moments of the rows, "auto" 0.2 where there
        are enough records for it and None otherwise; an array is a public covariance matrix.
    tail : float or "auto", default="auto"
        Fraction of the chain, at its end, that is averaged and that draws are taken from, in
        (0, 1]. "auto" is 0.5 (0.9 for ``epsilon=np.inf``, where the chain starts at the mode).
    n_kept : int or "auto", default="auto"
        Number of states of the tail that are kept as draws, or all if it has fewer; "auto" is 50.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        None: a cryptographically secure generator. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Released: the coefficients that the noisy gradients tell; for "poisson", and where there
        are no intervals, the average of the tail of the chain.
    intercept_ : float
        Released with it.
    noise_variance_ : float
        Released: variance of the errors. Not for "poisson".
    temperature_ : float
        Released: mean temperature of the tail; 1 where privacy is free. Only of "sgld" and "sghmc".
    noise_ : Noise
        Public: least noise that a step adds to its sum of clipped gradients, in the units of
        ``clip_norm``.
    clip_norm_ : float
        Public: the clipping norm that was used.
    step_size_ : float
        Released: the first step.
    n_steps_ : int
        Public: number of steps.
    batch_size_ : int
        Public: expected batch size.
    privacy_ : PrivacyGuarantee
        Public: the claim, with its privacy profile.

    See Also
    --------
    skdpbayes.PrivateBayesianRidge : One release of moments; pure privacy, shards, any number of
        models for one price.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Algorithms 2 and 4, figure 1.
    .. [2] P. J. Huber. Robust estimation of a location parameter. Annals of Mathematical
       Statistics 35, 1964.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import DPSGLDRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3)) / np.sqrt(3)
    >>> y = 40 + 30 * X[:, 0] - 10 * X[:, 1] + rng.normal(0, 5, 20_000)
    >>> model = DPSGLDRegressor(epsilon=1.0, target_bounds=(0, 100), random_state=0).fit(X, y)
    >>> model.privacy_.epsilon, model.privacy_.conditions
    (1.0, ())
    >>> low, high = model.interval(0.9)["coef"][0]
    >>> bool(low < 30 < high)
    True
    >>> mean, deviation = model.predict(X[:2], return_std=True)
    >>> bool(np.all((4 < deviation) & (deviation < 6)))
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        target_bounds: Any = None,
        loss: str = "squared",
        prior: str = "normal",
        prior_scale: Any = "auto",
        fit_intercept: bool = True,
        sampler: Any = "sgld",
        clip_norm: float | str = "auto",
        batch_size: int | str = "auto",
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        subsampling: str = "poisson",
        preconditioner: Any = "auto",
        tail: float | str = "auto",
        n_kept: int | str = "auto",
        random_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.loss = loss
        self.prior = prior
        self.prior_scale = prior_scale
        self.fit_intercept = fit_intercept
        self.sampler = sampler
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.step_size = step_size
        self.subsampling = subsampling
        self.preconditioner = preconditioner
        self.tail = tail
        self.n_kept = n_kept
        self.random_state = random_state
        self.ledger = ledger

    def _model(self) -> ErrorModel | CountModel:
        kind = check_choice("loss", self.loss, LOSSES)
        if kind == "poisson":
            scale = TargetScale.from_bounds(self.target_bounds, centered=False)
            if scale.low < 0.0:
                raise ValueError(
                    "target_bounds of counts must not be negative with loss='poisson'; got "
                    f"{self.target_bounds!r}."
                )
            return CountModel(scale)
        scale = PrivateRegressor._target_scale(self)
        return ErrorModel(scale, HUBER_WIDTH if kind == "huber" else math.inf)

    def _target_scale(self) -> TargetScale:
        return self._model().target

    def _read(self, X: Any, y: Any) -> Any:
        model = self._model()
        rows = super()._read(X, y)
        if isinstance(rows, ChunkedRecords):
            return rows
        assert rows.target is not None
        if isinstance(model, CountModel) and np.any(np.asarray(y) < 0):
            raise ValueError(NEGATIVE)
        return replace(rows, target=rows.target * (model.target.half / model.unit))

    def _numbers(self, scale: Callable[[np.ndarray], np.ndarray]) -> Numbers:
        model = self._model()
        negative = NEGATIVE if isinstance(model, CountModel) else None
        return Numbers(partial(_in_units, scale, model), negative)

    def _loss(self, public: Public) -> models.Loss:
        return self._model().loss()

    def _default_prior(self, public: Public) -> tuple[float, float]:
        return 1.0 / float(self.data_norm), 1.0

    def _prior(self, public: Public) -> CoefficientPrior:
        return super()._prior(public).in_units(self._model().prior_unit)

    def _default_clip(self, public: Public, budget: Budget, whitened: bool) -> float:
        return self._model().default_clip(public, budget)

    def _default_steps(self, public: Public, budget: Budget) -> int:
        return self._model().default_steps(public, budget)

    def _largest_edge(self) -> float:
        return self._model().largest_edge

    def _plan(self, public: Public, budget: Budget) -> RegressionPlan:
        model = self._model()
        mu = math.inf
        setup: tuple[PrivacyEvent, ...] = ()
        if budget.private:
            check_delta(budget.delta)
            spent = self._moments_mu(public, budget)
            left = math.sqrt(privacy.gdp_mu(budget.epsilon, budget.delta) ** 2 - spent**2)
            mu = left * math.sqrt(SCALE_SHARE)
            setup = (privacy.GaussianDP(mu),)
        linear = self._linear_plan(public, budget, setup=setup)
        learned = isinstance(self.prior_scale, str)
        return RegressionPlan(replace(linear, signal=model.signal), model, mu, learned)

    def _touch(
        self, rows: Records, plan: RegressionPlan, generator: np.random.Generator
    ) -> RegressionPosterior:
        with one_blas_thread():
            coordinates = plan.linear.coordinates(rows, generator)
            return plan.model.run(plan, rows, coordinates, generator)


def _in_units(
    scale: Callable[[np.ndarray], np.ndarray], model: ErrorModel | CountModel, target: np.ndarray
) -> np.ndarray:
    """Targets in the model's units."""
    return scale(target) * (model.target.half / model.unit)


@dataclass(frozen=True, eq=False)
class RegressionPlan:
    """A chain on a regression, and the release of one number that tells a scale."""

    linear: LinearChainPlan
    model: ErrorModel | CountModel
    scale_mu: float
    """Gaussian DP of that number; infinite without privacy."""
    learned_prior: bool
    """Whether the scale of the prior follows from the release."""

    @property
    def event(self) -> PrivacyEvent:
        """Moments, scale and chain."""
        return self.linear.event

    @property
    def words(self) -> str:
        """The mechanism in words."""
        return self.linear.words

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the claim rests on."""
        return self.linear.conditions

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return self.linear.numbers()

    def release_sum(self, total: float, largest: float, generator: np.random.Generator) -> float:
        """Release a sum of numbers in [0, largest], one per record, or averages of them per person.

        The number of records (of persons) is public, so half of the largest is subtracted from
        every one first: a null record that adds nothing stands for the middle.
        """
        chain = self.linear.chain
        n = chain.n_samples
        # the sum is rounded when it becomes a float and when the middle is subtracted, in both of
        # two data sets; the numbers of a person are rounded when they are weighted
        moves = 0.5 * largest * moved(chain.adjacency) + n * largest * 2.0**-49
        scale = randomness.release_scale(1.0 / self.scale_mu, moves, 1)
        middle = 0.5 * largest * n
        noisy = randomness.release_gaussian(
            randomness.spawn(generator, 1)[0], np.array([total - middle]), scale
        )
        return float(noisy[0]) + middle


@dataclass(frozen=True)
class ErrorModel:
    """Targets on a line with symmetric errors, in units of errors."""

    target: TargetScale
    width: float
    """Of Huber's loss; infinite for squares."""
    signal = SIGNAL
    prior_unit = ERROR_UNIT
    largest_edge = LARGEST_EDGE

    @property
    def unit(self) -> float:
        """The unit of errors."""
        return ERROR_UNIT * self.target.half

    def loss(self) -> models.Loss:
        """Return the loss of targets in units of errors."""
        reach = 1.0 / ERROR_UNIT
        if math.isinf(self.width):
            return models.SquaredLoss(reach)
        return models.HuberLoss(self.width, reach)

    def default_clip(self, public: Public, budget: Budget) -> float:
        """What has the least variance, of the errors and of the noise together, for normal errors.

        At least one unit, unless the noise is larger than the errors: with less, noise in the rows'
        moments hurts. The noise counts half, because clipping also biases where errors are skewed.
        """
        noise = _noise_share(public, budget)
        if noise > 1.0:
            return max(LEAST_CLIP, 1.0 / noise)
        noise *= 0.5
        clips = np.linspace(1.0, MOST_CLIP, 41)
        inside = 2.0 * ndtr(clips) - 1.0
        errors = np.array([_mean_square(clip) for clip in clips])
        return float(clips[np.argmin((errors + noise * clips**2) / inside**2)])

    def default_steps(self, public: Public, budget: Budget) -> int:
        """Fewer where noise is small: then their number hardly matters, but takes time."""
        few = public.n > MANY_RECORDS and _noise_share(public, budget) < SMALL_NOISE
        return FEW_STEPS if few else N_STEPS

    def run(
        self,
        plan: RegressionPlan,
        rows: Records,
        coordinates: Coordinates,
        generator: np.random.Generator,
    ) -> RegressionPosterior:
        """Run the chain, learn the scale of the errors, solve for the coefficients."""
        unit, linear = self.unit, plan.linear
        if linear.chain.private:
            run = run_linear(linear, rows, coordinates, generator)
            scale = self._released_scale(plan, run, rows, generator)
        else:
            factor = self._exact_scale(linear, rows, coordinates)
            assert rows.target is not None
            unit, scale = unit * factor, 1.0
            linear = replace(
                linear,
                prior=linear.prior.in_units(factor),
                loss=replace(linear.loss, reach=linear.loss.reach / factor),  # type: ignore[type-var]
            )
            rows = replace(rows, target=rows.target / factor)
            run = run_linear(linear, rows, coordinates, generator)
        chain = run.posterior(rows.bound, ErrorAnswers(scale, self.width))
        coef, intercept = chain.coef[0], float(chain.intercept[0])
        if isinstance(chain.inference, ScoreEquation):
            equation = replace(chain.inference, learned_prior=plan.learned_prior)
            chain, solved = replace(chain, inference=equation), equation.center()
            coef, intercept = solved[:-1], float(solved[-1])
        shift = self.target.middle
        return RegressionPosterior(
            unit * coef,
            unit * intercept + shift,
            (unit * scale) ** 2,
            chain,
            unit,
            shift,
            None,
            rows.bound,
        )

    def _exact_scale(
        self, linear: LinearChainPlan, rows: Records, coordinates: Coordinates
    ) -> float:
        """Deviation of the errors around the posterior's mode: Huber's second proposal.

        Of squared errors it is the root of their mean.
        """
        blocks, factor = chain_blocks(rows, None), 1.0
        start: np.ndarray | None = None
        for _ in range(20):
            plan = replace(
                linear,
                prior=linear.prior.in_units(factor),
                loss=replace(linear.loss, reach=linear.loss.reach / factor),  # type: ignore[type-var]
            )
            scaled = tuple(
                block._replace(target=np.asarray(block.target) / factor) for block in blocks
            )
            potential = plan.potential(scaled, coordinates)[1]
            mode = potential.mode(np.zeros(potential.shape) if start is None else start)
            coef, intercept = potential.coordinates.coefficients(mode)
            squares, count = 0.0, 0.0
            for block in scaled:
                error = np.asarray(block.X @ coef[0]).ravel() + intercept[0] - block.target
                weight = np.ones(error.shape[0]) if block.weight is None else block.weight
                squares += float(weight @ np.square(np.minimum(np.abs(error), self.width)))
                count += float(weight.sum())
            change = max(math.sqrt(squares / count / _mean_square(self.width)), 1e-9)
            factor, start = factor * change, mode / change
            if abs(change - 1.0) < 1e-6 or factor < 1e-9:
                break
        return max(factor, 1e-9)

    def _released_scale(
        self, plan: RegressionPlan, run: LinearRun, rows: Records, generator: np.random.Generator
    ) -> float:
        """Release the sum of the absolute errors at the chain's mean; solve for their deviation.

        What the noise of the chain adds to the errors at its mean is known and subtracted.
        """
        linear, grid = plan.linear, plan.linear.grid
        assert grid is not None
        # the mean of a chain that has diverged is cut: post-processing
        theta = np.nan_to_num(np.column_stack(run.mean), posinf=LARGEST, neginf=-LARGEST)
        np.clip(theta, -LARGEST, LARGEST, out=theta)
        total = rows.total(models.absolute_errors, theta, linear.loss, LARGEST_ERROR, grid)
        exact = models.read_errors(total, LARGEST_ERROR, grid)
        mean = plan.release_sum(exact, LARGEST_ERROR, generator) / linear.chain.n_samples
        scale = _deviation(mean / LARGEST_ERROR) * LARGEST_ERROR
        chain, coordinates = linear.chain, run.coordinates
        bound = min(self.width, chain.clip_norm)
        inside = 2.0 * float(ndtr(bound / scale)) - 1.0
        curvature = inside * chain.n_samples / coordinates.dimension
        noise = chain.gradient_noise**2 / (linear.settings.tail * chain.n_steps)
        extra = noise / curvature**2 * (1.0 + coordinates.constant**2)
        return math.sqrt(max(scale**2 - extra, 0.05 * scale**2))


@dataclass(frozen=True)
class CountModel:
    """Counts whose logarithmic rate is on a line."""

    target: TargetScale
    signal = 1.0
    prior_unit = 1.0
    unit = 1.0
    largest_edge = LARGEST_EDGE_OF_LABELS

    def loss(self) -> models.PoissonLoss:
        """Return the loss of counts, before their mean is known."""
        return models.PoissonLoss(self.target.high)

    def default_clip(self, public: Public, budget: Budget) -> float:
        """A few deviations of a count: skew errors that are clipped at less are biased."""
        mu = privacy.gdp_mu(budget.epsilon, budget.delta)
        many = public.n * mu / moved(budget.adjacency) > MANY_COUNTS
        return 1.5 * COUNT_CLIP if many else COUNT_CLIP

    def default_steps(self, public: Public, budget: Budget) -> int:
        """Few: more made predictions of counts worse."""
        return FEW_STEPS

    def run(
        self,
        plan: RegressionPlan,
        rows: Records,
        coordinates: Coordinates,
        generator: np.random.Generator,
    ) -> RegressionPosterior:
        """Release the mean count, then run the chain on rates relative to it.

        Rows are shortened by the root of the mean count, so that gradients are in units of it and
        the curvature is about 1.
        """
        cap, linear = self.target.high, plan.linear
        base = self._mean_count(plan, rows, generator)
        loss = models.PoissonLoss(cap, base)
        linear = replace(linear, loss=loss, curvature=(base, min(cap, MOST_RATE * base)))
        if linear.chain.private:
            coordinates = coordinates.scaled(1.0 / math.sqrt(base))
        run = run_linear(linear, rows, coordinates, generator)
        chain = run.posterior(rows.bound, CountAnswers(loss))
        shift = math.log(base)
        return RegressionPosterior(
            chain.coef[0],
            float(chain.intercept[0]) + shift,
            None,
            chain,
            1.0,
            shift,
            replace(loss, base=1.0),
            rows.bound,
        )

    def _mean_count(
        self, plan: RegressionPlan, rows: Records, generator: np.random.Generator
    ) -> float:
        cap, n = self.target.high, plan.linear.chain.n_samples
        if plan.linear.chain.private:
            grid = models.Grid(n, plan.linear.longest)
            # errors of predictions that are 0: the counts themselves
            theta = np.zeros((1, rows.public.n_features + 1))
            total = rows.total(models.absolute_errors, theta, models.SquaredLoss(cap), cap, grid)
            exact = models.read_errors(total, cap, grid)
            mean = plan.release_sum(exact, cap, generator) / n
        else:
            assert rows.target is not None
            mean = float(np.average(rows.target, weights=rows.weight))
        return min(max(mean, LEAST_RATE * cap), cap)


def _noise_share(public: Public, budget: Budget) -> float:
    """Variance of the noise on a coefficient, gradients clipped to 1, over that of unit errors."""
    mu = privacy.gdp_mu(budget.epsilon, budget.delta)
    dimension = max(1.0, public.n_features / 2.0)
    return dimension / public.n * (moved(budget.adjacency) / mu) ** 2


def _deviation(share: float) -> float:
    """Invert E min(|s e|, 1) for standard normal e, as a function of s."""

    def mean(s: float) -> float:
        density = (1.0 - math.exp(-0.5 / s**2)) / math.sqrt(2.0 * math.pi)
        return 2.0 * s * density + 2.0 * float(ndtr(-1.0 / s)) - share

    share = min(max(share, 0.004), 0.98)
    return float(brentq(mean, 1e-3, 100.0))


def _mean_square(width: float) -> float:
    """E min(|e|, w)^2 for standard normal e."""
    if math.isinf(width):
        return 1.0
    density = math.exp(-0.5 * width**2) / math.sqrt(2.0 * math.pi)
    tail = float(ndtr(-width))
    return 1.0 - 2.0 * tail - 2.0 * width * density + 2.0 * width**2 * tail


@dataclass(frozen=True, eq=False)
class RegressionPosterior:
    """A chain in units of errors, and what it says in the target's own units."""

    coef: np.ndarray
    intercept: float
    noise_variance: float | None
    """Of the errors; None for counts."""
    chain: ChainPosterior
    unit: float
    shift: float
    """Of intercepts: the middle of the target, or the logarithm of the mean count."""
    link: models.PoissonLoss | None
    """Whose mean function turns scores into rates; None if scores are means."""
    bound: Bound

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return 2 * self.coef.shape[0] + 2

    @property
    def missing(self) -> dict[str, str]:
        """Intervals, where the release does not tell enough."""
        return self.chain.missing

    def attributes(self) -> dict[str, Any]:
        """Return coefficients and scales, all released."""
        shown = self.chain.attributes() | {"coef_": self.coef, "intercept_": self.intercept}
        if self.noise_variance is not None:
            shown["noise_variance_"] = self.noise_variance
        return shown

    def _scores(self, X: Any) -> np.ndarray:
        scores = safe_sparse_dot(self.bound(X), self.coef, dense_output=True) + self.intercept
        return np.asarray(scores, dtype=np.float64)

    def mean(self, X: Any) -> np.ndarray:
        """Expectation of the target."""
        scores = self._scores(X)
        return scores if self.link is None else self.link.mean(scores)

    def deviation(self, X: Any) -> np.ndarray:
        """Standard deviation of a new target: coefficients that are not known, and errors."""
        rows = self.bound(X)
        d = self.coef.shape[0]
        spread = self._covariance
        product = safe_sparse_dot(rows, spread[:d, :d], dense_output=True)
        if hasattr(rows, "multiply"):
            square = np.asarray(rows.multiply(product).sum(axis=1)).ravel()
        else:
            square = np.einsum("ij,ij->i", rows, product, dtype=np.float64)
        cross = safe_sparse_dot(rows, spread[:d, d], dense_output=True)
        variance = np.maximum(square + 2.0 * np.asarray(cross).ravel() + spread[d, d], 0.0)
        if self.link is None:
            assert self.noise_variance is not None
            return np.sqrt(variance + self.noise_variance)
        rate = self.mean(X)
        return np.asarray(np.sqrt(np.square(rate) * variance + rate))

    @cached_property
    def _covariance(self) -> np.ndarray:
        """Covariance of coefficients and intercept given the release, (d + 1, d + 1)."""
        if self.chain.missing:  # no intervals: the states of the chain
            table = np.column_stack([self.chain.states.coef[:, 0], self.chain.states.intercept])
            centered = table - table.mean(axis=0)
            covariance = centered.T @ centered / table.shape[0]
        else:
            normal = self.chain.normal
            centered = normal.means - normal.mean
            covariance = centered.T @ centered / centered.shape[0]
            covariance += np.einsum("sij,skj->ik", normal.roots, normal.roots) / centered.shape[0]
        return np.asarray(self.unit**2 * covariance)

    def _mapped(self, table: dict[str, np.ndarray], axis: int) -> dict[str, np.ndarray]:
        """Coefficients in the target's units, without the axis of outputs."""
        coef, intercept = table["coef"].squeeze(axis), table["intercept"].squeeze(axis)
        return {"coef": self.unit * coef, "intercept": self.unit * intercept + self.shift}

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return the ends of central intervals."""
        return self._mapped(self.chain.interval(level), 0)

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return states of the chain, evenly spaced or chosen at random."""
        return self._mapped(self.chain.draws(n_samples, random_state), 1)

    def noise_aware_draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw from the distribution behind the intervals."""
        return self._mapped(self.chain.noise_aware_draws(n_samples, random_state), 1)
