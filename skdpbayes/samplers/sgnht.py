r"""Stochastic gradient Nosé-Hoover thermostat (Ding et al. 2014; run by Wang et al. 2015).

.. math:: p \leftarrow p - h \tilde g - h \xi p + \sqrt{2 A h}\, w, \qquad
          \theta \leftarrow \theta + h p, \qquad
          \xi \leftarrow \xi + h (|p|^2 / d - 1).

The thermostat :math:`\xi` grows until the momentum has unit variance, and so absorbs the unknown
noise of minibatch gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SGNHTState(NamedTuple):
    """Where a chain is.

    Attributes
    ----------
    position, momentum : ndarray of one shape
        The point and its momentum.
    thermostat : float
        The friction that the thermostat has found so far.
    """

    position: np.ndarray
    momentum: np.ndarray
    thermostat: float


def sgnht_init(position: np.ndarray, momentum: np.ndarray, diffusion: float) -> SGNHTState:
    """Start from a point with standard normal momentum and the thermostat at the diffusion *A*."""
    return SGNHTState(position, momentum, float(diffusion))


def sgnht_step(
    state: SGNHTState,
    gradient: np.ndarray,
    noise: np.ndarray,
    *,
    step_size: float,
    diffusion: float,
) -> SGNHTState:
    """Return the next state.

    Parameters
    ----------
    state : SGNHTState
        Where the chain is.
    gradient : ndarray
        Estimate of the gradient of the potential at ``state.position``.
    noise : ndarray
        Standard normal.
    step_size : float
        The step *h*.
    diffusion : float
        The rate *A* of injected noise.

    Returns
    -------
    SGNHTState
    """
    position, momentum, thermostat = state
    momentum = (
        momentum * (1.0 - step_size * thermostat)
        - step_size * gradient
        + np.sqrt(2.0 * diffusion * step_size) * noise
    )
    position = position + step_size * momentum
    excess = float(np.mean(momentum * momentum)) - 1.0
    return SGNHTState(position, momentum, thermostat + step_size * excess)
