"""Potentials that a chain can sample: clipped sums of gradients and the gradient of the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from skdpbayes import models
from skdpbayes.estimators._coordinates import Coordinates

__all__ = ["LinearPotential", "Potential"]


class Potential(Protocol):
    """What a chain needs to know of a model."""

    shape: tuple[int, ...]
    precision: float

    def clipped_sum(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> np.ndarray:
        """Sum of the gradients of the batch's losses, each clipped."""

    def prior_gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the negative log prior."""


@dataclass
class LinearPotential:
    """Logistic or softmax regression in the given coordinates.

    The prior is that of scikit-learn's penalty: coefficients of x, and the intercept divided by
    ``intercept_scaling``, are normal with variance C.
    """

    X: Any
    codes: np.ndarray
    coordinates: Coordinates
    n_outputs: int
    C: float
    intercept_scaling: float
    data_norm: float

    def __post_init__(self) -> None:
        # sums round in the original coordinates; the map to the chain's stretches that
        stretch = self.coordinates.stretch() * self.data_norm
        self.precision = float(np.finfo(np.float64).eps) * (1.0 + 4.0 * stretch)
        self.shape: tuple[int, ...] = (
            self.n_outputs,
            self.X.shape[1] + bool(self.coordinates.constant),
        )
        self.lengths = self.coordinates.lengths(self.X)

    def clipped_sum(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> np.ndarray:
        """Sum of clipped gradients with respect to the coefficients of z."""
        theta, shift = self.coordinates.coefficients(position)
        gradient, residuals = models.clipped_linear_gradient(
            theta, shift, self.X, self.codes, self.lengths, clip_norm, rows
        )
        gradient -= np.outer(residuals, self.coordinates.center)
        gradient = self.coordinates.apply(gradient)
        if not self.coordinates.constant:
            return gradient
        return np.column_stack([gradient, self.coordinates.constant * residuals])

    def prior_gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of (|w|^2 + (b / s)^2) / (2 C) with respect to the coefficients of z."""
        theta, intercept = self.coordinates.coefficients(position)
        if not self.coordinates.constant:
            return self.coordinates.apply(theta / self.C)
        pull = intercept / (self.C * self.intercept_scaling**2)
        gradient = theta / self.C - np.outer(pull, self.coordinates.center)
        return np.column_stack([self.coordinates.apply(gradient), self.coordinates.constant * pull])
