"""Binomial numbers: enclosures against exact fractions, and the same law along every path."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from skdpbayes.randomness import _binomial, make_generator
from skdpbayes.randomness._binomial import binomial, enclose_cumulative
from tests.randomness.statistics import FALSE_ALARM


def exact_cumulative(n, rate):
    r = Fraction(rate)
    total, out = Fraction(0), []
    for k in range(n + 1):
        total += comb(n, k) * r**k * (1 - r) ** (n - k)
        out.append(total)
    return out


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("rate", [0.5, 0.3, 1e-3, 0.999, 2**-60, 1e-200, 1 - 2**-53])
@pytest.mark.parametrize("bits", [3, 64, 200])
def test_the_exact_law_is_enclosed(n, rate, bits):
    first, low, high = enclose_cumulative(n, rate, bits)
    exact = [Fraction(0), *exact_cumulative(n, rate)]  # F(-1), F(0), ...
    assert first >= -1
    assert first + len(low) <= n + 1
    for i, (below, above) in enumerate(zip(low, high, strict=True)):
        value = exact[first + i + 1] * 2**bits
        assert below <= value <= above
        assert above - below <= 2  # an enclosure, not a guess
    # what the enclosure leaves out is next to nothing
    assert exact[first + 1] * 2**bits <= 1
    assert (1 - exact[first + len(low)]) * 2**bits <= 1
    assert low == sorted(low)
    assert high == sorted(high)


@pytest.mark.parametrize(("n", "rate"), [(32_561, 180 / 32_561), (10**5, 0.13), (10**6, 1e-9)])
def test_large_numbers_against_scipy(n, rate):
    first, low, _ = enclose_cumulative(n, rate, 64)
    k = np.arange(first, first + len(low))
    np.testing.assert_allclose(
        np.array(low, dtype=float) / 2.0**64, stats.binom(n, rate).cdf(k), rtol=1e-6, atol=1e-9
    )


def test_a_word_stands_for_the_number_whose_cell_it_is_in():
    # n = 2, rate 0.3: 16 F = 7.84, 14.56, 16; words of 4 bits
    first, low, high = _binomial._table(2, 0.3, 4)
    out = np.empty(16, dtype=np.int64)
    _binomial._search(np.arange(16, dtype=np.uint64), first, low, high, out)
    assert out.tolist() == [0] * 7 + [-1] + [1] * 6 + [-1] * 2


@pytest.mark.parametrize("bits", [1, 4, 9, 64])
@pytest.mark.parametrize(("n", "rate"), [(12, 0.3), (400, 0.01), (50, 0.97)])
def test_the_law_does_not_depend_on_how_many_bits_are_looked_at_first(n, rate, bits):
    count = 4000 if bits > 8 else 800
    numbers = binomial(make_generator(bits), n, rate, count, bits=bits)
    k = np.arange(n + 1)
    for factor, agrees in ((1.0, True), (2 / 3, False)):
        pmf = stats.binom(n, factor * rate).pmf(k)
        common = pmf * count >= 10
        edges = np.flatnonzero(common)
        cells = np.clip(k, edges[0], edges[-1]) - edges[0]
        expected = np.bincount(cells, weights=pmf) * count
        seen = np.bincount(cells[numbers], minlength=expected.size)
        p_value = stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), expected.size - 1)
        assert (p_value > FALSE_ALARM) == agrees


def test_few_bits_send_numbers_down_the_long_path(monkeypatch):
    calls = []
    decide = _binomial._decide
    monkeypatch.setattr(_binomial, "_decide", lambda *a: calls.append(a) or decide(*a))
    binomial(make_generator(0), 400, 0.5, 300, bits=4)
    assert len(calls) > 150
    calls.clear()
    binomial(make_generator(0), 400, 0.5, 3000)
    assert not calls


def test_a_tie_is_decided_by_further_bits():
    # F(0) = 1/3 rounded: its first bits followed by anything must be looked at again
    n, rate = 1, 2 / 3
    low = int(Fraction(1 - Fraction(rate)) * 2**64)
    numbers = [_binomial._decide(make_generator(seed), n, rate, low, 64) for seed in range(60)]
    share = float(Fraction(1 - Fraction(rate)) * 2**64 - low)
    assert stats.binomtest(numbers.count(0), 60, share).pvalue > FALSE_ALARM
