"""Deleting a record of several classes: the bound against the exact maximum over probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skdpbayes.privacy import calibrate_objective, gdp_delta
from skdpbayes.privacy.mechanisms import _softmax_record
from skdpbayes.privacy.mechanisms._softmax_record import spread_delta
from skdpbayes.privacy.mechanisms.objective_perturbation import _one_record_delta


def largest_losses(A, kappa):
    """Return max over p of <p, A> + kappa (1 - |p|^2) for every row: a projection on the simplex.

    The maximum is at the probabilities nearest to A / (2 kappa).
    """
    scaled = A / (2.0 * kappa)
    ordered = -np.sort(-scaled, axis=1)
    thresholds = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, A.shape[1] + 1)
    active = np.count_nonzero(ordered > thresholds, axis=1) - 1
    p = np.maximum(scaled - np.take_along_axis(thresholds, active[:, None], axis=1), 0.0)
    assert np.allclose(p.sum(axis=1), 1.0)
    return (p * A).sum(axis=1) + kappa * (1.0 - (p * p).sum(axis=1))


def pointwise_delta(epsilon, mu, side_mu, kappa, n_classes, n=400_000):
    """Return E (1 - e^(epsilon - L))_+ and its standard error, by tilted simulation.

    The tilt is even over the other classes: it moves xi_y up and one xi_j down.
    """
    rng = np.random.default_rng(5)
    xi = rng.standard_normal((n, n_classes))
    shift = (epsilon / math.hypot(mu, side_mu)) / math.sqrt(2.0)
    which = rng.integers(1, n_classes, n)
    xi[:, 0] += shift
    xi[np.arange(n), which] -= shift
    tilted = np.exp(shift * (xi[:, :1] - xi[:, 1:]) - shift**2).mean(axis=1)
    A = mu / math.sqrt(2.0) * (xi[:, :1] - xi) + 0.5 * mu * mu
    A[:, 0] = 0.0
    loss = largest_losses(A, kappa)
    if side_mu > 0.0:
        loss = loss + side_mu * rng.standard_normal(n) + 0.5 * side_mu**2
    value = -np.expm1(np.minimum(epsilon - loss, 0.0)) / tilted
    return value.mean(), value.std() / math.sqrt(n)


@pytest.mark.parametrize(
    ("epsilon", "mu", "side_mu", "kappa", "n_classes", "reached"),
    [
        (1.0, 0.25, 0.0, 0.3, 3, 0.8),
        (2.0, 0.45, 0.05, 0.7, 3, 0.7),
        (0.5, 0.13, 0.04, 0.1, 5, 0.6),
        (1.0, 0.23, 0.0, 0.18, 10, 0.5),
        (3.0, 1.2, 0.3, 0.5, 4, 0.6),
    ],
)
def test_the_bound_covers_the_largest_loss_and_little_more(
    epsilon, mu, side_mu, kappa, n_classes, reached
):
    truth, error = pointwise_delta(epsilon, mu, side_mu, kappa, n_classes)
    claim = spread_delta(epsilon, mu, side_mu, kappa, n_classes)
    assert error < 0.01 * truth
    assert reached * claim < truth - 4.0 * error
    assert truth + 4.0 * error < claim
    assert spread_delta(epsilon, mu, side_mu, 0.5 * kappa, n_classes) < claim
    old = _one_record_delta(epsilon, mu, side_mu, kappa + 0.25 * mu * mu, n_classes)
    assert claim < old  # the bound in which the largest loss meets the largest determinant


def test_without_gains_it_is_the_union_of_gaussians():
    for n_classes in (3, 6):
        exact = (n_classes - 1) * gdp_delta(1.0, 0.3)
        claim = spread_delta(1.0, 0.3, 0.0, 1e-6, n_classes)
        assert exact <= claim <= exact * (1.0 + 1e-3)


def test_fewer_nodes_cost_and_never_gain(monkeypatch):
    fine = spread_delta(1.0, 0.25, 0.02, 0.3, 5)
    monkeypatch.setattr(_softmax_record, "_NODES", 2)
    _softmax_record._gains.cache_clear()
    coarse = spread_delta(1.0, 0.25, 0.02, 0.3, 5)
    _softmax_record._gains.cache_clear()
    assert fine < coarse < 1.2 * fine


@pytest.mark.parametrize(
    ("n_classes", "curvature", "before", "now"),
    [(3, 0.35, 4.567, 4.09), (5, 0.27, 4.898, 4.29), (10, 0.2, 4.981, 4.44)],
)
def test_noise_of_the_default_penalty(n_classes, curvature, before, now):
    event = calibrate_objective(
        1.0, 1e-5, curvature=curvature, adjacency="zero_out", n_classes=n_classes
    )
    assert event.noise_multiplier < 0.92 * before
    assert event.noise_multiplier == pytest.approx(now, rel=0.01)
    assert event.delta_at(1.0) <= 1e-5
