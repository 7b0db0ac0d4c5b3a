from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc

from skdpbayes.samplers import sample_truncated_dirichlet


@pytest.mark.parametrize(
    ("a", "b", "floor"), [(4.0, 9.0, 0.2), (1.0, 1.0, 0.05), (0.5, 0.5, 0.01), (300.0, 2.0, 0.1)]
)
def test_two_values_follow_the_truncated_beta_law(a, b, floor):
    uniforms = np.random.default_rng(0).random((4000, 1, 2, 33))
    drawn = sample_truncated_dirichlet(np.tile([a, b], (4000, 1)), floor, uniforms)[:, 0]
    low, high = betainc(a, b, floor), betainc(a, b, 1 - floor)
    assert stats.kstest((betainc(a, b, drawn) - low) / (high - low), "uniform").pvalue > 1e-4


def test_mode_far_outside_the_floor_stays_on_the_floor():
    rng = np.random.default_rng(0)
    parameter = np.tile([1.0, 1e5], (2000, 1))
    drawn = sample_truncated_dirichlet(parameter, 0.01, rng.random((2000, 1, 2, 33)))[:, 0]
    # Beyond the floor the density falls like exp(-(x - floor) * 1e5 / 0.99).
    assert (drawn >= 0.01).all()
    assert stats.kstest((drawn - 0.01) * 1e5 / 0.99, "expon").pvalue > 1e-4


def test_three_values_match_rejection_sampling():
    rng = np.random.default_rng(1)
    parameter, floor = np.array([3.0, 6.0, 2.0]), 0.1
    exact = rng.dirichlet(parameter, 6_000)
    exact = exact[(exact >= floor).all(axis=1)][:2_000]
    rows = np.tile(parameter, (2_000, 1))
    drawn = sample_truncated_dirichlet(rows, floor, rng.random((2_000, 15, 3, 9)))
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    assert drawn.min() >= floor * (1 - 1e-12)
    for v in range(3):
        assert stats.ks_2samp(drawn[:, v], exact[:, v]).pvalue > 1e-4
