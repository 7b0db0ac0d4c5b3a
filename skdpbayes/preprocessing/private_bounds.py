r"""Bounds and quantiles that are learned from private records, by noisy bisection.

*Released.* Numbers of records :math:`c_j(t) = \#\{i : x_{ij} \le t\}` at thresholds *t* of a public
grid, under exact integer noise. A column is bisected :math:`L` times for each quantile: where the
noisy count is at least the wanted rank, the quantile is sought to the left of *t*, otherwise to the
right. So each threshold is a public function of the noisy counts before it.

*Sensitivity.* Replacing a record moves one count by at most 1. A null record (``zero_out``) adds
nothing to the centered count :math:`\sum_i (1[x_{ij} \le t] - 1/2)`, to which every other record
adds :math:`\pm 1/2`; the number of records is public, so that centering costs nothing, and the
count moves by 1/2. Twice the count is released then, an integer that moves by 1. For *d* columns
and *k* quantiles there are :math:`d k L` such integers.

*Composition.* Given the answers before it, each integer is a count at a known threshold under
symmetric noise of its own: whichever way it moves, its pair of laws is that of
``DiscreteGaussian(scale)`` or ``DiscreteLaplace(scale)``. Tight composition holds for thresholds
that were chosen in view of earlier answers (Zhu, Dong, Wang 2022), so the event of all is
``repeat(event, d * k * L)``. With ``units`` the records of a person count 1 together, so that she
moves a count by a fraction, in steps of :math:`2^{-16}`. Noise on that grid is log-concave, so that
the profile of a single count is largest for the longest move (`skdpbayes.release.fractions`), and
each pair of laws is dominated by that of a whole count. The six counts that look for the ends of an
interval are more of the same; pooling, widening and intervals read released counts only.

References
----------
.. [1] Y. Zhu, J. Dong, Y.-X. Wang. Optimal accounting of differential privacy via characteristic
   function. AISTATS 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import optimize, stats
from scipy.special import ndtr, ndtri
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_array, column_or_1d
from sklearn.utils.validation import FLOAT_DTYPES

from skdpbayes import randomness
from skdpbayes._validation import (
    check_integer,
    check_is_fitted,
    check_real,
    probe,
    validate_data,
)
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import by_chunks, is_chunked, read_chunks
from skdpbayes.fitting.estimator import (
    FitPlan,
    PrivateEstimator,
    make_budget,
    refuse_arguments,
    spent,
)
from skdpbayes.fitting.records import Block, Public, Records
from skdpbayes.fitting.units import WHOLE
from skdpbayes.preprocessing.public import BoundsScaler, resolve_bounds
from skdpbayes.privacy.budget import NO_NOISE, Budget, Law, Noise
from skdpbayes.privacy.calibration import smallest_noise
from skdpbayes.privacy.composition.composed import repeat
from skdpbayes.privacy.events import NoPrivacy, PrivacyEvent
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee, Unit
from skdpbayes.privacy.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.sensitivity import moved
from skdpbayes.release.counts import counts

# Within a public range, cells of a thousandth of it.
STEPS_IN_RANGE = 10
# Without one, thresholds from -1e9 to 1e9, even up to a thousandth and geometric beyond: 65,536
# cells that differ by a factor of 1.0009, which tells 1990 from 1992.
STEPS_ANYWHERE = 16
SMALLEST, LARGEST = 1e-3, 1e9
# Noise exceeds the margin with this probability (three deviations of a normal law). A wanted rank
# is at least the margin, so that a count of nobody passes for it this rarely.
FOOLED = float(ndtr(-3.0))
# The ends of an interval are looked for between what the search for the quantile has left over.
STEPS_OF_AN_END = 3
# Quantiles further inside say too little about the ends of a column.
INNERMOST = 0.25


@dataclass(frozen=True)
class Grid:
    """The public thresholds of each column: places 0 to ``2**n_steps``.

    Parameters
    ----------
    ends : ndarray of shape (n_columns, 2) or None
        Public ranges, divided evenly; None for the geometric grid.
    """

    ends: np.ndarray | None

    @property
    def n_steps(self) -> int:
        """How often a column is bisected for each quantile."""
        return STEPS_ANYWHERE if self.ends is None else STEPS_IN_RANGE

    @property
    def last(self) -> int:
        """The last place; the first is 0."""
        return 2**self.n_steps

    def __call__(self, places: np.ndarray) -> np.ndarray:
        """Return the thresholds at places, first axis the column."""
        share = np.ldexp(np.asarray(places, dtype=np.float64), -self.n_steps)
        if self.ends is None:
            return SMALLEST * np.sinh(math.asinh(LARGEST / SMALLEST) * (2.0 * share - 1.0))
        low, high = (end.reshape(-1, *[1] * (share.ndim - 1)) for end in self.ends.T)
        return low * (1.0 - share) + high * share


@dataclass(frozen=True)
class CountsPlan:
    """Noise on all counts of a bisection, chosen from public numbers, and what it costs.

    Parameters
    ----------
    levels : tuple of float
        Shares of the records at which columns are cut.
    whole : int
        Steps of the grid that counts are on: 1, or those of a record if persons share one.
    resolution : int
        The released integer is this many times the count.
    released : Noise
        Noise of the released integer.
    """

    grid: Grid
    levels: tuple[float, ...]
    whole: int
    resolution: int
    released: Noise
    event: PrivacyEvent
    words: str
    conditions: tuple[str, ...] = ()

    @property
    def noise(self) -> Noise:
        """Noise of a count."""
        return Noise(self.released.law, self.released.scale / self.resolution)

    def numbers(self) -> dict[str, Any]:
        """Public fitted attributes."""
        return {"noise_": self.noise, "levels_": self.levels}


class Path(NamedTuple):
    """What a bisection released; first axis the column, second the rank, third the step."""

    low: np.ndarray
    high: np.ndarray
    places: np.ndarray
    noisy: np.ndarray


def plan_counts(
    budget: Budget, grid: Grid, n_counts: int, levels: tuple[float, ...] = ()
) -> CountsPlan:
    """Calibrate the noise: Laplace for ``delta=0``, otherwise Gaussian."""
    words = f"{n_counts} counts of a bisection"
    whole = WHOLE if budget.unit == "person" else 1
    if not budget.private:
        return CountsPlan(
            grid, levels, whole, whole, NO_NOISE, NoPrivacy(), f"{words} without noise"
        )
    law: Law
    law, kind = (
        ("laplace", DiscreteLaplace) if budget.delta == 0.0 else ("gaussian", DiscreteGaussian)
    )

    def event_of(scale: float) -> PrivacyEvent:
        return repeat(kind(scale * whole, whole), n_counts)

    if law == "laplace":
        scale = n_counts / budget.epsilon
        while not event_of(scale).epsilon_at(0.0) <= budget.epsilon:
            scale *= 1.0 + 1e-15
    else:
        guess = math.sqrt(n_counts) / gdp_mu(budget.epsilon, budget.delta)
        scale = smallest_noise(event_of, budget.epsilon, budget.delta, guess=guess)
    return CountsPlan(
        grid,
        levels,
        whole,
        whole * (2 // moved(budget.adjacency)),
        budget.noise(law, scale * whole),
        event_of(scale),
        f"exact discrete {law.capitalize()} noise on {words}",
    )


def count_below(block: Block, thresholds: np.ndarray) -> np.ndarray:
    """Count the rows of a block that are at most the thresholds, column by column.

    Rows of persons count their weights, in units of 1 / WHOLE.
    """
    weight = None if block.weight is None else np.rint(block.weight * WHOLE).astype(np.int64)
    below = (np.less_equal(block.X, wanted) for wanted in thresholds.T)
    found = [rows.sum(axis=0) if weight is None else weight @ rows for rows in below]
    return np.stack(found, axis=1).astype(np.int64)


def bisect(
    rows: Records,
    plan: CountsPlan,
    generator: np.random.Generator,
    ranks: np.ndarray,
    n_steps: int,
    place_of: Callable[[np.ndarray], np.ndarray] = lambda step: step,
) -> Path:
    """Find a cell between 0 and ``2**n_steps`` for each column and rank, from noisy counts alone.

    ``place_of`` maps the ends of cells to places of the grid. Ranks of a column whose paths have
    not parted yet decide by the mean of their counts: a wrong turn of the first steps is the one
    that costs most.
    """
    shape = (rows.public.n_features, len(ranks))
    low, high = np.zeros(shape, dtype=np.int64), np.full(shape, 2**n_steps, dtype=np.int64)
    places, noisy = [], []
    for _ in range(n_steps):
        middle = (low + high) // 2
        place = place_of(middle)
        exact = rows.total(count_below, plan.grid(place))
        steps = plan.resolution // plan.whole * exact
        released = counts(generator, steps, plan.released) / plan.resolution
        same = place[:, :, None] == place[:, None, :]
        pooled = (same * released[:, None, :]).sum(axis=2) / same.sum(axis=2)
        left = pooled >= ranks
        low, high = np.where(left, low, middle), np.where(left, middle, high)
        places.append(place)
        noisy.append(released)
    return Path(low, high, np.stack(places, axis=-1), np.stack(noisy, axis=-1))


def tail(noise: Noise, excess: np.ndarray) -> np.ndarray:
    """Probability that the noise of one count exceeds a number, by its continuous law."""
    if noise.law == "none":
        return np.where(excess < 0.0, 1.0, 0.0)
    share = excess / noise.scale
    if noise.law == "gaussian":
        return ndtr(-share)
    half = 0.5 * np.exp(-np.abs(share))
    return np.where(share < 0.0, 1.0 - half, half)


def margin(noise: Noise) -> float:
    """Number of records that the noise of a count pretends with probability ``FOOLED``."""
    if noise.law == "laplace":
        return -noise.scale * math.log(2.0 * FOOLED)
    return 3.0 * noise.scale


def widened(low: np.ndarray, high: np.ndarray, found: Any, wanted: Any) -> np.ndarray:
    """Carry two quantiles outward to the wanted levels; exact for normal columns."""
    z_found, z_wanted = ndtri(np.asarray(found)), ndtri(np.asarray(wanted))
    unit = (high - low) / (z_found[1] - z_found[0])
    shift = z_wanted - z_found
    return np.column_stack([low + unit * shift[0], high + unit * shift[1]])


@dataclass(frozen=True)
class Learned:
    """What a fit leaves behind: a scaler that knows the released bounds."""

    scaler: BoundsScaler
    missing: dict[str, str] = field(
        default_factory=lambda: {
            "sample_posterior": "bounds are released as they are; there is no posterior.",
            "interval": "private_quantiles releases quantiles with intervals.",
        }
    )

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes that the estimator shows."""
        return {"bounds_": self.scaler.bounds_}


class PrivateBoundsScaler(OneToOneFeatureMixin, TransformerMixin, PrivateEstimator):
    r"""Learn bounds of each column under a privacy budget, scale to them and clip the rest.

    .. math:: x \mapsto a + (b - a)\,\frac{\min(\max(x, l), h) - l}{h - l}

    takes the bounds :math:`[l, h]` of a column to ``feature_range`` :math:`[a, b]`; *l* and *h* are
    about its quantiles ``quantiles``, found by noisy bisection. Public bounds cost nothing and are
    better: :class:`BoundsScaler` takes them. This is for columns of which nobody knows the size.

    **Privacy guarantee.** ``fit`` is (``epsilon``, ``delta``)-differentially private in the sense
    of ``adjacency``: one record is replaced by another, or (``"zero_out"``) by a null record that
    counts one half at every threshold; the number of records is public in both. With
    ``fit(X, units=ids)`` it is all records of a person, each of her *m* records counts 1/*m*, and
    the number of persons is public while the number of records is not. Released are numbers of
    records below thresholds, 2 *L* per column (*L* = 10 within a public ``range``, 16 without),
    under exact integer noise: Laplace for ``delta=0``, otherwise Gaussian. A record moves each by
    at most 1 (1/2 under ``"zero_out"``). Later thresholds depend on earlier answers, which adaptive
    composition allows; ``privacy_.event`` is the composition of all. Everything else (``bounds_``,
    ``transform``) is computed from the released counts. ``range``, ``quantiles``, the column names
    and the number of records are assumed to be public. Whoever knows the seed can undo the noise.
    Every ``fit`` costs the budget again, in each fold of a cross-validation too, and the estimator
    that follows in a pipeline has a budget of its own: :func:`split_budget` shares one,
    :func:`privacy_of` adds them.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` is not private and adds no noise.
    delta : float, default=0.0
        In [0, 1), well below ``1 / n_samples``. Above 0 the noise grows with the square root of the
        number of columns, at 0 in proportion to it.
    range : (low, high), array-like of shape (n_features, 2), mapping or None, default=None
        Public range that holds the bounds: one pair for all columns, one pair for each column, or a
        mapping from column name to pair. It is divided into 1,024 equal cells; give one that is not
        more than about a hundred times too wide. None searches from -1e9 to 1e9, on a geometric
        scale with a smallest step of 1e-6; bounds are then right up to about 0.1 % of their size.
    quantiles : (float, float), default=(0.01, 0.99)
        The shares of the records below the lower and the upper bound, in (0, 0.5) and (0.5, 1).
        Where noise hides quantiles so far out, ones further inside are found and carried outward as
        in a normal column; ``levels_`` has those that were used.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects.
    feature_range : (float, float), default=(-1.0, 1.0)
        The range to map to.
    norm : float or None, default=None
        A public length that no row exceeds, the ``data_norm`` of the estimator that follows; see
        :class:`BoundsScaler`.
    random_state : int, RandomState, Generator or None, default=None
        None: a secure generator seeded by the operating system. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it touches the data.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        The claim, public.
    bounds_ : ndarray of shape (n_features, 2)
        The bounds, released.
    noise_ : Noise
        Law and scale of the noise of a count, public.
    levels_ : (float, float)
        The quantiles that were found before they were carried outward, public.
    n_features_in_ : int
        Number of columns, public.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns where the input has them, public.

    See Also
    --------
    BoundsScaler : The same with public bounds, for free.
    skdpbayes.preprocessing.private_quantiles : Quantiles of one column, with intervals.

    References
    ----------
    .. [1] C. Canonne, G. Kamath, T. Steinke. The discrete Gaussian for differential privacy.
       NeurIPS 2020.
    .. [2] Y. Zhu, J. Dong, Y.-X. Wang. Optimal accounting of differential privacy via
       characteristic function. AISTATS 2022. Adaptive composition.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import PrivateBoundsScaler
    >>> heights = np.random.default_rng(0).normal(170, 10, (5000, 1))
    >>> scaler = PrivateBoundsScaler(epsilon=0.5, range=(0, 300), random_state=0).fit(heights)
    >>> print(scaler.privacy_)
    0.5-differentially private when one record is replaced by another (replace_one), by exact
    discrete Laplace noise on 20 counts of a bisection. The noise is seeded: ...
    >>> bool(np.all(np.abs(scaler.bounds_ - [[146.7, 193.3]]) < 4))
    True
    """

    _reads_chunks = True
    _takes_units = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        range: Any = None,
        quantiles: tuple[float, float] = (0.01, 0.99),
        adjacency: Adjacency = "replace_one",
        feature_range: tuple[float, float] = (-1.0, 1.0),
        norm: float | None = None,
        random_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.range = range
        self.quantiles = quantiles
        self.adjacency = adjacency
        self.feature_range = feature_range
        self.norm = norm
        self.random_state = random_state
        self.ledger = ledger

    def fit(self, X: Any, y: Any = None, units: Any = None, **unknown: Any) -> Self:
        """Charge the budget and learn the bounds of the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Private records; finite numbers.
        y : None
            Ignored.
        units : array-like of shape (n_samples,), default=None
            Whose record each is. All records of one person are then protected together, each of her
            *m* records counts 1/*m*, and the number of persons is public while the number of
            records is not. None: every record is a unit of its own.
        **unknown
            Refused; for ``sample_weight`` the error says what to do instead.

        Returns
        -------
        PrivateBoundsScaler
            The fitted scaler.
        """
        refuse_arguments(self, unknown)
        return self._fit(X, units=units)

    def plan(self, n_samples: int, n_features: int, *, unit: Unit = "record") -> FitPlan:
        """Say what a fit of this size would claim and add, without data.

        Parameters
        ----------
        n_samples : int
            Number of records, or of persons.
        n_features : int
            Number of columns.
        unit : {"record", "person"}, default="record"
            Whose data the fit would protect; persons if it is given ``units``.

        Returns
        -------
        FitPlan
            The claim and the public numbers of the fit; ``print`` it. A fit that would be refused
            raises its error here.
        """
        n_samples = check_integer("n_samples", n_samples, low=1)
        n_features = check_integer("n_features", n_features, low=1)
        return self._planned(Public(n_samples, n_features, unit=unit))

    def transform(self, X: Any) -> Any:
        """Scale the columns of ``X`` and clip what lies outside the bounds.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Values in the units of the records that ``fit`` saw.

        Returns
        -------
        X_out : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        if is_chunked(X):
            return by_chunks(self, "transform", X)
        X = validate_data(self, X, dtype=FLOAT_DTYPES, reset=False)
        return self._posterior.scaler.transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Return to the original units; what was clipped comes back as the bound.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Scaled values.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self._posterior.scaler.inverse_transform(X)

    def coef_in_units(self, coef: Any, intercept: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients per unit of the input columns, and the intercept that goes with them.

        Parameters
        ----------
        coef : array-like of shape (..., n_features)
            Coefficients of the scaled columns: one model, several classes or posterior draws.
        intercept : array-like of shape (...), default=0.0
            The intercepts that belong to them.

        Returns
        -------
        coef_in_units : ndarray of shape (..., n_features)
        intercept_in_units : ndarray of shape (...)
        """
        check_is_fitted(self)
        return self._posterior.scaler.coef_in_units(coef, intercept)

    def _read(self, X: Any) -> Any:
        if is_chunked(X):
            rows = read_chunks(self, X, bound=Bound(), dtype=FLOAT_DTYPES)
            grid = self._grid(rows.public.n_features, rows.public.names)
            return replace(rows, public=replace(rows.public, detail=grid))
        reader = probe(self)
        X = validate_data(reader, X, dtype=FLOAT_DTYPES)
        names = getattr(reader, "feature_names_in_", None)
        n, n_features = X.shape
        grid = self._grid(n_features, names)
        return Records(Public(n, n_features, names=names, detail=grid), X)

    def _grid(self, n_features: int, names: np.ndarray | None) -> Grid:
        if self.range is None:
            return Grid(None)
        return Grid(resolve_bounds(self.range, n_features, names, parameter="range"))

    def _plan(self, public: Public, budget: Budget) -> CountsPlan:
        grid = public.detail
        if grid is None:  # planned without data
            names = None
            if isinstance(self.range, Mapping):
                names = np.array(list(self.range), dtype=object)
            grid = self._grid(public.n_features, names)
        low, high = self._checked_quantiles()
        self._scaler(np.tile([-1.0, 1.0], (public.n_features, 1)))  # its parameters are checked
        # The noise depends on how many levels there are, not on which.
        n_counts = public.n_features * 2 * grid.n_steps
        noise = plan_counts(budget, grid, n_counts).noise
        inner = margin(noise) / public.n
        if inner > INNERMOST:
            raise ValueError(
                f"noise of deviation {noise.deviation:.3g} hides where n_samples={public.n} "
                f"records lie: bounds of {public.n_features} columns need at least "
                f"{math.ceil(margin(noise) / INNERMOST)} records at this budget. Use a larger "
                "epsilon, a delta > 0, fewer columns, a public range (fewer counts), or "
                "BoundsScaler with public bounds, which costs nothing."
            )
        levels = (max(low, inner), 1.0 - max(1.0 - high, inner))
        return plan_counts(budget, grid, n_counts, levels)

    def _checked_quantiles(self) -> tuple[float, float]:
        pair = self.quantiles
        if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
            raise ValueError(f"quantiles must be a pair of numbers; got {pair!r}.")
        return (
            check_real("quantiles[0]", pair[0], low=0.0, high=0.5, closed="neither"),
            check_real("quantiles[1]", pair[1], low=0.5, high=1.0, closed="neither"),
        )

    def _touch(self, rows: Records, plan: CountsPlan, generator: np.random.Generator) -> Learned:
        grid, ranks = plan.grid, np.array(plan.levels) * rows.public.n
        path = bisect(rows, plan, generator, ranks, grid.n_steps)
        # The outer ends of both cells, which noise may have exchanged.
        low, high = grid(path.low.min(axis=1)), grid(path.high.max(axis=1))
        bounds = widened(low, high, plan.levels, self._checked_quantiles())
        ends = grid(np.tile([0, grid.last], (len(bounds), 1)))
        bounds = np.clip(bounds, ends[:, :1], ends[:, 1:])
        # A range of a few floats has cells without width.
        narrow = ~(bounds[:, 0] < bounds[:, 1])
        bounds[narrow] = ends[narrow]
        return Learned(self._scaler(bounds))

    def _scaler(self, bounds: np.ndarray) -> BoundsScaler:
        """Return a fitted scaler; it reads the number of columns of a public row."""
        scaler = BoundsScaler(bounds, feature_range=self.feature_range, norm=self.norm)
        return scaler.set_output(transform="default").fit(np.zeros((1, len(bounds))))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True)
class Quantiles:
    """Released quantiles of one column.

    Attributes
    ----------
    quantiles : ndarray of shape (n_quantiles,)
        The public levels.
    values : ndarray of shape (n_quantiles,)
        The quantiles, rising with the level.
    intervals : ndarray of shape (n_quantiles, 2)
        Cover the quantiles of the population that the records were drawn from, each with
        probability at least ``level``; they know of sampling and of the noise.
    level : float
        That probability.
    noise : Noise
        The noise of a count.
    privacy : PrivacyGuarantee
        What the release cost.
    """

    quantiles: np.ndarray
    values: np.ndarray
    intervals: np.ndarray
    level: float
    noise: Noise
    privacy: PrivacyGuarantee

    def __str__(self) -> str:
        return "\n".join(
            f"quantile {q:g}: {value:.4g} ({self.level:.0%} interval {low:.4g} to {high:.4g})"
            for q, value, (low, high) in zip(
                self.quantiles, self.values, self.intervals, strict=True
            )
        )


def private_quantiles(
    x: Any,
    quantiles: Any = (0.25, 0.5, 0.75),
    *,
    range: tuple[float, float] | None = None,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacency: Adjacency = "replace_one",
    level: float = 0.9,
    ledger: Any = None,
    random_state: Any = None,
) -> Quantiles:
    r"""Release quantiles of one column, with intervals.

    Noisy bisection, as in :class:`~skdpbayes.PrivateBoundsScaler`: 10 counts per quantile within a
    public ``range``, 16 without, and 6 more for the ends of its interval, all together
    (``epsilon``, ``delta``)-differentially private.

    An interval holds every value that no released count speaks against. For a quantile
    :math:`\theta` of level *q* the number of records below :math:`\theta` is at most binomial and
    the number up to :math:`\theta` at least binomial, with *n* and *q*. So a count at some
    :math:`t < \theta` exceeds :math:`nq + u` only if the binomial number plus the largest noise of
    the path does, and *u* makes that as rare as ``(1 - level) / 2``; the other side alike. However
    the thresholds were chosen, intervals cover at least as often as ``level`` says.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Private records; finite numbers.
    quantiles : float or array-like of float, default=(0.25, 0.5, 0.75)
        Levels in (0, 1), public. Each costs its share of the budget.
    range : (low, high) or None, default=None
        Public range of the quantiles, divided into 1,024 equal cells; values outside count as its
        ends. None searches from -1e9 to 1e9, on a geometric scale.
    epsilon, delta : float, default=1.0 and 0.0
        Privacy budget. ``np.inf`` is not private and adds no noise.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    level : float, default=0.9
        The probability that an interval covers.
    ledger : PrivacyLedger or None, default=None
        Charged before the records are used.
    random_state : int, RandomState, Generator or None, default=None
        None: a secure generator. An int: reproducible.

    Returns
    -------
    Quantiles

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import private_quantiles
    >>> ages = np.random.default_rng(0).gamma(9, 5, 20_000)
    >>> median = private_quantiles(ages, 0.5, range=(0, 120), epsilon=0.5, random_state=0)
    >>> print(median)
    quantile 0.5: 43.54 (90% interval 43.01 to 43.95)
    """
    level = check_real("level", level, low=0.0, high=1.0, closed="neither")
    values = check_array(column_or_1d(x)[:, None], dtype=FLOAT_DTYPES)
    wanted = np.sort(np.atleast_1d(np.asarray(quantiles, dtype=np.float64)))
    if wanted.ndim != 1 or wanted.size == 0 or not np.all((wanted > 0.0) & (wanted < 1.0)):
        raise ValueError(f"quantiles must be levels between 0 and 1; got {quantiles!r}.")
    ends = None if range is None else resolve_bounds(range, 1, None, parameter="range")
    n = values.shape[0]
    rows = Records(Public(n, 1, detail=Grid(ends)), values)
    budget = make_budget(epsilon, delta, adjacency, ledger, random_state, n, stacklevel=3)
    grid = rows.public.detail
    n_counts = grid.n_steps + 2 * STEPS_OF_AN_END
    plan = plan_counts(budget, grid, wanted.size * n_counts)
    below, above = (
        np.array([n * q + sign * _critical(n, q, plan, n_counts, level, sign) for q in wanted])
        for sign in (-1.0, 1.0)
    )
    generator = randomness.make_generator(random_state)
    claim = budget.reserve(plan, "private_quantiles")
    with spent(ledger):
        path = bisect(rows, plan, generator, n * wanted, grid.n_steps)
        outward = _outward(path, *_ends(path, below, above, grid), grid)
        ranks = np.append(below, above)
        more = bisect(rows, plan, generator, ranks, STEPS_OF_AN_END, outward)
    # Each quantile has its own path; the two of its ends are half of the columns apart.
    places, noisy = (
        np.concatenate([first, *np.split(second, 2, axis=1)], axis=2)
        for first, second in ((path.places, more.places), (path.noisy, more.noisy))
    )
    low, high = _ends(Path(path.low, path.high, places, noisy), below, above, grid)
    intervals = np.sort(grid(np.stack([low, high], axis=-1))[0], axis=-1)
    found = np.sort(grid(0.5 * (path.low + path.high))[0])
    return Quantiles(wanted, found, intervals, level, plan.noise, claim)


def _ends(
    path: Path, below: np.ndarray, above: np.ndarray, grid: Grid
) -> tuple[np.ndarray, np.ndarray]:
    """Return between which places the quantiles are, as far as released counts tell."""
    too_few, too_many = path.noisy < below[:, None], path.noisy > above[:, None]
    low = np.max(path.places, axis=-1, where=too_few, initial=0)
    return low, np.min(path.places, axis=-1, where=too_many, initial=grid.last)


def _outward(
    path: Path, low: np.ndarray, high: np.ndarray, grid: Grid
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the places where the ends of intervals are looked for, first all lower ends.

    They are between the cell of the quantile and what the counts have ruled out, at distances
    from the cell that form a geometric sequence: how far away an end is, is not known.
    """
    side = np.repeat([-1, 1], path.low.shape[1])
    near = np.append(path.low, path.high, axis=1)
    gap = np.maximum(np.append(path.low - low, high - path.high, axis=1), 1)

    def place_of(step: np.ndarray) -> np.ndarray:
        share = np.ldexp(step.astype(np.float64), -STEPS_OF_AN_END)
        distance = np.rint(gap ** np.where(side < 0, 1.0 - share, share)).astype(np.int64)
        return np.clip(near + side * distance, 0, grid.last)

    return place_of


def _critical(
    n: int, share: float, plan: CountsPlan, n_counts: int, level: float, sign: float
) -> float:
    """Return what a binomial number minus its mean plus the largest noise rarely exceeds."""
    reach = 10.0 * math.sqrt(n * share * (1.0 - share)) + 40.0
    first, last = max(0, math.floor(n * share - reach)), min(n, math.ceil(n * share + reach))
    numbers = np.arange(first, last + 1)
    masses = stats.binom.pmf(numbers, n, share)
    excess = sign * (numbers - n * share)

    def exceeded(bound: float) -> float:
        single = np.minimum(tail(plan.noise, bound - excess), 1.0 - 1e-16)
        largest = -np.expm1(n_counts * np.log1p(-single))
        return float(masses @ largest) - 0.5 * (1.0 - level)

    # Integer noise exceeds its continuous law by a step at most.
    step = 1.0 / plan.resolution
    if exceeded(0.0) <= 0.0:
        return step
    far = reach + (40.0 + math.log(n_counts)) * plan.noise.scale
    return float(optimize.brentq(exceeded, 0.0, far)) + step
