r"""How large the steps of a sampler may be for its own noise to make it private.

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
from skdpbayes.papers.sgmcmc import gradient_unit
from skdpbayes.papers.sgmcmc_published import wang2015_noise_variance
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

__all__ = ["step_size_bound"]


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
    constant: float = 1.0,
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
        their Algorithm 2 is the sampler's own. ``"li2019"`` is the order that the moments
        accountant gives, :math:`h_1=\varepsilon^2/(c^2L^2\log(1/\delta)\sum_tt^{-\gamma})`, with
        the constant *c* that the paper leaves open. The last two are printed for zeroing out and
        for noise of variance *h*, and are returned as printed.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn; for ``"pld"``.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy; for ``"pld"`` and ``"limit"``.
    noise_per_step : float, default=2.0
        Variance of the injected noise over the step: 2 samples at temperature 1, both papers print
        1. For ``"pld"`` and ``"limit"``.
    constant : float, default=1.0
        The constant *c* of ``"li2019"``.

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
        scale = check_positive("constant", constant) * clip_norm
        return epsilon**2 / (scale**2 * math.log(1.0 / delta) * float(shrink.sum()))
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
