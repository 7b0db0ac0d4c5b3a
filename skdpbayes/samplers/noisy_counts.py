r"""Exact Gibbs steps for counts that are seen through discrete Laplace or discrete Gaussian noise.

A private release shows ``y = n + Z`` with integer noise ``Z``; the true counts ``n`` are latent.
Given the parameters of the model, each step below draws from the *exact* full conditional of
``n``: no tuning, no rejection, one uniform number a draw. Both noises are log-concave, so every
conditional is a log-concave pmf on an interval of integers: the kernel finds its mode and inverts
the distribution function outward from there, which costs a number of steps proportional to the
conditional's standard deviation, whatever the size of the counts.

For discrete Laplace noise the conditionals are the two- and three-piece mixtures of tilted,
truncated Poisson and binomial laws: with :math:`a = 1/\text{scale}`,

.. math::
    p(n \mid \lambda, y) \propto \frac{\lambda^n}{n!} e^{-a|y-n|}

is a Poisson law of rate :math:`\lambda e^{a}` on :math:`n \le y` and :math:`\lambda e^{-a}` above.

Random numbers enter as arrays, so every function here is deterministic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LAPLACE, _GAUSSIAN = 0, 1
_NO_TOTAL = -1  # a Poisson cell: nothing bounds the count from above
# Ratios of noise probabilities are kept within exp(+-300), so that two of them multiply to a
# double; noise so small that this matters is zero but with probability exp(-300).
_MAX_LOG_RATIO = 300.0
# A pmf term this much smaller than the sum so far ends a tail: double precision adds no more.
_NEGLIGIBLE = 1e-18


def sample_poisson_counts(
    noisy: np.ndarray, rate: np.ndarray, noise: str, scale: float, uniforms: np.ndarray
) -> np.ndarray:
    r"""Draw true counts given noisy ones, where each count is Poisson with a known rate.

    The cells are independent: :math:`n \sim \mathrm{Poisson}(\lambda)`, :math:`y = n + Z`.

    Parameters
    ----------
    noisy : int array of any shape
        The released counts; they may be negative.
    rate : float array, broadcast to the shape of ``noisy``
        The Poisson rates, >= 0.
    noise : {"laplace", "gaussian"}
        The noise law: pmf proportional to ``exp(-|k| / scale)`` or ``exp(-k**2 / (2 scale**2))``.
    scale : float
        The scale of the noise.
    uniforms : float array of the shape of ``noisy``
        Independent uniforms on [0, 1).

    Returns
    -------
    int64 array of the shape of ``noisy``
    """
    noisy = np.asarray(noisy, dtype=np.int64)
    rate = np.ascontiguousarray(np.broadcast_to(np.asarray(rate, dtype=np.float64), noisy.shape))
    uniforms = np.ascontiguousarray(uniforms, dtype=np.float64)
    if uniforms.shape != noisy.shape:
        raise ValueError(f"uniforms must have shape {noisy.shape}; got {uniforms.shape}.")
    kind, tilt = _noise_code(noise, scale)
    counts = _poisson_cells(noisy.ravel(), rate.ravel(), kind, tilt, uniforms.ravel())
    return counts.reshape(noisy.shape)


def sweep_multinomial_counts(
    counts: np.ndarray,
    noisy: np.ndarray,
    probability: np.ndarray,
    pairs: np.ndarray,
    noise: str,
    scale: float,
    uniforms: np.ndarray,
) -> np.ndarray:
    r"""Redraw pairs of multinomial counts, keeping each table's total.

    A table is one row: :math:`n \sim \mathrm{Multinomial}(N, \theta)` with ``N`` public,
    :math:`y = n + Z`. For a pair (j, k) with :math:`m = n_j + n_k` held fixed,

    .. math::
        p(n_j \mid \cdot) \propto \binom{m}{n_j} (\theta_j/\theta_k)^{n_j} p_Z(y_j - n_j)
        p_Z(y_k - m + n_j) .

    Sweeps over pairs that connect all cells leave the exact conditional of the table invariant and
    are irreducible.

    Parameters
    ----------
    counts, noisy : int arrays of shape (n_tables, n_cells)
        The current latent counts and the released ones.
    probability : float array of shape (n_tables, n_cells)
        Cell probabilities, > 0, up to a factor per table.
    pairs : int array of shape (n_tables, n_pairs, 2)
        The pairs of cells to redraw, in order; public randomness.
    noise, scale
        See `sample_poisson_counts`.
    uniforms : float array of shape (n_tables, n_pairs)
        Independent uniforms on [0, 1).

    Returns
    -------
    int64 array of shape (n_tables, n_cells)
        The new counts.
    """
    updated = np.array(counts, dtype=np.int64, order="C")
    kind, tilt = _noise_code(noise, scale)
    _pair_swaps(
        updated,
        np.ascontiguousarray(noisy, dtype=np.int64),
        np.ascontiguousarray(probability, dtype=np.float64),
        np.ascontiguousarray(pairs, dtype=np.int64),
        kind,
        tilt,
        np.ascontiguousarray(uniforms, dtype=np.float64),
    )
    return updated


def _noise_code(noise: str, scale: float) -> tuple[int, float]:
    """Return the kernel's code of a noise law and the number that its pmf ratios need."""
    if noise == "laplace":
        return _LAPLACE, float(np.exp(min(1.0 / scale, _MAX_LOG_RATIO)))
    if noise == "gaussian":
        return _GAUSSIAN, 1.0 / scale**2
    raise ValueError(f"noise must be 'laplace' or 'gaussian'; got {noise!r}.")


@njit(cache=True)
def _noise_ratio(gap: int, kind: int, tilt: float) -> float:
    """p_Z(gap - 1) / p_Z(gap): the factor when n grows by one, so that gap = y - n shrinks."""
    if kind == _LAPLACE:
        return tilt if gap > 0 else 1.0 / tilt
    return np.exp(min(max((gap - 0.5) * tilt, -_MAX_LOG_RATIO), _MAX_LOG_RATIO))


@njit(cache=True)
def _ratio(n: int, m: int, odds: float, y: int, partner: int, kind: int, tilt: float) -> float:
    """p(n + 1) / p(n): decreasing in n for a Poisson cell and for a pair of total ``m``."""
    if m == _NO_TOTAL:
        return odds / (n + 1.0) * _noise_ratio(y - n, kind, tilt)
    shrink = _noise_ratio(partner - m + n + 1, kind, tilt)  # the partner's count falls by one
    return odds * (m - n) / (n + 1.0) * _noise_ratio(y - n, kind, tilt) / shrink


@njit(cache=True)
def _draw(m: int, odds: float, y: int, partner: int, kind: int, tilt: float, uniform: float) -> int:
    """Invert a log-concave pmf outward from its mode: right of it first, then left."""
    low = 0
    high = max(y, int(odds)) + 1 if m == _NO_TOTAL else m
    while low < high:
        middle = (low + high) // 2
        if _ratio(middle, m, odds, y, partner, kind, tilt) > 1.0:
            low = middle + 1
        else:
            high = middle
    mode = low
    total = 1.0  # in units of the mode's probability
    for inverting in range(2):  # first the normalizer, then the inversion, in the same order
        target = uniform * total - 1.0
        if inverting == 1 and target < 0.0:
            return mode
        weight = 1.0
        n = mode
        while n != m and weight > _NEGLIGIBLE * total:
            weight *= _ratio(n, m, odds, y, partner, kind, tilt)
            n += 1
            if inverting == 0:
                total += weight
            else:
                target -= weight
                if target < 0.0:
                    return n
        weight = 1.0
        n = mode
        while n > 0 and weight > _NEGLIGIBLE * total:
            n -= 1
            weight /= _ratio(n, m, odds, y, partner, kind, tilt)
            if inverting == 0:
                total += weight
            else:
                target -= weight
                if target < 0.0:
                    return n
    return mode  # rounding left a sliver of mass unassigned


@njit(cache=True)
def _poisson_cells(
    noisy: np.ndarray, rate: np.ndarray, kind: int, tilt: float, uniforms: np.ndarray
) -> np.ndarray:
    counts = np.empty(noisy.shape[0], dtype=np.int64)
    for i in range(noisy.shape[0]):
        counts[i] = _draw(_NO_TOTAL, rate[i], noisy[i], 0, kind, tilt, uniforms[i])
    return counts


@njit(cache=True)
def _pair_swaps(
    counts: np.ndarray,
    noisy: np.ndarray,
    probability: np.ndarray,
    pairs: np.ndarray,
    kind: int,
    tilt: float,
    uniforms: np.ndarray,
) -> None:
    for t in range(counts.shape[0]):
        for i in range(pairs.shape[1]):
            j = pairs[t, i, 0]
            k = pairs[t, i, 1]
            m = counts[t, j] + counts[t, k]
            odds = probability[t, j] / probability[t, k]
            drawn = _draw(m, odds, noisy[t, j], noisy[t, k], kind, tilt, uniforms[t, i])
            counts[t, j] = drawn
            counts[t, k] = m - drawn
