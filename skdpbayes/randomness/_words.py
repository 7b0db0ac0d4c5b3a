"""Random words, the form in which random bits enter the Numba kernels.

A kernel is a deterministic function of its words, so it can be tested by hand, and it cannot fall
back to a generator of its own. Kernels use a fixed number of words per trial; one that runs out of
words between trials simply goes on with the next ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def draw_words(generator: np.random.Generator, n: int) -> Words:
    """Draw `n` uniform 64-bit words."""
    if not isinstance(generator, np.random.Generator):
        raise TypeError(
            "generator must be a numpy.random.Generator, such as make_generator() returns, "
            f"got {type(generator).__name__}."
        )
    return generator.integers(0, 2**64 - 1, size=n, dtype=np.uint64, endpoint=True)
