"""Rows that many passes read: cut once, in blocks; derivatives of losses summed over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skdpbayes import models
from skdpbayes.fitting.records import Block, Records


def cut_blocks(rows: Records, grid: models.Grid | None) -> tuple[Block, ...]:
    """Return the bounded rows, cut to what sums read of them: hundreds of passes read less."""
    return tuple(block._replace(X=models.cut_rows(block.X, grid)) for block in rows.blocks())


def summed_derivatives(
    blocks: tuple[Block, ...], how: tuple[Any, ...], rows: np.ndarray | None = None
) -> np.ndarray:
    """Sum ``models.derivatives(block, *how)`` over blocks, or over some row numbers of all of them.

    The sums are exact on a grid.
    """
    total, start = None, 0
    for block in blocks:
        stop, chosen = start + block.X.shape[0], rows
        if rows is not None:
            chosen = rows[(rows >= start) & (rows < stop)] - start
        part = models.derivatives(block, *how, rows=chosen)
        total = part if total is None else total + part
        start = stop
    assert total is not None
    return total
