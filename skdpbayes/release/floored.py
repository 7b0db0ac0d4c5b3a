"""One draw from a tempered Dirichlet posterior whose probabilities stay above a floor."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skdpbayes import randomness, samplers

CONVERGED = "the samplers of tables with more than {} values have converged"
ROUNDING = 1e-9
"""Share of the temper that is given up: it covers the rounding of weights, below 1e-10."""

# Sweeps of the pairwise sampler for tables too large for a grid; fixed, so it reveals nothing.
_SWEEPS = 50
_ATTEMPTS_ALONE, _ATTEMPTS_IN_CHAIN = 16, 4  # of the rejection sampler, each kept 9 times of 10
_GRID = 2.0**-30  # released probabilities are multiples of it: far below any posterior's deviation


def floored_conditions(sizes: Iterable[int]) -> tuple[str, ...]:
    """Name what the claim rests on: nothing, unless a table is too large for exact draws."""
    if max(sizes) <= samplers.MAX_GRID_VALUES:
        return ()
    return (CONVERGED.format(samplers.MAX_GRID_VALUES),)


def draw_floored_dirichlet(
    parameter: np.ndarray, floor: float, n_records: float, generator: np.random.Generator
) -> np.ndarray:
    """Draw one probability vector for each row of Dirichlet parameters.

    ``n_records`` is a public bound on the sum of a row's parameters.
    """
    n_rows, size = parameter.shape
    if 2 < size <= samplers.MAX_GRID_VALUES:
        drawn = samplers.sample_dirichlet_on_grid(
            parameter, floor, n_records, generator.random((n_rows, size))
        )
    else:
        sweeps, attempts = (1, _ATTEMPTS_ALONE) if size <= 2 else (_SWEEPS, _ATTEMPTS_IN_CHAIN)
        uniforms = generator.random((n_rows, sweeps, size, 1 + 2 * attempts))
        drawn = samplers.sample_truncated_dirichlet(parameter, floor, uniforms)
    # The low bits of a float would betray the counts. Rounded sums keep the total at one.
    sums = randomness.snap(np.minimum(np.cumsum(drawn[:, :-1], axis=1), 1.0), _GRID)
    return np.diff(sums, axis=1, prepend=0.0, append=1.0)
