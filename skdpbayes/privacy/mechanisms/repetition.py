"""How often a private run is repeated: the distributions of the number of runs.

References
----------
.. [1] N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. ICLR 2022
   (Definition 1, Theorems 2 and 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache


def negative_binomial_mean(shape: float, gamma: float) -> float:
    r"""Return the mean number of runs.

    .. math::
        \mathrm{E} K = \frac{\eta (1-\gamma)}{\gamma (1 - \gamma^\eta)}, \qquad
        \frac{1/\gamma - 1}{\log(1/\gamma)} \text{ for } \eta = 0 .

    Parameters
    ----------
    shape : float
        :math:`\eta > -1`; 0 is the logarithmic, 1 the geometric distribution.
    gamma : float
        In (0, 1]; 1 always gives a single run.

    Examples
    --------
    >>> from skdpbayes.privacy import negative_binomial_mean
    >>> negative_binomial_mean(1.0, 0.125)
    8.0
    """
    check_shape(shape)
    if not 0.0 < gamma <= 1.0:
        raise ValueError(f"gamma must be in (0, 1], got {gamma!r}")
    if gamma == 1.0:
        return 1.0
    log_gamma = math.log(gamma)
    if abs(shape * log_gamma) < 1e-9:
        return (1.0 / gamma - 1.0) / -log_gamma
    return shape * (1.0 - gamma) / (gamma * -math.expm1(shape * log_gamma))


@lru_cache(maxsize=256)
def negative_binomial_gamma(shape: float, mean: float) -> float:
    """Return the gamma at which the mean number of runs is `mean`, at least 1.

    Parameters
    ----------
    shape : float
        Above -1.
    mean : float
        At least 1. Shapes below 0 cannot reach every mean at a gamma above 1e-300.

    Examples
    --------
    >>> from skdpbayes.privacy import negative_binomial_gamma
    >>> round(negative_binomial_gamma(0.0, 10.0), 10)
    0.0269182596
    """
    check_shape(shape)
    if not 1.0 <= mean < math.inf:
        raise ValueError(f"mean must be a finite number >= 1, got {mean!r}")
    if mean == 1.0:
        return 1.0
    low, high = -690.0, 0.0  # of log gamma; the mean falls with gamma
    if negative_binomial_mean(shape, math.exp(low)) < mean:
        raise ValueError(f"a mean of {mean!r} runs is out of reach with shape={shape!r}")
    for _ in range(100):
        middle = 0.5 * (low + high)
        if negative_binomial_mean(shape, math.exp(middle)) >= mean:
            low = middle
        else:
            high = middle
    return math.exp(low)


def check_shape(shape: float) -> float:
    """Return `shape` as a float, refusing numbers up to -1 and NaN."""
    number = float(shape)
    if not number > -1.0:
        raise ValueError(f"shape must be > -1, got {shape!r}")
    return number


def selection_coverage(n_candidates: int, mean: float, shape: float) -> float:
    r"""Return the probability that a given one of equally likely candidates is tried at all.

    That is :math:`1 - f(1 - 1/n)`, with *f* the generating function of the number of runs.

    Parameters
    ----------
    n_candidates : int
        *n*.
    mean, shape : float
        Of the number of runs; ``shape=inf`` is Poisson.

    Examples
    --------
    >>> from skdpbayes.privacy import selection_coverage
    >>> round(selection_coverage(10, 30.0, 1.0), 3)
    0.769
    """
    rest = 1.0 - 1.0 / n_candidates
    if math.isinf(shape):
        return -math.expm1(-mean / n_candidates)
    gamma = negative_binomial_gamma(shape, mean)
    if gamma == 1.0:
        return 1.0 - rest
    log_rest = math.log1p(-(1.0 - gamma) * rest)
    if abs(shape) < 1e-9:
        return 1.0 - log_rest / math.log(gamma)
    # f(x) = ((1 - (1 - gamma) x)^-eta - 1) / (gamma^-eta - 1)
    return 1.0 - math.expm1(-shape * log_rest) / math.expm1(-shape * math.log(gamma))


def papernot_steinke_rdp(
    order: float,
    renyi: Callable[[float], float],
    orders: tuple[float, ...],
    *,
    mean: float,
    shape: float,
    run_delta: Callable[[float], float] | None = None,
) -> float:
    r"""Return the Rényi divergence bound of Papernot and Steinke at `order`.

    Truncated negative binomial with mean *m* (Theorem 2):

    .. math:: \epsilon'(\alpha) = \epsilon(\alpha) + (1+\eta)(1-1/\hat\alpha)\,\epsilon(\hat\alpha)
        + (1+\eta)\log(1/\gamma)/\hat\alpha + \log(m)/(\alpha-1).

    Poisson (Theorem 6): :math:`\epsilon(\alpha)+m\,\delta(\hat\varepsilon)+\log(m)/(\alpha-1)` with
    :math:`e^{\hat\varepsilon}=1+1/(\alpha-1)`. The divergence grows with its order, so that the
    bound at a larger order holds at a smaller one, too.

    Parameters
    ----------
    order : float
        :math:`\alpha > 1`.
    renyi : callable
        A run's divergence at an order.
    orders : tuple of float
        Orders :math:`\hat\alpha \ge 1` to choose from, and larger orders to fall back on.
    mean : float
        Mean number of runs.
    shape : float
        :math:`\eta`; ``inf`` for the Poisson distribution.
    run_delta : callable, optional
        A run's profile; needed for the Poisson distribution.
    """
    if math.isinf(shape):
        if run_delta is None:
            raise ValueError("the Poisson bound needs run_delta, the profile of a run")

        def bound(alpha: float) -> float:
            delta = run_delta(math.log1p(1.0 / (alpha - 1.0)))
            return renyi(alpha) + mean * delta + math.log(mean) / (alpha - 1.0)

    else:
        gamma = negative_binomial_gamma(shape, mean)
        extra = min(
            (1.0 + shape) * ((1.0 - 1.0 / hat) * renyi(hat) - math.log(gamma) / hat)
            for hat in orders
            if hat >= 1.0
        )

        def bound(alpha: float) -> float:
            return renyi(alpha) + extra + math.log(mean) / (alpha - 1.0)

    return min(bound(alpha) for alpha in (order, *orders) if alpha >= order)
