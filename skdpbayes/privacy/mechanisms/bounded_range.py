r"""Bounded-range mechanisms: exact privacy profile, its inverses and composition.

A mechanism has *bounded range* :math:`\eta` if for neighboring inputs the privacy loss
:math:`\log p(\theta)/p'(\theta)` lies in an interval of length :math:`\eta` (Durfee and Rogers
2019). Every exponential mechanism whose score difference has range :math:`\eta` is one, and so is
one draw from a tempered posterior.

The pair of two-point distributions with privacy losses :math:`t` and :math:`t-\eta`,

.. math:: p_t = \frac{1-e^{t-\eta}}{1-e^{-\eta}}, \qquad q_t = e^{-t} p_t, \qquad 0\le t\le\eta,

is the worst case with loss interval :math:`[t-\eta, t]`: the likelihood ratio under the second
distribution has mean 1 and lies in :math:`[e^{t-\eta}, e^t]`, the two-point law on the end points
is the largest such law in convex order, and every hockey-stick divergence is the mean of a convex
function of the ratio. So it dominates in Blackwell's order, which products preserve.

References
----------
.. [1] D. Durfee and R. Rogers. Practical differentially private top-k selection with
   pay-what-you-get composition. NeurIPS 2019.
.. [2] J. Dong, D. Durfee and R. Rogers. Optimal differential privacy composition for exponential
   mechanisms. ICML 2020.
.. [3] M. Cesar and R. Rogers. Bounding, concentrating, and truncating: unifying privacy loss
   composition for data analytics. ALT 2021.
.. [4] C. Canonne, G. Kamath and T. Steinke. The discrete Gaussian for differential privacy.
   NeurIPS 2020.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainc

from skdpbayes.privacy._numeric import (
    check_count,
    check_delta,
    check_nonnegative,
    largest_satisfying,
    smallest_satisfying,
)

# One evaluation of the composed profile costs O(n_draws); beyond this the zCDP bound takes over
# (about 8% less range at delta = 1e-5, no cost per draw).
_MAX_EXACT_DRAWS = 20_000
# Allowance for the relative error of the incomplete beta function, added on the private side.
_BETAINC_SLACK = 1e-10


def bounded_range_delta(
    epsilon: float, eta: float, n_draws: int = 1, *, adaptive: bool = False
) -> float:
    r"""Privacy profile of `n_draws` uses of an `eta`-bounded-range mechanism.

    One use: :math:`\delta(\varepsilon) = (e^{\eta/2}-e^{\varepsilon/2})^2/(e^\eta-1)` for
    :math:`\varepsilon\le\eta`, else 0, attained by the two-point pair at
    :math:`t=(\eta+\varepsilon)/2`.

    *k* independent uses on the same pair of inputs: by Neyman and Pearson the two-point pair gives

    .. math:: \delta = \max_{0\le\ell<k}\ \max_t\
        P[\mathrm{Bin}(k, 1-p_t)\le\ell] - e^\varepsilon P[\mathrm{Bin}(k, 1-q_t)\le\ell],

    and the derivative in *t* changes sign once, at
    :math:`t_\ell=(\varepsilon+(\ell+1)\eta)/(k+1)` (Dong, Durfee and Rogers 2020).

    Parameters
    ----------
    epsilon : float
        At least 0.
    eta : float
        Length of the interval that holds the privacy loss of one use.
    n_draws : int, default=1
        Number of uses.
    adaptive : bool, default=False
        False: independent draws of the same mechanism, as in several draws of one posterior. True:
        later mechanisms may depend on earlier outputs; the optimal formula does not cover that,
        and the smaller of basic composition and :func:`zcdp_delta` is returned.

    Returns
    -------
    float
        The smallest delta (for ``adaptive=True`` or very many draws: an upper bound on it).

    Examples
    --------
    >>> from skdpbayes.privacy import bounded_range_delta
    >>> round(bounded_range_delta(0.5, eta=1.0), 10)
    0.0774046863
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    eta = check_nonnegative("eta", eta)
    n_draws = check_count("n_draws", n_draws)
    if epsilon >= n_draws * eta:
        return 0.0
    if math.isinf(eta):
        return 1.0
    if n_draws == 1:
        return min(1.0, math.expm1((epsilon - eta) / 2.0) ** 2 / -math.expm1(-eta))
    bound = zcdp_delta(epsilon, n_draws * bounded_range_rho(eta))
    if adaptive or n_draws > _MAX_EXACT_DRAWS:
        return bound
    return min(bound, _optimal_delta(epsilon, eta, n_draws))


def _optimal_delta(epsilon: float, eta: float, n_draws: int) -> float:
    """Optimal composition of independent draws: the maximum over ell of its t_ell."""
    ell = np.arange(n_draws, dtype=float)
    t = np.clip((epsilon + (ell + 1.0) * eta) / (n_draws + 1.0), 0.0, eta)
    p = np.expm1(t - eta) / math.expm1(-eta)
    # P[Bin(k, 1 - p) <= ell] = I_p(k - ell, ell + 1)
    upper = betainc(n_draws - ell, ell + 1.0, p)
    lower = betainc(n_draws - ell, ell + 1.0, np.exp(-t) * p)
    with np.errstate(divide="ignore", over="ignore"):
        # An underflow of `lower` drops a subtracted term: the result stays an upper bound.
        scaled = np.exp(epsilon + np.log(lower))
    value = float(np.max(upper * (1.0 + _BETAINC_SLACK) - scaled * (1.0 - _BETAINC_SLACK)))
    return min(1.0, max(0.0, value))


def bounded_range_epsilon(
    eta: float, delta: float, n_draws: int = 1, *, adaptive: bool = False
) -> float:
    """Smallest epsilon with ``bounded_range_delta(epsilon, eta, n_draws) <= delta``.

    Parameters
    ----------
    eta : float
        Range of one use.
    delta : float
        In [0, 1).
    n_draws : int, default=1
        Number of uses.
    adaptive : bool, default=False
        See :func:`bounded_range_delta`.

    Returns
    -------
    float
        Rounded to the private side.
    """
    eta = check_nonnegative("eta", eta)
    delta = check_delta(delta)
    n_draws = check_count("n_draws", n_draws)
    total = n_draws * eta
    if delta == 0.0 or total == 0.0 or math.isinf(total):
        return total

    def private(epsilon: float) -> bool:
        return bounded_range_delta(epsilon, eta, n_draws, adaptive=adaptive) <= delta

    return 0.0 if private(0.0) else smallest_satisfying(private, 0.0, total)


def bounded_range_eta(
    epsilon: float, delta: float, n_draws: int = 1, *, adaptive: bool = False
) -> float:
    """Largest range per draw for which `n_draws` draws together are (epsilon, delta)-DP.

    With ``delta=0`` this is ``epsilon / n_draws``. With ``delta > 0`` several draws gain much:
    100 draws within (1, 1e-5) may have 5 times the range that basic composition allows.

    Parameters
    ----------
    epsilon : float
        Total budget, > 0.
    delta : float
        Total budget, in [0, 1).
    n_draws : int, default=1
        Number of draws released.
    adaptive : bool, default=False
        See :func:`bounded_range_delta`.

    Returns
    -------
    float
        Rounded to the private side: ``bounded_range_delta`` there is at most `delta`.

    Examples
    --------
    >>> from skdpbayes.privacy import bounded_range_eta
    >>> round(bounded_range_eta(1.0, 1e-5), 8)
    1.00504211
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    delta = check_delta(delta)
    n_draws = check_count("n_draws", n_draws)
    if math.isinf(epsilon):
        return math.inf
    basic = epsilon / n_draws
    while n_draws * basic > epsilon:
        basic = math.nextafter(basic, 0.0)
    if delta == 0.0:
        return basic

    def private(eta: float) -> bool:
        return bounded_range_delta(epsilon, eta, n_draws, adaptive=adaptive) <= delta

    return largest_satisfying(private, basic, 2.0 * basic + math.sqrt(delta))


def bounded_range_rho(eta: float) -> float:
    r"""Return the zCDP parameter of one use of a bounded-range mechanism.

    A range of :math:`\eta` is :math:`\eta^2/8`-zCDP (Cesar and Rogers 2021).

    *Proof.* :math:`\psi(\alpha)=\log E_{p'}[e^{\alpha L}]` for the privacy loss *L* has
    :math:`\psi(0)=\psi(1)=0`, and :math:`\psi''` is the variance of a variable in an interval of
    length :math:`\eta`, at most :math:`\eta^2/4`. So
    :math:`\psi(\alpha)-\alpha(\alpha-1)\eta^2/8` is concave with zeros at 0 and 1, hence negative
    beyond 1, and :math:`D_\alpha=\psi(\alpha)/(\alpha-1)\le\alpha\eta^2/8`.

    Parameters
    ----------
    eta : float
        Range, at least 0.

    Returns
    -------
    float
        The zCDP parameter.
    """
    return check_nonnegative("eta", eta) ** 2 / 8.0


def zcdp_delta(epsilon: float, rho: float) -> float:
    r"""Delta at `epsilon` of any rho-zCDP mechanism.

    Corollary 13 of Canonne, Kamath and Steinke (2020): the minimum over :math:`\alpha>1` of
    :math:`e^{(\alpha-1)(\alpha\rho-\varepsilon)}(1-1/\alpha)^\alpha/(\alpha-1)`. Any alpha is
    valid, so the numerical minimum is on the private side wherever the search stops.

    Parameters
    ----------
    epsilon : float
        At least 0.
    rho : float
        zCDP parameter, at least 0.

    Returns
    -------
    float
        At most 1.
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    rho = check_nonnegative("rho", rho)
    if rho == 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(rho):
        return 1.0

    def log_delta(log_excess: float) -> float:
        excess = math.exp(log_excess)  # alpha - 1
        alpha = 1.0 + excess
        return (
            excess * (alpha * rho - epsilon)
            + alpha * (log_excess - math.log1p(excess))
            - log_excess
        )

    # The derivative of excess * (alpha * rho - epsilon) vanishes at (epsilon - rho) / (2 rho); the
    # other terms move the minimizer by at most about 1 / sqrt(rho).
    high = math.log(2.0 + epsilon / rho + 2.0 / math.sqrt(rho))
    best = minimize_scalar(log_delta, bounds=(-8.0, high), method="bounded")
    return math.exp(min(0.0, float(best.fun)))
