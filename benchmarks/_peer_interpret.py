"""DP-EBM of interpret on rows handed over in a file; runs in an interpreter of its own.

    python _peer_interpret.py JOB.json

Prints one JSON line per result. Labels: "defaults" are the package's own; "tuned" has the learning
rate and the number of rounds with the best log loss on splits of the training rows, for every
epsilon, at no charge: that flatters the peer. Targets with bounds: predictions of the regressor,
with its defaults.
"""

from __future__ import annotations

import json
import sys
import warnings

import interpret
import numpy as np
import sklearn
from _metrics import scores, summarize, timed, tuning_split
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

GRID = tuple((rate, rounds) for rate in (0.03, 0.1, 0.2, 0.3, 0.5) for rounds in (100, 300, 600))
N_TUNING = 2


def fit_and_score(data, job, epsilon, seed, train, test, settings):
    kinds = ["continuous" if number else "nominal" for number in data["is_number"]]
    bounds = {i: tuple(pair) for i, pair in enumerate(data["bounds"]) if kinds[i] == "continuous"}
    model = DPExplainableBoostingClassifier(
        feature_types=kinds,
        privacy_bounds=bounds,
        epsilon=epsilon,
        delta=job["delta"],
        random_state=seed,
        n_jobs=1,
        **settings,
    )
    _, seconds = timed(model.fit, data["X"][train], data["y"][train])
    chance = model.predict_proba(data["X"][test])[:, 1]
    return {**scores(data["y"][test], chance), "seconds": seconds}


def tuned(data, job, epsilon):
    """Return the settings with the least log loss on parts of the training rows."""
    train, losses = data["train"], []
    for rate, rounds in GRID:
        settings = {"learning_rate": rate, "max_rounds": rounds}
        found = []
        for seed in range(N_TUNING):
            fit, score = (train[part] for part in tuning_split(len(train), seed))
            row = fit_and_score(data, job, epsilon, seed, fit, score, settings)
            found.append(row["log_loss"])
        losses.append((np.mean(found), rate, rounds))
    _, rate, rounds = min(losses)
    return {"learning_rate": rate, "max_rounds": rounds}


def regression(job, data):
    """Print predictions of the regressor: rows in a box, a target between its bounds."""
    found = {"interpret": interpret.__version__, "its scikit-learn": sklearn.__version__}
    print(json.dumps({"versions": found}), flush=True)
    low, high = data["target_bounds"]
    for epsilon in job["epsilons"]:
        for seed in job["seeds"]:
            model = DPExplainableBoostingRegressor(
                epsilon=epsilon,
                delta=job["delta"],
                privacy_bounds=data["box"].T,
                privacy_target_min=float(low),
                privacy_target_max=float(high),
                feature_types=["continuous"] * data["X"].shape[1],
                random_state=seed,
                n_jobs=1,
            )
            model.fit(data["X"], np.clip(data["y"], low, high))
            predicted = np.asarray(model.predict(data["X_test"])).ravel().tolist()
            row = {"epsilon": epsilon, "seed": seed, "predicted": predicted}
            print(json.dumps(row), flush=True)


def classification(job, data):
    """Print scores with defaults and tuned."""
    for epsilon in job["epsilons"]:
        for name, settings in (("defaults", {}), ("tuned", tuned(data, job, epsilon))):
            runs = [
                fit_and_score(data, job, epsilon, seed, data["train"], data["test"], settings)
                for seed in range(job["seeds"])
            ]
            row = {"method": f"DP-EBM, {name}", "epsilon": epsilon, "settings": str(settings)}
            row |= {"version": interpret.__version__, "adjacency": "zero_out", **summarize(runs)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        job = json.load(file)
    data = dict(np.load(job["data"]))
    (regression if "target_bounds" in data else classification)(job, data)
