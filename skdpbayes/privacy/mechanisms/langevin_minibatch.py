r"""Privacy of the last Langevin iterate when each step sees a part of the data.

The gradient of a batch of *b* out of *n* records is scaled by n/b, so a batch potential has the
same bounds on its Hessian as the full one, and one record moves it by
:math:`G_b=\beta(n/b)` times the change of one gradient. Setting, assumptions and argument are those
of :mod:`skdpbayes.privacy.mechanisms.langevin`.
"""

from __future__ import annotations

import math

from skdpbayes.privacy._numeric import (
    check_count,
    check_nonnegative,
    check_positive,
)
from skdpbayes.privacy.mechanisms.langevin import check_contraction


def langevin_mu_cyclic(
    step_size: float,
    strong_convexity: float,
    batch_gradient_sensitivity: float,
    n_batches: int,
    n_epochs: int,
    *,
    smoothness: float | None = None,
    steps_after: int = 0,
) -> float:
    r"""Gaussian DP of the last iterate when the same batches come in the same order every epoch.

    Noise keeps hiding a record between its visits, and after the last one. Going back from the end
    let :math:`S_1, S_2` be the sums of :math:`c^i` over all visits but the last, and the last, and
    :math:`W_1, W_2` the sums of :math:`c^{2i}` over the steps from the first visit until the last,
    and from it on. Then

    .. math:: \mu^2 = \frac{\eta G_b^2}{2}\Big(\frac{S_1^2}{W_1}+\frac{S_2^2}{W_2}\Big)
        \ \text{ if } \frac{S_1}{W_1}\le\frac{S_2}{W_2}, \text{ else }
        \mu^2 = \frac{\eta G_b^2}{2}\,\frac{(S_1+S_2)^2}{W_1+W_2}.

    *Proof.* The distance must be paid off after it arises: minimize :math:`\sum a_k^2` subject to
    :math:`z_k\ge0` and :math:`z_t=0`. The optimal :math:`a_k/c^{t-k}` are the slopes of the
    greatest convex minorant of accumulated weights against accumulated distance; its points before
    the last visit are concave, which leaves these two cases. Records of the last batch,
    ``steps_after=0``, are the worst: each step after the last visit adds to :math:`W_2` over
    :math:`S_2^2`. The first case is the cyclic bound of Bok, Su and Altschuler (2024), the second
    smaller than what it would give and covers one batch per epoch, the full gradient.

    *A secret position.* If records are put into batches at random, with nothing about it released,
    a record is in each of them with probability 1 over their number, and the release is a
    :class:`~skdpbayes.privacy.GaussianMixture` of the bounds for all positions.

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
    steps_after : int, default=0
        Steps after the one that visits the record last, below `n_batches`.

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
    after = check_count("steps_after", steps_after, minimum=0)
    if after >= n_batches:
        raise ValueError(f"steps_after must be below n_batches={n_batches}, got {steps_after!r}")
    scale = gap * math.sqrt(eta / 2.0)
    c = max(0.0, 1.0 - eta * m)
    visits = c**n_batches * _geometric(c**n_batches, n_epochs - 1)
    weight = c * c * _geometric(c * c, n_batches * (n_epochs - 1))
    last = c**after  # S_2, and S_1 = last visits, W_1 = last^2 weight
    last_weight, first_weight = _geometric(c * c, after + 1), last * last * weight
    if first_weight > 0.0 and visits * last_weight <= last * last * weight:
        return scale * math.sqrt(last * last / last_weight + visits * visits / weight)
    return scale * last * (1.0 + visits) / math.sqrt(first_weight + last_weight)


def _geometric(ratio: float, count: int) -> float:
    """Return 1 + ratio + ... + ratio^(count - 1)."""
    if ratio == 1.0:
        return float(count)
    if ratio == 0.0:
        return 1.0 if count > 0 else 0.0
    return math.expm1(count * math.log(ratio)) / (ratio - 1.0)
