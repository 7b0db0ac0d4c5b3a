"""Choose hyper-parameters under differential privacy.

Plain ``GridSearchCV`` over a private estimator costs the composition of all its fits (give the
estimator a ledger and every fold is charged). The searches here release the winner only and are
priced as a whole.
"""

from __future__ import annotations

from skdpbayes._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    names={
        "plan": "SearchPlan plan_search",
        "search": "PrivateGridSearchCV PrivateRandomizedSearchCV",
    },
)
