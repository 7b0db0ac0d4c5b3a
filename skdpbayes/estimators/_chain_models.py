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

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of the batch's gradients, each clipped, and gradient of the negative log prior."""


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

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradients with respect to the coefficients of z."""
        theta, shift = self.coordinates.coefficients(position)
        data, residuals = models.clipped_linear_gradient(
            theta, shift, self.X, self.codes, self.lengths, clip_norm, rows
        )
        # the prior's potential is (|w|^2 + (b / s)^2) / (2 C); both are mapped at once
        n_outputs = self.shape[0]
        stacked = np.concatenate([data, theta])
        stacked[n_outputs:] /= self.C
        pull = shift / (self.C * self.intercept_scaling**2)
        both = self._mapped(stacked, np.concatenate([residuals, pull]))
        return both[:n_outputs], both[n_outputs:]

    def prior_precision(self) -> np.ndarray:
        """Hessian of the prior's potential for one output."""
        theta, shift = self.coordinates.coefficients(np.eye(self.shape[1]))
        return self._mapped(theta / self.C, shift / (self.C * self.intercept_scaling**2))

    def _mapped(self, by_weights: np.ndarray, by_intercept: np.ndarray) -> np.ndarray:
        """Derivatives by the coefficients of z from those by weights and intercept."""
        coordinates = self.coordinates
        n_columns = by_weights.shape[1]
        out = np.empty((by_weights.shape[0], self.shape[1]))
        if coordinates.centered:
            by_weights = by_weights - by_intercept[:, None] * coordinates.center
        out[:, :n_columns] = coordinates.apply(by_weights)
        if coordinates.constant:
            out[:, n_columns] = coordinates.constant * by_intercept
        return out
