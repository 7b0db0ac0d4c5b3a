"""Held-out log-likelihood of PrivateHMM against epsilon: Laplace, Gaussian, OPS, no privacy.

A tenth of the cells of an event log is held out; the models are fitted to the rest, and the events
of the held-out cells are scored under the state distribution that the rest of their chains implies.
One state is naive Bayes: every cell has the same distribution. FARS with ``--data`` (4 regions x 48
months, five fields), otherwise a made-up log.

    python benchmarks/bench_hmm_held_out.py [--quick] [--data DIR] [--plot FILE]
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from scipy.special import logsumexp

from skdpbayes import PrivacyWarning, PrivateHMM
from skdpbayes.datasets import load_fars, make_event_log

DELTA = 1e-6
METHODS: dict[str, dict[str, Any]] = {
    "Laplace": {},
    "Laplace, projected": {"emission_posterior": "projected"},
    "Gaussian": {"mechanism": "gaussian", "delta": DELTA},
    "OPS, converged": {
        "mechanism": "ops",
        "ops_accounting": "converged",
        "n_chains": 1,
        "n_iter": 1,
        "burn_in": 200,
    },
    "OPS, per update": {"mechanism": "ops", "n_chains": 1, "n_iter": 10, "burn_in": 10},
}


def cell_scores(model: PrivateHMM, log: Any, rows: np.ndarray) -> float:
    """Mean over held-out events of their cell's log-probability."""
    draws = model.sample_posterior()["emission"]
    logs = np.log(np.maximum(draws, 1e-300))
    begin = np.concatenate([[0], np.cumsum(model.categories_)[:-1]])
    cells = np.unique(np.column_stack([log.groups[rows], log.times[rows]]), axis=0)
    chosen = logs[:: max(1, len(logs) // 50)]
    total = 0.0
    for group, time in cells:
        mine = rows[(log.groups[rows] == group) & (log.times[rows] == time)]
        counts = np.zeros(logs.shape[2])
        for d in range(len(begin)):
            np.add.at(counts, begin[d] + log.data[mine, d], 1)
        # States share names over the draws, so each draw mixes its tables by the cell's weights.
        weight = np.log(np.maximum(model.state_proba_[group, time], 1e-4))
        mixed = logsumexp(chosen @ counts + weight - logsumexp(weight), axis=1)
        total += logsumexp(mixed) - np.log(len(mixed))
    return total / len(rows)


def run(log: Any, n_groups: int, n_splits: int, epsilons: list[float], quick: bool) -> dict:
    shared = {
        "categories": log.n_categories,
        "n_times": log.n_times,
        "group_labels": range(n_groups),
    }
    results: dict[tuple[str, float], list[float]] = {}
    for split in range(n_splits):
        rng = np.random.default_rng(split)
        hidden = rng.random((n_groups, log.n_times)) < 0.1
        out = hidden[log.groups, log.times]
        rows, rest = np.flatnonzero(out), ~out
        jobs: list[tuple[str, float, dict[str, Any]]] = [
            ("no privacy", np.inf, {"emission_posterior": "projected"}),
            ("no privacy, 1 state", np.inf, {"n_states": 1}),
        ]
        jobs += [(name, e, params) for e in epsilons for name, params in METHODS.items()]
        jobs += [("Laplace, 1 state", e, {"n_states": 1}) for e in epsilons]
        for name, epsilon, params in jobs:
            length = {"n_iter": 40, "burn_in": 40} if quick else {"n_iter": 80, "burn_in": 80}
            settings = {"n_states": 3, "random_state": split, **length, **shared, **params}
            model = PrivateHMM(epsilon, **settings)
            model.fit(log.data[rest], times=log.times[rest], groups=log.groups[rest])
            score = cell_scores(model, log, rows)
            results.setdefault((name, epsilon), []).append(score)
    return results


def show(results: dict, epsilons: list[float]) -> None:
    print(f"{'log-likelihood per held-out event':33s}" + "".join(f"{e:>9g}" for e in epsilons))
    for name in dict.fromkeys(name for name, _ in results):
        if (name, np.inf) in results:
            values = [np.mean(results[name, np.inf])] * len(epsilons)
        else:
            values = [np.mean(results[name, e]) for e in epsilons]
        print(f"{name:33s}" + "".join(f"{value:9.4f}" for value in values))


def draw(results: dict, epsilons: list[float], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for color, name in enumerate(dict.fromkeys(name for name, _ in results)):
        if (name, np.inf) in results:
            style = "--" if "1 state" in name else "-"
            ax.axhline(np.mean(results[name, np.inf]), ls=style, color="0.4", label=name)
            continue
        means = [np.mean(results[name, e]) for e in epsilons]
        errors = [np.std(results[name, e]) / np.sqrt(len(results[name, e])) for e in epsilons]
        ax.errorbar(epsilons, means, errors, fmt="o-", color=f"C{color}", label=name)
    ax.set(xscale="log", xlabel="ε", ylabel="log-likelihood per held-out event")
    ax.legend(fontsize="small")
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits, three epsilons")
    parser.add_argument("--data", default=None, help="folder with the FARS table")
    parser.add_argument("--splits", type=int, default=None)
    parser.add_argument("--plot", default=None, help="write the figure here")
    args = parser.parse_args()
    epsilons = [0.1, 1.0, 10.0] if args.quick else [0.1, 0.3, 1.0, 3.0, 10.0]
    if args.data:
        log, n_groups = load_fars(args.data, groups="region"), 4
    else:
        log, n_groups = make_event_log(6, 40, 100, categories=(8, 4, 2), random_state=0), 6
    n_splits = args.splits or (2 if args.quick else 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        results = run(log, n_groups, n_splits, epsilons, args.quick)
    show(results, epsilons)
    if args.plot:
        draw(results, epsilons, args.plot)


if __name__ == "__main__":
    main()
