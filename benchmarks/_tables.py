"""Tables as people have them: ``private_preprocessor`` and our classifiers beside DP-EBM.

Nothing of ours is tuned: defaults, and what is publicly known of the columns. DP-EBM (interpret)
runs with its defaults and with the learning rate and number of rounds that are best on splits of
the training rows, for every table and epsilon, unpaid; its categories are taken from the data,
unpaid too, and missing numbers, which it does not take, are the middle of their bounds. DP-SGD by
Opacus gets the rows of our preprocessor, and its settings are tuned likewise, by accuracy. All rows
are ``zero_out`` (interpret's accounting is for one record taken out) and protect one record. Adult
is scored on its test file, the other tables on a fixed third of the records (of the persons, where
persons have several), chosen once by a seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from _environments import run_job
from _metrics import scores, summarize, timed
from bench_preprocessing import TABLES, adult
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline

from skdpbayes import DPSGLDClassifier, ObjPertLogisticRegression, OPSLogisticRegression
from skdpbayes.datasets import load_mushroom, make_census
from skdpbayes.preprocessing import private_preprocessor

DELTA = 1e-5
EPSILONS = (0.1, 0.3, 0.5, 1.0, 3.0, 4.0)
NAMES = ("adult", *(name for name in TABLES if name != "adult"), "mushroom")
OURS = {
    "DPSGLDClassifier, spline": ("spline", DPSGLDClassifier),
    "DPSGLDClassifier, linear": ("linear", DPSGLDClassifier),
    "ObjPertLogisticRegression, spline": ("spline", ObjPertLogisticRegression),
    "OPSLogisticRegression, spline": ("spline", OPSLogisticRegression),
}


def census(_):
    data = make_census(4000, as_frame=True, random_state=0)
    public = {"bounds": data.bounds, "categories": data.categories}
    return data.data, np.asarray(data.target), public, None


def mushroom(folder):
    data = load_mushroom(folder, encoding=None, as_frame=True)
    return data.data, np.asarray(data.target), {"categories": data.categories}, None


def read(name, folder):
    """Return frame, labels, what is public, and the rows to fit and to score."""
    if name == "adult":
        X, y, public, _ = adult(folder)
        X_test, y_test, _, _ = adult(folder, "test")
        train = np.arange(len(X))
        test = len(X) + np.arange(len(X_test))
        return pd.concat([X, X_test], ignore_index=True), np.r_[y, y_test], public, train, test
    X, y, public, persons = {**TABLES, "mushroom": mushroom, "census": census}[name](folder)
    split = ShuffleSplit if persons is None else GroupShuffleSplit
    train, test = next(split(1, test_size=1 / 3, random_state=0).split(X, y, persons))
    return X, y, public, train, test


def ours(X, y, public, train, test, epsilons, seeds):
    for name, (numeric, kind) in OURS.items():
        prepare = private_preprocessor(**public, numeric=numeric)
        rows, held_out = prepare.fit_transform(X.iloc[train]), prepare.transform(X.iloc[test])
        for epsilon in epsilons:
            runs = []
            for seed in range(seeds):
                model = kind(
                    epsilon=epsilon,
                    delta=DELTA,
                    adjacency="zero_out",
                    classes=[0, 1],
                    random_state=seed,
                )
                _, seconds = timed(model.fit, rows, y[train])
                chance = model.predict_proba(held_out)[:, 1]
                runs.append({**scores(y[test], chance), "seconds": seconds})
            yield {"method": name, "epsilon": epsilon, "adjacency": "zero_out", **summarize(runs)}


def reference(X, y, public, train, test):
    """Return the scores of logistic regression on the same columns, without privacy."""
    model = make_pipeline(
        private_preprocessor(**public, numeric="spline"), LogisticRegression(C=1e3, max_iter=5000)
    )
    _, seconds = timed(model.fit, X.iloc[train], y[train])
    run = {**scores(y[test], model.predict_proba(X.iloc[test])[:, 1]), "seconds": seconds}
    yield {
        "method": "LogisticRegression, spline, not private",
        "epsilon": None,
        **summarize([run]),
    }


def boosting(python, X, y, public, train, test, epsilons, seeds):
    bounds, categories = public.get("bounds", {}), public.get("categories", {})
    columns = {
        name: X[name].fillna(np.mean(bounds[name])).to_numpy(float)
        if name in bounds
        else pd.Categorical(X[name], categories=list(categories[name])).codes.astype(float)
        for name in X.columns
    }
    arrays = {
        "X": np.column_stack(list(columns.values())),
        "y": y,
        "train": train,
        "test": test,
        "is_number": np.array([name in bounds for name in columns]),
        "bounds": np.array([bounds.get(name, (0.0, 0.0)) for name in columns], dtype=float),
    }
    job = {"epsilons": epsilons, "seeds": seeds, "delta": DELTA}
    yield from run_job("interpret", python, job, arrays)


def descent(python, X, y, public, train, test, epsilons, seeds):
    """DP-SGD on the rows that ours are fitted on, and a constant."""
    for numeric in ("spline", "linear"):
        prepare = private_preprocessor(**public, numeric=numeric)
        parts = prepare.fit_transform(X.iloc[train]), prepare.transform(X.iloc[test])
        rows, held_out = (np.column_stack([part, np.ones(len(part))]) for part in parts)
        arrays = {"X": rows, "y": y[train], "X_test": held_out, "y_test": y[test]}
        job = {"task": "accuracy", "epsilons": epsilons, "delta": DELTA, "seeds": seeds}
        for row in run_job("opacus", python, {**job, "tuning_seeds": 2, "threads": 1}, arrays):
            if "versions" not in row:
                yield {**row, "method": f"{row['method']}, {numeric}"}


def measure(store, only, folder, pythons, seeds, quick):
    """Measure every table and put the rows into the store; without a folder a made-up census."""
    epsilons = [0.2, 2.0] if quick else list(EPSILONS)
    for name in NAMES if folder else ("census",):
        data = read(name, Path(folder or "."))
        parts = []
        if "ours" in only:
            parts += [("ours", reference(*data)), ("ours", ours(*data, epsilons, seeds))]
        for name_of_peer, run in (("interpret", boosting), ("opacus", descent)):
            if "peers" in only and name_of_peer in pythons:
                parts.append(("peers", run(pythons[name_of_peer], *data, epsilons, seeds)))
        for who, rows in parts:
            for row in rows:
                version = row.pop("version", None)
                if version is not None:
                    store.add_versions("tables", who, {"interpret": version})
                store.put(**{"part": "tables", "who": who, "data": name, "delta": DELTA, **row})
