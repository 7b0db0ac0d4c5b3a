"""The private step of an estimator, and what comes before it in a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skdpbayes.fitting.estimator import PrivateEstimator
from skdpbayes.model_selection.runs import Table
from skdpbayes.privacy.guarantee import PrivacyGuarantee
from skdpbayes.reporting.pipelines import learning_steps

__all__ = [
    "assemble",
    "build",
    "check_candidates",
    "conditions_of",
    "head_settings",
    "private_step",
    "run_head",
    "set_guarantee",
]

_REFUSED = {
    "epsilon": "a larger epsilon nearly always scores better, so the search would just buy the "
    "largest, and the price is that of the largest anyway",
    "delta": "the price is that of the largest delta anyway",
    "adjacency": "it says what the guarantee means",
    "ledger": "the search charges its ledger once, as a whole",
    "random_state": "runs must be independent of each other",
}


def private_step(model: Any) -> Any:
    """Return the model, or the last step of a pipeline, which alone must be private.

    Anything else that holds a private estimator may fit it several times, or on outputs of others.
    """
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    every = [name for name in model.get_params(deep=True) if name.rsplit("__")[-1] == "epsilon"]
    private = isinstance(last, PrivateEstimator) and hasattr(last, "classes")
    if len(every) != 1 or not private:
        raise TypeError(
            "estimator must be a private classifier of this package, or a pipeline in which the "
            f"last step is one and no other step is private; got {model!r}."
        )
    return last


def build(estimator: Any, candidate: Mapping[str, Any], **values: Any) -> Any:
    """Clone, set the candidate's parameters, then those of the private step that it has."""
    model = clone(estimator).set_params(**candidate)
    own = private_step(model)
    known = own.get_params(deep=False)
    own.set_params(**{name: value for name, value in values.items() if name in known})
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
    """Name, as conditions, the steps before the private one that may learn from the data."""
    head = Pipeline(model.steps[:-1]) if isinstance(model, Pipeline) else None
    return [
        f"the step {name!r} learns nothing from the data that is not public"
        for name, _, _ in learning_steps(head)
    ]


def head_settings(estimator: Any, candidate: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Return what a candidate sets before the private step; equal for equal heads.

    Values are known by identity: a grid repeats its objects, and arrays have no plain equality.
    """
    if not isinstance(estimator, Pipeline):
        return ()
    last = estimator.steps[-1][0]
    head = {k: v for k, v in candidate.items() if k.split("__", 1)[0] != last}
    return tuple(sorted((name, id(value)) for name, value in head.items()))


def run_head(model: Any, table: Table, seed: int | None) -> tuple[list[tuple[str, Any]], Table]:
    """Fit what comes before the private step; return its fitted steps and the rows it makes."""
    if not isinstance(model, Pipeline) or len(model.steps) == 1:
        return [], table
    head = model[:-1]
    seeds = [name for name in head.get_params(deep=True) if name.endswith("__random_state")]
    head.set_params(**dict.fromkeys(seeds, seed))
    X = head.fit_transform(table.X, table.y)
    return head.steps, table._replace(X=X, X_held_out=head.transform(table.X_held_out))


def assemble(model: Any, head: list[tuple[str, Any]], fitted: Any) -> Any:
    """Put the fitted parts together; the seed of the noise stays behind."""
    fitted.set_params(random_state=None)
    if not isinstance(model, Pipeline):
        return fitted
    model.steps = [*head, (model.steps[-1][0], fitted)]
    return model


def set_guarantee(model: Any, guarantee: PrivacyGuarantee) -> None:
    """Let the winner state the price of having been chosen, not of its own fit alone."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if "privacy_" in vars(last):
        last.privacy_ = guarantee
