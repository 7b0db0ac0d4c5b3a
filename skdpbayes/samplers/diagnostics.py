"""Convergence diagnostics of parallel chains: split R-hat and effective sample size.

They depend on the data through the chains, so an estimator shows them only on request.
"""

from __future__ import annotations

import numpy as np


def split_r_hat(chains: np.ndarray) -> np.ndarray:
    """Potential scale reduction of every coordinate (Gelman et al., BDA3, section 11.4).

    Parameters
    ----------
    chains : ndarray of shape (S, N, p)
        N states of S chains; each chain is split in two halves.

    Returns
    -------
    ndarray of shape (p,)
    """
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    return np.asarray(np.sqrt((half - 1.0) / half + between / within))


def effective_sample_size(chains: np.ndarray) -> np.ndarray:
    """Effective sample size of every coordinate's mean (BDA3, section 11.5; Geyer 1992).

    Autocorrelations come from all chains, relative to their joint variance, and are summed in
    pairs for as long as the sums of pairs stay positive, made non-increasing.

    Parameters
    ----------
    chains : ndarray of shape (S, N, p)
        N states of S chains.

    Returns
    -------
    ndarray of shape (p,)
    """
    n_chains, n_draws, _ = chains.shape
    centered = chains - chains.mean(axis=1, keepdims=True)
    size = 2 ** int(np.ceil(np.log2(2 * n_draws)))
    spectrum = np.fft.rfft(centered, n=size, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, n=size, axis=1)[:, :n_draws].mean(axis=0)
    covariance /= n_draws
    within = covariance[0] * n_draws / (n_draws - 1.0)
    joint = covariance[0].copy()
    if n_chains > 1:
        joint += chains.mean(axis=1).var(axis=0, ddof=1)
    correlation = 1.0 - (within - covariance) / joint
    correlation[0] = 1.0
    even = n_draws - n_draws % 2
    pairs = correlation[0:even:2] + correlation[1:even:2]
    positive = np.cumprod(pairs > 0.0, axis=0)
    pairs = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(n_chains * n_draws + 10.0))
    return np.asarray(n_chains * n_draws / time)
