"""Loads matplotlib at first use, and says how to get it."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's palette: told apart by color-blind readers too; then matplotlib's for more.
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def pyplot() -> Any:
    """Return ``matplotlib.pyplot``."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: pip install 'skdpbayes[plot]' or pip install matplotlib"
        ) from error
    return plt


def state_colors(n_states: int) -> list[Any]:
    """Return a color for each state."""
    if n_states <= len(_PALETTE):
        return list(_PALETTE[:n_states])
    colormap = pyplot().get_cmap("turbo")
    return [colormap((k + 0.5) / n_states) for k in range(n_states)]
