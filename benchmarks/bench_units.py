"""Persons with several records: weights by person, group privacy, and claims for one record.

``python -m benchmarks.bench_units FOLDER`` reads ``rand_hie.csv.gz`` (RAND Health Insurance
Experiment, one row per person and year) from FOLDER and predicts whether a year had any expense.
Log loss and area under the curve are means over the held-out *records* of 20 splits by person; the
log loss is given as a mean over persons, too, and the processor time of a fit as a median.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from skdpbayes import BoundsScaler, DPSGLDClassifier, ObjPertLogisticRegression, PrivacyWarning
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


def one_each(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose a row of every person, without looking at the data."""
    order = rng.permutation(ids.size)
    return np.sort(order[np.unique(ids[order], return_index=True)[1]])


def fits(epsilon: float, X: Any, y: Any, ids: Any, seed: int) -> dict[str, tuple[Any, float]]:
    """Return the models of a training part and the processor time that each took."""
    alone = gdp_epsilon(gdp_mu(epsilon, DELTA) / MOST, DELTA)  # the best that a group can get
    one = one_each(ids, np.random.default_rng([seed, 1]))
    chain = {"adjacency": "zero_out", "classes": [0, 1]}
    ways = {
        "persons": (ObjPertLogisticRegression, SETTINGS, epsilon, slice(None), ids),
        "group of 5": (ObjPertLogisticRegression, SETTINGS, alone, slice(None), None),
        "one record each": (ObjPertLogisticRegression, SETTINGS, epsilon, one, None),
        "records": (ObjPertLogisticRegression, SETTINGS, epsilon, slice(None), None),
        "chain, persons": (DPSGLDClassifier, chain, epsilon, slice(None), ids),
        "chain, group of 5": (DPSGLDClassifier, chain, alone, slice(None), None),
        "chain, one record each": (DPSGLDClassifier, chain, epsilon, one, None),
        "chain, records": (DPSGLDClassifier, chain, epsilon, slice(None), None),
    }
    found = {}
    for name, (kind, settings, budget, rows, units) in ways.items():
        start = time.process_time()
        model = kind(budget, DELTA, random_state=seed, **settings)
        model.fit(X[rows], y[rows], units=units)
        found[name] = model, time.process_time() - start
    return found


def main(folder: Path) -> None:
    """Print log loss, area and time: a line for every budget and way."""
    X, y, ids = read(folder)
    persons = np.unique(ids)
    for epsilon in EPSILONS:
        scores: dict[str, list[tuple[float, ...]]] = {}
        for split in range(N_SPLITS):
            rng = np.random.default_rng(split)
            held_out = np.isin(ids, rng.permutation(persons)[: len(persons) // 4])
            train, weight = ~held_out, 1.0 / np.bincount(ids)[ids][held_out]
            for name, (model, seconds) in fits(
                epsilon, X[train], y[train], ids[train], split
            ).items():
                p = model.predict_proba(X[held_out])[:, 1]
                scores.setdefault(name, []).append(
                    (
                        log_loss(y[held_out], p),
                        roc_auc_score(y[held_out], p),
                        log_loss(y[held_out], p, sample_weight=weight),
                        seconds,
                    )
                )
        for name, found in scores.items():
            loss, area, by_person, _ = np.mean(found, axis=0)
            seconds = np.median(found, axis=0)[3]  # the first fit compiles
            print(
                f"epsilon {epsilon:g}, {name}: log loss {loss:.4f} (by person {by_person:.4f}), "
                f"area {area:.3f}, {seconds * 1e3:.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore", PrivacyWarning)
    main(Path(sys.argv[1]))
