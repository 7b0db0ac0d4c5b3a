r"""Draws of a linear regression's parameters given noisy second moments of its records.

Known are :math:`n`, the mean *m* of the rows, and, with noise, the sums of squares and products
around the means: :math:`\Sigma = \sum (x-m)(x-m)^\top`, :math:`c = \sum (x-m)(y-\bar y)` and
:math:`\sum (y-\bar y)^2`. For true parameters :math:`(\alpha, \beta, s^2)` the residuals

.. math::
    u = n(\bar y - \alpha - m^\top\beta), \qquad
    v = c - \Sigma\beta, \qquad
    w = \sum (y - \alpha - x^\top\beta)^2 - n s^2,

computed from the noisy sums, have mean 0 and a covariance that is known given the parameters:
:math:`n s^2`, :math:`s^2\Sigma` and :math:`2 n s^4` from the errors of the model, plus what the
noise adds. No expansion is involved: the noisy sums enter *u*, *v*, *w* linearly. So the posterior
is :math:`N(u, v, w; 0, S(\alpha, \beta, s^2))` times the prior, and Metropolis steps in one
parameter after the other draw from it.

In the eigenvectors of :math:`\Sigma` the covariance is diagonal plus a matrix of rank 2 in the
directions of :math:`\beta` and *m*, with borders for *u* and *w* in the same two directions. A
density thus takes a number of operations proportional to the number of columns.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

ACCEPTANCE = 0.44  # the best rate for steps in one coordinate (Gelman, Roberts and Gilks 1996)


@njit(cache=True)
def noisy_regression_log_density(
    state: np.ndarray,
    eigenvalues: np.ndarray,
    spread: np.ndarray,
    cross: np.ndarray,
    mean: np.ndarray,
    numbers: np.ndarray,
    intercept: bool,
) -> float:
    """Log-density of the parameters, up to a constant.

    Parameters
    ----------
    state : ndarray of shape (d + 2,)
        The value of the regression at the mean of the rows, the coefficients in the eigenvectors,
        and the logarithm of the error variance. The first is ignored without an intercept.
    eigenvalues : ndarray of shape (d,)
        Of the noisy sums of squares and products of the rows.
    spread : ndarray of shape (d,)
        The same, positive: for the variance of *v* from the errors of the model.
    cross, mean : ndarrays of shape (d,)
        Noisy sums of products with the target, and the mean of the rows, in the eigenvectors.
    numbers : ndarray of shape (13,)
        n; the target's mean and sum of squares around it; the variance of the noise; the variances
        of unit noise on the sums of rows, target, products with the target and squared target; the
        share of the noise that is left in the sums of squares and products; the prior variance of
        the coefficients; mean and standard deviation of the prior of the logarithm of the error
        variance; prior standard deviation of the value at the mean of the rows.
    intercept : bool
        Whether there is one.
    """
    n, target_mean, target_square, noise = numbers[0], numbers[1], numbers[2], numbers[3]
    of_x, of_y, of_xy, of_yy, left = numbers[4], numbers[5], numbers[6], numbers[7], numbers[8]
    d = eigenvalues.shape[0]
    variance = math.exp(state[d + 1])
    length, along, explained = 0.0, 0.0, 0.0
    for j in range(d):
        beta = state[j + 1]
        length += beta * beta
        along += mean[j] * beta
        explained += beta * (eigenvalues[j] * beta - 2.0 * cross[j])
    alpha = state[0] - along if intercept else 0.0
    log_prior = -0.5 * length / numbers[9]
    log_prior -= 0.5 * ((state[d + 1] - numbers[10]) / numbers[11]) ** 2
    log_prior -= 0.5 * (state[0] / numbers[12]) ** 2
    u = n * (target_mean - state[0]) if intercept else 0.0
    w = target_square + explained - n * variance + (u * u / n if intercept else 0.0)

    # S = [[p, b', q], [b, D + U K U', c], [q, c', r]], U = (beta, m), b = U b_u, c = U c_u
    p = n * variance + noise * (of_y + length * of_x)
    q = -2.0 * noise * alpha * (of_y + length * of_x)
    r = 2.0 * n * variance**2 + noise * (
        of_yy
        + 4.0 * alpha**2 * of_y
        + 4.0 * length * of_xy
        + 4.0 * alpha**2 * length * of_x
        + left * length**2
    )
    k00 = noise * 0.5 * left
    k01 = -noise * alpha * of_x
    k11 = noise * (of_y + length * of_x)
    b0, b1 = noise * alpha * of_x, -k11
    c0 = -noise * (2.0 * of_xy + 2.0 * alpha**2 * of_x + left * length)
    c1 = -q
    flat = noise * (of_xy + alpha**2 * of_x + 0.5 * left * length)
    g00, g01, g11, h0, h1, square, log_det = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    product = 1.0
    for j in range(d):
        beta, diagonal = state[j + 1], variance * spread[j] + flat
        v = cross[j] - eigenvalues[j] * beta
        over = 1.0 / diagonal
        g00 += beta * beta * over
        g01 += beta * mean[j] * over
        g11 += mean[j] * mean[j] * over
        h0 += beta * v * over
        h1 += mean[j] * v * over
        square += v * v * over
        product *= diagonal
        if not 1e-200 < product < 1e200:  # one logarithm for many factors
            log_det += math.log(product)
            product = 1.0
    log_det += math.log(product)

    # Woodbury: (D + U K U')^-1 = D^-1 - D^-1 U H U' D^-1 with H = (1 + K G)^-1 K
    a00, a01 = 1.0 + k00 * g00 + k01 * g01, k00 * g01 + k01 * g11
    a10, a11 = k01 * g00 + k11 * g01, 1.0 + k01 * g01 + k11 * g11
    det = a00 * a11 - a01 * a10
    if not det > 0.0:
        return -math.inf
    h00 = (a11 * k00 - a01 * k01) / det
    h01 = (a11 * k01 - a01 * k11) / det
    h11 = (a00 * k11 - a10 * k01) / det
    log_det += math.log(det)
    square -= h0 * (h00 * h0 + h01 * h1) + h1 * (h01 * h0 + h11 * h1)
    # M = G - G H G and t = (1 - G H) h: forms of the borders b = U b_u with each other and with v
    s00, s01 = h00 * g00 + h01 * g01, h00 * g01 + h01 * g11
    s10, s11 = h01 * g00 + h11 * g01, h01 * g01 + h11 * g11
    m00 = g00 - g00 * s00 - g01 * s10
    m01 = g01 - g00 * s01 - g01 * s11
    m11 = g11 - g01 * s01 - g11 * s11
    t0 = h0 - s00 * h0 - s10 * h1
    t1 = h1 - s01 * h0 - s11 * h1
    w -= c0 * t0 + c1 * t1
    r -= c0 * (m00 * c0 + m01 * c1) + c1 * (m01 * c0 + m11 * c1)
    if intercept:
        u -= b0 * t0 + b1 * t1
        p -= b0 * (m00 * b0 + m01 * b1) + b1 * (m01 * b0 + m11 * b1)
        q -= b0 * (m00 * c0 + m01 * c1) + b1 * (m01 * c0 + m11 * c1)
        if not p > 0.0:
            return -math.inf
        square += u * u / p
        log_det += math.log(p)
        w -= q * u / p
        r -= q * q / p
    if not r > 0.0:
        return -math.inf
    return log_prior - 0.5 * (square + w * w / r + log_det + math.log(r))


@njit(cache=True)
def sample_noisy_regression(
    state: np.ndarray,
    log_steps: np.ndarray,
    moments: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    numbers: np.ndarray,
    intercept: bool,
    normals: np.ndarray,
    uniforms: np.ndarray,
    adapted: int,
) -> np.ndarray:
    """Run Metropolis sweeps, one coordinate after the other.

    Parameters
    ----------
    state, log_steps : ndarrays of shape (d + 2,)
        Where the chain is, and the logarithms of the widths of its proposals; both are changed.
    moments, numbers, intercept
        As `noisy_regression_log_density`: eigenvalues, spread, cross, mean.
    normals, uniforms : ndarrays of shape (n_sweeps, d + 2)
        Independent standard normal and uniform numbers.
    adapted : int
        Sweeps during which widths are adapted before these began; negative: they stay.

    Returns
    -------
    ndarray of shape (n_sweeps, d + 2)
        The states after every sweep.
    """
    eigenvalues, spread, cross, mean = moments
    size = state.shape[0]
    states = np.empty((normals.shape[0], size))
    current = noisy_regression_log_density(
        state, eigenvalues, spread, cross, mean, numbers, intercept
    )
    for i in range(normals.shape[0]):
        for j in range(0 if intercept else 1, size):
            before = state[j]
            state[j] = before + math.exp(log_steps[j]) * normals[i, j]
            proposed = noisy_regression_log_density(
                state, eigenvalues, spread, cross, mean, numbers, intercept
            )
            accepted = uniforms[i, j] < math.exp(min(0.0, proposed - current))
            if accepted:
                current = proposed
            else:
                state[j] = before
            if adapted >= 0:
                gain = (1.0 if accepted else 0.0) - ACCEPTANCE
                log_steps[j] += gain / math.sqrt(1.0 + adapted + i)
        states[i] = state
    return states
