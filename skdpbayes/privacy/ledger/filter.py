r"""The rule by which an account admits a reservation, and what reservations cost under it.

An analyst may choose the next release, its size and its kind after having seen the earlier ones.
An ordinary composition theorem does not cover that: it adds up releases whose sizes were fixed
beforehand. A *privacy filter* (Rogers et al. 2016) does. It is one rule, fixed before the first
release; "whichever of several bounds holds in the end" is no filter, because the analyst can steer
towards the bound that happens to hold.

**The sum** (``"sum"``; the only one with :math:`\delta=0`). Admit while
:math:`\sum\varepsilon_i\le\varepsilon` and :math:`\sum\delta_i\le\delta` (Rogers et al. 2016,
Theorem 3.6).

**The Gaussian filter** (``"gaussian"``). When the account is created, :math:`\delta` is split
into :math:`\delta_f+\delta_s` and :math:`B` is fixed by :math:`H(\varepsilon;B)=\delta_f`, where
:math:`H(e;\mu)` is the profile of a Gaussian release. A release is written as a pair
:math:`(\mu,\delta_0)` that dominates it:

.. math:: \delta(e)\le T(e)=\delta_0+(1-\delta_0)\,H(e;\mu)\quad\text{for all }e\ge 0,

in both directions. Admit while :math:`\sum\mu_i^2\le B^2` and :math:`\sum\delta_{0,i}\le\delta_s`.

*Proof.* For :math:`e<0` the divergence of (P, Q) is :math:`1-e^e+e^e` times that of (Q, P) at
:math:`-e`, and T belongs to a symmetric pair, so the condition holds for all real e. By
Blackwell's theorem (Dong, Roth and Su 2022, Theorem 2.10) the release is then, for any two
neighboring data sets, a post-processing of this: with probability :math:`\delta_0` the data set
is revealed, else one draw of :math:`N(0,1)` or :math:`N(\mu,1)` is shown. Take one Brownian motion
that has drift 0 or 1 depending on the data set. Its increment over a time of length
:math:`\mu^2` is such a draw, and as :math:`\mu_i` is known when release i begins, all releases
without their revelations are a function of independent coins and of the path up to the time
:math:`\sum\mu_i^2\le B^2`. The path up to :math:`B^2` is one Gaussian release of separation
:math:`B`, so they are :math:`(\varepsilon,\delta_f)`-private: the fully adaptive composition of
Smith and Thakurta 2022. Some revelation happens with probability at most
:math:`\sum\delta_{0,i}\le\delta_s`. ∎

Two separate caps are needed: :math:`H(\varepsilon;\sqrt{\sum\mu_i^2})+\sum\delta_{0,i}\le\delta`
is not a filter.

**The first reservation may take the whole account.** It is chosen before anything was released,
so it is also admitted if it is :math:`(\varepsilon,\delta)`-private by itself. If it exceeds a cap,
nothing can follow it, and the guarantee of the account is its own.

**A plan is one release**, although its parts may come in any order, between other reservations,
and each part may be chosen in view of everything before it as long as it has a listed profile. A
part is then a post-processing of a draw from the pair of distributions that its listed profile
defines, and nothing keeps these draws from being made all at once when the plan is charged. The
profile of all of them together is the tight composition, which has a dominating pair like any
other.

**Dominating pairs.** A Gaussian release is its own pair. A pure release has
:math:`\mu=-2\,\Phi^{-1}(1/(1+e^{\varepsilon}))`: as a function of :math:`e^e` its profile is the
tangent of the convex function :math:`H` at :math:`e=0`. An :math:`(\varepsilon,\delta)` release has
the same :math:`\mu` and :math:`\delta_0=\delta`. For all others the true profile is convex in
:math:`x=e^e`, so it lies below the chords through its values (or bounds on them) at a few nodes;
and T, which is convex in x, lies above its tangents. A :math:`\mu` is accepted if on every piece of
a grid the chord is below the tangent at the right end (two lines: it is enough to compare them at
the two ends), and if the profile at the last node is at most :math:`\delta_0`, which settles
everything beyond it.

References
----------
.. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan. Privacy odometers and filters: pay-as-you-go
   composition. NeurIPS 2016.
.. [2] A. Smith, A. Thakurta. Fully adaptive composition for Gaussian differential privacy.
   arXiv 2210.17520, 2022.
.. [3] J. Dong, A. Roth, W. Su. Gaussian differential privacy. JRSS-B 84, 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtri

from skdpbayes.privacy.composition.loss_distribution import convex_envelope
from skdpbayes.privacy.events import (
    ApproximateDP,
    GaussianDP,
    GaussianMixture,
    NoPrivacy,
    PrivacyEvent,
    PureDP,
)
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.privacy.mechanisms.gdp import (
    FloatArray,
    gdp_epsilon,
    gdp_mu,
    log_gaussian_profile,
)

FILTERS = ("gaussian", "sum")

# The share of delta that is kept for what no Gaussian release dominates.
_SLACK_SHARE = 0.1
# What one reservation may take of that slack so that its far tail need not be Gaussian.
_TAIL_SHARES = (1e-4, 1e-3, 1e-2)
# Sums are rounded up, at a precision at which a million terms change nothing that is printed.
_UP, _DOWN = Context(prec=50, rounding=ROUND_CEILING), Context(prec=50, rounding=ROUND_FLOOR)
_ZERO = Decimal(0)
# Headroom for the rounding of a closed form; two numbers this close are one computed twice.
_ROUNDING = 1e-12
# The search for mu: nodes at first, pieces of the grid between two nodes, then rounds that add
# nodes where the certificate is tightest, until that gains less than a relative _REFINED.
_FIRST_NODES, _PIECES, _ROUNDS, _ADDED, _REFINED = 10, 16, 4, 3, 0.003
_MU_WIDTH, _LARGEST_MU = 5e-4, 1e4
_LARGEST_LOSS = 600.0  # beyond it exp overflows


@dataclass(frozen=True)
class Price:
    """What is added up: mu squared and delta_0, or epsilon and delta under the sum."""

    size: Decimal = _ZERO
    slack: Decimal = _ZERO

    def __add__(self, other: Price) -> Price:
        return Price(_UP.add(self.size, other.size), _UP.add(self.slack, other.slack))

    def times(self, count: int) -> Price:
        """Return the price of `count` reservations."""
        return Price(_UP.multiply(self.size, count), _UP.multiply(self.slack, count))


@dataclass(frozen=True)
class Filter:
    """The rule of one account.

    Parameters
    ----------
    kind : {"gaussian", "sum"}
        Which of the two.
    epsilon, delta : float
        The budget of the account.
    """

    kind: str
    epsilon: float
    delta: float

    def caps(self) -> Price:
        """Return what all reservations together may cost."""
        return _caps(self)

    def price(self, guarantee: PrivacyGuarantee) -> Price:
        """Return what a reservation costs; nothing is counted where the budget is infinite."""
        if math.isinf(self.epsilon):
            return Price()
        if self.kind == "sum":
            return Price(*map(_decimal, _proven_claim(guarantee)))
        caps = self.caps()
        mu, delta = dominating_pair(guarantee.event, float(caps.size), float(caps.slack))
        return Price(_UP.multiply(Decimal(mu), Decimal(mu)), Decimal(delta))

    def admits(self, total: Price) -> bool:
        """Whether the caps hold for `total`."""
        caps = self.caps()
        return total.size <= caps.size and total.slack <= caps.slack

    def admits_alone(self, event: PrivacyEvent) -> bool:
        """Whether a first and only release is within the budget."""
        return event.delta_at(self.epsilon) <= self.delta

    def used(self, total: Price) -> float:
        """Return the share of the budget that `total` uses: the larger one of the two caps'."""
        caps = self.caps()
        if caps.size.is_infinite():
            return 0.0
        slack = total.slack / caps.slack if caps.slack else _ZERO
        return _upward(max(total.size / caps.size, slack))

    def largest_pure(self, total: Price) -> float:
        """Return the largest epsilon of a pure release that fits beside `total`, rounded down."""
        caps = self.caps()
        if not self.admits(total):
            return 0.0
        if caps.size.is_infinite():
            return math.inf
        left = _DOWN.subtract(caps.size, total.size)
        number = _downward(left)
        if self.kind == "sum":
            return number
        epsilon = self.epsilon
        if _pure_mu(epsilon) ** 2 > number:
            half = 0.5 * math.sqrt(number)
            epsilon = min(epsilon, float(log_ndtr(half) - log_ndtr(-half)))
        while epsilon > 0.0 and not self.admits(total + self._pure_price(epsilon)):
            epsilon = max(0.0, epsilon * (1.0 - 1e-9) - 1e-15)
        return epsilon

    def _pure_price(self, epsilon: float) -> Price:
        mu = Decimal(_pure_mu(epsilon))
        return Price(_UP.multiply(mu, mu))

    def planned_epsilon(self, total: Price) -> float:
        """Return an epsilon that `total` proves at the budget's delta for planned releases."""
        if self.kind == "sum":
            number = float(total.size)
            if _decimal(number) < total.size:
                number = math.nextafter(number, math.inf)
            return number if total.slack <= _decimal(self.delta) else math.inf
        left = _downward(_DOWN.subtract(_decimal(self.delta), total.slack))
        if left <= 0.0:
            return math.inf
        return gdp_epsilon(_upward(_UP.sqrt(total.size)), min(left, 1.0))


@lru_cache(maxsize=256)
def _caps(rule: Filter) -> Price:
    if math.isinf(rule.epsilon):
        return Price(Decimal(math.inf), Decimal(math.inf))
    if rule.kind == "sum":
        return Price(_decimal(rule.epsilon), _decimal(rule.delta))
    slack = _SLACK_SHARE * rule.delta
    bound = Decimal(gdp_mu(rule.epsilon, rule.delta - slack))
    return Price(_DOWN.multiply(bound, bound), Decimal(slack))


def is_pure(event: PrivacyEvent) -> bool:
    """Whether the event is epsilon-private with delta = 0 for some finite epsilon."""
    return math.isfinite(event.epsilon_at(0.0))


@lru_cache(maxsize=4096)
def _proven_claim(guarantee: PrivacyGuarantee) -> tuple[float, float]:
    """Return the (epsilon, delta) to add up: the claim itself if the event proves it."""
    delta = 0.0 if is_pure(guarantee.event) else guarantee.delta
    if delta == guarantee.delta and guarantee.delta_at(guarantee.epsilon) <= delta:
        return guarantee.epsilon, delta
    proven = guarantee.epsilon_at(delta)
    if delta == guarantee.delta and math.isclose(proven, guarantee.epsilon, rel_tol=_ROUNDING):
        return guarantee.epsilon, delta
    return proven, delta


@lru_cache(maxsize=4096)
def dominating_pair(event: PrivacyEvent, size: float, slack: float) -> tuple[float, float]:
    """Return (mu, delta_0) that dominates the event at every epsilon, in both directions.

    Of several pairs it is the one that takes least of an account: the smallest
    ``mu^2 / size + delta_0 / slack``.

    Parameters
    ----------
    event : PrivacyEvent
        Any release.
    size, slack : float
        The caps of the account for the sums of ``mu^2`` and of ``delta_0``.
    """
    event = event._simplified()
    if isinstance(event, GaussianDP):
        return event.mu, 0.0
    if isinstance(event, NoPrivacy):
        return math.inf, 1.0
    bound, beyond = event._loss_bound()
    pairs = [(_pure_mu(bound), beyond)]  # all that a bound on the loss says
    if isinstance(event, GaussianMixture):  # none of its parts is less private than the worst one
        pairs.append((max(event.mus), 0.0))
    if not isinstance(event, PureDP | ApproximateDP):
        pairs += _certified_pairs(event, size, slack)
    return min(pairs, key=lambda pair: _share(pair, size, slack))


def _share(pair: tuple[float, float], size: float, slack: float) -> float:
    return pair[0] ** 2 / size + pair[1] / slack


def _pure_mu(epsilon: float) -> float:
    """Return mu of a pure release, rounded up; ``inf`` where no double tells it from no privacy."""
    if epsilon == 0.0:
        return 0.0
    if epsilon > 700.0:
        return math.inf
    if epsilon < 1e-5:  # a quantile near one half would lose digits; it is concave in epsilon
        return math.sqrt(0.5 * math.pi) * epsilon * (1.0 + 1e-15)
    return -2.0 * float(ndtri(1.0 / (1.0 + math.exp(epsilon)))) * (1.0 + 1e-12 + 1e-15 / epsilon)


def _certified_pairs(event: PrivacyEvent, size: float, slack: float) -> list[tuple[float, float]]:
    """Return the cheapest pair that values of the profile prove, or none."""
    bound, beyond = event._loss_bound()
    allowed = [beyond + share * slack for share in _TAIL_SHARES]
    if allowed[0] >= 1.0:
        return []
    last = min(bound, event.epsilon_at(allowed[0]))
    if not 0.0 < last < _LARGEST_LOSS:
        return [(0.0, allowed[0])] if last == 0.0 else []
    nodes = last * np.append(np.linspace(0.0, 0.95, _FIRST_NODES) ** 1.25, 1.0)
    profile = np.append(event._profile(nodes[:-1]), event.delta_at(last))
    at_end = float(profile[-1])
    allowed = [max(delta, at_end) for delta in allowed] + ([at_end] if last == bound else [])
    pairs = [(_smallest_mu(nodes, profile, delta), delta) for delta in allowed]
    mu, delta = min(pairs, key=lambda pair: _share(pair, size, slack))
    for _ in range(_ROUNDS):
        gap = _gap(*_pieces(nodes, profile), mu * (1.0 - _REFINED), delta)
        worst = np.unique(np.argsort(gap)[-_ADDED * _PIECES :] // _PIECES)[-_ADDED:]
        added = 0.5 * (nodes[worst] + nodes[worst + 1])
        at = np.searchsorted(nodes, added)
        profile = np.insert(profile, at, event._profile(added))
        nodes = np.insert(nodes, at, added)
        before, mu = mu, _smallest_mu(nodes, profile, delta)
        if mu > before * (1.0 - _REFINED):
            break
    return [(mu, delta)] if math.isfinite(mu) else []


def _pieces(nodes: FloatArray, profile: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a grid and the chords on it: each interval of the nodes in equal pieces."""
    # The true profile is convex in exp(epsilon), also where the bound on it is not.
    envelope = convex_envelope(np.exp(nodes - nodes[-1]), np.minimum(profile, 1.0))
    profile = np.minimum(profile, envelope * (1.0 + _ROUNDING))
    parts = np.arange(_PIECES) / _PIECES
    width = np.diff(nodes)[:, None]
    along = np.expm1(width * parts) / np.expm1(width)  # the chord is linear in exp(epsilon)
    chords = profile[:-1, None] + np.diff(profile)[:, None] * along
    grid = nodes[:-1, None] + width * parts
    return np.append(grid.ravel(), nodes[-1]), np.append(chords.ravel(), profile[-1])


def _gap(grid: FloatArray, chords: FloatArray, mu: float, delta: float) -> FloatArray:
    """Return for each piece by how much the chord exceeds the tangent of T, relatively."""
    if math.isinf(mu):
        return np.full(grid.size - 1, -1.0)
    right = grid[1:]
    value = delta + (1.0 - delta) * np.exp(log_gaussian_profile(grid, mu)) * (1.0 - _ROUNDING)
    # dT/dx = -(1-delta) Phi(-mu/2 - e/mu), and x falls from right to left by x(1 - exp(-width)).
    rise = np.exp(log_ndtr(-0.5 * mu - right / mu) + right) * -np.expm1(-np.diff(grid))
    tangent = value[1:] + (1.0 - delta) * rise * (1.0 - 1e-9)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # 0 / 0 is not accepted
        at_left, at_right = chords[:-1] / tangent - 1.0, chords[1:] / value[1:] - 1.0
    return np.asarray(np.maximum(at_left, at_right), dtype=np.float64)


def _smallest_mu(nodes: FloatArray, profile: FloatArray, delta: float) -> float:
    """Return the smallest mu, to a thousandth, that the certificate accepts with this delta_0."""
    pieces = _pieces(nodes, profile)

    def accepted(mu: float) -> bool:
        return bool(np.all(_gap(*pieces, mu, delta) <= 0.0))

    high = max(2.0 * float(ndtri(0.5 + 0.5 * min(max(profile[0] - delta, 0.0), 0.999))), 1e-12)
    low = 0.5 * high
    while not accepted(high):
        low, high = high, 1.5 * high
        if high > _LARGEST_MU:
            return math.inf
    while high > low * (1.0 + _MU_WIDTH):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if accepted(middle) else (middle, high)
    return high


def _decimal(value: float) -> Decimal:
    """Return the number as it prints, so that three times 0.1 is 0.3."""
    return Decimal(repr(float(value)))


def _upward(value: Decimal) -> float:
    number = float(value)
    return number if Decimal(number) >= value else math.nextafter(number, math.inf)


def _downward(value: Decimal) -> float:
    number = float(value)
    return number if _decimal(number) <= value else math.nextafter(number, 0.0)
