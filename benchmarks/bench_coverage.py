"""How often intervals of DPSGLDClassifier cover, by simulation.

    python -m benchmarks.bench_coverage [--repeats 60] [--quick]

Three normal and two binary columns ("mixed", d = 5); correlated normal, exponential and binary
columns, of which one is rare ("skewed", d = 8). Labels follow a logistic model on the bounded rows,
intervals are nominally 90 %. Printed: how many coefficients are covered, the least of any
coefficient, the mean width beside that of intervals without privacy on the same rows, and beside
the central 90 % of the chain's states, and the root mean square error of the interval's center over
that of ``coef_``. Columns that have no interval are left out and counted.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.special import expit, ndtri
from sklearn.linear_model import LogisticRegression

from skdpbayes import DPSGLDClassifier
from skdpbayes.exceptions import PrivacyWarning

NORM = {"mixed": 4.0, "skewed": 5.0}
TRUTH = {
    "mixed": np.array([0.8, -0.5, 0.3, 0.6, -0.6, 0.2]),
    "skewed": np.array([0.6, -0.3, 0.0, 0.4, 0.3, -0.5, 0.8, -0.6, 0.2]),
}
SETTINGS = [
    (kind, n, {"epsilon": epsilon, "adjacency": adjacency})
    for kind in TRUTH
    for n in (5000, 20000)
    for epsilon in (0.5, 1.0)
    for adjacency in ("replace_one", "zero_out")
] + [
    ("mixed", 5000, {"epsilon": 1.0, "sampler": "sghmc"}),
    ("mixed", 5000, {"epsilon": 1.0, "sampler": "sgnht"}),
    ("mixed", 5000, {"epsilon": 1.0, "sampler": "sgfs"}),
    ("mixed", 5000, {"epsilon": 1.0, "batch_size": 500}),
    ("mixed", 5000, {"epsilon": 1.0, "batch_size": 500, "subsampling": "fixed"}),
    ("mixed", 2000, {"epsilon": np.inf}),
]


def table(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of at most the public norm and labels of the logistic model on them."""
    rng = np.random.default_rng(seed)
    if kind == "mixed":
        X = np.column_stack([rng.normal(size=(n, 3)), rng.random((n, 2)) < [0.4, 0.2]])
    else:
        X = np.empty((n, 8))
        X[:, :4] = rng.normal(size=(n, 4))
        for j in range(1, 4):
            X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
        X[:, 4:6] = rng.exponential(size=(n, 2)) - 1.0
        X[:, 6:] = rng.random((n, 2)) < [0.3, 0.1]
    X *= np.minimum(1.0, NORM[kind] / np.linalg.norm(X, axis=1))[:, None]
    return X, rng.random(n) < expit(X @ TRUTH[kind][:-1] + TRUTH[kind][-1])


def plain_width(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Width of Wald intervals without privacy."""
    rows = np.column_stack([X, np.ones(len(X))])
    fitted = LogisticRegression(C=np.inf, max_iter=1000).fit(X, y)
    p = fitted.predict_proba(X)[:, 1]
    covariance = np.linalg.inv((rows.T * (p * (1.0 - p))) @ rows)
    return 2.0 * ndtri(0.95) * np.sqrt(np.diag(covariance))


def measure(kind: str, n: int, params: dict, repeats: int) -> str:
    """Return a line of the table."""
    truth = TRUTH[kind]
    inside, widths, errors, of_coef = [], [], [], []
    for seed in range(repeats):
        X, y = table(kind, n, seed)
        model = DPSGLDClassifier(**params, data_norm=NORM[kind], random_state=seed).fit(X, y)
        found = model.interval(0.9)
        low, high = np.concatenate([found["coef"][0], found["intercept"]]).T
        states = model.sample_posterior(posterior="chain")
        states = np.column_stack([states["coef"][:, 0], states["intercept"]])
        spread = np.diff(np.quantile(states, [0.05, 0.95], axis=0), axis=0)[0]
        inside.append(np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high)))
        widths.append(np.column_stack([(high - low) / plain_width(X, y), (high - low) / spread]))
        errors.append(0.5 * (low + high) - truth)
        of_coef.append(np.append(model.coef_, model.intercept_) - truth)
    each = np.nanmean(inside, axis=0)
    wide, narrow = np.nanmean(widths, axis=(0, 1))
    gain = np.sqrt(np.nanmean(np.square(errors)) / np.mean(np.square(of_coef)))
    missing = np.mean(np.isnan(inside))
    name = " ".join(str(value) for value in params.values())
    return (
        f"{kind:7s} {n:6d} {name:26s} {np.nanmean(inside):.3f} {each.min():.2f} "
        f"{wide:6.2f} {narrow:6.2f} {gain:6.2f} {missing:6.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--quick", action="store_true", help="two data sets of the first setting")
    options = parser.parse_args()
    print("columns  records  fit                       covers least /plain /chain  error  none")
    for kind, n, params in SETTINGS[:1] if options.quick else SETTINGS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            print(measure(kind, n, params, 2 if options.quick else options.repeats), flush=True)


if __name__ == "__main__":
    main()
