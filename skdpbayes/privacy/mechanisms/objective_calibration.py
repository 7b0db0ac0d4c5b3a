"""Noise of objective perturbation for a given budget: our own bounds, and those of the literature.

Noise is given as a multiplier of the bound L on one record's gradient norm, the penalty as the
*curvature* ``R**2 / penalty``; see :mod:`skdpbayes.privacy.mechanisms.objective_perturbation`.

References
----------
.. [1] K. Chaudhuri, C. Monteleoni, A. Sarwate. Differentially private empirical risk minimization.
   JMLR 12, 2011 (Algorithm 2, Theorem 9).
.. [2] D. Kifer, A. Smith, A. Thakurta. Private convex empirical risk minimization and
   high-dimensional regression. COLT 2012 (Theorem 2).
.. [3] R. Redberg, A. Koskela, Y.-X. Wang. Improving the privacy and practicality of objective
   perturbation for differentially private linear learners. NeurIPS 2023 (Theorem 3.1).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy._numeric import check_positive, smallest_satisfying
from skdpbayes.privacy.guarantee import Unit, check_adjacency, check_unit
from skdpbayes.privacy.mechanisms.gdp import gdp_delta, gdp_mu
from skdpbayes.privacy.mechanisms.objective_perturbation import (
    ObjectivePerturbation,
    largest_curvature,
    loss_bound,
    tangent_loss_bound,
)

# exp(100) is no privacy already; more budget would only make rounding a concern
_LARGEST_EPSILON = 100.0
_PRECISION = 2e-3  # of delta, that the calibration may leave
_STEPS = 60


@lru_cache(maxsize=256)
def calibrate_objective(
    epsilon: float,
    delta: float,
    *,
    curvature: float,
    adjacency: str,
    n_classes: int = 2,
    side_share: float = 0.0,
    information_share: float = 0.0,
) -> ObjectivePerturbation:
    r"""Return the objective perturbation of least noise that is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon, delta : float
        The budget, both positive.
    curvature, adjacency, n_classes
        As in :class:`ObjectivePerturbation`.
    side_share : float
        Share of :math:`\mu^2` set aside for releases around the minimizer, in [0, 1).
    information_share : float
        The same for a noisy information matrix, which costs hardly anything unless there are more
        than two classes.

    Returns
    -------
    ObjectivePerturbation
        With ``delta_at(epsilon) <= delta``. An epsilon above 100 is calibrated as 100.

    Examples
    --------
    >>> from skdpbayes.privacy import calibrate_objective
    >>> event = calibrate_objective(1.0, 1e-5, curvature=1.0, adjacency="zero_out")
    >>> round(event.noise_multiplier, 6)
    3.730632
    """
    check_positive("epsilon", epsilon)
    if curvature >= largest_curvature(epsilon, n_classes):
        raise CalibrationError(
            f"curvature={curvature:g} costs epsilon={epsilon:g} on its own; it must be below "
            f"{largest_curvature(epsilon, n_classes):g}"
        )

    epsilon = min(epsilon, _LARGEST_EPSILON)

    def event(mu: float) -> ObjectivePerturbation:
        doubled = 2.0 if adjacency == "replace_one" else 1.0
        paid = side_share + (information_share if n_classes > 2 else 0.0)
        return ObjectivePerturbation(
            noise_multiplier=doubled / (mu * math.sqrt(1.0 - paid)),
            curvature=curvature,
            adjacency=adjacency,
            side_mu=mu * math.sqrt(side_share),
            n_classes=n_classes,
            information_mu=mu * math.sqrt(information_share / doubled),
        )

    def excess(mu: float) -> float:
        return math.log(max(event(mu).delta_at(epsilon), 1e-300) / delta)

    # The Gaussian mechanism itself is the best possible; the headroom covers the rounding of sums
    high = gdp_mu(epsilon, delta) * (1.0 - 1e-10)
    if excess(high) <= 0.0:
        return event(high)
    # a secant in logarithms, with the Gaussian mechanism's slope to start with
    private, public = 0.0, high
    mu, miss, slope = high, excess(high), (epsilon / high) ** 2
    for _ in range(_STEPS):
        step = (miss + 0.5 * _PRECISION) / slope
        other = mu * math.exp(-min(step, 1.0))
        if not 1.000001 * private < other < public:
            other = math.sqrt(max(private, 0.25 * public) * public)
        other_miss = excess(other)
        if other_miss <= 0.0:
            private = other
            if other_miss >= -_PRECISION or public < private * (1.0 + 1e-4):
                return event(private)
        else:
            public = other
        if other_miss != miss:
            slope = max((miss - other_miss) / math.log(mu / other), 1.0)
        mu, miss = other, other_miss
    if private > 0.0:
        return event(private)
    raise CalibrationError(
        f"no noise reaches epsilon={epsilon:g}, delta={delta:g} at curvature={curvature:g}"
    )


def pure_objective_epsilon(
    noise_multiplier: float,
    *,
    curvature: float,
    adjacency: str,
    n_classes: int = 2,
    unit: Unit = "record",
) -> float:
    r"""Return the pure epsilon of objective perturbation with density :math:`e^{-\|b\|/s}`.

    Moving the noise by a gradient of norm at most :math:`qL` costs :math:`q A`,
    :math:`A = L / s`; deleting a record costs ``loss_bound(A, curvature)``, adding one A. For
    softmax and :math:`A \ge 4k` a spread-out :math:`p` loses more in the gradient than it gains in
    the determinant, and the total is A.

    Parameters
    ----------
    noise_multiplier : float
        Scale s over the bound L on one record's gradient norm, positive.
    curvature, adjacency, n_classes
        As in :class:`ObjectivePerturbation`.
    unit : {"record", "person"}
        Whose data change; for a person only the tangent at 0 of the determinant term is known to
        hold (:mod:`skdpbayes.privacy.mechanisms.objective_persons`).
    """
    margin = 1.0 / check_positive("noise_multiplier", noise_multiplier)
    deleted = float(loss_bound(np.array([margin]), curvature, 0.0, n_classes)[0])
    if check_unit(unit) == "person":
        deleted = tangent_loss_bound(margin, curvature, n_classes)
    elif n_classes > 2 and margin >= 4.0 * curvature:
        deleted = margin
    return deleted + margin if check_adjacency(adjacency) == "replace_one" else deleted


@lru_cache(maxsize=256)
def pure_objective_scale(
    epsilon: float,
    *,
    curvature: float,
    adjacency: str,
    n_classes: int = 2,
    unit: Unit = "record",
) -> float:
    """Return the least noise multiplier whose pure epsilon is at most `epsilon`.

    The price is that of :func:`pure_objective_epsilon`.

    Parameters
    ----------
    epsilon : float
        The budget, positive.
    curvature, adjacency, n_classes
        As in :class:`ObjectivePerturbation`.
    unit : {"record", "person"}
        Whose data change.

    Examples
    --------
    >>> from skdpbayes.privacy import pure_objective_scale
    >>> round(pure_objective_scale(1.0, curvature=0.5, adjacency="replace_one"), 9)
    2.0
    """
    check_positive("epsilon", epsilon)
    limit = largest_curvature(epsilon, n_classes, unit)
    if curvature >= limit:
        raise CalibrationError(
            f"curvature={curvature:g} costs epsilon={epsilon:g} on its own; it must be below "
            f"{limit:g}"
        )

    def private(scale: float) -> bool:
        cost = pure_objective_epsilon(
            scale, curvature=curvature, adjacency=adjacency, n_classes=n_classes, unit=unit
        )
        return cost <= epsilon

    least = (2.0 if adjacency == "replace_one" else 1.0) / epsilon
    return least if private(least) else smallest_satisfying(private, least, 2.0 * least)


def chaudhuri2011_scale(epsilon: float, *, curvature: float, adjacency: str) -> tuple[float, float]:
    r"""Return (noise multiplier, curvature) of the published pure mechanism, logistic loss.

    With the loss's own curvature :math:`c`, a quarter of ``curvature`` (Algorithm 2 in terms of
    sums), the noise is made for :math:`\varepsilon'=\varepsilon-2\log(1+c)`; if that is not
    positive the penalty is raised so that :math:`c=e^{\varepsilon/4}-1` and
    :math:`\varepsilon'=\varepsilon/2`.

    Parameters
    ----------
    epsilon : float
        The budget, positive.
    curvature, adjacency
        As in :class:`ObjectivePerturbation`.

    Examples
    --------
    >>> from skdpbayes.privacy import chaudhuri2011_scale
    >>> scale, _ = chaudhuri2011_scale(1.0, curvature=0.1, adjacency="replace_one")
    >>> round(scale, 10)
    2.1039016571
    """
    left = epsilon - 2.0 * math.log1p(0.25 * curvature)
    if left <= 0.0:
        left, curvature = 0.5 * epsilon, 4.0 * math.expm1(0.25 * epsilon)
    return _shift(adjacency) / left, curvature


def kifer2012_noise_multiplier(
    epsilon: float, delta: float, *, curvature: float, adjacency: str
) -> float:
    r"""Return the published Gaussian noise multiplier of Kifer, Smith and Thakurta (2012).

    It is :math:`\sqrt{8\log(2/\delta)+4\varepsilon}/\varepsilon`, stated for a deleted record; for
    a replaced one the gradients' difference takes the place of the gradient, which doubles it.

    Parameters
    ----------
    epsilon, delta : float
        The budget, both positive.
    curvature, adjacency
        As in :class:`ObjectivePerturbation`; the theorem needs ``curvature <= 2 epsilon``.
    """
    if curvature > 2.0 * epsilon:
        raise CalibrationError(
            f"kifer2012 needs curvature <= 2 epsilon = {2.0 * epsilon:g}; got {curvature:g}"
        )
    noise = math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon
    return _shift(adjacency) * noise


def redberg2023_delta(epsilon: float, mu: float, curvature: float) -> float:
    """Return the published profile of a deleted record, Gaussian noise, generalized linear loss.

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        Gradient bound over noise scale, positive.
    curvature : float
        ``R**2 / penalty`` of the logistic loss, below 4.

    Examples
    --------
    >>> from skdpbayes.privacy import redberg2023_delta
    >>> round(redberg2023_delta(1.0, 0.25, 1.0), 14)
    0.00045695915713
    """
    determinant = -math.log1p(-0.25 * curvature)
    left = epsilon - determinant
    if left >= 0.5 * mu * mu:
        return min(1.0, 2.0 * gdp_delta(left, mu))
    growth = math.exp(left - 0.5 * mu * mu)
    return min(1.0, 1.0 - growth + 2.0 * growth * gdp_delta(0.5 * mu * mu, mu))


def redberg2023_noise_multiplier(
    epsilon: float, delta: float, *, curvature: float, adjacency: str
) -> float:
    """Return the least Gaussian noise multiplier under the profile of Redberg et al. (2023).

    The profile is :func:`redberg2023_delta`.

    Parameters
    ----------
    epsilon, delta : float
        The budget, both positive.
    curvature, adjacency
        As in :class:`ObjectivePerturbation`; the theorem needs ``-log(1 - curvature/4) < epsilon``.
        A replaced record doubles the multiplier.
    """
    limit = -4.0 * math.expm1(-epsilon)
    if curvature >= limit:
        raise CalibrationError(
            f"redberg2023 needs curvature < 4 (1 - exp(-epsilon)) = {limit:g}; got {curvature:g}"
        )

    def private(noise: float) -> bool:
        return redberg2023_delta(epsilon, 1.0 / noise, curvature) <= delta

    return _shift(adjacency) * smallest_satisfying(private, 0.0, 1.0)


def _shift(adjacency: str) -> float:
    return 2.0 if check_adjacency(adjacency) == "replace_one" else 1.0
