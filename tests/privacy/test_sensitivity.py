"""Sensitivities of sums, against enumeration of all records."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skdpbayes.privacy.sensitivity import count_moves, moved


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("sizes", [(2,), (3, 2), (2, 3, 4)])
def test_counts_move_by_what_enumeration_finds(adjacency, sizes):
    records = [
        np.concatenate([np.eye(size)[code] for size, code in zip(sizes, codes, strict=True)])
        for codes in itertools.product(*map(range, sizes))
    ]
    others = [np.zeros(sum(sizes))] if adjacency == "zero_out" else records
    gaps = [one - other for one in records for other in others]
    l1, l2 = count_moves(len(sizes), adjacency)
    assert max(np.abs(gap).sum() for gap in gaps) == l1
    assert max(np.linalg.norm(gap) for gap in gaps) == pytest.approx(l2)
    assert l1 == moved(adjacency) * len(sizes)


def test_unknown_adjacencies_are_refused():
    with pytest.raises(ValueError, match="adjacency"):
        moved("add_remove")
