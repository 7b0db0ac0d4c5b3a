"""Lower bounds on what two sets of runs give away, for audits in tests."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, norm


def gaussian_mu_lower_bound(without: np.ndarray, with_: np.ndarray, threshold: float) -> float:
    """Return mu that a threshold test proves at 99.9% confidence (two Clopper-Pearson bounds).

    ``threshold`` must be fixed before the runs are looked at.
    """
    alpha = 0.0005
    false_positive = np.sum(without > threshold)
    false_negative = np.sum(with_ <= threshold)
    worst = [
        beta.ppf(1 - alpha, errors + 1, runs - errors) if errors < runs else 1.0
        for errors, runs in ((false_positive, len(without)), (false_negative, len(with_)))
    ]
    return float(norm.isf(worst[0]) - norm.ppf(worst[1]))
