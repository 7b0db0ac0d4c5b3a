"""The papers' formulas as printed."""

from __future__ import annotations

import math

import pytest

from skdpbayes.exceptions import CalibrationError
from skdpbayes.papers import (
    li2019_noise_multiplier,
    li2019_step_range,
    sgld_noise_multiplier,
    wang2015_noise_multiplier,
    wang2015_noise_variance,
)
from skdpbayes.privacy import SubsampledGaussian, repeat

ADULT = {"n_passes": 180, "batch_size": 180, "n_samples": 32_561}


@pytest.mark.parametrize(
    ("epsilon", "noise", "step"),
    [(0.1, 1608.736595, 1.18e-11), (1.0, 160.873660, 1.18e-9), (10.0, 16.087366, 1.18e-7)],
)
def test_wang2015_noise(epsilon, noise, step):
    assert wang2015_noise_multiplier(epsilon, 1e-4, **ADULT) == pytest.approx(noise, abs=6e-7)
    variance = wang2015_noise_variance(epsilon, 1e-4, clip_norm=1.0, **ADULT)
    assert 1 / variance == pytest.approx(step, rel=2e-3)
    assert wang2015_noise_variance(epsilon, 1e-4, clip_norm=3.0, **ADULT) == pytest.approx(
        9 * variance
    )
    proved = wang2015_noise_multiplier(epsilon, 1e-4, constant=256.0, **ADULT)
    assert proved == pytest.approx(math.sqrt(2) * noise, rel=1e-8)


def test_wang2015_phase_transition():
    """Below 1/V the sampler's noise (variance equal to the step) is already the larger one."""
    variance = wang2015_noise_variance(1.0, 1e-4, clip_norm=1.0, **ADULT)
    for factor, free in ((0.99, True), (1.01, False)):
        step = factor / variance
        assert (step >= step**2 * variance) is free


def test_wang2015_condition_on_the_passes():
    least = 100.0 * 32_561 / (32 * 180 * math.log(2e4))
    sizes = {"batch_size": 180, "n_samples": 32_561}
    assert wang2015_noise_multiplier(10.0, 1e-4, n_passes=least * 1.001, **sizes) > 0
    with pytest.raises(CalibrationError, match="n_passes >="):
        wang2015_noise_multiplier(10.0, 1e-4, n_passes=least * 0.999, **sizes)
    with pytest.raises(CalibrationError, match="delta > 0"):
        wang2015_noise_multiplier(1.0, 0.0, n_passes=10, **sizes)


def test_li2019_noise_on_mnist():
    sizes = {"batch_size": 128, "n_samples": 60_000, "clip_norm": 0.3}
    printed = li2019_noise_multiplier(0.3, **sizes)
    assert printed == pytest.approx(3.1801855680, abs=6e-11)
    assert printed == pytest.approx(128 / (0.3 * math.sqrt(0.3 * 60_000)))
    corrected = sgld_noise_multiplier(0.3 / 60_000, **sizes)
    assert corrected == pytest.approx(4.4974615611, abs=6e-11)


def test_li2019_conditions_are_those_of_the_multiplier():
    sizes = {"batch_size": 500, "n_samples": 50_000, "clip_norm": 1.3}
    low, high = li2019_step_range(**sizes)
    assert high == pytest.approx(500**2 / (50_000 * 1.3**2))
    assert low == pytest.approx(256 * 500**4 / (50_000**3 * 1.3**2))
    assert li2019_noise_multiplier(high, **sizes) == pytest.approx(1.0)
    assert li2019_noise_multiplier(low, **sizes) == pytest.approx(1 / (16 * 0.01))


@pytest.mark.parametrize(
    ("sampling", "adjacency", "printed", "corrected"),
    [
        ("poisson", "zero_out", 0.22007, 0.14845),
        ("poisson", "replace_one", 0.45342, 0.31063),
        ("fixed", "replace_one", 0.626, 0.3855),
    ],
)
def test_li2019_mnist_claim_is_conservative(sampling, adjacency, printed, corrected):
    """epsilon = .99 is claimed for 9375 steps at delta = 1e-5."""
    noise = li2019_noise_multiplier(0.3, batch_size=128, n_samples=60_000, clip_norm=0.3)
    for factor, epsilon in ((1.0, printed), (math.sqrt(2), corrected)):
        step = SubsampledGaussian(factor * noise, 128 / 60_000, sampling, adjacency)
        got = repeat(step, 9375).epsilon_at(1e-5)
        assert got == pytest.approx(epsilon, rel=3e-3)
        assert got < 0.99


@pytest.mark.parametrize(
    ("epsilon", "zero_out", "replace"), [(1, 0.010885, 0.025143), (10, 0.16115, 0.35155)]
)
def test_wang2015_noise_is_far_more_than_needed(epsilon, zero_out, replace):
    """True epsilons from dp-accounting's loss distributions on grids of 2e-7 and 2e-6."""
    noise = wang2015_noise_multiplier(epsilon, 1e-4, **ADULT)
    for adjacency, true in (("zero_out", zero_out), ("replace_one", replace)):
        step = SubsampledGaussian(noise, 180 / 32_561, "poisson", adjacency)
        assert repeat(step, 32_561).epsilon_at(1e-4) == pytest.approx(true, rel=3e-3)
