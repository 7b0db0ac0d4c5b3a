"""Tables as people have them: ``private_preprocessor`` and our classifiers beside DP-EBM.

    python benchmarks/bench_tables.py --data FOLDER [--interpret-python PYTHON]
        [--tables adult abalone hie cps mushroom] [--epsilons 0.1 0.5 1 4] [--seeds 5] [--out FILE]

Nothing of ours is tuned: defaults, and what is publicly known of the columns. DP-EBM (interpret)
runs with its defaults and with the learning rate and number of rounds that are best on splits of
the training rows, for every table and epsilon, unpaid; its categories are taken from the data,
unpaid too, and missing numbers, which it does not take, are the middle of their bounds. All rows
are ``zero_out`` (interpret's accounting is for one record taken out) with delta = 1e-5 and protect
one record. Adult is scored on its test file, the other tables on a fixed third of the records (of
the persons, where persons have several), chosen once by a seed.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from _environments import interpreters, run_job
from _metrics import scores, summarize, timed
from bench_preprocessing import TABLES, adult
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline

from skdpbayes import DPSGLDClassifier, ObjPertLogisticRegression, OPSLogisticRegression
from skdpbayes.datasets import load_mushroom
from skdpbayes.preprocessing import private_preprocessor

DELTA = 1e-5
OURS = {
    "DPSGLDClassifier, spline": ("spline", DPSGLDClassifier),
    "DPSGLDClassifier, linear": ("linear", DPSGLDClassifier),
    "ObjPertLogisticRegression, spline": ("spline", ObjPertLogisticRegression),
    "OPSLogisticRegression, spline": ("spline", OPSLogisticRegression),
}


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
    X, y, public, persons = {**TABLES, "mushroom": mushroom}[name](folder)
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
        "epsilon": np.inf,
        **summarize([run]),
    }


def peer(python, X, y, public, train, test, epsilons, seeds):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = [*TABLES, "mushroom"]
    add("--data", type=Path, required=True)
    add("--tables", nargs="+", default=names, choices=names)
    add("--epsilons", nargs="+", type=float, default=[0.1, 0.5, 1.0, 4.0])
    add("--seeds", type=int, default=5)
    add("--only", choices=("ours", "peer"))
    add("--environments", metavar="DIR", help="make the peer's environment here")
    add("--interpret-python", metavar="PYTHON")
    add("--out", type=Path, help="a file of JSON lines; rows are added as they are measured")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    python = None
    if args.only != "ours":
        named = {"interpret": args.interpret_python}
        python = interpreters(named, args.environments, ["interpret"]).get("interpret")
    found = []
    for table in args.tables:
        data = read(table, args.data)
        parts = []
        if args.only != "peer":
            parts += [reference(*data), ours(*data, args.epsilons, args.seeds)]
        if python is not None:
            parts.append(peer(python, *data, args.epsilons, args.seeds))
        for part in parts:
            for row in part:
                found.append({"table": table, **row})
                print(json.dumps(found[-1]), flush=True)
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps(found[-1]) + "\n")
    columns = ["accuracy", "auc", "log_loss", "calibration_error", "seconds"]
    means = pd.DataFrame(found).set_index(["table", "epsilon", "method"])[columns].sort_index()
    print(means.round(4).to_string())


if __name__ == "__main__":
    main()
