r"""The last iterate of a Langevin chain is private for any number of steps.

The chain is :math:`\theta\leftarrow\Pi(\theta-\eta\nabla U(\theta)+\sqrt{2\eta}\,\xi)` from a start
that does not depend on the data, with public step sizes, number of steps and convex set (or none).
If *U* is *m*-strongly convex and *M*-smooth, steps are at most 2/(M+m) and the gradients of
neighboring potentials are at most *G* apart, releasing the last iterate alone is Gaussian DP (Bok,
Su and Altschuler 2024). Nothing is assumed about convergence.

*Proof.* A step map :math:`\phi=\mathrm{id}-\eta\nabla U` is Lipschitz with :math:`c=1-\eta m`, and
:math:`|\phi-\phi'|\le s=\eta G`. Beside the chains *X* and *X'* run
:math:`\tilde X_{k+1}=\lambda_k\phi(X_k)+(1-\lambda_k)\phi'(\tilde X_k)+Z_k` with the noise of *X*,
started at *X'*, and let :math:`z_k` bound :math:`|X_k-\tilde X_k|`. Given :math:`\tilde X_k`, the
next points of :math:`\tilde X` and *X'* are Gaussians whose means are within
:math:`\lambda_k(cz_k+s)`, so the step costs :math:`a_{k+1}=\lambda_k(cz_k+s)/\sqrt{2\eta}` of
Gaussian DP and leaves :math:`z_{k+1}=cz_k+s-\sqrt{2\eta}\,a_{k+1}`. Minimizing
:math:`\sum a_k^2` subject to :math:`z_t=0` gives weights proportional to :math:`c^{t-k}` and the
formulas below. A projection is post-processing of the pre-projection chain. Linear losses attain
the bound.

The bounds break if the number of steps depends on the data, if iterates are averaged, if proposals
are accepted or rejected, or if the chain starts at an estimate from the same data.

References
----------
.. [1] J. Bok, W. Su and J. Altschuler. Shifted interpolation for differential privacy.
   ICML 2024.
.. [2] S. Gopi, Y. T. Lee and D. Liu. Private convex optimization via exponential mechanism.
   COLT 2022 (the limit of small steps).
"""

from __future__ import annotations

import math

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy._numeric import (
    check_count,
    check_nonnegative,
    check_positive,
)


def largest_langevin_step(strong_convexity: float, smoothness: float) -> float:
    """Return 2 / (M + m), the largest step at which a gradient step contracts by 1 - step * m.

    Parameters
    ----------
    strong_convexity, smoothness : float
        Public bounds *m* and *M* on the eigenvalues of the Hessian, M >= m. Computing *M* from the
        data (its largest singular value, or its size where the size is private) would leak.

    Returns
    -------
    float
        The largest step size.
    """
    m = check_nonnegative("strong_convexity", strong_convexity)
    big = check_positive("smoothness", smoothness)
    if big < m:
        raise ValueError(f"smoothness must be >= strong_convexity={m!r}, got {big!r}")
    return 2.0 / (big + m)


def check_contraction(step_size: float, strong_convexity: float, smoothness: float | None) -> None:
    """Refuse steps at which the map of a gradient step is not a contraction by 1 - step * m."""
    if smoothness is None:
        limit = 1.0 / strong_convexity if strong_convexity > 0.0 else math.inf
        bound = "1 / strong_convexity"
    else:
        limit = largest_langevin_step(strong_convexity, smoothness)
        bound = "2 / (smoothness + strong_convexity)"
    if step_size > limit * (1.0 + 1e-12):
        raise CalibrationError(
            f"step_size must be <= {bound} = {limit!r} for the Langevin bound, got {step_size!r}; "
            f"use a smaller step"
        )


def langevin_mu(
    step_size: float,
    strong_convexity: float,
    gradient_sensitivity: float,
    n_steps: float,
    diameter: float | None = None,
    *,
    smoothness: float | None = None,
) -> float:
    r"""Gaussian DP of the last of `n_steps` Langevin iterates.

    .. math:: \mu_t^2 = \frac{\eta G^2}{2}\,\frac{1-c^t}{1+c^t}\,\frac{1+c}{1-c},
        \qquad c=1-\eta m, \qquad \mu_\infty=\frac{G}{\sqrt m}\sqrt{1-\eta m/2}.

    On a convex set of diameter *D* one may start the argument *n* steps before the end with
    :math:`z=D`:

    .. math:: \mu^2\le\min_{1\le n<t} \left(c^nD+s\frac{1-c^n}{1-c}\right)^2
        \frac{1-c^2}{2\eta(1-c^{2n})},

    which tends to :math:`(2GD-mD^2)(1-\eta m/2)` where :math:`D<G/m`. As a function of :math:`c^n`
    it has one minimum, at :math:`1-mD/G`, so two values of *n* are compared.

    Parameters
    ----------
    step_size : float
        The step of :math:`\theta\leftarrow\theta-\eta\nabla U(\theta)+\sqrt{2\eta}\,\xi`.
    strong_convexity : float
        The constant *m*; may be 0.
    gradient_sensitivity : float
        The bound *G* on the distance of the gradients of neighboring potentials; inverse
        temperature included.
    n_steps : int or inf
        Number of steps; ``math.inf`` gives the limit, a bound for every number of steps.
    diameter : float or None, default=None
        Diameter of the convex set that every iterate is projected to.
    smoothness : float or None, default=None
        The constant *M*. If given, `step_size` is checked against 2 / (M + m); if None the caller
        must have done so.

    Returns
    -------
    float
        The last iterate is mu-GDP.

    Examples
    --------
    >>> from skdpbayes.privacy import langevin_mu
    >>> mu = langevin_mu(0.01, strong_convexity=1.0, gradient_sensitivity=1.0, n_steps=100)
    >>> round(mu, 8)
    0.67953934
    """
    eta = check_positive("step_size", step_size)
    m = check_nonnegative("strong_convexity", strong_convexity)
    gap = check_nonnegative("gradient_sensitivity", gradient_sensitivity)
    if n_steps != math.inf:
        n_steps = check_count("n_steps", n_steps)
    check_contraction(eta, m, smoothness)
    square = _unbounded_square(eta, m, gap, n_steps)
    if diameter is not None:
        diameter = check_positive("diameter", diameter)
        square = min(square, _diameter_square(eta, m, gap, n_steps, diameter))
    return math.sqrt(square)


def _log_contraction(eta: float, m: float) -> float:
    """Return log(1 - eta m), minus infinity where the step lands on the minimum."""
    return math.log1p(-eta * m) if eta * m < 1.0 else -math.inf


def _unbounded_square(eta: float, m: float, gap: float, n_steps: float) -> float:
    if m == 0.0:
        return eta * gap * gap / 2.0 * n_steps if gap > 0.0 else 0.0
    # (1 - c^t) / (1 + c^t) = tanh(-t log(c) / 2) and (1 + c) / (1 - c) = (2 - eta m) / (eta m)
    saturation = math.tanh(-n_steps * _log_contraction(eta, m) / 2.0)
    return gap * gap / m * (1.0 - eta * m / 2.0) * saturation


def _diameter_square(eta: float, m: float, gap: float, n_steps: float, diameter: float) -> float:
    if n_steps < 2 or gap == 0.0 or m * diameter >= gap:
        return math.inf  # no restart point, or none that helps
    log_c = _log_contraction(eta, m)
    if m == 0.0:
        best = diameter / (eta * gap)
    else:
        best = math.log1p(-m * diameter / gap) / log_c if log_c > -math.inf else 1.0

    def square(n: float) -> float:
        if m == 0.0:
            return (diameter + eta * gap * n) ** 2 / (2.0 * eta * n)
        decay = math.exp(n * log_c)
        distance = decay * diameter + gap / m * -math.expm1(n * log_c)
        return distance**2 * m * (2.0 - eta * m) / (-2.0 * math.expm1(2.0 * n * log_c))

    last = n_steps - 1
    return min(square(min(max(n, 1.0), last)) for n in (math.floor(best), math.ceil(best)))


def ops_mu(
    inverse_temperature: float, C: float, gradient_sensitivity: float, *, rounding: float = 0.0
) -> float:
    r"""Gaussian DP of one exact posterior draw.

    The density :math:`\exp(-\beta(\sum\ell_i+\|\theta\|^2/(2C)))` is :math:`\beta/C`-strongly
    log-concave and neighboring potentials have gradients :math:`\beta g` apart, so a draw is
    :math:`\mu=\beta g/\sqrt{\beta/C}=g\sqrt{\beta C}`-GDP (Gopi, Lee and Liu 2022; no smoothness
    needed). A sampler that computes the potential draws from a density whose logarithm is off by at
    most :math:`\beta e`; that adds at most :math:`\sqrt{2\pi}\,\beta e` to :math:`\mu` (the lemma
    after Theorem 3 of the theory page).

    Parameters
    ----------
    inverse_temperature : float
        The factor beta.
    C : float
        Inverse regularization strength, as in scikit-learn.
    gradient_sensitivity : float
        The constant *g* at inverse temperature 1, see
        :func:`~skdpbayes.privacy.gradient_sensitivity`.
    rounding : float, default=0.0
        Bound *e* on the logarithm of the computed over the exact density, both normalized, at
        inverse temperature 1: twice that on the error of the potential.

    Returns
    -------
    float
        The draw is mu-GDP; k independent draws are sqrt(k) mu-GDP.
    """
    beta = check_nonnegative("inverse_temperature", inverse_temperature)
    g = check_nonnegative("gradient_sensitivity", gradient_sensitivity)
    added = math.sqrt(2.0 * math.pi) * beta * check_nonnegative("rounding", rounding)
    return g * math.sqrt(beta * check_positive("C", C)) + added


def ops_inverse_temperature(
    mu: float, C: float, gradient_sensitivity: float, *, rounding: float = 0.0
) -> float:
    r"""Inverse temperature at which one exact posterior draw is mu-GDP.

    The inverse of :func:`ops_mu`: :math:`\beta=\mu^2/(Cg^2)` without rounding.

    Parameters
    ----------
    mu : float
        Target; divide by sqrt(k) for k draws.
    C, gradient_sensitivity, rounding : float
        As for :func:`ops_mu`.

    Returns
    -------
    float
        Rounded to the private side.

    Examples
    --------
    >>> from skdpbayes.privacy import ops_inverse_temperature
    >>> ops_inverse_temperature(0.5, C=1.0, gradient_sensitivity=2.0)
    0.0625
    """
    mu = check_nonnegative("mu", mu)
    g = check_positive("gradient_sensitivity", gradient_sensitivity)
    if math.isinf(mu):
        return math.inf
    linear = g * math.sqrt(check_positive("C", C))
    square = math.sqrt(2.0 * math.pi) * check_nonnegative("rounding", rounding)
    # the positive root of square x^2 + linear x = mu, without cancellation
    root = 2.0 * mu / (linear + math.sqrt(linear * linear + 4.0 * square * mu))
    beta = (mu / g) ** 2 / C if square == 0.0 else root * root
    while ops_mu(beta, C, g, rounding=rounding) > mu:
        beta = math.nextafter(beta, 0.0)
    return beta
