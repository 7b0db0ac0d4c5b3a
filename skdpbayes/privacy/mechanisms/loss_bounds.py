r"""How much one record can move the gradient of the sum of losses, and how curved a loss can be.

These constants turn a data norm into the sensitivity of the Langevin and Gaussian bounds. *R* is
the bound on the norm of a row, constant feature included.
"""

from __future__ import annotations

import math

from skdpbayes.privacy._numeric import check_nonnegative, check_positive
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency

__all__ = ["gradient_sensitivity", "logistic_gradient_gap", "loss_curvature"]

# Allowance for rounding, added on the private side.
_ROUNDING = 1e-14


def logistic_gradient_gap(norm: float) -> float:
    r"""Largest distance between two logistic gradients on a ball, for unit rows.

    :math:`h(c)=\max_t 2\cos(t)\,\sigma(c\sin t)` with *c* the bound on the logit: two rows whose
    components orthogonal to the coefficients are opposite and whose parallel components are
    equally misclassified. It runs from 1 (label flip at the origin) to 2 (unbounded coefficients,
    at least two features). The logarithm of the function of *t* is concave on
    :math:`[0,\pi/2]`, so its derivative has one zero.

    Parameters
    ----------
    norm : float
        Bound on the logit; infinity for coefficients that are not confined to a ball.

    Returns
    -------
    float
        Replace-one gradient sensitivity for R = 1, rounded to the private side. It may be used
        where the sampler is confined (projected) to the ball.

    Examples
    --------
    >>> from skdpbayes.privacy import logistic_gradient_gap
    >>> round(logistic_gradient_gap(1.0), 8)
    1.09909548
    """
    norm = check_nonnegative("norm", norm)
    if math.isinf(norm):
        return 2.0

    def slope(t: float) -> float:
        """Derivative of log(cos t) + log(sigma(c sin t))."""
        return norm * math.cos(t) * _sigmoid(-norm * math.sin(t)) - math.tan(t)

    low, high = 0.0, math.pi / 2.0
    while (middle := 0.5 * (low + high)) not in (low, high):
        if slope(middle) > 0.0:
            low = middle
        else:
            high = middle
    return min(2.0, 2.0 * math.cos(low) * _sigmoid(norm * math.sin(low)) * (1.0 + _ROUNDING))


def _sigmoid(value: float) -> float:
    if value >= 0.0:
        return 1.0 / (1.0 + math.exp(-value))
    return math.exp(value) / (1.0 + math.exp(value))


def gradient_sensitivity(
    loss: str,
    data_norm: float,
    adjacency: Adjacency = "replace_one",
    *,
    coef_norm: float = math.inf,
) -> float:
    r"""Largest change of the gradient of the sum of losses between neighboring data sets.

    ============ ================================== ======================== ======================
    adjacency    logistic                           softmax (Frobenius norm) hinge, smoothed or not
    ============ ================================== ======================== ======================
    zero_out     :math:`R\,\sigma(Rr)`              :math:`\sqrt2R`          :math:`R`
    replace_one  :math:`R\,h(Rr)\le2R`              :math:`2\sqrt2R`         :math:`2R`
    ============ ================================== ======================== ======================

    Here :math:`\sigma` is the logistic function and *h* that of :func:`logistic_gradient_gap`. For
    unbounded coefficients and at least two features the logistic replace-one constant cannot be
    less than :math:`2R`: rows :math:`R(\cos t, \sin t)` and :math:`R(-\cos t, \sin t)` with
    coefficients :math:`(0, -M)` have gradients :math:`2R\cos t` apart as *M* grows. The hinge loss
    attains :math:`2R` at the origin.

    Parameters
    ----------
    loss : {"logistic", "softmax", "hinge"}
        The loss of one record.
    data_norm : float
        Bound *R* on the norm of a row, constant feature included.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy.
    coef_norm : float, default=inf
        Radius *r* of the ball that the sampler is confined to.

    Returns
    -------
    float
        The sensitivity at inverse temperature 1.
    """
    data_norm = check_nonnegative("data_norm", data_norm)
    coef_norm = check_positive("coef_norm", coef_norm)
    replace = check_adjacency(adjacency) == "replace_one"
    if loss == "logistic":
        logit = data_norm * coef_norm if data_norm > 0.0 else 0.0
        if replace:
            return data_norm * logistic_gradient_gap(logit)
        return data_norm * min(1.0, _sigmoid(logit) * (1.0 + _ROUNDING))
    if loss == "softmax":
        return (2.0 if replace else 1.0) * math.sqrt(2.0) * data_norm
    if loss == "hinge":
        return (2.0 if replace else 1.0) * data_norm
    raise ValueError(f"loss must be 'logistic', 'softmax' or 'hinge', got {loss!r}")


def loss_curvature(loss: str, data_norm: float, *, smoothing: float = 0.0) -> float:
    r"""Largest eigenvalue of the Hessian of one record's loss.

    Parameters
    ----------
    loss : {"logistic", "softmax", "hinge"}
        :math:`R^2/4`, :math:`R^2/2` (attained at probabilities 1/2, 1/2, 0, ...) and, for the
        hinge loss with smoothing *h*, :math:`R^2/(2h)`.
    data_norm : float
        Bound *R* on the norm of a row, constant feature included.
    smoothing : float, default=0.0
        Half-width *h* of the smoothed kink of the hinge loss; 0 has no finite curvature.

    Returns
    -------
    float
        Curvature of one loss; the sum of n losses at inverse temperature beta has n beta times it.
    """
    square = check_nonnegative("data_norm", data_norm) ** 2
    if loss == "logistic":
        return square / 4.0
    if loss == "softmax":
        return square / 2.0
    if loss == "hinge":
        smoothing = check_nonnegative("smoothing", smoothing)
        return square / (2.0 * smoothing) if smoothing > 0.0 else math.inf
    raise ValueError(f"loss must be 'logistic', 'softmax' or 'hinge', got {loss!r}")
