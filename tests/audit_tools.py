"""The Gaussian lower bound of `skdpbayes.auditing`, for scores with a known threshold."""

from __future__ import annotations

import numpy as np

from skdpbayes.auditing import mu_lower_bound


def gaussian_mu_lower_bound(without: np.ndarray, with_: np.ndarray, threshold: float) -> float:
    """Return mu that a threshold test proves at 99.9% confidence.

    ``threshold`` must be fixed before the runs are looked at.
    """
    return mu_lower_bound(
        int(np.sum(without > threshold)),
        len(without),
        int(np.sum(with_ <= threshold)),
        len(with_),
        confidence=0.999,
    )
