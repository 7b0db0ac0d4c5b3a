r"""Stochastic gradient Langevin dynamics (Welling and Teh 2011) at temperature 1.

.. math:: \theta \leftarrow \theta - h \tilde g, \qquad
          \tilde g = g + \sqrt{2 / h}\, \xi .

The injected noise is part of the gradient that the step is given: in a private chain that noisy
gradient is what is released, and everything after it is post-processing. With noise of standard
deviation :math:`s` per coordinate in :math:`\tilde g` the chain has temperature :math:`h s^2 / 2`.
"""

from __future__ import annotations

import numpy as np


def sgld_step(position: np.ndarray, gradient: np.ndarray, *, step_size: float) -> np.ndarray:
    """Return the next point of the chain.

    Parameters
    ----------
    position : ndarray
        Where the chain is.
    gradient : ndarray
        Estimate of the gradient of the potential there, with the injected noise.
    step_size : float
        The step *h*.

    Returns
    -------
    ndarray
    """
    return position - step_size * gradient
