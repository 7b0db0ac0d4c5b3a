"""Audits on the worst neighbors: the claim holds, and a chain with half the noise is caught."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from skdpbayes import OPSLinearSVC, OPSLogisticRegression
from skdpbayes.estimators.ops import base as ops
from skdpbayes.fitting.bounds import Bound
from tests.audit_tools import gaussian_mu_lower_bound

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

RUNS = 400


def releases(estimator, X, y, seed):
    """Released coefficient of many fits with fresh noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(
            [
                estimator.set_params(random_state=seed + run).fit(X, y).coef_[0, 0]
                for run in range(RUNS)
            ]
        )


def tight_case():
    """One record in the linear part of the hinge: flipping its label moves the gradient by 2R."""
    estimator = OPSLinearSVC(
        epsilon=3.0,
        delta=1e-2,
        C=0.01,
        smoothing=0.5,
        fit_intercept=False,
        classes=[0, 1],
        cap_at_posterior=False,
        n_steps=8,
    )
    return estimator, np.array([[1.0]])


def audited_mu(estimator, X):
    without, with_ = releases(estimator, X, [0], 0), releases(estimator, X, [1], 10_000)
    return gaussian_mu_lower_bound(without, with_, 0.0)  # symmetric under a flip of the label


def test_the_claim_survives_its_worst_case_and_is_nearly_attained():
    estimator, X = tight_case()
    lower = audited_mu(estimator, X)
    claimed = estimator.privacy_.event.mu
    assert lower <= claimed
    assert lower > 0.55 * claimed


def test_half_the_noise_is_caught(monkeypatch):
    estimator, X = tight_case()
    honest = ops.plan_langevin

    def broken(problem, **schedule):
        plan = honest(problem, **schedule)
        return dataclasses.replace(plan, inverse_temperature=4.0 * plan.inverse_temperature)

    monkeypatch.setattr(ops, "plan_langevin", broken)
    lower = audited_mu(estimator, X)
    assert lower > estimator.privacy_.event.mu


def test_a_missing_clip_is_caught(monkeypatch):
    estimator, X = tight_case()
    monkeypatch.setattr(OPSLinearSVC, "_bound", lambda self: Bound())
    assert audited_mu(estimator, 3.0 * X) > estimator.privacy_.event.mu


def test_pure_draws_stay_within_epsilon_on_the_flipped_record():
    """Exponential mechanism in one dimension: log ratios of bin frequencies stay below epsilon."""
    epsilon = 1.0
    estimator = OPSLogisticRegression(
        epsilon=epsilon,
        delta=0.0,
        coef_norm=2.0,
        fit_intercept=False,
        classes=[0, 1],
        n_draws=1,
        sampler="rejection",
        cap_at_posterior=False,
    )
    X = np.array([[1.0], [-1.0], [-1.0]])
    flipped, same = (
        releases(estimator, X, [label, 1, 1], seed) for label, seed in ((1, 0), (0, 50_000))
    )
    # one-sided tails, thresholds fixed beforehand; Clopper-Pearson at 99.9%
    from scipy.stats import beta

    for cut in (-1.0, 0.0, 1.0):
        for a, b in ((flipped, same), (same, flipped)):
            low = beta.ppf(5e-4, max(np.sum(a > cut), 1e-9), RUNS - np.sum(a > cut) + 1)
            high = beta.ppf(1 - 5e-4, np.sum(b > cut) + 1, RUNS - np.sum(b > cut))
            assert np.log(low / high) <= epsilon
    assert estimator.privacy_.conditions == ()
