r"""One draw from a tempered posterior: the exponential mechanism and the constants it needs.

A draw from :math:`p(\theta) \propto \pi(\theta)\exp(-\beta\sum_i \ell_i(\theta))` on a public set
has bounded range :math:`\eta = \beta\,\Delta` where :math:`\Delta` is the range over the set of the
change in the sum of losses, whatever the (public) prior. *Proof.* With *g* that change,
:math:`\log p/p' = -\beta g - \log E_{p'}[e^{-\beta g}]`, a constant plus a function of range
:math:`\beta\,(\sup g-\inf g)`.

Adjacency ``"zero_out"``: one record's loss is deleted, :math:`\Delta` is the range of one loss.
``"replace_one"``: one record is replaced; the range of a difference of two losses is at most twice
that, and the label flip of the same row attains it for the logistic and the hinge loss.

References
----------
.. [1] F. McSherry and K. Talwar. Mechanism design via differential privacy.
   FOCS 2007.
.. [2] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
   gradient Monte Carlo. ICML 2015.
.. [3] K. Minami, H. Arai, I. Sato and H. Nakagawa. Differential privacy without sensitivity.
   NeurIPS 2016.
.. [4] J. Foulds, J. Geumlek, M. Welling and K. Chaudhuri. On the theory and practice of
   privacy-preserving Bayesian data analysis. UAI 2016.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy._numeric import (
    check_count,
    check_delta,
    check_nonnegative,
    check_positive,
)
from skdpbayes.privacy.guarantee import Adjacency, check_adjacency
from skdpbayes.privacy.mechanisms.bounded_range import bounded_range_eta

Floats: TypeAlias = npt.NDArray[np.float64]

# First grid of the softmax search and the slack at which it stops, relative to the range.
_CELLS = 64
_RELATIVE_SLACK = 1e-12
# Allowance for the rounding of the two logarithms whose difference is the softmax range.
_ROUNDING = 2e-15


def logistic_range(norm: float) -> float:
    r"""Range of :math:`\log(1+e^{-u})` over :math:`|u|\le c`, which is the bound *c* itself.

    Parameters
    ----------
    norm : float
        Bound *c* on the logit: lengths of a row and of the coefficients, multiplied.

    Returns
    -------
    float
        Zero-out range; replace-one is twice that, attained by flipping the label.
    """
    return check_nonnegative("norm", norm)


def softmax_range(norm: float, n_classes: int) -> float:
    r"""Range of the cross entropy :math:`\log\sum_je^{s_j}-s_y` over logits of bounded norm.

    The loss is convex and depends on differences of logits only. Its minimum is
    :math:`\log(1+(K-1)e^{-c\sqrt{K/(K-1)}})`. Its maximum is on the sphere, where the Lagrange
    conditions :math:`e^{s_j}/Z=\lambda s_j` for :math:`j\ne y` and :math:`\sum_j s_j=0` leave at
    most two distinct values among the other logits (a line meets the convex exponential at most
    twice), hence for each split of the other classes one angle to search. The search keeps every
    interval that could still hold the maximum and adds its final slack, so that the result is on
    the private side.

    Parameters
    ----------
    norm : float
        Bound *c* on the norm of the logit vector.
    n_classes : int
        Number of classes *K*, at least 2.

    Returns
    -------
    float
        Zero-out range, between :math:`\sqrt2c` and :math:`2c\sqrt{1-1/K}` (equal to both for two
        classes). The replace-one range is at most twice that; :math:`2\sqrt2c` would not be enough
        for more than two classes, because replacing *x* by *-x* under the same label attains twice
        the range when the norm is small.

    Examples
    --------
    >>> from skdpbayes.privacy import softmax_range
    >>> round(softmax_range(1.0, 3), 8)
    1.59270436
    """
    norm = check_nonnegative("norm", norm)
    n_classes = check_count("n_classes", n_classes, minimum=2)
    if norm == 0.0 or n_classes == 2 or math.isinf(norm):
        return math.sqrt(2.0) * norm
    lowest = math.log1p((n_classes - 1) * math.exp(-norm * math.sqrt(n_classes / (n_classes - 1))))
    highest = _largest_cross_entropy(norm, n_classes)
    return highest - lowest + _ROUNDING * highest


def _largest_cross_entropy(norm: float, n_classes: int) -> float:
    """Maximum of the loss on the sphere, from above."""
    # |d2 loss / d angle2| <= norm^2 * |Hessian| + norm * |gradient| <= norm^2 / 2 + sqrt(2) norm
    bend = norm * norm / 2.0 + math.sqrt(2.0) * norm

    def loss(angle: Floats, group: Floats) -> Floats:
        gaps, counts = two_group_logits(angle, group, norm, n_classes)
        top = np.maximum(0.0, gaps.max(axis=0))
        result: Floats = top + np.log(np.exp(-top) + (counts * np.exp(gaps - top)).sum(axis=0))
        return result

    return largest_on_sphere(loss, n_classes, bend, _RELATIVE_SLACK * norm)


def largest_on_sphere(
    function: Callable[[Floats, Floats], Floats], n_classes: int, bend: float, tolerance: float
) -> float:
    """Maximum over angles and splits of the other classes in two groups, from above.

    Every candidate interval of angles is bisected. The second derivative in the angle is at most
    ``bend``, so an interior maximum is at most bend * width^2 / 8 above the nearer end.
    """
    width = math.pi / _CELLS
    groups, left = np.meshgrid(
        np.arange(1.0, n_classes), width * np.arange(_CELLS, dtype=float), indexing="ij"
    )
    groups, left = groups.ravel(), left.ravel()
    while True:
        ends = np.maximum(function(left, groups), function(left + width, groups))
        best, slack = float(ends.max()), bend * width * width / 8.0
        if slack <= tolerance:
            return best + slack
        alive = ends + slack >= best
        width /= 2.0
        groups = np.repeat(groups[alive], 2)
        left = (left[alive][:, None] + np.array([0.0, width])).ravel()


def two_group_logits(
    angle: Floats, group: Floats, norm: float, n_classes: int
) -> tuple[Floats, Floats]:
    """Logits over the record's own, where `group` other classes share one and the rest another.

    They lie on the sphere of radius `norm` among logits that add up to 0. Both results have shape
    (2, n): the differences, minus infinity for an empty rest, and how many classes have them.
    """
    others = n_classes - 1.0
    rest = others - group
    own = -norm * np.cos(angle) * math.sqrt(others / n_classes)
    common = norm * np.cos(angle) / math.sqrt(others * n_classes)
    # (rest on the group, -group on the rest), scaled to length norm * sin(angle)
    spread = norm * np.sin(angle) / np.sqrt(others * group * np.maximum(rest, 1.0))
    second = np.where(rest > 0.0, common - spread * group - own, -np.inf)
    return np.stack([common + spread * rest - own, second]), np.stack([group, rest])


def truncated_dirichlet_range(n_categories: int, minimum: float) -> float:
    r"""Range of a categorical log-likelihood when every probability is at least `minimum`.

    :math:`\Delta=\log((1-(K-1)a_0)/a_0)`. A naive Bayes or Markov model with several independent
    tables has the sum of the ranges. The replace-one range is exactly twice this one (two
    categories at opposite corners; Foulds et al. 2016, Eq. 15).

    Parameters
    ----------
    n_categories : int
        Number of categories *K*, at least 2.
    minimum : float
        Lower bound :math:`a_0` on every probability, in (0, 1/K).

    Returns
    -------
    float
        Zero-out range.
    """
    n_categories = check_count("n_categories", n_categories, minimum=2)
    minimum = check_positive("minimum", minimum)
    if minimum * n_categories >= 1.0:
        raise ValueError(
            f"minimum must be below 1 / n_categories = {1.0 / n_categories!r}, got {minimum!r}"
        )
    return math.log1p(-(n_categories - 1) * minimum) - math.log(minimum)


def exponential_mechanism_epsilon(
    inverse_temperature: float, loss_range: float, adjacency: Adjacency = "replace_one"
) -> float:
    r"""Range (and pure epsilon) of one draw with weight :math:`e^{-\beta\sum_i\ell_i}`.

    Parameters
    ----------
    inverse_temperature : float
        The factor beta on the sum of losses.
    loss_range : float
        Zero-out range of one loss over the public set.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Replacing a record costs twice what deleting its contribution costs.

    Returns
    -------
    float
        The draw is epsilon-DP, and bounded-range with the same number.

    Examples
    --------
    >>> from skdpbayes.privacy import exponential_mechanism_epsilon, logistic_range
    >>> exponential_mechanism_epsilon(0.25, logistic_range(2.0))
    1.0
    """
    inverse_temperature = check_nonnegative("inverse_temperature", inverse_temperature)
    factor = 2.0 if check_adjacency(adjacency) == "replace_one" else 1.0
    return factor * inverse_temperature * check_nonnegative("loss_range", loss_range)


def exponential_mechanism_inverse_temperature(
    epsilon: float,
    loss_range: float,
    adjacency: Adjacency = "replace_one",
    *,
    delta: float = 0.0,
    n_draws: int = 1,
) -> float:
    """Largest factor on the sum of losses for which `n_draws` draws are (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Total budget, > 0.
    loss_range : float
        Zero-out range of one loss over the public set, > 0.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        Unit of privacy.
    delta : float, default=0.0
        Total budget; worth most when there are several draws, see
        :func:`~skdpbayes.privacy.bounded_range_eta`.
    n_draws : int, default=1
        Independent draws released.

    Returns
    -------
    float
        Rounded to the private side.
    """
    check_positive("epsilon", epsilon)
    check_positive("loss_range", loss_range)
    eta = bounded_range_eta(epsilon, delta, n_draws)
    result = eta / exponential_mechanism_epsilon(1.0, loss_range, adjacency)
    while exponential_mechanism_epsilon(result, loss_range, adjacency) > eta:
        result = math.nextafter(result, 0.0)
    return result


def wang2015_inverse_temperature(epsilon: float, norm: float) -> float:
    r"""Inverse temperature of Wang et al. (2015), Theorem 4, for the logistic loss.

    They bound the loss by :math:`B=\log(1+e^c)`, with *c* the bound on the logit, and claim
    :math:`4B` per unit of inverse temperature for replacing one record. It is valid and at least
    twice too large: the exact value is :math:`2c`. For reproduction only.

    Parameters
    ----------
    epsilon : float
        Budget, > 0.
    norm : float
        Bound *c* on the logit.

    Returns
    -------
    float
        :math:`\varepsilon/(4B)`.
    """
    bound = float(np.logaddexp(0.0, check_nonnegative("norm", norm)))
    return check_positive("epsilon", epsilon) / (4.0 * bound)


def minami2016_mu(
    epsilon: float, delta: float, result: Literal["corollary8", "theorem7"] = "corollary8"
) -> float:
    r"""Gradient sensitivity over root strong convexity that Minami et al. (2016) allow.

    Their bound is Chernoff's on the privacy loss of a Gaussian mechanism with the same
    :math:`\mu`; :func:`~skdpbayes.privacy.gdp_mu` gives the exact value, 1.3 times as large at
    (1, 1e-5). For reproduction only. With :math:`l=\log(1/\delta)`, Theorem 7 amounts to
    :math:`\mu=\sqrt{2l+2\varepsilon}-\sqrt{2l}` and Corollary 8 to
    :math:`\mu=\varepsilon/\sqrt{1+2l}`.

    Parameters
    ----------
    epsilon : float
        Budget, > 0. At most 1 for the corollary, which does not follow from the theorem beyond
        :math:`2/(1+\sqrt{2l/(1+2l)})` (just above 1) and is false for large epsilon.
    delta : float
        In (0, 1).
    result : {"corollary8", "theorem7"}, default="corollary8"
        Which statement.

    Returns
    -------
    float
        The value of mu.
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_delta(delta)
    if delta == 0.0:
        raise CalibrationError("the bounds of Minami et al. (2016) need delta > 0, got 0.0")
    log_term = 2.0 * math.log(1.0 / delta)
    if result == "theorem7":
        return 2.0 * epsilon / (math.sqrt(log_term + 2.0 * epsilon) + math.sqrt(log_term))
    if result != "corollary8":
        raise ValueError(f"result must be 'corollary8' or 'theorem7', got {result!r}")
    if epsilon > 1.0:
        raise CalibrationError(
            f"Corollary 8 of Minami et al. (2016) does not follow from their Theorem 7 for "
            f"epsilon > 1 (it is false for large epsilon), got epsilon={epsilon!r}; use the tight "
            f"calibration or epsilon <= 1"
        )
    return epsilon / math.sqrt(1.0 + log_term)
