"""DP-EBM of interpret on rows handed over in a file; runs in an interpreter of its own.

    python _peer_interpret.py JOB.json

Prints one JSON line per result. "defaults" are the package's own; "tuned" has the learning rate and
the number of rounds with the best log loss on splits of the training rows, for every epsilon, at no
charge: that flatters the peer.
"""

from __future__ import annotations

import json
import sys
import warnings

import interpret
import numpy as np
from _metrics import scores, summarize, timed, tuning_split
from interpret.privacy import DPExplainableBoostingClassifier

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


def main(job):
    data = dict(np.load(job["data"]))
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
        main(json.load(file))
