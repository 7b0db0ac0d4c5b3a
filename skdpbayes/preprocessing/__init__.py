"""Transformers before a private estimator: most learn nothing, and so cost no privacy budget.

A private estimator bounds what one record can do. Everything a pipeline does before it must keep
that bound, so each output row may depend on its own input row, on public numbers and on what was
released under a budget only. ``PrivateBoundsScaler`` and ``private_quantiles`` have a budget of
their own; the others need none.
"""

from skdpbayes.preprocessing.private_bounds import (
    PrivateBoundsScaler,
    Quantiles,
    private_quantiles,
)
from skdpbayes.preprocessing.public import (
    BoundsScaler,
    PrivatePreprocessor,
    RowNormClipper,
    private_preprocessor,
)
from skdpbayes.preprocessing.scattering import ScatteringTransformer

__all__ = [
    "BoundsScaler",
    "PrivateBoundsScaler",
    "PrivatePreprocessor",
    "Quantiles",
    "RowNormClipper",
    "ScatteringTransformer",
    "private_preprocessor",
    "private_quantiles",
]
