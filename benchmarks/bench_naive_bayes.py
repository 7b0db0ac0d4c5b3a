"""Accuracy and speed of LaplaceNaiveBayes, beside scikit-learn and diffprivlib in the same run.

    python benchmarks/bench_naive_bayes.py --data FOLDER [--quick] [--diffprivlib-python PYTHON]

Without a folder (or ``SKDPBAYES_DATA``) the made-up census stands in for Adult, and mushroom and
SMS spam are left out. diffprivlib needs a scikit-learn of its own, so it runs in the interpreter
that the option (or ``DIFFPRIVLIB_PYTHON``) names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, MultinomialNB

from skdpbayes import LaplaceNaiveBayes, datasets
from skdpbayes.exceptions import PrivacyWarning

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PEER = """
import sys, numpy as np, warnings
warnings.simplefilter("ignore")
from diffprivlib.models import GaussianNB
data = np.load(sys.argv[1])
lower, upper = np.zeros(len(data["sizes"])), data["sizes"] - 1.0
for epsilon in map(float, sys.argv[3:]):
    scores = [
        GaussianNB(epsilon=epsilon, bounds=(lower, upper), random_state=seed)
        .fit(data["X"], data["y"]).score(data["X_test"], data["y_test"])
        for seed in range(int(sys.argv[2]))
    ]
    print(np.mean(scores))
"""


def adult(folder):
    """Return training and test rows of public bins, and the numbers of categories."""
    if folder is None:
        census = datasets.make_census(40_000, encoding="bins", random_state=0)
        split = train_test_split(census.data, census.target, test_size=0.25, random_state=0)
        return "census (made up)", split, census.n_categories
    train = datasets.load_adult(folder, encoding="bins")
    test = datasets.load_adult(folder, split="test", encoding="bins")
    return "Adult", (train.data, test.data, train.target, test.target), train.n_categories


def mean_score(split, seeds, **params):
    """Return mean and deviation of the test accuracy over seeds."""
    X, X_test, y, y_test = split
    scores = [
        LaplaceNaiveBayes(random_state=seed, **params).fit(X, y).score(X_test, y_test)
        for seed in range(seeds)
    ]
    return np.mean(scores), np.std(scores)


def row(name, cells):
    print(f"{name:44s}" + "".join(f"{cell:>9s}" for cell in cells), flush=True)


def accuracy_table(title, split, epsilons, seeds, variants, plain):
    print(f"\n{title}: test accuracy, mean of {seeds} seeds; without privacy {plain:.4f}")
    row("epsilon", [f"{epsilon:g}" for epsilon in epsilons])
    for name, params in variants.items():
        cells = [mean_score(split, seeds, epsilon=e, **params) for e in epsilons]
        row(name, [f"{mean:.4f}" for mean, _ in cells])
        row("    deviation", [f"{spread:.4f}" for _, spread in cells])


def peer_row(python, split, sizes, epsilons, seeds):
    """Accuracy of diffprivlib's GaussianNB on the same codes, in its own interpreter."""
    X, X_test, y, y_test = split
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.npz"
        np.savez(path, X=X, X_test=X_test, y=y, y_test=y_test, sizes=np.asarray(sizes))
        arguments = [str(path), str(seeds), *map(str, epsilons)]
        done = subprocess.run(
            [python, "-c", PEER, *arguments], check=True, capture_output=True, text=True
        )
    row("diffprivlib GaussianNB (pure)", [f"{float(v):.4f}" for v in done.stdout.split()])


def seconds(*functions, rounds=5):
    """Shortest processor and wall times of functions that take turns; the first turn compiles."""
    times = []
    for turn in range(rounds + 1):
        measured = []
        for function in functions:
            processor, wall = time.process_time(), time.perf_counter()
            function()
            measured.append((time.process_time() - processor, time.perf_counter() - wall))
        if turn:
            times.append(measured)
    return np.min(times, axis=0)


def peak_memory(function):
    """Largest memory in MB that was allocated during a call."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def speed(sizes_of_fits, split, sizes):
    rng = np.random.default_rng(0)
    params = {"distribution": "categorical", "categories": 10, "random_state": 0}
    for n_rows in sizes_of_fits:
        X, y = rng.integers(0, 10, (n_rows, 20)), rng.integers(0, 2, n_rows)

        def ours(X=X, y=y):
            LaplaceNaiveBayes(1.0, **params).fit(X, y)

        def theirs(X=X, y=y):
            CategoricalNB(min_categories=10).fit(X, y)

        one, other = seconds(ours, theirs)
        print(
            f"\nfit, {n_rows:,} x 20 categorical, processor (wall) seconds: {one[0]:.2f} "
            f"({one[1]:.2f}), CategoricalNB {other[0]:.2f} ({other[1]:.2f}), ratio "
            f"{one[0] / other[0]:.2f} ({one[1] / other[1]:.2f}; at most 1.5 for a million rows); "
            f"peak memory {peak_memory(ours):.0f} MB, CategoricalNB {peak_memory(theirs):.0f} MB, "
            f"X has {X.nbytes / 2**20:.0f} MB"
        )
    X, X_test, y, _ = split
    for epsilon in (0.1, 1.0):
        model = LaplaceNaiveBayes(
            epsilon, distribution="categorical", categories=sizes, random_state=0
        )
        fit, draws, predict = seconds(
            lambda model=model: model.fit(X, y),
            lambda model=model: model.sample_posterior(1000),
            lambda model=model: model.predict_proba(X_test),
            rounds=2,
        )
        print(
            f"epsilon={epsilon:g}, processor (wall) seconds: fit {fit[0]:.2f} ({fit[1]:.2f}), 1000 "
            f"posterior draws {draws[0]:.2f} ({draws[1]:.2f}; below 5), predict_proba "
            f"{predict[0]:.2f} ({predict[1]:.2f})"
        )


def mushroom(folder, epsilons, seeds):
    data = datasets.load_mushroom(folder)
    sizes = [int(size) for size in data.n_categories]
    split = train_test_split(data.data, data.target, test_size=0.3, random_state=0)
    plain = CategoricalNB(min_categories=sizes).fit(split[0], split[2]).score(split[1], split[3])
    tables = {"distribution": "categorical", "categories": sizes}
    variants = {
        "Laplace, pure": tables,
        "Laplace, pure, naive posterior": {**tables, "posterior": "naive"},
        "Laplace, pure, alpha=0.2": {**tables, "alpha": 0.2},
        "Gaussian, delta=1e-5": {**tables, "delta": 1e-5},
    }
    accuracy_table("Mushroom", split, epsilons, seeds, variants, plain)


def sms(folder, epsilons, seeds):
    """Hashed words, so that the vocabulary is public."""
    data = datasets.load_sms_spam(folder)
    hashed = HashingVectorizer(n_features=256, alternate_sign=False, norm=None)
    split = train_test_split(
        hashed.transform(data.data), data.target, test_size=0.3, random_state=0
    )
    X, X_test, y, y_test = split
    for name, plain, params in (
        ("tokens", MultinomialNB(), {"distribution": "multinomial", "max_total": 10}),
        ("presence", BernoulliNB(), {"distribution": "bernoulli"}),
    ):
        reference = plain.fit(X, y).score(X_test, y_test)
        variants = {
            "Laplace, pure": params,
            "Gaussian, delta=1e-5": {**params, "delta": 1e-5},
            "Laplace, naive posterior": {**params, "posterior": "naive"},
        }
        accuracy_table(
            f"SMS spam, 256 hashed words, {name}", split, epsilons, seeds, variants, reference
        )
    print(f"majority class: {1 - y_test.mean():.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.environ.get("SKDPBAYES_DATA"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--diffprivlib-python", default=os.environ.get("DIFFPRIVLIB_PYTHON"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    seeds, epsilons = (2, (0.1, 1.0)) if args.quick else (10, EPSILONS)
    name, split, sizes = adult(args.data)
    X, X_test, y, y_test = split
    plain = CategoricalNB(min_categories=sizes).fit(X, y).score(X_test, y_test)
    tables = {"distribution": "categorical", "categories": sizes}
    variants = {
        "Laplace, replace_one, pure": tables,
        "Laplace, replace_one, pure, naive posterior": {**tables, "posterior": "naive"},
        "Laplace, replace_one, pure, alpha=0.2": {**tables, "alpha": 0.2},
        "Laplace, zero_out, pure": {**tables, "adjacency": "zero_out"},
        "Gaussian, replace_one, delta=1e-5": {**tables, "delta": 1e-5},
        "one posterior draw, replace_one, pure": {**tables, "mechanism": "ops"},
    }
    accuracy_table(name, split, epsilons, seeds, variants, plain)
    if args.diffprivlib_python:
        peer_row(args.diffprivlib_python, split, sizes, epsilons, seeds)
    if args.data is not None:
        mushroom(args.data, epsilons, seeds)
        sms(args.data, epsilons, seeds)
    speed((100_000,) if args.quick else (100_000, 1_000_000), split, sizes)


if __name__ == "__main__":
    main()
