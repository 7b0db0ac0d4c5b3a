"""What a released naive Bayes model can do: predict, draw, merge. No data are needed here."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdpbayes import randomness
from skdpbayes._validation import check_integer, check_is_fitted, validate_data
from skdpbayes.estimators import _naive_bayes_posterior as posterior_tools
from skdpbayes.estimators._base import PrivateClassifier
from skdpbayes.estimators._naive_bayes_posterior import Latent, ScoreTables
from skdpbayes.privacy.events import ApproximateDP, PrivacyEvent, PureDP

if TYPE_CHECKING:
    from typing import Self

    from skdpbayes.models.naive_bayes import NaiveBayesLayout

__all__ = ["ReleasedNaiveBayes"]

DISJOINT = (
    "no record is in more than one of the merged releases, and which one does not depend on its "
    "values"
)


def _can_be_updated(estimator: ReleasedNaiveBayes) -> bool:
    """Tell whether batches can be added; raise with the reason if not."""
    if estimator.mechanism == "ops":
        raise AttributeError(
            "mechanism='ops' releases a posterior draw, which cannot be updated by another batch. "
            "Use mechanism='laplace' or 'gaussian'."
        )
    return True


class ReleasedNaiveBayes(PrivateClassifier):
    """Prediction, posterior draws and merging, computed from released statistics alone."""

    alpha: float
    binarize: float | None
    classes: Any
    mechanism: str
    n_draws: int
    posterior: str
    var_smoothing: float
    statistics_: np.ndarray
    noise_: tuple[tuple[str, float], ...]
    n_records_: int
    classes_: np.ndarray
    _layout: NaiveBayesLayout
    _exact_moments: np.ndarray
    _largest_variance: float

    def _forget(self) -> None:
        """Drop what an earlier fit left and this one may not replace: it has another price."""
        for name in ("statistics_", "noise_", "_exact_moments", "_largest_variance"):
            self.__dict__.pop(name, None)

    def _latent(self, generator: np.random.Generator, n_draws: int) -> Latent:
        non_private = np.isinf(self.privacy_.epsilon)
        if not non_private and self.posterior == "noise_aware":
            return posterior_tools.draw_latent(
                self._layout,
                self.statistics_,
                self.noise_,
                self.n_records_,
                float(self.alpha),
                generator,
                n_draws,
            )
        latent = posterior_tools.naive_latent(self._layout, self.statistics_, self.noise_[0][0])
        if non_private and self._layout.moment_columns:
            latent = replace(latent, moments=self._exact_moments[None])
        return latent

    def _learn(self, generator: np.random.Generator) -> None:
        """Compute everything else from the noisy statistics."""
        latent = self._latent(generator, self.n_draws)
        added: Any = posterior_tools.smallest_variance(self._layout, self.var_smoothing)
        if np.isinf(self.privacy_.epsilon) and self._layout.moment_columns:
            added = self.var_smoothing * self._largest_variance  # as scikit-learn smooths
        tables = ScoreTables.from_latent(self._layout, latent, float(self.alpha), added)
        self._keep_tables(tables, latent.totals.mean(axis=0))

    def _keep_tables(self, tables: ScoreTables, class_count: np.ndarray) -> None:
        self.class_count_ = class_count
        self.class_log_prior_ = np.log(np.exp(tables.classes).mean(axis=1))
        self._log_classes = tables.classes
        self._log_cells = tables.cells
        self._log_tokens = tables.tokens
        self._means = tables.means
        self._variances = tables.variances

    @property
    def _threshold(self) -> float:
        return 0.5 if self.binarize is None else float(self.binarize)

    @property
    def _takes_sparse(self) -> bool:
        """Whether zeros may stay implicit: one distribution for which they are the default."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class, averaged over the draws of the latent statistics.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = validate_data(
            self,
            X,
            accept_sparse="csr" if self._takes_sparse else False,
            dtype=[np.float64, np.int64],
            order="C",
            accept_large_sparse=False,
            reset=False,
        )
        tables = ScoreTables(
            self._log_classes, self._log_cells, self._log_tokens, self._means, self._variances
        )
        return posterior_tools.score_rows(self._layout, tables, X, self._threshold)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of ``predict_proba``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(np.clip(self.predict_proba(X), np.finfo(float).tiny, None))

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds (two classes) or log-probabilities of the posterior predictive.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        scores = self.predict_log_proba(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Draw the model's parameters from their posterior given the noisy statistics.

        The draws are independent, free and unlimited: they are computed from what was released.
        Only ``mechanism="ops"`` has just the one draw that was paid for.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None gives ``n_draws`` (1 for "ops").
        random_state : int, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        dict of ndarrays, draw axis first
            ``class_prior`` (S, K); for the columns of each distribution, in order,
            ``bernoulli_prob`` (S, K, columns), ``category_prob`` (S, K, columns, values; short
            columns are padded with zeros), ``token_prob`` (S, K, columns), ``mean`` and
            ``variance`` (S, K, columns).
        """
        check_is_fitted(self)
        if not hasattr(self, "statistics_"):
            return self._only_draw(n_samples)
        if n_samples is None:
            n_samples = self.n_draws
        n_samples = check_integer("n_samples", n_samples, low=1)
        generator = randomness.derived_generator(random_state, 1)
        latent = self._latent(generator, n_samples)
        if latent.totals.shape[0] != n_samples:  # known or taken as known: the same in every draw
            parts = (latent.totals, latent.cells, latent.tokens, latent.moments)
            latent = Latent(*(np.repeat(part, n_samples, axis=0) for part in parts))
        return posterior_tools.draw_parameters(self._layout, latent, float(self.alpha), generator)

    def _only_draw(self, n_samples: int | None) -> dict[str, np.ndarray]:
        if n_samples not in (None, 1):
            raise ValueError(
                f"n_samples={n_samples!r}: mechanism='ops' released a single posterior draw, and "
                "more would cost more privacy. Use mechanism='laplace' for unlimited draws."
            )
        draws = {"class_prior": np.exp(self._log_classes.T)}
        cells = np.exp(self._log_cells.transpose(2, 1, 0))
        draws |= posterior_tools.arrange_tables(self._layout, self._layout.tables(cells))
        if self._layout.token_columns:
            draws["token_prob"] = np.exp(self._log_tokens.transpose(2, 1, 0))
        return draws

    def merge(self, *others: Self) -> Self:
        """Add the noisy statistics of models that were fitted on disjoint sets of records.

        Every record is in one release only, so the merged model costs a record no more than the
        release it is in (parallel composition): epsilon and delta are the largest of the parts.
        That needs shards that were formed without looking at the records: where a region or a
        label decides on the shard, a replaced record may leave one shard and enter another, which
        costs both.
        The noises add up, and the noise-aware posterior knows the law of their sum.

        Parameters
        ----------
        *others : LaplaceNaiveBayes
            Fitted with the same label set, columns and public bounds, and the same law of noise.

        Returns
        -------
        LaplaceNaiveBayes
            A new fitted estimator with the parameters of this one; ``privacy_.conditions`` says
            that the records have to be disjoint.
        """
        parts = (self, *others)
        _check_mergeable(parts)
        merged = type(self)(**self.get_params(deep=False))
        merged.classes_ = self.classes_
        merged.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            merged.feature_names_in_ = self.feature_names_in_
        merged._layout = self._layout
        merged.statistics_ = np.sum([part.statistics_ for part in parts], axis=0)
        merged.noise_ = tuple(noise for part in parts for noise in part.noise_)
        merged.n_records_ = sum(part.n_records_ for part in parts)
        merged.privacy_ = _parallel(parts)
        purpose = len(merged.noise_) + 1
        merged._learn(randomness.derived_generator(self.random_state, purpose))
        return merged

    @available_if(_can_be_updated)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from another batch of records that no earlier batch contains.

        The batch is released under its own noise with the full ``epsilon`` and merged with what
        was released before, see ``merge``. Not available for ``mechanism="ops"``, whose draw
        cannot be updated. The price holds for disjoint batches only, which
        ``privacy_.conditions`` states; the ledger cannot know and is charged for every batch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The batch.
        y : array-like of shape (n_samples,)
            Its labels.
        classes : array-like or None, default=None
            The public label set; needed in the first call unless the parameter of that name is
            set, since a batch may lack a label.

        Returns
        -------
        LaplaceNaiveBayes
            This estimator.
        """
        batches = len(self.noise_) if hasattr(self, "noise_") else 0
        labels = self.classes if self.classes is not None else classes
        if batches:
            validate_data(self, X, reset=False, skip_check_array=True)  # same columns as before
            labels = self.classes_
        elif labels is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        part = type(self)(**{**self.get_params(deep=False), "classes": labels})
        if batches:  # the same seed would give every batch the same noise, which then cancels
            part.random_state = randomness.derived_state(self.random_state, 0, batches)
        part.fit(X, y)
        fitted = self.merge(part) if batches else part
        for name, value in vars(fitted).items():
            if name not in self.get_params(deep=False):
                setattr(self, name, value)
        return self


def _check_mergeable(parts: tuple[ReleasedNaiveBayes, ...]) -> None:
    first = parts[0]
    for part in parts:
        if type(part) is not type(first):
            raise TypeError(f"merge needs fitted {type(first).__name__} models; got {part!r}.")
        check_is_fitted(part)
        if not hasattr(part, "statistics_"):
            raise ValueError(
                "merge needs models with noisy statistics, and mechanism='ops' releases a draw. "
                "Fit with mechanism='laplace' or 'gaussian'."
            )
    seeds = [seed for part in parts if (seed := _seed_of(part.random_state)) is not None]
    if len(set(seeds)) < len(seeds) or len({id(part) for part in parts}) < len(parts):
        raise ValueError(
            f"random_state must differ between merged models, and no model be there twice; got "
            f"{[part.random_state for part in parts]}. Equal seeds give equal noise, and the "
            "difference of two releases would show the data."
        )
    for part in parts:
        if np.isinf(part.privacy_.epsilon) and part._layout.moment_columns:
            raise ValueError(
                "merge at epsilon=inf is not available for gaussian columns: only noisy sums are "
                "kept in a form that can be added."
            )
        same = (
            np.array_equal(part.classes_, first.classes_)
            and part._layout == first._layout
            and {law for law, _ in part.noise_} == {law for law, _ in first.noise_}
            # What a part was fitted with: its parameters may have been changed since.
            and part.privacy_.adjacency == first.privacy_.adjacency
            and np.isinf(part.privacy_.epsilon) == np.isinf(first.privacy_.epsilon)
        )
        if not same:
            raise ValueError(
                "merge needs models fitted with equal classes, distribution, categories, bounds, "
                "max_total, adjacency and law of noise (mechanism), all private or none; pass "
                "classes=[...] so that every part knows all labels."
            )


def _seed_of(random_state: Any) -> tuple[Any, ...] | None:
    """Return what decides on the noise if it can be told; None for states that move on."""
    if isinstance(random_state, numbers.Integral):
        return int(random_state), ()
    if isinstance(random_state, np.random.SeedSequence):
        entropy: Any = random_state.entropy
        if not isinstance(entropy, numbers.Integral):
            entropy = tuple(int(word) for word in entropy)
        return entropy, random_state.spawn_key
    return None


def _parallel(parts: tuple[ReleasedNaiveBayes, ...]) -> Any:
    """State the guarantee of releases from disjoint records: the largest of the parts."""
    claims = [part.privacy_ for part in parts]
    epsilon = max(claim.epsilon for claim in claims)
    delta = max(claim.delta for claim in claims)
    event: PrivacyEvent = claims[0].event
    if any(claim.event != event for claim in claims):
        event = ApproximateDP(epsilon, delta) if delta > 0.0 else PureDP(epsilon)
    conditions = [text for claim in claims for text in claim.conditions]
    return replace(
        claims[0],
        epsilon=epsilon,
        delta=delta,
        event=event,
        seeded=any(claim.seeded for claim in claims),
        conditions=tuple(dict.fromkeys([*conditions, DISJOINT])),
    )
