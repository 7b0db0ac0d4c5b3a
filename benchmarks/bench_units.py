"""Persons with several records: weights by person, group privacy, and claims for one record.

``python benchmarks/bench_units.py FOLDER`` reads ``rand_hie.csv.gz`` (RAND Health Insurance
Experiment, one row per person and year) from FOLDER and predicts whether a year had any expense,
and how many visits to a doctor. Log loss, area under the curve and Poisson deviance are means over
the held-out *records* of 20 splits by person; the loss is given as a mean over persons, too, and
the processor time of a fit as a median. ``--figure FILE`` draws them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, mean_poisson_deviance, roc_auc_score

from skdpbayes import (
    BoundsScaler,
    DPSGLDClassifier,
    DPSGLDRegressor,
    ObjPertLogisticRegression,
    PrivacyWarning,
)
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
MOST_VISITS = 30
SETTINGS = {"inference_budget": 0.0, "adjacency": "zero_out"}


def read(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of norm at most 1 (empty cells at the middle of their bounds), labels, ids.

    The last are numbers of visits.
    """
    frame = pd.read_csv(folder / "rand_hie.csv.gz")
    X = frame[list(BOUNDS)].astype(float)
    X = X.fillna({name: 0.5 * (low + high) for name, (low, high) in BOUNDS.items()})
    X = BoundsScaler(BOUNDS, norm=1.0).fit_transform(X)
    return np.asarray(X), *(frame[name].to_numpy() for name in ("binexp", "person", "mdvis"))


def one_each(ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose a row of every person, without looking at the data."""
    order = rng.permutation(ids.size)
    return np.sort(order[np.unique(ids[order], return_index=True)[1]])


def fits(
    epsilon: float, X: Any, y: Any, visits: Any, ids: Any, seed: int
) -> dict[str, tuple[Any, float]]:
    """Return the models of a training part and the processor time that each took."""
    alone = gdp_epsilon(gdp_mu(epsilon, DELTA) / MOST, DELTA)  # the best that a group can get
    one = one_each(ids, np.random.default_rng([seed, 1]))
    counts = {"adjacency": "zero_out", "loss": "poisson", "target_bounds": (0, MOST_VISITS)}
    kinds = {
        "objective": (ObjPertLogisticRegression, SETTINGS, y),
        "chain": (DPSGLDClassifier, {"adjacency": "zero_out", "classes": [0, 1]}, y),
        "visits": (DPSGLDRegressor, counts, visits),
    }
    ways = {
        "persons": (epsilon, slice(None), ids),
        "group of 5": (alone, slice(None), None),
        "one record each": (epsilon, one, None),
        "records": (epsilon, slice(None), None),
    }
    found = {}
    for kind, (estimator, settings, target) in kinds.items():
        for way, (budget, rows, units) in ways.items():
            start = time.process_time()
            model = estimator(budget, DELTA, random_state=seed, **settings)
            model.fit(X[rows], target[rows], units=units)
            found[f"{kind}, {way}"] = model, time.process_time() - start
    return found


def scores_of(name: str, model: Any, X: Any, y: Any, visits: Any, weight: Any) -> tuple[float, ...]:
    """Return the loss on held-out records, the area if there is one, and the loss by person."""
    if name.startswith("visits"):
        mean = np.maximum(model.predict(X), 1e-3)
        visits = np.minimum(visits, MOST_VISITS)
        by_person = mean_poisson_deviance(visits, mean, sample_weight=weight)
        return mean_poisson_deviance(visits, mean), np.nan, by_person
    p = model.predict_proba(X)[:, 1]
    return log_loss(y, p), roc_auc_score(y, p), log_loss(y, p, sample_weight=weight)


def main(arguments: list[str] | None = None) -> None:
    """Print losses, area and time: a line for every budget and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args(arguments)
    X, y, ids, visits = read(args.folder)
    persons = np.unique(ids)
    table: dict[str, list[np.ndarray]] = {}
    for epsilon in EPSILONS:
        scores: dict[str, list[tuple[float, ...]]] = {}
        for split in range(N_SPLITS):
            rng = np.random.default_rng(split)
            out = np.isin(ids, rng.permutation(persons)[: len(persons) // 4])
            train, weight = ~out, 1.0 / np.bincount(ids)[ids][out]
            for name, (model, seconds) in fits(
                epsilon, X[train], y[train], visits[train], ids[train], split
            ).items():
                found = scores_of(name, model, X[out], y[out], visits[out], weight)
                scores.setdefault(name, []).append((*found, seconds))
        for name, rows in scores.items():
            table.setdefault(name, []).append(np.array(rows))
            loss, area, by_person, _ = np.mean(rows, axis=0)
            middle, _, _, seconds = np.median(rows, axis=0)  # the first fit compiles
            print(
                f"epsilon {epsilon:g}, {name}: loss {loss:.4f} (median {middle:.4f}, by person "
                f"{by_person:.4f}), area {area:.3f}, {seconds * 1e3:.0f} ms",
                flush=True,
            )
    if args.figure:
        draw(table, args.figure)


def draw(table: dict[str, list[np.ndarray]], path: Path) -> None:
    """Draw mean losses against the budget."""
    import matplotlib.pyplot as plt

    styles = {"persons": "o-", "group of 5": "s-", "one record each": "^:", "records": "--"}
    titles = {
        "objective": "objective perturbation: any expense",
        "chain": "chain: any expense",
        "visits": "chain of counts: visits to a doctor",
    }
    fig, axes = plt.subplots(1, 3, figsize=(10.5, 3.6), layout="constrained")
    for ax, (kind, title) in zip(axes, titles.items(), strict=True):
        for way, style in styles.items():
            losses = [np.mean(rows[:, 0]) for rows in table[f"{kind}, {way}"]]
            label = {"persons": "units", "records": "one record's claim (weaker)"}.get(way, way)
            ax.plot(EPSILONS, losses, style, label=label)
        ax.set(xscale="log", xlabel="ε for all years of a person", title=title)
        ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        ax.set_xticks([], minor=True)
    axes[0].set_ylabel("log loss; right: deviance")
    axes[0].legend()
    fig.savefig(path, dpi=100)


if __name__ == "__main__":
    warnings.simplefilter("ignore", PrivacyWarning)
    main()
