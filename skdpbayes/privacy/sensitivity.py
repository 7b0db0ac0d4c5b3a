"""How far one neighboring step moves a sum of bounded contributions, for each adjacency.

Under ``zero_out`` one contribution goes or comes; under ``replace_one`` one goes and another comes,
so that norms add up. Everything here is a statement about *exact* sums; what rounding adds is added
where numbers are rounded.
"""

from __future__ import annotations

import math

from skdpbayes.privacy._numeric import check_count
from skdpbayes.privacy.guarantee import check_adjacency

__all__ = ["count_moves", "moved"]


def moved(adjacency: str) -> int:
    """Return how many contributions a neighboring step moves: 1 (zero_out) or 2 (replace_one).

    A sum of contributions of norm at most c moves by at most ``c * moved(adjacency)`` in that
    norm, and opposite contributions attain it.

    Parameters
    ----------
    adjacency : {"replace_one", "zero_out"}
        What neighbors are.

    Examples
    --------
    >>> from skdpbayes.privacy.sensitivity import moved
    >>> moved("zero_out"), moved("replace_one")
    (1, 2)
    """
    return 2 if check_adjacency(adjacency) == "replace_one" else 1


def count_moves(n_tables: int, adjacency: str) -> tuple[float, float]:
    """Return the L1 and L2 sensitivity of `n_tables` tables of counts, each a one-hot sum.

    A step moves ``moved(adjacency)`` cells of each table by 1. They are different cells or the
    table does not change, so the L2 norm grows with the square root. The same holds for sums of
    nonnegative contributions of total 1 per table, and for matrices of rank one with trace at most
    1 in the Frobenius norm: two of them have a nonnegative inner product.

    Parameters
    ----------
    n_tables : int
        Number of tables, at least 1.
    adjacency : {"replace_one", "zero_out"}
        What neighbors are.

    Examples
    --------
    >>> from skdpbayes.privacy.sensitivity import count_moves
    >>> count_moves(8, "replace_one")
    (16.0, 4.0)
    """
    cells = check_count("n_tables", n_tables) * moved(adjacency)
    return float(cells), math.sqrt(cells)
