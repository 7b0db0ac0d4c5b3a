"""Persons with several records: weights by person, group privacy, and claims for one record.

``python -m benchmarks.bench_units FOLDER`` reads ``rand_hie.csv.gz`` (RAND Health Insurance
Experiment, one row per person and year) from FOLDER and predicts whether a year had any expense.
Log loss and area under the curve are means over the held-out *records* of 20 splits by person.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from skdpbayes import BoundsScaler, ObjPertLogisticRegression
from skdpbayes.privacy import gdp_epsilon, gdp_mu

BOUNDS = {
    "coins": (0, 100),
    "black": (0, 1),
    "female": (0, 1),
    "xage": (0, 65),
    "educdec": (0, 25),
    "income": (0, 30_000),
    "num": (1, 14),
    "disea": (0, 60),
    "physlm": (0, 1),
    "mhi": (0, 100),
    "child": (0, 1),
    "hlthg": (0, 1),
    "hlthf": (0, 1),
    "hlthp": (0, 1),
}
EPSILONS, DELTA, N_SPLITS, MOST = (0.1, 0.3, 1.0, 3.0), 1e-6, 20, 5
SETTINGS = {"inference_budget": 0.0, "adjacency": "zero_out"}


def read(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of norm at most 1 (empty cells at the middle of their bounds), labels, ids."""
    frame = pd.read_csv(folder / "rand_hie.csv.gz")
    X = frame[list(BOUNDS)].astype(float)
    X = X.fillna({name: 0.5 * (low + high) for name, (low, high) in BOUNDS.items()})
    X = BoundsScaler(BOUNDS, norm=1.0).fit_transform(X)
    return np.asarray(X), frame["binexp"].to_numpy(), frame["person"].to_numpy()


def main(folder: Path) -> None:
    """Print one line per budget."""
    X, y, ids = read(folder)
    persons = np.unique(ids)
    for epsilon in EPSILONS:
        alone = gdp_epsilon(gdp_mu(epsilon, DELTA) / MOST, DELTA)  # the best that a group can get
        scores: dict[str, list[tuple[float, float]]] = {}
        for split in range(N_SPLITS):
            rng = np.random.default_rng(split)
            held_out = np.isin(ids, rng.permutation(persons)[: len(persons) // 4])
            train = ~held_out
            for name, budget, units in (
                ("persons", epsilon, ids[train]),
                ("group of 5", alone, None),
                ("records", epsilon, None),
            ):
                model = ObjPertLogisticRegression(budget, DELTA, random_state=split, **SETTINGS)
                model.fit(X[train], y[train], units=units)
                p = model.predict_proba(X[held_out])[:, 1]
                score = log_loss(y[held_out], p), roc_auc_score(y[held_out], p)
                scores.setdefault(name, []).append(score)
        means = {name: np.mean(found, axis=0) for name, found in scores.items()}
        text = "  ".join(f"{name} {loss:.4f}/{auc:.3f}" for name, (loss, auc) in means.items())
        print(f"epsilon {epsilon:g} ({alone:.3g} per record in a group): {text}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
