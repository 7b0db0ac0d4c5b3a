"""The contract that every estimator keeps; an estimator joins with one entry in ``CASES``.

``tests/estimators/test_contract.py`` runs each case through scikit-learn's own checks, the front
ends users meet (clone, pickle, pandas, Pipeline, GridSearchCV with a ledger) and the privacy rules
that do not depend on the mechanism (nothing data-dependent is stored, the docstring states the
claim).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def linear_data(n_samples: int = 400, n_features: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """Two classes with a linear boundary; rows have norm at most 1, so no row is clipped."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_samples, n_features)) / np.sqrt(n_features)
    logits = 6.0 * X[:, 0] - 3.0 * X[:, 1] + 0.5
    y = np.where(rng.random(n_samples) < 1 / (1 + np.exp(-logits)), "yes", "no")
    return X, y


@dataclass(frozen=True)
class Case:
    """How one estimator is put through the contract."""

    make: Callable[..., BaseEstimator]
    """The class; called with keyword parameters."""
    released: frozenset[str]
    """Fitted attributes that are noisy releases: the only ones that may depend on the data."""
    data: Callable[[], tuple[Any, Any]] = linear_data
    parity: Callable[[BaseEstimator, Any, Any], None] | None = None
    """Checks a fit at epsilon=inf against the non-private model: (fitted, X, y)."""
    params: dict[str, Any] = field(default_factory=dict)
    """Parameters of every fit here, e.g. the public label set."""

    @property
    def name(self) -> str:
        return self.make.__name__

    def build(self, **params: Any) -> BaseEstimator:
        """Return the estimator with the case's parameters and ``params``."""
        return self.make(**{**self.params, **params})


CASES: list[Case] = []
