"""Bounds of audits against the values of the papers and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from skdpbayes.auditing import (
    clopper_pearson_upper,
    epsilon_lower_bound,
    mu_lower_bound,
    one_run_epsilon,
    one_run_p_value,
)


@pytest.mark.parametrize(
    ("counts", "delta", "expected", "mu"),
    [
        ((0, 1000, 0, 1000), 1e-5, 5.6005774943, 5.3598225375),
        ((10, 1000, 500, 1000), 1e-5, 3.2419952494, 2.0109859396),
        ((100, 1000, 100, 1000), 0.0, 1.9897063137, 2.3470972323),
    ],
)
def test_two_data_sets(counts, delta, expected, mu):
    assert epsilon_lower_bound(*counts, delta=delta) == pytest.approx(expected, rel=1e-9)
    assert mu_lower_bound(*counts) == pytest.approx(mu, rel=1e-9)


def test_two_data_sets_is_symmetric_and_never_negative():
    assert epsilon_lower_bound(3, 500, 40, 700) == epsilon_lower_bound(40, 700, 3, 500)
    assert epsilon_lower_bound(250, 500, 250, 500) == 0.0
    assert epsilon_lower_bound(500, 500, 500, 500) == 0.0
    assert mu_lower_bound(500, 500, 500, 500) == 0.0


@pytest.mark.parametrize("n_events", [0, 1, 17, 99, 100])
def test_clopper_pearson_is_the_exact_binomial_inversion(n_events):
    bound = clopper_pearson_upper(n_events, 100, 0.01)
    if n_events == 100:
        assert bound == 1.0
    else:
        assert binom.cdf(n_events, 100, bound) == pytest.approx(0.01, rel=1e-9)


def test_clopper_pearson_covers():
    """The bound fails at most as often as allowed, counted exactly."""
    for truth in (0.01, 0.1, 0.5):
        counts = np.arange(201)
        fails = [clopper_pearson_upper(k, 200, 0.05) < truth for k in counts]
        assert binom.pmf(counts, 200, truth)[fails].sum() <= 0.05


@pytest.mark.parametrize(
    ("m", "r", "v", "delta", "expected"),
    [
        (1000, 100, 75, 1e-4, 0.6729846641),
        (1000, 100, 75, 0.0, 0.7022139309),
        (1000, 100, 100, 1e-5, 3.4653763478),
        (1000, 1000, 600, 1e-5, 0.2972269537),
        (10000, 1000, 900, 1e-6, 2.0206455959),
    ],
)
def test_one_run(m, r, v, delta, expected):
    assert one_run_epsilon(m, r, v, delta=delta) == pytest.approx(expected, rel=1e-8)


def test_one_run_p_value_against_its_definition():
    m, r, v, epsilon, delta = 60, 40, 31, 0.4, 1e-3
    rate = 1 / (1 + np.exp(-epsilon))
    pmf = binom.pmf(np.arange(r + 1), r, rate)
    gaps = [pmf[v - i : v].sum() / i for i in range(1, v + 1)]
    expected = pmf[v:].sum() + 2 * m * delta * max(gaps)
    assert one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(expected, rel=1e-9)
    assert one_run_p_value(m, r, 0, epsilon, delta) == 1.0
    assert one_run_epsilon(m, r, r // 2) == 0.0


def test_one_run_false_alarms_under_randomized_response():
    """Randomized response attains the bound: alarms at the true epsilon are as rare as claimed."""
    m, epsilon, level = 200, 1.0, 0.05
    rate = 1 / (1 + np.exp(-epsilon))
    counts = np.arange(m + 1)
    alarms = [one_run_p_value(m, m, int(v), epsilon) < level for v in counts]
    rate_of_alarms = binom.pmf(counts, m, rate)[alarms].sum()
    assert 0.02 < rate_of_alarms <= level


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: clopper_pearson_upper(5, 4, 0.1), "n_events"),
        (lambda: clopper_pearson_upper(1, 4, 0.0), "level"),
        (lambda: epsilon_lower_bound(1, 4, 1, 4, confidence=1.0), "confidence"),
        (lambda: one_run_p_value(10, 11, 5, 1.0), "n_guesses"),
        (lambda: one_run_epsilon(10, 10, 5, confidence=0.0), "confidence"),
    ],
)
def test_bad_numbers_are_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
