"""What a fitted estimator promises: printed, stored, read back."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from skdpbayes.privacy import (
    GaussianDP,
    NoPrivacy,
    PrivacyGuarantee,
    PureDP,
    SubsampledGaussian,
    repeat,
)


def make(**changes: object) -> PrivacyGuarantee:
    fields: dict[str, object] = {
        "epsilon": 1.0,
        "delta": 0.0,
        "adjacency": "replace_one",
        "mechanism": "Laplace noise on counts",
        "event": PureDP(1.0),
    }
    return PrivacyGuarantee(**(fields | changes))  # type: ignore[arg-type]


def test_reads_like_a_sentence() -> None:
    assert str(make()) == (
        "1-differentially private when one record is replaced by another (replace_one), "
        "by Laplace noise on counts."
    )
    text = str(
        make(
            epsilon=0.5,
            delta=1e-5,
            adjacency="zero_out",
            seeded=True,
            conditions=("the chain has converged", "the categories are public"),
        )
    )
    assert text == (
        "(0.5, 1e-05)-differentially private when one record is replaced by a null record that "
        "contributes nothing (zero_out), by Laplace noise on counts. This holds if the chain has "
        "converged; the categories are public. The noise is seeded: the guarantee needs a seed "
        "that is secret and used for no other fit."
    )
    assert str(make(epsilon=math.inf, event=NoPrivacy(), mechanism="no noise")) == (
        "Not differentially private (epsilon is infinite): no noise."
    )


@pytest.mark.parametrize("epsilon", [0.99949, 0.12345, 9.9999, 1234.5, 1e-7 / 3, 1.0, 0.0])
def test_printed_epsilon_is_never_below_the_truth(epsilon: float) -> None:
    printed = float(str(make(epsilon=epsilon)).split("-differentially")[0])
    assert epsilon * (1 - 1e-9) <= printed <= epsilon * 1.011


@pytest.mark.parametrize(
    "guarantee",
    [
        make(),
        make(epsilon=math.inf, event=NoPrivacy()),
        make(event=PureDP(math.inf), epsilon=math.inf, conditions=("ε ist öffentlich",)),
        PrivacyGuarantee.from_event(
            repeat(SubsampledGaussian(1.1, 0.02), 50),
            delta=1e-5,
            adjacency="replace_one",
            mechanism="noisy gradient steps",
            seeded=True,
            conditions=("a", "b"),
        ),
    ],
)
def test_round_trips(guarantee: PrivacyGuarantee) -> None:
    text = guarantee.to_json()
    assert "\n" not in text
    json.loads(text, parse_constant=pytest.fail)  # standard JSON has no Infinity
    assert PrivacyGuarantee.from_json(text) == guarantee
    assert PrivacyGuarantee.from_json(text).to_json() == text
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
    assert hash(guarantee) == hash(PrivacyGuarantee.from_json(text))


def test_profile_comes_from_the_event() -> None:
    event = GaussianDP(0.5)
    guarantee = PrivacyGuarantee.from_event(
        event, delta=1e-5, adjacency="zero_out", mechanism="Gaussian noise"
    )
    assert guarantee.epsilon == event.epsilon_at(1e-5) == guarantee.epsilon_at(1e-5)
    assert guarantee.epsilon_at(1e-9) == event.epsilon_at(1e-9)
    assert guarantee.delta_at(1.0) == event.delta_at(1.0)
    assert (
        PrivacyGuarantee.from_event(
            NoPrivacy(), delta=0.0, adjacency="zero_out", mechanism="none"
        ).epsilon
        == math.inf
    )


def test_is_frozen_and_checked() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().epsilon = 0.1  # type: ignore[misc]
    with pytest.raises(ValueError, match="epsilon must be >= 0, got -1"):
        make(epsilon=-1.0)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\], got 2"):
        make(delta=2.0)
    with pytest.raises(
        ValueError, match="adjacency must be 'replace_one' or 'zero_out', got 'add'"
    ):
        make(adjacency="add")
    with pytest.raises(TypeError, match="event must be a PrivacyEvent, got float"):
        make(event=1.0)


def test_malformed_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not a privacy guarantee in JSON"):
        PrivacyGuarantee.from_json("{")
    with pytest.raises(ValueError, match="has the fields epsilon, delta"):
        PrivacyGuarantee.from_json("{}")
    fields = json.loads(make().to_json())
    fields["event"] = {"kind": "telepathy"}
    with pytest.raises(ValueError, match="unknown privacy event kind"):
        PrivacyGuarantee.from_json(json.dumps(fields))


def test_words_that_read_like_infinity_stay_words() -> None:
    guarantee = PrivacyGuarantee(
        math.inf, 0.0, "zero_out", "inf", GaussianDP(math.inf), conditions=("inf", "a")
    )
    assert PrivacyGuarantee.from_json(guarantee.to_json()) == guarantee


def test_the_card_of_a_notebook_shows_sentence_and_curve_and_escapes_both():
    claim = PrivacyGuarantee.from_event(
        GaussianDP(0.5), delta=1e-5, adjacency="replace_one", mechanism="<script>noise</script>"
    )
    card = claim._repr_html_()
    assert "differentially private when one record is replaced" in card
    assert "<script>" not in card
    root = ElementTree.fromstring(card)  # well formed: notebooks paste it as it is
    (line,) = root.iter("polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert len(points) == 25
    falls = [later[1] >= earlier[1] for earlier, later in pairwise(points)]
    assert all(falls)  # delta falls, and the picture counts from the top
    assert claim.profile(3)[1] == pytest.approx((claim.epsilon, claim.delta_at(claim.epsilon)))
    nothing = PrivacyGuarantee(math.inf, 0.0, "replace_one", "no noise", NoPrivacy())
    assert "Not differentially private" in nothing._repr_html_()
    assert "svg" not in nothing._repr_html_()
