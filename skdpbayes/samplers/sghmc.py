r"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin 2014) at temperature 1.

.. math:: p \leftarrow p - h \tilde g - h A p, \qquad \theta \leftarrow \theta + h p, \qquad
          \tilde g = g + \sqrt{2 A / h}\, \xi .

The injected noise is part of the gradient that the step is given. With noise of standard deviation
:math:`s` per coordinate the chain has temperature :math:`h s^2 / (2A)`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class SGHMCState(NamedTuple):
    """Where a chain is.

    Attributes
    ----------
    position, momentum : ndarray of one shape
        The point and its momentum.
    """

    position: np.ndarray
    momentum: np.ndarray


def sghmc_step(
    state: SGHMCState, gradient: np.ndarray, *, step_size: float, friction: float
) -> SGHMCState:
    """Return the next state.

    Parameters
    ----------
    state : SGHMCState
        Where the chain is.
    gradient : ndarray
        Estimate of the gradient of the potential there, with the injected noise.
    step_size : float
        The step *h*.
    friction : float
        The friction *A*; ``step_size * friction`` is at most 1.

    Returns
    -------
    SGHMCState
    """
    momentum = state.momentum * (1.0 - step_size * friction) - step_size * gradient
    return SGHMCState(state.position + step_size * momentum, momentum)
