from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from skdpbayes import models
from skdpbayes.models import GRID, NaiveBayesLayout
from skdpbayes.models.naive_bayes import moment_offset
from skdpbayes.privacy.sensitivity import moved

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_category_tables_match_bincount(dtype):
    X = RNG.integers(0, 3, (200, 4)).astype(dtype)
    codes = RNG.integers(0, 2, 200)
    counts = np.zeros((2, 6), dtype=np.int64)
    starts, sizes = np.array([0, 3]), np.array([3, 3])
    assert models.count_categories(X, np.array([3, 1]), codes, starts, sizes, counts) == -1
    for c in range(2):
        expected = [np.bincount(X[codes == c, j].astype(int), minlength=3) for j in (3, 1)]
        np.testing.assert_array_equal(counts[c], np.concatenate(expected))


@pytest.mark.parametrize("value", [-1.0, 3.0, 0.5])
def test_a_value_that_is_no_code_is_reported(value):
    X = np.zeros((5, 2))
    X[3, 1] = value
    counts = np.zeros((1, 6), dtype=np.int64)
    found = models.count_categories(
        X, np.arange(2), np.zeros(5, int), np.array([0, 3]), np.array([3, 3]), counts
    )
    assert found == 1


def test_ones_and_tokens_agree_between_dense_and_sparse():
    X = RNG.poisson(0.7, (60, 5)).astype(float)
    codes = RNG.integers(0, 3, 60)
    for threshold in (0.0, 1.0):
        dense = models.count_ones(X, np.arange(5), codes, threshold, 3)
        other = models.count_ones(sparse.csr_array(X), np.arange(5), codes, threshold, 3)
        expected = np.stack([(X[codes == c] > threshold).sum(axis=0) for c in range(3)])
        np.testing.assert_array_equal(dense, expected)
        np.testing.assert_array_equal(other, expected)
    expected = np.stack([X[codes == c].sum(axis=0) for c in range(3)])
    np.testing.assert_array_equal(models.count_tokens(X, codes, 3), expected)
    np.testing.assert_array_equal(models.count_tokens(sparse.csr_array(X), codes, 3), expected)


def test_clipped_rows_keep_their_proportions():
    X = np.array([[1, 0, 2], [10, 30, 60], [0, 0, 0]])
    clipped = models.clip_tokens(X, 10)
    np.testing.assert_array_equal(clipped, [[1, 0, 2], [1, 3, 6], [0, 0, 0]])
    found = models.clip_tokens(sparse.csr_array(X), 10).toarray()
    np.testing.assert_array_equal(found, clipped)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8), st.integers(1, 50))
def test_clipping_never_exceeds_the_bound(row, bound):
    clipped = models.clip_tokens(np.array([row]), bound)[0]
    assert clipped.sum() == min(sum(row), bound)
    assert (clipped >= 0).all()
    assert (clipped <= row).all()


def test_moments_are_those_of_the_standardized_grid_values():
    x = RNG.uniform(90, 112, (50, 1))
    codes = RNG.integers(0, 2, 50)
    low, high = np.array([100.0]), np.array([110.0])
    sums = models.sum_moments(x, np.array([0]), codes, low, high, 7 * GRID**2 // 8, 2)
    tau = np.rint((np.clip(x[:, 0], 100, 110) - 105) / 5 * GRID)
    for c in range(2):
        assert sums[c, 0, 0] == tau[codes == c].sum()
        assert sums[c, 0, 1] == (7 * GRID**2 // 8 - tau[codes == c] ** 2).sum()


def statistics(layout, rows, labels, noise, n_classes=3):
    from skdpbayes.estimators.naive_bayes.layout import count_block
    from skdpbayes.fitting.records import Block

    return count_block(Block(rows, labels), layout, n_classes, noise)


MIXED = NaiveBayesLayout(
    table_columns=(0, 1),
    n_values=(2, 4),
    binary=(True, False),
    token_columns=(2, 3),
    max_total=5,
    moment_columns=(4, 5),
    bounds=((100.0, 101.0), (-7.0, -3.0)),
)
LAYOUTS = {
    "mixed": MIXED,
    "tables": NaiveBayesLayout(table_columns=(0, 1), n_values=(2, 4), binary=(True, False)),
    "tokens": NaiveBayesLayout(token_columns=(0, 1, 2, 3), max_total=5),
    "moments": NaiveBayesLayout(moment_columns=(4, 5), bounds=((100.0, 101.0), (-7.0, -3.0))),
    "one moment": NaiveBayesLayout(moment_columns=(4,), bounds=((100.0, 101.0),)),
    "tables and moments": NaiveBayesLayout(
        table_columns=(0,), n_values=(2,), binary=(True,), moment_columns=(5,), bounds=((-7, -3),)
    ),
}

record = st.tuples(
    st.integers(0, 1),
    st.integers(0, 3),
    st.integers(0, 9),
    st.integers(0, 9),
    st.one_of(st.sampled_from([100.0, 101.0, 100.5, 100.75, 100.25]), st.floats(90, 110)),
    st.one_of(st.sampled_from([-7.0, -3.0, -5.0, -4.0, -6.0]), st.floats(-9, 0)),
)
labeled = st.tuples(record, st.integers(0, 2))


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=150, deadline=None)
@given(first=labeled, second=labeled)
def test_no_record_moves_the_statistics_by_more_than_the_sensitivity(name, first, second):
    layout = LAYOUTS[name]
    scaled = {}
    for noise in ("laplace", "gaussian"):
        one, other = (
            statistics(
                layout,
                np.array([rec], dtype=float)[:, : 4 if name == "tokens" else 6],
                np.array([label]),
                noise,
            )
            / layout.units()
            for rec, label in (first, second)
        )
        scaled[noise] = {"zero_out": one, "replace_one": one - other}
    for adjacency in ("zero_out", "replace_one"):
        l1 = np.abs(scaled["laplace"][adjacency]).sum()
        squared = (scaled["gaussian"][adjacency] ** 2).sum()
        assert l1 <= layout.l1_sensitivity(moved(adjacency)) * (1 + 1e-12)
        assert squared <= layout.squared_l2_sensitivity(moved(adjacency)) * (1 + 1e-12)


def worst(layout, adjacency, noise, power):
    """Largest move over a lattice of records (each block's extreme points) and two labels."""
    t = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    pairs = layout.bounds or ((0.0, 1.0),)
    low, high = pairs[0]
    best = 0.0
    records = [
        (a, a * 3, 5 * a, 5 * (1 - a), low + (v + 1) / 2 * (high - low)) for a in (0, 1) for v in t
    ]
    rows = np.array([[*r, -5.0 + 2.0 * (r[4] - low) / (high - low) * 2 - 2.0] for r in records])
    moved = [
        statistics(
            layout,
            row[None, : 4 if layout.token_columns == (0, 1, 2, 3) else 6],
            np.array([c]),
            noise,
        )
        / layout.units()
        for row in rows
        for c in (0, 1)
    ]
    others = moved if adjacency == "replace_one" else [np.zeros_like(moved[0])]
    for one in moved:
        for other in others:
            best = max(best, (np.abs(one - other) ** power).sum())
    return best


@pytest.mark.parametrize(
    "name", ["tables", "tokens", "moments", "one moment", "tables and moments"]
)
@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_sensitivities_are_attained(name, adjacency):
    layout = LAYOUTS[name]
    assert worst(layout, adjacency, "laplace", 1) == pytest.approx(
        layout.l1_sensitivity(moved(adjacency))
    )
    assert worst(layout, adjacency, "gaussian", 2) == pytest.approx(
        layout.squared_l2_sensitivity(moved(adjacency))
    )


def test_offsets_are_optimal():
    t = np.linspace(-1, 1, 4001)
    l1 = [(np.abs(t) + np.abs(k - t**2)).max() for k in np.linspace(0, 1.5, 151)]
    l2 = [(t**2 + (k - t**2) ** 2).max() for k in np.linspace(0, 1.5, 151)]
    assert min(l1) >= 1.125 - 1e-9
    assert min(l2) >= 1 - 1e-9
    assert moment_offset("laplace") == 0.875
    assert moment_offset("gaussian") == 1.0
