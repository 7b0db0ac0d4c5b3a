"""Private regressions beside their peers and ordinary least squares: errors, coverage, R squared.

    python -m benchmarks.bench_regression [--data FOLDER] [--repetitions 100] [--quick]
        [--parts design grid tables] [--diffprivlib-python PYTHON] [--interpret-python PYTHON]

*design*: five correlated columns, half of the variance explained, rows cut at 3.5 deviations and
targets at four deviations of the errors; errors of slopes and coverage of intervals. *grid*: the
same with other numbers of records and columns; error of the predicted means on fresh rows. *tables*
(with a folder, or ``SKDPBAYES_DATA``): Abalone, CPS earnings and the RAND experiment, prepared from
public bounds; test R squared, of visits the mean deviance, too. A cell whose best peer is better
than all of ours is marked.

AdaSSP (Wang, UAI 2018) is written from its formulas, with three releases of equal Gaussian DP in
place of its printed calibration, which does not hold for each release on its own. It has no
intercept: in simulations it is told that there is none, real tables get a constant column. Boosted
AdaSSP (Tang et al. 2023) has the same three shares, the third for all rounds together; its rounds
and its clipping are those of four choices that are best on the test rows, which flatters it.
"splines" is the chain on ten hat functions (chosen on a split of RAND's training rows)
for every number, since DP-EBM is not linear either.
diffprivlib claims pure epsilon for replaced records, DP-EBM (epsilon, delta) for records that are
added or removed; both run in interpreters of their own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import GroupShuffleSplit, train_test_split

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _environments import interpreters, run_job

from skdpbayes import DPSGLDRegressor, PrivateBayesianRidge, datasets, private_preprocessor
from skdpbayes.privacy import gaussian_noise_multiplier

DELTA = 1e-5
ROW_BOUND, TARGET_BOUND, N_COLUMNS, CORRELATION = 3.5, 4.0, 5, 0.3
ADJACENCIES = ("replace_one", "zero_out")
DESIGN = [(1000, 0.1), (1000, 1.0), (5000, 0.1), (5000, 1.0), (50_000, 0.1), (50_000, 1.0)]


# records, columns, epsilons
GRID = [
    (1000, 5, (0.1, 1.0, 5.0)),
    (10_000, 5, (0.05, 1.0)),
    (10_000, 20, (0.1, 1.0, 5.0)),
    (100_000, 20, (0.05, 1.0)),
    (100_000, 50, (0.05, 1.0)),
    (1_000_000, 20, (0.05, 1.0)),
]
BOOSTS = [(100, 1.0), (10, 1.0), (10, 0.25), (100, 0.25)]


def adassp(X, y, epsilon, adjacency, rng, failure=0.05, boosts=None):
    """Coefficients of AdaSSP for rows and targets within 1; of boosts, (rounds, clip), a list."""
    d = X.shape[1]
    unit = np.sqrt(3.0) * gaussian_noise_multiplier(epsilon, DELTA)
    replaced = adjacency == "replace_one"
    of_least, of_square, of_cross = unit * np.array([1, 2**0.5, 2] if replaced else [1, 1, 1])
    square = X.T @ X
    least = np.linalg.eigvalsh(square)[0] + of_least * rng.normal()
    least = max(0.0, least - of_least * np.sqrt(np.log(6.0 / DELTA)))
    ridge = max(0.0, of_square * np.sqrt(d * np.log(2.0 * d**2 / failure)) - least)
    noise = np.triu(rng.normal(size=(d, d)))
    noise = of_square * (noise + np.triu(noise, 1).T)
    square += noise + ridge * np.eye(d)
    if boosts is None:
        return np.linalg.solve(square, X.T @ y + of_cross * rng.normal(size=d))
    found = []
    for rounds, clip in boosts:
        coef = np.zeros(d)
        for _ in range(rounds):
            cross = X.T @ np.clip(y - X @ coef, -clip, clip)
            cross += np.sqrt(rounds) * clip * of_cross * rng.normal(size=d)
            coef += np.linalg.solve(square, cross)
        found.append(coef)
    return found


def simulate(n, rng, d=N_COLUMNS):
    """Return rows, targets and true coefficients, in the units of the bounds."""
    covariance = (1 - CORRELATION) * np.eye(d) + CORRELATION
    beta = np.resize([1.0, -0.5, 0.3, 0.8, 0.0], d)
    beta /= np.sqrt(beta @ covariance @ beta)
    bound = ROW_BOUND * np.sqrt(d / N_COLUMNS)
    X = rng.normal(size=(n, d)) @ np.linalg.cholesky(covariance).T
    X *= np.minimum(1.0, bound / np.linalg.norm(X, axis=1))[:, None]
    y = X @ beta + rng.normal(size=n)
    scaled = np.clip(y / TARGET_BOUND, -1.0, 1.0)
    return X / bound, scaled, beta * bound / TARGET_BOUND


def simulation(repetitions, adjacency):
    print(f"\nRMSE of slopes (coverage of 90 % intervals), {adjacency}, delta={DELTA:g}")
    print("moments taken as they are and noise aware, and the chain (nan: no intervals offered)")
    heads = f"{'naive':>17s}{'noise aware':>17s}{'chain':>17s}"
    print(f"{'n':>7s}{'epsilon':>9s}{'OLS':>9s}{'AdaSSP':>9s}{heads}")
    for n, epsilon in DESIGN:
        errors = {name: [] for name in ("OLS", "AdaSSP", "naive", "noise_aware", "chain")}
        covered = {"naive": [], "noise_aware": [], "chain": []}
        for seed in range(repetitions):
            rng = np.random.default_rng(seed)
            X, y, beta = simulate(n, rng)
            errors["OLS"].append(LinearRegression().fit(X, y).coef_ - beta)
            errors["AdaSSP"].append(adassp(X, y, epsilon, adjacency, rng) - beta)
            for posterior, hits in covered.items():
                shared = {"adjacency": adjacency, "target_bounds": (-1, 1), "random_state": seed}
                if posterior == "chain":
                    model = DPSGLDRegressor(epsilon, DELTA, **shared)
                else:
                    model = PrivateBayesianRidge(epsilon, DELTA, posterior=posterior, **shared)
                fitted = model.fit(X, y)
                errors[posterior].append(fitted.coef_ - beta)
                if not hasattr(fitted, "interval"):
                    hits.append(np.full(N_COLUMNS, np.nan))
                    continue
                low, high = fitted.interval(0.9)["coef"].T
                hits.append((low < beta) & (beta < high))
        rmse = {name: np.sqrt(np.mean(np.square(gaps))) for name, gaps in errors.items()}
        cells = [f"{rmse[name]:9.4f}" for name in ("OLS", "AdaSSP")]
        cells += [f"{rmse[name]:10.4f} ({np.nanmean(hits):.2f})" for name, hits in covered.items()]
        print(f"{n:7d}{epsilon:9g}" + "".join(cells), flush=True)


def of_peers(pythons, table, epsilons, seeds):
    """Yield (peer, epsilon, predictions on the test rows)."""
    job = {"task": "regression", "epsilons": list(epsilons), "seeds": list(seeds), "delta": DELTA}
    for peer, python in pythons.items():
        for row in run_job(peer, python, job, table):
            if "predicted" in row:
                yield peer, row["epsilon"], np.array(row["predicted"])


def all_predictions(pythons, table, epsilons, seeds):
    """Return {(method, epsilon): predictions of every seed}, private methods only."""
    X, y, X_test, bounds = (table[name] for name in ("X", "y", "X_test", "target_bounds"))
    low, high = bounds
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    scaled = np.clip((y - middle) / half, -1.0, 1.0)
    rows, test = X, X_test
    if table["intercept"]:
        rows, test = (np.column_stack([p, np.ones(len(p))]) / 2**0.5 for p in (X, X_test))
    found = {}

    def put(method, epsilon, predicted):
        found.setdefault((method, epsilon), []).append(predicted)

    for peer, epsilon, predicted in of_peers(pythons, table, epsilons, seeds):
        put(peer, epsilon, predicted)
    for epsilon in epsilons:
        for seed in seeds:
            for adjacency in ADJACENCIES:
                name = adjacency.split("_")[0]
                rng = np.random.default_rng(seed)
                coef = adassp(rows, scaled, epsilon, adjacency, rng)
                put(f"AdaSSP, {name}", epsilon, middle + half * (test @ coef))
                tried = adassp(rows, scaled, epsilon, adjacency, rng, boosts=BOOSTS)
                for boost, coef in zip(BOOSTS, tried, strict=True):
                    put(f"boosted, {name} {boost}", epsilon, middle + half * (test @ coef))
                shared = {"adjacency": adjacency, "target_bounds": tuple(bounds)}
                for title, make in (("moments", PrivateBayesianRidge), ("chain", DPSGLDRegressor)):
                    model = make(epsilon, DELTA, random_state=seed, **shared).fit(X, y)
                    put(f"{title}, {name}", epsilon, model.predict(X_test))
    return found


def compare(title, found, epsilons, score, plain):
    """Print a line for every epsilon: mean scores, higher is better."""
    means = {key: float(np.mean([score(p) for p in many])) for key, many in found.items()}
    names = list(dict.fromkeys(name for name, _ in means))
    print(f"\n{title}; without privacy {plain:.4f}", flush=True)
    for epsilon in epsilons:
        line = {}
        for name in names:
            short = name.split(" (")[0]
            line[short] = max(line.get(short, -np.inf), means[name, epsilon])
        behind = [a for a in ("replace", "zero") if _behind(line, a)]
        cells = "  ".join(f"{k} {v:.4f}" for k, v in line.items())
        print(f"{epsilon:7g}  {cells}  {' '.join(f'BEHIND ({a})' for a in behind)}", flush=True)


def _behind(line, adjacency):
    """Whether a peer of the adjacency is better than all of ours."""
    names = (f"{name}, {adjacency}" for name in ("moments", "chain", "splines"))
    ours = max(line[name] for name in names if name in line)
    of_peers = [line[f"{name}, {adjacency}"] for name in ("AdaSSP", "boosted")]
    other = {"replace": "diffprivlib", "zero": "interpret"}[adjacency]
    return max([*of_peers, line.get(other, -np.inf)]) > ours


def grid(pythons, repetitions, largest):
    """Errors of predicted means, in deviations of the targets' errors, with a minus."""
    for n, d, epsilons in GRID:
        if n > largest:
            continue
        gathered, plain = {}, []
        for seed in range(max(2, min(repetitions, 2_000_000 // n))):
            rng = np.random.default_rng(seed)
            X, y, beta = simulate(n, rng, d)
            X_test = simulate(2000, rng, d)[0]
            table = {"X": X, "y": y, "X_test": X_test, "target_bounds": (-1.0, 1.0)}
            # columns are known to be within four deviations
            box = min(1.0, 4.0 / (ROW_BOUND * np.sqrt(d / N_COLUMNS))) * np.ones((2, d))
            table |= {"box": box * [[-1.0], [1.0]], "intercept": False}
            for key, many in all_predictions(pythons, table, epsilons, [seed]).items():
                gaps = [TARGET_BOUND * (p - X_test @ beta) for p in many]
                gathered.setdefault(key, []).extend(gaps)
            ols = LinearRegression().fit(X, y).predict(X_test) - X_test @ beta
            plain.append(TARGET_BOUND * np.sqrt(np.mean(np.square(ols))))
        title = f"n = {n}, d = {d}: minus error of the mean"
        compare(title, gathered, epsilons, lambda p: -np.sqrt(np.mean(p**2)), -np.mean(plain))


def tables(folder):
    """Yield name, frame, target, target bounds, preparation and persons of the real tables."""
    abalone = datasets.load_abalone(folder, encoding=None, as_frame=True)
    sizes = {
        "length": (0.0, 1.0),
        "diameter": (0.0, 1.0),
        "height": (0.0, 0.5),
        "whole_weight": (0.0, 3.0),
        "shucked_weight": (0.0, 1.5),
        "viscera_weight": (0.0, 1.0),
        "shell_weight": (0.0, 1.0),
    }
    prepare = private_preprocessor(bounds=sizes, categories={"sex": ["F", "I", "M"]})
    rings = np.asarray(abalone.target, dtype=float)
    yield "Abalone rings", abalone.data, rings, (0.0, 30.0), prepare, None
    cps = pd.read_csv(Path(folder) / "cps_earnings.csv.gz")
    prepare = private_preprocessor(
        bounds={"age": (18, 65), "education": (0, 20)},
        categories={
            "gender": ["female", "male"],
            "region": ["Northeast", "Midwest", "South", "West"],
        },
    )
    logs = np.log(cps.pop("earnings").to_numpy())
    yield "CPS log earnings", cps, logs, (0.0, np.log(100.0)), prepare, None
    rand = pd.read_csv(Path(folder) / "rand_hie.csv.gz").dropna()
    bounds = {"xage": (0, 65), "educdec": (0, 25), "income": (0, 30_000), "num": (1, 14)}
    bounds |= {"disea": (0, 60), "ghindx": (0, 100), "mhi": (0, 100), "coins": (0, 100)}
    flags = ["black", "female", "physlm", "child", "hlthg", "hlthf", "hlthp"]
    prepare = private_preprocessor(bounds=bounds | dict.fromkeys(flags, (0, 1)))
    frame, persons = rand[[*bounds, *flags]], rand["person"].to_numpy()
    expense = np.log1p(rand["meddol"].to_numpy())
    yield "RAND log expense", frame, expense, (0.0, np.log1p(50_000.0)), prepare, persons
    yield "RAND visits", frame, rand["mdvis"].to_numpy(float), (0.0, 50.0), prepare, persons


def split(frame, target, persons):
    """Return training and test rows; persons are in one of them with all their records."""
    places = np.arange(len(target))
    if persons is None:
        return train_test_split(places, test_size=0.25, random_state=0)
    return next(GroupShuffleSplit(1, test_size=0.25, random_state=0).split(places, groups=persons))


def real(folder, seeds, pythons, epsilons=(0.1, 0.3, 1.0, 3.0)):
    for name, frame, target, bounds, prepare, persons in tables(folder):
        train, test = split(frame, target, persons)
        rows = np.asarray(prepare.fit_transform(frame), dtype=float)
        X, X_test, y, y_test = rows[train], rows[test], target[train], target[test]
        # of the prepared columns: public, as the preparation is
        reach = np.abs(rows).max(axis=0)
        table = {"X": X, "y": y, "X_test": X_test, "target_bounds": bounds}
        table |= {"box": np.array([-reach, reach]), "intercept": True}

        def r2(p, y_test=y_test):
            return 1.0 - np.mean(np.square(y_test - p)) / np.var(y_test)

        found = all_predictions(pythons, table, epsilons, range(seeds))
        plain = r2(LinearRegression().fit(X, y).predict(X_test))
        shape = f"{X.shape[0]} x {X.shape[1]}"
        splines = clone(prepare).set_params(numeric="spline", n_knots=10).fit_transform(frame)
        splines = np.asarray(splines, dtype=float)
        add_splines(found, splines[train], y, splines[test], bounds, epsilons, seeds)
        if persons is not None:
            add_persons(found, X, y, X_test, bounds, persons[train], epsilons, seeds)
        if name == "RAND visits":
            add_counts(found, X, y, X_test, bounds, persons[train], epsilons, seeds)
        compare(f"{name} ({shape}), test R squared", found, epsilons, r2, plain)
        if name == "RAND visits":

            def fit(p, y_test=y_test):
                return -mean_poisson_deviance(y_test, np.maximum(p, 0.05))

            plain = fit(PoissonRegressor(alpha=0.0, max_iter=1000).fit(X, y).predict(X_test))
            compare(f"{name}, minus mean deviance", found, epsilons, fit, plain)
    speed()


def add_splines(found, X, y, X_test, bounds, epsilons, seeds):
    for epsilon in epsilons:
        for seed in range(seeds):
            for adjacency in ADJACENCIES:
                model = DPSGLDRegressor(
                    epsilon, DELTA, adjacency=adjacency, target_bounds=bounds, random_state=seed
                ).fit(X, y)
                key = (f"splines, {adjacency.split('_')[0]}", epsilon)
                found.setdefault(key, []).append(model.predict(X_test))


def add_persons(found, X, y, X_test, bounds, persons, epsilons, seeds):
    """Fits that protect all records of a person; no peer offers that."""
    for epsilon in epsilons:
        for seed in range(seeds):
            model = DPSGLDRegressor(epsilon, DELTA, target_bounds=bounds, random_state=seed)
            model.fit(X, y, units=persons)
            found.setdefault(("chain, persons", epsilon), []).append(model.predict(X_test))


def add_counts(found, X, y, X_test, bounds, persons, epsilons, seeds):
    for epsilon in epsilons:
        for seed in range(seeds):
            for name, units in (("records", None), ("persons", persons)):
                model = DPSGLDRegressor(
                    epsilon, DELTA, loss="poisson", target_bounds=bounds, random_state=seed
                ).fit(X, y, units=units)
                key = (f"chain, counts, {name}", epsilon)
                found.setdefault(key, []).append(model.predict(X_test))


def speed():
    """Time of a fit over that of scikit-learn's LinearRegression, processor seconds."""
    print("\nfit, processor seconds: LinearRegression, moments, chain")
    for n, d in ((10_000, 10), (100_000, 20), (1_000_000, 20)):
        X, y, _ = simulate(n, np.random.default_rng(0), d)
        spent = []
        for make in (
            LinearRegression(),
            PrivateBayesianRidge(target_bounds=(-1, 1)),
            DPSGLDRegressor(target_bounds=(-1, 1)),
        ):
            times = []
            for _ in range(3):
                start = time.process_time()
                make.fit(X, y)
                times.append(time.process_time() - start)
            spent.append(min(times))
        ratios = ", ".join(f"{t:.3f} ({t / spent[0]:.1f})" for t in spent)
        print(f"{n:9d} x {d}: {ratios}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SKDPBAYES_DATA"))
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="few repetitions: does it run?")
    parser.add_argument("--parts", nargs="+", default=["design", "grid", "tables"])
    parser.add_argument("--diffprivlib-python")
    parser.add_argument("--interpret-python")
    parser.add_argument("--environments", help="folder in which peers' environments are made")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    named = {"diffprivlib": args.diffprivlib_python, "interpret": args.interpret_python}
    pythons = interpreters(named, args.environments, ("diffprivlib", "interpret"))
    repetitions = 3 if args.quick else args.repetitions
    if "design" in args.parts:
        for adjacency in ADJACENCIES:
            simulation(repetitions, adjacency)
    if "grid" in args.parts:
        grid(pythons, min(20, repetitions), 1000 if args.quick else 10**7)
    if "tables" in args.parts and args.data:
        real(args.data, min(10, repetitions), pythons)


if __name__ == "__main__":
    main()
