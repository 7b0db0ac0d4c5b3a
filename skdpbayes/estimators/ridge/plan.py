r"""One release of second moments: its grid, its weights and its noise, from public numbers.

Rows and targets are cut toward zero to a public grid, so that their sums are exact whatever the
blocks (:mod:`skdpbayes.models.exact_sums`), and cutting lengthens nothing. The sums are then taken
in units of ``data_norm`` and of the target's half range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import models, randomness
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.units import MOST_RECORDS
from skdpbayes.privacy.budget import NO_NOISE, Budget, Noise
from skdpbayes.privacy.calibration import gaussian_noise_multiplier
from skdpbayes.privacy.events import GaussianDP, NoPrivacy, PrivacyEvent, PureDP
from skdpbayes.privacy.sensitivity import moment_moves

# Weights of the blocks of moments. That of products with the target is the best for slopes of
# length 1 when records are replaced; that of the target's sum is then free (see `moment_moves`).
OF_X, OF_XY, OF_YY = 0.5, 1.0, 0.5
OF_Y = OF_X * OF_XY / math.sqrt(2.0)
LARGEST_WIDTH = 1000


@dataclass(frozen=True)
class RidgePlan:
    """What one fit releases, chosen from public numbers."""

    n: int
    n_features: int
    fit_intercept: bool
    data_norm: float
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
        return {"noise_": (self.noise,)}


def plan_release(
    public: Public, budget: Budget, *, fit_intercept: bool, data_norm: float
) -> RidgePlan:
    """Calibrate the noise of one joint release of all moments."""
    n, d = public.n, public.n_features
    shape = (n, d, fit_intercept, data_norm)
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
    # A row whose computed length is within data_norm may be longer by a share of (d + 8) 2^-52.
    longer = 1.0 + (d + 8.0) * 2.0**-50
    # Exact sums, of weighted length at most 2 n, become doubles, are divided by norms and
    # multiplied by weights: at most six roundings of 2^-53, on both of two neighbors.
    rounding = n * 2.0**-48
    if public.unit == "person":
        rounding += person_rounding(models.Grid(n, data_norm), d)
    if budget.delta == 0.0:
        moved = l1 * longer + math.sqrt(size) * rounding
        scale = randomness.release_scale(1.0 / budget.epsilon, moved, size, order=1)
        return RidgePlan(*shape, budget.noise("laplace", scale), PureDP(budget.epsilon))
    multiplier = gaussian_noise_multiplier(budget.epsilon, budget.delta)
    scale = randomness.release_scale(multiplier, l2 * longer + rounding, size)
    return RidgePlan(*shape, budget.noise("gaussian", scale), GaussianDP(1.0 / multiplier))


def person_rounding(grid: models.Grid, n_features: int) -> float:
    r"""Bound what the cuts of two persons' rows add to the length of the change.

    The sensitivity holds for averages of the moments of truncated records. A record of weight
    :math:`1/m` adds :math:`v v^\top` instead, *v* its row and target times :math:`m^{-1/2}` and
    truncated again, off by less than a unit per entry, by *e* in length: the matrix is off by at
    most :math:`2 e m^{-1/2} + e^2`, that of a person by :math:`2 e \sqrt m + m e^2`.
    """
    error = math.sqrt(n_features + 1.0) * 2.0 ** (1 - grid.bits)  # a unit is below 2^(1-b) norms
    # rows and targets together are no longer than sqrt(2)
    person = 2.0 * math.sqrt(2.0 * MOST_RECORDS) * error + MOST_RECORDS * error**2
    return 2.0 * person + 2.0**-40


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


def exact_moments(rows: Records, plan: RidgePlan) -> np.ndarray:
    """Sum z z', z = (1, x, y) or (x, y), over bounded rows and targets in [-1, 1]."""
    grid = models.Grid(plan.n, plan.data_norm)
    total = rows.total(models.moments, grid, 1.0)
    first, second = models.read_moments(total, grid, 1.0)
    norms = np.append(np.full(plan.n_features, plan.data_norm), 1.0)
    second = second / np.outer(norms, norms)
    if not plan.fit_intercept:
        return second
    return np.block([[np.array([[plan.n]]), first / norms], [(first / norms)[:, None], second]])
