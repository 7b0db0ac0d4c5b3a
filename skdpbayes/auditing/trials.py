"""Run an estimator many times with fresh randomness and score every fit."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from skdpbayes import randomness

Score = Callable[[Any], Any]
Data = tuple[Any, ...]

_BATCHES_PER_JOB = 16  # enough for an even load and a moving progress bar
_SEEDS = 2**31 - 1


class Factory:
    """Makes unfitted copies with fresh randomness, and without a ledger: audits release nothing.

    A flat estimator is copied attribute by attribute, which is far cheaper than ``clone`` and the
    same, since ``fit`` does not touch parameters; nested ones are cloned.
    """

    def __init__(self, estimator: Any) -> None:
        self.template = clone(estimator)
        names = list(self.template.get_params(deep=True))
        ledgers = [name for name in names if name.rsplit("__", 1)[-1] == "ledger"]
        self.seeds = [name for name in names if name.rsplit("__", 1)[-1] == "random_state"]
        self.template.set_params(**dict.fromkeys(ledgers))
        self.flat = not any("__" in name for name in names)

    def make(self, seed: int | None) -> Any:
        """Return an estimator ready to be fitted once."""
        if not self.flat:
            return clone(self.template).set_params(**dict.fromkeys(self.seeds, seed))
        made = copy.copy(self.template)
        for name in self.seeds:
            setattr(made, name, seed)
        return made


def fit_quietly(estimator: Any, data: Data) -> Any:
    """Fit; warnings about tiny data sets say nothing in an audit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*data)


def _score_batch(
    factory: Factory, data: Data, score: Score, seeds: Sequence[int | None]
) -> np.ndarray:
    rows = []
    for seed in seeds:
        fitted = fit_quietly(factory.make(seed), data)
        rows.append(np.asarray(score(fitted), dtype=np.float64).ravel())
    return np.stack(rows)


def run_trials(
    factory: Factory,
    data_sets: Sequence[Data],
    score: Score,
    n_trials: int,
    *,
    n_jobs: int | None = None,
    progress: bool = False,
    random_state: Any = None,
) -> list[np.ndarray]:
    """Return the scores (n_trials, n_features) of `n_trials` fits on each data set.

    With ``random_state=None`` every fit draws its own secure randomness; otherwise fits are
    seeded from it.
    """
    n_batches = min(n_trials, max(4, effective_n_jobs(n_jobs) * _BATCHES_PER_JOB))
    sizes = [len(part) for part in np.array_split(np.arange(n_trials), n_batches)]
    generator = None if random_state is None else randomness.make_generator(random_state)
    tasks = [
        delayed(_score_batch)(factory, data, score, _seeds(generator, size))
        for data in data_sets
        for size in sizes
    ]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    if progress:
        from tqdm.auto import tqdm

        results = tqdm(results, total=len(tasks), desc="audit")
    batches = list(results)
    scores = [
        np.concatenate(batches[i * n_batches : (i + 1) * n_batches]) for i in range(len(data_sets))
    ]
    if not all(np.isfinite(part).all() for part in scores):
        raise ValueError(
            "score returned NaN or infinity for some fit; return finite numbers, for example by "
            "clipping log-probabilities."
        )
    return scores


def _seeds(generator: np.random.Generator | None, size: int) -> list[int | None]:
    if generator is None:
        return [None] * size
    return [int(seed) for seed in generator.integers(_SEEDS, size=size)]


def error_counts(scores: np.ndarray, neighbor: np.ndarray, threshold: float) -> tuple[int, int]:
    """Count scores above the threshold on the data set, and at or below it on the neighbor."""
    if math.isnan(threshold):
        raise ValueError("threshold must be a number; got NaN.")
    return int(np.sum(scores > threshold)), int(np.sum(neighbor <= threshold))
