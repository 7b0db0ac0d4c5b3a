"""Intervals and noise-aware draws of DPSGLDClassifier: they cover, and refusals give reasons."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from skdpbayes import DPSGLDClassifier

pytestmark = pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
TRUTH = np.array([0.8, -0.5, 0.3, 0.6, -0.6, 0.2])
NORM = 4.0


def table(n, seed):
    """Normal and binary columns, and labels of known coefficients."""
    rng = np.random.default_rng(seed)
    binary = rng.random((n, 2)) < [0.4, 0.2]
    X = np.column_stack([rng.normal(size=(n, 3)), binary])
    X *= np.minimum(1.0, NORM / np.linalg.norm(X, axis=1))[:, None]
    return X, rng.random(n) < expit(X @ TRUTH[:-1] + TRUTH[-1])


def ends(model, level=0.9):
    found = model.interval(level)
    return np.concatenate([found["coef"][0], found["intercept"]])


@pytest.mark.parametrize(
    ("n", "params"),
    [
        (5000, {"epsilon": 0.5, "adjacency": "zero_out"}),
        (5000, {"epsilon": 1.0}),
        (5000, {"epsilon": 1.0, "sampler": "sgnht"}),
        (5000, {"epsilon": 2.0, "batch_size": 500}),
        (2000, {"epsilon": np.inf}),
    ],
    ids=str,
)
def test_intervals_cover_as_often_as_they_say(n, params):
    """Two-sided: 40 data sets of 6 coefficients, 4 standard errors of their dependent hits."""
    inside, widths, plain = [], [], []
    for seed in range(40):
        X, y = table(n, seed)
        model = DPSGLDClassifier(**params, data_norm=NORM, random_state=seed).fit(X, y)
        low, high = ends(model).T
        inside.append((low <= TRUTH) & (high >= TRUTH))
        widths.append(high - low)
        chain = model.sample_posterior(posterior="chain")["coef"][:, 0]
        plain.append(3.29 * chain.std(axis=0))
    assert 0.82 < np.mean(inside) < 0.97
    if np.isfinite(params["epsilon"]):  # and are shorter than what the states would suggest
        assert np.mean(widths) < np.mean(plain) or params.get("sampler") == "sgnht"
