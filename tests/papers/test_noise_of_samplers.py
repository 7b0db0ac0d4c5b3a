"""Noise multipliers of the samplers, read off their updates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdpbayes.papers import (
    free_step_size,
    large_noise_mu,
    private_langevin_noise,
    sgfs_noise_multiplier,
    sghmc_noise_multiplier,
    sgld_noise_multiplier,
    update_noise_multiplier,
)

MNIST = {"batch_size": 128, "n_samples": 60_000, "clip_norm": 1.0}


def test_published_values():
    assert sgld_noise_multiplier(1e-6, **MNIST) == pytest.approx(3.0169889331, abs=6e-11)
    assert sgld_noise_multiplier(5e-6, **MNIST) == pytest.approx(1.3492384683, abs=6e-11)
    assert sghmc_noise_multiplier(1e-3, 1.0, **MNIST) == pytest.approx(0.0954055670, abs=6e-11)
    assert sghmc_noise_multiplier(1e-3, 1.5, 0.5, **MNIST) == pytest.approx(0.0954055670, abs=6e-11)
    assert sgfs_noise_multiplier(1e-3, 1.0, **MNIST) == pytest.approx(0.1349238468, abs=6e-11)
    noise = private_langevin_noise(1e-3, 1.0, **MNIST)
    assert noise == pytest.approx((0.2197265625, 109.86328125), rel=1e-12)


SIZES = {"batch_size": 30, "n_samples": 900, "clip_norm": 0.7}


def sgld(g, xi, h):
    return -h * g + math.sqrt(2 * h) * xi


def sghmc(g, xi, h):
    momentum = 0.3
    momentum += -h * g - h * 2.0 * momentum + math.sqrt(2 * (2.0 - 0.5) * h) * xi
    return 1.0 + h * momentum


def sghmc_velocity(g, xi, h):
    eta, a, b, velocity = h * h, h * 2.0, h * 0.5, 0.3 * h
    velocity += -eta * g - a * velocity + math.sqrt(2 * (a - b) * eta) * xi
    return 1.0 + velocity


def sgnht(g, xi, h):
    momentum, thermostat = 0.3, 1.4
    momentum += -h * g - h * thermostat * momentum + math.sqrt(2 * 1.5 * h) * xi
    return 1.0 + h * momentum


def sgfs(g, xi, h):
    fisher, b, n, batch = 2.5, 0.8, 900, 30
    gain = 2 / ((batch + n) / batch * n * fisher + 4 * b / h)
    return 1.0 - gain * (g + math.sqrt(4 * b / h) * xi)


@pytest.mark.parametrize("h", [1e-4, 0.02])
@pytest.mark.parametrize(
    ("update", "multiplier"),
    [
        (sgld, lambda h: sgld_noise_multiplier(h, **SIZES)),
        (sghmc, lambda h: sghmc_noise_multiplier(h, 2.0, 0.5, **SIZES)),
        (sghmc_velocity, lambda h: sghmc_noise_multiplier(h, 2.0, 0.5, **SIZES)),
        (sgnht, lambda h: sghmc_noise_multiplier(h, 1.5, **SIZES)),
        (sgfs, lambda h: sgfs_noise_multiplier(h, 0.8, **SIZES)),
    ],
)
def test_multiplier_is_the_noise_over_the_move_of_one_record(update, multiplier, h):
    """The released state is affine in the clipped sum Q and in the standard normal xi."""
    base = update(5.0, 0.0, h)
    one_record = update(5.0 + 0.7 * 900 / 30, 0.0, h) - base
    noise = update(5.0, 1.0, h) - base
    assert multiplier(h) == pytest.approx(abs(noise / one_record), rel=1e-8)


def test_generic_update():
    assert update_noise_multiplier(0.01, 0.02, **SIZES) == pytest.approx(
        sgld_noise_multiplier(0.01, **SIZES)
    )
    assert update_noise_multiplier(0.01, 0.0, **SIZES) == 0.0


@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.123, 160.0])
def test_free_step_is_where_privacy_starts_to_cost(sigma):
    step = free_step_size(sigma, **SIZES)
    assert step == pytest.approx(2 * 30**2 / (900 * 0.7 * sigma) ** 2)
    assert sgld_noise_multiplier(step, **SIZES) >= sigma
    assert sgld_noise_multiplier(step * (1 + 1e-9), **SIZES) < sigma
    below = private_langevin_noise(0.99 * step, sigma, **SIZES)
    assert below == (2 * 0.99 * step, 1.0)
    above = private_langevin_noise(2 * step, sigma, **SIZES)
    assert above.temperature == pytest.approx(2.0)
    assert update_noise_multiplier(2 * step, above.variance, **SIZES) == pytest.approx(sigma)
    assert free_step_size(0.0, **SIZES) == math.inf


def test_large_noise_limit_does_not_depend_on_the_batch_size():
    steps = 1e-4 * np.arange(1, 200) ** (-1 / 3)
    expected = 0.7 * math.sqrt(steps.sum() / 2)
    for batch in (5, 90):
        noise = [
            sgld_noise_multiplier(h, batch_size=batch, n_samples=900, clip_norm=0.7) for h in steps
        ]
        assert large_noise_mu(noise, batch / 900, "zero_out") == pytest.approx(expected)
        assert large_noise_mu(noise, batch / 900) == pytest.approx(2 * expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sgld_noise_multiplier(0.0, **SIZES), "step_size must be > 0"),
        (lambda: sgld_noise_multiplier(1.0, **SIZES | {"batch_size": 901}), "batch_size must be"),
        (lambda: sgld_noise_multiplier(1.0, **SIZES | {"clip_norm": 0.0}), "clip_norm must be > 0"),
        (lambda: sgld_noise_multiplier(1.0, **SIZES | {"n_samples": 9.5}), "n_samples must be"),
        (lambda: sghmc_noise_multiplier(0.1, 1.0, 1.0, **SIZES), "friction must be > noise"),
        (lambda: large_noise_mu([], 0.1), "noise_multipliers must be positive"),
        (lambda: large_noise_mu([1.0], 0.1, "both"), "adjacency"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
