from __future__ import annotations

import numpy as np

from skdpbayes.samplers import label_switching


def test_match_states_undoes_a_renaming():
    reference = np.array([0, 0, 1, 2, 2, 1, 0])
    renaming = np.array([2, 0, 1])
    names = label_switching.match_states(renaming[reference], reference, 3)
    np.testing.assert_array_equal(names[renaming[reference]], reference)


def test_relabeled_draws_agree_whatever_their_names_were():
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=200)
    draws = np.empty((60, 200), dtype=np.int8)
    for i in range(60):
        states = np.where(rng.random(200) < 0.1, rng.integers(3, size=200), truth)
        draws[i] = rng.permutation(3)[states]
    names = label_switching.relabel_draws(draws, draws[0].astype(np.int64), 3)
    frequency = label_switching.state_frequencies(draws, names)
    np.testing.assert_allclose(frequency.sum(axis=1), 1.0)
    assert frequency.max(axis=1).mean() > 0.9
    common = label_switching.match_states(frequency.argmax(axis=1), truth, 3)
    np.testing.assert_array_equal(common[frequency.argmax(axis=1)], truth)
    unnamed = label_switching.state_frequencies(draws, np.tile(np.arange(3), (60, 1)))
    assert unnamed.max(axis=1).mean() < 0.6  # without renaming the average says nothing


def test_a_bad_reference_is_repaired_by_the_rounds():
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=100)
    draws = np.array([truth, 1 - truth, truth, 1 - truth])
    reference = rng.integers(2, size=100)
    names = label_switching.relabel_draws(draws, reference, 2)
    frequency = label_switching.state_frequencies(draws, names)
    assert set(np.unique(frequency)) == {0.0, 1.0}
