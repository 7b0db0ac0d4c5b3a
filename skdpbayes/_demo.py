"""``python -m skdpbayes demo``: every estimator at several epsilon, beside its plain model."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import skdpbayes
from skdpbayes import datasets

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6  # well below one over the number of records

Data = tuple[Any, Any, Any, Any]


@dataclass(frozen=True)
class Demo:
    """One estimator in the demo: which data it takes, how it is built and how it is scored."""

    estimator: str
    data: Callable[[int], Data]
    """Takes the number of records; returns X_train, X_test, y_train, y_test."""
    params: dict[str, Any]
    score: Callable[[Any, Any, Any], float] = lambda fitted, X, y: fitted.score(X, y)

    def fit(self, X: Any, y: Any, epsilon: float, seed: int | None) -> Any:
        """Fit the estimator at ``epsilon``; infinity gives the non-private reference."""
        make = getattr(skdpbayes, self.estimator)
        return make(epsilon=epsilon, random_state=seed, **self.params).fit(X, y)


def census_rows(n_samples: int) -> Data:
    """Real-valued rows of norm at most 1 of the made-up census."""
    X, y = datasets.make_census(n_samples, encoding="raw", return_X_y=True, random_state=0)
    return tuple(train_test_split(X, y, test_size=0.25, random_state=0))


def census_codes(n_samples: int) -> Data:
    """Integer-coded columns of the same census, with its public bins."""
    X, y = datasets.make_census(n_samples, encoding="bins", return_X_y=True, random_state=0)
    return tuple(train_test_split(X, y, test_size=0.25, random_state=0))


@dataclass(frozen=True)
class EventLogDemo(Demo):
    """An event log: the labels are the cells of the events, the score is how many states match."""

    def fit(self, X: Any, y: Any, epsilon: float, seed: int | None) -> Any:
        """Fit the estimator with the events in their cells."""
        make = getattr(skdpbayes, self.estimator)
        groups, times = np.divmod(y, EVENT_TIMES)
        return make(epsilon=epsilon, random_state=seed, **self.params).fit(
            X, times=times, groups=groups
        )


EVENT_GROUPS, EVENT_TIMES = 5, 24


def event_log(n_samples: int) -> Data:
    """Events of groups and times whose fields follow three hidden states."""
    per_cell = n_samples // (EVENT_GROUPS * EVENT_TIMES)
    log = datasets.make_event_log(
        EVENT_GROUPS, EVENT_TIMES, per_cell, categories=(6, 4), random_state=0
    )
    return log.data, None, log.groups * EVENT_TIMES + log.times, log.states


def matched_states(fitted: Any, X: Any, states: Any) -> float:
    """Share of the cells whose state is found, the states being named as the truth names them."""
    from skdpbayes.samplers import match_states

    names = match_states(fitted.states_, states, int(max(fitted.n_states, states.max() + 1)))
    return float(np.mean(names[fitted.states_] == states))


DEMOS: list[Demo] = [
    Demo("DPSGLDClassifier", census_rows, {"delta": DELTA}),
    Demo("ObjPertLogisticRegression", census_rows, {"delta": DELTA}),
    Demo("OPSLogisticRegression", census_rows, {"delta": DELTA}),
    Demo("OPSLinearSVC", census_rows, {"delta": DELTA}),
    Demo(
        "LaplaceNaiveBayes",
        census_codes,
        {"distribution": "categorical", "categories": (7, 7, 6, 5, 4, 6, 4, 3)},
    ),
    EventLogDemo(
        "PrivateHMM",
        event_log,
        {"categories": (6, 4), "n_times": EVENT_TIMES, "group_labels": range(EVENT_GROUPS)},
        matched_states,
    ),
]


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    estimator: str
    epsilon: float
    guarantee: str
    accuracy: float
    reference: float
    seconds: float


def run_demos(epsilons: tuple[float, ...], n_samples: int, seed: int | None) -> list[Row]:
    """Fit every estimator at every epsilon, under a progress bar."""
    from tqdm.auto import tqdm

    rows = []
    with tqdm(total=len(DEMOS) * (len(epsilons) + 1), desc="fitting", leave=False) as bar:
        for demo in DEMOS:
            X_train, X_test, y_train, y_test = demo.data(n_samples)
            demo.fit(X_train[:200], y_train[:200], epsilons[0], 0)  # compile before timing
            reference = demo.score(demo.fit(X_train, y_train, np.inf, 0), X_test, y_test)
            bar.update()
            for epsilon in epsilons:
                start = time.perf_counter()
                fitted = demo.fit(X_train, y_train, epsilon, seed)
                seconds = time.perf_counter() - start
                claim = fitted.privacy_
                text = f"ε={claim.epsilon:g}" + (f", δ={claim.delta:g}" if claim.delta else "")
                text += f", {claim.adjacency}" + (", conditional" if claim.conditions else "")
                accuracy = demo.score(fitted, X_test, y_test)
                rows.append(Row(demo.estimator, epsilon, text, accuracy, reference, seconds))
                bar.update()
    return rows


def format_table(rows: list[Row]) -> str:
    """Lay the rows out as one table."""
    head = f"{'estimator':27s} {'guarantee':34s} {'accuracy':>8s} {'non-private':>11s} seconds"
    lines = [head, "-" * len(head)]
    previous = None
    for row in rows:
        name = row.estimator if row.estimator != previous else ""
        previous = row.estimator
        lines.append(
            f"{name:27s} {row.guarantee:34s} {row.accuracy:8.3f} {row.reference:11.3f} "
            f"{row.seconds:7.2f}"
        )
    return "\n".join(lines)


def draw_plot(rows: list[Row], path: str) -> None:
    """Draw accuracy against epsilon, a line per estimator and its non-private level dashed."""
    try:
        import matplotlib
    except ImportError as error:
        raise SystemExit("--plot needs matplotlib: pip install 'skdpbayes[plot]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for color, name in enumerate(dict.fromkeys(row.estimator for row in rows)):
        mine = [row for row in rows if row.estimator == name]
        epsilons = [row.epsilon for row in mine]
        axes.plot(epsilons, [row.accuracy for row in mine], "o-", color=f"C{color}", label=name)
        axes.axhline(mine[0].reference, ls="--", lw=0.8, color=f"C{color}")
    axes.set(xscale="log", xlabel="ε", ylabel="test accuracy")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.set_title("Accuracy against ε (dashed: the same model without privacy)")
    axes.legend()
    figure.savefig(path, dpi=150)


def run(args: argparse.Namespace) -> int:
    """Run the demo as the command line asks."""
    n_samples = 4_000 if args.quick else 20_000
    epsilons = tuple(args.epsilon or (EPSILONS[::2] if args.quick else EPSILONS))
    print(f"A made-up census of {n_samples:,} records, three quarters of it for training.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", skdpbayes.PrivacyWarning)
        rows = run_demos(epsilons, n_samples, seed=None)
    print(format_table(rows))
    print("\n'non-private' is the same model at epsilon=inf. The table is for one data set that is")
    print("not private: on private data every line would be a release of its own.")
    if args.plot:
        draw_plot(rows, args.plot)
        print(f"Wrote {args.plot}.")
    return 0
