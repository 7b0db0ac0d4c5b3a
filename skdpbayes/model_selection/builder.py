"""The estimators that a private search runs, priced before they touch the data."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from skdpbayes import randomness
from skdpbayes.model_selection.parameters import PrivateParameters, learning_steps
from skdpbayes.model_selection.plan import SearchPlan, plan_search
from skdpbayes.model_selection.scoring import HoldOutScore
from skdpbayes.privacy.events import PrivacyEvent
from skdpbayes.privacy.guarantee import PrivacyGuarantee

__all__ = ["RunBuilder"]

# Each candidate is tried three times on average: a geometric number of runs then finds the best
# one with probability 3/4, a Poisson number with 95%.
RUNS_PER_CANDIDATE = 3


class RunBuilder:
    """Makes the estimator of each run from the plan."""

    def __init__(
        self,
        search: Any,
        names: PrivateParameters,
        candidates: list[dict[str, Any]],
        y: Any,
    ) -> None:
        self.search, self.names, self.candidates = search, names, candidates
        labels = names.value(search.estimator, "classes")
        # all runs share one label set, which is public: given, or that of all records
        self.labels = np.unique(np.asarray(y)) if labels is None else labels
        self._planned: dict[tuple[float, float], list[PrivacyGuarantee]] = {}

    def plan(self, data: Any, score: HoldOutScore) -> SearchPlan:
        """Calibrate a run's budget; fits stop where they would start to use the data."""
        search = self.search
        mean_runs = search.mean_runs
        if mean_runs is None:
            mean_runs = float(RUNS_PER_CANDIDATE * len(self.candidates))

        def probe(epsilon: float, delta: float) -> tuple[PrivacyEvent, ...]:
            if (epsilon, delta) not in self._planned:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the runs will repeat what concerns them
                    self._planned[epsilon, delta] = [
                        self.names.plan(self._build(i, epsilon, delta), *data)
                        for i in range(len(self.candidates))
                    ]
            return tuple(guarantee.event for guarantee in self._planned[epsilon, delta])

        return plan_search(
            probe,
            len(self.candidates),
            epsilon=float(search.epsilon),
            delta=float(search.delta),
            adjacency=self.names.value(search.estimator, "adjacency") or "replace_one",
            mean_runs=float(mean_runs),
            shape=float(search.shape),
            strategy=search.strategy,
            unit=score.unit,
        )

    def guarantee(self, plan: SearchPlan, score: HoldOutScore) -> PrivacyGuarantee:
        """State the claim of the whole search, with every condition that a run has.

        Which conditions a fit has may depend on its budget, so it is those at the planned one.
        """
        runs = self._planned.get((plan.run_epsilon, plan.run_delta), [])
        conditions = dict.fromkeys(c for run in runs for c in run.conditions)
        if math.isfinite(plan.run_epsilon):
            conditions.update(dict.fromkeys(learning_steps(self.search.estimator)))
            conditions.update(dict.fromkeys(score.conditions))
        return PrivacyGuarantee(
            epsilon=float(self.search.epsilon),
            delta=float(self.search.delta),
            adjacency=self.names.value(self.search.estimator, "adjacency") or "replace_one",
            mechanism=plan.words,
            event=plan.event,
            seeded=randomness.is_seeded(self.search.random_state),
            conditions=tuple(conditions),
        )

    def build(self, plan: SearchPlan, index: int, seed: int | None) -> Any:
        """Return the unfitted estimator of one run."""
        built = self._build(index, plan.run_epsilon, plan.run_delta)
        return self.names.reseed(built, seed)

    def _build(self, index: int, epsilon: float, delta: float) -> Any:
        return self.names.build(
            self.search.estimator,
            self.candidates[index],
            epsilon=epsilon,
            delta=delta,
            ledger=None,
            classes=self.labels,
        )
