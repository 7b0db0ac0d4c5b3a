"""``python -m skdpbayes demo``: every estimator at several epsilon, beside its plain model."""

from __future__ import annotations

import argparse
import importlib.util
import os
import textwrap
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import skdpbayes
from skdpbayes import datasets, randomness
from skdpbayes.privacy import PrivacyGuarantee

EPSILONS = (0.1, 0.3, 1.0, 3.0)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # how the estimators are named in the text plot
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
    what: str = "census: test accuracy"
    note: str = ""
    """What the table adds to the estimator's name."""

    @property
    def name(self) -> str:
        """Return what the table calls it."""
        return f"{self.estimator}{self.note}"

    def guess(self, y: Any) -> float:
        """Score of always saying the most frequent label, which needs no data."""
        return float(np.bincount(np.ravel(y)).max() / np.size(y))

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
        sequences, times = np.divmod(y, EVENT_TIMES)
        return make(epsilon=epsilon, random_state=seed, **self.params).fit(
            X, times=times, sequences=sequences
        )


@dataclass(frozen=True)
class PersonsDemo(Demo):
    """Persons with several records each: the first column holds their ids."""

    def fit(self, X: Any, y: Any, epsilon: float, seed: int | None) -> Any:
        """Fit the estimator so that all records of a person are protected together."""
        make = getattr(skdpbayes, self.estimator)
        model = make(epsilon=epsilon, random_state=seed, **self.params)
        return model.fit(X[:, 1:], y, units=X[:, 0])


def census_visits(n_samples: int) -> Data:
    """One to three yearly records of every person of the census; persons are held out whole."""
    X_train, X_test, y_train, y_test = census_rows(n_samples // 2)
    times = randomness.make_generator(0).integers(1, 4, len(X_train))
    ids = np.repeat(np.arange(len(X_train)), times)
    test = np.column_stack([np.arange(len(X_test)), X_test])
    return np.column_stack([ids, X_train[ids]]), test, y_train[ids], y_test


@dataclass(frozen=True)
class RegressionDemo(Demo):
    """A number to predict; the score is the share of its variance that is explained."""

    what: str = "earnings: R squared"

    def guess(self, y: Any) -> float:
        """Score of always saying the mean."""
        return 0.0


def census_earnings(n_samples: int) -> Data:
    """Rows of the census and made-up logarithms of earnings between -1 and 1."""
    X, _ = datasets.make_census(n_samples, encoding="raw", return_X_y=True, random_state=0)
    rng = randomness.make_generator(0)
    linear = X @ rng.normal(size=X.shape[1])
    y = np.clip(0.3 * (linear - linear.mean()) / linear.std() + rng.normal(0, 0.2, len(X)), -1, 1)
    return tuple(train_test_split(X, y, test_size=0.25, random_state=0))


EVENT_SEQUENCES, EVENT_TIMES = 5, 24


def event_log(n_samples: int) -> Data:
    """Events of sequences and times whose fields follow three hidden states."""
    per_cell = n_samples // (EVENT_SEQUENCES * EVENT_TIMES)
    log = datasets.make_event_log(
        EVENT_SEQUENCES, EVENT_TIMES, per_cell, categories=(6, 4), random_state=0
    )
    return log.data, None, log.sequences * EVENT_TIMES + log.times, log.states


def matched_states(fitted: Any, X: Any, states: Any) -> float:
    """Share of the cells whose state is found, the states being named as the truth names them."""
    from skdpbayes.samplers import match_states

    names = match_states(fitted.states_, states, int(max(fitted.n_states, states.max() + 1)))
    return float(np.mean(names[fitted.states_] == states))


DEMOS: list[Demo] = [
    Demo("DPSGLDClassifier", census_rows, {"delta": DELTA}),
    PersonsDemo(
        "DPSGLDClassifier",
        census_visits,
        {"delta": DELTA},
        lambda fitted, X, y: fitted.score(X[:, 1:], y),
        note=", units",
    ),
    Demo("DPSGLDNetworkClassifier", census_rows, {"delta": DELTA, "hidden_layer_sizes": (16,)}),
    Demo("ObjPertLogisticRegression", census_rows, {"delta": DELTA}),
    Demo("OPSLogisticRegression", census_rows, {"delta": DELTA}),
    Demo("OPSLinearSVC", census_rows, {"delta": DELTA}),
    Demo(
        "LaplaceNaiveBayes",
        census_codes,
        {"distribution": "categorical", "categories": (7, 7, 6, 5, 4, 6, 4, 3)},
    ),
    RegressionDemo("DPSGLDRegressor", census_earnings, {"delta": DELTA, "target_bounds": (-1, 1)}),
    RegressionDemo(
        "PrivateBayesianRidge", census_earnings, {"delta": DELTA, "target_bounds": (-1, 1)}
    ),
    EventLogDemo(
        "PrivateHMM",
        event_log,
        {"categories": (6, 4), "n_times": EVENT_TIMES, "sequence_labels": range(EVENT_SEQUENCES)},
        matched_states,
        "event log: states found",
    ),
]


@dataclass(frozen=True)
class Row:
    """One estimator at one epsilon."""

    estimator: str
    what: str
    epsilon: float
    claim: PrivacyGuarantee
    accuracy: float
    reference: float
    guess: float
    """What anybody reaches without data."""
    seconds: float


def run_demos(epsilons: tuple[float, ...], n_samples: int, seed: int | None) -> list[Row]:
    """Fit every estimator at every epsilon, under a progress bar where there is a terminal."""
    from tqdm.auto import tqdm

    rows = []
    fits = len(DEMOS) * (len(epsilons) + 1)
    with tqdm(total=fits, desc="fitting", leave=False, disable=None) as bar:
        for demo in DEMOS:
            X_train, X_test, y_train, y_test = demo.data(n_samples)
            guess = demo.guess(y_test)
            demo.fit(X_train[:200], y_train[:200], epsilons[0], 0)  # compile before timing
            reference = demo.score(demo.fit(X_train, y_train, np.inf, 0), X_test, y_test)
            bar.update()
            for epsilon in epsilons:
                start = time.perf_counter()
                fitted = demo.fit(X_train, y_train, epsilon, seed)
                seconds = time.perf_counter() - start
                accuracy = demo.score(fitted, X_test, y_test)
                rows.append(
                    Row(
                        demo.name,
                        demo.what,
                        epsilon,
                        fitted.privacy_,
                        accuracy,
                        reference,
                        guess,
                        seconds,
                    )
                )
                bar.update()
    return rows


def by_estimator(rows: list[Row]) -> dict[str, list[Row]]:
    """Collect the rows of each estimator, in their order."""
    return {
        name: [row for row in rows if row.estimator == name]
        for name in dict.fromkeys(row.estimator for row in rows)
    }


def format_table(rows: list[Row]) -> str:
    """Lay the rows out as one table, a line per estimator and a column per epsilon."""
    groups = by_estimator(rows)
    cells = "".join(f"{row.epsilon:>6g}" for row in next(iter(groups.values())))
    wide = max(len(cells), len("score at epsilon"))
    head = f"  {'estimator':26s}{'delta':10s}{cells:>{wide}s}{'no privacy':>11s}{'s/fit':>7s}"
    lines = [f"{'':38s}{'score at epsilon':>{wide}s}", head, "-" * len(head)]
    for letter, (name, mine) in zip(LETTERS, groups.items(), strict=False):
        claim = mine[0].claim
        delta = (f"{claim.delta:g}" if claim.delta else "0 (pure)") + "*" * bool(claim.conditions)
        cells = "".join(f"{row.accuracy:6.3f}" for row in mine)
        seconds = sum(row.seconds for row in mine) / len(mine)
        lines.append(
            f"{letter} {name:26s}{delta:10s}{cells:>{wide}s}{mine[0].reference:11.3f}{seconds:7.2f}"
        )
    return "\n".join(lines)


def kept(row: Row) -> float:
    """Share of the plain model's gain over guessing that the private fit keeps."""
    return (row.accuracy - row.guess) / max(row.reference - row.guess, 1e-12)


def text_plot(rows: list[Row], height: int = 10) -> str:
    """Draw ``kept`` with letters: a group of columns per epsilon, a column per estimator."""
    groups = by_estimator(rows)
    epsilons = [row.epsilon for row in next(iter(groups.values()))]
    gap, width = 3, max(2 * len(groups) - 1, 11)  # 11 leave room for the label below
    canvas = [[" "] * ((width + gap) * len(epsilons)) for _ in range(height + 1)]
    for column, (letter, mine) in enumerate(zip(LETTERS, groups.values(), strict=False)):
        for group, row in enumerate(mine):
            level = round(height * min(max(kept(row), 0.0), 1.0))
            canvas[height - level][(width + gap) * group + 2 * column] = letter
    lines = []
    for below_top, line in enumerate(canvas):
        level = 100 * (height - below_top) // height
        label = f"{level:4d} %" if level % 50 == 0 else ""
        lines.append(f"{label:>6s} |  " + "".join(line).rstrip())
    lines.append(f"{'':6s} +--" + "-" * ((width + gap) * len(epsilons) - 1))
    names = (f"epsilon {epsilon:g}" for epsilon in epsilons)
    lines.append(f"{'':6s}    " + "".join(f"{name:{width + gap}s}" for name in names).rstrip())
    return "\n".join(line.rstrip() for line in lines)


def draw_plot(rows: list[Row], path: str) -> None:
    """Draw accuracy against epsilon, a panel per task, the same model without privacy dashed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tasks = list(dict.fromkeys(row.what for row in rows))
    ratios = [3.0] + [2.0] * (len(tasks) - 1)
    figure, panels = plt.subplots(
        1, len(tasks), figsize=(10, 4.5), layout="constrained", width_ratios=ratios, squeeze=False
    )
    for color, (name, mine) in enumerate(by_estimator(rows).items()):
        axes = panels[0, tasks.index(mine[0].what)]
        epsilons = [row.epsilon for row in mine]
        axes.plot(
            epsilons,
            [row.accuracy for row in mine],
            marker="osD^vP"[color % 6],
            color=f"C{color}",
            label=name,
        )
        axes.axhline(mine[0].reference, ls="--", lw=0.9, color=f"C{color}")
        axes.set_xscale("log")
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
    for axes, task in zip(panels[0], tasks, strict=True):
        guess = next(row.guess for row in rows if row.what == task)
        axes.axhline(guess, ls=":", lw=0.9, color="0.4", label="without data")
        axes.set(xlabel="ε", title=task)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="lower right")
    figure.suptitle("What privacy costs on made-up data (dashed: the same model without privacy)")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run(args: argparse.Namespace) -> int:
    """Run the demo as the command line asks."""
    start = time.perf_counter()
    n_samples = 4_000 if args.quick else 20_000
    epsilons = tuple(args.epsilon or (EPSILONS[::2] if args.quick else EPSILONS))
    if args.plot:
        check_writable(args.plot)
    print(
        f"A made-up census of {n_samples:,} records, a quarter of it for testing, and a made-up log"
    )
    print("of as many events. Each fit is (epsilon, delta)-differentially private when one")
    print("record may be replaced by any other (replace_one); with units, when all records of")
    print("a person may be, here one to three.\n", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", skdpbayes.PrivacyWarning)
        rows = run_demos(epsilons, n_samples, seed=None)
    print(format_table(rows))
    if any(row.claim.conditions for row in rows):
        print("* rests on a condition; privacy_.conditions names it.")
    print("\nHow much of the plain model's gain over guessing is left:\n")
    print(text_plot(rows))
    example = next((row for row in rows if row.epsilon >= 1.0), rows[-1])
    print(f"\nWhat print(model.privacy_) says, {example.estimator} at epsilon {example.epsilon:g}:")
    print(textwrap.indent(textwrap.fill(str(example.claim), 76), "  "))
    print(
        f"\n{len(rows)} private fits in {time.perf_counter() - start:.0f} s, compilation included."
        " The data are made up: on\nprivate data each of these fits would be a release to pay for."
    )
    if args.plot:
        draw_plot(rows, args.plot)
        print(f"Wrote {args.plot}.")
    return 0


def check_writable(path: str) -> None:
    """Refuse a picture that could not be saved before the work is done, not after."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise SystemExit(f"--plot: there is no folder {folder}")
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("--plot needs matplotlib: pip install 'skdpbayes[plot]'")
