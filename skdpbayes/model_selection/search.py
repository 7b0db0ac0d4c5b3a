"""Searches over hyper-parameters that release the winner only."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import MetaEstimatorMixin
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from skdpbayes import randomness
from skdpbayes._validation import (
    check_choice,
    check_classes,
    check_integer,
    check_is_fitted,
    check_real,
    encode_labels,
    is_fitted,
    probe,
    take_rows,
    validate_data,
)
from skdpbayes.exceptions import CalibrationError, PrivacyWarning
from skdpbayes.fitting.estimator import (
    FitPlan,
    PrivateEstimator,
    make_budget,
    noise_is_small,
    refuse_arguments,
)
from skdpbayes.fitting.pipelines import private_steps
from skdpbayes.fitting.records import Public
from skdpbayes.fitting.units import share_out, unit_codes
from skdpbayes.model_selection.pipelines import (
    assemble,
    build,
    check_candidates,
    conditions_of,
    event_of,
    head_settings,
    private_step,
    publics_of,
    run_head,
    set_budget,
    set_guarantee,
    shares_of,
    split,
    without_seeds,
)
from skdpbayes.model_selection.plan import STRATEGIES, SearchPlan, plan_search
from skdpbayes.model_selection.runs import (
    HeldOut,
    Run,
    Setting,
    Table,
    draw_number_of_runs,
    one_run,
)
from skdpbayes.model_selection.scoring import HoldOutScore, make_score
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.composition.composed import compose
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.guarantee import PrivacyGuarantee, Unit

# Each candidate is tried three times on average: a geometric number of runs then finds the best
# one with probability 3/4, a Poisson number with 95%.
RUNS_PER_CANDIDATE = 3

_NO_FOLDS = (
    "a private search makes no folds (got cv={!r}): in cross-validation each record would pay for "
    "most of the fits and for a score. It holds out a share of the records once; say how much by "
    "test_size, 0.2 for instance, and leave cv out."
)


@dataclass(frozen=True)
class Winner:
    """What a search releases, and what was public from the start."""

    index: int | None
    score: float
    model: Any
    candidates: list[dict[str, Any]]
    n_validation: int

    def attributes(self) -> dict[str, Any]:
        """Return them under the names that scikit-learn's searches have."""
        return {
            "best_index_": self.index,
            "best_params_": None if self.index is None else self.candidates[self.index],
            "best_score_": self.score,
            "best_estimator_": self.model,
            "cv_results_": _public_results(self.candidates),
            "n_validation_": self.n_validation,
        }

    @property
    def missing(self) -> dict[str, str]:
        """Methods of a posterior that the winner does not have."""
        why = "the winner does not offer it."
        offered = ("sample_posterior", "interval")
        return {name: why for name in offered if not hasattr(self._step, name)}

    @property
    def _step(self) -> Any:
        return self.model if self.index is None else private_step(self.model)

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return posterior draws of the winner."""
        return self._step.sample_posterior(n_samples, random_state)

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return intervals of the winner."""
        return self._step.interval(level)


def _delegates(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        owner = getattr(search, "best_estimator_", search.estimator)
        getattr(owner, name)  # raises AttributeError where the estimator lacks it
        return True

    return check


class PrivateSearch(MetaEstimatorMixin, PrivateEstimator):
    """What the searches share; a subclass lists the candidates."""

    estimator: Any
    scoring: Any
    test_size: float
    cv: None
    strategy: str
    mean_runs: float | None
    shape: float
    n_jobs: int | None

    def _candidates(self, generator: np.random.Generator) -> Iterable[Mapping[str, Any]]:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, units: Any = None, **unknown: Any) -> Self:
        """Find and release the best candidate.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            The features.
        y : array-like of shape (n_samples,)
            The labels.
        units : array-like of shape (n_samples,), default=None
            Whose record each row is: any hashable ids. All records of one person are then protected
            together: the split keeps persons whole, fits and scores weigh every person once, and
            the number of persons is public while the number of records is not. The estimator must
            take ``units``, and no other step may be private. None: every record is a unit.
        **unknown
            Refused; for ``sample_weight`` the error says what to do instead.

        Returns
        -------
        self
            The fitted search.
        """
        refuse_arguments(self, unknown)
        if units is not None:
            self._check_takes_units(type(units).__name__)
        return self._fit(X, y, units)

    def _check_takes_units(self, kind: str) -> None:
        """Refuse units that a private step would not weigh by."""
        private_step(self.estimator)._check_takes_units(kind)
        for step in private_steps(self.estimator).values():
            step._check_takes_units(kind)
            if step is not private_step(self.estimator):
                raise TypeError(
                    "a search with units takes one private step, at the end of a pipeline; "
                    f"{type(step).__name__} comes before it. Fit it with units first."
                )

    def plan(
        self, n_samples: int, n_features: Any, *, classes: Any = None, unit: Unit = "record"
    ) -> FitPlan:
        """Say what a search on this many records would claim and leave to a fit, without data.

        Parameters
        ----------
        n_samples : int
            Number of records, held-out ones included.
        n_features : int or mapping from step to int
            Number of features; of a pipeline, those that reach its last step. Where several steps
            are private, those that reach each, by its name (``"columntransformer__scaler"``).
        classes : array-like or int, default=None
            The label set or its size; None takes the estimator's ``classes``, or two labels.
        unit : {"record", "person"}, default="record"
            "person" for a fit with ``units``; ``n_samples`` is then the number of persons.

        Returns
        -------
        FitPlan
            The claim and, as ``plan``, the ``SearchPlan``; ``print`` it.
        """
        candidates, score = self._check(self._split_generator())
        n_samples = check_integer("n_samples", n_samples, low=2)
        steps = list(private_steps(self.estimator))
        if not isinstance(n_features, Mapping) and len(steps) == 1:
            n_features = {steps[0]: n_features}
        if not isinstance(n_features, Mapping) or set(n_features) != set(steps):
            raise ValueError(
                "n_features must map the private steps to the numbers of columns that reach them, "
                f"{dict.fromkeys(steps, '...')}; got {n_features!r}."
            )
        widths = [check_integer(f"n_features[{name!r}]", n_features[name], low=1) for name in steps]
        labels = check_classes(private_step(self.estimator).classes if classes is None else classes)
        check_choice("unit", unit, ("record", "person"))
        score = score if unit == "record" else score.of_persons()
        n_train = n_samples - self._n_held_out(n_samples)
        own = [Public(n_train, width) for width in widths[:-1]]
        own.append(Public(n_train, widths[-1], labels, unit=unit))
        setting = Setting(candidates, n_train, score, (tuple(own),) * len(candidates))
        return self._planned(Public(n_samples, widths[-1], labels, detail=setting, unit=unit))

    def _check(self, generator: np.random.Generator) -> tuple[list[dict[str, Any]], HoldOutScore]:
        """Check the parameters of the search; return its candidates and its score."""
        check_choice("strategy", self.strategy, STRATEGIES)
        check_real("test_size", self.test_size, low=0.0, high=1.0, closed="neither")
        check_real("shape", self.shape, low=-1.0, closed="high")
        if self.mean_runs is not None:
            check_real("mean_runs", self.mean_runs, low=1.0)
        if self.cv is not None:
            raise ValueError(_NO_FOLDS.format(self.cv))
        private_step(self.estimator)
        shares_of(self.estimator)
        return check_candidates(self._candidates(generator)), make_score(self.scoring)

    def _n_held_out(self, n_samples: int) -> int:
        n_held_out = round(self.test_size * n_samples)
        if not 0 < n_held_out < n_samples:
            raise ValueError(
                f"test_size={self.test_size!r} of n_samples={n_samples} leaves a part empty; at "
                "least 1 record is needed in each."
            )
        return n_held_out

    def _split_generator(self) -> np.random.Generator:
        """Return the stream of candidates and split, which is not that of the noise."""
        return randomness.derived_generator(self.random_state, 2)

    def _seeds(self, generator: np.random.Generator, size: int) -> list[int | None]:
        if not randomness.is_seeded(self.random_state):
            return [None] * size
        return [int(generator.integers(2**31 - 1)) for _ in range(size)]

    def __getstate__(self) -> dict[str, Any]:
        """A fitted search is stored without seeds, also of the estimator, which may be its own."""
        state = super().__getstate__()
        if is_fitted(self):
            state["estimator"] = without_seeds(self.estimator)
        return state

    def _build(self, public: Public, index: int, **values: Any) -> Any:
        """Return the unfitted model of a candidate.

        What it would show besides its release is off: progress bars count the runs, and
        diagnostics are not paid for.
        """
        silent = {"ledger": None, "progress": False, "diagnostics": False}
        candidate = public.detail.candidates[index]
        return build(self.estimator, candidate, public.classes, **silent, **values)

    def _read(self, X: Any, y: Any, units: Any = None) -> Any:
        generator = self._split_generator()
        candidates, score = self._check(generator)
        X, y = indexable(X, y)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        reader = probe(self)
        validate_data(reader, X, skip_check_array=True)  # numbers and names of columns alone
        # all runs share one label set, which is public: given, or that of all records
        labels, _ = encode_labels(
            y, private_step(self.estimator).classes, estimator=type(self).__name__
        )
        score.check_classes(labels)
        # A record, and with it all others of its person, is either trained on or scored. The split
        # goes by position: one that looked at labels would leak them.
        owner, n = (None, len(y)) if units is None else unit_codes(units, len(y))
        n_held_out = self._n_held_out(n)
        order = generator.permutation(n)
        weight = None
        if owner is None:
            places = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
        else:
            score = score.of_persons()
            scored = np.isin(owner, order[:n_held_out])
            places = np.flatnonzero(~scored), np.flatnonzero(scored)
            used, weight = share_out(owner[places[1]], n)
            places = places if used is None else (places[0], places[1][used])
        parts = Table(*(take_rows(table, rows) for rows in places for table in (X, y)))
        if owner is not None:
            parts = parts._replace(units=owner[places[0]], weight=weight)
        public = Public(
            n=n,
            n_features=getattr(reader, "n_features_in_", 1),  # a list of texts is one column
            classes=labels,
            names=getattr(reader, "feature_names_in_", None),
            detail=Setting(candidates, n - n_held_out, score),
            unit="record" if owner is None else "person",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they may be computed from exact records
            return self._run_heads(public, parts, self._seeds(generator, 1)[0])

    def _run_heads(self, public: Public, parts: Table, seed: int | None) -> HeldOut:
        """Run what comes before the private steps once for each way that candidates set it.

        Rows that reach the private steps are validated here, before the budget is charged.
        """
        done: dict[Any, tuple[list[tuple[str, Any]], Table]] = {}
        heads, read = [], []
        for i, candidate in enumerate(public.detail.candidates):
            model = self._build(public, i, epsilon=self.epsilon, delta=self.delta)
            head, tail = split(model)
            key = head_settings(self.estimator, candidate)
            if key not in done:
                done[key] = run_head(head, parts, seed)
            heads.append(done[key])
            read.append(publics_of(tail, done[key][1]))
        steps, tables = zip(*heads, strict=True)
        return HeldOut(
            replace(public, detail=replace(public.detail, read=tuple(read))),
            tables,
            steps,
            public.n - public.detail.n_train,
        )

    def _budget(self, public: Public) -> Budget:
        own = private_step(self.estimator)
        ledger = own.ledger if self.ledger is None else self.ledger
        return make_budget(
            self.epsilon,
            self.delta,
            own.adjacency,
            ledger,
            self.random_state,
            public.n,
            unit=public.unit,
        )

    def _plan(self, public: Public, budget: Budget) -> SearchPlan:
        setting: Setting = public.detail
        models = [self._build(public, i) for i in range(len(setting.candidates))]
        steps = [step for model in models for step in private_steps(model).values()]
        if {step.adjacency for step in steps} != {budget.adjacency}:
            raise ValueError(
                "the candidates or their steps have different adjacencies, so that no one claim "
                f"could be made of them; give every one adjacency={budget.adjacency!r}."
            )
        planned: dict[tuple[float, float], list[list[PrivacyGuarantee]]] = {}

        def price(epsilon: float, delta: float) -> tuple[PrivacyEvent, ...]:
            if (epsilon, delta) not in planned:
                planned[epsilon, delta] = [
                    self._claims_of_run(model, i, public, epsilon, delta)
                    for i, model in enumerate(models)
                ]
            runs = [[claim.event for claim in claims] for claims in planned[epsilon, delta]]
            return tuple(run[0] if len(run) == 1 else compose(run) for run in runs)

        n_candidates = len(models)
        mean_runs = RUNS_PER_CANDIDATE * n_candidates if self.mean_runs is None else self.mean_runs
        plan = plan_search(
            price,
            n_candidates,
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            mean_runs=float(mean_runs),
            shape=float(self.shape),
            strategy=self.strategy,
            unit=setting.score.unit,
            table=setting.score.table,
        )
        runs = price(plan.run_epsilon, plan.run_delta)
        # Which conditions a fit has may depend on its budget, so it is those at the planned one.
        claims = [claim for run in planned[plan.run_epsilon, plan.run_delta] for claim in run]
        conditions = dict.fromkeys(c for claim in claims for c in claim.conditions)
        conditions |= dict.fromkeys(c for model in models for c in conditions_of(model))
        conditions |= dict.fromkeys(setting.score.conditions)
        return replace(plan, conditions=tuple(conditions), runs=runs)

    def _claims_of_run(
        self, model: Any, index: int, public: Public, epsilon: float, delta: float
    ) -> list[PrivacyGuarantee]:
        setting: Setting = public.detail
        set_budget(model, shares_of(self.estimator), epsilon, delta)
        steps = private_steps(model).values()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about budgets that are only tried here
                return [
                    step._planned(own).privacy
                    for step, own in zip(steps, setting.read[index], strict=True)
                ]
        except ValueError as error:
            error.add_note(
                f"The candidate {setting.candidates[index]} was planned for {setting.n_train} "
                f"training records, of which one fit may spend epsilon={epsilon:g}."
            )
            raise

    def _touch(self, rows: Any, plan: SearchPlan, generator: np.random.Generator) -> Winner:
        choose = self._repeat if plan.strategy == "repeat" else self._try_all
        run = choose(rows, plan, generator)
        candidates, n_held_out = rows.public.detail.candidates, rows.n_held_out
        if run is not None:
            model = assemble(
                rows.heads[run.candidate], run.fitted, self._build(rows.public, run.candidate)
            )
            score = rows.score.mean(run.total, n_held_out)
            return Winner(run.candidate, score, model, candidates, n_held_out)
        warnings.warn(
            "the number of runs was drawn as 0 (Poisson): nothing was fitted, and the model "
            "guesses uniformly. A larger mean_runs makes this rare.",
            PrivacyWarning,
            stacklevel=4,
        )
        labels = rows.public.classes
        guess = DummyClassifier(strategy="uniform")
        guess.fit(np.zeros((len(labels), rows.public.n_features)), labels)
        return Winner(None, math.nan, guess, candidates, n_held_out)

    def _repeat(self, rows: Any, plan: SearchPlan, generator: np.random.Generator) -> Run | None:
        """Run random candidates a random number of times; return the best noisy score's run."""
        n_runs = draw_number_of_runs(generator, plan.mean_runs, plan.shape)
        picks = generator.integers(len(rows.tables), size=n_runs)
        runs = self._run(rows, plan, picks, generator)
        noisy = [rows.score.noisy(generator, run.total, plan.score) for run in runs]
        if not runs:
            return None
        order = np.array([rows.score.order(total) for total in noisy])
        best = int(np.lexsort((generator.random(n_runs), order))[-1])  # ties at random
        return runs[best]._replace(total=noisy[best])

    def _try_all(self, rows: Any, plan: SearchPlan, generator: np.random.Generator) -> Run:
        """Run every candidate; report the noisy maximum, and its score under fresh noise.

        Tables are released as they are, so that the choice and the score follow from them. The
        maximum of counts under Laplace noise of scale s is 2/s-differentially private where
        one record moves each count by at most 1, and 1/s where all move in the same direction
        (Dwork and Roth 2014, Claim 3.9); ties go to the first, which keeps the argument for
        integer noise.
        """
        runs = self._run(rows, plan, np.arange(len(rows.tables)), generator)
        noisy = [rows.score.noisy(generator, run.total, plan.choice) for run in runs]
        best = int(np.argmax([rows.score.order(total) for total in noisy]))
        winner = runs[best]
        if rows.score.table:
            return winner._replace(total=noisy[best])
        return winner._replace(total=rows.score.noisy(generator, winner.total, plan.score))

    def _run(
        self, rows: Any, plan: SearchPlan, picks: np.ndarray, generator: np.random.Generator
    ) -> list[Run]:
        shares = shares_of(self.estimator)
        n_steps = len(shares.epsilon)
        seeds = iter(self._seeds(generator, len(picks) * n_steps))
        tasks = []
        for index in picks.tolist():
            tail = split(self._build(rows.public, index))[1]
            set_budget(tail, shares, plan.run_epsilon, plan.run_delta)
            for step in private_steps(tail).values():  # seeds differ: so must the noise of steps
                step.set_params(random_state=next(seeds))
            tasks.append(delayed(one_run)(tail, index, rows.tables[index], rows.score))
        runs: list[Run] = Parallel(n_jobs=self.n_jobs)(tasks)
        for run in runs:
            if event_of(run.fitted) != plan.runs[run.candidate]:
                raise CalibrationError(
                    f"candidate {run.candidate} was fitted at another price than it was planned "
                    "for, so that the claim of the search would not hold. Please report this."
                )
        return runs

    def _keep(self, public: Public, plan: Any, claim: PrivacyGuarantee, posterior: Any) -> Self:
        set_guarantee(posterior.model, claim)
        return super()._keep(public, plan, claim, posterior)

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
            tags.classifier_tags.poor_score = not noise_is_small(self.epsilon)
        return tags


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


class PrivateGridSearchCV(PrivateSearch):
    r"""Choose the best point of a grid under differential privacy.

    Used as scikit-learn's ``GridSearchCV``, but without cross-validation: a share of the records is
    held out once, and the winner is not refitted on all of them. It maximizes

    .. math::
        \arg\max_{k \le K} \sum_{i \in \text{hold-out}} s(\hat f_k; x_i, y_i) + \text{noise}_k

    over *K* runs, each with a candidate drawn at random, or over all candidates once.

    **Privacy guarantee.** The search as a whole is (epsilon, delta)-differentially private for the
    adjacency of the estimator, one record being replaced by another or by a null record; with
    ``fit(X, y, units=ids)`` all records of one person, who are kept together by the split. The
    records are split once, by position, into a training and a validation part, so each pays either
    for the fits or for the scores. Released are the winner, its parameters and its noisy score. The
    losing runs, their scores and, with random repetition, the number of runs stay hidden (a run
    time that an adversary can measure tells about it), and so do all warnings of fits. Public are
    the candidates, all parameters, the number of records and the label set. The budget of a fit is
    computed from the total before the data are used; ``epsilon``, ``delta``, ``ledger`` and
    ``random_state`` of the estimator are replaced. Every further ``fit`` of the search costs its
    epsilon again. With an integer ``random_state`` the claim needs the seed to stay secret.

    Parameters
    ----------
    estimator : classifier
        A private classifier of this package, or a pipeline that ends in one. Other private steps,
        such as a ``PrivateBoundsScaler``, are fitted in every run: the steps share the budget of a
        run in the proportion of their own ``epsilon`` (and ``delta``), which
        :func:`skdpbayes.split_budget` sets. Steps before the first private one run once, on the
        training part. Steps that learn from the data without a claim are not covered: the claim
        names them among its conditions. Progress bars and diagnostics are off.
    param_grid : dict or list of dict
        As for ``GridSearchCV``. It cannot contain ``epsilon`` or ``delta``.
    epsilon : float, default=1.0
        Budget of the whole search, > 0; smaller is more private. ``np.inf`` fits every candidate
        without noise and takes the best score.
    delta : float, default=1e-5
        In [0, 1). 0 asks for a pure guarantee, which the estimator must be able to give.
    scoring : str or callable, default="accuracy"
        Hold-out score: "accuracy", "neg_log_loss", "neg_brier_score" or "roc_auc". A log loss is
        cut at log(1000) per record; a Brier score is half the squared distance of the
        probabilities from the label; the area under the ROC curve, of two classes, comes from a
        noisy table of label and score, as in :func:`skdpbayes.metrics.private_ranking`. A function
        ``(fitted, X, y)`` gets the fitted private step and the rows that reach it, and returns a
        number in [0, 1] for each record, which no other record may change: that is then a condition
        of the claim.
    test_size : float, default=0.2
        Share of the records that are held out, in (0, 1).
    cv : None
        Folds are not offered: each record would pay for most of the fits and for a score. Any other
        value is refused.
    strategy : {"auto", "repeat", "compose"}, default="auto"
        "repeat": a random number of runs with random candidates. "compose": every candidate once,
        at the price of all fits together. "auto": whichever leaves a fit more epsilon, weighted by
        the probability that a candidate is tried; ``privacy_.mechanism`` says which.
    mean_runs : float or None, default=None
        Mean number of runs for "repeat", at least 1; thrice the number of candidates by default.
        More find a better candidate and cost more.
    shape : float, default=1.0
        Distribution of the number of runs: 0 logarithmic, 1 geometric, other values above -1
        truncated negative binomial, ``np.inf`` Poisson (needs ``delta > 0``). Larger is less
        spread and costs more.
    random_state : int, RandomState, Generator or None, default=None
        None draws secure random bits. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Charged once, for the whole search, before the data are touched. By default the ledger of
        the estimator.
    n_jobs : int or None, default=None
        Number of joblib workers for the runs.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted on the training part (released). Its ``privacy_`` is the search's.
    best_params_ : dict
        Its parameters (released).
    best_index_ : int
        Its position among the candidates (released).
    best_score_ : float
        Its noisy hold-out score (released).
    cv_results_ : dict
        The candidates (public); no scores, which were not paid for.
    privacy_ : PrivacyGuarantee
        The claim of the whole search (public).
    plan_ : SearchPlan
        How the budget was spent (public): strategy, epsilon of a fit, noise of the scores.
    n_validation_ : int
        Number of held-out records, or of persons with ``units`` (public).
    classes_ : ndarray
        The label set (public).

    References
    ----------
    .. [1] N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. ICLR
       2022.
    .. [2] J. Liu, K. Talwar. Private selection from private candidates.
       STOC 2019.
    .. [3] C. Dwork, A. Roth. The algorithmic foundations of differential privacy, 2014 (Claim
       3.9).

    Examples
    --------
    >>> from skdpbayes import LaplaceNaiveBayes, datasets
    >>> from skdpbayes.model_selection import PrivateGridSearchCV
    >>> census = datasets.make_census(4000, encoding="bins", random_state=0)
    >>> model = LaplaceNaiveBayes(distribution="categorical", categories=census.n_categories)
    >>> search = PrivateGridSearchCV(
    ...     model, {"alpha": [0.1, 1.0, 10.0]}, epsilon=2.0, delta=0.0, random_state=0,
    ... ).fit(census.data, census.target)
    >>> search.plan_.strategy, round(search.plan_.run_epsilon, 2)
    ('repeat', 1.11)
    >>> search.privacy_.epsilon, search.best_params_ in search.cv_results_["params"]
    (2.0, True)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        scoring: Any = "accuracy",
        test_size: float = 0.2,
        cv: None = None,
        strategy: str = "auto",
        mean_runs: float | None = None,
        shape: float = 1.0,
        random_state: Any = None,
        ledger: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.test_size = test_size
        self.cv = cv
        self.strategy = strategy
        self.mean_runs = mean_runs
        self.shape = shape
        self.random_state = random_state
        self.ledger = ledger
        self.n_jobs = n_jobs

    def _candidates(self, generator: np.random.Generator) -> Iterable[Mapping[str, Any]]:
        return ParameterGrid(self.param_grid)


class PrivateRandomizedSearchCV(PrivateSearch):
    r"""Choose the best of candidates drawn from distributions, under differential privacy.

    Used as scikit-learn's ``RandomizedSearchCV``, but without cross-validation: a share of the
    records is held out once, and the winner is not refitted on all of them. The candidates are
    drawn first, without the data; then it maximizes, as ``PrivateGridSearchCV``,

    .. math::
        \arg\max_{k \le K} \sum_{i \in \text{hold-out}} s(\hat f_k; x_i, y_i) + \text{noise}_k .

    **Privacy guarantee.** The search as a whole is (epsilon, delta)-differentially private for the
    adjacency of the estimator, one record being replaced by another or by a null record; with
    ``fit(X, y, units=ids)`` all records of one person, who are kept together by the split. The
    records are split once, by position, into a training and a validation part, so each pays either
    for the fits or for the scores. Released are the winner, its parameters and its noisy score. The
    losing runs, their scores and, with random repetition, the number of runs stay hidden (a run
    time that an adversary can measure tells about it), and so do all warnings of fits. Public are
    the candidates, all parameters, the number of records and the label set. The budget of a fit is
    computed from the total before the data are used; ``epsilon``, ``delta``, ``ledger`` and
    ``random_state`` of the estimator are replaced. Every further ``fit`` of the search costs its
    epsilon again. With an integer ``random_state`` the claim needs the seed to stay secret.

    Parameters
    ----------
    estimator : classifier
        A private classifier of this package, or a pipeline that ends in one. Other private steps,
        such as a ``PrivateBoundsScaler``, are fitted in every run: the steps share the budget of a
        run in the proportion of their own ``epsilon`` (and ``delta``), which
        :func:`skdpbayes.split_budget` sets. Steps before the first private one run once, on the
        training part. Steps that learn from the data without a claim are not covered: the claim
        names them among its conditions. Progress bars and diagnostics are off.
    param_distributions : dict or list of dict
        As for ``RandomizedSearchCV``. It cannot contain ``epsilon`` or ``delta``.
    epsilon : float, default=1.0
        Budget of the whole search, > 0; smaller is more private. ``np.inf`` fits every candidate
        without noise and takes the best score.
    delta : float, default=1e-5
        In [0, 1). 0 asks for a pure guarantee, which the estimator must be able to give.
    scoring : str or callable, default="accuracy"
        Hold-out score: "accuracy", "neg_log_loss", "neg_brier_score" or "roc_auc". A log loss is
        cut at log(1000) per record; a Brier score is half the squared distance of the
        probabilities from the label; the area under the ROC curve, of two classes, comes from a
        noisy table of label and score, as in :func:`skdpbayes.metrics.private_ranking`. A function
        ``(fitted, X, y)`` gets the fitted private step and the rows that reach it, and returns a
        number in [0, 1] for each record, which no other record may change: that is then a condition
        of the claim.
    test_size : float, default=0.2
        Share of the records that are held out, in (0, 1).
    cv : None
        Folds are not offered: each record would pay for most of the fits and for a score. Any other
        value is refused.
    strategy : {"auto", "repeat", "compose"}, default="auto"
        "repeat": a random number of runs with random candidates. "compose": every candidate once,
        at the price of all fits together. "auto": whichever leaves a fit more epsilon, weighted by
        the probability that a candidate is tried; ``privacy_.mechanism`` says which.
    mean_runs : float or None, default=None
        Mean number of runs for "repeat", at least 1; thrice the number of candidates by default.
        More find a better candidate and cost more.
    shape : float, default=1.0
        Distribution of the number of runs: 0 logarithmic, 1 geometric, other values above -1
        truncated negative binomial, ``np.inf`` Poisson (needs ``delta > 0``). Larger is less
        spread and costs more.
    n_iter : int, default=10
        Number of candidates drawn.
    random_state : int, RandomState, Generator or None, default=None
        None draws secure random bits. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Charged once, for the whole search, before the data are touched. By default the ledger of
        the estimator.
    n_jobs : int or None, default=None
        Number of joblib workers for the runs.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted on the training part (released). Its ``privacy_`` is the search's.
    best_params_ : dict
        Its parameters (released).
    best_index_ : int
        Its position among the candidates (released).
    best_score_ : float
        Its noisy hold-out score (released).
    cv_results_ : dict
        The candidates (public); no scores, which were not paid for.
    privacy_ : PrivacyGuarantee
        The claim of the whole search (public).
    plan_ : SearchPlan
        How the budget was spent (public): strategy, epsilon of a fit, noise of the scores.
    n_validation_ : int
        Number of held-out records, or of persons with ``units`` (public).
    classes_ : ndarray
        The label set (public).

    References
    ----------
    .. [1] N. Papernot, T. Steinke. Hyperparameter tuning with Rényi differential privacy. ICLR
       2022.
    .. [2] J. Liu, K. Talwar. Private selection from private candidates.
       STOC 2019.
    .. [3] C. Dwork, A. Roth. The algorithmic foundations of differential privacy, 2014 (Claim
       3.9).

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from skdpbayes import LaplaceNaiveBayes, datasets
    >>> from skdpbayes.model_selection import PrivateRandomizedSearchCV
    >>> census = datasets.make_census(4000, encoding="bins", random_state=0)
    >>> model = LaplaceNaiveBayes(distribution="categorical", categories=census.n_categories)
    >>> search = PrivateRandomizedSearchCV(
    ...     model, {"alpha": loguniform(0.1, 10)}, delta=0.0, n_iter=5, random_state=0,
    ... ).fit(census.data, census.target)
    >>> len(search.cv_results_["params"])
    5
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        scoring: Any = "accuracy",
        test_size: float = 0.2,
        cv: None = None,
        strategy: str = "auto",
        mean_runs: float | None = None,
        shape: float = 1.0,
        n_iter: int = 10,
        random_state: Any = None,
        ledger: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.scoring = scoring
        self.test_size = test_size
        self.cv = cv
        self.strategy = strategy
        self.mean_runs = mean_runs
        self.shape = shape
        self.n_iter = n_iter
        self.random_state = random_state
        self.ledger = ledger
        self.n_jobs = n_jobs

    def _candidates(self, generator: np.random.Generator) -> Iterable[Mapping[str, Any]]:
        check_integer("n_iter", self.n_iter, low=1)
        seed = int(generator.integers(2**31 - 1))
        return ParameterSampler(self.param_distributions, self.n_iter, random_state=seed)
