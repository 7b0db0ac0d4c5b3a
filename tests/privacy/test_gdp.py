"""Gaussian differential privacy against high-precision arithmetic and published constants."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skdpbayes.privacy import gdp_delta, gdp_epsilon, gdp_log_delta, gdp_mu
from skdpbayes.privacy.mechanisms.gdp import log_tail_drop


def exact_log_delta(epsilon: float, mu: float) -> float:
    """The textbook formula with enough digits for its cancellation."""
    with mpmath.workdps(700):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        cdf = lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2  # noqa: E731
        return float(mpmath.log(cdf(m / 2 - e / m) - mpmath.exp(e) * cdf(-m / 2 - e / m)))


@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 1e-2, 0.1, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.05, 0.0999, 0.1, 0.7, 0.999, 1.0, 3.0, 12.0])
def test_log_delta_has_full_relative_precision(epsilon: float, mu: float) -> None:
    if epsilon / mu > 45.0:  # delta below 1e-440
        epsilon = 45.0 * mu
    exact = exact_log_delta(epsilon, mu)
    assert gdp_log_delta(epsilon, mu) == pytest.approx(exact, rel=2e-15, abs=2e-13)


def test_log_delta_far_beyond_underflow() -> None:
    # -z^2/2 - log(z^2 sqrt(2 pi) / mu) to leading order, z = 50 / 0.01 - 0.005
    z = 50.0 / 0.01 - 0.005
    leading = -0.5 * z * z - math.log(z * z * math.sqrt(2 * math.pi) / 0.01)
    assert gdp_log_delta(50.0, 0.01) == pytest.approx(leading, abs=1e-2)
    assert gdp_delta(50.0, 0.01) == 0.0


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu", "noise"),
    [
        (0.1, 1e-5, 0.0325207841, 30.7495661320),
        (1.0, 1e-5, 0.2680511232, 3.7306316348),
        (1.0, 1e-6, 0.2367043807, 4.2246788893),
        (5.0, 1e-5, 1.1212418238, 0.8918682650),
        (0.5, 1e-5, 0.1422105587, 1 / 0.1422105587),
        (2.0, 1e-5, 0.5015516892, 1 / 0.5015516892),
    ],
)
def test_mu_reference_values(epsilon: float, delta: float, mu: float, noise: float) -> None:
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, abs=6e-11)
    assert 1.0 / gdp_mu(epsilon, delta) == pytest.approx(noise, rel=2e-9)


@pytest.mark.parametrize(
    ("mu", "delta", "epsilon"),
    [(0.2, 1e-5, 0.7255217509), (1.0, 1e-5, 4.3771780957), (2.0, 1e-6, 10.9971512142)],
)
def test_epsilon_reference_values(mu: float, delta: float, epsilon: float) -> None:
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, abs=6e-11)


def test_delta_reference_value() -> None:
    assert gdp_delta(1.0, 0.5) == pytest.approx(0.0068295950, abs=6e-11)


@example(math.exp(3.59765625), math.exp(-690.5))
@settings(deadline=None, max_examples=150)
@given(
    st.floats(math.log(1e-4), math.log(50.0)).map(math.exp),
    st.floats(math.log(1e-300), math.log(0.9)).map(math.exp),
)
def test_mu_is_private_and_tight(epsilon: float, delta: float) -> None:
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(epsilon, mu) <= delta
    assert gdp_log_delta(epsilon, mu * (1 + 1e-10)) > math.log(delta) - 1e-9
    assert gdp_epsilon(mu, delta) <= epsilon  # what is calibrated is also reported so
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-10, abs=1e-10)


def test_private_side_in_high_precision() -> None:
    for epsilon, delta in [(1e-4, 1e-300), (1e-4, 1e-3), (1.0, 1e-5), (50.0, 1e-300)]:
        mu = gdp_mu(epsilon, delta)
        assert exact_log_delta(epsilon, mu) <= math.log(delta)
        assert exact_log_delta(gdp_epsilon(mu, delta), mu) <= math.log(delta)


def test_monotone() -> None:
    epsilons = np.linspace(0.0, 20.0, 200)
    for mu in (1e-3, 0.3, 0.9999, 1.0, 4.0):
        values = [gdp_log_delta(float(e), mu) for e in epsilons]
        assert np.all(np.diff(values) < 0.0)
    mus = np.geomspace(1e-3, 20.0, 300)
    values = [gdp_log_delta(1.0, float(mu)) for mu in mus]
    assert np.all(np.diff(values) > 0.0)


def test_the_two_formulas_meet() -> None:
    z = np.linspace(-0.4, 60.0, 50)
    below, above = log_tail_drop(z, np.nextafter(1.0, 0.0)), log_tail_drop(z, 1.0)
    np.testing.assert_allclose(below, above, rtol=0, atol=1e-12)


def test_limits_and_errors() -> None:
    assert gdp_delta(1.0, 0.0) == 0.0
    assert gdp_delta(1.0, math.inf) == 1.0
    assert gdp_delta(math.inf, 3.0) == 0.0
    assert gdp_epsilon(0.0, 0.0) == 0.0
    assert gdp_epsilon(1.0, 0.0) == math.inf
    assert gdp_epsilon(1.0, 1.0) == 0.0
    assert gdp_epsilon(0.1, 0.5) == 0.0
    assert gdp_mu(1.0, 0.0) == 0.0
    assert gdp_mu(math.inf, 1e-5) == math.inf
    assert gdp_mu(0.0, 0.5) == pytest.approx(1.3489795003921634, rel=1e-11)
    with pytest.raises(ValueError, match="epsilon must be >= 0, got -1"):
        gdp_delta(-1.0, 1.0)
    with pytest.raises(ValueError, match="mu must be >= 0, got nan"):
        gdp_delta(1.0, math.nan)
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\], got 2"):
        gdp_mu(1.0, 2.0)
