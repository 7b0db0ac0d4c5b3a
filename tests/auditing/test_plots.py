"""Pictures of audits say what the results say."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import norm

from skdpbayes.auditing import OneRunResult, audit_scores
from skdpbayes.plotting.privacy_region import trade_off
from skdpbayes.privacy import GaussianDP, PrivacyGuarantee

mpl.use("Agg")

CLAIM = PrivacyGuarantee.from_event(
    GaussianDP(1.0), delta=1e-3, adjacency="replace_one", mechanism="test"
)


def test_trade_off_of_the_gaussian_profile():
    epsilons = np.linspace(0.0, 8.0, 400)
    deltas = np.array([GaussianDP(1.0).delta_at(e) for e in epsilons])
    alpha = np.linspace(0.001, 0.999, 50)
    expected = norm.cdf(norm.isf(alpha) - 1.0)
    np.testing.assert_allclose(trade_off(alpha, epsilons, deltas), expected, atol=1e-3)


@pytest.mark.parametrize(("shift", "verdict"), [(0.9, "not refuted"), (2.0, "refuted")])
def test_region(shift, verdict):
    scores = np.random.default_rng(0).normal(size=(2, 1000))
    result = audit_scores(scores[0], scores[1] + shift, claim=CLAIM, threshold=shift / 2)
    display = result.plot()
    assert f"Claim {verdict}" in display.ax_.get_title()
    assert display.figure_ is display.ax_.figure
    plt.close(display.figure_)


def test_one_run():
    result = OneRunResult(0.7, 0.95, CLAIM, 1000, 100, 75, 0.3)
    display = result.plot()
    assert "epsilon >= 0.7" in display.ax_.get_title()
    plt.close(display.figure_)
