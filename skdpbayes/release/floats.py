"""Float releases on a public grid, and symmetric matrices as vectors of the same norm."""

from __future__ import annotations

import numpy as np

from skdpbayes import randomness
from skdpbayes.privacy.budget import Noise


def floats(generator: np.random.Generator, exact: np.ndarray, noise: Noise) -> np.ndarray:
    """Release floats under exact discrete noise on a public grid; as they are without noise."""
    if noise.law == "none":
        return exact
    if noise.law not in ("laplace", "gaussian"):
        raise ValueError(f"floats are released under Laplace or Gaussian noise; got {noise}.")
    add = randomness.release_laplace if noise.law == "laplace" else randomness.release_gaussian
    return np.asarray(add(generator, exact, noise.scale))


def symmetric(generator: np.random.Generator, exact: np.ndarray, noise: Noise) -> np.ndarray:
    """Release a symmetric matrix; off the diagonal the noise is smaller by sqrt(2)."""
    return unpack_symmetric(floats(generator, pack_symmetric(exact), noise), exact.shape[0])


def pack_symmetric(matrix: np.ndarray) -> np.ndarray:
    """Return the upper triangle as a vector whose Euclidean norm is the Frobenius norm."""
    rows, columns = np.triu_indices(matrix.shape[0])
    return matrix[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0))


def unpack_symmetric(packed: np.ndarray, size: int) -> np.ndarray:
    """Invert :func:`pack_symmetric`."""
    rows, columns = np.triu_indices(size)
    matrix = np.empty((size, size))
    matrix[rows, columns] = packed / np.where(rows == columns, 1.0, np.sqrt(2.0))
    matrix[columns, rows] = matrix[rows, columns]
    return matrix
