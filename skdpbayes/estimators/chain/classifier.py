"""Classifiers whose coefficients are a private stochastic-gradient Markov chain."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdpbayes import privacy, randomness
from skdpbayes._validation import (
    check_choice,
    check_flag,
    check_integer,
    check_is_fitted,
    check_real,
    check_scale,
    is_fitted,
    longest_row,
)
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.chain import settings as rules
from skdpbayes.estimators.chain.coordinates import (
    Coordinates,
    check_public_covariance,
    exact_coordinates,
    moment_sensitivity,
    plain_coordinates,
    plain_dimension,
    public_coordinates,
    released_coordinates,
)
from skdpbayes.estimators.chain.inference import MOST_COLUMNS as MOST_COLUMNS_OF_INTERVALS
from skdpbayes.estimators.chain.inference import ScoreEquation
from skdpbayes.estimators.chain.plan import ChainPlan, check_delta
from skdpbayes.estimators.chain.potential import CoefficientPrior, LinearPotential
from skdpbayes.estimators.chain.run import ChainResult, Dynamics, choose_draws, run_chain
from skdpbayes.estimators.linear.normal import NormalMixture
from skdpbayes.estimators.linear.posterior import LinearPosterior, split_coefficients
from skdpbayes.fitting.bounds import Bound
from skdpbayes.fitting.estimator import NOT_PRIVATE, offers
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.sensitivity import moved

if TYPE_CHECKING:
    from skdpbayes.privacy.events import PrivacyEvent
    from skdpbayes.privacy.guarantee import Adjacency

__all__ = ["DPSGLDClassifier"]

# Moments of more columns than this are too large a matrix; their noise would be, too.
MOST_COLUMNS = 2000
# Moments are worth their price if noise alone has eigenvalues below this, of a trace of 1.
LARGEST_EDGE = 0.15
# Share of the (Gaussian) budget that the moments get.
SHARE = 0.2
PRIORS = {"cauchy": CoefficientPrior.cauchy, "normal": CoefficientPrior.normal}
# Scales of the Cauchy priors of Gelman et al. (2008), here for rows of length 1
COEFFICIENT_SCALE, INTERCEPT_SCALE = 2.5, 10.0
# All records are one batch while a pass is cheap: that has the least noise per record.
LARGEST_BATCH = 1 << 17
# Intervals need privacy noise below this share of the curvature per direction.
LARGEST_NOISE = 1.0 / 3.0
POSTERIORS = ("auto", "noise_aware", "chain")


class DPSGLDClassifier(PrivateClassifier):
    r"""Bayesian classifier by differentially private stochastic-gradient MCMC.

    A Markov chain samples, at the temperature that its noise gives it, the posterior

    .. math::

        p(\theta \mid X, y) \propto \pi(\theta) \exp\Big(-\sum_i \ell(\theta; x_i, y_i)\Big)

    of logistic (two classes) or softmax regression with independent Cauchy or normal priors. Every
    step adds noise to a sum of gradients that are clipped, record by record, to ``clip_norm``:

    .. math::

        \tilde g = \nabla r(\theta) + \frac{n}{\tau} \Big(\sum_{i \in S}
        \mathrm{clip}(\nabla \ell_i; L) + N(0, \sigma^2 L^2)\Big), \qquad
        \theta \leftarrow \theta - h \tilde g ,

    with batches *S* of expected size :math:`\tau`, :math:`r = -\log \pi`, and :math:`\sigma`
    the larger of what the sampler needs for temperature 1 and what privacy needs.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record replaced by another, or (``"zero_out"``) by a null record that contributes
    nothing. The number of records is public, as are all parameters and the label set. Released: the
    noisy gradient of every step and with them the whole chain, so its average ``coef_``, every
    draw of ``sample_posterior``, ``interval`` and the predictions cost nothing more, and the
    moments of the rows from which the coordinates of the chain are made (``preconditioner``) under
    their own share of the budget. The claim is unconditional: it does not matter whether the chain
    has converged. Batches are Poisson samples (or uniform of fixed size) with exactly the inclusion
    probability that is accounted for, an empty batch is a noise-only step, and the sum is divided
    by the expected size. Arithmetic: each record's clipped gradient is rounded to multiples of a
    power of two that make sums exact, whatever the order of the records; the sum is mapped to the
    grid of :math:`2^{-28}` noise standard deviations and
    exact discrete Gaussian noise is added there. What rounding adds to the sensitivity is in the
    noise. With an int ``random_state`` the guarantee needs the seed to stay secret. Every refit is
    a new release, and cross-validation pays once per fold.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` samples the posterior without
        private noise, takes rows as they are and, unless ``clip_norm`` is given, clips nothing; the
        chain then runs in coordinates in which the posterior around its mode is round.
    delta : float, default=1e-5
        In (0, 1). Probability mass on which epsilon may fail.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    data_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it, in ``fit`` and in
        every prediction alike.
    prior : {"cauchy", "normal"}, default="cauchy"
        Independent priors of the coefficients and the intercept. Cauchy priors shrink small
        effects, but hardly large ones; the normal prior is scikit-learn's penalty.
    prior_scale : float, pair of floats or "auto", default="auto"
        Scale of the priors: one number, or one for the coefficients and one for the intercept. For
        ``"normal"`` it is the standard deviation, so that scikit-learn's ``C`` is its square.
        "auto" takes the scales of [5]_, 2.5 / ``data_norm`` and 10.
    classes : array-like or None, default=None
        The public label set; None takes it from y, which treats the labels that occur as public.
    fit_intercept : bool, default=True
        Whether to add an intercept.
    sampler : {"sgld", "sghmc", "sgnht", "sgfs"} or mapping, default="sgld"
        Langevin dynamics, Hamiltonian dynamics with friction, the Nosé-Hoover thermostat or Fisher
        scoring. The last two count private noise as noise of the sampler: they stay at temperature
        1 and move less where privacy asks for much noise. A mapping has the name as its ``"kind"``
        and may have

        - ``"schedule"``: step t is ``step_size`` times 1 (``"constant"``, the default),
          :math:`t^{-1/3}` (``"cube_root"``) or :math:`(b + t)^{-g}` (a pair (b, g));
        - ``"friction"`` of "sghmc", or diffusion of "sgnht"; the default is 0.1 / step;
        - ``"temperature"`` (with "sgld" and "sghmc"): the lowest that the chain is to sample at;
          private noise may raise it to ``temperature_``. The default is 1, the posterior itself.
    clip_norm : float or "auto", default="auto"
        Bound on the norm of one record's gradient in the coordinates of the chain, where rows have
        length about 1. Smaller means less noise and more bias: "auto" is 0.7 where public numbers
        tell that noise is large and rises to 1.3 where it is not (none for ``epsilon=np.inf``).
    batch_size : int or "auto", default="auto"
        Expected size of a batch. "auto" takes all records up to 131,072: large batches have the
        least noise per record.
    n_steps : int or "auto", default="auto"
        Number of steps; "auto" is 100 (500 for ``epsilon=np.inf``).
    step_size : float or "auto", default="auto"
        The step h on the sum of losses, in the coordinates of the chain. "auto" follows from n,
        the noise and the released coordinates.
    subsampling : {"poisson", "fixed"}, default="poisson"
        Every record independently with the same probability, or batches of fixed size.
    preconditioner : "auto", float, ndarray or None, default="auto"
        Coordinates of the chain. A number in (0, 1) is the share of the (Gaussian) budget that
        releases moments of the rows, from which they are made; "auto" is 0.2 where there are enough
        records for it, and None otherwise. None scales rows by ``data_norm`` alone. An array of
        shape (n_features, n_features) is a public covariance matrix of the rows.
    start : fitted linear classifier or None, default=None
        Model whose ``coef_`` and ``intercept_`` are the first state; None starts at zero (for
        ``epsilon=np.inf`` at the posterior's mode). A private release costs nothing more than its
        own claim; anything else must be public, and ``privacy_.conditions`` says so.
    tail : float or "auto", default="auto"
        Fraction of the chain, at its end, that ``coef_`` averages and the draws are taken from, in
        (0, 1]. "auto" is 0.5 (0.9 for ``epsilon=np.inf``, where the chain starts at the mode).
    n_kept : int or "auto", default="auto"
        Number of states of the tail that are kept as draws, or all if it has fewer; "auto" is 50.
        The whole chain is paid for, so this is about memory and time alone.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        None: a cryptographically secure generator. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Released: average of the tail of the chain.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Released with it.
    classes_ : ndarray of shape (n_classes,)
        Public: the label set.
    temperature_ : float
        Released: mean temperature of the tail, the noise that was added over the noise that
        temperature 1 needs; 1 where privacy is free. Only of "sgld" and "sghmc": for the other two
        it would be a claim of their theory, which chains of this length do not meet.
    noise_ : Noise
        Public: least noise that a step adds to its sum of clipped gradients.
    clip_norm_ : float
        Public: the clipping norm that was used.
    step_size_ : float
        Released: the first step.
    n_steps_ : int
        Public: number of steps.
    batch_size_ : int
        Public: expected batch size.
    privacy_ : PrivacyGuarantee
        Public: the claim, with its privacy profile.

    See Also
    --------
    skdpbayes.DPSGLDNetworkClassifier : The same chain on a multilayer perceptron.
    skdpbayes.OPSLogisticRegression : One draw, from a chain whose other states stay secret.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Algorithms 2 and 4, Theorems 13 to 16.
    .. [2] B. Li, C. Chen, H. Liu and L. Carin. On connecting stochastic gradient MCMC and
       differential privacy. AISTATS 2019. Theorem 3.
    .. [3] M. Abadi et al. Deep learning with differential privacy.
       CCS 2016.
    .. [4] S. Ahn, A. Korattikara and M. Welling. Bayesian posterior sampling via stochastic
       gradient Fisher scoring. ICML 2012.
    .. [5] A. Gelman, A. Jakulin, M. G. Pittau and Y.-S. Su. A weakly informative default prior
       distribution for logistic and other regression models. Annals of Applied Statistics 2, 2008.

    Examples
    --------
    >>> from skdpbayes import DPSGLDClassifier
    >>> from skdpbayes.datasets import make_census
    >>> X, y = make_census(5000, encoding="raw", return_X_y=True, random_state=0)
    >>> model = DPSGLDClassifier(epsilon=1.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    >>> model.interval(0.9)["coef"].shape[2]
    2
    >>> model.sample_posterior()["coef"].shape[0]
    1000
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        prior: str = "cauchy",
        prior_scale: Any = "auto",
        classes: Any = None,
        fit_intercept: bool = True,
        sampler: Any = "sgld",
        clip_norm: float | str = "auto",
        batch_size: int | str = "auto",
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        subsampling: str = "poisson",
        preconditioner: Any = "auto",
        start: Any = None,
        tail: float | str = "auto",
        n_kept: int | str = "auto",
        random_state: Any = None,
        ledger: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.prior = prior
        self.prior_scale = prior_scale
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.sampler = sampler
        self.clip_norm = clip_norm
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.step_size = step_size
        self.subsampling = subsampling
        self.preconditioner = preconditioner
        self.start = start
        self.tail = tail
        self.n_kept = n_kept
        self.random_state = random_state
        self.ledger = ledger

    def _bound(self) -> Bound:
        check_scale("data_norm", self.data_norm)
        return Bound() if np.isinf(self.epsilon) else Bound(float(self.data_norm))

    def _read(self, X: Any, y: Any) -> Records:
        check_real("epsilon", self.epsilon, low=0.0, closed="high", remedy=NOT_PRIVATE)
        rows = super()._read(X, y)
        if np.isinf(self.epsilon):  # nothing is bounded, so sums follow the rows as they are
            rows = replace(rows, public=replace(rows.public, detail=longest_row(rows.X)))
        return rows

    def _plan(self, public: Public, budget: Budget) -> LinearChainPlan:
        if budget.private:
            check_delta(budget.delta)
        check_scale("data_norm", self.data_norm)
        check_flag("fit_intercept", self.fit_intercept)
        covariance = self._public_covariance(public)
        moments_mu = self._moments_mu(public, budget)
        whitened = moments_mu > 0.0 or covariance is not None
        settings = rules.read_settings(
            self.get_params(deep=False),
            public.n,
            rules.Defaults(
                n_steps=100 if budget.private else 500,
                batch_size=min(public.n, LARGEST_BATCH),
                clip_norm=_default_clip(public, budget, whitened),
                tail=0.5 if budget.private else 0.9,
                n_kept=50,
                temperature=1.0,
            ),
        )
        n_outputs = _n_outputs(public)
        size = n_outputs * (public.n_features + bool(self.fit_intercept))
        setup = (privacy.GaussianDP(moments_mu),) if 0.0 < moments_mu < math.inf else ()
        start = None if self.start is None else self._start(public)
        longest = float(self.data_norm)
        if public.detail is not None:
            longest = max(longest, public.detail)
        return LinearChainPlan(
            chain=settings.plan(budget, public.n, size, setup),
            settings=settings,
            prior=self._prior(),
            n_classes=public.n_classes,
            fit_intercept=bool(self.fit_intercept),
            longest=longest,
            moments_mu=moments_mu,
            covariance=covariance,
            start=start,
            conditions=() if self.start is None else _condition_of_start(self.start),
        )

    def _touch(
        self, rows: Records, plan: LinearChainPlan, generator: np.random.Generator
    ) -> ChainPosterior:
        X, codes, _ = rows.block()
        assert codes is not None
        with one_blas_thread():
            step, potential = plan.potential(X, codes, plan.coordinates(X, generator))
            coordinates, first = potential.coordinates, np.zeros(potential.shape)
            if not plan.chain.private:  # nothing keeps the chain from starting at the mode
                first = potential.mode(first)
                if plan.moments_mu > 0.0:
                    mode = coordinates.coefficients(first)
                    step, potential = plan.potential(X, codes, plan.exact_coordinates(X, *mode))
                    coordinates = potential.coordinates
                    first = coordinates.from_coefficients(*mode)
            if plan.start is not None:
                first = coordinates.from_coefficients(*plan.start)
            dynamics = plan.dynamics(step, potential)
            result = run_chain(
                potential,
                plan.chain,
                dynamics,
                first,
                generator,
                tail=plan.settings.tail,
                n_kept=plan.settings.n_kept,
                keep_score=plan.chain.private and plan.no_interval(coordinates) is None,
            )
        coef, intercept = coordinates.coefficients(result.mean)
        return ChainPosterior(
            coef,
            intercept,
            LinearPosterior(*coordinates.coefficients(result.draws), rows.bound),
            result.temperature,
            float(dynamics.steps[0]),
            plan.inference(coordinates, result),
        )

    @available_if(offers("interval"))
    def interval(self, level: float = 0.9) -> dict[str, np.ndarray]:
        """Intervals for the true coefficients, the noise of the mechanism included.

        They follow from the mean of the noisy gradients of all steps (two classes; every sampler)
        and are post-processing. The coefficients are those of the model on bounded rows: where
        ``data_norm`` cuts many rows, they differ from the coefficients of the rows as they are.

        Parameters
        ----------
        level : float, default=0.9
            Probability that an interval should cover, in (0, 1).

        Returns
        -------
        dict of ndarrays of shape (..., 2)
            Lower and upper ends for ``"coef"`` and ``"intercept"``. Of a column whose variance
            hardly exceeds the noise of the released moments they cover less often; see the user
            guide.
        """
        return super().interval(level)

    def sample_posterior(
        self, n_samples: int | None = None, random_state: Any = None, *, posterior: str = "auto"
    ) -> dict[str, np.ndarray]:
        """Draw coefficients given what the fit released; it costs no privacy.

        Parameters
        ----------
        n_samples : int or None, default=None
            Number of draws; None for 1000, or for all kept states of the chain.
        random_state : int, RandomState, Generator or None, default=None
            Of the draws; None takes states of the chain at even distances.
        posterior : {"auto", "noise_aware", "chain"}, default="auto"
            "noise_aware" draws from what the noisy gradients say about the true coefficients, the
            distribution behind ``interval``. "chain" returns states of the chain: without privacy
            they are draws from the posterior, with it they spread by ``temperature_`` and not by
            what is unknown. "auto" is "noise_aware" for private fits that have intervals (public
            and released numbers decide) and "chain" for all others.

        Returns
        -------
        dict of ndarrays
            First axis the draw.
        """
        check_choice("posterior", posterior, POSTERIORS)
        check_is_fitted(self)
        reason = self._posterior.missing.get("interval")
        if posterior == "noise_aware" and reason is not None:
            raise ValueError(f"posterior='noise_aware' is not available: {reason}")
        private = math.isfinite(self.privacy_.epsilon)
        if posterior == "noise_aware" or (posterior == "auto" and private and reason is None):
            return self._posterior.noise_aware_draws(n_samples, random_state)
        return self._posterior.draws(n_samples, random_state)

    def _prior(self) -> CoefficientPrior:
        check_choice("prior", self.prior, PRIORS)
        return PRIORS[self.prior](*self._prior_scales())

    def _prior_scales(self) -> tuple[float, float]:
        """Scales of the priors of a coefficient and of the intercept."""
        scales = self.prior_scale
        if isinstance(scales, str):
            check_choice("prior_scale", scales, ("auto",))
            return COEFFICIENT_SCALE / float(self.data_norm), INTERCEPT_SCALE
        if isinstance(scales, numbers.Real):
            scale = check_scale("prior_scale", scales)
            return scale, scale
        try:
            coefficients, intercept = scales
        except (TypeError, ValueError):
            raise ValueError(
                "prior_scale must be 'auto', a positive number or a pair of them, for coefficients "
                f"and intercept; got {scales!r}."
            ) from None
        if not self.fit_intercept:
            raise ValueError(
                f"prior_scale={scales!r} has a scale for an intercept, but fit_intercept=False. "
                "Give one number."
            )
        return check_scale("prior_scale", coefficients), check_scale("prior_scale", intercept)

    def _public_covariance(self, public: Public) -> np.ndarray | None:
        if self.preconditioner is None or isinstance(self.preconditioner, str | numbers.Real):
            return None
        return check_public_covariance(self.preconditioner, public.n_features)

    def _moments_mu(self, public: Public, budget: Budget) -> float:
        """Gaussian DP of the moments; 0 if they are not released, infinite if they are exact."""
        n, d, share = public.n, public.n_features, self.preconditioner
        if isinstance(share, str):
            check_choice("preconditioner", share, ("auto",))
            share = SHARE
        elif isinstance(share, numbers.Real):
            share = check_real("preconditioner", share, low=0.0, high=1.0, closed="neither")
        else:
            return 0.0
        asked = not isinstance(self.preconditioner, str)
        if d > MOST_COLUMNS:
            if asked:
                raise ValueError(
                    f"preconditioner={share!r}: the moments of {d} columns are too large a matrix; "
                    f"at most {MOST_COLUMNS} columns have them. Use preconditioner=None."
                )
            return 0.0
        if not budget.private:
            return math.inf
        mu = privacy.gdp_mu(budget.epsilon, budget.delta) * math.sqrt(share)
        edge = moment_sensitivity(budget.adjacency) / mu * math.sqrt(2.0 * d) / n
        return mu if asked or edge <= LARGEST_EDGE else 0.0

    def _start(self, public: Public) -> tuple[np.ndarray, np.ndarray]:
        """Return coefficients and intercepts of the model that the chain starts from."""
        remedy = "Give a fitted linear classifier of the same columns and labels"
        if not hasattr(self.start, "fit"):
            raise TypeError(f"start must be an estimator or None; got {self.start!r}. {remedy}.")
        if not is_fitted(self.start):
            raise ValueError(
                f"start={self.start!r} is not fitted. {remedy}; in a pipeline or a search, which "
                "clone their parameters, as sklearn.frozen.FrozenEstimator(model)."
            )
        shape = (_n_outputs(public), public.n_features)
        coef = np.asarray(getattr(self.start, "coef_", np.nan), dtype=np.float64)
        intercept = np.asarray(getattr(self.start, "intercept_", np.nan), dtype=np.float64)
        intercept = np.broadcast_to(intercept, (shape[0],)) if intercept.ndim == 0 else intercept
        if coef.shape != shape or intercept.shape != shape[:1]:
            raise ValueError(
                f"start must have coef_ of shape {shape} and intercept_ of shape {shape[:1]}; got "
                f"{coef.shape} and {intercept.shape}. {remedy}."
            )
        if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(intercept))):
            raise ValueError(f"start must have finite coefficients. {remedy}.")
        own = np.asarray(public.classes)
        labels = np.asarray(getattr(self.start, "classes_", own))
        if not np.array_equal(labels, own):
            raise ValueError(
                f"start was fitted to the labels {labels.tolist()}, this fit has {own.tolist()}. "
                f"{remedy}."
            )
        if not self.fit_intercept and np.any(intercept != 0.0):
            raise ValueError("start has an intercept, but fit_intercept=False.")
        return coef, intercept


def _n_outputs(public: Public) -> int:
    return 1 if public.n_classes == 2 else public.n_classes


def _condition_of_start(model: Any) -> tuple[str, ...]:
    """A private release as the start is paid for by its own claim; anything else must be public."""
    if math.isfinite(getattr(getattr(model, "privacy_", None), "epsilon", math.inf)):
        return ()
    return (f"the {type(model).__name__} that the chain starts from is public",)


def _default_clip(public: Public, budget: Budget, whitened: bool) -> float:
    if not budget.private:
        return math.inf
    d = public.n_features
    mean, _ = rules.curvature(_n_outputs(public), public.n_classes)
    dimension = max(1.0, d / 2.0) if whitened else plain_dimension(d)
    return rules.default_clip(
        mean * public.n / dimension,
        moved(budget.adjacency),
        privacy.gdp_mu(budget.epsilon, budget.delta),
    )


@dataclass(frozen=True, eq=False)
class LinearChainPlan:
    """A chain on a linear classifier; step and coordinates follow from what it releases first."""

    chain: ChainPlan
    settings: rules.Settings
    prior: CoefficientPrior
    n_classes: int
    fit_intercept: bool
    longest: float
    """No row is longer."""
    moments_mu: float
    """Gaussian DP of the moments: 0 if there are none, infinite if they are exact."""
    covariance: np.ndarray | None
    start: tuple[np.ndarray, np.ndarray] | None
    conditions: tuple[str, ...]

    @property
    def event(self) -> PrivacyEvent:
        """Moments and chain."""
        return self.chain.event

    @property
    def words(self) -> str:
        """The mechanism in words."""
        return f"stochastic-gradient MCMC ({self.settings.sampler})"

    def numbers(self) -> dict[str, Any]:
        """Return what a fit shows of its plan."""
        return self.chain.numbers()

    @property
    def _curvature(self) -> tuple[float, float]:
        return rules.curvature(1 if self.n_classes == 2 else self.n_classes, self.n_classes)

    def coordinates(self, X: Any, generator: np.random.Generator) -> Coordinates:
        """Release the moments of the rows, or do without."""
        d = X.shape[1]
        least = rules.least_variance(
            self.chain.n_samples, 1.0 / self.prior.precision, self._curvature[1]
        )
        if self.moments_mu > 0.0:
            return released_coordinates(
                X,
                self.longest,
                self.moments_mu,
                self.chain.adjacency,
                self.fit_intercept,
                randomness.spawn(generator, 1)[0],
                least_variance=least,
            )
        if self.covariance is None:
            return plain_coordinates(d, self.longest, self.chain.private)
        return public_coordinates(self.covariance, d, least_variance=least)

    def exact_coordinates(self, X: Any, coef: np.ndarray, intercept: np.ndarray) -> Coordinates:
        """Coordinates in which the posterior around its mode is round."""
        logits = np.asarray(X @ coef.T) + intercept
        return exact_coordinates(
            X, logits, self.prior.precision, self.prior.of_intercept, self.fit_intercept
        )

    def potential(
        self, X: Any, codes: np.ndarray, coordinates: Coordinates
    ) -> tuple[float, LinearPotential]:
        """Return a step of SGLD and the posterior, with a constant feature stable at that step."""
        step, coordinates = self._step(coordinates)
        n_outputs = 1 if self.n_classes == 2 else self.n_classes
        return step, LinearPotential(X, codes, coordinates, n_outputs, self.prior, self.longest)

    def _step(self, coordinates: Coordinates) -> tuple[float, Coordinates]:
        chain, n = self.chain, self.chain.n_samples
        if coordinates.curvature is not None:
            stiffness = coordinates.curvature * n / coordinates.dimension
            return rules.SAMPLING_STEP / stiffness, coordinates
        mean, largest = self._curvature
        of_prior = coordinates.largest_prior_curvature(
            self.prior.precision, self.prior.of_intercept
        )
        step = rules.langevin_step(
            n,
            chain.n_steps,
            coordinates.dimension,
            chain.gradient_noise,
            mean,
            largest,
            of_prior,
        )
        if self.fit_intercept:
            stable = 1.0 if chain.private else rules.SAMPLING_STEP
            curvature = max(n * largest, self.prior.of_intercept)
            coordinates = coordinates.with_constant(rules.constant_feature(step, curvature, stable))
        return step, coordinates

    def no_interval(self, coordinates: Coordinates) -> str | None:
        """Return why there are no intervals, by public and released numbers, or None."""
        if self.n_classes > 2:
            return "it is known for two classes only"
        if coordinates.curvature is not None:
            return None
        if coordinates.moments is None:
            return (
                "this fit released no moments of the rows (preconditioner=None, a given matrix, or "
                "too few records for them), without which the curvature is unknown"
            )
        d = coordinates.center.shape[0]
        if d > MOST_COLUMNS_OF_INTERVALS:
            return f"{d} columns are too many; at most {MOST_COLUMNS_OF_INTERVALS} have intervals"
        chain, mean = self.chain, self._curvature[0]
        noise = chain.gradient_noise / math.sqrt(chain.n_steps)
        curvature = mean * chain.n_samples / coordinates.dimension
        if noise > LARGEST_NOISE * curvature:
            return (
                f"the noise ({noise:.3g}) is more than a third of the curvature "
                f"({curvature:.3g}) that so many records have; more of them or a larger epsilon "
                "would help"
            )
        return None

    def inference(
        self, coordinates: Coordinates, result: ChainResult
    ) -> ScoreEquation | NormalMixture | str:
        """Return what intervals are made of, or the reason why there are none."""
        reason = self.no_interval(coordinates)
        if reason is not None:
            return reason
        if result.score is None:  # no privacy: the posterior is round in these coordinates
            assert coordinates.curvature is not None
            stiffness = coordinates.curvature * self.chain.n_samples / coordinates.dimension
            lift = np.column_stack(coordinates.coefficients(np.eye(result.mean.shape[1])))
            return NormalMixture(result.mean @ lift, lift.T[None] / math.sqrt(stiffness))
        return ScoreEquation(
            result.score,
            coordinates,
            self.prior,
            self.chain.n_samples,
            self.chain.sampling_rate,
            self.chain.clip_norm,
        )

    def dynamics(self, step: float, potential: LinearPotential) -> Dynamics:
        """Turn the step of SGLD into the sampler's; Fisher scoring also needs the information.

        In the chain's coordinates, where rows are round, the information is diagonal.
        """
        noise = self.chain.gradient_noise
        if self.settings.sampler != "sgfs":
            return self.settings.dynamics(step, noise)
        coordinates = potential.coordinates
        mean = coordinates.curvature or self._curvature[0]
        # noise of 4 / h on the gradient
        step = 4.0 / (rules.FISHER_NOISE * mean * self.chain.n_samples / coordinates.dimension)
        information = np.full(potential.shape[1], mean / coordinates.dimension)
        if coordinates.constant:
            information[-1] = mean * coordinates.constant**2
        return replace(
            self.settings.dynamics(step, noise),
            information=np.diag(information),
            prior_precision=potential.prior_precision(),
        )


@dataclass(frozen=True, eq=False)
class ChainPosterior:
    """The average of a chain's tail, and some of its states to predict with."""

    coef: np.ndarray
    intercept: np.ndarray
    states: LinearPosterior
    temperature: float | None
    step_size: float
    inference: ScoreEquation | NormalMixture | str
    """What intervals are made of, or the reason why there are none."""

    @property
    def numbers_per_row(self) -> int:
        """Numbers that one row's prediction needs at a time."""
        return self.states.numbers_per_row

    @property
    def missing(self) -> dict[str, str]:
        """Intervals, where the release does not tell enough."""
        if isinstance(self.inference, str):
            return {"interval": f"{self.inference}."}
        return {}

    def attributes(self) -> dict[str, Any]:
        """Return the average of the tail and the numbers that follow from the released moments."""
        shown = {
            "coef_": self.coef,
            "intercept_": self.intercept,
            "step_size_": self.step_size,
        }
        return shown if self.temperature is None else {**shown, "temperature_": self.temperature}

    @cached_property
    def normal(self) -> NormalMixture:
        """What the release says of the true coefficients, solved for when it is first asked for."""
        assert not isinstance(self.inference, str)
        if isinstance(self.inference, NormalMixture):
            return self.inference
        with one_blas_thread():
            return self.inference.posterior()

    def interval(self, level: float) -> dict[str, np.ndarray]:
        """Return the ends of central intervals."""
        ends = [self._split(self.normal.quantiles(0.5 + 0.5 * s * level)) for s in (-1.0, 1.0)]
        return {name: np.stack([end[name] for end in ends], axis=-1) for name in ends[0]}

    def noise_aware_draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Draw from the distribution behind the intervals."""
        size = 1000 if n_samples is None else check_integer("n_samples", n_samples, low=1)
        # derived: the seed of the fit would repeat the secret noise
        generator = randomness.derived_generator(random_state, 1)
        return self._split(self.normal.draws(size, generator))

    def _split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        return split_coefficients(flat[..., None, :], self.coef.shape[1], 1.0)

    def decision(self, X: Any) -> np.ndarray:
        """Logits or logarithms of the probabilities averaged over the states."""
        return self.states.decision(X)

    def probabilities(self, X: Any) -> np.ndarray:
        """Probabilities averaged over the states."""
        return self.states.probabilities(X)

    def draws(self, n_samples: int | None, random_state: Any) -> dict[str, np.ndarray]:
        """Return states of the chain, evenly spaced or chosen at random."""
        chosen = choose_draws(self.states.coef.shape[0], n_samples, random_state)
        return {"coef": self.states.coef[chosen], "intercept": self.states.intercept[chosen]}
