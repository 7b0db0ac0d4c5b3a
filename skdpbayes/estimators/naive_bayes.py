"""Naive Bayes from one private release of sufficient statistics."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from scipy import sparse

from skdpbayes._validation import (
    check_choice,
    check_integer,
    check_real,
    encode_labels,
    validate_data,
)
from skdpbayes.estimators import _naive_bayes_release as release_tools
from skdpbayes.estimators._naive_bayes_base import ReleasedNaiveBayes
from skdpbayes.estimators._naive_bayes_ops import draw_tables, plan_draw
from skdpbayes.estimators._naive_bayes_posterior import ScoreTables
from skdpbayes.privacy.guarantee import Adjacency

__all__ = ["LaplaceNaiveBayes"]

MECHANISMS = ("auto", "laplace", "gaussian", "ops")
POSTERIORS = ("noise_aware", "naive")


class LaplaceNaiveBayes(ReleasedNaiveBayes):
    r"""Naive Bayes classifier learned from one noisy release of its sufficient statistics.

    Features are independent given the class, so the joint density

    .. math::
        p(y = c, x \mid \pi, \theta) = \pi_c \prod_j p(x_j \mid \theta_{cj})

    needs the data only through class-by-value counts (Bernoulli, categorical), token counts
    (multinomial) or sums and sums of squares (Gaussian). Exact integer noise is added to all of
    them at once; everything else is computed from the noisy statistics. By default the noise is
    part of the model: the true counts are latent, drawn from their posterior given the noisy
    ones, and ``predict_proba`` averages over them.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the exchange of
    one record, features and label, against another one (``adjacency="replace_one"``) or against a
    null record that adds nothing (``"zero_out"``); the number of records is public in both.
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
    distribution : str or list of str, default="bernoulli"
        "bernoulli", "categorical", "multinomial" or "gaussian" for all columns, or a list with one
        of them for each column. Multinomial columns form one block of counts.
    mechanism : {"auto", "laplace", "gaussian", "ops"}, default="auto"
        "laplace": discrete Laplace noise. "gaussian": discrete Gaussian noise, needs ``delta > 0``.
        "auto": whichever of the two has the smaller deviation, decided from public numbers. "ops":
        no noise, but one draw from the posterior at a raised temperature with probabilities bounded
        below (``min_probability``); tables and tokens only.
    posterior : {"noise_aware", "naive"}, default="noise_aware"
        "naive" takes noisy counts for true ones, which makes credible intervals too narrow.
    alpha : float, default=1.0
        Dirichlet parameter (additive smoothing) of each value's probability, > 0.
    binarize : float or None, default=0.0
        Bernoulli columns are 1 above this threshold; None says that they are 0 or 1 already.
    categories : int, sequence of int or None, default=None
        Public number of categories of the categorical columns, coded 0, 1, .... None takes them
        from the data, with a warning and an entry in ``privacy_.conditions``.
    bounds : (low, high), sequence of pairs or None, default=None
        Public bounds of the Gaussian columns; required for them.
    max_total : int or None, default=None
        Public bound on the sum of a row's multinomial counts; required for them. Longer rows are
        scaled down to it. The noise grows in proportion.
    var_smoothing : float, default=1e-9
        Share of the largest possible variance, from ``bounds``, that is added to every variance.
    min_probability : float, default=0.1
        For ``mechanism="ops"``: smallest probability as a share of the uniform one, in (0, 1).
        Smaller values cost more temperature.
    n_draws : int, default=100
        Draws of the latent statistics that ``predict_proba`` averages over.
    classes : array-like or None, default=None
        The public label set. None takes the labels in ``y``, which are then treated as public.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects.
    random_state : int, RandomState, Generator or None, default=None
        None: a secure generator seeded by the operating system. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it touches the data.
    progress : bool, default=False
        Kept for uniformity; there is no long work here.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        The claim, public.
    classes_ : ndarray of shape (n_classes,)
        The label set, public.
    statistics_ : int64 ndarray of shape (n_classes, n_statistics)
        The noisy statistics, released: tables side by side, class counts if there is no table,
        tokens, moments. Not there with ``mechanism="ops"``.
    class_count_ : ndarray of shape (n_classes,)
        Posterior mean of the number of records of each class, released.
    class_log_prior_ : ndarray of shape (n_classes,)
        Logarithm of the estimated class probabilities, released.
    noise_ : tuple of (str, float)
        Law and scale of the noise on a count for each merged release, public.
    n_records_ : int
        Number of records, public.
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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        distribution: Any = "bernoulli",
        mechanism: str = "auto",
        posterior: str = "noise_aware",
        alpha: float = 1.0,
        binarize: float | None = 0.0,
        categories: Any = None,
        bounds: Any = None,
        max_total: int | None = None,
        var_smoothing: float = 1e-9,
        min_probability: float = 0.1,
        n_draws: int = 100,
        classes: Any = None,
        adjacency: Adjacency = "replace_one",
        random_state: Any = None,
        ledger: Any = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.distribution = distribution
        self.mechanism = mechanism
        self.posterior = posterior
        self.alpha = alpha
        self.binarize = binarize
        self.categories = categories
        self.bounds = bounds
        self.max_total = max_total
        self.var_smoothing = var_smoothing
        self.min_probability = min_probability
        self.n_draws = n_draws
        self.classes = classes
        self.adjacency = adjacency
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def fit(self, X: Any, y: Any) -> LaplaceNaiveBayes:
        """Release the noisy statistics of the records and learn from them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The features. Sparse input is served where all columns are Bernoulli (``binarize >= 0``)
            or all are multinomial.
        y : array-like of shape (n_samples,)
            The labels.

        Returns
        -------
        LaplaceNaiveBayes
            The fitted estimator.
        """
        # 1 validate
        kinds, X, codes = self._validate_training(X, y)
        # 2 bound one record's influence: the layout states the public bounds, counting applies them
        layout = release_tools.build_layout(
            kinds,
            X,
            categories=self.categories,
            bounds=self.bounds,
            max_total=self.max_total,
            non_private=self._non_private,
        )
        # 3 calibrate from public numbers
        conditions = self._conditions(kinds)
        if self.mechanism == "ops":
            plan: Any = plan_draw(self, layout, self.classes_.shape[0])
            conditions += plan.conditions
        else:
            plan = release_tools.plan_noise(
                layout, self.mechanism, float(self.epsilon), float(self.delta), self.adjacency
            )
        guarantee = self._guarantee(plan.event, plan.words, conditions=conditions)
        generator = self._generator()
        # 4 reserve
        self._reserve(guarantee)
        # 5 touch the data, under noise
        statistics = release_tools.exact_statistics(
            layout, X, codes, self.classes_.shape[0], self._threshold, plan.noise
        )
        self._forget()
        self.privacy_ = guarantee
        self.n_records_ = X.shape[0]
        self._layout = layout
        if self.mechanism == "ops":
            self._keep_draw(draw_tables(layout, statistics, self.n_records_, plan, generator))
            return self
        self.noise_ = ((plan.noise, float(plan.scale)),)
        if self._non_private:
            self.statistics_ = statistics
            if layout.moment_columns:
                columns = layout.moment_columns
                self._exact_moments = _class_moments(X, codes, columns, self.classes_.shape[0])
                self._largest_variance = float(np.var(X[:, list(columns)], axis=0).max())
        else:
            self.statistics_ = release_tools.add_noise(generator, statistics, layout, plan)
        self._learn(generator)
        return self

    def _validate_training(self, X: Any, y: Any) -> tuple[tuple[str, ...], Any, np.ndarray]:
        try:
            checked = validate_data(
                self,
                X,
                y,
                accept_sparse="csr" if self._takes_sparse else False,
                dtype=[np.float64, np.int64],
                order="C",
                accept_large_sparse=False,
            )
        except ValueError as error:
            release_tools.refuse_words(X, error)
            raise
        X, y = checked
        self._check_privacy_parameters(X.shape[0])
        check_choice("mechanism", self.mechanism, MECHANISMS)
        check_choice("posterior", self.posterior, POSTERIORS)
        check_real("alpha", self.alpha, low=0.0, closed="neither")
        check_real("var_smoothing", self.var_smoothing, low=0.0)
        check_real("min_probability", self.min_probability, low=0.0, high=1.0, closed="neither")
        check_integer("n_draws", self.n_draws, low=1)
        kinds = self._column_kinds(X.shape[1])
        self._check_binary(X, kinds)
        self.classes_, codes = encode_labels(y, self.classes, estimator=type(self).__name__)
        return kinds, release_tools.canonical(X), codes

    def _column_kinds(self, n_features: int) -> tuple[str, ...]:
        names = release_tools.DISTRIBUTIONS
        if isinstance(self.distribution, str):
            return (check_choice("distribution", self.distribution, names),) * n_features
        given = self.distribution if np.iterable(self.distribution) else [self.distribution]
        kinds = tuple(check_choice("distribution", kind, names) for kind in given)
        if len(kinds) != n_features:
            raise ValueError(
                f"distribution must name one of {names} for each of the {n_features} features; "
                f"got {len(kinds)} entries."
            )
        return kinds

    @property
    def _takes_sparse(self) -> bool:
        # Asked for before parameters are checked: a threshold may be anything.
        if isinstance(self.distribution, str) and self.distribution == "bernoulli":
            return self.binarize is None or not (
                isinstance(self.binarize, numbers.Real) and self.binarize < 0.0
            )
        return isinstance(self.distribution, str) and self.distribution == "multinomial"

    def _check_binary(self, X: Any, kinds: tuple[str, ...]) -> None:
        if self.binarize is not None:
            check_real("binarize", self.binarize)
            return
        block = X.data if sparse.issparse(X) else X[:, [kind == "bernoulli" for kind in kinds]]
        if not np.isin(block, (0, 1)).all():
            raise ValueError(
                "binarize=None says that Bernoulli columns are 0 or 1; X has another value there. "
                "Pass a threshold as binarize."
            )

    def _conditions(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        if self.categories is None and "categorical" in kinds:
            return ("the numbers of categories, which were taken from the data, are public",)
        return ()

    def _keep_draw(self, draw: ScoreTables) -> None:
        counts = np.full(self.classes_.shape[0], np.nan)
        self._keep_tables(draw, counts)
        self.class_count_ = self.n_records_ * np.exp(self.class_log_prior_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.positive_only = "multinomial" in np.atleast_1d(self.distribution)
        tags.input_tags.categorical = "categorical" in np.atleast_1d(self.distribution)
        return tags


def _class_moments(
    X: Any, codes: np.ndarray, columns: tuple[int, ...], n_classes: int
) -> np.ndarray:
    """Exact means and variances of every class, for ``epsilon=inf``, shape (K, F, 2)."""
    moments = np.zeros((n_classes, len(columns), 2))
    block = np.asarray(X[:, list(columns)], dtype=np.float64)
    for c in range(n_classes):
        rows = block[codes == c]
        if rows.shape[0]:
            moments[c] = np.stack([rows.mean(axis=0), rows.var(axis=0)], axis=1)
    return moments
