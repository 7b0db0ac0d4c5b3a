r"""Bounds of Minami, Arai, Sato and Nakagawa (2016) as printed.

A Gibbs posterior :math:`\propto\pi(\theta)\exp(-\beta\sum_i\ell(\theta,x_i))` with losses that are
*L*-Lipschitz and a potential that is *m*-strongly convex has a privacy loss with Gaussian tails.
The exact value is Gaussian differential privacy with :math:`\mu=2L\beta/\sqrt m`
(:func:`~skdpbayes.privacy.gdp_mu`); theirs is Chernoff's bound on its tail.

References
----------
.. [1] K. Minami, H. Arai, I. Sato and H. Nakagawa. Differential privacy without sensitivity.
   NeurIPS 2016, with its supplement.
.. [2] P. Alquier, J. Ridgway and N. Chopin. On the properties of variational approximations of
   Gibbs posteriors. JMLR 17, 2016.
"""

from __future__ import annotations

import math

from skdpbayes.privacy._numeric import check_count, check_nonnegative, check_positive

__all__ = [
    "hinge_hoeffding",
    "minami2016_delta",
    "minami2016_hinge_power",
    "minami2016_mean_power",
    "pac_bayes_bound",
]


def minami2016_delta(
    epsilon: float, *, power: float, lipschitz: float, strong_convexity: float
) -> float:
    r"""Delta of a Gibbs posterior, Theorems 7, 10 and 15.

    :math:`\delta=\exp\big(-\frac{m}{8L^2\beta^2}(\varepsilon-\frac{2L^2\beta^2}m)^2\big)`, 1 where
    the bracket is negative. *m* is :math:`m_\pi` of the prior in Theorem 7; where the losses are
    strongly convex, too (Theorem 10), :math:`m_\pi+n\beta m_\ell`; for the mean of records in a
    ball of radius *r* (Theorem 15), :math:`L=r` and :math:`m=n\beta+\lambda`.

    Parameters
    ----------
    epsilon : float
        At least 0.
    power : float
        The factor :math:`\beta` on the sum of losses.
    lipschitz : float
        The constant *L* of one loss.
    strong_convexity : float
        The constant *m* of the potential.

    Returns
    -------
    float
        At most 1.

    Examples
    --------
    >>> from skdpbayes.papers import minami2016_delta
    >>> power = 1.79e-4 * 1000
    >>> round(minami2016_delta(0.1, power=power, lipschitz=1.0, strong_convexity=1000 * power), 6)
    0.000975
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    scale = 2.0 * (check_positive("lipschitz", lipschitz) * check_positive("power", power)) ** 2
    divergence = scale / check_positive("strong_convexity", strong_convexity)
    if epsilon <= divergence:
        return 1.0
    return math.exp(-((epsilon - divergence) ** 2) / (4.0 * divergence))


def minami2016_mean_power(
    epsilon: float, delta: float, *, n_samples: int, radius: float, equation: str = "B.8"
) -> float:
    r"""Largest power of a Gaussian mean's posterior with a flat prior, (B.7) or (B.8).

    (B.7), of the Gaussian mechanism, is :math:`\varepsilon^2n/(8r^2\log(2/\delta))`; (B.8) is
    :math:`\frac n{2r^2}\big(\varepsilon+2l-2\sqrt{l(\varepsilon+l)}\big)`,
    :math:`l=\log(1/\delta)`. The exact value is :math:`n\mu^2/(4r^2)` with
    :func:`~skdpbayes.privacy.gdp_mu`.

    Parameters
    ----------
    epsilon, delta : float
        Target, both positive.
    n_samples : int
        Number of records.
    radius : float
        Bound on the norm of a record.
    equation : {"B.8", "B.7"}, default="B.8"
        Which one.

    Returns
    -------
    float
        The power :math:`\beta`.
    """
    epsilon = check_positive("epsilon", epsilon)
    unit = check_count("n_samples", n_samples) / check_positive("radius", radius) ** 2
    if equation == "B.7":
        return unit * epsilon**2 / (8.0 * math.log(2.0 / check_positive("delta", delta)))
    if equation != "B.8":
        raise ValueError(f"equation must be 'B.8' or 'B.7', got {equation!r}")
    log_term = math.log(1.0 / check_positive("delta", delta))
    root = math.sqrt(log_term + epsilon) + math.sqrt(log_term)
    return 0.5 * unit * (epsilon / root) ** 2  # the printed difference without cancellation


def hinge_hoeffding(power: float, *, n_samples: int, radius: float, regularization: float) -> float:
    r"""Return the function *f* of Example 19, for the hinge loss.

    :math:`f(\beta,n)=\frac{\beta^2}{4n}-\frac12\log\big(1-\frac{r^2\beta^2}{4\lambda n^2}\big)` for
    the prior :math:`N(0,(n\lambda)^{-1}I)` and :math:`\beta<2\sqrt\lambda\,n/r`; infinite beyond.

    Parameters
    ----------
    power : float
        Factor :math:`\beta` on the *mean* of the losses.
    n_samples : int
        Number of records.
    radius : float
        Bound *r* on the norm of a record.
    regularization : float
        The constant :math:`\lambda`.

    Returns
    -------
    float
    """
    power, n = check_positive("power", power), check_count("n_samples", n_samples)
    lam = check_positive("regularization", regularization)
    share = (check_positive("radius", radius) * power / (2.0 * n)) ** 2 / lam
    return math.inf if share >= 1.0 else power**2 / (4.0 * n) - 0.5 * math.log1p(-share)


def minami2016_hinge_power(
    epsilon: float,
    delta: float,
    *,
    n_samples: int,
    radius: float,
    regularization: float,
    printed: bool = False,
) -> float:
    r"""Largest power of Example 19 that is private and has a risk bound.

    The factor is on the *mean* of the losses, as in (C.4) and in :math:`\beta^*`:
    :math:`\frac{\sqrt{\lambda n}}r\min\big\{\frac{n\varepsilon}{2\sqrt{1+2\log(1/\delta)}},
    2\sqrt n\big\}`. The paper prints the first term without its *n*, which belongs to a factor on
    the *sum*: as printed the power is private, and up to *n* times too small.

    Parameters
    ----------
    epsilon, delta : float
        Target of Corollary 8; epsilon at most 1.
    n_samples, radius, regularization : int, float, float
        As for :func:`hinge_hoeffding`.
    printed : bool, default=False
        Whether to return the printed value.

    Returns
    -------
    float
    """
    n = check_count("n_samples", n_samples)
    epsilon, delta = check_positive("epsilon", epsilon), check_positive("delta", delta)
    private = epsilon / (2.0 * math.sqrt(1.0 + 2.0 * math.log(1.0 / delta)))
    scale = math.sqrt(check_positive("regularization", regularization) * n)
    scale /= check_positive("radius", radius)
    return scale * min(private if printed else n * private, 2.0 * math.sqrt(n))


def pac_bayes_bound(
    risk: float, divergence: float, hoeffding: float, *, power: float, level: float = 0.05
) -> float:
    r"""Risk bound (C.6) of Theorem 18, :math:`E R_n+(f+D+\log(1/\alpha))/\beta`.

    Parameters
    ----------
    risk : float
        Mean empirical risk of the posterior: computed from the data, so the bound is not private.
    divergence : float
        Kullback-Leibler divergence of the posterior from the prior.
    hoeffding : float
        Value of *f*, as :func:`hinge_hoeffding` returns it.
    power : float
        Factor :math:`\beta` on the *mean* of the losses.
    level : float, default=0.05
        Probability :math:`\alpha` with which the bound may fail.

    Returns
    -------
    float
    """
    surplus = check_nonnegative("hoeffding", hoeffding) + check_nonnegative(
        "divergence", divergence
    )
    surplus += math.log(1.0 / check_positive("level", level))
    return check_nonnegative("risk", risk) + surplus / check_positive("power", power)
