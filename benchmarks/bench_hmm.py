"""A Gibbs sweep of PrivateHMM beside an EM iteration of hmmlearn on the same counts.

hmmlearn's ``MultinomialHMM`` (``implementation="scaling"``) takes one field of counts per step,
so the comparison uses one field of 17 values with 50 events per step. The sweep is one full Gibbs
sweep: emissions, transitions, all states in one block, and the true counts where the noise is
modeled.
Where each step has a single event hmmlearn's ``CategoricalHMM`` is the faster peer: it looks the
event up, while we keep noisy indicators of all values. Times are processor seconds of one thread.

    python benchmarks/bench_hmm.py [--quick]
    pip install hmmlearn       # optional; without it only our times are printed
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from skdpbayes import models, randomness
from skdpbayes.datasets import make_event_log
from skdpbayes.estimators.hmm import chain as hmm_chain
from skdpbayes.estimators.hmm.evidence import (
    CountEvidence,
    NoisyCellEvidence,
    NoisyRowEvidence,
    fractions,
)
from skdpbayes.estimators.hmm.grid import Grid

N_VALUES, EVENTS, SCALE = 17, 50, 2.0


def fastest(function: Any, repeats: int) -> float:
    """Return the fastest of several runs: what else the machine does only adds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def make_counts(n_sequences: int, n_times: int, n_states: int, events: int) -> np.ndarray:
    log = make_event_log(
        n_sequences,
        n_times,
        events,
        n_states=n_states,
        categories=(N_VALUES,),
        random_state=0,
    )
    steps = log.sequences * n_times + log.times
    return models.count_events(log.data, steps, n_sequences * n_times, log.n_categories)


def sweep_time(
    counts: np.ndarray, lengths: np.ndarray, n_states: int, reading: str, repeats: int
) -> float:
    generator = randomness.make_generator(0)
    grid, begin = Grid(lengths, False), np.array([0, N_VALUES])
    sampler = "collapsed" if reading == "collapsed" else "ffbs"
    prior = hmm_chain.Prior(n_states, begin, 1.0, 1.0, 0.0, sampler)
    noisy = randomness.release_counts(generator, counts, SCALE, noise="laplace")
    evidence: Any
    if reading == "noise aware":
        evidence = NoisyCellEvidence(noisy, begin, grid.starts, EVENTS, "laplace", SCALE)
    elif reading == "noise aware, rows":
        evidence = NoisyRowEvidence(noisy, begin, "laplace", SCALE)
    elif reading == "exact rows":
        evidence = CountEvidence(counts)
    else:
        evidence = CountEvidence(np.maximum(noisy, 0))
    features = fractions(noisy, begin)
    states = hmm_chain.seed_states(features, grid, n_states, 1, generator)
    state = hmm_chain._State(states, features * EVENTS)
    state = hmm_chain._sweep(evidence, state, grid, prior, generator)

    def sweeps() -> None:  # some parts are done every fourth sweep only
        for _ in range(4):
            hmm_chain._sweep(evidence, state, grid, prior, generator)

    return fastest(sweeps, repeats) / 4


def hmmlearn_time(
    peer: str, counts: np.ndarray, lengths: np.ndarray, n_states: int, repeats: int
) -> float | None:
    """Time of one EM iteration: the difference of two runs leaves checks and the start out."""
    try:
        from hmmlearn import hmm
    except ImportError:
        return None
    import logging

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    data = counts if peer == "MultinomialHMM" else counts.argmax(axis=1)[:, None]

    def fit(n_iter: int) -> None:
        model = getattr(hmm, peer)(
            n_states, n_iter=n_iter, tol=-np.inf, implementation="scaling", random_state=0
        )
        if peer == "MultinomialHMM":
            model.n_trials = counts.sum(axis=1)
        model.fit(data, lengths)

    return (fastest(lambda: fit(4), repeats) - fastest(lambda: fit(1), repeats)) / 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller chains, fewer repeats")
    args = parser.parse_args()
    shapes = [(20, 200), (1, 10_000 if args.quick else 100_000)]
    repeats = 2 if args.quick else 5
    head = f"{'chains x steps':>15s} {'K':>3s} {'reading of counts':>18s} {'sweep':>9s}"
    print(f"{head}  {'EM iteration of hmmlearn':>28s} {'ratio':>7s}")
    compared = (
        ("MultinomialHMM", EVENTS, ("as they are", "collapsed", "noise aware")),
        ("CategoricalHMM", 1, ("exact rows", "noise aware, rows")),
    )
    for peer, events, readings in compared:
        for n_sequences, n_times in shapes:
            for n_states in (3, 10):
                counts = make_counts(n_sequences, n_times, n_states, events)
                lengths = np.full(n_sequences, n_times)
                em = hmmlearn_time(peer, counts, lengths, n_states, 1 if args.quick else 2)
                for reading in readings:
                    own = sweep_time(counts, lengths, n_states, reading, repeats)
                    name = f"{n_sequences} x {n_times}"
                    line = f"{name:>15s} {n_states:3d} {reading:>18s} {1e3 * own:6.1f} ms"
                    if em is not None:
                        line += f"  {peer:>15s} {1e3 * em:9.1f} ms {own / em:7.2f}"
                    print(line, flush=True)


if __name__ == "__main__":
    main()
