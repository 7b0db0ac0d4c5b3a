"""Private regressions beside AdaSSP and ordinary least squares: errors, coverage, R squared.

    python benchmarks/bench_regression.py [--data FOLDER] [--repetitions 100] [--quick]

The simulated design has five correlated columns, half of the variance explained, rows cut at
3.5 deviations and targets at four deviations of the errors. With a folder (or ``SKDPBAYES_DATA``)
Abalone and CPS earnings follow, prepared from public bounds.

AdaSSP (Wang, UAI 2018) is written from its formulas, with three releases of equal Gaussian DP in
place of its printed calibration, which does not hold for each release on its own. It has no
intercept: in the simulation it is told that there is none, real tables get a constant column.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpbayes import DPSGLDRegressor, PrivateBayesianRidge, datasets, private_preprocessor
from skdpbayes.privacy import gaussian_noise_multiplier

DELTA = 1e-5
ROW_BOUND, TARGET_BOUND, N_COLUMNS, CORRELATION = 3.5, 4.0, 5, 0.3
DESIGN = [(1000, 0.1), (1000, 1.0), (5000, 0.1), (5000, 1.0), (50_000, 0.1), (50_000, 1.0)]


def adassp(X, y, epsilon, adjacency, rng, failure=0.05):
    """Coefficients of AdaSSP for rows and targets within 1."""
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
    cross = X.T @ y + of_cross * rng.normal(size=d)
    return np.linalg.solve(square + noise + ridge * np.eye(d), cross)


def simulate(n, rng):
    """Return rows, targets and true coefficients, in the units of the bounds."""
    covariance = (1 - CORRELATION) * np.eye(N_COLUMNS) + CORRELATION
    beta = np.array([1.0, -0.5, 0.3, 0.8, 0.0])
    beta /= np.sqrt(beta @ covariance @ beta)
    X = rng.normal(size=(n, N_COLUMNS)) @ np.linalg.cholesky(covariance).T
    X *= np.minimum(1.0, ROW_BOUND / np.linalg.norm(X, axis=1))[:, None]
    y = X @ beta + rng.normal(size=n)
    scaled = np.clip(y / TARGET_BOUND, -1.0, 1.0)
    return X / ROW_BOUND, scaled, beta * ROW_BOUND / TARGET_BOUND


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


def tables(folder):
    """Yield name, frame, target, target bounds and preparation of the real tables."""
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
    yield "Abalone rings", abalone.data, rings, (0.0, 30.0), prepare
    cps = pd.read_csv(Path(folder) / "cps_earnings.csv.gz")
    prepare = private_preprocessor(
        bounds={"age": (18, 65), "education": (0, 20)},
        categories={
            "gender": ["female", "male"],
            "region": ["Northeast", "Midwest", "South", "West"],
        },
    )
    logs = np.log(cps.pop("earnings").to_numpy())
    yield "CPS log earnings", cps, logs, (0.0, np.log(100.0)), prepare


def real(folder, seeds):
    for name, frame, target, target_bounds, prepare in tables(folder):
        X, X_test, y, y_test = train_test_split(frame, target, test_size=0.25, random_state=0)
        low, high = target_bounds
        middle, half = (low + high) / 2, (high - low) / 2
        plain = make_pipeline(prepare, LinearRegression()).fit(X, y).score(X_test, y_test)
        rows, test = (np.asarray(prepare.fit_transform(part)) for part in (X, X_test))
        constant, test_constant = (
            np.column_stack([part, np.ones(len(part))]) / 2**0.5 for part in (rows, test)
        )
        scaled = np.clip((y - middle) / half, -1, 1)
        print(f"\n{name}: test R squared, mean of {seeds} seeds; OLS {plain:.4f}")
        print(
            f"{'epsilon':>9s}{'AdaSSP':>10s}{'ridge':>10s}{'ridge, delta=0':>16s}{'fit, ms':>10s}"
        )
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            scores = {"AdaSSP": [], "ridge": [], "pure": []}
            spent = 0.0
            for seed in range(seeds):
                rng = np.random.default_rng(seed)
                coef = adassp(constant, scaled, epsilon, "replace_one", rng)
                gap = y_test - (middle + half * test_constant @ coef)
                scores["AdaSSP"].append(1.0 - np.mean(gap**2) / np.var(y_test))
                start = time.perf_counter()
                model = PrivateBayesianRidge(
                    epsilon, DELTA, target_bounds=target_bounds, random_state=seed
                ).fit(rows, y)
                spent += time.perf_counter() - start
                scores["ridge"].append(model.score(test, y_test))
                model = PrivateBayesianRidge(
                    epsilon, 0.0, target_bounds=target_bounds, random_state=seed
                ).fit(rows, y)
                scores["pure"].append(model.score(test, y_test))
            means = [np.mean(values) for values in scores.values()]
            cells = f"{means[0]:10.4f}{means[1]:10.4f}{means[2]:16.4f}"
            print(f"{epsilon:9g}{cells}{1e3 * spent / seeds:10.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SKDPBAYES_DATA"))
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="few repetitions: does it run?")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    repetitions = 3 if args.quick else args.repetitions
    for adjacency in ("replace_one", "zero_out"):
        simulation(repetitions, adjacency)
    if args.data:
        real(args.data, min(20, repetitions))


if __name__ == "__main__":
    main()
