r"""Privacy of the last Langevin iterate when each step sees a part of the data.

The gradient of a batch of *b* out of *n* records is scaled by n/b, so a batch potential has the
same bounds on its Hessian as the full one, and one record moves it by
:math:`G_b=\beta(n/b)` times the change of one gradient. Setting, assumptions and argument are those
of :mod:`skdpbayes.privacy.mechanisms.langevin`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from skdpbayes.privacy._numeric import (
    check_count,
    check_nonnegative,
    check_positive,
)
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.langevin import check_contraction

__all__ = [
    "FixedBatchParts",
    "langevin_fixed_batch_epsilon",
    "langevin_fixed_batch_parts",
    "langevin_mu_cyclic",
]


def langevin_mu_cyclic(
    step_size: float,
    strong_convexity: float,
    batch_gradient_sensitivity: float,
    n_batches: int,
    n_epochs: int,
    *,
    smoothness: float | None = None,
) -> float:
    r"""Gaussian DP of the last iterate when the same batches come in the same order every epoch.

    Noise keeps hiding a record between its visits. Going back from the end let :math:`S_1, S_2` be
    the sums of :math:`c^i` over all visits but the last, and the last, and :math:`W_1, W_2` the
    sums of :math:`c^{2i}` over the steps from the first visit until the last, and from it on. Then

    .. math:: \mu^2 = \frac{\eta G_b^2}{2}\Big(\frac{S_1^2}{W_1}+\frac{S_2^2}{W_2}\Big)
        \ \text{ if } \frac{S_1}{W_1}\le\frac{S_2}{W_2}, \text{ else }
        \mu^2 = \frac{\eta G_b^2}{2}\,\frac{(S_1+S_2)^2}{W_1+W_2}.

    *Proof.* The distance must be paid off after it arises: minimize :math:`\sum a_k^2` subject to
    :math:`z_k\ge0` and :math:`z_t=0`. The optimal :math:`a_k/c^{t-k}` are the slopes of the
    greatest convex minorant of accumulated weights against accumulated distance; its points before
    the last visit are concave, which leaves these two cases. Records of the last batch are the
    worst. The first case is the cyclic bound of Bok, Su and Altschuler (2024), the second smaller
    than what it would give and covers one batch per epoch, the full gradient.

    Parameters
    ----------
    step_size, strong_convexity, smoothness : float
        As for :func:`~skdpbayes.privacy.langevin_mu`.
    batch_gradient_sensitivity : float
        How far one record moves the scaled gradient of its batch.
    n_batches : int
        Batches in an epoch: fixed, public and disjoint.
    n_epochs : int
        Number of epochs.

    Returns
    -------
    float
        The last iterate is mu-GDP.
    """
    eta = check_positive("step_size", step_size)
    m = check_nonnegative("strong_convexity", strong_convexity)
    gap = check_nonnegative("batch_gradient_sensitivity", batch_gradient_sensitivity)
    n_batches = check_count("n_batches", n_batches)
    n_epochs = check_count("n_epochs", n_epochs)
    check_contraction(eta, m, smoothness)
    scale = gap * math.sqrt(eta / 2.0)
    if n_epochs == 1:
        return scale
    c = max(0.0, 1.0 - eta * m)
    visits = c**n_batches * _geometric(c**n_batches, n_epochs - 1)
    weight = c * c * _geometric(c * c, n_batches * (n_epochs - 1))
    if weight == 0.0:
        return scale
    if visits <= weight:
        return scale * math.sqrt(1.0 + visits * visits / weight)
    return scale * (1.0 + visits) / math.sqrt(1.0 + weight)


def _geometric(ratio: float, count: int) -> float:
    """Return 1 + ratio + ... + ratio^(count - 1)."""
    if ratio == 1.0:
        return float(count)
    if ratio == 0.0:
        return 1.0 if count > 0 else 0.0
    return math.expm1(count * math.log(ratio)) / (ratio - 1.0)


class FixedBatchParts(NamedTuple):
    """A bound on the last iterate with random batches: a Gaussian part and sampled steps.

    The iterate is at least as private as the composition of a `mu`-GDP mechanism with
    `n_sampled_steps` Gaussian mechanisms of `noise_multiplier` on a fixed-size subset
    (``SubsampledGaussian(noise_multiplier, sampling_rate, "fixed", adjacency)``).

    Attributes
    ----------
    mu : float
        The Gaussian part.
    noise_multiplier : float
        Noise of a sampled step over the contribution of one record.
    sampling_rate : float
        Batch size over number of records.
    n_sampled_steps : int
        Number of sampled steps.
    adjacency : {"replace_one", "zero_out"}
        Unit of privacy.
    """

    mu: float
    noise_multiplier: float
    sampling_rate: float
    n_sampled_steps: int
    adjacency: Adjacency


def langevin_fixed_batch_parts(
    step_size: float,
    strong_convexity: float,
    batch_gradient_norm: float,
    n_steps: int,
    sampling_rate: float,
    *,
    n_last_steps: int,
    split: float,
    adjacency: Adjacency = "replace_one",
    smoothness: float | None = None,
) -> FixedBatchParts:
    r"""Bound on the last iterate with a fresh uniform batch of fixed size at every step.

    Until the last :math:`n_0` steps nothing is claimed but that coupled chains are at most
    :math:`z=s_b(1-c^{t-n_0})/(1-c)` apart. In the last :math:`n_0` steps the noise variance
    :math:`2\eta` is split: a part :math:`v_1` pays off *z*, at a cost of

    .. math:: \mu^2=\frac{(c^{n_0}z)^2(1-c^2)}{v_1(1-c^{2n_0})},

    the rest hides the sampled record in each step. *Proof.* Given the point of the interpolated
    chain, reveal first the batch gradient there under the second part of the noise (a subsampled
    Gaussian mechanism), then the shift under the first part, bounded whatever the batch was.

    Parameters
    ----------
    step_size, strong_convexity, smoothness : float
        As for :func:`~skdpbayes.privacy.langevin_mu`.
    batch_gradient_norm : float
        Largest norm of one record's contribution to the scaled batch gradient, beta (n / b) L.
    n_steps : int
        Number of steps *t*.
    sampling_rate : float
        Batch size over number of records.
    n_last_steps : int
        The number :math:`n_0`, at most `n_steps`; equal to it: plain composition.
    split : float
        The share of :math:`v_1` in the variance, in (0, 1); not used for plain composition.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy.

    Returns
    -------
    FixedBatchParts
        To be priced by composition; every choice of `n_last_steps` and `split` is valid.
    """
    eta = check_positive("step_size", step_size)
    m = check_nonnegative("strong_convexity", strong_convexity)
    contribution = eta * check_positive("batch_gradient_norm", batch_gradient_norm)
    n_steps = check_count("n_steps", n_steps)
    n_last = check_count("n_last_steps", n_last_steps)
    if n_last > n_steps:
        raise ValueError(f"n_last_steps must be <= n_steps={n_steps}, got {n_last_steps!r}")
    check_contraction(eta, m, smoothness)
    move = contribution * (2.0 if check_adjacency(adjacency) == "replace_one" else 1.0)
    if n_last == n_steps:
        noise = math.sqrt(2.0 * eta) / contribution
        return FixedBatchParts(0.0, noise, sampling_rate, n_last, adjacency)
    if not 0.0 < split < 1.0:
        raise ValueError(f"split must be in (0, 1), got {split!r}")
    c = max(0.0, 1.0 - eta * m)
    distance = c**n_last * move * _geometric(c, n_steps - n_last)
    mu = distance / math.sqrt(2.0 * eta * split * _geometric(c * c, n_last))
    noise = math.sqrt(2.0 * eta * (1.0 - split)) / contribution
    return FixedBatchParts(mu, noise, sampling_rate, n_last, adjacency)


def langevin_fixed_batch_epsilon(
    price: Callable[[FixedBatchParts], float],
    step_size: float,
    strong_convexity: float,
    batch_gradient_norm: float,
    n_steps: int,
    sampling_rate: float,
    *,
    adjacency: Adjacency = "replace_one",
    smoothness: float | None = None,
) -> tuple[float, FixedBatchParts]:
    """Search the number of last steps and the split of the noise for the smallest price.

    Parameters
    ----------
    price : callable
        Epsilon of a :class:`FixedBatchParts`; by composition of its two parts.
    step_size, strong_convexity, batch_gradient_norm, n_steps, sampling_rate : float
        As for :func:`langevin_fixed_batch_parts`.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy.
    smoothness : float or None, default=None
        As for :func:`~skdpbayes.privacy.langevin_mu`.

    Returns
    -------
    epsilon : float
        The smallest price found. Every candidate is a valid bound, so it is one.
    parts : FixedBatchParts
        The bound that has it.
    """

    def parts(n_last: int, split: float) -> FixedBatchParts:
        return langevin_fixed_batch_parts(
            step_size,
            strong_convexity,
            batch_gradient_norm,
            n_steps,
            sampling_rate,
            n_last_steps=n_last,
            split=split,
            adjacency=adjacency,
            smoothness=smoothness,
        )

    plain = parts(n_steps, 0.5)
    best = (price(plain), plain)
    if n_steps == 1:
        return best
    # Start where the Gaussian part is small beside the whole, then follow the compass: multiply
    # one coordinate at a time, shrinking the factors. The price is smooth with one valley.
    split, n_last = 0.2, _steps_to_reach(lambda n: parts(n, 0.2).mu, 0.1, n_steps - 1)
    current, factor = (price(parts(n_last, split)), split, n_last), 2.0
    while factor > 1.02:
        moves = [
            (current[1] * a / (1.0 - current[1] + current[1] * a), round(current[2] * b))
            for a, b in ((factor, 1.0), (1.0 / factor, 1.0), (1.0, factor), (1.0, 1.0 / factor))
        ]
        tried = [(price(parts(n, share)), share, n) for share, n in moves if 1 <= n <= n_steps - 1]
        candidate = min(tried, default=current)
        if candidate[0] < current[0]:
            current = candidate
        else:
            factor = math.sqrt(factor)
    return min(best, (current[0], parts(current[2], current[1])), key=lambda pair: pair[0])


def _steps_to_reach(mu_of: Callable[[int], float], target: float, n_steps: int) -> int:
    """Smallest number of last steps whose Gaussian part is at most `target`."""
    low, high = 1, n_steps
    while low < high:
        middle = (low + high) // 2
        if mu_of(middle) <= target:
            high = middle
        else:
            low = middle + 1
    return low
