"""Claims are made in one place, and only if the event proves them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import GaussianDP, NoPrivacy, PureDP, gdp_mu
from skdpbayes.privacy.budget import NO_NOISE, Budget, Noise
from skdpbayes.privacy.events import PrivacyEvent


@dataclass(frozen=True)
class Release:
    event: PrivacyEvent
    words: str = "noise"
    conditions: tuple[str, ...] = ("so",)


class Charges(list):
    def reserve(self, guarantee, label=""):
        self.append((guarantee, label))


def test_a_claim_that_its_event_does_not_prove_is_refused():
    mu = gdp_mu(1.0, 1e-5)
    budget = Budget(1.0, 1e-5, "zero_out", ledger := Charges())
    assert budget.claim(Release(GaussianDP(mu))).epsilon == 1.0
    with pytest.raises(CalibrationError, match=r"epsilon=1\.0"):
        budget.reserve(Release(GaussianDP(1.01 * mu)), "fit")
    assert ledger == []
    pure = Budget(1.0, 0.0, "zero_out")
    assert pure.claim(Release(PureDP(1.0 + 1e-12))).delta == 0.0
    with pytest.raises(CalibrationError, match=r"delta=0\.0"):
        pure.claim(Release(PureDP(1.001)))


def test_a_reservation_is_charged_once_with_its_conditions():
    ledger = Charges()
    claim = Budget(1.0, 0.0, "replace_one", ledger, seeded=True).reserve(Release(PureDP(0.5)), "a")
    assert ledger == [(claim, "a")]
    assert (claim.conditions, claim.seeded, claim.mechanism) == (("so",), True, "noise")


def test_infinite_epsilon_claims_nothing():
    claim = Budget(math.inf, 1e-5, "zero_out").claim(Release(GaussianDP(0.1)))
    assert (claim.event, claim.conditions) == (NoPrivacy(), ())


@pytest.mark.parametrize("scale", [0.0, 5e-324, math.inf, math.nan, -1.0])
def test_noise_that_hides_nothing_is_refused(scale):
    with pytest.raises(CalibrationError, match="positive, finite scale"):
        Budget(1.0, 0.0, "zero_out").noise("laplace", scale)
    assert Budget(math.inf, 0.0, "zero_out").noise("laplace", scale) == NO_NOISE


def test_noise_knows_its_deviation():
    assert Noise("laplace", 2.0).deviation == pytest.approx(math.sqrt(8.0))
    assert Noise("gaussian", 2.0).deviation == 2.0
    assert str(NO_NOISE) == "no noise"
