r"""One posterior sample of any model: the exponential mechanism on a public set of points.

**Guarantee.** The points :math:`\theta_j` and the log-prior at them are public. The log-likelihood
of each record is clamped to a public interval :math:`[a, b]` of width *w* and rounded to one of
:math:`2^k` equal steps of it, so that sums over records are exact integers. A point is drawn with
probability proportional to :math:`\pi_j e^{\rho\sum_i\ell_i(\theta_j)}`. When a record is replaced,
the sum changes by a difference of two functions with values in :math:`[a, b]`, so the privacy loss
lies in an interval of length :math:`2\rho w`; when it is taken away, of :math:`\rho w`: a
bounded-range mechanism, for every function that a user may pass.

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
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.events import BoundedRange, NoPrivacy, PrivacyEvent
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.sampling.records import (
    ALONE,
    PosteriorDraws,
    as_arrays,
    blocks,
    count_records,
    pick,
)

__all__ = ["SamplePlan", "one_posterior_sample", "plan_one_posterior_sample"]

CALIBRATIONS = ("bounded_range", "wang2015")
# Log-weights this far below the largest are raised to it; a double holds their exponential.
DEEPEST = 700.0
WEIGHT_BITS = 1075
# Room for the rounding of weights, per draw; see the module's docstring.
ROUNDING = 4e-11
# A log-prior of a wider range would cost precision in the weights.
WIDEST_PRIOR = 1000.0
MOST_BITS = 40


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
) -> SamplePlan:
    """Plan :func:`one_posterior_sample` without data.

    Parameters
    ----------
    bound, epsilon, delta, adjacency, n_draws, calibration, temper_prior
        As for :func:`one_posterior_sample`.

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
    return _plan(budget, bound, n_draws, calibration, temper_prior)


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
    budget: Budget, bound: Any, n_draws: Any, calibration: Any, temper_prior: Any
) -> SamplePlan:
    low, high = _interval(bound)
    n_draws = check_integer("n_draws", n_draws, low=1)
    check_choice("calibration", calibration, CALIBRATIONS)
    temper_prior = check_flag("temper_prior", temper_prior)
    shared = (low, high), temper_prior, n_draws
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
    points: Any,
    bound: Any,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: str = "replace_one",
    n_draws: int = 1,
    calibration: str = "bounded_range",
    temper_prior: bool = False,
    random_state: Any = None,
    ledger: Any = None,
) -> PosteriorDraws:
    r"""Draw exactly from a tempered posterior on a public set of points, for any model.

    .. math:: P(\theta_j) \propto \pi(\theta_j)\,
        \exp\Big(\rho\sum_i \mathrm{clamp}(\log p(x_i \mid \theta_j))\Big).

    **Privacy guarantee.** (epsilon, delta)-differentially private for the adjacency chosen,
    whatever the log-likelihood returns: its values are clamped to `bound` record by record (a NaN
    becomes the lower end), so a bound that does not hold costs accuracy, not privacy. Public are
    the points, the prior, the bound and the number of records. The draw is exact: there is no chain
    that must have converged, and no floating-point noise. The claim rests on one condition, which
    ``privacy_.conditions`` repeats: each row of the log-likelihood comes from its own record alone.
    Each call is a new release.

    Parameters
    ----------
    log_likelihood : callable
        Takes the points and a block of records, in the form of `data`, and returns an array of
        shape (n_records, n_points). It may be called block by block.
    prior : callable, array-like or None
        Log-prior of the points: a function of them, their values, or None for a flat one. Points
        with minus infinity are left out; the others may differ by at most 1000.
    data : array-like, or tuple of them
        One entry per record along the first axis.
    points : array-like of shape (n_points,) or (n_points, p)
        The parameters to choose from: a grid of an interval, or any finite set, such as many draws
        from the prior. Must not be chosen by looking at the data.
    bound : float or (float, float)
        Public bound on a log-likelihood. A number *B* stands for :math:`[-B, B]`; log-probabilities
        of discrete data lie in :math:`[-B, 0]`, which costs half.
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
    n = count_records(data)
    budget = make_budget(epsilon, delta, adjacency, ledger, random_state, n, stacklevel=3)
    plan = _plan(budget, bound, n_draws, calibration, temper_prior)
    points, log_prior = _read_points(points, prior)
    generator = randomness.make_generator(random_state)
    claim = budget.reserve(plan, "one_posterior_sample")
    with spent(ledger):
        sums, unit = _sums(log_likelihood, points, as_arrays(data), n, plan.bound)
        of_prior = plan.temper * log_prior if plan.temper_prior else log_prior
        weights = _weights(sums, plan.temper * unit, of_prior)
        draws = points[[_choose(generator, weights) for _ in range(plan.n_draws)]]
    return PosteriorDraws(draws, draws.mean(axis=0), 1.0 / plan.temper, claim, plan)


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
    data: Any,
    n: int,
    bound: tuple[float, float],
) -> tuple[np.ndarray, float]:
    """Sum clamped log-likelihoods exactly: integers, and the size of their steps."""
    low, high = bound
    steps = 1 << min(MOST_BITS, 62 - n.bit_length())
    sums = np.zeros(points.shape[0], dtype=np.int64)
    for rows in blocks(n, points.shape[0]):
        values = np.asarray(log_likelihood(points, pick(data, rows)), dtype=np.float64)
        wanted = (rows.stop - rows.start, points.shape[0])
        if values.shape != wanted:
            raise ValueError(
                f"log_likelihood must return an array of shape (n_records, n_points) = {wanted}; "
                f"got {values.shape}."
            )
        values = np.clip(np.where(np.isnan(values), low, values), low, high)
        shares = np.clip((values - low) / (high - low), 0.0, 1.0)
        sums += np.rint(shares * steps).astype(np.int64).sum(axis=0)
    return sums, (high - low) / steps


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
