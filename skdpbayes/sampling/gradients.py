r"""Stochastic-gradient MCMC for any model that can say the gradient of each record.

**Guarantee.** A step releases a sum over a random batch of vectors that are no longer than
``clip_norm``, whatever the user's function returned, under discrete Gaussian noise on a public
grid, and nothing else of the data; the price is that of `skdpbayes.privacy.SubsampledGaussian`,
composed over the steps. Positions, the prior and everything that follows are post-processing.

**Clipping.** A row with an entry that is not finite counts as zero. Others are scaled to a length
below ``clip_norm`` by a margin that covers the rounding of the length, and cut toward zero to
integer multiples of a power of two, which never lengthens; integers are added exactly. So the sum
moves by at most ``clip_norm`` with a record, or twice that, whatever the order of records and the
size of blocks; so it does with a person, the weights of whose clipped records add up to at most 1.
Only its division by the grid of the noise rounds, which the noise counts in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import models, randomness
from skdpbayes._validation import check_scale
from skdpbayes.estimators.chain.plan import ChainPlan
from skdpbayes.estimators.chain.run import run_chain
from skdpbayes.estimators.chain.settings import Defaults, Settings, read_settings
from skdpbayes.fitting.estimator import make_budget, spent
from skdpbayes.fitting.units import Members
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.sampling.records import (
    ALONE,
    PosteriorDraws,
    blocks,
    count_records,
    read_records,
)

# Fisher scoring needs an information matrix, which nobody has released.
SAMPLERS = ("sgld", "sghmc", "sgnht")
BATCHES, SMALLEST_BATCH = 12, 256
# A chain that diverges is cut here: the user's function never sees infinity.
LARGEST = 1e100


@dataclass(frozen=True)
class GradientPlan:
    """A chain on a model of your own, from public numbers alone.

    Attributes
    ----------
    chain : object
        Batches, noise and steps; ``chain.noise`` is the least noise on a sum of clipped gradients.
    settings : object
        The sampler and its constants.
    event : PrivacyEvent
        The whole chain as accountants see it.
    words, conditions : str, tuple of str
        The mechanism and what its claim rests on.
    """

    chain: ChainPlan
    settings: Settings
    conditions: tuple[str, ...] = (ALONE.format("per_record_gradient"),)

    @property
    def event(self) -> PrivacyEvent:
        """The chain."""
        return self.chain.event

    @property
    def words(self) -> str:
        """The mechanism in words."""
        return f"stochastic-gradient MCMC ({self.settings.sampler}) on a user's gradients"


def plan_chain(
    n_records: int,
    size: int,
    *,
    clip_norm: float,
    step_size: float,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: str = "replace_one",
    sampler: Any = "sgld",
    n_steps: int | str = "auto",
    batch_size: int | str = "auto",
    subsampling: str = "poisson",
    tail: float | str = "auto",
    n_kept: int | str = "auto",
) -> GradientPlan:
    """Plan :func:`chain` without data.

    Parameters
    ----------
    n_records, size : int
        Number of records and of parameters.
    clip_norm, step_size, epsilon, delta, adjacency
        As for :func:`chain`.
    sampler, n_steps, batch_size, subsampling, tail, n_kept
        As for :func:`chain`.

    Returns
    -------
    GradientPlan

    Examples
    --------
    >>> from skdpbayes.sampling import plan_chain
    >>> plan = plan_chain(10_000, 5, clip_norm=1.0, step_size=1e-4, n_steps=100, batch_size=500)
    >>> print(plan.chain.noise)
    gaussian noise of scale 7.071
    """
    options = {
        "sampler": sampler,
        "n_steps": n_steps,
        "batch_size": batch_size,
        "subsampling": subsampling,
        "tail": tail,
        "n_kept": n_kept,
        "clip_norm": clip_norm,
        "step_size": step_size,
    }
    budget = make_budget(epsilon, delta, adjacency, None, None, n_records, stacklevel=3)
    return _plan(budget, n_records, size, options)


def _plan(budget: Budget, n: int, size: int, options: dict[str, Any]) -> GradientPlan:
    for name in ("clip_norm", "step_size"):
        check_scale(name, options[name])
    defaults = Defaults(
        n_steps=400,
        batch_size=min(n, max(SMALLEST_BATCH, n // BATCHES)),
        clip_norm=options["clip_norm"],
        tail=0.5,
        n_kept=100,
        temperature=1.0,
    )
    settings = read_settings(options, n, defaults, SAMPLERS)
    return GradientPlan(settings.plan(budget, n, size), settings)


@dataclass
class Gradients:
    """A user's functions as the potential of a chain."""

    per_record: Callable[[Any, Any], Any]
    prior: Callable[[Any], Any] | None
    data: Any
    n: int
    shape: tuple[int, ...]
    clip_norm: float
    weight: np.ndarray | None = None
    """Weights of the records, those of a person at most 1 together."""
    members: Members | None = None
    """Records of the persons that batches are made of; None where each record is a unit."""

    def __post_init__(self) -> None:
        self.size = math.prod(self.shape)
        # no entry of a clipped gradient is larger than its norm
        self.unit = models.sum_unit(self.n, self.clip_norm)

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of clipped gradients of the negative log-likelihood, and that of the prior's."""
        position = np.fmax(np.fmin(position, LARGEST), -LARGEST)
        total = np.zeros(self.size, dtype=np.int64)
        for records, shares in blocks(self.data, self.weight, self.members, self.size, rows):
            returned = self.rows(position, records, count_records(records))
            total += models.clipped_integers(
                returned, self.clip_norm, self.unit, weight=shares
            ).sum(axis=0)
        return (-self.unit * total).reshape(self.shape), -self.of_prior(position)

    def rows(self, position: np.ndarray, records: Any, n_rows: int) -> np.ndarray:
        """Return what the user's function says of some records, one flat row each."""
        returned = np.asarray(self.per_record(position.copy(), records))
        if returned.shape != (n_rows, *self.shape):
            raise ValueError(
                "per_record_gradient must return one gradient per record, an array of shape "
                f"{(n_rows, *self.shape)}; got {returned.shape}."
            )
        return returned.reshape(n_rows, self.size).astype(np.float64)

    def of_prior(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-prior."""
        if self.prior is None:
            return np.zeros(self.shape)
        prior = np.asarray(self.prior(position.copy()), dtype=np.float64)
        if prior.shape != self.shape:
            raise ValueError(
                f"prior_gradient must return an array of shape {self.shape}; got {prior.shape}."
            )
        return prior

    def rounding(self, n_rows: int) -> float:
        """Bound on what the division by the grid of the noise adds to the distance of two sums."""
        return 4.0 * 2.0**-52 * n_rows * self.clip_norm


def chain(
    per_record_gradient: Callable[[Any, Any], Any],
    prior_gradient: Callable[[Any], Any] | None,
    start: Any,
    data: Any,
    *,
    clip_norm: float,
    step_size: float,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: str = "replace_one",
    sampler: Any = "sgld",
    n_steps: int | str = "auto",
    batch_size: int | str = "auto",
    subsampling: str = "poisson",
    tail: float | str = "auto",
    n_kept: int | str = "auto",
    units: Any = None,
    random_state: Any = None,
    ledger: Any = None,
) -> PosteriorDraws:
    r"""Sample the posterior of any model by private stochastic-gradient MCMC.

    The target is :math:`\pi(\theta)\prod_i p(x_i \mid \theta)`; a step moves along the gradient of
    its logarithm, estimated from a batch of records whose gradients are clipped one by one, and
    adds the larger of the sampler's noise and what privacy needs.

    **Privacy guarantee.** (epsilon, delta)-differentially private for the adjacency chosen, whether
    or not the chain has converged and whatever the functions return: each record's gradient is
    clipped to `clip_norm` here, and one that is not finite counts as zero. The whole chain is paid
    for, so draws and their mean cost nothing more. Public are the number of records, `start` and
    all parameters; with `units` the number of persons, and all records of a person are protected
    together. The claim rests on one condition, which ``privacy_.conditions`` repeats: each
    row of the gradients comes from its own record alone (:func:`check_per_record` tests it).

    Parameters
    ----------
    per_record_gradient : callable
        Takes the parameters, an array of the shape of `start`, and some records in the form of
        `data`, and returns the gradients of their log-likelihoods, shape (n_records, \*shape). For
        JAX, ``jax.vmap(jax.grad(log_likelihood), (None, 0))``.
    prior_gradient : callable or None
        Takes the parameters and returns the gradient of the log-prior; None for a flat prior.
    start : array-like
        Where the chain starts; public, so not an estimate from the data.
    data : array-like, or tuple of them
        One entry per record along the first axis.
    clip_norm : float
        Length to which the gradient of each record is clipped. Noise is in proportion to it.
    step_size : float
        Step on the gradient of the log-posterior. A stable step of ``"sgld"`` is below one over its
        largest curvature, about the number of records times that of one; of ``"sghmc"`` and
        ``"sgnht"``, which step positions and momenta, below one over the root of it.
    epsilon, delta : float, default=1.0, 1e-5
        The budget. An infinite epsilon samples without private noise; gradients are clipped all the
        same.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects.
    sampler : {"sgld", "sghmc", "sgnht"} or dict, default="sgld"
        Its kind, or a mapping with ``kind`` and, where wanted, ``schedule``, ``friction`` and
        ``temperature``, as for `~skdpbayes.DPSGLDClassifier`.
    n_steps : int or "auto", default="auto"
        Number of steps; 400.
    batch_size : int or "auto", default="auto"
        Expected size of a batch; a twelfth of the records, at least 256.
    subsampling : {"poisson", "fixed"}, default="poisson"
        Batches of random or of fixed size.
    tail : float or "auto", default="auto"
        Share of the steps at the end that is kept; 0.5.
    n_kept : int or "auto", default="auto"
        Number of states of the tail kept as draws; 100.
    units : array-like of shape (n_records,), default=None
        Whose each record is: ids of persons. Their clipped gradients are weighted to one record
        per person, and batches are samples of persons.
    random_state : int, Generator or None, default=None
        Secure if None.
    ledger : PrivacyLedger or None, default=None
        Charged before the data are used.

    Returns
    -------
    PosteriorDraws
        With the noise of a step in ``plan.chain.noise``.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Algorithm 2.
    .. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and
       differential privacy. AISTATS 2019. Algorithm 1.

    Examples
    --------
    A robust mean in two dimensions.

    >>> import numpy as np
    >>> from skdpbayes.sampling import chain
    >>> x = np.random.default_rng(0).normal([1.0, -2.0], 1.0, (5000, 2))
    >>> drawn = chain(lambda mean, x: x - mean, lambda mean: -mean / 100.0, np.zeros(2), x,
    ...               clip_norm=2.0, step_size=5e-5, epsilon=1.0, random_state=0)
    >>> drawn.draws.shape, bool(np.abs(drawn.mean - [1.0, -2.0]).max() < 0.2)
    ((100, 2), True)
    """
    options = {
        "sampler": sampler,
        "n_steps": n_steps,
        "batch_size": batch_size,
        "subsampling": subsampling,
        "tail": tail,
        "n_kept": n_kept,
        "clip_norm": clip_norm,
        "step_size": step_size,
    }
    records = read_records(data, units)
    n = records.n
    position = np.array(start, dtype=np.float64, ndmin=1)
    if position.size == 0 or not np.isfinite(position).all():
        raise ValueError("start must hold finite numbers, at least one.")
    budget = make_budget(
        epsilon, delta, adjacency, ledger, random_state, n, unit=records.unit, stacklevel=3
    )
    plan = _plan(budget, n, position.size, options)
    generator = randomness.make_generator(random_state)
    claim = budget.reserve(plan, "chain")
    with spent(ledger):
        potential = Gradients(
            per_record_gradient,
            prior_gradient,
            records.data,
            n,
            position.shape,
            plan.chain.clip_norm,
            records.weight,
            records.members,
        )
        settings = plan.settings
        dynamics = settings.dynamics(float(step_size), plan.chain.gradient_noise)
        result = run_chain(
            potential,
            plan.chain,
            dynamics,
            position,
            generator,
            tail=settings.tail,
            n_kept=settings.n_kept,
        )
    return PosteriorDraws(result.draws, result.mean, result.temperature, claim, plan)
