"""Transformers that learn nothing from the data, and so cost no privacy budget.

A private estimator bounds what one record can do. Everything a pipeline does before it must keep
that bound, so each output row may depend on its own input row and on public numbers only.
"""

from skdpbayes.preprocessing.public import (
    BoundsScaler,
    PrivatePreprocessor,
    RowNormClipper,
    private_preprocessor,
)
from skdpbayes.preprocessing.scattering import ScatteringTransformer

__all__ = [
    "BoundsScaler",
    "PrivatePreprocessor",
    "RowNormClipper",
    "ScatteringTransformer",
    "private_preprocessor",
]
