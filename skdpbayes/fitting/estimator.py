"""``fit`` written once: read, plan, reserve, touch, keep.

An estimator supplies its parameters and docstring, ``_read`` where its table is special, ``_plan``
(from public numbers alone) and ``_touch`` (the only place that sees records). Nothing before
``_keep`` changes the object, so a refused or failed fit leaves it as it was.
"""

from __future__ import annotations

import contextlib
import copy
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from skdpbayes import randomness
from skdpbayes._validation import (
    ADJACENCIES,
    check_choice,
    check_flag,
    check_is_fitted,
    check_real,
    is_fitted,
)
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.fitting.chunks import example_of, is_chunked
from skdpbayes.fitting.frames import unscaled_columns
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.storage import to_json
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.guarantee import Adjacency, PrivacyGuarantee, Unit

T = TypeVar("T")

# Larger budgets end in differences of numbers that double precision cannot tell apart.
LARGEST_EPSILON = 1e12
NOT_PRIVATE = "Use epsilon=np.inf for the non-private model."
SPENT = (
    "The fit had already reserved its budget when this happened, so the budget counts as spent; "
    "the estimator is as it was before."
)
NO_UNITS = (
    "{name} has no guarantee for all records of a person, so that units={kind} cannot be honored. "
    "Use an estimator that takes units, keep one record per person (chosen without looking at the "
    "data), or fit without units and charge ledger.for_records(most_per_person=...)."
)
IN_MEMORY = (
    "{name} takes tables in memory only. Tables in chunks (Dask, RowBlocks) are taken by all other "
    "estimators, PrivateBoundsScaler and the models of skdpbayes.conjugate; for this one, load "
    "rows that fit into memory, chosen without looking at them."
)
WEIGHTS = (
    "the noise is made for records that weigh 1, and one of weight w could do w times as much. Fit "
    "without weights. Unequal costs belong into the threshold on predict_proba; labels that are "
    "more frequent in the population than in the sample, by public figures, into the intercept. "
    "Both cost no privacy."
)
BALANCED = (
    "'balanced' would be computed from the frequencies of the labels, which are private. A "
    "threshold on predict_proba does the same for known costs, and is free."
)
CLASS_WEIGHT = (
    "class_weight is not a parameter of {name}; DPSGLDClassifier takes public numbers, "
    "{{label: weight}}. {balanced}"
)


class Posterior(Protocol):
    """What a fit leaves behind: frozen, picklable, without estimator or generator."""

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes that the estimator shows, all released or public."""

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Posterior draws, first axis the draw."""


@dataclass(frozen=True)
class FitPlan:
    """What a fit of a given size would claim and add; made without data.

    Attributes
    ----------
    estimator : str
        Name of the class.
    privacy : PrivacyGuarantee
        The claim.
    numbers : dict
        Public numbers of the fit under the names of the fitted attributes.
    plan : object
        The estimator's own plan.
    expected : dict
        How large an error the noise makes, where a formula is known; raise ``n_samples`` or
        ``epsilon`` until it is small enough. ``excess_loss``: by how much the penalized loss per
        record exceeds the least possible one, at most, in expectation over the noise.
        ``count_error``: standard deviation of the noise on a released count, divided by
        ``n_samples``.
    """

    estimator: str
    privacy: PrivacyGuarantee
    numbers: dict[str, Any]
    plan: Any
    expected: dict[str, float]

    def _rows(self) -> list[tuple[str, str]]:
        shown = [
            (name.rstrip("_"), f"{value:.6g}" if isinstance(value, float) else str(value))
            for name, value in self.numbers.items()
        ]
        errors = [
            (f"expected {name.replace('_', ' ')}", f"{value:.3g}")
            for name, value in self.expected.items()
        ]
        return [("claim", str(self.privacy)), *shown, *errors]

    def __str__(self) -> str:
        lines = [f"{self.estimator} would release:"]
        width = max(len(name) for name, _ in self._rows())
        lines += [f"  {name:<{width}}  {value}" for name, value in self._rows()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return f"<table><caption>{escape(self.estimator)} would release</caption>{rows}</table>"


def offers(method: str) -> Callable[[PrivateEstimator], bool]:
    """Return a check that a fit released what ``method`` needs; it raises with the reason if not.

    A posterior says so itself in ``missing``, a dict from methods to reasons.
    """

    def check(estimator: PrivateEstimator) -> bool:
        missing = getattr(getattr(estimator, "_posterior", None), "missing", {})
        if method in missing:
            raise AttributeError(
                f"{method} is not available: {missing[method]}",
                name=method,
                obj=estimator,
            )
        return True

    return check


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # it has no types
    """Base of the estimators: ``epsilon``, ``delta``, ``adjacency``, ``random_state``, ``ledger``.

    A subclass defines its own ``__init__`` with these parameters, as scikit-learn asks.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    random_state: Any
    ledger: Any
    progress: bool
    _posterior: Any
    # Whether every pass over the rows weighs them (`Block.weight`), so that ``units`` are honored.
    _takes_units = False
    _reads_chunks: ClassVar[bool] = False

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Say why there is no ``class_weight`` where scikit-learn's classifiers have one."""
        if "class_weight" in parameters and "class_weight" not in cls._get_param_names():
            raise TypeError(CLASS_WEIGHT.format(name=cls.__name__, balanced=BALANCED))
        made: Self = super().__new__(cls)
        return made

    def _fit(self, *table: Any, units: Any = None) -> Self:
        chunked = any(is_chunked(part) for part in table)
        if chunked and not self._reads_chunks:
            raise TypeError(IN_MEMORY.format(name=type(self).__name__))
        if units is not None:
            self._check_takes_units(type(units).__name__)
        rows = self._read(*table)  # 1 validate, 2 bound: all that can be wrong is found here
        if units is not None:
            rows = rows.of_units(units)
        with _sized(rows.public):
            budget = self._budget(rows.public)
            plan = self._plan(rows.public, budget)  # 3 calibrate, from public numbers
        if budget.private:
            self._warn_of_unscaled(example_of(table[0]))
        generator = randomness.make_generator(self.random_state)
        claim = budget.reserve(plan, type(self).__name__)  # 4 reserve
        with spent(budget.ledger):
            posterior = self._touch(rows, plan, generator)  # 5 touch the data, under noise
        return self._keep(rows.public, plan, claim, posterior)

    def _read(self, *table: Any) -> Records:
        """Steps 1 and 2: validate the table and say how rows are bounded."""
        raise NotImplementedError

    def _plan(self, public: Public, budget: Budget) -> Any:
        """Step 3: decide on everything that public numbers decide."""
        raise NotImplementedError

    def _touch(self, rows: Records, plan: Any, generator: np.random.Generator) -> Any:
        """Step 5: release under noise; return the posterior."""
        raise NotImplementedError

    def _budget(self, public: Public) -> Budget:
        """Check the shared parameters; warn if ``delta`` is too large to protect a record."""
        if hasattr(self, "progress"):  # fits that take no time have no progress to show
            check_flag("progress", self.progress)
        return make_budget(
            self.epsilon,
            self.delta,
            self.adjacency,
            self.ledger,
            self.random_state,
            public.n,
            unit=public.unit,
        )

    def _check_takes_units(self, kind: str) -> None:
        """Refuse units where a pass over the rows would not weigh them."""
        if not self._takes_units:
            raise TypeError(NO_UNITS.format(name=type(self).__name__, kind=kind))

    def _warn_of_unscaled(self, X: Any) -> None:
        """Say that rows in their own units are cut where nobody has said how long they are."""
        columns = unscaled_columns(X) if getattr(self, "data_norm", None) == 1.0 else []
        if columns:
            shown = ", ".join(columns[:5]) + (", ..." if len(columns) > 5 else "")
            warnings.warn(
                f"{len(columns)} columns hold integers or objects ({shown}), and data_norm=1 "
                "scales every row down to length 1: of ages and amounts nothing but their ratio "
                "remains. Put private_preprocessor(bounds=...) or BoundsScaler(bounds, norm=1) "
                "before this estimator, or set data_norm to the public length of a row. Indicators "
                "stored as bool or uint8 need neither.",
                PrivacyWarning,
                stacklevel=4,
            )

    def _keep(self, public: Public, plan: Any, claim: PrivacyGuarantee, posterior: Any) -> Self:
        """Replace what an earlier fit left by what this one released: all of it, or none."""
        fitted: dict[str, Any] = {"n_features_in_": public.n_features}
        if public.names is not None:
            fitted["feature_names_in_"] = public.names
        if public.classes is not None:
            fitted["classes_"] = public.classes
        fitted |= plan.numbers() | posterior.attributes()
        fitted |= {"privacy_": claim, "_posterior": posterior}
        state = self.__dict__
        for name in [name for name in state if name.endswith("_") or name == "_posterior"]:
            del state[name]
        state.update(fitted)
        return self

    def _planned(self, public: Public) -> FitPlan:
        """Price a fit without data; see ``plan`` of the estimators."""
        if public.unit != "record":
            self._check_takes_units(repr(public.unit))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            budget = self._budget(public)
            plan = self._plan(public, budget)
            claim = budget.claim(plan)
        expected = self._expected(public, plan)
        return FitPlan(type(self).__name__, claim, plan.numbers(), plan, expected)

    def _expected(self, public: Public, plan: Any) -> dict[str, float]:
        """Errors that public numbers foretell; see `FitPlan`. None where no formula is known."""
        return {}

    @available_if(offers("sample_posterior"))
    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Draw from the posterior that the fit released; it costs no privacy.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None for as many as the estimator's documentation says.
        random_state : int, RandomState, Generator or None, default=None
            Of the draws, where they are made or chosen here.

        Returns
        -------
        dict of ndarrays
            First axis the draw.
        """
        check_is_fitted(self)
        draws: dict[str, np.ndarray] = self._posterior.draws(n_samples, random_state)
        return draws

    @available_if(offers("interval"))
    def interval(self, level: float = 0.9) -> dict[str, np.ndarray]:
        """Intervals for the model's parameters, the noise of the mechanism included.

        The parameters are those of the model on bounded rows: where ``data_norm`` or public bounds
        cut many rows, they differ from those of the rows as they are. The user guide has the
        coverage in simulations.

        Parameters
        ----------
        level : float, default=0.9
            Probability that an interval should cover, in (0, 1).

        Returns
        -------
        dict of ndarrays of shape (..., 2)
            Lower and upper ends, under the names of ``sample_posterior``.
        """
        level = check_real("level", level, low=0.0, high=1.0, closed="neither")
        check_is_fitted(self)
        found: dict[str, np.ndarray] = self._posterior.interval(level)
        return found

    def to_json(self, path: Any = None) -> str:
        """Write the released model as JSON, a file that is no program; it costs no privacy.

        The claim and the versions are written with it, the seed and the ledger are not. See
        :func:`skdpbayes.to_json`, which also writes pipelines, and :func:`skdpbayes.load_json`.

        Parameters
        ----------
        path : str, path or None, default=None
            The file to write; None only returns the text.

        Returns
        -------
        str
            The text of the file.
        """
        return to_json(self, path)

    def _progress(self, steps: Iterable[T], *, total: int, label: str) -> Iterable[T]:
        """Wrap ``steps`` in a progress bar if ``progress`` asks for one."""
        if not self.progress:
            return steps
        from tqdm.auto import tqdm

        bar: Iterable[T] = tqdm(steps, total=total, desc=f"{type(self).__name__}: {label}")
        return bar

    def __getstate__(self) -> dict[str, Any]:
        """A fitted object is stored without what its noise was made from."""
        state = dict(super().__getstate__())
        if is_fitted(self):
            state["random_state"] = None
        return state

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return str(BaseEstimator.__repr__(_shown(self), N_CHAR_MAX))

    def _repr_html_inner(self) -> str:
        return str(BaseEstimator._repr_html_inner(_shown(self))) + self._claim_card()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        shown = BaseEstimator._repr_mimebundle_(_shown(self), **kwargs)
        if "text/html" in shown:
            shown["text/html"] += self._claim_card()
        return shown

    def _claim_card(self) -> str:
        """Return the claim of a fit, to stand below scikit-learn's diagram."""
        return self.privacy_._repr_html_() if is_fitted(self) else ""

    def _get_params_html(self, *args: Any, **kwargs: Any) -> Any:
        """Parameters in scikit-learn's diagram; called by releases that have such a table."""
        return BaseEstimator._get_params_html(_shown(self), *args, **kwargs)


def refuse_arguments(estimator: Any, unknown: dict[str, Any]) -> None:
    """Refuse arguments that ``fit`` does not have; of weights, say what to do instead."""
    for name in unknown:
        if name == "units":
            raise TypeError(NO_UNITS.format(name=type(estimator).__name__, kind="..."))
        why = f": {WEIGHTS}" if name == "sample_weight" else "."
        raise TypeError(
            f"{type(estimator).__name__}.fit() got an unexpected keyword argument {name!r}{why}"
        )


def make_budget(
    epsilon: Any,
    delta: Any,
    adjacency: Any,
    ledger: Any,
    random_state: Any,
    n_samples: int,
    *,
    unit: Unit = "record",
    stacklevel: int = 5,
) -> Budget:
    """Check the parameters that say what may be spent; warn if ``delta`` protects no record."""
    check_real("epsilon", epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
    if LARGEST_EPSILON < epsilon < np.inf:
        raise ValueError(
            f"epsilon={epsilon!r} is beyond {LARGEST_EPSILON:g}, where nothing is protected and "
            f"arithmetic fails. {NOT_PRIVATE}"
        )
    check_real("delta", delta, low=0.0, high=1.0, closed="low")
    check_choice("adjacency", adjacency, ADJACENCIES)
    if ledger is not None and not hasattr(ledger, "reserve"):
        raise TypeError(f"ledger must be a PrivacyLedger or None; got {ledger!r}.")
    seeded = randomness.is_seeded(random_state)
    budget = Budget(float(epsilon), float(delta), adjacency, ledger, seeded, unit)
    if budget.private and delta >= 1.0 / n_samples:
        warnings.warn(
            f"delta={delta:g} is at least 1/n_samples={1.0 / n_samples:g}: such a claim allows "
            f"publishing a random {unit} outright. Use a delta well below it.",
            PrivacyWarning,
            stacklevel=stacklevel,
        )
    return budget


@contextlib.contextmanager
def _sized(public: Public) -> Iterator[None]:
    """Say in a refusal which numbers it was made for: folds differ in their number of records."""
    try:
        yield
    except ValueError as error:
        labels = "" if public.classes is None else f" and {public.n_classes} classes"
        error.add_note(
            f"This fit has n_samples={public.n} ({public.unit}s), n_features={public.n_features}"
            f"{labels}; these public numbers and the parameters alone decided it. A fold of "
            "cross-validation has fewer than the table."
        )
        raise


@contextlib.contextmanager
def spent(ledger: Any) -> Iterator[None]:
    """Say in whatever is raised here, an interrupt too, that the budget is spent."""
    try:
        yield
    except BaseException as error:
        if ledger is not None:
            error.add_note(SPENT)
        raise


def _shown(estimator: PrivateEstimator) -> PrivateEstimator:
    """Return the estimator as it may be printed: once fitted, without its seed."""
    return copy.copy(estimator) if is_fitted(estimator) else estimator


def noise_is_small(epsilon: Any) -> bool:
    """Tell whether scikit-learn's score checks, on a few dozen records, must pass.

    Tags are asked for before parameters are checked, so epsilon may be anything.
    """
    return isinstance(epsilon, numbers.Real) and float(epsilon) >= 1e4
