"""DP-EBM (interpret) on rows handed over in a file; runs in an interpreter of its own.

    python _peer_interpret.py JOB.json

Prints one JSON line a result.
"""

from __future__ import annotations

import json
import sys
import warnings

import interpret
import numpy as np
import sklearn
from interpret.privacy import DPExplainableBoostingRegressor


def say(**row):
    print(json.dumps(row), flush=True)


def regression(job, data):
    """Predictions of the regressor: rows in a box, a target between its bounds."""
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
            found = np.asarray(model.predict(data["X_test"])).ravel()
            say(epsilon=epsilon, seed=seed, predicted=found.tolist())


def main():
    warnings.simplefilter("ignore")
    with open(sys.argv[1]) as file:
        job = json.load(file)
    say(versions={"interpret": interpret.__version__, "its scikit-learn": sklearn.__version__})
    regression(job, dict(np.load(job["data"])))


if __name__ == "__main__":
    main()
