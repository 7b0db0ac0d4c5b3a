"""What `PrivateHMM` promises: noise, ranges of the sampler's updates, an audit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import beta

from skdpbayes import PrivateHMM
from skdpbayes.datasets import make_event_log
from skdpbayes.estimators.hmm.plan import CONVERGED, log_likelihood_range
from skdpbayes.privacy import BoundedRange, truncated_dirichlet_range

SIZES = np.array([4, 3, 2])
FAST = {"n_iter": 1, "burn_in": 0, "n_chains": 1, "n_states": 1}


def release(X, seed, **params):
    hmm = PrivateHMM(random_state=seed, **{**FAST, **params})
    return hmm.fit(X, times=np.zeros(len(X), int), sequences=np.zeros(len(X), int))


@pytest.mark.parametrize(
    ("params", "scale"),
    [
        ({"epsilon": 1.0}, 6.0),
        ({"epsilon": 0.5, "adjacency": "zero_out"}, 6.0),
        ({"epsilon": 2.0}, 3.0),
    ],
)
def test_pure_laplace_scale_is_the_number_of_moved_counts_over_epsilon(params, scale):
    X = np.zeros((50, 3), int)
    grid = {"categories": SIZES, "n_times": 1, "sequence_labels": [0]}
    assert release(X, 0, **grid, **params).noise_.scale == pytest.approx(scale, rel=1e-12)


def test_delta_buys_less_noise_and_never_more():
    X = np.zeros((50, 14), int)
    grid = {"categories": 2, "n_times": 1, "sequence_labels": [0], "delta": 1e-5}
    laplace = release(X, 0, **grid).noise_.scale
    gaussian = release(X, 0, mechanism="gaussian", **grid).noise_.scale
    assert gaussian < laplace * np.sqrt(2) < 28 * np.sqrt(2)
    assert gaussian == pytest.approx(19.74, abs=0.05)


def test_the_released_noise_has_the_claimed_scale():
    # Standard deviation of a sample of 12,000; the scales 2/3 and 3/2 of it are far outside.
    log = make_event_log(20, 60, 5, categories=(5, 5), random_state=0)
    exact = np.zeros((20, 60, 10), int)
    for d in range(2):
        np.add.at(exact, (log.sequences, log.times, 5 * d + log.data[:, d]), 1)
    hmm = PrivateHMM(
        1.0, categories=5, n_times=60, sequence_labels=range(20), random_state=0, **FAST
    ).fit(log.data, times=log.times, sequences=log.sequences)
    noise = hmm.released_counts_ - exact
    scale = hmm.noise_.scale
    expected = np.sqrt(2 * np.exp(-1 / scale)) / (1 - np.exp(-1 / scale))
    assert abs(noise.std() / expected - 1) < 5 * np.sqrt(5 / 4 / noise.size)
    assert abs(noise.mean()) < 5 * expected / np.sqrt(noise.size)
    assert (noise < 0).any()  # counts are not clipped


def epsilon_lower_bound(first, second):
    """What runs on two neighbors prove at 99.9 % confidence, from a threshold at zero."""
    runs = [(np.sum(first > 0.0), len(first)), (np.sum(second <= 0.0), len(second))]
    worst = [beta.ppf(0.9995, errors + 1, n - errors) for errors, n in runs]
    return max(np.log((1 - worst[0]) / worst[1]), np.log((1 - worst[1]) / worst[0]))


@pytest.mark.parametrize("adjacency", ["replace_one", "zero_out"])
def test_audit_of_the_release_on_worst_neighbors(adjacency):
    # Every field of the event changes, and its cell: 2D counts move (D where it is deleted). The
    # noise of different sequences is independent, so each of 4000 sequences is a run of its own.
    n_runs = 4000
    X, times = np.zeros((n_runs, 2), int), np.zeros(n_runs, int)
    sequences = np.arange(n_runs)

    def statistics(events, when, where, epsilon, seed):
        hmm = PrivateHMM(
            epsilon,
            adjacency=adjacency,
            categories=(2, 2),
            n_times=2,
            sequence_labels=range(n_runs),
            random_state=seed,
            posterior="naive",
            **FAST,
        )
        y = hmm.fit(events, times=when, sequences=where).released_counts_
        # How many of the moved counts lie on the second data set's side: the likelihood ratio.
        moved = [1.0 - y[:, 0, 0], 1.0 - y[:, 0, 2]]
        if adjacency == "replace_one":
            moved += [y[:, 1, 1], y[:, 1, 3]]
        return np.sum(np.array(moved) >= 0.5, axis=0) - len(moved) + 0.5

    def audit(epsilon):
        first = statistics(X, times, sequences, epsilon, 1)
        if adjacency == "replace_one":
            second = statistics(X + 1, times + 1, sequences, epsilon, 2)
        else:  # events elsewhere keep the table from being empty
            second = statistics(X[:1], times[:1] + 1, sequences[:1], epsilon, 2)[1:]
        return epsilon_lower_bound(first, second)

    claimed = 2.0
    assert audit(claimed) <= claimed
    assert audit(2 * claimed) > claimed  # half the noise is caught


def plan(**params):
    return PrivateHMM(mechanism="ops", categories=SIZES, **params).plan(1000, 3).plan


def test_range_of_an_event_adds_over_fields():
    expected = sum(truncated_dirichlet_range(v, 0.2 / v) for v in (4, 3, 2))
    assert log_likelihood_range(SIZES, 0.2) == pytest.approx(expected)
    assert log_likelihood_range(np.array([1]), 0.2) == 0.0


def test_converged_temperature_is_that_of_one_exponential_mechanism_a_chain():
    width = log_likelihood_range(SIZES, 0.1)
    one = plan(epsilon=1.0, calibration="converged", n_chains=1)
    assert one.inverse_temperature == pytest.approx(1.0 / (2 * width))
    assert one.conditions == (CONVERGED,)
    two = plan(epsilon=1.0, calibration="converged", n_chains=2)
    assert two.inverse_temperature == pytest.approx(0.5 / (2 * width))
    deleted = plan(epsilon=1.0, calibration="converged", n_chains=1, adjacency="zero_out")
    assert deleted.inverse_temperature == pytest.approx(1.0 / width)


@pytest.mark.parametrize("state_sampler", ["ffbs", "collapsed"])
def test_per_update_prices_two_updates_a_sweep(state_sampler):
    settings = {"n_chains": 2, "n_iter": 20, "burn_in": 5, "state_sampler": state_sampler}
    width = log_likelihood_range(SIZES, 0.1)
    pure = plan(epsilon=1.0, **settings)
    assert pure.inverse_temperature == pytest.approx(1.0 / 100 / (2 * width))
    assert pure.conditions == ()
    assert pure.event.epsilon_at(0.0) <= 1.0
    approximate = plan(epsilon=1.0, delta=1e-5, **settings)
    assert approximate.event.epsilon_at(1e-5) <= 1.0
    assert approximate.inverse_temperature > 2 * pure.inverse_temperature
    assert plan(epsilon=1e9, **settings).inverse_temperature == 1.0


RHO, FLOOR = 0.37, 0.1


def updates(theta, cells, transition):
    """Exact distribution of the block of states of two cells, given emissions of one field."""
    paths = np.array(list(product(range(2), repeat=2)))
    weight = np.log(transition[paths[:, 0], paths[:, 1]])
    for cell, value in cells:
        weight = weight + RHO * np.log(theta[paths[:, cell], value])
    return weight - np.logaddexp.reduce(weight)


def worst_state_update(floor):
    """Largest privacy loss of the block update over neighbors and emissions at the corners."""
    corner = [floor, 1 - floor]
    losses = []
    for first, second in product(corner, repeat=2):
        theta = np.array([[first, 1 - first], [second, 1 - second]])
        for rest in ([], [(0, 0)] * 8 + [(1, 1)] * 8, [(0, 1)] * 30 + [(1, 0)] * 30):
            for stay in (0.5, 1e-6, 1 - 1e-6):
                transition = np.array([[stay, 1 - stay], [1 - stay, stay]])
                for mine, other in product(product((0, 1), (0, 1)), repeat=2):
                    gap = updates(theta, [*rest, mine], transition)
                    gap = gap - updates(theta, [*rest, other], transition)
                    losses.append((np.abs(gap).max(), np.ptp(gap)))
    return np.max(losses, axis=0)


def test_a_state_block_reveals_at_most_the_range_and_nearly_that():
    eta = 2 * RHO * truncated_dirichlet_range(2, FLOOR)
    loss, width = worst_state_update(FLOOR)
    assert loss <= eta * (1 + 1e-12)
    assert width <= eta * (1 + 1e-12)
    assert loss > 0.95 * eta  # so the price of an update cannot be lowered
    assert worst_state_update(FLOOR / 4)[0] > eta  # without the floor the claim is broken


def test_a_pair_update_reveals_at_most_the_range():
    eta = 2 * RHO * truncated_dirichlet_range(2, FLOOR)
    bound = np.log((1 - FLOOR) / FLOOR)
    grid = np.linspace(-bound, bound, 20_001)

    def log_density(counts):
        value = -(RHO * counts[0] + 1) * np.logaddexp(0, -grid)
        value -= (RHO * counts[1] + 1) * np.logaddexp(0, grid)
        return value - np.logaddexp.reduce(value)

    losses = [
        np.abs(log_density((n + 1, m)) - log_density((n, m + 1))).max()
        for n, m in ((0, 0), (300, 0), (0, 300), (40, 2))
    ]
    assert max(losses) <= eta * (1 + 1e-9)
    assert max(losses) > 0.8 * eta


def test_the_floor_holds_and_the_claim_is_stated():
    log = make_event_log(2, 10, 50, categories=SIZES, random_state=0)
    hmm = PrivateHMM(
        2.0,
        mechanism="ops",
        categories=SIZES,
        n_times=10,
        sequence_labels=range(2),
        n_iter=4,
        burn_in=1,
        n_chains=1,
        random_state=0,
    ).fit(log.data, times=log.times, sequences=log.sequences)
    emission = hmm.sample_posterior()["emission"]
    assert emission.shape == (4, 3, 9)
    assert emission[..., :4].min() >= 0.1 / 4 - 1e-9
    np.testing.assert_allclose(emission[..., :4].sum(axis=-1), 1.0, atol=1e-8)
    assert hmm.privacy_.conditions == ()
    assert hmm.privacy_.epsilon_at(0.0) <= 2.0
    converged = PrivateHMM(
        2.0,
        mechanism="ops",
        calibration="converged",
        categories=SIZES,
        n_times=10,
        sequence_labels=range(2),
        n_iter=4,
        n_chains=1,
        random_state=0,
    ).fit(log.data, times=log.times, sequences=log.sequences)
    assert converged.privacy_.conditions == (CONVERGED,)
    assert isinstance(converged.privacy_.event, BoundedRange)
