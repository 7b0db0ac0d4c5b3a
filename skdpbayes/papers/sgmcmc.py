r"""Noise of stochastic-gradient MCMC samplers as the noise of a private mechanism.

The potential is :math:`U=\sum_i\ell_i+r`, its estimate from a batch *S* of expected size
:math:`\tau` out of *N* is :math:`g=\nabla r+(N/\tau)Q` with *Q* the sum over *S* of gradients
clipped to norm *L*, and a sampler moves by :math:`-\kappa g` plus noise of variance *v* per
coordinate. So every step is a Gaussian mechanism on *Q* with noise multiplier

.. math:: \sigma = \frac{\sqrt v\,\tau}{\kappa N L},

relative to one record's contribution: the convention of
:class:`~skdpbayes.privacy.SubsampledGaussian`, which doubles it for ``"replace_one"``. At
temperature 1 (noise variance :math:`2h` for step *h*), with the discretizations

* SGLD :math:`\theta\leftarrow\theta-hg+\sqrt{2h}\,\xi`,
* SGHMC :math:`p\leftarrow p-hg-hAp+N(0,2(A-\hat B)h)`, :math:`\theta\leftarrow\theta+hp`,
* SGNHT :math:`p\leftarrow p-hg-h\zeta p+N(0,2Ah)`, :math:`\theta\leftarrow\theta+hp`,
  :math:`\zeta\leftarrow\zeta+h(|p|^2/d-1)`,
* SGFS :math:`\theta\leftarrow\theta-2(\gamma NI+4B/h)^{-1}(g+N(0,4B/h))`.

Both Wang et al. (2015) and Li et al. (2019) print SGLD with noise variance equal to the step, whose
stationary density is :math:`e^{-2U}`: temperature 1/2. Li et al. write their step as
:math:`\eta=hN`.

References
----------
.. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
   gradient Monte Carlo. ICML 2015.
.. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and differential
   privacy. AISTATS 2019.
.. [3] S. Ahn, A. Korattikara and M. Welling. Bayesian posterior sampling via stochastic gradient
   Fisher scoring. ICML 2012.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skdpbayes.privacy._numeric import check_count, check_nonnegative, check_positive
from skdpbayes.privacy.guarantee import Adjacency
from skdpbayes.privacy.sensitivity import moved

__all__ = [
    "LangevinNoise",
    "free_step_size",
    "large_noise_mu",
    "private_langevin_noise",
    "sgfs_noise_multiplier",
    "sghmc_noise_multiplier",
    "sgld_noise_multiplier",
    "sgnht_noise_multiplier",
    "update_noise_multiplier",
]


def gradient_unit(batch_size: float, n_samples: int, clip_norm: float) -> float:
    """Largest contribution of one record to the estimated gradient, N L / tau."""
    batch_size = check_positive("batch_size", batch_size)
    n_samples = check_count("n_samples", n_samples)
    if batch_size > n_samples:
        raise ValueError(f"batch_size must be <= n_samples={n_samples}, got {batch_size!r}")
    return n_samples * check_positive("clip_norm", clip_norm) / batch_size


def update_noise_multiplier(
    coefficient: float, variance: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    """Noise multiplier of any update that subtracts a multiple of the gradient and adds noise.

    Parameters
    ----------
    coefficient : float
        The factor on the estimated gradient of the whole potential.
    variance : float
        Variance of the injected noise, per coordinate.
    batch_size : float
        Expected batch size, by which the sum is divided (never the size drawn).
    n_samples : int
        Number of records.
    clip_norm : float
        Bound on the norm of one record's gradient.

    Returns
    -------
    float
        Standard deviation of the noise on the sum of clipped gradients, over `clip_norm`.
    """
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    return math.sqrt(check_nonnegative("variance", variance)) / (
        check_positive("coefficient", coefficient) * unit
    )


def sgld_noise_multiplier(
    step_size: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Noise multiplier of SGLD at temperature 1, :math:`(\tau/(NL))\sqrt{2/h}`.

    Parameters
    ----------
    step_size : float
        The step *h*.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.

    Examples
    --------
    >>> from skdpbayes.papers import sgld_noise_multiplier
    >>> public = {"batch_size": 128, "n_samples": 60_000, "clip_norm": 1.0}
    >>> round(sgld_noise_multiplier(1e-6, **public), 8)
    3.01698893
    """
    h = check_positive("step_size", step_size)
    return math.sqrt(2.0 / h) / gradient_unit(batch_size, n_samples, clip_norm)


def sghmc_noise_multiplier(
    step_size: float,
    friction: float,
    noise_estimate: float = 0.0,
    *,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
) -> float:
    r"""Noise multiplier of SGHMC at temperature 1, :math:`(\tau/(NL))\sqrt{2(A-\hat B)/h}`.

    In the form with velocities :math:`v=hp`, :math:`\eta=h^2`, :math:`a=hA`, :math:`b=h\hat B` it
    is the same number, :math:`(\tau/(NL))\sqrt{2(a-b)/\eta}`.

    Parameters
    ----------
    step_size : float
        The step *h*.
    friction : float
        The friction *A*.
    noise_estimate : float, default=0.0
        The guess :math:`\hat B` of half the step times the variance of the gradient noise; it is
        subtracted from the injected noise, so 0 is the private choice. Must be below `friction`
        and must not be estimated from the data.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.
    """
    h = check_positive("step_size", step_size)
    injected = friction - check_nonnegative("noise_estimate", noise_estimate)
    if not injected > 0.0:
        raise ValueError(
            f"friction must be > noise_estimate={noise_estimate!r} so that noise is injected, "
            f"got {friction!r}"
        )
    return math.sqrt(2.0 * injected / h) / gradient_unit(batch_size, n_samples, clip_norm)


def sgnht_noise_multiplier(
    step_size: float, diffusion: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Noise multiplier of the Nosé-Hoover thermostat, :math:`(\tau/(NL))\sqrt{2A/h}`.

    Parameters
    ----------
    step_size : float
        The step *h*.
    diffusion : float
        The factor *A* of the injected noise; the thermostat sets the friction by itself, from
        released momenta.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.
    """
    return sghmc_noise_multiplier(
        step_size, diffusion, batch_size=batch_size, n_samples=n_samples, clip_norm=clip_norm
    )


def sgfs_noise_multiplier(
    step_size: float, noise_scale: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Noise multiplier of Fisher scoring with B = bI, :math:`(\tau/(NL))\sqrt{4b/h}`.

    The noise is added to the gradient before the preconditioner, which must be public or released
    at a cost of its own. Wang et al. (2015), Algorithm 4, misses the factor 4 of Ahn et al. (2012).

    Parameters
    ----------
    step_size : float
        The step *h*.
    noise_scale : float
        The factor *b*.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Relative to one record's contribution.
    """
    variance = 4.0 * check_positive("noise_scale", noise_scale)
    return update_noise_multiplier(
        1.0,
        variance / check_positive("step_size", step_size),
        batch_size=batch_size,
        n_samples=n_samples,
        clip_norm=clip_norm,
    )


class LangevinNoise(NamedTuple):
    """Noise of one step that serves the sampler and privacy.

    Attributes
    ----------
    variance : float
        Variance of the noise, per coordinate.
    temperature : float
        Temperature that the sampler then has.
    """

    variance: float
    temperature: float


def private_langevin_noise(
    step_size: float,
    noise_multiplier: float,
    *,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
) -> LangevinNoise:
    r"""Noise of an SGLD step that serves both the sampler and privacy.

    :math:`v=\max(2h, (\sigma hNL/\tau)^2)`; the effective temperature is :math:`v/(2h)`, 1 as long
    as the step is at most :func:`free_step_size`.

    Parameters
    ----------
    step_size : float
        The step *h*.
    noise_multiplier : float
        The multiplier :math:`\sigma` that privacy asks for.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    LangevinNoise
        Variance and effective temperature.
    """
    h = check_positive("step_size", step_size)
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    private = (check_nonnegative("noise_multiplier", noise_multiplier) * h * unit) ** 2
    variance = max(2.0 * h, private)
    return LangevinNoise(variance, variance / (2.0 * h))


def free_step_size(
    noise_multiplier: float, *, batch_size: float, n_samples: int, clip_norm: float
) -> float:
    r"""Largest SGLD step whose own noise is enough for privacy, :math:`2\tau^2/(NL\sigma)^2`.

    Parameters
    ----------
    noise_multiplier : float
        The multiplier :math:`\sigma` that privacy asks for.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.

    Returns
    -------
    float
        Rounded to the private side: :func:`sgld_noise_multiplier` there is at least
        `noise_multiplier`.
    """
    sigma = check_nonnegative("noise_multiplier", noise_multiplier)
    unit = gradient_unit(batch_size, n_samples, clip_norm)
    if sigma == 0.0:
        return math.inf
    step = 2.0 / (unit * sigma) ** 2
    while math.sqrt(2.0 / step) / unit < sigma:
        step = math.nextafter(step, 0.0)
    return step


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
