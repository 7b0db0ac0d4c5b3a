"""Held-out log-likelihood of PrivateHMM against epsilon: Laplace, OPS, no privacy.

A tenth of the cells of an event log is held out; the models are fitted to the rest, and the events
of the held-out cells are scored under the state distribution that the rest of their chains implies.
One state is naive Bayes: every cell has the same distribution. FARS with ``--data`` (4 regions or
51 states x 48 months, five fields), otherwise a made-up log.

    python benchmarks/bench_hmm_held_out.py [--quick] [--data DIR [--sequences state]] [--plot FILE]
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from skdpbayes import PrivacyWarning, PrivateHMM
from skdpbayes.datasets import load_fars, make_event_log

DELTA = 1e-6
FEW = {"mechanism": "ops", "n_iter": 10, "burn_in": 10}
METHODS: dict[str, dict[str, Any]] = {
    "Laplace": {},
    "Laplace, naive": {"posterior": "naive"},
    "Laplace, 1 state": {"n_states": 1},
    "OPS, converged": {
        "mechanism": "ops",
        "calibration": "converged",
        "n_iter": 1,
        "burn_in": 200,
    },
    "OPS, per update": FEW,
    f"OPS, per update, δ={DELTA:g}": {**FEW, "delta": DELTA},
}


def cell_scores(model: PrivateHMM, log: Any, rows: np.ndarray) -> float:
    """Mean over held-out events of their cell's log-probability."""
    draws = model.sample_posterior()["emission"]
    logs = np.log(np.maximum(draws, 1e-300))
    begin = np.concatenate([[0], np.cumsum(model.categories_)[:-1]])
    cells = np.unique(np.column_stack([log.sequences[rows], log.times[rows]]), axis=0)
    chosen = logs[:: max(1, len(logs) // 50)]
    total = 0.0
    for place, month in cells:
        mine = rows[(log.sequences[rows] == place) & (log.times[rows] == month)]
        counts = np.zeros(logs.shape[2])
        for d in range(len(begin)):
            np.add.at(counts, begin[d] + log.data[mine, d], 1)
        # States share names over the draws, so each draw mixes its tables by the cell's weights.
        weight = np.log(np.maximum(model.state_proba_[place, month], 1e-4))
        mixed = logsumexp(chosen @ counts + weight - logsumexp(weight), axis=1)
        total += logsumexp(mixed) - np.log(len(mixed))
    return total / len(rows)


def run(log: Any, n_sequences: int, splits: range, epsilons: list[float], quick: bool) -> dict:
    """Score every method on every split; one line per fit, so that a long run can be followed."""
    shared = {
        "categories": log.n_categories,
        "n_times": log.n_times,
        "sequence_labels": range(n_sequences),
    }
    length = {"n_iter": 60, "burn_in": 40} if quick else {"n_iter": 120, "burn_in": 80}
    jobs: list[tuple[str, float, dict[str, Any]]] = [
        ("no privacy", np.inf, {}),
        ("no privacy, 1 state", np.inf, {"n_states": 1}),
    ]
    jobs += [(name, e, params) for e in epsilons for name, params in METHODS.items()]
    results: dict[tuple[str, float], list[float]] = {}
    begin = time.process_time()
    for split in splits:
        rng = np.random.default_rng(split)
        hidden = rng.random((n_sequences, log.n_times)) < 0.1
        out = hidden[log.sequences, log.times]
        rows, rest = np.flatnonzero(out), ~out
        for name, epsilon, params in jobs:
            settings = {"n_states": 3, "n_chains": 1, "random_state": split, **length, **shared}
            model = PrivateHMM(epsilon, **{**settings, **params})
            model.fit(log.data[rest], times=log.times[rest], sequences=log.sequences[rest])
            score = cell_scores(model, log, rows)
            results.setdefault((name, epsilon), []).append(score)
            spent = time.process_time() - begin
            print(
                f"split {split:2d} {name:26s} {epsilon:6g} {score:9.4f} {spent:7.1f} s", flush=True
            )
    return results


def read_rows(paths: list[str]) -> dict:
    """Read the lines that `run` printed, possibly by several processes."""
    results: dict[tuple[str, float], list[float]] = {}
    for path in paths:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            found = re.fullmatch(r"split +\d+ (.+?) +(\S+) +(\S+) +\S+ s", line)
            if found:
                key = found[1], float(found[2])
                results.setdefault(key, []).append(float(found[3]))
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

    figure, ax = plt.subplots(figsize=(8.5, 4.5), layout="constrained")
    for color, name in enumerate(dict.fromkeys(name for name, _ in results), -2):
        if (name, np.inf) in results:
            style = "--" if "1 state" in name else "-"
            ax.axhline(np.mean(results[name, np.inf]), ls=style, color="0.4", label=name)
            continue
        means = [np.mean(results[name, e]) for e in epsilons]
        errors = [np.std(results[name, e]) / np.sqrt(len(results[name, e])) for e in epsilons]
        ax.errorbar(epsilons, means, errors, fmt="o-", color=f"C{color}", label=name)
    ax.set(xscale="log", xlabel="ε", ylabel="log-likelihood per held-out event")
    top = max(np.mean(scores) for scores in results.values())
    ax.set_ylim(max(ax.get_ylim()[0], top - 0.8), top + 0.04)  # lines may leave the frame below
    ax.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    ax.minorticks_off()
    ax.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two splits, three epsilons")
    parser.add_argument("--data", default=None, help="folder with the FARS table")
    parser.add_argument(
        "--sequences", choices=("region", "state"), default="region", help="of FARS"
    )
    parser.add_argument("--splits", type=int, default=None)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--rows", nargs="+", help="read what earlier runs printed; fit nothing")
    parser.add_argument("--epsilons", type=float, nargs="+", default=None)
    parser.add_argument("--plot", default=None, help="write the figure here")
    args = parser.parse_args()
    full = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    epsilons = args.epsilons or ([0.1, 1.0, 10.0] if args.quick else full)
    if args.rows:
        results = read_rows(args.rows)
        epsilons = sorted({e for _, e in results if np.isfinite(e)})
    else:
        if args.data:
            log = load_fars(args.data, sequences=args.sequences)
            n_sequences = len(log.sequence_names)
        else:
            log, n_sequences = make_event_log(6, 40, 100, categories=(8, 4, 2), random_state=0), 6
        n_splits = args.splits or (2 if args.quick else 10)
        splits = range(args.first_split, args.first_split + n_splits)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            results = run(log, n_sequences, splits, epsilons, args.quick)
    show(results, epsilons)
    if args.plot:
        draw(results, epsilons, args.plot)


if __name__ == "__main__":
    main()
