r"""Logistic and softmax losses with their gradients, as plain sums of floats.

A record is a row :math:`x_i` of ``X`` followed by a constant feature ``constant`` (0 for none) and
a label code :math:`y_i \in \{0, \ldots, K-1\}`. Coefficients ``theta`` have one row per output,
(1, d) for two classes and (K, d) otherwise, ``d`` counting the constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skdpbayes.models.exact_sums import derivatives, read_derivatives
from skdpbayes.models.losses import LogisticLoss, Loss, SoftmaxLoss

__all__ = ["logistic_gradient", "softmax_gradient"]


class _Block(NamedTuple):
    X: Any
    target: np.ndarray
    weight: None = None


def logistic_gradient(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0
) -> tuple[float, np.ndarray]:
    """Logistic loss of two classes and its gradient, of the shape of ``theta``."""
    return _gradient(theta, X, codes, constant, LogisticLoss())


def softmax_gradient(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float = 0.0
) -> tuple[float, np.ndarray]:
    """Multinomial logistic loss and its gradient, of the shape of ``theta``."""
    return _gradient(theta, X, codes, constant, SoftmaxLoss(theta.shape[0]))


def _gradient(
    theta: np.ndarray, X: Any, codes: np.ndarray, constant: float, loss: Loss
) -> tuple[float, np.ndarray]:
    how = (theta, loss, (0, 1), constant, None)
    return read_derivatives(derivatives(_Block(X, codes), *how), *how)[:2]
