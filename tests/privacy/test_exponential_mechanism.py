"""Ranges, temperatures and published constants against searches, quadrature and known values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from skdpbayes.exceptions import CalibrationError
from skdpbayes.privacy import (
    bounded_range_delta,
    bounded_range_eta,
    exponential_mechanism_epsilon,
    exponential_mechanism_inverse_temperature,
    logistic_range,
    minami2016_mu,
    softmax_range,
    truncated_dirichlet_range,
    wang2015_inverse_temperature,
)

SOFTMAX = {
    2: [0.1414213562, 1.4142135624, 2.8284271247, 7.0710678119, 28.2842712475],
    3: [0.1632540119, 1.5927043591, 3.0256122563, 7.0988121470, 28.2842719688],
    10: [0.1897085517, 1.8694407759, 3.5801571964, 7.4230259407, 28.2842770121],
}


@pytest.mark.parametrize("n_classes", SOFTMAX)
def test_softmax_range_published_values(n_classes):
    got = [softmax_range(c, n_classes) for c in (0.1, 1.0, 2.0, 5.0, 20.0)]
    np.testing.assert_allclose(got, SOFTMAX[n_classes], rtol=1e-10, atol=5e-11)


@pytest.mark.parametrize("n_classes", [3, 4, 7])
@pytest.mark.parametrize("norm", [0.05, 0.7, 3.0, 8.0])
def test_softmax_range_covers_and_nearly_equals_a_search_over_all_logits(n_classes, norm):
    """Projected gradient ascent from many starts: cross entropy on the sphere."""
    rng = np.random.default_rng(n_classes)
    s = rng.normal(size=(60, n_classes))
    s *= norm / np.linalg.norm(s, axis=1, keepdims=True)
    target = np.eye(n_classes)[0]
    for _ in range(400):
        gradient = np.exp(s - logsumexp(s, axis=1, keepdims=True)) - target
        s = norm * gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    highest = (logsumexp(s, axis=1) - s[:, 0]).max()
    away = -norm * np.eye(n_classes)[0] + norm / n_classes
    away *= -norm / np.linalg.norm(away)
    lowest = logsumexp(away) - away[0]
    claimed = softmax_range(norm, n_classes)
    assert claimed >= (highest - lowest) * (1 - 1e-12)
    assert claimed == pytest.approx(highest - lowest, rel=1e-7)


@pytest.mark.parametrize("norm", [1e-4, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("n_classes", [2, 3, 5, 40])
def test_softmax_range_lies_between_its_bounds(norm, n_classes):
    value = softmax_range(norm, n_classes)
    assert value >= math.sqrt(2) * norm * (1 - 1e-12)
    assert value <= 2 * norm * math.sqrt(1 - 1 / n_classes) * (1 + 1e-9)


def test_replacing_a_row_by_its_opposite_needs_more_than_two_root_two():
    """x' = -x under the same label: the range of the difference is 2 AR, above 2 sqrt(2) c."""
    norm, n_classes = 0.1, 10
    direction = -np.eye(n_classes)[0] + 1.0 / n_classes
    s = np.linspace(-1, 1, 2001)[:, None] * norm * direction / np.linalg.norm(direction)
    gap = (logsumexp(s, axis=1) - s[:, 0]) - (logsumexp(-s, axis=1) + s[:, 0])
    assert np.ptp(gap) > 2 * math.sqrt(2) * norm * 1.3
    assert np.ptp(gap) == pytest.approx(2 * softmax_range(norm, n_classes), rel=1e-3)
    assert np.ptp(gap) <= 2 * softmax_range(norm, n_classes)


@pytest.mark.parametrize("norm", [0.0, 0.3, 1.0, 1.4, 6.0])
def test_binary_ranges_against_a_grid(norm):
    u = np.linspace(-norm, norm, 4001)
    assert logistic_range(norm) == pytest.approx(np.ptp(np.logaddexp(0, -u)), abs=1e-12)
    flipped = np.logaddexp(0, -u) - np.logaddexp(0, u)
    assert 2 * logistic_range(norm) == pytest.approx(np.ptp(flipped), abs=1e-12)


def one_dimensional_epsilon(n, adjacency):
    """Exact epsilon of a 1-d logistic posterior, rho = .5, R = 1, r = 2, rest at u = -1."""
    x, weight = np.polynomial.legendre.leggauss(200)
    x, weight = (x + 1) / 2, weight / 2
    theta, weight = 4 * x**3 - 2, 12 * x**2 * weight  # nodes crowd where the posterior does
    rest = -(n - 1) * np.logaddexp(0, theta)
    first = 0.5 * (rest - np.logaddexp(0, -theta))
    second = 0.5 * (rest - (np.logaddexp(0, theta) if adjacency == "replace_one" else 0.0))
    ends = np.array([-2.0, 2.0])
    gap = logsumexp(second, b=weight) - logsumexp(first, b=weight)
    other = np.logaddexp(0, ends) if adjacency == "replace_one" else 0.0
    return np.abs(0.5 * (other - np.logaddexp(0, -ends)) + gap).max()


@pytest.mark.parametrize(
    ("adjacency", "values", "bound"),
    [
        ("replace_one", [1.0, 1.6273845545, 1.9308298413, 1.9918137353, 1.9991632313], 2.0),
        ("zero_out", [0.6817151171, 0.6967645166, 0.9398354250, 0.9928001129, 0.9992630868], 1.0),
    ],
)
def test_exact_one_dimensional_posteriors_approach_the_bound(adjacency, values, bound):
    got = [one_dimensional_epsilon(n, adjacency) for n in (1, 10, 100, 1000, 10000)]
    np.testing.assert_allclose(got, values, atol=2e-9)
    claimed = exponential_mechanism_epsilon(0.5, logistic_range(2.0), adjacency)
    assert claimed == bound
    assert max(got) < claimed
    assert max(got) > 0.99 * claimed  # so two thirds of the claim would be false


def test_inverse_temperature_inverts_on_the_private_side():
    for epsilon in (0.01, 0.3, 1.0, 7.0):
        for value in (logistic_range(math.sqrt(2)), softmax_range(1.7, 5)):
            for adjacency, factor in (("replace_one", 2.0), ("zero_out", 1.0)):
                beta = exponential_mechanism_inverse_temperature(epsilon, value, adjacency)
                assert beta == pytest.approx(epsilon / (factor * value), rel=1e-14)
                assert exponential_mechanism_epsilon(beta, value, adjacency) <= epsilon


def test_several_draws_share_the_budget():
    beta = exponential_mechanism_inverse_temperature(1.0, 2.0, delta=1e-5, n_draws=100)
    eta = exponential_mechanism_epsilon(beta, 2.0)
    assert eta == pytest.approx(bounded_range_eta(1.0, 1e-5, 100))
    assert bounded_range_delta(1.0, eta, 100) <= 1e-5
    assert beta > 5 * exponential_mechanism_inverse_temperature(1.0, 2.0, n_draws=100)


def test_wang2015_constant():
    """4 B over the exact 2 R r, at R r = .5, 1, 2, 5."""
    norms = np.array([0.5, 1.0, 2.0, 5.0])
    tight = [exponential_mechanism_inverse_temperature(1.0, logistic_range(c)) for c in norms]
    published = [wang2015_inverse_temperature(1.0, c) for c in norms]
    np.testing.assert_allclose(
        np.divide(tight, published),
        [3.8963079367, 2.6265233750, 2.1269280110, 2.0026861394],
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    ("epsilon", "corollary8", "theorem7"),
    [
        (0.1, 0.0204014301, 0.0207946758),
        (0.5, 0.1020071503, 0.1030912628),
        (1.0, 0.2040143006, 0.2040585129),
        (2.0, None, 0.4001134223),
        (5.0, None, 0.9482863285),
    ],
)
def test_minami2016_values(epsilon, corollary8, theorem7):
    assert minami2016_mu(epsilon, 1e-5, "theorem7") == pytest.approx(theorem7, abs=1e-10)
    if corollary8 is None:
        with pytest.raises(CalibrationError, match="Corollary 8"):
            minami2016_mu(epsilon, 1e-5)
    else:
        assert minami2016_mu(epsilon, 1e-5) == pytest.approx(corollary8, abs=1e-10)
        assert minami2016_mu(epsilon, 1e-5) <= minami2016_mu(epsilon, 1e-5, "theorem7")


def test_minami2016_corollary_does_not_follow_beyond_its_range():
    log_term = math.log(1e5)
    limit = 2 / (1 + math.sqrt(2 * log_term / (1 + 2 * log_term)))
    assert limit == pytest.approx(1.0106, abs=5e-5)
    for epsilon, valid in ((limit - 1e-6, True), (limit + 1e-6, False)):
        corollary = epsilon / math.sqrt(1 + 2 * log_term)
        assert (corollary <= minami2016_mu(epsilon, 1e-5, "theorem7")) is valid
    with pytest.raises(CalibrationError, match="delta > 0"):
        minami2016_mu(0.5, 0.0)


@pytest.mark.parametrize(
    ("n_categories", "minimum", "temperature"),
    [(2, 0.2, 2.7725887222), (2, 0.05, 5.8888779583), (10, 0.001, 13.7974290687)],
)
def test_truncated_dirichlet_temperatures(n_categories, minimum, temperature):
    value = truncated_dirichlet_range(n_categories, minimum)
    beta = exponential_mechanism_inverse_temperature(1.0, value)
    assert 1 / beta == pytest.approx(temperature, abs=1e-9)
    corners = np.full((n_categories, n_categories), minimum)
    np.fill_diagonal(corners, 1 - (n_categories - 1) * minimum)
    logs = np.log(corners)
    assert np.ptp(logs[:, 0]) == pytest.approx(value)
    assert np.ptp(logs[:, 0] - logs[:, 1]) == pytest.approx(2 * value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exponential_mechanism_epsilon(1.0, 1.0, "add_remove"), "adjacency must be"),
        (lambda: exponential_mechanism_inverse_temperature(0.0, 1.0), "epsilon must be > 0"),
        (lambda: exponential_mechanism_inverse_temperature(1.0, 0.0), "loss_range must be > 0"),
        (lambda: softmax_range(1.0, 1), "n_classes must be an integer >= 2"),
        (lambda: truncated_dirichlet_range(4, 0.25), "minimum must be below"),
        (lambda: minami2016_mu(0.5, 1e-5, "theorem9"), "result must be"),
        (lambda: logistic_range(-1.0), "norm must be >= 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_posterior_draw_has_the_claimed_bounded_range_profile():
    """The exact hockey-stick divergence of a 1-d posterior pair stays below the profile."""
    theta, weight = np.polynomial.legendre.leggauss(300)
    theta, weight = 2 * theta, 2 * weight
    for n in (1, 30):
        rest = (n - 1) * np.log(expit(-theta))
        densities = []
        for u in (1.0, -1.0):
            log_density = 0.5 * (rest + np.log(expit(u * theta)))
            densities.append(np.exp(log_density - logsumexp(log_density, b=weight)))
        for epsilon in (0.0, 0.5, 1.5):
            gap = np.maximum(densities[0] - math.exp(epsilon) * densities[1], 0)
            assert weight @ gap <= bounded_range_delta(epsilon, 2.0)
