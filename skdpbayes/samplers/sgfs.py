r"""Stochastic gradient Fisher scoring (Ahn, Korattikara and Welling 2012).

.. math:: \theta \leftarrow \theta - 2 (\gamma N I + \Lambda + 4 B / h)^{-1} \tilde g,
          \qquad \tilde g = g + N(0, 4 B / h), \qquad \gamma = N / \tau,

for a batch of :math:`\tau` out of :math:`N` records, the Fisher information :math:`I` of one record
and the prior precision :math:`\Lambda`. The sign is that of a potential, a negative log posterior.
The information is public or was released: a matrix computed from the gradients of the chain would
not be covered by its privacy analysis.

For a normal posterior of precision :math:`H = N I + \Lambda` and noise of covariance *V* on the
gradient, :math:`\theta \leftarrow \theta - M (H \theta + \text{noise})` keeps the covariance
:math:`H^{-1}` if and only if :math:`2 M - M H M = M V M`, that is :math:`M = 2 (H + V)^{-1}`.
Batches drawn without replacement have :math:`V = (N / \tau - 1) N I + 4 B / h`, hence the formula,
exact at any step size. (Ahn et al. sample with replacement, whose :math:`\gamma` is
:math:`(\tau + N) / \tau`.) Noise that privacy asks for is counted in *B*.

Algorithm 4 of Wang et al. (2015) misses the factor 4 of the noise.
"""

from __future__ import annotations

import numpy as np


def sgfs_preconditioner(
    information: np.ndarray,
    prior_precision: np.ndarray,
    *,
    n_samples: int,
    batch_size: float,
    noise_variance: float,
) -> np.ndarray:
    r"""Return :math:`2 (\gamma N I + \Lambda + 4B/h)^{-1}`.

    Parameters
    ----------
    information : ndarray of shape (p, p)
        Fisher information of one record, symmetric and positive semidefinite.
    prior_precision : ndarray of shape (p, p)
        Precision of the prior.
    n_samples : int
        Number of records N.
    batch_size : float
        Expected batch size.
    noise_variance : float
        Variance of the injected noise per coordinate, :math:`4b/h` where *B* is *b* times the
        identity.

    Returns
    -------
    ndarray of shape (p, p)
    """
    gamma = n_samples / batch_size
    total = gamma * n_samples * information + prior_precision
    total = 0.5 * (total + total.T)
    total[np.diag_indices_from(total)] += noise_variance
    return 2.0 * np.linalg.inv(total)


def sgfs_step(position: np.ndarray, gradient: np.ndarray, preconditioner: np.ndarray) -> np.ndarray:
    """Return the next point of the chain.

    Parameters
    ----------
    position : ndarray of shape (K, p)
        Where the chain is, one row per output.
    gradient : ndarray of shape (K, p)
        Estimate of the gradient of the potential there, with the injected noise.
    preconditioner : ndarray of shape (p, p)
        From `sgfs_preconditioner`.

    Returns
    -------
    ndarray of shape (K, p)
    """
    return position - gradient @ preconditioner
