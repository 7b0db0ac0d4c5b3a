r"""One release of second moments: its grid, its weights and its noise, from public numbers.

Rows are divided by ``data_norm`` and targets mapped to [-1, 1]; both are cut (toward zero) to
multiples of :math:`2^{-b}`. So :math:`z = (1, x, y)` are whole numbers times that, sums of
:math:`z z^\top` are exact whatever the blocks, and cutting lengthens nothing: a bounded row in
whole numbers has :math:`|x|^2 \le 4^b`. (A row whose computed norm is within ``data_norm`` may be
longer by a share of :math:`(d+8)2^{-52}`, and the division adds :math:`2^{-53}`; with at most
`LARGEST_WIDTH` columns and 20 bits its squared length is below :math:`4^b + 1`, and it is whole.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skdpbayes import randomness
from skdpbayes.fitting.records import Block, Public
from skdpbayes.privacy.budget import NO_NOISE, Budget, Noise
from skdpbayes.privacy.calibration import gaussian_noise_multiplier
from skdpbayes.privacy.events import GaussianDP, NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.sensitivity import moment_moves

__all__ = ["RidgePlan", "grid_moments", "pack", "plan_release", "unpack", "weights"]

# Weights of the blocks of moments. That of products with the target is the best for slopes of
# length 1 when records are replaced; that of the target's sum is then free (see `moment_moves`).
OF_X, OF_XY, OF_YY = 0.5, 1.0, 0.5
OF_Y = OF_X * OF_XY / math.sqrt(2.0)
MOST_BITS = 20
LARGEST_WIDTH = 1000


@dataclass(frozen=True)
class RidgePlan:
    """What one fit releases, chosen from public numbers."""

    n: int
    n_features: int
    fit_intercept: bool
    data_norm: float
    bits: int
    noise: Noise
    event: PrivacyEvent
    conditions: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The mechanism in words."""
        if self.noise.law == "none":
            return "second moments without noise"
        return f"exact discrete {self.noise.law.capitalize()} noise on second moments"

    def numbers(self) -> dict[str, Any]:
        """Public fitted attributes."""
        return {"noise_": self.noise}


def plan_release(
    public: Public, budget: Budget, *, fit_intercept: bool, data_norm: float
) -> RidgePlan:
    """Calibrate the noise of one joint release of all moments."""
    n, d = public.n, public.n_features
    bits = min(MOST_BITS, (62 - math.ceil(math.log2(n))) // 2)
    shape = (n, d, fit_intercept, data_norm, bits)
    if not budget.private:
        return RidgePlan(*shape, NO_NOISE, NoPrivacy())
    if d > LARGEST_WIDTH:
        raise ValueError(
            f"X has {d} columns: the noise on their {d * (d + 1) // 2} second moments would hide "
            f"everything. Choose at most {LARGEST_WIDTH} columns without looking at the data."
        )
    l1, l2 = moment_moves(
        d,
        budget.adjacency,
        of_x=OF_X if fit_intercept else 0.0,
        of_y=OF_Y if fit_intercept else 0.0,
        of_xy=OF_XY,
        of_yy=OF_YY,
    )
    size = int(np.count_nonzero(np.triu(weights(d, fit_intercept))))
    # Exact sums, of weighted length at most 2 n, become doubles and are multiplied by weights that
    # are doubles: three roundings of 2^-53, on both of two neighbors.
    rounding = n * 2.0**-49
    if budget.delta == 0.0:
        l1 += math.sqrt(size) * rounding
        scale = randomness.release_scale(1.0 / budget.epsilon, l1, size, order=1)
        return RidgePlan(*shape, budget.noise("laplace", scale), PureDP(budget.epsilon))
    multiplier = gaussian_noise_multiplier(budget.epsilon, budget.delta)
    scale = randomness.release_scale(multiplier, l2 + rounding, size)
    return RidgePlan(*shape, budget.noise("gaussian", scale), GaussianDP(1.0 / multiplier))


def weights(n_features: int, fit_intercept: bool) -> np.ndarray:
    """Return the weights of the sums of z z', z = (1, x, y), or (x, y) without an intercept.

    Off the diagonal of the x block it is sqrt(2): Euclidean lengths are then Frobenius norms. The
    number of records is public, so its weight is 0: it is not released.
    """
    of_x = np.full((n_features, n_features), math.sqrt(2.0))
    np.fill_diagonal(of_x, 1.0)
    full = np.full((n_features + 2, n_features + 2), OF_XY)
    full[1:-1, 1:-1] = of_x
    full[0, :] = full[:, 0] = OF_X
    full[0, -1] = full[-1, 0] = OF_Y
    full[0, 0], full[-1, -1] = 0.0, OF_YY
    return full if fit_intercept else full[1:, 1:]


def pack(moments: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the released entries as a weighted vector."""
    chosen = np.triu(weight) > 0.0
    return weight[chosen] * moments[chosen]


def unpack(packed: np.ndarray, weight: np.ndarray, n: int) -> np.ndarray:
    """Invert `pack`; the entry that is not released is the number of records."""
    chosen = np.triu(weight) > 0.0
    moments = np.zeros_like(weight)
    moments[chosen] = packed / weight[chosen]
    moments += np.triu(moments, 1).T
    moments[weight == 0.0] = n
    return moments


def grid_moments(block: Block, plan: RidgePlan) -> np.ndarray:
    """Sum z z' over a block, in whole numbers of 4^-bits.

    Products of whole numbers of at most 2^bits add up exactly in doubles below 2^53, in any order.
    """
    assert block.target is not None
    unit = 2.0**plan.bits
    size = 1 << (53 - 2 * plan.bits)
    width = plan.n_features + 1 + plan.fit_intercept
    total = np.zeros((width, width), dtype=np.int64)
    for start in range(0, block.X.shape[0], size):
        rows = slice(start, start + size)
        X, target = block.X[rows], np.trunc(block.target[rows] * unit)[:, None]
        constant = np.full((X.shape[0], int(plan.fit_intercept)), unit)
        if sparse.issparse(X):
            X = (X.tocsr() / plan.data_norm * unit).trunc()
            table = sparse.hstack([sparse.csr_matrix(constant), X, target], format="csr")
            product = (table.T @ table).toarray()
        else:
            X = np.trunc(X / plan.data_norm * unit)
            table = np.hstack([constant, X, target])
            product = table.T @ table
        total += product.astype(np.int64)
    return total
