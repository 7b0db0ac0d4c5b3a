"""Two-sided statistical checks, with the false-alarm rate of all of them in one place."""

from __future__ import annotations

import numpy as np
from scipy import stats

# Seeds are fixed, so a test that passes keeps passing; a change of the code redraws the numbers and
# fails a correct sampler with this probability per check. There are about a hundred checks.
FALSE_ALARM = 1e-6


def discrete_pmf(kind, scale):
    """Return the support and the exact pmf of discrete noise, truncated where it is negligible."""
    reach = int(45 * scale) + 45
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(k) / scale if kind == "laplace" else -((k / scale) ** 2) / 2)
    return k, weight / weight.sum()


def discrete_p_value(kind):
    """Return the chi-square test of integer draws; a value that expects under 10 joins a tail."""

    def p_value(draws, scale):
        k, pmf = discrete_pmf(kind, scale)
        last = max(1, k[pmf * draws.size >= 10].max(initial=1))
        expected = np.bincount(np.clip(k, -last, last) + last, weights=pmf) * draws.size
        observed = np.bincount(np.clip(draws, -last, last) + last, minlength=expected.size)
        statistic = ((observed - expected) ** 2 / expected).sum()
        return float(stats.chi2.sf(statistic, expected.size - 1))

    return p_value


def continuous_p_value(distribution):
    """Return the Kolmogorov-Smirnov test of draws against ``distribution(scale=scale)``."""

    def p_value(draws, scale):
        return float(stats.kstest(draws, distribution(scale=scale).cdf).pvalue)

    return p_value


def assert_two_sided(p_value, draws, scale):
    """Accept draws at their scale and reject them at 2/3 and 3/2 of it."""
    assert p_value(draws, scale) > FALSE_ALARM
    assert p_value(draws, scale * 2 / 3) < FALSE_ALARM
    assert p_value(draws, scale * 3 / 2) < FALSE_ALARM
