"""How far one neighboring step moves a sum of bounded contributions, for each adjacency.

Under ``zero_out`` one contribution goes or comes; under ``replace_one`` one goes and another comes,
so that norms add up. Everything here is a statement about *exact* sums; what rounding adds is added
where numbers are rounded.
"""

from __future__ import annotations

import math

from skdpbayes.privacy._numeric import check_count
from skdpbayes.privacy.guarantee import check_adjacency


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


def row_moment_moves(of_x: float, adjacency: str) -> float:
    r"""Return the L2 sensitivity of :math:`(a \sum x, \sum x x^\top)` for rows :math:`|x| \le 1`.

    One row has the squared length :math:`a^2 |x|^2 + |x|^4 \le 1 + a^2`. Two rows of length 1 with
    the inner product t have the squared distance :math:`2 + 2a^2 - 2(a^2 t + t^2)`, largest at
    :math:`t = -a^2/2`; shorter rows are closer.

    Parameters
    ----------
    of_x : float
        The weight a of the sum of the rows, at most :math:`\sqrt2`.
    adjacency : {"replace_one", "zero_out"}
        What neighbors are.

    Examples
    --------
    >>> from skdpbayes.privacy.sensitivity import row_moment_moves
    >>> row_moment_moves(0.5, "zero_out"), round(row_moment_moves(0.5, "replace_one"), 6)
    (1.118033988749895, 1.59099)
    """
    square = of_x**2
    if moved(adjacency) == 1:
        return math.sqrt(1.0 + square)
    return math.sqrt(2.0 + 2.0 * square + square**2 / 2.0)


def moment_moves(
    n_features: int,
    adjacency: str,
    *,
    of_x: float,
    of_y: float,
    of_xy: float,
    of_yy: float,
) -> tuple[float, float]:
    r"""Return the L1 and L2 sensitivity of weighted moments of rows and a target.

    For :math:`|x| \le 1` and :math:`|y| \le 1` the released vector is
    :math:`(a \sum x, \sum x x^\top, b \sum y, g \sum x y, k \sum y^2)`, of the matrix the upper
    triangle with off-diagonal entries times :math:`\sqrt2`, so that lengths are Frobenius norms.
    A null record adds nothing; a row of zeros with y = 0 is one.

    *L2, zero_out.* The squared length :math:`a^2 X + X^2 + b^2 Y + g^2 XY + k^2 Y^2` grows in
    :math:`X = |x|^2` and :math:`Y = y^2`: at most :math:`1 + a^2 + b^2 + g^2 + k^2`, attained.

    *L2, replace_one.* With :math:`t = x^\top x'` and :math:`u = y y'` the squared distance is the
    sum of both squared lengths less :math:`2(a^2 t + t^2 + b^2 u + g^2 t u + k^2 u^2)`. For fixed t
    and u it grows with the lengths of x and x', so both are 1, and it is convex in
    :math:`\log y^2` with :math:`y y'` fixed, so :math:`|y| = 1` and :math:`|y'| = |u|`. The best
    t is :math:`-(a^2 + g^2 u)/2`, or less than that is gained. What is left,

    .. math::
        2 + 2a^2 + (a^2 + g^2 u)^2/2 + b^2 (1-u)^2 + g^2 (1 + u^2) + k^2 (1 - u^2)^2,

    is convex in u if :math:`2k^2 \le g^2 + b^2 + g^4/2`, which is demanded: largest at
    :math:`u = \pm 1`. The bound is attained for two or more columns if :math:`a^2 + g^2 \le 2`.

    *L1, zero_out.* Since :math:`|x|_1 \le \sqrt d`, and :math:`\sum_{j<k} |x_j x_k| = (|x|_1^2 -
    |x|^2)/2`, at most :math:`(a + g)\sqrt d + 1 + (d-1)/\sqrt2 + b + k`, attained where all entries
    are :math:`1/\sqrt d`.

    *L1, replace_one.* The smaller of two bounds: the L2 sensitivity times the square root of the
    number D of entries (Cauchy-Schwarz), and the sum over the blocks: :math:`2(a + g)\sqrt d`, by
    Cauchy-Schwarz :math:`\sqrt{d(d+1)}` for the matrix (1 for one column), and for the target the
    largest :math:`p(b + k(2-p))` over :math:`p = |y - y'| \le 2`, as :math:`|y + y'| \le 2 - p`.

    Parameters
    ----------
    n_features : int
        d, at least 1.
    adjacency : {"replace_one", "zero_out"}
        What neighbors are.
    of_x, of_y, of_xy, of_yy : float
        The weights a, b, g and k, not negative; g and k positive, and a and b both or none.

    Examples
    --------
    >>> from skdpbayes.privacy.sensitivity import moment_moves
    >>> weights = {"of_x": 0.5, "of_y": 0.125**0.5, "of_xy": 1.0, "of_yy": 0.5}
    >>> [round(move, 6) for move in moment_moves(5, "replace_one", **weights)]
    [11.941262, 2.298097]
    """
    d = check_count("n_features", n_features)
    a, b, g, k = of_x, of_y, of_xy, of_yy
    if min(a, b) < 0.0 or min(g, k) <= 0.0 or (a > 0.0) != (b > 0.0):
        raise ValueError(f"weights must be positive, of x and y both or none; got {(a, b, g, k)}.")
    if 2.0 * k**2 > g**2 + b**2 + g**4 / 2.0:
        raise ValueError(f"of_yy={k!r} is too large for of_xy={g!r} and of_y={b!r}.")
    root = math.sqrt(d)
    if moved(adjacency) == 1:
        euclidean = math.sqrt(1.0 + a**2 + b**2 + g**2 + k**2)
        return (a + g) * root + 1.0 + (d - 1) / math.sqrt(2.0) + b + k, euclidean
    corner = max(4.0 * b**2 + (g**2 - a**2) ** 2 / 2.0, (a**2 + g**2) ** 2 / 2.0)
    euclidean = math.sqrt(2.0 + 2.0 * a**2 + 2.0 * g**2 + corner)
    n_entries = d * (d + 1) // 2 + d + 1 + ((d + 1) if a > 0.0 else 0)
    matrix = 1.0 if d == 1 else math.sqrt(d * (d + 1))
    target = (b + 2.0 * k) ** 2 / (4.0 * k) if b <= 2.0 * k else 2.0 * b
    blocks = 2.0 * (a + g) * root + matrix + target
    return min(math.sqrt(n_entries) * euclidean, blocks), euclidean
