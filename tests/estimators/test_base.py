"""The steps that every private fit shares."""

from __future__ import annotations

import pytest
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from skdpbayes.estimators._base import PrivateEstimator
from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import GaussianDP, NoPrivacy, PureDP, gdp_mu
from tests.contract import CASES


class Claimant(PrivateEstimator):
    def __init__(self, epsilon=1.0, delta=1e-5, adjacency="zero_out", random_state=None):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.random_state = random_state


def test_a_claim_that_its_event_does_not_prove_is_refused():
    mu = gdp_mu(1.0, 1e-5)
    assert Claimant()._guarantee(GaussianDP(mu), "noise").epsilon == 1.0
    with pytest.raises(CalibrationError, match=r"epsilon=1\.0"):
        Claimant()._guarantee(GaussianDP(1.01 * mu), "noise")
    assert Claimant(delta=0.0)._guarantee(PureDP(1.0 + 1e-12), "noise").delta == 0.0
    with pytest.raises(CalibrationError, match=r"delta=0\.0"):
        Claimant(delta=0.0)._guarantee(PureDP(1.001), "noise")


def test_infinite_epsilon_claims_nothing():
    claim = Claimant(epsilon=float("inf"))._guarantee(GaussianDP(0.1), "noise")
    assert claim.event == NoPrivacy()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scales_beyond_the_floats_are_refused(case):
    """With them one record could decide between a number and NaN."""
    X, y = case.data()
    scales = {"data_norm", "intercept_scaling", "coef_norm", "coef_norm_guess", "C"}
    for name in sorted(scales.intersection(case.make().get_params())):
        for value in (1e-60, 1e60, 5e207):
            with pytest.raises(ValueError, match=rf"{name} must be a number in \[1e-50, 1e\+50\]"):
                case.build(**{name: value}).fit(X, y)
    with pytest.raises(ValueError, match=r"epsilon=1e\+300 .*np\.inf"):
        case.build(epsilon=1e300).fit(X, y)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_poor_scores_are_tagged_only_while_epsilon_is_small(case):
    if is_classifier(case.make()):
        assert get_tags(case.make(epsilon=1.0)).classifier_tags.poor_score
        assert not get_tags(case.make(epsilon=1e6)).classifier_tags.poor_score
