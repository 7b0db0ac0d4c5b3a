r"""One posterior sample of any model: the exponential mechanism for a bounded log-likelihood.

**Guarantee.** The points :math:`\theta_j` and the log-prior at them are public. The log-likelihood
of each record is clamped to a public interval :math:`[a, b]` of width *w* and rounded to one of
:math:`2^k` equal steps of it, so that sums over records are exact integers. A point is drawn with
probability proportional to :math:`\pi_j e^{\rho\sum_i\ell_i(\theta_j)}`. When a record is replaced,
the sum changes by a difference of two functions with values in :math:`[a, b]`, so the privacy loss
lies in an interval of length :math:`2\rho w`; when it is taken away, of :math:`\rho w`: a
bounded-range mechanism, for every function that a user may pass. A person's records have weights
that add up to at most 1, whole multiples of :math:`2^{-16}`, so that her part of the sum has the
range of one record, and sums remain integers.

**Points or a chain.** On points the draw is exact. Without them a Metropolis chain walks on a
public lattice of parameters; its stationary law is the same mechanism on that lattice, and what the
claim assumes, that the chain has got there, is among its conditions: a distance in total variation
of *tv* adds :math:`(1+e^\varepsilon)\,tv` to delta (Proposition 10 of Wang et al. 2015).

**Arithmetic.** The sum at a point minus the sum at the best point is an exact integer. Log-weights
are cut at 700 below the largest, which keeps the range (the maximum of two functions that both
change by something in an interval changes by something in that interval), so every weight is a
positive double; it becomes an integer of at least 50 bits, and a point is chosen by an integer
drawn evenly from their sum. No weight is off by more than :math:`10^{-11}` relatively, for which
the range that is aimed at leaves room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import randomness
from skdpbayes._validation import check_choice, check_flag, check_integer, check_real
from skdpbayes.exceptions import CalibrationError
from skdpbayes.fitting.estimator import make_budget, spent
from skdpbayes.fitting.units import WHOLE
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.events import BoundedRange, NoPrivacy, PrivacyEvent
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.sampling.records import (
    ALONE,
    OwnRecords,
    PosteriorDraws,
    blocks,
    count_records,
    read_records,
)

CALIBRATIONS = ("bounded_range", "wang2015")
# Log-weights this far below the largest are raised to it; a double holds their exponential.
DEEPEST = 700.0
WEIGHT_BITS = 1075
# Room for the rounding of weights, per draw; see the module's docstring.
ROUNDING = 4e-11
# A log-prior of a wider range would cost precision in the weights.
WIDEST_PRIOR = 1000.0
MOST_BITS = 40
# A chain moves on a lattice this much finer than its proposals.
LATTICE_BITS = 20
CONVERGED = "a Markov chain of {:,} steps has reached the tempered posterior that it samples"


@dataclass(frozen=True)
class SamplePlan:
    """What one posterior sample releases, from public numbers alone.

    Attributes
    ----------
    event : PrivacyEvent
        The draws as accountants see them.
    temper : float
        Power of the likelihood, :math:`\\rho` in the papers; one over it is the temperature.
    bound : (float, float)
        Interval that log-likelihoods are clamped to.
    temper_prior : bool
        Whether the prior is raised to the same power.
    n_draws : int
        Independent draws.
    words, conditions : str, tuple of str
        The mechanism and what its claim rests on.
    """

    event: PrivacyEvent
    temper: float
    bound: tuple[float, float]
    temper_prior: bool
    n_draws: int
    words: str = "draws from a tempered posterior on public points"
    conditions: tuple[str, ...] = (ALONE.format("log_likelihood"),)


def plan_one_posterior_sample(
    *,
    bound: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: str = "replace_one",
    n_draws: int = 1,
    calibration: str = "bounded_range",
    temper_prior: bool = False,
    n_steps: int | None = None,
) -> SamplePlan:
    """Plan :func:`one_posterior_sample` without data.

    Parameters
    ----------
    bound, epsilon, delta, adjacency, n_draws, calibration, temper_prior
        As for :func:`one_posterior_sample`.
    n_steps : int, default=None
        Of the chain, where there are no points; None for points.

    Returns
    -------
    SamplePlan

    Examples
    --------
    >>> from skdpbayes.sampling import plan_one_posterior_sample
    >>> plan_one_posterior_sample(bound=(-5.0, 0.0), epsilon=1.0).temper  # epsilon / (2 * 5)
    0.0999999999...
    >>> plan_one_posterior_sample(bound=5.0, epsilon=1.0, calibration="wang2015").temper
    0.04999999999...
    """
    budget = make_budget(epsilon, delta, adjacency, None, None, 1, stacklevel=3)
    return _plan(budget, bound, n_draws, calibration, temper_prior, n_steps)


def _interval(bound: Any) -> tuple[float, float]:
    """Return [-B, B] of a number B, or the pair that was given."""
    if isinstance(bound, (tuple, list, np.ndarray)):
        if len(bound) != 2:
            raise ValueError(f"bound must be a number or a pair (low, high); got {bound!r}.")
        low = check_real("bound's low", bound[0], low=-1e50, high=1e50)
        high = check_real("bound's high", bound[1], low=-1e50, high=1e50)
    else:
        high = check_real("bound", bound, low=0.0, high=1e50, closed="high")
        low = -high
    if not high - low >= 1e-50:
        raise ValueError(f"bound must be an interval with low < high; got {bound!r}.")
    return low, high


def _plan(
    budget: Budget,
    bound: Any,
    n_draws: Any,
    calibration: Any,
    temper_prior: Any,
    n_steps: Any = None,
) -> SamplePlan:
    low, high = _interval(bound)
    n_draws = check_integer("n_draws", n_draws, low=1)
    check_choice("calibration", calibration, CALIBRATIONS)
    temper_prior = check_flag("temper_prior", temper_prior)
    shared: tuple[Any, ...] = (low, high), temper_prior, n_draws
    if n_steps is not None:
        converged = CONVERGED.format(check_integer("n_steps", n_steps, low=1))
        words = "draws of a Markov chain from a tempered posterior"
        shared = *shared, words, (*SamplePlan.conditions, converged)
    if not budget.private:
        return SamplePlan(NoPrivacy(), 1.0, *shared)
    per_power = moved(budget.adjacency) * (high - low)
    allowed = bounded_range_eta(budget.epsilon, budget.delta, n_draws)
    if calibration == "wang2015":
        # their theorem prices one draw, replace one, at 4 B per unit of power
        wanted = budget.epsilon / n_draws / (4.0 * max(abs(low), abs(high)))
        allowed = min(allowed, wanted * per_power)
    if not allowed > 2.0 * ROUNDING:
        raise CalibrationError(
            f"epsilon={budget.epsilon!r} for {n_draws} draw(s) is too small: the rounding of "
            "weights would cost more. Raise epsilon or release fewer draws."
        )
    temper = min(1.0, (allowed - ROUNDING) / per_power * (1.0 - 1e-15))
    eta = min(allowed, temper * per_power + ROUNDING)
    return SamplePlan(BoundedRange(eta, n_draws), temper, *shared)


def one_posterior_sample(
    log_likelihood: Callable[[Any, Any], Any],
    prior: Any,
    data: Any,
    *,
    bound: Any,
    points: Any = None,
    start: Any = None,
    proposal_scale: Any = None,
    n_steps: int = 5000,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: str = "replace_one",
    n_draws: int = 1,
    calibration: str = "bounded_range",
    temper_prior: bool = False,
    units: Any = None,
    random_state: Any = None,
    ledger: Any = None,
) -> PosteriorDraws:
    r"""Draw from a tempered posterior of any model, exactly on a public set of points.

    .. math:: P(\theta_j) \propto \pi(\theta_j)\,
        \exp\Big(\rho\sum_i \mathrm{clamp}(\log p(x_i \mid \theta_j))\Big).

    **Privacy guarantee.** (epsilon, delta)-differentially private for the adjacency chosen,
    whatever the log-likelihood returns: its values are clamped to `bound` record by record (a NaN
    becomes the lower end), so a bound that does not hold costs accuracy, not privacy. Public are
    the points, the prior, the bound and the number of records; with `units` the number of persons,
    and all records of a person are protected together. With `points` the draw is exact: there is no
    chain that must have converged, and no floating-point noise. With `start` it is the last state
    of a Metropolis chain, and that it has converged is a condition of the claim. The other
    condition, which ``privacy_.conditions`` repeats, is that each row of the log-likelihood comes
    from its own record alone. Each call is a new release.

    Parameters
    ----------
    log_likelihood : callable
        Takes the points and a block of records, in the form of `data`, and returns an array of
        shape (n_records, n_points). It may be called block by block.
    prior : callable, array-like or None
        Log-prior of the points: a function of them, their values, or None for a flat one. Points
        with minus infinity are left out; the others may differ by at most 1000. A chain needs the
        log-density of a proper prior, a function.
    data : array-like, or tuple of them
        One entry per record along the first axis.
    bound : float or (float, float)
        Public bound on a log-likelihood. A number *B* stands for :math:`[-B, B]`; log-probabilities
        of discrete data lie in :math:`[-B, 0]`, which costs half.
    points : array-like of shape (n_points,) or (n_points, p), default=None
        The parameters to choose from: a grid of an interval, or any finite set, such as many draws
        from the prior. Must not be chosen by looking at the data. Exactly one of `points` and
        `start` is given.
    start : float or array-like of shape (p,), default=None
        Where a Metropolis chain starts, for models with too many parameters for points; public.
    proposal_scale : float or array-like of shape (p,), default=None
        Standard deviation of the steps that the chain proposes; public. About the width of the
        tempered posterior over the root of p.
    n_steps : int, default=5000
        Steps of the chain, each a pass over the data; a chain of its own for each draw.
    epsilon, delta : float, default=1.0, 0.0
        The budget for all draws together.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects.
    n_draws : int, default=1
        Independent draws; they share the budget.
    calibration : {"bounded_range", "wang2015"}, default="bounded_range"
        How the power :math:`\rho \le 1` follows from epsilon: ``"bounded_range"`` is
        :math:`\varepsilon / (2w)` for an interval of width *w* (``"zero_out"``:
        :math:`\varepsilon / w`), more where delta is positive; ``"wang2015"`` is
        :math:`\varepsilon/(4B)`, *B* the largest absolute value in the interval, as printed in
        Algorithm 1 of Wang et al. It is the same for :math:`[-B, B]` and half for :math:`[-B, 0]`.
    temper_prior : bool, default=False
        Whether the prior is raised to the same power, as in that algorithm and in equations 6 and
        14 of Foulds et al. It costs nothing either way.
    units : array-like of shape (n_records,), default=None
        Whose each record is: ids of persons. Log-likelihoods are clamped and then weighted to one
        record per person.
    random_state : int, Generator or None, default=None
        Secure if None.
    ledger : PrivacyLedger or None, default=None
        Charged before the data are used.

    Returns
    -------
    PosteriorDraws

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015.
    .. [2] J. Foulds, J. Geumlek, M. Welling and K. Chaudhuri. On the theory and practice of
       privacy-preserving Bayesian data analysis. UAI 2016.

    Examples
    --------
    The location of Cauchy data: a model without sufficient statistics.

    >>> import numpy as np
    >>> from skdpbayes.sampling import one_posterior_sample
    >>> x = np.random.default_rng(0).standard_cauchy(2000) + 3.0
    >>> drawn = one_posterior_sample(
    ...     lambda at, x: -np.log1p((x[:, None] - at) ** 2), None, x,
    ...     points=np.linspace(-10, 10, 2001), bound=(-5.0, 0.0), epsilon=1.0, random_state=0)
    >>> bool(abs(drawn.draws[0] - 3.0) < 0.5)
    True
    """
    records = read_records(data, units)
    budget = make_budget(
        epsilon, delta, adjacency, ledger, random_state, records.n, unit=records.unit, stacklevel=3
    )
    if (points is None) == (start is None):
        raise ValueError(
            "Give exactly one of points, to draw from exactly, and start, of a Markov chain."
        )
    plan = _plan(
        budget, bound, n_draws, calibration, temper_prior, n_steps if points is None else None
    )
    if points is None:
        walk = _read_walk(start, proposal_scale, prior, n_steps)
    else:
        points, log_prior = _read_points(points, prior)
    generator = randomness.make_generator(random_state)
    claim = budget.reserve(plan, "one_posterior_sample")
    power = plan.temper if plan.temper_prior else 1.0
    with spent(ledger):
        if points is None:
            draws = np.stack(
                [
                    _walk(log_likelihood, walk, records, plan, power, generator)
                    for _ in range(plan.n_draws)
                ]
            )
        else:
            sums, unit = _sums(log_likelihood, points, records, plan.bound)
            weights = _weights(sums, plan.temper * unit, power * log_prior)
            draws = points[[_choose(generator, weights) for _ in range(plan.n_draws)]]
    return PosteriorDraws(draws, draws.mean(axis=0), 1.0 / plan.temper, claim, plan)


@dataclass(frozen=True, eq=False)
class _Walk:
    """Where a Metropolis chain starts, how it moves, and its prior; all of it public."""

    start: np.ndarray
    scale: np.ndarray
    log_prior: Callable[[np.ndarray], float]
    n_steps: int


def _read_walk(start: Any, proposal_scale: Any, prior: Any, n_steps: int) -> _Walk:
    start = np.asarray(start, dtype=np.float64)
    if start.ndim > 1 or start.size == 0 or not np.isfinite(start).all():
        raise ValueError(f"start must be a number or an array of shape (p,); got {start!r}.")
    scale = np.asarray(np.nan if proposal_scale is None else proposal_scale, dtype=np.float64)
    if scale.shape not in ((), start.shape) or not (np.isfinite(scale) & (scale > 0.0)).all():
        raise ValueError(
            "proposal_scale must be a positive number, or one per parameter; got "
            f"{proposal_scale!r}."
        )
    if not callable(prior):
        raise ValueError(
            "A chain needs the log-density of a proper prior, a function; under a flat one the "
            "tempered posterior of a bounded log-likelihood has no total. Pass prior, or points."
        )

    def log_prior(at: np.ndarray) -> float:
        value = float(np.asarray(prior(at[None])).reshape(()))
        return -np.inf if np.isnan(value) else value

    if not np.isfinite(log_prior(start)):
        raise ValueError("start must have a finite log-prior.")
    return _Walk(start, np.broadcast_to(scale, start.shape), log_prior, n_steps)


def _walk(
    log_likelihood: Callable[[Any, Any], Any],
    walk: _Walk,
    records: OwnRecords,
    plan: SamplePlan,
    power: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Return the last state of a Metropolis chain on a lattice; its origin is the start."""
    # the lattice is public, so the low bits of a draw say nothing of what it was computed from
    grid = np.ldexp(1.0, np.frexp(walk.scale)[1] - LATTICE_BITS)
    for_moves, for_choices = randomness.spawn(generator, 2)
    place = np.zeros(walk.start.shape, dtype=np.int64)

    def at(place: np.ndarray) -> tuple[np.ndarray, int, float, float]:
        position = walk.start + grid * place
        of_prior = walk.log_prior(position)
        if of_prior == -np.inf:
            return place, 0, 0.0, of_prior
        sums, unit = _sums(log_likelihood, position[None], records, plan.bound)
        return place, int(sums[0]), unit, power * of_prior

    current = at(place)
    for _ in range(walk.n_steps):
        moves = randomness.discrete_gaussian(for_moves, 2.0**LATTICE_BITS, walk.start.shape)
        # about the proposal's scale: the lattice is a power of two of it
        moves = np.rint(moves * (walk.scale / grid) * 2.0**-LATTICE_BITS).astype(np.int64)
        proposed = at(current[0] + moves)
        change = proposed[3] - current[3]
        if change > -np.inf:
            change += plan.temper * proposed[2] * (proposed[1] - current[1])
        if change >= 0.0 or for_choices.random() < np.exp(change):
            current = proposed
    return np.asarray(walk.start + grid * current[0])


def _read_points(points: Any, prior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the points that the prior allows and their log-prior, the largest 0."""
    points = np.asarray(points)
    if points.ndim not in (1, 2) or points.shape[0] < 2:
        raise ValueError(
            "points must be an array of shape (n_points,) or (n_points, p) with at least two "
            f"points; got shape {points.shape}."
        )
    values = np.zeros(points.shape[0]) if prior is None else prior
    values = np.asarray(values(points) if callable(values) else values, dtype=np.float64)
    if values.shape != points.shape[:1] or np.isnan(values).any() or values.max() == np.inf:
        raise ValueError(
            "prior must be (or return) one log-prior per point, a number or minus infinity; got "
            f"{values!r} for {points.shape[0]} points."
        )
    kept = values > -np.inf
    if kept.sum() < 2 or values.max() - values[kept].min() > WIDEST_PRIOR:
        raise ValueError(
            "prior must allow at least two points and differ by at most "
            f"{WIDEST_PRIOR:g} between them; make it minus infinity at points to leave out."
        )
    return points[kept], values[kept] - values.max()


def _sums(
    log_likelihood: Callable[[Any, Any], Any],
    points: np.ndarray,
    records: OwnRecords,
    bound: tuple[float, float],
) -> tuple[np.ndarray, float]:
    """Sum clamped log-likelihoods exactly: integers, and the size of their steps."""
    low, high = bound
    whole = 1 if records.weight is None else WHOLE
    steps = 1 << min(MOST_BITS, 62 - (records.n * whole).bit_length())
    sums = np.zeros(points.shape[0], dtype=np.int64)
    for part, weight in blocks(records.data, records.weight, records.members, points.shape[0]):
        values = np.asarray(log_likelihood(points, part), dtype=np.float64)
        wanted = (count_records(part), points.shape[0])
        if values.shape != wanted:
            raise ValueError(
                f"log_likelihood must return an array of shape (n_records, n_points) = {wanted}; "
                f"got {values.shape}."
            )
        values = np.clip(np.where(np.isnan(values), low, values), low, high)
        shares = np.clip((values - low) / (high - low), 0.0, 1.0)
        integers = np.rint(shares * steps).astype(np.int64)
        if weight is not None:
            integers *= np.rint(weight * whole).astype(np.int64)[:, None]
        sums += integers.sum(axis=0)
    return sums, (high - low) / (steps * whole)


def _weights(sums: np.ndarray, per_step: float, log_prior: np.ndarray) -> list[int]:
    """Return integers in proportion to prior times tempered likelihood."""
    best = int(np.argmax(per_step * (sums - sums.max()) + log_prior))
    logs = per_step * (sums - sums[best]) + (log_prior - log_prior[best])
    weights = np.exp(np.clip(logs, -DEEPEST, 1.0))
    mantissas, exponents = np.frexp(weights)
    integers = (mantissas * 2.0**53).astype(np.int64).tolist()
    return [
        integer << (WEIGHT_BITS - 53 + exponent)
        for integer, exponent in zip(integers, exponents.tolist(), strict=True)
    ]


def _choose(generator: np.random.Generator, weights: list[int]) -> int:
    """Draw an index with exactly these weights."""
    total = sum(weights)
    n_bytes = (total.bit_length() + 7) // 8
    spare = 8 * n_bytes - total.bit_length()
    while True:
        drawn = int.from_bytes(generator.bytes(n_bytes), "little") >> spare
        if drawn < total:
            break
    for index, weight in enumerate(weights):
        drawn -= weight
        if drawn < 0:
            return index
    raise AssertionError("weights do not add up to their sum")
