"""Audits of objective perturbation: the claim survives its worst neighbors, half the noise not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skdpbayes import ObjPertLogisticRegression
from skdpbayes.estimators.objective import estimator as objective_perturbation
from skdpbayes.fitting import bounds
from skdpbayes.privacy import gdp_mu
from tests.audit_tools import gaussian_mu_lower_bound

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")

RUNS = 400
EPSILON, DELTA = 6.0, 1e-2


def _releases(record, seed, runs=RUNS):
    """Coefficients of many fits; the rest of the data pushes the record's gradient to its bound.

    A row of zeros is the null record: without an intercept it contributes nothing.
    """
    X = np.vstack([np.ones((400, 1)), [[record]]])
    y = np.append(np.zeros(400, dtype=int), 1)
    model = ObjPertLogisticRegression(
        EPSILON, DELTA, adjacency="zero_out", C=1.0, fit_intercept=False, inference_budget=0.0
    )
    return np.array(
        [model.set_params(random_state=seed + i).fit(X, y).coef_[0, 0] for i in range(runs)]
    )


def _audited_mu():
    present, absent = _releases(1.0, 0), _releases(0.0, 10_000)
    # the threshold comes from other runs
    others = [_releases(1.0, 50_000, runs=60), _releases(0.0, 60_000, runs=60)]
    return gaussian_mu_lower_bound(absent, present, np.median(np.concatenate(others)))


def test_deleting_a_record_stays_under_the_claim_and_nearly_attains_it():
    lower, claimed = _audited_mu(), gdp_mu(EPSILON, DELTA)
    assert 0.65 * claimed < lower <= claimed


def test_half_the_noise_is_caught(monkeypatch):
    honest = objective_perturbation.make_plan

    def broken(*args, **kwargs):
        plan = honest(*args, **kwargs)
        return dataclasses.replace(plan, tilt_scale=0.5 * plan.tilt_scale)

    monkeypatch.setattr(objective_perturbation, "make_plan", broken)
    assert _audited_mu() > 1.2 * gdp_mu(EPSILON, DELTA)


def test_a_missing_clip_is_caught(monkeypatch):
    def releases(seed):
        X = np.vstack([np.ones((400, 1)), [[5.0 * (seed == 0)]]])
        y = np.append(np.zeros(400, dtype=int), 1)
        model = ObjPertLogisticRegression(
            EPSILON, DELTA, adjacency="zero_out", C=1.0, fit_intercept=False, inference_budget=0.0
        )
        runs = [model.set_params(random_state=seed + i).fit(X, y).coef_[0, 0] for i in range(150)]
        return np.array(runs)

    kept = gaussian_mu_lower_bound(releases(1000), releases(0), -4.5)
    assert kept <= gdp_mu(EPSILON, DELTA)
    monkeypatch.setattr(bounds, "clip_rows", lambda X, norm: X)
    present, absent = releases(0), releases(1000)
    threshold = 0.5 * (np.median(present) + np.median(absent))
    assert gaussian_mu_lower_bound(absent, present, threshold) > gdp_mu(EPSILON, DELTA)
