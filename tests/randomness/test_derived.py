from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from skdpbayes.randomness import derived_generator, derived_state, make_generator, spawn


@pytest.mark.parametrize("state", [7, np.random.SeedSequence(7), np.random.SeedSequence([1, 2])])
def test_seeds_give_another_stream_for_each_purpose(state):
    streams = [make_generator(state).integers(2**62, size=4).tolist()]
    for purpose in [(1,), (2,), (0, 1), (1, 0)]:
        first, again = (derived_generator(state, *purpose).integers(2**62, size=4) for _ in "ab")
        np.testing.assert_array_equal(first, again)
        streams.append(first.tolist())
    sequence = state if isinstance(state, np.random.SeedSequence) else np.random.SeedSequence(state)
    # what we spawn from a seed, and what a caller spawns from it by NumPy's idiom
    children = [*spawn(make_generator(deepcopy(state)), 3)]
    children += [make_generator(child) for child in deepcopy(sequence).spawn(3)]
    streams += [child.integers(2**62, size=4).tolist() for child in children]
    assert len({tuple(stream) for stream in streams}) == len(streams)


def test_states_that_move_on_are_left_alone():
    state = np.random.RandomState(0)
    assert derived_state(state, 1) is state
    assert derived_state(None, 1) is None
