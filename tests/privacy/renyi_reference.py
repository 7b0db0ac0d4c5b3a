"""Noise for a chain of sampled steps by Rényi differential privacy, for comparison.

The privacy loss distributions of :func:`~skdpbayes.privacy.subsampled_noise_multiplier` are
tighter; this is what a moments accountant gives.

References
----------
.. [1] I. Mironov, K. Talwar and L. Zhang. Rényi differential privacy of the sampled Gaussian
   mechanism. 2019.
.. [2] Y.-X. Wang, B. Balle and S. Kasiviswanathan. Subsampled Rényi differential privacy and
   analytical moments accountant. AISTATS 2019.
"""

from __future__ import annotations

import math
from functools import lru_cache

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy._numeric import check_count, check_positive
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.gdp import gdp_mu
from skdpbayes.privacy.mechanisms.subsampling import Sampling, check_sampling, clt_noise_multiplier

__all__ = ["rdp_epsilon", "rdp_noise_multiplier"]


def rdp_epsilon(
    noise_multiplier: float,
    delta: float,
    *,
    batch_size: float,
    n_samples: int,
    n_steps: int,
    sampling: Sampling = "poisson",
    adjacency: Adjacency = "replace_one",
) -> float:
    """Return the epsilon that Rényi accounting gives a chain of noisy sums.

    Bounds are known for Poisson batches with ``"zero_out"``, for batches of fixed size with
    ``"replace_one"`` and for full batches.

    Parameters
    ----------
    noise_multiplier : float
        Noise standard deviation over the largest contribution of one record.
    delta : float
        In (0, 1).
    batch_size, n_samples, n_steps : float, int, int
        Expected batch size, number of records and of steps.
    sampling : {"poisson", "fixed"}, default="poisson"
        How batches are drawn.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy.

    Returns
    -------
    float
        An upper bound on epsilon.
    """
    from dp_accounting import dp_event, privacy_accountant
    from dp_accounting.rdp import RdpAccountant

    noise = check_positive("noise_multiplier", noise_multiplier)
    n_steps = check_count("n_steps", n_steps)
    check_sampling(sampling)
    check_adjacency(adjacency)
    neighbors = privacy_accountant.NeighboringRelation
    # dp-accounting's Renyi accountant does not double the shift for replace-one: the Gaussian with
    # half the multiplier is that mechanism.
    doubled = noise / 2.0 if adjacency == "replace_one" else noise
    relation = neighbors.ADD_OR_REMOVE_ONE
    step = dp_event.GaussianDpEvent(doubled)
    if batch_size < n_samples:
        if sampling == "poisson" and adjacency == "zero_out":
            step = dp_event.PoissonSampledDpEvent(batch_size / n_samples, step)
        elif sampling == "fixed" and adjacency == "replace_one":
            relation = neighbors.REPLACE_ONE
            step = dp_event.SampledWithoutReplacementDpEvent(n_samples, int(batch_size), step)
        else:
            raise CalibrationError(
                f"no Rényi bound for sampling={sampling!r} with adjacency={adjacency!r}; use "
                "sampling='poisson' with 'zero_out' or 'fixed' with 'replace_one', or "
                "skdpbayes.privacy.SubsampledGaussian, which has a tight price for all"
            )
    accountant = RdpAccountant(neighboring_relation=relation)
    accountant.compose(step, n_steps)
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=256)
def rdp_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    batch_size: float,
    n_samples: int,
    n_steps: int,
    sampling: Sampling = "poisson",
    adjacency: Adjacency = "replace_one",
) -> float:
    """Return the smallest noise multiplier that Rényi accounting allows.

    Parameters
    ----------
    epsilon, delta : float
        Target, both positive.
    batch_size, n_samples, n_steps, sampling, adjacency
        As for :func:`rdp_epsilon`.

    Returns
    -------
    float
        Within 0.1% above the smallest; its epsilon was computed and is at most the target.
    """
    epsilon = check_positive("epsilon", epsilon)
    if math.isinf(epsilon):
        return 0.0
    if delta == 0.0:
        raise CalibrationError("Gaussian noise has no guarantee at delta=0; use delta > 0")

    def enough(noise: float) -> bool:
        return (
            rdp_epsilon(
                noise,
                delta,
                batch_size=batch_size,
                n_samples=n_samples,
                n_steps=n_steps,
                sampling=sampling,
                adjacency=adjacency,
            )
            <= epsilon
        )

    mu = gdp_mu(epsilon, delta) / math.sqrt(n_steps)
    # the limit of tight accounting, which Rényi bounds exceed by some percent
    low = high = clt_noise_multiplier(mu, batch_size / n_samples, sampling, adjacency)
    while not enough(high):
        low, high = high, 1.15 * high
        if high > 1e9:
            raise CalibrationError(
                f"no noise makes the chain ({epsilon:g}, {delta:g})-private; raise epsilon"
            )
    while low == high or enough(low):
        low /= 1.15
    while high > low * (1.0 + 1e-3):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
