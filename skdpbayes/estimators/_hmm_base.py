"""What a fitted `PrivateHMM` can do: predictions, scores, draws, tables, all from the release."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from skdpbayes import models, randomness, samplers
from skdpbayes._validation import check_integer, check_is_fitted, validate_data
from skdpbayes.estimators._base import PrivateEstimator
from skdpbayes.estimators._hmm_chain import Draws
from skdpbayes.estimators._hmm_grid import (
    Grid,
    check_codes,
    check_grid_is_used,
    check_within,
    grid_of_cells,
    grid_of_rows,
    place_events,
    refuse_lengths,
)
from skdpbayes.estimators._hmm_release import (
    check_model,
    make_evidence,
    model_prior,
    run_chains,
)
from skdpbayes.exceptions import PrivacyWarning

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RELEASED", "SAMPLING", "SELECTION", "HiddenMarkovBase"]

# Predictions average over at most this many draws, spread over the chains.
_PREDICTIVE_DRAWS = 100

# Streams for what is drawn after the release. Under the seed of `fit` they would otherwise repeat
# the bits that made its noise; two numbers, because the chains of `fit` have keys of one.
SAMPLING, SELECTION = (1, 1), (1, 2)

# What a fit draws or computes from the events.
RELEASED = (
    "released_counts_",
    "states_",
    "state_proba_",
    "_start_draws",
    "_transition_draws",
    "_emission_draws",
)


class HiddenMarkovBase(PrivateEstimator):
    """Predictions and posterior summaries of a hidden Markov model of events."""

    n_states: int
    mechanism: str
    categories: int | Sequence[int] | None
    n_times: int | None
    group_labels: Sequence[Any] | None
    emission_posterior: str
    n_chains: int

    def predict_proba(
        self, X: Any, *, times: Any = None, groups: Any = None, lengths: Any = None
    ) -> np.ndarray:
        """Posterior state probabilities of the cell of each event of a new table.

        The new events form chains of their own, smoothed under the draws of the parameters and
        averaged over them. The result is not private for the new events.

        Parameters
        ----------
        X : array-like of shape (n_events, n_fields)
            Integer codes.
        times, groups, lengths
            As for `fit`; groups may be new, times may go beyond those of `fit`.

        Returns
        -------
        float array of shape (n_events, n_states)
        """
        counts, grid, steps = self._new_counts(X, times, groups, lengths)
        total = np.zeros((grid.n_steps, self._start_draws.shape[1]))
        chosen = self._predictive_draws()
        for i in chosen:
            log_like = models.count_log_likelihood(counts, self._emission_draws[i])
            total += models.smooth_states(
                log_like, grid.starts, self._start_draws[i], self._transition_draws[i]
            )
        return total[steps] / chosen.shape[0]

    def predict(
        self, X: Any, *, times: Any = None, groups: Any = None, lengths: Any = None
    ) -> np.ndarray:
        """Most probable state of the cell of each event of a new table.

        Parameters
        ----------
        X, times, groups, lengths
            As for `predict_proba`.

        Returns
        -------
        int array of shape (n_events,)
        """
        return self.predict_proba(X, times=times, groups=groups, lengths=lengths).argmax(axis=1)

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        groups: Any = None,
        lengths: Any = None,
    ) -> float:
        """Log-likelihood per event of a new table, averaged over the posterior.

        Parameters
        ----------
        X, times, groups, lengths
            As for `predict_proba`.
        y : None
            Ignored.

        Returns
        -------
        float
            :math:`n^{-1} \\log` of the mean over draws of the probability of all new events.
        """
        counts, grid, steps = self._new_counts(X, times, groups, lengths)
        chosen = self._predictive_draws()
        totals = [
            models.chain_log_likelihood(
                models.count_log_likelihood(counts, self._emission_draws[i]),
                grid.starts,
                self._start_draws[i],
                self._transition_draws[i],
            ).sum()
            for i in chosen
        ]
        return float((logsumexp(totals) - np.log(len(totals))) / max(steps.shape[0], 1))

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Draws of the parameters, states under common names.

        Parameters
        ----------
        n_samples : int, default=None
            None: the draws kept by `fit`. Fewer are chosen at random; more are drawn from the
            release by longer chains, free of cost (for ``mechanism="ops"`` there are no more than
            were paid for).
        random_state : int, SeedSequence, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        dict of arrays, first axis the draw
            ``start`` (S, K), ``transition`` (S, K, K), ``emission`` (S, K, n_values), the fields'
            values side by side: ``np.split(emission, np.cumsum(categories_)[:-1], axis=2)``.
        """
        check_is_fitted(self)
        start, transition, emission = (
            self._start_draws,
            self._transition_draws,
            self._emission_draws,
        )
        if n_samples is not None:
            wanted = check_integer("n_samples", n_samples, low=1)
            generator = randomness.derived_generator(random_state, *SAMPLING)
            if wanted > start.shape[0]:
                start, transition, emission = self._more_draws(wanted, generator)
            chosen = np.sort(generator.choice(start.shape[0], size=wanted, replace=False))
            start, transition, emission = start[chosen], transition[chosen], emission[chosen]
        return {
            "start": start.copy(),
            "transition": transition.copy(),
            "emission": emission.copy(),
        }

    def to_dataframe(self) -> pd.DataFrame:
        """Return the states of all cells as a table (needs pandas).

        Returns
        -------
        pandas.DataFrame
            Columns ``group`` and ``time`` (``chain`` and ``step`` where each row is a step),
            ``state`` and ``proba_0``, ``proba_1``, ...
        """
        check_is_fitted(self)
        import pandas as pd

        chain = np.repeat(np.arange(self.lengths_.shape[0]), self.lengths_)
        step = np.concatenate([np.arange(n) for n in self.lengths_])
        cells = self.n_times_ is not None
        columns: dict[str, Any] = {
            "group" if cells else "chain": self.group_labels_[chain] if cells else chain,
            "time" if cells else "step": step,
            "state": self.states_.ravel(),
        }
        proba = self.state_proba_.reshape(step.shape[0], -1)
        columns.update({f"proba_{k}": proba[:, k] for k in range(proba.shape[1])})
        return pd.DataFrame(columns)

    @property
    def start_(self) -> np.ndarray:
        """Posterior mean of the first state's probabilities."""
        check_is_fitted(self)
        return self._start_draws.mean(axis=0)

    @property
    def transition_(self) -> np.ndarray:
        """Posterior mean of the transition probabilities."""
        check_is_fitted(self)
        return self._transition_draws.mean(axis=0)

    @property
    def emission_(self) -> list[np.ndarray]:
        """Posterior means of the fields' probabilities, a table for each field."""
        check_is_fitted(self)
        mean = self._emission_draws.mean(axis=0)
        return np.split(mean, np.cumsum(self.categories_)[:-1], axis=1)

    def _place(
        self, n_events: int, times: Any, groups: Any, lengths: Any
    ) -> tuple[np.ndarray, Grid, tuple[int | None, np.ndarray | None]]:
        """Find the step of each event on the public grid."""
        check_grid_is_used(self.n_times, self.group_labels, times, groups)
        if times is None and groups is None:
            return np.arange(n_events), grid_of_rows(n_events, lengths), (None, None)
        refuse_lengths(lengths)
        steps, n_times, known = place_events(
            n_events, times, groups, self.n_times, self.group_labels
        )
        return steps, grid_of_cells(known.shape[0], n_times), (n_times, known)

    def _assumed_public(self, times: Any, groups: Any) -> tuple[str, ...]:
        """Name what is taken from the data and treated as public; warn about it."""
        assumed = [
            name
            for name, missing in (
                ("categories", self.categories is None),
                ("n_times", times is not None and self.n_times is None),
                ("group_labels", groups is not None and self.group_labels is None),
            )
            if missing
        ]
        if not assumed or self._non_private:
            return ()
        listed = ", ".join(assumed)
        warnings.warn(
            f"{listed} taken from the data and treated as public; pass what the code book says.",
            PrivacyWarning,
            stacklevel=3,
        )
        return (f"{listed} as they occur in the data are public",)

    def _grid(self) -> Grid:
        return Grid(self.lengths_, self.n_times_ is None)

    def _on_grid(self, values: np.ndarray) -> np.ndarray:
        """Shape steps as groups x times where there is such a grid."""
        if self.n_times_ is None:
            return values
        return values.reshape(self.lengths_.shape[0], self.n_times_, *values.shape[1:])

    def _released(self) -> np.ndarray:
        return self.released_counts_.reshape(int(self.lengths_.sum()), -1)

    def _evidence(self) -> Any:
        """Read the release under the law of its noise, as the fitted model does.

        Only fitted attributes count: parameters may have been changed since.
        """
        return make_evidence(
            self._released(),
            self._grid(),
            self.categories_,
            n_events=self.n_events_,
            noise=self.mechanism_,
            scale=self.noise_scale_,
            noise_aware=self._noise_aware,
        )

    def _learn(self, generator: np.random.Generator) -> None:
        """Run the chains on the release, under the model that the parameters describe."""
        self._prior = model_prior(self, self.categories_)
        self._noise_aware = self.emission_posterior == "noise_aware"
        evidence, grid = self._evidence(), self._grid()
        self._store(run_chains(self, self._released(), evidence, grid, self._prior, generator))

    def _store(self, draws: Draws) -> None:
        n_draws, n_states = draws.start.shape
        same = np.tile(np.arange(n_states), (n_draws, 1))
        proba = samplers.state_frequencies(draws.states, same)
        self._start_draws, self._transition_draws = draws.start, draws.transition
        self._emission_draws = draws.emission
        self.state_proba_ = self._on_grid(proba)
        self.states_ = self._on_grid(proba.argmax(axis=1))

    def _more_draws(
        self, wanted: int, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run longer chains on the release; the states keep the names they have."""
        self._check_release("sample_posterior with more draws than were released")
        check_model(self)
        prior = self._prior
        n_iter = -(-wanted // int(self.n_chains))
        draws = run_chains(
            self, self._released(), self._evidence(), self._grid(), prior, generator, n_iter
        )
        same = np.tile(np.arange(prior.n_states), (draws.start.shape[0], 1))
        states = samplers.state_frequencies(draws.states, same).argmax(axis=1)
        names = samplers.match_states(states, self.states_.ravel(), prior.n_states)
        draws = draws.renamed(np.tile(names, (draws.start.shape[0], 1)))
        return draws.start, draws.transition, draws.emission

    def _check_release(self, what: str) -> None:
        check_is_fitted(self)
        if not hasattr(self, "released_counts_"):
            raise ValueError(
                f"{what} needs released counts; mechanism='ops' releases "
                f"{self._start_draws.shape[0]} draw(s) only. Use mechanism='laplace' or 'gaussian'."
            )

    def _new_counts(
        self, X: Any, times: Any, groups: Any, lengths: Any
    ) -> tuple[np.ndarray, Grid, np.ndarray]:
        """Count a new table: counts of its steps, its grid, the step of each row."""
        check_is_fitted(self)
        codes = check_codes(validate_data(self, X, dtype="numeric", reset=False))
        check_within(codes, self.categories_)
        if times is None and groups is None:
            grid, steps = grid_of_rows(codes.shape[0], lengths), np.arange(codes.shape[0])
        else:
            refuse_lengths(lengths)
            steps, n_times, known = place_events(codes.shape[0], times, groups, None, None)
            grid = grid_of_cells(known.shape[0], n_times)
        counts = models.count_events(codes, steps, grid.n_steps, self.categories_)
        return counts.astype(np.float64), grid, steps

    def _predictive_draws(self) -> np.ndarray:
        n_draws = self._start_draws.shape[0]
        size = min(n_draws, _PREDICTIVE_DRAWS)
        return np.linspace(0, n_draws - 1, size).round().astype(np.int64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = False
        # A row's state depends on the rows around it, so that permuting or dropping rows changes
        # predictions; this is the tag that tells scikit-learn so.
        tags.non_deterministic = True
        return tags
