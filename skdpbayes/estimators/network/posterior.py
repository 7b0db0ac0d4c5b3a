"""Released states of a private chain on a network: predictions and draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdpbayes import models
from skdpbayes.estimators.chain.run import choose_draws
from skdpbayes.estimators.linear.posterior import mean_probabilities, mean_scores
from skdpbayes.estimators.network.potential import network_inputs
from skdpbayes.fitting.bounds import Bound


@dataclass(frozen=True, eq=False)
class NetworkPosterior:
    """The average of a chain's tail, and some of its states to predict with."""

    mean: np.ndarray
    states: np.ndarray
    """Parameters of every kept state, (S, p), single precision."""
    sizes: tuple[int, ...]
    activation: str
    data_norm: float
    bound: Bound
    temperature: float | None
    """None where only the sampler's theory says what it is."""
    step_size: float

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return self.states.shape[0] * self.sizes[-1] + 2 * sum(self.sizes)

    @property
    def missing(self) -> dict[str, str]:
        """Weights of a network mean nothing by themselves."""
        return {"interval": "single weights of a network have no meaning of their own."}

    def attributes(self) -> dict[str, Any]:
        """Return the average of the tail, an array per layer, and how the chain moved."""
        layers = models.network_layers(self.mean, self.sizes)
        shown = {
            "coefs_": [weights.copy() for weights, _ in layers],
            "intercepts_": [biases.copy() for _, biases in layers],
            "step_size_": self.step_size,
        }
        return shown if self.temperature is None else {**shown, "temperature_": self.temperature}

    def _logits(self, X: Any) -> np.ndarray:
        """Logits of every state, shape (S, n, K)."""
        inputs = network_inputs(self.bound(X), self.data_norm)
        # in double precision, so that a row's prediction does not depend on the rows beside it
        layers = [models.network_layers(s.astype(np.float64), self.sizes) for s in self.states]
        return np.stack([models.network_logits(of, inputs, self.activation) for of in layers])

    def decision(self, X: Any) -> np.ndarray:
        """Logits or logarithms of the probabilities averaged over the states."""
        return mean_scores(self._logits(X))

    def probabilities(self, X: Any) -> np.ndarray:
        """Probabilities averaged over the states."""
        return mean_probabilities(self._logits(X))

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return states of the chain, evenly spaced or chosen at random, an array per layer."""
        chosen = choose_draws(self.states.shape[0], n_samples, random_state)
        layers = models.network_layers(self.states[chosen], self.sizes)
        draws = {f"coef_{i}": weights for i, (weights, _) in enumerate(layers)}
        return draws | {f"intercept_{i}": biases for i, (_, biases) in enumerate(layers)}
