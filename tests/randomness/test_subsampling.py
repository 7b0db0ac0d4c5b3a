from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

from skdpbayes.randomness import (
    fixed_subset,
    fixed_subsets,
    make_generator,
    poisson_subset,
    poisson_subsets,
    subsampling,
)
from skdpbayes.randomness._words import draw_words
from tests.randomness.statistics import FALSE_ALARM


def assert_valid(rows, n):
    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()
    if rows.size:
        assert rows[0] >= 0
        assert rows[-1] < n


def size_p_value(sizes, n, rate):
    """Chi-square p-value of sample sizes against Binomial(n, rate)."""
    pmf = stats.binom(n, rate).pmf(np.arange(n + 1))
    frequent = np.flatnonzero(pmf * sizes.size >= 10)
    low, high = (frequent[0], frequent[-1]) if frequent.size else (0, n)
    expected = np.bincount(np.clip(np.arange(n + 1), low, high) - low, weights=pmf) * sizes.size
    observed = np.bincount(np.clip(sizes, low, high) - low, minlength=expected.size)
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1)


@pytest.mark.parametrize(
    ("n", "rate"), [(10, 0.3), (63, 0.5), (64, 0.1), (1000, 0.02), (1000, 0.9), (257, 1 / 3)]
)
def test_poisson_sizes_are_binomial(n, rate):
    sizes = np.diff(poisson_subsets(make_generator(1), n, rate, 6000)[1])
    assert size_p_value(sizes, n, rate) > FALSE_ALARM
    assert size_p_value(sizes, n, rate * 2 / 3) < FALSE_ALARM
    assert size_p_value(sizes, n, min(rate * 3 / 2, (1 + rate) / 2)) < FALSE_ALARM


def test_poisson_rows_are_independent():
    # All 2^4 subsets of four rows, by their exact probabilities.
    rows, starts = poisson_subsets(make_generator(2), 4, 0.3, 8000)
    which = np.repeat(np.arange(8000), np.diff(starts))
    seen = np.bincount(np.bincount(which, weights=1 << rows, minlength=8000).astype(int))
    size = np.array([bin(s).count("1") for s in range(16)])
    expected = 8000 * 0.3**size * 0.7 ** (4 - size)
    assert stats.chisquare(seen, expected).pvalue > FALSE_ALARM


def test_poisson_inclusion_is_even():
    generator = make_generator(3)
    n, rate, times = 200, 0.15, 2000
    seen = np.zeros(n)
    for _ in range(times):
        rows = poisson_subset(generator, n, rate)
        assert_valid(rows, n)
        seen[rows] += 1
    statistic = ((seen - times * rate) ** 2).sum() / (times * rate * (1 - rate))
    assert FALSE_ALARM < stats.chi2.sf(statistic, n) < 1 - FALSE_ALARM


@pytest.mark.parametrize("size", [0, 1, 3, 5, 6])
def test_fixed_subsets_are_uniform(size):
    generator = make_generator(4)
    subsets = dict.fromkeys(combinations(range(6), size), 0)
    for _ in range(3000):
        rows = fixed_subset(generator, 6, size)
        assert_valid(rows, 6)
        subsets[tuple(rows.tolist())] += 1
    if len(subsets) > 1:
        assert stats.chisquare(list(subsets.values())).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n", "size"), [(128, 12), (128, 120), (1000, 500), (65, 64)])
def test_fixed_inclusion_is_even(n, size):
    generator = make_generator(5)
    times = 2000
    seen = np.zeros(n)
    out = np.empty(n, dtype=np.int64)
    for _ in range(times):
        rows = fixed_subset(generator, n, size, out)
        assert rows.size == size
        assert_valid(rows, n)
        seen[rows] += 1
    share = size / n
    # The counts sum to a constant: n - 1 degrees of freedom at variance inflated by n / (n - 1).
    statistic = ((seen - times * share) ** 2).sum() / (times * share * (1 - share)) * (n - 1) / n
    assert FALSE_ALARM < stats.chi2.sf(statistic, n - 1) < 1 - FALSE_ALARM


@pytest.mark.parametrize("subset", [poisson_subset, fixed_subset])
@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65])
def test_none_and_all(subset, n):
    whole = 1.0 if subset is poisson_subset else n
    assert subset(make_generator(0), n, 0).size == 0
    np.testing.assert_array_equal(subset(make_generator(0), n, whole), np.arange(n))


def test_empty_data():
    assert poisson_subset(make_generator(0), 0, 0.5).size == 0


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-30])
def test_vanishing_rates(rate):
    assert poisson_subset(make_generator(0), 10_000, rate).size == 0


@pytest.mark.parametrize("rate", [1 - 2**-53, 1 - 1e-12])
def test_rates_next_to_one(rate):
    assert poisson_subset(make_generator(0), 1000, rate).size == 1000


def test_the_buffer_is_reused():
    out = np.empty(100, dtype=np.int64)
    assert np.shares_memory(poisson_subset(make_generator(0), 100, 0.2, out), out)
    assert np.shares_memory(fixed_subset(make_generator(0), 100, 20, out), out)


@pytest.mark.parametrize(("subset", "amount"), [(poisson_subset, 0.2), (fixed_subset, 20)])
def test_reproducible_with_and_without_buffer(subset, amount):
    first = subset(make_generator(6), 100, amount)
    np.testing.assert_array_equal(
        first, subset(make_generator(6), 100, amount, np.empty(150, dtype=np.int64))
    )


def test_popcount():
    words = draw_words(make_generator(8), 200).tolist()
    for word in [0, 1, 2**63, 2**64 - 1, *words]:
        assert subsampling._popcount(np.uint64(word)) == int(word).bit_count()


def test_marks_by_hand():
    # Two 32-bit numbers to a word, the low one first; numbers beyond n and repeated ones are
    # skipped. The first subset is {1, 2}, the second one, inverted, all but {4}.
    words = np.array([6 << 32 | 2, 1 << 32 | 2, 0 << 32 | 4], dtype=np.uint64)
    starts = np.array([0, 2, 6], dtype=np.int64)
    rows = np.full(6, -1, dtype=np.int64)
    marks, state = np.zeros(1, dtype=np.uint64), np.zeros(2, dtype=np.int64)
    for word in words[:1], words[1:2]:
        assert not subsampling._fill(word, 5, starts, rows, marks, state)
    assert state.tolist() == [1, 0]
    assert subsampling._fill(words[2:], 5, starts, rows, marks, state)
    assert rows.tolist() == [1, 2, 0, 1, 2, 3]
    assert marks.tolist() == [0]


def test_marks_beyond_32_bits():
    marks, state = np.zeros((2**33 >> 6) + 1, dtype=np.uint64), np.zeros(2, dtype=np.int64)
    words = np.array([2**34 - 1, 2**33, 5, 2**33], dtype=np.uint64)  # a row >= n, a repeated one
    starts, rows = np.array([0, 2], dtype=np.int64), np.empty(2, dtype=np.int64)
    assert subsampling._fill(words, 2**33 + 1, starts, rows, marks, state)
    assert rows.tolist() == [5, 2**33]
    assert marks[0] == marks[-1] == 0


@pytest.mark.parametrize("n", [300, 5000])
def test_many_subsets_are_those_of_one_by_one_laws(n):
    rows, starts = poisson_subsets(make_generator(9), n, 2 / n, 4000)
    sizes = np.diff(starts)
    assert size_p_value(sizes, n, 2 / n) > FALSE_ALARM
    assert size_p_value(sizes, n, 3 / n) < FALSE_ALARM
    parts = [rows[a:b] for a, b in pairwise(starts)]
    for part in parts:
        assert_valid(part, n)
    seen = np.bincount(rows, minlength=n).reshape(20, -1).sum(axis=1)
    assert stats.chisquare(seen).pvalue > FALSE_ALARM
    # consecutive subsets are independent: they share a row as often as chance has it
    shared = sum(np.intersect1d(a, b).size for a, b in pairwise(parts))
    assert abs(shared - 3999 * 4 / n) < 5 * np.sqrt(3999 * 4 / n)
    rows, starts = fixed_subsets(make_generator(9), n, 7, 50)
    assert np.array_equal(starts, np.arange(0, 351, 7))
    for a, b in pairwise(starts):
        assert_valid(rows[a:b], n)


@pytest.mark.parametrize(
    ("subset", "arguments", "name"),
    [
        (poisson_subset, (10, -0.1), "rate"),
        (poisson_subset, (10, 1.1), "rate"),
        (poisson_subset, (10, np.nan), "rate"),
        (fixed_subset, (10, 11), "size"),
        (fixed_subset, (10, -1), "size"),
        (poisson_subset, (-1, 0.5), "n must be"),
        (poisson_subset, (10, 0.5, np.empty(9, dtype=np.int64)), "out"),
        (fixed_subset, (10, 5, np.empty(4, dtype=np.int64)), "out"),
        (fixed_subset, (10, 5, np.empty(10)), "out"),
    ],
)
def test_bad_arguments(subset, arguments, name):
    with pytest.raises(ValueError, match=name):
        subset(make_generator(0), *arguments)
