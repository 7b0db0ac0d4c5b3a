"""Find and set the privacy parameters of an estimator, also inside a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sklearn.base import clone
from sklearn.utils import get_tags

from skdpbayes.privacy.guarantee import PrivacyGuarantee

__all__ = ["PrivateParameters", "check_candidates", "learning_steps", "set_guarantee"]

_REFUSED = {
    "epsilon": "a larger epsilon nearly always scores better, so the search would just buy the "
    "largest, and the price is that of the largest anyway",
    "delta": "the price is that of the largest delta anyway",
    "adjacency": "it says what the guarantee means",
    "ledger": "the search charges its ledger once, as a whole",
    "random_state": "runs must be independent of each other",
}


class _Planned(Exception):
    """Carries the guarantee of a fit out of it, before the fit touches the data."""

    def __init__(self, guarantee: PrivacyGuarantee) -> None:
        super().__init__("planned")
        self.guarantee = guarantee


class _PlanningLedger:
    """Stands in for a ledger: a fit reserves its cost here before it looks at the data."""

    def reserve(self, guarantee: PrivacyGuarantee, label: str = "") -> int:
        """Stop the fit and hand its guarantee over."""
        raise _Planned(guarantee)


class PrivateParameters:
    """The names of the privacy parameters of `estimator`, such as ``model__epsilon``."""

    def __init__(self, estimator: Any) -> None:
        names = list(estimator.get_params(deep=True))
        found = [name for name in names if name.rsplit("__", 1)[-1] == "epsilon"]
        prefixes = [name[: -len("epsilon")] for name in found]
        if len(found) != 1 or f"{prefixes[0]}ledger" not in names:
            raise TypeError(
                "estimator must be, or end in, one private estimator with parameters epsilon and "
                f"ledger; got {estimator!r} with {len(found)} parameter(s) named epsilon."
            )
        self.prefix = prefixes[0]
        self.seeds = [name for name in names if name.rsplit("__", 1)[-1] == "random_state"]
        self.names = frozenset(names)

    def build(self, estimator: Any, candidate: Mapping[str, Any], **values: Any) -> Any:
        """Clone, set the candidate's parameters, then privacy parameters by their short names."""
        own = {self.prefix + name: value for name, value in values.items()}
        known = {name: value for name, value in own.items() if name in self.names}
        return clone(estimator).set_params(**candidate).set_params(**known)

    def reseed(self, built: Any, seed: int | None) -> Any:
        """Give every part fresh randomness: runs must be independent."""
        return built.set_params(**dict.fromkeys(self.seeds, seed)) if self.seeds else built

    def value(self, estimator: Any, name: str) -> Any:
        """Return a privacy parameter by its short name, None where there is none."""
        return estimator.get_params(deep=True).get(self.prefix + name)

    def plan(self, built: Any, X: Any, y: Any) -> PrivacyGuarantee:
        """Return what a fit will cost: it stops where it would reserve, before it uses the data."""
        built.set_params(**{f"{self.prefix}ledger": _PlanningLedger()})
        try:
            built.fit(X, y)
        except _Planned as planned:
            return planned.guarantee
        raise TypeError(
            f"{built!r} did not reserve its cost in its ledger, so it cannot be priced before it "
            "touches the data."
        )


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


def learning_steps(estimator: Any) -> list[str]:
    """Name, as conditions, the steps before the private one that may learn from the data.

    Steps of this package, and steps that need no fit, look at public numbers only.
    """
    steps = list(getattr(estimator, "steps", ()))[:-1]
    return [
        f"the step {name!r} learns nothing from the data that is not public"
        for name, step in steps
        if step not in (None, "passthrough")
        and not type(step).__module__.startswith("skdpbayes.")
        and get_tags(step).requires_fit
    ]


def set_guarantee(fitted: Any, guarantee: PrivacyGuarantee) -> None:
    """Let the winner state the price of having been chosen, not of its own fit alone."""
    steps: Sequence[Any] = [fitted, *(step for _, step in getattr(fitted, "steps", ()))]
    for step in steps:
        if "privacy_" in vars(step):
            step.privacy_ = guarantee
