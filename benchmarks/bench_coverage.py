"""How often intervals and draws cover, by simulation, for every estimator that has them.

    python benchmarks/bench_coverage.py --output docs/coverage.csv [--only NAME ...]
    python benchmarks/bench_coverage.py --chain                      # the table of dpsgld.rst

Intervals are nominally 90 %. A cell of the grid is an estimator on a design; designs differ from
the first one in one respect. Columns are three normal and two binary ones ("mixed"), or correlated
normal, exponential and binary ones of which one is rare ("skewed"). Labels follow a logistic model
on the rows as the estimator bounds them, so that its coefficients are known. Where rows are *cut*,
labels follow the rows as they are, and the truth is the best logistic model on the bounded rows or
(*own*) that of the rows as they are. The *pipeline* is that of the README: a made-up census behind
`private_preprocessor`; its truth is the best logistic model of the population, and what counts are
the numbers' coefficients and, as complete blocks of indicators tell no more, the contrasts of the
categories.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri, softmax
from sklearn.linear_model import LogisticRegression

from skdpbayes import (
    DPSGLDClassifier,
    DPSGLDRegressor,
    LaplaceNaiveBayes,
    ObjPertLogisticRegression,
    OPSLogisticRegression,
    PrivateBayesianRidge,
    PrivateHMM,
    conjugate,
    private_preprocessor,
)
from skdpbayes.datasets import make_census, make_event_log
from skdpbayes.exceptions import PrivacyWarning

NORM = {"mixed": 4.0, "skewed": 5.0}
TRUTH = {
    "mixed": np.array([0.8, -0.5, 0.3, 0.6, -0.6, 0.2]),
    "skewed": np.array([0.6, -0.3, 0.0, 0.4, 0.3, -0.5, 0.8, -0.6, 0.2]),
}
ENDS = (0.05, 0.95)
COLUMNS = ("estimator", "design", "tables", "refused", "covers", "least", "narrow", "width")
CUT_NORM = 2.0  # cuts 36 % of the mixed rows

Study = Callable[[int], tuple[np.ndarray, ...] | None]
"""Of a seed: truth, lower and upper ends, and perhaps widths without privacy; None if refused."""


def rows_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows before they are bounded."""
    if kind == "mixed":
        return np.column_stack([rng.normal(size=(n, 3)), rng.random((n, 2)) < [0.4, 0.2]])
    X = np.empty((n, 8))
    X[:, :4] = rng.normal(size=(n, 4))
    for j in range(1, 4):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    X[:, 4:6] = rng.exponential(size=(n, 2)) - 1.0
    X[:, 6:] = rng.random((n, 2)) < [0.3, 0.1]
    return X


def bounded(X: np.ndarray, norm: float) -> np.ndarray:
    """Rows of at most the public norm."""
    return X * np.minimum(1.0, norm / np.linalg.norm(X, axis=1))[:, None]


def table(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of at most the public norm and labels of the logistic model on them."""
    rng = np.random.default_rng(seed)
    X = bounded(rows_of(kind, n, rng), NORM[kind])
    return X, rng.random(n) < expit(X @ TRUTH[kind][:-1] + TRUTH[kind][-1])


def plain_width(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Width of Wald intervals without privacy."""
    rows = np.column_stack([X, np.ones(len(X))])
    fitted = LogisticRegression(C=np.inf, max_iter=1000).fit(X, y)
    p = fitted.predict_proba(X)[:, 1]
    covariance = np.linalg.inv((rows.T * (p * (1.0 - p))) @ rows)
    return 2.0 * ndtri(0.95) * np.sqrt(np.diag(covariance))


# Two classes

DESIGNS: dict[str, dict[str, Any]] = {
    "first": {},
    "n = 1,000": {"n": 1000},
    "n = 20,000": {"n": 20_000},
    "ε = 0.3": {"epsilon": 0.3},
    "ε = 3": {"epsilon": 3.0},
    "zero_out": {"adjacency": "zero_out"},
    "weak": {"effect": 0.25},
    "strong": {"effect": 2.5},
    "scales": {"scales": (1.0, 0.4, 0.15, 1.0, 1.0)},
    "imbalanced": {"shift": -3.4},
    "skewed": {"kind": "skewed"},
    "cut": {"cut": "bounded"},
    "cut, own": {"cut": "own"},
}


@cache
def cut_truth() -> np.ndarray:
    """Coefficients of the best logistic model on rows that are cut."""
    rng = np.random.default_rng(999)
    X = rows_of("mixed", 400_000, rng)
    y = rng.random(len(X)) < expit(X @ TRUTH["mixed"][:-1] + TRUTH["mixed"][-1])
    fitted = LogisticRegression(C=np.inf, max_iter=1000).fit(bounded(X, CUT_NORM), y)
    return np.append(fitted.coef_[0], fitted.intercept_)


def two_classes(
    seed: int,
    make: Callable[..., Any],
    *,
    kind: str = "mixed",
    n: int = 5000,
    effect: float = 1.0,
    shift: float = 0.0,
    scales: tuple[float, ...] | None = None,
    cut: str = "",
    public: bool = False,
    **params: Any,
) -> tuple[np.ndarray, ...] | None:
    """Fit one table; ``public`` passes rows of the same distribution to ``interval``."""
    rng, truth, norm = np.random.default_rng(seed), TRUTH[kind].copy(), NORM[kind]
    truth[:-1] *= effect
    truth[-1] += shift
    factor = np.ones(truth.size - 1) if scales is None else np.array(scales)
    X = rows_of(kind, n, rng)
    if cut:
        y = rng.random(n) < expit(X @ truth[:-1] + truth[-1])
        norm, X = CUT_NORM, bounded(X, CUT_NORM)
        truth = truth if cut == "own" else cut_truth()
    else:
        X = bounded(X, norm)
        y = rng.random(n) < expit(X @ truth[:-1] + truth[-1])
    truth[:-1] /= factor
    model = make(data_norm=norm, random_state=seed, **params).fit(X * factor, y)
    rows = {}
    if public:
        reference = bounded(rows_of(kind, 2000, np.random.default_rng(10_000 + seed)), norm)
        rows = {"X": reference * factor}
    found = ends_of(model, **rows)
    return None if found is None else (truth, *found, plain_width(X * factor, y))


def ends_of(model: Any, **rows: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Lower and upper ends of a fit, or None."""
    try:
        found = model.interval(0.9, **rows)
    except (AttributeError, ValueError):
        return None
    both = np.concatenate(
        [np.atleast_3d(found["coef"].T).T.reshape(-1, 2), np.atleast_2d(found["intercept"])]
    )
    return both[:, 0], both[:, 1]


@cache
def census_truth() -> np.ndarray:
    """Coefficients of the best logistic model of the census."""
    X, y, _ = census(200_000, 999)
    fitted = LogisticRegression(C=1e4, max_iter=500).fit(X, y)
    return np.append(fitted.coef_[0], fitted.intercept_)


def census(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows behind `private_preprocessor`, labels, and what is known of the coefficients."""
    data = make_census(n, as_frame=True, random_state=seed)
    X = private_preprocessor(data.bounds, data.categories).fit_transform(data.data)
    known, place = np.eye(X.shape[1] + 1)[:-1], len(data.bounds)
    for values in data.categories.values():
        block = slice(place, place + len(values))
        known[block, block] -= 1.0 / len(values)
        place += len(values)
    return X, np.asarray(data.target), known


def pipeline(seed: int, make: Callable[..., Any], **params: Any) -> tuple[np.ndarray, ...]:
    """Fit a census of 20,000."""
    X, y, known = census(20_000, seed)
    drawn = make(**{"epsilon": 1.0, "delta": 1e-6, "random_state": seed, **params}).fit(X, y)
    drawn = drawn.sample_posterior(2000, random_state=1)
    drawn = np.column_stack([drawn["coef"][:, 0], drawn["intercept"]])
    return known @ census_truth(), *np.quantile(drawn @ known.T, ENDS, axis=0)


# Several classes, counts of events, numbers


def several(
    seed: int, make: Callable[..., Any], *, n: int = 5000, **params: Any
) -> tuple[np.ndarray, ...] | None:
    """Three classes; coefficients that add up to 0."""
    rng = np.random.default_rng(seed)
    X = bounded(rows_of("mixed", n, rng), NORM["mixed"])
    truth = 0.6 * np.random.default_rng(99).normal(size=(3, 6))
    truth -= truth.mean(axis=0)
    chance = softmax(X @ truth[:, :-1].T + truth[:, -1], axis=1)
    y = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    model = make(data_norm=NORM["mixed"], random_state=seed, **params).fit(X, y)
    if not hasattr(model, "interval"):
        return None
    drawn = model.sample_posterior(2000, random_state=1)
    drawn = np.concatenate([drawn["coef"], drawn["intercept"][:, :, None]], axis=2)
    drawn -= drawn.mean(axis=1, keepdims=True)
    return truth, *np.quantile(drawn, ENDS, axis=0)


def numbers(
    seed: int, make: Callable[..., Any], *, n: int = 5000, counts: bool = False, **params: Any
) -> tuple[np.ndarray, ...] | None:
    """A regression on the mixed columns: normal errors, or counts."""
    rng = np.random.default_rng(seed)
    X = bounded(rows_of("mixed", n, rng), NORM["mixed"])
    truth = 0.5 * TRUTH["mixed"]
    mean = X @ truth[:-1] + truth[-1]
    y = np.minimum(rng.poisson(np.exp(mean)), 20) if counts else mean + rng.normal(size=n)
    bounds = (0, 20) if counts else (-5, 5)
    more = {"loss": "poisson"} if counts else {}
    made = make(data_norm=NORM["mixed"], target_bounds=bounds, random_state=seed, **more, **params)
    found = ends_of(made.fit(X, y))
    return None if found is None else (truth, *found)


def naive_bayes(
    seed: int, *, distribution: str, n: int = 3000, **params: Any
) -> tuple[np.ndarray, ...]:
    """Two classes; parameters drawn from the prior."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(2, 5.0))
    y = rng.choice(2, n, p=prior)
    more: dict[str, Any] = {}
    if distribution == "gaussian":
        center, spread = rng.uniform(-1, 1, (2, 2)), rng.uniform(0.5, 1.0, (2, 2))
        X, truth = rng.normal(center[y], spread[y]), {"mean": center, "variance": spread**2}
        more["bounds"] = (-4, 4)
    elif distribution == "multinomial":
        theta = rng.dirichlet(np.ones(6), 2)
        X, truth = rng.multinomial(5, theta[y]).astype(float), {"token_prob": theta}
        more["max_total"] = 5
    elif distribution == "categorical":
        theta = rng.dirichlet(np.ones(4), (2, 2))
        X = (rng.random((n, 2, 1)) > theta[y].cumsum(axis=2)).sum(axis=2)
        truth, more["categories"] = {"category_prob": theta}, 4
    else:
        theta = rng.random((2, 3))
        X, truth = (rng.random((n, 3)) < theta[y]).astype(float), {"bernoulli_prob": theta}
    truth["class_prior"] = prior
    model = LaplaceNaiveBayes(
        distribution=distribution, random_state=seed, predictive_draws=1, **more, **params
    )
    return named(truth, model.fit(X, y).interval(0.9))


def named(truth: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """Line up the truth and the intervals by their names."""
    ends = np.concatenate([found[name].reshape(-1, 2) for name in truth])
    return np.concatenate([np.ravel(value) for value in truth.values()]), ends[:, 0], ends[:, 1]


def event_log(
    seed: int, *, sizes: tuple[int, int, int], n_iter: int, **params: Any
) -> tuple[np.ndarray, ...]:
    """Emissions of one state, drawn from the prior."""
    log = make_event_log(
        *sizes, n_states=1, categories=(5,), emission_concentration=1.0, random_state=seed
    )
    model = PrivateHMM(
        n_states=1,
        categories=5,
        n_times=sizes[1],
        sequence_labels=range(sizes[0]),
        n_iter=n_iter,
        burn_in=n_iter // 3,
        n_chains=1,
        random_state=seed + 1000,
        **params,
    ).fit(log.data, times=log.times, sequences=log.sequences)
    drawn = model.sample_posterior()["emission"][:, 0]
    return log.emission[0][0], *np.quantile(drawn, ENDS, axis=0)


def one_number(seed: int, *, kind: str, n: int = 500, **params: Any) -> tuple[np.ndarray, ...]:
    """A conjugate model; its parameter drawn from the prior."""
    rng = np.random.default_rng(seed)
    model: Any
    if kind == "BetaBernoulli":
        truth = rng.random(1)
        model, data = conjugate.BetaBernoulli(), rng.random(n) < truth
    elif kind == "DirichletCategorical":
        truth = rng.dirichlet(np.ones(3))
        model, data = conjugate.DirichletCategorical(3), rng.choice(3, n, p=truth)
    elif kind == "GammaPoisson":
        truth = rng.gamma(2.0, 2.0, 1)
        model, data = conjugate.GammaPoisson(40, 2.0, 0.5), rng.poisson(truth, n)
    elif kind == "NormalMean":
        truth = rng.normal(0, 1, 1)
        model = conjugate.NormalMean((-8, 8), 1.0, prior_mean=0.0, prior_scale=1.0)
        data = rng.normal(truth, 1, n)
    elif kind == "NormalMeanVariance":
        truth = np.array([rng.uniform(-1, 1), rng.uniform(0.5, 1.5)])
        model = conjugate.NormalMeanVariance((-6, 6))
        data = rng.normal(truth[0], np.sqrt(truth[1]), n)
    else:
        truth = expit(rng.normal(0, 2.0, 1))
        model, data = conjugate.LogitNormalBernoulli(2.0), rng.random(n) < truth
    drawn = model.posterior(data, random_state=seed, **params).sample(800, 1)
    return truth, *np.quantile(drawn.reshape(800, -1), ENDS, axis=0)


# The grid


def grid() -> Iterator[tuple[str, str, int, Study]]:
    """Estimator, design, number of tables and study."""
    cells = {name: {"epsilon": 1.0, **design} for name, design in DESIGNS.items()}
    for name, design in cells.items():
        yield "DPSGLDClassifier", name, 60, partial(two_classes, make=DPSGLDClassifier, **design)
    yield "DPSGLDClassifier", "pipeline", 40, partial(pipeline, make=DPSGLDClassifier)
    for sampler in ("sghmc", "sgnht", "sgfs"):
        make = partial(DPSGLDClassifier, sampler=sampler)
        for name in ("first", "n = 20,000", "ε = 3", "zero_out", "scales"):
            study = partial(two_classes, make=make, **cells[name])
            yield f"DPSGLDClassifier, {sampler}", name, 40, study
    for name, more in {
        "first": {},
        "n = 20,000": {"n": 20_000},
        "ε = 0.3": {"epsilon": 0.3},
        "ε = 3": {"epsilon": 3.0},
        "zero_out": {"adjacency": "zero_out"},
    }.items():
        design = {"epsilon": 1.0, **more}
        yield (
            "DPSGLDClassifier, 3 classes",
            name,
            24,
            partial(several, make=DPSGLDClassifier, **design),
        )
        yield (
            "ObjPertLogisticRegression, 3 classes",
            name,
            60,
            partial(several, make=ObjPertLogisticRegression, **design),
        )
        for kind, make in (
            ("DPSGLDRegressor", DPSGLDRegressor),
            ("PrivateBayesianRidge", PrivateBayesianRidge),
        ):
            yield kind, name, 60, partial(numbers, make=make, **design)
        yield (
            "DPSGLDRegressor, counts",
            name,
            30,
            partial(numbers, make=DPSGLDRegressor, counts=True, **design),
        )
    objective = ObjPertLogisticRegression
    for name, design in cells.items():
        yield "ObjPertLogisticRegression", name, 100, partial(two_classes, make=objective, **design)
    yield "ObjPertLogisticRegression", "pipeline", 40, partial(pipeline, make=objective)
    pure = {"epsilon": 1.0, "delta": 0.0}
    yield "ObjPertLogisticRegression", "pure", 100, partial(two_classes, make=objective, **pure)
    ops = partial(OPSLogisticRegression, n_draws=1)
    for name, design in cells.items():
        study = partial(two_classes, make=ops, public=True, **design)
        yield "OPSLogisticRegression, public rows", name, 60, study
    for name, more in {
        "hmc": {"sampler": "hmc"},
        "hmc, n = 20,000": {"sampler": "hmc", "n": 20_000},
        "hmc, 4 draws": {"sampler": "hmc", "n_draws": 4},
        "hmc, pure": {"sampler": "hmc", "delta": 0.0},
        "hmc, wang2015": {"sampler": "hmc", "delta": 0.0, "calibration": "wang2015"},
        "minami2016": {"calibration": "minami2016"},
    }.items():
        design = {"epsilon": 1.0, **more}
        study = partial(two_classes, make=OPSLogisticRegression, public=True, **design)
        yield "OPSLogisticRegression, public rows", name, 30, study
    for name, more in {
        "C = 'auto', n = 20,000": {"n": 20_000},
        "C = 1, n = 5,000": {"C": 1.0},
        "C = 1, n = 20,000": {"C": 1.0, "n": 20_000},
    }.items():
        design = {"epsilon": 1.0, "sampler": "hmc", "n_draws": 8, **more}
        study = partial(two_classes, make=OPSLogisticRegression, **design)
        yield "OPSLogisticRegression, 8 draws of hmc", name, 30, study
    for distribution in ("bernoulli", "categorical", "multinomial", "gaussian"):
        for n in (500, 5000):
            for epsilon in (0.1, 1.0):
                design = {"distribution": distribution, "n": n, "epsilon": epsilon}
                yield (
                    f"LaplaceNaiveBayes, {distribution}",
                    f"n = {n:,}, ε = {epsilon:g}",
                    60,
                    partial(naive_bayes, **design),
                )
    for epsilon, mechanism in ((0.1, {}), (1.0, {}), (1.0, {"delta": 1e-5})):
        name = f"12 cells of 200, ε = {epsilon:g}" + (", Gaussian" if mechanism else "")
        design = {"sizes": (3, 4, 200), "n_iter": 900, "epsilon": epsilon, **mechanism}
        yield "PrivateHMM", name, 40, partial(event_log, **design)
    for kind in (
        "BetaBernoulli",
        "DirichletCategorical",
        "GammaPoisson",
        "NormalMean",
        "NormalMeanVariance",
        "LogitNormalBernoulli",
    ):
        for n, epsilon in ((50, 0.1), (50, 1.0), (2000, 0.1)):
            study = partial(one_number, kind=kind, n=n, epsilon=epsilon)
            yield f"conjugate.{kind}", f"n = {n:,}, ε = {epsilon:g}", 200, study


def cover(study: Study, repeats: int) -> dict[str, Any]:
    """Run a study.

    "covers" and "least" are the mean over parameters and that of the parameter covered least,
    "narrow" the mean for intervals of half the width, "width" that over the width without privacy,
    where it is known (medians). With more than half of the tables refused the rest is not counted.
    """
    inside, narrow, widths, refused = [], [], [], 0
    for seed in range(repeats):
        found = study(seed)
        if found is None:
            refused += 1
            if refused > repeats / 2:
                return {"tables": repeats, "refused": "all" if refused == seed + 1 else "most"}
            continue
        truth, low, high, *plain = found
        inside.append((low <= truth) & (truth <= high))
        narrow.append(np.abs(truth - 0.5 * (low + high)) <= 0.25 * (high - low))
        if plain:
            widths.append(np.median((high - low) / plain[0]))
    each = np.mean(inside, axis=0)
    return {
        "tables": repeats,
        "refused": refused,
        "covers": f"{each.mean():.3f}",
        "least": f"{each.min():.2f}",
        "narrow": f"{np.mean(narrow):.2f}",
        "width": f"{np.median(widths):.2f}" if widths else "",
    }


def measure(output: Path, only: list[str], share: float) -> None:
    """Measure cells and put them into the file, which is the table of the page, one by one."""
    order = [(estimator, design) for estimator, design, *_ in grid()]
    rows = {}
    if output.exists():
        with output.open(encoding="utf-8", newline="") as file:
            rows = {(row["estimator"], row["design"]): row for row in csv.DictReader(file)}
    for estimator, design, repeats, study in grid():
        if only and not any(part in f"{estimator}; {design}" for part in only):
            continue
        start = time.process_time()
        row = {
            "estimator": estimator,
            "design": design,
            **cover(study, max(2, round(share * repeats))),
        }
        print(row, f"{time.process_time() - start:.0f} s", flush=True)
        rows[estimator, design] = row
        with output.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[key] for key in order if key in rows)


# The chain beside its own states

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


def beside_states(kind: str, n: int, params: dict[str, Any], repeats: int) -> str:
    """Return a line of the table.

    How many coefficients are covered, the least of any coefficient, the mean width beside that of
    intervals without privacy on the same rows, and beside the central 90 % of the chain's states,
    and the root mean square error of the interval's center over that of ``coef_``.
    """
    truth = TRUTH[kind]
    inside, widths, errors, of_coef = [], [], [], []
    for seed in range(repeats):
        X, y = table(kind, n, seed)
        model = DPSGLDClassifier(**params, data_norm=NORM[kind], random_state=seed).fit(X, y)
        found = model.interval(0.9)
        low, high = np.concatenate([found["coef"][0], found["intercept"]]).T
        states = model.sample_posterior(posterior="chain")
        states = np.column_stack([states["coef"][:, 0], states["intercept"]])
        spread = np.diff(np.quantile(states, ENDS, axis=0), axis=0)[0]
        inside.append((low <= truth) & (truth <= high))
        widths.append(np.column_stack([(high - low) / plain_width(X, y), (high - low) / spread]))
        errors.append(0.5 * (low + high) - truth)
        of_coef.append(np.append(model.coef_, model.intercept_) - truth)
    each = np.mean(inside, axis=0)
    wide, narrow = np.mean(widths, axis=(0, 1))
    gain = np.sqrt(np.mean(np.square(errors)) / np.mean(np.square(of_coef)))
    name = " ".join(str(value) for value in params.values())
    return (
        f"{kind:7s} {n:6d} {name:26s} {np.mean(inside):.3f} {each.min():.2f} "
        f"{wide:6.2f} {narrow:6.2f} {gain:6.2f}"
    )


def main() -> None:
    """Measure, or print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("coverage.csv"))
    parser.add_argument("--only", nargs="+", default=[], help="parts of 'estimator; design'")
    parser.add_argument("--share", type=float, default=1.0, help="of the tables of a cell")
    parser.add_argument("--chain", action="store_true", help="the chain beside its own states")
    options = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if options.chain:
        print("columns  records  fit                       covers least /plain /chain  error")
        for kind, n, params in SETTINGS:
            print(beside_states(kind, n, params, max(2, round(60 * options.share))), flush=True)
    else:
        measure(options.output, options.only, options.share)


if __name__ == "__main__":
    main()
