r"""Langevin steps of logistic regression on small batches, many of them in one kernel.

Around a batch of a few hundred short rows the calls of a Python loop take as long as the
arithmetic, so the loop is compiled with the rest of a step. Batches and noise come in as arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skdpbayes.models.minibatch import CLIP_MARGIN, NO_ROWS, _langevin_steps

__all__ = ["BatchSteps", "langevin_batch_steps"]

# What stands for the form of X that is not there
NOT_DENSE = np.empty((0, 0))
NOT_COMPRESSED = (np.empty(0), np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))


class BatchSteps(NamedTuple):
    """What the steps of a chain are told besides the model; an entry a step."""

    rows: np.ndarray | None
    """Rows of all batches, one after the other; None if every batch holds all records."""
    starts: np.ndarray
    """Batch t is ``rows[starts[t]:starts[t + 1]]``."""
    noise: np.ndarray
    """Integers of shape (n_steps, ...) that are added to the rounded sums."""
    grids: np.ndarray
    """Sums are rounded to multiples of these."""
    step_sizes: np.ndarray
    sampling_rate: float
    """Inclusion probability, by which a noisy sum is divided."""


def langevin_batch_steps(
    position: np.ndarray,
    steps: BatchSteps,
    lift: np.ndarray,
    prior: tuple[np.ndarray, np.ndarray],
    X: Any,
    codes: np.ndarray,
    lengths: np.ndarray,
    clip_norm: float,
    data_norm: float,
    largest: float,
) -> np.ndarray:
    r"""Return the states of a chain after each of several steps.

    A step is :math:`\psi - h\,(u\,(\mathrm{rint}(G / u) + k) / q + g)` with the sum *G* of
    `~skdpbayes.models.minibatch.clipped_linear_gradient` in the coordinates of the chain, the grid
    *u*, the noise *k*, the sampling rate *q* and the slope *g* of the negative log prior.

    Parameters
    ----------
    position : ndarray of shape (p,)
        State before the first step; p is d or, with an intercept, d + 1.
    steps : BatchSteps
        Batches, noise and step sizes.
    lift : ndarray of shape (d + 1,)
        Coefficients of x and intercept per unit of the state.
    prior : pair of ndarray of shape (d + 1,)
        Precision p and scale s of the coefficients' priors, whose slopes are
        :math:`\theta p / (1 + (\theta / s)^2)`.
    X, codes, lengths, clip_norm, data_norm
        As in `~skdpbayes.models.minibatch.clipped_linear_gradient`, for two classes.
    largest : float
        Coefficients of x beyond it are cut in the gradient, so that no logit overflows.

    Returns
    -------
    ndarray of shape (n_steps, p)
    """
    compressed = not isinstance(X, np.ndarray)
    compact = (X.data, X.indices, X.indptr) if compressed else NOT_COMPRESSED
    whole = steps.rows is None
    states = np.empty((steps.noise.shape[0], position.shape[0]))
    kernel: Any = _langevin_steps
    kernel(
        position,
        lift,
        *prior,
        float(largest),
        compressed,
        NOT_DENSE if compressed else X,
        *compact,
        codes,
        lengths,
        float(clip_norm) * (1.0 - CLIP_MARGIN),
        float(data_norm),
        NO_ROWS if steps.rows is None else steps.rows,
        steps.starts,
        whole,
        steps.noise.reshape(states.shape),
        steps.grids,
        steps.step_sizes,
        float(steps.sampling_rate),
        states,
    )
    return states
