r"""Formulas of the papers on private stochastic-gradient MCMC, as printed, for reproduction.

References
----------
.. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
   gradient Monte Carlo. ICML 2015.
.. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and differential
   privacy. AISTATS 2019.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from skdpbayes.exceptions import CalibrationError
from skdpbayes.papers.sgmcmc import gradient_unit, sgld_noise_multiplier
from skdpbayes.privacy._numeric import check_delta, check_positive

__all__ = [
    "li2019_moments_epsilon",
    "li2019_noise_multiplier",
    "li2019_step_range",
    "wang2015_noise_multiplier",
    "wang2015_noise_variance",
]


def wang2015_noise_variance(
    epsilon: float,
    delta: float,
    *,
    n_passes: float,
    batch_size: float,
    n_samples: int,
    clip_norm: float,
    constant: float = 128.0,
) -> float:
    r"""Variance of the noise on the estimated gradient in Algorithm 2 of Wang et al. (2015).

    :math:`V=\frac{128NTL^2}{\tau\varepsilon^2}\log\frac{2.5NT}{\tau\delta}\log\frac2\delta` for
    *T* passes; the algorithm injects :math:`\max(\eta^2V,\eta)`, so the private noise takes over
    from the sampler's where :math:`\eta>1/V`. The algorithm is private by a wide margin, although
    its proof needs 256 in place of 128. For reproduction only.

    Parameters
    ----------
    epsilon, delta : float
        Target.
    n_passes : float
        Passes *T* over the data; at least :math:`\varepsilon^2N/(32\tau\log(2/\delta))`, the
        condition of their theorem.
    batch_size, n_samples, clip_norm : float
        As for :func:`update_noise_multiplier`.
    constant : float, default=128.0
        As printed; 256.0 is what the proof supports.

    Returns
    -------
    float
        The variance *V*.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_delta(delta)
    if delta == 0.0:
        raise CalibrationError("Wang et al. (2015) need delta > 0, got 0.0")
    unit = gradient_unit(batch_size, n_samples, clip_norm)  # checks the three numbers
    passes = check_positive("n_passes", n_passes)
    least = epsilon**2 * n_samples / (32.0 * batch_size * math.log(2.0 / delta))
    if passes < least:
        raise CalibrationError(
            f"Wang et al. (2015) need n_passes >= {least:.6g} at this epsilon and batch size, "
            f"got {n_passes!r}; lower epsilon or take more passes"
        )
    n_steps = n_samples * passes / batch_size
    logs = math.log(2.5 * n_steps / delta) * math.log(2.0 / delta)
    norm = unit * batch_size / n_samples
    return constant * n_steps * norm**2 / epsilon**2 * logs


def wang2015_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    n_passes: float,
    batch_size: float,
    n_samples: int,
    constant: float = 128.0,
) -> float:
    """Noise multiplier of Algorithm 2 of Wang et al. (2015) where its private noise rules.

    Parameters
    ----------
    epsilon, delta, n_passes, batch_size, n_samples, constant : float
        As for :func:`wang2015_noise_variance`; the clipping norm cancels.

    Returns
    -------
    float
        Standard deviation of the noise on the sum of gradients, over the clipping norm.
    """
    variance = wang2015_noise_variance(
        epsilon,
        delta,
        n_passes=n_passes,
        batch_size=batch_size,
        n_samples=n_samples,
        clip_norm=1.0,
        constant=constant,
    )
    return math.sqrt(variance) * batch_size / n_samples


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
