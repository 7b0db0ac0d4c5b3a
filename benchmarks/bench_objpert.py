"""Accuracy and speed of ObjPertLogisticRegression on Adult, beside its peers in the same run.

    python benchmarks/bench_objpert.py --data FOLDER [--quick] [--parts speed accuracy regret]
        [--diffprivlib-python PYTHON] [--opacus-python PYTHON]

Without a folder (or ``SKDPBAYES_DATA``) the made-up census stands in for Adult. diffprivlib and
Opacus need versions of scikit-learn and torch of their own, so each runs in the interpreter that
the option names; its rows are left out if the option is.

"regret" holds ``C="auto"`` against every fixed C of a grid, with the same seeds and real fits, on
Adult, Abalone, the votes of the House and the made-up census; the best C is picked on the same
runs, which overstates what the rule loses.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpbayes import ObjPertLogisticRegression, datasets
from skdpbayes.exceptions import PrivacyWarning

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Mean test accuracies of tuned baselines that did not pay for their tuning, delta = 1e-5
BASELINES = {
    ("raw", "zero_out", 1e-5): (0.8144, 0.8275, 0.8346, 0.8412, 0.8446, 0.8480, 0.8512),
    ("raw", "replace_one", 1e-5): (0.7992, 0.8129, 0.8262, 0.8356, 0.8408, 0.8451, 0.8502),
    ("log", "zero_out", 1e-5): (0.8188, 0.8329, 0.8412, 0.8459, 0.8471, 0.8477, 0.8478),
    ("log", "replace_one", 1e-5): (0.8040, 0.8172, 0.8316, 0.8421, 0.8441, 0.8471, 0.8477),
    ("raw", "replace_one", 0.0): (0.7521, 0.7690, 0.8006, 0.8230, 0.8328, 0.8387, 0.8445),
    ("log", "replace_one", 0.0): (0.7557, 0.7742, 0.8048, 0.8284, 0.8392, 0.8431, 0.8472),
}
BASELINE_NAMES = {1e-5: "tight Gaussian, best penalty", 0.0: "diffprivlib, tuned"}
PENALTY_GRID = 10.0 ** np.arange(-3.5, 2.1, 0.5)  # fixed C that "auto" is held against
SETTINGS = (("zero_out", 1e-5), ("replace_one", 1e-5), ("replace_one", 0.0))
ALONE = {"inference_budget": 0.0, "margin": 3.0}
CONFIGURATIONS = {
    "defaults": {},
    "coefficients only": {"inference_budget": 0.0},
    "coefficients only, margin 3": ALONE,
}
# Indicators and numbers scaled to [0, 1]; only pure noise makes use of it
NONNEGATIVE = {
    "defaults, nonnegative": {"nonnegative": True},
    "coefficients only, margin 3, nonnegative": {**ALONE, "nonnegative": True},
}

DIFFPRIVLIB = """
import json, sys, time, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
data = np.load(sys.argv[1]); epsilons = json.loads(sys.argv[2]); seeds = int(sys.argv[3])
rows, seconds = [], []
for epsilon in epsilons:
    scores = []
    for seed in range(seeds):
        start = time.perf_counter()
        model = LogisticRegression(
            epsilon=epsilon, data_norm=1.0, fit_intercept=False, random_state=seed)
        model.fit(data["X"], data["y"]); seconds.append(time.perf_counter() - start)
        scores.append(model.score(data["X_test"], data["y_test"]))
    rows.append(float(np.mean(scores)))
print(json.dumps({"accuracy": rows, "seconds": float(np.median(seconds))}))
"""

OPACUS = """
import json, sys, time, warnings
import numpy as np, torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset
warnings.simplefilter("ignore")
data = np.load(sys.argv[1]); epsilons = json.loads(sys.argv[2]); seeds = int(sys.argv[3])
X, y = torch.tensor(data["X"]).float(), torch.tensor(data["y"]).float()
X_test = torch.tensor(data["X_test"]).float()
rows, seconds = [], []
for epsilon in epsilons:
    scores = []
    for seed in range(seeds):
        torch.manual_seed(seed); start = time.perf_counter()
        model = torch.nn.Linear(X.shape[1], 1); torch.nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=4.0)
        loader = DataLoader(TensorDataset(X, y), batch_size=1024)
        model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=model, optimizer=optimizer, data_loader=loader, epochs=10,
            target_epsilon=epsilon, target_delta=1e-5, max_grad_norm=1.0)
        loss = torch.nn.BCEWithLogitsLoss()
        for _ in range(10):
            for rows_x, rows_y in loader:
                optimizer.zero_grad()
                loss(model(rows_x)[:, 0], rows_y).backward(); optimizer.step()
        seconds.append(time.perf_counter() - start)
        with torch.no_grad():
            predicted = model(X_test)[:, 0].numpy() > 0
        scores.append(np.mean(predicted == data["y_test"]))
    rows.append(float(np.mean(scores)))
print(json.dumps({"accuracy": rows, "seconds": float(np.median(seconds))}))
"""


def load(encoding, data_home):
    if data_home is None:
        parts = [
            datasets.make_census(n, encoding="raw", return_X_y=True, random_state=seed)
            for n, seed in ((32_561, 0), (16_281, 1))
        ]
        return (*parts[0], *parts[1])
    splits = ("train", "test")
    parts = [
        datasets.load_adult(data_home, split=split, encoding=encoding, return_X_y=True)
        for split in splits
    ]
    return (*parts[0], *parts[1])


def accuracy(data, seeds, **params):
    """Mean score and its standard error; without intercept, since indicators sum to a constant."""
    X, y, X_test, y_test = data
    params.setdefault("fit_intercept", False)
    scores = [
        ObjPertLogisticRegression(random_state=seed, **params).fit(X, y).score(X_test, y_test)
        for seed in seeds
    ]
    return float(np.mean(scores)), float(np.std(scores) / np.sqrt(len(seeds)))


def show(label, values, extra=""):
    print(f"{label:44s}" + " ".join(f"{v:7.4f}" for v in values) + extra, flush=True)


def accuracy_tables(args, epsilons, seeds):
    for encoding in ("raw", "log") if args.data else ("census",):
        data = load(encoding, args.data)
        rows = sparse.csr_array(data[0])  # one-hot columns; the releases are the same
        print(f"\nTest accuracy, {encoding}, {seeds} seeds;  epsilon = {epsilons}")
        plain = LogisticRegression(C=1.0, max_iter=1000).fit(*data[:2]).score(*data[2:])
        majority = max(np.mean(data[3] == c) for c in (0, 1))
        print(f"not private, C=1: {plain:.4f}; majority {majority:.4f}")
        for adjacency, delta in SETTINGS:
            print(f"{adjacency}, delta={delta:g}")
            baseline = BASELINES.get((encoding, adjacency, delta))
            if baseline:
                baseline = [baseline[EPSILONS.index(e)] for e in epsilons]
                show(f"  {BASELINE_NAMES[delta]}", baseline)
            known = NONNEGATIVE if delta == 0.0 else {}
            for name, options in {**CONFIGURATIONS, **known}.items():
                found = [
                    accuracy(
                        (rows, *data[1:]),
                        range(seeds),
                        epsilon=epsilon,
                        delta=delta,
                        adjacency=adjacency,
                        **options,
                    )
                    for epsilon in epsilons
                ]
                show(f"  {name}", [mean for mean, _ in found])
                show("    standard error", [error for _, error in found])
                if baseline:
                    show("    difference", np.subtract([mean for mean, _ in found], baseline))
        for name, python, code in (
            ("diffprivlib, defaults, replace_one, delta=0", args.diffprivlib_python, DIFFPRIVLIB),
            ("Opacus DP-SGD, zero_out, delta=1e-05", args.opacus_python, OPACUS),
        ):
            if python:
                result = peer(python, code, data, epsilons, min(seeds, args.peer_seeds))
                show(name, result["accuracy"], f"   ({result['seconds']:.2f} s a fit)")


def regret_sets(data_home):
    """Name -> (X, y, X_test, y_test, fit_intercept)."""
    X, y = datasets.make_census(8_000, encoding="raw", return_X_y=True, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    sets = {"census": (sparse.csr_array(X), y, X_test, y_test, False)}
    if data_home:
        for encoding in ("raw", "log"):
            X, y, X_test, y_test = load(encoding, data_home)
            sets[f"Adult, {encoding}"] = (sparse.csr_array(X), y, X_test, y_test, False)
        abalone = datasets.load_abalone(data_home, target="old", return_X_y=True)
        codes, party = datasets.load_house_votes(data_home, return_X_y=True)
        votes = np.array([-0.25, 0.25, 0.0])[codes.astype(int)]  # no, yes, unknown; 16 of them
        for name, found in (("Abalone", abalone), ("House votes", (votes, party))):
            X, X_test, y, y_test = train_test_split(*found, random_state=0)
            sets[name] = (X, y, X_test, y_test, True)
    return sets


def regret_tables(args, epsilons):
    """How far "auto" stays behind the best fixed C, which nobody could have known, in points."""
    for name, (*data, intercept) in regret_sets(args.data).items():
        if args.sets and name not in args.sets:
            continue
        print(f"\nPoints behind the best fixed C, {name};  epsilon = {epsilons}")
        for adjacency, delta in SETTINGS:
            configurations = {
                key: CONFIGURATIONS[key] for key in ("defaults", "coefficients only, margin 3")
            }
            if delta == 0.0 and name.startswith("Adult"):
                configurations |= NONNEGATIVE
            for label, settings in configurations.items():
                options = {
                    "adjacency": adjacency,
                    "delta": delta,
                    "fit_intercept": intercept,
                    **settings,
                }
                lost = [regret(data, args.regret_seeds, e, options) for e in epsilons]
                show(f"{adjacency}, delta={delta:g}, {label}", lost)


def regret(data, n_seeds, epsilon, options):
    seeds = range(n_seeds if epsilon < 0.5 else max(3, n_seeds // 3))  # less noise, fewer seeds
    reached = accuracy(data, seeds, epsilon=epsilon, **options)[0]
    best = reached
    for C in PENALTY_GRID:
        with contextlib.suppress(ValueError):  # a C out of the budget's reach
            best = max(best, accuracy(data, seeds, epsilon=epsilon, C=C, **options)[0])
    return 100.0 * (best - reached)


def peer(python, code, data, epsilons, seeds):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=data[0], y=data[1], X_test=data[2], y_test=data[3])
        command = [python, "-c", code, str(path), json.dumps(list(epsilons)), str(seeds)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def median_seconds(fit, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        fit()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def speed_table(args, repeats):
    X, y, _, _ = load("raw", args.data)
    cases = {"scikit-learn LogisticRegression()": lambda: LogisticRegression().fit(X, y)}
    for adjacency, delta, epsilon in (
        ("replace_one", 1e-5, 1.0),
        ("replace_one", 1e-5, 0.1),
        ("zero_out", 1e-5, 1.0),
        ("replace_one", 0.0, 1.0),
    ):
        model = ObjPertLogisticRegression(epsilon, delta, adjacency)
        model.fit(X[:200], y[:200])  # compiled kernels come from the cache
        label = f"ObjPert epsilon={epsilon:g}, delta={delta:g}, {adjacency}"
        cases[label] = lambda model=model: model.fit(X, y)
    print(f"\nSeconds a fit, {X.shape[0]} x {X.shape[1]}, median of {repeats}")
    base = None
    for label, fit in cases.items():
        took = median_seconds(fit, repeats)
        base = base or took
        print(f"{label:52s} {took:7.3f}  ratio {took / base:5.2f}", flush=True)


def large_run(n_samples, n_features):
    rng = np.random.default_rng(0)
    X = np.empty((n_samples, n_features))
    for start in range(0, n_samples, 50_000):
        block = X[start : start + 50_000]
        block[:] = rng.uniform(-1.0, 1.0, block.shape)
        block /= np.sqrt(n_features)
    y = rng.random(n_samples) < 1.0 / (1.0 + np.exp(-8.0 * X[:, 0]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    model = ObjPertLogisticRegression(1.0).fit(X, y)
    took = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"\n{n_samples} x {n_features} ({X.nbytes / 2**20:.0f} MB): fit {took:.2f} s, peak memory "
        f"+{grown:.0f} MB; training accuracy {model.score(X[:100_000], y[:100_000]):.4f}"
    )
    start = time.perf_counter()
    LogisticRegression().fit(X, y)
    plain = time.perf_counter() - start
    print(f"scikit-learn on the same: {plain:.2f} s; ratio {took / plain:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("SKDPBAYES_DATA"), help="data folder")
    parser.add_argument("--quick", action="store_true", help="two seeds, three epsilons, small n")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--parts", nargs="+", default=["speed", "accuracy"], choices=["speed", "accuracy", "regret"]
    )
    parser.add_argument("--regret-seeds", type=int, default=9, help="a third of it from 0.5 on")
    parser.add_argument("--sets", nargs="+", help='names of sets for "regret"; default: all')
    parser.add_argument("--peer-seeds", type=int, default=3)
    parser.add_argument("--diffprivlib-python", help="interpreter that can import diffprivlib")
    parser.add_argument("--opacus-python", help="interpreter that can import opacus")
    args = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    epsilons = (0.1, 1.0, 5.0) if args.quick else EPSILONS
    if "speed" in args.parts:
        speed_table(args, 3 if args.quick else 7)
        large_run(100_000 if args.quick else 1_000_000, 50)
    if "accuracy" in args.parts:
        accuracy_tables(args, epsilons, 2 if args.quick else args.seeds)
    if "regret" in args.parts:
        regret_tables(args, epsilons)


if __name__ == "__main__":
    main()
