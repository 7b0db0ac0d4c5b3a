"""Sensitivities of sums, against enumeration of all records."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from skdpbayes.privacy.sensitivity import moment_moves, moved


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("sizes", [(2,), (3, 2), (2, 3, 4)])
def test_counts_move_by_what_enumeration_finds(adjacency, sizes):
    records = [
        np.concatenate([np.eye(size)[code] for size, code in zip(sizes, codes, strict=True)])
        for codes in itertools.product(*map(range, sizes))
    ]
    others = [np.zeros(sum(sizes))] if adjacency == "zero_out" else records
    gaps = [one - other for one in records for other in others]
    cells = moved(adjacency) * len(sizes)
    assert max(np.abs(gap).sum() for gap in gaps) == cells
    assert max(np.linalg.norm(gap) for gap in gaps) == pytest.approx(math.sqrt(cells))


def test_unknown_adjacencies_are_refused():
    with pytest.raises(ValueError, match="adjacency"):
        moved("add_remove")


WEIGHTS = {"of_x": 0.5, "of_y": math.sqrt(0.125), "of_xy": 1.0, "of_yy": 0.5}
NO_INTERCEPT = {**WEIGHTS, "of_x": 0.0, "of_y": 0.0}


def weighted_moments(x, y, of_x, of_y, of_xy, of_yy):
    """The contribution of a record, written out."""
    products = [
        (1.0 if j == k else math.sqrt(2.0)) * x[j] * x[k]
        for j in range(len(x))
        for k in range(j, len(x))
    ]
    return np.concatenate([of_x * x, products, [of_y * y], of_xy * x * y, [of_yy * y**2]])


def farthest(d, adjacency, weights, order, n_starts=12):
    """Search for the records that are farthest apart: from corners and from random points."""

    def distance(free):
        records = free.reshape(2, d + 1)
        ends = []
        for record in records:
            x = record[:d] / max(1.0, np.linalg.norm(record[:d]))
            ends.append(weighted_moments(x, float(np.clip(record[d], -1.0, 1.0)), **weights))
        if adjacency == "zero_out":
            ends[1] = np.zeros_like(ends[1])
        return -float(np.linalg.norm(ends[0] - ends[1], order))

    rng = np.random.default_rng(d)
    corners = [np.array(c) for c in itertools.product([-1.0, 0.0, 1.0], repeat=2 * d + 2)]
    starts = sorted(corners, key=distance)[:4]
    starts += list(1.5 * rng.normal(size=(n_starts, 2 * d + 2)))
    options = {"maxiter": 4000, "xatol": 1e-9, "fatol": 1e-12}
    return max(-minimize(distance, s, method="Nelder-Mead", options=options).fun for s in starts)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [WEIGHTS, NO_INTERCEPT], ids=["intercept", "none"])
@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_records_are_farther_apart_than_the_sensitivity_of_moments(d, adjacency, weights):
    l1, l2 = moment_moves(d, adjacency, **weights)
    found = [farthest(d, adjacency, weights, order) for order in (1, 2)]
    assert found[0] <= l1 * (1.0 + 1e-12)
    assert found[1] <= l2 * (1.0 + 1e-12)
    if adjacency == "zero_out":
        assert found[0] >= l1 * (1.0 - 1e-6)
    if adjacency == "zero_out" or d > 1:
        assert found[1] >= l2 * (1.0 - 1e-6)
    assert found[0] >= (0.69 if d == 1 else 0.87) * l1  # a claim twice too large would be seen


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((0.5, math.sqrt(0.125), 1.0, 0.5), 2.2980970389),
        ((0.5, math.sqrt(0.125), 1.0, 0.9), 2.2980970389),  # the squared target is free so far
        ((0.0, 0.0, 1.0, 0.5), 2.1213203436),
        ((0.5, 0.5, 1.0, 0.5), 2.4044230077),
        ((0.7, 0.2, 1.2, 0.5), 2.7789296501),
    ],
)
def test_replaced_moments_at_several_weights(weights, expected):
    names = ("of_x", "of_y", "of_xy", "of_yy")
    named = dict(zip(names, weights, strict=True))
    assert moment_moves(3, "replace_one", **named)[1] == pytest.approx(expected, abs=1e-9)


def test_weights_beyond_the_proof_are_refused():
    with pytest.raises(ValueError, match="of_yy"):
        moment_moves(3, "replace_one", **{**WEIGHTS, "of_yy": 0.95})
    with pytest.raises(ValueError, match="both or none"):
        moment_moves(3, "replace_one", **{**WEIGHTS, "of_y": 0.0})
