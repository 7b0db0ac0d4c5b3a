"""Logistic regression whose coefficients are a draw of the tempered posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdpbayes import models
from skdpbayes._validation import check_is_fitted, check_real, validate_data
from skdpbayes.estimators.ops.base import OnePosteriorSample
from skdpbayes.fitting.estimator import offers
from skdpbayes.fitting.records import Public
from skdpbayes.privacy import Adjacency


class OPSLogisticRegression(OnePosteriorSample):
    r"""Logistic regression by one posterior sample: a draw from the posterior is the release.

    The coefficients are drawn from the tempered posterior

    .. math::

        p(\theta \mid X, y) \propto
        \exp\Big(-\beta \Big(\sum_i \ell(\theta; x_i, y_i)
        + \frac{\|\theta\|^2}{2C}\Big)\Big),

    whose mode is scikit-learn's ``LogisticRegression(C)`` (with the intercept penalized as a
    constant feature) and which is the Bayesian posterior under a normal prior of variance C at
    :math:`\beta = 1`. Three and more classes use the softmax likelihood.

    **Privacy guarantee.** ``fit`` is (epsilon, delta)-differentially private for the adjacency
    chosen: one record replaced by another, or (``"zero_out"``) by a null record that contributes
    nothing. The number of records is public, as are all parameters, the label set and the schedule.
    With ``fit(X, y, units=ids)`` all records with one id change together, and the number of persons
    is public instead.
    Released: the ``n_draws`` draws that ``coef_``, ``intercept_`` and ``sample_posterior`` show.

    *delta > 0* (``sampler="langevin"``): the draw is the last state of a Langevin chain with public
    step size and number of steps, and that state is Gaussian differentially private whether or not
    the chain has converged [4]_, so the claim is unconditional. The temperature is calibrated to
    the chain that is run. At a finite number of steps the law of the draw is the chain's, which
    starts at zero: shrunk toward zero along directions that the data inform least.
    ``sampler="hmc"`` and ``"rejection"`` target the density itself, which is Gaussian DP too [3]_.

    *delta = 0*: the exponential mechanism on the ball of radius ``coef_norm`` [1]_.
    ``sampler="rejection"`` draws exactly; ``"hmc"`` is private on the condition, stated in
    ``privacy_.conditions``, that the chain has converged (and, for more draws than ``n_chains``,
    that states of one Hamiltonian chain ten transitions apart are independent).
    `skdpbayes.papers.approximation_delta` prices a known distance from it.

    Arithmetic: rows are read to 20 bits of ``data_norm`` and sums over records are exact, whatever
    their blocks, storage or threads. What cuts and roundings amount to is in the sensitivity of
    gradients and, for the potential, in the price on a ball (``"rejection"`` without a ball is
    exact up to it). Draws are snapped to a public grid. Run time may depend on the data,
    most of all for ``"rejection"``: do not let an adversary time it. With an int
    ``random_state`` the guarantee needs the seed to stay secret and to serve one fit only. Every
    refit is a new release, and cross-validation pays once per fold.

    **Without privacy** (``epsilon=np.inf``) this is the ordinary model on the rows as they are:
    ``coef_`` is the mode at :math:`\beta = 1`, that is, ``LogisticRegression(C_)``, on the whole
    space, and ``sample_posterior`` draws as many as wanted from the normal (Laplace) approximation
    around it. ``data_norm``, ``coef_norm`` and everything about samplers then has no part in it.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget, > 0; smaller is more private. ``np.inf`` is the ordinary model: the mode of
        the posterior, with a normal approximation around it.
    delta : float, default=1e-5
        In [0, 1). Probability mass on which epsilon may fail; 0 selects the pure mechanism.
    adjacency : {"replace_one", "zero_out"}, default="replace_one"
        What may change between neighboring data sets.
    data_norm : float, default=1.0
        Public bound on the L2 norm of a row; longer rows are scaled down to it, in ``fit`` and in
        every prediction alike. At ``epsilon=np.inf`` rows are taken as they are.
    C : float or "auto", default="auto"
        Inverse strength of the penalty. ``"auto"`` is a public rule of epsilon, delta and norms:
        noise moves a record's logit by about 1.5 (and C is at most 100). For ``delta=0`` it
        gives the prior a standard deviation of ``coef_norm / sqrt(2 p)``, p coefficients, and
        without privacy it is 100.
    coef_norm : float or None, default=None
        A constraint: radius of the ball that holds the coefficients, intercept included. With
        ``delta > 0`` None means no ball; with ``delta = 0`` it means 6 divided by the norm of a
        record. A smaller ball allows less noise.
    classes : array-like or None, default=None
        The public label set; None takes it from y, which treats the labels that occur as public.
    fit_intercept : bool, default=True
        Whether to add a constant feature.
    intercept_scaling : float, default=1.0
        The constant feature. It counts in the norm of a record.
    sampler : {"auto", "langevin", "rejection", "hmc"}, default="auto"
        ``"auto"``: Langevin if delta > 0, otherwise rejection where its public bound on the number
        of tries allows it and Hamiltonian Monte Carlo elsewhere. A setting below that the sampler
        does not have is refused.
    n_draws : int, default=1
        Number of draws released within the budget; more draws are noisier ones.
    calibration : {"tight", "wang2015", "minami2016"}, default="tight"
        How beta follows from the budget; the published rules are for comparison. ``"wang2015"``
        needs delta = 0, ``"minami2016"`` (their Corollary 8) delta > 0 and epsilon <= 1.
    cap_at_posterior : bool, default=True
        Whether beta stays at most 1, the true posterior, where the budget would allow more.
    n_steps : int or "auto", default="auto"
        Gradient steps of the Langevin chain (rounded up to whole epochs), or transitions of the
        Hamiltonian chains after tuning (200).
    step_size : float or "auto", default="auto"
        Langevin step on the sum of losses and penalty, at most :math:`2/(M+1/C)` with *M* the
        public curvature bound :math:`nR^2/4` (softmax: :math:`nR^2/2`).
    n_batches : int or "auto", default="auto"
        Into how many batches the Langevin chain splits the rows; each step reads one, in turn.
    n_chains : int or "auto", default="auto"
        Number of Hamiltonian chains that are run side by side; ``"auto"`` is 4.
    diagnostics : bool, default=False
        Keep ``diagnostics_`` of Hamiltonian chains; they are not private.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        None: a cryptographically secure generator. An int: reproducible.
    ledger : PrivacyLedger or None, default=None
        Account that ``fit`` charges before it looks at the data.
    progress : bool, default=False
        Show a progress bar of the chain.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Released: the draw, or the mean of several; without privacy the mode.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Released with it.
    classes_ : ndarray of shape (n_classes,)
        Public: the label set.
    inverse_temperature_ : float
        Public: beta.
    C_ : float
        Public: the C that was used.
    step_size_ : float or None
        Public: the Langevin step.
    n_steps_ : int or None
        Public: the Langevin steps before the first draw.
    noise_ : Noise or None
        Public: law and scale of the noise of a Langevin step; None where the draw itself is all
        the noise there is.
    n_records_ : int
        Public: the number of training records.
    privacy_ : PrivacyGuarantee
        Public: the claim, with its privacy profile.
    diagnostics_ : dict
        Not released and not private; only with ``diagnostics=True`` and ``sampler="hmc"``: largest
        split R-hat, smallest effective sample size, acceptance and step size.

    See Also
    --------
    skdpbayes.OPSLinearSVC : The same with the hinge loss.

    References
    ----------
    .. [1] Y.-X. Wang, S. Fienberg and A. Smola. Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo. ICML 2015. Theorem 4, Proposition 9. The range used here is exact,
       :math:`2Rr` in place of :math:`4\log(1+e^{Rr})`.
    .. [2] K. Minami, H. Arai, I. Sato and H. Nakagawa. Differential privacy without sensitivity.
       NeurIPS 2016. Theorem 7, Corollary 8, Theorem 16.
    .. [3] S. Gopi, Y. T. Lee and D. Liu. Private convex optimization via exponential mechanism.
       COLT 2022. Theorem 4.1.
    .. [4] J. Bok, W. Su and J. Altschuler. Shifted interpolation for differential privacy.
       ICML 2024. Theorems 4.3 and 4.5.

    Examples
    --------
    >>> from skdpbayes import OPSLogisticRegression
    >>> from skdpbayes.datasets import make_census
    >>> X, y = make_census(5000, encoding="raw", return_X_y=True, random_state=0)
    >>> model = OPSLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.6
    True
    >>> model.privacy_.conditions
    ()
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        adjacency: Adjacency = "replace_one",
        data_norm: float = 1.0,
        C: float | str = "auto",
        coef_norm: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        sampler: str = "auto",
        n_draws: int = 1,
        calibration: str = "tight",
        cap_at_posterior: bool = True,
        n_steps: int | str = "auto",
        step_size: float | str = "auto",
        n_batches: int | str = "auto",
        n_chains: int | str = "auto",
        diagnostics: bool = False,
        random_state: Any = None,
        ledger: Any = None,
        progress: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.data_norm = data_norm
        self.C = C
        self.coef_norm = coef_norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.sampler = sampler
        self.n_draws = n_draws
        self.calibration = calibration
        self.cap_at_posterior = cap_at_posterior
        self.n_steps = n_steps
        self.step_size = step_size
        self.n_batches = n_batches
        self.n_chains = n_chains
        self.diagnostics = diagnostics
        self.random_state = random_state
        self.ledger = ledger
        self.progress = progress

    def _loss(self, public: Public) -> models.Loss:
        if public.n_classes == 2:
            return models.LogisticLoss()
        return models.SoftmaxLoss(public.n_classes)

    @available_if(offers("interval"))
    def interval(self, level: float = 0.9, *, X: Any = None) -> dict[str, np.ndarray]:
        """Confidence intervals of the true coefficients, from the released draws.

        A draw from the tempered posterior makes the score known up to noise of known covariance;
        that equation is solved for the true coefficients, with expectations over public rows ``X``.
        So the prior, the temperature and a Langevin chain that was stopped early are allowed for.
        The coefficients are those of the model on bounded rows: where ``data_norm`` cuts many rows,
        they differ from the coefficients of the rows as they are. Without ``X`` the scatter of
        several draws is used, where the prior is weak and the scatter small. It is post-processing
        and costs no privacy. With ``epsilon=np.inf`` the intervals are those of the normal
        approximation around the mode.

        Parameters
        ----------
        level : float, default=0.9
            Coverage of each interval, in (0, 1).
        X : {array-like, sparse matrix} of shape (n_rows, n_features), default=None
            Rows of the same distribution as the training rows, over which expectations are taken;
            labels are not needed. They must be public (a reference sample, or simulated): the
            intervals depend on them without noise. None: use the draws, which needs
            ``n_draws >= 2`` and a sampler other than ``"langevin"``.

        Returns
        -------
        dict of ndarrays
            ``{"coef": (1, n_features, 2), "intercept": (1, 2)}``, lower and upper ends. Two classes
            only, except for ``epsilon=np.inf``.

        Raises
        ------
        ValueError
            Where the draws are too noisy, or without ``X`` the prior too strong, for intervals that
            would cover.
        """
        level = check_real("level", level, low=0.0, high=1.0, closed="neither")
        check_is_fitted(self)
        if X is not None:
            X = validate_data(self, X, reset=False, **self._table_checks | {"dtype": np.float64})
        return self._posterior.interval(level, X)
