"""Released states of a private chain on a torch module: predictions and draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes.estimators.chain.run import choose_draws
from skdpbayes.estimators.linear.posterior import mean_probabilities, mean_scores
from skdpbayes.estimators.torch.function import ModuleFunction


@dataclass(frozen=True, eq=False)
class ModulePosterior:
    """The average of a chain's tail, and some of its states to predict with."""

    mean: np.ndarray
    states: np.ndarray
    """Parameters of every kept state, (S, p), single precision."""
    function: ModuleFunction
    temperature: float | None
    """None where only the sampler's theory says what it is."""
    step_size: float

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return self.states.shape[0] * self.function.n_outputs + 2 * int(
            np.prod(self.function.input_shape)
        )

    @property
    def missing(self) -> dict[str, str]:
        """Weights of a network mean nothing by themselves."""
        return {"interval": "single weights of a network have no meaning of their own."}

    def attributes(self) -> dict[str, Any]:
        """Return the module with the average of the tail, and how the chain moved."""
        shown = {
            "module_": self.function.with_weights(self.mean),
            "step_size_": self.step_size,
        }
        return shown if self.temperature is None else {**shown, "temperature_": self.temperature}

    def _logits(self, X: Any) -> np.ndarray:
        """Logits of every state, shape (S, n, K)."""
        return np.stack([self.function.logits(state, X) for state in self.states])

    def decision(self, X: Any) -> np.ndarray:
        """Logits or logarithms of the probabilities averaged over the states."""
        return mean_scores(self._logits(X))

    def probabilities(self, X: Any) -> np.ndarray:
        """Probabilities averaged over the states."""
        return mean_probabilities(self._logits(X))

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return states of the chain, evenly spaced or chosen at random, an array per parameter."""
        chosen = choose_draws(self.states.shape[0], n_samples, random_state)
        return self.function.split(self.states[chosen])
