"""Largest free steps: closed forms, accountants and the papers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdpbayes.exceptions import CalibrationError
from skdpbayes.papers import (
    large_noise_mu,
    li2019_moments_epsilon,
    li2019_noise_multiplier,
    sgld_noise_multiplier,
    step_size_bound,
)
from skdpbayes.privacy import chain_event, gdp_epsilon

LI = {"n_steps": 10_000, "batch_size": 500, "n_samples": 50_000, "clip_norm": 1.0}
SIZES = {"batch_size": 500, "n_samples": 50_000, "clip_norm": 1.0}
THIRD = 1 / 3


@pytest.mark.parametrize(
    ("decay", "adjacency", "eta"),
    [
        (THIRD, "zero_out", 0.07606),
        (THIRD, "replace_one", 0.01901),
        (0.0, "zero_out", 0.005288),
        (0.0, "replace_one", 0.001322),
    ],
)
def test_large_noise_limit_of_the_example_of_li2019(decay, adjacency, eta):
    setting = {**LI, "decay": decay, "method": "limit", "adjacency": adjacency}
    printed = step_size_bound(0.1, 1e-5, **setting, noise_per_step=1.0)
    assert 50_000 * printed == pytest.approx(eta, rel=3e-4)
    # twice the noise variance allows twice the step
    assert step_size_bound(0.1, 1e-5, **setting) == pytest.approx(2 * printed)
    noise = np.sqrt(2) * sgld_noise_multiplier(2 * printed, **SIZES)
    growth = np.arange(1, 10_001) ** (decay / 2)
    mu = large_noise_mu(noise / np.sqrt(2) * growth, 0.01, adjacency)
    assert gdp_epsilon(mu, 1e-5) == pytest.approx(0.1, rel=1e-8)


def test_steps_claimed_by_li2019_cost_more_than_claimed():
    """eta_t = .103 t^(-1/3) is claimed to be (.1, 1e-5)-private."""
    noise = np.array(
        [li2019_noise_multiplier(0.103 * t**-THIRD, **SIZES) for t in range(1, 10_001)]
    )
    assert gdp_epsilon(large_noise_mu(noise, 0.01, "zero_out"), 1e-5) == pytest.approx(
        0.1182, abs=3e-4
    )
    assert gdp_epsilon(large_noise_mu(noise, 0.01), 1e-5) == pytest.approx(0.2515, abs=3e-4)
    doubled = large_noise_mu(math.sqrt(2) * noise, 0.01, "zero_out")
    assert gdp_epsilon(doubled, 1e-5) == pytest.approx(0.0809, abs=3e-4)
    constant = np.full(10_000, li2019_noise_multiplier(0.1, **SIZES))
    for adjacency, epsilon in (("zero_out", 0.50098), ("replace_one", 1.0608)):
        event = chain_event(constant, 0.01, "poisson", adjacency)
        assert event.epsilon_at(1e-5) == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_fixed_step_by_loss_distributions(adjacency):
    step = step_size_bound(0.1, 1e-5, **LI, adjacency=adjacency)
    limit = step_size_bound(0.1, 1e-5, **LI, adjacency=adjacency, method="limit")
    assert step == pytest.approx(limit, rel=0.01)
    event = chain_event(
        np.full(10_000, sgld_noise_multiplier(step, **SIZES)), 0.01, "poisson", adjacency
    )
    assert 0.0999 < event.epsilon_at(1e-5) <= 0.1


def test_adult_steps_against_wang2015():
    adult = {"n_steps": 32_561, "batch_size": 180, "n_samples": 32_561, "clip_norm": 1.0}
    for epsilon, step, published in (
        (0.1, 1.02e-7, 1.18e-11),
        (1.0, 5.74e-6, 1.18e-9),
        (10.0, 1.06e-4, 1.18e-7),
    ):
        got = step_size_bound(epsilon, 1e-4, **adult, adjacency="zero_out")
        assert got == pytest.approx(step, rel=5e-3)
        assert step_size_bound(epsilon, 1e-4, **adult, method="wang2015") == pytest.approx(
            published, rel=2e-3
        )


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_decreasing_step_by_loss_distributions(sampling):
    sizes = {"batch_size": 50, "n_samples": 1000, "clip_norm": 1.0}
    step = step_size_bound(
        1.0, 1e-5, n_steps=60, **sizes, decay=0.5, sampling=sampling, adjacency="replace_one"
    )
    noise = sgld_noise_multiplier(step, **sizes) * np.arange(1, 61) ** 0.25
    event = chain_event(noise, 0.05, sampling, "replace_one")
    assert 0.999 < event.epsilon_at(1e-5) <= 1.0
    fixed = step_size_bound(1.0, 1e-5, n_steps=60, **sizes, sampling=sampling)
    assert fixed < step


def test_papers_formulas():
    wang = step_size_bound(0.1, 1e-5, **LI, method="wang2015")
    assert 50_000 * wang == pytest.approx(1.478890e-06, rel=1e-6)
    # of Theorems 3 and 4: the first step at which the moments bound is epsilon
    for decay, size in ((0.0, 0.001081), (THIRD, 0.01555)):
        step = step_size_bound(0.1, 1e-5, **LI, method="li2019", decay=decay)
        assert 50_000 * step == pytest.approx(size, rel=1e-3)
        noise = [
            li2019_noise_multiplier(50_000 * step * t**-decay, **SIZES) for t in range(1, 10_001)
        ]
        assert li2019_moments_epsilon(noise, 0.01, 1e-5) == pytest.approx(0.1, rel=1e-9)


def test_no_privacy_no_bound_and_bad_arguments():
    assert step_size_bound(math.inf, 1e-5, **LI) == math.inf
    with pytest.raises(CalibrationError, match="delta > 0"):
        step_size_bound(1.0, 0.0, **LI)
    with pytest.raises(ValueError, match="method must be"):
        step_size_bound(1.0, 1e-5, **LI, method="rdp")
    with pytest.raises(ValueError, match="decay must be >= 0"):
        step_size_bound(1.0, 1e-5, **LI, decay=-1.0)
