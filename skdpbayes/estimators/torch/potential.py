"""A torch module as a potential of a chain."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from skdpbayes import models
from skdpbayes.estimators.chain.potential import ROUNDOFF
from skdpbayes.estimators.torch.function import ModuleFunction
from skdpbayes.fitting.units import MOST_RECORDS, Members

# Not many, since all are looked at as often as one of them has records.
PERSONS_AT_ONCE = 64


@dataclass
class ModulePotential:
    """A module whose parameters have independent N(0, prior_scale^2) priors."""

    X: np.ndarray
    """Rows, single precision."""
    codes: np.ndarray
    function: ModuleFunction
    prior_scale: float
    clip_norm: float
    n_threads: int = 1
    weight: np.ndarray | None = None
    """Weights of the rows, those of a person at most 1 together; None where each row is a unit."""
    members: Members | None = None
    """Rows of the persons that batches are made of; None where each row is a unit."""

    def __post_init__(self) -> None:
        self.shape: tuple[int, ...] = (self.function.size,)
        # no entry of a clipped gradient is larger than its norm
        n_units = self.X.shape[0] if self.members is None else self.members.n_units
        self.unit = models.sum_unit(n_units, self.clip_norm)
        # torch exchanges the weights of a module while it runs, so every thread needs its own
        others = [copy.deepcopy(self.function.module) for _ in range(self.n_threads - 1)]
        self.functions = [self.function, *(replace(self.function, module=m) for m in others)]
        self.threads = ThreadPoolExecutor(max(1, len(others)))

    def gradients(
        self, position: np.ndarray, rows: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sum of clipped gradients, and gradient of |theta|^2 / (2 prior_scale^2)."""
        blocks = list(self._blocks(rows))

        def add_up(number: int) -> np.ndarray:
            total = np.zeros(self.shape)
            for block, shares in blocks[number :: self.n_threads]:
                pieces = self.functions[number].gradients(
                    position, self.X[block], self.codes[block]
                )
                models.add_clipped_records(pieces, self.clip_norm, self.unit, total, shares)
            return total

        running = [
            self.threads.submit(add_up, number)
            for number in range(1, min(self.n_threads, len(blocks)))
        ]
        total = add_up(0)
        for part in running:
            total += part.result()
        return total, position / self.prior_scale**2

    def _blocks(self, batch: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Yield row numbers and weights of what torch is given at a time."""
        size = self.function.block_rows
        if self.members is not None:
            assert self.weight is not None
            yield from self.members.blocks(batch, min(size, PERSONS_AT_ONCE), self.weight)
            return
        batch = np.arange(self.X.shape[0]) if batch is None else batch
        for start in range(0, batch.shape[0], size):
            rows = batch[start : start + size]
            yield rows, None if self.weight is None else self.weight[rows]

    def rounding(self, n_rows: int) -> float:
        """Bound on what rounding adds to the distance of two sums of at most ``n_rows`` records.

        A record's gradient, as torch computes it, is a function of the record, its place in the
        batch (its person's place, and how many of hers come before it) and the position. Sums are
        exact; every entry of a record's contribution is rounded by at most half a unit, and the sum
        once more when the chain divides it by its grid. A person has that many records at most,
        weighted to one.
        """
        unit = self.unit * (1 if self.members is None else MOST_RECORDS)
        return unit * math.sqrt(self.shape[0]) + 4.0 * ROUNDOFF * n_rows * self.clip_norm
