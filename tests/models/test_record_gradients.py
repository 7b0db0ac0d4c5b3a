"""Clipped sums of gradients by record: against a few lines of NumPy, and exact."""

from __future__ import annotations

import numpy as np
import pytest

from skdpbayes.models import sum_unit
from skdpbayes.models.record_gradients import add_clipped_records

SIZES = (3, 17)


def records(seed=0, n=50):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, size)).astype(np.float32) for size in SIZES]


def clipped_sum(pieces, clip_norm, unit=0.0):
    out = np.zeros(sum(SIZES))
    add_clipped_records(pieces, clip_norm, unit, out)
    return out


@pytest.mark.parametrize("clip_norm", [0.5, 4.0, np.inf])
def test_sum_is_that_of_numpy(clip_norm):
    pieces = records()
    whole = np.concatenate(pieces, axis=1).astype(np.float64)
    factors = np.minimum(1.0, clip_norm / np.linalg.norm(whole, axis=1))
    expected = (factors[:, None] * whole).sum(axis=0)
    np.testing.assert_allclose(clipped_sum(pieces, clip_norm), expected, rtol=1e-8, atol=1e-8)


def test_sum_does_not_depend_on_order_or_blocks():
    pieces, unit = records(), sum_unit(50, 0.5)
    whole = clipped_sum(pieces, 0.5, unit)
    order = np.random.default_rng(1).permutation(50)
    parts = clipped_sum([piece[order[:13]] for piece in pieces], 0.5, unit)
    add_clipped_records([piece[order[13:]] for piece in pieces], 0.5, unit, parts)
    np.testing.assert_array_equal(parts, whole)
    # without the unit it does
    assert not np.array_equal(
        clipped_sum(pieces, 0.5), clipped_sum([piece[order] for piece in pieces], 0.5)
    )


def test_no_record_adds_more_than_the_clipping_norm():
    for scale in (1e-30, 1.0, 1e30):
        one = [piece[:1] * np.float32(scale) for piece in records()]
        added = np.linalg.norm(clipped_sum(one, 0.5, sum_unit(50, 0.5)))
        assert added <= 0.5
        assert added > 0.499 or scale < 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_adds_nothing(bad):
    pieces, unit = records(), sum_unit(50, 0.5)
    pieces[1][7, 3] = bad
    others = np.arange(50) != 7
    np.testing.assert_array_equal(
        clipped_sum(pieces, 0.5, unit), clipped_sum([p[others] for p in pieces], 0.5, unit)
    )
