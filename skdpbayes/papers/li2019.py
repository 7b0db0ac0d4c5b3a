r"""Bounds of Li, Chen, Liu and Carin (2019) as printed, and the steps that are really private.

Their step is :math:`\eta=hN` in the convention of `skdpbayes.papers.wang2015`.

References
----------
.. [1] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and differential
   privacy. AISTATS 2019.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from skdpbayes.exceptions import CalibrationError
from skdpbayes.papers.wang2015 import (
    gradient_unit,
    sgld_noise_multiplier,
    wang2015_noise_variance,
)
from skdpbayes.privacy._numeric import (
    check_count,
    check_delta,
    check_nonnegative,
    check_positive,
)
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.mechanisms.subsampling import Sampling
from skdpbayes.privacy.sensitivity import moved


def li2019_noise_multiplier(
    step_size: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Noise multiplier of DP-SGLD as Li et al. (2019) print it, :math:`\tau/(L\sqrt{\eta N})`.

    Parameters
    ----------
    step_size : float
        Their step :math:`\eta=hN`, injected with variance :math:`\eta/N`: temperature 1/2. At
        temperature 1 the multiplier is sqrt(2) times as large.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.
    """
    noise = sgld_noise_multiplier(
        check_positive("step_size", step_size) / n_samples,
        batch_size=batch_size,
        n_samples=n_samples,
        clip_norm=clip_norm,
    )
    return noise / math.sqrt(2.0)


def li2019_step_range(
    *, batch_size: float, n_samples: int, clip_norm: float
) -> tuple[float, float]:
    r"""Steps at which the moments bound that Li et al. (2019) use applies, corrected.

    It asks for a noise multiplier of at least 1 and a sampling rate below 1/16 of its inverse. With
    their own multiplier that is :math:`256\tau^4/(N^3L^2)<\eta\le\tau^2/(NL^2)`; the conditions
    printed in their Theorem 3 do not follow from it.

    Parameters
    ----------
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    low, high : float
        In their convention :math:`\eta=hN`.
    """
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    high = n_samples / unit**2
    return 256.0 * (batch_size / n_samples) ** 2 * high, high


def li2019_moments_epsilon(
    noise_multipliers: npt.ArrayLike, sampling_rate: float, delta: float
) -> float:
    r"""Epsilon by the moments bound of Li et al. (2019), Lemma 2 with Remark 1.

    :math:`\alpha(\lambda)\le A\lambda(\lambda+1)` with :math:`A=q^2\sum_t\sigma_t^{-2}`, so that
    the tail bound :math:`\min_\lambda\exp(\alpha(\lambda)-\lambda\varepsilon)` gives
    :math:`\varepsilon=A+2\sqrt{A\log(1/\delta)}`. The terms in :math:`q^3` are left out, as they
    do, so this is no guarantee; :func:`~skdpbayes.privacy.chain_event` has the exact price.

    Parameters
    ----------
    noise_multipliers : array-like
        One per step, as :func:`li2019_noise_multiplier` gives them.
    sampling_rate : float
        Probability *q* of a record to be in a batch.
    delta : float
        In (0, 1).

    Returns
    -------
    float

    Examples
    --------
    >>> from skdpbayes.papers import li2019_moments_epsilon
    >>> round(li2019_moments_epsilon([4.0] * 1000, 0.01, 1e-5), 4)
    0.5427
    """
    noise = np.asarray(noise_multipliers, dtype=float)
    if noise.size == 0 or not np.all(noise > 0.0):
        raise ValueError("noise_multipliers must be positive and not empty")
    rate = check_positive("sampling_rate", sampling_rate)
    moment = rate**2 * float(np.sum(noise**-2.0))
    return moment + 2.0 * math.sqrt(moment * math.log(1.0 / check_positive("delta", delta)))


def large_noise_mu(
    noise_multipliers: npt.ArrayLike,
    sampling_rate: float,
    adjacency: Adjacency = "replace_one",
) -> float:
    r"""Gaussian DP that many sampled steps with large noise tend to.

    :math:`\mu^2=q^2\sum_t d^2/\sigma_t^2` with :math:`d=1` (zero out) or 2 (replace one): the first
    order of the central limit theorem of Bu, Dong, Long and Su (2020). For SGLD at temperature 1 it
    is :math:`\mu^2=d^2L^2\sum_t h_t/2`, whatever the batch size. An approximation, not a
    guarantee; accountants take it as a starting point.

    Parameters
    ----------
    noise_multipliers : array-like
        One per step.
    sampling_rate : float
        Expected batch size over number of records.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy.

    Returns
    -------
    float
        The limit of mu.
    """
    distance = float(moved(adjacency))
    noise = np.asarray(noise_multipliers, dtype=float)
    if noise.size == 0 or not np.all(noise > 0.0):
        raise ValueError("noise_multipliers must be positive and not empty")
    rate = check_positive("sampling_rate", sampling_rate)
    return distance * rate * math.sqrt(float(np.sum(noise**-2.0)))


def step_size_bound(
    epsilon: float,
    delta: float,
    *,
    n_steps: int,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
    decay: float = 0.0,
    method: Literal["pld", "limit", "wang2015", "li2019"] = "pld",
    sampling: Sampling = "poisson",
    adjacency: Adjacency = "replace_one",
    noise_per_step: float = 2.0,
) -> float:
    r"""Largest first step at which an SGLD chain is private for free.

    The steps are :math:`h_t=h_1t^{-\gamma}` on the potential :math:`\sum_i\ell_i+r`, the injected
    noise has variance :math:`2h_t`, the whole chain is released. The first term of the chain is the
    largest, later steps have a larger noise multiplier :math:`\sigma_t=\sigma_1t^{\gamma/2}`.

    Parameters
    ----------
    epsilon, delta : float
        Target for the whole chain; delta > 0.
    n_steps : int
        Number of steps.
    batch_size, n_samples, clip_norm : float
        Expected batch size, number of records and bound on the norm of one record's gradient.
    decay : float, default=0.0
        The exponent :math:`\gamma`: 0 for a fixed step, 1/3 for the schedule of Li et al.
    method : {"pld", "limit", "wang2015", "li2019"}, default="pld"
        ``"pld"`` composes the privacy loss distributions of all steps and ends on the private side.
        ``"limit"`` is the closed form for large noise,
        :math:`h_1=2\mu^2/(d^2L^2\sum_tt^{-\gamma})`, :math:`d=1` (zero out) or 2 (replace one):
        an approximation, not a guarantee. ``"wang2015"`` is the step below which the noise of
        their Algorithm 2 is the sampler's own. ``"li2019"`` is Theorem 3 with the constant that
        :func:`li2019_moments_epsilon` gives,
        :math:`h_1=(\sqrt{\varepsilon+l}-\sqrt l)^2/(L^2\sum_tt^{-\gamma})`,
        :math:`l=\log(1/\delta)`. The last two are for zeroing out and for noise of variance *h*,
        and are returned as printed.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn; for ``"pld"``.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy; for ``"pld"`` and ``"limit"``.
    noise_per_step : float, default=2.0
        Variance of the injected noise over the step: 2 samples at temperature 1, both papers print
        1. For ``"pld"`` and ``"limit"``.

    Returns
    -------
    float
        The first step :math:`h_1`. Multiply by `n_samples` for the convention of Li et al.

    Examples
    --------
    >>> from skdpbayes.papers import step_size_bound
    >>> setting = {"batch_size": 500, "n_samples": 50_000, "clip_norm": 1.0, "decay": 1 / 3}
    >>> step = step_size_bound(0.1, 1e-5, **setting, n_steps=10_000, method="limit",
    ...                        adjacency="zero_out", noise_per_step=1.0)
    >>> round(50_000 * step, 4)
    0.0761
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_delta(delta)
    if delta == 0.0:
        raise CalibrationError("Gaussian noise needs delta > 0 to be private, got delta=0.0")
    n_steps = check_count("n_steps", n_steps)
    decay = check_nonnegative("decay", decay)
    check_adjacency(adjacency)
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    noise_per_step = check_positive("noise_per_step", noise_per_step)
    if math.isinf(epsilon):
        return math.inf
    shrink = np.arange(1.0, n_steps + 1.0) ** -decay
    if method == "wang2015":
        return 1.0 / wang2015_noise_variance(
            epsilon,
            delta,
            n_passes=n_steps * batch_size / n_samples,
            batch_size=batch_size,
            n_samples=n_samples,
            clip_norm=clip_norm,
        )
    if method == "li2019":
        log_term = math.log(1.0 / delta)
        root = epsilon / (math.sqrt(epsilon + log_term) + math.sqrt(log_term))
        return (root / clip_norm) ** 2 / float(shrink.sum())
    # mu^2 = d^2 q^2 sum 1 / sigma_t^2 with 1 / sigma_t^2 = h_t unit^2 / noise_per_step
    rate = batch_size / n_samples
    distance = float(moved(adjacency))
    per_step = (distance * rate * unit) ** 2 / noise_per_step * float(shrink.sum())
    limit = gdp_mu(epsilon, delta) ** 2 / per_step
    if method == "limit":
        return limit
    if method != "pld":
        raise ValueError(f"method must be 'pld', 'limit', 'wang2015' or 'li2019', got {method!r}")
    first = math.sqrt(noise_per_step / limit) / unit
    first = _smallest_first_noise(
        epsilon, delta, shrink**-0.5, rate, sampling, adjacency, guess=first
    )
    step = noise_per_step / (unit * first) ** 2
    while math.sqrt(noise_per_step / step) / unit < first:
        step = math.nextafter(step, 0.0)
    return step


def _smallest_first_noise(
    epsilon: float,
    delta: float,
    growth: npt.NDArray[np.float64],
    rate: float,
    sampling: Sampling,
    adjacency: Adjacency,
    *,
    guess: float,
) -> float:
    """Smallest multiplier of the first step; the t-th has `growth[t]` times as much."""
    from skdpbayes.privacy.calibration import smallest_noise, subsampled_noise_multiplier
    from skdpbayes.privacy.mechanisms.subsampling import chain_event

    if growth[-1] == 1.0:
        return subsampled_noise_multiplier(
            epsilon,
            delta,
            sampling_rate=rate,
            n_steps=growth.size,
            sampling=sampling,
            adjacency=adjacency,
        )

    def event_of(first: float) -> PrivacyEvent:
        return chain_event(first * growth, rate, sampling, adjacency)

    return smallest_noise(event_of, epsilon, delta, guess=guess)
