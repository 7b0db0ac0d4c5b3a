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
.. [3] A. S. Dalalyan. Theoretical guarantees for approximate sampling from smooth and log-concave
   densities. Journal of the Royal Statistical Society B 79, 2017.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from skdpbayes.privacy._numeric import (
    check_count,
    check_nonnegative,
    check_positive,
    largest_satisfying,
)


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


def hinge_hoeffding(
    power: float,
    *,
    n_samples: int,
    radius: float,
    regularization: float,
    dimension: int,
    printed: bool = False,
) -> float:
    r"""Return the function *f* of Example 19, for the hinge loss; the printed one is false.

    Losses lie in :math:`[0,1+r|\theta|]`, so that by Hoeffding's lemma the moment in (C.5) is at
    most :math:`e^{\beta^2(1+r^2|\theta|^2)/(4n)}`. In *d* dimensions under the prior
    :math:`N(0,(n\lambda)^{-1}I)` this is :math:`e^f` with

    .. math:: f(\beta,n)=\frac{\beta^2}{4n}-\frac d2\log\Big(1-\frac{r^2\beta^2}{2\lambda n^2}\Big)

    for :math:`\beta<\sqrt{2\lambda}\,n/r`; infinite beyond. The paper prints 4 for 2 and 1 for
    *d*. In one dimension, with *n* = 2000, :math:`\lambda=0.1` and fair labels of one row, the
    logarithm of the moment at :math:`0.8\cdot2\sqrt\lambda n/r` is 153; printed: 128.5.

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
    dimension : int
        Number of parameters *d*.
    printed : bool, default=False
        Return the printed value, with which the risk bounds do not follow.

    Returns
    -------
    float
    """
    power, n = check_positive("power", power), check_count("n_samples", n_samples)
    dimension = check_count("dimension", dimension)
    lam = check_positive("regularization", regularization)
    share = (check_positive("radius", radius) * power / n) ** 2 / (2.0 * lam)
    if printed:
        share, dimension = 0.5 * share, 1
    if share >= 1.0:
        return math.inf
    return power**2 / (4.0 * n) - 0.5 * dimension * math.log1p(-share)


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
    \sqrt{2n}\big\}`. The paper prints the first term without its *n*, which belongs to a factor on
    the *sum*: as printed the power is private, and up to *n* times too small. The second term is
    where :func:`hinge_hoeffding` becomes infinite; printed: :math:`2\sqrt n`.

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
    if printed:
        return scale * min(private, 2.0 * math.sqrt(n))
    return scale * min(n * private, math.sqrt(2.0 * n))


def pac_bayes_bound(
    risk: float, divergence: float, hoeffding: float, *, power: float, level: float = 0.05
) -> float:
    r"""Risk bound (C.6) of Theorem 18, :math:`E R_n+(f+D+\log(1/\alpha))/\beta`.

    Half of the power, and the true risk of any distribution with its divergence, give the bound of
    the oracle inequality (C.7), which fails with probability at most :math:`2\alpha`.

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


class LangevinSchedule(NamedTuple):
    """A Langevin run whose last iterate is provably close to its target.

    The chain starts from a normal distribution at the minimizer of the potential with standard
    deviation `initial_scale` in every coordinate.

    Attributes
    ----------
    step_size : float
        The step.
    n_steps : int
        Number of steps.
    initial_scale : float
        Standard deviation of the start.
    total_variation : float
        Bound on the distance of the last iterate from the target.
    """

    step_size: float
    n_steps: int
    initial_scale: float
    total_variation: float


def lmc_total_variation(
    step_size: float,
    n_steps: int,
    *,
    dimension: int,
    strong_convexity: float,
    smoothness: float,
) -> float:
    r"""Bound on the distance of a Langevin chain's last iterate from its target.

    The target is proportional to :math:`e^{-U}`. For *U* in *p* dimensions, *m*-strongly convex and
    *M*-smooth, steps *h* at most :math:`1/M`, total time :math:`T=Kh` and the start of
    :class:`LangevinSchedule`,

    .. math:: \mathrm{TV} \le \tfrac12 (M/m)^{p/4} e^{-mT} + \sqrt{\mathrm{KL}/2}, \qquad
        \mathrm{KL} \le \frac{M^2p}{4}\Big(Th + \frac{h^2(1/2+MT)}{3(1-Mh/2)}\Big).

    *Proof* (after Dalalyan 2017, Theorem 2). The first term is the distance of the diffusion: its
    chi-square divergence decays as :math:`e^{-2mT}` by Poincaré's inequality and starts below
    :math:`(M/m)^{p/2}`. The second is Pinsker's inequality for the divergence of the two paths,
    by Girsanov :math:`\frac14\int E|\nabla U(D_t)-\nabla U(D_{kh})|^2dt\le
    \frac{M^2}{4}\sum_k(\frac{h^3}{3}E|\nabla U|^2+h^2p)`, where summing the descent inequality
    :math:`EU_{k+1}\le EU_k-h(1-Mh/2)E|\nabla U|^2+Mhp` from a start at most :math:`p/2` above the
    minimum bounds the gradients. Dalalyan's Theorem 2 is the same with :math:`e^{-mT/2}` and a
    rounder second term.

    Parameters
    ----------
    step_size : float
        The step *h* of :math:`\theta\leftarrow\theta-h\nabla U(\theta)+\sqrt{2h}\,\xi`.
    n_steps : int
        The number of steps *K*.
    dimension : int
        The dimension *p*.
    strong_convexity, smoothness : float
        The constants *m* and *M*.

    Returns
    -------
    float
        At most 1.
    """
    m = check_positive("strong_convexity", strong_convexity)
    big = check_positive("smoothness", smoothness)
    step_size = check_positive("step_size", step_size)
    if big < m:
        raise ValueError(f"smoothness must be >= strong_convexity={m!r}, got {big!r}")
    if step_size * big > 1.0:
        raise ValueError(f"step_size must be <= 1 / smoothness = {1.0 / big!r}, got {step_size!r}")
    n_steps = check_count("n_steps", n_steps)
    p = check_count("dimension", dimension)
    time = n_steps * step_size
    mixing = 0.5 * math.exp(min(700.0, 0.25 * p * math.log(big / m) - m * time))
    return min(1.0, mixing + _discretization(step_size, time, p, big))


def _discretization(step_size: float, time: float, p: int, big: float) -> float:
    gradients = step_size**2 * (0.5 + big * time) / (3.0 * (1.0 - big * step_size / 2.0))
    return math.sqrt(big * big * p / 8.0 * (time * step_size + gradients))


def lmc_schedule(
    total_variation: float,
    *,
    dimension: int,
    strong_convexity: float,
    smoothness: float,
    rule: str = "tight",
) -> LangevinSchedule:
    r"""Step size and number of steps that bring a Langevin chain within `total_variation`.

    This is the schedule that makes the approximate Gibbs posterior of Minami et al. (2016), their
    theorem on Langevin Monte Carlo, private: within :math:`\delta'/(1+e^\varepsilon)` of its
    target the chain adds :math:`\delta'` (:func:`approximation_delta`). It applies to targets on
    the whole space.
    The numbers of steps are huge for ill-conditioned posteriors: the certified bound
    :func:`~skdpbayes.privacy.langevin_mu` needs no such schedule, because it holds for every
    number of steps.

    Parameters
    ----------
    total_variation : float
        Distance to reach, in (0, 1).
    dimension : int
        Dimension of the parameter.
    strong_convexity, smoothness : float
        Public bounds on the eigenvalues of the Hessian of the potential.
    rule : {"tight", "dalalyan2017"}, default="tight"
        ``"tight"`` splits the distance between mixing and discretization so that
        :func:`lmc_total_variation` is met with few steps. ``"dalalyan2017"`` is Corollary 1 of
        that paper as published, :math:`T=(4\log(1/tv)+p\log(M/m))/(2m)` and
        :math:`h=tv^2/(M^2Tp)` (its alpha set to 1), at most 1/M.

    Returns
    -------
    LangevinSchedule
        Verified: its `total_variation` is the bound that it reaches, at most the one asked for.
    """
    tv = check_positive("total_variation", total_variation)
    if tv >= 1.0:
        raise ValueError(f"total_variation must be in (0, 1), got {total_variation!r}")
    p = check_count("dimension", dimension)
    m = check_positive("strong_convexity", strong_convexity)
    big = check_positive("smoothness", smoothness)
    if rule == "dalalyan2017":
        time = (4.0 * math.log(1.0 / tv) + p * math.log(big / m)) / (2.0 * m)
        step = min(1.0 / big, tv * tv / (big * big * time * p))
        return _schedule(step, time, p, m, big)
    if rule != "tight":
        raise ValueError(f"rule must be 'tight' or 'dalalyan2017', got {rule!r}")
    # The steps needed vary slowly with the split; powers of two of the mixing share are enough.
    candidates = [_split_schedule(tv, tv * 0.5**i, p, m, big) for i in range(1, 12)]
    return min(candidates, key=lambda schedule: schedule.n_steps)


def _split_schedule(tv: float, mixing: float, p: int, m: float, big: float) -> LangevinSchedule:
    """Spend `mixing` on the diffusion and the rest on the discretization."""
    time = (0.25 * p * math.log(big / m) + math.log(0.5 / mixing)) / m
    # One more step than T / h may be taken, hence the step itself is added to the time.
    step = largest_satisfying(
        lambda h: h <= 1.0 / big and _discretization(h, time + h, p, big) <= tv - mixing,
        0.0,
        2.0 / big,
    )
    return _schedule(step, time, p, m, big)


def _schedule(step: float, time: float, p: int, m: float, big: float) -> LangevinSchedule:
    n_steps = max(1, math.ceil(time / step))
    reached = lmc_total_variation(step, n_steps, dimension=p, strong_convexity=m, smoothness=big)
    return LangevinSchedule(step, n_steps, 1.0 / math.sqrt(big), reached)
