"""Noise of every known bound at epsilon 1, delta 1e-5, R = 1: reproduced, and never below ours.

Logistic loss, penalties 1, 10 and 100. ``mu`` is the gradient bound over the noise scale.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from skdpbayes.privacy import (
    ObjectivePerturbation,
    calibrate_objective,
    chaudhuri2011_scale,
    gdp_delta,
    kifer2012_noise_multiplier,
    pure_objective_scale,
    redberg2023_delta,
    redberg2023_noise_multiplier,
)

PENALTIES = (1.0, 10.0, 100.0)
EPSILON, DELTA = 1.0, 1e-5


def _determinant(penalty):
    return math.log1p(0.25 / penalty)


def _folded(epsilon, mu, penalty):
    """Any generalized linear loss, a record deleted."""
    return 2.0 * gdp_delta(epsilon - _determinant(penalty), mu)


def _signed(epsilon, mu, penalty):
    """A derivative of one sign, a record deleted."""
    return gdp_delta(epsilon - _determinant(penalty), mu)


def _signed_replaced(epsilon, mu, penalty):
    left = epsilon - _determinant(penalty)
    return gdp_delta(left, 2.0 * mu) + 2.0 * gdp_delta(left, mu)


def _any_replaced(epsilon, mu, penalty):
    left = epsilon - _determinant(penalty)

    def negative(angle):
        pair = (2.0 * mu * math.cos(angle), 2.0 * mu * math.sin(angle))
        return -2.0 * sum(gdp_delta(left, m) for m in pair if m > 0.0)

    inside = minimize_scalar(negative, bounds=(0.0, math.pi / 4), method="bounded").fun
    return -min(inside, negative(0.0), negative(math.pi / 4))


BOUNDS = {
    "folded": (_folded, "zero_out", (4.8976181692, 3.9741940217, 3.8930510232)),
    "signed": (_signed, "zero_out", (4.6970729801, 3.8165631778, 3.7391345762)),
    "signed, replaced": (
        _signed_replaced,
        "replace_one",
        (9.3941459605, 7.6331263557, 7.4782691526),
    ),
    "any, replaced": (_any_replaced, "replace_one", (9.7952363385, 7.9483880435, 7.7861020464)),
}


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("index", range(3))
def test_noise_of_older_bounds(name, index):
    bound, adjacency, noises = BOUNDS[name]
    penalty, noise = PENALTIES[index], noises[index]
    found = brentq(
        lambda sigma: math.log(bound(EPSILON, 1.0 / sigma, penalty) / DELTA), 2.0, 20.0, xtol=1e-12
    )
    assert found == pytest.approx(noise, rel=1e-9)
    ours = calibrate_objective(EPSILON, DELTA, curvature=1 / penalty, adjacency=adjacency)
    assert ours.noise_multiplier < noise


@pytest.mark.parametrize(
    ("penalty", "determinant", "redberg", "chaudhuri"),
    [
        (1.0, 0.2231435513, 5.3045003647, 3.6119801606),
        (10.0, 0.0246926126, 3.9765313001, 2.1039016571),
        (100.0, 0.0024968802, 3.8930733807, 2.0100376464),
    ],
)
def test_noise_of_published_bounds(penalty, determinant, redberg, chaudhuri):
    assert _determinant(penalty) == pytest.approx(determinant, abs=1e-10)
    options = {"curvature": 1 / penalty, "adjacency": "zero_out"}
    kifer = kifer2012_noise_multiplier(EPSILON, DELTA, **options)
    assert kifer == pytest.approx(10.0820921025, rel=1e-10)
    found = redberg2023_noise_multiplier(EPSILON, DELTA, **options)
    assert found == pytest.approx(redberg, rel=1e-9)
    scale, _ = chaudhuri2011_scale(EPSILON, curvature=1 / penalty, adjacency="replace_one")
    assert scale == pytest.approx(chaudhuri, rel=1e-10)
    tight = calibrate_objective(EPSILON, DELTA, **options).noise_multiplier
    assert tight == pytest.approx(3.7306316348, rel=1e-9)
    replaced = calibrate_objective(
        EPSILON, DELTA, curvature=1 / penalty, adjacency="replace_one"
    ).noise_multiplier
    if penalty >= 10.0:  # epsilon >= 2 R^2 / penalty: the antipodal pair's, and proved
        assert replaced == pytest.approx(7.4612632696, rel=1e-9)
    else:
        assert 7.4612632696 < replaced < 7.9


@pytest.mark.parametrize(
    ("penalty", "replaced", "deleted"),
    [
        (1.0, 2.5744782107, 1.2872391054),
        (10.0, 2.0506355492, 1.0253177746),
        (100.0, 2.0050062604, 1.0025031302),
    ],
)
def test_pure_scales(penalty, replaced, deleted):
    """The determinant charged in full, L / (epsilon - C); ours charges less or nothing."""
    for adjacency, expected, gradients in (
        ("replace_one", replaced, 2.0),
        ("zero_out", deleted, 1.0),
    ):
        full = gradients / (EPSILON - _determinant(penalty))
        assert full == pytest.approx(expected, rel=1e-10)
        ours = pure_objective_scale(EPSILON, curvature=1 / penalty, adjacency=adjacency)
        assert gradients <= ours < full


def test_deltas_at_noise_four():
    assert redberg2023_delta(1.0, 0.25, 1.0) == pytest.approx(4.5695915713e-04, rel=1e-9)
    assert redberg2023_delta(0.1, 0.25, 1.0) == pytest.approx(3.3475285231e-01, rel=1e-9)
    assert _folded(1.0, 0.25, 1.0) == pytest.approx(1.9051713826e-04, rel=1e-9)
    assert _signed(1.0, 0.25, 1.0) == pytest.approx(9.5258569129e-05, rel=1e-9)
    assert _signed_replaced(1.0, 0.25, 1.0) == pytest.approx(1.8856604916e-02, rel=1e-9)
    ours = ObjectivePerturbation(4.0, 1.0, "zero_out").delta_at(1.0)
    assert ours == pytest.approx(2.9242721e-06, rel=1e-7)


def test_ours_is_never_above_the_signed_bound():
    for curvature in (0.05, 0.5, 1.0):
        event = ObjectivePerturbation(4.0, curvature, "zero_out")
        for epsilon in np.array([0.6, 1.0, 2.0]):
            assert event.delta_at(float(epsilon)) <= _signed(float(epsilon), 0.25, 1 / curvature)
