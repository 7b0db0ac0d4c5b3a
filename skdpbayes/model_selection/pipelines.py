"""The private steps of a search's estimator, what comes before them, and the budget they share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdpbayes.fitting.estimator import PrivateEstimator
from skdpbayes.fitting.pipelines import learning_steps, private_steps
from skdpbayes.fitting.records import Public
from skdpbayes.model_selection.runs import Table
from skdpbayes.privacy.composition.composed import compose
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.guarantee import PrivacyGuarantee

_REFUSED = {
    "epsilon": "a larger epsilon nearly always scores better, so the search would just buy the "
    "largest, and the price is that of the largest anyway",
    "delta": "the price is that of the largest delta anyway",
    "adjacency": "it says what the guarantee means",
    "ledger": "the search charges its ledger once, as a whole",
    "random_state": "runs must be independent of each other",
}


def private_step(model: Any) -> Any:
    """Return the model, or the last step of a pipeline: a private classifier.

    Steps before it may be private, too. Anything else that holds a private estimator may fit it
    several times, or on outputs of others.
    """
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    every = {name for name in model.get_params(deep=True) if name.rsplit("__")[-1] == "epsilon"}
    steps = private_steps(model)
    priced = {f"{name}__epsilon" if isinstance(model, Pipeline) else "epsilon" for name in steps}
    known = all(isinstance(step, PrivateEstimator) for step in steps.values())
    if every != priced or not known or last not in steps.values() or not hasattr(last, "classes"):
        raise TypeError(
            "estimator must be a private classifier of this package, or a pipeline in which the "
            "last step is one and no private step is inside a wrapper that fits it; got "
            f"{model!r}."
        )
    return last


def split(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the steps before the first private one, and the rest as an estimator."""
    if not isinstance(model, Pipeline):
        return [], model
    first = next(k for k, (_, step) in enumerate(model.steps) if private_steps(step))
    rest = model.steps[first:]
    return model.steps[:first], rest[0][1] if len(rest) == 1 else Pipeline(rest)


class Shares(NamedTuple):
    """Which part of a run's budget each private step gets, in order."""

    epsilon: tuple[float, ...]
    delta: tuple[float, ...]


def shares_of(estimator: Any) -> Shares:
    """Read the shares off the steps' own budgets; :func:`skdpbayes.split_budget` sets them."""
    steps = list(private_steps(estimator).values())
    if len(steps) == 1:
        return Shares((1.0,), (1.0,))
    epsilons = np.array([float(step.epsilon) for step in steps])
    deltas = np.array([float(step.delta) for step in steps])
    if not np.all(np.isfinite(epsilons) & (epsilons > 0.0)):
        raise ValueError(
            "the private steps of a pipeline share the budget of a run in the proportion of their "
            f"own epsilons, which must be finite and > 0; got {epsilons.tolist()}. "
            "split_budget(pipeline, 1.0, shares={...}) sets them."
        )
    shares = epsilons / epsilons.sum()
    if not deltas.any():  # nobody said who needs one
        deltas = shares
    return Shares(tuple(shares.tolist()), tuple((deltas / deltas.sum()).tolist()))


def set_budget(model: Any, shares: Shares, epsilon: float, delta: float) -> None:
    """Give each private step its share; added up they are within both numbers."""
    alone = len(shares.epsilon) == 1 or math.isinf(epsilon)
    for step, part, chance in zip(private_steps(model).values(), *shares, strict=True):
        step.set_params(
            epsilon=epsilon if alone else epsilon * part,
            delta=delta if alone else delta * chance,
        )


def build(estimator: Any, candidate: Mapping[str, Any], classes: Any, **values: Any) -> Any:
    """Clone, set the candidate's parameters, then those that every private step has."""
    model = clone(estimator).set_params(**candidate)
    private_step(model).set_params(classes=classes)
    for step in private_steps(model).values():
        known = step.get_params(deep=False)
        step.set_params(**{name: value for name, value in values.items() if name in known})
    return model


def check_candidates(candidates: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the candidates as a list, refusing parameters that are not the search's to choose."""
    listed = [dict(candidate) for candidate in candidates]
    if not listed:
        raise ValueError("the search has no candidates; got an empty grid.")
    for name in sorted({name for candidate in listed for name in candidate}):
        last = name.rsplit("__", 1)[-1]
        if last in _REFUSED:
            raise ValueError(
                f"a private search cannot choose {name!r}: {_REFUSED[last]}. Set it on the search; "
                "to study the trade-off on data you may look at, use scikit-learn's GridSearchCV."
            )
    return listed


def conditions_of(model: Any) -> list[str]:
    """Name, as conditions, the steps before the last one that may learn from the data."""
    head = Pipeline(model.steps[:-1]) if isinstance(model, Pipeline) else None
    return [
        f"the step {name!r} learns nothing from the data that is not public"
        for name, _, _ in learning_steps(head)
    ]


def head_settings(estimator: Any, candidate: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return what a candidate sets before the first private step; equal for equal heads.

    Values are known by identity: a grid repeats its objects, and arrays have no plain equality.
    """
    names = {name for name, _ in split(estimator)[0]}
    head = {k: v for k, v in candidate.items() if k.split("__", 1)[0] in names}
    return tuple(sorted((name, id(value)) for name, value in head.items()))


def run_head(
    steps: list[tuple[str, Any]], table: Table, seed: int | None
) -> tuple[list[tuple[str, Any]], Table]:
    """Fit what comes before the private steps; return it fitted and the rows it makes."""
    if not steps:
        return [], table
    head = Pipeline(steps)
    seeds = [name for name in head.get_params(deep=True) if name.endswith("__random_state")]
    head.set_params(**dict.fromkeys(seeds, seed))
    X, X_held_out = head.fit_transform(table.X, table.y), head.transform(table.X_held_out)
    head.set_params(**dict.fromkeys(seeds))  # a seed that may be guessed could be checked by it
    return head.steps, table._replace(X=X, X_held_out=X_held_out)


def without_seeds(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator without any ``random_state``."""
    bare = clone(estimator)
    names = [name for name in bare.get_params() if name.split("__")[-1] == "random_state"]
    return bare.set_params(**dict.fromkeys(names))


def publics_of(tail: Any, table: Table) -> tuple[Public, ...]:
    """Return what the plan of each private step may know; validate the rows on the way.

    Steps before the last one run here without noise, because how many columns they hand on, and
    under which names, is public and not known otherwise. Nothing else of that run is kept.
    """
    last, publics, X, X_held_out = private_step(tail), [], table.X, table.X_held_out
    if isinstance(tail, Pipeline):
        head = clone(tail[:-1])
        for step in private_steps(head).values():
            step.set_params(epsilon=math.inf)
        X, X_held_out = head.fit_transform(X, table.y), head.transform(X_held_out)
        for step in private_steps(head, fitted=True).values():
            names = getattr(step, "feature_names_in_", None)
            publics.append(Public(len(table.y), step.n_features_in_, names=names))
    last._read(X_held_out, table.y_held_out)
    rows = last._read(X, table.y)
    if table.units is not None:
        rows = rows.of_units(table.units)
    return (*publics, rows.public)


def event_of(fitted: Any) -> PrivacyEvent:
    """Return the event of a fitted run: all of its private steps."""
    events = [step.privacy_.event for step in private_steps(fitted, fitted=True).values()]
    return events[0] if len(events) == 1 else compose(events)


def assemble(head: list[tuple[str, Any]], fitted: Any, model: Any) -> Any:
    """Put the fitted parts together as ``model`` has them; the seeds of the noise stay behind."""
    for kept in (False, True):
        for step in private_steps(fitted, fitted=kept).values():
            step.set_params(random_state=None)
    if not isinstance(model, Pipeline):
        return fitted
    tail = fitted.steps if isinstance(fitted, Pipeline) else [(model.steps[-1][0], fitted)]
    model.steps = [*head, *tail]
    return model


def set_guarantee(model: Any, guarantee: PrivacyGuarantee) -> None:
    """Let the winner state the price of having been chosen, not of its own fit alone."""
    for step in private_steps(model, fitted=True).values():
        step.privacy_ = guarantee
