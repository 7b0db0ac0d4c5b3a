r"""How much one record can move the gradient of the sum of losses, and how curved a loss can be.

These constants turn a data norm into the sensitivity of the Langevin and Gaussian bounds. *R* is
the bound on the norm of a row, constant feature included.
"""

from __future__ import annotations

import math

import numpy as np

from skdpbayes.privacy._numeric import check_count, check_nonnegative, check_positive
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.exponential_mechanism import (
    Floats,
    largest_on_sphere,
    two_group_logits,
)

# Allowance for rounding, added on the private side.
_ROUNDING = 1e-14
# Beyond this norm of the logits a softmax gradient is within 2e-8 of its limit.
_SATURATED = 25.0


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


def softmax_gradient_norm(norm: float, n_classes: int) -> float:
    r"""Largest norm of a softmax gradient on a ball, for unit rows: :math:`\max|p(z)-e_y|`.

    The maximum over logits :math:`|z|\le c`. It is on the sphere, at logits that add up to 0, and
    there the other classes have at most two distinct logits (the theory page has the proof), hence
    for each split of them one angle to search. The search errs on the private side by 1e-8.

    Parameters
    ----------
    norm : float
        Bound *c* on the norm of the logits; infinity for coefficients without a ball.
    n_classes : int
        Number of classes *K*, at least 2.

    Returns
    -------
    float
        From :math:`\sqrt{1-1/K}` for *c* = 0 to :math:`\sqrt2`.

    Examples
    --------
    >>> from skdpbayes.privacy import softmax_gradient_norm
    >>> [round(softmax_gradient_norm(c, 3), 6) for c in (0.0, 2.0)]
    [0.816497, 1.267742]
    """
    norm = check_nonnegative("norm", norm)
    n_classes = check_count("n_classes", n_classes, minimum=2)
    if norm > _SATURATED:
        return math.sqrt(2.0)

    def half_square(angle: Floats, group: Floats) -> Floats:
        """Half of |p - e_y|^2, by probabilities relative to the largest."""
        gaps, counts = two_group_logits(angle, group, norm, n_classes)
        top = np.maximum(0.0, gaps.max(axis=0))
        weights = np.exp(gaps - top)
        wrong = (counts * weights).sum(axis=0)
        total = np.exp(-top) + wrong
        result: Floats = 0.5 * (wrong**2 + (counts * weights**2).sum(axis=0)) / total**2
        return result

    # With J = diag(p) - p p^T, a = p - e_y: the gradient J a has norm at most sqrt(1/2), and the
    # Hessian |J h|^2 + E_p[a ((h - E h)^2 - Var h)] at most 1/4 + 2 Var h, Var h at most 1/2.
    bend = 1.25 * norm * norm + norm / math.sqrt(2.0)
    square = 2.0 * largest_on_sphere(half_square, n_classes, bend, 5e-9)
    return min(math.sqrt(2.0), math.sqrt(square) * (1.0 + _ROUNDING))


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
    n_classes: int | None = None,
) -> float:
    r"""Largest change of the gradient of the sum of losses between neighboring data sets.

    ============ ================================== ======================== ======================
    adjacency    logistic                           softmax (Frobenius norm) hinge, smoothed or not
    ============ ================================== ======================== ======================
    zero_out     :math:`R\,\sigma(Rr)`              :math:`R\,a(Rr)`         :math:`R`
    replace_one  :math:`R\,h(Rr)\le2R`              :math:`2R\,a(Rr)`        :math:`2R`
    ============ ================================== ======================== ======================

    Here :math:`\sigma` is the logistic function, *h* that of :func:`logistic_gradient_gap` and
    :math:`a\le\sqrt2` that of :func:`softmax_gradient_norm`. All are attained or approached, except
    that for softmax on a ball twice the norm is an upper bound of the replace-one constant. For
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
    n_classes : int or None, default=None
        Number of classes of the softmax loss, for which a ball counts only if it is given.

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
        longest = math.sqrt(2.0)
        if n_classes is not None and data_norm > 0.0:
            longest = softmax_gradient_norm(data_norm * coef_norm, n_classes)
        return (2.0 if replace else 1.0) * longest * data_norm
    if loss == "hinge":
        return (2.0 if replace else 1.0) * data_norm
    raise ValueError(f"loss must be 'logistic', 'softmax' or 'hinge', got {loss!r}")
