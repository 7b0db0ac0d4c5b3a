"""Naive Bayes from one private release of sufficient statistics."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from skdpbayes import randomness
from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_is_fitted,
    check_real,
    validate_data,
)
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.naive_bayes.counts import CountsPlan, add_noise, plan_noise
from skdpbayes.estimators.naive_bayes.layout import (
    bound_of,
    build_layout,
    categories_from,
    check_rows,
    column_kinds,
    count_block,
    highest_codes,
    refuse_missing,
    refuse_text,
)
from skdpbayes.estimators.naive_bayes.ops import DrawPlan, draw_probabilities, plan_draw
from skdpbayes.estimators.naive_bayes.posterior import Reading, Release, TablesPosterior
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.chunks import Labels, example_of, is_chunked, read_chunks
from skdpbayes.fitting.estimator import NOT_PRIVATE, offers
from skdpbayes.fitting.frames import with_names
from skdpbayes.fitting.merging import Mergeable, check_seeds, parallel_claim
from skdpbayes.fitting.records import Public, Records, read_table
from skdpbayes.fitting.units import WHOLE
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.guarantee import Adjacency

MECHANISMS = ("auto", "laplace", "gaussian", "ops")
POSTERIORS = ("noise_aware", "naive")
FROM_DATA = "the numbers of categories, which were taken from the data, are public"
# Parameters that concern some models only, with their defaults and whom they concern
COLUMN_PARAMETERS = (
    ("binarize", "auto", "bernoulli"),
    ("categories", None, "categorical"),
    ("missing", False, "categorical"),
    ("max_total", None, "multinomial"),
    ("bounds", None, "gaussian"),
    ("var_smoothing", 1e-9, "gaussian"),
)
NOISE_PARAMETERS: tuple[tuple[str, Any], ...] = (
    ("posterior", "noise_aware"),
    ("predictive_draws", 100),
)
DRAW_PARAMETERS: tuple[tuple[str, Any], ...] = (("min_probability", 0.1),)


def _is_set(value: Any, default: Any) -> bool:
    if isinstance(value, (str, numbers.Real)):
        return bool(value != default)
    return value is not default


def _can_be_updated(estimator: LaplaceNaiveBayes) -> bool:
    """Tell whether batches can be added; raise with the reason if not."""
    if estimator.mechanism == "ops":
        raise AttributeError(
            "mechanism='ops' releases a posterior draw, which cannot be updated by another batch. "
            "Use mechanism='laplace' or 'gaussian'."
        )
    return True


class LaplaceNaiveBayes(Mergeable, PrivateClassifier):
    r"""Naive Bayes classifier learned from one noisy release of its sufficient statistics.

    Features are independent given the class, so the joint density

    .. math::
        p(y = c, x \mid \pi, \theta) = \pi_c \prod_j p(x_j \mid \theta_{cj})

    needs the data only through class-by-value counts (Bernoulli, categorical), token counts
    (multinomial) or sums and sums of squares (Gaussian). Exact integer noise is added to all of
    them at once; everything else is computed from the noisy statistics. By default the noise is
    part of the model: the true counts are latent, drawn from their posterior given the noisy
    ones, and ``predict_proba`` averages over them. Columns that depend on each other given the
    class make its probabilities too close to 0 and 1; the user guide has a remedy.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the exchange of
    one record, features and label, against another one (``adjacency="replace_one"``) or against a
    null record that adds nothing (``"zero_out"``); the number of records is public in both. With
    ``fit(X, y, units=ids)`` all records with one id are exchanged together, and the number of
    persons is public instead.
    Released are the noisy statistics ``statistics_``; all other attributes, predictions and any
    number of posterior draws are computed from them and cost nothing more. The label set,
    ``categories``, ``bounds`` and ``max_total`` are assumed public: values outside the bounds are
    clipped, and labels or categories outside their sets are an error. With ``delta=0`` and the
    default mechanism the claim is pure epsilon. It is unconditional: statistics are integers, and
    the noise is sampled exactly in integer arithmetic. Exceptions are named in
    ``privacy_.conditions`` (``categories=None``, ``mechanism="ops"`` with a table of more than 512
    values, ``partial_fit`` and ``merge``). An integer ``random_state`` makes the noise
    reproducible: the guarantee then needs the seed to stay secret. Every further ``fit`` on the
    same records costs its epsilon again, also within cross-validation; pass a ``ledger`` to add it
    up.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss, > 0; smaller is more private. ``np.inf`` switches the noise off and gives
        scikit-learn's BernoulliNB, CategoricalNB, MultinomialNB or GaussianNB.
    delta : float, default=0.0
        In [0, 1). Positive values allow Gaussian noise, which is smaller from about four features
        on.
    distribution : str, list of str or mapping, default="bernoulli"
        "bernoulli", "categorical", "multinomial" or "gaussian" for all columns, a list with one of
        them for each column, or a mapping from column names. Multinomial columns form one block of
        counts.
    mechanism : {"auto", "laplace", "gaussian", "ops"}, default="auto"
        "laplace": discrete Laplace noise. "gaussian": discrete Gaussian noise, needs ``delta > 0``.
        "auto": whichever of the two has the smaller deviation, decided from public numbers. "ops":
        no noise, but one draw from the posterior at a raised temperature with probabilities bounded
        below (``min_probability``); tables and tokens only.
    posterior : {"noise_aware", "naive"}, default="noise_aware"
        "naive" takes noisy counts for true ones, which makes credible intervals too narrow.
    alpha : float, default=1.0
        Dirichlet parameter (additive smoothing) of each value's probability, > 0.
    binarize : "auto", float or None, default="auto"
        Bernoulli columns are 1 above this threshold; None says that they are 0 or 1 already.
        "auto" is 0.0, with a warning where dense columns hold numbers and not booleans: nobody
        said that 0 is where they should be cut.
    categories : int, sequence of int, mapping or None, default=None
        Public number of categories of the categorical columns, coded 0, 1, ...: one for all, one
        per feature, one per categorical column, or a mapping from column names. None takes them
        from the data, with a warning and an entry in ``privacy_.conditions``.
    missing : bool, default=False
        Whether categorical columns may lack values (NaN). How many records of a class lack one is
        then counted as one more value, which costs no more; probabilities are those of the values
        that were observed, and a missing value says nothing about the class of its row. False
        refuses missing values, as all other columns do.
    bounds : (low, high), sequence of pairs, mapping or None, default=None
        Public bounds of the Gaussian columns, as ``categories``; required for them. Values outside
        are clipped, in ``fit`` and in predictions alike.
    max_total : int or None, default=None
        Public bound on the sum of a row's multinomial counts; required for them. Longer rows are
        scaled down to it in ``fit``; predictions use all of their counts. The noise grows in
        proportion.
    var_smoothing : float, default=1e-9
        Share of the largest possible variance, from ``bounds``, that is added to every variance.
    min_probability : float, default=0.1
        For ``mechanism="ops"``: smallest probability as a share of the uniform one, in (0, 1).
        Smaller values cost more temperature.
    predictive_draws : int, default=100
        Draws of the latent statistics that ``predict_proba`` averages over.
    classes : array-like or None, default=None
        The public label set. None takes the labels in ``y``, which are then treated as public.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects.
    random_state : int, RandomState, Generator or None, default=None
        None: a secure generator seeded by the operating system. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it touches the data.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        The claim, public.
    classes_ : ndarray of shape (n_classes,)
        The label set, public.
    statistics_ : int64 ndarray of shape (n_classes, n_statistics)
        The noisy statistics, released: tables side by side, class counts if there is no table,
        tokens, moments (zeros at ``epsilon=inf``). Not there with ``mechanism="ops"``.
    class_count_ : ndarray of shape (n_classes,)
        Posterior mean of the number of records of each class, released; of persons with ``units``.
    class_log_prior_ : ndarray of shape (n_classes,)
        Logarithm of the estimated class probabilities, released.
    noise_ : tuple of Noise
        Law and scale of the noise on a count, one per merged release, public.
    n_records_ : int
        Number of records, or of persons with ``units``, public.
    n_features_in_ : int
        Number of columns, public.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns where the input has them, public.

    References
    ----------
    .. [1] J. Foulds, J. Geumlek, M. Welling, K. Chaudhuri. On the theory and practice of
       privacy-preserving Bayesian data analysis. UAI 2016. Laplace mechanism (section 3.1),
       Equation 15 for ``mechanism="ops"``.
    .. [2] G. Bernstein, D. Sheldon. Differentially private Bayesian inference for exponential
       families. NeurIPS 2018.
    .. [3] C. Canonne, G. Kamath, T. Steinke. The discrete Gaussian for differential privacy.
       NeurIPS 2020. Theorem 14.
    .. [4] A. Ghosh, T. Roughgarden, M. Sundararajan. Universally utility-maximizing privacy
       mechanisms. STOC 2009.

    Examples
    --------
    >>> from skdpbayes import LaplaceNaiveBayes, datasets
    >>> census = datasets.make_census(2000, encoding="bins", random_state=0)
    >>> model = LaplaceNaiveBayes(
    ...     epsilon=1.0,
    ...     distribution="categorical",
    ...     categories=census.n_categories,
    ...     random_state=0,
    ... ).fit(census.data, census.target)
    >>> print(model.privacy_)
    1-differentially private when one record is replaced by another (replace_one), by exact
    discrete Laplace noise on the joint sufficient statistics. The noise is seeded: ...
    >>> model.score(census.data, census.target) > 0.7
    True
    >>> model.sample_posterior(500, random_state=1)["category_prob"].shape
    (500, 2, 8, 7)
    """

    _table_checks: ClassVar[dict[str, Any]] = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.int64, np.float32],
        "order": "C",
        "accept_large_sparse": False,
        "ensure_all_finite": "allow-nan",  # NaN is refused where the layout does not expect it
    }
    _reads_chunks = True
    _takes_units = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        distribution: Any = "bernoulli",
        mechanism: str = "auto",
        posterior: str = "noise_aware",
        alpha: float = 1.0,
        binarize: float | str | None = "auto",
        categories: Any = None,
        missing: bool = False,
        bounds: Any = None,
        max_total: int | None = None,
        var_smoothing: float = 1e-9,
        min_probability: float = 0.1,
        predictive_draws: int = 100,
        classes: Any = None,
        adjacency: Adjacency = "replace_one",
        random_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.distribution = distribution
        self.mechanism = mechanism
        self.posterior = posterior
        self.alpha = alpha
        self.binarize = binarize
        self.categories = categories
        self.missing = missing
        self.bounds = bounds
        self.max_total = max_total
        self.var_smoothing = var_smoothing
        self.min_probability = min_probability
        self.predictive_draws = predictive_draws
        self.classes = classes
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger

    def _expected(self, public: Public, plan: Any) -> dict[str, float]:
        counts = isinstance(plan, CountsPlan) and public.unit == "record"
        return {"count_error": plan.noise.deviation / public.n} if counts else {}

    def _read(self, X: Any, y: Any) -> Any:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        rows: Any
        if is_chunked(X) or is_chunked(y):
            labels = Labels(self.classes, type(self).__name__)
            how = {"bound": Bound(), "target": labels, "look": self._look, **self._table_checks}
            rows = read_chunks(self, X, y, **how)
        else:
            try:
                rows = read_table(
                    self, X, y, bound=Bound(), classes=self.classes, **self._table_checks
                )
            except ValueError as error:
                refuse_text(X, error)
                raise
        public = rows.public
        kinds = column_kinds(self.distribution, (public.n_features, public.names))
        categories: Any = self.categories
        conditions: tuple[str, ...] = ()
        in_memory = isinstance(rows, Records)
        if in_memory:
            refuse_missing(rows.X, self._may_miss(kinds))
        learned = categories is None and "categorical" in kinds
        if learned:
            warnings.warn(
                "categories=None takes the numbers of categories from the data, which reveals the "
                "largest code of each column. Pass the public counts as categories.",
                PrivacyWarning,
                stacklevel=4,
            )
            found = rows.survey(partial(highest_codes, kinds=kinds)) if in_memory else rows.seen
            categories, conditions = categories_from(found), (FROM_DATA,)
        layout = self._layout(kinds, public.names, categories)
        if not in_memory and layout.moment_columns and np.isinf(self.epsilon):
            raise ValueError(
                "gaussian columns with epsilon=inf need all rows in memory. Load rows that fit, or "
                "choose a finite epsilon."
            )
        self._warn_of_threshold(example_of(X), kinds)
        if in_memory or learned:  # else the reading pass has looked
            rows.survey(partial(check_rows, layout))  # not bounded yet: sparse may be refused
        return replace(
            rows,
            public=replace(public, detail=layout, conditions=conditions),
            bound=bound_of(layout, public.n_features),
        )

    def _look(self, n_features: int, names: np.ndarray | None) -> Any:
        """What the reading pass asks of every chunk besides: its codes, or that they are right."""
        kinds = column_kinds(self.distribution, (n_features, names))
        then: Any = partial(highest_codes, kinds=kinds)
        if self.categories is not None or "categorical" not in kinds:
            then = partial(check_rows, self._layout(kinds, names, self.categories))
        return partial(_looked_at, self._may_miss(kinds), then)

    def _may_miss(self, kinds: tuple[str, ...]) -> list[int]:
        """Return the columns in which values may be missing."""
        missing = check_flag("missing", self.missing)
        return [j for j, kind in enumerate(kinds) if missing and kind == "categorical"]

    def _layout(self, kinds: tuple[str, ...], names: Any, categories: Any) -> Any:
        return build_layout(
            kinds,
            names,
            threshold=self._threshold(),
            categories=categories,
            bounds=self.bounds,
            max_total=self.max_total,
            private=bool(np.isfinite(self.epsilon)),
            missing=check_flag("missing", self.missing),
        )

    def _threshold(self) -> float | None:
        if isinstance(self.binarize, str):
            check_choice("binarize", self.binarize, ("auto",))
            return 0.0
        return None if self.binarize is None else check_real("binarize", self.binarize)

    def _warn_of_threshold(self, X: Any, kinds: tuple[str, ...]) -> None:
        """Say that numbers are cut at 0 where nobody asked for it; types of columns tell, no value.

        Zeros of a sparse matrix are absences, and columns of booleans are what they seem to be.
        """
        if not isinstance(self.binarize, str) or sparse.issparse(X):
            return
        if hasattr(X, "dtypes") and hasattr(X, "columns"):
            types = list(X.dtypes)
        else:
            types = [np.asarray(X).dtype] * len(kinds)
        numeric = [
            j
            for j, (kind, dtype) in enumerate(zip(kinds, types, strict=True))
            if kind == "bernoulli" and getattr(dtype, "kind", "") != "b"
        ]
        if numeric:
            warnings.warn(
                f"{len(numeric)} of {len(kinds)} columns hold numbers and are read as 1 above 0, "
                "else 0 (distribution='bernoulli', binarize='auto'). Say binarize=None if they are "
                "0 or 1, binarize=0.0 or another threshold if that is meant, or "
                "distribution='gaussian' with public bounds, or 'categorical' with categories.",
                PrivacyWarning,
                stacklevel=5,
            )

    def _plan(self, public: Public, budget: Budget) -> CountsPlan | DrawPlan:
        check_choice("mechanism", self.mechanism, MECHANISMS)
        check_choice("posterior", self.posterior, POSTERIORS)
        check_real("alpha", self.alpha, low=0.0, closed="neither")
        check_real("var_smoothing", self.var_smoothing, low=0.0)
        check_real("min_probability", self.min_probability, low=0.0, high=1.0, closed="neither")
        check_integer("predictive_draws", self.predictive_draws, low=1)
        layout = public.detail
        if layout is None:  # planned without data
            named = (self.distribution, self.bounds, self.categories)
            full = [v for v in named if isinstance(v, Mapping) and len(v) == public.n_features]
            names = np.array(list(full[0]), dtype=object) if full else None
            kinds = column_kinds(self.distribution, (public.n_features, names))
            layout = self._layout(kinds, names, self.categories)
        self._refuse_idle(layout)
        plan: CountsPlan | DrawPlan
        if self.mechanism == "ops":
            if layout.missing:
                raise ValueError(
                    "mechanism='ops' does not take missing values: use mechanism='laplace' or "
                    "'gaussian', or give them a category of their own."
                )
            share, alpha = float(self.min_probability), float(self.alpha)
            plan = plan_draw(layout, public.n_classes, share, alpha, budget)
        else:
            plan = plan_noise(layout, self.mechanism, budget, public)
            _warn_of_drowned_counts(plan, public)
        return replace(plan, conditions=public.conditions + plan.conditions)

    def _refuse_idle(self, layout: Any) -> None:
        """Refuse parameters that would be ignored: whoever set them expects something of them."""
        used = {
            "bernoulli": any(layout.binary),
            "categorical": not all(layout.binary),
            "multinomial": bool(layout.token_columns),
            "gaussian": bool(layout.moment_columns),
        }
        for name, default, kind in COLUMN_PARAMETERS:
            if not used[kind] and _is_set(getattr(self, name), default):
                raise ValueError(f"{name} has no effect: no column is {kind}. Leave it out.")
        one_draw = self.mechanism == "ops"
        why = "mechanism='ops' releases one draw" if one_draw else "it belongs to mechanism='ops'"
        for name, default in NOISE_PARAMETERS if one_draw else DRAW_PARAMETERS:
            if _is_set(getattr(self, name), default):
                raise ValueError(f"{name} has no effect: {why}. Leave it out.")

    def _touch(
        self, rows: Records, plan: CountsPlan | DrawPlan, generator: np.random.Generator
    ) -> TablesPosterior:
        layout, n, n_classes = plan.layout, rows.public.n, rows.public.n_classes
        law = plan.noise.law if isinstance(plan, CountsPlan) else "none"
        exact = rows.total(count_block, layout, n_classes, law)
        if rows.public.unit == "person":
            exact = exact / WHOLE
        if isinstance(plan, DrawPlan):
            drawn = draw_probabilities(layout, exact, n, plan, generator)
            return TablesPosterior.drawn(layout, drawn, n)
        noisy = add_noise(generator, exact, layout, plan.noise)
        release = Release(layout, noisy, (plan.noise,), n)
        if law == "none" and layout.moment_columns:
            release = _with_moments(release, rows)
        return TablesPosterior.learned(release, self._reading(), rows.bound, generator)

    def _reading(self) -> Reading:
        return Reading(
            float(self.alpha),
            self.posterior == "noise_aware",
            int(self.predictive_draws),
            float(self.var_smoothing),
        )

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None
    ) -> dict[str, np.ndarray]:
        """Draw the model's parameters from their posterior given the noisy statistics.

        The draws are independent, free and unlimited: they are computed from what was released.
        Only ``mechanism="ops"`` has just the one draw that was paid for.

        The posterior is *cut*: class totals are drawn given the totals of the noisy tables (or the
        noisy class counts) alone, and cells, tokens and moments given them; those say nothing back
        about the totals. In the full joint posterior the priors of the cells, which are wrong for
        real tables, would overrule the counts of the classes once the noise is large.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None gives ``predictive_draws`` (1 for "ops").
        random_state : int, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        dict of ndarrays, draw axis first
            ``class_prior`` (S, K); for the columns of each distribution, in order,
            ``bernoulli_prob`` (S, K, columns), ``category_prob`` (S, K, columns, values; short
            columns are padded with zeros, and with ``missing`` the last value is a missing one),
            ``token_prob`` (S, K, columns), ``mean`` and ``variance`` (S, K, columns).
        """
        check_is_fitted(self)
        return self._posterior.draws(n_samples, random_state)

    @available_if(offers("sample"))
    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, np.ndarray]:
        """Draw synthetic records from the posterior predictive; it costs no privacy.

        The parameters are drawn once per call, see ``sample_posterior``, and the rows given them:
        several calls are several synthetic data sets, and what they differ in is what the release
        leaves unknown. Rows of a class have independent columns: dependence between columns is
        that of each with the class, and any other is lost.

        Parameters
        ----------
        n_samples : int, default=1
            Number of records.
        random_state : int, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        X : ndarray or DataFrame of shape (n_samples, n_features)
            A data frame if the model was fitted on one. Bernoulli columns are 0 or 1 (above the
            threshold), categorical ones hold codes (NaN for a missing one), Gaussian ones stay
            within their bounds. Totals of multinomial rows, which the model does not describe, are
            Poisson with the mean of the class, cut at ``max_total``.
        y : ndarray of shape (n_samples,)
            Labels.
        """
        check_is_fitted(self)
        n_samples = check_integer("n_samples", n_samples, low=1)
        X, codes = self._posterior.sample(n_samples, self.n_features_in_, random_state)
        layout = self._posterior.scores.layout
        tables = zip(layout.table_columns, layout.binary, strict=True)
        whole = [column for column, binary in tables if binary or not layout.missing]
        whole += layout.token_columns
        if not layout.moment_columns and not layout.missing:
            X = X.astype(np.int64)
        names = getattr(self, "feature_names_in_", None)
        return with_names(X, names, whole), self.classes_[codes]

    def merge(self, *others: Self) -> Self:
        """Add the noisy statistics of models that were fitted on disjoint sets of records.

        Every record is in one release only, so the merged model costs a record no more than the
        release it is in (parallel composition): epsilon and delta are the largest of the parts.
        That needs shards that were formed without looking at the records: where a region or a
        label decides on the shard, a replaced record may leave one shard and enter another, which
        costs both.
        The noises add up, and the noise-aware posterior knows the law of their sum.

        Seeds must differ, since equal ones give equal noise. A fitted model that was stored or
        copied has lost its seed, so it merges with models of secure noise only.

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
        return merged._keep_merged(parts, self._posterior.reading)

    def _keep_merged(self, parts: Sequence[LaplaceNaiveBayes], reading: Reading) -> Self:
        first = parts[0]
        release = Release.merged([part._posterior.release for part in parts])
        claim = parallel_claim(parts)
        # another stream for each number of releases: none repeats the bits of a fit
        generator = randomness.derived_generator(self.random_state, len(release.noises) + 1)
        bound = first._posterior.scores.bound
        posterior = TablesPosterior.learned(release, reading, bound, generator)
        public = Public(
            release.n_records,
            first.n_features_in_,
            first.classes_,
            getattr(first, "feature_names_in_", None),
            release.layout,
        )
        plan = CountsPlan(release.layout, release.noises[0], claim.event, claim.conditions)
        return self._keep_sum(parts, public, plan, claim, posterior)

    @available_if(_can_be_updated)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, units: Any = None) -> Self:
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
        units : array-like of shape (n_samples,), default=None
            As in ``fit``; all records of a person must be in one batch.

        Returns
        -------
        LaplaceNaiveBayes
            This estimator.
        """
        released = getattr(getattr(self, "_posterior", None), "release", None)
        labels = self.classes if self.classes is not None else classes
        if released is not None:
            validate_data(self, X, reset=False, skip_check_array=True)  # same columns as before
            labels = self.classes_
        elif labels is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        part = type(self)(**{**self.get_params(deep=False), "classes": labels})
        if released is None:
            part.fit(X, y, units=units)
            self.__dict__.update(_fitted_state(part))
            return self
        # the same seed would give every batch the same noise, which then cancels
        part.random_state = randomness.derived_state(self.random_state, 0, len(released.noises))
        part.fit(X, y, units=units)
        parts = (self, part)
        _check_mergeable(parts)
        return self._keep_merged(parts, part._posterior.reading)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # asked for before parameters are checked, so they may be anything
        given = self.distribution
        kinds = list(given.values()) if isinstance(given, Mapping) else list(np.atleast_1d(given))
        negative = isinstance(self.binarize, numbers.Real) and self.binarize < 0.0
        tags.input_tags.sparse = isinstance(given, str) and (
            given == "multinomial" or (given == "bernoulli" and not negative)
        )
        tags.input_tags.positive_only = "multinomial" in kinds
        tags.input_tags.categorical = "categorical" in kinds
        tags.input_tags.allow_nan = self.missing is True
        return tags


def _warn_of_drowned_counts(plan: CountsPlan, public: Public) -> None:
    """Say, from public numbers, that a typical count is smaller than its noise."""
    layout, deviation = plan.layout, plan.noise.deviation
    typical = public.n / public.n_classes
    n_columns, what = len(layout.table_columns), "columns"
    if layout.token_columns:
        n_columns, what = len(layout.token_columns), "tokens"
        typical *= layout.max_total / n_columns
    if n_columns > 1 and deviation > typical:
        warnings.warn(
            f"the noise of a count has deviation {deviation:.3g}, more than a typical count of "
            f"{public.n} records and {n_columns} {what}, at most {typical:.3g}: predictions will "
            f"say little more than which class is frequent. Use fewer {what} (words hashed to "
            "2**8 instead of 2**16, for instance), a delta > 0, or a larger epsilon.",
            PrivacyWarning,
            stacklevel=4,
        )


def _looked_at(may_miss: list[int], then: Any, X: Any) -> Any:
    refuse_missing(X, may_miss)
    return then(X)


def _with_moments(release: Release, rows: Records) -> Release:
    """Keep exact means and variances of every class, for ``epsilon=inf``."""
    columns = list(release.layout.moment_columns)
    X, codes, weight = rows.block()
    block = np.asarray(X[:, columns], dtype=np.float64)
    moments = np.zeros((rows.public.n_classes, len(columns), 2))
    for c in range(moments.shape[0]):
        members = np.flatnonzero(codes == c)
        if members.size:
            moments[c] = _mean_variance(block[members], None if weight is None else weight[members])
    largest = float(_mean_variance(block, weight)[:, 1].max())
    return replace(release, exact_moments=moments, largest_variance=largest)


def _mean_variance(rows: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return mean and variance of each column, shape (columns, 2)."""
    if weight is None:
        return np.stack([rows.mean(axis=0), rows.var(axis=0)], axis=1)
    mean = np.average(rows, axis=0, weights=weight)
    return np.stack([mean, np.average((rows - mean) ** 2, axis=0, weights=weight)], axis=1)


def _fitted_state(estimator: LaplaceNaiveBayes) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    return {name: value for name, value in vars(estimator).items() if name not in params}


def _check_mergeable(parts: Sequence[LaplaceNaiveBayes]) -> None:
    first = parts[0]
    for part in parts:
        if type(part) is not type(first):
            raise TypeError(f"merge needs fitted {type(first).__name__} models; got {part!r}.")
        check_is_fitted(part)
        if part._posterior.release is None:
            raise ValueError(
                "merge needs models with noisy statistics, and mechanism='ops' releases a draw. "
                "Fit with mechanism='laplace' or 'gaussian'."
            )
    check_seeds(parts)
    for part in parts:
        release, other = part._posterior.release, first._posterior.release
        if not release.private and release.layout.moment_columns:
            raise ValueError(
                "merge at epsilon=inf is not available for gaussian columns: only noisy sums are "
                "kept in a form that can be added."
            )
        same = (
            np.array_equal(part.classes_, first.classes_)
            and release.layout == other.layout
            and {noise.law for noise in release.noises} == {noise.law for noise in other.noises}
            # What a part was fitted with: its parameters may have been changed since.
            and part.privacy_.adjacency == first.privacy_.adjacency
            and part.privacy_.unit == first.privacy_.unit
        )
        if not same:
            raise ValueError(
                "merge needs models fitted with equal classes, distribution, categories, binarize, "
                "bounds, max_total, adjacency and law of noise (mechanism), all private or none, "
                "all with units or none; "
                "pass classes=[...] so that every part knows all labels."
            )
