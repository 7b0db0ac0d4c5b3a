"""What the private searches share: split, plan, reserve, run, release the winner."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.dummy import DummyClassifier
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skdpbayes import randomness
from skdpbayes._validation import check_choice, check_flag, check_is_fitted
from skdpbayes._validation import check_real as check_number
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.model_selection.builder import RunBuilder
from skdpbayes.model_selection.parameters import (
    PrivateParameters,
    check_candidates,
    set_guarantee,
)
from skdpbayes.model_selection.plan import STRATEGIES, SearchPlan
from skdpbayes.model_selection.runs import Run, draw_number_of_runs, take_rows
from skdpbayes.model_selection.scoring import HoldOutScore, make_score
from skdpbayes.privacy.guarantee import PrivacyGuarantee

__all__ = ["PrivateSearch"]


def _delegates(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        owner = getattr(search, "best_estimator_", search.estimator)
        getattr(owner, name)  # raises AttributeError where the estimator lacks it
        return True

    return check


class PrivateSearch(MetaEstimatorMixin, BaseEstimator):
    """What the searches share; a subclass lists the candidates."""

    estimator: Any
    epsilon: float
    delta: float
    scoring: Any
    validation_fraction: float
    strategy: str
    mean_runs: float | None
    shape: float
    random_state: Any
    ledger: Any
    n_jobs: int | None
    progress: bool

    def _candidates(self, generator: np.random.Generator) -> Iterable[Mapping[str, Any]]:
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Any:
        """Find and release the best candidate.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The labels.

        Returns
        -------
        self
            The fitted search.
        """
        # 1 validate
        score = self._check_parameters()
        names = PrivateParameters(self.estimator)
        X, y = indexable(X, y)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        generator = randomness.make_generator(self.random_state)
        candidates = check_candidates(self._candidates(generator))
        # 2 a record is either trained on or scored
        train, held_out = self._split(len(y), generator)
        data = take_rows(X, train), take_rows(y, train)
        validation = take_rows(X, held_out), np.asarray(take_rows(y, held_out))
        # 3 calibrate from public numbers
        builder = RunBuilder(self, names, candidates, y)
        plan = builder.plan(data, score)
        # 4 reserve
        guarantee = builder.guarantee(plan, score)
        ledger = self.ledger if self.ledger is not None else names.value(self.estimator, "ledger")
        if ledger is not None:
            ledger.reserve(guarantee, label=type(self).__name__)
        # 5 touch the data, under noise
        if plan.strategy == "repeat":
            winner = self._repeat(builder, plan, data, validation, score, generator)
        else:
            winner = self._try_all(builder, plan, data, validation, score, generator)
        self._keep(winner, plan, guarantee, builder, score, len(held_out), np.shape(X)[1])
        return self

    def _check_parameters(self) -> HoldOutScore:
        check_number("epsilon", self.epsilon, low=0.0, closed="high")
        check_number("delta", self.delta, low=0.0, high=1.0, closed="low")
        check_choice("strategy", self.strategy, STRATEGIES)
        fraction = self.validation_fraction
        check_number("validation_fraction", fraction, low=0.0, high=1.0, closed="neither")
        check_number("shape", self.shape, low=-1.0, closed="high")
        if self.mean_runs is not None:
            check_number("mean_runs", self.mean_runs, low=1.0)
        check_flag("progress", self.progress)
        return make_score(self.scoring)

    def _split(self, n_samples: int, generator: np.random.Generator) -> tuple[Any, Any]:
        """Split by position alone; a split that looked at labels would leak them."""
        n_held_out = round(self.validation_fraction * n_samples)
        if not 0 < n_held_out < n_samples:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} of n_samples={n_samples} leaves "
                "a part empty; at least 1 record is needed in each."
            )
        order = generator.permutation(n_samples)
        return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])

    def _repeat(
        self,
        builder: RunBuilder,
        plan: SearchPlan,
        data: Any,
        validation: Any,
        score: HoldOutScore,
        generator: np.random.Generator,
    ) -> Run | None:
        """Run random candidates a random number of times; return the best noisy score's run."""
        n_runs = draw_number_of_runs(generator, plan.mean_runs, plan.shape)
        picks = generator.integers(len(builder.candidates), size=n_runs)
        runs = self._run(builder, plan, picks, data, validation, score, generator)
        noisy = [
            score.noisy(generator, run.total, plan.score_scale, noise=plan.score_noise)
            for run in runs
        ]
        if not runs:
            return None
        best = int(np.lexsort((generator.random(n_runs), np.array(noisy)))[-1])  # ties at random
        return runs[best]._replace(total=noisy[best])

    def _try_all(
        self,
        builder: RunBuilder,
        plan: SearchPlan,
        data: Any,
        validation: Any,
        score: HoldOutScore,
        generator: np.random.Generator,
    ) -> Run:
        """Run every candidate; report the noisy maximum, and its score under fresh noise.

        The maximum of counts under Laplace noise of scale s is 2/s-differentially private where
        one record moves each count by at most 1, and 1/s where all move in the same direction
        (Dwork and Roth 2014, Claim 3.9); ties go to the first, which keeps the argument for
        integer noise.
        """
        picks = np.arange(len(builder.candidates))
        runs = self._run(builder, plan, picks, data, validation, score, generator)
        noisy = [score.noisy(generator, run.total, plan.choice_scale) for run in runs]
        winner = runs[int(np.argmax(noisy))]
        return winner._replace(total=score.noisy(generator, winner.total, plan.score_scale))

    def _run(
        self,
        builder: RunBuilder,
        plan: SearchPlan,
        picks: np.ndarray,
        data: Any,
        validation: Any,
        score: HoldOutScore,
        generator: np.random.Generator,
    ) -> list[Run]:
        seeded = randomness.is_seeded(self.random_state)
        seeds = [int(generator.integers(2**31 - 1)) if seeded else None for _ in picks]
        tasks = [
            delayed(_one_run)(builder.build(plan, int(index), seed), index, data, validation, score)
            for index, seed in zip(picks, seeds, strict=True)
        ]
        results = Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks)
        if self.progress:
            from tqdm.auto import tqdm

            # no total: the number of runs is not to be seen
            results = tqdm(results, desc=type(self).__name__)
        return list(results)

    def _keep(
        self,
        winner: Run | None,
        plan: SearchPlan,
        guarantee: PrivacyGuarantee,
        builder: RunBuilder,
        score: HoldOutScore,
        n_held_out: int,
        n_features: int,
    ) -> None:
        candidates, labels = builder.candidates, builder.labels
        self.privacy_, self.plan_ = guarantee, plan
        self.n_validation_ = n_held_out
        self.cv_results_ = _public_results(candidates)
        if winner is None:
            warnings.warn(
                "the number of runs was drawn as 0 (Poisson): nothing was fitted, and the model "
                "guesses uniformly. A larger mean_runs makes this rare.",
                PrivacyWarning,
                stacklevel=3,
            )
            self.best_index_, self.best_params_, self.best_score_ = None, None, float("nan")
            self.best_estimator_: Any = DummyClassifier(strategy="uniform").fit(
                np.zeros((len(labels), n_features)), labels
            )
        else:
            self.best_index_ = int(winner.candidate)
            self.best_params_ = candidates[self.best_index_]
            self.best_score_ = score.mean(winner.total, n_held_out)
            self.best_estimator_ = winner.fitted
            set_guarantee(self.best_estimator_, guarantee)
            for message, category in winner.warnings:
                warnings.warn(message, category, stacklevel=3)

    @property
    def classes_(self) -> np.ndarray:
        """The label set (public)."""
        return self._best.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features (public)."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} is not fitted: it has no n_features_in_.")
        return int(self.best_estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of the features, where the input has them (public)."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError(f"{type(self).__name__} is not fitted.")
        return self.best_estimator_.feature_names_in_

    @property
    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> np.ndarray:
        """Predict with the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows to classify.
        """
        return self._best.predict(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows to classify.
        """
        return self._best.predict_proba(X)

    @available_if(_delegates("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log-probabilities of the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows to classify.
        """
        return self._best.predict_log_proba(X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision function of the winner.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows to score.
        """
        return self._best.decision_function(X)

    @available_if(_delegates("sample_posterior"))
    def sample_posterior(self, n_samples: int | None = None, random_state: Any = None) -> Any:
        """Posterior draws of the winner.

        Parameters
        ----------
        n_samples : int, default=None
            As for the estimator.
        random_state : int, Generator or None, default=None
            As for the estimator.
        """
        return self._best.sample_posterior(n_samples, random_state)

    @available_if(_delegates("score"))
    def score(self, X: Any, y: Any) -> float:
        """Return the winner's mean accuracy (its own ``score``) on given records.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.
        """
        return float(self._best.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = copy.deepcopy(inner.classifier_tags)
        tags.input_tags = copy.deepcopy(inner.input_tags)
        tags.target_tags = copy.deepcopy(inner.target_tags)
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = not self.epsilon >= 1e4
        return tags


def _one_run(built: Any, index: int, data: Any, validation: Any, score: HoldOutScore) -> Run:
    """Fit and score; warnings are kept, since those of losing runs would tell how many there are.

    Those of the winner come with its release.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = built.fit(*data)
        total = score.total(fitted, *validation)
    said = dict.fromkeys((str(warning.message), warning.category) for warning in caught)
    return Run(int(index), fitted, total, tuple(said))


def _public_results(candidates: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what ``cv_results_`` may hold: the candidates. Scores of losing runs stay hidden."""
    results: dict[str, Any] = {"params": candidates}
    for name in sorted({name for candidate in candidates for name in candidate}):
        values = np.ma.masked_all(len(candidates), dtype=object)
        for i, candidate in enumerate(candidates):
            if name in candidate:
                values[i] = candidate[name]
        results[f"param_{name}"] = values
    return results
