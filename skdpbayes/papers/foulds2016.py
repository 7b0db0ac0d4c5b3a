r"""Prices of Foulds, Geumlek, Welling and Chaudhuri (2016) as printed, and what is exact.

References
----------
.. [1] J. Foulds, J. Geumlek, M. Welling and K. Chaudhuri. On the theory and practice of
   privacy-preserving Bayesian data analysis. UAI 2016.
"""

from __future__ import annotations

from skdpbayes.privacy._numeric import check_count, check_nonnegative, check_positive
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_epsilon


def foulds2016_temperature(epsilon: float, sensitivity: float) -> float:
    r"""Temperature of equations 10 and 14, :math:`T=\max(1,2\Delta/\varepsilon)`.

    Likelihood and prior are both raised to :math:`1/T`. The paper caps it at 1 in words.

    Parameters
    ----------
    epsilon : float
        Budget, > 0.
    sensitivity : float
        Largest difference :math:`\Delta` of two records' log-likelihoods, equation 13.

    Returns
    -------
    float

    Examples
    --------
    Figure 1 has T = 2.7, for a coin with probabilities in [0.2, 0.8].

    >>> import math
    >>> from skdpbayes.papers import foulds2016_temperature
    >>> round(foulds2016_temperature(1.0, math.log(0.8 / 0.2)), 4)
    2.7726
    """
    return max(
        1.0,
        2.0 * check_nonnegative("sensitivity", sensitivity) / check_positive("epsilon", epsilon),
    )


def random_scan_epsilon(
    sensitivity: float,
    n_updates: int,
    n_samples: int,
    *,
    delta: float = 0.0,
    printed: bool = False,
) -> float:
    r"""Price of a Gibbs sweep that updates some of the records' own variables, Section 4.1.

    One update of a record's own variable is :math:`2\Delta`-private, and so is a sweep over all of
    them (parallel composition). For a random *Q* out of *N* the paper prints
    :math:`4\Delta Q/N`, by amplification. That is false for :math:`Q<N/2`: the variable belongs to
    its record, so whoever sees it change knows that the record was drawn, and the ratio of the
    probabilities of its new value is that of one update, :math:`e^{2\Delta}` at worst, whatever
    *Q*. Sampling helps delta only: :math:`\delta(\varepsilon)=\frac QN\delta_1(\varepsilon)` with
    :math:`\delta_1` the profile of one update, a mechanism of range :math:`2\Delta`.

    Parameters
    ----------
    sensitivity : float
        The constant :math:`\Delta`.
    n_updates, n_samples : int
        *Q* and *N*.
    delta : float, default=0.0
        In [0, 1).
    printed : bool, default=False
        Return the printed value, which is no guarantee.

    Returns
    -------
    float

    Examples
    --------
    >>> from skdpbayes.papers import random_scan_epsilon
    >>> random_scan_epsilon(2.0, 10, 100), random_scan_epsilon(2.0, 10, 100, printed=True)
    (4.0, 0.8)
    """
    cost = 2.0 * check_nonnegative("sensitivity", sensitivity)
    n_samples = check_count("n_samples", n_samples)
    rate = min(1.0, check_count("n_updates", n_updates) / n_samples)
    if printed:
        return 2.0 * cost * rate
    share = check_nonnegative("delta", delta) / rate
    return 0.0 if share >= 1.0 else bounded_range_epsilon(cost, share)


def barker_epsilon(sensitivity: float) -> float:
    r"""Price of an accept-or-reject step that takes Barker's probability.

    A proposal is accepted with probability :math:`1/(1+e^{-r})`, *r* the log ratio of the tempered
    posteriors. Replacing a record moves *r* by at most :math:`2\Delta`, and both answers change
    their log-probability by at most that: the step is :math:`2\Delta`-private, and its loss has
    range :math:`2\Delta`. Metropolis and Hastings accept with probability
    :math:`\min(1,e^r)`, so that where :math:`r\ge0` for one data set only, a rejection tells them
    apart: no pure guarantee exists, and delta is :math:`1-e^{-2\Delta}`.

    Parameters
    ----------
    sensitivity : float
        Largest difference :math:`\Delta` of two records' tempered log-likelihoods.

    Returns
    -------
    float
    """
    return 2.0 * check_nonnegative("sensitivity", sensitivity)
