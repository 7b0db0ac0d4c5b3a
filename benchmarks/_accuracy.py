"""Accuracy, AUC and log loss against epsilon: our estimators, the peers and no privacy at all."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from _environments import run_job
from _metrics import scores, summarize, timed, tuning_split
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import CategoricalNB

import skdpbayes
from skdpbayes import datasets

DELTA = 1e-5
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Columns of these data hold indicators that sum to a constant: an intercept would only add to the
# norm of a record. The peers leave it out as well. All columns are scaled to [0, 1].
PLAIN = {"fit_intercept": False, "nonnegative": True}
# The peers release no uncertainty; this variant spends nothing on it either.
ALONE = {**PLAIN, "inference_budget": 0.0, "margin": 3.0}
ROW_METHODS = [
    ("DPSGLDClassifier", "zero_out", DELTA, {}),
    ("DPSGLDClassifier", "replace_one", DELTA, {}),
    ("ObjPertLogisticRegression", "zero_out", DELTA, PLAIN),
    ("ObjPertLogisticRegression", "replace_one", DELTA, PLAIN),
    ("ObjPertLogisticRegression", "replace_one", 0.0, PLAIN),
    ("ObjPertLogisticRegression, margin", "zero_out", DELTA, ALONE),
    ("ObjPertLogisticRegression, margin", "replace_one", DELTA, ALONE),
    ("ObjPertLogisticRegression, margin", "replace_one", 0.0, ALONE),
    ("OPSLogisticRegression", "zero_out", DELTA, {}),
    ("OPSLogisticRegression", "replace_one", DELTA, {}),
]
TABLE_METHODS = [
    ("LaplaceNaiveBayes", "zero_out", 0.0, {}),
    ("LaplaceNaiveBayes", "replace_one", 0.0, {}),
    ("LaplaceNaiveBayes", "replace_one", DELTA, {}),
]


@dataclass(frozen=True)
class Data:
    """Training and test rows; ``sizes`` are the numbers of categories of integer codes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    sizes: tuple[int, ...] | None = None

    def arrays(self):
        found = {"X": self.X, "y": self.y, "X_test": self.X_test, "y_test": self.y_test}
        return found if self.sizes is None else {**found, "sizes": np.array(self.sizes)}


def load(folder, quick):
    """Return Adult (raw, log, bins) and Abalone, or the made-up census without a folder."""
    if folder is None:
        return [_census("raw", quick), _census("bins", quick)]
    found = []
    for encoding in ("raw", "log", "bins"):
        train, test = (
            datasets.load_adult(folder, split=split, encoding=encoding)
            for split in ("train", "test")
        )
        sizes = tuple(map(int, train.n_categories)) if encoding == "bins" else None
        parts = (train.data, train.target, test.data, test.target)
        found.append(Data(f"Adult, {encoding}", *parts, sizes))
    X, y = datasets.load_abalone(folder, target="old", return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    found.append(Data("Abalone", X, y, X_test, y_test))
    return [_shortened(data) for data in found] if quick else found


def _census(encoding, quick):
    n = 4_000 if quick else 40_000
    census = datasets.make_census(n, encoding=encoding, random_state=0)
    X, X_test, y, y_test = train_test_split(census.data, census.target, random_state=0)
    sizes = tuple(map(int, census.n_categories)) if encoding == "bins" else None
    return Data(f"made-up census, {encoding}", X, y, X_test, y_test, sizes)


def _shortened(data, n=3_000):
    return Data(data.name, data.X[:n], data.y[:n], data.X_test[:n], data.y_test[:n], data.sizes)


def fitted(data, method, adjacency, delta, epsilon, seed, params):
    """Fit one of our estimators with default parameters and score it."""
    extra = dict(params)
    if data.sizes is not None:
        extra.update(distribution="categorical", categories=data.sizes)
    model = getattr(skdpbayes, method.split(",")[0])(
        epsilon=epsilon, delta=delta, adjacency=adjacency, random_state=seed, **extra
    )
    _, seconds = timed(model.fit, data.X, data.y)
    return {**scores(data.y_test, model.predict_proba(data.X_test)[:, 1]), "seconds": seconds}


def ours(store, sets, epsilons, seeds):
    """Default parameters at every epsilon, and the model without privacy."""
    for data in sets:
        _reference(store, data)
        methods = ROW_METHODS if data.sizes is None else TABLE_METHODS
        for method, adjacency, delta, params in methods:
            fitted(data, method, adjacency, delta, epsilons[0], 0, params)  # compile
            for epsilon in epsilons:
                runs = [
                    fitted(data, method, adjacency, delta, epsilon, seed, params)
                    for seed in range(seeds)
                ]
                settings = ", ".join(f"{name}={value}" for name, value in params.items())
                _put(
                    store,
                    "ours",
                    data,
                    {
                        **{"method": method, "adjacency": adjacency, "delta": delta},
                        **{
                            "epsilon": epsilon,
                            "settings": settings or "defaults",
                            **summarize(runs),
                        },
                    },
                )


def peers(store, sets, epsilons, seeds, pythons):
    """Every peer on the same rows, in its own interpreter."""
    for data in sets:
        for peer, python in pythons.items():
            if peer == "opacus" and data.sizes is not None:
                continue  # a classifier of real-valued rows
            job = {
                **{"task": "accuracy", "epsilons": list(epsilons), "delta": DELTA},
                **{"seeds": seeds, "tuning_seeds": 2 if seeds < 5 else 3, "threads": 1},
            }
            for found in run_job(peer, python, job, data.arrays()):
                if "versions" in found:
                    store.add_versions("accuracy", "peers", found["versions"])
                else:
                    _put(store, "peers", data, found)


def _reference(store, data):
    """The plain model, its penalty chosen on a split of the training rows; and the majority."""
    if data.sizes is None:
        fit_rows, score_rows = tuning_split(len(data.X))

        def plain(C):
            return LogisticRegression(C=C, max_iter=2000)

        def held_out(C):
            model = plain(C).fit(data.X[fit_rows], data.y[fit_rows])
            return model.score(data.X[score_rows], data.y[score_rows])

        best = max((1.0, 10.0, 100.0, 1000.0), key=held_out)
        model, settings, name = plain(best), f"C={best:g}, tuned", "LogisticRegression"
    else:
        model, settings, name = (
            CategoricalNB(min_categories=data.sizes),
            "defaults",
            "CategoricalNB",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, seconds = timed(model.fit, data.X, data.y)
    run = {**scores(data.y_test, model.predict_proba(data.X_test)[:, 1]), "seconds": seconds}
    majority = max(np.mean(data.y_test), 1 - np.mean(data.y_test))
    _put(
        store,
        "ours",
        data,
        {
            **{"method": f"scikit-learn {name}", "adjacency": "not private", "delta": None},
            **{"epsilon": None, "settings": settings, **summarize([run])},
            **{"majority": round(float(majority), 5), "n_train": len(data.y)},
            **{"n_test": len(data.y_test), "n_features": data.X.shape[1]},
        },
    )


def _put(store, who, data, row):
    store.put(part="accuracy", who=who, data=data.name, **row)
    epsilon = "-" if row["epsilon"] is None else f"{row['epsilon']:g}"
    print(
        f"{data.name:22s} {row['method']:38s} {row['adjacency']:12s} {epsilon:>5s}  "
        f"{row['accuracy']:.4f} ± {row['accuracy_sd']:.4f}  AUC {row['auc']:.4f}  "
        f"log loss {row['log_loss']:.4f}  {row['seconds']:.2f} s",
        flush=True,
    )
