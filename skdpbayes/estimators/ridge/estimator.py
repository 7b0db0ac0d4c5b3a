"""Bayesian linear regression from one private release of second moments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdpbayes import randomness
from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_is_fitted,
    check_scale,
    is_fitted,
    validate_data,
)
from skdpbayes.estimators._regressor import PrivateRegressor
from skdpbayes.estimators.ridge.plan import (
    RidgePlan,
    exact_moments,
    pack,
    plan_release,
    unpack,
    weights,
)
from skdpbayes.estimators.ridge.posterior import (
    CenteredMoments,
    OrdinaryRegression,
    Regression,
    RidgePosterior,
    learned_from,
)
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.merging import Mergeable, check_seeds, parallel_claim
from skdpbayes.fitting.records import Public, Records
from skdpbayes.privacy.budget import Budget
from skdpbayes.release import floats as release

if TYPE_CHECKING:
    from skdpbayes.privacy.guarantee import Adjacency

POSTERIORS = ("noise_aware", "naive")


def _adds_noise(estimator: PrivateBayesianRidge) -> bool:
    return estimator.epsilon != np.inf


class PrivateBayesianRidge(Mergeable, PrivateRegressor):
    r"""Bayesian linear regression learned from one noisy release of second moments.

    .. math::
        y_i \sim N(\alpha + x_i^\top\beta,\; s^2), \qquad \beta_j \sim N(0, \tau^2)

    needs the data only through the sums of :math:`x`, :math:`x x^\top`, :math:`y`, :math:`x y` and
    :math:`y^2`. Noise is added to all of them at once; everything else is computed from the noisy
    sums. By default the noise is part of the model: intervals, draws and predictive deviations
    allow for it, and where it drowns the data they fall back to the prior. The prior of the error
    variance is wide (a standard deviation of 0.22 half-ranges of the target; 90 % between 0.065 and
    0.77), and so is that of the value at the mean of the rows (0.5 half-ranges around the middle of
    the target's bounds; flat without privacy).

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private, pure for ``delta=0``,
    for the exchange of one record, row and target, against another one
    (``adjacency="replace_one"``) or against a null record that adds nothing (``"zero_out"``); the
    number of records is public in both. With ``fit(X, y, units=ids)`` it is all records with one id
    that are exchanged, and the number of persons is public instead. Released are
    the noisy moments ``moments_``; all other
    attributes, predictions and any number of posterior draws are computed from them and cost
    nothing more. ``data_norm`` and ``target_bounds`` are assumed public: longer rows are scaled
    down and targets outside are clipped. The claim is unconditional: rows are cut to a public
    grid on which sums are exact, rounding is part of the sensitivity, and the noise is sampled
    exactly in integer arithmetic; only ``merge`` adds a condition. An integer ``random_state``
    makes the noise reproducible: the guarantee then needs the seed to stay secret and to serve one
    fit only. Every further ``fit`` on the same records costs its epsilon again, also within
    cross-validation; pass a ``ledger`` to add it up.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss, > 0; smaller is more private. ``np.inf`` switches the noise off: the
        coefficients are those of scikit-learn's Ridge with ``alpha = noise_variance_ / v``,
        *v* the prior variance of a coefficient, on the rows and targets as they are.
    delta : float, default=1e-5
        In [0, 1), well below one over the number of records. 0 asks for pure privacy, by Laplace
        noise, which is larger: about twice as large with five columns.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What the guarantee protects. Replacing needs 1.4 times the noise.
    data_norm : float, default=1.0
        Public bound on a row's L2 norm, > 0; longer rows are scaled down to it, in ``fit`` and in
        every prediction alike. ``BoundsScaler(bounds, norm=1.0)`` and ``private_preprocessor``
        prepare such rows from public bounds.
    target_bounds : (low, high), default=None
        Public bounds of the target; required. Targets outside are clipped. Noise is proportional
        to their distance.
    fit_intercept : bool, default=True
        Whether the model has an intercept. Without one the regression goes through 0.
    posterior : {"noise_aware", "naive"}, default="noise_aware"
        "naive" takes noisy moments for true ones, which makes intervals too narrow.
    prior_scale : float, default=1.0
        Prior standard deviation of the prediction at a row of length ``data_norm``, the intercept
        aside, in half-ranges of the target: that of a coefficient is ``prior_scale / data_norm``
        half-ranges. Smaller shrinks more.
    random_state : int, RandomState, Generator or None, default=None
        None: a secure generator seeded by the operating system. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it touches the data.

    Attributes
    ----------
    privacy_ : PrivacyGuarantee
        The claim, public.
    coef_ : ndarray of shape (n_features,)
        Posterior mean of the coefficients, released.
    intercept_ : float
        Posterior mean of the intercept, released; 0 without one.
    noise_variance_ : float
        Posterior mean of the variance of the model's errors, released.
    moments_ : ndarray of shape (n_features + 2, n_features + 2)
        Noisy sums of :math:`z z^\top` with z = (1, x, y), rows divided by ``data_norm`` and
        targets mapped to [-1, 1], released; without an intercept z = (x, y) and targets are
        divided by the larger of their bounds.
    noise_ : tuple of Noise
        Law and scale of the noise, one per merged release, public. It is that of the diagonal of
        the x block; other entries have 0.71 (its other entries), 2 (sums of x), 2.8 (of y), 1 (of
        x y) and 2 times (of y squared) its deviation.
    n_features_in_ : int
        Number of columns, public.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns where the input has them, public.

    References
    ----------
    .. [1] G. Bernstein, D. Sheldon. Differentially private Bayesian linear regression.
       NeurIPS 2019. Noise-aware inference from noisy sufficient statistics (section 3).
    .. [2] Y.-X. Wang. Revisiting differentially private linear regression: optimal and adaptive
       prediction and estimation in unbounded domain. UAI 2018.
    .. [3] C. Canonne, G. Kamath, T. Steinke. The discrete Gaussian for differential privacy.
       NeurIPS 2020. Theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import PrivateBayesianRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3)) / np.sqrt(3)
    >>> y = 40 + 30 * X[:, 0] - 10 * X[:, 1] + rng.normal(0, 5, 20_000)
    >>> model = PrivateBayesianRidge(
    ...     epsilon=1.0, target_bounds=(0, 100), random_state=0).fit(X, y)
    >>> model.privacy_.epsilon, model.privacy_.conditions
    (1.0, ())
    >>> low, high = model.interval(0.9)["coef"][0]
    >>> bool(low < 30 < high)
    True
    >>> mean, deviation = model.predict(X[:2], return_std=True)
    >>> bool(np.all((4 < deviation) & (deviation < 8)))
    True
    """

    _reads_chunks = True
    _takes_units = True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        target_bounds: Any = None,
        fit_intercept: bool = True,
        posterior: str = "noise_aware",
        prior_scale: float = 1.0,
        random_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.target_bounds = target_bounds
        self.fit_intercept = fit_intercept
        self.posterior = posterior
        self.prior_scale = prior_scale
        self.random_state = random_state
        self.ledger = ledger

    def _bound(self) -> Bound:
        norm = check_scale("data_norm", self.data_norm)
        return Bound() if np.isinf(self.epsilon) else Bound(norm)

    def _read(self, X: Any, y: Any) -> Any:
        rows = super()._read(X, y)
        if np.isinf(self.epsilon) and not isinstance(rows, Records):
            raise ValueError(
                "PrivateBayesianRidge with epsilon=inf takes tables in memory only: without noise "
                "it centers the rows as they are. Load rows that fit, or choose a finite epsilon."
            )
        return rows

    def _plan(self, public: Public, budget: Budget) -> RidgePlan:
        check_choice("posterior", self.posterior, POSTERIORS)
        check_scale("prior_scale", self.prior_scale)
        self._target_scale()  # a plan without data finds the same mistakes
        return plan_release(
            public,
            budget,
            fit_intercept=check_flag("fit_intercept", self.fit_intercept),
            data_norm=check_scale("data_norm", self.data_norm),
        )

    def _touch(
        self, rows: Records, plan: RidgePlan, generator: np.random.Generator
    ) -> RidgePosterior:
        prior_scale, noises = float(self.prior_scale), (plan.noise,)
        regression: Regression
        if plan.noise.law == "none":
            moments = CenteredMoments.from_rows(rows, plan)
            sums, regression = moments.sums(), OrdinaryRegression(moments, prior_scale)
        else:
            weight = weights(plan.n_features, plan.fit_intercept)
            exact = pack(exact_moments(rows, plan), weight)
            sums = unpack(release.floats(generator, exact, plan.noise), weight, plan.n)
            reading = (plan.fit_intercept, self.posterior, prior_scale)
            regression = learned_from(sums, noises, plan.n, *reading)
        return RidgePosterior.learned(
            sums, noises, regression, rows.bound, self._target_scale(), plan.data_norm, generator
        )

    def merge(self, *others: Self) -> Self:
        """Add the noisy moments of models that were fitted on disjoint sets of records.

        Every record is in one release only, so the merged model costs a record no more than the
        release it is in (parallel composition): epsilon and delta are the largest of the parts.
        That needs shards that were formed without looking at the records: where a region or the
        target decides on the shard, a replaced record may leave one shard and enter another, which
        costs both. The noises add up, and the posterior knows it.

        Seeds must differ, since equal ones give equal noise. A fitted model that was stored or
        copied has lost its seed, so it merges with models of secure noise only.

        Parameters
        ----------
        *others : PrivateBayesianRidge
            Private, and fitted with the same columns, bounds, adjacency and ``fit_intercept``.

        Returns
        -------
        PrivateBayesianRidge
            A new fitted estimator with the parameters of this one; ``privacy_.conditions`` says
            that the records have to be disjoint.
        """
        parts = (self, *others)
        _check_mergeable(parts)
        merged = type(self)(**self.get_params(deep=False))
        own = self._posterior
        sums = np.sum([part._posterior.sums for part in parts], axis=0)
        noises = tuple(noise for part in parts for noise in part._posterior.noises)
        n = sum(part._posterior.regression.moments.n for part in parts)
        old = own.regression
        reading = "naive" if isinstance(old, OrdinaryRegression) else "noise_aware"
        regression = learned_from(sums, noises, n, old.moments.intercept, reading, old.prior_scale)
        # another stream for each number of releases: none repeats the bits of a fit
        generator = randomness.derived_generator(self.random_state, len(noises) + 1)
        posterior = RidgePosterior.learned(
            sums, noises, regression, own.bound, own.target, own.data_norm, generator
        )
        names = getattr(self, "feature_names_in_", None)
        claim = parallel_claim(parts)
        shape = (n, self.n_features_in_, old.moments.intercept, own.data_norm)
        plan = RidgePlan(*shape, noises[0], claim.event, claim.conditions)
        public = Public(n, self.n_features_in_, names=names)
        return merged._keep_sum(parts, public, plan, claim, posterior)

    @available_if(_adds_noise)
    def partial_fit(self, X: Any, y: Any, units: Any = None) -> Self:
        """Learn from another batch of records that no earlier batch contains.

        The batch is released under its own noise with the full ``epsilon`` and merged with what
        was released before, see ``merge``. The price holds for disjoint batches only, which
        ``privacy_.conditions`` states; the ledger cannot know and is charged for every batch. Not
        available for ``epsilon=np.inf``, which releases nothing that could be added.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The batch.
        y : array-like of shape (n_samples,)
            Its targets.
        units : array-like of shape (n_samples,), default=None
            As in ``fit``; all records of a person must be in one batch.

        Returns
        -------
        PrivateBayesianRidge
            This estimator.
        """
        params = self.get_params(deep=False)
        part = type(self)(**params)
        if not is_fitted(self):
            found = part.fit(X, y, units=units)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)  # same columns as before
            # the same seed would give every batch the same noise, which then cancels
            n_releases = len(self._posterior.noises)
            part.random_state = randomness.derived_state(self.random_state, 0, n_releases)
            found = self.merge(part.fit(X, y, units=units))
        self.__dict__.update({k: value for k, value in vars(found).items() if k not in params})
        return self


def _check_mergeable(parts: Sequence[PrivateBayesianRidge]) -> None:
    first = parts[0]
    for part in parts:
        if type(part) is not type(first):
            raise TypeError(f"merge needs fitted {type(first).__name__} models; got {part!r}.")
        check_is_fitted(part)
        if np.isinf(part.privacy_.epsilon):
            raise ValueError(
                "merge adds noisy moments; at epsilon=inf fit one model on all records instead."
            )
    check_seeds(parts)

    def bounds(part: PrivateBayesianRidge) -> tuple[Any, ...]:
        posterior = part._posterior
        names = getattr(part, "feature_names_in_", None)
        return (
            part.n_features_in_,
            None if names is None else tuple(names),
            posterior.bound,
            posterior.target,
            posterior.regression.moments.intercept,
            part.privacy_.adjacency,
            part.privacy_.unit,
        )

    if any(bounds(part) != bounds(first) for part in parts):
        raise ValueError(
            "merge needs models fitted with equal columns, data_norm, target_bounds, "
            "fit_intercept and adjacency, all with units or none."
        )
