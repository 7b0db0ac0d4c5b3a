r"""Unadjusted Langevin steps on a ball.

.. math:: \theta \leftarrow \Pi_r\big(\theta - \gamma \nabla F(\theta)
          + \sqrt{2 \gamma T}\,\xi\big)

targets the density proportional to :math:`e^{-F/T}`. The step size and the radius are public and
the noise is handed in, so a step is a deterministic function and a chain of them has exactly the
form that the last-iterate privacy bound needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np


def project_to_ball(theta: np.ndarray, radius: float) -> np.ndarray:
    """Return the nearest point of the centered ball; the identity for an infinite radius."""
    # To a ball one part in 10^12 smaller, so that rounding cannot leave the given one. Points
    # between the two are moved as well: the privacy bound needs a map without jumps.
    radius *= 1.0 - 1e-12
    norm = float(np.sqrt(np.sum(theta * theta)))
    return theta if norm <= radius else np.asarray(theta * (radius / norm))


def langevin_step(
    theta: np.ndarray,
    gradient: np.ndarray,
    noise: np.ndarray,
    *,
    step_size: float,
    temperature: float,
    radius: float = np.inf,
) -> np.ndarray:
    r"""Return the next point of the chain.

    Parameters
    ----------
    theta, gradient, noise : ndarray of one shape
        The point, the gradient of *F* there, and standard normal noise.
    step_size : float
        The factor :math:`\gamma` on the gradient.
    temperature : float
        The temperature *T*; 0 gives projected gradient descent.
    radius : float
        Of the ball that every point is projected to.

    Returns
    -------
    ndarray
    """
    moved = theta - step_size * gradient + np.sqrt(2.0 * step_size * temperature) * noise
    return project_to_ball(moved, radius)


def langevin_chain(
    theta: np.ndarray,
    gradients: Iterable[Callable[[np.ndarray], np.ndarray]],
    noises: Iterable[np.ndarray],
    *,
    step_size: float,
    temperature: float,
    radius: float = np.inf,
) -> np.ndarray:
    """Run one step per pair of ``gradients`` and ``noises``; return the last point alone.

    Parameters
    ----------
    theta : ndarray
        Where the chain starts.
    gradients : iterable of callables
        The gradient used at each step: the same function throughout, or one of each batch in turn.
    noises : iterable of ndarray
        Standard normal noise of each step.
    step_size, temperature, radius : float
        See `langevin_step`.

    Returns
    -------
    ndarray
    """
    for gradient, noise in zip(gradients, noises, strict=True):
        theta = langevin_step(
            theta,
            gradient(theta),
            noise,
            step_size=step_size,
            temperature=temperature,
            radius=radius,
        )
    return theta
