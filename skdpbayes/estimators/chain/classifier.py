"""Classifiers whose coefficients are a private stochastic-gradient Markov chain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skdpbayes import models, privacy
from skdpbayes._validation import is_fitted
from skdpbayes.estimators._classifier import PrivateClassifier
from skdpbayes.estimators.chain import settings as rules
from skdpbayes.estimators.chain.coordinates import plain_dimension
from skdpbayes.estimators.chain.inference import ClassAnswers, LabelAnswers
from skdpbayes.estimators.chain.linear import (
    ChainPosterior,
    LinearChain,
    LinearChainPlan,
    run_linear,
)
from skdpbayes.fitting.records import Public, Records
from skdpbayes.fitting.threads import one_blas_thread
from skdpbayes.privacy.budget import Budget
from skdpbayes.privacy.sensitivity import moved

if TYPE_CHECKING:
    from skdpbayes.privacy.guarantee import Adjacency

# Scales of the Cauchy priors of Gelman et al. (2008), here for rows of length 1
COEFFICIENT_SCALE, INTERCEPT_SCALE = 2.5, 10.0

WEIGHTED = (
    "class weights change how often labels occur, which the model behind the intervals of a chain "
    "does not know"
)


class DPSGLDClassifier(LinearChain, PrivateClassifier):
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
    noisy gradient of every step and with them the whole chain, so its average ``coef_``, every draw
    of ``sample_posterior``, ``interval`` and the predictions cost nothing more, and the moments of
    the rows from which the coordinates of the chain are made (``preconditioner``) under their own
    share of the budget. The claim is unconditional: it does not matter whether the chain has
    converged. Batches are Poisson samples (or uniform of fixed size) with exactly the inclusion
    probability that is accounted for, an empty batch is a noise-only step, and the sum is divided
    by the expected size. Arithmetic: rows and clipped residuals are cut toward zero to a public
    grid, so that sums are exact integers, equal to the last bit for any order of the records,
    blocks and threads; they are mapped to the grid of :math:`2^{-28}` noise standard deviations and
    exact discrete Gaussian noise is added there. What rounding adds to the sensitivity is in the
    noise. With ``units`` all records of a person, weighted to one after they are clipped, take the
    place of a record: they change together, batches are samples of persons, and the number of
    persons is public while that of records is not. With an int ``random_state`` the guarantee needs
    the seed to stay secret. Every refit is a new release, and cross-validation pays once per fold.

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
    class_weight : mapping from label to number, default=None
        Public weights of the records of each label; over the largest they are at most 1, and
        multiply clipped gradients. The claim stays, and so does the noise, while the records
        count less; there are no intervals. Probabilities are those of the weighted labels.
        "balanced" is private: a threshold on ``predict_proba`` is free.
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
        Expected size of a batch, with ``units`` in persons. "auto" takes all records up to 131,072:
        large batches have the least noise per record.
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
        class_weight: Any = None,
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
        self.class_weight = class_weight
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

    def _loss(self, public: Public) -> models.Loss:
        n_classes = public.n_classes
        return models.LogisticLoss() if n_classes == 2 else models.SoftmaxLoss(n_classes)

    def _default_prior(self, public: Public) -> tuple[float, float]:
        return COEFFICIENT_SCALE / float(self.data_norm), INTERCEPT_SCALE

    def _default_clip(self, public: Public, budget: Budget, whitened: bool) -> float:
        d = public.n_features
        mean, _ = self._loss(public).curvature
        dimension = max(1.0, d / 2.0) if whitened else plain_dimension(d)
        return rules.default_clip(
            mean * public.n / dimension,
            moved(budget.adjacency),
            privacy.gdp_mu(budget.epsilon, budget.delta),
            d,
        )

    def _plan(self, public: Public, budget: Budget) -> LinearChainPlan:
        return self._linear_plan(
            public,
            budget,
            start=None if self.start is None else self._start(public),
            conditions=() if self.start is None else _condition_of_start(self.start),
        )

    def _touch(
        self, rows: Records, plan: LinearChainPlan, generator: np.random.Generator
    ) -> ChainPosterior:
        with one_blas_thread():  # moments of all rows alike, whatever class weights there are
            alike = rows if self.class_weight is None else replace(rows, weight=None)
            coordinates = plan.coordinates(alike, generator)
        run = run_linear(plan, rows, coordinates, generator)
        n_classes = rows.public.n_classes
        answers = LabelAnswers() if n_classes == 2 else ClassAnswers(n_classes)
        posterior = replace(run.posterior(rows.bound, answers), link=run.link())
        return posterior if self.class_weight is None else replace(posterior, inference=WEIGHTED)

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
        shape = (self._loss(public).n_outputs, public.n_features)
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


def _condition_of_start(model: Any) -> tuple[str, ...]:
    """A private release as the start is paid for by its own claim; anything else must be public."""
    if math.isfinite(getattr(getattr(model, "privacy_", None), "epsilon", math.inf)):
        return ()
    return (f"the {type(model).__name__} that the chain starts from is public",)
