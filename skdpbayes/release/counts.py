"""Integer releases under exact discrete noise."""

from __future__ import annotations

import numpy as np

from skdpbayes import randomness
from skdpbayes.privacy.budget import Noise


def counts(generator: np.random.Generator, exact: np.ndarray, noise: Noise) -> np.ndarray:
    """Release int64 counts under exact discrete noise; as they are without noise."""
    if noise.law == "none":
        return exact
    if noise.law not in ("laplace", "gaussian"):
        raise ValueError(f"counts are released under Laplace or Gaussian noise; got {noise}.")
    return np.asarray(randomness.release_counts(generator, exact, noise.scale, noise=noise.law))
