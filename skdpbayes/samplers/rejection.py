r"""Exact draws from a strongly log-concave density on a ball, by rejection.

Let *U* be convex on the ball :math:`|\theta| \le r` with Hessian at least *P* there, let
:math:`\theta_0` be any point of the ball and *g* a (sub)gradient at it. Then

.. math:: U(\theta) \ge U(\theta_0) + g^\top(\theta - \theta_0)
          + \tfrac12 |\theta - \theta_0|_P^2
          \ge U(\theta_0) - \kappa + \tfrac12 |\theta - \theta_0|_P^2, \qquad
          \kappa = g^\top \theta_0 + r |g|,

because a linear function on the ball is smallest at :math:`-r g / |g|`. At the mode
:math:`\kappa = 0`, whether the mode is inside or on the sphere. So a point of
:math:`N(\theta_0, P^{-1})` that falls in the ball, kept with probability
:math:`\exp(-(U(\theta) - U(\theta_0) + \kappa - \tfrac12|\theta-\theta_0|_P^2)) \le 1`, is an exact
draw, for every choice of :math:`\theta_0`: an inaccurate mode costs tries, not exactness.
"""

from __future__ import annotations

import math

import numpy as np


def envelope_gap(center: np.ndarray, gradient: np.ndarray, radius: float) -> float:
    r"""Return :math:`\kappa = g^\top \theta_0 + r |g|`; 0 at the mode, infinity without a ball.

    Parameters
    ----------
    center, gradient : ndarray of shape (p,)
        The point and the gradient of the potential (or of a lower bound of it) there.
    radius : float
        Of the ball.

    Returns
    -------
    float
    """
    return max(0.0, float(gradient @ center + radius * np.linalg.norm(gradient)))


def keep_proposals(
    excess: np.ndarray, half_square: np.ndarray, gap: float, log_uniform: np.ndarray
) -> np.ndarray:
    """Decide which proposals are draws.

    Parameters
    ----------
    excess : ndarray of shape (B,)
        ``U(theta) - U(theta_0)`` of each proposal, infinity outside the ball.
    half_square : ndarray of shape (B,)
        Half the squared distance of each proposal from the center, in the metric P.
    gap : float
        The constant kappa (plus any further slack of the lower bound).
    log_uniform : ndarray of shape (B,)
        Logarithms of uniforms.

    Returns
    -------
    ndarray of bool of shape (B,)
    """
    return np.asarray(log_uniform < half_square - excess - gap)


def log_expected_tries(
    n_features: int, strong_convexity: float, radius: float, rise: float
) -> float:
    r"""Bound the logarithm of the expected number of tries by public numbers.

    Let *W* bound the rise of *U* above its minimum on the ball. Shrinking the ball toward the mode
    by the factor *s* gives points where :math:`U - U_* \le sW`, by convexity, so

    .. math:: \int_{|\theta|\le r} e^{-(U - U_*)} \ge V_p r^p \int_0^1 W e^{-sW} s^p ds
              + V_p r^p e^{-W} \ge V_p r^p \max_{0\le s\le1} s^p e^{-sW},

    with :math:`V_p` the volume of the unit ball, while the envelope integrates to at most
    :math:`(2\pi/m)^{p/2}`. The ratio bounds the expected number of tries.

    Parameters
    ----------
    n_features : int
        Dimension p.
    strong_convexity : float
        The constant *m*: *P* is at least *m* times the identity.
    radius : float
        The radius *r* of the ball.
    rise : float
        The bound *W*, public.

    Returns
    -------
    float
    """
    p = n_features
    share = min(1.0, p / rise) if rise > 0.0 else 1.0
    log_inside = p * math.log(share) - share * rise
    log_ball = 0.5 * p * math.log(math.pi) - math.lgamma(0.5 * p + 1.0) + p * math.log(radius)
    log_envelope = 0.5 * p * math.log(2.0 * math.pi / strong_convexity)
    return max(0.0, log_envelope - log_ball - log_inside)
