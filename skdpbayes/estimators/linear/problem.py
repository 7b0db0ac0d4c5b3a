"""Public numbers of a linear classifier's fit that follow from its parameters alone."""

from __future__ import annotations

import math

from skdpbayes import models
from skdpbayes.fitting.units import MOST_RECORDS
from skdpbayes.privacy.guarantee import Unit

UNIT_ROUNDOFF = 2.0**-53


class LinearProblem:
    """What the problems of different mechanisms share; they are frozen dataclasses."""

    n_records: int
    """Units, of records where every record is its own."""
    n_features: int
    """With the constant feature."""
    data_norm: float
    epsilon: float
    constant: float
    """The constant feature; 0 for no intercept."""
    unit: Unit
    """Of what ``n_records`` counts."""

    @property
    def n_columns(self) -> int:
        """Number of features without the constant one."""
        return self.n_features - (self.constant != 0.0)

    @property
    def rows_per_unit(self) -> int:
        """Bound on the number of rows of one unit, whose cuts and roundings add up."""
        return MOST_RECORDS if self.unit == "person" else 1

    @property
    def record_norm(self) -> float:
        """Bound on a record's length; one whose computed norm is data_norm may be a bit longer."""
        rounding = (self.n_features + 8.0) * 2.0 * UNIT_ROUNDOFF
        return math.hypot(self.data_norm, self.constant) * (1.0 + rounding)

    @property
    def grid(self) -> models.Grid | None:
        """Units of sums over records; none without privacy, on rows as they are."""
        if math.isinf(self.epsilon):
            return None
        return models.Grid(self.n_records, self.data_norm)
