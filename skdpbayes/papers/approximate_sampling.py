r"""What an approximate sampler costs, and how long a Langevin chain must run to be close enough.

References
----------
.. [1] A. S. Dalalyan. Theoretical guarantees for approximate sampling from smooth and log-concave
   densities. Journal of the Royal Statistical Society B 79, 2017.
.. [2] K. Minami, H. Arai, I. Sato and H. Nakagawa. Differential privacy without sensitivity.
   NeurIPS 2016.
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

__all__ = ["LangevinSchedule", "approximation_delta", "lmc_schedule", "lmc_total_variation"]


def approximation_delta(epsilon: float, total_variation: float) -> float:
    r"""Delta that a sampler adds when it is only close to its private target.

    If the target is (epsilon, delta)-DP and the sampler is within `total_variation` of it for
    every data set, the sampler is :math:`(\varepsilon, \delta + (1+e^\varepsilon)\,tv)`-DP, with
    *tv* that distance: both sides of the definition move by one distance each, one of them
    multiplied by :math:`e^\varepsilon`.

    Parameters
    ----------
    epsilon : float
        Of the target.
    total_variation : float
        In [0, 1]; must hold for every data set, which no diagnostic of a chain can show.

    Returns
    -------
    float
        At most 1.
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    total_variation = check_nonnegative("total_variation", total_variation)
    if total_variation == 0.0:
        return 0.0
    return min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * total_variation)


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
    step_size, m, big = _checked(step_size, strong_convexity, smoothness)
    n_steps = check_count("n_steps", n_steps)
    p = check_count("dimension", dimension)
    time = n_steps * step_size
    mixing = 0.5 * math.exp(min(700.0, 0.25 * p * math.log(big / m) - m * time))
    return min(1.0, mixing + _discretization(step_size, time, p, big))


def _checked(step_size: float, m: float, big: float) -> tuple[float, float, float]:
    m = check_positive("strong_convexity", m)
    big = check_positive("smoothness", big)
    step_size = check_positive("step_size", step_size)
    if big < m:
        raise ValueError(f"smoothness must be >= strong_convexity={m!r}, got {big!r}")
    if step_size * big > 1.0:
        raise ValueError(f"step_size must be <= 1 / smoothness = {1.0 / big!r}, got {step_size!r}")
    return step_size, m, big


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
