"""How numbers should enter a private linear model: the rules behind ``private_preprocessor``.

    python benchmarks/bench_preprocessing.py --data FOLDER [--tables adult abalone hie cps]
        [--settings linear spline8 ...] [--epsilons 0.1 1] [--splits 3] [--seeds 2] [--out FILE]
    python benchmarks/bench_preprocessing.py --data FOLDER --report-test

DPSGLDClassifier with its defaults (zero_out, delta = 1e-5) on splits of training files: accuracy,
AUC and log loss of every setting. The test file of Adult is read by ``--report-test`` alone, which
runs the settings that the splits have chosen.

Settings: "linear"; "splineK" with K hats per number; "cut", numbers and indicators as they are and
rows longer than 1 scaled down. A "+raw" behind a setting leaves out the logarithm of columns that
are declared skewed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline

from skdpbayes import DPSGLDClassifier
from skdpbayes.datasets import load_abalone, load_adult
from skdpbayes.preprocessing import RowNormClipper, private_preprocessor

SETTINGS = ("cut", "linear", "spline4", "spline6", "spline8", "spline12", "spline16")


def adult(folder, split="train"):
    data = load_adult(folder, split=split, encoding=None, as_frame=True)
    public = {"bounds": data.bounds, "categories": data.categories}
    skewed = ["capital-gain", "capital-loss"]
    return data.data, np.asarray(data.target), {**public, "skewed": skewed}, None


def abalone(folder):
    data = load_abalone(folder, target="old", encoding=None, as_frame=True)
    return (
        data.data,
        np.asarray(data.target),
        {"bounds": data.bounds, "categories": data.categories},
        None,
    )


def hie(folder):
    frame = pd.read_csv(folder / "rand_hie.csv.gz")
    bounds = {
        **{"xage": (0, 65), "educdec": (0, 25), "income": (0, 30_000), "num": (1, 14)},
        **{"disea": (0, 60), "ghindx": (0, 100), "mhi": (0, 100), "coins": (0, 100)},
    }
    flags = ("black", "female", "physlm", "child", "hlthg", "hlthf", "hlthp")
    categories = {
        "year": [1, 2, 3, 4, 5],
        "plan": list(range(1, 20)),
        "site": list(range(1, 7)),
        **{name: [0, 1] for name in flags},
    }
    public = {"bounds": bounds, "categories": categories, "missing": ["ghindx"]}
    columns = [*bounds, *categories]
    return frame[columns], frame["binexp"].to_numpy(), public, frame["person"].to_numpy()


def cps(folder):
    frame = pd.read_csv(folder / "cps_earnings.csv.gz")
    public = {
        "bounds": {"age": (21, 64), "education": (6, 20)},
        "categories": {
            "gender": ["female", "male"],
            "region": ["Midwest", "Northeast", "South", "West"],
        },
    }
    # Twenty dollars an hour: a round figure
    return frame[list(frame.columns[1:])], (frame["earnings"] > 20).to_numpy(int), public, None


TABLES = {"adult": adult, "abalone": abalone, "hie": hie, "cps": cps}


def make_model(setting, public, epsilon, seed):
    kind, _, raw = setting.partition("+")
    options = dict(public)
    if raw:
        options.pop("skewed", None)
    model = DPSGLDClassifier(
        epsilon=epsilon, delta=1e-5, adjacency="zero_out", classes=[0, 1], random_state=seed
    )
    if kind == "cut":
        n_blocks = len(options["bounds"]) + len(options["categories"])
        prepare = private_preprocessor(**options, numeric="linear", norm=n_blocks**0.5)
        return make_pipeline(prepare, RowNormClipper(1.0), model)
    if kind == "linear":
        return make_pipeline(private_preprocessor(**options, numeric="linear"), model)
    n_knots = int(kind.removeprefix("spline"))
    return make_pipeline(private_preprocessor(**options, numeric="spline", n_knots=n_knots), model)


def scores(model, X, y):
    chance = model.predict_proba(X)[:, 1]
    return {
        "accuracy": accuracy_score(y, chance > 0.5),
        "auc": roc_auc_score(y, chance),
        "log_loss": log_loss(y, chance),
    }


def run(args):
    rows = []
    for table in args.tables:
        X, y, public, groups = TABLES[table](args.data)
        splitter = (ShuffleSplit if groups is None else GroupShuffleSplit)(
            args.splits, test_size=0.3, random_state=0
        )
        for part, (train, valid) in enumerate(splitter.split(X, y, groups)):
            for setting in args.settings:
                for epsilon in args.epsilons:
                    for seed in range(args.seeds):
                        start = time.perf_counter()
                        model = make_model(setting, public, epsilon, 100 * part + seed)
                        model.fit(X.iloc[train], y[train])
                        row = {"table": table, "setting": setting, "epsilon": epsilon}
                        row |= scores(model, X.iloc[valid], y[valid])
                        row |= {"split": part, "seed": seed, "seconds": time.perf_counter() - start}
                        rows.append(row)
                        if args.out:
                            with args.out.open("a") as file:
                                file.write(json.dumps(row) + "\n")
    return rows


def report_test(args):
    X, y, public, _ = adult(args.data)
    X_test, y_test, _, _ = adult(args.data, "test")
    rows = []
    for setting in args.settings:
        for epsilon in args.epsilons:
            for seed in range(args.seeds):
                model = make_model(setting, public, epsilon, seed).fit(X, y)
                row = {"table": "adult test", "setting": setting, "epsilon": epsilon}
                rows.append(row | scores(model, X_test, y_test))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.5, 1.0, 4.0])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report-test", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = report_test(args) if args.report_test else run(args)
    table = pd.DataFrame(rows).groupby(["table", "setting", "epsilon"])
    columns = ["accuracy", "auc", "log_loss"]
    means = table[columns].mean().unstack("epsilon").round(4)
    print(means.to_string())


if __name__ == "__main__":
    main()
