"""Share of the hidden states that PrivateHMM finds, against epsilon.

Event logs of a known model: 20 sequences x 60 times, three states, fields of 10, 5 and 2 values.
With 50 events per cell a curve against epsilon; with 500 events per cell and epsilon = 1 at least
95 % are wanted. States are matched to the true ones as well as a renaming can.

    python benchmarks/bench_hmm_recovery.py [--quick] [--plot FILE]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from skdpbayes import PrivateHMM
from skdpbayes.datasets import make_event_log
from skdpbayes.samplers import match_states

SIZES = (10, 5, 2)
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
METHODS: dict[str, dict[str, Any]] = {
    "Laplace, noise-aware": {},
    "Laplace, naive": {"posterior": "naive"},
    "Gaussian, noise-aware, δ=1e-6": {"mechanism": "gaussian", "delta": 1e-6},
}


def share_found(log: Any, epsilon: float, seed: int, **params: Any) -> float:
    model = PrivateHMM(
        epsilon,
        categories=SIZES,
        n_times=60,
        sequence_labels=range(20),
        n_iter=80,
        burn_in=80,
        n_chains=1,
        random_state=seed,
        **params,
    ).fit(log.data, times=log.times, sequences=log.sequences)
    names = match_states(model.states_, log.states, 3)
    return float(np.mean(names[model.states_] == log.states))


def draw(found: dict[tuple[str, float], float], epsilons: tuple[float, ...], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, style in zip(METHODS, ("o-", "s--", "^:"), strict=True):
        ax.plot(epsilons, [found[name, e] for e in epsilons], style, label=name)
    ax.set(xscale="log", xlabel="ε", ylabel="share of states found")
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    ax.minorticks_off()
    ax.set_title("50 events per cell, three fields, 20 x 60 cells")
    ax.legend(frameon=False, loc="lower right")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one log, three epsilons")
    parser.add_argument("--plot", default=None, help="write the figure here")
    args = parser.parse_args()
    epsilons = (0.1, 1.0, 10.0) if args.quick else EPSILONS
    seeds = range(1 if args.quick else 3)
    logs = [make_event_log(20, 60, 50, categories=SIZES, random_state=seed) for seed in seeds]
    begin = time.process_time()
    found = {}
    for epsilon in epsilons:
        for name, params in METHODS.items():
            shares = [share_found(log, epsilon, i, **params) for i, log in enumerate(logs)]
            found[name, epsilon] = float(np.mean(shares))
            spent = time.process_time() - begin
            print(
                f"50 events, {epsilon:5g} {name:30s} {np.mean(shares):.3f} {spent:7.1f} s",
                flush=True,
            )
    large = [make_event_log(20, 60, 500, categories=SIZES, random_state=seed) for seed in seeds]
    shares = [share_found(log, 1.0, i) for i, log in enumerate(large)]
    print(f"500 events, epsilon 1: mean {np.mean(shares):.4f}, smallest {np.min(shares):.4f}")
    if args.plot:
        draw(found, epsilons, args.plot)


if __name__ == "__main__":
    main()
