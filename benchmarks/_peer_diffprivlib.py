"""diffprivlib on rows handed over in a file; runs in an interpreter of its own.

    python _peer_diffprivlib.py JOB.json

Prints one JSON line per result. The penalty is tuned for every epsilon on splits of the training
rows, one for each seed of the noise, and nothing is charged for that: it flatters the peer.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import diffprivlib
import numpy as np
import sklearn
from _metrics import scores, summarize, timed, tuning_split
from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression

GRID = 10.0 ** np.arange(-4.0, 2.1, 1.0)


def say(**row):
    print(json.dumps(row), flush=True)


def logistic(data, epsilon, seed, C):
    model = LogisticRegression(
        epsilon=epsilon, data_norm=1.0, C=C, fit_intercept=False, random_state=seed, max_iter=1000
    )
    _, seconds = timed(model.fit, data["X"], data["y"])
    return {**scores(data["y_test"], model.predict_proba(data["X_test"])[:, 1]), "seconds": seconds}


def naive_bayes(data, epsilon, seed):
    top = data["sizes"] - 1.0
    model = GaussianNB(epsilon=epsilon, bounds=(np.zeros(len(top)), top), random_state=seed)
    _, seconds = timed(model.fit, data["X"], data["y"])
    return {**scores(data["y_test"], model.predict_proba(data["X_test"])[:, 1]), "seconds": seconds}


def inner(data, seed):
    fit, score = tuning_split(len(data["X"]), seed)
    found = {"X": data["X"][fit], "y": data["y"][fit]}
    return {**found, "X_test": data["X"][score], "y_test": data["y"][score]}


def accuracy(job, data):
    for epsilon in job["epsilons"]:
        shared = {"epsilon": epsilon, "delta": 0.0}
        if "sizes" in data:
            runs = [naive_bayes(data, epsilon, seed) for seed in range(job["seeds"])]
            say(
                **shared,
                method="diffprivlib GaussianNB",
                adjacency="not stated",
                settings="nothing to tune",
                **summarize(runs),
            )
            continue
        reached = {}
        for C in GRID:
            tries = [
                logistic(inner(data, s), epsilon, 1000 + s, C) for s in range(job["tuning_seeds"])
            ]
            reached[C] = np.mean([run["accuracy"] for run in tries])
        best = max(reached, key=reached.get)
        for label, C in (("tuned", best), ("defaults", 1.0)):
            runs = [logistic(data, epsilon, seed, C) for seed in range(job["seeds"])]
            say(
                **shared,
                method=f"diffprivlib LogisticRegression, {label}",
                adjacency="replace_one",
                settings=f"C={C:g}",
                **summarize(runs),
            )


def speed(job, data):
    """Wall seconds of one fit at epsilon 1, default parameters."""

    def fit():
        if "sizes" in data:
            top = data["sizes"] - 1.0
            return GaussianNB(epsilon=1.0, bounds=(np.zeros(len(top)), top)).fit(
                data["X"], data["y"]
            )
        return LogisticRegression(epsilon=1.0, data_norm=1.0, fit_intercept=False).fit(
            data["X"], data["y"]
        )

    fit()
    times = []
    for _ in range(job["repeats"]):
        start = time.perf_counter()
        fit()
        times.append(time.perf_counter() - start)
    say(seconds=min(times))


def regression(job, data):
    """Predictions of linear regression: rows in a box, a target between its bounds."""
    (low, high), bounds = data["box"], tuple(data["target_bounds"])
    for epsilon in job["epsilons"]:
        for seed in job["seeds"]:
            model = LinearRegression(
                epsilon=epsilon, bounds_X=(low, high), bounds_y=bounds, random_state=seed
            )
            model.fit(data["X"], data["y"])
            found = np.asarray(model.predict(data["X_test"])).ravel()
            say(epsilon=epsilon, seed=seed, predicted=found.tolist())


def main():
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        job = json.load(file)
    say(versions={"diffprivlib": diffprivlib.__version__, "its scikit-learn": sklearn.__version__})
    data = dict(np.load(job["data"]))
    tasks = {"accuracy": accuracy, "speed": speed, "regression": regression}
    tasks[job["task"]](job, data)


if __name__ == "__main__":
    main()
